//! The cursor: how every sorted source of entries (memtable, table, merge) is walked.
//!
//! After an error the cursor is not valid; an end is never mistaken for an error, because every
//! move returns a `Result`.

use super::key::{Kind, SeqNo};
use super::rows::Stretch;
use crate::error::Result;

/// How far a cursor goes that is told of a seek: cursors that seek together take each step together,
/// so that none waits alone for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foresee {
    /// Up to where it would wait for the index.
    Index,
    /// From there up to where it would wait for a block.
    Block,
}

/// A position in a sorted source of entries, in internal order (key ascending, seqno descending).
pub trait Cursor {
    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_to_last(&mut self) -> Result<()>;
    /// Moves to the first entry at or after `(key, seqno)` in internal order: an entry of `key`
    /// with a sequence number `<= seqno`, or the first entry of the next key.
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()>;
    /// The same, except that the cursor may be *late*, and then says so: it has not moved, but its
    /// [`Cursor::key`] is a bound, above `key` and not above that of the entry it will stand on, if
    /// there is one. Until it moves it answers nothing else, but that it is valid.
    ///
    /// The `deepest` of the cursors that seek together has the oldest entries, often the most, and so
    /// likely the first.
    fn seek_late(&mut self, key: &[u8], seqno: SeqNo, _deepest: bool) -> Result<bool> {
        self.seek(key, seqno)?;
        Ok(false)
    }
    /// Goes on with the seek that left it late, to the same place. If it is late still, its bound is
    /// not lower.
    fn catch_up(&mut self, _key: &[u8], _seqno: SeqNo) -> Result<bool> {
        Ok(false)
    }
    /// Announces that [`Cursor::seek`] or [`Cursor::seek_late`] to `key` comes next, for whoever can
    /// have memory fetched meanwhile. Where the cursor stands is not known until then.
    fn foresee(&mut self, _key: &[u8], _step: Foresee, _deepest: bool) {}
    /// Moves to the last entry strictly before `(key, seqno)` in internal order.
    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()>;
    /// Moves to the next entry. Must be valid.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry. Must be valid.
    fn prev(&mut self) -> Result<()>;
    /// The user key. Must be valid; lives until the cursor moves.
    fn key(&self) -> &[u8];
    /// The sequence number. Must be valid.
    fn seqno(&self) -> SeqNo;
    /// What the entry does. Must be valid. Never [`Kind::RangeDelete`].
    fn kind(&self) -> Kind;
    /// The sequence number and what the entry does, in one call. Must be valid.
    fn version(&self) -> (SeqNo, Kind) {
        (self.seqno(), self.kind())
    }
    /// The value; empty for a tombstone. Must be valid.
    fn value(&self) -> &[u8];
    /// The rows from here on, `forward` or back, that a reader at `snapshot` may walk by itself
    /// ([`super::rows`]); `None` where there are none. Must be valid, and have moved that way last.
    /// Going forward, the row stood on is one of them even if it is not known to be the newest
    /// version of its key.
    fn stretch(&self, _snapshot: SeqNo, _forward: bool) -> Option<Stretch> {
        None
    }
    /// Lets go of what it holds of where it stands. It stands nowhere until the next seek.
    fn rest(&mut self);
    /// Moves to `row` of the stretch given last, since which the cursor was not moved.
    fn jump(&mut self, _row: usize) {}
}
