//! The clock of the campaigns' stores: it stands still until a script turns it.
//!
//! Invariants: each run of a script has a clock of its own, so runs at the same time do not disturb
//! each other, and a fork has the same bytes in each run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use esker::{Clock, Options};

/// The time at which every script begins, in milliseconds since 1970.
pub const START_MS: u64 = 1_700_000_000_000;

/// A clock that stands still until it is turned.
#[derive(Debug)]
pub struct ScriptClock(AtomicU64);

impl ScriptClock {
    /// Creates a clock that shows this time.
    pub fn new(now_ms: u64) -> Arc<ScriptClock> {
        Arc::new(ScriptClock(AtomicU64::new(now_ms)))
    }

    /// Turns the clock to this time.
    pub fn turn(&self, now_ms: u64) {
        self.0.store(now_ms, Relaxed);
    }
}

impl Clock for ScriptClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Returns the options with a clock that stands still at this time.
pub fn standing_at(options: &Options, now_ms: u64) -> Options {
    Options { clock: Some(ScriptClock::new(now_ms)), ..options.clone() }
}
