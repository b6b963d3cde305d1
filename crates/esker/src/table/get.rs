//! Get of one key from an open table: filter, index, block. The steps can run together or one by
//! one.
//!
//! Invariant: a step that only prefetches memory does not change the result.

use crate::base::epoch::EpochGuard;
use crate::base::key::{Kind, SeqNo};
use crate::base::rows::Row;
use crate::error::Result;

use super::block::{BlockRef, BlockSlice, Lookup};
use super::index::PartialFind;
use super::reader::Table;

/// The newest visible version of a key in a table.
#[derive(Debug, Clone)]
pub struct TableHit {
    /// Sequence number of the version.
    pub seqno: SeqNo,
    /// The kind of the version.
    pub kind: Kind,
    /// The stored value, a slice of the block; empty for a delete.
    pub value: BlockSlice,
}

/// The newest visible version of a key, still in its block.
pub struct TableHitRef<'s> {
    pub(super) block: BlockRef<'s>,
    /// Sequence number, kind and value position of the version.
    pub row: Row,
}

/// Result of a get that may be forbidden to do I/O.
pub enum TableGet<T> {
    /// The key was found.
    Found(T),
    /// The table does not have the key.
    Absent,
    /// The result needs I/O: a block or a partition is not in the cache, or the table is not open.
    NeedsIo,
    /// The newest version is a merge operand or has its value in a value file: the result needs older
    /// versions or that file.
    Merge,
}

impl<T> TableGet<T> {
    /// Returns the found value. Only for a get that is allowed to do I/O, because such a get never
    /// returns [`TableGet::NeedsIo`], and whose caller has handled [`TableGet::Merge`].
    #[inline]
    pub fn found(self) -> Option<T> {
        match self {
            TableGet::Found(found) => Some(found),
            TableGet::Absent | TableGet::NeedsIo | TableGet::Merge => None,
        }
    }
}

impl TableHitRef<'_> {
    /// Returns the value; empty for a delete.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.block.value(self.row)
    }

    /// Returns the value and keeps its block in memory.
    #[inline]
    pub fn pin(self) -> BlockSlice {
        self.block.pin(self.row)
    }
}

/// A started prefetch of a block, returned by [`Table::begin_fetch`].
#[derive(Clone, Copy)]
pub struct Fetch(PartialFind);

impl Table {
    /// Prefetches the memory that [`Table::get`] reads first.
    #[inline]
    pub fn prefetch_filter(&self, hash: u64) {
        self.meta.filter.prefetch(hash);
    }

    /// Returns false if the filter rules out `key`. `hash` is the key's
    /// [`key_hash`](super::key_hash). A filter in partitions is asked only by the get itself.
    #[inline(always)]
    pub fn may_contain(&self, key: &[u8], hash: u64) -> bool {
        self.meta.filter.may_contain(key, hash)
    }

    /// Prefetches the part of the index that identifies the block of `key`.
    #[inline]
    pub fn begin_fetch(&self, key: &[u8]) -> Fetch {
        if self.partitions.is_some() {
            // The get itself searches.
            return Fetch(PartialFind::At(0));
        }
        let partial = self.meta.index.begin(key);
        self.meta.index.prefetch(&partial, |at, count| self.slots.prefetch_slots(at, count));
        Fetch(partial)
    }

    /// Prefetches the block of `key` and returns its index. The caller allows time for the first
    /// prefetch to complete and passes the same key.
    #[inline]
    pub fn finish_fetch(&self, key: &[u8], fetch: Fetch) -> usize {
        let block = self.finish_find(key, fetch.0);
        self.prefetch(block);
        block
    }

    /// Returns the newest version of `key` with a sequence number of at most `seqno`. `hash` is the
    /// key's [`key_hash`](super::key_hash), which is the same for every table. Range tombstones are
    /// not applied; see [`Table::range_deletes`]. With `fill_cache`, blocks read from the file are
    /// offered to the cache.
    pub fn get(
        &self,
        key: &[u8],
        hash: u64,
        seqno: SeqNo,
        fill_cache: bool,
    ) -> Result<Option<TableHit>> {
        if !self.may_contain(key, hash) {
            return Ok(None);
        }
        let hit = self.get_past_filter(key, seqno, fill_cache, None)?.found();
        Ok(hit.map(|hit| {
            let (seqno, kind) = (hit.row.seqno(), hit.row.kind());
            TableHit { seqno, kind, value: hit.pin() }
        }))
    }

    /// Does a [`Table::get`] of a key that the filter does not rule out. With `reading`, a guard of
    /// the cache's epoch collector, the result is valid only while the guard exists. The call then
    /// does no I/O, which could take long.
    #[inline]
    pub fn get_past_filter<'s>(
        &'s self,
        key: &[u8],
        seqno: SeqNo,
        fill_cache: bool,
        reading: Option<&'s EpochGuard<'_>>,
    ) -> Result<TableGet<TableHitRef<'s>>> {
        if let Some(parts) = &self.partitions {
            return self.get_in_partitions(parts, (key, seqno), fill_cache, reading.is_none());
        }
        let at = self.meta.index.find(key, |at, count| self.slots.prefetch_slots(at, count));
        self.prefetch(at);
        self.get_from_whole(at, key, seqno, fill_cache, reading)
    }

    /// Does the same get, starting in block `at`, which [`Table::finish_fetch`] returned for `key`.
    #[inline]
    pub fn get_from_block<'s>(
        &'s self,
        at: usize,
        key: &[u8],
        seqno: SeqNo,
        fill_cache: bool,
        reading: Option<&'s EpochGuard<'_>>,
    ) -> Result<TableGet<TableHitRef<'s>>> {
        match &self.partitions {
            None => self.get_from_whole(at, key, seqno, fill_cache, reading),
            Some(parts) => {
                self.get_in_partitions(parts, (key, seqno), fill_cache, reading.is_none())
            }
        }
    }

    /// Does the same in a table whose whole index is in memory.
    #[inline]
    fn get_from_whole<'s>(
        &'s self,
        mut at: usize,
        key: &[u8],
        seqno: SeqNo,
        fill_cache: bool,
        reading: Option<&'s EpochGuard<'_>>,
    ) -> Result<TableGet<TableHitRef<'s>>> {
        let index = &self.meta.index;
        while at < index.count() {
            let block = match reading {
                Some(reading) => match self.cache().load_slot(&self.slots, at, reading) {
                    Some(seen) => BlockRef::Seen(seen),
                    None => return Ok(TableGet::NeedsIo),
                },
                None => BlockRef::Own(self.load(at, fill_cache)?),
            };
            match block.find(self.order(), key, seqno) {
                Lookup::Found(row) => return Ok(TableGet::Found(TableHitRef { block, row })),
                Lookup::PastEnd if index.continues(at, key) => at += 1,
                Lookup::PastEnd | Lookup::Absent => return Ok(TableGet::Absent),
            }
        }
        Ok(TableGet::Absent)
    }
}
