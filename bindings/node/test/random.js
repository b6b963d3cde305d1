'use strict'

// Random calls on a database, its keyspaces and sublevels against Maps. The keys of the database itself
// include those of its sublevel, so only the reads of single keys are compared there.

const test = require('tape')
const { cleanUp, database, random } = require('./common')

test.onFinish(cleanUp)

const seed = Number(process.env.SEED ?? Date.now() % 1e9)
const rounds = Number(process.env.ROUNDS ?? 20)
console.log(`# seed ${seed}`)

const compare = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))

// Returns the entries of a map that an iterator with these options has.
function expected (map, { gt, gte, lt, lte, reverse, limit }) {
  let entries = [...map].sort(([a], [b]) => compare(a, b)).filter(([key]) =>
    (gte === undefined ? gt === undefined || compare(key, gt) > 0 : compare(key, gte) >= 0) &&
    (lte === undefined ? lt === undefined || compare(key, lt) < 0 : compare(key, lte) <= 0))
  if (reverse) entries.reverse()
  if (limit !== undefined && limit >= 0) entries = entries.slice(0, limit)
  return entries
}

test('random calls', async t => {
  const next = random(seed)
  const alphabet = ['a', 'b', 'é', '\u0000', '😀', 'zz']
  const key = () => Array.from({ length: next(4) }, () => alphabet[next(alphabet.length)]).join('')
  const value = () => 'v'.repeat(next(10) === 0 ? next(5000) : next(20)) + alphabet[next(alphabet.length)]
  const range = () => {
    const options = { reverse: next(2) === 0 }
    if (next(2) === 0) options[next(2) === 0 ? 'gt' : 'gte'] = key()
    if (next(2) === 0) options[next(2) === 0 ? 'lt' : 'lte'] = key()
    if (next(3) === 0) options.limit = next(20)
    return options
  }
  const durability = () => ['none', 'buffered', 'sync', undefined][next(20) === 0 ? 2 : next(2)]
  let failures = 0
  const check = (given, wanted, what) => {
    if (JSON.stringify(given) === JSON.stringify(wanted)) return
    failures++
    t.same(given, wanted, `seed ${seed}: ${what}`)
  }

  const db = await database({ writeBufferSize: 64 << 10 })
  let parts = [db, db.keyspace('one'), db.keyspace('two'), db.sublevel('sub'), db.keyspace('three').sublevel('s')]
  const maps = parts.map(() => new Map())
  for (const part of parts) await part.open()
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < 300; i++) {
      const at = next(parts.length)
      const [part, map] = [parts[at], maps[at]]
      const [k, v] = [key(), value()]
      switch (next(11)) {
        case 0: case 1:
          await part.put(k, v, { durability: durability() })
          map.set(k, v)
          break
        case 2:
          await part.del(k)
          map.delete(k)
          break
        case 3: {
          const operations = Array.from({ length: next(30) }, () => {
            const to = next(parts.length)
            const sublevel = to === 0 ? undefined : parts[to]
            const [k, v] = [key(), value()]
            if (next(3) > 0) {
              maps[to].set(k, v)
              return { type: 'put', key: k, value: v, sublevel }
            }
            maps[to].delete(k)
            return { type: 'del', key: k, sublevel }
          })
          await db.batch(operations, { durability: durability() })
          break
        }
        case 4:
          check(await part.get(k), map.get(k), 'get')
          check(await part.has(k), map.has(k), 'has')
          break
        case 5: {
          const keys = Array.from({ length: next(30) }, key)
          check((await part.getMany(keys)).map(v => v ?? null), keys.map(k => map.get(k) ?? null), 'getMany')
          check(await part.hasMany(keys), keys.map(k => map.has(k)), 'hasMany')
          break
        }
        case 6:
          if (next(4) === 0 && part !== db) {
            const options = range()
            for (const [k] of expected(map, options)) map.delete(k)
            await part.clear(options)
          }
          break
        case 7: {
          if (part === db) break
          const options = range()
          check(await part.iterator(options).all(), expected(map, options), JSON.stringify(options))
          break
        }
        case 8: {
          if (part === db) break
          const snapshot = part.snapshot()
          const before = new Map(map)
          await part.put(k, v)
          map.set(k, v)
          check(await part.get(k, { snapshot }), before.get(k), 'get of a snapshot')
          check(await part.iterator({ snapshot }).all(), expected(before, {}), 'snapshot')
          await snapshot.close()
          break
        }
        case 9: {
          if (part === db) break
          const options = range()
          const entries = expected(map, options)
          const iterator = part.iterator(options)
          let position = 0
          while (position < entries.length) {
            const size = 1 + next(9)
            const got = size === 1 ? [await iterator.next()] : await iterator.nextv(size)
            check(got, entries.slice(position, position + got.length), 'next and nextv')
            position += got.length
          }
          check(await iterator.next(), undefined, 'the end')
          await iterator.close()
          break
        }
        case 10: {
          const failing = next(3) === 0
          const copies = maps.slice(0, 3).map(map => new Map(map))
          await db.transact(async tx => {
            const own = [tx, tx.in(parts[1]), tx.in(parts[2])]
            for (let j = 0; j < 10; j++) {
              const at = next(3)
              const [k, v] = [key(), value()]
              if (next(2) === 0) {
                await own[at].put(k, v)
                copies[at].set(k, v)
              } else {
                await own[at].del(k)
                copies[at].delete(k)
              }
              check(await own[at].get(k), copies[at].get(k), 'get of a transaction')
            }
            check(await own[1].iterator().all(), expected(copies[1], {}), 'entries of a transaction')
            if (failing) await tx.rollback()
          })
          if (!failing) for (const at of [0, 1, 2]) maps[at] = copies[at]
          break
        }
      }
    }
    if (round % 5 === 4) {
      await db.close()
      await db.open()
      parts = [db, db.keyspace('one'), db.keyspace('two'), db.sublevel('sub'), db.keyspace('three').sublevel('s')]
      for (const part of parts) await part.open()
    }
    if (round % 3 === 0) await db.flush()
    for (const at of [1, 2, 3, 4]) {
      check(await parts[at].iterator().all(), expected(maps[at], {}), `round ${round}, part ${at}`)
    }
  }
  t.is(failures, 0, `seed ${seed}`)
})
