//! `rocksdb_optimistictransactiondb_*`: stores whose transactions are checked at the commit.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use esker_c::failure::attempt;

use crate::access::rocksdb_writeoptions_t;
use crate::access_mode::Access;
use crate::backup::rocksdb_checkpoint_t;
use crate::batch::rocksdb_writebatch_t;
use crate::db::{Named, open_default, open_named, rocksdb_column_family_handle_t};
use crate::failure::kept;
use crate::options::rocksdb_options_t;
use crate::properties;
use crate::settings::Settings;
use crate::store::{Store, rocksdb_t};
use crate::transaction::{Beginning, rocksdb_transaction_t};
use crate::transaction_db::{another, begun, check};

/// A store whose transactions are checked at the commit. It begins with the store's handle.
#[repr(C)]
pub struct rocksdb_optimistictransactiondb_t {
    base: rocksdb_t,
}

type Optimistic<'a> = Option<&'a rocksdb_optimistictransactiondb_t>;
type Handles = *mut *mut rocksdb_column_family_handle_t;
type Error<'a> = Option<&'a mut *mut c_char>;
type Write<'a> = Option<&'a rocksdb_writeoptions_t>;

fn unlocked(store: Arc<Store>) -> Box<rocksdb_optimistictransactiondb_t> {
    Box::new(rocksdb_optimistictransactiondb_t { base: rocksdb_t { store } })
}

fn optimistic(db: Optimistic<'_>) -> Option<&rocksdb_t> {
    db.map(|db| &db.base)
}

/// Opens a store whose transactions are checked at the commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_open(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    errptr: Error<'_>,
) -> Option<Box<rocksdb_optimistictransactiondb_t>> {
    // SAFETY: the caller meets RocksDB's contract for strings, options and error texts.
    unsafe { kept(errptr, || open_default(options, name, Access::Write)).map(unlocked) }
}

/// Opens a store whose transactions are checked at the commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_open_with_otxn_db_options(
    options: Option<&rocksdb_options_t>,
    _otxn_db_options: Option<&Settings>,
    name: *const c_char,
    errptr: Error<'_>,
) -> Option<Box<rocksdb_optimistictransactiondb_t>> {
    // SAFETY: the same contract.
    unsafe { rocksdb_optimistictransactiondb_open(options, name, errptr) }
}

/// Opens a store with its column families, whose transactions are checked at the commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_open_column_families(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    of_families: *const *const rocksdb_options_t,
    handles: Handles,
    errptr: Error<'_>,
) -> Option<Box<rocksdb_optimistictransactiondb_t>> {
    let named = Named { count, names, options: of_families, handles };
    // SAFETY: the caller meets RocksDB's contract for strings, options, arrays and error texts.
    unsafe { kept(errptr, || open_named(options, name, named, Access::Write)).map(unlocked) }
}

/// Opens a store with its column families, whose transactions are checked at the commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
    options: Option<&rocksdb_options_t>,
    _otxn_db_options: Option<&Settings>,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    of_families: *const *const rocksdb_options_t,
    handles: Handles,
    errptr: Error<'_>,
) -> Option<Box<rocksdb_optimistictransactiondb_t>> {
    let open = rocksdb_optimistictransactiondb_open_column_families;
    // SAFETY: the same contract.
    unsafe { open(options, name, count, names, of_families, handles, errptr) }
}

/// Returns a handle of the store for calls without transactions.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_optimistictransactiondb_get_base_db(
    db: Optimistic<'_>,
) -> Option<Box<rocksdb_t>> {
    another(optimistic(db))
}

/// Frees a handle of `rocksdb_optimistictransactiondb_get_base_db`. The store stays open.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_optimistictransactiondb_close_base_db(db: Option<Box<rocksdb_t>>) {
    drop(db);
}

/// Closes a store.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_optimistictransactiondb_close(
    db: Option<Box<rocksdb_optimistictransactiondb_t>>,
) {
    if let Some(db) = db {
        let _ = attempt(|| db.base.store.close());
    }
}

/// Begins a transaction that is checked at the commit, in the object `old_txn` if that is not null.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_optimistictransaction_begin(
    db: Optimistic<'_>,
    write_options: Write<'_>,
    options: Option<&Settings>,
    old_txn: Option<Box<rocksdb_transaction_t>>,
) -> Option<Box<rocksdb_transaction_t>> {
    let with_snapshot = options.is_some_and(|options| options.flag("set_snapshot"));
    let write = rocksdb_writeoptions_t::of(write_options);
    let write = check(options).and(write);
    let beginning = write.map(|write| Beginning::optimistic(write, with_snapshot));
    begun(optimistic(db), beginning, old_txn)
}

/// Applies a batch. Transactions that wrote its keys fail at their commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_write(
    db: Optimistic<'_>,
    options: Write<'_>,
    batch: Option<&rocksdb_writebatch_t>,
    errptr: Error<'_>,
) {
    // SAFETY: the same contract.
    unsafe { crate::write::rocksdb_write(optimistic(db), options, batch, errptr) }
}

/// Creates an object for checkpoints. See `rocksdb_checkpoint_object_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_checkpoint_object_create(
    db: Optimistic<'_>,
    errptr: Error<'_>,
) -> Option<Box<rocksdb_checkpoint_t>> {
    // SAFETY: the same contract.
    unsafe { crate::backup::rocksdb_checkpoint_object_create(optimistic(db), errptr) }
}

/// Returns a property. See `rocksdb_property_value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_property_value(
    db: Optimistic<'_>,
    propname: *const c_char,
) -> *mut c_char {
    // SAFETY: the same contract.
    unsafe { properties::rocksdb_property_value(optimistic(db), propname) }
}

/// Stores a property that is a number. See `rocksdb_property_int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_property_int(
    db: Optimistic<'_>,
    propname: *const c_char,
    out_val: Option<&mut u64>,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { properties::rocksdb_property_int(optimistic(db), propname, out_val) }
}
