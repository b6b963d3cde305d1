//! The native part of Esker for Node.js: what `lib/` in this package calls.
//!
//! A crossing between JavaScript and Rust costs more than a cached read. So this interface is made
//! of free functions over numbers and two shared buffers, and a crossing carries many pairs:
//!
//! | file | content |
//! |---|---|
//! | `objects.rs` | stores, keyspaces, iterators, snapshots and transactions of one thread, by number; the shared buffers |
//! | `shared.rs` | stores that several threads have open |
//! | `reply.rs` | many pairs in one buffer |
//! | `work.rs`, `waits.rs` | work in libuv's pool; work that may wait for locks |
//! | `open.rs`, `read.rs`, `write.rs`, `iterator.rs`, `transaction.rs`, `maintenance.rs`, `feed.rs`, `follower.rs`, `ingest.rs` | the calls |
//! | `inspect.rs` | metrics, tables, stalls, options, counts of calls |
//! | `streamed.rs`, `wire.rs` | values, and the change feed, as streams of bytes |
//! | `observe.rs` | listeners, and runtimes that stores share |
//!
//! Invariants:
//! 1. No call runs JavaScript: a listener is called later, by the thread's own loop. What a call borrows of its thread's objects is free again when it
//!    returns.
//! 2. Work outside of the thread of JavaScript owns its arguments. It touches no memory of
//!    JavaScript.
//! 3. Numbers, lengths and records from JavaScript are checked: a wrong one is an error.

// The calls are registered only in an addon, so that nothing is used in a test program.
#![cfg_attr(test, allow(dead_code))]

mod errors;
mod feed;
mod follower;
mod ingest;
mod inspect;
mod iterator;
mod maintenance;
mod objects;
mod observe;
mod open;
mod read;
mod reply;
mod shared;
mod streamed;
mod transaction;
mod waits;
mod wire;
mod work;
mod write;
