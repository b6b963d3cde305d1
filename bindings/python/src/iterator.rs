//! plyvel's `Iterator`: pairs in order, forwards and backwards.
//!
//! Invariants:
//! 1. The position is between two keys. A step returns the entry that it passes, so `next` followed
//!    by `prev` returns the same entry twice.
//! 2. The step that fails raises the failure.
//! 3. Entries that are read ahead are those that single steps would return. A transaction is not
//!    read ahead, because its iterator shows its later writes.

use std::borrow::Cow;
use std::ops::Bound as Limit;
use std::sync::Arc;

use esker::{Error, KeyBounds, ReadOptions, Result};
use esker_bindings::cursor::Cursor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arguments::{self, BytesLike};
use crate::errors;
use crate::guarded::Guarded;
use crate::part::Part;
use crate::store::Store;
use crate::transaction::Held;

/// Position of the iterator relative to its cursor's key.
#[derive(Clone, Copy)]
enum Gap {
    /// Before every key of the range.
    Start,
    /// Just before the cursor's key.
    Before,
    /// Just after the cursor's key.
    After,
    /// After every key of the range.
    End,
}

/// Maximum number of entries that are read at once.
const AHEAD_MAX: usize = 64;
/// Bytes after which no further entry is read at once.
const AHEAD_BYTES: usize = 32 << 10;

/// What comes after the entries that were read.
#[derive(Default)]
enum Rest {
    /// The cursor is at the last of them.
    #[default]
    Unknown,
    /// The end of the range, in the direction of the steps.
    Nothing,
    Failure(Error),
}

/// Entries that one call of the engine has read, for several steps in one direction.
#[derive(Default)]
struct Ahead {
    is_up: bool,
    /// Whether values are read, and not only keys.
    has_values: bool,
    bytes: Vec<u8>,
    /// The ends of the key and of the value of each entry.
    ends: Vec<(usize, usize)>,
    /// Number of entries that steps have passed: at least 1 if there are entries.
    passed: usize,
    rest: Rest,
    /// Number of entries to read next time.
    size: usize,
}

impl Ahead {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        (self.passed, self.rest) = (0, Rest::Unknown);
    }

    fn push(&mut self, cursor: &Cursor) {
        self.bytes.extend_from_slice(cursor.key());
        let key_end = self.bytes.len();
        if self.has_values {
            self.bytes.extend_from_slice(cursor.value());
        }
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Returns the key and the value of the entry that the last step has passed.
    fn last(&self) -> (&[u8], &[u8]) {
        let Some(at) = self.passed.checked_sub(1) else { return (&[], &[]) };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (key_end, end) = self.ends[at];
        (&self.bytes[start..key_end], &self.bytes[key_end..end])
    }
}

/// A cursor, the entries read from it, and the iterator's position. Without entries that no step
/// has passed, the position is relative to the cursor's key.
struct Walk {
    cursor: Cursor,
    gap: Gap,
    ahead: Ahead,
}

impl Walk {
    /// Passes the next entry in a direction, if it was read before.
    #[inline]
    fn pass(&mut self, up: bool) -> bool {
        let ahead = &mut self.ahead;
        let there = ahead.is_up == up && ahead.passed < ahead.ends.len();
        ahead.passed += usize::from(there);
        there
    }

    /// Passes the next entry in a direction, and reads further ones. Returns false at the end.
    fn read(&mut self, up: bool) -> Result<bool> {
        if !self.ahead.ends.is_empty() && self.ahead.is_up == up {
            let rest = std::mem::take(&mut self.ahead.rest);
            self.ahead.clear();
            match rest {
                Rest::Unknown => {}
                Rest::Nothing => {
                    self.gap = if up { Gap::End } else { Gap::Start };
                    return Ok(false);
                }
                Rest::Failure(error) => return Err(error),
            }
        } else {
            self.settle()?;
            self.ahead.size = 1;
        }
        if !(if up { self.up() } else { self.down() })? {
            return Ok(false);
        }
        let ahead = &mut self.ahead;
        (ahead.is_up, ahead.passed) = (up, 1);
        ahead.push(&self.cursor);
        while matches!(self.cursor, Cursor::Store(_))
            && ahead.ends.len() < ahead.size
            && ahead.bytes.len() < AHEAD_BYTES
        {
            let moved = if up { self.cursor.move_next() } else { self.cursor.move_prev() };
            match moved {
                Ok(()) if self.cursor.valid() => ahead.push(&self.cursor),
                Ok(()) => {
                    ahead.rest = Rest::Nothing;
                    break;
                }
                Err(error) => {
                    ahead.rest = Rest::Failure(error);
                    break;
                }
            }
        }
        ahead.size = (2 * ahead.size).min(AHEAD_MAX);
        Ok(true)
    }

    /// Moves the cursor to the entry that the last step has passed, and forgets further ones.
    fn settle(&mut self) -> Result<()> {
        let is_there =
            self.ahead.passed == self.ahead.ends.len() && matches!(self.ahead.rest, Rest::Unknown);
        if !is_there {
            self.cursor.seek(self.ahead.last().0)?;
            self.gap = if self.ahead.is_up { Gap::After } else { Gap::Before };
        }
        self.ahead.clear();
        Ok(())
    }

    /// Passes the next key and leaves the cursor at it. Returns false at the end.
    fn up(&mut self) -> Result<bool> {
        match self.gap {
            Gap::Start => self.cursor.seek_to_first()?,
            Gap::Before => {}
            Gap::After => self.cursor.move_next()?,
            Gap::End => return Ok(false),
        }
        let valid = self.cursor.valid();
        self.gap = if valid { Gap::After } else { Gap::End };
        Ok(valid)
    }

    /// Passes the previous key and leaves the cursor at it. Returns false at the start.
    fn down(&mut self) -> Result<bool> {
        match self.gap {
            Gap::End => self.cursor.seek_to_last()?,
            Gap::After => {}
            Gap::Before => self.cursor.move_prev()?,
            Gap::Start => return Ok(false),
        }
        let valid = self.cursor.valid();
        self.gap = if valid { Gap::Before } else { Gap::Start };
        Ok(valid)
    }

    /// Moves just before the first key at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.ahead.clear();
        self.ahead.size = 1;
        self.cursor.seek(key)?;
        self.gap = if self.cursor.valid() { Gap::Before } else { Gap::End };
        Ok(())
    }
}

/// Arguments of `iterator()`.
struct Wanted {
    reverse: bool,
    bounds: KeyBounds,
    include_key: bool,
    include_value: bool,
    fill_cache: bool,
}

/// Returns the bounds of the keys that start with `prefix`, in bytewise order.
fn prefix_bounds(prefix: Vec<u8>) -> KeyBounds {
    let mut after = prefix.clone();
    while after.last() == Some(&0xff) {
        after.pop();
    }
    let upper = match after.last_mut() {
        Some(last) => {
            *last += 1;
            Limit::Excluded(after)
        }
        None => Limit::Unbounded,
    };
    let lower = if prefix.is_empty() { Limit::Unbounded } else { Limit::Included(prefix) };
    (lower, upper)
}

impl Wanted {
    /// Parses the keyword arguments, and prepends `root` to every key.
    fn of(given: Option<&Bound<'_, PyDict>>, root: &[u8]) -> PyResult<Wanted> {
        let (mut start, mut stop, mut prefix) = (None, None, None);
        let (mut include_start, mut include_stop) = (true, false);
        let mut wanted = Wanted {
            reverse: false,
            bounds: prefix_bounds(root.to_vec()),
            include_key: true,
            include_value: true,
            fill_cache: true,
        };
        for (name, value) in given.into_iter().flatten() {
            let name = name.extract::<Cow<'_, str>>()?;
            let key = || {
                let key = value.extract::<Option<BytesLike<'_>>>();
                key.map(|key| key.map(|key| key.to_vec()))
                    .map_err(|error| arguments::named(value.py(), &name, error))
            };
            match &*name {
                "reverse" => wanted.reverse = value.is_truthy()?,
                "start" => start = key()?,
                "stop" => stop = key()?,
                "prefix" => prefix = key()?,
                "include_start" => include_start = value.is_truthy()?,
                "include_stop" => include_stop = value.is_truthy()?,
                "include_key" => wanted.include_key = value.is_truthy()?,
                "include_value" => wanted.include_value = value.is_truthy()?,
                "fill_cache" => wanted.fill_cache = value.is_truthy()?,
                "verify_checksums" => {}
                other => {
                    let message = format!("iterator() has no argument '{other}'");
                    return Err(PyTypeError::new_err(message));
                }
            }
        }
        let whole = |key: Vec<u8>| [root, &key].concat();
        if let Some(prefix) = prefix {
            if start.is_some() || stop.is_some() {
                let message = "'prefix' cannot be combined with 'start' or 'stop'";
                return Err(PyTypeError::new_err(message));
            }
            wanted.bounds = prefix_bounds(whole(prefix));
            return Ok(wanted);
        }
        let bound = |include| if include { Limit::Included } else { Limit::Excluded };
        if let Some(start) = start {
            wanted.bounds.0 = bound(include_start)(whole(start));
        }
        if let Some(stop) = stop {
            wanted.bounds.1 = bound(include_stop)(whole(stop));
        }
        Ok(wanted)
    }
}

/// An iterator over the pairs of a database, a keyspace, a prefixed database or a snapshot, in
/// their state at the creation of the iterator, or over the pairs that a transaction reads.
///
/// The position is between two entries: ``next(it)`` returns the entry after it, ``it.prev()`` the
/// entry before it. Created by ``iterator()``. Several threads may share an iterator; each entry
/// goes to one of them. An open iterator keeps files and memory in use, so close long-lived
/// iterators.
#[pyclass(frozen, generic, weakref, module = "esker")]
pub struct Iterator {
    store: Arc<Store>,
    /// The transaction of the iterator.
    held: Option<Arc<Held>>,
    walk: Guarded<Option<Walk>>,
    root: Vec<u8>,
    reverse: bool,
    include_key: bool,
    include_value: bool,
}

/// Creates an iterator over the keys of `part`, in the current state or at `snapshot`.
pub fn make(
    py: Python<'_>,
    part: &Part,
    snapshot: Option<&esker::Snapshot>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Iterator> {
    let wanted = Wanted::of(given, part.root())?;
    let options = ReadOptions::default().snapshot(snapshot).fill_cache(wanted.fill_cache);
    let cursor = part.iter(py, &options, wanted.bounds.clone())?;
    Ok(Iterator::new(part.store(), None, cursor.into(), part.root(), &wanted))
}

/// Creates an iterator over the pairs that a transaction reads, in a keyspace or in the keyspace
/// `default`.
pub fn make_of_transaction(
    py: Python<'_>,
    held: &Arc<Held>,
    keyspace: Option<&esker::Keyspace>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Iterator> {
    let wanted = Wanted::of(given, &[])?;
    let bounds = wanted.bounds.clone();
    let cursor = held.on(py, |transaction| match keyspace {
        None => transaction.range(bounds),
        Some(keyspace) => transaction.range_in(keyspace, bounds),
    })?;
    Ok(Iterator::new(held.store(), Some(held.clone()), cursor.into(), &[], &wanted))
}

impl Drop for Iterator {
    fn drop(&mut self) {
        if self.held.is_some()
            && let Some(walk) = self.walk.get_mut().take()
        {
            self.store.release(walk);
        }
    }
}

impl Iterator {
    fn new(
        store: &Arc<Store>,
        held: Option<Arc<Held>>,
        cursor: Cursor,
        root: &[u8],
        wanted: &Wanted,
    ) -> Iterator {
        let gap = if wanted.reverse { Gap::End } else { Gap::Start };
        let ahead = Ahead { has_values: wanted.include_value, ..Ahead::default() };
        Iterator {
            store: store.clone(),
            held,
            walk: Guarded::new(Some(Walk { cursor, gap, ahead })),
            root: root.to_vec(),
            reverse: wanted.reverse,
            include_key: wanted.include_key,
            include_value: wanted.include_value,
        }
    }

    /// Runs `body` without the interpreter's lock, and then `then` with the lock. If `ready` returns
    /// true, the body is not needed, and does not run.
    #[inline]
    fn on<'py, R>(
        &self,
        py: Python<'py>,
        ready: impl FnOnce(&mut Walk) -> bool,
        body: impl FnOnce(&mut Walk) -> Result<bool> + Send,
        then: impl FnOnce(&Walk) -> R,
    ) -> PyResult<Option<R>> {
        self.store.check_reentry(py)?;
        let mut guard = self.walk.lock(py);
        self.store.check_open("database or iterator")?;
        self.held.as_ref().map_or(Ok(()), |held| held.check_active())?;
        let walk = guard.as_mut().ok_or_else(|| errors::closed("database or iterator"))?;
        let outcome = if ready(walk) { Ok(true) } else { py.detach(|| body(walk)) };
        self.store.check_order(py)?;
        let there = outcome.map_err(|error| errors::raised(py, &error))?;
        Ok(there.then(|| then(walk)))
    }

    #[inline]
    fn step<'py>(&self, py: Python<'py>, up: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let entry = self.on(
            py,
            |walk| walk.pass(up),
            |walk| walk.read(up),
            |walk| self.entry(py, walk.ahead.last()),
        )?;
        entry.transpose()
    }

    #[inline]
    fn entry<'py>(
        &self,
        py: Python<'py>,
        (key, value): (&[u8], &[u8]),
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = || PyBytes::new(py, key.get(self.root.len()..).unwrap_or_default());
        let value = || PyBytes::new(py, value);
        Ok(match (self.include_key, self.include_value) {
            (true, true) => PyTuple::new(py, [key(), value()])?.into_any(),
            (true, false) => key().into_any(),
            (false, true) => value().into_any(),
            (false, false) => py.None().into_bound(py),
        })
    }

    fn stand(&self, py: Python<'_>, gap: Gap) -> PyResult<()> {
        let place = move |walk: &mut Walk| {
            walk.ahead.clear();
            walk.ahead.size = 1;
            walk.gap = gap;
            true
        };
        self.on(py, place, |_| Ok(true), |_| ()).map(drop)
    }
}

#[pymethods]
impl Iterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[inline]
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.step(py, !self.reverse)
    }

    /// Moves one entry back and returns it. This is the entry that the last ``next()`` returned.
    ///
    /// Raises StopIteration at the beginning.
    fn prev<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let entry = self.step(py, self.reverse)?;
        entry.ok_or_else(|| pyo3::exceptions::PyStopIteration::new_err(()))
    }

    /// Moves before the first key of the range, for both directions of the iterator.
    fn seek_to_start(&self, py: Python<'_>) -> PyResult<()> {
        self.stand(py, Gap::Start)
    }

    /// Moves after the last key of the range, for both directions of the iterator.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.stand(py, Gap::End)
    }

    /// Moves just before the first key at or after ``target``, within the range.
    fn seek(&self, py: Python<'_>, target: BytesLike<'_>) -> PyResult<()> {
        let target = [&self.root[..], &target].concat();
        self.on(py, |_| false, |walk| walk.seek(&target).map(|()| true), |_| ()).map(drop)
    }

    /// Releases files and memory. Later steps raise RuntimeError. Closing twice is allowed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.store.check_reentry(py)?;
        let walk = self.walk.lock(py).take();
        py.detach(|| drop(walk));
        Ok(())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}
