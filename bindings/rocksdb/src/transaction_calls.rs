//! `rocksdb_transaction_*`: the calls on a transaction.

use std::ffi::c_char;

use esker_c::failure::{Failure, Outcome, attempt, there};
use esker_c::ffi;

use crate::access::rocksdb_readoptions_t;
use crate::batch::rocksdb_writebatch_t;
use crate::batch_wi::{lock, rocksdb_writebatch_wi_t};
use crate::batch_wi_read::find_over;
use crate::db::rocksdb_column_family_handle_t;
use crate::failure::{kept, quiet, unless_refused};
use crate::iter::{Walk, rocksdb_iterator_t};
use crate::multi_get::{Keys, Places, answer, families_of};
use crate::read::{Value, give, rocksdb_pinnableslice_t};
use crate::rep::Record;
use crate::store::{Family, rocksdb_snapshot_t};
use crate::transaction::rocksdb_transaction_t;

type Txn<'a> = Option<&'a mut rocksdb_transaction_t>;
type Handle<'a> = Option<&'a rocksdb_column_family_handle_t>;
type Error<'a> = Option<&'a mut *mut c_char>;
type Read<'a> = Option<&'a rocksdb_readoptions_t>;
type Families = *const *const rocksdb_column_family_handle_t;

/// Names the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_set_name(
    txn: Txn<'_>,
    name: *const c_char,
    name_len: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let name = ffi::bytes(name, name_len, "name")?;
            let name = std::str::from_utf8(name)
                .map_err(|_| Failure::invalid("the name of a transaction must be UTF-8"))?;
            there(txn, "transaction")?.set_name(name)
        });
    }
}

/// Returns a copy of the transaction's name, allocated with `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transaction_get_name(
    txn: Option<&rocksdb_transaction_t>,
    name_len: Option<&mut usize>,
) -> *mut c_char {
    let name = txn.map_or("", |txn| txn.name());
    give(Some(name.as_bytes()), name_len)
}

/// Prepares the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_prepare(txn: Txn<'_>, errptr: Error<'_>) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe { kept(errptr, || there(txn, "transaction")?.prepare()) };
}

/// Commits the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_commit(txn: Txn<'_>, errptr: Error<'_>) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe { kept(errptr, || there(txn, "transaction")?.commit()) };
}

/// Rolls the transaction back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_rollback(txn: Txn<'_>, errptr: Error<'_>) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe { kept(errptr, || there(txn, "transaction")?.roll_back()) };
}

/// Sets a savepoint. A failure is reported by a later call.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transaction_set_savepoint(txn: Txn<'_>) {
    quiet(|| there(txn, "transaction")?.set_savepoint());
}

/// Takes back the writes after the newest savepoint, and removes the savepoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_rollback_to_savepoint(
    txn: Txn<'_>,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe { kept(errptr, || there(txn, "transaction")?.roll_back_to_savepoint()) };
}

/// Frees a transaction. It is rolled back unless it was committed or prepared.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transaction_destroy(txn: Option<Box<rocksdb_transaction_t>>) {
    let _ = attempt(|| {
        drop(txn);
        Ok(())
    });
}

/// Sets a key to a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_put(
    txn: Txn<'_>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let (key, value) = (ffi::bytes(key, klen, "key")?, ffi::bytes(val, vlen, "value")?);
            let txn = there(txn, "transaction")?;
            let family = txn.store().default.clone();
            txn.write(&family, Record::Put { family: 0, key, value })
        });
    }
}

/// Sets a key of a column family to a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_put_cf(
    txn: Txn<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let (key, value) = (ffi::bytes(key, klen, "key")?, ffi::bytes(val, vlen, "value")?);
            let family = rocksdb_column_family_handle_t::of(handle)?;
            let record = Record::Put { family: family.id(), key, value };
            there(txn, "transaction")?.write(family, record)
        });
    }
}

/// Deletes a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_delete(
    txn: Txn<'_>,
    key: *const c_char,
    klen: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let key = ffi::bytes(key, klen, "key")?;
            let txn = there(txn, "transaction")?;
            let family = txn.store().default.clone();
            txn.write(&family, Record::Delete { family: 0, key })
        });
    }
}

/// Deletes a key of a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_delete_cf(
    txn: Txn<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let key = ffi::bytes(key, klen, "key")?;
            let family = rocksdb_column_family_handle_t::of(handle)?;
            let record = Record::Delete { family: family.id(), key };
            there(txn, "transaction")?.write(family, record)
        });
    }
}

/// Adds bytes that no read returns. The store does not keep them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_put_log_data(
    txn: Txn<'_>,
    blob: *const c_char,
    len: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    quiet(|| unsafe {
        let blob = ffi::bytes(blob, len, "log data")?;
        lock(there(txn, "transaction")?.overlay()).write(None, Record::LogData(blob));
        Ok(())
    });
}

/// Adds the operations of a batch, and locks their keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_rebuild_from_writebatch(
    txn: Txn<'_>,
    batch: Option<&rocksdb_writebatch_t>,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || there(txn, "transaction")?.add(there(batch, "batch")?.rep()?));
    }
}

/// Adds the operations of a batch with an index, and locks their keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_rebuild_from_writebatch_wi(
    txn: Txn<'_>,
    batch: Option<&rocksdb_writebatch_wi_t>,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let rep = lock(rocksdb_writebatch_wi_t::of(batch)?).rep()?.clone();
            there(txn, "transaction")?.add(&rep)
        });
    }
}

/// Returns the writes of the transaction, to be freed with `rocksdb_free`.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transaction_get_writebatch_wi(
    txn: Option<&rocksdb_transaction_t>,
) -> *mut rocksdb_writebatch_wi_t {
    txn.map_or(std::ptr::null_mut(), |txn| {
        rocksdb_writebatch_wi_t::give(std::sync::Arc::as_ptr(txn.overlay()))
    })
}

/// Returns the snapshot of the transaction, to be freed with `rocksdb_free`.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transaction_get_snapshot(
    txn: Option<&rocksdb_transaction_t>,
) -> *mut rocksdb_snapshot_t {
    txn.map_or(std::ptr::null_mut(), |txn| rocksdb_snapshot_t::give(txn.snapshot()))
}

/// What a read of a transaction reads.
struct Reading<'a> {
    handle: Option<Handle<'a>>,
    options: Read<'a>,
    key: *const c_char,
    klen: usize,
    for_update: bool,
}

impl Reading<'_> {
    /// Reads the key.
    ///
    /// # Safety
    /// The key and the snapshot meet RocksDB's contract.
    unsafe fn find(&self, txn: Txn<'_>) -> Outcome<Option<Value>> {
        let txn = there(txn, "transaction")?;
        let default = txn.store().default.clone();
        let family: &Family = match self.handle {
            Some(handle) => rocksdb_column_family_handle_t::of(handle)?,
            None => &default,
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            if self.for_update {
                txn.lock_key(family, ffi::bytes(self.key, self.klen, "key")?)?;
            }
            find_over(txn.overlay(), family, self.options, self.key, self.klen)
        }
    }
}

/// Returns a copy of a value.
///
/// # Safety
/// The arguments meet RocksDB's contract for buffers, snapshots and error texts.
unsafe fn copied(
    txn: Txn<'_>,
    reading: &Reading<'_>,
    vlen: Option<&mut usize>,
    errptr: Error<'_>,
) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    unsafe { give(kept(errptr, || reading.find(txn)).flatten().as_deref(), vlen) }
}

/// Returns a pinned value.
///
/// # Safety
/// The arguments meet RocksDB's contract for buffers, snapshots and error texts.
unsafe fn pinned(
    txn: Txn<'_>,
    reading: &Reading<'_>,
    errptr: Error<'_>,
) -> *mut rocksdb_pinnableslice_t {
    // SAFETY: guaranteed by the caller.
    let found = unsafe { kept(errptr, || reading.find(txn)) };
    found.flatten().map_or(std::ptr::null_mut(), rocksdb_pinnableslice_t::give)
}

/// Returns a copy of the value of a key, or null if the key is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get(
    txn: Txn<'_>,
    options: Read<'_>,
    key: *const c_char,
    klen: usize,
    vlen: Option<&mut usize>,
    errptr: Error<'_>,
) -> *mut c_char {
    let reading = Reading { handle: None, options, key, klen, for_update: false };
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe { copied(txn, &reading, vlen, errptr) }
}

/// Returns a copy of the value of a key of a column family, or null if the key is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get_cf(
    txn: Txn<'_>,
    options: Read<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    vlen: Option<&mut usize>,
    errptr: Error<'_>,
) -> *mut c_char {
    let reading = Reading { handle: Some(handle), options, key, klen, for_update: false };
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe { copied(txn, &reading, vlen, errptr) }
}

/// Returns a copy of the value of a key, and protects the key until the transaction ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get_for_update(
    txn: Txn<'_>,
    options: Read<'_>,
    key: *const c_char,
    klen: usize,
    vlen: Option<&mut usize>,
    _exclusive: u8,
    errptr: Error<'_>,
) -> *mut c_char {
    let reading = Reading { handle: None, options, key, klen, for_update: true };
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe { copied(txn, &reading, vlen, errptr) }
}

/// Returns a copy of the value of a key of a column family, and protects the key until the
/// transaction ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get_for_update_cf(
    txn: Txn<'_>,
    options: Read<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    vlen: Option<&mut usize>,
    _exclusive: u8,
    errptr: Error<'_>,
) -> *mut c_char {
    let reading = Reading { handle: Some(handle), options, key, klen, for_update: true };
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe { copied(txn, &reading, vlen, errptr) }
}

/// Returns the pinned value of a key, or null if the key is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get_pinned(
    txn: Txn<'_>,
    options: Read<'_>,
    key: *const c_char,
    klen: usize,
    errptr: Error<'_>,
) -> *mut rocksdb_pinnableslice_t {
    let reading = Reading { handle: None, options, key, klen, for_update: false };
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe { pinned(txn, &reading, errptr) }
}

/// Returns the pinned value of a key of a column family, or null if the key is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get_pinned_cf(
    txn: Txn<'_>,
    options: Read<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    errptr: Error<'_>,
) -> *mut rocksdb_pinnableslice_t {
    let reading = Reading { handle: Some(handle), options, key, klen, for_update: false };
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe { pinned(txn, &reading, errptr) }
}

/// Returns the pinned value of a key, and protects the key until the transaction ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get_pinned_for_update(
    txn: Txn<'_>,
    options: Read<'_>,
    key: *const c_char,
    klen: usize,
    _exclusive: u8,
    errptr: Error<'_>,
) -> *mut rocksdb_pinnableslice_t {
    let reading = Reading { handle: None, options, key, klen, for_update: true };
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe { pinned(txn, &reading, errptr) }
}

/// Returns the pinned value of a key of a column family, and protects the key until the transaction
/// ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get_pinned_for_update_cf(
    txn: Txn<'_>,
    options: Read<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    _exclusive: u8,
    errptr: Error<'_>,
) -> *mut rocksdb_pinnableslice_t {
    let reading = Reading { handle: Some(handle), options, key, klen, for_update: true };
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe { pinned(txn, &reading, errptr) }
}

/// Reads many keys, of the column families or of the default one.
///
/// # Safety
/// Each array has an item for each key.
unsafe fn read_many(
    txn: Txn<'_>,
    options: Read<'_>,
    families: Option<Families>,
    keys: Keys,
    places: Places,
    for_update: bool,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        answer(
            keys.count,
            |at, found| places.put(at, found),
            |give| {
                let txn = there(txn, "transaction")?;
                let default = txn.store().default.clone();
                let families = match families {
                    Some(families) => families_of(families, keys.count)?,
                    None => vec![&default; keys.count],
                };
                for (at, (family, key)) in families.iter().zip(keys.get()?).enumerate() {
                    let locked = if for_update { txn.lock_key(family, key) } else { Ok(()) };
                    let (start, len) = (key.as_ptr().cast(), key.len());
                    let found =
                        locked.and_then(|()| find_over(txn.overlay(), family, options, start, len));
                    give(at, found);
                }
                Ok(())
            },
        );
    }
}

/// Returns copies of the values of many keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_multi_get(
    txn: Txn<'_>,
    options: Read<'_>,
    count: usize,
    starts: *const *const c_char,
    lengths: *const usize,
    values: *mut *mut c_char,
    value_lengths: *mut usize,
    errors: *mut *mut c_char,
) {
    let places = Places { values, lengths: value_lengths, errors };
    // SAFETY: by RocksDB's contract, each array has `count` items.
    unsafe { read_many(txn, options, None, Keys { count, starts, lengths }, places, false) }
}

/// Returns copies of the values of many keys, and protects the keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_multi_get_for_update(
    txn: Txn<'_>,
    options: Read<'_>,
    count: usize,
    starts: *const *const c_char,
    lengths: *const usize,
    values: *mut *mut c_char,
    value_lengths: *mut usize,
    errors: *mut *mut c_char,
) {
    let places = Places { values, lengths: value_lengths, errors };
    // SAFETY: by RocksDB's contract, each array has `count` items.
    unsafe { read_many(txn, options, None, Keys { count, starts, lengths }, places, true) }
}

/// Returns copies of the values of many keys, each of its own column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_multi_get_cf(
    txn: Txn<'_>,
    options: Read<'_>,
    families: Families,
    count: usize,
    starts: *const *const c_char,
    lengths: *const usize,
    values: *mut *mut c_char,
    value_lengths: *mut usize,
    errors: *mut *mut c_char,
) {
    let (keys, families) = (Keys { count, starts, lengths }, Some(families));
    let places = Places { values, lengths: value_lengths, errors };
    // SAFETY: by RocksDB's contract, each array has `count` items.
    unsafe { read_many(txn, options, families, keys, places, false) }
}

/// Returns copies of the values of many keys, each of its own column family, and protects the keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_multi_get_for_update_cf(
    txn: Txn<'_>,
    options: Read<'_>,
    families: Families,
    count: usize,
    starts: *const *const c_char,
    lengths: *const usize,
    values: *mut *mut c_char,
    value_lengths: *mut usize,
    errors: *mut *mut c_char,
) {
    let (keys, families) = (Keys { count, starts, lengths }, Some(families));
    let places = Places { values, lengths: value_lengths, errors };
    // SAFETY: by RocksDB's contract, each array has `count` items.
    unsafe { read_many(txn, options, families, keys, places, true) }
}

/// # Safety
/// The snapshot of the options was not released.
unsafe fn iterate(txn: Txn<'_>, options: Read<'_>, family: Option<Handle<'_>>) -> Outcome<Walk> {
    let txn = there(txn, "transaction")?;
    let family = match family {
        Some(handle) => rocksdb_column_family_handle_t::of(handle)?.clone(),
        None => txn.store().default.clone(),
    };
    // SAFETY: guaranteed by the caller.
    unsafe { Walk::new(&family, options)?.over(txn.overlay().clone(), family.id()) }
}

/// Creates an iterator over the store with the transaction's writes over it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_create_iterator(
    txn: Txn<'_>,
    options: Read<'_>,
) -> *mut rocksdb_iterator_t {
    // SAFETY: the caller meets RocksDB's contract for snapshots.
    rocksdb_iterator_t::give(unless_refused(|| unsafe { iterate(txn, options, None) }))
}

/// Creates an iterator over a column family with the transaction's writes over it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_create_iterator_cf(
    txn: Txn<'_>,
    options: Read<'_>,
    handle: Handle<'_>,
) -> *mut rocksdb_iterator_t {
    // SAFETY: the caller meets RocksDB's contract for snapshots.
    rocksdb_iterator_t::give(unless_refused(|| unsafe { iterate(txn, options, Some(handle)) }))
}
