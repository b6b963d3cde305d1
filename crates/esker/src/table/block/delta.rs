//! The delta layout. A key is stored without the bytes that it shares with the previous key. Every
//! `restart_interval`-th key is stored whole, so that a search can start there. Any order.
//!
//! ```text
//! 2 u8 | per row: shared varint | unshared varint | value length varint | word varint
//! | unshared key bytes | value
//! | rows u32 | restart interval u32
//! ```
//!
//! Invariants: after `parse`, `starts` has the first byte of every row, every length in a row is in
//! bounds, a restart row shares nothing, the value of a put that expires has a time, and that of a
//! separated value a pointer.

use std::cmp::Ordering;

use crate::base::coding::{Reader, put_u32, put_varint};
use crate::base::key::{Kind, STORED_KEY_BYTES_MAX, SeqNo, shared_prefix_len};
use crate::base::order::KeyOrder;
use crate::base::rows::{KeyBuf, Row};

use super::{Lookup, TAG_DELTA, check_value};

const FOOT_BYTES: usize = 8;

/// Positions of a block's rows.
pub struct Delta {
    starts: Vec<u32>,
    interval: usize,
    /// Added to the word of each row: the sequence number of an ingest.
    word_added: u64,
}

/// One encoded row of a block.
struct Entry<'a> {
    shared: usize,
    rest: &'a [u8],
    row: Row,
}

/// Reads the row at the reader's position. Returns `None` if the row is cut. Checks nothing else.
#[inline]
fn entry<'a>(reader: &mut Reader<'a>) -> Option<Entry<'a>> {
    let shared = reader.varint()? as usize;
    let unshared = reader.varint()? as usize;
    let value_bytes = reader.varint()? as usize;
    let word = reader.varint()?;
    let rest = reader.take(unshared)?;
    let value_start = reader.position() as u32;
    reader.take(value_bytes)?;
    Some(Entry { shared, rest, row: Row { word, value_start, value_bytes: value_bytes as u32 } })
}

impl Delta {
    /// Returns the positions of no rows.
    pub(super) fn without_rows() -> Delta {
        Delta { starts: Vec::new(), interval: 1, word_added: 0 }
    }

    /// Locates and checks the rows.
    pub(super) fn parse(data: &[u8], ingested: SeqNo) -> Result<Delta, &'static str> {
        const CUT: &str = "the block's trailer is truncated";
        let body = data.len().checked_sub(FOOT_BYTES).filter(|&b| b >= 1).ok_or(CUT)?;
        let mut foot = Reader::new(&data[body..]);
        let rows = foot.u32().ok_or(CUT)? as usize;
        let interval = foot.u32().ok_or(CUT)? as usize;
        // A row takes at least four bytes.
        if rows == 0 || rows > body / 4 || interval == 0 {
            return Err("the block's row count or restart interval is out of range");
        }
        let mut reader = Reader::new(&data[..body]);
        reader.take(1);
        let mut starts = Vec::with_capacity(rows);
        let mut key_bytes = 0;
        for i in 0..rows {
            starts.push(reader.position() as u32);
            let entry = entry(&mut reader).ok_or("a row exceeds the block")?;
            let restart = i.is_multiple_of(interval);
            if entry.shared > key_bytes || (restart && entry.shared != 0) {
                return Err("a key shares more bytes than the previous key has");
            }
            key_bytes = entry.shared + entry.rest.len();
            if key_bytes > STORED_KEY_BYTES_MAX {
                return Err("a key is too long");
            }
            if ingested > 0 && entry.row.word >> 8 != 0 {
                return Err("a row of an ingested table has a sequence number of its own");
            }
            let kind = entry.row.word as u8;
            if !Kind::is_of_entries(kind) {
                return Err("a row's kind is unknown");
            }
            if kind > Kind::Merge as u8 {
                let (start, len) = entry.row.value_span();
                check_value(kind, data.get(start..start + len).unwrap_or_default())?;
            }
        }
        if reader.is_empty() {
            Ok(Delta { starts, interval, word_added: ingested << 8 })
        } else {
            Err("the block has bytes after its last row")
        }
    }

    #[inline]
    pub(super) fn rows(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u32>()
    }

    #[inline]
    fn entry<'a>(&self, data: &'a [u8], row: usize) -> Entry<'a> {
        let start = self.starts[row] as usize;
        let mut reader = Reader::new(&data[start..]);
        // `parse` has checked the row, so the default is never used.
        let mut entry =
            entry(&mut reader).unwrap_or(Entry { shared: 0, rest: &[], row: Row::default() });
        entry.row.value_start += start as u32;
        entry.row.word += self.word_added;
        entry
    }

    /// Reads a row. `buf` must hold the key of the previous row.
    #[inline]
    pub(super) fn step(&self, data: &[u8], row: usize, buf: &mut KeyBuf) -> Row {
        let entry = self.entry(data, row);
        buf.splice(entry.shared, entry.rest);
        entry.row
    }

    /// Reads a row, starting at the restart before it.
    pub(super) fn load(&self, data: &[u8], row: usize, buf: &mut KeyBuf) -> Row {
        let restart = row - row % self.interval;
        (restart..row).for_each(|before| {
            self.step(data, before, buf);
        });
        self.step(data, row, buf)
    }

    /// Returns the last restart row before `(key, seqno)`, or the first row.
    fn restart_before(&self, data: &[u8], order: &KeyOrder, key: &[u8], seqno: SeqNo) -> usize {
        let (mut low, mut high) = (0, self.rows().div_ceil(self.interval));
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.entry(data, middle * self.interval);
            if before(order, entry.rest, entry.row, key, seqno) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.saturating_sub(1) * self.interval
    }

    /// Returns the first row at or after `(key, seqno)`, and leaves its key in `buf`.
    fn search(
        &self,
        data: &[u8],
        order: &KeyOrder,
        key: &[u8],
        seqno: SeqNo,
        buf: &mut KeyBuf,
    ) -> Option<(usize, Row)> {
        for at in self.restart_before(data, order, key, seqno)..self.rows() {
            let row = self.step(data, at, buf);
            if !before(order, buf.key(), row, key, seqno) {
                return Some((at, row));
            }
        }
        None
    }

    /// Returns the first row at or after `(key, seqno)`.
    pub(super) fn lower_bound(
        &self,
        data: &[u8],
        order: &KeyOrder,
        key: &[u8],
        seqno: SeqNo,
        buf: &mut KeyBuf,
    ) -> usize {
        self.search(data, order, key, seqno, buf).map_or(self.rows(), |(at, _)| at)
    }

    /// Returns the newest version of `key` at `seqno`.
    pub(super) fn find(&self, data: &[u8], order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Lookup {
        let mut buf = KeyBuf::default();
        match self.search(data, order, key, seqno, &mut buf) {
            None => Lookup::PastEnd,
            Some((_, row)) if order.compare(buf.key(), key).is_eq() => Lookup::Found(row),
            Some(_) => Lookup::Absent,
        }
    }
}

/// Reports whether the row of `row_key` is before `(key, seqno)`.
#[inline]
fn before(order: &KeyOrder, row_key: &[u8], row: Row, key: &[u8], seqno: SeqNo) -> bool {
    match order.compare(row_key, key) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => row.seqno() > seqno,
    }
}

/// Builds a block from rows.
pub(in crate::table) struct DeltaBuilder {
    body: Vec<u8>,
    last_key: Vec<u8>,
    rows: usize,
    interval: usize,
}

impl DeltaBuilder {
    pub(super) fn new(restart_interval: usize) -> DeltaBuilder {
        let interval = restart_interval.clamp(1, u32::MAX as usize);
        DeltaBuilder { body: Vec::new(), last_key: Vec::new(), rows: 0, interval }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    #[inline]
    pub(super) fn add(&mut self, key: &[u8], word: u64, value: &[u8]) {
        let restart = self.rows.is_multiple_of(self.interval);
        let shared = if restart { 0 } else { shared_prefix_len(&self.last_key, key) };
        for number in [shared, key.len() - shared, value.len()] {
            put_varint(&mut self.body, number as u64);
        }
        put_varint(&mut self.body, word);
        self.body.extend_from_slice(&key[shared..]);
        self.body.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.rows += 1;
    }

    #[inline]
    pub(super) fn estimated_bytes(&self) -> usize {
        1 + self.body.len() + FOOT_BYTES
    }

    /// Returns the restart interval in rows.
    pub(super) fn interval(&self) -> usize {
        self.interval
    }

    /// Appends the block to `out` and starts a new one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.push(TAG_DELTA);
        out.extend_from_slice(&self.body);
        put_u32(out, self.rows as u32);
        put_u32(out, self.interval as u32);
        self.body.clear();
        self.body.shrink_to(1 << 20);
        self.last_key.clear();
        self.rows = 0;
    }
}
