//! Many range deletes: their cost for readers in memory and comparisons. Batches of range deletes
//! are written, replayed, verified and repaired like any other batch.
//!
//! These tests guard against past failures. Readers cut ranges at each other's bounds and kept
//! every sequence number in every fragment. 60,000 ranges of one batch (840 KB) then took tens of
//! gigabytes, and the store could be neither reopened nor repaired. Iterators repeated that work
//! each time.

mod common;

use std::alloc::System;
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cap::Cap;
use common::{Oracle, files, image, pairs, tiny_options};
use esker::fs::MemFs;
use esker::{Batch, Comparator, Db, KeyOrder, Options, ReadOptions, Snapshot};

/// Memory limit of the process, in bytes. An engine with quadratic cost in the number of ranges
/// fails.
const MEMORY_BYTES: usize = 512 << 20;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, MEMORY_BYTES);

/// A bytewise order that counts its comparisons.
#[derive(Default)]
struct Counting(AtomicU64);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        a.cmp(b)
    }
}

fn options() -> Options {
    Options {
        memory_budget_bytes: Some(64 << 20),
        background_threads: Some(0),
        ..Options::default()
    }
}

fn key(i: usize) -> String {
    format!("{i:06}")
}

/// Returns `count` range deletes, each of which overlaps all others: range i is `[i, i + count)`.
fn overlapping(count: usize) -> Batch {
    let mut batch = Batch::new();
    for i in 0..count {
        batch.delete_range(key(i), key(i + count));
    }
    batch
}

#[test]
fn batch_of_60000_overlapping_range_deletes_survives_reopen_verify_and_repair() {
    const COUNT: usize = 60_000;
    let (fs, dir) = (MemFs::new(), Path::new("/db"));
    let db = Db::open_on(fs.clone(), dir, options()).unwrap();
    for i in (0..2 * COUNT).step_by(1_000) {
        db.put(key(i), "old").unwrap();
    }
    let old = db.snapshot();
    db.write(&overlapping(COUNT)).unwrap();
    db.put(key(COUNT), "new").unwrap();
    let left = [(key(COUNT).into_bytes(), b"new".to_vec())];
    let at_old = ReadOptions::default().snapshot(Some(&old));
    let check = |db: &Db| {
        assert!(db.get(key(COUNT - 1_000)).unwrap().is_none());
        assert_eq!(db.get(key(COUNT)).unwrap().unwrap(), "new");
        assert_eq!(pairs(db.iter().unwrap()), left);
    };
    check(&db);
    assert_eq!(db.get_with(key(COUNT), &at_old).unwrap().unwrap(), "old");
    // A killed process: the log holds all writes.
    std::mem::forget(db);
    let killed = || image(dir, &files(&*fs, dir));
    let repaired = killed();
    let report = Db::repair_on(repaired.clone(), dir, options()).unwrap();
    assert_eq!((report.lost, report.pairs), (Vec::new(), 1));
    check(&Db::open_on(repaired, dir, options()).unwrap());
    let db = Db::open_on(killed(), dir, options()).unwrap();
    check(&db);
    db.flush().unwrap();
    check(&db);
    db.verify(&mut |_, _| ()).unwrap();
    db.compact_range(None, None).unwrap();
    check(&db);
    assert_eq!(
        db.verify(&mut |_, _| ()).unwrap().range_deletes,
        0,
        "tombstones without older data remained"
    );
    db.close().unwrap();
}

#[test]
fn unpositioned_iterator_compares_no_keys() {
    let counting = Arc::new(Counting::default());
    let key_order = KeyOrder::Custom(Arc::clone(&counting) as Arc<dyn Comparator>);
    let db = Db::open_on(MemFs::new(), "/db", Options { key_order, ..options() }).unwrap();
    let held: Vec<Snapshot> = (0..100).map(|_| db.snapshot()).collect();
    // Range deletes in tables and in the active memtable.
    for _ in 0..2 {
        db.put(key(1_000), "value").unwrap();
        db.write(&overlapping(2_000)).unwrap();
        db.flush().unwrap();
    }
    db.write(&overlapping(2_000)).unwrap();
    drop(db.iter().unwrap());
    counting.0.store(0, Relaxed);
    for snapshot in &held {
        drop(snapshot.iter().unwrap());
        drop(db.iter().unwrap());
    }
    assert_eq!(counting.0.load(Relaxed), 0, "comparisons of 200 iterators never placed");
    // One iterator after each of many range deletes.
    for i in 0..1_000 {
        db.delete_range("", key(i)).unwrap();
        drop(db.iter().unwrap());
    }
    let each = counting.0.load(Relaxed) / 1_000;
    assert!(each <= 2 * 13 * 13 + 100, "{each} comparisons for each range delete and iterator");
}

#[test]
fn queue_truncated_from_head_matches_each_snapshot() {
    let db = Db::open_on(MemFs::new(), "/db", tiny_options()).unwrap();
    let mut log = Oracle::new();
    let mut held: Vec<(Snapshot, Oracle)> = Vec::new();
    for i in 0..1_500 {
        db.put(key(i), "line").unwrap();
        log.insert(key(i).into_bytes(), b"line".to_vec());
        if i % 3 == 0 {
            db.delete_range("", key(i / 2)).unwrap();
            log = log.split_off(key(i / 2).as_bytes());
        }
        if i % 50 == 7 {
            held.push((db.snapshot(), log.clone()));
        }
        if i % 500 == 400 {
            db.flush().unwrap();
            db.compact_range(None, None).unwrap();
        }
    }
    for (snapshot, want) in &held {
        let at = ReadOptions::default().snapshot(Some(snapshot));
        let found = pairs(snapshot.iter().unwrap());
        assert!(found.iter().map(|(key, value)| (key, value)).eq(want), "{} pairs", want.len());
        for i in (0..1_500).step_by(13) {
            let found = db.get_with(key(i), &at).unwrap().map(|value| value.to_vec());
            assert_eq!(found.as_ref(), want.get(key(i).as_bytes()), "{i}");
        }
    }
}
