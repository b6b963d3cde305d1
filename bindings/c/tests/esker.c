/* Calls every group of functions of Esker's C interface once and checks the results.
 * scripts/capi.sh runs it on the shared and on the static library. */
#include "check.h"

static void count(void *state, const uint8_t *key, size_t key_len, const uint8_t *value,
                  size_t value_len) {
    (void)key, (void)value, (void)key_len, (void)value_len;
    ++*(int *)state;
}

static void walk(esker_db_t *db) {
    esker_iter_t *iter = NULL;
    char seen[16] = "";
    size_t length = 0;
    CHECK(esker_iter_create(db, NULL, "b", 1, NULL, 0, 1, &iter, &message) == ESKER_OK);
    for (esker_iter_seek_to_first(iter); esker_iter_valid(iter); esker_iter_next(iter)) {
        const uint8_t *key = esker_iter_key(iter, &length);
        strncat(seen, (const char *)key, length);
    }
    CHECK(esker_iter_failure(iter, &message) == ESKER_OK);
    CHECK(strcmp(seen, "bc") == 0);
    esker_iter_seek_for_prev(iter, "bz", 2);
    CHECK(esker_iter_valid(iter) && *esker_iter_key(iter, &length) == 'b');
    esker_iter_destroy(iter);
}

static int backwards(void *state, const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t shared = a_len < b_len ? a_len : b_len;
    int order = memcmp(b, a, shared);
    (void)state;
    return order != 0 ? order : (a_len < b_len) - (a_len > b_len);
}

static const char *backwards_name(void *state) {
    (void)state;
    return "esker.c.backwards";
}

static void sum(void *state, const esker_operation_t *operation) {
    *(uint32_t *)state += 10 * operation->keyspace + (uint32_t)operation->kind;
}

static int has(esker_keyspace_t *keyspace, const esker_snapshot_t *snapshot, const char *key) {
    uint8_t *value = NULL;
    size_t length = 0;
    int found;
    CHECK(esker_keyspace_get(keyspace, snapshot, key, strlen(key), &value, &length,
                             &message) == ESKER_OK);
    found = value != NULL;
    esker_free(value);
    return found;
}

/* Two keyspaces: a batch over both, a snapshot, the order of one, many keys at once. */
static void keyspaces(esker_db_t *db, esker_batch_t *batch) {
    esker_keyspace_options_t *options = esker_keyspace_options_create();
    esker_keyspace_t *users = NULL, *events = NULL, *none = NULL;
    esker_snapshot_t *snapshot = NULL;
    esker_iter_t *iter = NULL;
    const void *keys[2];
    size_t lengths[2] = {1, 1}, value_lengths[2], length = 0;
    uint8_t *values[2], found = 2;
    uint32_t total = 0;
    uint64_t size = 0;
    char *text = NULL;

    CHECK(esker_keyspace_options_set(options, "compression", "none", &message) == ESKER_OK);
    CHECK(esker_keyspace_options_set_key_order(options, "esker.c.backwards", &message) == ESKER_OK);
    CHECK(esker_keyspace_open(db, "users", NULL, &users, &message) == ESKER_OK);
    CHECK(esker_keyspace_open(db, "events", options, &events, &message) == ESKER_OK);
    esker_keyspace_options_destroy(options);
    CHECK(esker_keyspace_find(db, "none", &none, &message) == ESKER_OK && none == NULL);
    CHECK(esker_keyspaces(db, &text, &message) == ESKER_OK);
    CHECK(strcmp(text, "default\nevents\nusers") == 0);
    esker_free(text);

    CHECK(esker_keyspace_put(users, "x", 1, "1", 1, ESKER_DURABILITY_DEFAULT,
                             &message) == ESKER_OK);
    CHECK(esker_snapshot_create(db, &snapshot, &message) == ESKER_OK);
    esker_batch_clear(batch);
    CHECK(esker_batch_delete_in(batch, users, "x", 1, &message) == ESKER_OK);
    CHECK(esker_batch_put_in(batch, users, "y", 1, "1", 1, &message) == ESKER_OK);
    CHECK(esker_batch_put_in(batch, events, "a", 1, "1", 1, &message) == ESKER_OK);
    CHECK(esker_batch_put_in(batch, events, "b", 1, "22", 2, &message) == ESKER_OK);
    esker_batch_visit_keyspaces(batch, &total, sum);
    CHECK(total == 20 * esker_keyspace_id(users) + 20 * esker_keyspace_id(events) +
                       ESKER_OPERATION_DELETE + 3 * ESKER_OPERATION_PUT);
    CHECK(esker_write(db, batch, ESKER_DURABILITY_SYNC, &message) == ESKER_OK);
    CHECK(!has(users, NULL, "x") && has(users, snapshot, "x") && !has(events, snapshot, "a"));
    CHECK(holds(db, "y", NULL));
    esker_snapshot_destroy(snapshot);

    CHECK(esker_keyspace_iter_create(events, NULL, NULL, 0, NULL, 0, 1, &iter, &message) ==
          ESKER_OK);
    esker_iter_seek_to_first(iter);
    CHECK(esker_iter_valid(iter) && *esker_iter_key(iter, &length) == 'b' && length == 1);
    esker_iter_destroy(iter);
    keys[0] = "b", keys[1] = "c";
    CHECK(esker_keyspace_multi_get(events, NULL, 1, 2, keys, lengths, values, value_lengths, &message) ==
          ESKER_OK);
    CHECK(values[0] != NULL && value_lengths[0] == 2 && values[1] == NULL);
    esker_free(values[0]);
    CHECK(esker_keyspace_remove(events, "b", 1, &found, &message) == ESKER_OK && found == 1);
    CHECK(esker_keyspace_contains(events, NULL, "b", 1, &found, &message) == ESKER_OK);
    CHECK(found == 0);
    CHECK(esker_keyspace_compact_range(events, NULL, 0, NULL, 0, &message) == ESKER_OK);
    CHECK(esker_keyspace_size_bytes(events, &size, &message) == ESKER_OK && size > 0);

    CHECK(esker_keyspace_rename(db, "events", "log", &message) == ESKER_OK);
    text = esker_keyspace_name(events);
    CHECK(text != NULL && strcmp(text, "log") == 0);
    esker_free(text);
    CHECK(esker_keyspace_drop(db, "log", &message) == ESKER_OK);
    CHECK(esker_keyspace_clear(events, &message) == ESKER_NOT_FOUND);
    CHECK(esker_keyspace_clear(users, &message) == ESKER_OK && !has(users, NULL, "y"));
    esker_keyspace_close(events);
    esker_keyspace_close(users);
}

static void remember(void *state, const uint8_t *name, size_t length) {
    if (length < 16) memcpy(state, name, length);
}

/* Transactions: own reads, savepoints, a conflict, a busy key, a prepared one. */
static void transactions(esker_db_t *db) {
    esker_transaction_options_t *options = esker_transaction_options_create();
    esker_transaction_t *first = NULL, *second = NULL;
    esker_keyspace_t *space = NULL;
    esker_iter_t *iter = NULL;
    uint8_t *value = NULL;
    size_t length = 0;
    char name[16] = "";

    CHECK(esker_keyspace_open(db, "transactions", NULL, &space, &message) == ESKER_OK);
    CHECK(esker_transaction_begin(db, NULL, &first, &message) == ESKER_OK);
    CHECK(esker_transaction_id(first) != 0);
    CHECK(esker_transaction_put(first, "t", 1, "1", 1, &message) == ESKER_OK);
    CHECK(esker_transaction_put_in(first, space, "t", 1, "2", 1, &message) == ESKER_OK);
    CHECK(esker_transaction_savepoint(first, &message) == ESKER_OK);
    CHECK(esker_transaction_delete_in(first, space, "t", 1, &message) == ESKER_OK);
    CHECK(esker_transaction_get_in(first, space, "t", 1, &value, &length, &message) == ESKER_OK);
    CHECK(value == NULL);
    CHECK(esker_transaction_rollback_to_savepoint(first, &message) == ESKER_OK);
    CHECK(esker_transaction_get_for_update_in(first, space, "t", 1, &value, &length,
                                              &message) == ESKER_OK);
    CHECK(value != NULL && length == 1 && *value == '2');
    esker_free(value);
    CHECK(holds(db, "t", NULL) && !has(space, NULL, "t"));
    CHECK(esker_transaction_iter_create_in(first, space, NULL, 0, NULL, 0, &iter, &message) ==
          ESKER_OK);
    esker_iter_seek_to_first(iter);
    CHECK(esker_iter_valid(iter) && *esker_iter_key(iter, &length) == 't');
    CHECK(esker_transaction_commit(first, &message) == ESKER_OK);
    CHECK(esker_transaction_commit(first, &message) == ESKER_INVALID_ARGUMENT);
    esker_iter_next(iter);
    CHECK(esker_iter_failure(iter, &message) == ESKER_INVALID_ARGUMENT);
    esker_iter_destroy(iter);
    esker_transaction_destroy(first);
    CHECK(holds(db, "t", "1") && has(space, NULL, "t"));

    CHECK(esker_transaction_options_set_isolation(options, ESKER_ISOLATION_SERIALIZABLE,
                                                  &message) == ESKER_OK);
    CHECK(esker_transaction_begin(db, options, &first, &message) == ESKER_OK);
    CHECK(esker_transaction_get(first, "t", 1, &value, &length, &message) == ESKER_OK);
    esker_free(value);
    CHECK(esker_transaction_delete_range(first, "x", 1, "y", 1, &message) == ESKER_OK);
    put(db, "t", "3");
    CHECK(esker_transaction_commit(first, &message) == ESKER_CONFLICT);
    esker_transaction_destroy(first);

    CHECK(esker_transaction_options_set_concurrency(options, ESKER_CONCURRENCY_PESSIMISTIC,
                                                    &message) == ESKER_OK);
    CHECK(esker_transaction_options_set_lock_timeout_ms(options, 0, &message) == ESKER_OK);
    CHECK(esker_transaction_begin(db, options, &first, &message) == ESKER_OK);
    CHECK(esker_transaction_begin(db, options, &second, &message) == ESKER_OK);
    CHECK(esker_transaction_delete(first, "t", 1, &message) == ESKER_OK);
    CHECK(esker_transaction_delete(second, "t", 1, &message) == ESKER_BUSY);
    CHECK(esker_transaction_rollback(second, &message) == ESKER_OK);
    CHECK(esker_transaction_prepare(first, "one", &message) == ESKER_OK);
    esker_transaction_destroy(second);
    esker_transaction_destroy(first);
    CHECK(esker_prepared_transactions(db, name, remember, &message) == ESKER_OK);
    CHECK(strcmp(name, "one") == 0);
    CHECK(esker_rollback_prepared(db, "two", &message) == ESKER_NOT_FOUND);
    CHECK(esker_commit_prepared(db, "one", &message) == ESKER_OK);
    CHECK(holds(db, "t", NULL));
    esker_transaction_options_destroy(options);
    CHECK(esker_keyspace_drop(db, "transactions", &message) == ESKER_OK);
    esker_keyspace_close(space);
}

static void add(void *state, const esker_backup_info_t *backup) {
    CHECK(backup->path != NULL && backup->tables > 0 && backup->table_bytes > 0);
    CHECK(backup->created_ms > 0 && backup->has_store && backup->store_id != 0);
    CHECK(backup->store_path != NULL && backup->problem == NULL);
    *(uint64_t *)state += backup->number;
}

/* Two backups, of which the older one is removed and the other is restored. */
static void backups(esker_db_t *db, const esker_options_t *options, const char *place) {
    char path[4096], into[4096];
    uint64_t number = 0, copied = 0, sum_of_numbers = 0;
    esker_db_t *copy = NULL;

    snprintf(path, sizeof path, "%s-backups", place);
    snprintf(into, sizeof into, "%s-restored", place);
    CHECK(esker_backup(db, path, 0, &number, &copied, &message) == ESKER_OK);
    CHECK(number == 1 && copied > 0);
    put(db, "b", "second");
    CHECK(esker_backup(db, path, 0, &number, NULL, &message) == ESKER_OK && number == 2);
    CHECK(esker_backups(path, NULL, &sum_of_numbers, add, &message) == ESKER_OK);
    CHECK(sum_of_numbers == 3);
    CHECK(esker_prune_backups(path, NULL, 0, &number, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(esker_prune_backups(path, NULL, 1, &number, &message) == ESKER_OK && number == 1);
    CHECK(esker_restore(path, 1, into, NULL, &number, &message) == ESKER_NOT_FOUND);
    CHECK(esker_restore(path, 0, into, options, &number, &message) == ESKER_OK && number == 2);
    CHECK(esker_restore(path, 0, into, options, &number, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(esker_open_read_only(into, options, &copy, &message) == ESKER_OK);
    CHECK(holds(copy, "b", "second"));
    esker_db_destroy(copy);
    CHECK(esker_backups("/nothing/here", NULL, NULL, add, &message) == ESKER_NOT_FOUND);
}

/* Reads as of a snapshot, that also leave the cache as it is. */
static void before(esker_db_t *db) {
    esker_snapshot_t *snapshot = NULL;
    const void *keys[1];
    size_t lengths[1] = {2}, value_lengths[1], length = 0;
    uint8_t *values[1], *value = NULL, found = 2;
    uint64_t expires_ms = 0;

    put(db, "s1", "1");
    CHECK(esker_snapshot_create(db, &snapshot, &message) == ESKER_OK);
    CHECK(esker_delete(db, "s1", 2, ESKER_DURABILITY_DEFAULT, &message) == ESKER_OK);
    CHECK(esker_contains(db, snapshot, "s1", 2, &found, &message) == ESKER_OK && found == 1);
    CHECK(esker_contains(db, NULL, "s1", 2, &found, &message) == ESKER_OK && found == 0);
    keys[0] = "s1";
    CHECK(esker_multi_get(db, snapshot, 0, 1, keys, lengths, values, value_lengths, &message) ==
          ESKER_OK);
    CHECK(value_lengths[0] == 1 && *values[0] == '1');
    esker_free(values[0]);
    CHECK(esker_get_with(db, snapshot, 0, "s1", 2, &value, &length, &message) == ESKER_OK);
    CHECK(length == 1 && *value == '1');
    esker_free(value);
    CHECK(esker_get_with_expiry(db, snapshot, "s1", 2, &value, &length, &expires_ms,
                                &message) == ESKER_OK);
    CHECK(length == 1 && *value == '1' && expires_ms == ESKER_NEVER_MS);
    esker_free(value);
    esker_snapshot_destroy(snapshot);
}

/* Gives five bytes of a value, one at a time. */
static int64_t give(void *state, uint8_t *buffer, size_t len) {
    int *given = state;
    CHECK(len > 0);
    if (*given == 5) return 0;
    *buffer = (uint8_t)('1' + (*given)++);
    return 1;
}

static void describe(void *state, const esker_option_t *option) {
    if (strcmp(option->name, "fan_out") == 0) *(uint8_t *)state = option->is_changeable;
}

static void see_table(void *state, const esker_table_t *table) {
    CHECK(table->number > 0 && table->size_bytes > 0);
    ++*(int *)state;
}

/* A streamed value, and what a store and its options consist of. */
static void parts(esker_db_t *db) {
    esker_value_reader_t *reader = NULL;
    uint8_t buffer[8], changeable = 0;
    size_t count = 0;
    uint64_t bytes_of = 0;
    int given = 0, tables = 0;
    const char *names[] = {"fan_out"}, *values[] = {"8"};
    char *text = NULL;
    CHECK(esker_put_reader(db, "v1", 2, &given, give, &bytes_of, &message) == ESKER_OK);
    CHECK(bytes_of == 5 && holds(db, "v1", "12345"));
    CHECK(esker_get_reader(db, "v1", 2, &reader, &message) == ESKER_OK);
    CHECK(esker_value_reader_len(reader) == 5);
    CHECK(esker_value_reader_read(reader, 3, buffer, sizeof buffer, &count, &message) == ESKER_OK);
    CHECK(count == 2 && memcmp(buffer, "45", 2) == 0);
    esker_value_reader_destroy(reader);
    CHECK(esker_options_visit(&changeable, describe, &message) == ESKER_OK && changeable == 1);
    CHECK(esker_set_options(db, 1, names, values, &message) == ESKER_OK);
    CHECK(esker_compact_all(db, &message) == ESKER_OK);
    CHECK(esker_tables(db, &tables, see_table, &message) == ESKER_OK && tables > 0);
    CHECK(esker_metric(db, "user_ops", &bytes_of, &message) == ESKER_OK && bytes_of > 0);
    CHECK(esker_path(db, &text, &message) == ESKER_OK && text[0] == '/');
    esker_free(text);
}

/* Range deletes, many keys at once, and metrics of a store. */
static void more(esker_db_t *db) {
    const void *keys[3];
    size_t lengths[3] = {2, 2, 2}, value_lengths[3];
    uint8_t *values[3], found = 2;
    char *text = NULL;

    put(db, "r1", "1");
    put(db, "r2", "2");
    put(db, "r3", "3");
    CHECK(esker_delete_range(db, "r2", 2, "r3", 2, ESKER_DURABILITY_SYNC, &message) == ESKER_OK);
    keys[0] = "r3", keys[1] = "r2", keys[2] = "r1";
    CHECK(esker_multi_get(db, NULL, 1, 3, keys, lengths, values, value_lengths, &message) == ESKER_OK);
    CHECK(values[0] != NULL && *values[0] == '3' && values[1] == NULL && *values[2] == '1');
    esker_free(values[0]);
    esker_free(values[2]);
    CHECK(esker_contains(db, NULL, "r1", 2, &found, &message) == ESKER_OK && found == 1);
    CHECK(esker_remove(db, "r1", 2, &found, &message) == ESKER_OK && found == 1);
    CHECK(esker_remove(db, "r1", 2, &found, &message) == ESKER_OK && found == 0);
    CHECK(esker_openmetrics(db, &text, &message) == ESKER_OK);
    CHECK(strstr(text, "\nesker_user_ops_total ") != NULL && strstr(text, "# EOF\n") != NULL);
    esker_free(text);
}

/* A merge operator that keeps the last operand, and refuses an empty one. */
static uint8_t *last(void *state, const uint8_t *key, size_t key_len, const uint8_t *existing,
                     size_t existing_len, const uint8_t *const *operands, const size_t *lengths,
                     size_t operands_len, size_t *value_len, char **reason) {
    size_t length = lengths[operands_len - 1];
    uint8_t *value = malloc(length + 6);
    (void)state, (void)key, (void)key_len, (void)existing, (void)existing_len;
    if (value != NULL && length == 0) {
        memcpy(value, "empty", 6);
        *reason = (char *)value;
        return NULL;
    }
    if (value != NULL) memcpy(value, operands[operands_len - 1], length);
    *value_len = length;
    return value;
}

static const char *last_name(void *state) {
    (void)state;
    return "esker.c.last";
}

static void merges(void) {
    esker_memory_t *memory = esker_memory_create();
    esker_options_t *options = esker_options_create();
    esker_db_t *db = NULL;
    uint8_t *value = NULL, touched = 0;
    size_t length = 0;
    uint64_t expires_ms = 0;
    esker_options_set_memory(options, memory);
    CHECK(esker_options_add_merge_operator(options, NULL, NULL, last, NULL, last_name, &message) ==
          ESKER_OK);
    CHECK(esker_options_set_merge_operator(options, "esker.c.last", &message) == ESKER_OK);
    CHECK(esker_open("/merges", options, &db, &message) == ESKER_OK);
    put(db, "a", "1");
    CHECK(esker_merge(db, "a", 1, "2", 1, ESKER_DURABILITY_DEFAULT, &message) == ESKER_OK);
    CHECK(holds(db, "a", "2"));
    CHECK(esker_merge(db, "a", 1, NULL, 0, ESKER_DURABILITY_DEFAULT, &message) == ESKER_OK);
    CHECK(esker_get(db, NULL, "a", 1, &value, &length, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(strstr(message, "empty") != NULL);
    CHECK(esker_put_with_ttl(db, "b", 1, "1", 1, 0, 0, &message) == ESKER_OK);
    CHECK(holds(db, "b", NULL));
    CHECK(esker_put_with_ttl(db, "b", 1, "1", 1, 3600000, 0, &message) == ESKER_OK);
    CHECK(esker_touch(db, "b", 1, ESKER_NEVER_MS, &touched, &message) == ESKER_OK);
    CHECK(esker_get_with_expiry(db, NULL, "b", 1, &value, &length, &expires_ms, &message) ==
          ESKER_OK);
    CHECK(touched == 1 && value != NULL && length == 1 && expires_ms == ESKER_NEVER_MS);
    esker_free(value);
    esker_db_destroy(db);
    esker_options_destroy(options);
    esker_memory_destroy(memory);
}

int main(int argc, char **argv) {
    esker_options_t *options = esker_options_create();
    esker_db_t *db = NULL, *copy = NULL;
    esker_batch_t *batch = esker_batch_create();
    esker_snapshot_t *snapshot = NULL;
    uint64_t size = 0;
    char *text, other[4096];
    int operations = 0;
    CHECK(argc == 2);
    CHECK(esker_options_set(options, "block_size", "8KiB", &message) == ESKER_OK);
    CHECK(esker_options_set(options, "block_sise", "1", &message) == ESKER_INVALID_ARGUMENT);
    CHECK(strstr(message, "block_size_bytes") != NULL);
    CHECK(esker_options_add_comparator(options, NULL, NULL, backwards, 1, backwards_name, &message) ==
          ESKER_OK);
    CHECK(esker_open(argv[1], options, &db, &message) == ESKER_OK);
    CHECK(esker_open(argv[1], options, &copy, &message) == ESKER_LOCKED && copy == NULL);

    put(db, "a", "1");
    CHECK(esker_snapshot_create(db, &snapshot, &message) == ESKER_OK);
    CHECK(esker_batch_put(batch, "b", 1, "2", 1, &message) == ESKER_OK);
    CHECK(esker_batch_put(batch, "c", 1, "3", 1, &message) == ESKER_OK);
    CHECK(esker_batch_delete(batch, "a", 1, &message) == ESKER_OK);
    esker_batch_iterate(batch, &operations, count, NULL, NULL);
    CHECK(operations == 2 && esker_batch_count(batch) == 3);
    CHECK(esker_write(db, batch, ESKER_DURABILITY_SYNC, &message) == ESKER_OK);
    CHECK(holds(db, "a", NULL) && holds(db, "b", "2") && holds_at(db, snapshot, "a", "1"));
    walk(db);
    keyspaces(db, batch);
    transactions(db);
    before(db);
    parts(db);
    more(db);
    merges();
    backups(db, options, argv[1]);

    CHECK(esker_flush(db, &message) == ESKER_OK);
    CHECK(esker_compact_range(db, NULL, 0, NULL, 0, &message) == ESKER_OK);
    CHECK(esker_approximate_size(db, "a", 1, "z", 1, &size, &message) == ESKER_OK);
    CHECK(size > 0);
    text = esker_property(db, "esker.option.block_size");
    CHECK(text != NULL && strcmp(text, "8192") == 0);
    esker_free(text);
    snprintf(other, sizeof other, "%s-copy", argv[1]);
    CHECK(esker_checkpoint(db, other, &message) == ESKER_OK);
    CHECK(esker_upgrade_format(db, 2, &message) == ESKER_OK);
    CHECK(esker_upgrade_format(db, 1, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(strstr(message, "cannot be lowered") != NULL);
    CHECK(esker_verify(db, &message) == ESKER_OK);
    CHECK(esker_close(db, &message) == ESKER_OK);
    CHECK(esker_flush(db, &message) == ESKER_CLOSED);
    esker_snapshot_destroy(snapshot);
    esker_db_destroy(db);

    CHECK(esker_open_read_only(other, options, &copy, &message) == ESKER_OK);
    CHECK(holds(copy, "c", "3"));
    CHECK(esker_delete(copy, "c", 1, 0, &message) == ESKER_READ_ONLY);
    esker_db_destroy(copy);
    CHECK(esker_open_read_only("/nothing/here", NULL, &copy, &message) == ESKER_NOT_FOUND);
    CHECK(esker_repair(other, options, NULL, &message) == ESKER_OK);
    CHECK(esker_destroy_store(argv[1], NULL, &message) == ESKER_OK);
    esker_batch_destroy(batch);
    esker_options_destroy(options);
    esker_free(message);
    printf("esker.c: passed with Esker %s\n", esker_version());
    return 0;
}
