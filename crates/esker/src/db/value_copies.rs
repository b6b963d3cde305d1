//! The value files of a store in its checkpoints, forks and backups, and their verification.
//!
//! Invariants: a copy of a store has each value file that its tables hold, under the same number, before
//! it has its `CURRENT`. A value file never changes, so a hard link is a copy.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::backup::copy_open;
use super::state::DbInner;
use super::value_garbage::held_by;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::tree::forest::Forest;
use crate::tree::names;
use crate::tree::value_files::ValueFile;
use crate::values::ValueFileReader;

/// What a copy of a value file cost.
pub(super) struct CopiedValues {
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Whether the copy is a hard link.
    pub is_linked: bool,
}

impl DbInner {
    /// Returns the value files that the tables of `forest` hold, by number.
    pub(super) fn value_files_of(&self, forest: &Forest) -> Vec<Arc<ValueFile>> {
        held_by(&forest.files()).into_values().map(|(file, _)| file).collect()
    }

    /// Links a value file into the new directory `dir`.
    pub(super) fn link_values(&self, fs: &dyn Fs, file: &ValueFile, dir: &Path) -> Result<()> {
        let (from, to) = self.value_paths(file, dir);
        fs.hard_link(&from, &to).map_err(|e| Error::io(&to, "link a value file", e))
    }

    /// Links a value file into the new directory `dir`, or copies it where that cannot be. The writer
    /// of a store that is open read-only may have removed the file, which is open then.
    pub(super) fn link_or_copy_values(
        &self,
        fs: &dyn Fs,
        file: &ValueFile,
        dir: &Path,
    ) -> Result<CopiedValues> {
        let (from, to) = self.value_paths(file, dir);
        let bytes = file.size_bytes()?;
        let Err(error) = fs.hard_link(&from, &to) else {
            return Ok(CopiedValues { bytes, is_linked: true });
        };
        if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            return Err(Error::io(&to, "link a value file", error));
        }
        copy_open(fs, (&**file.reader()?.file(), &from), &to, bytes)?;
        Ok(CopiedValues { bytes, is_linked: false })
    }

    /// Puts a value file into the backup in `path`: a link to that of the backup `previous` if it has
    /// the same file, otherwise a copy. Reads it there.
    pub(super) fn back_up_values(
        &self,
        fs: &dyn Fs,
        file: &ValueFile,
        path: &Path,
        previous: Option<&Path>,
    ) -> Result<CopiedValues> {
        let (from, to) = self.value_paths(file, path);
        let content = file.reader()?.content();
        let is_same = |earlier: &PathBuf| {
            let found = ValueFileReader::open(fs, earlier, file.number());
            found.is_ok_and(|found| found.content() == content)
        };
        let earlier = previous.map(|dir| names::value_path(dir, file.number())).filter(is_same);
        let is_linked = earlier.is_some_and(|earlier| fs.hard_link(&earlier, &to).is_ok());
        if !is_linked {
            copy_open(fs, (&**file.reader()?.file(), &from), &to, content.size_bytes)?;
        }
        let copy = ValueFileReader::open(fs, &to, file.number())?;
        copy.check(&mut |_| true)?;
        if copy.content() != content {
            let message = "expected the value file of the store, found different content";
            return Err(Error::corruption(&to, 0, message));
        }
        Ok(CopiedValues { bytes: content.size_bytes, is_linked })
    }

    fn value_paths(&self, file: &ValueFile, dir: &Path) -> (PathBuf, PathBuf) {
        let number = file.number();
        (names::value_path(&self.dir, number), names::value_path(dir, number))
    }

    /// Reads every byte of a value file. Calls `pace` with the bytes of each record; returns `false`
    /// when `pace` stopped the read.
    pub(super) fn verify_values(
        &self,
        file: &ValueFile,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        file.reader()?.check(pace)
    }
}
