//! Merges cursors in internal order, in both directions.
//!
//! The valid children are kept in a *sorted merge list*. The first list entry is the position of
//! the merge. The second one is the limit that the first child must stay before. A move costs one
//! comparison while the same child stays first. Otherwise a binary search finds the child's new
//! place. (A loser tree compares at each of its levels and does not know the second child.) Each
//! list entry holds the first sixteen bytes of its key as a number, if the key order allows it, so
//! that few comparisons touch keys.
//!
//! A seek is *deferred* for children that know, without a search, that their entry is not near
//! ([`Cursor::seek_deferred`]). They are materialized when the merge reaches their bound.
//!
//! Invariants while the merge is valid:
//! 1. Going forward, every child without a deferred seek is positioned on its first entry at or
//!    after the merge's position. A deferred child will be positioned there when it is
//!    materialized. It is first in the list only if the merge itself is deferred. Going backward,
//!    every child is positioned on its last entry at or before the merge's position.
//! 2. The list holds exactly the valid children, in the order in which the merge reaches them. With
//!    one child the list is empty, and the merge is that child.
//! 3. With two or more list entries, the head of each equals the head of its child's key.

use crate::base::cursor::{Cursor, PrefetchStep};
use crate::base::key::{Kind, SeqNo, head16};
use crate::base::order::KeyOrder;
use crate::base::rows::RowBatch;
use crate::error::Result;

/// A source of a merge.
type Child = Box<dyn Cursor + Send>;

/// A list entry: one valid child.
#[derive(Clone, Copy)]
struct MergeEntry {
    /// First sixteen bytes of the key, or 0 when the order has no heads.
    head: u128,
    child: u32,
    /// Whether the child is deferred, so that its key is a bound.
    deferred: bool,
}

/// The union of sorted sources. An entry that two sources share appears once for each.
pub struct MergeCursor {
    order: KeyOrder,
    children: Vec<Child>,
    sorted: Vec<MergeEntry>,
    valid: bool,
    /// Child of the first list entry.
    top: usize,
    forward: bool,
    /// Position of the merge at the last change of direction.
    pivot: Vec<u8>,
    /// Seek target of the deferred children.
    seek_target: (Vec<u8>, SeqNo),
}

impl MergeCursor {
    /// Creates a merge of `sources`, each sorted in internal order under `order`, the deepest last.
    /// It is unpositioned until the first seek.
    pub fn new(order: KeyOrder, sources: Vec<Box<dyn Cursor + Send>>) -> MergeCursor {
        let entries = if sources.len() > 1 { sources.len() } else { 0 };
        MergeCursor {
            order,
            children: sources,
            sorted: Vec::with_capacity(entries),
            valid: false,
            top: 0,
            forward: true,
            pivot: Vec::new(),
            seek_target: (Vec::new(), 0),
        }
    }

    /// Returns whether `a` comes before `b` in the current direction.
    #[inline]
    fn before(&self, a: MergeEntry, b: MergeEntry) -> bool {
        if a.head != b.head {
            return (a.head < b.head) == self.forward;
        }
        self.before_by_key(a, b)
    }

    fn before_by_key(&self, a: MergeEntry, b: MergeEntry) -> bool {
        let (x, y) = (&self.children[a.child as usize], &self.children[b.child as usize]);
        let by_key = self.order.compare(x.key(), y.key());
        if a.deferred || b.deferred {
            // A deferred child comes first, because it may hold a newer version of the key that is
            // its bound.
            return by_key.then(b.deferred.cmp(&a.deferred)).then(a.child.cmp(&b.child)).is_lt();
        }
        let by_version = || y.seqno().cmp(&x.seqno());
        by_key.then_with(by_version).then(a.child.cmp(&b.child)).is_lt() == self.forward
    }

    #[inline]
    fn entry(&self, child: usize, deferred: bool) -> MergeEntry {
        let head = if self.order.has_heads() { head16(self.children[child].key()) } else { 0 };
        MergeEntry { head, child: child as u32, deferred }
    }

    /// Rebuilds the list from the positions of the children, none of which is deferred.
    fn build(&mut self, forward: bool) {
        self.forward = forward;
        if let [only] = self.children.as_slice() {
            self.valid = only.valid();
            return;
        }
        let mut sorted = std::mem::take(&mut self.sorted);
        sorted.clear();
        let positioned = (0..self.children.len()).filter(|&child| self.children[child].valid());
        sorted.extend(positioned.map(|child| self.entry(child, false)));
        self.sort(sorted);
    }

    /// Sorts the list entries of all valid children.
    fn sort(&mut self, mut sorted: Vec<MergeEntry>) {
        sorted.sort_unstable_by(|&a, &b| {
            if a.child == b.child {
                std::cmp::Ordering::Equal
            } else if self.before(a, b) {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            }
        });
        self.valid = !sorted.is_empty();
        self.top = sorted.first().map_or(0, |entry| entry.child as usize);
        self.sorted = sorted;
    }

    /// Moves every child, then rebuilds the list. After an error the merge is unpositioned.
    fn place(&mut self, forward: bool, go: impl Fn(&mut Child) -> Result<()>) -> Result<()> {
        self.valid = false;
        self.children.iter_mut().try_for_each(go)?;
        self.build(forward);
        Ok(())
    }

    /// Reverses the direction. Every child moves past the merge's position in the new direction.
    #[cold]
    fn reverse(&mut self, forward: bool) -> Result<()> {
        let top = self.top;
        super::copy_into(&mut self.pivot, self.children[top].key());
        let seqno = self.children[top].seqno();
        self.valid = false;
        for (at, child) in self.children.iter_mut().enumerate() {
            match (at == top, forward) {
                (true, true) => child.next()?,
                (true, false) => child.prev()?,
                (false, true) => child.seek(&self.pivot, seqno)?,
                (false, false) => child.seek_before(&self.pivot, seqno)?,
            }
        }
        self.build(forward);
        Ok(())
    }

    /// Moves the first list entry to its new place after its child has moved. `deferred` says
    /// whether the child is deferred.
    #[inline]
    fn settle(&mut self, deferred: bool) {
        if self.children.len() == 1 {
            self.valid = self.children[0].valid();
        } else if !self.children[self.top].valid() {
            self.sorted.remove(0);
            self.valid = !self.sorted.is_empty();
            self.top = self.sorted.first().map_or(0, |entry| entry.child as usize);
        } else {
            self.valid = true;
            let moved = self.entry(self.top, deferred);
            self.sorted[0] = moved;
            if self.sorted.len() > 1 && !self.before(moved, self.sorted[1]) {
                self.sink(moved);
            }
        }
    }

    /// Returns whether the first list entry belongs to a deferred child.
    #[inline]
    fn is_late(&self) -> bool {
        self.sorted.first().is_some_and(|entry| entry.deferred)
    }

    /// Materializes deferred children until the first list entry is not deferred.
    #[cold]
    fn load_first(&mut self) -> Result<()> {
        let (key, seqno) = (std::mem::take(&mut self.seek_target.0), self.seek_target.1);
        let mut done = Ok(true);
        while self.is_late() && done.is_ok() {
            done = self.materialize(&key, seqno);
        }
        self.seek_target.0 = key;
        done.map(drop)
    }

    /// Moves the first list entry, which belongs after the second, to its place.
    fn sink(&mut self, moved: MergeEntry) {
        let (mut low, mut high) = (2, self.sorted.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.before(moved, self.sorted[middle]) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.sorted.copy_within(1..low, 0);
        self.sorted[low - 1] = moved;
        self.top = self.sorted[0].child as usize;
    }
}

impl Cursor for MergeCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.place(true, |child| child.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.place(false, |child| child.seek_to_last())
    }

    fn prefetch_seek(&mut self, key: &[u8], step: PrefetchStep, deepest: bool) {
        if let Some((last, others)) = self.children.split_last_mut() {
            others.iter_mut().for_each(|child| child.prefetch_seek(key, step, false));
            last.prefetch_seek(key, step, deepest);
        }
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        // The children's CPU cache misses overlap.
        if self.children.len() > 1 {
            self.prefetch_seek(key, PrefetchStep::Index, true);
            self.prefetch_seek(key, PrefetchStep::Block, true);
        }
        if self.seek_deferred(key, seqno, true)? { self.load_first() } else { Ok(()) }
    }

    fn seek_deferred(&mut self, key: &[u8], seqno: SeqNo, deepest: bool) -> Result<bool> {
        if self.children.len() < 2 {
            self.place(true, |child| child.seek(key, seqno))?;
            return Ok(false);
        }
        self.valid = false;
        self.forward = true;
        let mut sorted = std::mem::take(&mut self.sorted);
        sorted.clear();
        let count = self.children.len();
        for (at, child) in self.children.iter_mut().enumerate() {
            match child.seek_deferred(key, seqno, deepest && at + 1 == count) {
                Ok(deferred) if child.valid() => {
                    sorted.push(MergeEntry { head: 0, child: at as u32, deferred })
                }
                Ok(_) => {}
                Err(error) => {
                    // The remaining children were prefetched for this seek, which will not come.
                    self.children.iter_mut().for_each(|child| child.release());
                    return Err(error);
                }
            }
        }
        // Keys are read only after all seeks, because a prefetched key may not have arrived yet.
        sorted
            .iter_mut()
            .for_each(|entry| *entry = self.entry(entry.child as usize, entry.deferred));
        if sorted.iter().any(|entry| entry.deferred) {
            super::copy_into(&mut self.seek_target.0, key);
            self.seek_target.1 = seqno;
        }
        self.sort(sorted);
        Ok(self.is_late())
    }

    fn materialize(&mut self, key: &[u8], seqno: SeqNo) -> Result<bool> {
        self.valid = false;
        let deferred = self.children[self.top].materialize(key, seqno)?;
        self.settle(deferred);
        Ok(self.is_late())
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.place(false, |child| child.seek_before(key, seqno))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        if !self.forward {
            return self.reverse(true);
        }
        if let Err(error) = self.children[self.top].next() {
            self.valid = false;
            return Err(error);
        }
        self.settle(false);
        if self.is_late() { self.load_first() } else { Ok(()) }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        if self.forward {
            return self.reverse(false);
        }
        if let Err(error) = self.children[self.top].prev() {
            self.valid = false;
            return Err(error);
        }
        self.settle(false);
        Ok(())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.children[self.top].key()
    }

    #[inline]
    fn seqno(&self) -> SeqNo {
        self.children[self.top].seqno()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.children[self.top].kind()
    }

    #[inline]
    fn version(&self) -> (SeqNo, Kind) {
        self.children[self.top].version()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.children[self.top].value()
    }

    fn release(&mut self) {
        self.valid = false;
        self.sorted.clear();
        super::empty(&mut self.pivot);
        super::empty(&mut self.seek_target.0);
        self.children.iter_mut().for_each(|child| child.release());
    }

    fn row_batch(&self, snapshot: SeqNo, forward: bool) -> Option<RowBatch> {
        debug_assert_eq!(forward, self.forward, "the merge last moved in the other direction");
        let batch = self.children[self.top].row_batch(snapshot, forward)?;
        let Some(next) = self.sorted.get(1) else { return Some(batch) };
        let key = self.children[next.child as usize].key();
        if forward { batch.before(&self.order, key) } else { batch.after(&self.order, key) }
    }

    fn move_to_row(&mut self, row: usize) {
        self.children[self.top].move_to_row(row);
        if self.sorted.len() > 1 {
            self.sorted[0] = self.entry(self.top, false);
        }
    }
}
