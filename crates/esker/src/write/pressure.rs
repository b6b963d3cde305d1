//! How much a writer is slowed, as a function of the debt: bytes that must still be flushed,
//! pushed or merged.
//!
//! Below half the limit nothing happens. From there the allowed rate falls smoothly from
//! [`RATE_FULL`] to [`RATE_LEAST`] at the limit and stays there, so that a writer sees a lower rate
//! and not a stall. Pure: no clock, no lock.

/// Bytes a second allowed where slowing begins.
pub const RATE_FULL: f64 = 1024.0 * 1024.0 * 1024.0;
/// Bytes a second allowed at the limit and beyond.
pub const RATE_LEAST: f64 = 4.0 * 1024.0 * 1024.0;

/// Nanoseconds a write of `bytes` should take at least, given the debt; 0 when not slowed.
///
/// The rate falls geometrically between half the limit and the limit: each further percent of
/// debt costs the same factor.
pub fn delay_ns(debt_bytes: u64, limit_bytes: u64, bytes: u64) -> u64 {
    let start = limit_bytes / 2;
    if debt_bytes <= start || limit_bytes == 0 {
        return 0;
    }
    let share = ((debt_bytes - start) as f64 / (limit_bytes - start).max(1) as f64).min(1.0);
    let rate = RATE_FULL * (RATE_LEAST / RATE_FULL).powf(share);
    (bytes as f64 / rate * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_zero_then_grows_without_a_jump_and_stays_bounded() {
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
