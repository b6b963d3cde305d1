//! `esker_options_set_key` and the other sources of keys, and `esker_rekey`.
//!
//! Invariant: options with a key make and open encrypted stores only, and options without one only
//! others.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use esker::encryption::MASTER_KEY_BYTES;
use esker_bindings::encryption::{self, Key};

use super::options::esker_options_t;
use super::store::fs_below;
use crate::callbacks::{CKeySource, esker_destructor_t, esker_key_source_t};
use crate::failure::{Outcome, attempt, there};
use crate::ffi;

/// Length of a master key, in bytes.
pub const ESKER_KEY_BYTES: usize = 32;
const _: () = assert!(ESKER_KEY_BYTES == MASTER_KEY_BYTES);

/// Result of `esker_rekey`. Later versions may add fields at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct esker_rekey_report_t {
    /// Number of data keys that files of the store still need, without the new one.
    pub data_keys: u64,
    /// Number of data keys that no file needed, and that were removed.
    pub removed_data_keys: u64,
    /// Name of the master key before.
    pub from: [c_char; 65],
    /// Name of the master key now.
    pub to: [c_char; 65],
}

/// Returns a name of at most 64 bytes, with a zero byte at the end.
fn fixed(name: &str) -> [c_char; 65] {
    let mut text = [0; 65];
    for (place, byte) in text[..64].iter_mut().zip(name.bytes()) {
        *place = byte as c_char;
    }
    text
}

/// Sets the key of the options.
///
/// # Safety
/// As for [`ffi::code`].
unsafe fn set(
    options: Option<&mut esker_options_t>,
    message: Option<&mut *mut c_char>,
    key: impl FnOnce() -> Outcome<Key>,
) -> i32 {
    let outcome = attempt(|| {
        let options = there(options, "options handle")?;
        options.key = Some(key()?);
        Ok(())
    });
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::code(outcome, message) }
}

/// Sets the key of the stores that are opened, created, copied or followed with the options: a master
/// key of `ESKER_KEY_BYTES` bytes, or of twice as many hexadecimal digits with blanks or newlines
/// around them. It replaces an earlier key or source of keys. The bytes are copied.
///
/// A store with a key is encrypted: all its files except `LOCK` and `KEYS`, which has the data keys,
/// wrapped by the master key. The names, sizes and times of files stay visible. The log is written by
/// system calls, also with `wal_io=mmap`. Copies (`esker_checkpoint`, `esker_fork`, `esker_backup`,
/// `esker_restore`) are encrypted under the same master key. Without the master key nothing can be
/// read any more.
///
/// An opening fails with `ESKER_INVALID_ARGUMENT` if the key does not open the store; the message has
/// the names of both keys. It fails so too if the store is encrypted and the options have no key, or
/// the options have a key and the store is not encrypted. This function fails with
/// `ESKER_INVALID_ARGUMENT` if `key` is no key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_key(
    options: Option<&mut esker_options_t>,
    key: *const u8,
    key_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe { set(options, message, || Ok(encryption::of_bytes(ffi::bytes(key, key_len, "key")?)?)) }
}

/// Does the same as `esker_options_set_key`, with the key in the file `path`. The file is read at each
/// opening, so a missing or wrong file is a failure of the opening. Nobody else should be able to read
/// it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_key_file(
    options: Option<&mut esker_options_t>,
    path: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe { set(options, message, || Ok(encryption::of_file(ffi::path(path)?))) }
}

/// Does the same as `esker_options_set_key`, with keys that the function `give` returns, for example
/// from a key service. It is called when a store is opened, created or copied, not for each file, from
/// any thread and on several at once. It must return, must not throw or jump out, and must not use the
/// store: its functions fail with `ESKER_INVALID_ARGUMENT` then. Its arguments are valid only during
/// the call. A failure of it is a failure of the opening with `ESKER_INVALID_ARGUMENT` and its reason.
///
/// Each call receives `state`. `destructor`, which may be NULL, receives `state` once: after the options
/// and every store that was opened with them are freed, from any thread, or at once if this call fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_key_source(
    options: Option<&mut esker_options_t>,
    state: *mut c_void,
    destructor: esker_destructor_t,
    give: esker_key_source_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // The source owns the state in any case.
    let source = CKeySource::new(state, destructor, give);
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { set(options, message, || Ok(Arc::new(source?))) }
}

/// Changes the master key of the encrypted store in the directory `path`, which must not be open: from
/// the key of `options` to that of `new_options`. Only the file `KEYS` is written, so the call takes
/// milliseconds. A crash leaves the store with the one or the other key. Sets `*report`, which must be
/// freed with `esker_free`; `report` may be NULL.
///
/// The old master key opens nothing afterwards. New files get a new data key. Existing files keep
/// theirs until merges rewrite them; `esker_compact_range` rewrites the tables. Copies have a `KEYS` of
/// their own, under the master key of the time at which they were made, so a backup into an existing
/// directory of backups needs a rekey of its newest backup too.
///
/// Fails with `ESKER_NOT_FOUND` if there is no store, with `ESKER_LOCKED` while it is open, and with
/// `ESKER_INVALID_ARGUMENT` if it is not encrypted, the key of `options` does not open it, or one of the
/// options has no key. Nothing is changed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_rekey(
    path: *const c_char,
    options: Option<&esker_options_t>,
    new_options: Option<&esker_options_t>,
    report: Option<&mut *mut esker_rekey_report_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let mut report = report;
            if let Some(place) = &mut report {
                **place = std::ptr::null_mut();
            }
            let path = ffi::path(path)?;
            let from = there(options, "options handle")?.key.as_ref();
            let to = there(new_options, "new options handle")?.key.as_ref();
            let made = encryption::rekey(fs_below(options), path, from, to)?;
            if let Some(place) = report {
                *place = ffi::give(esker_rekey_report_t {
                    data_keys: made.data_keys,
                    removed_data_keys: made.removed_data_keys,
                    from: fixed(&made.from),
                    to: fixed(&made.to),
                });
            }
            Ok(())
        });
        ffi::code(outcome, message)
    }
}
