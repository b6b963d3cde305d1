'use strict'

// Esker for Node.js: the database.
//
// Invariant: a database that is neither closed nor reachable is closed by the garbage collector, and
// one that is open at the end of its thread is closed there.

const fsp = require('node:fs/promises')
const path = require('node:path')
const binding = require('./binding')
const { keyPairsOf, withoutKey } = require('./encryption')
const { call, callLater, invalid, notOpen } = require('./errors')
const { Changes, Diff, Slot, checkPosition, forkReportOf, lineageOf, slotsOf } = require('./feed')
const { Follower } = require('./follower')
const { loading } = require('./ingest')
const { enablePerf, liveStatus, metricName, metricsOf, stallOf, tablesOf, takePerf } = require('./inspect')
const { Keyspace } = require('./keyspace')
const { Runtime, listenOf, runtimeOf } = require('./observe')
const { nameOf, pairsOf } = require('./options')
const { Pace } = require('./pace')
const { Part, kPart, kSnapshot, kStore, partOf } = require('./part')
const { backupReportOf, backupsOf, pruneReportOf, repairReportOf, verifyReportOf } = require('./reports')
const { ValueStream } = require('./streamed')
const { Transaction, transact } = require('./transaction')
const { Applier, changeStream, streamOptions } = require('./wire')
const { Writes } = require('./writes')

// Drops the native objects of databases that are unreachable.
const lost = new FinalizationRegistry(ids => {
  for (const number of ids) binding.dropObject(number)
})

function checkLocation (location) {
  if (typeof location !== 'string' || location === '') {
    throw new TypeError("The first argument 'location' must be a non-empty string")
  }
  return location
}

class EskerLevel extends Part {
  #location
  // Makes the native part of a view or a promoted database.
  #make

  constructor (location, options) {
    checkLocation(location)
    super({
      keyspace: true,
      keyspaces: true,
      dropKeyspace: true,
      renameKeyspace: true,
      transaction: true,
      transact: true,
      checkpoint: true,
      backup: true,
      changes: true,
      changeStream: true,
      applyChanges: true,
      subscribe: true,
      fork: true,
      flush: true,
      sync: true,
      verify: true
    }, options)
    this.#location = location
  }

  get location () {
    return this.#location
  }

  async #openPart (options) {
    const { createIfMissing, errorIfExists, readOnly, shared, listener, runtime, ...own } = options
    const [listen, pool] = [listenOf(listener), runtimeOf(runtime)]
    if (createIfMissing && !readOnly) {
      await fsp.mkdir(path.dirname(path.resolve(this.#location)), { recursive: true })
    }
    const pairs = pairsOf({ ...withoutKey(own), createIfMissing, errorIfExists })
    pairs.push(...await keyPairsOf(own, this.#location))
    return callLater(
      binding.openLater, this.#location, pairs, readOnly === true, shared === true, pool, listen
    )
  }

  async _open (options) {
    const number = await (this.#make === undefined ? this.#openPart(options) : this.#make())
    const ids = new Set([number])
    this[kStore] = { ids, pace: new Pace(), writes: new Writes(), loads: new Set() }
    this[kPart] = number
    lost.register(this, ids, ids)
  }

  async _close () {
    const { ids, writes, loads } = this[kStore]
    for (const load of loads) load.end()
    await writes.drain()
    try {
      await callLater(binding.closeLater, this[kPart])
    } finally {
      lost.unregister(ids)
      for (const number of ids) binding.dropObject(number)
      ids.clear()
      this[kPart] = undefined
    }
  }

  // Keyspaces.

  keyspace (name, options) {
    return new Keyspace(this, name, options)
  }

  keyspaces () {
    return this._whenOpen(() => call(binding.keyspaces, this[kPart]))
  }

  async dropKeyspace (name) {
    return this.#afterWrites(binding.dropKeyspaceLater, String(name))
  }

  async renameKeyspace (name, newName) {
    return this.#afterWrites(binding.renameKeyspaceLater, String(name), String(newName))
  }

  // Transactions.

  transaction (options) {
    return new Transaction(this, options)
  }

  async transact (work, options) {
    return transact(this, work, options)
  }

  preparedTransactions () {
    return this._whenOpen(() => call(binding.prepared, this[kPart]))
  }

  async commitPrepared (name) {
    return this.#afterWrites(binding.endPreparedLater, String(name), true)
  }

  async rollbackPrepared (name) {
    return this.#afterWrites(binding.endPreparedLater, String(name), false)
  }

  // The change feed, forks.

  async changes (from = 0) {
    const position = checkPosition(from)
    return new Changes(await this.#afterWrites(binding.changesLater, undefined, position), position)
  }

  async subscribe (name, options) {
    const limit = options?.lagLimitBytes
    if (limit !== undefined && limit !== Infinity) checkPosition(limit)
    await this.#afterWrites(binding.subscribeLater, String(name), limit)
    return this.#slotOf(name)
  }

  async slot (name) {
    await this.#afterWrites(binding.slotPositionLater, String(name))
    return this.#slotOf(name)
  }

  #slotOf (name) {
    return new Slot((fn, ...args) => this.#afterWrites(fn, ...args), String(name))
  }

  async slots () {
    return slotsOf(await this.#afterWrites(binding.slotsLater))
  }

  async dropSlot (name) {
    return this.#afterWrites(binding.dropSlotLater, String(name))
  }

  async snapshotWithPosition () {
    return this._whenOpen(async () => {
      await this[kStore].writes.drain()
      const [number, position] = call(binding.snapshotWithPosition, partOf(this))
      return { snapshot: this._snapshotOf(number, { owner: this }), position }
    })
  }

  changeStream (options) {
    const opened = () => this._whenOpen(async () => {
      await this[kStore].writes.drain()
      return this[kStore]
    })
    return changeStream(opened, () => partOf(this), streamOptions(options))
  }

  async applyChanges (source) {
    return this._whenOpen(async () => {
      await this[kStore].writes.drain()
      partOf(this)
      return new Applier(this[kStore], () => partOf(this), source)
    })
  }

  async appliedPosition () {
    const found = await this.#afterWrites(binding.appliedPositionLater)
    return found === undefined ? undefined : { source: BigInt(found[0]), position: Number(found[1]) }
  }

  async fork (directory, options) {
    const name = options?.name
    if (name !== undefined && typeof name !== 'string') {
      throw new TypeError("The option 'name' must be a string")
    }
    return forkReportOf(await this.#afterWrites(binding.forkLater, checkLocation(directory), name))
  }

  async lineage () {
    return this._whenOpen(() => lineageOf(call(binding.lineage, partOf(this))))
  }

  // Maintenance.

  flush () {
    return this.#afterWrites(binding.maintainLater, 'flush')
  }

  sync () {
    return this.#afterWrites(binding.maintainLater, 'sync')
  }

  waitIdle () {
    return this.#afterWrites(binding.maintainLater, 'wait_idle')
  }

  compactAll () {
    return this.#afterWrites(binding.maintainLater, 'compact_all')
  }

  async checkpoint (directory) {
    return this.#afterWrites(binding.checkpointLater, checkLocation(directory))
  }

  async upgradeFormat (to) {
    if (!Number.isInteger(to) || to < 0 || to > 0xffff_ffff) {
      throw new TypeError('The format version must be an integer from 0 to 4294967295')
    }
    return this.#afterWrites(binding.upgradeFormatLater, to)
  }

  async backup (directory, options) {
    const takeOver = options?.takeOver === true
    const made = backupReportOf(await this.#afterWrites(binding.backupLater, checkLocation(directory), takeOver))
    return options?.report === true ? made : made.number
  }

  async verify (options) {
    const progress = options?.progress
    if (progress !== undefined && typeof progress !== 'function') {
      throw new TypeError("The option 'progress' must be a function")
    }
    const told = progress && (([bytes, of]) => progress(bytes, of))
    const found = verifyReportOf(await this.#afterWrites(binding.verifyLater, told))
    return options?.report === true ? found : found.problems
  }

  runOneJob () {
    return this.#afterWrites(binding.runOneJobLater)
  }

  async tables () {
    return tablesOf(await this.#afterWrites(binding.tablesLater))
  }

  #afterWrites (fn, ...args) {
    return this._whenOpen(async () => {
      await this[kStore].writes.drain()
      return callLater(fn, partOf(this), ...args)
    })
  }

  // Facts. They are synchronous, so they need an open database.

  #now (fn, ...args) {
    if (this.status !== 'open') throw notOpen('the database')
    return call(fn, this[kPart], ...args)
  }

  openmetrics () {
    return this.#now(binding.openmetrics)
  }

  getProperty (property) {
    if (typeof property !== 'string') {
      throw new TypeError("The first argument 'property' must be a string")
    }
    return this.#now(binding.property, property) ?? undefined
  }

  option (name) {
    return this.#now(binding.option, nameOf(name))
  }

  setOption (name, value) {
    this.setOptions({ [name]: value })
  }

  setOptions (options) {
    if (typeof options !== 'object' || options === null) {
      throw new TypeError("The first argument 'options' must be an object")
    }
    const pairs = Object.entries(options).flatMap(([name, value]) => [nameOf(name), String(value)])
    this.#now(binding.setOptions, pairs)
  }

  metric (name, level) {
    return this.#now(binding.metric, metricName(name, level), level)
  }

  metrics () {
    return metricsOf(this.#now(binding.metrics))
  }

  stall () {
    return stallOf(this.#now(binding.stall))
  }

  recoveryNotes () {
    return this.#now(binding.recoveryNotes)
  }

  // Followers.

  static async follow (location, options) {
    checkLocation(location)
    const pool = runtimeOf(options?.runtime)
    const { runtime, ...own } = withoutKey(options)
    const pairs = [...pairsOf(own), ...await keyPairsOf(options, location)]
    const number = await callLater(binding.followLater, location, pairs, pool)
    return new Follower(number, location, async (make, encodings, isView) => {
      const db = new EskerLevel(location, { ...options, ...encodings })
      // A promoted database that was closed is opened as any other.
      db.#make = isView
        ? make
        : async () => {
          const part = await make()
          db.#make = undefined
          return part
        }
      try {
        await db.open()
      } catch (err) {
        throw err.cause ?? err
      }
      return db
    })
  }

  // Stores that are not open.

  static async rekey (location, options, next) {
    const pairs = await keyPairsOf(options, checkLocation(location))
    const [from, to, dataKeys, removed] = await callLater(
      binding.rekeyLater, location, pairs, await keyPairsOf(next)
    )
    return { from, to, dataKeys: Number(dataKeys), removedDataKeys: Number(removed) }
  }

  static async destroy (location) {
    return callLater(binding.destroyLater, checkLocation(location))
  }

  static async repair (location, options) {
    const { report, ...own } = options ?? {}
    const pairs = [...pairsOf(withoutKey(own)), ...await keyPairsOf(own, checkLocation(location))]
    const found = repairReportOf(await callLater(binding.repairLater, location, pairs))
    return report === true ? found : found.lost
  }

  static async liveStatus (location, options) {
    return liveStatus(location, await keyPairsOf(options, checkLocation(location)))
  }

  static async backups (directory, options) {
    const pairs = await keyPairsOf(options, checkLocation(directory))
    const found = backupsOf(await callLater(binding.backupsLater, directory, pairs))
    return options?.report === true ? found : found.map(backup => backup.number)
  }

  static async pruneBackups (directory, keep, options) {
    if (!Number.isInteger(keep) || keep < 1) {
      throw invalid(`the number of backups to keep must be an integer of at least 1, not ${String(keep)}`)
    }
    const pairs = await keyPairsOf(options, checkLocation(directory))
    const done = pruneReportOf(await callLater(binding.pruneBackupsLater, directory, keep, pairs))
    return options?.report === true ? done : done.removed
  }

  static async restore (directory, into, options) {
    const { number, ...own } = options ?? {}
    if (number !== undefined && number !== null && (!Number.isSafeInteger(number) || number < 1)) {
      throw invalid(`the number of a backup must be an integer of at least 1, not ${String(number)}`)
    }
    const pairs = [...pairsOf(withoutKey(own)), ...await keyPairsOf(own, checkLocation(directory))]
    return callLater(binding.restoreLater, directory, number, checkLocation(into), pairs)
  }

  static async writeSorted (file, pairs, options) {
    const own = pairsOf(withoutKey(options))
    const encode = pair => pair.map(toBuffer)
    const [made, entries, bytes] = await loading(pairs, encode, new Set(), load => (
      callLater(binding.writeSortedLater, checkLocation(file), own, load)
    ))
    return { path: made, entries: Number(entries), bytes: Number(bytes) }
  }

  static options () {
    return [...binding.optionNames(), 'merge_operator']
  }
}

function toBuffer (data) {
  if (typeof data === 'string') return Buffer.from(data)
  if (ArrayBuffer.isView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  throw invalid('a key and a value of a sorted file must be strings or bytes')
}

// Compares two open databases, or snapshots of them.
async function diff (old, now, options) {
  const keyspace = options?.keyspace
  const side = (given, snapshot) => {
    if (!(given instanceof EskerLevel)) throw new TypeError('diff compares databases')
    return [partOf(given), snapshot == null ? -1 : snapshot[kSnapshot]()]
  }
  const sides = [...side(old, options?.oldSnapshot), ...side(now, options?.newSnapshot)]
  await old[kStore].writes.drain()
  await now[kStore].writes.drain()
  const name = keyspace === undefined ? undefined : String(keyspace)
  return new Diff(await callLater(binding.diffLater, ...sides, name))
}

exports.Applier = Applier
exports.EskerLevel = EskerLevel
exports.Changes = Changes
exports.Diff = Diff
exports.Follower = Follower
exports.Runtime = Runtime
exports.Slot = Slot
exports.diff = diff
exports.enablePerf = enablePerf
exports.takePerf = takePerf
exports.Keyspace = Keyspace
exports.Transaction = Transaction
exports.ValueStream = ValueStream
