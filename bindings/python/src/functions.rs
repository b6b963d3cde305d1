//! Functions of the module: repair, removal, the option table, closing all databases.
//!
//! Invariant: the rows of `options()` are the engine's own option table.

use esker::fs::OsFs;
use esker_bindings::removal;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::comparator::PyComparator;
use crate::{arguments, errors, follower, reports, store};

/// Rebuilds the database in ``name`` from the intact parts of its files. It must not be open.
///
/// Takes the options of ``DB``. The original files stay in ``before-repair-N``. Returns
/// descriptions of the unreadable parts, one sentence each, as a ``RepairReport``: a list with the
/// numbers of the repair. Raises Error or IOError if there is nothing to repair.
#[pyfunction]
#[pyo3(signature = (name, **options))]
pub fn repair_db<'py>(
    py: Python<'py>,
    name: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let path = arguments::path_of(name)?;
    let chosen = arguments::chosen(options)?;
    let fs = chosen.fs();
    let repaired = py.detach(|| esker::Db::repair_on(fs, path, chosen.options));
    PyComparator::check_all(py, &chosen.comparators)?;
    reports::repaired(py, repaired.map_err(|error| errors::raised(py, &error))?)
}

/// Removes the database in ``name``, which must not be open. A missing database is not an error.
///
/// Files of other programs stay. Raises IOError if the database is open, Error for a directory of
/// another engine.
#[pyfunction]
pub fn destroy_db(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<()> {
    let path = arguments::path_of(name)?;
    let done = py.detach(|| removal::destroy(OsFs::shared(), &path));
    done.map_err(|error| errors::raised(py, &error))
}

/// An option of the engine, as listed by ``options()``.
#[pyclass(frozen, get_all, module = "esker", name = "Option")]
pub struct OptionSpec {
    /// The name.
    name: &'static str,
    /// The unit of a number, such as ``bytes``; empty for words and switches.
    unit: &'static str,
    /// The default as text; ``auto`` is determined when the database is opened.
    default: String,
    /// The allowed values, as text.
    range: String,
    /// The time at which the option can be set: ``at open`` or ``while open``.
    when: String,
    /// A description.
    doc: &'static str,
    /// Alternative names.
    aliases: Vec<&'static str>,
}

#[pymethods]
impl OptionSpec {
    fn __repr__(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        format!("<esker.Option {}={}{unit} ({})>", self.name, self.default, self.range)
    }
}

/// Returns the options that ``DB`` takes by Esker's own names, in the order of the documentation.
#[pyfunction]
pub fn options() -> Vec<OptionSpec> {
    let row = |option: &esker::schema::OptionSpec| OptionSpec {
        name: option.name,
        unit: option.unit,
        default: option.default.clone(),
        range: option.range.to_string(),
        when: option.mutability.to_string(),
        doc: option.doc,
        aliases: option.aliases.to_vec(),
    };
    esker::schema::OPTIONS.iter().map(row).collect()
}

/// Closes all databases and followers. Called before the interpreter ends, while comparators can still be called.
#[pyfunction]
pub fn close_all(py: Python<'_>) -> PyResult<()> {
    follower::close_all(py);
    store::close_all(py)
}

/// Closes all databases and followers in the child of a fork, and leaves them to the parent.
#[pyfunction]
pub fn abandon_all() {
    follower::abandon_all();
    store::abandon_all();
}

/// Returns the version, such as ``0.1.0``.
#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
