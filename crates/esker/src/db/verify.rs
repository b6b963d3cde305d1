//! Reading every byte of a store and comparing it with its checksums, its properties and the
//! manifest.

use super::Db;
use crate::error::{Error, Result};
use crate::tree::fragment::FileMeta;

/// What [`Db::verify`] found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Table files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Entries in them, all versions and tombstones counted.
    pub entries: u64,
    /// Range tombstones in them.
    pub range_deletes: u64,
    /// What is wrong, one error per file; empty when the store is whole.
    pub problems: Vec<Error>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Db {
    /// Reads every byte of every table, past the cache. `progress` gets (bytes done, bytes in all)
    /// after each file.
    ///
    /// # Errors
    /// `Closed`. What is wrong with files is in the report, not an error.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        self.inner.check_open()?;
        let version = self.inner.view.load().version.clone();
        let files = version.files();
        let all: u64 = files.iter().map(|f| f.info.size_bytes).sum();
        let mut report = VerifyReport::default();
        for file in files {
            match self.verify_file(&file) {
                Ok(()) => {
                    report.entries += file.info.entries;
                    report.range_deletes += file.info.range_deletes;
                }
                Err(error) => report.problems.push(error),
            }
            report.files += 1;
            report.bytes += file.info.size_bytes;
            progress(report.bytes, all);
        }
        Ok(report)
    }

    fn verify_file(&self, file: &FileMeta) -> Result<()> {
        let found = self.inner.tables.get(file)?.check()?;
        if found == file.info {
            return Ok(());
        }
        let path = crate::tree::names::table_path(&self.inner.dir, file.number);
        Err(Error::corruption(&path, 0, "the table is not the one the manifest describes"))
    }
}
