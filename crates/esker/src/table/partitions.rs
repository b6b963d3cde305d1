//! The index and filter of a table in partitions that the cache can evict.
//!
//! The index and filter of an open table take about two bytes for a small key. A table that gets no
//! permit for this memory ([`super::index_budget`]) keeps only the last separator of every partition
//! of its index. The partitions are ranges of the same bytes in the file: at most 64 entries of the
//! index, 64 lines of the filter. They share the cache with the blocks. Such a table has neither
//! block slots nor sketches. RocksDB's partitioned index and filters (2017) differ: there the
//! partitions are blocks of the file.
//!
//! Invariants: all partitions were checked when the table was opened, with the checksums of the
//! index and the filter. The checksum of each partition from that time is in memory, and each later
//! read of the partition from the file is compared with it. No other file has the table's number in
//! the cache. A call without I/O gives the same answer as one with I/O, or none.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::base::cache_block_pool::CacheBlockPool;
use crate::base::checksum::{checksum, location_seed};

use super::encoded::Encoded;
use super::filter::{self, BloomShape, LINE_BYTES};
use super::format::Footer;
use super::index::Index;
use super::index_entries::{EntryGroup, entry_groups};

/// Minimum and maximum number of index entries in a partition. With long keys a smaller minimum would
/// leave most of the index in memory.
const ENTRIES: RangeInclusive<usize> = 8..=64;
/// Number of bytes of index entries at which a partition ends, from the minimum on.
const ENTRIES_BYTES_MIN: usize = 4 << 10;
/// Number of filter lines in a partition: 4 KiB.
const LINES: usize = 64;
/// Cache keys of index partitions: this bit and the number of the partition.
const INDEX_KEYS: u32 = 1 << 31;
/// Cache keys of filter partitions.
const FILTER_KEYS: u32 = 3 << 30;

/// The partitions of a table.
pub(super) struct Partitions {
    blocks: usize,
    index: Vec<Partition>,
    filter: Option<FilterPartitions>,
}

/// Where a partition is in the file, and what it was when the table was opened.
pub(super) struct Partition {
    /// Number of the first block, in a partition of the index.
    pub(super) first: u32,
    pub(super) bytes: u32,
    /// Offset in the file.
    pub(super) at: u64,
    pub(super) checksum: u64,
}

/// Where the line of a key is in the filter.
pub(super) struct LinePlace {
    /// Number of the partition in cache keys.
    pub(super) key: u32,
    pub(super) partition: Partition,
    /// The line in the partition.
    pub(super) line: usize,
    /// Bits set per key.
    pub(super) probes: u32,
}

struct FilterPartitions {
    shape: BloomShape,
    /// Offset of the first line in the file.
    at: u64,
    checksums: Vec<u64>,
}

impl Partitions {
    /// Describes the partitions of a table whose whole `index` and filter were decoded from `parts`.
    /// Returns them with the index of the partitions, whose blocks are the partitions.
    pub(super) fn new(
        index: &Index,
        parts: &Encoded,
        pages: &Arc<CacheBlockPool>,
    ) -> (Partitions, Index) {
        let Footer { index: at, filter, table_id, .. } = parts.footer;
        let sum = |from: u64, bytes: &[u8]| checksum(bytes, location_seed(table_id, from));
        let (payload, start) = (parts.payload(at), at.offset_bytes);
        let groups = entry_groups(payload, ENTRIES, ENTRIES_BYTES_MIN);
        let ends = groups.iter().skip(1).map(|group| group.position).chain([payload.len()]);
        let partition = |(group, end): (&EntryGroup, usize)| {
            let at = start + group.position as u64;
            let bytes = payload.get(group.position..end).unwrap_or_default();
            let (first, checksum) = (group.first, sum(at, bytes));
            Partition { first, bytes: bytes.len() as u32, at, checksum }
        };
        let partitions = groups.iter().zip(ends).map(partition).collect();
        let payload = parts.payload(filter);
        let filter = BloomShape::of(payload).map(|shape| {
            let before = payload.len() - shape.lines * LINE_BYTES;
            let at = filter.offset_bytes + before as u64;
            let offset = |number: usize| at + (number * LINES * LINE_BYTES) as u64;
            let chunks = payload[before..].chunks(LINES * LINE_BYTES).enumerate();
            let checksums = chunks.map(|(number, bytes)| sum(offset(number), bytes)).collect();
            FilterPartitions { shape, at, checksums }
        });
        let thinned = index.thinned(&groups, pages);
        (Partitions { blocks: index.count(), index: partitions, filter }, thinned)
    }

    /// Returns the number of blocks of the table.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns a partition of the index with its number in cache keys.
    pub(super) fn of_index(&self, number: usize) -> Option<(u32, &Partition)> {
        self.index.get(number).map(|partition| (INDEX_KEYS | number as u32, partition))
    }

    /// Returns the number of the index partition that has the entry of `block`.
    pub(super) fn number_of(&self, block: usize) -> Option<usize> {
        self.index.partition_point(|partition| partition.first as usize <= block).checked_sub(1)
    }

    /// Returns where the line of a key with this hash is. `None` without a filter of the built-in
    /// kind.
    pub(super) fn line_of(&self, hash: u64) -> Option<LinePlace> {
        let FilterPartitions { shape, at, checksums } = self.filter.as_ref()?;
        let line = filter::line_of(hash, shape.lines);
        let number = line / LINES;
        let lines = (shape.lines - number * LINES).min(LINES);
        let partition = Partition {
            first: 0,
            bytes: (lines * LINE_BYTES) as u32,
            at: at + (number * LINES * LINE_BYTES) as u64,
            checksum: *checksums.get(number)?,
        };
        let (key, line, probes) = (FILTER_KEYS | number as u32, line % LINES, shape.probes);
        Some(LinePlace { key, partition, line, probes })
    }

    /// Returns the memory that is in use whatever the cache holds, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, |filter| filter.checksums.capacity() * 8);
        size_of::<Partitions>() + self.index.capacity() * size_of::<Partition>() + filter
    }

    /// Returns the numbers of all blocks and partitions in cache keys.
    pub(super) fn cache_keys(&self) -> impl Iterator<Item = u32> {
        let filter = self.filter.as_ref().map_or(0, |filter| filter.checksums.len() as u32);
        let index = (0..self.index.len() as u32).map(|n| INDEX_KEYS | n);
        (0..self.blocks as u32).chain(index).chain((0..filter).map(|n| FILTER_KEYS | n))
    }
}
