//! Fluid, the default: fragments everywhere, the last level's base rewritten only when as much is
//! new.
//!
//! Inner levels are fragmented. A guard of the last level is a base, its oldest run, and small runs
//! pushed onto it: once they reach `alpha` of the base, all become the new base; before that, beyond
//! `last_runs_max` runs, the small ones are merged among themselves. Write amplification is 1 for
//! the flush, 1 for each push, and 1 + 1/alpha at most for the base; space stays within 1 + alpha of
//! the live data plus what is on its way down. (After Dayan and Idreos's fluid LSM-tree, SIGMOD
//! 2018, with per-guard merges as in Raju et al., SOSP 2017.)

use super::super::{Last, Push, Shape, TreeLimits};

/// The parameters.
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
