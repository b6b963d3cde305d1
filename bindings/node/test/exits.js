'use strict'

// Ends of processes and threads with everything open, and memory in loops. Each case runs in a
// process of its own, which must end by itself with the expected code.

const { spawnSync } = require('node:child_process')
const test = require('tape')
const { cleanUp, database, path } = require('./common')

test.onFinish(cleanUp)

const head = location => `
'use strict'
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads')
const { EskerLevel } = require(${JSON.stringify(require.resolve('..'))})
const location = ${JSON.stringify(location)}
const entries = count => Array.from({ length: count }, (_, i) => ({ type: 'put', key: 'k' + i, value: 'v' + i }))
async function opened (options, at = location) {
  const db = new EskerLevel(at, options)
  await db.open()
  await db.batch(entries(2000))
  return db
}
process.on('unhandledRejection', err => { console.error(err); process.exit(99) })
`

function run (source, location, ...flags) {
  return runWith({}, source, location, ...flags)
}

// Runs a program with more variables of its environment.
function runWith (variables, source, location, ...flags) {
  const program = head(location) + `;(async () => {${source}})()`
  const env = { ...process.env, ...variables }
  return spawnSync(process.execPath, [...flags, '-e', program], { encoding: 'utf8', timeout: 600_000, env })
}

const cases = {
  'an open database at the end of the program': ['await opened()', 0],
  'open iterators, snapshots, batches and transactions at an exit': [`
    const db = await opened()
    const held = [db.iterator(), db.keys({ reverse: true }), db.snapshot(), db.batch().put('a', 'b'), db.transaction(), db.keyspace('k')]
    await held[0].nextv(10)
    await held[5].open()
    await held[4].put('x', 'y')
    process.exit(7)`, 7],
  'calls in libuv\'s pool at an exit': [`
    const db = await opened()
    for (let i = 0; i < 20; i++) { db.put('s' + i, 'x', { sync: true }); db.compactAll(); db.verify(); db.flush() }
    setImmediate(() => process.exit(7))`, 7],
  'a transaction that waits for a lock at an exit': [`
    const db = await opened()
    const options = { concurrency: 'pessimistic', lockTimeout: 600_000 }
    const [one, other] = [db.transaction(options), db.transaction(options)]
    await one.put('a', '1')
    other.put('a', '2').catch(() => {})
    setTimeout(() => process.exit(7), 50)`, 7],
  'a load, a stream and their readers that wait at an exit': [`
    const { PassThrough } = require('node:stream')
    const db = await opened()
    const sources = [1, 2].map(() => new PassThrough())
    sources[0].write(Buffer.alloc(600 << 10))
    db.putStream('s', sources[0]).catch(() => {})
    const applier = await db.applyChanges(sources[1])
    applier.next().catch(() => {})
    db.changeStream({ content: true }).once('readable', () => {})
    db.changeStream({ follow: true }).resume()
    setTimeout(() => process.exit(7), 50)`, 7],
  'an exception that nobody catches': [`
    const db = await opened()
    db.iterator()
    setImmediate(() => { throw new Error('of the test') })`, 1],
  'a database that is opened and never used': ['new EskerLevel(location)', 0],
  'an exit during the opening': ['new EskerLevel(location).open(); setImmediate(() => process.exit(7))', 7]
}

for (const [name, [source, code]] of Object.entries(cases)) {
  test(name, async t => {
    const location = path()
    const { status, signal, stderr } = run(source, location)
    t.same([status, signal], [code, null], code === 0 || status !== code ? stderr : 'ended')
    const db = await database({}, location)
    t.ok([0, 2000].includes((await db.keys({ gte: 'k', lt: 'l' }).all()).length), 'the database is whole')
    t.same(await db.verify(), [])
    await db.close()
  })
}

test('worker threads', async t => {
  const location = path()
  const { status, signal, stderr, stdout } = run(`
    const code = \`
      const { EskerLevel } = require(${JSON.stringify(require.resolve('..'))})
      const { parentPort, workerData } = require('node:worker_threads')
      ;(async () => {
        const db = new EskerLevel(workerData.location)
        await db.open()
        for (let i = 0; i < 500; i++) await db.put('k' + i, 'v' + i)
        const sum = (await db.iterator().all()).length
        db.put('sync', '1', { sync: true }).catch(() => {})
        const iterator = db.iterator()
        await iterator.next()
        const tx = db.transaction({ concurrency: 'pessimistic', lockTimeout: 600_000 })
        await tx.put('t', '1')
        db.transaction({ concurrency: 'pessimistic', lockTimeout: 600_000 }).put('t', '2').catch(() => {})
        // A message that is followed by an exit may be lost, so the main thread answers.
        parentPort.postMessage(sum)
        await new Promise(resolve => parentPort.once('message', resolve))
        if (workerData.end === 'close') { await tx.rollback(); await db.close(); process.exit() }
        if (workerData.end === 'exit') process.exit()
        if (workerData.end === 'throw') throw new Error('of the test')
        setInterval(() => db.getMany(['k1', 'k2']), 1)
      })()\`
    const own = await opened({}, location + '-main')
    for (let round = 0; round < 3; round++) {
      await Promise.all(['close', 'exit', 'throw', 'terminate'].map(async (end, n) => {
        const worker = new Worker(code, { eval: true, workerData: { location: location + n, end } })
        worker.on('error', err => { if (end !== 'throw') throw err })
        const sum = await new Promise(resolve => worker.once('message', resolve))
        worker.postMessage('end')
        if (sum < 500) throw new Error('the worker read ' + sum)
        if (end === 'terminate') await worker.terminate()
        else await new Promise(resolve => worker.once('exit', resolve))
      }))
      await own.put('round', String(round))
    }
    console.log(await own.get('round'))
    await own.close()`, location)
  t.same([status, signal, stdout.trim()], [0, null, '2'], stderr)
})

test('worker threads share a database', async t => {
  const location = path()
  const { status, signal, stderr, stdout } = run(`
    const code = \`
      const { EskerLevel } = require(${JSON.stringify(require.resolve('..'))})
      const { parentPort, workerData } = require('node:worker_threads')
      ;(async () => {
        const db = new EskerLevel(workerData.location, { shared: true, valueEncoding: 'json' })
        const ks = db.keyspace('k', { valueEncoding: 'json' })
        await ks.open()
        for (let i = 0; i < 50; i++) await db.transact(async tx => tx.put('n', await tx.get('n') + 1))
        await db.batch([{ type: 'put', key: 'w' + workerData.n, value: 1, sublevel: ks }])
        db.iterator()
        parentPort.postMessage(0)
        await new Promise(resolve => parentPort.once('message', resolve))
        if (workerData.end === 'close') { await db.close(); process.exit() }
        if (workerData.end === 'exit') process.exit()
        setInterval(() => db.put('late', 1, { sync: true }), 1)
      })()\`
    const options = { shared: true, valueEncoding: 'json' }
    const db = new EskerLevel(location, options)
    await db.put('n', 0)
    const again = new EskerLevel(location, options)
    await again.open()
    await Promise.all(['close', 'exit', 'terminate'].map(async (end, n) => {
      const worker = new Worker(code, { eval: true, workerData: { location, end, n } })
      await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
      const exit = new Promise(resolve => worker.once('exit', resolve))
      worker.postMessage('end')
      if (end === 'terminate') await worker.terminate()
      await exit
    }))
    await again.close()
    const alone = new EskerLevel(location)
    await alone.open().then(() => { throw new Error('opened') }, err => {
      if (err.cause.code !== 'LEVEL_LOCKED') throw err
    })
    console.log(await db.get('n'), (await db.keyspace('k').keys().all()).join(' '))
    await db.close()
    await db.get('n').then(() => { throw new Error('read') }, () => {})
    await alone.open()
    await alone.close()`, location)
  t.same([status, signal, stdout.trim()], [0, null, '150 w0 w1 w2'], stderr)
})

test('memory stays', async t => {
  const { status, stderr, stdout } = run(`
    const db = await opened({ memoryBudgetBytes: 32 << 20 })
    const sleep = () => new Promise(resolve => setTimeout(resolve, 5))
    async function round () {
      for (let i = 0; i < 300; i++) {
        await db.put('k' + i, 'x'.repeat(200))
        db.getSync('k' + i)
        await db.get('k' + i, { valueEncoding: 'buffer' })
        await db.getMany(['k1', 'k2', 'none'], { valueEncoding: 'buffer' })
        await db.iterator({ limit: 20 }).all()
        const left = db.iterator()
        await left.next()
        await left.close()
        const snapshot = db.snapshot()
        await db.get('k1', { snapshot })
        await snapshot.close()
        const tx = db.transaction()
        await tx.put('t', '1')
        await (i % 2 === 0 ? tx.commit() : tx.rollback())
        await db.batch().put('c', 'd').del('e').write()
        await db.get('x'.repeat(2 << 20)).catch(() => {})
      }
      const other = new EskerLevel(location + '-other')
      await other.put('a', 'b')
      await other.close()
      global.gc()
      await sleep()
      global.gc()
    }
    for (let i = 0; i < 4; i++) await round()
    const before = process.memoryUsage()
    for (let i = 0; i < 12; i++) await round()
    const after = process.memoryUsage()
    const grown = { heap: after.heapUsed - before.heapUsed, rss: after.rss - before.rss, external: after.external - before.external }
    console.log(JSON.stringify(grown))
    await db.close()`, path(), '--expose-gc')
  t.is(status, 0, stderr)
  const grown = JSON.parse(stdout)
  t.comment(stdout.trim())
  t.ok(grown.heap < 4 << 20, `the heap grew by ${grown.heap} bytes`)
  t.ok(grown.external < 4 << 20, `buffers grew by ${grown.external} bytes`)
  t.ok(grown.rss < 64 << 20, `the process grew by ${grown.rss} bytes`)
})

test('memory of feeds, copies, loads and streams stays', async t => {
  // With an arena of malloc for each of the threads that come and go, the memory of the process says little.
  const { status, stderr, stdout } = runWith({ MALLOC_ARENA_MAX: '1' }, `
    const { Runtime, diff } = require(${JSON.stringify(require.resolve('..'))})
    const fs = require('node:fs')
    const db = await opened({ memoryBudgetBytes: 32 << 20 })
    const copy = new EskerLevel(location + '-copy', { memoryBudgetBytes: 32 << 20 })
    const slot = await db.subscribe('copy')
    for await (const item of await copy.applyChanges(db.changeStream({ content: true }))) void item
    const big = Buffer.alloc(600 << 10, 'x')
    const sleep = () => new Promise(resolve => setTimeout(resolve, 5))
    async function feeds (i) {
      await db.put('f' + i, 'x'.repeat(200))
      const { snapshot, position } = await db.snapshotWithPosition()
      for await (const item of await copy.applyChanges(db.changeStream({ slot: 'copy' }))) void item
      const left = await slot.changes()
      await left.next()
      await left.close()
      const live = db.changeStream({ slot: 'copy', follow: true })
      await new Promise((resolve, reject) => live.once('data', resolve).once('error', reject))
      live.destroy()
      await slot.confirm(position)
      for await (const found of await diff(db, db, { oldSnapshot: snapshot })) void found
      await (await diff(db, copy)).close()
      await snapshot.close()
    }
    async function copies (i) {
      const follower = await EskerLevel.follow(location)
      const view = await follower.db()
      await view.get('f' + i)
      await view.close()
      await follower.close()
      const [runtime, listener] = [new Runtime({ memoryBudgetBytes: '4MiB' }), () => {}]
      const other = new EskerLevel(location + '-other', { runtime, listener })
      await other.put('a', 'b')
      await other.close()
      runtime.close()
    }
    async function loads (i) {
      await db.bulkLoad([['l1', 'x'], ['l2', 'y']])
      await EskerLevel.writeSorted(location + '.sorted', [['s1', 'x'], ['s2', 'y']])
      await db.ingest([location + '.sorted'])
      await db.bulkLoad((function * () { throw new Error('of the source') })()).catch(() => {})
      await db.putStream('big', [big])
      for await (const bytes of await db.getStream('big')) void bytes
      ;(await db.getStream('big')).destroy()
      await db.batch([{ type: 'deleteRange', start: 'l', end: 't' }, { type: 'put', key: 'b', value: 'c' }])
      await db.put('w' + i, 'x', { sync: true, timeout: 60_000 })
      db.metrics()
      await db.tables()
      await db.verify({ report: true, progress: () => {} })
    }
    async function round () {
      for (let i = 0; i < 15; i++) {
        await feeds(i)
        await copies(i)
        await loads(i)
      }
      await db.waitIdle()
      await copy.waitIdle()
      global.gc()
      await sleep()
      global.gc()
    }
    for (let i = 0; i < 4; i++) await round()
    const before = process.memoryUsage()
    for (let i = 0; i < 10; i++) await round()
    const after = process.memoryUsage()
    const grown = { heap: after.heapUsed - before.heapUsed, rss: after.rss - before.rss, external: after.external - before.external }
    console.log(JSON.stringify(grown))
    await copy.close()
    await db.close()`, path(), '--expose-gc')
  t.is(status, 0, stderr)
  const grown = JSON.parse(stdout)
  t.comment(stdout.trim())
  t.ok(grown.heap < 4 << 20, `the heap grew by ${grown.heap} bytes`)
  t.ok(grown.external < 4 << 20, `buffers grew by ${grown.external} bytes`)
  t.ok(grown.rss < 64 << 20, `the process grew by ${grown.rss} bytes`)
})

test('the garbage collector closes what is unreachable', async t => {
  const location = path()
  const { status, stderr } = run(`
    await (async () => {
      const db = await opened()
      const iterator = db.iterator()
      await iterator.next()
      db.snapshot()
      await db.transaction().put('a', 'b')
      await db.keyspace('k').open()
    })()
    for (let i = 0; i < 1000; i++) {
      global.gc()
      await new Promise(resolve => setTimeout(resolve, 20))
      try {
        const db = new EskerLevel(location)
        await db.open()
        if ((await db.keys().all()).length !== 2000) throw new Error('pairs are missing')
        await db.close()
        return
      } catch (err) {
        if (err.cause?.code !== 'LEVEL_LOCKED') throw err
      }
    }
    process.exit(5)`, location, '--expose-gc')
  t.is(status, 0, stderr)
})
