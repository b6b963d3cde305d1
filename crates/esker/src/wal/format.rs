//! The log's bytes (all integers little-endian; see `docs/format.md`).
//!
//! ```text
//! header  40 bytes: magic 8 | version u32 | reserved u32 | log number u64 | generation u64
//!                   | checksum u64 over the 32 bytes before it
//! record  24 bytes + payload, padded with zeros to 8:
//!         checksum u64 over the rest of the header and the payload | payload length u32
//!         | durable u32 | ordinal u32 | sequence number u32
//! ```
//! `durable` counts multiples of eight bytes of this log; the ordinal counts from the log's first,
//! the sequence number (of the first operation) likewise. A payload length of `u32::MAX` is the mark
//! of a clean close, which has no payload; `u32::MAX - 1` is the mark that another log goes on here,
//! whose payload is that log's number (u64). Nothing follows either. `u32::MAX - 2` is the mark that
//! the log begins, which is its first record: first ordinal u64, first sequence number u64, durable
//! ordinal u64. A log can so be made before it is known what it will continue; without the mark it
//! holds nothing. `u32::MAX - 3` is the mark of a sync, which has no payload: it says, as every record
//! does, how far the log was durable, and is not the log's own; the next record goes over it. A log
//! ends before a field overflows ([`super::LogWriter::is_full`]).
//!
//! A record's checksum is seeded with the log's generation and the record's offset, so neither a
//! stale nor a misplaced record passes. Zeros, the mark of a sync or the end of the file at a record's
//! place are a clean end.

use crate::base::checksum::{checksum_parts, place_seed};
use crate::base::coding::Reader;
use crate::base::key::{SEQNO_MAX, SeqNo};

/// The first bytes of every log.
pub const MAGIC: &[u8; 8] = b"eskerWAL";
/// The version this code writes and reads.
pub const VERSION: u32 = 1;
/// Length of the file header in bytes.
pub const HEADER_BYTES: usize = 40;
/// Length of a record's header in bytes.
pub const RECORD_HEADER_BYTES: usize = 24;
/// Bytes of a log that has begun and holds no records yet.
pub const BEGUN_LOG_BYTES: u64 = (HEADER_BYTES + RECORD_HEADER_BYTES) as u64 + BEGUN_BYTES as u64;
/// Records start at multiples of this.
pub const ALIGN_BYTES: usize = 8;

/// The payload length that marks a clean close: no operations, nothing follows.
const CLOSED: u32 = u32::MAX;
/// The payload length that marks the end of a log that another continues.
const CONTINUED: u32 = u32::MAX - 1;
/// Bytes of the number in such a mark.
const CONTINUED_BYTES: u32 = 8;
/// The payload length that marks the beginning of a log.
const BEGUN: u32 = u32::MAX - 2;
/// Bytes of a log's start in such a mark.
const BEGUN_BYTES: u32 = 24;
/// The payload length that marks the end of what was synced: no operations, not the log's own.
const SYNCED: u32 = u32::MAX - 3;
/// The longest payload of operations.
pub const PAYLOAD_BYTES_MAX: u32 = SYNCED - 1;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Operations.
    Operations,
    /// The mark of a clean close.
    Closed,
    /// The mark that another log goes on from here; its number is the payload.
    Continued,
    /// The mark that the log begins; a [`LogStart`] is the payload.
    Begun,
    /// The mark behind the last record when the log was synced: all before it is durable.
    Synced,
}

/// Which log a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// Its number, also its name.
    pub number: u64,
    /// Seeds every checksum in it.
    pub generation: u64,
}

/// Where a log goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStart {
    /// The ordinal its first record has.
    pub first_ordinal: u64,
    /// No operation in it has a smaller sequence number.
    pub first_seqno: SeqNo,
    /// Every record of older logs with a smaller ordinal was durable when this log began.
    pub durable_ordinal: u64,
}

impl LogStart {
    /// The payload of the mark.
    pub fn encode(&self) -> [u8; BEGUN_BYTES as usize] {
        let mut out = [0; BEGUN_BYTES as usize];
        out[..8].copy_from_slice(&self.first_ordinal.to_le_bytes());
        out[8..16].copy_from_slice(&self.first_seqno.to_le_bytes());
        out[16..].copy_from_slice(&self.durable_ordinal.to_le_bytes());
        out
    }

    /// Reads the payload of the mark.
    pub fn decode(payload: &[u8]) -> Option<LogStart> {
        let mut reader = Reader::new(payload);
        let start = LogStart {
            first_ordinal: reader.u64()?,
            first_seqno: reader.u64()?,
            durable_ordinal: reader.u64()?,
        };
        // No store gets this far; a record's own numbers are added to these.
        let sound = start.first_seqno < SEQNO_MAX - (1 << 34) && start.first_ordinal < 1 << 62;
        sound.then_some(start)
    }
}

impl FileHeader {
    /// The header's bytes.
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

    /// Reads a whole header: its version, and its content if the version is ours. Where the checksum
    /// lies is the same in every version, so that damage is not taken for a newer one.
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

/// A record's header, as it stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Checksum over everything after it.
    pub checksum: u64,
    /// Bytes of payload.
    pub payload_bytes: u32,
    /// What the record is.
    pub kind: RecordKind,
    /// How far this log was known to be synced when the record was written, in bytes.
    pub durable_bytes: u64,
    /// Counts records from the log's first.
    pub ordinal: u32,
    /// The sequence number of the first operation, from the log's first.
    pub seqno: u32,
}

impl RecordHeader {
    /// Appends the header and `payload` with padding, computing the checksum.
    pub fn append_to(&self, out: &mut Vec<u8>, payload: &[u8], generation: u64, offset_bytes: u64) {
        let start = out.len();
        let whole = RECORD_HEADER_BYTES + payload.len();
        out.reserve(padded(whole));
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
        out.extend_from_slice(&head);
        out.extend_from_slice(payload);
        let sum = record_checksum(&out[start + 8..], generation, offset_bytes);
        out[start..start + 8].copy_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&[0; ALIGN_BYTES][..padded(whole) - whole]);
    }

    /// Whether the fields could be those of a record at `offset_bytes` of a log of `len_bytes`. Cheap
    /// beside the checksum, and not a proof.
    pub fn could_be_at(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        let whole = RECORD_HEADER_BYTES as u64 + u64::from(self.payload_bytes);
        self.durable_bytes <= offset_bytes && whole <= len_bytes.saturating_sub(offset_bytes)
    }

    /// Reads the fields; whether they mean anything is for the checksum to say.
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

/// The checksum of a record whose bytes after the checksum field are `rest`.
pub fn record_checksum(rest: &[u8], generation: u64, offset_bytes: u64) -> u64 {
    crate::base::checksum::checksum(rest, place_seed(generation, offset_bytes))
}

/// `len` rounded up to a record's alignment.
pub fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGN_BYTES)
}
