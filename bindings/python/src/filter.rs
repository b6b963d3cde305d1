//! Compaction filters implemented by Python functions.
//!
//! Invariants:
//! 1. A function that raises, or returns no decision, is not asked again by the same compaction,
//!    which keeps the remaining pairs.
//! 2. A function cannot use its own store.

use esker::{CompactionFilter, FilterDecision};
use esker_bindings::calling;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString};

use crate::arguments::BytesLike;

/// The caller's function and the name of the filter.
pub struct PyFilter {
    function: Py<PyAny>,
    name: String,
}

impl PyFilter {
    /// Returns the filters of a dict from names to functions.
    pub fn all_of(given: &Bound<'_, PyAny>) -> PyResult<Vec<PyFilter>> {
        if given.is_none() {
            return Ok(Vec::new());
        }
        let given = given
            .cast::<PyDict>()
            .map_err(|_| PyTypeError::new_err("must be a dict from names to functions"))?;
        let mut filters = Vec::with_capacity(given.len());
        for (name, function) in given {
            let name: String = name
                .cast::<PyString>()
                .map_err(|_| PyTypeError::new_err("the name of a compaction filter must be str"))?
                .extract()?;
            if !function.is_callable() {
                let message = format!("the compaction filter '{name}' must be a function");
                return Err(PyTypeError::new_err(message));
            }
            filters.push(PyFilter { function: function.unbind(), name });
        }
        Ok(filters)
    }

    /// Returns the name of the filter that a caller chooses: by a name, or by the function of one
    /// of `filters`.
    pub fn name_of<'a>(
        mut filters: impl Iterator<Item = &'a PyFilter>,
        chosen: &Bound<'_, PyAny>,
    ) -> PyResult<String> {
        if let Ok(name) = chosen.cast::<PyString>() {
            return name.extract();
        }
        let found = filters.find(|filter| filter.function.bind(chosen.py()).is(chosen));
        found.map(|filter| filter.name.clone()).ok_or_else(|| {
            PyTypeError::new_err(
                "argument 'compaction_filter': must be the name of a compaction filter, or a \
                 function of the 'compaction_filters' with which the database was opened",
            )
        })
    }

    fn decide(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<FilterDecision> {
        let arguments = (PyBytes::new(py, key), PyBytes::new(py, value));
        let answer = self.function.bind(py).call1(arguments)?;
        if let Ok(keeps) = answer.cast::<PyBool>() {
            let keeps = keeps.is_true();
            return Ok(if keeps { FilterDecision::Keep } else { FilterDecision::Remove });
        }
        match answer.extract::<BytesLike<'_>>() {
            Ok(value) => Ok(FilterDecision::Replace(value.to_vec())),
            Err(_) => Err(PyTypeError::new_err(format!(
                "a compaction filter returns True, False or a new value of bytes, not {}",
                answer.get_type()
            ))),
        }
    }
}

impl CompactionFilter for PyFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, _level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        let decided = Python::try_attach(|py| {
            calling::within(self, || self.decide(py, key, value))
                .map_err(|error| format!("it raised {error}"))
        });
        match decided {
            Some(Ok(decision)) => decision,
            // The engine catches the unwinding, and takes it for a failure of the filter.
            Some(Err(why)) => std::panic::resume_unwind(Box::new(why)),
            // The interpreter has ended.
            None => FilterDecision::Keep,
        }
    }
}
