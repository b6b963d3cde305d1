//! A key order implemented by a Python function.
//!
//! Invariants:
//! 1. The first exception of the function is kept. Its store then refuses reads and writes, because
//!    a failed comparison may have put keys in the wrong order.
//! 2. The function cannot use its own store.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use esker::Comparator;
use esker_bindings::calling;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The caller's function and the name of the order.
pub struct PyComparator {
    callable: Py<PyAny>,
    name: String,
    failed: OnceLock<PyErr>,
}

impl PyComparator {
    pub fn new(callable: Py<PyAny>, name: String) -> PyComparator {
        PyComparator { callable, name, failed: OnceLock::new() }
    }

    /// Raises if the function ever raised an exception.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        let Some(failed) = self.failed.get() else { return Ok(()) };
        let error = PyRuntimeError::new_err(format!(
            "the comparator {:?} raised, so the order of keys is not known; open the database \
             again with one that does not",
            self.name
        ));
        error.set_cause(py, Some(failed.clone_ref(py)));
        Err(error)
    }

    /// Raises if one of several functions ever raised an exception.
    #[inline]
    pub fn check_all(py: Python<'_>, comparators: &[Arc<PyComparator>]) -> PyResult<()> {
        comparators.iter().try_for_each(|comparator| comparator.check(py))
    }

    fn call(&self, py: Python<'_>, a: &[u8], b: &[u8]) -> PyResult<Ordering> {
        let sign = self.callable.bind(py).call1((PyBytes::new(py, a), PyBytes::new(py, b)))?;
        Ok(sign.extract::<i64>()?.cmp(&0))
    }
}

impl Comparator for PyComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let answer = Python::try_attach(|py| {
            calling::within(self, || self.call(py, a, b)).unwrap_or_else(|error| {
                let _ = self.failed.set(error);
                a.cmp(b)
            })
        });
        // Without an interpreter, keys cannot be compared, and no key may be written in a wrong
        // order. The package closes its stores before the interpreter ends. A thread that still
        // gets here parks until the process ends.
        answer.unwrap_or_else(|| {
            loop {
                std::thread::park();
            }
        })
    }
}
