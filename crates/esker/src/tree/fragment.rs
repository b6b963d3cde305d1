//! Files and slices of them.

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use std::cmp::Ordering as KeyOrdering;
use std::sync::{Arc, OnceLock};

use super::purge::Purger;
use crate::base::order::KeyOrder;
use crate::error::Result;
use crate::table::{Table, TableInfo};

/// A table file of the store. When the last reader lets go of one that no version needs, the file
/// is removed.
pub struct FileMeta {
    /// Its number.
    pub number: u64,
    /// What is in it.
    pub info: TableInfo,
    reader: OnceLock<Arc<Table>>,
    /// The table as it was opened to be read back, until somebody reads it.
    waiting: Mutex<Option<Arc<Table>>>,
    obsolete: AtomicBool,
    purger: Option<Arc<Purger>>,
}

impl FileMeta {
    /// A file; without a purger it is never removed.
    pub fn new(number: u64, info: TableInfo, purger: Option<Arc<Purger>>) -> FileMeta {
        let (reader, waiting) = (OnceLock::new(), Mutex::default());
        FileMeta { number, info, reader, waiting, obsolete: AtomicBool::new(false), purger }
    }

    /// The open table, opened by `open` the first time.
    #[inline]
    pub fn table(&self, open: impl FnOnce() -> Result<Table>) -> Result<&Arc<Table>> {
        if let Some(table) = self.reader.get() {
            return Ok(table);
        }
        {
            // Locked until it is the reader, so that nobody opens the file a second time meanwhile.
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

    /// Keeps `table`, which is open on this file, for its first reader.
    pub fn adopt(&self, table: Table) {
        *self.waiting.lock() = Some(Arc::new(table));
    }

    /// The table, if somebody has read it.
    pub fn opened(&self) -> Option<&Arc<Table>> {
        self.reader.get()
    }

    /// Bytes of memory its table takes, if it is open.
    pub fn memory_bytes(&self) -> usize {
        let waiting = || self.waiting.lock().as_ref().map_or(0, |table| table.memory_bytes());
        self.opened().map_or_else(waiting, |table| table.memory_bytes())
    }

    /// Notes that no version needs it any more.
    pub fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for FileMeta {
    fn drop(&mut self) {
        if !self.obsolete.load(Ordering::Acquire) {
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

/// A file shown within `[lo, hi)`; `None` is infinite.
#[derive(Debug, Clone)]
pub struct Fragment {
    /// The file.
    pub file: Arc<FileMeta>,
    /// The first key shown.
    pub lo: Option<Vec<u8>>,
    /// The first key not shown any more.
    pub hi: Option<Vec<u8>>,
    /// Roughly its bytes.
    pub estimated_bytes: u64,
}

impl Fragment {
    /// Roughly the bytes of the file that the slice shows.
    pub fn est_bytes(&self) -> u64 {
        self.estimated_bytes
    }

    /// Whether the slice may hold `key`.
    #[inline]
    pub fn contains(&self, order: &KeyOrder, key: &[u8]) -> bool {
        order.compare(&self.file.info.smallest, key) != KeyOrdering::Greater
            && order.compare(key, &self.file.info.largest) != KeyOrdering::Greater
            && self.lo.as_ref().is_none_or(|lo| order.compare(lo, key) != KeyOrdering::Greater)
            && self.hi.as_ref().is_none_or(|hi| order.compare(key, hi) == KeyOrdering::Less)
    }

    /// The first key the slice may show.
    pub fn first<'a>(&'a self, order: &KeyOrder) -> &'a [u8] {
        let smallest = self.file.info.smallest.as_slice();
        match self.lo.as_deref() {
            Some(lo) if order.compare(lo, smallest) == KeyOrdering::Greater => lo,
            _ => smallest,
        }
    }

    /// A key no shown key comes after, and whether that key itself is not shown.
    pub fn last<'a>(&'a self, order: &KeyOrder) -> (&'a [u8], bool) {
        let largest = self.file.info.largest.as_slice();
        match self.hi.as_deref() {
            Some(hi) if order.compare(hi, largest) != KeyOrdering::Greater => (hi, true),
            _ => (largest, false),
        }
    }

    /// Compares where two slices start.
    pub fn compare_start(&self, order: &KeyOrder, other: &Fragment) -> KeyOrdering {
        order.compare(self.first(order), other.first(order))
    }

    /// Whether every key of `self` comes before every key of `other`.
    pub fn is_before(&self, order: &KeyOrder, other: &Fragment) -> bool {
        let (last, exclusive) = self.last(order);
        match order.compare(last, other.first(order)) {
            KeyOrdering::Less => true,
            KeyOrdering::Equal => exclusive,
            KeyOrdering::Greater => false,
        }
    }

    /// Whether the two may share a key.
    pub fn overlaps(&self, order: &KeyOrder, other: &Fragment) -> bool {
        !self.is_before(order, other) && !other.is_before(order, self)
    }
}
