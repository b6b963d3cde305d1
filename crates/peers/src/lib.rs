//! Adapters that put engines behind the lab's [`Target`](esker_lab::target::Target) trait. Only
//! this crate knows engines by name.
//!
//! Engines written in C and C++ are opened at run time through their C interfaces. None of their
//! code is compiled, and a missing engine is an error message, not a build error.
//!
//! Contract with every library:
//! 1. It is loaded with local symbols and never unloaded, since its threads may outlive the last
//!    store.
//! 2. Each call passes pointers that live through the call.
//! 3. Returned memory is copied or passed to a callback, and then freed with the library's own
//!    function.

pub mod bench;
mod berkeley;
mod c_functions;
mod capi;
#[cfg(feature = "engine")]
mod esker;
#[cfg(feature = "rust-engines")]
mod fjall;
pub mod install;
mod installed;
pub mod kill;
pub mod knobs;
pub mod lab;
mod leveldb;
mod library;
mod lmdb;
pub mod preset;
#[cfg(feature = "rust-engines")]
mod redb;
mod rocksdb;
mod rocksdb_bulk;
mod rocksdb_families;
mod rocksdb_options;
mod rocksdb_stats;
mod rocksdb_transactions;
#[cfg(feature = "rust-engines")]
mod sled;
mod sqlite;
pub mod subprocess;
pub mod trace;
pub mod tune;
mod wiredtiger;
pub mod ycsb;

pub use bench::{config, engine_named, run};
pub use installed::rocksdb_installed;
pub use leveldb::LevelDb;
pub use rocksdb_families::{FamilyOperator, RocksDbFamilies};
