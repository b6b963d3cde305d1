//! Shows rows of a block one after the other: the loop of a long scan.
//!
//! What stays true: where keys have no tails and values are equally long, a row costs a store of
//! eight bytes and the call; and what is shown of one block asks the processor for as much of the
//! next, if the cache has it, so that a long walk over blocks that lie anywhere in memory waits for few
//! of them.

use super::columnar::{Columnar, Even};
use super::{Block, Layout};
use crate::base::prefetch::prefetch_bytes;
use crate::base::rows::{KeyBuf, Rows, See, Shown, Way};

/// [`Rows::show`] of a block.
pub(super) fn show(block: &Block, way: Way, buf: &mut KeyBuf, see: See<'_>) -> Shown {
    match block.layout() {
        Layout::Columnar(columnar) => match columnar.even(block.data()) {
            Some(even) => show_even(block, columnar, &even, way, buf, see),
            None => show_any(block, way, buf, see),
        },
        Layout::Delta(_) => show_any(block, way, buf, see),
    }
}

fn show_even(
    block: &Block,
    columnar: &Columnar,
    even: &Even<'_>,
    way: Way,
    buf: &mut KeyBuf,
    see: See<'_>,
) -> Shown {
    let mut at = way.first;
    loop {
        let mut head = even.heads[at];
        head.reverse();
        let key = buf.set_head(even.prefix_bytes, head, even.suffix_bytes);
        let start = at * even.value_bytes;
        ask_ahead(way, even.values_at + start, even.value_bytes);
        let more = see(key, &even.values[start..start + even.value_bytes]);
        if !more || at == way.last {
            return Shown { at, row: columnar.read(block.data(), at, buf), more };
        }
        at = if way.first < way.last { at + 1 } else { at - 1 };
    }
}

fn show_any(block: &Block, way: Way, buf: &mut KeyBuf, see: See<'_>) -> Shown {
    let mut at = way.first;
    loop {
        let row = match block.layout() {
            Layout::Columnar(columnar) => columnar.read(block.data(), at, buf),
            Layout::Delta(delta) => delta.load(block.data(), at, buf),
        };
        ask_ahead(way, row.value_start as usize, row.value_bytes as usize);
        let more = see(buf.key(), block.value(row));
        if !more || at == way.last {
            return Shown { at, row, more };
        }
        at = if way.first < way.last { at + 1 } else { at - 1 };
    }
}

/// Asks the processor for what of the next block lies where in this block the value at `start` lies.
#[inline]
fn ask_ahead(way: Way, start: usize, bytes: usize) {
    if way.ahead != 0 {
        prefetch_bytes(way.ahead.wrapping_add(start), bytes);
    }
}
