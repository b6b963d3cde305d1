/* Measures Esker's C interface beside that of LevelDB: the same keys and values, one thread, a new
 * store for each round. The libraries take turns, and each round begins with the other one. Every
 * result is checked. Prints the median and the range of the rounds, in nanoseconds per operation.
 *
 * Both stores have a write buffer of 16 MiB, a cache of 64 MiB, a filter of 10 bits a key and no
 * compression, and write without a sync: a completed write survives the end of the process. Gets and
 * scans read tables that were compacted.
 *
 * Arguments: a directory, which must not exist, the number of rounds (5), the number of keys
 * (200,000). `scripts/capi.sh bench` compiles and runs this program. */
#define _POSIX_C_SOURCE 200809L
#include <esker.h>
#include <leveldb/c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { KEY_BYTES = 16, VALUE_BYTES = 100, BATCH = 100, ROUNDS_MAX = 99 };
enum { PUT, BATCHED, GET, MISSING, SCAN, SCAN_1, SCAN_10, SCAN_100, ROWS };

static const char *const row_names[ROWS] = {"put", "put in a batch of 100", "get",
                                            "get of a missing key", "row of a scan",
                                            "scan of 1 pair", "scan of 10", "scan of 100"};

/* The calls of a library. Each is checked, and ends the program after a failure. */
struct library {
    const char *name;
    void *(*open)(const char *path);
    void (*put)(void *db, const char *key, const char *value);
    /* Puts the keys from `first` on as one batch. */
    void (*put_batch)(void *db, long first, long count);
    /* Returns a copy, which `free_value` frees, or NULL. */
    char *(*get)(void *db, const char *key, size_t *length);
    void (*free_value)(void *value);
    /* Reads all pairs in order. Returns their number, and adds them up. */
    long (*scan)(void *db, uint64_t *sum);
    /* Makes an iterator, seeks `key`, and copies up to `most` pairs to `room`. Returns their number. */
    long (*scan_from)(void *db, const char *key, long most, char *room);
    void (*settle)(void *db);
    void (*close)(void *db);
};

static long keys = 200000;

static void fail(const char *what, const char *message) {
    fprintf(stderr, "bench: %s: %s\n", what, message == NULL ? "failed" : message);
    exit(1);
}

/* The key of a number: numbers in order give keys in no order. */
static void key_of(char key[KEY_BYTES + 1], long number) {
    uint64_t mixed = ((uint64_t)number + 1) * 0x9E3779B97F4A7C15u;
    for (int at = KEY_BYTES - 1; at >= 0; --at, mixed >>= 4) key[at] = "0123456789abcdef"[mixed & 15];
    key[KEY_BYTES] = 0;
}

/* The value of a number: random bytes that depend on it. */
static void value_of(char value[VALUE_BYTES], long number) {
    uint64_t state = (uint64_t)number * 2654435761u + 88172645463325252u;
    for (int at = 0; at < VALUE_BYTES; at += 4) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memcpy(value + at, &state, 4);
    }
}

static uint64_t sum_of(const char *key, const char *value) {
    return (uint64_t)(unsigned char)key[KEY_BYTES - 1] * 31 + (unsigned char)value[VALUE_BYTES - 1];
}

struct leveldb_store {
    leveldb_t *db;
    leveldb_options_t *options;
    leveldb_cache_t *cache;
    leveldb_filterpolicy_t *filter;
    leveldb_readoptions_t *read;
    leveldb_writeoptions_t *write;
};

static void *leveldb_begin(const char *path) {
    struct leveldb_store *store = malloc(sizeof *store);
    char *message = NULL;
    if (store == NULL) fail("malloc", NULL);
    store->options = leveldb_options_create();
    store->cache = leveldb_cache_create_lru(64 << 20);
    store->filter = leveldb_filterpolicy_create_bloom(10);
    store->read = leveldb_readoptions_create();
    store->write = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(store->options, 1);
    leveldb_options_set_write_buffer_size(store->options, 16 << 20);
    leveldb_options_set_cache(store->options, store->cache);
    leveldb_options_set_filter_policy(store->options, store->filter);
    leveldb_options_set_compression(store->options, leveldb_no_compression);
    store->db = leveldb_open(store->options, path, &message);
    if (store->db == NULL) fail("leveldb_open", message);
    return store;
}

static void leveldb_put_one(void *own, const char *key, const char *value) {
    struct leveldb_store *store = own;
    char *message = NULL;
    leveldb_put(store->db, store->write, key, KEY_BYTES, value, VALUE_BYTES, &message);
    if (message != NULL) fail("leveldb_put", message);
}

static void leveldb_put_many(void *own, long first, long count) {
    struct leveldb_store *store = own;
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    char key[KEY_BYTES + 1], value[VALUE_BYTES], *message = NULL;
    for (long number = first; number < first + count; ++number) {
        key_of(key, number), value_of(value, number);
        leveldb_writebatch_put(batch, key, KEY_BYTES, value, VALUE_BYTES);
    }
    leveldb_write(store->db, store->write, batch, &message);
    if (message != NULL) fail("leveldb_write", message);
    leveldb_writebatch_destroy(batch);
}

static char *leveldb_get_one(void *own, const char *key, size_t *length) {
    struct leveldb_store *store = own;
    char *message = NULL;
    char *value = leveldb_get(store->db, store->read, key, KEY_BYTES, length, &message);
    if (message != NULL) fail("leveldb_get", message);
    return value;
}

static long leveldb_scan(void *own, uint64_t *sum) {
    struct leveldb_store *store = own;
    leveldb_iterator_t *iter = leveldb_create_iterator(store->db, store->read);
    char *message = NULL;
    long rows = 0;
    for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) {
        size_t key_len = 0, value_len = 0;
        const char *key = leveldb_iter_key(iter, &key_len);
        const char *value = leveldb_iter_value(iter, &value_len);
        if (key_len != KEY_BYTES || value_len != VALUE_BYTES) fail("leveldb_iter", "wrong length");
        *sum += sum_of(key, value);
        ++rows;
    }
    leveldb_iter_get_error(iter, &message);
    if (message != NULL) fail("leveldb_iter", message);
    leveldb_iter_destroy(iter);
    return rows;
}

static long leveldb_scan_from(void *own, const char *from, long most, char *room) {
    struct leveldb_store *store = own;
    leveldb_iterator_t *iter = leveldb_create_iterator(store->db, store->read);
    char *message = NULL;
    long rows = 0;
    for (leveldb_iter_seek(iter, from, KEY_BYTES); rows < most && leveldb_iter_valid(iter);
         leveldb_iter_next(iter)) {
        size_t key_len = 0, value_len = 0;
        const char *key = leveldb_iter_key(iter, &key_len);
        const char *value = leveldb_iter_value(iter, &value_len);
        if (key_len != KEY_BYTES || value_len != VALUE_BYTES) fail("leveldb_iter", "wrong length");
        memcpy(room, key, KEY_BYTES), memcpy(room + KEY_BYTES, value, VALUE_BYTES);
        room += KEY_BYTES + VALUE_BYTES;
        ++rows;
    }
    leveldb_iter_get_error(iter, &message);
    if (message != NULL) fail("leveldb_iter", message);
    leveldb_iter_destroy(iter);
    return rows;
}

static void leveldb_settle(void *own) {
    leveldb_compact_range(((struct leveldb_store *)own)->db, NULL, 0, NULL, 0);
}

static void leveldb_end(void *own) {
    struct leveldb_store *store = own;
    leveldb_close(store->db);
    leveldb_options_destroy(store->options);
    leveldb_cache_destroy(store->cache);
    leveldb_filterpolicy_destroy(store->filter);
    leveldb_readoptions_destroy(store->read);
    leveldb_writeoptions_destroy(store->write);
    free(store);
}

static void check(const char *what, int32_t code, const char *message) {
    if (code != ESKER_OK) fail(what, message);
}

static void *esker_begin(const char *path) {
    static const char *const chosen[][2] = {{"memtable_size_bytes", "16MiB"},
                                            {"cache_size_bytes", "64MiB"},
                                            {"filter_bits_per_key", "10"},
                                            {"compression", "none"},
                                            {"durability", "buffered"}};
    esker_options_t *options = esker_options_create();
    esker_db_t *db = NULL;
    char *message = NULL;
    for (size_t each = 0; each < sizeof chosen / sizeof chosen[0]; ++each)
        check(chosen[each][0], esker_options_set(options, chosen[each][0], chosen[each][1], &message),
              message);
    check("esker_open", esker_open(path, options, &db, &message), message);
    esker_options_destroy(options);
    return db;
}

static void esker_put_one(void *db, const char *key, const char *value) {
    char *message = NULL;
    check("esker_put", esker_put(db, key, KEY_BYTES, value, VALUE_BYTES, 0, &message), message);
}

static void esker_put_many(void *db, long first, long count) {
    esker_batch_t *batch = esker_batch_create();
    char key[KEY_BYTES + 1], value[VALUE_BYTES], *message = NULL;
    for (long number = first; number < first + count; ++number) {
        key_of(key, number), value_of(value, number);
        check("esker_batch_put",
              esker_batch_put(batch, key, KEY_BYTES, value, VALUE_BYTES, &message), message);
    }
    check("esker_write", esker_write(db, batch, 0, &message), message);
    esker_batch_destroy(batch);
}

static char *esker_get_one(void *db, const char *key, size_t *length) {
    uint8_t *value = NULL;
    char *message = NULL;
    check("esker_get", esker_get(db, NULL, key, KEY_BYTES, &value, length, &message), message);
    return (char *)value;
}

static long esker_scan(void *db, uint64_t *sum) {
    esker_iter_t *iter = NULL;
    char *message = NULL;
    long rows = 0;
    check("esker_iter_create", esker_iter_create(db, NULL, NULL, 0, NULL, 0, 1, &iter, &message),
          message);
    for (esker_iter_seek_to_first(iter); esker_iter_valid(iter); esker_iter_next(iter)) {
        size_t key_len = 0, value_len = 0;
        const char *key = (const char *)esker_iter_key(iter, &key_len);
        const char *value = (const char *)esker_iter_value(iter, &value_len);
        if (key_len != KEY_BYTES || value_len != VALUE_BYTES) fail("esker_iter", "wrong length");
        *sum += sum_of(key, value);
        ++rows;
    }
    check("esker_iter", esker_iter_failure(iter, &message), message);
    esker_iter_destroy(iter);
    return rows;
}

static long esker_scan_from(void *db, const char *from, long most, char *room) {
    esker_iter_t *iter = NULL;
    char *message = NULL;
    long rows = 0;
    check("esker_iter_create", esker_iter_create(db, NULL, NULL, 0, NULL, 0, 1, &iter, &message),
          message);
    for (esker_iter_seek(iter, from, KEY_BYTES); rows < most && esker_iter_valid(iter);
         esker_iter_next(iter)) {
        size_t key_len = 0, value_len = 0;
        const char *key = (const char *)esker_iter_key(iter, &key_len);
        const char *value = (const char *)esker_iter_value(iter, &value_len);
        if (key_len != KEY_BYTES || value_len != VALUE_BYTES) fail("esker_iter", "wrong length");
        memcpy(room, key, KEY_BYTES), memcpy(room + KEY_BYTES, value, VALUE_BYTES);
        room += KEY_BYTES + VALUE_BYTES;
        ++rows;
    }
    check("esker_iter", esker_iter_failure(iter, &message), message);
    esker_iter_destroy(iter);
    return rows;
}

static void esker_settle(void *db) {
    char *message = NULL;
    check("esker_compact_range", esker_compact_range(db, NULL, 0, NULL, 0, &message), message);
}

static void esker_end(void *db) { esker_db_destroy(db); }

static const struct library libraries[2] = {
    {"LevelDB", leveldb_begin, leveldb_put_one, leveldb_put_many, leveldb_get_one, leveldb_free,
     leveldb_scan, leveldb_scan_from, leveldb_settle, leveldb_end},
    {"Esker", esker_begin, esker_put_one, esker_put_many, esker_get_one, esker_free, esker_scan,
     esker_scan_from, esker_settle, esker_end},
};

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Gets every key, or as many keys that are missing, and checks the values. */
static void get_all(const struct library *library, void *db, long first) {
    char key[KEY_BYTES + 1], expected[VALUE_BYTES];
    for (long at = 0; at < keys; ++at) {
        /* Another order than that of the puts. */
        long number = first + (long)((uint64_t)at * 7919 % (uint64_t)keys);
        size_t length = 0;
        key_of(key, number);
        char *value = library->get(db, key, &length);
        if (first == 0) {
            value_of(expected, number);
            if (value == NULL || length != VALUE_BYTES || memcmp(value, expected, length) != 0)
                fail(library->name, "a get returned another value");
        } else if (value != NULL) {
            fail(library->name, "a get returned a value of a missing key");
        }
        library->free_value(value);
    }
}

/* Makes scans of `most` pairs from keys in no order, each with a new iterator. Returns their number. */
static long scan_some(const struct library *library, void *db, long most) {
    char key[KEY_BYTES + 1], expected[VALUE_BYTES], *room = malloc(100 * (KEY_BYTES + VALUE_BYTES));
    long scans = keys / (most < 10 ? 1 : 10), reached = 0;
    if (room == NULL) fail("malloc", NULL);
    for (long at = 0; at < scans; ++at) {
        long number = (long)((uint64_t)at * 7919 % (uint64_t)keys);
        key_of(key, number), value_of(expected, number);
        long rows = library->scan_from(db, key, most, room);
        if (rows < 1 || memcmp(room, key, KEY_BYTES) != 0 ||
            memcmp(room + KEY_BYTES, expected, VALUE_BYTES) != 0)
            fail(library->name, "a scan does not begin with its key");
        reached += rows;
    }
    /* Only the scans near the last key are shorter. */
    if (reached < scans * most - most * most) fail(library->name, "scans ended early");
    free(room);
    return scans;
}

/* Measures one row of one library, in nanoseconds per operation. */
static double measure(const struct library *library, void *db, int row) {
    static uint64_t expected = 0;
    char key[KEY_BYTES + 1], value[VALUE_BYTES];
    uint64_t sum = 0;
    long operations = keys;
    double begin = now_ns();
    switch (row) {
    case PUT:
        for (long number = 0; number < keys; ++number) {
            key_of(key, number), value_of(value, number);
            library->put(db, key, value);
        }
        break;
    case BATCHED:
        for (long first = 0; first < keys; first += BATCH) library->put_batch(db, first, BATCH);
        break;
    case GET: get_all(library, db, 0); break;
    case MISSING: get_all(library, db, keys); break;
    case SCAN_1: operations = scan_some(library, db, 1); break;
    case SCAN_10: operations = scan_some(library, db, 10); break;
    case SCAN_100: operations = scan_some(library, db, 100); break;
    default:
        if (library->scan(db, &sum) != keys) fail(library->name, "a scan has not every key");
        if (expected == 0) expected = sum;
        if (sum != expected) fail(library->name, "a scan returned other pairs");
    }
    return (now_ns() - begin) / (double)operations;
}

static int in_order(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double times[2][ROWS][ROUNDS_MAX];

static void print(int rounds) {
    printf("| ns per | LevelDB | Esker | LevelDB / Esker |\n|---|---|---|---|\n");
    for (int row = 0; row < ROWS; ++row) {
        double median[2];
        printf("| %s |", row_names[row]);
        for (int which = 0; which < 2; ++which) {
            double *all = times[which][row];
            qsort(all, (size_t)rounds, sizeof *all, in_order);
            median[which] = (all[(rounds - 1) / 2] + all[rounds / 2]) / 2;
            printf(" %.0f (%.0f to %.0f) |", median[which], all[0], all[rounds - 1]);
        }
        printf(" %.2f |\n", median[0] / median[1]);
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    if (argc > 3) keys = atol(argv[3]) / BATCH * BATCH;
    if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX || keys < BATCH || keys % 7919 == 0)
        fail("usage", "DIRECTORY [ROUNDS [KEYS]]");
    if (mkdir(argv[1], 0700) != 0) fail("mkdir", argv[1]);
    for (int round = 0; round < rounds; ++round) {
        for (int turn = 0; turn < 2; ++turn) {
            int which = (round + turn) % 2;
            const struct library *library = &libraries[which];
            for (int row = PUT; row <= BATCHED; ++row) {
                char path[4096];
                snprintf(path, sizeof path, "%s/%s-%d-%d", argv[1], library->name, row, round);
                void *db = library->open(path);
                times[which][row][round] = measure(library, db, row);
                if (row == BATCHED) {
                    library->settle(db);
                    for (int read = GET; read < ROWS; ++read)
                        times[which][read][round] = measure(library, db, read);
                }
                library->close(db);
            }
        }
    }
    printf("%ld keys of %d bytes with values of %d bytes, %d rounds: median (range)\n", keys,
           KEY_BYTES, VALUE_BYTES, rounds);
    print(rounds);
    return 0;
}
