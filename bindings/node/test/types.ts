// Checked by `tsc --noEmit --strict` against index.d.ts. It is not run.

import {
  Applier, BackupInfo, Changes, Difference, EskerLevel, EskerError, Follower, Keyspace, Metrics, PerfCounts,
  RepairReport, Runtime, Slot, Stall, TableEntry, Transaction, TransactionPart, ValueStream, diff, enablePerf,
  takePerf
} from '..'

async function texts (): Promise<void> {
  const db = new EskerLevel('place', { memoryBudgetBytes: 1 << 26, compression: 'zstd' })
  await db.open({ readOnly: true })
  const value: string | undefined = await db.get('key')
  const now: string | undefined = db.getSync('key', { fillCache: false })
  const many: Array<string | undefined> = await db.getMany(['a', 'b'])
  await db.put('key', 'value', { ttl: 1000, sync: true })
  await db.del('key', { durability: 'buffered' })
  await db.batch([
    { type: 'put', key: 'a', value: 'b', ttl: 5 },
    { type: 'del', key: 'c' }
  ], { sync: true })
  await db.batch().put('a', 'b').del('c').write({ sync: true })
  for await (const [key, text] of db.iterator({ gte: 'a', lt: 'b', reverse: true, limit: 10 })) {
    const both: string = key + text
    void both
  }
  for await (const key of db.keys()) { key.toUpperCase() }
  const expiry: number | undefined = await db.expiry('key')
  const removed: boolean = await db.remove('key')
  const snapshot = db.snapshot()
  await db.get('key', { snapshot })
  await snapshot.close()
  // @ts-expect-error A key is a text.
  await db.get(1)
  // @ts-expect-error A durability has one of three names.
  await db.put('a', 'b', { durability: 'often' })
  // @ts-expect-error A location is a text.
  void new EskerLevel(1)
  void [value, now, many, expiry, removed]
}

interface User { name: string }

async function objects (): Promise<void> {
  const db = new EskerLevel<number, User>('place', { valueEncoding: 'json' })
  const user: User | undefined = await db.get(1)
  const users: Keyspace<string, User> = db.keyspace<string, User>('users', { valueEncoding: 'json', ttl: 100 })
  await db.batch([{ type: 'put', sublevel: users, key: 'a', value: { name: 'Ada' } }])
  // @ts-expect-error A key of the database is a number.
  await db.batch([{ type: 'del', key: 'a' }])
  const bytes: Uint8Array | undefined = await db.get<string, Uint8Array>('a', {
    keyEncoding: 'utf8', valueEncoding: 'view'
  })
  const count: number = await db.transact(async (tx: Transaction<number, User>) => {
    const found = await tx.getForUpdate(1)
    const part: TransactionPart<string, User> = tx.in(users)
    await part.put('b', { name: found?.name ?? '' }, { ttl: 100 })
    await tx.batch([
      { type: 'put', key: 2, value: { name: 'Ben' }, ttl: 100 },
      { type: 'del', sublevel: users, key: 'a' }
    ], { ttl: 200 })
    await tx.batch().put('c', { name: 'Cem' }, { sublevel: users, ttl: 100 }).del('d', { sublevel: users }).write()
    // @ts-expect-error The writes of a transaction have its durability.
    await tx.put(1, { name: 'Ada' }, { sync: true })
    // @ts-expect-error
    await tx.batch([{ type: 'del', key: 1 }], { durability: 'sync' })
    // @ts-expect-error
    await part.merge('b', { name: 'Ada' }, { durability: 'sync' })
    // @ts-expect-error
    await tx.batch().del(1).write({ sync: true })
    // @ts-expect-error A transaction reads its own snapshot.
    await tx.getForUpdate(1, { snapshot: db.snapshot() })
    // @ts-expect-error
    await tx.getForUpdate(1, { fillCache: false })
    // @ts-expect-error The class is a type only.
    void TransactionPart
    // @ts-expect-error A user has a name.
    await tx.put(1, { title: 'x' })
    return 1
  }, { isolation: 'serializable', attempts: 3 })
  const sub = users.sublevel<string, number>('sub', { valueEncoding: 'json' })
  await sub.put('a', 1)
  // @ts-expect-error There is no such isolation.
  db.transaction({ isolation: 'none' })
  try {
    await EskerLevel.repair('place')
  } catch (err) {
    const code: string = (err as EskerError).code
    void code
  }
  void [user, bytes, count]
}

async function feeds (): Promise<void> {
  const db = new EskerLevel('place')
  const slot: Slot = await db.subscribe('index', { lagLimitBytes: 1 << 30 })
  const changes: Changes = await slot.changes()
  for await (const batch of changes.follow({ signal: new AbortController().signal })) {
    for (const change of batch.changes) {
      if (change.type === 'put') {
        const value: Buffer = change.value
        void value
      }
      // @ts-expect-error Not every change has a value.
      void change.value
    }
    const part: number = batch.part
    if (!batch.continues) await slot.confirm(batch.sequence)
    void part
  }
  const next = await (await db.changes()).next(100)
  const position: number | undefined = next?.sequence
  const { snapshot } = await db.snapshotWithPosition()
  const id: bigint = (await db.fork('fork', { name: 'try' })).storeId
  for await (const found of await diff(db, db, { oldSnapshot: snapshot })) {
    const one: Difference = found
    void one
  }
  const entries: number = (await db.bulkLoad([['a', '1']])).entries
  await EskerLevel.writeSorted('file', [['a', Buffer.from('1')]])
  await db.ingest(['file'], { copy: true })
  // @ts-expect-error A pair has two items.
  await db.bulkLoad([['a']])
  const disposable: AsyncDisposable[] = [changes, await diff(db, db), await EskerLevel.follow('place')]
  void [position, id, entries, disposable]
}

async function copies (): Promise<void> {
  const runtime = new Runtime({ memoryBudgetBytes: '64MiB', threadsMax: 3 })
  const stores: number = runtime.metrics().stores
  const db = new EskerLevel('place', {
    runtime,
    key: async name => ({ key: new Uint8Array(32), name: name ?? 'k1' }),
    listener: event => { const text: string = event.text; void text }
  })
  const follower: Follower = await EskerLevel.follow('place', { keyFile: 'key' })
  const shown: boolean = await follower.waitFor(1, 100)
  const view: EskerLevel<string, { n: number }> = await follower.db<string, { n: number }>({ valueEncoding: 'json' })
  const behind: number = (await follower.lag()).operations
  const name: string = (await EskerLevel.rekey('place', { key: '5a' }, { keyFile: 'key' })).to
  // @ts-expect-error A key is no number.
  await EskerLevel.rekey('place', { key: 7 }, {})
  // @ts-expect-error A follower is made by follow.
  void new Follower()
  runtime.close()
  void [stores, db, shown, view, behind, name]
}

async function streams (): Promise<void> {
  const db = new EskerLevel('place')
  await db.put('a', 'b', { timeout: 50 })
  await db.batch([
    { type: 'merge', key: 'n', operand: '1' },
    { type: 'deleteRange', start: 'a', end: 'b', sublevel: db.keyspace('k') }
  ], { timeout: 50 })
  // @ts-expect-error A range has an end.
  await db.batch([{ type: 'deleteRange', start: 'a' }])
  // @ts-expect-error The writes of a transaction wait as it does.
  await db.transaction().put('a', 'b', { timeout: 50 })
  const bytes: number = await db.putStream('film', [Buffer.from('a'), 'b'])
  const film: ValueStream | undefined = await db.getStream('film', { start: 1, end: 2 })
  const length: number | undefined = film?.pipe(process.stdout) && film.valueBytes
  // @ts-expect-error A stream of a value is made by getStream.
  void new ValueStream()
  const applier: Applier = await db.applyChanges(db.changeStream({ slot: 'copy', follow: true }))
  for await (const { type, position } of applier) {
    const at: number = type === 'end' ? 0 : position
    void at
  }
  const source: bigint | undefined = (await db.appliedPosition())?.source
  void [bytes, length, source]
}

async function inspection (): Promise<void> {
  const db = new EskerLevel('place')
  const stall: Stall | undefined = db.stall()
  const notes: string[] = db.recoveryNotes()
  const metrics: Metrics = (await EskerLevel.liveStatus('place')).metrics
  const one: number = db.metric('levels.bytes', 0) + metrics.store.userOps
  db.setOptions({ policy: 'leveled', fanOut: 10 })
  const tables: TableEntry[] = await db.tables()
  const number: number = await db.backup('backups')
  const linked: number = (await db.backup('backups', { report: true, takeOver: true })).linkedFiles
  const infos: BackupInfo[] = await EskerLevel.backups('backups', { report: true })
  const kept: number[] = (await EskerLevel.pruneBackups('backups', 1, { report: true })).kept
  const problems: string[] = await db.verify({ progress: (bytes, of) => { void (bytes / of) } })
  const entries: number = (await db.verify({ report: true })).entries
  const lost: string[] = await EskerLevel.repair('place')
  const repaired: RepairReport = await EskerLevel.repair('place', { report: true })
  const restored: number = await EskerLevel.restore('backups', 'place')
  enablePerf()
  const counts: PerfCounts = takePerf()
  void [stall, notes, one, tables, number, linked, infos, kept, problems, entries, lost, repaired, restored, counts]
}

void [texts, objects, feeds, copies, streams, inspection]
