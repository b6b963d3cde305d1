//! Empty-range hints: key ranges without visible keys. A scan uses them to skip tombstones instead
//! of stepping over each one.
//!
//! A hint states that no key strictly between `after` and `before` was visible at sequence number
//! `since` and time `from_ms`, nor at any later ones so far. Hints are in memory only. No result
//! depends on their presence.
//!
//! Invariants:
//! 1. Only the holder of the commit lock changes the list, and readers get the list as a whole. A
//!    hint enters the list only if no put into its range with a number above `since` has been
//!    committed. A put into its range removes the key from the hint before the put becomes visible.
//! 2. A reader that found number `r` visible *before* it took the list may therefore use every hint
//!    with `since <= r`. A key visible at `r` inside the range would come from a put numbered in
//!    `since + 1 ..= r`. That put was published before the list was taken, so its key was removed
//!    from the hint. The same holds for an earlier snapshot, because its number was visible before
//!    the iterator took the list. A list stays valid for its reader's number indefinitely.
//! 3. A reader may see less than its number promises. A commit between its read state and its
//!    number can be missing ([`crate::read`]). A hint from between the two would hide keys whose
//!    deletes are missing from the read state. A batch that moved a pair would then be seen in
//!    part. The number `r` above must therefore have been visible before the *read state* was
//!    taken. Everything up to `r` is in the read state, and the reader sees the store at some
//!    number not below `r`.
//! 4. A pair that has expired stays expired, because the clock of an open store does not go back. A
//!    hint over such pairs has the time of the reader that found it, and readers at an earlier time
//!    do not use it. A hint without such pairs has the time 0.
//! 5. Hints are sorted in the store's order and do not overlap. The bounds are not part of the
//!    range: a hint says nothing about them.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::base::thresholds::Thresholds;
use crate::metrics::Counter;

/// Maximum number of puts that may cut a hint or one of its parts. One more put drops all parts.
/// Each cut rebuilds the list, and the total must not cost more than finding the hint did.
const CUTS_MAX: u8 = 15;
/// Maximum length of a hint's bound in bytes, which limits the size of the list.
pub const BOUND_BYTES_MAX: usize = 1024;

/// A bound of a hint. `None` is the end of the key space.
pub type Edge = Option<Arc<[u8]>>;

/// A key range without a visible key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The range begins after this key.
    pub after: Edge,
    /// The range ends before this key.
    pub before: Edge,
    /// Sequence number from which on no key of the range is visible.
    pub since: SeqNo,
    /// Time in milliseconds since 1970 from which on no key of the range is visible.
    pub from_ms: u64,
    /// Estimated number of entries that a scan skips.
    pub dead: u64,
    cuts_left: u8,
}

impl Hint {
    /// Creates a hint for the keys between `after` and `before`, for every time.
    pub fn new(after: Edge, before: Edge, since: SeqNo, dead: u64) -> Hint {
        Hint { after, before, since, from_ms: 0, dead, cuts_left: CUTS_MAX }
    }

    /// Returns whether a reader at the sequence number `as_of` and the time `at_ms` may use the hint.
    fn is_for(&self, as_of: SeqNo, at_ms: u64) -> bool {
        self.since <= as_of && self.from_ms <= at_ms
    }

    /// Returns whether `key` lies inside the range.
    pub fn contains(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.after.as_ref().is_none_or(|after| order.compare(after, key).is_lt())
            && self.before.as_ref().is_none_or(|before| order.compare(key, before).is_lt())
    }

    fn is_empty(&self, order: &KeyOrder) -> bool {
        !is_before(order, &self.after, &self.before)
    }

    fn is_short(&self) -> bool {
        let short = |edge: &Edge| edge.as_ref().is_none_or(|key| key.len() <= BOUND_BYTES_MAX);
        short(&self.after) && short(&self.before)
    }
}

/// Returns whether a range that begins after `after` can hold a key before `before`.
fn is_before(order: &KeyOrder, after: &Edge, before: &Edge) -> bool {
    match (after, before) {
        (Some(after), Some(before)) => order.compare(after, before).is_lt(),
        _ => true,
    }
}

/// The hints of a store at one point in time.
#[derive(Debug, Clone)]
pub struct Hints {
    list: Vec<Hint>,
    /// Maximum number of hints. The hints that save the fewest steps are dropped first.
    hints_max: usize,
    /// Number of jumps by readers.
    pub jumps: Arc<Counter>,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints::new(Thresholds::default().hints_max)
    }
}

impl Hints {
    /// Creates an empty list of at most `hints_max` hints.
    pub fn new(hints_max: usize) -> Hints {
        Hints { list: Vec::new(), hints_max, jumps: Arc::default() }
    }

    /// Returns the number of hints.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no hints.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns all hints, in key order.
    #[cfg(test)]
    pub fn all(&self) -> &[Hint] {
        &self.list
    }

    /// Returns the index of the hint that contains `key`.
    fn position(&self, order: &KeyOrder, key: &[u8]) -> Option<usize> {
        let begun = |hint: &Hint| hint.after.as_ref().is_none_or(|a| order.compare(a, key).is_lt());
        let at = self.list.partition_point(begun).checked_sub(1)?;
        self.list[at].contains(order, key).then_some(at)
    }

    /// Returns the hint that contains `key`.
    pub fn find(&self, order: &KeyOrder, key: &[u8]) -> Option<&Hint> {
        Some(&self.list[self.position(order, key)?])
    }

    /// Does the same for a reader that may use hints with `since` up to `as_of` and `from_ms` up to
    /// `at_ms`.
    pub fn find_for(
        &self,
        order: &KeyOrder,
        key: &[u8],
        as_of: SeqNo,
        at_ms: u64,
    ) -> Option<&Hint> {
        self.find(order, key).filter(|hint| hint.is_for(as_of, at_ms))
    }

    /// Returns the first hint in key order, or without `first` the last one.
    pub fn outermost(&self, first: bool) -> Option<&Hint> {
        if first { self.list.first() } else { self.list.last() }
    }

    /// Returns the last hint that ends at or before `key`.
    pub fn below(&self, order: &KeyOrder, key: &[u8]) -> Option<&Hint> {
        let ended =
            |hint: &Hint| hint.before.as_ref().is_some_and(|b| order.compare(b, key).is_le());
        self.list[..self.list.partition_point(ended)].last()
    }

    /// Adds a hint and merges it with all hints that overlap it. All of them hold now, so the
    /// merged hint holds from the latest `since` and the latest `from_ms` on. Returns `false` when the hint is not kept.
    pub fn add(&mut self, order: &KeyOrder, hint: Hint) -> bool {
        if hint.is_empty(order) || !hint.is_short() {
            return false;
        }
        let from = self.list.partition_point(|h| !is_before(order, &hint.after, &h.before));
        let to = self.list.partition_point(|h| is_before(order, &h.after, &hint.before));
        let mut all = hint;
        let overlapped = from..to.max(from);
        if let (Some(first), Some(last)) =
            (self.list[overlapped.clone()].first(), self.list[overlapped.clone()].last())
        {
            if is_lower(order, &first.after, &all.after) {
                all.after = first.after.clone();
            }
            if is_higher(order, &last.before, &all.before) {
                all.before = last.before.clone();
            }
        }
        for old in &self.list[overlapped.clone()] {
            all.since = all.since.max(old.since);
            all.from_ms = all.from_ms.max(old.from_ms);
            all.dead = all.dead.max(old.dead);
        }
        let kept = (all.after.clone(), all.before.clone());
        self.list.splice(overlapped, [all]);
        self.keep_the_longest();
        self.list.iter().any(|h| h.after == kept.0 && h.before == kept.1)
    }

    /// Removes `key`, which is being put, from the hint that contains it. Returns `false` when no
    /// hint does.
    pub fn cut(&mut self, order: &KeyOrder, key: &[u8]) -> bool {
        let Some(at) = self.position(order, key) else { return false };
        let hint = self.list.remove(at);
        if hint.cuts_left == 0 || key.len() > BOUND_BYTES_MAX {
            return true;
        }
        let (key, cuts_left) = (Some(Arc::from(key)), (hint.cuts_left - 1) / 2);
        let dead = hint.dead / 2;
        let front = Hint { before: Clone::clone(&key), cuts_left, dead, ..hint.clone() };
        let back = Hint { after: key, cuts_left, dead, ..hint };
        self.list.splice(at..at, [front, back]);
        self.keep_the_longest();
        true
    }

    /// Removes every hint that may contain a key of `[lo, hi]`, which are being made visible. Returns
    /// `false` when there is none.
    pub fn remove_range(&mut self, order: &KeyOrder, lo: &[u8], hi: &[u8]) -> bool {
        let held = self.list.len();
        self.list.retain(|hint| {
            let is_after = hint.after.as_ref().is_some_and(|a| order.compare(hi, a).is_le());
            let is_before = hint.before.as_ref().is_some_and(|b| order.compare(b, lo).is_le());
            is_after || is_before
        });
        self.list.len() < held
    }

    fn keep_the_longest(&mut self) {
        while self.list.len() > self.hints_max {
            let shortest = (0..self.list.len()).min_by_key(|&at| self.list[at].dead);
            self.list.remove(shortest.unwrap_or(0));
        }
    }
}

/// Returns whether the range that begins after `a` begins before the range that begins after `b`.
fn is_lower(order: &KeyOrder, a: &Edge, b: &Edge) -> bool {
    match (a, b) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(a), Some(b)) => order.compare(a, b) == Ordering::Less,
    }
}

/// Returns whether the range that ends before `a` ends after the range that ends before `b`.
fn is_higher(order: &KeyOrder, a: &Edge, b: &Edge) -> bool {
    match (a, b) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(a), Some(b)) => order.compare(a, b) == Ordering::Greater,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::order::Comparator;

    /// Maximum number of hints in these tests.
    const HINTS_MAX: usize = 8;

    fn edge(key: &[u8]) -> Edge {
        Some(Arc::from(key))
    }

    fn hint(after: u8, before: u8, since: SeqNo) -> Hint {
        Hint::new(edge(&[after]), edge(&[before]), since, u64::from(before.abs_diff(after)))
    }

    fn ranges(hints: &Hints) -> Vec<(u8, u8, SeqNo)> {
        let byte = |edge: &Edge, end: u8| edge.as_ref().map_or(end, |key| key[0]);
        hints.all().iter().map(|h| (byte(&h.after, 0), byte(&h.before, 255), h.since)).collect()
    }

    /// Returns whether a hint contains `key`, found by a linear scan, and checks that
    /// [`Hints::find`] agrees.
    fn covers(order: &KeyOrder, hints: &Hints, key: u8) -> bool {
        let slow = hints.all().iter().any(|h| h.contains(order, &[key]));
        assert_eq!(hints.find(order, &[key]).is_some(), slow);
        slow
    }

    #[test]
    fn overlapping_hints_merge_and_adjacent_hints_do_not() {
        let order = KeyOrder::Bytewise;
        let mut hints = Hints::new(HINTS_MAX);
        assert!(hints.add(&order, hint(10, 20, 1)));
        assert!(hints.add(&order, hint(40, 50, 2)));
        // The hints say nothing about key 20 itself.
        assert!(hints.add(&order, hint(20, 30, 3)));
        assert_eq!(ranges(&hints), [(10, 20, 1), (20, 30, 3), (40, 50, 2)]);
        assert!(hints.add(&order, hint(19, 21, 4)));
        assert_eq!(ranges(&hints), [(10, 30, 4), (40, 50, 2)]);
        assert!(hints.add(&order, Hint::new(None, edge(&[45]), 5, 9)));
        assert_eq!(ranges(&hints), [(0, 50, 5)]);
        assert!(hints.add(&order, Hint::new(None, None, 6, 9)));
        assert_eq!(ranges(&hints), [(0, 255, 6)]);
        assert!(!hints.add(&order, hint(7, 7, 8)), "an empty range");
        assert!(!hints.add(&order, Hint::new(edge(&[1; BOUND_BYTES_MAX + 1]), None, 9, 9)));
    }

    #[test]
    fn reader_uses_hints_up_to_its_seqno_and_bounds_are_exclusive() {
        let order = KeyOrder::Bytewise;
        let mut hints = Hints::new(HINTS_MAX);
        hints.add(&order, hint(10, 20, 7));
        assert!(hints.find_for(&order, &[15], 6, 0).is_none());
        assert!(hints.find_for(&order, &[15], 7, 0).is_some());
        for outside in [9, 10, 20, 21] {
            assert!(hints.find_for(&order, &[outside], 9, 0).is_none());
        }
        assert!(hints.find_for(&order, &[10, 0], 9, 0).is_some());
        assert!(hints.below(&order, &[19]).is_none());
        assert!(hints.below(&order, &[20]).is_some());
        hints.add(&order, hint(30, 40, 8));
        let outermost = |first| hints.outermost(first).map(|hint| hint.since);
        assert_eq!((outermost(true), outermost(false)), (Some(7), Some(8)));
    }

    #[test]
    fn hint_over_expired_pairs_is_for_readers_at_its_time_and_later() {
        let order = KeyOrder::Bytewise;
        let mut hints = Hints::new(HINTS_MAX);
        hints.add(&order, Hint { from_ms: 100, ..hint(10, 20, 7) });
        assert!(hints.find_for(&order, &[15], 7, 99).is_none());
        assert!(hints.find_for(&order, &[15], 6, 100).is_none());
        assert!(hints.find_for(&order, &[15], 7, 100).is_some());
        // A hint for every time that overlaps it gets its time, and so do the parts of a cut.
        hints.add(&order, hint(19, 30, 3));
        assert!(hints.cut(&order, &[25]));
        for key in [15, 22, 27] {
            assert!(hints.find_for(&order, &[key], 9, 99).is_none(), "{key}");
            assert!(hints.find_for(&order, &[key], 9, 100).is_some(), "{key}");
        }
    }

    #[test]
    fn put_splits_hint_until_split_limit() {
        let order = KeyOrder::Bytewise;
        let mut hints = Hints::new(HINTS_MAX);
        hints.add(&order, hint(10, 200, 7));
        assert!(!hints.cut(&order, &[10]) && !hints.cut(&order, &[200]));
        assert!(hints.cut(&order, &[50]));
        assert_eq!(ranges(&hints), [(10, 50, 7), (50, 200, 7)]);
        let mut cuts = 1;
        for key in 51..200 {
            cuts += u8::from(hints.cut(&order, &[key]));
        }
        assert!(cuts <= CUTS_MAX, "{cuts}");
        assert_eq!(ranges(&hints)[0], (10, 50, 7));
        assert!(hints.find_for(&order, &[100], 9, 0).is_none(), "the rest of the hint was kept");
        assert!(hints.cut(&order, &[11; BOUND_BYTES_MAX + 1]));
        assert!(hints.find_for(&order, &[12], 9, 0).is_none(), "a long bound was kept");
    }

    #[test]
    fn splits_of_one_hint_are_limited() {
        let order = KeyOrder::Bytewise;
        for order_of_keys in [|n: u8| n.reverse_bits(), |n: u8| n, |n: u8| n.wrapping_mul(91)] {
            let mut hints = Hints::new(HINTS_MAX);
            hints.add(&order, Hint::new(None, None, 7, 1 << 40));
            let cuts = (1..=u8::MAX).filter(|n| hints.cut(&order, &[order_of_keys(*n)])).count();
            // The cuts that split, and one dropping cut for each remaining part.
            assert!(cuts <= 2 * usize::from(CUTS_MAX) + 1, "{cuts}");
            assert!(hints.len() <= HINTS_MAX);
        }
    }

    #[test]
    fn hints_that_skip_least_are_evicted_first() {
        let order = KeyOrder::Bytewise;
        let mut hints = Hints::new(HINTS_MAX);
        for at in 0..=HINTS_MAX as u8 {
            let (after, before) = (edge(&[2 * at]), edge(&[2 * at + 1]));
            hints.add(&order, Hint::new(after, before, 1, u64::from(at.abs_diff(3))));
        }
        assert_eq!(hints.len(), HINTS_MAX);
        assert!(hints.find_for(&order, &[6, 0], 1, 0).is_none(), "the shortest hint was kept");
        assert!(
            !hints.add(&order, Hint::new(edge(&[250]), None, 1, 0)),
            "a hint shorter than all others was added"
        );
    }

    /// Compares bytes with the upper half first, and letters without case.
    struct CustomOrder;

    impl Comparator for CustomOrder {
        fn name(&self) -> &str {
            "strange"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            let rank = |k: &[u8]| k.iter().map(|b| b.to_ascii_lowercase() ^ 64).collect::<Vec<_>>();
            rank(a).cmp(&rank(b))
        }
    }

    #[test]
    fn hints_match_model_in_every_order() {
        use proptest::prelude::*;
        let orders =
            [KeyOrder::Bytewise, KeyOrder::Reverse, KeyOrder::Custom(Arc::new(CustomOrder))];
        let steps = proptest::collection::vec((any::<bool>(), any::<u8>(), any::<u8>()), 1..60);
        proptest!(ProptestConfig { failure_persistence: None, ..Default::default() },
        |(steps in steps, which in 0usize..3)| {
            let order = &orders[which];
            let mut hints = Hints::new(HINTS_MAX);
            let mut dead = [false; 256];
            for (since, (add, a, b)) in steps.into_iter().enumerate() {
                if add {
                    let (after, before) =
                        if order.compare(&[a], &[b]).is_lt() { (a, b) } else { (b, a) };
                    let new = Hint::new(edge(&[after]), edge(&[before]), since as SeqNo, 1);
                    for key in 0..=255u8 {
                        dead[key as usize] |= new.contains(order, &[key]);
                    }
                    hints.add(order, new);
                } else {
                    for key in 0..=255u8 {
                        dead[key as usize] &= order.compare(&[key], &[a]).is_ne();
                    }
                    let was = covers(order, &hints, a);
                    prop_assert_eq!(hints.cut(order, &[a]), was);
                }
                for key in 0..=255u8 {
                    let hidden = covers(order, &hints, key);
                    prop_assert!(!hidden || dead[key as usize], "{key} is not known to be dead");
                }
                for pair in hints.all().windows(2) {
                    let apart = (pair[0].before.as_deref(), pair[1].after.as_deref());
                    let (Some(end), Some(start)) = apart else { panic!("an open end inside") };
                    prop_assert!(order.compare(end, start).is_le());
                }
                prop_assert!(hints.len() <= HINTS_MAX);
            }
        });
    }
}
