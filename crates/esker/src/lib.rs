//! Esker: an embedded, durable, ordered key-value store.
//!
//! Keys and values are byte strings; keys are kept in order. Writes are logged before they return,
//! reads see everything written before them, and a crash takes nothing that was promised.
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
//! db.write(batch)?;
//! for pair in db.prefix("b")? {
//!     let (key, value) = pair?;
//!     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | open, read, write | [`Db`], [`Batch`], [`DbIterator`], [`Snapshot`] |
//! | choose options | [`Options`], [`KNOBS`] |
//! | use typed keys | [`codec`] |
//! | look inside | [`Db::metrics`], [`Db::verify`], [`Db::repair`] |
#![deny(unsafe_code)]

pub mod base;
pub mod cache;
pub mod codec;
pub mod compaction;
pub mod db;
pub mod error;
pub mod flush;
pub mod fs;
pub mod iter;
pub mod memtable;
pub mod metrics;
pub mod options;
pub mod read;
pub mod table;
pub mod tree;
pub mod wal;
pub mod write;

pub use base::filter_policy::FilterPolicy;
pub use base::order::{Comparator, KeyOrder};
pub use db::backup::{BackupInfo, BackupOptions, BackupReport, PruneReport};
pub use db::repair::RepairReport;
pub use db::snapshot::Snapshot;
pub use db::verify::VerifyReport;
pub use db::{Db, ReadOptions, WriteOptions};
pub use error::{Error, ErrorKind, Result};
pub use metrics::{Metrics, TableEntry};
pub use options::kinds::{
    BlockLayout, CachePolicy, Compression, Durability, IndexSearch, MemtableKind, Policy, WalIo,
};
pub use options::{KNOBS, Knob, Options, When};
pub use read::Slice;
pub use read::scan::{DbIterator, ReverseIterator};
pub use write::batch::Batch;
