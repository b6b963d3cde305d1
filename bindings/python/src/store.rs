//! An open store, shared by the classes of this module.
//!
//! Invariants:
//! 1. The engine is called only without the interpreter's lock.
//! 2. All open stores are registered, so that they can be closed before the interpreter ends and
//!    abandoned after a fork.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use esker::{Db, Result};
use esker_bindings::calling;
use esker_bindings::handle::{Handle, Opened};
use esker_bindings::orders::Orders;
use pyo3::prelude::*;

use crate::arguments::Chosen;
use crate::comparator::PyComparator;
use crate::errors;
use crate::filter::PyFilter;
use crate::merge::PyMerge;

/// The stores that may be open. Locked only while the interpreter's lock is held, so that it is
/// never locked during a fork.
static OPEN: Mutex<Vec<Weak<Store>>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<Weak<Store>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions of Python that a store calls.
#[derive(Clone)]
pub struct Callables {
    /// The key orders.
    pub comparators: Vec<Arc<PyComparator>>,
    /// The merge operators.
    pub operators: Vec<Arc<PyMerge>>,
    /// The compaction filters.
    pub filters: Vec<Arc<PyFilter>>,
}

/// A store, until it is closed.
pub struct Store {
    handle: Handle,
    callables: Callables,
    /// The key orders that keyspaces may name.
    orders: Orders,
    /// Whether this process is a fork of the one that opened the store.
    abandoned: AtomicBool,
}

impl Store {
    /// Opens the store at `path`.
    pub fn open(py: Python<'_>, path: &Path, chosen: Chosen) -> PyResult<Arc<Store>> {
        let fs = chosen.fs();
        let Chosen { options, comparators, operators, filters, key, read_only } = chosen;
        let functions = calling::functions_of(&options).with(key.as_ref());
        let orders = Orders::of(&options);
        let opened = py.detach(|| match read_only {
            true => Db::open_read_only_on(fs, path, options),
            false => Db::open_on(fs, path, options),
        });
        let db = opened.map_err(|error| errors::raised(py, &error))?;
        let callables = Callables { comparators, operators, filters };
        Store::of(py, Handle::of(db, functions), orders, callables)
    }

    /// Returns and registers an open store, which calls `callables`.
    pub fn of(
        py: Python<'_>,
        handle: Handle,
        orders: Orders,
        callables: Callables,
    ) -> PyResult<Arc<Store>> {
        let abandoned = AtomicBool::new(false);
        let store = Arc::new(Store { handle, callables, orders, abandoned });
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

    /// Does the same as `run`, for a call of a transaction, which may wait for a lock. The store can
    /// be closed meanwhile, which ends the wait.
    pub fn run_and_wait<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce() -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check_order(py)?;
        let outcome = py.detach(|| {
            drop(self.handle.open()?);
            body()
        });
        self.check_order(py)?;
        outcome.map_err(|error| errors::raised(py, &error))
    }

    /// Returns the open store. Only for a thread without the interpreter's lock.
    pub fn opened(&self) -> Result<Opened> {
        self.handle.open()
    }

    /// Returns the handle. Only for a thread without the interpreter's lock.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Drops a transaction or an iterator of one. The drop takes the lock of the transaction's state
    /// and that of the table of locks. Another thread may hold one of them while it waits for the
    /// interpreter's lock. So may this thread, if it is in a key order that a call has entered.
    pub fn release<T: Send + 'static>(&self, value: T) {
        if self.abandoned.load(Ordering::Relaxed) {
            // A thread that a fork did not copy may have locked them.
            return std::mem::forget(value);
        }
        if self.handle.check_reentry().is_err() {
            drop(std::thread::Builder::new().spawn(move || drop(value)));
            return;
        }
        let mut value = Some(value);
        Python::try_attach(|py| {
            let value = value.take();
            py.detach(|| drop(value));
        });
    }

    /// Returns whether the store was closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// Raises if the store was closed; `what` names the caller's object in the message.
    #[inline]
    pub fn check_open(&self, what: &str) -> PyResult<()> {
        if self.handle.is_closed() { Err(errors::closed(what)) } else { Ok(()) }
    }

    /// Raises within the store's own comparator. A call from there could wait for its own thread.
    #[inline]
    pub fn check_reentry(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.check_reentry().map_err(|error| errors::raised(py, &error))
    }

    /// Raises if a key order has failed.
    #[inline]
    pub fn check_order(&self, py: Python<'_>) -> PyResult<()> {
        PyComparator::check_all(py, &self.callables.comparators)
    }

    /// Returns the key orders that keyspaces may name.
    pub fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Returns the merge operators that keyspaces may choose by their function.
    pub fn operators(&self) -> &[Arc<PyMerge>] {
        &self.callables.operators
    }

    /// Returns the compaction filters that keyspaces may choose by their function.
    pub fn filters(&self) -> &[Arc<PyFilter>] {
        &self.callables.filters
    }

    /// Closes the store and waits for running calls.
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

/// Returns all registered stores that still exist.
fn all() -> Vec<Arc<Store>> {
    known().iter().filter_map(Weak::upgrade).collect()
}

/// Closes all stores, and raises the first failure.
pub fn close_all(py: Python<'_>) -> PyResult<()> {
    all().iter().map(|store| store.close(py)).fold(Ok(()), PyResult::and)
}

/// Leaves all stores to the process that opened them.
pub fn abandon_all() {
    for store in all() {
        store.abandoned.store(true, Ordering::Relaxed);
        store.handle.abandon();
    }
}
