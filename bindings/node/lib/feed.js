'use strict'

// The change feed, forks and comparisons.
//
// Invariants:
// 1. A feed returns each batch once, in order. A second `next` waits for the first.
// 2. What an object holds in the native part is dropped by `close`, by the end of a loop, and by the
//    garbage collector.

const binding = require('./binding')
const { call, callLater, invalid, notOpen } = require('./errors')

const MISSING = 0xffffffff
const KINDS = [
  undefined, 'put', 'merge', 'delete', 'deleteRange', 'clear', 'keyspaceCreated', 'keyspaceRenamed',
  'keyspaceDropped'
]

const lost = new FinalizationRegistry(number => binding.dropObject(number))

// Reads the items of a reply (src/feed.rs).
class Reader {
  constructor (reply) {
    this.reply = reply
    this.at = 0
  }

  get isAtEnd () {
    return this.at >= this.reply.length
  }

  number () {
    this.at += 8
    return this.reply.readDoubleLE(this.at - 8)
  }

  checksum () {
    this.at += 8
    return this.reply.readBigUInt64LE(this.at - 8)
  }

  count () {
    this.at += 4
    return this.reply.readUInt32LE(this.at - 4)
  }

  flag () {
    return this.reply[this.at++] !== 0
  }

  kind () {
    return KINDS[this.reply[this.at++]]
  }

  // Returns bytes of their own, or undefined.
  bytes () {
    const length = this.count()
    if (length === MISSING) return undefined
    this.at += length
    return Buffer.from(this.reply.subarray(this.at - length, this.at))
  }

  text () {
    return this.bytes()?.toString()
  }

  time () {
    const time = this.number()
    return time === Infinity ? undefined : time
  }
}

function optionsOf (lines) {
  const options = {}
  for (const line of lines.split('\n')) {
    const at = line.indexOf('=')
    if (at > 0) options[line.slice(0, at)] = line.slice(at + 1)
  }
  return options
}

function changeOf (reader) {
  const kind = reader.kind()
  const expires = reader.time()
  const keyspace = reader.text()
  const [key, value] = [reader.bytes(), reader.bytes()]
  const [name, lines] = [reader.text(), reader.text()]
  switch (kind) {
    case 'put': return { type: kind, keyspace, key, value, expires }
    case 'merge': return { type: kind, keyspace, key, operand: value }
    case 'delete': return { type: kind, keyspace, key }
    case 'deleteRange': return { type: kind, keyspace, start: key, end: value }
    case 'keyspaceCreated': return { type: kind, keyspace, keyOrder: name, options: optionsOf(lines) }
    case 'keyspaceRenamed': return { type: kind, keyspace, newName: name }
    default: return { type: kind, keyspace }
  }
}

function batchOf (reader) {
  const firstSequence = reader.number()
  const sequence = reader.number()
  const checksum = reader.checksum()
  const previous = reader.number()
  const previousChecksum = reader.checksum()
  const part = reader.number()
  const continues = reader.flag()
  const changes = Array.from({ length: reader.count() }, () => changeOf(reader))
  return { firstSequence, sequence, checksum, previous, previousChecksum, part, continues, changes }
}

function differenceOf (reader) {
  const keyspace = reader.text()
  const [key, old, now] = [reader.bytes(), reader.bytes(), reader.bytes()]
  const [oldExpires, newExpires] = [reader.time(), reader.time()]
  return { keyspace, key, old, new: now, oldExpires, newExpires }
}

// An object of the native part, whose items are fetched many at once.
class Fetched {
  #number
  #items = []
  #queue = Promise.resolve()

  constructor (number) {
    this.#number = number
    lost.register(this, number, this)
  }

  get _number () {
    if (this.#number === undefined) throw notOpen('the feed or comparison')
    return this.#number
  }

  // Returns the next item, or undefined, after the calls before this one. `fetch` returns a reply,
  // and `read` reads an item of it.
  _next (fetch, read) {
    const next = this.#queue.then(async () => {
      if (this.#number === undefined) throw notOpen('the feed or comparison')
      if (this.#items.length === 0) {
        const reader = new Reader(await callLater(fetch, this.#number))
        while (!reader.isAtEnd) this.#items.push(read(reader))
        this.#items.reverse()
      }
      return this.#items.pop()
    })
    this.#queue = next.catch(() => {})
    return next
  }

  // Frees what it holds. A call that waits fails.
  async close () {
    if (this.#number === undefined) return
    lost.unregister(this)
    binding.dropObject(this.#number)
    this.#number = undefined
    this.#items = []
    await this.#queue
  }

  async [Symbol.asyncDispose] () {
    return this.close()
  }
}

class Changes extends Fetched {
  #position

  constructor (number, position) {
    super(number)
    this.#position = position
  }

  // The sequence number of the last batch of which all parts were returned.
  get position () {
    return this.#position
  }

  // Returns the next batch, and waits for it for at most `timeout` milliseconds. Returns undefined
  // after that time.
  async next (timeout = 0) {
    if (typeof timeout !== 'number' || !(timeout >= 0)) {
      throw invalid(`the timeout must be a number of milliseconds of at least 0, not ${String(timeout)}`)
    }
    const batch = await this._next(number => binding.nextChangesLater(number, timeout), batchOf)
    if (batch?.continues === false) this.#position = batch.sequence
    return batch
  }

  // Returns the batches up to the present. A later loop goes on.
  async * [Symbol.asyncIterator] () {
    for (let batch = await this.next(); batch !== undefined; batch = await this.next()) yield batch
  }

  // Returns the batches, and waits for further ones until the signal is aborted. The feed is closed at
  // the end of the loop.
  async * follow (options) {
    const signal = options?.signal
    const end = () => { this.close() }
    signal?.addEventListener('abort', end, { once: true })
    try {
      while (signal?.aborted !== true) {
        let batch
        try {
          batch = await this.next(Infinity)
        } catch (err) {
          if (signal?.aborted === true) return
          throw err
        }
        if (batch !== undefined) yield batch
      }
    } finally {
      signal?.removeEventListener('abort', end)
      await this.close()
    }
  }
}

// A slot: a durable position in the feed of a database.
class Slot {
  #later
  #name

  // `later` makes a call of the native part on the open database.
  constructor (later, name) {
    this.#later = later
    this.#name = name
  }

  get name () {
    return this.#name
  }

  // The position that was confirmed last.
  position () {
    return this.#later(binding.slotPositionLater, this.#name)
  }

  // Confirms the batches up to a position, durably.
  confirm (position) {
    return this.#later(binding.confirmLater, this.#name, checkPosition(position))
  }

  // Returns the changes after the confirmed position.
  async changes () {
    const position = await this.position()
    return new Changes(await this.#later(binding.changesLater, this.#name, 0), position)
  }

  drop () {
    return this.#later(binding.dropSlotLater, this.#name)
  }
}

function checkPosition (position) {
  if (Number.isSafeInteger(position) && position >= 0) return position
  throw invalid(`a position must be an integer of at least 0, not ${String(position)}`)
}

// The differences of two databases.
class Diff extends Fetched {
  #facts

  constructor (number) {
    super(number)
    const [relation, sharedFiles, onlyOld, ...names] = call(binding.diffFacts, number)
    this.#facts = {
      relation,
      sharedFiles: Number(sharedFiles),
      keyspacesOnlyInOld: names.slice(0, Number(onlyOld)),
      keyspacesOnlyInNew: names.slice(Number(onlyOld))
    }
  }

  // How the databases descend from each other, as a phrase after "the second is".
  get relation () {
    return this.#facts.relation
  }

  get sharedFiles () {
    return this.#facts.sharedFiles
  }

  get keyspacesOnlyInOld () {
    return this.#facts.keyspacesOnlyInOld
  }

  get keyspacesOnlyInNew () {
    return this.#facts.keyspacesOnlyInNew
  }

  // Returns the next difference, or undefined at the end.
  next () {
    return this._next(binding.nextDifferencesLater, differenceOf)
  }

  // Returns the differences. The comparison is closed at the end of the loop.
  async * [Symbol.asyncIterator] () {
    try {
      for (let found = await this.next(); found !== undefined; found = await this.next()) yield found
    } finally {
      await this.close()
    }
  }
}

exports.Changes = Changes
exports.Reader = Reader
exports.Diff = Diff
exports.Slot = Slot
exports.checkPosition = checkPosition

exports.slotsOf = function (texts) {
  const slots = []
  for (let at = 0; at < texts.length; at += 5) {
    const [name, position, lag, limit, problem] = texts.slice(at, at + 5)
    slots.push({
      name,
      position: Number(position),
      lagBytes: Number(lag),
      lagLimitBytes: limit === '' ? Infinity : Number(limit),
      problem: problem === '' ? undefined : problem
    })
  }
  return slots
}

exports.lineageOf = function ([storeId, name, ...ancestors]) {
  const lineage = { storeId: BigInt(storeId), name: name === '' ? undefined : name, ancestors: [] }
  for (let at = 0; at < ancestors.length; at += 3) {
    const [id, ancestor, sequence] = ancestors.slice(at, at + 3)
    lineage.ancestors.push({
      storeId: BigInt(id),
      name: ancestor === '' ? undefined : ancestor,
      sequence: Number(sequence)
    })
  }
  return lineage
}

exports.forkReportOf = function ([storeId, ...numbers]) {
  const [linkedFiles, linkedBytes, copiedFiles, copiedBytes] = numbers.map(Number)
  return { storeId: BigInt(storeId), linkedFiles, linkedBytes, copiedFiles, copiedBytes }
}
