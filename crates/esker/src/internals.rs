//! Items of private modules for the testkit, the fuzz targets, the command line and the bindings.
//! Not part of the public interface: any of them may change or go in any version.

pub use crate::base::cache_block::CacheBlockBuf;
pub use crate::base::checksum::{checksum, checksum_parts, location_seed};
pub use crate::base::cursor::Cursor;
pub use crate::base::epoch::Collector;
pub use crate::base::format_version::FormatVersion;
pub use crate::base::key::{KEY_BYTES_MAX, Kind, SEQNO_MAX};
pub use crate::base::ops::{self, Op, Ops};
pub use crate::base::range_delete::RangeDelete;
pub use crate::base::rows::{KeyBuf, Rows};
pub use crate::base::separated::ValuePointer;
pub use crate::base::sync::{self, Bug};
pub use crate::base::thresholds::Thresholds;
pub use crate::base::units::{GIB, KIB, MIB, human_bytes, parse_bytes};
pub use crate::cache::{BlockCache, BlockKey, SlotRef};
pub use crate::compaction::{BusySet, OutputOrder, Plan, PlanKind, TreeLimits};
pub use crate::compaction::{manual, model, picker};
pub use crate::db::backup::meta::BackupMeta;
pub use crate::db::feed::{FeedSlotFile, SlotFate, decode_feed_records};
pub use crate::memtable::Memtable;
pub use crate::options::is_of_keyspaces;
pub use crate::table::block::Block;
pub use crate::table::{
    External, IndexBudget, ReadConfig, Table, TableInfo, TableOptions, TableSource, TableWriter,
    key_hash,
};
pub use crate::tree::catalog::{DEFAULT_KEYSPACE, check_name as check_keyspace_name};
pub use crate::tree::current::{Current, Slot};
pub use crate::tree::edit::{AddedFile, VersionEdit};
pub use crate::tree::foreign;
pub use crate::tree::fragment::FileMeta;
pub use crate::tree::manifest::{self, ManifestWriter};
pub use crate::tree::names as file_names;
pub use crate::tree::seek_stats;
pub use crate::tree::version::Version;
pub use crate::txn::{item as transaction_item, prepared as prepared_record};
pub use crate::values::{StreamedValueWriter, ValueFileReader, ValueFileWriter};
pub use crate::wal::format::{
    FileHeader, HEADER_BYTES, LogStart, RECORD_HEADER_BYTES, RecordHeader, RecordKind, padded,
};
pub use crate::wal::{LogEnd, LogReader, LogWriter};
pub use crate::write::batch::{check_key, check_value};

/// Adds the counts of `more` to `sum`.
pub fn add_perf_context(sum: &mut crate::perf::PerfContext, more: &crate::perf::PerfContext) {
    sum.add(more);
}

/// Returns whether a pair of the store may expire.
pub fn may_expire(db: &crate::Db) -> bool {
    db.inner.rules.clock.is_used()
}

/// Returns the change feed of a store from the batch that contains `sequence` on.
///
/// # Errors
/// As [`Db::changes`](crate::Db::changes).
pub fn changes_with(db: &crate::Db, sequence: u64) -> crate::Result<crate::feed::Changes> {
    crate::feed::Changes::with_batch_of(db, sequence)
}

/// Returns a keyspace with these options, or `None` if there is none of this name. Never creates one.
///
/// # Errors
/// As [`Db::keyspace`](crate::Db::keyspace).
pub fn existing_keyspace_with(
    db: &crate::Db,
    name: &str,
    options: &crate::KeyspaceOptions,
) -> crate::Result<Option<crate::Keyspace>> {
    db.existing_keyspace_with(name, options)
}

/// Creates a keyspace.
///
/// # Errors
/// As [`Db::keyspace`](crate::Db::keyspace), and `InvalidArgument` if it exists.
pub fn new_keyspace(
    db: &crate::Db,
    name: &str,
    options: &crate::KeyspaceOptions,
) -> crate::Result<crate::Keyspace> {
    db.new_keyspace(name, options)
}

/// Returns the bounds of the keys that start with `prefix`, in a key order.
///
/// # Errors
/// `InvalidArgument` for an order that may separate such keys.
pub fn bounds_of_prefix(order: &crate::KeyOrder, prefix: &[u8]) -> crate::Result<crate::KeyBounds> {
    crate::db::bounds_of_prefix(order, prefix)
}

/// Returns a snapshot of a store, as [`Db::snapshot`](crate::Db::snapshot) does.
///
/// # Errors
/// `Closed` in a child that was forked after the store was opened.
pub fn snapshot(db: &crate::Db) -> crate::Result<crate::Snapshot> {
    crate::Snapshot::of_process(db)
}

/// Returns a snapshot of a store with its position in the change feed, as
/// [`Db::snapshot_with_position`](crate::Db::snapshot_with_position) does.
///
/// # Errors
/// As [`snapshot`].
pub fn snapshot_with_position(db: &crate::Db) -> crate::Result<(crate::Snapshot, u64)> {
    drop(crate::Snapshot::of_process(db)?);
    Ok(db.snapshot_with_position())
}

/// Adds a line to the `LOG` of an open store: the time and `sentence`. A store without a `LOG`, or
/// one that was opened for reading alone, ignores it.
pub fn note_in_log(db: &crate::Db, sentence: &str) {
    if let Some(log) = &db.inner.observers.info_log {
        log.note(sentence);
    }
}

/// Decodes the file `STATUS`. Returns `None` for other content.
pub fn decode_status(bytes: &[u8]) -> Option<crate::report::LiveStatus> {
    crate::report::LiveStatus::decode(bytes)
}

/// Encodes the file `STATUS`.
pub fn encode_status(status: &crate::report::LiveStatus) -> Vec<u8> {
    status.encode()
}

/// Returns an error of the engine's type, for callers that speak for the engine.
pub fn error(
    kind: crate::ErrorKind,
    message: impl Into<String>,
    path: Option<&std::path::Path>,
) -> crate::Error {
    let error = crate::Error::new(kind, message);
    match path {
        Some(path) => error.with_path(path),
        None => error,
    }
}
