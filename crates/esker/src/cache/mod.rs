//! The block cache: parsed blocks in memory, bounded by bytes.
//!
//! What stays true:
//! 1. The charges of the blocks held never add up to more than the capacity, at any moment.
//! 2. Two threads that load the same block at once end with the same one: the first insert wins.
//! 3. A block handed out stays alive for as long as the caller holds it, evicted or not.
//!
//! The cache is cut into shards by the hash of the key; each has its own lock, its own part of the
//! capacity and its own instance of the policy. A block larger than its shard's part is not kept.

mod frames;
mod limbo;
mod loan;
mod place;
mod policy;
mod shelf;
#[cfg(test)]
mod tests;

use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::fmt;
use std::sync::Arc;

use crate::base::frame::Frame;
use crate::base::frame_pool::FramePool;
use crate::base::readers::{Readers, Reading};
use crate::base::sync::Mutex;
use crate::base::units::MIB;
use crate::metrics::Striped;
use crate::options::kinds::CachePolicy;
use frames::Frames;
use limbo::Limbo;
pub use loan::Loan;
pub use place::Seen;
pub use shelf::{Home, Shelf};

/// How many shards a cache of [`SHARDED_FROM_BYTES`] or more has. A power of two.
const SHARDS: usize = 16;
/// A smaller cache is one shard, so that its parts are not smaller than a block.
const SHARDED_FROM_BYTES: u64 = MIB;

/// Which block: a file's number and the block's place in that file's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// The file's number, unique for the life of the store.
    pub file: u64,
    /// The block's place in the file's index, from 0.
    pub block: u32,
}

impl BlockKey {
    /// A well mixed hash: the top bits choose the shard, the low ones the place within it.
    #[inline]
    fn hash(self) -> u64 {
        let mut x = self.file.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(self.block);
        x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        x = (x ^ (x >> 29)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        x ^ (x >> 32)
    }
}

/// What a cache did since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Look-ups that found their block.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Blocks taken in.
    pub insertions: u64,
    /// Blocks pushed out to make room. Those of removed files are not counted.
    pub evictions: u64,
}

/// One shard, alone on its cache lines.
#[repr(align(128))]
struct Shard<H>(Mutex<Frames<H>>);

/// A bounded map from [`BlockKey`] to shared blocks. All methods may be called from many threads.
pub struct BlockCache<H> {
    shards: Box<[Shard<H>]>,
    /// `SHARDS - 1` when all shards are in use, 0 when only the first is.
    shard_mask: AtomicUsize,
    capacity_bytes: AtomicU64,
    /// The policy in force; held while it, the capacity or what is lent changes.
    settings: Mutex<CachePolicy>,
    /// Bytes of the capacity that are lent.
    lent_bytes: AtomicU64,
    /// Whether the policy does with uses that are counted, and need not see each at once.
    counting: AtomicBool,
    /// Hits on shelves, and misses that did not ask the shards.
    shelf_hits: Striped,
    shelf_misses: Striped,
    /// Memory for blocks that are kept.
    pool: Arc<FramePool>,
    /// Blocks that left their shelves.
    limbo: Arc<Limbo<H>>,
}

impl<H: Send + Sync + 'static> BlockCache<H> {
    /// An empty cache that holds up to `capacity_bytes` of blocks; 0 or [`CachePolicy::None`]
    /// holds nothing. Memory is taken as blocks arrive.
    pub fn new(policy: CachePolicy, capacity_bytes: u64) -> BlockCache<H> {
        let shards = (0..SHARDS).map(|_| Shard(Mutex::new(Frames::new(policy)))).collect();
        let cache = BlockCache {
            shards,
            shard_mask: AtomicUsize::new(0),
            capacity_bytes: AtomicU64::new(0),
            settings: Mutex::new(policy),
            lent_bytes: AtomicU64::new(0),
            counting: AtomicBool::new(policy != CachePolicy::Lru),
            shelf_hits: Striped::default(),
            shelf_misses: Striped::default(),
            pool: Arc::new(FramePool::starting_small()),
            limbo: Arc::default(),
        };
        cache.set_capacity(capacity_bytes);
        cache
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Frames<H>> {
        let at = (hash >> 60) as usize & self.shard_mask.load(Relaxed);
        &self.shards[at].0
    }

    /// The block, if it is here. Counts as a use of it.
    #[inline]
    pub fn get(&self, key: &BlockKey) -> Option<Frame<H>> {
        let hash = key.hash();
        self.shard(hash).lock().get(hash, key)
    }

    /// The block, if it is here; neither a use nor counted.
    pub fn peek(&self, key: &BlockKey) -> Option<Frame<H>> {
        let hash = key.hash();
        self.shard(hash).lock().peek(hash, key)
    }

    /// Whether shelves show what is here: the policy need not see each use as it happens.
    #[inline]
    pub fn has_shelves(&self) -> bool {
        self.counting.load(Relaxed)
    }

    /// A shelf for `count` blocks of this cache, with its places in `pages`.
    pub fn shelf(&self, count: usize, pages: &Arc<FramePool>) -> Shelf<H> {
        Shelf::new(count, pages, self.limbo.clone())
    }

    /// Those who look at its shelves.
    #[inline]
    pub fn readers(&self) -> &Arc<Readers> {
        self.limbo.readers()
    }

    /// The block at `at` of a shelf of this cache, if it is there, for as long as `reading`, which is
    /// one of [`BlockCache::readers`], goes on. Counts as a use of it. Nothing is found when the policy
    /// must see every use as it happens: then [`BlockCache::get`] finds it.
    #[inline]
    pub fn see_on<'s>(
        &self,
        shelf: &'s Shelf<H>,
        at: usize,
        reading: &'s Reading<'_>,
    ) -> Option<Seen<'s, H>> {
        if !self.counting.load(Relaxed) {
            return None;
        }
        let seen = shelf.see(at, reading)?;
        self.shelf_hits.add(1);
        Some(seen)
    }

    /// The block `key`, whose home is `at` on `shelf`, if it is here. Counts as a use of it. What is not
    /// at its home is not here, so that a shard is asked only where it must see every use.
    #[inline]
    pub fn get_at(&self, shelf: &Shelf<H>, at: usize, key: &BlockKey) -> Option<Frame<H>> {
        if !self.counting.load(Relaxed) {
            return self.get(key);
        }
        let found = self.get_on(shelf, at);
        if found.is_none() {
            self.shelf_misses.add(1);
        }
        found
    }

    /// [`BlockCache::see_on`], for as long as one likes.
    #[inline]
    pub fn get_on(&self, shelf: &Shelf<H>, at: usize) -> Option<Frame<H>> {
        let reading = self.readers().enter();
        self.see_on(shelf, at, &reading).map(|seen| Frame::clone(&seen))
    }

    /// Whether a block of about `charge_bytes`, which has to be read, should be inserted then: not if
    /// the policy expects that it costs more than it saves. [`BlockCache::insert`] does not ask.
    pub fn wants(&self, key: &BlockKey, charge_bytes: u64) -> bool {
        let hash = key.hash();
        self.shard(hash).lock().wants(hash, charge_bytes)
    }

    /// Offers a block of `charge_bytes` and returns the one to use: the one already here if another
    /// thread was first, else `block` itself, whether or not there was room to keep it.
    ///
    /// While it is kept it also stands in its `home`.
    pub fn insert(
        &self,
        key: BlockKey,
        block: Frame<H>,
        charge_bytes: u64,
        home: Option<Home<H>>,
    ) -> Frame<H> {
        let hash = key.hash();
        let mut evicted = Vec::new();
        let mut shard = self.shard(hash).lock();
        let kept = shard.insert(hash, key, block, charge_bytes, home, &mut evicted);
        drop(shard);
        if !evicted.is_empty() {
            self.limbo.settle();
        }
        kept
    }

    /// Whether a block of `charge_bytes` that nobody asked for would be taken in: that evicts no other
    /// and leaves a quarter free. Another thread may be first.
    pub fn has_room(&self, key: &BlockKey, charge_bytes: u64) -> bool {
        self.shard(key.hash()).lock().has_room(charge_bytes)
    }

    /// Takes a block in, that nobody asked for, where [`BlockCache::has_room`]; drops it otherwise and
    /// returns false.
    pub fn offer(
        &self,
        key: BlockKey,
        block: Frame<H>,
        charge_bytes: u64,
        home: Option<Home<H>>,
    ) -> bool {
        let hash = key.hash();
        let mut shard = self.shard(hash).lock();
        let kept = shard
            .has_room(charge_bytes)
            .then(|| shard.insert(hash, key, block, charge_bytes, home, &mut Vec::new()));
        drop(shard);
        kept.is_some()
    }

    /// Lets go of those of `keys` that are here: their file was deleted.
    pub fn remove(&self, keys: impl Iterator<Item = BlockKey>) {
        let mut removed = Vec::new();
        for key in keys {
            let hash = key.hash();
            self.shard(hash).lock().remove(hash, &key, &mut removed);
        }
        self.limbo.flush();
    }

    /// Changes how many bytes may be held; a smaller capacity evicts until it fits, before this
    /// returns.
    pub fn set_capacity(&self, bytes: u64) {
        let settings = self.settings.lock();
        self.apply_capacity(*settings, bytes);
        drop(settings);
        self.limbo.flush();
    }

    /// Changes the policy. What is held stays, in the order in which the old policy would have
    /// evicted it; [`CachePolicy::None`] lets go of everything.
    pub fn set_policy(&self, policy: CachePolicy) {
        let mut settings = self.settings.lock();
        if *settings == policy {
            return;
        }
        *settings = policy;
        self.counting.store(policy != CachePolicy::Lru, Relaxed);
        for shard in &self.shards {
            shard.0.lock().set_policy(policy);
        }
        self.apply_capacity(policy, self.capacity_bytes());
        drop(settings);
        self.limbo.flush();
    }

    /// Gives each shard its part of `bytes`, less what is lent: first every part that shrinks, then
    /// those that grow, so that the sum is never above both the old capacity and the new. What left its
    /// shelf waits in limbo: who has it dropped may come to drop other things, too, whose drop asks
    /// for the settings.
    fn apply_capacity(&self, policy: CachePolicy, bytes: u64) {
        let usable = if policy == CachePolicy::None { 0 } else { self.unlent_bytes(bytes) };
        let shards = if bytes < SHARDED_FROM_BYTES { 1 } else { SHARDS };
        let regrouped = self.shard_mask.swap(shards - 1, Relaxed) != shards - 1;
        let part = |at: usize| {
            let extra = if at == 0 { usable % shards as u64 } else { 0 };
            if at < shards { usable / shards as u64 + extra } else { 0 }
        };
        for (at, shard) in self.shards.iter().enumerate() {
            let mut evicted = Vec::new();
            let mut frames = shard.0.lock();
            // A block may now belong to another shard, where it would not be found.
            let lowest = if regrouped { 0 } else { part(at).min(frames.capacity_bytes()) };
            frames.set_capacity(lowest, &mut evicted);
            drop(frames);
            drop(evicted);
        }
        for (at, shard) in self.shards.iter().enumerate() {
            shard.0.lock().set_capacity(part(at), &mut Vec::new());
        }
        self.capacity_bytes.store(bytes, Relaxed);
        self.limbo.set_capacity(usable);
        self.pool.set_capacity(usize::try_from(usable).unwrap_or(usize::MAX / 2));
    }

    /// Where the memory of blocks is from that are to be kept.
    pub fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    /// The capacity, in bytes, as last set.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes.load(Relaxed)
    }

    /// The policy, as last set.
    pub fn policy(&self) -> CachePolicy {
        *self.settings.lock()
    }

    /// The charges of the blocks held, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.lock().used_bytes()).sum()
    }

    /// Bytes of memory between the blocks held, and of blocks that only readers hold.
    pub fn spare_bytes(&self) -> u64 {
        (self.pool.memory_bytes() as u64).saturating_sub(self.used_bytes())
    }

    /// The counters, since the cache was made.
    pub fn stats(&self) -> CacheStats {
        let (hits, misses) = (self.shelf_hits.get(), self.shelf_misses.get());
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

impl<H> Drop for BlockCache<H> {
    fn drop(&mut self) {
        // Values that readers hold on to keep the pool, but not what it has to spare.
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
