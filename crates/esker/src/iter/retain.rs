//! Decides which entries a rewrite may drop.
//!
//! Snapshots divide the sequence numbers into stripes. No reader can distinguish two numbers of one
//! stripe. Every snapshot sees the oldest stripe, which holds all numbers if there are no
//! snapshots.
//!
//! A put or a tombstone hides the older entries of its stripe. A merge operand does not: its value
//! depends on them.
//!
//! Invariant: for every reader, with or without a snapshot, each key has the same value, or none,
//! before and after the rewrite.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{copy_into, same_key};
use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeletes;

/// The decision about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The entry is written unchanged.
    Keep,
    /// The entry is written with sequence number 0. It is the oldest version of its key, and every
    /// reader sees it.
    KeepWithSeqnoZero,
    /// The entry is not written.
    Drop,
}

/// Decides about the entries of one rewrite, in internal order.
pub struct Retain {
    order: KeyOrder,
    /// Snapshots in ascending order.
    snapshots: Vec<SeqNo>,
    range_deletes: Arc<RangeDeletes>,
    /// Key of the previous entry. With `stripe`, it determines whether the next entry is shadowed.
    key: Vec<u8>,
    /// Stripe of the previous entry. `None` before the first one.
    stripe: Option<usize>,
    /// Whether the previous entry is a merge operand, so that it hides nothing.
    open: bool,
    /// Number of range tombstone bounds at or before `key`.
    passed: usize,
    /// Last lookup: the value of `passed`, the limit, and the tombstone found.
    covering: Option<(usize, SeqNo, Option<SeqNo>)>,
}

impl Retain {
    /// Creates the decider of a rewrite whose inputs hold `range_deletes`. `snapshots` are the live
    /// snapshots in ascending order. The newest state is always kept as well.
    pub fn new(order: KeyOrder, snapshots: Vec<SeqNo>, range_deletes: Arc<RangeDeletes>) -> Retain {
        let (key, stripe) = (Vec::new(), None);
        let (open, passed, covering) = (false, 0, None);
        Retain { order, snapshots, range_deletes, key, stripe, open, passed, covering }
    }

    /// Returns the number of snapshots older than `seqno`. Stripe 0 is the oldest.
    pub(super) fn stripe_of(&self, seqno: SeqNo) -> usize {
        self.snapshots.partition_point(|&snapshot| snapshot < seqno)
    }

    /// Decides about an entry. The caller must pass every entry of the inputs, in internal order.
    ///
    /// `bottom` says that no entry and no range tombstone below the inputs concerns this key.
    pub fn decide(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, bottom: bool) -> Decision {
        let stripe = self.stripe_of(seqno);
        let known = self.stripe.is_some() && same_key(&self.order, key, &self.key);
        if known && self.stripe == Some(stripe) && !self.open {
            return Decision::Drop;
        }
        self.open = kind == Kind::Merge;
        if !known {
            copy_into(&mut self.key, key);
        }
        self.stripe = Some(stripe);
        let top = self.snapshots.get(stripe).copied().unwrap_or(SEQNO_MAX);
        if !known {
            self.pass_bounds();
        }
        // Newest range tombstone of this stripe or of an older one.
        if self.covering(top).is_some_and(|deleted| deleted > seqno) {
            return Decision::Drop;
        }
        match kind {
            Kind::Delete if bottom && stripe == 0 => Decision::Drop,
            Kind::Put | Kind::PutExpiring | Kind::PutSeparated
                if self.may_be_zero(stripe, bottom) =>
            {
                Decision::KeepWithSeqnoZero
            }
            _ => Decision::Keep,
        }
    }

    /// Returns whether a put of the last key may get sequence number 0. `bottom` is that of
    /// [`Retain::decide`]. Below a range tombstone that stays, even an older one, the entry must
    /// keep its newer number.
    pub(super) fn may_be_zero(&self, stripe: usize, bottom: bool) -> bool {
        bottom && stripe == 0 && !self.range_deletes.is_covered_at(self.passed)
    }

    /// Returns whether a range tombstone hides from the readers of `stripe` everything that is
    /// older than the entries of the last key that were kept. `next` is the number of the next
    /// entry of the key in the inputs. Versions below the inputs are older than every tombstone
    /// over the key.
    pub(super) fn is_cut_below(&mut self, stripe: usize, next: Option<SeqNo>) -> bool {
        let top = self.snapshots.get(stripe).copied().unwrap_or(SEQNO_MAX);
        self.covering(top).is_some_and(|deleted| next.is_none_or(|next| deleted > next))
    }

    /// Advances to the range tombstones over `self.key`. Keys arrive in order, so the bounds
    /// advance with them.
    fn pass_bounds(&mut self) {
        let deletes = &self.range_deletes;
        while self.passed < deletes.bounds()
            && self.order.compare(deletes.bound(self.passed), &self.key) != Ordering::Greater
        {
            self.passed += 1;
        }
    }

    /// Returns the newest range tombstone over `self.key` with a number up to `top`.
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

    /// Returns whether a range tombstone must be written again. `bottom` says that nothing below
    /// the inputs lies in its range.
    pub fn keep_range_delete(&self, seqno: SeqNo, bottom: bool) -> bool {
        !(bottom && self.stripe_of(seqno) == 0)
    }
}
