//! The retire list: cache blocks that were removed from their slots while readers may still use
//! them.
//!
//! Handing garbage to the epoch collector costs a system call, so it receives many blocks at a
//! time.
//!
//! Invariant: a block in the list is in no slot. It is dropped only after the end of every guard
//! that may have begun while the block was in its slot.

use std::sync::Arc;

use crate::base::cache_block::CacheBlock;
use crate::base::epoch::Collector;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicUsize, Ordering};

/// Maximum bytes that stay in the list after a cleanup.
const BYTES_MAX: usize = 256 << 10;
/// Divisor of the cache capacity: at most this fraction of the capacity stays in the list after a
/// cleanup.
const CAPACITY_DIVISOR: u64 = 256;

/// The retire list and the epoch collector of the readers that may use its blocks.
pub struct RetireList<H> {
    collector: Arc<Collector>,
    left: Mutex<Retired<H>>,
    limit_bytes: AtomicUsize,
}

struct Retired<H> {
    blocks: Vec<CacheBlock<H>>,
    bytes: usize,
}

impl<H> Default for RetireList<H> {
    fn default() -> RetireList<H> {
        let left = Mutex::new(Retired { blocks: Vec::new(), bytes: 0 });
        RetireList { collector: Arc::default(), left, limit_bytes: AtomicUsize::new(0) }
    }
}

impl<H: Send + Sync + 'static> RetireList<H> {
    /// The epoch collector for readers of the slots.
    #[inline]
    pub fn collector(&self) -> &Arc<Collector> {
        &self.collector
    }

    /// Adds a block that was just removed from its slot. Drops nothing, so the caller may hold
    /// locks.
    pub fn add(&self, block: CacheBlock<H>) {
        let mut left = self.left.lock();
        left.bytes += block.memory_bytes();
        left.blocks.push(block);
    }

    /// Hands all blocks to the epoch collector if they exceed the limit, at most 256 KiB.
    pub fn collect_if_large(&self) {
        self.empty_above(self.limit_bytes.load(Ordering::Relaxed));
    }

    /// Hands all blocks to the epoch collector, however few.
    pub fn flush(&self) {
        self.empty_above(0);
    }

    /// Sets the cache capacity, in bytes, from which the limit of [`RetireList::collect_if_large`]
    /// follows.
    pub fn set_capacity(&self, bytes: u64) {
        let part = usize::try_from(bytes / CAPACITY_DIVISOR).unwrap_or(BYTES_MAX);
        self.limit_bytes.store(part.min(BYTES_MAX), Ordering::Relaxed);
    }

    fn empty_above(&self, bytes: usize) {
        let mut left = self.left.lock();
        if left.blocks.is_empty() || left.bytes <= bytes {
            return;
        }
        let blocks = std::mem::take(&mut left.blocks);
        left.bytes = 0;
        drop(left);
        self.collector.defer_drop(blocks);
    }
}
