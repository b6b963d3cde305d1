//! The entries of an encoded index, one after the other.
//!
//! Invariant: an entry that is returned has a separator and lengths within their limits.

use std::ops::RangeInclusive;

use crate::base::coding::Reader;
use crate::base::key::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};

use super::BLOCK_BYTES_MAX;
use super::format::TRAILER_BYTES;

/// Maximum length of a block before compression, in bytes: one entry and the largest block, with
/// room for the columns.
const RAW_BYTES_MAX: u64 = (VALUE_BYTES_MAX + STORED_KEY_BYTES_MAX + 2 * BLOCK_BYTES_MAX) as u64;

/// Where a block is in its file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BlockPlace {
    /// Offset of the block.
    pub(super) start: u64,
    /// Offset of the next part.
    pub(super) end: u64,
    /// Length of the block before compression, in bytes.
    pub(super) raw_bytes: usize,
}

/// One entry of an encoded index.
pub(super) struct IndexEntry<'a> {
    pub(super) separator: &'a [u8],
    pub(super) place: BlockPlace,
}

/// Reads consecutive entries of an encoded index. Ends at an entry that is cut or has a length out
/// of range.
pub(super) struct Entries<'a> {
    reader: Reader<'a>,
    offset: u64,
}

impl<'a> Entries<'a> {
    /// Reads the entries in `bytes`, of which the first is that of the block at `offset` in the file.
    pub(super) fn new(bytes: &'a [u8], offset: u64) -> Entries<'a> {
        Entries::from(Reader::new(bytes), offset)
    }

    /// Does the same for the bytes that `reader` has not read.
    pub(super) fn from(reader: Reader<'a>, offset: u64) -> Entries<'a> {
        Entries { reader, offset }
    }

    /// Returns whether all bytes are read.
    pub(super) fn is_empty(&self) -> bool {
        self.reader.is_empty()
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = IndexEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<IndexEntry<'a>> {
        let separator = self.reader.bytes().filter(|k| k.len() <= STORED_KEY_BYTES_MAX)?;
        let start = self.offset;
        let end = start.checked_add(self.reader.varint()?)?.checked_add(TRAILER_BYTES as u64)?;
        let raw_bytes = self.reader.varint().filter(|&raw| raw <= RAW_BYTES_MAX)? as usize;
        self.offset = end;
        Some(IndexEntry { separator, place: BlockPlace { start, end, raw_bytes } })
    }
}

/// A group of consecutive entries of an encoded index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryGroup {
    /// Number of the first block.
    pub(super) first: u32,
    /// Position of the first entry in the payload.
    pub(super) position: usize,
}

/// Divides the entries in `payload` into groups. A group has a number of entries in `lengths`, and
/// ends as soon as it also has `bytes_min` bytes. Only the last group may have fewer entries. The
/// payload is one that `Index::decode` accepts.
pub(super) fn entry_groups(
    payload: &[u8],
    lengths: RangeInclusive<usize>,
    bytes_min: usize,
) -> Vec<EntryGroup> {
    let mut reader = Reader::new(payload);
    let count = reader.varint().unwrap_or(0) as usize;
    let before = reader.position();
    let mut entries = Entries::new(payload.get(before..).unwrap_or_default(), 0);
    let mut groups: Vec<EntryGroup> = Vec::new();
    for at in 0..count {
        let position = before + entries.reader.position();
        let is_full = |group: &EntryGroup| {
            let entries = at - group.first as usize;
            entries == *lengths.end()
                || (lengths.contains(&entries) && position - group.position >= bytes_min)
        };
        if groups.last().is_none_or(is_full) {
            groups.push(EntryGroup { first: at as u32, position });
        }
        if entries.next().is_none() {
            break;
        }
    }
    groups
}
