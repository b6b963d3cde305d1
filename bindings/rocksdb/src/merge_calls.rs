//! Merges: in a store, in batches and in transactions.
//!
//! Invariant: a merge in a column family without a merge operator fails, or makes the write of its
//! batch fail.

use std::ffi::{c_char, c_int};

use esker::Batch;
use esker_c::failure::{Failure, Outcome, there};
use esker_c::ffi;

use crate::access::rocksdb_writeoptions_t;
use crate::batch::{self, joined, rocksdb_writebatch_t};
use crate::batch_wi::{self, rocksdb_writebatch_wi_t};
use crate::db::rocksdb_column_family_handle_t;
use crate::failure::kept;
use crate::operators::no_operator;
use crate::rep::Record;
use crate::store::{Family, rocksdb_t};
use crate::transaction::rocksdb_transaction_t;
use crate::transaction_db::{rocksdb_transactiondb_t, write_one};

type Handle<'a> = Option<&'a rocksdb_column_family_handle_t>;
type Error<'a> = Option<&'a mut *mut c_char>;
type Keys = *const *const c_char;
type Lengths = *const usize;

/// Returns a merge record of a key and an operand.
///
/// # Safety
/// The buffers meet RocksDB's contract.
unsafe fn record<'a>(
    family: u32,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) -> Outcome<Record<'a>> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (key, operand) = (ffi::bytes(key, klen, "key")?, ffi::bytes(val, vlen, "value")?);
        Ok(Record::Merge { family, key, operand })
    }
}

fn merge(
    family: &Family,
    options: Option<&rocksdb_writeoptions_t>,
    record: Record<'_>,
) -> Outcome<()> {
    let Record::Merge { key, operand, .. } = record else { return Ok(()) };
    if family.operator().is_none() {
        return Err(no_operator());
    }
    let keyspace = &family.keyspace();
    let mut batch = Batch::new();
    batch.merge_in(keyspace, key, operand);
    Ok(keyspace.db().write_with(&batch, &rocksdb_writeoptions_t::of(options)?)?)
}

/// Merges an operand into the value of a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_merge(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let record = record(0, key, keylen, val, vallen)?;
            merge(&rocksdb_t::writable(db)?.default, options, record)
        });
    }
}

/// Merges an operand into the value of a key of a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_merge_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    family: Handle<'_>,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            rocksdb_t::writable(db)?;
            let family = rocksdb_column_family_handle_t::of(family)?;
            merge(family, options, record(family.id(), key, keylen, val, vallen)?)
        });
    }
}

/// Adds a merge.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_merge(
    batch: Option<&mut rocksdb_writebatch_t>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    batch::add(batch, || unsafe { record(0, key, klen, val, vlen) });
}

/// Adds a merge in a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_merge_cf(
    batch: Option<&mut rocksdb_writebatch_t>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    batch::add(batch, || unsafe { record(batch::family(handle)?, key, klen, val, vlen) });
}

/// Key and operand that were passed in pieces.
type Joined = (Outcome<Vec<u8>>, Outcome<Vec<u8>>);

fn record_of(family: u32, parts: &Joined) -> Outcome<Record<'_>> {
    let key = parts.0.as_ref().map_err(Failure::clone)?;
    Ok(Record::Merge { family, key, operand: parts.1.as_ref().map_err(Failure::clone)? })
}

/// Adds a merge of a key and an operand that are in pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_mergev(
    batch: Option<&mut rocksdb_writebatch_t>,
    num_keys: c_int,
    keys: Keys,
    key_sizes: Lengths,
    num_values: c_int,
    values: Keys,
    value_sizes: Lengths,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays.
    let parts =
        &unsafe { (joined(keys, key_sizes, num_keys), joined(values, value_sizes, num_values)) };
    batch::add(batch, || record_of(0, parts));
}

/// Adds a merge in a column family of a key and an operand that are in pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_mergev_cf(
    batch: Option<&mut rocksdb_writebatch_t>,
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
        &unsafe { (joined(keys, key_sizes, num_keys), joined(values, value_sizes, num_values)) };
    batch::add(batch, || record_of(batch::family(handle)?, parts));
}

/// Adds a merge to a batch with an index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_merge(
    batch: Option<&rocksdb_writebatch_wi_t>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    batch_wi::add(batch, None, |family| unsafe { record(family, key, klen, val, vlen) });
}

/// Adds a merge in a column family to a batch with an index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_merge_cf(
    batch: Option<&rocksdb_writebatch_wi_t>,
    handle: Handle<'_>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers.
    batch_wi::add(batch, Some(handle), |family| unsafe { record(family, key, klen, val, vlen) });
}

/// Adds a merge of a key and an operand that are in pieces to a batch with an index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_mergev(
    batch: Option<&rocksdb_writebatch_wi_t>,
    num_keys: c_int,
    keys: Keys,
    key_sizes: Lengths,
    num_values: c_int,
    values: Keys,
    value_sizes: Lengths,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays.
    let parts =
        &unsafe { (joined(keys, key_sizes, num_keys), joined(values, value_sizes, num_values)) };
    batch_wi::add(batch, None, |family| record_of(family, parts));
}

/// Adds a merge in a column family of a key and an operand that are in pieces to a batch with an
/// index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_mergev_cf(
    batch: Option<&rocksdb_writebatch_wi_t>,
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
        &unsafe { (joined(keys, key_sizes, num_keys), joined(values, value_sizes, num_values)) };
    batch_wi::add(batch, Some(handle), |family| record_of(family, parts));
}

/// Merges an operand into the value of a key, in a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_merge(
    txn: Option<&mut rocksdb_transaction_t>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let txn = there(txn, "transaction")?;
            let family = txn.store().default.clone();
            txn.write(&family, record(0, key, klen, val, vlen)?)
        });
    }
}

/// Merges an operand into the value of a key of a column family, in a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_merge_cf(
    txn: Option<&mut rocksdb_transaction_t>,
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
            let family = rocksdb_column_family_handle_t::of(handle)?;
            let record = record(family.id(), key, klen, val, vlen)?;
            there(txn, "transaction")?.write(family, record)
        });
    }
}

/// Merges an operand into the value of a key, and waits for the locks of transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_merge(
    db: Option<&rocksdb_transactiondb_t>,
    options: Option<&rocksdb_writeoptions_t>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
    errptr: Error<'_>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || write_one(db, options, None, record(0, key, klen, val, vlen)?));
    }
}

/// Merges an operand into the value of a key of a column family, and waits for the locks of
/// transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_merge_cf(
    db: Option<&rocksdb_transactiondb_t>,
    options: Option<&rocksdb_writeoptions_t>,
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
            let family = rocksdb_column_family_handle_t::of(handle)?.id();
            write_one(db, options, Some(handle), record(family, key, klen, val, vlen)?)
        });
    }
}
