'use strict'

// Values as streams of Node.js.
//
// Invariants:
// 1. A value whose source throws is not written.
// 2. A stream of a value has one version of it. Its native part is dropped when it ends or is destroyed,
//    and by the garbage collector.

const { Readable } = require('node:stream')
const binding = require('./binding')
const { call, callLater, invalid } = require('./errors')
const { bytesOf, packBytes, sending } = require('./ingest')

const CHUNK_BYTES = 64 << 10
const READ_BYTES = 256 << 10

const lost = new FinalizationRegistry(number => binding.dropObject(number))

// Puts the bytes of a source under an encoded key. Returns their number.
exports.putStream = function (part, key, source, loads) {
  return sending(bytesOf(source), packBytes, CHUNK_BYTES, loads, load => (
    callLater(binding.putStreamLater, part, key, load)
  ))
}

class ValueStream extends Readable {
  #number
  #position
  #end
  #valueBytes

  // `number` is the native reader. The options have been checked.
  constructor (number, valueBytes, { start = 0, end = Infinity, highWaterMark = READ_BYTES }) {
    super({ highWaterMark })
    this.#number = number
    this.#position = start
    this.#end = Math.min(end + 1, valueBytes)
    this.#valueBytes = valueBytes
    lost.register(this, number, this)
  }

  // Length of the whole value, in bytes.
  get valueBytes () {
    return this.#valueBytes
  }

  _read (size) {
    const bytes = Math.min(size, this.#end - this.#position)
    if (bytes <= 0) {
      this.push(null)
      return
    }
    callLater(binding.readValueLater, this.#number, this.#position, bytes).then(read => {
      this.#position += read.length
      this.push(read)
    }, err => this.destroy(err))
  }

  _destroy (err, done) {
    lost.unregister(this)
    binding.dropObject(this.#number)
    done(err)
  }
}

function check (options) {
  for (const name of ['start', 'end', 'highWaterMark']) {
    const given = options?.[name]
    if (given === undefined || (name === 'end' && given === Infinity)) continue
    const least = name === 'highWaterMark' ? 1 : 0
    if (!Number.isSafeInteger(given) || given < least) {
      throw invalid(`the option ${name} must be an integer of at least ${least}, not ${String(given)}`)
    }
  }
}

// Returns the stream of a native reader, or undefined without one.
exports.valueStream = function (number, options) {
  if (number === undefined) return undefined
  try {
    check(options)
    return new ValueStream(number, call(binding.valueBytes, number), options ?? {})
  } catch (err) {
    binding.dropObject(number)
    throw err
  }
}

exports.ValueStream = ValueStream
