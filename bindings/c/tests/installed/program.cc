// A C++ program for the installed library. Writes a pair and reads it back. The argument is the
// directory of the store.
#include <esker.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

static void check(int32_t code, char *message) {
  if (code == ESKER_OK) return;
  std::fprintf(stderr, "program.cc: %d: %s\n", code, message ? message : "no message");
  std::exit(1);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  char *message = nullptr;
  esker_db_t *opened = nullptr;
  check(esker_open(argv[1], nullptr, &opened, &message), message);
  std::unique_ptr<esker_db_t, decltype(&esker_db_destroy)> db(opened, esker_db_destroy);

  const std::string key = "key", value = "value";
  check(esker_put(db.get(), key.data(), key.size(), value.data(), value.size(),
                  ESKER_DURABILITY_SYNC, &message),
        message);
  uint8_t *found = nullptr;
  size_t len = 0;
  check(esker_get(db.get(), nullptr, key.data(), key.size(), &found, &len, &message), message);
  if (found == nullptr || std::string(reinterpret_cast<char *>(found), len) != value) return 1;
  esker_free(found);
  std::printf("program.cc: passed with Esker %s\n", esker_version());
}
