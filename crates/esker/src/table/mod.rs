//! Sorted tables: immutable files of entries in internal order, with an index, a filter, range
//! tombstones and checksums.
//!
//! ```text
//! data blocks | filter | range tombstones | properties | index | footer
//! ```
//!
//! What stays true:
//! 1. Every byte of a file is under a checksum seeded with the table's identity and the place, and
//!    the parts follow each other without a gap, so that no changed byte is ever served.
//! 2. A block is checked once, when it is loaded; after that its rows are read without an error path.
//! 3. Rows are read in place: no allocation per row, values are slices of the block.

pub mod block;
mod check;
mod compress;
mod filter;
mod format;
mod index;
mod iter;
mod look;
mod outline;
mod reader;
mod summary;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

pub use crate::base::filter_policy::FilterPolicy;
use crate::base::frame_pool::FramePool;
use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::cache::BlockCache;
use crate::fs::Fs;
use crate::options::kinds::{BlockLayout, Compression, IndexSearch};

pub use crate::base::filter_policy::key_hash;
pub use block::{Block, BlockSlice, Layout};
pub use iter::TableCursor;
pub use look::{Fetch, Looked, TableHit, TableLook};
pub use reader::{KeptOpen, Table, TableIdentity};
pub use writer::TableWriter;

/// The largest `block_size_bytes` a writer uses: 64 MiB.
pub const BLOCK_BYTES_MAX: usize = 64 << 20;

/// Which filter a new table gets.
#[derive(Clone)]
pub enum FilterConfig {
    /// None.
    None,
    /// A blocked Bloom filter of this many bits a key, 0 to 64; 0 is the same as none.
    Bloom {
        /// Bits of filter a key. 10 (the default) lets about one absent key in a hundred through.
        bits_per_key: f64,
    },
    /// The user's own.
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

/// How a table is written.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// The order of the keys.
    pub order: KeyOrder,
    /// The size a data block aims at, before compression, in bytes. Default 4,096; at most
    /// [`BLOCK_BYTES_MAX`]. A larger entry gets a block of its own.
    pub block_size_bytes: usize,
    /// How entries lie in a block. Columnar needs the bytewise order; with another order the delta
    /// layout is used.
    pub layout: BlockLayout,
    /// Keys between restart points of the delta layout. Default 16, at least 1.
    pub restart_interval: usize,
    /// How blocks are compressed. A block that does not shrink by an eighth is kept as it is.
    pub compression: Compression,
    /// The level for Zstandard, -7 to 22; 0 (the default) is its own default.
    pub compression_level: i32,
    /// The filter.
    pub filter: FilterConfig,
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
            filter: FilterConfig::Bloom { bits_per_key: 10.0 },
        }
    }
}

/// What a table holds, as its properties block states it and a check recomputes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableInfo {
    /// The random identity mixed into every checksum of the file.
    pub table_id: u64,
    /// The length of the file.
    pub size_bytes: u64,
    /// Entries: puts and deletes.
    pub entries: u64,
    /// Of these, the deletes.
    pub deletes: u64,
    /// Range tombstones.
    pub range_deletes: u64,
    /// The first user key, or the smallest start of a range tombstone.
    pub smallest: Vec<u8>,
    /// The last user key, or the largest end of a range tombstone: nothing lies above it.
    pub largest: Vec<u8>,
    /// The smallest sequence number of an entry or range tombstone; 0 in an empty table.
    pub seqno_min: SeqNo,
    /// The largest one.
    pub seqno_max: SeqNo,
    /// Bytes of keys and values before layout and compression.
    pub raw_bytes: u64,
    /// A hash over all entries and range tombstones in order: the same for the same content in any
    /// layout, block size and compression.
    pub content_hash: u64,
}

/// Which file to open as a table, and what is known of it.
#[derive(Clone)]
pub struct TableSource {
    /// Where files are.
    pub fs: Arc<dyn Fs>,
    /// The file.
    pub path: PathBuf,
    /// Its number: the first half of its blocks' keys in the cache.
    pub file_number: u64,
    /// The identity it must have.
    pub table_id: u64,
    /// The length it must have.
    pub size_bytes: u64,
}

/// How a table is read.
#[derive(Clone)]
pub struct ReadConfig {
    /// The order of the keys; the table must have been written in the order of this name.
    pub order: KeyOrder,
    /// How the index is searched. Orders other than bytewise always use binary search.
    pub index_search: IndexSearch,
    /// Children of a node of the index's static tree. Default 16, 2 to 256.
    pub index_fanout: usize,
    /// Where loaded blocks are kept.
    pub cache: Arc<BlockCache<Layout>>,
    /// Where what an open table searches at random lies.
    pub pages: Arc<FramePool>,
    /// The user's filter, needed to use the filters it created.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
    /// Whether the file stays open between reads.
    pub keep_open: bool,
}
