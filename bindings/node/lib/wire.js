'use strict'

// The change feed as a stream of bytes, and its application to another database.
//
// Invariants:
// 1. A stream ends with its end, or with an error. One that is cut off is an error for its receiver.
// 2. An item was applied as a whole when a loop gets it.
// 3. A close of the database ends both, and frees what they hold in the native part.

const { Readable } = require('node:stream')
const binding = require('./binding')
const { call, callLater, invalid, notOpen } = require('./errors')
const { checkPosition } = require('./feed')
const { Load, bytesOf, packBytes } = require('./ingest')

const ALIVE = 0
const END = 1
const ALIVE_MS = 10_000
const noop = () => {}

// The native objects of one stream. They end with the database.
class Held {
  #store
  #numbers = new Set()

  constructor (store) {
    this.#store = store
  }

  add (number) {
    this.#numbers.add(number)
    this.#store.ids.add(number)
    return number
  }

  // Fails after a close of the database, because another object may have the number then.
  check (number) {
    if (!this.#store.ids.has(number)) throw notOpen('the database of a stream of changes')
    return number
  }

  drop (number) {
    if (!this.#numbers.delete(number)) return
    if (this.#store.ids.delete(number)) binding.dropObject(number)
  }

  close () {
    for (const number of [...this.#numbers]) this.drop(number)
  }
}

// Yields the content of a database. Returns its position.
async function * contentOf (store, held, writer) {
  const content = held.add(call(binding.makeContent))
  const end = { end: () => { if (store.ids.has(content)) binding.endContent(content) } }
  store.loads.add(end)
  const written = callLater(binding.writeContentLater, held.check(writer), content)
  written.catch(noop)
  try {
    for (;;) {
      const bytes = await callLater(binding.nextContentLater, held.check(content))
      if (bytes.length === 0) return await written
      yield bytes
    }
  } finally {
    end.end()
    store.loads.delete(end)
    held.drop(content)
    await written.catch(noop)
  }
}

async function feedOf (part, slot, from) {
  if (slot === undefined) return callLater(binding.changesLater, part, undefined, from)
  return callLater(binding.changesLater, part, slot, 0)
}

// Yields the changes of a feed until it is stopped. Returns the position behind the last whole batch.
async function * changesOf (held, writer, feed, position, { follow, alive, signal, stop }) {
  const end = () => stop.abort()
  const drop = () => held.drop(feed)
  stop.signal.addEventListener('abort', drop, { once: true })
  signal?.addEventListener('abort', end, { once: true })
  if (signal?.aborted === true) end()
  try {
    while (!stop.signal.aborted) {
      let reply
      try {
        reply = await callLater(
          binding.writeChangesLater, held.check(writer), held.check(feed), follow ? alive : 0
        )
      } catch (err) {
        if (stop.signal.aborted) return position
        throw err
      }
      position = Math.max(position, reply.readDoubleLE(0))
      if (reply.length > 8) {
        yield reply.subarray(8)
      } else if (!follow) {
        return position
      } else {
        yield call(binding.writePosition, held.check(writer), ALIVE, position)
      }
    }
    return position
  } finally {
    signal?.removeEventListener('abort', end)
    drop()
  }
}

// Yields a whole stream. `opened` returns what the database shares with its keyspaces, when it is open.
// `partNow` returns the number of the open database.
async function * bytesToSend (opened, partNow, options) {
  const store = await opened()
  const held = new Held(store)
  try {
    const writer = held.add(call(binding.changeWriter, partNow()))
    let position = options.from
    if (options.content) {
      position = yield * contentOf(store, held, writer)
    } else if (options.slot !== undefined) {
      position = await callLater(binding.slotPositionLater, partNow(), options.slot)
    }
    const slot = options.content ? undefined : options.slot
    const feed = held.add(await feedOf(partNow(), slot, position))
    position = yield * changesOf(held, writer, feed, position, options)
    yield call(binding.writePosition, held.check(writer), END, position)
  } finally {
    held.close()
  }
}

function checkAlive (alive) {
  if (typeof alive === 'number' && alive > 0) return alive
  throw invalid(`the option alive must be a number of milliseconds above 0, not ${String(alive)}`)
}

// Returns the checked options of a stream.
exports.streamOptions = function (options) {
  const { slot, from = 0, content = false, follow = false, alive = ALIVE_MS, signal } = options ?? {}
  return {
    slot: slot === undefined ? undefined : String(slot),
    from: checkPosition(from),
    content: content === true,
    follow: follow === true,
    alive: checkAlive(alive),
    signal
  }
}

exports.changeStream = function (opened, partNow, options) {
  const stop = new AbortController()
  const stream = Readable.from(bytesToSend(opened, partNow, { ...options, stop }), { objectMode: false })
  const destroy = stream._destroy
  // The wait for changes ends before the generator does.
  stream._destroy = function (err, done) {
    stop.abort()
    destroy.call(this, err, done)
  }
  return stream
}

// Applies a stream of changes to a database. A loop over it goes from item to item.
class Applier {
  #store
  #partNow
  #load = new Load()
  #held
  #number
  #source
  #thrown
  #queue = Promise.resolve()
  #hasEnded = false

  // `partNow` returns the number of the open database.
  constructor (store, partNow, source) {
    this.#store = store
    this.#partNow = partNow
    this.#held = new Held(store)
    this.#source = bytesOf(source)
    store.loads.add(this.#load)
    this.#load.send(this.#source, packBytes, 1).catch(err => { this.#thrown = err }).finally(() => this.#load.end())
  }

  // Runs `work` with the native applier, after the calls before it.
  #run (work) {
    const result = this.#queue.then(async () => {
      if (this.#hasEnded) throw notOpen('the applier')
      try {
        if (this.#number === undefined) {
          this.#number = this.#held.add(
            await callLater(binding.makeApplierLater, this.#partNow(), this.#load.number)
          )
        }
        return await work(this.#held.check(this.#number))
      } catch (err) {
        throw this.#thrown ?? err
      }
    })
    this.#queue = result.catch(noop)
    return result
  }

  // Returns the identity of the database whose changes the stream has.
  source () {
    return this.#run(number => BigInt(call(binding.applierSource, number)))
  }

  // States that the database is a copy of the source at a position.
  async startAt (position) {
    checkPosition(position)
    return this.#run(number => callLater(binding.startAtLater, number, position))
  }

  // Applies the next item of the stream.
  next () {
    return this.#run(async number => {
      const [type, position] = await callLater(binding.applyNextLater, number)
      return { type, position: Number(position) }
    })
  }

  // Applies the items up to the end, with which it is closed.
  async * [Symbol.asyncIterator] () {
    try {
      for (;;) {
        const item = await this.next()
        yield item
        if (item.type === 'end') return
      }
    } finally {
      await this.close()
    }
  }

  // Ends the stream. What was applied stays.
  async close () {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#load.end()
    await this.#queue
    this.#store.loads.delete(this.#load)
    this.#load.drop()
    this.#held.close()
    if (typeof this.#source.destroy === 'function') this.#source.destroy()
  }

  async [Symbol.asyncDispose] () {
    return this.close()
  }
}

exports.Applier = Applier
