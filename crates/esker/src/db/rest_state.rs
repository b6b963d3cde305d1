//! When a store is at rest, and how much it may write then. [`super::rest`] does the work.
//!
//! Invariants:
//! * A rest begins some time after the last write, and once for each write that was seen.
//! * The bytes that rest compactions write are taken from an allowance. A flush adds what it wrote,
//!   the opening adds up to [`OPENING_FACTOR`] times the unmerged bytes. When a rest begins, the
//!   allowance is at most the bytes of all tables.

use std::time::{Duration, Instant};

use crate::base::key::SeqNo;

/// Bytes that rest compactions may write after an opening, for each byte that lies unmerged then. A
/// store that closes before its rest has no other way to ever merge.
const OPENING_FACTOR: u64 = 4;

/// The compactions of one rest.
pub(super) struct Period {
    pub began: Instant,
    pub compactions: u64,
    pub written_bytes: u64,
}

/// State of the rest, in the queue.
#[derive(Default)]
pub(crate) struct Rest {
    /// The last sequence number, and when it was first seen.
    pub(super) seen: Option<(SeqNo, Instant)>,
    /// The last sequence number when a rest had finished.
    pub(super) finished_at: Option<SeqNo>,
    /// The last sequence number when a rest tried to flush the memtable.
    pub(super) flush_tried_at: Option<SeqNo>,
    /// Bytes that rest compactions may write.
    pub(super) allowance_bytes: u64,
    /// Bytes that the running rest compaction has merged, roughly.
    pub(super) merged_bytes: u64,
    /// Whether the opening has added to the allowance.
    is_opening_counted: bool,
    /// Whether a thread waits for the begin of a rest.
    pub(super) is_watched: bool,
    pub(super) period: Option<Period>,
}

/// Whether a store is at rest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RestState {
    /// The store is not at rest before this time.
    NotBefore(Instant),
    /// The store is at rest.
    Resting,
    /// The store has done all work of its rest. Its next rest begins some time after a write.
    Finished,
}

impl Rest {
    /// Returns whether the store, with this last sequence number, is at rest: whether
    /// nothing was written for `wait`.
    pub(super) fn poll(&mut self, now: Instant, seqno: SeqNo, wait: Duration) -> RestState {
        if self.finished_at == Some(seqno) {
            return RestState::Finished;
        }
        let since = match self.seen {
            Some((seen, since)) if seen == seqno => since,
            _ => now,
        };
        self.seen = Some((seqno, since));
        let begin = since + wait;
        if now < begin { RestState::NotBefore(begin) } else { RestState::Resting }
    }

    /// Starts the wait for the next rest now.
    pub(super) fn postpone(&mut self, now: Instant) {
        if let Some((_, since)) = &mut self.seen {
            *since = now;
        }
    }

    /// Records that a flush wrote `bytes`.
    pub fn note_flush(&mut self, bytes: u64) {
        self.allowance_bytes = self.allowance_bytes.saturating_add(bytes);
    }

    /// Sets the allowance for a rest that begins, in a store of `table_bytes`, of which `unmerged`
    /// returns the unmerged ones.
    pub(super) fn begin(&mut self, table_bytes: u64, unmerged: impl FnOnce() -> u64) {
        if !std::mem::replace(&mut self.is_opening_counted, true) {
            let opening = unmerged().saturating_mul(OPENING_FACTOR);
            self.allowance_bytes = self.allowance_bytes.max(opening);
        }
        self.allowance_bytes = self.allowance_bytes.min(table_bytes);
    }

    pub(super) fn charge(&mut self, bytes: u64) {
        self.allowance_bytes = self.allowance_bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_millis(2_000);

    #[test]
    fn rest_begins_after_wait_without_write_and_once_per_write() {
        let (mut rest, start) = (Rest::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(rest.poll(at(0), 7, WAIT), RestState::NotBefore(at(2_000)));
        assert_eq!(rest.poll(at(1_999), 7, WAIT), RestState::NotBefore(at(2_000)));
        // A write starts the wait again, from the moment at which it was seen.
        assert_eq!(rest.poll(at(2_000), 8, WAIT), RestState::NotBefore(at(4_000)));
        assert_eq!(rest.poll(at(4_000), 8, WAIT), RestState::Resting);
        assert_eq!(rest.poll(at(4_500), 8, WAIT), RestState::Resting);
        rest.postpone(at(4_500));
        assert_eq!(rest.poll(at(6_499), 8, WAIT), RestState::NotBefore(at(6_500)));
        assert_eq!(rest.poll(at(6_500), 8, WAIT), RestState::Resting);
        rest.finished_at = Some(8);
        assert_eq!(rest.poll(at(60_000), 8, WAIT), RestState::Finished);
        assert_eq!(rest.poll(at(60_000), 9, WAIT), RestState::NotBefore(at(62_000)));
        assert_eq!(rest.poll(at(62_000), 9, WAIT), RestState::Resting);
    }

    #[test]
    fn allowance_is_what_flushes_wrote_and_never_more_than_the_tables() {
        let mut rest = Rest::default();
        rest.begin(1_000, || 30);
        assert_eq!(rest.allowance_bytes, 30 * OPENING_FACTOR);
        rest.charge(100);
        rest.note_flush(200);
        rest.begin(1_000, || panic!("the opening was counted before"));
        assert_eq!(rest.allowance_bytes, 220);
        rest.note_flush(5_000);
        rest.begin(1_000, || 0);
        assert_eq!(rest.allowance_bytes, 1_000);
        rest.charge(1_001);
        assert_eq!(rest.allowance_bytes, 0);
        // The maximum applies to the allowance after an opening too.
        let mut opened = Rest::default();
        opened.begin(1_000, || 900);
        assert_eq!(opened.allowance_bytes, 1_000);
    }
}
