//! The background work of a store whose runtime has the threads: one job for each call of a worker.
//!
//! A store without a runtime has threads of its own, which do the same work in loops
//! ([`super::background`]).
//!
//! Invariants:
//! * No short job waits for a lock that a writer can hold while it waits for a flush. Otherwise the
//!   workers could all wait for stores whose flushes need a worker.
//! * A job that syncs the log does not wait for a flush either, and so not for memtables that the
//!   opening recovered. It is done after them.
//! * A panic in a job ends the writes of its store, not the worker.
//! * A failed job is retried after [`RETRY_WAIT_MS`], or when a writer or a caller asks before.

use std::time::{Duration, Instant};

use super::background::RETRY_WAIT_MS;
use super::rest::RestStep;
use super::state::{DbInner, Queue};
use crate::base::panics::catch_panic;
use crate::base::sync::MutexGuard;
use crate::base::workers::{JobClass, Jobs, NextJob};
use crate::compaction::Plan;
use crate::tree::purge::purge_inline;

/// Time for which a job waits for the writer state, before it lets others go first.
const WRITER_WAIT: Duration = Duration::from_millis(2);
/// Time after which such a job is tried again.
const WRITER_RETRY: Duration = Duration::from_millis(20);

impl Jobs for DbInner {
    fn run(&self, class: JobClass) -> NextJob {
        if self.is_forked() {
            return NextJob::WhenAsked;
        }
        let job = || match class {
            JobClass::Short => self.short_job(),
            JobClass::Flush => self.flush_job(),
            JobClass::Compact => self.compact_job(),
            JobClass::Idle => self.idle_job(),
        };
        catch_panic(job).unwrap_or_else(|cause| {
            let name = match class {
                JobClass::Short => "short jobs",
                JobClass::Flush => "flushes",
                JobClass::Compact => "compactions",
                JobClass::Idle => "searches and scrub",
            };
            self.poison(name, &cause);
            NextJob::WhenAsked
        })
    }
}

/// Returns the earlier of two times.
fn earlier(next: NextJob, due: Option<Instant>) -> NextJob {
    match (next, due) {
        (NextJob::At(at), Some(due)) => NextJob::At(at.min(due)),
        (NextJob::WhenAsked, Some(due)) => NextJob::At(due),
        (next, _) => next,
    }
}

impl DbInner {
    /// Removes files, creates the next log, syncs the log, delivers events and publishes metrics,
    /// where that is due.
    fn short_job(&self) -> NextJob {
        self.deliver_events();
        if let Some(purger) = &self.purger {
            purger.remove_queued();
        }
        let (is_log_wanted, is_stopped) = {
            let queue = self.queue.lock();
            (queue.pending_wal.is_wanted() && !queue.is_stopped(), queue.stop)
        };
        if is_stopped {
            return NextJob::WhenAsked;
        }
        if is_log_wanted {
            self.preallocate_wal();
        }
        let next = self.sync_if_due();
        self.publish_status_if_due();
        earlier(next, self.observers.status.due())
    }

    /// Syncs the log, with `sync_every_ms`. Returns when it is due next.
    fn sync_if_due(&self) -> NextJob {
        let every = Duration::from_millis(self.options.load().sync_every_ms);
        let Some(share) = self.share.as_ref().filter(|_| !every.is_zero()) else {
            return NextJob::WhenAsked;
        };
        let mut due = share.sync_due.lock();
        let now = Instant::now();
        if let Some(due) = due.filter(|due| now < *due) {
            return NextJob::At(due.min(now + every));
        }
        let Some(mut writer) = self.committer.lock_by(now + WRITER_WAIT) else {
            return NextJob::At(Instant::now() + WRITER_RETRY);
        };
        if writer.recovered && self.queue.lock().recovered > 0 {
            // The sync would wait for their flush.
            drop(writer);
            self.wake(JobClass::Flush);
            return NextJob::At(Instant::now() + WRITER_RETRY);
        }
        // A failure poisons the log; the next write reports it.
        let synced = writer.sync_logs(self);
        drop(writer);
        let next = now + every;
        *due = Some(next);
        drop(due);
        if let Err(error) = synced {
            self.note_error("sync of the log", &error);
            self.deliver_events();
        }
        NextJob::At(next)
    }

    /// Flushes the oldest immutable memtables, or freezes the active ones where that is wanted.
    fn flush_job(&self) -> NextJob {
        let next = {
            let mut queue = self.queue.lock();
            if queue.is_stopped() {
                return NextJob::WhenAsked;
            }
            self.next_flush(&mut queue)
        };
        let Some(frozen) = next else {
            if self.seek_heavy_memtable().is_some() {
                self.freeze_if_seek_heavy();
                return NextJob::Now;
            }
            return self.freeze_for_others();
        };
        let outcome = self.retry_with_space(|| self.flush_one(&frozen));
        let is_failed = outcome.is_err();
        self.note_outcome(outcome, true);
        self.wake(JobClass::Compact);
        if is_failed { self.retry_later() } else { NextJob::Now }
    }

    /// Freezes the active memtables if the runtime needs their memory.
    fn freeze_for_others(&self) -> NextJob {
        let Some(account) = self.account().filter(|account| account.is_flush_wanted()) else {
            return NextJob::WhenAsked;
        };
        let Some(mut writer) = self.committer.try_lock() else {
            // The writer that holds the lock freezes them, or the next one.
            return NextJob::At(Instant::now() + WRITER_RETRY);
        };
        // The next writer meets the same error again and reports it.
        if writer.memtables.is_empty() || self.freeze(&mut writer).is_err() {
            account.decline_flush();
            return NextJob::WhenAsked;
        }
        NextJob::Now
    }

    /// Does the compaction that is due, or one of a store at rest.
    fn compact_job(&self) -> NextJob {
        let _inline = purge_inline();
        let (plan, is_more) = {
            let mut queue = self.queue.lock();
            if queue.is_stopped() {
                return NextJob::WhenAsked;
            }
            let is_free = !queue.exclusive && queue.space_waiters == 0;
            let Some(plan) = is_free.then(|| self.pick(&queue.busy)).flatten() else {
                self.idle.notify_all();
                return self.rest_job(queue);
            };
            queue.busy.insert(&plan);
            queue.running += 1;
            (plan, self.pick(&queue.busy).is_some())
        };
        if is_more {
            // Another worker may take it.
            self.wake(JobClass::Compact);
        }
        self.run_compaction(plan)
    }

    /// Does what a store without other compactions does at rest. The worker does not wait for the
    /// begin of the rest or for the expiry of tables: the job is due again at that time.
    fn rest_job(&self, queue: MutexGuard<'_, Queue>) -> NextJob {
        let (mut queue, step) = self.rest_step(queue);
        match step {
            RestStep::Compact(plan) => {
                queue.busy.insert(&plan);
                queue.running += 1;
                drop(queue);
                self.run_compaction(*plan)
            }
            RestStep::LookAgain => NextJob::Now,
            RestStep::Wait(begin) => {
                drop(queue);
                let due = begin.into_iter().chain(self.next_expiry()).min();
                due.map_or(NextJob::WhenAsked, NextJob::At)
            }
        }
    }

    /// Does a compaction that is in the list of running ones.
    fn run_compaction(&self, plan: Plan) -> NextJob {
        let (outcome, merged) = self.execute_picked(plan);
        let is_failed = outcome.is_err();
        let is_flush_failed = self.queue.lock().flush_failed.is_some();
        self.note_outcome(outcome, false);
        self.warm(&merged);
        if is_flush_failed {
            // The compaction may have freed space.
            self.wake(JobClass::Flush);
        }
        if is_failed { self.retry_later() } else { NextJob::Now }
    }

    fn retry_later(&self) -> NextJob {
        NextJob::At(Instant::now() + Duration::from_millis(RETRY_WAIT_MS))
    }

    /// Searches for empty ranges, or scrubs a table.
    fn idle_job(&self) -> NextJob {
        let is_stopped = self.queue.lock().is_stopped();
        if is_stopped {
            return NextJob::WhenAsked;
        }
        if self.search_next_hint() {
            return NextJob::Now;
        }
        match &self.share {
            Some(share) => self.scrub_some(&mut share.scrub.lock()),
            None => NextJob::WhenAsked,
        }
    }
}
