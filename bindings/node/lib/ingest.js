'use strict'

// Bulk loads, sorted files and streams: bytes that go to the native part in chunks.
//
// Invariants:
// 1. The native part gets the end of a load whether its source ends, throws, or its database is closed.
// 2. When the native part fails, nothing waits for the source any more.

const binding = require('./binding')
const { callLater, invalid } = require('./errors')

const CHUNK_BYTES = 256 << 10

const noop = () => {}

// Bytes for the native part.
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
    binding.endLoad(this.#number, false)
  }

  // Sends the items of an iterable in chunks of at least `chunkBytes`. `pack` returns the pieces of an
  // item. Returns whether all were sent.
  async send (items, pack, chunkBytes) {
    for await (const item of items) {
      if (this.#isEnded) return false
      for (const piece of pack(item)) {
        this.#chunks.push(piece)
        this.#bytes += piece.length
      }
      if (this.#bytes >= chunkBytes && !(await this.#flush())) return false
    }
    if (!(await this.#flush()) || this.#isEnded) return false
    this.#isEnded = true
    binding.endLoad(this.#number, true)
    return true
  }

  // Returns whether the load goes on.
  async #flush () {
    const chunk = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks)
    this.#chunks = []
    this.#bytes = 0
    return chunk.length === 0 || callLater(binding.sendChunkLater, this.#number, chunk)
  }

  drop () {
    binding.dropObject(this.#number)
  }
}

function checkIterable (items, what) {
  if (items?.[Symbol.asyncIterator] === undefined && items?.[Symbol.iterator] === undefined) {
    throw invalid(`the source of ${what} must be iterable`)
  }
}

// Runs `work` with a load of the items, and returns its result. `loads` has the loads that a close of
// the database ends.
async function sending (items, pack, chunkBytes, loads, work) {
  const load = new Load()
  loads.add(load)
  try {
    let thrown
    const done = work(load.number)
    const sent = load.send(items, pack, chunkBytes).catch(err => { thrown = { err } })
    const isWhole = await Promise.race([sent, done.then(noop, noop)])
    load.end()
    // A stream that is not read any more.
    if (isWhole !== true && typeof items.destroy === 'function') items.destroy()
    if (thrown === undefined) return await done
    await done.catch(noop)
    throw thrown.err
  } finally {
    loads.delete(load)
    load.drop()
  }
}

function packPair (pair, encode) {
  if (!Array.isArray(pair) || pair.length !== 2) {
    throw invalid('the source must give pairs: arrays of a key and a value')
  }
  const [key, value] = encode(pair)
  const head = Buffer.allocUnsafe(8)
  head.writeUInt32LE(key.length, 0)
  head.writeUInt32LE(value.length, 4)
  return [head, key, value]
}

// Runs `work` with a load of the pairs.
exports.loading = async function (pairs, encode, loads, work) {
  checkIterable(pairs, 'the pairs')
  return sending(pairs, pair => packPair(pair, encode), CHUNK_BYTES, loads, work)
}

function packBytes (bytes) {
  if (typeof bytes === 'string') return [Buffer.from(bytes)]
  if (ArrayBuffer.isView(bytes)) return [Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)]
  throw invalid('the source must give bytes or strings')
}

// Checks a source of bytes: an iterable of bytes and strings, such as a stream, or bytes.
exports.bytesOf = function (source) {
  if (typeof source === 'string' || ArrayBuffer.isView(source)) return [source]
  checkIterable(source, 'the bytes')
  return source
}

exports.packBytes = packBytes
exports.sending = sending
exports.Load = Load

exports.reportOf = function (numbers) {
  const [sequence, files, entries, bytes, flushed] = numbers.map(Number)
  return { sequence, files, entries, bytes, flushed: flushed !== 0 }
}

exports.checkFiles = function (files) {
  if (Array.isArray(files) && files.every(file => typeof file === 'string' && file !== '')) return files
  throw invalid('ingest takes an array of names of files')
}
