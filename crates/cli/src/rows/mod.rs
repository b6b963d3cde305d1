//! Pairs from files: CSV, TSV, JSON lines, dumps.
//!
//! Invariants:
//! 1. Every row yields a pair or, in a dump, a keyspace, or a bad row with its line number and the
//!    reason.
//! 2. Memory is bounded by the longest pair that the store accepts.

pub mod csv;
pub mod dump;
pub mod input;
pub mod jsonl;
pub mod sort;

use std::io;

use crate::keyspaces::KeyspaceSpec;

/// A pair, or the reason why the row is bad.
pub type Pair = Result<(Vec<u8>, Vec<u8>), String>;

/// One row of a file.
#[derive(Debug)]
pub struct Row {
    /// First line of the row, from 1.
    pub line: u64,
    /// Content of the row, or the reason why the row is bad.
    pub content: Result<Content, String>,
}

/// Content of a row.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// A key and its value.
    Pair(Vec<u8>, Vec<u8>),
    /// A key, its value, and the time in milliseconds since 1970 at which the pair expires, if it
    /// does.
    Timed(Vec<u8>, Vec<u8>, Option<u64>),
    /// The keyspace of the following pairs.
    Keyspace(KeyspaceSpec),
}

impl Row {
    /// Creates a row that holds a pair or is bad.
    fn new(line: u64, pair: Pair) -> Row {
        Row { line, content: pair.map(|(key, value)| Content::Pair(key, value)) }
    }
}

/// A source of rows.
pub trait Rows {
    /// Returns the next row; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Row>>;

    /// Returns the number of input bytes consumed.
    fn read_bytes(&self) -> u64;

    /// Checks, after the end, that the input is complete, as far as its format allows such a check.
    fn check_end(&self) -> Result<(), String> {
        Ok(())
    }
}
