'use strict'

// level-read-stream, which reads any database of abstract-level as a stream of Node.js.

const { pipeline } = require('node:stream/promises')
const test = require('tape')
const { EntryStream, KeyStream, ValueStream } = require('level-read-stream')
const { cleanUp, database } = require('./common')

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
