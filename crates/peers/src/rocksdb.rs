//! RocksDB through its C interface.

use std::path::Path;

use esker_lab::error::Result;
use esker_lab::target::{Capabilities, Compression, Durability, Engine, StoreOptions, Target};

use crate::c_functions::{Bytes, Common, ErrorText, Handle, Owned, Pinned};
use crate::capi::Opening;
use crate::installed::rocksdb_installed;
use crate::library::{Loaded, functions, load_installed, load_path};
use crate::rocksdb_bulk::{BulkApi, BulkLoader};
use crate::rocksdb_options::{self as own_options, Of};
use crate::rocksdb_transactions::TransactionApi;

functions! {
    /// RocksDB's own functions.
    #[allow(non_snake_case, reason = "fields are named as the library names its functions")]
    Own {
        options_set_target_file_size_base: fn(Handle, u64),
        options_set_block_based_table_factory: fn(Handle, Handle),
        block_based_options_create: fn() -> Handle,
        block_based_options_destroy: fn(Handle),
        block_based_options_set_block_size: fn(Handle, usize),
        block_based_options_set_block_restart_interval: fn(Handle, i32),
        block_based_options_set_block_cache: fn(Handle, Handle),
        block_based_options_set_no_block_cache: fn(Handle, u8),
        block_based_options_set_filter_policy: fn(Handle, Handle),
        filterpolicy_create_bloom_full: fn(f64) -> Handle,
        writeoptions_disable_WAL: fn(Handle, i32),
    }
}

functions! {
    /// RocksDB's counters.
    Counters {
        options_set_uint64add_merge_operator: fn(Handle),
        merge: fn(Handle, Handle, Bytes, usize, Bytes, usize, ErrorText),
    }
}

/// A RocksDB library.
pub struct RocksDb {
    name: String,
    library: Loaded,
    common: Common,
    own: Own,
    pinned: Pinned,
    transactions: Option<TransactionApi>,
    /// Missing for stores with transactions.
    merge: Option<Counters>,
    /// Missing for stores with transactions.
    bulk: Option<BulkApi>,
    can_compact: bool,
}

/// Kinds of RocksDB's stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// A store without transactions.
    Plain,
    /// An `OptimisticTransactionDB`.
    Optimistic,
    /// A `TransactionDB`, whose C interface has no compaction on demand.
    Pessimistic,
}

const NAMES: &[&str] = &[
    "librocksdb.so.7.8",
    "librocksdb.so.10",
    "librocksdb.so.9",
    "librocksdb.so.8",
    "librocksdb.so.7",
    "librocksdb.so",
];

/// Loads the installed RocksDB or the system's, or the library at `path`.
pub(crate) fn library(path: Option<&str>) -> Result<Loaded> {
    match path {
        Some(path) => load_path(path),
        // The newest downloaded release takes precedence over the system's.
        None => match rocksdb_installed() {
            Some(path) => load_path(&path.display().to_string()),
            None => load_installed(NAMES, "librocksdb7.8"),
        },
    }
}

impl RocksDb {
    /// Loads the installed RocksDB or the system's, or the library at `path`, named `name` in the
    /// benchmark.
    pub fn load(name: &str, path: Option<&str>, kind: StoreKind) -> Result<RocksDb> {
        let library = library(path)?;
        let mut common = Common::load(&library, "rocksdb_")?;
        let mut pinned = Pinned::load(&library, "rocksdb_")?;
        let transactions = match kind {
            StoreKind::Plain => None,
            StoreKind::Optimistic => Some(TransactionApi::load(&library, false)?),
            StoreKind::Pessimistic => Some(TransactionApi::load(&library, true)?),
        };
        if let Some(transactions) = &transactions {
            transactions.replace(&mut common, &mut pinned);
        }
        let counters = (kind == StoreKind::Plain).then(|| Counters::load(&library, "rocksdb_"));
        let bulk = (kind == StoreKind::Plain).then(|| BulkApi::load(&library, "rocksdb_"));
        Ok(RocksDb {
            name: name.into(),
            common,
            own: Own::load(&library, "rocksdb_")?,
            pinned,
            transactions,
            merge: counters.transpose()?,
            bulk: bulk.transpose()?,
            can_compact: kind != StoreKind::Pessimistic,
            library,
        })
    }

    /// Creates table options with their cache and filter. The table options take ownership of the
    /// filter, and share the cache.
    fn table(&self, options: &StoreOptions, parts: &mut Vec<Owned>) -> Owned {
        let (common, own) = (self.common, self.own);
        // SAFETY: new objects; the cache handle is kept in `parts` until the store is closed, and
        // the filter belongs to the table options once set.
        unsafe {
            let table = (own.block_based_options_create)();
            (own.block_based_options_set_block_size)(table, options.block_bytes as usize);
            let restarts = options.restart_interval as i32;
            (own.block_based_options_set_block_restart_interval)(table, restarts);
            if options.cache_bytes == 0 {
                (own.block_based_options_set_no_block_cache)(table, 1);
            } else {
                let cache = (common.cache_create_lru)(options.cache_bytes as usize);
                (own.block_based_options_set_block_cache)(table, cache);
                parts.push(Owned { handle: cache, destroy: common.cache_destroy });
            }
            if options.filter_bits_per_key > 0 {
                let bits = f64::from(options.filter_bits_per_key);
                let filter = (own.filterpolicy_create_bloom_full)(bits);
                (own.block_based_options_set_filter_policy)(table, filter);
            }
            Owned { handle: table, destroy: own.block_based_options_destroy }
        }
    }

    /// Creates table options as shipped.
    fn table_as_shipped(&self) -> Owned {
        // SAFETY: a new object.
        let handle = unsafe { (self.own.block_based_options_create)() };
        Owned { handle, destroy: self.own.block_based_options_destroy }
    }
}

/// Returns RocksDB's number for a compression.
fn compression_number(compression: Compression) -> i32 {
    match compression {
        Compression::None => 0,
        Compression::Snappy => 1,
        Compression::Lz4 => 4,
        Compression::Zstd => 7,
    }
}

impl Engine for RocksDb {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        format!("RocksDB C interface ({})", self.library.origin)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: true,
            compact: self.can_compact,
            checksums: true,
            concurrent_writers: true,
            persistent: true,
            transactions: self.transactions.is_some(),
            merge: self.merge.is_some(),
            bulk_load: self.bulk.is_some(),
        }
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        let durability = match options.durability {
            Durability::Sync => "sync=true",
            Durability::Buffered => "sync=false",
            Durability::None => "disable_wal=true",
        };
        let pair = |name: &str, value: String| (name.to_string(), value);
        let mut given = options.given(vec![
            pair("write_buffer_size", options.memtable_bytes.to_string()),
            pair("block_cache", options.cache_bytes.to_string()),
            pair("block_size", options.block_bytes.to_string()),
            pair("block_restart_interval", options.restart_interval.to_string()),
            pair("target_file_size_base", options.file_max_bytes.to_string()),
            pair("bloom_bits", options.filter_bits_per_key.to_string()),
            pair("compression", options.compression.name().into()),
            pair("durability", durability.into()),
            pair("verify_checksums", "true".into()),
        ]);
        given.extend(own_options::given(options).map(|(name, value)| pair(name, value.into())));
        given
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let (common, own) = (self.common, self.own);
        let mut parts = Vec::new();
        let shipped = options.as_shipped;
        let table = if shipped { self.table_as_shipped() } else { self.table(options, &mut parts) };
        // SAFETY: live table options of this library.
        unsafe { own_options::set(&self.library, options, Of::Table, table.handle) }?;
        // SAFETY: new options; the table factory copies the table options passed to it.
        let handle = unsafe {
            let handle = (common.options_create)();
            (common.options_set_create_if_missing)(handle, 1);
            if !shipped {
                (common.options_set_write_buffer_size)(handle, options.memtable_bytes as usize);
                (own.options_set_target_file_size_base)(handle, options.file_max_bytes);
                (common.options_set_compression)(handle, compression_number(options.compression));
            }
            if !shipped || own_options::has_table_options(options) {
                (own.options_set_block_based_table_factory)(handle, table.handle);
            }
            handle
        };
        let counters = self.merge.filter(|_| options.counters);
        if let Some(counters) = counters {
            // SAFETY: live options.
            unsafe { (counters.options_set_uint64add_merge_operator)(handle) };
        }
        let owned = Owned { handle, destroy: common.options_destroy };
        // SAFETY: live options of this library.
        unsafe { own_options::set(&self.library, options, Of::Store, owned.handle) }?;
        let no_log = options.durability == Durability::None;
        let tune = move |write: Handle| {
            if no_log {
                // SAFETY: a live write-options object.
                unsafe { (own.writeoptions_disable_WAL)(write, 1) }
            }
        };
        common.open_store(
            dir,
            Opening {
                engine: &self.name,
                options: owned,
                parts,
                verify_checksums: true,
                sync_always: options.durability == Durability::Sync,
                tune_writes: &tune,
                pinned: Some(self.pinned),
                transactions: self.transactions,
                merge: counters.map(|counters| counters.merge),
                bulk: self.bulk.map(|api| BulkLoader::new(api, dir, options)),
                stats_property: crate::rocksdb_stats::PROPERTY,
            },
        )
    }
}
