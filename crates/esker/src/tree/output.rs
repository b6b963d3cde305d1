//! Writes sorted entries as new tables. Decides the file boundaries, distributes the range
//! tombstones over the files, and verifies each file before it can be referenced.
//!
//! Invariants: all versions of a key are in one file. The files of one output are disjoint and in
//! key order. They are durable when [`Output::finish`] returns. The files of an abandoned output
//! are removed.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use super::fragment::FileMeta;
use super::names;
use super::tables::Tables;
use super::value_output::{FileMaker, ValueConfig, ValueOutput};
use crate::base::key::{Kind, SeqNo};
use crate::base::range_delete::RangeDelete;
use crate::base::sync::Mutex;
use crate::error::{Error, Result};
use crate::fs::{Fs, sync_dir};
use crate::iter::rewrite::EntrySink;
use crate::table::{ReadConfig, Table, TableInfo, TableOptions, TableSource, TableWriter};

/// Configuration of an output.
pub struct OutputConfig {
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// The store's directory.
    pub dir: PathBuf,
    /// Layout of the tables.
    pub table: TableOptions,
    /// Configuration for reading back the finished tables.
    pub read: ReadConfig,
    /// Size in bytes at which a file is closed.
    pub file_size_max_bytes: u64,
    /// Whether each file is read back and compared.
    pub verify: bool,
    /// Assigns each file its number.
    pub next_number: Box<dyn FnMut() -> u64 + Send>,
    /// Assigns each file its identity.
    pub next_table_id: Box<dyn FnMut() -> u64 + Send>,
    /// Receives the tables that were opened for verification, if they are to stay open.
    pub opened: Option<Arc<Opened>>,
    /// Whether older tables may share keys with the output. Block sketches are built only in this
    /// case.
    pub over_others: bool,
    /// Called with the bytes that were written since the last call. It may wait.
    pub pace: Option<Pace>,
    /// Which values are kept in value files.
    pub values: ValueConfig,
}

/// Slows an output down, by the number of bytes that it has written.
pub type Pace = Box<dyn FnMut(u64) + Send>;

/// Number of bytes that an output writes between two calls of its [`Pace`].
const PACE_BYTES: u64 = 64 << 10;

/// Open tables of files that no version references yet, with their blocks in the cache. Dropping it
/// evicts the blocks of the tables that no version has taken.
pub struct Opened {
    tables: Arc<Tables>,
    list: Mutex<Vec<Table>>,
}

impl Opened {
    /// Creates an empty list. `tables` limits the number of open files.
    pub fn new(tables: &Arc<Tables>) -> Arc<Opened> {
        Arc::new(Opened { tables: tables.clone(), list: Mutex::default() })
    }

    /// Gives each open table to its file in `files`, where readers find it. `files` are sorted by
    /// number. Evicts the blocks of tables without such a file. Returns the numbers of all tables in the list.
    pub fn settle(&self, files: &[Arc<FileMeta>]) -> Vec<u64> {
        let list = std::mem::take(&mut *self.list.lock());
        let numbers = list.iter().map(Table::number).collect();
        adopt(files, list);
        numbers
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.list.get_mut().iter().for_each(Table::forget_blocks);
    }
}

/// A finished file.
#[derive(Debug, Clone)]
pub struct NewFile {
    /// File number.
    pub number: u64,
    /// Description of the table's contents.
    pub info: TableInfo,
    /// End of the file's share of the output, if the file holds range tombstones. The slice of the
    /// file must end there as well, because the next file may start with this key.
    pub hi: Option<Vec<u8>>,
    /// Bytes of values that were written to value files meanwhile.
    pub value_bytes: u64,
}

/// Writes entries, given in internal order, to a sequence of files.
pub struct Output {
    config: OutputConfig,
    /// Keys at which a file must end, in key order.
    cuts: Vec<Vec<u8>>,
    next_cut: usize,
    /// Range tombstones to distribute over the files, ordered by start key. The first `begun` of
    /// them start before the current file's share.
    deletes: Vec<RangeDelete>,
    begun: usize,
    /// Indexes of the started tombstones that reach into the current file's share.
    open: Vec<usize>,
    /// Start of the current file's share of the key space.
    share_start: Option<Vec<u8>>,
    current: Option<(u64, TableWriter)>,
    last_key: Vec<u8>,
    done: Vec<NewFile>,
    /// Bytes of the current file that the pace knows.
    paced_bytes: u64,
    values: ValueOutput,
}

impl Output {
    /// Creates an output that ends files at `cuts` and at the size limit, and writes `deletes`.
    pub fn new(config: OutputConfig, cuts: Vec<Vec<u8>>, mut deletes: Vec<RangeDelete>) -> Output {
        // Tombstones that come from a range tombstone set are already in this order.
        deletes.sort_by(|a, b| config.table.order.compare(&a.start, &b.start));
        let values = ValueOutput::new(config.values.clone());
        Output {
            values,
            config,
            cuts,
            next_cut: 0,
            deletes,
            begun: 0,
            open: Vec::new(),
            share_start: None,
            current: None,
            last_key: Vec::new(),
            done: Vec::new(),
            paced_bytes: 0,
        }
    }

    fn try_add(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8]) -> Result<()> {
        if self.current.is_some() && self.must_cut(key) {
            self.close(Some(key))?;
            self.begin_share(key);
        }
        if self.current.is_none() {
            self.skip_cuts(key);
            self.open()?;
        }
        if let Some((_, writer)) = self.current.as_mut() {
            let (kind, value) = match self.values.is_idle() {
                true => (kind, value),
                false => self.values.place(file_maker(&mut self.config), key, kind, value)?,
            };
            writer.add(key, seqno, kind, value)?;
            if let Some(pace) = &mut self.config.pace {
                let written = writer.estimated_bytes() + self.values.written_bytes();
                if written >= self.paced_bytes + PACE_BYTES {
                    pace(written - self.paced_bytes);
                    self.paced_bytes = written;
                }
            }
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Closes the last file and returns all files.
    pub fn finish(mut self) -> Result<Vec<NewFile>> {
        let result = self.try_finish();
        if result.is_err() {
            self.discard();
        }
        result.map(|()| std::mem::take(&mut self.done))
    }

    fn try_finish(&mut self) -> Result<()> {
        if self.current.is_none() && !self.share(None).is_empty() {
            self.open()?;
        }
        if self.current.is_some() {
            self.close(None)?;
        }
        self.values.finish(file_maker(&mut self.config))?;
        if !self.done.is_empty() {
            sync_dir(&*self.config.fs, &self.config.dir)?;
        }
        Ok(())
    }

    /// Returns the bytes of values written for the current table.
    pub fn value_bytes(&self) -> u64 {
        self.values.written_bytes()
    }

    /// Removes all files written so far.
    pub fn abandon(mut self) {
        self.discard();
    }

    fn must_cut(&mut self, key: &[u8]) -> bool {
        let order = &self.config.table.order;
        let at_cut = self
            .cuts
            .get(self.next_cut)
            .is_some_and(|cut| order.compare(cut, key) != Ordering::Greater);
        if at_cut {
            return true;
        }
        let full = self
            .current
            .as_ref()
            .is_some_and(|(_, w)| w.estimated_bytes() >= self.config.file_size_max_bytes);
        full && order.compare(&self.last_key, key) != Ordering::Equal
    }

    fn skip_cuts(&mut self, key: &[u8]) {
        let order = &self.config.table.order;
        while let Some(cut) = self.cuts.get(self.next_cut)
            && order.compare(cut, key) != Ordering::Greater
        {
            self.next_cut += 1;
        }
    }

    fn open(&mut self) -> Result<()> {
        let number = (self.config.next_number)();
        let id = (self.config.next_table_id)();
        let path = names::table_path(&self.config.dir, number);
        let writer = TableWriter::create(&*self.config.fs, &path, id, &self.config.table)?;
        self.current = Some((number, writer));
        Ok(())
    }

    /// Returns the range tombstones of the current file's share, which ends before `end`.
    fn share(&self, end: Option<&[u8]>) -> Vec<RangeDelete> {
        let order = &self.config.table.order;
        let start = self.share_start.as_deref();
        let before_end =
            |d: &&RangeDelete| end.is_none_or(|end| order.compare(&d.start, end).is_lt());
        let begun = self.open.iter().map(|&at| &self.deletes[at]);
        let next = self.deletes[self.begun..].iter().take_while(before_end);
        let clamped = begun.chain(next).filter_map(|d| d.borrow().clamp(order, start, end));
        clamped.map(|d| d.to_owned()).collect()
    }

    /// Begins the next file's share at `key`.
    fn begin_share(&mut self, key: &[u8]) {
        let order = &self.config.table.order;
        let begins = |d: &RangeDelete| order.compare(&d.start, key).is_lt();
        while self.deletes.get(self.begun).is_some_and(begins) {
            self.open.push(self.begun);
            self.begun += 1;
        }
        self.open.retain(|&at| order.compare(key, &self.deletes[at].end).is_lt());
        self.share_start = Some(key.to_vec());
    }

    fn close(&mut self, end: Option<&[u8]>) -> Result<()> {
        let share = self.share(end);
        let Some((number, mut writer)) = self.current.take() else { return Ok(()) };
        let path = names::table_path(&self.config.dir, number);
        let added = share.iter().try_for_each(|delete| writer.add_range_delete(delete));
        let finished = match added {
            Ok(()) => writer.finish(),
            Err(error) => {
                writer.abandon();
                Err(error)
            }
        };
        let checked = finished.and_then(|info| {
            if self.config.verify {
                self.read_back(number, &path, &info)?;
            }
            Ok(info)
        });
        match checked {
            Ok(info) => {
                let value_bytes = self.values.take_written();
                let written = info.size_bytes + value_bytes;
                let rest = written.saturating_sub(std::mem::take(&mut self.paced_bytes));
                if let Some(pace) = &mut self.config.pace {
                    pace(rest);
                }
                let hi = end.filter(|_| info.range_deletes > 0).map(<[u8]>::to_vec);
                self.done.push(NewFile { number, info, hi, value_bytes });
                Ok(())
            }
            Err(error) => {
                let _ = self.config.fs.remove(&path);
                Err(error)
            }
        }
    }

    /// Reads a whole finished file and compares it with the written contents.
    fn read_back(&self, number: u64, path: &std::path::Path, info: &TableInfo) -> Result<()> {
        let source = TableSource {
            fs: self.config.fs.clone(),
            path: path.to_path_buf(),
            file_number: number,
            table_id: info.table_id,
            size_bytes: info.size_bytes,
            ingested: info.ingested,
        };
        let mut table = Table::open(source, &self.config.read)?;
        let opened = self.config.opened.as_ref();
        table.kept = opened.and_then(|opened| opened.tables.permit_unread());
        let found = match opened.filter(|_| table.kept.is_some()) {
            Some(opened) => {
                let found = table.check_and_keep(self.config.over_others);
                opened.list.lock().push(table);
                found
            }
            None => table.check(),
        };
        if found? == *info {
            return Ok(());
        }
        Err(Error::corruption(
            path,
            0,
            "the content of the table differs from the written content; the device or the memory \
             is faulty",
        ))
    }

    fn discard(&mut self) {
        self.values.discard(&*self.config.fs, &self.config.dir);
        if let Some((number, writer)) = self.current.take() {
            writer.abandon();
            let _ = self.config.fs.remove(&names::table_path(&self.config.dir, number));
        }
        for file in self.done.drain(..) {
            let _ = self.config.fs.remove(&names::table_path(&self.config.dir, file.number));
        }
    }
}

impl EntrySink for Output {
    fn add(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8]) -> Result<()> {
        let result = self.try_add(key, seqno, kind, value);
        if result.is_err() {
            self.discard();
        }
        result
    }
}

impl Tables {
    /// Returns the memory in bytes that the open tables of `files` use besides cached blocks. It
    /// includes the free memory between their allocations.
    pub fn memory_bytes(&self, files: &[Arc<FileMeta>]) -> u64 {
        let used: u64 = files.iter().map(|file| file.memory_bytes() as u64).sum();
        used + self.config.pages.free_bytes() as u64
    }
}

/// Returns what the value files of an output are made with.
fn file_maker(config: &mut OutputConfig) -> FileMaker<'_> {
    FileMaker {
        fs: &*config.fs,
        dir: &config.dir,
        file_size_max_bytes: config.file_size_max_bytes,
        next_number: &mut *config.next_number,
        next_id: &mut *config.next_table_id,
        verify: config.verify,
    }
}

/// Hands open tables of new files to `files`, which are sorted by number, for their readers.
fn adopt(files: &[Arc<FileMeta>], tables: Vec<Table>) {
    for table in tables {
        match files.binary_search_by_key(&table.number(), |file| file.number) {
            Ok(at) => files[at].set_open_table(table),
            Err(_) => table.forget_blocks(),
        }
    }
}
