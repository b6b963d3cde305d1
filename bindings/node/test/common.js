'use strict'

// What the tests share: databases in a directory that is removed at the end.

const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { EskerLevel } = require('..')

const place = process.env.ESKER_TEST_DIR ?? (fs.existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir())
const home = fs.mkdtempSync(path.join(place, 'esker-node-'))
const open = new Set()
let count = 0

exports.path = () => path.join(home, String(count++))

exports.database = async function (options, location = exports.path()) {
  const db = new EskerLevel(location, options)
  open.add(db)
  await db.open()
  return db
}

exports.cleanUp = async function () {
  for (const db of open) await db.close().catch(() => {})
  fs.rmSync(home, { recursive: true, force: true })
}

// Returns the error of a call, or fails.
exports.errorOf = async function (call) {
  try {
    await call()
  } catch (err) {
    return err
  }
  throw new Error(`no error: ${call}`)
}

// A generator of numbers below a bound, from a seed.
exports.random = function (seed) {
  let state = seed >>> 0
  return function (below) {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

exports.hasCode = (err, code) => err.code === code || err.cause?.code === code
