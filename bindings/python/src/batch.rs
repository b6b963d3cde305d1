//! plyvel's `WriteBatch`.
//!
//! Invariants: a batch is written atomically; a batch of a closed database raises.

use std::sync::Arc;

use esker::{Batch, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::BytesLike;
use crate::guarded::Guarded;
use crate::store::Store;

/// A group of writes that is applied atomically: all become visible together, and a crash keeps all
/// or none.
///
/// Created by ``write_batch()``. As a context manager, it is written at the end of the block. If
/// the block raised, a batch with ``transaction=True`` is discarded; any other batch is still
/// written.
#[pyclass(frozen, weakref, module = "esker")]
pub struct WriteBatch {
    store: Arc<Store>,
    batch: Guarded<Batch>,
    root: Vec<u8>,
    transaction: bool,
    options: WriteOptions,
}

/// Creates a batch that prepends `root` to every key.
pub fn make(
    store: &Arc<Store>,
    root: &[u8],
    transaction: bool,
    options: WriteOptions,
) -> PyResult<WriteBatch> {
    store.check_open("database")?;
    let batch = Guarded::new(Batch::new());
    Ok(WriteBatch { store: store.clone(), batch, root: root.to_vec(), transaction, options })
}

impl WriteBatch {
    #[inline]
    fn on<R>(&self, py: Python<'_>, body: impl FnOnce(&mut Batch) -> R) -> PyResult<R> {
        self.store.check_open("database")?;
        self.store.check_reentry(py)?;
        Ok(body(&mut self.batch.lock(py)))
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.root, key].concat()
    }
}

#[pymethods]
impl WriteBatch {
    /// Adds a put of ``key`` with ``value``.
    #[inline]
    fn put(&self, py: Python<'_>, key: BytesLike<'_>, value: BytesLike<'_>) -> PyResult<()> {
        self.on(py, |batch| {
            match self.root.is_empty() {
                true => batch.put(&*key, &*value),
                false => batch.put(self.key(&key), &*value),
            };
        })
    }

    /// Adds a delete of ``key``.
    fn delete(&self, py: Python<'_>, key: BytesLike<'_>) -> PyResult<()> {
        self.on(py, |batch| {
            batch.delete(self.key(&key));
        })
    }

    /// Adds a range deletion from ``start`` (inclusive) to ``stop`` (exclusive). Not in plyvel.
    fn delete_range(
        &self,
        py: Python<'_>,
        start: BytesLike<'_>,
        stop: BytesLike<'_>,
    ) -> PyResult<()> {
        self.on(py, |batch| {
            batch.delete_range(self.key(&start), self.key(&stop));
        })
    }

    /// Removes all operations.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.on(py, |batch| {
            batch.clear();
        })
    }

    /// Appends the current operations of the batch ``source``.
    fn append(&self, py: Python<'_>, source: &WriteBatch) -> PyResult<()> {
        self.store.check_reentry(py)?;
        source.store.check_reentry(py)?;
        let added = source.batch.lock(py).clone();
        self.on(py, |batch| {
            batch.append(&added);
        })
    }

    /// Returns the approximate size of the operations in the WAL, in bytes.
    fn approximate_size(&self, py: Python<'_>) -> PyResult<usize> {
        self.on(py, |batch| batch.size_bytes())
    }

    /// Writes the batch to the database. The batch is not changed.
    ///
    /// Raises Error for a key over 1 MiB or a value over 1 GiB, IOError if the WAL cannot be
    /// written. In these cases nothing was changed.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        self.store.check_reentry(py)?;
        let batch = self.batch.lock(py);
        let changes = &*batch;
        self.store.run(py, |db| db.write_with(changes, &self.options))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf.store.check_open("database")?;
        Ok(slf)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let raised = exception.get_item(0).is_ok_and(|kind| !kind.is_none());
        if raised && self.transaction { self.clear(py) } else { self.write(py) }
    }
}
