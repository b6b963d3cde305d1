//! Layer 4: answering from a view: the memtables and the version of one moment.
//!
//! A view is taken before the sequence number it is read at; whatever is committed between the two
//! is newer than the read and may be missing from it, but never in part.

pub mod get;
mod many;
pub mod scan;
mod spare;

use std::ops::Deref;
use std::sync::Arc;

use crate::base::range_delete::RangeDeleteView;
use crate::error::Result;
use crate::memtable::{MemSlice, Memtable};
use crate::table::BlockSlice;
use crate::tree::tables::Tables;
use crate::tree::version::Version;

/// Everything a read needs, unchanging while it is held.
pub struct View {
    /// Cursors over all that follows.
    spares: spare::Spares,
    /// The memtable that takes writes.
    pub active: Arc<Memtable>,
    /// Frozen memtables, newest first.
    pub frozen: Vec<Arc<Memtable>>,
    /// The tables.
    pub version: Arc<Version>,
}

impl View {
    /// A view of these; `frozen` newest first.
    pub fn new(active: Arc<Memtable>, frozen: Vec<Arc<Memtable>>, version: Arc<Version>) -> View {
        View { spares: spare::Spares::default(), active, frozen, version }
    }

    /// The memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }

    /// Every range tombstone in the view, cut to the slices that show it; `None` without any.
    #[inline]
    pub fn range_deletes(&self, tables: &Tables) -> Result<Option<Box<RangeDeleteView>>> {
        let none = self.version.fragments_with_range_deletes().is_empty()
            && self.memtables().all(|memtable| memtable.range_delete_count() == 0);
        if none { Ok(None) } else { self.some_range_deletes(tables) }
    }

    #[cold]
    fn some_range_deletes(&self, tables: &Tables) -> Result<Option<Box<RangeDeleteView>>> {
        let sets = self.memtables().flat_map(|memtable| memtable.range_delete_sets()).collect();
        Ok(RangeDeleteView::new(sets, self.version.range_delete_runs(tables)?))
    }
}

/// A value pinned where it lies: no copy was made, and it stays readable while this is held, even
/// when the key is overwritten or the store closed.
///
/// Holding many slices holds their blocks and memtables in memory; copy what is kept long.
#[derive(Clone)]
pub struct Slice(Pinned);

#[derive(Clone)]
enum Pinned {
    Memtable(MemSlice),
    Block(BlockSlice),
}

impl From<MemSlice> for Slice {
    fn from(slice: MemSlice) -> Slice {
        Slice(Pinned::Memtable(slice))
    }
}

impl From<BlockSlice> for Slice {
    fn from(slice: BlockSlice) -> Slice {
        Slice(Pinned::Block(slice))
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Pinned::Memtable(slice) => slice,
            Pinned::Block(slice) => slice,
        }
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Slice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Slice {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}
