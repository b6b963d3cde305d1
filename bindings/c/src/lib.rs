//! Esker's C interface, `esker_*`; see `include/esker.h`.
//!
//! | module | content |
//! |---|---|
//! | `failure` | codes and messages |
//! | `ffi` | conversion of pointers, memory and failures, for all functions |
//! | `callbacks` | comparators, filters and merge operators implemented by C functions |
//! | `own` | the `esker_*` functions |
//!
//! Invariants:
//! 1. No panic unwinds into C.
//! 2. A null handle gives a failure or has no effect. It never causes a crash.
//! 3. Returned memory is allocated with `malloc`, so the caller may use `free`.
//! 4. The library exports only names that begin with `esker_`. LevelDB's functions are in
//!    `bindings/leveldb`, so a program may link this library together with LevelDB.
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of every function is the one at the top of the header"
)]
#![allow(non_camel_case_types, reason = "the names are C's")]

pub mod callbacks;
pub mod failure;
pub mod ffi;
pub mod own;
