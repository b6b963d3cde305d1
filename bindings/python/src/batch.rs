//! Many writes at once: plyvel's `WriteBatch`.
//!
//! What stays true: a batch is written whole or not at all; a batch of a closed database raises.

use std::sync::Arc;

use esker::{Batch, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::BytesLike;
use crate::guarded::Guarded;
use crate::store::Store;

/// Writes that become visible, and survive a crash, all together or not at all.
///
/// Made by ``write_batch()``. As a context manager it is written at the end of the block; if the
/// block raised, a batch of ``transaction=True`` is thrown away, any other is written all the same.
#[pyclass(frozen, weakref, module = "esker")]
pub struct WriteBatch {
    store: Arc<Store>,
    batch: Guarded<Batch>,
    root: Vec<u8>,
    transaction: bool,
    options: WriteOptions,
}

/// Makes a batch that puts `root` before every key.
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
    /// Adds the setting of ``key`` to ``value``.
    #[inline]
    fn put(&self, py: Python<'_>, key: BytesLike<'_>, value: BytesLike<'_>) -> PyResult<()> {
        self.on(py, |batch| {
            match self.root.is_empty() {
                true => batch.put(&*key, &*value),
                false => batch.put(self.key(&key), &*value),
            };
        })
    }

    /// Adds the deletion of ``key``.
    fn delete(&self, py: Python<'_>, key: BytesLike<'_>) -> PyResult<()> {
        self.on(py, |batch| {
            batch.delete(self.key(&key));
        })
    }

    /// Adds the deletion of every key from ``start`` up to but without ``stop``. Esker's own: plyvel
    /// has no such method.
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

    /// Takes everything out.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.on(py, |batch| {
            batch.clear();
        })
    }

    /// Adds what ``source``, another batch, holds at this moment.
    fn append(&self, py: Python<'_>, source: &WriteBatch) -> PyResult<()> {
        self.store.check_reentry(py)?;
        source.store.check_reentry(py)?;
        let added = source.batch.lock(py).clone();
        self.on(py, |batch| {
            batch.append(&added);
        })
    }

    /// Bytes of the changes, roughly what they take in the log.
    fn approximate_size(&self, py: Python<'_>) -> PyResult<usize> {
        self.on(py, |batch| batch.size_bytes())
    }

    /// Writes the changes. The batch stays as it is.
    ///
    /// Raises Error for a key over 1 MiB or a value over 1 GiB, IOError when the log cannot be
    /// written; nothing was changed then.
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
