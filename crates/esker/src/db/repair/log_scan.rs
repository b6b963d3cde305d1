//! Forward scans over the proven content of tables, one block of each table at a time.
//!
//! Invariants:
//! * Only entries of blocks with a valid checksum are returned.
//! * An unreadable block is skipped and listed.
//! * The returned entries are in internal order and within the bounds that their table states.
//!   Otherwise the scan stops and names the part that violates this.

use std::cmp::Ordering;
use std::sync::Arc;

use super::context::SalvageContext;
use super::parts::SalvagePart;
use crate::base::key::{Kind, SeqNo};
use crate::base::order::KeyOrder;
use crate::error::Error;
use crate::table::Table;

/// Reason for an early end of a scan.
pub enum Stop {
    /// The entries of this part are not in order; they must be sorted first.
    Disorder(Arc<SalvagePart>),
    /// The repair cannot continue.
    Failed(Error),
}

/// Result of a scan step.
pub type Scanned<T> = std::result::Result<T, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

/// An entry of a block, as offsets into [`Rows::bytes`].
struct Row {
    key_at: usize,
    value_at: usize,
    end_at: usize,
    seqno: SeqNo,
    kind: Kind,
}

/// A copy of the entries of one block.
#[derive(Default)]
struct Rows {
    bytes: Vec<u8>,
    rows: Vec<Row>,
}

impl Rows {
    fn push(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8]) {
        let key_at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let value_at = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.rows.push(Row { key_at, value_at, end_at: self.bytes.len(), seqno, kind });
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    fn key(&self, row: &Row) -> &[u8] {
        &self.bytes[row.key_at..row.value_at]
    }
}

/// The table of a chain that is being read.
struct LogScan {
    part: Arc<SalvagePart>,
    table: Table,
    next_block: usize,
}

/// Disjoint parts in key order, read one after another.
pub struct Chain {
    parts: std::vec::IntoIter<Arc<SalvagePart>>,
    reading: Option<LogScan>,
    rows: Rows,
    at: usize,
    /// The last entry of the previous block of the same table.
    last: Option<(Vec<u8>, SeqNo)>,
}

impl Chain {
    /// Creates a chain positioned before its first entry.
    pub fn new(parts: Vec<Arc<SalvagePart>>) -> Chain {
        let (rows, parts) = (Rows::default(), parts.into_iter());
        Chain { parts, reading: None, rows, at: 0, last: None }
    }

    /// Moves to the next readable entry; returns `false` at the end.
    pub fn move_next(&mut self, salvage: &mut SalvageContext) -> Scanned<bool> {
        self.at += 1;
        while self.at >= self.rows.rows.len() {
            if !self.load(salvage)? {
                return Ok(false);
            }
            self.at = 0;
        }
        Ok(true)
    }

    /// Reads the next block, possibly of the next table. The block may turn out empty. Returns
    /// `false` at the end.
    fn load(&mut self, salvage: &mut SalvageContext) -> Scanned<bool> {
        salvage.held.less(self.rows.rows.len());
        self.rows.clear();
        let Some(reading) = self.reading.as_mut() else {
            let Some(part) = self.parts.next() else { return Ok(false) };
            self.last = None;
            match part.open(&salvage.fs, &salvage.config) {
                Ok(table) => self.reading = Some(LogScan { part, table, next_block: 0 }),
                Err(error) if part.is_own => return Err(error.into()),
                Err(error) => salvage.record_loss(format!("all entries of a table: {error}")),
            }
            return Ok(true);
        };
        if reading.next_block == reading.table.block_count() {
            self.reading = None;
            return Ok(true);
        }
        let (order, part) = (&salvage.order, &reading.part);
        let rows = &mut self.rows;
        let read = reading.table.visit_block(reading.next_block, &mut |key, seqno, kind, value| {
            if part.shows(order, key) {
                rows.push(key, seqno, kind, value);
            }
        });
        reading.next_block += 1;
        if !self.rows_are_in_order(&salvage.order) {
            return Err(self.disorder());
        }
        salvage.held.more(self.rows.rows.len());
        match read {
            Err(error) if self.reads_own() => return Err(error.into()),
            Err(error) => salvage.record_loss(format!("all entries of a block: {error}")),
            Ok(()) => {}
        }
        Ok(true)
    }

    fn reads_own(&self) -> bool {
        self.reading.as_ref().is_some_and(|r| r.part.is_own)
    }

    /// Returns whether the block follows the previous one and lies within its table's stated
    /// bounds.
    fn rows_are_in_order(&mut self, order: &KeyOrder) -> bool {
        let Some(reading) = self.reading.as_ref() else { return true };
        let shown = &reading.part.shown;
        let mut before = self.last.as_ref().map(|(key, seqno)| (key.as_slice(), *seqno));
        for row in &self.rows.rows {
            let here = (self.rows.key(row), row.seqno);
            if !shown.contains(order, here.0) {
                return false;
            }
            if before.is_some_and(|before| compare(order, before, here).is_ge()) {
                return false;
            }
            before = Some(here);
        }
        if let Some((key, seqno)) = before {
            self.last = Some((key.to_vec(), seqno));
        }
        true
    }

    fn disorder(&mut self) -> Stop {
        self.rows.clear();
        match self.reading.take() {
            Some(r) if r.part.is_own => Stop::Failed(Error::corruption(
                &r.part.path,
                0,
                "expected the entries that this repair wrote in order, found them out of order; \
                 the device or the memory is faulty",
            )),
            Some(r) => Stop::Disorder(r.part),
            None => Stop::Failed(Error::invalid("the repair compared entries without a table")),
        }
    }

    /// Returns the current key. Valid after `move_next` has returned `true`.
    pub fn key(&self) -> &[u8] {
        self.rows.key(&self.rows.rows[self.at])
    }

    /// Returns the current value.
    pub fn value(&self) -> &[u8] {
        let row = &self.rows.rows[self.at];
        &self.rows.bytes[row.value_at..row.end_at]
    }

    /// Returns the current sequence number and kind.
    pub fn version(&self) -> (SeqNo, Kind) {
        let row = &self.rows.rows[self.at];
        (row.seqno, row.kind)
    }

    /// Compares the current entries of two chains: by key, then newer first.
    pub fn compare(&self, order: &KeyOrder, other: &Chain) -> Ordering {
        let age = |chain: &Chain| chain.reading.as_ref().map_or(0, |r| r.part.age);
        compare(order, (self.key(), self.version().0), (other.key(), other.version().0))
            .then_with(|| age(other).cmp(&age(self)))
    }

    /// Returns the number of this chain's entries in memory.
    pub fn held(&self) -> usize {
        self.rows.rows.len()
    }
}

/// Compares in internal order: by key, then larger sequence numbers first.
fn compare(order: &KeyOrder, a: (&[u8], SeqNo), b: (&[u8], SeqNo)) -> Ordering {
    order.compare(a.0, b.0).then_with(|| b.1.cmp(&a.1))
}
