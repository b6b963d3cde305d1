//! Tests of the division of a capacity among shards.

use super::*;

/// Returns a block of `shard`, selected by the highest bits of its hash. A shard's directory uses
/// the lowest bits, so that the blocks of one shard do not collide in the directory.
fn block_of(shard: usize) -> BlockKey {
    (0..).map(block).find(|key| key.hash() >> 60 == shard as u64).unwrap()
}

#[test]
fn shard_capacities_add_up_to_capacity() {
    for policy in POLICIES {
        let cache = BlockCache::new(policy, 64 * MIB + 15);
        let part = 4 * MIB;
        for shard in 0..16 {
            let key = block_of(shard);
            let most = if shard == 0 { part + 15 } else { part };
            cache.insert(key, new_block(1), most + 1, None);
            assert_eq!(number(cache.get(&key)), None, "{policy}: more than shard {shard} takes");
            cache.insert(key, new_block(2), most, None);
            assert_eq!(number(cache.get(&key)), Some(2), "{policy}: shard {shard}");
        }
        assert_eq!(cache.used_bytes(), 64 * MIB + 15);
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses), (16, 16), "{policy}");
        assert_eq!((stats.insertions, stats.evictions), (16, 0), "{policy}");
        for shard in 0..16 {
            let other = (1_000..).map(block).find(|key| key.hash() >> 60 == shard as u64).unwrap();
            cache.insert(other, new_block(3), 1, None);
        }
        assert_eq!(cache.stats().evictions, 16, "{policy}: each shard evicts only its own blocks");
    }
}

#[test]
fn larger_capacity_evicts_nothing_unless_blocks_change_shards() {
    for policy in POLICIES {
        let cache = BlockCache::new(policy, 70 * MIB);
        let held = || (0..100).filter(|key| cache.get(&block(*key)).is_some()).count();
        let fill = || (0..100).filter(|key| touch(&cache, *key, 100)).count();
        fill();
        for capacity in [90 * MIB, 70 * MIB, 200 * MIB, 64 * MIB] {
            cache.set_capacity(capacity);
            assert_eq!(held(), 100, "{policy}: {capacity}");
        }
        // With fewer shards, blocks must still be found.
        for capacity in [17 * MIB, MIB - 1] {
            cache.set_capacity(capacity);
            fill();
            assert_eq!((held(), cache.used_bytes()), (100, 10_000), "{policy}: {capacity}");
        }
    }
}

#[test]
fn budget_that_shrinks_a_cache_and_grows_it_again_evicts_nothing() {
    for policy in POLICIES {
        for whole in [8 * MIB, 20 * MIB, 64 * MIB] {
            let cache = BlockCache::new(policy, whole);
            (0..100).for_each(|key| {
                touch(&cache, key, 100);
            });
            for capacity in [whole - 1, whole / 2, whole / 8, whole, whole + MIB] {
                cache.set_capacity(capacity);
                let held = (0..100).filter(|key| cache.get(&block(*key)).is_some()).count();
                assert_eq!(held, 100, "{policy}: {capacity} of {whole}");
            }
        }
    }
}

#[test]
fn block_inserted_while_shards_change_is_found_afterwards() {
    for _ in 0..20 {
        let cache = Arc::new(BlockCache::new(Lru, 64 * MIB));
        let other = cache.clone();
        let resized = std::thread::spawn(move || {
            for capacity in [MIB, 64 * MIB, MIB, 64 * MIB] {
                other.set_capacity(capacity);
            }
        });
        for key in 0..2_000 {
            cache.insert(block(key), new_block(key), 1, None);
        }
        resized.join().unwrap();
        // A block in a shard that is no longer its own would be charged and never found.
        let found = (0..2_000).filter(|key| cache.peek(&block(*key)).is_some()).count();
        assert_eq!(cache.used_bytes(), found as u64);
    }
}

#[test]
fn small_cache_holds_a_few_large_blocks() {
    for policy in POLICIES {
        // 18 blocks of 250 kB of the 33 that fit. Sixteen shards would hold two each, and evict
        // where three have the same shard.
        let cache = BlockCache::new(policy, 8 * MIB);
        let most = 250_000;
        for _ in 0..3 {
            (0..18).for_each(|key| {
                touch(&cache, key, most);
            });
        }
        assert_eq!(cache.stats().evictions, 0, "{policy}");
        // A block of 2 MiB fits into a cache of 14 MiB.
        let cache = BlockCache::new(policy, 14 * MIB);
        touch(&cache, 1, 2 * MIB);
        assert!(cache.get(&block(1)).is_some(), "{policy}");
    }
}
