//! Opens tables with the store's read configuration and keeps one open table per file during its
//! lifetime. Has the value files of the tables.
//!
//! Invariants: a table is opened under its own number in the store's directory. Its identity and
//! size are checked against the manifest.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::base::sync::atomic::{AtomicU64, Ordering};

use super::fragment::FileMeta;
use super::names;
use super::value_files::ValueFiles;
use crate::base::order::KeyOrder;
use crate::base::thresholds::Thresholds;
use crate::error::Result;
use crate::fs::Fs;
use crate::iter::hints::Hint;
use crate::table::{OpenPermit, ReadConfig, Table, TableSource};

/// Takes a key range that a seek found empty, and whether the seek moved forward.
type OnEmptyRange = Box<dyn Fn(Hint, bool) + Send + Sync>;

/// Opens and reads the tables of a store.
pub struct Tables {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    pub(super) config: ReadConfig,
    open_files_max: u64,
    thresholds: Thresholds,
    kept_open: Arc<AtomicU64>,
    pub(super) on_candidate: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
    on_empty_range: OnceLock<OnEmptyRange>,
    values: Arc<ValueFiles>,
}

impl Tables {
    /// Creates the tables of `dir`. A table beyond the first `open_files_max` opens its file for
    /// each read.
    pub fn new(fs: Arc<dyn Fs>, dir: PathBuf, config: ReadConfig, open_files_max: u64) -> Tables {
        let values = Arc::new(ValueFiles::new(fs.clone(), &dir, None));
        Tables {
            fs,
            dir,
            config,
            open_files_max,
            thresholds: Thresholds::default(),
            kept_open: Arc::default(),
            on_candidate: Arc::default(),
            on_empty_range: OnceLock::new(),
            values,
        }
    }

    /// Returns the tables of another tree of the same store, with another key order. They share the
    /// cache, the limit on open files and the callback.
    pub fn sibling(&self, order: KeyOrder) -> Tables {
        Tables {
            fs: self.fs.clone(),
            dir: self.dir.clone(),
            config: ReadConfig { order, ..self.config.clone() },
            open_files_max: self.open_files_max,
            thresholds: self.thresholds,
            kept_open: self.kept_open.clone(),
            on_candidate: self.on_candidate.clone(),
            on_empty_range: OnceLock::new(),
            values: self.values.clone(),
        }
    }

    /// Sets the value files of the store.
    pub fn with_values(self, values: Arc<ValueFiles>) -> Tables {
        Tables { values, ..self }
    }

    /// Returns the value files of the store.
    #[inline]
    pub fn values(&self) -> &Arc<ValueFiles> {
        &self.values
    }

    /// Sets the thresholds of the cursors over the tables.
    pub fn with_thresholds(self, thresholds: Thresholds) -> Tables {
        Tables { thresholds, ..self }
    }

    /// Sets the callback for new seek-compaction candidates. It is called when a guard or a
    /// memtable becomes seek-heavy.
    pub fn watch_seeks(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.on_candidate.set(wake);
    }

    /// Calls the callback for seek-compaction candidates.
    #[cold]
    pub fn wake(&self) {
        if let Some(wake) = self.on_candidate.get() {
            wake();
        }
    }

    /// Sets the callback for key ranges that a seek found empty.
    pub fn watch_empty_ranges(&self, report: OnEmptyRange) {
        let _ = self.on_empty_range.set(report);
    }

    /// Calls the callback for empty key ranges.
    #[cold]
    pub fn report_empty_range(&self, range: Hint, forward: bool) {
        if let Some(report) = self.on_empty_range.get() {
            report(range, forward);
        }
    }

    /// Returns the read configuration.
    pub fn config(&self) -> &ReadConfig {
        &self.config
    }

    /// Returns the thresholds of the cursors over the tables.
    pub fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// Returns the open table of `file`.
    ///
    /// # Errors
    /// `Corruption` when the file is not the one in the manifest. `Io` when it cannot be read.
    #[inline]
    pub fn get<'a>(&self, file: &'a FileMeta) -> Result<&'a Arc<Table>> {
        file.table(|| self.open(file))
    }

    fn open(&self, file: &FileMeta) -> Result<Table> {
        let mut config = self.config.clone();
        let kept = self.permit(self.open_files_max).filter(|_| config.keep_open);
        config.keep_open = kept.is_some();
        let source = TableSource {
            fs: self.fs.clone(),
            path: names::table_path(&self.dir, file.number),
            file_number: file.number,
            table_id: file.info.table_id,
            size_bytes: file.info.size_bytes,
            ingested: file.info.ingested,
        };
        let mut table =
            Table::open(source, &config).map_err(|e| e.missing_as_corruption("the manifest"))?;
        table.kept = kept;
        Ok(table)
    }

    /// Returns a permit to keep a file open before its first read. Half of all permits are reserved
    /// for files that are read.
    pub fn permit_unread(&self) -> Option<OpenPermit> {
        self.permit(self.open_files_max / 2)
    }

    /// Returns a permit to keep a file open, if fewer than `most` exist.
    fn permit(&self, most: u64) -> Option<OpenPermit> {
        let more = |kept| (kept < most).then_some(kept + 1);
        let counted = self.kept_open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| OpenPermit::new(&self.kept_open))
    }
}
