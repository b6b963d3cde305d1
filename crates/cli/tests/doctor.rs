//! Stores made sick on purpose, each named by the doctor; a healthy store gets no advice.

mod common;

use std::time::Duration;

use common::TestDir;
use esker::{Db, Metrics, Options};

fn key(number: u64) -> Vec<u8> {
    format!("key{number:012}").into_bytes()
}

/// Bytes that no compression shortens much.
fn value(number: u64, len: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A spread order of `0..count`; `count` must not be a multiple of 7919.
fn spread(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |number| number * 7919 % count)
}

fn open(dir: &TestDir, options: &[(&str, &str)]) -> Db {
    let mut own = Options::default();
    for (name, value) in options {
        own.set(name, value).unwrap();
    }
    Db::open(dir.path("db"), own).unwrap()
}

/// Waits until the store has published metrics that satisfy `is_enough`.
fn published(dir: &TestDir, is_enough: impl Fn(&Metrics) -> bool) {
    for _ in 0..2000 {
        if Db::live_status(dir.path("db")).is_ok_and(|live| is_enough(&live.metrics)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the metrics were not published: {:?}", Db::live_status(dir.path("db")));
}

/// Runs the doctor, which must exit with `code`, and returns the names of its findings.
fn names(dir: &TestDir, live: bool, code: i32) -> Vec<String> {
    let mut args = vec!["doctor", "db", "--json"];
    args.extend(live.then_some("--live"));
    let ran = dir.run(&args);
    assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let findings = found["findings"].as_array().unwrap();
    for finding in findings {
        assert!(!finding["evidence"].as_array().unwrap().is_empty(), "{finding}");
        assert!(finding["advice"].as_str().is_some_and(|advice| !advice.is_empty()), "{finding}");
    }
    findings.iter().map(|finding| finding["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn healthy_store_gets_no_advice() {
    let dir = TestDir::new();
    let db = open(&dir, &[]);
    for number in spread(50_000) {
        db.put(key(number), value(number, 100)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for number in spread(50_000) {
        assert!(db.get(key(number)).unwrap().is_some());
    }
    published(&dir, |metrics| metrics.cache_hits + metrics.cache_misses >= 50_000);
    assert_eq!(names(&dir, true, 0), [] as [&str; 0]);
    db.close().unwrap();
    assert_eq!(names(&dir, false, 0), [] as [&str; 0]);
    let text = dir.ok(&["doctor", "db", "--quick"]);
    assert_eq!(text, "db: no advice\n");
    dir.fails(&["doctor", "db", "--live"], 4, "not open for writing");
    dir.fails(&["doctor", "none"], 4, "none");
}

#[test]
fn tombstones_are_named_and_the_advice_removes_them() {
    let dir = TestDir::new();
    let db = open(&dir, &[("auto_compaction", "false")]);
    for number in 0..20_000 {
        db.put(key(number), value(number, 20)).unwrap();
    }
    db.flush().unwrap();
    for number in 0..15_000 {
        db.delete(key(number)).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    assert!(names(&dir, false, 1).contains(&"tombstones".to_string()));
    dir.ok(&["compact", "db"]);
    assert_eq!(names(&dir, false, 0), [] as [&str; 0]);
}

#[test]
fn space_of_overwritten_data_is_named_and_the_advice_frees_it() {
    let dir = TestDir::new();
    let db = open(&dir, &[("auto_compaction", "false")]);
    for round in 0..5 {
        for number in 0..10_000 {
            db.put(key(number), value(number + round * 7, 200)).unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    assert_eq!(names(&dir, false, 1), ["space"]);
    dir.ok(&["compact", "db"]);
    assert_eq!(names(&dir, false, 0), [] as [&str; 0]);
}

#[test]
fn held_snapshot_is_named_while_it_lives() {
    let dir = TestDir::new();
    let db = open(&dir, &[]);
    let mut snapshots = Vec::new();
    for round in 0..4 {
        for number in 0..10_000 {
            db.put(key(number), value(number + round * 7, 200)).unwrap();
        }
        snapshots.push(db.snapshot());
    }
    db.compact_range(None, None).unwrap();
    published(&dir, |metrics| metrics.snapshots == 4);
    assert_eq!(names(&dir, true, 1), ["held snapshot"]);
    drop(snapshots);
    db.compact_range(None, None).unwrap();
    published(&dir, |metrics| metrics.snapshots == 0);
    let text = dir.run(&["doctor", "db", "--live"]).out;
    assert!(!text.contains("held snapshot"), "{text}");
    db.close().unwrap();
}

#[test]
fn too_many_runs_are_named_and_the_advice_merges_them() {
    let dir = TestDir::new();
    let db = open(&dir, &[("auto_compaction", "false")]);
    for round in 0..30 {
        for number in 0..200 {
            db.put(key(number * 31 + round), value(number, 20)).unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    assert_eq!(names(&dir, false, 1), ["too many runs"]);
    let text = dir.run(&["doctor", "db"]).out;
    assert!(text.contains("advice: auto_compaction=true"), "{text}");
    dir.ok(&["compact", "db"]);
    assert_eq!(names(&dir, false, 0), [] as [&str; 0]);
}

#[test]
fn missing_filter_with_many_misses_is_named() {
    let dir = TestDir::new();
    let db = open(&dir, &[("filter_bits_per_key", "0"), ("auto_compaction", "false")]);
    for round in 0..4 {
        for number in spread(5_000) {
            db.put(key(number * 8 + round), value(number, 50)).unwrap();
        }
        db.flush().unwrap();
    }
    for number in spread(20_000) {
        assert!(db.get(key(number / 4 * 8 + 4 + number % 4)).unwrap().is_none());
    }
    published(&dir, |metrics| metrics.cache_hits + metrics.cache_misses >= 40_000);
    assert_eq!(names(&dir, true, 1), ["no filter"]);
    db.close().unwrap();
}

#[test]
fn small_cache_is_named() {
    let dir = TestDir::new();
    let db = open(&dir, &[("cache_size_bytes", "1048576")]);
    for number in spread(60_000) {
        db.put(key(number), value(number, 200)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for number in spread(60_000) {
        assert!(db.get(key(number)).unwrap().is_some());
    }
    published(&dir, |metrics| metrics.cache_hits + metrics.cache_misses >= 60_000);
    let live = Db::live_status(dir.path("db")).unwrap().metrics;
    assert_eq!(names(&dir, true, 1), ["cache too small"], "{live:?}");
    db.close().unwrap();
}

#[test]
fn small_memtables_are_named() {
    let dir = TestDir::new();
    let db = open(&dir, &[("memtable_size_bytes", "65536")]);
    for number in spread(30_000) {
        db.put(key(number), value(number, 100)).unwrap();
    }
    db.flush().unwrap();
    published(&dir, |metrics| metrics.flushes >= 16);
    // Writers may also stall behind so many flushes, which is another finding.
    let found = names(&dir, true, 1);
    assert!(found.contains(&"memtable too small".to_string()), "{found:?}");
    db.close().unwrap();
}

#[test]
fn lazy_policy_under_reads_is_named() {
    let dir = TestDir::new();
    let db = open(&dir, &[("policy", "tiered"), ("auto_compaction", "false")]);
    for round in 0..7 {
        for number in 0..2_000 {
            db.put(key(number * 7 + round), value(number, 20)).unwrap();
        }
        db.flush().unwrap();
    }
    for _ in 0..10 {
        for number in spread(14_000) {
            assert!(db.get(key(number)).unwrap().is_some());
        }
    }
    let found =
        |metrics: &Metrics| metrics.levels.iter().map(|level| level.table_gets).sum::<u64>();
    published(&dir, |metrics| found(metrics) >= 140_000);
    assert_eq!(names(&dir, true, 1), ["policy against the workload"]);
    db.close().unwrap();
}

/// Flips a byte in the middle of the first table of the store.
fn damage(dir: &TestDir, db: Db) {
    let number = db.tables()[0].number;
    db.close().unwrap();
    let table = std::fs::read_dir(dir.path("db")).unwrap().flatten().find(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with(&format!("{number:06}")) && !name.ends_with(".wal")
    });
    let table = table.unwrap().path();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&table, bytes).unwrap();
}

#[test]
fn damage_is_named_with_the_exit_code_of_damage() {
    let dir = TestDir::new();
    let db = open(&dir, &[]);
    for number in 0..5_000 {
        db.put(key(number), value(number, 100)).unwrap();
    }
    db.flush().unwrap();
    damage(&dir, db);
    assert_eq!(names(&dir, false, 3), ["damage"]);
    let text = dir.run(&["doctor", "db"]).out;
    assert!(text.contains("esker repair"), "{text}");
    assert_eq!(dir.run(&["doctor", "db", "--quick"]).code, 0);
}

#[test]
fn damage_in_the_sample_of_a_larger_store_is_named() {
    let dir = TestDir::new();
    let db = open(&dir, &[]);
    for number in 0..20_000 {
        db.put(key(number), value(number, 200)).unwrap();
    }
    db.flush().unwrap();
    damage(&dir, db);
    assert_eq!(names(&dir, false, 3), ["damage"]);
    assert_eq!(dir.run(&["doctor", "db", "--quick"]).code, 3);
    // The repair says that the damaged block is lost.
    assert_eq!(dir.run(&["repair", "db"]).code, 3);
    assert_eq!(names(&dir, false, 0), [] as [&str; 0]);
}
