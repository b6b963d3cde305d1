//! Merges that make way for readers where processors are short.
//!
//! A merge that nobody asked for, and that has to share a processor with those who read, rests: in
//! all about as long as it would take itself. How long they will go on reading is not known; who puts
//! a piece of work off for as long as it takes loses no more than twice what foresight would have
//! lost (Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy caching", 1988).
//!
//! What stays true: a job rests at most [`REST_MS_PER_MIB`] for each MiB that it reads, but for one
//! nap, each time it is begun; it begins no nap while the debt is over two thirds of what slows
//! writers or over [`DEBT_MEMTABLES`] memtables, nor while someone waits for it.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::state::Inner;
use crate::base::sync::atomic::Ordering;
use crate::compaction::Plan;
use crate::fs::processor::ProcessorWait;

/// How long a job may rest for each MiB it reads: about as long as merging that takes on a processor
/// that readers share.
const REST_MS_PER_MIB: u64 = 16;
/// A job that was kept waiting looks for so long whether somebody reads; where nobody does, it does
/// not look again so soon.
const PROBE: Duration = Duration::from_millis(2);
const PROBE_AGAIN: Duration = Duration::from_millis(50);
/// After so long a rest, the job works on until it is kept waiting again.
const REST: Duration = Duration::from_millis(60);
/// How often someone who rests looks whether he still should.
const NAP: Duration = Duration::from_millis(10);
/// So many blocks looked for in the cache in each millisecond of a nap are worth a rest. Merges and
/// readers that leave no trace there are not among them.
const LOOKS_PER_MS: u64 = 100;
/// What a job may wait for a processor, beside a fifth of the time, before it counts as kept waiting.
const WAITED_MIN: Duration = Duration::from_micros(200);
/// It rests while the debt is below this part of its limit (at half of it writers are slowed), and below
/// so many memtables.
const DEBT_PART: u64 = 3;
const DEBT_MEMTABLES: u64 = 8;

/// What a job has left to rest, and when it looked last.
pub(super) struct Rest {
    left: Duration,
    looked: Instant,
    /// How long it had waited for a processor then.
    waited: Duration,
    probe_after: Instant,
    wait: Option<ProcessorWait>,
}

/// What a job that might rest asks about the world.
trait World {
    fn now(&self) -> Instant;
    /// How many blocks were looked for so far.
    fn looks(&self) -> u64;
    /// Whether merging should not wait.
    fn is_pressed(&self) -> bool;
    fn nap(&self, length: Duration);
}

impl Rest {
    /// Whether this thread, which has waited for a processor for `waited` by now, was kept waiting
    /// since it looked last.
    fn was_kept_waiting(&mut self, now: Instant, waited: Duration) -> bool {
        let took = now.saturating_duration_since(self.looked);
        let since = waited.saturating_sub(self.waited);
        (self.looked, self.waited) = (now, waited);
        since > took / 5 + WAITED_MIN
    }

    /// Rests if this job should, which has `waited` for a processor by now; returns for how long there
    /// were readers meanwhile.
    fn look(&mut self, world: &impl World, waited: Duration) -> Duration {
        let kept = self.was_kept_waiting(world.now(), waited);
        if !kept || self.left.is_zero() || self.looked < self.probe_after {
            return Duration::ZERO;
        }
        let (began, most) = (self.looked, REST.min(self.left));
        let (mut slept, mut rested, mut nap) = (Duration::ZERO, Duration::ZERO, PROBE);
        while slept < most && !world.is_pressed() {
            let (looks, before) = (world.looks(), slept);
            world.nap(nap);
            slept = world.now().saturating_duration_since(began);
            let length_ms = slept.saturating_sub(before).as_millis() as u64;
            if world.looks().saturating_sub(looks) < length_ms * LOOKS_PER_MS {
                self.probe_after = began + slept + PROBE_AGAIN;
                break;
            }
            (rested, nap) = (slept, NAP);
        }
        self.left = self.left.saturating_sub(slept);
        self.looked = world.now();
        rested
    }
}

impl World for Inner {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn looks(&self) -> u64 {
        let stats = self.cache.stats();
        stats.hits + stats.misses
    }

    fn is_pressed(&self) -> bool {
        let knobs = &self.write_knobs;
        let part = knobs.debt_limit_bytes.load(Ordering::Relaxed) / DEBT_PART;
        let most = part.min(knobs.memtable_bytes.load(Ordering::Relaxed) * DEBT_MEMTABLES);
        if self.debt_bytes.load(Ordering::Relaxed) > most {
            return true;
        }
        // A memtable that waits for its flush needs a processor, too, and no merge; it counts as debt.
        let queue = self.queue.lock();
        queue.stop || queue.awaited > 0 || queue.exclusive || queue.make_way > 0
    }

    fn nap(&self, length: Duration) {
        crate::base::sync::thread::sleep(length);
    }
}

impl Inner {
    /// For a job of the calling thread.
    pub(super) fn new_rest(&self, plan: &Plan) -> RefCell<Rest> {
        // Where the machine's clock does not say which thread goes on, it says nothing.
        let never = plan.is_asked_for || self.stepped() || cfg!(feature = "shuttle");
        let left = Duration::from_millis((plan.est_bytes >> 20) * REST_MS_PER_MIB);
        let wait = (!never && !left.is_zero()).then(ProcessorWait::of_this_thread);
        let waited = wait.as_ref().and_then(ProcessorWait::waited).unwrap_or_default();
        let looked = self.now();
        RefCell::new(Rest { left, looked, waited, probe_after: looked, wait })
    }

    /// Rests if the job of `rest` should.
    pub(super) fn rest(&self, rest: &RefCell<Rest>) {
        let mut rest = rest.borrow_mut();
        if let Some(waited) = rest.wait.as_ref().and_then(ProcessorWait::waited) {
            let rested = rest.look(self, waited);
            self.counters.rested_us.add(rested.as_micros() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A job on a machine where time passes only when it is told to.
    struct Simulated {
        began: Instant,
        now_us: Cell<u64>,
        /// Of each millisecond that the job goes on, how much it waits for a processor, for a device.
        waits_us: u64,
        reads_us: u64,
        looks_per_ms: u64,
        /// Readers go then.
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

        /// Goes on for `ms`, looking every four; returns how long it rested.
        fn work(&self, ms: u64, mib: u64) -> Duration {
            let (left, looked) = (Duration::from_millis(mib * REST_MS_PER_MIB), self.now());
            let zero = Duration::ZERO;
            let mut rest = Rest { left, looked, waited: zero, probe_after: looked, wait: None };
            let mut rested = zero;
            for look in 1..=ms / 4 {
                self.pass(4_000 + 4 * self.reads_us);
                rested += rest.look(self, Duration::from_micros(look * 4 * self.waits_us));
            }
            rested
        }
    }

    impl World for Simulated {
        fn now(&self) -> Instant {
            self.began + Duration::from_micros(self.now_us.get())
        }

        fn looks(&self) -> u64 {
            self.looks.get()
        }

        fn is_pressed(&self) -> bool {
            self.now_us.get() >= self.pressed_from_us
        }

        fn nap(&self, length: Duration) {
            self.pass(length.as_micros() as u64);
        }
    }

    #[test]
    fn a_job_rests_for_readers_and_no_longer_than_it_may() {
        let rested = Simulated::new(400, 500).work(1_000, 100);
        let most = Duration::from_millis(100 * REST_MS_PER_MIB);
        assert!((most..=most + NAP).contains(&rested), "{rested:?}");
        // While there is much to rest, the readers have most of the time.
        let world = Simulated::new(400, 500);
        world.work(100, 1 << 20);
        assert!(world.now_us.get() > 1_000_000, "{} us", world.now_us.get());
        // What has nothing to rest does not.
        assert_eq!(Simulated::new(400, 500).work(1_000, 0), Duration::ZERO);
    }

    #[test]
    fn nobody_rests_where_there_is_a_processor_or_nobody_reads() {
        assert_eq!(Simulated::new(0, 500).work(1_000, 100), Duration::ZERO);
        assert_eq!(Simulated::new(200, 500).work(1_000, 100), Duration::ZERO);
        // Who waits for a device does not wait for a processor.
        let mut world = Simulated::new(0, 500);
        world.reads_us = 2_000;
        assert_eq!(world.work(1_000, 100), Duration::ZERO);
        // Who is kept waiting by others than readers looks for them now and then.
        let world = Simulated::new(400, LOOKS_PER_MS / 2);
        assert_eq!(world.work(1_000, 100), Duration::ZERO);
        assert!((1_010_000..1_060_000).contains(&world.now_us.get()), "{} us", world.now_us.get());
    }

    #[test]
    fn a_rest_ends_when_the_readers_go_or_somebody_waits() {
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
