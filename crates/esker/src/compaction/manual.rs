//! Plans that bring all data of a key range to the deepest level: manual compactions, and seek
//! compactions of guards that are seek-heavy.
//!
//! There is one plan per guard of the deepest level, so that a plan needs extra space for a guard
//! and not for the whole store. Slices of upper levels that cross a guard's bounds are cut at the
//! bounds. Only the part within the guard is an input, so no data moves below older data.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{BusySet, OutputOrder, Plan, PlanInput, PlanKind, TreeLimits, Urgency};
use crate::base::order::KeyOrder;
use crate::tree::fragment::Fragment;
use crate::tree::guard::Guard;
use crate::tree::seek_stats;
use crate::tree::version::Version;

/// Returns the plans that bring every key between `lo` and `hi` (inclusive; `None` is infinite) to
/// the deepest nonempty level. Skips guards that are already one run of only current values, unless
/// some of these may have expired or a compaction filter may remove them.
pub fn plans(
    version: &Version,
    limits: &TreeLimits,
    lo: Option<&[u8]>,
    hi: Option<&[u8]>,
) -> Vec<Plan> {
    let deepest = version.deepest_nonempty().unwrap_or(0).max(1);
    let order = &limits.order;
    version.levels[deepest]
        .guards
        .iter()
        .filter(|guard| overlaps(order, guard, lo, hi))
        .filter_map(|guard| plan_for(version, limits, deepest, guard))
        .collect()
}

/// Returns a plan that merges a seek-compaction candidate into one run, if one has no busy inputs.
///
/// Other jobs may add newer runs to the guard meanwhile. The output therefore takes the order of
/// the guard's newest run, instead of a new order, which would place it above those runs.
pub fn hot_plan(version: &Version, limits: &TreeLimits, busy: &BusySet) -> Option<Plan> {
    seek_stats::is_candidate(version).find_map(|(level, guard)| {
        let newest = guard.runs.first()?;
        let mut plan = plan_for(version, limits, level, guard)?;
        plan.output_order = OutputOrder::Same(newest.order);
        plan.reason = "many seeks into several runs";
        let free = plan.inputs.iter().all(|i| !busy.holds(i.level, i.fragment.file.number));
        free.then_some(plan)
    })
}

fn overlaps(order: &KeyOrder, guard: &Guard, lo: Option<&[u8]>, hi: Option<&[u8]>) -> bool {
    let ends_before = match (&guard.hi, lo) {
        (Some(end), Some(lo)) => order.compare(end, lo) != Ordering::Greater,
        _ => false,
    };
    let starts_after = match (&guard.lo, hi) {
        (Some(start), Some(hi)) => order.compare(start, hi) == Ordering::Greater,
        _ => false,
    };
    !ends_before && !starts_after
}

fn plan_for(version: &Version, limits: &TreeLimits, deepest: usize, guard: &Guard) -> Option<Plan> {
    let mut inputs = Vec::new();
    for (level, content) in version.levels.iter().enumerate().take(deepest + 1) {
        for run in content.guards.iter().flat_map(|g| &g.runs) {
            for fragment in &run.fragments {
                let (lo, hi) = (guard.lo.as_ref(), guard.hi.as_ref());
                if let Some(part) = cut(&limits.order, fragment, lo, hi) {
                    inputs.push(PlanInput { level, order: run.order, fragment: Arc::new(part) });
                }
            }
        }
    }
    let settled = |i: &PlanInput| {
        let info = &i.fragment.file.info;
        let is_current = info.seqno_max == 0 && info.expiring == 0;
        i.level == deepest && is_current && !limits.rewrites_settled
    };
    let one_run = inputs.windows(2).all(|pair| pair[0].order == pair[1].order);
    if inputs.is_empty() || (one_run && inputs.iter().all(settled)) {
        return None;
    }
    Some(Plan {
        tree: 0,
        kind: PlanKind::MergeWithin,
        level: 0,
        output_level: deepest,
        est_bytes: inputs.iter().map(|i| i.fragment.est_bytes()).sum(),
        inputs,
        output_order: OutputOrder::New,
        cut_bounds: Vec::new(),
        bounds_added: Vec::new(),
        bounds_removed: Vec::new(),
        split_guard_bytes: limits.split_guard_bytes(),
        guard_lo: guard.lo.clone(),
        guard_hi: guard.hi.clone(),
        reason: "requested by compact_range",
        urgency: Urgency::Urgent,
    })
}

/// Returns the part of `fragment` within `[lo, hi)`, or `None` if they do not overlap. The estimated
/// size is that of the whole fragment.
pub(super) fn cut(
    order: &KeyOrder,
    fragment: &Fragment,
    lo: Option<&Vec<u8>>,
    hi: Option<&Vec<u8>>,
) -> Option<Fragment> {
    let later = |a: Option<&Vec<u8>>, b: Option<&Vec<u8>>| match (a, b) {
        (Some(a), Some(b)) if order.compare(a, b) == Ordering::Less => Some(b.clone()),
        (Some(a), _) => Some(a.clone()),
        (None, b) => b.cloned(),
    };
    let earlier = |a: Option<&Vec<u8>>, b: Option<&Vec<u8>>| match (a, b) {
        (Some(a), Some(b)) if order.compare(a, b) == Ordering::Greater => Some(b.clone()),
        (Some(a), _) => Some(a.clone()),
        (None, b) => b.cloned(),
    };
    let (lo, hi) = (later(fragment.lo.as_ref(), lo), earlier(fragment.hi.as_ref(), hi));
    let info = &fragment.file.info;
    let empty = matches!((&lo, &hi), (Some(lo), Some(hi)) if order.compare(lo, hi).is_ge());
    let before = hi.as_ref().is_some_and(|hi| order.compare(&info.smallest, hi).is_ge());
    let after = lo.as_ref().is_some_and(|lo| order.compare(&info.largest, lo).is_lt());
    let estimated_bytes = fragment.estimated_bytes;
    (!empty && !before && !after).then(|| Fragment {
        file: fragment.file.clone(),
        lo,
        hi,
        estimated_bytes,
    })
}
