// Passes calls of the C library on to the exported functions of callbacks.go.
//
// Invariants:
// 1. The state of every function is a handle of the Go runtime, which is freed once no store uses
//    it.
// 2. The library may free a state in any call, also in one that is declared not to call Go. So the
//    state is only listed here, and Go takes the list later.

#include "callbacks.h"

#include <stdlib.h>

#include "_cgo_export.h"

typedef struct unused {
	struct unused *next;
	uintptr_t state;
} unused;

static unused *all_unused;

static void destroy(void *state) {
	unused *item = (unused *)malloc(sizeof *item);
	// Without memory, the state is never freed.
	if (item == NULL) return;
	item->state = (uintptr_t)state;
	item->next = __atomic_load_n(&all_unused, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&all_unused, &item->next, item, 1, __ATOMIC_RELEASE,
			__ATOMIC_RELAXED)) {
	}
}

uintptr_t esker_go_take_unused(void **list) {
	unused *item = (unused *)*list;
	if (item == NULL) {
		item = __atomic_exchange_n(&all_unused, NULL, __ATOMIC_ACQUIRE);
		if (item == NULL) return 0;
	}
	uintptr_t state = item->state;
	*list = item->next;
	free(item);
	return state;
}

static const char *name(void *state) {
	return eskerGoName((uintptr_t)state);
}

static int compare(void *state, const char *a, size_t a_len, const char *b, size_t b_len) {
	return eskerGoCompare((uintptr_t)state, (void *)a, a_len, (void *)b, b_len);
}

static uint8_t *full_merge(void *state, const uint8_t *key, size_t key_len,
		const uint8_t *existing, size_t existing_len, const uint8_t *const *operands,
		const size_t *lens, size_t count, size_t *len, char **reason) {
	return eskerGoFullMerge((uintptr_t)state, (void *)key, key_len, (void *)existing, existing_len,
		(void *)operands, (void *)lens, count, len, reason);
}

static uint8_t *partial_merge(void *state, const uint8_t *key, size_t key_len,
		const uint8_t *const *operands, const size_t *lens, size_t count, size_t *len) {
	return eskerGoPartialMerge((uintptr_t)state, (void *)key, key_len, (void *)operands,
		(void *)lens, count, len);
}

static int32_t filter(void *state, size_t level, const uint8_t *key, size_t key_len,
		const uint8_t *value, size_t value_len, uint8_t **replaced, size_t *replaced_len) {
	return eskerGoFilter((uintptr_t)state, level, (void *)key, key_len, (void *)value, value_len,
		replaced, replaced_len);
}

static char *create_filter(void *state, const char *const *keys, const size_t *lens, int count,
		size_t *len) {
	return eskerGoCreateFilter((uintptr_t)state, (void *)keys, (void *)lens, count, len);
}

static uint8_t may_match(void *state, const char *key, size_t key_len, const char *data,
		size_t data_len) {
	return eskerGoMayMatch((uintptr_t)state, (void *)key, key_len, (void *)data, data_len);
}

static void listen(void *state, const esker_event_t *event) {
	eskerGoListen((uintptr_t)state, (esker_event_t *)event);
}

static uint64_t now_ms(void *state) {
	return eskerGoNow((uintptr_t)state);
}

static uint8_t give_key(void *state, const char *name, uint8_t *key, char **named, char **reason) {
	return eskerGoGiveKey((uintptr_t)state, (char *)name, key, named, reason);
}

static void visit_name(void *state, const uint8_t *text, size_t len) {
	eskerGoVisitName((uintptr_t)state, (void *)text, len);
}

static void visit_backup(void *state, const esker_backup_info_t *backup) {
	eskerGoVisitBackup((uintptr_t)state, (esker_backup_info_t *)backup);
}

int32_t esker_go_set_comparator(esker_options_t *options, uintptr_t state,
		uint8_t equal_is_identical, char **message) {
	return esker_options_set_comparator(options, (void *)state, destroy, compare,
		equal_is_identical, name, message);
}

int32_t esker_go_add_comparator(esker_options_t *options, uintptr_t state,
		uint8_t equal_is_identical, char **message) {
	return esker_options_add_comparator(options, (void *)state, destroy, compare,
		equal_is_identical, name, message);
}

int32_t esker_go_add_merge_operator(esker_options_t *options, uintptr_t state, uint8_t partial,
		char **message) {
	return esker_options_add_merge_operator(options, (void *)state, destroy, full_merge,
		partial ? partial_merge : NULL, name, message);
}

int32_t esker_go_add_compaction_filter(esker_options_t *options, uintptr_t state, char **message) {
	return esker_options_add_compaction_filter(options, (void *)state, destroy, filter, name,
		message);
}

int32_t esker_go_set_filter(esker_options_t *options, uintptr_t state, char **message) {
	return esker_options_set_filter(options, (void *)state, destroy, create_filter, may_match,
		name, message);
}

int32_t esker_go_add_listener(esker_options_t *options, uintptr_t state, char **message) {
	return esker_options_add_listener(options, (void *)state, destroy, listen, message);
}

int32_t esker_go_set_clock(esker_options_t *options, uintptr_t state, char **message) {
	return esker_options_set_clock(options, (void *)state, destroy, now_ms, message);
}

int32_t esker_go_set_key_source(esker_options_t *options, uintptr_t state, char **message) {
	return esker_options_set_key_source(options, (void *)state, destroy, give_key, message);
}

int32_t esker_go_visit_names(const esker_db_t *db, uintptr_t state, char **message) {
	return esker_prepared_transactions(db, (void *)state, visit_name, message);
}

int32_t esker_go_visit_backups(const char *path, const esker_options_t *options, uintptr_t state,
		char **message) {
	return esker_backups(path, options, (void *)state, visit_backup, message);
}

static void visit_slot(void *state, const esker_slot_info_t *slot) {
	eskerGoVisitSlot((uintptr_t)state, (esker_slot_info_t *)slot);
}

static void visit_ancestor(void *state, uint64_t id, const char *name, uint64_t sequence) {
	eskerGoVisitAncestor((uintptr_t)state, id, (char *)name, sequence);
}

int32_t esker_go_visit_slots(const esker_db_t *db, uintptr_t state, char **message) {
	return esker_slots(db, (void *)state, visit_slot, message);
}

int32_t esker_go_lineage(const esker_db_t *db, char **name, uintptr_t state, char **message) {
	return esker_lineage(db, name, (void *)state, visit_ancestor, message);
}

static void visit_table(void *state, const esker_table_t *table) {
	eskerGoVisitTable((uintptr_t)state, (esker_table_t *)table);
}

int32_t esker_go_visit_tables(const esker_db_t *db, uintptr_t state, char **message) {
	return esker_tables(db, (void *)state, visit_table, message);
}

static void visit_option(void *state, const esker_option_t *option) {
	eskerGoVisitOption((uintptr_t)state, (esker_option_t *)option);
}

int32_t esker_go_visit_options(uintptr_t state, char **message) {
	return esker_options_visit((void *)state, visit_option, message);
}

static int64_t read_value(void *state, uint8_t *buffer, size_t len) {
	return eskerGoRead((uintptr_t)state, buffer, len);
}

int32_t esker_go_put_reader(const esker_db_t *db, const esker_keyspace_t *keyspace,
		const uint8_t *key, size_t key_len, uintptr_t state, uint64_t *bytes, char **message) {
	return keyspace == NULL
		? esker_put_reader(db, key, key_len, (void *)state, read_value, bytes, message)
		: esker_keyspace_put_reader(keyspace, key, key_len, (void *)state, read_value, bytes,
			message);
}

static int32_t write_bytes(void *state, const uint8_t *bytes, size_t len) {
	return eskerGoWrite((uintptr_t)state, (void *)bytes, len);
}

int32_t esker_go_change_writer_create(const esker_db_t *db, uintptr_t state,
		esker_change_writer_t **writer, char **message) {
	return esker_change_writer_create(db, (void *)state, write_bytes, writer, message);
}

int32_t esker_go_applier_create(const esker_db_t *db, uintptr_t state, esker_applier_t **applier,
		char **message) {
	return esker_applier_create(db, (void *)state, read_value, applier, message);
}

static void progress(void *state, uint64_t read, uint64_t all) {
	eskerGoProgress((uintptr_t)state, read, all);
}

int32_t esker_go_verify_with(const esker_db_t *db, uintptr_t state, esker_verify_report_t **report,
		char **message) {
	return esker_verify_with(db, (void *)state, state == 0 ? NULL : progress, report, message);
}

// A chunk of packed pairs of Go: the lengths of the key and of the value, four bytes each,
// little-endian, then both.
typedef struct {
	uintptr_t state;
	uint8_t *chunk;
	size_t len;
	size_t at;
} pairs;

static size_t length_at(const uint8_t *at) {
	return (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

static int32_t next_pair(void *own, const uint8_t **key, size_t *key_len, const uint8_t **value,
		size_t *value_len) {
	pairs *source = (pairs *)own;
	if (source->at == source->len) {
		free(source->chunk);
		source->chunk = NULL;
		source->len = source->at = 0;
		int32_t more = eskerGoFill(source->state, &source->chunk, &source->len);
		if (more != ESKER_SOURCE_PAIR) return more;
	}
	const uint8_t *at = source->chunk + source->at;
	*key_len = length_at(at);
	*value_len = length_at(at + 4);
	*key = at + 8;
	*value = *key + *key_len;
	source->at += 8 + *key_len + *value_len;
	return ESKER_SOURCE_PAIR;
}

int32_t esker_go_bulk_load(const esker_db_t *db, const esker_keyspace_t *keyspace, uintptr_t state,
		esker_ingest_report_t **report, char **message) {
	pairs source = {state, NULL, 0, 0};
	int32_t code = keyspace == NULL
		? esker_bulk_load(db, &source, next_pair, report, message)
		: esker_keyspace_bulk_load(keyspace, &source, next_pair, report, message);
	free(source.chunk);
	return code;
}
