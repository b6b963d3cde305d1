//! Write stalls: what a waiting write is told, and what others are told about it.
//!
//! Every wait of a write has an end: the flush that it waits for, the error of that flush, the
//! close of the store, or the deadline of the write. A wait for the memory of a runtime also ends
//! when only stores with failing flushes hold it. No wait depends on a snapshot, on an iterator or
//! on a compaction. A wait for the throttle has a fixed maximum.
//!
//! Invariants: a stall is in the queue's list from [`DbInner::begin_stall`] to
//! [`DbInner::end_stall`]. A slowdown is announced when it first delays a writer. It has ended when the
//! debt is computed and there is no reason left, or when the store closes.

use std::time::Instant;

use super::Db;
use super::stall_list::{RunningStall, StallCause};
use super::state::{DbInner, Queue};
use crate::base::sync::atomic::Ordering;
use crate::base::workers::JobClass;
use crate::error::{Error, ErrorKind};
use crate::observe::{Event, Stall};
use crate::perf;

/// A write stall, from [`DbInner::begin_stall`] to [`DbInner::end_stall`].
pub(super) struct StallTicket {
    number: u64,
    bytes: u64,
    clears: String,
    cause: StallCause,
    began: Instant,
}

impl Queue {
    /// Returns the bytes of memory of the immutable memtables.
    pub(super) fn frozen_bytes(&self) -> u64 {
        self.frozen.iter().map(|frozen| frozen.memtables.memory_bytes() as u64).sum()
    }

    /// Returns what ends a wait for a flush.
    fn flush_outlook(&self) -> String {
        match (&self.flush_failed, self.is_flushing) {
            (_, true) => "the running flush ends the wait".to_string(),
            (Some(error), false) => {
                format!("the next attempt of the flush ends the wait; the last one failed: {error}")
            }
            (None, false) => "a flush, which is about to begin, ends the wait".to_string(),
        }
    }

    /// Describes a wait for flushes.
    fn describe(&self, cause: StallCause, began: Instant, is_stopped: bool) -> Stall {
        let (bytes, clears) = match cause {
            StallCause::Flush(_) => (self.frozen_bytes(), self.flush_outlook()),
            StallCause::RuntimeMemory(bytes) => {
                let clears = "flushes of the largest memtables of these stores end the wait, in \
                              the order in which the writers came";
                (bytes, clears.to_string())
            }
        };
        let (cause, duration) = (cause.text().to_string(), began.elapsed());
        Stall { cause, bytes, clears, duration, is_stopped }
    }
}

impl Db {
    /// Returns why writes wait now, how many bytes have to be written before they go on, and what
    /// ends the wait; `None` when writes run at full speed. Of several stalls, returns the oldest.
    /// Costs a lock that is held briefly.
    ///
    /// A write with a [deadline](crate::WriteOptions::deadline) that waits for the same cause
    /// returns an error with the same sentence.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// if let Some(stall) = db.stall() {
    ///     eprintln!("writes have waited for {:?}: {stall}", stall.duration);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stall(&self) -> Option<Stall> {
        self.inner.stall()
    }
}

impl DbInner {
    /// Returns the oldest stall, or else the slowdown by the throttle.
    pub fn stall(&self) -> Option<Stall> {
        if self.is_forked() {
            return None;
        }
        let queue = self.queue.lock();
        if let Some(running) = queue.stalls.list.first() {
            return Some(queue.describe(running.cause, running.began, true));
        }
        drop(queue);
        self.slowdown()
    }

    /// Returns the slowdown by the throttle that is in force now.
    pub(super) fn slowdown(&self) -> Option<Stall> {
        let near_since = self.write_throttle.near_stall_since();
        if let Some(since) = near_since.filter(|_| self.write_throttle.is_near_stall()) {
            let cause = "`frozen_memtables_max` memtables wait for a flush, so writes are slowed \
                         to the rate of the flush";
            return Some(self.queue.lock().describe(StallCause::Flush(cause), since, false));
        }
        let bytes = self.debt_bytes.load(Ordering::Relaxed);
        let limit = self.write_params.debt_limit_bytes.load(Ordering::Relaxed);
        if bytes <= limit / 2 || self.is_manual_background() {
            return None;
        }
        let (cause, bytes) = if self.space_bound.debt_bytes() >= bytes {
            let cause = "the tables exceed `space_amplification_max`, so writes are slowed";
            (cause, self.space_bound.surplus_bytes())
        } else {
            ("the compaction debt is over half of `debt_limit_bytes`, so writes are slowed", bytes)
        };
        Some(Stall {
            cause: cause.to_string(),
            bytes,
            clears: "compactions end the slowdown".to_string(),
            duration: self.write_throttle.indebted_for(),
            is_stopped: false,
        })
    }

    /// Returns the error of a write whose deadline has passed while it waited for `stall`.
    pub(super) fn busy(&self, stall: &Stall) -> Error {
        let message =
            format!("the deadline of the write has passed, and nothing was written: {stall}");
        Error::new(ErrorKind::Busy, message).with_path(&self.dir)
    }

    /// Returns the error of a write whose deadline has passed while it waited for other writers.
    pub(super) fn busy_behind_writers(&self) -> Error {
        match self.stall() {
            Some(stall) => self.busy(&stall),
            None => {
                let message = "the deadline of the write has passed, and nothing was written: \
                               other writers hold the lock of the log; the write that they do now \
                               ends the wait";
                Error::new(ErrorKind::Busy, message).with_path(&self.dir)
            }
        }
    }

    /// Returns the error of a write that would wait for a flush because of `cause`.
    pub(super) fn busy_before_flush(&self, cause: StallCause, queue: &Queue) -> Error {
        self.busy(&queue.describe(cause, Instant::now(), true))
    }

    /// Records that a writer begins to wait for flushes. Wakes a thread that delivers the event:
    /// the writer itself holds the writer state.
    pub(super) fn begin_stall(&self, cause: StallCause, queue: &mut Queue) -> StallTicket {
        let (number, began) = (queue.stalls.next, Instant::now());
        queue.stalls.next += 1;
        queue.stalls.list.push(RunningStall { number, cause, began });
        let Stall { bytes, clears, .. } = queue.describe(cause, began, true);
        let text = cause.text();
        self.emit(|| {
            let (cause, clears) = (text.to_string(), clears.clone());
            Event::StallBegan { cause, bytes, clears, is_stopped: true }
        });
        self.wake_for_listeners();
        StallTicket { number, bytes, clears, cause, began }
    }

    /// Records that the writer goes on, or has failed.
    pub(super) fn end_stall(&self, stall: StallTicket, queue: &mut Queue) {
        let StallTicket { number, bytes, clears, cause, began } = stall;
        queue.stalls.list.retain(|running| running.number != number);
        let duration = began.elapsed();
        self.counters.stalled_us.add(duration.as_micros() as u64);
        perf::count(|counts| counts.stall_ns += perf::nanos(duration));
        let cause = cause.text().to_string();
        self.emit(|| Event::StallEnded { cause, bytes, clears, duration, is_stopped: true });
    }

    /// Wakes a thread that delivers events, if there is a listener.
    pub(super) fn wake_for_listeners(&self) {
        if !self.observers.listeners.is_empty() {
            self.wake(JobClass::Short);
        }
    }

    /// Announces the slowdown that has just delayed a writer, once until it ends. No lock is held.
    pub(super) fn begin_slowdown(&self) {
        if self.write_throttle.is_announced() {
            return;
        }
        // Without bytes the reason has ended since the writer looked.
        let Some(slowdown) = self.slowdown().filter(|slowdown| slowdown.bytes > 0) else { return };
        let is_told = self.write_throttle.announce(&slowdown, || {
            let Stall { cause, bytes, clears, .. } = slowdown.clone();
            self.emit(|| Event::StallBegan { cause, bytes, clears, is_stopped: false });
        });
        if is_told {
            self.wake_for_listeners();
            // It may have ended before it was announced.
            self.end_slowdown_if_over();
        }
    }

    /// Announces the end of an announced slowdown, unless writers are still slowed.
    pub(super) fn end_slowdown_if_over(&self) {
        let throttle = &self.write_throttle;
        let limit = self.write_params.debt_limit_bytes.load(Ordering::Relaxed);
        let is_indebted = self.debt_bytes.load(Ordering::Relaxed) > limit / 2;
        if throttle.is_announced() && !throttle.is_near_stall() && !is_indebted {
            self.end_slowdown();
        }
    }

    /// Announces the end of an announced slowdown.
    pub(super) fn end_slowdown(&self) {
        self.write_throttle.end_announced(|slowdown, began| {
            let Stall { cause, bytes, clears, .. } = slowdown;
            let duration = began.elapsed();
            self.emit(|| Event::StallEnded { cause, bytes, clears, duration, is_stopped: false });
        });
    }
}
