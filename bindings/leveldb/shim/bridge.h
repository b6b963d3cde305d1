// What the shim's parts share: Esker's C interface, the functions made for the shim alone, and the
// classes that one part makes and another recognises.
#ifndef ESKER_SHIM_BRIDGE_H
#define ESKER_SHIM_BRIDGE_H

#include <leveldb/c.h>
#include <leveldb/cache.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/status.h>

#include <string>

#include "esker.h"

extern "C" {
void esker_shim_set_memory(leveldb_options_t *options, const esker_memory_t *memory);
int32_t esker_shim_open(const leveldb_options_t *options, const char *path, esker_db_t **db,
                        char **message);
int32_t esker_shim_destroy(const leveldb_options_t *options, const char *path, char **message);
int32_t esker_shim_repair(const leveldb_options_t *options, const char *path, char **message);
int32_t esker_shim_write(const esker_db_t *db, const uint8_t *rep, size_t rep_len,
                         int32_t durability, char **message);
}

namespace esker_shim {

// LevelDB's status for a code and its sentence, which is freed.
leveldb::Status StatusOf(int32_t code, char *message);

// The Bloom filter that Esker replaces by its own of as many bits.
class BloomFilter : public leveldb::FilterPolicy {
 public:
  explicit BloomFilter(int bits_per_key);
  const char *Name() const override;
  void CreateFilter(const leveldb::Slice *keys, int n, std::string *dst) const override;
  bool KeyMayMatch(const leveldb::Slice &key, const leveldb::Slice &filter) const override;
  int bits_per_key() const { return bits_per_key_; }

 private:
  int bits_per_key_;
};

// The capacity of a cache made by NewLRUCache; false for one of the application's own.
bool CacheCapacity(const leveldb::Cache *cache, size_t *capacity);

// The memory behind an environment made by NewMemEnv; null for every other.
const esker_memory_t *MemoryOf(const leveldb::Env *env);

// Whether the environment is the operating system's.
bool IsDefaultEnv(const leveldb::Env *env);

}  // namespace esker_shim

#endif
