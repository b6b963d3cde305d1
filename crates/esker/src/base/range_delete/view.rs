//! The combined range tombstones of all sources of an iterator.
//!
//! Creating an iterator copies and merges no tombstones. The iterator shares the sets of the
//! memtables and tables.

use std::sync::Arc;

use super::{Covered, RangeDeletes};
use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;

/// A set, restricted to the key range of a slice of its table.
#[derive(Debug)]
struct Slice {
    /// The interval `[start, end)` of keys within the slice that the set may cover.
    extent: (Vec<u8>, Vec<u8>),
    set: Arc<RangeDeletes>,
}

/// A sequence of sets with disjoint key ranges, in key order.
#[derive(Debug, Default)]
pub struct RangeDeleteRun {
    slices: Vec<Slice>,
}

/// A set and its visible key range `[lo, hi)`. A bound of `None` is infinite.
pub type RestrictedSet<'a> = (&'a Arc<RangeDeletes>, Option<&'a [u8]>, Option<&'a [u8]>);

impl RangeDeleteRun {
    /// Arranges the sets of `shown` in the minimum number of runs.
    pub fn new_runs<'a>(
        order: &KeyOrder,
        shown: impl Iterator<Item = RestrictedSet<'a>>,
    ) -> Vec<RangeDeleteRun> {
        let mut slices: Vec<Slice> = shown.filter_map(|shown| Slice::new(order, shown)).collect();
        slices.sort_by(|a, b| order.compare(&a.extent.0, &b.extent.0));
        let mut runs: Vec<RangeDeleteRun> = Vec::new();
        for slice in slices {
            let is_free = |run: &&mut RangeDeleteRun| {
                let last = run.slices.last();
                last.is_none_or(|last| order.compare(&last.extent.1, &slice.extent.0).is_le())
            };
            match runs.iter_mut().find(is_free) {
                Some(run) => run.slices.push(slice),
                None => runs.push(RangeDeleteRun { slices: vec![slice] }),
            }
        }
        runs
    }

    fn covered(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Covered<'_> {
        let ended = |slice: &Slice| order.compare(&slice.extent.1, key).is_le();
        let at = self.slices.partition_point(ended);
        let before = at.checked_sub(1).map(|at| self.slices[at].extent.1.as_slice());
        let Some(slice) = self.slices.get(at) else {
            return Covered { newest: None, from: before, to: None };
        };
        let (lo, hi) = (slice.extent.0.as_slice(), slice.extent.1.as_slice());
        if order.compare(key, lo).is_lt() {
            return Covered { newest: None, from: before, to: Some(lo) };
        }
        let whole = Covered { newest: None, from: Some(lo), to: Some(hi) };
        whole.and(order, slice.set.covered(order, key, seqno))
    }
}

impl Slice {
    /// Returns `None` if no covered key is visible.
    fn new(order: &KeyOrder, (set, lo, hi): RestrictedSet<'_>) -> Option<Slice> {
        let (start, end) = set.extent()?;
        let all = super::RangeDeleteRef { start, end, seqno: 0 }.clamp(order, lo, hi)?.to_owned();
        Some(Slice { extent: (all.start, all.end), set: Arc::clone(set) })
    }
}

impl<'a> Covered<'a> {
    /// Combines two answers for the same key: the newest tombstone and the common interval.
    fn and(self, order: &KeyOrder, other: Covered<'a>) -> Covered<'a> {
        let by_order = |a: &&[u8], b: &&[u8]| order.compare(a, b);
        Covered {
            newest: self.newest.max(other.newest),
            from: self.from.into_iter().chain(other.from).max_by(by_order),
            to: self.to.into_iter().chain(other.to).min_by(by_order),
        }
    }
}

/// All range tombstones of a read state.
#[derive(Debug, Clone, Default)]
pub struct RangeDeleteView {
    /// Sets with unrestricted key range.
    sets: Vec<Arc<RangeDeletes>>,
    runs: Option<Arc<[RangeDeleteRun]>>,
}

impl RangeDeleteView {
    /// Creates a view of `sets`, with unrestricted key range, and `runs`. Returns `None` if both
    /// are absent.
    pub fn new(
        sets: Vec<Arc<RangeDeletes>>,
        runs: Option<Arc<[RangeDeleteRun]>>,
    ) -> Option<Box<RangeDeleteView>> {
        (!sets.is_empty() || runs.is_some()).then(|| Box::new(RangeDeleteView { sets, runs }))
    }

    /// Returns the newest tombstone over `key` that is visible at `seqno`, and an interval around
    /// `key` with the same answer.
    pub fn covered(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Covered<'_> {
        let sets = self.sets.iter().map(|set| set.covered(order, key, seqno));
        let runs =
            self.runs.iter().flat_map(|runs| runs.iter()).map(|run| run.covered(order, key, seqno));
        sets.chain(runs).fold(Covered::default(), |all, one| all.and(order, one))
    }
}
