//! Random operations against a `BTreeMap`, under every policy, memtable, cache, compression and
//! search, with reopening, flushes, compactions and snapshots in between. The seed draws between
//! small thresholds and those that ship.
//!
//! A failure prints the option set and seed; put them into `replay` to see it again.

mod common;

use std::cmp::Ordering;
use std::sync::Arc;

use common::{Pair, bounded_options};
use esker::{
    BlockLayout, CachePolicy, Comparator, Compression, IndexSearch, KeyOrder, MemtableKind,
    Options, Policy, ValueSeparation,
};
use esker_testkit::campaign::script::thresholds;
use proptest::prelude::*;

fn run(options: Options, seed: u64, key_space: u64, steps: u64) {
    let rest_compaction = seed.is_multiple_of(2);
    let options = Options { thresholds: thresholds(seed), rest_compaction, ..options };
    let mut pair = Pair::new(options, seed, key_space);
    for _ in 0..steps {
        pair.step();
    }
    pair.check_all();
    pair.db().wait_idle().unwrap();
    pair.check_all();
    let report = pair.db().verify(&mut |_, _| {}).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    pair.reopen();
}

#[test]
fn every_combination_of_structures_matches_map() {
    let mut seed = 0;
    for &policy in Policy::ALL {
        for &memtable_kind in MemtableKind::ALL {
            for &cache_policy in CachePolicy::ALL {
                for &compression in Compression::ALL {
                    for &index_search in IndexSearch::ALL {
                        seed += 1;
                        let layout = BlockLayout::ALL[seed as usize % 2];
                        let options = Options {
                            policy,
                            memtable_kind,
                            cache_policy,
                            compression,
                            compression_upper: Some(compression),
                            index_search,
                            block_layout: layout,
                            restart_interval: 1 + seed % 5,
                            filter_bits_per_key: [10.0, 0.0, 3.5][seed as usize % 3],
                            keep_files_open: !seed.is_multiple_of(4),
                            ..bounded_options()
                        };
                        run(options, seed, 300, 250);
                    }
                }
            }
        }
    }
}

#[test]
fn long_runs_reach_deep_levels() {
    for (index, &policy) in Policy::ALL.iter().enumerate() {
        run(Options { policy, ..bounded_options() }, 77 + index as u64, 4_000, 12_000);
    }
}

/// An order without a bytewise shortcut: by length, then bytewise.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

#[test]
fn custom_orders_match_sorted_list() {
    for order in [KeyOrder::Reverse, KeyOrder::Custom(Arc::new(ByLength))] {
        for (index, &policy) in Policy::ALL.iter().enumerate() {
            for &memtable_kind in MemtableKind::ALL {
                let key_order = order.clone();
                let options = Options { policy, memtable_kind, key_order, ..bounded_options() };
                run(options, 500 + index as u64, 500, 1_500);
            }
        }
    }
}

#[test]
fn separated_values_match_map() {
    for (index, &policy) in Policy::ALL.iter().enumerate() {
        for from in [0, 60] {
            let options = Options {
                policy,
                block_layout: BlockLayout::ALL[index % 2],
                value_separation_min_bytes: ValueSeparation::From(from),
                ..bounded_options()
            };
            run(options, 900 + index as u64, 800, 2_500);
        }
    }
    let order = KeyOrder::Custom(Arc::new(ByLength));
    let value_separation_min_bytes = ValueSeparation::From(0);
    run(
        Options { key_order: order, value_separation_min_bytes, ..bounded_options() },
        999,
        300,
        1_500,
    );
}

#[test]
fn policy_changes_while_store_is_used() {
    let mut pair = Pair::new(bounded_options(), 4242, 2_000);
    for round in 0..20 {
        let policy = Policy::ALL[round % Policy::ALL.len()];
        pair.db().set_options(&[("policy", policy.name())]).unwrap();
        pair.options.policy = policy;
        for _ in 0..600 {
            pair.step();
        }
        pair.check_all();
    }
    pair.reopen();
}

/// A guard of the last level with one run, of which a range tombstone is all that is left, was merged
/// for space again and again: the merge keeps the tombstone. The same operations met it in one of
/// five runs. `wait_idle` of each run ends.
#[test]
fn range_tombstone_alone_is_not_merged_for_ever() {
    let options = || Options {
        policy: Policy::ALL[2],
        memtable_kind: MemtableKind::ALL[0],
        compression: Compression::ALL[3],
        block_layout: BlockLayout::ALL[0],
        memtable_size_bytes: Some(1 << 12),
        block_size_bytes: 1 << 11,
        file_size_max_bytes: 1 << 14,
        guard_size_max_bytes: 2 << 14,
        guard_piece_min_bytes: 1 << 12,
        fan_out: 8,
        runs_max: 8,
        last_runs_max: 8,
        l0_runs_max: 5,
        base_rewrite_ratio: 2.13,
        background_threads: Some(1),
        frozen_memtables_max: 2,
        value_separation_min_bytes: ValueSeparation::From(0),
        ..bounded_options()
    };
    for _ in 0..15 {
        run(options(), 0xde39_96e7_72a6_d297, 1_000, 1_500);
    }
}

/// Returns `MODEL_CASES`, or the number of cases of the short form. `make model` sets some thousand:
/// a defect that one case in 1,500 meets stays hidden for weeks otherwise.
fn cases() -> u32 {
    match std::env::var("MODEL_CASES") {
        Ok(count) => count.parse().expect("MODEL_CASES is a number"),
        Err(_) => 48,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_option_set_matches_map(
        seed in any::<u64>(),
        words in any::<[u8; 7]>(),
        memtable in 12u32..18,
        block in 6u32..13,
        file in 12u32..18,
        fan_out in 2u64..9,
        runs in 1u64..9,
        base_rewrite_ratio in 0.1f64..3.0,
        threads in 1u64..4,
    ) {
        let options = Options {
            policy: Policy::ALL[words[0] as usize % Policy::ALL.len()],
            memtable_kind: MemtableKind::ALL[words[1] as usize % 3],
            cache_policy: CachePolicy::ALL[words[2] as usize % 5],
            compression: Compression::ALL[words[3] as usize % 4],
            index_search: IndexSearch::ALL[words[4] as usize % 3],
            block_layout: BlockLayout::ALL[words[5] as usize % 2],
            memtable_size_bytes: Some(1 << memtable),
            block_size_bytes: 1 << block,
            file_size_max_bytes: 1 << file,
            guard_size_max_bytes: 2 << file,
            guard_piece_min_bytes: 1 << (file - 2),
            fan_out,
            runs_max: runs,
            last_runs_max: runs,
            l0_runs_max: 1 + runs / 2,
            base_rewrite_ratio,
            background_threads: Some(threads),
            frozen_memtables_max: 1 + (words[6] as u64 % 3),
            value_separation_min_bytes: match words[6] % 4 {
                0 => ValueSeparation::From(0),
                1 => ValueSeparation::From(70),
                _ => ValueSeparation::Off,
            },
            ..bounded_options()
        };
        run(options, seed, 1_000, 1_500);
    }
}
