//! Checksums made right behind changed bytes.
//!
//! What stays true: only checksum fields change, and where a file's own lengths lead out of it,
//! what lies beyond is left as it is.

use esker::base::checksum::{checksum, place_seed};
use esker::wal::format::{HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, padded};

const FOOTER_BYTES: usize = 96;

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Writes at `at` the checksum of `start..end`; `None` when something of that is not there.
fn seal(bytes: &mut [u8], start: usize, end: usize, at: usize, seed: u64) -> Option<()> {
    let sum = checksum(bytes.get(start..end)?, seed).to_le_bytes();
    bytes.get_mut(at..at.checked_add(8)?)?.copy_from_slice(&sum);
    Some(())
}

/// A log.
pub fn log(bytes: &mut [u8]) -> Option<()> {
    seal(bytes, 0, 32, 32, 0)?;
    let generation = word(bytes, 24)?;
    let mut at = HEADER_BYTES;
    loop {
        let header = RecordHeader::decode(bytes.get(at..)?)?;
        let whole = RECORD_HEADER_BYTES + header.payload_bytes as usize;
        seal(bytes, at + 8, at + whole, at, place_seed(generation, at as u64))?;
        at += padded(whole);
    }
}

/// A manifest with this number.
pub fn manifest(bytes: &mut [u8], number: u64) -> Option<()> {
    seal(bytes, 0, 24, 24, 0)?;
    let store_id = word(bytes, 16)?;
    let mut at = 32;
    loop {
        let length = word(bytes, at + 8)? as u32 as usize;
        let seed = place_seed(store_id ^ number.rotate_left(32), at as u64);
        seal(bytes, at + 8, at + 16 + length, at, seed)?;
        at += 16 + length;
    }
}

/// The mark of a backup.
pub fn mark(bytes: &mut [u8]) -> Option<()> {
    let end = bytes.len().checked_sub(8)?;
    seal(bytes, 0, end, end, 0)
}

/// A `CURRENT`.
pub fn current(bytes: &mut [u8]) -> Option<()> {
    seal(bytes, 0, 504, 504, 0)?;
    seal(bytes, 512, 512 + 504, 512 + 504, 1)
}

/// A table: the parts its footer names, and the footer. Its data blocks are those of the seed.
pub fn table(bytes: &mut [u8], blocks: &[(usize, usize)]) -> Option<()> {
    let footer = bytes.len().checked_sub(FOOTER_BYTES)?;
    let id = word(bytes, footer + 64)?;
    for part in 0..4 {
        let start = word(bytes, footer + part * 16)? as usize;
        let length = word(bytes, footer + part * 16 + 8)? as usize;
        let end = start.checked_add(length)?.checked_add(1)?;
        let _ = seal(bytes, start, end, end, place_seed(id, start as u64));
    }
    for (start, end) in blocks {
        let _ = seal(bytes, *start, *end, *end, place_seed(id, *start as u64));
    }
    seal(bytes, footer, footer + 88, footer + 88, place_seed(id, footer as u64))
}
