// YCSB's core workloads (Cooper et al., SoCC 2010) and scans of fixed length through LevelDB's C++
// interface, as a program with the interface uses it: values of ten fields, which are encoded and
// decoded with std::string, and a new iterator for each scan. The library that the loader finds
// decides what is measured: LevelDB's own, or Esker's in its place.
//
// ycsb DIRECTORY RECORDS OPERATIONS THREADS SEED PHASE...
//
// Writes one line of JSON for each phase (docs/bring-your-own.md), and ends when its input does. The
// options are those of a common client (64 MiB of memtable and file, 128 MiB of cache, ten filter
// bits, blocks of 4 KiB, Snappy).
//
// Invariants: every row that is read is compared byte by byte with one that was written under its
// key; a scan leaves out no record of the load and ends early only at the end of the store; after a
// phase the store has the records of the load in order, and as many more as were inserted. What
// differs is counted as `wrong`. The comparison of rows is timed with the operation.

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Field = std::pair<std::string, std::string>;
using Row = std::vector<Field>;

constexpr int kFields = 10;
constexpr size_t kFieldBytes = 100;
// A field begins with the number of its record and its version, both under a mask that its key
// gives, so that no two fields have bytes in common and little of a row can be compressed.
constexpr size_t kHeadBytes = 2 * sizeof(uint64_t);
constexpr size_t kPoolBytes = 1 << 20;
// Scans of YCSB's workload E have 1 to this many records.
constexpr uint64_t kScanMax = 100;

// Whether all phases have been reported.
std::atomic<bool> is_measured{false};

double Now() {
  using std::chrono::steady_clock;
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count();
}

// FNV-1a over the eight bytes of a number, without its sign: YCSB's scramble.
uint64_t Scramble(uint64_t number) {
  uint64_t hash = 0xCBF29CE484222325;
  for (int byte = 0; byte < 8; byte++, number >>= 8) {
    hash = (hash ^ (number & 0xFF)) * 0x100000001B3;
  }
  return static_cast<int64_t>(hash) < 0 ? 0 - hash : hash;
}

// SplitMix64 (Steele et al., OOPSLA 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  uint64_t Below(uint64_t end) { return Next() % end; }
  double Unit() { return static_cast<double>(Next() >> 11) / 9007199254740992.0; }

 private:
  uint64_t state_;
};

constexpr double kTheta = 0.99;
// YCSB draws from this many ranks before it scrambles them, whatever the number of records, and
// names the sum for them.
constexpr double kScrambledItems = 1e10, kScrambledZeta = 26.46902820178302;

// Zipf's distribution with the constant 0.99 (Gray et al., SIGMOD 1994).
class Zipfian {
 public:
  Zipfian(double items, double zeta) : items_(items), zeta_(zeta) {
    const double two = 1.0 + std::pow(0.5, kTheta);
    eta_ = (1.0 - std::pow(2.0 / items_, 1.0 - kTheta)) / (1.0 - two / zeta_);
  }
  // Over this many items.
  static Zipfian Over(uint64_t items) {
    double zeta = 0;
    for (uint64_t n = 1; n <= items; n++) zeta += 1.0 / std::pow(static_cast<double>(n), kTheta);
    return Zipfian(static_cast<double>(items), zeta);
  }
  // Returns a rank, 0 for the most frequent one.
  uint64_t Next(Random& random) const {
    const double u = random.Unit(), uz = u * zeta_;
    if (uz < 1.0) return 0;
    if (uz < 1.0 + std::pow(0.5, kTheta)) return 1;
    return static_cast<uint64_t>(items_ * std::pow(eta_ * u - eta_ + 1.0, 1.0 / (1.0 - kTheta)));
  }

 private:
  double items_, zeta_, eta_;
};

std::string KeyOf(uint64_t record) { return "user" + std::to_string(Scramble(record)); }

// The values of fields: a head, and bytes of a pool that the head chooses.
class Values {
 public:
  explicit Values(uint64_t seed) : pool_(kPoolBytes + kFieldBytes, ' ') {
    Random random(seed);
    for (char& c : pool_) c = static_cast<char>(' ' + random.Below(95));
  }
  std::string Make(uint64_t record, int field, uint64_t version) const {
    std::string value(kFieldBytes, '\0');
    const uint64_t head[] = {record ^ Mask(Scramble(record), field), version ^ Mask(~Scramble(record), field)};
    std::memcpy(&value[0], head, sizeof head);
    std::memcpy(&value[kHeadBytes], Tail(record, field, version), kFieldBytes - kHeadBytes);
    return value;
  }
  // Returns whether a row is one that was written for `record`.
  bool AreOf(uint64_t record, const Row& row) const {
    if (row.size() != kFields) return false;
    const uint64_t number = Scramble(record);
    for (int field = 0; field < kFields; field++) {
      const std::string& value = row[field].second;
      if (value.size() != kFieldBytes || row[field].first != Name(field)) return false;
      uint64_t head[2];
      std::memcpy(head, value.data(), sizeof head);
      if (head[0] != (record ^ Mask(number, field))) return false;
      const char* tail = Tail(record, field, head[1] ^ Mask(~number, field));
      if (std::memcmp(value.data() + kHeadBytes, tail, kFieldBytes - kHeadBytes) != 0) return false;
    }
    return true;
  }
  // Returns whether a row is one that was written under `key`, whose number is hidden in the row,
  // and which record it is.
  bool AreUnder(const std::string& key, const Row& row, uint64_t* record) const {
    if (row.size() != kFields || row[0].second.size() != kFieldBytes || key.size() < 5) return false;
    uint64_t head;
    std::memcpy(&head, row[0].second.data(), sizeof head);
    const uint64_t number = std::strtoull(key.c_str() + 4, nullptr, 10);
    *record = head ^ Mask(number, 0);
    return Scramble(*record) == number && KeyOf(*record) == key && AreOf(*record, row);
  }
  static const std::string& Name(int field) {
    static const std::vector<std::string> names = [] {
      std::vector<std::string> made;
      for (int n = 0; n < kFields; n++) made.push_back("field" + std::to_string(n));
      return made;
    }();
    return names[field];
  }

 private:
  static uint64_t Mask(uint64_t number, int field) { return Random(number + field).Next(); }
  const char* Tail(uint64_t record, int field, uint64_t version) const {
    return &pool_[Scramble(record * kFields + field + (version << 40)) % kPoolBytes];
  }
  std::string pool_;
};

void Append(std::string* data, const std::string& part) {
  const uint32_t length = static_cast<uint32_t>(part.size());
  data->append(reinterpret_cast<const char*>(&length), sizeof length);
  data->append(part);
}

std::string Encode(const Row& row) {
  std::string data;
  for (const Field& field : row) {
    Append(&data, field.first);
    Append(&data, field.second);
  }
  return data;
}

// Takes a part from `at`; returns false where the bytes do not hold it.
bool Take(const char*& at, const char* end, std::string* part) {
  uint32_t length;
  if (static_cast<size_t>(end - at) < sizeof length) return false;
  std::memcpy(&length, at, sizeof length);
  at += sizeof length;
  if (static_cast<size_t>(end - at) < length) return false;
  part->assign(at, length);
  at += length;
  return true;
}

bool Decode(const std::string& data, Row* row) {
  const char *at = data.data(), *end = at + data.size();
  while (at != end) {
    Field field;
    if (!Take(at, end, &field.first) || !Take(at, end, &field.second)) return false;
    row->push_back(std::move(field));
  }
  return true;
}

void Require(const leveldb::Status& status, const char* what) {
  if (!status.ok()) throw std::runtime_error(std::string(what) + ": " + status.ToString());
}

// The records of the load in the order of their keys.
class Order {
 public:
  explicit Order(uint64_t records) : by_key_(records), places_(records) {
    std::vector<std::string> keys(records);
    for (uint64_t n = 0; n < records; n++) keys[n] = KeyOf(n), by_key_[n] = static_cast<uint32_t>(n);
    std::sort(by_key_.begin(), by_key_.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
    for (uint64_t at = 0; at < records; at++) places_[by_key_[at]] = static_cast<uint32_t>(at);
  }
  uint64_t size() const { return by_key_.size(); }
  bool Has(uint64_t record) const { return record < size(); }
  // The place of the first record of the load whose key is not below that of `record`.
  uint64_t PlaceOf(uint64_t record) const {
    if (Has(record)) return places_[record];
    const auto before = [](uint32_t loaded, const std::string& key) { return KeyOf(loaded) < key; };
    return std::lower_bound(by_key_.begin(), by_key_.end(), KeyOf(record), before) - by_key_.begin();
  }
  // The key of the record at `place`; empty behind the last one.
  std::string KeyAt(uint64_t place) const { return place < size() ? KeyOf(by_key_[place]) : std::string(); }
  // Whether the record of the load at `place` is `record`.
  bool IsAt(uint64_t place, uint64_t record) const { return place < size() && by_key_[place] == record; }

 private:
  std::vector<uint32_t> by_key_, places_;
};

// What the threads of a phase share.
struct World {
  leveldb::DB* db;
  const Values* values;
  const Order* order;
  // Of records by a scrambled rank, and of records by their age.
  const Zipfian* scrambled;
  const Zipfian* latest;
  // Records of the store: all below are there, but for those that are being inserted.
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> next_insert{0};
};

struct Counts {
  uint64_t found = 0, wrong = 0;
  std::vector<float> micros;
  std::vector<uint32_t> tenths;
};

class Client {
 public:
  Client(World* world, uint64_t seed) : world_(*world), random_(seed), version_(seed << 8) {}

  void Insert(uint64_t record) {
    Row row;
    for (int n = 0; n < kFields; n++) {
      row.emplace_back(Values::Name(n), world_.values->Make(record, n, 0));
    }
    Require(world_.db->Put(leveldb::WriteOptions(), KeyOf(record), Encode(row)), "Put");
  }
  // A record that is there: `is_latest` prefers those inserted last.
  uint64_t Choose(bool is_latest) {
    const uint64_t records = world_.records.load(std::memory_order_acquire);
    if (is_latest) return records - 1 - world_.latest->Next(random_) % records;
    return Scramble(world_.scrambled->Next(random_)) % records;
  }
  bool Read(uint64_t record, Row* row) {
    std::string data;
    const leveldb::Status status = world_.db->Get(leveldb::ReadOptions(), KeyOf(record), &data);
    if (status.IsNotFound()) return counts.wrong++, false;
    Require(status, "Get");
    counts.found++;
    if (!Decode(data, row) || !world_.values->AreOf(record, *row)) return counts.wrong++, false;
    return true;
  }
  // Reads the record, replaces one field and writes it again.
  void Update(uint64_t record) {
    Row row;
    if (!Read(record, &row)) return;
    const int field = static_cast<int>(random_.Below(kFields));
    row[field].second = world_.values->Make(record, field, ++version_ & 0xFFFFFF);
    Require(world_.db->Put(leveldb::WriteOptions(), KeyOf(record), Encode(row)), "Put");
  }
  void Scan(uint64_t record, uint64_t length) {
    std::vector<Row> rows;
    uint64_t place = world_.order->PlaceOf(record);
    std::string before;
    std::unique_ptr<leveldb::Iterator> it(world_.db->NewIterator(leveldb::ReadOptions()));
    const std::string first = KeyOf(record);
    it->Seek(first);
    if (!it->Valid() || it->key() != first) counts.wrong++;
    for (; it->Valid() && rows.size() < length; it->Next()) {
      const std::string key = it->key().ToString(), data = it->value().ToString();
      rows.emplace_back();
      uint64_t found = 0;
      if (!Decode(data, &rows.back()) || !world_.values->AreUnder(key, rows.back(), &found) || key <= before) {
        counts.wrong++;
      }
      // Between two records of the load there may be others, and nothing else.
      if (world_.order->Has(found) && !world_.order->IsAt(place++, found)) counts.wrong++;
      before = key;
    }
    Require(it->status(), "the iterator");
    if (rows.size() < length && place != world_.order->size()) counts.wrong++;
    counts.found += rows.size();
  }
  Random& random() { return random_; }
  World& world() { return world_; }

  Counts counts;

 private:
  World& world_;
  Random random_;
  uint64_t version_;
};

// A phase: its operations, and what one of them does.
struct Phase {
  uint64_t operations;
  bool is_load = false;
  // Shares of reads, updates, inserts and scans out of 100; the rest are read-modify-writes.
  int read = 0, update = 0, insert = 0, scan = 0;
  bool is_latest = false;
  // Records of each scan; 0: 1 to kScanMax.
  uint64_t scan_length = 0;
};

Phase PhaseOf(const std::string& name, uint64_t records, uint64_t operations) {
  Phase phase{operations};
  if (name == "ycsb load a") {
    phase.is_load = true;
    phase.operations = records;
  } else if (name == "ycsb a") {
    phase.read = phase.update = 50;
  } else if (name == "ycsb b") {
    phase.read = 95, phase.update = 5;
  } else if (name == "ycsb c") {
    phase.read = 100;
  } else if (name == "ycsb d") {
    phase.read = 95, phase.insert = 5, phase.is_latest = true;
  } else if (name == "ycsb e") {
    phase.scan = 95, phase.insert = 5;
    phase.operations = operations / 10;
  } else if (name == "ycsb f") {
    phase.read = 50;
  } else if (name.rfind("scan ", 0) == 0 && std::atoi(name.c_str() + 5) > 0) {
    phase.scan = 100;
    phase.scan_length = std::strtoull(name.c_str() + 5, nullptr, 10);
    phase.operations = operations / std::max<uint64_t>(1, phase.scan_length / 5);
  } else {
    throw std::runtime_error("unknown phase \"" + name + "\": expected ycsb load a, ycsb a to f, or scan N");
  }
  return phase;
}

void RunOne(const Phase& phase, Client* client) {
  World& world = client->world();
  if (phase.is_load) return client->Insert(world.next_insert.fetch_add(1));
  const int dice = static_cast<int>(client->random().Below(100));
  if (dice < phase.read) {
    Row row;
    client->Read(client->Choose(phase.is_latest), &row);
  } else if (dice < phase.read + phase.update) {
    client->Update(client->Choose(false));
  } else if (dice < phase.read + phase.update + phase.insert) {
    const uint64_t record = world.next_insert.fetch_add(1);
    client->Insert(record);
    // Records become visible in order. Another insert of a lower number ends soon. The wait counts.
    while (world.records.load(std::memory_order_acquire) != record) std::this_thread::yield();
    world.records.store(record + 1, std::memory_order_release);
  } else if (dice < phase.read + phase.update + phase.insert + phase.scan) {
    const uint64_t length = phase.scan_length ? phase.scan_length : 1 + client->random().Below(kScanMax);
    client->Scan(client->Choose(false), length);
  } else {
    const uint64_t record = client->Choose(false);
    Row row;
    client->Read(record, &row);
    client->Update(record);
  }
}

void RunAll(const Phase& phase, uint64_t operations, double began, Client* client) {
  Counts& counts = client->counts;
  counts.micros.reserve(operations);
  double last = Now();
  for (uint64_t n = 0; n < operations; n++) {
    RunOne(phase, client);
    const double now = Now();
    counts.micros.push_back(static_cast<float>((now - last) * 1e6));
    const size_t tenth = static_cast<size_t>((now - began) * 10);
    if (counts.tenths.size() <= tenth) counts.tenths.resize(tenth + 1);
    counts.tenths[tenth]++;
    last = now;
  }
}

void RunThread(const Phase& phase, uint64_t operations, double began, Client* client) {
  try {
    RunAll(phase, operations, began, client);
  } catch (const std::exception& error) {
    // Another thread may wait for the record that this one was to insert.
    std::fprintf(stderr, "ycsb: %s\n", error.what());
    _exit(1);
  }
}

// Walks over the store. Returns the number of records of the load that are not in their place, and
// by how many the others differ from those that were inserted.
uint64_t Difference(const World& world) {
  leveldb::ReadOptions options;
  options.fill_cache = false;
  std::unique_ptr<leveldb::Iterator> it(world.db->NewIterator(options));
  uint64_t place = 0, others = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    if (world.order->KeyAt(place) == it->key()) {
      place++;
    } else {
      others++;
    }
  }
  Require(it->status(), "the iterator");
  const uint64_t inserted = world.next_insert.load() - world.order->size();
  return world.order->size() - place + (others > inserted ? others - inserted : inserted - others);
}

uint64_t BytesBelow(const std::string& directory) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    std::error_code gone;
    const uint64_t size = entry.is_regular_file(gone) ? entry.file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

void PrintLatency(std::vector<float> micros) {
  std::sort(micros.begin(), micros.end());
  double sum = 0, squares = 0;
  for (const float value : micros) sum += value, squares += static_cast<double>(value) * value;
  const double count = static_cast<double>(micros.size()), mean = sum / count;
  const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
  // The least latency that this share of the operations does not exceed.
  const auto at = [&](double share) {
    return micros[static_cast<size_t>(std::max(1.0, std::ceil(share * count))) - 1];
  };
  std::printf("{\"count\":%zu,\"mean_micros\":%.3f,\"deviation_micros\":%.3f,\"min_micros\":%.3f,"
              "\"p50_micros\":%.3f,\"p90_micros\":%.3f,\"p99_micros\":%.3f,\"p999_micros\":%.3f,"
              "\"p9999_micros\":%.3f,\"max_micros\":%.3f}",
              micros.size(), mean, deviation, micros.front(), at(0.5), at(0.9), at(0.99), at(0.999),
              at(0.9999), micros.back());
}

void RunPhase(const std::string& name, const Phase& phase, int threads, uint64_t seed,
              const std::string& directory, World* world) {
  if (phase.operations < static_cast<uint64_t>(threads)) throw std::runtime_error("too few operations");
  if (phase.is_load != (world->records == 0)) throw std::runtime_error("the first phase, and no other, is a load");
  std::vector<std::unique_ptr<Client>> clients;
  for (int n = 0; n < threads; n++) {
    clients.push_back(std::make_unique<Client>(world, Scramble(seed * 64 + n) >> 16));
  }
  const double began = Now();
  std::vector<std::thread> running;
  for (int n = 0; n < threads; n++) {
    const uint64_t share = phase.operations / threads + (static_cast<uint64_t>(n) < phase.operations % threads);
    running.emplace_back(RunThread, std::cref(phase), share, began, clients[n].get());
  }
  for (std::thread& thread : running) thread.join();
  const double seconds = Now() - began;
  if (phase.is_load) world->records = world->next_insert.load();
  Counts all;
  for (const auto& client : clients) {
    const Counts& counts = client->counts;
    all.found += counts.found, all.wrong += counts.wrong;
    all.micros.insert(all.micros.end(), counts.micros.begin(), counts.micros.end());
    all.tenths.resize(std::max(all.tenths.size(), counts.tenths.size()));
    for (size_t n = 0; n < counts.tenths.size(); n++) all.tenths[n] += counts.tenths[n];
  }
  all.wrong += Difference(*world);
  std::printf("{\"phase\":\"%s\",\"operations\":%llu,\"seconds\":%.6f,\"found\":%llu,\"wrong\":%llu,"
              "\"disk_bytes\":%llu,\"latency\":",
              name.c_str(), static_cast<unsigned long long>(phase.operations), seconds,
              static_cast<unsigned long long>(all.found), static_cast<unsigned long long>(all.wrong),
              static_cast<unsigned long long>(BytesBelow(directory)));
  PrintLatency(std::move(all.micros));
  std::printf(",\"tenths\":[");
  for (size_t n = 0; n < all.tenths.size(); n++) std::printf(n ? ",%u" : "%u", all.tenths[n]);
  std::printf("]}\n");
  std::fflush(stdout);
}

void Run(int argc, char** argv) {
  const std::string directory = argv[1];
  const uint64_t records = std::strtoull(argv[2], nullptr, 10);
  const uint64_t operations = std::strtoull(argv[3], nullptr, 10);
  const int threads = std::atoi(argv[4]);
  const uint64_t seed = std::strtoull(argv[5], nullptr, 10);
  if (records == 0 || records > UINT32_MAX || operations == 0 || threads < 1 || threads > 64) {
    throw std::runtime_error("expected 1 to 4294967295 records, at least one operation, and 1 to 64 threads");
  }
  const std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(128 << 20));
  const std::unique_ptr<const leveldb::FilterPolicy> filter(leveldb::NewBloomFilterPolicy(10));
  leveldb::Options options;
  options.create_if_missing = options.error_if_exists = true;
  options.write_buffer_size = options.max_file_size = 64 << 20;
  options.max_open_files = 1000;
  options.block_cache = cache.get();
  options.filter_policy = filter.get();
  leveldb::DB* opened = nullptr;
  Require(leveldb::DB::Open(options, directory, &opened), "Open");
  const std::unique_ptr<leveldb::DB> db(opened);
  const Values values(seed);
  const Order order(records);
  const Zipfian scrambled(kScrambledItems, kScrambledZeta), latest = Zipfian::Over(records);
  World world;
  world.db = db.get(), world.values = &values, world.order = &order;
  world.scrambled = &scrambled, world.latest = &latest;
  for (int n = 6; n < argc; n++) {
    RunPhase(argv[n], PhaseOf(argv[n], records, operations), threads, seed + n, directory, &world);
  }
  is_measured = true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "usage: ycsb DIRECTORY RECORDS OPERATIONS THREADS SEED PHASE...\n");
    return 2;
  }
  // Nothing is to be left running when the caller has ended. After the last phase, the store is being
  // closed.
  std::thread([] {
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    if (!is_measured) _exit(3);
  }).detach();
  try {
    Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ycsb: %s\n", error.what());
    return 1;
  }
  return 0;
}
