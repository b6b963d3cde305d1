//! What an entry is: a user key, a sequence number, a kind and a value.
//!
//! Entries are ordered by user key ascending (in the store's order), then by sequence number
//! descending, so the newest version of a key comes first.

/// The number a write got when it was committed; larger is newer. Below 2^56.
pub type SeqNo = u64;

/// The largest sequence number: "the newest version".
pub const SEQNO_MAX: SeqNo = (1 << 56) - 1;

/// The longest key, in bytes: 1 MiB.
pub const KEY_BYTES_MAX: usize = 1 << 20;

/// The longest value, in bytes: 1 GiB.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// What an entry does to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A tombstone: the key has no value from here on.
    Delete = 0,
    /// The key has this value from here on.
    Put = 1,
    /// A range tombstone, in a log record or batch only: key is the start, value the end (exclusive).
    RangeDelete = 2,
}

impl Kind {
    /// The kind with this number on disk, if there is one.
    pub fn from_u8(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            2 => Some(Kind::RangeDelete),
            _ => None,
        }
    }
}

/// The sequence number and kind in one word, `seqno << 8 | kind`, as stored on disk.
#[inline]
pub fn pack(seqno: SeqNo, kind: Kind) -> u64 {
    (seqno << 8) | kind as u64
}

/// The inverse of [`pack`]; `None` when the kind is unknown.
#[inline]
pub fn unpack(word: u64) -> Option<(SeqNo, Kind)> {
    Some((word >> 8, Kind::from_u8(word as u8)?))
}

/// Eight bytes of `suffix` (a key without its common prefix) as a big-endian number, padded with
/// zeros. In bytewise order, `head(a) < head(b)` implies `a < b`; equal heads decide nothing.
#[inline]
pub fn head(suffix: &[u8]) -> u64 {
    if let Some(first) = suffix.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0u8; 8];
    bytes[..suffix.len()].copy_from_slice(suffix);
    u64::from_be_bytes(bytes)
}

/// Sixteen bytes of a key as a big-endian number, padded with zeros. In bytewise order a smaller
/// number is a smaller key; equal numbers decide nothing.
#[inline]
pub fn head16(key: &[u8]) -> u128 {
    if let Some(first) = key.first_chunk::<16>() {
        return u128::from_be_bytes(*first);
    }
    let mut bytes = [0; 16];
    bytes[..key.len()].copy_from_slice(key);
    u128::from_be_bytes(bytes)
}

/// Whether `key` begins with `prefix`, which may be empty.
///
/// Nothing is not compared: a vectorised `memcmp` of nothing may still load, masked, from the
/// dangling address of an empty slice, and the suppressed fault takes 75 to 150 ns.
#[inline]
pub fn has_prefix(key: &[u8], prefix: &[u8]) -> bool {
    prefix.is_empty() || key.starts_with(prefix)
}

/// How many leading bytes two keys share.
#[inline]
pub fn shared_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}
