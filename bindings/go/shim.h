// Functions that the Go package calls instead of those of esker.h. They return results by value,
// because a Go variable whose address is passed to C is moved to the heap.
//
// Invariants:
// 1. A message and a copy of a value in a result belong to the caller, who frees both.
// 2. A null keyspace is the keyspace `default` of the store or transaction.
// 3. Buffers are `const uint8_t *` here, not `const void *`: for a `void *`, cgo looks for Go pointers
//    in the whole Go object around the buffer, and panics if the object has any.

#ifndef ESKER_GO_SHIM_H
#define ESKER_GO_SHIM_H

#include <stdlib.h>
#include <string.h>

#include "esker.h"

// A buffer that Go passes.
typedef struct {
	const uint8_t *at;
	size_t len;
} esker_go_bytes;

// The code of a call, and its message or NULL.
typedef struct {
	char *message;
	int32_t code;
	uint8_t flag;
} esker_go_done;

// A value that was read. A value that does not fit into the caller's buffer is in `copy`.
typedef struct {
	uint8_t *copy;
	size_t len;
	char *message;
	uint64_t expires_ms;
	int32_t code;
	uint8_t found;
} esker_go_value;

// A handle that was created.
typedef struct {
	void *handle;
	char *message;
	int32_t code;
} esker_go_made;

// A number.
typedef struct {
	uint64_t number;
	uint64_t second;
	char *message;
	int32_t code;
} esker_go_number;

// Pairs that an iterator has copied.
typedef struct {
	size_t rows;
	size_t bytes;
	char *message;
	int32_t code;
} esker_go_rows;

// A place for a value, which `esker_go_take` fills.
typedef struct {
	uint8_t *to;
	size_t capacity;
	esker_go_value *value;
} esker_go_place;

static inline void esker_go_take(void *state, const uint8_t *value, size_t len) {
	esker_go_place *place = (esker_go_place *)state;
	place->value->found = 1;
	place->value->len = len;
	if (len == 0) return;
	if (len > place->capacity) {
		place->value->copy = (uint8_t *)malloc(len);
		if (place->value->copy != NULL) memcpy(place->value->copy, value, len);
	} else {
		memcpy(place->to, value, len);
	}
}

// Moves a value from `malloc` to the caller's buffer if it fits.
static inline void esker_go_give(esker_go_value *value, uint8_t *to, size_t capacity) {
	if (value->copy == NULL) return;
	value->found = 1;
	if (value->len > capacity) return;
	if (value->len > 0) memcpy(to, value->copy, value->len);
	free(value->copy);
	value->copy = NULL;
}

static inline esker_go_value esker_go_get(const esker_db_t *db, const esker_keyspace_t *keyspace,
		const esker_snapshot_t *snapshot, uint8_t fill_cache, const uint8_t *key, size_t key_len,
		uint8_t *to, size_t capacity) {
	esker_go_value value = {0};
	esker_go_place place = {to, capacity, &value};
	value.code = keyspace == NULL
		? esker_get_visit(db, snapshot, fill_cache, key, key_len, &place, esker_go_take,
			&value.message)
		: esker_keyspace_get_visit(keyspace, snapshot, fill_cache, key, key_len, &place,
			esker_go_take, &value.message);
	return value;
}

static inline esker_go_value esker_go_get_with_expiry(const esker_db_t *db,
		const esker_keyspace_t *keyspace, const esker_snapshot_t *snapshot, const uint8_t *key,
		size_t key_len) {
	esker_go_value value = {0};
	value.code = keyspace == NULL
		? esker_get_with_expiry(db, snapshot, key, key_len, &value.copy, &value.len,
			&value.expires_ms, &value.message)
		: esker_keyspace_get_with_expiry(keyspace, snapshot, key, key_len, &value.copy, &value.len,
			&value.expires_ms, &value.message);
	value.found = value.copy != NULL;
	return value;
}

static inline esker_go_done esker_go_has(const esker_db_t *db, const esker_keyspace_t *keyspace,
		const esker_snapshot_t *snapshot, const uint8_t *key, size_t key_len) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_contains(db, snapshot, key, key_len, &done.flag, &done.message)
		: esker_keyspace_contains(keyspace, snapshot, key, key_len, &done.flag, &done.message);
	return done;
}

static inline int32_t esker_go_get_reader(const esker_db_t *db, const esker_keyspace_t *keyspace,
		const uint8_t *key, size_t key_len, esker_value_reader_t **reader, char **message) {
	return keyspace == NULL ? esker_get_reader(db, key, key_len, reader, message)
		: esker_keyspace_get_reader(keyspace, key, key_len, reader, message);
}

// Reads many keys. `packed` has the keys one after the other, with their lengths in `lens`.
static inline esker_go_done esker_go_multi_get(const esker_db_t *db,
		const esker_keyspace_t *keyspace, const esker_snapshot_t *snapshot, size_t count,
		const uint8_t *packed, const size_t *lens, uint8_t **values, size_t *value_lens) {
	esker_go_done done = {0};
	const void **keys = (const void **)malloc((count + 1) * sizeof *keys);
	if (keys == NULL) {
		done.code = ESKER_NO_SPACE;
		return done;
	}
	for (size_t i = 0; i < count; i++) {
		keys[i] = packed;
		packed += lens[i];
	}
	done.code = keyspace == NULL
		? esker_multi_get(db, snapshot, 1, count, keys, lens, values, value_lens, &done.message)
		: esker_keyspace_multi_get(keyspace, snapshot, 1, count, keys, lens, values, value_lens,
			&done.message);
	free(keys);
	return done;
}

static inline esker_go_done esker_go_put(const esker_db_t *db, const esker_keyspace_t *keyspace,
		const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len,
		int32_t durability) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_put(db, key, key_len, value, value_len, durability, &done.message)
		: esker_keyspace_put(keyspace, key, key_len, value, value_len, durability, &done.message);
	return done;
}

static inline esker_go_done esker_go_put_with_ttl(const esker_db_t *db,
		const esker_keyspace_t *keyspace, const uint8_t *key, size_t key_len, const uint8_t *value,
		size_t value_len, uint64_t ttl_ms, int32_t durability) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_put_with_ttl(db, key, key_len, value, value_len, ttl_ms, durability, &done.message)
		: esker_keyspace_put_with_ttl(keyspace, key, key_len, value, value_len, ttl_ms, durability,
			&done.message);
	return done;
}

static inline esker_go_done esker_go_merge(const esker_db_t *db, const esker_keyspace_t *keyspace,
		const uint8_t *key, size_t key_len, const uint8_t *operand, size_t operand_len,
		int32_t durability) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_merge(db, key, key_len, operand, operand_len, durability, &done.message)
		: esker_keyspace_merge(keyspace, key, key_len, operand, operand_len, durability,
			&done.message);
	return done;
}

static inline esker_go_done esker_go_delete(const esker_db_t *db, const esker_keyspace_t *keyspace,
		const uint8_t *key, size_t key_len, int32_t durability) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_delete(db, key, key_len, durability, &done.message)
		: esker_keyspace_delete(keyspace, key, key_len, durability, &done.message);
	return done;
}

static inline esker_go_done esker_go_remove(const esker_db_t *db, const esker_keyspace_t *keyspace,
		const uint8_t *key, size_t key_len) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_remove(db, key, key_len, &done.flag, &done.message)
		: esker_keyspace_remove(keyspace, key, key_len, &done.flag, &done.message);
	return done;
}

static inline esker_go_done esker_go_delete_range(const esker_db_t *db,
		const esker_keyspace_t *keyspace, const uint8_t *start, size_t start_len,
		const uint8_t *end, size_t end_len, int32_t durability) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_delete_range(db, start, start_len, end, end_len, durability, &done.message)
		: esker_keyspace_delete_range(keyspace, start, start_len, end, end_len, durability,
			&done.message);
	return done;
}

static inline esker_go_done esker_go_touch(const esker_db_t *db, const esker_keyspace_t *keyspace,
		const uint8_t *key, size_t key_len, uint64_t ttl_ms) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_touch(db, key, key_len, ttl_ms, &done.flag, &done.message)
		: esker_keyspace_touch(keyspace, key, key_len, ttl_ms, &done.flag, &done.message);
	return done;
}

static inline esker_go_done esker_go_compact_range(const esker_db_t *db,
		const esker_keyspace_t *keyspace, const uint8_t *start, size_t start_len,
		const uint8_t *end, size_t end_len) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_compact_range(db, start, start_len, end, end_len, &done.message)
		: esker_keyspace_compact_range(keyspace, start, start_len, end, end_len, &done.message);
	return done;
}

// Writes packed operations as one batch. It waits for memory as long as it takes if `wait_ms_max` is
// the maximum of its type.
static inline esker_go_done esker_go_write(const esker_db_t *db,
		const esker_keyspace_t *const *keyspaces, size_t keyspace_count, const uint8_t *packed,
		size_t packed_len, int32_t durability, uint64_t wait_ms_max) {
	esker_go_done done = {0};
	esker_batch_t *batch = esker_batch_create();
	done.code = esker_batch_add_packed(batch, keyspaces, keyspace_count, packed, packed_len,
		&done.message);
	if (done.code == ESKER_OK) {
		done.code = wait_ms_max == UINT64_MAX
			? esker_write(db, batch, durability, &done.message)
			: esker_write_within(db, batch, durability, wait_ms_max, &done.message);
	}
	esker_batch_destroy(batch);
	return done;
}

static inline esker_go_made esker_go_iter_create(const esker_db_t *db,
		const esker_keyspace_t *keyspace, const esker_snapshot_t *snapshot, const uint8_t *start,
		size_t start_len, const uint8_t *end, size_t end_len, uint8_t fill_cache) {
	esker_go_made made = {0};
	esker_iter_t *iter = NULL;
	made.code = keyspace == NULL
		? esker_iter_create(db, snapshot, start, start_len, end, end_len, fill_cache, &iter,
			&made.message)
		: esker_keyspace_iter_create(keyspace, snapshot, start, start_len, end, end_len,
			fill_cache, &iter, &made.message);
	made.handle = iter;
	return made;
}

static inline esker_go_made esker_go_iter_create_prefix(const esker_db_t *db,
		const esker_keyspace_t *keyspace, const esker_snapshot_t *snapshot, const uint8_t *prefix,
		size_t prefix_len, uint8_t fill_cache) {
	esker_go_made made = {0};
	esker_iter_t *iter = NULL;
	made.code = keyspace == NULL
		? esker_iter_create_prefix(db, snapshot, prefix, prefix_len, fill_cache, &iter,
			&made.message)
		: esker_keyspace_iter_create_prefix(keyspace, snapshot, prefix, prefix_len, fill_cache,
			&iter, &made.message);
	made.handle = iter;
	return made;
}

// What `esker_go_iter_read` does before it reads.
#define ESKER_GO_STAY 0
#define ESKER_GO_FIRST 1
#define ESKER_GO_LAST 2
#define ESKER_GO_SEEK 3
#define ESKER_GO_SEEK_FOR_PREV 4
// The next two move past the key too.
#define ESKER_GO_AFTER 5
#define ESKER_GO_BEFORE 6

// Moves an iterator, then copies pairs from its position on.
static inline esker_go_rows esker_go_iter_read(esker_iter_t *iter, int move, const uint8_t *key,
		size_t key_len, uint8_t backward, size_t rows_max, uint8_t *buffer, size_t buffer_len) {
	esker_go_rows rows = {0};
	switch (move) {
	case ESKER_GO_FIRST: esker_iter_seek_to_first(iter); break;
	case ESKER_GO_LAST: esker_iter_seek_to_last(iter); break;
	case ESKER_GO_SEEK: case ESKER_GO_AFTER: esker_iter_seek(iter, key, key_len); break;
	case ESKER_GO_SEEK_FOR_PREV: case ESKER_GO_BEFORE:
		esker_iter_seek_for_prev(iter, key, key_len); break;
	}
	if (move >= ESKER_GO_AFTER && esker_iter_valid(iter)) {
		size_t len = 0;
		const uint8_t *at = esker_iter_key(iter, &len);
		if (len == key_len && (len == 0 || memcmp(at, key, len) == 0)) {
			if (move == ESKER_GO_AFTER) esker_iter_next(iter);
			else esker_iter_prev(iter);
		}
	}
	rows.code = esker_iter_read(iter, backward, rows_max, buffer, buffer_len, &rows.rows,
		&rows.bytes, &rows.message);
	return rows;
}

static inline esker_go_value esker_go_transaction_get(const esker_transaction_t *transaction,
		const esker_keyspace_t *keyspace, uint8_t for_update, const uint8_t *key, size_t key_len,
		uint8_t *to, size_t capacity) {
	esker_go_value value = {0};
	if (keyspace == NULL) {
		value.code = (for_update ? esker_transaction_get_for_update : esker_transaction_get)(
			transaction, key, key_len, &value.copy, &value.len, &value.message);
	} else {
		value.code = (for_update ? esker_transaction_get_for_update_in : esker_transaction_get_in)(
			transaction, keyspace, key, key_len, &value.copy, &value.len, &value.message);
	}
	esker_go_give(&value, to, capacity);
	return value;
}

static inline esker_go_done esker_go_transaction_put(const esker_transaction_t *transaction,
		const esker_keyspace_t *keyspace, const uint8_t *key, size_t key_len, const uint8_t *value,
		size_t value_len) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_transaction_put(transaction, key, key_len, value, value_len, &done.message)
		: esker_transaction_put_in(transaction, keyspace, key, key_len, value, value_len,
			&done.message);
	return done;
}

static inline esker_go_done esker_go_transaction_put_with_ttl(
		const esker_transaction_t *transaction, const esker_keyspace_t *keyspace,
		const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len,
		uint64_t ttl_ms) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_transaction_put_with_ttl(transaction, key, key_len, value, value_len, ttl_ms,
			&done.message)
		: esker_transaction_put_with_ttl_in(transaction, keyspace, key, key_len, value, value_len,
			ttl_ms, &done.message);
	return done;
}

static inline esker_go_done esker_go_transaction_merge(const esker_transaction_t *transaction,
		const esker_keyspace_t *keyspace, const uint8_t *key, size_t key_len,
		const uint8_t *operand, size_t operand_len) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_transaction_merge(transaction, key, key_len, operand, operand_len, &done.message)
		: esker_transaction_merge_in(transaction, keyspace, key, key_len, operand, operand_len,
			&done.message);
	return done;
}

static inline esker_go_done esker_go_transaction_delete(const esker_transaction_t *transaction,
		const esker_keyspace_t *keyspace, const uint8_t *key, size_t key_len) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_transaction_delete(transaction, key, key_len, &done.message)
		: esker_transaction_delete_in(transaction, keyspace, key, key_len, &done.message);
	return done;
}

static inline esker_go_done esker_go_transaction_delete_range(
		const esker_transaction_t *transaction, const esker_keyspace_t *keyspace,
		const uint8_t *start, size_t start_len, const uint8_t *end, size_t end_len) {
	esker_go_done done = {0};
	done.code = keyspace == NULL
		? esker_transaction_delete_range(transaction, start, start_len, end, end_len,
			&done.message)
		: esker_transaction_delete_range_in(transaction, keyspace, start, start_len, end, end_len,
			&done.message);
	return done;
}

static inline esker_go_made esker_go_transaction_iter_create(
		const esker_transaction_t *transaction, const esker_keyspace_t *keyspace,
		const uint8_t *start, size_t start_len, const uint8_t *end, size_t end_len) {
	esker_go_made made = {0};
	esker_iter_t *iter = NULL;
	made.code = keyspace == NULL
		? esker_transaction_iter_create(transaction, start, start_len, end, end_len, &iter,
			&made.message)
		: esker_transaction_iter_create_in(transaction, keyspace, start, start_len, end, end_len,
			&iter, &made.message);
	made.handle = iter;
	return made;
}

static inline int32_t esker_go_approximate_size(const esker_db_t *db,
		const esker_keyspace_t *keyspace, const uint8_t *start, size_t start_len,
		const uint8_t *end, size_t end_len, uint64_t *size, char **message) {
	return keyspace == NULL
		? esker_approximate_size(db, start, start_len, end, end_len, size, message)
		: esker_keyspace_approximate_size(keyspace, start, start_len, end, end_len, size, message);
}

static inline int32_t esker_go_set_key(esker_options_t *options, const uint8_t *key,
		size_t key_len, char **message) {
	return esker_options_set_key(options, key, key_len, message);
}

static inline int32_t esker_go_writer_put(esker_sorted_writer_t *writer, const uint8_t *key,
		size_t key_len, const uint8_t *value, size_t value_len, char **message) {
	return esker_sorted_writer_put(writer, key, key_len, value, value_len, message);
}

static inline int32_t esker_go_writer_put_with_ttl(esker_sorted_writer_t *writer,
		const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len,
		uint64_t ttl_ms, char **message) {
	return esker_sorted_writer_put_with_ttl(writer, key, key_len, value, value_len, ttl_ms,
		message);
}

static inline int32_t esker_go_writer_merge(esker_sorted_writer_t *writer, const uint8_t *key,
		size_t key_len, const uint8_t *operand, size_t operand_len, char **message) {
	return esker_sorted_writer_merge(writer, key, key_len, operand, operand_len, message);
}

static inline int32_t esker_go_writer_delete(esker_sorted_writer_t *writer, const uint8_t *key,
		size_t key_len, char **message) {
	return esker_sorted_writer_delete(writer, key, key_len, message);
}

// The functions above that are called most are declared not to call Go, so that the memory of their
// arguments may be on a stack. These are for stores with functions of the program.

static inline esker_go_value esker_go_get_calling(const esker_db_t *db, const esker_keyspace_t
		*keyspace, const esker_snapshot_t *snapshot, uint8_t fill_cache, const uint8_t *key, size_t
		key_len, uint8_t *to, size_t capacity) {
	return esker_go_get(db, keyspace, snapshot, fill_cache, key, key_len, to, capacity);
}

static inline esker_go_done esker_go_has_calling(const esker_db_t *db, const esker_keyspace_t
		*keyspace, const esker_snapshot_t *snapshot, const uint8_t *key, size_t key_len) {
	return esker_go_has(db, keyspace, snapshot, key, key_len);
}

static inline esker_go_done esker_go_put_calling(const esker_db_t *db, const esker_keyspace_t
		*keyspace, const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len, int32_t
		durability) {
	return esker_go_put(db, keyspace, key, key_len, value, value_len, durability);
}

static inline esker_go_done esker_go_merge_calling(const esker_db_t *db, const
		esker_keyspace_t *keyspace, const uint8_t *key, size_t key_len, const uint8_t *operand, size_t
		operand_len, int32_t durability) {
	return esker_go_merge(db, keyspace, key, key_len, operand, operand_len, durability);
}

static inline esker_go_done esker_go_delete_calling(const esker_db_t *db, const
		esker_keyspace_t *keyspace, const uint8_t *key, size_t key_len, int32_t durability) {
	return esker_go_delete(db, keyspace, key, key_len, durability);
}

static inline esker_go_rows esker_go_iter_read_calling(esker_iter_t *iter, int move, const
		uint8_t *key, size_t key_len, uint8_t backward, size_t rows_max, uint8_t *buffer, size_t
		buffer_len) {
	return esker_go_iter_read(iter, move, key, key_len, backward, rows_max, buffer, buffer_len);
}

#endif
