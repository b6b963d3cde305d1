'use strict'

// Stands in for the package memory-level 1 in other projects' tests: a database of Esker with the
// callbacks that abstract-level had before version 2.
//
// Invariants:
// 1. A method whose last argument is a function calls it with an error or a result, later.
// 2. A missing key is an error for `get` with a callback.

const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { EskerLevel } = require('esker-level')

const home = fs.mkdtempSync(path.join(os.tmpdir(), 'esker-ecosystem-'))
process.on('exit', () => fs.rmSync(home, { recursive: true, force: true }))
let count = 0

// Calls `own` with a callback or without one.
function call (own, args, spread = result => [result]) {
  const callback = typeof args.at(-1) === 'function' ? args.pop() : undefined
  const result = own(...args)
  if (callback === undefined) return result
  result.then(
    value => process.nextTick(callback, null, ...spread(value)),
    err => process.nextTick(callback, err)
  )
}

function withCallbacks (object, names, spread) {
  for (const name of names) {
    const own = object[name].bind(object)
    object[name] = (...args) => call(own, args, spread?.[name])
  }
  return object
}

exports.MemoryLevel = class MemoryLevel extends EskerLevel {
  constructor (options) {
    super(path.join(home, String(count++)), options)
    withCallbacks(this, ['open', 'close', 'getMany', 'put', 'del', 'clear'])
  }

  get (...args) {
    const find = async (key, options) => {
      const value = await super.get(key, options)
      if (value !== undefined || !hasCallback) return value
      throw Object.assign(new Error(`Entry not found: ${key}`), { code: 'LEVEL_NOT_FOUND', notFound: true })
    }
    const hasCallback = typeof args.at(-1) === 'function'
    return call(find, args)
  }

  batch (...args) {
    if (args.length > 0) return call((...own) => super.batch(...own), args)
    return withCallbacks(super.batch(), ['write', 'close'])
  }

  iterator (options) {
    return withCallbacks(super.iterator(options), ['next', 'nextv', 'all', 'close'], { next: entry => entry ?? [] })
  }

  keys (options) {
    return withCallbacks(super.keys(options), ['next', 'nextv', 'all', 'close'])
  }

  values (options) {
    return withCallbacks(super.values(options), ['next', 'nextv', 'all', 'close'])
  }
}
