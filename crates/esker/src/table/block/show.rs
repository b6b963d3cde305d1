//! Shows rows of a block one after the other: the loop of a long scan.
//!
//! What stays true: where keys have no tails and values are equally long, a row costs a store of
//! eight bytes and the call, for the layout is asked once a stretch; and what is shown of one block
//! asks the processor for as much of the next, if the cache has it, so that a long walk over blocks
//! that lie anywhere in memory waits for few of them.

use super::{Block, Layout};
use crate::base::prefetch::prefetch_bytes;
use crate::base::rows::{KeyBuf, Rows, See, Shown, Way};

/// [`Rows::show`] of a block.
pub(super) fn show(block: &Block, way: Way, buf: &mut KeyBuf, see: See<'_>) -> Shown {
    let data = block.data();
    let (at, more) = match block.layout() {
        Layout::Columnar(columnar) => match columnar.even(data) {
            Some(read) => walk(data, way, buf, see, read),
            None => walk(data, way, buf, see, |at, buf| columnar.read(data, at, buf).value_span()),
        },
        Layout::Delta(delta) => {
            walk(data, way, buf, see, |at, buf| delta.load(data, at, buf).value_span())
        }
    };
    Shown { at, row: block.load(at, buf), more }
}

/// The last row shown, and whether another is wanted. `read` puts a row's key in the buffer and
/// says where its value starts and how long it is.
#[inline]
fn walk(
    data: &[u8],
    way: Way,
    buf: &mut KeyBuf,
    see: See<'_>,
    read: impl Fn(usize, &mut KeyBuf) -> (usize, usize),
) -> (usize, bool) {
    let mut at = way.first;
    loop {
        let (start, bytes) = read(at, buf);
        if way.ahead != 0 {
            prefetch_bytes(way.ahead.wrapping_add(start), bytes);
        }
        let more = see(buf.key(), &data[start..start + bytes]);
        if !more || at == way.last {
            return (at, more);
        }
        at = if way.first < way.last { at + 1 } else { at - 1 };
    }
}
