//! The machine's own pauses: a thread that only sleeps, a millisecond at a time, notes how late it
//! wakes. What it notes no engine can be blamed for.
//!
//! It is woken a thousand times a second for some microseconds of processor time, which are taken
//! off the engine's; it touches nothing that the measured threads touch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::histogram::Latencies;
use super::host;

/// How long it sleeps.
const NAP: Duration = Duration::from_millis(1);

/// How late an idle thread woke while a phase ran.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdlePauses {
    /// How often it woke.
    pub wakes: u64,
    /// 99.9 % of the times it was no later, in microseconds.
    pub p999_micros: f64,
    /// The latest, in microseconds.
    pub max_micros: f64,
    /// Processor time that waking took.
    pub cpu_seconds: f64,
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub struct IdleWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<IdlePauses>>>,
}

impl IdleWatch {
    /// Starts it. Where no thread can be had, nothing is noted.
    pub fn start() -> IdleWatch {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("idle".into()).spawn(move || watch(&seen));
        IdleWatch { stop, thread: thread.ok() }
    }

    /// Ends it, which takes up to a millisecond, and says what it noted.
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
    // The shortest phase is over before the first nap, and yet has one.
    loop {
        let asleep = Instant::now();
        std::thread::sleep(NAP);
        late.record(asleep.elapsed().saturating_sub(NAP).as_nanos() as u64);
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
    fn it_wakes_while_others_work_and_ends_when_told() {
        // On a busy machine its first nap may take longer than this thread's.
        let noted = (0..12).find_map(|turn| {
            let watch = IdleWatch::start();
            std::thread::sleep(Duration::from_millis(30 << turn));
            watch.finish()
        });
        let noted = noted.expect("it woke");
        assert!(noted.wakes >= 1 && noted.max_micros >= noted.p999_micros, "{noted:?}");
        assert!(noted.cpu_seconds >= 0.0 && noted.cpu_seconds.is_finite(), "{noted:?}");
    }
}
