//! Values read into buffers of the caller, and arrays of keys and values of one size.
//!
//! Invariants:
//! 1. Nothing is written outside of the caller's buffer, and nothing at all if a call fails.
//! 2. A buffer of the caller is copied before the interpreter's lock is released, because another
//!    thread may change it. Bytes, which never change, are not copied.

use esker::{Batch, ReadOptions};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};

use crate::part::{Part, write_options};

/// Returns a writable buffer of the caller as a view of its bytes.
fn writable<'py>(given: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyAny>> {
    let view = PyMemoryView::from(given)?;
    if view.getattr("readonly")?.is_truthy()? {
        return Err(PyTypeError::new_err(format!("{what} must be writable")));
    }
    view.call_method1("cast", ("B",)).map_err(|_| {
        PyTypeError::new_err(format!(
            "{what} must be a contiguous array of bytes or native numbers; for others, pass \
             array.view('u1')"
        ))
    })
}

/// An array of the caller: its number of rows, and the bytes of each row.
struct Rows<'py> {
    count: usize,
    size: usize,
    bytes: Bound<'py, PyBytes>,
}

impl<'py> Rows<'py> {
    fn of(given: &Bound<'py, PyAny>, what: &str) -> PyResult<Rows<'py>> {
        let view = PyMemoryView::from(given)?;
        let shape: Vec<usize> = view.getattr("shape")?.extract()?;
        let Some(count) = shape.first().copied() else {
            return Err(PyTypeError::new_err(format!("{what} must have rows")));
        };
        let bytes = match given.cast::<PyBytes>() {
            Ok(bytes) => bytes.clone(),
            Err(_) => view.call_method0("tobytes")?.cast_into::<PyBytes>()?,
        };
        let size = bytes.as_bytes().len().checked_div(count).unwrap_or(0);
        Ok(Rows { count, size, bytes })
    }

    fn refuse_other_count(&self, other: usize) -> PyResult<()> {
        if self.count == other {
            return Ok(());
        }
        let message = format!("there are {} keys, but {other} values", self.count);
        Err(PyValueError::new_err(message))
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
    let place = buffer.get_item(PySlice::new(py, 0, value.len() as isize, 1))?;
    PyBuffer::<u8>::get(&place)?.copy_from_slice(py, &value)?;
    Ok(Some(value.len()))
}

/// Puts the rows of two arrays, in one batch.
pub fn put_array(
    py: Python<'_>,
    part: &Part,
    keys: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    sync: bool,
) -> PyResult<()> {
    let (keys, values) = (Rows::of(keys, "keys")?, Rows::of(values, "values")?);
    keys.refuse_other_count(values.count)?;
    let (key_bytes, value_bytes) = (keys.bytes.as_bytes(), values.bytes.as_bytes());
    let (key_size, value_size, count) = (keys.size, values.size, keys.count);
    part.store().run(py, |db| {
        let mut batch = Batch::new();
        let pairs = rows(key_bytes, key_size, count).zip(rows(value_bytes, value_size, count));
        for (key, value) in pairs {
            part.add_put(&mut batch, key, value, None);
        }
        db.write_with(&batch, &write_options(sync))
    })
}

/// Reads the values of the rows of `keys` into the rows of `values`. Returns a byte for each key: 1
/// if it exists, else 0.
pub fn get_array<'py>(
    py: Python<'py>,
    part: &Part,
    keys: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let keys = Rows::of(keys, "keys")?;
    let shape: Vec<usize> = PyMemoryView::from(values)?.getattr("shape")?.extract()?;
    keys.refuse_other_count(shape.first().copied().unwrap_or(0))?;
    if keys.count == 0 {
        part.store().check_open("database")?;
        return Ok(PyBytes::new(py, &[]));
    }
    let buffer = writable(values, "values")?;
    let buffer = PyBuffer::<u8>::get(&buffer)?;
    let size = buffer.item_count().checked_div(keys.count).unwrap_or(0);
    let key_bytes = keys.bytes.as_bytes();
    let (key_size, count) = (keys.size, keys.count);
    let found = part.find_many(py, rows(key_bytes, key_size, count))?;
    for (value, key) in found.iter().zip(rows(key_bytes, key_size, count)) {
        if let Some(value) = value.as_ref().filter(|value| value.len() != size) {
            return Err(PyValueError::new_err(format!(
                "the value of {:?} has {} bytes, but a row of the array has {size}",
                PyBytes::new(py, key),
                value.len()
            )));
        }
    }
    // The rows of missing keys keep their bytes.
    let mut bytes = buffer.to_vec(py)?;
    for (at, value) in found.iter().enumerate() {
        if let Some(value) = value {
            bytes[at * size..(at + 1) * size].copy_from_slice(value);
        }
    }
    buffer.copy_from_slice(py, &bytes)?;
    let mask: Vec<u8> = found.iter().map(|value| u8::from(value.is_some())).collect();
    Ok(PyBytes::new(py, &mask))
}
