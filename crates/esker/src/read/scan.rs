//! Iterator over a read state at a sequence number, within bounds, in both directions.

mod empty_range;

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::ReadState;
use super::iter_pool::PooledIterGuard;
use crate::base::key::SeqNo;
use crate::base::keyspace::{KeyspaceId, PREFIX_BYTES, StoredKey, prefix};
use crate::base::order::KeyOrder;
use crate::error::{Error, Result};
use crate::iter::hints::Hints;
use crate::iter::operands::Resolver;
use crate::iter::same_key;
use crate::iter::tombstone_run::TombstoneRun;
use crate::tree::tables::Tables;

/// Minimum number of entries skipped by one move that is reported to the seek statistics.
const STEPS_NOTED: u64 = 64;

/// Bounds of a scan, in the store's order.
pub type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An iterator over the store's state at the time of the iterator's creation.
///
/// It can be used as a cursor or as a Rust iterator of owned pairs, from either end. After a move
/// of the cursor, [`Iterator::next`] returns the pairs from the cursor to the end of the bounds.
/// Reading from the back then begins at the end of the bounds and stops at the cursor. The cursor
/// methods are [`seek`](DbIterator::seek) and [`move_next`](DbIterator::move_next), and
/// [`key`](DbIterator::key) and [`value`](DbIterator::value), which borrow the current pair. A move
/// returns the error that it meets, so an error never looks like the end of the data. The iterator
/// pins memtables and files while it lives. Drop long scans when they are done.
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
    cursor: PooledIterGuard,
    bounds: KeyBounds,
    bounded: bool,
    inside: bool,
    placed: bool,
    failed: Option<Error>,
    /// End from which [`Iterator::next`] or `next_back` first read.
    end: End,
    /// Reads from the other end, once both are in use.
    other: Option<Box<DbIterator>>,
    /// The keyspace, unless it is the default one. Its keys are stored with a prefix.
    keyspace: Option<KeyspaceId>,
    /// Number up to which the read state holds everything, if the iterator reports empty ranges.
    complete_at: Option<SeqNo>,
}

impl DbIterator {
    /// Creates an unpositioned iterator over `read_state` at `seqno` within `bounds`.
    pub(crate) fn new(
        read_state: Arc<ReadState>,
        tables: &Arc<Tables>,
        (seqno, resolver): (SeqNo, Resolver),
        bounds: KeyBounds,
        fill_cache: bool,
    ) -> Result<DbIterator> {
        let deletes = read_state.range_deletes(tables)?;
        Ok(DbIterator {
            cursor: PooledIterGuard::new(
                read_state,
                tables,
                (seqno, resolver, deletes),
                fill_cache,
            )?,
            bounded: !matches!(bounds, (Bound::Unbounded, Bound::Unbounded)),
            bounds,
            inside: false,
            placed: false,
            failed: None,
            end: End::Front,
            other: None,
            keyspace: None,
            complete_at: None,
        })
    }

    /// Limits the iterator to a keyspace, whose bounds it has. Keys are given and returned without
    /// their prefix.
    pub(crate) fn in_keyspace(mut self, id: KeyspaceId) -> DbIterator {
        self.keyspace = Some(id);
        self.cursor.limit_to(prefix(id));
        self
    }

    /// Returns the length of the prefix of stored keys, in bytes.
    #[inline]
    fn prefix_bytes(&self) -> usize {
        if self.keyspace.is_some() { PREFIX_BYTES } else { 0 }
    }

    /// Enables skipping with `hints` up to the number `as_of` ([`crate::iter::hints`]).
    pub(crate) fn set_hints(&mut self, hints: Arc<Hints>, as_of: SeqNo) {
        self.cursor.set_hints(hints, as_of, u64::MAX);
    }

    /// Returns the tombstone run around `key`; see
    /// [`VisibleCursor::tombstone_run`](crate::iter::visible::VisibleCursor::tombstone_run).
    pub(crate) fn tombstone_run(
        mut self,
        key: &[u8],
        hints: Arc<Hints>,
        lookups_max: u64,
    ) -> Result<Option<TombstoneRun>> {
        self.cursor.set_hints(hints, SeqNo::MAX, lookups_max);
        self.cursor.tombstone_run(key)
    }

    /// Moves to the first key within the bounds.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.begin();
        let placed = match &self.bounds.0 {
            Bound::Unbounded => self.cursor.seek_to_first(),
            Bound::Included(key) => self.cursor.seek(key),
            Bound::Excluded(key) => seek_past(&mut self.cursor, key, true),
        };
        self.end_seek(placed, None, true)
    }

    /// Moves to the last key within the bounds.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.begin();
        let placed = match &self.bounds.1 {
            Bound::Unbounded => self.cursor.seek_to_last(),
            Bound::Included(key) => self.cursor.seek_for_prev(key),
            Bound::Excluded(key) => seek_past(&mut self.cursor, key, false),
        };
        self.end_seek(placed, None, false)
    }

    /// Moves to the first key at or after `key` within the bounds.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        match self.keyspace {
            None => self.seek_stored(key.as_ref()),
            Some(id) => self.seek_stored(StoredKey::new(id, key.as_ref()).as_slice()),
        }
    }

    #[inline]
    fn seek_stored(&mut self, key: &[u8]) -> Result<()> {
        if self.bounded && !self.is_after_lower(key) {
            return self.seek_to_first();
        }
        self.begin();
        self.note_seek(key);
        let placed = self.cursor.seek(key);
        self.end_seek(placed, Some(key), true)
    }

    /// Moves to the last key at or before `key` within the bounds.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        match self.keyspace {
            None => self.seek_for_prev_stored(key.as_ref()),
            Some(id) => self.seek_for_prev_stored(StoredKey::new(id, key.as_ref()).as_slice()),
        }
    }

    fn seek_for_prev_stored(&mut self, key: &[u8]) -> Result<()> {
        if self.bounded && !self.is_before_upper(key) {
            return self.seek_to_last();
        }
        self.begin();
        self.note_seek(key);
        let placed = self.cursor.seek_for_prev(key);
        self.end_seek(placed, Some(key), false)
    }

    /// Moves to the next key. Does nothing when not [`valid`](DbIterator::valid).
    #[inline]
    pub fn move_next(&mut self) -> Result<()> {
        if !self.inside {
            return Ok(());
        }
        self.inside = false;
        if let Err(error) = self.cursor.next() {
            return self.refuse(error);
        }
        self.note_steps();
        self.inside =
            self.cursor.valid() && (!self.bounded || self.is_before_upper(self.cursor.key()));
        Ok(())
    }

    /// Moves to the previous key. Does nothing when not [`valid`](DbIterator::valid).
    #[inline]
    pub fn move_prev(&mut self) -> Result<()> {
        if !self.inside {
            return Ok(());
        }
        self.inside = false;
        if let Err(error) = self.cursor.prev() {
            return self.refuse(error);
        }
        self.note_steps();
        self.inside =
            self.cursor.valid() && (!self.bounded || self.is_after_lower(self.cursor.key()));
        Ok(())
    }

    /// Calls `visit` for the current pair and each following pair, in order, until `visit` breaks
    /// or the bounds end. Starts at the first pair if the iterator was never positioned.
    ///
    /// This is the cheapest way to read many pairs, because it reads whole row batches of a block
    /// without calls through the cursors above it.
    ///
    /// If `visit` breaks, the iterator is positioned on the pair of that call. It is unpositioned
    /// ([`valid`](DbIterator::valid) is false) after the last pair, after an error, and after a
    /// panic of `visit`. An error of a move is returned after the pairs before it have been passed
    /// to `visit`.
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
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.for_each_from(true, visit)
    }

    /// Calls `visit` for the current pair and each preceding pair, down to the first within the
    /// bounds. Starts at the last pair if the iterator was never positioned. Otherwise like
    /// [`for_each_forward`](DbIterator::for_each_forward).
    pub fn for_each_backward(
        &mut self,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.for_each_from(false, visit)
    }

    fn for_each_from(
        &mut self,
        forward: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
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
        let prefix_bytes = self.prefix_bytes();
        while self.inside {
            let mut past = false;
            // If `visit` panics, the iterator is unpositioned.
            self.inside = false;
            let more = self.cursor.for_each_row(forward, &mut |key, value| {
                past = !is_within(&order, key, &end, forward);
                !past && visit(without_prefix(key, prefix_bytes), value).is_continue()
            });
            self.inside = !past;
            if !more {
                return Ok(());
            }
            if forward { self.move_next()? } else { self.move_prev()? }
        }
        Ok(())
    }

    /// Returns whether the iterator is positioned on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.inside
    }

    /// Returns the current key, or an empty slice when not [`valid`](DbIterator::valid).
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.inside { without_prefix(self.cursor.key(), self.prefix_bytes()) } else { &[] }
    }

    /// Returns the current value, or an empty slice when not [`valid`](DbIterator::valid).
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.inside { self.cursor.value() } else { &[] }
    }

    /// Returns the time at which the current pair expires, in milliseconds since 1970. Returns
    /// `None` when the pair does not expire or the iterator is not [`valid`](DbIterator::valid). A
    /// pair that expires when the iterator exists stays visible to it.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// db.put_with_ttl("session", "Ada", std::time::Duration::from_secs(3600))?;
    /// let mut iter = db.iter()?;
    /// iter.seek_to_first()?;
    /// assert_eq!(iter.value(), b"Ada");
    /// assert!(iter.expires_ms().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn expires_ms(&self) -> Option<u64> {
        if self.inside { self.cursor.time_ms() } else { None }
    }

    /// Records a move over many invisible entries, most of which a compaction would remove.
    #[inline]
    fn note_steps(&mut self) {
        let steps = self.cursor.take_skipped_count();
        if steps >= STEPS_NOTED {
            let (tables, version) = (self.cursor.tables(), &self.cursor.read_state().version);
            tables.note_steps(version, self.cursor.key_or_empty(), steps);
        }
    }

    /// Records a seek. A key range with many seeks over several runs is worth a compaction, and a
    /// seek-heavy memtable is worth a flush.
    #[inline]
    fn note_seek(&self, key: &[u8]) {
        let (tables, read_state) = (self.cursor.tables(), self.cursor.read_state());
        if let Some(seeks) = tables.note_seek(&read_state.version, key)
            && read_state.active.note_seeks(seeks)
        {
            tables.wake();
        }
    }

    fn begin(&mut self) {
        self.placed = true;
        self.inside = false;
        self.end = End::Front;
        self.other = None;
    }

    /// Ends a seek with the outcome of the cursor's. It began at `key`, or without one at a bound.
    #[inline]
    fn end_seek(&mut self, placed: Result<()>, key: Option<&[u8]>, forward: bool) -> Result<()> {
        if let Err(error) = placed {
            return self.refuse(error);
        }
        if self.cursor.walk().dead >= empty_range::WALK_MIN {
            self.report_empty_range(key, forward);
        }
        self.check_bounds();
        Ok(())
    }

    /// Returns the error of a move, unless it is that of a key outside of the bounds.
    #[cold]
    fn refuse(&mut self, error: Error) -> Result<()> {
        self.inside = false;
        let is_outside = |key: &[u8]| !(self.is_before_upper(key) && self.is_after_lower(key));
        if self.cursor.is_on_failure() && is_outside(self.cursor.key()) {
            return Ok(());
        }
        Err(error)
    }

    fn check_bounds(&mut self) {
        self.note_steps();
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

    /// Returns the next pair of a Rust iterator from `end`.
    fn step(&mut self, end: End) -> Option<Result<Pair>> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        if !self.placed
            && let Err(error) = self.place(end)
        {
            return Some(Err(error));
        }
        if end == self.end {
            return self.step_until_met();
        }
        if self.other.is_none() {
            match self.at_other_end(end) {
                Ok(other) => self.other = Some(Box::new(other)),
                Err(error) => return Some(Err(error)),
            }
        }
        let mut other = self.other.take()?;
        let pair = other.step_until(self);
        self.other = Some(other);
        pair
    }

    /// Returns the next pair from this iterator's own end, unless the other end has returned it.
    fn step_until_met(&mut self) -> Option<Result<Pair>> {
        let Some(mut other) = self.other.take() else { return self.take_pair() };
        let pair = self.step_until(&mut other);
        self.other = Some(other);
        pair
    }

    /// Returns the current pair and moves on, if `other`, which comes from the other end, has not
    /// returned it. Each of the two stands on its next pair, so the pair on which both stand is the
    /// last one.
    fn step_until(&mut self, other: &mut DbIterator) -> Option<Result<Pair>> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        if !self.inside || !other.inside {
            return None;
        }
        let order = self.cursor.order().compare(self.cursor.key(), other.cursor.key());
        let (passed, last) = match self.end {
            End::Front => (order.is_gt(), order.is_eq()),
            End::Back => (order.is_lt(), order.is_eq()),
        };
        if passed {
            (self.inside, other.inside) = (false, false);
            return None;
        }
        let pair = self.take_pair();
        if last {
            (self.inside, other.inside) = (false, false);
        }
        pair
    }

    /// Returns the current pair, and moves away from this iterator's end.
    fn take_pair(&mut self) -> Option<Result<Pair>> {
        if !self.inside {
            return None;
        }
        let pair = (self.key().to_vec(), self.value().to_vec());
        let moved = match self.end {
            End::Front => self.move_next(),
            End::Back => self.move_prev(),
        };
        self.failed = moved.err();
        Some(Ok(pair))
    }

    fn place(&mut self, end: End) -> Result<()> {
        match end {
            End::Front => self.seek_to_first()?,
            End::Back => self.seek_to_last()?,
        }
        self.end = end;
        Ok(())
    }

    /// Returns an unpositioned iterator over the same read state within the same bounds.
    pub(crate) fn again(&self) -> Result<DbIterator> {
        Ok(DbIterator {
            cursor: self.cursor.again()?,
            bounds: self.bounds.clone(),
            bounded: self.bounded,
            inside: false,
            placed: false,
            failed: None,
            end: End::Front,
            other: None,
            keyspace: self.keyspace,
            complete_at: None,
        })
    }

    /// Returns an iterator over the same read state that begins at `end`.
    fn at_other_end(&self, end: End) -> Result<DbIterator> {
        let mut other = self.again()?;
        other.place(end)?;
        Ok(other)
    }
}

/// An owned key and value.
type Pair = (Vec<u8>, Vec<u8>);

/// An end of the pairs within the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl Iterator for DbIterator {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

/// Reads from the last key to the first, as [`Iterator::rev`] does. Reading from both ends of one
/// iterator returns each pair once.
impl DoubleEndedIterator for DbIterator {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
    }
}

/// Moves to the first key after `key`, or with `forward` false to the last key before it.
fn seek_past(cursor: &mut PooledIterGuard, key: &[u8], forward: bool) -> Result<()> {
    let outcome = if forward { cursor.seek(key) } else { cursor.seek_for_prev(key) };
    // A failure of the merge operator on the excluded key is no failure.
    let is_placed = outcome.is_ok() || cursor.is_on_failure();
    if is_placed && cursor.valid() && same_key(cursor.order(), cursor.key(), key) {
        return if forward { cursor.next() } else { cursor.prev() };
    }
    outcome
}

/// Returns whether `key` has not passed `end` in the given direction.
#[inline]
pub(crate) fn is_within(order: &KeyOrder, key: &[u8], end: &Bound<Vec<u8>>, forward: bool) -> bool {
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

/// Returns a stored key without its prefix. A key of a damaged table may be shorter than a prefix.
#[inline]
fn without_prefix(key: &[u8], prefix_bytes: usize) -> &[u8] {
    key.get(prefix_bytes..).unwrap_or_default()
}

/// Returns the bounds of all keys that start with `prefix`. Returns `None` when the order does not
/// keep such keys together.
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
