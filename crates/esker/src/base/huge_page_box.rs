//! Huge-page boxes: fixed-size arrays in huge pages, for random access. They hold a table's filter,
//! the key heads of its index, and its block slots.
//!
//! With pages of 4 KiB a random read waits for the translation of its address nearly as long as for
//! the bytes; see [`super::cache_block_pool`].
//!
//! Invariants: a box owns its items, in pool memory or in allocator memory, and drops each item
//! once. Its length never changes.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::cache_block_pool::{ALLOCATION_ALIGN_BYTES, Allocation, CacheBlockPool, UNIT_BYTES};
use super::chunk::CHUNK_BYTES;

/// Minimum size of a slice in pool memory, in bytes. Shorter slices stay in the allocator's memory,
/// so that small tables do not need a chunk.
const BYTES_MIN: usize = if cfg!(any(test, miri)) { 1 << 10 } else { 16 << 10 };

/// A boxed slice whose memory may come from huge pages.
pub struct HugePageBox<T> {
    start: NonNull<T>,
    len: usize,
    /// The allocation and its pool, or `None` if the memory is that of a boxed slice.
    allocation: Option<(Allocation, Arc<CacheBlockPool>)>,
}

// SAFETY: it owns its items as a boxed slice does. Pool memory is not tied to a thread.
unsafe impl<T: Send> Send for HugePageBox<T> {}
// SAFETY: a shared reference gives only shared access to the items.
unsafe impl<T: Sync> Sync for HugePageBox<T> {}

impl<T> HugePageBox<T> {
    /// Creates a slice from `items`. It moves them into `pool` if their size is between the minimum
    /// and one chunk, else it keeps them in the allocator's memory.
    pub fn new(mut items: Vec<T>, pool: &Arc<CacheBlockPool>) -> HugePageBox<T> {
        let len = items.len();
        let bytes = len * size_of::<T>();
        let fits = (BYTES_MIN..=CHUNK_BYTES).contains(&bytes);
        if !fits || align_of::<T>() > ALLOCATION_ALIGN_BYTES {
            let items = NonNull::from(Box::leak(items.into_boxed_slice()));
            return HugePageBox { start: items.cast(), len, allocation: None };
        }
        let piece = pool.allocate(bytes);
        let start: NonNull<T> = piece.start.cast();
        // SAFETY: this call owns the allocation, which is long enough and aligned for the items.
        // The vector forgets the items, so that only the slice drops them.
        unsafe {
            start.as_ptr().copy_from_nonoverlapping(items.as_ptr(), len);
            items.set_len(0);
        }
        HugePageBox { start, len, allocation: Some((piece, pool.clone())) }
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match &self.allocation {
            Some((piece, _)) => piece.granules as usize * UNIT_BYTES,
            None => self.len * size_of::<T>(),
        }
    }
}

impl<T> Deref for HugePageBox<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` stored `len` items there, and the slice owns them until it is dropped.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for HugePageBox<T> {
    fn drop(&mut self) {
        let items = NonNull::slice_from_raw_parts(self.start, self.len);
        match self.allocation.take() {
            // SAFETY: the items are dropped only here. The allocation came from this pool and is
            // not used afterwards.
            Some((piece, pool)) => unsafe {
                items.drop_in_place();
                pool.free(&piece);
            },
            // SAFETY: `new` leaked this box.
            None => drop(unsafe { Box::from_raw(items.as_ptr()) }),
        }
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn items_are_equal_in_any_placement_and_dropped_once() {
        let counted = Arc::new(());
        let pool: Arc<CacheBlockPool> = Arc::default();
        for len in [0, 1, 60, 64, 65, 1_000, CHUNK_BYTES / 16, CHUNK_BYTES / 16 + 1] {
            if cfg!(miri) && len > 1_000 {
                continue;
            }
            let items: Vec<(usize, Arc<()>)> = (0..len).map(|at| (at, counted.clone())).collect();
            let slice = HugePageBox::new(items, &pool);
            assert_eq!(slice.len(), len);
            assert!(slice.iter().enumerate().all(|(at, item)| item.0 == at));
            let pooled = (BYTES_MIN..=CHUNK_BYTES).contains(&(len * 16));
            assert_eq!(pool.used_bytes(), if pooled { slice.memory_bytes() } else { 0 });
            assert!(slice.memory_bytes() >= len * 16);
            assert_eq!(Arc::strong_count(&counted), len + 1);
            drop(slice);
            assert_eq!(Arc::strong_count(&counted), 1);
        }
        assert_eq!(pool.used_bytes(), 0);
    }
}
