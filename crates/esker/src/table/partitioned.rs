//! Reads of a table that has its index and filter in partitions ([`super::partitions`]).
//!
//! Invariants: a partition from the file has the checksum that it had when the table was opened. No
//! other file has the table's number in the cache. A call without I/O gives the same answer as one
//! with I/O, or none.

use crate::base::cache_block::CacheBlock;
use crate::base::checksum::{checksum, location_seed};
use crate::base::key::SeqNo;
use crate::cache::BlockKey;
use crate::error::{Error, Result};
use crate::perf;

use super::block::{Block, BlockBuf, BlockRef, Layout, Lookup};
use super::filter;
use super::get::{TableGet, TableHitRef};
use super::index_entries::{BlockPlace, Entries, IndexEntry};
use super::key_hash;
use super::partitions::{LinePlace, Partition, Partitions};
use super::reader::{Table, count_read};

/// How a partition is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// For a search: counts as a use, and reads the file if needed.
    Search,
    /// For a search that must not read the file.
    SearchInMemory,
    /// For a block that a search or a scan has found before: does not count as a use.
    Again,
    /// For a scan, which holds the partition itself: neither counts nor fills the cache.
    Once,
}

/// The partition of the index that a scan is in, with its number.
#[derive(Default)]
pub(super) struct HeldPartition(Option<(usize, CacheBlock<Layout>)>);

impl Access {
    fn search(io: bool) -> Access {
        if io { Access::Search } else { Access::SearchInMemory }
    }
}

impl Table {
    /// Returns a partition from the cache or the file. `None` if `access` forbids the read.
    fn partition(
        &self,
        key: u32,
        place: &Partition,
        access: Access,
    ) -> Result<Option<CacheBlock<Layout>>> {
        let key = BlockKey { block: key, ..self.block_key(0) };
        let cached = match access {
            Access::Search | Access::SearchInMemory => self.cache().get(&key),
            Access::Again | Access::Once => self.cache().peek(&key),
        };
        if cached.is_some() || access == Access::SearchInMemory {
            return Ok(cached);
        }
        let Partition { at, bytes, checksum: want, .. } = *place;
        let mut buf = BlockBuf::zeroed(bytes as usize, Some(self.cache().pool()));
        self.read_into(&mut buf, at)?;
        count_read(u64::from(bytes));
        if checksum(&buf, location_seed(self.source.table_id, at)) != want {
            let message = "expected the bytes of the index or filter that were checked when the \
                           table was opened, found other bytes; the file was changed, or the device \
                           is faulty";
            return Err(Error::corruption(&self.source.path, at, message));
        }
        let charge_bytes = Block::memory_bytes_of(bytes as usize);
        let read = buf.freeze(bytes as usize, Layout::without_rows());
        if access == Access::Once {
            return Ok(Some(read));
        }
        Ok(Some(self.cache().insert(key, read, charge_bytes, None)))
    }

    /// Calls `take` with the entries of index partition `number`, and the number of its first block.
    /// `None` if `access` forbids the read, or if the table has no such partition. `held` is the
    /// partition of the last call, and becomes that of this one.
    fn in_partition<R>(
        &self,
        parts: &Partitions,
        number: usize,
        (access, held): (Access, &mut HeldPartition),
        take: impl FnOnce(Entries<'_>, usize) -> Option<R>,
    ) -> Result<Option<R>> {
        let Some((key, place)) = parts.of_index(number) else { return Ok(None) };
        if held.0.as_ref().is_none_or(|(known, _)| *known != number) {
            held.0 = self.partition(key, place, access)?.map(|cached| (number, cached));
        }
        let start = self.meta.index.place(number).start;
        let entries = |cached: &CacheBlock<Layout>| {
            take(Entries::new(cached.bytes(), start), place.first as usize)
        };
        Ok(held.0.as_ref().and_then(|(_, cached)| entries(cached)))
    }

    /// Calls `take` with the index entry of `block`. `None` as for [`Table::in_partition`].
    fn in_entry<R>(
        &self,
        parts: &Partitions,
        block: usize,
        (access, held): (Access, &mut HeldPartition),
        take: impl FnOnce(IndexEntry<'_>) -> R,
    ) -> Result<Option<R>> {
        let Some(number) = parts.number_of(block) else { return Ok(None) };
        self.in_partition(parts, number, (access, held), |mut entries, first| {
            entries.nth(block - first).map(take)
        })
    }

    /// Returns where `block` is.
    ///
    /// # Errors
    /// Those of a read of its partition of the index. `InvalidArgument` past the last block.
    pub(super) fn place_in_partitions(
        &self,
        parts: &Partitions,
        block: usize,
    ) -> Result<BlockPlace> {
        self.place_of_scan(parts, block, &mut HeldPartition::default(), true)
    }

    /// Does the same for a scan, which keeps the partition in `held`. With `fill_cache` the partition
    /// is offered to the cache.
    pub(super) fn place_of_scan(
        &self,
        parts: &Partitions,
        block: usize,
        held: &mut HeldPartition,
        fill_cache: bool,
    ) -> Result<BlockPlace> {
        let access = if fill_cache { Access::Again } else { Access::Once };
        let place = self.in_entry(parts, block, (access, held), |entry| entry.place)?;
        place.ok_or_else(|| Error::invalid("a block past the end of the table was asked for"))
    }

    /// Returns whether the versions of `key` may continue after `block`, when a search ended past
    /// the end of `block`. `None` if that needs I/O and `io` is not set.
    pub(super) fn continues_in_partitions(
        &self,
        parts: &Partitions,
        block: usize,
        key: &[u8],
        io: bool,
    ) -> Result<Option<bool>> {
        if block + 1 >= parts.blocks() {
            return Ok(Some(false));
        }
        let access = if io { Access::Again } else { Access::SearchInMemory };
        let is_separator =
            |entry: IndexEntry<'_>| self.order().compare(entry.separator, key).is_eq();
        self.in_entry(parts, block, (access, &mut HeldPartition::default()), is_separator)
    }

    /// Returns the first block whose separator is not before `key`, with its place; the number of
    /// blocks if there is none. `None` if that needs I/O and `io` is not set.
    pub(super) fn find_in_partitions(
        &self,
        parts: &Partitions,
        key: &[u8],
        io: bool,
    ) -> Result<Option<(usize, BlockPlace)>> {
        let number = self.meta.index.find(key, |_, _| ());
        if number >= self.meta.index.count() {
            return Ok(Some((parts.blocks(), BlockPlace::default())));
        }
        let order = self.order();
        let how = (Access::search(io), &mut HeldPartition::default());
        self.in_partition(parts, number, how, |entries, first| {
            let is_found =
                |(_, entry): &(usize, IndexEntry<'_>)| order.compare(entry.separator, key).is_ge();
            let found = entries.enumerate().find(is_found);
            found.map(|(at, entry)| (first + at, entry.place))
        })
    }

    /// Returns whether the filter passes a key with this hash. `None` if that needs I/O and `io` is
    /// not set.
    fn filter_passes(&self, parts: &Partitions, hash: u64, io: bool) -> Result<Option<bool>> {
        let Some(LinePlace { key, partition, line, probes }) = parts.line_of(hash) else {
            return Ok(Some(true));
        };
        let found = self.partition(key, &partition, Access::search(io))?;
        let passes = |bytes: &[u8]| {
            bytes.as_chunks().0.get(line).is_none_or(|line| filter::line_passes(line, hash, probes))
        };
        Ok(found.map(|cached| passes(cached.bytes())))
    }

    /// Does a get of a table that has its index and filter in partitions. Without `io` it gives no
    /// answer where one needs a read.
    #[cold]
    #[inline(never)]
    pub(super) fn get_in_partitions<'s>(
        &'s self,
        parts: &Partitions,
        (key, seqno): (&[u8], SeqNo),
        fill_cache: bool,
        io: bool,
    ) -> Result<TableGet<TableHitRef<'s>>> {
        match self.filter_passes(parts, key_hash(key), io)? {
            Some(true) => {}
            Some(false) => {
                perf::count(|counts| counts.filter_negatives += 1);
                return Ok(TableGet::Absent);
            }
            None => return Ok(TableGet::NeedsIo),
        }
        let Some((mut at, mut place)) = self.find_in_partitions(parts, key, io)? else {
            return Ok(TableGet::NeedsIo);
        };
        while at < parts.blocks() {
            let block = match self.cached(at) {
                Some(block) => block,
                None if io => self.fetch_at(at, place, fill_cache)?,
                None => return Ok(TableGet::NeedsIo),
            };
            match block.find(self.order(), key, seqno) {
                Lookup::Found(row) => {
                    return Ok(TableGet::Found(TableHitRef { block: BlockRef::Own(block), row }));
                }
                Lookup::Absent => return Ok(TableGet::Absent),
                Lookup::PastEnd => {}
            }
            // The versions of the key may continue in the next block.
            match self.continues_in_partitions(parts, at, key, io)? {
                Some(true) if io => {
                    (at, place) = (at + 1, self.place_in_partitions(parts, at + 1)?)
                }
                Some(true) => at += 1,
                Some(false) => return Ok(TableGet::Absent),
                None => return Ok(TableGet::NeedsIo),
            }
        }
        Ok(TableGet::Absent)
    }
}
