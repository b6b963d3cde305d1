//! Pairs that expire, with a clock that the test turns: what readers and snapshots see, when space
//! is freed, and what strange times do.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{Turning, pairs, tiny_options};
use esker::fs::MemFs;
use esker::{
    Batch, Db, ErrorKind, KeyspaceOptions, Options, TransactionOptions, WriteOptions,
    built_in_merge_operator,
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns a clock at 1,000 ms, and options with it and without threads.
fn turning() -> (Arc<Turning>, Options) {
    let clock = Arc::new(Turning(AtomicU64::new(1_000)));
    let options = Options {
        clock: Some(clock.clone()),
        background_threads: Some(0),
        merge_operator: built_in_merge_operator("append(,)"),
        ..tiny_options()
    };
    (clock, options)
}

fn dir() -> &'static Path {
    Path::new("/db")
}

fn keys(db: &Db) -> Vec<String> {
    let keys = pairs(db.iter().unwrap()).into_iter().map(|(key, _)| key);
    keys.map(|key| String::from_utf8(key).unwrap()).collect()
}

/// Returns the number of entries in tables.
fn entries(db: &Db) -> u64 {
    db.verify(&mut |_, _| {}).unwrap().entries
}

#[test]
fn a_pair_is_shown_until_its_time_and_never_after() {
    let (clock, options) = turning();
    let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
    db.put_with_ttl("a", "v", ms(100)).unwrap();
    db.put("b", "v").unwrap();
    let (value, time_ms) = db.get_with_expiry("a").unwrap().unwrap();
    assert_eq!((&*value, time_ms), (&b"v"[..], Some(1_100)));
    assert_eq!(db.get_with_expiry("b").unwrap().unwrap().1, None);
    assert!(db.get_with_expiry("c").unwrap().is_none());
    for in_table in [false, true] {
        if in_table {
            clock.0.store(1_099, Relaxed);
            db.flush().unwrap();
        }
        assert_eq!(&*db.get("a").unwrap().unwrap(), b"v");
        assert_eq!(db.read("a", <[u8]>::to_vec).unwrap().unwrap(), b"v");
        assert_eq!(db.multi_get(&["a", "b"]).unwrap().iter().flatten().count(), 2);
        assert_eq!(keys(&db), ["a", "b"]);
    }
    let (snapshot, old) = (db.snapshot(), db.iter().unwrap());
    let transaction = db.transaction(TransactionOptions::default());
    clock.0.store(1_100, Relaxed);
    assert!(db.get("a").unwrap().is_none() && !db.contains_key("a").unwrap());
    assert!(db.multi_get(&["a"]).unwrap()[0].is_none());
    assert!(!db.remove("a").unwrap() && !db.touch("a", ms(5)).unwrap());
    assert_eq!(keys(&db), ["b"]);
    assert!(db.iter().unwrap().rev().map(|pair| pair.unwrap().0).eq([b"b".to_vec()]));
    // A reader judges at the time at which it began.
    db.compact_range(None, None).unwrap();
    assert_eq!(&*snapshot.get("a").unwrap().unwrap(), b"v");
    assert_eq!(&*transaction.get("a").unwrap().unwrap(), b"v");
    assert_eq!((old.count(), transaction.iter().unwrap().count()), (2, 2));
    drop((snapshot, transaction));
    db.compact_range(None, None).unwrap();
    assert_eq!(entries(&db), 1);
}

#[test]
fn a_clock_that_goes_back_brings_nothing_back() {
    let (clock, options) = turning();
    let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
    db.put_with_ttl("a", "v", ms(10)).unwrap();
    clock.0.store(1_010, Relaxed);
    assert!(db.get("a").unwrap().is_none());
    clock.0.store(3, Relaxed);
    assert!(db.get("a").unwrap().is_none() && keys(&db).is_empty());
    assert!(db.snapshot().get("a").unwrap().is_none());
    // The time stands still at the latest that was seen.
    db.put_with_ttl("b", "v", ms(10)).unwrap();
    assert_eq!(db.get_with_expiry("b").unwrap().unwrap().1, Some(1_020));
    clock.0.store(1_019, Relaxed);
    assert!(db.get("b").unwrap().is_some());
    clock.0.store(u64::MAX, Relaxed);
    assert!(db.get("b").unwrap().is_none());
}

#[test]
fn an_expired_pair_hides_older_versions_for_ever() {
    let (clock, options) = turning();
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
    db.put("k", "old").unwrap();
    db.compact_range(None, None).unwrap();
    db.put_with_ttl("k", "new", ms(10)).unwrap();
    db.flush().unwrap();
    clock.0.store(1_010, Relaxed);
    assert!(db.get("k").unwrap().is_none());
    while db.run_one_job().unwrap() {
        assert!(db.get("k").unwrap().is_none());
    }
    db.compact_range(None, None).unwrap();
    assert!(db.get("k").unwrap().is_none() && keys(&db).is_empty());
    drop(db);
    // A clock that has gone back since the last opening finds nothing either.
    clock.0.store(1_000, Relaxed);
    let db = Db::open_on(fs, dir(), options).unwrap();
    assert!(db.get("k").unwrap().is_none() && keys(&db).is_empty());
}

#[test]
fn strange_times_to_live_have_a_meaning() {
    let (clock, options) = turning();
    let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
    db.put_with_ttl("zero", "v", Duration::ZERO).unwrap();
    db.put_with_ttl("rounded", "v", Duration::from_nanos(1)).unwrap();
    db.put_with_ttl("long", "v", ms(1 << 63)).unwrap();
    db.put_with_ttl("ever", "v", Duration::MAX).unwrap();
    assert_eq!(keys(&db), ["ever", "long", "rounded"]);
    let time_of = |key: &str| db.get_with_expiry(key).unwrap().unwrap().1;
    assert_eq!(time_of("rounded"), Some(1_001));
    assert_eq!((time_of("long"), time_of("ever")), (Some((1 << 63) + 1_000), None));
    clock.0.store(1 << 62, Relaxed);
    assert_eq!(keys(&db), ["ever", "long"]);
    // A time to live beyond the end of time never ends.
    db.put_with_ttl("late", "v", ms(u64::MAX - 1)).unwrap();
    assert_eq!(time_of("late"), None);
    clock.0.store(u64::MAX, Relaxed);
    db.compact_range(None, None).unwrap();
    assert_eq!(keys(&db), ["ever", "late"]);
}

#[test]
fn touch_replaces_the_time_and_keeps_the_value() {
    let (clock, options) = turning();
    let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
    db.put_with_ttl("k", "v", ms(10)).unwrap();
    clock.0.store(1_009, Relaxed);
    assert!(db.touch("k", ms(10)).unwrap());
    clock.0.store(1_018, Relaxed);
    db.merge("k", "w").unwrap();
    // The operand does not expire.
    assert_eq!(db.get_with_expiry("k").unwrap().unwrap().1, None);
    assert!(db.touch("k", ms(10)).unwrap());
    let (value, time_ms) = db.get_with_expiry("k").unwrap().unwrap();
    assert_eq!((&*value, time_ms), (&b"v,w"[..], Some(1_028)));
    assert!(db.touch("k", Duration::MAX).unwrap());
    clock.0.store(9_000, Relaxed);
    assert_eq!(&*db.get("k").unwrap().unwrap(), b"v,w");
    assert_eq!(db.touch(vec![0; 2 << 20], ms(1)).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn operands_stay_when_the_value_below_them_expires() {
    let (clock, options) = turning();
    let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
    db.put_with_ttl("k", "base", ms(10)).unwrap();
    db.merge("k", "x").unwrap();
    db.merge("k", "y").unwrap();
    for now_ms in [1_000, 1_009] {
        clock.0.store(now_ms, Relaxed);
        assert_eq!(&*db.get("k").unwrap().unwrap(), b"base,x,y");
        db.compact_range(None, None).unwrap();
    }
    clock.0.store(1_010, Relaxed);
    assert_eq!(&*db.get("k").unwrap().unwrap(), b"x,y");
    db.compact_range(None, None).unwrap();
    assert_eq!(&*db.get("k").unwrap().unwrap(), b"x,y");
}

#[test]
fn the_time_to_live_of_a_batch_and_of_a_transaction_begins_with_the_write() {
    let (clock, options) = turning();
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
    let keyspace = KeyspaceOptions::default().ttl(ms(100));
    let own = db.keyspace("own", &keyspace).unwrap();
    let mut batch = Batch::new();
    batch.put_with_ttl("b", "v", ms(10)).put_in(&own, "b", "v");
    batch.put_with_ttl_in(&own, "short", "v", ms(1)).put_with_ttl_in(
        &own,
        "ever",
        "v",
        Duration::MAX,
    );
    let transaction = db.transaction(TransactionOptions::default());
    transaction.savepoint().unwrap();
    transaction.put_with_ttl("gone", "v", ms(10)).unwrap();
    transaction.rollback_to_savepoint().unwrap();
    transaction.put("plain", "v").unwrap();
    transaction.put_with_ttl("t", "v", ms(20)).unwrap();
    transaction.put_in(&own, "t", "v").unwrap();
    let prepared = db.transaction(TransactionOptions::default());
    prepared.put_with_ttl("p", "v", ms(30)).unwrap();
    clock.0.store(2_000, Relaxed);
    for _ in 0..2 {
        db.write(&batch).unwrap();
        clock.0.fetch_add(1, Relaxed);
    }
    transaction.commit().unwrap();
    prepared.prepare("p").unwrap();
    let check = |db: &Db| {
        let own = db.existing_keyspace("own").unwrap().unwrap();
        let time_of = |key: &str| db.get_with_expiry(key).unwrap().unwrap().1;
        let own_time_of = |key: &str| own.get_with_expiry(key).unwrap().unwrap().1;
        assert_eq!(
            (time_of("b"), time_of("t"), time_of("plain")),
            (Some(2_011), Some(2_022), None)
        );
        assert_eq!((own_time_of("b"), own_time_of("t")), (Some(2_101), Some(2_102)));
        assert_eq!(own_time_of("ever"), None);
        assert!(own.get("short").unwrap().is_none());
    };
    check(&db);
    drop((own, db));
    let db = Db::open_on(fs, dir(), options).unwrap();
    check(&db);
    db.commit_prepared("p").unwrap();
    assert_eq!(db.get_with_expiry("p").unwrap().unwrap().1, Some(2_032));
    clock.0.store(2_032, Relaxed);
    assert_eq!(keys(&db), ["plain"]);
}

#[test]
fn whole_files_of_expired_pairs_go_without_being_read() {
    let (clock, options) = turning();
    let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
    let own = db.keyspace("own", &KeyspaceOptions::default().ttl(ms(50))).unwrap();
    for key in 0..200 {
        own.put(format!("{key:03}"), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let files = db.tables().len();
    let snapshot = db.snapshot();
    assert!(files > 0);
    clock.0.store(1_050, Relaxed);
    while db.run_one_job().unwrap() {}
    assert_eq!(db.tables().len(), files, "the snapshot sees the pairs");
    drop(snapshot);
    let before = db.metrics();
    while db.run_one_job().unwrap() {}
    let after = db.metrics();
    assert!(db.tables().is_empty());
    assert!(after.expired_files > 0);
    assert_eq!(after.compaction_read_bytes, before.compaction_read_bytes);
    assert_eq!(own.iter().unwrap().count(), 0);
}

#[test]
fn expired_files_are_found_by_the_threads_of_the_store() {
    let (clock, options) = turning();
    let options = Options { background_threads: Some(1), ..options };
    let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
    for key in 0..100 {
        db.put_with_ttl(format!("{key:03}"), [7; 100], ms(50)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(!db.tables().is_empty());
    clock.0.store(1_050, Relaxed);
    // No call wakes the threads. The test ends when the files are gone.
    while !db.tables().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(db.metrics().compaction_read_bytes, 0);
    assert_eq!(db.iter().unwrap().count(), 0);
}

#[test]
fn a_conflict_is_found_with_a_pair_that_has_expired_at_once() {
    let (_clock, options) = turning();
    let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
    db.put("k", "v").unwrap();
    let transaction = db.transaction(TransactionOptions::default());
    transaction.put("k", "mine").unwrap();
    db.put_with_ttl("k", "theirs", Duration::ZERO).unwrap();
    db.flush().unwrap();
    while db.run_one_job().unwrap() {}
    db.compact_range(None, None).unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert!(db.get("k").unwrap().is_none());
}

#[test]
fn expiring_pairs_are_in_backups_checkpoints_and_read_only_openings() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, options) = turning();
    let options = Options { background_threads: Some(1), ..options };
    let db = Db::open(dir.path().join("db"), options.clone()).unwrap();
    db.put_with_ttl("a", "v", ms(100)).unwrap();
    db.merge("k", "x").unwrap();
    db.flush().unwrap();
    db.put_with_ttl("b", "v", ms(200)).unwrap();
    db.merge("k", "y").unwrap();
    db.put_with("c", "v", &WriteOptions::SYNC).unwrap();
    db.checkpoint(dir.path().join("copy")).unwrap();
    for name in ["copy", "db"] {
        clock.0.store(1_099, Relaxed);
        let copy = Db::open_read_only(dir.path().join(name), options.clone()).unwrap();
        assert_eq!(keys(&copy), ["a", "b", "c", "k"]);
        clock.0.store(1_150, Relaxed);
        assert_eq!(keys(&copy), ["b", "c", "k"]);
        assert_eq!(&*copy.get("k").unwrap().unwrap(), b"x,y");
    }
}
