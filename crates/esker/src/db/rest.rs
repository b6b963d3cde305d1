//! Merges that make way for readers where processors are short.
//!
//! A merge that nobody waits for, and that has to share a processor with those who read, rests: in
//! all about as long as it would take itself. How long they will go on reading is not known; who puts
//! a piece of work off for as long as it takes loses no more than twice what foresight would have
//! lost (Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy caching", 1988).
//!
//! What stays true: a job rests at most [`REST_MS_PER_MIB`] for each MiB that it reads, but for one
//! nap; it does not while a memtable waits for its flush, while writers are slowed, or while someone
//! waits for it.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::state::Inner;
use crate::base::sync::atomic::Ordering;

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
/// So many blocks looked for in each millisecond of a nap are readers': another merge reads fewer.
const LOOKS_PER_MS: u64 = 100;
/// What a job may lose to others, beside a fifth of the time, before it counts as kept waiting.
const WAITED_MIN: Duration = Duration::from_micros(200);

/// What a job has left to rest, and when it looked last.
pub(super) struct Rest {
    left: Duration,
    looked: Instant,
    /// The processor time it had used then.
    used: Duration,
    probe_after: Instant,
}

/// What a job that might rest asks about the world.
trait World {
    fn now(&self) -> Instant;
    /// The processor time of this thread.
    fn used(&self) -> Duration;
    /// How many blocks were looked for so far.
    fn looks(&self) -> u64;
    /// Whether merging should not wait.
    fn is_pressed(&self) -> bool;
    fn nap(&self, length: Duration);
}

impl Rest {
    /// Whether this thread was kept waiting for a processor since it looked last.
    fn was_kept_waiting(&mut self, world: &impl World) -> bool {
        let (now, used) = (world.now(), world.used());
        let took = now.saturating_duration_since(self.looked);
        let worked = used.saturating_sub(self.used);
        (self.looked, self.used) = (now, used);
        took > worked + worked / 4 + WAITED_MIN
    }

    /// Rests if this job should; returns for how long it did.
    fn look(&mut self, world: &impl World) -> Duration {
        if self.left.is_zero() || !self.was_kept_waiting(world) || self.looked < self.probe_after {
            return Duration::ZERO;
        }
        let (began, most) = (self.looked, REST.min(self.left));
        let (mut rested, mut nap) = (Duration::ZERO, PROBE);
        while rested < most && !world.is_pressed() {
            let looks = world.looks();
            world.nap(nap);
            let before = rested;
            rested = world.now().saturating_duration_since(began);
            let length_ms = (rested - before).as_millis() as u64;
            if world.looks() - looks < length_ms * LOOKS_PER_MS {
                self.probe_after = began + rested + PROBE_AGAIN;
                break;
            }
            nap = NAP;
        }
        self.left = self.left.saturating_sub(rested);
        (self.looked, self.used) = (world.now(), world.used());
        rested
    }
}

impl World for Inner {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn used(&self) -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn looks(&self) -> u64 {
        self.cache.looks()
    }

    fn is_pressed(&self) -> bool {
        let limit = self.write_knobs.debt_limit_bytes.load(Ordering::Relaxed);
        if self.debt_bytes.load(Ordering::Relaxed) > limit / 2 {
            return true;
        }
        let queue = self.queue.lock();
        let awaited = queue.awaited > 0 || queue.exclusive || queue.make_way > 0;
        queue.stop || awaited || !queue.frozen.is_empty()
    }

    fn nap(&self, length: Duration) {
        crate::base::sync::thread::sleep(length);
    }
}

impl Inner {
    /// For a job of the calling thread that reads `bytes`.
    pub(super) fn new_rest(&self, bytes: u64) -> RefCell<Rest> {
        // Where the machine's clock does not say which thread goes on, it says nothing.
        let never = self.stepped() || cfg!(feature = "shuttle");
        let left = if never { 0 } else { (bytes >> 20) * REST_MS_PER_MIB };
        let (left, now) = (Duration::from_millis(left), self.now());
        RefCell::new(Rest { left, looked: now, used: self.used(), probe_after: now })
    }

    /// Rests if the job of `rest` should.
    pub(super) fn rest(&self, rest: &RefCell<Rest>) {
        let rested = rest.borrow_mut().look(self);
        if !rested.is_zero() {
            self.counters.rested_us.add(rested.as_micros() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Two processors: so many others want one, and so many blocks are looked for each millisecond.
    struct Simulated {
        began: Instant,
        now_us: Cell<u64>,
        used_us: Cell<u64>,
        share_percent: u64,
        looks_per_ms: u64,
        looks: Cell<u64>,
        pressed_from_us: u64,
    }

    impl Simulated {
        fn new(share_percent: u64, looks_per_ms: u64) -> Simulated {
            Simulated {
                began: Instant::now(),
                now_us: Cell::new(0),
                used_us: Cell::new(0),
                share_percent,
                looks_per_ms,
                looks: Cell::new(0),
                pressed_from_us: u64::MAX,
            }
        }

        fn pass(&self, us: u64) {
            self.now_us.set(self.now_us.get() + us);
            self.looks.set(self.looks.get() + us * self.looks_per_ms / 1000);
        }

        /// Works for `ms` of processor time, looking every two of them; returns how long it rested.
        fn work(&self, ms: u64, mib: u64) -> Duration {
            let left = Duration::from_millis(mib * REST_MS_PER_MIB);
            let now = self.now();
            let mut rest = Rest { left, looked: now, used: self.used(), probe_after: now };
            let mut rested = Duration::ZERO;
            for _ in 0..ms / 2 {
                self.used_us.set(self.used_us.get() + 2_000);
                self.pass(2_000 * 100 / self.share_percent);
                rested += rest.look(self);
            }
            rested
        }
    }

    impl World for Simulated {
        fn now(&self) -> Instant {
            self.began + Duration::from_micros(self.now_us.get())
        }

        fn used(&self) -> Duration {
            Duration::from_micros(self.used_us.get())
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
        let rested = Simulated::new(60, 500).work(1_000, 100);
        let most = Duration::from_millis(100 * REST_MS_PER_MIB);
        assert!((most..=most + NAP).contains(&rested), "{rested:?}");
        // While there is much to rest, the readers have most of the time.
        let world = Simulated::new(60, 500);
        world.work(100, 1 << 20);
        assert!(world.now_us.get() > 1_000_000, "{} us", world.now_us.get());
    }

    #[test]
    fn nobody_rests_where_there_is_a_processor_or_nobody_reads() {
        assert_eq!(Simulated::new(100, 500).work(1_000, 100), Duration::ZERO);
        assert_eq!(Simulated::new(85, 500).work(1_000, 100), Duration::ZERO);
        // Who is kept waiting by others than readers looks for them now and then.
        let (world, began) = (Simulated::new(60, LOOKS_PER_MS / 2), Duration::from_millis(1_667));
        let rested = world.work(1_000, 100);
        assert!(rested > Duration::ZERO && rested <= began / 20, "{rested:?}");
        // They have gone after one nap.
        assert_eq!(Simulated::new(60, 500).work(1_000, 0), Duration::ZERO);
    }

    #[test]
    fn a_job_that_is_waited_for_does_not_rest() {
        let mut world = Simulated::new(60, 500);
        world.pressed_from_us = 0;
        assert_eq!(world.work(1_000, 100), Duration::ZERO);
        // From the middle of a rest on.
        world.pressed_from_us = world.now_us.get() + 20_000;
        let rested = world.work(1_000, 100);
        assert!(rested > Duration::ZERO && rested < Duration::from_millis(40), "{rested:?}");
    }
}
