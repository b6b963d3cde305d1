// Esker's C++17 interface: a header over esker.h, without a library of its own.
//
// Rules:
// 1. Every object owns its C handle and frees it once. Objects can be moved; none can be copied.
//    A moved-from object may only be destroyed or assigned.
// 2. A failure is an `esker::Error`, with the code and the message of the C function. Functions
//    that only read a position of an iterator do not fail.
// 3. Keys and values are passed as `std::string_view` and may hold any bytes. A view that an
//    iterator returns is valid until the iterator is moved or destroyed.
// 4. No exception leaves a callback: the functions for key orders must be `noexcept`, and an
//    exception of a merge operator or a compaction filter is caught and becomes a failure of the
//    read, or keeps the pair.
// 5. A snapshot, an iterator, a keyspace, a transaction, a slot, a feed and a comparison may be
//    destroyed before or after their store, and a view or a promoted store before or after its
//    follower.
//
//     esker::Db db = esker::Db::open("fruit.db");
//     db.put("apple", "red");
//     for (auto [key, value] : db.scan()) std::cout << key << " = " << value << "\n";

#ifndef ESKER_HPP
#define ESKER_HPP

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "esker.h"

namespace esker {

// Kinds of failures. The meaning of each is that of the C constant.
enum class Code : int32_t {
    invalid_argument = ESKER_INVALID_ARGUMENT,
    corruption = ESKER_CORRUPTION,
    io = ESKER_IO,
    no_space = ESKER_NO_SPACE,
    locked = ESKER_LOCKED,
    incompatible = ESKER_INCOMPATIBLE,
    read_only = ESKER_READ_ONLY,
    closed = ESKER_CLOSED,
    internal = ESKER_INTERNAL,
    not_found = ESKER_NOT_FOUND,
    conflict = ESKER_CONFLICT,
    busy = ESKER_BUSY,
    deadlock = ESKER_DEADLOCK,
};

// A failure of a call.
class Error : public std::runtime_error {
public:
    Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
    // The kind of the failure.
    Code code() const noexcept { return code_; }

private:
    Code code_;
};

// What a completed write survives.
enum class Durability : int32_t {
    // The store's option `durability` decides.
    store_default = ESKER_DURABILITY_DEFAULT,
    // Lost if the process ends before a flush.
    none = ESKER_DURABILITY_NONE,
    // Survives `kill -9`, but not a power loss.
    buffered = ESKER_DURABILITY_BUFFERED,
    // Survives a power loss.
    sync = ESKER_DURABILITY_SYNC,
};

// A master key of an encrypted store.
struct MasterKey {
    // `ESKER_KEY_BYTES` bytes.
    std::string bytes;
    // 1 to 64 bytes, which are not secret; the fingerprint of the key if there is none.
    std::optional<std::string> name;
};

namespace detail {

inline const uint8_t* bytes(std::string_view text) {
    // The C functions take NULL as "no bound"; an empty view may have no address.
    static const uint8_t empty = 0;
    return text.data() == nullptr ? &empty : reinterpret_cast<const uint8_t*>(text.data());
}

inline const uint8_t* bound(const std::optional<std::string_view>& text) {
    return text ? bytes(*text) : nullptr;
}

inline size_t length(const std::optional<std::string_view>& text) {
    return text ? text->size() : 0;
}

inline std::string_view view(const uint8_t* start, size_t length) {
    return start == nullptr ? std::string_view()
                            : std::string_view(reinterpret_cast<const char*>(start), length);
}

struct Free {
    void operator()(void* memory) const noexcept { esker_free(memory); }
};

// A text that the library has returned; empty for NULL.
inline std::string taken(char* text) {
    std::unique_ptr<char, Free> owned(text);
    return owned ? std::string(owned.get()) : std::string();
}

inline std::optional<std::string> taken(uint8_t* value, size_t length) {
    std::unique_ptr<uint8_t, Free> owned(value);
    if (!owned) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(value), length);
}

[[noreturn]] inline void fail(int32_t code, char* message) {
    throw Error(static_cast<Code>(code), taken(message));
}

// Calls a C function whose last argument is the place of the message.
template <class Function, class... Arguments>
void call(Function function, Arguments... arguments) {
    char* message = nullptr;
    const int32_t code = function(arguments..., &message);
    if (code != ESKER_OK) fail(code, message);
}

// Owns a C handle.
template <class Handle, void (*destroy)(Handle*)>
struct Destroy {
    void operator()(Handle* handle) const noexcept { destroy(handle); }
};

template <class Handle, void (*destroy)(Handle*)>
using Owned = std::unique_ptr<Handle, Destroy<Handle, destroy>>;

// Memory that the library frees with `free`. An empty result is not NULL either.
inline uint8_t* copied(std::string_view bytes, size_t* length) noexcept {
    auto* memory = static_cast<uint8_t*>(std::malloc(bytes.empty() ? 1 : bytes.size()));
    if (memory == nullptr) return nullptr;
    if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
    *length = bytes.size();
    return memory;
}

inline char* reason(const char* text) noexcept {
    const size_t size = std::strlen(text) + 1;
    auto* memory = static_cast<char*>(std::malloc(size));
    if (memory != nullptr) std::memcpy(memory, text, size);
    return memory;
}

template <class State>
void destroy_state(void* state) {
    delete static_cast<State*>(state);
}

template <class State>
const char* name_of(void* state) {
    return static_cast<State*>(state)->name.c_str();
}

struct Comparing {
    std::string name;
    std::function<int(std::string_view, std::string_view)> compare;
};

struct Merging {
    using Operands = std::vector<std::string_view>;
    std::string name;
    std::function<std::string(std::string_view, std::optional<std::string_view>, const Operands&)>
        full;
    std::function<std::optional<std::string>(std::string_view, const Operands&)> partial;

    static Operands views(const uint8_t* const* starts, const size_t* lengths, size_t count) {
        Operands operands;
        operands.reserve(count);
        for (size_t i = 0; i < count; ++i) operands.push_back(view(starts[i], lengths[i]));
        return operands;
    }
};

struct Listening {
    std::function<void(const esker_event_t&)> listen;
};

struct Telling {
    std::function<uint64_t()> now_ms;
};

struct Giving {
    std::function<MasterKey(std::optional<std::string_view>)> give;
};

struct Filtering {
    std::string name;
    std::function<std::optional<std::string>(std::string_view, std::string_view)> decide;
};

}  // namespace detail

// An event of a store: `kind`, `text` and the fields that its kind has. See `esker_event_t`.
using Event = esker_event_t;

// Options of a runtime.
class RuntimeOptions {
public:
    RuntimeOptions() : handle_(esker_runtime_options_create()) {}

    // Sets an option from text, for example "memory_budget_bytes" to "256MiB". The names are those
    // of `esker_runtime_options_set`.
    RuntimeOptions& set(const std::string& name, const std::string& value) {
        detail::call(esker_runtime_options_set, handle_.get(), name.c_str(), value.c_str());
        return *this;
    }

    const esker_runtime_options_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_runtime_options_t, esker_runtime_options_destroy> handle_;
};

// Threads, memory and background input and output that stores share. It may be gone before they
// are closed.
class Runtime {
public:
    explicit Runtime(const RuntimeOptions& options = RuntimeOptions()) {
        esker_runtime_t* runtime = nullptr;
        detail::call(esker_runtime_create, options.handle(), &runtime);
        handle_.reset(runtime);
    }

    // What its stores use now, for example "stores" or "cache_bytes".
    uint64_t metric(const std::string& name) const {
        uint64_t value = 0;
        detail::call(esker_runtime_metric, handle_.get(), name.c_str(), &value);
        return value;
    }

    const esker_runtime_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_runtime_t, esker_runtime_destroy> handle_;
};

// An in-memory file system for tests. Its stores are lost once it and the last store are gone.
class Memory {
public:
    Memory() : handle_(esker_memory_create()) {}
    const esker_memory_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_memory_t, esker_memory_destroy> handle_;
};

// Options for opening a store: those of docs/options.md by name, and functions of the program.
class Options {
public:
    Options() : handle_(esker_options_create()) {}

    // Sets an option from text, for example "block_size_bytes" to "8KiB".
    Options& set(const std::string& name, const std::string& value) {
        detail::call(esker_options_set, handle_.get(), name.c_str(), value.c_str());
        return *this;
    }

    // The value of an option as text; nothing for an unknown name.
    std::optional<std::string> get(const std::string& name) const {
        char* text = esker_options_get(handle_.get(), name.c_str());
        if (text == nullptr) return std::nullopt;
        return detail::taken(text);
    }

    // Opens stores in `memory` instead of on disk.
    Options& set_memory(const Memory& memory) {
        esker_options_set_memory(handle_.get(), memory.handle());
        return *this;
    }

    // Sets the key order. `compare` returns a negative number, zero or a positive number, from any
    // thread, and must not throw: an exception ends the program. The order of a name must never
    // change.
    Options& set_comparator(std::string name,
                            std::function<int(std::string_view, std::string_view)> compare) {
        return add_comparator(esker_options_set_comparator, std::move(name), std::move(compare));
    }

    // Adds a key order that keyspaces may have.
    Options& add_comparator(std::string name,
                            std::function<int(std::string_view, std::string_view)> compare) {
        return add_comparator(esker_options_add_comparator, std::move(name), std::move(compare));
    }

    // Adds a merge operator under a permanent name. `full` makes a value of the key, the existing
    // value if there is one, and the operands, oldest first. `partial`, which may be empty, makes
    // one operand of several, or nothing. Both are called from any thread, and for any grouping of
    // the operands. An exception of `full` is the reason for the failure of the read.
    Options& add_merge_operator(
        std::string name,
        std::function<std::string(std::string_view key, std::optional<std::string_view> existing,
                                  const std::vector<std::string_view>& operands)>
            full,
        std::function<std::optional<std::string>(std::string_view key,
                                                 const std::vector<std::string_view>& operands)>
            partial = nullptr) {
        const bool has_partial = static_cast<bool>(partial);
        auto* state = new detail::Merging{std::move(name), std::move(full), std::move(partial)};
        detail::call(esker_options_add_merge_operator, handle_.get(), static_cast<void*>(state),
                     &detail::destroy_state<detail::Merging>, &Options::full_merge,
                     has_partial ? &Options::partial_merge : nullptr,
                     &detail::name_of<detail::Merging>);
        return *this;
    }

    // Sets the merge operator of the keyspace `default`: a built-in one or one that was added.
    Options& set_merge_operator(const std::string& name) {
        detail::call(esker_options_set_merge_operator, handle_.get(), name.c_str());
        return *this;
    }

    // Adds a compaction filter. It returns the value that the pair has from now on, or nothing if
    // the pair is to be deleted. An exception keeps the pair.
    Options& add_compaction_filter(
        std::string name,
        std::function<std::optional<std::string>(std::string_view key, std::string_view value)>
            decide) {
        auto* state = new detail::Filtering{std::move(name), std::move(decide)};
        detail::call(esker_options_add_compaction_filter, handle_.get(),
                     static_cast<void*>(state), &detail::destroy_state<detail::Filtering>,
                     &Options::filter, &detail::name_of<detail::Filtering>);
        return *this;
    }

    // Sets the compaction filter of the keyspace `default`, which was added before.
    Options& set_compaction_filter(const std::string& name) {
        detail::call(esker_options_set_compaction_filter, handle_.get(), name.c_str());
        return *this;
    }

    // Opens stores with the threads, the memory and the cache of a runtime.
    Options& set_runtime(const Runtime& runtime) {
        esker_options_set_runtime(handle_.get(), runtime.handle());
        return *this;
    }

    // Adds a listener for the events of the store. One thread at a time calls it, a thread of the
    // store or one in a call of it. It must return soon and must not use the store. An exception of
    // it is ignored.
    Options& add_listener(std::function<void(const Event&)> listen) {
        auto* state = new detail::Listening{std::move(listen)};
        detail::call(esker_options_add_listener, handle_.get(), static_cast<void*>(state),
                     &detail::destroy_state<detail::Listening>, &Options::hear);
        return *this;
    }

    // Sets the clock by which pairs expire: the present in milliseconds since 1970. It is called
    // from any thread, and must not throw: an exception ends the program.
    Options& set_clock(std::function<uint64_t()> now_ms) {
        auto* state = new detail::Telling{std::move(now_ms)};
        detail::call(esker_options_set_clock, handle_.get(), static_cast<void*>(state),
                     &detail::destroy_state<detail::Telling>, &Options::tell);
        return *this;
    }

    // Sets the key of stores: 32 bytes, or 64 hexadecimal digits. Stores that are opened with it are
    // encrypted. See `esker_options_set_key`.
    Options& set_key(std::string_view key) {
        detail::call(esker_options_set_key, handle_.get(), detail::bytes(key), key.size());
        return *this;
    }

    // Sets the file with the key of stores, which is read at each opening.
    Options& set_key_file(const std::string& path) {
        detail::call(esker_options_set_key_file, handle_.get(), path.c_str());
        return *this;
    }

    // Sets a function that returns the key of this name, or of a new store if there is no name. It is
    // called from any thread when a store is opened, created or copied, and must not use the store. An
    // exception of it is the reason for the failure of the opening.
    Options& set_key_source(
        std::function<MasterKey(std::optional<std::string_view> name)> give) {
        auto* state = new detail::Giving{std::move(give)};
        detail::call(esker_options_set_key_source, handle_.get(), static_cast<void*>(state),
                     &detail::destroy_state<detail::Giving>, &Options::give);
        return *this;
    }

    const esker_options_t* handle() const noexcept { return handle_.get(); }

private:
    static uint8_t give(void* state, const char* name, uint8_t* place, char** named,
                        char** why) noexcept {
        try {
            std::optional<std::string_view> wanted;
            if (name != nullptr) wanted = name;
            const MasterKey key = static_cast<detail::Giving*>(state)->give(wanted);
            if (key.bytes.size() != ESKER_KEY_BYTES) {
                *why = detail::reason("expected 32 bytes of a key, found another number");
                return 0;
            }
            if (key.name) *named = detail::reason(key.name->c_str());
            std::memcpy(place, key.bytes.data(), ESKER_KEY_BYTES);
            return 1;
        } catch (const std::exception& error) {
            *why = detail::reason(error.what());
        } catch (...) {
            *why = detail::reason("the source of keys threw something that is no exception");
        }
        return 0;
    }

    static void hear(void* state, const esker_event_t* event) noexcept {
        try {
            static_cast<detail::Listening*>(state)->listen(*event);
        } catch (...) {
            // A listener has no caller that could be told.
        }
    }

    static uint64_t tell(void* state) noexcept {
        return static_cast<detail::Telling*>(state)->now_ms();
    }

    template <class Function>
    Options& add_comparator(Function function, std::string name,
                            std::function<int(std::string_view, std::string_view)> compare) {
        auto* state = new detail::Comparing{std::move(name), std::move(compare)};
        // The library frees the state, also if the call fails.
        detail::call(function, handle_.get(), static_cast<void*>(state),
                     &detail::destroy_state<detail::Comparing>, &Options::compare,
                     &detail::name_of<detail::Comparing>);
        return *this;
    }

    static int compare(void* state, const char* a, size_t a_len, const char* b,
                       size_t b_len) noexcept {
        return static_cast<detail::Comparing*>(state)->compare({a, a_len}, {b, b_len});
    }

    static uint8_t* full_merge(void* state, const uint8_t* key, size_t key_len,
                               const uint8_t* existing, size_t existing_len,
                               const uint8_t* const* operands, const size_t* operand_lens,
                               size_t count, size_t* value_len, char** why) noexcept {
        auto* own = static_cast<detail::Merging*>(state);
        try {
            std::optional<std::string_view> before;
            if (existing != nullptr) before = detail::view(existing, existing_len);
            const auto views = detail::Merging::views(operands, operand_lens, count);
            return detail::copied(own->full(detail::view(key, key_len), before, views), value_len);
        } catch (const std::exception& error) {
            *why = detail::reason(error.what());
        } catch (...) {
            *why = detail::reason("the merge operator threw something that is no exception");
        }
        return nullptr;
    }

    static uint8_t* partial_merge(void* state, const uint8_t* key, size_t key_len,
                                  const uint8_t* const* operands, const size_t* operand_lens,
                                  size_t count, size_t* operand_len) noexcept {
        auto* own = static_cast<detail::Merging*>(state);
        try {
            const auto views = detail::Merging::views(operands, operand_lens, count);
            const auto one = own->partial(detail::view(key, key_len), views);
            return one ? detail::copied(*one, operand_len) : nullptr;
        } catch (...) {
            // Without a result the operands are kept.
            return nullptr;
        }
    }

    static int32_t filter(void* state, size_t, const uint8_t* key, size_t key_len,
                          const uint8_t* value, size_t value_len, uint8_t** new_value,
                          size_t* new_value_len) noexcept {
        auto* own = static_cast<detail::Filtering*>(state);
        try {
            const auto before = detail::view(value, value_len);
            const auto after = own->decide(detail::view(key, key_len), before);
            if (!after) return ESKER_FILTER_REMOVE;
            if (*after == before) return ESKER_FILTER_KEEP;
            *new_value = detail::copied(*after, new_value_len);
            return *new_value == nullptr ? ESKER_FILTER_KEEP : ESKER_FILTER_REPLACE;
        } catch (...) {
            return ESKER_FILTER_KEEP;
        }
    }

    detail::Owned<esker_options_t, esker_options_destroy> handle_;
};

// Options of a new keyspace. Those that are not set are the store's.
class KeyspaceOptions {
public:
    KeyspaceOptions() : handle_(esker_keyspace_options_create()) {}

    KeyspaceOptions& set(const std::string& name, const std::string& value) {
        detail::call(esker_keyspace_options_set, handle_.get(), name.c_str(), value.c_str());
        return *this;
    }
    // "esker.bytewise", "esker.reverse", or a comparator of the store's options.
    KeyspaceOptions& set_key_order(const std::string& name) {
        detail::call(esker_keyspace_options_set_key_order, handle_.get(), name.c_str());
        return *this;
    }
    KeyspaceOptions& set_merge_operator(const std::string& name) {
        detail::call(esker_keyspace_options_set_merge_operator, handle_.get(), name.c_str());
        return *this;
    }
    KeyspaceOptions& set_compaction_filter(const std::string& name) {
        detail::call(esker_keyspace_options_set_compaction_filter, handle_.get(), name.c_str());
        return *this;
    }
    // Time to live, in milliseconds, of pairs that are put without one.
    KeyspaceOptions& set_ttl_ms(uint64_t ttl_ms) {
        detail::call(esker_keyspace_options_set_ttl_ms, handle_.get(), ttl_ms);
        return *this;
    }

    const esker_keyspace_options_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_keyspace_options_t, esker_keyspace_options_destroy> handle_;
};

// A snapshot of a store.
class Snapshot {
public:
    explicit Snapshot(esker_snapshot_t* handle) : handle_(handle) {}
    const esker_snapshot_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_snapshot_t, esker_snapshot_destroy> handle_;
};

// What reads of a store or keyspace read. The snapshot must live during the call.
struct ReadOptions {
    // Null: the current state.
    const Snapshot* snapshot = nullptr;
    // Whether blocks that are read go to the cache.
    bool fill_cache = true;

    const esker_snapshot_t* handle() const noexcept {
        return snapshot == nullptr ? nullptr : snapshot->handle();
    }
};

// Bounds of a scan: from `start` (inclusive) to `end` (exclusive).
struct Bounds {
    std::optional<std::string_view> start = std::nullopt;
    std::optional<std::string_view> end = std::nullopt;
};

// A cursor over pairs in key order. One thread at a time may use it.
class Iterator {
public:
    explicit Iterator(esker_iter_t* handle) : handle_(handle) {}

    bool valid() const noexcept { return esker_iter_valid(handle_.get()) != 0; }
    // Moves fail with the iterator's failure, for example of a damaged table.
    void seek_to_first() { moved(esker_iter_seek_to_first); }
    void seek_to_last() { moved(esker_iter_seek_to_last); }
    // Moves to the first key at or after `key`.
    void seek(std::string_view key) {
        esker_iter_seek(handle_.get(), detail::bytes(key), key.size());
        check();
    }
    // Moves to the last key at or before `key`.
    void seek_for_prev(std::string_view key) {
        esker_iter_seek_for_prev(handle_.get(), detail::bytes(key), key.size());
        check();
    }
    void next() { moved(esker_iter_next); }
    void prev() { moved(esker_iter_prev); }

    // Empty if the iterator is not at a key.
    std::string_view key() const noexcept {
        size_t length = 0;
        const uint8_t* start = esker_iter_key(handle_.get(), &length);
        return detail::view(start, length);
    }
    std::string_view value() const noexcept {
        size_t length = 0;
        const uint8_t* start = esker_iter_value(handle_.get(), &length);
        return detail::view(start, length);
    }

private:
    void moved(void (*move)(esker_iter_t*)) {
        move(handle_.get());
        check();
    }
    void check() { detail::call(esker_iter_failure, handle_.get()); }

    detail::Owned<esker_iter_t, esker_iter_destroy> handle_;
};

// The pairs of a scan, for a range-for loop. They can be walked once.
class Pairs {
public:
    using Pair = std::pair<std::string_view, std::string_view>;

    Pairs(Iterator iterator, bool forward) : cursor_(std::move(iterator)), forward_(forward) {}

    class Position {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Pair;
        using difference_type = std::ptrdiff_t;
        using pointer = const Pair*;
        using reference = Pair;

        explicit Position(Pairs* pairs) : pairs_(pairs) {}
        Pair operator*() const { return {pairs_->cursor_.key(), pairs_->cursor_.value()}; }
        Position& operator++() {
            pairs_->forward_ ? pairs_->cursor_.next() : pairs_->cursor_.prev();
            if (!pairs_->cursor_.valid()) pairs_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(const Position& other) const { return pairs_ == other.pairs_; }
        bool operator!=(const Position& other) const { return pairs_ != other.pairs_; }

    private:
        Pairs* pairs_;
    };

    Position begin() {
        forward_ ? cursor_.seek_to_first() : cursor_.seek_to_last();
        return Position(cursor_.valid() ? this : nullptr);
    }
    Position end() { return Position(nullptr); }

private:
    Iterator cursor_;
    bool forward_;
};

// Kinds of changes in the change feed. The fields of each are those of the C constant.
enum class ChangeKind : int32_t {
    put = ESKER_CHANGE_PUT,
    merge = ESKER_CHANGE_MERGE,
    erase = ESKER_CHANGE_DELETE,
    erase_range = ESKER_CHANGE_DELETE_RANGE,
    clear = ESKER_CHANGE_CLEAR,
    keyspace_created = ESKER_CHANGE_KEYSPACE_CREATED,
    keyspace_renamed = ESKER_CHANGE_KEYSPACE_RENAMED,
    keyspace_dropped = ESKER_CHANGE_KEYSPACE_DROPPED,
};

// A change of a batch. Its views are valid until the next call on the feed.
class Change {
public:
    explicit Change(const esker_change_t* change) noexcept : change_(change) {}

    ChangeKind kind() const noexcept { return static_cast<ChangeKind>(change_->kind); }
    // The name that the keyspace had then.
    std::string_view keyspace() const noexcept { return change_->keyspace; }
    // The key, or the start of a range.
    std::string_view key() const noexcept { return detail::view(change_->key, change_->key_len); }
    // The value, the operand or the end of a range.
    std::string_view value() const noexcept {
        return detail::view(change_->value, change_->value_len);
    }
    // The time at which the pair expires, in milliseconds since 1970.
    std::optional<uint64_t> expires_ms() const noexcept {
        if (change_->expires_ms == ESKER_NEVER_MS) return std::nullopt;
        return change_->expires_ms;
    }
    // Of keyspaces; empty for other kinds. The options are `name=value` a line.
    std::string_view new_name() const noexcept { return text(change_->new_name); }
    std::string_view key_order() const noexcept { return text(change_->key_order); }
    std::string_view options() const noexcept { return text(change_->options); }

private:
    static std::string_view text(const char* text) noexcept {
        return text == nullptr ? std::string_view() : std::string_view(text);
    }

    const esker_change_t* change_;
};

// A committed batch of the change feed, as a range of its changes. It is valid until the next call on
// the feed.
class ChangeBatch {
public:
    class Position {
    public:
        explicit Position(const esker_change_t* const* at) noexcept : at_(at) {}
        Change operator*() const noexcept { return Change(*at_); }
        Position& operator++() noexcept {
            ++at_;
            return *this;
        }
        bool operator==(const Position& other) const noexcept { return at_ == other.at_; }
        bool operator!=(const Position& other) const noexcept { return at_ != other.at_; }

    private:
        const esker_change_t* const* at_;
    };

    explicit ChangeBatch(const esker_change_batch_t* batch) noexcept : batch_(batch) {}

    // The position after the batch.
    uint64_t sequence() const noexcept { return batch_->sequence; }
    uint64_t first_sequence() const noexcept { return batch_->first_sequence; }
    // Tells batches with the same sequence number apart.
    uint64_t checksum() const noexcept { return batch_->checksum; }
    // The position before the batch, and the checksum of the batch there; 0 if it is not known.
    uint64_t previous() const noexcept { return batch_->previous; }
    uint64_t previous_checksum() const noexcept { return batch_->previous_checksum; }
    // The number of this part of the batch, from 0 on, and whether more parts follow. The pairs of an
    // ingest or a bulk load come in parts. Confirm the position after the last part.
    uint64_t part() const noexcept { return batch_->part; }
    bool continues() const noexcept { return batch_->continues != 0; }

    size_t size() const noexcept { return batch_->changes_len; }
    Change operator[](size_t index) const noexcept { return Change(batch_->changes[index]); }
    Position begin() const noexcept { return Position(batch_->changes); }
    Position end() const noexcept { return Position(batch_->changes + batch_->changes_len); }

private:
    const esker_change_batch_t* batch_;
};

// The change feed of a store. A range-for loop over it ends at the present; a later loop goes on.
// One thread at a time may use it.
class Changes {
public:
    explicit Changes(esker_changes_t* handle) : handle_(handle) {}

    // The next batch; waits for it for at most `longest`. Nothing after that time. A close of the
    // store ends the wait with `Code::closed`.
    std::optional<ChangeBatch> next(std::chrono::milliseconds longest = {}) {
        const esker_change_batch_t* batch = nullptr;
        const auto wait_ms = static_cast<uint64_t>(std::max<int64_t>(longest.count(), 0));
        detail::call(esker_changes_next, handle_.get(), wait_ms, &batch);
        if (batch == nullptr) return std::nullopt;
        return ChangeBatch(batch);
    }
    // The sequence number of the last batch of which all parts were returned, or that had nothing for
    // the reader.
    uint64_t position() const noexcept { return esker_changes_position(handle_.get()); }

    class Position {
    public:
        explicit Position(Changes* changes) : changes_(changes) {
            if (changes_ != nullptr) ++*this;
        }
        const ChangeBatch& operator*() const noexcept { return *batch_; }
        Position& operator++() {
            batch_ = changes_->next();
            if (!batch_) changes_ = nullptr;
            return *this;
        }
        bool operator==(const Position& other) const noexcept { return changes_ == other.changes_; }
        bool operator!=(const Position& other) const noexcept { return changes_ != other.changes_; }

    private:
        Changes* changes_;
        std::optional<ChangeBatch> batch_;
    };

    Position begin() { return Position(this); }
    Position end() { return Position(nullptr); }

private:
    detail::Owned<esker_changes_t, esker_changes_destroy> handle_;
};

// A slot: a durable position in the change feed. It stays when this handle is destroyed.
class Slot {
public:
    explicit Slot(esker_slot_t* handle) : handle_(handle) {}

    // The position that was confirmed last, or that the slot began with. `Code::not_found`, with the
    // reason, if the slot was dropped.
    uint64_t position() const {
        uint64_t position = 0;
        detail::call(esker_slot_position, handle_.get(), &position);
        return position;
    }
    // The changes after the confirmed position.
    Changes changes() const {
        esker_changes_t* changes = nullptr;
        detail::call(esker_slot_changes, handle_.get(), &changes);
        return Changes(changes);
    }
    // Confirms every batch up to `position`, durably: the slot does not return them again.
    void confirm(uint64_t position) { detail::call(esker_slot_confirm, handle_.get(), position); }

private:
    detail::Owned<esker_slot_t, esker_slot_close> handle_;
};

// A slot of a store.
struct SlotInfo {
    std::string name;
    uint64_t position = 0;
    // Bytes of logs that are kept only for this slot and for slots that lag less, and their maximum.
    uint64_t lag_bytes = 0;
    std::optional<uint64_t> lag_limit_bytes;
    // Why the slot keeps no logs any more.
    std::optional<std::string> problem;
};

// A store that a fork descends from.
struct Ancestor {
    uint64_t store_id = 0;
    std::optional<std::string> name;
    // Its sequence number at the fork.
    uint64_t sequence = 0;
};

// The name that a fork got, and the stores that it descends from, the parent first.
struct Lineage {
    std::optional<std::string> name;
    std::vector<Ancestor> ancestors;
};

using ForkReport = esker_fork_report_t;
using IngestReport = esker_ingest_report_t;

// A key that is not the same in two compared stores. Its views are valid until the next call on the
// comparison.
class Difference {
public:
    explicit Difference(const esker_difference_t* found) noexcept : found_(found) {}

    std::string_view keyspace() const noexcept { return found_->keyspace; }
    std::string_view key() const noexcept { return detail::view(found_->key, found_->key_len); }
    // The values in the first and in the second store; nothing if the store does not have the key.
    std::optional<std::string_view> old_value() const noexcept {
        return side(found_->old_value, found_->old_value_len);
    }
    std::optional<std::string_view> new_value() const noexcept {
        return side(found_->new_value, found_->new_value_len);
    }
    // The times at which the pairs expire; `ESKER_NEVER_MS` if they do not.
    uint64_t old_expires_ms() const noexcept { return found_->old_expires_ms; }
    uint64_t new_expires_ms() const noexcept { return found_->new_expires_ms; }

private:
    static std::optional<std::string_view> side(const uint8_t* value, size_t length) noexcept {
        if (value == nullptr) return std::nullopt;
        return detail::view(value, length);
    }

    const esker_difference_t* found_;
};

// How two compared stores descend from each other: what the second is for the first.
enum class Relation : int32_t {
    same_store = ESKER_RELATION_SAME_STORE,
    descendant = ESKER_RELATION_DESCENDANT,
    ancestor = ESKER_RELATION_ANCESTOR,
    siblings = ESKER_RELATION_SIBLINGS,
    unrelated = ESKER_RELATION_UNRELATED,
};

// A comparison of two stores, for a range-for loop. It can be walked once.
class Diff {
public:
    explicit Diff(esker_diff_t* handle) : handle_(handle) {}

    // The next difference; nothing at the end.
    std::optional<Difference> next() {
        const esker_difference_t* found = nullptr;
        detail::call(esker_diff_next, handle_.get(), &found);
        if (found == nullptr) return std::nullopt;
        return Difference(found);
    }
    Relation relation() const noexcept {
        return static_cast<Relation>(esker_diff_relation(handle_.get()));
    }
    // The number of tables that both stores have.
    uint64_t shared_files() const noexcept { return esker_diff_shared_files(handle_.get()); }
    // The names of the keyspaces that only one store has, one per line.
    std::string keyspaces_only_in_old() const {
        return detail::taken(esker_diff_keyspaces_only_in(handle_.get(), 1));
    }
    std::string keyspaces_only_in_new() const {
        return detail::taken(esker_diff_keyspaces_only_in(handle_.get(), 0));
    }

    class Position {
    public:
        explicit Position(Diff* diff) : diff_(diff) {
            if (diff_ != nullptr) ++*this;
        }
        const Difference& operator*() const noexcept { return *found_; }
        Position& operator++() {
            found_ = diff_->next();
            if (!found_) diff_ = nullptr;
            return *this;
        }
        bool operator==(const Position& other) const noexcept { return diff_ == other.diff_; }
        bool operator!=(const Position& other) const noexcept { return diff_ != other.diff_; }

    private:
        Diff* diff_;
        std::optional<Difference> found_;
    };

    Position begin() { return Position(this); }
    Position end() { return Position(nullptr); }

private:
    detail::Owned<esker_diff_t, esker_diff_destroy> handle_;
};

// A writer of a table file outside of a store. Keys must be strictly ascending in the key order of
// the options. A writer that is destroyed before `finish` removes its file.
class SortedWriter {
public:
    explicit SortedWriter(const std::string& path, const Options& options = Options()) {
        esker_sorted_writer_t* writer = nullptr;
        detail::call(esker_sorted_writer_create, path.c_str(), options.handle(), &writer);
        handle_.reset(writer);
    }

    void put(std::string_view key, std::string_view value) {
        detail::call(esker_sorted_writer_put, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size());
    }
    void put_with_ttl(std::string_view key, std::string_view value, uint64_t ttl_ms) {
        detail::call(esker_sorted_writer_put_with_ttl, handle_.get(), detail::bytes(key),
                     key.size(), detail::bytes(value), value.size(), ttl_ms);
    }
    void merge(std::string_view key, std::string_view operand) {
        detail::call(esker_sorted_writer_merge, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(operand), operand.size());
    }
    void erase(std::string_view key) {
        detail::call(esker_sorted_writer_delete, handle_.get(), detail::bytes(key), key.size());
    }
    uint64_t entries() const noexcept { return esker_sorted_writer_entries(handle_.get()); }
    // Completes the file and makes it durable. The result is valid as long as the writer.
    const esker_sorted_file_t& finish() {
        const esker_sorted_file_t* file = nullptr;
        detail::call(esker_sorted_writer_finish, handle_.get(), &file);
        return *file;
    }

private:
    detail::Owned<esker_sorted_writer_t, esker_sorted_writer_destroy> handle_;
};

// Options of an ingest.
struct IngestOptions {
    // Whether the files stay where they are, and the store gets copies.
    bool copy = false;
    // Whether each file is read and checked as a whole first.
    bool verify = true;
};

namespace detail {

// A report that the library has returned.
template <class Report>
Report reported(Report* report) {
    std::unique_ptr<Report, Free> owned(report);
    if (!owned) throw std::bad_alloc();
    return *owned;
}

template <class Function, class Handle>
IngestReport ingest(Function function, Handle* handle, const std::vector<std::string>& files,
                    const IngestOptions& options) {
    std::vector<const char*> paths;
    for (const std::string& file : files) paths.push_back(file.c_str());
    esker_ingest_report_t* report = nullptr;
    call(function, handle, paths.data(), paths.size(), static_cast<uint8_t>(options.copy),
         static_cast<uint8_t>(options.verify), &report);
    return reported(report);
}

// Loads the pairs of `next`, which returns the next pair as an optional pair of strings or views, or
// nothing at the end.
template <class Function, class Handle, class Next>
IngestReport bulk_load(Function function, Handle* handle, Next& next) {
    using Given = decltype(next());
    struct State {
        Next* source;
        Given pair;
        std::exception_ptr thrown;
    } state{&next, {}, nullptr};
    esker_source_t source = [](void* own, const uint8_t** key, size_t* key_length,
                               const uint8_t** value, size_t* value_length) -> int32_t {
        auto* state = static_cast<State*>(own);
        try {
            state->pair = (*state->source)();
            if (!state->pair) return ESKER_SOURCE_END;
            const std::string_view first = state->pair->first, second = state->pair->second;
            *key = bytes(first);
            *key_length = first.size();
            *value = bytes(second);
            *value_length = second.size();
            return ESKER_SOURCE_PAIR;
        } catch (...) {
            state->thrown = std::current_exception();
            return ESKER_SOURCE_FAILED;
        }
    };
    esker_ingest_report_t* report = nullptr;
    try {
        call(function, handle, static_cast<void*>(&state), source, &report);
    } catch (const Error&) {
        if (state.thrown) std::rethrow_exception(state.thrown);
        throw;
    }
    return reported(report);
}

}  // namespace detail

// A handle of a keyspace: an ordered map of its own within a store.
class Keyspace {
public:
    explicit Keyspace(esker_keyspace_t* handle) : handle_(handle) {}

    std::string name() const { return detail::taken(esker_keyspace_name(handle_.get())); }
    uint32_t id() const noexcept { return esker_keyspace_id(handle_.get()); }

    void put(std::string_view key, std::string_view value,
             Durability durability = Durability::store_default) {
        detail::call(esker_keyspace_put, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size(), static_cast<int32_t>(durability));
    }
    void put_with_ttl(std::string_view key, std::string_view value, uint64_t ttl_ms,
                      Durability durability = Durability::store_default) {
        detail::call(esker_keyspace_put_with_ttl, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size(), ttl_ms, static_cast<int32_t>(durability));
    }
    void merge(std::string_view key, std::string_view operand,
               Durability durability = Durability::store_default) {
        detail::call(esker_keyspace_merge, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(operand), operand.size(), static_cast<int32_t>(durability));
    }
    void erase(std::string_view key, Durability durability = Durability::store_default) {
        detail::call(esker_keyspace_delete, handle_.get(), detail::bytes(key), key.size(),
                     static_cast<int32_t>(durability));
    }
    // Deletes the keys from `start` (inclusive) to `end` (exclusive).
    void erase_range(std::string_view start, std::string_view end,
                     Durability durability = Durability::store_default) {
        detail::call(esker_keyspace_delete_range, handle_.get(), detail::bytes(start),
                     start.size(), detail::bytes(end), end.size(),
                     static_cast<int32_t>(durability));
    }
    // Deletes all keys. Not for the keyspace `default`.
    void clear() { detail::call(esker_keyspace_clear, handle_.get()); }

    std::optional<std::string> get(std::string_view key, const ReadOptions& options = {}) const {
        uint8_t* value = nullptr;
        size_t length = 0;
        detail::call(esker_keyspace_get, handle_.get(), options.handle(), detail::bytes(key),
                     key.size(), &value, &length);
        return detail::taken(value, length);
    }
    bool contains(std::string_view key) const {
        uint8_t found = 0;
        detail::call(esker_keyspace_contains, handle_.get(), detail::bytes(key), key.size(),
                     &found);
        return found != 0;
    }
    // A cursor without a position. The bounds are copied.
    Iterator iterator(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        esker_iter_t* iter = nullptr;
        detail::call(esker_keyspace_iter_create, handle_.get(), options.handle(),
                     detail::bound(bounds.start), detail::length(bounds.start),
                     detail::bound(bounds.end), detail::length(bounds.end),
                     static_cast<uint8_t>(options.fill_cache), &iter);
        return Iterator(iter);
    }
    Pairs scan(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        return Pairs(iterator(bounds, options), true);
    }
    Pairs scan_backward(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        return Pairs(iterator(bounds, options), false);
    }

    // Makes files of sorted writers part of the keyspace, all of them at once.
    IngestReport ingest(const std::vector<std::string>& files, const IngestOptions& options = {}) {
        return detail::ingest(esker_keyspace_ingest, handle_.get(), files, options);
    }
    // Writes ascending pairs as tables. `next` returns the next pair as an optional pair of strings
    // or views, or nothing at the end. An exception of `next` is thrown again, and nothing is loaded.
    template <class Next>
    IngestReport bulk_load(Next next) {
        return detail::bulk_load(esker_keyspace_bulk_load, handle_.get(), next);
    }

    const esker_keyspace_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_keyspace_t, esker_keyspace_close> handle_;
};

// Operations that are applied together. One thread at a time may use it.
class Batch {
public:
    Batch() : handle_(esker_batch_create()) {}

    Batch& put(std::string_view key, std::string_view value) {
        detail::call(esker_batch_put, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size());
        return *this;
    }
    Batch& put(const Keyspace& keyspace, std::string_view key, std::string_view value) {
        detail::call(esker_batch_put_in, handle_.get(), keyspace.handle(), detail::bytes(key),
                     key.size(), detail::bytes(value), value.size());
        return *this;
    }
    Batch& put_with_ttl(std::string_view key, std::string_view value, uint64_t ttl_ms) {
        detail::call(esker_batch_put_with_ttl, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size(), ttl_ms);
        return *this;
    }
    Batch& put_with_ttl(const Keyspace& keyspace, std::string_view key, std::string_view value,
                        uint64_t ttl_ms) {
        detail::call(esker_batch_put_with_ttl_in, handle_.get(), keyspace.handle(),
                     detail::bytes(key), key.size(), detail::bytes(value), value.size(), ttl_ms);
        return *this;
    }
    Batch& merge(std::string_view key, std::string_view operand) {
        detail::call(esker_batch_merge, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(operand), operand.size());
        return *this;
    }
    Batch& merge(const Keyspace& keyspace, std::string_view key, std::string_view operand) {
        detail::call(esker_batch_merge_in, handle_.get(), keyspace.handle(), detail::bytes(key),
                     key.size(), detail::bytes(operand), operand.size());
        return *this;
    }
    Batch& erase(std::string_view key) {
        detail::call(esker_batch_delete, handle_.get(), detail::bytes(key), key.size());
        return *this;
    }
    Batch& erase(const Keyspace& keyspace, std::string_view key) {
        detail::call(esker_batch_delete_in, handle_.get(), keyspace.handle(), detail::bytes(key),
                     key.size());
        return *this;
    }
    Batch& erase_range(std::string_view start, std::string_view end) {
        detail::call(esker_batch_delete_range, handle_.get(), detail::bytes(start), start.size(),
                     detail::bytes(end), end.size());
        return *this;
    }
    Batch& erase_range(const Keyspace& keyspace, std::string_view start, std::string_view end) {
        detail::call(esker_batch_delete_range_in, handle_.get(), keyspace.handle(),
                     detail::bytes(start), start.size(), detail::bytes(end), end.size());
        return *this;
    }
    // Appends the operations of another batch.
    Batch& append(const Batch& other) {
        detail::call(esker_batch_append, handle_.get(), other.handle());
        return *this;
    }
    void clear() noexcept { esker_batch_clear(handle_.get()); }
    size_t count() const noexcept { return esker_batch_count(handle_.get()); }
    size_t size_bytes() const noexcept { return esker_batch_size_bytes(handle_.get()); }

    const esker_batch_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_batch_t, esker_batch_destroy> handle_;
};

// Options of a transaction.
class TransactionOptions {
public:
    TransactionOptions() : handle_(esker_transaction_options_create()) {}

    // Commits have the results of some order of the transactions. Default: snapshot isolation.
    TransactionOptions& set_serializable() {
        detail::call(esker_transaction_options_set_isolation, handle_.get(),
                     ESKER_ISOLATION_SERIALIZABLE);
        return *this;
    }
    // Writes lock their keys. Default: conflicts are found at the commit.
    TransactionOptions& set_pessimistic() {
        detail::call(esker_transaction_options_set_concurrency, handle_.get(),
                     ESKER_CONCURRENCY_PESSIMISTIC);
        return *this;
    }
    TransactionOptions& set_lock_timeout_ms(uint64_t lock_timeout_ms) {
        detail::call(esker_transaction_options_set_lock_timeout_ms, handle_.get(),
                     lock_timeout_ms);
        return *this;
    }
    TransactionOptions& set_durability(Durability durability) {
        detail::call(esker_transaction_options_set_durability, handle_.get(),
                     static_cast<int32_t>(durability));
        return *this;
    }

    const esker_transaction_options_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_transaction_options_t, esker_transaction_options_destroy> handle_;
};

// Reads and writes that take effect together or not at all. It is rolled back if it is destroyed
// before its commit. One thread at a time may use it.
class Transaction {
public:
    explicit Transaction(esker_transaction_t* handle) : handle_(handle) {}

    std::optional<std::string> get(std::string_view key) const {
        return read(esker_transaction_get, key);
    }
    std::optional<std::string> get(const Keyspace& keyspace, std::string_view key) const {
        return read_in(esker_transaction_get_in, keyspace, key);
    }
    // Reads, and protects the key as a write would.
    std::optional<std::string> get_for_update(std::string_view key) const {
        return read(esker_transaction_get_for_update, key);
    }
    std::optional<std::string> get_for_update(const Keyspace& keyspace,
                                              std::string_view key) const {
        return read_in(esker_transaction_get_for_update_in, keyspace, key);
    }
    void put(std::string_view key, std::string_view value) {
        detail::call(esker_transaction_put, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size());
    }
    void put(const Keyspace& keyspace, std::string_view key, std::string_view value) {
        detail::call(esker_transaction_put_in, handle_.get(), keyspace.handle(),
                     detail::bytes(key), key.size(), detail::bytes(value), value.size());
    }
    // The pair expires `ttl_ms` milliseconds after the commit.
    void put_with_ttl(std::string_view key, std::string_view value, uint64_t ttl_ms) {
        detail::call(esker_transaction_put_with_ttl, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size(), ttl_ms);
    }
    void put_with_ttl(const Keyspace& keyspace, std::string_view key, std::string_view value,
                      uint64_t ttl_ms) {
        detail::call(esker_transaction_put_with_ttl_in, handle_.get(), keyspace.handle(),
                     detail::bytes(key), key.size(), detail::bytes(value), value.size(), ttl_ms);
    }
    void merge(std::string_view key, std::string_view operand) {
        detail::call(esker_transaction_merge, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(operand), operand.size());
    }
    void merge(const Keyspace& keyspace, std::string_view key, std::string_view operand) {
        detail::call(esker_transaction_merge_in, handle_.get(), keyspace.handle(),
                     detail::bytes(key), key.size(), detail::bytes(operand), operand.size());
    }
    void erase(std::string_view key) {
        detail::call(esker_transaction_delete, handle_.get(), detail::bytes(key), key.size());
    }
    void erase(const Keyspace& keyspace, std::string_view key) {
        detail::call(esker_transaction_delete_in, handle_.get(), keyspace.handle(),
                     detail::bytes(key), key.size());
    }
    void erase_range(std::string_view start, std::string_view end) {
        detail::call(esker_transaction_delete_range, handle_.get(), detail::bytes(start),
                     start.size(), detail::bytes(end), end.size());
    }
    void erase_range(const Keyspace& keyspace, std::string_view start, std::string_view end) {
        detail::call(esker_transaction_delete_range_in, handle_.get(), keyspace.handle(),
                     detail::bytes(start), start.size(), detail::bytes(end), end.size());
    }
    // The snapshot of the transaction with its own writes over it.
    Pairs scan(const Bounds& bounds = {}) const {
        esker_iter_t* iter = nullptr;
        detail::call(esker_transaction_iter_create, handle_.get(), detail::bound(bounds.start),
                     detail::length(bounds.start), detail::bound(bounds.end),
                     detail::length(bounds.end), &iter);
        return Pairs(Iterator(iter), true);
    }
    Pairs scan(const Keyspace& keyspace, const Bounds& bounds = {}) const {
        esker_iter_t* iter = nullptr;
        detail::call(esker_transaction_iter_create_in, handle_.get(), keyspace.handle(),
                     detail::bound(bounds.start), detail::length(bounds.start),
                     detail::bound(bounds.end), detail::length(bounds.end), &iter);
        return Pairs(Iterator(iter), true);
    }

    void set_savepoint() { detail::call(esker_transaction_savepoint, handle_.get()); }
    void rollback_to_savepoint() {
        detail::call(esker_transaction_rollback_to_savepoint, handle_.get());
    }
    void pop_savepoint() { detail::call(esker_transaction_pop_savepoint, handle_.get()); }
    // After a failure nothing was written. See `esker_transaction_commit`.
    void commit() { detail::call(esker_transaction_commit, handle_.get()); }
    void rollback() { detail::call(esker_transaction_rollback, handle_.get()); }
    // Stores the transaction under a name, so that `Db::commit_prepared` cannot conflict.
    void prepare(const std::string& name) {
        detail::call(esker_transaction_prepare, handle_.get(), name.c_str());
    }
    uint64_t id() const noexcept { return esker_transaction_id(handle_.get()); }

private:
    template <class Function>
    std::optional<std::string> read(Function function, std::string_view key) const {
        uint8_t* value = nullptr;
        size_t length = 0;
        detail::call(function, handle_.get(), detail::bytes(key), key.size(), &value, &length);
        return detail::taken(value, length);
    }
    template <class Function>
    std::optional<std::string> read_in(Function function, const Keyspace& keyspace,
                                       std::string_view key) const {
        uint8_t* value = nullptr;
        size_t length = 0;
        detail::call(function, handle_.get(), keyspace.handle(), detail::bytes(key), key.size(),
                     &value, &length);
        return detail::taken(value, length);
    }

    detail::Owned<esker_transaction_t, esker_transaction_destroy> handle_;
};

// What writes wait for.
struct Stall {
    // Why they wait, and what ends the wait: sentences without their ends.
    std::string cause;
    std::string clears;
    // Bytes that have to be written to tables before writes go on at full speed.
    uint64_t bytes = 0;
    std::chrono::nanoseconds duration{};
    // False: each write is only slowed.
    bool is_stopped = false;
};

class Follower;

// An open store. Many threads may use it at once. It is closed when it is destroyed.
class Db {
public:
    // Opens the store in a directory, and creates it if it is missing.
    static Db open(const std::string& path, const Options& options = Options()) {
        esker_db_t* db = nullptr;
        detail::call(esker_open, path.c_str(), options.handle(), &db);
        return Db(db);
    }
    // Opens the current state of a store, which may be open elsewhere.
    static Db open_read_only(const std::string& path, const Options& options = Options()) {
        esker_db_t* db = nullptr;
        detail::call(esker_open_read_only, path.c_str(), options.handle(), &db);
        return Db(db);
    }
    // Follows a store that another process writes, read-only.
    static Follower follow(const std::string& path, const Options& options = Options());

    void put(std::string_view key, std::string_view value,
             Durability durability = Durability::store_default) {
        detail::call(esker_put, handle(), detail::bytes(key), key.size(), detail::bytes(value),
                     value.size(), static_cast<int32_t>(durability));
    }
    // The pair does not exist any more after `ttl_ms` milliseconds.
    void put_with_ttl(std::string_view key, std::string_view value, uint64_t ttl_ms,
                      Durability durability = Durability::store_default) {
        detail::call(esker_put_with_ttl, handle(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size(), ttl_ms, static_cast<int32_t>(durability));
    }
    void merge(std::string_view key, std::string_view operand,
               Durability durability = Durability::store_default) {
        detail::call(esker_merge, handle(), detail::bytes(key), key.size(),
                     detail::bytes(operand), operand.size(), static_cast<int32_t>(durability));
    }
    void erase(std::string_view key, Durability durability = Durability::store_default) {
        detail::call(esker_delete, handle(), detail::bytes(key), key.size(),
                     static_cast<int32_t>(durability));
    }
    void erase_range(std::string_view start, std::string_view end,
                     Durability durability = Durability::store_default) {
        detail::call(esker_delete_range, handle(), detail::bytes(start), start.size(),
                     detail::bytes(end), end.size(), static_cast<int32_t>(durability));
    }
    // Applies the operations of a batch together.
    void write(const Batch& batch, Durability durability = Durability::store_default) {
        detail::call(esker_write, handle(), batch.handle(), static_cast<int32_t>(durability));
    }

    // The same, but fails with `Code::busy` if it would wait longer than `longest` for memory.
    void write_within(const Batch& batch, std::chrono::milliseconds longest,
                      Durability durability = Durability::store_default) {
        const auto wait_ms = std::max<int64_t>(longest.count(), 0);
        detail::call(esker_write_within, handle(), batch.handle(),
                     static_cast<int32_t>(durability), static_cast<uint64_t>(wait_ms));
    }
    // Deletes a key, and returns whether it existed.
    bool remove(std::string_view key) {
        uint8_t existed = 0;
        detail::call(esker_remove, handle(), detail::bytes(key), key.size(), &existed);
        return existed != 0;
    }
    // Gives a pair a new time to live, in milliseconds. Returns whether there is such a pair.
    bool touch(std::string_view key, uint64_t ttl_ms) {
        uint8_t existed = 0;
        detail::call(esker_touch, handle(), detail::bytes(key), key.size(), ttl_ms, &existed);
        return existed != 0;
    }

    std::optional<std::string> get(std::string_view key, const ReadOptions& options = {}) const {
        uint8_t* value = nullptr;
        size_t length = 0;
        detail::call(esker_get, handle(), options.handle(), detail::bytes(key), key.size(),
                     &value, &length);
        return detail::taken(value, length);
    }
    // Passes the value to `visit` without a copy, and returns whether the key exists. An exception
    // of `visit` is thrown again.
    template <class Visit>
    bool read(std::string_view key, Visit&& visit, const ReadOptions& options = {}) const {
        struct State {
            std::remove_reference_t<Visit>* visit;
            bool found = false;
            std::exception_ptr thrown;
        } state{&visit, false, nullptr};
        esker_visit_value_t receive = [](void* own, const uint8_t* value, size_t length) {
            auto* state = static_cast<State*>(own);
            state->found = true;
            try {
                (*state->visit)(detail::view(value, length));
            } catch (...) {
                state->thrown = std::current_exception();
            }
        };
        detail::call(esker_get_visit, handle(), options.handle(),
                     static_cast<uint8_t>(options.fill_cache), detail::bytes(key), key.size(),
                     static_cast<void*>(&state), receive);
        if (state.thrown) std::rethrow_exception(state.thrown);
        return state.found;
    }
    // The values of the keys as of one moment, in the order of the keys.
    std::vector<std::optional<std::string>> multi_get(const std::vector<std::string_view>& keys,
                                                      const ReadOptions& options = {}) const {
        std::vector<const uint8_t*> starts;
        std::vector<size_t> lengths;
        for (std::string_view key : keys) {
            starts.push_back(detail::bytes(key));
            lengths.push_back(key.size());
        }
        std::vector<uint8_t*> values(keys.size(), nullptr);
        std::vector<size_t> value_lengths(keys.size(), 0);
        if (!keys.empty() && options.snapshot != nullptr) {
            detail::call(esker_snapshot_multi_get, options.handle(), keys.size(), starts.data(),
                         lengths.data(), values.data(), value_lengths.data());
        } else if (!keys.empty()) {
            detail::call(esker_multi_get, handle(), keys.size(), starts.data(), lengths.data(),
                         values.data(), value_lengths.data());
        }
        std::vector<std::unique_ptr<uint8_t, detail::Free>> owned(values.begin(), values.end());
        std::vector<std::optional<std::string>> found;
        for (size_t i = 0; i < keys.size(); ++i) {
            found.push_back(detail::taken(owned[i].release(), value_lengths[i]));
        }
        return found;
    }
    bool contains(std::string_view key) const {
        uint8_t found = 0;
        detail::call(esker_contains, handle(), detail::bytes(key), key.size(), &found);
        return found != 0;
    }
    // A cursor without a position.
    Iterator iterator(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        esker_iter_t* iter = nullptr;
        detail::call(esker_iter_create, handle(), options.handle(), detail::bound(bounds.start),
                     detail::length(bounds.start), detail::bound(bounds.end),
                     detail::length(bounds.end), static_cast<uint8_t>(options.fill_cache), &iter);
        return Iterator(iter);
    }
    Pairs scan(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        return Pairs(iterator(bounds, options), true);
    }
    Pairs scan_backward(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        return Pairs(iterator(bounds, options), false);
    }

    Snapshot snapshot() const {
        esker_snapshot_t* snapshot = nullptr;
        detail::call(esker_snapshot_create, handle(), &snapshot);
        return Snapshot(snapshot);
    }

    // Opens a keyspace, and creates it if it does not exist.
    Keyspace keyspace(const std::string& name, const KeyspaceOptions& options = {}) {
        esker_keyspace_t* keyspace = nullptr;
        detail::call(esker_keyspace_open, handle(), name.c_str(), options.handle(), &keyspace);
        return Keyspace(keyspace);
    }
    // Opens a keyspace, whatever its options are; nothing if there is none of this name.
    std::optional<Keyspace> find_keyspace(const std::string& name) const {
        esker_keyspace_t* keyspace = nullptr;
        detail::call(esker_keyspace_find, handle(), name.c_str(), &keyspace);
        if (keyspace == nullptr) return std::nullopt;
        return Keyspace(keyspace);
    }
    // The names of all keyspaces: `default`, then the others in alphabetical order.
    std::vector<std::string> keyspaces() const {
        char* text = nullptr;
        detail::call(esker_keyspaces, handle(), &text);
        const std::string all = detail::taken(text);
        std::vector<std::string> names;
        for (size_t start = 0; start < all.size();) {
            const size_t end = std::min(all.find('\n', start), all.size());
            names.push_back(all.substr(start, end - start));
            start = end + 1;
        }
        return names;
    }
    void rename_keyspace(const std::string& name, const std::string& new_name) {
        detail::call(esker_keyspace_rename, handle(), name.c_str(), new_name.c_str());
    }
    // Drops a keyspace with all its keys.
    void drop_keyspace(const std::string& name) {
        detail::call(esker_keyspace_drop, handle(), name.c_str());
    }

    Transaction transaction(const TransactionOptions& options = {}) {
        esker_transaction_t* transaction = nullptr;
        detail::call(esker_transaction_begin, handle(), options.handle(), &transaction);
        return Transaction(transaction);
    }
    // Runs `work` in transactions until one commits, and returns what it returned. A conflict, a
    // lock that was not free in time, and a deadlock run it again, `attempts` times at most; any
    // other exception rolls the transaction back and is thrown again.
    template <class Work>
    auto transact(Work&& work, const TransactionOptions& options = {}, int attempts = 100) {
        for (;; --attempts) {
            Transaction own = transaction(options);
            try {
                if constexpr (std::is_void_v<decltype(work(own))>) {
                    work(own);
                    own.commit();
                    return;
                } else {
                    auto result = work(own);
                    own.commit();
                    return result;
                }
            } catch (const Error& error) {
                const bool again = error.code() == Code::conflict || error.code() == Code::busy ||
                                   error.code() == Code::deadlock;
                if (!again || attempts <= 1) throw;
            }
        }
    }
    // The names of the prepared transactions, in alphabetical order.
    std::vector<std::string> prepared_transactions() const {
        std::vector<std::string> names;
        esker_visit_name_t visit = [](void* own, const uint8_t* name, size_t length) {
            static_cast<std::vector<std::string>*>(own)->emplace_back(detail::view(name, length));
        };
        detail::call(esker_prepared_transactions, handle(), static_cast<void*>(&names), visit);
        return names;
    }
    void commit_prepared(const std::string& name) {
        detail::call(esker_commit_prepared, handle(), name.c_str());
    }
    void rollback_prepared(const std::string& name) {
        detail::call(esker_rollback_prepared, handle(), name.c_str());
    }

    // What writes wait for now; nothing if they run at full speed.
    std::optional<Stall> stall() const {
        esker_stall_t* found = nullptr;
        detail::call(esker_stall, handle(), &found);
        detail::Owned<esker_stall_t, esker_stall_destroy> owned(found);
        if (!owned) return std::nullopt;
        Stall stall;
        stall.cause = found->cause;
        stall.clears = found->clears;
        stall.bytes = found->bytes;
        stall.duration = std::chrono::nanoseconds(found->duration_ns);
        stall.is_stopped = found->is_stopped != 0;
        return stall;
    }
    // What the opening found that a crash had lost, one sentence a line.
    std::string recovery_notes() const {
        char* text = nullptr;
        detail::call(esker_recovery_notes, handle(), &text);
        return detail::taken(text);
    }
    // The random number that the store got when it was created.
    uint64_t store_id() const {
        uint64_t id = 0;
        detail::call(esker_store_id, handle(), &id);
        return id;
    }
    // Runs one flush or compaction in a store with the option `background_threads` 0. Returns
    // whether one was due.
    bool run_one_job() {
        uint8_t ran = 0;
        detail::call(esker_run_one_job, handle(), &ran);
        return ran != 0;
    }

    // Writes all memtables to tables.
    void flush() { detail::call(esker_flush, handle()); }
    // Makes all earlier logged writes survive a power loss.
    void sync() { detail::call(esker_sync, handle()); }
    void wait_idle() { detail::call(esker_wait_idle, handle()); }
    void compact_range(const Bounds& bounds = {}) {
        detail::call(esker_compact_range, handle(), detail::bound(bounds.start),
                     detail::length(bounds.start), detail::bound(bounds.end),
                     detail::length(bounds.end));
    }
    // Creates a second store with the same content, by hard links.
    void checkpoint(const std::string& path) {
        detail::call(esker_checkpoint, handle(), path.c_str());
    }
    // Raises the format version of the store. Earlier releases refuse it from then on.
    void upgrade_format(uint32_t to) { detail::call(esker_upgrade_format, handle(), to); }
    // Adds a backup to a directory, and returns its number.
    uint64_t backup(const std::string& path) {
        uint64_t number = 0;
        uint64_t copied = 0;
        detail::call(esker_backup, handle(), path.c_str(), uint8_t{0}, &number, &copied);
        return number;
    }
    // Reads and checks every byte of the store.
    void verify() const { detail::call(esker_verify, handle()); }
    void set_option(const std::string& name, const std::string& value) {
        detail::call(esker_set_option, handle(), name.c_str(), value.c_str());
    }
    std::optional<std::string> property(const std::string& name) const {
        char* text = esker_property(handle(), name.c_str());
        if (text == nullptr) return std::nullopt;
        return detail::taken(text);
    }
    // The metrics in the OpenMetrics text format.
    std::string openmetrics() const {
        char* text = nullptr;
        detail::call(esker_openmetrics, handle(), &text);
        return detail::taken(text);
    }
    // The change feed after position `from`; 0 for all that the logs still have.
    Changes changes(uint64_t from = 0) const {
        esker_changes_t* changes = nullptr;
        detail::call(esker_changes_create, handle(), from, &changes);
        return Changes(changes);
    }
    // The slot of this name, which is made at the present if it does not exist. It keeps the logs that
    // its reader has not confirmed, at most `lag_limit_bytes` of them.
    Slot subscribe(const std::string& name, uint64_t lag_limit_bytes = ESKER_LAG_LIMIT_DEFAULT) {
        esker_slot_t* slot = nullptr;
        detail::call(esker_subscribe, handle(), name.c_str(), lag_limit_bytes, &slot);
        return Slot(slot);
    }
    // The slot of this name.
    Slot slot(const std::string& name) const {
        esker_slot_t* slot = nullptr;
        detail::call(esker_slot_open, handle(), name.c_str(), &slot);
        return Slot(slot);
    }
    // The slots, in alphabetical order.
    std::vector<SlotInfo> slots() const {
        std::vector<SlotInfo> slots;
        esker_visit_slot_t visit = [](void* own, const esker_slot_info_t* found) {
            SlotInfo slot;
            slot.name = found->name;
            slot.position = found->position;
            slot.lag_bytes = found->lag_bytes;
            if (found->lag_limit_bytes != ESKER_LAG_UNLIMITED) {
                slot.lag_limit_bytes = found->lag_limit_bytes;
            }
            if (found->problem != nullptr) slot.problem = found->problem;
            static_cast<std::vector<SlotInfo>*>(own)->push_back(std::move(slot));
        };
        detail::call(esker_slots, handle(), static_cast<void*>(&slots), visit);
        return slots;
    }
    void drop_slot(const std::string& name) {
        detail::call(esker_drop_slot, handle(), name.c_str());
    }
    // A snapshot and its position in the feed: it has every batch up to the position, and no later.
    std::pair<Snapshot, uint64_t> snapshot_with_position() const {
        esker_snapshot_t* snapshot = nullptr;
        uint64_t position = 0;
        detail::call(esker_snapshot_create_with_position, handle(), &snapshot, &position);
        return {Snapshot(snapshot), position};
    }

    // Creates a store of its own in `path` that begins with the content of this one, by hard links.
    ForkReport fork(const std::string& path, const std::optional<std::string>& name = {}) const {
        esker_fork_report_t* report = nullptr;
        detail::call(esker_fork, handle(), path.c_str(), name ? name->c_str() : nullptr, &report);
        return detail::reported(report);
    }
    // The name that the store got as a fork, and the stores that it descends from.
    Lineage lineage() const {
        Lineage lineage;
        esker_visit_ancestor_t visit = [](void* own, uint64_t id, const char* name, uint64_t at) {
            std::optional<std::string> known;
            if (name != nullptr) known = name;
            static_cast<Lineage*>(own)->ancestors.push_back({id, std::move(known), at});
        };
        char* name = nullptr;
        detail::call(esker_lineage, handle(), &name, static_cast<void*>(&lineage), visit);
        if (name != nullptr) lineage.name = detail::taken(name);
        return lineage;
    }

    // Makes files of sorted writers part of the store, all of them at once.
    IngestReport ingest(const std::vector<std::string>& files, const IngestOptions& options = {}) {
        return detail::ingest(esker_ingest, handle(), files, options);
    }
    // Writes ascending pairs as tables. See `Keyspace::bulk_load`.
    template <class Next>
    IngestReport bulk_load(Next next) {
        return detail::bulk_load(esker_bulk_load, handle(), next);
    }

    // Closes the store and waits for running calls. Later calls fail.
    void close() { detail::call(esker_close, handle()); }

    const esker_db_t* handle() const noexcept { return handle_.get(); }

private:
    friend class Follower;
    explicit Db(esker_db_t* handle) : handle_(handle) {}

    detail::Owned<esker_db_t, esker_db_destroy> handle_;
};

// How far a follower is behind. Positions are sequence numbers, as in the change feed.
struct FollowerLag {
    // Of the last operation that the newest view shows.
    uint64_t position = 0;
    // Of the last operation that the store has now.
    uint64_t newest = 0;
    // Number of sequence numbers between the two.
    uint64_t operations = 0;
    // Time since the begin of the last catch-up that did not fail.
    std::chrono::milliseconds age{};
    // Why the last catch-up failed, if it did.
    std::optional<Error> error;
};

// A follower of a store that another process writes, from `Db::follow`. Many threads may use it at once.
class Follower {
public:
    // The newest view: a store open read-only, which never changes.
    Db db() const {
        esker_db_t* db = nullptr;
        detail::call(esker_follower_db, handle_.get(), &db);
        return Db(db);
    }
    // The position of the newest view.
    uint64_t position() const noexcept { return esker_follower_position(handle_.get()); }
    // Makes the newest view show what the store has now. Returns its position.
    uint64_t catch_up() {
        uint64_t position = 0;
        detail::call(esker_follower_catch_up, handle_.get(), &position);
        return position;
    }
    // Lets a thread catch up whenever this time has passed. It ends with the follower.
    void catch_up_every(std::chrono::milliseconds interval) {
        const auto interval_ms = static_cast<uint64_t>(std::max<int64_t>(interval.count(), 0));
        detail::call(esker_follower_catch_up_every, handle_.get(), interval_ms);
    }
    // Catches up until the newest view shows `position`, for at most `longest`. Returns whether it does.
    bool wait_for(uint64_t position, std::chrono::milliseconds longest) {
        uint8_t shown = 0;
        const auto wait_ms = static_cast<uint64_t>(std::max<int64_t>(longest.count(), 0));
        detail::call(esker_follower_wait_for, handle_.get(), position, wait_ms, &shown);
        return shown != 0;
    }
    // How far the newest view is behind the store.
    FollowerLag lag() const {
        esker_follower_lag_t* found = nullptr;
        char* error = nullptr;
        detail::call(esker_follower_lag, handle_.get(), &found, &error);
        std::unique_ptr<esker_follower_lag_t, detail::Free> owned(found);
        const std::string text = detail::taken(error);
        if (!owned) throw std::bad_alloc();
        FollowerLag lag;
        lag.position = found->position;
        lag.newest = found->newest;
        lag.operations = found->operations;
        lag.age = std::chrono::milliseconds(found->age_ms);
        if (found->error_code != ESKER_OK) lag.error = Error(Code(found->error_code), text);
        return lag;
    }
    // Opens the store for writing, when its writer has ended. Fails with `Code::locked` while it lives.
    Db promote() {
        esker_db_t* db = nullptr;
        detail::call(esker_follower_promote, handle_.get(), &db);
        return Db(db);
    }

    const esker_follower_t* handle() const noexcept { return handle_.get(); }

private:
    friend class Db;
    explicit Follower(esker_follower_t* handle) : handle_(handle) {}

    detail::Owned<esker_follower_t, esker_follower_destroy> handle_;
};

inline Follower Db::follow(const std::string& path, const Options& options) {
    esker_follower_t* follower = nullptr;
    detail::call(esker_follow, path.c_str(), options.handle(), &follower);
    return Follower(follower);
}

// Compares two stores, or snapshots of them if these are not null: all keyspaces, or only one.
inline Diff diff(const Db& old_db, const Db& new_db, const std::optional<std::string>& keyspace = {},
                 const Snapshot* old_snapshot = nullptr, const Snapshot* new_snapshot = nullptr) {
    esker_diff_t* diff = nullptr;
    detail::call(esker_diff_create, old_db.handle(),
                 old_snapshot == nullptr ? nullptr : old_snapshot->handle(), new_db.handle(),
                 new_snapshot == nullptr ? nullptr : new_snapshot->handle(),
                 keyspace ? keyspace->c_str() : nullptr, &diff);
    return Diff(diff);
}

// Removes a store that is not open.
inline void destroy(const std::string& path, const Options& options = Options()) {
    detail::call(esker_destroy_store, path.c_str(), options.handle());
}

// Rebuilds a store that is not open from its intact parts, and returns the losses, one per line.
inline std::string repair(const std::string& path, const Options& options = Options()) {
    char* lost = nullptr;
    detail::call(esker_repair, path.c_str(), options.handle(), &lost);
    return detail::taken(lost);
}

// Restores a backup (0: the newest) into a directory that does not exist, and returns its number.
inline uint64_t restore(const std::string& path, const std::string& into, uint64_t number = 0,
                        const Options& options = Options()) {
    uint64_t restored = 0;
    detail::call(esker_restore, path.c_str(), number, into.c_str(), options.handle(), &restored);
    return restored;
}

// Result of `rekey`.
struct RekeyReport {
    // Names of the master keys before and now.
    std::string from;
    std::string to;
    // Number of data keys that files of the store still need, without the new one.
    uint64_t data_keys = 0;
    // Number of data keys that no file needed, and that were removed.
    uint64_t removed_data_keys = 0;
};

// Changes the key of an encrypted store that is not open, from that of `options` to that of
// `new_options`.
inline RekeyReport rekey(const std::string& path, const Options& options,
                         const Options& new_options) {
    esker_rekey_report_t* made = nullptr;
    detail::call(esker_rekey, path.c_str(), options.handle(), new_options.handle(), &made);
    std::unique_ptr<esker_rekey_report_t, detail::Free> owned(made);
    if (!owned) throw std::bad_alloc();
    return {made->from, made->to, made->data_keys, made->removed_data_keys};
}

// The version of the library, such as "0.1.0".
inline std::string version() { return esker_version(); }

}  // namespace esker

#endif  // ESKER_HPP
