'use strict'

// The two buffers that this thread shares with the native part, and what is in them.
//
// Invariants:
// 1. A call of the native part follows at once on the writing of its arguments: no other code of
//    JavaScript runs between them.
// 2. What a reply contains is copied before the next call.
// 3. A key or value that a program keeps holds at most GROUP_BYTES of other pairs in memory, or its
//    own length if that is more.

const binding = require('./binding')
const { invalid } = require('./errors')

const KEY_BYTES_MAX = 1 << 20
const VALUE_BYTES_MAX = 1 << 30
const EXACT_LENGTH = 64 << 10
const INPUT_BYTES = 256 << 10
const OUTPUT_BYTES = 256 << 10
const GROUP_BYTES = 4096
const HEADER_BYTES = 16
const MISSING = 0xffffffff

const ASCII = 2
const empty = Buffer.alloc(0)

let input = Buffer.allocUnsafeSlow(INPUT_BYTES)
const output = Buffer.allocUnsafeSlow(OUTPUT_BYTES)
binding.start(input, output)

// Writes a string or bytes at a position of a buffer that is large enough. Returns the length.
function copy (to, at, data) {
  if (typeof data !== 'string') {
    to.set(data, at)
    return data.byteLength
  }
  const length = data.length
  if (length > 12) return to.utf8Write(data, at)
  for (let i = 0; i < length; i++) {
    const code = data.charCodeAt(i)
    if (code > 127) return to.utf8Write(data, at)
    to[at + i] = code
  }
  return length
}

// Returns the most bytes that a string or bytes can have: exactly, if that saves much memory.
function most (data) {
  if (typeof data !== 'string') return data.byteLength
  return data.length < EXACT_LENGTH ? data.length * 3 : Buffer.byteLength(data)
}

function checkKey (key) {
  const bytes = typeof key === 'string' ? key.length : key.byteLength
  if (bytes > KEY_BYTES_MAX) {
    throw invalid(`the key has ${bytes} bytes; the maximum is ${KEY_BYTES_MAX}`)
  }
}

function checkValue (value) {
  const bytes = typeof value === 'string' ? value.length : value.byteLength
  if (bytes > VALUE_BYTES_MAX) {
    throw invalid(`the value has ${bytes} bytes; the maximum is ${VALUE_BYTES_MAX}`)
  }
}

function reserve (bytes, kept) {
  if (bytes <= input.length) return
  const larger = Buffer.allocUnsafeSlow(Math.max(bytes, input.length * 2))
  input.copy(larger, 0, 0, kept)
  input = larger
  binding.setInput(input)
}

// Writes a key into the input, at its start. Returns its length.
exports.writeKey = function (key) {
  checkKey(key)
  reserve(most(key), 0)
  return copy(input, 0, key)
}

// Writes a value into the input, after a key.
exports.writeValue = function (at, value) {
  reserve(at + most(value), at)
  return copy(input, at, value)
}

// Writes bytes into the input, at its start.
exports.writeBytes = function (bytes) {
  reserve(bytes.length, 0)
  input.set(bytes)
}

// Returns a copy of the first bytes of the input.
exports.inputCopy = function (bytes) {
  return Buffer.from(input.subarray(0, bytes))
}

// Returns a key as bytes of its own.
exports.toBytes = function (key) {
  checkKey(key)
  return typeof key === 'string' ? Buffer.from(key) : Buffer.from(key.buffer, key.byteOffset, key.byteLength)
}

// Makes packed records: in the input while they are few, otherwise in a buffer of its own.
class Packer {
  constructor (own) {
    this.buffer = own ? Buffer.allocUnsafeSlow(1024) : input
    this.at = 0
  }

  get isInput () {
    return this.buffer === input
  }

  get packed () {
    return this.buffer.subarray(0, this.at)
  }

  reserve (bytes) {
    const needed = this.at + bytes
    if (needed <= this.buffer.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.buffer.length * 2))
    this.buffer.copy(larger, 0, 0, this.at)
    this.buffer = larger
  }

  number (at, number) {
    const buffer = this.buffer
    buffer[at] = number
    buffer[at + 1] = number >>> 8
    buffer[at + 2] = number >>> 16
    buffer[at + 3] = number >>> 24
  }

  // Adds a key with its length.
  key (key) {
    checkKey(key)
    this.reserve(4 + most(key))
    const bytes = copy(this.buffer, this.at + 4, key)
    this.number(this.at, bytes)
    this.at += 4 + bytes
  }

  // Adds an operation (src/write.rs).
  operation (kind, part, key, value, ttl) {
    checkKey(key)
    checkValue(value)
    this.reserve(21 + most(key) + most(value))
    const start = this.at
    let at = start + 13
    this.buffer[start] = kind
    this.number(start + 1, part)
    if (ttl !== undefined) at = this.buffer.writeDoubleLE(ttl, at)
    const keyBytes = copy(this.buffer, at, key)
    const valueBytes = copy(this.buffer, at + keyBytes, value)
    this.number(start + 5, keyBytes)
    this.number(start + 9, valueBytes)
    this.at = at + keyBytes + valueBytes
  }
}

exports.Packer = Packer
exports.empty = empty

// The kinds of operations.
exports.PUT = 1
exports.DELETE = 2
exports.PUT_WITH_TTL = 3
exports.MERGE = 4
exports.DELETE_RANGE = 5

// Returns a value that is in the output, or that a call has left because it is too long for that.
exports.takeBytes = function (bytes) {
  if (bytes === -1) return undefined
  if (bytes === -2) return binding.takeLarge()
  const value = Buffer.allocUnsafe(bytes)
  if (bytes > 24) {
    output.copy(value, 0, 0, bytes)
  } else {
    for (let i = 0; i < bytes; i++) value[i] = output[i]
  }
  return value
}

// Returns a reply.
exports.takeReply = function (isOutput) {
  return isOutput ? output : binding.takeLarge()
}

exports.count = reply => reply.readUInt32LE(0)
exports.isDone = reply => (reply[4] & 1) !== 0
exports.microseconds = reply => reply.readDoubleLE(8) / 1000

const number = (b, at) => (b[at] | b[at + 1] << 8 | b[at + 2] << 16 | b[at + 3] << 24) >>> 0

// Takes texts or bytes from a reply. Neighbours share a copy of a group of pairs.
class Taker {
  constructor (reply, isText) {
    this.reply = reply
    this.isText = isText
    this.isAscii = (reply[4] & ASCII) !== 0
    this.start = 0
    this.end = 0
    this.group = null
  }

  take (from, to) {
    if (from === to) return this.isText ? '' : empty
    if (this.isText && !this.isAscii) return this.reply.utf8Slice(from, to)
    if (from < this.start || to > this.end) {
      this.start = from
      this.end = Math.min(Math.max(to, from + GROUP_BYTES), this.reply.length)
      this.group = this.isText
        ? this.reply.latin1Slice(this.start, this.end)
        : Buffer.from(this.reply.subarray(this.start, this.end))
    }
    return this.isText
      ? this.group.substring(from - this.start, to - this.start)
      : this.group.subarray(from - this.start, to - this.start)
  }
}

// Returns the entries of a reply.
exports.entries = function (reply, keyIsText, valueIsText, keys, values) {
  const count = number(reply, 0)
  const result = new Array(count)
  const key = keys ? new Taker(reply, keyIsText) : null
  const value = !values ? null : key !== null && keyIsText === valueIsText ? key : new Taker(reply, valueIsText)
  let at = HEADER_BYTES
  for (let i = 0; i < count; i++) {
    const middle = at + 8 + number(reply, at)
    const end = middle + number(reply, at + 4)
    result[i] = [
      key === null ? undefined : key.take(at + 8, middle),
      value === null ? undefined : value.take(middle, end)
    ]
    at = end
  }
  return result
}

// Returns the values of a reply, with undefined for a missing one.
exports.values = function (reply, isText) {
  const count = number(reply, 0)
  const result = new Array(count)
  const taker = new Taker(reply, isText)
  let at = HEADER_BYTES + 8
  for (let i = 0; i < count; i++) {
    const bytes = number(reply, at - 4)
    if (bytes === MISSING) {
      result[i] = undefined
      at += 8
    } else {
      result[i] = taker.take(at, at + bytes)
      at += bytes + 8
    }
  }
  return result
}

// Returns for each key of a reply whether it exists.
exports.truths = function (reply) {
  const count = number(reply, 0)
  const result = new Array(count)
  for (let i = 0; i < count; i++) {
    result[i] = number(reply, HEADER_BYTES + 8 * i + 4) !== MISSING
  }
  return result
}
