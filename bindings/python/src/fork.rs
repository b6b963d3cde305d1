//! Forks of a database, and what differs between two databases.
//!
//! Invariant: a comparison raises if one of its databases is closed.

use std::sync::Arc;

use esker::diff::{DiffOptions, DiffSource};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::db::DB;
use crate::errors;
use crate::guarded::Guarded;
use crate::snapshot::{Held, Snapshot};
use crate::store::Store;

/// The result of ``DB.fork``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct ForkReport {
    /// The number of the fork; see ``DB.store_id``.
    store_id: u64,
    /// Number of tables that the fork shares with the parent by hard links.
    linked_files: u64,
    /// Size of these tables, in bytes.
    linked_bytes: u64,
    /// Number of tables that were copied, because they could not be linked.
    copied_files: u64,
    /// Size of these tables, in bytes.
    copied_bytes: u64,
}

impl From<esker::fork::ForkReport> for ForkReport {
    fn from(made: esker::fork::ForkReport) -> ForkReport {
        ForkReport {
            store_id: made.store_id,
            linked_files: made.linked_files,
            linked_bytes: made.linked_bytes,
            copied_files: made.copied_files,
            copied_bytes: made.copied_bytes,
        }
    }
}

#[pymethods]
impl ForkReport {
    fn __repr__(&self) -> String {
        let Self { store_id, linked_files, copied_files, .. } = self;
        format!("<esker.ForkReport of {store_id}: {linked_files} linked, {copied_files} copied>")
    }
}

/// A database that a fork descends from.
#[pyclass(frozen, get_all, module = "esker")]
pub struct Ancestor {
    /// Its number; see ``DB.store_id``.
    store_id: u64,
    /// Its name, if it is a fork with a name.
    name: Option<String>,
    /// Its sequence number at the fork: the fork has every write up to it, and no later one.
    sequence: u64,
}

#[pymethods]
impl Ancestor {
    fn __repr__(&self) -> String {
        format!("<esker.Ancestor {} at {}>", self.store_id, self.sequence)
    }
}

/// The name of a database and the databases that it descends from; see ``DB.lineage``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct Lineage {
    /// The name that the fork got; None for a fork without one, and for a database that is no fork.
    name: Option<String>,
    /// The databases that it descends from, the parent first.
    ancestors: Vec<Py<Ancestor>>,
}

impl Lineage {
    pub fn of(py: Python<'_>, made: esker::fork::Lineage) -> PyResult<Lineage> {
        let ancestors = made.ancestors.into_iter().map(|of| {
            Py::new(py, Ancestor { store_id: of.store_id, name: of.name, sequence: of.seqno })
        });
        Ok(Lineage { name: made.name, ancestors: ancestors.collect::<PyResult<Vec<_>>>()? })
    }
}

#[pymethods]
impl Lineage {
    fn __repr__(&self) -> String {
        format!("<esker.Lineage of {} ancestors>", self.ancestors.len())
    }
}

/// A key whose value, or whose time of expiry, is not the same in two databases; see ``diff``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct Difference {
    /// Name of the keyspace.
    keyspace: String,
    /// The key.
    key: Py<PyBytes>,
    /// The value in the first database; None if it does not have the key.
    old: Option<Py<PyBytes>>,
    /// The value in the second database; None if it does not have the key.
    new: Option<Py<PyBytes>>,
    /// Time at which the pair of the first database expires, in seconds since 1970, or None.
    old_expires: Option<f64>,
    /// Time at which the pair of the second database expires, in seconds since 1970, or None.
    new_expires: Option<f64>,
}

impl Difference {
    fn of(py: Python<'_>, found: &esker::diff::Difference) -> Difference {
        let bytes = |side: &Option<esker::diff::DiffValue>| {
            side.as_ref().map(|side| PyBytes::new(py, &side.value).unbind())
        };
        let expires = |side: &Option<esker::diff::DiffValue>| {
            side.as_ref().and_then(|side| side.expires_ms).map(|time_ms| time_ms as f64 / 1000.0)
        };
        Difference {
            keyspace: found.keyspace.to_string(),
            key: PyBytes::new(py, &found.key).unbind(),
            old: bytes(&found.old),
            new: bytes(&found.new),
            old_expires: expires(&found.old),
            new_expires: expires(&found.new),
        }
    }
}

#[pymethods]
impl Difference {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<esker.Difference of {} in {:?}>", self.key.bind(py).repr()?, self.keyspace))
    }
}

/// The differences of two databases, as an iterator; see ``diff``. It ends after an exception.
#[pyclass(frozen, module = "esker")]
pub struct Diff {
    stores: [Arc<Store>; 2],
    diff: Guarded<Option<esker::diff::Diff>>,
    /// How the databases descend from each other, as a phrase after "the second is".
    #[pyo3(get)]
    relation: String,
    /// Number of tables that both have. If it is 0, every pair is read.
    #[pyo3(get)]
    shared_files: u64,
    /// Size of the tables that both have, in bytes.
    #[pyo3(get)]
    shared_bytes: u64,
    /// Names of the keyspaces that only the first database has.
    #[pyo3(get)]
    keyspaces_only_in_old: Vec<String>,
    /// Names of the keyspaces that only the second database has.
    #[pyo3(get)]
    keyspaces_only_in_new: Vec<String>,
}

#[pymethods]
impl Diff {
    fn __repr__(&self) -> String {
        format!("<esker.Diff: the second is {}>", self.relation)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Difference>> {
        self.stores.iter().try_for_each(|store| store.check_open("database"))?;
        let mut guard = self.diff.lock(py);
        let diff = &mut *guard;
        let found = self.stores[0]
            .run_and_wait(py, || diff.as_mut().and_then(Iterator::next).transpose())?;
        Ok(found.map(|found| Difference::of(py, &found)))
    }

    /// Releases what the comparison holds. A later call of ``next`` ends. Closing twice is allowed.
    fn close(&self, py: Python<'_>) {
        let diff = self.diff.lock(py).take();
        py.detach(|| drop(diff));
    }
}

/// A side of a comparison.
enum Side {
    Now(Arc<Store>),
    Then(Arc<Store>, Arc<Held>),
}

impl Side {
    fn of(given: &Bound<'_, PyAny>) -> PyResult<Side> {
        if let Ok(db) = given.cast::<DB>() {
            return Ok(Side::Now(db.get().part.store().clone()));
        }
        if let Ok(snapshot) = given.cast::<Snapshot>() {
            let (store, snapshot) = snapshot.get().held_with_store()?;
            return Ok(Side::Then(store, snapshot));
        }
        Err(PyTypeError::new_err("diff() compares databases and snapshots"))
    }

    fn store(&self) -> &Arc<Store> {
        match self {
            Side::Now(store) | Side::Then(store, _) => store,
        }
    }

    fn snapshot(&self) -> PyResult<Option<&esker::Snapshot>> {
        match self {
            Side::Now(_) => Ok(None),
            Side::Then(_, held) => held.get().map(Some),
        }
    }
}

fn source<'a>(snapshot: Option<&'a esker::Snapshot>, db: &'a esker::Db) -> DiffSource<'a> {
    snapshot.map_or_else(|| DiffSource::from(db), DiffSource::from)
}

/// Compares two databases, or snapshots of databases. Returns an iterator over the pairs that differ,
/// as ``Difference``: keyspace by keyspace, 'default' first, and within a keyspace in key order.
///
/// With ``keyspace``, only the keyspace of this name is compared. Tables that both databases share,
/// as a fork and its parent do, are read only near changed keys. A keyspace that one lacks counts as
/// empty there. Writes during the iteration change nothing. Raises Error if a keyspace has different
/// key orders; IOError (``errno.ENOENT``) if neither has the keyspace.
#[pyfunction]
#[pyo3(signature = (old, new, *, keyspace=None))]
pub fn diff(
    py: Python<'_>,
    old: &Bound<'_, PyAny>,
    new: &Bound<'_, PyAny>,
    keyspace: Option<&str>,
) -> PyResult<Diff> {
    let (old, new) = (Side::of(old)?, Side::of(new)?);
    let options = match keyspace {
        Some(name) => DiffOptions::default().keyspace(name),
        None => DiffOptions::default(),
    };
    let (old_then, new_then) = (old.snapshot()?, new.snapshot()?);
    let made = py.detach(|| {
        let (old_db, new_db) = (old.store().opened()?, new.store().opened()?);
        esker::diff::diff_with(source(old_then, &old_db), source(new_then, &new_db), &options)
    });
    let made = made.map_err(|error| errors::raised(py, &error))?;
    Ok(Diff {
        relation: made.relation.to_string(),
        shared_files: made.shared_files,
        shared_bytes: made.shared_bytes,
        keyspaces_only_in_old: made.keyspaces_only_in_old.clone(),
        keyspaces_only_in_new: made.keyspaces_only_in_new.clone(),
        stores: [old.store().clone(), new.store().clone()],
        diff: Guarded::new(Some(made)),
    })
}
