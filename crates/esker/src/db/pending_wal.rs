//! The log that is created ahead of time ([`super::wal_preallocation`]), as the queue holds it.

use crate::wal::LogWriter;

/// The next log is requested when this fraction (one fourth) of the memtable is full.
pub(super) const NEXT_LOG_FROM: u64 = 4;

/// State of the pending WAL.
#[derive(Default)]
pub(crate) enum PendingWal {
    /// Not requested.
    #[default]
    NotRequested,
    /// Requested by a writer.
    Wanted,
    /// Being created by a thread.
    Making,
    /// Created.
    Ready(Box<LogWriter>),
}

impl PendingWal {
    /// Returns whether a thread should create the log now.
    pub fn is_wanted(&self) -> bool {
        matches!(self, PendingWal::Wanted)
    }
}
