//! The write throttle: how much a writer is slowed. It depends on the debt (bytes that still have
//! to be flushed, pushed or merged), and on the number of memtables that wait for a flush, if the
//! next full memtable would stall the writers.
//!
//! Below half the debt limit there is no delay. From there the allowed rate falls smoothly from
//! [`RATE_FULL`] to [`RATE_LEAST`] at the limit, and then stays constant. A writer thus sees a
//! lower rate and not a stall.
//!
//! While the maximum number of memtables waits, the rest of the active memtable is made to last
//! until the first of them is flushed. The expected flush time is the time of recent flushes. After
//! that time it is half of the elapsed time of the current flush. Pure functions: no clock, no
//! lock.

/// Allowed rate where the throttle begins, in bytes per second.
pub const RATE_FULL: f64 = 1024.0 * 1024.0 * 1024.0;
/// Allowed rate at the limit and beyond, in bytes per second.
pub const RATE_LEAST: f64 = 4.0 * 1024.0 * 1024.0;

/// Returns the minimum duration of a write of `bytes`, given the debt, in ns; 0 when not slowed.
///
/// The rate falls geometrically between half the limit and the limit: each further percent of debt
/// costs the same factor.
pub fn delay_ns(debt_bytes: u64, limit_bytes: u64, bytes: u64) -> u64 {
    let start = limit_bytes / 2;
    if debt_bytes <= start || limit_bytes == 0 {
        return 0;
    }
    let share = ((debt_bytes - start) as f64 / (limit_bytes - start).max(1) as f64).min(1.0);
    let rate = RATE_FULL * (RATE_LEAST / RATE_FULL).powf(share);
    (bytes as f64 / rate * 1e9) as u64
}

/// Assumed flush rate before the first measurement, in memtable bytes per second.
const FLUSH_RATE_UNKNOWN: u64 = 192 << 20;
/// A throttled writer reads the clock each time this many bytes were written.
pub const PACE_BYTES: u64 = 16 << 10;

/// Returns the expected remaining time of a flush, in ns. The memtable has `bytes` bytes, the flush
/// began `elapsed_ns` ago, and recent flushes ran at `flush_rate` bytes per second (0: unknown). A
/// flush that takes longer than expected is assumed to need half of its elapsed time again, however
/// long that is.
pub fn remaining_ns(bytes: u64, elapsed_ns: u64, flush_rate: u64) -> u64 {
    let flush_rate = if flush_rate == 0 { FLUSH_RATE_UNKNOWN } else { flush_rate };
    // A tenth slower than recent flushes.
    let expected_ns = (bytes as f64 * 1e9 / (flush_rate as f64 * 0.9)) as u64;
    expected_ns.saturating_sub(elapsed_ns).max(elapsed_ns / 2)
}

/// Returns the target duration of a write of `bytes`, in ns. The memtable has `room_bytes` left,
/// which have to last for `remaining_ns`.
pub fn pace_ns(bytes: u64, room_bytes: u64, remaining_ns: u64) -> u64 {
    (bytes as f64 / room_bytes.max(bytes).max(1) as f64 * remaining_ns as f64) as u64
}

/// Returns the new flush rate after a flush of `bytes` in `elapsed_ns`. `before` is the old rate
/// (0: unknown).
pub fn flush_rate(before: u64, bytes: u64, elapsed_ns: u64) -> u64 {
    let rate = (bytes as f64 * 1e9 / elapsed_ns.max(1) as f64) as u64;
    if before == 0 { rate.max(1) } else { before.midpoint(rate).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes as fast as the throttle allows until `flushed_ns` have passed. Returns the fill of
    /// the memtable of `memtable` bytes at that time, and the longest wait.
    fn filled_after(memtable: u64, rate: u64, flushed_ns: u64) -> (u64, u64) {
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
        let (filled, longest_ns) = filled_after(memtable, rate, expected_ns);
        assert!((memtable / 2..memtable - memtable / 10).contains(&filled), "{filled}");
        assert!(longest_ns < 300_000, "waits are short: {longest_ns}");
        // A flush that takes three times the expected time.
        let (filled, longest_ns) = filled_after(memtable, rate, 3 * expected_ns);
        assert!(filled < memtable, "no space is left in the memtable");
        assert!(longest_ns < 10_000_000, "no wait is a stop: {longest_ns}");
        // A flush that is faster than expected: the waits cost no time beyond the flush.
        assert!(filled_after(memtable, rate, expected_ns / 2).0 > memtable * 4 / 10);
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
