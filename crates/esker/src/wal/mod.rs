//! Layer 2: the WAL (the log). A logged write is appended to the log before it is applied to the
//! memtable.
//!
//! `format.rs` defines the bytes, `writer.rs` appends, and `reader.rs` determines how far a log is
//! intact and whether its end is a crash or corruption.

pub mod format;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use reader::{LogEnd, LogReader, LogRecord};
pub use writer::LogWriter;
