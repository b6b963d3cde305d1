//! Layer 4: reads from a read state: the memtables and the version at one point in time.
//!
//! There is a read state for each tree, all of the same moment: the read state of tree 0 holds the
//! others. A read state is taken before the sequence number of the read. A commit between the two
//! is newer than the read state. It may be missing from the read, but only as a whole.

mod counted_get;
pub mod get;
mod get_merged;
mod iter_pool;
mod multi_get;
pub mod newer;
pub mod scan;
pub mod value_reader;

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::base::expiry;
use crate::base::keyspace::TreeId;
use crate::base::range_delete::RangeDeleteView;
use crate::base::separated::ValueBytes;
use crate::error::Result;
use crate::memtable::{MemSlice, Memtable, Memtables};
use crate::table::BlockSlice;
use crate::tree::forest::Forest;
use crate::tree::fragment::FileMeta;
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
    /// The read states of trees 1 and up. Theirs are empty.
    others: Vec<Arc<ReadState>>,
}

impl ReadState {
    /// Creates a read state. `frozen` must be newest first.
    pub fn new(
        active: Arc<Memtable>,
        frozen: Vec<Arc<Memtable>>,
        version: Arc<Version>,
    ) -> ReadState {
        let (iter_pool, others) = (iter_pool::IterPool::default(), Vec::new());
        ReadState { iter_pool, active, frozen, version, others }
    }

    /// Creates the read state of all trees, without immutable memtables.
    pub fn of_trees(memtables: &Memtables, forest: &Forest) -> ReadState {
        let trees = memtables.others().iter().zip(&forest.trees()[1..]);
        let others = trees.map(|(memtable, version)| {
            Arc::new(ReadState::new(memtable.clone(), Vec::new(), version.clone()))
        });
        let others = others.collect();
        let main = ReadState::new(memtables.main.clone(), Vec::new(), forest.main().clone());
        ReadState { others, ..main }
    }

    /// Returns the read state of a tree other than tree 0. A tree is in every read state that was
    /// made after the tree.
    #[inline]
    pub fn other(&self, tree: TreeId) -> Option<&Arc<ReadState>> {
        self.others.get((tree as usize).wrapping_sub(1))
    }

    /// Returns the read states of trees 1 and up.
    pub fn others(&self) -> &[Arc<ReadState>] {
        &self.others
    }

    /// Returns the version of `tree`.
    pub fn version_of(&self, tree: TreeId) -> Option<&Arc<Version>> {
        if tree == 0 { Some(&self.version) } else { Some(&self.other(tree)?.version) }
    }

    /// Returns each file of every tree once, sorted by number.
    pub fn files(&self) -> Vec<Arc<FileMeta>> {
        let mut files = self.version.files();
        if !self.others.is_empty() {
            files.extend(self.others.iter().flat_map(|other| other.version.files()));
            files.sort_by_key(|file| file.number);
        }
        files
    }

    /// Returns the number of entries and range tombstones in active memtables.
    pub fn active_entries(&self) -> usize {
        let own = self.active.len() + self.active.range_delete_count();
        own + self.others.iter().map(|other| other.active_entries()).sum::<usize>()
    }

    /// Returns the memory in use by active memtables, in bytes.
    pub fn active_bytes(&self) -> u64 {
        let others = self.others.iter().map(|other| &other.active);
        let used = others.filter(|memtable| !memtable.is_empty());
        self.active.memory_bytes() as u64 + used.map(|m| m.memory_bytes() as u64).sum::<u64>()
    }

    /// Returns the memory in use by immutable memtables, in bytes.
    pub fn frozen_bytes(&self) -> u64 {
        let own: u64 = self.frozen.iter().map(|m| m.memory_bytes() as u64).sum();
        own + self.others.iter().map(|other| other.frozen_bytes()).sum::<u64>()
    }

    /// Returns the read state after all memtables became immutable and `fresh` took their place.
    pub fn after_freeze(&self, fresh: &Memtables) -> ReadState {
        let others = self.others.iter().zip(fresh.others());
        let others = others.map(|(other, fresh)| Arc::new(other.freeze_one(fresh))).collect();
        ReadState { others, ..self.freeze_one(&fresh.main) }
    }

    fn freeze_one(&self, fresh: &Arc<Memtable>) -> ReadState {
        let mut frozen = Vec::with_capacity(self.frozen.len() + 1);
        frozen.push(self.active.clone());
        frozen.extend(self.frozen.iter().cloned());
        ReadState::new(fresh.clone(), frozen, self.version.clone())
    }

    /// Returns the read state after the immutable memtables `flushed` became tables of `forest`.
    pub fn after_flush(&self, flushed: &Memtables, forest: &Forest) -> ReadState {
        let without = |state: &ReadState, gone: &Arc<Memtable>, version: &Arc<Version>| {
            let keep = |memtable: &&Arc<Memtable>| !Arc::ptr_eq(memtable, gone);
            let frozen = state.frozen.iter().filter(keep).cloned().collect();
            ReadState::new(state.active.clone(), frozen, version.clone())
        };
        // A tree may be newer than the memtables.
        let others = self.others.iter().zip(&forest.trees()[1..]).enumerate();
        let others = others.map(|(at, (other, version))| match flushed.others().get(at) {
            Some(gone) => Arc::new(without(other, gone, version)),
            None => other.clone(),
        });
        let others = others.collect();
        ReadState { others, ..without(self, &flushed.main, forest.main()) }
    }

    /// Returns the read state with the versions of `forest`. The read states of trees whose version
    /// is the same are kept.
    pub fn with_forest(&self, forest: &Forest) -> ReadState {
        let others = self.others.iter().zip(&forest.trees()[1..]).map(|(other, version)| {
            if Arc::ptr_eq(&other.version, version) {
                return other.clone();
            }
            Arc::new(ReadState::new(other.active.clone(), other.frozen.clone(), version.clone()))
        });
        let others = others.collect();
        let main = ReadState::new(self.active.clone(), self.frozen.clone(), forest.main().clone());
        ReadState { others, ..main }
    }

    /// Returns the read state with one more tree.
    pub fn with_another(&self, active: Arc<Memtable>, version: Arc<Version>) -> ReadState {
        let mut others = self.others.clone();
        others.push(Arc::new(ReadState::new(active, Vec::new(), version)));
        let same = ReadState::new(self.active.clone(), self.frozen.clone(), self.version.clone());
        ReadState { others, ..same }
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
    /// A stored value in a memtable that begins with the time at which it expires.
    Expiring(MemSlice),
    /// A copy: a value made of merge operands, or the value of a write that is not committed.
    Owned(Arc<[u8]>),
    /// A value from a value file.
    Separated(ValueBytes),
}

impl Slice {
    /// Wraps the stored value of a put that expires.
    pub(crate) fn expiring(stored: MemSlice) -> Slice {
        Slice(Pinned::Expiring(stored))
    }

    /// Wraps a value from a value file.
    pub(crate) fn separated(value: ValueBytes) -> Slice {
        Slice(Pinned::Separated(value))
    }

    /// Returns a slice that holds a copy of `value`.
    pub(crate) fn copied(value: &[u8]) -> Slice {
        Slice(Pinned::Owned(Arc::from(value)))
    }
}

impl From<Arc<[u8]>> for Slice {
    fn from(value: Arc<[u8]>) -> Slice {
        Slice(Pinned::Owned(value))
    }
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
            Pinned::Expiring(stored) => expiry::split(stored).1,
            Pinned::Owned(value) => value,
            Pinned::Separated(value) => value,
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
