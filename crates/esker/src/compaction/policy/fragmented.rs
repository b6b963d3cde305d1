//! The fragmented policy: guards with several fragments. A push appends fragments and never merges
//! them with the child's existing runs (FLSM of PebblesDB; Raju et al., SOSP 2017).
//!
//! Guards derive from the data: a push that brings more than the split size into a guard splits the
//! guard. A guard is pushed into the level below at `runs_max` runs, also in the last level. Write
//! amplification is 1 for the flush and 1 for each level. The cost is space amplification and read
//! amplification of seeks, from up to `runs_max` runs per guard.

use super::super::{Last, Push, Shape, TreeLimits};

/// Returns the parameters of the policy.
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
