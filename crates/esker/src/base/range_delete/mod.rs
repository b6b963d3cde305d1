//! Range tombstones: `[start, end)` deleted at a sequence number. A set of them finds the newest
//! tombstone over a key that is visible to a reader.
//!
//! The query has two dimensions, key and sequence number, because a reader at a snapshot must not
//! see newer tombstones. A set keeps the bounds of its ranges in key order and locates a key among
//! them by binary search. A wavelet tree (`wavelet.rs`) over the bounds finds the newest range that
//! is open at that position. For n ranges, building a set takes O(n log n) time and a query takes
//! O(log n). A set takes at most [`RANGE_BYTES`] per range besides the keys, however the ranges
//! overlap.
//!
//! Invariants: a set is immutable. It contains no empty or inverted ranges.

mod recent;
#[cfg(test)]
mod tests;
mod view;
mod wavelet;

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use super::key::SeqNo;
use super::order::KeyOrder;
pub use recent::RecentRangeDeletes;
pub use view::{RangeDeleteRun, RangeDeleteView};
use wavelet::WaveletTree;

/// Maximum memory of a set per range, in bytes, without the range's two keys. Valid for up to 2^31
/// ranges.
pub const RANGE_BYTES: usize = 64;

/// A range tombstone, from one call of `delete_range`. It deletes all versions of the keys in
/// `[start, end)` older than `seqno`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeDelete {
    /// The start of the range (inclusive).
    pub start: Vec<u8>,
    /// The end of the range (exclusive).
    pub end: Vec<u8>,
    /// The sequence number of the deletion.
    pub seqno: SeqNo,
}

/// A borrowed range tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeDeleteRef<'a> {
    /// The start of the range (inclusive).
    pub start: &'a [u8],
    /// The end of the range (exclusive).
    pub end: &'a [u8],
    /// The sequence number of the deletion.
    pub seqno: SeqNo,
}

impl RangeDelete {
    /// Borrows the range tombstone.
    pub fn borrow(&self) -> RangeDeleteRef<'_> {
        RangeDeleteRef { start: &self.start, end: &self.end, seqno: self.seqno }
    }
}

impl<'a> RangeDeleteRef<'a> {
    /// Copies the range tombstone.
    pub fn to_owned(self) -> RangeDelete {
        RangeDelete { start: self.start.to_vec(), end: self.end.to_vec(), seqno: self.seqno }
    }

    /// Truncates the range to `[lo, hi)`. A bound of `None` is infinite. Returns `None` if the
    /// result is empty.
    pub fn clamp(
        self,
        order: &KeyOrder,
        lo: Option<&'a [u8]>,
        hi: Option<&'a [u8]>,
    ) -> Option<RangeDeleteRef<'a>> {
        let later = |a: &[u8], b: &[u8]| order.compare(a, b) == Ordering::Greater;
        let start = lo.filter(|lo| later(lo, self.start)).unwrap_or(self.start);
        let end = hi.filter(|hi| later(self.end, hi)).unwrap_or(self.end);
        later(end, start).then_some(RangeDeleteRef { start, end, seqno: self.seqno })
    }
}

/// A list of keys in one buffer.
#[derive(Debug, Clone, Default)]
struct Keys {
    bytes: Vec<u8>,
    /// The end offset of each key.
    ends: Vec<u64>,
}

impl Keys {
    fn with_capacity(keys: usize, bytes: usize) -> Keys {
        Keys { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(keys) }
    }

    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u64);
    }

    #[inline]
    fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start as usize..self.ends[at] as usize]
    }
}

/// A builder of a set of range tombstones.
#[derive(Debug, Default, Clone)]
pub struct RangeDeletesBuilder {
    /// The start and end of each range.
    keys: Keys,
    seqnos: Vec<SeqNo>,
}

impl RangeDeletesBuilder {
    /// Adds a range tombstone. The order of additions does not matter.
    pub fn push(&mut self, delete: RangeDeleteRef<'_>) {
        self.keys.push(delete.start);
        self.keys.push(delete.end);
        self.seqnos.push(delete.seqno);
    }

    /// Returns the number of tombstones added.
    pub fn len(&self) -> usize {
        self.seqnos.len()
    }

    /// Returns whether no tombstone was added.
    pub fn is_empty(&self) -> bool {
        self.seqnos.is_empty()
    }

    /// Builds the set under `order`.
    pub fn build(self, order: &KeyOrder) -> RangeDeletes {
        let key = |range: u32, end: u32| self.keys.get((2 * range + end) as usize);
        let mut ranks: Vec<u32> = (0..self.seqnos.len() as u32)
            .filter(|&range| order.compare(key(range, 0), key(range, 1)).is_lt())
            .collect();
        ranks.sort_by_key(|&range| self.seqnos[range as usize]);
        let bound = |bound: u32| key(ranks[(bound / 2) as usize], bound % 2);
        let mut bounds: Vec<wavelet::Bound> = (0..2 * ranks.len() as u32).collect();
        bounds.sort_by(|&a, &b| order.compare(bound(a), bound(b)));
        let bytes = bounds.iter().map(|&at| bound(at).len()).sum();
        let mut keys = Keys::with_capacity(bounds.len(), bytes);
        let mut spans = vec![[0; 2]; ranks.len()];
        for (at, &next) in bounds.iter().enumerate() {
            keys.push(bound(next));
            spans[(next / 2) as usize][(next % 2) as usize] = at as u32;
        }
        let seqnos = ranks.iter().map(|&range| self.seqnos[range as usize]).collect();
        RangeDeletes { keys, spans, seqnos, open: WaveletTree::new(bounds) }
    }
}

/// An immutable set of range tombstones.
#[derive(Debug, Clone, Default)]
pub struct RangeDeletes {
    /// The bounds, in key order.
    keys: Keys,
    /// The start and end bound of each range, by rank in the order of sequence numbers.
    spans: Vec<[u32; 2]>,
    /// The sequence numbers of the ranges, ascending.
    seqnos: Vec<SeqNo>,
    /// The ranges that are open between bounds.
    open: WaveletTree,
}

/// The answer to a coverage query for a key. It is valid for all keys in `[from, to)`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Covered<'a> {
    /// The sequence number of the newest visible tombstone, if any.
    pub newest: Option<SeqNo>,
    /// The first key of the interval; `None` is minus infinity.
    pub from: Option<&'a [u8]>,
    /// The first key after the interval; `None` is infinity.
    pub to: Option<&'a [u8]>,
}

impl RangeDeletes {
    /// Builds the set of `deletes`.
    pub fn build(order: &KeyOrder, deletes: &[RangeDelete]) -> RangeDeletes {
        let mut builder = RangeDeletesBuilder::default();
        deletes.iter().for_each(|delete| builder.push(delete.borrow()));
        builder.build(order)
    }

    /// Returns whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.seqnos.is_empty()
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.seqnos.len()
    }

    /// Returns the memory used, in bytes, including the keys.
    pub fn memory_bytes(&self) -> usize {
        self.keys.bytes.capacity()
            + self.keys.ends.capacity() * size_of::<u64>()
            + self.spans.capacity() * size_of::<[u32; 2]>()
            + self.seqnos.capacity() * size_of::<SeqNo>()
            + self.open.memory_bytes()
    }

    /// Returns the greatest sequence number, or 0 for an empty set.
    #[inline]
    pub fn seqno_max(&self) -> SeqNo {
        self.seqnos.last().copied().unwrap_or(0)
    }

    /// Returns all ranges, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = RangeDeleteRef<'_>> {
        self.spans.iter().zip(&self.seqnos).map(|(&[start, end], &seqno)| RangeDeleteRef {
            start: self.keys.get(start as usize),
            end: self.keys.get(end as usize),
            seqno,
        })
    }

    /// Returns the first and the last bound, or `None` for an empty set. All covered keys lie
    /// between them.
    pub fn extent(&self) -> Option<(&[u8], &[u8])> {
        let last = self.bounds().checked_sub(1)?;
        Some((self.keys.get(0), self.keys.get(last)))
    }

    /// Returns the number of bounds.
    pub fn bounds(&self) -> usize {
        self.keys.ends.len()
    }

    /// Returns bound number `at` in key order.
    #[inline]
    pub fn bound(&self, at: usize) -> &[u8] {
        self.keys.get(at)
    }

    /// Returns the number of bounds at or before `key`.
    pub fn passed(&self, order: &KeyOrder, key: &[u8]) -> usize {
        let (mut lo, mut hi) = (0, self.bounds());
        while lo < hi {
            let middle = lo + (hi - lo) / 2;
            if order.compare(self.bound(middle), key).is_gt() {
                hi = middle;
            } else {
                lo = middle + 1;
            }
        }
        lo
    }

    /// Returns whether a range covers a key with `passed` bounds at or before it.
    #[inline]
    pub fn is_covered_at(&self, passed: usize) -> bool {
        self.open.is_open(passed)
    }

    /// Returns the newest tombstone, visible at `seqno`, over a key with `passed` bounds at or
    /// before it.
    pub fn newest_at(&self, passed: usize, seqno: SeqNo) -> Option<SeqNo> {
        let seen = if self.seqno_max() <= seqno {
            self.seqnos.len()
        } else {
            self.seqnos.partition_point(|&s| s <= seqno)
        };
        self.open.find(passed, seen).map(|rank| self.seqnos[rank])
    }

    /// Returns the newest tombstone over `key` that is visible at `seqno`.
    pub fn covering(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        if self.is_empty() {
            return None;
        }
        self.newest_at(self.passed(order, key), seqno)
    }

    /// Returns the newest tombstone over `key` that is visible at `seqno`, and the interval around
    /// `key` with the same answer.
    pub fn covered(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Covered<'_> {
        let passed = self.passed(order, key);
        Covered {
            newest: self.newest_at(passed, seqno),
            from: passed.checked_sub(1).map(|at| self.bound(at)),
            to: (passed < self.bounds()).then(|| self.bound(passed)),
        }
    }

    /// Returns the tombstones that some reader needs, ordered by start key. A tombstone is omitted
    /// where a newer one covers it and no reader sees only the older one. Readers are those at
    /// `snapshots` (ascending) and those of the newest state. Without snapshots the result has only
    /// the newest tombstone over each key. Adjacent ranges with the same sequence number are
    /// merged. The result has less than twice as many tombstones as the set has ranges.
    pub fn to_tombstones_seen(&self, order: &KeyOrder, snapshots: &[SeqNo]) -> Vec<RangeDelete> {
        let mut seen = VisibilitySweep::new(self, snapshots);
        let mut bounds: Vec<wavelet::Bound> = vec![0; self.bounds()];
        for (rank, span) in (0..).zip(&self.spans) {
            bounds[span[0] as usize] = 2 * rank;
            bounds[span[1] as usize] = 2 * rank + 1;
        }
        let mut at = 0;
        while at < bounds.len() {
            let same = |next: &usize| order.compare(self.bound(at), self.bound(*next)).is_eq();
            let end =
                (at + 1..bounds.len()).take_while(same).last().map_or(at + 1, |last| last + 1);
            seen.pass(at as u32, &bounds[at..end]);
            at = end;
        }
        let mut pieces = seen.pieces;
        pieces.sort_unstable_by_key(|&(start, _, seqno)| (start, Reverse(seqno)));
        let key = |at: u32| self.bound(at as usize).to_vec();
        let piece = |(start, end, seqno)| RangeDelete { start: key(start), end: key(end), seqno };
        pieces.into_iter().map(piece).collect()
    }
}

/// A sweep over the bounds in key order that reduces the ranges to their visible parts. Ranges
/// without a snapshot between them form a group. Each group keeps only its newest range over each
/// key.
struct VisibilitySweep<'a> {
    set: &'a RangeDeletes,
    /// The first rank of each group, followed by the number of ranges.
    groups: Vec<u32>,
    /// The newest open range of each group, and its start bound in the output.
    newest: Vec<Option<(SeqNo, u32)>>,
    /// The ranks of the open ranges.
    open: BTreeSet<u32>,
    /// The output: start bound, end bound and sequence number of each part.
    pieces: Vec<(u32, u32, SeqNo)>,
}

impl<'a> VisibilitySweep<'a> {
    fn new(set: &'a RangeDeletes, snapshots: &[SeqNo]) -> VisibilitySweep<'a> {
        let mut groups: Vec<u32> = snapshots
            .iter()
            .map(|&snapshot| set.seqnos.partition_point(|&seqno| seqno <= snapshot) as u32)
            .chain([0, set.len() as u32])
            .collect();
        groups.sort_unstable();
        groups.dedup();
        let newest = vec![None; groups.len()];
        VisibilitySweep { set, groups, newest, open: BTreeSet::new(), pieces: Vec::new() }
    }

    /// Processes `bounds`, which all have the same key. The first one is bound number `at`.
    fn pass(&mut self, at: u32, bounds: &[wavelet::Bound]) {
        for &bound in bounds {
            if bound % 2 == 0 {
                self.open.insert(bound / 2);
            } else {
                self.open.remove(&(bound / 2));
            }
        }
        for &bound in bounds {
            let after = self.groups.partition_point(|&first| first <= bound / 2);
            let ranks = self.groups[after - 1]..self.groups[after];
            let newest = self.open.range(ranks).next_back();
            let newest = newest.map(|&rank| self.set.seqnos[rank as usize]);
            let before = self.newest[after - 1];
            if before.map(|(seqno, _)| seqno) != newest {
                if let Some((seqno, start)) = before {
                    self.pieces.push((start, at, seqno));
                }
                self.newest[after - 1] = newest.map(|seqno| (seqno, at));
            }
        }
    }
}
