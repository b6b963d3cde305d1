/* Esker's C interface. Made by `cargo xtask headers`; not to be edited by hand.
 *
 * Ownership:
 *  1. An object returned by an esker_*_create function, by esker_open, esker_follow,
 *     esker_get_reader, esker_keyspace_get_reader or esker_transaction_begin is freed once, by the function of the same type that ends in
 *     _destroy, and a keyspace and a slot by esker_keyspace_close and esker_slot_close. Freeing NULL does nothing. The store may be
 *     freed before or after its iterators, snapshots, keyspaces and transactions. Iterators stay
 *     readable until the store is opened again, removed or repaired. Then they may fail, but return
 *     no other data. Snapshots, keyspaces and transactions fail with ESKER_CLOSED.
 *  2. A buffer (a pointer and a length), a string or a path that is passed in is borrowed for the
 *     call. A buffer of length 0 may be NULL. Strings end with a zero byte. Names of keyspaces and
 *     prepared transactions, and names and values of options, are UTF-8.
 *  3. A returned value or text belongs to the caller and is freed with esker_free (or free). Keys
 *     and values of an iterator, and values passed to a callback, are borrowed until the iterator
 *     moves or the callback returns.
 *  4. A function that can fail returns ESKER_OK or one of the codes below. Its last argument may be
 *     NULL. Otherwise *message must be NULL or a text from an earlier call. Only a failure sets it,
 *     to a message that is freed with esker_free. A missing key is not a failure.
 *  5. A NULL handle or a closed store is a failure (ESKER_INVALID_ARGUMENT, ESKER_CLOSED), never a
 *     crash. In a forked child, reads, writes, snapshots and closes of the parent's store fail with
 *     ESKER_CLOSED. A freed handle must not be used.
 *
 * Threads: a store may be used by many threads at once, as may a snapshot, a keyspace and a follower; options,
 * batches, iterators, feeds, diffs, sorted writers, readers of values and transactions by one at a time. A transaction checks that: a call during a
 * call of another thread fails with ESKER_INVALID_ARGUMENT. The caller's own functions
 * (comparators, filters, merge operators, compaction filters, sources of keys, clocks) are called from any thread,
 * by several at once, and listeners by one at a time. They must not throw or jump out, and must not use the store they are called
 * for: its functions then fail with ESKER_INVALID_ARGUMENT.
 *
 * Keys have at most 1 MiB, values at most 1 GiB.
 */

#ifndef ESKER_H
#define ESKER_H

#include <stddef.h>
#include <stdint.h>

// Success.
#define ESKER_OK 0

// An argument is invalid; nothing was changed.
#define ESKER_INVALID_ARGUMENT 1

// Bytes on disk differ from the bytes written; they were not returned.
#define ESKER_CORRUPTION 2

// The operating system refused an operation.
#define ESKER_IO 3

// The device or a quota is full; no acknowledged write is lost.
#define ESKER_NO_SPACE 4

// Another process or handle has the store open.
#define ESKER_LOCKED 5

// The directory has another format, version or key order, or belongs to another program.
#define ESKER_INCOMPATIBLE 6

// The store accepts no writes: it was opened read-only, or an earlier WAL sync failed.
#define ESKER_READ_ONLY 7

// The handle was closed.
#define ESKER_CLOSED 8

// A defect in Esker; please report the message.
#define ESKER_INTERNAL 9

// The named store, keyspace or backup does not exist; nothing was changed.
#define ESKER_NOT_FOUND 10

// A transaction conflicts with another commit; nothing was written. Run the transaction again.
#define ESKER_CONFLICT 11

// A wait for a lock, or of a write for memory, ended at its deadline; nothing was written.
#define ESKER_BUSY 12

// Transactions wait for each other's locks; nothing was written. Run the transaction again.
#define ESKER_DEADLOCK 13

// Decision of a compaction filter: the pair stays as it is.
#define ESKER_FILTER_KEEP 0

// Decision of a compaction filter: the pair is deleted.
#define ESKER_FILTER_REMOVE 1

// Decision of a compaction filter: the pair gets a new value.
#define ESKER_FILTER_REPLACE 2

// The store's option `durability` decides.
#define ESKER_DURABILITY_DEFAULT 0

// Not logged in the WAL: lost if the process ends before a flush.
#define ESKER_DURABILITY_NONE 1

// A completed write survives `kill -9`, but not a power loss.
#define ESKER_DURABILITY_BUFFERED 2

// A completed write survives a power loss.
#define ESKER_DURABILITY_SYNC 3

// Kind of an operation: a put of a key and a value.
#define ESKER_OPERATION_PUT 1

// Kind of an operation: a delete of a key.
#define ESKER_OPERATION_DELETE 2

// Kind of an operation: a deletion of the keys from a start (inclusive) to an end (exclusive).
#define ESKER_OPERATION_DELETE_RANGE 3

// Kind of an operation: a put of a key and a value that expires.
#define ESKER_OPERATION_PUT_WITH_TTL 4

// Kind of an operation: a merge of an operand into the value of a key.
#define ESKER_OPERATION_MERGE 5

// A time to live that never ends, and the time at which a pair expires that does not expire.
#define ESKER_NEVER_MS UINT64_MAX

// The transaction reads the store as of one moment. Its commit fails if another commit has written
// a key that it writes.
#define ESKER_ISOLATION_SNAPSHOT 0

// The committed transactions give the results of some order in which they run one after the other.
#define ESKER_ISOLATION_SERIALIZABLE 1

// Conflicts are found at the commit. Only `esker_transaction_prepare` may wait for another transaction.
#define ESKER_CONCURRENCY_OPTIMISTIC 0

// Conflicts are found at once, by locks: a call waits until the holder of a lock has ended.
#define ESKER_CONCURRENCY_PESSIMISTIC 1

// Kind of an event that this version of the library has no number for. Its text describes it.
#define ESKER_EVENT_OTHER 0

// The store was opened: `read_only`, `is_closed_cleanly`, `tables`, `bytes` (of tables), `logs`,
// `duration_ns`.
#define ESKER_EVENT_OPENED 1

// The opening found that a crash had lost something: `cause`.
#define ESKER_EVENT_RECOVERY_NOTE 2

// A flush of memtables began: `job`, `memory_bytes`.
#define ESKER_EVENT_FLUSH_BEGAN 3

// A flush ended: `job`, `memory_bytes`, `tables`, `written_bytes`, `duration_ns`; if it failed,
// `error` and `error_code`.
#define ESKER_EVENT_FLUSH_ENDED 4

// A compaction began: `job`, `tree`, `level`, `output_level`, `inputs`, `read_bytes` (estimated),
// `cause`.
#define ESKER_EVENT_COMPACTION_BEGAN 5

// A compaction ended: `job`, `tree`, `level`, `output_level`, `read_bytes`, `written_bytes`,
// `tables`, `duration_ns`, `cause`; if it failed, `error` and `error_code`, which is
// `ESKER_CLOSED` if it was stopped for other work or by the close.
#define ESKER_EVENT_COMPACTION_ENDED 6

// A store at rest stopped merging: `compactions`, `written_bytes`, `duration_ns`, `cause`.
#define ESKER_EVENT_REST_ENDED 7

// A write stall began: `cause`, `bytes` (that have to be written to tables), `clears`,
// `is_stopped` (0: each write is only slowed).
#define ESKER_EVENT_STALL_BEGAN 8

// A write stall ended: `cause`, `bytes`, `clears`, `is_stopped`, `duration_ns`.
#define ESKER_EVENT_STALL_ENDED 9

// A table file became part of the store: `tree`, `level`, `number`, `bytes`.
#define ESKER_EVENT_TABLE_CREATED 10

// An obsolete table file was removed: `number`.
#define ESKER_EVENT_TABLE_REMOVED 11

// A job or a write failed: `name` (of the job), `error`, `error_code`.
#define ESKER_EVENT_BACKGROUND_ERROR 12

// The scrub found damage: `error`, `error_code`.
#define ESKER_EVENT_SCRUB_PROBLEM 13

// A keyspace was created: `number`, `name`.
#define ESKER_EVENT_KEYSPACE_CREATED 14

// A keyspace was renamed: `number`, `name`, `new_name`.
#define ESKER_EVENT_KEYSPACE_RENAMED 15

// A keyspace was dropped: `number`, `name`.
#define ESKER_EVENT_KEYSPACE_DROPPED 16

// The store is being closed: the last event; if that failed, `error` and `error_code`.
#define ESKER_EVENT_CLOSED 17

// A slot of the change feed keeps no logs any more: `name`, `cause`. Its next use fails.
#define ESKER_EVENT_SLOT_DROPPED 18

// Kind of a change: `key` was set to `value`, until the time `expires_ms`.
#define ESKER_CHANGE_PUT 1

// Kind of a change: the operand `value` was merged into the value of `key`.
#define ESKER_CHANGE_MERGE 2

// Kind of a change: `key` was deleted. It may not have existed.
#define ESKER_CHANGE_DELETE 3

// Kind of a change: the keys from `key` (inclusive) to `value` (exclusive) were deleted.
#define ESKER_CHANGE_DELETE_RANGE 4

// Kind of a change: all keys of the keyspace were deleted.
#define ESKER_CHANGE_CLEAR 5

// Kind of a change: the keyspace was created, with `key_order` and `options`.
#define ESKER_CHANGE_KEYSPACE_CREATED 6

// Kind of a change: the keyspace got the name `new_name`.
#define ESKER_CHANGE_KEYSPACE_RENAMED 7

// Kind of a change: the keyspace was dropped with all its keys.
#define ESKER_CHANGE_KEYSPACE_DROPPED 8

// Limit of the lag of a slot: the default, 16 GiB.
#define ESKER_LAG_LIMIT_DEFAULT 0

// Limit of the lag of a slot: none. A reader that does not come back fills the device.
#define ESKER_LAG_UNLIMITED UINT64_MAX

// The compared stores are the same store, or copies of its directory.
#define ESKER_RELATION_SAME_STORE 1

// The second store is a fork of the first, or a fork of a fork.
#define ESKER_RELATION_DESCENDANT 2

// The first store is a fork of the second, or a fork of a fork.
#define ESKER_RELATION_ANCESTOR 3

// Both stores are forks that descend from the same store.
#define ESKER_RELATION_SIBLINGS 4

// Neither store remembers the other, nor a common ancestor.
#define ESKER_RELATION_UNRELATED 5

// Result of the source of a bulk load: there are no more pairs.
#define ESKER_SOURCE_END 0

// Result of the source of a bulk load: the places have the next pair.
#define ESKER_SOURCE_PAIR 1

// Result of the source of a bulk load: it failed; nothing is to be loaded.
#define ESKER_SOURCE_FAILED -1

// Length of a master key, in bytes.
#define ESKER_KEY_BYTES 32

// Item of a stream: the end. Nothing follows.
#define ESKER_STREAM_END 0

// Item of a stream: a batch, or a part of one.
#define ESKER_STREAM_BATCH 1

// Item of a stream: the sender has nothing new.
#define ESKER_STREAM_ALIVE 2

// Item of a stream: the content of the sender's store begins, or a part of it.
#define ESKER_STREAM_CONTENT 3

// Item of a stream: the content of the sender's store is complete.
#define ESKER_STREAM_CONTENT_END 4

// Item of a stream: one that this version of the interface has no number for.
#define ESKER_STREAM_OTHER 5

// Reads such bytes and applies them to another store. It may be used by one thread at a time, and
// freed before or after the store.
typedef struct esker_applier_t esker_applier_t;

// Operations applied atomically. A batch may be used by one thread at a time.
typedef struct esker_batch_t esker_batch_t;

// Writes the changes of a store as bytes. It may be used by one thread at a time, and freed before or
// after the store.
typedef struct esker_change_writer_t esker_change_writer_t;

// The change feed of a store from a position on. It may be used by one thread at a time, and freed
// before or after the store.
typedef struct esker_changes_t esker_changes_t;

// An open store. Many threads may call functions on it concurrently, except `esker_db_destroy`.
typedef struct esker_db_t esker_db_t;

// A comparison of two stores. It holds the files and memtables of both as they were at its creation.
// It may be used by one thread at a time, and freed before or after the stores.
typedef struct esker_diff_t esker_diff_t;

// A follower of a store that another process writes. Many threads may call functions on it
// concurrently, except `esker_follower_destroy`.
typedef struct esker_follower_t esker_follower_t;

// An iterator over the keys of a keyspace. It reads the state at its creation, or the given
// snapshot, or a transaction. It may be used by one thread at a time, and freed before or after
// the store and the transaction.
typedef struct esker_iter_t esker_iter_t;

// Options of a new keyspace. They are stored with it.
typedef struct esker_keyspace_options_t esker_keyspace_options_t;

// A keyspace: an ordered map of its own within a store, with its own key order and options. Many
// threads may call functions on it concurrently, except `esker_keyspace_close`. It may be closed
// before or after the store.
typedef struct esker_keyspace_t esker_keyspace_t;

// An in-memory file system. Its stores are lost once its last handle and last store are freed.
typedef struct esker_memory_t esker_memory_t;

// Options for opening a store: all options of `docs/options.md`, and the caller's functions.
typedef struct esker_options_t esker_options_t;

// Options of a runtime.
typedef struct esker_runtime_options_t esker_runtime_options_t;

// Threads, memory and background input and output that stores share. Many threads may use it.
typedef struct esker_runtime_t esker_runtime_t;

// A slot: a durable position in the change feed of a store. Many threads may use it at once. It may
// be freed before or after the store.
typedef struct esker_slot_t esker_slot_t;

// A snapshot of the store. It may be freed before or after the store.
typedef struct esker_snapshot_t esker_snapshot_t;

// A writer of a table file outside of a store, for `esker_ingest`. It may be used by one thread at a
// time.
typedef struct esker_sorted_writer_t esker_sorted_writer_t;

// Options of a transaction.
typedef struct esker_transaction_options_t esker_transaction_options_t;

// Several reads and writes that take effect together, at one moment, or not at all. It may be used
// by one thread at a time: a call during a call of another thread fails with
// `ESKER_INVALID_ARGUMENT`. It may be freed before or after the store.
typedef struct esker_transaction_t esker_transaction_t;

// A reader of one value, in the version that was the newest when the reader was created. It may be used
// by one thread at a time, and freed before or after the store.
typedef struct esker_value_reader_t esker_value_reader_t;

// Frees a callback's state.
typedef void (*esker_destructor_t)(void*);

// Compares two keys. Returns a negative number, zero or a positive number.
typedef int (*esker_compare_t)(void*, const char*, size_t, const char*, size_t);

// Returns the name, which lives as long as the state.
typedef const char *(*esker_name_t)(void*);

// Creates the filter of a table: state, the keys, their lengths, the number of keys, and the place for
// the length of the filter. Returns the filter, allocated with `malloc`, and stores its length. See
// `esker_options_set_filter`.
typedef char *(*esker_create_filter_t)(void*, const char*const *, const size_t*, int, size_t*);

// Returns whether a filter may contain a key: state, key, its length, filter, its length. 0 means that
// it does not contain the key; any other value that it may.
typedef uint8_t (*esker_may_match_t)(void*, const char*, size_t, const char*, size_t);

// Makes the value of a key: state, key, its length, the existing value (NULL if the key does not
// exist or has expired), its length, the operands, their lengths, the number of operands (at least
// 1, oldest first), the place for the length of the value, and the place for a reason. Returns the
// value, allocated with `malloc`, and stores its length; an empty value is not NULL either. NULL
// means that there is no such value: the function may then store a reason, a UTF-8 string
// allocated with `malloc`.
typedef uint8_t *(*esker_full_merge_t)(void*,
                                       const uint8_t*,
                                       size_t,
                                       const uint8_t*,
                                       size_t,
                                       const uint8_t*const *,
                                       const size_t*,
                                       size_t,
                                       size_t*,
                                       char**);

// Makes one operand that has the effect of several: state, key, its length, the operands, their
// lengths, the number of operands (at least 2, oldest first), and the place for the length of the
// result. Returns the operand, allocated with `malloc`, and stores its length; NULL if there is
// none.
typedef uint8_t *(*esker_partial_merge_t)(void*,
                                          const uint8_t*,
                                          size_t,
                                          const uint8_t*const *,
                                          const size_t*,
                                          size_t,
                                          size_t*);

// Decides about a pair: state, level that the pair is written to, key, its length, value, its
// length, the place for a new value and the place for its length. Returns `ESKER_FILTER_KEEP`,
// `ESKER_FILTER_REMOVE` or `ESKER_FILTER_REPLACE`. Only for the last one, it stores a value that
// is allocated with `malloc`, and its length; an empty value is not NULL either.
typedef int32_t (*esker_compaction_filter_t)(void*,
                                             size_t,
                                             const uint8_t*,
                                             size_t,
                                             const uint8_t*,
                                             size_t,
                                             uint8_t**,
                                             size_t*);

// Receives a put: state, key, key length, value, value length.
typedef void (*esker_visit_put_t)(void*, const uint8_t*, size_t, const uint8_t*, size_t);

// Receives a delete: state, key, key length.
typedef void (*esker_visit_delete_t)(void*, const uint8_t*, size_t);

// Receives a range deletion: state, start (inclusive), its length, end (exclusive), its length.
typedef void (*esker_visit_delete_range_t)(void*, const uint8_t*, size_t, const uint8_t*, size_t);

// An operation of a batch, from `esker_batch_visit_keyspaces`. The buffers are valid during the
// call. Later versions may add fields at the end.
typedef struct {
  // `ESKER_OPERATION_PUT` and so on.
  int32_t kind;
  // Number of the keyspace (`esker_keyspace_id`); 0 is the keyspace `default`.
  uint32_t keyspace;
  // The key, or the start of a range.
  const uint8_t *key;
  // Length of the key.
  size_t key_len;
  // The value, the operand or the end of a range; NULL for a delete.
  const uint8_t *value;
  // Length of the value.
  size_t value_len;
  // Time to live of an `ESKER_OPERATION_PUT_WITH_TTL`, in milliseconds from the write of the
  // batch on; `ESKER_NEVER_MS` for every other kind.
  uint64_t ttl_ms;
} esker_operation_t;

// Receives an operation: state, operation.
typedef void (*esker_visit_operation_t)(void*, const esker_operation_t*);

// Receives a value: state, value, value length. The value is valid only during the call.
typedef void (*esker_visit_value_t)(void*, const uint8_t*, size_t);

// Receives the name of a prepared transaction: state, name, length of the name. The name is valid
// only during the call.
typedef void (*esker_visit_name_t)(void*, const uint8_t*, size_t);

// A backup, from `esker_backups`. The texts are valid during the call. Later versions may add fields
// at the end.
typedef struct {
  // Number of the backup in its directory.
  uint64_t number;
  // Directory of the backup, which is a store.
  const char *path;
  // Number of its tables, also of those that other backups share.
  uint64_t tables;
  // Size of these tables, in bytes.
  uint64_t table_bytes;
  // Time of its creation, in milliseconds since 1970, by the clock of the machine that made it;
  // -1 if it is unknown because of the `problem`.
  int64_t created_ms;
  // 1 if the store of the backup is known, 0 if not, because of the `problem`.
  uint8_t has_store;
  // Identity of the store that was backed up (`esker_store_id`); 0 if it is unknown.
  uint64_t store_id;
  // Directory of the store that was backed up, at that time; NULL if it is unknown.
  const char *store_path;
  // Why the identity of the store and the time could not be read; NULL if they could. The content
  // of the backup may be intact: a restore checks it.
  const char *problem;
} esker_backup_info_t;

// Receives a backup: state, backup.
typedef void (*esker_visit_backup_t)(void*, const esker_backup_info_t*);

// An event of a store. Its kind tells which fields it has; the others are 0 or NULL. The texts are
// valid during the call. Later versions may add fields at the end.
typedef struct {
  // `ESKER_EVENT_OPENED` and so on.
  int32_t kind;
  // Code of the failure; `ESKER_OK` without one.
  int32_t error_code;
  // The event as one sentence; never NULL.
  const char *text;
  // Message of the failure.
  const char *error;
  // Name of a keyspace, of a slot or of a job.
  const char *name;
  // New name of a keyspace.
  const char *new_name;
  // Why it happened.
  const char *cause;
  // What ends a stall.
  const char *clears;
  // Number of a flush or compaction, unique in this opening of the store.
  uint64_t job;
  // Tree of the tables; tree 0 holds the keyspace `default`.
  uint64_t tree;
  // Level of a table, or the uppermost level of inputs.
  uint64_t level;
  // Level of the output.
  uint64_t output_level;
  // Number of a table file or of a keyspace.
  uint64_t number;
  // Number of tables.
  uint64_t tables;
  // Number of inputs of a compaction.
  uint64_t inputs;
  // Number of compactions.
  uint64_t compactions;
  // Number of logs that were read.
  uint64_t logs;
  // Bytes, as the kind tells.
  uint64_t bytes;
  // Bytes of memory of memtables.
  uint64_t memory_bytes;
  // Bytes read.
  uint64_t read_bytes;
  // Bytes written.
  uint64_t written_bytes;
  // Duration, in nanoseconds.
  uint64_t duration_ns;
  // 1 if the store was opened for reading only.
  uint8_t read_only;
  // 1 if the store was closed before it was opened, and not ended by a crash.
  uint8_t is_closed_cleanly;
  // Of a stall, 1: writes wait until the cause is gone. 0: each write is only slowed.
  uint8_t is_stopped;
} esker_event_t;

// Receives an event: state, event.
typedef void (*esker_listener_t)(void*, const esker_event_t*);

// Returns the present, in milliseconds since 1970.
typedef uint64_t (*esker_clock_t)(void*);

// What writes wait for. Later versions may add fields at the end.
typedef struct {
  // Why writes wait, as a sentence without its end.
  char *cause;
  // What ends the wait, as a sentence without its end.
  char *clears;
  // Bytes that have to be written to tables before writes go on at full speed.
  uint64_t bytes;
  // Time since the wait began, in nanoseconds.
  uint64_t duration_ns;
  // 1: writes wait until the cause is gone. 0: each write is only slowed.
  uint8_t is_stopped;
} esker_stall_t;

// A change of a batch. Its kind tells which fields it has; the others are 0 or NULL. Later versions
// may add fields at the end.
typedef struct {
  // `ESKER_CHANGE_PUT` and so on.
  int32_t kind;
  // Name that the keyspace had then; never NULL.
  const char *keyspace;
  // New name of the keyspace.
  const char *new_name;
  // Name of the key order of the keyspace.
  const char *key_order;
  // The keyspace's own options, `name=value` a line.
  const char *options;
  // The key, or the start of a range.
  const uint8_t *key;
  // Length of the key.
  size_t key_len;
  // The value, the operand or the end of a range.
  const uint8_t *value;
  // Length of the value.
  size_t value_len;
  // Time at which the pair expires, in milliseconds since 1970; `ESKER_NEVER_MS` without one.
  uint64_t expires_ms;
} esker_change_t;

// A committed batch, or a part of one: changes that became visible together. The pairs of an ingest
// or a bulk load come in parts of about 1 MiB; all other batches are whole. A reader applies all
// parts of a batch or none, and confirms its position after the last part. When it begins again
// before that, the feed begins with the first part. Later versions may add fields at the end.
typedef struct {
  // Sequence number of the first operation.
  uint64_t first_sequence;
  // Sequence number of the last operation: the position after the batch.
  uint64_t sequence;
  // Checksum that tells batches with the same sequence number apart; not 0.
  uint64_t checksum;
  // Position before the batch.
  uint64_t previous;
  // Checksum of the batch that ends at `previous`; 0 if it is not known.
  uint64_t previous_checksum;
  // The changes, in order. A key may occur more than once; the last change counts.
  const esker_change_t *const *changes;
  // Number of changes.
  size_t changes_len;
  // Number of this part of the batch, from 0 on. The parts have equal sequence numbers and
  // checksums.
  uint64_t part;
  // 1 if more parts of the same batch follow, or 0.
  uint8_t continues;
} esker_change_batch_t;

// A slot of a store, from `esker_slots`. The texts are valid during the call. Later versions may
// add fields at the end.
typedef struct {
  // Name of the slot.
  const char *name;
  // The position that its reader has confirmed; 0 if the slot is damaged.
  uint64_t position;
  // Bytes of logs that are kept only for this slot and for slots that lag less.
  uint64_t lag_bytes;
  // Maximum of these bytes; `ESKER_LAG_UNLIMITED` without one.
  uint64_t lag_limit_bytes;
  // Why the slot keeps no logs any more; NULL if it does.
  const char *problem;
} esker_slot_info_t;

// Receives a slot: state, slot.
typedef void (*esker_visit_slot_t)(void*, const esker_slot_info_t*);

// What a fork shares with its parent. Later versions may add fields at the end.
typedef struct {
  // Identity of the fork.
  uint64_t store_id;
  // Number of tables and value files that the fork shares with the parent by hard links.
  uint64_t linked_files;
  // Size of these files, in bytes.
  uint64_t linked_bytes;
  // Number of tables and value files that were copied, because they could not be linked.
  uint64_t copied_files;
  // Size of these files, in bytes.
  uint64_t copied_bytes;
} esker_fork_report_t;

// Receives a store that a fork descends from: state, its identity, its name (NULL if it has none),
// and its sequence number at the fork.
typedef void (*esker_visit_ancestor_t)(void*, uint64_t, const char*, uint64_t);

// A key whose value, or whose time of expiry, is not the same in two compared stores. Later
// versions may add fields at the end.
typedef struct {
  // Name of the keyspace.
  const char *keyspace;
  // The key.
  const uint8_t *key;
  // Length of the key.
  size_t key_len;
  // The value in the first store; NULL if it does not have the key.
  const uint8_t *old_value;
  // Length of the value in the first store.
  size_t old_value_len;
  // Time at which the pair of the first store expires, in milliseconds since 1970;
  // `ESKER_NEVER_MS` if it does not.
  uint64_t old_expires_ms;
  // The value in the second store; NULL if it does not have the key.
  const uint8_t *new_value;
  // Length of the value in the second store.
  size_t new_value_len;
  // Time at which the pair of the second store expires; `ESKER_NEVER_MS` if it does not.
  uint64_t new_expires_ms;
} esker_difference_t;

// A finished file of a sorted writer. Later versions may add fields at the end.
typedef struct {
  // Number of entries.
  uint64_t entries;
  // Length of the file in bytes.
  uint64_t bytes;
  // Smallest key; empty without entries.
  const uint8_t *smallest;
  // Length of the smallest key.
  size_t smallest_len;
  // Largest key; empty without entries.
  const uint8_t *largest;
  // Length of the largest key.
  size_t largest_len;
} esker_sorted_file_t;

// What an ingest or a bulk load did. Later versions may add fields at the end.
typedef struct {
  // The sequence number of all entries; 0 if there was none.
  uint64_t sequence;
  // Number of tables that were installed.
  uint64_t files;
  // Number of entries in them.
  uint64_t entries;
  // Bytes of the tables.
  uint64_t bytes;
  // 1 if the call waited for a flush of what was written before.
  uint8_t flushed;
  // Number of these tables at each level.
  uint64_t levels[8];
} esker_ingest_report_t;

// Gives the next pair of a bulk load: state, the places for the key, its length, the value and its
// length. Returns `ESKER_SOURCE_PAIR`, `ESKER_SOURCE_END` or `ESKER_SOURCE_FAILED`. The buffers are
// read before the next call.
typedef int32_t (*esker_source_t)(void*, const uint8_t**, size_t*, const uint8_t**, size_t*);

// Gives a master key: state, the name of the key that is needed (NULL: the key of a new store), the
// place for its `ESKER_KEY_BYTES` bytes, the place for its name, and the place for a reason. Returns 1
// if it has stored the bytes. It may then store a name, a UTF-8 string of 1 to 64 bytes allocated with
// `malloc`; without one the key is named by its fingerprint. Returns 0 if it has no such key: it may
// then store a reason, a UTF-8 string allocated with `malloc`.
typedef uint8_t (*esker_key_source_t)(void*, const char*, uint8_t*, char**, char**);

// Result of `esker_rekey`. Later versions may add fields at the end.
typedef struct {
  // Number of data keys that files of the store still need, without the new one.
  uint64_t data_keys;
  // Number of data keys that no file needed, and that were removed.
  uint64_t removed_data_keys;
  // Name of the master key before.
  char from[65];
  // Name of the master key now.
  char to[65];
} esker_rekey_report_t;

// How far a follower is behind. Later versions may add fields at the end.
typedef struct {
  // Position of the newest view: the sequence number of the last operation that it shows.
  uint64_t position;
  // Sequence number of the last operation that the store has now.
  uint64_t newest;
  // Number of sequence numbers between the two.
  uint64_t operations;
  // Time since the begin of the last catch-up that did not fail, in milliseconds. The newest view
  // shows every write that was older than this.
  uint64_t age_ms;
  // `ESKER_OK`, or the code with which the last catch-up failed.
  int32_t error_code;
} esker_follower_lag_t;

// Gives the next bytes of a value: state, a buffer and its length, which is at least 1. Stores 1 byte or
// more there and returns their number; returns 0 at the end of the value, and a negative number if the
// value is not to be written.
typedef int64_t (*esker_read_t)(void*, uint8_t*, size_t);

// A table file of a store, from `esker_tables`. The keys are valid during the call. Later versions may
// add fields at the end.
typedef struct {
  // Number of the file, which is also its name.
  uint64_t number;
  // Tree of the file; tree 0 holds the keyspace `default`. Keys of other trees begin with four bytes
  // that stand for their keyspace.
  uint64_t tree;
  // Level of the file.
  uint64_t level;
  // Size of the file, in bytes.
  uint64_t size_bytes;
  // Number of entries: puts, merges and deletes.
  uint64_t entries;
  // Number of deletes among the entries.
  uint64_t deletes;
  // Number of range deletions.
  uint64_t range_deletes;
  // Size of the keys and values before compression, in bytes.
  uint64_t raw_bytes;
  // The first key.
  const uint8_t *smallest;
  // Length of the first key.
  size_t smallest_len;
  // The last key.
  const uint8_t *largest;
  // Length of the last key.
  size_t largest_len;
} esker_table_t;

// Receives a table: state, table.
typedef void (*esker_visit_table_t)(void*, const esker_table_t*);

// A description of an option, from `esker_options_visit`. The texts are valid during the call. Later
// versions may add fields at the end.
typedef struct {
  // Name, as `esker_options_set` takes it.
  const char *name;
  // Unit of a number; empty for a name or a switch.
  const char *unit;
  // Default, as text.
  const char *default_value;
  // Values that it can have, as text, such as `1 to 8, auto`.
  const char *range;
  // What it does, as Markdown.
  const char *description;
  // 1 if it can be changed while the store is open (`esker_set_option`).
  uint8_t is_changeable;
  // 1 if a keyspace can have a value of its own (`esker_keyspace_options_set`).
  uint8_t is_of_keyspaces;
} esker_option_t;

// Receives the description of an option: state, option.
typedef void (*esker_visit_option_t)(void*, const esker_option_t*);

// Takes bytes: state, the bytes and their number. Returns 0 if it took all, and any other number if
// it failed.
typedef int32_t (*esker_write_bytes_t)(void*, const uint8_t*, size_t);

// Hears how far a verification is: state, bytes read, and bytes of all files. The last is an estimate.
typedef void (*esker_progress_t)(void*, uint64_t, uint64_t);

// What a verification has read. Later versions may add fields at the end.
typedef struct {
  // Format version of the store.
  uint32_t format_version;
  // Number of files with problems.
  uint32_t problems;
  // Number of table files.
  uint64_t files;
  // Number of value files.
  uint64_t value_files;
  // Number of logs.
  uint64_t logs;
  // Bytes of tables, value files, logs and the manifest.
  uint64_t bytes;
  // Number of entries in tables, with old versions and tombstones.
  uint64_t entries;
  // Number of range tombstones in tables.
  uint64_t range_deletes;
} esker_verify_report_t;

// What a repair has read and kept. Later versions may add fields at the end.
typedef struct {
  // 1 if the manifest was readable, or 0. Only the manifest says which tables are valid and in
  // which order.
  uint8_t manifest_readable;
  // Number of sentences in `*lost`.
  uint32_t losses;
  // Number of tables read.
  uint64_t tables;
  // Number of logs read.
  uint64_t logs;
  // Number of pairs in the repaired store.
  uint64_t pairs;
  // Maximum number of entries in memory at once.
  uint64_t entries_held_max;
} esker_repair_report_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version, such as `0.1.0`. It must not be freed.
const char *esker_version(void);

// Frees a text or a value returned by a function of this interface; NULL is allowed.
void esker_free(void *memory);

// Creates options with the defaults.
esker_options_t *esker_options_create(void);

// Frees options. Stores opened with them are not affected.
void esker_options_destroy(esker_options_t *options);

// Sets an option, by name or alias, from text: for example `"block_size"` to `"8KiB"`.
int32_t esker_options_set(esker_options_t *options,
                          const char *name,
                          const char *value,
                          char **message);

// Returns the value of an option as text, which must be freed with `esker_free`; NULL for an
// unknown name.
char *esker_options_get(const esker_options_t *options, const char *name);

// Sets the key order of the keyspace `default` to `compare`, which returns a negative number, zero or
// a positive number. The order of a given name must never change. Each call, which may come from any
// thread, receives `state`. `destructor`, which may be NULL, receives `state` at the end, also if this
// call fails.
//
// `equal_is_identical` other than 0 promises that keys that compare as equal always have the same
// bytes. Then tables get Bloom filters, which make gets of missing keys and of keys in deep levels
// cheaper. With 0, which is always right, they get none. A wrong promise loses keys for reads.
int32_t esker_options_set_comparator(esker_options_t *options,
                                     void *state,
                                     esker_destructor_t destructor,
                                     esker_compare_t compare,
                                     uint8_t equal_is_identical,
                                     esker_name_t name,
                                     char **message);

// Adds a key order that keyspaces of the store may have, with the arguments of
// `esker_options_set_comparator`. A keyspace names it (`esker_keyspace_options_set_key_order`). A
// store that ever had a keyspace of this order is opened and repaired only with the order among
// its options. Of several orders with one name, the first is used.
int32_t esker_options_add_comparator(esker_options_t *options,
                                     void *state,
                                     esker_destructor_t destructor,
                                     esker_compare_t compare,
                                     uint8_t equal_is_identical,
                                     esker_name_t name,
                                     char **message);

// Sets the key order of the keyspace `default` by its name: `esker.bytewise` (the default),
// `esker.reverse`, or the name of a comparator that was added to these options before
// (`esker_options_add_comparator`). A store keeps the order of its creation: an opening with another
// one fails with `ESKER_INCOMPATIBLE`. Fails with `ESKER_INVALID_ARGUMENT` for any other name.
int32_t esker_options_set_key_order(esker_options_t *options,
                                    const char *name,
                                    char **message);

// Replaces the Bloom filters of new tables by filters of the caller, in all keyspaces. Default: Bloom
// filters with the option `filter_bits_per_key`, which has no effect then.
//
// `create` makes the filter of a table that is written. It gets `state`, an array of the keys of the
// table, an array of their lengths in bytes, the number of keys, and a place for the length of the
// filter, which holds 0. The keys are distinct and in key order, and those that the table deletes are
// among them; the number is 0 if the table only has range deletions. It returns the filter,
// allocated with `malloc`, and stores its length in bytes. The library copies and frees it. A filter
// without bytes may be NULL. A filter stays in memory while its table is open; 10 bits per key are
// usual.
//
// `may_match` gets `state`, a key, its length in bytes, a filter that `create` has made, and its
// length. It returns 0 if no key of the filter is equal to the key in the key order. A get then does
// not read the table. Any other value means that the key may be among them. If it returns 0 for a key
// that is among them, gets do not find it, and `esker_verify` reports damage. It must allow a filter
// without bytes, if `create` makes such ones.
//
// The keys of a keyspace other than `default` have four bytes before them, in both functions: the
// same for all keys of the keyspace, and others for each keyspace.
//
// `name` returns a permanent name of the format of the filters, which each table keeps. At an opening
// with functions of another name, or with none, a table with a filter of the caller is read as if it
// may have every key. Bloom filters of existing tables are used in any case.
//
// The functions are called from any thread, by several at once. They must return, must not throw or
// jump out, and must not use the store: its functions fail with `ESKER_INVALID_ARGUMENT` then. Their
// arguments are valid only during the call. `destructor`, which may be NULL, receives `state` once:
// after the options and every store that was opened with them are freed, from any thread, or at once
// if this call fails. Fails with `ESKER_INVALID_ARGUMENT` if `create`, `may_match` or `name` is NULL,
// or `name` returns NULL. A later call replaces the functions of an earlier one.
int32_t esker_options_set_filter(esker_options_t *options,
                                 void *state,
                                 esker_destructor_t destructor,
                                 esker_create_filter_t create,
                                 esker_may_match_t may_match,
                                 esker_name_t name,
                                 char **message);

// Adds a merge operator that the store and its keyspaces may have, by its name
// (`esker_options_set_merge_operator`, `esker_keyspace_options_set_merge_operator`). The name is
// permanent, has 1 to 255 bytes, and is not that of a built-in operator.
//
// `full_merge` makes a value of an existing value and operands. `partial_merge`, which may be
// NULL, makes one operand of several; without it, operands are kept until a compaction reaches the
// value below them. Reads, flushes and compactions call both, on any thread and on several at
// once, for operands in any grouping that keeps their order. The result must depend on the
// arguments alone, and not on the grouping. The functions must return, must not throw or jump out,
// and must not use the store: its functions fail with `ESKER_INVALID_ARGUMENT` then. Their
// arguments are valid only during the call.
//
// If `full_merge` returns NULL, the read fails with `ESKER_INVALID_ARGUMENT` and the reason; a
// flush or compaction keeps the operands. Each call receives `state`. `destructor`, which may be
// NULL, receives `state` once: after the options and every store that uses the operator are freed,
// from any thread, or at once if this call fails.
int32_t esker_options_add_merge_operator(esker_options_t *options,
                                         void *state,
                                         esker_destructor_t destructor,
                                         esker_full_merge_t full_merge,
                                         esker_partial_merge_t partial_merge,
                                         esker_name_t name,
                                         char **message);

// Sets the merge operator of the keyspace `default` by its name: a built-in one (`add_i64`,
// `add_u64`, `max`, `min`, `append`, `append(,)`, `set_union`, `set_union(,)`), or one that was
// added to these options before. Default: none, so merges are refused. The store keeps the name
// with its first opening and cannot be opened with another operator. It need not be set again if
// it is built in. Fails with `ESKER_INVALID_ARGUMENT` for any other name.
int32_t esker_options_set_merge_operator(esker_options_t *options,
                                         const char *name,
                                         char **message);

// Adds a compaction filter that the store and its keyspaces may have, by its name
// (`esker_options_set_compaction_filter`, `esker_keyspace_options_set_compaction_filter`).
//
// Compactions call `filter` for pairs that no snapshot sees, on threads of the store. A pair may
// be passed several times, or never; merge operands are not passed. The rules for `filter`,
// `state` and `destructor` are those of `esker_options_add_merge_operator`. If `filter` returns an
// unknown decision, or replaces a value by NULL, its compaction calls it no more and keeps the
// remaining pairs.
int32_t esker_options_add_compaction_filter(esker_options_t *options,
                                            void *state,
                                            esker_destructor_t destructor,
                                            esker_compaction_filter_t filter,
                                            esker_name_t name,
                                            char **message);

// Sets the compaction filter of the keyspace `default` by its name: one that was added to these
// options before. It is not stored. Default: none. Fails with `ESKER_INVALID_ARGUMENT` for any
// other name.
int32_t esker_options_set_compaction_filter(esker_options_t *options,
                                            const char *name,
                                            char **message);

// Creates an empty in-memory file system.
esker_memory_t *esker_memory_create(void);

// Frees the handle of the file system. Open stores in it stay open.
void esker_memory_destroy(esker_memory_t *memory);

// Selects `memory` instead of the disk for stores; NULL selects the disk again.
void esker_options_set_memory(esker_options_t *options, const esker_memory_t *memory);

// Opens the store in the directory `path`. Creates it if it is missing, unless the option
// `create_if_missing` is off. NULL `options` select the defaults.
int32_t esker_open(const char *path,
                   const esker_options_t *options,
                   esker_db_t **db,
                   char **message);

// Opens the current state of a store, read-only. The store may be open elsewhere.
int32_t esker_open_read_only(const char *path,
                             const esker_options_t *options,
                             esker_db_t **db,
                             char **message);

// Closes the store and waits for running calls. Later calls, also on its keyspaces and
// transactions, fail with `ESKER_CLOSED`, as does a call that waits for a lock of another
// transaction. Transactions that have not ended are never committed. Reads of a snapshot fail with
// `ESKER_CLOSED` too. Existing iterators stay readable until the store is opened again, removed or
// repaired. After that they may fail, but they never return wrong data. Closing twice is allowed.
int32_t esker_close(const esker_db_t *db, char **message);

// Frees the handle, and closes the store if it is open. No other call may be running on it.
void esker_db_destroy(esker_db_t *db);

// Removes a store that is not open: its files, then the directory if it is empty.
int32_t esker_destroy_store(const char *path, const esker_options_t *options, char **message);

// Rebuilds a store that is not open from the intact parts of its files. Sets `*lost` to a
// description of the losses, one per line, which must be freed with `esker_free`, or to NULL if
// nothing was lost or the call failed. `lost` may be NULL.
int32_t esker_repair(const char *path, const esker_options_t *options, char **lost, char **message);

// Writes all memtables to tables and waits until that is done.
int32_t esker_flush(const esker_db_t *db, char **message);

// Makes all earlier logged writes survive a power loss. Writes without a log
// (`ESKER_DURABILITY_NONE`) need `esker_flush`.
int32_t esker_sync(const esker_db_t *db, char **message);

// Waits until no flush or compaction is due.
int32_t esker_wait_idle(const esker_db_t *db, char **message);

// Compacts the keys between `start` and `end` into the deepest level and waits until that is done.
// A NULL `start` or `end` means no bound.
int32_t esker_compact_range(const esker_db_t *db,
                            const void *start,
                            size_t start_len,
                            const void *end,
                            size_t end_len,
                            char **message);

// Sets `*size_bytes` to the approximate size of the keys from `start` (inclusive) to `end`
// (exclusive) in the tables, in bytes. Data that is only in memory is not counted. It is 0 if `end`
// is not after `start`. `esker_keyspace_approximate_size` does so for another keyspace than `default`.
int32_t esker_approximate_size(const esker_db_t *db,
                               const void *start,
                               size_t start_len,
                               const void *end,
                               size_t end_len,
                               uint64_t *size_bytes,
                               char **message);

// Creates a second store with the same content in `path`, by hard links. `path` must not exist.
int32_t esker_checkpoint(const esker_db_t *db, const char *path, char **message);

// Raises the format version of the store to `to`: 2 is the newest one. A store keeps the version with
// which it was created (option `format_version`), and earlier releases can open it, until this is
// called. Afterwards they refuse it. The version cannot be lowered. `esker_openmetrics` has the
// present one. A crash leaves the old or the new version. Fails with `ESKER_INVALID_ARGUMENT` if `to`
// is unknown or older than the version of the store.
int32_t esker_upgrade_format(const esker_db_t *db,
                             uint32_t to,
                             char **message);

// Changes an option of the open store. Fails if the option is fixed at open.
int32_t esker_set_option(const esker_db_t *db, const char *name, const char *value, char **message);

// Returns a property as text, which must be freed with `esker_free`; NULL for an unknown name or a
// closed store. The properties are `esker.stats`, `esker.option.NAME`, and LevelDB's
// `leveldb.stats`, `leveldb.sstables`, `leveldb.num-files-at-levelN` and
// `leveldb.approximate-memory-usage`.
char *esker_property(const esker_db_t *db, const char *name);

// Sets `*text` to the metrics of the store in the OpenMetrics text format 1.0, with the content type
// `application/openmetrics-text; version=1.0.0; charset=utf-8`. `docs/metrics.md` lists them. The
// text must be freed with `esker_free`.
int32_t esker_openmetrics(const esker_db_t *db,
                          char **text,
                          char **message);

// Reads and checks every byte of the store. Fails with `ESKER_CORRUPTION` and a message with one
// line per problem.
int32_t esker_verify(const esker_db_t *db, char **message);

// Sets a key to a value.
int32_t esker_put(const esker_db_t *db,
                  const void *key,
                  size_t key_len,
                  const void *value,
                  size_t value_len,
                  int32_t durability,
                  char **message);

// Deletes a key. A missing key is not a failure.
int32_t esker_delete(const esker_db_t *db,
                     const void *key,
                     size_t key_len,
                     int32_t durability,
                     char **message);

// Deletes a key, and sets `*existed` to 1 if it existed, else to 0. No write of another thread
// comes between the check and the delete. The check may read a file, so `esker_delete` is cheaper.
// `existed` may be NULL.
int32_t esker_remove(const esker_db_t *db,
                     const void *key,
                     size_t key_len,
                     uint8_t *existed,
                     char **message);

// Deletes the keys from `start` (inclusive) to `end` (exclusive) with one range deletion.
int32_t esker_delete_range(const esker_db_t *db,
                           const void *start,
                           size_t start_len,
                           const void *end,
                           size_t end_len,
                           int32_t durability,
                           char **message);

// Applies a batch atomically: its operations become visible together, and a crash keeps all or
// none of them. The batch is not changed.
int32_t esker_write(const esker_db_t *db,
                    const esker_batch_t *batch,
                    int32_t durability,
                    char **message);

// Does the same as `esker_write`, but waits at most `wait_ms_max` milliseconds for memory while
// writes are stalled (`esker_stall`). After that it fails with `ESKER_BUSY`, whose message has the
// cause, and nothing was written. It may take longer than that: a write that waits for nothing,
// and the sync of the log, are not interrupted.
int32_t esker_write_within(const esker_db_t *db,
                           const esker_batch_t *batch,
                           int32_t durability,
                           uint64_t wait_ms_max,
                           char **message);

// Creates an empty batch.
esker_batch_t *esker_batch_create(void);

// Frees a batch.
void esker_batch_destroy(esker_batch_t *batch);

// Removes all operations and keeps the allocated memory.
void esker_batch_clear(esker_batch_t *batch);

// Returns the number of operations; 0 for NULL.
size_t esker_batch_count(const esker_batch_t *batch);

// Returns the memory of the operations in bytes; 0 for NULL.
size_t esker_batch_size_bytes(const esker_batch_t *batch);

// Adds a put. If a key or value is too long, the write of the batch fails.
int32_t esker_batch_put(esker_batch_t *batch,
                        const void *key,
                        size_t key_len,
                        const void *value,
                        size_t value_len,
                        char **message);

// Adds a delete.
int32_t esker_batch_delete(esker_batch_t *batch,
                           const void *key,
                           size_t key_len,
                           char **message);

// Adds a range deletion from `start` (inclusive) to `end` (exclusive).
int32_t esker_batch_delete_range(esker_batch_t *batch,
                                 const void *start,
                                 size_t start_len,
                                 const void *end,
                                 size_t end_len,
                                 char **message);

// Adds a put in a keyspace. The write of the batch fails if the keyspace is of another store or of
// another opening, or was dropped.
int32_t esker_batch_put_in(esker_batch_t *batch,
                           const esker_keyspace_t *keyspace,
                           const void *key,
                           size_t key_len,
                           const void *value,
                           size_t value_len,
                           char **message);

// Adds a delete in a keyspace; see `esker_batch_put_in`.
int32_t esker_batch_delete_in(esker_batch_t *batch,
                              const esker_keyspace_t *keyspace,
                              const void *key,
                              size_t key_len,
                              char **message);

// Adds a range deletion in a keyspace, from `start` (inclusive) to `end` (exclusive); see
// `esker_batch_put_in`.
int32_t esker_batch_delete_range_in(esker_batch_t *batch,
                                    const esker_keyspace_t *keyspace,
                                    const void *start,
                                    size_t start_len,
                                    const void *end,
                                    size_t end_len,
                                    char **message);

// Appends the operations of `other` to `batch`. Both may be the same batch; otherwise `other` is
// not changed.
int32_t esker_batch_append(esker_batch_t *batch, const esker_batch_t *other, char **message);

// Calls a function for every operation, in order. With a NULL function, operations of its kind are
// skipped, and merges always are. `put` also receives the puts of pairs that expire. The functions
// do not learn the keyspace of an operation, nor a time to live, so what they build is not always an
// equal batch; `esker_batch_visit_keyspaces` passes all of an operation.
// To build an equal batch, add each put with its `ttl_ms`, by `esker_batch_put_with_ttl`.
void esker_batch_iterate(const esker_batch_t *batch,
                         void *state,
                         esker_visit_put_t put,
                         esker_visit_delete_t deleted,
                         esker_visit_delete_range_t range_deleted);

// Calls `visit` for every operation, in order. A put into a keyspace with a time to live is an
// `ESKER_OPERATION_PUT_WITH_TTL`, and a put with the time to live `ESKER_NEVER_MS` an
// `ESKER_OPERATION_PUT`. Does nothing if `batch` or `visit` is NULL. `visit` must not change the
// batch.
void esker_batch_visit_keyspaces(const esker_batch_t *batch,
                                 void *state,
                                 esker_visit_operation_t visit);

// Creates a snapshot of the current state.
int32_t esker_snapshot_create(const esker_db_t *db, esker_snapshot_t **snapshot, char **message);

// Frees a snapshot.
void esker_snapshot_destroy(esker_snapshot_t *snapshot);

// Returns the sequence number of the last operation that a snapshot shows, as in the change feed; 0 for
// NULL.
uint64_t esker_snapshot_position(const esker_snapshot_t *snapshot);

// Reads the value of a key: the current one, or the one in `snapshot` if that is not NULL. Sets
// `*value` to a copy, which must be freed with `esker_free`, or to NULL if the key is missing. A
// missing key is not a failure.
int32_t esker_get(const esker_db_t *db,
                  const esker_snapshot_t *snapshot,
                  const void *key,
                  size_t key_len,
                  uint8_t **value,
                  size_t *value_len,
                  char **message);

// Does the same as `esker_get`. With `fill_cache` 0, the read inserts no blocks into the cache, so
// that a read of rarely used pairs evicts no others.
int32_t esker_get_with(const esker_db_t *db,
                       const esker_snapshot_t *snapshot,
                       uint8_t fill_cache,
                       const void *key,
                       size_t key_len,
                       uint8_t **value,
                       size_t *value_len,
                       char **message);

// Reads the value of a key and passes it to `visit` without a copy. It is not called if the key
// is missing. With `fill_cache` 0, the read inserts no blocks into the cache.
int32_t esker_get_visit(const esker_db_t *db,
                        const esker_snapshot_t *snapshot,
                        uint8_t fill_cache,
                        const void *key,
                        size_t key_len,
                        void *state,
                        esker_visit_value_t visit,
                        char **message);

// Reads the values of `count` keys as of one moment: the present one, or that of `snapshot` if that
// is not NULL. With `fill_cache` 0, the reads insert no blocks into the cache. `keys` and `key_lens`
// have the keys. `values` and `value_lens` have `count` places each. A place gets a copy of the
// value, which must be freed with `esker_free`, or NULL if the key is missing. A failed call sets
// every place to NULL, unless one of the last two arrays is NULL.
int32_t esker_multi_get(const esker_db_t *db,
                        const esker_snapshot_t *snapshot,
                        uint8_t fill_cache,
                        size_t count,
                        const void *const *keys,
                        const size_t *key_lens,
                        uint8_t **values,
                        size_t *value_lens,
                        char **message);

// Sets `*found` to 1 if the store has the key now, or has it in `snapshot` if that is not NULL, else
// to 0.
int32_t esker_contains(const esker_db_t *db,
                       const esker_snapshot_t *snapshot,
                       const void *key,
                       size_t key_len,
                       uint8_t *found,
                       char **message);

// Creates an iterator over the keys from `start` (inclusive) to `end` (exclusive); NULL means no
// bound. It reads the store's state at its creation, or the given snapshot if that is not NULL. It
// has no position until the first seek. With `fill_cache` 0, its reads insert no blocks into the
// cache.
int32_t esker_iter_create(const esker_db_t *db,
                          const esker_snapshot_t *snapshot,
                          const void *start,
                          size_t start_len,
                          const void *end,
                          size_t end_len,
                          uint8_t fill_cache,
                          esker_iter_t **iter,
                          char **message);

// Does the same as `esker_iter_create`, over the keys that start with `prefix`; all keys if it is
// empty. Fails with `ESKER_INVALID_ARGUMENT` under a key order of the program, which need not keep such
// keys together.
int32_t esker_iter_create_prefix(const esker_db_t *db,
                                 const esker_snapshot_t *snapshot,
                                 const void *prefix,
                                 size_t prefix_len,
                                 uint8_t fill_cache,
                                 esker_iter_t **iter,
                                 char **message);

// Frees an iterator. An iterator of a transaction is not freed within a comparator or filter of
// its store.
void esker_iter_destroy(esker_iter_t *iter);

// Returns 1 if the iterator is at a key; 0 past either end, after a failure, and for NULL.
uint8_t esker_iter_valid(const esker_iter_t *iter);

// Moves to the first key.
void esker_iter_seek_to_first(esker_iter_t *iter);

// Moves to the last key.
void esker_iter_seek_to_last(esker_iter_t *iter);

// Moves to the first key at or after `key`.
void esker_iter_seek(esker_iter_t *iter, const void *key, size_t key_len);

// Moves to the last key at or before `key`.
void esker_iter_seek_for_prev(esker_iter_t *iter, const void *key, size_t key_len);

// Moves to the next key. Does nothing if the iterator is not at a key.
void esker_iter_next(esker_iter_t *iter);

// Moves to the previous key. Does nothing if the iterator is not at a key.
void esker_iter_prev(esker_iter_t *iter);

// Returns the current key, valid until the iterator is moved or destroyed; empty if it is not at a
// key.
const uint8_t *esker_iter_key(const esker_iter_t *iter, size_t *key_len);

// Returns the current value, valid until the iterator is moved or destroyed; empty if it is not at
// a key.
const uint8_t *esker_iter_value(const esker_iter_t *iter, size_t *value_len);

// Returns the time at which the current pair expires, in milliseconds since 1970; `ESKER_NEVER_MS` if
// it does not expire, if the iterator is not at a key, for NULL, and always for an iterator of a
// transaction.
uint64_t esker_iter_expires_ms(const esker_iter_t *iter);

// Returns the iterator's failure, which stays until the next seek; `ESKER_OK` if there is none,
// also past either end.
int32_t esker_iter_failure(const esker_iter_t *iter, char **message);

// Adds operations to a batch from `packed_len` bytes at `packed`, all or none, in one call. An
// operation is its kind (`ESKER_OPERATION_PUT` and so on, one byte); the number of its keyspace,
// the length of its key or start, and that of its value, end or operand (0 for a delete), four
// bytes each; for `ESKER_OPERATION_PUT_WITH_TTL` the time to live in milliseconds, eight bytes;
// then the key or start, and the value, end or operand. Numbers are little-endian. The next
// operation follows at once. Keyspace 0 is `default`, and keyspace `n` is that of
// `keyspaces[n - 1]`; `keyspaces` has `keyspace_count` handles. Fails with
// `ESKER_INVALID_ARGUMENT` if the bytes are no operations, and names the first wrong one.
int32_t esker_batch_add_packed(esker_batch_t *batch,
                               const esker_keyspace_t *const *keyspaces,
                               size_t keyspace_count,
                               const void *packed,
                               size_t packed_len,
                               char **message);

// Copies pairs from the iterator's position on into `buffer`, and moves past them: forward, or
// backward with a `backward` other than 0. Ends after `rows_max` pairs, or when the next pair does
// not fit into `buffer_len` bytes. A pair is the length of its key and that of its value, four
// bytes each, little-endian, then the key and the value. Sets `*rows` to the number of pairs, and
// `*bytes` to the size of what was copied. If the first pair does not fit, `*rows` is 0 and
// `*bytes` is the size that it needs. Both are 0 past either end. Fails with the iterator's
// failure, but first returns the pairs before it.
int32_t esker_iter_read(esker_iter_t *iter,
                        uint8_t backward,
                        size_t rows_max,
                        uint8_t *buffer,
                        size_t buffer_len,
                        size_t *rows,
                        size_t *bytes,
                        char **message);

// Creates options of a keyspace. Those that are not set are the store's; the key order is
// bytewise.
esker_keyspace_options_t *esker_keyspace_options_create(void);

// Frees options of a keyspace. Keyspaces opened with them are not affected.
void esker_keyspace_options_destroy(esker_keyspace_options_t *options);

// Sets an option of a keyspace, by name or alias, from text: one that a keyspace can have of its own
// by `docs/options.md`, or `merge_operator`, `compaction_filter` or `ttl_ms`. Any other option is a
// failure.
int32_t esker_keyspace_options_set(esker_keyspace_options_t *options,
                                   const char *name,
                                   const char *value,
                                   char **message);

// Sets the key order by its name: `esker.bytewise`, `esker.reverse`, or the name of a comparator
// in the options with which the store was opened. `esker_keyspace_open` fails for any other name.
int32_t esker_keyspace_options_set_key_order(esker_keyspace_options_t *options,
                                             const char *name,
                                             char **message);

// Sets the merge operator by its name: a built-in one (see `esker_options_set_merge_operator`), or
// one that was added to the options with which the store is opened
// (`esker_options_add_merge_operator`). Default: none, so merges are refused.
// `esker_keyspace_open` fails for any other name.
int32_t esker_keyspace_options_set_merge_operator(esker_keyspace_options_t *options,
                                                  const char *name,
                                                  char **message);

// Sets the compaction filter by its name, which was added to the options with which the store is
// opened (`esker_options_add_compaction_filter`). Default: none. `esker_keyspace_open` fails for
// any other name.
int32_t esker_keyspace_options_set_compaction_filter(esker_keyspace_options_t *options,
                                                     const char *name,
                                                     char **message);

// Sets the time to live, in milliseconds, of pairs that are put without one. The default,
// `ESKER_NEVER_MS`, means that they do not expire. Merge operands never expire.
int32_t esker_keyspace_options_set_ttl_ms(esker_keyspace_options_t *options,
                                          uint64_t ttl_ms,
                                          char **message);

// Opens the keyspace `name`, and creates it if it does not exist. NULL `options` select the
// defaults. Fails with `ESKER_INVALID_ARGUMENT` if the keyspace exists with another key order or
// other options, and for a name that is empty, longer than 255 bytes, not UTF-8, or has control
// characters. The keyspace `default` always exists; it has the store's key order and options, and
// holds the keys of the functions without a keyspace.
int32_t esker_keyspace_open(const esker_db_t *db,
                            const char *name,
                            const esker_keyspace_options_t *options,
                            esker_keyspace_t **keyspace,
                            char **message);

// Opens the keyspace `name`, whatever its options are. Sets `*keyspace` to NULL if there is no
// such keyspace, which is not a failure.
int32_t esker_keyspace_find(const esker_db_t *db,
                            const char *name,
                            esker_keyspace_t **keyspace,
                            char **message);

// Frees the handle of a keyspace. The keyspace stays. No other call may be running on the handle.
void esker_keyspace_close(esker_keyspace_t *keyspace);

// Sets `*names` to the names of all keyspaces, one per line: `default`, then the others in
// alphabetical order. The text must be freed with `esker_free`.
int32_t esker_keyspaces(const esker_db_t *db, char **names, char **message);

// Gives the keyspace `name` another name. Its handles stay valid. Fails with `ESKER_NOT_FOUND` if
// there is no such keyspace, and with `ESKER_INVALID_ARGUMENT` for a `new_name` that is in use or
// not allowed, and for the keyspace `default`.
int32_t esker_keyspace_rename(const esker_db_t *db,
                              const char *name,
                              const char *new_name,
                              char **message);

// Drops the keyspace `name` with all its keys. The space is freed in the background. Existing
// iterators go on; every other use of its handles fails with `ESKER_NOT_FOUND`, except
// `esker_keyspace_close` and the functions that return its name, its number, its tree, its key order
// and its own options. The keyspace `default` cannot be dropped.
int32_t esker_keyspace_drop(const esker_db_t *db,
                            const char *name,
                            char **message);

// Returns the name of a keyspace, which must be freed with `esker_free`; NULL for NULL.
char *esker_keyspace_name(const esker_keyspace_t *keyspace);

// Returns the number of a keyspace in its store, which no other keyspace ever has; 0 for the
// keyspace `default` and for NULL.
uint32_t esker_keyspace_id(const esker_keyspace_t *keyspace);

// Returns the name of the key order of a keyspace, which must be freed with `esker_free`; NULL for
// NULL.
char *esker_keyspace_key_order(const esker_keyspace_t *keyspace);

// Returns the options that a keyspace got when it was created, `name=value` a line, by name: what
// `esker_keyspace_options_set` takes to make an equal keyspace, besides the key order. The other
// options are the store's. The text is empty for the keyspace `default`. It must be freed with
// `esker_free`; NULL for NULL.
char *esker_keyspace_own_options(const esker_keyspace_t *keyspace);

// Returns the number of the tree that holds the keys of a keyspace, as in `esker_event_t`. Keyspaces
// with the same key order and the same options share a tree. 0 is the tree of the keyspace `default`
// alone; 0 for NULL.
uint32_t esker_keyspace_tree(const esker_keyspace_t *keyspace);

// Sets a key of a keyspace to a value.
int32_t esker_keyspace_put(const esker_keyspace_t *keyspace,
                           const void *key,
                           size_t key_len,
                           const void *value,
                           size_t value_len,
                           int32_t durability,
                           char **message);

// Deletes a key of a keyspace. A missing key is not a failure.
int32_t esker_keyspace_delete(const esker_keyspace_t *keyspace,
                              const void *key,
                              size_t key_len,
                              int32_t durability,
                              char **message);

// Deletes a key of a keyspace, and sets `*existed` to 1 if it existed, else to 0. No write of
// another thread comes between the check and the delete. The check may read a file, so
// `esker_keyspace_delete` is cheaper. `existed` may be NULL.
int32_t esker_keyspace_remove(const esker_keyspace_t *keyspace,
                              const void *key,
                              size_t key_len,
                              uint8_t *existed,
                              char **message);

// Deletes the keys of a keyspace from `start` (inclusive) to `end` (exclusive) with one range
// deletion.
int32_t esker_keyspace_delete_range(const esker_keyspace_t *keyspace,
                                    const void *start,
                                    size_t start_len,
                                    const void *end,
                                    size_t end_len,
                                    int32_t durability,
                                    char **message);

// Deletes all keys of a keyspace with one range deletion. Fails with `ESKER_INVALID_ARGUMENT` for
// the keyspace `default`, which has no greatest key.
int32_t esker_keyspace_clear(const esker_keyspace_t *keyspace, char **message);

// Reads the value of a key of a keyspace. The arguments after `keyspace` are those of `esker_get`.
int32_t esker_keyspace_get(const esker_keyspace_t *keyspace,
                           const esker_snapshot_t *snapshot,
                           const void *key,
                           size_t key_len,
                           uint8_t **value,
                           size_t *value_len,
                           char **message);

// Does the same as `esker_keyspace_get`. With `fill_cache` 0, the read inserts no blocks into the
// cache.
int32_t esker_keyspace_get_with(const esker_keyspace_t *keyspace,
                                const esker_snapshot_t *snapshot,
                                uint8_t fill_cache,
                                const void *key,
                                size_t key_len,
                                uint8_t **value,
                                size_t *value_len,
                                char **message);

// Reads the value of a key of a keyspace and passes it to `visit` without a copy. The arguments
// after `keyspace` are those of `esker_get_visit`.
int32_t esker_keyspace_get_visit(const esker_keyspace_t *keyspace,
                                 const esker_snapshot_t *snapshot,
                                 uint8_t fill_cache,
                                 const void *key,
                                 size_t key_len,
                                 void *state,
                                 esker_visit_value_t visit,
                                 char **message);

// Reads the values of `count` keys of a keyspace as of one moment. The arguments after `keyspace` are
// those of `esker_multi_get`.
int32_t esker_keyspace_multi_get(const esker_keyspace_t *keyspace,
                                 const esker_snapshot_t *snapshot,
                                 uint8_t fill_cache,
                                 size_t count,
                                 const void *const *keys,
                                 const size_t *key_lens,
                                 uint8_t **values,
                                 size_t *value_lens,
                                 char **message);

// Sets `*found` to 1 if a keyspace has the key now, or has it in `snapshot` if that is not NULL,
// else to 0.
int32_t esker_keyspace_contains(const esker_keyspace_t *keyspace,
                                const esker_snapshot_t *snapshot,
                                const void *key,
                                size_t key_len,
                                uint8_t *found,
                                char **message);

// Creates an iterator over the keys of a keyspace, in its key order. The arguments after
// `keyspace` are those of `esker_iter_create`. The iterator continues over the old keys if the
// keyspace is dropped.
int32_t esker_keyspace_iter_create(const esker_keyspace_t *keyspace,
                                   const esker_snapshot_t *snapshot,
                                   const void *start,
                                   size_t start_len,
                                   const void *end,
                                   size_t end_len,
                                   uint8_t fill_cache,
                                   esker_iter_t **iter,
                                   char **message);

// Does the same as `esker_iter_create_prefix`, in a keyspace.
int32_t esker_keyspace_iter_create_prefix(const esker_keyspace_t *keyspace,
                                          const esker_snapshot_t *snapshot,
                                          const void *prefix,
                                          size_t prefix_len,
                                          uint8_t fill_cache,
                                          esker_iter_t **iter,
                                          char **message);

// Compacts the keys of a keyspace between `start` and `end` into the deepest level and waits until
// that is done. A NULL `start` or `end` means no bound.
int32_t esker_keyspace_compact_range(const esker_keyspace_t *keyspace,
                                     const void *start,
                                     size_t start_len,
                                     const void *end,
                                     size_t end_len,
                                     char **message);

// Sets `*size_bytes` to the approximate size of a keyspace in the tables, in bytes. Data that is
// only in memory is not counted.
int32_t esker_keyspace_size_bytes(const esker_keyspace_t *keyspace,
                                  uint64_t *size_bytes,
                                  char **message);

// Sets `*size_bytes` to the approximate size of the keys of a keyspace from `start` (inclusive) to
// `end` (exclusive), in its key order, in the tables, in bytes. Data that is only in memory is not
// counted. It is 0 if `end` is not after `start`.
int32_t esker_keyspace_approximate_size(const esker_keyspace_t *keyspace,
                                        const void *start,
                                        size_t start_len,
                                        const void *end,
                                        size_t end_len,
                                        uint64_t *size_bytes,
                                        char **message);

// Merges an operand into the value of a key, by the merge operator of the store
// (`esker_options_set_merge_operator`). The call writes only the operand; reads, flushes and
// compactions make the value. An operand does not expire. Fails with `ESKER_INVALID_ARGUMENT` if
// the store has no merge operator or the operator refuses the operand, and with
// `ESKER_INCOMPATIBLE` if the operator of the store is not among the options of this opening.
int32_t esker_merge(const esker_db_t *db,
                    const void *key,
                    size_t key_len,
                    const void *operand,
                    size_t operand_len,
                    int32_t durability,
                    char **message);

// Merges an operand into the value of a key of a keyspace, by the merge operator of the keyspace
// (`esker_keyspace_options_set_merge_operator`). Otherwise as `esker_merge`.
int32_t esker_keyspace_merge(const esker_keyspace_t *keyspace,
                             const void *key,
                             size_t key_len,
                             const void *operand,
                             size_t operand_len,
                             int32_t durability,
                             char **message);

// Adds a merge of an operand to a batch. The write of the batch fails as `esker_merge`.
int32_t esker_batch_merge(esker_batch_t *batch,
                          const void *key,
                          size_t key_len,
                          const void *operand,
                          size_t operand_len,
                          char **message);

// Adds a merge in a keyspace to a batch; see `esker_batch_put_in`. The write of the batch fails as
// `esker_keyspace_merge`.
int32_t esker_batch_merge_in(esker_batch_t *batch,
                             const esker_keyspace_t *keyspace,
                             const void *key,
                             size_t key_len,
                             const void *operand,
                             size_t operand_len,
                             char **message);

// Sets a key to a value for `ttl_ms` milliseconds. From then on the pair does not exist: no read
// returns it, and compactions remove it. With 0 it never exists; with `ESKER_NEVER_MS` it does not
// expire. A snapshot, an iterator and a transaction judge every pair at the time at which they
// began. The time is that of the system's clock, but never goes back while the store is open.
int32_t esker_put_with_ttl(const esker_db_t *db,
                           const void *key,
                           size_t key_len,
                           const void *value,
                           size_t value_len,
                           uint64_t ttl_ms,
                           int32_t durability,
                           char **message);

// Sets a key of a keyspace to a value for `ttl_ms` milliseconds, whatever the time to live of the
// keyspace is. Otherwise as `esker_put_with_ttl`.
int32_t esker_keyspace_put_with_ttl(const esker_keyspace_t *keyspace,
                                    const void *key,
                                    size_t key_len,
                                    const void *value,
                                    size_t value_len,
                                    uint64_t ttl_ms,
                                    int32_t durability,
                                    char **message);

// Adds a put of a pair to a batch that expires `ttl_ms` milliseconds after the write of the batch;
// see `esker_put_with_ttl`.
int32_t esker_batch_put_with_ttl(esker_batch_t *batch,
                                 const void *key,
                                 size_t key_len,
                                 const void *value,
                                 size_t value_len,
                                 uint64_t ttl_ms,
                                 char **message);

// Adds a put of a pair that expires to a batch, in a keyspace; see `esker_batch_put_in` and
// `esker_batch_put_with_ttl`.
int32_t esker_batch_put_with_ttl_in(esker_batch_t *batch,
                                    const esker_keyspace_t *keyspace,
                                    const void *key,
                                    size_t key_len,
                                    const void *value,
                                    size_t value_len,
                                    uint64_t ttl_ms,
                                    char **message);

// Gives the pair of a key a new time to live of `ttl_ms` milliseconds from now on, as if its value
// were put again with `esker_put_with_ttl`. Sets `*found` to 1, or to 0 if there is no such pair;
// it may be NULL. Merge operands become part of the value. Other writers wait while the call reads
// the value, which may read a file.
int32_t esker_touch(const esker_db_t *db,
                    const void *key,
                    size_t key_len,
                    uint64_t ttl_ms,
                    uint8_t *found,
                    char **message);

// Gives the pair of a key of a keyspace a new time to live; see `esker_touch`.
int32_t esker_keyspace_touch(const esker_keyspace_t *keyspace,
                             const void *key,
                             size_t key_len,
                             uint64_t ttl_ms,
                             uint8_t *found,
                             char **message);

// Reads the value of a key and the time at which the pair expires: now, or in `snapshot` if that is
// not NULL. Sets `*value` to a copy, which must be freed with `esker_free`, or to NULL if the key is
// missing, and `*expires_ms` to the time in milliseconds since 1970, or to `ESKER_NEVER_MS` if the
// pair does not expire or the key is missing. A pair that has expired since the snapshot was taken
// is not missing in it.
int32_t esker_get_with_expiry(const esker_db_t *db,
                              const esker_snapshot_t *snapshot,
                              const void *key,
                              size_t key_len,
                              uint8_t **value,
                              size_t *value_len,
                              uint64_t *expires_ms,
                              char **message);

// Reads the value of a key of a keyspace and the time at which the pair expires; see
// `esker_get_with_expiry`.
int32_t esker_keyspace_get_with_expiry(const esker_keyspace_t *keyspace,
                                       const esker_snapshot_t *snapshot,
                                       const void *key,
                                       size_t key_len,
                                       uint8_t **value,
                                       size_t *value_len,
                                       uint64_t *expires_ms,
                                       char **message);

// Creates options of a transaction: snapshot isolation, optimistic, a lock timeout of 1,000
// milliseconds, and the store's durability.
esker_transaction_options_t *esker_transaction_options_create(void);

// Frees options of a transaction. Transactions begun with them are not affected.
void esker_transaction_options_destroy(esker_transaction_options_t *options);

// Sets what the transaction is protected from: `ESKER_ISOLATION_SNAPSHOT` or
// `ESKER_ISOLATION_SERIALIZABLE`.
int32_t esker_transaction_options_set_isolation(esker_transaction_options_t *options,
                                                int32_t isolation,
                                                char **message);

// Sets when conflicts are found: `ESKER_CONCURRENCY_OPTIMISTIC` or
// `ESKER_CONCURRENCY_PESSIMISTIC`.
int32_t esker_transaction_options_set_concurrency(esker_transaction_options_t *options,
                                                  int32_t concurrency,
                                                  char **message);

// Sets the maximum time of one wait for a lock, in milliseconds. 0 does not wait.
int32_t esker_transaction_options_set_lock_timeout_ms(esker_transaction_options_t *options,
                                                      uint64_t lock_timeout_ms,
                                                      char **message);

// Sets the durability of the commit (`ESKER_DURABILITY_DEFAULT` and so on).
int32_t esker_transaction_options_set_durability(esker_transaction_options_t *options,
                                                 int32_t durability,
                                                 char **message);

// Begins a transaction. NULL `options` select the defaults. It reads the store as of one moment,
// with its own writes over it; an optimistic one as of its begin, a pessimistic one as of its
// first call. Others see its writes after `esker_transaction_commit`, all at once. The functions
// whose names end in `_in` work on a keyspace, the others on the keyspace `default`. A
// transaction keeps the versions that it can read on disk, and its writes in memory, until it
// ends.
//
// Every function of a transaction fails with `ESKER_INVALID_ARGUMENT` after the end of the
// transaction, and during a call of another thread on it, and with `ESKER_CLOSED` after
// `esker_close`, which also ends a wait for a lock. If a failure has the code `ESKER_CONFLICT` or
// `ESKER_DEADLOCK`, roll the transaction back and run it again.
int32_t esker_transaction_begin(const esker_db_t *db,
                                const esker_transaction_options_t *options,
                                esker_transaction_t **transaction,
                                char **message);

// Returns the number of the transaction, which no other transaction of this opening has; 0 for
// NULL. The messages about locks and deadlocks name it.
uint64_t esker_transaction_id(const esker_transaction_t *transaction);

// Sets a savepoint, to which `esker_transaction_rollback_to_savepoint` returns. Savepoints nest.
int32_t esker_transaction_savepoint(const esker_transaction_t *transaction, char **message);

// Takes back the writes after the newest savepoint, and removes the savepoint. What the
// transaction has read stays protected, and it keeps its locks. Fails with `ESKER_NOT_FOUND` if
// there is no savepoint.
int32_t esker_transaction_rollback_to_savepoint(const esker_transaction_t *transaction,
                                                char **message);

// Removes the newest savepoint and keeps the writes after it. Fails with `ESKER_NOT_FOUND` if
// there is no savepoint.
int32_t esker_transaction_pop_savepoint(const esker_transaction_t *transaction, char **message);

// Makes the writes visible and durable, all together, as `esker_write` does with a batch. A
// transaction without writes always succeeds. After a failure the transaction is rolled back and
// nothing was written, except that after `ESKER_READ_ONLY` or `ESKER_IO` the store must be opened
// again to see whether it contains the writes. Fails with `ESKER_CONFLICT` if something that the
// transaction has written, or that it has read and that is protected, was written by another
// commit or is locked by a prepared transaction; with `ESKER_NOT_FOUND` if one of its keyspaces
// was dropped. The handle is still freed with `esker_transaction_destroy`.
int32_t esker_transaction_commit(const esker_transaction_t *transaction, char **message);

// Ends the transaction without its writes. Its iterators fail from now on.
int32_t esker_transaction_rollback(const esker_transaction_t *transaction, char **message);

// Frees a transaction. Rolls it back if it has not ended. No other call may be running on it.
// Within a comparator or filter of its store, it is neither freed nor rolled back.
void esker_transaction_destroy(esker_transaction_t *transaction);

// Checks the transaction as `esker_transaction_commit` does, and stores it under `name`, durable
// as with `ESKER_DURABILITY_SYNC`, but does not make its writes visible. After that,
// `esker_commit_prepared` succeeds whatever other transactions do, also after a crash. Until
// `esker_commit_prepared` or `esker_rollback_prepared`, other transactions cannot write what it
// has written or read. A failure is as that of `esker_transaction_commit`; also
// `ESKER_INVALID_ARGUMENT` for a name that is empty, longer than 255 bytes, not UTF-8 or in use,
// and `ESKER_BUSY` and `ESKER_DEADLOCK` if a pessimistic transaction holds the locks. A name that
// is NULL or not UTF-8 does not end the transaction; every other failure does.
int32_t esker_transaction_prepare(const esker_transaction_t *transaction,
                                  const char *name,
                                  char **message);

// Calls `visit` with the name of each prepared transaction, in alphabetical order.
int32_t esker_prepared_transactions(const esker_db_t *db,
                                    void *state,
                                    esker_visit_name_t visit,
                                    char **message);

// Commits a prepared transaction: makes its writes visible, durable as with
// `ESKER_DURABILITY_SYNC`. Fails with `ESKER_NOT_FOUND` if there is no prepared transaction
// `name`, and with `ESKER_BUSY` while another call ends it. After a failure it is still prepared.
int32_t esker_commit_prepared(const esker_db_t *db, const char *name, char **message);

// Rolls a prepared transaction back. Failures are as those of `esker_commit_prepared`.
int32_t esker_rollback_prepared(const esker_db_t *db, const char *name, char **message);

// Reads the value of a key: that of the transaction's own last write of the key, otherwise that of
// its snapshot. Sets `*value` to a copy, which must be freed with `esker_free`, or to NULL if the
// key is missing. In a serializable pessimistic transaction, also fails as
// `esker_transaction_get_for_update`.
int32_t esker_transaction_get(const esker_transaction_t *transaction,
                              const void *key,
                              size_t key_len,
                              uint8_t **value,
                              size_t *value_len,
                              char **message);

// Does the same as `esker_transaction_get`, in a keyspace. A keyspace of another store or of
// another opening is a failure (`ESKER_INVALID_ARGUMENT`), as is a dropped one
// (`ESKER_NOT_FOUND`). The same for every other function whose name ends in `_in`.
int32_t esker_transaction_get_in(const esker_transaction_t *transaction,
                                 const esker_keyspace_t *keyspace,
                                 const void *key,
                                 size_t key_len,
                                 uint8_t **value,
                                 size_t *value_len,
                                 char **message);

// Reads the value of a key as `esker_transaction_get` does, and protects the key as a write of it
// would: the commit fails if another commit has written the key. A pessimistic transaction locks
// the key, and fails with `ESKER_BUSY` when the lock is not free in time, with `ESKER_DEADLOCK`
// when transactions wait for each other, and with `ESKER_CONFLICT` when the key was written after
// the snapshot and the transaction has read other keys without a lock. The transaction stays
// usable and keeps its locks.
int32_t esker_transaction_get_for_update(const esker_transaction_t *transaction,
                                         const void *key,
                                         size_t key_len,
                                         uint8_t **value,
                                         size_t *value_len,
                                         char **message);

// Does the same as `esker_transaction_get_for_update`, in a keyspace.
int32_t esker_transaction_get_for_update_in(const esker_transaction_t *transaction,
                                            const esker_keyspace_t *keyspace,
                                            const void *key,
                                            size_t key_len,
                                            uint8_t **value,
                                            size_t *value_len,
                                            char **message);

// Sets a key to a value at the commit. Later reads of the transaction see it at once. In a
// pessimistic transaction, locks the key and fails as `esker_transaction_get_for_update`. A failed
// call changes nothing.
int32_t esker_transaction_put(const esker_transaction_t *transaction,
                              const void *key,
                              size_t key_len,
                              const void *value,
                              size_t value_len,
                              char **message);

// Does the same as `esker_transaction_put`, in a keyspace.
int32_t esker_transaction_put_in(const esker_transaction_t *transaction,
                                 const esker_keyspace_t *keyspace,
                                 const void *key,
                                 size_t key_len,
                                 const void *value,
                                 size_t value_len,
                                 char **message);

// Sets a key to a value that expires `ttl_ms` milliseconds after the commit, or after the
// preparation of a transaction that is prepared; `ESKER_NEVER_MS` never ends. The transaction itself sees the value whatever the time. Otherwise as
// `esker_transaction_put`.
int32_t esker_transaction_put_with_ttl(const esker_transaction_t *transaction,
                                       const void *key,
                                       size_t key_len,
                                       const void *value,
                                       size_t value_len,
                                       uint64_t ttl_ms,
                                       char **message);

// Does the same as `esker_transaction_put_with_ttl`, in a keyspace.
int32_t esker_transaction_put_with_ttl_in(const esker_transaction_t *transaction,
                                          const esker_keyspace_t *keyspace,
                                          const void *key,
                                          size_t key_len,
                                          const void *value,
                                          size_t value_len,
                                          uint64_t ttl_ms,
                                          char **message);

// Merges an operand into the value of a key at the commit, by the merge operator of the store.
// Later reads of the transaction see the merged value. Protects the key as a put does: of two
// transactions that merge into one key at the same time, one fails. Otherwise as
// `esker_transaction_put` and `esker_merge`.
int32_t esker_transaction_merge(const esker_transaction_t *transaction,
                                const void *key,
                                size_t key_len,
                                const void *operand,
                                size_t operand_len,
                                char **message);

// Does the same as `esker_transaction_merge`, in a keyspace, by its merge operator.
int32_t esker_transaction_merge_in(const esker_transaction_t *transaction,
                                   const esker_keyspace_t *keyspace,
                                   const void *key,
                                   size_t key_len,
                                   const void *operand,
                                   size_t operand_len,
                                   char **message);

// Deletes a key at the commit. A missing key is not a failure. Otherwise as
// `esker_transaction_put`.
int32_t esker_transaction_delete(const esker_transaction_t *transaction,
                                 const void *key,
                                 size_t key_len,
                                 char **message);

// Does the same as `esker_transaction_delete`, in a keyspace.
int32_t esker_transaction_delete_in(const esker_transaction_t *transaction,
                                    const esker_keyspace_t *keyspace,
                                    const void *key,
                                    size_t key_len,
                                    char **message);

// Deletes the keys from `start` (inclusive) to `end` (exclusive) at the commit. The whole range is
// protected: the commit fails if another commit has written a key in it, and a pessimistic
// transaction locks it. Otherwise as `esker_transaction_put`.
int32_t esker_transaction_delete_range(const esker_transaction_t *transaction,
                                       const void *start,
                                       size_t start_len,
                                       const void *end,
                                       size_t end_len,
                                       char **message);

// Does the same as `esker_transaction_delete_range`, in a keyspace.
int32_t esker_transaction_delete_range_in(const esker_transaction_t *transaction,
                                          const esker_keyspace_t *keyspace,
                                          const void *start,
                                          size_t start_len,
                                          const void *end,
                                          size_t end_len,
                                          char **message);

// Creates an iterator over the keys from `start` (inclusive) to `end` (exclusive); NULL means no
// bound. It returns the pairs of the transaction's snapshot with the transaction's own writes over
// them, also those that are made ahead of its position later. It has no position until the first
// seek. After the end of the transaction its moves fail with `ESKER_INVALID_ARGUMENT`. In a
// serializable pessimistic transaction, locks the range and fails as
// `esker_transaction_get_for_update`.
int32_t esker_transaction_iter_create(const esker_transaction_t *transaction,
                                      const void *start,
                                      size_t start_len,
                                      const void *end,
                                      size_t end_len,
                                      esker_iter_t **iter,
                                      char **message);

// Does the same as `esker_transaction_iter_create`, in a keyspace, in its key order.
int32_t esker_transaction_iter_create_in(const esker_transaction_t *transaction,
                                         const esker_keyspace_t *keyspace,
                                         const void *start,
                                         size_t start_len,
                                         const void *end,
                                         size_t end_len,
                                         esker_iter_t **iter,
                                         char **message);

// Adds a backup of all writes so far to the backup directory `path`, which is created if it is
// missing. Copies only tables that the previous backup does not have, and reads all tables back. A
// backup directory belongs to one store; a `take_over` other than 0 assigns it to this store. Sets
// `*number` to the number of the backup, and `*copied_bytes` to the size of the copied tables, in
// bytes; both may be NULL. Fails with `ESKER_INCOMPATIBLE` if the directory belongs to another
// store, with `ESKER_INVALID_ARGUMENT` if it has other content or is inside a store, and with
// `ESKER_LOCKED` during another backup into it.
int32_t esker_backup(const esker_db_t *db,
                     const char *path,
                     uint8_t take_over,
                     uint64_t *number,
                     uint64_t *copied_bytes,
                     char **message);

// Calls `visit` for each backup in the backup directory `path`, oldest first. Of the `options`,
// which may be NULL, only the file system and the key are used. Fails with `ESKER_NOT_FOUND` if
// there is no such directory, and with `ESKER_INVALID_ARGUMENT` if it has other content.
int32_t esker_backups(const char *path,
                      const esker_options_t *options,
                      void *state,
                      esker_visit_backup_t visit,
                      char **message);

// Removes the oldest backups in the backup directory `path` until `keep` are left. The remaining
// backups stay complete. Sets `*removed` to the number of removed backups; it may be NULL. Of the
// `options`, which may be NULL, only the file system and the key are used. Fails with
// `ESKER_INVALID_ARGUMENT` if `keep` is 0 or the directory has other content, and with
// `ESKER_NOT_FOUND` if there is no such directory.
int32_t esker_prune_backups(const char *path,
                            const esker_options_t *options,
                            size_t keep,
                            uint64_t *removed,
                            char **message);

// Creates a store in the directory `into`, which must not exist, from the backup `number` in the
// backup directory `path`, or from the newest backup if `number` is 0. Every table is read back
// and compared. Sets `*restored` to the number of the backup; it may be NULL. Of the `options`,
// which may be NULL, only the file system, the key and the key orders are used. Fails with
// `ESKER_NOT_FOUND` if there is no such backup, with `ESKER_INVALID_ARGUMENT` if `into` exists,
// and with `ESKER_CORRUPTION` if the backup is damaged.
int32_t esker_restore(const char *path,
                      uint64_t number,
                      const char *into,
                      const esker_options_t *options,
                      uint64_t *restored,
                      char **message);

// Creates options of a runtime with the defaults.
esker_runtime_options_t *esker_runtime_options_create(void);

// Frees options of a runtime. Runtimes made with them are not affected.
void esker_runtime_options_destroy(esker_runtime_options_t *options);

// Sets an option of a runtime from text. `auto` selects the default.
//
// `memory_budget_bytes`: limit on memtables, block cache, filters and indexes of all stores, 1 MiB
// to 1 TiB; default: a quarter of the memory available to the process, 4 MiB to 1 GiB.
// `cache_size_bytes`: maximum of the block cache, 0 to the budget; default: half of the budget.
// `cache_policy`: `s3fifo` (default), `sieve`, `clock`, `lru` or `none`. `threads_max`: maximum
// number of worker threads, 3 to 256; default: the number of cores plus one, but at least three.
// `background_bytes_per_second`: limit on what flushes and compactions write, 64 KiB or more;
// default: 0, no limit. Sizes are numbers of bytes or texts such as `64MiB`. `esker_runtime_create`
// checks the ranges. Fails with `ESKER_INVALID_ARGUMENT` for another name or text.
int32_t esker_runtime_options_set(esker_runtime_options_t *options,
                                  const char *name,
                                  const char *value,
                                  char **message);

// Creates a runtime, which stores share that are opened with it (`esker_options_set_runtime`).
// NULL `options` select the defaults. Its threads start when there is work, and end when the
// handle is freed and the last of its stores is closed. It must not be used in a child of a fork.
// Fails with `ESKER_INVALID_ARGUMENT` for a value out of its range.
int32_t esker_runtime_create(const esker_runtime_options_t *options,
                             esker_runtime_t **runtime,
                             char **message);

// Frees the handle of a runtime. Its open stores stay open.
void esker_runtime_destroy(esker_runtime_t *runtime);

// Selects the runtime of stores opened with the options: its threads, memory budget, block cache
// and limit on background writes. The store's own options for these have no effect. NULL, the
// default, gives each store its own. The callbacks of a store occupy a thread of the runtime, so
// they must not wait for another store of it.
void esker_options_set_runtime(esker_options_t *options, const esker_runtime_t *runtime);

// Sets `*value` to what the stores of a runtime use now: `stores` (open ones with background work),
// `threads` (started ones), `budget_bytes`, `memtable_bytes`, `memtable_limit_bytes` (at which
// writers wait), `tables_bytes`, `cache_bytes`, `cache_capacity_bytes`, or `background_bytes`
// (written since the creation of the runtime). Fails with `ESKER_INVALID_ARGUMENT` for another name.
int32_t esker_runtime_metric(const esker_runtime_t *runtime,
                             const char *name,
                             uint64_t *value,
                             char **message);

// Adds a listener, which receives the events of stores opened with the options.
//
// One thread at a time calls the listeners of a store, in the order of the events, soon after they
// happened. It is a thread of the store or a thread in a call of the store, and holds no lock. The
// listener must return soon: it delays the work of that thread. It must not throw or jump out. The
// functions of the store fail within it with `ESKER_INVALID_ARGUMENT`; another thread may use the
// store meanwhile, but the listener must not wait for it. Of more than 4,096 events that wait,
// further ones are dropped and counted in the metric `events_lost`. A crash loses events that were
// not delivered. Without listeners, and with the option `log_file` off, no event is made.
//
// `destructor`, which may be NULL, receives `state` once: after the options and every store opened
// with them are freed, from any thread, or at once if this call fails.
int32_t esker_options_add_listener(esker_options_t *options,
                                   void *state,
                                   esker_destructor_t destructor,
                                   esker_listener_t listener,
                                   char **message);

// Sets the clock by which pairs expire, in place of the clock of the system. Reads and compactions
// call it from any thread and on several at once. It must be quick, must not throw or jump out,
// and must not use the store. If it goes back, an open store stays at the latest time. The rules
// for `state` and `destructor` are those of `esker_options_add_listener`.
int32_t esker_options_set_clock(esker_options_t *options,
                                void *state,
                                esker_destructor_t destructor,
                                esker_clock_t clock,
                                char **message);

// Sets `*stall` to what writes wait for now, which must be freed with `esker_stall_destroy`, or to
// NULL if writes run at full speed. Of several stalls, it is the oldest.
int32_t esker_stall(const esker_db_t *db, esker_stall_t **stall, char **message);

// Frees a stall and its texts.
void esker_stall_destroy(esker_stall_t *stall);

// Sets `*text` to what the opening of the store found that a crash had lost, one sentence a line;
// an empty text if nothing was lost. It must be freed with `esker_free`.
int32_t esker_recovery_notes(const esker_db_t *db, char **text, char **message);

// Sets `*text` to the metrics, in the OpenMetrics text format, that the process publishes that has
// the store in the directory `path` open for writing: about a second old, or ten seconds while
// nothing changes. The text must be freed with `esker_free`. Sets `*process` to the number of that
// process; it may be NULL. Of the `options`, which may be NULL, only the file system is used. Fails
// with `ESKER_NOT_FOUND` if no process has the store open, or it publishes nothing.
int32_t esker_live_status(const char *path,
                          const esker_options_t *options,
                          char **text,
                          uint32_t *process,
                          char **message);

// Sets `*id` to the random number that a store got when it was created, and keeps. A checkpoint and
// a restored store are stores with numbers of their own.
int32_t esker_store_id(const esker_db_t *db, uint64_t *id, char **message);

// Runs one flush or compaction that is due, in a store without threads (option
// `background_threads` 0). Sets `*ran` to 1 if there was one, else to 0; it may be NULL. Fails with
// `ESKER_INVALID_ARGUMENT` in a store with threads.
int32_t esker_run_one_job(const esker_db_t *db, uint8_t *ran, char **message);

// Begins to count this thread's calls, with counts of 0 (`on` other than 0), or ends that. A thread
// does not count at first.
//
// The calls nest: each one with an `on` other than 0 begins a part of the program that counts, and
// needs one with 0, which ends the innermost part. The thread counts until the outermost part has
// ended. Each part counts all that happens in it, also in inner parts, and whatever these take. A
// call with 0 without such a part has no effect.
void esker_perf_enable(uint8_t on);

// Returns the counts of this thread's calls since the last call of this function in the innermost
// part (`esker_perf_enable`), or since the part began, and sets them to 0: lines of a name, a space
// and a number, such as `cache_hits 12`. All are 0 if the thread does not count. The names are those
// of Rust's `PerfContext`. The text must be freed with `esker_free`.
char *esker_perf_take(void);

// Sets `*changes` to the change feed after position `from`: the committed batches after it; 0 for
// all of them. The store keeps the logs that slots need (`esker_subscribe`). Without a slot, a log
// is removed when its memtable was flushed.
//
// A batch of a prepared transaction appears when it is committed. Pairs that expire appear as puts
// with their time, and vanish at that time without a change. What a compaction filter removes does
// not appear. Creations, drops and renames of keyspaces appear while the store has a slot. In a
// store opened read-only the feed goes on beyond the state of the handle, with what another process
// writes.
//
// A batch that is not durable may be lost in a crash of the machine after it was returned; other
// batches then get its sequence numbers, and other checksums.
//
// Fails with `ESKER_NOT_FOUND` if the changes after `from` are in no log any more, and with
// `ESKER_INVALID_ARGUMENT` if `from` is after the newest write.
int32_t esker_changes_create(const esker_db_t *db,
                             uint64_t from,
                             esker_changes_t **changes,
                             char **message);

// Sets `*batch` to the next batch, and waits for it for at most `wait_ms_max` milliseconds; 0 does
// not wait. Sets it to NULL after that time. The batch is valid until the next call on the feed. A
// close of the store by another thread ends the wait with `ESKER_CLOSED`. Fails with
// `ESKER_NOT_FOUND` if the logs with the next changes are gone; the message has the reason if the
// slot of the feed was dropped.
int32_t esker_changes_next(esker_changes_t *changes,
                           uint64_t wait_ms_max,
                           const esker_change_batch_t **batch,
                           char **message);

// Returns the position of a feed: the sequence number of the last batch of which all parts were
// returned, or that had nothing for the reader; 0 for NULL.
uint64_t esker_changes_position(const esker_changes_t *changes);

// Frees a feed and its last batch.
void esker_changes_destroy(esker_changes_t *changes);

// Sets `*slot` to the slot `name`, and creates it at the present position if it does not exist: its
// first batch is the first one after this call. The store keeps the logs with the changes that the
// reader of the slot has not confirmed, also while it is closed. `lag_limit_bytes` is the maximum
// size of logs that are kept only for slots: a new slot that would need more when a log is removed,
// is dropped, and its next use fails. The slot exists until `esker_drop_slot`, and is durable when
// this returns. While a store has a slot, writes with `ESKER_DURABILITY_NONE` are logged.
//
// Fails with `ESKER_INVALID_ARGUMENT` for a name that has not 1 to 64 letters, digits, `-` and `_`,
// and with `ESKER_NOT_FOUND` if the slot exists and was dropped because it lagged too far.
int32_t esker_subscribe(const esker_db_t *db,
                        const char *name,
                        uint64_t lag_limit_bytes,
                        esker_slot_t **slot,
                        char **message);

// Sets `*slot` to the slot `name`. Fails with `ESKER_NOT_FOUND` if there is none.
int32_t esker_slot_open(const esker_db_t *db,
                        const char *name,
                        esker_slot_t **slot,
                        char **message);

// Frees the handle of a slot. The slot stays.
void esker_slot_close(esker_slot_t *slot);

// Sets `*position` to the position that was confirmed last, or that the slot began with. Fails with
// `ESKER_NOT_FOUND` if the slot was dropped, with the reason.
int32_t esker_slot_position(const esker_slot_t *slot, uint64_t *position, char **message);

// Sets `*changes` to the change feed after the position that was confirmed last. Fails as
// `esker_slot_position` and `esker_changes_create`.
int32_t esker_slot_changes(const esker_slot_t *slot, esker_changes_t **changes, char **message);

// Confirms every batch up to `position`, durably: the slot does not return them again, and their
// logs may be removed. Confirm a batch after its last part. A position at or before the confirmed
// one changes nothing. The call syncs the logs first, so a crash does not lose what the reader has
// confirmed. Fails with `ESKER_INVALID_ARGUMENT` for a position after the newest write.
int32_t esker_slot_confirm(const esker_slot_t *slot, uint64_t position, char **message);

// Calls `visit` for each slot of the store, in alphabetical order.
int32_t esker_slots(const esker_db_t *db, void *state, esker_visit_slot_t visit, char **message);

// Removes the slot `name`, also a damaged one, and the logs that only it needed. Fails with
// `ESKER_NOT_FOUND` if there is no such slot.
int32_t esker_drop_slot(const esker_db_t *db, const char *name, char **message);

// Does the same as `esker_snapshot_create`, and sets `*position` to the snapshot's position in the
// change feed: the snapshot has every batch up to it, and no later one. A reader that copies the
// snapshot and then applies the changes from the position has no gap and no batch twice. A slot
// must exist before this call, so that these changes are kept.
int32_t esker_snapshot_create_with_position(const esker_db_t *db,
                                            esker_snapshot_t **snapshot,
                                            uint64_t *position,
                                            char **message);

// Creates a fork of the store in the directory `path`, which must not exist: a store of its own that
// begins with the content of this one. No write into one of them is visible in the other. `name` is
// kept in the fork, and may be NULL. Tables are hard-linked where that is possible, so a fork takes
// time for each file and not for each byte. The fork is durable when this returns. Sets `*report`,
// which must be freed with `esker_free`; `report` may be NULL.
//
// The fork holds everything written before the call, and possibly some of the writes made during
// it. A store opened read-only can be forked, also while another process writes to it. Fails with
// `ESKER_INVALID_ARGUMENT` if `path` exists or is inside a store, and for a name that is empty,
// longer than 255 bytes or has control characters.
int32_t esker_fork(const esker_db_t *db,
                   const char *path,
                   const char *name,
                   esker_fork_report_t **report,
                   char **message);

// Sets `*name` to the name that the store got as a fork, which must be freed with `esker_free`, or
// to NULL if it has none; `name` may be NULL. Calls `visit`, which may be NULL, for each store that
// this one descends from, the parent first. A store that is no fork has none.
int32_t esker_lineage(const esker_db_t *db,
                      char **name,
                      void *state,
                      esker_visit_ancestor_t visit,
                      char **message);

// Compares two stores, keyspace by keyspace: `default` first and the others by name, and within a
// keyspace in key order. A side is the state of a store, or a snapshot if that is not NULL; its
// store may then be NULL. With a `keyspace`, which may be NULL, only the one of this name is
// compared. Tables that both stores share, as a fork and its parent do, are read only near changed
// keys. A keyspace that one store lacks counts as empty there.
//
// Fails with `ESKER_INCOMPATIBLE` if a keyspace of the same name has different key orders, and with
// `ESKER_NOT_FOUND` if neither store has the keyspace.
int32_t esker_diff_create(const esker_db_t *old_db,
                          const esker_snapshot_t *old_snapshot,
                          const esker_db_t *new_db,
                          const esker_snapshot_t *new_snapshot,
                          const char *keyspace,
                          esker_diff_t **diff,
                          char **message);

// Sets `*difference` to the next difference, or to NULL at the end. It is valid until the next call
// on the comparison. The comparison is at its end after a failure.
int32_t esker_diff_next(esker_diff_t *diff, const esker_difference_t **difference, char **message);

// Returns how the stores descend from each other: `ESKER_RELATION_SAME_STORE` and so on; 0 for NULL.
int32_t esker_diff_relation(const esker_diff_t *diff);

// Returns the number of tables that both stores have; 0 for NULL. If it is 0, every pair is read.
uint64_t esker_diff_shared_files(const esker_diff_t *diff);

// Returns the size of the tables that both stores have, in bytes; 0 for NULL.
uint64_t esker_diff_shared_bytes(const esker_diff_t *diff);

// Returns the names of the keyspaces that only the second store has, or with an `old` other than 0
// those that only the first one has: one per line. The text must be freed with `esker_free`. NULL
// for NULL.
char *esker_diff_keyspaces_only_in(const esker_diff_t *diff, uint8_t old);

// Frees a comparison and its last difference.
void esker_diff_destroy(esker_diff_t *diff);

// Creates a writer of the table file `path`, which must not exist. Several writers can run at the
// same time, also in other processes. The file has the key order, compression, block size and filter
// of the `options`, which may be NULL; only the key order must be the one of the store. The file is not
// encrypted, also if the options have a key: an ingest into an encrypted store encrypts it.
int32_t esker_sorted_writer_create(const char *path,
                                   const esker_options_t *options,
                                   esker_sorted_writer_t **writer,
                                   char **message);

// Adds a pair. Fails with `ESKER_INVALID_ARGUMENT` for a key that is not after all keys so far: it
// is not written, and the next one can be.
int32_t esker_sorted_writer_put(esker_sorted_writer_t *writer,
                                const void *key,
                                size_t key_len,
                                const void *value,
                                size_t value_len,
                                char **message);

// Adds a pair that expires after `ttl_ms` milliseconds, from now on.
int32_t esker_sorted_writer_put_with_ttl(esker_sorted_writer_t *writer,
                                         const void *key,
                                         size_t key_len,
                                         const void *value,
                                         size_t value_len,
                                         uint64_t ttl_ms,
                                         char **message);

// Adds an operand, which the ingest merges into the value of the key. Fails with
// `ESKER_INVALID_ARGUMENT` if the options of the writer have no merge operator.
int32_t esker_sorted_writer_merge(esker_sorted_writer_t *writer,
                                  const void *key,
                                  size_t key_len,
                                  const void *operand,
                                  size_t operand_len,
                                  char **message);

// Adds a delete: the ingest deletes the key from the store.
int32_t esker_sorted_writer_delete(esker_sorted_writer_t *writer,
                                   const void *key,
                                   size_t key_len,
                                   char **message);

// Returns the number of entries so far; 0 for NULL.
uint64_t esker_sorted_writer_entries(const esker_sorted_writer_t *writer);

// Returns the approximate length of the file so far, in bytes, for a program that begins another file
// at some size; 0 for NULL and after `esker_sorted_writer_finish`.
uint64_t esker_sorted_writer_estimated_bytes(const esker_sorted_writer_t *writer);

// Completes the file and makes it durable. No entry can be added after this. Sets `*file` to what
// was written, valid until the writer is freed; `file` may be NULL. After a failure there is no
// file.
int32_t esker_sorted_writer_finish(esker_sorted_writer_t *writer,
                                   const esker_sorted_file_t **file,
                                   char **message);

// Frees a writer. Removes its file if that was not finished.
void esker_sorted_writer_destroy(esker_sorted_writer_t *writer);

// Makes `count` files of sorted writers part of the store, all of them at once. Their entries become
// the newest versions of their keys. Readers see all of them or none, and a crash leaves all of them
// in the store or none. The files are durable in the store when this returns. The store takes the
// files; with a `copy` other than 0 they stay where they are, and the store gets copies. With a
// `verify` other than 0 each file is read and checked as a whole first. Sets `*report`, which must
// be freed with `esker_free`; `report` may be NULL.
//
// Nothing is changed after a failure: `ESKER_INVALID_ARGUMENT` if two files share keys or a file was
// not made by a sorted writer, `ESKER_INCOMPATIBLE` for another key order, `ESKER_CORRUPTION` for a
// file that is damaged or was not finished.
int32_t esker_ingest(const esker_db_t *db,
                     const char *const *files,
                     size_t count,
                     uint8_t copy,
                     uint8_t verify,
                     esker_ingest_report_t **report,
                     char **message);

// Does the same as `esker_ingest`, into a keyspace. Unless it is the keyspace `default`, the files
// are read and written once. Pairs do not get the keyspace's time to live, but that of the file.
int32_t esker_keyspace_ingest(const esker_keyspace_t *keyspace,
                              const char *const *files,
                              size_t count,
                              uint8_t copy,
                              uint8_t verify,
                              esker_ingest_report_t **report,
                              char **message);

// Writes sorted pairs as tables of the store, without the log and the memtable. `next` is called with
// `state` for each pair, on this thread, and must not throw or jump out. It may use the store, but
// not close it. The keys must be strictly ascending in the key order of the store. The pairs become
// visible and durable together when the source ends. Sets `*report`, which must be freed with
// `esker_free`; `report` may be NULL. Nothing is changed after a failure: `ESKER_INVALID_ARGUMENT`
// for a key that is not after the one before it, or if the source failed; otherwise as
// `esker_ingest`.
int32_t esker_bulk_load(const esker_db_t *db,
                        void *state,
                        esker_source_t next,
                        esker_ingest_report_t **report,
                        char **message);

// Does the same as `esker_bulk_load`, into a keyspace. Pairs get the keyspace's time to live.
int32_t esker_keyspace_bulk_load(const esker_keyspace_t *keyspace,
                                 void *state,
                                 esker_source_t next,
                                 esker_ingest_report_t **report,
                                 char **message);

// Sets the key of the stores that are opened, created, copied or followed with the options: a master
// key of `ESKER_KEY_BYTES` bytes, or of twice as many hexadecimal digits with blanks or newlines
// around them. It replaces an earlier key or source of keys. The bytes are copied.
//
// A store with a key is encrypted: all its files except `LOCK` and `KEYS`, which has the data keys,
// wrapped by the master key. The names, sizes and times of files stay visible. The log is written by
// system calls, also with `wal_io=mmap`. Copies (`esker_checkpoint`, `esker_fork`, `esker_backup`,
// `esker_restore`) are encrypted under the same master key. Without the master key nothing can be
// read any more.
//
// An opening fails with `ESKER_INVALID_ARGUMENT` if the key does not open the store; the message has
// the names of both keys. It fails so too if the store is encrypted and the options have no key, or
// the options have a key and the store is not encrypted. This function fails with
// `ESKER_INVALID_ARGUMENT` if `key` is no key.
int32_t esker_options_set_key(esker_options_t *options,
                              const void *key,
                              size_t key_len,
                              char **message);

// Does the same as `esker_options_set_key`, with the key in the file `path`. The file is read at each
// opening, so a missing or wrong file is a failure of the opening. Nobody else should be able to read
// it.
int32_t esker_options_set_key_file(esker_options_t *options,
                                   const char *path,
                                   char **message);

// Does the same as `esker_options_set_key`, with keys that the function `give` returns, for example
// from a key service. It is called when a store is opened, created or copied, not for each file, from
// any thread and on several at once. It must return, must not throw or jump out, and must not use the
// store: its functions fail with `ESKER_INVALID_ARGUMENT` then. Its arguments are valid only during
// the call. A failure of it is a failure of the opening with `ESKER_INVALID_ARGUMENT` and its reason.
//
// Each call receives `state`. `destructor`, which may be NULL, receives `state` once: after the options
// and every store that was opened with them are freed, from any thread, or at once if this call fails.
int32_t esker_options_set_key_source(esker_options_t *options,
                                     void *state,
                                     esker_destructor_t destructor,
                                     esker_key_source_t give,
                                     char **message);

// Changes the master key of the encrypted store in the directory `path`, which must not be open: from
// the key of `options` to that of `new_options`. Only the file `KEYS` is written, so the call takes
// milliseconds. A crash leaves the store with the one or the other key. Sets `*report`, which must be
// freed with `esker_free`; `report` may be NULL.
//
// The old master key opens nothing afterwards. New files get a new data key. Existing files keep
// theirs until merges rewrite them; `esker_compact_range` rewrites the tables. Copies have a `KEYS` of
// their own, under the master key of the time at which they were made, so a backup into an existing
// directory of backups needs a rekey of its newest backup too.
//
// Fails with `ESKER_NOT_FOUND` if there is no store, with `ESKER_LOCKED` while it is open, and with
// `ESKER_INVALID_ARGUMENT` if it is not encrypted, the key of `options` does not open it, or one of the
// options has no key. Nothing is changed then.
int32_t esker_rekey(const char *path,
                    const esker_options_t *options,
                    const esker_options_t *new_options,
                    esker_rekey_report_t **report,
                    char **message);

// Follows the store in the directory `path`, which may be open for writing in another process or in
// this one, or in none. A follower writes nothing, takes no lock, and never makes the writer wait. The
// `options`, which may be NULL, must have the key, the key orders and the merge operators of the store.
// The follower is freed with `esker_follower_destroy`.
//
// `esker_follower_db` returns a view: the store at one moment. The first view is of the time of this
// call; `esker_follower_catch_up` and `esker_follower_catch_up_every` make newer ones. A view shows
// every write that returned before its catch-up began, and none after that: a batch or an ingest as a
// whole or not at all. Writes with `ESKER_DURABILITY_NONE` appear when they are flushed.
//
// Fails with `ESKER_NOT_FOUND` if there is no store, and otherwise as `esker_open_read_only`.
int32_t esker_follow(const char *path,
                     const esker_options_t *options,
                     esker_follower_t **follower,
                     char **message);

// Frees a follower and ends its thread. Its views stay open. No other call may be running on it.
void esker_follower_destroy(esker_follower_t *follower);

// Sets `*db` to a handle of the newest view: a store that is open read-only and never changes, also
// when the follower catches up. It is freed with `esker_db_destroy`, before or after the follower. It
// keeps what it needs, also files that the writer has removed. Keyspaces, snapshots and iterators
// belong to their view, as to any other store.
int32_t esker_follower_db(const esker_follower_t *follower,
                          esker_db_t **db,
                          char **message);

// Returns the position of the newest view: the sequence number of the last operation that it shows, as
// in the change feed; 0 for NULL.
uint64_t esker_follower_position(const esker_follower_t *follower);

// Makes the newest view show what the store has now, and sets `*position` to its position; it may be
// NULL. Reads only what was added since the last call. A call that finds nothing new makes no view.
//
// Fails with `ESKER_CORRUPTION` if a file is damaged, and with `ESKER_INCOMPATIBLE` if a keyspace has a
// key order that the options lack, or another store has taken the place of this one. The newest view is
// then as before, and the call can be repeated.
int32_t esker_follower_catch_up(const esker_follower_t *follower,
                                uint64_t *position,
                                char **message);

// Lets a thread catch up whenever `interval_ms` milliseconds have passed since its last catch-up. The
// thread ends with the follower. A further call changes the interval. `esker_follower_lag` has the
// failure of the last catch-up. Fails with `ESKER_INVALID_ARGUMENT` if the interval is 0.
int32_t esker_follower_catch_up_every(const esker_follower_t *follower,
                                      uint64_t interval_ms,
                                      char **message);

// Waits until the newest view shows the operation with the sequence number `position`, for at most
// `wait_ms_max` milliseconds, and catches up meanwhile. Sets `*shown` to 1 if it does, or to 0 after
// that time. So a program that has written to the store in another process, and knows the position from
// `esker_snapshot_create_with_position`, reads its own writes. Fails as `esker_follower_catch_up`.
int32_t esker_follower_wait_for(const esker_follower_t *follower,
                                uint64_t position,
                                uint64_t wait_ms_max,
                                uint8_t *shown,
                                char **message);

// Sets `*lag` to how far the newest view is behind the store; it must be freed with `esker_free`. Sets
// `*error` to the message of the last catch-up if it failed, which must be freed with `esker_free`, or
// to NULL; `error` may be NULL. Reads the logs from the position of the view on, and takes nothing
// over. Fails as `esker_follower_catch_up`.
int32_t esker_follower_lag(const esker_follower_t *follower,
                           esker_follower_lag_t **lag,
                           char **error,
                           char **message);

// Opens the store for writing, when its writer has ended or was killed, and sets `*db` to its handle.
// Every write that the writer has acknowledged is in the store, as after any other opening. The
// follower and its views stay readable, and follow the opened store from then on.
//
// Fails with `ESKER_LOCKED` while the writer lives, with `ESKER_INCOMPATIBLE` if the directory has
// another store now, with `ESKER_CORRUPTION` if the opened store lacks writes that the newest view
// shows, because a crash of the machine lost them, and otherwise as `esker_open`.
int32_t esker_follower_promote(const esker_follower_t *follower,
                               esker_db_t **db,
                               char **message);

// Sets a key to the bytes that `read` gives, and holds less than 2 MiB of them in memory. `read` is
// called with `state` on this thread, until it returns 0, and must not throw or jump out. It may use the
// store, but not close it. A value of more than 512 KiB goes past the log and the memtables into a file
// of its own, and is durable when this returns; a shorter one is put as by `esker_put`. Sets
// `*value_bytes` to the length of the value; it may be NULL.
//
// Nothing is changed after a failure: `ESKER_IO` if `read` failed, `ESKER_INVALID_ARGUMENT` for a key of
// more than 1 MiB or a value of more than 1 GiB, `ESKER_INCOMPATIBLE` for a value of more than 512 KiB
// in a store with format version 1 (`esker_upgrade_format`); otherwise as `esker_put` and
// `esker_ingest`.
int32_t esker_put_reader(const esker_db_t *db,
                         const void *key,
                         size_t key_len,
                         void *state,
                         esker_read_t read,
                         uint64_t *value_bytes,
                         char **message);

// Does the same as `esker_put_reader`, in a keyspace. Fails with `ESKER_INVALID_ARGUMENT` if the keyspace
// has a time to live.
int32_t esker_keyspace_put_reader(const esker_keyspace_t *keyspace,
                                  const void *key,
                                  size_t key_len,
                                  void *state,
                                  esker_read_t read,
                                  uint64_t *value_bytes,
                                  char **message);

// Sets `*reader` to a reader of the present value of a key, or to NULL if the key is missing. It returns
// that value whatever is written later, also after the store was closed. Of a value in a file of its own
// (`esker_put_reader`) it holds 64 KiB in memory, and the file open; any other value is in memory as a
// whole. Fails as `esker_get`.
int32_t esker_get_reader(const esker_db_t *db,
                         const void *key,
                         size_t key_len,
                         esker_value_reader_t **reader,
                         char **message);

// Does the same as `esker_get_reader`, in a keyspace.
int32_t esker_keyspace_get_reader(const esker_keyspace_t *keyspace,
                                  const void *key,
                                  size_t key_len,
                                  esker_value_reader_t **reader,
                                  char **message);

// Returns the length of the whole value, in bytes; 0 for NULL.
uint64_t esker_value_reader_len(const esker_value_reader_t *reader);

// Copies bytes of the value, from `offset` on, into `buffer`. Sets `*bytes` to their number:
// `buffer_len`, or less at the end of the value, or 0 behind it. Fails with `ESKER_CORRUPTION` if a
// piece of the value is damaged; `*bytes` is then the number of bytes before it, and bytes of other
// pieces can still be read.
int32_t esker_value_reader_read(esker_value_reader_t *reader,
                                uint64_t offset,
                                uint8_t *buffer,
                                size_t buffer_len,
                                size_t *bytes,
                                char **message);

// Frees a reader.
void esker_value_reader_destroy(esker_value_reader_t *reader);

// Calls `visit` for each table that the store has now, of all keyspaces, by tree, level and number. A file
// with parts in several levels is passed once for each.
int32_t esker_tables(const esker_db_t *db,
                     void *state,
                     esker_visit_table_t visit,
                     char **message);

// Sets `*value` to a metric of the store, by the name of its field in `docs/metrics.md`, such as
// `user_ops` or `memory.memtable_bytes`, in the unit of that name. Fails with
// `ESKER_INVALID_ARGUMENT` for a name that is no number of the whole store.
int32_t esker_metric(const esker_db_t *db, const char *name, uint64_t *value, char **message);

// Sets `*value` to a metric of one level of the store, by the name of its field in `docs/metrics.md`,
// such as `levels.bytes`. Fails with `ESKER_INVALID_ARGUMENT` for a name that is no number of levels,
// and for a level that the store does not have.
int32_t esker_level_metric(const esker_db_t *db,
                           size_t level,
                           const char *name,
                           uint64_t *value,
                           char **message);

// Calls `visit` for each option that `esker_options_set` sets, in the order of `docs/options.md`. Fails
// with `ESKER_INVALID_ARGUMENT` if `visit` is NULL.
int32_t esker_options_visit(void *state,
                            esker_visit_option_t visit,
                            char **message);

// Changes `count` options of the open store, all or none of them: options whose values are allowed only
// together can be changed so. Fails as `esker_set_option`.
int32_t esker_set_options(const esker_db_t *db,
                          size_t count,
                          const char *const *names,
                          const char *const *values,
                          char **message);

// Compacts all keys of every keyspace, as `esker_compact_range` does for those of `default`. Keyspaces
// that were compacted before a failure stay compacted.
int32_t esker_compact_all(const esker_db_t *db,
                          char **message);

// Sets `*path` to the absolute path of the store's directory, or in memory to the path with which the
// store was opened. It must be freed with `esker_free`.
int32_t esker_path(const esker_db_t *db,
                   char **path,
                   char **message);

// Starts a stream of the changes of `db`: passes its header to `write`. `write` is called with `state`
// on the thread of each call on the writer, must not throw or jump out, and must not close the store.
// If it fails, the call fails with `ESKER_IO`, and so does every later one on the writer.
int32_t esker_change_writer_create(const esker_db_t *db,
                                   void *state,
                                   esker_write_bytes_t write,
                                   esker_change_writer_t **writer,
                                   char **message);

// Writes the batch that `esker_changes_next` has returned last for `changes`, a feed of the same store.
// Fails with `ESKER_INVALID_ARGUMENT` if there is none.
int32_t esker_change_writer_batch(esker_change_writer_t *writer,
                                  const esker_changes_t *changes,
                                  char **message);

// Writes the whole content of the store, for a receiver that has nothing of it, and sets `*position`
// to its position in the feed; `position` may be NULL. The changes from there on follow. A slot must
// exist before this call, so that they are kept.
int32_t esker_change_writer_content(esker_change_writer_t *writer,
                                    uint64_t *position,
                                    char **message);

// Writes that there is nothing new after `position`, so that the receiver knows that the sender is
// alive.
int32_t esker_change_writer_alive(esker_change_writer_t *writer, uint64_t position, char **message);

// Writes the end of the stream, at `position`. A stream without it is cut off for its receiver.
int32_t esker_change_writer_end(esker_change_writer_t *writer, uint64_t position, char **message);

// Frees a writer. It writes nothing more.
void esker_change_writer_destroy(esker_change_writer_t *writer);

// Starts to apply a stream to `db`: reads its header from `read`, which is called with `state` on the
// thread of each call on the applier, and must not throw or jump out. It may return fewer bytes than
// there is room for, and 0 only at the end of the bytes.
//
// A store has the changes of one other store only. Fails with `ESKER_INCOMPATIBLE` if it has applied
// those of another, or is the source itself, and with `ESKER_CORRUPTION` if the bytes are no stream.
int32_t esker_applier_create(const esker_db_t *db,
                             void *state,
                             esker_read_t read,
                             esker_applier_t **applier,
                             char **message);

// Returns the identity of the store whose changes the stream has (`esker_store_id`); 0 for NULL.
uint64_t esker_applier_source(const esker_applier_t *applier);

// States that the store has the content of the source at `position`, because it is a copy of it. Fails
// with `ESKER_INVALID_ARGUMENT` if the store has applied changes already.
int32_t esker_applier_start_at(esker_applier_t *applier,
                               uint64_t position,
                               char **message);

// Reads the next item of the stream and applies it. Sets `*item` to its kind (`ESKER_STREAM_BATCH`
// and so on), and `*position` to the position that it is about, 0 for content before its end. Both may
// be NULL. A batch that the store has is left out, so a stream may begin before the position of the
// store. Call it until `*item` is `ESKER_STREAM_END`.
//
// Fails with `ESKER_CORRUPTION` if the bytes are damaged, with `ESKER_IO` if they are cut off, with
// `ESKER_INVALID_ARGUMENT` if the item does not follow what the store has, or needs a merge operator
// that it lacks; and as `esker_write`. The item is not applied then. After such a failure, start a new stream at the position
// of the store (`esker_applied_position`).
int32_t esker_applier_next(esker_applier_t *applier,
                           int32_t *item,
                           uint64_t *position,
                           char **message);

// Frees an applier. What it has applied stays.
void esker_applier_destroy(esker_applier_t *applier);

// Sets `*has_applied` to 1 if the store has applied the changes of another one, and `*source` and
// `*position` to the identity of that store and the position in its feed; otherwise all three to 0, as
// also while content is copied. A sender begins there: `esker_changes_create`.
int32_t esker_applied_position(const esker_db_t *db,
                               uint8_t *has_applied,
                               uint64_t *source,
                               uint64_t *position,
                               char **message);

// Does the same as `esker_verify`. Calls `progress`, which may be NULL, with `state` on this thread; it
// may use the store, but not close it. Sets `*report` to the numbers of what was read, also with
// `ESKER_CORRUPTION`; they must be freed with `esker_free`. `report` may be NULL.
int32_t esker_verify_with(const esker_db_t *db,
                          void *state,
                          esker_progress_t progress,
                          esker_verify_report_t **report,
                          char **message);

// Does the same as `esker_repair`. Sets `*report` to the numbers of the repair, and `*originals` to the
// directory that now holds the original files. These and `*lost` must be freed with `esker_free`; they
// are NULL after a failure. Each of the three places may be NULL.
int32_t esker_repair_with(const char *path,
                          const esker_options_t *options,
                          esker_repair_report_t **report,
                          char **lost,
                          char **originals,
                          char **message);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ESKER_H */
