//! Block slots: one slot per block of a file, beside its index, which finds a cached block without
//! a hash lookup.
//!
//! A hit in a block slot takes no lock and changes no reference count. It only counts, in the
//! block, up to three uses since the policy last read the count. This is pointer swizzling (Graefe
//! et al., "In-Memory Performance for Big Data", VLDB 2014), but without that paper's pointers in
//! pages.
//!
//! Invariants:
//! 1. A slot holds a block only while the cache holds the block.
//! 2. A block in the cache is in its slot, if it has one, except for a moment after blocks moved
//!    between shards.
//! 3. The cache fills and empties slots only while it holds the lock of the block's shard.

use std::sync::Arc;

use super::retire_list::RetireList;
use super::slot::{CachedRef, Slot};
use crate::base::cache_block::CacheBlock;
use crate::base::cache_block_pool::CacheBlockPool;
use crate::base::epoch::EpochGuard;
use crate::base::huge_page_box::HugePageBox;
use crate::base::prefetch::prefetch_bytes;

/// The block slots of one file.
pub struct BlockSlots<H> {
    slots: HugePageBox<Slot<H>>,
    /// Retire list for blocks removed from the slots.
    retire_list: Arc<RetireList<H>>,
}

impl<H: Send + Sync + 'static> BlockSlots<H> {
    /// Memory of a slot, in bytes.
    pub const SLOT_BYTES: usize = size_of::<Slot<H>>();

    /// Creates `count` empty slots, allocated from `pages`. `retire_list` is that of the cache
    /// whose blocks the slots will hold.
    pub(super) fn new(
        count: usize,
        pages: &Arc<CacheBlockPool>,
        retire_list: Arc<RetireList<H>>,
    ) -> BlockSlots<H> {
        let places = HugePageBox::new((0..count).map(|_| Slot::default()).collect(), pages);
        BlockSlots { slots: places, retire_list }
    }

    /// Returns a reference to the block in slot `at`, if the slot is filled. The reference is valid
    /// during `reading`. Counts as a use.
    #[inline]
    pub(super) fn load<'s>(
        &'s self,
        at: usize,
        reading: &'s EpochGuard<'_>,
    ) -> Option<CachedRef<'s, H>> {
        self.slots[at].load(&self.retire_list, reading)
    }

    /// Returns the indexes of the filled slots.
    pub fn filled(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().enumerate().filter(|(_, place)| !place.is_empty()).map(|(at, _)| at)
    }

    /// Returns whether slot `at` exists and is filled.
    pub fn is_filled(&self, at: usize) -> bool {
        self.slots.get(at).is_some_and(|place| !place.is_empty())
    }

    /// Prefetches the beginning of the block in slot `at`, if the slot is filled.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if let Some(place) = self.slots.get(at) {
            place.prefetch();
        }
    }

    /// Returns the memory address of the bytes of the block in slot `at`, or 0 if the slot is
    /// empty. The block may be freed before the caller uses the address, so the address must not be
    /// dereferenced.
    #[inline]
    pub fn address(&self, at: usize) -> usize {
        self.slots.get(at).map_or(0, Slot::bytes_address)
    }

    /// Prefetches `count` slots, starting with slot `at`.
    #[inline]
    pub fn prefetch_slots(&self, at: usize, count: usize) {
        prefetch_bytes(self.slots.as_ptr().wrapping_add(at).addr(), count * size_of::<Slot<H>>());
    }

    /// Returns the memory that the slots take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
    }
}

/// A slot reference: how the cache addresses the block slot of a block.
pub struct SlotRef<H> {
    slots: Arc<BlockSlots<H>>,
    at: u32,
}

impl<H: Send + Sync + 'static> SlotRef<H> {
    /// Returns a reference to slot `at` of `slots`, or `None` if the slot does not exist.
    pub fn new(slots: &Arc<BlockSlots<H>>, at: usize) -> Option<SlotRef<H>> {
        let known = at < slots.slots.len();
        known.then(|| SlotRef { slots: slots.clone(), at: at as u32 })
    }

    /// Returns whether the slot is empty.
    pub(super) fn is_empty(&self) -> bool {
        !self.slots.is_filled(self.at as usize)
    }

    /// Replaces the slot's block by `block`, or empties the slot.
    pub(super) fn set(&self, block: Option<&CacheBlock<H>>) {
        self.slots.slots[self.at as usize].set(&self.slots.retire_list, block.cloned());
    }
}
