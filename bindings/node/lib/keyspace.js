'use strict'

// A keyspace: an ordered map of its own within a store.
//
// Invariant: a keyspace is open only while its database is, and closes with it.

const ModuleError = require('module-error')
const binding = require('./binding')
const { call, callLater, notOpen } = require('./errors')
const { pairsOf } = require('./options')
const { Part, kPart, kStore } = require('./part')

class Keyspace extends Part {
  #db
  #name

  constructor (db, name, options) {
    if (typeof name !== 'string' || name === '') {
      throw new TypeError("The first argument 'name' must be a non-empty string")
    }
    super({}, options)
    this.#db = db
    this.#name = name
  }

  get name () {
    return this.#name
  }

  get db () {
    return this.#db
  }

  async _open (options) {
    const db = this.#db
    if (db.status !== 'open') await db.open({ passive: true })
    const { createIfMissing, errorIfExists, ...own } = options
    const exists = call(binding.keyspaces, db[kPart]).includes(this.#name)
    if (exists && errorIfExists) {
      throw new ModuleError(
        `the keyspace ${this.#name} already exists, and errorIfExists is set`,
        { code: 'ESKER_INVALID_ARGUMENT' }
      )
    }
    const number = await callLater(
      binding.keyspaceLater, db[kPart], this.#name, pairsOf(own), createIfMissing, errorIfExists
    )
    if (number === undefined) {
      throw new ModuleError(
        `the keyspace ${this.#name} does not exist, and createIfMissing is false`,
        { code: 'ESKER_NOT_FOUND' }
      )
    }
    if (db.status !== 'open') {
      binding.dropObject(number)
      throw notOpen('the database of the keyspace')
    }
    this[kStore] = db[kStore]
    this[kPart] = number
    this[kStore].ids.add(number)
    db.attachResource(this)
  }

  async _close () {
    await this[kStore].writes.drain()
    this[kStore].ids.delete(this[kPart])
    binding.dropObject(this[kPart])
    this[kPart] = undefined
    this.#db.detachResource(this)
  }
}

exports.Keyspace = Keyspace
