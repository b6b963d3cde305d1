//! `leveldb_writebatch_*`.

use std::ffi::{c_char, c_void};

use esker::Batch;
use esker::base::key::Kind;

use esker_c::ffi;

/// Operations applied together.
#[derive(Default)]
pub struct leveldb_writebatch_t {
    pub(crate) batch: Batch,
}

type SeePut = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
type SeeDelete = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;

/// An empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_create() -> Box<leveldb_writebatch_t> {
    Box::default()
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_destroy(batch: Option<Box<leveldb_writebatch_t>>) {
    drop(batch);
}

/// Forgets every operation.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_clear(batch: Option<&mut leveldb_writebatch_t>) {
    if let Some(batch) = batch {
        batch.batch.clear();
    }
}

/// Sets a key to a value. A null key or value of some length adds nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_put(
    batch: Option<&mut leveldb_writebatch_t>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: LevelDB's contract for buffers.
    let pair = unsafe { (ffi::bytes(key, klen, "key"), ffi::bytes(val, vlen, "value")) };
    if let (Some(batch), (Ok(key), Ok(value))) = (batch, pair) {
        batch.batch.put(key, value);
    }
}

/// Deletes a key. A null key of some length adds nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_delete(
    batch: Option<&mut leveldb_writebatch_t>,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: LevelDB's contract for buffers.
    let key = unsafe { ffi::bytes(key, klen, "key") };
    if let (Some(batch), Ok(key)) = (batch, key) {
        batch.batch.delete(key);
    }
}

/// Shows every operation in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_iterate(
    batch: Option<&leveldb_writebatch_t>,
    state: *mut c_void,
    put: SeePut,
    deleted: SeeDelete,
) {
    let Some(batch) = batch else { return };
    for op in batch.batch.operations() {
        let key = op.key.as_ptr().cast();
        // SAFETY: the caller's functions with the caller's pointer and bytes that live through the
        // call.
        unsafe {
            match (op.kind, put, deleted) {
                (Kind::Put, Some(put), _) => {
                    put(state, key, op.key.len(), op.value.as_ptr().cast(), op.value.len());
                }
                (Kind::Delete, _, Some(deleted)) => deleted(state, key, op.key.len()),
                _ => {}
            }
        }
    }
}

/// Adds every operation of `source` behind those of `destination`; both may be the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_append(
    destination: *mut leveldb_writebatch_t,
    source: *const leveldb_writebatch_t,
) {
    // SAFETY: LevelDB's contract for handles; the copy is made before the batch is borrowed to be
    // changed, since both may be one.
    unsafe {
        let same = std::ptr::eq(destination, source);
        let copy = source.as_ref().filter(|_| same).map(|source| source.batch.clone());
        let source = copy.as_ref().or_else(|| source.as_ref().map(|source| &source.batch));
        if let (Some(destination), Some(source)) = (destination.as_mut(), source) {
            destination.batch.append(source);
        }
    }
}
