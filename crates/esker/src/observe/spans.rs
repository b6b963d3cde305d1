//! A listener that passes events to the crate `tracing`. Only with the feature `tracing`.
//!
//! Invariants: a span is open from the event that begins a job to the event that ends it. At most
//! [`SPANS_MAX`] spans are open: the spans of jobs whose end was lost are closed.

use std::collections::BTreeMap;

use super::event::{Event, EventListener};
use crate::base::locks::Mutex;

/// Maximum number of open spans.
const SPANS_MAX: usize = 1024;
/// Target of all spans and events.
const TARGET: &str = "esker";

/// A listener that makes `tracing` spans of flushes and compactions, and a `tracing` event of each
/// event. The target is `esker`.
///
/// Errors and findings of the scrub have the level ERROR, write stalls WARN, tables that are created
/// and removed DEBUG, and the others INFO. Sizes are in bytes and durations in microseconds.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use std::sync::Arc;
/// use esker::{Db, Options, TracingListener};
/// let tracing = Arc::new(TracingListener::default());
/// let options = Options { listeners: vec![tracing], ..Options::default() };
/// let db = Db::open(dir.path().join("db"), options)?;
/// db.put("key", "value")?;
/// db.flush()
/// # }
/// ```
#[derive(Debug, Default)]
pub struct TracingListener {
    /// The spans of running jobs, by the job's number.
    spans: Mutex<BTreeMap<u64, tracing::Span>>,
}

impl TracingListener {
    fn begin(&self, job: u64, span: tracing::Span) {
        let mut spans = self.spans.lock();
        spans.insert(job, span);
        if spans.len() > SPANS_MAX {
            spans.pop_first();
        }
    }

    fn end(&self, job: u64) -> tracing::Span {
        self.spans.lock().remove(&job).unwrap_or_else(tracing::Span::none)
    }
}

impl EventListener for TracingListener {
    fn on_event(&self, event: &Event) {
        let text = event.to_string();
        match event {
            Event::FlushBegan { job, memory_bytes } => {
                let (job, memory_bytes) = (*job, *memory_bytes);
                let span = tracing::info_span!(target: TARGET, "flush", job, memory_bytes);
                span.in_scope(|| tracing::info!(target: TARGET, "{}", text));
                self.begin(job, span);
            }
            Event::CompactionBegan {
                job, tree, level, output_level, reason, input_bytes, ..
            } => {
                let (job, tree, reason) = (*job, *tree, *reason);
                let (level, output_level) = (*level as u64, *output_level as u64);
                let input_bytes = *input_bytes;
                let span = tracing::info_span!(
                    target: TARGET,
                    "compaction",
                    job,
                    tree,
                    level,
                    output_level,
                    reason,
                    input_bytes
                );
                span.in_scope(|| tracing::info!(target: TARGET, "{}", text));
                self.begin(job, span);
            }
            Event::FlushEnded { job, written_bytes, duration, .. } => {
                let (written_bytes, us) = (*written_bytes, duration.as_micros() as u64);
                self.end(*job).in_scope(|| {
                    tracing::info!(target: TARGET, written_bytes, duration_us = us, "{}", text);
                });
            }
            Event::CompactionEnded { job, read_bytes, written_bytes, duration, .. } => {
                let (read_bytes, written_bytes) = (*read_bytes, *written_bytes);
                let us = duration.as_micros() as u64;
                self.end(*job).in_scope(|| {
                    tracing::info!(
                        target: TARGET,
                        read_bytes,
                        written_bytes,
                        duration_us = us,
                        "{}",
                        text
                    );
                });
            }
            Event::StallBegan { bytes, is_stopped: true, .. } => {
                tracing::warn!(target: TARGET, bytes = *bytes, "{}", text);
            }
            Event::StallEnded { bytes, duration, is_stopped: true, .. } => {
                let us = duration.as_micros() as u64;
                tracing::warn!(target: TARGET, bytes = *bytes, duration_us = us, "{}", text);
            }
            Event::BackgroundError { .. } | Event::ScrubProblem { .. } => {
                tracing::error!(target: TARGET, "{}", text);
            }
            Event::TableCreated { .. } | Event::TableRemoved { .. } => {
                tracing::debug!(target: TARGET, "{}", text);
            }
            _ => {
                tracing::info!(target: TARGET, "{}", text);
            }
        }
    }
}
