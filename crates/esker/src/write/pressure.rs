//! How much a writer is slowed: as a function of the debt (bytes that must still be flushed, pushed
//! or merged), and while so many memtables wait for their flush that the next full one would make
//! writers wait, too.
//!
//! Below half the debt's limit nothing happens. From there the allowed rate falls smoothly from
//! [`RATE_FULL`] to [`RATE_LEAST`] at the limit and stays there, so that a writer sees a lower rate
//! and not a stall. While memtables wait, the active one may fill a little slower than the last ones
//! were flushed, so that there is room when it is full. Pure: no clock, no lock.

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

/// Memtable bytes a second that a flush is taken to manage before one was timed.
const FLUSH_RATE_UNKNOWN: u64 = 192 << 20;
/// A writer that keeps pace looks at the clock each time so many bytes were written.
pub const PACE_BYTES: u64 = 64 << 10;

/// Nanoseconds the active memtable is ahead of its pace: it grew by `grown_bytes` in `elapsed_ns`,
/// while flushes manage `flush_rate` bytes a second (0: unknown).
pub fn ahead_ns(grown_bytes: u64, elapsed_ns: u64, flush_rate: u64) -> u64 {
    let flush_rate = if flush_rate == 0 { FLUSH_RATE_UNKNOWN } else { flush_rate };
    // A tenth slower than flushes were.
    let needed_ns = grown_bytes as f64 * 1e9 / (flush_rate as f64 * 0.9);
    (needed_ns as u64).saturating_sub(elapsed_ns)
}

/// The rate of flushes after one of `bytes` in `elapsed_ns`, when it was `before` (0: unknown).
pub fn flush_rate(before: u64, bytes: u64, elapsed_ns: u64) -> u64 {
    let rate = (bytes as f64 * 1e9 / elapsed_ns.max(1) as f64) as u64;
    if before == 0 { rate.max(1) } else { before.midpoint(rate).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memtable_that_keeps_pace_fills_later_than_the_one_before_is_flushed() {
        let (memtable, rate) = (64 << 20, 300_000_000);
        let flushed_ns = memtable * 1_000_000_000 / rate;
        assert!(ahead_ns(memtable, flushed_ns, rate) > flushed_ns / 20, "there is time left");
        assert_eq!(ahead_ns(memtable, 2 * flushed_ns, rate), 0);
        assert_eq!(ahead_ns(0, 0, rate), 0);
        assert!(ahead_ns(PACE_BYTES, 0, rate) < 300_000, "waits are short");
        assert_eq!(flush_rate(0, 1000, 1_000_000_000), 1000);
        assert_eq!(flush_rate(3000, 1000, 1_000_000_000), 2000);
        assert!(flush_rate(0, 0, 5) > 0);
    }

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
