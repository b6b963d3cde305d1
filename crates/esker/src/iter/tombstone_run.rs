//! Tombstone runs: the keys around a deleted key that no reader sees. A cursor skips them with the
//! empty-range hints ([`super::hints`]), and says how many it had to step over. The search for hints
//! measures a run in both directions.

use std::sync::Arc;

use super::hints::Edge;
use super::same_key;
use super::skips::Walk;
use super::visible::VisibleCursor;
use crate::base::cursor::Cursor;
use crate::error::Result;

/// Steps charged for a jump, which costs a seek that a compaction would avoid.
const JUMP_STEPS: u64 = 64;

/// A tombstone run: a key range without visible keys.
pub struct TombstoneRun {
    /// The range begins after this key.
    pub after: Edge,
    /// The range ends before this key.
    pub before: Edge,
    /// Estimated number of entries in the range.
    pub dead: u64,
    /// Keys at which the step budget ran out, to continue from.
    pub open: Vec<Arc<[u8]>>,
}

impl<C: Cursor> VisibleCursor<C> {
    /// Returns what the last seek stepped over.
    #[inline]
    pub fn walk(&self) -> Walk {
        self.walk
    }

    /// Returns the time of the reader, in milliseconds since 1970.
    pub fn at_ms(&self) -> u64 {
        self.resolver.at_ms()
    }

    /// Returns the number of entries that the hints in use have skipped.
    pub fn skipped_by_hints(&self) -> u64 {
        self.skips.as_ref().map_or(0, |skip_state| skip_state.skipped)
    }

    /// Looks up the source's key, invisible or not yet examined, in the hints after `dead`
    /// invisible keys. Returns the new count of these, 0 after a jump, and the count for the next
    /// lookup. Returns `None` at the end of the data or of the step budget.
    #[cold]
    pub(super) fn skip_tombstones(&mut self, dead: u64) -> Result<Option<(u64, u64)>> {
        let step = if dead < self.tombstones_min { 1 } else { self.tombstones_step };
        let in_batch = Some((dead, (dead + step).max(self.tombstones_min)));
        let Some(skip_state) = self.skips.as_deref_mut() else { return Ok(in_batch) };
        skip_state.lookups += 1;
        let key = self.source.key();
        let (as_of, at_ms) = (skip_state.as_of, self.resolver.at_ms());
        if let Some(hint) = skip_state.hints.find_for(&self.order, key, as_of, at_ms) {
            skip_state.hints.jumps.add(1);
            skip_state.skipped += hint.dead;
            self.walk.dead = 0;
            self.walk.has_expired |= hint.from_ms > 0;
            self.stepped_over += JUMP_STEPS;
            let edge = if self.forward { &hint.before } else { &hint.after };
            let Some(key) = edge.clone() else { return Ok(None) };
            if self.forward {
                self.source.seek(&key, self.snapshot)?;
            } else {
                self.place_at_or_before(&key)?;
            }
            return Ok(Some((0, self.lookup_at)));
        }
        if skip_state.lookups >= skip_state.lookups_max {
            skip_state.stopped_at = Some(Arc::from(key));
            return Ok(None);
        }
        Ok(in_batch)
    }

    /// Returns the tombstone run around `key`, as far as the step budget allows in both directions.
    /// Returns `None` if `key` itself is visible.
    pub fn tombstone_run(&mut self, key: &[u8]) -> Result<Option<TombstoneRun>> {
        if let Some(run) = self.tombstone_run_behind_hint(key)? {
            return Ok(Some(run));
        }
        let mut open = Vec::new();
        self.seek(key)?;
        if self.valid && same_key(&self.order, self.key(), key) {
            return Ok(None);
        }
        let before = self.edge(&mut open);
        self.seek_for_prev(key)?;
        let after = self.edge(&mut open);
        let dead = self.stepped_over + self.skipped_by_hints();
        Ok(Some(TombstoneRun { after, before, dead, open }))
    }

    /// Same, for a tombstone run that begins in the hint below `key`, as with deletes in key order.
    /// Only a forward scan is needed then.
    fn tombstone_run_behind_hint(&mut self, key: &[u8]) -> Result<Option<TombstoneRun>> {
        let hints = self.skips.as_ref().map(|skip_state| skip_state.hints.clone());
        let below = hints.as_ref().and_then(|hints| hints.below(&self.order, key));
        // A run is for readers at every time.
        let Some(hint) = below.filter(|hint| hint.from_ms == 0) else { return Ok(None) };
        let Some(from) = &hint.before else { return Ok(None) };
        let mut open = Vec::new();
        self.seek(from)?;
        let before = self.edge(&mut open);
        if before.as_ref().is_some_and(|before| self.order.compare(before, key).is_le()) {
            if open.is_empty() {
                self.stepped_over = 0;
                return Ok(None);
            }
            open = vec![Arc::from(key)];
        }
        let dead = hint.dead + self.stepped_over + self.skipped_by_hints();
        Ok(Some(TombstoneRun { after: hint.after.clone(), before, dead, open }))
    }

    /// Returns the key at which the last move ended.
    fn edge(&mut self, open: &mut Vec<Arc<[u8]>>) -> Edge {
        let stopped_at = self.skips.as_mut().and_then(|skip_state| {
            skip_state.lookups = 0;
            skip_state.stopped_at.take()
        });
        if self.valid {
            return Some(Arc::from(self.key()));
        }
        open.extend(stopped_at.clone());
        stopped_at
    }
}
