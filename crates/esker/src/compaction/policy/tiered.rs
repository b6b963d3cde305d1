//! The tiered policy: up to `fan_out` runs per level, which are then merged into one run of the
//! next level (Jagadish et al., VLDB 1997; size-tiered compaction of Cassandra, universal
//! compaction of RocksDB; "N SSTables" of ProjectDB).
//!
//! A level is one guard. Write amplification is 1 for the flush and 1 for each level. Space
//! amplification can reach the number of runs when the same keys are overwritten continuously. A
//! read examines every run.

use super::super::{Last, Push, Shape, TreeLimits};

/// Returns the parameters of the policy.
pub fn shape(limits: &TreeLimits) -> Shape {
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
