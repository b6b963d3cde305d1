//! The picker that all policies share. It checks level 0 first, then the guards of each level from
//! the top down.
//!
//! A level over its capacity pushes the guard with the least overlap with the next level relative
//! to its size (RocksDB's "minimum overlapping ratio"). This choice needs no state from earlier
//! picks.
//!
//! Invariants:
//! 1. A plan that pushes a guard takes all of the guard's runs, so that no newer data moves below
//!    older data.
//! 2. A plan never takes a busy slice.
//! 3. A move passes only through levels in which nothing overlaps its slices.

use std::sync::Arc;

use super::{
    BusySet, Last, OutputOrder, Plan, PlanInput, PlanKind, Push, Shape, TreeLimits, Urgency, manual,
};
use crate::metrics::LEVELS;
use crate::tree::guard::Guard;
use crate::tree::seek_stats;
use crate::tree::version::Version;

/// Returns the next due plan whose inputs are not busy.
pub fn pick(version: &Version, limits: &TreeLimits, busy: &BusySet) -> Option<Plan> {
    let context = PickContext { version, limits, busy, shape: limits.shape() };
    context.level_zero().or_else(|| (1..LEVELS).find_map(|level| context.level(level)))
}

/// Returns the next plan that is due only because of seek statistics (a seek compaction).
pub fn pick_seek_candidate(version: &Version, limits: &TreeLimits, busy: &BusySet) -> Option<Plan> {
    PickContext { version, limits, busy, shape: limits.shape() }.seek_candidate()
}

/// Returns the compaction debt: the bytes that still must be pushed or merged.
pub fn debt_bytes(version: &Version, limits: &TreeLimits) -> u64 {
    let empty = BusySet::default();
    let context = PickContext { version, limits, busy: &empty, shape: limits.shape() };
    let level_zero = &version.levels[0].guards[0];
    let waiting = level_zero.runs.len() >= limits.l0_runs_max;
    let mut debt = if waiting { level_zero.bytes() } else { 0 };
    for number in 1..LEVELS {
        let level = &version.levels[number];
        if level.is_empty() {
            continue;
        }
        if context.is_over(number) {
            debt += level.bytes().saturating_sub(limits.capacity_bytes(number));
        }
        let most = context.runs_allowed(number);
        let over_limit = level.guards.iter().filter(|g| g.runs.len() > most);
        debt += over_limit.map(|g| g.bytes()).sum::<u64>();
    }
    debt
}

/// Returns the plan that merges the runs of a guard of the last level, or that pushes a guard down, to
/// reclaim space. `None` if it has no such runs, or if they are busy.
pub(super) fn reclaim(
    version: &Version,
    limits: &TreeLimits,
    busy: &BusySet,
    level: usize,
    guard: &Guard,
    is_merge: bool,
) -> Option<Plan> {
    const WHY: &str = "the space amplification nears its bound";
    let context = PickContext { version, limits, busy, shape: limits.shape() };
    if !context.is_free(level, guard) {
        return None;
    }
    match is_merge {
        true if !guard.runs.is_empty() => {
            Some(context.merge_within(level, guard, guard.runs.len(), WHY))
        }
        true => None,
        false => context.push(level, guard, WHY),
    }
}

struct PickContext<'a> {
    version: &'a Version,
    limits: &'a TreeLimits,
    busy: &'a BusySet,
    shape: &'a Shape,
}

impl PickContext<'_> {
    /// Returns the level that counts as the last: the deepest nonempty level, or the next level if
    /// the deepest is over its capacity.
    fn last_level(&self) -> usize {
        let deepest = self.version.deepest_nonempty().unwrap_or(0).max(1);
        let full = self.shape.has_capacity
            && self.version.levels[deepest].bytes() > self.limits.capacity_bytes(deepest);
        if full { (deepest + 1).min(LEVELS - 1) } else { deepest }
    }

    /// Returns whether a level, except the deepest possible level, is over its capacity.
    fn is_over(&self, level: usize) -> bool {
        self.shape.has_capacity
            && level < LEVELS - 1
            && self.version.levels[level].bytes() > self.limits.capacity_bytes(level)
    }

    fn runs_allowed(&self, level: usize) -> usize {
        if level < self.last_level() || self.shape.last == Last::LikeInner {
            return self.shape.inner_runs;
        }
        if self.shape.last == Last::OneRun { 1 } else { self.limits.last_runs_max }
    }

    fn is_free(&self, level: usize, guard: &Guard) -> bool {
        guard.fragments().all(|(_, f)| !self.busy.holds(level, f.file.number))
    }

    fn level_zero(&self) -> Option<Plan> {
        let guard = &self.version.levels[0].guards[0];
        let due = guard.runs.len() >= self.limits.l0_runs_max;
        (due && self.is_free(0, guard))
            .then(|| self.push(0, guard, "level 0 has reached its run limit"))?
    }

    /// Returns a plan for the first seek-compaction candidate.
    fn seek_candidate(&self) -> Option<Plan> {
        match seek_stats::is_candidate(self.version).next()? {
            (0, guard) if self.is_free(0, guard) => {
                let mut plan = self.push(0, guard, "many seeks into level 0")?;
                plan.urgency = Urgency::Urgent;
                Some(plan)
            }
            (0, _) => None,
            _ => manual::hot_plan(self.version, self.limits, self.busy),
        }
    }

    fn level(&self, level: usize) -> Option<Plan> {
        let content = &self.version.levels[level];
        if content.is_empty() {
            return None;
        }
        let last = self.last_level();
        if level >= last && self.shape.last != Last::LikeInner {
            return content
                .guards
                .iter()
                .filter(|g| g.runs.len() > 1 && self.is_free(level, g))
                .find_map(|g| self.compact_last(level, g));
        }
        let can_push = level < LEVELS - 1;
        let over_limit = content
            .guards
            .iter()
            .filter(|g| g.runs.len() >= self.shape.inner_runs.max(2) && self.is_free(level, g))
            .max_by_key(|g| g.runs.len());
        if let Some(guard) = over_limit {
            if self.shape.push_inner == Push::Merge || !can_push {
                return Some(self.merge_within(
                    level,
                    guard,
                    guard.runs.len(),
                    "the policy allows one run per guard",
                ));
            }
            return self.push(level, guard, "a guard has reached its run limit");
        }
        if !self.is_over(level) {
            return None;
        }
        if let Some(plan) = self.promote(level) {
            return Some(plan);
        }
        // The guard with the smallest ratio of rewritten child bytes to pushed bytes comes first.
        let mut guards: Vec<&Arc<Guard>> =
            content.guards.iter().filter(|g| !g.runs.is_empty()).collect();
        guards.sort_by_cached_key(|g| self.rewritten_per_mille(level, g));
        guards
            .into_iter()
            .filter(|g| self.is_free(level, g))
            .find_map(|g| self.push(level, g, "a level exceeds its capacity"))
    }

    /// Moves a last level that consists of one run and is over its capacity to the next level,
    /// unchanged. The level becomes an empty inner level of one guard.
    fn promote(&self, level: usize) -> Option<Plan> {
        let content = &self.version.levels[level];
        let keeps_one_run =
            self.shape.last == Last::OneRun && self.shape.push_inner == Push::Append;
        let free = content.guards.iter().all(|g| g.runs.len() <= 1 && self.is_free(level, g));
        if !keeps_one_run || !free || self.version.deepest_nonempty() != Some(level) {
            return None;
        }
        let inputs = inputs_of(level, content.guards.iter().flat_map(|g| g.fragments()));
        let bounds = content.bounds();
        Some(Plan {
            bounds_added: bounds.to_vec(),
            bounds_removed: bounds.iter().map(|b| (level, b.clone())).collect(),
            reason: "the last level exceeds its capacity",
            ..Plan::of_files(PlanKind::Move, inputs, (level, level + 1))
        })
    }

    /// Returns the bytes of the next level that a push of this guard would rewrite, per thousand
    /// bytes of the guard.
    fn rewritten_per_mille(&self, level: usize, guard: &Guard) -> u64 {
        let inputs = inputs_of(level, guard.fragments());
        let (lo, hi) = self.key_range(&inputs);
        let children = self.version.guards_overlapping(level + 1, Some(&lo), Some(&hi));
        let below: u64 = children.iter().map(|g| g.bytes()).sum();
        below.saturating_mul(1000) / guard.bytes().max(1)
    }

    /// Returns the plan for a guard of the last level with several runs, if one is due.
    fn compact_last(&self, level: usize, guard: &Guard) -> Option<Plan> {
        let count = guard.runs.len();
        if self.shape.last == Last::OneRun {
            return Some(self.merge_within(
                level,
                guard,
                count,
                "the policy allows one run per guard",
            ));
        }
        let base = guard.runs.last().map_or(0, |r| r.bytes());
        let small = guard.bytes().saturating_sub(base);
        if small as f64 >= self.limits.base_rewrite_ratio * base as f64 {
            return Some(self.merge_within(
                level,
                guard,
                count,
                "the small runs have reached the base rewrite ratio",
            ));
        }
        let over_limit = count > self.limits.last_runs_max.max(2);
        over_limit
            .then(|| self.merge_within(level, guard, count - 1, "a guard has too many small runs"))
    }

    /// Plans a merge of the newest `count` runs of a guard within their level.
    fn merge_within(&self, level: usize, guard: &Guard, count: usize, why: &'static str) -> Plan {
        let runs = &guard.runs[..count];
        let inputs =
            inputs_of(level, runs.iter().flat_map(|r| r.fragments.iter().map(|f| (r.order, f))));
        let whole = count == guard.runs.len();
        Plan {
            tree: 0,
            kind: PlanKind::MergeWithin,
            level,
            output_level: level,
            est_bytes: bytes_of(&inputs),
            inputs,
            output_order: OutputOrder::Same(runs.first().map_or(0, |r| r.order)),
            cut_bounds: Vec::new(),
            bounds_added: Vec::new(),
            bounds_removed: Vec::new(),
            split_guard_bytes: if whole { self.shape.split_last_bytes } else { None },
            guard_lo: guard.lo.clone(),
            guard_hi: guard.hi.clone(),
            reason: why,
            urgency: Urgency::Normal,
        }
    }

    /// Plans a push of a whole guard into the next level, or a move if nothing overlaps.
    fn push(&self, level: usize, guard: &Guard, why: &'static str) -> Option<Plan> {
        let mut inputs = inputs_of(level, guard.fragments());
        if inputs.is_empty() {
            return None;
        }
        if let Some(plan) = self.move_down(level, guard, &inputs) {
            return Some(plan);
        }
        let child = level + 1;
        let (lo, hi) = self.key_range(&inputs);
        let children = self.version.guards_overlapping(child, Some(&lo), Some(&hi));
        let into_last = child >= self.last_level();
        let mode = if into_last { self.shape.push_last } else { self.shape.push_inner };
        let inner_bounds = |guards: &[Arc<Guard>]| {
            guards.iter().skip(1).filter_map(|g| g.lo.clone()).collect::<Vec<_>>()
        };
        let mut plan = Plan {
            tree: 0,
            kind: PlanKind::Push,
            level,
            output_level: child,
            inputs: Vec::new(),
            output_order: OutputOrder::New,
            cut_bounds: Vec::new(),
            bounds_added: Vec::new(),
            bounds_removed: Vec::new(),
            split_guard_bytes: None,
            guard_lo: guard.lo.clone(),
            guard_hi: guard.hi.clone(),
            reason: why,
            urgency: Urgency::Normal,
            est_bytes: 0,
        };
        match mode {
            Push::Append => {
                plan.cut_bounds = inner_bounds(children);
                plan.split_guard_bytes = self.shape.split_inner_bytes;
            }
            Push::Merge => {
                if !children.iter().all(|g| self.is_free(child, g)) {
                    return None;
                }
                for guard in children {
                    inputs.extend(inputs_of(child, guard.fragments()));
                }
                let gone = inner_bounds(children).into_iter();
                plan.bounds_removed = gone.map(|bound| (child, bound)).collect();
                plan.split_guard_bytes = if into_last {
                    self.shape.split_last_bytes
                } else {
                    self.shape.split_inner_bytes
                };
                // The children may extend beyond the guard, so the range of older slices must too.
                plan.guard_lo = children.first().and_then(|g| g.lo.clone());
                plan.guard_hi = children.last().and_then(|g| g.hi.clone());
                if level == 0 {
                    (plan.guard_lo, plan.guard_hi) = (None, None);
                }
            }
        }
        plan.est_bytes = bytes_of(&inputs);
        plan.inputs = inputs;
        Some(plan)
    }

    /// Plans a move of `inputs` to the deepest level that they reach without overlap. Returns
    /// `None` if the inputs overlap each other or the next level.
    fn move_down(&self, level: usize, guard: &Guard, inputs: &[PlanInput]) -> Option<Plan> {
        let order = &self.limits.order;
        let mut sorted: Vec<&PlanInput> = inputs.iter().collect();
        sorted.sort_by(|a, b| a.fragment.compare_start(order, &b.fragment));
        let apart = sorted.windows(2).all(|w| w[0].fragment.is_before(order, &w[1].fragment));
        if !apart {
            return None;
        }
        let deepest = self.last_level().max(level + 1).min(LEVELS - 1);
        let clear = |target: usize| {
            sorted.iter().all(|input| {
                let first = input.fragment.first(order);
                let (last, _) = input.fragment.last(order);
                let guards = self.version.guards_overlapping(target, Some(first), Some(last));
                let mut there = guards.iter().flat_map(|g| g.fragments());
                there.all(|(_, f)| !f.overlaps(order, &input.fragment))
            })
        };
        let target = (level + 1..=deepest).take_while(|t| clear(*t)).last()?;
        let last = self.last_level();
        let bounds_added = sorted
            .iter()
            .filter(|i| self.limits.begins_guard(target, last, i.fragment.est_bytes()))
            .map(|i| i.fragment.first(order).to_vec())
            .collect();
        Some(Plan {
            tree: 0,
            kind: PlanKind::Move,
            level,
            output_level: target,
            est_bytes: 0,
            inputs: inputs.to_vec(),
            output_order: OutputOrder::New,
            cut_bounds: Vec::new(),
            bounds_added,
            bounds_removed: Vec::new(),
            split_guard_bytes: None,
            guard_lo: guard.lo.clone(),
            guard_hi: guard.hi.clone(),
            reason: "nothing overlaps",
            urgency: Urgency::Normal,
        })
    }

    fn key_range(&self, inputs: &[PlanInput]) -> (Vec<u8>, Vec<u8>) {
        let order = &self.limits.order;
        let first =
            inputs.iter().map(|i| i.fragment.first(order)).min_by(|a, b| order.compare(a, b));
        let last =
            inputs.iter().map(|i| i.fragment.last(order).0).max_by(|a, b| order.compare(a, b));
        (first.unwrap_or_default().to_vec(), last.unwrap_or_default().to_vec())
    }
}

fn inputs_of<'a>(
    level: usize,
    fragments: impl Iterator<Item = (u64, &'a Arc<crate::tree::fragment::Fragment>)>,
) -> Vec<PlanInput> {
    fragments.map(|(order, f)| PlanInput { level, order, fragment: f.clone() }).collect()
}

fn bytes_of(inputs: &[PlanInput]) -> u64 {
    inputs.iter().map(|i| i.fragment.est_bytes()).sum()
}
