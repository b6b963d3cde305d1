//! A get that counts its steps for the [`PerfContext`] of its thread.
//!
//! Invariant: the result equals that of [`Lookup::get_with`]. This is the plain form of that
//! function, without its arrangements for the CPU cache.

use super::ReadState;
use super::get::{Found, Lookup};
use crate::base::key::SeqNo;
use crate::error::Result;
use crate::perf::{self, PerfContext};
use crate::table::{TableGet, key_hash};

impl<'v> Lookup<'v> {
    /// Does the same as [`Lookup::get_with`] of a lookup that may read files, and counts its steps.
    pub fn get_counted<R>(
        &self,
        read_state: &'v ReadState,
        key: &[u8],
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> Result<Option<R>> {
        debug_assert!(self.epoch.is_none(), "a pinned reader must not read files");
        let mut counts = PerfContext { gets: 1, ..PerfContext::default() };
        let mut value_bytes = 0;
        let mut take = |found: Found<'v>| {
            value_bytes += found.value().len() as u64;
            take(found)
        };
        let found =
            self.search(read_state, key, &mut counts, &mut take).and_then(|found| match found {
                TableGet::Merge => self.get_merged(read_state, key, &mut take),
                found => Ok(found.found()),
            });
        counts.value_bytes_read = value_bytes;
        perf::count(|mine| mine.add(&counts));
        found
    }

    fn search<R>(
        &self,
        read_state: &'v ReadState,
        key: &[u8],
        counts: &mut PerfContext,
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> Result<TableGet<R>> {
        let (mut covered, hash): (SeqNo, u64) = (0, key_hash(key));
        for memtable in read_state.memtables() {
            covered = covered.max(memtable.covering(key, self.seqno).unwrap_or(0));
            if let Some(hit) = memtable.get_hit(key, hash, self.seqno) {
                counts.memtable_hits += 1;
                return Ok(self.if_visible(Found::Memtable(hit), covered, take));
            }
        }
        for (level, fragment) in read_state.version.fragments_holding(key) {
            let table = self.tables.get(&fragment.file)?;
            counts.tables_searched += 1;
            covered = covered.max(table.covering(key, self.seqno).unwrap_or(0));
            counts.filter_checks += 1;
            if !table.may_contain(key, hash) {
                counts.filter_negatives += 1;
                continue;
            }
            let got = table.get_past_filter(key, self.seqno, self.fill_cache, None)?;
            if let TableGet::Found(hit) = got {
                return Ok(self.count_and_take(level, hit, covered, take));
            }
        }
        Ok(TableGet::Absent)
    }
}
