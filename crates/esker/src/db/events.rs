//! Where events of the store are made, and when they are delivered.
//!
//! [`DbInner::emit`] only adds an event to a list, and may be called with locks held.
//! [`DbInner::deliver_events`] calls the listeners. It is called where no lock is held: by the
//! threads of the store between two jobs, and at the end of calls.
//!
//! Invariants:
//! 1. A job delivers only in a store with threads. In manual background mode its caller may hold
//!    the writer state or `manual_job`, and the call delivers at its end.
//! 2. A failure of an observer changes nothing in the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::background::CompactionResult;
use super::created_tables::CreatedTable;
use super::replay::Replayed;
use super::state::{DbInner, Frozen, Queue};
use crate::base::sync::MutexGuard;
use crate::compaction::Plan;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;

impl DbInner {
    /// Adds an event for the listeners, if there are any. Locks may be held.
    #[inline]
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        self.observers.listeners.push(event);
    }

    /// Calls the listeners with the events so far. The caller holds no lock.
    #[inline]
    pub fn deliver_events(&self) {
        self.observers.listeners.deliver();
    }

    /// Delivers the events at the begin of a job, where its caller is known to hold no lock. Those
    /// of its end are delivered later: now writers may wait for this thread to report it.
    fn deliver_in_job(&self) {
        if !self.is_manual_background() {
            self.deliver_events();
        }
    }

    /// Publishes the metrics after a job in manual background mode, in which no thread does.
    fn publish_in_manual_job(&self) {
        if self.is_manual_background() {
            self.publish_status_if_due();
        }
    }

    /// Adds an event for an error of `job`, unless an equal one was reported lately.
    #[cold]
    pub fn note_error(&self, job: &str, error: &Error) {
        let listeners = &self.observers.listeners;
        if !listeners.is_empty() && self.observers.is_new_error(job, error) {
            self.emit(|| Event::BackgroundError { job: job.to_string(), error: error.clone() });
        }
    }

    /// Adds an event for the error of a write that was not the fault of its caller.
    #[cold]
    pub fn note_write_error(&self, error: &Error) {
        use ErrorKind::{Busy, Closed, Conflict, Deadlock, InvalidArgument};
        if !matches!(error.kind(), InvalidArgument | Closed | Conflict | Busy | Deadlock) {
            self.note_error("write", error);
        }
    }

    /// Flushes immutable memtables to tables of level 0.
    pub fn flush_one(&self, frozen: &Frozen) -> Result<()> {
        let (job, began) = (self.observers.next_job(), Instant::now());
        let memory_bytes = frozen.memtables.memory_bytes() as u64;
        self.emit(|| Event::FlushBegan { job, memory_bytes });
        self.deliver_in_job();
        let flushed = self.flush_memtables(frozen);
        let ended = |created: &[CreatedTable], error: Option<&Error>| Event::FlushEnded {
            job,
            memory_bytes,
            tables: created.len() as u64,
            written_bytes: created.iter().map(|table| table.size_bytes).sum(),
            duration: began.elapsed(),
            error: error.cloned(),
        };
        let outcome = match flushed {
            Ok(created) => {
                self.emit(|| ended(&created, None));
                Ok(())
            }
            Err(error) => {
                self.emit(|| ended(&[], Some(&error)));
                self.note_error("flush", &error);
                Err(error)
            }
        };
        self.publish_in_manual_job();
        outcome
    }

    /// Runs a plan and installs its output.
    pub(super) fn compact(&self, plan: &Plan) -> Result<CompactionResult> {
        let (job, began) = (self.observers.next_job(), Instant::now());
        let (tree, level, output_level, reason) =
            (plan.tree, plan.level, plan.output_level, plan.reason);
        let (inputs, input_bytes) = (plan.inputs.len() as u64, plan.est_bytes);
        self.emit(|| Event::CompactionBegan {
            job,
            tree,
            level,
            output_level,
            reason,
            inputs,
            input_bytes,
        });
        self.deliver_in_job();
        let outcome = self.run_plan(plan);
        let ended = |done: &CompactionResult, error: Option<&Error>| Event::CompactionEnded {
            job,
            tree,
            level,
            output_level,
            reason,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            tables: done.tables,
            duration: began.elapsed(),
            error: error.cloned(),
        };
        match &outcome {
            Ok(done) => self.emit(|| ended(done, None)),
            Err(error) => {
                self.emit(|| ended(&CompactionResult::default(), Some(error)));
                if error.kind() != ErrorKind::Closed {
                    self.note_error("compaction", error);
                }
            }
        }
        self.publish_in_manual_job();
        outcome
    }

    /// Adds the events of new tables. The caller holds the lock of the versions: another compaction
    /// removes none of these tables before.
    pub(super) fn emit_created(&self, created: &[CreatedTable]) {
        for table in created {
            let CreatedTable { tree, level, number, size_bytes } = *table;
            self.emit(|| Event::TableCreated { tree, level, number, size_bytes });
        }
    }

    /// Waits for work of a background thread. Before that, delivers events and publishes the
    /// metrics where that is due. The flush thread wakes up for each publication, and the others
    /// only while it flushes. Waits until `end` at the latest.
    pub(super) fn wait_for_work<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        is_flush_thread: bool,
        end: Option<Instant>,
    ) -> MutexGuard<'a, Queue> {
        if self.observers.listeners.needs_delivery() {
            drop(queue);
            self.deliver_events();
            return self.queue.lock();
        }
        let is_publisher = is_flush_thread || !queue.frozen.is_empty();
        let now = Instant::now();
        let next_expiry = if is_flush_thread { None } else { self.next_expiry() };
        let publish = self.observers.status.due().filter(|_| is_publisher);
        if publish.is_some_and(|due| due <= now) {
            drop(queue);
            self.publish_status_if_due();
            return self.queue.lock();
        }
        match [publish, end, next_expiry].into_iter().flatten().min() {
            None => self.work.wait(&mut queue),
            Some(due) => self.work.wait_until(&mut queue, due),
        }
        queue
    }

    /// Publishes the metrics in the file `STATUS`, if it is time.
    pub(super) fn publish_status_if_due(&self) {
        if self.observers.status.take_turn() {
            self.publish_status();
        }
    }

    fn publish_status(&self) {
        let began = Instant::now();
        let metrics = self.metrics();
        self.observers.status.publish(metrics, began.elapsed());
    }

    /// Announces that the store is open, with what recovery found. The opening took `duration`.
    pub(super) fn announce_open(&self, replayed: &Replayed, duration: Duration) {
        self.emit(|| {
            let files = self.read_state.load().files();
            Event::Opened {
                read_only: self.read_only,
                options: self.options.load().changed(),
                tables: files.len() as u64,
                table_bytes: files.iter().map(|file| file.info.size_bytes).sum(),
                logs: replayed.logs as u64,
                is_closed_cleanly: replayed.closed,
                duration,
            }
        });
        for note in &self.notes {
            self.emit(|| Event::RecoveryNote { note: note.clone() });
        }
        self.deliver_events();
        // A thread of the store may have taken the turn without having published yet. The file is
        // there when the opening returns.
        if self.observers.status.take_turn() || self.observers.status.awaits_first() {
            self.publish_status();
        }
    }

    /// Announces that an opening failed after the recovery.
    pub(super) fn announce_failed_open(&self, error: &Error) {
        self.note_error("opening", error);
        self.announce_close(&Ok(()));
    }

    /// Announces the close of the store, and ends the observers. The store still holds its lock.
    pub(super) fn announce_close(&self, closed: &Result<()>) {
        self.emit(|| Event::Closed { error: closed.as_ref().err().cloned() });
        self.deliver_events();
        self.observers.status.end();
        if let Some(log) = &self.observers.info_log {
            log.end();
        }
    }

    /// Makes the purger report each removed table.
    pub(super) fn watch_removals(&self) {
        if let Some(purger) = &self.purger {
            let listeners = Arc::clone(&self.observers.listeners);
            purger.set_observer(Box::new(move |number| {
                listeners.push(|| Event::TableRemoved { number });
            }));
        }
    }
}
