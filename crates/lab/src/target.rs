//! The measured systems: an [`Engine`] opens a directory as a [`Target`], with equal settings for
//! all engines.
//!
//! A target passes values to a callback instead of returning them, so that each engine uses the
//! cheapest read its interface offers (a pinned slice, a mapped page, a malloc'ed copy). All
//! methods take `&self`: readers and writers on several threads share one target.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// Compression requested of every engine. An engine without it reports so in [`Engine::given`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Values are stored uncompressed.
    None,
    /// Google's Snappy, LevelDB's default.
    Snappy,
    /// LZ4 block format.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Returns the lower-case name used in flags.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// Parses a name, or db_bench's `0` (none) and `1` (snappy).
    pub fn parse(text: &str) -> Option<Compression> {
        Some(match text.to_ascii_lowercase().as_str() {
            "none" | "0" | "false" | "no" => Compression::None,
            "snappy" | "1" | "true" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            _ => return None,
        })
    }
}

/// Failures that a completed write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// No guarantee; no WAL if the engine can run without one.
    None,
    /// A killed process: the write was passed to the operating system.
    Buffered,
    /// A power loss: the write was synced.
    Sync,
}

impl Durability {
    /// Returns the lower-case name used in flags.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Buffered => "buffered",
            Durability::Sync => "sync",
        }
    }

    /// Parses a name, ignoring case.
    pub fn parse(text: &str) -> Option<Durability> {
        Some(match text.to_ascii_lowercase().as_str() {
            "none" => Durability::None,
            "buffered" => Durability::Buffered,
            "sync" => Durability::Sync,
            _ => return None,
        })
    }
}

/// Settings given to every engine of a benchmark alike. Defaults are LevelDB's.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Memtable size in bytes. Default 4 MiB.
    pub memtable_bytes: u64,
    /// Block cache size in bytes. Default 8 MiB.
    pub cache_bytes: u64,
    /// Uncompressed block size in bytes. Default 4096.
    pub block_bytes: u64,
    /// Maximum table file size in bytes. Default 2 MiB.
    pub file_max_bytes: u64,
    /// Bloom filter bits per key; 0 disables the filter. Default 0.
    pub filter_bits_per_key: u32,
    /// Number of entries between restart points of a block. Default 16.
    pub restart_interval: u64,
    /// Compression of blocks. Default snappy.
    pub compression: Compression,
    /// Durability of writes that request no sync themselves. Default buffered.
    pub durability: Durability,
    /// Total bytes of keys and values the benchmark may store. An engine with a fixed map derives
    /// the map's size from it.
    pub data_bytes_expected: u64,
    /// Leaves memory, blocks, files, filters and compression at each engine's shipped defaults.
    /// Durability and options for one engine still apply. Default off.
    pub as_shipped: bool,
    /// Whether values are counters of 8 bytes, little-endian, to which [`Target::merge_add`] adds:
    /// the store gets the merge operator for them. Default off.
    pub counters: bool,
    /// Options for one engine only: (engine, option, value).
    pub engine_options: Vec<(String, String, String)>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            memtable_bytes: 4 << 20,
            cache_bytes: 8 << 20,
            block_bytes: 4096,
            file_max_bytes: 2 << 20,
            filter_bits_per_key: 0,
            restart_interval: 16,
            compression: Compression::Snappy,
            durability: Durability::Buffered,
            data_bytes_expected: 0,
            as_shipped: false,
            counters: false,
            engine_options: Vec::new(),
        }
    }
}

impl StoreOptions {
    /// Returns the cache size for an engine without a memtable, which also gets the memtable's
    /// memory.
    pub fn cache_and_memtable_bytes(&self) -> u64 {
        self.cache_bytes + self.memtable_bytes
    }

    /// Returns the options for one engine only, in the order in which they were given.
    pub fn own_options<'a>(
        &'a self,
        engine: &'a str,
    ) -> impl DoubleEndedIterator<Item = (&'a str, &'a str)> {
        let own = self.engine_options.iter().filter(move |(of, ..)| of == engine);
        own.map(|(_, name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns an engine's reported settings, without those left to it by
    /// [`StoreOptions::as_shipped`].
    pub fn given(&self, mut given: Vec<(String, String)>) -> Vec<(String, String)> {
        if self.as_shipped {
            given.retain(|(name, _)| GIVEN_ALWAYS.contains(&name.as_str()));
            given.insert(0, ("everything else".into(), "as shipped".into()));
        }
        given
    }
}

/// Settings that adapters make and report even if an engine's options are left as shipped.
const GIVEN_ALWAYS: &[&str] =
    &["durability", "mapsize", "write", "verify_checksums", "checksums", "statistics"];

/// Capabilities of an engine. A task that needs more is recorded as not available, never as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Capabilities {
    /// Whether a write can be made to survive power loss.
    pub sync: bool,
    /// Whether the whole store can be compacted on demand.
    pub compact: bool,
    /// Whether its files have checksums that reads verify.
    pub checksums: bool,
    /// Whether several threads may write at once without waiting for each other's transaction.
    pub concurrent_writers: bool,
    /// Whether a store can be closed and opened again.
    pub persistent: bool,
    /// Whether reads and writes can be one transaction.
    #[serde(default)]
    pub transactions: bool,
    /// Whether a number can be added to a counter without a read.
    #[serde(default)]
    pub merge: bool,
    /// Whether sorted pairs can be loaded as whole tables.
    #[serde(default)]
    pub bulk_load: bool,
}

/// Direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key.
    Forward,
    /// From the largest key.
    Reverse,
}

/// Visitor for the pairs of a scan; returns false to stop.
pub type VisitPair<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// Pairs with strictly ascending keys.
pub type SortedPairs<'a, 'b> = &'b mut dyn Iterator<Item = (&'a [u8], &'a [u8])>;

/// Writes of a batch: a key with its new value, or `None` to remove the key.
pub type Writes<'a, 'b> = &'b mut dyn Iterator<Item = (&'a [u8], Option<&'a [u8]>)>;

/// Maximum writes of one batch of an engine that collects a batch in memory.
pub const BATCH_WRITES_MAX: usize = 100_000;

/// What a log-structured engine counted since its store was opened. A field that the engine does
/// not count is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LsmCounts {
    /// Bytes of the tables now.
    pub table_bytes: Option<u64>,
    /// Bytes of the files of separated values now.
    pub blob_bytes: Option<u64>,
    /// Bytes written by flushes.
    pub flush_bytes: Option<u64>,
    /// Bytes written by flushes and compactions.
    pub written_bytes: Option<u64>,
    /// Wall time of flushes and compactions in seconds, summed over their threads.
    pub compaction_seconds: Option<f64>,
    /// CPU time of flushes and compactions in seconds.
    pub compaction_cpu_seconds: Option<f64>,
    /// Bytes of separated values read by compactions.
    pub blob_read_bytes: Option<u64>,
    /// Bytes of separated values written by compactions.
    pub blob_written_bytes: Option<u64>,
    /// Seconds for which writers waited or were slowed.
    pub stalled_seconds: Option<f64>,
    /// Number of these waits.
    pub stalls: Option<u64>,
    /// Seconds since the store was opened.
    pub uptime_seconds: Option<f64>,
}

impl LsmCounts {
    /// Returns what was counted since `before`. Sizes and the uptime are those of now.
    pub fn since(&self, before: &LsmCounts) -> LsmCounts {
        let whole = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let real = |now: Option<f64>, then: Option<f64>| Some((now? - then?).max(0.0));
        LsmCounts {
            table_bytes: self.table_bytes,
            blob_bytes: self.blob_bytes,
            flush_bytes: whole(self.flush_bytes, before.flush_bytes),
            written_bytes: whole(self.written_bytes, before.written_bytes),
            compaction_seconds: real(self.compaction_seconds, before.compaction_seconds),
            compaction_cpu_seconds: real(
                self.compaction_cpu_seconds,
                before.compaction_cpu_seconds,
            ),
            blob_read_bytes: whole(self.blob_read_bytes, before.blob_read_bytes),
            blob_written_bytes: whole(self.blob_written_bytes, before.blob_written_bytes),
            stalled_seconds: real(self.stalled_seconds, before.stalled_seconds),
            stalls: whole(self.stalls, before.stalls),
            uptime_seconds: self.uptime_seconds,
        }
    }
}

/// Visitor for the results of a multi-get, in the order of the keys.
pub type VisitMany<'a> = &'a mut dyn FnMut(Option<&[u8]>);

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionKind {
    /// It only reads.
    ReadOnly,
    /// It writes each key that it has read.
    ReadWrite {
        /// Whether its writes must survive power loss before its commit returns.
        sync: bool,
    },
}

/// Reason why a transaction took no effect.
#[derive(Debug)]
pub enum TransactionError {
    /// It conflicts with another transaction; it can run again.
    Conflict,
    /// The engine failed, or the work did.
    Failed(LabError),
}

impl From<LabError> for TransactionError {
    fn from(error: LabError) -> TransactionError {
        TransactionError::Failed(error)
    }
}

/// Result of a call in a transaction, or of a whole transaction.
pub type TransactionResult<T> = std::result::Result<T, TransactionError>;

/// An open transaction.
pub trait Transaction {
    /// Passes the value of `key` to `visit`, if present, and returns whether it was present.
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool>;

    /// Stores a pair when the transaction commits.
    fn put(&mut self, key: &[u8], value: &[u8]) -> TransactionResult<()>;
}

/// The reads and writes of a transaction. After an error the transaction is rolled back.
pub type TransactionWork<'a> = &'a mut dyn FnMut(&mut dyn Transaction) -> TransactionResult<()>;

/// An engine, which opens stores. It keeps no store open itself.
pub trait Engine: Send + Sync {
    /// Returns the short name given by the user, such as `leveldb`; unique in a benchmark.
    fn name(&self) -> &str;

    /// Returns a readable description: name, version and source of the code.
    fn description(&self) -> String;

    /// Returns the engine's capabilities.
    fn capabilities(&self) -> Capabilities;

    /// Returns the settings the engine really gets for `options`, under its own option names.
    fn given(&self, options: &StoreOptions) -> Vec<(String, String)>;

    /// Returns the name of the engine for a subprocess (`name` or `name=path`), if its licence
    /// requires a separate process.
    fn subprocess_spec(&self) -> Option<String> {
        None
    }

    /// Opens `dir`, which must exist, and creates a store if there is none.
    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>>;
}

/// One open store.
pub trait Target: Send + Sync {
    /// Stores a pair. With `sync`, the pair must survive power loss before this returns.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;

    /// Removes a key, present or not.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Passes the value of `key` to `visit`, if present, and returns whether it was present.
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Passes the value of each of `keys`, or `None`, to `visit` in order. Uses the engine's
    /// multi-get if available, otherwise one get per key.
    fn get_many(&self, keys: &[&[u8]], visit: VisitMany<'_>) -> Result<()> {
        get_each(keys, visit, |key, visit| self.get(key, visit))
    }

    /// Opens an iterator, seeks to the first key ≥ `key`, and passes that pair to `visit`, if any.
    /// The default implementation is a scan that stops there.
    fn seek(&self, key: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let mut any = false;
        self.scan_from(key, &mut |key, value| {
            any = true;
            visit(key, value);
            false
        })?;
        Ok(any)
    }

    /// Scans the store in key order, or in reverse, until `visit` returns false or the store ends.
    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()>;

    /// Scans the store in key order from the first key ≥ `start`, until `visit` returns false or
    /// the store ends.
    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()>;

    /// Compacts the whole store; fails if [`Capabilities::compact`] is false.
    fn compact(&self) -> Result<()>;

    /// Runs `work` once in a transaction, and commits it. Fails if
    /// [`Capabilities::transactions`] is false.
    fn transact(&self, kind: TransactionKind, work: TransactionWork<'_>) -> TransactionResult<()> {
        let _ = (kind, work);
        Err(not_offered("the engine", "transactions").into())
    }

    /// Adds `change` to the counter of `key` by a merge, without a read. Fails if
    /// [`Capabilities::merge`] is false, or without [`StoreOptions::counters`].
    fn merge_add(&self, key: &[u8], change: u64) -> Result<()> {
        let _ = (key, change);
        Err(not_offered("the engine", "merge"))
    }

    /// Loads sorted pairs as whole tables; they survive power loss when this returns. Fails if
    /// [`Capabilities::bulk_load`] is false.
    fn bulk_load(&self, pairs: SortedPairs<'_, '_>) -> Result<()> {
        let _ = pairs;
        Err(not_offered("the engine", "bulk load"))
    }

    /// Executes the writes as one transaction or batch, or as batches of [`BATCH_WRITES_MAX`] if
    /// the engine collects a batch in memory. With `sync`, all of them must survive power loss
    /// before this returns. Returns false, and writes nothing, if the engine has no batches.
    fn write_many(&self, writes: Writes<'_, '_>, sync: bool) -> Result<bool> {
        let _ = (writes, sync);
        Ok(false)
    }

    /// Returns the number of pairs: the engine's own count, or that of a scan.
    fn count(&self) -> Result<u64> {
        let mut pairs = 0;
        self.scan(Direction::Forward, &mut |_, _| {
            pairs += 1;
            true
        })?;
        Ok(pairs)
    }

    /// Returns the engine's own statistics, if available.
    fn stats(&self) -> Option<String>;

    /// Returns the counts of a log-structured engine, if available.
    fn lsm(&self) -> Option<LsmCounts> {
        None
    }

    /// Returns the bytes written through memory maps since the open, by the engine's own count.
    /// They are added to the bytes of write calls. An engine that writes mostly through a map and
    /// does not count returns 0, and its dirty pages are measured instead.
    fn mapped_write_bytes(&self) -> u64 {
        0
    }

    /// Closes the store; unsynced data is left to the operating system.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Implements [`Target::get_many`] with one `get` per key.
pub fn get_each(
    keys: &[&[u8]],
    visit: VisitMany<'_>,
    mut get: impl FnMut(&[u8], &mut dyn FnMut(&[u8])) -> Result<bool>,
) -> Result<()> {
    for key in keys {
        if !get(key, &mut |value| visit(Some(value)))? {
            visit(None);
        }
    }
    Ok(())
}

/// Passes the writes to `batch` in groups of at most [`BATCH_WRITES_MAX`].
pub fn in_batches<'a>(
    writes: Writes<'a, '_>,
    mut batch: impl FnMut(&[(&'a [u8], Option<&'a [u8]>)]) -> Result<()>,
) -> Result<()> {
    let mut group: Vec<(&[u8], Option<&[u8]>)> = Vec::new();
    for write in writes {
        if group.len() == BATCH_WRITES_MAX {
            batch(&group)?;
            group.clear();
        }
        group.push(write);
    }
    if group.is_empty() { Ok(()) } else { batch(&group) }
}

/// Returns the error for an operation an engine does not offer.
pub fn not_offered(engine: &str, what: &str) -> LabError {
    LabError::engine(format!("{engine} offers no {what}"))
}
