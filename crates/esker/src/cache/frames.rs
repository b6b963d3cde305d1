//! One shard: slots that hold blocks, a directory that finds them, a policy that orders them.
//!
//! What stays true:
//! 1. A slot is in the directory and known to the policy exactly while it holds a block.
//! 2. `used_bytes` is the sum of the charges of those slots, and at most `capacity_bytes`.
//!
//! Evicted blocks are handed to the caller, who frees them after the lock is released.

use super::policy::{self, Policy};
use super::shelf::Home;
use super::{BlockKey, CacheStats};
use crate::base::frame::Frame;
use crate::options::kinds::CachePolicy;

/// The slot of an empty bucket.
const EMPTY: u32 = u32::MAX;

/// One place for a block.
struct Slot<H> {
    key: BlockKey,
    charge_bytes: u64,
    block: Option<Frame<H>>,
    /// Where it can be found without a search.
    home: Option<Home<H>>,
}

impl<H> Slot<H> {
    fn take_uses(&self) -> u8 {
        self.block.as_ref().map_or(0, Frame::take_uses)
    }
}

/// The blocks of one shard.
pub(super) struct Frames<H> {
    directory: Directory,
    slots: Vec<Slot<H>>,
    free: Vec<u32>,
    policy: Box<dyn Policy>,
    capacity_bytes: u64,
    used_bytes: u64,
    stats: CacheStats,
}

impl<H: Send + Sync + 'static> Frames<H> {
    /// An empty shard with no capacity yet.
    pub(super) fn new(policy: CachePolicy) -> Frames<H> {
        Frames {
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

    /// The block, if it is here; tells the policy and counts.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: &BlockKey) -> Option<Frame<H>> {
        let Some(slot) = self.find(hash, key) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        self.policy.hit(slot);
        self.slots[slot as usize].block.clone()
    }

    /// The block, if it is here; nobody is told.
    pub(super) fn peek(&self, hash: u64, key: &BlockKey) -> Option<Frame<H>> {
        let slot = self.find(hash, key)?;
        self.slots[slot as usize].block.clone()
    }

    /// Whether to take in a block of so many bytes that has to be read: it fits, and there is room or it
    /// is worth another's place.
    pub(super) fn wants(&mut self, hash: u64, charge_bytes: u64) -> bool {
        charge_bytes <= self.capacity_bytes
            && (self.used_bytes + charge_bytes <= self.capacity_bytes
                || self.policy.wants(hash, charge_bytes))
    }

    /// Takes a block in if it fits at all, evicting into `evicted`; returns the one to use.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: BlockKey,
        block: Frame<H>,
        charge_bytes: u64,
        home: Option<Home<H>>,
        evicted: &mut Vec<Frame<H>>,
    ) -> Frame<H> {
        if let Some(slot) = self.find(hash, &key) {
            return self.at_home(slot as usize).unwrap_or(block);
        }
        if charge_bytes > self.capacity_bytes {
            return block;
        }
        self.evict_down_to(self.capacity_bytes - charge_bytes, evicted);
        if self.free.is_empty() && self.slots.len() >= EMPTY as usize {
            return block;
        }
        if let Some(home) = &home {
            home.set(Some(&block));
        }
        let taken = Slot { key, charge_bytes, block: Some(block.clone()), home };
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

    /// The block of a slot, put where it is looked for, should another have emptied that place.
    fn at_home(&self, slot: usize) -> Option<Frame<H>> {
        let held = &self.slots[slot];
        if let Some(home) = held.home.as_ref().filter(|home| home.is_empty()) {
            home.set(held.block.as_ref());
        }
        held.block.clone()
    }

    fn evict_down_to(&mut self, bytes: u64, evicted: &mut Vec<Frame<H>>) {
        while self.used_bytes > bytes {
            let slots = &self.slots;
            let uses = |slot: u32| slots[slot as usize].take_uses();
            let Some(slot) = self.policy.evict(&uses) else { break };
            self.stats.evictions += 1;
            self.release(slot, evicted);
        }
    }

    /// Empties a slot that the policy has already let go of.
    fn release(&mut self, slot: u32, out: &mut Vec<Frame<H>>) {
        let left = &mut self.slots[slot as usize];
        self.directory.remove(left.key.hash(), slot);
        self.used_bytes -= left.charge_bytes;
        if let Some(home) = left.home.take() {
            home.set(None);
        }
        out.extend(left.block.take());
        self.free.push(slot);
    }

    /// Whether a block of so many bytes can be taken in that nobody asked for: without evicting
    /// another, and leaving a quarter to those that are asked for.
    pub(super) fn has_room(&self, charge_bytes: u64) -> bool {
        self.used_bytes + charge_bytes <= self.capacity_bytes - self.capacity_bytes / 4
    }

    /// Lets go of a block, if it is here, into `removed`.
    pub(super) fn remove(&mut self, hash: u64, key: &BlockKey, removed: &mut Vec<Frame<H>>) {
        if let Some(slot) = self.find(hash, key) {
            self.policy.forget(slot);
            self.release(slot, removed);
        }
    }

    /// Changes the capacity and evicts, into `evicted`, what no longer fits.
    pub(super) fn set_capacity(&mut self, bytes: u64, evicted: &mut Vec<Frame<H>>) {
        self.evict_down_to(bytes, evicted);
        self.capacity_bytes = bytes;
        self.policy.set_capacity(bytes);
        if self.free.len() == self.slots.len() {
            self.slots = Vec::new();
            self.free = Vec::new();
            self.directory = Directory::new();
        }
    }

    /// Changes the policy; the new one meets the blocks in the order the old one would evict them.
    pub(super) fn set_policy(&mut self, policy: CachePolicy) {
        let mut old = std::mem::replace(&mut self.policy, policy::build(policy));
        self.policy.set_capacity(self.capacity_bytes);
        let slots = &self.slots;
        while let Some(slot) = old.evict(&|slot| slots[slot as usize].take_uses()) {
            let held = &self.slots[slot as usize];
            self.policy.admit(slot, held.key.hash(), held.charge_bytes);
        }
    }

    /// The capacity, in bytes.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// The charges of the blocks held, in bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// The counters.
    pub(super) fn stats(&self) -> CacheStats {
        self.stats
    }
}

/// Where a hash's slot is: a hint to filter by, and the slot.
#[derive(Clone, Copy)]
struct Bucket {
    tag: u32,
    slot: u32,
}

/// An open-addressed table from hashes to slots: linear probing, at most two thirds full, with no
/// tombstones (a removal moves the followers back). A bucket's home is `tag & mask`.
struct Directory {
    buckets: Box<[Bucket]>,
    len: usize,
}

impl Directory {
    fn new() -> Directory {
        Directory { buckets: vec![Bucket { tag: 0, slot: EMPTY }; 16].into(), len: 0 }
    }

    /// The slot with this hash that `is_it` accepts.
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

    /// Adds a slot that is not there.
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

    /// Takes a slot out; nothing happens if it is not there.
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
            // It may fill the hole unless its home lies after the hole.
            let from_home = at.wrapping_sub(bucket.tag as usize) & mask;
            if from_home >= (at.wrapping_sub(hole) & mask) {
                self.buckets[hole] = bucket;
                hole = at;
            }
        }
        self.buckets[hole].slot = EMPTY;
    }
}
