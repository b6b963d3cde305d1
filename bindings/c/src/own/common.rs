//! Shared parts of the interface: durability numbers, the version, freeing.
//!
//! Invariant: an unknown number is an invalid argument, never a default.

use std::ffi::{CString, c_char, c_void};
use std::time::{Duration, Instant};

use esker::{Durability, WriteOptions};

use crate::failure::{Failure, Outcome};
use crate::ffi;

/// The store's option `durability` decides.
pub const ESKER_DURABILITY_DEFAULT: i32 = 0;
/// Not logged in the WAL: lost if the process ends before a flush.
pub const ESKER_DURABILITY_NONE: i32 = 1;
/// A completed write survives `kill -9`, but not a power loss.
pub const ESKER_DURABILITY_BUFFERED: i32 = 2;
/// A completed write survives a power loss.
pub const ESKER_DURABILITY_SYNC: i32 = 3;

/// Returns the write options for a durability number.
#[inline]
pub fn write_options(number: i32) -> Outcome<WriteOptions> {
    let durability = match number {
        ESKER_DURABILITY_DEFAULT => None,
        ESKER_DURABILITY_NONE => Some(Durability::None),
        ESKER_DURABILITY_BUFFERED => Some(Durability::Buffered),
        ESKER_DURABILITY_SYNC => Some(Durability::Sync),
        other => {
            return Err(Failure::invalid(format!("there is no durability {other}; it is 0 to 3")));
        }
    };
    Ok(WriteOptions::default().durability(durability))
}

/// Returns the write options for a durability number and the longest wait of the write.
pub fn write_options_within(number: i32, wait_ms_max: u64) -> Outcome<WriteOptions> {
    let deadline = Instant::now().checked_add(Duration::from_millis(wait_ms_max));
    Ok(write_options(number)?.deadline(deadline))
}

/// Returns a text for C, without its zero bytes.
pub(super) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Returns the address and the length of `bytes`. The address of empty bytes is not null.
pub(super) fn data_of(bytes: &[u8]) -> (*const u8, usize) {
    (bytes.as_ptr(), bytes.len())
}

/// Returns the version, such as `0.1.0`. It must not be freed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Frees a text or a value returned by a function of this interface; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_free(memory: *mut c_void) {
    // SAFETY: the caller meets the contract of the header.
    unsafe { ffi::free(memory) }
}
