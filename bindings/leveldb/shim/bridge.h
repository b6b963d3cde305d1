// Declarations shared by the parts of the shim: Esker's C interface, additional functions for the
// shim, and classes that one part creates and another part recognises.
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

// The recording of a store's calls; null if the environment asks for none.
typedef struct esker_shim_trace_t esker_shim_trace_t;
int32_t esker_shim_trace_open(const char *path, esker_shim_trace_t **trace, char **message);
// Ends the recording of a store that was not opened, removes its file, and frees the handle.
void esker_shim_trace_discard(esker_shim_trace_t *trace);
void esker_shim_trace_destroy(esker_shim_trace_t *trace);
void esker_shim_trace_get(const esker_shim_trace_t *trace, const uint8_t *key, size_t key_len,
                          int64_t number);
void esker_shim_trace_batch(const esker_shim_trace_t *trace, const uint8_t *rep, size_t rep_len);

// The recorded scan of an iterator, which may outlive its store; null without a recording.
typedef struct esker_shim_scan_t esker_shim_scan_t;
esker_shim_scan_t *esker_shim_scan_create(const esker_shim_trace_t *trace);
void esker_shim_scan_begin(esker_shim_scan_t *scan, const uint8_t *key, size_t key_len);
void esker_shim_scan_step(esker_shim_scan_t *scan, uint8_t is_valid);
void esker_shim_scan_destroy(esker_shim_scan_t *scan);
}

namespace esker_shim {

// Returns LevelDB's status for a code and its message. Frees the message.
leveldb::Status StatusOf(int32_t code, char *message);

// The Bloom filter policy, which Esker replaces by its own with the same number of bits per key.
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

// Stores the capacity of a cache of NewLRUCache. Returns false for the application's own cache
// class.
bool CacheCapacity(const leveldb::Cache *cache, size_t *capacity);

// Returns the in-memory file system of an environment of NewMemEnv; null for other environments.
const esker_memory_t *MemoryOf(const leveldb::Env *env);

// Returns whether the environment is the operating system's.
bool IsDefaultEnv(const leveldb::Env *env);

}  // namespace esker_shim

#endif
