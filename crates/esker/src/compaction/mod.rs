//! Layer 4: compaction.
//!
//! The [`picker`] examines a version and returns a [`Plan`], a plain value. Only `job.rs` executes
//! plans. All policies are parameters ([`Shape`]) of one picker over one tree.

pub mod drop_expired;
pub mod drop_range;
pub mod job;
pub mod manual;
pub mod model;
pub mod picker;
pub mod place;
pub mod policy;
pub mod rest;
pub mod space;
#[cfg(test)]
mod tests;
pub mod values;

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::keyspace::{KeyspaceId, TreeId};
use crate::base::order::KeyOrder;
use crate::options::Options;
use crate::tree::fragment::Fragment;
use crate::tree::version::{OlderThan, Version};

/// Maximum number of guards per flush or per file, whichever is smaller. It limits the guard size
/// from below, because smaller guards would make the number of files unbounded.
const GUARDS_PER_FILE_MAX: u64 = 16;

/// The size and count limits that pickers use.
#[derive(Debug, Clone)]
pub struct TreeLimits {
    /// Key order.
    pub order: KeyOrder,
    /// Approximate size of a flush, in bytes.
    pub memtable_bytes: u64,
    /// Number of runs at which level 0 is pushed.
    pub l0_runs_max: usize,
    /// Number of runs at which an inner guard of `fragmented` or `fluid` is pushed.
    pub runs_max: usize,
    /// Number of runs of a `fluid` last-level guard beyond which its small runs are merged.
    pub last_runs_max: usize,
    /// Size ratio of each level to the level above.
    pub fan_out: u64,
    /// Base rewrite ratio: a `fluid` last-level guard is merged whole once the size of its small
    /// runs reaches this fraction of its base.
    pub base_rewrite_ratio: f64,
    /// Size at which an output file is closed, in bytes.
    pub file_size_max_bytes: u64,
    /// Size beyond which a guard is split, in bytes.
    pub guard_size_max_bytes: u64,
    /// Minimum size of a new guard, in bytes.
    pub guard_piece_min_bytes: u64,
    /// Whether a manual compaction rewrites files that hold only current values, because a
    /// compaction filter may remove some.
    pub rewrites_settled: bool,
    shape: Shape,
}

impl TreeLimits {
    /// Derives the limits from `options`, for flushes of `memtable_bytes`.
    pub fn new(options: &Options, memtable_bytes: u64, order: KeyOrder) -> TreeLimits {
        // Each guard of a run takes a file of its own, however small.
        let least = memtable_bytes.min(options.file_size_max_bytes) / GUARDS_PER_FILE_MAX;
        let guard_size_max_bytes = options.guard_size_max_bytes.max(least);
        let mut limits = TreeLimits {
            order,
            memtable_bytes,
            l0_runs_max: options.l0_runs_max as usize,
            runs_max: options.runs_max as usize,
            last_runs_max: options.last_runs_max as usize,
            fan_out: options.fan_out,
            base_rewrite_ratio: options.base_rewrite_ratio,
            file_size_max_bytes: options.file_size_max_bytes,
            guard_size_max_bytes,
            guard_piece_min_bytes: options.guard_piece_min_bytes.clamp(least, guard_size_max_bytes),
            rewrites_settled: false,
            shape: policy::PLACEHOLDER,
        };
        limits.shape = policy::shape(options.policy, &limits);
        limits
    }

    /// Returns the same limits with the shape of another policy.
    pub fn with_policy(&self, policy: crate::options::kinds::Policy) -> TreeLimits {
        let mut limits = self.clone();
        limits.shape = policy::shape(policy, &limits);
        limits
    }

    /// Returns the policy as parameters.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the size of new guards when a merge splits a guard, in bytes. `None` when the policy
    /// does not split guards.
    pub fn split_guard_bytes(&self) -> Option<u64> {
        self.shape.split_last_bytes
    }

    /// Returns whether a slice of `bytes` that comes to `level` without a rewrite begins a guard, where
    /// `last` is the last level. Half a flush suffices, so that the output of small memtables does not
    /// pile up as runs of one guard.
    pub fn begins_guard(&self, level: usize, last: usize, bytes: u64) -> bool {
        let shape = &self.shape;
        let split = if level >= last { shape.split_last_bytes } else { shape.split_inner_bytes };
        let flush_bytes = self.memtable_bytes.min(self.file_size_max_bytes) / 2;
        let enough_bytes = self.guard_piece_min_bytes.min(flush_bytes);
        split.is_some() && (shape.wants_one_run() || bytes >= enough_bytes)
    }

    /// Returns the approximate size of level 0 when it is pushed, in bytes.
    pub fn push_bytes(&self) -> u64 {
        self.memtable_bytes * self.l0_runs_max as u64
    }

    /// Returns the capacity of `level`, in bytes. Beyond it, data is pushed down or a new level
    /// starts below.
    pub fn capacity_bytes(&self, level: usize) -> u64 {
        let steps = (level as u32).saturating_sub(u32::from(self.shape.capacity_from_push));
        self.push_bytes().saturating_mul(self.fan_out.saturating_pow(steps))
    }
}

/// How a push treats the existing runs of the child level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Push {
    /// The output becomes a new run in the child's guards.
    Append,
    /// The child's overlapping runs are also inputs. The output replaces them.
    Merge,
}

/// Structure of the last level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Last {
    /// As an inner level: its guards are pushed into a new level.
    LikeInner,
    /// One run per guard. Pushes merge with that run.
    OneRun,
    /// A base and small runs. See `policy.rs`.
    Base,
}

/// A policy as parameters of the shared tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Number of runs at which a guard of an inner level is pushed.
    pub inner_runs: usize,
    /// Mode of a push into an inner level.
    pub push_inner: Push,
    /// Mode of a push into the last level.
    pub push_last: Push,
    /// Structure of the last level.
    pub last: Last,
    /// Whether levels have a capacity in bytes. An inner level over its capacity is pushed. A last
    /// level over its capacity becomes an inner level.
    pub has_capacity: bool,
    /// Whether the capacity of level 1 is one push of level 0 (`true`) or `fan_out` pushes.
    pub capacity_from_push: bool,
    /// Size of new guards of an inner level, in bytes. `None`: one guard per level.
    pub split_inner_bytes: Option<u64>,
    /// Size of new guards of the last level, in bytes. `None`: one guard per level.
    pub split_last_bytes: Option<u64>,
}

impl Shape {
    /// Returns whether the policy wants one run in each guard of some level.
    pub fn wants_one_run(&self) -> bool {
        self.push_inner == Push::Merge || self.last == Last::OneRun
    }
}

/// Kind of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanKind {
    /// An edit removes slices of a dropped keyspace, and of others next to it that do not exist. Without inputs it states that the tables hold
    /// nothing of the keyspace any more. No table is read or written.
    Drop(KeyspaceId),
    /// An edit removes slices whose pairs have all expired. No table is read or written.
    Expire,
    /// An edit moves slices to another level. No table is read or written.
    Move,
    /// Slices are merged into the next level.
    Push,
    /// Runs of a guard are merged within their level.
    MergeWithin,
}

/// How urgent a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// A rest compaction, which stops for every other work.
    Rest,
    /// The policy demands the plan.
    Normal,
    /// The plan comes from a manual compaction or from seek statistics. It is not delayed by the
    /// compaction yield.
    Urgent,
}

/// The age of a plan's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputOrder {
    /// Newer than everything in the output level.
    New,
    /// The given order: the output takes the position of the run with that order, the newest input
    /// of the output level.
    Same(u64),
}

/// A slice that a plan reads.
#[derive(Debug, Clone)]
pub struct PlanInput {
    /// Level of the slice.
    pub level: usize,
    /// Age of the slice's run.
    pub order: u64,
    /// The slice.
    pub fragment: Arc<Fragment>,
}

/// A decision: the slices to merge, move or remove, and their destination.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The tree of the slices. The picker knows only one tree, and its caller sets this.
    pub tree: TreeId,
    /// The kind of work.
    pub kind: PlanKind,
    /// The uppermost level of the inputs.
    pub level: usize,
    /// The level of the output.
    pub output_level: usize,
    /// The slices to read. The output replaces them.
    pub inputs: Vec<PlanInput>,
    /// The age of the output.
    pub output_order: OutputOrder,
    /// Guard bounds of the output level, at which output files are cut.
    pub cut_bounds: Vec<Vec<u8>>,
    /// Guard bounds to add at the output level, regardless of the output.
    pub bounds_added: Vec<Vec<u8>>,
    /// Guard bounds to remove, with their level, because the slices that they separate are replaced
    /// or leave the level.
    pub bounds_removed: Vec<(usize, Vec<u8>)>,
    /// Output size in one guard, in bytes, beyond which new guards start. `None`: no split.
    pub split_guard_bytes: Option<u64>,
    /// First key of the plan's key range. `None`: no lower bound.
    pub guard_lo: Option<Vec<u8>>,
    /// First key after the plan's key range. `None`: no upper bound.
    pub guard_hi: Option<Vec<u8>>,
    /// The reason for the plan, in a few words.
    pub reason: &'static str,
    /// Approximate size of the inputs to read, in bytes; 0 for a move.
    pub est_bytes: u64,
    /// How urgent the plan is.
    pub urgency: Urgency,
}

impl Plan {
    /// Creates a plan over these slices, from one level to another: normal work without a reason,
    /// without guard bounds, over all keys, that reads nothing.
    pub fn of_files(
        kind: PlanKind,
        inputs: Vec<PlanInput>,
        (level, output_level): (usize, usize),
    ) -> Plan {
        Plan {
            tree: 0,
            kind,
            level,
            output_level,
            inputs,
            output_order: OutputOrder::New,
            cut_bounds: Vec::new(),
            bounds_added: Vec::new(),
            bounds_removed: Vec::new(),
            split_guard_bytes: None,
            guard_lo: None,
            guard_hi: None,
            reason: "",
            est_bytes: 0,
            urgency: Urgency::Normal,
        }
    }

    /// Returns the first and last keys of the slices in `version` that are older than the inputs
    /// and may share keys with the inputs.
    pub fn older_ranges(&self, version: &Version) -> Vec<(Vec<u8>, Vec<u8>)> {
        let inputs: Vec<(usize, u64)> =
            self.inputs.iter().map(|i| (i.level, i.fragment.file.number)).collect();
        let mut newest: HashMap<usize, u64> = HashMap::new();
        for input in &self.inputs {
            let slot = newest.entry(input.level).or_insert(input.order);
            *slot = (*slot).max(input.order);
        }
        let newest: Vec<(usize, u64)> = newest.into_iter().collect();
        version.older_ranges(&OlderThan {
            level: self.level,
            newest: &newest,
            inputs: &inputs,
            lo: self.guard_lo.as_deref(),
            hi: self.guard_hi.as_deref(),
        })
    }
}

/// What running jobs work on: the slices that they read, with the number of jobs per slice, and the
/// dropped keyspaces that they remove, of which there may be no slice left.
#[derive(Debug, Default)]
pub struct BusySet {
    slices: HashMap<(usize, u64), usize>,
    drops: Vec<KeyspaceId>,
}

impl BusySet {
    /// Returns whether no job runs.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.drops.is_empty()
    }

    /// Adds a plan.
    pub fn insert(&mut self, plan: &Plan) {
        for input in &plan.inputs {
            *self.slices.entry((input.level, input.fragment.file.number)).or_insert(0) += 1;
        }
        if let PlanKind::Drop(id) = plan.kind {
            self.drops.push(id);
        }
    }

    /// Removes a plan.
    pub fn remove(&mut self, plan: &Plan) {
        for input in &plan.inputs {
            let key = (input.level, input.fragment.file.number);
            if let Some(count) = self.slices.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.slices.remove(&key);
                }
            }
        }
        if let PlanKind::Drop(id) = plan.kind {
            self.drops.retain(|dropped| *dropped != id);
        }
    }

    /// Returns whether a running job reads this file at this level.
    pub fn holds(&self, level: usize, file: u64) -> bool {
        self.slices.contains_key(&(level, file))
    }

    /// Returns whether a running job removes this keyspace.
    pub fn drops(&self, id: KeyspaceId) -> bool {
        self.drops.contains(&id)
    }
}
