//! A cursor over a snapshot with a transaction's own writes over it.
//!
//! The cursor has two sides: an iterator over the snapshot (the base), and the next own write in
//! the direction of the last move. Where both have the same key, the own write counts. The own
//! writes may change while the cursor is in use. It notices that by [`Shared::changes`] and looks
//! for the next own write again, so it returns writes that were made ahead of it.
//!
//! A serializable optimistic transaction must know what the cursor has passed. A seek opens a
//! *visit* in its reads: the range from the place of the seek to the bound in the direction of the
//! moves. The end of the visit, at a turn, a further seek or the end of the cursor, shortens the
//! range to what was passed. A commit that comes before that end checks the whole range.
//!
//! Invariants:
//! 1. On a base pair, the base stands on it, and `own` is the first own write after it.
//! 2. On an own pair, `own` is that pair, and the base stands on the first pair at or after it.
//! 3. "After" is in the direction of the last move.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use super::pending::Pending;
use super::state::Shared;
use super::target::{OwnKeyspace, Target};
use crate::base::expiry::Moment;
use crate::base::keyspace::{KeyspaceId, StoredKey, TreeId, stored_bounds};
use crate::base::order::KeyOrder;
use crate::db::tree::InKeyspace;
use crate::error::Result;
use crate::read::scan::{DbIterator, KeyBounds, is_within};
use crate::txn::item::KeyRange;

/// Where a cursor stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// On no pair.
    Nowhere,
    /// On the pair of the base.
    Base,
    /// On the own write.
    Own,
}

/// An own write: a value, or `None` for a tombstone.
struct OwnWrite {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// The side with the next pair.
enum Next {
    Nothing,
    Base,
    Own,
    Both,
}

/// A cursor over a snapshot and the own writes of a transaction in one keyspace.
pub(super) struct MergedCursor {
    shared: Arc<Shared>,
    keyspace: KeyspaceId,
    /// `None`: the default keyspace.
    place: Option<OwnKeyspace>,
    /// The moment of the snapshot.
    moment: Moment,
    tree: TreeId,
    order: KeyOrder,
    bounds: KeyBounds,
    base: DbIterator,
    at: At,
    forward: bool,
    own: Option<OwnWrite>,
    /// Number of changes of the own writes at the last look at them.
    changes: u64,
    has_deleted_ranges: bool,
    /// Whether the transaction must know what the cursor passes.
    is_tracked: bool,
    /// The open visit: its place among the ranges that were read.
    visit: Option<usize>,
}

impl MergedCursor {
    /// Creates a cursor without a position, over the pairs of the snapshot `moment` within
    /// `bounds`.
    pub fn new(
        shared: &Arc<Shared>,
        target: &Target<'_>,
        bounds: KeyBounds,
        (moment, is_tracked): (Moment, bool),
    ) -> Result<MergedCursor> {
        Ok(MergedCursor {
            base: target.iter_at(bounds.clone(), moment)?,
            shared: shared.clone(),
            keyspace: target.id(),
            place: target.to_own(),
            moment,
            tree: target.tree_id(),
            order: target.order().clone(),
            bounds,
            at: At::Nowhere,
            forward: true,
            own: None,
            changes: 0,
            has_deleted_ranges: false,
            is_tracked,
            visit: None,
        })
    }

    /// Returns a cursor without a position over the same snapshot.
    pub fn again(&self) -> Result<MergedCursor> {
        Ok(MergedCursor {
            base: self.base.again()?,
            shared: self.shared.clone(),
            keyspace: self.keyspace,
            place: self.place.clone(),
            moment: self.moment,
            tree: self.tree,
            order: self.order.clone(),
            bounds: self.bounds.clone(),
            at: At::Nowhere,
            forward: true,
            own: None,
            changes: 0,
            has_deleted_ranges: false,
            is_tracked: self.is_tracked,
            visit: None,
        })
    }

    /// Returns whether the cursor stands on a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at != At::Nowhere
    }

    /// Returns the current key, or an empty slice.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match (self.at, &self.own) {
            (At::Base, _) => self.base.key(),
            (At::Own, Some(own)) => &own.key,
            _ => &[],
        }
    }

    /// Returns the current value, or an empty slice.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match (self.at, &self.own) {
            (At::Base, _) => self.base.value(),
            (At::Own, Some(own)) => own.value.as_deref().unwrap_or_default(),
            _ => &[],
        }
    }

    /// Leaves the current pair.
    pub fn leave(&mut self) {
        self.at = At::Nowhere;
    }

    /// Compares the current keys of two cursors.
    pub fn compare(&self, other: &MergedCursor) -> Ordering {
        self.order.compare(self.key(), other.key())
    }

    /// Moves to the first pair at or after `key`, or with `forward` false to the last pair at or
    /// before `key`. `None` is the end from which the moves begin.
    pub fn seek(&mut self, key: Option<&[u8]>, forward: bool) -> Result<()> {
        let begin = if forward { &self.bounds.0 } else { &self.bounds.1 };
        // A key outside of the bounds is as good as the bound.
        let from = match key {
            Some(key) if is_within(&self.order, key, begin, !forward) => {
                Bound::Included(key.to_vec())
            }
            _ => begin.clone(),
        };
        self.end_visit()?;
        self.begin_visit(from.clone(), forward)?;
        self.at = At::Nowhere;
        self.forward = forward;
        match (key, forward) {
            (None, true) => self.base.seek_to_first()?,
            (None, false) => self.base.seek_to_last()?,
            (Some(key), true) => self.base.seek(key)?,
            (Some(key), false) => self.base.seek_for_prev(key)?,
        }
        self.find_own(&from)?;
        self.settle()
    }

    /// Moves to the next pair, or with `forward` false to the previous one.
    pub fn step(&mut self, forward: bool) -> Result<()> {
        if self.at == At::Nowhere {
            return Ok(());
        }
        let changes = self.shared.changes().inspect_err(|_| self.at = At::Nowhere)?;
        if forward != self.forward {
            self.turn_visit(forward)?;
        }
        if self.at == At::Base && changes == self.changes && forward == self.forward {
            self.at = At::Nowhere;
            self.move_base()?;
            return self.settle();
        }
        let key = self.key().to_vec();
        let was = std::mem::replace(&mut self.at, At::Nowhere);
        let turned = std::mem::replace(&mut self.forward, forward) != forward;
        if was == At::Own && turned {
            // The base stands on the other side of the own pair.
            if forward { self.base.seek(&key)? } else { self.base.seek_for_prev(&key)? }
        }
        let on_key = self.base.valid() && self.order.compare(self.base.key(), &key).is_eq();
        if on_key {
            self.move_base()?;
        }
        self.find_own(&Bound::Excluded(key))?;
        self.settle()
    }

    fn move_base(&mut self) -> Result<()> {
        if self.forward { self.base.move_next() } else { self.base.move_prev() }
    }

    /// Looks for the first own write from `from` on.
    fn find_own(&mut self, from: &Bound<Vec<u8>>) -> Result<()> {
        let shared = self.shared.clone();
        let state = shared.active()?;
        self.changes = shared.changes()?;
        self.own = None;
        let Some(writes) = state.own_writes(self.keyspace) else {
            self.has_deleted_ranges = false;
            return Ok(());
        };
        self.has_deleted_ranges = writes.has_deleted_ranges();
        let from = match from {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) => Bound::Included(key.as_slice()),
            Bound::Excluded(key) => Bound::Excluded(key.as_slice()),
        };
        let end = if self.forward { &self.bounds.1 } else { &self.bounds.0 };
        if let Some((key, version)) = writes.next(from, self.forward)
            && is_within(&self.order, key, end, self.forward)
        {
            let pending = Pending::new(&writes.resolve(version, state.batch.payload()));
            let key = key.to_vec();
            // The value may have to be read.
            drop(state);
            let value = self.value_of(&key, pending)?;
            self.own = Some(OwnWrite { key, value });
        }
        Ok(())
    }

    /// Returns the value of an own write.
    fn value_of(&self, key: &[u8], pending: Pending) -> Result<Option<Vec<u8>>> {
        let inner = self.shared.inner();
        match &self.place {
            None => pending.value(inner, None, key, self.moment),
            Some((keyspace, tree)) => {
                let of = Some(InKeyspace { tree, rules: &keyspace.rules });
                let stored = StoredKey::new(keyspace.id, key);
                pending.value(inner, of, stored.as_slice(), self.moment)
            }
        }
    }

    /// Returns the side with the next pair.
    fn next_side(&self) -> Next {
        let Some(own) = &self.own else {
            return if self.base.valid() { Next::Base } else { Next::Nothing };
        };
        if !self.base.valid() {
            return Next::Own;
        }
        match self.order.compare(self.base.key(), &own.key) {
            Ordering::Equal => Next::Both,
            order if order.is_lt() == self.forward => Next::Base,
            _ => Next::Own,
        }
    }

    /// Stands on the next pair of the two sides that is not deleted.
    fn settle(&mut self) -> Result<()> {
        loop {
            let next = self.next_side();
            match next {
                Next::Nothing => return Ok(()),
                Next::Base => {
                    if self.has_deleted_ranges && self.pass_deleted_range()? {
                        continue;
                    }
                    self.at = At::Base;
                    return Ok(());
                }
                Next::Own | Next::Both => {
                    if self.own.as_ref().is_some_and(|own| own.value.is_some()) {
                        self.at = At::Own;
                        return Ok(());
                    }
                    if matches!(next, Next::Both) {
                        self.move_base()?;
                    }
                    let key = self.own.take().map(|own| own.key).unwrap_or_default();
                    self.find_own(&Bound::Excluded(key))?;
                }
            }
        }
    }

    /// Moves the base past the range that the transaction has deleted around its key. Returns false
    /// if there is none.
    fn pass_deleted_range(&mut self) -> Result<bool> {
        let range = {
            let state = self.shared.active()?;
            let writes = state.own_writes(self.keyspace);
            let range = writes.and_then(|writes| writes.deleted_around(self.base.key()));
            range.map(|(start, end)| (start.to_vec(), end.to_vec()))
        };
        let Some((start, end)) = range else { return Ok(false) };
        if self.forward {
            self.base.seek(&end)?;
        } else {
            self.base.seek_for_prev(&start)?;
            if self.base.valid() && self.order.compare(self.base.key(), &start).is_eq() {
                self.base.move_prev()?;
            }
        }
        Ok(true)
    }

    /// Returns the stored keys of a visit that began at `from`.
    fn visited(&self, from: Bound<Vec<u8>>, forward: bool) -> KeyRange {
        let bounds =
            if forward { (from, self.bounds.1.clone()) } else { (self.bounds.0.clone(), from) };
        let (lo, hi) = match self.keyspace {
            0 => bounds,
            id => stored_bounds(id, bounds),
        };
        KeyRange { tree: self.tree, lo, hi }
    }

    fn begin_visit(&mut self, from: Bound<Vec<u8>>, forward: bool) -> Result<()> {
        if self.is_tracked {
            let range = self.visited(from, forward);
            self.visit = Some(self.shared.active()?.reads.add_range(range));
        }
        Ok(())
    }

    /// Ends the visit at the current pair. Without a current pair the cursor has passed everything
    /// up to the bound.
    fn end_visit(&mut self) -> Result<()> {
        let Some(visit) = self.visit.take().filter(|_| self.valid()) else { return Ok(()) };
        let here = Bound::Included(self.key().to_vec());
        // As if a visit came from here in the other direction.
        let passed = self.visited(here, !self.forward);
        let mut state = self.shared.active()?;
        if let Some(range) = state.reads.range_mut(visit) {
            if self.forward {
                range.hi = passed.hi;
            } else {
                range.lo = passed.lo;
            }
        }
        Ok(())
    }

    fn turn_visit(&mut self, forward: bool) -> Result<()> {
        if !self.is_tracked {
            return Ok(());
        }
        let here = Bound::Included(self.key().to_vec());
        self.end_visit()?;
        self.begin_visit(here, forward)
    }
}

impl Drop for MergedCursor {
    fn drop(&mut self) {
        // After the end of the transaction nobody needs the visit.
        let _ = self.end_visit();
    }
}
