// Tests uses of LevelDB's C++ interface that the test suites of other projects do not cover. The
// same program must pass on LevelDB. scripts/dropin.sh runs it on both.
#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

namespace leveldb {
Env *NewMemEnv(Env *base_env);
}
using namespace leveldb;

static int checks = 0;
#define CHECK(condition)                                                          \
  do {                                                                            \
    checks++;                                                                     \
    if (!(condition)) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);        \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)
#define OK(expression)                                                            \
  do {                                                                            \
    const Status status_ = (expression);                                          \
    if (!status_.ok()) std::fprintf(stderr, "%s\n", status_.ToString().c_str()); \
    CHECK(status_.ok());                                                          \
  } while (0)

static std::string root;

static std::unique_ptr<DB> Open(const std::string &name, Options options = Options()) {
  DB *db = nullptr;
  options.create_if_missing = true;
  OK(DB::Open(options, root + "/" + name, &db));
  return std::unique_ptr<DB>(db);
}

static std::string Walk(DB *db) {
  std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  std::string keys;
  for (it->SeekToFirst(); it->Valid(); it->Next()) keys += it->key().ToString() + " ";
  OK(it->status());
  return keys;
}

static void Statuses() {
  DB *db = nullptr;
  Options options;
  Status status = DB::Open(options, root + "/missing", &db);
  CHECK(db == nullptr && status.IsInvalidArgument());
  CHECK(status.ToString().find("does not exist") != std::string::npos);
  auto first = Open("held");
  status = DB::Open(options, root + "/held", &db);
  CHECK(db == nullptr && status.IsIOError());
  CHECK(status.ToString().compare(0, 15, "IO error: lock ") == 0);
  options.error_if_exists = true;
  first.reset();
  CHECK(DB::Open(options, root + "/held", &db).IsInvalidArgument());
  std::string value = "unchanged";
  first = Open("held");
  status = first->Get(ReadOptions(), "nothing", &value);
  CHECK(status.IsNotFound() && value == "unchanged");
  const Status copy = status;
  CHECK(copy.ToString() == status.ToString() && copy.IsNotFound());
  first.reset();
  OK(DestroyDB(root + "/held", Options()));
  OK(DestroyDB(root + "/never", Options()));
  CHECK(!Env::Default()->FileExists(root + "/held/CURRENT"));
}

struct Seen : WriteBatch::Handler {
  std::string text;
  void Put(const Slice &key, const Slice &value) override {
    text += "+" + key.ToString() + "=" + value.ToString() + " ";
  }
  void Delete(const Slice &key) override { text += "-" + key.ToString() + " "; }
};

static void Batches() {
  WriteBatch batch, other;
  CHECK(batch.ApproximateSize() == 12);
  batch.Put("a", std::string(200, 'x'));
  batch.Delete("b");
  CHECK(batch.ApproximateSize() == 12 + (1 + 2 + 2 + 200) + (1 + 2));
  other.Put("c", "3");
  other.Append(batch);
  other.Append(other);
  Seen seen;
  OK(other.Iterate(&seen));
  const std::string once = "+c=3 +a=" + std::string(200, 'x') + " -b ";
  CHECK(seen.text == once + once);
  auto db = Open("batches");
  OK(db->Put(WriteOptions(), "b", "2"));
  OK(db->Write(WriteOptions(), &other));
  CHECK(Walk(db.get()) == "a c ");
  other.Clear();
  OK(db->Write(WriteOptions(), &other));
}

struct Backwards : Comparator {
  int Compare(const Slice &a, const Slice &b) const override { return b.compare(a); }
  const char *Name() const override { return "shim.backwards"; }
  void FindShortestSeparator(std::string *, const Slice &) const override {}
  void FindShortSuccessor(std::string *) const override {}
};

struct Nothing : FilterPolicy {
  // Esker reads a new table back before it uses it, and refuses a filter that denies its own keys.
  bool deny = false;
  const char *Name() const override { return "shim.nothing"; }
  void CreateFilter(const Slice *, int, std::string *dst) const override { dst->append("filter"); }
  bool KeyMayMatch(const Slice &, const Slice &filter) const override {
    return !deny || filter != Slice("filter");
  }
};

static void OrdersAndFilters() {
  Backwards backwards;
  Options options;
  options.comparator = &backwards;
  auto db = Open("backwards", options);
  for (const char *key : {"a", "c", "b"}) OK(db->Put(WriteOptions(), key, key));
  CHECK(Walk(db.get()) == "c b a ");
  db.reset();
  DB *wrong = nullptr;
  CHECK(DB::Open(Options(), root + "/backwards", &wrong).IsInvalidArgument() && !wrong);
  Nothing nothing;
  Options filtered;
  filtered.filter_policy = &nothing;
  db = Open("filtered", filtered);
  OK(db->Put(WriteOptions(), "k", "v"));
  db->CompactRange(nullptr, nullptr);
  std::string value;
  OK(db->Get(ReadOptions(), "k", &value));
  nothing.deny = true;
  CHECK(db->Get(ReadOptions(), "k", &value).IsNotFound());
  nothing.deny = false;
  db.reset();
  std::unique_ptr<const FilterPolicy> bloom(NewBloomFilterPolicy(10));
  std::vector<std::string> names;
  for (int i = 0; i < 1000; i++) names.push_back("name" + std::to_string(i));
  const std::vector<Slice> keys(names.begin(), names.end());
  std::string filter;
  bloom->CreateFilter(keys.data(), 1000, &filter);
  int passed = 0;
  for (const Slice &key : keys) CHECK(bloom->KeyMayMatch(key, filter));
  for (int i = 1000; i < 2000; i++) passed += bloom->KeyMayMatch("name" + std::to_string(i), filter);
  CHECK(passed < 50);
  filtered.filter_policy = bloom.get();
  db = Open("filtered", filtered);
  OK(db->Get(ReadOptions(), "k", &value));
}

static std::string cleaned;
static void Clean(void *name, void *) { cleaned += static_cast<const char *>(name); }

static void IteratorsAndSnapshots() {
  auto db = Open("iterators");
  for (const char *key : {"b", "d", "f"}) OK(db->Put(WriteOptions(), key, "1"));
  const Snapshot *snapshot = db->GetSnapshot();
  OK(db->Put(WriteOptions(), "e", "2"));
  ReadOptions then;
  then.snapshot = snapshot;
  std::string value;
  CHECK(db->Get(then, "e", &value).IsNotFound());
  std::unique_ptr<Iterator> it(db->NewIterator(then));
  CHECK(!it->Valid());
  it->Seek("e");
  CHECK(it->Valid() && it->key() == "f" && it->value() == "1");
  it->Prev();
  CHECK(it->key() == "d");
  it->Next();
  it->Next();
  CHECK(!it->Valid());
  it->SeekToLast();
  CHECK(it->key() == "f");
  it->RegisterCleanup(Clean, const_cast<char *>("1"), nullptr);
  it->RegisterCleanup(Clean, const_cast<char *>("2"), nullptr);
  it.reset();
  CHECK(cleaned == "12");
  db->ReleaseSnapshot(snapshot);
  std::unique_ptr<Iterator> failed(NewErrorIterator(Status::Corruption("x")));
  CHECK(!failed->Valid() && failed->status().IsCorruption());
  CHECK(db->GetProperty("leveldb.num-files-at-level0", &value) && !value.empty());
  CHECK(!db->GetProperty("leveldb.nonsense", &value));
  const Range range("a", "z");
  uint64_t size = 7;
  db->CompactRange(nullptr, nullptr);
  db->GetApproximateSizes(&range, 1, &size);
  CHECK(size > 0 && size < 10000);
}

static int freed = 0;
static void Free(const Slice &, void *value) {
  freed++;
  delete static_cast<int *>(value);
}

static void Caches() {
  std::unique_ptr<Cache> cache(NewLRUCache(1000));
  for (int i = 0; i < 3000; i++) cache->Release(cache->Insert("k" + std::to_string(i), new int(i), 1, Free));
  CHECK(cache->TotalCharge() <= 1016 && freed >= 1984);
  Cache::Handle *handle = cache->Lookup("k2999");
  CHECK(handle != nullptr && *static_cast<int *>(cache->Value(handle)) == 2999);
  cache->Erase("k2999");
  CHECK(cache->Lookup("k2999") == nullptr);
  CHECK(*static_cast<int *>(cache->Value(handle)) == 2999);
  cache->Release(handle);
  CHECK(cache->NewId() != cache->NewId());
  cache->Prune();
  CHECK(cache->TotalCharge() == 0 && freed == 3000);
  Options options;
  options.block_cache = cache.get();
  auto db = Open("cached", options);
  OK(db->Put(WriteOptions(), "k", "v"));
}

static void Environments() {
  Env *env = Env::Default();
  OK(WriteStringToFile(env, "hello", root + "/file"));
  std::string text;
  OK(ReadFileToString(env, root + "/file", &text));
  uint64_t size = 0;
  OK(env->GetFileSize(root + "/file", &size));
  CHECK(text == "hello" && size == 5);
  FileLock *lock = nullptr, *second = nullptr;
  OK(env->LockFile(root + "/lock", &lock));
  CHECK(env->LockFile(root + "/lock", &second).IsIOError());
  OK(env->UnlockFile(lock));
  OK(env->RenameFile(root + "/file", root + "/moved"));
  CHECK(env->FileExists(root + "/moved") && !env->FileExists(root + "/file"));
  OK(env->RemoveFile(root + "/moved"));
  CHECK(ReadFileToString(env, root + "/moved", &text).IsNotFound());
  CHECK(env->NowMicros() > 1500000000000000u);

  std::unique_ptr<Env> memory(NewMemEnv(env));
  Options options;
  options.env = memory.get();
  {
    auto db = Open("memory", options);
    OK(db->Put(WriteOptions(), "k", "v"));
  }
  CHECK(!env->FileExists(root + "/memory"));
  auto db = Open("memory", options);
  CHECK(Walk(db.get()) == "k ");
  OK(WriteStringToFile(memory.get(), "in memory", "/dir/file"));
  OK(ReadFileToString(memory.get(), "/dir/file", &text));
  CHECK(text == "in memory" && !env->FileExists("/dir/file"));
}

struct CountingLogger : Logger {
  int lines = 0;
  void Logv(const char *, std::va_list) override { lines++; }
};

static void Loggers() {
  CountingLogger logger;
  Options options;
  options.info_log = &logger;
  auto db = Open("logged", options);
  CHECK(logger.lines > 0);
  CHECK(typeid(*db) != typeid(DB));
  CHECK(dynamic_cast<Backwards *>(const_cast<Comparator *>(BytewiseComparator())) == nullptr);
  std::string key = "abc";
  BytewiseComparator()->FindShortestSeparator(&key, "abz");
  CHECK(key == "abd");
  BytewiseComparator()->FindShortSuccessor(&key);
  CHECK(key == "b");
}

int main(int, char **arguments) {
  root = arguments[1];
  Statuses();
  Batches();
  OrdersAndFilters();
  IteratorsAndSnapshots();
  Caches();
  Environments();
  Loggers();
  std::printf("passed %d checks\n", checks);
  return 0;
}
