//! Empty-range hints: iterators jump over long runs of deleted keys, and no answer changes.
//!
//! With small thresholds the store searches for hints after only a few deletes, so small stores
//! create many. These tests guard against past failures: a put into a range during the search; a
//! put that is visible before the hint is cut; a reader whose read state is older than the hint.

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Turning, tiny_options};
use esker::fs::MemFs;
use esker::internals::Thresholds;
use esker::{
    Batch, Comparator, Db, DbIterator, KeyOrder, KeyspaceOptions, MemtableKind, Options,
    ReadOptions,
};
use esker_testkit::rng::SplitMix64;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn key(n: u64) -> Vec<u8> {
    (n as u32).to_be_bytes().to_vec()
}

fn open(options: Options) -> Db {
    Db::open_on(MemFs::new(), "/db", options).unwrap()
}

/// Waits for the hint thread.
fn wait_for_hints(db: &Db) {
    let began = Instant::now();
    while db.metrics().hints == 0 {
        assert!(began.elapsed() < Duration::from_secs(300), "no hint appeared");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn forward(iter: DbIterator) -> Pairs {
    iter.map(Result::unwrap).collect()
}

fn backward(iter: DbIterator) -> Pairs {
    let mut pairs: Pairs = iter.rev().map(Result::unwrap).collect();
    pairs.reverse();
    pairs
}

#[test]
fn deleted_keys_are_skipped_in_both_directions_and_from_the_middle() {
    for thresholds in [Thresholds::small(), Thresholds::default()] {
        deleted_keys_are_skipped(Options {
            auto_compaction: false,
            background_threads: Some(1),
            thresholds,
            ..Options::default()
        });
    }
}

fn deleted_keys_are_skipped(options: Options) {
    const KEYS: u64 = 10_000;
    let db = open(options);
    for n in 0..KEYS {
        db.put(key(n), b"value").unwrap();
    }
    let before = db.snapshot();
    for n in 1..KEYS - 1 {
        db.delete(key(n)).unwrap();
    }
    wait_for_hints(&db);
    let jumps = db.metrics().hint_jumps;
    let live = [0, KEYS - 1].map(|n| (key(n), b"value".to_vec()));
    assert_eq!(forward(db.iter().unwrap()), live);
    assert_eq!(backward(db.iter().unwrap()), live);
    assert!(db.metrics().hint_jumps >= jumps + 2);
    let mut iter = db.iter().unwrap();
    iter.seek(key(KEYS / 4)).unwrap();
    assert_eq!(iter.key(), key(KEYS - 1));
    iter.move_prev().unwrap();
    assert_eq!(iter.key(), key(0));
    iter.move_prev().unwrap();
    assert!(!iter.valid());
    iter.seek_for_prev(key(KEYS / 4)).unwrap();
    assert_eq!(iter.key(), key(0));
    let inside = || db.range(key(10)..key(KEYS / 2)).unwrap();
    assert!(forward(inside()).is_empty() && backward(inside()).is_empty());
    assert_eq!(before.iter().unwrap().count() as u64, KEYS, "a snapshot used the hint");
    assert_eq!(backward(before.iter().unwrap()).len() as u64, KEYS);
    db.put(key(KEYS / 3), b"again").unwrap();
    assert_eq!(db.iter().unwrap().count(), 3);
    assert_eq!(backward(db.iter().unwrap()).len(), 3);
}

#[test]
fn deleted_ranges_are_skipped() {
    for thresholds in [Thresholds::small(), Thresholds::default()] {
        // A store at rest would merge the deleted range away, and leave nothing to jump over.
        let options = Options { rest_compaction: false, ..Options::default() };
        let options = Options { background_threads: Some(1), thresholds, ..options };
        let db = open(options);
        for n in 0..10_000 {
            db.put(key(n), b"value").unwrap();
        }
        db.delete_range(key(5), key(9_990)).unwrap();
        wait_for_hints(&db);
        assert_eq!(db.iter().unwrap().count(), 15);
        assert!(db.metrics().hint_jumps > 0);
        assert_eq!(backward(db.iter().unwrap()).len(), 15);
    }
}

#[test]
fn store_without_threads_has_the_hints_of_its_readers() {
    let db = open(Options { background_threads: Some(0), ..tiny_options() });
    for n in 0..200 {
        db.delete(key(n)).unwrap();
    }
    assert_eq!(db.metrics().hints, 0);
    assert_eq!(db.iter().unwrap().count(), 0);
    assert_eq!(db.metrics().hints, 1, "the first scan did not report that it found nothing");
    db.put(key(100), b"value").unwrap();
    assert_eq!(db.iter().unwrap().count(), 1);
    assert_eq!(backward(db.iter().unwrap()).len(), 1);
}

#[test]
fn expired_pairs_are_an_empty_range_from_their_time_on() {
    let clock = Arc::new(Turning(AtomicU64::new(1_000)));
    let options = Options { clock: Some(clock.clone()), ..tiny_options() };
    let db = open(Options { background_threads: Some(0), ..options });
    for n in 0..200 {
        db.put_with_ttl(key(n), b"value", Duration::from_secs(1)).unwrap();
    }
    let before = db.snapshot();
    clock.0.store(100_000, Ordering::Relaxed);
    assert_eq!(db.iter().unwrap().count(), 0);
    assert_eq!(db.metrics().hints, 1, "the scan did not report that it found nothing");
    // No write came between the two, but the older snapshot shows these pairs.
    assert_eq!(before.iter().unwrap().count(), 200, "a snapshot used the hint");
    assert_eq!(backward(before.iter().unwrap()).len(), 200);
    let jumps = db.metrics().hint_jumps;
    assert_eq!(db.iter().unwrap().count(), 0);
    assert_eq!(backward(db.snapshot().iter().unwrap()).len(), 0);
    assert!(db.metrics().hint_jumps >= jumps + 2, "a later reader did not use the hint");
    // Deleted keys beside them: the wider hint is for the same readers.
    for n in 200..400 {
        db.delete(key(n)).unwrap();
    }
    assert_eq!(db.iter().unwrap().count(), 0);
    assert_eq!(before.iter().unwrap().count(), 200, "a snapshot used the wider hint");
    db.put(key(100), b"value").unwrap();
    assert_eq!(db.iter().unwrap().count(), 1);
    assert_eq!(before.iter().unwrap().count(), 200);
}

/// The bytewise order, with a count of its comparisons.
#[derive(Default)]
struct Counted(AtomicU64);

impl Comparator for Counted {
    fn name(&self) -> &str {
        "counted"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        self.0.fetch_add(1, Ordering::Relaxed);
        a.cmp(b)
    }
}

/// Pops `pops` keys from one end of each of two queues and pushes at the other end. Returns the
/// comparisons of each tenth of the pops.
fn work_of_pops(from_the_front: bool, in_keyspace: bool, pops: u64) -> Vec<u64> {
    const DEPTH: u64 = 500;
    // Two queues, of keys that begin with their number.
    let place = |queue: u64, n: u64| key(queue << 24 | n);
    let counted = Arc::new(Counted::default());
    let db = open(Options {
        key_order: KeyOrder::Custom(counted.clone()),
        memtable_size_bytes: Some(256 << 10),
        background_threads: Some(0),
        ..Options::default()
    });
    let name = |n: u64| if from_the_front { n } else { (1 << 23) - n };
    let mut of_keyspace = KeyspaceOptions::default();
    of_keyspace.key_order = KeyOrder::Custom(counted.clone());
    let own = in_keyspace.then(|| db.keyspace("queues", &of_keyspace).unwrap());
    let put = |key: Vec<u8>| match &own {
        Some(own) => own.put(key, b"value").unwrap(),
        None => db.put(key, b"value").unwrap(),
    };
    let range = |bounds: std::ops::Range<Vec<u8>>| match &own {
        Some(own) => own.range(bounds).unwrap(),
        None => db.range(bounds).unwrap(),
    };
    let delete = |key: Vec<u8>| match &own {
        Some(own) => own.delete(key).unwrap(),
        None => db.delete(key).unwrap(),
    };
    for queue in 1..3 {
        (0..DEPTH).for_each(|n| put(place(queue, name(n))));
    }
    let mut work = Vec::new();
    for pop in 0..pops {
        for queue in 1..3 {
            let mut iter = range(place(queue, 0)..place(queue + 1, 0));
            let before = counted.0.load(Ordering::Relaxed);
            if from_the_front {
                iter.seek_to_first().unwrap();
            } else {
                iter.seek_to_last().unwrap();
            }
            work.push(counted.0.load(Ordering::Relaxed) - before);
            assert_eq!(iter.key(), place(queue, name(pop)));
            drop(iter);
            delete(place(queue, name(pop)));
            put(place(queue, name(pop + DEPTH)));
        }
    }
    work.chunks(work.len() / 10).map(|tenth| tenth.iter().sum()).collect()
}

#[test]
fn pop_costs_the_same_after_many_pops() {
    for (from_the_front, in_keyspace) in [(true, false), (false, false), (true, true)] {
        let tenths = work_of_pops(from_the_front, in_keyspace, 6_000);
        let (first, last) = (tenths[0], tenths[9]);
        // Without reports the last tenth takes nineteen times as long as the first one.
        assert!(last < 3 * first, "{tenths:?}");
    }
}

/// A bytewise order of the number without its last bit: neighbours are one key.
struct Halved;

impl Comparator for Halved {
    fn name(&self) -> &str {
        "halved"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let half = |k: &[u8]| u32::from_be_bytes(k.try_into().unwrap_or_default()) / 2;
        half(a).cmp(&half(b))
    }
}

/// Applies one step to the store and the model: deletes of key ranges, with some puts.
fn change(db: &Db, oracle: &mut BTreeMap<u64, u64>, rng: &mut SplitMix64, keys: u64, round: u64) {
    let from = rng.below(keys);
    let to = (from + rng.below(keys / 2)).min(keys);
    match rng.below(10) {
        0..=3 => {
            for n in from..to {
                db.delete(key(2 * n)).unwrap();
                oracle.remove(&n);
            }
        }
        4 => {
            db.delete_range(key(2 * from), key(2 * to)).unwrap();
            oracle.retain(|n, _| !(from..to).contains(n));
        }
        5 => {
            let mut batch = Batch::new();
            for n in from..to.min(from + 30) {
                if rng.chance(3) {
                    batch.put(key(2 * n), round.to_be_bytes());
                    oracle.insert(n, round);
                } else {
                    batch.delete(key(2 * n));
                    oracle.remove(&n);
                }
            }
            db.write(&batch).unwrap();
        }
        6 => {
            for n in from..to {
                db.put(key(2 * n), round.to_be_bytes()).unwrap();
                oracle.insert(n, round);
            }
        }
        _ => {
            for _ in 0..rng.below(4) {
                let n = rng.below(keys);
                db.put(key(2 * n), round.to_be_bytes()).unwrap();
                oracle.insert(n, round);
            }
        }
    }
}

fn sorted(oracle: &BTreeMap<u64, u64>, reverse: bool) -> Pairs {
    let all = oracle.iter().map(|(n, round)| (key(2 * n), round.to_be_bytes().to_vec()));
    if reverse { all.rev().collect() } else { all.collect() }
}

/// Checks both full scans, and moves from random positions in random directions.
fn check(iter: impl Fn() -> DbIterator, want: &Pairs, rng: &mut SplitMix64, keys: u64, rev: bool) {
    assert_eq!(&forward(iter()), want);
    assert_eq!(&backward(iter()), want);
    let mut walk = iter();
    for _ in 0..4 {
        let target = key(2 * rng.below(keys));
        let is_before = |k: &Vec<u8>| if rev { *k > target } else { *k < target };
        let mut at = want.partition_point(|(k, _)| is_before(k)) as isize;
        if rng.chance(2) {
            walk.seek(&target).unwrap();
        } else {
            walk.seek_for_prev(&target).unwrap();
            at -= isize::from(want.get(at as usize).is_none_or(|(k, _)| *k != target));
        }
        for _ in 0..6 {
            let here = usize::try_from(at).ok().and_then(|at| want.get(at));
            assert_eq!(walk.valid(), here.is_some());
            let Some((key, value)) = here else { break };
            assert_eq!((walk.key(), walk.value()), (&key[..], &value[..]));
            if rng.chance(2) {
                walk.move_next().unwrap();
                at += 1;
            } else {
                walk.move_prev().unwrap();
                at -= 1;
            }
        }
    }
}

fn model(options: Options, seed: u64) -> u64 {
    const KEYS: u64 = 300;
    let mut rng = SplitMix64::new(seed);
    let rev = matches!(options.key_order, KeyOrder::Reverse);
    let db = open(options);
    let mut oracle = BTreeMap::new();
    let mut snapshots: Vec<(esker::Snapshot, Pairs)> = Vec::new();
    for round in 0..120 {
        if rev {
            // In this order deleted ranges run in the other direction.
            let (from, to) = (rng.below(KEYS), rng.below(KEYS));
            for n in from.min(to)..from.max(to) {
                db.delete(key(2 * n)).unwrap();
                oracle.remove(&n);
            }
            for _ in 0..20 {
                let n = rng.below(KEYS);
                db.put(key(2 * n), u64::to_be_bytes(round)).unwrap();
                oracle.insert(n, round);
            }
        } else {
            change(&db, &mut oracle, &mut rng, KEYS, round);
        }
        check(|| db.iter().unwrap(), &sorted(&oracle, rev), &mut rng, KEYS, rev);
        let (a, b) = (rng.below(KEYS), rng.below(KEYS));
        let (a, b) = if rev { (a.max(b), a.min(b)) } else { (a.min(b), a.max(b)) };
        let bounds = (Bound::Excluded(key(2 * a)), Bound::Included(key(2 * b)));
        let mut want = sorted(&oracle, rev);
        want.retain(|(k, _)| {
            if rev {
                *k < key(2 * a) && *k >= key(2 * b)
            } else {
                *k > key(2 * a) && *k <= key(2 * b)
            }
        });
        let options = ReadOptions::default();
        check_range(|| db.iter_with(&options, bounds.clone()).unwrap(), &want);
        if rng.chance(4) {
            snapshots.push((db.snapshot(), sorted(&oracle, rev)));
        }
        if snapshots.len() > 3 {
            snapshots.remove(rng.below(4) as usize);
        }
        for (snapshot, then) in &snapshots {
            check(|| snapshot.iter().unwrap(), then, &mut rng, KEYS, rev);
        }
    }
    db.metrics().hint_jumps
}

fn check_range(iter: impl Fn() -> DbIterator, want: &Pairs) {
    assert_eq!(&forward(iter()), want);
    assert_eq!(&backward(iter()), want);
}

/// Changes and checks two keyspaces of one tree, with snapshots and ingests.
fn keyspaces_model(seed: u64) -> u64 {
    const KEYS: u64 = 200;
    let mut rng = SplitMix64::new(seed);
    let db = open(Options { background_threads: Some(1), ..tiny_options() });
    let spaces = ["a", "b"].map(|name| db.keyspace(name, &KeyspaceOptions::default()).unwrap());
    let mut oracles = [BTreeMap::new(), BTreeMap::new()];
    let mut snapshots: Vec<(esker::Snapshot, usize, Pairs)> = Vec::new();
    for round in 0..150 {
        let which = rng.below(2) as usize;
        let (space, oracle) = (&spaces[which], &mut oracles[which]);
        let from = rng.below(KEYS);
        let to = (from + rng.below(KEYS)).min(KEYS);
        match rng.below(8) {
            0..=3 => {
                for n in from..to {
                    space.delete(key(2 * n)).unwrap();
                    oracle.remove(&n);
                }
            }
            4 => {
                space.delete_range(key(2 * from), key(2 * to)).unwrap();
                oracle.retain(|n, _| !(from..to).contains(n));
            }
            5 if from < to => {
                let pairs: Vec<_> = (from..to.min(from + 20)).collect();
                oracle.extend(pairs.iter().map(|n| (*n, round)));
                let pairs = pairs.iter().map(|n| (key(2 * n), u64::to_be_bytes(round)));
                space.bulk_load(pairs).unwrap();
            }
            _ => {
                for _ in 0..rng.below(4) {
                    let n = rng.below(KEYS);
                    space.put(key(2 * n), u64::to_be_bytes(round)).unwrap();
                    oracle.insert(n, round);
                }
            }
        }
        for (space, oracle) in spaces.iter().zip(&oracles) {
            check(|| space.iter().unwrap(), &sorted(oracle, false), &mut rng, KEYS, false);
        }
        if rng.chance(4) {
            snapshots.push((db.snapshot(), which, sorted(&oracles[which], false)));
        }
        if snapshots.len() > 3 {
            snapshots.remove(rng.below(4) as usize);
        }
        for (snapshot, which, then) in &snapshots {
            let options = ReadOptions::default().snapshot(snapshot);
            let all = (Bound::Unbounded, Bound::Unbounded);
            let iter = || spaces[*which].iter_with(&options, all.clone()).unwrap();
            check(iter, then, &mut rng, KEYS, false);
        }
    }
    db.metrics().hint_jumps
}

#[test]
fn keyspaces_with_hints_match_maps() {
    assert!((0..4).map(keyspaces_model).sum::<u64>() > 0, "no hint was used");
}

#[test]
fn store_with_hints_matches_map() {
    let mut jumps = 0;
    for (seed, order) in [KeyOrder::Bytewise, KeyOrder::Custom(Arc::new(Halved)), KeyOrder::Reverse]
        .iter()
        .enumerate()
    {
        for (round, &memtable_kind) in MemtableKind::ALL.iter().enumerate() {
            let options = Options { key_order: order.clone(), memtable_kind, ..tiny_options() };
            jumps += model(options, 100 * seed as u64 + round as u64);
        }
        // With the thresholds that ship, a store of this size has few hints or none.
        let thresholds = Thresholds::default();
        let options = Options { key_order: order.clone(), thresholds, ..tiny_options() };
        model(options, 100 * seed as u64 + 50);
    }
    assert!(jumps > 0, "no hint was used");
}

/// One writer's share of the keys. The writer deletes ranges of its keys and puts some again. After
/// every few operations it checks that each key has its last state.
fn own_keys(db: &Db, own: u64, writers: u64) {
    let mut rng = SplitMix64::new(own);
    let mut oracle: BTreeMap<u64, u64> = BTreeMap::new();
    let mine = |pairs: Pairs| -> Vec<(u64, u64)> {
        let number = |k: &[u8]| u64::from(u32::from_be_bytes(k.try_into().unwrap()));
        let value = |v: &[u8]| u64::from_be_bytes(v.try_into().unwrap());
        let pairs = pairs.iter().map(|(k, v)| (number(k), value(v)));
        pairs.filter(|(n, _)| n % writers == own && *n < 1 << 20).collect()
    };
    for round in 0..150 {
        let from = rng.below(200);
        for n in from..from + rng.below(60) {
            db.delete(key(n * writers + own)).unwrap();
            oracle.remove(&(n * writers + own));
        }
        for _ in 0..rng.below(3) {
            let n = rng.below(200) * writers + own;
            db.put(key(n), u64::to_be_bytes(round)).unwrap();
            oracle.insert(n, round);
            let mut iter = db.iter().unwrap();
            iter.seek(key(n)).unwrap();
            assert_eq!(iter.key(), key(n), "an acknowledged put is missing");
        }
        let want: Vec<(u64, u64)> = oracle.iter().map(|(n, round)| (*n, *round)).collect();
        assert_eq!(mine(forward(db.iter().unwrap())), want);
        assert_eq!(mine(backward(db.iter().unwrap())), want);
    }
}

#[test]
fn iterators_are_correct_during_concurrent_puts_and_deletes_in_hinted_ranges() {
    const WRITERS: u64 = 3;
    const TOKENS: u64 = 5;
    let db = open(Options { background_threads: Some(2), ..tiny_options() });
    // Tokens that one thread moves, one batch per move. A reader of half a batch counts one token
    // too few or too many.
    let token = |n: u64| key((1 << 20) + n);
    for n in 0..TOKENS {
        db.put(token(n), [0; 8]).unwrap();
    }
    let (stop, scans) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|own| {
                scope.spawn({
                    let db = &db;
                    move || own_keys(db, own, WRITERS)
                })
            })
            .collect();
        let (db, stop, scans) = (&db, &stop, &scans);
        let token_writer = scope.spawn(move || {
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let mut batch = Batch::new();
                batch.delete(token(n)).put(token(n + TOKENS), [0; 8]);
                db.write(&batch).unwrap();
            }
        });
        for scan in [forward, backward] {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let bounds = (Bound::Included(key(1 << 20)), Bound::Unbounded);
                    let iter = db.iter_with(&ReadOptions::default(), bounds).unwrap();
                    assert_eq!(scan(iter).len() as u64, TOKENS, "a reader saw part of a batch");
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let failed = writers.into_iter().filter_map(|writer| writer.join().err()).next();
        stop.store(true, Ordering::Relaxed);
        token_writer.join().unwrap();
        if let Some(panic) = failed {
            std::panic::resume_unwind(panic);
        }
    });
    assert!(scans.load(Ordering::Relaxed) > 0);
    assert!(db.metrics().hint_jumps > 0, "no hint was used");
}
