//! LevelDB's C interface: the 68 functions of its header, with LevelDB's semantics, and additional
//! functions for the C++ interface in `shim/`. `scripts/shim.sh` links both into one
//! `libleveldb.so.1d`.
//!
//! Invariants:
//! 1. An error text has LevelDB's format `Kind: message` and is allocated with `malloc`. It
//!    replaces and frees an earlier text in the same place.
//! 2. An option value out of range is clamped, as in LevelDB.
//! 3. A null handle gives an error text if the function reports errors, and no effect otherwise.
//!
//! Differences from LevelDB:
//! * Checksums are always verified.
//! * A destructor runs after the last store, iterator and option that uses the object is freed.
//! * Iterators may outlive their store.

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
mod trace;

use std::ffi::c_char;

use esker_c::failure::{
    ESKER_CORRUPTION, ESKER_INCOMPATIBLE, ESKER_INVALID_ARGUMENT, ESKER_NOT_FOUND, Failure, Outcome,
};
use esker_c::ffi;

/// Returns the failure in LevelDB's error text format.
fn text_of(failure: &Failure) -> String {
    let kind = match failure.code {
        ESKER_CORRUPTION => "Corruption",
        // LevelDB reports a missing store as an invalid argument. Its `NotFound` is for keys.
        ESKER_INVALID_ARGUMENT | ESKER_INCOMPATIBLE | ESKER_NOT_FOUND => "Invalid argument",
        _ => "IO error",
    };
    format!("{kind}: {}", failure.message)
}

/// Returns the value of `outcome`, or reports its failure in `errptr`.
///
/// # Safety
/// As for [`ffi::report`].
#[inline]
unsafe fn kept<T>(outcome: Outcome<T>, errptr: Option<&mut *mut c_char>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(failure) => {
            // SAFETY: guaranteed by the caller.
            unsafe { ffi::report(errptr, &text_of(&failure)) };
            None
        }
    }
}
