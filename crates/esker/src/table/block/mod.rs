//! A data block in memory: its bytes and, found once when it was loaded, where everything lies.
//!
//! What stays true:
//! 1. A [`Block`] exists only if every length and offset in it was checked, so reading a row has no
//!    error path.
//! 2. Rows are numbered from 0 in internal order and there is at least one.
//! 3. A row's value is a slice of the block's bytes; its key is put together in a [`KeyBuf`], of
//!    which only the part that changes is written.

mod alone;
mod columnar;
mod delta;
mod show;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Deref;

use super::format::TRAILER_BYTES;
use crate::base::frame::{Frame, FrameBuf};
use crate::base::frame_pool::GRANULE_BYTES;
use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::base::prefetch::prefetch_bytes;
use crate::base::rows::{KeyBuf, Row, Rows, See, Shown, Way};
use crate::cache::Seen;
use crate::options::kinds::BlockLayout;

use columnar::{Columnar, ColumnarBuilder};
use delta::{Delta, DeltaBuilder};

/// The first byte of a columnar block.
const TAG_COLUMNAR: u8 = 1;
/// The first byte of a delta block.
const TAG_DELTA: u8 = 2;
/// So many rows ahead of a walk, values are asked for, as if all were equally long.
const AHEAD_ROWS: u32 = 4;
/// What a block costs beside its bytes: the structures, the cache's bookkeeping.
const OVERHEAD_BYTES: usize = 192;

/// A parsed data block. A clone is the same block, shared between the cache, cursors and pinned
/// values.
#[derive(Clone)]
pub struct Block(Frame<Layout>);

/// The memory of a block while its bytes are being read.
pub type BlockBuf = FrameBuf<Layout>;

/// How a block's bytes are laid out, and where in them everything is.
pub enum Layout {
    /// In columns.
    Columnar(Columnar),
    /// Row by row.
    Delta(Delta),
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

impl Block {
    /// Checks and takes the first `len` bytes of `data`; says what is wrong with them otherwise.
    pub fn parse(data: BlockBuf, len: usize) -> Result<Block, &'static str> {
        let bytes = &data[..len];
        if u32::try_from(len).is_err() {
            return Err("the block is too long");
        }
        let layout = match bytes.first() {
            Some(&TAG_COLUMNAR) => Layout::Columnar(Columnar::parse(bytes)?),
            Some(&TAG_DELTA) => Layout::Delta(Delta::parse(bytes)?),
            _ => return Err("the block's layout is unknown"),
        };
        Ok(Block(data.freeze(len, layout)))
    }

    /// The block whose bytes these are; says what is wrong with them otherwise.
    pub fn copy_of(bytes: &[u8]) -> Result<Block, &'static str> {
        let mut buf = BlockBuf::zeroed(bytes.len(), None);
        buf.copy_from_slice(bytes);
        Block::parse(buf, bytes.len())
    }

    /// The block in a frame, as the cache holds it.
    #[inline]
    pub(super) fn of(frame: Frame<Layout>) -> Block {
        Block(frame)
    }

    /// The frame it is in.
    pub(super) fn into_frame(self) -> Frame<Layout> {
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

    /// How many rows there are; never 0.
    #[inline]
    pub fn rows(&self) -> usize {
        match self.layout() {
            Layout::Columnar(columnar) => columnar.rows(),
            Layout::Delta(delta) => delta.rows(),
        }
    }

    /// Bytes of memory, for the cache's account.
    pub fn memory_bytes(&self) -> usize {
        let table = match self.layout() {
            Layout::Columnar(_) => 0,
            Layout::Delta(delta) => delta.memory_bytes(),
        };
        self.0.memory_bytes() + table + OVERHEAD_BYTES
    }

    /// About as much for a block of so many bytes, with what may lie behind them.
    pub fn memory_bytes_of(raw_bytes: usize) -> u64 {
        let frame_bytes = Frame::<Layout>::HEAD_BYTES + raw_bytes + TRAILER_BYTES;
        (frame_bytes.next_multiple_of(GRANULE_BYTES) + OVERHEAD_BYTES) as u64
    }

    /// Where in memory its bytes begin.
    fn address(&self) -> usize {
        self.data().as_ptr().addr()
    }

    /// Whether every row is known to be a put at or below `snapshot`, and of another key than the row
    /// before.
    #[inline]
    pub fn is_plain(&self, snapshot: SeqNo) -> bool {
        match self.layout() {
            Layout::Columnar(columnar) => columnar.is_plain(snapshot),
            // Restarts do not say whether their key is that of the row before.
            Layout::Delta(_) => false,
        }
    }

    /// Asks the processor for as many bytes as the value of `row` has, from `start` of the block.
    #[inline]
    fn prefetch(&self, row: Row, start: u32) {
        prefetch_bytes(self.address().wrapping_add(start as usize), row.value_bytes as usize);
    }

    /// The newest version of `key` that a reader at `seqno` sees.
    pub fn find(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Lookup {
        find_in(&self.0, order, key, seqno)
    }
}

/// The newest version of `key` in the block in `frame` that a reader at `seqno` sees.
#[inline]
fn find_in(frame: &Frame<Layout>, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Lookup {
    match frame.header() {
        Layout::Columnar(columnar) => columnar.find(frame.bytes(), key, seqno),
        Layout::Delta(delta) => delta.find(frame.bytes(), order, key, seqno),
    }
}

/// A block that somebody else keeps for a while, or that is kept here.
pub enum Held<'s> {
    /// It is in the cache and cannot be freed as long as a reading goes on.
    Seen(Seen<'s, Layout>),
    /// It was read for this.
    Own(Block),
}

impl Held<'_> {
    #[inline]
    fn frame(&self) -> &Frame<Layout> {
        match self {
            Held::Seen(frame) => frame,
            Held::Own(block) => &block.0,
        }
    }

    /// The newest version of `key` that a reader at `seqno` sees.
    #[inline]
    pub fn find(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Lookup {
        find_in(self.frame(), order, key, seqno)
    }

    /// The value of a row of this.
    #[inline]
    pub fn value(&self, row: Row) -> &[u8] {
        value_in(self.frame(), row)
    }

    /// The value of a row of this, for as long as one likes.
    pub fn pin(self, row: Row) -> BlockSlice {
        let block = match self {
            Held::Seen(frame) => Block::of(Frame::clone(&frame)),
            Held::Own(block) => block,
        };
        BlockSlice { block, start: row.value_start, bytes: row.value_bytes }
    }
}

/// The value of a row of the block in `frame`.
#[inline]
fn value_in(frame: &Frame<Layout>, row: Row) -> &[u8] {
    let (start, bytes) = row.value_span();
    &frame.bytes()[start..start + bytes]
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

    fn show(&self, way: Way, buf: &mut KeyBuf, see: See<'_>) -> Shown {
        show::show(self, way, buf, see)
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

/// A value that keeps its block in memory, evicted from the cache or not. Cheap to clone.
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

    /// A block of one row, but for its value: the bytes before and behind that.
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
