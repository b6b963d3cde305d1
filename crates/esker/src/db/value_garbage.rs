//! The value files of an open store: how much of each is garbage, and the compactions that move
//! values out of the worst.
//!
//! Invariants: the threads that flush and compact measure, after each change of the tables. The last
//! measurement is that of the newest version.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::DbInner;
use super::tree::Tree;
use crate::compaction::values::{self, AMPLIFICATION_MAX, ValueFileUse};
use crate::compaction::{BusySet, Plan};
use crate::options::kinds::ValueSeparation;
use crate::tree::fragment::FileMeta;
use crate::tree::value_files::ValueFile;
use crate::tree::value_output::ValueConfig;
use crate::values::OVERHEAD_BYTES;

/// The size and the use of all value files.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ValueTotals {
    pub files: u64,
    pub bytes: u64,
    pub live_bytes: u64,
}

/// Returns each value file that `files` hold, with the bytes that they reference, by number.
pub(crate) fn held_by(files: &[Arc<FileMeta>]) -> BTreeMap<u64, (Arc<ValueFile>, u64)> {
    let mut held: BTreeMap<u64, (Arc<ValueFile>, u64)> = BTreeMap::new();
    for file in files {
        for (refs, value_file) in file.info.values.iter().zip(file.values()) {
            let known = held.entry(refs.file).or_insert_with(|| (value_file.clone(), 0));
            known.1 = known.1.saturating_add(refs.bytes);
        }
    }
    held
}

impl DbInner {
    /// Measures the garbage of all value files.
    pub(super) fn measure_values(&self) {
        if !self.tables.values().is_used() {
            return;
        }
        let _one = self.space_bound.values.measuring.lock();
        let held = held_by(&self.read_state.load().files());
        let uses = held.into_iter().filter_map(|(number, (file, live_bytes))| {
            // A damaged file is left alone. Reads and the scrub report the damage.
            if file.is_damaged() {
                return None;
            }
            let record_bytes = file.size_bytes().ok()?.saturating_sub(OVERHEAD_BYTES);
            Some(ValueFileUse { number, record_bytes, live_bytes: live_bytes.min(record_bytes) })
        });
        let worst_first = values::wasteful(uses.collect(), AMPLIFICATION_MAX);
        self.space_bound.values.worst_first.store(Arc::new(worst_first));
    }

    /// Returns the next compaction that moves values out of a file with much garbage.
    pub(super) fn pick_for_values(&self, busy: &BusySet) -> Option<Plan> {
        let worst_first = self.space_bound.values.worst_first.load();
        if worst_first.is_empty() {
            return None;
        }
        let view = self.read_state.load();
        self.trees().iter().find_map(|tree| {
            let plan = values::pick(view.version_of(tree.id)?, busy, &worst_first)?;
            Some(Plan { tree: tree.id, ..plan })
        })
    }

    /// Returns which values an output of `tree` separates and moves.
    pub(super) fn value_config(&self, tree: &Tree) -> ValueConfig {
        let min_bytes = separated_min_bytes(tree.options.load().value_separation_min_bytes);
        let moved = self.space_bound.values.worst_first.load().iter().copied().collect();
        ValueConfig {
            moved: Arc::new(moved),
            ..ValueConfig::new(min_bytes, self.tables.values().clone())
        }
    }

    /// Returns the size and the use of the value files that `files` hold.
    pub(super) fn value_totals(&self, files: &[Arc<FileMeta>]) -> ValueTotals {
        let mut totals = ValueTotals::default();
        for (file, live_bytes) in held_by(files).into_values() {
            totals.files += 1;
            totals.bytes += file.size_bytes().unwrap_or(0);
            totals.live_bytes += live_bytes;
        }
        totals
    }
}

/// Returns the length from which values are separated.
pub(super) fn separated_min_bytes(option: ValueSeparation) -> Option<u64> {
    match option {
        ValueSeparation::Off => None,
        ValueSeparation::From(bytes) => Some(bytes),
    }
}
