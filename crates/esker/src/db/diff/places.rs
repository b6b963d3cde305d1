//! The places at which two sides of a keyspace can differ: single keys, and key ranges.
//!
//! Invariants: each key whose pairs differ is the key of an entry that one side alone has, which
//! [`TouchedKeys`] finds, or lies in a range of [`ranges`].

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use super::side::{KeyspaceSide, Side};
use crate::base::cursor::Cursor;
use crate::base::key::SEQNO_MAX;
use crate::base::keyspace::{KeyspaceId, PREFIX_BYTES, StoredKey, keyspace_of, prefix_end};
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeleteRef;
use crate::error::Result;
use crate::iter::merge::MergeCursor;
use crate::iter::same_key;
use crate::tree::cursor::{BoxedCursor, run_cursor};
use crate::tree::fragment::Fragment;
use crate::tree::shared::to_runs;

/// Number of versions of a key that are stepped over before a search for the next key.
const STEPS_MAX: usize = 8;

/// A range of users' keys: its first key and the first key after it. `None` is unbounded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub lo: Option<Vec<u8>>,
    pub hi: Option<Vec<u8>>,
}

/// Returns the bounds of the stored keys of a keyspace, both exclusive.
fn stored_extent(id: KeyspaceId) -> Option<[[u8; PREFIX_BYTES]; 2]> {
    (id > 0).then(|| [prefix_end(id - 1), prefix_end(id)])
}

/// Returns the user's key in a stored key. `None` for a bound outside of the keyspace.
fn user_key(id: KeyspaceId, stored: &[u8]) -> Option<&[u8]> {
    if id == 0 {
        return Some(stored);
    }
    (keyspace_of(stored) == Some(id)).then(|| &stored[PREFIX_BYTES..])
}

/// Returns those of `slices` that may hold keys of the keyspace.
pub(super) fn slices_of(of: &KeyspaceSide, slices: &[Arc<Fragment>]) -> Vec<Arc<Fragment>> {
    let order = &of.tree().order;
    let Some([lo, hi]) = stored_extent(of.id()) else { return slices.to_vec() };
    let overlaps = |slice: &&Arc<Fragment>| {
        order.compare(slice.first(order), &hi).is_lt()
            && order.compare(slice.last(order).0, &lo).is_gt()
    };
    slices.iter().filter(overlaps).cloned().collect()
}

/// Adds the ranges that a side deletes in its memtables and in `slices`, and that its moment sees.
pub(super) fn add_ranges(
    side: &Side,
    of: &KeyspaceSide,
    slices: &[Arc<Fragment>],
    out: &mut Vec<KeyRange>,
) -> Result<()> {
    let order = &of.tree().order;
    let mut add = |delete: RangeDeleteRef<'_>, lo: Option<&[u8]>, hi: Option<&[u8]>| {
        if delete.seqno > side.moment.seqno {
            return;
        }
        let extent = stored_extent(of.id());
        let (first, last) =
            (extent.as_ref().map(|e| &e[0][..]), extent.as_ref().map(|e| &e[1][..]));
        let delete = delete.clamp(order, lo, hi);
        if let Some(delete) = delete.and_then(|delete| delete.clamp(order, first, last)) {
            let own = |key| user_key(of.id(), key).map(<[u8]>::to_vec);
            out.push(KeyRange { lo: own(delete.start), hi: own(delete.end) });
        }
    };
    if let Some(state) = side.state_of(of) {
        for set in state.memtables().flat_map(|memtable| memtable.range_delete_sets()) {
            set.iter().for_each(|delete| add(delete, None, None));
        }
    }
    for slice in slices.iter().filter(|slice| slice.file.info.range_deletes > 0) {
        let table = of.tree().tables.get(&slice.file)?;
        let (lo, hi) = (slice.lo.as_deref(), slice.hi.as_deref());
        table.range_deletes().iter().for_each(|delete| add(delete, lo, hi));
    }
    Ok(())
}

/// Sorts ranges and joins those that overlap.
pub(super) fn joined(order: &KeyOrder, mut ranges: Vec<KeyRange>) -> VecDeque<KeyRange> {
    let by_start = |a: &KeyRange, b: &KeyRange| match (&a.lo, &b.lo) {
        (None, None) => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(a), Some(b)) => order.compare(a, b),
    };
    ranges.sort_by(by_start);
    let mut out: VecDeque<KeyRange> = VecDeque::new();
    for range in ranges {
        let reaches = |last: &&mut KeyRange| match (&last.hi, &range.lo) {
            (None, _) | (_, None) => true,
            (Some(hi), Some(lo)) => order.compare(lo, hi).is_le(),
        };
        let Some(last) = out.back_mut().filter(reaches) else {
            out.push_back(range);
            continue;
        };
        let is_longer = match (&last.hi, &range.hi) {
            (None, _) => false,
            (_, None) => true,
            (Some(a), Some(b)) => order.compare(b, a).is_gt(),
        };
        if is_longer {
            last.hi = range.hi;
        }
    }
    out
}

/// The keys of a keyspace for which a side has an entry in a memtable or in a part of a table that
/// the other side lacks.
pub(super) struct TouchedKeys {
    cursor: MergeCursor,
    order: KeyOrder,
    id: KeyspaceId,
}

impl TouchedKeys {
    /// Creates a cursor over the touched keys and moves it to the first.
    pub fn new(side: &Side, of: &KeyspaceSide, slices: Vec<Arc<Fragment>>) -> Result<TouchedKeys> {
        let (order, id) = (of.tree().order.clone(), of.id());
        let mut sources: Vec<BoxedCursor> = Vec::new();
        if let Some(state) = side.state_of(of) {
            for memtable in state.memtables().filter(|memtable| memtable.has_entries()) {
                sources.push(Box::new(memtable.cursor()));
            }
        }
        for run in to_runs(&order, slices) {
            sources.push(run_cursor(&of.tree().tables, &run, false)?);
        }
        let mut keys = TouchedKeys { cursor: MergeCursor::new(order.clone(), sources), order, id };
        match stored_extent(id) {
            Some([lo, _]) => keys.cursor.seek(&lo, SEQNO_MAX)?,
            None => keys.cursor.seek_to_first()?,
        }
        Ok(keys)
    }

    /// Returns the current key, or `None` after the last one.
    pub fn key(&self) -> Option<&[u8]> {
        if !self.cursor.valid() {
            return None;
        }
        user_key(self.id, self.cursor.key())
    }

    /// Moves past `key`, if the current key is not after it.
    pub fn pass(&mut self, key: &[u8]) -> Result<()> {
        let stored = self.stored(key);
        for _ in 0..STEPS_MAX {
            if !self.cursor.valid() || !self.is_at_or_before(&stored) {
                return Ok(());
            }
            self.cursor.next()?;
        }
        while self.cursor.valid() && self.is_at_or_before(&stored) {
            // The oldest version that the key can have, or the first entry after it.
            self.cursor.seek(&stored, 0)?;
            if self.cursor.valid() && same_key(&self.order, self.cursor.key(), &stored) {
                self.cursor.next()?;
            }
        }
        Ok(())
    }

    /// Moves to the first key at or after `key`, or past the last one for `None`.
    pub fn seek(&mut self, key: Option<&[u8]>) -> Result<()> {
        match key {
            Some(key) => self.cursor.seek(&self.stored(key), SEQNO_MAX),
            None => {
                self.cursor.release();
                self.cursor = MergeCursor::new(self.order.clone(), Vec::new());
                self.cursor.seek_to_first()
            }
        }
    }

    fn stored(&self, key: &[u8]) -> Vec<u8> {
        if self.id == 0 { key.to_vec() } else { StoredKey::new(self.id, key).as_slice().to_vec() }
    }

    fn is_at_or_before(&self, stored: &[u8]) -> bool {
        self.order.compare(self.cursor.key(), stored).is_le()
    }
}
