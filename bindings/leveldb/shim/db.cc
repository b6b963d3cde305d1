// leveldb::DB over Esker.
//
// Invariants:
// 1. Every status is made from Esker's code and message.
// 2. An iterator or snapshot may outlive its store.
// 3. An environment that Esker cannot use is refused.
// 4. Calls are recorded after they succeeded, if the environment asks for it (src/trace.rs). Reads
//    of a snapshot are not recorded, because a replay reads the present.
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/options.h>

#include <cstring>
#include <memory>

#include "bridge.h"
#include "write_batch_rep.h"

using esker_shim::StatusOf;

namespace leveldb {

namespace {

const uint8_t *Bytes(const Slice &slice) { return reinterpret_cast<const uint8_t *>(slice.data()); }

Slice SliceOf(const uint8_t *data, size_t size) {
  return Slice(reinterpret_cast<const char *>(data), size);
}

int32_t Durability(const WriteOptions &options) {
  return options.sync ? ESKER_DURABILITY_SYNC : ESKER_DURABILITY_BUFFERED;
}

class EskerSnapshot : public Snapshot {
 public:
  explicit EskerSnapshot(esker_snapshot_t *snapshot) : snapshot_(snapshot) {}
  ~EskerSnapshot() override { esker_snapshot_destroy(snapshot_); }
  const esker_snapshot_t *get() const { return snapshot_; }

 private:
  esker_snapshot_t *snapshot_;
};

const esker_snapshot_t *SnapshotOf(const ReadOptions &options) {
  if (options.snapshot == nullptr) return nullptr;
  return static_cast<const EskerSnapshot *>(options.snapshot)->get();
}

class EskerIterator : public Iterator {
 public:
  EskerIterator(esker_iter_t *iter, esker_shim_scan_t *scan) : iter_(iter), scan_(scan) {}
  ~EskerIterator() override {
    esker_iter_destroy(iter_);
    esker_shim_scan_destroy(scan_);
  }

  bool Valid() const override { return valid_; }
  void SeekToFirst() override {
    BeginScan(Slice());
    esker_iter_seek_to_first(iter_);
    Look();
  }
  void SeekToLast() override {
    BeginScan(Slice());
    esker_iter_seek_to_last(iter_);
    Look();
  }
  void Seek(const Slice &target) override {
    BeginScan(target);
    esker_iter_seek(iter_, Bytes(target), target.size());
    Look();
  }
  void Next() override {
    esker_iter_next(iter_);
    Look();
  }
  void Prev() override {
    esker_iter_prev(iter_);
    Look();
  }
  Slice key() const override {
    size_t size = 0;
    const uint8_t *data = esker_iter_key(iter_, &size);
    return SliceOf(data, size);
  }
  Slice value() const override {
    size_t size = 0;
    const uint8_t *data = esker_iter_value(iter_, &size);
    return SliceOf(data, size);
  }
  Status status() const override {
    char *message = nullptr;
    const int32_t code = esker_iter_failure(iter_, &message);
    return StatusOf(code, message);
  }

 private:
  void Look() {
    valid_ = esker_iter_valid(iter_) != 0;
    if (scan_ != nullptr) esker_shim_scan_step(scan_, valid_);
  }

  // The key may point into the iterator's own key, so it is copied before the move.
  void BeginScan(const Slice &key) {
    if (scan_ != nullptr) esker_shim_scan_begin(scan_, Bytes(key), key.size());
  }

  esker_iter_t *iter_;
  bool valid_ = false;
  // Null, if the calls of the store are not recorded.
  esker_shim_scan_t *scan_;
};

// Logs an event, if the application set a logger.
void Tell(const Options &options, const char *what, const std::string &name) {
  if (options.info_log != nullptr) {
    Log(options.info_log, "Esker %s: %s %s", esker_version(), what, name.c_str());
  }
}

class EskerDB : public DB {
 public:
  EskerDB(esker_db_t *db, esker_shim_trace_t *trace) : db_(db), trace_(trace) {}
  ~EskerDB() override {
    esker_db_destroy(db_);
    esker_shim_trace_destroy(trace_);
  }

  Status Put(const WriteOptions &options, const Slice &key, const Slice &value) override {
    if (trace_ != nullptr) return DB::Put(options, key, value);
    char *message = nullptr;
    const int32_t code = esker_put(db_, Bytes(key), key.size(), Bytes(value), value.size(),
                                   Durability(options), &message);
    return StatusOf(code, message);
  }

  Status Delete(const WriteOptions &options, const Slice &key) override {
    if (trace_ != nullptr) return DB::Delete(options, key);
    char *message = nullptr;
    const int32_t code =
        esker_delete(db_, Bytes(key), key.size(), Durability(options), &message);
    return StatusOf(code, message);
  }

  Status Write(const WriteOptions &options, WriteBatch *updates) override {
    // In LevelDB, a null batch asks for a new memtable. This has no effect here.
    if (updates == nullptr) return Status::OK();
    const std::string &rep = esker_shim::RepOf(updates);
    char *message = nullptr;
    const int32_t code =
        esker_shim_write(db_, Bytes(rep), rep.size(), Durability(options), &message);
    if (trace_ != nullptr && code == ESKER_OK) {
      esker_shim_trace_batch(trace_, Bytes(rep), rep.size());
    }
    return StatusOf(code, message);
  }

  Status Get(const ReadOptions &options, const Slice &key, std::string *value) override {
    struct Found {
      std::string *value;
      bool found;
    } found = {value, false};
    const auto see = [](void *state, const uint8_t *data, size_t size) {
      Found *found = static_cast<Found *>(state);
      found->value->assign(reinterpret_cast<const char *>(data), size);
      found->found = true;
    };
    // The key may be in `value`, which the get replaces.
    const bool is_traced = trace_ != nullptr && options.snapshot == nullptr;
    const std::string traced = is_traced ? key.ToString() : std::string();
    char *message = nullptr;
    const int32_t code = esker_get_visit(db_, SnapshotOf(options), options.fill_cache,
                                         Bytes(key), key.size(), &found, see, &message);
    if (code != ESKER_OK) return StatusOf(code, message);
    if (is_traced) {
      const int64_t size = found.found ? static_cast<int64_t>(value->size()) : -1;
      esker_shim_trace_get(trace_, Bytes(traced), traced.size(), size);
    }
    return found.found ? Status::OK() : Status::NotFound(Slice());
  }

  Iterator *NewIterator(const ReadOptions &options) override {
    esker_iter_t *iter = nullptr;
    char *message = nullptr;
    const int32_t code = esker_iter_create(db_, SnapshotOf(options), nullptr, 0, nullptr, 0,
                                           options.fill_cache, &iter, &message);
    if (code != ESKER_OK) return NewErrorIterator(StatusOf(code, message));
    return new EskerIterator(iter,
                             esker_shim_scan_create(options.snapshot == nullptr ? trace_ : nullptr));
  }

  const Snapshot *GetSnapshot() override {
    esker_snapshot_t *snapshot = nullptr;
    char *message = nullptr;
    if (esker_snapshot_create(db_, &snapshot, &message) != ESKER_OK) {
      esker_free(message);
      return nullptr;
    }
    return new EskerSnapshot(snapshot);
  }

  void ReleaseSnapshot(const Snapshot *snapshot) override {
    delete static_cast<const EskerSnapshot *>(snapshot);
  }

  bool GetProperty(const Slice &property, std::string *value) override {
    value->clear();
    char *text = esker_property(db_, property.ToString().c_str());
    if (text == nullptr) return false;
    value->assign(text);
    esker_free(text);
    return true;
  }

  void GetApproximateSizes(const Range *range, int n, uint64_t *sizes) override {
    for (int i = 0; i < n; i++) {
      char *message = nullptr;
      sizes[i] = 0;
      esker_approximate_size(db_, Bytes(range[i].start), range[i].start.size(),
                             Bytes(range[i].limit), range[i].limit.size(), &sizes[i], &message);
      esker_free(message);
    }
  }

  void CompactRange(const Slice *begin, const Slice *end) override {
    // A null pointer means no bound, so an empty key needs an address.
    const uint8_t none = 0;
    const auto data = [&](const Slice *key) -> const uint8_t * {
      if (key == nullptr) return nullptr;
      return key->empty() ? &none : Bytes(*key);
    };
    char *message = nullptr;
    esker_compact_range(db_, data(begin), begin == nullptr ? 0 : begin->size(), data(end),
                        end == nullptr ? 0 : end->size(), &message);
    esker_free(message);
  }

 private:
  esker_db_t *db_;
  esker_shim_trace_t *trace_;
};

int CompareByState(void *state, const char *a, size_t alen, const char *b, size_t blen) {
  return static_cast<const Comparator *>(state)->Compare(Slice(a, alen), Slice(b, blen));
}

const char *ComparatorName(void *state) { return static_cast<const Comparator *>(state)->Name(); }

char *FilterByState(void *state, const char *const *keys, const size_t *lengths, int n,
                    size_t *size) {
  std::unique_ptr<Slice[]> slices(new Slice[n]);
  for (int i = 0; i < n; i++) slices[i] = Slice(keys[i], lengths[i]);
  std::string filter;
  static_cast<const FilterPolicy *>(state)->CreateFilter(slices.get(), n, &filter);
  char *copy = static_cast<char *>(std::malloc(filter.size() + 1));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, filter.data(), filter.size());
  *size = filter.size();
  return copy;
}

uint8_t MatchByState(void *state, const char *key, size_t length, const char *filter,
                     size_t filter_length) {
  return static_cast<const FilterPolicy *>(state)->KeyMayMatch(Slice(key, length),
                                                               Slice(filter, filter_length));
}

const char *FilterName(void *state) { return static_cast<const FilterPolicy *>(state)->Name(); }

void Nothing(void *) {}

// LevelDB's C++ options converted to the C interface's options, for the duration of one call.
class Given {
 public:
  explicit Given(const Options &options) : options_(leveldb_options_create()) {
    leveldb_options_set_create_if_missing(options_, options.create_if_missing);
    leveldb_options_set_error_if_exists(options_, options.error_if_exists);
    leveldb_options_set_write_buffer_size(options_, options.write_buffer_size);
    leveldb_options_set_max_open_files(options_, options.max_open_files);
    leveldb_options_set_block_size(options_, options.block_size);
    leveldb_options_set_block_restart_interval(options_, options.block_restart_interval);
    leveldb_options_set_max_file_size(options_, options.max_file_size);
    leveldb_options_set_compression(options_, options.compression);
    SetCache(options.block_cache);
    SetComparator(options.comparator);
    SetFilter(options.filter_policy);
    esker_shim_set_memory(options_, esker_shim::MemoryOf(options.env));
  }

  ~Given() {
    leveldb_options_destroy(options_);
    leveldb_comparator_destroy(comparator_);
    leveldb_filterpolicy_destroy(filter_);
    leveldb_cache_destroy(cache_);
  }

  const leveldb_options_t *get() const { return options_; }

 private:
  void SetCache(const Cache *cache) {
    size_t capacity = 0;
    if (esker_shim::CacheCapacity(cache, &capacity)) {
      cache_ = leveldb_cache_create_lru(capacity);
      leveldb_options_set_cache(options_, cache_);
    }
  }

  void SetComparator(const Comparator *comparator) {
    if (comparator == nullptr || comparator == BytewiseComparator()) return;
    comparator_ = leveldb_comparator_create(const_cast<Comparator *>(comparator), Nothing,
                                            CompareByState, ComparatorName);
    leveldb_options_set_comparator(options_, comparator_);
  }

  void SetFilter(const FilterPolicy *policy) {
    if (policy == nullptr) return;
    const auto *bloom = dynamic_cast<const esker_shim::BloomFilter *>(policy);
    filter_ = bloom != nullptr
                  ? leveldb_filterpolicy_create_bloom(bloom->bits_per_key())
                  : leveldb_filterpolicy_create(const_cast<FilterPolicy *>(policy), Nothing,
                                                FilterByState, MatchByState, FilterName);
    leveldb_options_set_filter_policy(options_, filter_);
  }

  leveldb_options_t *options_;
  leveldb_comparator_t *comparator_ = nullptr;
  leveldb_filterpolicy_t *filter_ = nullptr;
  leveldb_cache_t *cache_ = nullptr;
};

// Refuses an environment of the application's own, which Esker cannot write through.
Status CheckEnv(const Options &options, const std::string &name) {
  const Env *env = options.env;
  if (env == nullptr || esker_shim::IsDefaultEnv(env) || esker_shim::MemoryOf(env) != nullptr) {
    return Status::OK();
  }
  return Status::NotSupported(
      name, "Esker reads and writes through Env::Default() or NewMemEnv(), not through the "
            "application's own Env");
}

}  // namespace

DB::~DB() = default;
Snapshot::~Snapshot() = default;

Status DB::Put(const WriteOptions &options, const Slice &key, const Slice &value) {
  WriteBatch batch;
  batch.Put(key, value);
  return Write(options, &batch);
}

Status DB::Delete(const WriteOptions &options, const Slice &key) {
  WriteBatch batch;
  batch.Delete(key);
  return Write(options, &batch);
}

Status DB::Open(const Options &options, const std::string &name, DB **dbptr) {
  *dbptr = nullptr;
  Status status = CheckEnv(options, name);
  if (!status.ok()) return status;
  esker_db_t *db = nullptr;
  char *message = nullptr;
  esker_shim_trace_t *trace = nullptr;
  // The recording is first, so that a wrong variable leaves no new store.
  int32_t code = esker_shim_trace_open(name.c_str(), &trace, &message);
  if (code == ESKER_OK) {
    code = esker_shim_open(Given(options).get(), name.c_str(), &db, &message);
    if (code != ESKER_OK) esker_shim_trace_discard(trace);
  }
  status = StatusOf(code, message);
  if (status.ok()) {
    Tell(options, "opened", name);
    *dbptr = new EskerDB(db, trace);
  } else {
    Tell(options, status.ToString().c_str(), name);
  }
  return status;
}

Status DestroyDB(const std::string &name, const Options &options) {
  Status status = CheckEnv(options, name);
  if (!status.ok()) return status;
  char *message = nullptr;
  const int32_t code = esker_shim_destroy(Given(options).get(), name.c_str(), &message);
  return StatusOf(code, message);
}

Status RepairDB(const std::string &name, const Options &options) {
  Status status = CheckEnv(options, name);
  if (!status.ok()) return status;
  char *message = nullptr;
  const int32_t code = esker_shim_repair(Given(options).get(), name.c_str(), &message);
  return StatusOf(code, message);
}

}  // namespace leveldb
