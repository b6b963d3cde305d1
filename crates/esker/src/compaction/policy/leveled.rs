//! The leveled policy: one run per level, and pushes that merge with the child (LevelDB, the
//! default of RocksDB; O'Neil et al., "The Log-Structured Merge-Tree", 1996).
//!
//! A guard is about one file. The capacity of level 1 is one push of level 0; each further level is
//! `fan_out` times larger. A level over its capacity pushes the guard with the least overlap with
//! the next level. Write amplification is about 1 for the flush, 2 for level 1, and up to one more
//! than `fan_out` for each further level. Space amplification stays within about 1.1. A read
//! examines one file per level.

use super::super::{Last, Push, Shape, TreeLimits};

/// Placeholder in [`TreeLimits`] until the policy's parameters are computed.
pub(in super::super) const PLACEHOLDER: Shape = Shape {
    inner_runs: 1,
    push_inner: Push::Merge,
    push_last: Push::Merge,
    last: Last::OneRun,
    has_capacity: true,
    capacity_from_push: true,
    split_inner_bytes: None,
    split_last_bytes: None,
};

/// Returns the parameters of the policy.
pub fn shape(limits: &TreeLimits) -> Shape {
    let file = Some(limits.file_size_max_bytes);
    Shape { split_inner_bytes: file, split_last_bytes: file, ..PLACEHOLDER }
}
