'use strict'

// level-read-stream, which reads any database of abstract-level as a stream of Node.js, and values as
// streams.

const { randomBytes } = require('node:crypto')
const fs = require('node:fs')
const { PassThrough, Readable } = require('node:stream')
const { pipeline } = require('node:stream/promises')
const test = require('tape')
const { EntryStream, KeyStream, ValueStream } = require('level-read-stream')
const { cleanUp, database, errorOf, hasCode, path } = require('./common')

test.onFinish(cleanUp)

async function read (stream) {
  const items = []
  await pipeline(stream, async function (source) {
    for await (const item of source) items.push(item)
  })
  return items
}

test('streams of databases, keyspaces, sublevels and transactions', async t => {
  const db = await database()
  const ks = db.keyspace('k')
  const sub = db.sublevel('s', { valueEncoding: 'json' })
  const tx = db.transaction()
  for (const part of [ks, sub, tx]) await part.open()
  for (const part of [ks, sub, tx]) {
    await part.batch(Array.from({ length: 3000 }, (_, i) => ({
      type: 'put', key: String(i).padStart(5, '0'), value: String(i)
    })))
    const entries = await read(new EntryStream(part))
    t.is(entries.length, 3000)
    t.ok(entries.every(({ key, value }, i) => Number(key) === i && value === String(i)))
    t.same(await read(new KeyStream(part, { gt: '00010', limit: 2, highWaterMark: 1 })), ['00011', '00012'])
    t.same(await read(new ValueStream(part, { reverse: true, limit: 2 })), ['2999', '2998'])
  }
  await tx.commit()
  t.is((await read(new KeyStream(db, { lt: '1' }))).length, 6000)
})

test('a stream that is destroyed, and a database that is closed below one', async t => {
  const db = await database()
  await db.batch(Array.from({ length: 5000 }, (_, i) => ({ type: 'put', key: `k${i}`, value: 'v' })))
  const stream = new EntryStream(db)
  stream.once('data', () => stream.destroy())
  await new Promise(resolve => stream.once('close', resolve))
  const other = new EntryStream(db, { highWaterMark: 2 })
  const failed = new Promise(resolve => { other.once('error', resolve); other.once('close', resolve) })
  other.once('data', () => db.close())
  await failed
  t.is(db.status === 'closing' || db.status === 'closed', true)
})

// Returns the bytes of a stream.
const bytesOf = async stream => Buffer.concat(await stream.toArray())

test('a value comes from a stream and goes to one', async t => {
  const db = await database()
  const ks = db.keyspace('k', { keyEncoding: 'json' })
  const film = randomBytes(3 << 20)
  const file = path()
  fs.writeFileSync(file, film)
  for (const [part, key] of [[db, 'film'], [ks, { film: 1 }]]) {
    t.is(await part.putStream(key, fs.createReadStream(file)), film.length)
    const stream = await part.getStream(key)
    t.is(stream.valueBytes, film.length)
    t.ok((await bytesOf(stream)).equals(film))
    const copy = path()
    await pipeline(await part.getStream(key, { highWaterMark: 1000 }), fs.createWriteStream(copy))
    t.ok(fs.readFileSync(copy).equals(film))
    for (const [range, from, to] of [
      [{ start: 5, end: 9 }, 5, 10], [{ start: film.length - 3 }, film.length - 3, undefined],
      [{ end: 0 }, 0, 1], [{ start: 100, end: 200_000 }, 100, 200_001], [{ start: film.length + 5 }, film.length, undefined]
    ]) t.ok((await bytesOf(await part.getStream(key, range))).equals(film.subarray(from, to)), JSON.stringify(range))
    t.ok((await part.get(key, { valueEncoding: 'buffer' })).equals(film))
    t.is(await part.getStream(key === 'film' ? 'none' : [1]), undefined)
  }
  t.is(await db.putStream('short', ['a', Buffer.from('b'), new Uint8Array([99]), '']), 3)
  t.is(await db.get('short'), 'abc')
  t.is(await db.putStream('text', 'é'), 2)
  t.is(await db.putStream('empty', []), 0)
  t.same([await db.get('text'), await db.get('empty')], ['é', ''])
  t.same(await bytesOf(await db.getStream('empty')), Buffer.alloc(0))
  async function * parts () { for (let i = 0; i < 40; i++) yield film.subarray(i << 16, (i + 1) << 16) }
  t.is(await db.putStream(Buffer.from([1]), parts(), { keyEncoding: 'buffer' }), 40 << 16)
  t.ok((await bytesOf(await db.getStream('\u0001'))).equals(film.subarray(0, 40 << 16)))
})

test('a stream of a value keeps its version, also after the close', async t => {
  const db = await database()
  const film = randomBytes(2 << 20)
  await db.putStream('film', [film])
  const stream = await db.getStream('film')
  const unread = await db.getStream('film')
  const left = await db.getStream('film')
  left.destroy()
  await db.putStream('film', [film.subarray(1)])
  await db.del('film')
  await db.close()
  t.ok((await bytesOf(stream)).equals(film))
  unread.destroy()
  t.ok((await errorOf(() => db.getStream('film'))).code === 'LEVEL_DATABASE_NOT_OPEN')
})

test('a value whose source fails is not written', async t => {
  const db = await database()
  await db.put('film', 'old')
  const big = Buffer.alloc(1 << 20)
  async function * failing () {
    yield big
    throw new Error('of the source')
  }
  t.is((await errorOf(() => db.putStream('film', failing()))).message, 'of the source')
  const broken = new PassThrough()
  broken.write(big)
  setImmediate(() => broken.destroy(new Error('of the stream')))
  t.is((await errorOf(() => db.putStream('film', broken))).message, 'of the stream')
  for (const wrong of [5, null, undefined, {}, [1], [null]]) {
    t.is((await errorOf(() => db.putStream('film', wrong))).code, 'ESKER_INVALID_ARGUMENT', String(wrong))
  }
  t.is((await errorOf(() => db.putStream(null, ['a']))).code, 'LEVEL_INVALID_KEY')
  t.is((await errorOf(() => db.getStream())).code, 'LEVEL_INVALID_KEY')
  for (const wrong of [{ start: -1 }, { end: 'x' }, { start: 1.5 }, { highWaterMark: NaN }]) {
    t.is((await errorOf(() => db.getStream('film', wrong))).code, 'ESKER_INVALID_ARGUMENT', JSON.stringify(wrong))
  }
  const brief = db.keyspace('brief', { ttl: 1000 })
  t.ok(hasCode(await errorOf(() => brief.putStream('film', [big])), 'ESKER_INVALID_ARGUMENT'))
  const old = await database({ formatVersion: 1 })
  const endless = new Readable({ read () { setImmediate(() => this.push(big)) } })
  t.is((await errorOf(() => old.putStream('film', endless))).code, 'ESKER_INCOMPATIBLE')
  t.ok(endless.destroyed, 'nothing reads the source any more')
  t.is(await db.get('film'), 'old')
  t.same(await db.verify(), [])
})

test('a close ends the put of a stream that goes on', async t => {
  const db = await database()
  await db.put('film', 'old')
  const source = new PassThrough()
  source.write(Buffer.alloc(1 << 20))
  const put = errorOf(() => db.putStream('film', source))
  await new Promise(resolve => setTimeout(resolve, 20))
  await db.close()
  t.is((await put).code, 'LEVEL_DATABASE_NOT_OPEN')
  t.ok(source.destroyed)
  await db.open()
  t.is(await db.get('film'), 'old')
})
