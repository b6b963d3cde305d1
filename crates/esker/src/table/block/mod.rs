//! A data block in memory: its bytes, and the positions of its rows, computed once at load.
//!
//! Invariants:
//! 1. A [`Block`] exists only if every length and offset in it was checked, so row reads have no
//!    error path.
//! 2. Rows are numbered from 0 in internal order. A block has at least one row.
//! 3. A row's value is a slice of the block's bytes. Its key is assembled in a [`KeyBuf`], of which
//!    only the changed part is written.

mod alone;
mod columnar;
mod delta;
#[cfg(test)]
mod tests;
mod visit;

use std::fmt;
use std::ops::Deref;

use super::format::TRAILER_BYTES;
use crate::base::cache_block::{CacheBlock, CacheBlockBuf};
use crate::base::cache_block_pool::UNIT_BYTES;
use crate::base::expiry::TIME_BYTES;
use crate::base::key::{Kind, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::prefetch::prefetch_bytes;
use crate::base::rows::{KeyBuf, Row, RowRange, Rows, VisitResult, Visitor};
use crate::base::separated::ValuePointer;
use crate::cache::CachedRef;
use crate::options::kinds::BlockLayout;

use columnar::{Columnar, ColumnarBuilder};
use delta::{Delta, DeltaBuilder};

/// The first byte of a columnar block.
const TAG_COLUMNAR: u8 = 1;
/// The first byte of a delta block.
const TAG_DELTA: u8 = 2;
/// Prefetch distance of value bytes in a scan, in rows, as if all values had the same length.
const AHEAD_ROWS: u32 = 4;
/// Memory of a block beside its bytes: structures and the cache's bookkeeping.
const OVERHEAD_BYTES: usize = 192;

/// Checks the stored value of a row whose kind is neither a plain put nor a tombstone nor an operand.
fn check_value(kind: u8, value: &[u8]) -> Result<(), &'static str> {
    if kind == Kind::PutExpiring as u8 && value.len() < TIME_BYTES {
        return Err("a row that expires has no time");
    }
    if kind == Kind::PutSeparated as u8 && ValuePointer::decode(value).is_none() {
        return Err("a row's pointer to its value is malformed");
    }
    Ok(())
}

/// A parsed data block. A clone is the same block, shared by the cache, cursors and pinned values.
#[derive(Clone)]
pub struct Block(CacheBlock<Layout>);

/// Buffer of a block while its bytes are read.
pub type BlockBuf = CacheBlockBuf<Layout>;

/// Layout of a block's bytes and the positions in them.
pub enum Layout {
    /// Columnar layout.
    Columnar(Columnar),
    /// Delta layout.
    Delta(Delta),
}

impl Layout {
    /// Returns the layout of bytes that are cached as a block is, and have no rows.
    pub(super) fn without_rows() -> Layout {
        Layout::Delta(Delta::without_rows())
    }
}

/// Result of a search for the newest version of a key at a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// This row has the version.
    Found(Row),
    /// The block has later rows but not this key, so no later block has it.
    Absent,
    /// Every row is before the key. It may be in the next block.
    PastEnd,
}

impl Block {
    /// Makes a block from the first `len` bytes of `data`. Returns a message if they are malformed.
    pub fn parse(data: BlockBuf, len: usize) -> Result<Block, &'static str> {
        Block::parse_ingested(data, len, 0)
    }

    /// Does the same for a block of an ingested table, whose rows have the sequence number 0 in the
    /// file. They get the sequence number `ingested`. 0 leaves the rows of any table as they are.
    pub fn parse_ingested(
        data: BlockBuf,
        len: usize,
        ingested: SeqNo,
    ) -> Result<Block, &'static str> {
        let bytes = &data[..len];
        if u32::try_from(len).is_err() {
            return Err("the block is too long");
        }
        let layout = match bytes.first() {
            Some(&TAG_COLUMNAR) => Layout::Columnar(Columnar::parse(bytes, ingested)?),
            Some(&TAG_DELTA) => Layout::Delta(Delta::parse(bytes, ingested)?),
            _ => return Err("the block's layout is unknown"),
        };
        Ok(Block(data.freeze(len, layout)))
    }

    /// Makes a block from a copy of `bytes`. Returns a message if they are malformed.
    pub fn copy_of(bytes: &[u8]) -> Result<Block, &'static str> {
        let mut buf = BlockBuf::zeroed(bytes.len(), None);
        buf.copy_from_slice(bytes);
        Block::parse(buf, bytes.len())
    }

    /// Wraps a cache block.
    #[inline]
    pub(super) fn of(cached: CacheBlock<Layout>) -> Block {
        Block(cached)
    }

    /// Returns the cache block.
    pub(super) fn into_cache_block(self) -> CacheBlock<Layout> {
        self.0
    }

    #[inline]
    fn data(&self) -> &[u8] {
        self.0.bytes()
    }

    #[inline]
    fn layout(&self) -> &Layout {
        self.0.header()
    }

    /// Returns the number of rows; never 0.
    #[inline]
    pub fn rows(&self) -> usize {
        match self.layout() {
            Layout::Columnar(columnar) => columnar.rows(),
            Layout::Delta(delta) => delta.rows(),
        }
    }

    /// Returns the memory in use, in bytes, for the cache's accounting.
    pub fn memory_bytes(&self) -> usize {
        let table = match self.layout() {
            Layout::Columnar(_) => 0,
            Layout::Delta(delta) => delta.memory_bytes(),
        };
        self.0.memory_bytes() + table + OVERHEAD_BYTES
    }

    /// Returns the approximate memory of a block of `raw_bytes` bytes, including the trailer.
    pub fn memory_bytes_of(raw_bytes: usize) -> u64 {
        let cache_block_bytes = CacheBlock::<Layout>::HEAD_BYTES + raw_bytes + TRAILER_BYTES;
        (cache_block_bytes.next_multiple_of(UNIT_BYTES) + OVERHEAD_BYTES) as u64
    }

    /// Returns the memory address of the block's bytes.
    fn address(&self) -> usize {
        self.data().as_ptr().addr()
    }

    /// Returns true only if every row is a put at or below `snapshot` that does not expire, with a
    /// key that differs from the previous row's key.
    #[inline]
    pub fn is_plain(&self, snapshot: SeqNo) -> bool {
        match self.layout() {
            Layout::Columnar(columnar) => columnar.is_plain(snapshot),
            // A restart row does not record whether its key equals the previous row's key.
            Layout::Delta(_) => false,
        }
    }

    /// Prefetches as many bytes as the value of `row` has, from `start` of the block.
    #[inline]
    fn prefetch(&self, row: Row, start: u32) {
        prefetch_bytes(self.address().wrapping_add(start as usize), row.value_bytes as usize);
    }

    /// Returns the newest version of `key` that is visible at `seqno`.
    pub fn find(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Lookup {
        find_in(&self.0, order, key, seqno)
    }
}

/// Returns the newest version of `key` in `cached` that is visible at `seqno`.
#[inline]
fn find_in(cached: &CacheBlock<Layout>, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Lookup {
    match cached.header() {
        Layout::Columnar(columnar) => columnar.find(cached.bytes(), key, seqno),
        Layout::Delta(delta) => delta.find(cached.bytes(), order, key, seqno),
    }
}

/// A block that the cache owns, or that this value owns.
pub enum BlockRef<'s> {
    /// A cached reference. The block cannot be freed while the guard of the epoch collector exists.
    Seen(CachedRef<'s, Layout>),
    /// An owned block, read for this use.
    Own(Block),
}

impl BlockRef<'_> {
    #[inline]
    fn cached(&self) -> &CacheBlock<Layout> {
        match self {
            BlockRef::Seen(cached) => cached,
            BlockRef::Own(block) => &block.0,
        }
    }

    /// Returns the newest version of `key` that is visible at `seqno`.
    #[inline]
    pub fn find(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Lookup {
        find_in(self.cached(), order, key, seqno)
    }

    /// Returns the value of a row of this block.
    #[inline]
    pub fn value(&self, row: Row) -> &[u8] {
        value_in(self.cached(), row)
    }

    /// Returns the value of a row of this block, which keeps the block in memory.
    pub fn pin(self, row: Row) -> BlockSlice {
        let block = match self {
            BlockRef::Seen(cached) => Block::of(CacheBlock::clone(&cached)),
            BlockRef::Own(block) => block,
        };
        BlockSlice { block, start: row.value_start, bytes: row.value_bytes }
    }
}

/// Returns the value of a row of the block in `cached`.
#[inline]
fn value_in(cached: &CacheBlock<Layout>, row: Row) -> &[u8] {
    let (start, bytes) = row.value_span();
    &cached.bytes()[start..start + bytes]
}

impl Rows for Block {
    #[inline]
    fn value(&self, row: Row) -> &[u8] {
        value_in(&self.0, row)
    }

    #[inline]
    fn load(&self, row: usize, buf: &mut KeyBuf) -> Row {
        let row = match self.layout() {
            Layout::Columnar(columnar) => {
                columnar.enter(self.data(), buf);
                columnar.read(self.data(), row, buf)
            }
            Layout::Delta(delta) => delta.load(self.data(), row, buf),
        };
        self.prefetch(row, row.value_start);
        row
    }

    #[inline]
    fn step_forward(&self, row: usize, buf: &mut KeyBuf) -> Row {
        let row = match self.layout() {
            Layout::Columnar(columnar) => columnar.read(self.data(), row, buf),
            Layout::Delta(delta) => delta.step(self.data(), row, buf),
        };
        self.prefetch(row, row.value_start.wrapping_add(AHEAD_ROWS.wrapping_mul(row.value_bytes)));
        row
    }

    #[inline]
    fn step_back(&self, row: usize, buf: &mut KeyBuf) -> Row {
        let row = match self.layout() {
            Layout::Columnar(columnar) => columnar.read(self.data(), row, buf),
            Layout::Delta(delta) => delta.load(self.data(), row, buf),
        };
        self.prefetch(row, row.value_start.wrapping_sub(AHEAD_ROWS.wrapping_mul(row.value_bytes)));
        row
    }

    fn for_each_row(&self, range: RowRange, buf: &mut KeyBuf, visit: Visitor<'_>) -> VisitResult {
        visit::visit_rows(self, range, buf, visit)
    }

    #[inline]
    fn lower_bound(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo, buf: &mut KeyBuf) -> usize {
        match self.layout() {
            Layout::Columnar(columnar) => columnar.lower_bound(self.data(), key, seqno),
            Layout::Delta(delta) => delta.lower_bound(self.data(), order, key, seqno, buf),
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} rows, {} B)", self.rows(), self.data().len())
    }
}

/// A value that keeps its block in memory, even after eviction from the cache. Cheap to clone.
#[derive(Clone)]
pub struct BlockSlice {
    block: Block,
    start: u32,
    bytes: u32,
}

impl Deref for BlockSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.start as usize;
        &self.block.data()[start..start + self.bytes as usize]
    }
}

impl fmt::Debug for BlockSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockSlice({} B)", self.bytes)
    }
}

/// Builds one block after another.
pub(super) enum BlockBuilder {
    Columnar(ColumnarBuilder),
    Delta(DeltaBuilder),
}

impl BlockBuilder {
    /// Creates a builder. The columnar layout needs an order with heads; other orders use delta.
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

    /// Returns the layout in use.
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

    /// Returns the approximate length of the block in bytes.
    #[inline]
    pub(super) fn estimated_bytes(&self) -> usize {
        match self {
            BlockBuilder::Columnar(builder) => builder.estimated_bytes(),
            BlockBuilder::Delta(builder) => builder.estimated_bytes(),
        }
    }

    /// Adds a row. The caller keeps internal order.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], word: u64, value: &[u8]) {
        match self {
            BlockBuilder::Columnar(builder) => builder.add(key, word, value),
            BlockBuilder::Delta(builder) => builder.add(key, word, value),
        }
    }

    /// Returns the bytes before and after the value of a block of one row.
    pub(super) fn around_alone(
        &self,
        key: &[u8],
        word: u64,
        value_bytes: usize,
    ) -> (Vec<u8>, Vec<u8>) {
        match self {
            BlockBuilder::Columnar(_) => (alone::columnar(key, word, value_bytes), Vec::new()),
            BlockBuilder::Delta(builder) => {
                alone::delta(key, word, value_bytes, builder.interval())
            }
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
