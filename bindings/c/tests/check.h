/* What the tests of the C interface share. */
#ifndef ESKER_TESTS_CHECK_H
#define ESKER_TESTS_CHECK_H

#include <esker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                 \
                    message == NULL ? "" : message);                                           \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

static char *message = NULL;

/* The path of the store of a test. */
static char folder[2048];

/* Returns a path beside it, which is valid for the next 63 calls. */
static inline const char *path_of(const char *name) {
    static char paths[64][4096];
    static int next = 0;
    char *path = paths[next = (next + 1) % 64];
    snprintf(path, sizeof paths[0], "%s-%s", folder, name);
    return path;
}

static inline void put(esker_db_t *db, const char *key, const char *value) {
    CHECK(esker_put(db, key, strlen(key), value, strlen(value),
                    ESKER_DURABILITY_DEFAULT, &message) == ESKER_OK);
}

/* Returns whether the store, or a snapshot of it, has the key with this value, or for NULL has no such
 * key. */
static inline int holds_at(esker_db_t *db, const esker_snapshot_t *snapshot, const char *key,
                           const char *expected) {
    uint8_t *value = NULL;
    size_t length = 0;
    int same;
    CHECK(esker_get(db, snapshot, key, strlen(key), &value, &length, &message) == ESKER_OK);
    same = expected == NULL ? value == NULL
                            : value != NULL && length == strlen(expected) &&
                                  memcmp(value, expected, length) == 0;
    esker_free(value);
    return same;
}

static inline int holds(esker_db_t *db, const char *key, const char *expected) {
    return holds_at(db, NULL, key, expected);
}

#endif
