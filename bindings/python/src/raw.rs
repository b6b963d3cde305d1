//! plyvel's `RawIterator`: LevelDB's iterator, which is either at a key or invalid.
//!
//! Invariants: reading the key of an invalid iterator raises; every call except `close` raises
//! after the close.

use std::ops::Bound as Limit;
use std::sync::Arc;

use esker::{DbIterator, ReadOptions, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arguments::BytesLike;
use crate::errors;
use crate::guarded::Guarded;
use crate::part::Part;
use crate::store::Store;

/// An iterator over the pairs of a database, a keyspace or a snapshot with LevelDB's semantics. It
/// is at a key, or invalid: before the first seek, and past either end.
///
/// Created by ``raw_iterator()``. Several threads may share a raw iterator.
#[pyclass(frozen, weakref, module = "esker")]
pub struct RawIterator {
    store: Arc<Store>,
    cursor: Guarded<Option<DbIterator>>,
}

/// Creates a raw iterator over the keyspace of `part`, in the current state or at `snapshot`.
pub fn make(
    py: Python<'_>,
    part: &Part,
    snapshot: Option<&esker::Snapshot>,
    fill_cache: bool,
) -> PyResult<RawIterator> {
    let options = ReadOptions::default().snapshot(snapshot).fill_cache(fill_cache);
    let everything = (Limit::Unbounded, Limit::Unbounded);
    let cursor = part.iter(py, &options, everything)?;
    Ok(RawIterator { store: part.store().clone(), cursor: Guarded::new(Some(cursor)) })
}

impl RawIterator {
    /// Runs `body` on the cursor with the interpreter's lock.
    fn look<R>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut DbIterator) -> PyResult<R>,
    ) -> PyResult<R> {
        self.store.check_reentry(py)?;
        let mut guard = self.cursor.lock(py);
        self.store.check_open("database or iterator")?;
        body(guard.as_mut().ok_or_else(|| errors::closed("database or iterator"))?)
    }

    /// Moves the cursor without the interpreter's lock.
    fn go(
        &self,
        py: Python<'_>,
        from_a_key: bool,
        body: impl FnOnce(&mut DbIterator) -> Result<()> + Send,
    ) -> PyResult<()> {
        self.look(py, |cursor| {
            if from_a_key && !cursor.valid() {
                return Err(errors::nowhere(py));
            }
            let outcome = py.detach(|| body(cursor));
            self.store.check_order(py)?;
            outcome.map_err(|error| errors::raised(py, &error))
        })
    }

    /// Runs `show` on the cursor, or raises if it is not at a key.
    fn here<R>(
        &self,
        py: Python<'_>,
        show: impl FnOnce(&DbIterator) -> PyResult<R>,
    ) -> PyResult<R> {
        self.look(py, |cursor| match cursor.valid() {
            true => show(cursor),
            false => Err(errors::nowhere(py)),
        })
    }
}

#[pymethods]
impl RawIterator {
    /// Returns whether the iterator is at a key.
    fn valid(&self, py: Python<'_>) -> PyResult<bool> {
        self.look(py, |cursor| Ok(cursor.valid()))
    }

    /// Moves to the first key.
    fn seek_to_first(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, false, DbIterator::seek_to_first)
    }

    /// Moves to the last key.
    fn seek_to_last(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, false, DbIterator::seek_to_last)
    }

    /// Moves to the first key at or after ``target``.
    fn seek(&self, py: Python<'_>, target: BytesLike<'_>) -> PyResult<()> {
        self.go(py, false, |cursor| cursor.seek(&*target))
    }

    /// Moves to the next key. Raises IteratorInvalidError if the iterator is not at a key.
    fn next(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, true, DbIterator::move_next)
    }

    /// Moves to the previous key. Raises IteratorInvalidError if the iterator is not at a key.
    fn prev(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, true, DbIterator::move_prev)
    }

    /// Returns the current key. Raises IteratorInvalidError if the iterator is not at a key.
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.here(py, |cursor| Ok(PyBytes::new(py, cursor.key())))
    }

    /// Returns the current value. Raises IteratorInvalidError if the iterator is not at a key.
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.here(py, |cursor| Ok(PyBytes::new(py, cursor.value())))
    }

    /// Returns the time at which the current pair expires, in seconds since 1970, or None if it does
    /// not expire. Raises IteratorInvalidError if the iterator is not at a key. Not in plyvel.
    fn expiry(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.here(py, |cursor| Ok(cursor.expires_ms().map(|ms| ms as f64 / 1000.0)))
    }

    /// Returns the current pair. Raises IteratorInvalidError if the iterator is not at a key.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.here(py, |cursor| {
            PyTuple::new(py, [PyBytes::new(py, cursor.key()), PyBytes::new(py, cursor.value())])
        })
    }

    /// Releases files and memory. Later calls raise RuntimeError. Closing twice is allowed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.store.check_reentry(py)?;
        let cursor = self.cursor.lock(py).take();
        py.detach(|| drop(cursor));
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
