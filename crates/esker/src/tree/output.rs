//! Writing sorted entries as new tables: where files are cut, which range tombstones each gets, and
//! the check of each file before anything may refer to it.
//!
//! What stays true: all versions of a key are in one file; the files of one output are disjoint, in
//! key order and durable when [`Output::finish`] returns; files of an abandoned output are removed.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use super::names;
use super::tables::Tables;
use super::version::Version;
use crate::base::key::{Kind, SeqNo};
use crate::base::range_delete::RangeDelete;
use crate::base::sync::Mutex;
use crate::error::{Error, Result};
use crate::fs::{Fs, sync_dir};
use crate::table::{ReadConfig, Table, TableInfo, TableOptions, TableSource, TableWriter};

/// How and where an output is written.
pub struct OutputConfig {
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// The store's directory.
    pub dir: PathBuf,
    /// How tables are laid out.
    pub table: TableOptions,
    /// How the finished table is read back.
    pub read: ReadConfig,
    /// A file is closed once it is this long.
    pub file_size_max_bytes: u64,
    /// Whether each file is read back and compared.
    pub verify: bool,
    /// Gives each file its number.
    pub next_number: Box<dyn FnMut() -> u64 + Send>,
    /// Gives each file its identity.
    pub next_table_id: Box<dyn FnMut() -> u64 + Send>,
    /// Where the tables stay that were opened to read them back, if they are to.
    pub opened: Option<Arc<Opened>>,
    /// Whether older tables may share keys with these.
    pub over_others: bool,
}

/// Tables of files that no version knows yet, open, with blocks in the cache. When it is dropped the
/// cache lets go of what nobody took.
pub struct Opened {
    tables: Arc<Tables>,
    list: Mutex<Vec<Table>>,
}

impl Opened {
    /// None yet; `tables` says how many files may be open.
    pub fn new(tables: &Arc<Tables>) -> Arc<Opened> {
        Arc::new(Opened { tables: tables.clone(), list: Mutex::default() })
    }

    /// Has the tables so far serve the readers of `version`, where they are; returns their numbers.
    pub fn settle(&self, version: &Version) -> Vec<u64> {
        let list = std::mem::take(&mut *self.list.lock());
        let numbers = list.iter().map(Table::number).collect();
        self.tables.adopt(version, list);
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
    /// Its number.
    pub number: u64,
    /// What is in it.
    pub info: TableInfo,
    /// Where its share of the output ends, if its range tombstones reach that far; the slice that
    /// shows the file must end there too, since the next file may start with that very key.
    pub hi: Option<Vec<u8>>,
}

/// Files being written from entries in internal order.
pub struct Output {
    config: OutputConfig,
    /// Keys at which a file must end, in order.
    cuts: Vec<Vec<u8>>,
    next_cut: usize,
    /// Tombstones to spread over the files, in the order of their first keys, of which the first
    /// `begun` begin before the current file's share does.
    deletes: Vec<RangeDelete>,
    begun: usize,
    /// Which of those reach into it.
    open: Vec<usize>,
    /// Where the current file's share of the key space starts.
    share_start: Option<Vec<u8>>,
    current: Option<(u64, TableWriter)>,
    last_key: Vec<u8>,
    done: Vec<NewFile>,
}

impl Output {
    /// An output that cuts files at `cuts` and at the size limit, and keeps `deletes`.
    pub fn new(config: OutputConfig, cuts: Vec<Vec<u8>>, mut deletes: Vec<RangeDelete>) -> Output {
        // What a set gave is in this order.
        deletes.sort_by(|a, b| config.table.order.compare(&a.start, &b.start));
        Output {
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
        }
    }

    /// Adds the next entry in internal order.
    pub fn add(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8]) -> Result<()> {
        let result = self.try_add(key, seqno, kind, value);
        if result.is_err() {
            self.discard();
        }
        result
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
            writer.add(key, seqno, kind, value)?;
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Closes the last file and returns all of them.
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
        if !self.done.is_empty() {
            sync_dir(&*self.config.fs, &self.config.dir)?;
        }
        Ok(())
    }

    /// Removes every file written.
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

    /// The tombstones of the current file's share, which ends before `end`.
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

    /// The next file's share begins at `key`.
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
                let hi = end.filter(|_| info.range_deletes > 0).map(<[u8]>::to_vec);
                self.done.push(NewFile { number, info, hi });
                Ok(())
            }
            Err(error) => {
                let _ = self.config.fs.remove(&path);
                Err(error)
            }
        }
    }

    /// Reads a finished file whole and compares it with what was written.
    fn read_back(&self, number: u64, path: &std::path::Path, info: &TableInfo) -> Result<()> {
        let source = TableSource {
            fs: self.config.fs.clone(),
            path: path.to_path_buf(),
            file_number: number,
            table_id: info.table_id,
            size_bytes: info.size_bytes,
        };
        let mut table = Table::open(source, &self.config.read)?;
        let opened = self.config.opened.as_ref();
        table.kept = opened.and_then(|opened| opened.tables.keep_unread());
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
            "the table read back is not the one written; the device or memory is faulty",
        ))
    }

    fn discard(&mut self) {
        if let Some((number, writer)) = self.current.take() {
            writer.abandon();
            let _ = self.config.fs.remove(&names::table_path(&self.config.dir, number));
        }
        for file in self.done.drain(..) {
            let _ = self.config.fs.remove(&names::table_path(&self.config.dir, file.number));
        }
    }
}
