//! Recent operations in a bounded number of bytes.
//!
//! The operations lie in two generations. When the newer one is full, the older one is forgotten
//! and takes the next operations. So a list holds at least the operations of one full generation,
//! and adding one allocates nothing.
//!
//! Invariants: sequence numbers ascend. Every operation with a number above `complete_from` is in
//! the list.

use crate::base::key::SeqNo;
use crate::base::keyspace::TreeId;

/// Length that marks an operation on a single key.
const NO_END: u32 = u32::MAX;

/// An operation of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentOp<'a> {
    /// The tree.
    pub tree: TreeId,
    /// The stored key, or the start of a deleted range.
    pub key: &'a [u8],
    /// The end of a deleted range, exclusive.
    pub end: Option<&'a [u8]>,
}

/// Place of an operation in the bytes of its generation.
struct Entry {
    seqno: SeqNo,
    tree: TreeId,
    at: u32,
    key_bytes: u32,
    end_bytes: u32,
}

#[derive(Default)]
struct Generation {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Generation {
    fn op(&self, entry: &Entry) -> RecentOp<'_> {
        let key_at = entry.at as usize;
        let end_at = key_at + entry.key_bytes as usize;
        let end = (entry.end_bytes != NO_END)
            .then(|| &self.bytes[end_at..end_at + entry.end_bytes as usize]);
        RecentOp { tree: entry.tree, key: &self.bytes[key_at..end_at], end }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}

/// A bounded list of recent operations.
pub struct RecentOps {
    older: Generation,
    newer: Generation,
    complete_from: SeqNo,
    /// Maximum bytes of keys in a generation.
    bytes_max: usize,
    /// Maximum number of operations in a generation.
    count_max: usize,
}

impl RecentOps {
    /// Creates an empty list. `last` is the sequence number of the last operation so far.
    pub fn new(last: SeqNo, bytes_max: usize, count_max: usize) -> RecentOps {
        let (older, newer) = (Generation::default(), Generation::default());
        RecentOps { older, newer, complete_from: last, bytes_max, count_max }
    }

    /// Adds an operation with a greater number than all before it.
    pub fn push(&mut self, seqno: SeqNo, op: RecentOp<'_>) {
        let end_len = op.end.map_or(0, <[u8]>::len);
        let bytes = op.key.len() + end_len;
        if bytes > self.bytes_max {
            return self.forget(seqno);
        }
        if self.newer.entries.len() >= self.count_max
            || self.newer.bytes.len() + bytes > self.bytes_max
        {
            self.turn();
        }
        let end_bytes = if op.end.is_some() { end_len as u32 } else { NO_END };
        let (at, key_bytes) = (self.newer.bytes.len() as u32, op.key.len() as u32);
        self.newer.entries.push(Entry { seqno, tree: op.tree, at, key_bytes, end_bytes });
        self.newer.bytes.extend_from_slice(op.key);
        self.newer.bytes.extend_from_slice(op.end.unwrap_or_default());
    }

    /// Forgets the older generation, and begins a new one.
    fn turn(&mut self) {
        if let Some(last) = self.older.entries.last() {
            self.complete_from = self.complete_from.max(last.seqno);
        }
        std::mem::swap(&mut self.older, &mut self.newer);
        self.newer.clear();
    }

    /// Forgets all operations. `last` is the number of the last operation so far.
    pub fn forget(&mut self, last: SeqNo) {
        self.older.clear();
        self.newer.clear();
        self.complete_from = last;
    }

    /// Returns whether the list has every operation after `since`.
    pub fn is_complete_since(&self, since: SeqNo) -> bool {
        since >= self.complete_from
    }

    /// Returns whether an operation of the list after `since` fulfils `matches`.
    pub fn any_since(&self, since: SeqNo, matches: impl Fn(RecentOp<'_>) -> bool) -> bool {
        [&self.newer, &self.older].iter().any(|generation| {
            let from = generation.entries.partition_point(|entry| entry.seqno <= since);
            generation.entries[from..].iter().any(|entry| matches(generation.op(entry)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(key: &[u8]) -> RecentOp<'_> {
        RecentOp { tree: 0, key, end: None }
    }

    #[test]
    fn a_full_list_forgets_the_oldest_operations_and_says_so() {
        let mut list = RecentOps::new(10, 100, 4);
        assert!(list.is_complete_since(10) && !list.is_complete_since(9));
        let mut seqno = 10;
        for round in 0..100u64 {
            seqno += 1 + round % 3;
            list.push(seqno, point(&seqno.to_be_bytes()));
            let known = |n: u64| list.any_since(n - 1, |op| op.key == n.to_be_bytes());
            assert!(known(seqno) && !list.any_since(seqno, |_| true));
            // Whatever is complete holds every pushed operation.
            let lost = (11..=seqno).rev().find(|n| !list.is_complete_since(*n));
            assert!(list.is_complete_since(seqno), "{round}");
            assert!(round < 8 || lost.is_some(), "the list grows without a bound");
        }
        let kept = (11..=seqno).filter(|n| list.any_since(n - 1, |op| op.key == n.to_be_bytes()));
        let (kept, first_sure) = (kept.collect::<Vec<u64>>(), list.complete_from + 1);
        assert!((4..=8).contains(&kept.len()) && kept[0] >= first_sure, "{kept:?}");
    }

    #[test]
    fn ranges_keep_their_ends_and_long_keys_empty_the_list() {
        let mut list = RecentOps::new(0, 8, 100);
        list.push(1, RecentOp { tree: 3, key: b"a", end: Some(b"") });
        list.push(2, RecentOp { tree: 3, key: b"", end: Some(b"cd") });
        assert!(list.any_since(0, |op| op == RecentOp { tree: 3, key: b"a", end: Some(b"") }));
        assert!(list.any_since(1, |op| op == RecentOp { tree: 3, key: b"", end: Some(b"cd") }));
        assert!(!list.any_since(0, |op| op.end.is_none()));
        list.push(3, point(&[7; 9]));
        assert!(!list.any_since(0, |_| true));
        assert!(!list.is_complete_since(2) && list.is_complete_since(3));
        list.push(4, point(&[7; 8]));
        list.push(5, point(&[8; 8]));
        assert!(list.is_complete_since(3) && list.any_since(3, |op| op.key == [7; 8]));
        list.push(6, point(&[9; 8]));
        assert!(!list.is_complete_since(3) && list.is_complete_since(4));
        list.forget(9);
        assert!(!list.is_complete_since(8) && !list.any_since(0, |_| true));
    }
}
