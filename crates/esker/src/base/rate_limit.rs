//! A limit on the bytes that background work writes in a second.
//!
//! Invariants: every byte is counted. A caller waits for its own bytes, after it has taken them, so
//! callers that wait at the same time get their turn in the order in which they came. An urgent
//! caller waits only for what it is more than half a second ahead.

use std::time::{Duration, Instant};

use super::sync::Mutex;
use super::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum length of one sleep. The caller's end is checked after each.
const SLEEP: Duration = Duration::from_millis(20);
/// Divisor of the rate: bytes of this fraction of a second may be written without a wait.
const BURST_PART: f64 = 20.0;

struct Balance {
    /// Bytes that may be written now; negative while callers are ahead.
    bytes: f64,
    at: Option<Instant>,
}

/// A limit on bytes per second.
pub struct RateLimit {
    bytes_per_second: u64,
    balance: Mutex<Balance>,
    written_bytes: AtomicU64,
}

impl RateLimit {
    /// Creates a limit. 0 is no limit.
    pub fn new(bytes_per_second: u64) -> RateLimit {
        RateLimit {
            bytes_per_second,
            balance: Mutex::new(Balance { bytes: 0.0, at: None }),
            written_bytes: AtomicU64::new(0),
        }
    }

    /// Returns the bytes taken so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Relaxed)
    }

    /// Takes `bytes` at the time `now`. Returns the time to wait.
    fn debit(&self, bytes: u64, is_urgent: bool, now: Instant) -> Duration {
        let rate = self.bytes_per_second as f64;
        let mut balance = self.balance.lock();
        let elapsed = balance.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        balance.at = Some(balance.at.map_or(now, |at| at.max(now)));
        balance.bytes = (balance.bytes + elapsed * rate).min(rate / BURST_PART) - bytes as f64;
        let credit = if is_urgent { rate / 2.0 } else { 0.0 };
        Duration::from_secs_f64(((-balance.bytes - credit) / rate).clamp(0.0, 3600.0))
    }

    /// Takes `bytes`, and waits until the rate allows them or `is_ended` returns true.
    pub fn take(&self, bytes: u64, is_urgent: bool, is_ended: &dyn Fn() -> bool) {
        self.written_bytes.fetch_add(bytes, Relaxed);
        if self.bytes_per_second == 0 {
            return;
        }
        let began = Instant::now();
        let due = began + self.debit(bytes, is_urgent, began);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || is_ended() {
                return;
            }
            super::sync::thread::sleep(left.min(SLEEP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_kept_and_urgent_callers_go_first() {
        let limit = RateLimit::new(1000);
        let began = Instant::now();
        let after = |ms: u64| began + Duration::from_millis(ms);
        let ms = |wait: Duration| wait.as_millis();
        assert_eq!(ms(limit.debit(100, false, began)), 100);
        assert_eq!(ms(limit.debit(300, false, began)), 400);
        assert_eq!(ms(limit.debit(100, true, began)), 0, "half a second is free for flushes");
        assert_eq!(ms(limit.debit(200, true, after(100))), 100);
        // Unused time is not credited beyond a twentieth of a second.
        assert_eq!(ms(limit.debit(150, false, after(100_000))), 100);
        // A clock that goes back credits nothing.
        assert_eq!(ms(limit.debit(100, false, began)), 200);
    }

    #[test]
    fn no_limit_counts_only_and_end_cuts_wait_short() {
        let limit = RateLimit::new(0);
        limit.take(1 << 40, false, &|| panic!("a wait without a limit"));
        assert_eq!(limit.written_bytes(), 1 << 40);
        let limit = RateLimit::new(1);
        limit.take(1 << 30, false, &|| true);
        assert_eq!(limit.written_bytes(), 1 << 30);
    }
}
