//! Values: slices of one pool, so that writing needs no generation and checking is a comparison.
//!
//! The generated pool follows db_bench: pieces of 100 bytes, each a random text repeated so that a
//! compressor reaches about the requested ratio. A value is determined by its key and by the
//! generation of the task that wrote it, so a stale, foreign or torn value is detected.

use super::rng::{Rng, mix};

/// A value as a position in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueRef {
    start: u32,
    len: u32,
}

impl ValueRef {
    /// Represents a missing key.
    pub const ABSENT: ValueRef = ValueRef { start: u32::MAX, len: 0 };

    /// Creates a reference to the value at `start` with `len` bytes.
    pub fn new(start: u32, len: u32) -> ValueRef {
        ValueRef { start, len }
    }

    /// Returns whether this represents a missing key.
    #[inline]
    pub fn is_absent(self) -> bool {
        self.start == u32::MAX
    }

    /// Returns the bytes of the value; 0 if absent.
    pub fn len_bytes(self) -> u64 {
        u64::from(self.len)
    }
}

/// Source of the bytes of all values of a benchmark.
#[derive(Clone, Debug, Default)]
pub struct ValuePool {
    bytes: Vec<u8>,
}

/// Minimum size of a generated pool in bytes. db_bench's pool has 1 MiB and is read sequentially.
/// The positions of these values are random, so the pool must fit in a second-level cache beside
/// the engine's data; otherwise each operation of each engine would include a cache miss of the
/// lab.
const POOL_BYTES_MIN: usize = 1 << 18;
const PIECE_BYTES: usize = 100;

impl ValuePool {
    /// Generates random text that compresses to about `ratio` (0..=1) of its size, for values of up
    /// to `value_bytes_max`.
    pub fn generate(seed: u64, ratio: f64, value_bytes_max: usize) -> ValuePool {
        let mut rng = Rng::for_part(seed, 0x7A1);
        let size = POOL_BYTES_MIN.max(value_bytes_max.saturating_mul(2));
        let fresh = ((PIECE_BYTES as f64 * ratio).round() as usize).clamp(1, PIECE_BYTES);
        let mut bytes = Vec::with_capacity(size + PIECE_BYTES);
        while bytes.len() < size {
            let start = bytes.len();
            for _ in 0..fresh {
                bytes.push(b' ' + rng.below(95) as u8);
            }
            for place in fresh..PIECE_BYTES {
                bytes.push(bytes[start + place % fresh]);
            }
        }
        ValuePool { bytes }
    }

    /// Creates an empty pool to which values are added.
    pub fn new() -> ValuePool {
        ValuePool::default()
    }

    /// Adds a value; `None` if the pool would exceed 4 GiB.
    pub fn add(&mut self, value: &[u8]) -> Option<ValueRef> {
        let start = u32::try_from(self.bytes.len()).ok().filter(|&start| start != u32::MAX)?;
        let len = u32::try_from(value.len()).ok()?;
        start.checked_add(len)?;
        self.bytes.extend_from_slice(value);
        Some(ValueRef { start, len })
    }

    /// Returns the value of `len` bytes for `key` in `generation`; `None` if the pool is shorter.
    pub fn cut(&self, key: u64, generation: u32, len: usize) -> Option<ValueRef> {
        let room = (self.bytes.len().checked_sub(len)? + 1) as u64;
        let spread = mix(key ^ (u64::from(generation) << 40) ^ 0xE5_4E_12);
        let start = ((u128::from(spread) * u128::from(room)) >> 64) as u32;
        Some(ValueRef { start, len: len as u32 })
    }

    /// Returns the bytes of a value; empty if absent.
    #[inline]
    pub fn get(&self, value: ValueRef) -> &[u8] {
        if value.is_absent() {
            return &[];
        }
        &self.bytes[value.start as usize..value.start as usize + value.len as usize]
    }

    /// Returns the bytes in the pool.
    pub fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_repeat_at_compression_ratio() {
        let pool = ValuePool::generate(1, 0.5, 100);
        let piece = &pool.bytes[..PIECE_BYTES];
        assert_eq!(piece[..50], piece[50..]);
        let full = ValuePool::generate(1, 1.0, 100);
        assert_ne!(full.bytes[..50], full.bytes[50..100]);
    }

    #[test]
    fn value_depends_on_key_and_generation() {
        let pool = ValuePool::generate(1, 0.5, 100);
        let of = |key, generation| pool.cut(key, generation, 100);
        assert_eq!(of(5, 1), of(5, 1));
        assert_ne!(of(5, 1), of(5, 2));
        assert_ne!(of(5, 1), of(6, 1));
        assert!(pool.cut(1, 1, usize::MAX).is_none());
        assert_eq!(pool.get(ValueRef::ABSENT), b"");
    }
}
