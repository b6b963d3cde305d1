//! The change feed: batches, slots, and the iterator over the changes of a database.
//!
//! Invariants:
//! 1. A wait does not keep the database open: a close ends it. It ends for a signal too.
//! 2. A change that has no kind here ends the feed with an exception, and is not left out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use esker::feed::{Change as Made, ChangeBatch as MadeBatch};
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::guarded::Guarded;
use crate::merge::Ttl;
use crate::store::Store;

/// Time between two looks for signals during a wait.
const LOOK: Duration = Duration::from_millis(100);

/// A change of a ``ChangeBatch``.
///
/// ``kind`` tells which attributes it has; the others are None. ``'put'``: ``key``, ``value`` and
/// ``expires``. ``'merge'``: ``key``, and the operand as ``value``. ``'delete'``: ``key``.
/// ``'delete_range'``: ``key`` (inclusive) and ``stop`` (exclusive). ``'clear'``: all keys of the
/// keyspace. ``'keyspace_created'``: ``key_order`` and ``options``. ``'keyspace_renamed'``:
/// ``new_name``. ``'keyspace_dropped'``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct Change {
    /// What was done.
    kind: &'static str,
    /// The name that the keyspace had then.
    keyspace: String,
    /// The key, or the start of a range.
    key: Option<Py<PyBytes>>,
    /// The value or the operand.
    value: Option<Py<PyBytes>>,
    /// The end of a range, exclusive.
    stop: Option<Py<PyBytes>>,
    /// Time at which the pair expires, in seconds since 1970; None if it does not.
    expires: Option<f64>,
    /// The new name of a keyspace.
    new_name: Option<String>,
    /// The name of the key order of a keyspace.
    key_order: Option<String>,
    /// The own options of a keyspace, a dict of texts.
    options: Option<Py<PyDict>>,
}

impl Change {
    fn new(kind: &'static str, keyspace: &str) -> Change {
        Change {
            kind,
            keyspace: keyspace.to_string(),
            key: None,
            value: None,
            stop: None,
            expires: None,
            new_name: None,
            key_order: None,
            options: None,
        }
    }

    fn of(py: Python<'_>, made: &Made) -> PyResult<Change> {
        let bytes = |bytes: &[u8]| Some(PyBytes::new(py, bytes).unbind());
        Ok(match made {
            Made::Put { keyspace, key, value, expires_ms } => Change {
                key: bytes(key),
                value: bytes(value),
                expires: expires_ms.map(|time_ms| time_ms as f64 / 1000.0),
                ..Change::new("put", keyspace)
            },
            Made::Merge { keyspace, key, operand } => {
                let value = bytes(operand);
                Change { key: bytes(key), value, ..Change::new("merge", keyspace) }
            }
            Made::Delete { keyspace, key } => {
                Change { key: bytes(key), ..Change::new("delete", keyspace) }
            }
            Made::DeleteRange { keyspace, start, end } => {
                let stop = bytes(end);
                Change { key: bytes(start), stop, ..Change::new("delete_range", keyspace) }
            }
            Made::Clear { keyspace } => Change::new("clear", keyspace),
            Made::KeyspaceCreated { keyspace, key_order, options } => {
                let dict = PyDict::new(py);
                for (name, value) in options {
                    dict.set_item(name, value)?;
                }
                Change {
                    key_order: Some(key_order.clone()),
                    options: Some(dict.unbind()),
                    ..Change::new("keyspace_created", keyspace)
                }
            }
            Made::KeyspaceRenamed { keyspace, new_name } => Change {
                new_name: Some(new_name.to_string()),
                ..Change::new("keyspace_renamed", keyspace)
            },
            Made::KeyspaceDropped { keyspace } => Change::new("keyspace_dropped", keyspace),
            _ => {
                let message =
                    "this version of esker for Python has no name for a change of the feed";
                return Err(PyNotImplementedError::new_err(message));
            }
        })
    }
}

#[pymethods]
impl Change {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = self.key.as_ref().map(|key| key.bind(py).repr()).transpose()?;
        let key = key.map_or_else(String::new, |key| format!(" {key}"));
        Ok(format!("<esker.Change {}{key} in {:?}>", self.kind, self.keyspace))
    }
}

/// A committed batch, or a part of one: changes that became visible together. Iteration gives them in
/// order.
///
/// The pairs of an ingest or a bulk load come in parts of about 1 MiB; all other batches are whole. A
/// reader applies all parts of a batch or none, and confirms its position after the last part.
#[pyclass(frozen, get_all, module = "esker")]
pub struct ChangeBatch {
    /// Sequence number of the first operation.
    first_sequence: u64,
    /// Sequence number of the last operation: the position after the batch.
    sequence: u64,
    /// Checksum that tells batches with the same sequence number apart; not 0.
    checksum: u64,
    /// Position before the batch.
    previous: u64,
    /// Checksum of the batch that ends at ``previous``; 0 if it is not known.
    previous_checksum: u64,
    /// Number of this part of the batch, from 0 on. The parts have equal sequence numbers and checksums.
    part: u64,
    /// Whether more parts of the same batch follow.
    continues: bool,
    /// The changes, in order. A key may occur more than once; the last change counts.
    changes: Vec<Py<Change>>,
}

impl ChangeBatch {
    fn of(py: Python<'_>, made: &MadeBatch) -> PyResult<ChangeBatch> {
        let changes = made.changes.iter().map(|change| Py::new(py, Change::of(py, change)?));
        Ok(ChangeBatch {
            first_sequence: made.first_sequence,
            sequence: made.sequence,
            checksum: made.checksum,
            previous: made.previous,
            previous_checksum: made.previous_checksum,
            part: made.part,
            continues: made.continues,
            changes: changes.collect::<PyResult<Vec<Py<Change>>>>()?,
        })
    }
}

#[pymethods]
impl ChangeBatch {
    fn __repr__(&self) -> String {
        format!("<esker.ChangeBatch of {} at {}>", self.changes.len(), self.sequence)
    }

    fn __len__(&self) -> usize {
        self.changes.len()
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.getattr("changes")?.call_method0("__iter__")
    }
}

/// A feed, and the batch that Python cannot get. It is tried again by every later call.
struct Reading {
    changes: esker::feed::Changes,
    held: Option<MadeBatch>,
}

/// The change feed of a database from a position on; see ``DB.changes`` and ``Slot.changes``.
///
/// Iteration gives a ``ChangeBatch`` after the other and ends at the present; a later iteration goes
/// on. ``wait`` waits for the next batch. Raises IOError (``errno.ENOENT``) if the logs with the next
/// changes are gone, with the reason if the slot was dropped; RuntimeError if the database is closed,
/// also during a wait.
#[pyclass(frozen, module = "esker")]
pub struct Changes {
    store: Arc<Store>,
    reading: Guarded<Reading>,
}

impl Changes {
    fn make(store: &Arc<Store>, changes: esker::feed::Changes) -> Changes {
        Changes { store: store.clone(), reading: Guarded::new(Reading { changes, held: None }) }
    }

    /// Returns whether the feed is one of this open store.
    pub fn is_of(&self, store: &Arc<Store>) -> bool {
        Arc::ptr_eq(&self.store, store)
    }

    /// Returns the next batch, and waits for it until `deadline`.
    fn next(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Option<ChangeBatch>> {
        self.wait_for(py, deadline, |held| {
            let Some(made) = held else { return Ok(None) };
            let batch = ChangeBatch::of(py, made)?;
            *held = None;
            Ok(Some(batch))
        })
    }

    /// Does the same as `next`, with the batch of the engine.
    pub fn take(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Option<MadeBatch>> {
        self.wait_for(py, deadline, |held| Ok(held.take()))
    }

    /// Makes a batch that was taken the next one again.
    pub fn give_back(&self, py: Python<'_>, batch: MadeBatch) {
        self.reading.lock(py).held.get_or_insert(batch);
    }

    /// Waits until `deadline` for a batch that `take` returns.
    fn wait_for<T>(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
        take: impl Fn(&mut Option<MadeBatch>) -> PyResult<Option<T>>,
    ) -> PyResult<Option<T>> {
        loop {
            let left = deadline.map_or(LOOK, |at| at.saturating_duration_since(Instant::now()));
            let mut reading = self.reading.lock(py);
            let Reading { changes, held } = &mut *reading;
            if held.is_none() {
                *held = self.store.run_and_wait(py, || changes.wait(left.min(LOOK)))?;
            }
            if let Some(taken) = take(held)? {
                return Ok(Some(taken));
            }
            drop(reading);
            if left.is_zero() {
                return Ok(None);
            }
            py.check_signals()?;
        }
    }
}

#[pymethods]
impl Changes {
    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<esker.Changes at {}>", self.position(py))
    }

    /// The position: the sequence number of the last batch of which all parts were returned, or that
    /// had nothing for the reader.
    #[getter]
    fn position(&self, py: Python<'_>) -> u64 {
        self.reading.lock(py).changes.position()
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ChangeBatch>> {
        self.next(py, Some(Instant::now()))
    }

    /// Returns the next batch, and waits for it for at most ``timeout`` seconds; None waits for ever.
    /// Returns None after that time. Other threads run meanwhile.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Ttl>) -> PyResult<Option<ChangeBatch>> {
        let deadline = timeout.and_then(|wait| Instant::now().checked_add(wait.duration()));
        self.next(py, deadline)
    }
}

/// A slot: a durable position in the change feed of a database; see ``DB.subscribe``.
///
/// The database keeps the logs with the changes that the reader of the slot has not confirmed, also
/// while it is closed. Iteration gives the batches after the confirmed position, as ``changes()``.
/// Many threads may use a slot concurrently.
#[pyclass(frozen, module = "esker")]
pub struct Slot {
    store: Arc<Store>,
    slot: esker::feed::Slot,
}

impl Slot {
    pub fn make(store: &Arc<Store>, slot: esker::feed::Slot) -> Slot {
        Slot { store: store.clone(), slot }
    }
}

#[pymethods]
impl Slot {
    fn __repr__(&self) -> String {
        format!("<esker.Slot {:?}>", self.slot.name())
    }

    /// The name of the slot.
    #[getter]
    fn name(&self) -> &str {
        self.slot.name()
    }

    /// The position that was confirmed last, or that the slot began with. Raises IOError
    /// (``errno.ENOENT``), with the reason, if the slot was dropped.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.store.run(py, |_| self.slot.position())
    }

    /// Returns the changes after the confirmed position, as ``Changes``.
    fn changes(&self, py: Python<'_>) -> PyResult<Changes> {
        let changes = self.store.run(py, |_| self.slot.changes())?;
        Ok(Changes::make(&self.store, changes))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Changes> {
        self.changes(py)
    }

    /// Confirms every batch up to ``position``, durably: the slot does not return them again, and
    /// their logs may be removed. Confirm a batch after its last part. A position at or before the
    /// confirmed one changes nothing. Raises Error for a position after the newest write; IOError if
    /// the slot was dropped.
    fn confirm(&self, py: Python<'_>, position: u64) -> PyResult<()> {
        self.store.run(py, |_| self.slot.confirm(position))
    }

    /// Removes the slot, and the logs that only it needed; the same as ``DB.drop_slot``.
    fn drop(&self, py: Python<'_>) -> PyResult<()> {
        self.store.run(py, |db| db.drop_slot(self.slot.name()))
    }
}

/// State of a slot, from ``DB.slots``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct SlotInfo {
    /// Name of the slot.
    name: String,
    /// The position that its reader has confirmed; 0 if the slot is damaged.
    position: u64,
    /// Bytes of logs that are kept only for this slot and for slots that lag less.
    lag_bytes: u64,
    /// Maximum of these bytes; None for no limit.
    lag_limit_bytes: Option<u64>,
    /// Why the slot keeps no logs any more, as a sentence; None if it does.
    problem: Option<String>,
}

impl From<esker::feed::SlotInfo> for SlotInfo {
    fn from(slot: esker::feed::SlotInfo) -> SlotInfo {
        SlotInfo {
            name: slot.name,
            position: slot.position,
            lag_bytes: slot.lag_bytes,
            lag_limit_bytes: slot.lag_limit_bytes,
            problem: slot.problem,
        }
    }
}

#[pymethods]
impl SlotInfo {
    fn __repr__(&self) -> String {
        format!("<esker.SlotInfo {:?} at {}>", self.name, self.position)
    }
}

/// Returns the feed of a database after the position `from`.
pub fn changes(py: Python<'_>, store: &Arc<Store>, from: u64) -> PyResult<Changes> {
    Ok(Changes::make(store, store.run(py, |db| db.changes(from))?))
}
