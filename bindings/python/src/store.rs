//! An open store as every class here holds it.
//!
//! What stays true: the engine is only entered without the interpreter's lock; every store that is
//! open is known, so that it can be closed before the interpreter ends and abandoned after a fork.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use esker::{Db, Result};
use esker_bindings::calling;
use esker_bindings::handle::Handle;
use pyo3::prelude::*;

use crate::arguments::Chosen;
use crate::comparator::PyComparator;
use crate::errors;

/// The stores that may be open. Locked only while the interpreter's lock is held, so that a fork
/// finds it free.
static OPEN: Mutex<Vec<Weak<Store>>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<Weak<Store>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store, until it is closed.
pub struct Store {
    handle: Handle,
    comparator: Option<Arc<PyComparator>>,
}

impl Store {
    /// Opens the store at `path`.
    pub fn open(py: Python<'_>, path: &Path, chosen: Chosen) -> PyResult<Arc<Store>> {
        let Chosen { options, comparator, read_only } = chosen;
        let functions = calling::functions_of(&options);
        let opened = py.detach(|| match read_only {
            true => Db::open_read_only(path, options),
            false => Db::open(path, options),
        });
        let db = opened.map_err(|error| errors::raised(py, &error))?;
        let store = Arc::new(Store { handle: Handle::of(db, functions), comparator });
        let mut open = known();
        open.retain(|store| store.strong_count() > 0);
        open.push(Arc::downgrade(&store));
        drop(open);
        store.check_order(py)?;
        Ok(store)
    }

    /// Runs `body` on the open store without the interpreter's lock.
    #[inline]
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&Db) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check_order(py)?;
        let outcome = py.detach(|| body(&*self.handle.open()?));
        self.check_order(py)?;
        outcome.map_err(|error| errors::raised(py, &error))
    }

    /// Whether it was closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// Raises when it was closed; `what` is what the caller holds.
    #[inline]
    pub fn check_open(&self, what: &str) -> PyResult<()> {
        if self.handle.is_closed() { Err(errors::closed(what)) } else { Ok(()) }
    }

    /// Raises within the store's own comparator, where a wait for what the calling thread holds
    /// would never end.
    #[inline]
    pub fn check_reentry(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.check_reentry().map_err(|error| errors::raised(py, &error))
    }

    /// Raises when the order of keys has failed.
    #[inline]
    pub fn check_order(&self, py: Python<'_>) -> PyResult<()> {
        self.comparator.as_ref().map_or(Ok(()), |comparator| comparator.check(py))
    }

    /// Closes it and waits for the calls that run.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        let outcome = py.detach(|| self.handle.close());
        outcome.map_err(|error| errors::raised(py, &error))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.handle.is_closed() {
            return;
        }
        let closed = Python::try_attach(|py| {
            if let Err(error) = self.close(py) {
                error.write_unraisable(py, None);
            }
        });
        if closed.is_none() {
            let _ = self.handle.close();
        }
    }
}

/// Every store that was not closed.
fn all() -> Vec<Arc<Store>> {
    known().iter().filter_map(Weak::upgrade).collect()
}

/// Closes every store, and raises the first failure.
pub fn close_all(py: Python<'_>) -> PyResult<()> {
    all().iter().map(|store| store.close(py)).fold(Ok(()), PyResult::and)
}

/// Leaves every store to the process that opened it.
pub fn abandon_all() {
    for store in all() {
        store.handle.abandon();
    }
}
