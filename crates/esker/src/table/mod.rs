//! Sorted tables: immutable files of entries in internal order, with an index, a filter, range
//! tombstones and checksums.
//!
//! ```text
//! data blocks | [dictionary] | filter | range tombstones | properties | index | [stamp] | footer
//! ```
//!
//! Invariants:
//! 1. A checksum covers every byte of a file. Its seed contains the table's identity and the
//!    offset. The parts follow each other without a gap. A changed byte is therefore never served.
//!    Only a table made for an ingest has a stamp, with the sequence number of all its entries.
//! 2. A block is checked once, when it is loaded. Later row reads have no error path.
//! 3. Rows are read in place: no allocation per row, and values are slices of the block.

pub mod block;
mod block_sketch;
mod check;
mod compress;
mod dictionary;
mod dictionary_part;
mod encoded;
mod filter;
mod find;
mod format;
mod get;
mod index;
mod index_budget;
mod index_entries;
mod iter;
mod load;
mod partitioned;
mod partitions;
mod properties;
mod reader;
mod sample;
mod sampled_table;
mod stamp;
mod summary;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::cache_block_pool::CacheBlockPool;
pub use crate::base::filter_policy::FilterPolicy;
use crate::base::key::SeqNo;
use crate::base::keyspace::TreeId;
use crate::base::order::KeyOrder;
use crate::base::separated::ValueRefs;
use crate::cache::BlockCache;
use crate::fs::Fs;
use crate::options::kinds::{BlockLayout, CachePolicy, Compression, IndexSearch};

pub use crate::base::filter_policy::key_hash;
pub use block::{BlockSlice, Layout};
pub use get::{Fetch, TableGet, TableHitRef};
pub use index_budget::IndexBudget;
pub use iter::TableCursor;
pub use properties::External;
pub use reader::{OpenPermit, Table};
pub use sample::{SampledKey, mask as sample_mask};
pub use stamp::{is_stamped, write_stamp};
pub use writer::TableWriter;

/// Upper limit of `block_size_bytes` in a writer: 64 MiB.
pub const BLOCK_BYTES_MAX: usize = 64 << 20;

/// The filter of a new table.
#[derive(Clone)]
pub enum FilterConfig {
    /// No filter.
    None,
    /// A blocked Bloom filter.
    Bloom {
        /// Filter bits per key, 0 to 64. Default 10, which gives a false positive rate of about
        /// 1%. 0 means no filter.
        bits_per_key: f64,
    },
    /// A filter policy that the user supplies.
    Custom(Arc<dyn FilterPolicy>),
}

impl fmt::Debug for FilterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterConfig::None => f.write_str("None"),
            FilterConfig::Bloom { bits_per_key } => write!(f, "Bloom({bits_per_key})"),
            FilterConfig::Custom(policy) => write!(f, "Custom({})", policy.name()),
        }
    }
}

/// Settings for writing a table.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// The order of the keys.
    pub order: KeyOrder,
    /// Target size of a data block before compression, in bytes. Default 4,096, at most
    /// [`BLOCK_BYTES_MAX`]. A larger entry gets its own block.
    pub block_size_bytes: usize,
    /// Layout of the entries in a block. Columnar needs the bytewise order. Other orders use the
    /// delta layout.
    pub layout: BlockLayout,
    /// Keys between two restart points of the delta layout. Default 16, at least 1.
    pub restart_interval: usize,
    /// Compression of the blocks. A block that shrinks by less than an eighth is stored
    /// uncompressed.
    pub compression: Compression,
    /// Zstandard level, -7 to 22. 0 (the default) selects the library's default level.
    pub compression_level: i32,
    /// Maximum length of a compression dictionary, in bytes. 0 (the default): none. Only Zstandard
    /// has dictionaries.
    pub dictionary_max_bytes: usize,
    /// The filter.
    pub filter: FilterConfig,
    /// The tree of the table, for a repair without a manifest.
    pub tree: TreeId,
    /// Set for a table that is made for an ingest. Its entries have the sequence number 0.
    pub external: Option<External>,
    /// Whether the page cache keeps nothing of the table.
    pub direct: bool,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            order: KeyOrder::Bytewise,
            block_size_bytes: 4096,
            layout: BlockLayout::Columnar,
            restart_interval: 16,
            compression: Compression::None,
            compression_level: 0,
            dictionary_max_bytes: 0,
            filter: FilterConfig::Bloom { bits_per_key: 10.0 },
            tree: 0,
            external: None,
            direct: false,
        }
    }
}

/// Summary of a table's content. The properties block states it, and a check recomputes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableInfo {
    /// Random identity, part of the seed of every checksum in the file.
    pub table_id: u64,
    /// File length in bytes.
    pub size_bytes: u64,
    /// Number of entries: puts, deletes and merge operands.
    pub entries: u64,
    /// Number of deletes among the entries.
    pub deletes: u64,
    /// Number of range tombstones.
    pub range_deletes: u64,
    /// Smallest user key among the entries and the starts of the range tombstones.
    pub smallest: Vec<u8>,
    /// Largest user key among the entries and the ends of the range tombstones. No key of the table
    /// is above it.
    pub largest: Vec<u8>,
    /// Smallest sequence number of an entry or range tombstone; 0 in an empty table.
    pub seqno_min: SeqNo,
    /// Largest sequence number of an entry or range tombstone.
    pub seqno_max: SeqNo,
    /// Bytes of keys and stored values, before layout and compression.
    pub raw_bytes: u64,
    /// Number of puts that expire.
    pub expiring: u64,
    /// Time at which every put of the table has expired, in milliseconds since 1970. `None` if
    /// there is no such time, or no put that expires, or if the table has merge operands or range
    /// tombstones.
    pub expires_ms: Option<u64>,
    /// The sequence number that an ingest gave to all entries; they have the number 0 in the file. 0
    /// before the ingest. `None` for a table that a flush or a compaction made.
    pub ingested: Option<SeqNo>,
    /// Hash of all entries and range tombstones in order. Equal content has an equal hash in any
    /// layout, block size and compression.
    pub content_hash: u64,
    /// The value files with values of the table, by number. Empty without separated values.
    pub values: Vec<ValueRefs>,
}

/// Identification of the table file to open.
#[derive(Clone)]
pub struct TableSource {
    /// File system that holds the file.
    pub fs: Arc<dyn Fs>,
    /// Path of the file.
    pub path: PathBuf,
    /// File number, the first half of its blocks' cache keys. No other file of the store has it; see
    /// [`ReadConfig::of_other_file`].
    pub file_number: u64,
    /// Expected table identity.
    pub table_id: u64,
    /// Expected file length in bytes.
    pub size_bytes: u64,
    /// The sequence number of the entries of a table that was made for an ingest. `None`: the one in
    /// the table's stamp.
    pub ingested: Option<SeqNo>,
}

/// Settings for reading a table.
#[derive(Clone)]
pub struct ReadConfig {
    /// Key order. The table must have been written in the order of this name.
    pub order: KeyOrder,
    /// Search method of the index. Orders other than bytewise always use binary search.
    pub index_search: IndexSearch,
    /// Children per node of the index's static tree, 2 to 256. Default 16.
    pub index_fanout: usize,
    /// Cache for loaded blocks.
    pub cache: Arc<BlockCache<Layout>>,
    /// Number of the store among the users of the cache; 0 for the only one.
    pub cache_store: u32,
    /// Memory pool for the randomly accessed structures of an open table.
    pub pages: Arc<CacheBlockPool>,
    /// User's filter policy, needed to read the filters that it created.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
    /// Whether the file stays open between reads.
    pub keep_open: bool,
    /// Whether the file is read past the page cache.
    pub direct: bool,
    /// The memory for whole indexes and filters.
    pub index_budget: Arc<IndexBudget>,
    /// Whether a flush has written the table. A quarter of that memory is for such tables, because
    /// every get may read them, and because the tables below would take all of it.
    pub is_flushed: bool,
    /// Memory for whole indexes and filters, in bytes, that is given back as soon as the table takes
    /// the place of others.
    pub index_credit_bytes: u64,
}

impl ReadConfig {
    /// Returns a configuration for reads in this key order that keep no block and no index part.
    pub fn without_cache(order: KeyOrder) -> ReadConfig {
        ReadConfig {
            order,
            index_search: IndexSearch::Binary,
            index_fanout: 16,
            cache: Arc::new(BlockCache::new(CachePolicy::None, 0)),
            cache_store: 0,
            pages: Arc::default(),
            filter_policy: None,
            keep_open: true,
            direct: false,
            index_budget: IndexBudget::unlimited(),
            is_flushed: false,
            index_credit_bytes: 0,
        }
    }

    /// Returns the configuration for a file that is not one of the store, or a copy of one. Its
    /// number may be that of another file whose partitions are in the cache, so it has none.
    pub fn of_other_file(&self) -> ReadConfig {
        ReadConfig { index_budget: IndexBudget::unlimited(), ..self.clone() }
    }

    /// Returns the configuration for parts of a table that are in memory only for a moment.
    fn with_own_pages(&self) -> ReadConfig {
        ReadConfig { pages: Arc::new(CacheBlockPool::starting_small()), ..self.clone() }
    }
}
