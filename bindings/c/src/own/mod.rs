//! Esker's own C interface: the functions and types of `include/esker.h`.
//!
//! Invariants:
//! 1. Each type of handle is freed by one function. Freeing null does nothing.
//! 2. The objects that a handle was created from may be freed before the handle.
//! 3. A batch, a buffer or a path is borrowed only for the duration of a call.

pub mod backup;
pub mod batch;
pub mod bulk;
pub mod common;
pub mod db;
pub mod encryption;
pub mod feed;
pub mod follower;
pub mod fork;
pub mod ingest;
pub mod inspect;
pub mod iter;
pub mod keyspace;
pub mod keyspace_data;
pub mod merge_and_ttl;
pub mod observe;
pub mod options;
pub mod read;
pub mod reports;
pub mod runtime;
pub mod store;
pub mod stream;
pub mod transaction;
pub mod transaction_data;
pub mod wire;
