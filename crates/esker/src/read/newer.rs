//! Versions that are newer than a sequence number: whether a key or a range was written since.
//!
//! The answer is exact if a snapshot holds `since` or an older number. Such a snapshot divides the
//! sequence numbers of each key: every flush and compaction keeps the newest version or range
//! tombstone above the snapshot, with its number ([`crate::iter::retain`]). It gives the number 0
//! only to versions at or below the oldest snapshot, and it drops tombstones only there. A flush or
//! compaction that began before the snapshot was taken has no entries above it.
//!
//! A source whose greatest number is not above `since` is not read. The newest entries are in
//! memory, so most answers need no file.

use std::ops::Bound;

use super::ReadState;
use crate::base::cursor::Cursor;
use crate::base::filter_policy::key_hash;
use crate::base::key::{SEQNO_MAX, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeleteRef;
use crate::error::Result;
use crate::tree::cursor::SliceCursor;
use crate::tree::tables::Tables;

/// Bounds of stored keys.
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A search in the read state of one tree.
pub struct NewerThan<'a> {
    /// The open tables of the tree.
    pub tables: &'a Tables,
    /// The read state of the tree.
    pub read_state: &'a ReadState,
    /// Sequence number above which a version is newer.
    pub since: SeqNo,
}

impl NewerThan<'_> {
    /// Returns whether `key` was put or deleted after `since`. Sees at least every write that was
    /// visible when the read state was loaded.
    pub fn has_key(&self, key: &[u8]) -> Result<bool> {
        let hash = key_hash(key);
        for memtable in self.read_state.memtables() {
            if memtable.seqno_range().is_none_or(|(_, last)| last <= self.since) {
                continue;
            }
            if memtable.covering(key, SEQNO_MAX).is_some_and(|seqno| seqno > self.since) {
                return Ok(true);
            }
            // Older sources have only older versions.
            if let Some(hit) = memtable.get_hit(key, hash, SEQNO_MAX) {
                return Ok(hit.seqno > self.since);
            }
        }
        for (_, fragment) in self.read_state.version.fragments_holding(key) {
            if fragment.file.info.seqno_max <= self.since {
                continue;
            }
            let table = self.tables.get(&fragment.file)?;
            if table.covering(key, SEQNO_MAX).is_some_and(|seqno| seqno > self.since) {
                return Ok(true);
            }
            if let Some(hit) = table.get(key, hash, SEQNO_MAX, true)? {
                return Ok(hit.seqno > self.since);
            }
        }
        Ok(false)
    }

    /// Returns whether a key within `bounds` was put or deleted after `since`.
    pub fn has_range(&self, bounds: Bounds<'_>) -> Result<bool> {
        let order = self.read_state.version.order();
        for memtable in self.read_state.memtables() {
            if memtable.seqno_range().is_none_or(|(_, last)| last <= self.since) {
                continue;
            }
            let sets = memtable.range_delete_sets();
            let mut deletes = sets.iter().flat_map(|set| set.iter());
            if deletes.any(|delete| self.is_newer_in(order, delete, bounds))
                || self.finds_newer(order, &mut memtable.cursor(), bounds)?
            {
                return Ok(true);
            }
        }
        self.tables_have_range(order, bounds)
    }

    fn tables_have_range(&self, order: &KeyOrder, bounds: Bounds<'_>) -> Result<bool> {
        let version = &self.read_state.version;
        for level in 0..version.levels.len() {
            let guards = version.guards_overlapping(level, key_of(bounds.0), key_of(bounds.1));
            for (_, fragment) in guards.iter().flat_map(|guard| guard.fragments()) {
                let info = &fragment.file.info;
                let (first, (last, _)) = (fragment.first(order), fragment.last(order));
                if info.seqno_max <= self.since
                    || begins_after(order, first, bounds.1)
                    || ends_before(order, last, bounds.0)
                {
                    continue;
                }
                if info.range_deletes > 0 {
                    let (lo, hi) = (fragment.lo.as_deref(), fragment.hi.as_deref());
                    let set = self.tables.get(&fragment.file)?.range_deletes();
                    let mut deletes = set.iter().filter_map(|delete| delete.clamp(order, lo, hi));
                    if deletes.any(|delete| self.is_newer_in(order, delete, bounds)) {
                        return Ok(true);
                    }
                }
                let mut cursor = SliceCursor::new(self.tables, fragment, false)?;
                if self.finds_newer(order, &mut cursor, bounds)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns whether a range tombstone is newer and covers a part of `bounds`.
    fn is_newer_in(
        &self,
        order: &KeyOrder,
        delete: RangeDeleteRef<'_>,
        (lo, hi): Bounds<'_>,
    ) -> bool {
        let ends_after_lo = match lo {
            Bound::Unbounded => true,
            Bound::Included(lo) | Bound::Excluded(lo) => order.compare(lo, delete.end).is_lt(),
        };
        delete.seqno > self.since
            && ends_after_lo
            && !begins_after(order, delete.start, hi)
            && order.compare(delete.start, delete.end).is_lt()
    }

    /// Returns whether a cursor has a newer entry within `bounds`.
    fn finds_newer(
        &self,
        order: &KeyOrder,
        cursor: &mut impl Cursor,
        (lo, hi): Bounds<'_>,
    ) -> Result<bool> {
        match lo {
            Bound::Unbounded => cursor.seek_to_first()?,
            Bound::Included(lo) => cursor.seek(lo, SEQNO_MAX)?,
            // Every entry of the key comes before this place, except one with the number 0, which
            // is not newer.
            Bound::Excluded(lo) => cursor.seek(lo, 0)?,
        }
        while cursor.valid() {
            if begins_after(order, cursor.key(), hi) {
                return Ok(false);
            }
            if cursor.seqno() > self.since {
                return Ok(true);
            }
            cursor.next()?;
        }
        Ok(false)
    }
}

/// Returns whether `key` is above the upper bound `hi`.
fn begins_after(order: &KeyOrder, key: &[u8], hi: Bound<&[u8]>) -> bool {
    match hi {
        Bound::Unbounded => false,
        Bound::Included(hi) => order.compare(hi, key).is_lt(),
        Bound::Excluded(hi) => order.compare(hi, key).is_le(),
    }
}

/// Returns whether `key` is below the lower bound `lo`.
fn ends_before(order: &KeyOrder, key: &[u8], lo: Bound<&[u8]>) -> bool {
    match lo {
        Bound::Unbounded => false,
        Bound::Included(lo) | Bound::Excluded(lo) => order.compare(key, lo).is_lt(),
    }
}

/// Returns the key of a bound.
fn key_of(bound: Bound<&[u8]>) -> Option<&[u8]> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
    }
}
