//! The native half of Esker for Java: the functions that the class `dev.esker.Native` declares.
//!
//! | module | content |
//! |---|---|
//! | `env` | arguments, results and exceptions of a call; the macro that declares a function |
//! | `handle` | Rust objects that Java holds as numbers |
//! | `part` | reads and writes of a store or of one of its keyspaces |
//! | `store` | opening, closing, options and maintenance of stores; runtimes |
//! | `batch` | the packed form of a batch |
//! | `snapshot`, `iter`, `transaction` | the objects of these names |
//! | `feed`, `ingest` | the change feed, forks and comparisons; sorted files |
//! | `follower` | followers of stores that other processes write |
//! | `backup` | checkpoints, backups, keys, and work on stores that are not open |
//!
//! Invariants:
//! 1. A panic becomes an exception at each entry.
//! 2. A call that began before a close of its store completes on an open store. A later call throws.
//! 3. Java's arrays are copied, or held without a call of the engine in between, so that the garbage
//!    collector never waits for the engine.

mod backup;
mod batch;
mod env;
mod feed;
mod follower;
mod handle;
mod ingest;
mod iter;
mod part;
mod snapshot;
mod store;
mod transaction;
