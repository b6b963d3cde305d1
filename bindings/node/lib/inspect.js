'use strict'

// What a database tells about itself: metrics, tables, stalls; and the counts of a thread's calls.
//
// Invariant: a name in camelCase is the engine's name in snake_case, with its unit.

const binding = require('./binding')
const { call, callLater, invalid } = require('./errors')
const { Reader } = require('./feed')

const toCamel = name => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase())
const toSnake = name => name.replace(/[A-Z]/g, letter => '_' + letter.toLowerCase())

// Returns what writes wait for.
exports.stallOf = function (texts) {
  if (texts === null || texts === undefined) return undefined
  const [cause, clears, bytes, duration, isStopped] = texts
  return { cause, clears, bytes: Number(bytes), duration: Number(duration), isStopped: isStopped === 'true' }
}

// Checks the arguments of a metric. Returns the engine's name of it.
exports.metricName = function (name, level) {
  if (typeof name !== 'string') throw new TypeError("The first argument 'name' must be a string")
  if (level !== undefined && (!Number.isInteger(level) || level < 0 || level > 0xffff_ffff)) {
    throw invalid(`a level must be an integer of at least 0, not ${String(level)}`)
  }
  return toSnake(name)
}

// Returns the metrics of their texts (src/inspect.rs).
function metricsOf ([problem, ...texts]) {
  const metrics = { store: {}, memory: {}, levels: [], scrubProblem: problem === '' ? undefined : problem }
  for (let at = 0; at < texts.length; at += 2) {
    const fields = texts[at].split('.')
    const name = toCamel(fields.pop())
    const [part, level] = fields
    const of = part === 'levels' ? metrics.levels[level] ??= {} : part === 'memory' ? metrics.memory : metrics.store
    of[name] = Number(texts[at + 1])
  }
  return metrics
}

exports.metricsOf = metricsOf

// Returns what the process publishes that has a database open.
exports.liveStatus = async function (location, pairs) {
  const [process, version, opened, updated, openmetrics, ...metrics] = await callLater(
    binding.liveStatusLater, location, pairs
  )
  return {
    process: Number(process),
    version: Number(version),
    opened: new Date(Number(opened)),
    updated: new Date(Number(updated)),
    openmetrics,
    metrics: metricsOf(metrics)
  }
}

// Returns the tables of a reply.
exports.tablesOf = function (reply) {
  const reader = new Reader(reply)
  const tables = []
  while (!reader.isAtEnd) {
    const [tree, level, number, sizeBytes, entries, deletes, rangeDeletes, rawBytes] =
      Array.from({ length: 8 }, () => reader.number())
    tables.push({
      tree,
      level,
      number,
      sizeBytes,
      entries,
      deletes,
      rangeDeletes,
      rawBytes,
      smallest: reader.bytes(),
      largest: reader.bytes()
    })
  }
  return tables
}

// Switches the counting of this thread's calls on or off.
exports.enablePerf = function (on = true) {
  if (typeof on !== 'boolean') throw new TypeError("The first argument 'on' must be a boolean")
  call(binding.enablePerf, on)
}

// Returns the counts of this thread's calls since the last call, and sets them to 0.
exports.takePerf = function () {
  const texts = call(binding.takePerf)
  const counts = {}
  for (let at = 0; at < texts.length; at += 2) counts[toCamel(texts[at])] = Number(texts[at + 1])
  return counts
}
