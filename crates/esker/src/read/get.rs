//! One key: memtables, then level 0, then each level's guard, newest first, stopping at the first
//! version the reader sees.
//!
//! Sources are ordered so that every version of a key in an earlier source is newer than any in a
//! later one; a range tombstone met on the way therefore hides every older version below it.

use super::{Slice, View};
use crate::base::key::{Kind, SeqNo};
use crate::base::order::KeyOrder;
use crate::error::Result;
use crate::metrics::Counters;
use crate::tree::fragment::Fragment;
use crate::tree::tables::Tables;

/// What a lookup reads with.
pub struct Lookup<'a> {
    /// The order of keys.
    pub order: &'a KeyOrder,
    /// The open tables.
    pub tables: &'a Tables,
    /// Where table lookups are counted.
    pub counters: &'a Counters,
    /// Only versions up to this one are seen.
    pub seqno: SeqNo,
    /// Whether blocks read enter the cache.
    pub fill_cache: bool,
}

/// A version found in some source.
type Hit = (SeqNo, Kind, Slice);

impl Lookup<'_> {
    /// The value of `key` in `view`, if it has one.
    pub fn get(&self, view: &View, key: &[u8]) -> Result<Option<Slice>> {
        let mut covered: SeqNo = 0;
        for memtable in view.memtables() {
            if let Some(seqno) = memtable.covering(key, self.seqno) {
                covered = covered.max(seqno);
            }
            if let Some((seqno, kind, value)) = memtable.get_slice(key, self.seqno) {
                return Ok(shown((seqno, kind, value.into()), covered));
            }
        }
        for (number, level) in view.version.levels.iter().enumerate() {
            if level.is_empty() {
                continue;
            }
            let guard = view.version.guard_of(number, key);
            for run in &guard.runs {
                let Some(fragment) = run.fragments.holding(self.order, key) else { continue };
                if let Some(hit) = self.look_into(number, fragment, key, &mut covered)? {
                    return Ok(shown(hit, covered));
                }
            }
        }
        Ok(None)
    }

    fn look_into(
        &self,
        level: usize,
        fragment: &Fragment,
        key: &[u8],
        covered: &mut SeqNo,
    ) -> Result<Option<Hit>> {
        let table = self.tables.get(&fragment.file)?;
        let deletes = table.range_deletes();
        if let Some(seqno) = deletes.covering(self.order, key, self.seqno) {
            *covered = (*covered).max(seqno);
        }
        let Some(hit) = table.get(key, self.seqno, self.fill_cache)? else { return Ok(None) };
        if let Some(counters) = self.counters.levels.get(level) {
            counters.table_gets.add(1);
        }
        Ok(Some((hit.seqno, hit.kind, hit.value.into())))
    }
}

fn shown((seqno, kind, value): Hit, covered: SeqNo) -> Option<Slice> {
    (kind == Kind::Put && seqno >= covered).then_some(value)
}
