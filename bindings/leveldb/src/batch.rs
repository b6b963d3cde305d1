//! `leveldb_writebatch_*`: write batches.

use std::ffi::{c_char, c_void};

use esker::Batch;
use esker::BatchOp;

use esker_c::ffi;

/// Operations applied atomically.
#[derive(Default)]
pub struct leveldb_writebatch_t {
    pub(crate) batch: Batch,
}

type VisitPut =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
type VisitDelete = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;

/// Creates an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_create() -> Box<leveldb_writebatch_t> {
    Box::default()
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_destroy(batch: Option<Box<leveldb_writebatch_t>>) {
    drop(batch);
}

/// Removes all operations.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_clear(batch: Option<&mut leveldb_writebatch_t>) {
    if let Some(batch) = batch {
        batch.batch.clear();
    }
}

/// Adds a put. A null key or value of nonzero length adds nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_put(
    batch: Option<&mut leveldb_writebatch_t>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: the caller meets LevelDB's contract for buffers.
    let pair = unsafe { (ffi::bytes(key, klen, "key"), ffi::bytes(val, vlen, "value")) };
    if let (Some(batch), (Ok(key), Ok(value))) = (batch, pair) {
        batch.batch.put(key, value);
    }
}

/// Adds a delete. A null key of nonzero length adds nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_delete(
    batch: Option<&mut leveldb_writebatch_t>,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: the caller meets LevelDB's contract for buffers.
    let key = unsafe { ffi::bytes(key, klen, "key") };
    if let (Some(batch), Ok(key)) = (batch, key) {
        batch.batch.delete(key);
    }
}

/// Calls `put` or `deleted` for every operation, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_iterate(
    batch: Option<&leveldb_writebatch_t>,
    state: *mut c_void,
    put: VisitPut,
    deleted: VisitDelete,
) {
    let Some(batch) = batch else { return };
    for op in batch.batch.operations() {
        // SAFETY: the functions and `state` belong together by the caller's contract; key and value
        // outlive the call.
        unsafe {
            match op {
                BatchOp::Put { key, value, .. } => {
                    if let Some(put) = put {
                        put(
                            state,
                            key.as_ptr().cast(),
                            key.len(),
                            value.as_ptr().cast(),
                            value.len(),
                        );
                    }
                }
                BatchOp::Delete { key, .. } => {
                    if let Some(deleted) = deleted {
                        deleted(state, key.as_ptr().cast(), key.len());
                    }
                }
                // LevelDB has no range deletes.
                _ => {}
            }
        }
    }
}

/// Appends the operations of `source` to `destination`. Both may be the same batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_append(
    destination: *mut leveldb_writebatch_t,
    source: *const leveldb_writebatch_t,
) {
    // SAFETY: the caller meets LevelDB's contract for handles. If both are one batch, it is copied
    // before it is borrowed mutably.
    unsafe {
        let same = std::ptr::eq(destination, source);
        let copy = source.as_ref().filter(|_| same).map(|source| source.batch.clone());
        let source = copy.as_ref().or_else(|| source.as_ref().map(|source| &source.batch));
        if let (Some(destination), Some(source)) = (destination.as_mut(), source) {
            destination.batch.append(source);
        }
    }
}
