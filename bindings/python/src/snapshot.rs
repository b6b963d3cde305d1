//! plyvel's `Snapshot`.
//!
//! Invariants:
//! 1. A snapshot reads the state at its creation. It raises if it or its database is closed.
//! 2. No thread releases an engine's snapshot while it holds the interpreter's lock. The release
//!    takes the lock of the list of snapshots. Another thread may hold that one while its clock
//!    waits for the interpreter's lock.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use esker::{ReadOptions, internals};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arguments::BytesLike;
use crate::errors;
use crate::iterator::{self, Iterator};
use crate::keyspace::Keyspace;
use crate::part::{self, Part};
use crate::raw::{self, RawIterator};
use crate::store::Store;

/// A snapshot of the engine.
pub struct Held {
    store: Arc<Store>,
    /// Some until the drop.
    snapshot: Option<esker::Snapshot>,
}

impl Held {
    fn new(part: &Part, snapshot: esker::Snapshot) -> ArcSwapOption<Held> {
        let (store, snapshot) = (part.store().clone(), Some(snapshot));
        ArcSwapOption::from_pointee(Held { store, snapshot })
    }

    /// Returns the snapshot.
    pub fn get(&self) -> PyResult<&esker::Snapshot> {
        self.snapshot.as_ref().ok_or_else(|| errors::closed("database or snapshot"))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.store.release(self.snapshot.take());
    }
}

/// The state of the database at the call of ``snapshot()``.
///
/// Its data stays on disk until it is closed, so an old snapshot takes disk space. Many threads may
/// use a snapshot concurrently.
#[pyclass(frozen, weakref, module = "esker")]
pub struct Snapshot {
    part: Part,
    snapshot: ArcSwapOption<Held>,
}

/// Creates a snapshot that shows the keys of `part`.
pub fn make(py: Python<'_>, part: &Part) -> PyResult<Snapshot> {
    let snapshot = part.store().run(py, internals::snapshot)?;
    Ok(Snapshot { part: part.clone(), snapshot: Held::new(part, snapshot) })
}

/// Creates a snapshot that shows the keys of `part`. Returns its position in the change feed too.
pub fn make_with_position(py: Python<'_>, part: &Part) -> PyResult<(Snapshot, u64)> {
    let (snapshot, position) = part.store().run(py, internals::snapshot_with_position)?;
    Ok((Snapshot { part: part.clone(), snapshot: Held::new(part, snapshot) }, position))
}

impl Snapshot {
    /// Returns the store and the engine's snapshot.
    pub fn held_with_store(&self) -> PyResult<(Arc<Store>, Arc<Held>)> {
        Ok((self.part.store().clone(), self.held()?))
    }

    fn held(&self) -> PyResult<Arc<Held>> {
        self.part.store().check_open("database or snapshot")?;
        self.snapshot.load_full().ok_or_else(|| errors::closed("database or snapshot"))
    }

    fn value<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        fill_cache: bool,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let snapshot = self.held()?;
        let options = ReadOptions::default().snapshot(snapshot.get()?).fill_cache(fill_cache);
        self.part.get(py, key, &options)
    }
}

#[pymethods]
impl Snapshot {
    /// Returns the value of ``key`` in the snapshot, or ``default``. Takes the options of
    /// ``DB.get``.
    #[pyo3(signature = (key, default=None, *, verify_checksums=None, fill_cache=true))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: BytesLike<'_>,
        default: Option<Bound<'py, PyAny>>,
        verify_checksums: Option<&Bound<'py, PyAny>>,
        fill_cache: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = verify_checksums;
        Ok(self.value(py, &key, fill_cache)?.map(Bound::into_any).or(default))
    }

    /// Returns the values of many keys in the snapshot; see ``DB.get_many``. Not in plyvel.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        keys.iter().map(|key| self.value(py, &key.extract::<BytesLike<'_>>()?, true)).collect()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        let value = self.value(py, &key.extract::<BytesLike<'_>>()?, true)?;
        value.map(|value| value.into_any().unbind()).ok_or_else(|| part::no_key(key))
    }

    fn __contains__(&self, py: Python<'_>, key: BytesLike<'_>) -> PyResult<bool> {
        Ok(self.value(py, &key, true)?.is_some())
    }

    /// The position of the snapshot in the change feed: the sequence number of the last operation that
    /// it shows. Not in plyvel.
    #[getter]
    fn position(&self) -> PyResult<u64> {
        Ok(self.held()?.get()?.seqno())
    }

    /// Returns an iterator over the pairs of the snapshot. Takes the arguments of ``DB.iterator``.
    #[pyo3(
        signature = (**arguments),
        text_signature = "($self, *, reverse=False, start=None, stop=None, include_start=True, \
            include_stop=False, prefix=None, include_key=True, include_value=True, \
            verify_checksums=None, fill_cache=True)"
    )]
    fn iterator(
        &self,
        py: Python<'_>,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Iterator> {
        iterator::make(py, &self.part, Some(self.held()?.get()?), arguments)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.iterator(py, None)
    }

    /// Returns a raw iterator over the pairs of the snapshot, for the whole database or keyspace.
    #[pyo3(signature = (*, verify_checksums=None, fill_cache=true))]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<&Bound<'_, PyAny>>,
        fill_cache: bool,
    ) -> PyResult<RawIterator> {
        let _ = verify_checksums;
        raw::make(py, &self.part, Some(self.held()?.get()?), fill_cache)
    }

    /// Returns a snapshot of the same moment that shows ``keyspace``. Each of the two is closed
    /// separately. Not in plyvel.
    fn keyspace(&self, keyspace: &Keyspace) -> PyResult<Snapshot> {
        let snapshot = ArcSwapOption::new(Some(self.held()?));
        Ok(Snapshot { part: keyspace.part.clone(), snapshot })
    }

    /// Releases the snapshot's data. Later calls raise RuntimeError. Closing twice is allowed.
    fn close(&self) {
        drop(self.snapshot.swap(None));
    }

    /// The same as ``close()``.
    fn release(&self) {
        self.close();
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }
}
