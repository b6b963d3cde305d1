//! The observers of an open store: the listeners of its events, its info log, and the file with its
//! published metrics.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::info_log::InfoLog;
use super::status_file::StatusFile;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::error::Error;
use crate::fs::Fs;
use crate::metrics::Metrics;
use crate::observe::{EventSink, Listeners};
use crate::options::Options;

/// Time for which an equal error is not reported again.
const REPEAT_AFTER: Duration = Duration::from_secs(3600);
/// Number of errors that are remembered for this.
const ERRORS_MAX: usize = 16;

/// The observers of an open store.
pub(crate) struct Observers {
    /// The listeners. Shared with the purger, which may outlive the store.
    pub listeners: Arc<Listeners>,
    /// The info log, if the store writes one.
    pub info_log: Option<Arc<InfoLog>>,
    /// The published metrics.
    pub status: StatusFile,
    /// The last reported errors as texts, with their times, oldest first.
    errors: Mutex<VecDeque<(String, Instant)>>,
    /// Number of jobs that began.
    jobs: AtomicU64,
}

impl Observers {
    /// Creates the observers of the store in `dir`.
    pub fn new(fs: &Arc<dyn Fs>, dir: &Path, options: &Options, read_only: bool) -> Observers {
        let log = options.log_file && !read_only;
        let info_log = log.then(|| Arc::new(InfoLog::new(fs.clone(), dir)));
        let sink =
            info_log.clone().map(|log| -> EventSink { Box::new(move |events| log.write(events)) });
        Observers {
            listeners: Arc::new(Listeners::new(&options.listeners, sink)),
            info_log,
            status: StatusFile::new(fs.clone(), dir, options.status_file && !read_only),
            errors: Mutex::default(),
            jobs: AtomicU64::new(0),
        }
    }

    /// Returns the number of a new job.
    pub fn next_job(&self) -> u64 {
        self.jobs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns whether `error` of `job` is to be reported, because none with the same message was
    /// reported lately. A job that is retried on a full device fails with the same message each
    /// time, but with another file.
    pub fn is_new_error(&self, job: &str, error: &Error) -> bool {
        let text = format!("{job}: {} ({})", error.message(), error.kind().name());
        let mut errors = self.errors.lock();
        errors.retain(|(_, at)| at.elapsed() < REPEAT_AFTER);
        if errors.iter().any(|(before, _)| *before == text) {
            return false;
        }
        errors.push_back((text, Instant::now()));
        if errors.len() > ERRORS_MAX {
            errors.pop_front();
        }
        true
    }

    /// Sets what the observers count.
    pub fn add_to(&self, metrics: &mut Metrics) {
        metrics.listener_panics = self.listeners.panics();
        metrics.events_lost = self.listeners.lost();
        metrics.log_file_lines_lost = self.info_log.as_ref().map_or(0, |log| log.lost_lines());
        metrics.status_file_failures = self.status.failures();
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::fs::MemFs;

    #[test]
    fn equal_errors_are_reported_once() {
        let fs: Arc<dyn Fs> = MemFs::new();
        let observers = Observers::new(&fs, Path::new("/db"), &Options::default(), true);
        let error =
            |path: &str, text: &str| Error::new(ErrorKind::Io, text).with_path(Path::new(path));
        assert!(observers.is_new_error("flush", &error("1.sst", "full")));
        assert!(!observers.is_new_error("flush", &error("2.sst", "full")));
        assert!(observers.is_new_error("compaction", &error("3.sst", "full")));
        assert!(observers.is_new_error("compaction", &error("3.sst", "broken")));
        assert!(!observers.is_new_error("flush", &error("4.sst", "full")));
        for number in 0..ERRORS_MAX {
            assert!(observers.is_new_error("flush", &error("5.sst", &number.to_string())));
        }
        assert!(observers.is_new_error("flush", &error("6.sst", "full")));
    }

    #[test]
    fn reader_has_neither_log_nor_status() {
        let fs: Arc<dyn Fs> = MemFs::new();
        let of = |read_only| Observers::new(&fs, Path::new("/db"), &Options::default(), read_only);
        let (writer, reader) = (of(false), of(true));
        assert!(writer.info_log.is_some() && writer.status.due().is_some());
        assert!(reader.info_log.is_none() && reader.status.due().is_none());
        assert!(reader.listeners.is_empty() && !writer.listeners.is_empty());
        assert_eq!((writer.next_job(), writer.next_job()), (1, 2));
    }
}
