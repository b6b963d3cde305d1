/* A store for each tenant, with one memory budget for all; their events; writes that do not wait.
 *
 *     cc tenants.c -lesker && ./a.out tenants
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "esker.h"

enum { TENANTS = 3 };

static void check(int32_t code, char *message) {
    if (code != ESKER_OK) {
        fprintf(stderr, "tenants: %s\n", message ? message : "failed");
        exit(1);
    }
}

/* Called by one thread of a store at a time, in the order of the events. It only notes them. */
static void on_event(void *state, const esker_event_t *event) {
    uint64_t *written_bytes = state;
    if (event->kind == ESKER_EVENT_FLUSH_ENDED || event->kind == ESKER_EVENT_COMPACTION_ENDED) {
        *written_bytes += event->written_bytes;
    }
    if (event->error != NULL) fprintf(stderr, "tenants: %s\n", event->text);
}

/* Writes a pair, but waits at most 100 ms while the store has no memory for it. */
static void put(const esker_db_t *db, const char *key, const char *value) {
    char *message = NULL;
    esker_batch_t *batch = esker_batch_create();
    check(esker_batch_put(batch, key, strlen(key), value, strlen(value), &message), message);
    int32_t code = esker_write_within(db, batch, ESKER_DURABILITY_DEFAULT, 100, &message);
    if (code == ESKER_BUSY) {
        fprintf(stderr, "tenants: not written: %s\n", message);
        esker_free(message);
    } else {
        check(code, message);
    }
    esker_batch_destroy(batch);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: tenants DIRECTORY\n");
        return 2;
    }
    char *message = NULL;
    esker_runtime_options_t *chosen = esker_runtime_options_create();
    check(esker_runtime_options_set(chosen, "memory_budget_bytes", "64MiB", &message), message);
    esker_runtime_t *runtime = NULL;
    check(esker_runtime_create(chosen, &runtime, &message), message);
    esker_runtime_options_destroy(chosen);

    /* Each store has a listener with a count of its own. */
    uint64_t written_bytes[TENANTS] = {0};
    esker_db_t *tenants[TENANTS];
    for (int i = 0; i < TENANTS; ++i) {
        esker_options_t *options = esker_options_create();
        esker_options_set_runtime(options, runtime);
        check(esker_options_add_listener(options, &written_bytes[i], NULL, on_event, &message),
              message);
        char path[1024];
        snprintf(path, sizeof path, "%s-%d", argv[1], i);
        check(esker_open(path, options, &tenants[i], &message), message);
        esker_options_destroy(options);
    }

    for (int i = 0; i < TENANTS; ++i) {
        put(tenants[i], "name", "Ada");
        check(esker_flush(tenants[i], &message), message);
        esker_stall_t *stall = NULL;
        check(esker_stall(tenants[i], &stall, &message), message);
        if (stall != NULL) printf("tenant %d waits: %s\n", i, stall->cause);
        esker_stall_destroy(stall);
    }
    uint64_t stores = 0;
    check(esker_runtime_metric(runtime, "stores", &stores, &message), message);
    printf("%d stores share the runtime\n", (int)stores);

    for (int i = 0; i < TENANTS; ++i) {
        check(esker_close(tenants[i], &message), message);
        esker_db_destroy(tenants[i]);
        printf("tenant %d wrote tables: %s\n", i, written_bytes[i] > 0 ? "yes" : "no");
        if (written_bytes[i] == 0) return 1;
    }
    esker_runtime_destroy(runtime);
    return 0;
}
