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

export interface OpenOptions extends AbstractOpenOptions, EngineOptions {
  /** Opens the database for reads only. Default: `false`. */
  readOnly?: boolean | undefined
  /**
   * Opens the database together with other threads of the process that do so too. The options of the
   * engine are those of the first opening. Default: `false`.
   */
  shared?: boolean | undefined
}

export interface DatabaseOptions<K, V> extends AbstractDatabaseOptions<K, V>, EngineOptions {
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

  flush (): Promise<void>
  sync (): Promise<void>
  waitIdle (): Promise<void>
  compactAll (): Promise<void>
  /** Makes a copy of the database in a new directory. */
  checkpoint (directory: string): Promise<void>
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

  static destroy (location: string): Promise<void>
  /** Rebuilds a damaged database. Returns what was lost, one sentence each. */
  static repair (location: string, options?: EngineOptions | undefined): Promise<string[]>
  static backups (directory: string): Promise<number[]>
  static pruneBackups (directory: string, keep: number): Promise<number[]>
  static restore (
    directory: string,
    into: string,
    options?: (EngineOptions & { number?: number | undefined }) | undefined
  ): Promise<void>
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
