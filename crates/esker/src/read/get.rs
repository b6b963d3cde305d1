//! One key: memtables, then level 0, then each level's guard, newest first, stopping at the first
//! version the reader sees.
//!
//! Sources are ordered so that every version of a key in an earlier source is newer than any in a
//! later one; a range tombstone met on the way therefore hides every older version below it.

use std::sync::Arc;

use super::{Slice, View};
use crate::base::key::{Kind, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::readers::Reading;
use crate::error::Result;
use crate::memtable::MemHit;
use crate::metrics::Counters;
use crate::table::{Looked, Table, TableLook, key_hash};
use crate::tree::fragment::Fragment;
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
    /// Whether blocks read may enter the cache.
    pub fill_cache: bool,
    /// One of the store's: then what is found is there as long as it goes on, and no file is read.
    pub reading: Option<&'a Reading<'a>>,
}

/// A version found in some source, where it lies.
pub enum Look<'v> {
    /// In a memtable.
    Memtable(MemHit<'v>),
    /// In a table.
    Table(TableLook<'v>),
}

impl Look<'_> {
    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self {
            Look::Memtable(hit) => hit.value(),
            Look::Table(hit) => hit.value(),
        }
    }

    /// The value, for as long as one likes.
    #[inline]
    pub fn pin(self) -> Slice {
        match self {
            Look::Memtable(hit) => hit.pin().into(),
            Look::Table(hit) => hit.pin().into(),
        }
    }
}

/// What `take` makes of `look` if it is a value that no range tombstone of number `covered` hides.
#[inline]
pub(super) fn shown<'v, R>(
    look: Look<'v>,
    covered: SeqNo,
    take: &mut impl FnMut(Look<'v>) -> R,
) -> Looked<R> {
    let (seqno, kind) = match &look {
        Look::Memtable(hit) => (hit.seqno, hit.kind),
        Look::Table(hit) => (hit.row.seqno(), hit.row.kind()),
    };
    if kind == Kind::Put && seqno >= covered { Looked::Found(take(look)) } else { Looked::Absent }
}

impl<'v> Lookup<'v> {
    /// What `take` makes of the value of `key` in `view`, where it lies. It is called where the value is
    /// found: handed up from there, what says where it is would be stored and loaded again at each step,
    /// in other widths, which the processor waits for.
    #[inline]
    pub fn look<R>(
        &self,
        view: &'v View,
        key: &[u8],
        take: &mut impl FnMut(Look<'v>) -> R,
    ) -> Result<Looked<R>> {
        let mut covered: SeqNo = 0;
        let hash = key_hash(key);
        for memtable in view.memtables() {
            if let Some(seqno) = memtable.covering(key, self.seqno) {
                covered = covered.max(seqno);
            }
            if let Some(hit) = memtable.look(key, hash, self.seqno) {
                return Ok(shown(Look::Memtable(hit), covered, take));
            }
        }
        let mut places = view.version.fragments_holding(key);
        let Some((level, fragment)) = places.next() else { return Ok(Looked::Absent) };
        let Some(second) = places.next() else {
            let Some(table) = self.table(fragment)? else { return Ok(Looked::Unread) };
            if view.version.has_many_entries() {
                return self.look_into_only(level, table, (key, hash), covered, take);
            }
            let looked = self.look_into(level, table, (key, hash), &mut covered, take)?;
            return Ok(looked.unwrap_or(Looked::Absent));
        };
        let places = [(level, fragment), second].into_iter().chain(places);
        self.look_into_many(places, (key, hash), covered, take)
    }

    /// The value of `key` in `view`, for as long as one likes.
    pub fn get(&self, view: &'v View, key: &[u8]) -> Result<Option<Slice>> {
        Ok(self.look(view, key, &mut Look::pin)?.found())
    }

    /// The table of a fragment; `None` where it would have to be opened first and must not.
    #[inline(always)]
    fn table(&self, fragment: &'v Fragment) -> Result<Option<&'v Table>> {
        match fragment.file.opened() {
            Some(table) => Ok(Some(table)),
            None if self.reading.is_some() => Ok(None),
            None => Ok(Some(self.tables.get(&fragment.file)?)),
        }
    }

    /// The same where several tables may hold the key: in groups, so that their filters' misses of
    /// the processor's cache overlap.
    fn look_into_many<R>(
        &self,
        mut places: impl Iterator<Item = (usize, &'v Arc<Fragment>)>,
        key: (&[u8], u64),
        mut covered: SeqNo,
        take: &mut impl FnMut(Look<'v>) -> R,
    ) -> Result<Looked<R>> {
        loop {
            let mut group: [Option<(usize, &Table)>; TABLES_AT_ONCE] = [None; TABLES_AT_ONCE];
            for place in &mut group {
                let Some((level, fragment)) = places.next() else { break };
                let Some(table) = self.table(fragment)? else { return Ok(Looked::Unread) };
                table.prefetch_filter(key.1);
                *place = Some((level, table));
            }
            for (level, table) in group.iter().flatten() {
                if let Some(looked) = self.look_into(*level, table, key, &mut covered, take)? {
                    return Ok(looked);
                }
            }
            if group[TABLES_AT_ONCE - 1].is_none() {
                return Ok(Looked::Absent);
            }
        }
    }

    /// What `table` has to say, the only one that may hold the key. Its index is searched while its filter
    /// is waited for, not after it has passed the key. Not cold, but the way of small stores, which
    /// wait for nothing, is the shorter for being told so.
    #[cold]
    #[inline(never)]
    fn look_into_only<R>(
        &self,
        level: usize,
        table: &'v Table,
        (key, hash): (&[u8], u64),
        mut covered: SeqNo,
        take: &mut impl FnMut(Look<'v>) -> R,
    ) -> Result<Looked<R>> {
        table.prefetch_filter(hash);
        let fetch = table.begin_fetch(key);
        if let Some(seqno) = table.covering(key, self.seqno) {
            covered = covered.max(seqno);
        }
        if !table.may_contain(key, hash) {
            return Ok(Looked::Absent);
        }
        let block = table.finish_fetch(key, fetch);
        let looked = table.look_from(block, key, self.seqno, self.fill_cache, self.reading)?;
        Ok(match looked {
            Looked::Found(look) => self.answer(level, look, covered, take),
            Looked::Absent => Looked::Absent,
            Looked::Unread => Looked::Unread,
        })
    }

    /// What `table` has to say; `None` leaves it to those behind it.
    #[inline(always)]
    pub(super) fn look_into<R>(
        &self,
        level: usize,
        table: &'v Table,
        key: (&[u8], u64),
        covered: &mut SeqNo,
        take: &mut impl FnMut(Look<'v>) -> R,
    ) -> Result<Option<Looked<R>>> {
        if let Some(seqno) = table.covering(key.0, self.seqno) {
            *covered = (*covered).max(seqno);
        }
        // Most of what is looked for in vain ends here.
        if !table.may_contain(key.0, key.1) {
            return Ok(None);
        }
        self.look_past_filter(level, table, key.0, *covered, take)
    }

    /// The same where the table's filter does not deny the key, which a range tombstone of number
    /// `covered` hides in part.
    fn look_past_filter<R>(
        &self,
        level: usize,
        table: &'v Table,
        key: &[u8],
        covered: SeqNo,
        take: &mut impl FnMut(Look<'v>) -> R,
    ) -> Result<Option<Looked<R>>> {
        let looked = table.look_past_filter(key, self.seqno, self.fill_cache, self.reading)?;
        Ok(match looked {
            Looked::Found(look) => Some(self.answer(level, look, covered, take)),
            Looked::Absent => None,
            Looked::Unread => Some(Looked::Unread),
        })
    }

    /// What `take` makes of what a table of `level` has of a key, which is counted as its answer.
    #[inline(always)]
    pub(super) fn answer<R>(
        &self,
        level: usize,
        look: TableLook<'v>,
        covered: SeqNo,
        take: &mut impl FnMut(Look<'v>) -> R,
    ) -> Looked<R> {
        if let Some(counters) = self.counters.levels.get(level) {
            counters.table_gets.add(1);
        }
        shown(Look::Table(look), covered, take)
    }
}
