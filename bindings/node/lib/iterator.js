'use strict'

// Iterators. One crossing fetches many entries.
//
// Invariants:
// 1. Entries leave in the order of their keys, each once.
// 2. Fills grow from a few entries to FILL_PAIRS, so that a short read stays short.

const { AbstractIterator } = require('abstract-level')
const ModuleError = require('module-error')
const binding = require('./binding')
const crossing = require('./crossing')
const { call, callLater } = require('./errors')
const { FILL_US_MAX } = require('./pace')

const FIRST_PAIRS = 8
const FILL_PAIRS = 1000
const FILL_BYTES = 128 << 10
const none = []

// The flags of src/iterator.rs.
const REVERSE = 1
const HAS_START = 2
const START_INCLUDED = 4
const HAS_END = 8
const END_INCLUDED = 16
const KEYS = 32
const VALUES = 64
const FILL_CACHE = 128

// Makes the native iterator of a range with `open`, which gets flags and the lengths of the bounds.
// Returns its number. It is made before the object, so that an error leaves none behind.
function openRange (options, open) {
  let flags = (options.reverse ? REVERSE : 0) | (options.keys ? KEYS : 0) |
    (options.values ? VALUES : 0) | (options.fillCache === true ? FILL_CACHE : 0)
  const start = options.gte ?? options.gt
  const end = options.lte ?? options.lt
  let startBytes = 0
  let endBytes = 0
  if (start !== undefined && start !== null) {
    flags |= HAS_START | (start === options.gte ? START_INCLUDED : 0)
    startBytes = crossing.writeKey(start)
  }
  if (end !== undefined && end !== null) {
    flags |= HAS_END | (end === options.lte ? END_INCLUDED : 0)
    endBytes = crossing.writeValue(startBytes, end)
  }
  return call(open, flags, startBytes, endBytes)
}

class EskerIterator extends AbstractIterator {
  #number
  #ids
  #keyIsText
  #valueIsText
  #keys
  #values
  #cache = none
  #position = 0
  #size = FIRST_PAIRS
  #left
  #done = false
  #isSlow
  #signal

  // `number` is the native iterator. `ids` are the objects of the store.
  constructor (db, options, ids, isSlow, number) {
    super(db, options)
    this.#keys = options.keys
    this.#values = options.values
    this.#keyIsText = options.keyEncoding === 'utf8'
    this.#valueIsText = options.valueEncoding === 'utf8'
    this.#left = options.limit >= 0 ? options.limit : Infinity
    this.#isSlow = isSlow
    this.#ids = ids
    this.#signal = options.signal ?? null
    this.#number = number
    ids.add(number)
  }

  _seek (target, options) {
    this.#left += this.#cache.length - this.#position
    this.#cache = none
    this.#position = 0
    this.#size = FIRST_PAIRS
    this.#done = false
    call(binding.iteratorSeek, this.#number, crossing.writeKey(target))
  }

  _next () {
    return this.#signal === null ? this.#one() : this.#unlessAborted(this.#one())
  }

  _nextv (size, options) {
    return this.#signal === null ? this.#many(size) : this.#unlessAborted(this.#many(size))
  }

  // Waits for a result, and drops it if the signal was given meanwhile.
  async #unlessAborted (result) {
    const awaited = await result
    if (this.#signal.aborted) throw new AbortError()
    return awaited
  }

  #one () {
    if (this.#position < this.#cache.length) return this.#cache[this.#position++]
    if (this.#done) return undefined
    const size = Math.min(this.#size, this.#left)
    this.#size = Math.min(this.#size * 8, FILL_PAIRS)
    const filled = this.#fill(size)
    return filled instanceof Promise ? filled.then(cache => this.#first(cache)) : this.#first(filled)
  }

  #first (cache) {
    this.#cache = cache
    this.#position = 1
    return cache[0]
  }

  #many (size) {
    if (this.#position < this.#cache.length) {
      const end = Math.min(this.#position + size, this.#cache.length)
      const chunk = this.#cache.slice(this.#position, end)
      this.#position = end
      return chunk
    }
    return this.#done ? [] : this.#fill(size)
  }

  // Returns up to `size` entries, or a promise of them.
  #fill (size) {
    if (this.#isSlow) return this.#fillLater(size)
    const began = performance.now()
    const isOutput = call(binding.iteratorFill, this.#number, size, FILL_BYTES)
    if ((performance.now() - began) * 1000 > FILL_US_MAX) this.#isSlow = true
    return this.#take(crossing.takeReply(isOutput))
  }

  async #fillLater (size) {
    const reply = await callLater(binding.iteratorFillLater, this.#number, size, FILL_BYTES)
    if (crossing.microseconds(reply) < FILL_US_MAX / 2) this.#isSlow = false
    return this.#take(reply)
  }

  #take (reply) {
    this.#done = crossing.isDone(reply)
    const entries = crossing.entries(
      reply, this.#keyIsText, this.#valueIsText, this.#keys, this.#values
    )
    this.#left -= entries.length
    return entries
  }

  async _close () {
    this.#cache = none
    this.#done = true
    this.#ids.delete(this.#number)
    binding.dropObject(this.#number)
  }
}

class AbortError extends ModuleError {
  constructor () {
    super('Operation has been aborted', { code: 'LEVEL_ABORTED' })
  }

  // The name that the web has for it.
  get name () {
    return 'AbortError'
  }
}

exports.openRange = openRange
exports.EskerIterator = EskerIterator
