'use strict'

// Wrong arguments, calls after a close and closes during calls. None may crash, hang or lie.

const test = require('tape')
const { EskerLevel } = require('..')
const { cleanUp, database, errorOf, hasCode, random, path } = require('./common')
const binding = require('../lib/binding')
const { callLater, call } = require('../lib/errors')

test.onFinish(cleanUp)

const seed = Number(process.env.SEED ?? Date.now() % 1e9)
console.log(`# seed ${seed}`)

test('every method refuses after the close', async t => {
  const db = await database()
  await db.put('a', '1')
  const ks = db.keyspace('k')
  await ks.open()
  const iterator = db.iterator()
  const snapshot = db.snapshot()
  const batch = db.batch().put('b', '2')
  const tx = db.transaction()
  await db.close()
  const calls = {
    get: () => db.get('a'),
    getSync: () => db.getSync('a'),
    getMany: () => db.getMany(['a']),
    has: () => db.has('a'),
    hasMany: () => db.hasMany(['a']),
    put: () => db.put('a', 'b'),
    del: () => db.del('a'),
    batch: () => db.batch([{ type: 'del', key: 'a' }]),
    clear: () => db.clear(),
    iterator: () => db.iterator().all(),
    merge: () => db.merge('a', '1'),
    remove: () => db.remove('a'),
    touch: () => db.touch('a', 1),
    expiry: () => db.expiry('a'),
    keyspaces: () => db.keyspaces(),
    keyspace: () => ks.get('a'),
    flush: () => db.flush(),
    verify: () => db.verify(),
    backup: () => db.backup(path()),
    openmetrics: () => db.openmetrics(),
    metric: () => db.metric('userOps'),
    metrics: () => db.metrics(),
    stall: () => db.stall(),
    recoveryNotes: () => db.recoveryNotes(),
    setOptions: () => db.setOptions({ policy: 'leveled' }),
    tables: () => db.tables(),
    runOneJob: () => db.runOneJob(),
    putStream: () => db.putStream('a', ['b']),
    getStream: () => db.getStream('a'),
    changeStream: () => db.changeStream().toArray(),
    applyChanges: () => db.applyChanges(['b']),
    appliedPosition: () => db.appliedPosition(),
    merges: () => db.batch([{ type: 'merge', key: 'a', operand: '1' }]),
    'merges in a transaction': () => tx.batch([{ type: 'deleteRange', start: 'a', end: 'b' }]),
    option: () => db.option('policy'),
    transaction: () => db.transaction(),
    transact: () => db.transact(() => {}),
    snapshot: () => db.snapshot(),
    tx: () => tx.get('a'),
    commit: () => tx.commit()
  }
  for (const [name, call] of Object.entries(calls)) {
    t.ok(hasCode(await errorOf(call), 'LEVEL_DATABASE_NOT_OPEN'), name)
  }
  t.is((await errorOf(() => iterator.next())).code, 'LEVEL_ITERATOR_NOT_OPEN')
  t.ok((await errorOf(() => batch.write())).code.endsWith('_NOT_OPEN'))
  await snapshot.close()
  await db.close()
})

test('wrong arguments', async t => {
  const db = await database()
  const wrong = [undefined, null]
  for (const key of wrong) {
    t.is((await errorOf(() => db.get(key))).code, 'LEVEL_INVALID_KEY')
    t.is((await errorOf(() => db.put(key, 'a'))).code, 'LEVEL_INVALID_KEY')
    t.is((await errorOf(() => db.touch(key, 1))).code, 'LEVEL_INVALID_KEY')
    t.is((await errorOf(() => db.merge('a', key))).code, 'LEVEL_INVALID_VALUE')
  }
  for (const location of [undefined, '', 5, {}]) {
    t.ok((await errorOf(() => new EskerLevel(location))) instanceof TypeError)
    t.ok((await errorOf(() => EskerLevel.destroy(location))) instanceof TypeError)
    t.ok((await errorOf(() => db.checkpoint(location))) instanceof TypeError)
  }
  for (const name of [undefined, '', 5]) {
    t.ok((await errorOf(() => db.keyspace(name))) instanceof TypeError)
  }
  t.ok((await errorOf(() => db.transact(5))) instanceof TypeError)
  for (const options of [{ isolation: 'x' }, { concurrency: 1 }, { lockTimeout: -1 }, { attempts: 0 }]) {
    t.is((await errorOf(() => db.transact(() => {}, options))).code, 'ESKER_INVALID_ARGUMENT')
  }
  t.is((await errorOf(() => db.transaction().in({}))).code, 'ESKER_INVALID_ARGUMENT')
  t.ok(await errorOf(() => db.batch([{ type: 'put', key: 'a', value: 'b', sublevel: {} }])))
  // Other types are encoded as texts, as in every database of abstract-level.
  await db.put(5, true)
  t.is(await db.get('5'), 'true')
})

test('long keys and values', async t => {
  const db = await database()
  const [key, tooLong] = ['k'.repeat(1 << 20), 'k'.repeat((1 << 20) + 1)]
  await db.put(key, 'v')
  t.is(await db.get(key), 'v')
  t.is((await db.keys().all())[0].length, key.length)
  for (const long of [tooLong, Buffer.alloc((1 << 20) + 1), 'é'.repeat(1 << 20)]) {
    const options = { keyEncoding: typeof long === 'string' ? 'utf8' : 'buffer' }
    for (const call of [
      () => db.put(long, 'v', options),
      () => db.batch([{ type: 'put', key: long, value: 'v', ...options }])
    ]) t.is((await errorOf(call)).code, 'ESKER_INVALID_ARGUMENT')
  }
  t.is((await errorOf(() => db.get(tooLong))).code, 'ESKER_INVALID_ARGUMENT')
  t.is((await errorOf(() => db.iterator({ gt: tooLong }).all())).code, 'ESKER_INVALID_ARGUMENT')
  await db.clear()
  t.same(await db.keys().all(), [])
  const value = Buffer.alloc(5 << 20, 'ab')
  await db.put('big', value, { valueEncoding: 'buffer' })
  t.ok((await db.get('big', { valueEncoding: 'buffer' })).equals(value))
  t.ok(db.getSync('big', { valueEncoding: 'buffer' }).equals(value))
  t.is((await db.get('big')).length, value.length)
  t.ok((await db.getMany(['big', 'x'], { valueEncoding: 'buffer' }))[0].equals(value))
  t.ok((await db.values({ valueEncoding: 'buffer' }).all())[0].equals(value))
  const many = Array.from({ length: 5000 }, (_, i) => ({ type: 'put', key: `m${i}`, value: 'x'.repeat(i % 300) }))
  await db.batch(many)
  t.is((await db.keys({ gte: 'm', lt: 'n' }).all()).length, 5000)
  t.is((await db.getMany(many.map(op => op.key))).filter((v, i) => v === many[i].value).length, 5000)
})

test('texts of all kinds come back', async t => {
  const db = await database()
  const texts = ['', 'a', 'ä', '€', '😀', '\u0000', '\u007f\u0080', 'x'.repeat(13) + 'ü', '\u2028', 'z'.repeat(5000) + 'é']
  for (const text of texts) await db.put(text, text + '!')
  for (const text of texts) {
    t.is(await db.get(text), text + '!')
    t.is(db.getSync(text), text + '!')
  }
  const entries = await db.iterator().all()
  t.same(entries.map(([key]) => key).sort(), [...texts].sort())
  t.ok(entries.every(([key, value]) => value === key + '!'))
  t.same(await db.getMany(texts), texts.map(text => text + '!'))
  // A lone surrogate has no UTF-8. It becomes U+FFFD, as in a Buffer.
  await db.put('\ud800', '\udfff')
  t.is(await db.get('\ufffd'), '\ufffd')
  // What is not UTF-8 is replaced when it is read as text.
  await db.put('raw', Buffer.from([0xff, 0x61]), { valueEncoding: 'buffer' })
  t.is(await db.get('raw'), '\ufffda')
})

test('buffers that change after a call do not change what is written', async t => {
  const db = await database({ keyEncoding: 'buffer', valueEncoding: 'buffer' })
  const key = Buffer.from('key')
  const value = Buffer.from('value')
  const writes = [db.put(key, value), db.put(key, value, { sync: true }), db.batch([{ type: 'put', key, value }], { sync: true })]
  key.fill(0)
  value.fill(0)
  await Promise.all(writes)
  t.same(await db.iterator().all(), [[Buffer.from('key'), Buffer.from('value')]])
  const read = await db.get(Buffer.from('key'))
  read.fill(1)
  t.same(await db.get(Buffer.from('key')), Buffer.from('value'))
})

test('closes during calls', async t => {
  const next = random(seed)
  for (let round = 0; round < 30; round++) {
    const db = await database({ valueEncoding: 'json' })
    const ks = db.keyspace('k')
    await db.batch(Array.from({ length: 50 }, (_, i) => ({ type: 'put', key: `k${i}`, value: i })))
    const iterator = db.iterator()
    const tx = db.transaction({ concurrency: next(2) === 0 ? 'optimistic' : 'pessimistic' })
    const calls = [
      () => db.get('k1'), () => db.getMany(['k1', 'k2']), () => db.put('k1', 2), () => db.put('k2', 3, { sync: true }),
      () => db.clear({ lt: 'k3' }), () => db.iterator().all(), () => iterator.nextv(20), () => iterator.next(),
      () => db.flush(), () => db.compactAll(), () => db.verify(), () => db.remove('k4'), () => ks.put('a', 'b'),
      () => ks.get('a'), () => tx.put('k1', 9), () => tx.get('k2'), () => tx.commit(), () => db.keyspaces(),
      () => db.batch().put('k', 1).del('k').write(), () => db.transact(tx => tx.put('t', 1)),
      () => db.dropKeyspace('k'), () => iterator.seek('k2'), () => ks.clear(), () => db.expiry('k1')
    ]
    const running = []
    for (let i = 0; i < 20; i++) {
      const call = calls[next(calls.length)]
      running.push((async () => call())())
      if (next(10) === 0) running.push(db.close())
      if (next(20) === 0) await undefined
    }
    const closed = db.close()
    const results = await Promise.allSettled(running)
    await closed
    for (const { reason } of results) {
      if (reason && !/^(LEVEL|ESKER)_/.test(reason.code ?? '')) t.fail(`seed ${seed}: ${reason.stack}`)
    }
    if (db.status !== 'closed') t.fail(`seed ${seed}: ${db.status}`)
    await db.open()
    const entries = await db.iterator().all()
    if (!entries.every(([key, value]) => typeof value === 'number')) t.fail(`seed ${seed}: wrong entries`)
    await db.close()
  }
  t.pass('all calls ended')
})

test('the native part refuses whatever it is given', async t => {
  const next = random(seed)
  const values = [
    undefined, null, 0, 1, 2, 3, 5, -1, 2 ** 31, 2 ** 32, 2 ** 53, NaN, Infinity, 1.5, '', 'a', 'x'.repeat(100),
    true, false, Buffer.alloc(0), Buffer.alloc(40), Buffer.from([1, 0, 0, 0, 0, 9, 0, 0, 0, 255, 255, 255, 255, 1]),
    new Uint8Array(3), [], ['a'], ['cache_size', '5'], ['policy'], {}, Symbol('s'), () => {}, 10n
  ]
  // The last one waits for the bytes of a load.
  const left = new Set(['start', 'setInput', 'makeApplierLater'])
  const db = await database()
  await db.put('a', '1')
  let refused = 0
  for (const name of Object.keys(binding).filter(name => !left.has(name))) {
    for (let i = 0; i < 60; i++) {
      const args = Array.from({ length: next(7) }, () => values[next(values.length)])
      // Objects of the database stay, and paths are those of the test.
      if (name === 'dropObject') args[0] = 1000 + next(1000)
      if (/^(open|destroy|repair|restore|backups|pruneBackups|liveStatus)/.test(name) || /^(checkpoint|backup)Later/.test(name)) {
        for (const [at, arg] of args.entries()) if (typeof arg === 'string') args[at] = path()
      }
      if (name === 'closeLater') args[0] = 1000 + next(1000)
      try {
        await callLater(binding[name], ...args)
      } catch (err) {
        refused++
      }
    }
  }
  t.ok(refused > 100, `${refused} calls were refused, seed ${seed}`)
  t.is(typeof call(binding.optionNames).length, 'number')
})
