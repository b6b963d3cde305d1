//! The entries of a memtable: an arena and an index over it.
//!
//! Invariants:
//! 1. An entry is in the arena before it is in the index, and never changes afterwards.
//! 2. The counters and sequence numbers of a part are written only with its index locked.

use std::cmp::Ordering;
use std::sync::Arc;

use super::arena::{Arena, EntryRef};
use super::btree::Btree;
use super::filter::KeyFilter;
use super::pool::ChunkPool;
use super::skiplist::Skiplist;
use super::vector::VectorIndex;
use crate::base::filter_policy::key_hash;
use crate::base::key::{self, Kind, SEQNO_MAX, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::base::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::options::kinds::MemtableKind;

/// A position in internal order: a key, and the distance of the sequence number from the maximum.
#[derive(Clone, Copy)]
pub(super) struct LookupKey<'a> {
    pub key: &'a [u8],
    pub rank: u64,
}

impl<'a> LookupKey<'a> {
    #[inline]
    pub fn new(key: &'a [u8], seqno: SeqNo) -> LookupKey<'a> {
        LookupKey { key, rank: SEQNO_MAX.saturating_sub(seqno) }
    }
}

/// The begin or end of a page of references.
#[derive(Clone, Copy)]
pub(super) enum Seek<'a> {
    First,
    Last,
    /// The page begins at the first entry not before the target.
    From(LookupKey<'a>),
    /// The page ends at the last entry before the target.
    Before(LookupKey<'a>),
}

/// The data that an index needs to read an entry: its memory and its order.
pub(super) struct EntrySpace {
    pub arena: Arena,
    pub order: KeyOrder,
    /// Whether the key order has heads.
    pub heads: bool,
}

impl EntrySpace {
    /// Returns the head of `key` after `prefix` bytes, which `key` has; 0 if the order has no
    /// heads.
    #[inline]
    pub fn head(&self, key: &[u8], prefix: usize) -> u64 {
        if self.heads { key::head(&key[prefix..]) } else { 0 }
    }

    /// Returns the position of an entry.
    #[inline]
    pub fn target(&self, at: EntryRef) -> LookupKey<'_> {
        let entry = self.arena.entry(at);
        LookupKey::new(entry.key, entry.packed >> 8)
    }

    /// Compares the entry with `target`.
    #[inline]
    pub fn compare(&self, at: EntryRef, target: LookupKey<'_>) -> Ordering {
        let own = self.target(at);
        self.order.compare(own.key, target.key).then_with(|| own.rank.cmp(&target.rank))
    }
}

pub(super) enum Index {
    Btree(Btree),
    Skiplist(Skiplist),
    Vector(VectorIndex),
}

impl Index {
    fn new(kind: MemtableKind, pool: &Arc<ChunkPool>) -> Index {
        match kind {
            MemtableKind::Btree => Index::Btree(Btree::new(pool)),
            MemtableKind::Skiplist => Index::Skiplist(Skiplist::new()),
            MemtableKind::Vector => Index::Vector(VectorIndex::new()),
        }
    }

    /// Adds `entry`. `newest` states that every other entry is older.
    #[inline]
    fn insert(&mut self, space: &EntrySpace, entry: EntryRef, target: LookupKey<'_>, newest: bool) {
        match self {
            Index::Btree(index) => index.insert(space, entry, target, newest),
            Index::Skiplist(index) => index.insert(space, entry, target),
            Index::Vector(index) => index.insert(space, entry, target),
        }
    }

    /// Returns the first entry at or after `target`. May return `None` if that entry certainly has
    /// another key.
    #[inline]
    fn find(&self, space: &EntrySpace, target: LookupKey<'_>) -> Option<EntryRef> {
        match self {
            Index::Btree(index) => index.find(space, target),
            Index::Skiplist(index) => index.find(space, target),
            Index::Vector(index) => index.find(space, target),
        }
    }

    /// Prefetches the last node that a search for `target` reads.
    pub fn prefetch(&self, space: &EntrySpace, target: LookupKey<'_>) {
        if let Index::Btree(index) = self {
            index.prefetch(space, target);
        }
    }

    pub fn page(&self, space: &EntrySpace, seek: Seek<'_>, out: &mut Vec<EntryRef>) {
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

/// A sorted table of entries. One thread at a time adds, and any number of threads read at the same
/// time.
pub(super) struct EntryTable {
    pub space: EntrySpace,
    pub filter: KeyFilter,
    index: RwLock<Index>,
    index_bytes: AtomicUsize,
    entries: AtomicUsize,
    /// The least and greatest sequence number. The greatest is below the least while the part is
    /// empty.
    seqno_min: AtomicU64,
    seqno_max: AtomicU64,
}

impl EntryTable {
    /// Creates an empty part with a filter for about `filtered_bytes` of entries.
    pub fn new(
        kind: MemtableKind,
        order: KeyOrder,
        pool: Arc<ChunkPool>,
        filtered_bytes: usize,
    ) -> EntryTable {
        let heads = order.has_heads();
        let index = Index::new(kind, &pool);
        EntryTable {
            filter: KeyFilter::new(filtered_bytes, pool.clone()),
            space: EntrySpace { arena: Arena::new(pool), order, heads },
            index_bytes: AtomicUsize::new(index.memory_bytes()),
            index: RwLock::new(index),
            entries: AtomicUsize::new(0),
            seqno_min: AtomicU64::new(u64::MAX),
            seqno_max: AtomicU64::new(0),
        }
    }

    /// Adds an entry: a put, a tombstone or a merge operand.
    #[inline]
    pub fn add(&self, seqno: SeqNo, kind: Kind, key: &[u8], value: &[u8]) {
        let hash = key_hash(key);
        self.filter.prefetch(hash);
        let entry = self.space.arena.append(key::pack(seqno, kind), key, value);
        let mut index = self.index.write();
        let newest = seqno > self.seqno_max.load(Relaxed);
        index.insert(&self.space, entry, LookupKey::new(key, seqno), newest);
        self.index_bytes.store(index.memory_bytes(), Relaxed);
        self.filter.add(hash);
        self.entries.store(self.entries.load(Relaxed) + 1, Relaxed);
        if newest {
            self.seqno_max.store(seqno, Relaxed);
        }
        if seqno < self.seqno_min.load(Relaxed) {
            self.seqno_min.store(seqno, Relaxed);
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.load(Relaxed)
    }

    /// Returns the size of entries and index in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.space.arena.used_bytes() + self.index_bytes.load(Relaxed)
    }

    /// Returns the least and the greatest sequence number. The greatest is below the least while
    /// the part is empty.
    pub fn seqnos(&self) -> (SeqNo, SeqNo) {
        (self.seqno_min.load(Relaxed), self.seqno_max.load(Relaxed))
    }

    /// Returns the newest version of `key` with a sequence number `<= seqno`. `hash` is the key's
    /// [`key_hash`].
    #[inline]
    pub fn find(&self, key: &[u8], hash: u64, seqno: SeqNo) -> Option<EntryRef> {
        // A visible entry was counted before its sequence number was published.
        if self.len() == 0 || !self.filter.may_contain(hash) {
            return None;
        }
        let found = self.read().find(&self.space, LookupKey::new(key, seqno))?;
        let same = self.space.order.compare(self.space.arena.entry(found).key, key).is_eq();
        same.then_some(found)
    }

    /// Returns the index, sorted, with a read lock held.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, Index> {
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
