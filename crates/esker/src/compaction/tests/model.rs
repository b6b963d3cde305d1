//! The model of write amplification against hand calculations: flushes of 1000 bytes, 4 runs in
//! level 0, levels that grow by 4, and 3 runs per guard. The bytes written are listed in the order
//! of the writes, in units of 1000.

use super::super::model::write_amplification;
use super::*;

/// Compares the model with the bytes written after each number of flushes.
fn check(policy: Policy, limits: &TreeLimits, rows: &[(u64, &[f64])]) {
    for (flushes, written) in rows {
        let found = write_amplification(policy, limits, flushes * 1000, 1000);
        let want = written.iter().sum::<f64>() / flushes.max(&1).to_owned() as f64;
        assert!((found - want).abs() < 1e-9, "{policy}, {flushes}: {found}, by hand {want}");
    }
}

#[test]
fn tiered_writes_each_byte_once_per_level() {
    check(
        Policy::Tiered,
        &limits(Policy::Tiered),
        &[
            (0, &[]),
            (3, &[3.0]),
            (4, &[4.0, 4.0]),
            (16, &[16.0, 4.0 * 4.0, 16.0]),
            (17, &[17.0, 4.0 * 4.0, 16.0]),
            (64, &[64.0, 16.0 * 4.0, 4.0 * 16.0, 64.0]),
        ],
    );
}

#[test]
fn fragmented_pushes_at_run_limit() {
    check(
        Policy::Fragmented,
        &limits(Policy::Fragmented),
        &[
            (8, &[8.0, 2.0 * 4.0]),
            (12, &[12.0, 3.0 * 4.0, 12.0]),
            (16, &[16.0, 4.0 * 4.0, 12.0]),
            (36, &[36.0, 9.0 * 4.0, 3.0 * 12.0, 36.0]),
        ],
    );
}

#[test]
fn leveled_merges_every_push_and_overflow() {
    // Level 1 keeps 4 of the 8 flushes. The other 4 leave it, one file of 1 at a time. The first
    // file is moved. Each later file is merged with one file of level 2 and half its share of that
    // level.
    let shares = [1.0, 1.0 + 2.0 / 6.0 / 2.0, 1.0 + 3.0 / 5.0 / 2.0];
    let overflow: f64 = shares.iter().map(|share| 1.0 + share).sum();
    check(
        Policy::Leveled,
        &limits(Policy::Leveled),
        &[(4, &[4.0, 4.0]), (7, &[7.0, 4.0]), (8, &[8.0, 4.0, 4.0 + 4.0, overflow])],
    );
}

#[test]
fn lazy_merges_only_into_last_level() {
    // Level 1 is the last level until it holds more than 16. Then it moves down unchanged.
    let until_20 = [4.0, 8.0, 12.0, 16.0, 20.0];
    let until_20: f64 = until_20.iter().sum();
    check(
        Policy::Lazy,
        &limits(Policy::Lazy),
        &[
            (16, &[16.0, 4.0 + 8.0 + 12.0 + 16.0]),
            (20, &[20.0, until_20]),
            (24, &[24.0, until_20, 4.0]),
            (36, &[36.0, until_20, 4.0 * 4.0, 16.0 + 20.0]),
        ],
    );
}

#[test]
fn fluid_merges_base_at_base_rewrite_ratio() {
    let limits = limits(Policy::Fluid);
    check(
        Policy::Fluid,
        &limits,
        &[
            (4, &[4.0, 4.0]),
            (8, &[8.0, 2.0 * 4.0, 8.0]),
            (12, &[12.0, 3.0 * 4.0, 8.0]),
            (16, &[16.0, 4.0 * 4.0, 8.0 + 16.0]),
            // Level 1 is over its capacity of 16 and is pushed.
            (20, &[20.0, 5.0 * 4.0, 8.0 + 16.0, 20.0]),
            (32, &[32.0, 8.0 * 4.0, 8.0 + 16.0, 20.0 + 12.0]),
        ],
    );
    // If the base is never merged, the small runs are merged once the guard has more than 3 runs.
    let patient = TreeLimits { base_rewrite_ratio: 10.0, ..limits };
    check(
        Policy::Fluid,
        &patient,
        &[
            (12, &[12.0, 3.0 * 4.0]),
            (16, &[16.0, 4.0 * 4.0, 12.0]),
            (20, &[20.0, 20.0, 12.0, 20.0]),
        ],
    );
}
