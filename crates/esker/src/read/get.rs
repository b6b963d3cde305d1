//! One key: memtables, then level 0, then each level's guard, newest first, stopping at the first
//! version the reader sees.
//!
//! Sources are ordered so that every version of a key in an earlier source is newer than any in a
//! later one; a range tombstone met on the way therefore hides every older version below it.

use std::sync::Arc;

use super::{Slice, View};
use crate::base::key::{Kind, SeqNo};
use crate::base::order::KeyOrder;
use crate::error::Result;
use crate::metrics::Counters;
use crate::table::{Table, key_hash};
use crate::tree::fragment::Fragment;
use crate::tree::tables::Tables;

/// How many tables' filters are fetched before the first is asked.
const TABLES_AT_ONCE: usize = 8;

/// How many keys of a [`Lookup::multi_get`] are looked ahead for.
const KEYS_AT_ONCE: usize = 16;

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
        let mut places = view.version.fragments_holding(key);
        let Some((level, fragment)) = places.next() else { return Ok(None) };
        let table = self.tables.get(&fragment.file)?;
        let Some(second) = places.next() else {
            let hit = self.look_into(level, table, (key, hash), &mut covered)?;
            return Ok(hit.and_then(|hit| shown(hit, covered)));
        };
        let places = [(level, fragment), second].into_iter().chain(places);
        self.look_into_many(places, (key, hash), covered)
    }

    /// The same where several tables may hold the key: in groups, so that their filters' misses of
    /// the processor's cache overlap.
    fn look_into_many<'a>(
        &self,
        mut places: impl Iterator<Item = (usize, &'a Arc<Fragment>)>,
        key: (&[u8], u64),
        mut covered: SeqNo,
    ) -> Result<Option<Slice>> {
        loop {
            let mut group: [Option<(usize, &Table)>; TABLES_AT_ONCE] = [None; TABLES_AT_ONCE];
            for place in &mut group {
                let Some((level, fragment)) = places.next() else { break };
                let table = &**self.tables.get(&fragment.file)?;
                table.prefetch_filter(key.1);
                *place = Some((level, table));
            }
            for (level, table) in group.iter().flatten() {
                if let Some(hit) = self.look_into(*level, table, key, &mut covered)? {
                    return Ok(shown(hit, covered));
                }
            }
            if group[TABLES_AT_ONCE - 1].is_none() {
                return Ok(None);
            }
        }
    }

    /// The values of `keys` in `view`, in their order. What they need of memory is asked for some
    /// keys ahead, so that the processor waits for many lines at once.
    pub fn multi_get<K: AsRef<[u8]>>(&self, view: &View, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        let mut found = Vec::with_capacity(keys.len());
        for group in keys.chunks(KEYS_AT_ONCE) {
            self.prefetch(view, group);
            for key in group {
                found.push(self.get(view, key.as_ref())?);
            }
        }
        Ok(found)
    }

    /// Asks for the filters of `keys`, at most [`KEYS_AT_ONCE`], then for the first block each may
    /// be in. A table that cannot be opened is left to the lookup to tell.
    fn prefetch<K: AsRef<[u8]>>(&self, view: &View, keys: &[K]) {
        let tables = |key| {
            let fragments = view.version.fragments_holding(key);
            fragments.filter_map(|(_, fragment)| self.tables.get(&fragment.file).ok())
        };
        let mut hashes = [0; KEYS_AT_ONCE];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = key_hash(key.as_ref());
            tables(key.as_ref()).for_each(|table| table.prefetch_filter(*hash));
        }
        for (&hash, key) in hashes.iter().zip(keys) {
            let mut tables = tables(key.as_ref());
            if let Some(table) = tables.find(|table| table.may_contain(key.as_ref(), hash)) {
                table.prefetch_key(key.as_ref());
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
        let Some(hit) = table.get(key, hash, self.seqno, self.fill_cache)? else {
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
