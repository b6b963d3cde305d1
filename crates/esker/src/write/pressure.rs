//! How much a writer is slowed: as a function of the debt (bytes that must still be flushed, pushed
//! or merged), and while so many memtables wait for their flush that the next full one would make
//! writers wait, too.
//!
//! Below half the debt's limit nothing happens. From there the allowed rate falls smoothly from
//! [`RATE_FULL`] to [`RATE_LEAST`] at the limit and stays there, so that a writer sees a lower rate
//! and not a stall. While as many memtables wait as may, what is left in the active one is made to last
//! until the first of them is flushed: at first for as long as flushes took lately, and when that
//! has passed, for half as long again as this one has taken. Pure: no clock, no lock.

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
pub const PACE_BYTES: u64 = 16 << 10;

/// Nanoseconds that the flush of a memtable of `bytes` may still take, which began `elapsed_ns` ago,
/// when flushes managed `flush_rate` bytes a second lately (0: unknown). One that takes longer than
/// those did is taken to need half of its time again, however long that is.
pub fn remaining_ns(bytes: u64, elapsed_ns: u64, flush_rate: u64) -> u64 {
    let flush_rate = if flush_rate == 0 { FLUSH_RATE_UNKNOWN } else { flush_rate };
    // A tenth slower than flushes were.
    let expected_ns = (bytes as f64 * 1e9 / (flush_rate as f64 * 0.9)) as u64;
    expected_ns.saturating_sub(elapsed_ns).max(elapsed_ns / 2)
}

/// Nanoseconds that writing `bytes` should take where `room_bytes` are left in the memtable and have
/// to last for `remaining_ns`.
pub fn pace_ns(bytes: u64, room_bytes: u64, remaining_ns: u64) -> u64 {
    (bytes as f64 / room_bytes.max(bytes).max(1) as f64 * remaining_ns as f64) as u64
}

/// The rate of flushes after one of `bytes` in `elapsed_ns`, when it was `before` (0: unknown).
pub fn flush_rate(before: u64, bytes: u64, elapsed_ns: u64) -> u64 {
    let rate = (bytes as f64 * 1e9 / elapsed_ns.max(1) as f64) as u64;
    if before == 0 { rate.max(1) } else { before.midpoint(rate).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes as fast as the pace lets it until `flushed_ns` have passed; returns how full the memtable
    /// of `memtable` bytes is then, and the longest wait.
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
    fn a_memtable_that_keeps_pace_has_room_until_the_one_before_is_flushed() {
        let (memtable, rate) = (64 << 20, 300_000_000);
        let expected_ns = memtable * 1_000_000_000 / rate;
        let (filled, longest_ns) = filled_after(memtable, rate, expected_ns);
        assert!((memtable / 2..memtable - memtable / 10).contains(&filled), "{filled}");
        assert!(longest_ns < 300_000, "waits are short: {longest_ns}");
        // Three times as long as expected.
        let (filled, longest_ns) = filled_after(memtable, rate, 3 * expected_ns);
        assert!(filled < memtable, "there is room left");
        assert!(longest_ns < 10_000_000, "no wait is a stop: {longest_ns}");
        // Faster than expected: who waits loses no time that the flush had needed.
        assert!(filled_after(memtable, rate, expected_ns / 2).0 > memtable * 4 / 10);
        assert_eq!(pace_ns(PACE_BYTES, 0, 1000), 1000);
        assert_eq!(pace_ns(0, 0, 1000), 0);
        assert_eq!(remaining_ns(memtable, 0, 0), remaining_ns(memtable, 0, FLUSH_RATE_UNKNOWN));
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
