//! Reads of write batches with an index: of keys and by iterators, alone and over a store.

use std::ffi::c_char;
use std::sync::Mutex;

use esker_c::failure::{Failure, Outcome, there};
use esker_c::ffi;

use crate::access::{rocksdb_readoptions_t, rocksdb_writeoptions_t};
use crate::batch_wi::{lock, rocksdb_writebatch_wi_t};
use crate::db::rocksdb_column_family_handle_t;
use crate::failure::{MERGE_IN_PROGRESS, kept, unless_refused};
use crate::iter::rocksdb_iterator_t;
use crate::options::rocksdb_options_t;
use crate::overlay::Overlay;
use crate::read::{Value, find, give, rocksdb_pinnableslice_t};
use crate::store::{Family, rocksdb_t};

type Wi<'a> = Option<&'a rocksdb_writebatch_wi_t>;
type Handle<'a> = Option<&'a rocksdb_column_family_handle_t>;

/// Returns the failure of a read of operands whose value is in the store.
fn in_progress() -> Outcome<Option<Vec<u8>>> {
    let message = "the batch has merge operands and not the value that they are merged into";
    Err(Failure { code: MERGE_IN_PROGRESS, message: message.to_string() })
}

/// Returns a copy of the batch's value of a key, or null if it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_from_batch(
    batch: Wi<'_>,
    options: Option<&rocksdb_options_t>,
    key: *const c_char,
    keylen: usize,
    vallen: Option<&mut usize>,
    errptr: Option<&mut *mut c_char>,
) -> *mut c_char {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        let found = kept(errptr, || {
            let overlay = lock(rocksdb_writebatch_wi_t::of(batch)?);
            let key = ffi::bytes(key, keylen, "key")?;
            let Some(own) = overlay.get(0, overlay.default_order(), key) else { return Ok(None) };
            let operator = options.and_then(rocksdb_options_t::merge_operator);
            own.resolve(key, operator.as_deref(), in_progress)
        });
        give(found.flatten().as_deref(), vallen)
    }
}

/// Returns a copy of the batch's value of a key of a column family, or null if it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_from_batch_cf(
    batch: Wi<'_>,
    _options: Option<&rocksdb_options_t>,
    handle: Handle<'_>,
    key: *const c_char,
    keylen: usize,
    vallen: Option<&mut usize>,
    errptr: Option<&mut *mut c_char>,
) -> *mut c_char {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        let found = kept(errptr, || {
            let overlay = lock(rocksdb_writebatch_wi_t::of(batch)?);
            let family = rocksdb_column_family_handle_t::of(handle)?;
            let key = ffi::bytes(key, keylen, "key")?;
            let own = overlay.get(family.id(), family.keyspace().key_order(), key);
            own.map_or(Ok(None), |own| own.resolve(key, family.operator(), in_progress))
        });
        give(found.flatten().as_deref(), vallen)
    }
}

/// Reads a key from an overlay, otherwise from the store.
///
/// # Safety
/// The arguments meet RocksDB's contract for buffers and snapshots.
pub(crate) unsafe fn find_over(
    overlay: &Mutex<Overlay>,
    family: &Family,
    options: Option<&rocksdb_readoptions_t>,
    key: *const c_char,
    keylen: usize,
) -> Outcome<Option<Value>> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let bytes = ffi::bytes(key, keylen, "key")?;
        let own = lock(overlay).get(family.id(), family.keyspace().key_order(), bytes);
        match own {
            Some(own) => {
                let stored = || Ok(find(family, options, key, keylen)?.map(|value| value.to_vec()));
                Ok(own.resolve(bytes, family.operator(), stored)?.map(Value::Owned))
            }
            None => Ok(find(family, options, key, keylen)?.map(Value::Pinned)),
        }
    }
}

/// Returns a copy of the value of a key in the batch, otherwise in the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_from_batch_and_db(
    batch: Wi<'_>,
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    key: *const c_char,
    keylen: usize,
    vallen: Option<&mut usize>,
    errptr: Option<&mut *mut c_char>,
) -> *mut c_char {
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found = kept(errptr, || {
            let overlay = rocksdb_writebatch_wi_t::of(batch)?;
            find_over(overlay, &rocksdb_t::open(db)?.default, options, key, keylen)
        });
        give(found.flatten().as_deref(), vallen)
    }
}

/// Returns a copy of the value of a key of a column family in the batch, otherwise in the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_from_batch_and_db_cf(
    batch: Wi<'_>,
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    handle: Handle<'_>,
    key: *const c_char,
    keylen: usize,
    vallen: Option<&mut usize>,
    errptr: Option<&mut *mut c_char>,
) -> *mut c_char {
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found = kept(errptr, || {
            rocksdb_t::open(db)?;
            let overlay = rocksdb_writebatch_wi_t::of(batch)?;
            let family = rocksdb_column_family_handle_t::of(handle)?;
            find_over(overlay, family, options, key, keylen)
        });
        give(found.flatten().as_deref(), vallen)
    }
}

/// Returns the pinned value of a key in the batch, otherwise in the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db(
    batch: Wi<'_>,
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) -> *mut rocksdb_pinnableslice_t {
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found = kept(errptr, || {
            let overlay = rocksdb_writebatch_wi_t::of(batch)?;
            find_over(overlay, &rocksdb_t::open(db)?.default, options, key, keylen)
        });
        found.flatten().map_or(std::ptr::null_mut(), rocksdb_pinnableslice_t::give)
    }
}

/// Returns the pinned value of a key of a column family in the batch, otherwise in the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(
    batch: Wi<'_>,
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    handle: Handle<'_>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) -> *mut rocksdb_pinnableslice_t {
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found = kept(errptr, || {
            rocksdb_t::open(db)?;
            let overlay = rocksdb_writebatch_wi_t::of(batch)?;
            let family = rocksdb_column_family_handle_t::of(handle)?;
            find_over(overlay, family, options, key, keylen)
        });
        found.flatten().map_or(std::ptr::null_mut(), rocksdb_pinnableslice_t::give)
    }
}

/// Applies the batch to a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_writebatch_wi(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    batch: Wi<'_>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let overlay = lock(rocksdb_writebatch_wi_t::of(batch)?);
            let rep = overlay.rep()?;
            rocksdb_t::writable(db)?.write(rep, &rocksdb_writeoptions_t::of(options)?)
        });
    }
}

/// Puts the batch over an iterator of the store, which the new iterator owns.
fn over(
    batch: Wi<'_>,
    base: Option<Box<rocksdb_iterator_t>>,
    family: u32,
) -> *mut rocksdb_iterator_t {
    let made = unless_refused(|| {
        let overlay = rocksdb_writebatch_wi_t::share(batch)?;
        there(base, "base iterator")?.walk?.over(overlay, family)
    });
    rocksdb_iterator_t::give(made)
}

/// Puts the batch over an iterator of the default column family.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_wi_create_iterator_with_base(
    batch: Wi<'_>,
    base: Option<Box<rocksdb_iterator_t>>,
) -> *mut rocksdb_iterator_t {
    over(batch, base, 0)
}

/// Puts the batch over an iterator of the default column family. The bounds are those of the base.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_wi_create_iterator_with_base_readopts(
    batch: Wi<'_>,
    base: Option<Box<rocksdb_iterator_t>>,
    _options: Option<&rocksdb_readoptions_t>,
) -> *mut rocksdb_iterator_t {
    over(batch, base, 0)
}

/// Puts the batch over an iterator of a column family.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_wi_create_iterator_with_base_cf(
    batch: Wi<'_>,
    base: Option<Box<rocksdb_iterator_t>>,
    handle: Handle<'_>,
) -> *mut rocksdb_iterator_t {
    over(batch, base, handle.map_or(0, |handle| handle.family.id()))
}

/// Puts the batch over an iterator of a column family. The bounds are those of the base.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
    batch: Wi<'_>,
    base: Option<Box<rocksdb_iterator_t>>,
    handle: Handle<'_>,
    _options: Option<&rocksdb_readoptions_t>,
) -> *mut rocksdb_iterator_t {
    over(batch, base, handle.map_or(0, |handle| handle.family.id()))
}
