//! Pool of iterators for reuse.
//!
//! Creating and dropping the cursors of an iterator takes longer than a seek, because of
//! allocations and reference counts. A finished iterator's cursors stay with the read state, and
//! the same thread's next iterator over that read state takes them.
//!
//! Invariants: pooled cursors are unpositioned and hold no block. They are dropped with their read
//! state, and keep nothing alive that the read state does not. An iterator takes them only if it
//! would create identical ones.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::ReadState;
use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::base::per_thread::PerThread;
use crate::base::range_delete::RangeDeleteView;
use crate::error::Result;
use crate::iter::merge::MergeCursor;
use crate::iter::operands::Resolver;
use crate::iter::visible::VisibleCursor;
use crate::tree::cursor::{BoxedCursor, ConcatCursor, guard_cursor, run_cursor};
use crate::tree::tables::Tables;

/// All cursors of an iterator, topmost last.
type ScanCursor = VisibleCursor<MergeCursor>;

/// A pooled iterator: the cursors over a read state, and the parameters of their creation.
pub(super) struct PooledIter {
    cursor: ScanCursor,
    tables: Arc<Tables>,
    fill_cache: bool,
    /// Number of non-empty memtables. A memtable has a cursor from its first entry on.
    filled_memtables: usize,
}

impl PooledIter {
    fn new(read_state: &ReadState, tables: &Arc<Tables>, fill_cache: bool) -> Result<PooledIter> {
        let order = &tables.config().order;
        let mut sources: Vec<BoxedCursor> = Vec::new();
        for memtable in read_state.memtables().filter(|memtable| memtable.has_entries()) {
            sources.push(Box::new(memtable.cursor()));
        }
        let filled_memtables = sources.len();
        for (number, level) in read_state.version.levels.iter().enumerate() {
            match level.guards.as_slice() {
                _ if level.is_empty() => {}
                [only] if number == 0 || only.runs.len() == 1 => {
                    for run in &only.runs {
                        sources.push(run_cursor(tables, run, fill_cache)?);
                    }
                }
                [only] => sources.push(guard_cursor(tables, only, fill_cache)?),
                _ => {
                    let level = level.clone();
                    sources.push(Box::new(ConcatCursor::new(tables.clone(), level, fill_cache)));
                }
            }
        }
        let merged = MergeCursor::new(order.clone(), sources);
        let walker = VisibleCursor::new(merged, order.clone(), 0, None);
        let walker = walker.with_thresholds(tables.thresholds());
        Ok(PooledIter { cursor: walker, tables: tables.clone(), fill_cache, filled_memtables })
    }

    /// Returns whether [`PooledIter::new`] would create identical cursors.
    fn fits(&self, read_state: &ReadState, tables: &Arc<Tables>, fill_cache: bool) -> bool {
        self.fill_cache == fill_cache
            && Arc::ptr_eq(&self.tables, tables)
            && self.filled_memtables
                == read_state.memtables().filter(|memtable| memtable.has_entries()).count()
    }
}

/// Pool of a read state: the cursors of each thread's last iterator.
pub(super) type IterPool = PerThread<PooledIter>;

/// Guard of a pooled iterator. Dropping it returns the cursors to the pool.
pub(super) struct PooledIterGuard {
    /// `Some` until the guard is dropped.
    iter: Option<Box<PooledIter>>,
    read_state: Arc<ReadState>,
}

impl PooledIterGuard {
    /// Returns unpositioned cursors over `read_state` for a reader at `seqno`.
    pub fn new(
        read_state: Arc<ReadState>,
        tables: &Arc<Tables>,
        (seqno, mut resolver, deletes): (SeqNo, Resolver, Option<Box<RangeDeleteView>>),
        fill_cache: bool,
    ) -> Result<PooledIterGuard> {
        if tables.values().is_used() {
            resolver.set_values(tables.values().clone());
        }
        let spare = read_state.iter_pool.take();
        let mut kept = match spare.filter(|kept| kept.fits(&read_state, tables, fill_cache)) {
            Some(kept) => kept,
            None => Box::new(PooledIter::new(&read_state, tables, fill_cache)?),
        };
        kept.cursor.reset(seqno, deletes);
        kept.cursor.set_resolver(resolver);
        Ok(PooledIterGuard { iter: Some(kept), read_state })
    }

    /// Returns further unpositioned cursors over the same read state, for a reader at the same
    /// sequence number.
    pub fn again(&self) -> Result<PooledIterGuard> {
        let kept = self.iter();
        let deletes = self.read_state.range_deletes(&kept.tables)?;
        let of = (kept.cursor.snapshot(), kept.cursor.resolver().clone(), deletes);
        PooledIterGuard::new(self.read_state.clone(), &kept.tables, of, kept.fill_cache)
    }

    /// Returns the read state.
    #[inline]
    pub fn read_state(&self) -> &ReadState {
        &self.read_state
    }

    #[inline]
    fn iter(&self) -> &PooledIter {
        self.iter.as_ref().expect("the guard holds its iterator until it is dropped")
    }

    /// Returns the open tables.
    #[inline]
    pub fn tables(&self) -> &Tables {
        &self.iter().tables
    }

    /// Returns the key order.
    #[inline]
    pub fn order(&self) -> &KeyOrder {
        &self.tables().config().order
    }
}

impl Deref for PooledIterGuard {
    type Target = ScanCursor;

    #[inline]
    fn deref(&self) -> &ScanCursor {
        &self.iter().cursor
    }
}

impl DerefMut for PooledIterGuard {
    #[inline]
    fn deref_mut(&mut self) -> &mut ScanCursor {
        &mut self.iter.as_mut().expect("the guard holds its iterator until it is dropped").cursor
    }
}

impl Drop for PooledIterGuard {
    fn drop(&mut self) {
        // After a panic of a comparator the cursors may be in any state, so they are not reused.
        let Some(mut kept) = self.iter.take().filter(|_| !std::thread::panicking()) else { return };
        kept.cursor.release();
        let second = self.read_state.iter_pool.put(kept);
        drop(second);
    }
}
