//! Runs, guards and levels.

use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

use super::fragment::{FileMeta, Fragment};
use super::key_head_index::KeyHeadIndex;
use crate::base::key::head16;
use crate::base::order::KeyOrder;
use crate::base::sync::atomic::AtomicU64;

/// The slices of a run: disjoint, in key order, and cheap to clone.
#[derive(Debug, Clone)]
pub struct Fragments(Arc<FragmentList>);

#[derive(Debug)]
struct FragmentList {
    items: Vec<Arc<Fragment>>,
    /// Start keys of the slices.
    starts: KeyHeadIndex,
    /// Upper bounds of the slices; see [`Fragment::last`].
    ends: KeyHeadIndex,
}

impl Fragments {
    /// Creates the list from slices that are sorted and disjoint under `order`.
    pub fn new(order: &KeyOrder, items: Vec<Arc<Fragment>>) -> Fragments {
        let starts = KeyHeadIndex::new(order, items.iter().map(|f| f.first(order)));
        let ends = KeyHeadIndex::new(order, items.iter().map(|f| f.last(order).0));
        Fragments(Arc::new(FragmentList { items, starts, ends }))
    }

    /// Returns the number of slices that end before `key`.
    #[inline]
    pub fn ended_before(&self, order: &KeyOrder, key: &[u8]) -> usize {
        let list = &*self.0;
        list.ends.partition(list.items.len(), head16(key), |at| {
            let (last, exclusive) = list.items[at].last(order);
            match order.compare(last, key) {
                Ordering::Less => true,
                Ordering::Equal => exclusive,
                Ordering::Greater => false,
            }
        })
    }

    /// Returns whether slice `at` starts before `key`, or at `key` if `or_at` is set.
    #[inline]
    pub fn starts_before(&self, order: &KeyOrder, at: usize, key: &[u8], or_at: bool) -> bool {
        let by_head = self.0.starts.compare(at, head16(key));
        let start = by_head.unwrap_or_else(|| order.compare(self.0.items[at].first(order), key));
        start.is_lt() || (or_at && start.is_eq())
    }

    /// Returns the slice that may hold `key`.
    #[inline]
    pub fn candidate(&self, order: &KeyOrder, key: &[u8]) -> Option<&Arc<Fragment>> {
        let at = self.ended_before(order, key);
        let fragment = self.0.items.get(at)?;
        self.starts_before(order, at, key, true).then_some(fragment)
    }
}

impl Deref for Fragments {
    type Target = [Arc<Fragment>];

    fn deref(&self) -> &[Arc<Fragment>] {
        &self.0.items
    }
}

impl<'a> IntoIterator for &'a Fragments {
    type Item = &'a Arc<Fragment>;
    type IntoIter = std::slice::Iter<'a, Arc<Fragment>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.items.iter()
    }
}

/// A run: slices that do not overlap, in key order.
#[derive(Debug, Clone)]
pub struct Run {
    /// Age of the run within its guard. A larger number is newer.
    pub order: u64,
    /// The slices.
    pub fragments: Fragments,
}

impl Run {
    /// Returns the estimated size in bytes.
    pub fn bytes(&self) -> u64 {
        self.fragments.iter().map(|f| f.est_bytes()).sum()
    }
}

/// Number of runs that seeks searched beyond the first.
#[derive(Debug, Default)]
pub struct SeekStats(pub(super) AtomicU64);

impl Clone for SeekStats {
    fn clone(&self) -> SeekStats {
        SeekStats::default()
    }
}

/// A key range of a level with its runs, newest first.
#[derive(Debug, Clone)]
pub struct Guard {
    /// First key of the guard. `None` is the beginning of the key space.
    pub lo: Option<Vec<u8>>,
    /// First key of the next guard. `None` is the end of the key space.
    pub hi: Option<Vec<u8>>,
    /// The runs.
    pub runs: Vec<Run>,
    /// Seek statistics of the guard.
    pub seek_stats: SeekStats,
}

impl Guard {
    /// Returns the estimated size in bytes.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(Run::bytes).sum()
    }

    /// Returns the slices with the age of their run, newest run first.
    pub fn fragments(&self) -> impl Iterator<Item = (u64, &Arc<Fragment>)> {
        self.runs.iter().flat_map(|run| run.fragments.iter().map(|f| (run.order, f)))
    }
}

/// A part of a file that belongs to a level, before the level is divided into guards.
#[derive(Debug, Clone)]
pub struct FilePart {
    /// Age of the part's run.
    pub order: u64,
    /// The file.
    pub file: Arc<FileMeta>,
    /// First key of the part.
    pub lo: Option<Vec<u8>>,
    /// First key after the part.
    pub hi: Option<Vec<u8>>,
}

/// A level: a partition of the key space into guards.
#[derive(Debug, Clone, Default)]
pub struct Level {
    /// The guards in key order. There is always at least one.
    pub guards: Vec<Arc<Guard>>,
    /// Start keys of all guards except the first.
    pub(super) bounds: Vec<Vec<u8>>,
    /// Key-head index of `bounds`.
    pub(super) bounds_index: KeyHeadIndex,
    /// The file parts from which the guards were built.
    pub(super) pieces: Vec<FilePart>,
}

impl Level {
    /// Returns whether the level holds no files.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the estimated size in bytes.
    pub fn bytes(&self) -> u64 {
        self.guards.iter().map(|g| g.bytes()).sum()
    }

    /// Returns the index of the guard that holds `key`.
    #[inline]
    pub fn index_of(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.bounds_index.partition(self.bounds.len(), head16(key), |at| {
            order.compare(&self.bounds[at], key) != Ordering::Greater
        })
    }

    /// Returns the file parts of the level.
    pub fn parts(&self) -> &[FilePart] {
        &self.pieces
    }

    /// Returns the start keys of all guards except the first.
    pub fn bounds(&self) -> &[Vec<u8>] {
        &self.bounds
    }
}
