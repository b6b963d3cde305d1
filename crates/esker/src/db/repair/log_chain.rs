//! The log chain: what the manifest and the logs read so far say about the next log.
//!
//! Invariants: records are numbered through all logs without a gap, so a missing number is a loss.
//! Each loss is reported once: by the damage found before the gap, or else by the gap itself.

use crate::tree::set::VersionSet;
use crate::wal::LogReader;

/// The expected log chain; see the module.
#[derive(Default)]
pub struct LogChain {
    /// Ordinal of the next record, once it is known.
    next_ordinal: Option<u64>,
    /// Numbers of the logs that must exist.
    needed: [u64; 2],
    /// Number of the log that was closed last, and the bytes of records that it must hold.
    closed: (u64, u64),
    /// Whether a loss was reported since the last record.
    loss_reported: bool,
}

impl LogChain {
    /// Returns the log chain that the manifest describes.
    pub fn new(versions: &VersionSet) -> LogChain {
        LogChain {
            next_ordinal: versions.min_wal_ordinal(),
            needed: [versions.min_wal(), versions.newest_wal()],
            closed: versions.closed_wal(),
            loss_reported: false,
        }
    }

    /// Returns the number below which logs are not needed.
    pub fn min_wal(&self) -> u64 {
        self.needed[0]
    }

    /// Returns the logs that the manifest names and that are not in `logs`.
    pub fn missing(&self, logs: &[u64]) -> Vec<u64> {
        let mut missing = self.needed.to_vec();
        missing.dedup();
        missing.retain(|n| *n != 0 && *n >= self.min_wal() && logs.binary_search(n).is_err());
        missing
    }

    /// Notes that a loss was reported. The records missing because of it are not a second loss.
    pub fn note_reported_loss(&mut self) {
        self.loss_reported = true;
    }

    /// Checks the beginning of a log; returns the problem, if any.
    pub fn begin(&mut self, reader: &LogReader) -> Option<String> {
        let first = reader.start()?.first_ordinal;
        // A log that was created and never used may begin before the end of its predecessors.
        self.reach(first.max(self.next_ordinal.unwrap_or(first)))
    }

    /// Checks that no record is missing before `ordinal`; returns the problem, if any.
    pub fn record(&mut self, ordinal: u64) -> Option<String> {
        let gap = self.reach(ordinal);
        self.next_ordinal = Some(ordinal + 1);
        gap
    }

    fn reach(&mut self, ordinal: u64) -> Option<String> {
        let want = self.next_ordinal.replace(ordinal).filter(|want| *want < ordinal);
        let loss_reported = std::mem::take(&mut self.loss_reported);
        want.filter(|_| !loss_reported)
            .map(|want| format!("expected record {want} of the logs, found record {ordinal}"))
    }

    /// Checks the end of a log; returns the problem, if any.
    pub fn end(&mut self, reader: &LogReader, number: u64) -> Option<String> {
        let (closed, bytes) = self.closed;
        if self.loss_reported || closed != number || reader.at_bytes() >= bytes {
            return None;
        }
        self.loss_reported = true;
        let found = reader.at_bytes();
        Some(format!(
            "expected {bytes} bytes of whole records when this log was closed, found {found}"
        ))
    }
}
