//! Range tombstones of a memtable, with additions between reads.
//!
//! The tombstones lie in a list of sets, each more than twice as large as the next (the logarithmic
//! method of Bentley and Saxe, 1980). A read merges the tombstones added since the last read,
//! together with the smaller sets, into a new set. So n additions with a read after each take O(n
//! log² n) time in total, and a read queries at most log2(n) sets.

use std::sync::Arc;

use super::{RangeDeleteRef, RangeDeletes, RangeDeletesBuilder};
use crate::base::order::KeyOrder;

/// A growing collection of range tombstones.
#[derive(Debug, Default)]
pub struct RecentRangeDeletes {
    /// The sets, the largest first, which is also the oldest.
    sets: Vec<Arc<RangeDeletes>>,
    /// The tombstones that are not in a set yet.
    pending: RangeDeletesBuilder,
}

impl RecentRangeDeletes {
    /// Adds a range tombstone.
    pub fn push(&mut self, delete: RangeDeleteRef<'_>) {
        self.pending.push(delete);
    }

    /// Returns sets that contain all added tombstones, the newest set last.
    pub fn settle(&mut self, order: &KeyOrder) -> &[Arc<RangeDeletes>] {
        if !self.pending.is_empty() {
            let pending = self.pending.len();
            let stays = |at: &usize| self.sets[*at].len() > 2 * (pending + self.len_from(at + 1));
            let keep = (0..self.sets.len()).rev().find(stays).map_or(0, |at| at + 1);
            self.merge_from(keep, order);
        }
        &self.sets
    }

    /// Returns one set of all added tombstones.
    pub fn merge(&mut self, order: &KeyOrder) -> &Arc<RangeDeletes> {
        if self.sets.len() != 1 || !self.pending.is_empty() {
            self.merge_from(0, order);
        }
        &self.sets[0]
    }

    fn len_from(&self, at: usize) -> usize {
        self.sets[at..].iter().map(|set| set.len()).sum()
    }

    /// Merges the pending tombstones and all sets except the first `keep` into one set. The state
    /// changes only after the last comparison, because a user-defined key order may panic.
    fn merge_from(&mut self, keep: usize, order: &KeyOrder) {
        let mut builder = self.pending.clone();
        for set in &self.sets[keep..] {
            set.iter().for_each(|delete| builder.push(delete));
        }
        let merged = Arc::new(builder.build(order));
        self.pending = RangeDeletesBuilder::default();
        self.sets.truncate(keep);
        self.sets.push(merged);
    }
}
