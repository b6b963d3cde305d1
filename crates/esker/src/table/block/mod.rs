//! A data block in memory: its bytes and, found once when it was loaded, where everything lies.
//!
//! What stays true:
//! 1. A [`Block`] exists only if every length and offset in it was checked, so reading a row has no
//!    error path.
//! 2. Rows are numbered from 0 in internal order and there is at least one.
//! 3. A row's value is a slice of the block's bytes; its key is put together in a [`KeyBuf`], of
//!    which only the part that changes is written.

mod columnar;
mod delta;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::base::key::{Kind, SeqNo};
use crate::base::order::KeyOrder;
use crate::options::kinds::BlockLayout;

use columnar::{Columnar, ColumnarBuilder};
use delta::{Delta, DeltaBuilder};

/// The first byte of a columnar block.
const TAG_COLUMNAR: u8 = 1;
/// The first byte of a delta block.
const TAG_DELTA: u8 = 2;
/// What a block costs beside its bytes: the structures, the cache's bookkeeping.
const OVERHEAD_BYTES: usize = 192;

/// A parsed data block. Shared between the cache, cursors and pinned values.
pub struct Block {
    data: Vec<u8>,
    rows: Rows,
}

enum Rows {
    Columnar(Columnar),
    Delta(Delta),
}

/// A row without its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    /// Sequence number and kind, packed.
    pub word: u64,
    /// Where the value starts in the block.
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
}

/// The result of looking for the newest version of a key at a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// It is this row.
    Found(Row),
    /// The block has later rows but not this key: no later block has it.
    Absent,
    /// Every row lies before it: it may be in the next block.
    PastEnd,
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

    /// Makes room for keys of up to `prefix` and `suffix_bytes_max` and writes the prefix.
    fn enter(&mut self, prefix: &[u8], suffix_bytes_max: usize) {
        let room = prefix.len() + suffix_bytes_max;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        self.bytes[..prefix.len()].copy_from_slice(prefix);
    }

    /// Keeps the first `shared` bytes of the key and appends `rest`.
    #[inline]
    fn splice(&mut self, shared: usize, rest: &[u8]) {
        let len = shared + rest.len();
        if self.bytes.len() < len {
            self.bytes.resize(len.next_power_of_two(), 0);
        }
        self.bytes[shared..len].copy_from_slice(rest);
        self.len = len;
    }
}

impl Block {
    /// Checks and takes `data`; says what is wrong with it otherwise.
    pub fn parse(data: Vec<u8>) -> Result<Block, &'static str> {
        if u32::try_from(data.len()).is_err() {
            return Err("the block is too long");
        }
        let rows = match data.first() {
            Some(&TAG_COLUMNAR) => Rows::Columnar(Columnar::parse(&data)?),
            Some(&TAG_DELTA) => Rows::Delta(Delta::parse(&data)?),
            _ => return Err("the block's layout is unknown"),
        };
        Ok(Block { data, rows })
    }

    /// How many rows there are; never 0.
    #[inline]
    pub fn rows(&self) -> usize {
        match &self.rows {
            Rows::Columnar(columnar) => columnar.rows(),
            Rows::Delta(delta) => delta.rows(),
        }
    }

    /// Bytes of memory, for the cache's account.
    pub fn memory_bytes(&self) -> usize {
        let table = match &self.rows {
            Rows::Columnar(_) => 0,
            Rows::Delta(delta) => delta.memory_bytes(),
        };
        self.data.capacity() + table + OVERHEAD_BYTES
    }

    /// Where in memory its bytes begin.
    pub(super) fn address(&self) -> usize {
        self.data.as_ptr().addr()
    }

    /// The value of a row of this block.
    #[inline]
    pub fn value(&self, row: Row) -> &[u8] {
        let start = row.value_start as usize;
        &self.data[start..start + row.value_bytes as usize]
    }

    /// Reads a row and puts its key in `buf`, whatever `buf` held.
    #[inline]
    pub fn load(&self, row: usize, buf: &mut KeyBuf) -> Row {
        match &self.rows {
            Rows::Columnar(columnar) => {
                columnar.enter(&self.data, buf);
                columnar.read(&self.data, row, buf)
            }
            Rows::Delta(delta) => delta.load(&self.data, row, buf),
        }
    }

    /// Reads `row` when `buf` holds the key of the row before it.
    #[inline]
    pub fn step_forward(&self, row: usize, buf: &mut KeyBuf) -> Row {
        match &self.rows {
            Rows::Columnar(columnar) => columnar.read(&self.data, row, buf),
            Rows::Delta(delta) => delta.step(&self.data, row, buf),
        }
    }

    /// Reads `row` when `buf` holds the key of the row after it.
    #[inline]
    pub fn step_back(&self, row: usize, buf: &mut KeyBuf) -> Row {
        match &self.rows {
            Rows::Columnar(columnar) => columnar.read(&self.data, row, buf),
            Rows::Delta(delta) => delta.load(&self.data, row, buf),
        }
    }

    /// The first row at or after `(key, seqno)` in internal order; [`Block::rows`] if there is none.
    /// `buf` may be overwritten.
    #[inline]
    pub fn lower_bound(
        &self,
        order: &KeyOrder,
        key: &[u8],
        seqno: SeqNo,
        buf: &mut KeyBuf,
    ) -> usize {
        match &self.rows {
            Rows::Columnar(columnar) => columnar.lower_bound(&self.data, key, seqno),
            Rows::Delta(delta) => delta.lower_bound(&self.data, order, key, seqno, buf),
        }
    }

    /// The newest version of `key` that a reader at `seqno` sees.
    #[inline]
    pub fn find(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Lookup {
        match &self.rows {
            Rows::Columnar(columnar) => columnar.find(&self.data, key, seqno),
            Rows::Delta(delta) => delta.find(&self.data, order, key, seqno),
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} rows, {} B)", self.rows(), self.data.len())
    }
}

/// A value that keeps its block in memory, evicted from the cache or not. Cheap to clone.
#[derive(Clone)]
pub struct BlockSlice {
    block: Arc<Block>,
    start: u32,
    bytes: u32,
}

impl BlockSlice {
    /// The value of `row`, a row of `block`.
    #[inline]
    pub fn new(block: Arc<Block>, row: Row) -> BlockSlice {
        BlockSlice { block, start: row.value_start, bytes: row.value_bytes }
    }
}

impl Deref for BlockSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.start as usize;
        &self.block.data[start..start + self.bytes as usize]
    }
}

impl fmt::Debug for BlockSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockSlice({} B)", self.bytes)
    }
}

/// Collects the rows of one block after another.
pub(super) enum BlockBuilder {
    Columnar(ColumnarBuilder),
    Delta(DeltaBuilder),
}

impl BlockBuilder {
    /// Columnar only where heads follow the order.
    pub(super) fn new(
        layout: BlockLayout,
        order: &KeyOrder,
        restart_interval: usize,
    ) -> BlockBuilder {
        match layout {
            BlockLayout::Columnar if order.has_heads() => {
                BlockBuilder::Columnar(ColumnarBuilder::default())
            }
            _ => BlockBuilder::Delta(DeltaBuilder::new(restart_interval)),
        }
    }

    /// The layout in use.
    pub(super) fn layout(&self) -> BlockLayout {
        match self {
            BlockBuilder::Columnar(_) => BlockLayout::Columnar,
            BlockBuilder::Delta(_) => BlockLayout::Delta,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            BlockBuilder::Columnar(builder) => builder.is_empty(),
            BlockBuilder::Delta(builder) => builder.is_empty(),
        }
    }

    /// About how long the block is.
    #[inline]
    pub(super) fn estimated_bytes(&self) -> usize {
        match self {
            BlockBuilder::Columnar(builder) => builder.estimated_bytes(),
            BlockBuilder::Delta(builder) => builder.estimated_bytes(),
        }
    }

    /// Adds a row; the caller keeps internal order.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], word: u64, value: &[u8]) {
        match self {
            BlockBuilder::Columnar(builder) => builder.add(key, word, value),
            BlockBuilder::Delta(builder) => builder.add(key, word, value),
        }
    }

    /// Appends the block to `out` and starts a new one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        match self {
            BlockBuilder::Columnar(builder) => builder.finish(out),
            BlockBuilder::Delta(builder) => builder.finish(out),
        }
    }
}
