// Registers functions of the Go program at the C library. `state` is a handle of the Go runtime.

#ifndef ESKER_GO_CALLBACKS_H
#define ESKER_GO_CALLBACKS_H

#include "esker.h"

int32_t esker_go_set_comparator(esker_options_t *options, uintptr_t state,
	uint8_t equal_is_identical, char **message);
int32_t esker_go_add_comparator(esker_options_t *options, uintptr_t state,
	uint8_t equal_is_identical, char **message);
int32_t esker_go_add_merge_operator(esker_options_t *options, uintptr_t state, uint8_t partial,
	char **message);
int32_t esker_go_add_compaction_filter(esker_options_t *options, uintptr_t state, char **message);
int32_t esker_go_set_filter(esker_options_t *options, uintptr_t state, char **message);
int32_t esker_go_add_listener(esker_options_t *options, uintptr_t state, char **message);
int32_t esker_go_set_clock(esker_options_t *options, uintptr_t state, char **message);
int32_t esker_go_set_key_source(esker_options_t *options, uintptr_t state, char **message);
int32_t esker_go_visit_names(const esker_db_t *db, uintptr_t state, char **message);
int32_t esker_go_visit_backups(const char *path, const esker_options_t *options, uintptr_t state,
	char **message);

int32_t esker_go_visit_slots(const esker_db_t *db, uintptr_t state, char **message);
int32_t esker_go_lineage(const esker_db_t *db, char **name, uintptr_t state, char **message);
int32_t esker_go_visit_tables(const esker_db_t *db, uintptr_t state, char **message);
int32_t esker_go_visit_options(uintptr_t state, char **message);
// Puts the value of a `source` of stream.go.
int32_t esker_go_put_reader(const esker_db_t *db, const esker_keyspace_t *keyspace,
	const uint8_t *key, size_t key_len, uintptr_t state, uint64_t *bytes, char **message);
// Writes a stream of changes into a `sink` of wire.go.
int32_t esker_go_change_writer_create(const esker_db_t *db, uintptr_t state,
	esker_change_writer_t **writer, char **message);
// Applies the stream of changes of a `source` of stream.go.
int32_t esker_go_applier_create(const esker_db_t *db, uintptr_t state, esker_applier_t **applier,
	char **message);
// Verifies a store for a `verification` of reports.go; 0 is none that hears the progress.
int32_t esker_go_verify_with(const esker_db_t *db, uintptr_t state, esker_verify_report_t **report,
	char **message);
// Loads the pairs of a `load` of ingest.go.
int32_t esker_go_bulk_load(const esker_db_t *db, const esker_keyspace_t *keyspace, uintptr_t state,
	esker_ingest_report_t **report, char **message);

// Returns the state of a function that no store uses any more, or 0. `*list` is NULL at first.
uintptr_t esker_go_take_unused(void **list);

#endif
