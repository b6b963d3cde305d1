//! The log's bytes (all integers little-endian; see `docs/format.md`).
//!
//! ```text
//! header  40 bytes: magic 8 | version u32 | reserved u32 | log number u64 | generation u64
//!                   | checksum u64 over the 32 bytes before it
//! record  24 bytes + payload, padded with zeros to 8:
//!         checksum u64 over the rest of the header and the payload | payload length u32
//!         | durable u32 | ordinal u32 | sequence number u32
//! ```
//! `durable` counts multiples of eight bytes of this log. The ordinal and the sequence number (of
//! the first operation) are relative to the log's first.
//!
//! Special payload lengths are markers:
//! - `u32::MAX`: a clean close, without payload. Nothing follows.
//! - `u32::MAX - 1`: another log continues here. The payload is that log's number (u64). Nothing
//!   follows.
//! - `u32::MAX - 2`: the beginning of the log, its first record: first ordinal u64, first sequence
//!   number u64, durable ordinal u64. So a log can be created before it is known what it continues.
//!   Without this marker it holds nothing.
//! - `u32::MAX - 3`: a sync, without payload. Like every record it states how far the log was
//!   durable. It is not part of the log; the next record overwrites it.
//!
//! A log ends before a field overflows ([`super::LogWriter::is_full`]).
//!
//! A record's checksum is seeded with the log's generation and the record's offset, so a stale or
//! misplaced record fails the check. Zeros, the sync marker or the end of the file in place of a
//! record are a clean end.

use crate::base::checksum::{checksum_parts, location_seed};
use crate::base::coding::Reader;
use crate::base::key::{SEQNO_MAX, SeqNo};

/// Magic number at the start of every log.
pub const MAGIC: &[u8; 8] = b"eskerWAL";
/// The format version that this code writes and reads.
pub const VERSION: u32 = 1;
/// Length of the file header, in bytes.
pub const HEADER_BYTES: usize = 40;
/// Length of a record's header, in bytes.
pub const RECORD_HEADER_BYTES: usize = 24;
/// Length of a log that has begun and has no records yet, in bytes.
pub const BEGUN_LOG_BYTES: u64 = (HEADER_BYTES + RECORD_HEADER_BYTES) as u64 + BEGUN_BYTES as u64;
/// Alignment of records, in bytes.
pub const ALIGN_BYTES: usize = 8;

/// Payload length of the clean-close marker: no operations, nothing follows.
const CLOSED: u32 = u32::MAX;
/// Payload length of the continuation marker.
const CONTINUED: u32 = u32::MAX - 1;
/// Length of that marker's payload, in bytes.
const CONTINUED_BYTES: u32 = 8;
/// Payload length of the start marker.
const BEGUN: u32 = u32::MAX - 2;
/// Length of that marker's payload, in bytes.
const BEGUN_BYTES: u32 = 24;
/// Payload length of the sync marker: no operations, not part of the log.
const SYNCED: u32 = u32::MAX - 3;
/// Maximum length of a payload of operations, in bytes.
pub const PAYLOAD_BYTES_MAX: u32 = SYNCED - 1;

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Operations.
    Operations,
    /// The clean-close marker.
    Closed,
    /// The continuation marker: another log continues here. Its payload is that log's number.
    Continued,
    /// The start marker. Its payload is a [`LogStart`].
    Begun,
    /// The sync marker, after the last record. Everything before it is durable.
    Synced,
}

/// Header of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// Log number, also the file's name.
    pub number: u64,
    /// Part of the seed of every record checksum in the log.
    pub generation: u64,
}

/// Starting point of a log in the log chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStart {
    /// Ordinal of the log's first record.
    pub first_ordinal: u64,
    /// Lower limit of the sequence numbers in the log.
    pub first_seqno: SeqNo,
    /// Durable ordinal: every record of older logs with a smaller ordinal was durable when this log
    /// began.
    pub durable_ordinal: u64,
}

impl LogStart {
    /// Encodes the payload of the marker.
    pub fn encode(&self) -> [u8; BEGUN_BYTES as usize] {
        let mut out = [0; BEGUN_BYTES as usize];
        out[..8].copy_from_slice(&self.first_ordinal.to_le_bytes());
        out[8..16].copy_from_slice(&self.first_seqno.to_le_bytes());
        out[16..].copy_from_slice(&self.durable_ordinal.to_le_bytes());
        out
    }

    /// Decodes the payload of the marker.
    pub fn decode(payload: &[u8]) -> Option<LogStart> {
        let mut reader = Reader::new(payload);
        let start = LogStart {
            first_ordinal: reader.u64()?,
            first_seqno: reader.u64()?,
            durable_ordinal: reader.u64()?,
        };
        // No store reaches these numbers. A record's own numbers are added to them.
        let sound = start.first_seqno < SEQNO_MAX - (1 << 34) && start.first_ordinal < 1 << 62;
        sound.then_some(start)
    }
}

impl FileHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        out[24..32].copy_from_slice(&self.generation.to_le_bytes());
        let sum = checksum_parts(&[&out[..32]], 0);
        out[32..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes a header. Returns its version, and its content if the version is this one. The
    /// checksum has the same offset in every version, so damage cannot look like a newer version.
    pub fn decode(bytes: &[u8]) -> Option<(u32, Option<FileHeader>)> {
        let mut reader = Reader::new(bytes.get(..HEADER_BYTES)?);
        if reader.take(8)? != MAGIC {
            return None;
        }
        let version = reader.u32()?;
        reader.u32()?;
        let header = FileHeader { number: reader.u64()?, generation: reader.u64()? };
        let whole = reader.u64()? == checksum_parts(&[&bytes[..32]], 0);
        whole.then(|| (version, (version == VERSION).then_some(header)))
    }
}

/// Header of a record in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Checksum over the rest of the header and the payload.
    pub checksum: u64,
    /// Length of the payload, in bytes.
    pub payload_bytes: u32,
    /// Kind of the record.
    pub kind: RecordKind,
    /// Synced length of this log when the record was written, in bytes.
    pub durable_bytes: u64,
    /// Ordinal, relative to the log's first.
    pub ordinal: u32,
    /// Sequence number of the first operation, relative to the log's first.
    pub seqno: u32,
}

impl RecordHeader {
    /// Encodes the header of a record with this payload, which follows in the log.
    pub fn encode(
        &self,
        payload: &[u8],
        generation: u64,
        offset_bytes: u64,
    ) -> [u8; RECORD_HEADER_BYTES] {
        let mut head = self.fields();
        let seed = location_seed(generation, offset_bytes);
        let sum = checksum_parts(&[&head[8..], payload], seed);
        head[..8].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Encodes the header without its checksum.
    fn fields(&self) -> [u8; RECORD_HEADER_BYTES] {
        let length = match self.kind {
            RecordKind::Operations => self.payload_bytes,
            RecordKind::Closed => CLOSED,
            RecordKind::Continued => CONTINUED,
            RecordKind::Begun => BEGUN,
            RecordKind::Synced => SYNCED,
        };
        let durable = (self.durable_bytes / ALIGN_BYTES as u64) as u32;
        let mut head = [0; RECORD_HEADER_BYTES];
        head[8..12].copy_from_slice(&length.to_le_bytes());
        head[12..16].copy_from_slice(&durable.to_le_bytes());
        head[16..20].copy_from_slice(&self.ordinal.to_le_bytes());
        head[20..24].copy_from_slice(&self.seqno.to_le_bytes());
        head
    }

    /// Appends the header and `payload` with padding, and computes the checksum.
    pub fn append_to(&self, out: &mut Vec<u8>, payload: &[u8], generation: u64, offset_bytes: u64) {
        let start = out.len();
        let whole = RECORD_HEADER_BYTES + payload.len();
        out.reserve(padded(whole));
        out.extend_from_slice(&self.fields());
        out.extend_from_slice(payload);
        let sum = record_checksum(&out[start + 8..], generation, offset_bytes);
        out[start..start + 8].copy_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&[0; ALIGN_BYTES][..padded(whole) - whole]);
    }

    /// Reports whether the fields are possible at `offset_bytes` of a log of `len_bytes`. This is
    /// much cheaper than the checksum, and not a proof.
    pub fn could_be_at(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        let whole = RECORD_HEADER_BYTES as u64 + u64::from(self.payload_bytes);
        self.durable_bytes <= offset_bytes && whole <= len_bytes.saturating_sub(offset_bytes)
    }

    /// Decodes the fields. Only the checksum can tell whether they are valid.
    pub fn decode(bytes: &[u8]) -> Option<RecordHeader> {
        let mut reader = Reader::new(bytes);
        let checksum = reader.u64()?;
        let (kind, payload_bytes) = match reader.u32()? {
            CLOSED => (RecordKind::Closed, 0),
            CONTINUED => (RecordKind::Continued, CONTINUED_BYTES),
            BEGUN => (RecordKind::Begun, BEGUN_BYTES),
            SYNCED => (RecordKind::Synced, 0),
            length => (RecordKind::Operations, length),
        };
        Some(RecordHeader {
            checksum,
            payload_bytes,
            kind,
            durable_bytes: u64::from(reader.u32()?) * ALIGN_BYTES as u64,
            ordinal: reader.u32()?,
            seqno: reader.u32()?,
        })
    }
}

/// Returns the checksum of a record. `rest` has the record's bytes after the checksum field.
pub fn record_checksum(rest: &[u8], generation: u64, offset_bytes: u64) -> u64 {
    crate::base::checksum::checksum(rest, location_seed(generation, offset_bytes))
}

/// Rounds `len` up to the alignment of records.
pub fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGN_BYTES)
}
