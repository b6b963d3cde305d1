//! The scrub: reads every byte of the store again and again in the background, at a set rate.
//!
//! Invariants: it changes nothing and holds one file at a time. Its findings are in the metrics.
//! Reads and writes continue meanwhile. A file that was replaced while it was read is not a
//! finding.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::runtime::ScrubState;
use super::state::DbInner;
use super::tree::Tree;
use crate::base::units::MIB;
use crate::base::workers::NextJob;
use crate::error::Result;
use crate::observe::Event;
use crate::tree::fragment::FileMeta;
use crate::tree::value_files::ValueFile;

/// Minimum time between the end of a round and the start of the next.
const ROUND_PAUSE: Duration = Duration::from_secs(1);

/// Rate limiter of the scrub.
struct Pace {
    due: Instant,
    owed_bytes: u64,
}

impl DbInner {
    /// Main loop of the scrub thread: reads the tables by number, the value files, then the logs and the manifest,
    /// and starts again.
    pub(super) fn scrub_loop(&self) {
        let mut pace = Pace { due: Instant::now(), owed_bytes: 0 };
        let mut last = 0;
        while self.wait_for_scrub(&mut pace, 0) {
            let Some((tree, file)) = self.table_after(last) else {
                last = 0;
                if !self.scrub_values(&mut pace) || !self.scrub_logs_and_manifest(&mut pace) {
                    return;
                }
                self.counters.scrub_rounds.add(1);
                pace.due = pace.due.max(Instant::now() + ROUND_PAUSE);
                continue;
            };
            last = file.number;
            let read = self.verify_table(&tree, &file, &mut |bytes| {
                self.counters.scrub_bytes.add(bytes);
                self.wait_for_scrub(&mut pace, bytes)
            });
            self.note_scrub(read.map(|_| ()));
        }
    }

    /// Reads the next table, or the logs and the manifest, if it is time, for a store whose runtime
    /// has the threads. Returns when the next part is due: a part is read at full speed, and the
    /// pause after it keeps the rate.
    pub(super) fn scrub_some(&self, state: &mut ScrubState) -> NextJob {
        let rate = self.options.load().scrub_bytes_per_second;
        if rate == 0 {
            *state = ScrubState::default();
            return NextJob::WhenAsked;
        }
        if let Some(due) = state.due.filter(|due| Instant::now() < *due) {
            return NextJob::At(due);
        }
        let mut bytes = 0;
        let mut pause = Duration::ZERO;
        let mut count = |read: u64| {
            bytes += read;
            self.counters.scrub_bytes.add(read);
            !self.queue.lock().is_stopped()
        };
        match self.table_after(state.last) {
            Some((tree, file)) => {
                state.last = file.number;
                let read = self.verify_table(&tree, &file, &mut count);
                self.note_scrub(read.map(|_| ()));
            }
            None => {
                state.last = 0;
                let forest = self.versions.lock().current();
                for file in self.value_files_of(&forest) {
                    let read = self.verify_values(&file, &mut count);
                    self.note_scrub(read.map(|_| ()));
                }
                count(self.read_logs_and_manifest());
                self.counters.scrub_rounds.add(1);
                pause = ROUND_PAUSE;
            }
        }
        let due = Instant::now() + pause.max(Duration::from_secs_f64(bytes as f64 / rate as f64));
        state.due = Some(due);
        NextJob::At(due)
    }

    /// Returns the current table with the smallest number above `last`, with its tree.
    fn table_after(&self, last: u64) -> Option<(Arc<Tree>, Arc<FileMeta>)> {
        let forest = self.versions.lock().current();
        self.files_of(&forest).into_iter().find(|(_, file)| file.number > last)
    }

    /// Reads the value files; returns `false` when the store is closing.
    fn scrub_values(&self, pace: &mut Pace) -> bool {
        let mut last = 0;
        let mut goes_on = true;
        while goes_on && let Some(file) = self.value_file_after(last) {
            last = file.number();
            let read = self.verify_values(&file, &mut |bytes| {
                self.counters.scrub_bytes.add(bytes);
                goes_on = self.wait_for_scrub(pace, bytes);
                goes_on
            });
            self.note_scrub(read.map(|_| ()));
        }
        goes_on
    }

    /// Returns the current value file with the smallest number above `last`.
    fn value_file_after(&self, last: u64) -> Option<Arc<ValueFile>> {
        let forest = self.versions.lock().current();
        self.value_files_of(&forest).into_iter().find(|file| file.number() > last)
    }

    /// Reads the logs and the manifest; returns `false` when the store is closing.
    fn scrub_logs_and_manifest(&self, pace: &mut Pace) -> bool {
        let bytes = self.read_logs_and_manifest();
        self.counters.scrub_bytes.add(bytes);
        self.wait_for_scrub(pace, bytes)
    }

    /// Reads the logs and the manifest, and returns their bytes.
    fn read_logs_and_manifest(&self) -> u64 {
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
        bytes
    }

    fn note_scrub(&self, outcome: Result<()>) {
        let Err(error) = outcome else { return };
        self.counters.scrub_problems.add(1);
        self.emit(|| Event::ScrubProblem { error: error.clone() });
        *self.scrub_problem.lock() = Some(error);
        self.deliver_events();
    }

    /// Waits until the rate allows the bytes read so far; returns `false` when the store is
    /// closing.
    fn wait_for_scrub(&self, pace: &mut Pace, bytes: u64) -> bool {
        pace.owed_bytes += bytes;
        loop {
            let mut queue = self.queue.lock();
            // Under the lock: a change of options signals under it.
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
