//! plyvel's `DB`: an open database, with the methods of a mapping and methods that plyvel lacks.
//!
//! Invariants:
//! 1. As in plyvel, iteration over a database gives pairs. `mapping()` and `keys()` give keys.
//! 2. A closed database raises `RuntimeError`.

use std::sync::Arc;

use esker::{ReadOptions, WriteOptions};
use esker_bindings::properties;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arguments::{self, BytesLike};
use crate::batch::{self, WriteBatch};
use crate::iterator::{self, Iterator};
use crate::keyspace::Keyspace;
use crate::merge::Ttl;
use crate::part::{self, Part};
use crate::prefixed::PrefixedDB;
use crate::raw::{self, RawIterator};
use crate::snapshot::{self, Snapshot};
use crate::store::Store;
use crate::transaction::{self, Transaction};
use crate::upkeep_methods::upkeep_methods;
use crate::writing::{Kept, write_options};

/// Returns the two keys of a range, which may be any iterable of two items.
fn range_of(range: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, Vec<u8>)> {
    let keys = range.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let key = |at: usize| keys.get(at).and_then(|key| key.extract::<BytesLike<'_>>().ok());
    match (key(0), key(1), keys.len()) {
        (Some(start), Some(stop), 2) => Ok((start.to_vec(), stop.to_vec())),
        _ => Err(PyTypeError::new_err("a range is two keys of bytes, where it starts and stops")),
    }
}

/// A database in the directory ``name``: a map from bytes to bytes, ordered by key.
///
/// The options are plyvel's: ``create_if_missing`` (False) and ``error_if_exists`` (False);
/// ``write_buffer_size``, ``lru_cache_size``, ``block_size`` and ``max_file_size`` in bytes;
/// ``max_open_files`` in files; ``block_restart_interval`` in entries; ``bloom_filter_bits`` in
/// bits per key; ``compression`` (None, 'snappy', 'lz4' or 'zstd'); ``comparator``, a function of
/// two keys that returns a negative number, zero or a positive number; ``comparator_name``, bytes
/// that identify the comparator's order permanently. Unset options have Esker's defaults.
/// ``paranoid_checks`` is accepted without effect: checksums are always verified.
/// ``read_only=True`` opens the current state of the database, also while another process writes
/// it. In addition, every option of ``esker.options()`` can be given by name, as text or a number:
/// ``policy='leveled'``, ``memtable_size_bytes='16MiB'``. ``key_orders``, a dict from names to
/// functions like ``comparator``, has the orders that keyspaces may have. A database that ever had
/// a keyspace of such an order is opened only with it.
///
/// ``merge`` is the merge operator of the database: the name of a built-in one (``add_i64``,
/// ``add_u64``, ``max``, ``min``, ``append``, ``append(,)``, ``set_union``), or a name or a
/// function of ``merge_operators``. That is a dict from permanent names to functions of the key,
/// the existing value (None if there is none) and the list of operands, oldest first, that return
/// the value; or to tuples of such a function and a function of the key and several operands, which
/// returns one operand or None. Reads and threads of the database call them for operands in any
/// grouping, so the result must not depend on it. They must not use the database. If one raises,
/// the read raises Error and no operand is lost.
///
/// ``compaction_filter`` is the compaction filter of the database: a name or a function of
/// ``compaction_filters``, a dict from names to functions of a key and a value. Threads of the
/// database call one for pairs that compactions rewrite and no snapshot sees: True keeps the pair,
/// False deletes it, and bytes replace the value. If it raises, the pairs stay.
///
/// ``filter_policy`` replaces the Bloom filters of new tables, in all keyspaces: an object with a
/// permanent ``name`` of the format of its filters, and two methods. ``create(keys)`` returns the
/// filter of a table, as bytes; ``keys`` are in key order. ``may_match(key, filter)`` returns False
/// only if the key is not among those of the filter; a read then skips the table. A wrong False
/// loses the key for reads. A filter without bytes, and one of another ``name``, may have every
/// key. The keys of a keyspace other than ``default`` have four bytes before them, which are its
/// own. If a method raises, ``sys.unraisablehook`` gets the exception, and the table may have every
/// key. Each call copies the filter and needs the interpreter's lock: ``bloom_filter_bits`` is
/// faster.
///
/// ``clock`` is the clock by which pairs expire, in place of the system's: a function without
/// arguments that returns seconds since 1970, like ``time.time``. It is called at the opening, and
/// then by reads, writes and compactions on any thread. Where it goes back, the open database stays
/// at the latest time. If it raises, ``sys.unraisablehook`` gets the exception, and the last time
/// counts. Neither a clock nor a filter policy may use the database.
///
/// ``key`` is the key of an encrypted database: bytes (32, or 64 hexadecimal digits), a path object
/// (``pathlib.Path``) of a file with them, or a function of the name of the key, which is None for a
/// new database. The function returns the bytes, or a tuple of 32 bytes and the name of the key. A
/// database that is created with a key is encrypted, and opened only with that key; see
/// ``esker.rekey_db``. Its names, sizes and times of files stay visible.
///
/// ``listener`` is a function that gets each event as a dict with ``kind``, ``text`` and fields of
/// its kind, on one thread at a time; it must return soon. ``runtime`` is a ``Runtime`` that the
/// database shares with others.
///
/// Many threads may use a database concurrently, and close it during other calls. In the child of a
/// fork, the database is closed.
///
/// Raises IOError if the database is missing (and not to be created), is open elsewhere, or the
/// operating system refuses an operation; CorruptionError if the stored data is damaged; Error for
/// a directory of another engine, version, key order or key; ValueError, TypeError and OverflowError for
/// invalid options.
#[pyclass(frozen, subclass, weakref, module = "esker")]
pub struct DB {
    pub part: Part,
    /// The directory, as passed to the constructor.
    #[pyo3(get)]
    name: Py<PyAny>,
}

impl DB {
    #[inline]
    fn store(&self) -> &Arc<Store> {
        self.part.store()
    }

    /// Returns the database of an open store, for example a view of a follower.
    pub fn of(store: Arc<Store>, name: Py<PyAny>) -> DB {
        DB { part: Part::whole(store), name }
    }
}

upkeep_methods! { DB {
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
        let part = Part::whole(Store::open(py, &path, chosen)?);
        Ok(DB { part, name: name.unbind() })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = if self.store().is_closed() { " (closed)" } else { "" };
        Ok(format!("<esker.DB with name {}{state}>", self.name.bind(py).repr()?))
    }

    /// Whether the database was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.store().is_closed()
    }

    /// Closes the database. Waits for running calls of other threads, and for outstanding disk
    /// writes.
    ///
    /// Later calls, also on its iterators, snapshots and batches, raise RuntimeError. Closing twice
    /// is allowed. Raises IOError if acknowledged writes could not be made durable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.store().close(py)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.store().close(py)
    }

    /// Returns the value of ``key``, or ``default``.
    ///
    /// With ``fill_cache=False``, the read inserts no blocks into the cache. ``verify_checksums``
    /// is accepted without effect: checksums are always verified. Raises CorruptionError if the
    /// block for the key is damaged; IOError.
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
        let options = ReadOptions::default().fill_cache(fill_cache);
        Ok(self.part.get(py, &key, &options)?.map(Bound::into_any).or(default))
    }

    /// Returns the values of many keys, in the order of ``keys``; None for a missing key. All
    /// values are of the same moment. Not in plyvel.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        self.part.get_many(py, &keys)
    }

    /// Sets ``key`` to ``value``. Both may be any object with the buffer protocol.
    ///
    /// With the default option ``durability``, a completed write survives the end of the process;
    /// with ``sync=True`` it also survives a power loss. Raises Error for a key over 1 MiB or a
    /// value over 1 GiB; IOError. In these cases nothing was changed.
    ///
    /// These arguments are not in plyvel. ``ttl`` is the time in seconds after which the pair does not
    /// exist any more; ``math.inf`` never ends. None means the time to live of the keyspace.
    /// ``durability`` is that of this write: 'none' (not logged: a crash loses it unless it was
    /// flushed), 'buffered' (survives the end of the process) or 'sync' (survives a power loss).
    /// ``timeout`` is the longest time in seconds to wait for memory while writes are stalled
    /// (``stall``). After that, raises BusyError, and nothing was changed.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (key, value, *, ttl=None, sync=false, durability=None, timeout=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
        ttl: Option<Ttl>,
        sync: bool,
        durability: Option<Kept>,
        timeout: Option<Ttl>,
    ) -> PyResult<()> {
        let options = write_options(sync, durability, timeout)?;
        self.part.put(py, &key, &value, ttl, &options)
    }

    /// Merges ``operand`` into the value of ``key`` by the merge operator (``merge`` of the
    /// database or the keyspace). Writes only the operand; reads make the value. Not in plyvel.
    ///
    /// Raises Error without a merge operator, and if the operator refuses the operand.
    #[pyo3(signature = (key, operand, *, sync=false, durability=None, timeout=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        operand: BytesLike<'_>,
        sync: bool,
        durability: Option<Kept>,
        timeout: Option<Ttl>,
    ) -> PyResult<()> {
        let options = write_options(sync, durability, timeout)?;
        self.part.merge(py, &key, &operand, &options)
    }

    /// Gives the pair of ``key`` a new time to live of ``ttl`` seconds from now on; with None it
    /// does not expire any more. Returns False if there is no such pair. Not in plyvel.
    fn touch(&self, py: Python<'_>, key: BytesLike<'_>, ttl: Option<Ttl>) -> PyResult<bool> {
        self.part.touch(py, &key, ttl)
    }

    /// Returns the time at which the pair of ``key`` expires, in seconds since 1970 like
    /// ``time.time()``, or None if it does not expire. Raises KeyError for a missing key. Not in
    /// plyvel.
    fn expiry(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        self.part.expiry(py, key)
    }

    /// Deletes ``key``. A missing key is not an error.
    #[pyo3(signature = (key, *, sync=false, durability=None, timeout=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        sync: bool,
        durability: Option<Kept>,
        timeout: Option<Ttl>,
    ) -> PyResult<()> {
        let options = write_options(sync, durability, timeout)?;
        self.part.delete(py, &key, &options)
    }

    /// Deletes the keys from ``start`` (inclusive) to ``stop`` (exclusive) with one range deletion.
    /// Not in plyvel.
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

    /// Creates an empty batch; see ``WriteBatch``.
    #[pyo3(signature = (*, transaction=false, sync=false, durability=None))]
    fn write_batch(
        &self,
        transaction: bool,
        sync: bool,
        durability: Option<Kept>,
    ) -> PyResult<WriteBatch> {
        batch::make(&self.part, transaction, write_options(sync, durability, None)?)
    }

    /// Creates an iterator over the current pairs; see ``Iterator``.
    ///
    /// ``start`` and ``stop`` are bounds in key order, also with ``reverse``, which iterates
    /// backwards. ``include_start`` and ``include_stop`` tell whether the bounds belong to the
    /// range. ``prefix`` replaces both bounds. With one of ``include_key`` and ``include_value``
    /// off, the iterator gives only the other part; with both off, it gives None. For long scans,
    /// ``fill_cache=False`` leaves the cache unchanged.
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
        iterator::make(py, &self.part, None, arguments)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.iterator(py, None)
    }

    /// Creates an iterator with LevelDB's semantics; see ``RawIterator``.
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

    /// Creates a snapshot of the current state; see ``Snapshot``.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        snapshot::make(py, &self.part)
    }

    /// Begins a transaction; see ``Transaction``. Not in plyvel.
    ///
    /// ``isolation`` tells what it is protected from: 'snapshot' (the default), from changes of
    /// the keys that it writes; 'serializable', also from changes of what it has read.
    /// ``concurrency`` tells when conflicts are found: 'optimistic' (the default), at the commit;
    /// 'pessimistic', at once, by locks: a call waits at most ``lock_timeout_ms`` milliseconds
    /// until the holder of a lock has ended. With ``sync=True`` the commit survives a power loss;
    /// ``durability`` is as for ``put``.
    #[pyo3(
        signature = (**options),
        text_signature = "($self, *, isolation='snapshot', concurrency='optimistic', \
            lock_timeout_ms=1000, sync=False, durability=None)"
    )]
    fn transaction(
        &self,
        py: Python<'_>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Transaction> {
        transaction::make(py, self.store(), options)
    }

    /// Calls ``work(transaction)`` and commits the transaction. Returns the result of ``work``.
    /// Takes the options of ``transaction``. Not in plyvel.
    ///
    /// After a conflict with another transaction (ConflictError, DeadlockError), in a call or at
    /// the commit, calls ``work`` again with a new transaction, at most ``retries`` times, after a
    /// pause that grows from 50 microseconds to 20 milliseconds. So ``work`` must have no effect
    /// but through the transaction. If it raises anything else, the transaction is rolled back. If
    /// it ends the transaction itself, nothing is committed after it.
    #[pyo3(
        signature = (work, *, retries=99, **options),
        text_signature = "($self, work, *, retries=99, isolation='snapshot', \
            concurrency='optimistic', lock_timeout_ms=1000, sync=False, durability=None)"
    )]
    fn transact<'py>(
        &self,
        work: &Bound<'py, PyAny>,
        retries: u32,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        transaction::transact(self.store(), work, retries, options)
    }

    /// Returns the names of the prepared transactions, in alphabetical order; see
    /// ``Transaction.prepare``. Not in plyvel.
    fn prepared_transactions(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.store().run(py, |db| Ok(db.prepared_transactions()))
    }

    /// Commits the prepared transaction ``name``. Raises IOError (``errno.ENOENT``) if there is
    /// none. Not in plyvel.
    fn commit_prepared(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.store().run(py, |db| db.commit_prepared(name))
    }

    /// Rolls the prepared transaction ``name`` back. Raises IOError (``errno.ENOENT``) if there is
    /// none. Not in plyvel.
    fn rollback_prepared(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.store().run(py, |db| db.rollback_prepared(name))
    }

    /// Returns the keys that start with ``prefix``, as a database; see ``PrefixedDB``.
    fn prefixed_db(slf: Bound<'_, Self>, prefix: BytesLike<'_>) -> PrefixedDB {
        let (py, part) = (slf.py(), slf.get().part.under(&prefix));
        PrefixedDB::make(py, slf.unbind(), part)
    }

    /// Returns the keyspace ``name``, which is created if it does not exist; see ``Keyspace``. Not
    /// in plyvel.
    ///
    /// ``order`` is the name of its key order: one of ``key_orders``, 'esker.reverse' or
    /// 'esker.bytewise', which is the default. The options are those of ``esker.options()`` that a
    /// keyspace can have of its own, such as ``compression='none'``; the others are the database's.
    /// ``merge`` is the merge operator: a name, as for ``DB``, or a function of
    /// ``merge_operators``; ``compaction_filter`` alike. ``ttl`` is the time to live, in seconds, of pairs that are put without
    /// one. All these are stored with the keyspace. Raises Error if the keyspace exists with other
    /// settings, for an unknown merge operator, and for a name that is empty, longer than 255 bytes
    /// or has control characters; ValueError and TypeError for an unknown order and for invalid
    /// options; IOError.
    #[pyo3(signature = (name, *, order=None, merge=None, ttl=None, **options))]
    fn keyspace(
        slf: &Bound<'_, Self>,
        name: &str,
        order: Option<&Bound<'_, PyAny>>,
        merge: Option<&Bound<'_, PyAny>>,
        ttl: Option<Ttl>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Keyspace> {
        let store = slf.get().store();
        let known = (store.orders(), store.operators(), store.filters());
        let options = arguments::keyspace_options(known, order, (merge, ttl), options)?;
        let opened = store.run(slf.py(), |db| db.keyspace(name, &options))?;
        Ok(Keyspace::make(slf, opened))
    }

    /// Returns the keyspace ``name``, whatever its order and options are, or None if it does not
    /// exist. Not in plyvel.
    fn find_keyspace(slf: &Bound<'_, Self>, name: &str) -> PyResult<Option<Keyspace>> {
        let found = slf.get().store().run(slf.py(), |db| db.existing_keyspace(name))?;
        Ok(found.map(|keyspace| Keyspace::make(slf, keyspace)))
    }

    /// Returns the names of all keyspaces: 'default', then the others in alphabetical order. Not in
    /// plyvel.
    fn keyspaces(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.store().run(py, |db| Ok(db.keyspaces()))
    }

    /// Gives the keyspace ``name`` another name. Its ``Keyspace`` objects stay valid. Not in
    /// plyvel.
    ///
    /// Raises IOError (``errno.ENOENT``) if it does not exist; Error if ``new_name`` is in use or
    /// not allowed, and for 'default'.
    fn rename_keyspace(&self, py: Python<'_>, name: &str, new_name: &str) -> PyResult<()> {
        self.store().run(py, |db| db.rename_keyspace(name, new_name))
    }

    /// Drops the keyspace ``name`` with all its keys. Its space is freed in the background. Not in
    /// plyvel.
    ///
    /// Raises IOError (``errno.ENOENT``) if it does not exist; Error for 'default'.
    fn drop_keyspace(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.store().run(py, |db| db.drop_keyspace(name))
    }

    /// Returns a property as bytes, or None for an unknown name. The properties are
    /// ``leveldb.stats``, ``leveldb.sstables``, ``leveldb.num-files-at-levelN``,
    /// ``leveldb.approximate-memory-usage`` (in bytes), ``esker.stats`` and ``esker.option.NAME``.
    fn get_property<'py>(
        &self,
        py: Python<'py>,
        name: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let name = std::str::from_utf8(name).unwrap_or_default();
        let text = self.store().run(py, |db| Ok(properties::property(db, name)))?;
        Ok(text.map(|text| PyBytes::new(py, text.as_bytes())))
    }

    /// Compacts the keys from ``start`` to ``stop`` and waits until that is done. None means no
    /// bound.
    #[pyo3(signature = (*, start=None, stop=None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<BytesLike<'_>>,
        stop: Option<BytesLike<'_>>,
    ) -> PyResult<()> {
        self.part.compact_range(py, start.as_deref(), stop.as_deref())
    }

    /// Returns the approximate size of the keys from ``start`` (inclusive) to ``stop`` (exclusive)
    /// in the files, in bytes.
    fn approximate_size(
        &self,
        py: Python<'_>,
        start: BytesLike<'_>,
        stop: BytesLike<'_>,
    ) -> PyResult<u64> {
        self.store().run(py, |db| db.approximate_size(&*start, &*stop))
    }

    /// Returns ``approximate_size`` of each range ``(start, stop)``.
    #[pyo3(signature = (*ranges))]
    fn approximate_sizes(&self, py: Python<'_>, ranges: &Bound<'_, PyTuple>) -> PyResult<Vec<u64>> {
        self.store().check_open("database")?;
        let mut sizes = Vec::with_capacity(ranges.len());
        for range in ranges {
            let (start, stop) = range_of(&range)?;
            sizes.push(self.store().run(py, |db| db.approximate_size(start, stop))?);
        }
        Ok(sizes)
    }

    #[inline]
    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        self.part.item(py, key)
    }

    #[inline]
    fn __setitem__(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
    ) -> PyResult<()> {
        self.part.put(py, &key, &value, None, &WriteOptions::default())
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.part.remove(py, key)
    }

    fn __contains__(&self, py: Python<'_>, key: BytesLike<'_>) -> PyResult<bool> {
        self.part.contains(py, &key)
    }

    /// Deletes every key.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        part::mapping_of(slf.as_any())?.call_method0("clear").map(drop)
    }
} }
