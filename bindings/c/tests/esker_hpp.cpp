// Tests of esker.hpp: every function of the wrapper, on a store in the directory of the argument.

#include <atomic>
#include <cstdio>
#include <set>
#include <string>
#include <thread>

#include "esker.hpp"

using namespace std::string_literals;
using esker::Bounds;
using esker::Code;

static int checks = 0;

#define CHECK(condition)                                                              \
    do {                                                                              \
        ++checks;                                                                     \
        if (!(condition)) {                                                           \
            std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                             \
        }                                                                             \
    } while (0)

template <class Work>
static Code failure(Work work) {
    try {
        work();
    } catch (const esker::Error& error) {
        CHECK(std::string(error.what()).size() > 5);
        return error.code();
    }
    std::fprintf(stderr, "a call that must fail succeeded\n");
    std::exit(1);
}

static std::string text(esker::Pairs pairs) {
    std::string all;
    for (auto [key, value] : pairs) {
        all.append(key).append("=").append(value).append(" ");
    }
    return all;
}

static void reads_and_writes(esker::Db& db) {
    const std::string binary("\0k\xff", 3);
    db.put(binary, "");
    CHECK(db.get(binary) == ""s && !db.get("missing"));
    CHECK(db.contains(binary) && !db.contains("missing"));
    db.erase(binary);
    CHECK(!db.get(binary));
    // An empty view without an address is an empty key, not a missing bound.
    db.put(std::string_view(), "empty");
    CHECK(db.get("") == "empty"s);
    CHECK(text(db.scan(Bounds{std::nullopt, std::string_view()})).empty());
    db.erase("");

    esker::Batch batch;
    batch.put("a", "1").put("b", "2").put("c", "3").put("d", "4").erase_range("c", "d").erase("b");
    batch.append(esker::Batch().put("e", "5"));
    CHECK(batch.count() == 7 && batch.size_bytes() > 0);
    const esker::Snapshot before = db.snapshot();
    db.write(batch, esker::Durability::sync);
    CHECK(text(db.scan()) == "a=1 d=4 e=5 ");
    CHECK(text(db.scan_backward({"a", "e"})) == "d=4 a=1 ");
    esker::ReadOptions old;
    old.snapshot = &before;
    old.fill_cache = false;
    CHECK(text(db.scan({}, old)).empty() && !db.get("a", old));
    batch.clear();
    CHECK(batch.count() == 0);

    const auto many = db.multi_get({"e", "x", "a"});
    CHECK(many.size() == 3 && many[0] == "5"s && !many[1] && many[2] == "1"s);
    CHECK(db.multi_get({}).empty());
    std::string seen;
    CHECK(db.read("d", [&](std::string_view value) { seen = value; }) && seen == "4");
    CHECK(!db.read("x", [](std::string_view) {}));
    try {
        db.read("d", [](std::string_view) { throw std::out_of_range("mine"); });
        CHECK(false);
    } catch (const std::out_of_range& error) {
        CHECK(error.what() == "mine"s);
    }

    esker::Iterator iterator = db.iterator();
    CHECK(!iterator.valid() && iterator.key().empty());
    iterator.seek("b");
    CHECK(iterator.valid() && iterator.key() == "d" && iterator.value() == "4");
    iterator.seek_for_prev("b");
    CHECK(iterator.key() == "a");
    iterator.next();
    iterator.prev();
    CHECK(iterator.key() == "a");
    iterator.seek_to_last();
    CHECK(iterator.key() == "e");
    esker::Iterator moved = std::move(iterator);
    moved.seek_to_first();
    CHECK(moved.key() == "a");
    db.erase_range("a", "z");
    CHECK(text(db.scan()).empty());
}

static void keyspaces(esker::Db& db) {
    esker::KeyspaceOptions options;
    options.set_key_order("test.by_length").set_merge_operator("test.join").set_ttl_ms(1 << 30);
    {
        esker::Keyspace words = db.keyspace("words", options);
        CHECK(words.name() == "words" && words.id() > 0);
        words.put("ccc", "3");
        words.put("z", "1");
        words.put("bb", "2");
        CHECK(text(words.scan()) == "z=1 bb=2 ccc=3 ");
        CHECK(text(words.scan_backward({"bb", std::nullopt})) == "ccc=3 bb=2 ");
        words.merge("new", "x");
        words.merge("new", "y");
        CHECK(words.get("new") == "x+y"s);
        words.merge("new", "refused");
        CHECK(failure([&] { words.get("new"); }) == Code::invalid_argument);
        words.put_with_ttl("gone", "", 0);
        CHECK(!words.contains("gone"));
        words.erase("new");
        words.erase_range("z", "bb");
        db.write(esker::Batch()
                     .put(words, "k", "in")
                     .put_with_ttl(words, "t", "in", 0)
                     .merge(words, "m", "one")
                     .erase(words, "ccc")
                     .erase_range(words, "x", "x"));
        CHECK(text(words.scan()) == "k=in m=one bb=2 ");
        words.clear();
        CHECK(text(words.scan()).empty());
    }
    CHECK(db.keyspaces() == (std::vector<std::string>{"default", "words"}));
    db.rename_keyspace("words", "terms");
    CHECK(db.find_keyspace("terms") && !db.find_keyspace("words"));
    db.drop_keyspace("terms");
    CHECK(db.keyspaces().size() == 1);
    CHECK(failure([&] { db.drop_keyspace("terms"); }) == Code::not_found);
}

static void transactions(esker::Db& db) {
    esker::Keyspace other = db.keyspace("other");
    db.put("n", "0");
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 2; ++thread) {
        threads.emplace_back([&] {
            for (int turn = 0; turn < 50; ++turn) {
                const int now = db.transact([&](esker::Transaction& own) {
                    const int value = std::stoi(*own.get_for_update("n")) + 1;
                    own.put("n", std::to_string(value));
                    own.put(other, "n", std::to_string(value));
                    return value;
                });
                CHECK(now > 0);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(db.get("n") == "100"s && other.get("n") == "100"s);

    esker::Transaction first = db.transaction();
    esker::Transaction second = db.transaction(esker::TransactionOptions().set_serializable());
    CHECK(first.id() != second.id());
    first.put("n", "1");
    first.set_savepoint();
    first.erase("n");
    first.erase_range("a", "z");
    first.erase(other, "n");
    first.erase_range(other, "a", "z");
    CHECK(text(first.scan()).empty() && text(first.scan(other)).empty());
    first.rollback_to_savepoint();
    first.set_savepoint();
    first.pop_savepoint();
    CHECK(first.get("n") == "1"s && first.get(other, "n") == "100"s);
    CHECK(first.get_for_update(other, "n") == "100"s);
    second.put("n", "2");
    second.commit();
    CHECK(failure([&] { first.commit(); }) == Code::conflict);
    try {
        db.transact([](esker::Transaction& own) {
            own.put("n", "lost");
            throw std::logic_error("mine");
        });
        CHECK(false);
    } catch (const std::logic_error&) {
        CHECK(db.get("n") == "2"s);
    }
    esker::TransactionOptions locking;
    locking.set_pessimistic().set_lock_timeout_ms(1).set_durability(esker::Durability::sync);
    esker::Transaction holder = db.transaction(locking);
    holder.put("n", "3");
    esker::Transaction waiter = db.transaction(locking);
    CHECK(failure([&] { waiter.put("n", "4"); }) == Code::busy);
    waiter.rollback();
    holder.prepare("held");
    CHECK(db.prepared_transactions() == std::vector<std::string>{"held"});
    db.commit_prepared("held");
    CHECK(db.get("n") == "3"s);
    esker::Transaction undone = db.transaction();
    undone.put("n", "5");
    undone.prepare("undone");
    db.rollback_prepared("undone");
    CHECK(db.get("n") == "3"s);
}

static void files(esker::Db& db, const std::string& path) {
    db.put("kept", "1");
    db.put("filtered", "1");
    db.put("changed", "1");
    db.flush();
    db.compact_range();
    CHECK(db.get("kept") == "1"s && !db.get("filtered") && db.get("changed") == "2"s);
    db.sync();
    db.wait_idle();
    db.verify();
    db.upgrade_format(2);
    db.checkpoint(path + "-checkpoint");
    CHECK(db.backup(path + "-backups") == 1);
    db.set_option("cache_size_bytes", "1MiB");
    CHECK(db.property("esker.option.cache_size_bytes") && !db.property("esker.none"));
    CHECK(db.openmetrics().find("# EOF") != std::string::npos);
}

// A runtime, a listener, a clock, and what a store tells.
void observed(const esker::Memory& memory) {
    esker::Runtime runtime(esker::RuntimeOptions()
                               .set("memory_budget_bytes", "64MiB")
                               .set("threads_max", "3"));
    CHECK(failure([] { esker::RuntimeOptions().set("threads", "3"); }) == Code::invalid_argument);
    CHECK(failure([] {
              esker::Runtime(esker::RuntimeOptions().set("memory_budget_bytes", "1"));
          }) == Code::invalid_argument);
    uint64_t now_ms = 1000;
    std::vector<int32_t> kinds;
    std::string renamed;
    {
        esker::Options options;
        options.set_memory(memory)
            .set_runtime(runtime)
            .set_merge_operator("add_i64")
            .set_clock([&] { return now_ms; })
            .add_listener([&](const esker::Event& event) {
                kinds.push_back(event.kind);
                if (event.kind == ESKER_EVENT_KEYSPACE_RENAMED) renamed = event.new_name;
                if (event.kind == ESKER_EVENT_OPENED) throw std::runtime_error("ignored");
            });
        esker::Db db = esker::Db::open("observed", options);
        CHECK(runtime.metric("stores") == 1 && runtime.metric("budget_bytes") == 64 << 20);
        CHECK(failure([&] { runtime.metric("none"); }) == Code::invalid_argument);
        esker::Keyspace users = db.keyspace("users");
        db.rename_keyspace("users", "people");
        db.transact([&](esker::Transaction& transaction) {
            transaction.put_with_ttl("t", "1", 50);
            transaction.put_with_ttl(users, "t", "1", 50);
            transaction.merge("n", "2");
            transaction.merge("n", "3");
        });
        CHECK(failure([&] {
                  db.transact([&](esker::Transaction& t) { t.merge(users, "n", "1"); });
              }) == Code::invalid_argument);
        CHECK(db.get("t") == "1"s && users.get("t") == "1"s && db.get("n") == "5"s);
        esker::Snapshot before = db.snapshot();
        CHECK(db.touch("t", 10000) && !db.touch("none", 1));
        now_ms = 1050;
        CHECK(db.get("t") == "1"s && !users.get("t"));
        CHECK(db.remove("t") && !db.remove("t"));
        esker::ReadOptions then;
        then.snapshot = &before;
        db.write_within(esker::Batch().put("n", "7"), std::chrono::milliseconds(0));
        const auto values = db.multi_get({"n", "none"}, then);
        CHECK(values.size() == 2 && values[0] == "5"s && !values[1]);
        CHECK(db.multi_get({"n"})[0] == "7"s);
        CHECK(!db.stall() && db.recovery_notes().empty() && db.store_id() != 0);
        CHECK(failure([&] { db.run_one_job(); }) == Code::invalid_argument);
        db.flush();
    }
    CHECK(renamed == "people" && kinds.front() == ESKER_EVENT_OPENED);
    CHECK(kinds.back() == ESKER_EVENT_CLOSED && runtime.metric("stores") == 0);
}

static std::string keys(esker::Changes& changes) {
    std::string all;
    for (const esker::ChangeBatch& batch : changes) {
        for (esker::Change change : batch) all.append(change.key()).append(" ");
    }
    return all;
}

static void feeds(const esker::Options& options) {
    esker::Db db = esker::Db::open("fed", options);
    esker::Slot slot = db.subscribe("index", ESKER_LAG_UNLIMITED);
    auto [snapshot, position] = db.snapshot_with_position();
    CHECK(slot.position() == position);
    db.put_with_ttl("a", "1", 3600000);
    db.put("b", "");
    CHECK(!db.get("a", esker::ReadOptions{&snapshot}));
    esker::Changes changes = slot.changes();
    const auto batch = changes.next(std::chrono::milliseconds(60000));
    CHECK(batch && batch->size() == 1 && batch->previous() == position && batch->checksum() != 0);
    CHECK(batch->first_sequence() == batch->sequence() && batch->previous_checksum() == 0);
    CHECK(batch->part() == 0 && !batch->continues());
    const esker::Change change = (*batch)[0];
    CHECK(change.kind() == esker::ChangeKind::put && change.keyspace() == "default");
    CHECK(change.key() == "a" && change.value() == "1" && change.expires_ms());
    CHECK(change.new_name().empty() && change.options().empty() && change.key_order().empty());
    CHECK(keys(changes) == "b " && keys(changes).empty() && !changes.next());
    slot.confirm(changes.position());
    db.put("c", "");
    esker::Changes later = db.slot("index").changes();
    CHECK(keys(later) == "c ");
    esker::Changes all = db.changes();
    CHECK(keys(all) == "a b c ");
    const auto slots = db.slots();
    CHECK(slots.size() == 1 && slots[0].name == "index" && !slots[0].lag_limit_bytes);
    CHECK(!slots[0].problem && slots[0].position > position);
    db.drop_slot("index");
    CHECK(failure([&] { slot.position(); }) == Code::not_found);
    CHECK(failure([&] { db.slot("index"); }) == Code::not_found);
    db.close();
    CHECK(failure([&] { changes.next(); }) == Code::closed);
}

static void forks(const esker::Options& options) {
    esker::Db db = esker::Db::open("parent", options);
    db.put("a", "1");
    db.put("b", "1");
    CHECK(db.fork("child", "try 1").store_id != 0);
    CHECK(failure([&] { db.fork("child"); }) == Code::invalid_argument);
    esker::Db fork = esker::Db::open("child", options);
    const esker::Lineage lineage = fork.lineage();
    CHECK(lineage.name == "try 1"s && lineage.ancestors.size() == 1);
    CHECK(lineage.ancestors[0].store_id == db.store_id() && !lineage.ancestors[0].name);
    esker::Snapshot before = fork.snapshot();
    fork.put("a", "2");
    fork.erase("b");
    fork.keyspace("extra").put("k", "");
    std::string found;
    esker::Diff diff = esker::diff(db, fork);
    for (const esker::Difference& each : diff) {
        found.append(each.keyspace()).append("/").append(each.key()).append(" ");
        found.append(each.old_value().value_or("none")).append(" ");
        found.append(each.new_value().value_or("none")).append(" ");
        CHECK(each.old_expires_ms() == ESKER_NEVER_MS && each.new_expires_ms() == ESKER_NEVER_MS);
    }
    CHECK(found == "default/a 1 2 default/b 1 none extra/k none  ");
    CHECK(diff.relation() == esker::Relation::descendant && diff.shared_files() > 0);
    CHECK(diff.keyspaces_only_in_new() == "extra" && diff.keyspaces_only_in_old().empty());
    CHECK(!esker::diff(fork, fork, "default", &before, &before).next());
    CHECK(failure([&] { esker::diff(db, fork, "none"); }) == Code::not_found);
}

static void loads(const esker::Options& options) {
    esker::Db db = esker::Db::open("loaded", options);
    db.put("b", "old");
    {
        esker::SortedWriter writer("one.sst", options);
        writer.put("b", "new");
        CHECK(failure([&] { writer.put("a", ""); }) == Code::invalid_argument);
        writer.put_with_ttl("c", "1", 3600000);
        writer.merge("n", "1");
        writer.erase("z");
        CHECK(writer.entries() == 4 && writer.finish().entries == 4);
        CHECK(failure([&] { writer.finish(); }) == Code::invalid_argument);
    }
    CHECK(db.ingest({"one.sst"}, esker::IngestOptions{true, false}).entries == 4);
    CHECK(db.get("b") == "new"s && db.get("n") == "1"s);
    CHECK(failure([&] { db.ingest({"one.sst", "one.sst"}); }) == Code::invalid_argument);
    int number = 0;
    auto numbers = [&]() -> std::optional<std::pair<std::string, std::string>> {
        if (number == 100) return std::nullopt;
        if (number == 50 && !db.contains("go on")) throw std::runtime_error("planted");
        const std::string digits = std::to_string(1000 + number++);
        return std::make_pair("k" + digits, digits);
    };
    try {
        db.bulk_load(numbers);
        CHECK(false);
    } catch (const esker::Error&) {
        CHECK(false);
    } catch (const std::runtime_error& error) {
        CHECK(error.what() == "planted"s && !db.get("k1000"));
    }
    db.put("go on", "");
    number = 0;
    CHECK(db.bulk_load(numbers).entries == 100 && db.get("k1099") == "1099"s);
    number = 0;
    esker::Keyspace other = db.keyspace("other");
    CHECK(other.bulk_load(numbers).entries == 100 && other.get("k1000") == "1000"s);
    CHECK(failure([&] { other.ingest({"none.sst"}); }) != Code::internal);
}

// Encrypted stores: keys, refusals, another key. The name of a key is its fingerprint or its own.
static void encryption(const std::string& path) {
    esker::Options right, wrong, named;
    right.set_key(std::string(32, '\x5a'));
    wrong.set_key("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b\n");
    esker::Db::open(path, right).put("k", "v");
    CHECK(esker::Db::open(path, right).get("k") == "v"s);
    CHECK(failure([&] { esker::Db::open(path, wrong); }) == Code::invalid_argument);
    CHECK(failure([&] { esker::Db::open(path); }) == Code::invalid_argument);
    CHECK(failure([&] { wrong.set_key("short"); }) == Code::invalid_argument);
    CHECK(failure([&] {
              esker::Db::open(path, esker::Options().set_key_file(path + "-no-file"));
          }) == Code::invalid_argument);
    std::string asked;
    int behaviour = 0;
    named.set_key_source([&](std::optional<std::string_view> name) {
        asked = name.value_or("none");
        if (behaviour == 1) throw std::runtime_error("the service is down");
        if (behaviour == 2) throw 2;
        return esker::MasterKey{std::string(behaviour == 3 ? 31 : 32, 'x'), "key 1"};
    });
    const esker::RekeyReport made = esker::rekey(path, right, named);
    CHECK(asked == "none" && made.from.size() == 16 && made.to == "key 1");
    CHECK(made.data_keys >= 1);
    CHECK(failure([&] { esker::Db::open(path, right); }) == Code::invalid_argument);
    CHECK(esker::Db::open(path, named).get("k") == "v"s && asked == "key 1");
    const char* reasons[] = {"the service is down", "no exception", "32 bytes"};
    for (const char* reason : reasons) {
        ++behaviour;
        try {
            esker::Db::open(path, named);
            CHECK(!"the source of keys must fail");
        } catch (const esker::Error& error) {
            CHECK(std::string(error.what()).find(reason) != std::string::npos);
        }
    }
}

// A follower of a store of this process: views, catch-ups, promotion.
static void followers(const std::string& path) {
    CHECK(failure([&] { esker::Db::follow(path); }) == Code::not_found);
    auto writer = std::make_unique<esker::Db>(esker::Db::open(path));
    writer->put("k", "1");
    esker::Follower follower = esker::Db::follow(path);
    esker::Db view = follower.db();
    writer->put("k", "2");
    const esker::FollowerLag lag = follower.lag();
    CHECK(lag.operations == 1 && lag.newest == lag.position + 1 && !lag.error);
    CHECK(lag.position == follower.position() && lag.age.count() >= 0);
    CHECK(follower.catch_up() == lag.newest && follower.position() == lag.newest);
    CHECK(follower.db().get("k") == "2"s && view.get("k") == "1"s);
    CHECK(failure([&] { view.put("k", "3"); }) == Code::read_only);
    CHECK(!follower.wait_for(lag.newest + 1, std::chrono::milliseconds(1)));
    writer->put("k", "3");
    CHECK(follower.wait_for(lag.newest + 1, std::chrono::minutes(10)));
    follower.catch_up_every(std::chrono::milliseconds(1));
    CHECK(failure([&] { follower.promote(); }) == Code::locked);
    writer.reset();
    esker::Db promoted = follower.promote();
    promoted.put("k", "4");
    while (follower.position() < lag.newest + 2) std::this_thread::yield();
    CHECK(follower.db().get("k") == "4"s);
    { esker::Follower ended = std::move(follower); }
    CHECK(view.get("k") == "1"s && promoted.get("k") == "4"s);
    view.close();
    CHECK(failure([&] { view.get("k"); }) == Code::closed);
}

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const std::string path = argv[1];
    std::atomic<int> compared{0};
    esker::Options options;
    options.set("memtable_size_bytes", "1MiB")
        .add_comparator("test.by_length",
                        [&](std::string_view a, std::string_view b) noexcept {
                            ++compared;
                            if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
                            return a.compare(b);
                        })
        .add_merge_operator(
            "test.join",
            [](std::string_view, std::optional<std::string_view> existing,
               const std::vector<std::string_view>& operands) {
                std::string all(existing.value_or(""));
                for (std::string_view operand : operands) {
                    if (operand == "refused") throw std::runtime_error("the operand is refused");
                    if (!all.empty()) all += '+';
                    all.append(operand);
                }
                return all;
            },
            [](std::string_view, const std::vector<std::string_view>&) {
                return std::optional<std::string>();
            })
        .add_compaction_filter("test.filter",
                               [](std::string_view key, std::string_view value) {
                                   if (key == "filtered") return std::optional<std::string>();
                                   if (key == "changed") return std::optional<std::string>("2");
                                   if (key == "thrown") throw std::runtime_error("kept");
                                   return std::optional<std::string>(value);
                               })
        .set_compaction_filter("test.filter");
    CHECK(options.get("memtable_size_bytes") && !options.get("none"));
    CHECK(failure([&] { options.set("none", "1"); }) == Code::invalid_argument);
    {
        esker::Db db = esker::Db::open(path, options);
        reads_and_writes(db);
        keyspaces(db);
        transactions(db);
        files(db, path);
        CHECK(failure([&] { esker::Db::open(path, options); }) == Code::locked);
        db.put_with_ttl("session", "1", 1 << 30);
        CHECK(db.get("session") == "1"s);
        CHECK(failure([&] { db.merge("n", "1"); }) == Code::invalid_argument);
        esker::Db moved = std::move(db);
        moved.close();
        CHECK(failure([&] { moved.put("late", "1"); }) == Code::closed);
    }
    CHECK(compared > 0);
    CHECK(esker::Db::open_read_only(path, options).get("kept") == "1"s);
    CHECK(esker::repair(path, options).empty());
    CHECK(esker::restore(path + "-backups", path + "-restored", 0, options) == 1);
    CHECK(esker::Db::open(path + "-restored", options).get("kept") == "1"s);
    CHECK(esker::Db::open(path + "-checkpoint", options).get("changed") == "2"s);
    esker::destroy(path, options);

    esker::Memory memory;
    esker::Options in_memory;
    in_memory.set_memory(memory).set_merge_operator("add_i64");
    esker::Db db = esker::Db::open("anywhere", in_memory);
    db.merge("n", "40");
    db.write(esker::Batch().merge("n", "2").put_with_ttl("t", "", 0));
    CHECK(db.get("n") == "42"s && !db.get("t"));
    esker::Keyspace reversed = db.keyspace("reversed", esker::KeyspaceOptions()
                                                           .set_key_order("esker.reverse")
                                                           .set("compression", "none"));
    reversed.put("a", "");
    reversed.put("b", "");
    CHECK(text(reversed.scan()) == "b= a= ");
    CHECK(failure([&] { db.keyspace("bad", esker::KeyspaceOptions().set_compaction_filter("x")); }) ==
          Code::invalid_argument);
    encryption(path + "-encrypted");
    followers(path + "-followed");
    observed(memory);
    feeds(in_memory);
    forks(in_memory);
    loads(in_memory);
    CHECK(!esker::version().empty());
    std::printf("esker.hpp: %d checks\n", checks);
    return 0;
}
