//! Clock for single operations: the processor's own counter if steady, which takes a few
//! nanoseconds to read, otherwise the system's monotonic clock.
//!
//! Readings never go backwards on one thread. Readings of several threads agree to within the
//! system's own synchronisation of the counters.

/// A clock that can be cloned for every thread.
#[derive(Clone, Debug)]
pub struct Clock(quanta::Clock);

/// A clock reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading(u64);

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

impl Clock {
    /// Creates the best available clock. The first clock of a process takes some milliseconds to
    /// calibrate.
    pub fn new() -> Clock {
        Clock(quanta::Clock::new())
    }

    /// Reads the clock.
    #[inline]
    pub fn now(&self) -> Reading {
        Reading(self.0.raw())
    }

    /// Returns the nanoseconds from one reading to a later one; 0 if it is not later.
    #[inline]
    pub fn nanos(&self, from: Reading, to: Reading) -> u64 {
        self.0.delta_as_nanos(from.0, to.0.max(from.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn clock_matches_system_clock() {
        let clock = Clock::new();
        let (start, from) = (Instant::now(), clock.now());
        std::thread::sleep(Duration::from_millis(50));
        let (to, elapsed) = (clock.now(), start.elapsed().as_nanos() as f64);
        let nanos = clock.nanos(from, to) as f64;
        // The two clocks are read one after the other: apart from calibration error, the inner
        // interval is no longer than the outer interval.
        assert!(nanos >= 49e6 && nanos <= elapsed * 1.01, "{nanos} of {elapsed}");
        assert_eq!(clock.nanos(to, from), 0);
    }
}
