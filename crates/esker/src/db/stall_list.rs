//! The write stalls that run now, as the queue holds them, and their causes ([`super::stall`]).

use std::time::Instant;

/// Why writers wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StallCause {
    /// For flushes of the store, because of this.
    Flush(&'static str),
    /// For flushes of the stores of the runtime, whose memtables have this many bytes.
    RuntimeMemory(u64),
}

impl StallCause {
    /// Returns the cause as a part of a sentence.
    pub fn text(self) -> &'static str {
        match self {
            StallCause::Flush(text) => text,
            StallCause::RuntimeMemory(_) => {
                "the memtables of the stores of the runtime use their part of its memory budget, \
                 and writers take turns"
            }
        }
    }
}

/// A running stall in the list of the queue.
pub(crate) struct RunningStall {
    pub number: u64,
    pub cause: StallCause,
    pub began: Instant,
}

/// The stalls that run now.
#[derive(Default)]
pub(crate) struct RunningStalls {
    /// Oldest first.
    pub list: Vec<RunningStall>,
    /// Number of the next one.
    pub next: u64,
}
