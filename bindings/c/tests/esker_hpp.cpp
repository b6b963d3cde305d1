// Tests of esker.hpp: every function of the wrapper, on a store in the directory of the argument.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <type_traits>

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

// Returns whether `work` throws `thrown`, unchanged.
template <class Thrown, class Work>
static bool throws(Work work, const Thrown& thrown) {
    try {
        work();
    } catch (const Thrown& error) {
        return error == thrown;
    }
    return false;
}

static std::string text(esker::Pairs pairs) {
    std::string all;
    for (auto [key, value] : pairs) {
        all.append(key).append("=").append(value).append(" ");
    }
    return all;
}

// The types of positions are those of input iterators of the standard library.
template <class Position, class Value, class Reference>
static constexpr bool is_input_iterator() {
    using Traits = std::iterator_traits<Position>;
#if __cplusplus >= 202002L
    static_assert(std::input_iterator<Position>);
#endif
    return std::is_same_v<typename Traits::iterator_category, std::input_iterator_tag> &&
           std::is_same_v<typename Traits::value_type, Value> &&
           std::is_same_v<typename Traits::reference, Reference> &&
           std::is_same_v<typename Traits::pointer, const Value*> &&
           std::is_same_v<typename Traits::difference_type, std::ptrdiff_t>;
}
static_assert(is_input_iterator<esker::Pairs::Position, esker::Pairs::Pair, esker::Pairs::Pair>());
static_assert(is_input_iterator<esker::Chunk::Position, esker::Chunk::Pair, esker::Chunk::Pair>());
static_assert(is_input_iterator<esker::ChangeBatch::Position, esker::Change, esker::Change>());
static_assert(is_input_iterator<esker::Changes::Position, esker::ChangeBatch,
                                const esker::ChangeBatch&>());
static_assert(is_input_iterator<esker::Diff::Position, esker::Difference,
                                const esker::Difference&>());
static_assert(is_input_iterator<esker::Applier::Position, esker::StreamItem,
                                const esker::StreamItem&>());

// A handle is const where its object is. It is const of any object if no function changes it.
template <class Object, class Handle, class OfConst = const Handle*>
static constexpr bool gives() {
    return std::is_same_v<decltype(std::declval<Object&>().handle()), Handle*> &&
           std::is_same_v<decltype(std::declval<const Object&>().handle()), OfConst>;
}
static_assert(gives<esker::Iterator, esker_iter_t>());
static_assert(gives<esker::Changes, esker_changes_t>());
static_assert(gives<esker::Diff, esker_diff_t>());
static_assert(gives<esker::ChangeWriter, esker_change_writer_t>());
static_assert(gives<esker::Applier, esker_applier_t>());
static_assert(gives<esker::SortedWriter, esker_sorted_writer_t>());
static_assert(gives<esker::Batch, esker_batch_t>());
static_assert(gives<esker::Options, esker_options_t>());
static_assert(gives<esker::KeyspaceOptions, esker_keyspace_options_t>());
static_assert(gives<esker::TransactionOptions, esker_transaction_options_t>());
static_assert(gives<esker::RuntimeOptions, esker_runtime_options_t>());
static_assert(gives<esker::Slot, const esker_slot_t>());
static_assert(gives<esker::Transaction, const esker_transaction_t>());
static_assert(!std::is_copy_constructible_v<esker::Perf>);
static_assert(!std::is_move_constructible_v<esker::Perf>);

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
        CHECK(words.name() == "words" && words.id() > 0 && words.tree() > 0);
        CHECK(words.key_order() == "test.by_length");
        CHECK(words.own_options() == "merge_operator=test.join\nttl_ms=1073741824");
        CHECK(db.find_keyspace("default")->own_options().empty());
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

// Streamed values, tables, metrics and options.
static void parts(const esker::Memory& memory) {
    esker::Options options;
    options.set_memory(memory);
    esker::Db db = esker::Db::open("parts", options);
    esker::Keyspace own = db.keyspace("own");
    const std::string film(3 << 20, 'f');
    size_t given = 0;
    auto some = [&](char* buffer, size_t length) {
        const size_t count = std::min({length, film.size() - given, size_t{1000}});
        std::memcpy(buffer, film.data() + given, count);
        given += count;
        return count;
    };
    CHECK(db.put_reader("film", some) == film.size());
    given = film.size() - 5;
    CHECK(own.put_reader("end", some) == 5 && own.get("end") == "fffff"s);
    std::optional<esker::ValueReader> reader = db.get_reader("film");
    std::string buffer(10, '-');
    CHECK(reader && reader->size() == film.size());
    CHECK(reader->read(film.size() - 3, buffer.data(), buffer.size()) == 3 && buffer == "fff-------");
    CHECK(own.get_reader("end")->size() == 5 && !own.get_reader("none") && !db.get_reader("none"));
    auto fails = [](char*, size_t) -> size_t { throw std::string("no value"); };
    CHECK(throws([&] { db.put_reader("late", fails); }, "no value"s) && !db.contains("late"));
    CHECK(failure([&] { db.put_reader("late", [](char*, size_t) { return SIZE_MAX; }); }) ==
          Code::io);

    db.put_with_ttl("t", "", 1 << 30);
    esker::Iterator at = db.iterator();
    at.seek("t");
    CHECK(at.key() == "t" && at.expires_ms());
    at.prev();
    CHECK(at.key() == "film" && !at.expires_ms());
    const esker::Snapshot snapshot = db.snapshot();
    CHECK(snapshot.position() > 0);

    db.flush();
    const std::vector<esker::Table> tables = db.tables();
    CHECK(tables.size() >= 2 && tables[0].tree == 0 && tables[0].entries > 0);
    CHECK(tables[0].smallest >= "film" && db.level_metric(tables[0].level, "levels.bytes") > 0);
    CHECK(db.metric("user_ops") > 0 && db.path() == "parts");
    CHECK(failure([&] { db.metric("none"); }) == Code::invalid_argument);
    CHECK(failure([&] { db.level_metric(99, "levels.bytes"); }) == Code::invalid_argument);
    db.compact_all();
    db.set_options({{"policy", "leveled"}, {"fan_out", "7"}});
    CHECK(failure([&] { db.set_options({{"fan_out", "9"}, {"none", "1"}}); }) ==
          Code::invalid_argument);
    CHECK(db.property("esker.option.fan_out") == "7"s);
    const std::vector<esker::OptionInfo> infos = esker::option_infos();
    const auto fan_out = std::find_if(infos.begin(), infos.end(),
                                      [](const auto& info) { return info.name == "fan_out"; });
    CHECK(fan_out != infos.end() && fan_out->is_changeable && fan_out->is_of_keyspaces);
    CHECK(fan_out->default_value == *options.get("fan_out") && !fan_out->description.empty());
    db.close();
    // A reader keeps its value.
    CHECK(reader->read(0, buffer.data(), 1) == 1 && buffer[0] == 'f');
    CHECK(failure([&] { db.get_reader("film"); }) == Code::closed);
}

// Key orders of stores, by their names.
static void orders(const esker::Memory& memory) {
    auto by_end = [](std::string_view a, std::string_view b) noexcept {
        return std::string(a.rbegin(), a.rend()).compare(std::string(b.rbegin(), b.rend()));
    };
    const auto with = [&](const char* order) {
        esker::Options options;
        options.set_memory(memory).add_comparator("test.by_end", by_end, true);
        options.set_key_order(order);
        return options;
    };
    const std::pair<const char*, const char*> expected[] = {
        {"esker.bytewise", "ab= b= ca= "}, {"esker.reverse", "ca= b= ab= "},
        {"test.by_end", "ca= b= ab= "}};
    for (const auto& [order, pairs] : expected) {
        esker::Db db = esker::Db::open(order, with(order));
        for (const char* key : {"ab", "ca", "b"}) db.put(key, "");
        db.flush();
        CHECK(text(db.scan()) == pairs && db.find_keyspace("default")->key_order() == order);
        // Equal keys are identical, so that tables have filters.
        esker::Perf perf;
        CHECK(!db.get("b0b") && perf.take().at("filter_negatives") == 1);
    }
    CHECK(failure([&] { with("test.unknown"); }) == Code::invalid_argument);
    CHECK(failure([&] { esker::Db::open("test.by_end", with("esker.reverse")); }) ==
          Code::incompatible);
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
    const uint64_t number = db.backup(path + "-backups");
    CHECK(number == 1);
    db.set_option("cache_size_bytes", "1MiB");
    CHECK(db.property("esker.option.cache_size_bytes") && !db.property("esker.none"));
    CHECK(db.openmetrics().find("# EOF") != std::string::npos);
}

// What a keyspace reads and deletes, also after it was dropped, and the times of pairs.
static void in_keyspaces(const esker::Memory& memory) {
    std::atomic<uint64_t> now_ms{1000};
    esker::Options options;
    options.set_memory(memory).set("compression", "none").set_clock([&] { return now_ms.load(); });
    esker::Db db = esker::Db::open("in keyspaces", options);
    esker::Keyspace own = db.keyspace("own");
    own.put("a", "1");
    own.put("b", "");
    own.put_with_ttl("c", "3", 50);
    db.put("a", "default");
    db.put_with_ttl("c", "default", 70);

    CHECK(own.remove("b") && !own.remove("b") && !own.contains("b"));
    CHECK(own.touch("a", 100) && !own.touch("none", 100) && !db.touch("none", 100));
    const auto touched = own.get_with_expiry("a");
    CHECK(touched && touched->value == "1" && touched->expires_ms == 1100u);
    CHECK(own.get_with_expiry("c")->expires_ms == 1050u && !own.get_with_expiry("none"));
    CHECK(db.get_with_expiry("c")->expires_ms == 1070u);
    const auto kept = db.get_with_expiry("a");
    CHECK(kept && kept->value == "default" && !kept->expires_ms && !db.get_with_expiry("none"));
    CHECK(own.touch("a", ESKER_NEVER_MS) && !own.get_with_expiry("a")->expires_ms);

    const auto many = own.multi_get({"c", "none", "a"});
    CHECK(many.size() == 3 && many[0] == "3"s && !many[1] && many[2] == "1"s);
    CHECK(own.multi_get({}).empty());
    now_ms = 1050;
    CHECK(!own.multi_get({"c"})[0] && !own.get_with_expiry("c") && db.get_with_expiry("c"));

    esker::Snapshot before = db.snapshot();
    own.put("a", "2");
    std::string seen;
    auto see = [&](std::string_view value) { seen = value; };
    CHECK(own.read("a", see) && seen == "2");
    CHECK(own.read("a", see, esker::ReadOptions{&before, false}) && seen == "1");
    CHECK(!own.read("none", see) && seen == "1");
    own.erase("a");
    db.erase("a");
    for (bool fill_cache : {false, true}) {
        const esker::ReadOptions then{&before, fill_cache};
        CHECK(own.contains("a", then) && db.contains("a", then) && !db.contains("none", then));
        CHECK(!own.contains("a") && !db.contains("a"));
        CHECK(own.get("a", then) == "1"s && db.get("a", then) == "default"s);
        CHECK(own.multi_get({"none", "a"}, then)[1] == "1"s && !own.multi_get({"none", "a"})[1]);
        CHECK(db.multi_get({"none", "a"}, then)[1] == "default"s && !db.multi_get({"a"})[0]);
        CHECK(own.get_with_expiry("a", then)->value == "1" && !own.get_with_expiry("a"));
        CHECK(db.get_with_expiry("a", then)->value == "default" && !db.get_with_expiry("a"));
    }
    own.put("a", "2");
    db.put("a", "default");
    CHECK(throws([&] { own.read("a", [](std::string_view) { throw 7; }); }, 7));
    CHECK(throws([&] { db.read("a", [](std::string_view) { throw "x"s; }); }, "x"s));

    // The size of a keyspace is that of its tables. A compaction drops what was deleted.
    for (int i = 0; i < 2000; ++i) {
        const std::string key = std::to_string(10000 + i);
        own.put(key, std::string(100, 'v'));
        db.put(key, std::string(100, 'v'));
    }
    CHECK(own.size_bytes() == 0 && db.approximate_size("", "~") == 0);
    db.flush();
    CHECK(own.size_bytes() > 200000);
    const uint64_t all = db.approximate_size("", "~");
    const uint64_t half = db.approximate_size("10000", "11000");
    CHECK(all > 200000 && half > all / 4 && half < all / 4 * 3);
    CHECK(db.approximate_size("~", "") == 0 && db.approximate_size("x", "y") == 0);
    const uint64_t own_half = own.approximate_size("10000", "11000");
    CHECK(own_half > own.size_bytes() / 4 && own_half < own.size_bytes() / 4 * 3);
    CHECK(own.approximate_size("~", "") == 0);
    own.erase_range("10000", "11000");
    own.compact_range({"10000", "11000"});
    const uint64_t rest = own.size_bytes();
    CHECK(rest > 100000 && rest < 150000 && own.get("11999"));
    own.erase_range("1", "2");
    own.compact_range();
    CHECK(own.size_bytes() < 10000 && text(own.scan()) == "a=2 ");

    db.drop_keyspace("own");
    CHECK(failure([&] { own.remove("a"); }) == Code::not_found);
    CHECK(failure([&] { own.touch("a", 1); }) == Code::not_found);
    CHECK(failure([&] { own.get_with_expiry("a"); }) == Code::not_found);
    CHECK(failure([&] { own.read("a", see); }) == Code::not_found);
    CHECK(failure([&] { own.multi_get({"a"}); }) == Code::not_found);
    CHECK(failure([&] { own.compact_range(); }) == Code::not_found);
    CHECK(failure([&] { own.size_bytes(); }) == Code::not_found);
    CHECK(failure([&] { own.approximate_size("a", "b"); }) == Code::not_found);
    CHECK(failure([&] { own.contains("a"); }) == Code::not_found);
    db.close();
    CHECK(failure([&] { db.get_with_expiry("a"); }) == Code::closed);
    CHECK(failure([&] { db.approximate_size("a", "b"); }) == Code::closed);
    CHECK(failure([&] { db.multi_get({"a"}); }) == Code::closed);
    CHECK(failure([&] { db.read("a", see); }) == Code::closed);
}

// Appends an operation to packed bytes.
static void pack(std::string& packed, int32_t kind, uint32_t keyspace, std::string_view first,
                 std::string_view second, std::optional<uint64_t> ttl_ms = {}) {
    auto number = [&](uint64_t value, int size) {
        for (int i = 0; i < size; ++i) packed += static_cast<char>(value >> 8 * i);
    };
    number(static_cast<uint64_t>(kind), 1);
    number(keyspace, 4);
    number(first.size(), 4);
    number(second.size(), 4);
    if (ttl_ms) number(*ttl_ms, 8);
    packed.append(first).append(second);
}

static std::string text(const esker::Batch& batch) {
    std::string all;
    batch.visit([&](const esker::Operation& operation) {
        all.append(std::to_string(operation.keyspace_id)).append("/");
        all.append(std::to_string(static_cast<int32_t>(operation.kind))).append(" ");
        all.append(operation.key).append("=").append(operation.value);
        if (operation.ttl_ms != ESKER_NEVER_MS) {
            all.append(" for ").append(std::to_string(operation.ttl_ms));
        }
        all.append("\n");
    });
    return all;
}

static void batches(const esker::Options& options) {
    esker::Db db = esker::Db::open("batches", options);
    esker::KeyspaceOptions adding;
    adding.set_merge_operator("add_i64");
    esker::Keyspace one = db.keyspace("one", adding), two = db.keyspace("two", adding);
    esker::Batch single;
    single.put("p", "1").erase("d").erase_range("e", "f").put_with_ttl("t", "", 3600000);
    single.merge("m", "5").put(two, "p", "2").erase(one, "d").erase_range(two, "e", "f");
    single.put_with_ttl(one, "t", "3", ESKER_NEVER_MS).merge(two, "m", "6").put("", "");
    // With a time to live that never ends, it is a put.
    const std::string id_of_one = std::to_string(one.id()), id_of_two = std::to_string(two.id());
    CHECK(text(single) == "0/1 p=1\n0/2 d=\n0/3 e=f\n0/4 t= for 3600000\n0/5 m=5\n" + id_of_two +
                              "/1 p=2\n" + id_of_one + "/2 d=\n" + id_of_two + "/3 e=f\n" +
                              id_of_one + "/1 t=3\n" + id_of_two + "/5 m=6\n0/1 =\n");
    CHECK(text(esker::Batch()).empty());
    single.visit([&](esker::Operation operation) {
        if (operation.kind != esker::OperationKind::merge) return;
        CHECK(operation.value == (operation.keyspace_id == 0 ? "5" : "6"));
    });
    int visited = 0;
    auto third = [&](const esker::Operation&) {
        if (++visited == 3) throw std::string("third");
    };
    CHECK(throws([&] { single.visit(third); }, "third"s) && visited == 3);

    std::string packed;
    pack(packed, ESKER_OPERATION_PUT, 0, "p", "1");
    pack(packed, ESKER_OPERATION_DELETE, 0, "d", "");
    pack(packed, ESKER_OPERATION_DELETE_RANGE, 0, "e", "f");
    pack(packed, ESKER_OPERATION_PUT_WITH_TTL, 0, "t", "", 3600000);
    pack(packed, ESKER_OPERATION_MERGE, 0, "m", "5");
    pack(packed, ESKER_OPERATION_PUT, 2, "p", "2");
    pack(packed, ESKER_OPERATION_DELETE, 1, "d", "");
    pack(packed, ESKER_OPERATION_DELETE_RANGE, 2, "e", "f");
    pack(packed, ESKER_OPERATION_PUT_WITH_TTL, 1, "t", "3", ESKER_NEVER_MS);
    pack(packed, ESKER_OPERATION_MERGE, 2, "m", "6");
    pack(packed, ESKER_OPERATION_PUT, 0, "", "");
    esker::Batch batch;
    CHECK(text(batch.add_packed(packed, {one, two})) == text(single));
    CHECK(batch.size_bytes() == single.size_bytes() && batch.add_packed("").count() == 11);
    db.write(batch);
    CHECK(text(db.scan()) == "= m=5 p=1 t= " && text(one.scan()) == "t=3 ");
    CHECK(text(two.scan()) == "m=6 p=2 " && db.get_with_expiry("t")->expires_ms);
    // Wrong bytes add nothing.
    CHECK(failure([&] { batch.add_packed(packed.substr(0, 20), {one, two}); }) ==
          Code::invalid_argument);
    CHECK(failure([&] { batch.add_packed(packed, {one}); }) == Code::invalid_argument);
    CHECK(failure([&] { batch.add_packed("\x09"); }) == Code::invalid_argument);
    CHECK(batch.count() == 11);
    packed.clear();
    pack(packed, ESKER_OPERATION_PUT, 0, "q", "7");
    CHECK(batch.add_packed(packed).count() == 12);

    // Functions of C on the handle.
    CHECK(esker_batch_put(batch.handle(), "h", 1, "8", 1, nullptr) == ESKER_OK);
    CHECK(batch.count() == 13);
}

static std::string text(const esker::Chunk& chunk) {
    std::string all;
    for (auto [key, value] : chunk) all.append(key).append("=").append(value).append(" ");
    return all;
}

static void chunks(const esker::Options& options) {
    esker::Db db = esker::Db::open("chunks", options);
    const std::string large(100000, 'l');
    db.put("a", "1");
    db.put("b", "");
    db.put("c", large);
    db.put("d", std::string("4\0", 2));
    esker::Iterator iterator = db.iterator();
    esker::Chunk chunk(64), none(0);
    CHECK(chunk.empty() && chunk.size() == 0 && text(chunk).empty());
    // Without a position there is nothing to read.
    CHECK(!iterator.read(chunk));
    iterator.seek_to_first();
    CHECK(iterator.read(chunk) && text(chunk) == "a=1 b= " && chunk.size() == 2);
    CHECK(iterator.key() == "c");
    // A pair that is too large makes the chunk grow, also one without memory.
    CHECK(iterator.read(chunk) && chunk.size() == 1 && text(chunk) == "c=" + large + " ");
    CHECK(iterator.read(none) && text(none) == "d=4"s + '\0' + " " && !iterator.valid());
    CHECK(text(chunk) == "c=" + large + " ");
    CHECK(!iterator.read(chunk) && chunk.empty() && !iterator.read(chunk));
    CHECK((*none.begin()).first == "d" && std::distance(none.begin(), none.end()) == 1);

    iterator.seek_to_last();
    CHECK(iterator.read_backward(chunk) && text(chunk) == "d=4"s + '\0' + " ");
    CHECK(iterator.read_backward(chunk) && text(chunk) == "c=" + large + " ");
    CHECK(iterator.read_backward(chunk, 1) && text(chunk) == "b= ");
    CHECK(iterator.key() == "a" && !iterator.read_backward(chunk, 0) && iterator.key() == "a");
    CHECK(iterator.read_backward(chunk) && text(chunk) == "a=1 " && !iterator.read_backward(chunk));
    esker::Chunk wide;
    iterator.seek("c");
    CHECK(iterator.read(wide) && wide.size() == 1);
    esker::Chunk wider(200000);
    iterator.seek_to_last();
    CHECK(iterator.read_backward(wider) && wider.size() == 4);
    CHECK(text(wider) == "d=4"s + '\0' + " c=" + large + " b= a=1 ");
    size_t rows = 0;
    esker::Iterator all = db.iterator();
    all.seek_to_first();
    for (esker::Chunk pair; all.read(pair, 1);) rows += pair.size();
    CHECK(rows == 4);

    // The pairs before a failure come first. The iterator is one of C on the handle.
    esker::Transaction transaction = db.transaction();
    transaction.put("a", "own");
    CHECK(esker_transaction_id(transaction.handle()) == transaction.id());
    esker_iter_t* made = nullptr;
    CHECK(esker_transaction_iter_create(transaction.handle(), nullptr, 0, "b", 1, &made,
                                        nullptr) == ESKER_OK);
    esker::Iterator own(made);
    esker_iter_seek_to_first(own.handle());
    const esker::Iterator& same = own;
    CHECK(esker_iter_valid(same.handle()) == 1);
    transaction.rollback();
    CHECK(own.read(chunk) && text(chunk) == "a=own ");
    CHECK(failure([&] { own.read(chunk); }) == Code::invalid_argument && chunk.empty());
}

// A filter of the program, whose functions return, throw or make nothing.
static void filters(const esker::Memory& memory) {
    std::atomic<int> made{0}, asked{0};
    enum Mode { works, creates_nothing, create_throws, match_throws };
    std::atomic<Mode> mode{works};
    auto options = [&](const char* name) {
        esker::Options chosen;
        chosen.set_memory(memory).set_filter(
            name,
            [&](const std::vector<std::string_view>& keys) {
                ++made;
                CHECK(std::is_sorted(keys.begin(), keys.end()));
                if (mode == creates_nothing) return std::string();
                if (mode == create_throws) throw std::runtime_error("no filter");
                std::string firsts;
                for (std::string_view key : keys) firsts += key[0];
                return firsts;
            },
            [&](std::string_view key, std::string_view filter) {
                ++asked;
                if (mode == match_throws) throw 3;
                return filter.find(key[0]) != filter.npos;
            });
        return chosen;
    };
    {
        esker::Db db = esker::Db::open("filtered", options("test.firsts"));
        db.put("apple", "1");
        db.put("plum", "2");
        db.flush();
        CHECK(made == 1);
        asked = 0;
        CHECK(db.get("apple") == "1"s && db.get("plum") == "2"s && asked == 2);
        esker::Perf perf;
        CHECK(!db.get("none") && !db.get("pear") && asked == 4);
        const esker::Perf::Counts counts = perf.take();
        CHECK(counts.at("filter_checks") == 2 && counts.at("filter_negatives") == 1);
        mode = match_throws;
        CHECK(db.get("apple") == "1"s && !db.get("none") && asked == 6);
        CHECK(perf.take().at("filter_negatives") == 0);
    }
    // A table with a filter of another name has none, and a table may have no filter.
    for (auto each : {creates_nothing, create_throws}) {
        mode = each;
        const int before = made;
        esker::Db db = esker::Db::open("filtered", options("test.other"));
        db.put("fig", "3");
        db.flush();
        CHECK(made > before && asked == 6);
        CHECK(db.get("apple") == "1"s && db.get("fig") == "3"s && !db.get("none") && asked == 6);
    }
    esker::Options refused;
    auto create = [](const std::vector<std::string_view>&) { return std::string(); };
    auto may_match = [](std::string_view, std::string_view) { return true; };
    CHECK(failure([&] { refused.set_filter("n", nullptr, may_match); }) == Code::invalid_argument);
    CHECK(failure([&] { refused.set_filter("n", create, nullptr); }) == Code::invalid_argument);
    CHECK(esker_options_set(refused.handle(), "none", "1", nullptr) == ESKER_INVALID_ARGUMENT);
}

// Writes that wait for memory, because a filter of the program holds the flush.
static void stalls(const esker::Memory& memory) {
    std::atomic<bool> is_held{true};
    esker::Options options;
    options.set_memory(memory)
        .set("memtable_size_bytes", "64KiB")
        .set("frozen_memtables_max", "1")
        .set_filter(
            "test.gate",
            [&](const std::vector<std::string_view>&) {
                while (is_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                return std::string("any");
            },
            [](std::string_view, std::string_view) { return true; });
    esker::Db db = esker::Db::open("stalled", options);
    CHECK(!db.stall());
    esker::Batch batch;
    const Code code = failure([&] {
        for (int i = 0; i < 100000; ++i) {
            batch.clear();
            db.write_within(batch.put(std::to_string(i), std::string(100, 'v')),
                            std::chrono::milliseconds(20));
        }
    });
    CHECK(code == Code::busy);
    std::thread waiting([&] { db.write(batch); });
    std::optional<esker::Stall> stall;
    while (!stall) stall = db.stall();
    CHECK(!stall->cause.empty() && !stall->clears.empty() && stall->duration.count() >= 0);
    is_held = false;
    waiting.join();
    db.wait_idle();
    CHECK(!db.stall() && db.get("0"));
}

// A store whose jobs run when they are told to.
static void jobs(const esker::Memory& memory) {
    esker::Options options;
    options.set_memory(memory).set("background_threads", "0").set("memtable_size_bytes", "64KiB");
    esker::Db db = esker::Db::open("told", options);
    CHECK(!db.run_one_job());
    for (int i = 0; i < 2000; ++i) db.put(std::to_string(i), std::string(100, 'v'));
    CHECK(db.run_one_job());
    db.subscribe("limited", 1 << 30);
    CHECK(db.slots().at(0).lag_limit_bytes == 1u << 30);
}

// The counts of the calls of this thread.
static void counts(const esker::Options& options) {
    esker::Db db = esker::Db::open("counted", options);
    db.put("k", "value");
    {
        esker::Perf perf;
        db.get("k");
        db.get("none");
        std::thread([&] { db.get("k"); }).join();
        const esker::Perf::Counts first = perf.take();
        CHECK(first.at("gets") == 2 && first.at("memtable_hits") == 1);
        CHECK(first.at("value_bytes_read") == 5 && first.at("wal_bytes") == 0);
        CHECK(first.count("none") == 0 && first.size() > 10);
        db.put("k", "later");
        const esker::Perf::Counts second = perf.take();
        CHECK(second.at("gets") == 0 && second.at("wal_bytes") > 0);
        db.get("k");
        {
            // An inner one takes no counts from the outer one.
            esker::Perf inner;
            db.get("k");
            CHECK(inner.take().at("gets") == 1);
        }
        CHECK(perf.take().at("gets") == 2);
    }
    // Another one begins at 0, and nothing is counted without one.
    db.get("k");
    esker::Perf perf;
    CHECK(perf.take().at("gets") == 0);

    // A read that leaves the cache as it is reads the block again.
    db.keyspace("own").put("k", "1");
    db.flush();
    db.close();
    esker::Db again = esker::Db::open("counted", options);
    esker::Keyspace own = again.keyspace("own");
    const esker::ReadOptions apart{nullptr, false}, usual;
    auto blocks = [&](const auto& from, const esker::ReadOptions& how, const char* value) {
        CHECK(from.get("k", how) == value && !from.get("none", how));
        return perf.take().at("blocks_read");
    };
    CHECK(blocks(again, apart, "later") > 0 && blocks(again, apart, "later") > 0);
    CHECK(blocks(again, usual, "later") > 0 && blocks(again, usual, "later") == 0);
    CHECK(blocks(own, apart, "1") > 0 && blocks(own, apart, "1") > 0);
    CHECK(blocks(own, usual, "1") > 0 && blocks(own, usual, "1") == 0);
}

// Backups of two stores in one directory.
static void backups(const esker::Options& options) {
    esker::Db db = esker::Db::open("kept", options), other = esker::Db::open("other", options);
    db.put("k", "1");
    const esker::BackupReport first = db.backup("backups");
    CHECK(first.number == 1 && first == 1 && first.copied_bytes > 0);
    // A report is also the number of its backup.
    CHECK(std::to_string(db.backup("backups")) == "2");
    CHECK(failure([&] { other.backup("backups"); }) == Code::incompatible);
    other.put("k", "2");
    const esker::BackupReport taken = other.backup("backups", esker::BackupOptions{true});
    CHECK(taken.number == 3 && taken.copied_bytes > 0);
    CHECK(other.backup("backups").copied_bytes == 0);
    CHECK(failure([&] { db.backup("backups"); }) == Code::incompatible);
    CHECK(failure([&] { db.backup("kept"); }) == Code::invalid_argument);

    const std::vector<esker::BackupInfo> all = esker::backups("backups", options);
    CHECK(all.size() == 4 && all[0].number == 1 && all[1].number == 2 && all[3].number == 4);
    for (const esker::BackupInfo& each : all) {
        CHECK(each.tables == 1 && each.table_bytes > 0 && each.created_ms && !each.problem);
        CHECK(each.store_id == (each.number > 2 ? other : db).store_id());
        CHECK(each.store_path->find(each.number > 2 ? "other" : "kept") != std::string::npos);
        CHECK(esker::Db::open_read_only(each.path, options).get("k") ==
              (each.number > 2 ? "2"s : "1"s));
    }
    CHECK(failure([&] { esker::prune_backups("backups", 0, options); }) == Code::invalid_argument);
    CHECK(esker::prune_backups("backups", 4, options) == 0);
    CHECK(esker::prune_backups("backups", 1, options) == 3);
    CHECK(esker::backups("backups", options).at(0).number == 4);
    CHECK(failure([&] { esker::restore("backups", "restored", 1, options); }) == Code::not_found);
    CHECK(failure([&] { esker::backups("none", options); }) == Code::not_found);
    CHECK(failure([&] { esker::prune_backups("none", 1, options); }) == Code::not_found);
    CHECK(failure([&] { esker::backups("kept", options); }) == Code::invalid_argument);
    db.close();
    CHECK(failure([&] { db.backup("backups"); }) == Code::closed);
}

// Backups and the metrics of an open store on the disk.
static void on_disk(const std::string& path) {
    CHECK(failure([&] { esker::live_status(path); }) == Code::not_found);
    {
        esker::Db db = esker::Db::open(path);
        db.put("k", "1");
        db.backup(path + "-backups");
        const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
        std::optional<esker::LiveStatus> status;
        while (!status) {
            try {
                status = esker::live_status(path);
            } catch (const esker::Error& error) {
                CHECK(error.code() == Code::not_found && std::chrono::steady_clock::now() < end);
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
            }
        }
        CHECK(status->openmetrics.find("# EOF") != std::string::npos && status->process != 0);
    }
    CHECK(failure([&] { esker::live_status(path); }) == Code::not_found);
    const esker::BackupInfo good = esker::backups(path + "-backups").at(0);
    std::ofstream(good.path + "/BACKUP", std::ios::trunc) << "damaged";
    const esker::BackupInfo bad = esker::backups(path + "-backups").at(0);
    CHECK(bad.number == 1 && bad.path == good.path && bad.tables == good.tables);
    CHECK(bad.problem && bad.problem->size() > 5 && !bad.created_ms && good.created_ms);
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
    std::atomic<uint64_t> now_ms{1000};
    std::vector<int32_t> kinds;
    std::string renamed;
    {
        esker::Options options;
        options.set_memory(memory)
            .set_runtime(runtime)
            .set_merge_operator("add_i64")
            .set_clock([&] { return now_ms.load(); })
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
    // Algorithms of the standard library, and functions of C on the handles.
    esker::Changes again = db.changes();
    CHECK(std::count_if(again.begin(), again.end(), [](const esker::ChangeBatch& each) {
              return each.size() == 1;
          }) == 3);
    db.write(esker::Batch().put("d", "4").erase("e").put("f", "6"));
    auto place = again.begin();
    CHECK(place->size() == 3 && std::distance(place->begin(), place->end()) == 3);
    const std::vector<esker::Change> three(place->begin(), place->end());
    CHECK(three[0].key() == "d" && three[1].kind() == esker::ChangeKind::erase);
    auto each = place->begin();
    each++;
    CHECK((*each).key() == "e" && each != place->begin());
    CHECK(esker_changes_position(again.handle()) == place->sequence());
    place++;
    CHECK(place == again.end());
    const esker_change_batch_t* next = nullptr;
    CHECK(esker_changes_next(later.handle(), 0, &next, nullptr) == ESKER_OK && next);
    CHECK(next->changes_len == 3);
    uint64_t confirmed = 0;
    CHECK(esker_slot_position(slot.handle(), &confirmed, nullptr) == ESKER_OK);
    CHECK(confirmed == slot.position() && confirmed > position);
    const auto slots = db.slots();
    CHECK(slots.size() == 1 && slots[0].name == "index" && !slots[0].lag_limit_bytes);
    CHECK(!slots[0].problem && slots[0].position > position);
    db.drop_slot("index");
    CHECK(failure([&] { slot.position(); }) == Code::not_found);
    CHECK(failure([&] { db.slot("index"); }) == Code::not_found);
    db.close();
    CHECK(failure([&] { changes.next(); }) == Code::closed);
}

// Bytes on their way between two stores.
struct Pipe {
    std::string bytes;
    size_t read = 0;
    // The number of bytes that one read gives at most.
    size_t room = SIZE_MAX;

    std::function<void(std::string_view)> taking() {
        return [this](std::string_view more) { bytes += more; };
    }
    std::function<size_t(char*, size_t)> giving() {
        return [this](char* buffer, size_t length) {
            const size_t count = std::min({length, bytes.size() - read, room});
            std::memcpy(buffer, bytes.data() + read, count);
            read += count;
            return count;
        };
    }
};

// Applies a whole stream, and returns the number of items of each kind. The end is at `end`.
static std::map<esker::StreamItemKind, int> applied(esker::Db& target, Pipe& pipe, uint64_t end) {
    std::map<esker::StreamItemKind, int> kinds;
    pipe.read = 0;
    esker::Applier started(target, pipe.giving());
    esker::Applier applier = std::move(started);
    esker::StreamItem last;
    for (const esker::StreamItem& item : applier) {
        ++kinds[item.kind];
        last = item;
    }
    CHECK(last.kind == esker::StreamItemKind::end && last.position == end);
    // After the end there is nothing but the end.
    CHECK(applier.next().kind == esker::StreamItemKind::end && pipe.read == pipe.bytes.size());
    return kinds;
}

static void streams(const esker::Options& options) {
    using Kind = esker::StreamItemKind;
    esker::Db source = esker::Db::open("streamed", options);
    esker::Db target = esker::Db::open("copied", options);
    source.subscribe("copy");
    source.keyspace("other").put("k", "in other");
    source.put("before", "1");
    CHECK(!target.applied_position());
    Pipe pipe;
    esker::ChangeWriter first(source, pipe.taking());
    esker::ChangeWriter writer = std::move(first);
    const uint64_t start = writer.content();
    source.put("after", "2");
    source.erase("before");
    esker::Changes changes = source.changes(start), others = target.changes();
    CHECK(failure([&] { writer.batch(changes); }) == Code::invalid_argument);
    CHECK(failure([&] { writer.batch(others); }) == Code::invalid_argument);
    while (changes.next()) writer.batch(changes);
    const uint64_t position = changes.position();
    writer.alive(position);
    writer.end(position);
    pipe.room = 5;
    auto kinds = applied(target, pipe, position);
    CHECK(kinds[Kind::content] > 0 && kinds[Kind::content_end] == 1 && kinds[Kind::batch] == 2);
    CHECK(kinds[Kind::alive] == 1 && kinds[Kind::end] == 1 && kinds[Kind::other] == 0);
    CHECK(text(target.scan()) == "after=2 " && target.find_keyspace("other")->get("k"));
    const auto has = target.applied_position();
    CHECK(has && has->source == source.store_id() && has->position == position);

    // What the store has is left out, and what follows is applied.
    source.merge("n", "40");
    source.merge("n", "2");
    Pipe later;
    esker::ChangeWriter again(source, later.taking());
    esker::Changes more = source.changes(start);
    for (const esker::ChangeBatch& batch : more) {
        CHECK(batch.size() == 1);
        again.batch(more);
    }
    again.end(more.position());
    CHECK(applied(target, later, more.position())[Kind::batch] == 4);
    CHECK(text(target.scan()) == "after=2 n=42 ");
    CHECK(target.applied_position()->position == more.position());

    // A copy of a store begins at the position of the copy.
    source.fork("forked");
    esker::Db forked = esker::Db::open("forked", options);
    later.read = 0;
    esker::Applier applier(forked, later.giving());
    CHECK(applier.source() == source.store_id());
    applier.start_at(more.position());
    CHECK(forked.applied_position()->position == more.position());
    CHECK(failure([&] { applier.start_at(1); }) == Code::invalid_argument);
    auto place = applier.begin();
    CHECK(place->kind == Kind::batch && place != applier.end());
    place++;
    CHECK(place->position == has->position && text(forked.scan()) == "after=2 n=42 ");
    int32_t kind = -1;
    CHECK(esker_applier_next(applier.handle(), &kind, nullptr, nullptr) == ESKER_OK && kind == 1);
}

// Streams that are refused, damaged or cut off, and functions that throw.
static void broken_streams(const esker::Options& options) {
    esker::Db source = esker::Db::open("broken source", options);
    esker::Db target = esker::Db::open("broken target", options);
    source.put("k", "1");
    Pipe pipe;
    esker::ChangeWriter writer(source, pipe.taking());
    writer.end(writer.content());
    const std::string whole = pipe.bytes;
    CHECK(failure([&] { esker::Applier(source, pipe.giving()); }) == Code::incompatible);
    CHECK(failure([&] { esker::Applier(target, Pipe().giving()); }) == Code::corruption);
    pipe = {whole.substr(0, whole.size() - 9)};
    auto apply = [&] {
        esker::Db fresh = esker::Db::open("broken at " + std::to_string(pipe.bytes.size()), options);
        esker::Applier applier(fresh, pipe.giving());
        for (const esker::StreamItem& item : applier) CHECK(item.kind != esker::StreamItemKind::end);
    };
    CHECK(failure(apply) == Code::io);
    pipe = {whole};
    pipe.bytes[whole.size() - 1] ^= 1;
    CHECK(failure(apply) == Code::corruption);
    // The content is complete, so it is not copied again.
    pipe = {whole};
    CHECK(failure(apply) == Code::invalid_argument);
    CHECK(failure([&] {
              esker::Applier(target, [](char*, size_t length) { return length + 1; });
          }) == Code::io);

    // An exception of a function is thrown again, and ends the stream.
    auto gives_nothing = [](char*, size_t) -> size_t { throw "no bytes"s; };
    CHECK(throws([&] { esker::Applier(target, gives_nothing); }, "no bytes"s));
    auto takes_nothing = [](std::string_view) { throw "no room"s; };
    CHECK(throws([&] { esker::ChangeWriter(source, takes_nothing); }, "no room"s));
    int calls = 0;
    bool is_full = false;
    esker::ChangeWriter full(source, [&](std::string_view) {
        ++calls;
        if (is_full) throw 7;
    });
    is_full = true;
    CHECK(throws([&] { full.alive(1); }, 7) && calls == 2);
    CHECK(failure([&] { full.content(); }) == Code::io && failure([&] { full.end(1); }) == Code::io);
    CHECK(esker_change_writer_end(full.handle(), 1, nullptr) == ESKER_IO && calls == 2);
    source.close();
    CHECK(failure([&] { writer.content(); }) == Code::closed);
    target.close();
    CHECK(failure([&] { target.applied_position(); }) == Code::closed);
    CHECK(failure([&] { esker::Applier(target, pipe.giving()); }) == Code::closed);
}

static void prefixes(const esker::Memory& memory) {
    esker::Options options;
    options.set_memory(memory);
    esker::Db db = esker::Db::open("prefixes", options);
    esker::Keyspace own = db.keyspace("own", esker::KeyspaceOptions().set_key_order("esker.reverse"));
    for (const char* key : {"user/1", "user/2", "user0", "\xff\xff", "use"}) {
        db.put(key, "d");
        own.put(key, "o");
    }
    const esker::Snapshot before = db.snapshot();
    db.put("user/3", "d");
    own.put("user/3", "o");
    CHECK(text(db.scan_prefix("user/")) == "user/1=d user/2=d user/3=d ");
    CHECK(text(db.scan_prefix_backward("user/")) == "user/3=d user/2=d user/1=d ");
    CHECK(text(own.scan_prefix("user/")) == "user/3=o user/2=o user/1=o ");
    CHECK(text(own.scan_prefix_backward("user/")) == "user/1=o user/2=o user/3=o ");
    const esker::ReadOptions then{&before, false};
    CHECK(text(db.scan_prefix("user/", then)) == "user/1=d user/2=d ");
    CHECK(text(own.scan_prefix_backward("user/", then)) == "user/1=o user/2=o ");
    CHECK(text(db.scan_prefix("\xff")) == "\xff\xff=d " && text(db.scan_prefix("v")).empty());
    // An empty prefix, also one without an address, is that of every key.
    CHECK(text(db.scan_prefix({})) == text(db.scan()) && text(own.scan_prefix("")) == text(own.scan()));
    esker::Iterator iterator = db.prefix_iterator("user");
    iterator.seek("a");
    CHECK(iterator.key() == "user/1");
    iterator.seek_to_last();
    CHECK(iterator.key() == "user0");
    esker::Iterator in_own = own.prefix_iterator("use");
    in_own.seek_to_last();
    CHECK(in_own.key() == "use");

    options.set_comparator("test.plain", [](std::string_view a, std::string_view b) noexcept {
        return a.compare(b);
    });
    esker::Db ordered = esker::Db::open("ordered prefixes", options);
    CHECK(failure([&] { ordered.scan_prefix("a"); }) == Code::invalid_argument);
}

// The numbers of verifications and repairs.
static void reports(const std::string& path) {
    {
        esker::Db db = esker::Db::open(path);
        db.put("a", "1");
        db.put("b", "2");
        db.flush();
        uint64_t heard = 0;
        const esker::Verification found = db.verify_with([&](uint64_t bytes, uint64_t of) {
            CHECK(bytes >= heard && of > 0);
            heard = bytes;
        });
        CHECK(!found.damage && found.report.problems == 0 && found.report.entries == 2);
        CHECK(found.report.files == 1 && found.report.bytes > 0 && heard > 0);
        CHECK(db.verify_with().report.bytes == found.report.bytes);
        CHECK(throws([&] { db.verify_with([](uint64_t, uint64_t) { throw 7; }); }, 7));
        CHECK(failure([&] { esker::repair_with(path); }) == Code::locked);
        db.close();
        CHECK(failure([&] { db.verify_with(); }) == Code::closed);
    }
    const esker::Repair made = esker::repair_with(path);
    CHECK(made.report.manifest_readable == 1 && made.report.tables == 1 && made.report.pairs == 2);
    CHECK(made.report.losses == 0 && made.lost.empty() && !made.originals.empty());
    esker::Db db = esker::Db::open(path);
    CHECK(text(db.scan()) == "a=1 b=2 ");

    // A report is also that of damaged data.
    std::string file = std::to_string(db.tables().at(0).number);
    file = path + "/" + std::string(6 - file.size(), '0') + file + ".sst";
    std::ofstream(file, std::ios::in | std::ios::out).seekp(5) << "damaged";
    const esker::Verification damaged = db.verify_with();
    CHECK(damaged.damage && damaged.damage->code() == Code::corruption);
    CHECK(damaged.report.problems == 1 && damaged.report.files == 1 && damaged.report.bytes > 0);
    CHECK(std::string(damaged.damage->what()).find(".sst") != std::string::npos);
    db.close();
    const esker::Repair rest = esker::repair_with(path);
    CHECK(rest.report.losses > 0 && !rest.lost.empty() && rest.report.pairs < 2);
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
    esker::Diff again = esker::diff(db, fork);
    const auto gone = std::find_if(again.begin(), again.end(), [](const esker::Difference& each) {
        return !each.new_value();
    });
    CHECK(gone->key() == "b" && gone != again.end());
    auto place = gone;
    place++;
    CHECK(place->keyspace() == "extra");
    const esker_difference_t* next = nullptr;
    CHECK(esker_diff_next(again.handle(), &next, nullptr) == ESKER_OK && next == nullptr);
    CHECK(esker_diff_shared_files(again.handle()) == again.shared_files());
    CHECK(esker::diff(fork, fork).relation() == esker::Relation::same_store);
    CHECK(esker::diff(fork, db).relation() == esker::Relation::ancestor);
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
        CHECK(esker_sorted_writer_delete(writer.handle(), "zz", 2, nullptr) == ESKER_OK);
        const esker::SortedWriter& same = writer;
        CHECK(esker_sorted_writer_entries(same.handle()) == 5);
        CHECK(writer.entries() == 5 && writer.finish().entries == 5);
        CHECK(failure([&] { writer.finish(); }) == Code::invalid_argument);
    }
    CHECK(db.ingest({"one.sst"}, esker::IngestOptions{true, false}).entries == 5);
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

// Keys and values as spans of bytes.
static void spans(const esker::Options& in_memory) {
#if defined(__cpp_lib_span)
    esker::Db db = esker::Db::open("spans", in_memory);
    const std::byte key[] = {std::byte{0}, std::byte{255}};
    const std::vector<std::byte> value(300, std::byte{7});
    db.put(esker::view_of(key), esker::view_of(value));
    db.put(esker::view_of(std::span<const std::byte>()), "");
    CHECK(db.get("") == ""s && db.get("\0\xff"s) == std::string(300, '\7'));
    const bool found = db.read(esker::view_of(key), [&](std::string_view seen) {
        const std::span<const std::byte> bytes = esker::span_of(seen);
        CHECK(std::equal(bytes.begin(), bytes.end(), value.begin(), value.end()));
    });
    CHECK(found && esker::span_of({}).empty());
#else
    (void)in_memory;
#endif
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
    in_keyspaces(memory);
    orders(memory);
    parts(memory);
    batches(in_memory);
    chunks(in_memory);
    spans(in_memory);
    filters(memory);
    stalls(memory);
    jobs(memory);
    counts(in_memory);
    backups(in_memory);
    on_disk(path + "-published");
    observed(memory);
    feeds(in_memory);
    streams(in_memory);
    broken_streams(in_memory);
    prefixes(memory);
    reports(path + "-reports");
    forks(in_memory);
    loads(in_memory);
    CHECK(!esker::version().empty());
    std::printf("esker.hpp: C++%ld, %d checks\n", __cplusplus / 100 % 100, checks);
    return 0;
}
