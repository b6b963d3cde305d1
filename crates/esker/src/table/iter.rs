//! A cursor over a table's entries, in both directions.
//!
//! Invariants: a valid cursor is positioned on row `at` of its block, and its key and value belong
//! to that row; or it is deferred, and its key is a bound. It is not valid after an end or an
//! error. It keeps its block in memory, evicted from the cache or not.

use std::sync::Arc;

use crate::base::cursor::{Cursor, PrefetchStep};
use crate::base::key::{Kind, SeqNo};
use crate::base::rows::{KeyBuf, Row, RowBatch, Rows};
use crate::error::Result;

use super::block::Block;
use super::index::PartialFind;
use super::partitioned::HeldPartition;
use super::reader::{Table, count_read};

/// Read-ahead size after the first blocks of a scan that miss the cache, in bytes.
const AHEAD_BYTES_MIN: usize = 16 << 10;
/// Maximum read-ahead size, in bytes.
const AHEAD_BYTES_MAX: usize = 256 << 10;
/// Maximum number of rows in a block for an immediate prefetch of the next block in scan direction.
/// A scan seldom reaches the end of a longer block.
const FEW_ROWS: usize = 16;

/// A cursor over one table. It can move to another thread. It holds one block.
pub struct TableCursor {
    table: Arc<Table>,
    fill_cache: bool,
    block: Option<Block>,
    /// Index of the block.
    block_at: usize,
    /// Number of rows in the block; 0 without a block.
    rows: usize,
    at: usize,
    row: Row,
    key: KeyBuf,
    valid: bool,
    ahead: ReadAhead,
    /// The partition of the block, if the table's index has partitions.
    partition: HeldPartition,
    /// Search state of the announced seek.
    partial_find: Option<PartialFind>,
    /// Block of the deferred seek.
    deferred_block: usize,
}

/// Read-ahead buffer of a forward scan.
#[derive(Default)]
struct ReadAhead {
    bytes: Vec<u8>,
    start: u64,
    /// Size of the next read-ahead in bytes; 0 until a scan is detected.
    window: usize,
}

impl ReadAhead {
    /// Returns the bytes `[start, end)` of the file if the buffer has them.
    fn get(&self, start: u64, end: u64) -> Option<&[u8]> {
        let from = usize::try_from(start.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from + (end - start) as usize)
    }
}

impl Table {
    /// Returns a cursor over the entries, not yet positioned. With `fill_cache`, blocks read from
    /// the file are offered to the cache.
    pub fn cursor(self: &Arc<Self>, fill_cache: bool) -> TableCursor {
        TableCursor::new(Arc::clone(self), fill_cache)
    }
}

impl TableCursor {
    pub(super) fn new(table: Arc<Table>, fill_cache: bool) -> TableCursor {
        TableCursor {
            table,
            fill_cache,
            block: None,
            block_at: 0,
            rows: 0,
            at: 0,
            row: Row::default(),
            key: KeyBuf::default(),
            valid: false,
            ahead: ReadAhead::default(),
            partition: HeldPartition::default(),
            partial_find: None,
            deferred_block: 0,
        }
    }

    fn count(&self) -> usize {
        self.table.block_count()
    }

    /// Loads block `block_at`. The cursor is not valid until it is positioned on a row.
    fn hold(&mut self, block_at: usize) -> Result<()> {
        self.valid = false;
        if self.block.is_some() && self.block_at == block_at {
            return Ok(());
        }
        self.table.prefetch(block_at);
        let back = self.block.is_some() && self.block_at == block_at + 1;
        let walking = self.block.take().is_some() && self.block_at + 1 == block_at;
        let block = self.fetch(block_at, walking)?;
        self.rows = block.rows();
        self.block_at = block_at;
        self.block = Some(block);
        if self.rows <= FEW_ROWS {
            self.table.prefetch(if back { block_at.wrapping_sub(1) } else { block_at + 1 });
        }
        Ok(())
    }

    fn fetch(&mut self, block_at: usize, walking: bool) -> Result<Block> {
        let table = &self.table;
        let cached = if self.fill_cache { table.cached(block_at) } else { table.peek(block_at) };
        if let Some(block) = cached {
            return Ok(block);
        }
        let place = match &table.partitions {
            None => table.meta.index.place(block_at),
            Some(parts) => {
                table.place_of_scan(parts, block_at, &mut self.partition, self.fill_cache)?
            }
        };
        if !walking {
            self.ahead.window = 0;
            return table.fetch_at(block_at, place, self.fill_cache);
        }
        let (start, end) = (place.start, place.end);
        if self.ahead.get(start, end).is_none() {
            let ahead = &mut self.ahead;
            ahead.window = (ahead.window * 2).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
            let wanted = (end - start) as usize;
            let left = (table.meta.index.data_bytes() - start) as usize;
            if wanted * 2 > ahead.window {
                return table.fetch_at(block_at, place, self.fill_cache);
            }
            // A failed read invalidates the buffer.
            let mut bytes = std::mem::take(&mut ahead.bytes);
            bytes.resize(left.min(ahead.window), 0);
            table.read_into(&mut bytes, start)?;
            ahead.bytes = bytes;
            ahead.start = start;
        }
        count_read(end - start);
        let sealed = self.ahead.get(start, end).unwrap_or(&[]);
        let keep = self.fill_cache && table.is_wanted(block_at, place.raw_bytes);
        Ok(table.keep(block_at, table.open_block(place, sealed, keep)?, keep))
    }

    /// Positions the cursor on row `at` of the loaded block.
    #[inline]
    fn move_to(&mut self, at: usize) {
        if let Some(block) = &self.block {
            self.row = block.load(at, &mut self.key);
            self.at = at;
            self.valid = true;
        }
    }

    /// Loads the block of `(key, seqno)` and returns the first row that is not before it. The row
    /// may be past the end of the block. Returns `None` past the last block. `known_block` is
    /// the first block, if it is known.
    fn approach(
        &mut self,
        key: &[u8],
        seqno: SeqNo,
        known_block: Option<usize>,
    ) -> Result<Option<usize>> {
        self.valid = false;
        let mut block_at = match known_block {
            Some(known) => known,
            None => self.table.find_block(key)?,
        };
        debug_assert!(
            known_block.is_none() || self.table.find_block(key).is_ok_and(|at| at == block_at),
            "the prefetched block belongs to another seek"
        );
        while block_at < self.count() {
            self.hold(block_at)?;
            let Some(block) = &self.block else { break };
            let row = block.lower_bound(self.table.order(), key, seqno, &mut self.key);
            if row < self.rows || !self.table.continues(block_at, key)? {
                return Ok(Some(row));
            }
            block_at += 1;
        }
        Ok(None)
    }

    /// Seeks, starting in `known_block` if it is given.
    fn seek_in(&mut self, key: &[u8], seqno: SeqNo, known_block: Option<usize>) -> Result<()> {
        match self.approach(key, seqno, known_block)? {
            Some(row) if row < self.rows => {
                self.move_to(row);
                Ok(())
            }
            Some(_) => self.next_block(),
            None => Ok(()),
        }
    }

    /// Returns the first row of the loaded block that is the newest version of its key. The last
    /// row of the previous block may be a newer version of row 0's key. `None` if it cannot be known,
    /// because the index cannot be read.
    fn first_row_of_batch(&self, block: &Block) -> Option<usize> {
        let Some(before) = self.block_at.checked_sub(1) else { return Some(0) };
        let mut first = KeyBuf::default();
        block.load(0, &mut first);
        self.table.continues(before, first.key()).ok().map(usize::from)
    }

    #[cold]
    #[inline(never)]
    fn next_block(&mut self) -> Result<()> {
        if self.block_at + 1 >= self.count() {
            self.valid = false;
            return Ok(());
        }
        self.hold(self.block_at + 1)?;
        self.move_to(0);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn previous_block(&mut self) -> Result<()> {
        if self.block_at == 0 {
            self.valid = false;
            return Ok(());
        }
        self.hold(self.block_at - 1)?;
        self.move_to(self.rows - 1);
        Ok(())
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.valid = false;
        // The announced seek may never have come, because another cursor failed first.
        self.partial_find = None;
        if self.count() > 0 {
            self.hold(0)?;
            self.move_to(0);
        }
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.valid = false;
        self.partial_find = None;
        if let Some(last) = self.count().checked_sub(1) {
            self.hold(last)?;
            self.move_to(self.rows - 1);
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let known_block =
            self.partial_find.take().map(|partial| self.table.finish_find(key, partial));
        self.seek_in(key, seqno, known_block)
    }

    fn seek_deferred(&mut self, key: &[u8], seqno: SeqNo, deepest: bool) -> Result<bool> {
        if self.table.partitions.is_some() {
            self.seek_in(key, seqno, None)?;
            return Ok(false);
        }
        let partial = self.partial_find.take().unwrap_or_else(|| self.table.begin_find(key));
        let block_at = self.table.finish_find(key, partial);
        self.valid = self.table.bound(block_at, key, &mut self.key);
        if self.valid {
            self.deferred_block = block_at;
            return Ok(true);
        }
        self.seek_in(key, seqno, Some(block_at))?;
        if self.fill_cache
            && !deepest
            && let Some(block) = &self.block
        {
            self.table.add_sketch(self.block_at, block);
        }
        Ok(false)
    }

    fn materialize(&mut self, key: &[u8], seqno: SeqNo) -> Result<bool> {
        self.seek_in(key, seqno, Some(self.deferred_block))?;
        Ok(false)
    }

    fn prefetch_seek(&mut self, key: &[u8], step: PrefetchStep, deepest: bool) {
        if self.table.partitions.is_some() {
            return;
        }
        let partial = match (step, self.partial_find) {
            (PrefetchStep::Block, Some(partial)) => partial,
            _ => self.table.begin_find(key),
        };
        self.partial_find = Some(partial);
        if step == PrefetchStep::Block {
            let block_at = self.table.finish_find(key, partial);
            if !self.table.prefetch_sketch(block_at) || deepest {
                self.table.prefetch(block_at);
            }
            self.partial_find = Some(PartialFind::At(block_at));
        }
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.partial_find = None;
        match self.approach(key, seqno, None)? {
            Some(0) => self.previous_block(),
            Some(row) => {
                self.move_to(row - 1);
                Ok(())
            }
            None => self.seek_to_last(),
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        let next = self.at + 1;
        if next < self.rows
            && let Some(block) = &self.block
        {
            self.row = block.step_forward(next, &mut self.key);
            self.at = next;
            return Ok(());
        }
        self.next_block()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        if let Some(previous) = self.at.checked_sub(1)
            && let Some(block) = &self.block
        {
            self.row = block.step_back(previous, &mut self.key);
            self.at = previous;
            return Ok(());
        }
        self.previous_block()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.key.key()
    }

    #[inline]
    fn seqno(&self) -> SeqNo {
        self.row.seqno()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.row.kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match &self.block {
            Some(block) => block.value(self.row),
            None => &[],
        }
    }

    fn release(&mut self) {
        self.valid = false;
        self.block = None;
        self.rows = 0;
        self.partial_find = None;
        self.ahead = ReadAhead::default();
        self.partition = HeldPartition::default();
        self.key.release();
    }

    fn row_batch(&self, snapshot: SeqNo, forward: bool) -> Option<RowBatch> {
        let block = self.block.as_ref().filter(|block| block.is_plain(snapshot))?;
        // A batch of one row saves nothing.
        let (first, end) = match (forward, self.at) {
            (true, at) if at + 1 < self.rows => (at, self.rows),
            (false, at) if at > 0 => (self.first_row_of_batch(block)?, at + 1),
            _ => return None,
        };
        let at = self.block_at;
        // The consumer of the batch will soon need the next block.
        let next = if forward { at + 1 } else { at.wrapping_sub(1) };
        self.table.prefetch(next);
        let ahead = self.table.memory_address(next);
        Some(RowBatch { rows: Box::new(block.clone()), at: self.at, first, end, ahead })
    }

    fn move_to_row(&mut self, row: usize) {
        self.move_to(row);
    }
}
