//! Cursors over the tree: over a slice of a file, over the slices of a run, over the merged runs of
//! a guard, and over the guards of a level.
//!
//! Invariants: a slice never exposes a key outside its bounds. The slices of a run and the guards
//! of a level are disjoint and in key order. Reading them one after another therefore yields sorted
//! entries.

use std::cmp::Ordering;
use std::sync::Arc;

use super::fragment::Fragment;
use super::guard::{Fragments, Guard, Level, Run};
use super::tables::Tables;
use crate::base::cursor::{Cursor, PrefetchStep};
use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::rows::RowBatch;
use crate::error::Result;
use crate::iter::merge::MergeCursor;
use crate::table::TableCursor;

/// A boxed cursor that can move to another thread.
pub type BoxedCursor = Box<dyn Cursor + Send>;

/// A table cursor restricted to the bounds of a slice.
pub struct SliceCursor {
    inner: TableCursor,
    fragment: Arc<Fragment>,
    order: KeyOrder,
    cut_lo: bool,
    cut_hi: bool,
    inside: bool,
}

impl SliceCursor {
    /// Creates an unpositioned cursor over `fragment`.
    pub fn new(tables: &Tables, fragment: &Arc<Fragment>, fill_cache: bool) -> Result<SliceCursor> {
        let order = tables.config().order.clone();
        let info = &fragment.file.info;
        let cuts_lo = |lo: &Vec<u8>| order.compare(&info.smallest, lo) == Ordering::Less;
        let cuts_hi = |hi: &Vec<u8>| order.compare(&info.largest, hi) != Ordering::Less;
        Ok(SliceCursor {
            cut_lo: fragment.lo.as_ref().is_some_and(cuts_lo),
            cut_hi: fragment.hi.as_ref().is_some_and(cuts_hi),
            inner: tables.get(&fragment.file)?.cursor(fill_cache),
            fragment: fragment.clone(),
            order,
            inside: false,
        })
    }

    fn settle(&mut self) {
        self.inside = self.inner.valid() && !self.is_past_hi() && !self.is_before_lo();
    }

    /// Returns whether the slice starts after `key`, inside its file.
    fn starts_after(&self, key: &[u8]) -> bool {
        self.cut_lo
            && self.fragment.lo.as_ref().is_some_and(|lo| self.order.compare(key, lo).is_lt())
    }

    fn is_past_hi(&self) -> bool {
        self.cut_hi
            && self
                .fragment
                .hi
                .as_ref()
                .is_some_and(|hi| self.order.compare(self.inner.key(), hi) != Ordering::Less)
    }

    fn is_before_lo(&self) -> bool {
        self.cut_lo
            && self
                .fragment
                .lo
                .as_ref()
                .is_some_and(|lo| self.order.compare(self.inner.key(), lo) == Ordering::Less)
    }
}

impl Cursor for SliceCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.inside
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.inside = false;
        match &self.fragment.lo {
            Some(lo) if self.cut_lo => self.inner.seek(lo, SEQNO_MAX)?,
            _ => self.inner.seek_to_first()?,
        }
        self.settle();
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.inside = false;
        match &self.fragment.hi {
            Some(hi) if self.cut_hi => self.inner.seek_before(hi, SEQNO_MAX)?,
            _ => self.inner.seek_to_last()?,
        }
        self.settle();
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.inside = false;
        match &self.fragment.lo {
            Some(lo) if self.starts_after(key) => self.inner.seek(lo, SEQNO_MAX)?,
            _ => self.inner.seek(key, seqno)?,
        }
        self.settle();
        Ok(())
    }

    fn seek_deferred(&mut self, key: &[u8], seqno: SeqNo, deepest: bool) -> Result<bool> {
        if self.starts_after(key) {
            self.seek(key, seqno)?;
            return Ok(false);
        }
        self.inside = false;
        let deferred = self.inner.seek_deferred(key, seqno, deepest)?;
        self.settle();
        // A deferred seek whose bound lies past the slice is a completed seek without an entry.
        Ok(deferred && self.inside)
    }

    fn materialize(&mut self, key: &[u8], seqno: SeqNo) -> Result<bool> {
        self.inside = false;
        let deferred = self.inner.materialize(key, seqno)?;
        self.settle();
        Ok(deferred && self.inside)
    }

    fn prefetch_seek(&mut self, key: &[u8], step: PrefetchStep, deepest: bool) {
        if !self.starts_after(key) {
            self.inner.prefetch_seek(key, step, deepest);
        }
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.inside = false;
        match &self.fragment.hi {
            // This includes `hi` itself, because the file may hold older versions of it beyond the
            // slice.
            Some(hi) if self.cut_hi && self.order.compare(key, hi) != Ordering::Less => {
                self.inner.seek_before(hi, SEQNO_MAX)?;
            }
            _ => self.inner.seek_before(key, seqno)?,
        }
        self.settle();
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.inside = false;
        self.inner.next()?;
        self.inside = self.inner.valid() && !self.is_past_hi();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.inside = false;
        self.inner.prev()?;
        self.inside = self.inner.valid() && !self.is_before_lo();
        Ok(())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    #[inline]
    fn seqno(&self) -> SeqNo {
        self.inner.seqno()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.inner.kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.inner.value()
    }

    fn release(&mut self) {
        self.inside = false;
        self.inner.release();
    }

    fn row_batch(&self, snapshot: SeqNo, forward: bool) -> Option<RowBatch> {
        let batch = self.inner.row_batch(snapshot, forward)?;
        match (&self.fragment.lo, &self.fragment.hi) {
            (_, Some(hi)) if self.cut_hi && forward => batch.before(&self.order, hi),
            (Some(lo), _) if self.cut_lo && !forward => batch.from(&self.order, lo),
            _ => Some(batch),
        }
    }

    fn move_to_row(&mut self, row: usize) {
        self.inner.move_to_row(row);
        self.inside = true;
    }
}

/// The parts of a concatenation. They are disjoint and in key order.
pub trait Parts {
    /// Returns the number of parts.
    fn count(&self) -> usize;
    /// Returns the number of parts that end before `key`.
    fn ended_before(&self, order: &KeyOrder, key: &[u8]) -> usize;
    /// Returns the number of parts that start before `key`.
    fn started_before(&self, order: &KeyOrder, key: &[u8]) -> usize;
    /// Creates a cursor over one part.
    fn cursor(&self, index: usize, tables: &Arc<Tables>, fill_cache: bool) -> Result<BoxedCursor>;
}

impl Parts for Fragments {
    fn count(&self) -> usize {
        self.len()
    }

    fn ended_before(&self, order: &KeyOrder, key: &[u8]) -> usize {
        Fragments::ended_before(self, order, key)
    }

    fn started_before(&self, order: &KeyOrder, key: &[u8]) -> usize {
        let at = self.ended_before(order, key);
        at + usize::from(at < self.len() && self.starts_before(order, at, key, false))
    }

    fn cursor(&self, index: usize, tables: &Arc<Tables>, fill_cache: bool) -> Result<BoxedCursor> {
        Ok(Box::new(SliceCursor::new(tables, &self[index], fill_cache)?))
    }
}

impl Parts for Arc<Level> {
    fn count(&self) -> usize {
        self.guards.len()
    }

    fn ended_before(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.index_of(order, key)
    }

    fn started_before(&self, order: &KeyOrder, key: &[u8]) -> usize {
        let at = self.index_of(order, key);
        let lo = self.guards[at].lo.as_ref();
        at + usize::from(lo.is_none_or(|lo| order.compare(lo, key) == Ordering::Less))
    }

    fn cursor(&self, index: usize, tables: &Arc<Tables>, fill_cache: bool) -> Result<BoxedCursor> {
        guard_cursor(tables, &self.guards[index], fill_cache)
    }
}

/// Maximum number of parked cursors of a concatenation, besides the current one.
const PARKED_MAX: usize = 64;

/// A cursor over a concatenation of parts. It opens a part when it reaches it.
pub struct ConcatCursor<L: Parts> {
    tables: Arc<Tables>,
    parts: L,
    at: usize,
    current: Option<BoxedCursor>,
    /// Parked cursors of parts visited before. The cursor of part `n` is only ever at index
    /// `n % PARKED_MAX`.
    parked: Vec<Option<(usize, BoxedCursor)>>,
    fill_cache: bool,
}

impl<L: Parts> ConcatCursor<L> {
    /// Creates an unpositioned cursor over `parts`.
    pub fn new(tables: Arc<Tables>, parts: L, fill_cache: bool) -> ConcatCursor<L> {
        let (at, parked) = (usize::MAX, Vec::new());
        ConcatCursor { tables, parts, at, current: None, parked, fill_cache }
    }

    fn open_part(&mut self, index: usize) -> Result<bool> {
        if index >= self.parts.count() {
            self.park();
            return Ok(false);
        }
        if self.at != index || self.current.is_none() {
            self.park();
            let place = index % PARKED_MAX;
            self.current = match self.parked.get_mut(place).and_then(Option::take) {
                Some((at, cursor)) if at == index => Some(cursor),
                _ => Some(self.parts.cursor(index, &self.tables, self.fill_cache)?),
            };
            self.at = index;
        }
        Ok(true)
    }

    /// Leaves the current part. Its cursor is parked for a later seek.
    fn park(&mut self) {
        let Some(mut cursor) = self.current.take() else { return };
        cursor.release();
        let place = self.at % PARKED_MAX;
        if self.parked.len() <= place {
            self.parked.resize_with(place + 1, || None);
        }
        self.parked[place] = Some((self.at, cursor));
        self.at = usize::MAX;
    }

    fn here(&self) -> Option<&BoxedCursor> {
        self.current.as_ref().filter(|c| c.valid())
    }

    fn skip_forward(&mut self) -> Result<()> {
        while self.current.is_some() && self.here().is_none() {
            let next = self.at + 1;
            if self.open_part(next)?
                && let Some(cursor) = self.current.as_mut()
            {
                cursor.seek_to_first()?;
            }
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while self.current.is_some() && self.here().is_none() {
            let next = self.at.wrapping_sub(1);
            if self.open_part(next)?
                && let Some(cursor) = self.current.as_mut()
            {
                cursor.seek_to_last()?;
            }
        }
        Ok(())
    }

    /// Runs a move. After an error the cursor is unpositioned.
    fn guarded(&mut self, run: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let result = run(self);
        if result.is_err() {
            self.park();
        }
        result
    }

    /// Runs a step of a deferred seek. If the seek is complete, advances to a part with an entry.
    fn deferred_or_skip(&mut self, part: impl FnOnce(&mut Self) -> Result<bool>) -> Result<bool> {
        let mut deferred = false;
        self.guarded(|c| {
            deferred = part(c)?;
            if deferred { Ok(()) } else { c.skip_forward() }
        })?;
        Ok(deferred)
    }

    fn current_mut(&mut self) -> &mut BoxedCursor {
        self.current.as_mut().expect("the caller checked valid()")
    }

    fn current_ref(&self) -> &BoxedCursor {
        self.current.as_ref().expect("the caller checked valid()")
    }
}

impl<L: Parts> Cursor for ConcatCursor<L> {
    #[inline]
    fn valid(&self) -> bool {
        self.here().is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.guarded(|c| {
            if c.open_part(0)? {
                c.current_mut().seek_to_first()?;
            }
            c.skip_forward()
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.guarded(|c| {
            if c.open_part(c.parts.count().wrapping_sub(1))? {
                c.current_mut().seek_to_last()?;
            }
            c.skip_backward()
        })
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.guarded(|c| {
            let order = &c.tables.config().order;
            let index = c.parts.ended_before(order, key);
            if c.open_part(index)? {
                c.current_mut().seek(key, seqno)?;
            }
            c.skip_forward()
        })
    }

    fn seek_deferred(&mut self, key: &[u8], seqno: SeqNo, deepest: bool) -> Result<bool> {
        let index = self.parts.ended_before(&self.tables.config().order, key);
        self.deferred_or_skip(|c| {
            let deferred =
                c.open_part(index)? && c.current_mut().seek_deferred(key, seqno, deepest)?;
            Ok(deferred)
        })
    }

    fn materialize(&mut self, key: &[u8], seqno: SeqNo) -> Result<bool> {
        self.deferred_or_skip(|c| c.current_mut().materialize(key, seqno))
    }

    fn prefetch_seek(&mut self, key: &[u8], step: PrefetchStep, deepest: bool) {
        if step == PrefetchStep::Index {
            let index = self.parts.ended_before(&self.tables.config().order, key);
            // An open error is not lost: the seek meets it again and returns it.
            let _ = self.open_part(index);
        }
        if let Some(current) = &mut self.current {
            current.prefetch_seek(key, step, deepest);
        }
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.guarded(|c| {
            let order = &c.tables.config().order;
            let from = c.parts.started_before(order, key);
            // The part that starts at `key` may hold newer versions of it. The part before it may
            // reach beyond `key`.
            for index in [Some(from), from.checked_sub(1)].into_iter().flatten() {
                if c.open_part(index)? {
                    c.current_mut().seek_before(key, seqno)?;
                    if c.here().is_some() {
                        return Ok(());
                    }
                }
            }
            c.skip_backward()
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let cursor = self.current_mut();
        match cursor.next() {
            Ok(()) if cursor.valid() => Ok(()),
            Ok(()) => self.guarded(Self::skip_forward),
            Err(error) => self.guarded(|_| Err(error)),
        }
    }

    fn prev(&mut self) -> Result<()> {
        self.guarded(|c| {
            c.current_mut().prev()?;
            c.skip_backward()
        })
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current_ref().key()
    }

    #[inline]
    fn seqno(&self) -> SeqNo {
        self.current_ref().seqno()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.current_ref().kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current_ref().value()
    }

    fn release(&mut self) {
        if let Some(cursor) = &mut self.current {
            cursor.release();
        }
    }

    fn row_batch(&self, snapshot: SeqNo, forward: bool) -> Option<RowBatch> {
        self.current_ref().row_batch(snapshot, forward)
    }

    fn move_to_row(&mut self, row: usize) {
        self.current_mut().move_to_row(row);
    }
}

/// Creates a cursor over one run.
pub fn run_cursor(tables: &Arc<Tables>, run: &Run, fill_cache: bool) -> Result<BoxedCursor> {
    match &*run.fragments {
        [one] => Ok(Box::new(SliceCursor::new(tables, one, fill_cache)?)),
        _ => Ok(Box::new(ConcatCursor::new(tables.clone(), run.fragments.clone(), fill_cache))),
    }
}

/// Creates a cursor over a guard: its runs merged, newest first.
pub fn guard_cursor(tables: &Arc<Tables>, guard: &Guard, fill_cache: bool) -> Result<BoxedCursor> {
    if let [only] = guard.runs.as_slice() {
        return run_cursor(tables, only, fill_cache);
    }
    let mut runs = Vec::with_capacity(guard.runs.len());
    for run in &guard.runs {
        runs.push(run_cursor(tables, run, fill_cache)?);
    }
    Ok(Box::new(MergeCursor::new(tables.config().order.clone(), runs)))
}
