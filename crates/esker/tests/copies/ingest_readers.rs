//! What others see of an ingest: concurrent readers and writers, transactions, compactions of every
//! policy, checkpoints, backups and repair.
//!
//! These tests guard against: an ingest that is visible in part; a snapshot that changes; an older
//! entry above an ingested one after compactions; a repair that takes ingested pairs for the oldest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::sorted_files::{dir, disk, file_of, get, ingest, keys, open, options};
use crate::common::{Oracle, files, image, in_order, pairs};
use esker::backup::BackupOptions;
use esker::fs::MemFs;
use esker::ingest::IngestReport;
use esker::{Db, ErrorKind, KeyOrder, Options, Policy, TransactionOptions};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

#[test]
fn open_transactions_conflict_with_ingested_keys() {
    let fs = disk();
    let db = open(&fs, &options());
    db.bulk_load(keys(0..10, "old")).unwrap();
    let touched = db.transaction(TransactionOptions::default());
    touched.put("key00005", "mine").unwrap();
    let apart = db.transaction(TransactionOptions::default());
    apart.put("key00011", "mine").unwrap();
    // A key inside of the range that is in no file is not written.
    let between = db.transaction(TransactionOptions::default());
    between.put("key00005x", "mine").unwrap();
    let path = file_of(&fs, "a", &options(), keys(4..7, "new"));
    ingest(&db, &[path]);
    assert_eq!(touched.commit().unwrap_err().kind(), ErrorKind::Conflict);
    apart.commit().unwrap();
    between.commit().unwrap();
    let later = db.transaction(TransactionOptions::default());
    later.put("key00005", "mine").unwrap();
    later.commit().unwrap();
    assert_eq!(get(&db, "key00005").unwrap(), "mine");
}

/// Returns a store in which each of four rounds hides a part of the one before, alternately by an
/// ingest and by puts, and its content.
fn layered() -> (Arc<MemFs>, Db, Pairs) {
    let fs = disk();
    let db = open(&fs, &options());
    let mut oracle = Oracle::new();
    for round in 0..4u32 {
        let written = keys(round * 5..round * 5 + 20, &format!("round {round}"));
        for (key, value) in &written {
            oracle.insert(key.clone().into_bytes(), value.clone().into_bytes());
        }
        if round % 2 == 0 {
            let path = file_of(&fs, &format!("{round}"), &options(), written);
            ingest(&db, &[path]);
        } else {
            written.iter().for_each(|(key, value)| db.put(key, value).unwrap());
        }
    }
    (fs, db, in_order(&oracle, &KeyOrder::Bytewise))
}

#[test]
fn number_of_an_ingest_stays_used_after_a_compaction_and_a_reopening() {
    let fs = disk();
    let db = open(&fs, &options());
    db.put("other", "logged").unwrap();
    let report = ingest(&db, &[file_of(&fs, "a", &options(), keys(0..9, "first"))]);
    // The output of the compaction is no ingested table, and no log has the number.
    db.compact_range(Some(b"key"), Some(b"kez")).unwrap();
    let second = ingest(&db, &[file_of(&fs, "b", &options(), keys(3..4, "second"))]);
    db.compact_range(Some(b"key"), Some(b"kez")).unwrap();
    let db = open(&image(dir(), &files(&*fs, dir())), &options());
    let found = (db.metrics().last_seqno, second.seqno, report.seqno);
    assert!(found.0 >= found.1 && found.1 > found.2, "{found:?} {:?}", db.tables());
    assert_eq!(get(&db, "key00003").unwrap(), "second 3");
    db.put("key00003", "put").unwrap();
    assert_eq!(get(&db, "key00003").unwrap(), "put");
    assert_eq!(db.iter().unwrap().count(), 10);
}

#[test]
fn tables_of_ingests_are_in_checkpoints_and_backups() {
    let (fs, db, whole) = layered();
    db.checkpoint("/checkpoint").unwrap();
    let checkpoint = Db::open_on(fs.clone(), "/checkpoint", options()).unwrap();
    assert_eq!(pairs(checkpoint.iter().unwrap()), whole);
    assert!(checkpoint.verify(&mut |_, _| {}).unwrap().is_whole());
    for _ in 0..2 {
        db.backup_with("/backups", &BackupOptions::default()).unwrap();
    }
    Db::restore_on(fs.clone(), "/backups", None, "/restored", options()).unwrap();
    let restored = Db::open_on(fs.clone(), "/restored", options()).unwrap();
    assert_eq!(pairs(restored.iter().unwrap()), whole);
    // Each is a store of its own, and takes files itself.
    for db in [&checkpoint, &restored] {
        db.put("key00000", "put").unwrap();
        ingest(db, &[file_of(&fs, "more", &options(), [("key00000", "more")])]);
        assert_eq!(get(db, "key00000").unwrap(), "more");
    }
}

/// Clears the stamps of ingested tables. Returns their number.
fn clear_stamps(files: &mut [(String, Vec<u8>)]) -> usize {
    let mut cleared = 0;
    for (name, bytes) in files {
        let at = bytes.len().checked_sub(96 + 16).filter(|_| name.ends_with(".sst"));
        let Some(at) = at else { continue };
        // A small number, and a checksum.
        let stamp = &mut bytes[at..at + 16];
        if stamp[2..8] == [0; 6] && stamp[..2] != [0; 2] {
            stamp.fill(0);
            cleared += 1;
        }
    }
    cleared
}

#[test]
fn repaired_stores_have_the_ingested_pairs_in_their_place() {
    let (fs, db, whole) = layered();
    db.flush().unwrap();
    let all = files(&*fs, dir());
    let repaired = |all: &[(String, Vec<u8>)]| {
        let fs = image(dir(), all);
        let report = Db::repair_on(fs.clone(), dir(), options()).unwrap();
        let db = Db::open_on(fs, dir(), options()).unwrap();
        (report, pairs(db.iter().unwrap()))
    };
    let (report, found) = repaired(&all);
    assert!(report.manifest_readable && report.lost.is_empty() && found == whole, "{report:?}");
    // Without a manifest the stamp of each table says which version is newer.
    let is_manifest = |name: &str| name.starts_with("manifest") || name == "CURRENT";
    let without: Vec<_> = all.iter().filter(|(name, _)| !is_manifest(name)).cloned().collect();
    let (report, found) = repaired(&without);
    assert!(!report.manifest_readable && found == whole, "{:?}", report.lost);
    // A stamp that a crash lost is no damage where the manifest has the number.
    let mut unstamped = all.clone();
    assert_eq!(clear_stamps(&mut unstamped), 2);
    let db = Db::open_on(image(dir(), &unstamped), dir(), options()).unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    assert_eq!(pairs(db.iter().unwrap()), whole);
    let (report, found) = repaired(&unstamped);
    assert!(report.lost.is_empty() && found == whole, "{report:?}");
    // Without both, the table is listed as lost and not served as the oldest data.
    unstamped.retain(|(name, _)| !is_manifest(name));
    let (report, _) = repaired(&unstamped);
    assert_eq!(report.lost.iter().filter(|l| l.contains("did not complete")).count(), 2);
}

#[test]
fn readers_see_all_of_an_ingest_or_nothing_while_writers_write() {
    let fs = disk();
    let options = Options { background_threads: Some(2), ..options() };
    let db = open(&fs, &options);
    let (stop, scans, rounds) = (AtomicBool::new(false), AtomicU64::new(0), 12);
    let of_round = |round: u32| keys(0..60, &format!("{round:03}"));
    ingest(&db, &[file_of(&fs, "first", &options, of_round(0))]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot();
                    let read = esker::ReadOptions::default().snapshot(&snapshot);
                    let range = (
                        std::ops::Bound::Included(b"key".to_vec()),
                        std::ops::Bound::Excluded(b"kez".to_vec()),
                    );
                    let seen = || {
                        let pairs = pairs(db.iter_with(&read, range.clone()).unwrap());
                        let rounds: Vec<Vec<u8>> =
                            pairs.iter().map(|(_, v)| v[..3].to_vec()).collect();
                        assert_eq!(rounds.len(), 60);
                        assert!(rounds.iter().all(|r| *r == rounds[0]), "{rounds:?}");
                        String::from_utf8(rounds[0].clone()).unwrap().parse::<u32>().unwrap()
                    };
                    let (first, again) = (seen(), seen());
                    assert_eq!(first, again, "a snapshot changed");
                    assert!(first >= last);
                    last = first;
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let mut n = 0u32;
            while !stop.load(Ordering::Relaxed) {
                // Beside the range, and inside of it where a file has no key.
                db.put(format!("other{:04}", n % 500), "x").unwrap();
                n += 1;
            }
        });
        for round in 1..=rounds {
            if round % 3 == 0 {
                db.bulk_load(of_round(round)).unwrap();
            } else {
                let name = format!("round{round}");
                ingest(&db, &[file_of(&fs, &name, &options, of_round(round))]);
            }
            // Readers see each round, or nearly each.
            let seen = scans.load(Ordering::Relaxed);
            while scans.load(Ordering::Relaxed) < seen + 2 {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(get(&db, "key00007").unwrap(), format!("{rounds:03} 7"));
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}

#[test]
fn concurrent_writers_of_the_same_keys_are_ordered_with_the_ingest() {
    let fs = disk();
    let options = Options { background_threads: Some(2), ..options() };
    let db = open(&fs, &options);
    let (stop, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let n = puts.fetch_add(1, Ordering::Relaxed);
                db.put("key00003", format!("put {n:09}")).unwrap();
                let found = get(&db, "key00003").unwrap();
                // Its own put, or an ingest that came after it; never an older put.
                let own = format!("put {n:09}");
                assert!(found == own || found.starts_with("ingest"), "{found} after {own}");
            }
        });
        let mut round = 0;
        while round < 15 || puts.load(Ordering::Relaxed) < 100 {
            let name = format!("round{round}");
            ingest(&db, &[file_of(&fs, &name, &options, keys(0..9, "ingest"))]);
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
    db.close().unwrap();
    let before = get(&open(&fs, &options), "key00003");
    assert!(before.is_some());
}

#[test]
fn files_take_the_deepest_level_that_is_right() {
    for policy in Policy::ALL {
        let options = Options { policy: *policy, ..options() };
        let fs = disk();
        let db = open(&fs, &options);
        let level = |report: &IngestReport| report.levels.iter().position(|n| *n > 0).unwrap();
        let first = db.bulk_load(keys(0..1000, "a")).unwrap();
        let deepest = level(&first);
        assert!(deepest >= 1, "{policy}");
        // Beside it: as deep. Over it: above it. Over both: above those.
        let beside = ingest(&db, &[file_of(&fs, "1", &options, keys(2000..2010, "b"))]);
        assert_eq!(level(&beside), deepest, "{policy}");
        let over = ingest(&db, &[file_of(&fs, "2", &options, keys(500..510, "c"))]);
        assert_eq!(level(&over), deepest - 1, "{policy}");
        let mut above = level(&over);
        while above > 0 {
            let path = file_of(&fs, &format!("over{above}"), &options, keys(500..510, "d"));
            let report = ingest(&db, &[path]);
            assert_eq!(level(&report), above - 1, "{policy}");
            above -= 1;
        }
        let top = ingest(&db, &[file_of(&fs, "top", &options, keys(490..520, "e"))]);
        assert_eq!(level(&top), 0, "{policy}");
        // Two files of one ingest, each in its own place.
        let two = [
            file_of(&fs, "low", &options, keys(505..506, "f")),
            file_of(&fs, "high", &options, keys(3000..3001, "f")),
        ];
        let two = ingest(&db, &two);
        assert_eq!((two.levels[0], two.levels[deepest]), (1, 1), "{policy}");
        let check = |db: &Db| {
            assert_eq!(get(db, "key00505").unwrap(), "f 505", "{policy}");
            assert_eq!(get(db, "key00500").unwrap(), "e 500", "{policy}");
            assert_eq!(get(db, "key00480").unwrap(), "a 480", "{policy}");
            assert_eq!(db.iter().unwrap().count(), 1011, "{policy}");
        };
        check(&db);
        db.wait_idle().unwrap();
        check(&db);
        db.compact_range(None, None).unwrap();
        check(&db);
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    }
}

#[test]
fn hints_of_empty_ranges_hide_no_ingested_key() {
    let fs = disk();
    let options = Options { background_threads: Some(1), ..options() };
    let db = open(&fs, &options);
    db.bulk_load(keys(0..2000, "old")).unwrap();
    db.delete_range("key00100", "key01900").unwrap();
    for n in 100..1900 {
        db.delete(format!("key{n:05}")).unwrap();
    }
    // A search may or may not have ended; the reads below are right in both cases.
    for round in 0..20 {
        let n = 200 + round * 7;
        let path = file_of(&fs, &format!("{round}"), &options, keys(n..n + 1, "new"));
        ingest(&db, &[path]);
        let mut iter = db.iter().unwrap();
        iter.seek("key00150").unwrap();
        assert_eq!(iter.next().unwrap().unwrap().0, b"key00200");
        assert_eq!(db.iter().unwrap().count(), 200 + round as usize + 1);
    }
}
