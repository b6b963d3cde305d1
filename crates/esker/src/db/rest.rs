//! The rest of a store: when it begins, what it does, and when it ends.
//!
//! A store that was not written for some time flushes its memtable, if that is worth a table, and then
//! merges its runs with [`pick_rest`](crate::compaction::rest::pick_rest), one key range at a time.
//! For stores that are written in bursts and read in between: their reads become as fast as after a
//! manual compaction.
//!
//! Invariants:
//! * A rest begins only while no flush and no compaction runs or is due, and while the pressure on
//!   processors and devices is low. Between two compactions it pauses while the pressure on processors
//!   is high; that on devices may be its own. Its compactions stop for a write, a flush, a caller that
//!   compacts or needs space, and the close. What a stopped compaction has written is lost.
//! * Rest compactions write no more than their allowance ([`super::rest_state`]).
//! * An idle store that has finished its rest wakes no thread.
//! * No caller waits for a rest compaction, and none sees its error.

use std::time::{Duration, Instant};

use super::background::CompactionResult;
use super::rest_state::{Period, RestState};
use super::state::{DbInner, Queue};
use crate::base::key::SeqNo;
use crate::base::sync::MutexGuard;
use crate::base::sync::atomic::Ordering;
use crate::compaction::job::STOP_CHECK_BYTES;
use crate::compaction::rest::{pick_rest, unmerged_bytes};
use crate::compaction::{Plan, TreeLimits};
use crate::error::{ErrorKind, Result};
use crate::fs::processor::pressure_percent;
use crate::observe::Event;
use crate::tree::version::Version;

/// A rest flushes a memtable that is full to this part (one sixteenth) at least.
const FLUSHED_PART: u64 = 16;

/// Why a rest stopped.
const NOTHING_LEFT: &str = "nothing is left to merge";
const ALLOWANCE_USED: &str = "more would write more than flushes wrote";
const INTERRUPTED: &str = "a write or other work came";
const BUSY: &str = "other programs need the processors";
const FAILED: &str = "a compaction failed";

/// What a compaction thread without other work does.
pub(super) enum RestStep {
    /// A compaction.
    Compact(Box<Plan>),
    /// It looks for work again.
    LookAgain,
    /// It waits for work, at most until this time.
    Wait(Option<Instant>),
}

/// What a rest did with the memtables.
enum RestFreeze {
    /// It froze them, and a flush is due.
    Frozen,
    /// They are not worth a table, or the device refused the new log.
    NotWorthIt,
    /// A writer holds the commit lock or has written since: the store is not at rest.
    WriterAtWork,
}

impl DbInner {
    fn rest_wait(&self) -> Duration {
        Duration::from_millis(self.options.load().thresholds.rest_wait_ms)
    }

    fn is_rest_allowed(&self) -> bool {
        let options = self.options.load();
        // Under the scheduler of the schedule tests a wait is one step, so the rest would never end.
        options.rest_compaction && options.auto_compaction && !cfg!(esker_shuttle)
    }

    /// Returns what a compaction thread, or a worker of the runtime, does that found no other work.
    pub(super) fn rest_step<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
    ) -> (MutexGuard<'a, Queue>, RestStep) {
        let is_busy = queue.running > 0
            || !queue.frozen.is_empty()
            || queue.exclusive
            || queue.space_waiters > 0
            || queue.rest.is_watched;
        // Whoever ends that work wakes this thread.
        if is_busy || !self.is_rest_allowed() {
            return (queue, RestStep::Wait(None));
        }
        let (now, wait, seqno) = (Instant::now(), self.rest_wait(), self.visible_seqno());
        match queue.rest.poll(now, seqno, wait) {
            RestState::Finished => return (queue, RestStep::Wait(None)),
            RestState::NotBefore(begin) => {
                self.end_rest_period(&mut queue, INTERRUPTED);
                return (queue, RestStep::Wait(Some(begin)));
            }
            RestState::Resting => {}
        }
        let is_machine_busy = self.is_machine_busy(queue.rest.period.is_some());
        if queue.rest.flush_tried_at != Some(seqno) {
            drop(queue);
            let freeze = self.freeze_at_rest(seqno, is_machine_busy);
            queue = self.queue.lock();
            match freeze {
                RestFreeze::Frozen => return (queue, RestStep::LookAgain),
                // Its write may be too small to wake a thread, so this one looks again.
                RestFreeze::WriterAtWork => {
                    self.postpone_rest(&mut queue, now, INTERRUPTED);
                    return (queue, RestStep::Wait(Some(now + wait)));
                }
                RestFreeze::NotWorthIt if is_machine_busy => {}
                RestFreeze::NotWorthIt => {
                    queue.rest.flush_tried_at = Some(seqno);
                    return (queue, RestStep::LookAgain);
                }
            }
        }
        if is_machine_busy {
            self.postpone_rest(&mut queue, now, BUSY);
            return (queue, RestStep::Wait(Some(now + wait)));
        }
        if queue.rest.period.is_none() {
            let files = self.read_state.load().files();
            let table_bytes = files.iter().map(|file| file.info.size_bytes).sum();
            queue.rest.begin(table_bytes, || self.unmerged_bytes());
        }
        match self.pick_rest(&queue, queue.rest.allowance_bytes) {
            Some(plan) => {
                let period = Period { began: now, compactions: 0, written_bytes: 0 };
                queue.rest.period.get_or_insert(period);
                queue.resting += 1;
                queue.rest.merged_bytes = 0;
                (queue, RestStep::Compact(Box::new(plan)))
            }
            None => {
                let is_done = self.pick_rest(&queue, u64::MAX).is_none();
                queue.rest.finished_at = Some(seqno);
                self.end_rest_period(
                    &mut queue,
                    if is_done { NOTHING_LEFT } else { ALLOWANCE_USED },
                );
                (queue, RestStep::LookAgain)
            }
        }
    }

    /// Waits for work of a compaction thread, until `begin` at the latest.
    pub(super) fn wait_for_work_or_rest<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        begin: Option<Instant>,
    ) -> MutexGuard<'a, Queue> {
        queue.rest.is_watched |= begin.is_some();
        let mut queue = self.wait_for_work(queue, false, begin);
        if begin.is_some() {
            queue.rest.is_watched = false;
        }
        queue
    }

    /// Returns whether other programs need the machine. A rest that has begun (`is_resting`) may itself
    /// be what waits for the device, but it has one thread.
    fn is_machine_busy(&self, is_resting: bool) -> bool {
        let thresholds = &self.options.load().thresholds;
        let most = thresholds.rest_pressure_max_percent;
        let resources: &[&str] = if is_resting { &["cpu"] } else { &["cpu", "io"] };
        most < 100 && pressure_percent(thresholds.pressure_dir, resources) > most
    }

    /// Freezes the memtables if they are worth a table and no write came since `seqno`. While the
    /// machine is busy only range tombstones are worth one: they take few bytes and may free many.
    /// Does not wait for the commit lock, whose holder is a writer.
    fn freeze_at_rest(&self, seqno: SeqNo, is_machine_busy: bool) -> RestFreeze {
        let Some(mut writer) = self.committer.try_lock() else { return RestFreeze::WriterAtWork };
        if writer.next_seqno != seqno + 1 {
            return RestFreeze::WriterAtWork;
        }
        let full = self.write_params.memtable_bytes.load(Ordering::Relaxed);
        let least = self.options.load().thresholds.seek_flush_bytes_min as u64;
        let is_large = writer.memtables.data_bytes() as u64 >= least.max(full / FLUSHED_PART);
        let is_worth = writer.memtables.range_deletes_max() > 0 || (is_large && !is_machine_busy);
        // This freeze is only advice: a write meets the same error again and reports it.
        let is_frozen = is_worth && self.freeze(&mut writer).is_ok();
        if is_frozen { RestFreeze::Frozen } else { RestFreeze::NotWorthIt }
    }

    /// Calls `visit` with the version of each tree and its limits, until it returns something.
    fn in_trees<R>(
        &self,
        mut visit: impl FnMut(u32, &Version, &TreeLimits) -> Option<R>,
    ) -> Option<R> {
        let view = self.read_state.load();
        let memtable_bytes = self.sizes.load().memtable_bytes;
        self.trees().iter().find_map(|tree| {
            let version = view.version_of(tree.id)?;
            visit(tree.id, version, &tree.limits(memtable_bytes))
        })
    }

    /// Returns the next rest compaction with inputs of at most `allowance_bytes`.
    fn pick_rest(&self, queue: &Queue, allowance_bytes: u64) -> Option<Plan> {
        self.in_trees(|tree, version, limits| {
            let plan = pick_rest(version, limits, &queue.busy, allowance_bytes)?;
            Some(Plan { tree, ..plan })
        })
    }

    /// Returns the bytes of all trees that wait for a merge.
    fn unmerged_bytes(&self) -> u64 {
        let mut bytes = 0;
        self.in_trees(|_, version, limits| {
            bytes += unmerged_bytes(version, limits);
            None::<()>
        });
        bytes
    }

    /// Returns whether the running rest compaction, which has merged another
    /// [`STOP_CHECK_BYTES`], must give way.
    pub(super) fn must_end_rest(&self, queue: &mut Queue) -> bool {
        queue.rest.merged_bytes += STOP_CHECK_BYTES as u64;
        let is_written = queue.rest.seen.is_none_or(|(seen, _)| seen != self.visible_seqno());
        is_written || !queue.frozen.is_empty() || queue.exclusive || !self.is_rest_allowed()
    }

    /// Records the end of a rest compaction. Its failure ends the rest until the next write.
    pub(super) fn end_rest_compaction(
        &self,
        queue: &mut Queue,
        plan: &Plan,
        outcome: Result<CompactionResult>,
    ) -> CompactionResult {
        queue.resting -= 1;
        match outcome {
            Ok(done) => {
                self.counters.rest_compactions.add(1);
                self.counters.rest_bytes.add(done.written_bytes);
                queue.rest.charge(done.written_bytes);
                if let Some(period) = &mut queue.rest.period {
                    period.compactions += 1;
                    period.written_bytes += done.written_bytes;
                }
                done
            }
            Err(error) => {
                let lost_bytes = plan.est_bytes.min(queue.rest.merged_bytes);
                queue.rest.charge(lost_bytes);
                if error.kind() == ErrorKind::Closed {
                    queue.rest.postpone(Instant::now());
                    self.end_rest_period(queue, INTERRUPTED);
                } else {
                    queue.rest.finished_at = queue.rest.seen.map(|(seqno, _)| seqno);
                    self.end_rest_period(queue, FAILED);
                }
                CompactionResult::default()
            }
        }
    }

    /// Starts the wait for a rest again, and ends the present one.
    fn postpone_rest(&self, queue: &mut Queue, now: Instant, cause: &'static str) {
        queue.rest.postpone(now);
        self.end_rest_period(queue, cause);
    }

    /// Ends the present rest, if it has begun.
    fn end_rest_period(&self, queue: &mut Queue, cause: &'static str) {
        let Some(period) = queue.rest.period.take() else { return };
        let Period { began, compactions, written_bytes } = period;
        self.emit(|| Event::RestEnded {
            compactions,
            written_bytes,
            duration: began.elapsed(),
            cause,
        });
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::thresholds::Thresholds;
    use crate::db::Db;
    use crate::fs::MemFs;
    use crate::options::Options;
    use crate::options::kinds::{Compression, Policy};

    fn key(n: u32) -> [u8; 4] {
        (n * 7919 % 4_000).to_be_bytes()
    }

    /// Returns a store without threads, with `rounds` versions of 4,000 pairs, of which some keys are
    /// deleted, and without compactions that are due.
    fn overwritten(policy: Policy, rounds: u32, l0_runs_max: u64) -> Db {
        let options = Options {
            policy,
            l0_runs_max,
            background_threads: Some(0),
            memtable_size_bytes: Some(128 << 10),
            file_size_max_bytes: 64 << 10,
            guard_size_max_bytes: 128 << 10,
            guard_piece_min_bytes: 16 << 10,
            compression: Compression::None,
            // It would merge what a rest shall merge.
            space_amplification_max: None,
            log_file: false,
            status_file: false,
            ..Options::default()
        };
        let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
        for round in 0..rounds {
            for n in 0..4_000 {
                db.put(key(n), [round as u8; 60]).unwrap();
            }
        }
        (0..400).for_each(|n| db.delete(key(n)).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db
    }

    fn content(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
        db.iter().unwrap().map(|pair| pair.unwrap()).collect()
    }

    #[test]
    fn rest_makes_one_run_and_writes_at_most_live_bytes() {
        for policy in Policy::ALL {
            let db = overwritten(*policy, 3, 4);
            let (inner, before) = (&db.inner, content(&db));
            let unmerged = inner.unmerged_bytes();
            let (mut written, mut plans) = (0, 0);
            let queue = || inner.queue.lock();
            while let Some(plan) = inner.pick_rest(&queue(), u64::MAX) {
                // Within a rest nothing was written.
                queue().rest.seen = Some((inner.visible_seqno(), Instant::now()));
                written += inner.compact(&plan).unwrap().written_bytes;
                plans += 1;
                let due = inner.pick(&queue().busy);
                assert!(due.is_none_or(|due| due.est_bytes == 0), "{policy:?}");
                while inner.run_background_job().unwrap() {}
            }
            assert_eq!(inner.unmerged_bytes(), 0, "{policy:?}");
            assert_eq!(content(&db), before, "{policy:?}");
            let live = db.metrics().table_bytes;
            assert!(written <= live, "{policy:?}: {written} of {live}");
            assert!(plans > 1 || unmerged == 0, "{policy:?}: {plans}, {unmerged}");
            let runs = db.metrics().levels.iter().map(|level| level.runs_max).max();
            assert_eq!(runs, Some(1), "{policy:?}");
            assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
        }
    }

    #[test]
    fn rest_without_work_leaves_the_allowance_to_later_rests() {
        let db = overwritten(Policy::Fluid, 1, 1_000);
        let thresholds = Thresholds { rest_wait_ms: 0, ..Thresholds::small() };
        let mut options = (**db.inner.options.load()).clone();
        options.thresholds = thresholds;
        db.inner.options.store(Arc::new(options));
        let inner = &db.inner;
        let allowance = || inner.queue.lock().rest.allowance_bytes;
        db.compact_range(None, None).unwrap();
        let flushed = allowance();
        assert!(flushed > 0);
        let steps = (0..10).map(|_| inner.rest_step(inner.queue.lock()).1);
        assert!(!steps.into_iter().any(|step| matches!(step, RestStep::Compact(_))));
        assert_eq!(inner.queue.lock().rest.finished_at, Some(inner.visible_seqno()));
        // A rest may not write more than the tables have.
        let kept = allowance();
        assert!(kept > 0 && kept == flushed.min(db.metrics().table_bytes));
        (0..4_000).for_each(|n| db.put(key(n), [9; 60]).unwrap());
        db.flush().unwrap();
        let more = allowance();
        assert!(more > kept);
        let plan = inner.pick_rest(&inner.queue.lock(), more);
        assert!(plan.is_some(), "the run that was there before can be merged, too");
    }

    #[test]
    fn write_stops_rest_compaction_and_changes_nothing() {
        let db = overwritten(Policy::Tiered, 12, 1_000);
        let inner = &db.inner;
        // One plan for all, large enough for several checks.
        db.set_options(&[("file_size_max_bytes", "16MiB")]).unwrap();
        let plan = inner.pick_rest(&inner.queue.lock(), u64::MAX).unwrap();
        let (before, tables) = (content(&db), db.tables());
        inner.queue.lock().rest.seen = Some((inner.visible_seqno(), Instant::now()));
        inner.queue.lock().resting = 1;
        db.put("a", "write").unwrap();
        let outcome = inner.compact(&plan);
        assert_eq!(outcome.as_ref().map(drop).unwrap_err().kind(), ErrorKind::Closed);
        let queue = &mut inner.queue.lock();
        queue.rest.allowance_bytes = STOP_CHECK_BYTES as u64 + 1;
        inner.end_rest_compaction(queue, &plan, outcome);
        assert_eq!((queue.resting, queue.rest.allowance_bytes), (0, 1));
        assert_eq!(queue.rest.finished_at, None);
        assert_eq!(db.tables(), tables);
        assert_eq!(content(&db).len(), before.len() + 1);
        assert_eq!(db.metrics().rest_compactions, 0);
    }
}
