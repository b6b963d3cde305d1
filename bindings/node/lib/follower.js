'use strict'

// Followers: read-only views of a database that another process writes.
//
// Invariants:
// 1. What a follower holds in the native part is dropped by `close`, and by the garbage collector.
// 2. Views and promoted databases are databases of their own: they stay open when it is closed.

const binding = require('./binding')
const { call, callLater, invalid, notOpen } = require('./errors')
const { checkPosition } = require('./feed')

const lost = new FinalizationRegistry(number => binding.dropObject(number))

function checkTime (time, what) {
  if (typeof time === 'number' && time >= 0) return time
  throw invalid(`${what} must be a number of milliseconds of at least 0, not ${String(time)}`)
}

class Follower {
  #number
  #location
  #make

  // `make` opens a database of a part of the native part.
  constructor (number, location, make) {
    this.#number = number
    this.#location = location
    this.#make = make
    lost.register(this, number, this)
  }

  get location () {
    return this.#location
  }

  #open () {
    if (this.#number === undefined) throw notOpen('the follower')
    return this.#number
  }

  // The position of the newest view.
  get position () {
    return call(binding.followerPosition, this.#open())
  }

  // Returns the newest view, an open database. A later opening of it takes the newest view of then.
  async db (options) {
    return this.#make(() => callLater(binding.followerViewLater, this.#open()), options, true)
  }

  // Makes a newer view. Returns its position.
  async catchUp () {
    return callLater(binding.catchUpLater, this.#open())
  }

  // Lets a thread make newer views, with so many milliseconds between them.
  catchUpEvery (interval) {
    call(binding.catchUpEvery, this.#open(), checkTime(interval, 'the interval'))
  }

  // Waits until the newest view shows a position, for at most `timeout` milliseconds.
  async waitFor (position, timeout = Infinity) {
    checkPosition(position)
    return callLater(
      binding.waitForPositionLater, this.#open(), position, checkTime(timeout, 'the timeout')
    )
  }

  async lag () {
    const [position, newest, operations, age, error] = await callLater(binding.followerLagLater, this.#open())
    return {
      position: Number(position),
      newest: Number(newest),
      operations: Number(operations),
      age: Number(age),
      error: error === '' ? undefined : error
    }
  }

  // Opens the database for writing, when its writer has ended.
  async promote (options) {
    return this.#make(() => callLater(binding.promoteLater, this.#open()), options, false)
  }

  // Ends its thread and its waits. Later calls reject.
  async close () {
    if (this.#number === undefined) return
    const number = this.#number
    this.#number = undefined
    lost.unregister(this)
    try {
      await callLater(binding.closeFollowerLater, number)
    } finally {
      binding.dropObject(number)
    }
  }

  async [Symbol.asyncDispose] () {
    return this.close()
  }
}

exports.Follower = Follower
