//! What a rewrite may drop.
//!
//! Snapshots cut the sequence numbers into stripes: no reader can tell two numbers of one stripe
//! apart. The oldest stripe is what every snapshot sees (all numbers, when there are none).
//!
//! What stays true for every reader, at any snapshot or at none: the key it looks for has the same
//! value, or none, after the rewrite as before.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{copy_into, same_key};
use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeletes;

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Written as it is.
    Keep,
    /// Written with sequence number 0: it is the oldest of its key, and every reader sees it.
    KeepWithSeqnoZero,
    /// Not written.
    Drop,
}

/// Decides entry by entry, in internal order, over one rewrite.
pub struct Retain {
    order: KeyOrder,
    /// Ascending.
    snapshots: Vec<SeqNo>,
    range_deletes: Arc<RangeDeletes>,
    /// The key of the entry before; with `stripe`, what shadows the next one.
    key: Vec<u8>,
    /// The stripe of the entry before; `None` before the first.
    stripe: Option<usize>,
    /// How many bounds of range tombstones are at or before `key`.
    passed: usize,
    /// What was found there last: for whom, and what.
    covering: Option<(usize, SeqNo, Option<SeqNo>)>,
}

impl Retain {
    /// For a rewrite whose inputs hold `range_deletes`, while readers hold `snapshots` (ascending;
    /// the newest state is always kept too).
    pub fn new(order: KeyOrder, snapshots: Vec<SeqNo>, range_deletes: Arc<RangeDeletes>) -> Retain {
        let (key, stripe) = (Vec::new(), None);
        Retain { order, snapshots, range_deletes, key, stripe, passed: 0, covering: None }
    }

    /// How many snapshots are older than `seqno`: 0 is the oldest stripe.
    fn stripe_of(&self, seqno: SeqNo) -> usize {
        self.snapshots.partition_point(|&snapshot| snapshot < seqno)
    }

    /// What becomes of the entry. Entries must come in internal order, every one of the inputs.
    ///
    /// `bottom` says that nothing beneath the inputs, neither entry nor range tombstone, concerns
    /// this key.
    pub fn decide(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, bottom: bool) -> Decision {
        let stripe = self.stripe_of(seqno);
        let known = self.stripe.is_some() && same_key(&self.order, key, &self.key);
        if known && self.stripe == Some(stripe) {
            return Decision::Drop;
        }
        if !known {
            copy_into(&mut self.key, key);
        }
        self.stripe = Some(stripe);
        let top = self.snapshots.get(stripe).copied().unwrap_or(SEQNO_MAX);
        if !known {
            self.pass_bounds();
        }
        // The newest tombstone of this stripe or an older one.
        if self.covering(top).is_some_and(|deleted| deleted > seqno) {
            return Decision::Drop;
        }
        match kind {
            Kind::Delete if bottom && stripe == 0 => Decision::Drop,
            // Under a tombstone that stays, even an older one, it must remain the newer.
            Kind::Put
                if bottom && stripe == 0 && !self.range_deletes.is_covered_at(self.passed) =>
            {
                Decision::KeepWithSeqnoZero
            }
            _ => Decision::Keep,
        }
    }

    /// Goes on to the range tombstones over `self.key`. Keys come in order, so the bounds are walked
    /// along with them.
    fn pass_bounds(&mut self) {
        let deletes = &self.range_deletes;
        while self.passed < deletes.bounds()
            && self.order.compare(deletes.bound(self.passed), &self.key) != Ordering::Greater
        {
            self.passed += 1;
        }
    }

    /// The newest range tombstone over `self.key` up to `top`.
    fn covering(&mut self, top: SeqNo) -> Option<SeqNo> {
        match self.covering {
            Some((passed, last, newest)) if (passed, last) == (self.passed, top) => newest,
            _ => {
                let newest = self.range_deletes.newest_at(self.passed, top);
                self.covering = Some((self.passed, top, newest));
                newest
            }
        }
    }

    /// Whether a range tombstone has to be written again. `bottom` says that nothing beneath the
    /// inputs lies in its range.
    pub fn keep_range_delete(&self, seqno: SeqNo, bottom: bool) -> bool {
        !(bottom && self.stripe_of(seqno) == 0)
    }
}
