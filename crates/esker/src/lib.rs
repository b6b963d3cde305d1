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
//! | load much data at once | [`Db::bulk_load`], [`Db::ingest`], [`ingest`] |
//! | merge, expire and filter pairs | [`Db::merge`], [`Db::put_with_ttl`], [`MergeOperator`], [`CompactionFilter`] |
//! | choose options | [`Options`], [`schema::OPTIONS`] |
//! | follow every write | [`Db::changes`], [`Db::subscribe`], [`feed`] |
//! | use typed keys | [`codec`] |
//! | branch and compare stores | [`Db::fork`], [`fork`], [`mod@diff`] |
//! | back up and restore | [`Db::backup`], [`Db::restore`], [`backup`] |
//! | inspect, check, repair | [`Db::metrics`], [`Db::verify`], [`Db::repair`], [`report`] |
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
mod values;
mod wal;
mod write;

/// Encryption at rest: keys, and the file system that encrypts.
#[cfg(feature = "encryption")]
pub mod encryption {
    pub use crate::fs::encrypted::{
        EncryptedFs, KeyError, KeyFile, KeyProvider, KeyVariable, MASTER_KEY_BYTES, MasterKey,
        RekeyReport,
    };
}

pub use base::compaction_filter::{CompactionFilter, FilterDecision};
pub use base::expiry::Clock;
pub use base::filter_policy::FilterPolicy;
pub use base::merge_built_in::built_in_merge_operator;
pub use base::merge_operator::MergeOperator;
pub use base::order::{Comparator, KeyOrder};
pub use base::runtime::{Runtime, RuntimeOptions};
pub use db::keyspace::{Keyspace, KeyspaceOptions};
pub use db::snapshot::Snapshot;
pub use db::txn::{Concurrency, Isolation, Transaction, TransactionIterator, TransactionOptions};
pub use db::{Db, ReadOptions, WriteOptions};
pub use error::{Error, ErrorKind, Result};
pub use metrics::Metrics;
#[cfg(feature = "tracing")]
pub use observe::TracingListener;
pub use observe::{Event, EventListener, Stall};
pub use options::Options;
pub use options::kinds::{
    BlockLayout, CachePolicy, Compression, Durability, IndexSearch, MemtableKind, Policy,
    ValueSeparation, WalIo,
};
pub use read::Slice;
pub use read::scan::{DbIterator, KeyBounds};
pub use read::value_reader::ValueReader;
pub use write::batch::{Batch, BatchOp};

/// Backups: what [`Db::backup_with`], [`Db::backups`] and [`Db::prune_backups`] take and return.
pub mod backup {
    pub use crate::db::backup::{BackupInfo, BackupOptions, BackupReport, PruneReport};
}

/// Differences between two stores, or between a store and a snapshot: see [`diff::diff`].
pub mod diff {
    pub use crate::db::diff::{
        Diff, DiffOptions, DiffSource, DiffValue, Difference, Relation, diff, diff_with,
    };
}

/// The change feed: every write in order, for a program ([`Db::changes`], [`Db::subscribe`]) or for
/// another store ([`ChangeWriter`](feed::ChangeWriter), [`Applier`](feed::Applier)).
pub mod feed {
    pub use crate::db::feed::{
        Applier, Change, ChangeBatch, ChangeReader, ChangeWriter, Changes, Slot, SlotInfo,
        SlotOptions, StreamItem,
    };
}

/// Followers: read-only views of a store that another process writes, from [`Db::follow`].
pub mod follow {
    pub use crate::db::follow::{Follower, FollowerLag};
}

/// Forks: what [`Db::fork_with`] and [`Db::lineage`] take and return.
pub mod fork {
    pub use crate::db::fork::{ForkOptions, ForkReport};
    pub use crate::tree::lineage::{Ancestor, Lineage};
}

/// Sorted files and their ingestion: what [`Db::ingest`] and [`Db::bulk_load`] take and return.
pub mod ingest {
    pub use crate::db::ingest::{IngestOptions, IngestReport, SortedFile, SortedWriter};
}

/// Reports about stores: the parts of [`Metrics`], and what [`Runtime::metrics`],
/// [`Db::live_status`], [`Db::tables`], [`Db::repair`] and [`Db::verify`] return.
pub mod report {
    pub use crate::db::repair::RepairReport;
    pub use crate::db::runtime::RuntimeMetrics;
    pub use crate::db::status_file::LiveStatus;
    pub use crate::db::verify::VerifyReport;
    pub use crate::metrics::{LevelMetrics, MemoryMetrics, TableEntry};
}

/// Tables that describe each option and each metric, for programs that list or set them by name.
pub mod schema {
    pub use crate::metrics::{METRICS, MetricSpec};
    pub use crate::options::value::Range as OptionRange;
    pub use crate::options::{Mutability, OPTIONS, OptionSpec};
}

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
    is_send_and_sync::<ValueReader>();
    is_send_and_sync::<Batch>();
    is_send_and_sync::<Options>();
    is_send_and_sync::<Error>();
    is_send_and_sync::<Metrics>();
    is_send_and_sync::<Event>();
    is_send_and_sync::<feed::Slot>();
    is_send::<feed::Changes>();
    is_send::<feed::Applier>();
    is_send_and_sync::<follow::Follower>();
    is_send_and_sync::<Stall>();
    is_send_and_sync::<Runtime>();
    is_send::<DbIterator>();
    is_send::<diff::Diff>();
    is_send::<ingest::SortedWriter>();
    is_send::<TransactionIterator>();
};
