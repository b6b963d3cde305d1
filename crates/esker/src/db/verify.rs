//! Reading every byte of a store and comparing it with its checksums, its properties and the
//! manifest: at once ([`Db::verify`]), or in the background at a set rate (`scrub`).
//!
//! What stays true: nothing is changed; a file is held open only while it is read, so that what is
//! not needed any more can go.

use super::Db;
use super::open::look;
use super::state::Inner;
use crate::base::sync::atomic::Ordering;
use crate::error::{Error, Result};
use crate::tree::current::Current;
use crate::tree::fragment::FileMeta;
use crate::tree::{manifest, names};
use crate::wal::{LogEnd, LogReader};

/// What [`Db::verify`] found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Table files read.
    pub files: u64,
    /// Logs read.
    pub logs: u64,
    /// Bytes read, of tables, logs and the manifest.
    pub bytes: u64,
    /// Entries in tables, all versions and tombstones counted.
    pub entries: u64,
    /// Range tombstones in tables.
    pub range_deletes: u64,
    /// What is wrong, one error per file; empty when the store is whole.
    pub problems: Vec<Error>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }

    fn take(&mut self, read: Result<u64>) {
        match read {
            Ok(bytes) => self.bytes += bytes,
            Err(error) => self.problems.push(error),
        }
    }
}

impl Db {
    /// Reads every byte of every table, of the logs and of the manifest, past the cache. `progress`
    /// gets (bytes done, bytes of tables in all) after each file.
    ///
    /// # Errors
    /// `Closed`. What is wrong with files is in the report, not an error.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        let inner = &self.inner;
        inner.check_open()?;
        let version = inner.view.load().version.clone();
        let files = version.files();
        let all: u64 = files.iter().map(|f| f.info.size_bytes).sum();
        let mut report = VerifyReport::default();
        for file in files {
            match inner.verify_table(&file, &mut |_| true) {
                Ok(_) => {
                    report.entries += file.info.entries;
                    report.range_deletes += file.info.range_deletes;
                }
                Err(error) => report.problems.push(error),
            }
            report.files += 1;
            report.bytes += file.info.size_bytes;
            progress(report.bytes, all);
        }
        report.take(inner.verify_manifest());
        for number in inner.log_numbers()? {
            report.logs += 1;
            report.take(inner.verify_log(number));
        }
        progress(report.bytes, report.bytes);
        Ok(report)
    }
}

impl Inner {
    /// Reads a table; `false` when `pace`, told of the bytes of each block, ended it.
    pub(super) fn verify_table(
        &self,
        file: &FileMeta,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let Some(found) = self.tables.get(file)?.check_paced(pace)? else { return Ok(false) };
        if found == file.info {
            return Ok(true);
        }
        let path = names::table_path(&self.dir, file.number);
        Err(Error::corruption(&path, 0, "the table is not the one the manifest describes"))
    }

    /// Reads `CURRENT` and the manifest it names; returns their bytes.
    pub(super) fn verify_manifest(&self) -> Result<u64> {
        // So that it is not rewritten meanwhile; elsewhere a writer may do that, if this one reads.
        let _versions = self.versions.lock();
        let mut read = self.read_manifest();
        for _ in 0..10 {
            match read {
                Err(error) if self.read_only && error.is_missing_file() => {
                    read = self.read_manifest()
                }
                other => return other,
            }
        }
        read
    }

    fn read_manifest(&self) -> Result<u64> {
        let slot = Current::read(&*self.fs, &self.dir)?;
        let (store, whole) = (slot.store_id, slot.manifest_bytes);
        let found = manifest::read(&*self.fs, &self.dir, slot.manifest, store, whole);
        let found = if self.read_only {
            found?
        } else {
            found.map_err(|e| e.missing_is_damage("CURRENT"))?
        };
        Ok(found.len_bytes)
    }

    /// The logs that may be needed.
    pub(super) fn log_numbers(&self) -> Result<Vec<u64>> {
        let least = self.versions.lock().min_wal();
        let entries = look(&*self.fs, &self.dir)?.entries;
        let mut logs: Vec<u64> = entries.iter().filter_map(|e| names::parse_log(&e.name)).collect();
        let counted = self.numbers.load(Ordering::Relaxed);
        logs.retain(|number| *number >= least && names::is_reached(*number, counted));
        logs.sort_unstable();
        Ok(logs)
    }

    /// Reads a log, as far as it is written; returns its bytes. One that is not needed any more may
    /// be gone.
    pub(super) fn verify_log(&self, number: u64) -> Result<u64> {
        let path = names::log_path(&self.dir, number);
        // How far it must be whole. A log of an earlier opening may have ended in a crash.
        let written = {
            let core = self.committer.lock();
            if core.log.as_ref().is_some_and(|log| log.number() < number) {
                // Made ahead, it held nothing then.
                return Ok(0);
            }
            let ours = core.log.iter().chain(&core.unsynced_logs);
            ours.filter(|log| log.number() == number).map(|log| log.len_bytes()).next()
        };
        let mut reader = match LogReader::open(&*self.fs, &path, number) {
            Err(error) if error.is_missing_file() => return Ok(0),
            opened => opened?.until(written.unwrap_or(u64::MAX)),
        };
        while reader.next()?.is_some() {}
        let at_mark = matches!(reader.end(), Some(LogEnd::Closed | LogEnd::Continued { .. }));
        let whole = at_mark || written.is_none_or(|bytes| reader.at_bytes() >= bytes);
        if whole {
            return Ok(reader.at_bytes());
        }
        let message = format!(
            "expected {} bytes of whole records, found {}; the log is damaged",
            written.unwrap_or(0),
            reader.at_bytes()
        );
        Err(Error::corruption(&path, reader.at_bytes(), message))
    }
}
