//! The compaction policies: five sets of parameters of one tree ([`Shape`]), and their costs.
//!
//! A policy is a value. The picker ([`super::picker`]) and the executor ([`super::job`]) are the
//! same for all of them.

use super::{Last, Push, Shape, TreeLimits};
use crate::options::kinds::Policy;

/// Placeholder in [`TreeLimits`] until the policy's parameters are computed.
pub(super) const PLACEHOLDER: Shape = Shape {
    inner_runs: 1,
    push_inner: Push::Merge,
    push_last: Push::Merge,
    last: Last::OneRun,
    has_capacity: true,
    capacity_from_push: true,
    split_inner_bytes: None,
    split_last_bytes: None,
};

/// Returns the parameters of a policy.
pub fn shape(policy: Policy, limits: &TreeLimits) -> Shape {
    match policy {
        Policy::Leveled => leveled(limits),
        Policy::Tiered => tiered(limits),
        Policy::Fragmented => fragmented(limits),
        Policy::Lazy => lazy(limits),
        Policy::Fluid => fluid(limits),
    }
}

/// The leveled policy: one run per level, and pushes that merge with the child (LevelDB, the
/// default of RocksDB; O'Neil et al., "The Log-Structured Merge-Tree", 1996).
///
/// A guard is about one file. The capacity of level 1 is one push of level 0; each further level is
/// `fan_out` times larger. A level over its capacity pushes the guard with the least overlap with
/// the next level. Write amplification is about 1 for the flush, 2 for level 1, and up to one more
/// than `fan_out` for each further level. Space amplification stays within about 1.1. A read
/// examines one file per level.
fn leveled(limits: &TreeLimits) -> Shape {
    let file = Some(limits.file_size_max_bytes);
    Shape { split_inner_bytes: file, split_last_bytes: file, ..PLACEHOLDER }
}

/// The tiered policy: up to `fan_out` runs per level, which are then merged into one run of the
/// next level (Jagadish et al., VLDB 1997; size-tiered compaction of Cassandra, universal
/// compaction of RocksDB; "N SSTables" of ProjectDB).
///
/// A level is one guard. Write amplification is 1 for the flush and 1 for each level. Space
/// amplification can reach the number of runs when the same keys are overwritten continuously. A
/// read examines every run.
fn tiered(limits: &TreeLimits) -> Shape {
    Shape {
        inner_runs: limits.fan_out as usize,
        push_inner: Push::Append,
        push_last: Push::Append,
        last: Last::LikeInner,
        has_capacity: false,
        capacity_from_push: false,
        split_inner_bytes: None,
        split_last_bytes: None,
    }
}

/// The fragmented policy: guards with several fragments. A push appends fragments and never merges
/// them with the child's existing runs (FLSM of PebblesDB; Raju et al., SOSP 2017).
///
/// Guards derive from the data: a push that brings more than the split size into a guard splits the
/// guard. A guard is pushed into the level below at `runs_max` runs, also in the last level. Write
/// amplification is 1 for the flush and 1 for each level. The cost is space amplification and read
/// amplification of seeks, from up to `runs_max` runs per guard.
fn fragmented(limits: &TreeLimits) -> Shape {
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

/// The lazy-leveled policy: tiered inner levels, and one run in the last level (Dayan and Idreos,
/// "Dostoevsky", SIGMOD 2018).
///
/// An inner level is pushed at `fan_out` runs. A push into the last level merges with the last
/// level's run. Write amplification is 1 for the flush, 1 for each inner level, and about half of
/// `fan_out` for the last level. Space amplification is close to the leveled policy's, because most
/// data lies in one run.
fn lazy(limits: &TreeLimits) -> Shape {
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

/// The fluid policy, the default: fragmented levels, and a last-level base that is rewritten only
/// when enough data is new.
///
/// Inner levels are fragmented. A guard of the last level consists of a base, its oldest run, and
/// small runs pushed onto the base. Once the small runs reach `base_rewrite_ratio` times the base,
/// all runs are merged into a new base. Before that, when the guard has more than `last_runs_max`
/// runs, the small runs are merged with each other. Write amplification is 1 for the flush, 1 for
/// each push, and at most 1 + 1/r for the base, where r is the base rewrite ratio. Space stays
/// within 1 + r times the live data, plus the data in the levels above. The design follows the
/// fluid LSM-tree of Dayan and Idreos, SIGMOD 2018, with per-guard merges as in Raju et al., SOSP
/// 2017.
fn fluid(limits: &TreeLimits) -> Shape {
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
