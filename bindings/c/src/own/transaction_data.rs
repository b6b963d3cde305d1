//! `esker_transaction_get`, `esker_transaction_put` and the other reads and writes of a
//! transaction.
//!
//! Invariants: those of `transaction.rs`; a keyspace of another store or opening is refused before
//! anything is read or written.

use std::ffi::c_char;
use std::time::Duration;

use esker::{Keyspace, Transaction};

use super::iter::{bounds, esker_iter_t};
use super::keyspace::esker_keyspace_t;
use super::read::ValuePlace;
use super::transaction::esker_transaction_t;
use crate::failure::{Outcome, attempt, there};
use crate::ffi;

/// The keyspace of a call; `None` is the keyspace `default`.
type Target<'a> = Outcome<Option<&'a Keyspace>>;

/// Returns the keyspace of a call that names one.
fn named(keyspace: Option<&esker_keyspace_t>) -> Target<'_> {
    Ok(Some(&there(keyspace, "keyspace's handle")?.keyspace))
}

/// A buffer of the caller.
type Buffer = (*const u8, usize);

/// Runs `act` on the transaction and the keyspace.
///
/// # Safety
/// As for [`ffi::code`].
unsafe fn on(
    transaction: Option<&esker_transaction_t>,
    target: Target<'_>,
    message: Option<&mut *mut c_char>,
    act: impl FnOnce(&Transaction, Option<&Keyspace>) -> Outcome<()>,
) -> i32 {
    let outcome =
        attempt(|| esker_transaction_t::on(transaction, |transaction| act(transaction, target?)));
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::code(outcome, message) }
}

/// Reads a key into the place of the caller.
///
/// # Safety
/// As for [`ffi::bytes`] and [`ffi::code`].
unsafe fn get(
    transaction: Option<&esker_transaction_t>,
    target: Target<'_>,
    for_update: bool,
    key: Buffer,
    place: (Option<&mut *mut u8>, Option<&mut usize>),
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = ValuePlace::new(place.0, place.1)?;
        // SAFETY: guaranteed by the caller.
        let key = unsafe { ffi::bytes(key.0, key.1, "key") }?;
        let found = esker_transaction_t::on(transaction, |transaction| {
            Ok(match (target?, for_update) {
                (None, false) => transaction.get(key)?,
                (None, true) => transaction.get_for_update(key)?,
                (Some(keyspace), false) => transaction.get_in(keyspace, key)?,
                (Some(keyspace), true) => transaction.get_for_update_in(keyspace, key)?,
            })
        })?;
        place.give(found);
        Ok(())
    });
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::code(outcome, message) }
}

/// Reads the value of a key: that of the transaction's own last write of the key, otherwise that of
/// its snapshot. Sets `*value` to a copy, which must be freed with `esker_free`, or to NULL if the
/// key is missing. In a serializable pessimistic transaction, also fails as
/// `esker_transaction_get_for_update`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_get(
    transaction: Option<&esker_transaction_t>,
    key: *const u8,
    key_len: usize,
    value: Option<&mut *mut u8>,
    value_len: Option<&mut usize>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { get(transaction, Ok(None), false, (key, key_len), (value, value_len), message) }
}

/// Does the same as `esker_transaction_get`, in a keyspace. A keyspace of another store or of
/// another opening is a failure (`ESKER_INVALID_ARGUMENT`), as is a dropped one
/// (`ESKER_NOT_FOUND`). The same for every other function whose name ends in `_in`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_get_in(
    transaction: Option<&esker_transaction_t>,
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    value: Option<&mut *mut u8>,
    value_len: Option<&mut usize>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let target = named(keyspace);
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { get(transaction, target, false, (key, key_len), (value, value_len), message) }
}

/// Reads the value of a key as `esker_transaction_get` does, and protects the key as a write of it
/// would: the commit fails if another commit has written the key. A pessimistic transaction locks
/// the key, and fails with `ESKER_BUSY` when the lock is not free in time, with `ESKER_DEADLOCK`
/// when transactions wait for each other, and with `ESKER_CONFLICT` when the key was written after
/// the snapshot and the transaction has read other keys without a lock. The transaction stays
/// usable and keeps its locks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_get_for_update(
    transaction: Option<&esker_transaction_t>,
    key: *const u8,
    key_len: usize,
    value: Option<&mut *mut u8>,
    value_len: Option<&mut usize>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { get(transaction, Ok(None), true, (key, key_len), (value, value_len), message) }
}

/// Does the same as `esker_transaction_get_for_update`, in a keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_get_for_update_in(
    transaction: Option<&esker_transaction_t>,
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    value: Option<&mut *mut u8>,
    value_len: Option<&mut usize>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let target = named(keyspace);
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { get(transaction, target, true, (key, key_len), (value, value_len), message) }
}

/// Sets a key to a value.
///
/// # Safety
/// As for [`ffi::bytes`] and [`ffi::code`].
unsafe fn put(
    transaction: Option<&esker_transaction_t>,
    target: Target<'_>,
    key: Buffer,
    value: Buffer,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        on(transaction, target, message, |transaction, keyspace| {
            let key = ffi::bytes(key.0, key.1, "key")?;
            let value = ffi::bytes(value.0, value.1, "value")?;
            let done = match keyspace {
                None => transaction.put(key, value),
                Some(keyspace) => transaction.put_in(keyspace, key, value),
            };
            Ok(done?)
        })
    }
}

/// Sets a key to a value at the commit. Later reads of the transaction see it at once. In a
/// pessimistic transaction, locks the key and fails as `esker_transaction_get_for_update`. A failed
/// call changes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_put(
    transaction: Option<&esker_transaction_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { put(transaction, Ok(None), (key, key_len), (value, value_len), message) }
}

/// Does the same as `esker_transaction_put`, in a keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_put_in(
    transaction: Option<&esker_transaction_t>,
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { put(transaction, named(keyspace), (key, key_len), (value, value_len), message) }
}

/// Sets a key to a value that expires `ttl_ms` milliseconds after the commit, or after the
/// preparation of a transaction that is prepared; `ESKER_NEVER_MS` never ends. The transaction itself sees the value whatever the time. Otherwise as
/// `esker_transaction_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_put_with_ttl(
    transaction: Option<&esker_transaction_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_ms: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(transaction, Ok(None), message, |transaction, _| {
            let key = ffi::bytes(key, key_len, "key")?;
            Ok(transaction.put_with_ttl(
                key,
                ffi::bytes(value, value_len, "value")?,
                Duration::from_millis(ttl_ms),
            )?)
        })
    }
}

/// Does the same as `esker_transaction_put_with_ttl`, in a keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_put_with_ttl_in(
    transaction: Option<&esker_transaction_t>,
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
        on(transaction, Ok(None), message, |transaction, _| {
            let keyspace = &there(keyspace, "keyspace's handle")?.keyspace;
            let key = ffi::bytes(key, key_len, "key")?;
            let value = ffi::bytes(value, value_len, "value")?;
            Ok(transaction.put_with_ttl_in(keyspace, key, value, Duration::from_millis(ttl_ms))?)
        })
    }
}

/// Merges an operand into the value of a key at the commit, by the merge operator of the store.
/// Later reads of the transaction see the merged value. Protects the key as a put does: of two
/// transactions that merge into one key at the same time, one fails. Otherwise as
/// `esker_transaction_put` and `esker_merge`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_merge(
    transaction: Option<&esker_transaction_t>,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(transaction, Ok(None), message, |transaction, _| {
            let key = ffi::bytes(key, key_len, "key")?;
            Ok(transaction.merge(key, ffi::bytes(operand, operand_len, "operand")?)?)
        })
    }
}

/// Does the same as `esker_transaction_merge`, in a keyspace, by its merge operator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_merge_in(
    transaction: Option<&esker_transaction_t>,
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(transaction, Ok(None), message, |transaction, _| {
            let keyspace = &there(keyspace, "keyspace's handle")?.keyspace;
            let key = ffi::bytes(key, key_len, "key")?;
            Ok(transaction.merge_in(keyspace, key, ffi::bytes(operand, operand_len, "operand")?)?)
        })
    }
}

/// Deletes a key.
///
/// # Safety
/// As for [`ffi::bytes`] and [`ffi::code`].
unsafe fn delete(
    transaction: Option<&esker_transaction_t>,
    target: Target<'_>,
    key: Buffer,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        on(transaction, target, message, |transaction, keyspace| {
            let key = ffi::bytes(key.0, key.1, "key")?;
            let done = match keyspace {
                None => transaction.delete(key),
                Some(keyspace) => transaction.delete_in(keyspace, key),
            };
            Ok(done?)
        })
    }
}

/// Deletes a key at the commit. A missing key is not a failure. Otherwise as
/// `esker_transaction_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_delete(
    transaction: Option<&esker_transaction_t>,
    key: *const u8,
    key_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { delete(transaction, Ok(None), (key, key_len), message) }
}

/// Does the same as `esker_transaction_delete`, in a keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_delete_in(
    transaction: Option<&esker_transaction_t>,
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { delete(transaction, named(keyspace), (key, key_len), message) }
}

/// Deletes a range of keys.
///
/// # Safety
/// As for [`ffi::bytes`] and [`ffi::code`].
unsafe fn delete_range(
    transaction: Option<&esker_transaction_t>,
    target: Target<'_>,
    start: Buffer,
    end: Buffer,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        on(transaction, target, message, |transaction, keyspace| {
            let start = ffi::bytes(start.0, start.1, "start")?;
            let end = ffi::bytes(end.0, end.1, "end")?;
            let done = match keyspace {
                None => transaction.delete_range(start, end),
                Some(keyspace) => transaction.delete_range_in(keyspace, start, end),
            };
            Ok(done?)
        })
    }
}

/// Deletes the keys from `start` (inclusive) to `end` (exclusive) at the commit. The whole range is
/// protected: the commit fails if another commit has written a key in it, and a pessimistic
/// transaction locks it. Otherwise as `esker_transaction_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_delete_range(
    transaction: Option<&esker_transaction_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { delete_range(transaction, Ok(None), (start, start_len), (end, end_len), message) }
}

/// Does the same as `esker_transaction_delete_range`, in a keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_delete_range_in(
    transaction: Option<&esker_transaction_t>,
    keyspace: Option<&esker_keyspace_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let target = named(keyspace);
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { delete_range(transaction, target, (start, start_len), (end, end_len), message) }
}

/// Creates an iterator.
///
/// # Safety
/// As for [`ffi::bytes`] and [`ffi::code`].
unsafe fn iter_create(
    transaction: Option<&esker_transaction_t>,
    target: Target<'_>,
    start: Buffer,
    end: Buffer,
    iter: Option<&mut *mut esker_iter_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(iter, "place for the iterator")?;
        *place = std::ptr::null_mut();
        // SAFETY: guaranteed by the caller.
        let bounds = unsafe { bounds(start.0, start.1, end.0, end.1) }?;
        let handle = there(transaction, "transaction's handle")?;
        let iter = esker_transaction_t::on(transaction, |transaction| {
            Ok(match target? {
                None => transaction.range(bounds)?,
                Some(keyspace) => transaction.range_in(keyspace, bounds)?,
            })
        })?;
        *place = esker_iter_t::give_of_transaction(iter, handle.store.clone());
        Ok(())
    });
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::code(outcome, message) }
}

/// Creates an iterator over the keys from `start` (inclusive) to `end` (exclusive); NULL means no
/// bound. It returns the pairs of the transaction's snapshot with the transaction's own writes over
/// them, also those that are made ahead of its position later. It has no position until the first
/// seek. After the end of the transaction its moves fail with `ESKER_INVALID_ARGUMENT`. In a
/// serializable pessimistic transaction, locks the range and fails as
/// `esker_transaction_get_for_update`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_iter_create(
    transaction: Option<&esker_transaction_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    iter: Option<&mut *mut esker_iter_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let (start, end) = ((start, start_len), (end, end_len));
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { iter_create(transaction, Ok(None), start, end, iter, message) }
}

/// Does the same as `esker_transaction_iter_create`, in a keyspace, in its key order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_iter_create_in(
    transaction: Option<&esker_transaction_t>,
    keyspace: Option<&esker_keyspace_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    iter: Option<&mut *mut esker_iter_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let (start, end) = ((start, start_len), (end, end_len));
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { iter_create(transaction, named(keyspace), start, end, iter, message) }
}
