//! The iterator of a transaction.

use std::sync::Arc;

use super::merged::MergedCursor;
use super::state::Shared;
use super::target::Target;
use crate::base::expiry::Moment;
use crate::error::{Error, Result};
use crate::read::scan::KeyBounds;

/// An owned key and value.
type Pair = (Vec<u8>, Vec<u8>);

/// An iterator over the snapshot of a transaction with the transaction's own writes over it.
///
/// It can be used as a cursor or as a Rust iterator of owned pairs, from either end, as
/// [`DbIterator`](crate::DbIterator). The transaction may write while the iterator exists: the
/// iterator returns writes that were made ahead of it. After the end of the transaction every move
/// returns an error of kind `InvalidArgument`.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
/// db.put("a", "1")?;
/// db.put("c", "3")?;
/// let transaction = db.transaction(esker::TransactionOptions::default());
/// transaction.put("b", "2")?;
/// transaction.delete("c")?;
/// let keys: Vec<_> = transaction.iter()?.map(|pair| pair.map(|(key, _)| key)).collect();
/// assert_eq!(keys.into_iter().collect::<Result<Vec<_>, _>>()?, [b"a", b"b"]);
/// let mut iter = transaction.iter()?;
/// iter.seek_to_last()?;
/// assert!(iter.valid() && iter.key() == b"b" && iter.value() == b"2");
/// # Ok(())
/// # }
/// ```
pub struct TransactionIterator {
    cursor: MergedCursor,
    /// Whether the iterator was ever positioned.
    is_placed: bool,
    /// The direction of `next` or `next_back`, whichever came first. Cursor moves set it to
    /// forward.
    forward: bool,
    /// Reads from the other end, once both are in use.
    other: Option<Box<MergedCursor>>,
    failed: Option<Error>,
}

impl TransactionIterator {
    pub(super) fn new(
        shared: &Arc<Shared>,
        target: &Target<'_>,
        bounds: KeyBounds,
        at: (Moment, bool),
    ) -> Result<TransactionIterator> {
        let cursor = MergedCursor::new(shared, target, bounds, at)?;
        let (other, failed) = (None, None);
        Ok(TransactionIterator { cursor, is_placed: false, forward: true, other, failed })
    }

    /// Moves to the first key within the bounds.
    ///
    /// # Errors
    /// As [`DbIterator`](crate::DbIterator); `InvalidArgument` after the end of the transaction.
    /// The same for every other move.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.place(None, true)
    }

    /// Moves to the last key within the bounds.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.place(None, false)
    }

    /// Moves to the first key at or after `key` within the bounds.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.place(Some(key.as_ref()), true)
    }

    /// Moves to the last key at or before `key` within the bounds.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.place(Some(key.as_ref()), false)
    }

    fn place(&mut self, key: Option<&[u8]>, forward: bool) -> Result<()> {
        self.is_placed = true;
        self.forward = true;
        self.other = None;
        self.cursor.seek(key, forward)
    }

    /// Moves to the next key. Does nothing when not [`valid`](TransactionIterator::valid).
    pub fn move_next(&mut self) -> Result<()> {
        self.cursor.step(true)
    }

    /// Moves to the previous key. Does nothing when not [`valid`](TransactionIterator::valid).
    pub fn move_prev(&mut self) -> Result<()> {
        self.cursor.step(false)
    }

    /// Returns whether the iterator is positioned on a key.
    pub fn valid(&self) -> bool {
        self.cursor.valid()
    }

    /// Returns the current key, or an empty slice when not [`valid`](TransactionIterator::valid).
    pub fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    /// Returns the current value, or an empty slice when not [`valid`](TransactionIterator::valid).
    pub fn value(&self) -> &[u8] {
        self.cursor.value()
    }

    /// Returns the next pair of a Rust iterator, from the front or from the back.
    fn take_next(&mut self, forward: bool) -> Result<Option<Pair>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if !self.is_placed {
            self.place(None, forward)?;
            self.forward = forward;
        }
        if forward != self.forward && self.other.is_none() {
            let mut other = self.cursor.again()?;
            other.seek(None, forward)?;
            self.other = Some(Box::new(other));
        }
        let Some(other) = &mut self.other else {
            return Ok(take_pair(&mut self.cursor, forward, &mut self.failed));
        };
        let (mine, theirs) = match forward == self.forward {
            true => (&mut self.cursor, &mut **other),
            false => (&mut **other, &mut self.cursor),
        };
        if !mine.valid() || !theirs.valid() {
            return Ok(None);
        }
        // Each of the two stands on its next pair, so the pair on which both stand is the last one.
        let order = mine.compare(theirs);
        let (passed, is_last) = (order.is_ne() && order.is_gt() == forward, order.is_eq());
        let pair = if passed { None } else { take_pair(mine, forward, &mut self.failed) };
        if passed || is_last {
            mine.leave();
            theirs.leave();
        }
        Ok(pair)
    }
}

/// Returns the current pair of a cursor, and moves on. An error of the move goes to `failed`.
fn take_pair(cursor: &mut MergedCursor, forward: bool, failed: &mut Option<Error>) -> Option<Pair> {
    if !cursor.valid() {
        return None;
    }
    let pair = (cursor.key().to_vec(), cursor.value().to_vec());
    *failed = cursor.step(forward).err();
    Some(pair)
}

impl Iterator for TransactionIterator {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take_next(true).transpose()
    }
}

/// Reads from the last key to the first, as [`Iterator::rev`] does. Reading from both ends of one
/// iterator returns each pair once.
impl DoubleEndedIterator for TransactionIterator {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take_next(false).transpose()
    }
}

impl std::fmt::Debug for TransactionIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionIterator").field("valid", &self.valid()).finish_non_exhaustive()
    }
}
