//! Get: reads one key from the memtables, then from level 0, then from one guard of each deeper
//! level, newest first. It stops at the first version that the reader sees.
//!
//! Every version of a key in an earlier source is newer than any version in a later source. A range
//! tombstone found on the way therefore hides every older version below it. If the first version is
//! a merge operand, [`super::get_merged`] continues.

use std::sync::Arc;

use super::{ReadState, Slice};
use crate::base::epoch::EpochGuard;
use crate::base::expiry;
use crate::base::key::{Kind, SeqNo};
use crate::base::keyspace_rules::KeyspaceRules;
use crate::error::Result;
use crate::memtable::MemHit;
use crate::metrics::Counters;
use crate::table::{Table, TableGet, TableHitRef, key_hash};
use crate::tree::fragment::Fragment;
use crate::tree::tables::Tables;

/// Number of tables whose filters are prefetched before the first filter is checked.
const TABLES_AT_ONCE: usize = 8;

/// Stands for the present time. A lookup that is not at a snapshot reads the clock only if it finds
/// a pair that expires.
pub const NOW: u64 = u64::MAX;

/// Parameters of a lookup.
pub struct Lookup<'a> {
    /// The open tables.
    pub tables: &'a Tables,
    /// Counters of table lookups.
    pub counters: &'a Counters,
    /// The rules of the keyspace, with the clock of the store.
    pub rules: &'a KeyspaceRules,
    /// Snapshot of the reader: newer versions are invisible.
    pub seqno: SeqNo,
    /// Time of the read in milliseconds since 1970, or [`NOW`].
    pub at_ms: u64,
    /// Whether blocks that are read may enter the cache.
    pub fill_cache: bool,
    /// Epoch guard of the store. If set, results stay valid while it is held, and no file is read.
    pub epoch: Option<&'a EpochGuard<'a>>,
}

/// A version found in a source, not copied.
pub enum Found<'v> {
    /// A version in a memtable.
    Memtable(MemHit<'v>),
    /// A version in a table.
    Table(TableHitRef<'v>),
    /// A put that expires, in a memtable.
    Expiring(MemHit<'v>),
    /// A value made of merge operands, or read from a value file.
    Made(Slice),
}

impl Found<'_> {
    /// Returns the value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self {
            Found::Memtable(hit) => hit.value(),
            Found::Table(hit) => hit.value(),
            Found::Expiring(hit) => expiry::split(hit.value()).1,
            Found::Made(value) => value,
        }
    }

    /// Returns the value as a pinned slice, which can be kept indefinitely.
    #[inline]
    pub fn pin(self) -> Slice {
        match self {
            Found::Memtable(hit) => hit.pin().into(),
            Found::Table(hit) => hit.pin().into(),
            Found::Expiring(hit) => Slice::expiring(hit.pin()),
            Found::Made(value) => value,
        }
    }

    /// Returns the sequence number and the kind of the version.
    #[inline]
    fn version(&self) -> (SeqNo, Kind) {
        match self {
            Found::Memtable(hit) | Found::Expiring(hit) => (hit.seqno, hit.kind),
            Found::Table(hit) => (hit.row.seqno(), hit.row.kind()),
            Found::Made(_) => (0, Kind::Put),
        }
    }

    /// Splits a put that expires: returns its time, and the put without the time in its value.
    fn split_time(self) -> (u64, Self) {
        match self {
            Found::Memtable(hit) => (expiry::split(hit.value()).0, Found::Expiring(hit)),
            Found::Table(mut hit) => {
                let time_ms = expiry::split(hit.value()).0;
                hit.row = hit.row.without_time();
                (time_ms, Found::Table(hit))
            }
            found => (expiry::NEVER_MS, found),
        }
    }
}

impl<'v> Lookup<'v> {
    /// Applies `take` to `found` if it is a put that has not expired and that no range tombstone
    /// with number `covered` hides.
    #[inline]
    pub(super) fn if_visible<R>(
        &self,
        found: Found<'v>,
        covered: SeqNo,
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> TableGet<R> {
        let (seqno, kind) = found.version();
        if kind == Kind::Put && seqno >= covered {
            TableGet::Found(take(found))
        } else if kind == Kind::Delete || seqno < covered {
            TableGet::Absent
        } else {
            self.if_unexpired(found, kind, take)
        }
    }

    /// Same, for a visible version that is neither a plain put nor a tombstone. An operand and a
    /// separated value are left to [`Lookup::get_merged`]: they may need files.
    #[cold]
    #[inline(never)]
    fn if_unexpired<R>(
        &self,
        found: Found<'v>,
        kind: Kind,
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> TableGet<R> {
        if kind != Kind::PutExpiring {
            return TableGet::Merge;
        }
        let (time_ms, found) = found.split_time();
        if self.is_expired(time_ms) { TableGet::Absent } else { TableGet::Found(take(found)) }
    }

    /// Returns whether a pair with this time has expired.
    pub(super) fn is_expired(&self, time_ms: u64) -> bool {
        let at_ms = if self.at_ms == NOW { self.rules.clock.now_ms() } else { self.at_ms };
        time_ms <= at_ms
    }

    /// Finds the value of `key` in `read_state` and applies `take` to it in place. Does not merge
    /// operands ([`TableGet::Merge`]). `take` is called at the point where the value is found. If
    /// the location were returned through all callers, each step would store it and reload it with
    /// other access widths, which stalls the processor.
    #[inline]
    pub fn get_with<R>(
        &self,
        read_state: &'v ReadState,
        key: &[u8],
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> Result<TableGet<R>> {
        let mut covered: SeqNo = 0;
        let hash = key_hash(key);
        for memtable in read_state.memtables() {
            if let Some(seqno) = memtable.covering(key, self.seqno) {
                covered = covered.max(seqno);
            }
            if let Some(hit) = memtable.get_hit(key, hash, self.seqno) {
                return Ok(self.if_visible(Found::Memtable(hit), covered, take));
            }
        }
        let mut places = read_state.version.fragments_holding(key);
        let Some((level, fragment)) = places.next() else { return Ok(TableGet::Absent) };
        let Some(second) = places.next() else {
            let Some(table) = self.table(fragment)? else { return Ok(TableGet::NeedsIo) };
            if read_state.version.has_many_entries() {
                return self.get_in_only_table(level, table, (key, hash), covered, take);
            }
            let result = self.get_in_table(level, table, (key, hash), &mut covered, take)?;
            return Ok(result.unwrap_or(TableGet::Absent));
        };
        let places = [(level, fragment), second].into_iter().chain(places);
        self.get_in_tables(places, (key, hash), covered, take)
    }

    /// Returns the value of `key` in `read_state` as a pinned slice, which can be kept
    /// indefinitely.
    pub fn get(&self, read_state: &'v ReadState, key: &[u8]) -> Result<Option<Slice>> {
        match self.get_with(read_state, key, &mut Found::pin)? {
            TableGet::Merge => self.get_merged(read_state, key, &mut Found::pin),
            found => Ok(found.found()),
        }
    }

    /// Returns the table of a fragment. Returns `None` if it is not open and must not be opened.
    #[inline(always)]
    fn table(&self, fragment: &'v Fragment) -> Result<Option<&'v Table>> {
        match fragment.file.opened() {
            Some(table) => Ok(Some(table)),
            None if self.epoch.is_some() => Ok(None),
            None => Ok(Some(self.tables.get(&fragment.file)?)),
        }
    }

    /// Same, where several tables may hold the key. Reads the tables in groups, so that the CPU
    /// cache misses of their filters overlap.
    fn get_in_tables<R>(
        &self,
        mut places: impl Iterator<Item = (usize, &'v Arc<Fragment>)>,
        key: (&[u8], u64),
        mut covered: SeqNo,
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> Result<TableGet<R>> {
        loop {
            let mut group: [Option<(usize, &Table)>; TABLES_AT_ONCE] = [None; TABLES_AT_ONCE];
            for place in &mut group {
                let Some((level, fragment)) = places.next() else { break };
                let Some(table) = self.table(fragment)? else { return Ok(TableGet::NeedsIo) };
                table.prefetch_filter(key.1);
                *place = Some((level, table));
            }
            for (level, table) in group.iter().flatten() {
                if let Some(result) = self.get_in_table(*level, table, key, &mut covered, take)? {
                    return Ok(result);
                }
            }
            if group[TABLES_AT_ONCE - 1].is_none() {
                return Ok(TableGet::Absent);
            }
        }
    }

    /// Reads the key from `table`, the only table that may hold it. Searches the index while the
    /// filter is fetched, not after the filter has passed the key. The function is not cold. The
    /// attribute shortens the code path of small stores, which do not wait for memory.
    #[cold]
    #[inline(never)]
    fn get_in_only_table<R>(
        &self,
        level: usize,
        table: &'v Table,
        (key, hash): (&[u8], u64),
        mut covered: SeqNo,
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> Result<TableGet<R>> {
        table.prefetch_filter(hash);
        let fetch = table.begin_fetch(key);
        if let Some(seqno) = table.covering(key, self.seqno) {
            covered = covered.max(seqno);
        }
        if !table.may_contain(key, hash) {
            return Ok(TableGet::Absent);
        }
        let block = table.finish_fetch(key, fetch);
        let result = table.get_from_block(block, key, self.seqno, self.fill_cache, self.epoch)?;
        Ok(match result {
            TableGet::Found(hit) => self.count_and_take(level, hit, covered, take),
            TableGet::NeedsIo => TableGet::NeedsIo,
            TableGet::Absent | TableGet::Merge => TableGet::Absent,
        })
    }

    /// Reads the key from `table`. Returns `None` if the search continues in the next table.
    #[inline(always)]
    pub(super) fn get_in_table<R>(
        &self,
        level: usize,
        table: &'v Table,
        key: (&[u8], u64),
        covered: &mut SeqNo,
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> Result<Option<TableGet<R>>> {
        if let Some(seqno) = table.covering(key.0, self.seqno) {
            *covered = (*covered).max(seqno);
        }
        // Most lookups of absent keys end here.
        if !table.may_contain(key.0, key.1) {
            return Ok(None);
        }
        self.get_in_block(level, table, key.0, *covered, take)
    }

    /// Same, after the table's filter has passed the key. Versions older than the range tombstone
    /// number `covered` are hidden.
    fn get_in_block<R>(
        &self,
        level: usize,
        table: &'v Table,
        key: &[u8],
        covered: SeqNo,
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> Result<Option<TableGet<R>>> {
        let result = table.get_past_filter(key, self.seqno, self.fill_cache, self.epoch)?;
        Ok(match result {
            TableGet::Found(hit) => Some(self.count_and_take(level, hit, covered, take)),
            TableGet::NeedsIo => Some(TableGet::NeedsIo),
            TableGet::Absent | TableGet::Merge => None,
        })
    }

    /// Applies `take` to a version found in a table of `level`, and counts the level's answer.
    #[inline(always)]
    pub(super) fn count_and_take<R>(
        &self,
        level: usize,
        hit: TableHitRef<'v>,
        covered: SeqNo,
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> TableGet<R> {
        if let Some(counters) = self.counters.levels.get(level) {
            counters.table_gets.add(1);
        }
        self.if_visible(Found::Table(hit), covered, take)
    }
}
