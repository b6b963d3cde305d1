//! Fragmented: guards with several fragments, appended and never merged with what a child holds
//! (PebblesDB's FLSM; Raju et al., SOSP 2017).
//!
//! Guards come from the data: a push that brings more than a piece into a guard splits it. A guard
//! is pushed at `runs_max` runs, also in the last level, into a level below. Write amplification is
//! 1 for the flush and 1 for each level; space and seeks pay for up to `runs_max` runs a guard.

use super::super::{Last, Push, Shape, TreeLimits};

/// The parameters.
pub fn shape(limits: &TreeLimits) -> Shape {
    let piece = limits.guard_size_max_bytes / limits.runs_max.max(1) as u64;
    let piece = Some(piece.max(limits.guard_piece_min_bytes));
    Shape {
        inner_runs: limits.runs_max,
        push_inner: Push::Append,
        push_last: Push::Append,
        last: Last::LikeInner,
        has_capacity: false,
        capacity_from_push: false,
        split_inner_bytes: piece,
        split_last_bytes: piece,
    }
}
