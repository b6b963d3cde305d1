/* Encrypted stores through Esker's C interface. scripts/capi.sh runs it on the shared and on the static
 * library. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>

#include "check.h"

#define SECRET "a value that nobody may read"

/* Options with a key of 32 equal bytes. */
static esker_options_t *keyed(uint8_t byte) {
    esker_options_t *options = esker_options_create();
    uint8_t key[ESKER_KEY_BYTES];
    memset(key, byte, sizeof key);
    CHECK(esker_options_set_key(options, key, sizeof key, &message) == ESKER_OK);
    return options;
}

static esker_db_t *opened(const char *path, const esker_options_t *options) {
    esker_db_t *db = NULL;
    CHECK(esker_open(path, options, &db, &message) == ESKER_OK);
    return db;
}

static void refused(const char *path, const esker_options_t *options, const char *why) {
    esker_db_t *db = NULL;
    CHECK(esker_open(path, options, &db, &message) == ESKER_INVALID_ARGUMENT && db == NULL);
    CHECK(strstr(message, why) != NULL);
}

static int contains(const char *content, size_t length, const char *text) {
    size_t size = strlen(text);
    for (size_t at = 0; at + size <= length; ++at)
        if (memcmp(content + at, text, size) == 0) return 1;
    return 0;
}

/* Returns how many files of a directory have the text. */
static int files_with(const char *path, const char *text) {
    DIR *directory = opendir(path);
    struct dirent *entry;
    int found = 0, files = 0;
    CHECK(directory != NULL);
    while ((entry = readdir(directory)) != NULL) {
        char name[8192];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] == '.') continue;
        FILE *file = fopen(name, "rb");
        char *content = malloc(32 << 20);
        CHECK(file != NULL && content != NULL);
        found += contains(content, fread(content, 1, 32 << 20, file), text);
        ++files;
        free(content);
        fclose(file);
    }
    closedir(directory);
    CHECK(files > 3);
    return found;
}

static void keys(void) {
    esker_options_t *right = keyed(0x5a), *wrong = keyed(0x0b), *hex = esker_options_create();
    const char *path = path_of("keyed");
    char digits[66];
    esker_db_t *db;
    for (int at = 0; at < 32; ++at) memcpy(digits + 2 * at, "5a", 2);
    digits[64] = '\n';
    /* The text is found where there is no key, so the search can find it. */
    db = opened(path_of("plain"), NULL);
    put(db, "k", SECRET);
    CHECK(esker_flush(db, &message) == ESKER_OK && files_with(path_of("plain"), SECRET) > 0);
    esker_db_destroy(db);
    db = opened(path, right);
    put(db, "k", SECRET);
    CHECK(esker_flush(db, &message) == ESKER_OK);
    put(db, "log", SECRET);
    CHECK(esker_checkpoint(db, path_of("checkpoint"), &message) == ESKER_OK);
    CHECK(esker_backup(db, path_of("backups"), 0, NULL, NULL, &message) == ESKER_OK);
    esker_db_destroy(db);
    CHECK(files_with(path, SECRET) == 0 && files_with(path_of("checkpoint"), SECRET) == 0);
    refused(path, NULL, "the store is encrypted");
    refused(path, wrong, "does not open this store");
    refused(path_of("plain"), right, "the store is not encrypted");
    CHECK(esker_options_set_key(hex, digits, 65, &message) == ESKER_OK);
    db = opened(path, hex);
    CHECK(holds(db, "k", SECRET) && holds(db, "log", SECRET));
    esker_db_destroy(db);
    CHECK(esker_options_set_key(hex, digits, 63, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(strstr(message, "64 hexadecimal digits") != NULL && strstr(message, "5a5a") == NULL);
    CHECK(esker_restore(path_of("backups"), 0, path_of("restored"), right, NULL, &message) ==
          ESKER_OK);
    db = opened(path_of("restored"), right);
    CHECK(holds(db, "k", SECRET));
    esker_db_destroy(db);
    CHECK(esker_repair(path_of("restored"), right, NULL, &message) == ESKER_OK);
    CHECK(esker_destroy_store(path_of("restored"), right, &message) == ESKER_OK);
    esker_options_destroy(right);
    esker_options_destroy(wrong);
    esker_options_destroy(hex);
}

static void key_file(void) {
    esker_options_t *options = esker_options_create();
    const char *file_path = path_of("key-file");
    FILE *file;
    CHECK(esker_options_set_key_file(options, file_path, &message) == ESKER_OK);
    refused(path_of("keyed"), options, "cannot read the key file");
    file = fopen(file_path, "w");
    CHECK(file != NULL);
    for (int at = 0; at < 32; ++at) fputs("5A", file);
    fclose(file);
    esker_db_destroy(opened(path_of("keyed"), options));
    esker_options_destroy(options);
}

/* A service that has one key, and the store that asks it. */
struct service {
    esker_db_t *db;
    int asked, destroyed, is_down;
    char wanted[65];
};

static uint8_t give(void *state, const char *name, uint8_t *key, char **named, char **reason) {
    struct service *service = state;
    ++service->asked;
    snprintf(service->wanted, sizeof service->wanted, "%s", name == NULL ? "none" : name);
    if (service->db != NULL) {
        char *why = NULL;
        CHECK(esker_flush(service->db, &why) == ESKER_INVALID_ARGUMENT);
        CHECK(strstr(why, "must not use its own store") != NULL);
        esker_free(why);
    }
    if (service->is_down == 1) *reason = strdup("the service is down");
    if (service->is_down) return 0;
    memset(key, 0x77, ESKER_KEY_BYTES);
    *named = strdup("key 1");
    return 1;
}

static void end(void *state) { ++((struct service *)state)->destroyed; }

static void key_source(void) {
    struct service service = {NULL, 0, 0, 0, ""};
    esker_options_t *options = esker_options_create();
    esker_db_t *db;
    CHECK(esker_options_set_key_source(options, &service, end, NULL, &message) ==
          ESKER_INVALID_ARGUMENT);
    CHECK(service.destroyed == 1 && strstr(message, "NULL") != NULL);
    CHECK(esker_options_set_key_source(options, &service, end, give, &message) == ESKER_OK);
    db = opened(path_of("served"), options);
    CHECK(strcmp(service.wanted, "none") == 0 || strcmp(service.wanted, "key 1") == 0);
    put(db, "k", "v");
    service.db = db;
    service.asked = 0;
    CHECK(esker_fork(db, path_of("served-fork"), NULL, NULL, &message) == ESKER_OK);
    CHECK(service.asked > 0);
    service.db = NULL;
    esker_db_destroy(db);
    db = opened(path_of("served"), options);
    CHECK(strcmp(service.wanted, "key 1") == 0 && holds(db, "k", "v"));
    esker_db_destroy(db);
    service.is_down = 1;
    refused(path_of("served"), options, "the service is down");
    service.is_down = 2;
    refused(path_of("served"), options, "the function has no such key");
    esker_options_destroy(options);
    CHECK(service.destroyed == 2);
}

static void rekeys(void) {
    esker_options_t *from = keyed(0x5a), *to = keyed(0x0b), *none = esker_options_create();
    esker_rekey_report_t *report = NULL;
    const char *path = path_of("keyed");
    esker_db_t *db = opened(path, from);
    CHECK(esker_rekey(path, from, to, &report, &message) == ESKER_LOCKED && report == NULL);
    esker_db_destroy(db);
    CHECK(esker_rekey(path, to, from, NULL, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(strstr(message, "does not open this store") != NULL);
    CHECK(esker_rekey(path, from, none, NULL, &message) == ESKER_INVALID_ARGUMENT);
    CHECK(strstr(message, "the new key is missing") != NULL);
    CHECK(esker_rekey(path_of("nothing"), from, to, NULL, &message) == ESKER_NOT_FOUND);
    CHECK(esker_rekey(path, from, to, &report, &message) == ESKER_OK && report != NULL);
    CHECK(strlen(report->from) == 16 && strlen(report->to) == 16);
    CHECK(strcmp(report->from, report->to) != 0 && report->data_keys >= 1);
    refused(path, from, report->from);
    refused(path, from, report->to);
    esker_free(report);
    db = opened(path, to);
    CHECK(holds(db, "k", SECRET) && holds(db, "log", SECRET));
    put(db, "new", SECRET);
    CHECK(esker_compact_range(db, NULL, 0, NULL, 0, &message) == ESKER_OK);
    esker_db_destroy(db);
    CHECK(files_with(path, SECRET) == 0);
    esker_options_destroy(from);
    esker_options_destroy(to);
    esker_options_destroy(none);
}

/* A sorted file is plain, and its content is encrypted by the ingest. */
static void ingests(void) {
    esker_options_t *options = keyed(0x0b);
    esker_sorted_writer_t *writer = NULL;
    const char *file = path_of("sorted.sst"), *path = path_of("keyed");
    esker_db_t *db = opened(path, options);
    CHECK(esker_sorted_writer_create(file, options, &writer, &message) == ESKER_OK);
    CHECK(esker_sorted_writer_put(writer, "s", 1, SECRET, strlen(SECRET), &message) == ESKER_OK);
    CHECK(esker_sorted_writer_finish(writer, NULL, &message) == ESKER_OK);
    esker_sorted_writer_destroy(writer);
    CHECK(esker_ingest(db, &file, 1, 0, 1, NULL, &message) == ESKER_OK && holds(db, "s", SECRET));
    esker_db_destroy(db);
    CHECK(files_with(path, SECRET) == 0);
    esker_options_destroy(options);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    snprintf(folder, sizeof folder, "%s", argv[1]);
    keys();
    key_file();
    key_source();
    rekeys();
    ingests();
    esker_free(message);
    printf("encryption.c: passed\n");
    return 0;
}
