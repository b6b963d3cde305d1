//! Separated values: the pointer that a table keeps in place of a value, and the interface through
//! which readers and rewrites get the value.
//!
//! Invariants: a pointer states the checksum of its record, or of the head of its record if the value
//! is in pieces. A record that was read through a pointer is therefore the one that was written with
//! it, or the read is an error.

use std::ops::Deref;
use std::sync::Arc;

use super::coding::{Reader, put_u64, put_varint};
use super::key::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::error::Result;

/// Length of a record's header in a value file, in bytes: a checksum and two lengths.
pub const RECORD_HEADER_BYTES: usize = 16;

/// Length of a piece of a streamed value, in bytes. The last piece is shorter.
pub const PIECE_BYTES: usize = 64 << 10;

/// Length of the header of a piece, in bytes: a checksum and a length.
pub const PIECE_HEADER_BYTES: usize = 12;

/// Bit of the length of the key: the value is in pieces.
pub const STREAMED: u32 = 1 << 31;

/// Place of a value in a value file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValuePointer {
    /// Number of the value file.
    pub file: u64,
    /// Offset of the record in the file, in bytes.
    pub offset_bytes: u64,
    /// Length of the record's key, in bytes.
    pub key_bytes: u32,
    /// Length of the value, in bytes.
    pub value_bytes: u32,
    /// Checksum of the record, or of the head of a record in pieces.
    pub checksum: u64,
    /// Whether the value is in pieces, each with a checksum of its own.
    pub is_streamed: bool,
}

impl ValuePointer {
    /// Replaces the content of `out` by the encoded pointer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        put_varint(out, self.file);
        put_varint(out, self.offset_bytes);
        let flag = if self.is_streamed { STREAMED } else { 0 };
        put_varint(out, u64::from(self.key_bytes | flag));
        put_varint(out, u64::from(self.value_bytes));
        put_u64(out, self.checksum);
    }

    /// Decodes a pointer. Returns `None` unless `bytes` are exactly one pointer with lengths that a
    /// store can have.
    pub fn decode(bytes: &[u8]) -> Option<ValuePointer> {
        let mut reader = Reader::new(bytes);
        let (file, offset_bytes) = (reader.varint()?, reader.varint()?);
        let (key_word, value_bytes) = (reader.varint()?, reader.varint()?);
        let is_streamed = key_word & u64::from(STREAMED) != 0;
        let key_bytes = key_word & !u64::from(STREAMED);
        let checksum = reader.u64()?;
        let is_sound = reader.is_empty()
            && key_bytes <= STORED_KEY_BYTES_MAX as u64
            && value_bytes <= VALUE_BYTES_MAX as u64
            && offset_bytes <= u64::MAX / 2;
        is_sound.then_some(ValuePointer {
            file,
            offset_bytes,
            key_bytes: key_bytes as u32,
            value_bytes: value_bytes as u32,
            checksum,
            is_streamed,
        })
    }

    /// Returns the length of the record, in bytes.
    pub fn record_bytes(&self) -> u64 {
        let headers = if self.is_streamed { self.pieces() * PIECE_HEADER_BYTES as u64 } else { 0 };
        self.head_bytes() + headers + u64::from(self.value_bytes)
    }

    /// Returns the length of the record before its value, in bytes.
    pub fn head_bytes(&self) -> u64 {
        RECORD_HEADER_BYTES as u64 + u64::from(self.key_bytes)
    }

    /// Returns the number of pieces of a streamed value. The last one may be empty.
    pub fn pieces(&self) -> u64 {
        u64::from(self.value_bytes) / PIECE_BYTES as u64 + 1
    }
}

/// What a table references in one value file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ValueRefs {
    /// Number of the value file.
    pub file: u64,
    /// Number of records.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
}

/// Adds the record of `pointer` to `refs`, which are sorted by file.
pub fn add_reference(refs: &mut Vec<ValueRefs>, pointer: &ValuePointer) {
    // Neighbouring keys often have their values in one file.
    let at = refs.partition_point(|known| known.file < pointer.file);
    if refs.get(at).is_none_or(|known| known.file != pointer.file) {
        refs.insert(at, ValueRefs { file: pointer.file, ..ValueRefs::default() });
    }
    refs[at].records = refs[at].records.saturating_add(1);
    refs[at].bytes = refs[at].bytes.saturating_add(pointer.record_bytes());
}

/// Appends references to value files.
pub fn put_references(out: &mut Vec<u8>, refs: &[ValueRefs]) {
    put_varint(out, refs.len() as u64);
    for known in refs {
        put_varint(out, known.file);
        put_varint(out, known.records);
        put_varint(out, known.bytes);
    }
}

/// Reads what [`put_references`] wrote. Returns `None` unless the files ascend.
pub fn get_references(reader: &mut Reader<'_>) -> Option<Vec<ValueRefs>> {
    let count = reader.varint()?;
    let mut refs: Vec<ValueRefs> = Vec::new();
    for _ in 0..count {
        let next = ValueRefs {
            file: reader.varint()?,
            records: reader.varint()?,
            bytes: reader.varint()?,
        };
        if refs.last().is_some_and(|last| last.file >= next.file) {
            return None;
        }
        refs.push(next);
    }
    Some(refs)
}

/// A value that was read from a value file. It holds its own record and nothing else.
#[derive(Debug, Clone)]
pub struct ValueBytes {
    record: Arc<[u8]>,
    start: usize,
}

impl ValueBytes {
    /// Wraps a record whose value begins at `start`.
    pub fn new(record: Arc<[u8]>, start: usize) -> ValueBytes {
        ValueBytes { record, start }
    }
}

impl Deref for ValueBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.record.get(self.start..).unwrap_or_default()
    }
}

/// Reads separated values.
pub trait ReadValues: Send + Sync {
    /// Returns the value to which an encoded pointer points. `key` is the stored key beside the
    /// pointer, or `None` where the caller knows only a key that compares equal.
    ///
    /// # Errors
    /// `Corruption` for a damaged pointer or record, or a record of another key; `Io`.
    fn read_value(&self, key: Option<&[u8]>, pointer: &[u8]) -> Result<ValueBytes>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_references_decode_to_what_was_encoded_and_to_nothing_else() {
        let pointer = ValuePointer {
            file: 300,
            offset_bytes: 1 << 40,
            key_bytes: 9,
            value_bytes: 1 << 20,
            checksum: u64::MAX - 7,
            is_streamed: false,
        };
        let mut bytes = vec![7; 3];
        let streamed = ValuePointer { is_streamed: true, ..pointer };
        streamed.encode(&mut bytes);
        assert_eq!(ValuePointer::decode(&bytes), Some(streamed));
        assert_eq!(streamed.record_bytes(), pointer.record_bytes() + 17 * 12);
        pointer.encode(&mut bytes);
        assert_eq!(ValuePointer::decode(&bytes), Some(pointer));
        for len in 0..bytes.len() {
            assert_eq!(ValuePointer::decode(&bytes[..len]), None);
        }
        bytes.push(0);
        assert_eq!(ValuePointer::decode(&bytes), None);
        let mut refs = Vec::new();
        for file in [5, 3, 5, 9] {
            add_reference(&mut refs, &ValuePointer { file, ..pointer });
        }
        let each = pointer.record_bytes();
        let of = |file, records| ValueRefs { file, records, bytes: records * each };
        assert_eq!(refs, [of(3, 1), of(5, 2), of(9, 1)]);
        let mut out = Vec::new();
        put_references(&mut out, &refs);
        assert_eq!(get_references(&mut Reader::new(&out)), Some(refs.clone()));
        assert_eq!(get_references(&mut Reader::new(&out[..out.len() - 1])), None);
        refs.reverse();
        out.clear();
        put_references(&mut out, &refs);
        assert_eq!(get_references(&mut Reader::new(&out)), None, "files ascend");
    }
}
