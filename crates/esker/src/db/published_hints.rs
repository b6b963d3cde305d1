//! The empty-range hints of a tree as readers see them ([`crate::iter::hints`]).
//!
//! Invariants: only the holder of the commit lock publishes a list.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::iter::hints::Hints;

/// The hints of a tree as readers see them, as of the last commit.
#[derive(Default)]
pub(crate) struct PublishedHints {
    list: ArcSwap<Hints>,
    /// Whether the list is nonempty, so that readers can skip loading an empty one.
    any: AtomicBool,
}

impl PublishedHints {
    /// Publishes the list `hints`. The caller holds the commit lock.
    pub fn publish(&self, hints: Arc<Hints>) {
        let any = !hints.is_empty();
        self.list.store(hints);
        self.any.store(any, Ordering::Release);
    }

    /// Returns the current hints, if any.
    #[inline]
    pub fn get(&self) -> Option<Arc<Hints>> {
        self.any.load(Ordering::Acquire).then(|| self.list.load_full())
    }

    /// Returns the number of hints, and that of the jumps over them.
    pub fn counts(&self) -> (u64, u64) {
        let list = self.list.load();
        (list.len() as u64, list.jumps.get())
    }
}
