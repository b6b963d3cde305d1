//! `rocksdb_transactiondb_*`: stores whose transactions take locks.
//!
//! Invariant: a plain write to a `rocksdb_transactiondb_t` is a transaction of its own, which waits
//! for the locks of others.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use esker_c::failure::{Failure, Outcome, attempt, there};
use esker_c::ffi;

use crate::access::{rocksdb_readoptions_t, rocksdb_writeoptions_t};
use crate::access_mode::Access;
use crate::backup::rocksdb_checkpoint_t;
use crate::batch::rocksdb_writebatch_t;
use crate::db::{Named, open_default, open_named, rocksdb_column_family_handle_t};
use crate::failure::kept;
use crate::iter::rocksdb_iterator_t;
use crate::options::rocksdb_options_t;
use crate::read::rocksdb_pinnableslice_t;
use crate::rep::Record;
use crate::settings::Settings;
use crate::store::{Family, Store, check_range, rocksdb_snapshot_t, rocksdb_t};
use crate::transaction::{Beginning, rocksdb_transaction_t};
use crate::{db, iter, maintenance, multi_get, properties, read};

/// RocksDB's default wait for a lock, in milliseconds.
const LOCK_TIMEOUT_MS: i64 = 1000;

/// A store whose transactions take locks. It begins with the store's handle.
#[repr(C)]
pub struct rocksdb_transactiondb_t {
    base: rocksdb_t,
    /// Wait for a lock of a transaction, in milliseconds.
    transaction_lock_timeout_ms: i64,
    /// Wait for a lock of a plain write, in milliseconds.
    default_lock_timeout_ms: i64,
}

type Db<'a> = Option<&'a rocksdb_transactiondb_t>;
type Handle<'a> = Option<&'a rocksdb_column_family_handle_t>;
type Handles = *mut *mut rocksdb_column_family_handle_t;
type Error<'a> = Option<&'a mut *mut c_char>;
type Read<'a> = Option<&'a rocksdb_readoptions_t>;
type Write<'a> = Option<&'a rocksdb_writeoptions_t>;

fn base(db: Db<'_>) -> Option<&rocksdb_t> {
    db.map(|db| &db.base)
}

fn with_locks(store: Arc<Store>, options: Option<&Settings>) -> Box<rocksdb_transactiondb_t> {
    let timeout = |name: &str| options.and_then(|options| options.number(name));
    Box::new(rocksdb_transactiondb_t {
        base: rocksdb_t { store },
        transaction_lock_timeout_ms: timeout("transaction_lock_timeout").unwrap_or(LOCK_TIMEOUT_MS),
        default_lock_timeout_ms: timeout("default_lock_timeout").unwrap_or(LOCK_TIMEOUT_MS),
    })
}

pub(crate) fn check(options: Option<&Settings>) -> Outcome<()> {
    options.map_or(Ok(()), Settings::check)
}

/// Opens a store whose transactions take locks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_open(
    options: Option<&rocksdb_options_t>,
    txn_db_options: Option<&Settings>,
    name: *const c_char,
    errptr: Error<'_>,
) -> Option<Box<rocksdb_transactiondb_t>> {
    // SAFETY: the caller meets RocksDB's contract for strings, options and error texts.
    let opened = unsafe {
        kept(errptr, || {
            check(txn_db_options)?;
            open_default(options, name, Access::Write)
        })
    };
    opened.map(|store| with_locks(store, txn_db_options))
}

/// Opens a store with its column families, whose transactions take locks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_open_column_families(
    options: Option<&rocksdb_options_t>,
    txn_db_options: Option<&Settings>,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    of_families: *const *const rocksdb_options_t,
    handles: Handles,
    errptr: Error<'_>,
) -> Option<Box<rocksdb_transactiondb_t>> {
    let named = Named { count, names, options: of_families, handles };
    // SAFETY: the caller meets RocksDB's contract for strings, options, arrays and error texts.
    let opened = unsafe {
        kept(errptr, || {
            check(txn_db_options)?;
            open_named(options, name, named, Access::Write)
        })
    };
    opened.map(|store| with_locks(store, txn_db_options))
}

/// Closes a store.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transactiondb_close(db: Option<Box<rocksdb_transactiondb_t>>) {
    if let Some(db) = db {
        let _ = attempt(|| db.base.store.close());
    }
}

pub(crate) fn another(db: Option<&rocksdb_t>) -> Option<Box<rocksdb_t>> {
    db.map(|db| Box::new(rocksdb_t { store: db.store.clone() }))
}

/// Returns a handle of the store for calls without transactions.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transactiondb_get_base_db(db: Db<'_>) -> Option<Box<rocksdb_t>> {
    another(base(db))
}

/// Frees a handle of `rocksdb_transactiondb_get_base_db`. The store stays open.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transactiondb_close_base_db(db: Option<Box<rocksdb_t>>) {
    drop(db);
}

/// Begins a transaction, in the object `old_txn` if that is not null.
pub(crate) fn begun(
    db: Option<&rocksdb_t>,
    beginning: Outcome<Beginning>,
    old_txn: Option<Box<rocksdb_transaction_t>>,
) -> Option<Box<rocksdb_transaction_t>> {
    crate::failure::quiet(|| {
        let transaction = rocksdb_transaction_t::begin(rocksdb_t::open(db)?, beginning?);
        match old_txn {
            // The object keeps its address.
            Some(mut old) => {
                *old = transaction;
                Ok(old)
            }
            None => Ok(Box::new(transaction)),
        }
    })
}

/// Begins a transaction that takes locks, in the object `old_txn` if that is not null.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transaction_begin(
    db: Db<'_>,
    write_options: Write<'_>,
    options: Option<&Settings>,
    old_txn: Option<Box<rocksdb_transaction_t>>,
) -> Option<Box<rocksdb_transaction_t>> {
    let number = |name: &str| options.and_then(|options| options.number(name));
    let beginning = || {
        check(options)?;
        let of_db = there(db, "store")?.transaction_lock_timeout_ms;
        let timeout = number("lock_timeout").filter(|ms| *ms >= 0).unwrap_or(of_db);
        let write = rocksdb_writeoptions_t::of(write_options)?;
        Ok(Beginning {
            with_snapshot: number("set_snapshot").unwrap_or(0) != 0,
            expiration_ms: number("expiration").unwrap_or(-1),
            ..Beginning::pessimistic(write, timeout)
        })
    };
    begun(base(db), beginning(), old_txn)
}

/// Returns the prepared transactions, to be committed or rolled back; the array is freed with
/// `rocksdb_free`.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transactiondb_get_prepared_transactions(
    db: Db<'_>,
    count: Option<&mut usize>,
) -> *mut *mut rocksdb_transaction_t {
    let listed = crate::failure::quiet(|| {
        let store = rocksdb_t::open(base(db))?;
        let names = store.db().prepared_transactions().into_iter();
        let prepared = |name| Box::new(rocksdb_transaction_t::prepared(store, name));
        Ok(names.map(|name| Box::into_raw(prepared(name))).collect::<Vec<_>>())
    });
    let listed = listed.unwrap_or_default();
    if let Some(count) = count {
        *count = listed.len();
    }
    if listed.is_empty() {
        return std::ptr::null_mut();
    }
    // SAFETY: pointers are plain bytes; the array lives through the call.
    let bytes = unsafe {
        std::slice::from_raw_parts(listed.as_ptr().cast::<u8>(), size_of_val(listed.as_slice()))
    };
    ffi::give_bytes(bytes).cast()
}

/// Writes outside of a transaction, by a transaction of one operation.
pub(crate) fn write_one(
    db: Db<'_>,
    options: Write<'_>,
    family: Option<Handle<'_>>,
    record: Record<'_>,
) -> Outcome<()> {
    let timeout = there(db, "store")?.default_lock_timeout_ms;
    let store = rocksdb_t::writable(base(db))?;
    let family: &Family = match family {
        Some(handle) => rocksdb_column_family_handle_t::of(handle)?,
        None => &store.default,
    };
    let beginning = Beginning::pessimistic(rocksdb_writeoptions_t::of(options)?, timeout);
    let mut transaction = rocksdb_transaction_t::begin(store, beginning);
    transaction.write(family, record)?;
    transaction.commit()
}

/// Sets a key to a value, and waits for the locks of transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_put(
    db: Db<'_>,
    options: Write<'_>,
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
            write_one(db, options, None, Record::Put { family: 0, key, value })
        });
    }
}

/// Sets a key of a column family to a value, and waits for the locks of transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_put_cf(
    db: Db<'_>,
    options: Write<'_>,
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
            let family = rocksdb_column_family_handle_t::of(handle)?.id();
            write_one(db, options, Some(handle), Record::Put { family, key, value })
        });
    }
}

/// Deletes a key, and waits for the locks of transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_delete(
    db: Db<'_>,
    options: Write<'_>,
    key: *const c_char,
    klen: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let key = ffi::bytes(key, klen, "key")?;
            write_one(db, options, None, Record::Delete { family: 0, key })
        });
    }
}

/// Deletes a key of a column family, and waits for the locks of transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_delete_cf(
    db: Db<'_>,
    options: Write<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let key = ffi::bytes(key, klen, "key")?;
            let family = rocksdb_column_family_handle_t::of(handle)?.id();
            write_one(db, options, Some(handle), Record::Delete { family, key })
        });
    }
}

/// Applies a batch, and waits for the locks of transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_write(
    db: Db<'_>,
    options: Write<'_>,
    batch: Option<&rocksdb_writebatch_t>,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let rep = there(batch, "batch")?.rep()?;
            let timeout = there(db, "store")?.default_lock_timeout_ms;
            let store = rocksdb_t::writable(base(db))?;
            let options = Beginning::pessimistic(rocksdb_writeoptions_t::of(options)?, timeout);
            let transaction = store.db().transaction(options.options);
            for record in rep.records() {
                let record = record?;
                let family = store.family(record.family())?;
                let keyspace = &family.keyspace();
                match record {
                    Record::Put { key, value, .. } => match family.ttl {
                        Some(ttl) => transaction.put_with_ttl_in(keyspace, key, value, ttl)?,
                        None => transaction.put_in(keyspace, key, value)?,
                    },
                    Record::Delete { key, .. } | Record::SingleDelete { key, .. } => {
                        transaction.delete_in(keyspace, key)?;
                    }
                    Record::DeleteRange { start, end, .. } => {
                        check_range(keyspace, start, end)?;
                        transaction.delete_range_in(keyspace, start, end)?;
                    }
                    Record::Merge { .. } if family.operator().is_none() => {
                        return Err(crate::operators::no_operator());
                    }
                    Record::Merge { key, operand, .. } => {
                        transaction.merge_in(keyspace, key, operand)?;
                    }
                    Record::LogData(_) => {}
                }
            }
            transaction.commit().map_err(Failure::from)
        });
    }
}

/// Returns a copy of the value of a key. See `rocksdb_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_get(
    db: Db<'_>,
    options: Read<'_>,
    key: *const c_char,
    klen: usize,
    vlen: Option<&mut usize>,
    errptr: Error<'_>,
) -> *mut c_char {
    // SAFETY: the same contract.
    unsafe { read::rocksdb_get(base(db), options, key, klen, vlen, errptr) }
}

/// Returns a copy of the value of a key of a column family. See `rocksdb_get_cf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_get_cf(
    db: Db<'_>,
    options: Read<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    vlen: Option<&mut usize>,
    errptr: Error<'_>,
) -> *mut c_char {
    // SAFETY: the same contract.
    unsafe { read::rocksdb_get_cf(base(db), options, handle, key, klen, vlen, errptr) }
}

/// Returns the pinned value of a key. See `rocksdb_get_pinned`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_get_pinned(
    db: Db<'_>,
    options: Read<'_>,
    key: *const c_char,
    klen: usize,
    errptr: Error<'_>,
) -> *mut rocksdb_pinnableslice_t {
    // SAFETY: the same contract.
    unsafe { read::rocksdb_get_pinned(base(db), options, key, klen, errptr) }
}

/// Returns the pinned value of a key of a column family. See `rocksdb_get_pinned_cf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_get_pinned_cf(
    db: Db<'_>,
    options: Read<'_>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    errptr: Error<'_>,
) -> *mut rocksdb_pinnableslice_t {
    // SAFETY: the same contract.
    unsafe { read::rocksdb_get_pinned_cf(base(db), options, handle, key, klen, errptr) }
}

/// Returns copies of the values of many keys. See `rocksdb_multi_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_multi_get(
    db: Db<'_>,
    options: Read<'_>,
    count: usize,
    keys: *const *const c_char,
    lens: *const usize,
    values: *mut *mut c_char,
    value_lens: *mut usize,
    errs: *mut *mut c_char,
) {
    let db = base(db);
    // SAFETY: the same contract.
    unsafe {
        multi_get::rocksdb_multi_get(db, options, count, keys, lens, values, value_lens, errs);
    }
}

/// Returns copies of the values of many keys, each of its own column family. See
/// `rocksdb_multi_get_cf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_multi_get_cf(
    db: Db<'_>,
    options: Read<'_>,
    families: *const *const rocksdb_column_family_handle_t,
    count: usize,
    keys: *const *const c_char,
    lens: *const usize,
    values: *mut *mut c_char,
    value_lens: *mut usize,
    errs: *mut *mut c_char,
) {
    let get = multi_get::rocksdb_multi_get_cf;
    // SAFETY: the same contract.
    unsafe { get(base(db), options, families, count, keys, lens, values, value_lens, errs) }
}

/// Creates an iterator without a position. See `rocksdb_create_iterator`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_create_iterator(
    db: Db<'_>,
    options: Read<'_>,
) -> *mut rocksdb_iterator_t {
    // SAFETY: the same contract.
    unsafe { iter::rocksdb_create_iterator(base(db), options) }
}

/// Creates an iterator over a column family. See `rocksdb_create_iterator_cf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_create_iterator_cf(
    db: Db<'_>,
    options: Read<'_>,
    handle: Handle<'_>,
) -> *mut rocksdb_iterator_t {
    // SAFETY: the same contract.
    unsafe { iter::rocksdb_create_iterator_cf(base(db), options, handle) }
}

/// Creates a column family. See `rocksdb_create_column_family`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_create_column_family(
    db: Db<'_>,
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    errptr: Error<'_>,
) -> *mut rocksdb_column_family_handle_t {
    // SAFETY: the same contract.
    unsafe { db::rocksdb_create_column_family(base(db), options, name, errptr) }
}

/// Creates a snapshot of the current state.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_transactiondb_create_snapshot(db: Db<'_>) -> *mut rocksdb_snapshot_t {
    maintenance::rocksdb_create_snapshot(base(db))
}

/// Releases a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_release_snapshot(
    db: Db<'_>,
    snapshot: *mut rocksdb_snapshot_t,
) {
    // SAFETY: the same contract.
    unsafe { maintenance::rocksdb_release_snapshot(base(db), snapshot) }
}

/// Returns a property. See `rocksdb_property_value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_property_value(
    db: Db<'_>,
    propname: *const c_char,
) -> *mut c_char {
    // SAFETY: the same contract.
    unsafe { properties::rocksdb_property_value(base(db), propname) }
}

/// Stores a property that is a number. See `rocksdb_property_int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_property_int(
    db: Db<'_>,
    propname: *const c_char,
    out_val: Option<&mut u64>,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { properties::rocksdb_property_int(base(db), propname, out_val) }
}

/// Writes all memtables to tables. See `rocksdb_flush`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_flush(
    db: Db<'_>,
    options: Option<&Settings>,
    errptr: Error<'_>,
) {
    // SAFETY: the same contract.
    unsafe { maintenance::rocksdb_flush(base(db), options, errptr) }
}

/// Writes the memtables of all column families to tables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_flush_cf(
    db: Db<'_>,
    options: Option<&Settings>,
    _handle: Handle<'_>,
    errptr: Error<'_>,
) {
    // SAFETY: the same contract.
    unsafe { maintenance::rocksdb_flush(base(db), options, errptr) }
}

/// Writes the memtables of all column families to tables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_flush_cfs(
    db: Db<'_>,
    options: Option<&Settings>,
    _families: *const *const rocksdb_column_family_handle_t,
    _num_column_families: c_int,
    errptr: Error<'_>,
) {
    // SAFETY: the same contract.
    unsafe { maintenance::rocksdb_flush(base(db), options, errptr) }
}

/// Makes logged writes survive a power loss. See `rocksdb_flush_wal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_flush_wal(db: Db<'_>, sync: u8, errptr: Error<'_>) {
    // SAFETY: the same contract.
    unsafe { maintenance::rocksdb_flush_wal(base(db), sync, errptr) }
}

/// Makes logged writes survive a power loss. See `rocksdb_flush_wal_with_options`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_flush_wal_with_options(
    db: Db<'_>,
    options: Option<&Settings>,
    errptr: Error<'_>,
) {
    // SAFETY: the same contract.
    unsafe { maintenance::rocksdb_flush_wal_with_options(base(db), options, errptr) }
}

/// Creates an object for checkpoints. See `rocksdb_checkpoint_object_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_checkpoint_object_create(
    db: Db<'_>,
    errptr: Error<'_>,
) -> Option<Box<rocksdb_checkpoint_t>> {
    // SAFETY: the same contract.
    unsafe { crate::backup::rocksdb_checkpoint_object_create(base(db), errptr) }
}
