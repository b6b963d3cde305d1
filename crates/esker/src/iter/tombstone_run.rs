//! Extent of a tombstone run: the keys around a deleted key that no reader sees. The search for
//! empty-range hints uses it.

use std::sync::Arc;

use super::hints::Edge;
use super::same_key;
use super::visible::VisibleCursor;
use crate::base::cursor::Cursor;
use crate::error::Result;

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
        let skipped = self.skips.as_ref().map_or(0, |skip_state| skip_state.skipped);
        Ok(Some(TombstoneRun { after, before, dead: self.stepped_over + skipped, open }))
    }

    /// Same, for a tombstone run that begins in the hint below `key`, as with deletes in key order.
    /// Only a forward scan is needed then.
    fn tombstone_run_behind_hint(&mut self, key: &[u8]) -> Result<Option<TombstoneRun>> {
        let hints = self.skips.as_ref().map(|skip_state| skip_state.hints.clone());
        let Some(hint) = hints.as_ref().and_then(|hints| hints.below(&self.order, key)) else {
            return Ok(None);
        };
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
        let skipped = self.skips.as_ref().map_or(0, |skip_state| skip_state.skipped);
        let dead = hint.dead + self.stepped_over + skipped;
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
