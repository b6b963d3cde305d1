//! The pairs visible at one sequence number: collapses versions and tombstones to keys and values.
//!
//! Invariants while the cursor is valid:
//! 1. It is positioned on the newest version of its key at or below the snapshot. That version is a
//!    put that has not expired or a merge operand, and no range tombstone at or below the snapshot
//!    is newer.
//! 2. Going forward, the source is positioned on that version, and only the key is copied. Going
//!    backward, the version is copied, because the source had to move past it to find it, to the
//!    last version of the previous key. Of a merge operand the merged value is kept, in both
//!    directions ([`super::merged`]).
//! 3. Or the cursor reads a row batch ([`crate::base::rows`]) of visible rows, in either direction.
//!    The source keeps its position, and catches up before it moves.
//!
//! After many consecutive invisible keys, and at the first one after a seek, the cursor looks up the
//! reader's empty-range hints ([`super::hints`]) and seeks past the range. A reader without hints
//! never does this.

use std::sync::Arc;

use super::coverage::Coverage;
use super::hints::Hints;
use super::operands::{Operands, Resolver};
use super::skips::{SkipState, Walk};
use super::{ShortKey, copy_into, empty, same_key};
use crate::base::cursor::Cursor;
use crate::base::expiry;
use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeleteView;
use crate::base::rows::{KeyBuf, Row, RowBatch, Visitor};
use crate::base::thresholds::Thresholds;
use crate::error::Result;

/// Number of versions of one key to step over before seeking past the others.
const STEPS_MAX: u32 = 8;

/// The keys and values visible at a snapshot.
pub struct VisibleCursor<C: Cursor> {
    pub(super) source: C,
    pub(super) order: KeyOrder,
    pub(super) snapshot: SeqNo,
    pub(super) coverage: Coverage,
    pub(super) valid: bool,
    pub(super) forward: bool,
    /// Where the current pair is, outside of a row batch.
    pub(super) place: Place,
    /// Forward: sequence number of the current version.
    pub(super) seqno: SeqNo,
    /// Forward: key whose versions are being stepped over. `None` if `saved_key` holds it.
    pub(super) skipped_key: Option<ShortKey>,
    /// Current row batch. `None` while `valid` is false.
    batch: Option<BatchPos>,
    /// Key of the current row.
    batch_key: KeyBuf,
    /// Number of moves before the source is asked for the next row batch.
    walk_after: u32,
    /// Start value of `walk_after`.
    moves_without_batch: u32,
    /// Entries stepped over since the last [`Self::take_skipped_count`].
    pub(super) stepped_over: u64,
    /// Current key, if the pair is saved.
    pub(super) saved_key: Vec<u8>,
    /// Current value, if the pair is saved.
    pub(super) saved_value: Vec<u8>,
    /// Time at which the saved pair expires.
    pub(super) saved_time_ms: u64,
    /// Whether the merge operator failed on the saved key.
    pub(super) has_failed: bool,
    pub(super) resolver: Resolver,
    /// Buffer for the operands of a key.
    pub(super) operands: Operands,
    /// Invisible keys in a row before `skips` is used. [`u64::MAX`] without skip state.
    pub(super) lookup_at: u64,
    /// Start value of `lookup_at` with skip state, and invisible keys between two lookups.
    pub(super) tombstones_min: u64,
    pub(super) tombstones_step: u64,
    pub(super) skips: Option<Box<SkipState>>,
    pub(super) walk: Walk,
    /// Whether the source was placed by a seek, whose first key may be inside of a hint.
    is_seek: bool,
}

/// Where the current pair is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The source is on the current pair.
    Source,
    /// The source is on the current pair, whose stored value begins with its time of expiry.
    Expiring,
    /// The source is on it, and its value, which was read from a value file, is saved.
    Separated,
    /// The current pair is a copy. The source is elsewhere.
    Saved,
}

/// Position in a row batch.
struct BatchPos {
    batch: RowBatch,
    row: Row,
}

impl<C: Cursor> VisibleCursor<C> {
    /// Creates an unpositioned cursor over the pairs of `source` visible at `snapshot`.
    /// [`SEQNO_MAX`] includes every entry. `range_deletes` covers all of `source`.
    pub fn new(
        source: C,
        order: KeyOrder,
        snapshot: SeqNo,
        range_deletes: Option<Box<RangeDeleteView>>,
    ) -> VisibleCursor<C> {
        let thresholds = Thresholds::default();
        VisibleCursor {
            source,
            order,
            snapshot,
            coverage: Coverage::new(range_deletes),
            valid: false,
            forward: true,
            place: Place::Source,
            seqno: 0,
            skipped_key: None,
            batch: None,
            batch_key: KeyBuf::default(),
            walk_after: 0,
            moves_without_batch: thresholds.moves_without_batch,
            stepped_over: 0,
            saved_key: Vec::new(),
            saved_value: Vec::new(),
            saved_time_ms: expiry::NEVER_MS,
            has_failed: false,
            resolver: Resolver::default(),
            operands: Operands::default(),
            lookup_at: u64::MAX,
            tombstones_min: thresholds.tombstones_min,
            tombstones_step: thresholds.tombstones_step,
            skips: None,
            walk: Walk::default(),
            is_seek: false,
        }
    }

    /// Sets the cursor's thresholds.
    pub fn with_thresholds(mut self, thresholds: &Thresholds) -> VisibleCursor<C> {
        self.moves_without_batch = thresholds.moves_without_batch;
        self.tombstones_min = thresholds.tombstones_min;
        self.tombstones_step = thresholds.tombstones_step;
        self
    }

    /// Resets the cursor to the state after [`VisibleCursor::new`] with the same source.
    pub fn reset(&mut self, snapshot: SeqNo, range_deletes: Option<Box<RangeDeleteView>>) {
        self.begin();
        self.snapshot = snapshot;
        self.coverage = Coverage::new(range_deletes);
        self.forward = true;
        self.stepped_over = 0;
        self.lookup_at = u64::MAX;
        self.skips = None;
        self.resolver = Resolver::default();
    }

    /// Returns the sequence number at which the cursor reads.
    pub fn snapshot(&self) -> SeqNo {
        self.snapshot
    }

    /// Unpositions the cursor and releases its resources.
    pub fn release(&mut self) {
        self.reset(0, None);
        self.source.release();
        self.batch_key.release();
        empty(&mut self.saved_key);
        empty(&mut self.saved_value);
        self.operands.clear();
    }

    /// Enables `hints` with `since` up to `as_of`. A move ends after `lookups_max` lookups.
    pub fn set_hints(&mut self, hints: Arc<Hints>, as_of: SeqNo, lookups_max: u64) {
        let (lookups, stopped_at, skipped) = (0, None, 0);
        self.skips =
            Some(Box::new(SkipState { hints, as_of, lookups_max, lookups, stopped_at, skipped }));
        self.lookup_at = self.tombstones_min;
    }

    /// Returns whether the cursor is positioned on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the key. The cursor must be valid. The key lives until the cursor moves.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.batch {
            Some(_) => self.batch_key.key(),
            None if self.place == Place::Source => self.source.key(),
            None => self.special_key(),
        }
    }

    /// Returns whether the cursor reads a row batch.
    pub fn is_in_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// Returns the key, or an empty slice when not valid.
    pub fn key_or_empty(&self) -> &[u8] {
        if self.valid { self.key() } else { &[] }
    }

    /// Returns the value. The cursor must be valid. The value lives until the cursor moves.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.batch {
            Some(at) => at.batch.rows.value(at.row),
            None if self.place == Place::Source => self.source.value(),
            None => self.special_value(),
        }
    }

    /// Returns and resets the number of invisible entries that were stepped over one by one.
    #[inline]
    pub fn take_skipped_count(&mut self) -> u64 {
        std::mem::take(&mut self.stepped_over)
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.begin();
        self.source.seek_to_first()?;
        self.settle_forward(false)
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.begin();
        self.source.seek_to_last()?;
        self.settle_backward()
    }

    /// Moves to the first key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.begin();
        self.source.seek(key, self.snapshot)?;
        self.settle_forward(false)
    }

    /// Moves to the last key at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.begin();
        self.place_at_or_before(key)?;
        self.settle_backward()
    }

    /// Makes the cursor unpositioned.
    fn begin(&mut self) {
        self.valid = false;
        self.batch = None;
        self.place = Place::Source;
        self.walk_after = 0;
        self.walk = Walk::default();
        self.is_seek = true;
    }

    /// Places the source on the last version of `key`, or of the key before it.
    pub(super) fn place_at_or_before(&mut self, key: &[u8]) -> Result<()> {
        // The oldest version that the key can have, or the first entry after it.
        self.source.seek(key, 0)?;
        if !(self.source.valid() && same_key(&self.order, self.source.key(), key)) {
            self.source.seek_before(key, 0)?;
        }
        Ok(())
    }

    /// Passes the current pair and the following or preceding ones to `visit`, until `visit` stops
    /// or the source would have to move. Returns whether `visit` wants more. Ends on the last pair
    /// passed.
    pub fn for_each_row(&mut self, forward: bool, visit: Visitor<'_>) -> bool {
        let asks = self.walk_after == 0 && self.coverage.is_empty() && self.place == Place::Source;
        if asks && forward && self.forward && self.batch.is_none() {
            self.begin_batch();
        }
        match &mut self.batch {
            Some(BatchPos { batch, row }) if self.forward == forward => {
                let shown =
                    batch.rows.for_each_row(batch.remaining(forward), &mut self.batch_key, visit);
                (batch.at, *row) = (shown.at, shown.row);
                shown.more
            }
            _ => visit(self.key(), self.value()),
        }
    }

    /// Moves to the next key. Does nothing when not valid.
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if let Some(BatchPos { batch, row }) = &mut self.batch
            && self.forward
            && batch.at + 1 < batch.end
        {
            batch.at += 1;
            *row = batch.rows.step_forward(batch.at, &mut self.batch_key);
            return Ok(());
        }
        self.next_of_source()
    }

    /// Same, where no row batch continues.
    fn next_of_source(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        if self.batch.is_some() {
            self.end_batch();
        } else if self.forward && self.place == Place::Saved {
            return self.next_after_merged();
        } else if self.forward && self.may_read_batch() && self.begin_batch() {
            return self.next();
        }
        self.valid = false;
        if !self.forward {
            self.source.seek(&self.saved_key, 0)?;
            self.skipped_key = None;
            return self.settle_forward(true);
        }
        // A version with sequence number 0 is the last of its key, so there are none to step over.
        let skipping = self.seqno != 0;
        if skipping {
            self.save_skipped_key();
        }
        self.source.next()?;
        self.settle_forward(skipping)
    }

    /// Moves to the previous key. Does nothing when not valid.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if let Some(BatchPos { batch, row }) = &mut self.batch
            && !self.forward
            && batch.at > batch.first
        {
            batch.at -= 1;
            *row = batch.rows.step_back(batch.at, &mut self.batch_key);
            return Ok(());
        }
        self.prev_of_source()
    }

    /// Same, where no row batch continues.
    fn prev_of_source(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        let in_batch = self.batch.is_some();
        if in_batch {
            self.end_batch();
        }
        self.valid = false;
        if self.forward {
            if self.place != Place::Saved {
                copy_into(&mut self.saved_key, self.source.key());
            }
            self.source.seek_before(&self.saved_key, SEQNO_MAX)?;
        } else if in_batch {
            self.source.prev()?;
        }
        self.forward = false;
        if self.source.valid() && self.may_read_batch() && self.begin_batch() {
            self.valid = true;
            return Ok(());
        }
        self.settle_backward()
    }

    /// Returns whether to ask the source for a row batch. With range tombstones there is none.
    #[inline]
    fn may_read_batch(&mut self) -> bool {
        let now = self.walk_after == 0;
        self.walk_after = self.walk_after.saturating_sub(1);
        now && self.coverage.is_empty()
    }

    /// Starts a row batch at the source's position, if the source has one.
    fn begin_batch(&mut self) -> bool {
        self.walk_after = self.moves_without_batch;
        let Some(batch) = self.source.row_batch(self.snapshot, self.forward) else {
            return false;
        };
        if batch.end - batch.first < 2 {
            return false;
        }
        let row = batch.rows.load(batch.at, &mut self.batch_key);
        self.batch = Some(BatchPos { batch, row });
        true
    }

    /// Ends the row batch and moves the source to its position. A move backward also needs the key.
    fn end_batch(&mut self) {
        let Some(BatchPos { batch, row }) = self.batch.take() else { return };
        self.source.move_to_row(batch.at);
        self.seqno = row.seqno();
        copy_into(&mut self.saved_key, self.batch_key.key());
        self.walk_after = 0;
    }

    /// Saves the source's key for [`Self::at_skipped_key`].
    #[inline]
    fn save_skipped_key(&mut self) {
        let key = self.source.key();
        self.skipped_key =
            if matches!(self.order, KeyOrder::Custom(_)) { None } else { ShortKey::of(key) };
        if self.skipped_key.is_none() {
            copy_into(&mut self.saved_key, key);
        }
    }

    /// Returns whether the source, which must be valid, is still positioned on the skipped key.
    #[inline]
    fn at_skipped_key(&self) -> bool {
        match self.skipped_key {
            Some(_) => ShortKey::of(self.source.key()) == self.skipped_key,
            None => same_key(&self.order, self.source.key(), &self.saved_key),
        }
    }

    /// Returns the number of invisible keys after which the hints are asked first: with hints, one
    /// after a seek.
    #[inline]
    fn first_lookup_at(&mut self) -> u64 {
        let is_seek = std::mem::take(&mut self.is_seek);
        if is_seek && self.skips.is_some() { 1 } else { self.lookup_at }
    }

    /// Moves forward from the source's position to the first visible version. With `skipping`,
    /// first skips every version of the skipped key.
    #[inline]
    pub(super) fn settle_forward(&mut self, mut skipping: bool) -> Result<()> {
        self.forward = true;
        let (mut steps, mut dead, mut lookup_at) = (0, 0, self.first_lookup_at());
        while self.source.valid() {
            if skipping && self.at_skipped_key() {
                steps += 1;
                self.stepped_over += 1;
                if steps > STEPS_MAX && self.source.seqno() != 0 {
                    copy_into(&mut self.saved_key, self.source.key());
                    self.source.seek(&self.saved_key, 0)?;
                } else {
                    self.source.next()?;
                }
                continue;
            }
            skipping = false;
            let (seqno, kind) = self.source.version();
            if seqno > self.snapshot {
                self.step_over_newer(&mut steps)?;
                continue;
            }
            self.walk.dead = dead;
            if kind == Kind::Put && !self.covered(seqno) {
                self.valid = true;
                self.place = Place::Source;
                self.seqno = seqno;
                return Ok(());
            }
            if kind != Kind::Put && kind != Kind::Delete {
                if self.settle_special(seqno, kind)? {
                    return Ok(());
                }
                self.walk.has_expired = true;
            }
            steps = 0;
            self.stepped_over += 1;
            dead += 1;
            if dead >= lookup_at {
                let Some(next_state) = self.skip_tombstones(dead)? else { return Ok(()) };
                (dead, lookup_at) = next_state;
                if dead == 0 {
                    continue;
                }
            }
            self.save_skipped_key();
            skipping = seqno != 0;
            self.source.next()?;
        }
        Ok(())
    }

    /// Steps over a version newer than the snapshot, or over all such versions of its key when
    /// there are many. `steps` counts the versions of one key, which is `saved_key` then.
    fn step_over_newer(&mut self, steps: &mut u32) -> Result<()> {
        if *steps > 0 && same_key(&self.order, self.source.key(), &self.saved_key) {
            *steps += 1;
        } else {
            copy_into(&mut self.saved_key, self.source.key());
            *steps = 1;
        }
        if *steps <= STEPS_MAX {
            return self.source.next();
        }
        *steps = 0;
        self.source.seek(&self.saved_key, self.snapshot)
    }

    #[inline]
    pub(super) fn covered(&mut self, seqno: SeqNo) -> bool {
        !self.coverage.is_empty()
            && self
                .coverage
                .newest(&self.order, self.source.key(), self.snapshot)
                .is_some_and(|deleted| deleted > seqno)
    }

    /// Moves backward to the first key with a visible version. The source must be positioned on the
    /// last version of a key, or unpositioned.
    fn settle_backward(&mut self) -> Result<()> {
        self.forward = false;
        let (mut dead, mut lookup_at) = (0, self.first_lookup_at());
        while self.source.valid() {
            if dead >= lookup_at {
                let Some(next_state) = self.skip_tombstones(dead)? else { return Ok(()) };
                (dead, lookup_at) = next_state;
                if dead == 0 {
                    continue;
                }
            }
            self.walk.dead = dead;
            dead += 1;
            self.stepped_over += 1;
            copy_into(&mut self.saved_key, self.source.key());
            let Some((seqno, kind)) = self.newest_of_saved_key()? else { continue };
            let deleted = self.coverage.newest(&self.order, &self.saved_key, self.snapshot);
            if kind == Kind::Delete || deleted.is_some_and(|deleted| deleted > seqno) {
                continue;
            }
            self.saved_time_ms = expiry::NEVER_MS;
            if kind != Kind::Put && !self.settle_special_backward(kind)? {
                self.walk.has_expired = true;
                continue;
            }
            self.valid = true;
            self.place = Place::Saved;
            return Ok(());
        }
        Ok(())
    }

    /// Moves back over all versions of `saved_key`. Copies the value of the newest version at or
    /// below the snapshot and returns that version.
    fn newest_of_saved_key(&mut self) -> Result<Option<(SeqNo, Kind)>> {
        let mut newest = None;
        let mut steps = 0;
        while self.at_saved_key() {
            if steps == STEPS_MAX {
                self.source.seek(&self.saved_key, self.snapshot)?;
                newest = if self.at_saved_key() { Some(self.copy_version()) } else { None };
                self.source.seek_before(&self.saved_key, SEQNO_MAX)?;
                break;
            }
            if self.source.seqno() <= self.snapshot {
                newest = Some(self.copy_version());
            }
            self.source.prev()?;
            steps += 1;
        }
        Ok(newest)
    }

    fn at_saved_key(&self) -> bool {
        self.source.valid() && same_key(&self.order, self.source.key(), &self.saved_key)
    }

    fn copy_version(&mut self) -> (SeqNo, Kind) {
        // Equal keys may differ in bytes, so the key of the visible version is copied.
        copy_into(&mut self.saved_key, self.source.key());
        copy_into(&mut self.saved_value, self.source.value());
        self.source.version()
    }
}
