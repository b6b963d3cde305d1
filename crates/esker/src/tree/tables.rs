//! Opening tables: at most once per file while it lives, with the store's read configuration.
//!
//! What stays true: a table is opened under its own number in the store's directory and checked
//! against the identity and size the manifest recorded for it.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::base::sync::atomic::{AtomicU64, Ordering};

use super::fragment::FileMeta;
use super::heat;
use super::names;
use super::version::Version;
use crate::error::Result;
use crate::fs::Fs;
use crate::table::{KeptOpen, ReadConfig, Table, TableSource};

/// Of so many seeks of a thread one is looked at.
const SEEKS_PER_SAMPLE: u64 = 16;

/// So many steps take about as long as a seek into a run.
const STEPS_PER_SEEK: u64 = 8;

/// Where a store's tables are and how they are read.
pub struct Tables {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    config: ReadConfig,
    open_files_max: u64,
    kept_open: Arc<AtomicU64>,
    on_hot: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Tables {
    /// Tables of `dir`; beyond `open_files_max` of them a file is opened for each read.
    pub fn new(fs: Arc<dyn Fs>, dir: PathBuf, config: ReadConfig, open_files_max: u64) -> Tables {
        Tables {
            fs,
            dir,
            config,
            open_files_max,
            kept_open: Arc::default(),
            on_hot: OnceLock::new(),
        }
    }

    /// Has `wake` called when some guard is sought often in several runs, or a memtable is.
    pub fn watch_seeks(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.on_hot.set(wake);
    }

    /// Notes that a reader of `version` seeks `key`. Where this seek was looked at, for all of its
    /// thread's since the last, returns how many those are.
    #[inline]
    pub fn note_seek(&self, version: &Version, key: &[u8]) -> Option<u64> {
        thread_local! {
            static SEEKS: Cell<u64> = const { Cell::new(0) };
        }
        let seeks = SEEKS.get() + 1;
        SEEKS.set(seeks);
        if !seeks.is_multiple_of(SEEKS_PER_SAMPLE) || self.on_hot.get().is_none() {
            return None;
        }
        if heat::note(version, key, SEEKS_PER_SAMPLE) {
            self.wake();
        }
        Some(SEEKS_PER_SAMPLE)
    }

    /// Has the watcher look at what is sought often.
    #[cold]
    pub fn wake(&self) {
        if let Some(wake) = self.on_hot.get() {
            wake();
        }
    }

    /// Notes that a reader of `version` stepped over so many entries before it came to `key`.
    #[cold]
    pub fn note_steps(&self, version: &Version, key: &[u8], steps: u64) {
        if self.on_hot.get().is_some() && heat::note(version, key, steps / STEPS_PER_SEEK) {
            self.wake();
        }
    }

    /// How tables are read.
    pub fn config(&self) -> &ReadConfig {
        &self.config
    }

    /// Bytes of memory that open tables of `version` take besides cached blocks, and what lies
    /// between them.
    pub fn memory_bytes(&self, version: &Version) -> u64 {
        version.tables_memory_bytes() + self.config.pages.free_bytes() as u64
    }

    /// The open table of `file`.
    ///
    /// # Errors
    /// `Corruption` when the file is not the one the manifest names, `Io` when it cannot be read.
    #[inline]
    pub fn get<'a>(&self, file: &'a FileMeta) -> Result<&'a Arc<Table>> {
        file.table(|| self.open(file))
    }

    fn open(&self, file: &FileMeta) -> Result<Table> {
        let mut config = self.config.clone();
        let kept = self.keep_one_of(self.open_files_max).filter(|_| config.keep_open);
        config.keep_open = kept.is_some();
        let source = TableSource {
            fs: self.fs.clone(),
            path: names::table_path(&self.dir, file.number),
            file_number: file.number,
            table_id: file.info.table_id,
            size_bytes: file.info.size_bytes,
        };
        let mut table =
            Table::open(source, &config).map_err(|e| e.missing_is_damage("the manifest"))?;
        table.kept = kept;
        Ok(table)
    }

    /// A file that may be kept open before anybody reads it: of those that may be, half are for the
    /// ones that are read.
    pub fn keep_unread(&self) -> Option<KeptOpen> {
        self.keep_one_of(self.open_files_max / 2)
    }

    /// A file that may be kept open, if there are not `most` already.
    fn keep_one_of(&self, most: u64) -> Option<KeptOpen> {
        let more = |kept| (kept < most).then_some(kept + 1);
        let counted = self.kept_open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| KeptOpen::new(&self.kept_open))
    }

    /// Has open tables of new files of `version` serve its readers.
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
