//! Many pairs, or many values, in one buffer.
//!
//! ```text
//! count u32 | flags u32 | nanoseconds f64 | count × (key length u32 | value length u32 | key | value)
//! ```
//!
//! Invariants: numbers are little-endian. The length [`MISSING`] stands for a value that does not
//! exist.

/// Bytes before the first pair.
pub const HEADER_BYTES: usize = 16;
/// Length of a value that does not exist.
pub const MISSING: u32 = u32::MAX;
/// Flag: no pair follows the last one.
pub const DONE: u32 = 1;
/// Flag: every byte of the pairs is ASCII.
pub const ASCII: u32 = 2;

/// A reply that is being made.
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    /// Number of pairs.
    pub count: u32,
    is_ascii: bool,
}

impl<'a> Reply<'a> {
    /// Begins a reply in `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Reply<'a> {
        out.clear();
        out.resize(HEADER_BYTES, 0);
        Reply { out, count: 0, is_ascii: true }
    }

    /// Returns the length of the reply, in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.out.len()
    }

    /// Adds a pair.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        let value_bytes = value.map_or(MISSING, |value| value.len() as u32);
        self.out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.out.extend_from_slice(&value_bytes.to_le_bytes());
        self.out.extend_from_slice(key);
        let value = value.unwrap_or_default();
        self.out.extend_from_slice(value);
        self.is_ascii = self.is_ascii && key.is_ascii() && value.is_ascii();
        self.count += 1;
    }

    /// Ends the reply.
    pub fn end(self, done: bool) {
        let flags = if done { DONE } else { 0 } | if self.is_ascii { ASCII } else { 0 };
        self.out[..4].copy_from_slice(&self.count.to_le_bytes());
        self.out[4..8].copy_from_slice(&flags.to_le_bytes());
    }
}

/// Notes in a reply how long its making took.
pub fn set_nanoseconds(reply: &mut [u8], nanoseconds: f64) {
    if let Some(place) = reply.get_mut(8..HEADER_BYTES) {
        place.copy_from_slice(&nanoseconds.to_le_bytes());
    }
}
