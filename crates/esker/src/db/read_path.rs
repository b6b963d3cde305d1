//! Read path of an open store: gets and iterators over the current read state.
//!
//! Lock rules: a read takes no lock but that of a shard of the cache, if a table has its index in
//! partitions. A get pins the epoch while it uses cached blocks and releases the pin before it reads a
//! file. Every other read holds a reference to the read state.

use std::cell::Cell;
use std::ops::Bound;

use super::state::DbInner;
use super::tree::InKeyspace;
use crate::base::epoch::EpochGuard;
use crate::base::expiry::Moment;
use crate::base::order::KeyOrder;
use crate::error::{Error, Result};
use crate::iter::operands::Resolver;
use crate::perf;
use crate::read::get::{Found, Lookup, NOW};
use crate::read::scan::{DbIterator, KeyBounds, prefix_bounds};
use crate::read::value_reader::ValueReader;
use crate::read::{ReadState, Slice};
use crate::table::TableGet;

/// Maximum length, in bytes, of a value that is copied for a visitor.
const COPIED_BYTES_MAX: usize = 4 << 10;

crate::base::sync::thread_local! {
    /// Buffer for values that are copied for a visitor.
    static COPY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl DbInner {
    /// Returns the result of `take` on the value of `key` at `at`, or now. `take` must be short:
    /// it may run inside an epoch pin, which delays freeing unused memory.
    #[inline]
    pub fn get_map<R>(
        &self,
        of: Option<InKeyspace<'_>>,
        key: &[u8],
        at: Option<Moment>,
        fill_cache: bool,
        mut take: impl FnMut(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        self.check_open()?;
        if perf::is_watched() && perf::is_mine() {
            return self.get_map_counted(of, key, at, fill_cache, take);
        }
        if self.cache.has_slots() {
            let reading = self.read_state.collector().pin();
            // Load the read state before the sequence number: see `read`.
            let view = self.read_state.load_pinned(&reading);
            let Some(view) = state_of(view, of) else { return Ok(None) };
            let lookup = self.lookup(of, at, fill_cache, Some(&reading));
            match lookup.get_with(view, key, &mut take)? {
                TableGet::Found(taken) => return Ok(Some(taken)),
                TableGet::Absent => return Ok(None),
                // Operands of a merge may be in files, too.
                TableGet::NeedsIo | TableGet::Merge => {}
            }
        }
        // The pin is released before a file is read, because others wait for it.
        let view = self.read_state.load();
        let Some(view) = state_of(&view, of) else { return Ok(None) };
        let lookup = self.lookup(of, at, fill_cache, None);
        match lookup.get_with(view, key, &mut take)? {
            TableGet::Merge => lookup.get_merged(view, key, &mut take),
            found => Ok(found.found()),
        }
    }

    /// Does the same as [`DbInner::get_map`], and counts its steps for this thread.
    #[cold]
    #[inline(never)]
    fn get_map_counted<R>(
        &self,
        of: Option<InKeyspace<'_>>,
        key: &[u8],
        at: Option<Moment>,
        fill_cache: bool,
        mut take: impl FnMut(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        let view = self.read_state.load();
        let Some(view) = state_of(&view, of) else { return Ok(None) };
        self.lookup(of, at, fill_cache, None).get_counted(view, key, &mut take)
    }

    /// Returns the value of `key` at `at`, or now.
    #[inline]
    pub fn get_at(
        &self,
        of: Option<InKeyspace<'_>>,
        key: &[u8],
        at: Option<Moment>,
        fill_cache: bool,
    ) -> Result<Option<Slice>> {
        self.get_map(of, key, at, fill_cache, |found| found.pin())
    }

    /// Appends the value of `key` at `at`, or now, to `out`. A value longer than
    /// [`COPIED_BYTES_MAX`] is pinned and returned instead.
    #[inline]
    pub fn copy_at(
        &self,
        of: Option<InKeyspace<'_>>,
        key: &[u8],
        at: Option<Moment>,
        fill_cache: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Option<Slice>>> {
        self.get_map(of, key, at, fill_cache, |found| {
            let value = found.value();
            if value.len() > COPIED_BYTES_MAX {
                return Some(found.pin());
            }
            out.extend_from_slice(value);
            None
        })
    }

    /// Returns the result of `visit` on the value of `key` at `at`, or now. However long `visit`
    /// runs, it keeps only its own value in memory.
    #[inline]
    pub fn read_at<R>(
        &self,
        of: Option<InKeyspace<'_>>,
        key: &[u8],
        at: Option<Moment>,
        fill_cache: bool,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        // Taken out of the thread-local, so that `visit` may read, too.
        let mut copy = COPY.try_with(Cell::take).unwrap_or_default();
        copy.clear();
        let found = self.copy_at(of, key, at, fill_cache, &mut copy)?;
        let result = found.map(|pinned| visit(pinned.as_deref().unwrap_or(&copy)));
        let _ = COPY.try_with(|place| place.set(copy));
        Ok(result)
    }

    /// Returns a reader of the value of `key` now.
    pub fn reader_at(&self, of: Option<InKeyspace<'_>>, key: &[u8]) -> Result<Option<ValueReader>> {
        self.check_open()?;
        let view = self.read_state.load();
        let Some(view) = state_of(&view, of) else { return Ok(None) };
        let lookup = self.lookup(of, None, true, None);
        let found = match lookup.get_with(view, key, &mut Found::pin)? {
            TableGet::Merge => match lookup.open_streamed(view, key)? {
                Some(value) => return Ok(Some(ValueReader::of_pieces(value))),
                None => lookup.get_merged(view, key, &mut Found::pin)?,
            },
            found => found.found(),
        };
        Ok(found.map(ValueReader::of_slice))
    }

    /// Returns the values of `keys` at `at`, or all as of one moment.
    pub fn multi_get_at<K: AsRef<[u8]>>(
        &self,
        of: Option<InKeyspace<'_>>,
        keys: &[K],
        at: Option<Moment>,
        fill_cache: bool,
    ) -> Result<Vec<Option<Slice>>> {
        self.check_open()?;
        let view = self.read_state.load();
        let Some(view) = state_of(&view, of) else {
            return Ok(keys.iter().map(|_| None).collect());
        };
        let lookup = self.lookup(of, at, fill_cache, None);
        if perf::is_watched() && perf::is_mine() {
            let get = |key: &K| lookup.get_counted(view, key.as_ref(), &mut Found::pin);
            return keys.iter().map(get).collect();
        }
        lookup.multi_get(view, keys)
    }

    #[inline]
    fn lookup<'a>(
        &'a self,
        of: Option<InKeyspace<'a>>,
        at: Option<Moment>,
        fill_cache: bool,
        reading: Option<&'a EpochGuard<'a>>,
    ) -> Lookup<'a> {
        Lookup {
            tables: of.map_or(&self.tables, |of| &of.tree.tables),
            counters: &self.counters,
            rules: of.map_or(&self.rules, |of| of.rules),
            seqno: at.map_or_else(|| self.visible_seqno(), |at| at.seqno),
            at_ms: at.map_or(NOW, |at| at.at_ms),
            fill_cache,
            epoch: reading,
        }
    }

    /// Returns an iterator over the stored pairs of a keyspace within `bounds` at `at`, or now.
    pub fn iter_at(
        &self,
        of: Option<InKeyspace<'_>>,
        bounds: KeyBounds,
        at: Option<Moment>,
        fill_cache: bool,
    ) -> Result<DbIterator> {
        self.check_open()?;
        // This sequence number first, the hints last: see `iter::hints`.
        let hints_seqno = at.map_or_else(|| self.visible_seqno(), |at| at.seqno);
        let read_state = self.read_state.load();
        let Moment { seqno, at_ms } = at.unwrap_or_else(|| self.present());
        let rules = of.map_or(&self.rules, |of| of.rules);
        let moment = (seqno, Resolver::new(rules, at_ms));
        let (tables, hints, read_state) = match of {
            None => (&self.tables, &self.hints, read_state),
            Some(InKeyspace { tree, .. }) => {
                let read_state = read_state.other(tree.id).cloned();
                let missing = || Error::invalid("the tree does not exist");
                (&tree.tables, &tree.hints, read_state.ok_or_else(missing)?)
            }
        };
        let hints = hints.get();
        let mut iter = DbIterator::new(read_state, tables, moment, bounds, fill_cache)?;
        if let Some(hints) = hints {
            iter.set_hints(hints, hints_seqno);
        }
        iter.report_empty_ranges(hints_seqno);
        Ok(iter)
    }

    /// Returns the present moment. Its time is 0 while no pair of the store expires.
    #[inline]
    pub fn present(&self) -> Moment {
        // The sequence number comes first: see `StoreClock::now_if_used_ms`.
        let seqno = self.visible_seqno();
        Moment { seqno, at_ms: self.rules.clock.now_if_used_ms() }
    }
}

/// Returns the read state of the tree of a keyspace; of tree 0 for `None`.
#[inline]
fn state_of<'a>(view: &'a ReadState, of: Option<InKeyspace<'_>>) -> Option<&'a ReadState> {
    match of {
        None => Some(view),
        Some(of) => view.other(of.tree.id).map(|other| &**other),
    }
}

/// Returns the bounds of the users' keys that start with `prefix`, in the order `order`.
pub(crate) fn bounds_of_prefix(order: &KeyOrder, prefix: &[u8]) -> Result<KeyBounds> {
    if prefix.is_empty() {
        return Ok((Bound::Unbounded, Bound::Unbounded));
    }
    prefix_bounds(order, prefix).ok_or_else(|| {
        Error::invalid(format!(
            "the key order {} may separate keys with the same prefix; use a range",
            order.name()
        ))
    })
}
