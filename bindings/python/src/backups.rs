//! Directories of backups: what a backup made, listing, removing, restoring.
//!
//! What stays true: the rules of a directory of backups are the engine's.

use std::time::UNIX_EPOCH;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{arguments, errors};

/// What ``DB.backup`` made.
#[pyclass(frozen, get_all, module = "esker")]
pub struct BackupReport {
    /// The backup's number.
    number: u64,
    /// The directory it is in, a database by itself.
    path: String,
    /// Tables copied.
    copied_files: u64,
    /// Bytes of them.
    copied_bytes: u64,
    /// Tables shared with the backup before.
    linked_files: u64,
    /// Bytes of them.
    linked_bytes: u64,
}

impl From<esker::BackupReport> for BackupReport {
    fn from(made: esker::BackupReport) -> BackupReport {
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

/// A backup, as ``list_backups`` lists it.
#[pyclass(frozen, get_all, module = "esker")]
pub struct Backup {
    /// Its number.
    number: u64,
    /// The directory it is in.
    path: String,
    /// When it was made, in seconds since 1970; None where that is not known.
    created: Option<f64>,
    /// The identity of its database, 16 hexadecimal digits; None where that is not known.
    store_id: Option<String>,
    /// Where its database was; None where that is not known.
    store_path: Option<String>,
    /// Tables in it, also those it shares with other backups.
    tables: u64,
    /// Bytes of them.
    table_bytes: u64,
    /// Why it is not known whose it is, if that could not be read.
    problem: Option<String>,
}

#[pymethods]
impl Backup {
    fn __repr__(&self) -> String {
        format!("<esker.Backup {}: {}>", self.number, self.path)
    }
}

/// The backups in the directory ``name``, oldest first.
///
/// Raises IOError when there is no such directory, Error when something else is in it.
#[pyfunction]
pub fn list_backups(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Vec<Backup>> {
    let path = arguments::path_of(name)?;
    let found = py.detach(|| esker::Db::backups(path));
    let found = found.map_err(|error| errors::raised(py, &error))?;
    let backup = |info: esker::BackupInfo| Backup {
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

/// Removes the oldest backups in the directory ``name`` until ``keep`` are left, which are whole
/// without them; returns the numbers of those that were removed.
///
/// Raises Error when ``keep`` is 0 or something else is in the directory, IOError.
#[pyfunction]
#[pyo3(signature = (name, *, keep))]
pub fn prune_backups(py: Python<'_>, name: &Bound<'_, PyAny>, keep: usize) -> PyResult<Vec<u64>> {
    let path = arguments::path_of(name)?;
    let pruned = py.detach(|| esker::Db::prune_backups(path, keep));
    Ok(pruned.map_err(|error| errors::raised(py, &error))?.removed)
}

/// Makes the database ``name``, which must not exist, of a backup in the directory ``backups``: of
/// the one with the number ``backup``, or the newest. Returns its number.
///
/// Options are those of ``DB``; the order of keys is the one that counts. Every table is read back
/// and compared. Raises IOError when there is no such backup, CorruptionError when it is damaged,
/// Error when ``name`` exists; no database is left then.
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
    let restored = py.detach(|| esker::Db::restore(dir, backup, into, chosen.options));
    if let Some(comparator) = chosen.comparator {
        comparator.check(py)?;
    }
    restored.map_err(|error| errors::raised(py, &error))
}
