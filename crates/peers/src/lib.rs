//! Adapters that put engines behind the lab's [`Target`](esker_lab::target::Target) trait: the
//! only place that knows them by name.
//!
//! Engines written in C and C++ are opened at run time through their C interfaces, so nothing of
//! theirs is compiled and an absent one is a sentence, not a build error. Contract with every
//! library: it is loaded with its symbols local and never unloaded (its threads may outlive the
//! last store); each call passes pointers that live through the call; memory it returns is
//! copied or shown and then freed by its own function.

pub mod apart;
pub mod bench;
mod berkeley;
mod capi;
#[cfg(feature = "engine")]
mod esker;
#[cfg(feature = "rust-engines")]
mod fjall;
pub mod install;
pub mod lab;
mod leveldb;
mod library;
mod lmdb;
#[cfg(feature = "rust-engines")]
mod redb;
mod rocksdb;
#[cfg(feature = "rust-engines")]
mod sled;
mod wiredtiger;
pub mod ycsb;

pub use bench::{config, engine_named, run};
pub use leveldb::LevelDb;
