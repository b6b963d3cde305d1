//! A block slot: one word that holds a shared cache block. Many threads load it, few replace it.
//!
//! A load writes no shared memory, except for the use count of the first three loads. Readers are
//! protected by the epoch collector instead of a reference count: a block removed from its slot
//! waits in a [`RetireList`] until no reader can use it.
//!
//! Invariants:
//! 1. The word is 0 or the address of a cache block. The slot owns one reference to that block.
//! 2. After the word has changed, the slot's reference to the old block goes to the slot's retire
//!    list, which is the same list for all calls.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use super::retire_list::RetireList;
use crate::base::cache_block::{CacheBlock, prefetch_cache_block};
use crate::base::epoch::EpochGuard;
use crate::base::sync::atomic::{AtomicUsize, Ordering};

/// A replaceable, optional cache block. The owner must pass the same retire list to each call.
pub(super) struct Slot<H> {
    address: AtomicUsize,
    owns: PhantomData<CacheBlock<H>>,
}

impl<H> Default for Slot<H> {
    fn default() -> Slot<H> {
        Slot { address: AtomicUsize::new(0), owns: PhantomData }
    }
}

/// A cached reference: a cache block that an epoch guard keeps alive.
pub struct CachedRef<'s, H> {
    block: ManuallyDrop<CacheBlock<H>>,
    kept: PhantomData<&'s CacheBlock<H>>,
}

impl<H> Deref for CachedRef<'_, H> {
    type Target = CacheBlock<H>;

    #[inline]
    fn deref(&self) -> &CacheBlock<H> {
        &self.block
    }
}

impl<H: Send + Sync + 'static> Slot<H> {
    /// Returns a reference to the block in this slot, if it is filled. The reference is valid
    /// during `reading`, which must be a guard of the epoch collector of `retire_list`. Counts as a
    /// use.
    ///
    /// # Panics
    /// If `reading` belongs to another epoch collector.
    #[inline]
    pub fn load<'s>(
        &'s self,
        retire_list: &RetireList<H>,
        reading: &'s EpochGuard<'_>,
    ) -> Option<CachedRef<'s, H>> {
        assert!(reading.is_of(retire_list.collector()), "the guard belongs to another cache");
        let address = self.address.load(Ordering::Acquire);
        if address == 0 {
            return None;
        }
        // SAFETY: `set` stored the address. The slot's reference to the block is dropped only after
        // `reading` ends, because `reading` began before the address was loaded.
        let block = unsafe { CacheBlock::at_address(address) };
        block.note_use();
        Some(CachedRef { block, kept: PhantomData })
    }

    /// Replaces the slot's block by `content` and adds the old block to the retire list.
    /// Resets the use count of the new block.
    pub fn set(&self, retire_list: &RetireList<H>, content: Option<CacheBlock<H>>) {
        if let Some(fresh) = &content {
            fresh.take_uses();
        }
        let fresh = content.map_or(0, CacheBlock::into_address);
        if let Some(left) = Self::take(self.address.swap(fresh, Ordering::AcqRel)) {
            retire_list.add(left);
        }
    }
}

impl<H> Slot<H> {
    /// Returns whether the slot is empty.
    pub fn is_empty(&self) -> bool {
        self.address.load(Ordering::Relaxed) == 0
    }

    /// Prefetches the beginning of the slot's block, if any.
    #[inline]
    pub fn prefetch(&self) {
        let address = self.address.load(Ordering::Relaxed);
        if address != 0 {
            prefetch_cache_block(address);
        }
    }

    /// Returns the memory address of the block's bytes, or 0 for an empty slot.
    #[inline]
    pub fn bytes_address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => 0,
            head => head + CacheBlock::<H>::HEAD_BYTES,
        }
    }

    /// Returns the reference that a slot owned through `address`, which no slot holds any more.
    fn take(address: usize) -> Option<CacheBlock<H>> {
        if address == 0 {
            return None;
        }
        // SAFETY: the address came from `into_address` in `set`. It was removed from its slot, so
        // no other caller takes the reference.
        Some(unsafe { CacheBlock::from_address(address) })
    }
}

impl<H> Drop for Slot<H> {
    fn drop(&mut self) {
        // Cached references borrow the slot, so none is left.
        drop(Self::take(self.address.load(Ordering::Relaxed)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::cache_block::CacheBlockBuf;
    use std::sync::Arc;

    fn new_block<H>(header: H) -> CacheBlock<H> {
        CacheBlockBuf::zeroed(8, None).freeze(8, header)
    }

    #[test]
    fn slot_shows_block_until_replaced_and_drops_it_once() {
        let (place, list) = (Slot::default(), RetireList::default());
        let reading = list.collector().pin();
        assert!(place.load(&list, &reading).is_none());
        let (first, second) = (new_block(1u64), new_block(2u64));
        place.set(&list, Some(first.clone()));
        let seen = place.load(&list, &reading).unwrap();
        assert!(seen.is_same(&first));
        assert_eq!(first.ref_count(), 2);
        place.set(&list, Some(second.clone()));
        assert_eq!(*place.load(&list, &reading).unwrap().header(), 2);
        list.flush();
        assert_eq!((*seen.header(), first.ref_count()), (1, 2));
        drop(reading);
        assert_eq!(first.ref_count(), 1);
        place.set(&list, None);
        list.flush();
        assert!(place.is_empty());
        assert_eq!(second.ref_count(), 1);
        place.set(&list, Some(second.clone()));
        drop(place);
        assert_eq!((first.ref_count(), second.ref_count()), (1, 1));
    }

    #[test]
    fn use_counter_saturates_at_three_and_resets() {
        let (place, list) = (Slot::default(), RetireList::default());
        for uses in [0, 1, 2, 3, 4, 9] {
            let content = new_block(5u32);
            content.note_use();
            place.set(&list, Some(content.clone()));
            for _ in 0..uses {
                place.prefetch();
                let reading = list.collector().pin();
                assert_eq!(*place.load(&list, &reading).unwrap().header(), 5);
            }
            assert_eq!((content.take_uses(), content.take_uses()), (uses.min(3), 0));
        }
    }

    #[test]
    fn concurrent_loads_and_replacements_leak_nothing() {
        let rounds = if cfg!(miri) { 40 } else { 20_000 };
        let (place, list) = (Arc::new(Slot::default()), Arc::new(RetireList::default()));
        let values: Vec<CacheBlock<(u64, u64)>> = (0..4).map(|n| new_block((n, !n))).collect();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (place, list, values) = (&place, &list, &values);
                scope.spawn(move || {
                    for round in 0..rounds {
                        // A new block, to which only the slot has a reference.
                        let n = (round + thread) as u64;
                        let next =
                            if n.is_multiple_of(3) { Some(new_block((n, !n))) } else { None };
                        place.set(list, next.or_else(|| values.get(n as usize % 5).cloned()));
                        if n.is_multiple_of(2) {
                            list.flush();
                        }
                    }
                });
            }
            for _ in 0..2 {
                let (place, list) = (&place, &list);
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let reading = list.collector().pin();
                        if let Some(seen) = place.load(list, &reading) {
                            assert_eq!(seen.header().0, !seen.header().1);
                        }
                    }
                });
            }
        });
        place.set(&list, None);
        list.flush();
        assert!(values.iter().all(|value| value.ref_count() == 1));
    }
}
