//! Leveled: one run a level, a push merges into the child (LevelDB, RocksDB's default; O'Neil et
//! al., "The Log-Structured Merge-Tree", 1996).
//!
//! A guard is about one file. Level 1 holds one push of level 0, each further level `fan_out` times
//! more; a level beyond its capacity pushes the guard that overlaps least with the next. Write
//! amplification is about 1 for the flush, 2 for level 1 and up to `fan_out + 1` for each further
//! level; space stays within about 1.1; a read looks into one file a level.

use super::super::{Last, Push, Shape, TreeLimits};

/// Stands in limits until their policy is known.
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

/// The parameters.
pub fn shape(limits: &TreeLimits) -> Shape {
    let file = Some(limits.file_size_max_bytes);
    Shape { split_inner_bytes: file, split_last_bytes: file, ..PLACEHOLDER }
}
