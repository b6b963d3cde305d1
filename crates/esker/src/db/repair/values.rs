//! Separated values in a repair: read from the value files of the damaged store, as far as their
//! records are whole, and written into the tables of the new store. Its compactions separate them
//! again.
//!
//! Invariants: at most one value file is open. A value without a valid checksum is not used.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::key::Kind;
use crate::base::separated::{ValueBytes, ValuePointer};
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::tree::names;
use crate::values::ValueFileReader;

/// The value files of the damaged store.
pub struct SalvageValues {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    open: Option<ValueFileReader>,
}

impl SalvageValues {
    /// Creates the reader for the store in `dir`.
    pub fn new(fs: Arc<dyn Fs>, dir: PathBuf) -> SalvageValues {
        SalvageValues { fs, dir, open: None }
    }

    /// Returns the value of an entry whose value is in a value file; `None` for other kinds.
    ///
    /// # Errors
    /// `Corruption` when the file or the record is damaged or missing, `Io`.
    pub fn read(&mut self, key: &[u8], kind: Kind, stored: &[u8]) -> Result<Option<ValueBytes>> {
        if kind != Kind::PutSeparated {
            return Ok(None);
        }
        let Some(pointer) = ValuePointer::decode(stored) else {
            let message = "an entry's pointer to its value is malformed";
            return Err(Error::corruption(&self.dir, 0, message));
        };
        if self.open.as_ref().is_none_or(|open| open.number() != pointer.file) {
            let path = names::value_path(&self.dir, pointer.file);
            let opened = ValueFileReader::open_damaged(&*self.fs, &path, pointer.file);
            self.open = Some(opened.map_err(|e| e.missing_as_corruption("a table"))?);
        }
        match &self.open {
            Some(open) => open.read(Some(key), &pointer).map(Some),
            None => Ok(None),
        }
    }
}
