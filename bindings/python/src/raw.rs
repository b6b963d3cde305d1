//! plyvel's `RawIterator`: LevelDB's own iterator, which stands on a key or on none.
//!
//! What stays true: asking for a key where there is none raises; so does everything once closed.

use std::ops::Bound as Limit;
use std::sync::Arc;

use esker::{DbIterator, ReadOptions, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arguments::BytesLike;
use crate::errors;
use crate::guarded::Guarded;
use crate::store::Store;

/// Walks the pairs of a database or a snapshot as LevelDB's iterators do: it stands on a key, or on
/// none at first and beyond either end.
///
/// Made by ``raw_iterator()``. Several threads may share one.
#[pyclass(frozen, weakref, module = "esker")]
pub struct RawIterator {
    store: Arc<Store>,
    cursor: Guarded<Option<DbIterator>>,
}

/// Makes a raw iterator, now or at `snapshot`.
pub fn make(
    py: Python<'_>,
    store: &Arc<Store>,
    snapshot: Option<&esker::Snapshot>,
    fill_cache: bool,
) -> PyResult<RawIterator> {
    let options = ReadOptions { snapshot, fill_cache };
    let everything = (Limit::Unbounded, Limit::Unbounded);
    let cursor = store.run(py, |db| db.iter_with(&options, everything))?;
    Ok(RawIterator { store: store.clone(), cursor: Guarded::new(Some(cursor)) })
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

    /// What the cursor stands on.
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
    /// Whether it stands on a key.
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

    /// Moves to the first key at or behind ``target``.
    fn seek(&self, py: Python<'_>, target: BytesLike<'_>) -> PyResult<()> {
        self.go(py, false, |cursor| cursor.seek(&*target))
    }

    /// Moves to the next key. Raises IteratorInvalidError when it stands on none.
    fn next(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, true, DbIterator::advance)
    }

    /// Moves to the previous key. Raises IteratorInvalidError when it stands on none.
    fn prev(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, true, DbIterator::retreat)
    }

    /// The key it stands on. Raises IteratorInvalidError when it stands on none.
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.here(py, |cursor| Ok(PyBytes::new(py, cursor.key())))
    }

    /// The value of that key. Raises IteratorInvalidError when it stands on none.
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.here(py, |cursor| Ok(PyBytes::new(py, cursor.value())))
    }

    /// That key and its value. Raises IteratorInvalidError when it stands on none.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.here(py, |cursor| {
            PyTuple::new(py, [PyBytes::new(py, cursor.key()), PyBytes::new(py, cursor.value())])
        })
    }

    /// Lets go of the files and the memory. Later calls raise RuntimeError; closing twice is
    /// allowed.
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
