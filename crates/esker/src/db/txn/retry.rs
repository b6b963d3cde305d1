//! Runs a transaction again after a conflict.

use std::time::Duration;

use super::{Transaction, TransactionOptions};
use crate::base::checksum::checksum;
use crate::base::sync::thread;
use crate::db::Db;
use crate::error::{Error, ErrorKind, Result};

/// Pause after the first conflict, in microseconds. Each further conflict doubles it.
const PAUSE_US: u64 = 50;
/// Maximum pause, in microseconds.
const PAUSE_US_MAX: u64 = 20_000;

impl Db {
    /// Runs `work` in a transaction and commits it. If the transaction conflicts with another one,
    /// in a call or at the commit (`Conflict`, `Deadlock`), runs it again, after a pause that grows
    /// from 50 microseconds to 20 milliseconds and has a random part. `work` may therefore run
    /// several times, and must have no effect but through the transaction.
    ///
    /// ```
    /// use esker::{Db, Options, TransactionOptions};
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let count = db.transact(TransactionOptions::default(), |transaction| {
    ///     let before = transaction.get("visits")?.map_or(0, |value| value.len());
    ///     transaction.put("visits", vec![b'|'; before + 1])?;
    ///     Ok(before + 1)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Every error of `work` or of the commit other than `Conflict` and `Deadlock`, after a
    /// rollback. These two after `attempts_max` runs.
    pub fn transact<R>(
        &self,
        options: TransactionOptions,
        mut work: impl FnMut(&Transaction) -> Result<R>,
    ) -> Result<R> {
        let mut attempt = 1;
        loop {
            let transaction = self.transaction(options);
            let id = transaction.id();
            let outcome = match work(&transaction) {
                Ok(result) => transaction.commit().map(|()| result),
                Err(error) => {
                    transaction.rollback();
                    Err(error)
                }
            };
            match outcome {
                Err(error) if is_conflict(&error) && attempt < options.attempts_max => {
                    thread::sleep(pause(attempt, id));
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }
}

fn is_conflict(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Deadlock)
}

/// Returns the pause after a run: between half of the full pause and all of it. The number of the
/// transaction is different in each thread and each run.
fn pause(attempt: u32, id: u64) -> Duration {
    let full_us = (PAUSE_US << (attempt - 1).min(16)).min(PAUSE_US_MAX);
    let random = checksum(&id.to_le_bytes(), u64::from(attempt));
    Duration::from_micros(full_us / 2 + random % (full_us / 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        let mut longest = Duration::ZERO;
        for attempt in 1..200 {
            let full_us = (50u64 << (attempt - 1).min(20)).min(20_000);
            let pauses: Vec<Duration> = (0..50).map(|id| pause(attempt, id)).collect();
            for pause in &pauses {
                let us = pause.as_micros() as u64;
                assert!((full_us / 2..=full_us).contains(&us), "{attempt}: {us}");
                longest = longest.max(*pause);
            }
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{attempt}");
        }
        assert!(longest > Duration::from_millis(15));
    }
}
