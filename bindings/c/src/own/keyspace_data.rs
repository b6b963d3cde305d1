//! `esker_keyspace_put`, `esker_keyspace_get` and the other functions on the data of a keyspace.

use std::ffi::{c_char, c_void};

use esker::{Batch, internals};

use super::common::write_options;
use super::iter::{bounds, esker_iter_t};
use super::keyspace::{OpenKeyspace, esker_keyspace_t};
use super::read::{ValuePlace, esker_snapshot_t, esker_visit_value_t, multi_get, read_options};
use super::store::optional;
use crate::failure::{Outcome, attempt, there};
use crate::ffi;

/// Runs `act` on the keyspace of an open store.
///
/// # Safety
/// As for [`ffi::code`].
#[inline]
unsafe fn on(
    keyspace: Option<&esker_keyspace_t>,
    message: Option<&mut *mut c_char>,
    act: impl FnOnce(OpenKeyspace<'_>) -> Outcome<()>,
) -> i32 {
    let outcome = attempt(|| act(esker_keyspace_t::open(keyspace)?));
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::code(outcome, message) }
}

/// Sets a key of a keyspace to a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_put(
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(keyspace, message, |keyspace| {
            let options = write_options(durability)?;
            let key = ffi::bytes(key, key_len, "key")?;
            let value = ffi::bytes(value, value_len, "value")?;
            Ok(keyspace.put_with(key, value, &options)?)
        })
    }
}

/// Deletes a key of a keyspace. A missing key is not a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_delete(
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(keyspace, message, |keyspace| {
            let options = write_options(durability)?;
            Ok(keyspace.delete_with(ffi::bytes(key, key_len, "key")?, &options)?)
        })
    }
}

/// Deletes a key of a keyspace, and sets `*existed` to 1 if it existed, else to 0. No write of
/// another thread comes between the check and the delete. The check may read a file, so
/// `esker_keyspace_delete` is cheaper. `existed` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_remove(
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    existed: Option<&mut u8>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(keyspace, message, |keyspace| {
            let removed = keyspace.remove(ffi::bytes(key, key_len, "key")?)?;
            if let Some(existed) = existed {
                *existed = u8::from(removed);
            }
            Ok(())
        })
    }
}

/// Deletes the keys of a keyspace from `start` (inclusive) to `end` (exclusive) with one range
/// deletion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_delete_range(
    keyspace: Option<&esker_keyspace_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(keyspace, message, |keyspace| {
            let options = write_options(durability)?;
            let start = ffi::bytes(start, start_len, "start")?;
            let end = ffi::bytes(end, end_len, "end")?;
            let mut batch = Batch::new();
            batch.delete_range_in(&keyspace, start, end);
            Ok(keyspace.db().write_with(&batch, &options)?)
        })
    }
}

/// Deletes all keys of a keyspace with one range deletion. Fails with `ESKER_INVALID_ARGUMENT` for
/// the keyspace `default`, which has no greatest key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_clear(
    keyspace: Option<&esker_keyspace_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { on(keyspace, message, |keyspace| Ok(keyspace.clear()?)) }
}

/// Reads the value of a key of a keyspace. The arguments after `keyspace` are those of `esker_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_get(
    keyspace: Option<&esker_keyspace_t>,
    snapshot: Option<&esker_snapshot_t>,
    key: *const u8,
    key_len: usize,
    value: Option<&mut *mut u8>,
    value_len: Option<&mut usize>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = ValuePlace::new(value, value_len)?;
            let key = ffi::bytes(key, key_len, "key")?;
            let options = read_options(snapshot, true);
            place.give(esker_keyspace_t::open(keyspace)?.get_with(key, &options)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Does the same as `esker_keyspace_get`. With `fill_cache` 0, the read inserts no blocks into the
/// cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_get_with(
    keyspace: Option<&esker_keyspace_t>,
    snapshot: Option<&esker_snapshot_t>,
    fill_cache: u8,
    key: *const u8,
    key_len: usize,
    value: Option<&mut *mut u8>,
    value_len: Option<&mut usize>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = ValuePlace::new(value, value_len)?;
            let key = ffi::bytes(key, key_len, "key")?;
            let options = read_options(snapshot, fill_cache != 0);
            place.give(esker_keyspace_t::open(keyspace)?.get_with(key, &options)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Reads the value of a key of a keyspace and passes it to `visit` without a copy. The arguments
/// after `keyspace` are those of `esker_get_visit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_get_visit(
    keyspace: Option<&esker_keyspace_t>,
    snapshot: Option<&esker_snapshot_t>,
    fill_cache: u8,
    key: *const u8,
    key_len: usize,
    state: *mut c_void,
    visit: esker_visit_value_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages; the value outlives
    // the call of `visit`.
    unsafe {
        on(keyspace, message, |keyspace| {
            let visit = there(visit, "function that receives the value")?;
            let key = ffi::bytes(key, key_len, "key")?;
            let options = read_options(snapshot, fill_cache != 0);
            if let Some(found) = keyspace.get_with(key, &options)? {
                visit(state, found.as_ptr(), found.len());
            }
            Ok(())
        })
    }
}

/// Reads the values of `count` keys of a keyspace as of one moment. The arguments after `keyspace` are
/// those of `esker_multi_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_multi_get(
    keyspace: Option<&esker_keyspace_t>,
    snapshot: Option<&esker_snapshot_t>,
    fill_cache: u8,
    count: usize,
    keys: *const *const u8,
    key_lens: *const usize,
    values: *mut *mut u8,
    value_lens: *mut usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages; the arrays have
    // `count` items.
    unsafe {
        let outcome = attempt(|| {
            multi_get(count, (keys, key_lens), (values, value_lens), |keys| {
                let options = read_options(snapshot, fill_cache != 0);
                Ok(esker_keyspace_t::open(keyspace)?.multi_get_with(keys, &options)?)
            })
        });
        ffi::code(outcome, message)
    }
}

/// Sets `*found` to 1 if a keyspace has the key now, or has it in `snapshot` if that is not NULL,
/// else to 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_contains(
    keyspace: Option<&esker_keyspace_t>,
    snapshot: Option<&esker_snapshot_t>,
    key: *const u8,
    key_len: usize,
    found: Option<&mut u8>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(keyspace, message, |keyspace| {
            let place = there(found, "place for the result")?;
            let key = ffi::bytes(key, key_len, "key")?;
            *place = u8::from(match snapshot {
                None => keyspace.contains_key(key)?,
                Some(_) => keyspace.get_with(key, &read_options(snapshot, true))?.is_some(),
            });
            Ok(())
        })
    }
}

/// Creates an iterator over the keys of a keyspace, in its key order. The arguments after
/// `keyspace` are those of `esker_iter_create`. The iterator continues over the old keys if the
/// keyspace is dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_iter_create(
    keyspace: Option<&esker_keyspace_t>,
    snapshot: Option<&esker_snapshot_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    fill_cache: u8,
    iter: Option<&mut *mut esker_iter_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(iter, "place for the iterator")?;
            *place = std::ptr::null_mut();
            let bounds = bounds(start, start_len, end, end_len)?;
            let options = read_options(snapshot, fill_cache != 0);
            let keyspace = esker_keyspace_t::open(keyspace)?;
            *place = esker_iter_t::give(keyspace.iter_with(&options, bounds)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Does the same as `esker_iter_create_prefix`, in a keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_iter_create_prefix(
    keyspace: Option<&esker_keyspace_t>,
    snapshot: Option<&esker_snapshot_t>,
    prefix: *const u8,
    prefix_len: usize,
    fill_cache: u8,
    iter: Option<&mut *mut esker_iter_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(iter, "place for the iterator")?;
            *place = std::ptr::null_mut();
            let prefix = ffi::bytes(prefix, prefix_len, "prefix")?;
            let keyspace = esker_keyspace_t::open(keyspace)?;
            let bounds = internals::bounds_of_prefix(keyspace.key_order(), prefix)?;
            let options = read_options(snapshot, fill_cache != 0);
            *place = esker_iter_t::give(keyspace.iter_with(&options, bounds)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Compacts the keys of a keyspace between `start` and `end` into the deepest level and waits until
/// that is done. A NULL `start` or `end` means no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_compact_range(
    keyspace: Option<&esker_keyspace_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(keyspace, message, |keyspace| {
            let (from, to) = (optional(start, start_len)?, optional(end, end_len)?);
            Ok(keyspace.compact_range(from, to)?)
        })
    }
}

/// Sets `*size_bytes` to the approximate size of a keyspace in the tables, in bytes. Data that is
/// only in memory is not counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_size_bytes(
    keyspace: Option<&esker_keyspace_t>,
    size_bytes: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe {
        on(keyspace, message, |keyspace| {
            *there(size_bytes, "place for the size")? = keyspace.size_bytes()?;
            Ok(())
        })
    }
}

/// Sets `*size_bytes` to the approximate size of the keys of a keyspace from `start` (inclusive) to
/// `end` (exclusive), in its key order, in the tables, in bytes. Data that is only in memory is not
/// counted. It is 0 if `end` is not after `start`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_approximate_size(
    keyspace: Option<&esker_keyspace_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    size_bytes: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(keyspace, message, |keyspace| {
            let place = there(size_bytes, "place for the size")?;
            let from = ffi::bytes(start, start_len, "start")?;
            *place = keyspace.approximate_size(from, ffi::bytes(end, end_len, "end")?)?;
            Ok(())
        })
    }
}
