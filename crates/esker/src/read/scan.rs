//! Many keys in order: an iterator over a view at a sequence number, within bounds, both ways.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::View;
use super::spare::Lent;
use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::error::{Error, Result};
use crate::iter::hints::Hints;
use crate::iter::same_key;
use crate::iter::visible::DeadRun;
use crate::tree::tables::Tables;

/// So many entries stepped over in one move are told to who plans merges.
const STEPS_NOTED: u64 = 64;

/// Bounds of a scan, in the store's order.
pub type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An iterator over the store as it was when it was made.
///
/// It can be walked like a cursor ([`seek`](DbIterator::seek), [`advance`](DbIterator::advance),
/// [`key`](DbIterator::key), [`value`](DbIterator::value) lend what they stand on) or as a Rust
/// iterator of owned pairs. An error is returned by the move that met it, never shown as an end.
/// It pins memtables and files while it lives: drop long scans when done.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
/// db.put("a", "1")?;
/// db.put("b", "2")?;
/// let mut iter = db.iter()?;
/// iter.seek("b")?;
/// assert!(iter.valid() && iter.key() == b"b" && iter.value() == b"2");
/// let all: Vec<_> = db.iter()?.collect::<Result<_, _>>()?;
/// assert_eq!(all.len(), 2);
/// # Ok(())
/// # }
/// ```
pub struct DbIterator {
    cursor: Lent,
    bounds: KeyBounds,
    bounded: bool,
    inside: bool,
    placed: bool,
    failed: Option<Error>,
}

impl DbIterator {
    /// An iterator over `view` at `seqno` within `bounds`, not yet positioned.
    pub fn new(
        view: Arc<View>,
        tables: &Arc<Tables>,
        seqno: SeqNo,
        bounds: KeyBounds,
        fill_cache: bool,
    ) -> Result<DbIterator> {
        let deletes = view.range_deletes(tables)?;
        Ok(DbIterator {
            cursor: Lent::new(view, tables, (seqno, deletes), fill_cache)?,
            bounded: !matches!(bounds, (Bound::Unbounded, Bound::Unbounded)),
            bounds,
            inside: false,
            placed: false,
            failed: None,
        })
    }

    /// From now on it leaves out what `hints` up to the number `as_of` say is not visible
    /// ([`crate::iter::hints`]).
    pub fn take_hints(&mut self, hints: Arc<Hints>, as_of: SeqNo) {
        self.cursor.take_detours(hints, as_of, u64::MAX);
    }

    /// The stretch around `key` without visible keys; see
    /// [`VisibleCursor::dead_run`](crate::iter::visible::VisibleCursor::dead_run).
    pub fn dead_run(
        mut self,
        key: &[u8],
        hints: Arc<Hints>,
        patience: u64,
    ) -> Result<Option<DeadRun>> {
        self.cursor.take_detours(hints, SeqNo::MAX, patience);
        self.cursor.dead_run(key)
    }

    /// Moves to the first key within the bounds.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.begin();
        match &self.bounds.0 {
            Bound::Unbounded => self.cursor.seek_to_first()?,
            Bound::Included(key) => self.cursor.seek(key)?,
            Bound::Excluded(key) => {
                self.cursor.seek(key)?;
                if self.cursor.valid() && same_key(self.cursor.order(), self.cursor.key(), key) {
                    self.cursor.next()?;
                }
            }
        }
        self.settle();
        Ok(())
    }

    /// Moves to the last key within the bounds.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.begin();
        match &self.bounds.1 {
            Bound::Unbounded => self.cursor.seek_to_last()?,
            Bound::Included(key) => self.cursor.seek_for_prev(key)?,
            Bound::Excluded(key) => {
                self.cursor.seek_for_prev(key)?;
                if self.cursor.valid() && same_key(self.cursor.order(), self.cursor.key(), key) {
                    self.cursor.prev()?;
                }
            }
        }
        self.settle();
        Ok(())
    }

    /// Moves to the first key at or after `key` (and within the bounds).
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.bounded && !self.is_after_lower(key) {
            return self.seek_to_first();
        }
        self.begin();
        self.note_seek(key);
        self.cursor.seek(key)?;
        self.settle();
        Ok(())
    }

    /// Moves to the last key at or before `key` (and within the bounds).
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.bounded && !self.is_before_upper(key) {
            return self.seek_to_last();
        }
        self.begin();
        self.note_seek(key);
        self.cursor.seek_for_prev(key)?;
        self.settle();
        Ok(())
    }

    /// Moves to the next key. Does nothing when not [`valid`](DbIterator::valid).
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        if !self.inside {
            return Ok(());
        }
        self.inside = false;
        self.cursor.next()?;
        self.note_way();
        self.inside =
            self.cursor.valid() && (!self.bounded || self.is_before_upper(self.cursor.key()));
        Ok(())
    }

    /// Moves to the previous key. Does nothing when not [`valid`](DbIterator::valid).
    #[inline]
    pub fn retreat(&mut self) -> Result<()> {
        if !self.inside {
            return Ok(());
        }
        self.inside = false;
        self.cursor.prev()?;
        self.note_way();
        self.inside =
            self.cursor.valid() && (!self.bounded || self.is_after_lower(self.cursor.key()));
        Ok(())
    }

    /// Shows the pair it stands on and every one after it, in order, to `see`, until that breaks or
    /// the keys within the bounds are all shown; from the first on, if it was never placed. The
    /// cheapest way over many pairs: whole stretches of a block are shown without a question to the
    /// levels above it. Stands on the pair at which `see` broke, and nowhere
    /// ([`valid`](DbIterator::valid) is false) after the last one, after an error, and after a panic
    /// of `see`. An error of a move is returned when the pairs before it were shown.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    ///
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// for key in ["a", "b", "c"] {
    ///     db.put(key, "12")?;
    /// }
    /// let mut iter = db.iter()?;
    /// iter.seek("b")?;
    /// let mut value_bytes = 0;
    /// iter.for_each_forward(|_key, value| {
    ///     value_bytes += value.len();
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(value_bytes, 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_each_forward(
        &mut self,
        see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.show(true, see)
    }

    /// The same with the pair it stands on and every one before it, from there to the first within the
    /// bounds; from the last on, if it was never placed.
    pub fn for_each_backward(
        &mut self,
        see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.show(false, see)
    }

    fn show(
        &mut self,
        forward: bool,
        mut see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        match (self.placed, forward) {
            (true, _) => {}
            (false, true) => self.seek_to_first()?,
            (false, false) => self.seek_to_last()?,
        }
        let end = if forward { self.bounds.1.clone() } else { self.bounds.0.clone() };
        let order = self.cursor.order().clone();
        while self.inside {
            let mut past = false;
            // Should `see` panic, the iterator stands nowhere.
            self.inside = false;
            let more = self.cursor.show(forward, &mut |key, value| {
                past = !is_within(&order, key, &end, forward);
                !past && see(key, value).is_continue()
            });
            self.inside = !past;
            if !more {
                return Ok(());
            }
            if forward { self.advance()? } else { self.retreat()? }
        }
        Ok(())
    }

    /// Whether the iterator stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.inside
    }

    /// The key it stands on; empty when not [`valid`](DbIterator::valid).
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.inside { self.cursor.key() } else { &[] }
    }

    /// The value of that key; empty when not [`valid`](DbIterator::valid).
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.inside { self.cursor.value() } else { &[] }
    }

    /// The same pairs from the last to the first, as a Rust iterator.
    pub fn into_reverse(self) -> ReverseIterator {
        ReverseIterator(DbIterator { placed: false, ..self })
    }

    /// Notes a long way over entries that are not shown: a merge would remove most of them.
    #[inline]
    fn note_way(&mut self) {
        let steps = self.cursor.take_stepped_over();
        if steps >= STEPS_NOTED {
            let (tables, version) = (self.cursor.tables(), &self.cursor.view().version);
            tables.note_steps(version, self.cursor.key_or_empty(), steps);
        }
    }

    /// Notes a seek: often sought in several places, a key range is worth a merge or a flush.
    #[inline]
    fn note_seek(&self, key: &[u8]) {
        let (tables, view) = (self.cursor.tables(), self.cursor.view());
        if let Some(seeks) = tables.note_seek(&view.version, key)
            && view.active.note_seeks(seeks)
        {
            tables.wake();
        }
    }

    fn begin(&mut self) {
        self.placed = true;
        self.inside = false;
    }

    fn settle(&mut self) {
        self.note_way();
        self.inside = self.cursor.valid()
            && (!self.bounded
                || (self.is_before_upper(self.cursor.key())
                    && self.is_after_lower(self.cursor.key())));
    }

    fn is_before_upper(&self, key: &[u8]) -> bool {
        is_within(self.cursor.order(), key, &self.bounds.1, true)
    }

    fn is_after_lower(&self, key: &[u8]) -> bool {
        is_within(self.cursor.order(), key, &self.bounds.0, false)
    }

    /// One step of a Rust iterator: an earlier failure, or the pair here and a move.
    fn step(
        &mut self,
        first: fn(&mut DbIterator) -> Result<()>,
        onward: fn(&mut DbIterator) -> Result<()>,
    ) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        if !self.placed
            && let Err(error) = first(self)
        {
            return Some(Err(error));
        }
        if !self.inside {
            return None;
        }
        let pair = (self.key().to_vec(), self.value().to_vec());
        self.failed = onward(self).err();
        Some(Ok(pair))
    }
}

impl Iterator for DbIterator {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(DbIterator::seek_to_first, DbIterator::advance)
    }
}

/// A [`DbIterator`] walked from its last key to its first.
pub struct ReverseIterator(DbIterator);

impl Iterator for ReverseIterator {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(DbIterator::seek_to_last, DbIterator::retreat)
    }
}

/// Whether a way that goes `forward`, or back, has not passed `end` at `key`.
#[inline]
fn is_within(order: &KeyOrder, key: &[u8], end: &Bound<Vec<u8>>, forward: bool) -> bool {
    let (end, here) = match end {
        Bound::Unbounded => return true,
        Bound::Included(end) => (end, true),
        Bound::Excluded(end) => (end, false),
    };
    match order.compare(key, end) {
        Ordering::Equal => here,
        less_or_greater => less_or_greater.is_lt() == forward,
    }
}

/// The bounds of every key that starts with `prefix`; `None` when the order does not keep such
/// keys together.
pub fn prefix_bounds(order: &KeyOrder, prefix: &[u8]) -> Option<KeyBounds> {
    let mut after = prefix.to_vec();
    while after.last() == Some(&0xff) {
        after.pop();
    }
    if let Some(last) = after.last_mut() {
        *last += 1;
    }
    let after = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(after) };
    match order {
        KeyOrder::Bytewise => Some((Bound::Included(prefix.to_vec()), after)),
        KeyOrder::Reverse => Some((after, Bound::Included(prefix.to_vec()))),
        KeyOrder::Custom(_) => None,
    }
}
