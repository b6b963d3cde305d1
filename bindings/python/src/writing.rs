//! How one write is made: the arguments `sync`, `durability` and `timeout`.
//!
//! Invariant: without `sync` and `durability`, the database's option `durability` decides.

use std::borrow::Cow;
use std::time::Instant;

use esker::{Durability, WriteOptions};
use pyo3::Borrowed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::merge::Ttl;

/// The argument `durability`: 'none', 'buffered' or 'sync'.
#[derive(Clone, Copy)]
pub struct Kept(Durability);

impl<'a, 'py> FromPyObject<'a, 'py> for Kept {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Kept> {
        let word = given.extract::<Cow<'_, str>>()?;
        let kinds = [Durability::None, Durability::Buffered, Durability::Sync];
        let found = kinds.into_iter().find(|kind| kind.name() == word);
        found.map(Kept).ok_or_else(|| {
            PyValueError::new_err(format!("must be 'none', 'buffered' or 'sync', not {word:?}"))
        })
    }
}

/// Returns the durability that plyvel's `sync` and the argument `durability` select.
#[inline]
pub fn durability_of(sync: bool, durability: Option<Kept>) -> PyResult<Option<Durability>> {
    match (sync, durability.map(|kept| kept.0)) {
        (true, Some(Durability::None | Durability::Buffered)) => {
            Err(PyValueError::new_err("sync=True contradicts the argument 'durability'"))
        }
        (true, _) => Ok(Some(Durability::Sync)),
        (false, durability) => Ok(durability),
    }
}

/// Returns the options of a write that begins now.
#[inline]
pub fn write_options(
    sync: bool,
    durability: Option<Kept>,
    timeout: Option<Ttl>,
) -> PyResult<WriteOptions> {
    let durability = durability_of(sync, durability)?;
    Ok(WriteOptions::default().durability(durability).deadline(deadline_of(timeout)))
}

/// Returns the time at which a wait of `timeout` from now on ends.
#[inline]
pub fn deadline_of(timeout: Option<Ttl>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout.duration()))
}
