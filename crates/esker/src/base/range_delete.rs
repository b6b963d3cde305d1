//! Range tombstones: `[start, end)` deleted at a sequence number, cut into fragments that do not
//! overlap, so that one binary search answers "what covers this key".

use std::cmp::Ordering;

use super::key::SeqNo;
use super::order::KeyOrder;

/// One call of `delete_range`: every key in `[start, end)` older than `seqno` is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeDelete {
    /// The first key deleted.
    pub start: Vec<u8>,
    /// The first key not deleted.
    pub end: Vec<u8>,
    /// When.
    pub seqno: SeqNo,
}

/// A piece of key space and every tombstone over it, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedFragment {
    /// The first key covered.
    pub start: Vec<u8>,
    /// The first key not covered.
    pub end: Vec<u8>,
    /// The tombstones' sequence numbers, descending, distinct, never empty.
    pub seqnos: Vec<SeqNo>,
}

/// A set of range tombstones as disjoint fragments in key order.
#[derive(Debug, Clone, Default)]
pub struct RangeDeletes {
    fragments: Vec<DeletedFragment>,
}

impl RangeDeletes {
    /// Cuts `tombstones` at each other's bounds. Empty or inverted ranges are dropped.
    pub fn build(order: &KeyOrder, tombstones: &[RangeDelete]) -> RangeDeletes {
        let less = |a: &[u8], b: &[u8]| order.compare(a, b) == Ordering::Less;
        let mut live: Vec<&RangeDelete> =
            tombstones.iter().filter(|t| less(&t.start, &t.end)).collect();
        live.sort_by(|a, b| order.compare(&a.start, &b.start));
        let mut bounds: Vec<&[u8]> =
            live.iter().flat_map(|t| [t.start.as_slice(), t.end.as_slice()]).collect();
        bounds.sort_by(|a, b| order.compare(a, b));
        bounds.dedup_by(|a, b| order.compare(a, b) == Ordering::Equal);
        let mut fragments = Vec::new();
        let mut next = 0;
        let mut open: Vec<&RangeDelete> = Vec::new();
        for pair in bounds.windows(2) {
            while next < live.len() && !less(pair[0], &live[next].start) {
                open.push(live[next]);
                next += 1;
            }
            open.retain(|t| less(pair[0], &t.end));
            if open.is_empty() {
                continue;
            }
            let mut seqnos: Vec<SeqNo> = open.iter().map(|t| t.seqno).collect();
            seqnos.sort_unstable_by(|a, b| b.cmp(a));
            seqnos.dedup();
            fragments.push(DeletedFragment {
                start: pair[0].to_vec(),
                end: pair[1].to_vec(),
                seqnos,
            });
        }
        RangeDeletes { fragments }
    }

    /// Whether nothing is covered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The pieces in key order.
    pub fn fragments(&self) -> &[DeletedFragment] {
        &self.fragments
    }

    /// Every tombstone again; what lies next to each other with one sequence number is one.
    pub fn to_tombstones(&self) -> Vec<RangeDelete> {
        self.tombstones_where(|_, _| true)
    }

    /// The tombstones that some reader can tell from the newer ones over them: `snapshots`
    /// (ascending) are the sequence numbers still read, besides the newest state. Without
    /// snapshots that is the newest over each key.
    pub fn to_tombstones_seen(&self, snapshots: &[SeqNo]) -> Vec<RangeDelete> {
        let stripe = |seqno: SeqNo| snapshots.partition_point(|&snapshot| snapshot < seqno);
        self.tombstones_where(|newer, seqno| newer.is_none_or(|n| stripe(n) != stripe(seqno)))
    }

    /// Those for which `keep`, given the next newer one over the same keys, is true.
    fn tombstones_where(&self, keep: impl Fn(Option<SeqNo>, SeqNo) -> bool) -> Vec<RangeDelete> {
        let mut all: Vec<RangeDelete> = Vec::new();
        // Where in `all` the tombstones of the fragment before are, by sequence number descending.
        let (mut open, mut next): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for fragment in &self.fragments {
            let mut newer = None;
            let mut candidates = open.iter().copied().peekable();
            for &seqno in &fragment.seqnos {
                if !keep(newer.replace(seqno), seqno) {
                    continue;
                }
                while candidates.next_if(|&at| all[at].seqno > seqno).is_some() {}
                let touching =
                    |at: &usize| all[*at].seqno == seqno && all[*at].end == fragment.start;
                if let Some(at) = candidates.next_if(touching) {
                    all[at].end.clone_from(&fragment.end);
                    next.push(at);
                } else {
                    let (start, end) = (fragment.start.clone(), fragment.end.clone());
                    next.push(all.len());
                    all.push(RangeDelete { start, end, seqno });
                }
            }
            open.clear();
            std::mem::swap(&mut open, &mut next);
        }
        all
    }

    /// The fragment that covers `key`, if any.
    pub fn fragment_of(&self, order: &KeyOrder, key: &[u8]) -> Option<&DeletedFragment> {
        let after =
            self.fragments.partition_point(|f| order.compare(&f.end, key) != Ordering::Greater);
        let fragment = self.fragments.get(after)?;
        (order.compare(&fragment.start, key) != Ordering::Greater).then_some(fragment)
    }

    /// The newest tombstone over `key` that a reader at `seqno` sees.
    #[inline]
    pub fn covering(&self, order: &KeyOrder, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        if self.fragments.is_empty() {
            return None;
        }
        self.fragment_of(order, key)?.seqnos.iter().copied().find(|&s| s <= seqno)
    }
}

/// `tombstone` cut to `[lo, hi)`; `None` bounds are infinite. `None` when nothing is left.
pub fn clamp(
    order: &KeyOrder,
    tombstone: &RangeDelete,
    lo: Option<&[u8]>,
    hi: Option<&[u8]>,
) -> Option<RangeDelete> {
    let later = |a: &[u8], b: &[u8]| order.compare(a, b) == Ordering::Greater;
    let start = lo.filter(|lo| later(lo, &tombstone.start)).unwrap_or(&tombstone.start);
    let end = hi.filter(|hi| later(&tombstone.end, hi)).unwrap_or(&tombstone.end);
    later(end, start).then(|| RangeDelete {
        start: start.to_vec(),
        end: end.to_vec(),
        seqno: tombstone.seqno,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn del(start: &str, end: &str, seqno: SeqNo) -> RangeDelete {
        RangeDelete { start: start.into(), end: end.into(), seqno }
    }

    #[test]
    fn overlapping_ranges_answer_as_a_scan_of_the_list_does() {
        let order = KeyOrder::Bytewise;
        let list = [
            del("b", "f", 5),
            del("a", "c", 9),
            del("d", "z", 2),
            del("q", "q", 7),
            del("x", "b", 8),
        ];
        let set = RangeDeletes::build(&order, &list);
        for key in b'a'..=b'z' {
            for at in 0..12 {
                let want = list[..3]
                    .iter()
                    .filter(|t| t.start[0] <= key && key < t.end[0] && t.seqno <= at)
                    .map(|t| t.seqno)
                    .max();
                assert_eq!(set.covering(&order, &[key], at), want, "key {} at {at}", key as char);
            }
        }
    }

    #[test]
    fn only_what_a_reader_can_tell_apart_is_written_again() {
        let order = KeyOrder::Bytewise;
        let nested: Vec<_> = (1..=2000u64).map(|i| del("", &format!("{i:05}"), i)).collect();
        let set = RangeDeletes::build(&order, &nested);
        assert_eq!(set.to_tombstones_seen(&[]), vec![del("", "02000", 2000)]);
        let list = [del("b", "f", 5), del("a", "c", 9), del("d", "z", 2), del("e", "x", 7)];
        let set = RangeDeletes::build(&order, &list);
        let same = RangeDeletes::build(&order, &set.to_tombstones());
        assert_eq!(same.fragments(), set.fragments());
        for snapshots in [vec![], vec![2], vec![4, 6], vec![1, 2, 3, 4, 5, 6, 7, 8, 9]] {
            let seen = RangeDeletes::build(&order, &set.to_tombstones_seen(&snapshots));
            for key in b'a'..=b'z' {
                // A put at any time is hidden from a reader by both or by neither.
                for at in snapshots.iter().copied().chain([20]) {
                    let stripe =
                        |s: Option<SeqNo>| s.map(|s| snapshots.partition_point(|&n| n < s));
                    let want = set.covering(&order, &[key], at);
                    let found = seen.covering(&order, &[key], at);
                    assert_eq!(found, want, "{} at {at}", key as char);
                    assert_eq!(stripe(found), stripe(want));
                }
            }
        }
    }

    #[test]
    fn fragments_hold_under_the_reverse_order() {
        let order = KeyOrder::Reverse;
        let set = RangeDeletes::build(&order, &[del("m", "c", 3)]);
        assert_eq!(set.covering(&order, b"m", 9), Some(3));
        assert_eq!(set.covering(&order, b"c", 9), None);
        assert_eq!(set.covering(&order, b"n", 9), None);
    }
}
