//! What a write waits for: the cause, the bytes, and what ends the wait.

use std::fmt;
use std::time::Duration;

use crate::base::units::human_bytes;

/// A stall or a slowdown of writes ([`Db::stall`](crate::Db::stall)).
///
/// Its text, by its `Display`, is one sentence without its end. The error of a write whose deadline
/// has passed contains the same sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// Why writes wait.
    pub cause: String,
    /// Bytes that have to be written to tables before writes go on at full speed: of immutable
    /// memtables, or of the compaction debt.
    pub bytes: u64,
    /// What ends the wait.
    pub clears: String,
    /// Time since the wait began.
    pub duration: Duration,
    /// Whether writes wait until the cause is gone. `false`: each write is only slowed.
    pub is_stopped: bool,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stall { cause, bytes, clears, .. } = self;
        write!(f, "{cause}; {} have to be written to tables; {clears}", human_bytes(*bytes))
    }
}
