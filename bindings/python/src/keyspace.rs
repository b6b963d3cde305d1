//! A keyspace: an ordered map of its own within a database. Not in plyvel.
//!
//! Invariants: a keyspace has the methods of a database; it raises if its database is closed.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments::BytesLike;
use crate::db::DB;
use crate::ingest::{self, IngestReport};
use crate::merge::Ttl;
use crate::part::{self, Part, part_methods};
use crate::raw::{self, RawIterator};
use crate::writing::{Kept, write_options};

/// A keyspace of a database: an ordered map of its own, with its own key order and options.
///
/// Created by ``DB.keyspace()`` and ``DB.find_keyspace()``. The methods are those of ``DB``. All
/// keyspaces share the database's log and memory: a batch over several of them is atomic
/// (``WriteBatch.put`` takes a ``keyspace``), and a snapshot contains all of them
/// (``Snapshot.keyspace``). The database's own methods work on the keyspace ``default``. Many
/// threads may use a keyspace concurrently.
///
/// After ``DB.drop_keyspace()``, calls raise IOError, and existing iterators continue.
#[pyclass(frozen, weakref, module = "esker")]
pub struct Keyspace {
    /// The underlying database.
    #[pyo3(get)]
    db: Py<DB>,
    pub part: Part,
    keyspace: esker::Keyspace,
}

impl Keyspace {
    pub fn make(db: &Bound<'_, DB>, keyspace: esker::Keyspace) -> Keyspace {
        let part = db.get().part.with_keyspace(keyspace.clone());
        Keyspace { db: db.clone().unbind(), part, keyspace }
    }

    /// Returns the engine's keyspace.
    pub fn inner(&self) -> &esker::Keyspace {
        &self.keyspace
    }
}

part_methods! { Keyspace {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (name, db) = (self.keyspace.name(), self.db.bind(py).repr()?);
        Ok(format!("<esker.Keyspace {name:?} of {db}>"))
    }

    /// The name of the keyspace.
    #[getter]
    fn name(&self) -> String {
        self.keyspace.name()
    }

    /// The number of the keyspace in its database, which no other keyspace ever has. 0 is the
    /// keyspace ``default``.
    #[getter]
    fn id(&self) -> u32 {
        self.keyspace.id()
    }

    /// The name of the key order, such as ``esker.bytewise``.
    #[getter]
    fn key_order(&self) -> String {
        self.keyspace.key_order().name().to_string()
    }

    /// The number of the tree that holds the keys; see ``TableEntry.tree``. Keyspaces with the same key
    /// order and the same options share a tree. 0 is the tree of the keyspace ``default`` alone.
    #[getter]
    fn tree(&self) -> u32 {
        self.keyspace.tree()
    }

    /// Returns the options that were given when the keyspace was created, as a dict of texts. The others
    /// are those of the database. Empty for the keyspace ``default``.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.keyspace.options() {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// See ``DB.get_many``.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        self.part.get_many(py, &keys)
    }

    /// See ``DB.delete_range``.
    #[pyo3(signature = (start, stop, *, sync=false, durability=None, timeout=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: BytesLike<'_>,
        stop: BytesLike<'_>,
        sync: bool,
        durability: Option<Kept>,
        timeout: Option<Ttl>,
    ) -> PyResult<()> {
        let options = write_options(sync, durability, timeout)?;
        self.part.delete_range(py, &start, &stop, &options)
    }

    /// See ``DB.ingest``. Unless the keyspace is 'default', the files are read and written once. Pairs
    /// do not get the keyspace's time to live, but that of the file.
    #[pyo3(signature = (files, *, copy=false, verify=true))]
    fn ingest(
        &self,
        py: Python<'_>,
        files: &Bound<'_, PyAny>,
        copy: bool,
        verify: bool,
    ) -> PyResult<IngestReport> {
        ingest::ingest(py, &self.part, files, copy, verify)
    }

    /// See ``DB.bulk_load``. Pairs get the keyspace's time to live.
    fn bulk_load(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<IngestReport> {
        ingest::bulk_load(py, &self.part, pairs)
    }

    /// See ``DB.raw_iterator``.
    #[pyo3(signature = (*, verify_checksums=None, fill_cache=true))]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<&Bound<'_, PyAny>>,
        fill_cache: bool,
    ) -> PyResult<RawIterator> {
        let _ = verify_checksums;
        raw::make(py, &self.part, None, fill_cache)
    }

    /// See ``DB.compact_range``.
    #[pyo3(signature = (*, start=None, stop=None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<BytesLike<'_>>,
        stop: Option<BytesLike<'_>>,
    ) -> PyResult<()> {
        self.part.compact_range(py, start.as_deref(), stop.as_deref())
    }

    /// See ``DB.approximate_size``.
    fn approximate_size(
        &self,
        py: Python<'_>,
        start: BytesLike<'_>,
        stop: BytesLike<'_>,
    ) -> PyResult<u64> {
        self.part.store().run(py, |_| self.keyspace.approximate_size(&*start, &*stop))
    }

    /// Returns the approximate size of the keyspace in the files, in bytes. Data that is only in
    /// memory is not counted.
    fn size_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.part.store().run(py, |_| self.keyspace.size_bytes())
    }

    /// Deletes every key, with one range deletion.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        let own = slf.get();
        // The keys of the keyspace `default` have no upper bound.
        if own.keyspace.id() == 0 {
            return part::mapping_of(slf.as_any())?.call_method0("clear").map(drop);
        }
        own.part.store().run(slf.py(), |_| own.keyspace.clear())
    }
} }
