//! plyvel's `WriteBatch`.
//!
//! Invariants: a batch is written atomically; a batch of a closed database raises.

use esker::{Batch, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyTuple};

use crate::arguments::BytesLike;
use crate::guarded::Guarded;
use crate::keyspace::Keyspace;
use crate::merge::Ttl;
use crate::operations;
use crate::part::Part;
use crate::writing::deadline_of;

/// A group of writes that is applied atomically: all become visible together, and a crash keeps all
/// or none.
///
/// Created by ``write_batch()``. As a context manager, it is written at the end of the block. If
/// the block raised, a batch with ``transaction=True`` is discarded; any other batch is still
/// written.
///
/// An operation is on the keys of the object that created the batch. With ``keyspace``, which is
/// not in plyvel, it is in that keyspace. The write fails if that keyspace is of another database
/// or was dropped.
#[pyclass(frozen, weakref, module = "esker")]
pub struct WriteBatch {
    part: Part,
    batch: Guarded<Batch>,
    transaction: bool,
    options: WriteOptions,
}

/// Creates a batch whose operations are on the keys of `part`.
pub fn make(part: &Part, transaction: bool, options: WriteOptions) -> PyResult<WriteBatch> {
    part.store().check_open("database")?;
    let batch = Guarded::new(Batch::new());
    Ok(WriteBatch { part: part.clone(), batch, transaction, options })
}

impl WriteBatch {
    #[inline]
    fn on<R>(&self, py: Python<'_>, body: impl FnOnce(&mut Batch) -> R) -> PyResult<R> {
        self.part.store().check_open("database")?;
        self.part.store().check_reentry(py)?;
        Ok(body(&mut self.batch.lock(py)))
    }

    /// Returns the part that an operation is on.
    #[inline]
    fn part_of<'a>(&'a self, keyspace: Option<&'a Keyspace>) -> &'a Part {
        keyspace.map_or(&self.part, |keyspace| &keyspace.part)
    }
}

#[pymethods]
impl WriteBatch {
    /// Adds a put of ``key`` with ``value``. ``ttl`` is the time to live in seconds, from the write
    /// of the batch on; see ``DB.put``.
    #[inline]
    #[pyo3(signature = (key, value, *, ttl=None, keyspace=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
        ttl: Option<Ttl>,
        keyspace: Option<&Keyspace>,
    ) -> PyResult<()> {
        self.on(py, |batch| self.part_of(keyspace).add_put(batch, &key, &value, ttl))
    }

    /// Adds a merge of ``operand`` into the value of ``key``; see ``DB.merge``. The write fails if
    /// there is no merge operator or it refuses the operand. Not in plyvel.
    #[pyo3(signature = (key, operand, *, keyspace=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        operand: BytesLike<'_>,
        keyspace: Option<&Keyspace>,
    ) -> PyResult<()> {
        self.on(py, |batch| self.part_of(keyspace).add_merge(batch, &key, &operand))
    }

    /// Adds a delete of ``key``.
    #[pyo3(signature = (key, *, keyspace=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        keyspace: Option<&Keyspace>,
    ) -> PyResult<()> {
        self.on(py, |batch| self.part_of(keyspace).add_delete(batch, &key))
    }

    /// Adds a range deletion from ``start`` (inclusive) to ``stop`` (exclusive). Not in plyvel.
    #[pyo3(signature = (start, stop, *, keyspace=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: BytesLike<'_>,
        stop: BytesLike<'_>,
        keyspace: Option<&Keyspace>,
    ) -> PyResult<()> {
        self.on(py, |batch| self.part_of(keyspace).add_delete_range(batch, &start, &stop))
    }

    /// Removes all operations.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.on(py, |batch| {
            batch.clear();
        })
    }

    /// Appends the current operations of the batch ``source``.
    fn append(&self, py: Python<'_>, source: &WriteBatch) -> PyResult<()> {
        self.part.store().check_reentry(py)?;
        source.part.store().check_reentry(py)?;
        let added = source.batch.lock(py).clone();
        self.on(py, |batch| {
            batch.append(&added);
        })
    }

    /// Returns the current operations, in order, as ``Operation``. Iteration over a batch gives
    /// them too. Not in plyvel.
    ///
    /// An operation that the batch refused, because its key or its value is too long, is not among
    /// them.
    fn operations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        // A copy: Python may run other code while it makes objects, and that may use the batch.
        let batch = self.on(py, |batch| batch.clone())?;
        operations::list_of(py, &batch)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.operations(py)?.try_iter()
    }

    /// Returns the number of operations. Not in plyvel.
    fn count(&self, py: Python<'_>) -> PyResult<usize> {
        self.on(py, |batch| batch.len())
    }

    /// Returns the approximate size of the operations in the WAL, in bytes.
    fn approximate_size(&self, py: Python<'_>) -> PyResult<usize> {
        self.on(py, |batch| batch.size_bytes())
    }

    /// Writes the batch to the database. The batch is not changed.
    ///
    /// Raises Error for a key over 1 MiB or a value over 1 GiB, IOError if the WAL cannot be
    /// written. In these cases nothing was changed.
    ///
    /// ``timeout``, which is not in plyvel, is the longest time in seconds to wait for memory while
    /// writes are stalled (``DB.stall``). After that, raises BusyError, and nothing was changed.
    #[pyo3(signature = (*, timeout=None))]
    fn write(&self, py: Python<'_>, timeout: Option<Ttl>) -> PyResult<()> {
        self.part.store().check_reentry(py)?;
        let options = self.options.deadline(deadline_of(timeout));
        let batch = self.batch.lock(py);
        let changes = &*batch;
        self.part.store().run(py, |db| db.write_with(changes, &options))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf.part.store().check_open("database")?;
        Ok(slf)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let raised = exception.get_item(0).is_ok_and(|kind| !kind.is_none());
        if raised && self.transaction { self.clear(py) } else { self.write(py, None) }
    }
}
