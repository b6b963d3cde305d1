//! Esker for C: the interface `esker_*`, see `include/esker.h`.
//!
//! | in | is |
//! |---|---|
//! | `ffi` | pointers in, memory and failures out: the only place that knows how |
//! | `callbacks` | comparators and filters that are C functions |
//! | `own` | the `esker_*` functions |
//!
//! What stays true: no panic crosses into C; a null handle is a failure or nothing, never a crash;
//! memory handed out is `malloc`'s, so that the caller's `free` fits; the library exports names that
//! begin with `esker_` and no other. LevelDB's functions are in `bindings/leveldb`, so that a program
//! may link this library beside LevelDB itself.
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of every function is the one at the top of the header"
)]
#![allow(non_camel_case_types, reason = "the names are C's")]

pub mod callbacks;
pub mod failure;
pub mod ffi;
pub mod own;
