//! Where a file's cached blocks are found without a search: one place a block, beside its index.
//!
//! A hit through a shelf takes no lock but that of the block's own place, for as long as it takes to
//! count one more user, and notes there the first few uses of a block since its policy last asked
//! ("swizzling": Graefe et al., "In-Memory Performance for Big Data", VLDB 2014, without its pointers
//! into pages).
//!
//! What stays true: a place holds a block only while the cache does; the cache fills and empties
//! places with the lock of the block's shard held.

use std::sync::Arc;

use super::place::Place;
use crate::base::frame::Frame;
use crate::base::frame_pool::FramePool;
use crate::base::large_slice::LargeSlice;
use crate::base::prefetch::prefetch_bytes;

/// The places of one file's blocks.
pub struct Shelf<H>(LargeSlice<Place<H>>);

impl<H> Shelf<H> {
    /// Places for `count` blocks, all empty, in `pages`.
    pub fn new(count: usize, pages: &Arc<FramePool>) -> Shelf<H> {
        Shelf(LargeSlice::new((0..count).map(|_| Place::default()).collect(), pages))
    }

    /// The block at `at`, if the cache holds it. Counts as a use.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Frame<H>> {
        self.0[at].get()
    }

    /// Which places have blocks.
    pub fn filled(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().filter(|(_, place)| !place.is_empty()).map(|(at, _)| at)
    }

    /// Asks the processor for the beginning of the block at `at`, if it is here.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if let Some(place) = self.0.get(at) {
            place.prefetch();
        }
    }

    /// Asks the processor for `count` places from `at` on.
    #[inline]
    pub fn prefetch_places(&self, at: usize, count: usize) {
        prefetch_bytes(self.0.as_ptr().wrapping_add(at).addr(), count * size_of::<Place<H>>());
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// A place on a shelf, as the cache knows it.
pub struct Home<H> {
    shelf: Arc<Shelf<H>>,
    at: u32,
}

impl<H> Home<H> {
    /// Place `at` of `shelf`; `None` where the shelf has no such place.
    pub fn new(shelf: &Arc<Shelf<H>>, at: usize) -> Option<Home<H>> {
        let known = at < shelf.0.len();
        known.then(|| Home { shelf: shelf.clone(), at: at as u32 })
    }

    fn place(&self) -> &Place<H> {
        &self.shelf.0[self.at as usize]
    }

    /// Puts a block there.
    pub(super) fn fill(&self, block: &Frame<H>) {
        self.place().set(Some(block.clone()));
    }

    /// Takes it away again.
    pub(super) fn empty(&self) {
        self.place().set(None);
    }

    /// How often the block was used since this was last asked, up to three times.
    pub(super) fn take_uses(&self) -> u8 {
        self.place().take_uses()
    }
}
