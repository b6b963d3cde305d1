//! What a store does and what its writes wait for: listeners, stalls, counts of calls. And what
//! several stores share: runtimes.
//!
//! Invariants:
//! 1. A listener that raises is called again with the next event.
//! 2. A listener cannot use its own store.

use std::time::{SystemTime, UNIX_EPOCH};

use esker::fs::OsFs;
use esker::perf::PerfContext;
use esker::{Event, EventListener, RuntimeOptions};
use esker_bindings::calling;
use esker_bindings::events::{self, Value};
use esker_bindings::{encryption, runtime};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::encryption::key_of;
use crate::{arguments, errors, metrics};

/// A listener implemented by a Python function.
pub struct PyListener(pub Py<PyAny>);

impl PyListener {
    fn call(&self, py: Python<'_>, event: &Event) -> PyResult<()> {
        let dict = PyDict::new(py);
        dict.set_item("kind", events::kind(event).1)?;
        dict.set_item("text", event.to_string())?;
        for (name, value) in events::fields(event) {
            match value {
                Value::Number(number) => dict.set_item(name, number)?,
                Value::Text(text) => dict.set_item(name, text)?,
                Value::Flag(flag) => dict.set_item(name, flag)?,
                Value::Time(time) => dict.set_item(name, time.as_secs_f64())?,
                Value::Failure(failure) => {
                    dict.set_item(name, errors::raised(py, failure).into_value(py))?;
                }
                Value::Pairs(pairs) => {
                    let options = PyDict::new(py);
                    for (name, value) in pairs {
                        options.set_item(name, value)?;
                    }
                    dict.set_item(name, options)?;
                }
            }
        }
        self.0.bind(py).call1((dict,)).map(drop)
    }
}

impl EventListener for PyListener {
    fn on_event(&self, event: &Event) {
        // Without an interpreter nobody listens.
        let _ = Python::try_attach(|py| {
            if let Err(error) = calling::within(self, || self.call(py, event)) {
                error.write_unraisable(py, Some(self.0.bind(py)));
            }
        });
    }
}

/// Threads, memory and background input and output that databases share.
///
/// Databases opened with the same ``runtime`` share its worker threads, its memory budget, its
/// block cache and its limit on background writes. A database without one has all of these for
/// itself. The options are ``memory_budget_bytes`` and ``cache_size_bytes`` (numbers, or text like
/// '256MiB'), ``cache_policy``, ``threads_max`` and ``background_bytes_per_second``; None selects
/// the default. Raises ValueError for a value out of range. Not in plyvel.
///
/// A runtime cannot be used in a child of a fork. Functions of a database that its threads call
/// (comparators, listeners) must not wait for another database of the runtime.
#[pyclass(frozen, module = "esker")]
pub struct Runtime {
    pub runtime: esker::Runtime,
}

#[pymethods]
impl Runtime {
    #[new]
    #[pyo3(
        signature = (**options),
        text_signature = "(*, memory_budget_bytes=None, cache_size_bytes=None, \
            cache_policy='s3fifo', threads_max=None, background_bytes_per_second=0)"
    )]
    fn new(options: Option<&Bound<'_, PyDict>>) -> PyResult<Runtime> {
        let mut chosen = RuntimeOptions::default();
        for (name, value) in options.into_iter().flatten() {
            let name: String = name.extract()?;
            let known = [
                "memory_budget_bytes",
                "cache_size_bytes",
                "cache_policy",
                "threads_max",
                "background_bytes_per_second",
            ];
            if !known.contains(&&*name) {
                let message = format!("Runtime() has no argument '{name}'");
                return Err(PyTypeError::new_err(message));
            }
            let text = arguments::text_of(&name, &value)?;
            runtime::set(&mut chosen, &name, &text).map_err(|error| errors::bad_option(&error))?;
        }
        let made = esker::Runtime::new(chosen).map_err(|error| errors::bad_option(&error))?;
        Ok(Runtime { runtime: made })
    }

    fn __repr__(&self) -> String {
        let used = self.runtime.metrics();
        format!("<esker.Runtime of {} bytes with {} databases>", used.budget_bytes, used.stores)
    }

    /// Returns what the databases use now, as a dict of numbers. The names contain the units.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in runtime::metrics(&py.detach(|| self.runtime.metrics())) {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }
}

/// What writes wait for; see ``DB.stall``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct Stall {
    /// Why writes wait, as a sentence without its end.
    cause: String,
    /// Bytes that have to be written to tables before writes go on at full speed.
    bytes: u64,
    /// What ends the wait, as a sentence without its end.
    clears: String,
    /// Time since the wait began, in seconds.
    duration: f64,
    /// True if writes wait until the cause is gone; False if each write is only slowed.
    is_stopped: bool,
}

impl From<esker::Stall> for Stall {
    fn from(stall: esker::Stall) -> Stall {
        Stall {
            duration: stall.duration.as_secs_f64(),
            cause: stall.cause,
            bytes: stall.bytes,
            clears: stall.clears,
            is_stopped: stall.is_stopped,
        }
    }
}

#[pymethods]
impl Stall {
    fn __repr__(&self) -> String {
        format!("<esker.Stall: {}; {}>", self.cause, self.clears)
    }
}

fn seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Returns the metrics that the process publishes that has the database in ``name`` open for
/// writing, as a dict like ``DB.metrics()`` with ``process`` (its number), ``opened`` and
/// ``updated`` (seconds since 1970). They are about a second old, or ten seconds while nothing
/// changes. ``key`` is that of an encrypted database, as for ``DB``. Raises IOError
/// (``errno.ENOENT``) if no process has it open.
#[pyfunction]
#[pyo3(signature = (name, *, key=None))]
pub fn live_status<'py>(
    py: Python<'py>,
    name: &Bound<'py, PyAny>,
    key: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (path, key) = (arguments::path_of(name)?, key_of(key)?);
    let fs = encryption::file_system(OsFs::shared(), key.as_ref());
    let found = py.detach(|| esker::Db::live_status_on(fs, path));
    let status = found.map_err(|error| errors::raised(py, &error))?;
    let dict = metrics::to_dict(py, &status.metrics)?;
    dict.set_item("process", status.process)?;
    dict.set_item("opened", seconds(status.opened))?;
    dict.set_item("updated", seconds(status.updated))?;
    Ok(dict)
}

/// Switches the counting of this thread's calls on or off. Switching it on sets its counts to 0. It
/// is off in a new thread. See ``take_perf``.
#[pyfunction]
#[pyo3(signature = (on=true))]
pub fn enable_perf(on: bool) {
    esker::perf::enable(on);
}

/// Returns the counts of this thread's calls since the last call, or since ``enable_perf``, and
/// sets them to 0: a dict of numbers, such as ``cache_hits`` and ``stall_ns``.
#[pyfunction]
pub fn take_perf(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in runtime::perf(&PerfContext::take()) {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}
