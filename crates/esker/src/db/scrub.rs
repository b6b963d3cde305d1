//! The scrub: every byte of the store read again and again in the background, at a set rate.
//!
//! What stays true: it changes nothing, holds one file at a time, and what it finds is in the
//! metrics; reads and writes go on beside it. A file that was replaced while it was read is no find.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::state::Inner;
use crate::base::units::MIB;
use crate::error::Result;
use crate::tree::fragment::FileMeta;

/// The longest wait for a round that had nothing to read.
const REST: Duration = Duration::from_secs(1);

/// How fast a scrub goes.
struct Pace {
    due: Instant,
    owed_bytes: u64,
}

impl Inner {
    /// The scrub's thread: one file after another, by number, then logs and manifest, then anew.
    pub(super) fn scrub_loop(&self) {
        let mut pace = Pace { due: Instant::now(), owed_bytes: 0 };
        let mut last = 0;
        while self.wait_for_scrub(&mut pace, 0) {
            let Some(file) = self.table_after(last) else {
                last = 0;
                if !self.scrub_rest(&mut pace) {
                    return;
                }
                self.counters.scrub_rounds.add(1);
                pace.due = pace.due.max(Instant::now() + REST);
                continue;
            };
            last = file.number;
            let read = self.verify_table(&file, &mut |bytes| {
                self.counters.scrub_bytes.add(bytes);
                self.wait_for_scrub(&mut pace, bytes)
            });
            self.note_scrub(read.map(|_| ()));
        }
    }

    /// The table of the current version with the next number.
    fn table_after(&self, last: u64) -> Option<Arc<FileMeta>> {
        let files = self.view.load().version.files();
        files.into_iter().find(|file| file.number > last)
    }

    /// The logs and the manifest; `false` when the store closes.
    fn scrub_rest(&self, pace: &mut Pace) -> bool {
        let mut reads = vec![self.verify_manifest()];
        match self.log_numbers() {
            Ok(logs) => reads.extend(logs.into_iter().map(|number| self.verify_log(number))),
            Err(error) => reads.push(Err(error)),
        }
        let mut bytes = 0;
        for read in reads {
            bytes += *read.as_ref().unwrap_or(&0);
            self.note_scrub(read.map(|_| ()));
        }
        self.counters.scrub_bytes.add(bytes);
        self.wait_for_scrub(pace, bytes)
    }

    fn note_scrub(&self, outcome: Result<()>) {
        let Err(error) = outcome else { return };
        self.counters.scrub_problems.add(1);
        *self.scrub_problem.lock() = Some(error);
    }

    /// Waits until the rate allows what was read; `false` when the store closes.
    fn wait_for_scrub(&self, pace: &mut Pace, bytes: u64) -> bool {
        pace.owed_bytes += bytes;
        loop {
            let mut queue = self.queue.lock();
            // With the lock held: a change of options tells of itself under it.
            let rate = self.options.load().scrub_bytes_per_second;
            if queue.stop {
                return false;
            }
            if rate == 0 {
                self.work.wait(&mut queue);
                (pace.due, pace.owed_bytes) = (Instant::now(), 0);
                continue;
            }
            // In portions that a timer can keep.
            if pace.owed_bytes >= (rate / 20).clamp(4096, MIB) {
                let seconds = pace.owed_bytes as f64 / rate as f64;
                pace.due = pace.due.max(Instant::now()) + Duration::from_secs_f64(seconds);
                pace.owed_bytes = 0;
            }
            if Instant::now() >= pace.due {
                return true;
            }
            self.work.wait_until(&mut queue, pace.due);
        }
    }
}
