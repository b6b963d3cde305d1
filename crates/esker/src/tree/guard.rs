//! Runs, guards and levels.

use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

use super::fence::Fence;
use super::fragment::{FileMeta, Fragment};
use super::heat::Heat;
use crate::base::key::head16;
use crate::base::order::KeyOrder;

/// The slices of a run: disjoint, in key order, and cheap to share.
#[derive(Debug, Clone)]
pub struct Fragments(Arc<FragmentList>);

#[derive(Debug)]
struct FragmentList {
    items: Vec<Arc<Fragment>>,
    /// Where slices start.
    firsts: Fence,
    /// Keys after which slices show nothing; see [`Fragment::last`].
    lasts: Fence,
}

impl Fragments {
    /// A run's slices, sorted and disjoint under `order`.
    pub fn new(order: &KeyOrder, items: Vec<Arc<Fragment>>) -> Fragments {
        let firsts = Fence::new(order, items.iter().map(|f| f.first(order)));
        let lasts = Fence::new(order, items.iter().map(|f| f.last(order).0));
        Fragments(Arc::new(FragmentList { items, firsts, lasts }))
    }

    /// How many slices end before `key`.
    #[inline]
    pub fn ended_before(&self, order: &KeyOrder, key: &[u8]) -> usize {
        let list = &*self.0;
        list.lasts.partition(list.items.len(), head16(key), |at| {
            let (last, exclusive) = list.items[at].last(order);
            match order.compare(last, key) {
                Ordering::Less => true,
                Ordering::Equal => exclusive,
                Ordering::Greater => false,
            }
        })
    }

    /// Whether slice `at` starts before `key`, or at it if `or_at`.
    #[inline]
    pub fn starts_before(&self, order: &KeyOrder, at: usize, key: &[u8], or_at: bool) -> bool {
        let by_head = self.0.firsts.compare(at, head16(key));
        let start = by_head.unwrap_or_else(|| order.compare(self.0.items[at].first(order), key));
        start.is_lt() || (or_at && start.is_eq())
    }

    /// The slice that may show `key`.
    #[inline]
    pub fn holding(&self, order: &KeyOrder, key: &[u8]) -> Option<&Arc<Fragment>> {
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

/// Slices that do not overlap, in key order.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its age within the guard: larger is newer.
    pub order: u64,
    /// The slices.
    pub fragments: Fragments,
}

impl Run {
    /// Roughly its bytes.
    pub fn bytes(&self) -> u64 {
        self.fragments.iter().map(|f| f.est_bytes()).sum()
    }
}

/// A key range with its runs, newest first.
#[derive(Debug, Clone)]
pub struct Guard {
    /// The first key; `None` is the beginning.
    pub lo: Option<Vec<u8>>,
    /// The first key of the next guard; `None` is the end.
    pub hi: Option<Vec<u8>>,
    /// The runs.
    pub runs: Vec<Run>,
    /// How much seeks would gain by a merge.
    pub heat: Heat,
}

impl Guard {
    /// Roughly its bytes.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(Run::bytes).sum()
    }

    /// Its slices, newest run first.
    pub fn fragments(&self) -> impl Iterator<Item = (u64, &Arc<Fragment>)> {
        self.runs.iter().flat_map(|run| run.fragments.iter().map(|f| (run.order, f)))
    }
}

/// What a level holds of a file, before it is cut into guards.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The age of the run it belongs to.
    pub order: u64,
    /// The file.
    pub file: Arc<FileMeta>,
    /// The first key shown.
    pub lo: Option<Vec<u8>>,
    /// The first key not shown any more.
    pub hi: Option<Vec<u8>>,
}

/// A level: a partition of the key space into guards.
#[derive(Debug, Clone, Default)]
pub struct Level {
    /// The guards in key order; never none.
    pub guards: Vec<Arc<Guard>>,
    /// Where guards but the first start.
    pub(super) bounds: Vec<Vec<u8>>,
    /// The same, to search.
    pub(super) fence: Fence,
    /// What the guards were cut from.
    pub(super) pieces: Vec<Piece>,
}

impl Level {
    /// Whether nothing is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Roughly its bytes.
    pub fn bytes(&self) -> u64 {
        self.guards.iter().map(|g| g.bytes()).sum()
    }

    /// The index of the guard that holds `key`.
    #[inline]
    pub fn index_of(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.fence.partition(self.bounds.len(), head16(key), |at| {
            order.compare(&self.bounds[at], key) != Ordering::Greater
        })
    }

    /// Where guards but the first start.
    pub fn bounds(&self) -> &[Vec<u8>] {
        &self.bounds
    }
}
