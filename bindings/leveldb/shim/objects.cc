// The small classes of LevelDB's interface: empty iterators, the bytewise order, the Bloom filter,
// the cache, the defaults of the options.
#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>

#include "bridge.h"

namespace leveldb {

Options::Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

// ---- iterators

Iterator::Iterator() {
  cleanup_head_.function = nullptr;
  cleanup_head_.next = nullptr;
}

Iterator::~Iterator() {
  if (cleanup_head_.IsEmpty()) return;
  cleanup_head_.Run();
  for (CleanupNode *node = cleanup_head_.next; node != nullptr;) {
    node->Run();
    CleanupNode *next = node->next;
    delete node;
    node = next;
  }
}

void Iterator::RegisterCleanup(CleanupFunction function, void *arg1, void *arg2) {
  CleanupNode *node = &cleanup_head_;
  if (!cleanup_head_.IsEmpty()) {
    node = new CleanupNode();
    node->next = cleanup_head_.next;
    cleanup_head_.next = node;
  }
  node->function = function;
  node->arg1 = arg1;
  node->arg2 = arg2;
}

namespace {
class NoIterator : public Iterator {
 public:
  explicit NoIterator(const Status &status) : status_(status) {}
  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice &) override {}
  void Next() override {}
  void Prev() override {}
  Slice key() const override { return Slice(); }
  Slice value() const override { return Slice(); }
  Status status() const override { return status_; }

 private:
  Status status_;
};
}  // namespace

Iterator *NewEmptyIterator() { return new NoIterator(Status::OK()); }
Iterator *NewErrorIterator(const Status &status) { return new NoIterator(status); }

// ---- the bytewise order

Comparator::~Comparator() = default;

namespace {
class Bytewise : public Comparator {
 public:
  int Compare(const Slice &a, const Slice &b) const override { return a.compare(b); }
  const char *Name() const override { return "leveldb.BytewiseComparator"; }

  // Shortens *start to the shortest key at or after *start and before limit, if the bytes at the
  // first difference are at least two apart.
  void FindShortestSeparator(std::string *start, const Slice &limit) const override {
    size_t at = 0;
    while (at < start->size() && at < limit.size() && (*start)[at] == limit[at]) at++;
    if (at >= start->size() || at >= limit.size()) return;
    const unsigned char byte = static_cast<unsigned char>((*start)[at]);
    if (byte < 0xff && byte + 1 < static_cast<unsigned char>(limit[at])) {
      start->resize(at + 1);
      (*start)[at] = static_cast<char>(byte + 1);
    }
  }

  void FindShortSuccessor(std::string *key) const override {
    for (size_t at = 0; at < key->size(); at++) {
      const unsigned char byte = static_cast<unsigned char>((*key)[at]);
      if (byte != 0xff) {
        (*key)[at] = static_cast<char>(byte + 1);
        key->resize(at + 1);
        return;
      }
    }
  }
};
}  // namespace

const Comparator *BytewiseComparator() {
  static Bytewise *bytewise = new Bytewise;
  return bytewise;
}

// ---- the Bloom filter

FilterPolicy::~FilterPolicy() = default;

const FilterPolicy *NewBloomFilterPolicy(int bits_per_key) {
  return new esker_shim::BloomFilter(bits_per_key);
}

// ---- the cache

Cache::~Cache() = default;

namespace {
// An LRU cache for an application's own objects. Stores opened with it use only its capacity and
// keep their blocks in a cache of Esker.
//
// Invariants:
// 1. An entry lives while it is in the cache or has a handle.
// 2. Eviction removes the least recently used entry without handles first.
class LruCache : public Cache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  ~LruCache() override {
    while (!order_.empty()) Forget(order_.begin());
  }

  Handle *Insert(const Slice &key, void *value, size_t charge,
                 void (*deleter)(const Slice &, void *)) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto old = index_.find(key.ToString());
    if (old != index_.end()) Forget(old->second);
    Entry *entry = new Entry(key, value, charge, deleter);
    if (capacity_ > 0) {
      entry->references++;
      order_.push_back(entry);
      index_[entry->key] = std::prev(order_.end());
      charge_ += charge;
      Shrink();
    }
    return entry;
  }

  Handle *Lookup(const Slice &key) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = index_.find(key.ToString());
    if (found == index_.end()) return nullptr;
    order_.splice(order_.end(), order_, found->second);
    Entry *entry = *found->second;
    entry->references++;
    return entry;
  }

  void Release(Handle *handle) override {
    std::lock_guard<std::mutex> lock(mutex_);
    Drop(static_cast<Entry *>(handle));
    Shrink();
  }

  void *Value(Handle *handle) override { return static_cast<Entry *>(handle)->value; }

  void Erase(const Slice &key) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = index_.find(key.ToString());
    if (found != index_.end()) Forget(found->second);
  }

  uint64_t NewId() override {
    std::lock_guard<std::mutex> lock(mutex_);
    return ++last_id_;
  }

  void Prune() override {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = order_.begin(); at != order_.end();) {
      auto next = std::next(at);
      if ((*at)->references == 1) Forget(at);
      at = next;
    }
  }

  size_t TotalCharge() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return charge_;
  }

  size_t capacity() const { return capacity_; }

 private:
  struct Entry : Handle {
    Entry(const Slice &k, void *v, size_t c, void (*d)(const Slice &, void *))
        : key(k.ToString()), value(v), charge(c), deleter(d) {}
    std::string key;
    void *value;
    size_t charge;
    void (*deleter)(const Slice &, void *);
    int references = 1;
  };
  using Order = std::list<Entry *>;

  void Drop(Entry *entry) {
    if (--entry->references == 0) {
      entry->deleter(entry->key, entry->value);
      delete entry;
    }
  }

  void Forget(Order::iterator at) {
    Entry *entry = *at;
    order_.erase(at);
    index_.erase(entry->key);
    charge_ -= entry->charge;
    Drop(entry);
  }

  void Shrink() {
    for (auto at = order_.begin(); charge_ > capacity_ && at != order_.end();) {
      auto next = std::next(at);
      if ((*at)->references == 1) Forget(at);
      at = next;
    }
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  Order order_;
  std::unordered_map<std::string, Order::iterator> index_;
  size_t charge_ = 0;
  uint64_t last_id_ = 0;
};
}  // namespace

Cache *NewLRUCache(size_t capacity) { return new LruCache(capacity); }

}  // namespace leveldb

namespace esker_shim {

bool CacheCapacity(const leveldb::Cache *cache, size_t *capacity) {
  const auto *ours = dynamic_cast<const leveldb::LruCache *>(cache);
  if (ours != nullptr) *capacity = ours->capacity();
  return ours != nullptr;
}

namespace {
// 64-bit FNV-1a with a final mix.
uint64_t Hash(const leveldb::Slice &key) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t at = 0; at < key.size(); at++) {
    hash = (hash ^ static_cast<unsigned char>(key[at])) * 0x100000001b3u;
  }
  hash ^= hash >> 32;
  hash *= 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

// Visits the bits of a key by double hashing: the lower half of the hash is the first bit, the
// upper half is the step. Stops and returns false when visit returns false.
template <typename Visit>
bool EachBit(const leveldb::Slice &key, int probes, size_t bits, Visit visit) {
  const uint64_t hash = Hash(key);
  uint64_t place = hash & 0xffffffffu;
  const uint64_t step = (hash >> 32) | 1;
  for (int i = 0; i < probes; i++, place += step) {
    if (!visit(place % bits)) return false;
  }
  return true;
}
}  // namespace

BloomFilter::BloomFilter(int bits_per_key) : bits_per_key_(bits_per_key) {}

const char *BloomFilter::Name() const { return "esker.shim.bloom.1"; }

// Used only if an application wraps this policy in its own policy.
void BloomFilter::CreateFilter(const leveldb::Slice *keys, int n, std::string *dst) const {
  const size_t per_key = bits_per_key_ < 1 ? 1 : static_cast<size_t>(bits_per_key_);
  const size_t bytes = (std::max<size_t>(static_cast<size_t>(n) * per_key, 64) + 7) / 8;
  const int probes = std::min(30, std::max(1, static_cast<int>(per_key * 69 / 100)));
  const size_t start = dst->size();
  dst->resize(start + bytes, 0);
  dst->push_back(static_cast<char>(probes));
  char *field = &(*dst)[start];
  for (int i = 0; i < n; i++) {
    EachBit(keys[i], probes, bytes * 8, [&](size_t bit) {
      field[bit / 8] = static_cast<char>(field[bit / 8] | 1 << bit % 8);
      return true;
    });
  }
}

bool BloomFilter::KeyMayMatch(const leveldb::Slice &key, const leveldb::Slice &filter) const {
  if (filter.size() < 2) return false;
  const size_t bytes = filter.size() - 1;
  const int probes = filter[bytes];
  if (probes < 1 || probes > 30) return true;
  return EachBit(key, probes, bytes * 8,
                 [&](size_t bit) { return (filter[bit / 8] >> bit % 8 & 1) != 0; });
}

}  // namespace esker_shim
