//! One key in an open table: its filter, the index, the block, in one go or step by step.
//!
//! What stays true: a step that only asks for memory changes nothing that is found.

use crate::base::key::{Kind, SeqNo};
use crate::base::readers::Reading;
use crate::base::rows::Row;
use crate::error::Result;

use super::block::{BlockSlice, Held, Lookup};
use super::index::Begun;
use super::reader::Table;

/// The newest visible version of a key in a table.
#[derive(Debug, Clone)]
pub struct TableHit {
    /// Its sequence number.
    pub seqno: SeqNo,
    /// Put or delete.
    pub kind: Kind,
    /// Its value, in the block; empty for a delete.
    pub value: BlockSlice,
}

/// The same where it lies.
pub struct TableLook<'s> {
    block: Held<'s>,
    /// Its sequence number and kind.
    pub row: Row,
}

/// What a look for a key came to that may not be allowed to read files.
pub enum Looked<T> {
    /// It was found.
    Found(T),
    /// It is not there.
    Absent,
    /// A block that is not in the cache, or a table that is not open, would tell.
    Unread,
}

impl<T> Looked<T> {
    /// What was found. For a look that was allowed to read, which leaves nothing unread.
    #[inline]
    pub fn found(self) -> Option<T> {
        match self {
            Looked::Found(found) => Some(found),
            Looked::Absent | Looked::Unread => None,
        }
    }
}

impl TableLook<'_> {
    /// Its value; empty for a delete.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.block.value(self.row)
    }

    /// Its value, which keeps its block.
    #[inline]
    pub fn pin(self) -> BlockSlice {
        self.block.pin(self.row)
    }
}

/// A block that was begun to be fetched: [`Table::begin_fetch`].
#[derive(Clone, Copy)]
pub struct Fetch(Begun);

impl Table {
    /// Asks the processor for what [`Table::get`] looks at first.
    #[inline]
    pub fn prefetch_filter(&self, hash: u64) {
        self.meta.filter.prefetch(hash);
    }

    /// Whether the table may hold `key`, whose [`key_hash`](super::key_hash) is `hash`, as far as its
    /// filter knows.
    #[inline(always)]
    pub fn may_contain(&self, key: &[u8], hash: u64) -> bool {
        self.meta.filter.may_contain(key, hash)
    }

    /// Asks the processor for the part of the index that says in which block `key` would be.
    #[inline]
    pub fn begin_fetch(&self, key: &[u8]) -> Fetch {
        let begun = self.meta.index.begin(key);
        self.meta.index.prefetch(&begun, |at, count| self.shelf.prefetch_places(at, count));
        Fetch(begun)
    }

    /// Asks, when that had time to come, for the block, with the same key, and says which it is.
    #[inline]
    pub fn finish_fetch(&self, key: &[u8], fetch: Fetch) -> usize {
        let block = self.finish_find(key, fetch.0);
        self.prefetch(block);
        block
    }

    /// The newest version of `key` with a sequence number of at most `seqno`. `hash` is the key's
    /// [`key_hash`](super::key_hash), the same for every table. Range tombstones are not applied; see
    /// [`Table::range_deletes`]. `fill_cache` offers a block that had to be read to the cache.
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
        let look = self.look_past_filter(key, seqno, fill_cache, None)?.found();
        Ok(look.map(|look| {
            let (seqno, kind) = (look.row.seqno(), look.row.kind());
            TableHit { seqno, kind, value: look.pin() }
        }))
    }

    /// [`Table::get`] of a key that the filter does not deny; if `reading` is one of the cache's, only
    /// for as long as it goes on, and without reading a file, which could take long.
    #[inline]
    pub fn look_past_filter<'s>(
        &'s self,
        key: &[u8],
        seqno: SeqNo,
        fill_cache: bool,
        reading: Option<&'s Reading<'_>>,
    ) -> Result<Looked<TableLook<'s>>> {
        let at = self.find_block(key);
        self.prefetch(at);
        self.look_from(at, key, seqno, fill_cache, reading)
    }

    /// The same where `at` is the block in which it would be.
    #[inline]
    pub fn look_from<'s>(
        &'s self,
        mut at: usize,
        key: &[u8],
        seqno: SeqNo,
        fill_cache: bool,
        reading: Option<&'s Reading<'_>>,
    ) -> Result<Looked<TableLook<'s>>> {
        let index = &self.meta.index;
        while at < index.count() {
            let block = match reading {
                Some(reading) => match self.cache().see_on(&self.shelf, at, reading) {
                    Some(seen) => Held::Seen(seen),
                    None => return Ok(Looked::Unread),
                },
                None => Held::Own(self.load(at, fill_cache)?),
            };
            match block.find(self.order(), key, seqno) {
                Lookup::Found(row) => return Ok(Looked::Found(TableLook { block, row })),
                Lookup::PastEnd if index.continues(at, key) => at += 1,
                Lookup::PastEnd | Lookup::Absent => return Ok(Looked::Absent),
            }
        }
        Ok(Looked::Absent)
    }
}
