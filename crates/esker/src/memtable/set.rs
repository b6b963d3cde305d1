//! The memtables of all trees between two freezes.
//!
//! Invariants: tree `n` has memtable `n`. All are frozen together and share their logs.

use std::sync::Arc;

use super::Memtable;
use crate::base::key::SeqNo;
use crate::base::keyspace::TreeId;

/// One memtable for each tree. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Memtables {
    /// The memtable of tree 0.
    pub main: Arc<Memtable>,
    /// The memtables of trees 1 and up.
    others: Arc<[Arc<Memtable>]>,
}

impl Memtables {
    /// Creates a set from the memtable of tree 0 and those of trees 1 and up.
    pub fn new(main: Arc<Memtable>, others: Vec<Arc<Memtable>>) -> Memtables {
        Memtables { main, others: others.into() }
    }

    /// Returns the same set with the memtable of one more tree.
    pub fn with_another(&self, memtable: Arc<Memtable>) -> Memtables {
        let others = self.others.iter().cloned().chain([memtable]).collect();
        Memtables { main: self.main.clone(), others }
    }

    /// Returns the memtable of `tree`.
    #[inline]
    pub fn of(&self, tree: TreeId) -> Option<&Arc<Memtable>> {
        match tree {
            0 => Some(&self.main),
            tree => self.others.get(tree as usize - 1),
        }
    }

    /// Returns the memtables by the number of their tree.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.main).chain(self.others.iter())
    }

    /// Returns the memtables of trees 1 and up.
    pub fn others(&self) -> &[Arc<Memtable>] {
        &self.others
    }

    /// Returns the bytes in use. See [`Memtable::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.main.memory_bytes() + self.others_bytes()
    }

    /// Returns the bytes in use by trees 1 and up. A memtable without content counts as none.
    pub fn others_bytes(&self) -> usize {
        let used = self.others.iter().filter(|memtable| !memtable.is_empty());
        used.map(|memtable| memtable.memory_bytes()).sum()
    }

    /// Returns the bytes of written data. See [`Memtable::data_bytes`].
    pub fn data_bytes(&self) -> usize {
        self.iter().map(|memtable| memtable.data_bytes()).sum()
    }

    /// Returns whether no memtable has entries or range tombstones.
    pub fn is_empty(&self) -> bool {
        self.iter().all(|memtable| memtable.is_empty())
    }

    /// Returns the largest number of range tombstones in one memtable.
    pub fn range_deletes_max(&self) -> usize {
        self.iter().map(|memtable| memtable.range_delete_count()).max().unwrap_or(0)
    }

    /// Returns the greatest sequence number of all entries and range tombstones.
    pub fn seqno_max(&self) -> Option<SeqNo> {
        self.iter().filter_map(|memtable| memtable.seqno_range()).map(|(_, last)| last).max()
    }
}
