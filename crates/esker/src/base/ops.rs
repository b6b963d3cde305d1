//! The encoding of operations, used by batches, WAL records and recovery.
//!
//! Per operation: kind `u8`, then the key (varint length and bytes). A put adds the value, a merge
//! the operand, and a range deletion the end of the range, all in the same form as the key. The
//! value of a put that expires begins with the time ([`super::expiry`]). An operation outside of
//! tree 0 has bit 7 of the kind set, and the number of its tree (varint) after the kind. Its keys
//! are [stored keys](super::keyspace).

use super::coding::{Reader, put_bytes, put_varint};
use super::expiry::TIME_BYTES;
use super::key::{
    KEY_BYTES_MAX, Kind, STORED_KEY_BYTES_MAX, STORED_VALUE_BYTES_MAX, VALUE_BYTES_MAX,
};
use super::keyspace::{PREFIX_BYTES, Place, TreeId, prefix};

/// Bit of the first byte: the number of a tree follows.
const HAS_TREE: u8 = 0x80;

/// One operation, borrowed from its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op<'a> {
    /// The kind of the operation.
    pub kind: Kind,
    /// The tree that holds the key.
    pub tree: TreeId,
    /// The stored key, or the start of a range.
    pub key: &'a [u8],
    /// The stored value of a put, a merge operand, the end of a range (exclusive), or empty for a
    /// delete.
    pub value: &'a [u8],
}

/// Appends the kind of an operation at `place`; `None` is the default keyspace.
#[inline]
fn put_kind(out: &mut Vec<u8>, kind: Kind, place: Option<Place>) {
    match place {
        None => out.push(kind as u8),
        Some(place) => {
            out.push(kind as u8 | HAS_TREE);
            put_varint(out, u64::from(place.tree));
        }
    }
}

/// Appends the stored form of a user's key.
#[inline]
fn put_key(out: &mut Vec<u8>, key: &[u8], place: Option<Place>) {
    match place {
        None => put_bytes(out, key),
        Some(place) => {
            put_varint(out, (PREFIX_BYTES + key.len()) as u64);
            out.extend_from_slice(&prefix(place.keyspace));
            out.extend_from_slice(key);
        }
    }
}

/// Appends the encoding of a put at `place`. `key` is the user's key.
#[inline]
pub fn encode_put_at(out: &mut Vec<u8>, place: Option<Place>, key: &[u8], value: &[u8]) {
    put_kind(out, Kind::Put, place);
    put_key(out, key, place);
    put_bytes(out, value);
}

/// Appends the encoding of a put that expires at `place`. `key` is the user's key. Returns the
/// offset of the time in `out`.
pub fn encode_expiring_at(
    out: &mut Vec<u8>,
    place: Option<Place>,
    key: &[u8],
    time_ms: u64,
    value: &[u8],
) -> usize {
    put_kind(out, Kind::PutExpiring, place);
    put_key(out, key, place);
    put_varint(out, (TIME_BYTES + value.len()) as u64);
    let time_at = out.len();
    out.extend_from_slice(&time_ms.to_be_bytes());
    out.extend_from_slice(value);
    time_at
}

/// Appends the encoding of a merge at `place`. `key` is the user's key.
#[inline]
pub fn encode_merge_at(out: &mut Vec<u8>, place: Option<Place>, key: &[u8], operand: &[u8]) {
    put_kind(out, Kind::Merge, place);
    put_key(out, key, place);
    put_bytes(out, operand);
}

/// Appends the encoding of a delete at `place`. `key` is the user's key.
#[inline]
pub fn encode_delete_at(out: &mut Vec<u8>, place: Option<Place>, key: &[u8]) {
    put_kind(out, Kind::Delete, place);
    put_key(out, key, place);
}

/// Appends the encoding of a range deletion of the user's keys `[start, end)` at `place`.
pub fn encode_range_delete_at(out: &mut Vec<u8>, place: Option<Place>, start: &[u8], end: &[u8]) {
    put_kind(out, Kind::RangeDelete, place);
    put_key(out, start, place);
    put_key(out, end, place);
}

/// Appends the encoding of a deletion of the stored keys `[start, end)` of `tree`.
pub fn encode_stored_range_delete(out: &mut Vec<u8>, tree: TreeId, start: &[u8], end: &[u8]) {
    out.push(Kind::RangeDelete as u8 | HAS_TREE);
    put_varint(out, u64::from(tree));
    put_bytes(out, start);
    put_bytes(out, end);
}

/// Appends the encoding of a put into the default keyspace.
pub fn encode_put(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    encode_put_at(out, None, key, value);
}

/// Appends the encoding of a delete from the default keyspace.
pub fn encode_delete(out: &mut Vec<u8>, key: &[u8]) {
    encode_delete_at(out, None, key);
}

/// Appends the encoding of a range deletion of `[start, end)` of the default keyspace.
pub fn encode_range_delete(out: &mut Vec<u8>, start: &[u8], end: &[u8]) {
    encode_range_delete_at(out, None, start, end);
}

/// Appends the encoding of `op`.
pub fn encode(out: &mut Vec<u8>, op: &Op<'_>) {
    if op.tree == 0 {
        out.push(op.kind as u8);
    } else {
        out.push(op.kind as u8 | HAS_TREE);
        put_varint(out, u64::from(op.tree));
    }
    put_bytes(out, op.key);
    if op.kind != Kind::Delete {
        put_bytes(out, op.value);
    }
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
        let first = self.reader.u8()?;
        let kind = Kind::from_u8(first & !HAS_TREE)?;
        let (mut tree, mut key_bytes_max) = (0, KEY_BYTES_MAX);
        if first & HAS_TREE != 0 {
            tree = TreeId::try_from(self.reader.varint()?).ok().filter(|tree| *tree != 0)?;
            key_bytes_max = STORED_KEY_BYTES_MAX;
        }
        let key = self.reader.bytes().filter(|k| k.len() <= key_bytes_max)?;
        let value = match kind {
            Kind::Delete => &[][..],
            // Only tables have pointers.
            Kind::PutSeparated => return None,
            Kind::Put | Kind::Merge => {
                self.reader.bytes().filter(|v| v.len() <= VALUE_BYTES_MAX)?
            }
            Kind::PutExpiring => {
                let bytes = TIME_BYTES..=STORED_VALUE_BYTES_MAX;
                self.reader.bytes().filter(|v| bytes.contains(&v.len()))?
            }
            Kind::RangeDelete => self.reader.bytes().filter(|e| e.len() <= key_bytes_max)?,
        };
        Some(Op { kind, tree, key, value })
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
        assert_eq!(ops[0], Op { kind: Kind::Put, tree: 0, key: b"k", value: b"v" });
        assert_eq!(ops[1], Op { kind: Kind::Delete, tree: 0, key: b"", value: b"" });
        assert_eq!(ops[2], Op { kind: Kind::RangeDelete, tree: 0, key: b"a", value: b"z" });
        let place = Some(Place { tree: 300, keyspace: 5 });
        encode_put_at(&mut bytes, place, b"k", b"v");
        encode_delete_at(&mut bytes, place, b"");
        encode_range_delete_at(&mut bytes, place, b"a", b"");
        let ops: Vec<_> = Ops::new(&bytes).flatten().skip(3).collect();
        let (key, none, start) = (*b"\0\0\0\x0ak", prefix(5), *b"\0\0\0\x0aa");
        assert_eq!(ops[0], Op { kind: Kind::Put, tree: 300, key: &key, value: b"v" });
        assert_eq!(ops[1], Op { kind: Kind::Delete, tree: 300, key: &none, value: b"" });
        assert_eq!(ops[2], Op { kind: Kind::RangeDelete, tree: 300, key: &start, value: &none });
        encode_merge_at(&mut bytes, place, b"k", b"+1");
        let time_at = encode_expiring_at(&mut bytes, None, b"k", 258, b"v");
        assert_eq!(bytes[time_at..], *b"\0\0\0\0\0\0\x01\x02v");
        let ops: Vec<_> = Ops::new(&bytes).flatten().skip(6).collect();
        assert_eq!(ops[0], Op { kind: Kind::Merge, tree: 300, key: &key, value: b"+1" });
        let value = b"\0\0\0\0\0\0\x01\x02v";
        assert_eq!(ops[1], Op { kind: Kind::PutExpiring, tree: 0, key: b"k", value });
        for len in 1..bytes.len() {
            let read: Vec<_> = Ops::new(&bytes[..len]).collect();
            assert!(read.len() <= 8 && read.iter().rev().skip(1).all(Option::is_some));
        }
        assert_eq!(Ops::new(&[7, 0]).next(), Some(None));
        let short = [4, 1, b'k', 7, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(Ops::new(&short).next(), Some(None), "a time has eight bytes");
        assert_eq!(Ops::new(&[0x81, 0, 1, 7, 1, 7]).next(), Some(None), "tree 0 is never named");
    }
}
