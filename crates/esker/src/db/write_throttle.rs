//! The write throttle: slows writers before they would have to stop. It has two measures, which add
//! up.
//!
//! * The debt: bytes that still have to be flushed, pushed or merged. Below half the debt limit there
//!   is no delay. From there the allowed rate falls smoothly from [`RATE_FULL`] to [`RATE_LEAST`] at
//!   the limit, and then stays constant. A writer thus sees a lower rate and not a stall.
//! * The room: while the maximum number of memtables waits for a flush, the rest of the active
//!   memtable is made to last until the first of them is flushed. The expected flush time is the time
//!   of recent flushes. After that time it is half of the elapsed time of the current flush.
//!
//! The functions at the end compute both. They have no clock and no lock. [`super::write_path`] calls
//! the throttle.
//!
//! Invariants:
//! * No writer sleeps here with a lock held. For the room it sleeps at most [`PACED_MAX`] for one
//!   write, and for the debt it adds at most [`SLOWED_NS_MAX`].
//! * A writer that is slower than the throttle's rate does not sleep at all.
//! * All writers share one rate.

use std::time::{Duration, Instant};

use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{Mutex, thread};
use crate::observe::Stall;

/// Maximum sleep of a throttled writer for one write.
const PACED_MAX: Duration = Duration::from_millis(25);
/// Maximum delay of one write because of the debt, in ns.
const SLOWED_NS_MAX: u64 = 50_000_000;
/// Delays for the debt are added up until they have this length, which a timer can keep, in ns.
const SLOWED_NS_MIN: u64 = 500_000;
/// Time after which a sleeping writer checks again whether it must wait.
const SLEEP: Duration = Duration::from_millis(5);
/// Sleeps up to this length are skipped.
pub(super) const PACED_MIN: Duration = Duration::from_micros(50);
/// A flush of less than this fraction (one fourth) of a memtable is not timed: its time is mostly
/// that of a sync, and says little about a full memtable.
const MIN_TIMED_FRACTION: u64 = 4;

/// Allowed rate where the throttle begins, in bytes per second.
const RATE_FULL: f64 = 1024.0 * 1024.0 * 1024.0;
/// Allowed rate at the limit and beyond, in bytes per second.
const RATE_LEAST: f64 = 4.0 * 1024.0 * 1024.0;
/// Assumed flush rate before the first measurement, in memtable bytes per second.
const FLUSH_RATE_UNKNOWN: u64 = 192 << 20;
/// A throttled writer reads the clock each time this many bytes were written.
const PACE_BYTES: u64 = 16 << 10;

/// The times that the throttle works with.
#[derive(Default)]
struct Times {
    /// Start and size in bytes of the running flush.
    running_flush: Option<(Instant, u64)>,
    /// Room in the active memtable when a writer last checked, in bytes.
    room_bytes: Option<u64>,
    /// The time until which the writes so far should take.
    due: Option<Instant>,
    /// The time since which the next full memtable would make writers wait.
    near_since: Option<Instant>,
    /// The time since which the debt slows writers.
    indebted_since: Option<Instant>,
    /// The announced slowdown, and when it was announced.
    announced: Option<(Stall, Instant)>,
}

/// State of the write throttle.
#[derive(Default)]
pub(crate) struct WriteThrottle {
    /// Near stall: whether the next full memtable would make writers wait.
    near_stall: AtomicBool,
    /// Recent flush rate, in memtable bytes per second; 0 before the first flush.
    flush_rate: AtomicU64,
    /// Bytes written since a writer last read the clock.
    unpaced_bytes: AtomicU64,
    /// Delays for the debt that no writer has slept yet, in ns.
    pending_delay_ns: AtomicU64,
    /// Whether listeners know of the slowdown.
    is_announced: AtomicBool,
    times: Mutex<Times>,
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

    /// Sets whether the next full memtable would make writers wait.
    pub fn set_near_stall(&self, near: bool) {
        let mut times = self.times.lock();
        if near {
            times.near_since.get_or_insert_with(Instant::now);
        } else {
            (times.due, times.room_bytes, times.near_since) = (None, None, None);
        }
        drop(times);
        self.near_stall.store(near, Ordering::Relaxed);
    }

    /// Counts a write of `bytes`. Returns the bytes since a writer last read the clock, if this
    /// writer must read it.
    pub fn count_unpaced(&self, bytes: u64) -> Option<u64> {
        let written = self.unpaced_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if written < PACE_BYTES {
            return None;
        }
        let written = self.unpaced_bytes.swap(0, Ordering::Relaxed);
        if written >= PACE_BYTES {
            return Some(written);
        }
        // Another writer was faster and has counted these bytes.
        self.unpaced_bytes.fetch_add(written, Ordering::Relaxed);
        None
    }

    /// Sleeps until `end`, or until a flush has ended the near stall.
    pub fn sleep_until(&self, end: Instant) {
        let mut left = end.saturating_duration_since(Instant::now());
        while left > PACED_MIN && self.is_near_stall() {
            thread::sleep(left.min(SLEEP));
            left = end.saturating_duration_since(Instant::now());
        }
    }

    /// Adds the delay of a write of `bytes` for the debt to the delays that are owed. If their sum is
    /// long enough for a timer, returns the delay of this write and the sum, which the caller must
    /// sleep.
    pub fn add_delay(&self, debt: u64, limit: u64, bytes: u64) -> Option<(Duration, Duration)> {
        // Limits the delay of one write, whatever its size.
        let delay = delay_ns(debt, limit, bytes).min(SLOWED_NS_MAX);
        let owed = self.pending_delay_ns.fetch_add(delay, Ordering::Relaxed) + delay;
        if owed < SLOWED_NS_MIN {
            return None;
        }
        self.pending_delay_ns.store(0, Ordering::Relaxed);
        Some((Duration::from_nanos(delay), Duration::from_nanos(owed)))
    }

    /// Adds delays that a writer was to sleep and did not.
    pub fn owe(&self, delay: Duration) {
        self.pending_delay_ns.fetch_add(delay.as_nanos() as u64, Ordering::Relaxed);
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

    /// Returns whether listeners know of the slowdown.
    #[inline]
    pub fn is_announced(&self) -> bool {
        self.is_announced.load(Ordering::Relaxed)
    }

    /// Tells listeners of a slowdown by `tell`, unless they know of one. Returns whether it was told.
    pub fn announce(&self, slowdown: &Stall, tell: impl FnOnce()) -> bool {
        let mut times = self.times.lock();
        if times.announced.is_some() {
            return false;
        }
        times.announced = Some((slowdown.clone(), Instant::now()));
        self.is_announced.store(true, Ordering::Relaxed);
        // Under the lock, so that no other thread tells of the end before.
        tell();
        true
    }

    /// Tells listeners of the end of the announced slowdown by `tell`, if there is one.
    pub fn end_announced(&self, tell: impl FnOnce(Stall, Instant)) {
        let mut times = self.times.lock();
        let Some((slowdown, began)) = times.announced.take() else { return };
        self.is_announced.store(false, Ordering::Relaxed);
        tell(slowdown, began);
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
        let rate = flush_rate(before, bytes, elapsed.as_nanos() as u64);
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
        let remaining_ns = remaining_ns(front_bytes, elapsed_ns, rate);
        let wait = Duration::from_nanos(pace_ns(bytes, room_bytes, remaining_ns));
        // The time taken so far counts, but earlier slowness is not credited.
        let since = now.checked_sub(wait).unwrap_or(now);
        let due = times.due.map_or(since, |due| due.max(since)) + wait;
        let due = due.min(now + PACED_MAX);
        times.due = Some(due);
        due
    }
}

/// Returns the minimum duration of a write of `bytes`, given the debt, in ns; 0 when not slowed.
///
/// The rate falls geometrically between half the limit and the limit: each further percent of debt
/// costs the same factor.
fn delay_ns(debt_bytes: u64, limit_bytes: u64, bytes: u64) -> u64 {
    let start = limit_bytes / 2;
    if debt_bytes <= start || limit_bytes == 0 {
        return 0;
    }
    let share = ((debt_bytes - start) as f64 / (limit_bytes - start).max(1) as f64).min(1.0);
    let rate = RATE_FULL * (RATE_LEAST / RATE_FULL).powf(share);
    (bytes as f64 / rate * 1e9) as u64
}

/// Returns the expected remaining time of a flush, in ns. The memtable has `bytes` bytes, the flush
/// began `elapsed_ns` ago, and recent flushes ran at `flush_rate` bytes per second (0: unknown). A
/// flush that takes longer than expected is assumed to need half of its elapsed time again, however
/// long that is.
fn remaining_ns(bytes: u64, elapsed_ns: u64, flush_rate: u64) -> u64 {
    let flush_rate = if flush_rate == 0 { FLUSH_RATE_UNKNOWN } else { flush_rate };
    // A tenth slower than recent flushes.
    let expected_ns = (bytes as f64 * 1e9 / (flush_rate as f64 * 0.9)) as u64;
    expected_ns.saturating_sub(elapsed_ns).max(elapsed_ns / 2)
}

/// Returns the target duration of a write of `bytes`, in ns. The memtable has `room_bytes` left,
/// which have to last for `remaining_ns`.
fn pace_ns(bytes: u64, room_bytes: u64, remaining_ns: u64) -> u64 {
    (bytes as f64 / room_bytes.max(bytes).max(1) as f64 * remaining_ns as f64) as u64
}

/// Returns the new flush rate after a flush of `bytes` in `elapsed_ns`. `before` is the old rate
/// (0: unknown).
fn flush_rate(before: u64, bytes: u64, elapsed_ns: u64) -> u64 {
    let rate = (bytes as f64 * 1e9 / elapsed_ns.max(1) as f64) as u64;
    if before == 0 { rate.max(1) } else { before.midpoint(rate).max(1) }
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
            *next = pace.due(*next, PACE_BYTES, memtable - filled, memtable).max(*next);
            filled += (PACE_BYTES as f64 * growth) as u64;
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

    /// Writes as fast as the throttle allows until `flushed_ns` have passed. Returns the fill of
    /// the memtable of `memtable` bytes at that time, and the longest wait.
    fn filled_by_formula(memtable: u64, rate: u64, flushed_ns: u64) -> (u64, u64) {
        let (mut now_ns, mut filled, mut longest_ns) = (0, 0, 0);
        while now_ns < flushed_ns && filled < memtable {
            let wait_ns =
                pace_ns(PACE_BYTES, memtable - filled, remaining_ns(memtable, now_ns, rate));
            longest_ns = longest_ns.max(wait_ns);
            now_ns += wait_ns;
            filled += PACE_BYTES;
        }
        (filled, longest_ns)
    }

    #[test]
    fn paced_memtable_has_space_until_previous_flush_ends() {
        let (memtable, rate) = (64 << 20, 300_000_000);
        let expected_ns = memtable * 1_000_000_000 / rate;
        let (filled, longest_ns) = filled_by_formula(memtable, rate, expected_ns);
        assert!((memtable / 2..memtable - memtable / 10).contains(&filled), "{filled}");
        assert!(longest_ns < 300_000, "waits are short: {longest_ns}");
        // A flush that takes three times the expected time.
        let (filled, longest_ns) = filled_by_formula(memtable, rate, 3 * expected_ns);
        assert!(filled < memtable, "no space is left in the memtable");
        assert!(longest_ns < 10_000_000, "no wait is a stop: {longest_ns}");
        // A flush that is faster than expected: the waits cost no time beyond the flush.
        assert!(filled_by_formula(memtable, rate, expected_ns / 2).0 > memtable * 4 / 10);
        assert_eq!(pace_ns(PACE_BYTES, 0, 1000), 1000);
        assert_eq!(pace_ns(0, 0, 1000), 0);
        assert_eq!(remaining_ns(memtable, 0, 0), remaining_ns(memtable, 0, FLUSH_RATE_UNKNOWN));
    }

    #[test]
    fn delay_starts_at_zero_grows_smoothly_and_is_bounded() {
        let limit = 1_000_000;
        assert_eq!(delay_ns(0, limit, 4096), 0);
        assert_eq!(delay_ns(limit / 2, limit, 4096), 0);
        let mut last = 1;
        for step in 0..=100 {
            let delay = delay_ns(limit / 2 + 1 + step * limit / 200, limit, 1 << 20);
            assert!(delay >= last);
            assert!(step == 0 || delay <= last + last / 8 + 1, "jump at {step}: {last} -> {delay}");
            last = delay;
        }
        assert_eq!(delay_ns(limit * 50, limit, 1 << 20), delay_ns(limit, limit, 1 << 20));
        assert!(delay_ns(limit, limit, 1 << 20) <= 250_000_001);
    }
}
