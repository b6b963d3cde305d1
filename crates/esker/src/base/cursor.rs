//! The cursor: the common interface of all sorted sources of entries (memtable, table, merge).
//!
//! After an error the cursor is not valid. Every move returns a `Result`, so the end of the entries
//! cannot be mistaken for an error.

use super::key::{Kind, SeqNo};
use super::rows::RowBatch;
use crate::error::Result;

/// A step of the prefetch before a seek. Cursors that seek together take each step together, so
/// that their waits for memory overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchStep {
    /// Prefetches up to the wait for the index.
    Index,
    /// Continues from there up to the wait for a block.
    Block,
}

/// A position in a sorted source of entries, in internal order (key ascending, sequence number
/// descending).
pub trait Cursor {
    /// Returns whether the cursor is on an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_to_last(&mut self) -> Result<()>;
    /// Moves to the first entry at or after `(key, seqno)` in internal order: an entry of `key`
    /// with a sequence number `<= seqno`, or the first entry of the next key.
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()>;
    /// Seeks as [`Cursor::seek`] does, or defers the seek. Returns `true` if the seek is deferred.
    /// A deferred cursor has not moved. Its [`Cursor::key`] is a lower bound: above `key`, and not
    /// above the key of the target entry, if that entry exists. Until the next move only `valid`
    /// (which is true) and `key` may be called.
    ///
    /// `deepest` marks the cursor with the oldest entries among the cursors that seek together.
    /// That cursor often has the most entries, and so likely the first entry of the result.
    fn seek_deferred(&mut self, key: &[u8], seqno: SeqNo, _deepest: bool) -> Result<bool> {
        self.seek(key, seqno)?;
        Ok(false)
    }
    /// Materializes a deferred seek to the same `(key, seqno)`. Returns `true` if the seek is still
    /// deferred. The bound is then not lower than before.
    fn materialize(&mut self, _key: &[u8], _seqno: SeqNo) -> Result<bool> {
        Ok(false)
    }
    /// Prefetches memory for a [`Cursor::seek`] or [`Cursor::seek_deferred`] to `key`, which must
    /// be the next move. The position of the cursor is undefined until then.
    fn prefetch_seek(&mut self, _key: &[u8], _step: PrefetchStep, _deepest: bool) {}
    /// Moves to the last entry strictly before `(key, seqno)` in internal order.
    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()>;
    /// Moves to the next entry. Must be valid.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry. Must be valid.
    fn prev(&mut self) -> Result<()>;
    /// Returns the user key, which lives until the cursor moves. Must be valid.
    fn key(&self) -> &[u8];
    /// Returns the sequence number. Must be valid.
    fn seqno(&self) -> SeqNo;
    /// Returns the kind of the entry, never [`Kind::RangeDelete`]. Must be valid.
    fn kind(&self) -> Kind;
    /// Returns the sequence number and the kind in one call. Must be valid.
    fn version(&self) -> (SeqNo, Kind) {
        (self.seqno(), self.kind())
    }
    /// Returns the value, which is empty for a tombstone. Must be valid.
    fn value(&self) -> &[u8];
    /// Returns the row batch at the current position, in direction `forward` or backward, that a
    /// reader at `snapshot` may iterate without the cursor ([`super::rows`]). Returns `None` if no
    /// batch is available. Must be valid, and the last move must have been in the same direction.
    /// Going forward, the batch includes the current row even if that row is not known to be the
    /// newest version of its key.
    fn row_batch(&self, _snapshot: SeqNo, _forward: bool) -> Option<RowBatch> {
        None
    }
    /// Releases the blocks and buffers of the current position. The cursor has no position until
    /// the next seek.
    fn release(&mut self);
    /// Moves to `row` of the row batch returned last. The cursor must not have moved since.
    fn move_to_row(&mut self, _row: usize) {}
}
