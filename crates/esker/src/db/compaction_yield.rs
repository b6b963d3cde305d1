//! Compaction yield: compactions give way to readers where CPUs are short.
//!
//! An automatic compaction that shares a CPU with readers yields for about as long, in total, as it
//! would take itself. How long the readers will continue is not known. Delaying a job by as long as
//! it takes costs at most twice the optimum with foresight (Karlin, Manasse, Rudolph and Sleator,
//! "Competitive snoopy caching", 1988).
//!
//! Invariants:
//! * A job yields for at most [`YIELD_MS_PER_MIB`] per MiB that it reads, plus one sleep, each time
//!   it is started.
//! * No sleep begins while the debt is over two thirds of the value that slows writers, or over
//!   [`DEBT_MEMTABLES`] memtables, or while a caller waits for the compaction.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::state::DbInner;
use crate::base::sync::atomic::Ordering;
use crate::base::workers::JobClass;
use crate::compaction::{Plan, Urgency};
use crate::fs::processor::ProcessorWait;

/// Maximum yield time of a job, in ms per MiB that it reads: about as long as merging one MiB takes
/// on a CPU shared with readers.
const YIELD_MS_PER_MIB: u64 = 16;
/// Length of the first sleep, in which a job that was kept waiting checks for readers.
const PROBE: Duration = Duration::from_millis(2);
/// Minimum time until the next check after a check that found no readers.
const PROBE_AGAIN: Duration = Duration::from_millis(50);
/// Maximum length of one yield. After it the job continues until it is kept waiting again.
const YIELD_MAX: Duration = Duration::from_millis(60);
/// Length of each later sleep. The conditions are checked again after each sleep.
const SLEEP: Duration = Duration::from_millis(10);
/// Minimum number of cache lookups per millisecond of a sleep that justify the yield. Compactions
/// and readers that leave no trace in the cache statistics are not counted.
const LOOKUPS_PER_MS: u64 = 100;
/// CPU wait, in addition to a fifth of the elapsed time, that does not yet count as kept waiting.
const WAITED_MIN: Duration = Duration::from_micros(200);
/// A job yields only while the debt is at most its limit divided by this. Writers are slowed from
/// half of the limit on.
const DEBT_PART: u64 = 3;
/// A job yields only while the debt is at most this many memtable sizes.
const DEBT_MEMTABLES: u64 = 8;

/// The remaining yield time of a job, and the state of its last check.
pub(super) struct CompactionYield {
    left: Duration,
    checked_at: Instant,
    /// The thread's CPU wait at the last check.
    waited: Duration,
    probe_after: Instant,
    wait: Option<ProcessorWait>,
}

/// The load that decides whether a job yields.
trait Load {
    fn now(&self) -> Instant;
    /// Returns the number of cache lookups so far.
    fn lookups(&self) -> u64;
    /// Returns whether the compaction is urgent and must not yield.
    fn is_urgent_now(&self) -> bool;
    fn sleep(&self, length: Duration);
}

impl CompactionYield {
    /// Returns whether this thread was kept waiting for a CPU since the last check. `waited` is
    /// its total CPU wait so far.
    fn was_kept_waiting(&mut self, now: Instant, waited: Duration) -> bool {
        let took = now.saturating_duration_since(self.checked_at);
        let since = waited.saturating_sub(self.waited);
        (self.checked_at, self.waited) = (now, waited);
        since > took / 5 + WAITED_MIN
    }

    /// Yields if this job should. `waited` is the job's total CPU wait so far. Returns the part of
    /// the yield during which there were readers.
    fn poll(&mut self, load: &impl Load, waited: Duration) -> Duration {
        let kept = self.was_kept_waiting(load.now(), waited);
        if !kept || self.left.is_zero() || self.checked_at < self.probe_after {
            return Duration::ZERO;
        }
        let (began, most) = (self.checked_at, YIELD_MAX.min(self.left));
        let (mut slept, mut yielded, mut sleep_length) = (Duration::ZERO, Duration::ZERO, PROBE);
        while slept < most && !load.is_urgent_now() {
            let (lookups, before) = (load.lookups(), slept);
            load.sleep(sleep_length);
            slept = load.now().saturating_duration_since(began);
            let length_ms = slept.saturating_sub(before).as_millis() as u64;
            if load.lookups().saturating_sub(lookups) < length_ms * LOOKUPS_PER_MS {
                self.probe_after = began + slept + PROBE_AGAIN;
                break;
            }
            (yielded, sleep_length) = (slept, SLEEP);
        }
        self.left = self.left.saturating_sub(slept);
        self.checked_at = load.now();
        yielded
    }
}

impl Load for DbInner {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn lookups(&self) -> u64 {
        let stats = self.cache.stats();
        stats.hits + stats.misses
    }

    fn is_urgent_now(&self) -> bool {
        let params = &self.write_params;
        let part = params.debt_limit_bytes.load(Ordering::Relaxed) / DEBT_PART;
        let most = part.min(params.memtable_bytes.load(Ordering::Relaxed) * DEBT_MEMTABLES);
        if self.debt_bytes.load(Ordering::Relaxed) > most {
            return true;
        }
        if self.member().is_some_and(|member| member.do_others_wait(JobClass::Compact)) {
            return true;
        }
        // Immutable memtables are not checked: their flush needs a CPU and no compaction, and they
        // already count as debt.
        let queue = self.queue.lock();
        queue.stop || queue.idle_waiters > 0 || queue.exclusive || queue.space_waiters > 0
    }

    fn sleep(&self, length: Duration) {
        crate::base::sync::thread::sleep(length);
    }
}

impl DbInner {
    /// Creates the yield state for a job of the calling thread.
    pub(super) fn new_compaction_yield(&self, plan: &Plan) -> RefCell<CompactionYield> {
        // Under shuttle the scheduler picks the thread, so the clock says nothing about waiting.
        let urgent = plan.urgency == Urgency::Urgent;
        let never = urgent || self.is_manual_background() || cfg!(esker_shuttle);
        let left = Duration::from_millis((plan.est_bytes >> 20) * YIELD_MS_PER_MIB);
        let wait = (!never && !left.is_zero()).then(ProcessorWait::of_this_thread);
        let waited = wait.as_ref().and_then(ProcessorWait::waited).unwrap_or_default();
        let checked_at = self.now();
        RefCell::new(CompactionYield { left, checked_at, waited, probe_after: checked_at, wait })
    }

    /// Yields if the job of `job_yield` should.
    pub(super) fn yield_to_readers(&self, job_yield: &RefCell<CompactionYield>) {
        let mut job_yield = job_yield.borrow_mut();
        if let Some(waited) = job_yield.wait.as_ref().and_then(ProcessorWait::waited) {
            let yielded = job_yield.poll(self, waited);
            self.counters.yielded_us.add(yielded.as_micros() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A job on a machine where time passes only when the test says so.
    struct Simulated {
        began: Instant,
        now_us: Cell<u64>,
        /// CPU wait, in µs per millisecond of work.
        waits_us: u64,
        /// Device wait, in µs per millisecond of work.
        reads_us: u64,
        lookups_per_ms: u64,
        /// The time at which the readers stop.
        readers_until_us: u64,
        lookups: Cell<u64>,
        urgent_from_us: u64,
    }

    impl Simulated {
        fn new(waits_us: u64, lookups_per_ms: u64) -> Simulated {
            Simulated {
                began: Instant::now(),
                now_us: Cell::new(0),
                waits_us,
                reads_us: 0,
                lookups_per_ms,
                readers_until_us: u64::MAX,
                lookups: Cell::new(0),
                urgent_from_us: u64::MAX,
            }
        }

        fn pass(&self, us: u64) {
            let read_us = us.min(self.readers_until_us.saturating_sub(self.now_us.get()));
            self.now_us.set(self.now_us.get() + us);
            self.lookups.set(self.lookups.get() + read_us * self.lookups_per_ms / 1000);
        }

        /// Works for `ms` and checks every 4 ms; returns the total yield with readers.
        fn work(&self, ms: u64, mib: u64) -> Duration {
            let (left, checked_at) = (Duration::from_millis(mib * YIELD_MS_PER_MIB), self.now());
            let zero = Duration::ZERO;
            let mut job_yield = CompactionYield {
                left,
                checked_at,
                waited: zero,
                probe_after: checked_at,
                wait: None,
            };
            let mut yielded = zero;
            for check in 1..=ms / 4 {
                self.pass(4_000 + 4 * self.reads_us);
                yielded += job_yield.poll(self, Duration::from_micros(check * 4 * self.waits_us));
            }
            yielded
        }
    }

    impl Load for Simulated {
        fn now(&self) -> Instant {
            self.began + Duration::from_micros(self.now_us.get())
        }

        fn lookups(&self) -> u64 {
            self.lookups.get()
        }

        fn is_urgent_now(&self) -> bool {
            self.now_us.get() >= self.urgent_from_us
        }

        fn sleep(&self, length: Duration) {
            self.pass(length.as_micros() as u64);
        }
    }

    #[test]
    fn job_yields_to_readers_within_its_budget() {
        let yielded = Simulated::new(400, 500).work(1_000, 100);
        let most = Duration::from_millis(100 * YIELD_MS_PER_MIB);
        assert!((most..=most + SLEEP).contains(&yielded), "{yielded:?}");
        // As long as much yield time is left, the readers get most of the time.
        let machine = Simulated::new(400, 500);
        machine.work(100, 1 << 20);
        assert!(machine.now_us.get() > 1_000_000, "{} us", machine.now_us.get());
        // A job without yield time does not yield.
        assert_eq!(Simulated::new(400, 500).work(1_000, 0), Duration::ZERO);
    }

    #[test]
    fn no_yield_with_idle_cpu_or_without_readers() {
        assert_eq!(Simulated::new(0, 500).work(1_000, 100), Duration::ZERO);
        assert_eq!(Simulated::new(200, 500).work(1_000, 100), Duration::ZERO);
        // Waiting for a device is not waiting for a CPU.
        let mut machine = Simulated::new(0, 500);
        machine.reads_us = 2_000;
        assert_eq!(machine.work(1_000, 100), Duration::ZERO);
        // A job kept waiting by other threads than readers checks for readers now and then.
        let machine = Simulated::new(400, LOOKUPS_PER_MS / 2);
        assert_eq!(machine.work(1_000, 100), Duration::ZERO);
        assert!(
            (1_010_000..1_060_000).contains(&machine.now_us.get()),
            "{} us",
            machine.now_us.get()
        );
    }

    #[test]
    fn yield_ends_when_readers_stop_or_compaction_is_urgent() {
        let mut machine = Simulated::new(400, 500);
        machine.readers_until_us = 34_000;
        let yielded = machine.work(40, 100);
        assert!((20..40).contains(&yielded.as_millis()), "{yielded:?}");
        let mut machine = Simulated::new(400, 500);
        machine.urgent_from_us = 34_000;
        let yielded = machine.work(1_000, 100);
        assert!((20..50).contains(&yielded.as_millis()), "{yielded:?}");
        machine.urgent_from_us = 0;
        assert_eq!(machine.work(1_000, 100), Duration::ZERO);
    }
}
