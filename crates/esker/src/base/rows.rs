//! Rows of a block, and a stretch of them that a reader may walk by itself.
//!
//! Cursors lie over each other: a slice over a table, a chain over slices, a merge over chains, what
//! a reader sees over all. A move through them asks each a few questions. Where one block's rows are
//! all to be shown, nobody has anything to say until its end, and the topmost cursor takes the rows
//! themselves.
//!
//! What stays true of a stretch: every row in it is a put at or below the reader's sequence number,
//! the newest version of its key that its cursor would meet, and the next entry that cursor would
//! meet, as far as the stretch goes, is the next row. Older versions of the last row's key may
//! follow behind it.

use super::key::{Kind, SEQNO_MAX, SeqNo};
use super::order::KeyOrder;

/// Longer memory for a key or a value is given back while nobody needs it.
pub const RESTING_BYTES_MAX: usize = 4096;

/// A row without its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    /// Sequence number and kind, packed.
    pub word: u64,
    /// Where the value starts in the block's bytes.
    pub value_start: u32,
    /// The value's length.
    pub value_bytes: u32,
}

impl Row {
    /// The sequence number.
    #[inline]
    pub fn seqno(self) -> SeqNo {
        self.word >> 8
    }

    /// Put or delete.
    #[inline]
    pub fn kind(self) -> Kind {
        if self.word as u8 == Kind::Put as u8 { Kind::Put } else { Kind::Delete }
    }

    /// Where the value starts in the block's bytes, and how long it is.
    #[inline]
    pub fn value_span(self) -> (usize, usize) {
        (self.value_start as usize, self.value_bytes as usize)
    }
}

/// The key of the row a cursor stands on. Bytes before and after it are left from other rows.
#[derive(Debug, Clone, Default)]
pub struct KeyBuf {
    bytes: Vec<u8>,
    len: usize,
}

impl KeyBuf {
    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Gives back the memory of long keys.
    pub fn rest(&mut self) {
        if self.bytes.len() > RESTING_BYTES_MAX {
            *self = KeyBuf::default();
        }
    }

    /// Makes room for keys of up to `prefix` and `suffix_bytes_max` and writes the prefix.
    pub fn enter(&mut self, prefix: &[u8], suffix_bytes_max: usize) {
        let room = prefix.len() + suffix_bytes_max;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        self.bytes[..prefix.len()].copy_from_slice(prefix);
    }

    /// After [`Self::enter`]: keeps the prefix of `prefix_bytes` and appends the first `head_bytes`
    /// of `head`, then `tail`, which is empty where the head is not whole.
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

    /// Keeps the first `shared` bytes of the key and appends `rest`.
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

/// Takes a key and its value, and says whether it wants the next.
pub type See<'s> = &'s mut dyn FnMut(&[u8], &[u8]) -> bool;

/// Which rows to show.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// The row it begins at.
    pub first: usize,
    /// The one it ends at, on either side of the first.
    pub last: usize,
    /// See [`Stretch::ahead`].
    pub ahead: usize,
}

/// Where showing rows ended.
pub struct Shown {
    /// The last row that was shown.
    pub at: usize,
    /// That row.
    pub row: Row,
    /// Whether another is wanted.
    pub more: bool,
}

/// Rows in internal order, numbered from 0.
pub trait Rows: Send + Sync {
    /// Reads `row` and puts its key in `buf`, whatever `buf` held.
    fn load(&self, row: usize, buf: &mut KeyBuf) -> Row;
    /// Reads `row` when `buf` holds the key of the row before it.
    fn step_forward(&self, row: usize, buf: &mut KeyBuf) -> Row;
    /// Reads `row` when `buf` holds the key of the row after it.
    fn step_back(&self, row: usize, buf: &mut KeyBuf) -> Row;
    /// Shows the rows of `way` until no more is wanted. `buf` holds the key of one of these rows
    /// before, and that of the last one shown after.
    fn show(&self, way: Way, buf: &mut KeyBuf, see: See<'_>) -> Shown;
    /// The value of a row of these.
    fn value(&self, row: Row) -> &[u8];
    /// The first row at or after `(key, seqno)` in internal order; how many there are if there is
    /// none. `buf` may be overwritten.
    fn lower_bound(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo, buf: &mut KeyBuf) -> usize;
}

/// Rows that may be walked without their cursor, which stands on one of them.
pub struct Stretch {
    /// The rows of the block.
    pub rows: Box<dyn Rows>,
    /// Where the cursor stands; within the stretch, which is never empty.
    pub at: usize,
    /// Its first row.
    pub first: usize,
    /// Behind its last row.
    pub end: usize,
    /// Where in memory the bytes of the block to come may lie, for prefetches only; 0 if not known.
    pub ahead: usize,
}

impl Stretch {
    /// The rows still to be met, with that where the cursor stands.
    #[inline]
    pub fn rest(&self, forward: bool) -> Way {
        let last = if forward { self.end - 1 } else { self.first };
        Way { first: self.at, last, ahead: self.ahead }
    }

    /// The stretch without the rows at or after `key`; `None` if the cursor stands on one of them.
    pub fn before(mut self, order: &KeyOrder, key: &[u8]) -> Option<Stretch> {
        self.end = self.end.min(self.bound(order, key));
        self.checked()
    }

    /// The stretch without the rows before `key`; `None` if the cursor stands on one of them.
    pub fn from(mut self, order: &KeyOrder, key: &[u8]) -> Option<Stretch> {
        self.first = self.first.max(self.bound(order, key));
        self.checked()
    }

    /// The stretch without the rows at or before `key`; `None` if the cursor stands on one of them.
    pub fn after(self, order: &KeyOrder, key: &[u8]) -> Option<Stretch> {
        let mut stretch = self.from(order, key)?;
        // Keys differ from row to row, so at most one is `key`.
        let mut buf = KeyBuf::default();
        stretch.rows.load(stretch.first, &mut buf);
        stretch.first += usize::from(order.compare(buf.key(), key).is_eq());
        stretch.checked()
    }

    /// The first row of the block that is not before `key`.
    fn bound(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.rows.lower_bound(order, key, SEQNO_MAX, &mut KeyBuf::default())
    }

    fn checked(self) -> Option<Stretch> {
        (self.first <= self.at && self.at < self.end).then_some(self)
    }
}
