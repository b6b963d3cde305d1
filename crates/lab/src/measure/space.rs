//! Bytes on disk over time: a thread samples the store's directory while a phase runs.
//!
//! A sample reads the sizes of all files of the store, which takes some microseconds for each. The
//! processor time of the thread is subtracted from the engine's.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::host;

/// Bytes on disk during a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpaceTimeline {
    /// Milliseconds since the phase began, and the bytes of all allocated blocks at that time. The
    /// first sample is from the beginning, and the last from the end.
    pub samples: Vec<(u64, u64)>,
    /// Processor time of the samples, in seconds.
    pub cpu_seconds: f64,
}

impl SpaceTimeline {
    /// Returns the most bytes of any sample; `None` without samples.
    pub fn most_bytes(&self) -> Option<u64> {
        self.samples.iter().map(|sample| sample.1).max()
    }
}

/// The sampling thread, which stops when this is dropped.
#[derive(Debug)]
pub struct SpaceWatch {
    stop: Sender<()>,
    thread: JoinHandle<SpaceTimeline>,
}

impl SpaceWatch {
    /// Starts the thread with the first sample of `dir`. `None` for an interval of 0, or if no
    /// thread can be started.
    pub fn start(dir: PathBuf, every_ms: u64) -> Option<SpaceWatch> {
        if every_ms == 0 {
            return None;
        }
        let (stop, stopped) = channel();
        let watch = move || {
            let start = Instant::now();
            let mut timeline = SpaceTimeline::default();
            let mut due = 0;
            loop {
                let bytes = host::disk_use(&dir).allocated_bytes;
                timeline.samples.push((start.elapsed().as_millis() as u64, bytes));
                let now = start.elapsed().as_millis() as u64;
                // A sample that is late moves none of the others.
                due = (due + every_ms).max(now - now % every_ms);
                let wait = Duration::from_millis(due.saturating_sub(now));
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            let bytes = host::disk_use(&dir).allocated_bytes;
            timeline.samples.push((start.elapsed().as_millis() as u64, bytes));
            timeline.cpu_seconds = host::thread_cpu_seconds();
            timeline
        };
        let thread = std::thread::Builder::new().name("space".into()).spawn(watch).ok()?;
        Some(SpaceWatch { stop, thread })
    }

    /// Takes the last sample, stops the thread, and returns all samples.
    pub fn finish(self) -> Option<SpaceTimeline> {
        drop(self.stop);
        self.thread.join().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_begin_and_end_with_the_watched_phase() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        assert!(SpaceWatch::start(dir.path().into(), 0).is_none());
        std::fs::write(dir.path().join("first"), [1u8; 5000]).expect("written");
        let before = host::disk_use(dir.path()).allocated_bytes;
        let watch = SpaceWatch::start(dir.path().into(), 600_000).expect("started");
        let timeline = watch.finish().expect("sampled");
        assert_eq!(timeline.samples.len(), 2, "{timeline:?}");
        assert_eq!(timeline.most_bytes(), Some(before));
        let watch = SpaceWatch::start(dir.path().into(), 1).expect("started");
        std::fs::write(dir.path().join("second"), vec![1u8; 100_000]).expect("written");
        let after = host::disk_use(dir.path()).allocated_bytes;
        let timeline = watch.finish().expect("sampled");
        assert_eq!(timeline.samples.last().map(|sample| sample.1), Some(after));
        assert!(timeline.samples.is_sorted_by_key(|sample| sample.0), "{timeline:?}");
        assert!(timeline.cpu_seconds >= 0.0);
    }
}
