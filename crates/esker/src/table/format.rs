//! The on-disk format of a table outside its entries: sealed blocks and the footer.
//!
//! ```text
//! block:   payload | compression u8 | checksum u64 (XXH3 of payload and compression)
//! stamp:   sequence number u64 | checksum u64; only in a table made for an ingest
//! footer:  filter, range tombstones, properties, index: each offset u64, payload length u64
//! | table id u64 | version u32 | zero u32 | magic u64 | checksum u64 of all before
//! ```
//!
//! Invariants: the parts in a footer follow each other without a gap and end where the footer, or
//! the stamp before it, begins. The stamp is the only part of a table that is written twice. A stamp
//! whose checksum does not match is no stamp.

use crate::base::checksum::{checksum, location_seed};
use crate::base::coding::{Reader, put_bytes, put_u32, put_u64, put_varint};
use crate::base::key::{SEQNO_MAX, SeqNo};
use crate::base::range_delete::{RangeDelete, RangeDeleteRef};
use crate::options::kinds::Compression;

use super::compress;

/// The format version that this build writes, and the only one that it reads.
///
/// 1: the first version.
pub(super) const FORMAT_VERSION: u32 = 1;
/// Magic number in the second last eight bytes of every table.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"EskerSST");
/// Length of a block's trailer in bytes: compression and checksum.
pub(super) const TRAILER_BYTES: usize = 9;
/// Length of the footer in bytes.
pub(super) const FOOTER_BYTES: usize = 96;
/// Length of the stamp in bytes.
pub(super) const STAMP_BYTES: usize = 16;

/// Appends the trailer of the block that starts at `start` in `out` and at `offset_bytes` in the
/// file.
pub(super) fn seal(
    out: &mut Vec<u8>,
    start: usize,
    compression: Compression,
    table_id: u64,
    offset_bytes: u64,
) {
    out.push(compress::code(compression));
    let sum = checksum(&out[start..], location_seed(table_id, offset_bytes));
    put_u64(out, sum);
}

/// Verifies the checksum of the sealed block `bytes`, read at `offset_bytes`. Returns its
/// compression and payload.
#[inline]
pub(super) fn unseal(
    bytes: &[u8],
    table_id: u64,
    offset_bytes: u64,
) -> Result<(Compression, &[u8]), &'static str> {
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or("the block has no checksum")?;
    if checksum(body, location_seed(table_id, offset_bytes)) != u64::from_le_bytes(*sum) {
        return Err("the block's checksum does not match");
    }
    let (&code, payload) = body.split_last().ok_or("the block has no compression byte")?;
    let compression = compress::from_code(code).ok_or("the block's compression is unknown")?;
    Ok((compression, payload))
}

/// Location of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Handle {
    /// Offset from the start of the file, in bytes.
    pub(super) offset_bytes: u64,
    /// Length of the payload without the trailer, in bytes.
    pub(super) payload_bytes: u64,
}

impl Handle {
    /// Returns the offset of the first byte after the block.
    pub(super) fn end(self) -> Option<u64> {
        self.offset_bytes.checked_add(self.payload_bytes)?.checked_add(TRAILER_BYTES as u64)
    }
}

/// The footer, at the end of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) filter: Handle,
    pub(super) range_deletes: Handle,
    pub(super) properties: Handle,
    pub(super) index: Handle,
    pub(super) table_id: u64,
    /// Offset of the stamp, if the table has one.
    pub(super) stamp_at: Option<u64>,
}

/// Reason for the refusal of a footer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FooterError {
    /// The format version is a different one.
    Version(u32),
    /// The bytes are not the written ones.
    Damaged(&'static str),
}

impl Footer {
    fn parts(&self) -> [Handle; 4] {
        [self.filter, self.range_deletes, self.properties, self.index]
    }

    /// Appends the footer, which starts at `offset_bytes` in the file.
    pub(super) fn encode(&self, out: &mut Vec<u8>, offset_bytes: u64) {
        let start = out.len();
        for part in self.parts() {
            put_u64(out, part.offset_bytes);
            put_u64(out, part.payload_bytes);
        }
        put_u64(out, self.table_id);
        put_u32(out, FORMAT_VERSION);
        put_u32(out, 0);
        put_u64(out, MAGIC);
        let sum = checksum(&out[start..], location_seed(self.table_id, offset_bytes));
        put_u64(out, sum);
    }

    /// Decodes the footer at `offset_bytes`, which must be the end of its parts.
    pub(super) fn decode(
        bytes: &[u8; FOOTER_BYTES],
        offset_bytes: u64,
    ) -> Result<Footer, FooterError> {
        let damaged = FooterError::Damaged;
        let word = |i: usize| {
            bytes[i * 8..].first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk))
        };
        let handle = |i| Handle { offset_bytes: word(i), payload_bytes: word(i + 1) };
        if word(10) != MAGIC {
            return Err(damaged(
                "expected a table's magic number at the end of the file, found other bytes",
            ));
        }
        let table_id = word(8);
        let body = &bytes[..FOOTER_BYTES - 8];
        // The checksum has the same offset in every version, so damage cannot look like another
        // version.
        if checksum(body, location_seed(table_id, offset_bytes)) != word(11) {
            return Err(damaged("the footer's checksum does not match"));
        }
        let version = word(9) as u32;
        if version != FORMAT_VERSION {
            return Err(FooterError::Version(version));
        }
        let footer = Footer {
            filter: handle(0),
            range_deletes: handle(2),
            properties: handle(4),
            index: handle(6),
            table_id,
            stamp_at: None,
        };
        let mut at = footer.filter.offset_bytes;
        for part in footer.parts() {
            if part.offset_bytes != at {
                return Err(damaged("the parts named by the footer leave a gap"));
            }
            at = part.end().ok_or(damaged("a part named by the footer is too long"))?;
        }
        let stamp_at = offset_bytes.checked_sub(STAMP_BYTES as u64).filter(|stamp| *stamp == at);
        if at != offset_bytes && stamp_at.is_none() {
            return Err(damaged("the parts named by the footer do not end at the footer"));
        }
        Ok(Footer { stamp_at, ..footer })
    }
}

/// Returns the stamp at `offset_bytes` for entries with the sequence number `seqno`.
pub(super) fn encode_stamp(table_id: u64, offset_bytes: u64, seqno: SeqNo) -> [u8; STAMP_BYTES] {
    let mut stamp = [0; STAMP_BYTES];
    stamp[..8].copy_from_slice(&seqno.to_le_bytes());
    let sum = checksum(&stamp[..8], location_seed(table_id, offset_bytes));
    stamp[8..].copy_from_slice(&sum.to_le_bytes());
    stamp
}

/// Returns the sequence number of a stamp, or `None` if it is not written, or not wholly.
pub(super) fn decode_stamp(table_id: u64, offset_bytes: u64, bytes: &[u8]) -> Option<SeqNo> {
    let seqno = u64::from_le_bytes(*bytes.first_chunk()?);
    let is_whole = bytes == encode_stamp(table_id, offset_bytes, seqno);
    (is_whole && (1..=SEQNO_MAX).contains(&seqno)).then_some(seqno)
}

/// Appends range tombstones: a count, then the start, end and sequence number of each.
pub(super) fn encode_range_deletes(out: &mut Vec<u8>, tombstones: &[RangeDelete]) {
    put_varint(out, tombstones.len() as u64);
    for tombstone in tombstones {
        put_bytes(out, &tombstone.start);
        put_bytes(out, &tombstone.end);
        put_varint(out, tombstone.seqno);
    }
}

/// Decodes the output of [`encode_range_deletes`] and calls `visit` for each range tombstone.
/// Returns `None` if the bytes are malformed; `visit` may have been called by then.
pub(super) fn decode_range_deletes<'a>(
    bytes: &'a [u8],
    mut visit: impl FnMut(RangeDeleteRef<'a>),
) -> Option<()> {
    let mut reader = Reader::new(bytes);
    let count = u32::try_from(reader.varint()?).ok().filter(|&count| count <= i32::MAX as u32)?;
    for _ in 0..count {
        let (start, end) = (reader.bytes()?, reader.bytes()?);
        let seqno = reader.varint().filter(|&s| s <= SEQNO_MAX)?;
        visit(RangeDeleteRef { start, end, seqno });
    }
    reader.is_empty().then_some(())
}
