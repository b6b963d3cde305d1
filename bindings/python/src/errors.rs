//! Conversion of failures to exceptions. The classes are in `esker/_errors.py`, because `IOError`
//! has two base classes.
//!
//! Invariant: an exception has the engine's message, and the attributes `kind`, `path` and
//! `offset_bytes` for programs.

use std::error::Error as _;

use esker::{Error, ErrorKind};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The class of conflicts, which is the base class of deadlocks.
static CONFLICT: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Returns the exception for a call on a closed object.
pub fn closed(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("the {what} is closed"))
}

/// Returns the exception for an invalid option.
pub fn bad_option(error: &Error) -> PyErr {
    PyValueError::new_err(error.message().to_string())
}

/// Returns the exception for a raw iterator that is not at a key.
pub fn nowhere(py: Python<'_>) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match CLASS.import(py, "esker._errors", "IteratorInvalidError") {
        Ok(class) => PyErr::from_type(class.clone(), "the iterator stands on no key"),
        Err(failed) => failed,
    }
}

/// Returns whether an exception says that a transaction should run again.
pub fn is_conflict(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    Ok(error.is_instance(py, CONFLICT.import(py, "esker._errors", "ConflictError")?))
}

/// Returns the exception for a failure of the engine.
pub fn raised(py: Python<'_>, error: &Error) -> PyErr {
    made(py, error).unwrap_or_else(|failed| failed)
}

fn made(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    static PLAIN: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static IO: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static CORRUPTION: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static BUSY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static DEADLOCK: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let kind = error.kind();
    let io = matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::Io
            | ErrorKind::NoSpace
            | ErrorKind::Locked
            | ErrorKind::ReadOnly
    );
    let class = match kind {
        ErrorKind::Closed => return Ok(closed("database")),
        ErrorKind::Corruption => CORRUPTION.import(py, "esker._errors", "CorruptionError")?,
        ErrorKind::Conflict => CONFLICT.import(py, "esker._errors", "ConflictError")?,
        ErrorKind::Busy => BUSY.import(py, "esker._errors", "BusyError")?,
        ErrorKind::Deadlock => DEADLOCK.import(py, "esker._errors", "DeadlockError")?,
        _ if io => IO.import(py, "esker._errors", "IOError")?,
        _ => PLAIN.import(py, "esker._errors", "Error")?,
    };
    let exception = class.call1((error.to_string(),))?;
    exception.setattr("kind", kind.name())?;
    exception.setattr("path", error.path().map(|path| path.display().to_string()))?;
    exception.setattr("offset_bytes", error.offset_bytes())?;
    if let Some(errno) = errno_of(error) {
        exception.setattr("errno", errno)?;
    }
    Ok(PyErr::from_value(exception))
}

/// Returns the operating system's error number, if there is one.
fn errno_of(error: &Error) -> Option<i32> {
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    match error.kind() {
        ErrorKind::NotFound => Some(libc::ENOENT),
        ErrorKind::Io => source.and_then(std::io::Error::raw_os_error),
        ErrorKind::NoSpace => source.and_then(std::io::Error::raw_os_error).or(Some(libc::ENOSPC)),
        ErrorKind::Locked => Some(libc::EWOULDBLOCK),
        ErrorKind::ReadOnly => Some(libc::EROFS),
        _ => None,
    }
}
