//! The write throttle: slows writers to the rate of the flushes; see [`pressure`].
//!
//! Invariants:
//! * No writer sleeps here with a lock held, or longer than [`PACED_MAX`] for one write.
//! * A writer that is slower than the throttle's rate does not sleep at all.
//! * All writers share one rate.

use std::time::{Duration, Instant};

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::write::pressure;

/// Maximum sleep of a throttled writer for one write.
const PACED_MAX: Duration = Duration::from_millis(25);
/// Time after which a sleeping writer checks again whether it must wait.
pub(super) const SLEEP: Duration = Duration::from_millis(5);
/// Sleeps up to this length are skipped.
pub(super) const PACED_MIN: Duration = Duration::from_micros(50);
/// A flush of less than this fraction (one fourth) of a memtable is not timed: its time is mostly
/// that of a sync, and says little about a full memtable.
const MIN_TIMED_FRACTION: u64 = 4;

/// The times that the throttle works with.
#[derive(Default)]
pub(super) struct Times {
    /// Start and size in bytes of the running flush.
    running_flush: Option<(Instant, u64)>,
    /// Room in the active memtable when a writer last checked, in bytes.
    pub room_bytes: Option<u64>,
    /// The time until which the writes so far should take.
    pub due: Option<Instant>,
    /// The time since which the next full memtable would make writers wait.
    pub near_since: Option<Instant>,
    /// The time since which the debt slows writers.
    indebted_since: Option<Instant>,
}

/// State of the write throttle.
#[derive(Default)]
pub(crate) struct WriteThrottle {
    /// Near stall: whether the next full memtable would make writers wait.
    pub(super) near_stall: AtomicBool,
    /// Recent flush rate, in memtable bytes per second; 0 before the first flush.
    flush_rate: AtomicU64,
    /// Bytes written since a writer last read the clock.
    pub(super) unpaced_bytes: AtomicU64,
    pub(super) times: Mutex<Times>,
}

impl WriteThrottle {
    /// Returns whether the throttle is active (near stall).
    #[inline]
    pub fn is_near_stall(&self) -> bool {
        self.near_stall.load(Ordering::Relaxed)
    }

    /// Returns the time since which the throttle is active.
    pub fn near_stall_since(&self) -> Option<Instant> {
        self.times.lock().near_since
    }

    /// Records whether the debt is so large that it slows writers.
    pub fn note_debt(&self, slows: bool) {
        let mut times = self.times.lock();
        times.indebted_since = slows.then(|| times.indebted_since.unwrap_or_else(Instant::now));
    }

    /// Returns the time for which the debt has slowed writers.
    pub fn indebted_for(&self) -> Duration {
        self.times.lock().indebted_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Records that a memtable of `bytes` is being flushed.
    pub fn note_flush_begins(&self, bytes: u64) {
        self.times.lock().running_flush = Some((Instant::now(), bytes));
    }

    /// Records that no memtable is being flushed any more.
    pub fn note_flush_ends(&self) {
        self.times.lock().running_flush = None;
    }

    /// Records the duration of a flush of `bytes`. A full memtable has `memtable_bytes`.
    pub fn note_flush(&self, bytes: u64, memtable_bytes: u64, elapsed: Duration) {
        if bytes < memtable_bytes / MIN_TIMED_FRACTION {
            return;
        }
        let before = self.flush_rate.load(Ordering::Relaxed);
        let rate = pressure::flush_rate(before, bytes, elapsed.as_nanos() as u64);
        self.flush_rate.store(rate, Ordering::Relaxed);
    }

    /// Returns the time until which a writer should sleep that arrives at `now`, after `written`
    /// more bytes of batches, with `room_bytes` left in a memtable of `memtable_bytes`.
    pub fn due(&self, now: Instant, written: u64, room_bytes: u64, memtable_bytes: u64) -> Instant {
        let rate = self.flush_rate.load(Ordering::Relaxed);
        let mut times = self.times.lock();
        // A write takes more room than its bytes: three times as much for short pairs. If there is
        // more room than before, the memtable is a new one.
        let before = times.room_bytes.replace(room_bytes);
        let bytes = before.and_then(|before| before.checked_sub(room_bytes)).unwrap_or(written);
        let (began, front_bytes) = times.running_flush.unwrap_or((now, memtable_bytes));
        let elapsed_ns = now.saturating_duration_since(began).as_nanos() as u64;
        let remaining_ns = pressure::remaining_ns(front_bytes, elapsed_ns, rate);
        let wait = Duration::from_nanos(pressure::pace_ns(bytes, room_bytes, remaining_ns));
        // The time taken so far counts, but earlier slowness is not credited.
        let since = now.checked_sub(wait).unwrap_or(now);
        let due = times.due.map_or(since, |due| due.max(since)) + wait;
        let due = due.min(now + PACED_MAX);
        times.due = Some(due);
        due
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;

    /// Simulates writers that write as fast as the throttle allows. Pairs take `growth` times their
    /// bytes in the memtable. Returns the used bytes of a memtable of `memtable` bytes after
    /// `flushed`.
    fn filled_after(memtable: u64, growth: f64, writers: usize, flushed: Duration) -> u64 {
        let (pace, began) = (WriteThrottle::default(), Instant::now());
        pace.note_flush(memtable, memtable, Duration::from_millis(200));
        // A flush of a few pairs takes as long as a sync, and says nothing.
        pace.note_flush(4096, memtable, Duration::from_millis(8));
        pace.times.lock().running_flush = Some((began, memtable));
        let (mut clocks, mut filled) = (vec![began; writers], 0);
        while filled < memtable {
            let next = clocks.iter_mut().min().expect("at least one writer exists");
            if *next >= began + flushed {
                break;
            }
            *next = pace.due(*next, pressure::PACE_BYTES, memtable - filled, memtable).max(*next);
            filled += (pressure::PACE_BYTES as f64 * growth) as u64;
        }
        filled
    }

    #[test]
    fn memtable_does_not_fill_before_slow_flush_ends() {
        let memtable = 64 << 20;
        for (growth, writers, times_longer) in
            [(1.03, 1, 4), (2.5, 1, 3), (1.25, 16, 2), (2.5, 4, 2)]
        {
            let flushed = Duration::from_millis(200) * times_longer;
            let filled = filled_after(memtable, growth, writers, flushed);
            let case = format!("{growth}, {writers}, {times_longer}: {filled}");
            assert!((memtable / 2..memtable).contains(&filled), "{case}");
        }
    }

    #[test]
    fn delay_is_bounded() {
        let (pace, now) = (WriteThrottle::default(), Instant::now());
        pace.times.lock().running_flush = Some((now, 1 << 30));
        for _ in 0..100 {
            assert!(pace.due(now, 1 << 30, 0, 1 << 20) <= now + PACED_MAX);
        }
        pace.note_flush_ends();
        assert!(pace.times.lock().running_flush.is_none());
    }
}
