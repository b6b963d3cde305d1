//! Keys of encrypted databases, and the change of a key.
//!
//! Invariants:
//! 1. No exception has the bytes of a key.
//! 2. A function that gives keys cannot use its own database.

use std::sync::Arc;

use esker::encryption::{KeyError, KeyProvider, MasterKey};
use esker::fs::OsFs;
use esker_bindings::calling;
use esker_bindings::encryption::{self, Key};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::arguments::{self, BytesLike};
use crate::errors;

/// A source of keys implemented by a Python function.
struct PyKeySource(Py<PyAny>);

impl PyKeySource {
    fn call(&self, py: Python<'_>, name: Option<&str>) -> PyResult<Result<MasterKey, KeyError>> {
        let answer = self.0.bind(py).call1((name,))?;
        let Ok(both) = answer.cast::<PyTuple>() else {
            return Ok(encryption::given(&answer.extract::<BytesLike<'_>>()?, None));
        };
        let (key, name) = (both.get_item(0)?, both.get_item(1)?.extract::<String>()?);
        Ok(encryption::given(&key.extract::<BytesLike<'_>>()?, Some(&name)))
    }
}

impl KeyProvider for PyKeySource {
    fn master_key(&self, name: Option<&str>) -> Result<MasterKey, KeyError> {
        let given = Python::try_attach(|py| {
            calling::within(self, || self.call(py, name))
                .unwrap_or_else(|error| Err(format!("the function raised {error}").into()))
        });
        given.unwrap_or_else(|| Err("the interpreter has ended".into()))
    }
}

/// Returns the key that an argument gives: bytes, a path object of a file, or a function.
pub fn key_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Key>> {
    let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(None) };
    if given.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(
            "a key is bytes, a path object (pathlib.Path) of a file, or a function, not 'str'",
        ));
    }
    if given.hasattr("__fspath__")? {
        return Ok(Some(encryption::of_file(arguments::path_of(given)?)));
    }
    if given.is_callable() {
        return Ok(Some(Arc::new(PyKeySource(given.clone().unbind()))));
    }
    let content = given.extract::<BytesLike<'_>>()?;
    let key = encryption::of_bytes(&content).map_err(|error| errors::bad_option(&error))?;
    Ok(Some(key))
}

/// The result of ``rekey_db``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct RekeyReport {
    /// Name of the master key before.
    old: String,
    /// Name of the master key now.
    new: String,
    /// Number of data keys that files of the database still need, without the new one.
    data_keys: u64,
    /// Number of data keys that no file needed, and that were removed.
    removed_data_keys: u64,
}

#[pymethods]
impl RekeyReport {
    fn __repr__(&self) -> String {
        format!("<esker.RekeyReport from {:?} to {:?}>", self.old, self.new)
    }
}

/// Changes the key of the encrypted database in ``name``, which must not be open, from ``key`` to
/// ``new_key``. Both are given as for ``DB``. Returns a ``RekeyReport``.
///
/// Only the file ``KEYS`` is written, so the call takes milliseconds; a crash leaves the database with
/// the one or the other key. ``key`` opens nothing afterwards. New files get a new data key, and
/// existing ones keep theirs until ``DB.compact_range`` rewrites them. Checkpoints, forks and backups
/// have a ``KEYS`` of their own, under the key of the time at which they were made.
///
/// Raises IOError if there is no database or it is open; Error if it is not encrypted or ``key`` does
/// not open it; ValueError and TypeError for what is no key. Nothing is changed then.
#[pyfunction]
pub fn rekey_db(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    key: &Bound<'_, PyAny>,
    new_key: &Bound<'_, PyAny>,
) -> PyResult<RekeyReport> {
    let path = arguments::path_of(name)?;
    let named = |name: &str, error| arguments::named(py, name, error);
    let from = key_of(Some(key)).map_err(|error| named("key", error))?;
    let to = key_of(Some(new_key)).map_err(|error| named("new_key", error))?;
    let rekey = || encryption::rekey(OsFs::shared(), &path, from.as_ref(), to.as_ref());
    let made = py.detach(rekey).map_err(|error| errors::raised(py, &error))?;
    Ok(RekeyReport {
        old: made.from,
        new: made.to,
        data_keys: made.data_keys,
        removed_data_keys: made.removed_data_keys,
    })
}
