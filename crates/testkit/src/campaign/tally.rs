//! Counts and findings of a campaign.

use std::collections::BTreeMap;
use std::time::Duration;

/// Kind of broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Acknowledged data is missing, or the store does not open or answer.
    Lost,
    /// Data that was never written, partial or out of order, or damage that `verify` finds.
    Wrong,
    /// A panic.
    Panic,
}

/// A broken promise, and what was seen.
pub type Finding = (Verdict, String);

/// Returns the conversion of a store's error while `doing` something into a finding.
pub fn lost(doing: &str) -> impl Fn(esker::Error) -> Finding {
    move |error| (Verdict::Lost, format!("{doing}: {error}"))
}

/// One broken promise, with all information to reproduce it.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The kind.
    pub verdict: Verdict,
    /// The script, the operation, and the model or fault.
    pub context: String,
    /// The observation.
    pub message: String,
}

/// The results of one campaign.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Counts by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// The broken promises.
    pub failures: Vec<Failure>,
    /// Elapsed real time.
    pub elapsed: Duration,
}

impl Tally {
    /// Adds `more` to the count of `what`.
    pub fn count(&mut self, what: &'static str, more: u64) {
        *self.counts.entry(what).or_insert(0) += more;
    }

    /// Counts a fault position if at least one operation met it; `hits` is the number of such
    /// operations.
    pub fn count_position(&mut self, hits: u64) {
        if hits > 0 {
            self.count("positions", 1);
            self.count("failed operations", hits);
        }
    }

    /// Returns the count of `what`.
    pub fn of(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Records a broken promise.
    pub fn fail(
        &mut self,
        verdict: Verdict,
        context: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.failures.push(Failure { verdict, context: context.into(), message: message.into() });
    }

    /// Adds the counts and findings of another tally.
    pub fn merge(&mut self, other: Tally) {
        for (what, more) in other.counts {
            self.count(what, more);
        }
        self.failures.extend(other.failures);
    }

    /// Returns the number of failures of a kind.
    pub fn failed(&self, verdict: Verdict) -> usize {
        self.failures.iter().filter(|f| f.verdict == verdict).count()
    }

    /// Returns the first 20 failures, one per line.
    pub fn report(&self) -> String {
        let line = |f: &Failure| format!("{:?}: {}: {}\n", f.verdict, f.context, f.message);
        self.failures.iter().take(20).map(line).collect()
    }
}

/// Runs `work` on every item, on all cores, and adds up the results.
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
                Err(_) => all.fail(Verdict::Panic, "campaign thread", "the thread panicked"),
            }
        }
    });
    all
}

/// Runs `work`, and turns a panic into its message.
///
/// # Errors
/// The message of the panic.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_string()
    })
}
