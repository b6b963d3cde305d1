//! The events of a store, and the trait of a listener.
//!
//! Invariants: the events that begin and end a job have the same number. A begun job
//! always gets its second event, which has the error of a failed job. A job whose thread panicked
//! gets none.

use std::time::Duration;

use crate::error::Error;

/// Something that happened in an open store. [`EventListener`] describes when events are delivered.
///
/// The text of an event, by its `Display`, is one sentence.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The store was opened. The recovery notes follow.
    #[non_exhaustive]
    Opened {
        /// Whether the store was opened for reading only.
        read_only: bool,
        /// Options that differ from their defaults: names and values.
        options: Vec<(String, String)>,
        /// Number of table files.
        tables: u64,
        /// Bytes of the table files.
        table_bytes: u64,
        /// Number of logs that were read.
        logs: u64,
        /// Whether the last log was complete, because the store was closed before.
        is_closed_cleanly: bool,
        /// Duration of the opening.
        duration: Duration,
    },
    /// The opening found that a crash had lost something.
    #[non_exhaustive]
    RecoveryNote {
        /// One sentence, as in [`Db::recovery_notes`](crate::Db::recovery_notes).
        note: String,
    },
    /// A flush of immutable memtables began.
    #[non_exhaustive]
    FlushBegan {
        /// Number of the job, unique in this opening of the store.
        job: u64,
        /// Bytes of memory of the memtables.
        memory_bytes: u64,
    },
    /// A flush ended.
    #[non_exhaustive]
    FlushEnded {
        /// Number of the job.
        job: u64,
        /// Bytes of memory of the memtables.
        memory_bytes: u64,
        /// Number of tables written.
        tables: u64,
        /// Bytes of the tables written.
        written_bytes: u64,
        /// Duration of the flush.
        duration: Duration,
        /// Why it failed, if it failed. It is retried then.
        error: Option<Error>,
    },
    /// A compaction began.
    #[non_exhaustive]
    CompactionBegan {
        /// Number of the job, unique in this opening of the store.
        job: u64,
        /// Tree of the tables. Tree 0 holds the default keyspace.
        tree: u32,
        /// Uppermost level of the inputs.
        level: usize,
        /// Level of the output.
        output_level: usize,
        /// Why the compaction was due, in a few words.
        reason: &'static str,
        /// Number of inputs: slices of tables.
        inputs: u64,
        /// Estimated bytes of the inputs; 0 for a move, which reads nothing.
        input_bytes: u64,
    },
    /// A compaction ended.
    #[non_exhaustive]
    CompactionEnded {
        /// Number of the job.
        job: u64,
        /// Tree of the tables.
        tree: u32,
        /// Uppermost level of the inputs.
        level: usize,
        /// Level of the output.
        output_level: usize,
        /// Why the compaction was due, in a few words.
        reason: &'static str,
        /// Estimated bytes read.
        read_bytes: u64,
        /// Bytes of the tables written; 0 for a move.
        written_bytes: u64,
        /// Number of tables written.
        tables: u64,
        /// Duration of the compaction.
        duration: Duration,
        /// Why it failed, if it failed. An error of kind `Closed` means that it was stopped: the
        /// store is closing, a flush needed its space, or a rest compaction gave way to other work.
        error: Option<Error>,
    },
    /// A store at rest stopped to merge its runs. Each of its compactions has events of its own.
    #[non_exhaustive]
    RestEnded {
        /// Number of compactions since the rest began.
        compactions: u64,
        /// Bytes of the tables that they wrote.
        written_bytes: u64,
        /// Time since the first of them began.
        duration: Duration,
        /// Why it stopped, as a sentence without its end.
        cause: &'static str,
    },
    /// A write stall began: a writer, and all that come after it, wait or are slowed.
    #[non_exhaustive]
    StallBegan {
        /// Why writers wait, as a sentence without its end.
        cause: String,
        /// Bytes that have to be written to tables: of immutable memtables, or of the compaction
        /// debt.
        bytes: u64,
        /// What ends the stall, as a sentence without its end.
        clears: String,
        /// Whether writes wait until the cause is gone. `false`: each write is only slowed, and a
        /// first one has been.
        is_stopped: bool,
    },
    /// A write stall ended.
    #[non_exhaustive]
    StallEnded {
        /// Why writers waited.
        cause: String,
        /// Bytes that had to be written to tables when the stall began.
        bytes: u64,
        /// What was to end the stall when it began.
        clears: String,
        /// Duration of the stall.
        duration: Duration,
        /// Whether writes waited until the cause was gone. `false`: each write was only slowed.
        is_stopped: bool,
    },
    /// A table file became part of the store.
    #[non_exhaustive]
    TableCreated {
        /// Tree of the table.
        tree: u32,
        /// Level of the table.
        level: usize,
        /// Number of the file.
        number: u64,
        /// Bytes of the file.
        size_bytes: u64,
    },
    /// The file of an obsolete table was removed from the directory.
    #[non_exhaustive]
    TableRemoved {
        /// Number of the file.
        number: u64,
    },
    /// A job of the store, or a write, failed. Errors of a job with the same message are reported
    /// once an hour, however often the job is retried.
    #[non_exhaustive]
    BackgroundError {
        /// The job that failed, such as `flush`.
        job: String,
        /// The error.
        error: Error,
    },
    /// The scrub found damage.
    #[non_exhaustive]
    ScrubProblem {
        /// The damage, with its file and offset.
        error: Error,
    },
    /// A keyspace was created.
    #[non_exhaustive]
    KeyspaceCreated {
        /// Number of the keyspace.
        id: u32,
        /// Name of the keyspace.
        name: String,
    },
    /// A keyspace was renamed.
    #[non_exhaustive]
    KeyspaceRenamed {
        /// Number of the keyspace.
        id: u32,
        /// Its name before.
        name: String,
        /// Its name now.
        new_name: String,
    },
    /// A keyspace was dropped. Its space is freed in the background.
    #[non_exhaustive]
    KeyspaceDropped {
        /// Number of the keyspace.
        id: u32,
        /// Name of the keyspace.
        name: String,
    },
    /// A slot of the change feed keeps no logs any more. Its next use is an error.
    #[non_exhaustive]
    SlotDropped {
        /// Name of the slot.
        name: String,
        /// Why it was dropped, as a sentence without its end.
        cause: String,
    },
    /// The store is being closed. This is the last event.
    #[non_exhaustive]
    Closed {
        /// Why the close failed, if it failed.
        error: Option<Error>,
    },
}

/// A listener for the events of a store ([`Options::listeners`](crate::Options::listeners)).
///
/// **When.** An event is delivered soon after it happened. One thread at a time calls the listeners
/// of a store, and delivers the events in their order. It is a thread of the store or a thread in a
/// call of the store. It holds no lock of the store.
///
/// **What a listener may do.** It may read from the store. It must not write to it, must not wait
/// for background work (`flush`, `compact_range`, `wait_idle`) and must not close the store: all of
/// these may wait for the thread that calls the listener. A slow listener delays the work of that
/// thread. After 4,096 events that wait for it, further events are dropped, and counted in
/// [`Metrics::events_lost`](crate::Metrics::events_lost).
///
/// **A panic** of a listener is caught and counted in
/// [`Metrics::listener_panics`](crate::Metrics::listener_panics). The listener is not called again.
///
/// A crash loses the events that were not delivered. A store opened read-only has only the events
/// of its opening. Without listeners, and with the option `log_file` off, no event is made.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use esker::{Db, Event, EventListener, Options};
///
/// #[derive(Default)]
/// struct Flushes(Mutex<Vec<u64>>);
///
/// impl EventListener for Flushes {
///     fn on_event(&self, event: &Event) {
///         if let Event::FlushEnded { written_bytes, .. } = event {
///             self.0.lock().unwrap().push(*written_bytes);
///         }
///     }
/// }
///
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let flushes = Arc::new(Flushes::default());
/// let options = Options { listeners: vec![flushes.clone()], ..Options::default() };
/// let db = Db::open(dir.path().join("db"), options)?;
/// db.put("key", "value")?;
/// db.flush()?;
/// db.close()?;
/// assert_eq!(flushes.0.lock().unwrap().len(), 1);
/// # Ok(())
/// # }
/// ```
pub trait EventListener: Send + Sync {
    /// Called with each event. The default does nothing.
    fn on_event(&self, event: &Event) {
        let _ = event;
    }
}
