'use strict'

// Transactions. A transaction is a database of abstract-level that reads one moment and writes at
// its commit; `tx.in(keyspace)` is the same over a keyspace.
//
// Invariants:
// 1. Calls take effect in their order: a call waits for the calls before it.
// 2. The calls of an optimistic transaction wait for nothing, so they run in the thread of
//    JavaScript. Those of a pessimistic one run in threads that may wait for locks.

const { AbstractLevel } = require('abstract-level')
const binding = require('./binding')
const { ChainedBatch } = require('./chained-batch')
const crossing = require('./crossing')
const { call, callLater, invalid, notOpen } = require('./errors')
const { EskerIterator, openRange } = require('./iterator')
const operations = require('./operations')
const { durableOf, ttlOf } = require('./options')
const { kPart, kStore, targetOf } = require('./part')

const { Packer, PUT, DELETE, PUT_WITH_TTL, MERGE } = crossing
const noop = () => {}

const manifest = {
  encodings: { buffer: true, utf8: true, view: true },
  has: true,
  additionalMethods: { getForUpdate: true, merge: true }
}

// What the parts of a transaction share.
class Held {
  #tail = null
  ended = false

  constructor (number, isPessimistic, ids) {
    this.number = number
    this.isPessimistic = isPessimistic
    this.ids = ids
    ids.add(number)
  }

  // Runs `now` if no call runs and none can wait, otherwise `later` after the calls before it.
  run (now, later) {
    this.check()
    if (this.#tail === null && !this.isPessimistic) return now()
    return this.after(() => {
      this.check()
      return later()
    })
  }

  // Fails after the end, because another object may have the number then.
  check () {
    if (this.ended) throw notOpen('the transaction')
  }

  after (later) {
    const result = (this.#tail ?? Promise.resolve()).then(later)
    const tail = result.then(noop, noop)
    this.#tail = tail
    tail.then(() => { if (this.#tail === tail) this.#tail = null })
    return result
  }

  // Ends the transaction: by a commit (0), a rollback (1), or by preparing it (2). A close rolls back
  // what a call before it may have ended.
  end (how, name, isClose = false) {
    return this.after(async () => {
      if (this.ended && isClose) return
      this.check()
      this.ended = true
      try {
        await callLater(binding.transactionEnd, this.number, how, name)
      } finally {
        this.ids.delete(this.number)
        binding.dropObject(this.number)
      }
    })
  }
}

class TransactionPart extends AbstractLevel {
  #of

  constructor (of, held, options) {
    super(manifest, {
      keyEncoding: options?.keyEncoding ?? of.keyEncoding(),
      valueEncoding: options?.valueEncoding ?? of.valueEncoding()
    })
    this.#of = of
    this.held = held
    this[kStore] = of[kStore]
    this[kPart] = of[kPart]
  }

  #find (key, options, forUpdate) {
    const own = typeof key === 'string' ? key : Buffer.from(key)
    const args = () => [this.held.number, this[kPart], crossing.writeKey(own), forUpdate]
    const shown = value => {
      if (value === null || value === undefined) return undefined
      return options.valueEncoding === 'utf8' ? value.toString('utf8') : value
    }
    return this.held.run(
      () => shown(call(binding.transactionGet, ...args())),
      async () => shown(await callLater(binding.transactionGetLater, ...args()))
    )
  }

  async _get (key, options) {
    return this.#find(key, options, false)
  }

  async _getMany (keys, options) {
    return Promise.all(keys.map(key => this.#find(key, options, false)))
  }

  async _has (key, options) {
    return (await this.#find(key, options, false)) !== undefined
  }

  async _hasMany (keys, options) {
    return Promise.all(keys.map(key => this._has(key, options)))
  }

  async getForUpdate (key, options) {
    if (this.status === 'opening') return this.deferAsync(() => this.getForUpdate(key, options))
    if (this.status !== 'open') throw notOpen('the transaction')
    this._assertValidKey(key)
    const valueEncoding = this.valueEncoding(options?.valueEncoding)
    const encoded = this.keyEncoding(options?.keyEncoding).encode(key)
    const value = await this.#find(encoded, { valueEncoding: valueEncoding.format }, true)
    return value === undefined ? undefined : valueEncoding.decode(value)
  }

  // Writes packed operations.
  #write (packer) {
    return this.held.run(
      () => {
        if (packer.isInput) return call(binding.transactionWrite, this.held.number, packer.at)
        return this.held.after(this.#later(packer))
      },
      this.#later(packer)
    )
  }

  #later (packer) {
    // The input is used again before the write.
    const packed = packer.isInput ? crossing.inputCopy(packer.at) : packer.packed
    return () => {
      this.held.check()
      return callLater(binding.transactionWriteLater, this.held.number, packed)
    }
  }

  #one (kind, key, value, ttl) {
    const packer = new Packer(false)
    packer.operation(kind, this[kPart], key, value, ttl)
    return this.#write(packer)
  }

  async _put (key, value, options) {
    const ttl = ttlOf(options)
    return this.#one(ttl === undefined ? PUT : PUT_WITH_TTL, key, value, ttl)
  }

  async _del (key, options) {
    return this.#one(DELETE, key, crossing.empty)
  }

  async merge (key, operand, options) {
    if (this.status === 'opening') return this.deferAsync(() => this.merge(key, operand, options))
    if (this.status !== 'open') throw notOpen('the transaction')
    this._assertValidKey(key)
    this._assertValidValue(operand)
    return this.#one(
      MERGE, this.keyEncoding(options?.keyEncoding).encode(key),
      this.valueEncoding(options?.valueEncoding).encode(operand)
    )
  }

  batch (...args) {
    if (!operations.hasOwn(args[0])) return super.batch(...args)
    if (this.status === 'opening') return this.deferAsync(() => this.batch(...args))
    if (this.status !== 'open') return Promise.reject(notOpen('the transaction'))
    return (async () => operations.batch(
      this, args[0], args[1], targetOf, (others, options) => super.batch(others, options)
    ))()
  }

  async _batch (ops, options) {
    const packer = new Packer(false)
    operations.pack(packer, this, ops, options, targetOf)
    return this.#write(packer)
  }

  _chainedBatch () {
    return new ChainedBatch(this)
  }

  // Writes the operations of a chained batch.
  _writeOwn (packer) {
    return this.#write(packer)
  }

  // A transaction that has ended does not open again.
  async _open (options) {
    this.held.check()
  }

  _iterator (options) {
    this.held.check()
    const { number, isPessimistic, ids } = this.held
    const iterator = openRange(options,
      (...range) => binding.transactionIterator(number, this[kPart], ...range))
    return new EskerIterator(this, options, ids, isPessimistic, iterator)
  }

  async _clear (options) {
    const iterator = this._iterator({ ...options, keys: true, values: false, keyEncoding: 'buffer' })
    const keys = []
    try {
      const left = () => options.limit === -1 ? 1000 : Math.min(1000, options.limit - keys.length)
      while (left() > 0) {
        const entries = await iterator._nextv(left())
        if (entries.length === 0) break
        for (const [key] of entries) keys.push(key)
      }
    } finally {
      await iterator.close()
    }
    return this._batch(keys.map(key => ({ type: 'del', key, keyEncoding: 'buffer' })), {})
  }
}

class Transaction extends TransactionPart {
  #db
  #parts = new Map()

  constructor (db, options) {
    const {
      isolation = 'snapshot', concurrency = 'optimistic', lockTimeout = 1000, ...more
    } = options ?? {}
    const isPessimistic = oneOf('concurrency', concurrency, ['optimistic', 'pessimistic']) === 1
    const isSerializable = oneOf('isolation', isolation, ['snapshot', 'serializable']) === 1
    if (typeof lockTimeout !== 'number' || !(lockTimeout >= 0)) {
      throw invalid(`lockTimeout must be a number of milliseconds of at least 0, not ${String(lockTimeout)}`)
    }
    if (db.status !== 'open') throw notOpen('the database')
    const number = call(
      binding.transaction, db[kPart], isSerializable, isPessimistic, lockTimeout, durableOf(more)
    )
    super(db, new Held(number, isPessimistic, db[kStore].ids), more)
    this.#db = db
    db.attachResource(this)
  }

  get db () {
    return this.#db
  }

  in (keyspace) {
    this.held.check()
    if (keyspace?.[kPart] === undefined || keyspace[kStore] !== this[kStore]) {
      throw invalid('the argument must be an open keyspace of the database of the transaction')
    }
    let part = this.#parts.get(keyspace)
    if (part === undefined) {
      part = new TransactionPart(keyspace, this.held)
      this.#parts.set(keyspace, part)
      this.attachResource(part)
    }
    return part
  }

  async commit () {
    return this.#end(0, '')
  }

  async rollback () {
    return this.#end(1, '')
  }

  async prepare (name) {
    if (typeof name !== 'string' || name === '') {
      throw new TypeError("The first argument 'name' must be a non-empty string")
    }
    return this.#end(2, name)
  }

  async #end (how, name) {
    if (this.status === 'opening') await this.open()
    this.held.check()
    try {
      await this.held.end(how, name)
    } finally {
      await this.close()
    }
  }

  async savepoint () {
    return this.#savepoint(0)
  }

  async rollbackToSavepoint () {
    return this.#savepoint(1)
  }

  async popSavepoint () {
    return this.#savepoint(2)
  }

  async #savepoint (what) {
    if (this.status === 'opening') await this.open()
    const work = () => call(binding.transactionSavepoint, this.held.number, what)
    return this.held.run(work, async () => work())
  }

  async _close () {
    this.#db.detachResource(this)
    if (!this.held.ended) await this.held.end(1, '', true)
  }
}

function oneOf (name, given, words) {
  const position = words.indexOf(given)
  if (position >= 0) return position
  throw invalid(`${name} must be '${words.join("' or '")}', not ${String(given)}`)
}

// Errors after which a transaction runs again.
const again = new Set(['ESKER_CONFLICT', 'ESKER_DEADLOCK'])
// Longest pause between two runs, in milliseconds.
const PAUSE_MS_MAX = 20

// Runs `work` in a transaction and commits it. Runs it again after a conflict.
async function transact (db, work, options) {
  if (typeof work !== 'function') {
    throw new TypeError("The first argument 'work' must be a function")
  }
  const { attempts = 100, ...more } = options ?? {}
  if (!Number.isInteger(attempts) || attempts < 1) {
    throw invalid(`attempts must be an integer of at least 1, not ${String(attempts)}`)
  }
  if (db.status === 'opening') await db.open({ passive: true })
  for (let run = 1; ; run++) {
    const transaction = new Transaction(db, more)
    try {
      const result = await work(transaction)
      if (!transaction.held.ended) await transaction.commit()
      return result
    } catch (err) {
      await transaction.close()
      if (!again.has(err?.code) || run === attempts) throw err
    }
    const pause = Math.min(PAUSE_MS_MAX, 2 ** Math.min(run, 10) / 20)
    await new Promise(resolve => setTimeout(resolve, pause * (0.5 + Math.random() / 2)))
  }
}

exports.Transaction = Transaction
exports.transact = transact
