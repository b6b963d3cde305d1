//! Correction of checksums after changes of bytes.
//!
//! Invariants: only checksum fields change, and the copies of id and length in the footer of a value
//! file. Where a length in a file leads beyond its end, later
//! bytes stay unchanged.

use esker::internals::{HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, padded};
use esker::internals::{checksum, location_seed};

const FOOTER_BYTES: usize = 96;

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Writes the checksum of `start..end` at `at`. Returns `None` when part of these bytes does not
/// exist.
fn write_checksum(bytes: &mut [u8], start: usize, end: usize, at: usize, seed: u64) -> Option<()> {
    let sum = checksum(bytes.get(start..end)?, seed).to_le_bytes();
    bytes.get_mut(at..at.checked_add(8)?)?.copy_from_slice(&sum);
    Some(())
}

/// Corrects the checksums of a log.
pub fn log(bytes: &mut [u8]) -> Option<()> {
    write_checksum(bytes, 0, 32, 32, 0)?;
    let generation = word(bytes, 24)?;
    let mut at = HEADER_BYTES;
    loop {
        let header = RecordHeader::decode(bytes.get(at..)?)?;
        let whole = RECORD_HEADER_BYTES + header.payload_bytes as usize;
        write_checksum(bytes, at + 8, at + whole, at, location_seed(generation, at as u64))?;
        at += padded(whole);
    }
}

/// Corrects the checksums of a manifest with this number.
pub fn manifest(bytes: &mut [u8], number: u64) -> Option<()> {
    write_checksum(bytes, 0, 24, 24, 0)?;
    let store_id = word(bytes, 16)?;
    let mut at = 32;
    loop {
        let length = word(bytes, at + 8)? as u32 as usize;
        let seed = location_seed(store_id ^ number.rotate_left(32), at as u64);
        write_checksum(bytes, at + 8, at + 16 + length, at, seed)?;
        at += 16 + length;
    }
}

/// Corrects the checksum of a file whose last eight bytes are that of the others.
pub fn last_word(bytes: &mut [u8]) -> Option<()> {
    let end = bytes.len().checked_sub(8)?;
    write_checksum(bytes, 0, end, end, 0)
}

/// Corrects the checksums of a stream of changes.
pub fn stream(bytes: &mut [u8]) -> Option<()> {
    write_checksum(bytes, 0, 20, 20, 0)?;
    let source = word(bytes, 12)?;
    let mut at = 28;
    loop {
        let frame_bytes = usize::try_from(word(bytes, at)?).ok()?;
        let end = at.checked_add(8)?.checked_add(frame_bytes)?;
        write_checksum(bytes, at, end, end, location_seed(source, at as u64))?;
        at = end + 8;
    }
}

/// Corrects the checksum of a `STATUS` file.
pub fn status(bytes: &mut [u8]) -> Option<()> {
    let end = bytes.len().checked_sub(17)?;
    let sum = format!("{:016x}\n", checksum(bytes.get(..end)?, 0));
    bytes.get_mut(end..)?.copy_from_slice(sum.as_bytes());
    Some(())
}

/// Corrects the checksums of a `CURRENT` file.
pub fn current(bytes: &mut [u8]) -> Option<()> {
    write_checksum(bytes, 0, 504, 504, 0)?;
    write_checksum(bytes, 512, 512 + 504, 512 + 504, 1)
}

/// Corrects the checksums of a table: the parts named by its footer, its data blocks at the
/// positions in the seed table, and the footer.
pub fn table(bytes: &mut [u8], blocks: &[(usize, usize)]) -> Option<()> {
    let footer = bytes.len().checked_sub(FOOTER_BYTES)?;
    let id = word(bytes, footer + 64)?;
    for part in 0..4 {
        let start = word(bytes, footer + part * 16)? as usize;
        let length = word(bytes, footer + part * 16 + 8)? as usize;
        let end = start.checked_add(length)?.checked_add(1)?;
        let _ = write_checksum(bytes, start, end, end, location_seed(id, start as u64));
    }
    for (start, end) in blocks {
        let _ = write_checksum(bytes, *start, *end, *end, location_seed(id, *start as u64));
    }
    write_checksum(bytes, footer, footer + 88, footer + 88, location_seed(id, footer as u64))
}

/// Corrects the checksums of a value file.
pub fn values(bytes: &mut [u8]) -> Option<()> {
    let id = word(bytes, 16)?;
    write_checksum(bytes, 0, 24, 24, location_seed(id, 0))?;
    let footer = bytes.len().checked_sub(40)?;
    let mut at = 32;
    while at < footer {
        let lengths = word(bytes, at + 8)?;
        if lengths & 1 << 31 != 0 {
            let Some(end) = streamed_value(bytes, at, id) else { break };
            at = end;
            continue;
        }
        let end = at + 16 + (lengths as u32 as usize) + (lengths >> 32) as usize;
        if write_checksum(bytes, at + 8, end, at, location_seed(id, at as u64)).is_none() {
            break;
        }
        at = end;
    }
    let seed = location_seed(id, footer as u64);
    bytes.get_mut(footer..footer + 8)?.copy_from_slice(&(footer as u64).to_le_bytes());
    bytes.get_mut(footer + 16..footer + 24)?.copy_from_slice(&id.to_le_bytes());
    write_checksum(bytes, footer, footer + 32, footer + 32, seed)
}

/// Corrects the checksums of the streamed record at `at`. Returns its end.
fn streamed_value(bytes: &mut [u8], at: usize, id: u64) -> Option<usize> {
    let key_bytes = (word(bytes, at + 8)? & 0x7fff_ffff) as usize;
    let mut next = at + 16 + key_bytes;
    write_checksum(bytes, at + 8, next, at, location_seed(id, at as u64))?;
    loop {
        let piece_bytes = u32::from_le_bytes(*bytes.get(next + 8..)?.first_chunk()?) as usize;
        let end = next + 12 + piece_bytes;
        write_checksum(bytes, next + 8, end, next, location_seed(id, next as u64))?;
        next = end;
        if piece_bytes < 64 << 10 {
            return Some(next);
        }
    }
}
