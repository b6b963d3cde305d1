//! Transactions. Not in plyvel.
//!
//! Invariants:
//! 1. One thread at a time is in a call on a transaction; the others wait without the interpreter's
//!    lock.
//! 2. A call that can wait for a lock does not keep the store open. So `DB.close` ends the wait.
//! 3. A transaction ends without the interpreter's lock, and not within a key order: a thread in a
//!    key order may have locked the state of the transaction or the store's table of locks.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use esker::{Concurrency, Isolation, Result, Slice, TransactionOptions};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arguments::{self, BytesLike};
use crate::guarded::Guarded;
use crate::iterator::{self, Iterator};
use crate::keyspace::Keyspace;
use crate::merge::Ttl;
use crate::part;
use crate::store::Store;
use crate::writing::{Kept, durability_of};

const COMMITTED: &str = "was committed";
const ROLLED_BACK: &str = "was rolled back";
const PREPARED: &str = "was prepared";

/// A transaction that has not ended.
struct Active {
    transaction: esker::Transaction,
    /// Number of savepoints.
    savepoints: usize,
}

/// A transaction, shared with its iterators and savepoints.
pub struct Held {
    store: Arc<Store>,
    id: u64,
    active: Guarded<Option<Active>>,
    /// How the transaction ended.
    ended: OnceLock<&'static str>,
}

impl Held {
    fn begin(py: Python<'_>, store: &Arc<Store>, options: TransactionOptions) -> PyResult<Held> {
        let transaction = store.run(py, |db| Ok(db.transaction(options)))?;
        let id = transaction.id();
        let active = Guarded::new(Some(Active { transaction, savepoints: 0 }));
        Ok(Held { store: store.clone(), id, active, ended: OnceLock::new() })
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Raises after the end of the transaction.
    pub fn check_active(&self) -> PyResult<()> {
        match self.ended.get() {
            None => Ok(()),
            Some(how) => Err(PyRuntimeError::new_err(format!(
                "the transaction is closed: it {how}; begin another one with transaction()"
            ))),
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Runs `body` on the transaction, without the interpreter's lock. It may wait for a lock.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut Active) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.store.check_reentry(py)?;
        let mut active = self.active.lock(py);
        match &mut *active {
            Some(active) => self.store.run_and_wait(py, || body(active)),
            None => self.check_active().and_then(|()| Err(crate::errors::closed("transaction"))),
        }
    }

    /// Does the same as `change`, on the engine's transaction.
    pub fn on<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&esker::Transaction) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.change(py, |active| body(&active.transaction))
    }

    /// Ends the transaction by `end`. After a success it is as `how` says, otherwise rolled back.
    /// `waits` tells whether `end` can wait for a lock.
    fn end(
        &self,
        py: Python<'_>,
        how: &'static str,
        waits: bool,
        end: impl FnOnce(esker::Transaction) -> Result<()> + Send,
    ) -> PyResult<()> {
        self.store.check_reentry(py)?;
        self.store.check_order(py)?;
        let mut active = self.active.lock(py);
        self.store.check_open("database")?;
        let Some(Active { transaction, .. }) = active.take() else {
            return self.check_active();
        };
        let outcome = match waits {
            true => self.store.run_and_wait(py, || end(transaction)),
            false => self.store.run(py, |_| end(transaction)),
        };
        let _ = self.ended.set(if outcome.is_ok() { how } else { ROLLED_BACK });
        outcome
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, COMMITTED, false, esker::Transaction::commit)
    }

    /// Ends the transaction without its writes, whatever state it and its database are in.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.store.check_reentry(py)?;
        if let Some(active) = self.active.lock(py).take() {
            let _ = self.ended.set(ROLLED_BACK);
            self.store.release(active.transaction);
        }
        Ok(())
    }

    /// Removes the savepoints from number `depth` on, and the writes after it if `undo`.
    fn leave_savepoint(&self, py: Python<'_>, depth: usize, undo: bool) -> PyResult<()> {
        self.change(py, |active| {
            while active.savepoints >= depth {
                match undo {
                    true => active.transaction.rollback_to_savepoint()?,
                    false => active.transaction.pop_savepoint()?,
                }
                active.savepoints -= 1;
            }
            Ok(())
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(active) = self.active.get_mut().take() {
            self.store.release(active.transaction);
        }
    }
}

/// Parses the keyword arguments of `transaction()`.
fn options_of(given: Option<&Bound<'_, PyDict>>) -> PyResult<TransactionOptions> {
    let (mut sync, mut durability) = (false, None);
    let mut options = TransactionOptions::default();
    for (name, value) in given.into_iter().flatten() {
        let name = name.extract::<Cow<'_, str>>()?;
        let wrong = |error| arguments::named(value.py(), &name, error);
        match &*name {
            "isolation" => {
                let words = ["snapshot", "serializable"];
                let isolations = [Isolation::Snapshot, Isolation::Serializable];
                options = options.isolation(isolations[word(&value, words).map_err(wrong)?]);
            }
            "concurrency" => {
                let words = ["optimistic", "pessimistic"];
                let kinds = [Concurrency::Optimistic, Concurrency::Pessimistic];
                options = options.concurrency(kinds[word(&value, words).map_err(wrong)?]);
            }
            "lock_timeout_ms" => {
                options = options.lock_timeout_ms(value.extract().map_err(wrong)?);
            }
            "sync" => {
                sync = value.is_truthy()?;
            }
            "durability" => {
                durability = value.extract::<Option<Kept>>().map_err(wrong)?;
            }
            other => {
                let message = format!("transaction() has no argument '{other}'");
                return Err(PyTypeError::new_err(message));
            }
        }
    }
    Ok(options.durability(durability_of(sync, durability)?))
}

/// Returns the position of a word among the two that are allowed.
fn word(value: &Bound<'_, PyAny>, words: [&str; 2]) -> PyResult<usize> {
    let given = value.extract::<Cow<'_, str>>()?;
    words.iter().position(|word| *word == given).ok_or_else(|| {
        PyValueError::new_err(format!("must be '{}' or '{}', not {value:?}", words[0], words[1]))
    })
}

/// Begins a transaction.
pub fn make(
    py: Python<'_>,
    store: &Arc<Store>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Transaction> {
    let held = Arc::new(Held::begin(py, store, options_of(given)?)?);
    Ok(Transaction { held })
}

/// Runs `work` in a transaction and commits it. Runs it again after a conflict.
pub fn transact<'py>(
    store: &Arc<Store>,
    work: &Bound<'py, PyAny>,
    retries: u32,
    given: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, options) = (work.py(), options_of(given)?);
    for run in 0.. {
        let held = Arc::new(Held::begin(py, store, options)?);
        let transaction = Bound::new(py, Transaction { held: held.clone() })?;
        let error = match run_once(&held, work, &transaction) {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        held.abort(py)?;
        if run == retries || !crate::errors::is_conflict(py, &error)? {
            return Err(error);
        }
        py.detach(|| std::thread::sleep(esker_bindings::retry::pause(run + 1, held.id)));
        py.check_signals()?;
    }
    unreachable!("the last run returns")
}

fn run_once<'py>(
    held: &Held,
    work: &Bound<'py, PyAny>,
    transaction: &Bound<'py, Transaction>,
) -> PyResult<Bound<'py, PyAny>> {
    let result = work.call1((transaction,))?;
    if result.hasattr("__await__")? {
        return Err(PyTypeError::new_err(
            "the function is asynchronous: its reads and writes would come after the commit",
        ));
    }
    if !held.has_ended() {
        held.commit(work.py())?;
    }
    Ok(result)
}

/// Several reads and writes that take effect together, at one moment, or not at all.
///
/// Created by ``DB.transaction()``. It reads the database as of one moment, with its own writes
/// over it; others see its writes after the commit, all at once. As a context manager, it is
/// committed at the end of the block, and rolled back if the block raised. If it has ended within
/// the block, the end of the block does nothing. Without a block, an object that is dropped is
/// rolled back.
///
/// An operation is on the keys of the database, or of the ``keyspace``. One commit over several
/// keyspaces is atomic.
///
/// A conflict with another commit raises ConflictError, at the latest at the commit: nothing was
/// written, and the transaction should run again, which ``DB.transact`` does. Plain writes count as
/// transactions of one batch. Calls after the end raise RuntimeError. Several threads may share a
/// transaction; their calls run one after the other. An open transaction keeps the versions that it
/// can read on disk, and its writes in memory.
#[pyclass(frozen, weakref, module = "esker")]
pub struct Transaction {
    held: Arc<Held>,
}

impl Transaction {
    fn find(
        &self,
        py: Python<'_>,
        key: &[u8],
        keyspace: Option<&Keyspace>,
        for_update: bool,
    ) -> PyResult<Option<Slice>> {
        let keyspace = keyspace.map(Keyspace::inner);
        self.held.on(py, |transaction| match (keyspace, for_update) {
            (None, false) => transaction.get(key),
            (None, true) => transaction.get_for_update(key),
            (Some(keyspace), false) => transaction.get_in(keyspace, key),
            (Some(keyspace), true) => transaction.get_for_update_in(keyspace, key),
        })
    }

    fn value<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        default: Option<Bound<'py, PyAny>>,
        (keyspace, for_update): (Option<&Keyspace>, bool),
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.find(py, key, keyspace, for_update)?;
        Ok(found.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }
}

#[pymethods]
impl Transaction {
    /// The number of the transaction, which the messages about locks and deadlocks name.
    #[getter]
    fn id(&self) -> u64 {
        self.held.id
    }

    fn __repr__(&self) -> String {
        let how = self.held.ended.get().map_or(String::new(), |how| format!(", {how}"));
        format!("<esker.Transaction {}{how}>", self.held.id)
    }

    /// Returns the value of ``key``, or ``default``: the value of the transaction's own last write,
    /// otherwise the value at the moment that it reads.
    #[pyo3(signature = (key, default=None, *, keyspace=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: BytesLike<'_>,
        default: Option<Bound<'py, PyAny>>,
        keyspace: Option<&Keyspace>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.value(py, &key, default, (keyspace, false))
    }

    /// Returns the value of ``key``, or ``default``, and protects the key as a write of it would:
    /// the commit raises ConflictError if another commit has written the key. A pessimistic
    /// transaction locks the key.
    ///
    /// In a pessimistic transaction, this and every write raise BusyError if the lock is not free
    /// within ``lock_timeout_ms``, DeadlockError if transactions wait for each other, and
    /// ConflictError if the key was changed and other keys were read without a lock. The
    /// transaction stays usable and keeps its locks; roll it back, so that the others continue.
    #[pyo3(signature = (key, default=None, *, keyspace=None))]
    fn get_for_update<'py>(
        &self,
        py: Python<'py>,
        key: BytesLike<'_>,
        default: Option<Bound<'py, PyAny>>,
        keyspace: Option<&Keyspace>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.value(py, &key, default, (keyspace, true))
    }

    /// Sets ``key`` to ``value`` at the commit. Later reads of the transaction see it at once.
    /// ``ttl`` is the time to live in seconds, from the commit on.
    #[pyo3(signature = (key, value, *, ttl=None, keyspace=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
        ttl: Option<Ttl>,
        keyspace: Option<&Keyspace>,
    ) -> PyResult<()> {
        let (key, value, keyspace) = (&*key, &*value, keyspace.map(Keyspace::inner));
        self.held.on(py, |transaction| match (keyspace, ttl.map(Ttl::duration)) {
            (None, None) => transaction.put(key, value),
            (None, Some(ttl)) => transaction.put_with_ttl(key, value, ttl),
            (Some(keyspace), None) => transaction.put_in(keyspace, key, value),
            (Some(keyspace), Some(ttl)) => transaction.put_with_ttl_in(keyspace, key, value, ttl),
        })
    }

    /// Merges ``operand`` into the value of ``key`` at the commit; see ``DB.merge``. Later reads of
    /// the transaction see the merged value. Of two transactions that merge into one key at the
    /// same time, one raises ConflictError.
    #[pyo3(signature = (key, operand, *, keyspace=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        operand: BytesLike<'_>,
        keyspace: Option<&Keyspace>,
    ) -> PyResult<()> {
        let (key, operand, keyspace) = (&*key, &*operand, keyspace.map(Keyspace::inner));
        self.held.on(py, |transaction| match keyspace {
            None => transaction.merge(key, operand),
            Some(keyspace) => transaction.merge_in(keyspace, key, operand),
        })
    }

    /// Deletes ``key`` at the commit. A missing key is not an error.
    #[pyo3(signature = (key, *, keyspace=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        keyspace: Option<&Keyspace>,
    ) -> PyResult<()> {
        let (key, keyspace) = (&*key, keyspace.map(Keyspace::inner));
        self.held.on(py, |transaction| match keyspace {
            None => transaction.delete(key),
            Some(keyspace) => transaction.delete_in(keyspace, key),
        })
    }

    /// Deletes the keys from ``start`` (inclusive) to ``stop`` (exclusive) at the commit. The whole
    /// range is protected, or locked.
    #[pyo3(signature = (start, stop, *, keyspace=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: BytesLike<'_>,
        stop: BytesLike<'_>,
        keyspace: Option<&Keyspace>,
    ) -> PyResult<()> {
        let (start, stop, keyspace) = (&*start, &*stop, keyspace.map(Keyspace::inner));
        self.held.on(py, |transaction| match keyspace {
            None => transaction.delete_range(start, stop),
            Some(keyspace) => transaction.delete_range_in(keyspace, start, stop),
        })
    }

    /// Creates an iterator over the pairs that the transaction reads, with its own writes over
    /// them; see ``DB.iterator``. It returns writes that are made ahead of its position.
    #[pyo3(
        signature = (*, keyspace=None, **arguments),
        text_signature = "($self, *, keyspace=None, reverse=False, start=None, stop=None, \
            include_start=True, include_stop=False, prefix=None, include_key=True, \
            include_value=True)"
    )]
    fn iterator(
        &self,
        py: Python<'_>,
        keyspace: Option<&Keyspace>,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Iterator> {
        iterator::make_of_transaction(py, &self.held, keyspace.map(Keyspace::inner), arguments)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.iterator(py, None, None)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        let value = self.find(py, &key.extract::<BytesLike<'_>>()?, None, false)?;
        let value = value.ok_or_else(|| part::no_key(key))?;
        Ok(PyBytes::new(py, &value).into_any().unbind())
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
    ) -> PyResult<()> {
        self.put(py, key, value, None, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let given = key.extract::<BytesLike<'_>>()?;
        if self.find(py, &given, None, true)?.is_none() {
            return Err(part::no_key(key));
        }
        self.delete(py, given, None)
    }

    fn __contains__(&self, py: Python<'_>, key: BytesLike<'_>) -> PyResult<bool> {
        Ok(self.find(py, &key, None, false)?.is_some())
    }

    /// Sets a savepoint, to which ``rollback_to_savepoint()`` returns. Savepoints nest.
    ///
    /// The result may be used as a context manager: at the end of the block, the savepoint is
    /// removed, and the writes after it are taken back if the block raised.
    fn savepoint(&self, py: Python<'_>) -> PyResult<Savepoint> {
        let depth = self.held.change(py, |active| {
            active.transaction.savepoint()?;
            active.savepoints += 1;
            Ok(active.savepoints)
        })?;
        Ok(Savepoint { held: self.held.clone(), depth })
    }

    /// Takes back the writes after the newest savepoint, and removes the savepoint. Locks are kept.
    ///
    /// Raises IOError (``errno.ENOENT``) if there is no savepoint.
    fn rollback_to_savepoint(&self, py: Python<'_>) -> PyResult<()> {
        self.held.change(py, |active| {
            active.transaction.rollback_to_savepoint()?;
            active.savepoints -= 1;
            Ok(())
        })
    }

    /// Removes the newest savepoint and keeps the writes after it.
    ///
    /// Raises IOError (``errno.ENOENT``) if there is no savepoint.
    fn pop_savepoint(&self, py: Python<'_>) -> PyResult<()> {
        self.held.change(py, |active| {
            active.transaction.pop_savepoint()?;
            active.savepoints -= 1;
            Ok(())
        })
    }

    /// Makes the writes visible and durable, all together. A transaction without writes never
    /// conflicts.
    ///
    /// Raises ConflictError if something that the transaction has written, or that it has read and
    /// that is protected, was written by another commit; IOError. The transaction is rolled back
    /// then.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.held.commit(py)
    }

    /// Ends the transaction without its writes.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.held.end(py, ROLLED_BACK, false, |transaction| {
            transaction.rollback();
            Ok(())
        })
    }

    /// Checks the transaction as ``commit`` does, and stores it under ``name``, so that it survives
    /// a power loss, but does not make its writes visible. ``DB.commit_prepared`` or
    /// ``DB.rollback_prepared`` ends it, also after a crash. Until then, other transactions cannot
    /// write what it has written or read.
    ///
    /// Raises as ``commit``; Error if the name is empty, longer than 255 bytes or in use; BusyError
    /// and DeadlockError. The transaction is rolled back then.
    fn prepare(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.held.end(py, PREPARED, true, |transaction| transaction.prepare(name))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf.held.store.check_open("database")?;
        slf.held.check_active()?;
        Ok(slf)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if exception.get_item(0).is_ok_and(|kind| !kind.is_none()) {
            self.held.abort(py)
        } else if self.held.has_ended() {
            Ok(())
        } else {
            self.held.commit(py)
        }
    }
}

/// A savepoint of a transaction, for ``with transaction.savepoint():``.
#[pyclass(frozen, weakref, module = "esker")]
pub struct Savepoint {
    held: Arc<Held>,
    /// Number of savepoints of the transaction, with this one.
    depth: usize,
}

#[pymethods]
impl Savepoint {
    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.held.has_ended() {
            return Ok(());
        }
        let undo = exception.get_item(0).is_ok_and(|kind| !kind.is_none());
        self.held.leave_savepoint(py, self.depth, undo)
    }
}
