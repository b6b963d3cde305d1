'use strict'

// A chained batch: operations are packed as they come.
//
// Invariant: an operation on a keyspace or on a sublevel of one goes there, also a deletion.

const { AbstractChainedBatch } = require('abstract-level')
const { Packer, PUT, DELETE, PUT_WITH_TTL, empty } = require('./crossing')
const { ttlOf } = require('./options')
const { targetOf, partOf } = require('./part')

class ChainedBatch extends AbstractChainedBatch {
  #packer = new Packer(true)
  #deleteFrom = null

  _put (key, value, options) {
    const [part, own] = targetOf(this.db, { ...options, key })
    const ttl = ttlOf(options)
    this.#packer.operation(ttl === undefined ? PUT : PUT_WITH_TTL, part, own, value, ttl)
  }

  // The base class puts the prefixes of a foreign sublevel before the key, and then forgets whose
  // they are. So the root of that sublevel is noted here.
  del (key, options) {
    let root = options?.sublevel ?? this.db
    while (root !== this.db && root.parent != null) root = root.parent
    this.#deleteFrom = root
    return super.del(key, options)
  }

  _del (key, options) {
    this.#packer.operation(DELETE, partOf(this.#deleteFrom ?? this.db), key, empty)
  }

  _clear () {
    this.#packer.at = 0
  }

  async _write (options) {
    return this.db._writeOwn(this.#packer, options)
  }

  async _close () {
    this.#packer = new Packer(true)
  }
}

exports.ChainedBatch = ChainedBatch
