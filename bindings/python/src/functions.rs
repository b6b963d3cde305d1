//! What the module has besides its classes: repairing, removing, the table of options, closing all.
//!
//! What stays true: the rows of `options()` are the engine's own.

use esker::fs::os::OsFs;
use esker_bindings::upkeep;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{arguments, errors, store};

/// Rebuilds the database in ``name``, which must not be open, from what its files still prove.
///
/// Options are those of ``DB``. The files as they were stay in ``before-repair-N``. Returns what
/// could not be read, a sentence each. Raises Error or IOError when there is nothing to repair.
#[pyfunction]
#[pyo3(signature = (name, **options))]
pub fn repair_db(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<String>> {
    let path = arguments::path_of(name)?;
    let chosen = arguments::chosen(options)?;
    let repaired = py.detach(|| esker::Db::repair(path, chosen.options));
    if let Some(comparator) = chosen.comparator {
        comparator.check(py)?;
    }
    Ok(repaired.map_err(|error| errors::raised(py, &error))?.lost)
}

/// Removes the database in ``name``, which must not be open; one that is not there is no error.
///
/// Files of others stay. Raises IOError while it is open, Error for another engine's directory.
#[pyfunction]
pub fn destroy_db(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<()> {
    let path = arguments::path_of(name)?;
    let done = py.detach(|| upkeep::destroy(OsFs::shared(), &path));
    done.map_err(|error| errors::raised(py, &error))
}

/// One option of the engine, as ``options()`` lists them.
#[pyclass(frozen, get_all, module = "esker", name = "Option")]
pub struct Knob {
    /// Its name.
    name: &'static str,
    /// What a number counts, such as ``bytes``; empty for words and switches.
    unit: &'static str,
    /// The default as text; ``auto`` is worked out when the database is opened.
    default: String,
    /// What is allowed, as text.
    range: String,
    /// ``at open`` or ``while open``.
    when: &'static str,
    /// What it does.
    doc: &'static str,
    /// Other names it may be given by.
    aliases: Vec<&'static str>,
}

#[pymethods]
impl Knob {
    fn __repr__(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        format!("<esker.Option {}={}{unit} ({})>", self.name, self.default, self.range)
    }
}

/// Every option that ``DB`` takes by Esker's own name, in the order of the documentation.
#[pyfunction]
pub fn options() -> Vec<Knob> {
    let row = |knob: &esker::Knob| Knob {
        name: knob.name,
        unit: knob.unit,
        default: knob.default.clone(),
        range: knob.range.to_string(),
        when: knob.when.name(),
        doc: knob.doc,
        aliases: knob.aliases.to_vec(),
    };
    esker::KNOBS.iter().map(row).collect()
}

/// Closes every database: before the interpreter ends, while comparators can still be called.
#[pyfunction]
pub fn close_all(py: Python<'_>) -> PyResult<()> {
    store::close_all(py)
}

/// Closes every database to the child of a fork, leaving it to the parent.
#[pyfunction]
pub fn abandon_all() {
    store::abandon_all();
}

/// The version, such as ``0.1.0``.
#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
