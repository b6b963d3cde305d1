//! Removal of table files whose pairs have all expired, and the times at which that is due.
//!
//! Invariant: `expired_files_from_ms` is not after the time at which the next file can be removed,
//! unless a snapshot or an older file prevents the removal. Each new read state resets it.

use std::time::{Duration, Instant};

use super::rules::default_settings_change;
use super::state::DbInner;
use crate::base::sync::atomic::Ordering;
use crate::compaction::{BusySet, Plan, drop_expired};
use crate::error::Result;
use crate::tree::edit::VersionEdit;

/// Limits of the wait for the next expiry, in ms. The wait uses the system's clock, which can differ
/// from the clock of the store. An expired file is therefore found late by at most the upper limit.
const WAIT_MS: std::ops::RangeInclusive<u64> = 100..=60_000;

/// Value of `expired_files_from_ms` while the files are checked.
const CHECKING: u64 = 1;

impl DbInner {
    /// Returns the next removal of files whose pairs have all expired.
    pub(super) fn pick_expired(&self, busy: &BusySet) -> Option<Plan> {
        let clock = &self.rules.clock;
        if !clock.is_used() {
            return None;
        }
        let now_ms = clock.now_ms();
        if now_ms < self.expired_files_from_ms.load(Ordering::Relaxed) {
            return None;
        }
        self.expired_files_from_ms.store(CHECKING, Ordering::Relaxed);
        // The time comes before the snapshots: see `base::expiry`. A pair that was put after the
        // oldest snapshot expires at its time at the earliest, and must stay: a transaction that
        // holds the snapshot finds its conflicts by it.
        let oldest_ms = self.snapshots.all().iter().map(|held| held.at_ms).min();
        let at_ms = oldest_ms.map_or(now_ms, |oldest_ms| now_ms.min(oldest_ms.saturating_sub(1)));
        let view = self.read_state.load();
        let mut next_ms = u64::MAX;
        for tree in self.trees().iter() {
            let Some(version) = view.version_of(tree.id) else { continue };
            if let Some(plan) = drop_expired::plan(version, at_ms, busy) {
                return Some(Plan { tree: tree.id, ..plan });
            }
            next_ms = next_ms.min(drop_expired::next_time_ms(version, at_ms).unwrap_or(u64::MAX));
        }
        // Unless a new read state has reset it meanwhile.
        let (checking, relaxed) = (CHECKING, Ordering::Relaxed);
        let _ = self.expired_files_from_ms.compare_exchange(checking, next_ms, relaxed, relaxed);
        None
    }

    /// Returns the moment at which a compaction thread looks for expired files again.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let clock = &self.rules.clock;
        let next_ms = self.expired_files_from_ms.load(Ordering::Relaxed);
        if !clock.is_used() || next_ms == u64::MAX || !self.options.load().auto_compaction {
            return None;
        }
        let wait_ms =
            next_ms.saturating_sub(clock.now_ms()).clamp(*WAIT_MS.start(), *WAIT_MS.end());
        Some(Instant::now() + Duration::from_millis(wait_ms))
    }

    /// Notes for the clock of an opened store whether its tables have pairs that expire.
    pub(super) fn note_expiring_tables(&self) {
        let forest = self.versions.lock().current();
        let mut versions = forest.trees().iter();
        if versions.any(|version| version.files().iter().any(|file| file.info.expiring > 0)) {
            self.rules.clock.mark_used();
        }
    }

    /// Stores the name of the merge operator of the default keyspace, unless it is stored.
    pub(super) fn store_merge_operator(&self) -> Result<()> {
        let mut versions = self.versions.lock();
        let name = self.rules.operator.as_ref().map(|operator| operator.name());
        let Some(change) = default_settings_change(versions.catalog(), name) else { return Ok(()) };
        versions.apply(VersionEdit { catalog: vec![change], ..VersionEdit::default() }).map(drop)
    }
}
