//! What a reader at one sequence number sees: versions and tombstones collapse to keys and values.
//!
//! What stays true while the cursor is valid:
//! 1. It stands on the newest version of its key at or below the snapshot; that version is a value
//!    and no range tombstone at or below the snapshot is newer than it.
//! 2. Going forward, the source stands on that very version, and nothing is copied but the key.
//!    Going backward, the version is copied, because to find it the source had to go past it, to
//!    the last version of the key before.
//! 3. Or it walks a stretch of rows ([`crate::base::rows`]), all of which are shown, either way; the
//!    source waits where it was, and is told to follow before it moves itself.
//!
//! Where many keys in a row are not shown, the cursor asks the reader's skip hints
//! ([`super::hints`]) how far that goes, and seeks there. A reader without hints never asks.

use std::sync::Arc;

use super::coverage::Coverage;
use super::hints::{Edge, Hints};
use super::{Mark, copy_into, empty, same_key};
use crate::base::cursor::Cursor;
use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeleteView;
use crate::base::rows::{KeyBuf, Row, See, Stretch};
use crate::error::Result;

/// After stepping over this many versions of one key, seek past the rest.
const STEPS_MAX: u32 = 8;
/// After this many keys in a row that are not shown, the hints are asked,
const DEAD_MIN: u64 = if cfg!(debug_assertions) { 2 } else { 8 };
/// and again after each so many more.
const DEAD_STEP: u64 = if cfg!(debug_assertions) { 3 } else { 32 };
/// After so many moves without one, the source is asked for a stretch again.
const MOVES_WITHOUT: u32 = if cfg!(debug_assertions) { 1 } else { 8 };
/// A jump counts as so many steps: it is a seek more than a merge would leave to do.
const JUMP_STEPS: u64 = 64;

/// The keys and values visible at a snapshot.
pub struct VisibleCursor<C: Cursor> {
    source: C,
    order: KeyOrder,
    snapshot: SeqNo,
    coverage: Coverage,
    valid: bool,
    forward: bool,
    /// Forward: the sequence number of the version stood on.
    seqno: SeqNo,
    /// Forward: the key whose versions are being stepped over, if it fits; else `saved_key` is.
    mark: Option<Mark>,
    /// The rows being walked. None while `valid` is false.
    walk: Option<Walk>,
    /// The key there.
    walk_key: KeyBuf,
    /// So many moves from now, the source is asked for the next.
    walk_after: u32,
    /// Entries stepped over since that was last asked.
    stepped_over: u64,
    /// Backward: the key stood on.
    saved_key: Vec<u8>,
    /// Backward: the value there.
    saved_value: Vec<u8>,
    /// After so many keys in a row that are not shown, `detours` are asked; never without them.
    asked_at: u64,
    detours: Option<Box<Detours>>,
}

/// Where in a stretch the cursor stands.
struct Walk {
    stretch: Stretch,
    row: Row,
}

/// Where a walk may leave out keys, and where it must end.
struct Detours {
    hints: Arc<Hints>,
    /// The hints up to this number are believed.
    as_of: SeqNo,
    /// How often in one move it may be asked before the move ends nowhere.
    patience: u64,
    asked: u64,
    /// Where a move ended for lack of patience.
    stopped_at: Option<Arc<[u8]>>,
    /// Steps spared by the jumps so far.
    spared: u64,
}

/// A stretch of keys of which none is visible.
pub struct DeadRun {
    /// It begins after this key.
    pub after: Edge,
    /// It ends before this key.
    pub before: Edge,
    /// About how many entries are in it.
    pub dead: u64,
    /// Keys from which to go on, where patience ended.
    pub open: Vec<Arc<[u8]>>,
}

impl<C: Cursor> VisibleCursor<C> {
    /// Shows what a reader at `snapshot` sees of `source`; [`SEQNO_MAX`] sees all that is there.
    /// `range_deletes` are those of everything in `source`. It stands nowhere until the first seek.
    pub fn new(
        source: C,
        order: KeyOrder,
        snapshot: SeqNo,
        range_deletes: Option<Box<RangeDeleteView>>,
    ) -> VisibleCursor<C> {
        VisibleCursor {
            source,
            order,
            snapshot,
            coverage: Coverage::new(range_deletes),
            valid: false,
            forward: true,
            seqno: 0,
            mark: None,
            walk: None,
            walk_key: KeyBuf::default(),
            walk_after: 0,
            stepped_over: 0,
            saved_key: Vec::new(),
            saved_value: Vec::new(),
            asked_at: u64::MAX,
            detours: None,
        }
    }

    /// Shows what a reader at `snapshot` sees, as [`VisibleCursor::new`] does of the same source, and
    /// stands nowhere until the first seek.
    pub fn reset(&mut self, snapshot: SeqNo, range_deletes: Option<Box<RangeDeleteView>>) {
        self.begin();
        self.snapshot = snapshot;
        self.coverage = Coverage::new(range_deletes);
        self.forward = true;
        self.stepped_over = 0;
        self.asked_at = u64::MAX;
        self.detours = None;
    }

    /// Stands nowhere, and lets go of what that took.
    pub fn rest(&mut self) {
        self.reset(0, None);
        self.source.rest();
        self.walk_key.rest();
        empty(&mut self.saved_key);
        empty(&mut self.saved_value);
    }

    /// Believes `hints` up to the number `as_of`, see [`super::hints`]; a move that has asked them
    /// `patience` times ends nowhere.
    pub fn take_detours(&mut self, hints: Arc<Hints>, as_of: SeqNo, patience: u64) {
        let (asked, stopped_at, spared) = (0, None, 0);
        self.detours =
            Some(Box::new(Detours { hints, as_of, patience, asked, stopped_at, spared }));
        self.asked_at = DEAD_MIN;
    }

    /// The stretch around `key` without visible keys, as far as patience goes both ways; `None` if
    /// `key` itself is visible.
    pub fn dead_run(&mut self, key: &[u8]) -> Result<Option<DeadRun>> {
        if let Some(run) = self.dead_run_behind_hint(key)? {
            return Ok(Some(run));
        }
        let mut open = Vec::new();
        self.seek(key)?;
        if self.valid && same_key(&self.order, self.key(), key) {
            return Ok(None);
        }
        let before = self.edge(&mut open);
        self.seek_for_prev(key)?;
        let after = self.edge(&mut open);
        let spared = self.detours.as_ref().map_or(0, |detours| detours.spared);
        Ok(Some(DeadRun { after, before, dead: self.stepped_over + spared, open }))
    }

    /// The same where the stretch begins in the hint below `key`, as it does when keys are deleted in
    /// order: then it need only be walked forward.
    fn dead_run_behind_hint(&mut self, key: &[u8]) -> Result<Option<DeadRun>> {
        let hints = self.detours.as_ref().map(|detours| detours.hints.clone());
        let Some(hint) = hints.as_ref().and_then(|hints| hints.below(&self.order, key)) else {
            return Ok(None);
        };
        let Some(from) = &hint.before else { return Ok(None) };
        let mut open = Vec::new();
        self.seek(from)?;
        let before = self.edge(&mut open);
        if before.as_ref().is_some_and(|before| self.order.compare(before, key).is_le()) {
            if open.is_empty() {
                self.stepped_over = 0;
                return Ok(None);
            }
            open = vec![Arc::from(key)];
        }
        let spared = self.detours.as_ref().map_or(0, |detours| detours.spared);
        let dead = hint.dead + self.stepped_over + spared;
        Ok(Some(DeadRun { after: hint.after.clone(), before, dead, open }))
    }

    /// What the last move ended at.
    fn edge(&mut self, open: &mut Vec<Arc<[u8]>>) -> Edge {
        let stopped_at = self.detours.as_mut().and_then(|detours| {
            detours.asked = 0;
            detours.stopped_at.take()
        });
        if self.valid {
            return Some(Arc::from(self.key()));
        }
        open.extend(stopped_at.clone());
        stopped_at
    }

    /// Whether the cursor stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key. Must be valid; lives until the cursor moves.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.walk {
            Some(_) => self.walk_key.key(),
            None if self.forward => self.source.key(),
            None => &self.saved_key,
        }
    }

    /// Whether it walks rows that it took from its source.
    #[cfg(test)]
    pub fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    /// The key, or the empty one when not valid.
    pub fn key_or_empty(&self) -> &[u8] {
        if self.valid { self.key() } else { &[] }
    }

    /// The value. Must be valid; lives until the cursor moves.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.walk {
            Some(walk) => walk.stretch.rows.value(walk.row),
            None if self.forward => self.source.value(),
            None => &self.saved_value,
        }
    }

    /// How many entries that are not shown were stepped over one by one since this was last asked.
    #[inline]
    pub fn take_stepped_over(&mut self) -> u64 {
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

    /// The cursor stands nowhere, wherever it was.
    fn begin(&mut self) {
        self.valid = false;
        self.walk = None;
        self.walk_after = 0;
    }

    /// Places the source on the last version of `key`, or of the key before it.
    fn place_at_or_before(&mut self, key: &[u8]) -> Result<()> {
        // The very last version a key can have, or the first entry behind it.
        self.source.seek(key, 0)?;
        if !(self.source.valid() && same_key(&self.order, self.source.key(), key)) {
            self.source.seek_before(key, 0)?;
        }
        Ok(())
    }

    /// Shows the pair stood on and those after it, or before it, as far as the source need not move,
    /// until no more is wanted; says whether more is. Stands on the last one shown.
    pub fn show(&mut self, forward: bool, see: See<'_>) -> bool {
        let asks = self.walk_after == 0 && self.coverage.is_empty();
        if asks && forward && self.forward && self.walk.is_none() {
            self.begin_walk();
        }
        match &mut self.walk {
            Some(Walk { stretch, row }) if self.forward == forward => {
                let shown = stretch.rows.show(stretch.rest(forward), &mut self.walk_key, see);
                (stretch.at, *row) = (shown.at, shown.row);
                shown.more
            }
            _ => see(self.key(), self.value()),
        }
    }

    /// Moves to the next key. Nothing happens when not valid.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend what it stands on")]
    pub fn next(&mut self) -> Result<()> {
        if let Some(Walk { stretch, row }) = &mut self.walk
            && self.forward
            && stretch.at + 1 < stretch.end
        {
            stretch.at += 1;
            *row = stretch.rows.step_forward(stretch.at, &mut self.walk_key);
            return Ok(());
        }
        self.next_of_source()
    }

    /// The same where no stretch goes on.
    fn next_of_source(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        if self.walk.is_some() {
            self.end_walk();
        } else if self.forward && self.may_walk() && self.begin_walk() {
            return self.next();
        }
        self.valid = false;
        if !self.forward {
            self.source.seek(&self.saved_key, 0)?;
            self.mark = None;
            return self.settle_forward(true);
        }
        // A version with sequence number 0 is the last of its key: nothing to step over.
        let skipping = self.seqno != 0;
        if skipping {
            self.mark_key();
        }
        self.source.next()?;
        self.settle_forward(skipping)
    }

    /// Moves to the previous key. Nothing happens when not valid.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if let Some(Walk { stretch, row }) = &mut self.walk
            && !self.forward
            && stretch.at > stretch.first
        {
            stretch.at -= 1;
            *row = stretch.rows.step_back(stretch.at, &mut self.walk_key);
            return Ok(());
        }
        self.prev_of_source()
    }

    /// The same where no stretch goes on.
    fn prev_of_source(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        let walked = self.walk.is_some();
        if walked {
            self.end_walk();
        }
        self.valid = false;
        if self.forward {
            copy_into(&mut self.saved_key, self.source.key());
            self.source.seek_before(&self.saved_key, SEQNO_MAX)?;
        } else if walked {
            self.source.prev()?;
        }
        self.forward = false;
        if self.source.valid() && self.may_walk() && self.begin_walk() {
            self.valid = true;
            return Ok(());
        }
        self.settle_backward()
    }

    /// Whether it is time to ask the source for a stretch. Under range tombstones there is none.
    #[inline]
    fn may_walk(&mut self) -> bool {
        let now = self.walk_after == 0;
        self.walk_after = self.walk_after.saturating_sub(1);
        now && self.coverage.is_empty()
    }

    /// Stands on the entry the source stands on, if a stretch goes on from there.
    fn begin_walk(&mut self) -> bool {
        self.walk_after = MOVES_WITHOUT;
        let Some(stretch) = self.source.stretch(self.snapshot, self.forward) else { return false };
        if stretch.end - stretch.first < 2 {
            return false;
        }
        let row = stretch.rows.load(stretch.at, &mut self.walk_key);
        self.walk = Some(Walk { stretch, row });
        true
    }

    /// Lets the source follow to where the walk stands; the way back needs the key, too.
    fn end_walk(&mut self) {
        let Some(Walk { stretch, row }) = self.walk.take() else { return };
        self.source.jump(stretch.at);
        self.seqno = row.seqno();
        copy_into(&mut self.saved_key, self.walk_key.key());
        self.walk_after = 0;
    }

    /// Remembers the key of the source for [`Self::at_marked_key`].
    #[inline]
    fn mark_key(&mut self) {
        let key = self.source.key();
        self.mark = if matches!(self.order, KeyOrder::Custom(_)) { None } else { Mark::of(key) };
        if self.mark.is_none() {
            copy_into(&mut self.saved_key, key);
        }
    }

    /// Whether the source, which is valid, still stands on the marked key.
    #[inline]
    fn at_marked_key(&self) -> bool {
        match self.mark {
            Some(_) => Mark::of(self.source.key()) == self.mark,
            None => same_key(&self.order, self.source.key(), &self.saved_key),
        }
    }

    /// Goes forward from where the source stands to the first visible version; if `skipping`, past
    /// every version of the marked key first.
    #[inline]
    fn settle_forward(&mut self, mut skipping: bool) -> Result<()> {
        self.forward = true;
        let (mut steps, mut dead, mut asked_at) = (0, 0, self.asked_at);
        while self.source.valid() {
            if skipping && self.at_marked_key() {
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
            if kind == Kind::Put && !self.covered(seqno) {
                self.valid = true;
                self.seqno = seqno;
                return Ok(());
            }
            steps = 0;
            self.stepped_over += 1;
            dead += 1;
            if dead >= asked_at {
                let Some(way) = self.detour(dead)? else { return Ok(()) };
                (dead, asked_at) = way;
                if dead == 0 {
                    continue;
                }
            }
            self.mark_key();
            skipping = seqno != 0;
            self.source.next()?;
        }
        Ok(())
    }

    /// Asks the hints about the key where the source stands, which is not shown or not known yet,
    /// `dead` keys that are not shown behind. Returns how many are behind now, 0 after a jump, and
    /// after how many to ask again; `None` where nothing is to come, or no patience is left.
    #[cold]
    fn detour(&mut self, dead: u64) -> Result<Option<(u64, u64)>> {
        let walked = Some((dead, dead + DEAD_STEP));
        let Some(detours) = self.detours.as_deref_mut() else { return Ok(walked) };
        detours.asked += 1;
        let key = self.source.key();
        if let Some(hint) = detours.hints.find(&self.order, key, detours.as_of) {
            detours.hints.jumps.add(1);
            detours.spared += hint.dead;
            self.stepped_over += JUMP_STEPS;
            let edge = if self.forward { &hint.before } else { &hint.after };
            let Some(key) = edge.clone() else { return Ok(None) };
            if self.forward {
                self.source.seek(&key, self.snapshot)?;
            } else {
                self.place_at_or_before(&key)?;
            }
            return Ok(Some((0, self.asked_at)));
        }
        if detours.asked >= detours.patience {
            detours.stopped_at = Some(Arc::from(key));
            return Ok(None);
        }
        Ok(walked)
    }

    /// Steps over a version newer than the snapshot, or over all of its key's when there are many.
    /// `steps` counts those of one key, which is then `saved_key`.
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
    fn covered(&mut self, seqno: SeqNo) -> bool {
        !self.coverage.is_empty()
            && self
                .coverage
                .newest(&self.order, self.source.key(), self.snapshot)
                .is_some_and(|deleted| deleted > seqno)
    }

    /// Goes backward from where the source stands, on the last version of some key or nowhere, to
    /// the first key with a visible version.
    fn settle_backward(&mut self) -> Result<()> {
        self.forward = false;
        let (mut dead, mut asked_at) = (0, self.asked_at);
        while self.source.valid() {
            if dead >= asked_at {
                let Some(way) = self.detour(dead)? else { return Ok(()) };
                (dead, asked_at) = way;
                if dead == 0 {
                    continue;
                }
            }
            dead += 1;
            self.stepped_over += 1;
            copy_into(&mut self.saved_key, self.source.key());
            let Some((seqno, Kind::Put)) = self.newest_of_saved_key()? else { continue };
            let deleted = self.coverage.newest(&self.order, &self.saved_key, self.snapshot);
            if deleted.is_none_or(|deleted| deleted <= seqno) {
                self.valid = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Walks back over every version of `saved_key`; copies the value of the newest at or below the
    /// snapshot and returns what that is.
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
        // Keys that compare equal may differ in bytes: show those of the version shown.
        copy_into(&mut self.saved_key, self.source.key());
        copy_into(&mut self.saved_value, self.source.value());
        self.source.version()
    }
}
