//! Cursors that wait for the next iterator.
//!
//! To make the cursors of an iterator and to drop them takes longer than a seek: memory to take and
//! give, users of shared things to count. What an iterator leaves is kept with its view, and the
//! thread's next iterator over that view takes it.
//!
//! What stays true: cursors that are kept stand nowhere and hold no block. They go with their view,
//! and keep alive nothing that it does not. They are taken only by an iterator that would make the
//! same ones.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::View;
use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::base::own_places::OwnPlaces;
use crate::base::range_delete::RangeDeleteView;
use crate::error::Result;
use crate::iter::merge::MergeCursor;
use crate::iter::visible::VisibleCursor;
use crate::tree::cursor::{BoxedCursor, ChainCursor, guard_cursor, run_cursor};
use crate::tree::tables::Tables;

/// All of an iterator's cursors, the topmost last.
type Walker = VisibleCursor<MergeCursor>;

/// The cursors over a view, and what they were made for.
pub(super) struct Kept {
    walker: Walker,
    tables: Arc<Tables>,
    fill_cache: bool,
    /// A memtable has a cursor from its first entry on.
    filled_memtables: usize,
}

impl Kept {
    fn new(view: &View, tables: &Arc<Tables>, fill_cache: bool) -> Result<Kept> {
        let order = &tables.config().order;
        let mut sources: Vec<BoxedCursor> = Vec::new();
        for memtable in view.memtables().filter(|memtable| memtable.has_entries()) {
            sources.push(Box::new(memtable.cursor()));
        }
        let filled_memtables = sources.len();
        for (number, level) in view.version.levels.iter().enumerate() {
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
                    sources.push(Box::new(ChainCursor::new(tables.clone(), level, fill_cache)));
                }
            }
        }
        let merged = MergeCursor::new(order.clone(), sources);
        let walker = VisibleCursor::new(merged, order.clone(), 0, None);
        Ok(Kept { walker, tables: tables.clone(), fill_cache, filled_memtables })
    }

    /// Whether it is what [`Kept::new`] would make.
    fn fits(&self, view: &View, tables: &Arc<Tables>, fill_cache: bool) -> bool {
        self.fill_cache == fill_cache
            && Arc::ptr_eq(&self.tables, tables)
            && self.filled_memtables
                == view.memtables().filter(|memtable| memtable.has_entries()).count()
    }
}

/// What a view keeps: what each thread's last iterator left.
pub(super) type Spares = OwnPlaces<Kept>;

/// Cursors on loan to an iterator; they go back when this is dropped.
pub(super) struct Lent {
    /// There until then.
    kept: Option<Box<Kept>>,
    view: Arc<View>,
}

impl Lent {
    /// Cursors over `view` for a reader at `seqno`, standing nowhere.
    pub fn new(
        view: Arc<View>,
        tables: &Arc<Tables>,
        (seqno, deletes): (SeqNo, Option<Box<RangeDeleteView>>),
        fill_cache: bool,
    ) -> Result<Lent> {
        let spare = view.spares.take();
        let mut kept = match spare.filter(|kept| kept.fits(&view, tables, fill_cache)) {
            Some(kept) => kept,
            None => Box::new(Kept::new(&view, tables, fill_cache)?),
        };
        kept.walker.reset(seqno, deletes);
        Ok(Lent { kept: Some(kept), view })
    }

    /// The view.
    #[inline]
    pub fn view(&self) -> &View {
        &self.view
    }

    #[inline]
    fn kept(&self) -> &Kept {
        self.kept.as_ref().expect("cursors are there until they are given back")
    }

    /// The open tables.
    #[inline]
    pub fn tables(&self) -> &Tables {
        &self.kept().tables
    }

    /// The order of keys.
    #[inline]
    pub fn order(&self) -> &KeyOrder {
        &self.tables().config().order
    }
}

impl Deref for Lent {
    type Target = Walker;

    #[inline]
    fn deref(&self) -> &Walker {
        &self.kept().walker
    }
}

impl DerefMut for Lent {
    #[inline]
    fn deref_mut(&mut self) -> &mut Walker {
        &mut self.kept.as_mut().expect("cursors are there until they are given back").walker
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A comparator that panicked may have left anything behind.
        let Some(mut kept) = self.kept.take().filter(|_| !std::thread::panicking()) else { return };
        kept.walker.rest();
        let second = self.view.spares.put(kept);
        drop(second);
    }
}
