//! `esker_batch_*`: operations applied together.

use std::ffi::{c_char, c_void};

use esker::Batch;
use esker::base::key::Kind;

use crate::failure::{Outcome, attempt, there};
use crate::ffi;

/// Operations applied together. To be used by one thread at a time.
#[derive(Default)]
pub struct esker_batch_t {
    pub(crate) batch: Batch,
}

/// Is shown a put: state, key and its length, value and its length.
pub type esker_put_seen_t =
    Option<unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize)>;
/// Is shown a delete: state, key and its length.
pub type esker_delete_seen_t = Option<unsafe extern "C" fn(*mut c_void, *const u8, usize)>;
/// Is shown a range delete: state, first key, its length, the end, its length.
pub type esker_delete_range_seen_t =
    Option<unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize)>;

/// An empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_create() -> Box<esker_batch_t> {
    Box::default()
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_destroy(batch: Option<Box<esker_batch_t>>) {
    drop(batch);
}

/// Forgets every operation; the memory is kept.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_clear(batch: Option<&mut esker_batch_t>) {
    if let Some(batch) = batch {
        batch.batch.clear();
    }
}

/// How many operations it holds; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_count(batch: Option<&esker_batch_t>) -> usize {
    batch.map_or(0, |batch| batch.batch.len())
}

/// Bytes of memory its operations take; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_size_bytes(batch: Option<&esker_batch_t>) -> usize {
    batch.map_or(0, |batch| batch.batch.size_bytes())
}

/// Adds to `batch` what `add` finds.
unsafe fn add(
    batch: Option<&mut esker_batch_t>,
    message: Option<&mut *mut c_char>,
    add: impl FnOnce(&mut Batch) -> Outcome<()>,
) -> i32 {
    let outcome = attempt(|| add(&mut there(batch, "batch")?.batch));
    // SAFETY: the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Sets a key to a value. A key or value that is too long makes the write of the batch fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_put(
    batch: Option<&mut esker_batch_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            batch.put(ffi::bytes(key, key_len, "key")?, ffi::bytes(value, value_len, "value")?);
            Ok(())
        })
    }
}

/// Deletes a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_delete(
    batch: Option<&mut esker_batch_t>,
    key: *const u8,
    key_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            batch.delete(ffi::bytes(key, key_len, "key")?);
            Ok(())
        })
    }
}

/// Deletes every key from `start` up to but without `end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_delete_range(
    batch: Option<&mut esker_batch_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            batch.delete_range(
                ffi::bytes(start, start_len, "start")?,
                ffi::bytes(end, end_len, "end")?,
            );
            Ok(())
        })
    }
}

/// Adds every operation of `other`, which stays as it is, behind this batch's own. Both may be the
/// same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_append(
    batch: *mut esker_batch_t,
    other: *const esker_batch_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for handles and messages; the copy is made before the batch is
    // borrowed to be changed, since both may be one.
    unsafe {
        let same = std::ptr::eq(batch, other);
        let copy = other.as_ref().filter(|_| same).map(|other| other.batch.clone());
        let other = copy.as_ref().or_else(|| other.as_ref().map(|other| &other.batch));
        add(batch.as_mut(), message, |batch| {
            batch.append(there(other, "other batch")?);
            Ok(())
        })
    }
}

/// Shows every operation in order; a NULL function leaves out the operations of its kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_iterate(
    batch: Option<&esker_batch_t>,
    state: *mut c_void,
    put: esker_put_seen_t,
    deleted: esker_delete_seen_t,
    range_deleted: esker_delete_range_seen_t,
) {
    let Some(batch) = batch else { return };
    for op in batch.batch.operations() {
        let (key, value) = (op.key, op.value);
        // SAFETY: the caller's functions with the caller's pointer and bytes that live through the
        // call.
        unsafe {
            match (op.kind, put, deleted, range_deleted) {
                (Kind::Put, Some(put), _, _) => {
                    put(state, key.as_ptr(), key.len(), value.as_ptr(), value.len());
                }
                (Kind::Delete, _, Some(deleted), _) => deleted(state, key.as_ptr(), key.len()),
                (Kind::RangeDelete, _, _, Some(range)) => {
                    range(state, key.as_ptr(), key.len(), value.as_ptr(), value.len());
                }
                _ => {}
            }
        }
    }
}
