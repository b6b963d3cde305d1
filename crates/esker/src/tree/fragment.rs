//! Table files and slices of them.

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use std::cmp::Ordering as KeyOrdering;
use std::sync::{Arc, OnceLock};

use super::purge::Purger;
use super::value_files::{ValueFile, ValueFiles};
use crate::base::order::KeyOrder;
use crate::error::Result;
use crate::table::{Table, TableInfo};

/// A table file of the store. An obsolete file, which no version needs, is removed when its last
/// reader drops it.
pub struct FileMeta {
    /// File number.
    pub number: u64,
    /// Description of the table's contents.
    pub info: TableInfo,
    reader: OnceLock<Arc<Table>>,
    /// Table opened to verify the new file, kept until its first reader takes it.
    waiting: Mutex<Option<Arc<Table>>>,
    obsolete: AtomicBool,
    purger: Option<Arc<Purger>>,
    /// The value files with values of the table, by number.
    values: Vec<Arc<ValueFile>>,
}

impl FileMeta {
    /// Creates a file handle. Without a purger the file is never removed.
    pub fn new(number: u64, info: TableInfo, purger: Option<Arc<Purger>>) -> FileMeta {
        let (reader, waiting) = (OnceLock::new(), Mutex::default());
        let (obsolete, values) = (AtomicBool::new(false), Vec::new());
        FileMeta { number, info, reader, waiting, obsolete, purger, values }
    }

    /// Holds the value files of the table, so that they exist as long as a reader of the table.
    pub fn with_values(mut self, files: &ValueFiles) -> FileMeta {
        self.values = self.info.values.iter().map(|refs| files.take(refs.file)).collect();
        self
    }

    /// Returns the value files with values of the table, by number.
    pub fn values(&self) -> &[Arc<ValueFile>] {
        &self.values
    }

    /// Returns the open table. The first call opens it with `open`.
    #[inline]
    pub fn table(&self, open: impl FnOnce() -> Result<Table>) -> Result<&Arc<Table>> {
        if let Some(table) = self.reader.get() {
            return Ok(table);
        }
        {
            // The lock is held until `reader` is set. Otherwise another thread could open the file
            // a second time.
            let mut waiting = self.waiting.lock();
            if let Some(table) = waiting.take() {
                return Ok(self.reader.get_or_init(|| table));
            }
        }
        if let Some(table) = self.reader.get() {
            return Ok(table);
        }
        let table = Arc::new(open()?);
        Ok(self.reader.get_or_init(|| table))
    }

    /// Stores `table`, which is open on this file, for its first reader.
    pub fn set_open_table(&self, table: Table) {
        *self.waiting.lock() = Some(Arc::new(table));
    }

    /// Takes over the open table of `known`, if that is the same file.
    pub fn share_table(&self, known: &FileMeta) {
        let is_same = (self.number, &self.info) == (known.number, &known.info);
        if let Some(table) = known.opened().filter(|_| is_same) {
            let _ = self.reader.set(table.clone());
        }
    }

    /// Returns the table if a reader has already used it.
    pub fn opened(&self) -> Option<&Arc<Table>> {
        self.reader.get()
    }

    /// Calls `visit` with the table, if it is open. Unlike [`FileMeta::opened`], finds a table that no
    /// reader has used yet.
    pub fn peek<R>(&self, visit: impl FnOnce(&Table) -> R) -> Option<R> {
        if let Some(table) = self.opened() {
            return Some(visit(table));
        }
        let waiting = self.waiting.lock();
        match waiting.as_ref() {
            Some(table) => Some(visit(table)),
            None => self.opened().map(|table| visit(table)),
        }
    }

    /// Returns the memory used by the open table in bytes, or 0 if it is not open.
    pub fn memory_bytes(&self) -> usize {
        let waiting = || self.waiting.lock().as_ref().map_or(0, |table| table.memory_bytes());
        self.opened().map_or_else(waiting, |table| table.memory_bytes())
    }

    /// Marks the file as needed by no version.
    pub fn mark_obsolete(&self) {
        if !self.obsolete.swap(true, Ordering::AcqRel) {
            self.values.iter().for_each(|file| file.release_table(true));
        }
    }
}

impl Drop for FileMeta {
    fn drop(&mut self) {
        if !self.obsolete.load(Ordering::Acquire) {
            self.values.iter().for_each(|file| file.release_table(false));
            return;
        }
        if let Some(purger) = self.purger.take() {
            let waiting = self.waiting.get_mut().take();
            purger.remove(self.number, [self.reader.take(), waiting]);
        }
    }
}

impl std::fmt::Debug for FileMeta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "file {}", self.number)
    }
}

/// A table file restricted to the key range `[lo, hi)`. `None` is unbounded.
#[derive(Debug, Clone)]
pub struct Fragment {
    /// The file.
    pub file: Arc<FileMeta>,
    /// First key of the slice.
    pub lo: Option<Vec<u8>>,
    /// First key after the slice.
    pub hi: Option<Vec<u8>>,
    /// Estimated size in bytes.
    pub estimated_bytes: u64,
}

impl Fragment {
    /// Returns the estimated bytes of the file that belong to the slice.
    pub fn est_bytes(&self) -> u64 {
        self.estimated_bytes
    }

    /// Returns whether the slice may hold `key`.
    #[inline]
    pub fn contains(&self, order: &KeyOrder, key: &[u8]) -> bool {
        order.compare(&self.file.info.smallest, key) != KeyOrdering::Greater
            && order.compare(key, &self.file.info.largest) != KeyOrdering::Greater
            && self.lo.as_ref().is_none_or(|lo| order.compare(lo, key) != KeyOrdering::Greater)
            && self.hi.as_ref().is_none_or(|hi| order.compare(key, hi) == KeyOrdering::Less)
    }

    /// Returns the smallest key that the slice may hold.
    pub fn first<'a>(&'a self, order: &KeyOrder) -> &'a [u8] {
        let smallest = self.file.info.smallest.as_slice();
        match self.lo.as_deref() {
            Some(lo) if order.compare(lo, smallest) == KeyOrdering::Greater => lo,
            _ => smallest,
        }
    }

    /// Returns an upper bound of the slice's keys, and whether the bound is exclusive.
    pub fn last<'a>(&'a self, order: &KeyOrder) -> (&'a [u8], bool) {
        let largest = self.file.info.largest.as_slice();
        match self.hi.as_deref() {
            Some(hi) if order.compare(hi, largest) != KeyOrdering::Greater => (hi, true),
            _ => (largest, false),
        }
    }

    /// Compares the start keys of two slices.
    pub fn compare_start(&self, order: &KeyOrder, other: &Fragment) -> KeyOrdering {
        order.compare(self.first(order), other.first(order))
    }

    /// Returns whether every key of `self` is before every key of `other`.
    pub fn is_before(&self, order: &KeyOrder, other: &Fragment) -> bool {
        let (last, exclusive) = self.last(order);
        match order.compare(last, other.first(order)) {
            KeyOrdering::Less => true,
            KeyOrdering::Equal => exclusive,
            KeyOrdering::Greater => false,
        }
    }

    /// Returns whether the two slices may share a key.
    pub fn overlaps(&self, order: &KeyOrder, other: &Fragment) -> bool {
        !self.is_before(order, other) && !other.is_before(order, self)
    }
}
