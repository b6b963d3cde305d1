'use strict'

// Writes of one store that wait: for a sync, for memory, or for libuv's pool because they are long.
//
// Invariants:
// 1. Writes take effect in the order of their calls: while one waits, later ones queue behind it.
// 2. Queued writes become one batch, with one sync. If it fails, each is written alone, so that each
//    gets its own error.

const binding = require('./binding')
const { callLater } = require('./errors')

// Most bytes of a batch that is made of several writes.
const GROUP_BYTES_MAX = 1 << 20

exports.Writes = class Writes {
  #pending = []
  #running = null

  // Returns whether no write waits.
  get isIdle () {
    return this.#running === null
  }

  // Adds a write of packed operations. Returns a promise.
  push (part, packed, durable) {
    return new Promise((resolve, reject) => {
      this.#pending.push({ part, packed, durable, resolve, reject })
      if (this.#running === null) this.#running = this.#run()
    })
  }

  // Waits until no write waits.
  async drain () {
    while (this.#running !== null) await this.#running
  }

  async #run () {
    // The writes of one turn of the event loop form the first group.
    await undefined
    while (this.#pending.length > 0) await this.#write(this.#group())
    this.#running = null
  }

  #group () {
    let bytes = 0
    let count = 0
    for (const { packed } of this.#pending) {
      bytes += packed.length
      if (count > 0 && bytes > GROUP_BYTES_MAX) break
      count++
    }
    return this.#pending.splice(0, count)
  }

  async #write (group) {
    const packed = group.length === 1 ? group[0].packed : Buffer.concat(group.map(one => one.packed))
    const durable = Math.max(...group.map(one => one.durable))
    try {
      await callLater(binding.writeLater, group[0].part, packed, durable)
      for (const one of group) one.resolve()
    } catch (err) {
      if (group.length === 1) return group[0].reject(err)
      for (const one of group) await this.#write([one])
    }
  }
}
