//! Those who wait for what the background threads do.
//!
//! What stays true: a failure of the work is told to whoever waits for it; while someone waits for
//! merges, none of them rests for longer than the nap it has begun.

use std::time::Duration;

use super::state::Inner;
use crate::error::{Error, ErrorKind, Result};

impl Inner {
    /// Waits until nothing is left to flush or compact.
    pub fn wait_idle(&self) -> Result<()> {
        if self.stepped() && !self.read_only {
            while self.run_one_job()? {}
            return Ok(());
        }
        self.queue.lock().awaited += 1;
        let waited = self.wait_quiet();
        self.queue.lock().awaited -= 1;
        waited
    }

    fn wait_quiet(&self) -> Result<()> {
        let mut queue = self.queue.lock();
        // The threads look for work whenever there may be some; this is for what they were not told.
        self.work.notify_all();
        loop {
            self.check_open()?;
            if let Some(error) = queue.flush_failed.as_ref().or(queue.compaction_failed.as_ref()) {
                return Err(error.clone());
            }
            let quiet = queue.frozen.is_empty() && queue.running == 0;
            if quiet && (self.read_only || self.pick(&queue.busy).is_none()) {
                return Ok(());
            }
            if quiet && !queue.exclusive && queue.make_way == 0 {
                // There is work and nobody at it. Told while a flush or a merge runs, the others would
                // find none, tell of that, and be told again, for as long as it takes.
                self.work.notify_all();
            }
            self.idle.wait_for(&mut queue, Duration::from_millis(50));
        }
    }

    /// Flushes everything written so far and waits for it.
    pub fn flush(&self) -> Result<()> {
        self.check_writable()?;
        {
            let mut core = self.committer.lock();
            if !core.memtable.is_empty() {
                self.with_room(|| self.freeze(&mut core))?;
            }
        }
        self.wait_flushed()
    }

    /// Waits until no memtable is frozen.
    pub fn wait_flushed(&self) -> Result<()> {
        if self.stepped() {
            return self.flush_here(0);
        }
        self.work.notify_all();
        let mut queue = self.queue.lock();
        // Only what is tried from now on counts: a full device may have room again.
        let tries = queue.flush_tries;
        while !queue.frozen.is_empty() {
            if let Some(error) = queue.flush_failed.as_ref().filter(|_| queue.flush_tries > tries) {
                return Err(error.clone());
            }
            if queue.stop {
                return Err(Error::new(ErrorKind::Closed, "the store was closed").at(&self.dir));
            }
            self.idle.wait(&mut queue);
        }
        Ok(())
    }
}
