//! Tiered: `fan_out` runs a level, merged into one run of the next (Jagadish et al., VLDB 1997;
//! Cassandra's size-tiered and RocksDB's universal compaction; ProjectDB's "N SSTables").
//!
//! A level is one guard. Write amplification is 1 for the flush and 1 for each level; space can
//! reach the number of runs in an overwrite storm, and a read looks into every run.

use super::super::{Last, Push, Shape, TreeLimits};

/// The parameters.
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
