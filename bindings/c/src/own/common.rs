//! What the whole interface shares: durability as a number, the version, freeing.
//!
//! What stays true: a number that stands for nothing is the caller's mistake, not a default.

use std::ffi::{c_char, c_void};

use esker::{Durability, WriteOptions};

use crate::failure::{Failure, Outcome};
use crate::ffi;

/// As the store's option `durability` says.
pub const ESKER_DURABILITY_DEFAULT: i32 = 0;
/// Not logged: lost when the process ends before a flush.
pub const ESKER_DURABILITY_NONE: i32 = 1;
/// Survives `kill -9` once the call returned, but not a power loss.
pub const ESKER_DURABILITY_BUFFERED: i32 = 2;
/// Survives a power loss once the call returned.
pub const ESKER_DURABILITY_SYNC: i32 = 3;

/// The write options a number of the interface stands for.
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
    Ok(WriteOptions { durability })
}

/// The version, such as `0.1.0`. Not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Frees a text or a value that a function here gave out; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_free(memory: *mut c_void) {
    // SAFETY: the header says what may be passed.
    unsafe { ffi::free(memory) }
}
