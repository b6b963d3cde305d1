//! Waits for a store to become quiet, with its background work done, and measures the cost.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::host;
use crate::target::Target;

/// State of the store at the end of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// Duration of the wait; the limit if the store did not become quiet.
    pub waited_seconds: f64,
    /// Whether the store became quiet within the limit.
    pub reached: bool,
    /// Bytes written per byte written by the user, since the store was empty, including the wait.
    pub write_amplification: Option<f64>,
    /// Bytes on disk per byte of the live pairs.
    pub space_amplification: Option<f64>,
    /// Allocated disk blocks, in bytes.
    pub disk_bytes: u64,
    /// Number of files.
    pub disk_files: u64,
}

/// Time without writes and almost without CPU use after which the store counts as quiet.
const QUIET_FOR: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// CPU seconds per poll interval above which background work is assumed.
const IDLE_CPU_SECONDS: f64 = 0.01;
/// Maximum wait.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Waits until writing stops. Returns the duration, and whether the store became quiet.
pub fn wait(target: &dyn Target) -> (f64, bool) {
    let start = Instant::now();
    let written = || host::io().map_or(0, |io| io.write_call_bytes) + target.mapped_write_bytes();
    let (mut bytes, mut cpu, mut quiet_since) = (written(), host::cpu_seconds(), Instant::now());
    while start.elapsed() < WAIT_MAX {
        std::thread::sleep(LOOK_EVERY);
        let (now_bytes, now_cpu) = (written(), host::cpu_seconds());
        if now_bytes != bytes || now_cpu - cpu > IDLE_CPU_SECONDS {
            quiet_since = Instant::now();
        }
        (bytes, cpu) = (now_bytes, now_cpu);
        if quiet_since.elapsed() >= QUIET_FOR {
            return ((quiet_since - start).min(WAIT_MAX).as_secs_f64(), true);
        }
    }
    (WAIT_MAX.as_secs_f64(), false)
}

impl Quiet {
    /// Measures the store at `dir` after a wait; it contains `live_bytes` of pairs.
    pub fn found(
        (waited_seconds, reached): (f64, bool),
        write_amplification: Option<f64>,
        live_bytes: f64,
        dir: &Path,
    ) -> Quiet {
        let disk = host::disk_use(dir);
        let space = disk.allocated_bytes as f64 / live_bytes;
        Quiet {
            waited_seconds,
            reached,
            write_amplification,
            space_amplification: Some(space).filter(|space| space.is_finite()),
            disk_bytes: disk.allocated_bytes,
            disk_files: disk.files,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Reference;
    use crate::target::{Engine, StoreOptions};

    #[test]
    fn store_without_background_work_is_quiet_immediately() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Reference.open(dir.path(), &StoreOptions::default()).expect("opens");
        let waited = wait(store.as_ref());
        assert!(waited.0 >= 0.0 && waited.0 <= WAIT_MAX.as_secs_f64());
        std::fs::write(dir.path().join("file"), [1u8; 100]).expect("written");
        let found = Quiet::found(waited, Some(2.0), 1000.0, dir.path());
        assert_eq!((found.disk_files, found.write_amplification), (1, Some(2.0)));
        assert!(found.space_amplification.is_some_and(|space| space > 0.0));
        assert_eq!(Quiet::found(waited, None, 0.0, dir.path()).space_amplification, None);
    }
}
