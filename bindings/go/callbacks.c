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

static void visit_name(void *state, const uint8_t *text, size_t len) {
	eskerGoVisitName((uintptr_t)state, (void *)text, len);
}

static void visit_backup(void *state, uint64_t number, const char *path, uint64_t tables,
		uint64_t bytes, int64_t created_ms, const char *problem) {
	eskerGoVisitBackup((uintptr_t)state, number, (char *)path, tables, bytes, created_ms,
		(char *)problem);
}

int32_t esker_go_set_comparator(esker_options_t *options, uintptr_t state, char **message) {
	return esker_options_set_comparator(options, (void *)state, destroy, compare, name, message);
}

int32_t esker_go_add_comparator(esker_options_t *options, uintptr_t state, char **message) {
	return esker_options_add_comparator(options, (void *)state, destroy, compare, name, message);
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

int32_t esker_go_visit_names(const esker_db_t *db, uintptr_t state, char **message) {
	return esker_prepared_transactions(db, (void *)state, visit_name, message);
}

int32_t esker_go_visit_backups(const char *path, const esker_options_t *options, uintptr_t state,
		char **message) {
	return esker_backups(path, options, (void *)state, visit_backup, message);
}
