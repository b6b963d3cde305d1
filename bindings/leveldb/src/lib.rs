//! LevelDB's C interface: the 68 functions its header declares, with its semantics, and what the C++
//! interface in `shim/` needs besides. `scripts/shim.sh` makes one `libleveldb.so.1d` of both.
//!
//! What stays true: an error text is `Kind: sentence` as LevelDB's are, comes from `malloc` and
//! replaces (and frees) one the caller left; an option out of range is brought into it, as there;
//! a null handle gives an error text where there is a place for one, and nothing otherwise.
//!
//! Stricter or looser than LevelDB: checksums are always verified; a destructor runs once the last
//! store, iterator and option that uses the object is gone; iterators outlive their store.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of every function is the one of LevelDB's header"
)]
#![allow(non_camel_case_types, reason = "the names are C's")]

pub mod batch;
pub mod iter;
pub mod objects;
pub mod options;
pub mod shim;
pub mod store;

use std::ffi::c_char;

use esker_c::failure::{
    ESKER_CORRUPTION, ESKER_INCOMPATIBLE, ESKER_INVALID_ARGUMENT, ESKER_NOT_FOUND, Failure, Outcome,
};
use esker_c::ffi;

/// A failure as LevelDB would print it.
fn text_of(failure: &Failure) -> String {
    let kind = match failure.code {
        ESKER_CORRUPTION => "Corruption",
        // LevelDB calls a store that is not there so; its NotFound is a key's.
        ESKER_INVALID_ARGUMENT | ESKER_INCOMPATIBLE | ESKER_NOT_FOUND => "Invalid argument",
        _ => "IO error",
    };
    format!("{kind}: {}", failure.message)
}

/// What `outcome` holds; its failure goes to `errptr`.
///
/// # Safety
/// As for [`ffi::report`].
#[inline]
unsafe fn kept<T>(outcome: Outcome<T>, errptr: Option<&mut *mut c_char>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(failure) => {
            // SAFETY: the caller's promise.
            unsafe { ffi::report(errptr, &text_of(&failure)) };
            None
        }
    }
}
