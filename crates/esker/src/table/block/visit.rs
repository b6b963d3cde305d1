//! Passes the rows of a block to a visitor: the inner loop of a long scan.
//!
//! Invariants:
//! 1. If keys have no tails and all values have the same length, a row costs a store of eight bytes
//!    and the call, because the layout is checked once per row batch.
//! 2. Visiting one block prefetches as many bytes of the next block, if the cache has it. A long
//!    scan over blocks at scattered addresses then seldom waits for memory.

use super::{Block, Layout};
use crate::base::prefetch::prefetch_bytes;
use crate::base::rows::{KeyBuf, RowRange, Rows, VisitResult, Visitor};

/// Implements [`Rows::for_each_row`] for a block.
pub(super) fn visit_rows(
    block: &Block,
    range: RowRange,
    buf: &mut KeyBuf,
    visit: Visitor<'_>,
) -> VisitResult {
    let data = block.data();
    let (at, more) = match block.layout() {
        Layout::Columnar(columnar) => match columnar.even(data) {
            Some(read) => visit_with(data, range, buf, visit, read),
            None => visit_with(data, range, buf, visit, |at, buf| {
                columnar.read(data, at, buf).value_span()
            }),
        },
        Layout::Delta(delta) => {
            visit_with(data, range, buf, visit, |at, buf| delta.load(data, at, buf).value_span())
        }
    };
    VisitResult { at, row: block.load(at, buf), more }
}

/// Visits the rows. Returns the last visited row and whether another row is wanted. `read` puts a
/// row's key in the buffer and returns the start and length of its value.
#[inline]
fn visit_with(
    data: &[u8],
    range: RowRange,
    buf: &mut KeyBuf,
    visit: Visitor<'_>,
    read: impl Fn(usize, &mut KeyBuf) -> (usize, usize),
) -> (usize, bool) {
    let mut at = range.first;
    loop {
        let (start, bytes) = read(at, buf);
        if range.ahead != 0 {
            prefetch_bytes(range.ahead.wrapping_add(start), bytes);
        }
        let more = visit(buf.key(), &data[start..start + bytes]);
        if !more || at == range.last {
            return (at, more);
        }
        at = if range.first < range.last { at + 1 } else { at - 1 };
    }
}
