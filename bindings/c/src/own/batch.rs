//! `esker_batch_*`: write batches.

use std::ffi::{c_char, c_void};

use esker::Batch;
use esker::BatchOp;

use super::common::data_of;
use super::keyspace::esker_keyspace_t;
use super::merge_and_ttl::ESKER_NEVER_MS;
use crate::failure::{Outcome, attempt, there};
use crate::ffi;

/// Operations applied atomically. A batch may be used by one thread at a time.
#[derive(Default)]
pub struct esker_batch_t {
    pub(crate) batch: Batch,
}

/// Kind of an operation: a put of a key and a value.
pub const ESKER_OPERATION_PUT: i32 = 1;
/// Kind of an operation: a delete of a key.
pub const ESKER_OPERATION_DELETE: i32 = 2;
/// Kind of an operation: a deletion of the keys from a start (inclusive) to an end (exclusive).
pub const ESKER_OPERATION_DELETE_RANGE: i32 = 3;
/// Kind of an operation: a put of a key and a value that expires.
pub const ESKER_OPERATION_PUT_WITH_TTL: i32 = 4;
/// Kind of an operation: a merge of an operand into the value of a key.
pub const ESKER_OPERATION_MERGE: i32 = 5;

/// Receives a put: state, key, key length, value, value length.
pub type esker_visit_put_t =
    Option<unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize)>;
/// Receives a delete: state, key, key length.
pub type esker_visit_delete_t = Option<unsafe extern "C" fn(*mut c_void, *const u8, usize)>;
/// Receives a range deletion: state, start (inclusive), its length, end (exclusive), its length.
pub type esker_visit_delete_range_t =
    Option<unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize)>;

/// An operation of a batch, from `esker_batch_visit_keyspaces`. The buffers are valid during the
/// call. Later versions may add fields at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct esker_operation_t {
    /// `ESKER_OPERATION_PUT` and so on.
    pub kind: i32,
    /// Number of the keyspace (`esker_keyspace_id`); 0 is the keyspace `default`.
    pub keyspace: u32,
    /// The key, or the start of a range.
    pub key: *const u8,
    /// Length of the key.
    pub key_len: usize,
    /// The value, the operand or the end of a range; NULL for a delete.
    pub value: *const u8,
    /// Length of the value.
    pub value_len: usize,
    /// Time to live of an `ESKER_OPERATION_PUT_WITH_TTL`, in milliseconds from the write of the
    /// batch on; `ESKER_NEVER_MS` for every other kind.
    pub ttl_ms: u64,
}

/// Receives an operation: state, operation.
pub type esker_visit_operation_t =
    Option<unsafe extern "C" fn(*mut c_void, *const esker_operation_t)>;

/// Creates an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_create() -> Box<esker_batch_t> {
    Box::default()
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_destroy(batch: Option<Box<esker_batch_t>>) {
    drop(batch);
}

/// Removes all operations and keeps the allocated memory.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_clear(batch: Option<&mut esker_batch_t>) {
    if let Some(batch) = batch {
        batch.batch.clear();
    }
}

/// Returns the number of operations; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_count(batch: Option<&esker_batch_t>) -> usize {
    batch.map_or(0, |batch| batch.batch.len())
}

/// Returns the memory of the operations in bytes; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_size_bytes(batch: Option<&esker_batch_t>) -> usize {
    batch.map_or(0, |batch| batch.batch.size_bytes())
}

/// Runs `add` on the batch.
pub(super) unsafe fn add(
    batch: Option<&mut esker_batch_t>,
    message: Option<&mut *mut c_char>,
    add: impl FnOnce(&mut Batch) -> Outcome<()>,
) -> i32 {
    let outcome = attempt(|| add(&mut there(batch, "batch")?.batch));
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Adds a put. If a key or value is too long, the write of the batch fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_put(
    batch: Option<&mut esker_batch_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            batch.put(ffi::bytes(key, key_len, "key")?, ffi::bytes(value, value_len, "value")?);
            Ok(())
        })
    }
}

/// Adds a delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_delete(
    batch: Option<&mut esker_batch_t>,
    key: *const u8,
    key_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            batch.delete(ffi::bytes(key, key_len, "key")?);
            Ok(())
        })
    }
}

/// Adds a range deletion from `start` (inclusive) to `end` (exclusive).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_delete_range(
    batch: Option<&mut esker_batch_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
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

/// Adds a put in a keyspace. The write of the batch fails if the keyspace is of another store or of
/// another opening, or was dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_put_in(
    batch: Option<&mut esker_batch_t>,
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            let keyspace = &there(keyspace, "keyspace's handle")?.keyspace;
            let key = ffi::bytes(key, key_len, "key")?;
            batch.put_in(keyspace, key, ffi::bytes(value, value_len, "value")?);
            Ok(())
        })
    }
}

/// Adds a delete in a keyspace; see `esker_batch_put_in`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_delete_in(
    batch: Option<&mut esker_batch_t>,
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            let keyspace = &there(keyspace, "keyspace's handle")?.keyspace;
            batch.delete_in(keyspace, ffi::bytes(key, key_len, "key")?);
            Ok(())
        })
    }
}

/// Adds a range deletion in a keyspace, from `start` (inclusive) to `end` (exclusive); see
/// `esker_batch_put_in`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_delete_range_in(
    batch: Option<&mut esker_batch_t>,
    keyspace: Option<&esker_keyspace_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            let keyspace = &there(keyspace, "keyspace's handle")?.keyspace;
            let start = ffi::bytes(start, start_len, "start")?;
            batch.delete_range_in(keyspace, start, ffi::bytes(end, end_len, "end")?);
            Ok(())
        })
    }
}

/// Appends the operations of `other` to `batch`. Both may be the same batch; otherwise `other` is
/// not changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_append(
    batch: *mut esker_batch_t,
    other: *const esker_batch_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for handles and messages. If both are one
    // batch, it is copied before it is borrowed mutably.
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

/// Calls a function for every operation, in order. With a NULL function, operations of its kind are
/// skipped, and merges always are. `put` also receives the puts of pairs that expire. The functions
/// do not learn the keyspace of an operation, nor a time to live, so what they build is not always an
/// equal batch; `esker_batch_visit_keyspaces` passes all of an operation.
/// To build an equal batch, add each put with its `ttl_ms`, by `esker_batch_put_with_ttl`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_iterate(
    batch: Option<&esker_batch_t>,
    state: *mut c_void,
    put: esker_visit_put_t,
    deleted: esker_visit_delete_t,
    range_deleted: esker_visit_delete_range_t,
) {
    let Some(batch) = batch else { return };
    for op in batch.batch.operations() {
        // SAFETY: the functions and `state` belong together by the caller's contract; key and value
        // outlive the call.
        unsafe {
            match op {
                BatchOp::Put { key, value, .. } | BatchOp::PutWithTtl { key, value, .. } => {
                    if let Some(put) = put {
                        put(state, key.as_ptr(), key.len(), value.as_ptr(), value.len());
                    }
                }
                BatchOp::Delete { key, .. } => {
                    if let Some(deleted) = deleted {
                        deleted(state, key.as_ptr(), key.len());
                    }
                }
                BatchOp::DeleteRange { start, end, .. } => {
                    if let Some(range) = range_deleted {
                        range(state, start.as_ptr(), start.len(), end.as_ptr(), end.len());
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns an operation as C gets it, or `None` for a kind that C has no number for.
fn operation_of(op: BatchOp<'_>) -> Option<esker_operation_t> {
    let mut ttl_ms = ESKER_NEVER_MS;
    let (keyspace, kind, key, value) = match op {
        BatchOp::Put { keyspace, key, value } => (keyspace, ESKER_OPERATION_PUT, key, Some(value)),
        BatchOp::PutWithTtl { keyspace, key, value, ttl } => {
            ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(ESKER_NEVER_MS);
            (keyspace, ESKER_OPERATION_PUT_WITH_TTL, key, Some(value))
        }
        BatchOp::Merge { keyspace, key, operand } => {
            (keyspace, ESKER_OPERATION_MERGE, key, Some(operand))
        }
        BatchOp::Delete { keyspace, key } => (keyspace, ESKER_OPERATION_DELETE, key, None),
        BatchOp::DeleteRange { keyspace, start, end } => {
            (keyspace, ESKER_OPERATION_DELETE_RANGE, start, Some(end))
        }
        _ => return None,
    };
    let (key, key_len) = data_of(key);
    let (value, value_len) = value.map_or((std::ptr::null(), 0), data_of);
    Some(esker_operation_t { kind, keyspace, key, key_len, value, value_len, ttl_ms })
}

/// Calls `visit` for every operation, in order. A put into a keyspace with a time to live is an
/// `ESKER_OPERATION_PUT_WITH_TTL`, and a put with the time to live `ESKER_NEVER_MS` an
/// `ESKER_OPERATION_PUT`. Does nothing if `batch` or `visit` is NULL. `visit` must not change the
/// batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_visit_keyspaces(
    batch: Option<&esker_batch_t>,
    state: *mut c_void,
    visit: esker_visit_operation_t,
) {
    let (Some(batch), Some(visit)) = (batch, visit) else { return };
    for operation in batch.batch.operations().filter_map(operation_of) {
        // SAFETY: the function and `state` belong together by the caller's contract; the operation
        // and its buffers outlive the call.
        unsafe { visit(state, &raw const operation) };
    }
}
