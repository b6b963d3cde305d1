//! Compaction yield: compactions give way to readers where CPUs are short.
//!
//! An automatic compaction that shares a CPU with readers yields for about as long, in total, as it
//! would take itself. How long the readers will continue is not known. Delaying a job by as long as
//! it takes costs at most twice the optimum with foresight (Karlin, Manasse, Rudolph and Sleator,
//! "Competitive snoopy caching", 1988).
//!
//! Invariants:
//! * A job yields for at most [`REST_MS_PER_MIB`] per MiB that it reads, plus one sleep, each time
//!   it is started.
//! * No sleep begins while the debt is over two thirds of the value that slows writers, or over
//!   [`DEBT_MEMTABLES`] memtables, or while a caller waits for the compaction.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::state::DbInner;
use crate::base::sync::atomic::Ordering;
use crate::compaction::Plan;
use crate::fs::processor::ProcessorWait;

/// Maximum yield time of a job, in ms per MiB that it reads: about as long as merging one MiB takes
/// on a CPU shared with readers.
const REST_MS_PER_MIB: u64 = 16;
/// Length of the first sleep, in which a job that was kept waiting checks for readers.
const PROBE: Duration = Duration::from_millis(2);
/// Minimum time until the next check after a check that found no readers.
const PROBE_AGAIN: Duration = Duration::from_millis(50);
/// Maximum length of one yield. After it the job continues until it is kept waiting again.
const REST: Duration = Duration::from_millis(60);
/// Length of each later sleep. The conditions are checked again after each sleep.
const SLEEP: Duration = Duration::from_millis(10);
/// Minimum number of cache lookups per millisecond of a sleep that justify the yield. Compactions
/// and readers that leave no trace in the cache statistics are not counted.
const LOOKS_PER_MS: u64 = 100;
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
    looked: Instant,
    /// The thread's CPU wait at the last check.
    waited: Duration,
    probe_after: Instant,
    wait: Option<ProcessorWait>,
}

/// The load that decides whether a job yields.
trait Load {
    fn now(&self) -> Instant;
    /// Returns the number of cache lookups so far.
    fn looks(&self) -> u64;
    /// Returns whether the compaction is urgent and must not yield.
    fn is_pressed(&self) -> bool;
    fn sleep(&self, length: Duration);
}

impl CompactionYield {
    /// Returns whether this thread was kept waiting for a CPU since the last check. `waited` is
    /// its total CPU wait so far.
    fn was_kept_waiting(&mut self, now: Instant, waited: Duration) -> bool {
        let took = now.saturating_duration_since(self.looked);
        let since = waited.saturating_sub(self.waited);
        (self.looked, self.waited) = (now, waited);
        since > took / 5 + WAITED_MIN
    }

    /// Yields if this job should. `waited` is the job's total CPU wait so far. Returns the part of
    /// the yield during which there were readers.
    fn poll(&mut self, world: &impl Load, waited: Duration) -> Duration {
        let kept = self.was_kept_waiting(world.now(), waited);
        if !kept || self.left.is_zero() || self.looked < self.probe_after {
            return Duration::ZERO;
        }
        let (began, most) = (self.looked, REST.min(self.left));
        let (mut slept, mut rested, mut nap) = (Duration::ZERO, Duration::ZERO, PROBE);
        while slept < most && !world.is_pressed() {
            let (looks, before) = (world.looks(), slept);
            world.sleep(nap);
            slept = world.now().saturating_duration_since(began);
            let length_ms = slept.saturating_sub(before).as_millis() as u64;
            if world.looks().saturating_sub(looks) < length_ms * LOOKS_PER_MS {
                self.probe_after = began + slept + PROBE_AGAIN;
                break;
            }
            (rested, nap) = (slept, SLEEP);
        }
        self.left = self.left.saturating_sub(slept);
        self.looked = world.now();
        rested
    }
}

impl Load for DbInner {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn looks(&self) -> u64 {
        let stats = self.cache.stats();
        stats.hits + stats.misses
    }

    fn is_pressed(&self) -> bool {
        let knobs = &self.write_params;
        let part = knobs.debt_limit_bytes.load(Ordering::Relaxed) / DEBT_PART;
        let most = part.min(knobs.memtable_bytes.load(Ordering::Relaxed) * DEBT_MEMTABLES);
        if self.debt_bytes.load(Ordering::Relaxed) > most {
            return true;
        }
        // Immutable memtables are not checked: their flush needs a CPU and no compaction, and they
        // already count as debt.
        let queue = self.queue.lock();
        queue.stop || queue.idle_waiters > 0 || queue.exclusive || queue.make_way > 0
    }

    fn sleep(&self, length: Duration) {
        crate::base::sync::thread::sleep(length);
    }
}

impl DbInner {
    /// Creates the yield state for a job of the calling thread.
    pub(super) fn new_rest(&self, plan: &Plan) -> RefCell<CompactionYield> {
        // Under shuttle the scheduler picks the thread, so the clock says nothing about waiting.
        let never = plan.is_urgent || self.is_manual_background() || cfg!(esker_shuttle);
        let left = Duration::from_millis((plan.est_bytes >> 20) * REST_MS_PER_MIB);
        let wait = (!never && !left.is_zero()).then(ProcessorWait::of_this_thread);
        let waited = wait.as_ref().and_then(ProcessorWait::waited).unwrap_or_default();
        let looked = self.now();
        RefCell::new(CompactionYield { left, looked, waited, probe_after: looked, wait })
    }

    /// Yields if the job of `rest` should.
    pub(super) fn rest(&self, rest: &RefCell<CompactionYield>) {
        let mut rest = rest.borrow_mut();
        if let Some(waited) = rest.wait.as_ref().and_then(ProcessorWait::waited) {
            let rested = rest.poll(self, waited);
            self.counters.yielded_us.add(rested.as_micros() as u64);
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
        looks_per_ms: u64,
        /// The time at which the readers stop.
        readers_until_us: u64,
        looks: Cell<u64>,
        pressed_from_us: u64,
    }

    impl Simulated {
        fn new(waits_us: u64, looks_per_ms: u64) -> Simulated {
            Simulated {
                began: Instant::now(),
                now_us: Cell::new(0),
                waits_us,
                reads_us: 0,
                looks_per_ms,
                readers_until_us: u64::MAX,
                looks: Cell::new(0),
                pressed_from_us: u64::MAX,
            }
        }

        fn pass(&self, us: u64) {
            let read_us = us.min(self.readers_until_us.saturating_sub(self.now_us.get()));
            self.now_us.set(self.now_us.get() + us);
            self.looks.set(self.looks.get() + read_us * self.looks_per_ms / 1000);
        }

        /// Works for `ms` and checks every 4 ms; returns the total yield with readers.
        fn work(&self, ms: u64, mib: u64) -> Duration {
            let (left, looked) = (Duration::from_millis(mib * REST_MS_PER_MIB), self.now());
            let zero = Duration::ZERO;
            let mut rest =
                CompactionYield { left, looked, waited: zero, probe_after: looked, wait: None };
            let mut rested = zero;
            for look in 1..=ms / 4 {
                self.pass(4_000 + 4 * self.reads_us);
                rested += rest.poll(self, Duration::from_micros(look * 4 * self.waits_us));
            }
            rested
        }
    }

    impl Load for Simulated {
        fn now(&self) -> Instant {
            self.began + Duration::from_micros(self.now_us.get())
        }

        fn looks(&self) -> u64 {
            self.looks.get()
        }

        fn is_pressed(&self) -> bool {
            self.now_us.get() >= self.pressed_from_us
        }

        fn sleep(&self, length: Duration) {
            self.pass(length.as_micros() as u64);
        }
    }

    #[test]
    fn job_yields_to_readers_within_its_budget() {
        let rested = Simulated::new(400, 500).work(1_000, 100);
        let most = Duration::from_millis(100 * REST_MS_PER_MIB);
        assert!((most..=most + SLEEP).contains(&rested), "{rested:?}");
        // As long as much yield time is left, the readers get most of the time.
        let world = Simulated::new(400, 500);
        world.work(100, 1 << 20);
        assert!(world.now_us.get() > 1_000_000, "{} us", world.now_us.get());
        // A job without yield time does not yield.
        assert_eq!(Simulated::new(400, 500).work(1_000, 0), Duration::ZERO);
    }

    #[test]
    fn no_yield_with_idle_cpu_or_without_readers() {
        assert_eq!(Simulated::new(0, 500).work(1_000, 100), Duration::ZERO);
        assert_eq!(Simulated::new(200, 500).work(1_000, 100), Duration::ZERO);
        // Waiting for a device is not waiting for a CPU.
        let mut world = Simulated::new(0, 500);
        world.reads_us = 2_000;
        assert_eq!(world.work(1_000, 100), Duration::ZERO);
        // A job kept waiting by other threads than readers checks for readers now and then.
        let world = Simulated::new(400, LOOKS_PER_MS / 2);
        assert_eq!(world.work(1_000, 100), Duration::ZERO);
        assert!((1_010_000..1_060_000).contains(&world.now_us.get()), "{} us", world.now_us.get());
    }

    #[test]
    fn yield_ends_when_readers_stop_or_compaction_is_urgent() {
        let mut world = Simulated::new(400, 500);
        world.readers_until_us = 34_000;
        let rested = world.work(40, 100);
        assert!((20..40).contains(&rested.as_millis()), "{rested:?}");
        let mut world = Simulated::new(400, 500);
        world.pressed_from_us = 34_000;
        let rested = world.work(1_000, 100);
        assert!((20..50).contains(&rested.as_millis()), "{rested:?}");
        world.pressed_from_us = 0;
        assert_eq!(world.work(1_000, 100), Duration::ZERO);
    }
}
