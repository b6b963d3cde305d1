//! An open database: plyvel's `DB`, with the methods of a mapping and Esker's own.
//!
//! What stays true: as with plyvel, iterating over a database gives pairs; `mapping()` and `keys()`
//! give keys. A closed database raises `RuntimeError`.

use std::sync::Arc;

use esker::{ReadOptions, WriteOptions};
use esker_bindings::properties;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};

use crate::arguments::{self, BytesLike};
use crate::backups::BackupReport;
use crate::batch::{self, WriteBatch};
use crate::iterator::{self, Iterator};
use crate::metrics;
use crate::prefixed::PrefixedDB;
use crate::raw::{self, RawIterator};
use crate::snapshot::{self, Snapshot};
use crate::store::Store;

/// The write options of plyvel's `sync`; without it, as the database's option `durability` says.
#[inline]
pub fn write_options(sync: bool) -> WriteOptions {
    if sync { WriteOptions::SYNC } else { WriteOptions::default() }
}

/// The value of `key` as `bytes`.
#[inline]
pub fn get<'py>(
    py: Python<'py>,
    store: &Store,
    key: &[u8],
    options: &ReadOptions<'_>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let value = store.run(py, |db| db.get_with(key, options))?;
    Ok(value.map(|value| PyBytes::new(py, &value)))
}

/// What a mapping raises for a key that is not there.
pub fn no_key(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}

/// The value of `key`, which the caller knows as `shown`, or `KeyError`.
pub fn item(
    py: Python<'_>,
    store: &Store,
    key: &[u8],
    shown: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let value = get(py, store, key, &ReadOptions::default())?;
    value.map(|value| value.into_any().unbind()).ok_or_else(|| no_key(shown))
}

/// Deletes `key`, which the caller knows as `shown`, or raises `KeyError`.
pub fn remove(py: Python<'_>, store: &Store, key: &[u8], shown: &Bound<'_, PyAny>) -> PyResult<()> {
    let was_there = store.run(py, |db| db.remove(key))?;
    if was_there { Ok(()) } else { Err(no_key(shown)) }
}

/// The `MutableMapping` over a database or a part of one.
pub fn mapping_of<'py>(whole: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(whole.py(), "esker._mapping", "Mapping")?.call1((whole,))
}

/// As a dict's `pop`.
pub fn pop<'py>(
    whole: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    default: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let mapping = mapping_of(whole)?;
    match default.len() {
        0 => mapping.call_method1("pop", (key,)),
        1 => mapping.call_method1("pop", (key, default.get_item(0)?)),
        _ => Err(PyTypeError::new_err("pop() takes a key and one default at most")),
    }
}

/// The two keys of a range, which may be a tuple, a list or whatever else has two items.
fn range_of(range: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, Vec<u8>)> {
    let keys = range.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let key = |at: usize| keys.get(at).and_then(|key| key.extract::<BytesLike<'_>>().ok());
    match (key(0), key(1), keys.len()) {
        (Some(start), Some(stop), 2) => Ok((start.to_vec(), stop.to_vec())),
        _ => Err(PyTypeError::new_err("a range is two keys of bytes, where it starts and stops")),
    }
}

/// A database in the directory ``name``: bytes to bytes, in the order of the keys.
///
/// Options are plyvel's: ``create_if_missing`` (False) and ``error_if_exists`` (False);
/// ``write_buffer_size``, ``lru_cache_size``, ``block_size`` and ``max_file_size`` in bytes;
/// ``max_open_files`` in files; ``block_restart_interval`` in entries; ``bloom_filter_bits`` in bits
/// a key; ``compression`` (None, 'snappy', 'lz4' or 'zstd'); ``comparator``, a function of two keys
/// that returns a negative number, zero or a positive one, with ``comparator_name``, bytes that
/// identify its order for ever. What is not given is Esker's to choose. ``paranoid_checks`` is taken
/// and changes nothing: checksums are always verified. ``read_only=True`` opens the database as it
/// is at this moment, also while another process writes it. Beyond these, every option that
/// ``esker.options()`` lists can be given by its name, as text or a number: ``policy='leveled'``,
/// ``memtable_size_bytes='16MiB'``.
///
/// Many threads may use one at once, and close it meanwhile. Another process that forks gets it
/// closed.
///
/// Raises IOError when it is not there (and not to be made), is open elsewhere, or the system
/// refuses; CorruptionError when what was written is damaged; Error for a directory of another
/// engine, version or order of keys; ValueError, TypeError and OverflowError for options.
#[pyclass(frozen, subclass, weakref, module = "esker")]
pub struct DB {
    pub store: Arc<Store>,
    /// The directory, as it was given.
    #[pyo3(get)]
    name: Py<PyAny>,
}

#[pymethods]
impl DB {
    #[new]
    #[pyo3(
        signature = (name, **options),
        text_signature = "(name, *, create_if_missing=False, error_if_exists=False, **options)"
    )]
    fn new(
        py: Python<'_>,
        name: Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<DB> {
        let path = arguments::path_of(&name)?;
        let chosen = arguments::chosen(options)?;
        let store = Store::open(py, &path, chosen)?;
        Ok(DB { store, name: name.unbind() })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = if self.store.is_closed() { " (closed)" } else { "" };
        Ok(format!("<esker.DB with name {}{state}>", self.name.bind(py).repr()?))
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.store.is_closed()
    }

    /// Closes it: waits for calls that run in other threads, then for what must reach the disk.
    ///
    /// Later calls, also on its iterators, snapshots and batches, raise RuntimeError; closing twice
    /// is allowed. Raises IOError when what was acknowledged could not be made durable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.store.close(py)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.store.close(py)
    }

    /// The value of ``key``, or ``default``.
    ///
    /// With ``fill_cache=False`` blocks that are read do not enter the cache. ``verify_checksums``
    /// is taken and changes nothing: they always are. Raises CorruptionError when the block that
    /// should hold the key is damaged, IOError.
    #[inline]
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
        let value = get(py, &self.store, &key, &ReadOptions { snapshot: None, fill_cache })?;
        Ok(value.map(Bound::into_any).or(default))
    }

    /// The values of many keys, in their order, None for one that is not there: as they were at one
    /// moment. Esker's own: plyvel has no such method.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys: Vec<BytesLike<'_>> =
            keys.iter().map(|key| key.extract()).collect::<PyResult<_>>()?;
        let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        let values = self.store.run(py, |db| db.multi_get(&keys))?;
        Ok(values.into_iter().map(|value| value.map(|v| PyBytes::new(py, &v))).collect())
    }

    /// Sets ``key`` to ``value``; each may be anything that shows its bytes.
    ///
    /// Once it returned, the write survives the process; with ``sync=True`` also a power loss.
    /// Raises Error for a key over 1 MiB or a value over 1 GiB, IOError; nothing was changed then.
    #[inline]
    #[pyo3(signature = (key, value, *, sync=false))]
    fn put(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
        sync: bool,
    ) -> PyResult<()> {
        self.store.run(py, |db| db.put_with(&*key, &*value, &write_options(sync)))
    }

    /// Deletes ``key``, whether it is there or not.
    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: BytesLike<'_>, sync: bool) -> PyResult<()> {
        self.store.run(py, |db| db.delete_with(&*key, &write_options(sync)))
    }

    /// Deletes every key from ``start`` up to but without ``stop``, in one small write. Esker's own.
    #[pyo3(signature = (start, stop, *, sync=false))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: BytesLike<'_>,
        stop: BytesLike<'_>,
        sync: bool,
    ) -> PyResult<()> {
        let mut batch = esker::Batch::new();
        batch.delete_range(&*start, &*stop);
        self.store.run(py, |db| db.write_with(&batch, &write_options(sync)))
    }

    /// An empty batch; see ``WriteBatch``.
    #[pyo3(signature = (*, transaction=false, sync=false))]
    fn write_batch(&self, transaction: bool, sync: bool) -> PyResult<WriteBatch> {
        batch::make(&self.store, &[], transaction, write_options(sync))
    }

    /// An iterator over pairs as they are now; see ``Iterator``.
    ///
    /// From ``start`` to ``stop`` in the order of keys, also when ``reverse`` walks it backwards;
    /// ``include_start`` and ``include_stop`` say whether these two keys belong to it. ``prefix``
    /// takes the place of both. Without ``include_key`` or ``include_value`` it gives the other one
    /// alone, without both None. For long walks, ``fill_cache=False`` spares the cache.
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
        iterator::make(py, &self.store, None, &[], arguments)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.iterator(py, None)
    }

    /// An iterator as LevelDB has them; see ``RawIterator``.
    #[pyo3(signature = (*, verify_checksums=None, fill_cache=true))]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<&Bound<'_, PyAny>>,
        fill_cache: bool,
    ) -> PyResult<RawIterator> {
        let _ = verify_checksums;
        raw::make(py, &self.store, None, fill_cache)
    }

    /// The database as it is now, for later; see ``Snapshot``.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        snapshot::make(py, &self.store, &[])
    }

    /// The keys that start with ``prefix``, as a database; see ``PrefixedDB``.
    fn prefixed_db(slf: Bound<'_, Self>, prefix: BytesLike<'_>) -> PrefixedDB {
        let prefix = PyBytes::new(slf.py(), &prefix);
        PrefixedDB::make(slf.unbind(), prefix)
    }

    /// A property as bytes, None when there is none of that name: ``leveldb.stats``,
    /// ``leveldb.sstables``, ``leveldb.num-files-at-levelN``, ``leveldb.approximate-memory-usage``
    /// (bytes), ``esker.stats``, ``esker.option.NAME``.
    fn get_property<'py>(
        &self,
        py: Python<'py>,
        name: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let name = std::str::from_utf8(name).unwrap_or_default();
        let text = self.store.run(py, |db| Ok(properties::property(db, name)))?;
        Ok(text.map(|text| PyBytes::new(py, text.as_bytes())))
    }

    /// Merges the keys from ``start`` to ``stop``, None being no bound, and waits for it.
    #[pyo3(signature = (*, start=None, stop=None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<BytesLike<'_>>,
        stop: Option<BytesLike<'_>>,
    ) -> PyResult<()> {
        self.store.run(py, |db| db.compact_range(start.as_deref(), stop.as_deref()))
    }

    /// Roughly how many bytes of files hold the keys from ``start`` up to but without ``stop``.
    fn approximate_size(
        &self,
        py: Python<'_>,
        start: BytesLike<'_>,
        stop: BytesLike<'_>,
    ) -> PyResult<u64> {
        self.store.run(py, |db| db.approximate_size(&*start, &*stop))
    }

    /// ``approximate_size`` of each ``(start, stop)``.
    #[pyo3(signature = (*ranges))]
    fn approximate_sizes(&self, py: Python<'_>, ranges: &Bound<'_, PyTuple>) -> PyResult<Vec<u64>> {
        self.store.check_open("database")?;
        let mut sizes = Vec::with_capacity(ranges.len());
        for range in ranges {
            let (start, stop) = range_of(&range)?;
            sizes.push(self.store.run(py, |db| db.approximate_size(start, stop))?);
        }
        Ok(sizes)
    }

    /// Writes what is in memory to files and waits for it. Esker's own.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.store.run(py, esker::Db::flush)
    }

    /// Makes everything written so far survive a power loss. Esker's own.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.store.run(py, esker::Db::sync)
    }

    /// Makes a second database of the same content in the directory ``name``, which must not exist,
    /// by hard links. Esker's own.
    fn checkpoint(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<()> {
        let path = arguments::path_of(name)?;
        self.store.run(py, |db| db.checkpoint(&path))
    }

    /// Adds a backup of everything written so far to the directory ``name`` of backups, which is
    /// made if it is not there; returns what was made, a ``BackupReport``. Esker's own.
    ///
    /// Only tables that the backup before does not have are copied; all are read back. A directory
    /// belongs to one database: with ``take_over=True`` it becomes this one's. Raises Error when it
    /// belongs to another one or lies inside a database, CorruptionError, IOError.
    #[pyo3(signature = (name, *, take_over=false))]
    fn backup(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        take_over: bool,
    ) -> PyResult<BackupReport> {
        let path = arguments::path_of(name)?;
        let options = esker::BackupOptions { take_over };
        Ok(self.store.run(py, |db| db.backup_with(&path, &options))?.into())
    }

    /// What the database consists of and has done since it was opened: a dict of numbers, whose
    /// names carry the unit; ``levels`` is a list of dicts, ``memory`` a dict. Esker's own.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        metrics::to_dict(py, &self.store.run(py, |db| Ok(db.metrics()))?)
    }

    /// Reads every byte of the database and checks it; returns what is wrong, a sentence each, so an
    /// empty list when all is well. Esker's own.
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let report = self.store.run(py, |db| db.verify(&mut |_, _| {}))?;
        Ok(report.problems.iter().map(ToString::to_string).collect())
    }

    /// The value of an option as text. Raises KeyError when there is none of that name. Esker's own.
    fn option(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        let value = self.store.run(py, |db| Ok(db.option(name)))?;
        value.ok_or_else(|| PyKeyError::new_err(name.to_string()))
    }

    /// Changes an option of those that ``esker.options()`` says change ``while open``. Esker's own.
    ///
    /// Raises Error for one that does not, or a value out of its range.
    fn set_option(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = arguments::text_of(name, value)?;
        self.store.run(py, |db| db.set_option(name, &value))
    }

    #[inline]
    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        item(py, &self.store, &key.extract::<BytesLike<'_>>()?, key)
    }

    #[inline]
    fn __setitem__(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
    ) -> PyResult<()> {
        self.put(py, key, value, false)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        remove(py, &self.store, &key.extract::<BytesLike<'_>>()?, key)
    }

    fn __contains__(&self, py: Python<'_>, key: BytesLike<'_>) -> PyResult<bool> {
        self.store.run(py, |db| db.contains_key(&*key))
    }

    /// The database as a ``collections.abc.MutableMapping``: iterating gives keys, and ``len`` walks
    /// over all of them.
    fn mapping<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        mapping_of(slf.as_any())
    }

    /// The keys, as a view like a dict's; its ``len`` walks over all of them.
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        mapping_of(slf.as_any())?.call_method0("keys")
    }

    /// The values, as a view like a dict's.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        mapping_of(slf.as_any())?.call_method0("values")
    }

    /// The pairs, as a view like a dict's.
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        mapping_of(slf.as_any())?.call_method0("items")
    }

    /// As a dict's ``pop``. Another thread may write between the reading and the deletion.
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        pop(slf.as_any(), key, default)
    }

    /// As a dict's ``setdefault``. Another thread may write between the reading and the writing.
    fn setdefault<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        mapping_of(slf.as_any())?.call_method1("setdefault", (key, default))
    }

    /// Sets many keys at once, in one batch, from a mapping or pairs.
    fn update(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        mapping_of(slf.as_any())?.call_method1("update", (other,)).map(drop)
    }

    /// Deletes every key.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        mapping_of(slf.as_any())?.call_method0("clear").map(drop)
    }
}
