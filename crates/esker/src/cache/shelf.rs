//! Where a file's cached blocks are found without a search: one place a block, beside its index.
//!
//! A hit through a shelf takes no lock but that of the block's own place, for as long as it takes to
//! count one more user, and notes the first few uses of a block since its policy last asked ("swizzling": Graefe et al., "In-Memory Performance
//! for Big Data", VLDB 2014, without its pointers into pages).
//!
//! What stays true: a place holds a block only while the cache does; the cache fills and empties
//! places with the lock of the block's shard held. Prefetch hints may be stale: nothing is read
//! through them.

use crate::base::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use super::place::Place;
use crate::base::prefetch::prefetch_lines;

/// No policy asks for more uses than this.
const USES_MAX: u8 = 3;
/// What a prefetch fetches of a block: its header, prefix and heads, as a rule.
const HINT_LINES: usize = 6;

/// The places of one file's blocks.
pub struct Shelf<V> {
    places: Box<[Place<V>]>,
    uses: Box<[AtomicU8]>,
    hints: Box<[AtomicUsize]>,
}

impl<V> Shelf<V> {
    /// Places for `count` blocks, all empty.
    pub fn new(count: usize) -> Shelf<V> {
        Shelf {
            places: (0..count).map(|_| Place::default()).collect(),
            uses: (0..count).map(|_| AtomicU8::new(0)).collect(),
            hints: (0..count).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// The block at `at`, if the cache holds it. Counts as a use.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Arc<V>> {
        let found = self.places[at].get()?;
        let uses = self.uses[at].load(Relaxed);
        if uses < USES_MAX {
            self.uses[at].store(uses + 1, Relaxed);
        }
        Some(found)
    }

    /// Asks the processor for the first lines of the block at `at`, if it is here.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if let Some(hint) = self.hints.get(at) {
            let hint = hint.load(Relaxed);
            if hint != 0 {
                prefetch_lines(hint, HINT_LINES);
            }
        }
    }

    /// Notes where in memory the bytes of the block at `at` begin.
    pub fn hint(&self, at: usize, address: usize) {
        self.hints[at].store(address, Relaxed);
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.places.len() * (size_of::<Place<V>>() + size_of::<AtomicUsize>() + 1)
    }
}

/// A place on a shelf, as the cache knows it.
pub struct Home<V> {
    shelf: Arc<Shelf<V>>,
    at: u32,
}

impl<V> Home<V> {
    /// Place `at` of `shelf`; `None` where the shelf has no such place.
    pub fn new(shelf: &Arc<Shelf<V>>, at: usize) -> Option<Home<V>> {
        let known = at < shelf.places.len();
        known.then(|| Home { shelf: shelf.clone(), at: at as u32 })
    }

    /// Puts a block there.
    pub(super) fn fill(&self, value: &Arc<V>) {
        self.shelf.uses[self.at as usize].store(0, Relaxed);
        self.shelf.places[self.at as usize].set(Some(value.clone()));
    }

    /// Takes it away again.
    pub(super) fn empty(&self) {
        self.shelf.places[self.at as usize].set(None);
        self.shelf.hints[self.at as usize].store(0, Relaxed);
    }

    /// How often the block was used since this was last asked, up to [`USES_MAX`].
    pub(super) fn take_uses(&self) -> u8 {
        self.shelf.uses[self.at as usize].swap(0, Relaxed)
    }
}
