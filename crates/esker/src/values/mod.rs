//! Value files: immutable files of values that were separated from their tables.
//!
//! ```text
//! header 32: magic 8 | version u32 | zero u32 | file id u64 | checksum u64
//! record:    checksum u64 | key bytes u32 | value bytes u32 | key | value
//! footer 40: end of the records u64 | records u64 | file id u64 | magic 8 | checksum u64
//!
//! streamed record, only in files of version 2:
//! head:      checksum u64 | key bytes and bit 31 u32 | piece bytes u32 | key
//! piece:     checksum u64 | bytes u32 | the bytes
//! ```
//! The checksum of a record covers everything behind it and is seeded with the file's id and the
//! record's offset. So are those of the header (offset 0) and of the footer. A streamed record has a
//! checksum for its head and one for each piece, seeded with the offset of the head or the piece. So
//! it can be written before its length is known, and read and checked piece by piece.
//!
//! Invariants:
//! 1. A record has its key, so that a reader can tell that it has the value of another key.
//! 2. Records follow each other without a gap, in the order in which they were written.
//! 3. A reader checks every length against the file before it uses it.
//! 4. All pieces of a streamed record are full except the last, which is shorter and may be empty.
//! 5. A file with a streamed record has no other record. So it has no garbage while it is referenced,
//!    and no value is ever moved out of it.

mod reader;
mod stream_reader;
mod stream_writer;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::ValueFileReader;
pub use stream_writer::StreamedValueWriter;
pub use writer::ValueFileWriter;

use crate::base::checksum::{checksum, checksum_parts, location_seed};

const MAGIC: &[u8; 8] = b"eskerVAL";
const FOOTER_MAGIC: &[u8; 8] = b"eskerVEN";
/// Version of a file without streamed records.
const VERSION: u32 = 1;
/// Version of a file that may have streamed records.
const VERSION_STREAMED: u32 = 2;
const HEADER_BYTES: usize = 32;
const FOOTER_BYTES: usize = 40;

/// Bytes of a value file outside of its records.
pub const OVERHEAD_BYTES: u64 = (HEADER_BYTES + FOOTER_BYTES) as u64;

/// Returns the header of a file of a version.
fn header(id: u64, version: u32) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&version.to_le_bytes());
    out[16..24].copy_from_slice(&id.to_le_bytes());
    let sum = checksum(&out[..24], location_seed(id, 0));
    out[24..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Returns the footer of a file whose records end at `end_bytes`.
fn footer(id: u64, end_bytes: u64, records: u64) -> [u8; FOOTER_BYTES] {
    let mut out = [0; FOOTER_BYTES];
    out[..8].copy_from_slice(&end_bytes.to_le_bytes());
    out[8..16].copy_from_slice(&records.to_le_bytes());
    out[16..24].copy_from_slice(&id.to_le_bytes());
    out[24..32].copy_from_slice(FOOTER_MAGIC);
    let sum = checksum(&out[..32], location_seed(id, end_bytes));
    out[32..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Returns the checksum of a record, whose parts are given.
fn record_checksum(id: u64, offset_bytes: u64, parts: &[&[u8]]) -> u64 {
    checksum_parts(parts, location_seed(id, offset_bytes))
}

/// Returns the two lengths of a record's header.
fn lengths(key_bytes: u32, value_bytes: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&key_bytes.to_le_bytes());
    out[4..].copy_from_slice(&value_bytes.to_le_bytes());
    out
}
