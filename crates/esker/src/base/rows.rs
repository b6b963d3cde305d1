//! Rows of a block, and row batches that a reader may iterate without the cursor.
//!
//! Cursors form a stack: a slice over a table, a chain over slices, a merge over chains, and the
//! visibility cursor on top. A move costs a few calls to each of them. If all rows of a block are
//! visible, the lower cursors have nothing to decide until the end of the block. The topmost cursor
//! then takes the rows directly.
//!
//! Invariants of a row batch:
//! 1. Every row is a put at or below the reader's sequence number, and the newest version of its
//!    key that the cursor would return.
//! 2. Within the batch, the next row is the next entry that the cursor would return.
//! 3. Older versions of the last row's key may follow after the batch.

use super::key::{Kind, SEQNO_MAX, SeqNo};
use super::order::KeyOrder;

/// Maximum capacity, in bytes, that an unused key or value buffer keeps. Larger buffers are freed
/// or shrunk.
pub const IDLE_BUFFER_BYTES_MAX: usize = 4096;

/// A row without its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    /// The packed sequence number and kind ([`pack`](super::key::pack)).
    pub word: u64,
    /// Offset of the value in the block, in bytes.
    pub value_start: u32,
    /// Length of the value, in bytes.
    pub value_bytes: u32,
}

impl Row {
    /// Returns the sequence number.
    #[inline]
    pub fn seqno(self) -> SeqNo {
        self.word >> 8
    }

    /// Returns the kind, never [`Kind::RangeDelete`].
    #[inline]
    pub fn kind(self) -> Kind {
        Kind::of_entry(self.word as u8)
    }

    /// Returns the row without the time at the beginning of its value. Only for a row of the kind
    /// [`Kind::PutExpiring`], whose value was checked to have one.
    #[inline]
    pub fn without_time(self) -> Row {
        let time_bytes = super::expiry::TIME_BYTES as u32;
        Row {
            value_start: self.value_start + time_bytes,
            value_bytes: self.value_bytes.saturating_sub(time_bytes),
            ..self
        }
    }

    /// Returns the offset of the value in the block and its length, in bytes.
    #[inline]
    pub fn value_span(self) -> (usize, usize) {
        (self.value_start as usize, self.value_bytes as usize)
    }
}

/// A buffer for the key of the current row. Bytes after the key may remain from other rows.
#[derive(Debug, Clone, Default)]
pub struct KeyBuf {
    bytes: Vec<u8>,
    len: usize,
}

impl KeyBuf {
    /// Returns the key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Frees the buffer if it is larger than [`IDLE_BUFFER_BYTES_MAX`].
    pub fn release(&mut self) {
        if self.bytes.len() > IDLE_BUFFER_BYTES_MAX {
            *self = KeyBuf::default();
        }
    }

    /// Makes room for `prefix` and suffixes of up to `suffix_bytes_max` bytes, and writes the
    /// prefix.
    pub fn set_prefix(&mut self, prefix: &[u8], suffix_bytes_max: usize) {
        let room = prefix.len() + suffix_bytes_max;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        self.bytes[..prefix.len()].copy_from_slice(prefix);
    }

    /// Sets the key after [`Self::set_prefix`]: keeps the first `prefix_bytes` bytes and appends
    /// the first `head_bytes` bytes of `head`, then `tail`. `tail` must be empty if `head_bytes` is
    /// below 8.
    #[inline]
    pub fn set_suffix(
        &mut self,
        prefix_bytes: usize,
        head: [u8; 8],
        head_bytes: usize,
        tail: &[u8],
    ) {
        let suffix = &mut self.bytes[prefix_bytes..];
        if let Some(place) = suffix.first_chunk_mut() {
            *place = head;
        }
        if !tail.is_empty() {
            suffix[head.len()..][..tail.len()].copy_from_slice(tail);
        }
        self.len = prefix_bytes + head_bytes + tail.len();
    }

    /// Sets the key to its first `shared` bytes followed by `rest`.
    #[inline]
    pub fn splice(&mut self, shared: usize, rest: &[u8]) {
        let len = shared + rest.len();
        if self.bytes.len() < len {
            self.bytes.resize(len.next_power_of_two(), 0);
        }
        self.bytes[shared..len].copy_from_slice(rest);
        self.len = len;
    }
}

/// A visitor: takes a key and its value, and returns whether to continue.
pub type Visitor<'s> = &'s mut dyn FnMut(&[u8], &[u8]) -> bool;

/// A range of rows with a direction, for [`Rows::for_each_row`].
#[derive(Debug, Clone, Copy)]
pub struct RowRange {
    /// The row to begin with.
    pub first: usize,
    /// The row to end with (inclusive), on either side of the first.
    pub last: usize,
    /// See [`RowBatch::ahead`].
    pub ahead: usize,
}

/// The result of [`Rows::for_each_row`].
pub struct VisitResult {
    /// The number of the last visited row.
    pub at: usize,
    /// The last visited row.
    pub row: Row,
    /// Whether the visitor asked to continue.
    pub more: bool,
}

/// Rows in internal order, numbered from 0.
pub trait Rows: Send + Sync {
    /// Reads `row` and stores its key in `buf`. The previous content of `buf` does not matter.
    fn load(&self, row: usize, buf: &mut KeyBuf) -> Row;
    /// Reads `row` and stores its key in `buf`. `buf` must hold the key of the previous row.
    fn step_forward(&self, row: usize, buf: &mut KeyBuf) -> Row;
    /// Reads `row` and stores its key in `buf`. `buf` must hold the key of the next row.
    fn step_back(&self, row: usize, buf: &mut KeyBuf) -> Row;
    /// Calls `visit` for each row of `range` until `visit` returns `false`. `buf` must hold the key
    /// of one of these rows. Afterwards it holds the key of the last visited row.
    fn for_each_row(&self, range: RowRange, buf: &mut KeyBuf, visit: Visitor<'_>) -> VisitResult;
    /// Returns the value of a row of this block.
    fn value(&self, row: Row) -> &[u8];
    /// Returns the first row at or after `(key, seqno)` in internal order, or the number of rows if
    /// no such row exists. May overwrite `buf`.
    fn lower_bound(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo, buf: &mut KeyBuf) -> usize;
}

/// A row batch: rows that a reader may iterate without the cursor. The cursor is on one of them.
pub struct RowBatch {
    /// The rows of the block.
    pub rows: Box<dyn Rows>,
    /// The current row of the cursor. It lies within the batch, which is never empty.
    pub at: usize,
    /// The first row of the batch.
    pub first: usize,
    /// The end of the batch (exclusive).
    pub end: usize,
    /// The probable memory address of the next block's bytes, for prefetches only; 0 if unknown.
    pub ahead: usize,
}

impl RowBatch {
    /// Returns the rows from the current row (inclusive) to the end of the batch in the given
    /// direction.
    #[inline]
    pub fn remaining(&self, forward: bool) -> RowRange {
        let last = if forward { self.end - 1 } else { self.first };
        RowRange { first: self.at, last, ahead: self.ahead }
    }

    /// Removes the rows at or after `key`. Returns `None` if the cursor is on one of them.
    pub fn before(mut self, order: &KeyOrder, key: &[u8]) -> Option<RowBatch> {
        self.end = self.end.min(self.bound(order, key));
        self.checked()
    }

    /// Removes the rows before `key`. Returns `None` if the cursor is on one of them.
    pub fn from(mut self, order: &KeyOrder, key: &[u8]) -> Option<RowBatch> {
        self.first = self.first.max(self.bound(order, key));
        self.checked()
    }

    /// Removes the rows at or before `key`. Returns `None` if the cursor is on one of them.
    pub fn after(self, order: &KeyOrder, key: &[u8]) -> Option<RowBatch> {
        let mut batch = self.from(order, key)?;
        // The keys of a batch are distinct, so at most one equals `key`.
        let mut buf = KeyBuf::default();
        batch.rows.load(batch.first, &mut buf);
        batch.first += usize::from(order.compare(buf.key(), key).is_eq());
        batch.checked()
    }

    /// Returns the first row of the block at or after `key`.
    fn bound(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.rows.lower_bound(order, key, SEQNO_MAX, &mut KeyBuf::default())
    }

    fn checked(self) -> Option<RowBatch> {
        (self.first <= self.at && self.at < self.end).then_some(self)
    }
}
