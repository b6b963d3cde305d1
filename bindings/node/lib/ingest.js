'use strict'

// Bulk loads and sorted files: pairs that go to the native part in chunks.
//
// Invariant: the native part gets the end of a load whether its source ends, throws, or its database
// is closed.

const binding = require('./binding')
const { callLater, invalid } = require('./errors')

const CHUNK_BYTES = 256 << 10

// A load of pairs.
class Load {
  #number = binding.makeLoad()
  #chunks = []
  #bytes = 0
  #isEnded = false

  get number () {
    return this.#number
  }

  // Ends the load; it changes nothing.
  end () {
    if (this.#isEnded) return
    this.#isEnded = true
    binding.endPairs(this.#number, false)
  }

  // Sends the pairs of an iterable.
  async send (pairs, encode) {
    for await (const pair of pairs) {
      if (!Array.isArray(pair) || pair.length !== 2) {
        throw invalid('the source must give pairs: arrays of a key and a value')
      }
      this.#add(encode(pair))
      if (this.#bytes >= CHUNK_BYTES && !(await this.#flush())) return
      if (this.#isEnded) return
    }
    if (!(await this.#flush()) || this.#isEnded) return
    this.#isEnded = true
    binding.endPairs(this.#number, true)
  }

  #add ([key, value]) {
    const head = Buffer.allocUnsafe(8)
    head.writeUInt32LE(key.length, 0)
    head.writeUInt32LE(value.length, 4)
    this.#chunks.push(head, key, value)
    this.#bytes += 8 + key.length + value.length
  }

  // Returns whether the load goes on.
  async #flush () {
    const chunk = Buffer.concat(this.#chunks)
    this.#chunks = []
    this.#bytes = 0
    return chunk.length === 0 || callLater(binding.sendPairsLater, this.#number, chunk)
  }

  drop () {
    binding.dropObject(this.#number)
  }
}

// Runs `work` with a load of the pairs, and returns its result. `loads` has the loads that a close of
// the database ends.
exports.loading = async function (pairs, encode, loads, work) {
  if (pairs?.[Symbol.asyncIterator] === undefined && pairs?.[Symbol.iterator] === undefined) {
    throw invalid('the source of the pairs must be iterable')
  }
  const load = new Load()
  loads.add(load)
  try {
    let thrown
    const done = work(load.number)
    done.catch(() => {})
    try {
      await load.send(pairs, encode)
    } catch (err) {
      thrown = { err }
    }
    load.end()
    if (thrown === undefined) return await done
    await done.catch(() => {})
    throw thrown.err
  } finally {
    loads.delete(load)
    load.drop()
  }
}

exports.reportOf = function (numbers) {
  const [sequence, files, entries, bytes, flushed] = numbers.map(Number)
  return { sequence, files, entries, bytes, flushed: flushed !== 0 }
}

exports.checkFiles = function (files) {
  if (Array.isArray(files) && files.every(file => typeof file === 'string' && file !== '')) return files
  throw invalid('ingest takes an array of names of files')
}
