//! The operations of a batch. Not in plyvel.
//!
//! Invariant: a list of operations does not change with its batch.

use esker::{Batch, BatchOp};
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// An operation of a ``WriteBatch``.
///
/// ``kind`` tells which attributes it has; the others are None. ``'put'``: ``key``, ``value`` and
/// ``ttl``. ``'merge'``: ``key``, and the operand as ``value``. ``'delete'``: ``key``.
/// ``'delete_range'``: ``key`` (inclusive) and ``stop`` (exclusive).
#[pyclass(frozen, get_all, module = "esker")]
pub struct Operation {
    /// What the operation does.
    kind: &'static str,
    /// Number of the keyspace (``Keyspace.id``); 0 is the keyspace ``default``.
    keyspace_id: u32,
    /// The key, or the start of a range, as the keyspace has it: with the prefix of a
    /// ``PrefixedDB``.
    key: Py<PyBytes>,
    /// The value or the operand.
    value: Option<Py<PyBytes>>,
    /// The end of a range, exclusive.
    stop: Option<Py<PyBytes>>,
    /// Time to live in seconds, from the write of the batch on: the own one of the put, or that of
    /// its keyspace. None if the pair does not expire.
    ttl: Option<f64>,
}

impl Operation {
    fn of(py: Python<'_>, operation: BatchOp<'_>) -> PyResult<Operation> {
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
        let new = |kind, keyspace_id, key: &[u8]| Operation {
            kind,
            keyspace_id,
            key: bytes(key),
            value: None,
            stop: None,
            ttl: None,
        };
        Ok(match operation {
            BatchOp::Put { keyspace, key, value } => {
                Operation { value: Some(bytes(value)), ..new("put", keyspace, key) }
            }
            BatchOp::PutWithTtl { keyspace, key, value, ttl } => {
                let ttl = Some(ttl.as_secs_f64());
                Operation { value: Some(bytes(value)), ttl, ..new("put", keyspace, key) }
            }
            BatchOp::Merge { keyspace, key, operand } => {
                Operation { value: Some(bytes(operand)), ..new("merge", keyspace, key) }
            }
            BatchOp::Delete { keyspace, key } => new("delete", keyspace, key),
            BatchOp::DeleteRange { keyspace, start, end } => {
                Operation { stop: Some(bytes(end)), ..new("delete_range", keyspace, start) }
            }
            _ => {
                let message =
                    "this version of esker for Python has no name for an operation of the batch";
                return Err(PyNotImplementedError::new_err(message));
            }
        })
    }
}

#[pymethods]
impl Operation {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = self.key.bind(py).repr()?;
        Ok(format!("<esker.Operation {} {key} in keyspace {}>", self.kind, self.keyspace_id))
    }
}

/// Returns the operations of a batch, in order.
pub fn list_of<'py>(py: Python<'py>, batch: &Batch) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for operation in batch.operations() {
        list.append(Operation::of(py, operation)?)?;
    }
    Ok(list)
}
