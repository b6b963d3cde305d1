//! Where a file's cached blocks are found without a search: one place a block, beside its index.
//!
//! A hit through a shelf takes no lock and counts no user; it notes in the block the first few uses
//! since its policy last asked ("swizzling": Graefe et al., "In-Memory Performance for Big Data",
//! VLDB 2014, without its pointers into pages).
//!
//! What stays true: a place holds a block only while the cache does, and a block the cache holds is in
//! its place, but for a moment after blocks moved between shards; the cache fills and empties places
//! with the lock of the block's shard held.

use std::sync::Arc;

use super::limbo::Limbo;
use super::place::{Place, Seen};
use crate::base::frame::Frame;
use crate::base::frame_pool::FramePool;
use crate::base::large_slice::LargeSlice;
use crate::base::prefetch::prefetch_bytes;
use crate::base::readers::Reading;

/// The places of one file's blocks.
pub struct Shelf<H> {
    places: LargeSlice<Place<H>>,
    /// Where blocks go that leave them.
    limbo: Arc<Limbo<H>>,
}

impl<H: Send + Sync + 'static> Shelf<H> {
    /// Places for `count` blocks of the cache that `limbo` is of, all empty, in `pages`.
    pub(super) fn new(count: usize, pages: &Arc<FramePool>, limbo: Arc<Limbo<H>>) -> Shelf<H> {
        let places = LargeSlice::new((0..count).map(|_| Place::default()).collect(), pages);
        Shelf { places, limbo }
    }

    /// The block at `at`, if the cache holds it, for as long as `reading` goes on. Counts as a use.
    #[inline]
    pub(super) fn see<'s>(&'s self, at: usize, reading: &'s Reading<'_>) -> Option<Seen<'s, H>> {
        self.places[at].see(&self.limbo, reading)
    }

    /// Which places have blocks.
    pub fn filled(&self) -> impl Iterator<Item = usize> {
        self.places.iter().enumerate().filter(|(_, place)| !place.is_empty()).map(|(at, _)| at)
    }

    /// Whether the block at `at` is here.
    pub fn is_filled(&self, at: usize) -> bool {
        self.places.get(at).is_some_and(|place| !place.is_empty())
    }

    /// Asks the processor for the beginning of the block at `at`, if it is here.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if let Some(place) = self.places.get(at) {
            place.prefetch();
        }
    }

    /// Where in memory the bytes of the block at `at` are, if it is here, or else 0. It may be gone
    /// when this is looked at.
    #[inline]
    pub fn address(&self, at: usize) -> usize {
        self.places.get(at).map_or(0, Place::bytes_address)
    }

    /// Asks the processor for `count` places from `at` on.
    #[inline]
    pub fn prefetch_places(&self, at: usize, count: usize) {
        prefetch_bytes(self.places.as_ptr().wrapping_add(at).addr(), count * size_of::<Place<H>>());
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.places.memory_bytes()
    }
}

/// A place on a shelf, as the cache knows it.
pub struct Home<H> {
    shelf: Arc<Shelf<H>>,
    at: u32,
}

impl<H: Send + Sync + 'static> Home<H> {
    /// Place `at` of `shelf`; `None` where the shelf has no such place.
    pub fn new(shelf: &Arc<Shelf<H>>, at: usize) -> Option<Home<H>> {
        let known = at < shelf.places.len();
        known.then(|| Home { shelf: shelf.clone(), at: at as u32 })
    }

    /// Whether nothing is there.
    pub(super) fn is_empty(&self) -> bool {
        !self.shelf.is_filled(self.at as usize)
    }

    /// Puts a block there, or nothing.
    pub(super) fn set(&self, block: Option<&Frame<H>>) {
        self.shelf.places[self.at as usize].set(&self.shelf.limbo, block.cloned());
    }
}
