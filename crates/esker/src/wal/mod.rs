//! Layer 2: the log. Every logged write is in it before it is in memory.
//!
//! `format.rs` says what the bytes are, `writer.rs` appends, `reader.rs` finds out how far a log is
//! whole and whether what ends it is a crash or rot.

pub mod format;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use reader::{LogEnd, LogReader, LogRecord};
pub use writer::LogWriter;
