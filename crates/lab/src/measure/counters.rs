//! Differences of the process's counters over one task, and write amplification derived from them.
//!
//! Only one engine is open at a time, so all writes of the process are that engine's. Leftover
//! background work of a task is counted in the task during which it happens.

use serde::{Deserialize, Serialize};

use super::host::{self, Io};

/// Counter used for write amplification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteSource {
    /// `wchar`: bytes passed to write calls, plus the bytes that the engine reports as written
    /// through maps. A page written twice counts twice, independent of its writeback to the disk,
    /// so that short and long runs agree.
    WriteCalls,
    /// `write_bytes`: bytes of pages made dirty. Used if it is the larger, as for writes through a
    /// map.
    DirtyPages,
}

/// Counter values at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    cpu_seconds: f64,
    io: Option<Io>,
}

/// Resources used between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// CPU seconds of all threads.
    pub cpu_seconds: f64,
    /// Bytes passed to write calls, or written through maps and counted by the engine.
    pub write_call_bytes: Option<u64>,
    /// Bytes returned by read calls.
    #[serde(default)]
    pub read_call_bytes: Option<u64>,
    /// Bytes of pages made dirty.
    pub write_disk_bytes: Option<u64>,
    /// Bytes read from a disk.
    pub read_disk_bytes: Option<u64>,
}

impl Moment {
    /// Reads the current values.
    pub fn now() -> Moment {
        Moment { cpu_seconds: host::cpu_seconds(), io: host::io() }
    }

    /// Returns the resources used since this moment.
    pub fn used(&self) -> Used {
        let now = Moment::now();
        let difference = |of: fn(&Io) -> u64| match (&self.io, &now.io) {
            (Some(before), Some(after)) => Some(of(after).saturating_sub(of(before))),
            _ => None,
        };
        Used {
            cpu_seconds: now.cpu_seconds - self.cpu_seconds,
            read_call_bytes: difference(|io| io.read_call_bytes),
            write_call_bytes: difference(|io| io.write_call_bytes),
            write_disk_bytes: difference(|io| io.write_disk_bytes),
            read_disk_bytes: difference(|io| io.read_disk_bytes),
        }
    }
}

impl Used {
    /// Adds the bytes that the engine reports as written through maps.
    pub fn with_mapped(mut self, bytes: u64) -> Used {
        self.write_call_bytes = self.write_call_bytes.map(|calls| calls + bytes);
        self
    }

    /// Subtracts processor time used by the lab itself.
    pub fn without_cpu(mut self, seconds: f64) -> Used {
        self.cpu_seconds -= seconds;
        self
    }

    /// Returns the bytes written per byte written by the user, and the counter used; `None` if the
    /// user wrote nothing or the system has no counters.
    pub fn write_amplification(&self, user_bytes: u64) -> Option<(f64, WriteSource)> {
        if user_bytes == 0 {
            return None;
        }
        let ratio = |bytes: u64| bytes as f64 / user_bytes as f64;
        let (calls, disk) = (self.write_call_bytes?, self.write_disk_bytes?);
        // Dirty pages are counted whole, so small synced writes dirty more bytes than they write.
        // Only maps dirty pages without any call.
        if disk > calls.saturating_mul(2) && calls < user_bytes {
            return Some((ratio(disk), WriteSource::DirtyPages));
        }
        Some((ratio(calls), WriteSource::WriteCalls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_amplification_prefers_write_calls_and_missing_is_none() {
        let used = |disk, calls| Used {
            cpu_seconds: 0.0,
            read_call_bytes: None,
            write_call_bytes: calls,
            write_disk_bytes: disk,
            read_disk_bytes: None,
        };
        let calls = used(Some(4096), Some(200)).write_amplification(100);
        assert_eq!(calls, Some((2.0, WriteSource::WriteCalls)));
        let mapped = used(Some(300), Some(0)).write_amplification(100);
        assert_eq!(mapped, Some((3.0, WriteSource::DirtyPages)));
        let counted = used(Some(300), Some(0)).with_mapped(250).write_amplification(100);
        assert_eq!(counted, Some((2.5, WriteSource::WriteCalls)));
        assert_eq!(used(None, None).write_amplification(100), None);
        assert_eq!(used(Some(1), Some(1)).write_amplification(0), None);
    }
}
