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
    /// The fragment the range tombstones were last looked up at: how many end at or before `key`.
    at: usize,
}

impl Retain {
    /// For a rewrite whose inputs hold `range_deletes`, while readers hold `snapshots` (ascending;
    /// the newest state is always kept too).
    pub fn new(order: KeyOrder, snapshots: Vec<SeqNo>, range_deletes: Arc<RangeDeletes>) -> Retain {
        Retain { order, snapshots, range_deletes, key: Vec::new(), stripe: None, at: 0 }
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
        let covering = self.find_fragment();
        if let Some(seqnos) = covering {
            // The newest tombstone of this stripe or an older one.
            if seqnos.iter().any(|&deleted| deleted <= top && deleted > seqno) {
                return Decision::Drop;
            }
        }
        match kind {
            Kind::Delete if bottom && stripe == 0 => Decision::Drop,
            // Under a tombstone that stays, even an older one, it must remain the newer.
            Kind::Put if bottom && stripe == 0 && covering.is_none() => Decision::KeepWithSeqnoZero,
            _ => Decision::Keep,
        }
    }

    /// The sequence numbers of the range tombstones over `self.key`. Keys come in order, so the
    /// fragments are walked along with them.
    fn find_fragment(&mut self) -> Option<&[SeqNo]> {
        let fragments = self.range_deletes.fragments();
        while let Some(fragment) = fragments.get(self.at) {
            if self.order.compare(&fragment.end, &self.key) == Ordering::Greater {
                let started = self.order.compare(&fragment.start, &self.key) != Ordering::Greater;
                return started.then_some(fragment.seqnos.as_slice());
            }
            self.at += 1;
        }
        None
    }

    /// Whether a range tombstone has to be written again. `bottom` says that nothing beneath the
    /// inputs lies in its range.
    pub fn keep_range_delete(&self, seqno: SeqNo, bottom: bool) -> bool {
        !(bottom && self.stripe_of(seqno) == 0)
    }
}
