//! Walks a table's entries, both ways.
//!
//! What stays true: a valid cursor stands on row `at` of the block it holds, with that row's key put
//! together and its value found, or it is late and its key a bound; after an end or an error it is not
//! valid. It keeps its block whatever the cache does.

use std::sync::Arc;

use crate::base::cursor::{Cursor, Foresee};
use crate::base::key::{Kind, SeqNo};
use crate::base::rows::{KeyBuf, Row, Rows, Stretch};
use crate::error::Result;

use super::block::Block;
use super::index::Begun;
use super::reader::Table;

/// What a walk reads at once after its first blocks that were not in the cache.
const AHEAD_BYTES_MIN: usize = 16 << 10;
/// What it reads at once in the end.
const AHEAD_BYTES_MAX: usize = 256 << 10;
/// Beside a block of no more rows the next on the way is asked for at once, for whoever walks on. Where
/// there are more, few come to the next.
const FEW_ROWS: usize = 16;

/// A cursor over one table. It may move to another thread; it holds one block.
pub struct TableCursor {
    table: Arc<Table>,
    fill_cache: bool,
    block: Option<Block>,
    /// Which block that is.
    block_at: usize,
    /// Its rows; 0 without a block.
    rows: usize,
    at: usize,
    row: Row,
    key: KeyBuf,
    valid: bool,
    ahead: Ahead,
    /// In which block the seek that was announced will look.
    foreseen: Option<Begun>,
    /// In which block the seek that is late will look.
    late: usize,
}

/// Bytes of the file read beyond what was asked, while a walk goes forward.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    start: u64,
    /// What to read next time; 0 while the walk is not known to be one.
    window: usize,
}

impl Ahead {
    /// The bytes of the file in `[start, end)`, if they are here.
    fn get(&self, start: u64, end: u64) -> Option<&[u8]> {
        let from = usize::try_from(start.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from + (end - start) as usize)
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
            ahead: Ahead::default(),
            foreseen: None,
            late: 0,
        }
    }

    fn count(&self) -> usize {
        self.table.meta.index.count()
    }

    /// Holds block `block_at`; the cursor is not valid until it stands on a row.
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
        if !walking {
            self.ahead.window = 0;
            return table.fetch(block_at, self.fill_cache);
        }
        let (start, end) = table.meta.index.place(block_at);
        if self.ahead.get(start, end).is_none() {
            let ahead = &mut self.ahead;
            ahead.window = (ahead.window * 2).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
            let wanted = (end - start) as usize;
            let left = (table.meta.index.data_bytes() - start) as usize;
            if wanted * 2 > ahead.window {
                return table.fetch(block_at, self.fill_cache);
            }
            // Nothing of what is here counts as read if reading fails.
            let mut bytes = std::mem::take(&mut ahead.bytes);
            bytes.resize(left.min(ahead.window), 0);
            table.read_into(&mut bytes, start)?;
            ahead.bytes = bytes;
            ahead.start = start;
        }
        let sealed = self.ahead.get(start, end).unwrap_or(&[]);
        let keep = self.fill_cache && table.is_wanted(block_at);
        Ok(table.keep(block_at, table.open_block(block_at, sealed, keep)?, keep))
    }

    /// Stands on row `at` of the block held.
    #[inline]
    fn stand(&mut self, at: usize) {
        if let Some(block) = &self.block {
            self.row = block.load(at, &mut self.key);
            self.at = at;
            self.valid = true;
        }
    }

    /// Holds the block in which `(key, seqno)` would be and returns the first row there that is not
    /// before it; the row may be past the end of the block. `None` past the last block.
    /// `foreseen` is where the first is, if that is known.
    fn approach(
        &mut self,
        key: &[u8],
        seqno: SeqNo,
        foreseen: Option<usize>,
    ) -> Result<Option<usize>> {
        self.valid = false;
        let mut block_at = foreseen.unwrap_or_else(|| self.table.find_block(key));
        debug_assert_eq!(block_at, self.table.find_block(key), "another seek was announced");
        while block_at < self.count() {
            self.hold(block_at)?;
            let Some(block) = &self.block else { break };
            let row = block.lower_bound(self.table.order(), key, seqno, &mut self.key);
            if row < self.rows || !self.table.meta.index.continues(block_at, key) {
                return Ok(Some(row));
            }
            block_at += 1;
        }
        Ok(None)
    }

    /// Seeks, in the block `foreseen` first if that is known.
    fn seek_in(&mut self, key: &[u8], seqno: SeqNo, foreseen: Option<usize>) -> Result<()> {
        match self.approach(key, seqno, foreseen)? {
            Some(row) if row < self.rows => {
                self.stand(row);
                Ok(())
            }
            Some(_) => self.next_block(),
            None => Ok(()),
        }
    }

    /// The first row of the block held that is the newest version of its key: a newer one of the
    /// first row's may be the last row of the block before.
    fn first_of_stretch(&self, block: &Block) -> usize {
        let Some(before) = self.block_at.checked_sub(1) else { return 0 };
        let mut first = KeyBuf::default();
        block.load(0, &mut first);
        usize::from(self.table.meta.index.continues(before, first.key()))
    }

    #[cold]
    #[inline(never)]
    fn next_block(&mut self) -> Result<()> {
        if self.block_at + 1 >= self.count() {
            self.valid = false;
            return Ok(());
        }
        self.hold(self.block_at + 1)?;
        self.stand(0);
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
        self.stand(self.rows - 1);
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
        // A seek that was announced may have failed elsewhere before it came here.
        self.foreseen = None;
        if self.count() > 0 {
            self.hold(0)?;
            self.stand(0);
        }
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.valid = false;
        self.foreseen = None;
        if let Some(last) = self.count().checked_sub(1) {
            self.hold(last)?;
            self.stand(self.rows - 1);
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let foreseen = self.foreseen.take().map(|begun| self.table.finish_find(key, begun));
        self.seek_in(key, seqno, foreseen)
    }

    fn seek_late(&mut self, key: &[u8], seqno: SeqNo, deepest: bool) -> Result<bool> {
        let begun = self.foreseen.take().unwrap_or_else(|| self.table.begin_find(key));
        let block_at = self.table.finish_find(key, begun);
        self.valid = self.table.bound(block_at, key, &mut self.key);
        if self.valid {
            self.late = block_at;
            return Ok(true);
        }
        self.seek_in(key, seqno, Some(block_at))?;
        if self.fill_cache
            && !deepest
            && let Some(block) = &self.block
        {
            self.table.outline(self.block_at, block);
        }
        Ok(false)
    }

    fn catch_up(&mut self, key: &[u8], seqno: SeqNo) -> Result<bool> {
        self.seek_in(key, seqno, Some(self.late))?;
        Ok(false)
    }

    fn foresee(&mut self, key: &[u8], step: Foresee, deepest: bool) {
        let begun = match (step, self.foreseen) {
            (Foresee::Block, Some(begun)) => begun,
            _ => self.table.begin_find(key),
        };
        self.foreseen = Some(begun);
        if step == Foresee::Block {
            let block_at = self.table.finish_find(key, begun);
            if !self.table.prefetch_outline(block_at) || deepest {
                self.table.prefetch(block_at);
            }
            self.foreseen = Some(Begun::At(block_at));
        }
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.foreseen = None;
        match self.approach(key, seqno, None)? {
            Some(0) => self.previous_block(),
            Some(row) => {
                self.stand(row - 1);
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

    fn rest(&mut self) {
        self.valid = false;
        self.block = None;
        self.rows = 0;
        self.foreseen = None;
        self.ahead = Ahead::default();
        self.key.rest();
    }

    fn stretch(&self, snapshot: SeqNo, forward: bool) -> Option<Stretch> {
        let block = self.block.as_ref().filter(|block| block.is_plain(snapshot))?;
        // Of one row nobody has any use.
        let (first, end) = match (forward, self.at) {
            (true, at) if at + 1 < self.rows => (at, self.rows),
            (false, at) if at > 0 => (self.first_of_stretch(block), at + 1),
            _ => return None,
        };
        let at = self.block_at;
        // Whoever takes it will want the block behind it soon.
        let next = if forward { at + 1 } else { at.wrapping_sub(1) };
        self.table.prefetch(next);
        let ahead = self.table.memory_address(next);
        Some(Stretch { rows: Box::new(block.clone()), at: self.at, first, end, ahead })
    }

    fn jump(&mut self, row: usize) {
        self.stand(row);
    }
}
