//! Values and cursors that keep their memtable alive.
//!
//! Invariants: a cursor holds no lock between moves. It copies references one page at a time and
//! finds its position again by key. It returns, in order and once, every entry added before the
//! move that passes it began. It may or may not return entries added later.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::arena::{self, EntryRef};
use super::entry_table::{EntryTable, LookupKey, Seek};
use crate::base::cursor::{Cursor, PrefetchStep};
use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::error::Result;

/// A version of a key, borrowed from its memtable.
pub struct MemHit<'a> {
    /// The version's sequence number.
    pub seqno: SeqNo,
    /// The version's kind.
    pub kind: Kind,
    pub(super) part: &'a Arc<EntryTable>,
    pub(super) entry: EntryRef,
}

impl<'a> MemHit<'a> {
    /// Returns the value.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.part.space.arena.entry(self.entry).value
    }

    /// Returns the value in a form that keeps the memtable alive.
    pub fn pin(&self) -> MemSlice {
        MemSlice { part: Arc::clone(self.part), entry: self.entry }
    }
}

/// A value pinned in its memtable, which it keeps alive.
#[derive(Clone)]
pub struct MemSlice {
    pub(super) part: Arc<EntryTable>,
    pub(super) entry: EntryRef,
}

impl Deref for MemSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.part.space.arena.entry(self.entry).value
    }
}

impl fmt::Debug for MemSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemSlice({} bytes)", self.len())
    }
}

/// Number of entries that a cursor prefetches, counted from the current one.
const AHEAD_ENTRIES: usize = 4;

/// A position in a memtable's entries. It holds no lock, and its moves never fail.
pub struct MemCursor {
    part: Arc<EntryTable>,
    /// References to consecutive entries, in order; `page[at]` is the current one.
    page: Vec<EntryRef>,
    /// The current position in `page`; past the end when the cursor is not on an entry.
    at: usize,
}

impl MemCursor {
    pub(super) fn new(part: &Arc<EntryTable>) -> MemCursor {
        MemCursor { part: Arc::clone(part), page: Vec::with_capacity(64), at: 0 }
    }

    /// Reads the page at `seek`. Moves to its first entry, or to its last with `back`.
    fn load(&mut self, seek: Seek<'_>, back: bool) {
        self.page.clear();
        self.part.read().page(&self.part.space, seek, &mut self.page);
        let last = self.page.len().saturating_sub(1);
        self.at = if back { last } else { 0 };
        (0..AHEAD_ENTRIES).for_each(|n| self.prefetch(if back { last.wrapping_sub(n) } else { n }));
    }

    /// Prefetches an entry of the page. Entries are stored in insertion order, not in key order.
    #[inline]
    fn prefetch(&self, at: usize) {
        if let Some(&entry) = self.page.get(at) {
            self.part.space.arena.prefetch(entry);
        }
    }

    /// Reads the page after the current entry, or with `back` the page before it.
    #[cold]
    fn reverse(&mut self, back: bool) {
        let part = Arc::clone(&self.part);
        let mut here = part.space.target(self.page[self.at]);
        if back {
            self.load(Seek::Before(here), true);
        } else {
            here.rank += 1;
            self.load(Seek::From(here), false);
        }
    }

    #[inline]
    fn entry(&self) -> arena::Entry<'_> {
        self.part.space.arena.entry(self.page[self.at])
    }
}

impl Cursor for MemCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.at < self.page.len()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.load(Seek::First, false);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.load(Seek::Last, true);
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.load(Seek::From(LookupKey::new(key, seqno)), false);
        Ok(())
    }

    fn prefetch_seek(&mut self, key: &[u8], step: PrefetchStep, _deepest: bool) {
        if step == PrefetchStep::Index {
            self.part.read().prefetch(&self.part.space, LookupKey::new(key, SEQNO_MAX));
        }
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.load(Seek::Before(LookupKey::new(key, seqno)), true);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.at + 1 < self.page.len() {
            self.at += 1;
            self.prefetch(self.at + AHEAD_ENTRIES - 1);
        } else if self.valid() {
            self.reverse(false);
        }
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        if self.at > 0 {
            self.at -= 1;
            self.prefetch((self.at + 1).wrapping_sub(AHEAD_ENTRIES));
        } else {
            self.reverse(true);
        }
        Ok(())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry().key
    }

    #[inline]
    fn seqno(&self) -> SeqNo {
        self.entry().packed >> 8
    }

    #[inline]
    fn kind(&self) -> Kind {
        // A `RangeDelete` is never added.
        Kind::of_entry(self.entry().packed as u8)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entry().value
    }

    fn release(&mut self) {
        self.page.clear();
    }
}
