// The types of esker-level. `test/types.ts` is checked against them.

import { Readable } from 'node:stream'
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
  /**
   * Whether the write survives a power failure once its promise resolves. Default: `false`, which leaves
   * that to the database.
   */
  sync?: boolean | undefined
  /** The durability of the write. Takes precedence over `sync`. Default: the database's. */
  durability?: Durability | undefined
}

/** How long a write may wait. */
export interface WaitOptions {
  /**
   * Most milliseconds for which the write waits for memory, for the write throttle and for earlier writes.
   * Then it rejects with `ESKER_BUSY`, and nothing was written. A write that has begun, and its sync, are
   * not cut short. Default: it waits as long as is needed.
   */
  timeout?: number | undefined
}

/** Options of a pair. */
export interface TtlOptions {
  /**
   * Time in milliseconds after which the pair does not exist any more. Default: it stays, unless its
   * keyspace has a time to live.
   */
  ttl?: number | undefined
}

/** Options of a read. */
export interface CacheOptions {
  /** Whether blocks that are read may enter the cache. Default: `true`, for iterators `false`. */
  fillCache?: boolean | undefined
}

/**
 * An engine's option, by its name in camelCase or snake_case. `docs/options.md` lists them. Sizes are
 * numbers of bytes or texts such as `'64MiB'`.
 */
export interface EngineOptions {
  /** Size of the block cache: 0 to 1 TiB. Default: half of the memory budget. */
  cacheSize?: number | string | undefined
  /**
   * Size at which a memtable is flushed: 4 KiB to 4 GiB. Default: 64 MiB, but at most an eighth of the
   * memory budget.
   */
  writeBufferSize?: number | string | undefined
  /**
   * Limit on memtables, block cache, filters and indexes together: 1 MiB to 1 TiB. Default: a quarter of
   * the memory that the process can have, 4 MiB to 1 GiB; more if memtables and cache are set larger.
   */
  memoryBudgetBytes?: number | string | undefined
  /** Compression of data blocks. `false` is `'none'`. Default, and `true`: `'lz4'`. */
  compression?: boolean | 'none' | 'lz4' | 'snappy' | 'zstd' | undefined
  /** Durability of the writes that do not set their own. Default: `'buffered'`. */
  durability?: Durability | undefined
  /**
   * Name of a built-in merge operator: `add_i64`, `add_u64`, `max`, `min`, `append` or `set_union`.
   * `append(,)` and `set_union(,)` separate by a comma. The database keeps the name, and opens with no
   * other operator. Default: the name that it keeps; without one, `merge` rejects.
   */
  mergeOperator?: string | undefined
  [name: string]: unknown
}

/** A master key: 32 bytes, or 64 hexadecimal digits. */
export type KeyData = string | Uint8Array

/** A key with a name, which is not secret. */
export interface NamedKey {
  /** The secret key. */
  key: KeyData
  /** 1 to 64 bytes of UTF-8 without control characters. The file `KEYS` and messages show the name. */
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
  /** Name of the key before. */
  from: string
  /** Name of the key now. */
  to: string
  /** Number of data keys that files still need, without the new one. */
  dataKeys: number
  /** Number of data keys that no file needed, and that were removed. */
  removedDataKeys: number
}

/** What a database did. The other fields depend on the kind: numbers, texts, `error`, `options`. */
export interface DatabaseEvent {
  /** Such as `opened`, `flush_ended`, `stall_began` or `closed`. */
  kind: string
  /** The event as a sentence. */
  text: string
  /**
   * The failure: in `background_error` and `scrub_problem`, and in `flush_ended`, `compaction_ended` and
   * `closed` if that failed.
   */
  error?: EskerError
  /** In `opened`: the options that differ from their defaults, by the engine's names. */
  options?: Record<string, string>
  [field: string]: unknown
}

/** Options of a runtime. Sizes are numbers of bytes or texts such as `'64MiB'`. */
export interface RuntimeOptions {
  /**
   * Limit on memtables, cache, filters and indexes of all databases: 1 MiB to 1 TiB. Default: a quarter of
   * the memory that the process can have, 4 MiB to 1 GiB.
   */
  memoryBudgetBytes?: number | string | undefined
  /** Maximum size of the block cache: 0 to the memory budget. Default: half of the memory budget. */
  cacheSizeBytes?: number | string | undefined
  /** Replacement policy of the block cache. `'none'` caches no block. Default: `'s3fifo'`. */
  cachePolicy?: 's3fifo' | 'sieve' | 'clock' | 'lru' | 'none' | undefined
  /** Maximum number of worker threads: 3 to 256. Default: the number of cores plus one, at least 3. */
  threadsMax?: number | undefined
  /** Limit on what flushes and compactions write: 64 KiB or more. Default: 0, no limit. */
  backgroundBytesPerSecond?: number | string | undefined
}

/** What the databases of a runtime use. */
export interface RuntimeMetrics {
  /** Number of open databases with background work. */
  stores: number
  /** Number of worker threads that were started. */
  threads: number
  /** The memory budget, in bytes. */
  budgetBytes: number
  /** Bytes of memtables, active and immutable, without those of databases whose flushes fail. */
  memtableBytes: number
  /** Bytes of memtables at which writes wait. */
  memtableLimitBytes: number
  /** Bytes of the indexes, filters and range tombstones of open tables. */
  tablesBytes: number
  /** Bytes of blocks in the cache. */
  cacheBytes: number
  /** Current capacity of the cache, in bytes. */
  cacheCapacityBytes: number
  /** Bytes that flushes and compactions have written since the runtime was made. */
  backgroundBytes: number
}

/** Threads, memory and background writes that databases of one thread of JavaScript share. */
export class Runtime {
  /** Throws `ESKER_INVALID_ARGUMENT` for an unknown option, and for a value out of its range. */
  constructor (options?: RuntimeOptions | undefined)
  /** Returns what its databases use now. Throws `ESKER_INVALID_ARGUMENT` after `close`. */
  metrics (): RuntimeMetrics
  /** Frees the runtime, which lives on as long as its databases. */
  close (): void
}

/** Options that say who is told of events, and what is shared. */
export interface ObserveOptions {
  /**
   * Gets each event, later and in order. It keeps no process alive. Events are dropped while 4,096 wait
   * in the engine, or 10,000 wait for the thread of JavaScript. What it throws becomes a warning of the
   * process.
   */
  listener?: ((event: DatabaseEvent) => void) | undefined
  /** The runtime that the database shares with others. */
  runtime?: Runtime | undefined
}

/** Options of `open`. They take precedence over those of the constructor. */
export interface OpenOptions extends AbstractOpenOptions, EngineOptions, KeyOptions, ObserveOptions {
  /** Opens the database for reads only. Default: `false`. */
  readOnly?: boolean | undefined
  /**
   * Opens the database together with other threads of the process that do so too. The options of the
   * engine are those of the first opening. Not together with `readOnly`. Default: `false`.
   */
  shared?: boolean | undefined
}

/** Options of a database: its encodings, and the options of each of its openings. */
export interface DatabaseOptions<K, V> extends AbstractDatabaseOptions<K, V>, EngineOptions, KeyOptions, ObserveOptions {
  /** Whether an opening creates the database, and the directories above it, if missing. Default: `true`. */
  createIfMissing?: boolean | undefined
  /** Whether an opening fails if the database exists. Default: `false`. */
  errorIfExists?: boolean | undefined
  /** Opens the database for reads only, also beside a writer: its state of the moment. Default: `false`. */
  readOnly?: boolean | undefined
  /**
   * Opens the database together with other threads of the process that do so too. The options of the
   * engine are those of the first opening. Not together with `readOnly`. Default: `false`.
   */
  shared?: boolean | undefined
}

/**
 * Options of a keyspace: its encodings, and the engine's options that `docs/options.md` calls "per
 * keyspace". The database keeps the latter. Those that are not set are the database's. A keyspace that
 * exists is opened as it is if none of the latter is given. Otherwise those given must be all that it has,
 * or its opening fails: the `cause` of the error has the code `ESKER_INVALID_ARGUMENT`.
 */
export interface KeyspaceOptions<K, V> extends AbstractDatabaseOptions<K, V>, TtlOptions {
  /** Whether an opening creates the keyspace if it is missing. Default: `true`. */
  createIfMissing?: boolean | undefined
  /** Whether an opening fails if the keyspace exists. Default: `false`. */
  errorIfExists?: boolean | undefined
  /** Name of a built-in merge operator, such as `add_i64`. */
  mergeOperator?: string | undefined
  [name: string]: unknown
}

/** Options of `get` and `getSync`. */
export interface GetOptions<K, V> extends AbstractGetOptions<K, V>, CacheOptions {}
/** Options of `getMany`. */
export interface GetManyOptions<K, V> extends AbstractGetManyOptions<K, V>, CacheOptions {}
/** Options of `has`. */
export interface HasOptions<K> extends AbstractHasOptions<K>, CacheOptions {}
/** Options of `hasMany`. */
export interface HasManyOptions<K> extends AbstractHasManyOptions<K>, CacheOptions {}
/** Options of `put`. */
export interface PutOptions<K, V> extends AbstractPutOptions<K, V>, DurabilityOptions, WaitOptions, TtlOptions {}
/** Options of `del`. */
export interface DelOptions<K> extends AbstractDelOptions<K>, DurabilityOptions, WaitOptions {}
/** Options of `merge`. */
export interface MergeOptions<K, V> extends AbstractPutOptions<K, V>, DurabilityOptions, WaitOptions {}
/** Options of `clear`. A range and a limit select the keys. */
export interface ClearOptions<K> extends AbstractClearOptions<K>, DurabilityOptions {}
/** Options of a batch. The encodings and `ttl` are those of operations without their own. */
export interface BatchOptions<K, V> extends AbstractBatchOptions<K, V>, DurabilityOptions, WaitOptions, TtlOptions {}

/** A keyspace, or a sublevel. An operation on one has the types of its keys and values. */
export type Sublevel = Keyspace<any, any> | AbstractSublevel<any, any, any, any>

/** Encodings of an operation of a batch, or of a bulk load. */
interface BatchEncodingOptions<K, V> {
  /** Encoding of keys. Default: that of the batch, else that of the database, keyspace or sublevel. */
  keyEncoding?: GetOptions<K, V>['keyEncoding']
  /** Encoding of values. Default: that of the batch, else that of the database, keyspace or sublevel. */
  valueEncoding?: GetOptions<K, V>['valueEncoding']
}

/** An operation of a batch that sets a key to a value. */
export interface BatchPutOperation<K, V> extends TtlOptions, BatchEncodingOptions<K, V> {
  /** The operation: a put. */
  type: 'put'
  /** The key, of up to 1 MiB when it is encoded. */
  key: K
  /** The value, of up to 1 GiB when it is encoded. */
  value: V
  /** Not set: the operation is on the database or keyspace of the batch. */
  sublevel?: undefined
}

/** An operation of a batch that deletes a key. A missing key is no error. */
export interface BatchDelOperation<K> extends BatchEncodingOptions<K, unknown> {
  /** The operation: a deletion. */
  type: 'del'
  /** The key, of up to 1 MiB when it is encoded. */
  key: K
  /** Not set: the operation is on the database or keyspace of the batch. */
  sublevel?: undefined
}

/** An operation of a batch that merges an operand into a value. Hooks and events do not get it. */
export interface BatchMergeOperation<K, V> extends BatchEncodingOptions<K, V> {
  /** The operation: a merge. */
  type: 'merge'
  /** The key, of up to 1 MiB when it is encoded. */
  key: K
  /** The operand, for the merge operator of the database or keyspace. */
  operand: V
  /** Not set: the operation is on the database or keyspace of the batch. */
  sublevel?: undefined
}

/** An operation of a batch that deletes a range of keys. Hooks and events do not get it. */
export interface BatchDeleteRangeOperation<K> extends BatchEncodingOptions<K, unknown> {
  /** The operation: a range deletion. */
  type: 'deleteRange'
  /** The first key of the range, which need not exist. */
  start: K
  /** The first key after the range, which need not exist. */
  end: K
  /** Not set: the operation is on the database or keyspace of the batch. */
  sublevel?: undefined
}

/** An operation of a batch: on the database, or on the keyspace or sublevel that it names. */
export type BatchOperation<K, V> =
  | BatchPutOperation<K, V>
  | BatchDelOperation<K>
  | BatchMergeOperation<K, V>
  | BatchDeleteRangeOperation<K>
  | (Omit<BatchMergeOperation<any, any>, 'sublevel'> & {
    /** The keyspace or sublevel of the key. A keyspace must be open. */
    sublevel: Sublevel
  })
  | (Omit<BatchDeleteRangeOperation<any>, 'sublevel'> & {
    /** The keyspace or sublevel of the keys. A keyspace must be open. */
    sublevel: Sublevel
  })
  | (Omit<BatchPutOperation<any, any>, 'sublevel'> & {
    /** The keyspace or sublevel of the pair. A keyspace must be open. */
    sublevel: Sublevel
  })
  | (Omit<BatchDelOperation<any>, 'sublevel'> & {
    /** The keyspace or sublevel of the key. A keyspace must be open. */
    sublevel: Sublevel
  })

/** A chained batch of a transaction. Its operations may have a time to live. */
export interface TransactionChainedBatch<D, K, V> extends AbstractChainedBatch<D, K, V> {
  put (key: K, value: V): this
  put<K1 = K, V1 = V> (key: K1, value: V1, options: BatchEncodingOptions<K1, V1> & TtlOptions & { sublevel?: Sublevel | undefined }): this
  del (key: K): this
  del<K1 = K> (key: K1, options: BatchEncodingOptions<K1, unknown> & { sublevel?: Sublevel | undefined }): this
  /** Does all operations of the batch, as writes of the transaction, or none. */
  write (): Promise<void>
}

/** A chained batch. Its operations may have a time to live. */
export interface ChainedBatch<D, K, V> extends TransactionChainedBatch<D, K, V> {
  /** Applies all operations of the batch, as `batch` does, or none. */
  write (): Promise<void>
  write (options: DurabilityOptions & WaitOptions): Promise<void>
}
/** Options of `iterator`. */
export interface IteratorOptions<K, V> extends AbstractIteratorOptions<K, V>, CacheOptions {}
/** Options of `keys`. */
export interface KeyIteratorOptions<K> extends AbstractKeyIteratorOptions<K>, CacheOptions {}
/** Options of `values`. */
export interface ValueIteratorOptions<K, V> extends AbstractValueIteratorOptions<K, V>, CacheOptions {}

/** Options of a call that takes keys and no values. */
export interface KeyEncodingOptions<K> {
  /** Encoding of the keys. Default: that of the database or keyspace. */
  keyEncoding?: GetOptions<K, unknown>['keyEncoding']
}

/** An encoded key or value: a text, which is stored as UTF-8, or bytes. */
type Format = string | Buffer | Uint8Array

/** A source of pairs. */
export type Pairs<K, V> = Iterable<[K, V]> | AsyncIterable<[K, V]>

/** A source of bytes: bytes, a text, or an iterable of these, such as a stream of Node.js. */
export type ByteSource = Format | Iterable<Format> | AsyncIterable<Format>

/** Options of `getStream`. */
export interface GetStreamOptions<K> extends KeyEncodingOptions<K> {
  /** Offset of the first byte. Default: 0. */
  start?: number | undefined
  /** Offset of the last byte, as in `fs.createReadStream`. Default: the end of the value. */
  end?: number | undefined
  /** Bytes that are read at once. Default: 256 KiB. */
  highWaterMark?: number | undefined
}

/**
 * A value as a stream of bytes, from `getStream`: in the version of that moment, whatever is written later,
 * also after the database was closed. A damaged value is an error of the stream.
 */
export class ValueStream extends Readable {
  private constructor ()
  /** Length of the whole value, in bytes. */
  get valueBytes (): number
}

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
  /** Number of tables that were installed. */
  files: number
  /** Number of entries in these tables. */
  entries: number
  /** Size of these tables, in bytes. */
  bytes: number
  /** Whether the call waited for a flush of what was written before. */
  flushed: boolean
}

/**
 * One change of a batch. `keyspaceCreated`, `keyspaceRenamed` and `keyspaceDropped` appear while the
 * database has a slot.
 */
export type Change =
  | {
    /** A key was set to a value. */
    type: 'put'
    /** Name that the keyspace had then. */
    keyspace: string
    /** Bytes of the key. */
    key: Buffer
    /** Bytes of the value. */
    value: Buffer
    /** Time at which the pair expires, in milliseconds since 1970; `undefined` if it does not. */
    expires: number | undefined
  }
  | {
    /** An operand was merged into the value of a key. */
    type: 'merge'
    /** Name that the keyspace had then. */
    keyspace: string
    /** Bytes of the key. */
    key: Buffer
    /** Bytes of the operand, without the value that it was merged into. */
    operand: Buffer
  }
  | {
    /** A key was deleted. It may not have existed. */
    type: 'delete'
    /** Name that the keyspace had then. */
    keyspace: string
    /** Bytes of the key. */
    key: Buffer
  }
  | {
    /** The keys from `start` (inclusive) to `end` (exclusive) were deleted. */
    type: 'deleteRange'
    /** Name that the keyspace had then. */
    keyspace: string
    /** Bytes of the first key of the range, which need not exist. */
    start: Buffer
    /** Bytes of the first key after the range, which need not exist. */
    end: Buffer
  }
  | {
    /** All keys of the keyspace were deleted. */
    type: 'clear'
    /** Name that the keyspace had then. */
    keyspace: string
  }
  | {
    /** The keyspace was created. */
    type: 'keyspaceCreated'
    /** Name that the keyspace had then. */
    keyspace: string
    /** Name of its key order, such as `esker.bytewise`. */
    keyOrder: string
    /** Its own options, by the engine's names. */
    options: Record<string, string>
  }
  | {
    /** The keyspace got another name. */
    type: 'keyspaceRenamed'
    /** Name that the keyspace had then. */
    keyspace: string
    /** Name that the keyspace has from then on. */
    newName: string
  }
  | {
    /** The keyspace was dropped with all its keys. */
    type: 'keyspaceDropped'
    /** Name that the keyspace had then. */
    keyspace: string
  }

/**
 * A committed batch, or a part of one: changes that became visible together. The pairs of an ingest or a
 * bulk load come in parts of about 1 MiB; all other batches are whole. A reader applies all parts of a
 * batch or none, and confirms its position after the last part.
 */
export interface ChangeBatch {
  /** Sequence number of the first operation. */
  firstSequence: number
  /** Sequence number of the last operation: the position after the batch. */
  sequence: number
  /** Tells batches with the same sequence number apart. Not 0. */
  checksum: bigint
  /** Position before the batch. */
  previous: number
  /** Checksum of the batch that ends at `previous`; 0 if it is not known. */
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
  /** Returns the batches up to the present, as `next` does. Does not close the feed. */
  [Symbol.asyncIterator] (): AsyncGenerator<ChangeBatch, void, unknown>
  /** Returns the batches, and waits for further ones until the signal is aborted. Closes the feed. */
  follow (options?: { signal?: AbortSignal | undefined } | undefined): AsyncGenerator<ChangeBatch, void, unknown>
  /**
   * Ends the feed. A slot keeps its position. Waiting and later calls of `next` reject with
   * `LEVEL_DATABASE_NOT_OPEN`.
   */
  close (): Promise<void>
  /** Does the same as `close`. */
  [Symbol.asyncDispose] (): Promise<void>
}

/** Options of a stream of changes as bytes. */
export interface ChangeStreamOptions {
  /** Name of the slot after whose confirmed position the changes begin. The stream confirms nothing. */
  slot?: string | undefined
  /** Position after which the changes begin. Default: 0. Does not count with `slot` or `content`. */
  from?: number | undefined
  /**
   * Whether the whole content of the database comes first, for a receiver that has nothing of it. A slot
   * must exist, so that the changes after it are kept. Default: `false`.
   */
  content?: boolean | undefined
  /** Whether the stream goes on at the present, and waits for further changes. Default: `false`. */
  follow?: boolean | undefined
  /** Milliseconds without a change after which the sender says that it is alive. Default: 10,000. */
  alive?: number | undefined
  /** Ends a stream that follows, with its end. */
  signal?: AbortSignal | undefined
}

/** What an applier has applied. */
export interface AppliedItem {
  /**
   * A batch or a part of one; a sign that the sender is alive; a part of the content, or its end; the end of
   * the stream; or something that this version does not know.
   */
  type: 'batch' | 'alive' | 'content' | 'contentEnd' | 'end' | 'other'
  /** The position that the item is about, in the feed of the sender; 0 for content before its end. */
  position: number
}

/** Applies a stream of changes, from `applyChanges`. */
export class Applier {
  private constructor ()
  /** Returns the identity of the database whose changes the stream has. */
  source (): Promise<bigint>
  /**
   * States that the database has the content of the source at a position, because it is a copy of it.
   * Rejects with `ESKER_INVALID_ARGUMENT` if it has applied changes already.
   */
  startAt (position: number): Promise<void>
  /**
   * Reads the next item and applies it. A batch that the database has is left out. Rejects with
   * `LEVEL_CORRUPTION` if the bytes are damaged, with `LEVEL_IO_ERROR` if they end before the end of the
   * stream, with `ESKER_INCOMPATIBLE` if the database has applied the changes of another one or is the
   * source itself, with `ESKER_INVALID_ARGUMENT` if the item does not follow what the database has, and with
   * the error of the source. The item was not applied then: begin a new stream at `appliedPosition`.
   */
  next (): Promise<AppliedItem>
  /** Applies the items up to the end of the stream. Closes the applier at the end of the loop. */
  [Symbol.asyncIterator] (): AsyncGenerator<AppliedItem, void, unknown>
  /** Ends the stream, and destroys a source that is a stream of Node.js. What was applied stays. */
  close (): Promise<void>
  /** Does the same as `close`. */
  [Symbol.asyncDispose] (): Promise<void>
}

/** A slot: a durable position in the change feed. The database keeps what was not confirmed. */
export class Slot {
  private constructor ()
  /** Name of the slot: 1 to 64 letters, digits, `-` and `_`. */
  get name (): string
  /** Returns the position that was confirmed last. Rejects if the slot was dropped, with the reason. */
  position (): Promise<number>
  /** Confirms every batch up to a position, durably. Confirm a batch after its last part. */
  confirm (position: number): Promise<void>
  /** Returns the changes after the confirmed position. */
  changes (): Promise<Changes>
  /** Removes the slot, and the logs that only it needed. Rejects with `ESKER_NOT_FOUND` if it is gone. */
  drop (): Promise<void>
}

/** Options of a slot that is created. An existing one keeps its own. */
export interface SlotOptions {
  /**
   * Most bytes of logs that are kept only for slots. A slot that would need more is dropped. Default:
   * 16 GiB. `Infinity`: no limit, so a reader that does not come back fills the device.
   */
  lagLimitBytes?: number | undefined
}

/** A slot of a database, from `slots`. */
export interface SlotInfo {
  /** Name of the slot, for `slot` and `dropSlot`. */
  name: string
  /** The position that was confirmed last; 0 if the slot is damaged. */
  position: number
  /** Bytes of logs that are kept only for this slot and for slots that lag less. */
  lagBytes: number
  /** Maximum of these bytes; `Infinity` without one. */
  lagLimitBytes: number
  /** Why the slot keeps no logs any more, as a sentence. */
  problem: string | undefined
}

/** What a fork shares with its parent. */
export interface ForkReport {
  /** Identity of the fork: a random number that it keeps. */
  storeId: bigint
  /** Number of tables and value files that the fork shares with the parent by hard links. */
  linkedFiles: number
  /** Size of the shared files, in bytes. */
  linkedBytes: number
  /** Number of tables and value files that were copied, because they could not be linked. */
  copiedFiles: number
  /** Size of the copied files, in bytes. */
  copiedBytes: number
}

/** The identity of a database, and those that it descends from, the parent first. */
export interface Lineage {
  /** Identity of the database: a random number that it got when it was created, and keeps. */
  storeId: bigint
  /** The name that it got as a fork; `undefined` if it got none, or is no fork. */
  name: string | undefined
  /** The databases that it descends from, at most 64. Empty if it is no fork. */
  ancestors: Array<{
    /** Identity of the ancestor. */
    storeId: bigint
    /** The name that the ancestor got as a fork, if it has one. */
    name: string | undefined
    /** Sequence number of the ancestor at the fork: the fork has every write up to it, and no later one. */
    sequence: number
  }>
}

/** A key that is not the same in two databases. */
export interface Difference {
  /** Name of the keyspace. */
  keyspace: string
  /** Bytes of the key. */
  key: Buffer
  /** Bytes of the value in the first database; `undefined` if it does not have the key. */
  old: Buffer | undefined
  /** Bytes of the value in the second database; `undefined` if it does not have the key. */
  new: Buffer | undefined
  /**
   * Time at which the pair of the first database expires, in milliseconds since 1970; `undefined` if it
   * does not.
   */
  oldExpires: number | undefined
  /**
   * Time at which the pair of the second database expires, in milliseconds since 1970; `undefined` if it
   * does not.
   */
  newExpires: number | undefined
}

/** The differences of two databases. A loop over it closes it. */
export class Diff {
  private constructor ()
  /** How the databases descend from each other: a phrase after "the second is". */
  get relation (): string
  /** Number of tables that both have. If it is 0, every pair is read. */
  get sharedFiles (): number
  /** Names of the keyspaces that only the first database has. They count as empty in the second. */
  get keyspacesOnlyInOld (): string[]
  /** Names of the keyspaces that only the second database has. They count as empty in the first. */
  get keyspacesOnlyInNew (): string[]
  /**
   * Returns the next difference, or `undefined` at the end: first those of the keyspace `default`, then
   * those of the others by name, each in the order of keys.
   */
  next (): Promise<Difference | undefined>
  /** Returns the differences, as `next` does. Closes the comparison at the end of the loop. */
  [Symbol.asyncIterator] (): AsyncGenerator<Difference, void, unknown>
  /** Frees the files and memtables that the comparison holds. Later calls of `next` reject. */
  close (): Promise<void>
  /** Does the same as `close`. */
  [Symbol.asyncDispose] (): Promise<void>
}

/** Options of `diff`. */
export interface DiffOptions {
  /** Name of the only keyspace to compare. Default: all of them. */
  keyspace?: string | undefined
  /** A snapshot of the first database. Default: its present state. */
  oldSnapshot?: AbstractSnapshot | undefined
  /** A snapshot of the second database. Default: its present state. */
  newSnapshot?: AbstractSnapshot | undefined
}

/**
 * Compares two open databases, or snapshots of them. Rejects with `ESKER_NOT_FOUND` if neither has the
 * keyspace of the options, and with `ESKER_INCOMPATIBLE` if a keyspace has different key orders.
 */
export function diff (
  old: EskerLevel<any, any>, now: EskerLevel<any, any>, options?: DiffOptions | undefined
): Promise<Diff>

/** What a database and a keyspace have in common. */
declare class Part<K = string, V = string> extends AbstractLevel<Format, K, V> {
  /**
   * Returns the value of a key, or `undefined` if there is none. It may miss a write whose promise has not
   * resolved.
   */
  get (key: K): Promise<V | undefined>
  get<K1 = K, V1 = V> (key: K1, options: GetOptions<K1, V1>): Promise<V1 | undefined>
  /**
   * Returns the value of a key at once, in the thread of JavaScript. Throws `LEVEL_DATABASE_NOT_OPEN` while
   * the database is not open, also during its opening.
   */
  getSync (key: K): V | undefined
  getSync<K1 = K, V1 = V> (key: K1, options: GetOptions<K1, V1>): V1 | undefined
  /**
   * Returns the values of keys, in the order of `keys`, with `undefined` for a missing key. They are of one
   * moment.
   */
  getMany (keys: K[]): Promise<Array<V | undefined>>
  getMany<K1 = K, V1 = V> (keys: K1[], options: GetManyOptions<K1, V1>): Promise<Array<V1 | undefined>>
  /** Returns whether a key exists. A pair that has expired does not. */
  has (key: K): Promise<boolean>
  has<K1 = K> (key: K1, options: HasOptions<K1>): Promise<boolean>
  /** Returns for each key whether it exists, in the order of `keys`. Reads as `getMany` does. */
  hasMany (keys: K[]): Promise<boolean[]>
  hasMany<K1 = K> (keys: K1[], options: HasManyOptions<K1>): Promise<boolean[]>
  /**
   * Sets a key to a value. A crash loses what the durability allows. Rejects with `ESKER_INVALID_ARGUMENT`
   * for a key of more than 1 MiB or a value of more than 1 GiB, with `ESKER_READ_ONLY` if the database
   * accepts no writes, with `ESKER_NO_SPACE` if the device is full, and with `ESKER_BUSY` after `timeout`.
   */
  put (key: K, value: V): Promise<void>
  put<K1 = K, V1 = V> (key: K1, value: V1, options: PutOptions<K1, V1>): Promise<void>
  /** Deletes a key. A missing key is no error. Otherwise as `put`. */
  del (key: K): Promise<void>
  del<K1 = K> (key: K1, options: DelOptions<K1>): Promise<void>
  /**
   * Applies all operations, on any number of keyspaces, or none. They become visible together, and a crash
   * keeps all of them or none. Rejects as `put`, and with `LEVEL_DATABASE_NOT_OPEN` if a keyspace of an
   * operation is not open.
   */
  batch (operations: Array<BatchOperation<K, V>>): Promise<void>
  batch<K1 = K, V1 = V> (operations: Array<BatchOperation<K1, V1>>, options: BatchOptions<K1, V1>): Promise<void>
  /** Returns a chained batch. Throws `LEVEL_DATABASE_NOT_OPEN` while the database is not open. */
  batch (): ChainedBatch<this, K, V>
  /**
   * Deletes all keys, or those of a range. Without `limit` and `snapshot`, it writes one range deletion for
   * any number of keys, and a crash keeps all of it or none. With one of them, it deletes the keys one by
   * one in batches of up to 1,000, and a crash may keep a part.
   */
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
  /**
   * Sets a key to the bytes of a source, and holds about 2 MiB of them in memory. Returns their number. A
   * value of more than 512 KiB becomes visible and durable when the source ends, together with all earlier
   * writes; a shorter one is put as by `put`. Nothing is changed after an error: that of the source,
   * `ESKER_INVALID_ARGUMENT` for a value of more than 1 GiB and in a keyspace with a time to live,
   * `ESKER_INCOMPATIBLE` for more than 512 KiB in a database with the format version 1, and those of `put`.
   */
  putStream (key: K, source: ByteSource): Promise<number>
  putStream<K1 = K> (key: K1, source: ByteSource, options: KeyEncodingOptions<K1>): Promise<number>
  /**
   * Returns the value of a key as a stream, or `undefined` if there is none. Of a value of `putStream` it
   * holds what it reads at once in memory; any other value is in memory as a whole.
   */
  getStream (key: K): Promise<ValueStream | undefined>
  getStream<K1 = K> (key: K1, options: GetStreamOptions<K1>): Promise<ValueStream | undefined>
  /**
   * Returns about how many bytes of files hold the keys from `start` to `end`. What is only in memory is not
   * counted.
   */
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
  /** The name that `keyspace` got. A rename does not change it. */
  get name (): string
  /** The database of the keyspace. A close of it closes the keyspace. */
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
  /** Encoding of keys. Default: that of the database. */
  keyEncoding?: GetOptions<K, V>['keyEncoding']
  /** Encoding of values. Default: that of the database. */
  valueEncoding?: GetOptions<K, V>['valueEncoding']
}

/** Options of `transact`. */
export interface TransactOptions<K = string, V = string> extends TransactionOptions<K, V> {
  /** Most runs of the function. Default: 100. */
  attempts?: number | undefined
}

/** The keys of one keyspace, as a transaction reads and writes them. */
declare class TransactionPart<K = string, V = string> extends AbstractLevel<Format, K, V> {
  protected constructor ()
  /**
   * Sets a key to a value at the commit. Later reads of the transaction see it at once. A `ttl` counts from
   * the commit. The durability is that of the transaction.
   *
   * In a pessimistic transaction it locks the key. It rejects with `ESKER_BUSY` when the lock is not free in
   * time, with `ESKER_DEADLOCK` when transactions wait for each other, and with `ESKER_CONFLICT` when the
   * key was written after the snapshot and the transaction has read other keys without a lock.
   */
  put (key: K, value: V): Promise<void>
  put<K1 = K, V1 = V> (key: K1, value: V1, options: AbstractPutOptions<K1, V1> & TtlOptions): Promise<void>
  /**
   * Does all operations, on any number of keyspaces of the database, or none. The keyspaces must be open.
   * Otherwise as `put`.
   */
  batch (operations: Array<BatchOperation<K, V>>): Promise<void>
  batch<K1 = K, V1 = V> (
    operations: Array<BatchOperation<K1, V1>>, options: AbstractBatchOptions<K1, V1> & TtlOptions
  ): Promise<void>
  /** Returns a chained batch. Throws `LEVEL_DATABASE_NOT_OPEN` while the transaction is not open. */
  batch (): TransactionChainedBatch<this, K, V>
  /** Reads a value, and protects the key as a write of it would. */
  getForUpdate (key: K): Promise<V | undefined>
  getForUpdate<K1 = K, V1 = V> (
    key: K1, options: Omit<AbstractGetOptions<K1, V1>, 'snapshot'>
  ): Promise<V1 | undefined>
  /**
   * Merges an operand into a value at the commit. Later reads of the transaction see the result. Of two
   * optimistic transactions that merge into one key at the same time, one fails. Otherwise as `put`.
   */
  merge (key: K, operand: V): Promise<void>
  merge<K1 = K, V1 = V> (key: K1, operand: V1, options: AbstractPutOptions<K1, V1>): Promise<void>
}

/** Reads and writes that take effect together, at one moment, or not at all. */
export class Transaction<K = string, V = string> extends TransactionPart<K, V> {
  private constructor ()
  /** The database of the transaction. A close of it ends the transaction without its writes. */
  get db (): EskerLevel<any, any>
  /** Returns the transaction over a keyspace of its database. */
  in<K1, V1> (keyspace: Keyspace<K1, V1>): TransactionPart<K1, V1>
  /** Makes the writes visible and durable. Rejects with the code `ESKER_CONFLICT` after a conflict. */
  commit (): Promise<void>
  /** Ends the transaction without its writes. So does `close`. */
  rollback (): Promise<void>
  /** Checks and stores the transaction under a name, for `commitPrepared` or `rollbackPrepared`. */
  prepare (name: string): Promise<void>
  /** Sets a savepoint, to which `rollbackToSavepoint` returns. Savepoints nest. */
  savepoint (): Promise<void>
  /**
   * Takes back the writes after the newest savepoint, and removes it. Locks stay, and what was read stays
   * protected. Rejects with `ESKER_NOT_FOUND` if there is no savepoint.
   */
  rollbackToSavepoint (): Promise<void>
  /**
   * Removes the newest savepoint and keeps the writes after it. Rejects with `ESKER_NOT_FOUND` if there is
   * none.
   */
  popSavepoint (): Promise<void>
}

/** How far a follower is behind. Positions are sequence numbers, as in the change feed. */
export interface FollowerLag {
  /** The last operation that the newest view shows. */
  position: number
  /** The last operation that the database has. */
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
  /** Encoding of keys. Default: that of `follow`. */
  keyEncoding?: GetOptions<K, V>['keyEncoding']
  /** Encoding of values. Default: that of `follow`. */
  valueEncoding?: GetOptions<K, V>['valueEncoding']
}

/**
 * A read replica of a database that another process writes, from `EskerLevel.follow`. It writes nothing,
 * and never makes the writer wait.
 */
export class Follower {
  private constructor ()
  /** Directory of the database, as `follow` got it. */
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
  /**
   * Returns how far the newest view is behind the database. Reads the logs from its position on, and makes
   * no newer view. Rejects with `LEVEL_CORRUPTION` if a file is damaged.
   */
  lag (): Promise<FollowerLag>
  /** Opens the database for writing, when its writer has ended. `LEVEL_LOCKED` while it lives. */
  promote<K = string, V = string> (options?: ViewOptions<K, V> | undefined): Promise<EskerLevel<K, V>>
  /** Ends its thread and its waits. Views and promoted databases stay open. */
  close (): Promise<void>
  /** Does the same as `close`. */
  [Symbol.asyncDispose] (): Promise<void>
}

/** What writes wait for. */
export interface Stall {
  /** Why writes wait, as a sentence without its end. */
  cause: string
  /** What ends the wait, as a sentence without its end. */
  clears: string
  /** Bytes that have to be written to tables before writes go on at full speed. */
  bytes: number
  /** Time since the wait began, in milliseconds. */
  duration: number
  /** Whether writes wait until the cause is gone. `false`: each write is only slowed. */
  isStopped: boolean
}

/** The metrics of `docs/metrics.md`, by their names in camelCase. */
export interface Metrics {
  /** Of the whole database, such as `userOps`. */
  store: Record<string, number>
  /** Of its memory, such as `cacheBytes`. */
  memory: Record<string, number>
  /** Of each level, from 0 on, such as `bytes`. */
  levels: Array<Record<string, number>>
  /** The last problem that the background check found, as a sentence. */
  scrubProblem: string | undefined
}

/** What a process publishes that has a database open for writing. */
export interface LiveStatus {
  /** Number of the process. In another container it may have another one. */
  process: number
  /** Number of the publication, from 1 at each opening. */
  version: number
  /** Time at which the database was opened. */
  opened: Date
  /** Time of the publication. A long time ago means that the process was killed. */
  updated: Date
  /** The metrics in OpenMetrics' text format. */
  openmetrics: string
  /** The metrics. */
  metrics: Metrics
}

/** A table file of a database, from `tables`. */
export interface TableEntry {
  /** Tree of the file. Tree 0 holds the keyspace `default`. */
  tree: number
  /** Level of the file. */
  level: number
  /** Number of the file, which is also its name. */
  number: number
  /** Size of the file, in bytes. */
  sizeBytes: number
  /** Number of entries: puts, merges and deletes. */
  entries: number
  /** Number of deletes among the entries. */
  deletes: number
  /** Number of range deletions. */
  rangeDeletes: number
  /** Size of the keys and values before compression, in bytes. */
  rawBytes: number
  /** First key. Keys of other trees than 0 begin with four bytes that stand for their keyspace. */
  smallest: Buffer
  /** Last key. */
  largest: Buffer
}

/** Options of a backup. */
export interface BackupOptions {
  /** Whether the database takes over a directory that belongs to another one. Default: `false`. */
  takeOver?: boolean | undefined
}

/** What a backup has copied. */
export interface BackupReport {
  /** Number of the backup. */
  number: number
  /** Directory of the backup, which is a database. */
  path: string
  /** Number of tables and value files that were copied. */
  copiedFiles: number
  /** Size of the copied files, in bytes. */
  copiedBytes: number
  /** Number of tables and value files that the backup shares with the one before it. */
  linkedFiles: number
  /** Size of the shared files, in bytes. */
  linkedBytes: number
}

/** A backup, from `backups`. */
export interface BackupInfo {
  /** Number of the backup. */
  number: number
  /** Directory of the backup, which is a database. */
  path: string
  /** Number of its tables, also of those that other backups share. */
  tables: number
  /** Size of these tables, in bytes. */
  tableBytes: number
  /** Time of its creation; `undefined` because of the `problem`. */
  created: Date | undefined
  /** Identity of the database that was backed up; `undefined` because of the `problem`. */
  storeId: bigint | undefined
  /** Directory of that database; `undefined` because of the `problem`. */
  storePath: string | undefined
  /** Why the file `BACKUP` could not be read. `restore` checks the content. */
  problem: string | undefined
}

/** Which backups `pruneBackups` removed. */
export interface PruneReport {
  /** Numbers of the removed backups, the oldest first. */
  removed: number[]
  /** Numbers of the other ones, the oldest first. */
  kept: number[]
}

/** Options of a verification. */
export interface VerifyOptions {
  /** Hears the bytes that were read so far, and about how many there are. */
  progress?: ((bytes: number, of: number) => void) | undefined
}

/** What a verification has read. */
export interface VerifyReport {
  /** Format version of the database. */
  formatVersion: number
  /** Number of table files. */
  files: number
  /** Number of value files. */
  valueFiles: number
  /** Number of logs. */
  logs: number
  /** Bytes of tables, value files, logs and the manifest. */
  bytes: number
  /** Number of entries in tables, with old versions and tombstones. */
  entries: number
  /** Number of range tombstones in tables. */
  rangeDeletes: number
  /** The problems, one sentence for each file that has one. */
  problems: string[]
}

/** What a repair has read and kept. */
export interface RepairReport {
  /** Whether the manifest was readable. Only it says which tables are valid and in which order. */
  manifestReadable: boolean
  /** Number of tables read. */
  tables: number
  /** Number of logs read. */
  logs: number
  /** Number of pairs in the repaired database. */
  pairs: number
  /** Maximum number of entries in memory at once. */
  entriesHeldMax: number
  /** Directory that now holds the original files. */
  originals: string
  /** What was lost, one sentence each. */
  lost: string[]
}

/** Counts of the calls that ran in this thread of JavaScript, over all databases. */
export interface PerfCounts {
  /** Gets, one for each key of a `getMany`. */
  gets: number
  /** Gets that found their version in a memtable. */
  memtableHits: number
  /** Tables that gets looked into. */
  tablesSearched: number
  /** Filters of tables that gets asked. */
  filterChecks: number
  /** Filters that ruled the key out. */
  filterNegatives: number
  /** Bytes of the values that gets found. */
  valueBytesRead: number
  /** Blocks that were found in the cache, also by iterators. */
  cacheHits: number
  /** Blocks that were not found in the cache. */
  cacheMisses: number
  /** Blocks that were read from a file. */
  blocksRead: number
  /** Bytes of these blocks in the file. */
  blockBytesRead: number
  /** Bytes appended to the log. */
  walBytes: number
  /** Syncs of the log. */
  walSyncs: number
  /** Nanoseconds for which writes waited because every memtable was full. */
  stallNs: number
  /** Nanoseconds for which writes were delayed by the write throttle. */
  throttleNs: number
}

/**
 * Switches the counting of the calls in this thread of JavaScript on (default) or off. Switching it on sets
 * the counts to 0. Calls that go to libuv's pool are not counted.
 */
export function enablePerf (on?: boolean): void
/** Returns the counts since the last call, or since `enablePerf`, and sets them to 0. */
export function takePerf (): PerfCounts

/** A database. */
export class EskerLevel<K = string, V = string> extends Part<K, V> {
  /**
   * @param location Directory of the database.
   * @param options Options, which are also those of `open`.
   */
  constructor (location: string, options?: DatabaseOptions<K, V> | undefined)

  /** Directory of the database, as the constructor got it. */
  get location (): string
  /**
   * Opens the database. A new one opens by itself, and calls that return promises wait for that. A closed
   * one can be opened again. Rejects with `LEVEL_DATABASE_NOT_OPEN`. The `cause` of the error has the code
   * of the failure, such as `LEVEL_LOCKED`.
   */
  open (): Promise<void>
  open (options: OpenOptions): Promise<void>

  /** Returns a keyspace, which opens with the database and is created if it is missing. */
  keyspace<K1 = string, V1 = string> (name: string, options?: KeyspaceOptions<K1, V1> | undefined): Keyspace<K1, V1>
  /** Returns the names of all keyspaces, with `default`. */
  keyspaces (): Promise<string[]>
  /**
   * Drops a keyspace with all its keys, in the same time for any size. Its space is freed in the background.
   * Its iterators go on, and other calls on it reject with `ESKER_NOT_FOUND`. Rejects with
   * `ESKER_NOT_FOUND` if there is none, and with `ESKER_INVALID_ARGUMENT` for `default`.
   */
  dropKeyspace (name: string): Promise<void>
  /**
   * Gives a keyspace another name. Its open objects stay valid. Rejects with `ESKER_NOT_FOUND` if there is
   * none, and with `ESKER_INVALID_ARGUMENT` for a new name that is in use or not allowed, and for `default`.
   */
  renameKeyspace (name: string, newName: string): Promise<void>

  /** Begins a transaction. The database must be open. */
  transaction<K1 = K, V1 = V> (options?: TransactionOptions<K1, V1> | undefined): Transaction<K1, V1>
  /** Runs a function in a transaction and commits it. Runs it again after a conflict. */
  transact<R, K1 = K, V1 = V> (
    work: (transaction: Transaction<K1, V1>) => Promise<R> | R,
    options?: TransactOptions<K1, V1> | undefined
  ): Promise<R>
  /** Returns the names of the prepared transactions, in alphabetical order. */
  preparedTransactions (): Promise<string[]>
  /**
   * Makes the writes of a prepared transaction visible, with the durability `sync`. Rejects with
   * `ESKER_NOT_FOUND` if there is none, and with `ESKER_BUSY` while another call ends it. After an error or
   * a crash it is committed or still prepared.
   */
  commitPrepared (name: string): Promise<void>
  /** Ends a prepared transaction without its writes. Rejects as `commitPrepared`. */
  rollbackPrepared (name: string): Promise<void>

  /** Returns the change feed after a position; 0, the default, for all that the logs still have. */
  changes (from?: number): Promise<Changes>
  /** Opens a slot, and creates it at the present if it does not exist. */
  subscribe (name: string, options?: SlotOptions | undefined): Promise<Slot>
  /** Opens a slot. Rejects with `ESKER_NOT_FOUND` if there is none. */
  slot (name: string): Promise<Slot>
  /** Returns the slots of the database, in alphabetical order. */
  slots (): Promise<SlotInfo[]>
  /**
   * Removes a slot, also a damaged one, and the logs that only it needed. Rejects with `ESKER_NOT_FOUND` if
   * there is none.
   */
  dropSlot (name: string): Promise<void>
  /**
   * Returns the change feed as a stream of bytes, for `applyChanges` in another process or machine. It ends at
   * the present, or follows until the signal is aborted.
   */
  changeStream (options?: ChangeStreamOptions | undefined): Readable
  /** Begins to apply the bytes of `changeStream` of another database to this one. */
  applyChanges (source: ByteSource): Promise<Applier>
  /**
   * Returns the identity of the database whose changes this one has applied, and the position; `undefined` if
   * there is none, and while content is copied. A stream begins there.
   */
  appliedPosition (): Promise<{
    /** Identity of the source, as `lineage` returns it there. */
    source: bigint
    /** Position in the feed of the source. */
    position: number
  } | undefined>
  /** Takes a snapshot with its position in the change feed: it has every batch up to it. */
  snapshotWithPosition (): Promise<{
    /** The snapshot. Reads take it as their option `snapshot`. */
    snapshot: AbstractSnapshot
    /** Sequence number of the last operation that the snapshot has, for `changes` and `confirm`. */
    position: number
  }>
  /** Creates a database of its own that begins with the content of this one, by hard links. */
  fork (directory: string, options?: { name?: string | undefined } | undefined): Promise<ForkReport>
  /** Returns the identity of the database, and the databases that it descends from as a fork. */
  lineage (): Promise<Lineage>

  /**
   * Writes what is in memory to tables, and waits for it. After that no crash loses an earlier write, also
   * one with the durability `none`. Rejects with `ESKER_READ_ONLY` if the database accepts no writes.
   */
  flush (): Promise<void>
  /**
   * Makes all earlier writes survive a power failure, except those with the durability `none`, which need
   * `flush`. Rejects with `ESKER_READ_ONLY` if the database accepts no writes.
   */
  sync (): Promise<void>
  /** Waits until no flush or compaction is due. Does not wait for those of the option `restCompaction`. */
  waitIdle (): Promise<void>
  /**
   * Compacts all keys of every keyspace into the deepest level, without deleted and overwritten entries,
   * and waits for it. After an error the keyspaces before it stay compacted.
   */
  compactAll (): Promise<void>
  /** Makes a copy of the database in a new directory. */
  checkpoint (directory: string): Promise<void>
  /**
   * Raises the format version: 2 is the newest one. A database keeps the version with which it was
   * created (option `format_version`), and earlier releases can open it, until this is called.
   * Afterwards they refuse it. The version cannot be lowered.
   */
  upgradeFormat (to: number): Promise<void>
  /**
   * Runs one flush or compaction that is due, in a database without threads (option `backgroundThreads` 0).
   * Returns whether there was one. Rejects with `ESKER_INVALID_ARGUMENT` in a database with threads.
   */
  runOneJob (): Promise<boolean>
  /** Makes a backup. Returns its number, or its report. */
  backup (directory: string, options?: BackupOptions & { report?: false | undefined } | undefined): Promise<number>
  backup (directory: string, options: BackupOptions & { report: true }): Promise<BackupReport>
  /** Reads and checks every byte. Returns the problems, one sentence each, or a report with them. */
  verify (options?: VerifyOptions & { report?: false | undefined } | undefined): Promise<string[]>
  verify (options: VerifyOptions & { report: true }): Promise<VerifyReport>
  /**
   * Returns the tables of all keyspaces, by tree, level and number. A file with parts in several levels comes
   * once for each.
   */
  tables (): Promise<TableEntry[]>

  /** Returns what writes wait for now; `undefined` if they run at full speed. */
  stall (): Stall | undefined
  /** Returns what the opening found that a crash had lost, one sentence each. */
  recoveryNotes (): string[]
  /** Returns all metrics of `docs/metrics.md`, without the derived ones. */
  metrics (): Metrics
  /**
   * Returns one metric of `docs/metrics.md`: of the whole database, such as `userOps` or
   * `memory.cacheBytes`, or of a level, such as `metric('levels.bytes', 2)`. Names in snake_case work too.
   * Throws `ESKER_INVALID_ARGUMENT` for another name, and for a level that the database does not have.
   */
  metric (name: string, level?: number): number

  /** Returns the metrics in OpenMetrics' text format. */
  openmetrics (): string
  /** Returns a property of LevelDB's, such as `leveldb.stats`. */
  getProperty (property: string): string | undefined
  /**
   * Returns the present value of an option of the engine as a text, such as `auto` or a number of bytes.
   * Throws `ESKER_INVALID_ARGUMENT` for a name that no option has and for `mergeOperator`, which cannot be
   * read, and `LEVEL_DATABASE_NOT_OPEN` while the database is not open.
   */
  option (name: string): string
  /**
   * Changes an option of the engine until the database is closed. Throws `ESKER_INVALID_ARGUMENT` for an
   * unknown name, a wrong value, and an option that `docs/options.md` calls changeable "at open" only.
   */
  setOption (name: string, value: string | number | boolean): void
  /**
   * Changes options of the engine, all or none of them: options whose values are allowed only together can be
   * changed so. Otherwise as `setOption`.
   */
  setOptions (options: Record<string, string | number | boolean>): void

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
  /**
   * Removes a database that is not open: its files, then the directory if it is empty. A missing one is no
   * error. Rejects with `LEVEL_LOCKED` while it is open, and with `ESKER_INCOMPATIBLE` for the directory of
   * another engine.
   */
  static destroy (location: string): Promise<void>
  /**
   * Returns what the process publishes that has a database open for writing: about a second old, or ten
   * seconds while nothing changes. Opens nothing. Rejects with `ESKER_NOT_FOUND` if no process publishes
   * anything there.
   */
  static liveStatus (location: string, options?: KeyOptions | undefined): Promise<LiveStatus>
  /** Rebuilds a damaged database. Returns what was lost, one sentence each, or a report with it. */
  static repair (
    location: string, options: EngineOptions & KeyOptions & { report: true }
  ): Promise<RepairReport>
  static repair (
    location: string, options?: (EngineOptions & KeyOptions & { report?: false | undefined }) | undefined
  ): Promise<string[]>
  /**
   * Returns the numbers of the backups in a directory, or a report about each, the oldest first. Rejects with
   * `ESKER_NOT_FOUND` if there is no such directory, and with `ESKER_INVALID_ARGUMENT` if it has other
   * content.
   */
  static backups (
    directory: string, options?: (KeyOptions & { report?: false | undefined }) | undefined
  ): Promise<number[]>
  static backups (directory: string, options: KeyOptions & { report: true }): Promise<BackupInfo[]>
  /**
   * Removes the oldest backups until `keep`, at least 1, are left. Returns the numbers of the removed ones, or
   * a report. The others stay complete, and a crash leaves more of them than `keep`. Rejects as `backups`,
   * and with `LEVEL_LOCKED` while another call writes to the directory.
   */
  static pruneBackups (
    directory: string, keep: number, options?: (KeyOptions & { report?: false | undefined }) | undefined
  ): Promise<number[]>
  static pruneBackups (
    directory: string, keep: number, options: KeyOptions & { report: true }
  ): Promise<PruneReport>
  /**
   * Makes a database of a backup: of the newest one, or of the one with the given `number`. The directory
   * `into` must not exist. Every table is read back and compared. Rejects with `ESKER_NOT_FOUND` if there
   * is no such backup, with `ESKER_INVALID_ARGUMENT` if `into` exists or `number` is no integer of at least
   * 1, and with `LEVEL_CORRUPTION` if the backup is damaged. Returns the number of the backup.
   */
  static restore (
    directory: string,
    into: string,
    options?: (EngineOptions & KeyOptions & { number?: number | undefined }) | undefined
  ): Promise<number>
  /** Writes pairs, in ascending order of keys, to a new file for `ingest`. */
  static writeSorted (
    file: string, pairs: Pairs<Format, Format>, options?: EngineOptions | undefined
  ): Promise<{
    /** Absolute path of the file. */
    path: string
    /** Number of entries. */
    entries: number
    /** Length of the file, in bytes. */
    bytes: number
  }>
  /**
   * Returns the names of all options of the engine, in snake_case as in `docs/options.md`, without their
   * other names. `merge_operator` is the last one.
   */
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

// Types without a value at run time.
export type { BatchEncodingOptions, Format, Part, TransactionPart }
