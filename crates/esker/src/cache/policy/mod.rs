//! Which block leaves a full shard.
//!
//! A policy knows slots (small numbers that name frames), never blocks. It holds exactly the slots
//! admitted and not yet evicted or forgotten.

mod clock;
mod ghost;
mod list;
mod lru;
mod s3fifo;
mod sieve;

use crate::options::kinds::CachePolicy;

/// Tells and forgets the uses of a slot's block that were not reported as hits.
pub(super) type Uses<'a> = &'a dyn Fn(u32) -> u8;

/// The order in which a shard's frames are given up.
pub(super) trait Policy: Send {
    /// The shard's capacity is now this many bytes.
    fn set_capacity(&mut self, _bytes: u64) {}
    /// Whether it is worth the work to take in a block that was read from its file, where another has to
    /// leave for it. One that is not taken in may still be remembered.
    fn wants(&mut self, _hash: u64, _charge_bytes: u64) -> bool {
        true
    }
    /// A block arrived in `slot`, which the policy does not hold. There is room for it already.
    fn admit(&mut self, slot: u32, hash: u64, charge_bytes: u64);
    /// The block in `slot` was used.
    fn hit(&mut self, slot: u32);
    /// The block in `slot` was removed for a reason of its own.
    fn forget(&mut self, slot: u32);
    /// Chooses a slot and lets go of it; `None` only when none is held. `uses` says how often the
    /// block in a slot was used, beside its hits, since that was last asked.
    fn evict(&mut self, uses: Uses<'_>) -> Option<u32>;
}

/// An empty instance of a policy. For [`CachePolicy::None`] any will do: such a shard has no
/// capacity, so nothing is admitted.
pub(super) fn build(policy: CachePolicy) -> Box<dyn Policy> {
    match policy {
        CachePolicy::Lru | CachePolicy::None => Box::new(lru::Lru::default()),
        CachePolicy::Clock => Box::new(clock::Clock::default()),
        CachePolicy::Sieve => Box::new(sieve::Sieve::default()),
        CachePolicy::S3Fifo => Box::new(s3fifo::S3Fifo::default()),
    }
}
