//! The encoding of operations, used by batches, WAL records and recovery.
//!
//! Per operation: kind `u8`, then the key (varint length and bytes). A put adds the value and a
//! range deletion adds the end of the range, both in the same form as the key.

use super::coding::{Reader, put_bytes};
use super::key::{KEY_BYTES_MAX, Kind, VALUE_BYTES_MAX};

/// One operation, borrowed from its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op<'a> {
    /// The kind of the operation.
    pub kind: Kind,
    /// The key, or the start of a range.
    pub key: &'a [u8],
    /// The value of a put, the end of a range (exclusive), or empty for a delete.
    pub value: &'a [u8],
}

/// Appends the encoding of a put.
pub fn encode_put(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.push(Kind::Put as u8);
    put_bytes(out, key);
    put_bytes(out, value);
}

/// Appends the encoding of a delete.
pub fn encode_delete(out: &mut Vec<u8>, key: &[u8]) {
    out.push(Kind::Delete as u8);
    put_bytes(out, key);
}

/// Appends the encoding of a range deletion of `[start, end)`.
pub fn encode_range_delete(out: &mut Vec<u8>, start: &[u8], end: &[u8]) {
    out.push(Kind::RangeDelete as u8);
    put_bytes(out, start);
    put_bytes(out, end);
}

/// An iterator over encoded operations. It yields `Some(op)` for each operation. At invalid bytes
/// it yields `None` once and then ends.
pub struct Ops<'a> {
    reader: Reader<'a>,
    failed: bool,
}

impl<'a> Ops<'a> {
    /// Creates an iterator over the operations in `payload`.
    pub fn new(payload: &'a [u8]) -> Ops<'a> {
        Ops { reader: Reader::new(payload), failed: false }
    }

    fn read(&mut self) -> Option<Op<'a>> {
        let kind = Kind::from_u8(self.reader.u8()?)?;
        let key = self.reader.bytes().filter(|k| k.len() <= KEY_BYTES_MAX)?;
        let value = match kind {
            Kind::Delete => &[][..],
            Kind::Put => self.reader.bytes().filter(|v| v.len() <= VALUE_BYTES_MAX)?,
            Kind::RangeDelete => self.reader.bytes().filter(|e| e.len() <= KEY_BYTES_MAX)?,
        };
        Some(Op { kind, key, value })
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Option<Op<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Option<Op<'a>>> {
        if self.failed || self.reader.is_empty() {
            return None;
        }
        let op = self.read();
        self.failed = op.is_none();
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_round_trip_and_corruption_stops_decoding() {
        let mut bytes = Vec::new();
        encode_put(&mut bytes, b"k", b"v");
        encode_delete(&mut bytes, b"");
        encode_range_delete(&mut bytes, b"a", b"z");
        let ops: Vec<_> = Ops::new(&bytes).flatten().collect();
        assert_eq!(ops[0], Op { kind: Kind::Put, key: b"k", value: b"v" });
        assert_eq!(ops[1], Op { kind: Kind::Delete, key: b"", value: b"" });
        assert_eq!(ops[2], Op { kind: Kind::RangeDelete, key: b"a", value: b"z" });
        for len in 1..bytes.len() {
            let read: Vec<_> = Ops::new(&bytes[..len]).collect();
            assert!(read.len() <= 3 && read.iter().rev().skip(1).all(Option::is_some));
        }
        assert_eq!(Ops::new(&[7, 0]).next(), Some(None));
    }
}
