//! What a campaign counted and what it found.

use std::collections::BTreeMap;
use std::time::Duration;

/// How a store broke a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Acknowledged data is gone, or the store does not open or answer.
    Lost,
    /// Data that never was, in part or in the wrong order, or damage that `verify` sees.
    Wrong,
    /// A panic.
    Panic,
}

/// One broken promise, with all it takes to see it again.
#[derive(Debug, Clone)]
pub struct Failure {
    /// How.
    pub verdict: Verdict,
    /// Which script, at which operation, under which model or fault.
    pub place: String,
    /// What was seen.
    pub message: String,
}

/// Counts of one campaign.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// What was counted, by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// What was found.
    pub failures: Vec<Failure>,
    /// Time on the clock.
    pub elapsed: Duration,
}

impl Tally {
    /// Counts `more` of `what`.
    pub fn count(&mut self, what: &'static str, more: u64) {
        *self.counts.entry(what).or_insert(0) += more;
    }

    /// Counts a fault position that `hits` operations met, if any did.
    pub fn count_position(&mut self, hits: u64) {
        if hits > 0 {
            self.count("positions", 1);
            self.count("failed operations", hits);
        }
    }

    /// How many of `what` were counted.
    pub fn of(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Notes a broken promise.
    pub fn fail(&mut self, verdict: Verdict, place: impl Into<String>, message: impl Into<String>) {
        self.failures.push(Failure { verdict, place: place.into(), message: message.into() });
    }

    /// Adds what another one counted and found.
    pub fn merge(&mut self, other: Tally) {
        for (what, more) in other.counts {
            self.count(what, more);
        }
        self.failures.extend(other.failures);
    }

    /// How many failures of a kind there are.
    pub fn failed(&self, verdict: Verdict) -> usize {
        self.failures.iter().filter(|f| f.verdict == verdict).count()
    }

    /// The first failures, a line each.
    pub fn report(&self) -> String {
        let line = |f: &Failure| format!("{:?}: {}: {}\n", f.verdict, f.place, f.message);
        self.failures.iter().take(20).map(line).collect()
    }
}

/// Runs `work` on every item, on all cores, and adds up what it returns.
pub fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> Tally + Sync) -> Tally {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut all = Tally::default();
    std::thread::scope(|scope| {
        let body = || {
            let mut tally = Tally::default();
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                tally.merge(work(item));
            }
            tally
        };
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(body)).collect();
        for thread in threads {
            match thread.join() {
                Ok(tally) => all.merge(tally),
                Err(_) => all.fail(Verdict::Panic, "a thread of the campaign", "it panicked"),
            }
        }
    });
    all
}

/// Runs `work`; a panic in it becomes its message.
///
/// # Errors
/// What the panic said.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_string()
    })
}
