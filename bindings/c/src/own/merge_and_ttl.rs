//! `esker_merge`, `esker_put_with_ttl` and the other functions on merges and on pairs that expire.
//!
//! Invariants: a time to live of [`ESKER_NEVER_MS`] never ends; a refused operand is not written.

use std::ffi::c_char;
use std::ops::Bound;
use std::time::Duration;

use esker::{Batch, DbIterator, KeyBounds};

use super::batch::{add, esker_batch_t};
use super::common::write_options;
use super::keyspace::esker_keyspace_t;
use super::read::{ValuePlace, esker_snapshot_t, read_options};
use super::store::esker_db_t;
use crate::failure::{Outcome, attempt, there};
use crate::ffi;

/// A time to live that never ends, and the time at which a pair expires that does not expire.
pub const ESKER_NEVER_MS: u64 = u64::MAX;

/// A buffer of the caller.
type Buffer = (*const u8, usize);

/// Writes a batch of one operation to a store.
///
/// # Safety
/// As for [`ffi::code`].
unsafe fn write(
    db: Option<&esker_db_t>,
    durability: i32,
    message: Option<&mut *mut c_char>,
    fill: impl FnOnce(&mut Batch) -> Outcome<()>,
) -> i32 {
    let outcome = attempt(|| {
        let options = write_options(durability)?;
        let db = esker_db_t::open(db)?;
        let mut batch = Batch::new();
        fill(&mut batch)?;
        Ok(db.write_with(&batch, &options)?)
    });
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::code(outcome, message) }
}

/// Writes a batch of one operation to a keyspace.
///
/// # Safety
/// As for [`ffi::code`].
unsafe fn write_in(
    keyspace: Option<&esker_keyspace_t>,
    durability: i32,
    message: Option<&mut *mut c_char>,
    fill: impl FnOnce(&mut Batch, &esker::Keyspace) -> Outcome<()>,
) -> i32 {
    let outcome = attempt(|| {
        let options = write_options(durability)?;
        let keyspace = esker_keyspace_t::open(keyspace)?;
        let mut batch = Batch::new();
        fill(&mut batch, &keyspace)?;
        Ok(keyspace.db().write_with(&batch, &options)?)
    });
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::code(outcome, message) }
}

/// Merges an operand into the value of a key, by the merge operator of the store
/// (`esker_options_set_merge_operator`). The call writes only the operand; reads, flushes and
/// compactions make the value. An operand does not expire. Fails with `ESKER_INVALID_ARGUMENT` if
/// the store has no merge operator or the operator refuses the operand, and with
/// `ESKER_INCOMPATIBLE` if the operator of the store is not among the options of this opening.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_merge(
    db: Option<&esker_db_t>,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        write(db, durability, message, |batch| {
            let key = ffi::bytes(key, key_len, "key")?;
            batch.merge(key, ffi::bytes(operand, operand_len, "operand")?);
            Ok(())
        })
    }
}

/// Merges an operand into the value of a key of a keyspace, by the merge operator of the keyspace
/// (`esker_keyspace_options_set_merge_operator`). Otherwise as `esker_merge`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_merge(
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        write_in(keyspace, durability, message, |batch, keyspace| {
            let key = ffi::bytes(key, key_len, "key")?;
            batch.merge_in(keyspace, key, ffi::bytes(operand, operand_len, "operand")?);
            Ok(())
        })
    }
}

/// Adds a merge of an operand to a batch. The write of the batch fails as `esker_merge`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_merge(
    batch: Option<&mut esker_batch_t>,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            let key = ffi::bytes(key, key_len, "key")?;
            batch.merge(key, ffi::bytes(operand, operand_len, "operand")?);
            Ok(())
        })
    }
}

/// Adds a merge in a keyspace to a batch; see `esker_batch_put_in`. The write of the batch fails as
/// `esker_keyspace_merge`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_merge_in(
    batch: Option<&mut esker_batch_t>,
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            let keyspace = &there(keyspace, "keyspace's handle")?.keyspace;
            let key = ffi::bytes(key, key_len, "key")?;
            batch.merge_in(keyspace, key, ffi::bytes(operand, operand_len, "operand")?);
            Ok(())
        })
    }
}

/// Sets a key to a value for `ttl_ms` milliseconds. From then on the pair does not exist: no read
/// returns it, and compactions remove it. With 0 it never exists; with `ESKER_NEVER_MS` it does not
/// expire. A snapshot, an iterator and a transaction judge every pair at the time at which they
/// began. The time is that of the system's clock, but never goes back while the store is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_put_with_ttl(
    db: Option<&esker_db_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_ms: u64,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        write(db, durability, message, |batch| {
            let key = ffi::bytes(key, key_len, "key")?;
            let value = ffi::bytes(value, value_len, "value")?;
            batch.put_with_ttl(key, value, Duration::from_millis(ttl_ms));
            Ok(())
        })
    }
}

/// Sets a key of a keyspace to a value for `ttl_ms` milliseconds, whatever the time to live of the
/// keyspace is. Otherwise as `esker_put_with_ttl`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_put_with_ttl(
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_ms: u64,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        write_in(keyspace, durability, message, |batch, keyspace| {
            let key = ffi::bytes(key, key_len, "key")?;
            let value = ffi::bytes(value, value_len, "value")?;
            batch.put_with_ttl_in(keyspace, key, value, Duration::from_millis(ttl_ms));
            Ok(())
        })
    }
}

/// Adds a put of a pair to a batch that expires `ttl_ms` milliseconds after the write of the batch;
/// see `esker_put_with_ttl`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_put_with_ttl(
    batch: Option<&mut esker_batch_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_ms: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            let key = ffi::bytes(key, key_len, "key")?;
            let value = ffi::bytes(value, value_len, "value")?;
            batch.put_with_ttl(key, value, Duration::from_millis(ttl_ms));
            Ok(())
        })
    }
}

/// Adds a put of a pair that expires to a batch, in a keyspace; see `esker_batch_put_in` and
/// `esker_batch_put_with_ttl`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_put_with_ttl_in(
    batch: Option<&mut esker_batch_t>,
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_ms: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        add(batch, message, |batch| {
            let keyspace = &there(keyspace, "keyspace's handle")?.keyspace;
            let key = ffi::bytes(key, key_len, "key")?;
            let value = ffi::bytes(value, value_len, "value")?;
            batch.put_with_ttl_in(keyspace, key, value, Duration::from_millis(ttl_ms));
            Ok(())
        })
    }
}

/// Gives the pair of a key a new time to live.
///
/// # Safety
/// As for [`ffi::bytes`] and [`ffi::code`].
unsafe fn touch(
    key: Buffer,
    found: Option<&mut u8>,
    message: Option<&mut *mut c_char>,
    act: impl FnOnce(&[u8]) -> Outcome<bool>,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let outcome = attempt(|| {
            let touched = act(ffi::bytes(key.0, key.1, "key")?)?;
            if let Some(found) = found {
                *found = u8::from(touched);
            }
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Gives the pair of a key a new time to live of `ttl_ms` milliseconds from now on, as if its value
/// were put again with `esker_put_with_ttl`. Sets `*found` to 1, or to 0 if there is no such pair;
/// it may be NULL. Merge operands become part of the value. Other writers wait while the call reads
/// the value, which may read a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_touch(
    db: Option<&esker_db_t>,
    key: *const u8,
    key_len: usize,
    ttl_ms: u64,
    found: Option<&mut u8>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        touch((key, key_len), found, message, |key| {
            Ok(esker_db_t::open(db)?.touch(key, Duration::from_millis(ttl_ms))?)
        })
    }
}

/// Gives the pair of a key of a keyspace a new time to live; see `esker_touch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_touch(
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    ttl_ms: u64,
    found: Option<&mut u8>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        touch((key, key_len), found, message, |key| {
            Ok(esker_keyspace_t::open(keyspace)?.touch(key, Duration::from_millis(ttl_ms))?)
        })
    }
}

/// Reads a value and the time at which it expires into the places of the caller. The pair is the only
/// one of an iterator, because an iterator can be at a snapshot.
///
/// # Safety
/// As for [`ffi::bytes`] and [`ffi::code`].
unsafe fn get_with_expiry(
    key: Buffer,
    value: (Option<&mut *mut u8>, Option<&mut usize>),
    expires_ms: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
    iter: impl FnOnce(KeyBounds) -> Outcome<DbIterator>,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let outcome = attempt(|| {
            let place = ValuePlace::new(value.0, value.1)?;
            let expires_ms = there(expires_ms, "place for the time")?;
            *expires_ms = ESKER_NEVER_MS;
            let key = ffi::bytes(key.0, key.1, "key")?.to_vec();
            let mut iter = iter((Bound::Included(key.clone()), Bound::Included(key)))?;
            iter.seek_to_first()?;
            if iter.valid() {
                *expires_ms = iter.expires_ms().unwrap_or(ESKER_NEVER_MS);
                place.copy(iter.value());
            }
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Reads the value of a key and the time at which the pair expires: now, or in `snapshot` if that is
/// not NULL. Sets `*value` to a copy, which must be freed with `esker_free`, or to NULL if the key is
/// missing, and `*expires_ms` to the time in milliseconds since 1970, or to `ESKER_NEVER_MS` if the
/// pair does not expire or the key is missing. A pair that has expired since the snapshot was taken
/// is not missing in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get_with_expiry(
    db: Option<&esker_db_t>,
    snapshot: Option<&esker_snapshot_t>,
    key: *const u8,
    key_len: usize,
    value: Option<&mut *mut u8>,
    value_len: Option<&mut usize>,
    expires_ms: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let options = read_options(snapshot, true);
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        get_with_expiry((key, key_len), (value, value_len), expires_ms, message, |bounds| {
            Ok(esker_db_t::open(db)?.iter_with(&options, bounds)?)
        })
    }
}

/// Reads the value of a key of a keyspace and the time at which the pair expires; see
/// `esker_get_with_expiry`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_get_with_expiry(
    keyspace: Option<&esker_keyspace_t>,
    snapshot: Option<&esker_snapshot_t>,
    key: *const u8,
    key_len: usize,
    value: Option<&mut *mut u8>,
    value_len: Option<&mut usize>,
    expires_ms: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let options = read_options(snapshot, true);
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        get_with_expiry((key, key_len), (value, value_len), expires_ms, message, |bounds| {
            Ok(esker_keyspace_t::open(keyspace)?.iter_with(&options, bounds)?)
        })
    }
}
