/* The change feed, forks, comparisons, ingests and bulk loads through Esker's C interface.
 * scripts/capi.sh runs it on the shared and on the static library. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <time.h>

#include "check.h"

static esker_db_t *opened(const char *path) {
    esker_db_t *db = NULL;
    CHECK(esker_open(path, NULL, &db, &message) == ESKER_OK);
    return db;
}

/* A writer that runs while a reader follows. */
static void *write_numbers(void *state) {
    char key[16];
    for (int number = 0; number < 200; ++number) {
        snprintf(key, sizeof key, "n%04d", number);
        put(state, key, "follow");
    }
    return NULL;
}

static const esker_change_batch_t *next_of(esker_changes_t *changes, uint64_t wait_ms_max) {
    const esker_change_batch_t *batch = NULL;
    CHECK(esker_changes_next(changes, wait_ms_max, &batch, &message) == ESKER_OK);
    return batch;
}

/* Copies a snapshot, follows a writer, and has every key once. Returns the position. */
static uint64_t bootstrap_and_follow(esker_db_t *db) {
    esker_slot_t *slot = NULL;
    esker_snapshot_t *snapshot = NULL;
    esker_iter_t *iter = NULL;
    esker_changes_t *changes = NULL;
    uint64_t position = 0, last, expires = 0;
    size_t length = 0;
    int seen[200] = {0}, copied = 0, followed = 0;
    pthread_t writer;
    put(db, "n0000", "before");
    CHECK(esker_subscribe(db, "copy", ESKER_LAG_LIMIT_DEFAULT, &slot, &message) == ESKER_OK);
    put(db, "n0001", "before");
    CHECK(pthread_create(&writer, NULL, write_numbers, db) == 0);
    CHECK(esker_snapshot_create_with_position(db, &snapshot, &position, &message) == ESKER_OK);
    CHECK(esker_iter_create(db, snapshot, NULL, 0, NULL, 0, 1, &iter, &message) == ESKER_OK);
    for (esker_iter_seek_to_first(iter); esker_iter_valid(iter); esker_iter_next(iter)) {
        const uint8_t *value = esker_iter_value(iter, &length);
        const char *key = (const char *)esker_iter_key(iter, &length);
        char digits[5] = "";
        memcpy(digits, key + 1, 4);
        if (*value == 'f') ++seen[atoi(digits)];
        ++copied;
    }
    CHECK(copied >= 2 && esker_iter_failure(iter, &message) == ESKER_OK);
    CHECK(esker_slot_confirm(slot, position, &message) == ESKER_OK);
    CHECK(esker_slot_changes(slot, &changes, &message) == ESKER_OK);
    last = position;
    /* The writer may have ended before the snapshot. */
    while (!seen[199]) {
        const esker_change_batch_t *batch = next_of(changes, 60000);
        CHECK(batch != NULL && batch->previous == last && batch->first_sequence == last + 1);
        CHECK(batch->changes_len == 1 && batch->checksum != 0);
        const esker_change_t *change = batch->changes[0];
        char digits[5] = "";
        CHECK(change->kind == ESKER_CHANGE_PUT && strcmp(change->keyspace, "default") == 0);
        CHECK(change->key_len == 5 && change->value_len == 6);
        CHECK(change->expires_ms == ESKER_NEVER_MS && change->new_name == NULL);
        memcpy(digits, change->key + 1, 4);
        ++seen[atoi(digits)];
        last = batch->sequence;
        ++followed;
    }
    CHECK(pthread_join(writer, NULL) == 0);
    for (int number = 0; number < 200; ++number) CHECK(seen[number] == 1);
    CHECK(followed <= 200 && next_of(changes, 0) == NULL && next_of(changes, 1) == NULL);
    CHECK(esker_slot_confirm(slot, last, &message) == ESKER_OK);
    CHECK(esker_slot_confirm(slot, last + 1, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(esker_put_with_ttl(db, "t", 1, "", 0, 3600000, 0, &message) == ESKER_OK);
    expires = next_of(changes, 60000)->changes[0]->expires_ms;
    CHECK(expires != ESKER_NEVER_MS && expires > 0);
    esker_changes_destroy(changes);
    esker_iter_destroy(iter);
    esker_snapshot_destroy(snapshot);
    esker_slot_close(slot);
    return last;
}

static int kinds[16], kinds_len = 0;

/* Every kind of change, in one feed. */
static void every_kind(esker_db_t *db) {
    esker_changes_t *changes = NULL;
    esker_slot_t *slot = NULL;
    esker_keyspace_t *keyspace = NULL;
    esker_keyspace_options_t *options = esker_keyspace_options_create();
    const esker_change_batch_t *batch;
    int created = 0, renamed = 0;
    CHECK(esker_subscribe(db, "kinds", ESKER_LAG_UNLIMITED, &slot, &message) == ESKER_OK);
    CHECK(esker_slot_changes(slot, &changes, &message) == ESKER_OK);
    CHECK(esker_keyspace_options_set_merge_operator(options, "add_i64", &message) == ESKER_OK);
    CHECK(esker_keyspace_open(db, "counts", options, &keyspace, &message) == ESKER_OK);
    CHECK(esker_keyspace_merge(keyspace, "n", 1, "1", 1, 0, &message) == ESKER_OK);
    CHECK(esker_keyspace_delete(keyspace, "n", 1, 0, &message) == ESKER_OK);
    CHECK(esker_keyspace_delete_range(keyspace, "a", 1, "b", 1, 0, &message) == ESKER_OK);
    CHECK(esker_keyspace_clear(keyspace, &message) == ESKER_OK);
    CHECK(esker_keyspace_rename(db, "counts", "sums", &message) == ESKER_OK);
    CHECK(esker_keyspace_drop(db, "sums", &message) == ESKER_OK);
    while ((batch = next_of(changes, 0)) != NULL) {
        for (size_t at = 0; at < batch->changes_len; ++at) {
            const esker_change_t *change = batch->changes[at];
            CHECK(kinds_len < 16);
            kinds[kinds_len++] = change->kind;
            created |= change->key_order != NULL && strstr(change->options, "add_i64") != NULL;
            renamed |= change->new_name != NULL && strcmp(change->new_name, "sums") == 0;
            if (change->kind == ESKER_CHANGE_DELETE_RANGE)
                CHECK(*change->key == 'a' && *change->value == 'b');
        }
    }
    CHECK(created && renamed && kinds_len == 7);
    static const int expected[] = {
        ESKER_CHANGE_KEYSPACE_CREATED, ESKER_CHANGE_MERGE, ESKER_CHANGE_DELETE,
        ESKER_CHANGE_DELETE_RANGE,     ESKER_CHANGE_CLEAR, ESKER_CHANGE_KEYSPACE_RENAMED,
        ESKER_CHANGE_KEYSPACE_DROPPED};
    CHECK(memcmp(kinds, expected, sizeof expected) == 0);
    esker_changes_destroy(changes);
    esker_slot_close(slot);
    esker_keyspace_close(keyspace);
    esker_keyspace_options_destroy(options);
    CHECK(esker_drop_slot(db, "kinds", &message) == ESKER_OK);
    CHECK(esker_drop_slot(db, "kinds", &message) == ESKER_NOT_FOUND);
}

static void note(void *state, const esker_slot_info_t *slot) {
    strcat(strcat(state, slot->name), slot->problem == NULL ? " " : "! ");
}

/* Counts the slots that a store drops. */
static void hear(void *state, const esker_event_t *event) {
    if (event->kind != ESKER_EVENT_SLOT_DROPPED) return;
    CHECK(strcmp(event->name, "lagging") == 0 && strlen(event->cause) > 0);
    ++*(int *)state;
}

/* A slot that lags too far is dropped, and its reader is told why. */
static void dropped_by_limit(esker_db_t *db) {
    esker_slot_t *slot = NULL, *again = NULL;
    esker_changes_t *changes = NULL;
    char names[256] = "", key[16];
    uint64_t position = 0;
    CHECK(esker_subscribe(db, "lagging", 1000, &slot, &message) == ESKER_OK);
    for (int number = 0; number < 200; ++number) {
        snprintf(key, sizeof key, "lag%d", number);
        put(db, key, "a value that fills the log of the store, some more");
    }
    CHECK(esker_flush(db, &message) == ESKER_OK);
    /* A flush drops it with the logs that it removes, which may be after it has woken its caller. */
    for (int tries = 0; tries < 120000 && strcmp(names, "copy lagging! ") != 0; ++tries) {
        const struct timespec pause = {0, 1000000};
        if (tries > 0) nanosleep(&pause, NULL);
        names[0] = '\0';
        CHECK(esker_slots(db, names, note, &message) == ESKER_OK);
    }
    CHECK(strcmp(names, "copy lagging! ") == 0);
    CHECK(esker_slot_position(slot, &position, &message) == ESKER_NOT_FOUND);
    CHECK(strstr(message, "lagged") != NULL);
    CHECK(esker_subscribe(db, "lagging", 0, &again, &message) == ESKER_NOT_FOUND && again == NULL);
    CHECK(esker_slot_changes(slot, &changes, &message) == ESKER_NOT_FOUND && changes == NULL);
    esker_slot_close(slot);
    CHECK(esker_drop_slot(db, "lagging", &message) == ESKER_OK);
}

struct waiting {
    esker_changes_t *changes;
    int32_t code;
    const esker_change_batch_t *batch;
};

static void *wait_for_a_batch(void *state) {
    struct waiting *waiting = state;
    waiting->code = esker_changes_next(waiting->changes, UINT64_MAX, &waiting->batch, NULL);
    return NULL;
}

/* A close of the store ends a wait; what is used after it says so. */
static void closed_during_a_wait(esker_db_t *db, esker_slot_t *slot) {
    struct waiting waiting = {NULL, ESKER_OK, NULL};
    const esker_change_batch_t *batch = NULL;
    esker_changes_t *other = NULL;
    uint64_t position = 0;
    pthread_t waiter;
    CHECK(esker_slot_changes(slot, &waiting.changes, &message) == ESKER_OK);
    while (next_of(waiting.changes, 0) != NULL);
    CHECK(pthread_create(&waiter, NULL, wait_for_a_batch, &waiting) == 0);
    CHECK(esker_close(db, &message) == ESKER_OK);
    CHECK(pthread_join(waiter, NULL) == 0);
    CHECK(waiting.code == ESKER_CLOSED && waiting.batch == NULL);
    CHECK(esker_changes_next(waiting.changes, 0, &batch, &message) == ESKER_CLOSED);
    CHECK(esker_slot_confirm(slot, 1, &message) == ESKER_CLOSED);
    CHECK(esker_slot_position(slot, &position, &message) == ESKER_CLOSED);
    CHECK(esker_slot_changes(slot, &other, &message) == ESKER_CLOSED && other == NULL);
    CHECK(esker_changes_create(db, 0, &other, &message) == ESKER_CLOSED && other == NULL);
    CHECK(esker_fork(db, path_of("late"), NULL, NULL, &message) == ESKER_CLOSED);
    CHECK(esker_ingest(db, NULL, 0, 0, 1, NULL, &message) == ESKER_CLOSED);
    esker_changes_destroy(waiting.changes);
}

static void ancestor(void *state, uint64_t store_id, const char *name, uint64_t sequence) {
    CHECK(name == NULL && sequence > 0);
    *(uint64_t *)state = store_id;
}

static void forks(void) {
    esker_db_t *parent = opened(path_of("parent")), *fork;
    esker_fork_report_t *report = NULL;
    esker_diff_t *diff = NULL;
    const esker_difference_t *found = NULL;
    uint64_t id = 0, parent_id = 0;
    char seen[256] = "", *text = NULL;
    put(parent, "apple", "red");
    put(parent, "lime", "green");
    CHECK(esker_fork(parent, path_of("fork"), "try 1", &report, &message) == ESKER_OK);
    CHECK(report != NULL && report->linked_files + report->copied_files > 0);
    CHECK(esker_fork(parent, path_of("fork"), NULL, NULL, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(esker_fork(parent, path_of("bad"), "", NULL, &message) == ESKER_INVALID_ARGUMENT);
    fork = opened(path_of("fork"));
    CHECK(esker_store_id(fork, &id, &message) == ESKER_OK && id == report->store_id);
    esker_free(report);
    CHECK(esker_lineage(fork, &text, &id, ancestor, &message) == ESKER_OK);
    CHECK(strcmp(text, "try 1") == 0);
    esker_free(text);
    CHECK(esker_store_id(parent, &parent_id, &message) == ESKER_OK && id == parent_id);
    put(fork, "apple", "green");
    put(fork, "plum", "");
    CHECK(esker_delete(fork, "lime", 4, 0, &message) == ESKER_OK);
    put(parent, "parent", "only");
    CHECK(holds(parent, "apple", "red") && holds(parent, "plum", NULL));
    CHECK(holds(fork, "lime", NULL) && holds(fork, "parent", NULL));
    CHECK(esker_diff_create(parent, NULL, fork, NULL, NULL, &diff, &message) == ESKER_OK);
    while (esker_diff_next(diff, &found, &message) == ESKER_OK && found != NULL) {
        CHECK(strcmp(found->keyspace, "default") == 0);
        CHECK(found->old_expires_ms == ESKER_NEVER_MS && found->new_expires_ms == ESKER_NEVER_MS);
        strncat(seen, (const char *)found->key, found->key_len);
        strcat(seen, found->old_value == NULL ? "+ " : found->new_value == NULL ? "- " : "~ ");
    }
    CHECK(strcmp(seen, "apple~ lime- parent- plum+ ") == 0);
    CHECK(esker_diff_relation(diff) == ESKER_RELATION_DESCENDANT);
    CHECK(esker_diff_shared_files(diff) > 0);
    text = esker_diff_keyspaces_only_in(diff, 0);
    CHECK(*text == 0);
    esker_free(text);
    esker_diff_destroy(diff);
    CHECK(esker_diff_create(parent, NULL, fork, NULL, "none", &diff, &message) == ESKER_NOT_FOUND);
    CHECK(esker_diff_create(parent, NULL, NULL, NULL, NULL, &diff, &message) ==
          ESKER_INVALID_ARGUMENT);
    esker_db_destroy(parent);
    esker_db_destroy(fork);
}

static void ingests(void) {
    esker_db_t *db = opened(path_of("loaded"));
    esker_sorted_writer_t *writer = NULL;
    esker_ingest_report_t *report = NULL;
    const esker_sorted_file_t *file = NULL;
    const char *names[2];
    esker_keyspace_t *keyspace = NULL;
    names[0] = path_of("one.sst"), names[1] = path_of("two.sst");
    put(db, "b", "old");
    put(db, "d", "old");
    CHECK(esker_sorted_writer_create(names[0], NULL, &writer, &message) == ESKER_OK);
    CHECK(esker_sorted_writer_put(writer, "b", 1, "new", 3, &message) == ESKER_OK);
    CHECK(esker_sorted_writer_put(writer, "a", 1, "1", 1, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(strstr(message, "ascending") != NULL);
    CHECK(esker_sorted_writer_merge(writer, "c", 1, "1", 1, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(esker_sorted_writer_put_with_ttl(writer, "c", 1, "1", 1, 3600000, &message) == ESKER_OK);
    CHECK(esker_sorted_writer_delete(writer, "d", 1, &message) == ESKER_OK);
    CHECK(esker_sorted_writer_entries(writer) == 3);
    CHECK(esker_sorted_writer_finish(writer, &file, &message) == ESKER_OK);
    CHECK(file->entries == 3 && file->bytes > 0 && esker_sorted_writer_entries(writer) == 3);
    CHECK(*file->smallest == 'b' && *file->largest == 'd' && file->largest_len == 1);
    CHECK(esker_sorted_writer_put(writer, "z", 1, NULL, 0, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(esker_sorted_writer_finish(writer, NULL, &message) == ESKER_INVALID_ARGUMENT);
    esker_sorted_writer_destroy(writer);
    /* The second file shares a key with the first: neither gets in. */
    CHECK(esker_sorted_writer_create(names[1], NULL, &writer, &message) == ESKER_OK);
    CHECK(esker_sorted_writer_put(writer, "c", 1, "2", 1, &message) == ESKER_OK);
    CHECK(esker_sorted_writer_finish(writer, NULL, &message) == ESKER_OK);
    esker_sorted_writer_destroy(writer);
    CHECK(esker_ingest(db, names, 2, 0, 1, &report, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(report == NULL && holds(db, "b", "old") && holds(db, "c", NULL) && holds(db, "d", "old"));
    CHECK(esker_ingest(db, names, 1, 1, 1, &report, &message) == ESKER_OK);
    CHECK(report->entries == 3 && report->files > 0 && report->sequence > 0 && report->flushed);
    esker_free(report);
    CHECK(holds(db, "b", "new") && holds(db, "c", "1") && holds(db, "d", NULL));
    CHECK(esker_keyspace_open(db, "other", NULL, &keyspace, &message) == ESKER_OK);
    CHECK(esker_keyspace_ingest(keyspace, names, 2, 0, 1, NULL, &message) ==
          ESKER_INVALID_ARGUMENT);
    CHECK(esker_keyspace_ingest(keyspace, names + 1, 1, 0, 0, NULL, &message) == ESKER_OK);
    CHECK(esker_ingest(db, NULL, 1, 0, 1, NULL, &message) == ESKER_INVALID_ARGUMENT);
    /* A writer that is not finished leaves no file. */
    CHECK(esker_sorted_writer_create(names[1], NULL, &writer, &message) == ESKER_OK);
    esker_sorted_writer_destroy(writer);
    CHECK(esker_sorted_writer_create(names[1], NULL, &writer, &message) == ESKER_OK);
    esker_sorted_writer_destroy(writer);
    esker_keyspace_close(keyspace);
    esker_db_destroy(db);
}

struct source {
    esker_db_t *db;
    int next, end, descend_at, fail_at;
    char key[16];
};

static int32_t give(void *state, const uint8_t **key, size_t *key_len, const uint8_t **value,
                    size_t *value_len) {
    struct source *source = state;
    int number = source->next++;
    if (number == source->end) return ESKER_SOURCE_END;
    if (number == source->fail_at) return ESKER_SOURCE_FAILED;
    if (number == 0) {
        /* The source may use the store, but not close it. */
        CHECK(holds(source->db, "none", NULL));
        CHECK(esker_close(source->db, NULL) == ESKER_INVALID_ARGUMENT);
    }
    snprintf(source->key, sizeof source->key, "k%05d", number == source->descend_at ? 0 : number);
    *key = (const uint8_t *)source->key, *key_len = 6;
    *value = *key, *value_len = number % 2 ? 6 : 0;
    return ESKER_SOURCE_PAIR;
}

struct large {
    int next, count;
    char key[16];
    uint8_t value[1024];
};

static int32_t give_large(void *state, const uint8_t **key, size_t *key_len,
                          const uint8_t **value, size_t *value_len) {
    struct large *large = state;
    uint32_t random = (uint32_t)large->next * 2654435761u;
    if (large->next == large->count) return ESKER_SOURCE_END;
    for (size_t at = 0; at < sizeof large->value; ++at) {
        random = random * 1664525 + 1013904223;
        large->value[at] = (uint8_t)(random >> 24);
    }
    snprintf(large->key, sizeof large->key, "k%05d", large->next++);
    *key = (const uint8_t *)large->key, *key_len = 6;
    *value = large->value, *value_len = sizeof large->value;
    return ESKER_SOURCE_PAIR;
}

/* In a store with a slot, a bulk load appears as the parts of one batch. */
static void loads_in_parts(void) {
    esker_db_t *db = opened(path_of("parts"));
    esker_slot_t *slot = NULL;
    esker_changes_t *changes = NULL;
    const esker_change_batch_t *batch;
    struct large large = {0, 3000, "", {0}};
    uint64_t begin = 0, sequence = 0, checksum = 0, parts = 0;
    int pairs = 0, continues = 1;
    CHECK(esker_subscribe(db, "parts", ESKER_LAG_UNLIMITED, &slot, &message) == ESKER_OK);
    CHECK(esker_bulk_load(db, &large, give_large, NULL, &message) == ESKER_OK);
    put(db, "whole", "batch");
    CHECK(esker_slot_position(slot, &begin, &message) == ESKER_OK);
    CHECK(esker_slot_changes(slot, &changes, &message) == ESKER_OK);
    while (continues) {
        char key[16];
        CHECK((batch = next_of(changes, 60000)) != NULL && batch->part == parts);
        CHECK(parts == 0 || (batch->sequence == sequence && batch->checksum == checksum));
        CHECK(batch->previous == begin && batch->continues <= 1);
        sequence = batch->sequence, checksum = batch->checksum;
        for (size_t at = 0; at < batch->changes_len; ++at) {
            const esker_change_t *change = batch->changes[at];
            snprintf(key, sizeof key, "k%05d", pairs++);
            CHECK(change->kind == ESKER_CHANGE_PUT && change->value_len == 1024);
            CHECK(change->key_len == 6 && memcmp(change->key, key, 6) == 0);
        }
        continues = batch->continues, ++parts;
        CHECK(esker_changes_position(changes) == (continues ? begin : sequence));
    }
    CHECK(pairs == 3000 && parts > 1);
    CHECK(esker_slot_confirm(slot, esker_changes_position(changes), &message) == ESKER_OK);
    batch = next_of(changes, 60000);
    CHECK(batch->part == 0 && batch->continues == 0 && batch->changes_len == 1);
    esker_changes_destroy(changes);
    esker_slot_close(slot);
    esker_db_destroy(db);
}

static void bulk_loads(void) {
    esker_db_t *db = opened(path_of("bulk"));
    esker_keyspace_t *keyspace = NULL;
    esker_ingest_report_t *report = NULL;
    struct source source = {db, 0, 5000, 4000, -1, ""};
    CHECK(esker_bulk_load(db, &source, give, &report, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(report == NULL && strstr(message, "ascending") != NULL && holds(db, "k00001", NULL));
    source = (struct source){db, 0, 5000, -1, 4000, ""};
    CHECK(esker_bulk_load(db, &source, give, NULL, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(source.next == 4001 && holds(db, "k00001", NULL));
    source = (struct source){db, 0, 5000, -1, -1, ""};
    CHECK(esker_bulk_load(db, &source, give, &report, &message) == ESKER_OK);
    CHECK(report->entries == 5000 && holds(db, "k04999", "k04999") && holds(db, "k00000", ""));
    esker_free(report);
    CHECK(esker_keyspace_open(db, "other", NULL, &keyspace, &message) == ESKER_OK);
    source = (struct source){db, 0, 10, -1, -1, ""};
    CHECK(esker_keyspace_bulk_load(keyspace, &source, give, NULL, &message) == ESKER_OK);
    CHECK(esker_bulk_load(db, NULL, NULL, NULL, &message) == ESKER_INVALID_ARGUMENT);
    esker_keyspace_close(keyspace);
    esker_db_destroy(db);
}

int main(int argc, char **argv) {
    esker_db_t *db;
    esker_slot_t *slot = NULL;
    uint64_t confirmed, position = 0;
    esker_options_t *options = esker_options_create();
    int dropped = 0;
    CHECK(argc == 2);
    snprintf(folder, sizeof folder, "%s", argv[1]);
    CHECK(esker_options_add_listener(options, &dropped, NULL, hear, &message) == ESKER_OK);
    CHECK(esker_open(argv[1], options, &db, &message) == ESKER_OK);
    esker_options_destroy(options);
    confirmed = bootstrap_and_follow(db);
    every_kind(db);
    dropped_by_limit(db);
    esker_db_destroy(db);
    CHECK(dropped == 1);
    /* After the store was opened again, the slot goes on where it was. */
    db = opened(argv[1]);
    CHECK(esker_slot_open(db, "none", &slot, &message) == ESKER_NOT_FOUND && slot == NULL);
    CHECK(esker_subscribe(db, "a b", 0, &slot, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(esker_slot_open(db, "copy", &slot, &message) == ESKER_OK);
    CHECK(esker_slot_position(slot, &position, &message) == ESKER_OK && position == confirmed);
    {
        esker_changes_t *changes = NULL;
        const esker_change_batch_t *batch;
        CHECK(esker_slot_changes(slot, &changes, &message) == ESKER_OK);
        batch = next_of(changes, 60000);
        CHECK(batch->previous == confirmed && batch->changes[0]->key[0] == 't');
        esker_changes_destroy(changes);
    }
    closed_during_a_wait(db, slot);
    esker_db_destroy(db);
    esker_slot_close(slot);
    forks();
    ingests();
    bulk_loads();
    loads_in_parts();
    esker_free(message);
    printf("feed.c: passed\n");
    return 0;
}
