//! Opens tables with the store's read configuration and keeps one open table per file during its
//! lifetime.
//!
//! Invariants: a table is opened under its own number in the store's directory. Its identity and
//! size are checked against the manifest.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::base::sync::atomic::{AtomicU64, Ordering};

use super::fragment::FileMeta;
use super::names;
use super::seek_stats;
use super::version::Version;
use crate::error::Result;
use crate::fs::Fs;
use crate::table::{OpenPermit, ReadConfig, Table, TableSource};

/// Sampling interval of seeks, per thread. One in this many seeks updates the seek statistics.
const SEEKS_PER_SAMPLE: u64 = 16;

/// Number of steps over entries that cost about as much as a seek in one run.
const STEPS_PER_SEEK: u64 = 8;

/// Opens and reads the tables of a store.
pub struct Tables {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    config: ReadConfig,
    open_files_max: u64,
    kept_open: Arc<AtomicU64>,
    on_candidate: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Tables {
    /// Creates the tables of `dir`. A table beyond the first `open_files_max` opens its file for
    /// each read.
    pub fn new(fs: Arc<dyn Fs>, dir: PathBuf, config: ReadConfig, open_files_max: u64) -> Tables {
        Tables {
            fs,
            dir,
            config,
            open_files_max,
            kept_open: Arc::default(),
            on_candidate: OnceLock::new(),
        }
    }

    /// Sets the callback for new seek-compaction candidates. It is called when a guard or a
    /// memtable becomes seek-heavy.
    pub fn watch_seeks(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.on_candidate.set(wake);
    }

    /// Records that a reader of `version` seeks `key`. If this seek is sampled, returns the number
    /// of the thread's seeks that the sample represents.
    #[inline]
    pub fn note_seek(&self, version: &Version, key: &[u8]) -> Option<u64> {
        thread_local! {
            static SEEKS: Cell<u64> = const { Cell::new(0) };
        }
        let seeks = SEEKS.get() + 1;
        SEEKS.set(seeks);
        if !seeks.is_multiple_of(SEEKS_PER_SAMPLE) || self.on_candidate.get().is_none() {
            return None;
        }
        if seek_stats::note(version, key, SEEKS_PER_SAMPLE) {
            self.wake();
        }
        Some(SEEKS_PER_SAMPLE)
    }

    /// Calls the callback for seek-compaction candidates.
    #[cold]
    pub fn wake(&self) {
        if let Some(wake) = self.on_candidate.get() {
            wake();
        }
    }

    /// Records that a reader of `version` stepped over `steps` entries before it reached `key`.
    #[cold]
    pub fn note_steps(&self, version: &Version, key: &[u8], steps: u64) {
        if self.on_candidate.get().is_some()
            && seek_stats::note(version, key, steps / STEPS_PER_SEEK)
        {
            self.wake();
        }
    }

    /// Returns the read configuration.
    pub fn config(&self) -> &ReadConfig {
        &self.config
    }

    /// Returns the memory in bytes that open tables of `version` use besides cached blocks. It
    /// includes the free memory between their allocations.
    pub fn memory_bytes(&self, version: &Version) -> u64 {
        version.tables_memory_bytes() + self.config.pages.free_bytes() as u64
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

    /// Hands open tables of new files to the files of `version`, for its readers.
    pub fn adopt(&self, version: &Version, tables: Vec<Table>) {
        if tables.is_empty() {
            return;
        }
        let files = version.files();
        for table in tables {
            match files.binary_search_by_key(&table.number(), |file| file.number) {
                Ok(at) => files[at].adopt(table),
                Err(_) => table.forget_blocks(),
            }
        }
    }
}
