//! Write path of an open store: throttle, commit, and the change to the next memtable and log.
//!
//! Lock rules: a write sleeps for the throttle without a lock, then commits with the writer state
//! locked ([`crate::write::commit`]). A full memtable is frozen under that lock: waiting for a free
//! memtable there stalls all writers, which is intended. `queue` and `read_state_change` are taken
//! inside of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pending_wal::NEXT_LOG_FROM;
use super::state::{DbInner, Frozen, NextLog, Queue};
use super::write_throttle::{PACED_MIN, SLEEP};
use crate::base::sync::atomic::Ordering;
use crate::base::thread_group::{MAPPINGS_PER_THREAD, check_mappings};
use crate::error::{Error, Result};
use crate::iter::hints::Hints;
use crate::metrics::Counters;
use crate::options::kinds::Durability;
use crate::perf;
use crate::txn::footprint::Footprint;
use crate::wal::LogWriter;
use crate::write::commit::LARGE_BYTES;
use crate::write::pressure;
use crate::write::writer_state::{CommitHooks, WriterState};

/// Maximum delay of one write by the debt throttle, in ns.
const SLOWED_NS_MAX: u64 = 50_000_000;
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
        self.check_writable()?;
        if count == 0 {
            return Ok(());
        }
        self.throttle(payload.len() as u64);
        let durability = durability.unwrap_or_else(|| self.write_params.durability());
        let outcome = self.committer.commit(payload, count, user_bytes, durability, self).map(drop);
        if let Err(error) = &outcome {
            self.note_write_error(error);
        }
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
        self.throttle(payload.len() as u64);
        let durability = durability.unwrap_or_else(|| self.write_params.durability());
        let batch = (payload, count, user_bytes);
        let outcome = self.committer.commit_checked(batch, durability, check, self).map(drop);
        if let Err(error) = &outcome {
            self.note_write_error(error);
        }
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
        self.throttle(payload.len() as u64);
        let durability = durability.unwrap_or_else(|| self.write_params.durability());
        let outcome =
            self.committer.commit_if(payload, count, user_bytes, durability, self, condition);
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
        self.throttle(bytes);
        let outcome = self.committer.commit_made(self.write_params.durability(), self, make);
        if let Err(error) = &outcome {
            self.note_write_error(error);
        }
        self.deliver_events();
        outcome
    }

    /// Delays a write of `bytes` while flushes and compactions are behind.
    fn throttle(&self, bytes: u64) {
        if self.write_throttle.is_near_stall() {
            self.delay_near_stall(bytes);
        }
        self.slow_down(bytes);
    }

    /// Throttles the writer: sleeps while the active memtable fills so fast that its room would not
    /// last until the flush ends.
    #[cold]
    pub(super) fn delay_near_stall(&self, bytes: u64) {
        let written = self.write_throttle.unpaced_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if written < pressure::PACE_BYTES {
            return;
        }
        let written = self.write_throttle.unpaced_bytes.swap(0, Ordering::Relaxed);
        if written < pressure::PACE_BYTES {
            // Another writer was faster and has counted these bytes.
            self.write_throttle.unpaced_bytes.fetch_add(written, Ordering::Relaxed);
            return;
        }
        let now = Instant::now();
        let full = self.write_params.memtable_bytes.load(Ordering::Relaxed);
        let room = full.saturating_sub(self.read_state.load().active_bytes());
        let due = self.write_throttle.due(now, written, room, full);
        let mut left = due.saturating_duration_since(now);
        // The sleep ends early when the flush does.
        while left > PACED_MIN && self.write_throttle.is_near_stall() {
            crate::base::sync::thread::sleep(left.min(SLEEP));
            left = due.saturating_duration_since(Instant::now());
        }
        self.note_slowed(now.elapsed());
    }

    /// Counts a delay of a writer.
    pub(super) fn note_slowed(&self, duration: Duration) {
        self.counters.slowed_us.add(duration.as_micros() as u64);
        perf::count(|counts| counts.throttle_ns += perf::nanos(duration));
    }

    /// Records whether the next full memtable would make writers wait. The queue is locked.
    pub fn update_near_stall(&self, frozen: usize) {
        let near = !self.is_manual_background()
            && frozen >= self.options.load().frozen_memtables_max as usize;
        if !near {
            let mut times = self.write_throttle.times.lock();
            (times.due, times.room_bytes) = (None, None);
        }
        self.write_throttle.near_stall.store(near, Ordering::Relaxed);
    }

    /// Sleeps for the delay of the debt throttle, in portions that a timer can keep.
    #[inline]
    fn slow_down(&self, bytes: u64) {
        let debt = self.debt_bytes.load(Ordering::Relaxed);
        let limit = self.write_params.debt_limit_bytes.load(Ordering::Relaxed);
        if debt <= limit / 2 || self.is_manual_background() {
            return;
        }
        // Limits the delay of one write, whatever its size.
        let delay = pressure::delay_ns(debt, limit, bytes).min(SLOWED_NS_MAX);
        let owed = self.pending_delay_ns.fetch_add(delay, Ordering::Relaxed) + delay;
        if owed >= 500_000 {
            self.pending_delay_ns.store(0, Ordering::Relaxed);
            crate::base::sync::thread::sleep(Duration::from_nanos(owed));
            self.note_slowed(Duration::from_nanos(owed));
        }
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
        let fresh = self.fresh_memtables();
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
        drop(queue);
        self.refresh_debt();
        self.work.notify_all();
        Ok(())
    }

    /// Waits until the immutable memtables leave room for `bytes` in half of the memory budget, or
    /// until none is left: one value may exceed all of it. Freezes the active memtable where
    /// `bytes` would not fit beside it.
    pub fn wait_for_room(&self, bytes: u64) -> Result<()> {
        self.check_writable()?;
        let most = self.sizes.load().memory_budget_bytes / 2;
        {
            let mut writer = self.committer.lock();
            let held = writer.memtables.data_bytes();
            if held >= LARGE_BYTES && held as u64 + bytes > most {
                self.wait_for_memtable()?;
                self.retry_with_space(|| self.freeze(&mut writer))?;
            }
        }
        let fits = |queue: &Queue| {
            let frozen = queue.frozen.iter().map(|frozen| frozen.memtables.data_bytes() as u64);
            queue.frozen.is_empty() || frozen.sum::<u64>() + bytes <= most
        };
        let waited =
            self.wait_until_flushed("a large write needs the memory of immutable memtables", fits);
        self.deliver_events();
        waited
    }

    fn wait_for_memtable(&self) -> Result<()> {
        let most = self.options.load().frozen_memtables_max as usize;
        let cause = "every memtable is full, and `frozen_memtables_max` of them wait for a flush";
        self.wait_until_flushed(cause, |queue| queue.frozen.len() < most)
    }

    /// Waits for flushes until `enough` returns true, because of `cause`. In manual background
    /// mode, does the flushes.
    fn wait_until_flushed(
        &self,
        cause: &'static str,
        enough: impl Fn(&Queue) -> bool,
    ) -> Result<()> {
        if self.is_manual_background() {
            return self.flush_here(enough);
        }
        let mut queue = self.queue.lock();
        if enough(&queue) {
            return Ok(());
        }
        let stall = self.begin_stall(cause, &queue);
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
            self.idle.wait(&mut queue);
        };
        self.end_stall(stall);
        waited
    }
}

impl CommitHooks for DbInner {
    #[inline]
    fn make_room(&self, writer: &mut WriterState) -> Result<()> {
        let full = writer.log.as_ref().is_some_and(LogWriter::is_full);
        let full = full || writer.memtables.range_deletes_max() >= RANGE_DELETES_MAX;
        let most = self.write_params.memtable_bytes.load(Ordering::Relaxed);
        let used = writer.memtables.main.memory_bytes() as u64 + writer.others_bytes;
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
        self.wait_for_memtable()?;
        self.retry_with_space(|| self.freeze(writer))
    }

    fn publish_hints(&self, hints: Arc<Hints>) {
        DbInner::publish_hints(self, hints);
    }

    fn request_hint_search(&self, sample: Vec<u8>) {
        DbInner::request_hint_search(self, sample);
    }

    fn close_log(&self, log: LogWriter) {
        self.close_in_background(log);
    }

    fn wait_recovered(&self) -> Result<()> {
        self.wait_for_recovered_memtables()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
