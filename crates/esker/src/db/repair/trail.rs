//! What the logs read so far, and the manifest, leave to be expected of the next one.
//!
//! What stays true: records are numbered through all logs without a gap, so a number that is left
//! out is a loss; it is told once, by what was found damaged before it or by the gap itself.

use crate::tree::set::VersionSet;
use crate::wal::LogReader;

/// See the module.
#[derive(Default)]
pub struct Trail {
    /// The record that comes next, once that is known.
    next_ordinal: Option<u64>,
    /// Logs that must be there.
    needed: [u64; 2],
    /// The log closed last, and how many bytes of records it must hold.
    closed: (u64, u64),
    /// Whether a loss was told since the last record.
    told: bool,
}

impl Trail {
    /// What the manifest says of the logs.
    pub fn new(versions: &VersionSet) -> Trail {
        Trail {
            next_ordinal: versions.min_wal_ordinal(),
            needed: [versions.min_wal(), versions.newest_wal()],
            closed: versions.closed_wal(),
            told: false,
        }
    }

    /// Logs below this number are not needed.
    pub fn min_wal(&self) -> u64 {
        self.needed[0]
    }

    /// The logs that the manifest names and that are not among `logs`.
    pub fn missing(&self, logs: &[u64]) -> Vec<u64> {
        let mut missing = self.needed.to_vec();
        missing.dedup();
        missing.retain(|n| *n != 0 && *n >= self.min_wal() && logs.binary_search(n).is_err());
        missing
    }

    /// A loss was listed; the records it took are no other one.
    pub fn told(&mut self) {
        self.told = true;
    }

    /// What is wrong with the beginning of a log.
    pub fn begin(&mut self, reader: &LogReader) -> Option<String> {
        let first = reader.start()?.first_ordinal;
        // One that was made and never used may begin before the end of those before it.
        self.reach(first.max(self.next_ordinal.unwrap_or(first)))
    }

    /// What is missing before a record.
    pub fn record(&mut self, ordinal: u64) -> Option<String> {
        let gap = self.reach(ordinal);
        self.next_ordinal = Some(ordinal + 1);
        gap
    }

    fn reach(&mut self, ordinal: u64) -> Option<String> {
        let want = self.next_ordinal.replace(ordinal).filter(|want| *want < ordinal);
        let told = std::mem::take(&mut self.told);
        want.filter(|_| !told)
            .map(|want| format!("expected record {want} of the logs, found record {ordinal}"))
    }

    /// What is wrong with the end of a log.
    pub fn end(&mut self, reader: &LogReader, number: u64) -> Option<String> {
        let (closed, bytes) = self.closed;
        if self.told || closed != number || reader.at_bytes() >= bytes {
            return None;
        }
        self.told = true;
        let found = reader.at_bytes();
        Some(format!(
            "expected {bytes} bytes of whole records when this log was closed, found {found}"
        ))
    }
}
