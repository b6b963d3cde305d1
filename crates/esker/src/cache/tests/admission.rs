//! Compares a cache with admission control ([`BlockCache::should_admit`]) with a cache that inserts
//! all.

use super::*;

/// Runs `trace` and returns the hits, the hits of the second half, and the number of inserts.
fn run(trace: &[u64], asks: bool) -> (usize, usize, usize) {
    let cache = BlockCache::new(S3Fifo, 1_000);
    let (mut hits, mut late) = (0, 0);
    for (at, &key) in trace.iter().enumerate() {
        if cache.get(&block(key)).is_some() {
            hits += 1;
            late += usize::from(at >= trace.len() / 2);
        } else if !asks || cache.should_admit(&block(key), 1) {
            cache.insert(block(key), new_block(key), 1, None);
        }
    }
    (hits, late, cache.stats().insertions as usize)
}

fn uniform(seed: u64, keys: u64, len: usize) -> Vec<u64> {
    let mut random = Random(seed);
    (0..len).map(|_| (random.next() >> 8) % keys).collect()
}

/// Returns a trace that uses each key four times, 20 draws apart, and never again.
fn in_bursts(len: usize) -> Vec<u64> {
    (0..len as u64).map(|at| (1 << 40) + at / 80 * 20 + at % 20).collect()
}

#[test]
fn few_blocks_are_admitted_without_reuse_at_equal_hit_rate() {
    let trace = uniform(3, 20_000, 200_000);
    let ((all, _, all_taken), (asked, _, taken)) = (run(&trace, false), run(&trace, true));
    assert_eq!(all_taken, trace.len() - all);
    assert!(taken * 3 < all_taken, "{taken} of {all_taken}");
    assert!((asked as f64 / all as f64 - 1.0).abs() < 0.1, "{asked} beside {all}");
}

#[test]
fn admission_does_not_lower_hit_rate_with_popular_blocks() {
    for trace in [zipfian(7, 20_000, 120_000), scan_polluted(11, 10_000, 100_000)] {
        let ((all, ..), (asked, ..)) = (run(&trace, false), run(&trace, true));
        eprintln!("{all} hits of {}, {asked} where the cache is asked first", trace.len());
        assert!(all > trace.len() / 3);
        assert!(asked * 100 > all * 99, "{asked} beside {all}");
    }
}

#[test]
fn all_blocks_are_admitted_once_reuse_returns() {
    let mut trace = uniform(5, 20_000, 60_000);
    trace.extend(in_bursts(60_000));
    let ((_, all, _), (_, asked, _)) = (run(&trace, false), run(&trace, true));
    assert_eq!(all, 45_000, "three of four uses find the block");
    // The policy notices the change once 128 inserted blocks have left the small queue.
    assert!(asked * 100 > all * 95, "{asked} beside {all}");
}

#[test]
fn free_capacity_admits_all_blocks_except_oversized() {
    for policy in POLICIES {
        let cache = BlockCache::new(policy, 1_000);
        for &key in &uniform(9, 1 << 50, 1_000) {
            assert!(cache.should_admit(&block(key), 1), "{policy}");
            cache.insert(block(key), new_block(key), 1, None);
        }
        assert!(!cache.should_admit(&block(1 << 60), 1_001), "{policy}");
        let wanted = (0..4_000).filter(|key| {
            let key = block((1 << 55) + key);
            let wanted = cache.should_admit(&key, 1);
            if wanted {
                cache.insert(key, new_block(0), 1, None);
            }
            wanted
        });
        let wanted = wanted.count();
        // S3-FIFO soon rejects blocks that are never used again; the other policies accept all
        // blocks.
        assert_eq!(wanted < 2_000, policy == S3Fifo, "{policy}: {wanted}");
        assert!(wanted == 4_000 || policy == S3Fifo, "{policy}: {wanted}");
    }
}

#[test]
fn unconditional_inserts_do_not_affect_admission() {
    let mut trace = uniform(3, 1 << 50, 20_000);
    trace.extend(in_bursts(20_000));
    let cache = BlockCache::new(S3Fifo, 1_000);
    for &key in &trace[..20_000] {
        cache.insert(block(key), new_block(key), 1, None);
    }
    let hits = trace[20_000..].iter().filter(|&&key| {
        let found = cache.get(&block(key)).is_some();
        if !found && cache.should_admit(&block(key), 1) {
            cache.insert(block(key), new_block(key), 1, None);
        }
        found
    });
    assert_eq!(hits.count(), 15_000, "three of four uses find the block from the first on");
}

#[test]
fn block_missing_from_its_slot_is_a_miss_under_every_policy() {
    for policy in POLICIES {
        let cache = BlockCache::new(policy, 100);
        let slots = Arc::new(cache.block_slots(400, &Arc::default()));
        let mut found = 0;
        let trace = zipfian(7, 400, 5_000);
        for &key in &trace {
            match cache.get_with_slot(&slots, key as usize, &block(key)) {
                Some(held) => {
                    assert_eq!(*held.header(), key);
                    found += 1;
                }
                None => {
                    let slot = SlotRef::new(&slots, key as usize);
                    cache.insert(block(key), new_block(key), 1, slot);
                }
            }
        }
        let stats = cache.stats();
        assert!(found > 2_000, "{policy}: {found}");
        assert_eq!((stats.hits, stats.misses), (found, trace.len() as u64 - found), "{policy}");
    }
}

#[test]
fn cleared_slot_is_refilled_by_insert() {
    let cache = BlockCache::new(S3Fifo, 100);
    let slots = Arc::new(cache.block_slots(1, &Arc::default()));
    let slot = || SlotRef::new(&slots, 0);
    cache.insert(block(0), new_block(5), 1, slot());
    slot().unwrap().set(None);
    assert!(cache.get_with_slot(&slots, 0, &block(0)).is_none());
    assert_eq!(*cache.insert(block(0), new_block(6), 1, slot()).header(), 5);
    assert_eq!(number(cache.get_with_slot(&slots, 0, &block(0))), Some(5));
}
