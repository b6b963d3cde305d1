//! Filters: a few bits per key that rule out absent keys.
//!
//! The built-in filter is a blocked Bloom filter (Putze, Sanders, Singler, "Cache-, Hash- and
//! Space-Efficient Bloom Filters", WEA 2007). All bits of a key are in one line of 64 bytes, so a
//! lookup costs one cache miss. On disk:
//!
//! ```text
//! none:   nothing
//! bloom:  1 u8 | bits set per key u8 | lines of 64 bytes
//! custom: 2 u8 | name length varint | name | the user's bytes
//! ```
//!
//! Invariants: a filter never denies a key that it was built from. Filters are read in place.

use std::sync::Arc;

use crate::base::cache_block_pool::CacheBlockPool;
use crate::base::coding::{Reader, put_bytes};
use crate::base::filter_policy::key_hash;
use crate::base::huge_page_box::HugePageBox;
use crate::base::prefetch::prefetch_lines;

use super::{FilterConfig, FilterPolicy};

/// Length of a line in bytes.
pub(super) const LINE_BYTES: usize = 64;
const BLOOM: u8 = 1;
const CUSTOM: u8 = 2;

/// Returns the index of a key's line among `lines` lines: the upper half of the hash, scaled.
#[inline]
pub(super) fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

/// Visits a key's bit positions within its line: nine bits each, seven per word.
#[inline]
fn for_each_bit(hash: u64, probes: u32, mut visit: impl FnMut(usize) -> bool) -> bool {
    let mut word = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ hash.rotate_left(32);
    let mut left = probes;
    while left > 0 {
        let mut bits = word;
        for _ in 0..left.min(7) {
            if !visit((bits & 511) as usize) {
                return false;
            }
            bits >>= 9;
        }
        left = left.saturating_sub(7);
        word = (word ^ (word >> 31)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    true
}

/// Returns whether a line has all bits of a key with this hash.
#[inline(always)]
pub(super) fn line_passes(line: &[u8; LINE_BYTES], hash: u64, probes: u32) -> bool {
    for_each_bit(hash, probes, |bit| line[bit >> 3] & (1 << (bit & 7)) != 0)
}

/// The shape of a Bloom filter.
#[derive(Clone, Copy)]
pub(super) struct BloomShape {
    /// Number of lines, at least 1. They are the end of the payload.
    pub(super) lines: usize,
    /// Bits set per key.
    pub(super) probes: u32,
}

impl BloomShape {
    /// Returns the shape of the filter with this payload. `None` if the payload is malformed or that
    /// of another filter.
    pub(super) fn of(payload: &[u8]) -> Option<BloomShape> {
        let [BLOOM, probes, lines @ ..] = payload else { return None };
        let whole = !lines.is_empty()
            && lines.len().is_multiple_of(LINE_BYTES)
            && lines.len() / LINE_BYTES <= u32::MAX as usize
            && (1..=30).contains(probes);
        whole.then(|| BloomShape { lines: lines.len() / LINE_BYTES, probes: u32::from(*probes) })
    }
}

/// Number of hashes per segment.
const SEGMENT: usize = 8 << 10;

/// Hashes in segments. Only the first segment is copied as it grows. One growing vector would take
/// up to three times the memory, and a table of small pairs has a million hashes.
#[derive(Default)]
pub(super) struct Hashes {
    full: Vec<Vec<u64>>,
    last: Vec<u64>,
    count: usize,
}

impl Hashes {
    #[inline]
    fn push(&mut self, hash: u64) {
        if self.last.len() == self.last.capacity() {
            self.next_segment();
        }
        self.last.push(hash);
        self.count += 1;
    }

    /// Makes room for another hash. Only the first segment grows, so that a small table takes
    /// little memory.
    #[cold]
    fn next_segment(&mut self) {
        if self.last.len() < SEGMENT {
            self.last.reserve_exact(self.last.len().max(64));
        } else {
            self.full.push(std::mem::replace(&mut self.last, Vec::with_capacity(SEGMENT)));
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        self.full.iter().flatten().chain(&self.last).copied()
    }
}

/// Collects the keys of a table and builds its filter.
pub(super) enum FilterBuilder {
    None,
    Bloom { bits_per_key: f64, hashes: Hashes },
    Custom { policy: Arc<dyn FilterPolicy>, keys: Vec<u8>, ends: Vec<usize> },
}

impl FilterBuilder {
    pub(super) fn new(config: &FilterConfig) -> FilterBuilder {
        match config {
            FilterConfig::Bloom { bits_per_key } if *bits_per_key > 0.0 => FilterBuilder::Bloom {
                bits_per_key: bits_per_key.min(64.0),
                hashes: Hashes::default(),
            },
            FilterConfig::Custom(policy) => FilterBuilder::Custom {
                policy: Arc::clone(policy),
                keys: Vec::new(),
                ends: Vec::new(),
            },
            _ => FilterBuilder::None,
        }
    }

    /// Adds a key. The caller passes each distinct key once.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8]) {
        match self {
            FilterBuilder::None => {}
            FilterBuilder::Bloom { hashes, .. } => hashes.push(key_hash(key)),
            FilterBuilder::Custom { keys, ends, .. } => {
                keys.extend_from_slice(key);
                ends.push(keys.len());
            }
        }
    }

    /// Returns the approximate length of the filter in bytes.
    pub(super) fn estimated_bytes(&self) -> u64 {
        match self {
            FilterBuilder::None => 0,
            FilterBuilder::Bloom { bits_per_key, hashes } => {
                (hashes.count as f64 * bits_per_key / 8.0) as u64 + LINE_BYTES as u64
            }
            FilterBuilder::Custom { ends, .. } => ends.len() as u64 * 2,
        }
    }

    /// Appends the filter's payload.
    pub(super) fn finish(&self, out: &mut Vec<u8>) {
        match self {
            FilterBuilder::None => {}
            FilterBuilder::Bloom { bits_per_key, hashes } => bloom(*bits_per_key, hashes, out),
            FilterBuilder::Custom { policy, keys, ends } => {
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let keys: Vec<&[u8]> = starts.zip(ends).map(|(s, &e)| &keys[s..e]).collect();
                out.push(CUSTOM);
                put_bytes(out, policy.name().as_bytes());
                out.extend_from_slice(&policy.create(&keys));
            }
        }
    }
}

fn bloom(bits_per_key: f64, hashes: &Hashes, out: &mut Vec<u8>) {
    let bits = hashes.count as f64 * bits_per_key;
    let lines = ((bits / (LINE_BYTES * 8) as f64).ceil() as usize).clamp(1, u32::MAX as usize);
    let probes = ((bits_per_key * std::f64::consts::LN_2).round() as u32).clamp(1, 30);
    out.push(BLOOM);
    out.push(probes as u8);
    let start = out.len();
    out.resize(start + lines * LINE_BYTES, 0);
    let field = &mut out[start..];
    for hash in hashes.iter() {
        let line = &mut field[line_of(hash, lines) * LINE_BYTES..][..LINE_BYTES];
        for_each_bit(hash, probes, |bit| {
            line[bit >> 3] |= 1 << (bit & 7);
            true
        });
    }
}

/// The bits of a group of keys, in one line of the processor's cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct FilterLine([u8; LINE_BYTES]);

/// A filter of an open table.
pub(super) enum Filter {
    /// No filter: every key may be present.
    None,
    /// A blocked Bloom filter.
    Bloom { lines: HugePageBox<FilterLine>, probes: u32 },
    /// A filter of the user's policy. The user's bytes start at offset `at` of `payload`.
    Custom { policy: Arc<dyn FilterPolicy>, payload: Vec<u8>, at: usize },
}

impl Filter {
    /// Decodes a payload. The lines of a Bloom filter are placed in `pages`. Returns `None` when
    /// the payload is malformed. A custom filter of another policy decodes to no filter.
    pub(super) fn decode(
        payload: &[u8],
        policy: Option<&Arc<dyn FilterPolicy>>,
        pages: &Arc<CacheBlockPool>,
    ) -> Option<Filter> {
        match payload {
            [] => Some(Filter::None),
            [BLOOM, _, lines @ ..] => BloomShape::of(payload).map(|shape| {
                let lines = lines.as_chunks().0.iter().map(|line| FilterLine(*line)).collect();
                Filter::Bloom { lines: HugePageBox::new(lines, pages), probes: shape.probes }
            }),
            [CUSTOM, rest @ ..] => {
                let mut reader = Reader::new(rest);
                let name = reader.bytes()?;
                Some(match policy {
                    Some(policy) if policy.name().as_bytes() == name => Filter::Custom {
                        policy: Arc::clone(policy),
                        payload: payload.to_vec(),
                        at: 1 + reader.position(),
                    },
                    _ => Filter::None,
                })
            }
            _ => None,
        }
    }

    /// Prefetches the line of a key with this hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Filter::Bloom { lines, .. } = self {
            prefetch_lines(std::ptr::from_ref(&lines[line_of(hash, lines.len())]).addr(), 1);
        }
    }

    /// Returns false if the table cannot hold `key`. `hash` is the [`key_hash`] of `key`.
    #[inline(always)]
    pub(super) fn may_contain(&self, key: &[u8], hash: u64) -> bool {
        match self {
            Filter::None => true,
            Filter::Bloom { lines, probes } => {
                line_passes(&lines[line_of(hash, lines.len())].0, hash, *probes)
            }
            Filter::Custom { policy, payload, at } => policy.may_contain(key, &payload[*at..]),
        }
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Filter::None => 0,
            Filter::Bloom { lines, .. } => lines.memory_bytes(),
            Filter::Custom { payload, .. } => payload.capacity(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(bits_per_key: f64, keys: u32) -> Filter {
        let mut builder = FilterBuilder::new(&FilterConfig::Bloom { bits_per_key });
        (0..keys).for_each(|i| builder.add(format!("{i:016}").as_bytes()));
        let mut payload = Vec::new();
        builder.finish(&mut payload);
        Filter::decode(&payload, None, &Arc::default()).unwrap()
    }

    fn may_contain(filter: &Filter, key: &[u8]) -> bool {
        let hash = key_hash(key);
        filter.prefetch(hash);
        filter.may_contain(key, hash)
    }

    #[test]
    fn added_keys_pass_and_false_positives_are_bounded() {
        // Bits per key, and the maximum false positives per thousand absent keys.
        for (bits, per_mille_max) in [(2.0, 450.0), (5.0, 130.0), (10.0, 15.0), (16.0, 3.0)] {
            let filter = built(bits, 50_000);
            assert!((0..50_000).all(|i| may_contain(&filter, format!("{i:016}").as_bytes())));
            let passed = (50_000..150_000)
                .filter(|i| may_contain(&filter, format!("{i:016}").as_bytes()))
                .count();
            let per_mille = passed as f64 / 100.0;
            assert!(per_mille <= per_mille_max, "{bits} bits: {per_mille} of a thousand");
        }
    }

    #[test]
    fn zero_bits_build_no_filter_and_zero_keys_build_small_filter() {
        assert!(matches!(built(0.0, 10), Filter::None));
        assert!(!may_contain(&built(10.0, 0), b"a"));
    }

    #[test]
    fn malformed_payloads_are_refused() {
        for payload in [&[1u8][..], &[1, 7], &[1, 7, 0], &[3], &[2, 9, 1]] {
            assert!(Filter::decode(payload, None, &Arc::default()).is_none(), "{payload:?}");
        }
        let mut zero = vec![1, 0];
        zero.resize(66, 0);
        assert!(Filter::decode(&zero, None, &Arc::default()).is_none());
    }
}
