//! Model of a source: a sorted list with injected errors and deferred seeks.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::base::cursor::{Cursor, PrefetchStep};
use crate::base::key::{Kind, SeqNo};
use crate::base::order::KeyOrder;
use crate::error::{Error, Result};

/// An entry of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Vec<u8>,
    pub seqno: SeqNo,
    pub kind: Kind,
    pub value: Vec<u8>,
}

/// Compares in internal order.
pub fn internal(order: &KeyOrder, a: (&[u8], SeqNo), b: (&[u8], SeqNo)) -> Ordering {
    order.compare(a.0, b.0).then(b.1.cmp(&a.1))
}

/// A cursor over a sorted list. The move that lowers `fail_in` to 0 fails, and so does the seek to
/// a key that lowers `fail_in_seeks` to 0. With `deferring` above 0, it defers a seek up to
/// `deferring` times.
pub struct ListCursor {
    order: KeyOrder,
    pub entries: Vec<Entry>,
    at: Option<usize>,
    pub fail_in: usize,
    pub fail_in_seeks: usize,
    pub prefetches: Arc<AtomicUsize>,
    pub deferring: usize,
    /// Bound that serves as the key while a seek is deferred.
    bound: Option<Vec<u8>>,
}

impl ListCursor {
    pub fn new(order: &KeyOrder, mut entries: Vec<Entry>) -> ListCursor {
        entries.sort_by(|a, b| internal(order, (&a.key, a.seqno), (&b.key, b.seqno)));
        let (at, fail_in, fail_in_seeks) = (None, usize::MAX, usize::MAX);
        let (order, prefetches) = (order.clone(), Arc::default());
        let (deferring, bound) = (0, None);
        ListCursor { order, entries, at, fail_in, fail_in_seeks, prefetches, deferring, bound }
    }

    /// Returns a prefix of the key at `at` that sorts after `key`: the shortest one after skipping
    /// `less` shorter ones.
    fn bound(&self, at: usize, key: &[u8], less: usize) -> Option<Vec<u8>> {
        let found = &self.entries.get(at)?.key;
        let above = |len: &usize| {
            let order = self.order.compare(&found[..*len], found);
            self.order.compare(&found[..*len], key).is_gt() && order.is_le()
        };
        let lens: Vec<usize> = (0..=found.len()).filter(above).collect();
        lens.get(less.min(lens.len().saturating_sub(1))).map(|len| found[..*len].to_vec())
    }

    fn entry(&self) -> &Entry {
        &self.entries[self.at.expect("the cursor must be valid")]
    }

    fn before(&self, key: &[u8], seqno: SeqNo) -> usize {
        let less = |e: &Entry| internal(&self.order, (&e.key, e.seqno), (key, seqno)).is_lt();
        self.entries.iter().filter(|e| less(e)).count()
    }

    fn go(&mut self, at: Option<usize>) -> Result<()> {
        self.bound = None;
        self.at = at.filter(|&at| at < self.entries.len());
        self.fail_in -= 1;
        if self.fail_in == 0 || self.fail_in_seeks == 0 {
            self.at = None;
            return Err(Error::invalid("the list has ended"));
        }
        Ok(())
    }
}

impl Cursor for ListCursor {
    fn valid(&self) -> bool {
        self.at.is_some() || self.bound.is_some()
    }
    fn seek_deferred(&mut self, key: &[u8], seqno: SeqNo, _deepest: bool) -> Result<bool> {
        self.bound = match self.deferring {
            0 => None,
            _ => self.bound(self.before(key, seqno), key, 0),
        };
        self.at = None;
        if self.bound.is_none() {
            self.seek(key, seqno)?;
        }
        Ok(self.bound.is_some())
    }
    fn materialize(&mut self, key: &[u8], seqno: SeqNo) -> Result<bool> {
        let bound = self.bound.take().expect("the block is deferred");
        let next = self.bound(self.before(key, seqno), key, self.deferring - 1);
        self.bound = next.filter(|next| *next != bound);
        if self.bound.is_none() {
            self.seek(key, seqno)?;
        }
        Ok(self.bound.is_some())
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.go(Some(0))
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.go(self.entries.len().checked_sub(1))
    }
    fn prefetch_seek(&mut self, _key: &[u8], _step: PrefetchStep, _deepest: bool) {
        self.prefetches.fetch_add(1, Relaxed);
    }
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.fail_in_seeks -= 1;
        self.go(Some(self.before(key, seqno)))
    }
    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.fail_in_seeks -= 1;
        self.go(self.before(key, seqno).checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        self.go(self.at.map(|at| at + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.go(self.at.and_then(|at| at.checked_sub(1)))
    }
    fn key(&self) -> &[u8] {
        self.bound.as_ref().unwrap_or_else(|| &self.entry().key)
    }
    fn seqno(&self) -> SeqNo {
        self.entry().seqno
    }
    fn kind(&self) -> Kind {
        self.entry().kind
    }
    fn value(&self) -> &[u8] {
        &self.entry().value
    }
    fn release(&mut self) {
        (self.at, self.bound) = (None, None);
        self.prefetches.store(0, Relaxed);
    }
}
