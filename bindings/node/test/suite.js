'use strict'

// abstract-level's own test suite, whole: on a database, on a keyspace, and on the sublevels of both.
// Arguments choose: `suite.js keyspace`. scripts/node.sh runs one process for each kind of database, and
// knows how many tests the suite has.

const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const test = require('tape')
const suite = require('abstract-level/test')
const { EskerLevel } = require('..')

// The suite opens thousands of databases. Their syncs would take minutes on a disk.
const place = process.env.ESKER_TEST_DIR ?? (fs.existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir())
const home = fs.mkdtempSync(path.join(place, 'esker-suite-'))
let count = 0

function database (options) {
  return new EskerLevel(path.join(home, String(count++)), options)
}

// Keyspaces share a database. Each test has a new one.
let shared = null

const factories = {
  database,
  keyspace (options) {
    shared ??= database()
    return shared.keyspace(`test ${count++}`, options)
  }
}

const names = process.argv.slice(2)
for (const [name, factory] of Object.entries(factories)) {
  if (names.length === 0 || names.includes(name)) suite({ test, factory })
}

// Some tests leave databases open, with listeners that count. So these are not closed here but by the
// end of the process.
process.on('exit', () => fs.rmSync(home, { recursive: true, force: true }))
