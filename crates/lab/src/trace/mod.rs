//! Traces: the operations of a program on a store, in a file that any program can write.
//!
//! `format` has the lines of the file, `record` writes one from an engine's calls, and `replay`
//! runs one on an engine. `docs/tuning.md` describes the format.

pub mod format;
pub mod record;
pub mod replay;
