//! A sample of the keys of a table. Tables that hold the same key agree on whether it is sampled. So
//! the samples of several tables tell how much of an older table is overwritten or deleted by newer
//! tables, without a read of its blocks (threshold sampling by hash: Duffield, Lund and Thorup,
//! "Learn more, sample less", 2005).
//!
//! Invariants:
//! 1. A key is sampled if the low bits of its hash are zero. A longer table tests more bits, so that
//!    no sample has more than [`KEYS_MAX`] keys.
//! 2. The keys of a sample are in the order of the table.

use crate::base::coding::{Reader, put_u64, put_varint};
use crate::base::expiry::NEVER_MS;
use crate::base::key::Kind;

/// Maximum number of sampled keys in a table.
const KEYS_MAX: usize = 256;
/// Number of bits that a short table tests: one key of 16 is sampled, on average.
const BITS_MIN: u32 = 4;
/// Maximum number of bits that a table tests.
const BITS_MAX: u32 = 40;

/// A sampled key and its versions in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledKey {
    /// Hash of the key.
    pub hash: u64,
    /// Bytes of keys and values in the table before this key.
    pub place_bytes: u64,
    /// Bytes of all versions of the key in the table.
    pub stored_bytes: u64,
    /// Bytes of the versions that the newest state of the key needs.
    pub live_bytes: u64,
    /// Whether older tables hold nothing that the newest state of the key needs.
    pub hides_older: bool,
    /// Time from which on the newest state needs none of the bytes, in milliseconds since 1970.
    /// [`NEVER_MS`] if there is none.
    pub expires_ms: u64,
}

/// Returns the bits of a hash that are zero in a sample that tests `bits` bits.
pub fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Collects the sample of a table, entry by entry.
pub(super) struct SampleBuilder {
    keys: Vec<SampledKey>,
    bits: u32,
    /// Hash of the last key, if it is sampled.
    last: Option<u64>,
}

impl Default for SampleBuilder {
    fn default() -> SampleBuilder {
        SampleBuilder { keys: Vec::new(), bits: BITS_MIN, last: None }
    }
}

impl SampleBuilder {
    /// Adds an entry. `hash` is the hash of its key, `place_bytes` the bytes before it, `expires_ms` its
    /// time if it expires.
    #[inline]
    pub(super) fn add(
        &mut self,
        hash: u64,
        place_bytes: u64,
        (kind, expires_ms): (Kind, Option<u64>),
        bytes: u64,
    ) {
        if hash & mask(self.bits) == 0 {
            self.add_sampled(hash, place_bytes, (kind, expires_ms), bytes);
        } else {
            self.last = None;
        }
    }

    #[cold]
    fn add_sampled(
        &mut self,
        hash: u64,
        place_bytes: u64,
        (kind, expires_ms): (Kind, Option<u64>),
        bytes: u64,
    ) {
        if self.last != Some(hash) {
            while self.keys.len() == KEYS_MAX && self.bits < BITS_MAX {
                self.bits += 1;
                let mask = mask(self.bits);
                self.keys.retain(|key| key.hash & mask == 0);
            }
            self.last = None;
            if hash & mask(self.bits) != 0 || self.keys.len() == KEYS_MAX {
                return;
            }
            self.last = Some(hash);
            self.keys.push(SampledKey {
                hash,
                place_bytes,
                stored_bytes: 0,
                live_bytes: 0,
                hides_older: false,
                expires_ms: expires_ms.unwrap_or(NEVER_MS),
            });
        }
        let Some(key) = self.keys.last_mut() else { return };
        key.stored_bytes += bytes;
        if !key.hides_older {
            key.live_bytes += if kind == Kind::Delete { 0 } else { bytes };
            key.hides_older = kind != Kind::Merge;
        }
    }

    /// Returns the encoded sample; nothing for a table without sampled keys.
    pub(super) fn encode(&self) -> Vec<u8> {
        if self.keys.is_empty() {
            return Vec::new();
        }
        let (mut out, mut place) = (vec![self.bits as u8], 0);
        for key in &self.keys {
            put_u64(&mut out, key.hash);
            put_varint(&mut out, key.place_bytes - place);
            put_varint(&mut out, key.stored_bytes);
            let expires = key.expires_ms != NEVER_MS;
            let flags = u64::from(key.hides_older) | u64::from(expires) << 1;
            put_varint(&mut out, key.live_bytes << 2 | flags);
            if expires {
                put_varint(&mut out, key.expires_ms);
            }
            place = key.place_bytes;
        }
        out
    }
}

/// Decodes the output of [`SampleBuilder::encode`]: the number of tested bits and the keys. Returns
/// `None` if the bytes are malformed.
pub(super) fn decode(bytes: &[u8]) -> Option<(u32, Vec<SampledKey>)> {
    if bytes.is_empty() {
        return Some((0, Vec::new()));
    }
    let (mut reader, mut keys, mut place) = (Reader::new(bytes), Vec::new(), 0_u64);
    let bits = u32::from(reader.u8()?);
    while !reader.is_empty() {
        let hash = reader.u64()?;
        place = place.checked_add(reader.varint()?)?;
        let stored_bytes = reader.varint()?;
        let live = reader.varint()?;
        let expires_ms = if live & 2 == 0 { NEVER_MS } else { reader.varint()? };
        keys.push(SampledKey {
            hash,
            place_bytes: place,
            stored_bytes,
            live_bytes: live >> 2,
            hides_older: live & 1 == 1,
            expires_ms,
        });
    }
    let fits = |key: &SampledKey| key.hash & mask(bits) == 0 && key.live_bytes <= key.stored_bytes;
    let is_valid = (BITS_MIN..=BITS_MAX).contains(&bits) && (1..=KEYS_MAX).contains(&keys.len());
    (is_valid && keys.iter().all(fits)).then_some((bits, keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_has_versions_of_each_key_in_order() {
        let mut builder = SampleBuilder::default();
        // Newest first: a put over a put, operands over a put, a delete over a put, an operand alone.
        builder.add(16, 0, (Kind::Put, None), 10);
        builder.add(16, 10, (Kind::Put, None), 20);
        builder.add(7, 30, (Kind::Put, None), 99);
        builder.add(32, 129, (Kind::Merge, None), 5);
        builder.add(32, 134, (Kind::Merge, None), 6);
        builder.add(32, 140, (Kind::Put, None), 30);
        builder.add(32, 170, (Kind::Put, None), 40);
        builder.add(48, 210, (Kind::Delete, None), 3);
        builder.add(48, 213, (Kind::Put, None), 50);
        builder.add(64, 263, (Kind::Merge, None), 4);
        builder.add(80, 267, (Kind::PutExpiring, Some(99)), 6);
        let bytes = builder.encode();
        let (bits, keys) = decode(&bytes).unwrap();
        assert_eq!((bits, &keys), (BITS_MIN, &builder.keys));
        let seen: Vec<_> = keys
            .iter()
            .map(|k| (k.hash, k.place_bytes, k.stored_bytes, k.live_bytes, k.hides_older))
            .collect();
        let expected = [
            (16, 0, 30, 10, true),
            (32, 129, 81, 41, true),
            (48, 210, 53, 0, true),
            (64, 263, 4, 4, false),
            (80, 267, 6, 6, true),
        ];
        assert_eq!((keys[3].expires_ms, keys[4].expires_ms), (NEVER_MS, 99));
        assert_eq!(seen, expected);
        for len in 1..bytes.len() {
            // A prefix is refused, or it is the sample of fewer keys.
            assert!(decode(&bytes[..len]).is_none_or(|(_, fewer)| fewer.len() < keys.len()));
        }
        let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            decode(&bytes).is_none()
        };
        assert!(wrong(&|bytes| bytes[0] = 3) && wrong(&|bytes| bytes[0] = 41));
        assert!(wrong(&|bytes| bytes[1] = 17), "a hash that is not sampled");
        assert!(wrong(&|bytes| bytes[11] = 200), "more live bytes than stored ones");
    }

    #[test]
    fn samples_of_long_tables_are_thinned() {
        let mut builder = SampleBuilder::default();
        for n in 0..100_000_u64 {
            let hash = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
            builder.add(hash, n * 10, (Kind::Put, None), 10);
        }
        let (bits, keys) = decode(&builder.encode()).unwrap();
        assert!((KEYS_MAX / 3..=KEYS_MAX).contains(&keys.len()), "{}", keys.len());
        assert!(bits > BITS_MIN && keys.is_sorted_by_key(|key| key.place_bytes));
        // Every key of the table that the bits choose is there.
        let chosen = (0..100_000_u64)
            .filter(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32) & mask(bits) == 0);
        assert_eq!(chosen.count(), keys.len());
        assert_eq!(decode(&[]), Some((0, Vec::new())));
        assert!(SampleBuilder::default().encode().is_empty());
    }
}
