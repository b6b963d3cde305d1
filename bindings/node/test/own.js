'use strict'

// What only Esker has: keyspaces, transactions, times to live, merges, durability, maintenance.

const fs = require('node:fs')
const test = require('tape')
const { EskerLevel } = require('..')
const { cleanUp, database, errorOf, hasCode, path } = require('./common')

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

test.onFinish(cleanUp)

test('a batch over keyspaces is atomic, and each has its own encodings', async t => {
  const db = await database()
  const users = db.keyspace('users', { valueEncoding: 'json' })
  const prices = db.keyspace('prices', { keyEncoding: 'buffer' })
  await users.open()
  await prices.open()
  await db.batch([
    { type: 'put', key: 'a', value: '1' },
    { type: 'put', key: 'a', value: { name: 'Ada' }, sublevel: users },
    { type: 'put', key: Buffer.from([1]), value: 'x', sublevel: prices },
    { type: 'put', key: 'in', value: 'sub', sublevel: users.sublevel('s') }
  ])
  t.same(await db.iterator().all(), [['a', '1']])
  t.same(await users.get('a'), { name: 'Ada' })
  t.same(await prices.iterator().all(), [[Buffer.from([1]), 'x']])
  t.is(await users.sublevel('s').get('in'), 'sub')
  t.same(await db.keyspaces(), ['default', 'prices', 'users'])
  const snapshot = users.snapshot()
  await db.batch([
    { type: 'del', key: 'a', sublevel: users },
    { type: 'del', key: 'in', sublevel: users.sublevel('s') }
  ])
  t.is(await users.get('a'), undefined)
  t.is(await users.sublevel('s').get('in'), undefined)
  t.same(await users.get('a', { snapshot }), { name: 'Ada' })
  t.same(await prices.keys({ snapshot }).all(), [Buffer.from([1])])
  await snapshot.close()
})

test('a chained batch reaches keyspaces, also with deletions', async t => {
  const db = await database()
  const one = db.keyspace('one')
  await one.open()
  await db.batch().put('k', 'default').put('k', 'one', { sublevel: one })
    .put('s', 'sub', { sublevel: one.sublevel('sub') }).write()
  await db.batch().del('k', { sublevel: one }).del('s', { sublevel: one.sublevel('sub') }).write()
  t.is(await db.get('k'), 'default')
  t.is(await one.get('k'), undefined)
  t.same(await one.keys().all(), [])
})

test('a keyspace is dropped, renamed, and closes with its database', async t => {
  const db = await database()
  const one = db.keyspace('one')
  await one.put('a', '1')
  await db.renameKeyspace('one', 'two')
  t.is(await one.get('a'), '1')
  await db.dropKeyspace('two')
  t.ok(hasCode(await errorOf(() => one.get('a')), 'ESKER_NOT_FOUND'))
  t.ok(hasCode(await errorOf(() => one.put('a', '2')), 'ESKER_NOT_FOUND'))
  const again = db.keyspace('two', { createIfMissing: false })
  t.ok(hasCode(await errorOf(() => again.open()), 'ESKER_NOT_FOUND'))
  const left = db.keyspace('left')
  await left.open()
  await db.close()
  t.is(left.status, 'closed')
  t.ok(hasCode(await errorOf(() => left.get('a')), 'LEVEL_DATABASE_NOT_OPEN'))
})

test('a keyspace opens with the options that it has, or without any', async t => {
  const db = await database()
  const kept = { ttl: 3600_000, mergeOperator: 'add_i64' }
  await db.keyspace('k', kept).open()
  for (const more of [{}, { createIfMissing: false }]) {
    for (const options of [{}, { valueEncoding: 'json', userland: 1 }, kept]) {
      const k = db.keyspace('k', { ...options, ...more })
      await k.merge('n', '2', { valueEncoding: 'utf8' })
      await k.put('short', '1')
      t.ok(await k.expiry('short') < Infinity)
    }
    for (const options of [{ ttl: 5 }, { ttl: 3600_000 }, { ...kept, policy: 'leveled' }, { ttl: Infinity }]) {
      const err = await errorOf(() => db.keyspace('k', { ...options, ...more }).open())
      t.ok(hasCode(err, 'ESKER_INVALID_ARGUMENT'), JSON.stringify({ ...options, ...more }))
    }
  }
  t.is(await db.keyspace('k').get('n'), '12')
  await db.keyspace('default').put('a', '1')
  t.is(await db.get('a'), '1')
  const missing = db.keyspace('missing', { ttl: 5, createIfMissing: false })
  t.ok(hasCode(await errorOf(() => missing.open()), 'ESKER_NOT_FOUND'))
  t.same(await db.keyspaces(), ['default', 'k'])
})

test('of keyspaces that must be new one is made, and one that must exist is never made', async t => {
  const db = await database()
  const makers = Array.from({ length: 8 }, () => db.keyspace('new', { errorIfExists: true }).open())
  const made = await Promise.allSettled(makers)
  t.is(made.filter(one => one.status === 'fulfilled').length, 1)
  t.ok(made.every(one => one.status === 'fulfilled' || hasCode(one.reason, 'ESKER_INVALID_ARGUMENT')))
  for (let i = 0; i < 100; i++) {
    await db.keyspace('old', { ttl: 3600_000 }).open()
    const found = db.keyspace('old', { ttl: 3600_000, createIfMissing: false }).open()
    await Promise.allSettled([found, db.dropKeyspace('old')])
    t.same(await db.keyspaces(), ['default', 'new'])
  }
})

test('many keys are read as of one moment, also without the cache', async t => {
  const db = await database()
  const others = Array.from({ length: 50_000 }, (_, i) => `k${i}`)
  const one = db.keyspace('one')
  await one.open()
  for (let round = 0; round < 20; round++) {
    const part = round % 2 === 0 ? db : one
    let values
    part.getMany(['first', ...others, 'last'], { fillCache: false }).then(found => { values = found })
    for (let n = 0; values === undefined; n++) {
      await part.batch(['first', 'last'].map(key => ({ type: 'put', key, value: `${round} ${n}` })))
      await new Promise(setImmediate)
    }
    t.is(values[0], values.at(-1))
  }
})

test('the keyspace of another database is refused in a batch', async t => {
  const [db, other] = [await database(), await database()]
  const foreign = other.keyspace('x')
  await foreign.open()
  const put = { type: 'put', key: 'a', value: 'b', sublevel: foreign }
  t.ok(hasCode(await errorOf(() => db.batch([put])), 'ESKER_INVALID_ARGUMENT'))
  t.same(await foreign.keys().all(), [])
  const alien = { ref () {}, unref () {} }
  t.is((await errorOf(() => db.get('a', { snapshot: alien }))).code, 'ESKER_INVALID_ARGUMENT')
  const snapshot = other.snapshot()
  t.ok(hasCode(await errorOf(() => db.get('a', { snapshot })), 'ESKER_INVALID_ARGUMENT'))
  await snapshot.close()
})

test('pairs expire', async t => {
  const db = await database()
  const sessions = db.keyspace('sessions', { ttl: 3600_000 })
  const now = Date.now()
  await db.put('short', '1', { ttl: 1 })
  await db.batch([{ type: 'put', key: 'batch', value: '1', ttl: 1 }, { type: 'put', key: 'stays', value: '1' }])
  await db.put('long', '1', { ttl: 3600_000 })
  await sessions.put('default', '1')
  await pause(20)
  t.same(await db.keys().all(), ['long', 'stays'])
  t.is(await db.get('short'), undefined)
  t.is(await db.expiry('stays'), Infinity)
  t.is(await db.expiry('short'), undefined)
  t.ok(await db.expiry('long') >= now + 3600_000)
  t.ok(await sessions.expiry('default') >= now + 3600_000)
  t.is(await db.touch('stays', 1), true)
  t.is(await db.touch('none', 1), false)
  await pause(20)
  t.is(await db.get('stays'), undefined)
  for (const ttl of [-1, NaN, '5', {}]) {
    const err = await errorOf(() => db.put('a', 'b', { ttl }))
    t.is(err.code, 'ESKER_INVALID_ARGUMENT', String(ttl))
  }
})

test('merges add without a read', async t => {
  const db = await database({ mergeOperator: 'add_i64' })
  const max = db.keyspace('max', { mergeOperator: 'max' })
  await Promise.all(Array.from({ length: 100 }, () => db.merge('visits', '2')))
  t.is(await db.get('visits'), '200')
  await max.merge('best', 'b')
  await max.merge('best', 'a')
  t.is(await max.get('best'), 'b')
  t.is((await errorOf(() => db.merge('visits', 'two'))).code, 'ESKER_INVALID_ARGUMENT')
  const plain = await database()
  t.is((await errorOf(() => plain.merge('a', '1'))).code, 'ESKER_INVALID_ARGUMENT')
  const wrong = new EskerLevel(path(), { mergeOperator: 'no_such_operator' })
  t.ok(hasCode(await errorOf(() => wrong.open()), 'ESKER_INVALID_ARGUMENT'))
})

test('a batch merges and deletes ranges, in its order', async t => {
  const db = await database({ mergeOperator: 'add_i64' })
  const sums = db.keyspace('sums', { mergeOperator: 'add_i64', keyEncoding: 'json', valueEncoding: 'json' })
  await sums.open()
  const sub = sums.sublevel('s', { keyEncoding: 'utf8', valueEncoding: 'utf8' })
  await db.batch([
    { type: 'put', key: 'b', value: '1' },
    { type: 'deleteRange', start: 'a', end: 'c' },
    { type: 'put', key: 'c', value: '1' },
    { type: 'merge', key: 'c', operand: '2' },
    { type: 'del', key: 'd' },
    { type: 'merge', key: 'd', operand: '4' },
    { type: 'merge', key: [1], operand: 5, sublevel: sums },
    { type: 'merge', key: 'n', operand: '6', sublevel: sub }
  ], { sync: true })
  t.same(await db.iterator().all(), [['c', '3'], ['d', '4']])
  t.is(await sums.get([1]), 5)
  t.is(await sub.get('n'), '6')
  await sums.batch([{ type: 'deleteRange', start: 'm', end: 'o', sublevel: sub }])
  t.same([await sub.get('n'), await sums.get([1])], [undefined, 5], 'the range of a sublevel')
  await sums.batch([{ type: 'merge', key: [1], operand: 1 }])
  await db.batch([{ type: 'merge', key: Buffer.from('c'), operand: Buffer.from('1') }], {
    keyEncoding: 'buffer', valueEncoding: 'buffer'
  })
  t.same([await sums.get([1]), await db.get('c')], [6, '4'], 'merges alone, also with encodings of the batch')
  const wrong = [
    [{ type: 'merge', key: 'c' }, 'LEVEL_INVALID_VALUE'], [{ type: 'merge', operand: '1' }, 'LEVEL_INVALID_KEY'],
    [{ type: 'deleteRange', start: 'a' }, 'LEVEL_INVALID_KEY'],
    [{ type: 'merge', key: 'c', operand: 'two' }, 'ESKER_INVALID_ARGUMENT']
  ]
  for (const [op, code] of wrong) {
    t.ok(hasCode(await errorOf(() => db.batch([{ type: 'put', key: 'x', value: '1' }, op])), code), code)
  }
  t.ok((await errorOf(() => db.batch([{ type: 'add', key: 'c' }]))) instanceof TypeError)
  t.is(await db.get('x'), undefined, 'a batch is whole or absent')
  const tx = db.transaction()
  await tx.batch([
    { type: 'merge', key: 'c', operand: '10' }, { type: 'put', key: 'e', value: '1' },
    { type: 'deleteRange', start: 'd', end: 'f' }, { type: 'merge', key: [2], operand: 7, sublevel: sums }
  ])
  t.same(await tx.iterator().all(), [['c', '14']])
  await tx.commit()
  t.same([await db.get('c'), await db.get('d'), await sums.get([2])], ['14', undefined, 7])
})

test('the puts and deletions of a batch with merges reach hooks and events', async t => {
  const db = await database({ mergeOperator: 'add_i64' })
  const [hooked, written] = [[], []]
  db.hooks.prewrite.add((op, batch) => {
    hooked.push(op.key)
    if (op.key === 'a') batch.add({ type: 'put', key: 'added', value: '1' })
  })
  db.on('write', ops => written.push(...ops.map(op => op.key)))
  await db.batch([
    { type: 'merge', key: 'a', operand: '1' }, { type: 'put', key: 'a', value: '5' },
    { type: 'merge', key: 'a', operand: '2' }, { type: 'del', key: 'b' }
  ])
  t.same([hooked, written], [['a', 'b'], ['a', 'b', 'added']])
  t.same(await db.iterator().all(), [['a', '7'], ['added', '1']])
})

test('of several callers one removes', async t => {
  const db = await database()
  await db.put('coupon', '10 %')
  const removed = await Promise.all([1, 2, 3, 4].map(() => db.remove('coupon')))
  t.is(removed.filter(Boolean).length, 1)
})

test('writes take effect in the order of their calls, whatever their durability', async t => {
  const db = await database()
  const kinds = [{ sync: true }, {}, { durability: 'none' }, { durability: 'sync' }, { durability: 'buffered' }]
  for (let round = 0; round < 20; round++) {
    const writes = []
    for (let i = 0; i < 25; i++) {
      const options = kinds[(i * 7 + round) % kinds.length]
      writes.push(i % 5 === 4
        ? db.batch([{ type: 'put', key: 'k', value: `${round} ${i}` }], options)
        : db.put('k', `${round} ${i}`, options))
    }
    await Promise.all(writes)
    t.is(await db.get('k'), `${round} 24`)
  }
  t.is((await errorOf(() => db.put('a', 'b', { durability: 'often' }))).code, 'ESKER_INVALID_ARGUMENT')
})

test('one failing write of a group fails alone', async t => {
  const db = await database()
  const gone = db.keyspace('gone')
  await gone.open()
  await db.dropKeyspace('gone')
  const results = await Promise.allSettled([
    db.put('a', '1', { sync: true }), gone.put('b', '2', { sync: true }), db.put('c', '3', { sync: true })
  ])
  t.same(results.map(result => result.status), ['fulfilled', 'rejected', 'fulfilled'])
  t.same(await db.keys().all(), ['a', 'c'])
})

test('a transaction reads its own writes and one moment', async t => {
  const db = await database()
  const users = db.keyspace('users', { valueEncoding: 'json' })
  await db.put('a', '1')
  await users.put('7', { name: 'Ada' })
  const tx = db.transaction()
  await tx.put('b', '2')
  await tx.batch([{ type: 'put', key: 'c', value: '3' }, { type: 'del', key: 'a' }])
  await tx.in(users).put('8', { name: 'Ben' })
  await db.put('z', 'later')
  t.same(await tx.iterator().all(), [['b', '2'], ['c', '3']])
  t.same(await tx.iterator({ reverse: true, limit: 1 }).all(), [['c', '3']])
  t.same(await tx.getMany(['a', 'b', 'z']), [undefined, '2', undefined])
  t.same(await tx.in(users).keys().all(), ['7', '8'])
  t.same(await tx.in(users).get('8'), { name: 'Ben' })
  t.is(await tx.has('b'), true)
  t.same(await tx.sublevel('s').keys().all(), [])
  t.is(await db.get('b'), undefined)
  await tx.commit()
  t.is(tx.status, 'closed')
  t.same(await db.keys().all(), ['b', 'c', 'z'])
  t.same(await users.get('8'), { name: 'Ben' })
  t.ok(hasCode(await errorOf(() => tx.get('a')), 'LEVEL_DATABASE_NOT_OPEN'))
  t.ok(hasCode(await errorOf(() => tx.commit()), 'LEVEL_DATABASE_NOT_OPEN'))
  // Another transaction may have the number of the one that ended.
  const next = db.transaction()
  await next.open()
  t.ok(hasCode(await errorOf(() => tx.open()), 'LEVEL_DATABASE_NOT_OPEN'))
  t.ok(hasCode(await errorOf(() => tx.in(users).get('8')), 'LEVEL_DATABASE_NOT_OPEN'))
  const calls = [next.put('n', '1'), next.commit(), next.put('o', '2'), next.get('n'), next.rollback()]
  const results = await Promise.allSettled(calls)
  t.same(results.map(result => result.status[0]).join(''), 'ffrrr')
  t.is(await db.get('o'), undefined)
})

test('the batches of a transaction reach keyspaces and have times to live', async t => {
  const db = await database()
  const one = db.keyspace('one')
  await one.batch([{ type: 'put', key: 'a', value: '1' }, { type: 'put', key: 'b', value: '1' }])
  await db.batch([{ type: 'put', key: 'a', value: '1' }, { type: 'put', key: 'b', value: '1' }])
  const tx = db.transaction()
  await tx.batch([
    { type: 'put', key: 'c', value: '2', sublevel: one }, { type: 'del', key: 'a', sublevel: one }
  ], { ttl: 3600_000 })
  await tx.batch().del('b', { sublevel: one }).put('d', '3', { sublevel: one, ttl: 3600_000 }).put('e', '4')
    .del('b').put('s', '5', { sublevel: tx.sublevel('s') }).write()
  t.same(await tx.in(one).keys().all(), ['c', 'd'])
  await tx.commit()
  t.same(await one.iterator().all(), [['c', '2'], ['d', '3']])
  t.same(await db.iterator().all(), [['!s!s', '5'], ['a', '1'], ['e', '4']])
  for (const key of ['c', 'd']) t.ok(await one.expiry(key) < Infinity)
  t.is(await db.expiry('e'), Infinity)
})

test('savepoints and rollbacks', async t => {
  const db = await database()
  const tx = db.transaction()
  await tx.put('a', '1')
  await tx.savepoint()
  await tx.put('b', '2')
  await tx.clear({ gte: 'a' })
  t.same(await tx.keys().all(), [])
  await tx.rollbackToSavepoint()
  t.same(await tx.keys().all(), ['a'])
  await tx.savepoint()
  await tx.put('c', '3')
  await tx.popSavepoint()
  t.is((await errorOf(() => tx.popSavepoint())).code, 'ESKER_NOT_FOUND')
  await tx.rollback()
  t.same(await db.keys().all(), [])
  const left = db.transaction()
  await left.put('x', 'y')
  await db.close()
  await db.open()
  t.same(await db.keys().all(), [])
})

test('a conflict fails the commit, and transact runs again', async t => {
  const db = await database({ valueEncoding: 'json' })
  await db.put('n', 0)
  const tx = db.transaction()
  await tx.put('n', 5)
  await db.put('n', 1)
  t.is((await errorOf(() => tx.commit())).code, 'ESKER_CONFLICT')
  await Promise.all(Array.from({ length: 20 }, () => db.transact(async tx => {
    await tx.put('n', await tx.get('n') + 1)
  })))
  t.is(await db.get('n'), 21)
  let runs = 0
  const err = await errorOf(() => db.transact(async tx => {
    runs++
    await tx.put('n', 0)
    await db.put('n', runs)
  }, { attempts: 3 }))
  t.is(err.code, 'ESKER_CONFLICT')
  t.is(runs, 3)
  const own = await errorOf(() => db.transact(async tx => {
    await tx.put('n', 'lost')
    throw new Error('of the test')
  }))
  t.is(own.message, 'of the test')
  t.is(await db.get('n'), 3)
  t.is(await db.transact(async tx => { await tx.rollback(); return 'result' }), 'result')
})

test('pessimistic transactions wait for locks, more of them than libuv has threads', async t => {
  const db = await database({ valueEncoding: 'json' })
  await db.put('n', 0)
  const options = { concurrency: 'pessimistic', lockTimeout: 600_000 }
  await Promise.all(Array.from({ length: 12 }, () => db.transact(async tx => {
    const n = await tx.getForUpdate('n')
    await tx.put('n', n + 1)
  }, options)))
  t.is(await db.get('n'), 12)
  const [one, other] = [db.transaction(options), db.transaction({ ...options, lockTimeout: 0 })]
  await one.put('n', 100)
  t.is((await errorOf(() => other.put('n', 200))).code, 'ESKER_BUSY')
  await other.rollback()
  // Calls of one transaction take effect in their order.
  await Promise.all([one.put('o', 1), one.put('o', 2), one.del('n'), one.put('o', 3)])
  t.same(await one.iterator().all(), [['o', 3]])
  await one.commit()
  t.same(await db.iterator().all(), [['o', 3]])
})

test('a deadlock is an error, after which transact runs again', async t => {
  const db = await database()
  const options = { concurrency: 'pessimistic', lockTimeout: 600_000 }
  await Promise.all([['a', 'b'], ['b', 'a']].map(([first, second]) => db.transact(async tx => {
    await tx.put(first, 'x')
    await pause(5)
    await tx.put(second, 'y')
  }, options)))
  t.same(await db.keys().all(), ['a', 'b'])
})

test('serializable transactions protect what they read', async t => {
  const db = await database()
  await db.batch([{ type: 'put', key: 'a', value: 'on' }, { type: 'put', key: 'b', value: 'on' }])
  const [one, other] = [1, 2].map(() => db.transaction({ isolation: 'serializable' }))
  t.is(await one.get('b'), 'on')
  t.is(await other.get('a'), 'on')
  await one.put('a', 'off')
  await other.put('b', 'off')
  await one.commit()
  t.is((await errorOf(() => other.commit())).code, 'ESKER_CONFLICT')
})

test('prepared transactions survive the close', async t => {
  const location = path()
  const db = await database({}, location)
  for (const name of ['yes', 'no']) {
    const tx = db.transaction()
    await tx.put(name, 'x')
    await tx.prepare(name)
  }
  await db.close()
  await db.open()
  t.same((await db.preparedTransactions()).sort(), ['no', 'yes'])
  await db.commitPrepared('yes')
  await db.rollbackPrepared('no')
  t.same(await db.keys().all(), ['yes'])
  t.is((await errorOf(() => db.commitPrepared('yes'))).code, 'ESKER_NOT_FOUND')
})

test('backups, checkpoints, checks and repair', async t => {
  const db = await database()
  const backups = path()
  await db.put('a', '1')
  t.is(await db.backup(backups), 1)
  await db.put('a', '2')
  t.is(await db.backup(backups), 2)
  t.same(await EskerLevel.backups(backups), [1, 2])
  const [restored, copy] = [path(), path()]
  await EskerLevel.restore(backups, restored, { number: 1 })
  t.is(await (await database({}, restored)).get('a'), '1')
  for (const number of [0, -1, 1.5, NaN, '1', {}]) {
    const err = await errorOf(() => EskerLevel.restore(backups, path(), { number }))
    t.is(err.code, 'ESKER_INVALID_ARGUMENT')
    t.match(err.message, /integer of at least 1/)
  }
  t.is((await errorOf(() => EskerLevel.restore(backups, path(), { number: 3 }))).code, 'ESKER_NOT_FOUND')
  t.same(await EskerLevel.pruneBackups(backups, 1), [1])
  await db.checkpoint(copy)
  await db.upgradeFormat(2)
  t.is((await errorOf(() => db.upgradeFormat(1))).code, 'ESKER_INVALID_ARGUMENT')
  for (const to of [-1, 1.5, '2', undefined]) t.ok((await errorOf(() => db.upgradeFormat(to))) instanceof TypeError)
  const other = await database({ readOnly: true }, copy)
  t.is(await other.get('a'), '2')
  t.is((await errorOf(() => other.put('a', '3'))).code, 'ESKER_READ_ONLY')
  await other.close()
  t.same(await db.verify(), [])
  await db.flush()
  await db.sync()
  await db.compactAll()
  await db.compactRange('a', 'z')
  await db.waitIdle()
  t.ok(await db.approximateSize('a', 'z') > 0)
  t.is((await errorOf(() => db.runOneJob())).code, 'ESKER_INVALID_ARGUMENT')
  t.ok(db.openmetrics().endsWith('# EOF\n'))
  t.is(typeof db.getProperty('leveldb.stats'), 'string')
  t.is(db.getProperty('leveldb.nonsense'), undefined)
  t.is((await errorOf(() => EskerLevel.repair(db.location))).code, 'LEVEL_LOCKED')
  await db.close()
  t.same(await EskerLevel.repair(db.location), [])
  await EskerLevel.destroy(db.location)
  t.notOk(fs.existsSync(`${db.location}/CURRENT`))
  await EskerLevel.destroy(path())
})

test('approximateSize and compactRange wait for the writes before them', async t => {
  const db = await database()
  const one = db.keyspace('one')
  await one.open()
  for (const part of [db, one]) {
    for (const call of ['approximateSize', 'compactRange']) {
      let isWritten = false
      const write = part.put('k', 'v'.repeat(8 << 20), { sync: true }).then(() => { isWritten = true })
      await part[call]('a', 'z')
      t.ok(isWritten, call)
      await write
    }
    t.ok(await part.approximateSize('a', 'z') > 0)
    t.is(await part.approximateSize('x', 'z'), 0)
  }
})

test('options', async t => {
  const db = await database({ cacheSize: 8 << 20, write_buffer_size: 1 << 20, compression: 'zstd', userland: 1 })
  t.is(db.option('cacheSize'), String(8 << 20))
  t.is(db.option('compression'), 'zstd')
  db.setOption('policy', 'leveled')
  t.is(db.option('policy'), 'leveled')
  db.setOptions({ policy: 'tiered', fan_out: 12 })
  t.same([db.option('policy'), db.option('fanOut')], ['tiered', '12'])
  for (const wrong of [{ policy: 'leveled', fanOut: 'many' }, { policy: 'leveled', blockSizeOf: 1 }, { policy: 'leveled', indexFanout: 8 }]) {
    t.is((await errorOf(() => db.setOptions(wrong))).code, 'ESKER_INVALID_ARGUMENT', JSON.stringify(wrong))
  }
  t.is(db.option('policy'), 'tiered', 'all or none')
  t.ok((await errorOf(() => db.setOptions())) instanceof TypeError)
  t.is((await errorOf(() => db.setOption('policy', 'none'))).code, 'ESKER_INVALID_ARGUMENT')
  t.is((await errorOf(() => db.option('nonsense option'))).code, 'ESKER_INVALID_ARGUMENT')
  const names = EskerLevel.options()
  t.ok(names.includes('memory_budget_bytes'))
  t.notOk(names.includes('write_buffer_size'), 'without other names')
  t.is(names.pop(), 'merge_operator')
  t.ok(names.every(name => typeof db.option(name) === 'string'))
  for (const name of ['mergeOperator', 'merge_operator']) {
    const calls = [() => db.option(name), () => db.setOption(name, 'max')]
    for (const call of calls) t.match((await errorOf(call)).message, /cannot be read or changed/)
  }
  const wrong = [{ cacheSise: 1 }, { blockSize: 'large' }, { compression: 'gzip' }, { cacheSize: {} }]
  for (const options of wrong) {
    const err = await errorOf(() => new EskerLevel(path(), options).open())
    t.is(err.cause.code, 'ESKER_INVALID_ARGUMENT', JSON.stringify(options))
  }
  const off = await database({ compression: false })
  t.is(off.option('compression'), 'none')
})

test('the types have the values that the package exports', t => {
  const types = fs.readFileSync(`${__dirname}/../index.d.ts`, 'utf8')
  const names = [...types.matchAll(/^export (?:class|function) (\w+)/gm)].map(found => found[1])
  t.same(names.sort(), Object.keys(require('..')).sort())
  t.end()
})

test('the kinds of errors are those of docs/errors.md', t => {
  const table = fs.readFileSync(`${__dirname}/errors.md`, 'utf8')
  const rows = [...table.matchAll(/^\| `([^`]+)` \| (?:`([A-Z][A-Za-z]+)`|a panic) \|/gm)].map(row => row[1])
  const kinds = rows.filter(kind => kind !== 'key not found')
  t.ok(kinds.length > 10)
  t.same(Object.keys(require('../lib/errors').codes).sort(), kinds.sort())
  t.end()
})

test('errors name the place and the reason', async t => {
  const db = await database()
  const second = await errorOf(() => new EskerLevel(db.location).open())
  t.is(second.cause.code, 'LEVEL_LOCKED')
  t.is(second.cause.kind, 'locked')
  t.ok(second.cause.path.startsWith(db.location))
  const file = path()
  fs.writeFileSync(file, 'not a directory')
  const err = await errorOf(() => new EskerLevel(file).open())
  t.ok(err.cause.message.includes(file))
  const missing = await errorOf(() => new EskerLevel(path(), { createIfMissing: false }).open())
  t.ok(/does not exist/.test(missing.cause.message))
})
