//! Rest compactions: a store that is not written merges its overlapping runs, one small key range
//! after the other, until a read meets one run, as after a manual compaction.
//!
//! For stores that are written in bursts and read in between. The policies keep several runs because
//! the next write would make a merge stale. While no write comes, this reason is absent.
//!
//! Invariants:
//! 1. A plan takes every slice of its key range. Its output is one run of the deepest nonempty level.
//! 2. A plan begins with a key at which slices overlap, and ends soon after the last such key. After
//!    it nothing in its range overlaps. Moves never make slices overlap. So without writes each key
//!    is written at most once, and the plans end.
//! 3. The inputs of a plan have at most the bytes of the caller's allowance.

use std::cmp::Ordering;
use std::sync::Arc;

use super::manual::cut;
use super::{BusySet, OutputOrder, Plan, PlanInput, PlanKind, TreeLimits, Urgency};
use crate::tree::fragment::Fragment;
use crate::tree::guard::Guard;
use crate::tree::version::{Version, estimate};

/// A key range in which slices overlap.
struct Overlap {
    /// The slices of its guard, sorted by their first keys.
    parts: Arc<Vec<PlanInput>>,
    /// First key of the range.
    lo: Vec<u8>,
    /// First key after the range.
    hi: Option<Vec<u8>>,
    /// Bytes of the slices in the range.
    bytes: u64,
    /// Bytes of the range's largest run.
    largest_run_bytes: u64,
}

impl Overlap {
    /// Returns the share of the bytes that are not in the largest run, in thousandths: what a merge
    /// gains for the bytes that it writes.
    fn gain_per_mille(&self) -> u64 {
        (self.bytes - self.largest_run_bytes).saturating_mul(1000) / self.bytes.max(1)
    }
}

/// An upper bound of keys.
struct End {
    key: Vec<u8>,
    is_exclusive: bool,
}

/// Returns the plan that a store at rest executes next. `allowance_bytes` is the maximum size of its
/// inputs. Of the key ranges in which slices overlap, the one comes first in which the merge of a
/// byte gains most.
pub fn pick_rest(
    version: &Version,
    limits: &TreeLimits,
    busy: &BusySet,
    allowance_bytes: u64,
) -> Option<Plan> {
    let search = Search::new(version, limits)?;
    let mut overlaps: Vec<(Overlap, &Guard)> = search.overlaps().collect();
    overlaps.sort_by_key(|(overlap, _)| std::cmp::Reverse(overlap.gain_per_mille()));
    let plans = overlaps.iter().map(|(overlap, guard)| search.plan(overlap, guard));
    let is_free = |plan: &Plan| {
        plan.inputs.iter().all(|input| !busy.holds(input.level, input.fragment.file.number))
    };
    plans.into_iter().find(|plan| plan.est_bytes <= allowance_bytes && is_free(plan))
}

/// Returns the bytes that lie over or under a larger run, and so wait for a merge.
pub fn unmerged_bytes(version: &Version, limits: &TreeLimits) -> u64 {
    let Some(search) = Search::new(version, limits) else { return 0 };
    search.overlaps().map(|(overlap, _)| overlap.bytes - overlap.largest_run_bytes).sum()
}

/// The search for key ranges with several runs.
struct Search<'a> {
    version: &'a Version,
    limits: &'a TreeLimits,
    /// Level of the output.
    deepest: usize,
}

impl<'a> Search<'a> {
    /// Returns `None` for an empty version.
    fn new(version: &'a Version, limits: &'a TreeLimits) -> Option<Search<'a>> {
        Some(Search { version, limits, deepest: version.deepest_nonempty()?.max(1) })
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.limits.order.compare(a, b)
    }

    /// Returns the key ranges in which slices overlap, with their guards in the deepest level.
    fn overlaps(&self) -> impl Iterator<Item = (Overlap, &Guard)> {
        self.version.levels[self.deepest].guards.iter().flat_map(|guard| {
            let overlaps = self.overlaps_in(guard);
            overlaps.into_iter().map(|overlap| (overlap, &**guard))
        })
    }

    /// Returns the slices of all levels within a guard of the deepest level, by their first keys.
    fn parts_of(&self, guard: &Guard) -> Vec<PlanInput> {
        let order = &self.limits.order;
        let (lo, hi) = (guard.lo.as_ref(), guard.hi.as_ref());
        let mut parts = Vec::new();
        for level in 0..=self.deepest {
            let guards =
                self.version.guards_overlapping(level, guard.lo.as_deref(), hi.map(|hi| &hi[..]));
            for (run, fragment) in guards.iter().flat_map(|guard| guard.fragments()) {
                if let Some(part) = self.cut_estimated(fragment, lo, hi) {
                    parts.push(PlanInput { level, order: run, fragment: Arc::new(part) });
                }
            }
        }
        parts.sort_by(|a, b| a.fragment.compare_start(order, &b.fragment));
        parts
    }

    /// Returns the part of `fragment` within `[lo, hi)`, with its estimated size.
    fn cut_estimated(
        &self,
        fragment: &Fragment,
        lo: Option<&Vec<u8>>,
        hi: Option<&Vec<u8>>,
    ) -> Option<Fragment> {
        let mut part = cut(&self.limits.order, fragment, lo, hi)?;
        if part.lo == fragment.lo && part.hi == fragment.hi {
            return Some(part);
        }
        let (lo, hi) = (part.lo.as_deref(), part.hi.as_deref());
        // Without its index, the file is taken to be divided evenly among the guards.
        let (first, last) = (&fragment.file.info.smallest, &fragment.file.info.largest);
        let guards = self.version.guards_overlapping(self.deepest, Some(first), Some(last)).len();
        let share = estimate(&fragment.file, lo, hi, guards as u64);
        // A part within a block counts as something, so that it takes a part of an allowance.
        part.estimated_bytes = share.min(fragment.estimated_bytes).max(1);
        Some(part)
    }

    /// Returns the key ranges of a guard in which slices overlap.
    fn overlaps_in(&self, guard: &Guard) -> Vec<Overlap> {
        let order = &self.limits.order;
        let parts = Arc::new(self.parts_of(guard));
        let mut found: Vec<(Vec<u8>, End)> = Vec::new();
        // The greatest key of the slices so far.
        let mut reach: Option<End> = None;
        for part in parts.iter() {
            let first = part.fragment.first(order);
            let (last, is_exclusive) = part.fragment.last(order);
            let last = End { key: last.to_vec(), is_exclusive };
            let Some(before) = reach.take() else {
                reach = Some(last);
                continue;
            };
            if self.is_within(first, &before) {
                let is_longer = self.is_farther(&last, &before);
                let (shared, farther) = if is_longer { (before, last) } else { (last, before) };
                match found.last_mut().filter(|(_, end)| self.is_within(first, end)) {
                    Some((_, end)) if self.is_farther(&shared, end) => *end = shared,
                    Some(_) => {}
                    None => found.push((first.to_vec(), shared)),
                }
                reach = Some(farther);
            } else {
                reach = Some(last);
            }
        }
        let sized = |(lo, end)| self.sized(&parts, lo, self.key_behind(&parts, &end, guard));
        found.into_iter().map(sized).collect()
    }

    /// Returns whether `key` is not after `end`.
    fn is_within(&self, key: &[u8], end: &End) -> bool {
        match self.compare(key, &end.key) {
            Ordering::Less => true,
            Ordering::Equal => !end.is_exclusive,
            Ordering::Greater => false,
        }
    }

    /// Returns whether `a` admits keys that `b` does not.
    fn is_farther(&self, a: &End, b: &End) -> bool {
        match self.compare(&a.key, &b.key) {
            Ordering::Greater => true,
            Ordering::Equal => b.is_exclusive && !a.is_exclusive,
            Ordering::Less => false,
        }
    }

    /// Returns the first known key that is after all keys up to `end`. `None` is infinite.
    fn key_behind(&self, parts: &[PlanInput], end: &End, guard: &Guard) -> Option<Vec<u8>> {
        if end.is_exclusive {
            return Some(end.key.clone());
        }
        let order = &self.limits.order;
        let is_behind = |key: &[u8]| self.compare(key, &end.key).is_gt();
        let mut nearest = guard.hi.clone();
        let mut take = |key: &[u8]| {
            let is_nearer = |nearest: &Vec<u8>| self.compare(key, nearest).is_lt();
            if is_behind(key) && nearest.as_ref().is_none_or(is_nearer) {
                nearest = Some(key.to_vec());
            }
        };
        for part in parts {
            take(part.fragment.first(order));
            let (last, _) = part.fragment.last(order);
            if is_behind(last) {
                part.fragment.file.peek(|table| table.separator_after(&end.key).map(&mut take));
            }
        }
        nearest
    }

    /// Measures the key range `[lo, hi)`.
    fn sized(&self, parts: &Arc<Vec<PlanInput>>, lo: Vec<u8>, hi: Option<Vec<u8>>) -> Overlap {
        let within = self.within(parts, Some(&lo), hi.as_ref());
        let mut runs: Vec<((usize, u64), u64)> = Vec::new();
        for part in &within {
            let (run, bytes) = ((part.level, part.order), part.fragment.est_bytes());
            match runs.iter_mut().find(|(known, _)| *known == run) {
                Some((_, sum)) => *sum += bytes,
                None => runs.push((run, bytes)),
            }
        }
        let bytes = runs.iter().map(|(_, bytes)| bytes).sum();
        let largest_run_bytes = runs.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        Overlap { parts: parts.clone(), lo, hi, bytes, largest_run_bytes }
    }

    /// Returns the parts of slices within `[lo, hi)`.
    fn within(
        &self,
        parts: &[PlanInput],
        lo: Option<&Vec<u8>>,
        hi: Option<&Vec<u8>>,
    ) -> Vec<PlanInput> {
        let cut = |part: &PlanInput| {
            let fragment = Arc::new(self.cut_estimated(&part.fragment, lo, hi)?);
            Some(PlanInput { level: part.level, order: part.order, fragment })
        };
        parts.iter().filter_map(cut).collect()
    }

    /// Returns a key within the range at which a plan of about one file ends. `None` if the range is
    /// small enough, or if no key is known.
    fn end_of_unit(&self, overlap: &Overlap, inputs: &[PlanInput]) -> Option<Vec<u8>> {
        let unit_bytes = self.limits.file_size_max_bytes;
        if overlap.bytes <= unit_bytes.saturating_add(unit_bytes / 2) {
            return None;
        }
        let order = &self.limits.order;
        let is_inside = |key: &[u8]| {
            let ends = |hi: &Vec<u8>| self.compare(key, hi).is_lt();
            self.compare(key, &overlap.lo).is_gt() && overlap.hi.as_ref().is_none_or(ends)
        };
        let largest = inputs.iter().max_by_key(|input| input.fragment.est_bytes())?;
        let (share, first) = (largest.fragment.est_bytes(), largest.fragment.first(order));
        let step = u128::from(share) * u128::from(unit_bytes) / u128::from(overlap.bytes.max(1));
        let by_index = largest.fragment.file.peek(|table| {
            let offset = table.approximate_offset(first).saturating_add(step as u64);
            table.key_near(offset).filter(|key| is_inside(key)).map(<[u8]>::to_vec)
        });
        if let Some(key) = by_index.flatten() {
            return Some(key);
        }
        // Without an index: the first slice that begins behind one unit.
        let mut before = 0;
        for input in inputs {
            let first = input.fragment.first(order);
            if before >= unit_bytes && is_inside(first) {
                return Some(first.to_vec());
            }
            before += input.fragment.est_bytes();
        }
        None
    }

    /// Plans the merge of the first part of a key range.
    fn plan(&self, overlap: &Overlap, guard: &Guard) -> Plan {
        let mut inputs = self.within(&overlap.parts, Some(&overlap.lo), overlap.hi.as_ref());
        let mut hi = overlap.hi.clone();
        if let Some(end) = self.end_of_unit(overlap, &inputs) {
            inputs = self.within(&overlap.parts, Some(&overlap.lo), Some(&end));
            hi = Some(end);
        }
        let below = inputs.iter().filter(|input| input.level == self.deepest);
        // Newer runs may come to the guard meanwhile, so the output takes the place of an input there:
        // of the oldest, so that `fluid` still takes that run for the base. Without an input there,
        // newer data of these keys cannot come past the inputs.
        let output_order = match below.map(|input| input.order).min() {
            Some(order) => OutputOrder::Same(order),
            None => OutputOrder::New,
        };
        let est_bytes = inputs.iter().map(|input| input.fragment.est_bytes()).sum();
        Plan {
            tree: 0,
            kind: PlanKind::MergeWithin,
            level: 0,
            output_level: self.deepest,
            output_order,
            cut_bounds: Vec::new(),
            bounds_added: self.new_bound(overlap, guard, est_bytes).into_iter().collect(),
            bounds_removed: Vec::new(),
            split_guard_bytes: self.limits.split_guard_bytes(),
            guard_lo: Some(overlap.lo.clone()),
            guard_hi: hi,
            reason: "the store rests",
            est_bytes,
            urgency: Urgency::Rest,
            inputs,
        }
    }

    /// Returns the first key of the range as a guard bound, if its guard would become too large with
    /// what it has before the range.
    fn new_bound(&self, overlap: &Overlap, guard: &Guard, bytes: u64) -> Option<Vec<u8>> {
        let limit = self.limits.split_guard_bytes()?;
        if guard.lo.as_ref() == Some(&overlap.lo) {
            return None;
        }
        let parts = overlap.parts.iter().filter(|part| part.level == self.deepest);
        let before =
            parts.filter_map(|part| self.cut_estimated(&part.fragment, None, Some(&overlap.lo)));
        let before_bytes: u64 = before.map(|part| part.est_bytes()).sum();
        let is_piece = before_bytes >= self.limits.guard_piece_min_bytes.min(limit);
        (is_piece && before_bytes + bytes > limit).then(|| overlap.lo.clone())
    }
}
