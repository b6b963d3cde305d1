//! `rocksdb_writebatch_*`: write batches.
//!
//! Invariant: an operation with a bad argument makes the write of the batch fail.

use std::ffi::{c_char, c_int, c_void};

use esker_c::failure::{Failure, Outcome, there};
use esker_c::ffi;
use esker_c::own::iter::borrowed_ptr;

use crate::db::rocksdb_column_family_handle_t;
use crate::failure::{kept, quiet};
use crate::overlay::no_savepoint;
use crate::rep::{Mark, Record, Rep};

/// Operations applied atomically.
#[derive(Default)]
pub struct rocksdb_writebatch_t {
    rep: Rep,
    savepoints: Vec<Mark>,
    refused: Option<Failure>,
}

impl rocksdb_writebatch_t {
    /// Returns the operations, or the failure of one that could not be added.
    pub(crate) fn rep(&self) -> Outcome<&Rep> {
        match &self.refused {
            Some(failure) => Err(failure.clone()),
            None => Ok(&self.rep),
        }
    }

    /// Returns a batch with these operations.
    pub(crate) fn of(rep: Rep) -> rocksdb_writebatch_t {
        rocksdb_writebatch_t { rep, ..rocksdb_writebatch_t::default() }
    }

    fn push(&mut self, record: Outcome<Record<'_>>) {
        match record {
            Ok(record) => {
                self.rep.push(record);
            }
            Err(failure) => {
                self.refused.get_or_insert(failure);
            }
        }
    }
}

type Handle<'a> = Option<&'a rocksdb_column_family_handle_t>;
type Batch<'a> = Option<&'a mut rocksdb_writebatch_t>;
type Keys = *const *const c_char;
type Lengths = *const usize;

/// Adds a record to a batch. A null batch is not changed.
pub(crate) fn add<'a>(batch: Batch<'_>, record: impl FnOnce() -> Outcome<Record<'a>>) {
    if let Some(batch) = batch {
        batch.push(record());
    }
}

/// Returns the number of the column family of a handle.
pub(crate) fn family(handle: Handle<'_>) -> Outcome<u32> {
    Ok(rocksdb_column_family_handle_t::of(handle)?.id())
}

/// Joins `count` pieces to one byte string.
///
/// # Safety
/// The arrays have `count` items.
pub(crate) unsafe fn joined(keys: Keys, lengths: Lengths, count: c_int) -> Outcome<Vec<u8>> {
    let count = usize::try_from(count).unwrap_or(0);
    let mut all = Vec::new();
    // SAFETY: guaranteed by the caller.
    unsafe {
        let keys = ffi::array(keys, count, "pieces")?;
        for (key, len) in keys.iter().zip(ffi::array(lengths, count, "lengths")?) {
            all.extend_from_slice(ffi::bytes(*key, *len, "piece")?);
        }
    }
    Ok(all)
}

/// Creates an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_create() -> Box<rocksdb_writebatch_t> {
    Box::default()
}

/// Creates a batch from the bytes of `rocksdb_writebatch_data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_create_from(
    rep: *const c_char,
    size: usize,
) -> Box<rocksdb_writebatch_t> {
    let mut batch = Box::<rocksdb_writebatch_t>::default();
    // SAFETY: the caller meets RocksDB's contract for buffers.
    match unsafe { ffi::bytes(rep, size, "batch") } {
        Ok(bytes) => batch.rep = Rep::from_bytes(bytes),
        Err(failure) => batch.refused = Some(failure),
    }
    batch
}

/// Creates an empty batch. The sizes are hints, and no key has a timestamp.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_create_with_params(
    _reserved_bytes: usize,
    _max_bytes: usize,
    _protection_bytes_per_key: usize,
    default_cf_ts_sz: usize,
) -> Box<rocksdb_writebatch_t> {
    let mut batch = Box::<rocksdb_writebatch_t>::default();
    if default_cf_ts_sz != 0 {
        let function = "rocksdb_writebatch_create_with_params";
        batch.refused = Some(crate::failure::refusal(function, "Esker has no timestamps of keys"));
    }
    batch
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_destroy(batch: Option<Box<rocksdb_writebatch_t>>) {
    drop(batch);
}

/// Removes all operations and savepoints.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_clear(batch: Batch<'_>) {
    if let Some(batch) = batch {
        batch.rep.clear();
        batch.savepoints.clear();
        batch.refused = None;
    }
}

/// Returns the number of operations.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_count(batch: Option<&rocksdb_writebatch_t>) -> c_int {
    batch.map_or(0, |batch| c_int::try_from(batch.rep.count()).unwrap_or(c_int::MAX))
}

/// Adds a put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_put(
    batch: Batch<'_>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, || unsafe {
        let (key, value) = (ffi::bytes(key, klen, "key")?, ffi::bytes(val, vlen, "value")?);
        Ok(Record::Put { family: 0, key, value })
    });
}

/// Adds a put in a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_put_cf(
    batch: Batch<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, || unsafe {
        let (key, value) = (ffi::bytes(key, klen, "key")?, ffi::bytes(val, vlen, "value")?);
        Ok(Record::Put { family: family(handle)?, key, value })
    });
}

/// Adds a put of a key and a value that are in pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_putv(
    batch: Batch<'_>,
    num_keys: c_int,
    keys: Keys,
    key_sizes: Lengths,
    num_values: c_int,
    values: Keys,
    value_sizes: Lengths,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays.
    let parts =
        unsafe { (joined(keys, key_sizes, num_keys), joined(values, value_sizes, num_values)) };
    match parts {
        (Ok(key), Ok(value)) => {
            add(batch, || Ok(Record::Put { family: 0, key: &key, value: &value }));
        }
        (Err(failure), _) | (_, Err(failure)) => add(batch, || Err(failure)),
    }
}

/// Adds a put in a column family of a key and a value that are in pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_putv_cf(
    batch: Batch<'_>,
    handle: Handle<'_>,
    num_keys: c_int,
    keys: Keys,
    key_sizes: Lengths,
    num_values: c_int,
    values: Keys,
    value_sizes: Lengths,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays.
    let parts =
        unsafe { (joined(keys, key_sizes, num_keys), joined(values, value_sizes, num_values)) };
    match parts {
        (Ok(key), Ok(value)) => {
            add(batch, || Ok(Record::Put { family: family(handle)?, key: &key, value: &value }));
        }
        (Err(failure), _) | (_, Err(failure)) => add(batch, || Err(failure)),
    }
}

/// Adds a delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_delete(
    batch: Batch<'_>,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, || unsafe { Ok(Record::Delete { family: 0, key: ffi::bytes(key, klen, "key")? }) });
}

/// Adds a delete in a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_delete_cf(
    batch: Batch<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, || unsafe {
        Ok(Record::Delete { family: family(handle)?, key: ffi::bytes(key, klen, "key")? })
    });
}

/// Adds a delete of a key that was set once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_singledelete(
    batch: Batch<'_>,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, || unsafe {
        Ok(Record::SingleDelete { family: 0, key: ffi::bytes(key, klen, "key")? })
    });
}

/// Adds a delete in a column family of a key that was set once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_singledelete_cf(
    batch: Batch<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, || unsafe {
        Ok(Record::SingleDelete { family: family(handle)?, key: ffi::bytes(key, klen, "key")? })
    });
}

/// Adds a delete of a key that is in pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_deletev(
    batch: Batch<'_>,
    num_keys: c_int,
    keys: Keys,
    key_sizes: Lengths,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays.
    match unsafe { joined(keys, key_sizes, num_keys) } {
        Ok(key) => add(batch, || Ok(Record::Delete { family: 0, key: &key })),
        Err(failure) => add(batch, || Err(failure)),
    }
}

/// Adds a delete in a column family of a key that is in pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_deletev_cf(
    batch: Batch<'_>,
    handle: Handle<'_>,
    num_keys: c_int,
    keys: Keys,
    key_sizes: Lengths,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays.
    match unsafe { joined(keys, key_sizes, num_keys) } {
        Ok(key) => add(batch, || Ok(Record::Delete { family: family(handle)?, key: &key })),
        Err(failure) => add(batch, || Err(failure)),
    }
}

/// Adds a deletion of the keys from `start_key` (inclusive) to `end_key` (exclusive).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_delete_range(
    batch: Batch<'_>,
    start_key: *const c_char,
    start_key_len: usize,
    end_key: *const c_char,
    end_key_len: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, || unsafe {
        let start = ffi::bytes(start_key, start_key_len, "start key")?;
        Ok(Record::DeleteRange { family: 0, start, end: ffi::bytes(end_key, end_key_len, "end")? })
    });
}

/// Adds a deletion of the keys of a column family from `start_key` (inclusive) to `end_key`
/// (exclusive).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_delete_range_cf(
    batch: Batch<'_>,
    handle: Handle<'_>,
    start_key: *const c_char,
    start_key_len: usize,
    end_key: *const c_char,
    end_key_len: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, || unsafe {
        let start = ffi::bytes(start_key, start_key_len, "start key")?;
        let end = ffi::bytes(end_key, end_key_len, "end key")?;
        Ok(Record::DeleteRange { family: family(handle)?, start, end })
    });
}

/// Adds bytes that iteration returns and no read does. The store does not keep them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_put_log_data(
    batch: Batch<'_>,
    blob: *const c_char,
    len: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, || unsafe { Ok(Record::LogData(ffi::bytes(blob, len, "log data")?)) });
}

/// Sets a savepoint.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_set_save_point(batch: Batch<'_>) {
    if let Some(batch) = batch {
        let mark = batch.rep.mark();
        batch.savepoints.push(mark);
    }
}

/// Takes back the operations after the newest savepoint, and removes the savepoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_rollback_to_save_point(
    batch: Batch<'_>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let batch = there(batch, "batch")?;
            let mark = batch.savepoints.pop().ok_or_else(no_savepoint)?;
            batch.rep.truncate(mark);
            Ok(())
        });
    }
}

/// Removes the newest savepoint and keeps the operations after it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_pop_save_point(
    batch: Batch<'_>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            there(batch, "batch")?.savepoints.pop().map(|_mark| ()).ok_or_else(no_savepoint)
        });
    }
}

/// Returns the bytes of the batch, which live until it is changed.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_data(
    batch: Option<&rocksdb_writebatch_t>,
    size: Option<&mut usize>,
) -> *const c_char {
    borrowed_ptr(batch.map_or(&[], |batch| batch.rep.as_bytes()), size)
}

type VisitPut =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
type VisitDelete = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;
type VisitPutIn =
    Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>;
type VisitDeleteIn = Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize)>;

/// Calls a function for each operation of the default column family.
///
/// # Safety
/// The functions and `state` belong together.
pub(crate) unsafe fn visit(
    rep: &Rep,
    state: *mut c_void,
    put: VisitPut,
    deleted: VisitDelete,
    log_data: VisitDelete,
) -> Outcome<()> {
    for record in rep.records() {
        // SAFETY: guaranteed by the caller; key and value outlive the call.
        unsafe {
            match record? {
                Record::Put { key, value, .. } => {
                    if let Some(put) = put {
                        let value_start = value.as_ptr().cast();
                        put(state, key.as_ptr().cast(), key.len(), value_start, value.len());
                    }
                }
                Record::Delete { key, .. } => {
                    if let Some(deleted) = deleted {
                        deleted(state, key.as_ptr().cast(), key.len());
                    }
                }
                Record::LogData(blob) => {
                    if let Some(log_data) = log_data {
                        log_data(state, blob.as_ptr().cast(), blob.len());
                    }
                }
                // RocksDB's functions for these are not offered by its C interface.
                Record::SingleDelete { .. } | Record::DeleteRange { .. } | Record::Merge { .. } => {
                }
            }
        }
    }
    Ok(())
}

/// Calls `put` or `deleted` for each put and delete, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_iterate(
    batch: Option<&rocksdb_writebatch_t>,
    state: *mut c_void,
    put: VisitPut,
    deleted: VisitDelete,
) {
    // SAFETY: the functions and `state` belong together by RocksDB's contract.
    unsafe { rocksdb_writebatch_iterate_ld(batch, state, put, deleted, None) }
}

/// Calls a function for each put, delete and log data, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_iterate_ld(
    batch: Option<&rocksdb_writebatch_t>,
    state: *mut c_void,
    put: VisitPut,
    deleted: VisitDelete,
    log_data: VisitDelete,
) {
    if let Some(batch) = batch {
        // SAFETY: the functions and `state` belong together by RocksDB's contract.
        quiet(|| unsafe { visit(&batch.rep, state, put, deleted, log_data) });
    }
}

/// Calls a function for each put, delete and merge, with the number of its column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_iterate_cf(
    batch: Option<&rocksdb_writebatch_t>,
    state: *mut c_void,
    put: VisitPutIn,
    deleted: VisitDeleteIn,
    merge: VisitPutIn,
) {
    // SAFETY: the functions and `state` belong together by RocksDB's contract.
    unsafe { rocksdb_writebatch_iterate_cf_ld(batch, state, put, deleted, merge, None) }
}

/// Calls a function for each put, delete and merge, with the number of its column family, and for
/// log data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_iterate_cf_ld(
    batch: Option<&rocksdb_writebatch_t>,
    state: *mut c_void,
    put: VisitPutIn,
    deleted: VisitDeleteIn,
    merge: VisitPutIn,
    log_data: VisitDelete,
) {
    let Some(batch) = batch else { return };
    quiet(|| {
        for record in batch.rep.records() {
            let record = record?;
            let (visit, key, value) = match record {
                Record::Put { key, value, .. } => (put, key, value),
                Record::Merge { key, operand, .. } => (merge, key, operand),
                Record::Delete { family, key } => {
                    if let Some(deleted) = deleted {
                        // SAFETY: the functions and `state` belong together by RocksDB's contract.
                        unsafe { deleted(state, family, key.as_ptr().cast(), key.len()) }
                    }
                    continue;
                }
                Record::LogData(blob) => {
                    if let Some(log_data) = log_data {
                        // SAFETY: as above.
                        unsafe { log_data(state, blob.as_ptr().cast(), blob.len()) }
                    }
                    continue;
                }
                Record::SingleDelete { .. } | Record::DeleteRange { .. } => continue,
            };
            if let Some(visit) = visit {
                let (start, value_start) = (key.as_ptr().cast(), value.as_ptr().cast());
                // SAFETY: as above; key and value outlive the call.
                unsafe {
                    visit(state, record.family(), start, key.len(), value_start, value.len());
                }
            }
        }
        Ok(())
    });
}
