//! Reports of empty key ranges. A seek that has stepped over many deleted keys or expired pairs knows
//! that nothing is visible between its start and its end. The store makes that an empty-range hint
//! ([`crate::iter::hints`]), so that the next seek does not step over the same keys. A queue that is
//! popped by a seek to its first key meets every popped key otherwise.
//!
//! Invariants: a report holds for the sequence number in it. The read state of the seek holds
//! everything up to this number, and the seek used no hint with a greater one. The store drops the
//! report if anything was committed after this number.

use std::ops::Bound;
use std::sync::Arc;

use super::DbIterator;
use crate::base::key::SeqNo;
use crate::iter::hints::{BOUND_BYTES_MAX, Edge, Hint};

/// Number of keys stepped over by a seek from which on the thresholds decide about a report.
pub(super) const WALK_MIN: u64 = 4;

impl DbIterator {
    /// Lets the iterator report empty ranges. Its read state holds everything up to `seqno`.
    pub(crate) fn report_empty_ranges(&mut self, seqno: SeqNo) {
        self.complete_at = Some(seqno);
    }

    /// Reports that no key is visible between the start of a seek, which is `key` or a bound, and
    /// the key that it found.
    #[cold]
    pub(super) fn report_empty_range(&self, key: Option<&[u8]>, forward: bool) {
        let walk = self.cursor.walk();
        let worth = walk.dead >= self.cursor.tables().thresholds().walk_reported_min;
        let Some(since) = self.complete_at.filter(|_| worth) else { return };
        let bound = if forward { &self.bounds.0 } else { &self.bounds.1 };
        let start = key.or(match bound {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) => Some(key.as_slice()),
        });
        let found = self.cursor.valid().then(|| self.cursor.key());
        if [start, found].into_iter().flatten().any(|key| key.len() > BOUND_BYTES_MAX) {
            return;
        }
        let edge = |key: Option<&[u8]>| -> Edge { key.map(Arc::from) };
        let (after, before) = if forward { (start, found) } else { (found, start) };
        let dead = walk.dead + self.cursor.skipped_by_hints();
        // Expired pairs are invisible from some time on that is not after this reader's.
        let from_ms = if walk.has_expired { self.cursor.at_ms() } else { 0 };
        let mut hint = Hint::new(edge(after), edge(before), since, dead);
        hint.from_ms = from_ms;
        self.cursor.tables().report_empty_range(hint, forward);
    }
}
