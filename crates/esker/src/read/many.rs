//! Many keys in one call: each step is done for all of a group before the next, so that what one key
//! waits for of memory comes while the others are looked for (as the interleaved searches of Psaropoulos
//! et al., "Interleaving with Coroutines", VLDB 2017, in a loop a step in place of a coroutine a key).
//!
//! What stays true: what is found is what a get of each key finds, at one sequence number. A key that a
//! range tombstone covers somewhere, or that many tables may hold, is looked for by a get of its own.

use super::get::{Look, Lookup, shown};
use super::{Slice, View};
use crate::base::prefetch::prefetch_bytes;
use crate::error::Result;
use crate::table::{Fetch, Looked, Table, key_hash};

/// How many keys are looked for beside one another.
const KEYS_AT_ONCE: usize = 16;
/// How many tables may hold a key that is looked for in steps.
const TABLES_MAX: usize = 8;
/// What is asked for of a value that was found, at most.
const FETCHED_BYTES_MAX: usize = 256;

/// How far a key is.
#[derive(Clone, Copy)]
enum Step<'v> {
    /// Its value is known, or that it has none.
    Done,
    /// It is looked for by itself.
    Alone,
    /// One of its first so many tables may hold it.
    Tables(usize),
    /// The table at this place may, whose index is being fetched.
    Index(usize, Fetch),
    /// The same, whose block of this number is.
    Block(usize, &'v Table, usize),
}

/// A key that is looked for.
#[derive(Clone, Copy)]
struct Sought<'v> {
    hash: u64,
    /// With their levels, newest first.
    tables: [Option<(usize, &'v Table)>; TABLES_MAX],
    step: Step<'v>,
}

impl<'v> Lookup<'v> {
    /// The values of `keys` in `view`, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        view: &'v View,
        keys: &[K],
    ) -> Result<Vec<Option<Slice>>> {
        debug_assert!(self.reading.is_none(), "files may have to be read");
        let mut found = Vec::with_capacity(keys.len());
        for group in keys.chunks(KEYS_AT_ONCE) {
            match group {
                [key] => found.push(self.get(view, key.as_ref())?),
                _ => self.get_group(view, group, &mut found)?,
            }
        }
        Ok(found)
    }

    /// [`Lookup::multi_get`] of at most [`KEYS_AT_ONCE`] keys.
    fn get_group<K: AsRef<[u8]>>(
        &self,
        view: &'v View,
        keys: &[K],
        found: &mut Vec<Option<Slice>>,
    ) -> Result<()> {
        let mut group =
            [Sought { hash: 0, tables: [None; TABLES_MAX], step: Step::Done }; KEYS_AT_ONCE];
        let first = found.len();
        found.resize_with(first + keys.len(), || None);
        let found = &mut found[first..];
        for (sought, key) in group.iter_mut().zip(keys) {
            sought.hash = key_hash(key.as_ref());
            view.memtables().for_each(|memtable| memtable.prefetch_filter(sought.hash));
        }
        for ((sought, key), value) in group.iter_mut().zip(keys).zip(&mut *found) {
            sought.step = self.find_tables(view, key.as_ref(), sought, value)?;
        }
        for (sought, key) in group.iter_mut().zip(keys) {
            if let Step::Tables(count) = sought.step {
                sought.step = sought.ask_filters(key.as_ref(), count);
            }
        }
        for (sought, key) in group.iter_mut().zip(keys) {
            if let Step::Index(place, fetch) = sought.step
                && let Some((_, table)) = sought.tables[place]
            {
                let block = table.finish_fetch(key.as_ref(), fetch);
                sought.step = Step::Block(place, table, block);
            }
        }
        for ((sought, key), value) in group.iter().zip(keys).zip(found) {
            match sought.step {
                Step::Block(place, table, block) => {
                    *value = self.find_in_block(key.as_ref(), sought, (place, table, block))?;
                    if let Some(value) = value {
                        let bytes = value.len().min(FETCHED_BYTES_MAX);
                        prefetch_bytes(value.as_ptr().addr(), bytes);
                    }
                }
                Step::Alone => *value = self.get(view, key.as_ref())?,
                _ => {}
            }
        }
        Ok(())
    }

    /// What the memtables have of a key, or else the tables that may have it, whose filters are asked for.
    fn find_tables(
        &self,
        view: &'v View,
        key: &[u8],
        sought: &mut Sought<'v>,
        value: &mut Option<Slice>,
    ) -> Result<Step<'v>> {
        for memtable in view.memtables() {
            if memtable.covering(key, self.seqno).is_some() {
                return Ok(Step::Alone);
            }
            if let Some(hit) = memtable.look(key, sought.hash, self.seqno) {
                *value = shown(Look::Memtable(hit), 0, &mut Look::pin).found();
                return Ok(Step::Done);
            }
        }
        let mut count = 0;
        for (level, fragment) in view.version.fragments_holding(key) {
            let Some(place) = sought.tables.get_mut(count) else { return Ok(Step::Alone) };
            let table = self.tables.get(&fragment.file)?;
            if table.range_deletes().covering(self.order, key, self.seqno).is_some() {
                return Ok(Step::Alone);
            }
            table.prefetch_filter(sought.hash);
            *place = Some((level, table));
            count += 1;
        }
        Ok(Step::Tables(count))
    }

    /// The value of a key in the block where the first table has it that may, or in a table behind that.
    fn find_in_block(
        &self,
        key: &[u8],
        sought: &Sought<'v>,
        (place, table, block): (usize, &'v Table, usize),
    ) -> Result<Option<Slice>> {
        let looked = table.look_from(block, key, self.seqno, self.fill_cache, None)?;
        if let Looked::Found(look) = looked {
            let level = sought.tables[place].map_or(usize::MAX, |(level, _)| level);
            if let Some(counters) = self.counters.levels.get(level) {
                counters.table_gets.add(1);
            }
            return Ok(shown(Look::Table(look), 0, &mut Look::pin).found());
        }
        for (level, table) in sought.tables[place + 1..].iter().flatten() {
            let key = (key, sought.hash);
            if let Some(looked) = self.look_into(*level, table, key, &mut 0, &mut Look::pin)? {
                return Ok(looked.found());
            }
        }
        Ok(None)
    }
}

impl<'v> Sought<'v> {
    /// Which of the first `count` tables is to be looked into first, if any.
    #[inline]
    fn ask_filters(&self, key: &[u8], count: usize) -> Step<'v> {
        for (place, (_, table)) in self.tables[..count].iter().flatten().enumerate() {
            if table.may_contain(key, self.hash) {
                return Step::Index(place, table.begin_fetch(key));
            }
        }
        Step::Done
    }
}
