//! Entries: a user key, a sequence number, a kind and a value.
//!
//! Internal order is user key ascending (in the store's key order), then sequence number
//! descending. The newest version of a key therefore comes first.

/// A sequence number, assigned to a write at commit. Larger is newer. Always below 2^56.
pub type SeqNo = u64;

/// The largest sequence number. A read at this number sees the newest version.
pub const SEQNO_MAX: SeqNo = (1 << 56) - 1;

/// Maximum length of a key, in bytes: 1 MiB.
pub const KEY_BYTES_MAX: usize = 1 << 20;

/// Maximum length of a stored key, in bytes: a key and the prefix of its keyspace.
pub const STORED_KEY_BYTES_MAX: usize = KEY_BYTES_MAX + super::keyspace::PREFIX_BYTES;

/// Maximum length of a value, in bytes: 1 GiB.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// Maximum length of a stored value, in bytes: a value and the time at which it expires.
pub const STORED_VALUE_BYTES_MAX: usize = VALUE_BYTES_MAX + super::expiry::TIME_BYTES;

/// The kind of an entry: its effect on the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A tombstone: the key has no value from this sequence number on.
    Delete = 0,
    /// A put: the key has this value from this sequence number on.
    Put = 1,
    /// A range tombstone, only in WAL records and batches. The key is the start of the range, the
    /// value is the end (exclusive).
    RangeDelete = 2,
    /// A merge operand: the key has the value that the merge operator makes of the next older
    /// version and this operand.
    Merge = 3,
    /// A put that expires. The value begins with the time ([`super::expiry`]). From that time on
    /// the entry acts as a tombstone.
    PutExpiring = 4,
    /// A put whose value is in a value file, only in tables. The entry's value is a pointer
    /// ([`super::separated`]).
    PutSeparated = 5,
}

impl Kind {
    /// Returns the kind with this number on disk, or `None` if the number is unknown.
    pub fn from_u8(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            2 => Some(Kind::RangeDelete),
            3 => Some(Kind::Merge),
            4 => Some(Kind::PutExpiring),
            5 => Some(Kind::PutSeparated),
            _ => None,
        }
    }

    /// Returns whether an entry of a memtable or a table may have the kind with this number on
    /// disk.
    #[inline]
    pub fn is_of_entries(byte: u8) -> bool {
        byte == Kind::Put as u8
            || byte == Kind::Delete as u8
            || byte == Kind::Merge as u8
            || byte == Kind::PutExpiring as u8
            || byte == Kind::PutSeparated as u8
    }

    /// Returns the kind of an entry of a memtable or a table, whose number on disk was checked.
    #[inline]
    pub fn of_entry(byte: u8) -> Kind {
        if byte == Kind::Put as u8 {
            return Kind::Put;
        }
        match byte {
            3 => Kind::Merge,
            4 => Kind::PutExpiring,
            5 => Kind::PutSeparated,
            _ => Kind::Delete,
        }
    }
}

/// Packs the sequence number and kind into one word, `seqno << 8 | kind`, as stored on disk.
#[inline]
pub fn pack(seqno: SeqNo, kind: Kind) -> u64 {
    (seqno << 8) | kind as u64
}

/// Unpacks a word made by [`pack`]. Returns `None` if the kind is unknown.
#[inline]
pub fn unpack(word: u64) -> Option<(SeqNo, Kind)> {
    Some((word >> 8, Kind::from_u8(word as u8)?))
}

/// Returns the key head: the first eight bytes of `suffix` (a key without its common prefix) as a
/// big-endian number, padded with zeros. In bytewise order `head(a) < head(b)` implies `a < b`.
/// Equal heads decide nothing.
#[inline]
pub fn head(suffix: &[u8]) -> u64 {
    match suffix.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => short_head(suffix),
    }
}

/// Returns the [`head`] of fewer than eight bytes. It combines the first and last four (or two)
/// bytes, which may overlap. This avoids a call to copy a variable length.
#[inline]
fn short_head(suffix: &[u8]) -> u64 {
    let end = 64 - 8 * suffix.len() as u32;
    if let (Some(first), Some(last)) = (suffix.first_chunk::<4>(), suffix.last_chunk::<4>()) {
        return u64::from(u32::from_be_bytes(*first)) << 32
            | u64::from(u32::from_be_bytes(*last)) << end;
    }
    if let (Some(first), Some(last)) = (suffix.first_chunk::<2>(), suffix.last_chunk::<2>()) {
        return u64::from(u16::from_be_bytes(*first)) << 48
            | u64::from(u16::from_be_bytes(*last)) << end;
    }
    suffix.first().map_or(0, |&byte| u64::from(byte) << 56)
}

/// Returns whether `suffix` is the least of all suffixes with the same [`head`], in bytewise order.
/// This holds if `suffix` has at most eight bytes and does not end in a zero byte.
#[inline]
pub fn is_minimum_of_head(suffix: &[u8]) -> bool {
    suffix.len() <= 8 && suffix.last() != Some(&0)
}

/// Returns the first sixteen bytes of a key as a big-endian number, padded with zeros. In bytewise
/// order a smaller number implies a smaller key. Equal numbers decide nothing.
#[inline]
pub fn head16(key: &[u8]) -> u128 {
    match key.first_chunk::<16>() {
        Some(first) => u128::from_be_bytes(*first),
        None => u128::from(head(key)) << 64 | u128::from(key.get(8..).map_or(0, head)),
    }
}

/// Returns whether `key` begins with `prefix`, which may be empty.
///
/// An empty prefix skips the comparison. A vectorised `memcmp` of length zero may still do a masked
/// load from the dangling address of an empty slice, and the suppressed fault takes 75 to 150 ns.
#[inline]
pub fn has_prefix(key: &[u8], prefix: &[u8]) -> bool {
    prefix.is_empty() || key.starts_with(prefix)
}

/// Returns the number of leading bytes that two keys share.
#[inline]
pub fn shared_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_fixed_numbers_on_disk() {
        let kinds = [
            Kind::Delete,
            Kind::Put,
            Kind::RangeDelete,
            Kind::Merge,
            Kind::PutExpiring,
            Kind::PutSeparated,
        ];
        for (number, kind) in (0..).zip(kinds) {
            assert_eq!(Kind::from_u8(number), Some(kind));
            let of_entries = kind != Kind::RangeDelete;
            assert_eq!(Kind::is_of_entries(number), of_entries);
            assert!(!of_entries || Kind::of_entry(number) == kind);
            assert_eq!(unpack(pack(7, kind)), Some((7, kind)));
        }
        assert_eq!(Kind::from_u8(6), None);
        assert!(!Kind::is_of_entries(6));
    }

    #[test]
    fn head_equals_padded_prefix_and_preserves_order() {
        let bytes = [0, 1, 0x7f, 0x80, 0xff];
        let mut suffixes: Vec<Vec<u8>> = vec![Vec::new()];
        for len in 1..=10usize {
            // Each byte at each position, among bytes that differ from their neighbours.
            for (place, &byte) in (0..len).flat_map(|place| bytes.iter().map(move |b| (place, b))) {
                let mut suffix: Vec<u8> = (0..len).map(|i| bytes[i % 5]).collect();
                suffix[place] = byte;
                suffixes.push(suffix);
            }
        }
        for suffix in &suffixes {
            let mut padded = suffix.clone();
            padded.resize(8.max(suffix.len()), 0);
            let want = u64::from_be_bytes(*padded.first_chunk().expect("eight bytes"));
            assert_eq!(head(suffix), want, "{suffix:?}");
        }
        let longer =
            suffixes.iter().flat_map(|a| suffixes.iter().map(move |b| [&a[..], b].concat()));
        for key in longer.filter(|key| key.len() <= 18) {
            let mut padded = key.clone();
            padded.resize(16.max(key.len()), 0);
            let want = u128::from_be_bytes(*padded.first_chunk().expect("sixteen bytes"));
            assert_eq!(head16(&key), want, "{key:?}");
        }
        for a in &suffixes {
            for b in &suffixes {
                assert!(head(a) >= head(b) || a < b);
                let least = is_minimum_of_head(a) && head(a) == head(b);
                assert!(!least || a <= b, "{a:?} {b:?}");
            }
        }
    }
}
