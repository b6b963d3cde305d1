//! Secondary instances: they read a store that another process writes, and show its newer writes after
//! each catch-up. They are Esker's followers.
//!
//! The directory of the secondary instance, where RocksDB puts its text log, stays unused.

use std::ffi::{c_char, c_int};

use esker_c::failure::Failure;

use crate::access_mode::Access;
use crate::db::{Handles, Named, given, open_default, open_named};
use crate::failure::kept;
use crate::options::rocksdb_options_t;
use crate::store::rocksdb_t;

/// Opens a secondary instance of the store `name` with its default column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_as_secondary(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    _secondary_path: *const c_char,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_t>> {
    // SAFETY: the caller meets RocksDB's contract for strings, options and error texts.
    unsafe { kept(errptr, || open_default(options, name, Access::Follow)).map(given) }
}

/// Opens a secondary instance of the store `name` with some of its column families.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_as_secondary_column_families(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    _secondary_path: *const c_char,
    count: c_int,
    names: *const *const c_char,
    of_families: *const *const rocksdb_options_t,
    handles: Handles,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_t>> {
    let named = Named { count, names, options: of_families, handles };
    // SAFETY: the caller meets RocksDB's contract for strings, options, arrays and error texts.
    unsafe { kept(errptr, || open_named(options, name, named, Access::Follow)).map(given) }
}

/// Makes a secondary instance show what the store has now. Iterators and pinned values stay as they
/// are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_try_catch_up_with_primary(
    db: Option<&rocksdb_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            if rocksdb_t::open(db)?.catch_up()? {
                return Ok(());
            }
            Err(Failure::invalid(
                "this is no secondary instance, so it has nothing to catch up with",
            ))
        });
    }
}
