//! What was written of a key since its last delete, and the value that it therefore has at any time.
//!
//! Invariants: the value is made by one call of the merge operator with all operands. So any other
//! grouping that a store chooses must have the same result.

use esker::built_in_merge_operator;

use super::keyspaces::MERGE_OPERATOR;
use super::ops::Op;

/// The end of a span without an end, in milliseconds since 1970.
const NEVER_MS: u64 = u64::MAX;

/// A span of time, in milliseconds since 1970: the first moment, and the first one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64, u64);

impl Span {
    /// The first span in the order of spans.
    pub const FIRST: Span = Span(0, 0);

    /// Returns whether a moment is in the span.
    pub fn contains(self, at_ms: u64) -> bool {
        self.0 <= at_ms && at_ms < self.1
    }
}

/// What was written of a key since its last delete.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    /// The last put, and the time at which it expires.
    put: Option<(Vec<u8>, u64)>,
    /// The operands since, oldest first.
    operands: Vec<Vec<u8>>,
}

impl Cell {
    /// Returns the cell of a put. It expires at a time, or never.
    pub fn put(value: &[u8], expires_ms: Option<u64>) -> Cell {
        Cell { put: Some((value.to_vec(), expires_ms.unwrap_or(NEVER_MS))), operands: Vec::new() }
    }

    /// Returns what is written of a key after an operation on it at a time.
    pub fn after(cell: Option<Cell>, op: &Op, now_ms: impl FnOnce() -> u64) -> Option<Cell> {
        match op {
            Op::Put(_, _, value) => Some(Cell::put(value, None)),
            Op::PutExpiring(_, _, value, ttl_ms) => Some(Cell::put(value, Some(now_ms() + ttl_ms))),
            Op::Merge(_, _, operand) => Some(cell.unwrap_or_default().merged(operand)),
            Op::Delete(..) | Op::DeleteRange(..) | Op::Clear(_) => None,
        }
    }

    /// Returns the cell after another operand.
    pub fn merged(mut self, operand: &[u8]) -> Cell {
        self.operands.push(operand.to_vec());
        self
    }

    /// Returns the values of the key, and when it has each. Operands stay when a put expires.
    pub fn shown(&self) -> Vec<(Span, Vec<u8>)> {
        let mut all = Vec::new();
        let put = self.put.as_ref();
        let end_ms = put.map_or(0, |(_, expires_ms)| *expires_ms);
        if let Some((value, _)) = put {
            all.push((Span(0, end_ms), self.merge(Some(value))));
        }
        if end_ms != NEVER_MS && !self.operands.is_empty() {
            all.push((Span(end_ms, NEVER_MS), self.merge(None)));
        }
        all
    }

    /// Returns the value at a time.
    pub fn value_at(&self, now_ms: u64) -> Option<Vec<u8>> {
        let all = self.shown().into_iter();
        all.rev().find(|(span, _)| span.contains(now_ms)).map(|(_, value)| value)
    }

    fn merge(&self, existing: Option<&[u8]>) -> Vec<u8> {
        let operands: Vec<&[u8]> = self.operands.iter().map(Vec::as_slice).collect();
        match (existing, operands.is_empty()) {
            (Some(value), true) => value.to_vec(),
            _ => {
                let mut value = Vec::new();
                let operator = built_in_merge_operator(MERGE_OPERATOR);
                let merged = operator.map(|it| it.full_merge(b"", existing, &operands, &mut value));
                assert_eq!(merged, Some(Ok(())), "the operator {MERGE_OPERATOR} of the campaigns");
                value
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_stay_when_the_put_below_them_expires() {
        let cell = Cell::put(b"a", Some(10)).merged(b"b").merged(b"c");
        assert_eq!(cell.value_at(9).as_deref(), Some(&b"a,b,c"[..]));
        assert_eq!(cell.value_at(10).as_deref(), Some(&b"b,c"[..]));
        assert_eq!(Cell::put(b"a", Some(10)).value_at(10), None);
        assert_eq!(Cell::put(b"a", None).value_at(10).as_deref(), Some(&b"a"[..]));
        assert_eq!(Cell::default().merged(b"b").value_at(0).as_deref(), Some(&b"b"[..]));
        assert_eq!(Cell::default().value_at(0), None);
    }
}
