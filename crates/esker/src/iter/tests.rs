//! Merging, visibility and retention, compared with models that scan a list.

mod list;

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use proptest::collection::vec;
use proptest::prelude::*;

use super::merge::MergeCursor;
use super::retain::{Decision, Retain};
use super::same_key;
use super::visible::VisibleCursor;
use crate::base::cursor::Cursor;
use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::base::order::{Comparator, KeyOrder};
use crate::base::range_delete::{RangeDelete, RangeDeleteRun, RangeDeleteView, RangeDeletes};
use crate::error::Result;
use list::{Entry, ListCursor};

/// Compares shorter keys first, and letters without case.
struct Shortlex;

impl Comparator for Shortlex {
    fn name(&self) -> &str {
        "test.shortlex"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()))
    }
}

fn orders() -> impl Strategy<Value = KeyOrder> {
    prop_oneof![
        Just(KeyOrder::Bytewise),
        Just(KeyOrder::Reverse),
        Just(KeyOrder::Custom(Arc::new(Shortlex))),
    ]
}

/// Generates few distinct keys, so that keys get several versions. Many keys share their first
/// sixteen bytes or more.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let tail = vec(prop::sample::select(vec![0, b'a', b'A', b'b', 0xFF]), 0..3);
    (prop::sample::select(vec![0usize, 1, 7, 8, 15, 16, 20]), tail)
        .prop_map(|(len, tail)| [vec![b'k'; len], tail].concat())
}

/// One write. The nth write has sequence number n.
#[derive(Debug, Clone)]
enum Write {
    Put(Vec<u8>),
    Delete(Vec<u8>),
    RangeDelete(Vec<u8>, Vec<u8>),
}

fn writes(max: usize) -> impl Strategy<Value = Vec<Write>> {
    let write = prop_oneof![
        6 => keys().prop_map(Write::Put),
        2 => keys().prop_map(Write::Delete),
        1 => (keys(), keys()).prop_map(|(a, b)| Write::RangeDelete(a, b)),
    ];
    // Half of the histories have few keys with many versions.
    prop_oneof![
        vec(write.clone(), 0..max),
        (vec(keys(), 1..4), vec((write, any::<prop::sample::Index>()), 0..max)).prop_map(
            |(few, list)| {
                let pick = |(write, index): (Write, prop::sample::Index)| match write {
                    Write::Put(_) => Write::Put(index.get(&few).clone()),
                    Write::Delete(_) => Write::Delete(index.get(&few).clone()),
                    range => range,
                };
                list.into_iter().map(pick).collect()
            }
        ),
    ]
}

/// Converts a history to entries and range tombstones.
fn history(writes: &[Write], first_seqno: SeqNo) -> (Vec<Entry>, Vec<RangeDelete>) {
    let (mut entries, mut ranges) = (Vec::new(), Vec::new());
    for (seqno, write) in (first_seqno..).zip(writes) {
        let entry = |key: &Vec<u8>, kind| {
            let value = if kind == Kind::Put { seqno.to_string().into_bytes() } else { vec![] };
            Entry { key: key.clone(), seqno, kind, value }
        };
        match write {
            Write::Put(key) => entries.push(entry(key, Kind::Put)),
            Write::Delete(key) => entries.push(entry(key, Kind::Delete)),
            Write::RangeDelete(start, end) => {
                ranges.push(RangeDelete { start: start.clone(), end: end.clone(), seqno });
            }
        }
    }
    (entries, ranges)
}

/// Returns the pairs visible at `snapshot`, in key order. Compares every entry with every other.
fn visible(
    order: &KeyOrder,
    entries: &[Entry],
    ranges: &[RangeDelete],
    snapshot: SeqNo,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for entry in entries.iter().filter(|e| e.kind == Kind::Put && e.seqno <= snapshot) {
        let hides = |e: &&Entry| {
            e.seqno <= snapshot && e.seqno > entry.seqno && same_key(order, &e.key, &entry.key)
        };
        let covers = |r: &&RangeDelete| {
            r.seqno <= snapshot
                && r.seqno > entry.seqno
                && order.compare(&r.start, &entry.key).is_le()
                && order.compare(&entry.key, &r.end).is_lt()
        };
        if entries.iter().find(hides).is_none() && ranges.iter().find(covers).is_none() {
            seen.push((entry.key.clone(), entry.value.clone()));
        }
    }
    seen.sort_by(|a, b| order.compare(&a.0, &b.0));
    seen
}

/// One move of a cursor.
#[derive(Debug, Clone)]
enum Move {
    First,
    Last,
    Seek(Vec<u8>, SeqNo),
    SeekBefore(Vec<u8>, SeqNo),
    Next,
    Prev,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        2 => (keys(), 0u64..70).prop_map(|(k, s)| Move::Seek(k, s)),
        2 => (keys(), 0u64..70).prop_map(|(k, s)| Move::SeekBefore(k, s)),
        8 => Just(Move::Next),
        8 => Just(Move::Prev),
    ];
    vec(one, 1..80)
}

fn make_move(cursor: &mut dyn Cursor, one: &Move) {
    let done = match one {
        Move::First => cursor.seek_to_first(),
        Move::Last => cursor.seek_to_last(),
        Move::Seek(key, seqno) => cursor.seek(key, *seqno),
        Move::SeekBefore(key, seqno) => cursor.seek_before(key, *seqno),
        Move::Next | Move::Prev if !cursor.valid() => Ok(()),
        Move::Next => cursor.next(),
        Move::Prev => cursor.prev(),
    };
    done.unwrap();
}

fn current_entry(cursor: &dyn Cursor) -> Option<Entry> {
    cursor.valid().then(|| Entry {
        key: cursor.key().to_vec(),
        seqno: cursor.seqno(),
        kind: cursor.kind(),
        value: cursor.value().to_vec(),
    })
}

/// Distributes entries over `sources` cursors.
fn deal(order: &KeyOrder, entries: &[Entry], deal: &[u8], sources: usize) -> MergeCursor {
    let mut hands = vec![Vec::new(); sources];
    for (at, entry) in entries.iter().enumerate() {
        hands[deal[at % deal.len()] as usize % sources].push(entry.clone());
    }
    // The children defer their seeks a different number of times. With more than four children,
    // those after the third form a nested merge.
    let child = |(at, hand): (usize, Vec<Entry>)| {
        let mut list = ListCursor::new(order, hand);
        list.deferring = (at + deal.len()) % 3;
        Box::new(list) as Box<dyn Cursor + Send>
    };
    let mut children: Vec<_> = hands.into_iter().enumerate().map(child).collect();
    if children.len() > 4 {
        let inner = MergeCursor::new(order.clone(), children.split_off(3));
        children.push(Box::new(inner));
    }
    MergeCursor::new(order.clone(), children)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn merge_cursor_matches_sorted_list(
        order in orders(), writes in writes(60), hands in vec(any::<u8>(), 1..60),
        sources in 1usize..9, moves in moves(),
    ) {
        let (entries, _) = history(&writes, 0);
        let mut merge = deal(&order, &entries, &hands, sources);
        let mut model = ListCursor::new(&order, entries);
        for one in &moves {
            make_move(&mut merge, one);
            make_move(&mut model, one);
            prop_assert_eq!(current_entry(&merge), current_entry(&model), "after {:?}", one);
        }
    }

    #[test]
    fn visible_cursor_matches_model(
        order in orders(), writes in writes(60), hands in vec(any::<u8>(), 1..60),
        sources in 1usize..4, snapshot in prop_oneof![0u64..60, Just(SEQNO_MAX)], moves in moves(),
    ) {
        let (entries, ranges) = history(&writes, 0);
        let model = visible(&order, &entries, &ranges, snapshot);
        // As in an iterator: range tombstones from several memtables and tables.
        let (sets, rest) = ranges.split_at(ranges.len() / 2);
        let set = |ranges: &[RangeDelete]| Arc::new(RangeDeletes::build(&order, ranges));
        let rest: Vec<_> = rest.iter().map(|range| set(std::slice::from_ref(range))).collect();
        let runs = RangeDeleteRun::new_runs(&order, rest.iter().map(|set| (set, None, None)));
        let view = RangeDeleteView::new(vec![set(sets)], Some(runs.into()));
        let merge = deal(&order, &entries, &hands, sources);
        let mut cursor = VisibleCursor::new(merge, order.clone(), snapshot, view);
        let mut at: Option<usize> = None;
        for one in &moves {
            let end = model.len();
            let count = |test: &dyn Fn(Ordering) -> bool, key: &[u8]| {
                model.iter().filter(|e| test(order.compare(&e.0, key))).count()
            };
            at = match one {
                Move::First => { cursor.seek_to_first().unwrap(); Some(0) }
                Move::Last => { cursor.seek_to_last().unwrap(); end.checked_sub(1) }
                Move::Seek(key, _) => {
                    cursor.seek(key).unwrap();
                    Some(count(&Ordering::is_lt, key))
                }
                Move::SeekBefore(key, _) => {
                    cursor.seek_for_prev(key).unwrap();
                    count(&Ordering::is_le, key).checked_sub(1)
                }
                Move::Next => { cursor.next().unwrap(); at.map(|at| at + 1) }
                Move::Prev => { cursor.prev().unwrap(); at.and_then(|at| at.checked_sub(1)) }
            };
            at = at.filter(|&at| at < end);
            let stands = cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec()));
            prop_assert_eq!(stands, at.map(|at| model[at].clone()), "after {:?}", one);
        }
    }

    #[test]
    fn rewrite_is_invisible_to_readers(
        order in orders(), below in writes(20), inputs in writes(50), above in writes(10),
        mut snapshots in vec(0u64..80, 0..4), lazy in any::<bool>(),
    ) {
        snapshots.sort_unstable();
        let (old, old_ranges) = history(&below, 1);
        let (entries, ranges) = history(&inputs, 1 + below.len() as u64);
        let (new, new_ranges) = history(&above, 1 + (below.len() + inputs.len()) as u64);
        let concerns = |key: &[u8], e: &Entry| same_key(&order, &e.key, key);
        let within = |key: &[u8], r: &RangeDelete| {
            order.compare(&r.start, key).is_le() && order.compare(key, &r.end).is_lt()
        };
        let set = Arc::new(RangeDeletes::build(&order, &ranges));
        let mut retain = Retain::new(order.clone(), snapshots.clone(), set);
        let (mut kept, mut zeroed) = (Vec::new(), 0);
        for entry in ListCursor::new(&order, entries.clone()).entries {
            let bottom = !lazy
                && !old.iter().any(|e| concerns(&entry.key, e))
                && !old_ranges.iter().any(|r| within(&entry.key, r));
            match retain.decide(&entry.key, entry.seqno, entry.kind, bottom) {
                Decision::Keep => {
                    let oldest = snapshots.iter().all(|&s| s >= entry.seqno);
                    prop_assert!(!(bottom && oldest && entry.kind == Kind::Delete));
                    kept.push(entry);
                }
                Decision::KeepWithSeqnoZero => {
                    prop_assert!(bottom && entry.kind == Kind::Put);
                    zeroed += 1;
                    kept.push(Entry { seqno: 0, ..entry });
                }
                Decision::Drop => {}
            }
        }
        prop_assert!(!lazy || zeroed == 0);
        for pair in kept.windows(2).filter(|p| same_key(&order, &p[0].key, &p[1].key)) {
            let apart = snapshots.iter().any(|&s| pair[1].seqno <= s && s < pair[0].seqno);
            prop_assert!(apart, "two versions of one stripe: {:?}", pair);
        }
        let stays = |r: &&RangeDelete| {
            let bottom = !lazy
                && !old.iter().any(|e| within(&e.key, r))
                && !old_ranges.iter().any(|o| {
                    order.compare(&o.start, &r.end).is_lt() && order.compare(&r.start, &o.end).is_lt()
                });
            retain.keep_range_delete(r.seqno, bottom)
        };
        let kept_ranges: Vec<RangeDelete> = ranges.iter().filter(stays).cloned().collect();
        let before = [new.clone(), entries, old.clone()].concat();
        let ranges_before = [new_ranges.clone(), ranges, old_ranges.clone()].concat();
        let after = [new, kept, old].concat();
        let ranges_after = [new_ranges, kept_ranges, old_ranges].concat();
        for snapshot in snapshots.into_iter().chain([SEQNO_MAX]) {
            prop_assert_eq!(
                visible(&order, &before, &ranges_before, snapshot),
                visible(&order, &after, &ranges_after, snapshot),
                "at {}", snapshot
            );
        }
    }
}

#[test]
fn source_error_unpositions_merge_cursor() {
    let order = KeyOrder::Bytewise;
    let entry = |n: u64| Entry { key: vec![n as u8], seqno: n, kind: Kind::Put, value: vec![] };
    for fail_in in 1..12 {
        let children = (0..2).map(|child| {
            let entries = (0..10).filter(|n| n % 2 == child).map(entry).collect();
            let mut list = ListCursor::new(&order, entries);
            list.fail_in = if child == 1 { fail_in } else { usize::MAX };
            Box::new(list) as Box<dyn Cursor + Send>
        });
        let merge = MergeCursor::new(order.clone(), children.collect());
        let mut cursor = VisibleCursor::new(merge, order.clone(), SEQNO_MAX, None);
        let mut walk = || -> Result<()> {
            cursor.seek_to_first()?;
            for _ in 0..6 {
                cursor.next()?;
            }
            for _ in 0..6 {
                cursor.prev()?;
            }
            cursor.seek_for_prev(b"\x05")?;
            cursor.seek(b"\x04")
        };
        if walk().is_err() {
            assert!(!cursor.valid());
            cursor.next().unwrap();
            assert!(!cursor.valid());
        } else {
            assert_eq!(cursor.key(), [4]);
        }
    }
}

#[test]
fn merge_without_sources_is_empty() {
    let mut merge = MergeCursor::new(KeyOrder::Bytewise, Vec::new());
    merge.seek_to_first().unwrap();
    assert!(!merge.valid());
    merge.seek_before(b"x", 1).unwrap();
    assert!(!merge.valid());
}

#[test]
fn many_versions_are_skipped_in_few_moves() {
    let order = KeyOrder::default();
    let version = |key: &[u8], seqno| {
        let (key, value) = (key.to_vec(), format!("{seqno}").into_bytes());
        Entry { key, seqno, kind: Kind::Put, value }
    };
    let mut entries: Vec<Entry> = (1..=200).map(|seqno| version(b"b", seqno)).collect();
    entries.extend([version(b"a", 50), version(b"c", 50)]);
    for forward in [true, false] {
        let mut list = ListCursor::new(&order, entries.clone());
        // One move per version, for a hundred versions, would exceed this limit.
        list.fail_in = 60;
        let mut cursor = VisibleCursor::new(list, order.clone(), 100, None);
        if forward {
            cursor.seek_to_first().unwrap()
        } else {
            cursor.seek_to_last().unwrap()
        }
        let mut seen = Vec::new();
        while cursor.valid() {
            seen.push((cursor.key().to_vec(), cursor.value().to_vec()));
            if forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
        }
        let pair = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
        let mut want = vec![pair(b"a", b"50"), pair(b"b", b"100"), pair(b"c", b"50")];
        if !forward {
            want.reverse();
        }
        assert_eq!(seen, want);
    }
}

#[test]
fn range_tombstone_covers_only_older_entries() {
    let order = KeyOrder::Bytewise;
    let delete = RangeDelete { start: b"b".to_vec(), end: b"d".to_vec(), seqno: 5 };
    let set = Arc::new(RangeDeletes::build(&order, &[delete]));
    for (key, seqno, decision) in [
        (b"a", 4, Decision::Keep),
        (b"b", 4, Decision::Drop),
        (b"b", 5, Decision::Keep),
        (b"c", 6, Decision::Keep),
        (b"d", 4, Decision::Keep),
    ] {
        let mut retain = Retain::new(order.clone(), Vec::new(), set.clone());
        assert_eq!(retain.decide(key, seqno, Kind::Put, false), decision, "{key:?} {seqno}");
    }
}

#[test]
fn few_versions_are_stepped_and_many_are_sought() {
    let order = KeyOrder::default();
    for (newer, older, seeks) in [(0, 0, false), (8, 8, false), (9, 0, true), (0, 9, true)] {
        let mut entries = Vec::new();
        for key in [b"a", b"b", b"c"] {
            for seqno in 100 - older..=100 + newer {
                let (kind, value) = (Kind::Put, Vec::new());
                entries.push(Entry { key: key.to_vec(), seqno, kind, value });
            }
        }
        let mut list = ListCursor::new(&order, entries);
        list.fail_in_seeks = 1;
        let mut cursor = VisibleCursor::new(list, order.clone(), 100, None);
        let mut walk = || -> Result<usize> {
            let mut keys = 0;
            cursor.seek_to_first()?;
            while cursor.valid() {
                keys += 1;
                cursor.next()?;
            }
            Ok(keys)
        };
        assert_eq!(walk().ok(), (!seeks).then_some(3), "{newer} newer, {older} older");
    }
}

#[test]
fn hidden_entries_are_counted() {
    let order = KeyOrder::default();
    let entries = [
        (b"a", 3, Kind::Put),
        (b"a", 2, Kind::Put),
        (b"a", 1, Kind::Put),
        (b"b", 4, Kind::Delete),
        (b"b", 1, Kind::Put),
        (b"c", 5, Kind::Put),
    ]
    .map(|(key, seqno, kind)| Entry { key: key.to_vec(), seqno, kind, value: Vec::new() });
    let list = ListCursor::new(&order, entries.to_vec());
    let mut cursor = VisibleCursor::new(list, order, SEQNO_MAX, None);
    cursor.seek_to_first().unwrap();
    assert_eq!((cursor.take_skipped_count(), cursor.key()), (0, &b"a"[..]));
    cursor.next().unwrap();
    assert_eq!((cursor.take_skipped_count(), cursor.key_or_empty()), (4, &b"c"[..]));
    assert_eq!(cursor.take_skipped_count(), 0);
    // Backward, each key counts once, visible or not.
    cursor.prev().unwrap();
    assert_eq!((cursor.take_skipped_count(), cursor.key_or_empty()), (2, &b"a"[..]));
}

#[test]
fn merge_seek_prefetches_only_with_several_sources() {
    let order = KeyOrder::Bytewise;
    for (sources, each) in [(1, 0), (2, 2), (5, 2)] {
        let lists = || ListCursor::new(&order, Vec::new());
        let lists: Vec<ListCursor> = (0..sources).map(|_| lists()).collect();
        let prefetches: Vec<_> = lists.iter().map(|list| list.prefetches.clone()).collect();
        let children = lists.into_iter().map(|list| Box::new(list) as Box<dyn Cursor + Send>);
        let mut merge = MergeCursor::new(order.clone(), children.collect());
        merge.seek(b"k", SEQNO_MAX).unwrap();
        assert!(prefetches.iter().all(|count| count.load(Relaxed) == each), "{sources}");
    }
}

#[test]
fn deferred_source_is_completed_when_merge_reaches_its_bound() {
    let order = KeyOrder::Bytewise;
    let entry = |key: &str| Entry { key: key.into(), seqno: 1, kind: Kind::Put, value: Vec::new() };
    let list = |keys: &[&str]| ListCursor::new(&order, keys.iter().map(|key| entry(key)).collect());
    let near = list(&["a", "b", "c"]);
    let mut far = list(&["x"]);
    // A seek of this child fails.
    (far.deferring, far.fail_in_seeks) = (1, 1);
    let mut merge = MergeCursor::new(order.clone(), vec![Box::new(near), Box::new(far)]);
    merge.seek(b"a", SEQNO_MAX).unwrap();
    for key in ["a", "b", "c"] {
        assert_eq!(merge.key(), key.as_bytes());
        let moved = merge.next();
        assert_eq!(moved.is_err(), key == "c", "the hint search ran too early or never");
    }
    assert!(!merge.valid());
}

#[test]
fn failed_seek_prefetches_no_other_source() {
    let order = KeyOrder::Bytewise;
    let (mut failing, waiting) =
        (ListCursor::new(&order, Vec::new()), ListCursor::new(&order, Vec::new()));
    failing.fail_in_seeks = 1;
    let announced = waiting.prefetches.clone();
    let mut merge = MergeCursor::new(order, vec![Box::new(failing), Box::new(waiting)]);
    assert!(merge.seek(b"k", SEQNO_MAX).is_err());
    assert_eq!(announced.load(Relaxed), 0, "the iterator waits for a seek that never comes");
}
