//! A block of one large value. Its bytes are written without a copy of the value.
//!
//! Invariant: the bytes before the value, the value, and the bytes after it equal a block of the
//! builders.

use super::columnar::{EQUAL_SUFFIXES, EQUAL_VALUES, WORD_ZERO};
use super::{TAG_COLUMNAR, TAG_DELTA};
use crate::base::coding::{put_u32, put_u64, put_varint};
use crate::base::key::head;

/// Returns the bytes before the value in a columnar block. The value ends the block.
pub(super) fn columnar(key: &[u8], word: u64, value_bytes: usize) -> Vec<u8> {
    let narrow = word != WORD_ZERO;
    let flags = EQUAL_SUFFIXES | EQUAL_VALUES;
    let mut out = Vec::with_capacity(key.len() + 64);
    out.extend_from_slice(&[TAG_COLUMNAR, flags, if narrow { 4 } else { 0 }, 0]);
    // The key is the shared prefix, so the suffix is empty.
    for field in [1, key.len() as u32, 0, value_bytes as u32] {
        put_u32(&mut out, field);
    }
    if narrow {
        put_u64(&mut out, word);
    }
    out.extend_from_slice(key);
    put_u64(&mut out, head(&[]));
    if narrow {
        put_u32(&mut out, 0);
    }
    out
}

/// Returns the bytes before and after the value in a delta block.
pub(super) fn delta(
    key: &[u8],
    word: u64,
    value_bytes: usize,
    interval: usize,
) -> (Vec<u8>, Vec<u8>) {
    let (mut before, mut after) = (vec![TAG_DELTA], Vec::new());
    for number in [0, key.len() as u64, value_bytes as u64, word] {
        put_varint(&mut before, number);
    }
    before.extend_from_slice(key);
    put_u32(&mut after, 1);
    put_u32(&mut after, interval as u32);
    (before, after)
}
