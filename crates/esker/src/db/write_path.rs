//! Write path of an open store: throttle, commit, and the change to the next memtable and log.
//!
//! Lock rules: a write sleeps for the throttle without a lock, then commits with the writer state
//! locked ([`crate::write::commit`]). A full memtable is frozen under that lock: waiting for a free
//! memtable there stalls all writers, which is intended. `queue` and `read_state_change` are taken
//! inside of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pending_wal::NEXT_LOG_FROM;
use super::stall_list::StallCause;
use super::state::{DbInner, Frozen, NextLog, Queue};
use super::write_throttle::PACED_MIN;
use crate::base::keyspace::TreeId;
use crate::base::sync::atomic::Ordering;
use crate::base::thread_group::{MAPPINGS_PER_THREAD, check_mappings};
use crate::base::workers::JobClass;
use crate::error::{Error, Result};
use crate::iter::hints::Hints;
use crate::metrics::Counters;
use crate::options::kinds::Durability;
use crate::perf;
use crate::txn::footprint::Footprint;
use crate::wal::LogWriter;
use crate::write::commit::LARGE_BYTES;
use crate::write::writer_state::{CommitHooks, WriterState};

/// Number of range tombstones that makes a memtable full. The first reader after a `delete_range`
/// may build a set of all of them, which takes a few ms. A flush drops the entries that they cover.
const RANGE_DELETES_MAX: usize = 4096;

impl DbInner {
    /// Commits an encoded batch.
    pub fn write(
        &self,
        payload: &[u8],
        count: u32,
        user_bytes: u64,
        durability: Option<Durability>,
    ) -> Result<()> {
        self.write_by(payload, count, user_bytes, durability, None)
    }

    /// Commits an encoded batch, unless it would have to wait after `deadline`.
    pub fn write_by(
        &self,
        payload: &[u8],
        count: u32,
        user_bytes: u64,
        durability: Option<Durability>,
        deadline: Option<Instant>,
    ) -> Result<()> {
        self.check_writable()?;
        if count == 0 {
            return Ok(());
        }
        self.throttle(payload.len() as u64, deadline)?;
        let durability = durability.unwrap_or_else(|| self.write_params.durability());
        let committed =
            self.committer.commit(payload, count, user_bytes, durability, deadline, self);
        let outcome = committed.map(drop);
        if let Err(error) = &outcome {
            self.note_write_error(error);
        }
        self.feed.wake();
        self.deliver_events();
        outcome
    }

    /// Commits an encoded batch of a transaction if `check` finds no conflict.
    pub fn write_checked(
        &self,
        payload: &[u8],
        count: u32,
        user_bytes: u64,
        durability: Option<Durability>,
        check: &Arc<Footprint>,
    ) -> Result<()> {
        self.check_writable()?;
        self.throttle(payload.len() as u64, None)?;
        let durability = durability.unwrap_or_else(|| self.write_params.durability());
        let batch = (payload, count, user_bytes);
        let outcome = self.committer.commit_checked(batch, durability, check, self).map(drop);
        if let Err(error) = &outcome {
            self.note_write_error(error);
        }
        self.feed.wake();
        self.deliver_events();
        outcome
    }

    /// Commits an encoded batch if `condition` returns true. No other write is committed between
    /// the check and the commit.
    pub fn write_if(
        &self,
        payload: &[u8],
        count: u32,
        user_bytes: u64,
        durability: Option<Durability>,
        condition: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        self.check_writable()?;
        self.throttle(payload.len() as u64, None)?;
        let durability = durability.unwrap_or_else(|| self.write_params.durability());
        let outcome =
            self.committer.commit_if(payload, count, user_bytes, durability, self, condition);
        self.feed.wake();
        self.deliver_events();
        outcome
    }

    /// Commits the one operation that `make` encodes, unless `make` returns `None`. `make` returns
    /// the bytes of its key and value. No other write is committed between `make` and the commit.
    /// Returns whether there was an operation.
    pub fn write_made(
        &self,
        bytes: u64,
        make: impl FnOnce(&mut Vec<u8>) -> Result<Option<u64>>,
    ) -> Result<bool> {
        self.check_writable()?;
        self.throttle(bytes, None)?;
        let outcome = self.committer.commit_made(self.write_params.durability(), self, make);
        if let Err(error) = &outcome {
            self.note_write_error(error);
        }
        self.feed.wake();
        self.deliver_events();
        outcome
    }

    /// Delays a write of `bytes` while flushes and compactions are behind.
    ///
    /// # Errors
    /// `Busy` when the delay would end after `deadline`. The delay then ends at the deadline.
    #[inline]
    fn throttle(&self, bytes: u64, deadline: Option<Instant>) -> Result<()> {
        if self.write_throttle.is_near_stall() {
            self.delay_near_stall(bytes, deadline)?;
        }
        self.slow_down(bytes, deadline)
    }

    /// Sleeps while the active memtable fills so fast that its room would not last until the flush
    /// ends.
    ///
    /// # Errors
    /// `Busy` when the delay would end after `deadline`, or the error of the flush if it has failed.
    #[cold]
    fn delay_near_stall(&self, bytes: u64, deadline: Option<Instant>) -> Result<()> {
        let Some(written) = self.write_throttle.count_unpaced(bytes) else { return Ok(()) };
        let now = Instant::now();
        let full = self.write_params.memtable_bytes.load(Ordering::Relaxed);
        let room = full.saturating_sub(self.read_state.load().active_bytes());
        let due = self.write_throttle.due(now, written, room, full);
        let is_due_later = due.saturating_duration_since(now) > PACED_MIN;
        let end = deadline.map_or(due, |deadline| due.min(deadline));
        if is_due_later {
            self.begin_slowdown();
        }
        self.write_throttle.sleep_until(end);
        self.note_slowed(now.elapsed());
        let missed = is_due_later && end < due;
        if !missed || !self.write_throttle.is_near_stall() {
            return Ok(());
        }
        // The wait would be for a flush that fails.
        if let Some(error) = self.queue.lock().flush_failed.clone() {
            return Err(error);
        }
        self.slowdown().map_or(Ok(()), |slowdown| Err(self.busy(&slowdown)))
    }

    /// Counts a delay of a writer.
    fn note_slowed(&self, duration: Duration) {
        self.counters.slowed_us.add(duration.as_micros() as u64);
        perf::count(|counts| counts.throttle_ns += perf::nanos(duration));
    }

    /// Records whether the next full memtable would make writers wait. The queue is locked.
    pub fn update_near_stall(&self, frozen: usize) {
        let most = self.options.load().frozen_memtables_max as usize;
        self.write_throttle.set_near_stall(!self.is_manual_background() && frozen >= most);
    }

    /// Sleeps for the delay that the compaction debt requires. Short delays add up over several
    /// writes and are slept at once.
    #[inline]
    fn slow_down(&self, bytes: u64, deadline: Option<Instant>) -> Result<()> {
        let debt = self.debt_bytes.load(Ordering::Relaxed);
        let limit = self.write_params.debt_limit_bytes.load(Ordering::Relaxed);
        if debt <= limit / 2 || self.is_manual_background() {
            return Ok(());
        }
        let Some((own, owed)) = self.write_throttle.add_delay(debt, limit, bytes) else {
            return Ok(());
        };
        self.begin_slowdown();
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let slept = left.map_or(owed, |left| left.min(owed));
        crate::base::sync::thread::sleep(slept);
        self.note_slowed(slept);
        if slept == owed {
            return Ok(());
        }
        let Some(slowdown) = self.slowdown() else { return Ok(()) };
        // The delay of earlier writes is still owed, that of this write is not.
        self.write_throttle.owe(owed.saturating_sub(slept + own));
        Err(self.busy(&slowdown))
    }

    /// Makes the memtables of `writer` immutable and starts empty ones with a log of their own.
    pub fn freeze(&self, writer: &mut WriterState) -> Result<()> {
        if let Some(error) = &writer.poisoned {
            return Err(error.clone());
        }
        self.check_unbroken()?;
        writer.poison_on_panic(|writer| self.freeze_unpoisoned(writer))
    }

    fn freeze_unpoisoned(&self, writer: &mut WriterState) -> Result<()> {
        check_mappings(MAPPINGS_PER_THREAD)
            .map_err(|error| Error::mapping_limit(&self.dir, "allocate another memtable", error))?;
        let log = self.continue_log(writer)?;
        let full_bytes = writer.memtables.memory_bytes() as u64;
        let fresh = self.fresh_memtables(full_bytes);
        let full = std::mem::replace(&mut writer.memtables, fresh.clone());
        writer.others_bytes = 0;
        writer.unlogged = false;
        writer.next_log_requested = false;
        let next_log = NextLog {
            number: log.as_ref().map_or(0, LogWriter::number),
            first_ordinal: log.as_ref().map_or(0, LogWriter::next_ordinal),
        };
        if let Some(log) = log
            && let Some(old) = writer.log.replace(log)
        {
            // The old log's marker is durable before anything in the next log is.
            writer.unsynced_logs.push(old);
        }
        let flushed_below = self.flushed_below.load(Ordering::Acquire);
        let removed = writer.unsynced_logs.extract_if(.., |log| log.number() < flushed_below);
        removed.for_each(|log| self.close_in_background(log));
        let mut queue = self.queue.lock();
        queue.frozen.push_back(Frozen { memtables: full, next_log: Some(next_log) });
        self.replace_read_state(|view| view.after_freeze(&fresh));
        self.update_near_stall(queue.frozen.len());
        if let Some(account) = self.account() {
            account.note_freeze(queue.frozen_bytes());
        }
        drop(queue);
        self.refresh_debt();
        self.wake(JobClass::Flush);
        Ok(())
    }

    /// Waits until the immutable memtables leave room for `bytes` in half of the memory budget, or
    /// until none is left: one value may exceed all of it. Freezes the active memtable where
    /// `bytes` would not fit beside it.
    ///
    /// # Errors
    /// `Busy` when there is no room until `deadline`.
    pub fn wait_for_room(&self, bytes: u64, deadline: Option<Instant>) -> Result<()> {
        self.check_writable()?;
        let most = self.sizes.load().memory_budget_bytes / 2;
        {
            let mut writer = match deadline {
                None => self.committer.lock(),
                Some(end) => {
                    self.committer.lock_by(end).ok_or_else(|| self.busy_behind_writers())?
                }
            };
            let held = writer.memtables.data_bytes();
            if held >= LARGE_BYTES && held as u64 + bytes > most {
                self.wait_for_memtable(deadline)?;
                self.retry_with_space(|| self.freeze(&mut writer))?;
            }
        }
        let fits = |queue: &Queue| {
            let frozen = queue.frozen.iter().map(|frozen| frozen.memtables.data_bytes() as u64);
            queue.frozen.is_empty() || frozen.sum::<u64>() + bytes <= most
        };
        let cause = StallCause::Flush("a large write needs the memory of immutable memtables");
        let waited = self.wait_until_flushed(cause, deadline, fits);
        self.deliver_events();
        waited
    }

    fn wait_for_memtable(&self, deadline: Option<Instant>) -> Result<()> {
        let most = self.options.load().frozen_memtables_max as usize;
        let text = "every memtable is full, and `frozen_memtables_max` of them wait for a flush";
        let cause = StallCause::Flush(text);
        self.wait_until_flushed(cause, deadline, |queue| queue.frozen.len() < most)
    }

    /// Waits for flushes until `enough` returns true, because of `cause`. In manual background
    /// mode, does the flushes, whatever the deadline.
    ///
    /// # Errors
    /// The error of a failed flush; `Closed`; `Busy` when `deadline` comes first.
    fn wait_until_flushed(
        &self,
        cause: StallCause,
        deadline: Option<Instant>,
        enough: impl Fn(&Queue) -> bool,
    ) -> Result<()> {
        if self.is_manual_background() {
            return self.flush_here(enough);
        }
        let mut queue = self.queue.lock();
        if enough(&queue) {
            return Ok(());
        }
        let is_late = || deadline.is_some_and(|end| end <= Instant::now());
        if is_late() && queue.flush_failed.is_none() && !queue.is_stopped() {
            return Err(self.busy_before_flush(cause, &queue));
        }
        let stall = self.begin_stall(cause, &mut queue);
        let waited = loop {
            if enough(&queue) {
                break Ok(());
            }
            if let Some(error) = queue.broken.as_ref().or(queue.flush_failed.as_ref()) {
                break Err(error.clone());
            }
            if queue.stop {
                break self.check_open();
            }
            match deadline {
                None => self.idle.wait(&mut queue),
                Some(_) if is_late() => break Err(self.busy_before_flush(cause, &queue)),
                Some(end) => self.idle.wait_until(&mut queue, end),
            }
        };
        self.end_stall(stall, &mut queue);
        waited
    }
}

impl CommitHooks for DbInner {
    #[inline]
    fn make_room(&self, writer: &mut WriterState, deadline: Option<Instant>) -> Result<()> {
        let full = writer.log.as_ref().is_some_and(LogWriter::is_full);
        let full = full || writer.memtables.range_deletes_max() >= RANGE_DELETES_MAX;
        let most = self.write_params.memtable_bytes.load(Ordering::Relaxed);
        let used = writer.memtables.main.memory_bytes() as u64 + writer.others_bytes;
        if let Some(account) = self.account() {
            let is_new = self.keep_to_runtime_memory(account, writer, used, deadline)?;
            if is_new {
                self.check_open()?;
                return self.check_unbroken();
            }
        }
        if !full && used < most {
            if used >= most / NEXT_LOG_FROM && !writer.next_log_requested {
                writer.next_log_requested = true;
                self.request_wal();
            }
            self.check_open()?;
            return self.check_unbroken();
        }
        self.check_open()?;
        self.check_unbroken()?;
        self.wait_for_memtable(deadline)?;
        self.retry_with_space(|| self.freeze(writer))
    }

    fn missed_deadline(&self) -> Error {
        self.busy_behind_writers()
    }

    fn check_syncs(&self) -> Result<()> {
        if self.feed.has_failed_sync() { self.check_unbroken() } else { Ok(()) }
    }

    fn publish_hints(&self, tree: TreeId, hints: Arc<Hints>) {
        DbInner::publish_hints(self, tree, hints);
    }

    fn request_hint_search(&self, sample: Vec<u8>) {
        DbInner::request_hint_search(self, sample);
    }

    fn close_log(&self, log: LogWriter) {
        self.close_in_background(log);
    }

    fn wait_recovered(&self, deadline: Option<Instant>) -> Result<()> {
        let text = "the first sync waits for the memtables that the opening recovered";
        self.wait_until_flushed(StallCause::Flush(text), deadline, |queue| queue.recovered == 0)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
