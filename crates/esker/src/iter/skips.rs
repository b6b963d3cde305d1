//! What a cursor knows of the invisible keys in its way: the hints that it may use, and how many keys
//! it had to step over.
//!
//! Invariants: the numbers only decide how keys are passed, and never which keys a reader sees.

use std::sync::Arc;

use super::hints::Hints;
use crate::base::key::SeqNo;

/// Skip state: the hints for skipping keys, and the step budget of a move.
pub(super) struct SkipState {
    pub(super) hints: Arc<Hints>,
    /// Largest `since` of the hints that may be used.
    pub(super) as_of: SeqNo,
    /// Step budget: number of lookups after which a move ends unpositioned.
    pub(super) lookups_max: u64,
    pub(super) lookups: u64,
    /// Position at which a move exhausted the step budget.
    pub(super) stopped_at: Option<Arc<[u8]>>,
    /// Steps saved by all jumps so far.
    pub(super) skipped: u64,
}

/// The invisible keys that a seek passed.
#[derive(Clone, Copy, Default)]
pub struct Walk {
    /// Number of keys stepped over one by one since the last jump.
    pub dead: u64,
    /// Whether some of the keys, or of those that a hint has skipped, may be visible at an earlier
    /// time, because their pairs have expired.
    pub has_expired: bool,
}
