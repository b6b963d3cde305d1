//! Waiting until a store is quiet: its background work done, and what that has cost.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::host;
use crate::target::Target;

/// What was found when the store was quiet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// How long it took; the limit where it did not come.
    pub waited_seconds: f64,
    /// Whether it came within the limit.
    pub reached: bool,
    /// Bytes written for each byte the user wrote, since the store was empty, the wait included.
    pub write_amplification: Option<f64>,
    /// Bytes on disk for each byte of the pairs that are there.
    pub space_amplification: Option<f64>,
    /// Disk blocks taken.
    pub disk_bytes: u64,
    /// Files.
    pub disk_files: u64,
}

/// Nothing written and next to no CPU for so long is quiet.
const CALM: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// CPU seconds in a look that background work exceeds.
const IDLE_CPU_SECONDS: f64 = 0.01;
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Waits until nothing is written any more. How long, and whether it came.
pub fn wait(target: &dyn Target) -> (f64, bool) {
    let start = Instant::now();
    let written = || host::io().map_or(0, |io| io.write_call_bytes) + target.mapped_write_bytes();
    let (mut bytes, mut cpu, mut calm_since) = (written(), host::cpu_seconds(), Instant::now());
    while start.elapsed() < WAIT_MAX {
        std::thread::sleep(LOOK_EVERY);
        let (now_bytes, now_cpu) = (written(), host::cpu_seconds());
        if now_bytes != bytes || now_cpu - cpu > IDLE_CPU_SECONDS {
            calm_since = Instant::now();
        }
        (bytes, cpu) = (now_bytes, now_cpu);
        if calm_since.elapsed() >= CALM {
            return ((calm_since - start).min(WAIT_MAX).as_secs_f64(), true);
        }
    }
    (WAIT_MAX.as_secs_f64(), false)
}

impl Quiet {
    /// What is found now, after a wait; `live_bytes` of pairs are in the store at `dir`.
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
    fn a_store_without_background_work_is_measured_at_once() {
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
