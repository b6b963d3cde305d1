//! How writers keep pace with the flushes: see [`pressure`].
//!
//! What stays true: nobody sleeps here with a lock held; a writer that is slower than the pace by itself
//! does not sleep at all; all writers together keep one pace.

use std::time::{Duration, Instant};

use super::state::Inner;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::write::pressure;

/// What a writer that keeps pace sleeps at most at once, and what is not worth a sleep.
const PACED_MAX: Duration = Duration::from_millis(5);
const PACED_MIN: Duration = Duration::from_micros(50);

/// The times that matter to the pace.
#[derive(Default)]
struct Times {
    /// When the first memtable's flush began, and how large it is.
    front: Option<(Instant, u64)>,
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

    /// Notes how long the flush of a memtable took.
    pub fn note_flush(&self, bytes: u64, elapsed: Duration) {
        let before = self.flush_rate.load(Ordering::Relaxed);
        let rate = pressure::flush_rate(before, bytes, elapsed.as_nanos() as u64);
        self.flush_rate.store(rate, Ordering::Relaxed);
    }

    /// Until when a writer should sleep that comes `now`, after `bytes` more were written and with
    /// `room_bytes` left in a memtable of `memtable_bytes`.
    fn due(&self, now: Instant, bytes: u64, room_bytes: u64, memtable_bytes: u64) -> Instant {
        let rate = self.flush_rate.load(Ordering::Relaxed);
        let mut times = self.times.lock();
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
        self.pace.unpaced_bytes.store(0, Ordering::Relaxed);
        let now = Instant::now();
        let full = self.write_knobs.memtable_bytes.load(Ordering::Relaxed);
        let room = full.saturating_sub(self.view.load().active.memory_bytes() as u64);
        let wait = self.pace.due(now, written, room, full).saturating_duration_since(now);
        if wait > PACED_MIN {
            crate::base::sync::thread::sleep(wait);
            self.counters.slowed_us.add(wait.as_micros() as u64);
        }
    }

    /// Notes whether the next full memtable would make writers wait. The queue is locked.
    pub fn note_crowd(&self, frozen: usize) {
        let crowded =
            !self.stepped() && frozen >= self.options.load().frozen_memtables_max as usize;
        if !crowded {
            self.pace.times.lock().due = None;
        }
        self.pace.crowded.store(crowded, Ordering::Relaxed);
    }
}
