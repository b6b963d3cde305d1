//! Tables, and what a verification and a repair found, with numbers.
//!
//! Invariants:
//! 1. A report is a list of sentences, of a class of `esker/_reports.py`; its numbers are
//!    attributes.
//! 2. The function that hears the progress of a verification cannot close the database.

use std::sync::Arc;

use esker::report::{RepairReport, VerifyReport};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};

use crate::store::Store;

/// A table file, from ``DB.tables``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct TableEntry {
    /// Tree of the file; see ``Keyspace.tree``. Tree 0 holds the keyspace ``default``. Keys of
    /// other trees begin with four bytes that stand for their keyspace.
    tree: u32,
    /// Level of the file.
    level: usize,
    /// Number of the file, which is also its name.
    number: u64,
    /// Size of the file, in bytes.
    size_bytes: u64,
    /// Number of entries: puts, merges and deletes.
    entries: u64,
    /// Number of deletes among the entries.
    deletes: u64,
    /// Number of range deletions.
    range_deletes: u64,
    /// Size of the keys and values before compression, in bytes.
    raw_bytes: u64,
    /// The first key.
    smallest: Py<PyBytes>,
    /// The last key.
    largest: Py<PyBytes>,
}

impl TableEntry {
    pub fn of(py: Python<'_>, table: &esker::report::TableEntry) -> TableEntry {
        TableEntry {
            tree: table.tree,
            level: table.level,
            number: table.number,
            size_bytes: table.size_bytes,
            entries: table.entries,
            deletes: table.deletes,
            range_deletes: table.range_deletes,
            raw_bytes: table.raw_bytes,
            smallest: PyBytes::new(py, &table.smallest).unbind(),
            largest: PyBytes::new(py, &table.largest).unbind(),
        }
    }
}

#[pymethods]
impl TableEntry {
    fn __repr__(&self) -> String {
        let TableEntry { number, level, entries, .. } = self;
        format!("<esker.TableEntry {number} on level {level}: {entries} entries>")
    }
}

/// Sets attributes of a report from the fields of these names.
macro_rules! numbers {
    ($report:ident, $of:expr, $($field:ident)+) => {
        $($report.setattr(stringify!($field), $of.$field)?;)+
    };
}

/// Reads and checks every byte of a store. Calls `progress` after each file.
pub fn verify<'py>(
    py: Python<'py>,
    store: &Arc<Store>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let progress = progress.map(|function| function.clone().unbind());
    let mut raised = None;
    let found = store.run(py, |db| {
        db.verify(&mut |bytes, of| {
            let Some(function) = progress.as_ref().filter(|_| raised.is_none()) else { return };
            let called = Python::try_attach(|py| {
                store.handle().held(|| function.bind(py).call1((bytes, of)).map(drop))
            });
            raised = called.and_then(Result::err);
        })
    });
    match raised {
        Some(error) => Err(error),
        None => verified(py, &found?),
    }
}

fn verified<'py>(py: Python<'py>, found: &VerifyReport) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    let report = CLASS.import(py, "esker._reports", "VerifyReport")?.call1((problems,))?;
    numbers!(report, found, format_version files value_files logs bytes entries range_deletes);
    Ok(report)
}

/// Returns the report of a repair.
pub fn repaired(py: Python<'_>, found: RepairReport) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let report = CLASS.import(py, "esker._reports", "RepairReport")?.call1((found.lost,))?;
    numbers!(report, found, manifest_readable tables logs pairs entries_held_max);
    report.setattr("originals", found.originals.as_os_str())?;
    Ok(report)
}
