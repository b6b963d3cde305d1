/* Followers of a store that another process writes, through Esker's C interface. scripts/capi.sh runs it
 * on the shared and on the static library. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define LONG_MS 600000

static esker_db_t *view_of(esker_follower_t *follower) {
    esker_db_t *db = NULL;
    CHECK(esker_follower_db(follower, &db, &message) == ESKER_OK);
    return db;
}

/* Writes a pair for each byte that it gets, and answers each. Ends by a kill. */
static void write_in_child(const char *path, const esker_options_t *options, int orders,
                           int answers) {
    esker_db_t *db = NULL;
    char order, key[16];
    int number = 0;
    CHECK(esker_open(path, options, &db, &message) == ESKER_OK);
    while (read(orders, &order, 1) == 1) {
        snprintf(key, sizeof key, "k%d", number++);
        put(db, key, "written");
        put(db, "last", key);
        CHECK(write(answers, &order, 1) == 1);
    }
    exit(1);
}

static void order(int orders, int answers) {
    char one = 'x';
    CHECK(write(orders, &one, 1) == 1 && read(answers, &one, 1) == 1);
}

/* Follows a process, which is killed, and takes its place. */
static void another_process(const char *path, const esker_options_t *options) {
    int orders[2], answers[2];
    esker_follower_t *follower = NULL;
    esker_follower_lag_t *lag = NULL;
    esker_db_t *first, *second, *promoted = NULL;
    uint64_t position = 0;
    uint8_t shown = 7;
    char *error = NULL;
    pid_t child;
    CHECK(pipe(orders) == 0 && pipe(answers) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) write_in_child(path, options, orders[0], answers[1]);
    order(orders[1], answers[0]);
    CHECK(esker_follow(path, options, &follower, &message) == ESKER_OK);
    first = view_of(follower);
    CHECK(holds(first, "k0", "written") && holds(first, "last", "k0"));
    CHECK(esker_put(first, "k", 1, "v", 1, 0, &message) == ESKER_READ_ONLY);
    order(orders[1], answers[0]);
    CHECK(esker_follower_lag(follower, &lag, &error, &message) == ESKER_OK && error == NULL);
    CHECK(lag->operations == 2 && lag->newest == lag->position + 2);
    CHECK(lag->position == esker_follower_position(follower) && lag->error_code == ESKER_OK);
    CHECK(esker_follower_catch_up(follower, &position, &message) == ESKER_OK);
    CHECK(position == lag->newest);
    esker_free(lag);
    second = view_of(follower);
    CHECK(holds(second, "k1", "written") && holds(second, "last", "k1"));
    CHECK(holds(first, "k1", NULL) && holds(first, "last", "k0"));
    CHECK(esker_follower_wait_for(follower, position, 0, &shown, &message) == ESKER_OK);
    CHECK(shown == 1);
    CHECK(esker_follower_wait_for(follower, position + 1, 1, &shown, &message) == ESKER_OK);
    CHECK(shown == 0);
    CHECK(esker_follower_promote(follower, &promoted, &message) == ESKER_LOCKED);
    CHECK(promoted == NULL);
    /* A thread catches up. */
    CHECK(esker_follower_catch_up_every(follower, 0, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(esker_follower_catch_up_every(follower, 1, &message) == ESKER_OK);
    order(orders[1], answers[0]);
    while (esker_follower_position(follower) < position + 2) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    /* A closed view refuses its calls, and the others stay. */
    CHECK(esker_close(first, &message) == ESKER_OK);
    CHECK(esker_flush(first, &message) == ESKER_CLOSED && holds(second, "last", "k1"));
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK(esker_follower_promote(follower, &promoted, &message) == ESKER_OK);
    CHECK(holds(promoted, "k2", "written") && holds(promoted, "last", "k2"));
    put(promoted, "mine", "1");
    CHECK(esker_follower_wait_for(follower, position + 3, LONG_MS, &shown, &message) == ESKER_OK);
    CHECK(shown == 1);
    esker_db_destroy(second);
    second = view_of(follower);
    CHECK(holds(second, "mine", "1"));
    esker_follower_destroy(follower);
    CHECK(holds(second, "last", "k2") && holds(promoted, "last", "k2"));
    esker_db_destroy(first);
    esker_db_destroy(second);
    esker_db_destroy(promoted);
    for (int end = 0; end < 2; ++end) CHECK(close(orders[end]) == 0 && close(answers[end]) == 0);
}

static void arguments(const char *path) {
    esker_follower_t *follower = NULL;
    esker_options_t *options = esker_options_create();
    char missing[4096];
    snprintf(missing, sizeof missing, "%s-none", path);
    CHECK(esker_follow(missing, NULL, &follower, &message) == ESKER_NOT_FOUND && follower == NULL);
    CHECK(esker_follow(path, NULL, NULL, &message) == ESKER_INVALID_ARGUMENT);
    /* The store is encrypted. */
    CHECK(esker_follow(path, options, &follower, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(follower == NULL && strstr(message, "the store is encrypted") != NULL);
    CHECK(esker_follower_position(NULL) == 0);
    esker_follower_destroy(NULL);
    esker_options_destroy(options);
}

int main(int argc, char **argv) {
    esker_options_t *options = esker_options_create();
    char encrypted[4096];
    CHECK(argc == 2);
    another_process(argv[1], NULL);
    snprintf(encrypted, sizeof encrypted, "%s-encrypted", argv[1]);
    CHECK(esker_options_set_key(options, "0123456789abcdef0123456789abcdef",
                                ESKER_KEY_BYTES, &message) == ESKER_OK);
    another_process(encrypted, options);
    arguments(encrypted);
    esker_options_destroy(options);
    esker_free(message);
    printf("follower.c: passed\n");
    return 0;
}
