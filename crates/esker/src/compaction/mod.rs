//! Layer 4: deciding what to merge, and doing it.
//!
//! A [`Picker`] looks at a version and returns a [`Plan`], a value; `job.rs` alone carries plans
//! out. All policies are parameters ([`Shape`]) of one picker over one tree.

pub mod job;
pub mod manual;
pub mod model;
pub mod picker;
pub mod policy;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::order::KeyOrder;
use crate::options::Options;
use crate::tree::fragment::Fragment;
use crate::tree::version::{OlderThan, Version};

/// No guard is cut smaller than this part of what a flush brings or a file holds, whichever is less:
/// else the files of a store would be without number.
const GUARDS_PER_FILE_MAX: u64 = 16;

/// The sizes and counts pickers work with.
#[derive(Debug, Clone)]
pub struct TreeLimits {
    /// The order of keys.
    pub order: KeyOrder,
    /// Bytes of a flush, roughly.
    pub memtable_bytes: u64,
    /// Level 0 is pushed at this many runs.
    pub l0_runs_max: usize,
    /// An inner guard of `fragmented` and `fluid` is pushed at this many runs.
    pub runs_max: usize,
    /// Small runs of a `fluid` last-level guard are merged beyond this many runs.
    pub last_runs_max: usize,
    /// How many times larger each level is.
    pub fan_out: u64,
    /// A `fluid` last-level guard is merged whole once its small runs reach this share of its base.
    pub alpha: f64,
    /// A file is closed at this size.
    pub file_size_max_bytes: u64,
    /// A guard is split beyond this size.
    pub guard_size_max_bytes: u64,
    /// Guards are not cut smaller than this.
    pub guard_piece_min_bytes: u64,
    shape: Shape,
}

impl TreeLimits {
    /// The limits that `options` set for flushes of `memtable_bytes`.
    pub fn new(options: &Options, memtable_bytes: u64, order: KeyOrder) -> TreeLimits {
        // Each guard of a run is a file, whatever its size.
        let least = memtable_bytes.min(options.file_size_max_bytes) / GUARDS_PER_FILE_MAX;
        let guard_size_max_bytes = options.guard_size_max_bytes.max(least);
        let mut limits = TreeLimits {
            order,
            memtable_bytes,
            l0_runs_max: options.l0_runs_max as usize,
            runs_max: options.runs_max as usize,
            last_runs_max: options.last_runs_max as usize,
            fan_out: options.fan_out,
            alpha: options.alpha,
            file_size_max_bytes: options.file_size_max_bytes,
            guard_size_max_bytes,
            guard_piece_min_bytes: options.guard_piece_min_bytes.clamp(least, guard_size_max_bytes),
            shape: policy::leveled::PLACEHOLDER,
        };
        limits.shape = policy::shape(options.policy, &limits);
        limits
    }

    /// The same limits under another policy.
    pub fn with_policy(&self, policy: crate::options::kinds::Policy) -> TreeLimits {
        let mut limits = self.clone();
        limits.shape = policy::shape(policy, &limits);
        limits
    }

    /// The policy as parameters.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many bytes a new guard takes when a merge splits one; `None` when guards are not split.
    pub fn split_guard_bytes(&self) -> Option<u64> {
        self.shape.split_last_bytes
    }

    /// Bytes level 0 holds when it is pushed.
    pub fn push_bytes(&self) -> u64 {
        self.memtable_bytes * self.l0_runs_max as u64
    }

    /// Bytes `level` may hold before it is pushed down or another level is begun below it.
    pub fn capacity_bytes(&self, level: usize) -> u64 {
        let steps = (level as u32).saturating_sub(u32::from(self.shape.capacity_from_push));
        self.push_bytes().saturating_mul(self.fan_out.saturating_pow(steps))
    }
}

/// What a push does with what the child level holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Push {
    /// The output becomes a new run of the child's guards.
    Append,
    /// The child's overlapping runs are inputs too; the output replaces them.
    Merge,
}

/// How the last level is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Last {
    /// Like an inner level: pushed into a level that does not exist yet.
    LikeInner,
    /// One run a guard, kept so by merging pushes.
    OneRun,
    /// A base and small runs; see `policy/fluid.rs`.
    Base,
}

/// A policy as parameters of the one tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// A guard of an inner level is pushed at this many runs.
    pub inner_runs: usize,
    /// What a push into an inner level does.
    pub push_inner: Push,
    /// What a push into the last level does.
    pub push_last: Push,
    /// How the last level is kept.
    pub last: Last,
    /// Whether levels have a capacity in bytes: inner levels are pushed beyond it, and a last level
    /// beyond it becomes an inner one.
    pub has_capacity: bool,
    /// Whether level 1 holds one push (`true`) or `fan_out` of them.
    pub capacity_from_push: bool,
    /// Size of new guards of an inner level; `None`: one guard a level.
    pub split_inner_bytes: Option<u64>,
    /// Size of new guards of the last level.
    pub split_last_bytes: Option<u64>,
}

/// What a plan does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanKind {
    /// Slices change their level by an edit; nothing is read or written.
    Move,
    /// Slices are merged into the next level.
    Push,
    /// Runs of a guard are merged where they are.
    MergeWithin,
}

/// The age of a plan's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputOrder {
    /// Newer than everything in the output level.
    New,
    /// In the place of the newest input.
    Same(u64),
}

/// One slice a plan reads.
#[derive(Debug, Clone)]
pub struct PlanInput {
    /// Its level.
    pub level: usize,
    /// The age of its run.
    pub order: u64,
    /// The slice.
    pub fragment: Arc<Fragment>,
}

/// A decision: what to merge or move, and where to.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is done.
    pub kind: PlanKind,
    /// The uppermost input level.
    pub level: usize,
    /// Where the output goes.
    pub output_level: usize,
    /// The slices read, which the output replaces.
    pub inputs: Vec<PlanInput>,
    /// The age of the output.
    pub output_order: OutputOrder,
    /// Keys at which output files are cut: the output level's guard bounds.
    pub cut_bounds: Vec<Vec<u8>>,
    /// Guard bounds that appear at the output level whatever is written.
    pub bounds_added: Vec<Vec<u8>>,
    /// Guard bounds that go, with their level, since what they cut is replaced or leaves.
    pub bounds_removed: Vec<(usize, Vec<u8>)>,
    /// Output beyond this many bytes in one guard starts new guards.
    pub split_guard_bytes: Option<u64>,
    /// The first key the plan is about; `None` is the beginning.
    pub guard_lo: Option<Vec<u8>>,
    /// The first key it is not about; `None` is the end.
    pub guard_hi: Option<Vec<u8>>,
    /// Why, in a few words.
    pub reason: &'static str,
    /// Bytes of the inputs, roughly.
    pub est_bytes: u64,
    /// Whether readers' seeks, or somebody by hand, asked for it, so that it is not put off.
    pub is_asked_for: bool,
}

impl Plan {
    /// First and last keys of slices in `version` that are older than the inputs and may share
    /// keys with them.
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

/// The slices that running jobs read.
#[derive(Debug, Default)]
pub struct BusySet(HashMap<(usize, u64), usize>);

impl BusySet {
    /// Notes a plan's inputs.
    pub fn insert(&mut self, plan: &Plan) {
        for input in &plan.inputs {
            *self.0.entry((input.level, input.fragment.file.number)).or_insert(0) += 1;
        }
    }

    /// Forgets a plan's inputs.
    pub fn remove(&mut self, plan: &Plan) {
        for input in &plan.inputs {
            let key = (input.level, input.fragment.file.number);
            if let Some(count) = self.0.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(&key);
                }
            }
        }
    }

    /// Whether a job reads this file at this level.
    pub fn holds(&self, level: usize, file: u64) -> bool {
        self.0.contains_key(&(level, file))
    }
}

/// Decides what is done next.
pub trait Picker {
    /// The next plan, if anything is due that touches nothing busy.
    fn pick(&self, version: &Version, limits: &TreeLimits, busy: &BusySet) -> Option<Plan>;
    /// The next plan that is due only because keys are sought often.
    fn pick_hot(&self, version: &Version, limits: &TreeLimits, busy: &BusySet) -> Option<Plan>;
    /// Bytes that must still be pushed or merged.
    fn debt_bytes(&self, version: &Version, limits: &TreeLimits) -> u64;
}
