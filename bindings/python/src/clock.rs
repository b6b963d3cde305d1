//! The clock of expiry, implemented by a Python function.
//!
//! Invariants:
//! 1. A function that raises, or returns no time, does not move the clock.
//! 2. A function cannot use its own store.
//!
//! The engine calls a clock while it holds the lock of its list of snapshots. So no thread may wait
//! for that lock while it holds the interpreter's lock: see `snapshot`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::Clock;
use esker_bindings::calling;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The caller's function and the last time that it returned.
pub struct PyClock {
    function: Py<PyAny>,
    last_ms: AtomicU64,
}

impl PyClock {
    /// Returns the clock of a function, which is called once, or `None` for Python's `None`.
    pub fn of(given: &Bound<'_, PyAny>) -> PyResult<Option<Arc<PyClock>>> {
        if given.is_none() {
            return Ok(None);
        }
        if !given.is_callable() {
            return Err(PyTypeError::new_err("must be a function that returns a time"));
        }
        let last_ms = AtomicU64::new(time_of(given)?);
        Ok(Some(Arc::new(PyClock { function: given.clone().unbind(), last_ms })))
    }
}

/// Calls a clock. Returns the time in milliseconds since 1970.
fn time_of(function: &Bound<'_, PyAny>) -> PyResult<u64> {
    let seconds: f64 = function.call0()?.extract()?;
    if !seconds.is_finite() || seconds < 0.0 {
        let message = format!("a clock returns seconds since 1970, from 0 on, not {seconds}");
        return Err(PyValueError::new_err(message));
    }
    Ok((seconds * 1000.0).round() as u64)
}

impl Clock for PyClock {
    fn now_ms(&self) -> u64 {
        // Without an interpreter the clock stands still.
        let _ = Python::try_attach(|py| {
            let function = self.function.bind(py);
            match calling::within(self, || time_of(function)) {
                Ok(now_ms) => self.last_ms.store(now_ms, Ordering::Relaxed),
                Err(error) => error.write_unraisable(py, Some(function)),
            }
        });
        self.last_ms.load(Ordering::Relaxed)
    }
}
