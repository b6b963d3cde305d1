'use strict'

// Encrypted databases, followers, runtimes, listeners, what a database tells about itself, and reports.

const { spawn } = require('node:child_process')
const { randomBytes } = require('node:crypto')
const { once } = require('node:events')
const fs = require('node:fs')
const path = require('node:path')
const readline = require('node:readline')
const test = require('tape')
const { EskerLevel, Follower, Runtime, enablePerf, takePerf } = require('..')
const { cleanUp, database, errorOf, path: temporary } = require('./common')

test.onFinish(cleanUp)

const SECRET = 'a value that nobody may read'
const LONG = 600_000
const key = Buffer.alloc(32, 0x5a)
const other = '0b'.repeat(32) + '\n'

// Returns how many files of a directory have the secret.
function plainFiles (directory) {
  const names = fs.readdirSync(directory, { recursive: true, withFileTypes: true })
  const files = names.filter(entry => entry.isFile()).map(entry => path.join(entry.path ?? directory, entry.name))
  if (files.length <= 3) throw new Error(`${directory} has ${files.length} files`)
  return files.filter(file => fs.readFileSync(file).includes(SECRET)).length
}

async function fill (location, options) {
  const db = await database(options, location)
  await db.put('table', SECRET)
  await db.flush()
  await db.put('log', SECRET)
  await db.close()
}

async function opens (t, location, options) {
  const db = await database(options, location)
  t.same([await db.get('table'), await db.get('log')], [SECRET, SECRET])
  await db.close()
}

async function refusedBecause (location, options) {
  const err = await errorOf(() => database(options, location))
  return `${err.cause?.code} ${err.cause?.message}`
}

test('an encrypted database opens with its key only', async t => {
  const [plain, location, keyFile] = [temporary(), temporary(), temporary()]
  await fill(plain)
  await fill(location, { key })
  t.ok(plainFiles(plain) > 0, 'the search finds what is there')
  t.is(plainFiles(location), 0, 'no file has the text')
  t.match(await refusedBecause(location, {}), /^ESKER_INVALID_ARGUMENT .*the store is encrypted/)
  t.match(await refusedBecause(location, { key: other }), /^ESKER_INVALID_ARGUMENT .*does not open this store/)
  t.match(await refusedBecause(location, { keyFile }), /^ESKER_INVALID_ARGUMENT .*cannot read the key file/)
  t.match(await refusedBecause(plain, { key }), /^ESKER_INVALID_ARGUMENT .*the store is not encrypted/)
  for (const wrong of ['', 'short', 'xy'.repeat(32), 'Z'.repeat(32), '5a'.repeat(16), Buffer.alloc(33)]) {
    const why = await refusedBecause(location, { key: wrong })
    t.match(why, /^ESKER_INVALID_ARGUMENT .*64 hexadecimal digits/)
    t.notOk(why.includes('xyxy'), 'without the bytes')
  }
  t.match(await refusedBecause(location, { key: 7 }), /^ESKER_INVALID_ARGUMENT .*not number/)
  t.match(await refusedBecause(location, { key, keyFile }), /^ESKER_INVALID_ARGUMENT .*both/)
  fs.writeFileSync(keyFile, '5A'.repeat(32) + '\n')
  for (const options of [{ key }, { key: new Uint8Array(key) }, { key: '5a'.repeat(32) }, { keyFile }, { key, readOnly: true }]) {
    await opens(t, location, options)
  }
})

test('functions give keys by name', async t => {
  const location = temporary()
  const asked = []
  const options = { key: async name => { asked.push(name); return { key, name: 'key 1' } } }
  await fill(location, options)
  await opens(t, location, options)
  t.same(asked, [undefined, 'key 1'])
  await opens(t, location, { key: () => ({ key: key.toString('hex'), name: 'key 1' }) })
  const down = new Error('the service is down')
  t.is((await errorOf(() => database({ key: async () => { throw down } }, location))).cause, down)
  for (const given of [undefined, {}, { key: 7, name: 'x' }, { key, name: '' }, { key: key.subarray(1), name: 'x' }, Buffer.alloc(32)]) {
    t.match(await refusedBecause(location, { key: () => given }), /^ESKER_INVALID_ARGUMENT/)
  }
  await opens(t, location, { key })
})

test('rekey replaces the key', async t => {
  const location = temporary()
  await fill(location, { key })
  const rekey = async (from, to, at = location) => (await errorOf(() => EskerLevel.rekey(at, from, to))).code
  const db = await database({ key }, location)
  t.is(await rekey({ key }, { key: other }), 'LEVEL_LOCKED')
  await db.close()
  t.is(await rekey({ key: other }, { key }), 'ESKER_INVALID_ARGUMENT')
  t.is(await rekey({ key }, {}), 'ESKER_INVALID_ARGUMENT')
  t.is(await rekey({}, { key }), 'ESKER_INVALID_ARGUMENT')
  t.is(await rekey({ key }, { key: other }, temporary()), 'ESKER_NOT_FOUND')
  const { from, to, dataKeys, removedDataKeys } = await EskerLevel.rekey(location, { key }, { key: other })
  t.same([from.length, to.length, from === to, dataKeys >= 1, removedDataKeys], [16, 16, false, true, 0])
  const why = await refusedBecause(location, { key })
  t.ok(why.includes(from) && why.includes(to), 'both names')
  await opens(t, location, { key: other })
  const again = await database({ key: other }, location)
  await again.compactAll()
  await again.close()
  t.is(plainFiles(location), 0)
})

test('copies are encrypted under the same key', async t => {
  const [location, backups, checkpoint, restored, file] = Array.from({ length: 5 }, temporary)
  await fill(location, { key })
  const asked = []
  const byName = { key: name => { asked.push(name); return key } }
  const db = await database({ key }, location)
  await db.backup(backups)
  await db.backup(backups)
  await db.checkpoint(checkpoint)
  const made = await EskerLevel.writeSorted(file, [['sorted', SECRET]], { key })
  await db.ingest([made.path])
  t.is(await db.get('sorted'), SECRET)
  await db.close()
  t.same(await EskerLevel.backups(backups, byName), [1, 2])
  t.same(await EskerLevel.pruneBackups(backups, 1, byName), [1])
  await EskerLevel.restore(backups, restored, byName)
  t.ok(asked.length === 3 && asked.every(name => name.length === 16), 'asked by name')
  t.same(await EskerLevel.repair(restored, { key }), [])
  for (const copy of [location, checkpoint, restored]) {
    await opens(t, copy, { key })
    t.is(plainFiles(copy), 0)
  }
  t.is(plainFiles(backups), 0)
})

// A process that writes a batch for each order.
class Writer {
  constructor (location, options) {
    const source = `
      const { EskerLevel } = require(${JSON.stringify(require.resolve('..'))})
      const options = ${JSON.stringify(options)}
      const db = new EskerLevel(${JSON.stringify(location)}, options)
      let number = 0
      require('node:readline').createInterface({ input: process.stdin }).on('line', async () => {
        const name = 'k' + number++
        await db.batch([{ type: 'put', key: name, value: 'written' }, { type: 'put', key: 'last', value: name }])
        console.log(name)
      })`
    this.process = spawn(process.execPath, ['-e', source], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.answers = readline.createInterface({ input: this.process.stdout })[Symbol.asyncIterator]()
  }

  async write () {
    this.process.stdin.write('write\n')
    const { done } = await this.answers.next()
    if (done) throw new Error('the writer has ended')
  }

  async kill () {
    const ended = once(this.process, 'exit')
    this.process.kill('SIGKILL')
    await ended
  }
}

for (const [name, options] of Object.entries({ plain: {}, encrypted: { key: '5a'.repeat(32) } })) {
  test(`a follower takes the place of a killed writer: ${name}`, async t => {
    const location = temporary()
    const writer = new Writer(location, options)
    await writer.write()
    const follower = await EskerLevel.follow(location, options)
    t.ok(follower instanceof Follower && follower.location === location)
    const first = await follower.db()
    t.is(await first.get('last'), 'k0')
    t.is((await errorOf(() => first.put('k', 'v'))).code, 'ESKER_READ_ONLY')
    await writer.write()
    const lag = await follower.lag()
    t.same([lag.operations, lag.newest - lag.position, lag.error], [2, 2, undefined])
    t.ok(lag.position === follower.position && lag.age >= 0)
    t.is(await follower.catchUp(), lag.newest)
    const second = await follower.db({ valueEncoding: 'buffer' })
    t.same([String(await second.get('last')), await first.get('last'), await first.get('k1')], ['k1', 'k0', undefined])
    t.is(await follower.waitFor(lag.newest, 0), true)
    t.is(await follower.waitFor(lag.newest + 1, 1), false)
    t.is((await errorOf(() => follower.promote())).code, 'LEVEL_LOCKED')
    for (const wrong of [0, -1, NaN, 'x']) {
      t.is((await errorOf(async () => follower.catchUpEvery(wrong))).code, 'ESKER_INVALID_ARGUMENT')
    }
    t.is((await errorOf(() => follower.waitFor(-1))).code, 'ESKER_INVALID_ARGUMENT')
    t.is((await errorOf(() => follower.waitFor(1, -1))).code, 'ESKER_INVALID_ARGUMENT')
    follower.catchUpEvery(Infinity)
    follower.catchUpEvery(1)
    await writer.write()
    while (follower.position < lag.newest + 2) await new Promise(resolve => setTimeout(resolve, 1))
    await writer.kill()
    const promoted = await follower.promote()
    t.is(await promoted.get('last'), 'k2')
    await promoted.put('mine', '1')
    t.is(await follower.waitFor(lag.newest + 3, LONG), true)
    await first.close()
    await first.open()
    t.is(await first.get('mine'), '1', 'a view that is opened again is the newest one')
    await follower.close()
    await follower.close()
    t.same([await promoted.get('mine'), String(await second.get('last'))], ['1', 'k1'])
    await first.close()
    t.is((await errorOf(() => first.get('last'))).code, 'LEVEL_DATABASE_NOT_OPEN')
    await second.close()
    await promoted.close()
    await promoted.open()
    t.is(await promoted.get('mine'), '1', 'a promoted database opens again')
    await promoted.close()
  })
}

test('calls on a closed follower reject, and a close ends a wait', async t => {
  const db = await database()
  await db.put('k', 'v')
  const follower = await EskerLevel.follow(db.location)
  const view = await follower.db()
  const wait = errorOf(() => follower.waitFor(Number.MAX_SAFE_INTEGER))
  await follower.close()
  t.is((await wait).code, 'LEVEL_DATABASE_NOT_OPEN')
  for (const call of ['db', 'catchUp', 'lag', 'promote']) {
    t.is((await errorOf(() => follower[call]())).code, 'LEVEL_DATABASE_NOT_OPEN', call)
  }
  t.is((await errorOf(async () => follower.position)).code, 'LEVEL_DATABASE_NOT_OPEN')
  t.is((await errorOf(async () => follower.catchUpEvery(1))).code, 'LEVEL_DATABASE_NOT_OPEN')
  t.is((await errorOf(() => follower.waitFor(1))).code, 'LEVEL_DATABASE_NOT_OPEN')
  t.is(await view.get('k'), 'v')
  await view.close()
  t.is((await errorOf(() => EskerLevel.follow(temporary()))).code, 'ESKER_NOT_FOUND')
  await db.close()
})

test('databases share a runtime', async t => {
  const runtime = new Runtime({ memoryBudgetBytes: '64MiB', cacheSizeBytes: 1 << 20, cachePolicy: 'lru', threadsMax: 3 })
  t.is(runtime.metrics().budgetBytes, 64 << 20)
  const [one, two] = [await database({ runtime }), await database({ runtime })]
  await one.put('k', '1')
  await two.put('k', '2')
  t.is(runtime.metrics().stores, 2)
  t.same([await one.get('k'), await two.get('k')], ['1', '2'])
  await one.close()
  t.is(runtime.metrics().stores, 1)
  runtime.close()
  runtime.close()
  t.is((await errorOf(async () => runtime.metrics())).code, 'ESKER_INVALID_ARGUMENT')
  t.is(await two.get('k'), '2', 'it lives on')
  await two.close()
  t.match(await refusedBecause(temporary(), { runtime }), /closed/)
  t.ok((await errorOf(() => database({ runtime: {} }))).cause instanceof TypeError)
  for (const wrong of [{ threads: 3 }, { threadsMax: 1 }, { memoryBudgetBytes: 'much' }]) {
    t.is((await errorOf(async () => new Runtime(wrong))).code, 'ESKER_INVALID_ARGUMENT')
  }
})

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

// Waits for an event.
async function eventIn (events, kind) {
  const end = Date.now() + LONG
  while (Date.now() < end) {
    const found = events.find(event => event.kind === kind)
    if (found !== undefined) return found
    await new Promise(resolve => setTimeout(resolve, 1))
  }
  throw new Error(`no event ${kind}`)
}

test('a listener gets the events of its database', async t => {
  const events = []
  const warned = once(process, 'warning')
  const db = await database({
    compression: 'zstd',
    listener: event => {
      events.push(event)
      if (event.kind === 'opened') throw new Error('of the listener')
    }
  })
  t.match((await warned)[0].message, /of the listener/)
  const opened = await eventIn(events, 'opened')
  t.same([opened.readOnly, typeof opened.duration, opened.options.compression], [false, 'number', 'zstd'])
  await db.keyspace('users').open()
  t.is((await eventIn(events, 'keyspace_created')).name, 'users')
  await db.put('k', 'v')
  await db.flush()
  const flushed = await eventIn(events, 'flush_ended')
  t.ok(flushed.writtenBytes > 0 && flushed.text.length > 5 && flushed.error === undefined)
  await db.close()
  await eventIn(events, 'closed')
  t.is(events[0].kind, 'opened', 'in order')
  t.ok((await errorOf(() => database({ listener: 7 }))).cause instanceof TypeError)
})

test('metrics and tables', async t => {
  const db = await database()
  const users = db.keyspace('users')
  await db.put('a', '1')
  await db.batch([{ type: 'put', key: 'b', value: '2' }, { type: 'del', key: 'c' }])
  await users.put('u', '3')
  t.is(db.metric('userOps'), 4)
  t.is(db.metric('user_ops'), 4)
  await db.flush()
  const metrics = db.metrics()
  t.is(metrics.store.userOps, 4)
  t.is(metrics.memory.budgetBytes, db.metric('memory.budgetBytes'))
  t.is(metrics.levels[0].level ?? 0, 0)
  t.is(metrics.levels.reduce((sum, level) => sum + level.files, 0), metrics.store.tableFiles)
  t.is(db.metric('levels.files', 0), metrics.levels[0].files)
  t.is(metrics.scrubProblem, undefined)
  const tables = await db.tables()
  t.same(tables.map(table => table.tree > 0), [false, true])
  const [own] = tables
  t.same([own.entries, own.deletes, own.rangeDeletes, String(own.smallest), String(own.largest)], [3, 1, 0, 'a', 'c'])
  t.ok(own.number > 0 && own.level >= 0 && own.sizeBytes > 0 && own.rawBytes > 0)
  t.is(String(tables[1].smallest.subarray(4)), 'u')
  for (const wrong of [['nonsense'], ['levels.bytes'], ['userOps', 0], ['levels.bytes', 99], ['userOps', -1]]) {
    t.is((await errorOf(async () => db.metric(...wrong))).code, 'ESKER_INVALID_ARGUMENT', String(wrong))
  }
  t.ok((await errorOf(async () => db.metric(5))) instanceof TypeError)
  t.same([db.stall(), db.recoveryNotes()], [undefined, []])
  await db.close()
})

test('what a crash lost is noted', async t => {
  const location = temporary()
  const writer = new Writer(location, { walIo: 'write' })
  await writer.write()
  await writer.write()
  await writer.kill()
  const logs = fs.readdirSync(location).filter(name => name.endsWith('.wal'))
  t.is(logs.length, 1)
  const file = path.join(location, logs[0])
  const written = fs.readFileSync(file).lastIndexOf('written')
  t.ok(written > 0, 'the second batch is in the log')
  fs.truncateSync(file, written)
  const db = await database({}, location)
  const notes = db.recoveryNotes()
  t.ok(notes.length === 1 && notes[0].includes(logs[0]), String(notes))
  t.is(await db.get('last'), 'k0')
  await db.close()
})

test('the status of a database that another process has open', async t => {
  for (const options of [{}, { key }]) {
    const location = temporary()
    t.is((await errorOf(() => EskerLevel.liveStatus(location, options))).code, 'ESKER_NOT_FOUND')
    const writer = new Writer(location, options.key === undefined ? {} : { key: key.toString('hex') })
    await writer.write()
    const status = await EskerLevel.liveStatus(location, options)
    t.is(status.process, writer.process.pid)
    t.ok(status.version >= 1 && status.opened <= status.updated && status.updated <= new Date())
    t.ok(status.metrics.store.userOps >= 0 && status.metrics.levels.length > 0)
    t.ok(status.openmetrics.endsWith('# EOF\n'))
    await writer.kill()
    t.is((await EskerLevel.liveStatus(location, options)).process, writer.process.pid, 'the last one stays')
  }
})

test('the calls of this thread are counted', async t => {
  const db = await database()
  await db.put('a', '1')
  t.is(takePerf().gets, 0, 'off at first')
  enablePerf()
  db.getSync('a')
  db.getSync('none')
  await db.put('b', '2')
  const counts = takePerf()
  t.same([counts.gets, counts.memtableHits, counts.valueBytesRead], [2, 1, 1])
  t.ok(counts.walBytes > 0 && counts.stallNs === 0)
  t.is(takePerf().gets, 0)
  enablePerf(false)
  db.getSync('a')
  t.is(takePerf().gets, 0)
  t.ok((await errorOf(async () => enablePerf(1))) instanceof TypeError)
  await db.close()
})

test('a database without threads runs its jobs when told', async t => {
  const db = await database({ backgroundThreads: 0, writeBufferSize: '64KiB', frozenMemtablesMax: 4 })
  for (let i = 0; i < 3000; i++) await db.put(`k${i}`, 'v'.repeat(50))
  let jobs = 0
  while (await db.runOneJob()) jobs++
  t.ok(jobs > 0, `${jobs} jobs`)
  t.is(await db.runOneJob(), false)
  await db.close()
})

test('a write with a timeout is busy while writes wait, and not written', async t => {
  const runtime = new Runtime({ backgroundBytesPerSecond: '64KiB' })
  const db = await database({ runtime, writeBufferSize: '64KiB', frozenMemtablesMax: 1, compression: false })
  const noise = () => randomBytes(1000)
  const options = { valueEncoding: 'buffer', timeout: 0 }
  let [busy, count] = [undefined, 0]
  while (busy === undefined && count < 5000) {
    await db.put(`k${count++}`, noise(), options).catch(err => { busy = err })
  }
  t.same([busy?.code, busy?.kind], ['ESKER_BUSY', 'busy'])
  t.match(busy.message, /nothing was written/)
  t.is(await db.get(`k${count - 1}`), undefined)
  const stall = db.stall()
  if (stall !== undefined) {
    t.ok(stall.cause !== '' && stall.clears !== '' && stall.duration >= 0 && typeof stall.isStopped === 'boolean')
  }
  // These wait behind a put without a timeout, which waits for a flush.
  let [waits, isWritten, isStopped] = [undefined, false, false]
  while (!isStopped && count < 5000) {
    isWritten = false
    waits = db.put(`k${count++}`, noise(), { valueEncoding: 'buffer' }).then(() => { isWritten = true })
    while (!isWritten && !isStopped) {
      await pause(1)
      isStopped = db.stall()?.isStopped === true
    }
  }
  t.is(isStopped, true)
  const calls = [
    db.put('p', '1', { timeout: 0 }), db.del('k0', { timeout: 0, sync: true }),
    db.batch([{ type: 'put', key: 'p', value: '1' }], { timeout: 1 }), db.batch().put('p', '1').write({ timeout: 0 }),
    db.merge('p', '1', { timeout: 0 })
  ]
  const settled = await Promise.allSettled(calls)
  await pause(1)
  if (!isWritten) {
    t.same(settled.map(({ reason }) => reason?.code), calls.map(() => 'ESKER_BUSY'))
    t.is(await db.has('k0'), true, 'nothing was written')
  }
  await waits
  await db.put('last', '1', { timeout: 600_000, sync: true })
  await db.put('last', '2', { timeout: Infinity })
  t.is(await db.get('last'), '2')
  for (const timeout of [-1, NaN, '5']) {
    t.is((await errorOf(() => db.put('a', 'b', { timeout }))).code, 'ESKER_INVALID_ARGUMENT', String(timeout))
  }
  await db.close()
  runtime.close()
})

test('backups, checks and repairs report numbers', async t => {
  const db = await database()
  const backups = temporary()
  await db.put('a', '1')
  const first = await db.backup(backups, { report: true })
  t.ok(first.number === 1 && first.path.startsWith(backups) && first.copiedFiles === 1 && first.copiedBytes > 0)
  const second = await db.backup(backups, { report: true })
  t.same([second.number, second.copiedFiles, second.linkedFiles], [2, 0, 1])
  t.is(second.linkedBytes, first.copiedBytes)
  const infos = await EskerLevel.backups(backups, { report: true })
  t.same(infos.map(info => info.number), [1, 2])
  const [{ path: at, tables, tableBytes, created, storeId, storePath, problem }] = infos
  t.ok(at === first.path && tables === 1 && tableBytes > 0 && created.getTime() <= Date.now())
  t.same([storeId, storePath, problem], [(await db.lineage()).storeId, fs.realpathSync(db.location), undefined])
  t.same(await EskerLevel.pruneBackups(backups, 1, { report: true }), { removed: [1], kept: [2] })
  t.is(await EskerLevel.restore(backups, temporary()), 2)
  const heard = []
  const report = await db.verify({ report: true, progress: (...told) => heard.push(told) })
  t.same([report.files, report.entries, report.rangeDeletes, report.problems], [1, 1, 0, []])
  t.ok(report.formatVersion > 0 && report.logs > 0 && report.bytes > 0 && report.valueFiles === 0)
  // The last calls may come after the promise has settled.
  for (const end = Date.now() + LONG; heard.length === 0 && Date.now() < end;) await pause(1)
  t.ok(heard.length > 0 && heard.every(([bytes, of]) => bytes <= of))
  t.ok((await errorOf(() => db.verify({ progress: 1 }))) instanceof TypeError)
  await db.close()
  const repaired = await EskerLevel.repair(db.location, { report: true })
  t.ok(repaired.manifestReadable && repaired.tables === 1 && repaired.pairs === 1 && repaired.entriesHeldMax >= 0)
  t.ok(repaired.logs >= 0 && fs.existsSync(repaired.originals))
  t.same(repaired.lost, [])
})
