//! A block of one large value, whose bytes are written from where the value lies.
//!
//! What stays true: what is before the value, the value, and what is behind it are a block as the
//! builders make them.

use super::columnar::{EQUAL_SUFFIXES, EQUAL_VALUES, WORD_ZERO};
use super::{TAG_COLUMNAR, TAG_DELTA};
use crate::base::coding::{put_u32, put_u64, put_varint};
use crate::base::key::head;

/// What is before the value in a columnar block, which ends with it.
pub(super) fn columnar(key: &[u8], word: u64, value_bytes: usize) -> Vec<u8> {
    let narrow = word != WORD_ZERO;
    let flags = EQUAL_SUFFIXES | EQUAL_VALUES;
    let mut out = Vec::with_capacity(key.len() + 64);
    out.extend_from_slice(&[TAG_COLUMNAR, flags, if narrow { 4 } else { 0 }, 0]);
    // The key is the prefix that all keys share; nothing is left behind it.
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

/// What is before and behind the value in a delta block.
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
