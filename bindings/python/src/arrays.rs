//! Values read into buffers of the caller, and arrays of keys and values of one size.
//!
//! Invariants:
//! 1. Nothing is written outside of the caller's buffer, and nothing at all if a call fails.
//! 2. A buffer of the caller is read and written only with the interpreter's lock, because another
//!    thread may change it. Its rows are copied to a batch, or from the memory of the engine, in
//!    groups that fit in a processor's cache. Only keys that a read needs without the lock are
//!    copied as a whole. Bytes, which never change, are not copied.

use std::borrow::Cow;
use std::ops::Range;

use esker::{Batch, ReadOptions, Slice, WriteOptions};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PySlice};

use crate::part::Part;

/// About the most bytes of small rows that are copied at once.
const GROUP_BYTES: usize = 64 << 10;

/// Returns the number of rows of a size that are copied at once.
fn group_of(size: usize) -> usize {
    (GROUP_BYTES / size.max(1)).max(1)
}

/// Returns a contiguous buffer of the caller as a memoryview of its bytes. Returns `None` for a
/// buffer that is not contiguous, and for items that neither a memoryview nor numpy has as bytes.
fn contiguous<'py>(
    given: &Bound<'py, PyAny>,
    view: &Bound<'py, PyMemoryView>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !view.getattr("c_contiguous")?.is_truthy()? {
        return Ok(None);
    }
    let cast = |view: &Bound<'py, PyMemoryView>| view.call_method1("cast", ("B",));
    // A memoryview with no bytes casts to none, whatever its rows are.
    if view.getattr("nbytes")?.extract::<usize>()? == 0 {
        let none = PyByteArray::new(view.py(), &[]);
        return Ok(Some(PyMemoryView::from(none.as_any())?.into_any()));
    }
    // A memoryview casts native numbers alone. A numpy array also shows the bytes of others.
    let of_numpy = || cast(&PyMemoryView::from(&given.call_method1("view", ("u1",))?)?);
    Ok(cast(view).or_else(|_| of_numpy()).ok())
}

/// Returns a writable contiguous buffer of the caller as a memoryview of its bytes.
pub fn writable<'py>(given: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyAny>> {
    let view = PyMemoryView::from(given)?;
    if view.getattr("readonly")?.is_truthy()? {
        return Err(PyTypeError::new_err(format!("{what} must be writable")));
    }
    contiguous(given, &view)?.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{what} must be a contiguous array of bytes, of native numbers, or of numpy"
        ))
    })
}

/// Returns a part of a memoryview of bytes.
fn part_of(view: &Bound<'_, PyAny>, place: Range<usize>) -> PyResult<PyBuffer<u8>> {
    let slice = PySlice::new(view.py(), place.start as isize, place.end as isize, 1);
    PyBuffer::get(&view.get_item(slice)?)
}

/// Copies bytes into a memoryview from `writable`, from `start` on.
pub fn write(view: &Bound<'_, PyAny>, start: usize, bytes: &[u8]) -> PyResult<()> {
    part_of(view, start..start + bytes.len())?.copy_from_slice(view.py(), bytes)
}

/// Where the bytes of an array are.
enum Held<'py> {
    /// Bytes of the caller, or the rows of an array that is not contiguous, put together.
    Bytes(Bound<'py, PyBytes>),
    /// A contiguous buffer of the caller, as a memoryview of its bytes.
    View(Bound<'py, PyAny>),
}

/// An array of the caller: its number of rows, and the bytes of each row.
struct Array<'py> {
    count: usize,
    size: usize,
    held: Held<'py>,
}

impl<'py> Array<'py> {
    fn of(given: &Bound<'py, PyAny>, what: &str) -> PyResult<Array<'py>> {
        let view = PyMemoryView::from(given)?;
        let shape: Vec<usize> = view.getattr("shape")?.extract()?;
        let Some(count) = shape.first().copied() else {
            return Err(PyTypeError::new_err(format!("{what} must have rows")));
        };
        let len: usize = view.getattr("nbytes")?.extract()?;
        let held = match given.cast::<PyBytes>() {
            Ok(bytes) => Held::Bytes(bytes.clone()),
            Err(_) => match contiguous(given, &view)? {
                Some(view) => Held::View(view),
                None => Held::Bytes(view.call_method0("tobytes")?.cast_into::<PyBytes>()?),
            },
        };
        Ok(Array { count, size: len.checked_div(count).unwrap_or(0), held })
    }

    fn refuse_other_count(&self, other: usize) -> PyResult<()> {
        if self.count == other {
            return Ok(());
        }
        let message = format!("there are {} keys, but {other} values", self.count);
        Err(PyValueError::new_err(message))
    }

    /// Returns the bytes of some rows. Rows that may change are copied to `room`.
    fn read<'r>(&'r self, rows: Range<usize>, room: &'r mut Vec<u8>) -> PyResult<&'r [u8]> {
        let place = rows.start * self.size..rows.end * self.size;
        match &self.held {
            Held::Bytes(bytes) => Ok(&bytes.as_bytes()[place]),
            Held::View(view) => {
                room.resize(place.len(), 0);
                part_of(view, place)?.copy_to_slice(view.py(), room)?;
                Ok(&room[..])
            }
        }
    }

    /// Returns all bytes, for a time without the interpreter's lock.
    fn whole(&self) -> PyResult<Cow<'_, [u8]>> {
        match &self.held {
            Held::Bytes(bytes) => Ok(Cow::Borrowed(bytes.as_bytes())),
            Held::View(view) => PyBuffer::<u8>::get(view)?.to_vec(view.py()).map(Cow::Owned),
        }
    }
}

/// Splits bytes into rows of a size, which may be 0.
fn rows(bytes: &[u8], size: usize, count: usize) -> impl Iterator<Item = &[u8]> {
    (0..count).map(move |at| &bytes[at * size..(at + 1) * size])
}

/// Copies the value of `key` to the start of `buffer`. Returns its length, or `None` for a missing
/// key.
pub fn get_into(
    py: Python<'_>,
    part: &Part,
    key: &[u8],
    buffer: &Bound<'_, PyAny>,
) -> PyResult<Option<usize>> {
    let buffer = writable(buffer, "the buffer")?;
    let Some(value) = part.find(py, key, &ReadOptions::default())? else { return Ok(None) };
    let room = buffer.len()?;
    if room < value.len() {
        let message =
            format!("the value has {} bytes, but the buffer has only {room}", value.len());
        return Err(PyValueError::new_err(message));
    }
    write(&buffer, 0, &value)?;
    Ok(Some(value.len()))
}

/// Puts the rows of two arrays, in one batch.
pub fn put_array(
    py: Python<'_>,
    part: &Part,
    keys: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    options: &WriteOptions,
) -> PyResult<()> {
    let (keys, values) = (Array::of(keys, "keys")?, Array::of(values, "values")?);
    keys.refuse_other_count(values.count)?;
    let (mut key_room, mut value_room) = (Vec::new(), Vec::new());
    let mut batch = Batch::new();
    let most = group_of(keys.size + values.size);
    for start in (0..keys.count).step_by(most) {
        let group = start..keys.count.min(start + most);
        let key_bytes = keys.read(group.clone(), &mut key_room)?;
        let value_bytes = values.read(group.clone(), &mut value_room)?;
        let key_rows = rows(key_bytes, keys.size, group.len());
        for (key, value) in key_rows.zip(rows(value_bytes, values.size, group.len())) {
            part.add_put(&mut batch, key, value, None);
        }
    }
    part.store().run(py, |db| db.write_with(&batch, options))
}

/// Writes the values that exist to their rows of a memoryview from `writable`.
fn write_found(view: &Bound<'_, PyAny>, size: usize, found: &[Option<Slice>]) -> PyResult<()> {
    let mut at = 0;
    let mut room = Vec::new();
    for run in found.chunk_by(|one, next| one.is_some() == next.is_some()) {
        for group in run.chunks(group_of(size)) {
            match group {
                [None, ..] => {}
                [Some(value)] => write(view, at * size, value)?,
                _ => {
                    room.clear();
                    group.iter().flatten().for_each(|value| room.extend_from_slice(value));
                    write(view, at * size, &room)?;
                }
            }
            at += group.len();
        }
    }
    Ok(())
}

/// Reads the values of the rows of `keys` into the rows of `values`. Returns a byte for each key: 1
/// if it exists, else 0.
pub fn get_array<'py>(
    py: Python<'py>,
    part: &Part,
    keys: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let keys = Array::of(keys, "keys")?;
    let shape: Vec<usize> = PyMemoryView::from(values)?.getattr("shape")?.extract()?;
    keys.refuse_other_count(shape.first().copied().unwrap_or(0))?;
    if keys.count == 0 {
        part.store().check_open("database")?;
        return Ok(PyBytes::new(py, &[]));
    }
    let view = writable(values, "values")?;
    let size = view.len()? / keys.count;
    let key_bytes = keys.whole()?;
    let found = part.find_many(py, rows(&key_bytes, keys.size, keys.count))?;
    for (value, key) in found.iter().zip(rows(&key_bytes, keys.size, keys.count)) {
        if let Some(value) = value.as_ref().filter(|value| value.len() != size) {
            return Err(PyValueError::new_err(format!(
                "the value of {:?} has {} bytes, but a row of the array has {size}",
                PyBytes::new(py, key),
                value.len()
            )));
        }
    }
    write_found(&view, size, &found)?;
    let mask: Vec<u8> = found.iter().map(|value| u8::from(value.is_some())).collect();
    Ok(PyBytes::new(py, &mask))
}
