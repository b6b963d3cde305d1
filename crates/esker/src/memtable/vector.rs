//! The vector index: writes are appended, and the first read after them sorts.
//!
//! Invariants: `refs[..sorted]` is in internal order, and reads look at nothing else. The caller
//! therefore calls [`VectorIndex::sort`] first whenever [`VectorIndex::is_sorted`] returns false. A
//! comparison that panics during the sort leaves every reference in its position.
//!
//! The index is made for loading without reading. A read between writes pays for merging the
//! entries added since the last read.

use super::arena::EntryRef;
use super::{EntrySpace, LookupKey, Seek};
use crate::base::key::shared_prefix_len;

/// Number of entries in a page.
const PAGE: usize = 64;
/// The unsorted part is merged in place while it is smaller than this fraction (1/8) of the sorted
/// part.
const MERGE_SHARE: usize = 8;

/// The vector.
pub(super) struct VectorIndex {
    refs: Vec<EntryRef>,
    sorted: usize,
}

impl VectorIndex {
    pub fn new() -> VectorIndex {
        VectorIndex { refs: Vec::new(), sorted: 0 }
    }

    /// Returns the size of the references in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.refs.len() * size_of::<EntryRef>()
    }

    /// Adds `entry`, whose key and rank are `target`.
    pub fn insert(&mut self, space: &EntrySpace, entry: EntryRef, target: LookupKey<'_>) {
        let in_order = self.is_sorted()
            && self.refs.last().is_none_or(|&last| space.compare(last, target).is_lt());
        self.refs.push(entry);
        if in_order {
            self.sorted += 1;
        }
    }

    /// Returns whether reads see every entry.
    pub fn is_sorted(&self) -> bool {
        self.sorted == self.refs.len()
    }

    /// Makes every entry visible to reads.
    pub fn sort(&mut self, space: &EntrySpace) {
        let fresh = self.refs.len() - self.sorted;
        if fresh * MERGE_SHARE < self.sorted {
            let mut tail = self.refs[self.sorted..].to_vec();
            sort_by_head(space, &mut tail);
            self.merge(space, &tail);
        } else {
            sort_by_head(space, &mut self.refs);
        }
        self.sorted = self.refs.len();
    }

    /// Merges `tail`, the sorted copy of the unsorted part, into the sorted part from the back.
    /// Each block moves once. No keys are compared after the first move.
    fn merge(&mut self, space: &EntrySpace, tail: &[EntryRef]) {
        let mut end = self.sorted;
        let place = |entry: &EntryRef| {
            let target = space.target(*entry);
            end = self.refs[..end].partition_point(|&r| space.compare(r, target).is_lt());
            end
        };
        let places: Vec<usize> = tail.iter().rev().map(place).collect();
        let mut end = self.sorted;
        for ((before, &entry), at) in tail.iter().enumerate().rev().zip(places) {
            self.refs.copy_within(at..end, at + before + 1);
            self.refs[at + before] = entry;
            end = at;
        }
    }

    /// Returns the first entry at or after `target`.
    pub fn find(&self, space: &EntrySpace, target: LookupKey<'_>) -> Option<EntryRef> {
        self.refs[..self.sorted].get(self.place(space, target)).copied()
    }

    /// Copies some entries that begin (or, backwards, end) at `seek`.
    pub fn page(&self, space: &EntrySpace, seek: Seek<'_>, out: &mut Vec<EntryRef>) {
        let (from, to) = match seek {
            Seek::First => (0, PAGE.min(self.sorted)),
            Seek::Last => (self.sorted.saturating_sub(PAGE), self.sorted),
            Seek::From(target) => {
                let at = self.place(space, target);
                (at, (at + PAGE).min(self.sorted))
            }
            Seek::Before(target) => {
                let at = self.place(space, target);
                (at.saturating_sub(PAGE), at)
            }
        };
        out.extend_from_slice(&self.refs[from..to]);
    }

    fn place(&self, space: &EntrySpace, target: LookupKey<'_>) -> usize {
        self.refs[..self.sorted].partition_point(|&r| space.compare(r, target).is_lt())
    }
}

/// Sorts by key heads after the prefix shared by all of `refs`. Ties, and orders without heads, use
/// full comparisons.
fn sort_by_head(space: &EntrySpace, refs: &mut [EntryRef]) {
    let key = |at: EntryRef| space.arena.entry(at).key;
    let Some(&first) = refs.first() else { return };
    let prefix = match space.heads {
        true => refs.iter().fold(key(first).len(), |shared, &at| {
            shared_prefix_len(&key(first)[..shared], key(at))
        }),
        false => 0,
    };
    let mut headed: Vec<(u64, EntryRef)> =
        refs.iter().map(|&at| (space.head(key(at), prefix), at)).collect();
    headed.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| space.compare(a.1, space.target(b.1))));
    for (to, (_, at)) in refs.iter_mut().zip(headed) {
        *to = at;
    }
}
