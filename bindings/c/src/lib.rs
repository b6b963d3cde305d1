//! Esker for C: its own interface (`esker_*`, see `include/esker.h`) and LevelDB's (`leveldb_*`).
//!
//! | in | is |
//! |---|---|
//! | `ffi` | pointers in, memory and failures out: the only place that knows how |
//! | `callbacks` | comparators and filters that are C functions |
//! | `own` | the `esker_*` functions |
//! | `leveldb` | LevelDB's 68 functions, and what its C++ shim needs besides |
//!
//! What stays true: no panic crosses into C; a null handle is a failure or nothing, never a crash;
//! memory handed out is `malloc`'s, so that the caller's `free` fits.
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of every function is the one at the top of the header"
)]
#![allow(non_camel_case_types, reason = "the names are C's")]

mod callbacks;
mod failure;
mod ffi;
pub mod leveldb;
pub mod own;
