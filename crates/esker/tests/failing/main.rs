//! Errors, failing files and devices, and waits that end. One program: each further one takes seconds to link.

#[path = "../common/mod.rs"]
mod common;
mod errors;
mod operation_errors;
mod replay;
mod scrub;
mod slots;
mod stalls;
mod waits;
mod wrong_callbacks;
