//! The block cache: parsed blocks in memory, bounded by bytes.
//!
//! Invariants:
//! 1. The total charge of the cached blocks never exceeds the capacity.
//! 2. Two threads that load the same block concurrently end up with the same cache block. The
//!    first insert wins.
//! 3. A returned block stays alive while the caller holds it, even after its eviction.
//!
//! The hash of the key selects a shard. Each shard has its own lock, its own part of the capacity
//! and its own policy instance. A block larger than its shard's part of the capacity is not cached.

mod block_slots;
mod policy;
mod reservation;
mod retire_list;
mod shard;
mod slot;
#[cfg(test)]
mod tests;

use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::fmt;
use std::sync::Arc;

use crate::base::cache_block::CacheBlock;
use crate::base::cache_block_pool::CacheBlockPool;
use crate::base::epoch::{Collector, EpochGuard};
use crate::base::sync::{Mutex, MutexGuard};
use crate::base::units::MIB;
use crate::metrics::Striped;
use crate::options::kinds::CachePolicy;
pub use block_slots::{BlockSlots, SlotRef};
pub use reservation::CacheReservation;
use retire_list::RetireList;
use shard::CacheShard;
pub use slot::CachedRef;

/// Maximum number of shards of a cache. A power of two.
const SHARDS: usize = 16;
/// Smallest part of a shard in bytes, unless the cache has only one. A part holds many blocks of
/// the default size and a few of the largest sizes in use: with fewer, the blocks whose keys share
/// a shard evict each other while other shards have room.
const SHARD_MIN_BYTES: u64 = 4 * MIB;

/// Identifies a block, or a partition of an index or filter: a store, a file number and the block's
/// position in the file's index. Positions from 2^31 on are those of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// The file number, unique for the life of the store.
    pub file: u64,
    /// The block's position in the file's index, from 0.
    pub block: u32,
    /// The number of the store among the users of the cache; 0 in a cache with one user.
    pub store: u32,
}

impl BlockKey {
    /// Returns the key of a block in a cache with one user.
    pub fn new(file: u64, block: u32) -> BlockKey {
        BlockKey { file, block, store: 0 }
    }

    /// Returns a well-mixed hash. The top bits select the shard; the low bits select the bucket
    /// within the shard.
    #[inline]
    fn hash(self) -> u64 {
        let mut x = self.file.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(self.block);
        x ^= u64::from(self.store) << 32;
        x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        x = (x ^ (x >> 29)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        x ^ (x >> 32)
    }
}

/// Counters of a cache since its creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Lookups that found their block.
    pub hits: u64,
    /// Lookups that did not find their block.
    pub misses: u64,
    /// Blocks inserted.
    pub insertions: u64,
    /// Blocks evicted to make room. Blocks of removed files are not counted.
    pub evictions: u64,
}

/// One shard, aligned so that it shares no cache line with another.
#[repr(align(128))]
struct Shard<H>(Mutex<CacheShard<H>>);

/// A bounded map from [`BlockKey`] to shared blocks. All methods are safe to call concurrently.
pub struct BlockCache<H> {
    shards: Box<[Shard<H>]>,
    /// Number of shards in use, a power of two, less 1.
    shard_mask: AtomicUsize,
    capacity_bytes: AtomicU64,
    /// The current policy. The lock is held while the policy, the capacity or the reserved bytes
    /// change.
    settings: Mutex<CachePolicy>,
    /// Reserved bytes: the part of the capacity that cache reservations hold.
    reserved_bytes: AtomicU64,
    /// Whether counted uses suffice for the policy, so that hits may bypass the shards through
    /// block slots. False for LRU.
    slots_enabled: AtomicBool,
    /// Hits in block slots, and misses that bypassed the shards.
    slot_hits: Striped,
    slot_misses: Striped,
    /// Memory for cached blocks.
    pool: Arc<CacheBlockPool>,
    /// Retire list for blocks removed from their slots.
    retire_list: Arc<RetireList<H>>,
}

impl<H: Send + Sync + 'static> BlockCache<H> {
    /// Creates an empty cache of `capacity_bytes`. A capacity of 0 or [`CachePolicy::None`] caches
    /// nothing. Memory is allocated as blocks arrive.
    pub fn new(policy: CachePolicy, capacity_bytes: u64) -> BlockCache<H> {
        let shards = (0..SHARDS).map(|_| Shard(Mutex::new(CacheShard::new(policy)))).collect();
        let cache = BlockCache {
            shards,
            shard_mask: AtomicUsize::new(0),
            capacity_bytes: AtomicU64::new(0),
            settings: Mutex::new(policy),
            reserved_bytes: AtomicU64::new(0),
            slots_enabled: AtomicBool::new(policy != CachePolicy::Lru),
            slot_hits: Striped::default(),
            slot_misses: Striped::default(),
            pool: Arc::new(CacheBlockPool::starting_small()),
            retire_list: Arc::default(),
        };
        cache.set_capacity(capacity_bytes);
        cache
    }

    #[inline]
    fn shard_index(&self, hash: u64) -> usize {
        (hash >> 60) as usize & self.shard_mask.load(Relaxed)
    }

    /// Locks the shard of a block. The number of shards may change before the lock is taken. The
    /// block may then belong to another shard, where others would look for it.
    #[inline]
    fn lock_shard(&self, hash: u64) -> MutexGuard<'_, CacheShard<H>> {
        loop {
            let at = self.shard_index(hash);
            let shard = self.shards[at].0.lock();
            if self.shard_index(hash) == at {
                return shard;
            }
        }
    }

    /// Returns the block if it is cached. Counts as a use.
    #[inline]
    pub fn get(&self, key: &BlockKey) -> Option<CacheBlock<H>> {
        let hash = key.hash();
        self.lock_shard(hash).get(hash, key)
    }

    /// Returns the block if it is cached. Counts neither a use nor a hit or miss.
    pub fn peek(&self, key: &BlockKey) -> Option<CacheBlock<H>> {
        let hash = key.hash();
        self.lock_shard(hash).peek(hash, key)
    }

    /// Returns whether block slots serve hits. False for a policy that must observe every use
    /// immediately.
    #[inline]
    pub fn has_slots(&self) -> bool {
        self.slots_enabled.load(Relaxed)
    }

    /// Creates block slots for `count` blocks of this cache, allocated from `pages`.
    pub fn block_slots(&self, count: usize, pages: &Arc<CacheBlockPool>) -> BlockSlots<H> {
        BlockSlots::new(count, pages, self.retire_list.clone())
    }

    /// The epoch collector for readers of this cache's block slots.
    #[inline]
    pub fn collector(&self) -> &Arc<Collector> {
        self.retire_list.collector()
    }

    /// Returns a reference to the block in slot `at` of `slots`, if the slot is filled. The
    /// reference is valid during `reading`, which must be a guard of [`BlockCache::collector`].
    /// Counts as a use. Always returns `None` when the policy must observe every use immediately;
    /// use [`BlockCache::get`] then.
    #[inline]
    pub fn load_slot<'s>(
        &self,
        slots: &'s BlockSlots<H>,
        at: usize,
        reading: &'s EpochGuard<'_>,
    ) -> Option<CachedRef<'s, H>> {
        if !self.slots_enabled.load(Relaxed) {
            return None;
        }
        let seen = slots.load(at, reading)?;
        self.slot_hits.add(1);
        Some(seen)
    }

    /// Returns the block `key`, whose slot is `at` of `slots`, if it is cached. Counts as a use. An
    /// empty slot counts as a miss without a lookup in the shard. The shard is consulted only when
    /// the policy must observe every use.
    #[inline]
    pub fn get_with_slot(
        &self,
        slots: &BlockSlots<H>,
        at: usize,
        key: &BlockKey,
    ) -> Option<CacheBlock<H>> {
        if !self.slots_enabled.load(Relaxed) {
            return self.get(key);
        }
        let found = self.get_slot(slots, at);
        if found.is_none() {
            self.slot_misses.add(1);
        }
        found
    }

    /// As [`BlockCache::load_slot`], but returns an owned handle that outlives the guard.
    #[inline]
    pub fn get_slot(&self, slots: &BlockSlots<H>, at: usize) -> Option<CacheBlock<H>> {
        let reading = self.collector().pin();
        self.load_slot(slots, at, &reading).map(|seen| CacheBlock::clone(&seen))
    }

    /// Returns whether a missing block of about `charge_bytes` should be inserted after it is read.
    /// False when the policy expects a higher cost than benefit. [`BlockCache::insert`] does not
    /// check this.
    pub fn should_admit(&self, key: &BlockKey, charge_bytes: u64) -> bool {
        let hash = key.hash();
        self.lock_shard(hash).wants(hash, charge_bytes)
    }

    /// Inserts a block of `charge_bytes` and returns the block to use: the cached block if another
    /// thread inserted it first, else `block`, whether or not it fits into the cache.
    ///
    /// While the block is cached, the slot that `slot` refers to also holds it.
    pub fn insert(
        &self,
        key: BlockKey,
        block: CacheBlock<H>,
        charge_bytes: u64,
        slot: Option<SlotRef<H>>,
    ) -> CacheBlock<H> {
        let hash = key.hash();
        let mut evicted = Vec::new();
        let mut shard = self.lock_shard(hash);
        let kept = shard.insert(hash, key, block, charge_bytes, slot, &mut evicted);
        drop(shard);
        if !evicted.is_empty() {
            self.retire_list.collect_if_large();
        }
        kept
    }

    /// Returns whether a speculative insert of `charge_bytes` would succeed now: it evicts no block
    /// and leaves a quarter of the capacity free. Another thread may take the space before
    /// [`BlockCache::insert_speculative`].
    pub fn has_room(&self, key: &BlockKey, charge_bytes: u64) -> bool {
        self.lock_shard(key.hash()).has_room(charge_bytes)
    }

    /// Inserts a block that no read requested, if [`BlockCache::has_room`]. Otherwise drops the
    /// block and returns false.
    pub fn insert_speculative(
        &self,
        key: BlockKey,
        block: CacheBlock<H>,
        charge_bytes: u64,
        slot: Option<SlotRef<H>>,
    ) -> bool {
        let hash = key.hash();
        let mut shard = self.lock_shard(hash);
        let kept = shard
            .has_room(charge_bytes)
            .then(|| shard.insert(hash, key, block, charge_bytes, slot, &mut Vec::new()));
        drop(shard);
        kept.is_some()
    }

    /// Removes the blocks of `keys`, whose file was deleted, from the cache.
    pub fn remove(&self, keys: impl Iterator<Item = BlockKey>) {
        let mut removed = Vec::new();
        for key in keys {
            let hash = key.hash();
            self.lock_shard(hash).remove(hash, &key, &mut removed);
        }
        self.retire_list.flush();
    }

    /// Removes all blocks of a store, which was closed.
    pub fn remove_store(&self, store: u32) {
        for shard in &self.shards {
            let mut removed = Vec::new();
            shard.0.lock().remove_store(store, &mut removed);
        }
        self.retire_list.flush();
    }

    /// Changes the capacity, in bytes. For a smaller capacity, blocks are evicted until the rest
    /// fits before this returns.
    pub fn set_capacity(&self, bytes: u64) {
        let settings = self.settings.lock();
        self.apply_capacity(*settings, bytes);
        drop(settings);
        self.retire_list.flush();
    }

    /// Changes the policy. Cached blocks stay, in the eviction order of the old policy.
    /// [`CachePolicy::None`] removes all blocks.
    pub fn set_policy(&self, policy: CachePolicy) {
        let mut settings = self.settings.lock();
        if *settings == policy {
            return;
        }
        *settings = policy;
        self.slots_enabled.store(policy != CachePolicy::Lru, Relaxed);
        for shard in &self.shards {
            shard.0.lock().set_policy(policy);
        }
        self.apply_capacity(policy, self.capacity_bytes());
        drop(settings);
        self.retire_list.flush();
    }

    /// Gives each shard its part of `bytes` less the reserved bytes. Shrinking parts come first,
    /// then growing parts, so that the sum never exceeds the larger of the old and the new
    /// capacity. Removed blocks stay in the retire list: the caller flushes it after unlocking the
    /// settings, because a deferred drop may run other drops that lock the settings.
    fn apply_capacity(&self, policy: CachePolicy, bytes: u64) {
        let usable = if policy == CachePolicy::None { 0 } else { self.unreserved_bytes(bytes) };
        let before = Some(self.shard_mask.load(Relaxed) + 1).filter(|_| self.capacity_bytes() > 0);
        let shards = shards_for(bytes, before);
        let regrouped = self.shard_mask.swap(shards - 1, Relaxed) != shards - 1;
        let part = |at: usize| {
            let extra = if at == 0 { usable % shards as u64 } else { 0 };
            if at < shards { usable / shards as u64 + extra } else { 0 }
        };
        for (at, shard) in self.shards.iter().enumerate() {
            let mut evicted = Vec::new();
            let mut locked = shard.0.lock();
            // With another shard count, a block may belong to another shard and would not be found.
            let lowest = if regrouped { 0 } else { part(at).min(locked.capacity_bytes()) };
            locked.set_capacity(lowest, &mut evicted);
            drop(locked);
            drop(evicted);
        }
        for (at, shard) in self.shards.iter().enumerate() {
            shard.0.lock().set_capacity(part(at), &mut Vec::new());
        }
        self.capacity_bytes.store(bytes, Relaxed);
        self.retire_list.set_capacity(usable);
        self.pool.set_capacity(usize::try_from(usable).unwrap_or(usize::MAX / 2));
    }

    /// The pool that provides the memory of cached blocks.
    pub fn pool(&self) -> &Arc<CacheBlockPool> {
        &self.pool
    }

    /// Returns the capacity as last set, in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes.load(Relaxed)
    }

    /// Returns the policy as last set.
    pub fn policy(&self) -> CachePolicy {
        *self.settings.lock()
    }

    /// Returns the total charge of the cached blocks, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.lock().used_bytes()).sum()
    }

    /// Returns the memory of the pool, in bytes, that cached blocks do not use: fragmentation, and
    /// evicted blocks that readers still hold.
    pub fn spare_bytes(&self) -> u64 {
        (self.pool.memory_bytes() as u64).saturating_sub(self.used_bytes())
    }

    /// Returns the counters since the creation of the cache.
    pub fn stats(&self) -> CacheStats {
        let (hits, misses) = (self.slot_hits.get(), self.slot_misses.get());
        let mut sum = CacheStats { hits, misses, ..CacheStats::default() };
        for shard in &self.shards {
            let one = shard.0.lock().stats();
            sum.hits += one.hits;
            sum.misses += one.misses;
            sum.insertions += one.insertions;
            sum.evictions += one.evictions;
        }
        sum
    }
}

/// Returns the number of shards for a capacity: as many as get [`SHARD_MIN_BYTES`] each.
///
/// A change of the number evicts every block, and a memory budget changes the capacity often, down
/// to an eighth. So the number `before` stays while a part is from an eighth to four times of
/// [`SHARD_MIN_BYTES`].
fn shards_for(capacity_bytes: u64, before: Option<usize>) -> usize {
    let most = (capacity_bytes / SHARD_MIN_BYTES).clamp(1, SHARDS as u64) as usize;
    let fitting = 1 << most.ilog2();
    let stays = |&count: &usize| {
        let part = capacity_bytes / count as u64;
        part >= SHARD_MIN_BYTES / 8 && (part < 4 * SHARD_MIN_BYTES || count == SHARDS)
    };
    before.filter(stays).unwrap_or(fitting)
}

impl<H> Drop for BlockCache<H> {
    fn drop(&mut self) {
        // Blocks that readers still hold keep the pool alive; this releases its spare memory.
        if !std::thread::panicking() {
            self.pool.set_capacity(0);
        }
    }
}

impl<H> fmt::Debug for BlockCache<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCache({} B)", self.capacity_bytes.load(Relaxed))
    }
}
