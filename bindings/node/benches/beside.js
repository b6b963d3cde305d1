'use strict'

// Esker beside classic-level (LevelDB) and lmdb-js: puts, batches, reads and iterations, in turn.
// Prints two tables: operations per second, and the processor time of all threads per operation, which
// a busy machine changes less. Both are medians of several rounds.
//
//     node benches/beside.js [PAIRS] [ROUNDS]
//
// Invariants:
// 1. Each round makes new stores, and its engines run in another order than those of the round before.
// 2. What is read is compared with what was written.

const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { EskerLevel } = require('..')

const PAIRS = Number(process.argv[2] ?? 100_000)
const ROUNDS = Number(process.argv[3] ?? 5)
const BATCH = 1000
const GROUP = 100
const home = fs.mkdtempSync(path.join(process.env.ESKER_TEST_DIR ?? os.tmpdir(), 'esker-bench-'))

// Keys in an order that is not theirs, and values of 100 bytes that compress to about half.
const keyOf = i => 'key' + String((i * 7919) % PAIRS).padStart(13, '0')
const texts = Array.from({ length: 1000 }, (_, i) => {
  let text = ''
  for (let n = i * 31 + 7; text.length < 50; n = (n * 1103515245 + 12345) % 2147483648) text += n.toString(36)
  return text.slice(0, 50) + 'x'.repeat(50)
})
const valueOf = i => texts[((i * 7919) % PAIRS) % 1000]

function level (Level) {
  return async location => {
    const db = new Level(location)
    await db.open()
    return {
      put: (k, v) => db.put(k, v),
      batch: pairs => db.batch(pairs.map(([key, value]) => ({ type: 'put', key, value }))),
      sync: pairs => Promise.all(pairs.map(([k, v]) => db.put(k, v, { sync: true }))),
      get: k => db.get(k),
      getSync: k => db.getSync(k),
      getMany: ks => db.getMany(ks),
      each: async f => { for await (const [k, v] of db.iterator()) f(k, v) },
      all: async () => (await db.iterator().all()).length,
      page: async (k, limit) => (await db.iterator({ gte: k, limit }).all()).length,
      close: () => db.close()
    }
  }
}

function lmdb () {
  const { open } = require('lmdb')
  return async location => {
    const db = open({ path: location, encoding: 'string', noMemInit: true, overlappingSync: true })
    return {
      // A put's promise resolves after its commit, so those of a group are awaited together.
      put: (k, v) => db.put(k, v),
      batch: pairs => db.transaction(() => { for (const [k, v] of pairs) db.put(k, v) }),
      sync: pairs => Promise.all(pairs.map(([k, v]) => db.put(k, v))).then(() => db.flushed),
      get: k => db.get(k),
      getSync: k => db.get(k),
      getMany: ks => db.getMany(ks),
      each: async f => { for (const { key, value } of db.getRange()) f(key, value) },
      all: async () => db.getRange().asArray.length,
      page: async (k, limit) => db.getRange({ start: k, limit }).asArray.length,
      close: () => db.close()
    }
  }
}

function engines () {
  const found = { esker: level(EskerLevel) }
  try {
    found['classic-level'] = level(require('classic-level').ClassicLevel)
  } catch (err) {
    console.error(`classic-level: skipped: ${err.message.split('\n')[0]}`)
  }
  try {
    found.lmdb = lmdb()
  } catch (err) {
    console.error(`lmdb: skipped: ${err.message.split('\n')[0]}`)
  }
  return found
}

const check = (right, what) => { if (!right) throw new Error(`${what} returned something else`) }

// The measurements: name, number of operations, and work.
const work = [
  ['put, one after the other', PAIRS / 10, async (db, n) => {
    for (let i = 0; i < n; i++) await db.put(keyOf(i), valueOf(i))
  }],
  [`put, ${GROUP} at a time`, PAIRS, async (db, n) => {
    for (let i = 0; i < n; i += GROUP) {
      await Promise.all(Array.from({ length: GROUP }, (_, j) => db.put(keyOf(i + j), valueOf(i + j))))
    }
  }],
  [`put with sync, ${GROUP} at a time`, PAIRS / 100, async (db, n) => {
    for (let i = 0; i < n; i += GROUP) {
      await db.sync(Array.from({ length: GROUP }, (_, j) => [keyOf(i + j), valueOf(i + j)]))
    }
  }],
  [`batch of ${BATCH}`, PAIRS, async (db, n) => {
    for (let i = 0; i < n; i += BATCH) {
      await db.batch(Array.from({ length: BATCH }, (_, j) => [keyOf(i + j), valueOf(i + j)]))
    }
  }],
  ['get, one after the other', PAIRS, async (db, n) => {
    for (let i = 0; i < n; i++) check(await db.get(keyOf(i * 13)) === valueOf(i * 13), 'get')
  }],
  [`get, ${GROUP} at a time`, PAIRS, async (db, n) => {
    for (let i = 0; i < n; i += GROUP) {
      const values = await Promise.all(Array.from({ length: GROUP }, (_, j) => db.get(keyOf(i + j))))
      check(values[1] === valueOf(i + 1), 'get')
    }
  }],
  ['getSync', PAIRS, async (db, n) => {
    for (let i = 0; i < n; i++) check(db.getSync(keyOf(i * 13)) === valueOf(i * 13), 'getSync')
  }],
  [`getMany of ${GROUP}`, PAIRS, async (db, n) => {
    for (let i = 0; i < n; i += GROUP) {
      const values = await db.getMany(Array.from({ length: GROUP }, (_, j) => keyOf((i + j) * 13)))
      check(values[1] === valueOf((i + 1) * 13), 'getMany')
    }
  }],
  ['for await over all', PAIRS, async (db, n) => {
    let count = 0
    await db.each((k, v) => { if (v.length === 100 && k.length === 16) count++ })
    check(count === n, 'the iterator')
  }],
  ['all()', PAIRS, async (db, n) => check(await db.all() === n, 'all()')],
  ...[1, 10, 100].map(limit => [`page of ${limit}`, PAIRS / 100, async (db, n) => {
    for (let i = 0; i < n; i++) check(await db.page(keyOf(i), limit) > 0, 'page')
  }])
]

async function main () {
  const found = engines()
  const names = Object.keys(found)
  const [rates, costs] = [new Map(), new Map()]
  for (let round = 0; round < ROUNDS; round++) {
    const order = names.map((_, i) => names[(i + round) % names.length])
    for (const name of order) {
      const location = path.join(home, `${name}-${round}`)
      const db = await found[name](location)
      for (const [what, count, run] of work) {
        const [began, usage] = [process.hrtime.bigint(), process.cpuUsage()]
        await run(db, count)
        const { user, system } = process.cpuUsage(usage)
        const seconds = Number(process.hrtime.bigint() - began) / 1e9
        const key = `${what}|${name}`
        rates.set(key, [...(rates.get(key) ?? []), count / seconds])
        costs.set(key, [...(costs.get(key) ?? []), (user + system) / count])
      }
      await db.close()
      fs.rmSync(location, { recursive: true, force: true })
      fs.rmSync(location + '-lock', { force: true })
    }
  }
  const median = values => [...values].sort((a, b) => a - b)[values.length >> 1]
  const shown = (values, scale) => [median(values), Math.min(...values), Math.max(...values)]
    .map(value => value / scale).map(value => value < 10 ? value.toFixed(2) : Math.round(value))
  const table = (title, of, scale) => {
    console.log(`\n${title}\n\n| | ${names.join(' | ')} |\n|---|${names.map(() => '---:|').join('')}`)
    for (const [what] of work) {
      const cells = names.map(name => {
        const [middle, low, high] = shown(of.get(`${what}|${name}`), scale)
        return `${middle} (${low}…${high})`
      })
      console.log(`| ${what} | ${cells.join(' | ')} |`)
    }
  }
  console.log(`${PAIRS} pairs of 16 + 100 bytes, medians of ${ROUNDS} rounds (lowest…highest), ` +
    `Node.js ${process.version}, ${os.cpus().length} processors ${os.cpus()[0].model.trim()}.`)
  table('Thousands of operations per second:', rates, 1000)
  table('Microseconds of processor time per operation, all threads together:', costs, 1)
}

main().finally(() => fs.rmSync(home, { recursive: true, force: true }))
