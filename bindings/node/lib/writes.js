'use strict'

// Writes of one store that wait: for a sync, for memory, or for libuv's pool because they are long.
//
// Invariants:
// 1. Writes take effect in the order of their calls: while one waits, later ones queue behind it.
// 2. Queued writes become one batch, with one sync. If it fails, each is written alone, so that each
//    gets its own error.
// 3. A write with a deadline fails then if it has not begun. A batch has the earliest deadline of its
//    writes.

const ModuleError = require('module-error')
const binding = require('./binding')
const { callLater, codes } = require('./errors')

// Most bytes of a batch that is made of several writes.
const GROUP_BYTES_MAX = 1 << 20
// Longest time of a timer, in milliseconds.
const TIMER_MS_MAX = 0x7fff_ffff

exports.Writes = class Writes {
  #pending = []
  #running = null

  // Returns whether no write waits.
  get isIdle () {
    return this.#running === null
  }

  // Adds a write of packed operations, perhaps with a deadline. Returns a promise.
  push (part, packed, durable, deadline) {
    return new Promise((resolve, reject) => {
      const one = { part, packed, durable, deadline, resolve, reject, isAlone: false, timer: undefined }
      this.#pending.push(one)
      this.#watch(one)
      if (this.#running === null) this.#running = this.#run()
    })
  }

  // Fails a write at its deadline if it has not begun then.
  #watch (one) {
    if (one.deadline === undefined) return
    const left = Math.min(Math.max(one.deadline - performance.now(), 0), TIMER_MS_MAX)
    one.timer = setTimeout(() => this.#expire(one), left)
  }

  #expire (one) {
    this.#pending.splice(this.#pending.indexOf(one), 1)
    const busy = new ModuleError(
      'the timeout of the write has passed, and nothing was written: it waits for writes of this thread ' +
      'that came before it', { code: codes.busy }
    )
    busy.kind = 'busy'
    one.reject(busy)
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
    for (const { packed, isAlone } of this.#pending) {
      bytes += packed.length
      if (count > 0 && (isAlone || bytes > GROUP_BYTES_MAX)) break
      count++
      if (isAlone) break
    }
    const group = this.#pending.splice(0, count)
    for (const { timer } of group) clearTimeout(timer)
    return group
  }

  async #write (group) {
    const packed = group.length === 1 ? group[0].packed : Buffer.concat(group.map(one => one.packed))
    const durable = Math.max(...group.map(one => one.durable))
    const deadline = Math.min(...group.map(one => one.deadline ?? Infinity))
    const wait = deadline === Infinity ? undefined : Math.max(deadline - performance.now(), 0)
    try {
      await callLater(binding.writeLater, group[0].part, packed, durable, wait)
      for (const one of group) one.resolve()
    } catch (err) {
      if (group.length === 1) return group[0].reject(err)
      for (const one of group) {
        one.isAlone = true
        this.#watch(one)
      }
      this.#pending.unshift(...group)
    }
  }
}
