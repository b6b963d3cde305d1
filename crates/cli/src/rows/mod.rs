//! Pairs from files: CSV, TSV, JSON lines, dumps.
//!
//! What stays true: every row comes out as a pair or as a bad row with its line number and the
//! reason; memory is bounded by the longest pair the store takes.

pub mod csv;
pub mod dump;
pub mod input;
pub mod jsonl;

use std::io;

/// A pair, or what is wrong with a row.
pub type Pair = Result<(Vec<u8>, Vec<u8>), String>;

/// One row of a file.
#[derive(Debug)]
pub struct Row {
    /// The line it starts at, from 1.
    pub line: u64,
    /// What it holds.
    pub pair: Pair,
}

/// A source of rows.
pub trait Rows {
    /// The next row; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Row>>;

    /// How many bytes of the input were consumed.
    fn read_bytes(&self) -> u64;

    /// After the end: whether the input says it is whole, as far as its format can say so.
    fn check_end(&self) -> Result<(), String> {
        Ok(())
    }
}
