'use strict'

// Errors of the native part become errors with a `code`.
//
// Invariants:
// 1. The text of a native error has the fields kind, errno, path and message (src/errors.rs).
// 2. A code that abstract-level has is used. The others begin with ESKER_.

const ModuleError = require('module-error')

// A test compares the kinds with docs/errors.md.
const codes = {
  'invalid argument': 'ESKER_INVALID_ARGUMENT',
  'not found': 'ESKER_NOT_FOUND',
  corruption: 'LEVEL_CORRUPTION',
  'i/o': 'LEVEL_IO_ERROR',
  'no space': 'ESKER_NO_SPACE',
  locked: 'LEVEL_LOCKED',
  incompatible: 'ESKER_INCOMPATIBLE',
  'read-only': 'ESKER_READ_ONLY',
  closed: 'LEVEL_DATABASE_NOT_OPEN',
  conflict: 'ESKER_CONFLICT',
  busy: 'ESKER_BUSY',
  deadlock: 'ESKER_DEADLOCK',
  internal: 'ESKER_INTERNAL'
}

exports.codes = codes

// Returns the error that a program gets. Other errors are returned as they are.
exports.fromNative = function (err) {
  const fields = typeof err?.message === 'string' ? err.message.split('\x1f') : []
  if (fields.length !== 4) return err
  const [kind, errno, path, message] = fields
  const known = new ModuleError(message, { code: codes[kind] })
  known.kind = kind
  if (errno !== '') known.errno = Number(errno)
  if (path !== '') known.path = path
  return known
}

// Calls a native function.
exports.call = function (fn, ...args) {
  try {
    return fn(...args)
  } catch (err) {
    throw exports.fromNative(err)
  }
}

// Calls a native function that returns a promise.
exports.callLater = async function (fn, ...args) {
  try {
    return await fn(...args)
  } catch (err) {
    throw exports.fromNative(err)
  }
}

exports.notOpen = function (what) {
  return new ModuleError(`${what} is not open`, { code: 'LEVEL_DATABASE_NOT_OPEN' })
}

exports.invalid = function (message) {
  return new ModuleError(message, { code: 'ESKER_INVALID_ARGUMENT' })
}
