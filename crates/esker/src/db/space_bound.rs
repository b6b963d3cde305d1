//! The bound on space: after each change of the tables, measures the trees and the value files, and
//! keeps which compactions reclaim space for the compaction threads.
//!
//! Invariants:
//! * The threads that flush and compact measure. No caller of the store does.
//! * A writer is slowed for the sake of the bound only while a compaction that reclaims space is due
//!   or runs.

use super::state::DbInner;
use crate::base::sync::atomic::Ordering;
use crate::compaction::space::{self, Moment};
use crate::compaction::{BusySet, Plan};

impl DbInner {
    /// Measures the space of all trees with a bound, and of the value files.
    pub(super) fn measure_space(&self) {
        let view = self.read_state.load();
        let (memtable_bytes, limit_bytes) = {
            let sizes = self.sizes.load();
            (sizes.memtable_bytes, sizes.debt_limit_bytes)
        };
        let moment = Moment {
            now_ms: self.rules.clock.now_if_used_ms(),
            has_snapshots: self.snapshots.count() > 0,
        };
        let is_automatic = self.options.load().auto_compaction;
        let (mut measured, mut debt_bytes) = (Vec::new(), 0);
        for tree in self.trees().iter().filter(|_| is_automatic) {
            let bound = tree.options.load().space_amplification_max;
            let (Some(bound), Some(version)) = (bound, view.version_of(tree.id)) else { continue };
            // A table that cannot be opened counts as live. The next read of it reports the error.
            let open = |fragment: &crate::tree::fragment::Fragment| {
                let _ = tree.tables.get(&fragment.file);
            };
            let limits = tree.limits(memtable_bytes);
            let space = space::measure(version, &limits, bound, &moment, &open);
            debt_bytes = space.debt_bytes(bound, limit_bytes).max(debt_bytes);
            measured.push((tree.id, bound, space));
        }
        *self.space_bound.trees.lock() = measured;
        self.space_bound.debt_bytes.store(debt_bytes, Ordering::Relaxed);
        self.measure_values();
    }

    /// Returns the next compaction that reclaims space: of a tree that exceeds its bound with
    /// `only_exceeded`, otherwise also of one that nears it.
    pub(super) fn pick_for_space(&self, busy: &BusySet, only_exceeded: bool) -> Option<Plan> {
        let measured = self.space_bound.trees.lock();
        if measured.iter().all(|(.., space)| space.candidates.is_empty()) {
            return None;
        }
        let view = self.read_state.load();
        let memtable_bytes = self.sizes.load().memtable_bytes;
        let trees = self.trees();
        measured.iter().find_map(|(id, bound, space)| {
            if only_exceeded && space.amplification() <= *bound {
                return None;
            }
            let tree = trees.iter().find(|tree| tree.id == *id)?;
            let limits = tree.limits(memtable_bytes);
            let plan = space::pick(view.version_of(*id)?, &limits, busy, &space.candidates)?;
            Some(Plan { tree: *id, ..plan })
        })
    }
}
