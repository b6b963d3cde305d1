//! Waiting for background work.
//!
//! Invariants:
//! * A failure of background work is returned to every caller that waits for it.
//! * While a caller waits for compactions, no compaction yields beyond the sleep it has begun.
//! * Concurrent writers do not prolong a wait, except [`DbInner::wait_idle`], which waits for a
//!   moment without work.

use std::sync::Arc;
use std::time::Duration;

use super::state::{DbInner, Queue};
use crate::base::sync::MutexGuard;
use crate::base::workers::JobClass;
use crate::compaction::BusySet;
use crate::error::{Error, ErrorKind, Result};
use crate::memtable::Memtable;

/// Guard: while it exists, only its owner's compactions run.
#[must_use]
pub(super) struct CompactionBlock<'a> {
    inner: &'a DbInner,
}

impl Drop for CompactionBlock<'_> {
    fn drop(&mut self) {
        self.inner.queue.lock().exclusive = false;
        self.inner.wake(JobClass::Compact);
        self.inner.idle.notify_all();
    }
}

/// Guard: while it exists, a caller waits for compactions.
pub(super) struct IdleWaiter<'a>(&'a DbInner);

impl IdleWaiter<'_> {
    pub fn new(inner: &DbInner) -> IdleWaiter<'_> {
        inner.queue.lock().idle_waiters += 1;
        IdleWaiter(inner)
    }
}

impl Drop for IdleWaiter<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().idle_waiters -= 1;
    }
}

impl DbInner {
    /// Waits until no flush or compaction is left to do. Rest compactions do not count: they may run on,
    /// and begin later.
    pub fn wait_idle(&self) -> Result<()> {
        if self.is_manual_background() && !self.read_only {
            while self.run_background_job()? {
                self.deliver_events();
            }
            return Ok(());
        }
        let _waits = IdleWaiter::new(self);
        self.wait_quiet()
    }

    fn wait_quiet(&self) -> Result<()> {
        let mut queue = self.queue.lock();
        // The threads look for work whenever there may be some. This is for missed signals.
        self.wake_jobs();
        loop {
            self.check_open()?;
            let failed = queue.flush_failed.as_ref().or(queue.compaction_failed.as_ref());
            if let Some(error) = queue.broken.as_ref().or(failed) {
                return Err(error.clone());
            }
            let quiet = queue.frozen.is_empty() && queue.running == queue.resting;
            // Only a rest compaction may be busy. It must not hide a compaction that is due.
            if quiet && (self.read_only || self.pick(&BusySet::default()).is_none()) {
                return Ok(());
            }
            if quiet && !queue.exclusive && queue.space_waiters == 0 {
                // There is work and no thread does it. A signal during a flush or a compaction
                // would make the other threads find no work, signal that, and be woken again, until
                // the flush or compaction ends.
                self.wake_jobs();
            }
            self.idle.wait_for(&mut queue, Duration::from_millis(50));
        }
    }

    /// Flushes everything written so far and waits for that, and for nothing written later.
    pub fn flush(&self) -> Result<()> {
        self.check_writable()?;
        let last = {
            let mut writer = self.committer.lock();
            if !writer.memtables.is_empty() {
                self.retry_with_space(|| self.freeze(&mut writer))?;
            }
            // Under the writer-state lock: memtables frozen later do not belong to this call.
            self.last_frozen()
        };
        let flushed = self.wait_flushed(last.as_ref());
        self.deliver_events();
        flushed
    }

    /// Returns the newest immutable memtable of tree 0, which is flushed after all others that wait
    /// now.
    pub fn last_frozen(&self) -> Option<Arc<Memtable>> {
        self.queue.lock().frozen.back().map(|frozen| frozen.memtables.main.clone())
    }

    /// Waits until the immutable memtable `last`, and so every older one, is flushed.
    pub fn wait_flushed(&self, last: Option<&Arc<Memtable>>) -> Result<()> {
        let Some(last) = last else { return Ok(()) };
        if self.is_manual_background() {
            return self.flush_here(|queue| !queue.is_queued(last));
        }
        self.wake(JobClass::Flush);
        let mut queue = self.queue.lock();
        // Only later flush attempts count: a device that was full may have space again.
        let tries = queue.flush_tries;
        while queue.is_queued(last) {
            if let Some(error) = queue.flush_failed.as_ref().filter(|_| queue.flush_tries > tries) {
                return Err(error.clone());
            }
            if let Some(error) = &queue.broken {
                return Err(error.clone());
            }
            if queue.stop {
                return Err(
                    Error::new(ErrorKind::Closed, "the store was closed").with_path(&self.dir)
                );
            }
            self.idle.wait(&mut queue);
        }
        Ok(())
    }

    /// Blocks other compactions while the returned guard exists, and waits for the running ones.
    /// The block comes first: otherwise each running compaction is followed by the next, and there
    /// is always one.
    pub(super) fn block_compactions(&self) -> Result<CompactionBlock<'_>> {
        let mut queue = self.queue.lock();
        queue.idle_waiters += 1;
        let waited = self.wait_alone(&mut queue);
        queue.idle_waiters -= 1;
        drop(queue);
        waited
    }

    fn wait_alone<'a>(&'a self, queue: &mut MutexGuard<'_, Queue>) -> Result<CompactionBlock<'a>> {
        let mut mine = false;
        loop {
            if !queue.exclusive && !mine {
                (queue.exclusive, mine) = (true, true);
            }
            if mine && queue.running == 0 {
                return Ok(CompactionBlock { inner: self });
            }
            self.idle.wait_for(queue, Duration::from_millis(50));
            let broken = queue.broken.clone().map_or(Ok(()), Err);
            if let Err(error) = self.check_open().and(broken) {
                queue.exclusive &= !mine;
                return Err(error);
            }
        }
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use std::time::{Duration, Instant};

    use crate::db::Db;
    use crate::error::ErrorKind;
    use crate::fs::MemFs;
    use crate::options::Options;

    /// Waits until other threads make the condition true.
    fn wait_until(seen: impl Fn() -> bool) {
        let began = Instant::now();
        while !seen() {
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "the condition did not become true"
            );
            std::thread::yield_now();
        }
    }

    /// Simulates a running compaction in the queue. Between the end of that compaction and the end
    /// of `compact_range`, other compactions may begin only if nothing blocks them.
    #[test]
    fn compact_range_blocks_new_compactions_before_waiting() {
        let db = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
        db.put("key", "value").unwrap();
        db.inner.queue.lock().running += 1;
        std::thread::scope(|scope| {
            let compacting = scope.spawn(|| db.compact_range(None, None));
            wait_until(|| db.inner.queue.lock().exclusive);
            // A second call waits for the first.
            let second = scope.spawn(|| db.compact_range(None, None));
            wait_until(|| db.inner.queue.lock().idle_waiters == 2);
            assert!(!second.is_finished() && !compacting.is_finished());
            db.inner.queue.lock().running -= 1;
            compacting.join().unwrap().unwrap();
            second.join().unwrap().unwrap();
        });
        let queue = db.inner.queue.lock();
        assert!(!queue.exclusive && queue.idle_waiters == 0);
    }

    #[test]
    fn close_wakes_callers_that_wait_for_compactions() {
        let db = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
        db.inner.queue.lock().running += 1;
        std::thread::scope(|scope| {
            let compacting = scope.spawn(|| db.compact_range(None, None));
            wait_until(|| db.inner.queue.lock().exclusive);
            db.inner.stop();
            assert_eq!(compacting.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        });
        let mut queue = db.inner.queue.lock();
        assert!(!queue.exclusive && queue.idle_waiters == 0);
        queue.running -= 1;
    }
}
