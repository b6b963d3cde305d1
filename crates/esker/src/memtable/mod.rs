//! The memtable: the newest writes, sorted, in memory.
//!
//! Entries live in an [`arena`](self) that never moves them; one of three indexes
//! ([`MemtableKind`]) keeps references to them in internal order behind a read-write lock.
//!
//! What stays true:
//! 1. One writer at a time adds (the caller's lock); any number of threads read meanwhile.
//! 2. An entry once visible never changes or goes away while the memtable lives, so a value may be
//!    borrowed, or pinned by [`MemSlice`], without a lock.
//! 3. A `(key, seqno)` pair is added at most once.
//! 4. A cursor holds no lock between moves. It copies references a page at a time and finds its
//!    place again by key, so it sees every entry added before the move that passes it began, in
//!    order, none twice; entries added later it may or may not see.

mod arena;
mod btree;
mod skiplist;
#[cfg(test)]
mod tests;
mod vector;

use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering as Atomic};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::base::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use arena::ChunkPool;
use arena::{Arena, EntryRef};
use btree::Btree;
use skiplist::Skiplist;
use vector::VectorIndex;

use crate::base::cursor::Cursor;
use crate::base::key::{self, Kind, SEQNO_MAX, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::range_delete::{RangeDelete, RangeDeletes};
use crate::error::Result;
use crate::options::kinds::MemtableKind;

/// A place in internal order: a key, and how many sequence numbers are above the one meant.
#[derive(Clone, Copy)]
struct Target<'a> {
    key: &'a [u8],
    rank: u64,
}

impl<'a> Target<'a> {
    #[inline]
    fn new(key: &'a [u8], seqno: SeqNo) -> Target<'a> {
        Target { key, rank: SEQNO_MAX.saturating_sub(seqno) }
    }
}

/// Where a page of references begins or ends.
#[derive(Clone, Copy)]
enum Seek<'a> {
    First,
    Last,
    /// At the first entry not before the target.
    From(Target<'a>),
    /// At the last entry before the target.
    Before(Target<'a>),
}

/// What an index needs to look at an entry: its memory and its order.
struct Space {
    arena: Arena,
    order: KeyOrder,
    /// Whether the order has heads.
    heads: bool,
}

impl Space {
    /// The head of `key` after `prefix` bytes, which it has; 0 where the order has none.
    #[inline]
    fn head(&self, key: &[u8], prefix: usize) -> u64 {
        if self.heads { key::head(&key[prefix..]) } else { 0 }
    }

    /// The place of an entry.
    #[inline]
    fn target(&self, at: EntryRef) -> Target<'_> {
        let entry = self.arena.entry(at);
        Target::new(entry.key, entry.packed >> 8)
    }

    /// Whether the entry is before, at or after `target`.
    #[inline]
    fn compare(&self, at: EntryRef, target: Target<'_>) -> Ordering {
        let own = self.target(at);
        self.order.compare(own.key, target.key).then_with(|| own.rank.cmp(&target.rank))
    }
}

enum Index {
    Btree(Btree),
    Skiplist(Skiplist),
    Vector(VectorIndex),
}

impl Index {
    fn new(kind: MemtableKind) -> Index {
        match kind {
            MemtableKind::Btree => Index::Btree(Btree::new()),
            MemtableKind::Skiplist => Index::Skiplist(Skiplist::new()),
            MemtableKind::Vector => Index::Vector(VectorIndex::new()),
        }
    }

    #[inline]
    fn insert(&mut self, space: &Space, entry: EntryRef, target: Target<'_>) {
        match self {
            Index::Btree(index) => index.insert(space, entry, target),
            Index::Skiplist(index) => index.insert(space, entry, target),
            Index::Vector(index) => index.insert(space, entry, target),
        }
    }

    /// The first entry at or after `target`, or `None` if it certainly has another key.
    #[inline]
    fn find(&self, space: &Space, target: Target<'_>) -> Option<EntryRef> {
        match self {
            Index::Btree(index) => index.find(space, target),
            Index::Skiplist(index) => index.find(space, target),
            Index::Vector(index) => index.find(space, target),
        }
    }

    fn page(&self, space: &Space, seek: Seek<'_>, out: &mut Vec<EntryRef>) {
        match self {
            Index::Btree(index) => index.page(space, seek, out),
            Index::Skiplist(index) => index.page(space, seek, out),
            Index::Vector(index) => index.page(space, seek, out),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Index::Btree(index) => index.memory_bytes(),
            Index::Skiplist(index) => index.memory_bytes(),
            Index::Vector(index) => index.memory_bytes(),
        }
    }
}

/// The range tombstones, as they came and as they are read.
#[derive(Default)]
struct Ranges {
    list: Vec<RangeDelete>,
    built: Option<Arc<RangeDeletes>>,
}

/// A newest version found by [`Memtable::get`], borrowed from the memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemEntry<'a> {
    /// When it was written.
    pub seqno: SeqNo,
    /// [`Kind::Put`] or [`Kind::Delete`].
    pub kind: Kind,
    /// The value; empty for a tombstone.
    pub value: &'a [u8],
}

/// A flush of so many bytes is worth one seek, as a merge of level 0 is: it has to be done anyway.
const BYTES_PER_SEEK: u64 = 4096;
/// Beyond all seeks there can be.
const SEEKS_DECLINED: u64 = 1 << 62;
/// What is smaller is left alone: it lies in the processor's caches.
const SOUGHT_BYTES_MIN: usize = if cfg!(debug_assertions) { 64 << 10 } else { 1 << 20 };

/// A sorted table of entries in memory. One writer at a time, any number of readers.
pub struct Memtable {
    space: Space,
    index: RwLock<Index>,
    kind: MemtableKind,
    index_bytes: AtomicUsize,
    entries: AtomicUsize,
    /// The least and greatest sequence number; greatest below least while empty.
    seqno_min: AtomicU64,
    seqno_max: AtomicU64,
    /// Seeks since the last write, and the greatest sequence number then.
    seeks: AtomicU64,
    sought_at: AtomicU64,
    ranges: Mutex<Ranges>,
    /// How many range tombstones there are, and their bytes.
    range_count: AtomicUsize,
    range_bytes: AtomicUsize,
    no_ranges: Arc<RangeDeletes>,
}

impl Memtable {
    /// An empty memtable whose memory is freed with it.
    pub fn new(kind: MemtableKind, order: KeyOrder) -> Memtable {
        Memtable::with_pool(kind, order, Arc::new(ChunkPool::new(0)))
    }

    /// An empty memtable that takes its memory from `pool` and gives it back when it is dropped.
    pub fn with_pool(kind: MemtableKind, order: KeyOrder, pool: Arc<ChunkPool>) -> Memtable {
        let heads = order.has_heads();
        let index = Index::new(kind);
        Memtable {
            space: Space { arena: Arena::new(pool), order, heads },
            kind,
            index_bytes: AtomicUsize::new(index.memory_bytes()),
            index: RwLock::new(index),
            entries: AtomicUsize::new(0),
            seqno_min: AtomicU64::new(u64::MAX),
            seqno_max: AtomicU64::new(0),
            seeks: AtomicU64::new(0),
            sought_at: AtomicU64::new(0),
            ranges: Mutex::default(),
            range_count: AtomicUsize::new(0),
            range_bytes: AtomicUsize::new(0),
            no_ranges: Arc::default(),
        }
    }

    /// The structure it was made with.
    pub fn kind(&self) -> MemtableKind {
        self.kind
    }

    /// Adds a version of `key`; visible to readers at `seqno` and above from now on. A
    /// [`Kind::RangeDelete`] is [`Memtable::add_range_delete`] from `key` to `value`.
    ///
    /// # Panics
    /// When the memtable would pass 32 GiB or an entry is far beyond the store's limits
    /// ([`key::KEY_BYTES_MAX`], [`key::VALUE_BYTES_MAX`]), both of which the caller checks.
    pub fn add(&self, seqno: SeqNo, kind: Kind, key: &[u8], value: &[u8]) {
        if kind == Kind::RangeDelete {
            return self.add_range_delete(key, value, seqno);
        }
        let entry = self.space.arena.append(key::pack(seqno, kind), key, value);
        let mut index = self.index.write();
        index.insert(&self.space, entry, Target::new(key, seqno));
        self.index_bytes.store(index.memory_bytes(), Atomic::Relaxed);
        self.entries.store(self.entries.load(Atomic::Relaxed) + 1, Atomic::Relaxed);
        self.note_seqno(seqno);
    }

    /// Adds a range tombstone: every key in `[start, end)` older than `seqno` is gone. An empty or
    /// inverted range covers nothing.
    pub fn add_range_delete(&self, start: &[u8], end: &[u8], seqno: SeqNo) {
        let mut ranges = self.ranges.lock();
        ranges.list.push(RangeDelete { start: start.to_vec(), end: end.to_vec(), seqno });
        ranges.built = None;
        let bytes = start.len() + end.len() + size_of::<RangeDelete>();
        self.range_bytes.fetch_add(bytes, Atomic::Relaxed);
        self.note_seqno(seqno);
        self.range_count.store(ranges.list.len(), Atomic::Release);
    }

    /// The newest version of `key` with a sequence number `<= seqno`. Range tombstones are not
    /// looked at.
    pub fn get(&self, key: &[u8], seqno: SeqNo) -> Option<MemEntry<'_>> {
        let entry = self.space.arena.entry(self.find(key, seqno)?);
        let (seqno, kind) = key::unpack(entry.packed)?;
        Some(MemEntry { seqno, kind, value: entry.value })
    }

    /// As [`Memtable::get`], with a value that keeps the memtable alive.
    pub fn get_slice(
        self: &Arc<Self>,
        key: &[u8],
        seqno: SeqNo,
    ) -> Option<(SeqNo, Kind, MemSlice)> {
        let entry = self.find(key, seqno)?;
        let (seqno, kind) = key::unpack(self.space.arena.entry(entry).packed)?;
        Some((seqno, kind, MemSlice { table: Arc::clone(self), entry }))
    }

    /// A cursor over the entries, not yet on one.
    pub fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor { table: Arc::clone(self), page: Vec::with_capacity(64), at: 0 }
    }

    /// All range tombstones so far; built at the first call after an addition.
    pub fn range_deletes(&self) -> Arc<RangeDeletes> {
        if self.range_count.load(Atomic::Acquire) == 0 {
            return Arc::clone(&self.no_ranges);
        }
        let mut ranges = self.ranges.lock();
        if let Some(built) = &ranges.built {
            return Arc::clone(built);
        }
        let built = Arc::new(RangeDeletes::build(&self.space.order, &ranges.list));
        ranges.built = Some(Arc::clone(&built));
        built
    }

    /// The newest range tombstone over `key` that a reader at `seqno` sees.
    pub fn covering(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        if self.range_count.load(Atomic::Acquire) == 0 {
            return None;
        }
        self.range_deletes().covering(&self.space.order, key, seqno)
    }

    /// Bytes in use: entries, index and range tombstones.
    pub fn memory_bytes(&self) -> usize {
        self.space.arena.used_bytes()
            + self.index_bytes.load(Atomic::Relaxed)
            + self.range_bytes.load(Atomic::Relaxed)
    }

    /// How many range tombstones there are.
    pub fn range_delete_count(&self) -> usize {
        self.range_count.load(Atomic::Relaxed)
    }

    /// Notes that cursors sought it `seeks` times. True when it has just become
    /// [sought](Memtable::is_sought).
    pub fn note_seeks(&self, seeks: u64) -> bool {
        let written = self.seqno_max.load(Atomic::Relaxed);
        if self.sought_at.swap(written, Atomic::Relaxed) != written {
            self.seeks.store(0, Atomic::Relaxed);
        }
        let before = self.seeks.fetch_add(seeks, Atomic::Relaxed);
        !self.pays(before) && self.pays(before + seeks)
    }

    /// Whether so many seeks came since the last write that a table in its place would pay: its
    /// entries lie where they were added, and walking them in order waits for memory at each.
    pub fn is_sought(&self) -> bool {
        self.sought_at.load(Atomic::Relaxed) == self.seqno_max.load(Atomic::Relaxed)
            && self.pays(self.seeks.load(Atomic::Relaxed))
    }

    /// Leaves it as it is until it is written again, however often it is sought.
    pub fn decline(&self) {
        self.seeks.store(SEEKS_DECLINED, Atomic::Relaxed);
    }

    fn pays(&self, seeks: u64) -> bool {
        let bytes = self.memory_bytes();
        let enough = bytes as u64 / BYTES_PER_SEEK..SEEKS_DECLINED;
        bytes >= SOUGHT_BYTES_MIN && enough.contains(&seeks)
    }

    /// How many entries there are, range tombstones not counted.
    pub fn len(&self) -> usize {
        self.entries.load(Atomic::Relaxed)
    }

    /// Whether there are neither entries nor range tombstones.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.range_count.load(Atomic::Relaxed) == 0
    }

    /// The least and greatest sequence number of entries and range tombstones.
    pub fn seqno_range(&self) -> Option<(SeqNo, SeqNo)> {
        let min = self.seqno_min.load(Atomic::Relaxed);
        let max = self.seqno_max.load(Atomic::Relaxed);
        (min <= max).then_some((min, max))
    }

    fn note_seqno(&self, seqno: SeqNo) {
        if seqno > self.seqno_max.load(Atomic::Relaxed) {
            self.seqno_max.store(seqno, Atomic::Relaxed);
        }
        if seqno < self.seqno_min.load(Atomic::Relaxed) {
            self.seqno_min.store(seqno, Atomic::Relaxed);
        }
    }

    #[inline]
    fn find(&self, key: &[u8], seqno: SeqNo) -> Option<EntryRef> {
        let found = self.read().find(&self.space, Target::new(key, seqno))?;
        let same = self.space.order.compare(self.space.arena.entry(found).key, key).is_eq();
        same.then_some(found)
    }

    /// The index, sorted.
    #[inline]
    fn read(&self) -> RwLockReadGuard<'_, Index> {
        let index = self.index.read();
        match &*index {
            Index::Vector(vector) if !vector.is_sorted() => {
                drop(index);
                self.read_after_sort()
            }
            _ => index,
        }
    }

    #[cold]
    fn read_after_sort(&self) -> RwLockReadGuard<'_, Index> {
        let mut index = self.index.write();
        if let Index::Vector(vector) = &mut *index {
            vector.sort(&self.space);
        }
        RwLockWriteGuard::downgrade(index)
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable")
            .field("kind", &self.kind)
            .field("entries", &self.len())
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

/// A value pinned in its memtable, which it keeps alive.
#[derive(Clone)]
pub struct MemSlice {
    table: Arc<Memtable>,
    entry: EntryRef,
}

impl Deref for MemSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.table.space.arena.entry(self.entry).value
    }
}

impl fmt::Debug for MemSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemSlice({} bytes)", self.len())
    }
}

/// So many entries from the one it stands on, a cursor asks for.
const AHEAD_ENTRIES: usize = 4;

/// A position in a memtable. Holds no lock; its moves never fail.
pub struct MemCursor {
    table: Arc<Memtable>,
    /// References to consecutive entries, in order; `page[at]` is the current one.
    page: Vec<EntryRef>,
    /// Past the end when the cursor is not on an entry.
    at: usize,
}

impl MemCursor {
    /// Reads the page at `seek` and stands on its first entry, or its last when going `back`.
    fn load(&mut self, seek: Seek<'_>, back: bool) {
        self.page.clear();
        self.table.read().page(&self.table.space, seek, &mut self.page);
        let last = self.page.len().saturating_sub(1);
        self.at = if back { last } else { 0 };
        (0..AHEAD_ENTRIES).for_each(|n| self.prefetch(if back { last.wrapping_sub(n) } else { n }));
    }

    /// Asks the processor for an entry of the page: they lie where they were added, not in order.
    #[inline]
    fn prefetch(&self, at: usize) {
        if let Some(&entry) = self.page.get(at) {
            self.table.space.arena.prefetch(entry);
        }
    }

    /// Reads the page after (or, going `back`, before) the current entry.
    #[cold]
    fn turn(&mut self, back: bool) {
        let table = Arc::clone(&self.table);
        let mut here = table.space.target(self.page[self.at]);
        if back {
            self.load(Seek::Before(here), true);
        } else {
            here.rank += 1;
            self.load(Seek::From(here), false);
        }
    }

    #[inline]
    fn entry(&self) -> arena::Entry<'_> {
        self.table.space.arena.entry(self.page[self.at])
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
        self.load(Seek::From(Target::new(key, seqno)), false);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.load(Seek::Before(Target::new(key, seqno)), true);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.at + 1 < self.page.len() {
            self.at += 1;
            self.prefetch(self.at + AHEAD_ENTRIES - 1);
        } else if self.valid() {
            self.turn(false);
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
            self.turn(true);
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
        // Only Put and Delete are ever added.
        if self.entry().packed as u8 == Kind::Put as u8 { Kind::Put } else { Kind::Delete }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entry().value
    }
}
