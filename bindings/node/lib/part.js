'use strict'

// What a database and a keyspace have in common: the methods of abstract-level, and those that only
// Esker has.
//
// Invariants:
// 1. `this[kPart]` is the number of the native object while the database is open.
// 2. `this[kStore]` is shared by the database and its keyspaces.
// 3. A write that need not wait is done in the thread of JavaScript. Otherwise it queues.

const { AbstractLevel, AbstractSnapshot } = require('abstract-level')
const binding = require('./binding')
const crossing = require('./crossing')
const { call, callLater, fromNative, invalid, notOpen } = require('./errors')
const { checkFiles, loading, reportOf } = require('./ingest')
const { EskerIterator, openRange } = require('./iterator')
const operations = require('./operations')
const { deadlineOf, durableOf, ttlOf } = require('./options')
const { putStream, valueStream } = require('./streamed')

const kPart = Symbol('part')
const kStore = Symbol('store')
const kSnapshot = Symbol('snapshot')
const { Packer, PUT, DELETE, PUT_WITH_TTL, MERGE } = crossing

// Most bytes of a write, and most keys of a read, in the thread of JavaScript.
const NOW_BYTES_MAX = 64 << 10
const NOW_KEYS_MAX = 1000
const CLEAR_KEYS = 1000

const manifest = {
  encodings: { buffer: true, utf8: true, view: true },
  has: true,
  createIfMissing: true,
  errorIfExists: true,
  explicitSnapshots: true,
  getSync: true,
  signals: { iterators: true },
  additionalMethods: {
    approximateSize: true,
    compactRange: true,
    merge: true,
    remove: true,
    touch: true,
    expiry: true,
    ingest: true,
    bulkLoad: true,
    putStream: true,
    getStream: true
  }
}

const toBytes = data => typeof data === 'string' ? Buffer.from(data) : Buffer.from(data.buffer, data.byteOffset, data.byteLength)
const length = data => typeof data === 'string' ? data.length : data.byteLength

// Returns the number of a read's snapshot, or -1 if it has none.
function snapshotOf (options) {
  const snapshot = options.snapshot
  if (snapshot === undefined || snapshot === null) return -1
  if (snapshot[kSnapshot] === undefined) throw invalid('the snapshot is not one of an Esker database')
  return snapshot[kSnapshot]()
}

// Returns the keyspace of an operation and the key within it.
function targetOf (db, op) {
  const sublevel = op.sublevel
  if (sublevel === undefined || sublevel === null) return [db[kPart], op.key]
  if (sublevel instanceof Part) return [partOf(sublevel), op.key]
  return [partOf(sublevel.db), sublevel.prefixKey(op.key, op.keyEncoding, false)]
}

function partOf (db) {
  const part = db?.[kPart]
  if (part === undefined) throw notOpen('the keyspace or database of an operation')
  return part
}

class Snapshot extends AbstractSnapshot {
  #number
  #ids

  constructor (store, number, options) {
    super(options)
    this.#number = number
    this.#ids = store.ids.add(number)
  }

  [kSnapshot] () {
    return this.#number
  }

  async _close () {
    this.#ids.delete(this.#number)
    binding.dropObject(this.#number)
    this.#number = -1
  }
}

class Part extends AbstractLevel {
  constructor (additionalMethods, options) {
    super({
      ...manifest,
      additionalMethods: { ...manifest.additionalMethods, ...additionalMethods }
    }, options)
    this[kPart] = undefined
    this[kStore] = undefined
  }

  // Reads.

  _getSync (key, options) {
    const bytes = crossing.writeKey(key)
    const snapshot = snapshotOf(options)
    const fillCache = options.fillCache !== false
    try {
      if (options.valueEncoding === 'utf8') {
        return binding.getText(this[kPart], bytes, snapshot, fillCache) ?? undefined
      }
      return crossing.takeBytes(binding.getBytes(this[kPart], bytes, snapshot, fillCache))
    } catch (err) {
      throw fromNative(err)
    }
  }

  _get (key, options) {
    const pace = this[kStore].pace
    if (pace.isSlow) return this.#getLater(key, options)
    if (!pace.isSample) return this._getSync(key, options)
    const began = performance.now()
    const value = this._getSync(key, options)
    pace.note((performance.now() - began) * 1000)
    return value
  }

  async #getLater (key, options) {
    const reply = await this.#readLater([key], options, true)
    return crossing.values(reply, options.valueEncoding === 'utf8')[0]
  }

  #packKeys (keys) {
    const packer = new Packer(false)
    for (const key of keys) packer.key(key)
    return packer
  }

  async #readLater (keys, options, values) {
    const { packed } = this.#packKeys(keys)
    const reply = await callLater(
      binding.getManyLater, this[kPart], packed, snapshotOf(options), options.fillCache !== false, values
    )
    this[kStore].pace.note(crossing.microseconds(reply) / keys.length)
    return reply
  }

  // Returns a reply, or a promise of one.
  #read (keys, options, values) {
    const pace = this[kStore].pace
    if (pace.isSlow || keys.length > NOW_KEYS_MAX) return this.#readLater(keys, options, values)
    const packer = this.#packKeys(keys)
    if (!packer.isInput) return this.#readLater(keys, options, values)
    const began = performance.now()
    const isOutput = call(
      binding.getMany, this[kPart], packer.at, snapshotOf(options), options.fillCache !== false, values
    )
    pace.note((performance.now() - began) * 1000 / Math.max(keys.length, 1))
    return crossing.takeReply(isOutput)
  }

  _getMany (keys, options) {
    const isText = options.valueEncoding === 'utf8'
    const reply = this.#read(keys, options, true)
    if (!(reply instanceof Promise)) return crossing.values(reply, isText)
    return reply.then(reply => crossing.values(reply, isText))
  }

  async _has (key, options) {
    if (this[kStore].pace.isSlow) return (await this._hasMany([key], options))[0]
    const bytes = crossing.writeKey(key)
    return call(binding.has, this[kPart], bytes, snapshotOf(options), options.fillCache !== false)
  }

  _hasMany (keys, options) {
    const reply = this.#read(keys, options, false)
    if (!(reply instanceof Promise)) return crossing.truths(reply)
    return reply.then(crossing.truths)
  }

  _iterator (options) {
    const { ids, pace } = this[kStore]
    // Over a closed snapshot, abstract-level refuses the reads of the iterator.
    const snapshot = snapshotOf(options)
    const number = openRange(options, (...range) => binding.iterator(this[kPart], snapshot, ...range))
    return new EskerIterator(this, options, ids, pace.isSlow, number)
  }

  _snapshot (options) {
    return this._snapshotOf(call(binding.snapshot, this[kPart]), options)
  }

  _snapshotOf (number, options) {
    return new Snapshot(this[kStore], number, options)
  }

  // Writes.

  // Returns whether a write of so many bytes may be tried in this thread.
  #isNow (durable, bytes) {
    return durable !== 3 && bytes <= NOW_BYTES_MAX && this[kStore].writes.isIdle
  }

  _put (key, value, options) {
    const durable = durableOf(options)
    const deadline = deadlineOf(options)
    const ttl = ttlOf(options)
    if (ttl === undefined && this.#isNow(durable, length(key) + length(value))) {
      const keyBytes = crossing.writeKey(key)
      const valueBytes = crossing.writeValue(keyBytes, value)
      if (call(binding.putNow, this[kPart], keyBytes, valueBytes, durable)) return
    }
    return this.#one(ttl === undefined ? PUT : PUT_WITH_TTL, key, value, durable, deadline, ttl)
  }

  _del (key, options) {
    const durable = durableOf(options)
    const deadline = deadlineOf(options)
    if (this.#isNow(durable, length(key))) {
      if (call(binding.deleteNow, this[kPart], crossing.writeKey(key), durable)) return
    }
    return this.#one(DELETE, key, crossing.empty, durable, deadline)
  }

  #one (kind, key, value, durable, deadline, ttl) {
    const packer = new Packer(false)
    packer.operation(kind, this[kPart], key, value, ttl)
    return this.#write(packer, durable, deadline)
  }

  batch (...args) {
    if (!operations.hasOwn(args[0])) return super.batch(...args)
    return this._whenOpen(() => operations.batch(
      this, args[0], args[1], targetOf, (others, options) => super.batch(others, options)
    ))
  }

  _batch (ops, options) {
    const durable = durableOf(options)
    const deadline = deadlineOf(options)
    const packer = new Packer(false)
    operations.pack(packer, this, ops, options, targetOf)
    return this.#write(packer, durable, deadline)
  }

  // Writes packed operations: now if that needs no wait, otherwise in the queue.
  #write (packer, durable, deadline) {
    const store = this[kStore]
    if (packer.isInput) {
      if (this.#isNow(durable, packer.at) && call(binding.writeNow, this[kPart], packer.at, durable)) {
        return
      }
      return store.writes.push(this[kPart], crossing.inputCopy(packer.at), durable, deadline)
    }
    return store.writes.push(this[kPart], packer.packed, durable, deadline)
  }

  // Writes the operations of a chained batch, which has a buffer of its own.
  _writeOwn (packer, options) {
    const durable = durableOf(options)
    const deadline = deadlineOf(options)
    if (this.#isNow(durable, packer.at)) {
      crossing.writeBytes(packer.packed)
      if (call(binding.writeNow, this[kPart], packer.at, durable)) return
    }
    return this[kStore].writes.push(this[kPart], packer.packed, durable, deadline)
  }

  _chainedBatch () {
    // Required here because it needs this file.
    return new (require('./chained-batch').ChainedBatch)(this)
  }

  async _clear (options) {
    await this[kStore].writes.drain()
    if (options.limit === -1 && options.snapshot == null) return this.#clearRange(options)
    const iterator = this._iterator({ ...options, keys: true, values: false, keyEncoding: 'buffer' })
    try {
      let left = options.limit === -1 ? Infinity : options.limit
      while (left > 0) {
        const entries = await iterator._nextv(Math.min(left, CLEAR_KEYS))
        if (entries.length === 0) break
        left -= entries.length
        await this._batch(entries.map(([key]) => ({ type: 'del', key, keyEncoding: 'buffer' })), options)
      }
    } finally {
      await iterator.close()
    }
  }

  #clearRange (options) {
    let start = crossing.empty
    if (options.gte !== undefined && options.gte !== null) {
      start = crossing.toBytes(options.gte)
    } else if (options.gt !== undefined && options.gt !== null) {
      start = Buffer.concat([crossing.toBytes(options.gt), Buffer.alloc(1)])
    }
    const end = options.lte ?? options.lt
    const isInclusive = options.lte !== undefined && options.lte !== null
    return callLater(
      binding.clearLater, partOf(this), start, end == null ? undefined : crossing.toBytes(end),
      isInclusive, durableOf(options)
    )
  }

  // What only Esker has.

  // Runs `work` when the database is open.
  _whenOpen (work) {
    if (this.status === 'opening') return this.deferAsync(() => this._whenOpen(work))
    if (this.status !== 'open') return Promise.reject(notOpen('the database'))
    return (async () => work())()
  }

  _encodeKey (key, options) {
    this._assertValidKey(key)
    return this.keyEncoding(options?.keyEncoding).encode(key)
  }

  merge (key, operand, options) {
    return this._whenOpen(() => {
      this._assertValidValue(operand)
      const encoded = this.valueEncoding(options?.valueEncoding).encode(operand)
      return this.#one(
        MERGE, this._encodeKey(key, options), encoded, durableOf(options), deadlineOf(options)
      )
    })
  }

  remove (key, options) {
    return this.#afterWrites(binding.removeLater, key, options)
  }

  touch (key, ttl, options) {
    return this.#afterWrites(binding.touchLater, key, options, ttlOf({ ttl }) ?? Infinity)
  }

  async expiry (key, options) {
    return this.#afterWrites(binding.expiryLater, key, options)
  }

  #afterWrites (fn, key, options, ...more) {
    return this._whenOpen(async () => {
      const bytes = Buffer.from(crossing.toBytes(this._encodeKey(key, options)))
      await this[kStore].writes.drain()
      return callLater(fn, partOf(this), bytes, ...more)
    })
  }

  #onRange (fn, start, end, options) {
    return this._whenOpen(async () => {
      const range = [start, end].map(key => Buffer.from(crossing.toBytes(this._encodeKey(key, options))))
      await this[kStore].writes.drain()
      return callLater(fn, partOf(this), ...range)
    })
  }

  ingest (files, options) {
    return this._whenOpen(async () => {
      checkFiles(files)
      await this[kStore].writes.drain()
      const copy = options?.copy === true
      const verify = options?.verify !== false
      return reportOf(await callLater(binding.ingestLater, partOf(this), files, copy, verify))
    })
  }

  bulkLoad (pairs, options) {
    return this._whenOpen(async () => {
      await this[kStore].writes.drain()
      const part = partOf(this)
      const values = this.valueEncoding(options?.valueEncoding)
      const encode = ([key, value]) => {
        this._assertValidValue(value)
        return [
          crossing.toBytes(this._encodeKey(key, options)), toBytes(values.encode(value))
        ]
      }
      return reportOf(await loading(pairs, encode, this[kStore].loads, load => (
        callLater(binding.bulkLoadLater, part, load)
      )))
    })
  }

  // Values that are not in memory as a whole.

  putStream (key, source, options) {
    return this._whenOpen(async () => {
      const bytes = Buffer.from(crossing.toBytes(this._encodeKey(key, options)))
      await this[kStore].writes.drain()
      return putStream(partOf(this), bytes, source, this[kStore].loads)
    })
  }

  async getStream (key, options) {
    return valueStream(await this.#afterWrites(binding.valueReaderLater, key, options), options)
  }

  approximateSize (start, end, options) {
    return this.#onRange(binding.approximateSizeLater, start, end, options)
  }

  compactRange (start, end, options) {
    return this.#onRange(binding.compactRangeLater, start, end, options)
  }
}

exports.Part = Part
exports.kPart = kPart
exports.kSnapshot = kSnapshot
exports.kStore = kStore
exports.targetOf = targetOf
exports.partOf = partOf
