//! A model that predicts the write amplification of each policy from sizes alone, without keys,
//! files or a picker.
//!
//! The model simulates a load of uniformly random, distinct keys, flush by flush. A level is a list
//! of run sizes. Because keys are uniform, each guard is assumed to look like its level.
//! `tests/policies.rs` compares the engine with the model.

use super::TreeLimits;
use crate::options::kinds::Policy;

/// Returns the write amplification: the bytes that flushes and compactions write per flushed byte,
/// for `total_bytes` in flushes of `flush_bytes`.
pub fn write_amplification(
    policy: Policy,
    limits: &TreeLimits,
    total_bytes: u64,
    flush_bytes: u64,
) -> f64 {
    let mut model = Model {
        limits: limits.with_policy(policy),
        policy,
        levels: vec![Vec::new(); crate::metrics::LEVELS],
        written: 0.0,
    };
    let flushes = total_bytes / flush_bytes.max(1);
    for _ in 0..flushes {
        model.levels[0].insert(0, flush_bytes as f64);
        model.written += flush_bytes as f64;
        model.settle();
    }
    model.written / (flushes * flush_bytes).max(1) as f64
}

struct Model {
    limits: TreeLimits,
    policy: Policy,
    /// Run sizes per level, newest first, in bytes.
    levels: Vec<Vec<f64>>,
    written: f64,
}

impl Model {
    fn size(&self, level: usize) -> f64 {
        self.levels[level].iter().sum()
    }

    fn capacity(&self, level: usize) -> f64 {
        self.limits.capacity_bytes(level) as f64
    }

    fn deepest(&self) -> usize {
        (0..self.levels.len()).rev().find(|l| !self.levels[*l].is_empty()).unwrap_or(0).max(1)
    }

    fn last(&self) -> usize {
        let deepest = self.deepest();
        let full = self.limits.shape().has_capacity && self.size(deepest) > self.capacity(deepest);
        if full { deepest + 1 } else { deepest }
    }

    fn settle(&mut self) {
        if self.levels[0].len() >= self.limits.l0_runs_max {
            self.push_all(0);
        }
        for level in 1..self.levels.len() - 1 {
            match self.policy {
                Policy::Leveled => self.overflow_leveled(level),
                Policy::Tiered | Policy::Fragmented => {
                    if self.levels[level].len() >= self.limits.shape().inner_runs {
                        self.push_all(level);
                    }
                }
                Policy::Lazy | Policy::Fluid => {
                    let inner = level < self.last() && !self.levels[level].is_empty();
                    let many = self.levels[level].len() >= self.limits.shape().inner_runs;
                    if inner && (many || self.size(level) > self.capacity(level)) {
                        self.push_all(level);
                    }
                }
            }
        }
        if self.policy == Policy::Fluid {
            self.compact_base();
        }
    }

    /// Pushes all runs of a level into the next level, as a new run or merged with the existing
    /// runs.
    fn push_all(&mut self, level: usize) {
        let child = level + 1;
        let runs = std::mem::take(&mut self.levels[level]);
        let size: f64 = runs.iter().sum();
        let merges = match self.policy {
            Policy::Leveled => true,
            Policy::Lazy => child >= self.last(),
            _ => false,
        };
        let below = self.size(child);
        if runs.len() == 1 && below == 0.0 {
            // A move, because nothing overlaps.
            self.levels[child].push(size);
        } else if merges {
            self.written += size + below;
            self.levels[child] = vec![size + below];
        } else {
            self.written += size;
            self.levels[child].insert(0, size);
        }
    }

    /// Pushes a leveled level down to its capacity, file by file. Each file is merged with its
    /// share of the next level.
    fn overflow_leveled(&mut self, level: usize) {
        while self.size(level) > self.capacity(level) {
            let here = self.size(level);
            let file = (self.limits.file_size_max_bytes as f64).min(here);
            let below = self.size(level + 1);
            if below > 0.0 {
                // The ends of a file fall into the middle of two files of the next level. The
                // picker takes the file with the least overlap, below which the next level is
                // thinner than on average. The model assumes half the average: the middle between
                // empty (just pushed) and the average.
                let file_below = (self.limits.file_size_max_bytes as f64).min(below);
                self.written += file + (below * file / here / 2.0 + file_below).min(below);
            }
            self.levels[level] = if here > file { vec![here - file] } else { Vec::new() };
            self.levels[level + 1] = vec![below + file];
        }
    }

    /// Merges the small runs of the last level into its base once they reach `base_rewrite_ratio`
    /// times the base. Before that, merges the small runs with each other when they are too many.
    fn compact_base(&mut self) {
        let last = self.last().min(self.levels.len() - 1);
        let runs = &mut self.levels[last];
        let Some(base) = runs.last().copied().filter(|_| runs.len() > 1) else { return };
        let small: f64 = runs.iter().sum::<f64>() - base;
        if small >= self.limits.base_rewrite_ratio * base {
            self.written += small + base;
            *runs = vec![small + base];
        } else if runs.len() > self.limits.last_runs_max.max(2) {
            self.written += small;
            *runs = vec![small, base];
        }
    }
}
