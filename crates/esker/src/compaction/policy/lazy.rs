//! The lazy-leveled policy: tiered inner levels, and one run in the last level (Dayan and Idreos,
//! "Dostoevsky", SIGMOD 2018).
//!
//! An inner level is pushed at `fan_out` runs. A push into the last level merges with the last
//! level's run. Write amplification is 1 for the flush, 1 for each inner level, and about half of
//! `fan_out` for the last level. Space amplification is close to the leveled policy's, because most
//! data lies in one run.

use super::super::{Last, Push, Shape, TreeLimits};

/// Returns the parameters of the policy.
pub fn shape(limits: &TreeLimits) -> Shape {
    Shape {
        inner_runs: limits.fan_out as usize,
        push_inner: Push::Append,
        push_last: Push::Merge,
        last: Last::OneRun,
        has_capacity: true,
        capacity_from_push: false,
        split_inner_bytes: None,
        split_last_bytes: Some(limits.guard_size_max_bytes),
    }
}
