//! `rocksdb_writebatch_wi_*`: write batches that can be read.
//!
//! Invariants:
//! 1. An object is allocated with `malloc`, because the batch of a transaction is freed with
//!    `rocksdb_free`.
//! 2. The batch of a transaction is borrowed from it, and lives as long as it.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esker::KeyOrder;
use esker_c::failure::{Failure, Outcome, there};
use esker_c::ffi;
use esker_c::own::iter::borrowed_ptr;

use crate::batch::{joined, visit};
use crate::db::rocksdb_column_family_handle_t;
use crate::failure::{kept, quiet};
use crate::objects::rocksdb_comparator_t;
use crate::overlay::Overlay;
use crate::rep::Record;
use crate::store::Family;

/// A batch with an index.
#[repr(C)]
pub struct rocksdb_writebatch_wi_t {
    overlay: *const Mutex<Overlay>,
}

type Wi<'a> = Option<&'a rocksdb_writebatch_wi_t>;
type Handle<'a> = Option<&'a rocksdb_column_family_handle_t>;
type Keys = *const *const c_char;
type Lengths = *const usize;

/// Locks the writes of an overlay.
pub(crate) fn lock(overlay: &Mutex<Overlay>) -> MutexGuard<'_, Overlay> {
    overlay.lock().unwrap_or_else(PoisonError::into_inner)
}

impl rocksdb_writebatch_wi_t {
    /// Returns an object for an overlay, allocated with `malloc`; null if memory is exhausted.
    pub(crate) fn give(overlay: *const Mutex<Overlay>) -> *mut rocksdb_writebatch_wi_t {
        // SAFETY: `malloc` accepts any size; the block is written before it is used.
        unsafe {
            let place = libc::malloc(size_of::<rocksdb_writebatch_wi_t>());
            let place = place.cast::<rocksdb_writebatch_wi_t>();
            if !place.is_null() {
                place.write(rocksdb_writebatch_wi_t { overlay });
            }
            place
        }
    }

    /// Returns the writes.
    pub(crate) fn of<'a>(batch: Wi<'a>) -> Outcome<&'a Mutex<Overlay>> {
        // SAFETY: the overlay lives as long as the object, or as the transaction that it is of.
        unsafe { there(batch, "batch")?.overlay.as_ref() }
            .ok_or_else(|| Failure::invalid("the batch is NULL"))
    }

    /// Returns a share of the writes.
    pub(crate) fn share(batch: Wi<'_>) -> Outcome<Arc<Mutex<Overlay>>> {
        let overlay = std::ptr::from_ref(rocksdb_writebatch_wi_t::of(batch)?);
        // SAFETY: the pointer is that of an `Arc`, which holds at least one reference now.
        unsafe {
            Arc::increment_strong_count(overlay);
            Ok(Arc::from_raw(overlay))
        }
    }
}

fn create(order: KeyOrder) -> *mut rocksdb_writebatch_wi_t {
    rocksdb_writebatch_wi_t::give(Arc::into_raw(Arc::new(Mutex::new(Overlay::new(order)))))
}

/// Adds a record, in the column family of `handle` or in the default one.
pub(crate) fn add<'a>(
    batch: Wi<'_>,
    handle: Option<Handle<'_>>,
    record: impl FnOnce(u32) -> Outcome<Record<'a>>,
) {
    quiet(|| {
        let mut overlay = lock(rocksdb_writebatch_wi_t::of(batch)?);
        let family = handle.map(rocksdb_column_family_handle_t::of).transpose();
        let order = |family: &Family| family.keyspace().key_order().clone();
        let made = family.and_then(|family| {
            let record = record(family.map_or(0, |family| family.id()))?;
            Ok((family.map(|family| order(family)), record))
        });
        match made {
            Ok((order, record)) => overlay.write(order.as_ref(), record),
            Err(failure) => overlay.refuse(failure),
        }
        Ok(())
    });
}

/// Creates an empty batch whose default column family has the bytewise order.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_wi_create(
    _reserved_bytes: usize,
    _overwrite_keys: u8,
) -> *mut rocksdb_writebatch_wi_t {
    create(KeyOrder::Bytewise)
}

/// Creates an empty batch whose default column family has the order of `comparator`.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_wi_create_with_params(
    comparator: Option<&rocksdb_comparator_t>,
    _reserved_bytes: usize,
    _overwrite_key: u8,
    _max_bytes: usize,
    _protection_bytes_per_key: usize,
) -> *mut rocksdb_writebatch_wi_t {
    create(match comparator {
        Some(comparator) => KeyOrder::Custom(comparator.comparator.clone()),
        None => KeyOrder::Bytewise,
    })
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_destroy(batch: *mut rocksdb_writebatch_wi_t) {
    if batch.is_null() {
        return;
    }
    // SAFETY: by RocksDB's contract, the batch was made by a function of this file and is freed
    // once.
    unsafe {
        drop(Arc::from_raw((*batch).overlay));
        ffi::free(batch);
    }
}

/// Removes all operations and savepoints.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_wi_clear(batch: Wi<'_>) {
    quiet(|| {
        lock(rocksdb_writebatch_wi_t::of(batch)?).clear();
        Ok(())
    });
}

/// Returns the number of operations.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_wi_count(batch: Wi<'_>) -> c_int {
    let count = rocksdb_writebatch_wi_t::of(batch).map_or(0, |overlay| lock(overlay).count());
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// Adds a put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_put(
    batch: Wi<'_>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, None, |family| unsafe {
        let (key, value) = (ffi::bytes(key, klen, "key")?, ffi::bytes(val, vlen, "value")?);
        Ok(Record::Put { family, key, value })
    });
}

/// Adds a put in a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_put_cf(
    batch: Wi<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, Some(handle), |family| unsafe {
        let (key, value) = (ffi::bytes(key, klen, "key")?, ffi::bytes(val, vlen, "value")?);
        Ok(Record::Put { family, key, value })
    });
}

/// Adds a put of a key and a value that are in pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_putv(
    batch: Wi<'_>,
    num_keys: c_int,
    keys: Keys,
    key_sizes: Lengths,
    num_values: c_int,
    values: Keys,
    value_sizes: Lengths,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays.
    let key = unsafe { joined(keys, key_sizes, num_keys) };
    // SAFETY: as above.
    let value = unsafe { joined(values, value_sizes, num_values) };
    let (key, value) = (&key, &value);
    add(batch, None, |family| {
        let key = key.as_ref().map_err(Failure::clone)?;
        Ok(Record::Put { family, key, value: value.as_ref().map_err(Failure::clone)? })
    });
}

/// Adds a put in a column family of a key and a value that are in pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_putv_cf(
    batch: Wi<'_>,
    handle: Handle<'_>,
    num_keys: c_int,
    keys: Keys,
    key_sizes: Lengths,
    num_values: c_int,
    values: Keys,
    value_sizes: Lengths,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays.
    let key = unsafe { joined(keys, key_sizes, num_keys) };
    // SAFETY: as above.
    let value = unsafe { joined(values, value_sizes, num_values) };
    let (key, value) = (&key, &value);
    add(batch, Some(handle), |family| {
        let key = key.as_ref().map_err(Failure::clone)?;
        Ok(Record::Put { family, key, value: value.as_ref().map_err(Failure::clone)? })
    });
}

/// Adds a delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_delete(
    batch: Wi<'_>,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, None, |family| unsafe {
        Ok(Record::Delete { family, key: ffi::bytes(key, klen, "key")? })
    });
}

/// Adds a delete in a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_delete_cf(
    batch: Wi<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, Some(handle), |family| unsafe {
        Ok(Record::Delete { family, key: ffi::bytes(key, klen, "key")? })
    });
}

/// Adds a delete of a key that was set once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_singledelete(
    batch: Wi<'_>,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, None, |family| unsafe {
        Ok(Record::SingleDelete { family, key: ffi::bytes(key, klen, "key")? })
    });
}

/// Adds a delete in a column family of a key that was set once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_singledelete_cf(
    batch: Wi<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, Some(handle), |family| unsafe {
        Ok(Record::SingleDelete { family, key: ffi::bytes(key, klen, "key")? })
    });
}

/// Adds a delete of a key that is in pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_deletev(
    batch: Wi<'_>,
    num_keys: c_int,
    keys: Keys,
    key_sizes: Lengths,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays.
    let key = &unsafe { joined(keys, key_sizes, num_keys) };
    add(batch, None, |family| {
        Ok(Record::Delete { family, key: key.as_ref().map_err(Failure::clone)? })
    });
}

/// Adds a delete in a column family of a key that is in pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_deletev_cf(
    batch: Wi<'_>,
    handle: Handle<'_>,
    num_keys: c_int,
    keys: Keys,
    key_sizes: Lengths,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays.
    let key = &unsafe { joined(keys, key_sizes, num_keys) };
    add(batch, Some(handle), |family| {
        Ok(Record::Delete { family, key: key.as_ref().map_err(Failure::clone)? })
    });
}

/// Adds bytes that no read returns. The store does not keep them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_put_log_data(
    batch: Wi<'_>,
    blob: *const c_char,
    len: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    add(batch, None, |_| unsafe { Ok(Record::LogData(ffi::bytes(blob, len, "log data")?)) });
}

/// Calls `put` or `deleted` for each put and delete, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_iterate(
    batch: Wi<'_>,
    state: *mut c_void,
    put: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>,
    deleted: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
) {
    quiet(|| {
        let rep = lock(rocksdb_writebatch_wi_t::of(batch)?).rep()?.clone();
        // SAFETY: the functions and `state` belong together by RocksDB's contract.
        unsafe { visit(&rep, state, put, deleted, None) }
    });
}

/// Returns the bytes of the batch, which live until it is changed.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_wi_data(
    batch: Wi<'_>,
    size: Option<&mut usize>,
) -> *const c_char {
    match rocksdb_writebatch_wi_t::of(batch) {
        Ok(overlay) => borrowed_ptr(lock(overlay).as_bytes(), size),
        Err(_) => borrowed_ptr(&[], size),
    }
}

/// Sets a savepoint.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_wi_set_save_point(batch: Wi<'_>) {
    quiet(|| {
        lock(rocksdb_writebatch_wi_t::of(batch)?).set_savepoint();
        Ok(())
    });
}

/// Takes back the operations after the newest savepoint, and removes the savepoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_rollback_to_save_point(
    batch: Wi<'_>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || lock(rocksdb_writebatch_wi_t::of(batch)?).roll_back_to_savepoint());
    }
}
