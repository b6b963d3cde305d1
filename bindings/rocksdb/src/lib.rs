//! RocksDB's C interface over Esker: every function of the header of RocksDB 11.8, each of them
//! done, accepted or refused. `functions.tsv` says which; `docs/rocksdb.md` shows it.
//! `scripts/rocksdb.sh` links this crate into `librocksdb.so`.
//!
//! | module | content |
//! |---|---|
//! | `failure`, `settings`, `stubs` | error texts and refusals; options kept by name; generated functions |
//! | `options`, `access`, `objects` | options of stores; of reads and writes; objects that options refer to |
//! | `operators`, `filters`, `slots`, `merge_calls` | merge operators and compaction filters, their places in a store; merges |
//! | `store`, `db` | an open store and its column families; opening |
//! | `read`, `multi_get`, `iter`, `merged` | reads and iterators, also with writes over them |
//! | `write`, `rep`, `batch` | writes; the bytes of a batch; batches |
//! | `overlay`, `batch_wi`, `batch_wi_read` | indexed writes; batches with an index |
//! | `transaction`, `transaction_calls`, `transaction_db`, `optimistic_db` | transactions |
//! | `maintenance`, `properties`, `counters`, `memory`, `live_files` | flushes and compactions; reports |
//! | `backup` | checkpoints and backups |
//! | `external_files`, `file_manager` | files made outside of a store and their ingest; sizes of tables |
//! | `wal_iter` | the batches of the log |
//!
//! Invariants:
//! 1. An error text has RocksDB's format `Kind: message` and is allocated with `malloc`.
//! 2. No refused call passes for a success: it fails, or the next call that can fail does.
//! 3. A null handle gives an error text if the function reports errors, and no effect otherwise.
//! 4. No panic unwinds into C.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of every function is the one of RocksDB's header"
)]
#![allow(non_camel_case_types, non_snake_case, reason = "the names are C's")]

mod accepted;
pub mod access;
mod access_mode;
pub mod backup;
pub mod batch;
pub mod batch_wi;
pub mod batch_wi_read;
pub mod counters;
pub mod db;
pub mod external_files;
pub mod failure;
pub mod file_manager;
pub mod filters;
mod held;
pub mod iter;
pub mod live_files;
pub mod maintenance;
pub mod memory;
pub mod merge_calls;
pub mod merged;
pub mod multi_get;
pub mod objects;
pub mod operators;
pub mod optimistic_db;
pub mod options;
pub mod overlay;
pub mod properties;
pub mod read;
pub mod rep;
pub mod secondary;
pub mod settings;
pub mod slots;
pub mod store;
pub mod stubs;
pub mod transaction;
pub mod transaction_calls;
pub mod transaction_db;
pub mod wal_iter;
pub mod write;
