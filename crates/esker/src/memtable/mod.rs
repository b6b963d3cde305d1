//! The memtable: the newest writes, sorted, in memory.
//!
//! Entries are stored in an [`arena`](self), which never moves them. One of three index structures
//! ([`MemtableKind`]) holds references to the entries in internal order, behind a read-write lock.
//!
//! Invariants:
//! 1. The lock of the writer state ensures that one thread at a time adds. Any number of threads
//!    read at the same time. An entry is readable as soon as it is added. Sequence numbers decide
//!    which entries a reader may see.
//! 2. A visible entry never changes or disappears while the memtable lives. A value can therefore
//!    be borrowed, or pinned by [`MemSlice`], without a lock.
//! 3. A `(key, seqno)` pair is added at most once.

mod arena;
mod btree;
mod cursor;
mod entry_table;
mod filter;
mod merged_values;
mod pool;
mod set;
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
use entry_table::{EntrySpace, EntryTable, LookupKey, Seek};
use merged_values::MergedValues;
pub use pool::ChunkPool;
pub use set::Memtables;

use crate::base::filter_policy::key_hash;
use crate::base::key::{self, Kind, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::range_delete::{RANGE_BYTES, RangeDeleteRef, RangeDeletes, RecentRangeDeletes};
use crate::base::thresholds::Thresholds;
use crate::options::kinds::MemtableKind;

/// Range tombstones in readable form: sets of the first `added` tombstones.
#[derive(Default)]
struct RangeDeleteSets {
    added: usize,
    sets: Vec<Arc<RangeDeletes>>,
}

/// A newest version found by [`Memtable::get`], borrowed from the memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemEntry<'a> {
    /// The entry's sequence number.
    pub seqno: SeqNo,
    /// The entry's kind, never [`Kind::RangeDelete`].
    pub kind: Kind,
    /// The value; empty for a tombstone.
    pub value: &'a [u8],
}

/// Memtable bytes per seek that justify a flush, as for a level-0 compaction. The flush has to
/// happen at some point anyway.
const BYTES_PER_SEEK: u64 = 4096;
/// Seek count that marks a declined memtable. No real seek count reaches it.
const SEEKS_DECLINED: u64 = 1 << 62;

/// A sorted table of entries in memory. One thread at a time writes, and any number of threads read
/// at the same time.
pub struct Memtable {
    /// The entries. Values and cursors that borrow from this part keep it alive.
    entries: Arc<EntryTable>,
    kind: MemtableKind,
    order: KeyOrder,
    /// Number of seeks since the last write, and the greatest sequence number at that write.
    seeks: AtomicU64,
    seek_heavy_at: AtomicU64,
    /// Minimum size, in bytes, for a flush because of seeks.
    seek_flush_bytes_min: usize,
    ranges: Mutex<RecentRangeDeletes>,
    settled: ArcSwap<RangeDeleteSets>,
    /// Range tombstones: their number, their size in bytes, and their least and greatest sequence
    /// number.
    range_count: AtomicUsize,
    range_bytes: AtomicUsize,
    range_seqno_min: AtomicU64,
    range_seqno_max: AtomicU64,
    /// Values that reads have made of merge operands.
    pub merged: MergedValues,
}

impl Memtable {
    /// Creates an empty memtable whose memory is freed with it.
    pub fn new(kind: MemtableKind, order: KeyOrder) -> Memtable {
        Memtable::with_pool(kind, order, Arc::new(ChunkPool::new(0)), 0)
    }

    /// Creates an empty memtable that takes its memory from `pool` and returns it when dropped.
    /// `most_bytes` is the memtable's expected maximum size, which determines the size of its
    /// filter. 0 means no filter.
    pub fn with_pool(
        kind: MemtableKind,
        order: KeyOrder,
        pool: Arc<ChunkPool>,
        most_bytes: usize,
    ) -> Memtable {
        let filtered_bytes = if order.equal_keys_are_identical() { most_bytes } else { 0 };
        Memtable {
            entries: Arc::new(EntryTable::new(kind, order.clone(), pool, filtered_bytes)),
            kind,
            order,
            seeks: AtomicU64::new(0),
            seek_heavy_at: AtomicU64::new(0),
            seek_flush_bytes_min: Thresholds::default().seek_flush_bytes_min,
            ranges: Mutex::default(),
            settled: ArcSwap::default(),
            merged: MergedValues::default(),
            range_count: AtomicUsize::new(0),
            range_bytes: AtomicUsize::new(0),
            range_seqno_min: AtomicU64::new(u64::MAX),
            range_seqno_max: AtomicU64::new(0),
        }
    }

    /// Sets the memtable's thresholds.
    pub fn with_thresholds(mut self, thresholds: &Thresholds) -> Memtable {
        self.seek_flush_bytes_min = thresholds.seek_flush_bytes_min;
        self
    }

    /// Returns the key order.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Returns the memtable's index structure.
    pub fn kind(&self) -> MemtableKind {
        self.kind
    }

    /// Adds a version of `key`, visible from now on to readers at `seqno` and above. A
    /// [`Kind::RangeDelete`] is passed to [`Memtable::add_range_delete`] as the range from `key` to
    /// `value`.
    ///
    /// # Panics
    /// When the memtable would exceed 32 GiB, or when an entry is far beyond the store's limits
    /// ([`key::KEY_BYTES_MAX`], [`key::VALUE_BYTES_MAX`]). The caller checks both.
    pub fn add(&self, seqno: SeqNo, kind: Kind, key: &[u8], value: &[u8]) {
        if kind == Kind::RangeDelete {
            return self.add_range_delete(key, value, seqno);
        }
        self.entries.add(seqno, kind, key, value);
    }

    /// Adds a range tombstone, which deletes every version older than `seqno` of every key in
    /// `[start, end)`. An empty or inverted range covers nothing.
    pub fn add_range_delete(&self, start: &[u8], end: &[u8], seqno: SeqNo) {
        let mut ranges = self.ranges.lock();
        ranges.push(RangeDeleteRef { start, end, seqno });
        let bytes = start.len() + end.len() + RANGE_BYTES;
        self.range_bytes.fetch_add(bytes, Atomic::Relaxed);
        self.range_seqno_min.fetch_min(seqno, Atomic::Relaxed);
        self.range_seqno_max.fetch_max(seqno, Atomic::Relaxed);
        self.range_count.fetch_add(1, Atomic::Release);
    }

    /// Returns the newest version of `key` with a sequence number `<= seqno`. Ignores range
    /// tombstones.
    pub fn get(&self, key: &[u8], seqno: SeqNo) -> Option<MemEntry<'_>> {
        let hit = self.get_hit(key, key_hash(key), seqno)?;
        Some(MemEntry { seqno: hit.seqno, kind: hit.kind, value: hit.value() })
    }

    /// Like [`Memtable::get`], for a key whose [`key_hash`] is `hash`. The returned value can be
    /// [pinned](MemHit::pin), which keeps the memtable alive.
    #[inline]
    pub fn get_hit(&self, key: &[u8], hash: u64, seqno: SeqNo) -> Option<MemHit<'_>> {
        let entry = self.entries.find(key, hash, seqno)?;
        let (seqno, kind) = key::unpack(self.entries.space.arena.entry(entry).packed)?;
        Some(MemHit { seqno, kind, part: &self.entries, entry })
    }

    /// Prefetches the filter word that [`Memtable::get_hit`] reads first for a key with this hash.
    #[inline]
    pub fn prefetch_filter(&self, hash: u64) {
        self.entries.filter.prefetch(hash);
    }

    /// Like [`Memtable::get`], with a value that keeps the memtable alive.
    #[cfg(test)]
    pub fn get_slice(&self, key: &[u8], seqno: SeqNo) -> Option<(SeqNo, Kind, MemSlice)> {
        let hit = self.get_hit(key, key_hash(key), seqno)?;
        Some((hit.seqno, hit.kind, hit.pin()))
    }

    /// Returns a cursor over the entries, not yet positioned.
    pub fn cursor(&self) -> MemCursor {
        MemCursor::new(&self.entries)
    }

    /// Returns all range tombstones so far, as sets, the newest set last.
    pub fn range_delete_sets(&self) -> Vec<Arc<RangeDeletes>> {
        if self.range_count.load(Atomic::Acquire) == 0 {
            return Vec::new();
        }
        self.settled().sets.clone()
    }

    /// Returns all range tombstones so far, as one set.
    pub fn range_deletes(&self) -> Arc<RangeDeletes> {
        if self.range_count.load(Atomic::Acquire) == 0 {
            return Arc::default();
        }
        let mut ranges = self.ranges.lock();
        let all = Arc::clone(ranges.merge(&self.order));
        let added = self.range_count.load(Atomic::Relaxed);
        self.settled.store(Arc::new(RangeDeleteSets { added, sets: vec![Arc::clone(&all)] }));
        all
    }

    /// Returns the sequence number of the newest range tombstone over `key` that is visible at
    /// `seqno`.
    #[inline]
    pub fn covering(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        if self.range_count.load(Atomic::Acquire) == 0 {
            return None;
        }
        self.covering_in_sets(key, seqno)
    }

    /// Out of line, which keeps the path of most gets short.
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

    /// Returns sets of all range tombstones added before the call. The first reader after an
    /// addition builds the sets.
    fn settled(&self) -> arc_swap::Guard<Arc<RangeDeleteSets>> {
        let settled = self.settled.load();
        if settled.added >= self.range_count.load(Atomic::Acquire) {
            return settled;
        }
        let mut ranges = self.ranges.lock();
        let added = self.range_count.load(Atomic::Relaxed);
        if self.settled.load().added < added {
            let sets = ranges.settle(&self.order).to_vec();
            self.settled.store(Arc::new(RangeDeleteSets { added, sets }));
        }
        self.settled.load()
    }

    /// Returns the bytes in use: entries, index, range tombstones and filter.
    pub fn memory_bytes(&self) -> usize {
        self.data_bytes() + self.entries.filter.memory_bytes()
    }

    /// Returns the bytes of written data: [`Memtable::memory_bytes`] without the filter.
    pub fn data_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.range_bytes.load(Atomic::Relaxed)
    }

    /// Returns the number of range tombstones.
    pub fn range_delete_count(&self) -> usize {
        self.range_count.load(Atomic::Acquire)
    }

    /// Records `seeks` cursor seeks in this memtable. Returns true if the memtable has just become
    /// [seek-heavy](Memtable::is_seek_heavy).
    pub fn note_seeks(&self, seeks: u64) -> bool {
        let written = self.seqnos().1;
        if self.seek_heavy_at.swap(written, Atomic::Relaxed) != written {
            self.seeks.store(0, Atomic::Relaxed);
        }
        let before = self.seeks.fetch_add(seeks, Atomic::Relaxed);
        !self.justifies_flush(before) && self.justifies_flush(before + seeks)
    }

    /// Returns whether the memtable is seek-heavy: a table in its place would pay for the seeks
    /// since the last write. Entries are stored in insertion order, so a scan in key order waits
    /// for memory at each entry.
    pub fn is_seek_heavy(&self) -> bool {
        self.seek_heavy_at.load(Atomic::Relaxed) == self.seqnos().1
            && self.justifies_flush(self.seeks.load(Atomic::Relaxed))
    }

    /// Excludes the memtable from flushes because of seeks until its next write.
    pub fn exclude_from_seek_flush(&self) {
        self.seeks.store(SEEKS_DECLINED, Atomic::Relaxed);
    }

    fn justifies_flush(&self, seeks: u64) -> bool {
        let bytes = self.data_bytes();
        let enough = bytes as u64 / BYTES_PER_SEEK..SEEKS_DECLINED;
        bytes >= self.seek_flush_bytes_min && enough.contains(&seeks)
    }

    /// Returns the number of entries, without range tombstones.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the memtable has entries.
    #[inline]
    pub fn has_entries(&self) -> bool {
        self.entries.len() > 0
    }

    /// Returns whether the memtable has neither entries nor range tombstones.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.range_count.load(Atomic::Relaxed) == 0
    }

    /// Returns the least and greatest sequence number of entries and range tombstones.
    pub fn seqno_range(&self) -> Option<(SeqNo, SeqNo)> {
        let (min, max) = self.seqnos();
        (min <= max).then_some((min, max))
    }

    fn seqnos(&self) -> (SeqNo, SeqNo) {
        let ranges = (&self.range_seqno_min, &self.range_seqno_max);
        let ranges = (ranges.0.load(Atomic::Relaxed), ranges.1.load(Atomic::Relaxed));
        let entries = self.entries.seqnos();
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
