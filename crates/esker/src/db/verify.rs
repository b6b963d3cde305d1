//! Reading every byte of a store and checking it against its checksums, its properties and the
//! manifest: at once ([`Db::verify`]), or in the background at a set rate (`scrub`).
//!
//! Invariants: nothing is changed. The scrub holds a file only while it reads the file, so that
//! unneeded files can be removed.

use super::Db;
use super::dir::list_dir;
use super::state::DbInner;
use super::tree::Tree;
use crate::base::sync::atomic::Ordering;
use crate::error::{Error, Result};
use crate::tree::current::Current;
use crate::tree::fragment::FileMeta;
use crate::tree::{manifest, names};
use crate::wal::{LogEnd, LogReader};

/// Result of [`Db::verify`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Format version of the store, as `CURRENT` and the manifest state it.
    pub format_version: u32,
    /// Number of table files read.
    pub files: u64,
    /// Number of value files read.
    pub value_files: u64,
    /// Number of logs read.
    pub logs: u64,
    /// Bytes read from tables, value files, logs and the manifest.
    pub bytes: u64,
    /// Number of entries in tables, including old versions and tombstones.
    pub entries: u64,
    /// Number of range tombstones in tables.
    pub range_deletes: u64,
    /// The problems found, one error per file; empty when the store is intact.
    pub problems: Vec<Error>,
}

impl VerifyReport {
    /// Returns whether no problem was found.
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
    /// Reads every byte of every table, of the value files, of the logs and of the manifest, past the
    /// cache. Calls `progress` with (bytes done, total bytes of tables and value files) after each
    /// file.
    ///
    /// # Errors
    /// `Closed`. `Io` when the directory cannot be listed. Problems of single files are in the
    /// report.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        let inner = &self.inner;
        inner.check_open()?;
        let forest = inner.versions.lock().current();
        let files = inner.files_of(&forest);
        let values = inner.value_files_of(&forest);
        let value_bytes = values.iter().filter_map(|file| file.size_bytes().ok()).sum::<u64>();
        let all = files.iter().map(|(_, f)| f.info.size_bytes).sum::<u64>() + value_bytes;
        let mut report =
            VerifyReport { format_version: inner.format().number(), ..VerifyReport::default() };
        for (tree, file) in files {
            match inner.verify_table(&tree, &file, &mut |_| true) {
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
        for file in values {
            report.value_files += 1;
            let read = inner.verify_values(&file, &mut |_| true);
            report.take(read.and_then(|_| file.size_bytes()));
            progress(report.bytes.min(all), all);
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

impl DbInner {
    /// Reads a table. Calls `pace` with the bytes of each block; returns `false` when `pace`
    /// stopped the read.
    pub(super) fn verify_table(
        &self,
        tree: &Tree,
        file: &FileMeta,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let Some(found) = tree.tables.get(file)?.check_paced(pace)? else { return Ok(false) };
        if found == file.info {
            return Ok(true);
        }
        let path = names::table_path(&self.dir, file.number);
        Err(Error::corruption(
            &path,
            0,
            "expected the table that the manifest describes, found different content",
        ))
    }

    /// Reads `CURRENT` and the manifest that it names. Returns the manifest's length in bytes.
    pub(super) fn verify_manifest(&self) -> Result<u64> {
        // The lock prevents a rewrite by this process. The writer of a store that is open read-only
        // here may rewrite the manifest meanwhile.
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
            found.map_err(|e| e.missing_as_corruption("CURRENT"))?
        };
        Ok(found.len_bytes)
    }

    /// Returns the numbers of the logs that may be needed, ascending.
    pub(super) fn log_numbers(&self) -> Result<Vec<u64>> {
        let least = self.versions.lock().min_wal();
        let entries = list_dir(&*self.fs, &self.dir)?.entries;
        let mut logs: Vec<u64> = entries.iter().filter_map(|e| names::parse_log(&e.name)).collect();
        let counted = self.numbers.load(Ordering::Relaxed);
        logs.retain(|number| *number >= least && names::is_reached(*number, counted));
        logs.sort_unstable();
        Ok(logs)
    }

    /// Reads a log up to its written length. Returns the bytes read. A log that is not needed any
    /// more may be gone.
    pub(super) fn verify_log(&self, number: u64) -> Result<u64> {
        let path = names::log_path(&self.dir, number);
        // Length up to which the log must be intact. A log of an earlier opening may end in a
        // crash.
        let written = {
            let writer = self.committer.lock();
            if writer.log.as_ref().is_some_and(|log| log.number() < number) {
                // A preallocated log, which was empty then.
                return Ok(0);
            }
            let own_logs = writer.log.iter().chain(&writer.unsynced_logs);
            own_logs.filter(|log| log.number() == number).map(|log| log.len_bytes()).next()
        };
        let mut reader = match LogReader::open(&*self.fs, &path, number) {
            Err(error) if error.is_missing_file() => return Ok(0),
            opened => opened?.until(written.unwrap_or(u64::MAX)),
        };
        while reader.next()?.is_some() {}
        let at_marker = matches!(reader.end(), Some(LogEnd::Closed | LogEnd::Continued { .. }));
        let whole = at_marker || written.is_none_or(|bytes| reader.at_bytes() >= bytes);
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
