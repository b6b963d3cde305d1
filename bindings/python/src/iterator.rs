//! plyvel's `Iterator`: pairs in order, forwards and backwards.
//!
//! Invariants:
//! 1. The position is between two keys. A step returns the entry that it passes, so `next` followed
//!    by `prev` returns the same entry twice.
//! 2. The step that fails raises the failure.

use std::borrow::Cow;
use std::ops::Bound as Limit;
use std::sync::Arc;

use esker::{KeyBounds, ReadOptions, Result};
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

/// A cursor, and the iterator's position relative to it.
struct Walk {
    cursor: Cursor,
    gap: Gap,
}

impl Walk {
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
#[pyclass(frozen, weakref, module = "esker")]
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
        Iterator {
            store: store.clone(),
            held,
            walk: Guarded::new(Some(Walk { cursor, gap })),
            root: root.to_vec(),
            reverse: wanted.reverse,
            include_key: wanted.include_key,
            include_value: wanted.include_value,
        }
    }

    /// Runs `body` without the interpreter's lock, and then `then` with the lock.
    #[inline]
    fn on<'py, T: Send, R>(
        &self,
        py: Python<'py>,
        body: impl FnOnce(&mut Walk) -> Result<T> + Send,
        then: impl FnOnce(&Walk, T) -> R,
    ) -> PyResult<R> {
        self.store.check_reentry(py)?;
        let mut guard = self.walk.lock(py);
        self.store.check_open("database or iterator")?;
        self.held.as_ref().map_or(Ok(()), |held| held.check_active())?;
        let walk = guard.as_mut().ok_or_else(|| errors::closed("database or iterator"))?;
        let outcome = py.detach(|| body(walk));
        self.store.check_order(py)?;
        Ok(then(walk, outcome.map_err(|error| errors::raised(py, &error))?))
    }

    #[inline]
    fn step<'py>(&self, py: Python<'py>, up: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let entry = self.on(
            py,
            |walk| if up { walk.up() } else { walk.down() },
            |walk, there| there.then(|| self.entry(py, &walk.cursor)),
        )?;
        entry.transpose()
    }

    #[inline]
    fn entry<'py>(&self, py: Python<'py>, cursor: &Cursor) -> PyResult<Bound<'py, PyAny>> {
        let key = || PyBytes::new(py, cursor.key().get(self.root.len()..).unwrap_or_default());
        let value = || PyBytes::new(py, cursor.value());
        Ok(match (self.include_key, self.include_value) {
            (true, true) => PyTuple::new(py, [key(), value()])?.into_any(),
            (true, false) => key().into_any(),
            (false, true) => value().into_any(),
            (false, false) => py.None().into_bound(py),
        })
    }

    fn stand(&self, py: Python<'_>, gap: Gap) -> PyResult<()> {
        let place = move |walk: &mut Walk| {
            walk.gap = gap;
            Ok(())
        };
        self.on(py, place, |_, ()| ())
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
        self.on(py, |walk| walk.seek(&target), |_, ()| ())
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
