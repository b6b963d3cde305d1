//! How writers keep pace with the flushes: see [`pressure`].
//!
//! What stays true: nobody sleeps here with a lock held, nor longer for one write than [`PACED_MAX`]; a
//! writer that is slower than the pace by itself does not sleep at all; all writers together keep one
//! pace.

use std::time::{Duration, Instant};

use super::state::Inner;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::write::pressure;

/// What a writer that keeps pace sleeps at most for one write, after what time it looks whether it
/// still has to, and what is not worth a sleep.
const PACED_MAX: Duration = Duration::from_millis(25);
const NAP: Duration = Duration::from_millis(5);
const PACED_MIN: Duration = Duration::from_micros(50);
/// A flush of a smaller part of a memtable says how long a sync takes, and little of a whole one.
const TELLING_PART: u64 = 4;

/// The times that matter to the pace.
#[derive(Default)]
struct Times {
    /// When the flush that goes on began, and of how much.
    front: Option<(Instant, u64)>,
    /// The room there was when a writer last looked.
    room_bytes: Option<u64>,
    /// Until when what was written should have taken.
    due: Option<Instant>,
}

/// How writers keep pace with the flushes.
#[derive(Default)]
pub(crate) struct Pace {
    /// Whether so many memtables wait that the next full one would make writers wait.
    crowded: AtomicBool,
    /// Whether deletes are ahead of who looks for skip hints.
    pub hints_behind: AtomicBool,
    /// Memtable bytes a second that flushes managed lately; 0 before the first.
    flush_rate: AtomicU64,
    /// Bytes written since a writer last looked at the clock.
    unpaced_bytes: AtomicU64,
    times: Mutex<Times>,
}

impl Pace {
    /// Whether writers are to keep pace.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Notes that a memtable of `bytes` is being flushed.
    pub fn note_flush_begins(&self, bytes: u64) {
        self.times.lock().front = Some((Instant::now(), bytes));
    }

    /// Notes that no memtable is being flushed any more.
    pub fn note_flush_ends(&self) {
        self.times.lock().front = None;
    }

    /// Notes how long the flush of `bytes` took, where a full memtable has `memtable_bytes`.
    pub fn note_flush(&self, bytes: u64, memtable_bytes: u64, elapsed: Duration) {
        if bytes < memtable_bytes / TELLING_PART {
            return;
        }
        let before = self.flush_rate.load(Ordering::Relaxed);
        let rate = pressure::flush_rate(before, bytes, elapsed.as_nanos() as u64);
        self.flush_rate.store(rate, Ordering::Relaxed);
    }

    /// Until when a writer should sleep that comes `now`, after `written` more bytes of batches and
    /// with `room_bytes` left in a memtable of `memtable_bytes`.
    fn due(&self, now: Instant, written: u64, room_bytes: u64, memtable_bytes: u64) -> Instant {
        let rate = self.flush_rate.load(Ordering::Relaxed);
        let mut times = self.times.lock();
        // What a write takes of the room is more than its bytes, of short pairs three times as much.
        // Where there is more room than before, it is another memtable's.
        let before = times.room_bytes.replace(room_bytes);
        let bytes = before.and_then(|before| before.checked_sub(room_bytes)).unwrap_or(written);
        let (began, front_bytes) = times.front.unwrap_or((now, memtable_bytes));
        let elapsed_ns = now.saturating_duration_since(began).as_nanos() as u64;
        let remaining_ns = pressure::remaining_ns(front_bytes, elapsed_ns, rate);
        let wait = Duration::from_nanos(pressure::pace_ns(bytes, room_bytes, remaining_ns));
        // What it took until now counts, but slowness is not saved up.
        let since = now.checked_sub(wait).unwrap_or(now);
        let due = times.due.map_or(since, |due| due.max(since)) + wait;
        let due = due.min(now + PACED_MAX);
        times.due = Some(due);
        due
    }
}

impl Inner {
    /// Sleeps while the active memtable fills faster than its room lasts for the flush.
    #[cold]
    pub(super) fn keep_pace(&self, bytes: u64) {
        let written = self.pace.unpaced_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if written < pressure::PACE_BYTES {
            return;
        }
        let written = self.pace.unpaced_bytes.swap(0, Ordering::Relaxed);
        if written < pressure::PACE_BYTES {
            // Another writer was faster, and has them in its account.
            self.pace.unpaced_bytes.fetch_add(written, Ordering::Relaxed);
            return;
        }
        let now = Instant::now();
        let full = self.write_knobs.memtable_bytes.load(Ordering::Relaxed);
        let room = full.saturating_sub(self.view.load().active.memory_bytes() as u64);
        let due = self.pace.due(now, written, room, full);
        let mut left = due.saturating_duration_since(now);
        // Who waits does not wait for longer than the flush takes.
        while left > PACED_MIN && self.pace.is_crowded() {
            crate::base::sync::thread::sleep(left.min(NAP));
            left = due.saturating_duration_since(Instant::now());
        }
        self.counters.slowed_us.add(now.elapsed().as_micros() as u64);
    }

    /// Notes whether the next full memtable would make writers wait. The queue is locked.
    pub fn note_crowd(&self, frozen: usize) {
        let crowded =
            !self.stepped() && frozen >= self.options.load().frozen_memtables_max as usize;
        if !crowded {
            let mut times = self.pace.times.lock();
            (times.due, times.room_bytes) = (None, None);
        }
        self.pace.crowded.store(crowded, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Writers that each write as fast as the pace lets them, pairs that take `growth` times their
    /// bytes of the memtable; returns how full it is of `memtable` bytes after `flushed`.
    fn filled_after(memtable: u64, growth: f64, writers: usize, flushed: Duration) -> u64 {
        let (pace, began) = (Pace::default(), Instant::now());
        pace.note_flush(memtable, memtable, Duration::from_millis(200));
        // That of a few pairs, which took as long as a sync does, says nothing.
        pace.note_flush(4096, memtable, Duration::from_millis(8));
        pace.times.lock().front = Some((began, memtable));
        let (mut clocks, mut filled) = (vec![began; writers], 0);
        while filled < memtable {
            let next = clocks.iter_mut().min().expect("there is a writer");
            if *next >= began + flushed {
                break;
            }
            *next = pace.due(*next, pressure::PACE_BYTES, memtable - filled, memtable).max(*next);
            filled += (pressure::PACE_BYTES as f64 * growth) as u64;
        }
        filled
    }

    #[test]
    fn short_pairs_and_many_writers_have_room_until_the_flush_is_done() {
        let memtable = 64 << 20;
        for (growth, writers, times_longer) in
            [(1.03, 1, 4), (2.5, 1, 3), (1.25, 16, 2), (2.5, 4, 2)]
        {
            let flushed = Duration::from_millis(200) * times_longer;
            let filled = filled_after(memtable, growth, writers, flushed);
            let as_told = format!("{growth}, {writers}, {times_longer}: {filled}");
            assert!((memtable / 2..memtable).contains(&filled), "{as_told}");
        }
    }

    #[test]
    fn nobody_is_told_to_wait_for_long() {
        let (pace, now) = (Pace::default(), Instant::now());
        pace.times.lock().front = Some((now, 1 << 30));
        for _ in 0..100 {
            assert!(pace.due(now, 1 << 30, 0, 1 << 20) <= now + PACED_MAX);
        }
        pace.note_flush_ends();
        assert!(pace.times.lock().front.is_none());
    }
}
