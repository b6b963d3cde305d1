//! Values that are not in memory as a whole: put from a file object, and read by a reader.
//!
//! Invariants:
//! 1. A value whose source raises is not written.
//! 2. A reader keeps its version of the value. It raises if it or its database is closed.
//! 3. A read that raises leaves the position as it was.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arrays;
use crate::errors;
use crate::files::{Raised, Source};
use crate::guarded::Guarded;
use crate::part::Part;
use crate::store::Store;

/// Bytes that are copied at once to a buffer of the caller.
const PIECE_BYTES: usize = 64 << 10;

/// Sets `key` to the bytes of a file object. Returns the length of the value.
pub fn put_reader(
    py: Python<'_>,
    part: &Part,
    key: &[u8],
    file: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let store = part.store();
    store.check_open("database")?;
    let raised = Raised::default();
    let mut source = Source::of(store, file, &raised)?;
    let (key, bytes) = (part.key(key), &mut source);
    let written = match part.keyspace() {
        None => store.run(py, |db| db.put_reader(&*key, bytes)),
        Some(keyspace) => store.run(py, |_| keyspace.put_reader(&*key, bytes)),
    };
    written.map_err(|error| raised.or(error))
}

/// Returns a reader of the value of `key`.
pub fn get_reader(py: Python<'_>, part: &Part, key: &[u8]) -> PyResult<Option<ValueReader>> {
    let (store, key) = (part.store(), part.key(key));
    let found = match part.keyspace() {
        None => store.run(py, |db| db.get_reader(&*key)),
        Some(keyspace) => store.run(py, |_| keyspace.get_reader(&*key)),
    }?;
    Ok(found.map(|reader| ValueReader {
        store: store.clone(),
        size_bytes: reader.len_bytes(),
        reader: Guarded::new(Some(reader)),
    }))
}

/// A binary file object, for reading alone, with the value of a key; see ``DB.get_reader``.
///
/// It returns the value that the key had when the reader was made, whatever is written later. Of a
/// value that ``put_reader`` has streamed, it holds 64 KiB in memory; any other value is in memory
/// as a whole. Several threads may share a reader; they share its position, too.
///
/// A read raises CorruptionError if a piece of the value is damaged, and IOError. The position is
/// then as before. Other pieces can still be read. Calls on a closed reader, and on one of a closed
/// database, raise RuntimeError.
#[pyclass(frozen, weakref, module = "esker")]
pub struct ValueReader {
    store: Arc<Store>,
    /// The length of the whole value, in bytes.
    #[pyo3(get)]
    size_bytes: u64,
    reader: Guarded<Option<esker::ValueReader>>,
}

/// Returns the exception for a failure of a read: that of the engine, if there is one.
fn failure_of(py: Python<'_>, error: io::Error) -> PyErr {
    let message = error.to_string();
    match error.into_inner().map(|inner| inner.downcast::<esker::Error>()) {
        Some(Ok(error)) => errors::raised(py, &error),
        _ => PyValueError::new_err(message),
    }
}

/// Reads bytes until `out` is full or the value ends. Returns their number.
fn read_full(reader: &mut esker::ValueReader, out: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < out.len() {
        match reader.read(&mut out[len..])? {
            0 => break,
            read => len += read,
        }
    }
    Ok(len)
}

impl ValueReader {
    /// Runs `body` on the reader without the interpreter's lock. Restores the position if it fails.
    fn on<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut esker::ValueReader) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        self.store.check_reentry(py)?;
        let mut guard = self.reader.lock(py);
        self.store.check_open("database or reader")?;
        let reader = guard.as_mut().ok_or_else(|| errors::closed("database or reader"))?;
        let outcome = py.detach(|| {
            let before = reader.stream_position()?;
            body(reader).inspect_err(|_| drop(reader.seek(SeekFrom::Start(before))))
        });
        outcome.map_err(|error| failure_of(py, error))
    }

    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.on(py, Seek::stream_position)
    }
}

#[pymethods]
impl ValueReader {
    fn __repr__(&self) -> String {
        format!("<esker.ValueReader of {} bytes>", self.size_bytes)
    }

    /// Returns the next ``size`` bytes, or fewer at the end of the value. None and -1 mean all
    /// bytes to the end.
    #[pyo3(signature = (size=Some(-1), /), text_signature = "($self, size=-1, /)")]
    fn read<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        let most = size.and_then(|size| u64::try_from(size).ok()).unwrap_or(u64::MAX);
        let size_bytes = self.size_bytes;
        let bytes = self.on(py, |reader| {
            let rest = size_bytes.saturating_sub(reader.stream_position()?);
            let mut bytes = vec![0; rest.min(most) as usize];
            let len = read_full(reader, &mut bytes)?;
            bytes.truncate(len);
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Copies the next bytes into ``buffer``, a writable contiguous object with the buffer
    /// protocol. Returns their number, which is less than its length only at the end of the value.
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let view = arrays::writable(buffer, "the buffer")?;
        let (room, start) = (view.len()?, self.position(py)?);
        let mut len = 0;
        while len < room {
            let piece = self.on(py, |reader| {
                let mut piece = vec![0; PIECE_BYTES.min(room - len)];
                let read = read_full(reader, &mut piece)?;
                piece.truncate(read);
                Ok(piece)
            });
            match piece {
                Ok(piece) if piece.is_empty() => break,
                Ok(piece) => {
                    arrays::write(&view, len, &piece)?;
                    len += piece.len();
                }
                Err(error) => {
                    self.on(py, |reader| reader.seek(SeekFrom::Start(start)))?;
                    return Err(error);
                }
            }
        }
        Ok(len)
    }

    /// Moves to a byte of the value, and returns its position: ``offset`` bytes after the start of
    /// the value (``whence`` 0), the position (1) or the end (2). Reads behind the end return
    /// nothing. Raises ValueError for a position before the start.
    #[pyo3(signature = (offset, whence=0, /))]
    fn seek(&self, py: Python<'_>, offset: i64, whence: i32) -> PyResult<u64> {
        let to = match (whence, u64::try_from(offset)) {
            (0, Ok(offset)) => SeekFrom::Start(offset),
            (0, Err(_)) => {
                let message = format!("the position {offset} is before the value");
                return Err(PyValueError::new_err(message));
            }
            (1, _) => SeekFrom::Current(offset),
            (2, _) => SeekFrom::End(offset),
            _ => return Err(PyValueError::new_err(format!("whence is 0, 1 or 2, not {whence}"))),
        };
        self.on(py, |reader| reader.seek(to))
    }

    /// Returns the position of the next byte.
    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        self.position(py)
    }

    /// Returns True.
    fn readable(&self, py: Python<'_>) -> PyResult<bool> {
        self.on(py, |_| Ok(true))
    }

    /// Returns True.
    fn seekable(&self, py: Python<'_>) -> PyResult<bool> {
        self.on(py, |_| Ok(true))
    }

    /// Returns False.
    fn writable(&self, py: Python<'_>) -> PyResult<bool> {
        self.on(py, |_| Ok(false))
    }

    /// Whether the reader or its database was closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.store.is_closed() || self.reader.lock(py).is_none()
    }

    /// Releases the file and the memory. Later calls raise RuntimeError. Closing twice is allowed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.store.check_reentry(py)?;
        let reader = self.reader.lock(py).take();
        py.detach(|| drop(reader));
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
