//! Write path of an open store: throttle, commit, and the change to the next memtable and log.
//!
//! Lock rules: a write sleeps for the throttle without a lock, then commits with the writer state
//! locked ([`crate::write::commit`]). A full memtable is frozen under that lock: waiting for a free
//! memtable there stalls all writers, which is intended. `queue` and `read_state_change` are taken
//! inside of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::next_log::NEXT_LOG_FROM;
use super::state::{Frozen, Inner, Queue};
use crate::base::crew::{MAPPINGS_PER_THREAD, check_mappings};
use crate::base::sync::atomic::Ordering;
use crate::error::{Error, Result};
use crate::iter::hints::Hints;
use crate::memtable::Memtable;
use crate::metrics::Counters;
use crate::options::kinds::Durability;
use crate::read::View;
use crate::wal::LogWriter;
use crate::write::commit::LARGE_BYTES;
use crate::write::core::{Core, Surroundings};
use crate::write::pressure;

/// Maximum delay of one write by the debt throttle, in ns.
const SLOWED_NS_MAX: u64 = 50_000_000;
/// Number of range tombstones that makes a memtable full. The first reader after a `delete_range`
/// may build a set of all of them, which takes a few ms. A flush drops the entries that they cover.
const RANGE_DELETES_MAX: usize = 4096;

impl Inner {
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
        let durability = durability.unwrap_or_else(|| self.write_knobs.durability());
        let outcome = self.committer.commit(payload, count, user_bytes, durability, self).map(drop);
        if self.pace.hints_behind.load(Ordering::Relaxed) {
            self.wait_for_hints();
        }
        outcome
    }

    /// Commits an encoded batch if `condition` returns true. No other write is committed between
    /// the check and the commit.
    pub fn write_if(
        &self,
        payload: &[u8],
        count: u32,
        user_bytes: u64,
        condition: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        self.check_writable()?;
        self.throttle(payload.len() as u64);
        let durability = self.write_knobs.durability();
        self.committer.commit_if(payload, count, user_bytes, durability, self, condition)
    }

    /// Delays a write of `bytes` while flushes and compactions are behind.
    fn throttle(&self, bytes: u64) {
        if self.pace.is_crowded() {
            self.keep_pace(bytes);
        }
        self.slow_down(bytes);
    }

    /// Sleeps for the delay of the debt throttle, in portions that a timer can keep.
    #[inline]
    fn slow_down(&self, bytes: u64) {
        let debt = self.debt_bytes.load(Ordering::Relaxed);
        let limit = self.write_knobs.debt_limit_bytes.load(Ordering::Relaxed);
        if debt <= limit / 2 || self.stepped() {
            return;
        }
        // Limits the delay of one write, whatever its size.
        let delay = pressure::delay_ns(debt, limit, bytes).min(SLOWED_NS_MAX);
        let owed = self.owed_ns.fetch_add(delay, Ordering::Relaxed) + delay;
        if owed >= 500_000 {
            self.owed_ns.store(0, Ordering::Relaxed);
            crate::base::sync::thread::sleep(Duration::from_nanos(owed));
            self.counters.slowed_us.add(owed / 1000);
        }
    }

    /// Makes the memtable of `core` immutable and starts an empty one with its own log.
    pub fn freeze(&self, core: &mut Core) -> Result<()> {
        if let Some(error) = &core.poisoned {
            return Err(error.clone());
        }
        self.check_unbroken()?;
        core.guarded(|core| self.freeze_sound(core))
    }

    fn freeze_sound(&self, core: &mut Core) -> Result<()> {
        check_mappings(MAPPINGS_PER_THREAD)
            .map_err(|error| Error::no_mappings(&self.dir, "allocate another memtable", error))?;
        let log = self.continue_log(core)?;
        let kind = self.options.load().memtable_kind;
        let most_bytes = self.write_knobs.memtable_bytes.load(Ordering::Relaxed) as usize;
        let (order, pool) = (self.order.clone(), self.pool.clone());
        let fresh = Arc::new(Memtable::with_pool(kind, order, pool, most_bytes));
        let full = std::mem::replace(&mut core.memtable, fresh.clone());
        core.unlogged = false;
        core.next_log_asked = false;
        let logs_below = log.as_ref().map_or(0, LogWriter::number);
        let first_ordinal = log.as_ref().map_or(0, LogWriter::next_ordinal);
        if let Some(log) = log
            && let Some(old) = core.log.replace(log)
        {
            // The old log's marker is durable before anything in the next log is.
            core.unsynced_logs.push(old);
        }
        let flushed_below = self.flushed_below.load(Ordering::Acquire);
        let removed = core.unsynced_logs.extract_if(.., |log| log.number() < flushed_below);
        removed.for_each(|log| self.close_later(log));
        let mut queue = self.queue.lock();
        queue.frozen.push_back(Frozen { memtable: full.clone(), logs_below, first_ordinal });
        self.change_view(|view| {
            let mut frozen = Vec::with_capacity(view.frozen.len() + 1);
            frozen.push(full);
            frozen.extend(view.frozen.iter().cloned());
            View::new(fresh, frozen, view.version.clone())
        });
        self.note_crowd(queue.frozen.len());
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
            let mut core = self.committer.lock();
            let held = core.memtable.held_bytes();
            if held >= LARGE_BYTES && held as u64 + bytes > most {
                self.wait_for_memtable()?;
                self.with_room(|| self.freeze(&mut core))?;
            }
        }
        let fits = |queue: &Queue| {
            let frozen = queue.frozen.iter().map(|frozen| frozen.memtable.held_bytes() as u64);
            queue.frozen.is_empty() || frozen.sum::<u64>() + bytes <= most
        };
        self.wait_until_flushed(fits)
    }

    fn wait_for_memtable(&self) -> Result<()> {
        let most = self.options.load().frozen_memtables_max as usize;
        self.wait_until_flushed(|queue| queue.frozen.len() < most)
    }

    /// Waits for flushes until `enough` returns true. In manual background mode, does the flushes.
    fn wait_until_flushed(&self, enough: impl Fn(&Queue) -> bool) -> Result<()> {
        if self.stepped() {
            return self.flush_here(enough);
        }
        let mut queue = self.queue.lock();
        if enough(&queue) {
            return Ok(());
        }
        let began = Instant::now();
        while !enough(&queue) {
            if let Some(error) = queue.broken.as_ref().or(queue.flush_failed.as_ref()) {
                return Err(error.clone());
            }
            if queue.stop {
                return self.check_open();
            }
            self.idle.wait(&mut queue);
        }
        self.counters.stalled_us.add(began.elapsed().as_micros() as u64);
        Ok(())
    }
}

impl Surroundings for Inner {
    #[inline]
    fn make_room(&self, core: &mut Core) -> Result<()> {
        let full = core.log.as_ref().is_some_and(LogWriter::is_full);
        let full = full || core.memtable.range_delete_count() >= RANGE_DELETES_MAX;
        let most = self.write_knobs.memtable_bytes.load(Ordering::Relaxed);
        let used = core.memtable.memory_bytes() as u64;
        if !full && used < most {
            if used >= most / NEXT_LOG_FROM && !core.next_log_asked {
                core.next_log_asked = true;
                self.ask_for_next_log();
            }
            self.check_open()?;
            return self.check_unbroken();
        }
        self.check_open()?;
        self.check_unbroken()?;
        self.wait_for_memtable()?;
        self.with_room(|| self.freeze(core))
    }

    fn show_hints(&self, hints: Arc<Hints>) {
        Inner::show_hints(self, hints);
    }

    fn ask_for_hints(&self, sample: Vec<u8>) {
        Inner::ask_for_hints(self, sample);
    }

    fn close_log(&self, log: LogWriter) {
        self.close_later(log);
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
