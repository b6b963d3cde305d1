//! Tests of range tombstone sets against a linear scan of a list: the covering tombstone of a key,
//! the interval of the answer, the reduction to visible tombstones, and the cost of a set.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::base::key::SEQNO_MAX;
use crate::base::order::Comparator;

/// An order that ignores the case of letters.
struct AnyCase;

impl Comparator for AnyCase {
    fn name(&self) -> &str {
        "any case"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

/// The bytewise order, with a count of the comparisons.
#[derive(Default)]
struct Counting(AtomicU64);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, Atomic::Relaxed);
        a.cmp(b)
    }
}

/// An invalid order: the result depends on the order of the arguments.
struct Broken;

impl Comparator for Broken {
    fn name(&self) -> &str {
        "broken"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if a.first() == Some(&b'<') { Ordering::Less } else { b.cmp(a) }
    }
}

fn orders() -> impl Strategy<Value = KeyOrder> {
    prop_oneof![
        Just(KeyOrder::Bytewise),
        Just(KeyOrder::Reverse),
        Just(KeyOrder::Custom(Arc::new(AnyCase))),
    ]
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(b'a'), Just(b'B'), Just(b'b'), Just(b'c')], 0..4)
}

/// Returns all keys that [`keys`] can generate.
fn all_keys() -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let mut last: Vec<Vec<u8>> = all.clone();
    for _ in 0..3 {
        last =
            last.iter().flat_map(|key| b"aBbc".map(|byte| [key, &[byte][..]].concat())).collect();
        all.extend(last.clone());
    }
    all
}

fn ranges(most: usize) -> impl Strategy<Value = Vec<RangeDelete>> {
    let range = (keys(), keys(), 1..40u64);
    vec(range.prop_map(|(start, end, seqno)| RangeDelete { start, end, seqno }), 0..most)
}

fn del(start: &str, end: &str, seqno: SeqNo) -> RangeDelete {
    RangeDelete { start: start.into(), end: end.into(), seqno }
}

/// Returns the newest tombstone of `list` over `key` for a reader at `at`, by a linear scan.
fn scan(order: &KeyOrder, list: &[RangeDelete], key: &[u8], at: SeqNo) -> Option<SeqNo> {
    let covers = |t: &&RangeDelete| {
        order.compare(&t.start, key).is_le() && order.compare(key, &t.end).is_lt() && t.seqno <= at
    };
    list.iter().filter(covers).map(|t| t.seqno).max()
}

/// Returns whether `answer` is correct for `key` and for every key of its interval.
fn is_true(
    order: &KeyOrder,
    list: &[RangeDelete],
    key: &[u8],
    at: SeqNo,
    answer: Covered<'_>,
) -> bool {
    let within = |key: &[u8]| {
        answer.from.is_none_or(|from| order.compare(from, key).is_le())
            && answer.to.is_none_or(|to| order.compare(key, to).is_lt())
    };
    let keys_in_range = all_keys().into_iter().filter(|other| within(other));
    within(key)
        && answer.newest == scan(order, list, key, at)
        && keys_in_range.into_iter().all(|other| scan(order, list, &other, at) == answer.newest)
}

const READERS: [SeqNo; 7] = [0, 1, 7, 20, 33, 40, SEQNO_MAX];

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn range_set_matches_list_scan(order in orders(), list in ranges(40)) {
        let set = RangeDeletes::build(&order, &list);
        let live = list.iter().filter(|t| order.compare(&t.start, &t.end).is_lt()).count();
        prop_assert_eq!((set.len(), set.is_empty()), (live, live == 0));
        prop_assert!(set.iter().all(|t| list.contains(&t.to_owned())));
        for key in all_keys() {
            for at in READERS {
                let want = scan(&order, &list, &key, at);
                prop_assert_eq!(set.covering(&order, &key, at), want, "{:?} at {}", &key, at);
            }
            let passed = set.passed(&order, &key);
            let covered = scan(&order, &list, &key, SEQNO_MAX).is_some();
            prop_assert_eq!(set.is_covered_at(passed), covered);
        }
        for key in [&b""[..], b"b", b"bc", b"zz"] {
            prop_assert!(is_true(&order, &list, key, 20, set.covered(&order, key, 20)));
        }
    }

    #[test]
    fn rewritten_tombstones_are_equivalent_at_every_snapshot(
        order in orders(), list in ranges(30), mut snapshots in vec(0..42u64, 0..6),
    ) {
        snapshots.sort_unstable();
        let set = RangeDeletes::build(&order, &list);
        let seen = set.to_tombstones_seen(&order, &snapshots);
        prop_assert!(seen.len() <= 2 * set.len());
        prop_assert!(seen.windows(2).all(|w| order.compare(&w[0].start, &w[1].start).is_le()));
        let stripe = |s: SeqNo| snapshots.partition_point(|&n| n < s);
        for (at, one) in seen.iter().enumerate() {
            prop_assert!(order.compare(&one.start, &one.end).is_lt());
            for other in &seen[at + 1..] {
                let apart = order.compare(&one.end, &other.start).is_le()
                    || order.compare(&other.end, &one.start).is_le();
                prop_assert!(apart || stripe(one.seqno) != stripe(other.seqno));
            }
        }
        for key in all_keys() {
            for &at in snapshots.iter().chain([&SEQNO_MAX]) {
                let want = scan(&order, &list, &key, at);
                prop_assert_eq!(scan(&order, &seen, &key, at), want, "{:?} at {}", &key, at);
            }
        }
    }

    #[test]
    fn additions_are_visible_to_next_read(
        order in orders(), list in ranges(60), reads in vec(any::<bool>(), 60),
    ) {
        let mut recent = RecentRangeDeletes::default();
        for (n, (delete, read)) in list.iter().zip(reads).enumerate() {
            recent.push(delete.borrow());
            if !read {
                continue;
            }
            let sets = recent.settle(&order).to_vec();
            prop_assert!(sets.windows(2).all(|w| w[0].len() > 2 * w[1].len()));
            for key in [&b""[..], b"a", b"bb", b"ca", b"cc"] {
                let newest = sets.iter().filter_map(|s| s.covering(&order, key, 20)).max();
                prop_assert_eq!(newest, scan(&order, &list[..=n], key, 20));
            }
        }
        if !list.is_empty() {
            let all = Arc::clone(recent.merge(&order));
            prop_assert!(Arc::ptr_eq(&all, recent.merge(&order)));
            prop_assert_eq!(all.covering(&order, b"b", 30), scan(&order, &list, b"b", 30));
        }
    }

    #[test]
    fn view_restricts_each_set_to_its_slice(
        order in orders(),
        whole in vec(ranges(6), 0..3),
        cut in vec((ranges(6), proptest::option::of(keys()), proptest::option::of(keys())), 0..8),
    ) {
        let built = |list: &Vec<RangeDelete>| Arc::new(RangeDeletes::build(&order, list));
        let sets: Vec<_> = cut.iter().map(|(list, _, _)| built(list)).collect();
        let bounds = cut.iter().map(|(_, lo, hi)| (lo.as_deref(), hi.as_deref()));
        let shown = sets.iter().zip(bounds.clone()).map(|(set, (lo, hi))| (set, lo, hi));
        let runs = RangeDeleteRun::new_runs(&order, shown);
        let view = RangeDeleteView::new(whole.iter().map(built).collect(), Some(runs.into()));
        let mut all = whole.concat();
        for ((list, _, _), (lo, hi)) in cut.iter().zip(bounds) {
            all.extend(list.iter().filter_map(|t| t.borrow().clamp(&order, lo, hi)).map(|t| t.to_owned()));
        }
        for key in all_keys() {
            let answer = view.as_ref().unwrap().covered(&order, &key, 25);
            prop_assert!(is_true(&order, &all, &key, 25, answer), "{:?}: {:?}", &key, answer);
        }
    }
}

#[test]
fn range_sets_of_every_size_find_all_ranges() {
    let order = KeyOrder::Bytewise;
    let at = |i: usize| format!("{i:03}");
    for n in 0..140 {
        // Range i covers [i, i + n) and has the sequence number 2 i + 1.
        let list: Vec<_> = (0..n).map(|i| del(&at(i), &at(i + n), 2 * i as u64 + 1)).collect();
        let set = RangeDeletes::build(&order, &list);
        for key in (0..2 * n).step_by(1 + n / 9) {
            for reader in (0..2 * n as u64 + 2).step_by(1 + n / 7) {
                let want = scan(&order, &list, at(key).as_bytes(), reader);
                let found = set.covering(&order, at(key).as_bytes(), reader);
                assert_eq!(found, want, "{key} at {reader} of {n}");
            }
        }
    }
}

#[test]
fn nested_ranges_are_merged_and_adjacent_ranges_kept() {
    let order = KeyOrder::Bytewise;
    let nested: Vec<_> = (1..=2000u64).map(|i| del("", &format!("{i:05}"), i)).collect();
    let set = RangeDeletes::build(&order, &nested);
    assert_eq!(set.to_tombstones_seen(&order, &[]), vec![del("", "02000", 2000)]);
    let halves = [del("b", "c", 4), del("a", "b", 4), del("c", "d", 5)];
    let set = RangeDeletes::build(&order, &halves);
    let seen = set.to_tombstones_seen(&order, &[]);
    assert_eq!(seen, vec![del("a", "c", 4), del("c", "d", 5)], "one number side by side is one");
}

/// Returns ranges of which each overlaps all others, with keys of six bytes.
fn overlapping(count: usize) -> Vec<RangeDelete> {
    let range = |i| del(&format!("{i:06}"), &format!("{:06}", count + i), i as u64 + 1);
    (0..count).map(range).collect()
}

#[test]
fn range_set_memory_stays_within_documented_bound() {
    let order = KeyOrder::Bytewise;
    for count in [1, 2, 3, 100, 16_000, 60_000] {
        let set = RangeDeletes::build(&order, &overlapping(count));
        let bytes = set.memory_bytes() - 12 * count;
        // The levels of a wavelet tree are rounded up to whole words.
        let bound_bytes = RANGE_BYTES * count + 24 * 17;
        assert!(bytes <= bound_bytes, "{bytes} bytes for {count} ranges, at most {bound_bytes}");
        assert_eq!(set.to_tombstones_seen(&order, &[]).len(), count);
    }
}

#[test]
fn build_and_lookup_comparisons_are_n_log_n_and_log_n() {
    let counting = Arc::new(Counting::default());
    let order = KeyOrder::Custom(Arc::clone(&counting) as Arc<dyn Comparator>);
    let asked = || counting.0.swap(0, Atomic::Relaxed);
    let list = overlapping(16_000);
    let set = RangeDeletes::build(&order, &list);
    let built = asked();
    // 32,000 bounds with 15 comparisons each, and one comparison per range for emptiness.
    assert!(built <= 32_000 * 16, "{built} comparisons to build");
    assert_eq!(set.covering(&order, b"015999", 8_000), Some(8_000));
    assert!(asked() <= 16);
    set.to_tombstones_seen(&order, &[4, 900, 7_000]);
    assert!(asked() <= 32_000 * 2);
    // A read after each addition.
    let mut recent = RecentRangeDeletes::default();
    let mut sets = 0;
    for delete in &list[..4096] {
        recent.push(delete.borrow());
        sets = sets.max(recent.settle(&order).len());
    }
    let settled = asked();
    assert!(sets <= 12, "{sets} sets");
    assert!(settled <= 8_192 * 13 * 13, "{settled} comparisons to build as they come");
}

#[test]
fn inconsistent_order_does_not_panic() {
    let order = KeyOrder::Custom(Arc::new(Broken));
    let list = [del("<a", "x", 3), del("<b", "<a", 4), del("y", "x", 5), del("<", "<", 6)];
    let set = RangeDeletes::build(&order, &list);
    for key in ["", "<", "<a", "a", "x", "y"] {
        for at in 0..8 {
            let found = set.covering(&order, key.as_bytes(), at);
            assert!(found.is_none_or(|seqno| seqno <= at));
        }
    }
    assert!(set.to_tombstones_seen(&order, &[4]).len() <= 2 * set.len());
}
