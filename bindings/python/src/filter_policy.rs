//! Filters of tables implemented by a Python object.
//!
//! Invariants:
//! 1. A function that fails loses no key: a filter that was not made, and a question without an
//!    answer, mean that the table may have the key.
//! 2. A filter without bytes may have every key. The object is not asked about it.
//! 3. The functions cannot use their own store.

use std::sync::Arc;

use esker::FilterPolicy;
use esker_bindings::calling;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::arguments::BytesLike;

/// The caller's functions and the name of the format of their filters.
pub struct PyFilterPolicy {
    name: String,
    create: Py<PyAny>,
    may_match: Py<PyAny>,
}

/// Returns a method of the caller's object.
fn method(given: &Bound<'_, PyAny>, name: &str) -> PyResult<Py<PyAny>> {
    let found = given.getattr_opt(name)?.filter(|found| found.is_callable());
    found.map(Bound::unbind).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "must be an object with 'name', 'create' and 'may_match'; it has no method '{name}'"
        ))
    })
}

impl PyFilterPolicy {
    /// Returns the policy of an object, or `None` for Python's `None`.
    pub fn of(given: &Bound<'_, PyAny>) -> PyResult<Option<Arc<PyFilterPolicy>>> {
        if given.is_none() {
            return Ok(None);
        }
        let name = given.getattr_opt("name")?.filter(|name| name.is_instance_of::<PyString>());
        let name = name.ok_or_else(|| {
            PyTypeError::new_err(
                "must be an object with 'name', 'create' and 'may_match'; its 'name' must be str",
            )
        })?;
        let (create, may_match) = (method(given, "create")?, method(given, "may_match")?);
        Ok(Some(Arc::new(PyFilterPolicy { name: name.extract()?, create, may_match })))
    }

    fn created(&self, py: Python<'_>, keys: &[&[u8]]) -> PyResult<Vec<u8>> {
        let keys = PyList::new(py, keys.iter().map(|key| PyBytes::new(py, key)))?;
        let filter = self.create.bind(py).call1((keys,))?;
        Ok(filter.extract::<BytesLike<'_>>()?.to_vec())
    }

    fn asked(&self, py: Python<'_>, key: &[u8], filter: &[u8]) -> PyResult<bool> {
        let arguments = (PyBytes::new(py, key), PyBytes::new(py, filter));
        self.may_match.bind(py).call1(arguments)?.extract()
    }
}

impl FilterPolicy for PyFilterPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, keys: &[&[u8]]) -> Vec<u8> {
        let created = Python::try_attach(|py| {
            calling::within(self, || self.created(py, keys)).unwrap_or_else(|error| {
                error.write_unraisable(py, Some(self.create.bind(py)));
                Vec::new()
            })
        });
        created.unwrap_or_default()
    }

    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool {
        if filter.is_empty() {
            return true;
        }
        let asked = Python::try_attach(|py| {
            calling::within(self, || self.asked(py, key, filter)).unwrap_or_else(|error| {
                error.write_unraisable(py, Some(self.may_match.bind(py)));
                true
            })
        });
        asked.unwrap_or(true)
    }
}
