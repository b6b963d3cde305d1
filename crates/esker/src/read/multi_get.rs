//! Multi-get: reads many keys in one call. Each step runs for all keys of a group before the next
//! step, so that the memory accesses of one key overlap with the work on the others. (The
//! interleaved searches of Psaropoulos et al., "Interleaving with Coroutines", VLDB 2017, with a
//! loop over the steps instead of one coroutine per key.)
//!
//! Invariants: the result equals that of one get per key at one sequence number. A key that a range
//! tombstone covers in some source, that many tables may hold, or that has merge operands is read
//! by a separate get.

use super::get::{Found, Lookup};
use super::{ReadState, Slice};
use crate::base::prefetch::prefetch_bytes;
use crate::error::Result;
use crate::table::{Fetch, Table, TableGet, key_hash};

/// Number of keys in a group.
const KEYS_AT_ONCE: usize = 16;
/// Maximum number of candidate tables of a key that is read in steps.
const TABLES_MAX: usize = 8;
/// Maximum number of bytes prefetched of a value that was found.
const FETCHED_BYTES_MAX: usize = 256;

/// A table that may hold a key.
#[derive(Clone, Copy)]
struct Candidate<'v> {
    /// Index among the key's candidate tables.
    place: usize,
    level: usize,
    table: &'v Table,
}

/// Progress of a key.
#[derive(Clone, Copy)]
enum Step<'v> {
    /// The key is done: its value, or its absence, is known.
    Done,
    /// The key is read by a separate get.
    Alone,
    /// The candidate tables are known, and their filters are being prefetched.
    Tables,
    /// The index of the first table whose filter passes the key is being prefetched.
    Index(Candidate<'v>, Fetch),
    /// The block with this number in that table is being prefetched.
    Block(Candidate<'v>, usize),
}

/// A pending key.
#[derive(Clone, Copy)]
struct PendingKey<'v, 'k> {
    key: &'k [u8],
    hash: u64,
    /// Candidate tables with their levels, newest first.
    tables: [Option<(usize, &'v Table)>; TABLES_MAX],
    step: Step<'v>,
}

impl<'v> Lookup<'v> {
    /// Returns the values of `keys` in `read_state`, in the order of `keys`.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        read_state: &'v ReadState,
        keys: &[K],
    ) -> Result<Vec<Option<Slice>>> {
        debug_assert!(self.epoch.is_none(), "a pinned reader must not read files");
        let mut found = Vec::new();
        found.resize_with(keys.len(), || None);
        for (keys, found) in keys.chunks(KEYS_AT_ONCE).zip(found.chunks_mut(KEYS_AT_ONCE)) {
            match keys {
                [key] => found[0] = self.get(read_state, key.as_ref())?,
                _ => self.get_group(read_state, keys, found)?,
            }
        }
        Ok(found)
    }

    /// Reads at most [`KEYS_AT_ONCE`] keys to `found`, which has one element per key.
    fn get_group<K: AsRef<[u8]>>(
        &self,
        read_state: &'v ReadState,
        keys: &[K],
        found: &mut [Option<Slice>],
    ) -> Result<()> {
        let pending =
            PendingKey { key: b"", hash: 0, tables: [None; TABLES_MAX], step: Step::Done };
        let mut group = [pending; KEYS_AT_ONCE];
        let group = &mut group[..keys.len()];
        for (pending, key) in group.iter_mut().zip(keys) {
            pending.key = key.as_ref();
            pending.hash = key_hash(pending.key);
            read_state.memtables().for_each(|memtable| memtable.prefetch_filter(pending.hash));
        }
        for (pending, value) in group.iter_mut().zip(&mut *found) {
            pending.step = self.find_tables(read_state, pending, value)?;
        }
        for pending in &mut *group {
            if let Step::Tables = pending.step {
                pending.step = pending.ask_filters();
            }
        }
        for pending in &mut *group {
            if let Step::Index(candidate, fetch) = pending.step {
                let block = candidate.table.finish_fetch(pending.key, fetch);
                pending.step = Step::Block(candidate, block);
            }
        }
        for (pending, value) in group.iter().zip(found) {
            match pending.step {
                Step::Block(candidate, block) => {
                    *value = match self.find_in_block(pending, candidate, block)? {
                        TableGet::Merge => self.get(read_state, pending.key)?,
                        found => found.found(),
                    };
                    if let Some(value) = value {
                        let bytes = value.len().min(FETCHED_BYTES_MAX);
                        prefetch_bytes(value.as_ptr().addr(), bytes);
                    }
                }
                Step::Alone => *value = self.get(read_state, pending.key)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks up a key in the memtables. If they do not hold it, collects the candidate tables and
    /// prefetches their filters.
    fn find_tables(
        &self,
        read_state: &'v ReadState,
        pending: &mut PendingKey<'v, '_>,
        value: &mut Option<Slice>,
    ) -> Result<Step<'v>> {
        let PendingKey { key, hash, .. } = *pending;
        for memtable in read_state.memtables() {
            if memtable.covering(key, self.seqno).is_some() {
                return Ok(Step::Alone);
            }
            if let Some(hit) = memtable.get_hit(key, hash, self.seqno) {
                let found = self.if_visible(Found::Memtable(hit), 0, &mut Found::pin);
                if let TableGet::Merge = found {
                    return Ok(Step::Alone);
                }
                *value = found.found();
                return Ok(Step::Done);
            }
        }
        let mut places = pending.tables.iter_mut();
        for (level, fragment) in read_state.version.fragments_holding(key) {
            let Some(place) = places.next() else { return Ok(Step::Alone) };
            let table = self.tables.get(&fragment.file)?;
            if table.covering(key, self.seqno).is_some() {
                return Ok(Step::Alone);
            }
            table.prefetch_filter(hash);
            *place = Some((level, table));
        }
        Ok(Step::Tables)
    }

    /// Reads a key from `block` of `candidate`, or else from the older candidate tables.
    fn find_in_block(
        &self,
        pending: &PendingKey<'v, '_>,
        Candidate { place, level, table }: Candidate<'v>,
        block: usize,
    ) -> Result<TableGet<Slice>> {
        let result = table.get_from_block(block, pending.key, self.seqno, self.fill_cache, None)?;
        if let TableGet::Found(hit) = result {
            return Ok(self.count_and_take(level, hit, 0, &mut Found::pin));
        }
        for (level, table) in pending.tables[place + 1..].iter().flatten() {
            let key = (pending.key, pending.hash);
            if let Some(result) = self.get_in_table(*level, table, key, &mut 0, &mut Found::pin)? {
                return Ok(result);
            }
        }
        Ok(TableGet::Absent)
    }
}

impl<'v> PendingKey<'v, '_> {
    /// Returns the first table whose filter passes the key, if any, and prefetches its index.
    #[inline]
    fn ask_filters(&self) -> Step<'v> {
        for (place, &(level, table)) in self.tables.iter().flatten().enumerate() {
            if table.may_contain(self.key, self.hash) {
                let fetch = table.begin_fetch(self.key);
                return Step::Index(Candidate { place, level, table }, fetch);
            }
        }
        Step::Done
    }
}
