/* A store that is closed while other threads use it, and a handle in a forked child. scripts/capi.sh
 * runs it on the shared and on the static library.
 *
 * 1. Every call returns ESKER_OK or ESKER_CLOSED, and every acknowledged put is in the store.
 * 2. A thread ends only after it has seen ESKER_CLOSED.
 * 3. In a forked child reads, writes and the close fail with ESKER_CLOSED and a message that says so.
 *    The parent goes on. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { ROUNDS = 12, WRITERS = 3, READERS = 2, KEYS = 200 };

struct user {
    esker_db_t *db;
    esker_keyspace_t *keyspace;
    int round, number;
    /* The number of acknowledged puts. */
    int done;
};

/* Returns whether the store was open, and ends the program after any other failure. */
static int open_after(int32_t code, char **own) {
    if (code == ESKER_OK) return 1;
    if (code != ESKER_CLOSED || *own == NULL) {
        fprintf(stderr, "closing.c: code %d: %s\n", (int)code, *own == NULL ? "" : *own);
        exit(1);
    }
    esker_free(*own);
    *own = NULL;
    return 0;
}

static void key_of(char key[32], const struct user *user, int number) {
    snprintf(key, 32, "%02d/%d/%08d", user->round, user->number, number);
}

static void *put_until_closed(void *state) {
    struct user *user = state;
    char key[32], value[512], *own = NULL;
    memset(value, 'v', sizeof value);
    for (;;) {
        key_of(key, user, user->done);
        if (!open_after(esker_put(user->db, key, strlen(key), value, sizeof value,
                                  ESKER_DURABILITY_DEFAULT, &own),
                        &own))
            return NULL;
        ++user->done;
    }
}

static void *transact_until_closed(void *state) {
    struct user *user = state;
    char key[32], *own = NULL;
    int open = 1;
    while (open) {
        esker_transaction_t *transaction = NULL;
        key_of(key, user, user->done);
        open = open_after(esker_transaction_begin(user->db, NULL, &transaction, &own), &own) &&
               open_after(esker_transaction_put_in(transaction, user->keyspace, key, strlen(key),
                                                   "t", 1, &own),
                          &own) &&
               open_after(esker_transaction_commit(transaction, &own), &own);
        esker_transaction_destroy(transaction);
        user->done += open;
    }
    return NULL;
}

static void *get_until_closed(void *state) {
    struct user *user = state;
    char *own = NULL;
    int open = 1;
    for (int number = 0; open; number = (number + 1) % KEYS) {
        char key[32];
        uint8_t *value = NULL;
        size_t length = 0;
        snprintf(key, sizeof key, "start/%04d", number);
        open = open_after(esker_get(user->db, NULL, key, strlen(key), &value, &length, &own), &own);
        if (open && (value == NULL || length != 4)) {
            fprintf(stderr, "closing.c: %s is missing\n", key);
            exit(1);
        }
        esker_free(value);
    }
    return NULL;
}

/* An iterator stays readable after the close, so a thread that has one reads all of its keys. */
static void *iterate_until_closed(void *state) {
    struct user *user = state;
    char *own = NULL;
    for (;;) {
        esker_iter_t *iter = NULL;
        int keys = 0;
        if (!open_after(esker_iter_create(user->db, NULL, "start/", 6, "start0", 6, 1, &iter, &own),
                        &own))
            return NULL;
        for (esker_iter_seek_to_first(iter); esker_iter_valid(iter); esker_iter_next(iter)) ++keys;
        int open = open_after(esker_iter_failure(iter, &own), &own);
        esker_iter_destroy(iter);
        if (open && keys != KEYS) {
            fprintf(stderr, "closing.c: the iterator has %d keys\n", keys);
            exit(1);
        }
        if (!open) return NULL;
    }
}

static void *flush_until_closed(void *state) {
    struct user *user = state;
    char *own = NULL;
    while (open_after(esker_flush(user->db, &own), &own)) {
    }
    return NULL;
}

static void *close_too(void *state) {
    struct user *user = state;
    char *own = NULL;
    open_after(esker_close(user->db, &own), &own);
    return NULL;
}

/* Checks the puts of the threads of a round in the store that was opened again. */
static void has_all(esker_db_t *db, esker_keyspace_t *keyspace, const struct user *users) {
    for (int which = 0; which < WRITERS + 1; ++which) {
        const struct user *user = &users[which];
        for (int number = 0; number < user->done; ++number) {
            char key[32];
            uint8_t found = 0;
            key_of(key, user, number);
            CHECK((which < WRITERS
                       ? esker_contains(db, NULL, key, strlen(key), &found, &message)
                       : esker_keyspace_contains(keyspace, NULL, key, strlen(key), &found,
                                                 &message)) == ESKER_OK);
            CHECK(found == 1);
        }
    }
}

/* Closes a store from one or two threads while the others use it. Each opening checks what the round
 * before has written. */
static void closed_during_use(const char *path, const esker_options_t *options) {
    struct user users[WRITERS + 1 + 2 * READERS + 2] = {{NULL, NULL, 0, 0, 0}};
    int used = sizeof users / sizeof users[0], puts = 0;
    for (int round = 0; round <= ROUNDS; ++round) {
        esker_db_t *db = NULL;
        esker_keyspace_t *keyspace = NULL;
        pthread_t threads[WRITERS + 1 + 2 * READERS + 2];
        struct timespec wait = {0, (round % 4) * 10000000L};
        CHECK(esker_open(path, options, &db, &message) == ESKER_OK);
        CHECK(esker_keyspace_open(db, "other", NULL, &keyspace, &message) == ESKER_OK);
        has_all(db, keyspace, users);
        if (round < ROUNDS) {
            for (int number = 0; number < KEYS; ++number) {
                char key[32];
                snprintf(key, sizeof key, "start/%04d", number);
                put(db, key, "here");
            }
            for (int which = 0; which < used; ++which) {
                void *(*run)(void *) = which < WRITERS                 ? put_until_closed
                                       : which == WRITERS              ? transact_until_closed
                                       : which <= WRITERS + READERS     ? get_until_closed
                                       : which <= WRITERS + 2 * READERS ? iterate_until_closed
                                       : which == used - 2              ? flush_until_closed
                                                                        : close_too;
                users[which] = (struct user){db, keyspace, round, which, 0};
                /* In every second round two threads close the store. */
                if (which == used - 1 && round % 2 == 0) run = flush_until_closed;
                if (which == used - 1) nanosleep(&wait, NULL);
                CHECK(pthread_create(&threads[which], NULL, run, &users[which]) == 0);
            }
            CHECK(esker_close(db, &message) == ESKER_OK);
            for (int which = 0; which < used; ++which) {
                CHECK(pthread_join(threads[which], NULL) == 0);
                puts += users[which].done;
            }
            CHECK(esker_keyspace_put(keyspace, "k", 1, "", 0, 0, &message) == ESKER_CLOSED);
        }
        esker_keyspace_close(keyspace);
        esker_db_destroy(db);
    }
    CHECK(puts > 0);
    printf("closing.c: %d closings during use, %d puts\n", ROUNDS, puts);
}

/* What a child does with the handles of its parent. It tells its end, and waits for a kill: at an exit
 * valgrind would report as lost what only the threads of the parent have. */
static void in_child(esker_db_t *db, esker_keyspace_t *keyspace, esker_snapshot_t *before,
                     const char *path, int ended) {
    esker_iter_t *iter = NULL;
    uint64_t position = 0;
    esker_snapshot_t *snapshot = NULL;
    esker_transaction_t *transaction = NULL;
    esker_db_t *other = NULL;
    uint8_t *value = NULL;
    size_t length = 0;
    CHECK(esker_get(db, NULL, "k", 1, &value, &length, &message) == ESKER_CLOSED);
    CHECK(strstr(message, "before this process was forked") != NULL && value == NULL);
    CHECK(esker_put(db, "k", 1, "child", 5, 0, &message) == ESKER_CLOSED);
    CHECK(strstr(message, "before this process was forked") != NULL);
    CHECK(esker_keyspace_put(keyspace, "k", 1, "child", 5, 0, &message) == ESKER_CLOSED);
    CHECK(esker_iter_create(db, NULL, NULL, 0, NULL, 0, 1, &iter, &message) == ESKER_CLOSED);
    CHECK(esker_flush(db, &message) == ESKER_CLOSED && iter == NULL);
    CHECK(esker_snapshot_create(db, &snapshot, &message) == ESKER_CLOSED && snapshot == NULL);
    CHECK(strstr(message, "before this process was forked") != NULL);
    CHECK(esker_snapshot_create_with_position(db, &snapshot, &position, &message) == ESKER_CLOSED);
    CHECK(snapshot == NULL);
    CHECK(esker_get(db, before, "k", 1, &value, &length, &message) == ESKER_CLOSED);
    esker_snapshot_destroy(before);
    /* A transaction can be made, but reads and writes nothing. */
    if (esker_transaction_begin(db, NULL, &transaction, &message) == ESKER_OK) {
        CHECK(esker_transaction_get(transaction, "k", 1, &value, &length, &message) ==
              ESKER_CLOSED);
        CHECK(esker_transaction_put(transaction, "k", 1, "child", 5, &message) != ESKER_OK ||
              esker_transaction_commit(transaction, &message) == ESKER_CLOSED);
        esker_transaction_destroy(transaction);
    }
    CHECK(esker_open(path, NULL, &other, &message) == ESKER_LOCKED && other == NULL);
    CHECK(esker_open(path_of("child"), NULL, &other, &message) == ESKER_OK);
    put(other, "k", "of the child");
    esker_db_destroy(other);
    CHECK(esker_close(db, &message) == ESKER_CLOSED);
    esker_keyspace_close(keyspace);
    esker_db_destroy(db);
    CHECK(write(ended, "x", 1) == 1);
    sleep(600);
    _exit(1);
}

static void forked(void) {
    const char *path = path_of("forked");
    esker_db_t *db = NULL;
    esker_keyspace_t *keyspace = NULL;
    CHECK(esker_open(path, NULL, &db, &message) == ESKER_OK);
    CHECK(esker_keyspace_open(db, "other", NULL, &keyspace, &message) == ESKER_OK);
    put(db, "k", "parent");
    for (int child = 0; child < 3; ++child) {
        int ends[2];
        char end;
        esker_snapshot_t *before = NULL;
        pid_t id;
        CHECK(esker_snapshot_create(db, &before, &message) == ESKER_OK && pipe(ends) == 0);
        id = fork();
        CHECK(id >= 0);
        if (id == 0) in_child(db, keyspace, before, path, ends[1]);
        CHECK(close(ends[1]) == 0);
        esker_snapshot_destroy(before);
        put(db, "during", "1");
        CHECK(read(ends[0], &end, 1) == 1 && close(ends[0]) == 0);
        CHECK(kill(id, SIGKILL) == 0 && waitpid(id, NULL, 0) == id);
        put(db, "after", "1");
        CHECK(holds(db, "k", "parent"));
    }
    CHECK(esker_flush(db, &message) == ESKER_OK);
    CHECK(esker_close(db, &message) == ESKER_OK);
    esker_keyspace_close(keyspace);
    esker_db_destroy(db);
    CHECK(esker_open(path, NULL, &db, &message) == ESKER_OK);
    CHECK(holds(db, "k", "parent") && holds(db, "during", "1") && holds(db, "after", "1"));
    CHECK(esker_verify(db, &message) == ESKER_OK);
    esker_db_destroy(db);
    CHECK(esker_open(path_of("child"), NULL, &db, &message) == ESKER_OK);
    CHECK(holds(db, "k", "of the child"));
    esker_db_destroy(db);
}

int main(int argc, char **argv) {
    esker_options_t *options = esker_options_create();
    CHECK(argc == 2);
    snprintf(folder, sizeof folder, "%s", argv[1]);
    /* Small memtables, so that a close also meets flushes and compactions. */
    CHECK(esker_options_set(options, "memtable_size_bytes", "1MiB", &message) == ESKER_OK);
    forked();
    closed_during_use(argv[1], options);
    esker_options_destroy(options);
    esker_free(message);
    printf("closing.c: passed\n");
    return 0;
}
