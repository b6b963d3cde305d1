//! Seek-heavy guards with several runs, and guards scanned over many deleted keys, are merged into
//! one run. No other guards are.

use std::time::{Duration, Instant};

use esker::fs::MemFs;
use esker::internals::Thresholds;
use esker::{Db, Options, Policy};

const KEYS: u64 = 4_000;
/// Limit for an awaited event, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

fn open(merge_on_seeks: bool) -> Db {
    let options = Options {
        policy: Policy::Fluid,
        memory_budget_bytes: Some(64 << 20),
        memtable_size_bytes: Some(1 << 20),
        merge_on_seeks,
        rest_compaction: false,
        space_amplification_max: None,
        background_threads: Some(1),
        // A memtable of `KEYS` keys is large enough for a flush because of seeks.
        thresholds: Thresholds::small(),
        ..Options::default()
    };
    Db::open_on(MemFs::new(), "db", options).unwrap()
}

fn key(i: u64) -> Vec<u8> {
    format!("{i:08}").into_bytes()
}

/// Writes `rounds` runs, each with every `rounds`-th key.
fn write_runs(db: &Db, rounds: u64) {
    for round in 0..rounds {
        for i in (round..KEYS).step_by(rounds as usize) {
            db.put(key(i), format!("value {i}")).unwrap();
        }
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
}

fn runs(db: &Db) -> u64 {
    db.metrics().levels.iter().map(|level| level.runs_max).sum()
}

/// Seeks `times` times, each with a new iterator, and compares the results.
fn seek(db: &Db, times: u64) {
    for n in 0..times {
        let i = n * 7 % KEYS;
        let mut iter = db.iter().unwrap();
        iter.seek(key(i)).unwrap();
        assert_eq!(iter.key(), key(i));
        assert_eq!(iter.value(), format!("value {i}").as_bytes());
    }
}

/// Seeks until `wanted` runs are left. The seeks wake a thread that compacts.
fn seek_until(db: &Db, wanted: u64) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        seek(db, KEYS);
        if runs(db) == wanted {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} runs remain", runs(db));
}

#[test]
fn seeks_push_level_zero_into_one_run() {
    let db = open(true);
    write_runs(&db, 3);
    assert_eq!(runs(&db), 3);
    seek(&db, 100);
    assert_eq!(runs(&db), 3, "a few seeks caused a merge");
    seek_until(&db, 1);
    seek(&db, KEYS);
}

#[test]
fn seeks_merge_guard_with_data_above_it() {
    let db = open(true);
    write_runs(&db, 4);
    write_runs(&db, 2);
    assert!(runs(&db) > 1);
    seek_until(&db, 1);
    seek(&db, KEYS);
    assert_eq!(db.iter().unwrap().count() as u64, KEYS);
}

#[test]
fn merge_on_seeks_can_be_disabled() {
    let db = open(false);
    write_runs(&db, 3);
    seek(&db, 10_000);
    db.wait_idle().unwrap();
    assert_eq!(runs(&db), 3);
    db.set_options(&[("merge_on_seeks", "true")]).unwrap();
    seek_until(&db, 1);
}

#[test]
fn seeks_over_many_deleted_keys_compact_them() {
    let db = open(true);
    write_runs(&db, 1);
    for i in 0..KEYS - 1 {
        db.delete(key(i)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(runs(&db), 2);
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let mut iter = db.iter().unwrap();
        iter.seek_to_first().unwrap();
        assert_eq!(iter.key(), key(KEYS - 1));
        iter.move_next().unwrap();
        assert!(!iter.valid());
        if runs(&db) == 1 {
            let kept: Vec<_> = db.tables().iter().map(|table| table.smallest.clone()).collect();
            assert_eq!(kept, [key(KEYS - 1)], "deleted keys or their tombstones remained");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("nothing was merged");
}

#[test]
fn memtable_with_seeks_and_no_writes_is_flushed() {
    let fill = |db: &Db| {
        for i in 0..KEYS {
            db.put(key(i), format!("value {i}")).unwrap();
        }
    };
    let db = open(true);
    fill(&db);
    seek_until(&db, 1);
    assert_eq!(db.metrics().flushes, 1);

    let db = open(false);
    fill(&db);
    seek(&db, 50_000);
    assert_eq!(db.metrics().flushes, 0, "seeks caused a flush although the option is off");

    // A write resets the count: a flush gains nothing if the memtable is full soon.
    let db = open(true);
    fill(&db);
    for i in 0..3_000 {
        seek(&db, 10);
        db.put(key(i), format!("value {i}")).unwrap();
    }
    assert_eq!(db.metrics().flushes, 0);

    // A small memtable is in the processor's caches anyway.
    let db = open(true);
    db.put(key(0), "value 0").unwrap();
    for _ in 0..50_000 {
        let mut iter = db.iter().unwrap();
        iter.seek(key(0)).unwrap();
        assert!(iter.valid());
    }
    assert_eq!(db.metrics().flushes, 0);
}
