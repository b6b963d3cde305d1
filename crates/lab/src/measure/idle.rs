//! Pauses of the machine itself: a thread that only sleeps, a millisecond at a time, records its
//! wake-up delays. These delays cannot be caused by the engine's code.
//!
//! The thread wakes a thousand times per second for some microseconds of processor time, which are
//! subtracted from the engine's. It touches no data of the measured threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::histogram::Latencies;
use super::host;

/// Sleep time per wake-up.
const SLEEP: Duration = Duration::from_millis(1);

/// Wake-up delays of an idle thread during a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdlePauses {
    /// Number of wake-ups.
    pub wakes: u64,
    /// 99.9th percentile of the delay, in microseconds.
    pub p999_micros: f64,
    /// Maximum delay, in microseconds.
    pub max_micros: f64,
    /// Processor time of the wake-ups, in seconds.
    pub cpu_seconds: f64,
}

/// The watching thread, which stops when this is dropped.
#[derive(Debug)]
pub struct IdleWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<IdlePauses>>>,
}

impl IdleWatch {
    /// Starts the thread. If no thread can be started, nothing is recorded.
    pub fn start() -> IdleWatch {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("idle".into()).spawn(move || watch(&seen));
        IdleWatch { stop, thread: thread.ok() }
    }

    /// Stops the thread, which takes up to a millisecond, and returns its record.
    pub fn finish(mut self) -> Option<IdlePauses> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).flatten()
    }
}

impl Drop for IdleWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn watch(stop: &AtomicBool) -> Option<IdlePauses> {
    let before = host::thread_cpu_seconds();
    let mut late = Latencies::new();
    // Even a phase shorter than the first sleep gets one.
    loop {
        let asleep = Instant::now();
        std::thread::sleep(SLEEP);
        late.record(asleep.elapsed().saturating_sub(SLEEP).as_nanos() as u64);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let summary = late.summary()?;
    Some(IdlePauses {
        wakes: summary.count,
        p999_micros: summary.p999_micros,
        max_micros: summary.max_micros,
        cpu_seconds: host::thread_cpu_seconds() - before,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_watch_records_until_stopped() {
        // On a busy machine the thread's first sleep may outlast this thread's.
        let noted = (0..12).find_map(|round| {
            let watch = IdleWatch::start();
            std::thread::sleep(Duration::from_millis(30 << round));
            watch.finish()
        });
        let noted = noted.expect("it woke");
        assert!(noted.wakes >= 1 && noted.max_micros >= noted.p999_micros, "{noted:?}");
        assert!(noted.cpu_seconds >= 0.0 && noted.cpu_seconds.is_finite(), "{noted:?}");
    }
}
