//! What is measured: an [`Engine`] opens a directory as a [`Target`], with equal settings for all.
//!
//! A target hands values to a callback instead of returning them, so that each engine is read the
//! cheapest way its interface offers (a pinned slice, a mapped page, a malloc'ed copy).
//! All methods take `&self`: readers and writers on several threads share one target.

use std::path::Path;

use crate::error::{LabError, Result};

/// Compression asked of every engine. An engine without it says so in [`Engine::given`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Values are stored as they are.
    None,
    /// Google's Snappy, LevelDB's default.
    Snappy,
    /// LZ4 block format.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The lower-case name, as flags spell it.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// Reads a name, or db_bench's `0` (none) and `1` (snappy).
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

/// What a finished write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is promised; no log where the engine can go without.
    None,
    /// A killed process: the write was handed to the operating system.
    Buffered,
    /// A power loss: the write was synced.
    Sync,
}

impl Durability {
    /// The lower-case name, as flags spell it.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Buffered => "buffered",
            Durability::Sync => "sync",
        }
    }

    /// Reads a lower- or upper-case name.
    pub fn parse(text: &str) -> Option<Durability> {
        Some(match text.to_ascii_lowercase().as_str() {
            "none" => Durability::None,
            "buffered" => Durability::Buffered,
            "sync" => Durability::Sync,
            _ => return None,
        })
    }
}

/// The settings every engine of a run is given alike. Defaults are LevelDB's.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes of writes held in memory before they become a file. Default 4 MiB.
    pub memtable_bytes: u64,
    /// Bytes of blocks kept in memory. Default 8 MiB.
    pub cache_bytes: u64,
    /// Uncompressed bytes of a block. Default 4096.
    pub block_bytes: u64,
    /// Bytes of a table file. Default 2 MiB.
    pub file_max_bytes: u64,
    /// Bloom filter bits per key; 0 is no filter. Default 0.
    pub filter_bits_per_key: u32,
    /// Entries between restart points of a block. Default 16.
    pub restart_interval: u64,
    /// Default snappy.
    pub compression: Compression,
    /// Durability of writes that do not ask for a sync themselves. Default buffered.
    pub durability: Durability,
    /// Bytes of keys and values the run may store; an engine with a fixed map sizes it by this.
    pub data_bytes_expected: u64,
    /// Memory, blocks, files, filters and compression are left as each engine ships them; durability
    /// and options meant for one engine only still hold. Default off.
    pub as_shipped: bool,
    /// Options meant for one engine only: (engine, option, value).
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
            engine_options: Vec::new(),
        }
    }
}

impl StoreOptions {
    /// The cache of an engine without a memtable: what others hold there is given to it, too.
    pub fn cache_and_memtable_bytes(&self) -> u64 {
        self.cache_bytes + self.memtable_bytes
    }

    /// What an engine says it was given, less what [`StoreOptions::as_shipped`] leaves to it.
    pub fn given(&self, mut given: Vec<(String, String)>) -> Vec<(String, String)> {
        if self.as_shipped {
            given.retain(|(name, _)| GIVEN_ALWAYS.contains(&name.as_str()));
            given.insert(0, ("everything else".into(), "as shipped".into()));
        }
        given
    }
}

/// What adapters set, and say of an engine, even where its options are left as shipped.
const GIVEN_ALWAYS: &[&str] =
    &["durability", "mapsize", "write", "verify_checksums", "checksums", "statistics"];

/// What an engine can do. A task that needs more is recorded as not available, never as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Capabilities {
    /// A write can be made to survive power loss.
    pub sync: bool,
    /// The whole store can be compacted on demand.
    pub compact: bool,
    /// Its files are protected by checksums that reads verify.
    pub checksums: bool,
    /// Several threads may write at once without waiting for each other's transaction.
    pub concurrent_writers: bool,
    /// A store survives its directory being closed and opened again.
    pub persistent: bool,
}

/// Which way a scan walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key.
    Forward,
    /// From the largest key.
    Reverse,
}

/// Sees one pair of a scan; returns false to stop.
pub type SeePair<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// Sees what each of many keys has, in their order.
pub type SeeMany<'a> = &'a mut dyn FnMut(Option<&[u8]>);

/// An engine: a way to open stores. It holds no store open itself.
pub trait Engine: Send + Sync {
    /// The short name the user gave, such as `leveldb`; unique in a run.
    fn name(&self) -> &str;

    /// Name, version and where the code came from, for people.
    fn description(&self) -> String;

    /// What this engine can do.
    fn capabilities(&self) -> Capabilities;

    /// What the engine is really given for `options`, in its own option names.
    fn given(&self, options: &StoreOptions) -> Vec<(String, String)>;

    /// How a child process names it (`name` or `name=path`), where its licence asks for a process
    /// of its own.
    fn apart(&self) -> Option<String> {
        None
    }

    /// Opens `dir` (which exists), creating a store where there is none.
    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>>;
}

/// One open store.
pub trait Target: Send + Sync {
    /// Stores a pair; `sync` asks that it survive power loss before this returns.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;

    /// Removes a key, present or not.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Shows the value of `key` to `see` if there is one, and says whether there was.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Shows the value of each of `keys` in their order, or that it has none. One call where the engine
    /// has one for many keys; else a get for each.
    fn get_many(&self, keys: &[&[u8]], see: SeeMany<'_>) -> Result<()> {
        get_each(keys, see, |key, see| self.get(key, see))
    }

    /// Opens an iterator, moves to the first key ≥ `key`, and shows that pair if there is one. By
    /// itself a scan that ends there.
    fn seek(&self, key: &[u8], see: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let mut any = false;
        self.scan_from(key, &mut |key, value| {
            any = true;
            see(key, value);
            false
        })?;
        Ok(any)
    }

    /// Walks the store in key order from one end until `see` returns false or the end.
    fn scan(&self, direction: Direction, see: SeePair<'_>) -> Result<()>;

    /// Walks the store in key order from the first key ≥ `start` until `see` returns false or the end.
    fn scan_from(&self, start: &[u8], see: SeePair<'_>) -> Result<()>;

    /// Compacts everything; an error where [`Capabilities::compact`] is false.
    fn compact(&self) -> Result<()>;

    /// The engine's own account of its state, if it gives one.
    fn stats(&self) -> Option<String>;

    /// Bytes the engine has written through maps, by its own count, since it was opened: added to
    /// those of write calls. An engine that writes mostly through a map and does not count leaves
    /// it 0, and its dirty pages are measured instead.
    fn mapped_write_bytes(&self) -> u64 {
        0
    }

    /// Closes the store; unsynced data is left to the operating system.
    fn close(self: Box<Self>) -> Result<()>;
}

/// [`Target::get_many`] by a `get` of each key.
pub fn get_each(
    keys: &[&[u8]],
    see: SeeMany<'_>,
    mut get: impl FnMut(&[u8], &mut dyn FnMut(&[u8])) -> Result<bool>,
) -> Result<()> {
    for key in keys {
        if !get(key, &mut |value| see(Some(value)))? {
            see(None);
        }
    }
    Ok(())
}

/// An error for an operation an engine does not offer.
pub fn not_offered(engine: &str, what: &str) -> LabError {
    LabError::engine(format!("{engine} offers no {what}"))
}
