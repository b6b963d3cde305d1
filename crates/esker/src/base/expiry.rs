//! Expiry: the times at which pairs expire, and the clock that they are compared with.
//!
//! The stored value of a put that expires begins with the time: eight bytes, big-endian, in
//! milliseconds since 1970. Nothing above the entries sees these bytes.
//!
//! Invariants:
//! 1. A pair is expired at a moment if its time is at or before that moment. [`NEVER_MS`] is after
//!    every moment.
//! 2. The clock of an open store never goes back. A rewrite takes its moment before it takes the
//!    list of snapshots, so every snapshot outside of its list has a later moment.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::key::SeqNo;
use super::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Length of the time at the beginning of a stored value, in bytes.
pub const TIME_BYTES: usize = 8;

/// The time of a pair that never expires.
pub const NEVER_MS: u64 = u64::MAX;

/// The clock by which pairs expire, and that dates forks. The default is the clock of the system.
///
/// The clock of an open store never goes back: where this clock goes back, the store stays at the
/// latest time that it has seen since it was opened. A pair that had expired may be back after the
/// store was closed and opened with an earlier time, unless a compaction has removed it.
///
/// Reads ask the clock only while a pair of the store may expire.
///
/// Reads and compactions call the clock, so it must be quick, and must not use the store or panic.
pub trait Clock: Send + Sync + 'static {
    /// Returns the present, in milliseconds since 1970.
    fn now_ms(&self) -> u64;
}

/// The clock of an open store.
#[derive(Default)]
pub struct StoreClock {
    /// `None`: the clock of the system.
    clock: Option<Arc<dyn Clock>>,
    /// The latest time seen.
    latest_ms: AtomicU64,
    /// Whether a pair of the store may expire.
    used: AtomicBool,
}

impl StoreClock {
    /// Creates the clock of a store, in which no pair expires yet.
    pub fn new(clock: Option<Arc<dyn Clock>>) -> StoreClock {
        StoreClock { clock, ..StoreClock::default() }
    }

    /// Returns the present, in milliseconds since 1970. It is never before an earlier result.
    pub fn now_ms(&self) -> u64 {
        let now_ms = match &self.clock {
            Some(clock) => clock.now_ms().min(NEVER_MS - 1),
            None => system_now_ms(),
        };
        self.latest_ms.fetch_max(now_ms, Ordering::Relaxed).max(now_ms)
    }

    /// Returns the present, or 0 while no pair of the store expires. The caller has loaded the
    /// sequence number of its read before.
    #[inline]
    pub fn now_if_used_ms(&self) -> u64 {
        if self.is_used() { self.now_ms() } else { 0 }
    }

    /// Returns whether a pair of the store may expire.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// States that a pair of the store may expire. Called before such a pair becomes visible.
    pub fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreClock({})", if self.clock.is_some() { "custom" } else { "system" })
    }
}

fn system_now_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(NEVER_MS - 1)
}

/// The moment of a read: what was written, and which pairs had expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Newer versions are invisible.
    pub seqno: SeqNo,
    /// The time, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Splits the stored value of a put that expires into its time and the user's value. A value that
/// is too short never expires.
#[inline]
pub fn split(stored: &[u8]) -> (u64, &[u8]) {
    match stored.split_first_chunk::<TIME_BYTES>() {
        Some((time, value)) => (u64::from_be_bytes(*time), value),
        None => (NEVER_MS, stored),
    }
}

/// Returns the time to live in milliseconds, rounded up. `None`: it ends after every time.
pub fn ttl_ms(ttl: Duration) -> Option<u64> {
    let ms = ttl.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).ok().filter(|ms| *ms != NEVER_MS)
}

/// Returns the time of a pair that is put at `now_ms` and lives for `ttl_ms`.
pub fn time_ms(now_ms: u64, ttl_ms: u64) -> u64 {
    now_ms.saturating_add(ttl_ms)
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_store_never_goes_back() {
        struct Turning(AtomicU64);
        impl Clock for Turning {
            fn now_ms(&self) -> u64 {
                self.0.load(Ordering::Relaxed)
            }
        }
        let turning = Arc::new(Turning(AtomicU64::new(5)));
        let clock = StoreClock::new(Some(turning.clone()));
        assert_eq!((clock.now_if_used_ms(), clock.now_ms()), (0, 5));
        clock.mark_used();
        for (set, shown) in [(3, 5), (9, 9), (0, 9), (u64::MAX, NEVER_MS - 1), (1, NEVER_MS - 1)] {
            turning.0.store(set, Ordering::Relaxed);
            assert_eq!((clock.now_if_used_ms(), clock.now_ms()), (shown, shown), "{set}");
        }
        assert!(StoreClock::default().now_ms() > 1_600_000_000_000);
    }

    #[test]
    fn a_time_to_live_is_rounded_up_and_saturates() {
        assert_eq!(ttl_ms(Duration::ZERO), Some(0));
        assert_eq!(ttl_ms(Duration::from_nanos(1)), Some(1));
        assert_eq!(ttl_ms(Duration::from_millis(1 << 63)), Some(1 << 63));
        for long in [Duration::from_millis(u64::MAX), Duration::from_secs(1 << 63), Duration::MAX] {
            assert_eq!(ttl_ms(long), None);
        }
        assert_eq!(time_ms(7, 5), 12);
        assert_eq!(time_ms(7, u64::MAX - 3), NEVER_MS);
        assert_eq!(split(&[0, 0, 0, 0, 0, 0, 1, 2, 7]), (258, &[7][..]));
        assert_eq!(split(&[7]), (NEVER_MS, &[7][..]));
    }
}
