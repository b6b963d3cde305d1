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
use crate::table::{Table, key_hash};
use crate::tree::tables::Tables;

/// How many tables' filters are fetched before the first is asked.
const TABLES_AT_ONCE: usize = 8;

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
        let hash = key_hash(key);
        let mut fragments = view.version.fragments_holding(key);
        loop {
            // Some at a time, so that their filters' misses of the processor's cache overlap.
            let mut group: [Option<(usize, &Table)>; TABLES_AT_ONCE] = [None; TABLES_AT_ONCE];
            for place in &mut group {
                let Some((level, fragment)) = fragments.next() else { break };
                let table = &**self.tables.get(&fragment.file)?;
                table.prefetch_filter(hash);
                *place = Some((level, table));
            }
            for (level, table) in group.iter().flatten() {
                if let Some(hit) = self.look_into(*level, table, (key, hash), &mut covered)? {
                    return Ok(shown(hit, covered));
                }
            }
            if group[TABLES_AT_ONCE - 1].is_none() {
                return Ok(None);
            }
        }
    }

    #[inline]
    fn look_into(
        &self,
        level: usize,
        table: &Table,
        (key, hash): (&[u8], u64),
        covered: &mut SeqNo,
    ) -> Result<Option<Hit>> {
        let deletes = table.range_deletes();
        if let Some(seqno) = deletes.covering(self.order, key, self.seqno) {
            *covered = (*covered).max(seqno);
        }
        let Some(hit) = table.get_hashed(key, hash, self.seqno, self.fill_cache)? else {
            return Ok(None);
        };
        if let Some(counters) = self.counters.levels.get(level) {
            counters.table_gets.add(1);
        }
        Ok(Some((hit.seqno, hit.kind, hit.value.into())))
    }
}

fn shown((seqno, kind, value): Hit, covered: SeqNo) -> Option<Slice> {
    (kind == Kind::Put && seqno >= covered).then_some(value)
}
