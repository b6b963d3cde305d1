'use strict'

// The change feed, also as bytes, forks, comparisons, ingests and bulk loads.

const { randomBytes } = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')
const { PassThrough } = require('node:stream')
const test = require('tape')
const { EskerLevel, diff } = require('..')
const { cleanUp, database, path: temporary } = require('./common')

test.onFinish(cleanUp)

const PATIENCE = 120_000

async function opened () {
  return { db: await database() }
}

async function codeOf (promise) {
  try {
    await promise
  } catch (err) {
    return err.code ?? err.name
  }
  return 'none'
}

const keysOf = async feed => {
  const keys = []
  for await (const batch of feed) for (const change of batch.changes) keys.push(String(change.key))
  return keys
}

test('a reader that bootstraps and follows has every write once', async t => {
  const { db } = await opened()
  await db.put('0000', 'before')
  const slot = await db.subscribe('copy')
  const name = number => String(number).padStart(4, '0')
  const writing = (async () => {
    for (let number = 1; number < 300; number++) await db.put(name(number), '')
  })()
  const { snapshot, position } = await db.snapshotWithPosition()
  const seen = await db.keys({ snapshot }).all()
  await snapshot.close()
  await slot.confirm(position)
  let last = position
  const changes = await slot.changes()
  const linked = []
  while (seen.length < 300) {
    const batch = await changes.next(PATIENCE)
    linked.push(batch.previous === last && batch.firstSequence === last + 1 && batch.checksum !== 0n)
    last = batch.sequence
    seen.push(String(batch.changes[0].key))
  }
  await writing
  t.deepEqual(seen, Array.from({ length: 300 }, (_, number) => name(number)), 'each once')
  t.ok(linked.every(Boolean), 'each batch follows on the one before it')
  t.is(await changes.next(), undefined, 'the present')
  t.is(await changes.next(1), undefined, 'after the time')
  t.is(changes.position, last, 'position')
  await changes.close()
  await db.close()
})

test('a confirmed slot goes on after the database was opened again', async t => {
  const { db } = await opened()
  const slot = await db.subscribe('index', { lagLimitBytes: Infinity })
  for (const key of ['a', 'b', 'c']) await db.put(key, '1')
  const changes = await slot.changes()
  const [first, second] = [await changes.next(), await changes.next()]
  await changes.close()
  await slot.confirm(second.sequence)
  await slot.confirm(first.sequence)
  t.is(await codeOf(slot.confirm(1000)), 'ESKER_INVALID_ARGUMENT', 'after the newest write')
  await db.close()
  await db.open()
  const again = await db.slot('index')
  t.is(again.name, 'index')
  t.is(await again.position(), second.sequence, 'position')
  t.deepEqual(await keysOf(await again.changes()), ['c'], 'what was not confirmed')
  t.deepEqual(await keysOf(await db.changes(first.sequence)), ['b', 'c'], 'from a position')
  const [info] = await db.slots()
  t.is(info.name, 'index')
  t.is(info.position, second.sequence)
  t.is(info.lagLimitBytes, Infinity)
  t.is(info.problem, undefined)
  await again.drop()
  for (const call of [() => again.position(), () => again.changes(), () => db.slot('index'), () => again.drop()]) {
    t.is(await codeOf(call()), 'ESKER_NOT_FOUND', 'a dropped slot')
  }
  t.deepEqual(await db.slots(), [])
  await db.close()
})

test('a bulk load comes in parts of one batch', async t => {
  const { db } = await opened()
  const slot = await db.subscribe('parts')
  const begin = await slot.position()
  const pairs = Array.from({ length: 3000 }, (_, number) =>
    [String(number).padStart(5, '0'), randomBytes(500).toString('hex')])
  await db.bulkLoad(pairs)
  await db.put('whole', 'batch')
  const changes = await slot.changes()
  const [parts, positions] = [[], []]
  while (parts.at(-1)?.continues !== false) {
    parts.push(await changes.next(PATIENCE))
    positions.push(changes.position)
  }
  const last = parts.length - 1
  t.ok(last > 0, 'several parts')
  t.deepEqual(parts.map(part => part.part), parts.map((_, number) => number), 'numbered from 0 on')
  t.deepEqual(parts.map(part => part.continues), parts.map((_, number) => number < last), 'the last one ends it')
  t.is(new Set(parts.map(part => `${part.sequence} ${part.checksum} ${part.previous}`)).size, 1, 'one batch')
  const read = parts.flatMap(part => part.changes.map(change => [String(change.key), String(change.value)]))
  t.deepEqual(read, pairs, 'all pairs')
  t.deepEqual(positions, parts.map((part, number) => number < last ? begin : part.sequence), 'positions')
  await slot.confirm(changes.position)
  const whole = await changes.next(PATIENCE)
  t.ok(whole.part === 0 && whole.continues === false, 'a whole batch')
  await changes.close()
  await db.close()
})

test('every kind of change has its fields', async t => {
  const { db } = await opened()
  const slot = await db.subscribe('all')
  const counts = db.keyspace('counts', { mergeOperator: 'add_i64' })
  await counts.open()
  await db.put('k', 'v', { ttl: 3_600_000 })
  await counts.merge('n', '1')
  await counts.del('n')
  await counts.clear({ gte: 'a', lt: 'c' })
  await db.renameKeyspace('counts', 'sums')
  await db.dropKeyspace('sums')
  const changes = []
  const feed = await slot.changes()
  for await (const batch of feed) changes.push(...batch.changes)
  await feed.close()
  t.deepEqual(changes.map(change => change.type), [
    'keyspaceCreated', 'put', 'merge', 'delete', 'deleteRange', 'keyspaceRenamed', 'keyspaceDropped'
  ])
  const [created, put, merge, , deleted, renamed] = changes
  t.is(created.keyOrder, 'esker.bytewise')
  t.ok(Object.values(created.options).includes('add_i64'), 'options')
  t.is(`${put.keyspace} ${put.key} ${put.value}`, 'default k v')
  t.ok(put.expires > Date.now(), 'expires')
  t.is(`${merge.keyspace} ${merge.key} ${merge.operand}`, 'counts n 1')
  t.is(`${deleted.start} ${deleted.end}`, 'a c')
  t.is(renamed.newName, 'sums')
  await db.close()
})

test('a slot that lags too far is dropped and says so', async t => {
  const { db } = await opened()
  const slot = await db.subscribe('lagging', { lagLimitBytes: 1000 })
  for (let number = 0; number < 100; number++) await db.put(String(number), 'v'.repeat(100))
  await db.flush()
  // A flush drops it with the logs that it removes, which may be after it has woken its caller.
  const end = Date.now() + PATIENCE
  while ((await db.slots())[0].problem === undefined && Date.now() < end) {
    await new Promise(resolve => setTimeout(resolve, 1))
  }
  t.match((await db.slots())[0].problem, /lagged/)
  for (const call of [() => slot.changes(), () => slot.confirm(1), () => db.subscribe('lagging')]) {
    try {
      await call()
      t.fail('a dropped slot was used')
    } catch (err) {
      t.is(err.code, 'ESKER_NOT_FOUND')
      t.match(err.message, /lagged/)
    }
  }
  await db.dropSlot('lagging')
  await db.subscribe('lagging')
  await db.close()
})

test('close ends a wait, and a signal ends a loop', async t => {
  const { db } = await opened()
  const slot = await db.subscribe('one')
  const [one, two] = [await slot.changes(), await slot.changes()]
  const waiting = [codeOf(one.next(Infinity)), codeOf(two.next(Infinity))]
  await one.close()
  t.is(await waiting[0], 'LEVEL_DATABASE_NOT_OPEN', 'a closed feed')
  const controller = new AbortController()
  const followed = []
  const loop = (async () => {
    for await (const batch of (await slot.changes()).follow({ signal: controller.signal })) {
      followed.push(String(batch.changes[0].key))
      if (followed.length === 2) controller.abort()
    }
  })()
  await db.put('a', '1')
  await db.put('b', '2')
  await loop
  t.deepEqual(followed, ['a', 'b'], 'followed')
  const { snapshot, position: now } = await db.snapshotWithPosition()
  await snapshot.close()
  const idle = new AbortController()
  const ended = (async () => {
    const feed = await db.changes(now)
    for await (const batch of feed.follow({ signal: idle.signal })) t.fail(batch)
  })()
  idle.abort()
  await ended
  const last = codeOf((await db.changes(now)).next(Infinity))
  await db.close()
  t.is(await last, 'LEVEL_DATABASE_NOT_OPEN', 'a closed database')
  await waiting[1]
  await two.close()
  await two.close()
  for (const call of [
    () => two.next(), () => slot.confirm(1), () => slot.changes(), () => slot.position(), () => db.changes(),
    () => db.subscribe('one'), () => db.slots(), () => db.fork('x'), () => db.lineage(),
    () => db.ingest([]), () => db.bulkLoad([]), () => db.snapshotWithPosition()
  ]) {
    t.is(await codeOf(call()), 'LEVEL_DATABASE_NOT_OPEN', String(call))
  }
})

test('wrong arguments are refused', async t => {
  const { db } = await opened()
  for (const call of [
    () => db.subscribe('a b'), () => db.subscribe(''), () => db.changes(-1), () => db.changes(1.5),
    () => db.changes('1'), () => db.changes(100), () => db.subscribe('a', { lagLimitBytes: -1 }),
    async () => (await db.changes()).next(-1), async () => (await db.changes()).next(NaN),
    async () => (await db.changes()).next('1'), async () => (await db.subscribe('a')).confirm('1'),
    () => db.ingest('file'), () => db.ingest([7]), () => db.bulkLoad(7), () => db.bulkLoad([7]),
    () => db.bulkLoad([['a']]), () => EskerLevel.writeSorted(path.join('x', 'y'), [[7, 8]])
  ]) {
    t.is(await codeOf(call()), 'ESKER_INVALID_ARGUMENT', String(call))
  }
  t.is(await codeOf(diff(db, 7)), 'TypeError')
  t.is(await codeOf(db.fork('')), 'TypeError')
  t.is(await codeOf(diff(db, db, { keyspace: 'none' })), 'ESKER_NOT_FOUND')
  await db.close()
})

test('a fork is independent, and a comparison lists what changed', async t => {
  const { db } = await opened()
  const place = temporary()
  await db.batch([{ type: 'put', key: 'apple', value: 'red' }, { type: 'put', key: 'lime', value: 'green' }])
  const report = await db.fork(place, { name: 'try 1' })
  t.ok(report.linkedFiles + report.copiedFiles > 0, 'shares tables')
  t.is(await codeOf(db.fork(place)), 'ESKER_INVALID_ARGUMENT', 'a directory that exists')
  const fork = await database({}, place)
  const lineage = await fork.lineage()
  t.is(lineage.storeId, report.storeId)
  t.is(lineage.name, 'try 1')
  t.is(lineage.ancestors[0].storeId, (await db.lineage()).storeId)
  const before = fork.snapshot()
  await fork.put('apple', 'green')
  await fork.del('lime')
  await fork.put('plum', '', { ttl: 3_600_000 })
  const extra = fork.keyspace('extra')
  await extra.put('k', 'v')
  await db.put('parent', 'only')
  t.is(await db.get('apple'), 'red', 'the parent')
  t.is(await fork.get('parent'), undefined, 'the fork')
  const compared = await diff(db, fork)
  t.is(compared.relation, 'a fork of the first')
  t.ok(compared.sharedFiles > 0, 'shared tables')
  t.deepEqual(compared.keyspacesOnlyInNew, ['extra'])
  t.deepEqual(compared.keyspacesOnlyInOld, [])
  const found = []
  for await (const d of compared) found.push(`${d.keyspace}/${d.key} ${d.old} ${d.new} ${d.newExpires !== undefined}`)
  t.deepEqual(found, [
    'default/apple red green false', 'default/lime green undefined false',
    'default/parent only undefined false', 'default/plum undefined  true', 'extra/k undefined v false'
  ])
  t.is(await codeOf(compared.next()), 'LEVEL_DATABASE_NOT_OPEN', 'a comparison that was walked')
  const same = await diff(fork, fork, { oldSnapshot: before, newSnapshot: before })
  t.is(await same.next(), undefined, 'the same snapshot')
  await same.close()
  await before.close()
  await fork.close()
  await db.close()
})

test('an ingest takes all files or none', async t => {
  const { db } = await opened()
  const [one, two] = [temporary() + '.sst', temporary() + '.sst']
  await db.put('b', 'old')
  const made = await EskerLevel.writeSorted(one, [['b', 'new'], [Buffer.from('c'), '1']])
  t.is(made.entries, 2)
  t.is(made.bytes, fs.statSync(one).size)
  t.is(await codeOf(EskerLevel.writeSorted(one, [])), 'LEVEL_IO_ERROR', 'a file that exists')
  t.is(await codeOf(EskerLevel.writeSorted(two, [['b', ''], ['a', '']])), 'ESKER_INVALID_ARGUMENT', 'wrong order')
  t.notOk(fs.existsSync(two), 'no file')
  await EskerLevel.writeSorted(two, [['c', '2']])
  t.is(await codeOf(db.ingest([one, two])), 'ESKER_INVALID_ARGUMENT', 'both have a key')
  t.deepEqual(await db.iterator().all(), [['b', 'old']], 'nothing was changed')
  const report = await db.ingest([one], { copy: true, verify: false })
  t.is(report.entries, 2)
  t.ok(report.flushed && report.files > 0 && report.sequence > 0, 'report')
  t.deepEqual(await db.iterator().all(), [['b', 'new'], ['c', '1']], 'ingested')
  const other = db.keyspace('other')
  await other.ingest([one])
  t.deepEqual(await other.keys().all(), ['b', 'c'], 'a keyspace')
  t.notOk(fs.existsSync(one), 'the file was taken')
  await db.close()
})

test('a bulk load loads all pairs or none', async t => {
  const { db } = await opened()
  const name = number => String(number).padStart(6, '0')
  function * squares (count) {
    for (let number = 0; number < count; number++) yield [name(number), String(number * number)]
  }
  t.is(await codeOf(db.bulkLoad([['b', '1'], ['a', '1']])), 'ESKER_INVALID_ARGUMENT', 'wrong order')
  const failing = async function * () {
    yield * squares(50_000)
    throw new RangeError('planted')
  }
  t.is(await codeOf(db.bulkLoad(failing())), 'RangeError', 'the error of the source')
  const unsorted = function * () {
    yield * squares(50_000)
    yield * squares(50_000)
  }
  t.is(await codeOf(db.bulkLoad(unsorted())), 'ESKER_INVALID_ARGUMENT', 'wrong order later')
  t.deepEqual(await db.keys().all(), [], 'nothing was loaded')
  const using = async function * () {
    await db.put('other', '1')
    yield * squares(50_000)
  }
  const report = await db.bulkLoad(using())
  t.is(report.entries, 50_000)
  t.is(await db.get(name(25)), '625')
  t.is(await db.get('other'), '1', 'the source may use the database')
  const sessions = db.keyspace('sessions', { ttl: 3_600_000, valueEncoding: 'json' })
  await sessions.bulkLoad([['a', { n: 1 }]])
  t.deepEqual(await sessions.get('a'), { n: 1 })
  t.ok(await sessions.expiry('a') > Date.now(), 'the time to live of the keyspace')
  t.is((await db.bulkLoad([])).entries, 0)
  const closing = async function * () {
    yield ['zzz', '1']
    await db.close()
    yield ['zzzz', '1']
  }
  t.is(await codeOf(db.bulkLoad(closing())), 'LEVEL_DATABASE_NOT_OPEN', 'a close ends a load')
  await db.open()
  t.is(await db.get('zzz'), undefined, 'and nothing was loaded')
  await db.close()
})

// Applies a stream. Returns the items that are not content.
async function applied (db, source) {
  const items = []
  for await (const item of await db.applyChanges(source)) if (item.type !== 'content') items.push(item)
  return items
}

const contentOf = async db => {
  const content = {}
  for (const name of await db.keyspaces()) {
    if (!name.startsWith('esker')) content[name] = await db.keyspace(name).iterator().all()
  }
  return content
}

test('the feed as bytes makes a copy and keeps it up to date', async t => {
  const [{ db }, { db: copy }] = [await opened(), await opened()]
  const users = db.keyspace('users')
  await db.batch(Array.from({ length: 3000 }, (_, i) => ({ type: 'put', key: `k${i}`, value: 'v'.repeat(300) })))
  await users.put('u', '1')
  t.is(await copy.appliedPosition(), undefined)
  const slot = await db.subscribe('copy')
  const items = await applied(copy, db.changeStream({ content: true }))
  t.same(items.map(item => item.type), ['contentEnd', 'end'])
  const { source, position } = await copy.appliedPosition()
  t.is(source, (await db.lineage()).storeId)
  t.same([items[0].position, position], [position, await slot.position()])
  t.deepEqual(await contentOf(copy), await contentOf(db))
  await slot.confirm(position)
  await users.put('u', '2')
  await db.bulkLoad(Array.from({ length: 3000 }, (_, i) => [`l${String(i).padStart(5, '0')}`, randomBytes(200).toString('hex')]))
  await db.del('k1')
  const bytes = await db.changeStream({ slot: 'copy' }).toArray()
  const more = await applied(copy, bytes)
  t.is(more[0].type, 'batch')
  t.same(more.at(-1), { type: 'end', position: (await copy.appliedPosition()).position })
  t.deepEqual(await contentOf(copy), await contentOf(db))
  // What a database has is left out.
  await applied(copy, bytes)
  t.deepEqual(await contentOf(copy), await contentOf(db))
  t.is(await codeOf(applied(copy, db.changeStream({ from: (await copy.appliedPosition()).position }))), 'none')
  t.is(await codeOf(applied(db, db.changeStream())), 'ESKER_INCOMPATIBLE', 'the source itself')
  await db.close()
  await copy.close()
})

test('a stream of changes follows until it is aborted', async t => {
  const [{ db }, { db: copy }] = [await opened(), await opened()]
  await db.put('a', '1')
  const abort = new AbortController()
  const applier = await copy.applyChanges(db.changeStream({ follow: true, alive: 20, signal: abort.signal }))
  t.is(await applier.source(), (await db.lineage()).storeId)
  const seen = []
  for await (const item of applier) {
    seen.push(item.type)
    if (item.type === 'alive' && !seen.includes('end')) {
      if (await copy.get('b') === undefined) await db.put('b', '2')
      else abort.abort()
    }
  }
  t.same([...new Set(seen)].sort(), ['alive', 'batch', 'end'])
  t.is(seen.at(-1), 'end')
  t.same(await copy.iterator().all(), [['a', '1'], ['b', '2']])
  t.is(await codeOf(applier.next()), 'LEVEL_DATABASE_NOT_OPEN', 'after the end')
  await applier.close()
  await db.close()
  await copy.close()
})

test('a copy of the files begins at its position', async t => {
  const { db } = await opened()
  await db.put('a', '1')
  await db.subscribe('copy')
  const { snapshot, position } = await db.snapshotWithPosition()
  await snapshot.close()
  const place = temporary()
  await db.checkpoint(place)
  await db.put('b', '2')
  const copy = await database({}, place)
  const applier = await copy.applyChanges(db.changeStream({ from: position }))
  await applier.startAt(position)
  for await (const item of applier) t.ok(['batch', 'end'].includes(item.type))
  t.same(await copy.iterator().all(), [['a', '1'], ['b', '2']])
  const again = await copy.applyChanges(db.changeStream({ from: position }))
  t.is(await codeOf(again.startAt(0)), 'ESKER_INVALID_ARGUMENT')
  t.is(await codeOf(again.startAt(-1)), 'ESKER_INVALID_ARGUMENT')
  await again.close()
  await db.close()
  await copy.close()
})

test('damaged and cut streams, failing sources and wrong arguments', async t => {
  const [{ db }, { db: copy }] = [await opened(), await opened()]
  await db.put('a', 'x'.repeat(1000))
  await db.put('b', '2')
  const bytes = Buffer.concat(await db.changeStream().toArray())
  t.is(await codeOf(applied(copy, bytes.subarray(0, bytes.length - 30))), 'LEVEL_IO_ERROR', 'cut')
  const damaged = Buffer.from(bytes)
  damaged[500] ^= 1
  t.is(await codeOf(applied(copy, damaged)), 'LEVEL_CORRUPTION')
  t.is(await codeOf(applied(copy, 'no stream at all, but long enough')), 'LEVEL_CORRUPTION')
  async function * failing () {
    yield bytes.subarray(0, 100)
    throw new Error('of the source')
  }
  t.is((await applied(copy, failing()).catch(err => err)).message, 'of the source')
  t.is(await codeOf(applied(copy, [7])), 'ESKER_INVALID_ARGUMENT')
  t.is(await codeOf(copy.applyChanges(7)), 'ESKER_INVALID_ARGUMENT')
  for (const wrong of [{ from: -1 }, { from: 'x' }, { alive: 0 }, { alive: 'often' }]) {
    t.is(await codeOf((async () => db.changeStream(wrong))()), 'ESKER_INVALID_ARGUMENT', JSON.stringify(wrong))
  }
  t.is(await codeOf(db.changeStream({ slot: 'none' }).toArray()), 'ESKER_NOT_FOUND')
  await applied(copy, bytes)
  t.is((await copy.get('a')).length, 1000)
  const { db: third } = await opened()
  await third.put('c', '3')
  t.is(await codeOf(applied(copy, third.changeStream())), 'ESKER_INCOMPATIBLE', 'another source')
  for (const one of [db, copy, third]) await one.close()
})

test('a close ends streams of changes and their application', async t => {
  const [{ db }, { db: copy }] = [await opened(), await opened()]
  await db.batch(Array.from({ length: 30_000 }, (_, i) => ({ type: 'put', key: `k${i}`, value: 'v'.repeat(100) })))
  const [content, follow] = [db.changeStream({ content: true }), db.changeStream({ follow: true })]
  const left = db.changeStream({ content: true })
  await new Promise(resolve => left.once('data', resolve))
  left.destroy()
  // This one waits for an hour, and ends at once.
  const live = db.changeStream({ from: 30_000, follow: true, alive: 3_600_000 }).resume()
  await new Promise(resolve => setTimeout(resolve, 50))
  const closed = new Promise(resolve => live.once('close', resolve))
  live.destroy()
  await closed
  await new Promise(resolve => content.once('readable', resolve))
  const applying = codeOf(applied(copy, follow))
  const silent = new PassThrough()
  const waiting = codeOf(applied(copy, silent))
  await new Promise(resolve => setTimeout(resolve, 50))
  await db.close()
  t.is(await codeOf(content.toArray()), 'LEVEL_DATABASE_NOT_OPEN')
  t.is(await applying, 'LEVEL_DATABASE_NOT_OPEN', 'the error of the sender')
  await copy.close()
  t.is(await waiting, 'LEVEL_DATABASE_NOT_OPEN')
  t.ok(silent.destroyed)
  t.is(await codeOf(copy.applyChanges([])), 'LEVEL_DATABASE_NOT_OPEN')
  t.is(await codeOf(db.changeStream().toArray()), 'LEVEL_DATABASE_NOT_OPEN')
})
