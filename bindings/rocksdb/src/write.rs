//! Writes of single keys and of batches.

use std::ffi::c_char;

use esker::{Batch, WriteOptions};
use esker_c::failure::{Outcome, there};
use esker_c::ffi;

use crate::access::rocksdb_writeoptions_t;
use crate::batch::rocksdb_writebatch_t;
use crate::db::rocksdb_column_family_handle_t;
use crate::failure::kept;
use crate::store::{Family, check_range, rocksdb_t};

/// Sets a key of a column family to a value.
#[inline]
fn put(
    family: &Family,
    options: Option<&rocksdb_writeoptions_t>,
    key: &[u8],
    value: &[u8],
) -> Outcome<()> {
    let options = rocksdb_writeoptions_t::of(options)?;
    if family.ttl.is_some() {
        let mut batch = Batch::new();
        family.add_put(&mut batch, key, value);
        return Ok(family.keyspace().db().write_with(&batch, &options)?);
    }
    Ok(family.keyspace().put_with(key, value, &options)?)
}

/// Deletes a key of a column family.
#[inline]
fn delete(family: &Family, options: Option<&rocksdb_writeoptions_t>, key: &[u8]) -> Outcome<()> {
    Ok(family.keyspace().delete_with(key, &rocksdb_writeoptions_t::of(options)?)?)
}

/// Sets a key to a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_put(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let (key, value) = (ffi::bytes(key, keylen, "key")?, ffi::bytes(val, vallen, "value")?);
            put(&rocksdb_t::writable(db)?.default, options, key, value)
        });
    }
}

/// Sets a key of a column family to a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_put_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let (key, value) = (ffi::bytes(key, keylen, "key")?, ffi::bytes(val, vallen, "value")?);
            rocksdb_t::writable(db)?;
            put(rocksdb_column_family_handle_t::of(family)?, options, key, value)
        });
    }
}

/// Deletes a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_delete(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let key = ffi::bytes(key, keylen, "key")?;
            delete(&rocksdb_t::writable(db)?.default, options, key)
        });
    }
}

/// Deletes a key of a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_delete_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let key = ffi::bytes(key, keylen, "key")?;
            rocksdb_t::writable(db)?;
            delete(rocksdb_column_family_handle_t::of(family)?, options, key)
        });
    }
}

/// Deletes a key, as `rocksdb_delete` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_singledelete(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_delete(db, options, key, keylen, errptr) }
}

/// Deletes a key of a column family, as `rocksdb_delete_cf` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_singledelete_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_delete_cf(db, options, family, key, keylen, errptr) }
}

/// Deletes the keys of a column family from `start_key` (inclusive) to `end_key` (exclusive).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_delete_range_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    start_key: *const c_char,
    start_key_len: usize,
    end_key: *const c_char,
    end_key_len: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let start = ffi::bytes(start_key, start_key_len, "start key")?;
            let end = ffi::bytes(end_key, end_key_len, "end key")?;
            rocksdb_t::writable(db)?;
            let options = rocksdb_writeoptions_t::of(options)?;
            delete_range(rocksdb_column_family_handle_t::of(family)?, start, end, &options)
        });
    }
}

/// Deletes the keys of `family` in `[start, end)`.
pub(crate) fn delete_range(
    family: &Family,
    start: &[u8],
    end: &[u8],
    options: &WriteOptions,
) -> Outcome<()> {
    let keyspace = &family.keyspace();
    check_range(keyspace, start, end)?;
    let mut batch = Batch::new();
    batch.delete_range_in(keyspace, start, end);
    Ok(keyspace.db().write_with(&batch, options)?)
}

/// Applies a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    batch: Option<&rocksdb_writebatch_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let rep = there(batch, "batch")?.rep()?;
            rocksdb_t::writable(db)?.write(rep, &rocksdb_writeoptions_t::of(options)?)
        });
    }
}
