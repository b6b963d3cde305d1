//! Backup directories: report of a backup, listing, pruning, restoring.
//!
//! Invariant: the engine defines the rules of a backup directory.

use std::time::UNIX_EPOCH;

use esker::fs::OsFs;
use esker_bindings::encryption;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::comparator::PyComparator;
use crate::encryption::key_of;
use crate::{arguments, errors};

/// The result of ``DB.backup``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct BackupReport {
    /// The backup's number.
    number: u64,
    /// The backup's directory, which is a database.
    path: String,
    /// Number of copied tables.
    copied_files: u64,
    /// Size of the copied tables, in bytes.
    copied_bytes: u64,
    /// Number of tables shared with the previous backup.
    linked_files: u64,
    /// Size of the shared tables, in bytes.
    linked_bytes: u64,
}

impl From<esker::backup::BackupReport> for BackupReport {
    fn from(made: esker::backup::BackupReport) -> BackupReport {
        BackupReport {
            number: made.number,
            path: made.path.display().to_string(),
            copied_files: made.copied_files,
            copied_bytes: made.copied_bytes,
            linked_files: made.linked_files,
            linked_bytes: made.linked_bytes,
        }
    }
}

#[pymethods]
impl BackupReport {
    fn __repr__(&self) -> String {
        format!("<esker.BackupReport of backup {}: {}>", self.number, self.path)
    }
}

/// A backup, as listed by ``list_backups``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct Backup {
    /// The backup's number.
    number: u64,
    /// The backup's directory.
    path: String,
    /// Time of creation, in seconds since 1970; None if unknown.
    created: Option<f64>,
    /// Identity of its database, as 16 hexadecimal digits; None if unknown.
    store_id: Option<String>,
    /// Directory of its database at the time of the backup; None if unknown.
    store_path: Option<String>,
    /// Number of tables, including tables shared with other backups.
    tables: u64,
    /// Size of the tables, in bytes.
    table_bytes: u64,
    /// The reason if the identity of its database could not be read, else None.
    problem: Option<String>,
}

#[pymethods]
impl Backup {
    fn __repr__(&self) -> String {
        format!("<esker.Backup {}: {}>", self.number, self.path)
    }
}

/// Returns the backups in the directory ``name``, oldest first. ``key`` is that of an encrypted
/// database, as for ``DB``.
///
/// Raises IOError if the directory is missing, Error if it holds something else.
#[pyfunction]
#[pyo3(signature = (name, *, key=None))]
pub fn list_backups(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    key: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Backup>> {
    let (path, key) = (arguments::path_of(name)?, key_of(key)?);
    let fs = encryption::file_system(OsFs::shared(), key.as_ref());
    let found = py.detach(|| esker::Db::backups_on(fs, path));
    let found = found.map_err(|error| errors::raised(py, &error))?;
    let backup = |info: esker::backup::BackupInfo| Backup {
        number: info.number,
        path: info.path.display().to_string(),
        created: info
            .created
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .map(|since| since.as_secs_f64()),
        store_id: info.store_id.map(|id| format!("{id:016x}")),
        store_path: info.store_path.map(|path| path.display().to_string()),
        tables: info.tables,
        table_bytes: info.table_bytes,
        problem: info.problem.map(|problem| problem.to_string()),
    };
    Ok(found.into_iter().map(backup).collect())
}

/// Removes the oldest backups in the directory ``name`` until ``keep`` are left. The remaining
/// backups stay complete. Returns the numbers of the removed backups. ``key`` is that of an encrypted
/// database, as for ``DB``.
///
/// Raises Error if ``keep`` is 0 or the directory holds something else; IOError.
#[pyfunction]
#[pyo3(signature = (name, *, keep, key=None))]
pub fn prune_backups(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    keep: usize,
    key: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<u64>> {
    let (path, key) = (arguments::path_of(name)?, key_of(key)?);
    let fs = encryption::file_system(OsFs::shared(), key.as_ref());
    let pruned = py.detach(|| esker::Db::prune_backups_on(fs, path, keep));
    Ok(pruned.map_err(|error| errors::raised(py, &error))?.removed)
}

/// Creates the database ``name`` from a backup in the directory ``backups``: from the backup with
/// the number ``backup``, or from the newest one. ``name`` must not exist. Returns the backup's
/// number.
///
/// Takes the options of ``DB``; only the key order and the key matter. Every table is read back and compared.
/// Raises IOError if there is no such backup, CorruptionError if it is damaged, Error if ``name``
/// exists. A failed call leaves no new database.
#[pyfunction]
#[pyo3(signature = (backups, name, *, backup=None, **options))]
pub fn restore_db(
    py: Python<'_>,
    backups: &Bound<'_, PyAny>,
    name: &Bound<'_, PyAny>,
    backup: Option<u64>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<u64> {
    let (dir, into) = (arguments::path_of(backups)?, arguments::path_of(name)?);
    let chosen = arguments::chosen(options)?;
    let fs = chosen.fs();
    let restored = py.detach(|| esker::Db::restore_on(fs, dir, backup, into, chosen.options));
    PyComparator::check_all(py, &chosen.comparators)?;
    restored.map_err(|error| errors::raised(py, &error))
}
