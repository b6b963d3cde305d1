//! The pause before a transaction runs again after a conflict, as in `Db::transact`.
//!
//! Invariant: two transactions that conflict are unlikely to make the same pauses.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Pause after the first conflict, in microseconds. Each further conflict doubles it.
const PAUSE_US: u64 = 50;
/// Maximum pause, in microseconds.
const PAUSE_US_MAX: u64 = 20_000;

/// Returns the pause after run number `run`, counted from 1, of a transaction with the number `id`:
/// between half of the full pause and all of it.
pub fn pause(run: u32, id: u64) -> Duration {
    let full_us = (PAUSE_US << run.saturating_sub(1).min(16)).min(PAUSE_US_MAX);
    let random = RandomState::new().hash_one(id);
    Duration::from_micros(full_us / 2 + random % (full_us / 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        for run in 0..200 {
            let full_us = (50u64 << run.clamp(1, 20) >> 1).min(20_000);
            let pauses: Vec<u64> = (0..64).map(|id| pause(run, id).as_micros() as u64).collect();
            for us in &pauses {
                assert!((full_us / 2..=full_us).contains(us), "{run}: {us}");
            }
            assert!(pauses.iter().any(|us| *us != pauses[0]), "{run}");
        }
    }
}
