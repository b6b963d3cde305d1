//! Compares the cache with plain simulations of its policies, and checks its invariants under
//! reconfiguration and concurrent load.

use std::collections::VecDeque;
use std::sync::Arc;

use super::*;
use crate::base::cache_block::CacheBlockBuf;
use CachePolicy::{Clock, Lru, S3Fifo, Sieve};

mod admission;
mod shards;

const POLICIES: [CachePolicy; 4] = [Lru, Clock, Sieve, S3Fifo];

/// Creates an empty block whose header is `number`.
fn new_block(number: u64) -> CacheBlock<u64> {
    CacheBlockBuf::zeroed(0, None).freeze(0, number)
}

fn number(found: Option<CacheBlock<u64>>) -> Option<u64> {
    found.map(|block| *block.header())
}

/// A small random number generator (xorshift64*), which makes traces reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns `len` draws from `keys` keys, where the k-th most popular key has weight `1 / k^0.99`.
fn zipfian(seed: u64, keys: usize, len: usize) -> Vec<u64> {
    let mut sums = Vec::with_capacity(keys);
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += 1.0 / (rank as f64).powf(0.99);
        sums.push(sum);
    }
    let mut random = Random(seed);
    (0..len)
        .map(|_| sums.partition_point(|&s| s < random.unit() * sum).min(keys - 1) as u64)
        .collect()
}

/// Returns a zipfian trace with a scan over 3,000 new keys after every 10,000 draws.
fn scan_polluted(seed: u64, keys: usize, len: usize) -> Vec<u64> {
    let mut trace = Vec::new();
    let mut fresh = 1 << 32;
    for chunk in zipfian(seed, keys, len).chunks(10_000) {
        trace.extend_from_slice(chunk);
        trace.extend(fresh..fresh + 3_000);
        fresh += 3_000;
    }
    trace
}

/// A straightforward implementation of a policy.
trait Simulation {
    /// Uses a key once and returns whether it was cached.
    fn touch(&mut self, key: u64) -> bool;
}

struct PlainLru(usize, Vec<u64>);

impl Simulation for PlainLru {
    fn touch(&mut self, key: u64) -> bool {
        let place = self.1.iter().position(|&k| k == key);
        match place {
            Some(place) => drop(self.1.remove(place)),
            None if self.1.len() == self.0 => drop(self.1.remove(0)),
            None => {}
        }
        self.1.push(key);
        place.is_some()
    }
}

/// CLOCK as second chance: a marked front entry moves to the back and loses its mark.
struct PlainClock(usize, VecDeque<(u64, bool)>);

impl Simulation for PlainClock {
    fn touch(&mut self, key: u64) -> bool {
        if let Some(entry) = self.1.iter_mut().find(|e| e.0 == key) {
            entry.1 = true;
            return true;
        }
        while self.1.len() == self.0 {
            match self.1.pop_front() {
                Some((old, true)) => self.1.push_back((old, false)),
                _ => break,
            }
        }
        self.1.push_back((key, false));
        false
    }
}

/// SIEVE: the capacity, the queue from the oldest to the newest entry, and the hand's position in
/// it.
struct PlainSieve(usize, Vec<(u64, bool)>, usize);

impl Simulation for PlainSieve {
    fn touch(&mut self, key: u64) -> bool {
        if let Some(entry) = self.1.iter_mut().find(|e| e.0 == key) {
            entry.1 = true;
            return true;
        }
        if self.1.len() == self.0 {
            loop {
                let hand = self.2 % self.1.len();
                if !self.1[hand].1 {
                    self.1.remove(hand);
                    self.2 = hand;
                    break;
                }
                self.1[hand].1 = false;
                self.2 = hand + 1;
            }
            self.2 %= self.0;
        }
        // Beyond the end of the queue, the hand returns to the oldest entry, not to the new entry.
        if self.2 == self.1.len() {
            self.2 = 0;
        }
        self.1.push((key, false));
        false
    }
}

struct PlainS3Fifo {
    capacity: usize,
    small: VecDeque<(u64, u32)>,
    main: VecDeque<(u64, u32)>,
    ghost: VecDeque<u64>,
}

impl PlainS3Fifo {
    fn evict_main(&mut self) {
        while let Some((key, uses)) = self.main.pop_front() {
            if uses == 0 {
                return;
            }
            self.main.push_back((key, uses - 1));
        }
    }

    fn evict_small(&mut self) {
        let main_max = self.capacity - self.capacity / 10;
        while let Some((key, uses)) = self.small.pop_front() {
            if uses <= 1 {
                self.ghost.push_back(key);
                if self.ghost.len() > main_max {
                    self.ghost.pop_front();
                }
                return;
            }
            self.main.push_back((key, 0));
            if self.main.len() > main_max {
                return self.evict_main();
            }
        }
    }
}

impl Simulation for PlainS3Fifo {
    fn touch(&mut self, key: u64) -> bool {
        let mut all = self.small.iter_mut().chain(self.main.iter_mut());
        if let Some(entry) = all.find(|e| e.0 == key) {
            entry.1 = (entry.1 + 1).min(3);
            return true;
        }
        while self.small.len() + self.main.len() >= self.capacity {
            if self.small.len() >= self.capacity / 10 {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
        if let Some(place) = self.ghost.iter().position(|&k| k == key) {
            self.ghost.remove(place);
            self.main.push_back((key, 0));
        } else {
            self.small.push_back((key, 0));
        }
        false
    }
}

fn plain(policy: CachePolicy, capacity: usize) -> Box<dyn Simulation> {
    match policy {
        Clock => Box::new(PlainClock(capacity, VecDeque::new())),
        Sieve => Box::new(PlainSieve(capacity, Vec::new(), 0)),
        S3Fifo => Box::new(PlainS3Fifo {
            capacity,
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: VecDeque::new(),
        }),
        _ => Box::new(PlainLru(capacity, Vec::new())),
    }
}

fn block(key: u64) -> BlockKey {
    BlockKey::new(key >> 8, key as u32 & 0xFF)
}

/// Removes all blocks of a file. Files of these tests have at most 400 blocks.
fn remove_file(cache: &BlockCache<u64>, file: u64) {
    cache.remove((0..400).map(|block| BlockKey::new(file, block)));
}

/// Uses a key once, as the table reader does. Returns whether the key was cached.
fn touch(cache: &BlockCache<u64>, key: u64, charge_bytes: u64) -> bool {
    match cache.get(&block(key)) {
        Some(found) => {
            assert_eq!(*found.header(), key);
            true
        }
        None => {
            let kept = cache.insert(block(key), new_block(key), charge_bytes, None);
            assert_eq!(*kept.header(), key);
            false
        }
    }
}

/// As [`touch`], through block slots.
fn touch_on(cache: &BlockCache<u64>, slots: &Arc<BlockSlots<u64>>, key: u64) -> bool {
    let at = key as usize;
    slots.prefetch(at);
    let found = cache.get_slot(slots, at);
    match found.or_else(|| cache.get(&block(key))) {
        Some(found) => {
            assert_eq!(*found.header(), key);
            true
        }
        None => {
            let kept = cache.insert(block(key), new_block(key), 1, SlotRef::new(slots, at));
            assert_eq!(*kept.header(), key);
            false
        }
    }
}

/// Returns the hit rates, in percent, of the cache and of the plain simulation. `places` is the
/// number of block slots, one for every key of the trace; `None` uses no slots.
fn hit_rates(
    policy: CachePolicy,
    capacity: usize,
    trace: &[u64],
    places: Option<usize>,
) -> (f64, f64) {
    let cache = BlockCache::new(policy, capacity as u64);
    let slots = places.map(|count| Arc::new(cache.block_slots(count, &Arc::default())));
    let mut simulation = plain(policy, capacity);
    let percent = |hits: usize| 100.0 * hits as f64 / trace.len() as f64;
    let touch = |key: u64| match &slots {
        Some(slots) => touch_on(&cache, slots, key),
        None => touch(&cache, key, 1),
    };
    let ours = trace.iter().filter(|&&key| touch(key)).count();
    let theirs = trace.iter().filter(|&&key| simulation.touch(key)).count();
    assert_eq!(cache.used_bytes(), capacity as u64);
    let stats = cache.stats();
    assert_eq!(stats.hits, ours as u64);
    assert_eq!(stats.misses + stats.hits, trace.len() as u64);
    assert_eq!(stats.insertions - stats.evictions, capacity as u64);
    (percent(ours), percent(theirs))
}

#[test]
fn each_policy_matches_hit_rate_of_simulation() {
    let traces = [
        ("zipfian", zipfian(7, 20_000, 120_000)),
        ("scan-polluted", scan_polluted(11, 10_000, 100_000)),
    ];
    for policy in POLICIES {
        for (name, trace) in &traces {
            let (ours, theirs) = hit_rates(policy, 1_000, trace, None);
            eprintln!("{policy:7} {name:14} {ours:.2} % (plain simulation {theirs:.2} %)");
            assert!((ours - theirs).abs() < 1.0, "{policy} on {name}: {ours} against {theirs}");
            assert!(ours > 30.0, "{policy} on {name}: only {ours} %");
        }
    }
}

#[test]
fn slot_hits_count_as_uses() {
    let trace = zipfian(7, 20_000, 120_000);
    for policy in POLICIES {
        let (ours, theirs) = hit_rates(policy, 1_000, &trace, Some(20_000));
        assert!((ours - theirs).abs() < 1.0, "{policy}: {ours} against {theirs}");
    }
}

#[test]
fn slot_counts_up_to_three_uses_since_last_query() {
    let cache = BlockCache::new(Clock, 10);
    let slots = Arc::new(cache.block_slots(1, &Arc::default()));
    for uses in [0, 1, 3, 4, 300] {
        remove_file(&cache, 0);
        touch_on(&cache, &slots, 0);
        for _ in 0..uses {
            assert!(touch_on(&cache, &slots, 0));
        }
        let held = cache.get(&block(0)).unwrap();
        assert_eq!((held.take_uses(), held.take_uses()), (uses.min(3) as u8, 0));
    }
}

#[test]
fn blocks_removed_from_slots_are_freed() {
    for policy in POLICIES {
        let cache = BlockCache::new(policy, 10);
        let slots = Arc::new(cache.block_slots(100, &Arc::default()));
        let blocks: Vec<CacheBlock<u64>> = (0..100).map(new_block).collect();
        let held = || blocks.iter().filter(|block| block.ref_count() > 1).count();
        for (at, value) in blocks.iter().enumerate() {
            let key = block(at as u64);
            cache.insert(key, value.clone(), 1, SlotRef::new(&slots, at));
        }
        assert_eq!(held(), 10, "{policy}");
        cache.set_capacity(0);
        assert_eq!(held(), 0, "{policy}");
        cache.set_capacity(10);
        cache.insert(block(1), blocks[1].clone(), 1, SlotRef::new(&slots, 1));
        drop((cache, slots));
        assert_eq!(held(), 0, "{policy}");
    }
}

#[test]
fn slots_hold_exactly_cached_blocks() {
    for policy in [Clock, Sieve, S3Fifo] {
        let cache = BlockCache::new(policy, 500);
        let slots = Arc::new(cache.block_slots(2_000, &Arc::default()));
        let mut random = Random(8);
        for step in 0..20_000 {
            touch_on(&cache, &slots, random.next() % 2_000);
            match step % 4_000 {
                1_000 => cache.set_policy(POLICIES[step as usize / 4_000 % 4]),
                2_000 => remove_file(&cache, random.next() % 8),
                3_000 => cache.set_capacity(300 + random.next() % 300),
                _ => {}
            }
        }
        cache.set_policy(policy);
        for key in 0..2_000 {
            let by_key = number(cache.get(&block(key)));
            assert_eq!(number(cache.get_slot(&slots, key as usize)), by_key, "{policy} {key}");
        }
        assert!(SlotRef::new(&slots, 2_000).is_none());
        cache.set_policy(Lru);
        assert!((0..2_000).all(|at| cache.get_slot(&slots, at).is_none()));
        cache.set_capacity(0);
        cache.set_policy(policy);
        assert!((0..2_000).all(|at| cache.get_slot(&slots, at).is_none()));
        assert_eq!(slots.filled().count(), 0);
    }
}

#[test]
fn sharded_cache_hit_rate_is_close_to_single_list() {
    let trace = zipfian(3, 20_000, 100_000);
    for policy in POLICIES {
        let cache = BlockCache::new(policy, 1_000 * 4096);
        let mut simulation = plain(policy, 1_000);
        let ours = trace.iter().filter(|&&key| touch(&cache, key, 4096)).count() as f64;
        let theirs = trace.iter().filter(|&&key| simulation.touch(key)).count() as f64;
        let points = 100.0 * (ours - theirs) / trace.len() as f64;
        assert!(points.abs() < 1.5, "{policy}: {points} points apart");
    }
}

#[test]
fn scan_resistant_policies_beat_lru_on_scan() {
    let trace = scan_polluted(5, 10_000, 100_000);
    let (lru, _) = hit_rates(Lru, 1_000, &trace, None);
    for policy in [Sieve, S3Fifo] {
        let (rate, _) = hit_rates(policy, 1_000, &trace, None);
        assert!(rate > lru + 2.0, "{policy}: {rate} % against {lru} %");
    }
}

#[test]
fn usage_stays_within_capacity_while_resized() {
    let mut random = Random(99);
    for policy in POLICIES {
        let cache = BlockCache::new(policy, 2 * MIB);
        for step in 0..40_000u64 {
            let key = random.next() % 3_000;
            // The charge of a block depends only on its key, as in a real table.
            touch(&cache, key, 100 + key % 7 * 900);
            if step % 500 == 0 {
                let capacities = [0, 3_000, 100_000, MIB - 1, MIB, 3 * MIB, 8 * MIB];
                let bytes = capacities[(random.next() % 7) as usize];
                cache.set_capacity(bytes);
                assert_eq!(cache.capacity_bytes(), bytes);
            }
            if step % 50 == 0 {
                assert!(cache.used_bytes() <= cache.capacity_bytes(), "{policy} at step {step}");
            }
        }
        cache.set_capacity(16 * MIB);
        for key in 0..3_000 {
            touch(&cache, key, 100);
        }
        assert!((0..3_000).all(|key| cache.get(&block(key)).is_some()), "{policy} lost capacity");
        cache.set_capacity(0);
        assert_eq!(cache.used_bytes(), 0);
        assert!(!touch(&cache, 1, 100));
        assert!(cache.get(&block(1)).is_none());
    }
}

#[test]
fn policy_change_keeps_cached_blocks() {
    let cache = BlockCache::new(Lru, 1_000);
    let mut random = Random(4);
    for round in 0..40 {
        for _ in 0..3_000 {
            touch(&cache, random.next() % 2_000, 1);
        }
        let held: Vec<u64> = (0..2_000).filter(|&k| cache.get(&block(k)).is_some()).collect();
        assert_eq!(held.len(), 1_000);
        cache.set_policy(POLICIES[round % 4]);
        assert_eq!(cache.policy(), POLICIES[round % 4]);
        assert!(held.iter().all(|&k| cache.get(&block(k)).is_some()));
    }
    cache.set_policy(CachePolicy::None);
    assert_eq!((cache.used_bytes(), cache.capacity_bytes()), (0, 1_000));
    touch(&cache, 1, 1);
    assert_eq!(cache.used_bytes(), 0);
    cache.set_policy(S3Fifo);
    touch(&cache, 1, 1);
    assert_eq!(cache.used_bytes(), 1);
}

#[test]
fn first_insert_wins_and_oversized_block_is_rejected() {
    for policy in POLICIES {
        let cache = BlockCache::new(policy, 1_000);
        let key = BlockKey::new(1, 2);
        let first = cache.insert(key, new_block(10), 600, None);
        let second = cache.insert(key, new_block(20), 600, None);
        assert!(first.is_same(&second));
        let oversized = cache.insert(BlockKey::new(1, 3), new_block(30), 1_001, None);
        assert_eq!((*oversized.header(), cache.used_bytes()), (30, 600));
        // A block evicted while it is held stays valid for the holder.
        cache.insert(BlockKey::new(1, 4), new_block(40), 1_000, None);
        assert_eq!((number(cache.get(&key)), *first.header()), (None, 10));
    }
}

#[test]
fn removed_file_leaves_no_blocks() {
    for policy in POLICIES {
        for capacity in [500_000, 4 * MIB] {
            let cache = BlockCache::new(policy, capacity);
            for round in 0..20u64 {
                for n in 0..400 {
                    let key = BlockKey::new(round + n % 4, n as u32);
                    cache.insert(key, new_block(n), 1_000, None);
                    cache.get(&BlockKey::new(round + n % 4, n as u32 / 2));
                }
                remove_file(&cache, round);
                for n in 0..400 {
                    assert!(cache.get(&BlockKey::new(round, n)).is_none());
                }
            }
            for file in 0..24 {
                remove_file(&cache, file);
            }
            assert_eq!(cache.used_bytes(), 0, "{policy}");
        }
    }
}

#[test]
fn policy_change_keeps_frequently_used_blocks() {
    let cache = BlockCache::new(S3Fifo, 500_000);
    for key in 0..10 {
        for _ in 0..5 {
            touch(&cache, key, 1_000);
        }
    }
    for policy in [Clock, S3Fifo, Sieve] {
        cache.set_policy(policy);
        for key in (0..10).chain(0..10) {
            assert_eq!(number(cache.get(&block(key))), Some(key), "{policy}");
        }
    }
    cache.set_capacity(0);
    assert_eq!(cache.used_bytes(), 0);
}

#[test]
fn concurrent_lookups_return_only_inserted_blocks() {
    for policy in POLICIES {
        let cache = BlockCache::new(policy, 2 * MIB);
        let slots = Arc::new(cache.block_slots(4_000, &Arc::default()));
        std::thread::scope(|scope| {
            for seed in 1..=4u64 {
                let (cache, slots) = (&cache, &slots);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for step in 0..30_000u64 {
                        let key = random.next() % 4_000;
                        if step % 3 == 0 {
                            touch(cache, key, 1_000);
                        } else {
                            touch_on(cache, slots, key);
                        }
                        match step % 3_000 {
                            0 if seed == 1 => cache.set_capacity(random.next() % (4 * MIB)),
                            1 if seed == 2 => {
                                cache.set_policy(POLICIES[(step / 3_000 % 4) as usize])
                            }
                            2 => remove_file(cache, random.next() % 16),
                            _ => {}
                        }
                    }
                });
            }
        });
        assert!(cache.used_bytes() <= cache.capacity_bytes());
        for key in 0..4_000 {
            if let Some(found) = cache.get(&block(key)) {
                assert_eq!(*found.header(), key);
            }
        }
    }
}
