/* Esker's C interface. Made by `cargo xtask headers`; not to be edited by hand.
 *
 * Ownership:
 *  1. What an esker_*_create or esker_open gives is freed by the function of the same type that
 *     ends in _destroy, once; freeing NULL does nothing. The store may be freed before or after
 *     its iterators and snapshots, which stay readable until it is opened again, removed or
 *     repaired; then they may fail, but show nothing else.
 *  2. A buffer (a pointer and a length), a string or a path that is passed in is only lent for the
 *     call. A buffer of length 0 may be NULL; strings end with a zero byte; names and values of
 *     options are UTF-8.
 *  3. A value or a text that is given out is the caller's, to be freed with esker_free (or free).
 *     Keys and values of an iterator, and values shown to a function, are lent until the iterator
 *     moves or the function returns.
 *  4. A function that can fail returns ESKER_OK or one of the codes below. Its last argument may be
 *     NULL; otherwise *message must be NULL or a text from an earlier call, and becomes, on failure
 *     only, a sentence to be freed with esker_free. A missing key is no failure.
 *  5. A NULL handle or a closed store is a failure (ESKER_INVALID_ARGUMENT, ESKER_CLOSED), never a
 *     crash. A freed handle must not be used.
 *
 * Threads: a store may be used by many threads at once, as may a snapshot; options, batches and
 * iterators by one at a time. The caller's own functions (comparators, filters) are called from
 * any thread, and must neither throw nor jump out, nor use the store they are called for: its
 * functions fail then with ESKER_INVALID_ARGUMENT.
 *
 * Keys have at most 1 MiB, values at most 1 GiB.
 */

#ifndef ESKER_H
#define ESKER_H

#include <stddef.h>
#include <stdint.h>

// The call did what it says.
#define ESKER_OK 0

// The caller passed something the store cannot take; nothing was changed.
#define ESKER_INVALID_ARGUMENT 1

// Bytes on disk are not what was written; they were not served.
#define ESKER_CORRUPTION 2

// The operating system refused an operation.
#define ESKER_IO 3

// The device or a quota is full; nothing that was acknowledged is lost.
#define ESKER_NO_SPACE 4

// Another process or handle has the store open.
#define ESKER_LOCKED 5

// The directory is of another format, version or key order, or another program's.
#define ESKER_INCOMPATIBLE 6

// The store takes no writes: it was opened so, or a log sync failed earlier.
#define ESKER_READ_ONLY 7

// The handle was closed.
#define ESKER_CLOSED 8

// A defect in Esker itself; please report the sentence.
#define ESKER_INTERNAL 9

// The store or backup that was named is not there; nothing was changed.
#define ESKER_NOT_FOUND 10

// As the store's option `durability` says.
#define ESKER_DURABILITY_DEFAULT 0

// Not logged: lost when the process ends before a flush.
#define ESKER_DURABILITY_NONE 1

// Survives `kill -9` once the call returned, but not a power loss.
#define ESKER_DURABILITY_BUFFERED 2

// Survives a power loss once the call returned.
#define ESKER_DURABILITY_SYNC 3

// Operations applied together. To be used by one thread at a time.
typedef struct esker_batch_t esker_batch_t;

// An open store. Every function may be called on it from many threads at once, except
// `esker_db_destroy`.
typedef struct esker_db_t esker_db_t;

// Walks the keys of a store as it was when this was made. To be used by one thread at a time. It
// may be freed before or after the store.
typedef struct esker_iter_t esker_iter_t;

// A file system in memory. Stores in it are gone when the last handle and store let it go.
typedef struct esker_memory_t esker_memory_t;

// How a store is opened: every option of `docs/options.md`, and the caller's functions.
typedef struct esker_options_t esker_options_t;

// The store as it was at one moment. It may be freed before or after the store.
typedef struct esker_snapshot_t esker_snapshot_t;

// Frees a callback's state.
typedef void (*esker_destructor_t)(void*);

// Says in a negative, zero or positive number how two keys are ordered.
typedef int (*esker_compare_t)(void*, const char*, size_t, const char*, size_t);

// Gives the name, which lives as long as the state.
typedef const char *(*esker_name_t)(void*);

// Makes a filter over keys, from `malloc`, and stores its length.
typedef char *(*esker_create_filter_t)(void*, const char*const *, const size_t*, int, size_t*);

// Says whether a key may be among those a filter was made from.
typedef uint8_t (*esker_may_match_t)(void*, const char*, size_t, const char*, size_t);

// Is shown a put: state, key and its length, value and its length.
typedef void (*esker_put_seen_t)(void*, const uint8_t*, size_t, const uint8_t*, size_t);

// Is shown a delete: state, key and its length.
typedef void (*esker_delete_seen_t)(void*, const uint8_t*, size_t);

// Is shown a range delete: state, first key, its length, the end, its length.
typedef void (*esker_delete_range_seen_t)(void*, const uint8_t*, size_t, const uint8_t*, size_t);

// Is shown a value: state, value and its length. The value lives through the call.
typedef void (*esker_see_t)(void*, const uint8_t*, size_t);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version, such as `0.1.0`. Not to be freed.
const char *esker_version(void);

// Frees a text or a value that a function here gave out; NULL is allowed.
void esker_free(void *memory);

// Options with every default.
esker_options_t *esker_options_create(void);

// Frees options; stores opened with them are not concerned.
void esker_options_destroy(esker_options_t *options);

// Sets an option by its name or an alias from text, such as `"block_size"` to `"8KiB"`.
int32_t esker_options_set(esker_options_t *options,
                          const char *name,
                          const char *value,
                          char **message);

// The value of an option as text, to be freed with `esker_free`; NULL when there is none of that name.
char *esker_options_get(const esker_options_t *options,
                        const char *name);

// Orders keys by `compare`, which returns a negative, zero or positive number. The order must
// never change for a name. `state` goes to each call, which may come from any thread, and to
// `destructor` (which may be NULL) at the end, also when this fails.
int32_t esker_options_set_comparator(esker_options_t *options,
                                     void *state,
                                     esker_destructor_t destructor,
                                     esker_compare_t compare,
                                     esker_name_t name,
                                     char **message);

// Filters files by the caller's functions instead of the Bloom filter. `create` returns memory
// from `malloc`; `may_match` must not return 0 for a key the filter was made from.
int32_t esker_options_set_filter(esker_options_t *options,
                                 void *state,
                                 esker_destructor_t destructor,
                                 esker_create_filter_t create,
                                 esker_may_match_t may_match,
                                 esker_name_t name,
                                 char **message);

// An empty file system in memory.
esker_memory_t *esker_memory_create(void);

// Lets the file system go; stores open in it stay open.
void esker_memory_destroy(esker_memory_t *memory);

// Opens stores in `memory` instead of on disk; NULL is the disk again.
void esker_options_set_memory(esker_options_t *options, const esker_memory_t *memory);

// Opens the store in the directory `path`, making it if it is not there (unless the option
// `create_if_missing` is off). `options` may be NULL for every default.
int32_t esker_open(const char *path,
                   const esker_options_t *options,
                   esker_db_t **db,
                   char **message);

// Opens a store for reading, as it is at this moment; it may be open elsewhere.
int32_t esker_open_read_only(const char *path,
                             const esker_options_t *options,
                             esker_db_t **db,
                             char **message);

// Closes the store and waits for calls that run on it. Later calls fail with `ESKER_CLOSED`;
// iterators and snapshots made before stay readable until the store is opened again, removed or
// repaired: then they may fail, but show nothing else. Closing twice is allowed.
int32_t esker_close(const esker_db_t *db, char **message);

// Frees the handle, closing the store if that was not done. No other call may be running on it.
void esker_db_destroy(esker_db_t *db);

// Removes a store that is not open: its own files, then the directory if it is empty.
int32_t esker_destroy_store(const char *path, const esker_options_t *options, char **message);

// Rebuilds a store that is not open from what its files still prove. What was lost is told in
// `*lost` (a line each, to be freed with `esker_free`; NULL when nothing was); `lost` may be NULL.
int32_t esker_repair(const char *path, const esker_options_t *options, char **lost, char **message);

// Writes everything in memory to tables and waits for it.
int32_t esker_flush(const esker_db_t *db, char **message);

// Makes everything written so far survive a power loss.
int32_t esker_sync(const esker_db_t *db, char **message);

// Waits until no flush or compaction is due.
int32_t esker_wait_idle(const esker_db_t *db, char **message);

// Merges the keys between `start` and `end` into the deepest level and waits for it. A NULL
// `start` is before every key, a NULL `end` behind every key.
int32_t esker_compact_range(const esker_db_t *db,
                            const uint8_t *start,
                            size_t start_len,
                            const uint8_t *end,
                            size_t end_len,
                            char **message);

// Roughly how many bytes of tables hold the keys from `start` up to but without `end`.
int32_t esker_approximate_size(const esker_db_t *db,
                               const uint8_t *start,
                               size_t start_len,
                               const uint8_t *end,
                               size_t end_len,
                               uint64_t *size_bytes,
                               char **message);

// Makes a second store of the same content in `path`, which must not exist, by hard links.
int32_t esker_checkpoint(const esker_db_t *db, const char *path, char **message);

// Changes an option that can change while the store is open.
int32_t esker_set_option(const esker_db_t *db, const char *name, const char *value, char **message);

// A property as text, to be freed with `esker_free`; NULL when there is none of that name or the
// store was closed. Properties are `esker.stats`, `esker.option.NAME`, and LevelDB's
// `leveldb.stats`, `leveldb.sstables`, `leveldb.num-files-at-levelN` and
// `leveldb.approximate-memory-usage`.
char *esker_property(const esker_db_t *db, const char *name);

// Reads every byte of the store and checks it; `ESKER_CORRUPTION` with a line for each problem.
int32_t esker_verify(const esker_db_t *db, char **message);

// Sets a key to a value.
int32_t esker_put(const esker_db_t *db,
                  const uint8_t *key,
                  size_t key_len,
                  const uint8_t *value,
                  size_t value_len,
                  int32_t durability,
                  char **message);

// Deletes a key, whether it is there or not.
int32_t esker_delete(const esker_db_t *db,
                     const uint8_t *key,
                     size_t key_len,
                     int32_t durability,
                     char **message);

// Applies a batch: all of it becomes visible at once and survives a crash whole or not at all.
// The batch stays as it is.
int32_t esker_write(const esker_db_t *db,
                    const esker_batch_t *batch,
                    int32_t durability,
                    char **message);

// An empty batch.
esker_batch_t *esker_batch_create(void);

// Frees a batch.
void esker_batch_destroy(esker_batch_t *batch);

// Forgets every operation; the memory is kept.
void esker_batch_clear(esker_batch_t *batch);

// How many operations it holds; 0 for NULL.
size_t esker_batch_count(const esker_batch_t *batch);

// Bytes of memory its operations take; 0 for NULL.
size_t esker_batch_size_bytes(const esker_batch_t *batch);

// Sets a key to a value. A key or value that is too long makes the write of the batch fail.
int32_t esker_batch_put(esker_batch_t *batch,
                        const uint8_t *key,
                        size_t key_len,
                        const uint8_t *value,
                        size_t value_len,
                        char **message);

// Deletes a key.
int32_t esker_batch_delete(esker_batch_t *batch,
                           const uint8_t *key,
                           size_t key_len,
                           char **message);

// Deletes every key from `start` up to but without `end`.
int32_t esker_batch_delete_range(esker_batch_t *batch,
                                 const uint8_t *start,
                                 size_t start_len,
                                 const uint8_t *end,
                                 size_t end_len,
                                 char **message);

// Adds every operation of `other`, which stays as it is, behind this batch's own. Both may be the
// same.
int32_t esker_batch_append(esker_batch_t *batch, const esker_batch_t *other, char **message);

// Shows every operation in order; a NULL function leaves out the operations of its kind.
void esker_batch_iterate(const esker_batch_t *batch,
                         void *state,
                         esker_put_seen_t put,
                         esker_delete_seen_t deleted,
                         esker_delete_range_seen_t range_deleted);

// The store as it is now.
int32_t esker_snapshot_create(const esker_db_t *db, esker_snapshot_t **snapshot, char **message);

// Frees a snapshot.
void esker_snapshot_destroy(esker_snapshot_t *snapshot);

// Finds the value of a key, now or (when `snapshot` is not NULL) then. `*value` becomes a copy to
// be freed with `esker_free`, or NULL when the key is not there, which is no failure.
int32_t esker_get(const esker_db_t *db,
                  const esker_snapshot_t *snapshot,
                  const uint8_t *key,
                  size_t key_len,
                  uint8_t **value,
                  size_t *value_len,
                  char **message);

// Finds the value of a key and shows it to `see` where it lies, without a copy; `see` is not
// called when the key is not there. With `fill_cache` 0, blocks read do not enter the cache.
int32_t esker_get_visit(const esker_db_t *db,
                        const esker_snapshot_t *snapshot,
                        uint8_t fill_cache,
                        const uint8_t *key,
                        size_t key_len,
                        void *state,
                        esker_see_t see,
                        char **message);

// An iterator over the keys from `start` up to but without `end` (a NULL one is no bound), now or
// at `snapshot`. It stands nowhere until the first seek. With `fill_cache` 0, blocks read do not
// enter the cache.
int32_t esker_iter_create(const esker_db_t *db,
                          const esker_snapshot_t *snapshot,
                          const uint8_t *start,
                          size_t start_len,
                          const uint8_t *end,
                          size_t end_len,
                          uint8_t fill_cache,
                          esker_iter_t **iter,
                          char **message);

// Frees an iterator.
void esker_iter_destroy(esker_iter_t *iter);

// 1 when the iterator stands on a key, 0 at either end, after a failure, and for NULL.
uint8_t esker_iter_valid(const esker_iter_t *iter);

// Moves to the first key.
void esker_iter_seek_to_first(esker_iter_t *iter);

// Moves to the last key.
void esker_iter_seek_to_last(esker_iter_t *iter);

// Moves to the first key at or behind this one.
void esker_iter_seek(esker_iter_t *iter, const uint8_t *key, size_t key_len);

// Moves to the last key at or before this one.
void esker_iter_seek_for_prev(esker_iter_t *iter, const uint8_t *key, size_t key_len);

// Moves to the next key; does nothing when the iterator stands on none.
void esker_iter_next(esker_iter_t *iter);

// Moves to the previous key; does nothing when the iterator stands on none.
void esker_iter_prev(esker_iter_t *iter);

// The key the iterator stands on, until it moves; empty when it stands on none.
const uint8_t *esker_iter_key(const esker_iter_t *iter, size_t *key_len);

// The value of that key, until the iterator moves; empty when it stands on none.
const uint8_t *esker_iter_value(const esker_iter_t *iter, size_t *value_len);

// What the iterator met: `ESKER_OK` when nothing, also at either end. Stays until the next seek.
int32_t esker_iter_failure(const esker_iter_t *iter, char **message);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ESKER_H */
