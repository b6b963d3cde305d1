//! The fluid policy, the default: fragmented levels, and a last-level base that is rewritten only
//! when enough data is new.
//!
//! Inner levels are fragmented. A guard of the last level consists of a base, its oldest run, and
//! small runs pushed onto the base. Once the small runs reach `alpha` (the base rewrite ratio)
//! times the base, all runs are merged into a new base. Before that, when the guard has more than
//! `last_runs_max` runs, the small runs are merged with each other. Write amplification is 1 for
//! the flush, 1 for each push, and at most 1 + 1/alpha for the base. Space stays within 1 + alpha
//! times the live data, plus the data in the levels above. The design follows the fluid LSM-tree of
//! Dayan and Idreos, SIGMOD 2018, with per-guard merges as in Raju et al., SOSP 2017.

use super::super::{Last, Push, Shape, TreeLimits};

/// Returns the parameters of the policy.
pub fn shape(limits: &TreeLimits) -> Shape {
    let piece = limits.guard_size_max_bytes / limits.runs_max.max(1) as u64;
    Shape {
        inner_runs: limits.runs_max,
        push_inner: Push::Append,
        push_last: Push::Append,
        last: Last::Base,
        has_capacity: true,
        capacity_from_push: false,
        split_inner_bytes: Some(piece.max(limits.guard_piece_min_bytes)),
        split_last_bytes: Some(limits.guard_size_max_bytes),
    }
}
