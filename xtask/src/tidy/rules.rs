//! The rules of the checks, in one place.

/// Maximum number of lines of a file.
pub const FILE_LINES_MAX: usize = 600;
/// Maximum number of lines of a function, from `fn` to its closing brace.
pub const FUNCTION_LINES_MAX: usize = 70;

/// Names of directories without files of the project.
pub const SKIPPED_FOLDERS: &[&str] = &["target", "bench", "node_modules", "corpus"];

/// Marks of unfinished work, spelled so that this file contains none of them.
pub const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!"),
    concat!("unimplemented", "!"),
];

/// Hosts of package registries. A build finds its registry in its user's configuration, so that a mirror
/// serves as well. Spelled so that this file contains none of them.
pub const REGISTRY_HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("proxy.golang", ".org"),
    concat!("sum.golang", ".org"),
    concat!("repo1.maven", ".org"),
    concat!("repo.maven.apache", ".org"),
    concat!("deb.debian", ".org"),
];

/// Endings and names of the files that are searched for these hosts. What cargo itself writes into
/// `Cargo.lock` is its own.
pub const FILES_WITHOUT_HOSTS: &[&str] = &[
    ".rs",
    ".md",
    ".sh",
    ".toml",
    ".py",
    ".pyi",
    ".js",
    ".mjs",
    ".ts",
    ".json",
    ".go",
    ".mod",
    ".sum",
    ".java",
    ".xml",
    ".properties",
    ".c",
    ".h",
    ".hpp",
    ".cpp",
    ".awk",
    ".tsv",
    "Makefile",
    "run",
];

/// Former private words of the engine, each with the field's word that took its place.
pub const FORMER_WORDS: &[(&str, &str)] = &[
    ("Limbo", "retire list"),
    ("Shelf", "block slots"),
    ("Loan", "cache reservation"),
    ("lent_bytes", "reserved_bytes"),
    ("OwnPlaces", "PerThread"),
    ("LargeSlice", "HugePageBox"),
    ("granule", "unit"),
    ("Outline", "block sketch"),
    ("outline", "block sketch"),
    ("foresee", "prefetch"),
    ("Stretch", "RowBatch"),
    ("ladder", "sorted merge list"),
    ("rung", "entry of the sorted merge list"),
    ("Detours", "SkipState"),
    ("DeadRun", "TombstoneRun"),
    ("Fence", "KeyHeadIndex"),
    ("Holding", "CandidateFragments"),
    ("Heat", "seek statistics"),
    ("sought", "wanted or pending"),
    ("Surroundings", "CommitHooks"),
    ("rivals", "group_commit_delay"),
    ("crowded", "near_stall"),
    ("nap", "sleep"),
    ("make_way", "wal_preallocate"),
    ("awaited", "space_waiters, idle_waiters"),
    ("look_past_filter", "get_past_filter"),
    ("look_from", "get_from_block"),
    ("KNOBS", "OPTIONS"),
    ("retreat", "prev"),
    ("Shown", "EpochCell"),
    ("What stays true", "Invariants"),
];

/// The only files that may contain `unsafe`; each block in them has a safety argument.
pub const UNSAFE_FILES: &[&str] = &[
    "crates/esker/src/base/chunk.rs",
    "crates/esker/src/base/thread_group.rs",
    "crates/esker/src/base/cache_block.rs",
    "crates/esker/src/base/cache_block_pool.rs",
    "crates/esker/src/base/huge_page_box.rs",
    "crates/esker/src/base/per_thread.rs",
    "crates/esker/src/base/prefetch.rs",
    "crates/esker/src/base/epoch_cell.rs",
    "crates/esker/src/cache/slot.rs",
    "crates/esker/src/fs/fork.rs",
    "crates/esker/src/fs/guarded.rs",
    "crates/esker/src/fs/os.rs",
    "crates/esker/src/fs/mapped/tests.rs",
    "crates/esker/tests/resource_exhaustion.rs",
    "crates/esker/tests/limits.rs",
    "crates/esker/tests/runtime_processes.rs",
    // A program that calls LevelDB's C functions.
    "crates/cli/tests/recording.rs",
    // Stores that RocksDB's own library writes.
    "crates/cli/tests/rocksdb_store/mod.rs",
    "crates/esker/tests/mapped.rs",
    "crates/testkit/src/torture/power.rs",
    "crates/esker/src/memtable/arena.rs",
    "crates/esker/src/memtable/slab.rs",
    "crates/esker/src/fs/mapped.rs",
    // The C interfaces: raw pointers as arguments and results, and functions with C names.
    "bindings/c/src/callbacks.rs",
    "bindings/c/src/ffi.rs",
    "bindings/rocksdb/tests/reported.rs",
    "bindings/leveldb/src/batch.rs",
    "bindings/leveldb/src/iter.rs",
    "bindings/leveldb/src/lib.rs",
    "bindings/leveldb/src/objects.rs",
    "bindings/leveldb/src/options.rs",
    "bindings/leveldb/src/shim.rs",
    "bindings/leveldb/src/store.rs",
    "bindings/c/src/own/backup.rs",
    "bindings/c/src/own/batch.rs",
    "bindings/c/src/own/bulk.rs",
    "bindings/c/src/own/db.rs",
    "bindings/c/src/own/encryption.rs",
    "bindings/c/src/own/feed.rs",
    "bindings/c/src/own/follower.rs",
    "bindings/c/src/own/fork.rs",
    "bindings/c/src/own/ingest.rs",
    "bindings/c/src/own/inspect.rs",
    "bindings/c/src/own/iter.rs",
    "bindings/c/src/own/keyspace.rs",
    "bindings/c/src/own/keyspace_data.rs",
    "bindings/c/src/own/merge_and_ttl.rs",
    "bindings/c/src/own/common.rs",
    "bindings/c/src/own/observe.rs",
    "bindings/c/src/own/options.rs",
    "bindings/c/src/own/read.rs",
    "bindings/c/src/own/runtime.rs",
    "bindings/c/src/own/store.rs",
    "bindings/c/src/own/stream.rs",
    "bindings/c/src/own/transaction.rs",
    "bindings/c/src/own/transaction_data.rs",
    "bindings/c/src/own/wire.rs",
    "bindings/c/src/own/reports.rs",
    "bindings/c/examples/overhead.rs",
    "bindings/c/tests/common/mod.rs",
    "bindings/c/tests/invalid_arguments.rs",
    "bindings/c/tests/null_arguments/mod.rs",
    "bindings/c/tests/keyspaces.rs",
    "bindings/c/tests/merge_and_ttl.rs",
    "bindings/c/tests/keyspace_handles/mod.rs",
    "bindings/c/tests/backups.rs",
    "bindings/c/tests/bulk.rs",
    "bindings/c/tests/inspect.rs",
    "bindings/c/tests/reads.rs",
    "bindings/c/tests/observe.rs",
    "bindings/c/tests/reentry.rs",
    "bindings/c/tests/transactions.rs",
    "bindings/c/tests/transaction_handles/mod.rs",
    "bindings/c/tests/random_calls/copies.rs",
    "bindings/c/tests/random_calls/copies/branches.rs",
    "bindings/c/tests/random_calls/copies/feed.rs",
    "bindings/c/tests/random_calls/copies/loads.rs",
    "bindings/c/tests/random_calls/keyspaces.rs",
    "bindings/c/tests/random_calls/keyspaces/rest.rs",
    "bindings/c/tests/random_calls/leveldb.rs",
    "bindings/c/tests/random_calls/transactions.rs",
    "bindings/c/tests/random_calls/transactions/rest.rs",
    "bindings/c/tests/sequences.rs",
    "bindings/c/tests/random_calls/own.rs",
    "bindings/c/tests/random_calls/own/rest.rs",
    "bindings/rocksdb/src/access.rs",
    "bindings/rocksdb/src/backup.rs",
    "bindings/rocksdb/src/batch.rs",
    "bindings/rocksdb/src/batch_wi.rs",
    "bindings/rocksdb/src/batch_wi_read.rs",
    "bindings/rocksdb/src/counters.rs",
    "bindings/rocksdb/src/db.rs",
    "bindings/rocksdb/src/external_files.rs",
    "bindings/rocksdb/src/failure.rs",
    "bindings/rocksdb/src/file_manager.rs",
    "bindings/rocksdb/src/filters.rs",
    "bindings/rocksdb/src/iter.rs",
    "bindings/rocksdb/src/live_files.rs",
    "bindings/rocksdb/src/maintenance.rs",
    "bindings/rocksdb/src/memory.rs",
    "bindings/rocksdb/src/merge_calls.rs",
    "bindings/rocksdb/src/multi_get.rs",
    "bindings/rocksdb/src/objects.rs",
    "bindings/rocksdb/src/optimistic_db.rs",
    "bindings/rocksdb/src/operators.rs",
    "bindings/rocksdb/src/options.rs",
    "bindings/rocksdb/src/properties.rs",
    "bindings/rocksdb/src/read.rs",
    "bindings/rocksdb/src/secondary.rs",
    "bindings/rocksdb/src/settings.rs",
    "bindings/rocksdb/src/stubs.rs",
    "bindings/rocksdb/src/transaction_calls.rs",
    "bindings/rocksdb/src/transaction_db.rs",
    "bindings/rocksdb/src/wal_iter.rs",
    "bindings/rocksdb/src/write.rs",
    "bindings/rocksdb/tests/calls/mod.rs",
    "bindings/rocksdb/tests/files_and_log/mod.rs",
    "bindings/rocksdb/tests/interface.rs",
    "bindings/rocksdb/tests/merges_and_expiry.rs",
    "bindings/rocksdb/tests/beside.rs",
    "bindings/rocksdb/tests/secondary.rs",
    "bindings/rocksdb/examples/overhead.rs",
    // The interface to the Java virtual machine.
    "bindings/java/src/env.rs",
    "bindings/java/src/handle.rs",
    // The peers' C interfaces.
    "crates/peers/src/berkeley.rs",
    "crates/peers/src/c_functions.rs",
    "crates/peers/src/capi.rs",
    "crates/peers/src/leveldb.rs",
    "crates/peers/src/library.rs",
    "crates/peers/src/lmdb.rs",
    "crates/peers/src/rocksdb.rs",
    "crates/peers/src/rocksdb_bulk.rs",
    "crates/peers/src/rocksdb_families.rs",
    "crates/peers/src/rocksdb_options.rs",
    "crates/peers/src/rocksdb_transactions.rs",
    "crates/peers/src/sqlite.rs",
    "crates/peers/src/wiredtiger.rs",
];

/// Modules of the engine by layer. A module may import only lower layers. Modules of layer 0 may
/// also import each other; modules of any other layer may not.
pub const LAYERS: &[&[&str]] = &[
    &["base", "options", "metrics", "error", "codec", "observe", "perf"],
    &["fs"],
    &["cache", "wal", "memtable", "table", "values", "iter"],
    &["tree", "txn"],
    &["write", "flush", "compaction", "read"],
    &["db"],
];

/// Imports allowed despite the rule: importing module, imported module.
pub const EXCEPTIONS: &[(&str, &str)] = &[("table", "cache")];

/// Returns the layer of a module of the engine.
pub fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Returns whether module `from` may import module `to`.
pub fn may_import(from: &str, to: &str) -> bool {
    if from == to || EXCEPTIONS.contains(&(from, to)) {
        return true;
    }
    match (layer(from), layer(to)) {
        (Some(0), Some(0)) => true,
        (Some(from), Some(to)) => to < from,
        _ => false,
    }
}
