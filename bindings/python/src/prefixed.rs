//! plyvel's `PrefixedDB`: the part of a database whose keys share a prefix.
//!
//! Invariants:
//! 1. The prefix is prepended to argument keys and removed from returned keys.
//! 2. Keys without the prefix are neither read nor changed.

use esker::ReadOptions;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arguments::BytesLike;
use crate::batch::{self, WriteBatch};
use crate::db::{self, DB, write_options};
use crate::iterator::{self, Iterator};
use crate::snapshot::{self, Snapshot};

/// The keys of a database that start with a prefix, as a separate database.
///
/// Created by ``prefixed_db()``. The methods are those of ``DB``.
#[pyclass(frozen, weakref, module = "esker")]
pub struct PrefixedDB {
    /// The underlying database.
    #[pyo3(get)]
    db: Py<DB>,
    /// The prefix of each key.
    #[pyo3(get)]
    prefix: Py<PyBytes>,
}

impl PrefixedDB {
    pub fn make(db: Py<DB>, prefix: Bound<'_, PyBytes>) -> PrefixedDB {
        PrefixedDB { db, prefix: prefix.unbind() }
    }

    fn key(&self, py: Python<'_>, key: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(py), key].concat()
    }
}

#[pymethods]
impl PrefixedDB {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (prefix, db) = (self.prefix.bind(py).repr()?, self.db.bind(py).repr()?);
        Ok(format!("<esker.PrefixedDB with prefix {prefix} of {db}>"))
    }

    /// See ``DB.get``.
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
        let options = ReadOptions::default().snapshot(None).fill_cache(fill_cache);
        let value = db::get(py, &self.db.get().store, &self.key(py, &key), &options)?;
        Ok(value.map(Bound::into_any).or(default))
    }

    /// See ``DB.put``.
    #[pyo3(signature = (key, value, *, sync=false))]
    fn put(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
        sync: bool,
    ) -> PyResult<()> {
        let key = self.key(py, &key);
        self.db.get().store.run(py, |db| db.put_with(&key, &*value, &write_options(sync)))
    }

    /// See ``DB.delete``.
    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: BytesLike<'_>, sync: bool) -> PyResult<()> {
        let key = self.key(py, &key);
        self.db.get().store.run(py, |db| db.delete_with(&key, &write_options(sync)))
    }

    /// See ``DB.write_batch``.
    #[pyo3(signature = (*, transaction=false, sync=false))]
    fn write_batch(&self, py: Python<'_>, transaction: bool, sync: bool) -> PyResult<WriteBatch> {
        let prefix = self.prefix.as_bytes(py);
        batch::make(&self.db.get().store, prefix, transaction, write_options(sync))
    }

    /// See ``DB.iterator``. Returned keys do not have the prefix.
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
        iterator::make(py, &self.db.get().store, None, self.prefix.as_bytes(py), arguments)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.iterator(py, None)
    }

    /// See ``DB.snapshot``. The snapshot contains only the keys with the prefix.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        snapshot::make(py, &self.db.get().store, self.prefix.as_bytes(py))
    }

    /// Returns a part of this part; ``prefix`` is appended to this prefix.
    fn prefixed_db(&self, py: Python<'_>, prefix: BytesLike<'_>) -> PrefixedDB {
        PrefixedDB::make(self.db.clone_ref(py), PyBytes::new(py, &self.key(py, &prefix)))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        let whole = self.key(py, &key.extract::<BytesLike<'_>>()?);
        db::item(py, &self.db.get().store, &whole, key)
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
    ) -> PyResult<()> {
        self.put(py, key, value, false)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let whole = self.key(py, &key.extract::<BytesLike<'_>>()?);
        db::remove(py, &self.db.get().store, &whole, key)
    }

    fn __contains__(&self, py: Python<'_>, key: BytesLike<'_>) -> PyResult<bool> {
        let key = self.key(py, &key);
        self.db.get().store.run(py, |db| db.contains_key(&key))
    }

    /// Returns these keys as a ``collections.abc.MutableMapping``; see ``DB.mapping``.
    fn mapping<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        db::mapping_of(slf.as_any())
    }

    /// Returns a view of the keys, like a dict's.
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        db::mapping_of(slf.as_any())?.call_method0("keys")
    }

    /// Returns a view of the values, like a dict's.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        db::mapping_of(slf.as_any())?.call_method0("values")
    }

    /// Returns a view of the pairs, like a dict's.
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        db::mapping_of(slf.as_any())?.call_method0("items")
    }

    /// Works like a dict's ``pop``.
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        db::pop(slf.as_any(), key, default)
    }

    /// Works like a dict's ``setdefault``.
    fn setdefault<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        db::mapping_of(slf.as_any())?.call_method1("setdefault", (key, default))
    }

    /// Sets keys from a mapping or pairs, atomically in one batch.
    fn update(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        db::mapping_of(slf.as_any())?.call_method1("update", (other,)).map(drop)
    }

    /// Deletes every key with the prefix.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        db::mapping_of(slf.as_any())?.call_method0("clear").map(drop)
    }
}
