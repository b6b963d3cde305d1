//! Much data at once: writers of sorted files, ingests and bulk loads.
//!
//! Invariants:
//! 1. A file that was not finished is removed with its writer.
//! 2. The pairs of a bulk load are taken from Python in chunks, with the interpreter's lock; the
//!    engine works without it. After an exception of their source nothing is changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::vec;

use esker::Error;
use esker::ingest::IngestOptions;
use esker_bindings::handle::Handle;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyTuple};

use crate::arguments::{self, BytesLike};
use crate::comparator::PyComparator;
use crate::errors;
use crate::guarded::Guarded;
use crate::merge::Ttl;
use crate::part::Part;

/// Most pairs, and about the most bytes, that are taken from Python at once.
const CHUNK_PAIRS: usize = 1024;
const CHUNK_BYTES: usize = 1 << 20;

/// The result of ``DB.ingest`` and ``DB.bulk_load``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct IngestReport {
    /// The sequence number of all entries; 0 if there was none.
    sequence: u64,
    /// Number of tables that were installed.
    files: u64,
    /// Number of entries in them.
    entries: u64,
    /// Bytes of the tables.
    bytes: u64,
    /// Whether the call waited for a flush of what was written before.
    flushed: bool,
}

impl From<esker::ingest::IngestReport> for IngestReport {
    fn from(made: esker::ingest::IngestReport) -> IngestReport {
        IngestReport {
            sequence: made.seqno,
            files: made.files,
            entries: made.entries,
            bytes: made.bytes,
            flushed: made.flushed,
        }
    }
}

#[pymethods]
impl IngestReport {
    fn __repr__(&self) -> String {
        format!("<esker.IngestReport of {} entries in {} tables>", self.entries, self.files)
    }
}

/// A finished file of a ``SortedWriter``.
#[pyclass(frozen, get_all, module = "esker")]
pub struct SortedFile {
    /// Absolute path of the file.
    path: String,
    /// Number of entries.
    entries: u64,
    /// Length of the file in bytes.
    bytes: u64,
    /// Smallest key; empty without entries.
    smallest: Py<PyBytes>,
    /// Largest key; empty without entries.
    largest: Py<PyBytes>,
}

#[pymethods]
impl SortedFile {
    fn __repr__(&self) -> String {
        format!("<esker.SortedFile {} of {} entries>", self.path, self.entries)
    }
}

/// A writer of the table file ``name`` outside of a database, for ``DB.ingest``. ``name`` must not
/// exist.
///
/// It needs no database, so several can run at the same time, also in other processes. Takes the
/// options of ``DB``; the file has their key order, compression, block size and filter, and only the
/// key order must be that of the database. Keys must be strictly ascending. The file is not encrypted,
/// also with ``key``: the ingest into an encrypted database encrypts it.
///
/// As a ``with`` block, it is finished at the end, and the file is removed if the block raised. A
/// writer that is closed or freed before ``finish`` removes its file.
#[pyclass(frozen, module = "esker")]
pub struct SortedWriter {
    path: PathBuf,
    writer: Guarded<Option<esker::ingest::SortedWriter>>,
    comparators: Vec<Arc<PyComparator>>,
    /// The process that made the writer. A fork of it must not touch the file.
    process: u32,
}

impl Drop for SortedWriter {
    fn drop(&mut self) {
        let writer = self.writer.get_mut().take();
        if self.process != std::process::id() {
            std::mem::forget(writer);
        }
    }
}

impl SortedWriter {
    /// Returns the writer, to be used or dropped.
    fn taken(&self, py: Python<'_>) -> Option<esker::ingest::SortedWriter> {
        let own = self.process == std::process::id();
        own.then(|| self.writer.lock(py).take()).flatten()
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut esker::ingest::SortedWriter) -> esker::Result<T> + Send,
    ) -> PyResult<T> {
        if self.process != std::process::id() {
            return Err(finished());
        }
        let mut guard = self.writer.lock(py);
        let writer = guard.as_mut().ok_or_else(finished)?;
        let outcome = py.detach(|| act(writer));
        PyComparator::check_all(py, &self.comparators)?;
        outcome.map_err(|error| errors::raised(py, &error))
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the sorted writer is finished or closed")
}

#[pymethods]
impl SortedWriter {
    #[new]
    #[pyo3(signature = (name, **options), text_signature = "(name, **options)")]
    fn new(
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<SortedWriter> {
        let path = arguments::path_of(name)?;
        let chosen = arguments::chosen(options)?;
        let made = py.detach(|| esker::ingest::SortedWriter::create(&path, &chosen.options));
        let made = made.map_err(|error| errors::raised(py, &error))?;
        let (comparators, process) = (chosen.comparators, std::process::id());
        Ok(SortedWriter { path, writer: Guarded::new(Some(made)), comparators, process })
    }

    fn __repr__(&self) -> String {
        format!("<esker.SortedWriter of {}>", self.path.display())
    }

    /// Adds a pair, which with ``ttl`` expires after so many seconds from now on. Raises Error for a
    /// key that is not after all keys so far: it is not written, and the next one can be.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
        ttl: Option<Ttl>,
    ) -> PyResult<()> {
        let (key, value) = (&*key, &*value);
        self.with(py, |writer| match ttl {
            None => writer.put(key, value),
            Some(ttl) => writer.put_with_ttl(key, value, ttl.duration()),
        })
    }

    /// Adds an operand, which the ingest merges into the value of ``key``. Raises Error without a
    /// merge operator in the options of the writer.
    fn merge(&self, py: Python<'_>, key: BytesLike<'_>, operand: BytesLike<'_>) -> PyResult<()> {
        let (key, operand) = (&*key, &*operand);
        self.with(py, |writer| writer.merge(key, operand))
    }

    /// Adds a delete: the ingest deletes ``key`` from the database.
    fn delete(&self, py: Python<'_>, key: BytesLike<'_>) -> PyResult<()> {
        let key = &*key;
        self.with(py, |writer| writer.delete(key))
    }

    /// The number of entries so far.
    #[getter]
    fn entries(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |writer| Ok(writer.entries()))
    }

    /// The approximate length of the file so far, in bytes, for a program that begins another file at
    /// some size.
    #[getter]
    fn estimated_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |writer| Ok(writer.estimated_bytes()))
    }

    /// Completes the file and makes it durable. Returns a ``SortedFile``. Later calls raise
    /// RuntimeError.
    fn finish(&self, py: Python<'_>) -> PyResult<SortedFile> {
        let writer = self.taken(py).ok_or_else(finished)?;
        let made = py.detach(|| writer.finish()).map_err(|error| errors::raised(py, &error))?;
        Ok(SortedFile {
            path: made.path.display().to_string(),
            entries: made.entries,
            bytes: made.bytes,
            smallest: PyBytes::new(py, &made.smallest).unbind(),
            largest: PyBytes::new(py, &made.largest).unbind(),
        })
    }

    /// Removes the file, if it was not finished. Closing twice is allowed.
    fn close(&self, py: Python<'_>) {
        let writer = self.taken(py);
        py.detach(|| drop(writer));
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let raised = !exception.is_empty() && !exception.get_item(0)?.is_none();
        let is_over = self.writer.lock(py).is_none();
        match raised || is_over {
            true => self.close(py),
            false => drop(self.finish(py)?),
        }
        Ok(())
    }
}

/// Makes files part of a keyspace.
pub fn ingest(
    py: Python<'_>,
    part: &Part,
    files: &Bound<'_, PyAny>,
    copy: bool,
    verify: bool,
) -> PyResult<IngestReport> {
    let one = files.extract::<&str>().is_ok() || files.cast::<PyBytes>().is_ok();
    if one {
        return Err(PyTypeError::new_err("ingest() takes a list of files, not one name"));
    }
    let paths = files.try_iter()?.map(|file| arguments::path_of(&file?));
    let paths = paths.collect::<PyResult<Vec<PathBuf>>>()?;
    let options = IngestOptions::default().copy(copy).verify(verify);
    let made = part.store().run(py, |db| match part.keyspace() {
        None => db.ingest(&paths, &options),
        Some(keyspace) => keyspace.ingest(&paths, &options),
    })?;
    Ok(made.into())
}

/// Why a bulk load failed.
enum Failure {
    Engine(Error),
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

type Pair = (Vec<u8>, Vec<u8>);

/// The pairs of a Python iterator, for the engine.
struct Source<'a> {
    handle: &'a Handle,
    pairs: Py<PyIterator>,
    chunk: vec::IntoIter<Pair>,
    is_over: bool,
}

impl Source<'_> {
    /// Takes the next pairs.
    fn fill(&mut self) -> Result<(), Failure> {
        let filled = Python::try_attach(|py| self.handle.held(|| self.take(py)));
        let ended = || PyRuntimeError::new_err("the interpreter has ended");
        filled.unwrap_or_else(|| Err(ended())).map_err(Failure::Python)
    }

    fn take(&mut self, py: Python<'_>) -> PyResult<()> {
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        let mut pairs = self.pairs.bind(py).clone();
        while chunk.len() < CHUNK_PAIRS && bytes < CHUNK_BYTES {
            let Some(pair) = pairs.next() else {
                self.is_over = true;
                break;
            };
            let pair = pair_of(&pair?)?;
            bytes += pair.0.len() + pair.1.len();
            chunk.push(pair);
        }
        self.chunk = chunk.into_iter();
        Ok(())
    }
}

/// Returns the key and the value of an item.
fn pair_of(item: &Bound<'_, PyAny>) -> PyResult<Pair> {
    let wrong = "bulk_load() takes pairs of a key and a value";
    let both = item.cast::<PyTuple>().map_err(|_| PyTypeError::new_err(wrong))?;
    if both.len() != 2 {
        return Err(PyValueError::new_err(wrong));
    }
    let bytes = |at| Ok::<_, PyErr>(both.get_item(at)?.extract::<BytesLike<'_>>()?.to_vec());
    Ok((bytes(0)?, bytes(1)?))
}

impl Iterator for Source<'_> {
    type Item = Result<Pair, Failure>;

    fn next(&mut self) -> Option<Result<Pair, Failure>> {
        if let Some(pair) = self.chunk.next() {
            return Some(Ok(pair));
        }
        if self.is_over {
            return None;
        }
        if let Err(failure) = self.fill() {
            self.is_over = true;
            return Some(Err(failure));
        }
        self.chunk.next().map(Ok)
    }
}

/// Writes the pairs of an iterable as tables of a keyspace.
pub fn bulk_load(py: Python<'_>, part: &Part, pairs: &Bound<'_, PyAny>) -> PyResult<IngestReport> {
    let pairs = pairs.try_iter()?.unbind();
    let store = part.store();
    store.check_order(py)?;
    let loaded: Result<esker::ingest::IngestReport, Failure> = py.detach(|| {
        let handle = store.handle();
        let db = handle.open()?;
        let source = Source { handle, pairs, chunk: Vec::new().into_iter(), is_over: false };
        match part.keyspace() {
            None => db.try_bulk_load(source),
            Some(keyspace) => keyspace.try_bulk_load(source),
        }
    });
    store.check_order(py)?;
    match loaded {
        Ok(made) => Ok(made.into()),
        Err(Failure::Engine(error)) => Err(errors::raised(py, &error)),
        Err(Failure::Python(error)) => Err(error),
    }
}
