//! Range tombstones that are added while they are read.
//!
//! The sets of what was added are each more than twice as large as the next (Bentley and Saxe's
//! logarithmic method, 1980). What was added since the last reader becomes a set, together with the
//! smaller ones, when the next reader comes. So n additions with a reader after each cost
//! O(n log² n) together, and a reader asks log2(n) sets at most.

use std::sync::Arc;

use super::{RangeDeleteRef, RangeDeletes, RangeDeletesBuilder};
use crate::base::order::KeyOrder;

/// Range tombstones in the order in which they came.
#[derive(Debug, Default)]
pub struct RecentRangeDeletes {
    /// The largest first, which is the oldest.
    sets: Vec<Arc<RangeDeletes>>,
    /// What is in no set yet.
    pending: RangeDeletesBuilder,
}

impl RecentRangeDeletes {
    /// Adds a range tombstone.
    pub fn push(&mut self, delete: RangeDeleteRef<'_>) {
        self.pending.push(delete);
    }

    /// Sets of all that was added, the newest last.
    pub fn settle(&mut self, order: &KeyOrder) -> &[Arc<RangeDeletes>] {
        if !self.pending.is_empty() {
            let pending = self.pending.len();
            let stays = |at: &usize| self.sets[*at].len() > 2 * (pending + self.len_from(at + 1));
            let keep = (0..self.sets.len()).rev().find(stays).map_or(0, |at| at + 1);
            self.merge_from(keep, order);
        }
        &self.sets
    }

    /// One set of all that was added.
    pub fn merge(&mut self, order: &KeyOrder) -> &Arc<RangeDeletes> {
        if self.sets.len() != 1 || !self.pending.is_empty() {
            self.merge_from(0, order);
        }
        &self.sets[0]
    }

    fn len_from(&self, at: usize) -> usize {
        self.sets[at..].iter().map(|set| set.len()).sum()
    }

    /// Puts what is in no set yet, and all sets but the first `keep`, into one. All of it stays where
    /// it is until the last comparison is made, which may panic in a key order of the user's.
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
