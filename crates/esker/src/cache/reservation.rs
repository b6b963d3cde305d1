//! Cache reservations: parts of a cache's capacity that are used for other memory than blocks.
//!
//! Invariants:
//! 1. The total charge of the cached blocks plus the reserved bytes never exceeds the capacity,
//!    unless the capacity has since shrunk below twice the reserved bytes.
//! 2. A new reservation never raises the reserved bytes above a quarter of the capacity.

use std::sync::Arc;

use super::BlockCache;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::options::kinds::CachePolicy;

/// A cache reservation: a part of a cache's capacity. Dropping it returns the bytes to the cache.
pub struct CacheReservation<H: Send + Sync + 'static> {
    cache: Arc<BlockCache<H>>,
    bytes: u64,
}

impl<H: Send + Sync + 'static> CacheReservation<H> {
    /// Reserves `bytes` of the capacity of `cache`, which reduces the space for blocks by `bytes`.
    /// Returns `None` when the reserved bytes would exceed a quarter of the capacity, or when the
    /// policy is [`CachePolicy::None`].
    pub fn of(cache: &Arc<BlockCache<H>>, bytes: u64) -> Option<CacheReservation<H>> {
        let policy = cache.settings.lock();
        let (reserved, capacity) = (cache.reserved_bytes(), cache.capacity_bytes());
        if *policy == CachePolicy::None || reserved.saturating_add(bytes) > capacity / 4 {
            return None;
        }
        cache.reserved_bytes.store(reserved + bytes, Relaxed);
        cache.apply_capacity(*policy, capacity);
        drop(policy);
        cache.retire_list.flush();
        Some(CacheReservation { cache: cache.clone(), bytes })
    }
}

impl<H: Send + Sync + 'static> Drop for CacheReservation<H> {
    fn drop(&mut self) {
        let policy = self.cache.settings.lock();
        self.cache.reserved_bytes.store(self.cache.reserved_bytes() - self.bytes, Relaxed);
        self.cache.apply_capacity(*policy, self.cache.capacity_bytes());
        drop(policy);
        self.cache.retire_list.flush();
    }
}

impl<H: Send + Sync + 'static> BlockCache<H> {
    /// Returns the reserved bytes of the capacity.
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes.load(Relaxed)
    }

    /// Returns the part of a capacity of `bytes` that is left for blocks: the unreserved bytes, but
    /// at least half of the capacity.
    pub(super) fn unreserved_bytes(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.reserved_bytes()).max(bytes / 2)
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use crate::base::cache_block::CacheBlockBuf;
    use crate::cache::BlockKey;

    /// Inserts blocks of 1 KiB each until the cache is full. Returns the used bytes.
    fn fill(cache: &BlockCache<u32>) -> u64 {
        for block in 0..10_000 {
            let cached = CacheBlockBuf::zeroed(8, None).freeze(8, block);
            cache.insert(BlockKey::new(1, block), cached, 1024, None);
        }
        cache.used_bytes()
    }

    #[test]
    fn reserved_capacity_holds_no_blocks_until_released() {
        for capacity in [64 << 10, 4 << 20] {
            let cache = Arc::new(BlockCache::new(CachePolicy::S3Fifo, capacity));
            assert_eq!(fill(&cache), capacity);
            let reservation = CacheReservation::of(&cache, capacity / 8).unwrap();
            assert!(
                cache.used_bytes() <= capacity - capacity / 8,
                "too many blocks remained in the cache"
            );
            assert!(fill(&cache) > capacity / 2);
            assert_eq!((cache.reserved_bytes(), cache.capacity_bytes()), (capacity / 8, capacity));
            let second = CacheReservation::of(&cache, capacity / 8).unwrap();
            assert!(
                CacheReservation::of(&cache, 1).is_none(),
                "more than a quarter of the cache is reserved"
            );
            assert!(fill(&cache) <= capacity - capacity / 4);
            // With a capacity no larger than the reserved bytes, half remains for blocks.
            cache.set_capacity(capacity / 4);
            assert!(fill(&cache) <= capacity / 8);
            assert!(fill(&cache) > 0);
            cache.set_capacity(capacity);
            drop((reservation, second));
            assert_eq!((cache.reserved_bytes(), fill(&cache)), (0, capacity));
        }
    }

    #[test]
    fn empty_cache_reserves_nothing() {
        let none = Arc::new(BlockCache::<u32>::new(CachePolicy::None, 1 << 20));
        let empty = Arc::new(BlockCache::<u32>::new(CachePolicy::Lru, 0));
        assert!(
            CacheReservation::of(&none, 8).is_none() && CacheReservation::of(&empty, 8).is_none()
        );
        assert_eq!((none.reserved_bytes(), empty.reserved_bytes()), (0, 0));
    }
}
