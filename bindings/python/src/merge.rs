//! Merge operators implemented by Python functions, and times to live.
//!
//! Invariants:
//! 1. An exception of a function is an error of the read that called it. No operand is lost.
//! 2. A function cannot use its own store.

use std::time::Duration;

use esker::MergeOperator;
use esker_bindings::calling;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::arguments::BytesLike;

/// The caller's functions and the name of the operator.
pub struct PyMerge {
    full: Py<PyAny>,
    partial: Option<Py<PyAny>>,
    name: String,
}

impl PyMerge {
    /// Returns the operators of a dict from names to functions, or to pairs of functions.
    pub fn all_of(given: &Bound<'_, PyAny>) -> PyResult<Vec<PyMerge>> {
        if given.is_none() {
            return Ok(Vec::new());
        }
        let given = given
            .cast::<PyDict>()
            .map_err(|_| PyTypeError::new_err("must be a dict from names to functions"))?;
        given.iter().map(|(name, functions)| PyMerge::of(&name, &functions)).collect()
    }

    fn of(name: &Bound<'_, PyAny>, functions: &Bound<'_, PyAny>) -> PyResult<PyMerge> {
        let name: String = name
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err("the name of a merge operator must be str"))?
            .extract()?;
        if esker::built_in_merge_operator(&name).is_some() {
            return Err(PyValueError::new_err(format!(
                "'{name}' is the name of a built-in merge operator; choose another name"
            )));
        }
        let (full, partial) = match functions.cast::<PyTuple>() {
            Ok(pair) if pair.len() == 2 => (pair.get_item(0)?, Some(pair.get_item(1)?)),
            _ => (functions.clone(), None),
        };
        if !full.is_callable() || partial.as_ref().is_some_and(|partial| !partial.is_callable()) {
            return Err(PyTypeError::new_err(format!(
                "the merge operator '{name}' must be a function, or a tuple of a function for \
                 values and one for operands"
            )));
        }
        Ok(PyMerge { full: full.unbind(), partial: partial.map(Bound::unbind), name })
    }

    /// Returns the name of the operator that a caller chooses: by a name, or by the function of one
    /// of `operators`.
    pub fn name_of<'a>(
        operators: impl Iterator<Item = &'a PyMerge>,
        chosen: &Bound<'_, PyAny>,
    ) -> PyResult<String> {
        if let Ok(name) = chosen.cast::<PyString>() {
            return name.extract();
        }
        let py = chosen.py();
        let mut operators = operators;
        let found = operators.find(|operator| operator.full.bind(py).is(chosen));
        found.map(|operator| operator.name.clone()).ok_or_else(|| {
            PyTypeError::new_err(
                "argument 'merge': must be the name of a merge operator, or a function of the \
                 'merge_operators' with which the database was opened",
            )
        })
    }

    fn merged(
        &self,
        py: Python<'_>,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> PyResult<()> {
        let existing = existing.map(|value| PyBytes::new(py, value));
        let operands = list_of(py, operands)?;
        let value = self.full.bind(py).call1((PyBytes::new(py, key), existing, operands))?;
        out.extend_from_slice(&value.extract::<BytesLike<'_>>()?);
        Ok(())
    }

    fn combined(
        &self,
        py: Python<'_>,
        key: &[u8],
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> PyResult<bool> {
        let Some(partial) = &self.partial else { return Ok(false) };
        let operand = partial.bind(py).call1((PyBytes::new(py, key), list_of(py, operands)?))?;
        if operand.is_none() {
            return Ok(false);
        }
        out.extend_from_slice(&operand.extract::<BytesLike<'_>>()?);
        Ok(true)
    }
}

fn list_of<'py>(py: Python<'py>, operands: &[&[u8]]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, operands.iter().map(|operand| PyBytes::new(py, operand)))
}

impl MergeOperator for PyMerge {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let merged = Python::try_attach(|py| {
            calling::within(self, || self.merged(py, key, existing, operands, out))
                .map_err(|error| format!("it raised {error}"))
        });
        merged.unwrap_or_else(|| Err("the interpreter has ended".to_string()))
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        let combined = Python::try_attach(|py| {
            // The full merge reports an error of the functions, when the key is read.
            calling::within(self, || self.combined(py, key, operands, out)).unwrap_or(false)
        });
        combined.unwrap_or(false)
    }
}

/// A time to live, or the longest wait of a write: a number of seconds. `math.inf` never ends.
#[derive(Clone, Copy)]
pub struct Ttl(Duration);

impl Ttl {
    /// Returns the time to live, for which the engine's maximum means that it never ends.
    pub fn duration(self) -> Duration {
        self.0
    }

    /// Returns the time to live of a call that takes `None` for one that never ends.
    pub fn or_never(ttl: Option<Ttl>) -> Duration {
        ttl.map_or(Duration::MAX, Ttl::duration)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Ttl {
    type Error = PyErr;

    fn extract(given: pyo3::Borrowed<'a, 'py, PyAny>) -> PyResult<Ttl> {
        let seconds: f64 = given.extract()?;
        if seconds.is_nan() || seconds < 0.0 {
            return Err(PyValueError::new_err(format!(
                "a time is a number of seconds from 0 on, not {seconds}"
            )));
        }
        Ok(Ttl(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
    }
}
