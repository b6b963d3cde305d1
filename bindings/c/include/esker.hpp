// Esker's C++17 interface: a header over esker.h, without a library of its own.
//
// Rules:
// 1. Every object owns its C handle and frees it once. Objects can be moved; none can be copied.
//    A moved-from object may only be destroyed or assigned. A `Perf` belongs to its thread and
//    cannot be moved.
// 2. A failure is an `esker::Error`, with the code and the message of the C function. Functions
//    that only read a position of an iterator do not fail.
// 3. Keys and values are passed as `std::string_view` and may hold any bytes. A view that an
//    iterator returns is valid until the iterator is moved or destroyed. With C++20, `view_of` and
//    `span_of` convert between views and `std::span<const std::byte>`.
// 4. No exception leaves a callback: the functions for key orders must be `noexcept`, and an
//    exception of a merge operator or a compaction filter is caught and becomes a failure of the
//    read, or keeps the pair. After an exception of a filter policy, its table may contain every
//    key. An exception of a function that visits something, gives bytes or takes them is thrown
//    again by the call that called the function.
// 5. A snapshot, an iterator, a keyspace, a transaction, a slot, a feed, a comparison, a change
//    writer and an applier may be destroyed before or after their store, and a view or a promoted
//    store before or after its follower.
//
//     esker::Db db = esker::Db::open("fruit.db");
//     db.put("apple", "red");
//     for (auto [key, value] : db.scan()) std::cout << key << " = " << value << "\n";

#ifndef ESKER_HPP
#define ESKER_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<version>)
#include <version>
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif

#include "esker.h"

namespace esker {

// Kinds of failures. The meaning of each is that of the C constant.
enum class Code : int32_t {
    // An argument is invalid. Nothing was changed.
    invalid_argument = ESKER_INVALID_ARGUMENT,
    // Bytes on disk differ from the bytes written. They were not returned.
    corruption = ESKER_CORRUPTION,
    // The operating system refused an operation.
    io = ESKER_IO,
    // The device or a quota is full. No acknowledged write is lost.
    no_space = ESKER_NO_SPACE,
    // Another process or handle has the store open.
    locked = ESKER_LOCKED,
    // The directory has another format, version or key order, or belongs to another program or
    // store.
    incompatible = ESKER_INCOMPATIBLE,
    // The store accepts no writes: it was opened read-only, or an earlier sync of its log failed.
    read_only = ESKER_READ_ONLY,
    // The store was closed.
    closed = ESKER_CLOSED,
    // A defect in Esker. Please report the message.
    internal = ESKER_INTERNAL,
    // The named store, keyspace, backup or slot does not exist. Nothing was changed.
    not_found = ESKER_NOT_FOUND,
    // A transaction conflicts with another commit. Nothing was written. `Db::transact` runs it
    // again.
    conflict = ESKER_CONFLICT,
    // A wait for a lock, or of a write for memory, ended at its deadline. Nothing was written.
    busy = ESKER_BUSY,
    // Transactions wait for each other's locks. Nothing was written. `Db::transact` runs the
    // transaction again.
    deadlock = ESKER_DEADLOCK,
};

// A failure of a call.
class Error : public std::runtime_error {
public:
    // A failure of this kind. `what` returns the message.
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

#if defined(__cpp_lib_span)
// The bytes of a span as a view, for the functions that take a key or a value. It is valid as long
// as the bytes of the span.
inline std::string_view view_of(std::span<const std::byte> bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The bytes of a view as a span. It is valid as long as the bytes of the view.
inline std::span<const std::byte> span_of(std::string_view view) noexcept {
    return std::as_bytes(std::span<const char>(view.data(), view.size()));
}
#endif

namespace detail {

inline const void* bytes(std::string_view text) {
    // The C functions take NULL as "no bound"; an empty view may have no address.
    return text.data() == nullptr ? "" : text.data();
}

inline const void* bound(const std::optional<std::string_view>& text) {
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

// Passes what the library visits to a function of the program. An exception does not leave it:
// nothing is passed after the exception, and `finish` throws it again.
template <class Visit, class Receive>
class Visitor;

template <class Visit, class... Arguments>
class Visitor<Visit, void (*)(void*, Arguments...)> {
public:
    explicit Visitor(Visit& visit) noexcept : visit_(&visit) {}

    static void receive(void* own, Arguments... arguments) noexcept {
        auto* self = static_cast<Visitor*>(own);
        if (self->thrown_) return;
        try {
            (*self->visit_)(arguments...);
        } catch (...) {
            self->thrown_ = std::current_exception();
        }
    }

    void finish() const {
        if (thrown_) std::rethrow_exception(thrown_);
    }

private:
    Visit* visit_;
    std::exception_ptr thrown_;
};

// Calls a C function whose last arguments are a state, a function of the type `Receive` that gets
// it, and the place of the message. `visit` gets the other arguments of that function.
template <class Receive, class Visit, class Function, class... Arguments>
void call_visiting(Visit& visit, Function function, Arguments... arguments) {
    Visitor<Visit, Receive> visitor(visit);
    const Receive receive = &Visitor<Visit, Receive>::receive;
    call(function, arguments..., static_cast<void*>(&visitor), receive);
    visitor.finish();
}

// A function of the program that gives or takes bytes, and what it threw.
template <class Function>
struct Moving {
    Function function;
    std::exception_ptr thrown;

    // Gives bytes to the library.
    static int64_t give(void* own, uint8_t* buffer, size_t length) noexcept {
        auto* self = static_cast<Moving*>(own);
        try {
            const size_t given = self->function(reinterpret_cast<char*>(buffer), length);
            return static_cast<int64_t>(given);
        } catch (...) {
            self->thrown = std::current_exception();
            return -1;
        }
    }

    // Takes bytes of the library.
    static int32_t take(void* own, const uint8_t* start, size_t length) noexcept {
        auto* self = static_cast<Moving*>(own);
        try {
            self->function(view(start, length));
            return 0;
        } catch (...) {
            self->thrown = std::current_exception();
            return 1;
        }
    }

    // Calls a C function that may call the function. An exception of the function is thrown again.
    template <class Called, class... Arguments>
    void call_moving(Called called, Arguments... arguments) {
        try {
            call(called, arguments...);
        } catch (const Error&) {
            if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
            throw;
        }
    }
};

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

struct Sifting {
    using Keys = std::vector<std::string_view>;
    std::string name;
    std::function<std::string(const Keys&)> create;
    std::function<bool(std::string_view, std::string_view)> may_match;
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

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_runtime_options_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_runtime_options_t* handle() noexcept { return handle_.get(); }

private:
    detail::Owned<esker_runtime_options_t, esker_runtime_options_destroy> handle_;
};

// Threads, memory and background input and output that stores share. It may be gone before they
// are closed.
class Runtime {
public:
    // Creates a runtime. Its threads start when there is work, and end when this object is gone and
    // the last of its stores is closed. It must not be used in a child of a fork. Throws `Error`
    // with `Code::invalid_argument` for an option that is out of its range.
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

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_runtime_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_runtime_t, esker_runtime_destroy> handle_;
};

// An in-memory file system for tests. Its stores are lost once it and the last store are gone.
class Memory {
public:
    Memory() : handle_(esker_memory_create()) {}
    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
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

    // Sets the key order of the keyspace `default`. `compare` returns a negative number, zero or a
    // positive number, from any thread, and must not throw: an exception ends the program. The order
    // of a name must never change. `equal_is_identical` promises that keys that compare as equal
    // always have the same bytes: tables then get Bloom filters.
    Options& set_comparator(std::string name,
                            std::function<int(std::string_view, std::string_view)> compare,
                            bool equal_is_identical = false) {
        return add_comparator(esker_options_set_comparator, std::move(name), std::move(compare),
                              equal_is_identical);
    }

    // Adds a key order that keyspaces may have, as `set_comparator`.
    Options& add_comparator(std::string name,
                            std::function<int(std::string_view, std::string_view)> compare,
                            bool equal_is_identical = false) {
        return add_comparator(esker_options_add_comparator, std::move(name), std::move(compare),
                              equal_is_identical);
    }

    // Sets the key order of the keyspace `default` by its name: "esker.bytewise" (the default),
    // "esker.reverse", or a comparator that was added before. A store keeps the order of its creation.
    // Throws `Error` with `Code::invalid_argument` for any other name.
    Options& set_key_order(const std::string& name) {
        detail::call(esker_options_set_key_order, handle_.get(), name.c_str());
        return *this;
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

    // Replaces the Bloom filters of tables by functions of the program. The name of their format is
    // permanent: a table whose filter has another name is read without a filter. `create` makes the
    // filter of a table from its keys, which are distinct and in key order. `may_match` returns
    // whether a key may be among the keys of a filter. It must not return false for one of them.
    // Both are called from any thread, by several at once, and must not use the store. A table may
    // contain every key if `create` throws or returns an empty filter for it. It may contain the
    // key if `may_match` throws. Throws `Error` with `Code::invalid_argument` if one of the
    // functions is empty.
    Options& set_filter(
        std::string name,
        std::function<std::string(const std::vector<std::string_view>& keys)> create,
        std::function<bool(std::string_view key, std::string_view filter)> may_match) {
        const bool has_create = static_cast<bool>(create);
        const bool has_may_match = static_cast<bool>(may_match);
        auto* state =
            new detail::Sifting{std::move(name), std::move(create), std::move(may_match)};
        detail::call(esker_options_set_filter, handle_.get(), static_cast<void*>(state),
                     &detail::destroy_state<detail::Sifting>,
                     has_create ? &Options::create_filter : nullptr,
                     has_may_match ? &Options::may_match : nullptr,
                     &detail::name_of<detail::Sifting>);
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

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_options_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_options_t* handle() noexcept { return handle_.get(); }

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
                            std::function<int(std::string_view, std::string_view)> compare,
                            bool equal_is_identical) {
        auto* state = new detail::Comparing{std::move(name), std::move(compare)};
        // The library frees the state, also if the call fails.
        detail::call(function, handle_.get(), static_cast<void*>(state),
                     &detail::destroy_state<detail::Comparing>, &Options::compare,
                     static_cast<uint8_t>(equal_is_identical),
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

    static char* create_filter(void* state, const char* const* keys, const size_t* key_lens,
                               int count, size_t* filter_len) noexcept {
        auto* own = static_cast<detail::Sifting*>(state);
        try {
            detail::Sifting::Keys views;
            views.reserve(static_cast<size_t>(count));
            for (int i = 0; i < count; ++i) views.emplace_back(keys[i], key_lens[i]);
            return reinterpret_cast<char*>(detail::copied(own->create(views), filter_len));
        } catch (...) {
            // An empty filter rules out no key.
            *filter_len = 0;
            return nullptr;
        }
    }

    static uint8_t may_match(void* state, const char* key, size_t key_len, const char* filter,
                             size_t filter_len) noexcept {
        if (filter_len == 0) return 1;
        try {
            auto* own = static_cast<detail::Sifting*>(state);
            return static_cast<uint8_t>(own->may_match({key, key_len}, {filter, filter_len}));
        } catch (...) {
            return 1;
        }
    }

    detail::Owned<esker_options_t, esker_options_destroy> handle_;
};

// Options of a new keyspace. Those that are not set are the store's.
class KeyspaceOptions {
public:
    KeyspaceOptions() : handle_(esker_keyspace_options_create()) {}

    // Sets an option, by name or alias, from text. `docs/options.md` says which options a keyspace
    // can have of its own; `merge_operator`, `compaction_filter` and `ttl_ms` are those of the
    // functions below. Throws `Error` with `Code::invalid_argument` for any other name, and for a
    // bad value.
    KeyspaceOptions& set(const std::string& name, const std::string& value) {
        detail::call(esker_keyspace_options_set, handle_.get(), name.c_str(), value.c_str());
        return *this;
    }
    // "esker.bytewise", "esker.reverse", or a comparator of the store's options.
    KeyspaceOptions& set_key_order(const std::string& name) {
        detail::call(esker_keyspace_options_set_key_order, handle_.get(), name.c_str());
        return *this;
    }
    // Sets the merge operator by its name: a built-in one, or one that was added to the store's
    // options. Default: none, so merges are refused. The name is checked by `Db::keyspace`, and
    // stays with the keyspace.
    KeyspaceOptions& set_merge_operator(const std::string& name) {
        detail::call(esker_keyspace_options_set_merge_operator, handle_.get(), name.c_str());
        return *this;
    }
    // Sets the compaction filter by its name: one that was added to the store's options. Default:
    // none. The name is checked by `Db::keyspace`.
    KeyspaceOptions& set_compaction_filter(const std::string& name) {
        detail::call(esker_keyspace_options_set_compaction_filter, handle_.get(), name.c_str());
        return *this;
    }
    // Time to live, in milliseconds, of pairs that are put without one.
    KeyspaceOptions& set_ttl_ms(uint64_t ttl_ms) {
        detail::call(esker_keyspace_options_set_ttl_ms, handle_.get(), ttl_ms);
        return *this;
    }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_keyspace_options_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_keyspace_options_t* handle() noexcept { return handle_.get(); }

private:
    detail::Owned<esker_keyspace_options_t, esker_keyspace_options_destroy> handle_;
};

// A snapshot of a store.
class Snapshot {
public:
    // Takes over a handle of `esker_snapshot_create` or `esker_snapshot_create_with_position`.
    explicit Snapshot(esker_snapshot_t* handle) : handle_(handle) {}
    // The sequence number of the last operation that it shows, as in the change feed.
    uint64_t position() const noexcept { return esker_snapshot_position(handle_.get()); }
    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_snapshot_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_snapshot_t, esker_snapshot_destroy> handle_;
};

// What reads of a store or keyspace read. The snapshot must live during the call.
struct ReadOptions {
    // Null: the current state.
    const Snapshot* snapshot = nullptr;
    // Whether blocks that are read go to the cache. `contains` and `get_with_expiry` always fill it.
    bool fill_cache = true;

    // The C handle of the snapshot, which keeps it. Null: the current state.
    const esker_snapshot_t* handle() const noexcept {
        return snapshot == nullptr ? nullptr : snapshot->handle();
    }
};

// Bounds of a scan: from `start` (inclusive) to `end` (exclusive).
struct Bounds {
    // The keys begin here, inclusive. Nothing: no bound.
    std::optional<std::string_view> start = std::nullopt;
    // The keys end here, exclusive. Nothing: no bound.
    std::optional<std::string_view> end = std::nullopt;
};

// A value, and the time at which its pair expires.
struct ValueWithExpiry {
    // A copy of the value.
    std::string value;
    // The time at which the pair expires, in milliseconds since 1970. Nothing: it does not expire.
    std::optional<uint64_t> expires_ms;
};

// Pairs that `Iterator::read` has copied, for a range-for loop. They can be walked many times. The
// next read into the chunk replaces them and uses its memory again.
class Chunk {
public:
    // A key and its value. Both views are valid until the next read into the chunk.
    using Pair = std::pair<std::string_view, std::string_view>;

    // A chunk for as many pairs as fit into `bytes_max` bytes, each with eight bytes more. A pair
    // that is larger makes the chunk grow.
    explicit Chunk(size_t bytes_max = 64 * 1024) : buffer_(bytes_max) {}

    // The place of a range-for loop over the pairs. It is valid until the next read into the chunk.
    class Position {
    public:
        // An input iterator.
        using iterator_category = std::input_iterator_tag;
        // What a place has.
        using value_type = Pair;
        // A type that the standard library asks for.
        using difference_type = std::ptrdiff_t;
        // A type that the standard library asks for.
        using pointer = const Pair*;
        // What `*` returns: a pair of views, by value.
        using reference = Pair;

        // The place of a pair in the memory of a chunk.
        explicit Position(const uint8_t* at) noexcept : at_(at) {}
        // The pair at this place, which must not be the end.
        Pair operator*() const noexcept {
            const uint8_t* key = at_ + head_bytes;
            return {detail::view(key, key_length()),
                    detail::view(key + key_length(), value_length())};
        }
        // Moves on to the next pair.
        Position& operator++() noexcept {
            at_ += head_bytes + key_length() + value_length();
            return *this;
        }
        // Moves on to the next pair.
        void operator++(int) noexcept { ++*this; }
        // Whether both are at the same pair.
        bool operator==(const Position& other) const noexcept { return at_ == other.at_; }
        // Whether both are at different pairs.
        bool operator!=(const Position& other) const noexcept { return at_ != other.at_; }

    private:
        // A pair is the length of its key and that of its value, little-endian, and then both.
        static constexpr size_t head_bytes = 8;

        size_t key_length() const noexcept { return number(at_); }
        size_t value_length() const noexcept { return number(at_ + 4); }
        static size_t number(const uint8_t* at) noexcept {
            return size_t{at[0]} | size_t{at[1]} << 8 | size_t{at[2]} << 16 | size_t{at[3]} << 24;
        }

        const uint8_t* at_;
    };

    // The number of pairs.
    size_t size() const noexcept { return rows_; }
    // Whether there is no pair.
    bool empty() const noexcept { return rows_ == 0; }
    // The first pair.
    Position begin() const noexcept { return Position(buffer_.data()); }
    // The place after the last pair.
    Position end() const noexcept { return Position(buffer_.data() + bytes_); }

private:
    friend class Iterator;

    std::vector<uint8_t> buffer_;
    // What of the buffer is pairs.
    size_t bytes_ = 0;
    size_t rows_ = 0;
};

// A cursor over pairs in key order. One thread at a time may use it.
class Iterator {
public:
    // Takes over a handle of `esker_iter_create`, or of a function like it.
    explicit Iterator(esker_iter_t* handle) : handle_(handle) {}

    // Whether the iterator is at a key. It is at none before its first seek, past either end and
    // after a failure.
    bool valid() const noexcept { return esker_iter_valid(handle_.get()) != 0; }
    // Moves to the first key within the bounds. Every move throws the iterator's failure, for
    // example that of a damaged table. The failure stays until the next seek.
    void seek_to_first() { moved(esker_iter_seek_to_first); }
    // Moves to the last key within the bounds.
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
    // Moves to the next key. Does nothing if the iterator is not at a key.
    void next() { moved(esker_iter_next); }
    // Moves to the previous key. Does nothing if the iterator is not at a key.
    void prev() { moved(esker_iter_prev); }

    // The current key, valid until the next move. Empty if the iterator is not at a key.
    std::string_view key() const noexcept {
        size_t length = 0;
        const uint8_t* start = esker_iter_key(handle_.get(), &length);
        return detail::view(start, length);
    }
    // The current value, valid until the next move. Empty if the iterator is not at a key.
    std::string_view value() const noexcept {
        size_t length = 0;
        const uint8_t* start = esker_iter_value(handle_.get(), &length);
        return detail::view(start, length);
    }

    // The time at which the current pair expires, in milliseconds since 1970. Nothing if it does not
    // expire, if the iterator is not at a key, and always for an iterator of a transaction.
    std::optional<uint64_t> expires_ms() const noexcept {
        const uint64_t time_ms = esker_iter_expires_ms(handle_.get());
        if (time_ms == ESKER_NEVER_MS) return std::nullopt;
        return time_ms;
    }

    // Copies pairs from the position on into a chunk, at most `rows_max` and as many as fit, and
    // moves past them. Returns whether there was one. It takes one call for many pairs. Throws the
    // iterator's failure, but first returns the pairs before it. The chunk is empty after that.
    bool read(Chunk& chunk, size_t rows_max = SIZE_MAX) { return fill(chunk, rows_max, false); }
    // Does the same as `read`, from the position back.
    bool read_backward(Chunk& chunk, size_t rows_max = SIZE_MAX) {
        return fill(chunk, rows_max, true);
    }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_iter_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_iter_t* handle() noexcept { return handle_.get(); }

private:
    bool fill(Chunk& chunk, size_t rows_max, bool backward) {
        chunk.rows_ = chunk.bytes_ = 0;
        size_t rows = 0, bytes = 0;
        for (;;) {
            detail::call(esker_iter_read, handle_.get(), static_cast<uint8_t>(backward), rows_max,
                         chunk.buffer_.data(), chunk.buffer_.size(), &rows, &bytes);
            // Without a pair, this is what the first one needs.
            if (rows > 0 || bytes <= chunk.buffer_.size()) break;
            chunk.buffer_.resize(bytes);
        }
        if (rows == 0) return false;
        chunk.rows_ = rows;
        chunk.bytes_ = bytes;
        return true;
    }
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
    // A key and its value. Both views are valid until the loop goes on to the next pair.
    using Pair = std::pair<std::string_view, std::string_view>;

    // Walks the pairs of a cursor: from the first key on if `forward`, else from the last key back.
    Pairs(Iterator iterator, bool forward) : cursor_(std::move(iterator)), forward_(forward) {}

    // The place of a range-for loop over the pairs. It must not be used after its `Pairs` was moved
    // or destroyed.
    class Position {
    public:
        // An input iterator: each pair is read once.
        using iterator_category = std::input_iterator_tag;
        // What a place has.
        using value_type = Pair;
        // A type that the standard library asks for. No distance is measured.
        using difference_type = std::ptrdiff_t;
        // A type that the standard library asks for.
        using pointer = const Pair*;
        // What `*` returns: a pair of views, by value.
        using reference = Pair;

        // The place of the cursor of `pairs`. Null: the end.
        explicit Position(Pairs* pairs) : pairs_(pairs) {}
        // The pair at this place, which must not be the end.
        Pair operator*() const { return {pairs_->cursor_.key(), pairs_->cursor_.value()}; }
        // Moves the cursor on. Throws its failure.
        Position& operator++() {
            pairs_->forward_ ? pairs_->cursor_.next() : pairs_->cursor_.prev();
            if (!pairs_->cursor_.valid()) pairs_ = nullptr;
            return *this;
        }
        // Moves the cursor on. Throws its failure.
        void operator++(int) { ++*this; }
        // Whether both are at the end, or both belong to the same `Pairs` and are not.
        bool operator==(const Position& other) const { return pairs_ == other.pairs_; }
        // The opposite of `==`.
        bool operator!=(const Position& other) const { return pairs_ != other.pairs_; }

    private:
        Pairs* pairs_;
    };

    // Moves the cursor to the first pair of the walk. Throws the failure of the cursor.
    Position begin() {
        forward_ ? cursor_.seek_to_first() : cursor_.seek_to_last();
        return Position(cursor_.valid() ? this : nullptr);
    }
    // The place after the last pair.
    Position end() { return Position(nullptr); }

private:
    Iterator cursor_;
    bool forward_;
};

// Kinds of changes in the change feed. The fields of each are those of the C constant.
enum class ChangeKind : int32_t {
    // `key` was set to `value`, until the time `expires_ms`.
    put = ESKER_CHANGE_PUT,
    // The operand `value` was merged into the value of `key`.
    merge = ESKER_CHANGE_MERGE,
    // `key` was deleted. It may not have existed.
    erase = ESKER_CHANGE_DELETE,
    // The keys from `key` (inclusive) to `value` (exclusive) were deleted.
    erase_range = ESKER_CHANGE_DELETE_RANGE,
    // All keys of the keyspace were deleted.
    clear = ESKER_CHANGE_CLEAR,
    // The keyspace was created, with `key_order` and `options`.
    keyspace_created = ESKER_CHANGE_KEYSPACE_CREATED,
    // The keyspace got the name `new_name`.
    keyspace_renamed = ESKER_CHANGE_KEYSPACE_RENAMED,
    // The keyspace was dropped with all its keys.
    keyspace_dropped = ESKER_CHANGE_KEYSPACE_DROPPED,
};

// A change of a batch. Its views are valid until the next call on the feed.
class Change {
public:
    // A view of a change of a batch.
    explicit Change(const esker_change_t* change) noexcept : change_(change) {}

    // The kind. It tells which of the fields below the change has.
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
    // The new name of a keyspace that was renamed; empty for other kinds.
    std::string_view new_name() const noexcept { return text(change_->new_name); }
    // The name of the key order of a keyspace that was created; empty for other kinds.
    std::string_view key_order() const noexcept { return text(change_->key_order); }
    // The own options of a keyspace that was created, `name=value` a line; empty for other kinds.
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
    // The place of a range-for loop over the changes. It is valid as long as the batch.
    class Position {
    public:
        // An input iterator.
        using iterator_category = std::input_iterator_tag;
        // What a place has.
        using value_type = Change;
        // A type that the standard library asks for.
        using difference_type = std::ptrdiff_t;
        // A type that the standard library asks for.
        using pointer = const Change*;
        // What `*` returns: a view of a change, by value.
        using reference = Change;

        // The place of a change in the array of a batch.
        explicit Position(const esker_change_t* const* at) noexcept : at_(at) {}
        // The change at this place, which must not be the end.
        Change operator*() const noexcept { return Change(*at_); }
        // Moves on to the next change.
        Position& operator++() noexcept {
            ++at_;
            return *this;
        }
        // Moves on to the next change.
        void operator++(int) noexcept { ++*this; }
        // Whether both are at the same change.
        bool operator==(const Position& other) const noexcept { return at_ == other.at_; }
        // Whether both are at different changes.
        bool operator!=(const Position& other) const noexcept { return at_ != other.at_; }

    private:
        const esker_change_t* const* at_;
    };

    // A view of a batch of a feed.
    explicit ChangeBatch(const esker_change_batch_t* batch) noexcept : batch_(batch) {}

    // The position after the batch: the sequence number of its last operation.
    uint64_t sequence() const noexcept { return batch_->sequence; }
    // The sequence number of its first operation.
    uint64_t first_sequence() const noexcept { return batch_->first_sequence; }
    // Tells batches with the same sequence number apart; not 0.
    uint64_t checksum() const noexcept { return batch_->checksum; }
    // The position before the batch.
    uint64_t previous() const noexcept { return batch_->previous; }
    // The checksum of the batch that ends at `previous`; 0 if it is not known.
    uint64_t previous_checksum() const noexcept { return batch_->previous_checksum; }
    // The number of this part of the batch, from 0 on. The pairs of an ingest or a bulk load come
    // in parts; every other batch is whole.
    uint64_t part() const noexcept { return batch_->part; }
    // Whether more parts of the batch follow. Confirm the position after the last part.
    bool continues() const noexcept { return batch_->continues != 0; }

    // The number of changes in this part.
    size_t size() const noexcept { return batch_->changes_len; }
    // The change at `index`, which must be less than `size`; that is not checked.
    Change operator[](size_t index) const noexcept { return Change(batch_->changes[index]); }
    // The first change. A key may occur more than once; its last change counts.
    Position begin() const noexcept { return Position(batch_->changes); }
    // The place after the last change.
    Position end() const noexcept { return Position(batch_->changes + batch_->changes_len); }

private:
    const esker_change_batch_t* batch_;
};

// The change feed of a store. A range-for loop over it ends at the present; a later loop goes on.
// One thread at a time may use it.
class Changes {
public:
    // Takes over a handle of `esker_changes_create` or `esker_slot_changes`.
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

    // The place of a range-for loop over the batches. It must not be used after its `Changes` was
    // moved or destroyed.
    class Position {
    public:
        // An input iterator: each batch is read once.
        using iterator_category = std::input_iterator_tag;
        // What a place has.
        using value_type = ChangeBatch;
        // A type that the standard library asks for. No distance is measured.
        using difference_type = std::ptrdiff_t;
        // A type that the standard library asks for.
        using pointer = const ChangeBatch*;
        // What `*` returns: a batch that the place has.
        using reference = const ChangeBatch&;

        // Reads the next batch of `changes`, which is then the place. Null: the end. Throws as
        // `next`.
        explicit Position(Changes* changes) : changes_(changes) {
            if (changes_ != nullptr) ++*this;
        }
        // The batch at this place, which must not be the end. It is valid until the next call on
        // the feed.
        const ChangeBatch& operator*() const noexcept { return *batch_; }
        // The batch at this place, as `*`.
        const ChangeBatch* operator->() const noexcept { return &*batch_; }
        // Reads the next batch without a wait. The place is the end if there is none yet. Throws as
        // `next`.
        Position& operator++() {
            batch_ = changes_->next();
            if (!batch_) changes_ = nullptr;
            return *this;
        }
        // Does the same as `++` before the place.
        void operator++(int) { ++*this; }
        // Whether both are at the end, or both belong to the same feed and are not.
        bool operator==(const Position& other) const noexcept { return changes_ == other.changes_; }
        // The opposite of `==`.
        bool operator!=(const Position& other) const noexcept { return changes_ != other.changes_; }

    private:
        Changes* changes_;
        std::optional<ChangeBatch> batch_;
    };

    // Reads the next batch without a wait. Throws as `next`.
    Position begin() { return Position(this); }
    // The end of a loop: no further batch at present.
    Position end() { return Position(nullptr); }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_changes_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_changes_t* handle() noexcept { return handle_.get(); }

private:
    detail::Owned<esker_changes_t, esker_changes_destroy> handle_;
};

// A slot: a durable position in the change feed. It stays when this handle is destroyed.
class Slot {
public:
    // Takes over a handle of `esker_subscribe` or `esker_slot_open`.
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

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_slot_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_slot_t, esker_slot_close> handle_;
};

// A slot of a store.
struct SlotInfo {
    // The name of the slot.
    std::string name;
    // The position that its reader has confirmed; 0 if the slot is damaged.
    uint64_t position = 0;
    // Bytes of logs that are kept only for this slot and for slots that lag less.
    uint64_t lag_bytes = 0;
    // The maximum of `lag_bytes`. Nothing: no limit.
    std::optional<uint64_t> lag_limit_bytes;
    // Why the slot keeps no logs any more.
    std::optional<std::string> problem;
};

// A store that a fork descends from.
struct Ancestor {
    // The random number that the store got when it was created.
    uint64_t store_id = 0;
    // The name that it got as a fork, if it got one.
    std::optional<std::string> name;
    // Its sequence number at the fork.
    uint64_t sequence = 0;
};

// The name that a fork got, and the stores that it descends from, the parent first.
struct Lineage {
    // The name that the store got as a fork, if it got one.
    std::optional<std::string> name;
    // The stores that it descends from, the parent first. None for a store that is no fork.
    std::vector<Ancestor> ancestors;
};

// The identity of a fork, and what it shares with its parent. See `esker_fork_report_t`.
using ForkReport = esker_fork_report_t;
// What an ingest or a bulk load wrote. See `esker_ingest_report_t`.
using IngestReport = esker_ingest_report_t;

// A key that is not the same in two compared stores. Its views are valid until the next call on the
// comparison.
class Difference {
public:
    // A view of a difference of a comparison.
    explicit Difference(const esker_difference_t* found) noexcept : found_(found) {}

    // The name of the keyspace.
    std::string_view keyspace() const noexcept { return found_->keyspace; }
    // The key.
    std::string_view key() const noexcept { return detail::view(found_->key, found_->key_len); }
    // The value in the first store; nothing if the store does not have the key.
    std::optional<std::string_view> old_value() const noexcept {
        return side(found_->old_value, found_->old_value_len);
    }
    // The value in the second store; nothing if the store does not have the key.
    std::optional<std::string_view> new_value() const noexcept {
        return side(found_->new_value, found_->new_value_len);
    }
    // The time at which the pair of the first store expires, in milliseconds since 1970;
    // `ESKER_NEVER_MS` if it does not.
    uint64_t old_expires_ms() const noexcept { return found_->old_expires_ms; }
    // The time at which the pair of the second store expires; `ESKER_NEVER_MS` if it does not.
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
    // Both are the same store, or copies of its directory.
    same_store = ESKER_RELATION_SAME_STORE,
    // The second store is a fork of the first, or a fork of a fork.
    descendant = ESKER_RELATION_DESCENDANT,
    // The first store is a fork of the second, or a fork of a fork.
    ancestor = ESKER_RELATION_ANCESTOR,
    // Both stores are forks that descend from the same store.
    siblings = ESKER_RELATION_SIBLINGS,
    // Neither store remembers the other, nor a common ancestor.
    unrelated = ESKER_RELATION_UNRELATED,
};

// A comparison of two stores, for a range-for loop. It can be walked once.
class Diff {
public:
    // Takes over a handle of `esker_diff_create`.
    explicit Diff(esker_diff_t* handle) : handle_(handle) {}

    // The next difference; nothing at the end. After a failure, which it throws, the comparison is
    // at its end.
    std::optional<Difference> next() {
        const esker_difference_t* found = nullptr;
        detail::call(esker_diff_next, handle_.get(), &found);
        if (found == nullptr) return std::nullopt;
        return Difference(found);
    }
    // How the two stores descend from each other.
    Relation relation() const noexcept {
        return static_cast<Relation>(esker_diff_relation(handle_.get()));
    }
    // The number of tables that both stores have. If it is 0, the comparison reads every pair.
    uint64_t shared_files() const noexcept { return esker_diff_shared_files(handle_.get()); }
    // The size of these tables, in bytes.
    uint64_t shared_bytes() const noexcept { return esker_diff_shared_bytes(handle_.get()); }
    // The names of the keyspaces that only the first store has, one per line.
    std::string keyspaces_only_in_old() const {
        return detail::taken(esker_diff_keyspaces_only_in(handle_.get(), 1));
    }
    // The names of the keyspaces that only the second store has, one per line.
    std::string keyspaces_only_in_new() const {
        return detail::taken(esker_diff_keyspaces_only_in(handle_.get(), 0));
    }

    // The place of a range-for loop over the differences. It must not be used after its `Diff` was
    // moved or destroyed.
    class Position {
    public:
        // An input iterator: each difference is read once.
        using iterator_category = std::input_iterator_tag;
        // What a place has.
        using value_type = Difference;
        // A type that the standard library asks for. No distance is measured.
        using difference_type = std::ptrdiff_t;
        // A type that the standard library asks for.
        using pointer = const Difference*;
        // What `*` returns: a difference that the place has.
        using reference = const Difference&;

        // Reads the next difference of `diff`, which is then the place. Null: the end. Throws as
        // `next`.
        explicit Position(Diff* diff) : diff_(diff) {
            if (diff_ != nullptr) ++*this;
        }
        // The difference at this place, which must not be the end. It is valid until the next call
        // on the comparison.
        const Difference& operator*() const noexcept { return *found_; }
        // The difference at this place, as `*`.
        const Difference* operator->() const noexcept { return &*found_; }
        // Reads the next difference. Throws as `next`.
        Position& operator++() {
            found_ = diff_->next();
            if (!found_) diff_ = nullptr;
            return *this;
        }
        // Does the same as `++` before the place.
        void operator++(int) { ++*this; }
        // Whether both are at the end, or both belong to the same comparison and are not.
        bool operator==(const Position& other) const noexcept { return diff_ == other.diff_; }
        // The opposite of `==`.
        bool operator!=(const Position& other) const noexcept { return diff_ != other.diff_; }

    private:
        Diff* diff_;
        std::optional<Difference> found_;
    };

    // Reads the next difference. Throws as `next`.
    Position begin() { return Position(this); }
    // The place after the last difference.
    Position end() { return Position(nullptr); }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_diff_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_diff_t* handle() noexcept { return handle_.get(); }

private:
    detail::Owned<esker_diff_t, esker_diff_destroy> handle_;
};

// A writer of a table file outside of a store. Keys must be strictly ascending in the key order of
// the options. A writer that is destroyed before `finish` removes its file.
class SortedWriter {
public:
    // Creates the file `path`, which must not exist. It has the key order, compression, block size
    // and filter of the options; only the key order must be that of the store. It is not encrypted,
    // also if the options have a key. Throws `Error` with `Code::io` if the file exists or cannot
    // be created.
    explicit SortedWriter(const std::string& path, const Options& options = Options()) {
        esker_sorted_writer_t* writer = nullptr;
        detail::call(esker_sorted_writer_create, path.c_str(), options.handle(), &writer);
        handle_.reset(writer);
    }

    // Adds a pair. Throws `Error` with `Code::invalid_argument` for a key that is not after all
    // keys so far: it is not written, and the next one can be.
    void put(std::string_view key, std::string_view value) {
        detail::call(esker_sorted_writer_put, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size());
    }
    // Adds a pair that expires `ttl_ms` milliseconds after this call. Throws as `put`.
    void put_with_ttl(std::string_view key, std::string_view value, uint64_t ttl_ms) {
        detail::call(esker_sorted_writer_put_with_ttl, handle_.get(), detail::bytes(key),
                     key.size(), detail::bytes(value), value.size(), ttl_ms);
    }
    // Adds an operand, which the ingest merges into the value of the key. Throws as `put`, and with
    // `Code::invalid_argument` if the options have no merge operator.
    void merge(std::string_view key, std::string_view operand) {
        detail::call(esker_sorted_writer_merge, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(operand), operand.size());
    }
    // Adds a delete: the ingest deletes the key from the store. Throws as `put`.
    void erase(std::string_view key) {
        detail::call(esker_sorted_writer_delete, handle_.get(), detail::bytes(key), key.size());
    }
    // The number of entries so far.
    uint64_t entries() const noexcept { return esker_sorted_writer_entries(handle_.get()); }
    // The approximate length of the file so far, in bytes; 0 after `finish`.
    uint64_t estimated_bytes() const noexcept {
        return esker_sorted_writer_estimated_bytes(handle_.get());
    }
    // Completes the file and makes it durable. The result is valid as long as the writer.
    const esker_sorted_file_t& finish() {
        const esker_sorted_file_t* file = nullptr;
        detail::call(esker_sorted_writer_finish, handle_.get(), &file);
        return *file;
    }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_sorted_writer_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_sorted_writer_t* handle() noexcept { return handle_.get(); }

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
        auto* self = static_cast<State*>(own);
        try {
            self->pair = (*self->source)();
            if (!self->pair) return ESKER_SOURCE_END;
            const std::string_view first = self->pair->first, second = self->pair->second;
            *key = static_cast<const uint8_t*>(bytes(first));
            *key_length = first.size();
            *value = static_cast<const uint8_t*>(bytes(second));
            *value_length = second.size();
            return ESKER_SOURCE_PAIR;
        } catch (...) {
            self->thrown = std::current_exception();
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

// A copy of the value of a key.
template <class Function, class Handle>
std::optional<std::string> get(Function function, Handle* handle, std::string_view key,
                               const ReadOptions& options) {
    uint8_t* value = nullptr;
    size_t length = 0;
    call(function, handle, options.handle(), static_cast<uint8_t>(options.fill_cache), bytes(key),
         key.size(), &value, &length);
    return taken(value, length);
}

// Whether a key exists.
template <class Function, class Handle>
bool contains(Function function, Handle* handle, std::string_view key,
              const ReadOptions& options) {
    uint8_t found = 0;
    call(function, handle, options.handle(), bytes(key), key.size(), &found);
    return found != 0;
}

// Passes the value of a key to `visit`, and returns whether the key exists.
template <class Function, class Handle, class Visit>
bool read(Function function, Handle* handle, std::string_view key, Visit& visit,
          const ReadOptions& options) {
    bool found = false;
    auto receive = [&](const uint8_t* value, size_t length) {
        found = true;
        visit(view(value, length));
    };
    call_visiting<esker_visit_value_t>(receive, function, handle, options.handle(),
                                       static_cast<uint8_t>(options.fill_cache), bytes(key),
                                       key.size());
    return found;
}

// The values of keys, in the order of the keys.
template <class Function, class Handle>
std::vector<std::optional<std::string>> multi_get(Function function, Handle* handle,
                                                  const std::vector<std::string_view>& keys,
                                                  const ReadOptions& options) {
    std::vector<std::optional<std::string>> found;
    if (keys.empty()) return found;
    std::vector<const void*> starts;
    std::vector<size_t> lengths;
    for (std::string_view key : keys) {
        starts.push_back(bytes(key));
        lengths.push_back(key.size());
    }
    std::vector<uint8_t*> values(keys.size(), nullptr);
    std::vector<size_t> value_lengths(keys.size(), 0);
    std::vector<std::unique_ptr<uint8_t, Free>> owned(keys.size());
    call(function, handle, options.handle(), static_cast<uint8_t>(options.fill_cache), keys.size(),
         starts.data(), lengths.data(), values.data(), value_lengths.data());
    for (size_t i = 0; i < keys.size(); ++i) owned[i].reset(values[i]);
    for (size_t i = 0; i < keys.size(); ++i) {
        found.push_back(taken(owned[i].release(), value_lengths[i]));
    }
    return found;
}

// A function that gives bytes, for a value that is not in memory as a whole. An exception of it is
// thrown again by the call that reads.
template <class Function, class Handle, class Read>
uint64_t put_reader(Function function, Handle* handle, std::string_view key, Read& read) {
    Moving<Read&> state{read, nullptr};
    const esker_read_t receive = &Moving<Read&>::give;
    uint64_t bytes_of_value = 0;
    state.call_moving(function, handle, bytes(key), key.size(), static_cast<void*>(&state), receive,
                      &bytes_of_value);
    return bytes_of_value;
}

// The value of a key and the time at which the pair expires.
template <class Function, class Handle>
std::optional<ValueWithExpiry> get_with_expiry(Function function, Handle* handle,
                                               std::string_view key, const ReadOptions& options) {
    uint8_t* value = nullptr;
    size_t length = 0;
    uint64_t expires_ms = ESKER_NEVER_MS;
    call(function, handle, options.handle(), bytes(key), key.size(), &value, &length, &expires_ms);
    std::optional<std::string> found = taken(value, length);
    if (!found) return std::nullopt;
    ValueWithExpiry result{std::move(*found), std::nullopt};
    if (expires_ms != ESKER_NEVER_MS) result.expires_ms = expires_ms;
    return result;
}

}  // namespace detail

// A reader of one value, in the version that was the newest when the reader was created. It may be used
// by one thread at a time, also after the store was closed or is gone.
class ValueReader {
public:
    // Takes over a handle of `esker_get_reader` or `esker_keyspace_get_reader`.
    explicit ValueReader(esker_value_reader_t* handle) : handle_(handle) {}

    // The length of the whole value, in bytes.
    uint64_t size() const noexcept { return esker_value_reader_len(handle_.get()); }
    // Copies bytes of the value, from `offset` on, into `buffer`, and returns their number: `length`,
    // or less at the end of the value, or 0 behind it. Throws `Error` with `Code::corruption` if a
    // piece of the value is damaged. Other pieces can still be read.
    size_t read(uint64_t offset, char* buffer, size_t length) {
        size_t copied = 0;
        detail::call(esker_value_reader_read, handle_.get(), offset,
                     reinterpret_cast<uint8_t*>(buffer), length, &copied);
        return copied;
    }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_value_reader_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_value_reader_t* handle() noexcept { return handle_.get(); }

private:
    detail::Owned<esker_value_reader_t, esker_value_reader_destroy> handle_;
};

// A handle of a keyspace: an ordered map of its own within a store. After the keyspace was dropped,
// every function except `name`, `id`, `tree`, `key_order`, `own_options` and `handle` throws `Error`
// with `Code::not_found`; existing iterators go on.
class Keyspace {
public:
    // Takes over a handle of `esker_keyspace_open` or `esker_keyspace_find`.
    explicit Keyspace(esker_keyspace_t* handle) : handle_(handle) {}

    // The present name. `Db::rename_keyspace` changes it.
    std::string name() const { return detail::taken(esker_keyspace_name(handle_.get())); }
    // The number of the keyspace in its store, which no other keyspace ever has; 0 for `default`.
    uint32_t id() const noexcept { return esker_keyspace_id(handle_.get()); }
    // The number of the tree that holds its keys, as in `Event`. Keyspaces with the same key order
    // and the same options share a tree. 0 is the tree of `default` alone.
    uint32_t tree() const noexcept { return esker_keyspace_tree(handle_.get()); }
    // The name of its key order.
    std::string key_order() const {
        return detail::taken(esker_keyspace_key_order(handle_.get()));
    }
    // The options that it got when it was created, `name=value` a line, by name. The others are the
    // store's. Empty for `default`.
    std::string own_options() const {
        return detail::taken(esker_keyspace_own_options(handle_.get()));
    }

    // Sets a key to a value. The pair gets the time to live of the keyspace. Throws as `Db::put`.
    void put(std::string_view key, std::string_view value,
             Durability durability = Durability::store_default) {
        detail::call(esker_keyspace_put, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size(), static_cast<int32_t>(durability));
    }
    // Sets a key to a value for `ttl_ms` milliseconds, whatever the time to live of the keyspace
    // is. See `Db::put_with_ttl`.
    void put_with_ttl(std::string_view key, std::string_view value, uint64_t ttl_ms,
                      Durability durability = Durability::store_default) {
        detail::call(esker_keyspace_put_with_ttl, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size(), ttl_ms, static_cast<int32_t>(durability));
    }
    // Sets a key to the bytes that `read` gives. Not for a keyspace with a time to live. See
    // `Db::put_reader`.
    template <class Read>
    uint64_t put_reader(std::string_view key, Read&& read) {
        return detail::put_reader(esker_keyspace_put_reader, handle_.get(), key, read);
    }
    // Merges an operand into the value of a key, by the merge operator of the keyspace. See
    // `Db::merge`.
    void merge(std::string_view key, std::string_view operand,
               Durability durability = Durability::store_default) {
        detail::call(esker_keyspace_merge, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(operand), operand.size(), static_cast<int32_t>(durability));
    }
    // Deletes a key. A missing key is not a failure.
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
    // Deletes a key, and returns whether it existed. No write of another thread comes between the
    // check and the delete. The check may read a file, so `erase` is cheaper. Throws as `Db::put`.
    bool remove(std::string_view key) {
        uint8_t existed = 0;
        detail::call(esker_keyspace_remove, handle_.get(), detail::bytes(key), key.size(),
                     &existed);
        return existed != 0;
    }
    // Gives a pair a new time to live, in milliseconds. Returns whether there is such a pair. See
    // `Db::touch`.
    bool touch(std::string_view key, uint64_t ttl_ms) {
        uint8_t existed = 0;
        detail::call(esker_keyspace_touch, handle_.get(), detail::bytes(key), key.size(), ttl_ms,
                     &existed);
        return existed != 0;
    }
    // Deletes all keys. Not for the keyspace `default`.
    void clear() { detail::call(esker_keyspace_clear, handle_.get()); }

    // The value of a key, as a copy; nothing if the key is missing. See `Db::get`.
    std::optional<std::string> get(std::string_view key, const ReadOptions& options = {}) const {
        return detail::get(esker_keyspace_get_with, handle_.get(), key, options);
    }
    // The value of a key, as a copy, and the time at which the pair expires; nothing if the key is
    // missing. Throws as `Db::get`.
    std::optional<ValueWithExpiry> get_with_expiry(std::string_view key,
                                                   const ReadOptions& options = {}) const {
        return detail::get_with_expiry(esker_keyspace_get_with_expiry, handle_.get(), key,
                                       options);
    }
    // Passes the value to `visit` without a copy, and returns whether the key exists. An exception
    // of `visit` is thrown again. See `Db::read`.
    template <class Visit>
    bool read(std::string_view key, Visit&& visit, const ReadOptions& options = {}) const {
        return detail::read(esker_keyspace_get_visit, handle_.get(), key, visit, options);
    }
    // A reader of the present value of a key; nothing if the key is missing. See `Db::get_reader`.
    std::optional<ValueReader> get_reader(std::string_view key) const {
        esker_value_reader_t* reader = nullptr;
        detail::call(esker_keyspace_get_reader, handle_.get(), detail::bytes(key), key.size(),
                     &reader);
        if (reader == nullptr) return std::nullopt;
        return ValueReader(reader);
    }
    // The values of the keys as of one moment, in the order of the keys. Throws as `Db::get`.
    std::vector<std::optional<std::string>> multi_get(const std::vector<std::string_view>& keys,
                                                      const ReadOptions& options = {}) const {
        return detail::multi_get(esker_keyspace_multi_get, handle_.get(), keys, options);
    }
    // Whether the keyspace has the key. Throws as `Db::get`.
    bool contains(std::string_view key, const ReadOptions& options = {}) const {
        return detail::contains(esker_keyspace_contains, handle_.get(), key, options);
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
    // The pairs within the bounds, in the key order of the keyspace. See `Db::scan`.
    Pairs scan(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        return Pairs(iterator(bounds, options), true);
    }
    // The pairs that `scan` returns, from the last key to the first.
    Pairs scan_backward(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        return Pairs(iterator(bounds, options), false);
    }

    // A cursor over the keys that start with `prefix`. See `Db::prefix_iterator`.
    Iterator prefix_iterator(std::string_view prefix, const ReadOptions& options = {}) const {
        esker_iter_t* iter = nullptr;
        detail::call(esker_keyspace_iter_create_prefix, handle_.get(), options.handle(),
                     detail::bytes(prefix), prefix.size(),
                     static_cast<uint8_t>(options.fill_cache), &iter);
        return Iterator(iter);
    }
    // The pairs whose keys start with `prefix`. See `Db::scan_prefix`.
    Pairs scan_prefix(std::string_view prefix, const ReadOptions& options = {}) const {
        return Pairs(prefix_iterator(prefix, options), true);
    }
    // The pairs that `scan_prefix` returns, from the last key to the first.
    Pairs scan_prefix_backward(std::string_view prefix, const ReadOptions& options = {}) const {
        return Pairs(prefix_iterator(prefix, options), false);
    }

    // Compacts the keys within the bounds into the deepest level, and waits until that is done. See
    // `Db::compact_range`.
    void compact_range(const Bounds& bounds = {}) {
        detail::call(esker_keyspace_compact_range, handle_.get(), detail::bound(bounds.start),
                     detail::length(bounds.start), detail::bound(bounds.end),
                     detail::length(bounds.end));
    }
    // The approximate size of the keyspace in the tables, in bytes. Data that is only in memory is
    // not counted.
    uint64_t size_bytes() const {
        uint64_t bytes = 0;
        detail::call(esker_keyspace_size_bytes, handle_.get(), &bytes);
        return bytes;
    }
    // The approximate size of the keys from `start` (inclusive) to `end` (exclusive), in the key
    // order of the keyspace, in the tables, in bytes. Data that is only in memory is not counted.
    uint64_t approximate_size(std::string_view start, std::string_view end) const {
        uint64_t bytes = 0;
        detail::call(esker_keyspace_approximate_size, handle_.get(), detail::bytes(start),
                     start.size(), detail::bytes(end), end.size(), &bytes);
        return bytes;
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

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_keyspace_t* handle() const noexcept { return handle_.get(); }

private:
    detail::Owned<esker_keyspace_t, esker_keyspace_close> handle_;
};

// Kinds of operations of a batch.
enum class OperationKind : int32_t {
    // `key` is set to `value`.
    put = ESKER_OPERATION_PUT,
    // `key` is deleted.
    erase = ESKER_OPERATION_DELETE,
    // The keys from `key` (inclusive) to `value` (exclusive) are deleted.
    erase_range = ESKER_OPERATION_DELETE_RANGE,
    // `key` is set to `value`, and the pair expires after `ttl_ms`. A put into a keyspace with a time
    // to live is one, too. With `ESKER_NEVER_MS` it is a `put`.
    put_with_ttl = ESKER_OPERATION_PUT_WITH_TTL,
    // The operand `value` is merged into the value of `key`.
    merge = ESKER_OPERATION_MERGE,
};

// An operation of a batch, from `Batch::visit`. Its views are valid during the call that gets it.
struct Operation {
    // The number of its keyspace (`Keyspace::id`).
    uint32_t keyspace_id = 0;
    // The kind. It tells what the fields below are.
    OperationKind kind = OperationKind::put;
    // The key, or the start of a range.
    std::string_view key;
    // The value, the operand or the end of a range; empty for a delete.
    std::string_view value;
    // The time to live of a `put_with_ttl`, in milliseconds from the write of the batch on;
    // `ESKER_NEVER_MS` for every other kind.
    uint64_t ttl_ms = ESKER_NEVER_MS;
};

// Operations that are applied together. Functions without a keyspace are for the keyspace
// `default`. One thread at a time may use it.
class Batch {
public:
    Batch() : handle_(esker_batch_create()) {}

    // Adds a put. If a key has more than 1 MiB or a value more than 1 GiB, the write of the batch
    // throws.
    Batch& put(std::string_view key, std::string_view value) {
        detail::call(esker_batch_put, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size());
        return *this;
    }
    // Adds a put in a keyspace. The write of the batch throws if the keyspace is of another store
    // or of another opening, or was dropped. The same for the functions below with a keyspace.
    Batch& put(const Keyspace& keyspace, std::string_view key, std::string_view value) {
        detail::call(esker_batch_put_in, handle_.get(), keyspace.handle(), detail::bytes(key),
                     key.size(), detail::bytes(value), value.size());
        return *this;
    }
    // Adds a put of a pair that expires `ttl_ms` milliseconds after the write of the batch.
    Batch& put_with_ttl(std::string_view key, std::string_view value, uint64_t ttl_ms) {
        detail::call(esker_batch_put_with_ttl, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size(), ttl_ms);
        return *this;
    }
    // Does the same as `put_with_ttl`, in a keyspace, whatever the time to live of the keyspace is.
    Batch& put_with_ttl(const Keyspace& keyspace, std::string_view key, std::string_view value,
                        uint64_t ttl_ms) {
        detail::call(esker_batch_put_with_ttl_in, handle_.get(), keyspace.handle(),
                     detail::bytes(key), key.size(), detail::bytes(value), value.size(), ttl_ms);
        return *this;
    }
    // Adds a merge of an operand. The write of the batch throws as `Db::merge`.
    Batch& merge(std::string_view key, std::string_view operand) {
        detail::call(esker_batch_merge, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(operand), operand.size());
        return *this;
    }
    // Does the same as `merge`, in a keyspace, by its merge operator.
    Batch& merge(const Keyspace& keyspace, std::string_view key, std::string_view operand) {
        detail::call(esker_batch_merge_in, handle_.get(), keyspace.handle(), detail::bytes(key),
                     key.size(), detail::bytes(operand), operand.size());
        return *this;
    }
    // Adds a delete. A missing key is not a failure.
    Batch& erase(std::string_view key) {
        detail::call(esker_batch_delete, handle_.get(), detail::bytes(key), key.size());
        return *this;
    }
    // Does the same as `erase`, in a keyspace.
    Batch& erase(const Keyspace& keyspace, std::string_view key) {
        detail::call(esker_batch_delete_in, handle_.get(), keyspace.handle(), detail::bytes(key),
                     key.size());
        return *this;
    }
    // Adds a deletion of the keys from `start` (inclusive) to `end` (exclusive).
    Batch& erase_range(std::string_view start, std::string_view end) {
        detail::call(esker_batch_delete_range, handle_.get(), detail::bytes(start), start.size(),
                     detail::bytes(end), end.size());
        return *this;
    }
    // Does the same as `erase_range`, in a keyspace.
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
    // Adds all operations of packed bytes, whose form is that of `esker_batch_add_packed`. Keyspace
    // 0 of them is `default`, and keyspace `n` is `keyspaces[n - 1]`. Throws `Error` with
    // `Code::invalid_argument` if the bytes are no operations. It names the first wrong one, and
    // adds none.
    Batch& add_packed(
        std::string_view packed,
        const std::vector<std::reference_wrapper<const Keyspace>>& keyspaces = {}) {
        std::vector<const esker_keyspace_t*> handles;
        for (const Keyspace& keyspace : keyspaces) handles.push_back(keyspace.handle());
        detail::call(esker_batch_add_packed, handle_.get(), handles.data(), handles.size(),
                     detail::bytes(packed), packed.size());
        return *this;
    }
    // Calls `visit` with each `Operation`, in order. It must not change the batch. An exception of
    // `visit` is thrown again, and ends the visit.
    template <class Visit>
    void visit(Visit&& visit) const {
        auto receive = [&](const esker_operation_t* found) {
            visit(Operation{found->keyspace, static_cast<OperationKind>(found->kind),
                            detail::view(found->key, found->key_len),
                            detail::view(found->value, found->value_len), found->ttl_ms});
        };
        using Visitor = detail::Visitor<decltype(receive), esker_visit_operation_t>;
        Visitor visitor(receive);
        esker_batch_visit_keyspaces(handle_.get(), &visitor, &Visitor::receive);
        visitor.finish();
    }
    // Removes all operations and keeps the allocated memory.
    void clear() noexcept { esker_batch_clear(handle_.get()); }
    // The number of operations.
    size_t count() const noexcept { return esker_batch_count(handle_.get()); }
    // The memory of the operations, in bytes.
    size_t size_bytes() const noexcept { return esker_batch_size_bytes(handle_.get()); }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_batch_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_batch_t* handle() noexcept { return handle_.get(); }

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
    // Sets the maximum time of one wait for a lock, in milliseconds. 0 does not wait. Default:
    // 1,000. A pessimistic transaction waits for locks in each call, any other only in `prepare`.
    TransactionOptions& set_lock_timeout_ms(uint64_t lock_timeout_ms) {
        detail::call(esker_transaction_options_set_lock_timeout_ms, handle_.get(),
                     lock_timeout_ms);
        return *this;
    }
    // Sets what a completed commit survives. Default: what the store's option `durability` says.
    TransactionOptions& set_durability(Durability durability) {
        detail::call(esker_transaction_options_set_durability, handle_.get(),
                     static_cast<int32_t>(durability));
        return *this;
    }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_transaction_options_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_transaction_options_t* handle() noexcept { return handle_.get(); }

private:
    detail::Owned<esker_transaction_options_t, esker_transaction_options_destroy> handle_;
};

// Reads and writes that take effect together or not at all. It is rolled back if it is destroyed
// before its commit. Functions without a keyspace are for the keyspace `default`. One thread at a
// time may use it. After its end, and during a call of another thread, every function except `id`
// throws `Error` with `Code::invalid_argument`; after a close of the store, with `Code::closed`.
class Transaction {
public:
    // Takes over a handle of `esker_transaction_begin`.
    explicit Transaction(esker_transaction_t* handle) : handle_(handle) {}

    // The value that the transaction has written last, otherwise that of its snapshot, as a copy;
    // nothing if the key is missing. Throws as `get_for_update` if the transaction is serializable
    // and pessimistic.
    std::optional<std::string> get(std::string_view key) const {
        return read(esker_transaction_get, key);
    }
    // Does the same as `get`, in a keyspace. Throws `Error` with `Code::invalid_argument` if the
    // keyspace is of another store or of another opening, and with `Code::not_found` if it was
    // dropped. The same for the functions below with a keyspace.
    std::optional<std::string> get(const Keyspace& keyspace, std::string_view key) const {
        return read_in(esker_transaction_get_in, keyspace, key);
    }
    // Reads a key as `get` does, and protects it as a write of it would. A pessimistic transaction
    // locks the key. It throws `Error` with `Code::busy` if the lock is not free in time, with
    // `Code::deadlock` if transactions wait for each other, and with `Code::conflict` if the key
    // was written after the snapshot and the transaction has read other keys without a lock. After
    // that it keeps its locks and can go on.
    std::optional<std::string> get_for_update(std::string_view key) const {
        return read(esker_transaction_get_for_update, key);
    }
    // Does the same as `get_for_update`, in a keyspace.
    std::optional<std::string> get_for_update(const Keyspace& keyspace,
                                              std::string_view key) const {
        return read_in(esker_transaction_get_for_update_in, keyspace, key);
    }
    // Sets a key to a value at the commit. Later reads of the transaction see it at once. A
    // pessimistic transaction locks the key, and throws as `get_for_update`. A call that throws
    // changes nothing.
    void put(std::string_view key, std::string_view value) {
        detail::call(esker_transaction_put, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size());
    }
    // Does the same as `put`, in a keyspace.
    void put(const Keyspace& keyspace, std::string_view key, std::string_view value) {
        detail::call(esker_transaction_put_in, handle_.get(), keyspace.handle(),
                     detail::bytes(key), key.size(), detail::bytes(value), value.size());
    }
    // Does the same as `put`. The pair expires `ttl_ms` milliseconds after the commit, or after
    // `prepare`; the transaction itself sees it whatever the time.
    void put_with_ttl(std::string_view key, std::string_view value, uint64_t ttl_ms) {
        detail::call(esker_transaction_put_with_ttl, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(value), value.size(), ttl_ms);
    }
    // Does the same as `put_with_ttl`, in a keyspace.
    void put_with_ttl(const Keyspace& keyspace, std::string_view key, std::string_view value,
                      uint64_t ttl_ms) {
        detail::call(esker_transaction_put_with_ttl_in, handle_.get(), keyspace.handle(),
                     detail::bytes(key), key.size(), detail::bytes(value), value.size(), ttl_ms);
    }
    // Merges an operand into the value of a key at the commit. Later reads of the transaction see
    // the merged value. Of two transactions that merge into one key at the same time, one fails.
    // Throws as `put` and `Db::merge`.
    void merge(std::string_view key, std::string_view operand) {
        detail::call(esker_transaction_merge, handle_.get(), detail::bytes(key), key.size(),
                     detail::bytes(operand), operand.size());
    }
    // Does the same as `merge`, in a keyspace, by its merge operator.
    void merge(const Keyspace& keyspace, std::string_view key, std::string_view operand) {
        detail::call(esker_transaction_merge_in, handle_.get(), keyspace.handle(),
                     detail::bytes(key), key.size(), detail::bytes(operand), operand.size());
    }
    // Deletes a key at the commit. A missing key is not a failure. Throws as `put`.
    void erase(std::string_view key) {
        detail::call(esker_transaction_delete, handle_.get(), detail::bytes(key), key.size());
    }
    // Does the same as `erase`, in a keyspace.
    void erase(const Keyspace& keyspace, std::string_view key) {
        detail::call(esker_transaction_delete_in, handle_.get(), keyspace.handle(),
                     detail::bytes(key), key.size());
    }
    // Deletes the keys from `start` (inclusive) to `end` (exclusive) at the commit. The whole range
    // is protected: the commit throws if another commit has written a key in it, and a pessimistic
    // transaction locks it. Throws as `put`.
    void erase_range(std::string_view start, std::string_view end) {
        detail::call(esker_transaction_delete_range, handle_.get(), detail::bytes(start),
                     start.size(), detail::bytes(end), end.size());
    }
    // Does the same as `erase_range`, in a keyspace.
    void erase_range(const Keyspace& keyspace, std::string_view start, std::string_view end) {
        detail::call(esker_transaction_delete_range_in, handle_.get(), keyspace.handle(),
                     detail::bytes(start), start.size(), detail::bytes(end), end.size());
    }
    // The pairs within the bounds, in key order: those of the transaction's snapshot with its own
    // writes over them. Walking them throws `Error` with `Code::invalid_argument` after the end of
    // the transaction. A serializable pessimistic transaction locks the range, and throws as
    // `get_for_update`.
    Pairs scan(const Bounds& bounds = {}) const {
        esker_iter_t* iter = nullptr;
        detail::call(esker_transaction_iter_create, handle_.get(), detail::bound(bounds.start),
                     detail::length(bounds.start), detail::bound(bounds.end),
                     detail::length(bounds.end), &iter);
        return Pairs(Iterator(iter), true);
    }
    // Does the same as `scan`, in a keyspace, in its key order.
    Pairs scan(const Keyspace& keyspace, const Bounds& bounds = {}) const {
        esker_iter_t* iter = nullptr;
        detail::call(esker_transaction_iter_create_in, handle_.get(), keyspace.handle(),
                     detail::bound(bounds.start), detail::length(bounds.start),
                     detail::bound(bounds.end), detail::length(bounds.end), &iter);
        return Pairs(Iterator(iter), true);
    }

    // Sets a savepoint, to which `rollback_to_savepoint` returns. Savepoints nest.
    void set_savepoint() { detail::call(esker_transaction_savepoint, handle_.get()); }
    // Takes back the writes after the newest savepoint, and removes the savepoint. What the
    // transaction has read stays protected, and it keeps its locks. Throws `Error` with
    // `Code::not_found` if there is no savepoint.
    void rollback_to_savepoint() {
        detail::call(esker_transaction_rollback_to_savepoint, handle_.get());
    }
    // Removes the newest savepoint and keeps the writes after it. Throws `Error` with
    // `Code::not_found` if there is no savepoint.
    void pop_savepoint() { detail::call(esker_transaction_pop_savepoint, handle_.get()); }
    // After a failure nothing was written. See `esker_transaction_commit`.
    void commit() { detail::call(esker_transaction_commit, handle_.get()); }
    // Ends the transaction without its writes. Its scans throw from then on.
    void rollback() { detail::call(esker_transaction_rollback, handle_.get()); }
    // Stores the transaction under a name, so that `Db::commit_prepared` cannot conflict.
    void prepare(const std::string& name) {
        detail::call(esker_transaction_prepare, handle_.get(), name.c_str());
    }
    // The number of the transaction, which no other one of this opening of the store has. Messages
    // about locks and deadlocks have it.
    uint64_t id() const noexcept { return esker_transaction_id(handle_.get()); }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_transaction_t* handle() const noexcept { return handle_.get(); }

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
    // Why they wait, as a sentence without its end.
    std::string cause;
    // What ends the wait, as a sentence without its end.
    std::string clears;
    // Bytes that have to be written to tables before writes go on at full speed.
    uint64_t bytes = 0;
    // The time since the wait began.
    std::chrono::nanoseconds duration{};
    // False: each write is only slowed.
    bool is_stopped = false;
};

// A table file of a store, from `Db::tables`.
struct Table {
    // The number of the file, which is also its name.
    uint64_t number = 0;
    // The tree of the file; tree 0 holds the keyspace `default`. Keys of other trees begin with four
    // bytes that stand for their keyspace.
    uint64_t tree = 0;
    // The level of the file.
    uint64_t level = 0;
    // The size of the file, in bytes.
    uint64_t size_bytes = 0;
    // The number of entries: puts, merges and deletes.
    uint64_t entries = 0;
    // The number of deletes among the entries.
    uint64_t deletes = 0;
    // The number of range deletions.
    uint64_t range_deletes = 0;
    // The size of the keys and values before compression, in bytes.
    uint64_t raw_bytes = 0;
    // The first key.
    std::string smallest;
    // The last key.
    std::string largest;
};

// Options of a backup.
struct BackupOptions {
    // Whether a directory of backups of another store is assigned to this store.
    bool take_over = false;
};

// What a backup did.
struct BackupReport {
    // The number of the backup.
    uint64_t number = 0;
    // The size of the tables that were copied, in bytes.
    uint64_t copied_bytes = 0;

    // The number of the backup, for a program that needs no more of the report.
    operator uint64_t() const noexcept { return number; }
};

// What a verification has read. See `esker_verify_report_t`.
using VerifyReport = esker_verify_report_t;

// Result of `Db::verify_with`.
struct Verification {
    // What was read, also of a damaged store.
    VerifyReport report{};
    // The problems, one a line. Nothing: the store is whole.
    std::optional<Error> damage;
};

// A position in the change feed of another store, from `Db::applied_position`.
struct AppliedPosition {
    // The identity of the other store (`Db::store_id`).
    uint64_t source = 0;
    // The position up to which its changes are applied.
    uint64_t position = 0;
};

class Follower;

// An open store. Its functions for keys are for the keyspace `default`. Many threads may use it at
// once. It is closed when it is destroyed.
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

    // Sets a key to a value. What a crash can lose depends on `durability`. Throws `Error` with
    // `Code::invalid_argument` for a key of more than 1 MiB or a value of more than 1 GiB, with
    // `Code::read_only` if the store was opened read-only or an earlier write or sync of its log
    // failed, and with `Code::no_space` or `Code::io`.
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
    // Sets a key to the bytes that `read` gives, and returns the length of the value in bytes. `read`
    // stores the next bytes, at most `length`, in `buffer` and returns their number; 0 ends the value.
    // An exception of it is thrown again, and nothing is written. It may use the store, but not close
    // it. The call holds 2 MiB of the value in memory at a time; a value of more than 512 KiB goes into
    // a file of its own, and is durable at the end. Throws as `put`; also with `Code::incompatible` for
    // such a value in a store with format version 1 (`upgrade_format`).
    //
    //     db.put_reader("film", [&](char* buffer, size_t length) {
    //         return std::fread(buffer, 1, length, file);
    //     });
    template <class Read>
    uint64_t put_reader(std::string_view key, Read&& read) {
        return detail::put_reader(esker_put_reader, handle(), key, read);
    }
    // Merges an operand into the value of a key, by the merge operator of the store. Only the
    // operand is written; reads, flushes and compactions make the value. An operand does not
    // expire. Throws as `put`; also with `Code::invalid_argument` if the store has no merge
    // operator or the operator refuses the operand, and with `Code::incompatible` if the operator
    // is not among the options of this opening.
    void merge(std::string_view key, std::string_view operand,
               Durability durability = Durability::store_default) {
        detail::call(esker_merge, handle(), detail::bytes(key), key.size(),
                     detail::bytes(operand), operand.size(), static_cast<int32_t>(durability));
    }
    // Deletes a key. A missing key is not a failure. Throws as `put`.
    void erase(std::string_view key, Durability durability = Durability::store_default) {
        detail::call(esker_delete, handle(), detail::bytes(key), key.size(),
                     static_cast<int32_t>(durability));
    }
    // Deletes the keys from `start` (inclusive) to `end` (exclusive) with one range deletion.
    // Throws as `put`.
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

    // The value of a key, as a copy; nothing if the key is missing. Throws `Error` with
    // `Code::corruption` if what it reads is damaged, with `Code::io`, and with `Code::closed`
    // after `close`.
    std::optional<std::string> get(std::string_view key, const ReadOptions& options = {}) const {
        return detail::get(esker_get_with, handle(), key, options);
    }
    // The value of a key, as a copy, and the time at which the pair expires; nothing if the key is
    // missing. Throws as `get`.
    std::optional<ValueWithExpiry> get_with_expiry(std::string_view key,
                                                   const ReadOptions& options = {}) const {
        return detail::get_with_expiry(esker_get_with_expiry, handle(), key, options);
    }
    // Passes the value to `visit` without a copy, and returns whether the key exists. An exception
    // of `visit` is thrown again.
    template <class Visit>
    bool read(std::string_view key, Visit&& visit, const ReadOptions& options = {}) const {
        return detail::read(esker_get_visit, handle(), key, visit, options);
    }
    // A reader of the present value of a key; nothing if the key is missing. Of a value in a file of
    // its own (`put_reader`) it holds 64 KiB in memory. Throws as `get`.
    std::optional<ValueReader> get_reader(std::string_view key) const {
        esker_value_reader_t* reader = nullptr;
        detail::call(esker_get_reader, handle(), detail::bytes(key), key.size(), &reader);
        if (reader == nullptr) return std::nullopt;
        return ValueReader(reader);
    }
    // The values of the keys as of one moment, in the order of the keys. Throws as `get`.
    std::vector<std::optional<std::string>> multi_get(const std::vector<std::string_view>& keys,
                                                      const ReadOptions& options = {}) const {
        return detail::multi_get(esker_multi_get, handle(), keys, options);
    }
    // Whether the store has the key. Throws as `get`.
    bool contains(std::string_view key, const ReadOptions& options = {}) const {
        return detail::contains(esker_contains, handle(), key, options);
    }
    // A cursor without a position.
    Iterator iterator(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        esker_iter_t* iter = nullptr;
        detail::call(esker_iter_create, handle(), options.handle(), detail::bound(bounds.start),
                     detail::length(bounds.start), detail::bound(bounds.end),
                     detail::length(bounds.end), static_cast<uint8_t>(options.fill_cache), &iter);
        return Iterator(iter);
    }
    // The pairs within the bounds, in key order, for a range-for loop. They are those of the time
    // of this call, or of the snapshot. The bounds are copied. Throws as `get`, also while the
    // pairs are walked.
    Pairs scan(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        return Pairs(iterator(bounds, options), true);
    }
    // The pairs that `scan` returns, from the last key to the first.
    Pairs scan_backward(const Bounds& bounds = {}, const ReadOptions& options = {}) const {
        return Pairs(iterator(bounds, options), false);
    }

    // A cursor without a position over the keys that start with `prefix`; over all keys if it is
    // empty. The prefix is copied. Throws `Error` with `Code::invalid_argument` under a key order of
    // the program, which need not keep such keys together.
    Iterator prefix_iterator(std::string_view prefix, const ReadOptions& options = {}) const {
        esker_iter_t* iter = nullptr;
        detail::call(esker_iter_create_prefix, handle(), options.handle(),
                     detail::bytes(prefix), prefix.size(),
                     static_cast<uint8_t>(options.fill_cache), &iter);
        return Iterator(iter);
    }
    // The pairs whose keys start with `prefix`, in key order. Throws as `prefix_iterator`, otherwise
    // as `scan`.
    Pairs scan_prefix(std::string_view prefix, const ReadOptions& options = {}) const {
        return Pairs(prefix_iterator(prefix, options), true);
    }
    // The pairs that `scan_prefix` returns, from the last key to the first.
    Pairs scan_prefix_backward(std::string_view prefix, const ReadOptions& options = {}) const {
        return Pairs(prefix_iterator(prefix, options), false);
    }

    // The current state, to read later (`ReadOptions`). The versions that it sees stay on disk
    // until it is destroyed. Reads of it throw `Error` with `Code::closed` after `close`.
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
    // Gives a keyspace another name. Its handles stay valid. Throws `Error` with `Code::not_found`
    // if there is no such keyspace, and with `Code::invalid_argument` if the new name is in use or
    // not allowed, and for the keyspace `default`.
    void rename_keyspace(const std::string& name, const std::string& new_name) {
        detail::call(esker_keyspace_rename, handle(), name.c_str(), new_name.c_str());
    }
    // Drops a keyspace with all its keys.
    void drop_keyspace(const std::string& name) {
        detail::call(esker_keyspace_drop, handle(), name.c_str());
    }

    // Begins a transaction. It reads the store as of one moment: an optimistic one as of this call,
    // a pessimistic one as of its first call. The versions that it can read stay on disk, and its
    // writes in memory, until it ends.
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
        auto add = [&](const uint8_t* name, size_t length) {
            names.emplace_back(detail::view(name, length));
        };
        detail::call_visiting<esker_visit_name_t>(add, esker_prepared_transactions, handle());
        return names;
    }
    // Commits a prepared transaction, durable as with `Durability::sync`. Throws `Error` with
    // `Code::not_found` if there is none of this name, and with `Code::busy` while another call
    // ends it. After a failure it is still prepared.
    void commit_prepared(const std::string& name) {
        detail::call(esker_commit_prepared, handle(), name.c_str());
    }
    // Rolls a prepared transaction back. Throws as `commit_prepared`.
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
    // Waits until no flush or compaction is due. The merging of a store at rest is never due.
    void wait_idle() { detail::call(esker_wait_idle, handle()); }
    // Compacts the keys of the keyspace `default` within the bounds into the deepest level, and
    // waits until that is done. Deleted and overwritten entries that no snapshot sees are dropped.
    // Without bounds: all keys.
    void compact_range(const Bounds& bounds = {}) {
        detail::call(esker_compact_range, handle(), detail::bound(bounds.start),
                     detail::length(bounds.start), detail::bound(bounds.end),
                     detail::length(bounds.end));
    }
    // Compacts all keys of every keyspace, as `compact_range`.
    void compact_all() { detail::call(esker_compact_all, handle()); }
    // The tables that the store has now, of all keyspaces, by tree, level and number. A file with parts in
    // several levels is there once for each.
    std::vector<Table> tables() const {
        std::vector<Table> tables;
        auto add = [&](const esker_table_t* found) {
            tables.push_back({found->number, found->tree, found->level, found->size_bytes,
                              found->entries, found->deletes, found->range_deletes,
                              found->raw_bytes,
                              std::string(detail::view(found->smallest, found->smallest_len)),
                              std::string(detail::view(found->largest, found->largest_len))});
        };
        detail::call_visiting<esker_visit_table_t>(add, esker_tables, handle());
        return tables;
    }
    // The approximate size of the keys of the keyspace `default` from `start` (inclusive) to `end`
    // (exclusive) in the tables, in bytes. Data that is only in memory is not counted.
    uint64_t approximate_size(std::string_view start, std::string_view end) const {
        uint64_t bytes = 0;
        detail::call(esker_approximate_size, handle(), detail::bytes(start), start.size(),
                     detail::bytes(end), end.size(), &bytes);
        return bytes;
    }
    // Creates a second store with the same content, by hard links.
    void checkpoint(const std::string& path) {
        detail::call(esker_checkpoint, handle(), path.c_str());
    }
    // Raises the format version of the store. Earlier releases refuse it from then on.
    void upgrade_format(uint32_t to) { detail::call(esker_upgrade_format, handle(), to); }
    // Adds a backup to a directory, and returns its number and what it copied. It copies only tables
    // that the previous backup does not have, and reads all tables back. Throws `Error` with `Code::incompatible` if
    // the directory belongs to another store, with `Code::invalid_argument` if it has other content
    // or is inside a store, and with `Code::locked` during another backup into it.
    BackupReport backup(const std::string& path, const BackupOptions& options = {}) {
        BackupReport report;
        detail::call(esker_backup, handle(), path.c_str(), static_cast<uint8_t>(options.take_over),
                     &report.number, &report.copied_bytes);
        return report;
    }
    // Reads and checks every byte of the store.
    void verify() const { detail::call(esker_verify, handle()); }
    // Reads and checks every byte of the store, and returns how much was read. Damage is in the
    // result, and not thrown.
    Verification verify_with() const { return verified(nullptr, nullptr); }
    // Does the same. Calls `progress` with the number of bytes read so far, and with the estimated
    // number of all bytes. It may use the store, but not close it. An exception of it is thrown again
    // at the end of the verification.
    //
    //     db.verify_with([](uint64_t bytes, uint64_t of) {
    //         std::cerr << bytes << " of " << of << " bytes\n";
    //     });
    template <class Progress>
    Verification verify_with(Progress&& progress) const {
        using Visitor = detail::Visitor<std::remove_reference_t<Progress>, esker_progress_t>;
        Visitor visitor(progress);
        Verification found = verified(&visitor, &Visitor::receive);
        visitor.finish();
        return found;
    }
    // Changes an option of the open store, from text. Throws `Error` with `Code::invalid_argument`
    // for an unknown name, a bad value, and an option that is fixed when the store is opened
    // (`docs/options.md`). The change lasts until the store is closed.
    void set_option(const std::string& name, const std::string& value) {
        detail::call(esker_set_option, handle(), name.c_str(), value.c_str());
    }
    // Changes several options of the open store, all or none of them. Throws as `set_option`.
    void set_options(const std::vector<std::pair<std::string, std::string>>& options) {
        std::vector<const char*> names, values;
        for (const auto& [name, value] : options) {
            names.push_back(name.c_str());
            values.push_back(value.c_str());
        }
        detail::call(esker_set_options, handle(), names.size(), names.data(), values.data());
    }
    // A metric of the store, by the name of its field in docs/metrics.md, such as "user_ops" or
    // "memory.cache_bytes". Throws `Error` with `Code::invalid_argument` for a name that is no number
    // of the whole store.
    uint64_t metric(const std::string& name) const {
        uint64_t value = 0;
        detail::call(esker_metric, handle(), name.c_str(), &value);
        return value;
    }
    // A metric of one level of the store, such as "levels.bytes". Throws as `metric`, also for a level
    // that the store does not have.
    uint64_t level_metric(size_t level, const std::string& name) const {
        uint64_t value = 0;
        detail::call(esker_level_metric, handle(), level, name.c_str(), &value);
        return value;
    }
    // The absolute path of the store's directory; in memory the path with which it was opened.
    std::string path() const {
        char* text = nullptr;
        detail::call(esker_path, handle(), &text);
        return detail::taken(text);
    }
    // A property as text: `esker.stats`, `esker.option.NAME`, or one of LevelDB's (`esker_property`
    // lists them). Nothing for an unknown name or a closed store.
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
        auto add = [&](const esker_slot_info_t* found) {
            SlotInfo slot;
            slot.name = found->name;
            slot.position = found->position;
            slot.lag_bytes = found->lag_bytes;
            if (found->lag_limit_bytes != ESKER_LAG_UNLIMITED) {
                slot.lag_limit_bytes = found->lag_limit_bytes;
            }
            if (found->problem != nullptr) slot.problem = found->problem;
            slots.push_back(std::move(slot));
        };
        detail::call_visiting<esker_visit_slot_t>(add, esker_slots, handle());
        return slots;
    }
    // Removes a slot, also a damaged one, and the logs that only it needed. Throws `Error` with
    // `Code::not_found` if there is no such slot.
    void drop_slot(const std::string& name) {
        detail::call(esker_drop_slot, handle(), name.c_str());
    }
    // The store whose changes this one has applied (`Applier`), and the position in its feed. A
    // sender begins there. Nothing if it has applied none, and while content is copied.
    std::optional<AppliedPosition> applied_position() const {
        uint8_t has_applied = 0;
        AppliedPosition found;
        detail::call(esker_applied_position, handle(), &has_applied, &found.source,
                     &found.position);
        if (has_applied == 0) return std::nullopt;
        return found;
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
        auto add = [&](uint64_t id, const char* name, uint64_t at) {
            std::optional<std::string> known;
            if (name != nullptr) known = name;
            lineage.ancestors.push_back({id, std::move(known), at});
        };
        using Visitor = detail::Visitor<decltype(add), esker_visit_ancestor_t>;
        Visitor visitor(add);
        char* name = nullptr;
        detail::call(esker_lineage, handle(), &name, static_cast<void*>(&visitor),
                     &Visitor::receive);
        if (name != nullptr) lineage.name = detail::taken(name);
        visitor.finish();
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

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_db_t* handle() const noexcept { return handle_.get(); }

private:
    friend class Follower;
    explicit Db(esker_db_t* handle) : handle_(handle) {}

    Verification verified(void* state, esker_progress_t progress) const {
        esker_verify_report_t* report = nullptr;
        char* message = nullptr;
        const int32_t code = esker_verify_with(handle(), state, progress, &report, &message);
        std::unique_ptr<esker_verify_report_t, detail::Free> owned(report);
        if (!owned && code != ESKER_OK) detail::fail(code, message);
        const std::string text = detail::taken(message);
        if (!owned) throw std::bad_alloc();
        Verification found{*owned, std::nullopt};
        if (code != ESKER_OK) found.damage = Error(static_cast<Code>(code), text);
        return found;
    }

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

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
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

// A stream of the changes of a store as bytes, for a pipe to another process or machine. An `Applier`
// reads it. One thread at a time may use it.
//
//     esker::Slot slot = db.subscribe("replica");
//     esker::ChangeWriter writer(db, [&](std::string_view bytes) { send(bytes); });
//     esker::Changes changes = db.changes(writer.content());
//     while (changes.next()) writer.batch(changes);
//     writer.end(changes.position());
class ChangeWriter {
public:
    // Starts a stream: passes its header to `write`. Each call on the writer calls `write` with the
    // next bytes. It must take them all, and must not close the store. An exception of it is thrown
    // again by the call. After that, every call throws `Error` with `Code::io`.
    ChangeWriter(const Db& db, std::function<void(std::string_view bytes)> write)
        : state_(new State{std::move(write), nullptr}) {
        esker_change_writer_t* writer = nullptr;
        state_->call_moving(esker_change_writer_create, db.handle(),
                            static_cast<void*>(state_.get()), &State::take, &writer);
        handle_.reset(writer);
    }

    // Writes the batch that `changes` has returned last, a feed of the same `Db`. Throws `Error` with
    // `Code::invalid_argument` if there is none.
    void batch(const Changes& changes) {
        state_->call_moving(esker_change_writer_batch, handle_.get(), changes.handle());
    }
    // Writes the whole content of the store, for a receiver that has nothing of it. Returns its
    // position in the feed. The changes from there on follow. A slot must exist before this call, so
    // that they are kept.
    uint64_t content() {
        uint64_t position = 0;
        state_->call_moving(esker_change_writer_content, handle_.get(), &position);
        return position;
    }
    // Writes that there is nothing new after `position`, so that the receiver knows that the sender
    // is alive.
    void alive(uint64_t position) {
        state_->call_moving(esker_change_writer_alive, handle_.get(), position);
    }
    // Writes the end of the stream, at `position`. A stream without it is cut off for its receiver.
    void end(uint64_t position) {
        state_->call_moving(esker_change_writer_end, handle_.get(), position);
    }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_change_writer_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_change_writer_t* handle() noexcept { return handle_.get(); }

private:
    using State = detail::Moving<std::function<void(std::string_view)>>;

    // The handle has its address.
    std::unique_ptr<State> state_;
    detail::Owned<esker_change_writer_t, esker_change_writer_destroy> handle_;
};

// Kinds of items of a stream of changes.
enum class StreamItemKind : int32_t {
    // The end. Nothing follows.
    end = ESKER_STREAM_END,
    // A batch, or a part of one.
    batch = ESKER_STREAM_BATCH,
    // The sender has nothing new.
    alive = ESKER_STREAM_ALIVE,
    // The content of the sender's store begins, or a part of it.
    content = ESKER_STREAM_CONTENT,
    // The content of the sender's store is complete.
    content_end = ESKER_STREAM_CONTENT_END,
    // One that this version of the interface has no number for.
    other = ESKER_STREAM_OTHER,
};

// An item of a stream that an `Applier` has applied.
struct StreamItem {
    // The kind.
    StreamItemKind kind = StreamItemKind::end;
    // The position that the item is about; 0 for content before its end.
    uint64_t position = 0;
};

// Reads a stream of changes and applies it to another store. A range-for loop over it applies the
// whole stream. One thread at a time may use it.
class Applier {
public:
    // Starts to apply a stream to a store: reads its header from `read`. Each call on the applier
    // calls `read`, which stores the next bytes, at most `length`, in `buffer` and returns their
    // number; 0 ends the bytes. An exception of it is thrown again by the call. Throws `Error` with
    // `Code::incompatible` if the store has applied the changes of another store or is the source
    // itself, and with `Code::corruption` if the bytes are no stream.
    Applier(Db& db, std::function<size_t(char* buffer, size_t length)> read)
        : state_(new State{std::move(read), nullptr}) {
        esker_applier_t* applier = nullptr;
        state_->call_moving(esker_applier_create, db.handle(), static_cast<void*>(state_.get()),
                            &State::give, &applier);
        handle_.reset(applier);
    }

    // The identity of the store whose changes the stream has (`Db::store_id`).
    uint64_t source() const noexcept { return esker_applier_source(handle_.get()); }
    // States that the store has the content of the source at `position`, because it is a copy of it.
    // Throws `Error` with `Code::invalid_argument` if the store has applied changes already.
    void start_at(uint64_t position) {
        state_->call_moving(esker_applier_start_at, handle_.get(), position);
    }
    // Reads the next item and applies it. A batch that the store has is left out. After the end it
    // returns the end again. Throws `Error` with `Code::corruption` if the bytes are damaged, with
    // `Code::io` if they are cut off, with `Code::invalid_argument` if the item does not follow what
    // the store has or needs a merge operator that it lacks, and as `Db::write`. The item is not
    // applied then. After that, start a new stream at `Db::applied_position`.
    StreamItem next() {
        int32_t kind = ESKER_STREAM_END;
        StreamItem item;
        state_->call_moving(esker_applier_next, handle_.get(), &kind, &item.position);
        item.kind = static_cast<StreamItemKind>(kind);
        return item;
    }

    // The place of a range-for loop over the items. It must not be used after its `Applier` was
    // moved or destroyed.
    class Position {
    public:
        // An input iterator: each item is read once.
        using iterator_category = std::input_iterator_tag;
        // What a place has.
        using value_type = StreamItem;
        // A type that the standard library asks for. No distance is measured.
        using difference_type = std::ptrdiff_t;
        // A type that the standard library asks for.
        using pointer = const StreamItem*;
        // What `*` returns: an item that the place has.
        using reference = const StreamItem&;

        // Applies the next item of `applier`, which is then the place. Null: the end. Throws as
        // `next`.
        explicit Position(Applier* applier) : applier_(applier) {
            if (applier_ != nullptr) item_ = applier_->next();
        }
        // The item at this place, which must not be the end.
        const StreamItem& operator*() const noexcept { return item_; }
        // The item at this place, as `*`.
        const StreamItem* operator->() const noexcept { return &item_; }
        // Applies the next item. The place after an item of the kind `end` is the end. Throws as
        // `next`.
        Position& operator++() {
            if (item_.kind == StreamItemKind::end) {
                applier_ = nullptr;
            } else {
                item_ = applier_->next();
            }
            return *this;
        }
        // Does the same as `++` before the place.
        void operator++(int) { ++*this; }
        // Whether both are at the end, or both belong to the same applier and are not.
        bool operator==(const Position& other) const noexcept { return applier_ == other.applier_; }
        // The opposite of `==`.
        bool operator!=(const Position& other) const noexcept { return applier_ != other.applier_; }

    private:
        Applier* applier_;
        StreamItem item_;
    };

    // Applies the next item. Throws as `next`.
    Position begin() { return Position(this); }
    // The place after the item of the kind `end`.
    Position end() { return Position(nullptr); }

    // The C handle, for calls of `esker.h`. This object keeps it and frees it.
    const esker_applier_t* handle() const noexcept { return handle_.get(); }
    // The C handle, for calls of `esker.h` that change it. This object keeps it and frees it.
    esker_applier_t* handle() noexcept { return handle_.get(); }

private:
    using State = detail::Moving<std::function<size_t(char*, size_t)>>;

    // The handle has its address.
    std::unique_ptr<State> state_;
    detail::Owned<esker_applier_t, esker_applier_destroy> handle_;
};

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

// What a repair has read and kept. See `esker_repair_report_t`.
using RepairReport = esker_repair_report_t;

// Result of `repair_with`.
struct Repair {
    // What was read and kept.
    RepairReport report{};
    // The losses, one per line.
    std::string lost;
    // The directory that now holds the original files.
    std::string originals;
};

// Rebuilds a store as `repair`, and returns how much was read and kept.
inline Repair repair_with(const std::string& path, const Options& options = Options()) {
    esker_repair_report_t* report = nullptr;
    char *lost = nullptr, *originals = nullptr;
    detail::call(esker_repair_with, path.c_str(), options.handle(), &report, &lost, &originals);
    std::unique_ptr<esker_repair_report_t, detail::Free> owned(report);
    std::unique_ptr<char, detail::Free> owned_originals(originals);
    Repair made;
    made.lost = detail::taken(lost);
    made.originals = detail::taken(owned_originals.release());
    if (!owned) throw std::bad_alloc();
    made.report = *owned;
    return made;
}

// A backup in a directory of backups.
struct BackupInfo {
    // The number of the backup.
    uint64_t number = 0;
    // The directory of the backup, which is a store.
    std::string path;
    // The number of its tables, also of those that other backups share.
    uint64_t tables = 0;
    // The size of these tables, in bytes.
    uint64_t table_bytes = 0;
    // The time of its creation, in milliseconds since 1970, if it is known.
    std::optional<uint64_t> created_ms;
    // The identity of the store that was backed up (`Db::store_id`), if it is known.
    std::optional<uint64_t> store_id;
    // The directory of that store at the time of the backup, if it is known.
    std::optional<std::string> store_path;
    // Why the three above could not be read. A restore checks the content of the backup.
    std::optional<std::string> problem;
};

// The backups in a directory, the oldest first. Of the options only the file system and the key are
// used. Throws `Error` with `Code::not_found` if there is no such directory, and with
// `Code::invalid_argument` if it has other content.
inline std::vector<BackupInfo> backups(const std::string& path,
                                       const Options& options = Options()) {
    std::vector<BackupInfo> backups;
    auto add = [&](const esker_backup_info_t* found) {
        BackupInfo backup;
        backup.number = found->number;
        backup.path = found->path;
        backup.tables = found->tables;
        backup.table_bytes = found->table_bytes;
        if (found->created_ms >= 0) backup.created_ms = static_cast<uint64_t>(found->created_ms);
        if (found->has_store != 0) backup.store_id = found->store_id;
        if (found->store_path != nullptr) backup.store_path = found->store_path;
        if (found->problem != nullptr) backup.problem = found->problem;
        backups.push_back(std::move(backup));
    };
    detail::call_visiting<esker_visit_backup_t>(add, esker_backups, path.c_str(),
                                                options.handle());
    return backups;
}

// Removes the oldest backups in a directory until `keep` are left, and returns how many it removed.
// The others stay complete. Throws as `backups`, and with `Code::invalid_argument` if `keep` is 0.
inline uint64_t prune_backups(const std::string& path, size_t keep,
                              const Options& options = Options()) {
    uint64_t removed = 0;
    detail::call(esker_prune_backups, path.c_str(), options.handle(), keep, &removed);
    return removed;
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
    // The name of the master key before.
    std::string from;
    // The name of the master key now.
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

// What the process publishes that has a store open for writing.
struct LiveStatus {
    // The metrics in the OpenMetrics text format.
    std::string openmetrics;
    // The number of the process.
    uint32_t process = 0;
};

// The metrics of a store that another process, or this one, has open for writing. They are about a
// second old, or ten seconds while nothing changes. Of the options only the file system is used.
// Throws `Error` with `Code::not_found` if no process has the store open, or it publishes nothing.
inline LiveStatus live_status(const std::string& path, const Options& options = Options()) {
    LiveStatus status;
    char* text = nullptr;
    detail::call(esker_live_status, path.c_str(), options.handle(), &text, &status.process);
    status.openmetrics = detail::taken(text);
    return status;
}

// Counts what the calls of this thread do, from its creation until it is destroyed. It belongs to
// its thread. Several may exist: each counts what happens while it exists. `take` returns the counts of
// the newest one of the thread. Destroy them in reverse order. It can be neither copied nor moved.
class Perf {
public:
    // Counts by their names, which are those of Rust's `PerfContext`, for example "cache_hits".
    using Counts = std::map<std::string, uint64_t>;

    // Begins to count, from 0 on.
    Perf() noexcept { esker_perf_enable(1); }
    // Ends the counting.
    ~Perf() { esker_perf_enable(0); }
    Perf(const Perf&) = delete;
    Perf& operator=(const Perf&) = delete;

    // The counts since the last call of this function, or since the creation. Sets them to 0.
    Counts take() {
        const std::string all = detail::taken(esker_perf_take());
        Counts counts;
        for (size_t start = 0; start < all.size();) {
            const size_t end = std::min(all.find('\n', start), all.size());
            const size_t blank = all.find(' ', start);
            if (blank < end) {
                counts[all.substr(start, blank - start)] =
                    std::strtoull(all.c_str() + blank + 1, nullptr, 10);
            }
            start = end + 1;
        }
        return counts;
    }
};

// A description of an option of a store.
struct OptionInfo {
    // The name, as `Options::set` takes it.
    std::string name;
    // The unit of a number; empty for a name or a switch.
    std::string unit;
    // The default, as text.
    std::string default_value;
    // The values that it can have, as text, such as "1 to 8, auto".
    std::string range;
    // What it does, as Markdown.
    std::string description;
    // Whether it can be changed while the store is open (`Db::set_option`).
    bool is_changeable = false;
    // Whether a keyspace can have a value of its own (`KeyspaceOptions::set`).
    bool is_of_keyspaces = false;
};

// The options that `Options::set` sets, in the order of docs/options.md.
inline std::vector<OptionInfo> option_infos() {
    std::vector<OptionInfo> infos;
    auto add = [&](const esker_option_t* found) {
        infos.push_back({found->name, found->unit, found->default_value, found->range,
                         found->description, found->is_changeable != 0,
                         found->is_of_keyspaces != 0});
    };
    detail::call_visiting<esker_visit_option_t>(add, esker_options_visit);
    return infos;
}

// The version of the library, such as "0.1.0".
inline std::string version() { return esker_version(); }

}  // namespace esker

#endif  // ESKER_HPP
