/* The change feed as bytes from one store to another, iterators over a prefix, and the numbers of
 * verifications and repairs. */
#include <string.h>

#include "check.h"

static esker_db_t *opened(const char *path) {
    esker_db_t *db = NULL;
    CHECK(esker_open(path, NULL, &db, &message) == ESKER_OK);
    return db;
}

/* Bytes on their way. `room` limits what one read gives; 0 is no limit. */
struct pipe {
    uint8_t bytes[1 << 20];
    size_t length, read, room;
    int fails, calls;
};

static struct pipe wire;

static int32_t take(void *state, const uint8_t *bytes, size_t length) {
    struct pipe *pipe = state;
    ++pipe->calls;
    if (pipe->fails) return 1;
    CHECK(pipe->length + length <= sizeof pipe->bytes);
    memcpy(pipe->bytes + pipe->length, bytes, length);
    pipe->length += length;
    return 0;
}

static int64_t give(void *state, uint8_t *bytes, size_t length) {
    struct pipe *pipe = state;
    size_t left = pipe->length - pipe->read;
    if (pipe->fails) return -1;
    if (length > left) length = left;
    if (pipe->room != 0 && length > pipe->room) length = pipe->room;
    memcpy(bytes, pipe->bytes + pipe->read, length);
    pipe->read += length;
    return (int64_t)length;
}

static int64_t give_too_much(void *state, uint8_t *bytes, size_t length) {
    (void)state, (void)bytes;
    return (int64_t)length + 1;
}

/* Writes what is new in a feed, and the end of the stream. Returns the position. */
static uint64_t send_changes(esker_change_writer_t *writer, esker_changes_t *changes, int *batches) {
    const esker_change_batch_t *batch = NULL;
    uint64_t position = 0;
    for (*batches = 0;; ++*batches) {
        CHECK(esker_changes_next(changes, 0, &batch, &message) == ESKER_OK);
        if (batch == NULL) break;
        CHECK(esker_change_writer_batch(writer, changes, &message) == ESKER_OK);
        position = batch->sequence;
    }
    /* The last batch is not valid any more. */
    CHECK(esker_change_writer_batch(writer, changes, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(esker_change_writer_alive(writer, position, &message) == ESKER_OK);
    CHECK(esker_change_writer_end(writer, position, &message) == ESKER_OK);
    return position;
}

/* Applies a whole stream. Returns the number of items of each kind in `kinds`. */
static void apply_all(esker_db_t *target, uint64_t source, uint64_t end, int kinds[6]) {
    esker_applier_t *applier = NULL;
    uint64_t position = 1;
    int32_t item = -1;
    memset(kinds, 0, 6 * sizeof *kinds);
    CHECK(esker_applier_create(target, &wire, give, &applier, &message) == ESKER_OK);
    CHECK(esker_applier_source(applier) == source);
    while (item != ESKER_STREAM_END) {
        CHECK(esker_applier_next(applier, &item, &position, &message) == ESKER_OK);
        CHECK(item >= 0 && item < 6);
        ++kinds[item];
    }
    CHECK(position == end && wire.read == wire.length);
    esker_applier_destroy(applier);
}

static void replicas(void) {
    esker_db_t *source = opened(path_of("source")), *target = opened(path_of("target"));
    esker_slot_t *slot = NULL;
    esker_changes_t *changes = NULL, *others = NULL;
    esker_change_writer_t *writer = NULL;
    esker_applier_t *applier = NULL;
    esker_keyspace_t *keyspace = NULL;
    uint64_t id = 0, position = 7, applied = 7, from = 7;
    uint8_t has = 7;
    int32_t item = -1;
    int kinds[6], batches = 0;
    CHECK(esker_store_id(source, &id, &message) == ESKER_OK);
    CHECK(esker_subscribe(source, "copy", 0, &slot, &message) == ESKER_OK);
    CHECK(esker_keyspace_open(source, "other", NULL, &keyspace, &message) == ESKER_OK);
    CHECK(esker_keyspace_put(keyspace, "k", 1, "in other", 8, 0, &message) == ESKER_OK);
    put(source, "before", "1");
    CHECK(esker_applied_position(target, &has, &from, &applied, &message) == ESKER_OK);
    CHECK(has == 0 && from == 0 && applied == 0);

    /* The content, then what follows it. */
    CHECK(esker_change_writer_create(source, &wire, take, &writer, &message) == ESKER_OK);
    CHECK(esker_change_writer_content(writer, &position, &message) == ESKER_OK);
    put(source, "after", "2");
    CHECK(esker_delete(source, "before", 6, 0, &message) == ESKER_OK);
    CHECK(esker_changes_create(source, position, &changes, &message) == ESKER_OK);
    CHECK(esker_change_writer_batch(writer, changes, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(esker_changes_create(target, 0, &others, &message) == ESKER_OK);
    CHECK(esker_change_writer_batch(writer, others, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(strstr(message, "another handle") != NULL);
    esker_changes_destroy(others);
    position = send_changes(writer, changes, &batches);
    esker_change_writer_destroy(writer);
    wire.room = 5;
    apply_all(target, id, position, kinds);
    wire.room = 0;
    CHECK(kinds[ESKER_STREAM_CONTENT] > 0 && kinds[ESKER_STREAM_CONTENT_END] == 1);
    CHECK(kinds[ESKER_STREAM_BATCH] == batches && batches == 2 && kinds[ESKER_STREAM_ALIVE] == 1);
    CHECK(holds(target, "after", "2") && holds(target, "before", NULL));
    CHECK(esker_applied_position(target, &has, &from, &applied, &message) == ESKER_OK);
    CHECK(has == 1 && from == id && applied == position);
    esker_keyspace_close(keyspace);
    CHECK(esker_keyspace_find(target, "other", &keyspace, &message) == ESKER_OK);
    CHECK(keyspace != NULL);
    esker_keyspace_close(keyspace);

    /* A store that is a stream's own source, or of another source, or has its position, refuses. */
    wire.read = 0;
    CHECK(esker_applier_create(source, &wire, give, &applier, &message) == ESKER_INCOMPATIBLE);
    CHECK(applier == NULL);
    wire.read = 0;
    CHECK(esker_applier_create(target, &wire, give, &applier, &message) == ESKER_OK);
    CHECK(esker_applier_start_at(applier, 1, &message) == ESKER_INVALID_ARGUMENT);
    esker_applier_destroy(applier);

    /* Bytes that are cut off or damaged, and sources that fail, are failures. */
    wire.read = 0;
    wire.length -= 9;
    CHECK(esker_applier_create(target, &wire, give, &applier, &message) == ESKER_OK);
    do {
        int32_t code = esker_applier_next(applier, &item, NULL, &message);
        CHECK(code == ESKER_OK || wire.read == wire.length);
        if (code != ESKER_OK) break;
    } while (item != ESKER_STREAM_END);
    CHECK(item != ESKER_STREAM_END);
    esker_applier_destroy(applier);
    wire.read = 0;
    wire.bytes[20] ^= 1;
    CHECK(esker_applier_create(target, &wire, give, &applier, &message) == ESKER_CORRUPTION);
    wire.fails = 1;
    CHECK(esker_applier_create(target, &wire, give, &applier, &message) == ESKER_IO);
    CHECK(esker_applier_create(target, NULL, give_too_much, &applier, &message) == ESKER_IO);
    CHECK(strstr(message, "in a buffer of") != NULL && applier == NULL);

    /* A function that fails once is not called again. */
    CHECK(esker_change_writer_create(source, &wire, take, &writer, &message) == ESKER_IO);
    CHECK(writer == NULL);
    wire.fails = 0;
    CHECK(esker_change_writer_create(source, &wire, take, &writer, &message) == ESKER_OK);
    wire.fails = 1;
    CHECK(esker_change_writer_end(writer, 1, &message) == ESKER_IO);
    wire.calls = wire.fails = 0;
    CHECK(esker_change_writer_end(writer, 1, &message) == ESKER_IO && wire.calls == 0);
    CHECK(esker_close(source, &message) == ESKER_OK);
    CHECK(esker_change_writer_content(writer, NULL, &message) == ESKER_CLOSED);
    esker_change_writer_destroy(writer);
    esker_changes_destroy(changes);
    esker_slot_close(slot);
    esker_db_destroy(source);
    esker_db_destroy(target);
}

static int backwards(void *state, const char *a, size_t a_len, const char *b, size_t b_len) {
    int order = memcmp(b, a, a_len < b_len ? a_len : b_len);
    (void)state;
    return order != 0 ? order : (a_len < b_len) - (a_len > b_len);
}

static const char *name(void *state) {
    (void)state;
    return "wire.backwards";
}

/* Returns the number of keys of an iterator, and frees it. */
static int count(esker_iter_t *iter) {
    int found = 0;
    for (esker_iter_seek_to_first(iter); esker_iter_valid(iter); esker_iter_next(iter)) ++found;
    CHECK(esker_iter_failure(iter, &message) == ESKER_OK);
    esker_iter_destroy(iter);
    return found;
}

static void prefixes(void) {
    esker_db_t *db = opened(path_of("prefixes"));
    esker_options_t *options = esker_options_create();
    esker_snapshot_t *before = NULL;
    esker_keyspace_t *keyspace = NULL;
    esker_iter_t *iter = NULL;
    put(db, "user/1", "a");
    put(db, "user/2", "b");
    put(db, "user0", "c");
    put(db, "\xff\xff", "d");
    CHECK(esker_snapshot_create(db, &before, &message) == ESKER_OK);
    put(db, "user/3", "e");
    CHECK(esker_iter_create_prefix(db, NULL, "user/", 5, 1, &iter, &message) == ESKER_OK);
    CHECK(count(iter) == 3);
    CHECK(esker_iter_create_prefix(db, before, "user/", 5, 0, &iter, &message) == ESKER_OK);
    CHECK(count(iter) == 2);
    CHECK(esker_iter_create_prefix(db, NULL, "\xff", 1, 1, &iter, &message) == ESKER_OK);
    CHECK(count(iter) == 1);
    CHECK(esker_iter_create_prefix(db, NULL, NULL, 0, 1, &iter, &message) == ESKER_OK);
    CHECK(count(iter) == 5);
    CHECK(esker_keyspace_open(db, "other", NULL, &keyspace, &message) == ESKER_OK);
    CHECK(esker_keyspace_put(keyspace, "user/9", 6, "", 0, 0, &message) == ESKER_OK);
    CHECK(esker_keyspace_iter_create_prefix(keyspace, NULL, "user/", 5, 1, &iter, &message) ==
          ESKER_OK);
    CHECK(count(iter) == 1);
    esker_keyspace_close(keyspace);
    esker_snapshot_destroy(before);
    esker_db_destroy(db);
    CHECK(esker_options_set_comparator(options, NULL, NULL, backwards, 0, name, &message) ==
          ESKER_OK);
    CHECK(esker_open(path_of("backwards"), options, &db, &message) == ESKER_OK);
    CHECK(esker_iter_create_prefix(db, NULL, "a", 1, 1, &iter, &message) ==
          ESKER_INVALID_ARGUMENT);
    CHECK(iter == NULL && strstr(message, "wire.backwards") != NULL);
    esker_db_destroy(db);
    esker_options_destroy(options);
}

static void progress(void *state, uint64_t bytes, uint64_t of) {
    (void)of;
    CHECK(bytes >= *(uint64_t *)state);
    *(uint64_t *)state = bytes;
}

static void reports(void) {
    esker_db_t *db = opened(path_of("reports"));
    esker_verify_report_t *verified = NULL;
    esker_repair_report_t *repaired = NULL;
    char *lost = NULL, *originals = NULL;
    uint64_t heard = 0;
    put(db, "a", "1");
    put(db, "b", "2");
    CHECK(esker_flush(db, &message) == ESKER_OK);
    CHECK(esker_verify_with(db, &heard, progress, &verified, &message) == ESKER_OK);
    CHECK(verified->problems == 0 && verified->files == 1 && verified->entries == 2);
    CHECK(verified->bytes > 0 && heard > 0 && verified->format_version > 0);
    esker_free(verified);
    CHECK(esker_verify_with(db, NULL, NULL, NULL, &message) == ESKER_OK);
    CHECK(esker_repair_with(path_of("reports"), NULL, &repaired, NULL, NULL, &message) ==
          ESKER_LOCKED);
    CHECK(repaired == NULL);
    esker_db_destroy(db);
    CHECK(esker_repair_with(path_of("reports"), NULL, &repaired, &lost, &originals, &message) ==
          ESKER_OK);
    CHECK(repaired->manifest_readable == 1 && repaired->tables == 1 && repaired->pairs == 2);
    CHECK(repaired->losses == 0 && lost == NULL && strlen(originals) > 0);
    esker_free(repaired);
    esker_free(originals);
    db = opened(path_of("reports"));
    CHECK(holds(db, "a", "1") && holds(db, "b", "2"));
    esker_db_destroy(db);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    snprintf(folder, sizeof folder, "%s", argv[1]);
    replicas();
    prefixes();
    reports();
    esker_free(message);
    printf("wire.c: passed\n");
    return 0;
}
