//! Esker: an embedded, durable, ordered key-value store.
//!
//! Keys and values are byte strings. The store keeps keys in order. By default a write reaches the
//! write-ahead log (WAL) before the call returns. A read sees every write that returned before it.
//! A crash loses no write that its [`Durability`] promises to keep.
//!
//! ```
//! use esker::{Batch, Db, Options};
//! # fn main() -> esker::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! let db = Db::open(&path, Options::default())?;
//! db.put("apple", "red")?;
//! let mut batch = Batch::new();
//! batch.put("banana", "yellow").delete("apple");
//! db.write(&batch)?;
//! for pair in db.prefix("b")? {
//!     let (key, value) = pair?;
//!     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | Task | See |
//! |---|---|
//! | open, read, write | [`Db`], [`Batch`], [`DbIterator`], [`Snapshot`] |
//! | several maps in one store | [`Keyspace`], [`KeyspaceOptions`] |
//! | read and write as one step | [`Db::transact`], [`Transaction`], [`TransactionOptions`] |
//! | open many stores | [`Runtime`], [`RuntimeOptions`] |
//! | load much data at once | [`Db::bulk_load`], [`SortedWriter`], [`Db::ingest`] |
//! | merge, expire and filter pairs | [`Db::merge`], [`Db::put_with_ttl`], [`MergeOperator`], [`CompactionFilter`] |
//! | choose options | [`Options`], [`OPTIONS`] |
//! | follow every write | [`Db::changes`], [`Db::subscribe`], [`Slot`], [`Applier`] |
//! | use typed keys | [`codec`] |
//! | branch and compare stores | [`Db::fork`], [`diff`](fn@diff), [`Lineage`] |
//! | inspect, check, repair | [`Db::metrics`], [`Db::verify`], [`Db::repair`] |
//! | observe | [`EventListener`], [`Metrics::to_openmetrics`], [`Db::live_status`], [`perf`] |
#![deny(unsafe_code)]
// The testkit and the command line use some items of private modules, which are dead without them.
#![cfg_attr(not(feature = "internals"), allow(dead_code, unused_imports))]
#![cfg_attr(feature = "internals", allow(rustdoc::private_intra_doc_links))]

mod base;
mod cache;
pub mod codec;
mod compaction;
mod db;
mod error;
mod flush;
pub mod fs;
mod iter;
mod memtable;
mod metrics;
mod observe;
mod options;
pub mod perf;
mod read;
mod table;
mod tree;
mod txn;
mod wal;
mod write;

pub use base::compaction_filter::{CompactionFilter, FilterDecision};
pub use base::expiry::Clock;
pub use base::filter_policy::FilterPolicy;
pub use base::merge_built_in::built_in_merge_operator;
pub use base::merge_operator::MergeOperator;
pub use base::order::{Comparator, KeyOrder};
pub use base::runtime::{Runtime, RuntimeOptions};
pub use db::backup::{BackupInfo, BackupOptions, BackupReport, PruneReport};
pub use db::diff::{
    Diff, DiffOptions, DiffSource, DiffValue, Difference, Relation, diff, diff_with,
};
pub use db::feed::{
    Applier, Change, ChangeBatch, ChangeReader, ChangeWriter, Changes, Slot, SlotInfo, SlotOptions,
    StreamItem,
};
pub use db::follow::{Follower, FollowerLag};
pub use db::fork::{ForkOptions, ForkReport};
pub use db::ingest::{IngestOptions, IngestReport, SortedFile, SortedWriter};
pub use db::keyspace::{Keyspace, KeyspaceOptions};
pub use db::repair::RepairReport;
pub use db::runtime::RuntimeMetrics;
pub use db::snapshot::Snapshot;
pub use db::status_file::LiveStatus;
pub use db::txn::{Concurrency, Isolation, Transaction, TransactionIterator, TransactionOptions};
pub use db::verify::VerifyReport;
pub use db::{Db, ReadOptions, WriteOptions};
pub use error::{Error, ErrorKind, Result};
pub use metrics::{LevelMetrics, METRICS, MemoryMetrics, MetricSpec, Metrics, TableEntry};
#[cfg(feature = "tracing")]
pub use observe::TracingListener;
pub use observe::{Event, EventListener, Stall};
pub use options::kinds::{
    BlockLayout, CachePolicy, Compression, Durability, IndexSearch, MemtableKind, Policy, WalIo,
};
pub use options::value::Range as OptionRange;
pub use options::{Mutability, OPTIONS, OptionSpec, Options};
pub use read::Slice;
pub use read::scan::{DbIterator, KeyBounds};
pub use tree::lineage::{Ancestor, Lineage};
pub use write::batch::{Batch, BatchOp};

#[doc(hidden)]
#[cfg(feature = "internals")]
pub mod internals;

/// Checks at compile time that these types may be moved to and shared with other threads.
const fn is_send_and_sync<T: Send + Sync>() {}
const fn is_send<T: Send>() {}
const _: () = {
    is_send_and_sync::<Db>();
    is_send_and_sync::<Keyspace>();
    is_send_and_sync::<Snapshot>();
    is_send_and_sync::<Transaction>();
    is_send_and_sync::<Slice>();
    is_send_and_sync::<Batch>();
    is_send_and_sync::<Options>();
    is_send_and_sync::<Error>();
    is_send_and_sync::<Metrics>();
    is_send_and_sync::<Event>();
    is_send_and_sync::<Slot>();
    is_send_and_sync::<Follower>();
    is_send::<Changes>();
    is_send::<Applier>();
    is_send_and_sync::<Stall>();
    is_send_and_sync::<Runtime>();
    is_send::<DbIterator>();
    is_send::<Diff>();
    is_send::<SortedWriter>();
    is_send::<TransactionIterator>();
};
