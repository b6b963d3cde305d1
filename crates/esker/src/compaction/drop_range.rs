//! Removal of a key range from a tree by an edit, without reading or writing a table: the space of
//! a dropped keyspace.
//!
//! The range is a gap: it reaches from the keyspace below that exists to the next one above that
//! exists, or, where there is none, to the end of the dropped one. A range of the dropped keyspace
//! alone would leave blocks without an owner: one block may hold the pairs of three keyspaces, so the
//! drop of the middle one cuts nothing out, and later drops of its neighbours would cut away only
//! their own parts.
//!
//! Invariants: the plan takes only slices inside the range, and no busy one. A file that the range
//! covers is removed as a whole. Of other files only the slice is removed, and a compaction drops
//! what is left in their blocks.

use std::sync::Arc;

use super::{BusySet, Plan, PlanInput, PlanKind, Urgency};
use crate::base::keyspace::{KeyspaceId, prefix_end as keys_after};
use crate::base::order::KeyOrder;
use crate::tree::fragment::Fragment;
use crate::tree::version::Version;

/// Keyspaces of a tree next to each other, none of which exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The number after which the gap begins: the next lower keyspace that exists, or 0.
    pub after: KeyspaceId,
    /// The last number of the gap: the one before the next keyspace that exists, or the dropped one.
    pub last: KeyspaceId,
}

/// Plans the removal of the keys of keyspace `id` and of the gap that it lies in. Returns `None`
/// while all slices that could be removed are busy, and while a job removes the keyspace. A plan
/// without inputs says that no slice is left.
pub fn plan(version: &Version, id: KeyspaceId, gap: Gap, busy: &BusySet) -> Option<Plan> {
    if busy.drops(id) {
        return None;
    }
    let order = version.order();
    let (lo, hi) = (&keys_after(gap.after)[..], &keys_after(gap.last)[..]);
    let (mut inputs, mut later) = (Vec::new(), false);
    for level in 0..version.levels.len() {
        for guard in version.guards_overlapping(level, Some(lo), Some(hi)) {
            for (age, fragment) in guard.fragments() {
                match part_inside(order, fragment, lo, hi) {
                    None => {}
                    Some(_) if busy.holds(level, fragment.file.number) => later = true,
                    Some(part) => {
                        inputs.push(PlanInput { level, order: age, fragment: Arc::new(part) });
                    }
                }
            }
        }
    }
    if inputs.is_empty() && later {
        return None;
    }
    let level = inputs.first().map_or(0, |input| input.level);
    Some(Plan {
        reason: "a keyspace was dropped",
        urgency: Urgency::Urgent,
        ..Plan::of_files(PlanKind::Drop(id), inputs, (level, level))
    })
}

/// Returns the part of `fragment` inside `[lo, hi)`. Returns `None` where its removal would gain
/// less than a block, or than the blocks of a partition if the table's index has partitions.
fn part_inside(order: &KeyOrder, fragment: &Fragment, lo: &[u8], hi: &[u8]) -> Option<Fragment> {
    let less = |a: &[u8], b: &[u8]| order.compare(a, b).is_lt();
    let (last, exclusive) = fragment.last(order);
    let ended = if exclusive { !less(lo, last) } else { less(last, lo) };
    if ended || !less(fragment.first(order), hi) {
        return None;
    }
    let starts_before = less(fragment.first(order), lo);
    let ends_after = if exclusive { less(hi, last) } else { !less(last, hi) };
    if starts_before && ends_after {
        // A cut makes two slices of one, so there must be something to gain. The table of a slice
        // that was never read is not opened for this.
        let table = fragment.file.opened()?;
        if table.approximate_offset(lo) == table.approximate_offset(hi) {
            return None;
        }
    }
    let bound = |cut: bool, at: &[u8], own: &Option<Vec<u8>>| {
        if cut { Some(at.to_vec()) } else { own.clone() }
    };
    Some(Fragment {
        file: fragment.file.clone(),
        lo: bound(starts_before, lo, &fragment.lo),
        hi: bound(ends_after, hi, &fragment.hi),
        estimated_bytes: fragment.estimated_bytes,
    })
}
