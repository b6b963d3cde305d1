/* Uses Esker and LevelDB in one program. Each call must reach its own library. The argument is a
 * directory, which must not exist. */
#include <esker.h>
#include <leveldb/c.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void fail(const char *what, const char *message) {
  fprintf(stderr, "beside_leveldb: %s: %s\n", what, message ? message : "no message");
  exit(1);
}

static void leveldb_store(const char *path) {
  char *err = NULL;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t *db = leveldb_open(options, path, &err);
  if (db == NULL) fail("leveldb_open", err);
  leveldb_writeoptions_t *write = leveldb_writeoptions_create();
  leveldb_put(db, write, "key", 3, "value", 5, &err);
  if (err != NULL) fail("leveldb_put", err);
  leveldb_writeoptions_destroy(write);
  leveldb_close(db);
  leveldb_options_destroy(options);
}

int main(int argc, char **argv) {
  char path[2][4096], *message = NULL;
  esker_db_t *db = NULL;
  esker_keyspace_t *keyspace = NULL;
  if (argc != 2) fail("usage", "beside_leveldb DIRECTORY");
  if (mkdir(argv[1], 0700) != 0) fail("mkdir", argv[1]);
  snprintf(path[0], sizeof path[0], "%s/leveldb", argv[1]);
  snprintf(path[1], sizeof path[1], "%s/esker", argv[1]);

  leveldb_store(path[0]);
  if (esker_open(path[0], NULL, &db, &message) != ESKER_INCOMPATIBLE)
    fail("LevelDB's calls made a store that Esker opens", path[0]);
  esker_free(message);

  message = NULL;
  if (esker_open(path[1], NULL, &db, &message) != ESKER_OK) fail("esker_open", message);
  if (esker_put(db, "key", 3, "value", 5, ESKER_DURABILITY_SYNC, &message) != ESKER_OK)
    fail("esker_put", message);
  if (esker_keyspace_open(db, "keyspace", NULL, &keyspace, &message) != ESKER_OK)
    fail("esker_keyspace_open", message);
  if (esker_keyspace_put(keyspace, "key", 3, "value", 5, ESKER_DURABILITY_SYNC, &message) !=
      ESKER_OK)
    fail("esker_keyspace_put", message);
  esker_keyspace_close(keyspace);
  esker_db_destroy(db);
  puts("beside_leveldb: ok");
  return 0;
}
