//! The change feed as bytes, for a file, a pipe or a connection to another machine.
//!
//! Invariants:
//! 1. The file of a writer gets whole frames, in order. After its first exception it gets nothing
//!    more, and every later call on the writer raises.
//! 2. A wait for bytes does not keep the database open: a close does not wait for it.
//! 3. An item is applied as a whole before the call that reads it returns, or the call raises. No
//!    item is applied after one that failed.
//! 4. No lock is held while a method of a file object runs.

use std::sync::Arc;

use esker::Result;
use esker::feed::{
    Applier as MadeApplier, ChangeReader, ChangeWriter as MadeWriter, StreamItem as Made,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::feed::Changes;
use crate::files::{Raised, Sink, Source};
use crate::guarded::Guarded;
use crate::merge::Ttl;
use crate::store::Store;
use crate::writing::deadline_of;

/// An object that one call at a time takes, and gives back.
struct Taken<T>(Guarded<Option<T>>);

impl<T: Send> Taken<T> {
    fn new(object: T) -> Taken<T> {
        Taken(Guarded::new(Some(object)))
    }

    /// Returns the object; `what` names it in the message of the exception.
    fn take(&self, py: Python<'_>, what: &str) -> PyResult<T> {
        self.0.lock(py).take().ok_or_else(|| {
            let message = format!("the {what} is closed, or used by another call");
            PyRuntimeError::new_err(message)
        })
    }

    fn give_back(&self, py: Python<'_>, object: T) {
        *self.0.lock(py) = Some(object);
    }
}

/// A writer of the changes of a database as bytes, from ``DB.change_writer``. An ``Applier`` reads
/// them.
///
/// One call at a time may use a writer. An exception of its file ends the stream: later calls raise
/// IOError.
#[pyclass(frozen, module = "esker")]
pub struct ChangeWriter {
    store: Arc<Store>,
    writer: Taken<MadeWriter<Sink>>,
    raised: Raised,
}

impl ChangeWriter {
    fn write<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut MadeWriter<Sink>) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.store.check_reentry(py)?;
        let mut writer = self.writer.take(py, "writer")?;
        let written = self.store.run_and_wait(py, || body(&mut writer));
        self.writer.give_back(py, writer);
        written.map_err(|error| self.raised.or(error))
    }

    fn send(&self, py: Python<'_>, item: &Made) -> PyResult<()> {
        self.write(py, |writer| writer.write(item).and_then(|()| writer.flush()))
    }
}

#[pymethods]
impl ChangeWriter {
    /// Waits for the next batch of ``changes``, a feed of the same database, for at most
    /// ``timeout`` seconds, and writes it. None waits for ever. Returns the sequence number of the
    /// batch, which is the position after it, or None after that time. A batch that could not be
    /// written is the next one of ``changes`` again.
    #[pyo3(signature = (changes, timeout=None))]
    fn write_next(
        &self,
        py: Python<'_>,
        changes: &Changes,
        timeout: Option<Ttl>,
    ) -> PyResult<Option<u64>> {
        if !changes.is_of(&self.store) {
            let message = "the changes are those of another database than the writer's";
            return Err(PyValueError::new_err(message));
        }
        let Some(batch) = changes.take(py, deadline_of(timeout))? else { return Ok(None) };
        let (sequence, item) = (batch.sequence, Made::Batch(batch));
        let written = self.send(py, &item);
        if let (Err(_), Made::Batch(batch)) = (&written, item) {
            changes.give_back(py, batch);
        }
        written.map(|()| Some(sequence))
    }

    /// Writes the whole content of the database, for a receiver that has nothing of it. Returns its
    /// position in the feed: the changes from there on follow. A slot must exist before this call,
    /// so that they are kept.
    fn content(&self, py: Python<'_>) -> PyResult<u64> {
        let store = self.store.clone();
        self.write(py, |writer| {
            let db = store.opened()?;
            db.content(|item| writer.write(&item).and_then(|()| writer.flush()))
        })
    }

    /// Writes that there is nothing new after ``position``, so that the receiver knows that the
    /// sender is alive.
    fn alive(&self, py: Python<'_>, position: u64) -> PyResult<()> {
        self.send(py, &Made::Alive { position })
    }

    /// Writes the end of the stream, at ``position``. A stream without it is cut off for its
    /// receiver.
    fn end(&self, py: Python<'_>, position: u64) -> PyResult<()> {
        self.send(py, &Made::End { position })
    }

    fn __repr__(&self) -> &'static str {
        "<esker.ChangeWriter>"
    }
}

/// Begins a stream of the changes of a database: writes its header.
pub fn change_writer(
    py: Python<'_>,
    store: &Arc<Store>,
    file: &Bound<'_, PyAny>,
) -> PyResult<ChangeWriter> {
    let raised = Raised::default();
    let sink = Sink::of(store, file, &raised)?;
    let id = store.run(py, |db| Ok(db.store_id()))?;
    let made = store.run_and_wait(py, || {
        let mut writer = MadeWriter::new(sink, id)?;
        writer.flush()?;
        Ok(writer)
    });
    let writer = Taken::new(made.map_err(|error| raised.or(error))?);
    Ok(ChangeWriter { store: store.clone(), writer, raised })
}

/// An item of a stream that an ``Applier`` has applied.
///
/// ``kind`` is 'batch' for a batch of changes or a part of one, 'content' for the beginning and the
/// parts of the content of the source, 'content_end' for its end, 'alive' if the source has nothing
/// new, and 'other' for an item that this version has no name for.
#[pyclass(frozen, get_all, module = "esker")]
pub struct StreamItem {
    /// What the item is.
    kind: &'static str,
    /// The position of the source after the item; None for content before its end.
    position: Option<u64>,
    /// Whether the item changed the database. A batch that the database has is left out.
    changed: bool,
}

impl StreamItem {
    fn of(item: &Made, changed: bool) -> StreamItem {
        let (kind, position) = match item {
            Made::Batch(batch) => ("batch", Some(batch.sequence)),
            Made::Alive { position } => ("alive", Some(*position)),
            Made::BootstrapBegins | Made::Content(_) => ("content", None),
            Made::BootstrapEnds { position } => ("content_end", Some(*position)),
            _ => ("other", None),
        };
        StreamItem { kind, position, changed }
    }
}

#[pymethods]
impl StreamItem {
    fn __repr__(&self) -> String {
        let position = self.position.map_or_else(String::new, |position| format!(" at {position}"));
        format!("<esker.StreamItem {}{position}>", self.kind)
    }
}

/// A stream and the object that applies it.
struct Applying {
    reader: ChangeReader<Source>,
    applier: MadeApplier,
}

/// An iterator that reads a stream of a ``ChangeWriter`` and applies it to a database, from
/// ``DB.applier``: each step reads an item, applies it, and returns it as a ``StreamItem``.
///
/// The iteration ends at the end of the stream. A step raises CorruptionError if the bytes are
/// damaged; IOError if they are cut off; Error if the item does not follow what the database has,
/// or needs a keyspace order or a merge operator that it lacks; and what the file raises. The item
/// is not applied then, and later calls raise RuntimeError: begin a new stream at
/// ``DB.applied_position()``.
///
/// One call at a time may use an applier. What it has applied stays when it is closed.
#[pyclass(frozen, module = "esker")]
pub struct Applier {
    store: Arc<Store>,
    applying: Taken<Applying>,
    /// The ``store_id`` of the database whose changes the stream has.
    #[pyo3(get)]
    source: u64,
    raised: Raised,
}

#[pymethods]
impl Applier {
    fn __repr__(&self) -> String {
        format!("<esker.Applier of the store {:016x}>", self.source)
    }

    /// The position up to which changes are applied; None before the first one, and while content
    /// is copied.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.store.check_open("database or applier")?;
        let own = self.applying.take(py, "applier")?;
        let position = own.applier.position();
        self.applying.give_back(py, own);
        Ok(position)
    }

    /// States that the database has the content of the source at ``position``, because it is a copy
    /// of it. Raises Error if it has applied changes already.
    fn start_at(&self, py: Python<'_>, position: u64) -> PyResult<()> {
        let mut own = self.applying.take(py, "applier")?;
        let started = self.store.run(py, |_| own.applier.start_at(position));
        self.applying.give_back(py, own);
        started
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<StreamItem>> {
        self.store.check_reentry(py)?;
        let mut own = self.applying.take(py, "applier")?;
        let applied = self.store.run_and_wait(py, || {
            let Some(item) = own.reader.next()? else { return Ok(None) };
            let _open = self.store.opened()?;
            let changed = own.applier.apply(&item)?;
            let is_over = matches!(item, Made::End { .. });
            Ok((!is_over).then(|| StreamItem::of(&item, changed)))
        });
        match applied {
            Ok(item) => {
                self.applying.give_back(py, own);
                Ok(item)
            }
            Err(error) => {
                py.detach(|| drop(own));
                Err(self.raised.or(error))
            }
        }
    }

    /// Ends the application. Later calls raise RuntimeError. Closing twice is allowed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.store.check_reentry(py)?;
        let own = self.applying.0.lock(py).take();
        py.detach(|| drop(own));
        Ok(())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

/// Begins to apply a stream to a database: reads its header.
pub fn applier(py: Python<'_>, store: &Arc<Store>, file: &Bound<'_, PyAny>) -> PyResult<Applier> {
    store.check_open("database")?;
    store.check_reentry(py)?;
    let raised = Raised::default();
    let source = Source::of(store, file, &raised)?;
    let made = store.run_and_wait(py, || {
        let reader = ChangeReader::new(source)?;
        let applier = MadeApplier::new(&*store.opened()?, reader.source())?;
        Ok(Applying { reader, applier })
    });
    let made = made.map_err(|error| raised.or(error))?;
    let source = made.reader.source();
    Ok(Applier { store: store.clone(), applying: Taken::new(made), source, raised })
}
