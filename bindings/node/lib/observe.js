'use strict'

// Runtimes, which databases share, and the events of a database.
//
// Invariant: an exception of a listener is a warning of the process, and does not end it.

const binding = require('./binding')
const { call, codes, invalid } = require('./errors')
const ModuleError = require('module-error')

const lost = new FinalizationRegistry(number => binding.dropObject(number))
const toCamel = name => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase())
const names = {
  memoryBudgetBytes: 'memory_budget_bytes',
  cacheSizeBytes: 'cache_size_bytes',
  cachePolicy: 'cache_policy',
  threadsMax: 'threads_max',
  backgroundBytesPerSecond: 'background_bytes_per_second'
}

// Threads, memory and background writes that databases share.
class Runtime {
  #number

  constructor (options) {
    const pairs = []
    for (const [given, value] of Object.entries(options ?? {})) {
      if (value === undefined || value === null) continue
      if (names[given] === undefined) {
        throw invalid(`a runtime has no option ${given}; it has ${Object.keys(names).join(', ')}`)
      }
      pairs.push(names[given], String(value))
    }
    this.#number = call(binding.makeRuntime, pairs)
    lost.register(this, this.#number, this)
  }

  // The number in the native part.
  get _number () {
    if (this.#number === undefined) throw invalid('the runtime is closed')
    return this.#number
  }

  // Returns what the databases use now. The names contain the units.
  metrics () {
    const texts = call(binding.runtimeMetrics, this._number)
    const metrics = {}
    for (let at = 0; at < texts.length; at += 2) metrics[toCamel(texts[at])] = Number(texts[at + 1])
    return metrics
  }

  // Frees the runtime. It lives on as long as a database that was opened with it.
  close () {
    if (this.#number === undefined) return
    lost.unregister(this)
    binding.dropObject(this.#number)
    this.#number = undefined
  }
}

// Returns the number of the runtime of options.
exports.runtimeOf = function (runtime) {
  if (runtime === undefined || runtime === null) return undefined
  if (!(runtime instanceof Runtime)) throw new TypeError("The option 'runtime' must be a Runtime")
  return runtime._number
}

function failureOf (text) {
  const at = text.indexOf('\n')
  const kind = text.slice(0, at)
  const failure = new ModuleError(text.slice(at + 1), { code: codes[kind] })
  failure.kind = kind
  return failure
}

// Reads an event (src/observe.rs).
function eventOf (texts) {
  const event = { kind: texts[0], text: texts[1] }
  for (let at = 2; at < texts.length; at += 3) {
    const [type, given, text] = texts.slice(at, at + 3)
    const name = toCamel(given)
    switch (type) {
      case 'text': event[name] = text; break
      case 'flag': event[name] = text === 'true'; break
      case 'failure': event[name] = failureOf(text); break
      case 'options': {
        event[name] = {}
        for (let left = Number(text); left > 0; left--, at += 2) {
          event[name][texts[at + 3]] = texts[at + 4]
        }
        break
      }
      default: event[name] = Number(text)
    }
  }
  return event
}

// Returns the function that the native part calls with events, or undefined.
exports.listenOf = function (listener) {
  if (listener === undefined || listener === null) return undefined
  if (typeof listener !== 'function') throw new TypeError("The option 'listener' must be a function")
  return texts => {
    try {
      listener(eventOf(texts))
    } catch (err) {
      process.emitWarning(err instanceof Error ? err : new Error(`a listener threw ${String(err)}`))
    }
  }
}

exports.Runtime = Runtime
