//! The memtable: the newest writes, sorted, in memory.
//!
//! Entries live in an [`arena`](self) that never moves them; one of three indexes
//! ([`MemtableKind`]) keeps references to them in internal order behind a read-write lock.
//!
//! What stays true:
//! 1. Any number of threads add and read at once. An entry may be read as soon as it is added:
//!    which are to be seen yet, the sequence numbers say.
//! 2. An entry once visible never changes or goes away while the memtable lives, so a value may be
//!    borrowed, or pinned by [`MemSlice`], without a lock.
//! 3. A `(key, seqno)` pair is added at most once.

mod arena;
mod btree;
mod cursor;
mod filter;
mod part;
mod pool;
mod skiplist;
mod slab;
#[cfg(test)]
mod tests;
mod vector;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering as Atomic};

pub use cursor::{MemCursor, MemHit, MemSlice};
use part::{Part, Seek, Space, Target};
pub use pool::ChunkPool;

use crate::base::filter_policy::key_hash;
use crate::base::key::{self, Kind, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::range_delete::{RANGE_BYTES, RangeDeleteRef, RangeDeletes, RecentRangeDeletes};
use crate::options::kinds::MemtableKind;

/// The range tombstones as they are read: sets of the first so many that were added.
#[derive(Default)]
struct Settled {
    added: usize,
    sets: Vec<Arc<RangeDeletes>>,
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

/// A sorted table of entries in memory. Any number of writers and readers.
pub struct Memtable {
    /// Everything but range tombstones; who borrows from it keeps it.
    part: Arc<Part>,
    kind: MemtableKind,
    order: KeyOrder,
    /// Seeks since the last write, and the greatest sequence number then.
    seeks: AtomicU64,
    sought_at: AtomicU64,
    ranges: Mutex<RecentRangeDeletes>,
    settled: ArcSwap<Settled>,
    /// How many range tombstones there are, their bytes, and their sequence numbers.
    range_count: AtomicUsize,
    range_bytes: AtomicUsize,
    range_seqno_min: AtomicU64,
    range_seqno_max: AtomicU64,
}

impl Memtable {
    /// An empty memtable whose memory is freed with it.
    pub fn new(kind: MemtableKind, order: KeyOrder) -> Memtable {
        Memtable::with_pool(kind, order, Arc::new(ChunkPool::new(0)), 0)
    }

    /// An empty memtable that takes its memory from `pool` and gives it back when it is dropped. It
    /// is to have about `most_bytes`, of which a filter has a small part; 0 for none.
    pub fn with_pool(
        kind: MemtableKind,
        order: KeyOrder,
        pool: Arc<ChunkPool>,
        most_bytes: usize,
    ) -> Memtable {
        let filtered_bytes = if order.equal_keys_are_identical() { most_bytes } else { 0 };
        Memtable {
            part: Arc::new(Part::new(kind, order.clone(), pool, filtered_bytes)),
            kind,
            order,
            seeks: AtomicU64::new(0),
            sought_at: AtomicU64::new(0),
            ranges: Mutex::default(),
            settled: ArcSwap::default(),
            range_count: AtomicUsize::new(0),
            range_bytes: AtomicUsize::new(0),
            range_seqno_min: AtomicU64::new(u64::MAX),
            range_seqno_max: AtomicU64::new(0),
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
        self.part.add(seqno, kind, key, value);
    }

    /// Adds a range tombstone: every key in `[start, end)` older than `seqno` is gone. An empty or
    /// inverted range covers nothing.
    pub fn add_range_delete(&self, start: &[u8], end: &[u8], seqno: SeqNo) {
        let mut ranges = self.ranges.lock();
        ranges.push(RangeDeleteRef { start, end, seqno });
        let bytes = start.len() + end.len() + RANGE_BYTES;
        self.range_bytes.fetch_add(bytes, Atomic::Relaxed);
        self.range_seqno_min.fetch_min(seqno, Atomic::Relaxed);
        self.range_seqno_max.fetch_max(seqno, Atomic::Relaxed);
        self.range_count.fetch_add(1, Atomic::Release);
    }

    /// The newest version of `key` with a sequence number `<= seqno`. Range tombstones are not
    /// looked at.
    pub fn get(&self, key: &[u8], seqno: SeqNo) -> Option<MemEntry<'_>> {
        let hit = self.look(key, key_hash(key), seqno)?;
        Some(MemEntry { seqno: hit.seqno, kind: hit.kind, value: hit.value() })
    }

    /// As [`Memtable::get`] of a key whose [`key_hash`] is `hash`, with a value that can be
    /// [made](MemHit::pin) to keep the memtable alive.
    #[inline]
    pub fn look(&self, key: &[u8], hash: u64, seqno: SeqNo) -> Option<MemHit<'_>> {
        let entry = self.part.find(key, hash, seqno)?;
        let (seqno, kind) = key::unpack(self.part.space.arena.entry(entry).packed)?;
        Some(MemHit { seqno, kind, part: &self.part, entry })
    }

    /// Asks the processor for what [`Memtable::look`] of a key of this hash looks at first.
    #[inline]
    pub fn prefetch_filter(&self, hash: u64) {
        self.part.filter.prefetch(hash);
    }

    /// As [`Memtable::get`], with a value that keeps the memtable alive.
    #[cfg(test)]
    pub fn get_slice(&self, key: &[u8], seqno: SeqNo) -> Option<(SeqNo, Kind, MemSlice)> {
        let hit = self.look(key, key_hash(key), seqno)?;
        Some((hit.seqno, hit.kind, hit.pin()))
    }

    /// A cursor over the entries, not yet on one.
    pub fn cursor(&self) -> MemCursor {
        MemCursor::new(&self.part)
    }

    /// All range tombstones so far, in sets, the newest last.
    pub fn range_delete_sets(&self) -> Vec<Arc<RangeDeletes>> {
        if self.range_count.load(Atomic::Acquire) == 0 {
            return Vec::new();
        }
        self.settled().sets.clone()
    }

    /// All range tombstones so far, in one set.
    pub fn range_deletes(&self) -> Arc<RangeDeletes> {
        if self.range_count.load(Atomic::Acquire) == 0 {
            return Arc::default();
        }
        let mut ranges = self.ranges.lock();
        let all = Arc::clone(ranges.merge(&self.order));
        let added = self.range_count.load(Atomic::Relaxed);
        self.settled.store(Arc::new(Settled { added, sets: vec![Arc::clone(&all)] }));
        all
    }

    /// The newest range tombstone over `key` that a reader at `seqno` sees.
    #[inline]
    pub fn covering(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        if self.range_count.load(Atomic::Acquire) == 0 {
            return None;
        }
        self.covering_in_sets(key, seqno)
    }

    /// Apart, so that the way of most gets is short.
    #[inline(never)]
    fn covering_in_sets(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        let mut newest = None;
        for set in self.settled().sets.iter().rev() {
            if newest.is_none_or(|newest| newest < set.seqno_max()) {
                newest = newest.max(set.covering(&self.order, key, seqno));
            }
        }
        newest
    }

    /// Sets of all that was added before the call. The first reader after an addition makes them.
    fn settled(&self) -> arc_swap::Guard<Arc<Settled>> {
        let settled = self.settled.load();
        if settled.added >= self.range_count.load(Atomic::Acquire) {
            return settled;
        }
        let mut ranges = self.ranges.lock();
        let added = self.range_count.load(Atomic::Relaxed);
        if self.settled.load().added < added {
            let sets = ranges.settle(&self.order).to_vec();
            self.settled.store(Arc::new(Settled { added, sets }));
        }
        self.settled.load()
    }

    /// Bytes in use: entries, index, range tombstones and filters.
    pub fn memory_bytes(&self) -> usize {
        self.held_bytes() + self.part.filter.memory_bytes()
    }

    /// Bytes that what was written takes: [`Memtable::memory_bytes`] but for the filters'.
    pub fn held_bytes(&self) -> usize {
        self.part.memory_bytes() + self.range_bytes.load(Atomic::Relaxed)
    }

    /// How many range tombstones there are.
    pub fn range_delete_count(&self) -> usize {
        self.range_count.load(Atomic::Acquire)
    }

    /// Notes that cursors sought it `seeks` times. True when it has just become
    /// [sought](Memtable::is_sought).
    pub fn note_seeks(&self, seeks: u64) -> bool {
        let written = self.seqnos().1;
        if self.sought_at.swap(written, Atomic::Relaxed) != written {
            self.seeks.store(0, Atomic::Relaxed);
        }
        let before = self.seeks.fetch_add(seeks, Atomic::Relaxed);
        !self.pays(before) && self.pays(before + seeks)
    }

    /// Whether so many seeks came since the last write that a table in its place would pay: its
    /// entries lie where they were added, and walking them in order waits for memory at each.
    pub fn is_sought(&self) -> bool {
        self.sought_at.load(Atomic::Relaxed) == self.seqnos().1
            && self.pays(self.seeks.load(Atomic::Relaxed))
    }

    /// Leaves it as it is until it is written again, however often it is sought.
    pub fn decline(&self) {
        self.seeks.store(SEEKS_DECLINED, Atomic::Relaxed);
    }

    fn pays(&self, seeks: u64) -> bool {
        let bytes = self.held_bytes();
        let enough = bytes as u64 / BYTES_PER_SEEK..SEEKS_DECLINED;
        bytes >= SOUGHT_BYTES_MIN && enough.contains(&seeks)
    }

    /// How many entries there are, range tombstones not counted.
    pub fn len(&self) -> usize {
        self.part.len()
    }

    /// Whether there are entries.
    #[inline]
    pub fn has_entries(&self) -> bool {
        self.part.len() > 0
    }

    /// Whether there are neither entries nor range tombstones.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.range_count.load(Atomic::Relaxed) == 0
    }

    /// The least and greatest sequence number of entries and range tombstones.
    pub fn seqno_range(&self) -> Option<(SeqNo, SeqNo)> {
        let (min, max) = self.seqnos();
        (min <= max).then_some((min, max))
    }

    fn seqnos(&self) -> (SeqNo, SeqNo) {
        let ranges = (&self.range_seqno_min, &self.range_seqno_max);
        let ranges = (ranges.0.load(Atomic::Relaxed), ranges.1.load(Atomic::Relaxed));
        let entries = self.part.seqnos();
        (entries.0.min(ranges.0), entries.1.max(ranges.1))
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
