//! A cache shard: entries that hold blocks, a hash directory of the entries, and a policy that
//! orders them.
//!
//! Invariants:
//! 1. An entry is in the directory and known to the policy exactly while it holds a block.
//! 2. `used_bytes` is the total charge of those entries, and at most `capacity_bytes`.
//!
//! Evicted blocks are returned to the caller, which frees them after it has released the lock.

use super::block_slots::SlotRef;
use super::policy::{self, Policy};
use super::{BlockKey, CacheStats};
use crate::base::cache_block::CacheBlock;
use crate::options::kinds::CachePolicy;

/// Entry number of an empty bucket.
const EMPTY: u32 = u32::MAX;

/// An entry of the shard: holds one block or is free.
struct Entry<H> {
    key: BlockKey,
    charge_bytes: u64,
    block: Option<CacheBlock<H>>,
    /// The block slot that also holds the block, for lookups without the directory.
    slot: Option<SlotRef<H>>,
}

impl<H> Entry<H> {
    fn take_uses(&self) -> u8 {
        self.block.as_ref().map_or(0, CacheBlock::take_uses)
    }
}

/// A cache shard.
pub(super) struct CacheShard<H> {
    directory: Directory,
    slots: Vec<Entry<H>>,
    free: Vec<u32>,
    policy: Box<dyn Policy>,
    capacity_bytes: u64,
    used_bytes: u64,
    stats: CacheStats,
}

impl<H: Send + Sync + 'static> CacheShard<H> {
    /// Creates an empty shard with capacity 0.
    pub(super) fn new(policy: CachePolicy) -> CacheShard<H> {
        CacheShard {
            directory: Directory::new(),
            slots: Vec::new(),
            free: Vec::new(),
            policy: policy::build(policy),
            capacity_bytes: 0,
            used_bytes: 0,
            stats: CacheStats::default(),
        }
    }

    #[inline]
    fn find(&self, hash: u64, key: &BlockKey) -> Option<u32> {
        self.directory.find(hash, |slot| self.slots[slot as usize].key == *key)
    }

    /// Returns the block if it is cached. Informs the policy and counts a hit or miss.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: &BlockKey) -> Option<CacheBlock<H>> {
        let Some(slot) = self.find(hash, key) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        self.policy.hit(slot);
        self.slots[slot as usize].block.clone()
    }

    /// Returns the block if it is cached, without informing the policy.
    pub(super) fn peek(&self, hash: u64, key: &BlockKey) -> Option<CacheBlock<H>> {
        let slot = self.find(hash, key)?;
        self.slots[slot as usize].block.clone()
    }

    /// Returns whether to insert a missing block of `charge_bytes` after it is read. True if the
    /// block fits, and either there is free space or the policy prefers it to an eviction
    /// candidate.
    pub(super) fn wants(&mut self, hash: u64, charge_bytes: u64) -> bool {
        charge_bytes <= self.capacity_bytes
            && (self.used_bytes + charge_bytes <= self.capacity_bytes
                || self.policy.wants(hash, charge_bytes))
    }

    /// Inserts a block, unless it is larger than the shard, and moves evicted blocks to `evicted`.
    /// Returns the block to use: the block already cached under `key`, else `block`.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: BlockKey,
        block: CacheBlock<H>,
        charge_bytes: u64,
        slot: Option<SlotRef<H>>,
        evicted: &mut Vec<CacheBlock<H>>,
    ) -> CacheBlock<H> {
        if let Some(slot) = self.find(hash, &key) {
            return self.refill_slot(slot as usize).unwrap_or(block);
        }
        if charge_bytes > self.capacity_bytes {
            return block;
        }
        self.evict_down_to(self.capacity_bytes - charge_bytes, evicted);
        if self.free.is_empty() && self.slots.len() >= EMPTY as usize {
            return block;
        }
        if let Some(slot) = &slot {
            slot.set(Some(&block));
        }
        let taken = Entry { key, charge_bytes, block: Some(block.clone()), slot };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = taken;
                slot
            }
            None => {
                self.slots.push(taken);
                (self.slots.len() - 1) as u32
            }
        };
        self.directory.insert(hash, slot);
        self.policy.admit(slot, hash, charge_bytes);
        self.used_bytes += charge_bytes;
        self.stats.insertions += 1;
        block
    }

    /// Returns the block of an entry. Refills the block slot first if another entry emptied it.
    fn refill_slot(&self, slot: usize) -> Option<CacheBlock<H>> {
        let held = &self.slots[slot];
        if let Some(slot) = held.slot.as_ref().filter(|slot| slot.is_empty()) {
            slot.set(held.block.as_ref());
        }
        held.block.clone()
    }

    fn evict_down_to(&mut self, bytes: u64, evicted: &mut Vec<CacheBlock<H>>) {
        while self.used_bytes > bytes {
            let slots = &self.slots;
            let uses = |slot: u32| slots[slot as usize].take_uses();
            let Some(slot) = self.policy.evict(&uses) else { break };
            self.stats.evictions += 1;
            self.release(slot, evicted);
        }
    }

    /// Empties an entry that the policy has already removed.
    fn release(&mut self, slot: u32, out: &mut Vec<CacheBlock<H>>) {
        let left = &mut self.slots[slot as usize];
        self.directory.remove(left.key.hash(), slot);
        self.used_bytes -= left.charge_bytes;
        if let Some(slot) = left.slot.take() {
            slot.set(None);
        }
        out.extend(left.block.take());
        self.free.push(slot);
    }

    /// Returns whether a speculative insert of `charge_bytes` evicts no block and leaves a quarter
    /// of the capacity for requested blocks.
    pub(super) fn has_room(&self, charge_bytes: u64) -> bool {
        self.used_bytes + charge_bytes <= self.capacity_bytes - self.capacity_bytes / 4
    }

    /// Moves a block, if it is cached, to `removed`.
    pub(super) fn remove(&mut self, hash: u64, key: &BlockKey, removed: &mut Vec<CacheBlock<H>>) {
        if let Some(slot) = self.find(hash, key) {
            self.policy.forget(slot);
            self.release(slot, removed);
        }
    }

    /// Moves all blocks of a store to `removed`.
    pub(super) fn remove_store(&mut self, store: u32, removed: &mut Vec<CacheBlock<H>>) {
        for slot in 0..self.slots.len() {
            let entry = &self.slots[slot];
            if entry.block.is_some() && entry.key.store == store {
                self.policy.forget(slot as u32);
                self.release(slot as u32, removed);
            }
        }
    }

    /// Changes the capacity, in bytes, and moves the blocks that no longer fit to `evicted`.
    pub(super) fn set_capacity(&mut self, bytes: u64, evicted: &mut Vec<CacheBlock<H>>) {
        self.evict_down_to(bytes, evicted);
        self.capacity_bytes = bytes;
        self.policy.set_capacity(bytes);
        if self.free.len() == self.slots.len() {
            self.slots = Vec::new();
            self.free = Vec::new();
            self.directory = Directory::new();
        }
    }

    /// Changes the policy. The blocks are admitted to the new policy in the eviction order of the
    /// old policy.
    pub(super) fn set_policy(&mut self, policy: CachePolicy) {
        let mut old = std::mem::replace(&mut self.policy, policy::build(policy));
        self.policy.set_capacity(self.capacity_bytes);
        let slots = &self.slots;
        while let Some(slot) = old.evict(&|slot| slots[slot as usize].take_uses()) {
            let held = &self.slots[slot as usize];
            self.policy.admit(slot, held.key.hash(), held.charge_bytes);
        }
    }

    /// Returns the capacity, in bytes.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Returns the total charge of the cached blocks, in bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Returns the counters.
    pub(super) fn stats(&self) -> CacheStats {
        self.stats
    }
}

/// A bucket of the directory: the low 32 bits of the hash, compared first, and the entry number.
#[derive(Clone, Copy)]
struct Bucket {
    tag: u32,
    slot: u32,
}

/// An open-addressed hash table from hashes to entries. It uses linear probing, is at most two
/// thirds full, and needs no deletion markers, because a removal moves the following buckets back.
/// The preferred position of a bucket is `tag & mask`.
struct Directory {
    buckets: Box<[Bucket]>,
    len: usize,
}

impl Directory {
    fn new() -> Directory {
        Directory { buckets: vec![Bucket { tag: 0, slot: EMPTY }; 16].into(), len: 0 }
    }

    /// Returns the entry with this hash that `is_it` accepts.
    #[inline]
    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let (tag, mask) = (hash as u32, self.buckets.len() - 1);
        let mut at = tag as usize & mask;
        loop {
            let bucket = self.buckets[at & mask];
            if bucket.slot == EMPTY {
                return None;
            }
            if bucket.tag == tag && is_it(bucket.slot) {
                return Some(bucket.slot);
            }
            at += 1;
        }
    }

    /// Adds an entry that is not in the table.
    fn insert(&mut self, hash: u64, slot: u32) {
        if (self.len + 1) * 3 > self.buckets.len() * 2 {
            let twice = vec![Bucket { tag: 0, slot: EMPTY }; self.buckets.len() * 2].into();
            for bucket in std::mem::replace(&mut self.buckets, twice) {
                if bucket.slot != EMPTY {
                    self.place(bucket);
                }
            }
        }
        self.place(Bucket { tag: hash as u32, slot });
        self.len += 1;
    }

    fn place(&mut self, bucket: Bucket) {
        let mask = self.buckets.len() - 1;
        let mut at = bucket.tag as usize & mask;
        while self.buckets[at].slot != EMPTY {
            at = (at + 1) & mask;
        }
        self.buckets[at] = bucket;
    }

    /// Removes an entry. Does nothing if the entry is not in the table.
    fn remove(&mut self, hash: u64, slot: u32) {
        let mask = self.buckets.len() - 1;
        let mut hole = hash as u32 as usize & mask;
        while self.buckets[hole].slot != slot {
            if self.buckets[hole].slot == EMPTY {
                return;
            }
            hole = (hole + 1) & mask;
        }
        self.len -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let bucket = self.buckets[at];
            if bucket.slot == EMPTY {
                break;
            }
            // The bucket may fill the hole unless its preferred position lies after the hole.
            let probe_distance = at.wrapping_sub(bucket.tag as usize) & mask;
            if probe_distance >= (at.wrapping_sub(hole) & mask) {
                self.buckets[hole] = bucket;
                hole = at;
            }
        }
        self.buckets[hole].slot = EMPTY;
    }
}
