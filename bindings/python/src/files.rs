//! Binary file objects of Python, from which the engine reads and to which it writes.
//!
//! Invariants:
//! 1. A method of a file object is called with the interpreter's lock; the engine works without it.
//! 2. An exception of a file object is raised by the call that met it.
//! 3. A file object may use the database, but not close it.
//! 4. No more than `CHUNK_BYTES` are held of what was read and not yet taken.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::BytesLike;
use crate::store::Store;

/// Bytes that are asked of a file object at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The exception of a file object, until a call raises it.
#[derive(Clone, Default)]
pub struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Keeps an exception, and returns the failure that stands for it in the engine.
    fn keep(&self, error: PyErr) -> io::Error {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        io::Error::other("the file object raised an exception")
    }

    /// Returns the exception that was kept, or `otherwise`.
    pub fn or(&self, otherwise: PyErr) -> PyErr {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(otherwise)
    }
}

fn ended() -> io::Error {
    io::Error::other("the interpreter has ended")
}

/// Returns a method of a file object.
fn method<'py>(file: &Bound<'py, PyAny>, name: &str, what: &str) -> PyResult<Bound<'py, PyAny>> {
    match file.hasattr(name)? {
        true => file.getattr(name),
        false => Err(PyTypeError::new_err(format!(
            "{what} must be a binary file object: {} has no method '{name}'",
            file.get_type().name()?
        ))),
    }
}

/// The bytes of a file object.
pub struct Source {
    store: Arc<Store>,
    read: Py<PyAny>,
    chunk: Vec<u8>,
    /// Number of bytes of the chunk that were taken.
    taken: usize,
    raised: Raised,
}

impl Source {
    pub fn of(store: &Arc<Store>, file: &Bound<'_, PyAny>, raised: &Raised) -> PyResult<Source> {
        // `read` of a buffered pipe waits until all bytes have come, and `read1` does not.
        let name = if file.hasattr("read1")? { "read1" } else { "read" };
        let read = method(file, name, "the source")?.unbind();
        let (store, raised) = (store.clone(), raised.clone());
        Ok(Source { store, read, chunk: Vec::new(), taken: 0, raised })
    }

    /// Reads the next bytes; none at the end.
    fn fill(&mut self, py: Python<'_>) -> PyResult<()> {
        let given = self.read.bind(py).call1((CHUNK_BYTES,))?;
        if given.is_none() {
            return Err(PyValueError::new_err("the file object is not in blocking mode"));
        }
        let bytes = given.extract::<BytesLike<'_>>()?;
        if bytes.len() > CHUNK_BYTES {
            let message = format!("read({CHUNK_BYTES}) of the file returned {} bytes", bytes.len());
            return Err(PyValueError::new_err(message));
        }
        self.chunk.clear();
        self.chunk.extend_from_slice(&bytes);
        self.taken = 0;
        Ok(())
    }
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.chunk.len() && !out.is_empty() {
            let store = self.store.clone();
            let filled = Python::try_attach(|py| store.handle().held(|| self.fill(py)));
            filled.ok_or_else(ended)?.map_err(|error| self.raised.keep(error))?;
        }
        let bytes = &self.chunk[self.taken..];
        let len = bytes.len().min(out.len());
        out[..len].copy_from_slice(&bytes[..len]);
        self.taken += len;
        Ok(len)
    }
}

/// A file object that takes bytes, and the bytes that it has not taken yet.
pub struct Sink {
    store: Arc<Store>,
    write: Py<PyAny>,
    flush: Option<Py<PyAny>>,
    waiting: Vec<u8>,
    has_failed: bool,
    raised: Raised,
}

impl Sink {
    pub fn of(store: &Arc<Store>, file: &Bound<'_, PyAny>, raised: &Raised) -> PyResult<Sink> {
        let write = method(file, "write", "the destination")?.unbind();
        let flush = match file.hasattr("flush")? {
            true => Some(file.getattr("flush")?.unbind()),
            false => None,
        };
        let (store, raised) = (store.clone(), raised.clone());
        Ok(Sink { store, write, flush, waiting: Vec::new(), has_failed: false, raised })
    }

    fn send(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = self.write.bind(py).call1((PyBytes::new(py, rest),))?;
            // A raw file may take a part only. An object whose `write` returns None took all.
            let count = match written.is_none() {
                true => rest.len(),
                false => written.extract::<usize>()?,
            };
            rest = match rest.get(count..) {
                Some(rest) if count > 0 => rest,
                _ => {
                    let message = format!("write() of {} bytes returned {count}", rest.len());
                    return Err(PyValueError::new_err(message));
                }
            };
        }
        self.flush.as_ref().map_or(Ok(()), |flush| flush.bind(py).call0().map(drop))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if self.has_failed {
            let message = "the file object has failed before; begin another stream";
            return Err(io::Error::other(message));
        }
        // A failure ends the stream: a part of the bytes may have been written.
        self.has_failed = true;
        let store = self.store.clone();
        let sent = Python::try_attach(|py| store.handle().held(|| self.send(py, &waiting)));
        sent.ok_or_else(ended)?.map_err(|error| self.raised.keep(error))?;
        self.has_failed = false;
        Ok(())
    }
}
