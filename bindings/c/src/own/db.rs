//! `esker_put` and the other writes.

use std::ffi::c_char;

use esker::Batch;

use super::batch::esker_batch_t;
use super::common::{write_options, write_options_within};
use super::store::{esker_db_t, on};
use crate::failure::{attempt, there};
use crate::ffi;

/// Sets a key to a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_put(
    db: Option<&esker_db_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let options = write_options(durability)?;
            let key = ffi::bytes(key, key_len, "key")?;
            let value = ffi::bytes(value, value_len, "value")?;
            Ok(esker_db_t::open(db)?.put_with(key, value, &options)?)
        });
        ffi::code(outcome, message)
    }
}

/// Deletes a key. A missing key is not a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_delete(
    db: Option<&esker_db_t>,
    key: *const u8,
    key_len: usize,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let options = write_options(durability)?;
            let key = ffi::bytes(key, key_len, "key")?;
            Ok(esker_db_t::open(db)?.delete_with(key, &options)?)
        });
        ffi::code(outcome, message)
    }
}

/// Deletes a key, and sets `*existed` to 1 if it existed, else to 0. No write of another thread
/// comes between the check and the delete. The check may read a file, so `esker_delete` is cheaper.
/// `existed` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_remove(
    db: Option<&esker_db_t>,
    key: *const u8,
    key_len: usize,
    existed: Option<&mut u8>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(db, message, |db| {
            let removed = db.remove(ffi::bytes(key, key_len, "key")?)?;
            if let Some(existed) = existed {
                *existed = u8::from(removed);
            }
            Ok(())
        })
    }
}

/// Deletes the keys from `start` (inclusive) to `end` (exclusive) with one range deletion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_delete_range(
    db: Option<&esker_db_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(db, message, |db| {
            let options = write_options(durability)?;
            let start = ffi::bytes(start, start_len, "start")?;
            let end = ffi::bytes(end, end_len, "end")?;
            let mut batch = Batch::new();
            batch.delete_range(start, end);
            Ok(db.write_with(&batch, &options)?)
        })
    }
}

/// Applies a batch atomically: its operations become visible together, and a crash keeps all or
/// none of them. The batch is not changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_write(
    db: Option<&esker_db_t>,
    batch: Option<&esker_batch_t>,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let options = write_options(durability)?;
        let batch = there(batch, "batch")?;
        Ok(esker_db_t::open(db)?.write_with(&batch.batch, &options)?)
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Does the same as `esker_write`, but waits at most `wait_ms_max` milliseconds for memory while
/// writes are stalled (`esker_stall`). After that it fails with `ESKER_BUSY`, whose message has the
/// cause, and nothing was written. It may take longer than that: a write that waits for nothing,
/// and the sync of the log, are not interrupted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_write_within(
    db: Option<&esker_db_t>,
    batch: Option<&esker_batch_t>,
    durability: i32,
    wait_ms_max: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let options = write_options_within(durability, wait_ms_max)?;
        let batch = there(batch, "batch")?;
        Ok(esker_db_t::open(db)?.write_with(&batch.batch, &options)?)
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}
