//! Combines sorted sources into one view of the data.
//!
//! [`merge`] merges sources in internal order. [`visible`] reduces the result to the pairs visible
//! at one sequence number. [`hints`] record key ranges without visible keys. [`retain`] decides
//! which entries a rewrite may drop, and [`rewrite`] applies that, expiry, merge operators and
//! compaction filters. Nothing in this module depends on the origin of the entries.

mod coverage;
pub mod hints;
pub mod merge;
mod merged;
pub mod operands;
pub mod retain;
pub mod rewrite;
mod skips;
#[cfg(test)]
mod tests;
pub mod tombstone_run;
pub mod visible;

use crate::base::order::KeyOrder;
use crate::base::rows::IDLE_BUFFER_BYTES_MAX;

/// Returns whether two keys are equal in this order.
#[inline]
pub fn same_key(order: &KeyOrder, a: &[u8], b: &[u8]) -> bool {
    match order {
        KeyOrder::Bytewise | KeyOrder::Reverse => a == b,
        KeyOrder::Custom(_) => order.compare(a, b).is_eq(),
    }
}

/// Clears `buffer`, and frees its memory if that exceeds [`IDLE_BUFFER_BYTES_MAX`].
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(IDLE_BUFFER_BYTES_MAX);
}

/// Copies `bytes` to `buffer`. Reuses the buffer's memory if it is large enough.
#[inline]
fn copy_into(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}

/// A complete key of 16 to 32 bytes, as two numbers that may overlap. It allows a comparison of
/// keys without a copy in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ShortKey {
    len: usize,
    front: u128,
    back: u128,
}

impl ShortKey {
    #[inline]
    fn of(key: &[u8]) -> Option<ShortKey> {
        if key.len() > 32 {
            return None;
        }
        let front = u128::from_le_bytes(*key.first_chunk()?);
        let back = u128::from_le_bytes(*key.last_chunk()?);
        Some(ShortKey { len: key.len(), front, back })
    }
}
