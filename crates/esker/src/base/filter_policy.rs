//! Filters of keys: the hash they go by, and one of the user's own.

use super::checksum::checksum;

/// A seed of its own, so that a key's bits have nothing to do with other hashes of it.
const SEED: u64 = 0x5BD1_E995_A3B1_C6F7;

/// The hash a key is filtered by.
#[inline(always)]
pub fn key_hash(key: &[u8]) -> u64 {
    checksum(key, SEED)
}

/// Answers, per file, whether a key may be in it.
///
/// A filter must never say `false` for a key it was made from: the store would lose it from sight. A
/// policy that panics in a thread of the store makes the store refuse writes until it is opened again.
pub trait FilterPolicy: Send + Sync + 'static {
    /// A name that identifies the filter's format for ever; files made under another name are
    /// read without a filter.
    fn name(&self) -> &str;
    /// A filter over `keys`, which are in the store's order and distinct.
    fn create(&self, keys: &[&[u8]]) -> Vec<u8>;
    /// Whether `key` may be among the keys `filter` was made from.
    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool;
}
