//! Layer 4: reads from a read state: the memtables and the version at one point in time.
//!
//! A read state is taken before the sequence number of the read. A commit between the two is newer
//! than the read state. It may be missing from the read, but only as a whole.

pub mod get;
mod iter_pool;
mod multi_get;
pub mod scan;

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::base::range_delete::RangeDeleteView;
use crate::error::Result;
use crate::memtable::{MemSlice, Memtable};
use crate::table::BlockSlice;
use crate::tree::tables::Tables;
use crate::tree::version::Version;

/// Read state: everything that a read needs. It does not change while it is held.
pub struct ReadState {
    /// Pool of iterators over this read state.
    iter_pool: iter_pool::IterPool,
    /// The active memtable.
    pub active: Arc<Memtable>,
    /// Immutable memtables, newest first.
    pub frozen: Vec<Arc<Memtable>>,
    /// The version of the table files.
    pub version: Arc<Version>,
}

impl ReadState {
    /// Creates a read state. `frozen` must be newest first.
    pub fn new(
        active: Arc<Memtable>,
        frozen: Vec<Arc<Memtable>>,
        version: Arc<Version>,
    ) -> ReadState {
        ReadState { iter_pool: iter_pool::IterPool::default(), active, frozen, version }
    }

    /// Returns the memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }

    /// Returns all range tombstones of the read state, cut to the bounds of their slices. Returns
    /// `None` if there are none.
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

/// A pinned value, read without a copy. It stays readable while the slice is held, even after the
/// key is overwritten or the store is closed.
///
/// A slice keeps its block or memtable in memory. Copy values that are kept for long.
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

impl Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Slice {
    fn eq(&self, other: &Slice) -> bool {
        **self == **other
    }
}

impl Eq for Slice {}

impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Slice) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slice {
    /// Compares bytewise, whatever the key order of the store.
    fn cmp(&self, other: &Slice) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Slice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As a slice of bytes, which `Borrow` requires.
        (**self).hash(state);
    }
}

impl PartialEq<[u8]> for Slice {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for Slice {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Slice {
    fn eq(&self, other: &[u8; N]) -> bool {
        **self == *other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Slice {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == **other
    }
}

impl PartialEq<Vec<u8>> for Slice {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

impl PartialEq<str> for Slice {
    fn eq(&self, other: &str) -> bool {
        **self == *other.as_bytes()
    }
}

impl PartialEq<&str> for Slice {
    fn eq(&self, other: &&str) -> bool {
        **self == *other.as_bytes()
    }
}

impl From<Slice> for Vec<u8> {
    fn from(slice: Slice) -> Vec<u8> {
        slice.to_vec()
    }
}
