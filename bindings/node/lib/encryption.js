'use strict'

// Keys of encrypted databases.
//
// Invariants:
// 1. No error has the bytes of a key.
// 2. A function that gives keys is called in the thread of JavaScript, before the native part begins.

const binding = require('./binding')
const { callLater, invalid } = require('./errors')

// Returns the hexadecimal digits of a key. A text has them, perhaps with blanks or newlines around them.
function digitsOf (key) {
  if (typeof key === 'string') {
    const digits = key.trim()
    if (/^[0-9a-f]{64}$/i.test(digits)) return digits
    throw invalid('a key that is a text must have 64 hexadecimal digits; `openssl rand -hex 32` makes one')
  }
  if (ArrayBuffer.isView(key)) return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('hex')
  throw invalid(`a key must be bytes or a text of hexadecimal digits, not ${typeof key}`)
}

// Returns the names and values of the options with a key, for the native part. The function of a key
// gets the name of the key of what is in `location`; undefined for a new database, or a new key.
exports.keyPairsOf = async function (options, location) {
  const { key, keyFile } = options ?? {}
  if (keyFile !== undefined && keyFile !== null) {
    if (key !== undefined && key !== null) throw invalid('key and keyFile cannot both be given')
    if (typeof keyFile !== 'string' || keyFile === '') throw invalid('keyFile must be the name of a file')
    return ['encryption.key_file', keyFile]
  }
  if (key === undefined || key === null) return []
  if (typeof key !== 'function') return ['encryption.key', digitsOf(key)]
  const [name] = location === undefined ? [] : await callLater(binding.wantedKeyLater, location) ?? []
  const given = await key(name)
  if (typeof given === 'string' || ArrayBuffer.isView(given)) return ['encryption.key', digitsOf(given)]
  if (typeof given?.name !== 'string') throw invalid('the function key must return a key, or an object with key and name')
  return ['encryption.key', digitsOf(given.key), 'encryption.key_name', given.name]
}

// Returns options without a key.
exports.withoutKey = function (options) {
  const { key, keyFile, ...own } = options ?? {}
  return own
}
