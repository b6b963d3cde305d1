//! Key filters: the key hash and the interface for a user-defined filter.

use super::checksum::checksum;

/// Seed of the filter hash. It differs from other seeds, so that the filter bits are independent of
/// other hashes of the key.
const SEED: u64 = 0x5BD1_E995_A3B1_C6F7;

/// Returns the filter hash of a key.
#[inline(always)]
pub fn key_hash(key: &[u8]) -> u64 {
    checksum(key, SEED)
}

/// A user-defined filter: tells for each file whether it may contain a key.
///
/// A filter must never return `false` for a key it was built from, or reads would miss that key. If
/// a policy panics in a thread of the store, the store refuses writes until it is opened again. The
/// filter of an open table is in memory as a whole, whatever the memory budget is.
pub trait FilterPolicy: Send + Sync + 'static {
    /// Returns a permanent name of the filter's format. Files written under another name are read
    /// without a filter.
    fn name(&self) -> &str;
    /// Builds a filter over `keys`, which are distinct and in the store's key order.
    fn create(&self, keys: &[&[u8]]) -> Vec<u8>;
    /// Returns whether `key` may be among the keys of `filter`.
    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool;
}
