//! Walking many sorted sources as one.
//!
//! [`merge`] puts sources together in internal order, [`visible`] shows of the result what a reader
//! at one sequence number sees, [`hints`] say where that is nothing, [`retain`] says what of it a
//! rewrite may drop. Nothing here knows where the entries come from.

mod coverage;
pub mod hints;
pub mod merge;
pub mod retain;
#[cfg(test)]
mod tests;
pub mod visible;

use crate::base::order::KeyOrder;
use crate::base::rows::RESTING_BYTES_MAX;

/// Whether two keys are one and the same in this order.
#[inline]
pub fn same_key(order: &KeyOrder, a: &[u8], b: &[u8]) -> bool {
    match order {
        KeyOrder::Bytewise | KeyOrder::Reverse => a == b,
        KeyOrder::Custom(_) => order.compare(a, b).is_eq(),
    }
}

/// Empties `buffer`, and gives back its memory if that is much.
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(RESTING_BYTES_MAX);
}

/// Makes `buffer` a copy of `bytes`, in the memory it has if that is enough.
#[inline]
fn copy_into(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}

/// The whole of a key of 16 to 32 bytes, in two numbers that may overlap: told from another without
/// a copy in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    len: usize,
    front: u128,
    back: u128,
}

impl Mark {
    #[inline]
    fn of(key: &[u8]) -> Option<Mark> {
        if key.len() > 32 {
            return None;
        }
        let front = u128::from_le_bytes(*key.first_chunk()?);
        let back = u128::from_le_bytes(*key.last_chunk()?);
        Some(Mark { len: key.len(), front, back })
    }
}
