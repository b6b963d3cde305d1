/* Calls of each kind, for a profiler that counts what happens within one function: puts at random keys,
 * gets, seeks and a walk over all pairs. The first argument is the store's directory, the second the
 * number of keys (1000); with a third one the store is compacted after its puts. */
#include <esker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *message;

static void check(int32_t code) {
    if (code == ESKER_OK) return;
    fprintf(stderr, "%d: %s\n", (int)code, message == NULL ? "" : message);
    exit(1);
}

static uint64_t state = 5;

static uint64_t number(void) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 33;
}

static void make_key(char key[16], uint64_t of) {
    memcpy(key, "key 0000", 8);
    for (int at = 0; at < 8; ++at) key[8 + at] = (char)(of >> (56 - 8 * at));
}

int main(int argc, char **argv) {
    uint64_t keys = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000, found = 0, walked = 0;
    esker_options_t *options = esker_options_create();
    esker_db_t *db = NULL;
    esker_iter_t *iter = NULL;
    char key[16], value[100];
    if (argc < 2 || keys == 0) return 2;
    check(esker_options_set(options, "cache_size_bytes", "128M", &message));
    check(esker_open(argv[1], options, &db, &message));
    esker_options_destroy(options);
    for (uint64_t put = 0; put < keys; ++put) {
        uint64_t of = number() % keys;
        make_key(key, of);
        for (int at = 0; at < 100; ++at) value[at] = (char)number();
        memcpy(value, &of, sizeof of);
        check(esker_put(db, key, 16, value, 100, ESKER_DURABILITY_DEFAULT, &message));
    }
    if (argc > 3) check(esker_compact_range(db, NULL, 0, NULL, 0, &message));
    for (uint64_t get = 0; get < 2 * keys; ++get) {
        uint64_t of = number() % keys;
        uint8_t *bytes = NULL;
        size_t length = 0;
        make_key(key, of);
        check(esker_get(db, NULL, key, 16, &bytes, &length, &message));
        if (bytes == NULL) continue;
        if (length != 100 || memcmp(bytes, &of, sizeof of) != 0) return 3;
        esker_free(bytes);
        ++found;
    }
    check(esker_iter_create(db, NULL, NULL, 0, NULL, 0, 1, &iter, &message));
    for (uint64_t seek = 0; seek < keys; ++seek) {
        make_key(key, number() % keys);
        esker_iter_seek(iter, key, 16);
    }
    for (esker_iter_seek_to_first(iter); esker_iter_valid(iter); esker_iter_next(iter)) ++walked;
    check(esker_iter_failure(iter, &message));
    esker_iter_destroy(iter);
    check(esker_close(db, &message));
    printf("calls: %llu pairs, %llu of %llu gets found one\n", (unsigned long long)walked,
           (unsigned long long)found, (unsigned long long)(2 * keys));
    return walked == 0 || found == 0;
}
