//! The work of the store's threads ([`super::thread_roles`] lists them). One flushes, some
//! compact, and one each syncs, scrubs, searches for empty-range hints, removes files and provides
//! memory for memtables. In manual background mode there are no threads: flushes and compactions
//! run in the calls that need them and in [`crate::Db::run_one_job`], so that a test can choose
//! every step.
//!
//! Lock rules: a job reads and writes tables without a lock. It installs its edit with `versions`
//! locked. Inside of it, it takes `queue` and `read_state_change` to replace the read state. A thread
//! without work waits with `queue` locked.
//!
//! Invariants:
//! * A memtable leaves the read state by the same change that adds its tables.
//! * A failed job changes nothing and is retried, unless the manifest itself failed.
//! * A job that panics leaves no count behind that other threads wait for.

use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Bug, is_seeded};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::created_tables::{CreatedTable, created_tables};
use super::state::{DbInner, Frozen, Queue};
use super::table_output::level_zero_slice;
use super::tree::Tree;
use crate::base::keyspace::TreeId;
use crate::base::workers::JobClass;
use crate::compaction::job::{self, JobContext};
use crate::compaction::{BusySet, Plan, PlanKind, TreeLimits, Urgency, drop_range, picker};
use crate::error::{Error, ErrorKind, Result};
use crate::flush;
use crate::memtable::{Memtable, Memtables};
use crate::read::ReadState;
use crate::tree::catalog::CatalogChange;
use crate::tree::edit::VersionEdit;
use crate::tree::names;
use crate::tree::output::{NewFile, Opened};
use crate::tree::purge::purge_inline;
use crate::tree::version::Version;

/// Wait before a failed job is retried, in ms.
pub(super) const RETRY_WAIT_MS: u64 = 200;
/// Minimum number of cache hits during a compaction that indicate readers.
const READS_MIN: u64 = 1_000;

/// Result of one or several compactions.
#[derive(Default)]
pub(super) struct CompactionResult {
    /// Numbers of the output files that are open.
    opened: Vec<u64>,
    /// Number of cache hits during the compactions.
    reads: u64,
    /// The number of tables that one compaction wrote, and its bytes.
    pub tables: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl DbInner {
    pub(super) fn flush_loop(&self) {
        loop {
            let next = {
                let mut queue = self.queue.lock();
                loop {
                    if queue.is_stopped() {
                        return;
                    }
                    if let Some(front) = self.next_flush(&mut queue) {
                        break front;
                    }
                    if self.seek_heavy_memtable().is_some() {
                        drop(queue);
                        self.freeze_if_seek_heavy();
                        queue = self.queue.lock();
                        continue;
                    }
                    queue = self.wait_for_work(queue, true, None);
                }
            };
            self.record_outcome(self.retry_with_space(|| self.flush_one(&next)), true);
        }
    }

    /// Returns the memtables to flush now, and records that their flush begins.
    pub(super) fn next_flush(&self, queue: &mut Queue) -> Option<Frozen> {
        let front = queue.frozen.front().cloned()?;
        queue.flush_tries += 1;
        queue.flush_failed = None;
        queue.is_flushing = true;
        Some(front)
    }

    /// Returns the first active memtable that is seek-heavy.
    pub(super) fn seek_heavy_memtable(&self) -> Option<Arc<Memtable>> {
        let view = self.read_state.load();
        let mut active =
            std::iter::once(&view.active).chain(view.others().iter().map(|other| &other.active));
        active.find(|memtable| memtable.is_seek_heavy()).cloned()
    }

    /// Freezes the active memtables if one is still
    /// [seek-heavy](crate::memtable::Memtable::is_seek_heavy). Does not wait for the commit lock,
    /// whose holder may wait for this thread.
    pub(super) fn freeze_if_seek_heavy(&self) {
        let Some(memtable) = self.seek_heavy_memtable() else { return };
        let frozen = self.committer.try_lock().is_some_and(|mut writer| {
            let options = self.options.load();
            let wanted = options.auto_compaction && options.merge_on_seeks && !memtable.is_empty();
            let is_active = writer.memtables.iter().any(|active| Arc::ptr_eq(&memtable, active));
            let is_same = is_active && memtable.is_seek_heavy();
            // This freeze is only advice: a write meets the same error again and reports it.
            wanted && is_same && self.freeze(&mut writer).is_ok()
        });
        if !frozen {
            memtable.exclude_from_seek_flush();
        }
    }

    /// Syncs the log every `sync_every_ms`, independently of the other threads, and preallocates
    /// the next log.
    pub(super) fn sync_loop(&self) {
        let mut due = Instant::now();
        loop {
            let every;
            {
                let mut queue = self.queue.lock();
                // Under the lock: a change of options signals under it.
                every = Duration::from_millis(self.options.load().sync_every_ms);
                if queue.stop {
                    return;
                }
                if queue.pending_wal.is_wanted() {
                    drop(queue);
                    self.preallocate_wal();
                    continue;
                }
                if every.is_zero() {
                    self.work.wait(&mut queue);
                    due = Instant::now();
                    continue;
                }
                if Instant::now() < due {
                    self.work.wait_until(&mut queue, due);
                    continue;
                }
            }
            due = Instant::now() + every;
            // A failure poisons the log; the next write reports it.
            let synced = self.committer.lock().sync_logs(self);
            if let Err(error) = synced {
                self.note_error("sync of the log", &error);
                self.deliver_events();
            }
        }
    }

    /// Does `work`. On a full device, waits until running compactions have freed the space of
    /// their unfinished output, and then does `work` once more.
    pub fn retry_with_space(&self, mut work: impl FnMut() -> Result<()>) -> Result<()> {
        let outcome = work();
        if !matches!(&outcome, Err(error) if error.kind() == ErrorKind::NoSpace) {
            return outcome;
        }
        let _waiter = {
            let mut queue = self.queue.lock();
            queue.space_waiters += 1;
            while queue.running > 0 && !queue.is_stopped() {
                self.idle.wait(&mut queue);
            }
            SpaceWaiter(self)
        };
        work()
    }

    /// Records the result of a background job of the calling thread. After a failure, waits before
    /// the next attempt. `is_flush` says whether the job was a flush.
    pub(super) fn record_outcome(&self, outcome: Result<()>, is_flush: bool) {
        let is_failed = outcome.is_err();
        self.note_outcome(outcome, is_flush);
        if is_failed {
            let mut queue = self.queue.lock();
            if !queue.is_stopped() {
                self.work.wait_for(&mut queue, Duration::from_millis(RETRY_WAIT_MS));
            }
            drop(queue);
            self.idle.notify_all();
        }
        self.work.notify_all();
    }

    /// Records the result of a background job for those that wait for it. `is_flush` says whether
    /// the job was a flush.
    pub(super) fn note_outcome(&self, outcome: Result<()>, is_flush: bool) {
        let mut queue = self.queue.lock();
        queue.is_flushing &= !is_flush;
        // A flush that succeeded was recorded with the change of the read state.
        if is_flush
            && outcome.is_err()
            && let Some(account) = self.account()
        {
            account.note_flush(queue.frozen_bytes(), true);
        }
        *queue.failure_mut(is_flush) = outcome.err();
        drop(queue);
        self.idle.notify_all();
    }

    /// Writes immutable memtables as tables of level 0, and installs these.
    pub(super) fn flush_memtables(&self, frozen: &Frozen) -> Result<Vec<CreatedTable>> {
        let began = Instant::now();
        let memory_bytes = frozen.memtables.memory_bytes() as u64;
        self.write_throttle.note_flush_begins(memory_bytes);
        let (files, opened) = self.write_level_zero(&frozen.memtables)?;
        if let Some(log) = frozen.next_log {
            self.sync_kept_logs(log.number)?;
        }
        let mut written = 0;
        let mut versions = self.versions.lock();
        let order = versions.allocate_order();
        let mut edit = VersionEdit {
            next_file: Some(self.numbers.load(Ordering::Relaxed)),
            last_seqno: frozen.memtables.seqno_max(),
            min_wal: frozen.next_log.map(|log| log.number),
            min_wal_ordinal: frozen.next_log.map(|log| log.first_ordinal),
            ..VersionEdit::default()
        };
        for (tree, file) in files {
            written += file.info.size_bytes + file.value_bytes;
            edit.tree_mut(tree).added.push(level_zero_slice(file, order));
        }
        let created = created_tables(0, &edit);
        let forest = versions.apply(edit)?;
        self.emit_created(&created);
        let files = forest.files();
        opened.iter().for_each(|opened| drop(opened.settle(&files)));
        // Counted first, so that the metrics include every visible table.
        self.counters.flushes.add(1);
        self.counters.flush_bytes.add(written);
        self.counters.levels[0].written_bytes.add(written);
        if is_seeded(Bug::DropMemtableFirst) {
            let (active, version) =
                (self.read_state.load().active.clone(), self.read_state.load().version.clone());
            self.replace_read_state(|_| ReadState::new(active, Vec::new(), version));
        }
        {
            let mut queue = self.queue.lock();
            self.replace_read_state(|view| view.after_flush(&frozen.memtables, &forest));
            queue.frozen.pop_front();
            queue.recovered = queue.recovered.saturating_sub(1);
            queue.rest.note_flush(written);
            self.write_throttle.note_flush_ends();
            self.update_near_stall(queue.frozen.len());
            if let Some(account) = self.account() {
                account.note_flush(queue.frozen_bytes(), false);
            }
        }
        drop(versions);
        let full = self.write_params.memtable_bytes.load(Ordering::Relaxed);
        self.write_throttle.note_flush(memory_bytes, full, began.elapsed());
        if let Some(log) = frozen.next_log {
            self.remove_logs_below(log.number);
        }
        self.measure_space();
        self.refresh_debt();
        self.resize_cache();
        Ok(created)
    }

    /// Writes memtables as tables. Returns the files with their trees, and the open tables.
    #[allow(clippy::type_complexity)]
    fn write_level_zero(
        &self,
        memtables: &Memtables,
    ) -> Result<(Vec<(TreeId, NewFile)>, Vec<Arc<Opened>>)> {
        let (mut files, mut open) = (Vec::new(), Vec::new());
        for (tree, memtable) in self.trees.load().iter().zip(memtables.iter()) {
            if tree.id != 0 && memtable.is_empty() {
                continue;
            }
            let config = self.output_config(tree, 0);
            open.extend(config.opened.clone());
            let rules = self.rewrite_rules(tree.id, None);
            match flush::write_tables(memtable, &tree.order, rules, config) {
                Ok(written) => files.extend(written.into_iter().map(|file| (tree.id, file))),
                Err(error) => {
                    for (_, file) in &files {
                        let _ = self.fs.remove(&names::table_path(&self.dir, file.number));
                        // A flush points only to files of its own.
                        for values in &file.info.values {
                            let _ = self.fs.remove(&names::value_path(&self.dir, values.file));
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok((files, open))
    }

    /// Removes logs whose operations are all in tables, and which no slot needs.
    pub fn remove_logs_below(&self, number: u64) {
        // The next freeze drops their writers; a waiting writer may hold the writer state now.
        self.flushed_below.store(number, Ordering::Release);
        self.remove_unneeded_logs(number);
    }

    /// Removes the files that readers and writers have released.
    pub(super) fn remove_loop(&self) {
        if let Some(purger) = &self.purger {
            purger.serve();
        }
    }

    /// Returns the compaction that the policy would do next.
    pub fn pick(&self, busy: &BusySet) -> Option<Plan> {
        let dropped = self.pick_dropped(busy);
        if dropped.is_some() {
            return dropped;
        }
        if !self.options.load().auto_compaction {
            return None;
        }
        let expired = self.pick_expired(busy);
        if expired.is_some() {
            return expired;
        }
        let view = &self.read_state.load();
        let memtable_bytes = self.sizes.load().memtable_bytes;
        let trees = self.trees();
        let in_trees = |pick: &dyn Fn(&Version, &TreeLimits) -> Option<Plan>| {
            trees.iter().find_map(|tree| {
                let version = view.version_of(tree.id)?;
                Some(Plan { tree: tree.id, ..pick(version, &tree.limits(memtable_bytes))? })
            })
        };
        let due = self
            .pick_for_space(busy, true)
            .or_else(|| in_trees(&|version, limits| picker::pick(version, limits, busy)))
            .or_else(|| self.pick_for_space(busy, false))
            .or_else(|| self.pick_for_values(busy));
        if due.is_some() || !self.options.load().merge_on_seeks {
            return due;
        }
        // The memtable being flushed would overlap the output and soon be merged with it again.
        if !view.frozen.is_empty() {
            return None;
        }
        in_trees(&|version, limits| picker::pick_seek_candidate(version, limits, busy))
    }

    /// Returns the next removal of a dropped keyspace from the tables.
    fn pick_dropped(&self, busy: &BusySet) -> Option<Plan> {
        let dropped = self.dropped.lock();
        let view = (!dropped.is_empty()).then(|| self.read_state.load())?;
        // After the read state: a keyspace with pairs in it exists in the list.
        let keyspaces = self.keyspaces.lock();
        dropped.iter().find_map(|&(id, tree)| {
            let gap = keyspaces.gap_around(id, tree);
            let plan = drop_range::plan(view.version_of(tree)?, id, gap, busy)?;
            // A job that began before the drop may still write entries of the keyspace.
            let settled = busy.is_empty() && view.frozen.is_empty();
            (settled || !plan.inputs.is_empty()).then_some(Plan { tree, ..plan })
        })
    }

    /// Returns whether the compaction of `plan`, which runs, must stop.
    fn must_stop(&self, plan: &Plan) -> bool {
        let mut queue = self.queue.lock();
        // A manual compaction that runs alone does not give up its space.
        let alone = queue.exclusive && queue.running == 0;
        let gives_way = plan.urgency == Urgency::Rest && self.must_end_rest(&mut queue);
        queue.is_stopped() || (queue.space_waiters > 0 && !alone) || gives_way
    }

    /// Executes a plan and installs its output.
    pub(super) fn run_plan(&self, plan: &Plan) -> Result<CompactionResult> {
        let job_yield = self.new_compaction_yield(plan);
        let trees = self.trees();
        let tree = &trees[plan.tree as usize];
        let view = self.read_state.load();
        let version = view.version_of(tree.id).expect("a tree is in every read state");
        let context = JobContext {
            order: tree.order.clone(),
            tables: tree.tables.clone(),
            rules: self.rewrite_rules(tree.id, Some(plan.output_level)),
            version: version.clone(),
            output: self.compaction_output(tree, plan),
            stopped: &|| {
                self.yield_to_readers(&job_yield);
                self.publish_status_if_due();
                self.must_stop(plan)
            },
        };
        let opened = context.output.opened.clone();
        let reads_before = self.cache.stats().hits;
        drop(view);
        let (mut edit, stats) = job::run(plan, context)?;
        let mut versions = self.versions.lock();
        job::number_new_orders(&mut edit, || versions.allocate_order());
        let created = created_tables(plan.tree, &edit);
        let tables = created.len() as u64;
        let mut edit = VersionEdit::of_tree(plan.tree, edit);
        edit.next_file = Some(self.numbers.load(Ordering::Relaxed));
        if let PlanKind::Drop(id) = plan.kind
            && plan.inputs.is_empty()
        {
            edit.catalog.push(CatalogChange::Purge(id));
        }
        let forest = versions.apply(edit)?;
        self.emit_created(&created);
        let files = forest.files();
        let opened: Vec<u64> = opened.iter().flat_map(|opened| opened.settle(&files)).collect();
        // Counted first, so that the metrics include every visible table.
        self.count_plan(plan, &stats);
        if let PlanKind::Drop(id) = plan.kind
            && plan.inputs.is_empty()
        {
            self.dropped.lock().retain(|(dropped, _)| *dropped != id);
        }
        {
            let _queue = self.queue.lock();
            self.replace_read_state(|view| view.with_forest(&forest));
        }
        drop(versions);
        self.measure_space();
        self.refresh_debt();
        self.resize_cache();
        let reads = self.cache.stats().hits.saturating_sub(reads_before);
        let job::JobStats { read_bytes, written_bytes } = stats;
        Ok(CompactionResult { opened, reads, tables, read_bytes, written_bytes })
    }

    /// Counts a plan that was executed.
    fn count_plan(&self, plan: &Plan, stats: &job::JobStats) {
        let (levels, inputs) = (&self.counters.levels, plan.inputs.len() as u64);
        match plan.kind {
            PlanKind::Drop(_) => {}
            PlanKind::Expire => self.counters.rewrites.expired_files.add(inputs),
            PlanKind::Move => levels[plan.output_level].moves.add(inputs),
            PlanKind::Push | PlanKind::MergeWithin => {
                self.counters.compactions.add(1);
                self.counters.compaction_bytes.add(stats.written_bytes);
                self.counters.compaction_read_bytes.add(stats.read_bytes);
                levels[plan.output_level].compactions.add(1);
                levels[plan.output_level].written_bytes.add(stats.written_bytes);
                for input in &plan.inputs {
                    levels[input.level].read_bytes.add(input.fragment.est_bytes());
                }
            }
        }
    }

    /// Reads new output tables into the cache space that their input tables leave, for the readers
    /// of those input tables. The input tables are gone by now, unless others hold them. Stops when
    /// there is more urgent work.
    pub(super) fn warm(&self, merged: &CompactionResult) {
        if merged.reads < READS_MIN {
            return;
        }
        let go_on = || {
            let queue = self.queue.lock();
            let wanted = queue.exclusive || queue.space_waiters > 0 || !queue.frozen.is_empty();
            !(queue.is_stopped() || wanted || self.closed.load(Ordering::Relaxed))
        };
        // Only the new files: holding a file keeps it and its blocks.
        for tree in self.trees().iter() {
            let files = self.read_state.load().version_of(tree.id).map(|version| version.files());
            let mut files = files.unwrap_or_default();
            files.retain(|file| merged.opened.contains(&file.number));
            for file in files {
                // A reader meets the same error again and gets it.
                let _ = tree.tables.get(&file).and_then(|table| table.warm(&go_on));
            }
        }
    }

    /// Returns whether the store is in manual background mode: it has no threads, and its callers
    /// do the background work.
    pub fn is_manual_background(&self) -> bool {
        self.sizes.load().compaction_threads == 0
    }

    /// In manual background mode, flushes the oldest immutable memtables until none is left or
    /// `suffices` returns true.
    pub fn flush_here(&self, suffices: impl Fn(&Queue) -> bool) -> Result<()> {
        loop {
            // If two callers took the same memtable, the second would drop the one behind it.
            let _job = self.manual_job.lock();
            let next = {
                let queue = self.queue.lock();
                match queue.frozen.front() {
                    Some(front) if !suffices(&queue) => front.clone(),
                    _ => return Ok(()),
                }
            };
            self.flush_one(&next)?;
        }
    }

    /// In manual background mode, does the most urgent job; returns `false` if there is none.
    pub fn run_background_job(&self) -> Result<bool> {
        self.check_writable()?;
        if !self.is_manual_background() {
            let message = "the store has background threads; run_one_job needs a store that was \
                           opened with background_threads=0";
            return Err(Error::invalid(message).with_path(&self.dir));
        }
        let waiting = self.queue.lock().frozen.len();
        if waiting > 0 {
            return self.flush_here(|queue| queue.frozen.len() < waiting).map(|()| true);
        }
        let _job = self.manual_job.lock();
        match self.pick(&Default::default()) {
            Some(plan) => self.compact(&plan).map(|_| true),
            None => Ok(false),
        }
    }

    /// Compacts all stored keys of `tree` between `lo` and `hi` down to the deepest level, guard by
    /// guard.
    pub fn compact_range(&self, tree: &Tree, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Result<()> {
        self.flush()?;
        let bar = self.block_compactions()?;
        let turn = self.is_manual_background().then(|| self.manual_job.lock());
        let inline_removal = purge_inline();
        let result = self.compact_manually(tree, lo, hi);
        drop((inline_removal, turn, bar));
        self.deliver_events();
        result.map(|merged| self.warm(&merged))
    }

    fn compact_manually(
        &self,
        tree: &Tree,
        lo: Option<&[u8]>,
        hi: Option<&[u8]>,
    ) -> Result<CompactionResult> {
        let view = self.read_state.load();
        // The caller of a manual compaction is about to read.
        let mut merged = CompactionResult { reads: READS_MIN, ..CompactionResult::default() };
        let Some(version) = view.version_of(tree.id).cloned() else { return Ok(merged) };
        drop(view);
        let mut limits = tree.limits(self.sizes.load().memtable_bytes);
        limits.rewrites_settled = self.has_filter(tree.id);
        for plan in crate::compaction::manual::plans(&version, &limits, lo, hi) {
            self.check_open()?;
            let plan = Plan { tree: tree.id, ..plan };
            merged.opened.extend(self.compact(&plan)?.opened);
        }
        // The merges may have left garbage in value files.
        while let Some(plan) = self.pick_for_values(&BusySet::default()) {
            self.check_open()?;
            merged.opened.extend(self.compact(&plan)?.opened);
        }
        Ok(merged)
    }
}

/// Guard: while it exists, running compactions give up their space.
struct SpaceWaiter<'a>(&'a DbInner);

impl Drop for SpaceWaiter<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().space_waiters -= 1;
        self.0.wake(JobClass::Compact);
    }
}
