//! Eviction policies: which block leaves a full shard.
//!
//! A policy knows slots (the numbers of the shard's entries), never blocks. It holds exactly the
//! slots that were admitted and not yet evicted or forgotten.

mod clock;
mod ghost;
mod list;
mod lru;
mod s3fifo;
mod sieve;

use crate::options::kinds::CachePolicy;

/// Returns and resets the use count of a slot's block. The count excludes the reported hits.
pub(super) type Uses<'a> = &'a dyn Fn(u32) -> u8;

/// Orders the blocks of a shard for eviction.
pub(super) trait Policy: Send {
    /// Informs the policy of the shard's capacity, in bytes.
    fn set_capacity(&mut self, _bytes: u64) {}
    /// Returns whether to insert a block read from its file when the insert must evict another
    /// block. The policy may remember a block that is not inserted.
    fn wants(&mut self, _hash: u64, _charge_bytes: u64) -> bool {
        true
    }
    /// Adds `slot`, which the policy does not hold, for a new block. The shard has already made
    /// room for the block.
    fn admit(&mut self, slot: u32, hash: u64, charge_bytes: u64);
    /// Notes a use of the block in `slot`.
    fn hit(&mut self, slot: u32);
    /// Removes `slot`, whose block left the cache for another reason than eviction.
    fn forget(&mut self, slot: u32);
    /// Selects a slot and removes it. Returns `None` only when the policy holds no slot. `uses`
    /// returns the number of uses of a slot's block, excluding hits, since the previous call for
    /// that slot.
    fn evict(&mut self, uses: Uses<'_>) -> Option<u32>;
}

/// Creates an empty instance of a policy. [`CachePolicy::None`] gets an arbitrary one, because its
/// shards have no capacity and admit nothing.
pub(super) fn build(policy: CachePolicy) -> Box<dyn Policy> {
    match policy {
        CachePolicy::Lru | CachePolicy::None => Box::new(lru::Lru::default()),
        CachePolicy::Clock => Box::new(clock::Clock::default()),
        CachePolicy::Sieve => Box::new(sieve::Sieve::default()),
        CachePolicy::S3Fifo => Box::new(s3fifo::S3Fifo::default()),
    }
}
