//! Range tombstones: `[start, end)` deleted at a sequence number, in sets that answer which is the
//! newest over a key that a reader sees.
//!
//! The question has two dimensions, key and sequence number: a reader at a snapshot must not see the
//! tombstones that are newer. A set keeps the bounds of its ranges in key order and finds the key
//! among them by a binary search. A wavelet tree (`wavelet.rs`) over the bounds finds the newest range
//! that is open there. With n ranges a set is built in O(n log n), answers in O(log n), and takes
//! [`RANGE_BYTES`] a range at most besides the keys, however the ranges overlap.
//!
//! What stays true: a set never changes. Ranges that are empty or inverted are not in it.

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

/// The most bytes that a set takes for a range, the bytes of its two keys not counted, for up to
/// 2^31 ranges.
pub const RANGE_BYTES: usize = 64;

/// One call of `delete_range`: every key in `[start, end)` older than `seqno` is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeDelete {
    /// The first key deleted.
    pub start: Vec<u8>,
    /// The first key not deleted.
    pub end: Vec<u8>,
    /// When.
    pub seqno: SeqNo,
}

/// A range tombstone that lies elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeDeleteRef<'a> {
    /// The first key deleted.
    pub start: &'a [u8],
    /// The first key not deleted.
    pub end: &'a [u8],
    /// When.
    pub seqno: SeqNo,
}

impl RangeDelete {
    /// The same, borrowed.
    pub fn borrow(&self) -> RangeDeleteRef<'_> {
        RangeDeleteRef { start: &self.start, end: &self.end, seqno: self.seqno }
    }
}

impl<'a> RangeDeleteRef<'a> {
    /// The same, copied.
    pub fn to_owned(self) -> RangeDelete {
        RangeDelete { start: self.start.to_vec(), end: self.end.to_vec(), seqno: self.seqno }
    }

    /// What of it lies in `[lo, hi)`; `None` bounds are infinite. `None` when nothing is left.
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

/// Keys one behind the other.
#[derive(Debug, Clone, Default)]
struct Keys {
    bytes: Vec<u8>,
    /// Where each key ends.
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

/// Range tombstones on their way into a set.
#[derive(Debug, Default, Clone)]
pub struct RangeDeletesBuilder {
    /// Start and end of each.
    keys: Keys,
    seqnos: Vec<SeqNo>,
}

impl RangeDeletesBuilder {
    /// Adds a range tombstone, in any order.
    pub fn push(&mut self, delete: RangeDeleteRef<'_>) {
        self.keys.push(delete.start);
        self.keys.push(delete.end);
        self.seqnos.push(delete.seqno);
    }

    /// How many were added.
    pub fn len(&self) -> usize {
        self.seqnos.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.seqnos.is_empty()
    }

    /// The set of them.
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

/// A set of range tombstones.
#[derive(Debug, Clone, Default)]
pub struct RangeDeletes {
    /// The bounds, in key order.
    keys: Keys,
    /// Of each range, by its rank in the order of sequence numbers, which bounds are its own.
    spans: Vec<[u32; 2]>,
    /// The ranges' sequence numbers, ascending.
    seqnos: Vec<SeqNo>,
    /// Which ranges are open between which bounds.
    open: WaveletTree,
}

/// What covers a key, and the keys around it that the same covers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Covered<'a> {
    /// The newest tombstone that the reader sees.
    pub newest: Option<SeqNo>,
    /// The first of those keys; `None` is the beginning.
    pub from: Option<&'a [u8]>,
    /// The first key behind them; `None` is the end.
    pub to: Option<&'a [u8]>,
}

impl RangeDeletes {
    /// The set of `deletes`.
    pub fn build(order: &KeyOrder, deletes: &[RangeDelete]) -> RangeDeletes {
        let mut builder = RangeDeletesBuilder::default();
        deletes.iter().for_each(|delete| builder.push(delete.borrow()));
        builder.build(order)
    }

    /// Whether nothing is covered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.seqnos.is_empty()
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.seqnos.len()
    }

    /// Bytes of memory, the keys' own among them.
    pub fn memory_bytes(&self) -> usize {
        self.keys.bytes.capacity()
            + self.keys.ends.capacity() * size_of::<u64>()
            + self.spans.capacity() * size_of::<[u32; 2]>()
            + self.seqnos.capacity() * size_of::<SeqNo>()
            + self.open.memory_bytes()
    }

    /// The greatest sequence number; 0 in an empty set.
    #[inline]
    pub fn seqno_max(&self) -> SeqNo {
        self.seqnos.last().copied().unwrap_or(0)
    }

    /// Every range, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = RangeDeleteRef<'_>> {
        self.spans.iter().zip(&self.seqnos).map(|(&[start, end], &seqno)| RangeDeleteRef {
            start: self.keys.get(start as usize),
            end: self.keys.get(end as usize),
            seqno,
        })
    }

    /// The first bound and the last, between which all that is covered lies.
    pub fn extent(&self) -> Option<(&[u8], &[u8])> {
        let last = self.bounds().checked_sub(1)?;
        Some((self.keys.get(0), self.keys.get(last)))
    }

    /// How many bounds there are.
    pub fn bounds(&self) -> usize {
        self.keys.ends.len()
    }

    /// Bound `at` in key order.
    #[inline]
    pub fn bound(&self, at: usize) -> &[u8] {
        self.keys.get(at)
    }

    /// How many bounds are at or before `key`.
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

    /// Whether anything covers a key that has passed so many bounds.
    #[inline]
    pub fn is_covered_at(&self, passed: usize) -> bool {
        self.open.is_open(passed)
    }

    /// The newest tombstone over a key that has passed so many bounds which a reader at `seqno` sees.
    pub fn newest_at(&self, passed: usize, seqno: SeqNo) -> Option<SeqNo> {
        let seen = if self.seqno_max() <= seqno {
            self.seqnos.len()
        } else {
            self.seqnos.partition_point(|&s| s <= seqno)
        };
        self.open.find(passed, seen).map(|rank| self.seqnos[rank])
    }

    /// The newest tombstone over `key` that a reader at `seqno` sees.
    pub fn covering(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        if self.is_empty() {
            return None;
        }
        self.newest_at(self.passed(order, key), seqno)
    }

    /// The same, and for which keys around `key` it is true.
    pub fn covered(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Covered<'_> {
        let passed = self.passed(order, key);
        Covered {
            newest: self.newest_at(passed, seqno),
            from: passed.checked_sub(1).map(|at| self.bound(at)),
            to: (passed < self.bounds()).then(|| self.bound(passed)),
        }
    }

    /// The tombstones that some reader can tell from the newer ones over them, in the order of their
    /// first keys: `snapshots` (ascending) are the sequence numbers still read, besides the newest
    /// state. Without snapshots that is the newest over each key. What lies next to each other with
    /// one sequence number is one. They are less than twice as many as the ranges.
    pub fn to_tombstones_seen(&self, order: &KeyOrder, snapshots: &[SeqNo]) -> Vec<RangeDelete> {
        let mut seen = Seen::new(self, snapshots);
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

/// A walk over the bounds in key order that cuts the ranges to what readers see of them: of the
/// ranges that no snapshot lies between, the newest over each key.
struct Seen<'a> {
    set: &'a RangeDeletes,
    /// The first rank of each group of ranges that no snapshot lies between, and behind the last.
    groups: Vec<u32>,
    /// Of each group the newest range that is open, and the bound from which on it is.
    newest: Vec<Option<(SeqNo, u32)>>,
    /// The ranks of the ranges that are open.
    open: BTreeSet<u32>,
    /// First bound, last bound and sequence number of what was cut off.
    pieces: Vec<(u32, u32, SeqNo)>,
}

impl<'a> Seen<'a> {
    fn new(set: &'a RangeDeletes, snapshots: &[SeqNo]) -> Seen<'a> {
        let mut groups: Vec<u32> = snapshots
            .iter()
            .map(|&snapshot| set.seqnos.partition_point(|&seqno| seqno <= snapshot) as u32)
            .chain([0, set.len() as u32])
            .collect();
        groups.sort_unstable();
        groups.dedup();
        let newest = vec![None; groups.len()];
        Seen { set, groups, newest, open: BTreeSet::new(), pieces: Vec::new() }
    }

    /// Passes `bounds`, which are of one key; the first is bound `at`.
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
