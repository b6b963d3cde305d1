//! plyvel's `PrefixedDB`: the part of a database whose keys share a prefix.
//!
//! Invariants:
//! 1. The prefix is prepended to argument keys and removed from returned keys.
//! 2. Keys without the prefix are neither read nor changed.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::db::DB;
use crate::part::{self, Part, part_methods};

/// The keys of a database or keyspace that start with a prefix, as a separate database.
///
/// Created by ``prefixed_db()``. The methods are those of ``DB``. Returned keys do not have the
/// prefix.
#[pyclass(frozen, weakref, module = "esker")]
pub struct PrefixedDB {
    /// The underlying database.
    #[pyo3(get)]
    db: Py<DB>,
    /// The prefix of each key.
    #[pyo3(get)]
    prefix: Py<PyBytes>,
    part: Part,
}

impl PrefixedDB {
    /// Returns `part` as a database of its own.
    pub fn make(py: Python<'_>, db: Py<DB>, part: Part) -> PrefixedDB {
        PrefixedDB { db, prefix: PyBytes::new(py, part.root()).unbind(), part }
    }
}

part_methods! { PrefixedDB {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (prefix, db) = (self.prefix.bind(py).repr()?, self.db.bind(py).repr()?);
        let keyspace = self.part.keyspace().map(|keyspace| keyspace.name());
        let keyspace = keyspace.map_or(String::new(), |name| format!("the keyspace {name:?} of "));
        Ok(format!("<esker.PrefixedDB with prefix {prefix} of {keyspace}{db}>"))
    }

    /// Deletes every key with the prefix.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        part::mapping_of(slf.as_any())?.call_method0("clear").map(drop)
    }
} }
