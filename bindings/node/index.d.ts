// The types of esker-level. `test/types.ts` is checked against them.

import {
  AbstractLevel,
  AbstractSnapshot,
  AbstractDatabaseOptions,
  AbstractOpenOptions,
  AbstractGetOptions,
  AbstractGetManyOptions,
  AbstractHasOptions,
  AbstractHasManyOptions,
  AbstractPutOptions,
  AbstractDelOptions,
  AbstractBatchOptions,
  AbstractChainedBatch,
  AbstractSublevel,
  AbstractClearOptions,
  AbstractIteratorOptions,
  AbstractKeyIteratorOptions,
  AbstractValueIteratorOptions
} from 'abstract-level'

/** What a crash may lose of a write: all of it, what a power failure loses, or nothing. */
export type Durability = 'none' | 'buffered' | 'sync'

/** Options of a write. */
export interface DurabilityOptions {
  /** Whether the write survives a power failure once its promise resolves. Default: `false`. */
  sync?: boolean | undefined
  /** The durability of the write. Takes precedence over `sync`. Default: the database's. */
  durability?: Durability | undefined
}

/** Options of a pair. */
export interface TtlOptions {
  /** Time in milliseconds after which the pair does not exist any more. Default: it stays. */
  ttl?: number | undefined
}

/** Options of a read. */
export interface CacheOptions {
  /** Whether blocks that are read may enter the cache. Default: `true`, for iterators `false`. */
  fillCache?: boolean | undefined
}

/** An engine's option, by its name in camelCase or snake_case. `docs/options.md` lists them. */
export interface EngineOptions {
  cacheSize?: number | string | undefined
  writeBufferSize?: number | string | undefined
  memoryBudgetBytes?: number | string | undefined
  compression?: boolean | 'none' | 'lz4' | 'snappy' | 'zstd' | undefined
  durability?: Durability | undefined
  mergeOperator?: string | undefined
  [name: string]: unknown
}

/** A master key: 32 bytes, or 64 hexadecimal digits. */
export type KeyData = string | Uint8Array

/** A key with a name, which is not secret. The bytes must be 32. */
export interface NamedKey {
  key: Uint8Array
  name: string
}

/** Where the key of an encrypted database comes from. */
export interface KeyOptions {
  /**
   * The key: a database that is created with one is encrypted, and opened only with it. A function is
   * called before each opening with the name of the key; `undefined` for a new database.
   */
  key?: KeyData | ((name: string | undefined) => KeyData | NamedKey | Promise<KeyData | NamedKey>) | undefined
  /** A file with the key, which is read at each opening. Nobody else should be able to read it. */
  keyFile?: string | undefined
}

/** What a change of a key did. */
export interface RekeyReport {
  /** Names of the keys before and now. */
  from: string
  to: string
  /** Number of data keys that files still need, and of those that were removed. */
  dataKeys: number
  removedDataKeys: number
}

/** What a database did. The other fields depend on the kind: numbers, texts, `error`, `options`. */
export interface DatabaseEvent {
  /** Such as `opened`, `flush_ended`, `stall_began` or `closed`. */
  kind: string
  /** The event as a sentence. */
  text: string
  error?: EskerError
  options?: Record<string, string>
  [field: string]: unknown
}

/** Options of a runtime. Sizes are numbers of bytes or texts such as `'64MiB'`. */
export interface RuntimeOptions {
  /** Limit on memtables, cache, filters and indexes of all databases. */
  memoryBudgetBytes?: number | string | undefined
  cacheSizeBytes?: number | string | undefined
  cachePolicy?: 's3fifo' | 'sieve' | 'clock' | 'lru' | 'none' | undefined
  threadsMax?: number | undefined
  /** Limit on what flushes and compactions write. Default: 0, no limit. */
  backgroundBytesPerSecond?: number | string | undefined
}

/** What the databases of a runtime use. */
export interface RuntimeMetrics {
  stores: number
  threads: number
  budgetBytes: number
  memtableBytes: number
  memtableLimitBytes: number
  tablesBytes: number
  cacheBytes: number
  cacheCapacityBytes: number
  backgroundBytes: number
}

/** Threads, memory and background writes that databases of one thread of JavaScript share. */
export class Runtime {
  constructor (options?: RuntimeOptions | undefined)
  metrics (): RuntimeMetrics
  /** Frees the runtime, which lives on as long as its databases. */
  close (): void
}

/** Options that say who is told of events, and what is shared. */
export interface ObserveOptions {
  /**
   * Gets each event, later and in order. It keeps no process alive. Beyond 10,000 events that wait for
   * it, events are dropped. What it throws becomes a warning of the process.
   */
  listener?: ((event: DatabaseEvent) => void) | undefined
  /** The runtime that the database shares with others. */
  runtime?: Runtime | undefined
}

export interface OpenOptions extends AbstractOpenOptions, EngineOptions, KeyOptions, ObserveOptions {
  /** Opens the database for reads only. Default: `false`. */
  readOnly?: boolean | undefined
  /**
   * Opens the database together with other threads of the process that do so too. The options of the
   * engine are those of the first opening. Default: `false`.
   */
  shared?: boolean | undefined
}

export interface DatabaseOptions<K, V> extends AbstractDatabaseOptions<K, V>, EngineOptions, KeyOptions, ObserveOptions {
  createIfMissing?: boolean | undefined
  errorIfExists?: boolean | undefined
  readOnly?: boolean | undefined
  shared?: boolean | undefined
}

export interface KeyspaceOptions<K, V> extends AbstractDatabaseOptions<K, V>, TtlOptions {
  createIfMissing?: boolean | undefined
  errorIfExists?: boolean | undefined
  /** Name of a built-in merge operator, such as `add_i64`. */
  mergeOperator?: string | undefined
  [name: string]: unknown
}

export interface GetOptions<K, V> extends AbstractGetOptions<K, V>, CacheOptions {}
export interface GetManyOptions<K, V> extends AbstractGetManyOptions<K, V>, CacheOptions {}
export interface HasOptions<K> extends AbstractHasOptions<K>, CacheOptions {}
export interface HasManyOptions<K> extends AbstractHasManyOptions<K>, CacheOptions {}
export interface PutOptions<K, V> extends AbstractPutOptions<K, V>, DurabilityOptions, TtlOptions {}
export interface DelOptions<K> extends AbstractDelOptions<K>, DurabilityOptions {}
export interface MergeOptions<K, V> extends AbstractPutOptions<K, V>, DurabilityOptions {}
export interface ClearOptions<K> extends AbstractClearOptions<K>, DurabilityOptions {}
export interface BatchOptions<K, V> extends AbstractBatchOptions<K, V>, DurabilityOptions, TtlOptions {}

/** A keyspace, or a sublevel. An operation on one has the types of its keys and values. */
export type Sublevel = Keyspace<any, any> | AbstractSublevel<any, any, any, any>

interface BatchEncodingOptions<K, V> {
  keyEncoding?: GetOptions<K, V>['keyEncoding']
  valueEncoding?: GetOptions<K, V>['valueEncoding']
}

export interface BatchPutOperation<K, V> extends TtlOptions, BatchEncodingOptions<K, V> {
  type: 'put'
  key: K
  value: V
  sublevel?: undefined
}

export interface BatchDelOperation<K> extends BatchEncodingOptions<K, unknown> {
  type: 'del'
  key: K
  sublevel?: undefined
}

/** An operation of a batch: on the database, or on the keyspace or sublevel that it names. */
export type BatchOperation<K, V> =
  | BatchPutOperation<K, V>
  | BatchDelOperation<K>
  | (Omit<BatchPutOperation<any, any>, 'sublevel'> & { sublevel: Sublevel })
  | (Omit<BatchDelOperation<any>, 'sublevel'> & { sublevel: Sublevel })

/** A chained batch. Its operations may have a time to live. */
export interface ChainedBatch<D, K, V> extends AbstractChainedBatch<D, K, V> {
  put (key: K, value: V): this
  put<K1 = K, V1 = V> (key: K1, value: V1, options: BatchEncodingOptions<K1, V1> & TtlOptions & { sublevel?: Sublevel | undefined }): this
  del (key: K): this
  del<K1 = K> (key: K1, options: BatchEncodingOptions<K1, unknown> & { sublevel?: Sublevel | undefined }): this
  write (): Promise<void>
  write (options: DurabilityOptions): Promise<void>
}
export interface IteratorOptions<K, V> extends AbstractIteratorOptions<K, V>, CacheOptions {}
export interface KeyIteratorOptions<K> extends AbstractKeyIteratorOptions<K>, CacheOptions {}
export interface ValueIteratorOptions<K, V> extends AbstractValueIteratorOptions<K, V>, CacheOptions {}

export interface KeyEncodingOptions<K> {
  keyEncoding?: GetOptions<K, unknown>['keyEncoding']
}

type Format = string | Buffer | Uint8Array

/** A source of pairs. */
export type Pairs<K, V> = Iterable<[K, V]> | AsyncIterable<[K, V]>

/** Options of an ingest. */
export interface IngestOptions {
  /** Whether the files stay where they are, and the database gets copies. Default: `false`. */
  copy?: boolean | undefined
  /** Whether each file is read and checked as a whole first. Default: `true`. */
  verify?: boolean | undefined
}

/** What an ingest or a bulk load did. */
export interface IngestReport {
  /** The sequence number of all entries; 0 if there was none. */
  sequence: number
  /** Number of tables, of their entries, and their size in bytes. */
  files: number
  entries: number
  bytes: number
  /** Whether the call waited for a flush of what was written before. */
  flushed: boolean
}

/** One change of a batch. `keyspace` is the name that the keyspace had then. */
export type Change =
  /** With `expires`, until that time in milliseconds since 1970. */
  | { type: 'put', keyspace: string, key: Buffer, value: Buffer, expires: number | undefined }
  | { type: 'merge', keyspace: string, key: Buffer, operand: Buffer }
  | { type: 'delete', keyspace: string, key: Buffer }
  /** The keys from `start` (inclusive) to `end` (exclusive) were deleted. */
  | { type: 'deleteRange', keyspace: string, start: Buffer, end: Buffer }
  | { type: 'clear', keyspace: string }
  | { type: 'keyspaceCreated', keyspace: string, keyOrder: string, options: Record<string, string> }
  | { type: 'keyspaceRenamed', keyspace: string, newName: string }
  | { type: 'keyspaceDropped', keyspace: string }

/**
 * A committed batch, or a part of one: changes that became visible together. The pairs of an ingest or a
 * bulk load come in parts of about 1 MiB; all other batches are whole. A reader applies all parts of a
 * batch or none, and confirms its position after the last part.
 */
export interface ChangeBatch {
  firstSequence: number
  /** Sequence number of the last operation: the position after the batch. */
  sequence: number
  /** Tells batches with the same sequence number apart. Not 0. */
  checksum: bigint
  /** Position before the batch, and the checksum of the batch there; 0 if it is not known. */
  previous: number
  previousChecksum: bigint
  /** Number of this part of the batch, from 0 on. The parts have equal sequence numbers and checksums. */
  part: number
  /** Whether more parts of the same batch follow. */
  continues: boolean
  /** The changes, in order. A key may occur more than once; the last change counts. */
  changes: Change[]
}

/** The change feed of a database. A loop over it ends at the present, and a later loop goes on. */
export class Changes {
  private constructor ()
  /** Sequence number of the last batch of which all parts were returned. */
  get position (): number
  /**
   * Returns the next batch, and waits for it for at most `timeout` milliseconds (default: 0). Returns
   * `undefined` after that time. A close of the feed or the database ends the wait with an error.
   */
  next (timeout?: number): Promise<ChangeBatch | undefined>
  [Symbol.asyncIterator] (): AsyncGenerator<ChangeBatch, void, unknown>
  /** Returns the batches, and waits for further ones until the signal is aborted. Closes the feed. */
  follow (options?: { signal?: AbortSignal | undefined } | undefined): AsyncGenerator<ChangeBatch, void, unknown>
  close (): Promise<void>
}

/** A slot: a durable position in the change feed. The database keeps what was not confirmed. */
export class Slot {
  private constructor ()
  get name (): string
  /** Returns the position that was confirmed last. Rejects if the slot was dropped, with the reason. */
  position (): Promise<number>
  /** Confirms every batch up to a position, durably. Confirm a batch after its last part. */
  confirm (position: number): Promise<void>
  /** Returns the changes after the confirmed position. */
  changes (): Promise<Changes>
  drop (): Promise<void>
}

export interface SlotOptions {
  /**
   * Most bytes of logs that are kept only for slots. A slot that would need more is dropped. Default:
   * 16 GiB. `Infinity`: no limit, so a reader that does not come back fills the device.
   */
  lagLimitBytes?: number | undefined
}

export interface SlotInfo {
  name: string
  position: number
  lagBytes: number
  lagLimitBytes: number
  /** Why the slot keeps no logs any more, as a sentence. */
  problem: string | undefined
}

/** What a fork shares with its parent. */
export interface ForkReport {
  storeId: bigint
  linkedFiles: number
  linkedBytes: number
  copiedFiles: number
  copiedBytes: number
}

/** The identity of a database, and those that it descends from, the parent first. */
export interface Lineage {
  storeId: bigint
  name: string | undefined
  ancestors: Array<{ storeId: bigint, name: string | undefined, sequence: number }>
}

/** A key that is not the same in two databases. */
export interface Difference {
  keyspace: string
  key: Buffer
  /** The values; `undefined` if a database does not have the key. */
  old: Buffer | undefined
  new: Buffer | undefined
  /** The times at which the pairs expire, in milliseconds since 1970. */
  oldExpires: number | undefined
  newExpires: number | undefined
}

/** The differences of two databases. A loop over it closes it. */
export class Diff {
  private constructor ()
  /** How the databases descend from each other: a phrase after "the second is". */
  get relation (): string
  /** Number of tables that both have. If it is 0, every pair is read. */
  get sharedFiles (): number
  get keyspacesOnlyInOld (): string[]
  get keyspacesOnlyInNew (): string[]
  next (): Promise<Difference | undefined>
  [Symbol.asyncIterator] (): AsyncGenerator<Difference, void, unknown>
  close (): Promise<void>
}

export interface DiffOptions {
  /** Name of the only keyspace to compare. Default: all of them. */
  keyspace?: string | undefined
  /** Snapshots of the databases. Default: now. */
  oldSnapshot?: AbstractSnapshot | undefined
  newSnapshot?: AbstractSnapshot | undefined
}

/** Compares two open databases, or snapshots of them. */
export function diff (
  old: EskerLevel<any, any>, now: EskerLevel<any, any>, options?: DiffOptions | undefined
): Promise<Diff>

/** What a database and a keyspace have in common. */
declare class Part<K = string, V = string> extends AbstractLevel<Format, K, V> {
  get (key: K): Promise<V | undefined>
  get<K1 = K, V1 = V> (key: K1, options: GetOptions<K1, V1>): Promise<V1 | undefined>
  getSync (key: K): V | undefined
  getSync<K1 = K, V1 = V> (key: K1, options: GetOptions<K1, V1>): V1 | undefined
  getMany (keys: K[]): Promise<Array<V | undefined>>
  getMany<K1 = K, V1 = V> (keys: K1[], options: GetManyOptions<K1, V1>): Promise<Array<V1 | undefined>>
  has (key: K): Promise<boolean>
  has<K1 = K> (key: K1, options: HasOptions<K1>): Promise<boolean>
  hasMany (keys: K[]): Promise<boolean[]>
  hasMany<K1 = K> (keys: K1[], options: HasManyOptions<K1>): Promise<boolean[]>
  put (key: K, value: V): Promise<void>
  put<K1 = K, V1 = V> (key: K1, value: V1, options: PutOptions<K1, V1>): Promise<void>
  del (key: K): Promise<void>
  del<K1 = K> (key: K1, options: DelOptions<K1>): Promise<void>
  batch (operations: Array<BatchOperation<K, V>>): Promise<void>
  batch<K1 = K, V1 = V> (operations: Array<BatchOperation<K1, V1>>, options: BatchOptions<K1, V1>): Promise<void>
  batch (): ChainedBatch<this, K, V>
  clear (): Promise<void>
  clear<K1 = K> (options: ClearOptions<K1>): Promise<void>
  snapshot (): AbstractSnapshot

  /** Merges an operand into a value, by the merge operator of the database or keyspace. */
  merge (key: K, operand: V): Promise<void>
  merge<K1 = K, V1 = V> (key: K1, operand: V1, options: MergeOptions<K1, V1>): Promise<void>
  /** Deletes a key and returns whether it existed: of several callers, one gets `true`. */
  remove (key: K): Promise<boolean>
  remove<K1 = K> (key: K1, options: KeyEncodingOptions<K1>): Promise<boolean>
  /** Gives a pair a new time to live, in milliseconds. Returns whether there is such a pair. */
  touch (key: K, ttl: number): Promise<boolean>
  touch<K1 = K> (key: K1, ttl: number, options: KeyEncodingOptions<K1>): Promise<boolean>
  /**
   * Returns the time at which a pair expires, in milliseconds since 1970: `Infinity` if it stays,
   * `undefined` if there is no such pair.
   */
  expiry (key: K): Promise<number | undefined>
  expiry<K1 = K> (key: K1, options: KeyEncodingOptions<K1>): Promise<number | undefined>
  /** Returns about how many bytes of files hold the keys from `start` to `end`. */
  approximateSize (start: K, end: K): Promise<number>
  approximateSize<K1 = K> (start: K1, end: K1, options: KeyEncodingOptions<K1>): Promise<number>
  /** Compacts the keys from `start` to `end`, and waits for it. */
  compactRange (start: K, end: K): Promise<void>
  compactRange<K1 = K> (start: K1, end: K1, options: KeyEncodingOptions<K1>): Promise<void>
  /** Makes sorted files part of the keyspace, all of them at once. The database takes the files. */
  ingest (files: string[], options?: IngestOptions | undefined): Promise<IngestReport>
  /**
   * Writes pairs as tables, without the log and the memtable. Their keys must be strictly ascending.
   * They become visible and durable together; after an error of the source nothing is loaded.
   */
  bulkLoad (pairs: Pairs<K, V>): Promise<IngestReport>
  bulkLoad<K1 = K, V1 = V> (pairs: Pairs<K1, V1>, options: BatchEncodingOptions<K1, V1>): Promise<IngestReport>
}

/** A keyspace: an ordered map of its own within a database. */
export class Keyspace<K = string, V = string> extends Part<K, V> {
  private constructor ()
  get name (): string
  get db (): EskerLevel<any, any>
}

/** Options of a transaction. */
export interface TransactionOptions<K = string, V = string> extends DurabilityOptions {
  /** `serializable` also protects what was read. Default: `snapshot`. */
  isolation?: 'snapshot' | 'serializable' | undefined
  /** `pessimistic` waits for locks instead of failing at the commit. Default: `optimistic`. */
  concurrency?: 'optimistic' | 'pessimistic' | undefined
  /** Longest wait for one lock, in milliseconds. Default: 1000. */
  lockTimeout?: number | undefined
  keyEncoding?: GetOptions<K, V>['keyEncoding']
  valueEncoding?: GetOptions<K, V>['valueEncoding']
}

/** Options of `transact`. */
export interface TransactOptions<K = string, V = string> extends TransactionOptions<K, V> {
  /** Most runs of the function. Default: 100. */
  attempts?: number | undefined
}

/** The keys of one keyspace, as a transaction reads and writes them. */
export class TransactionPart<K = string, V = string> extends AbstractLevel<Format, K, V> {
  protected constructor ()
  put (key: K, value: V): Promise<void>
  put<K1 = K, V1 = V> (key: K1, value: V1, options: PutOptions<K1, V1>): Promise<void>
  /** Reads a value, and protects the key as a write of it would. */
  getForUpdate (key: K): Promise<V | undefined>
  getForUpdate<K1 = K, V1 = V> (key: K1, options: GetOptions<K1, V1>): Promise<V1 | undefined>
  merge (key: K, operand: V): Promise<void>
  merge<K1 = K, V1 = V> (key: K1, operand: V1, options: MergeOptions<K1, V1>): Promise<void>
}

/** Reads and writes that take effect together, at one moment, or not at all. */
export class Transaction<K = string, V = string> extends TransactionPart<K, V> {
  private constructor ()
  get db (): EskerLevel<any, any>
  /** Returns the transaction over a keyspace of its database. */
  in<K1, V1> (keyspace: Keyspace<K1, V1>): TransactionPart<K1, V1>
  /** Makes the writes visible and durable. Rejects with the code `ESKER_CONFLICT` after a conflict. */
  commit (): Promise<void>
  /** Ends the transaction without its writes. So does `close`. */
  rollback (): Promise<void>
  /** Checks and stores the transaction under a name, for `commitPrepared` or `rollbackPrepared`. */
  prepare (name: string): Promise<void>
  savepoint (): Promise<void>
  rollbackToSavepoint (): Promise<void>
  popSavepoint (): Promise<void>
}

/** How far a follower is behind. Positions are sequence numbers, as in the change feed. */
export interface FollowerLag {
  /** The last operation that the newest view shows, and the last one that the database has. */
  position: number
  newest: number
  /** Number of sequence numbers between them. */
  operations: number
  /** Time since the begin of the last catch-up that did not fail, in milliseconds. */
  age: number
  /** Why the last catch-up failed, as a sentence. */
  error: string | undefined
}

/** Encodings of a view or a promoted database. Default: those of `follow`. */
export interface ViewOptions<K, V> {
  keyEncoding?: GetOptions<K, V>['keyEncoding']
  valueEncoding?: GetOptions<K, V>['valueEncoding']
}

/**
 * A read replica of a database that another process writes, from `EskerLevel.follow`. It writes nothing,
 * and never makes the writer wait.
 */
export class Follower {
  private constructor ()
  get location (): string
  /** Position of the newest view. */
  get position (): number
  /**
   * Returns the newest view: an open database that never changes and accepts no writes. Take it once for
   * each request, and close it.
   */
  db<K = string, V = string> (options?: ViewOptions<K, V> | undefined): Promise<EskerLevel<K, V>>
  /** Makes the newest view show what the database has now. Returns its position. */
  catchUp (): Promise<number>
  /** Lets a thread catch up whenever so many milliseconds have passed. */
  catchUpEvery (interval: number): void
  /**
   * Waits until the newest view shows a position, at most `timeout` milliseconds (default: for ever).
   * Returns whether it does. A close ends the wait with an error.
   */
  waitFor (position: number, timeout?: number): Promise<boolean>
  lag (): Promise<FollowerLag>
  /** Opens the database for writing, when its writer has ended. `LEVEL_LOCKED` while it lives. */
  promote<K = string, V = string> (options?: ViewOptions<K, V> | undefined): Promise<EskerLevel<K, V>>
  /** Ends its thread and its waits. Views and promoted databases stay open. */
  close (): Promise<void>
}

/** A database. */
export class EskerLevel<K = string, V = string> extends Part<K, V> {
  /**
   * @param location Directory of the database.
   * @param options Options, which are also those of `open`.
   */
  constructor (location: string, options?: DatabaseOptions<K, V> | undefined)

  get location (): string
  open (): Promise<void>
  open (options: OpenOptions): Promise<void>

  /** Returns a keyspace, which opens with the database and is created if it is missing. */
  keyspace<K1 = string, V1 = string> (name: string, options?: KeyspaceOptions<K1, V1> | undefined): Keyspace<K1, V1>
  /** Returns the names of all keyspaces, with `default`. */
  keyspaces (): Promise<string[]>
  dropKeyspace (name: string): Promise<void>
  renameKeyspace (name: string, newName: string): Promise<void>

  /** Begins a transaction. The database must be open. */
  transaction<K1 = K, V1 = V> (options?: TransactionOptions<K1, V1> | undefined): Transaction<K1, V1>
  /** Runs a function in a transaction and commits it. Runs it again after a conflict. */
  transact<R, K1 = K, V1 = V> (
    work: (transaction: Transaction<K1, V1>) => Promise<R> | R,
    options?: TransactOptions<K1, V1> | undefined
  ): Promise<R>
  preparedTransactions (): Promise<string[]>
  commitPrepared (name: string): Promise<void>
  rollbackPrepared (name: string): Promise<void>

  /** Returns the change feed after a position; 0, the default, for all that the logs still have. */
  changes (from?: number): Promise<Changes>
  /** Opens a slot, and creates it at the present if it does not exist. */
  subscribe (name: string, options?: SlotOptions | undefined): Promise<Slot>
  /** Opens a slot. Rejects with `ESKER_NOT_FOUND` if there is none. */
  slot (name: string): Promise<Slot>
  slots (): Promise<SlotInfo[]>
  dropSlot (name: string): Promise<void>
  /** Takes a snapshot with its position in the change feed: it has every batch up to it. */
  snapshotWithPosition (): Promise<{ snapshot: AbstractSnapshot, position: number }>
  /** Creates a database of its own that begins with the content of this one, by hard links. */
  fork (directory: string, options?: { name?: string | undefined } | undefined): Promise<ForkReport>
  lineage (): Promise<Lineage>

  flush (): Promise<void>
  sync (): Promise<void>
  waitIdle (): Promise<void>
  compactAll (): Promise<void>
  /** Makes a copy of the database in a new directory. */
  checkpoint (directory: string): Promise<void>
  /**
   * Raises the format version: 2 is the newest one. A database keeps the version with which it was
   * created (option `format_version`), and earlier releases can open it, until this is called.
   * Afterwards they refuse it. The version cannot be lowered.
   */
  upgradeFormat (to: number): Promise<void>
  /** Makes a backup. Returns its number. */
  backup (directory: string, options?: { takeOver?: boolean | undefined } | undefined): Promise<number>
  /** Reads and checks every byte. Returns the problems, one sentence each. */
  verify (): Promise<string[]>

  /** Returns the metrics in OpenMetrics' text format. */
  openmetrics (): string
  /** Returns a property of LevelDB's, such as `leveldb.stats`. */
  getProperty (property: string): string | undefined
  option (name: string): string | undefined
  setOption (name: string, value: string | number | boolean): void

  /** Follows a database that another process, or this one, writes. */
  static follow (
    location: string,
    options?: (EngineOptions & KeyOptions & ViewOptions<any, any> & { runtime?: Runtime | undefined }) | undefined
  ): Promise<Follower>
  /**
   * Changes the key of a database that is not open. Only the file `KEYS` is written. The tables keep their
   * data keys until `compactAll` rewrites them. Copies keep the key of their time.
   */
  static rekey (location: string, options: KeyOptions, next: KeyOptions): Promise<RekeyReport>
  static destroy (location: string): Promise<void>
  /** Rebuilds a damaged database. Returns what was lost, one sentence each. */
  static repair (location: string, options?: (EngineOptions & KeyOptions) | undefined): Promise<string[]>
  static backups (directory: string, options?: KeyOptions | undefined): Promise<number[]>
  static pruneBackups (directory: string, keep: number, options?: KeyOptions | undefined): Promise<number[]>
  static restore (
    directory: string,
    into: string,
    options?: (EngineOptions & KeyOptions & { number?: number | undefined }) | undefined
  ): Promise<void>
  /** Writes pairs, in ascending order of keys, to a new file for `ingest`. */
  static writeSorted (
    file: string, pairs: Pairs<Format, Format>, options?: EngineOptions | undefined
  ): Promise<{ path: string, entries: number, bytes: number }>
  /** Returns the names of all options of the engine. */
  static options (): string[]
}

/** An error of the engine. */
export interface EskerError extends Error {
  /**
   * `LEVEL_LOCKED`, `LEVEL_CORRUPTION`, `LEVEL_IO_ERROR`, `LEVEL_DATABASE_NOT_OPEN`,
   * `ESKER_INVALID_ARGUMENT`, `ESKER_NOT_FOUND`, `ESKER_NO_SPACE`, `ESKER_INCOMPATIBLE`,
   * `ESKER_READ_ONLY`, `ESKER_CONFLICT`, `ESKER_BUSY`, `ESKER_DEADLOCK` or `ESKER_INTERNAL`.
   */
  code: string
  /** The kind of the error, as in every language that Esker has. */
  kind?: string
  /** The operating system's error number, if it refused something. */
  errno?: number
  /** The file or directory, if one is involved. */
  path?: string
}
