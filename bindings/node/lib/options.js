'use strict'

// Options of JavaScript as the engine's names and texts.
//
// Invariants:
// 1. A name in camelCase is the engine's name in snake_case.
// 2. A name that no option has is left out, because users of abstract-level pass options of their
//    own through it. A name that is nearly an option's is an error.

const binding = require('./binding')
const { invalid } = require('./errors')

// Options that cannot be read or changed after the opening.
const atOpen = ['merge_operator', 'ttl_ms']
const names = new Set([...binding.optionNames(), ...binding.optionAliases(), ...atOpen])

const toSnake = name => name.replace(/[A-Z]/g, letter => '_' + letter.toLowerCase())
const toCamel = name => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase())

// Returns how many letters must be changed, added or removed to make one word of another.
function distance (one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i)
  for (let i = 1; i <= one.length; i++) {
    const next = [i]
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1
      next.push(Math.min(row[j - 1] + same, row[j] + 1, next[j - 1] + 1))
    }
    row = next
  }
  return row[other.length]
}

// Fails for a name that is nearly an option's.
function checkUnknown (given, name) {
  if (name.length < 6) return
  for (const known of names) {
    if (Math.abs(known.length - name.length) <= 2 && distance(known, name) <= 2) {
      throw invalid(`there is no option ${given}; did you mean ${toCamel(known)}?`)
    }
  }
}

// Returns a list of names and values.
exports.pairsOf = function (options) {
  const pairs = []
  for (const [given, value] of Object.entries(options ?? {})) {
    if (value === undefined || value === null) continue
    const name = given === 'ttl' ? 'ttl_ms' : toSnake(given)
    if (!names.has(name)) {
      checkUnknown(given, name)
    } else if (name === 'compression' && typeof value === 'boolean') {
      if (!value) pairs.push(name, 'none')
    } else if (['string', 'number', 'boolean', 'bigint'].includes(typeof value)) {
      pairs.push(name, String(value))
    } else {
      throw invalid(`the option ${given} must be a string, a number or a boolean, not ${typeof value}`)
    }
  }
  return pairs
}

// Returns the engine's name of an option of an open database.
exports.nameOf = function (given) {
  const name = toSnake(String(given))
  if (atOpen.includes(name)) {
    throw invalid(`the option ${String(given)} is given at an opening, and cannot be read or changed`)
  }
  if (names.has(name)) return name
  checkUnknown(given, name)
  throw invalid(`there is no option ${String(given)}`)
}

// The numbers of durabilities in src/write.rs. 0 is the store's.
const durabilities = { none: 1, buffered: 2, sync: 3 }

// Returns the durability of a write.
exports.durableOf = function (options) {
  if (options === undefined || options === null) return 0
  if (options.durability !== undefined) {
    const durable = durabilities[options.durability]
    if (durable !== undefined) return durable
    throw invalid(`the durability must be 'none', 'buffered' or 'sync', not ${String(options.durability)}`)
  }
  return options.sync === true ? 3 : 0
}

// Returns the time of `performance.now()` at which a write does not wait any more, or undefined.
exports.deadlineOf = function (options) {
  const timeout = options?.timeout
  if (timeout === undefined || timeout === null || timeout === Infinity) return undefined
  if (typeof timeout === 'number' && timeout >= 0) return performance.now() + timeout
  throw invalid(`the option timeout must be a number of milliseconds of at least 0, not ${String(timeout)}`)
}

// Returns the time to live of a put, in milliseconds, or undefined.
exports.ttlOf = function (options) {
  const ttl = options.ttl
  if (ttl === undefined || ttl === null) return undefined
  if (typeof ttl === 'number' && ttl >= 0) return ttl
  throw invalid(`the option ttl must be a number of milliseconds of at least 0, not ${String(ttl)}`)
}
