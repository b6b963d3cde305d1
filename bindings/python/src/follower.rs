//! Followers: read-only views of a database that another process writes.
//!
//! Invariants:
//! 1. A view and a promoted database are open databases of their own: they stay open when the follower
//!    is closed.
//! 2. A wait does not keep the follower open: a close ends it. It ends for a signal too.
//! 3. All followers are registered, so that their threads end before the interpreter does, and so that
//!    a child of a fork leaves them to its parent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use esker::fs::OsFs;
use esker::{Db, ErrorKind, Result};
use esker_bindings::follower::FollowerHandle;
use esker_bindings::handle::Handle;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arguments::{self, Chosen};
use crate::comparator::PyComparator;
use crate::db::DB;
use crate::errors;
use crate::merge::Ttl;
use crate::store::{Callables, Store};

/// Time between two looks for signals during a wait.
const LOOK: Duration = Duration::from_millis(100);

/// The followers that may be open. Locked only while the interpreter's lock is held, so that it is
/// never locked during a fork.
static OPEN: Mutex<Vec<Weak<Following>>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<Weak<Following>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A follower, until it is closed.
struct Following {
    handle: FollowerHandle,
    callables: Callables,
}

impl Following {
    /// Runs `body` without the interpreter's lock.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&FollowerHandle) -> Result<T> + Send,
    ) -> PyResult<T> {
        PyComparator::check_all(py, &self.callables.comparators)?;
        let outcome = py.detach(|| body(&self.handle));
        PyComparator::check_all(py, &self.callables.comparators)?;
        outcome.map_err(|error| match error.kind() {
            ErrorKind::Closed if self.handle.is_closed() => errors::closed("follower"),
            _ => errors::raised(py, &error),
        })
    }

    /// Returns a view or a promoted store as a database.
    fn database(&self, py: Python<'_>, db: Db, name: &Py<PyAny>) -> PyResult<DB> {
        let handle = Handle::of(db, self.handle.functions());
        let store = Store::of(py, handle, self.handle.orders(), self.callables.clone())?;
        Ok(DB::of(store, name.clone_ref(py)))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // The follower's thread may wait for the interpreter's lock, and the close waits for it.
        if Python::try_attach(|py| py.detach(|| drop(self.handle.close()))).is_none() {
            drop(self.handle.close());
        }
    }
}

/// A follower of a database that another process writes, from ``esker.follow``: a read replica on the
/// same machine that needs no copy of the data.
///
/// ``db()`` returns a view: a database open read-only that shows the followed one at one moment and
/// never changes. ``catch_up`` makes a newer view, and ``catch_up_every`` lets a thread do so. A view
/// shows every write that returned before its catch-up began, and none after that. It keeps what it
/// needs, also files that the writer has removed, until it is closed.
///
/// A follower writes nothing, takes no lock, and never makes the writer wait. Many threads may use it
/// concurrently. After ``close``, at the end of a ``with`` block or in the child of a fork its calls
/// raise RuntimeError. Views and promoted databases stay open.
#[pyclass(frozen, weakref, module = "esker")]
pub struct Follower {
    shared: Arc<Following>,
    /// The directory, as passed to ``esker.follow``.
    #[pyo3(get)]
    name: Py<PyAny>,
}

/// How far a follower is behind, from ``Follower.lag``. Positions are sequence numbers, as in the change
/// feed.
#[pyclass(frozen, get_all, module = "esker")]
pub struct FollowerLag {
    /// Position of the newest view: the last operation that it shows.
    position: u64,
    /// The last operation that the database has now.
    newest: u64,
    /// Number of sequence numbers between the two.
    operations: u64,
    /// Time since the begin of the last catch-up that did not fail, in seconds.
    age: f64,
    /// Why the last catch-up failed, as a sentence; None if it did not.
    error: Option<String>,
}

#[pymethods]
impl FollowerLag {
    fn __repr__(&self) -> String {
        format!("<esker.FollowerLag of {} operations>", self.operations)
    }
}

#[pymethods]
impl Follower {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = if self.closed() { " (closed)" } else { "" };
        Ok(format!("<esker.Follower of {}{state}>", self.name.bind(py).repr()?))
    }

    /// Returns the newest view, as a ``DB`` that is open read-only. Take it once for each request, so
    /// that the reads of a request fit together, and close it.
    fn db(&self, py: Python<'_>) -> PyResult<DB> {
        let view = self.shared.run(py, |handle| Ok(handle.open()?.db()))?;
        self.shared.database(py, view, &self.name)
    }

    /// The position of the newest view: the sequence number of the last operation that it shows.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.run(py, |handle| Ok(handle.open()?.position()))
    }

    /// Makes the newest view show what the database has now. Returns its position. Reads only what was
    /// added since the last call.
    ///
    /// Raises CorruptionError if a file is damaged; Error if a keyspace has a key order that the options
    /// lack, or another database has taken the place of this one; IOError. The newest view is then as
    /// before, and the call can be repeated.
    fn catch_up(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.run(py, |handle| handle.open()?.catch_up())
    }

    /// Lets a thread catch up whenever ``interval`` seconds have passed since its last catch-up. The
    /// thread ends with the follower. A further call changes the interval. ``lag`` has the failure of the
    /// last catch-up. Raises Error if the interval is 0.
    fn catch_up_every(&self, py: Python<'_>, interval: Ttl) -> PyResult<()> {
        self.shared.run(py, |handle| handle.open()?.catch_up_every(interval.duration()))
    }

    /// Waits until the newest view shows the operation with the sequence number ``position``, for at most
    /// ``timeout`` seconds, and catches up meanwhile; None waits for ever. Returns False after that time.
    /// So a program that has written to the database in another process, and knows the position from
    /// ``DB.snapshot_with_position``, reads its own writes. Raises as ``catch_up``.
    #[pyo3(signature = (position, timeout=None))]
    fn wait_for(&self, py: Python<'_>, position: u64, timeout: Option<Ttl>) -> PyResult<bool> {
        let deadline = timeout.and_then(|wait| Instant::now().checked_add(wait.duration()));
        loop {
            let left = deadline.map_or(LOOK, |at| at.saturating_duration_since(Instant::now()));
            let part = Some(left.min(LOOK));
            if self.shared.run(py, |handle| handle.wait_for(position, part, || true))? {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }

    /// Returns how far the newest view is behind the database, as ``FollowerLag``. Reads the logs from the
    /// position of the view on, and takes nothing over. Raises as ``catch_up``.
    fn lag(&self, py: Python<'_>) -> PyResult<FollowerLag> {
        let lag = self.shared.run(py, |handle| handle.open()?.lag())?;
        Ok(FollowerLag {
            position: lag.position,
            newest: lag.newest,
            operations: lag.operations,
            age: lag.age.as_secs_f64(),
            error: lag.error.map(|error| error.to_string()),
        })
    }

    /// Opens the database for writing, when its writer has ended or was killed, and returns it as a
    /// ``DB``. It has every write that the writer has acknowledged. The follower and its views stay
    /// readable, and follow the opened database from then on.
    ///
    /// Raises IOError (kind ``locked``) while the writer lives; CorruptionError if the opened database
    /// lacks writes that the newest view shows, because a crash of the machine lost them; Error if the
    /// directory has another database now.
    fn promote(&self, py: Python<'_>) -> PyResult<DB> {
        let db = self.shared.run(py, |handle| handle.open()?.promote())?;
        self.shared.database(py, db, &self.name)
    }

    /// Whether the follower was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.handle.is_closed()
    }

    /// Closes the follower: waits for running calls of other threads, and ends its thread. Closing twice
    /// is allowed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.run(py, FollowerHandle::close)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

/// Follows the database in ``name``, which may be open for writing in another process or in this one, or
/// in none. Returns a ``Follower``, whose first view is that of now.
///
/// Takes the options of ``DB``, which must have the key, the key orders and the merge operators of the
/// database. Nothing on disk is changed. Raises IOError if there is no database, and otherwise as ``DB``.
#[pyfunction]
#[pyo3(signature = (name, **options))]
pub fn follow(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Follower> {
    let path = arguments::path_of(name)?;
    let Chosen { options, comparators, operators, filters, key, .. } = arguments::chosen(options)?;
    let callables = Callables { comparators, operators, filters };
    let followed =
        py.detach(|| FollowerHandle::follow(OsFs::shared(), &path, options, key.as_ref()));
    PyComparator::check_all(py, &callables.comparators)?;
    let handle = followed.map_err(|error| errors::raised(py, &error))?;
    let shared = Arc::new(Following { handle, callables });
    let mut open = known();
    open.retain(|follower| follower.strong_count() > 0);
    open.push(Arc::downgrade(&shared));
    Ok(Follower { shared, name: name.clone().unbind() })
}

/// Returns all registered followers that still exist.
fn all() -> Vec<Arc<Following>> {
    known().iter().filter_map(Weak::upgrade).collect()
}

/// Closes all followers.
pub fn close_all(py: Python<'_>) {
    for follower in all() {
        py.detach(|| drop(follower.handle.close()));
    }
}

/// Leaves all followers to the process that made them.
pub fn abandon_all() {
    all().iter().for_each(|follower| follower.handle.abandon());
}
