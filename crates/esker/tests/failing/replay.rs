//! Openings with unexpected input: logs longer than memory, foreign file names, and options that
//! would create countless files.
//!
//! These tests guard against past failures: a log read completely into memory; the same operations
//! twice, in tables and in a memtable, after a crash in the middle of a recovery; a file with the
//! greatest possible number, which stopped every opening; guards of a few entries.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use esker::fs::Fs;
use esker::{Db, Options, WriteOptions};
use esker_testkit::crash::{CrashFs, CrashModel, Image};

/// Returns options without threads, so that this test controls every step.
fn options(memtable_bytes: u64) -> Options {
    Options {
        memory_budget_bytes: Some(16 << 20),
        memtable_size_bytes: Some(memtable_bytes),
        frozen_memtables_max: 1,
        file_size_max_bytes: 4 << 10,
        background_threads: Some(0),
        auto_compaction: false,
        log_file: false,
        status_file: false,
        ..Options::default()
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(db: &Db) -> Pairs {
    db.iter().unwrap().map(|pair| pair.unwrap()).collect()
}

/// Writes overwrites, deletes and range deletes into one synced log, then lets the process die.
/// Returns the content.
fn killed(disk: &Arc<CrashFs>, dir: &Path, rounds: u64) -> Pairs {
    let db = Db::open_on(disk.clone(), dir, options(1 << 20)).unwrap();
    for i in 0..rounds {
        let key = |n: u64| format!("key {:03}", n * 37 % 97);
        db.put(key(i), format!("{i} {}", "x".repeat(80))).unwrap();
        if i % 11 == 3 {
            db.delete(key(i + 1)).unwrap();
        }
        if i % 50 == 17 {
            db.delete_range("key 010", format!("key {:03}", 12 + i % 7)).unwrap();
        }
    }
    db.put_with("last", "one", &WriteOptions::SYNC).unwrap();
    let want = pairs(&db);
    assert_eq!(db.metrics().flushes, 0, "some data is not only in the log");
    std::mem::forget(db);
    want
}

#[test]
fn log_larger_than_memory_is_flushed_during_replay() {
    let (disk, dir) = (CrashFs::seeded(1), PathBuf::from("/db"));
    let want = killed(&disk, &dir, 600);
    let disk = disk.next_process();
    let db = Db::open_on(disk.clone(), &dir, options(4 << 10)).unwrap();
    assert!(db.metrics().levels[0].runs_max > 5, "{:?}", db.metrics().levels);
    assert_eq!(pairs(&db), want);
    // Later writes are newer than all replayed ones.
    db.put("key 000", "new").unwrap();
    assert_eq!(db.get("key 000").unwrap().as_deref(), Some(&b"new"[..]));
    db.delete("key 000").unwrap();
    db.compact_range(None, None).unwrap();
    let want: Pairs = want.into_iter().filter(|(key, _)| key != b"key 000").collect();
    assert_eq!(pairs(&db), want);
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    db.close().unwrap();
    let read_only = Db::open_read_only_on(disk, &dir, options(4 << 10)).unwrap();
    assert_eq!(pairs(&read_only), want);
}

#[test]
fn read_only_open_writes_no_tables() {
    let (disk, dir) = (CrashFs::seeded(2), PathBuf::from("/db"));
    let want = killed(&disk, &dir, 300);
    let disk = disk.next_process();
    let names = || disk.list(&dir).unwrap().into_iter().map(|e| e.name).collect::<Vec<_>>();
    let before = names();
    let db = Db::open_read_only_on(disk.clone(), &dir, options(4 << 10)).unwrap();
    assert_eq!(pairs(&db), want);
    assert_eq!(names(), before);
}

/// Returns the images of power cuts during an opening with small memtables.
fn cuts_of_opening(disk: &Arc<CrashFs>, dir: &Path, every: usize) -> Vec<Image> {
    let images = Arc::new(Mutex::new((0, Vec::new())));
    let seen = images.clone();
    disk.watch(move |disk| {
        let mut seen = seen.lock().unwrap();
        seen.0 += 1;
        if seen.0 % every == 0 {
            for model in [CrashModel::SyncedOnly, CrashModel::Everything] {
                let image = disk.image(model);
                seen.1.push(image);
            }
        }
    });
    let db = Db::open_on(disk.clone(), dir, options(4 << 10)).unwrap();
    disk.unwatch();
    std::mem::forget(db);
    let mut images = images.lock().unwrap();
    std::mem::take(&mut images.1)
}

#[test]
fn power_cuts_during_replay_and_next_recovery_lose_nothing() {
    let (disk, dir) = (CrashFs::seeded(3), PathBuf::from("/db"));
    let want = killed(&disk, &dir, 260);
    let check = |image: &Image, what: &str| {
        let disk = image.to_disk(9);
        let db = Db::open_on(disk.clone(), &dir, options(4 << 10))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(pairs(&db) == want, "{what}");
        for (key, value) in &want {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{what}");
        }
        db.compact_range(None, None).unwrap();
        assert!(pairs(&db) == want, "{what}, compacted");
    };
    let images = cuts_of_opening(&disk.next_process(), &dir, 3);
    assert!(images.len() > 40, "{} images", images.len());
    let mut nested = 0;
    for (at, image) in images.iter().enumerate() {
        check(image, &format!("cut {at}"));
        if at % 13 == 0 {
            let deeper = cuts_of_opening(&image.to_disk(at as u64), &dir, 7);
            for (second, image) in deeper.iter().enumerate() {
                check(image, &format!("cut {second} after cut {at}"));
                nested += 1;
            }
        }
    }
    assert!(nested > 40, "{nested} nested images");
    // A repair uses both the tables and the logs, which contain the same operations.
    let disk = images[images.len() / 2].to_disk(5);
    let report = Db::repair_on(disk.clone(), &dir, options(4 << 10)).unwrap();
    assert!(report.lost.is_empty(), "{:?}", report.lost);
    let db = Db::open_on(disk, &dir, options(4 << 10)).unwrap();
    assert!(pairs(&db) == want);
}

#[test]
fn files_with_numbers_beyond_counter_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let strays = [
        "manifest-18446744073709551614",
        "manifest-18446744073709551615",
        "18446744073709551615.wal",
        "18446744073709551615.sst",
        "manifest-1152921504606846976",
        "1152921504606846976.wal",
        "1152921504606846975.sst",
    ];
    Db::open(&path, Options::default()).unwrap().close().unwrap();
    for stray in strays {
        std::fs::write(path.join(stray), "nobody's").unwrap();
    }
    for round in 0..3_u64 {
        let db = Db::open(&path, Options::default()).unwrap();
        db.put(round.to_be_bytes(), "value").unwrap();
        db.flush().unwrap();
        db.put((round + 10).to_be_bytes(), "value").unwrap();
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
        db.close().unwrap();
    }
    let db = Db::open_read_only(&path, Options::default()).unwrap();
    assert_eq!(db.iter().unwrap().count(), 6);
    drop(db);
    for stray in strays {
        assert_eq!(std::fs::read(path.join(stray)).unwrap(), b"nobody's", "{stray}");
    }
    let names = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name());
    let far = names.filter(|name| name.len() > 20).count();
    assert_eq!(far, strays.len(), "file numbers do not continue after a stray file's number");
    Db::repair(&path, Options::default()).unwrap();
    let db = Db::open(&path, Options::default()).unwrap();
    assert_eq!(db.iter().unwrap().count(), 6);
    db.close().unwrap();
}

#[test]
fn tiny_guards_do_not_create_unlimited_files() {
    for policy in esker::Policy::ALL {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            policy: *policy,
            guard_size_max_bytes: 4096,
            guard_piece_min_bytes: 1024,
            fan_out: 2,
            // It measures tables, also where the tests run with all values in value files.
            value_separation_min_bytes: esker::ValueSeparation::Off,
            memtable_size_bytes: Some(1 << 20),
            compression: esker::Compression::None,
            ..Options::default()
        };
        let db = Db::open(dir.path().join("db"), options).unwrap();
        for i in 0..30_000_u64 {
            let key = i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            db.put(key, [i as u8; 500]).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let (files, bytes) = (db.metrics().table_files, db.metrics().table_bytes);
        // A file has at least a sixteenth of a memtable, except for the rest before the end of a
        // guard.
        let most = 2 * 16 * (bytes >> 20) + 16;
        assert!(files <= most, "{policy}: {files} files of {bytes} bytes");
        assert_eq!(db.iter().unwrap().count(), 30_000);
        db.close().unwrap();
    }
}

/// Returns options with a flush thread, which writes the tables of recovered memtables.
fn with_threads(memtable_bytes: u64, frozen_memtables_max: u64) -> Options {
    Options { background_threads: Some(1), frozen_memtables_max, ..options(memtable_bytes) }
}

#[test]
fn sync_after_opening_makes_recovered_writes_durable() {
    for memtable_bytes in [4 << 10, 1 << 20] {
        let (disk, dir) = (CrashFs::seeded(5), PathBuf::from("/db"));
        let db = Db::open_on(disk.clone(), &dir, options(1 << 20)).unwrap();
        (0..400).for_each(|n: u32| db.put(n.to_be_bytes(), [n as u8; 80]).unwrap());
        let want = pairs(&db);
        std::mem::forget(db);
        // The process was killed: its log is in the page cache, and nothing of it is synced.
        let disk = disk.next_process();
        let db = Db::open_on(disk.clone(), &dir, with_threads(memtable_bytes, 3)).unwrap();
        assert!(pairs(&db) == want, "the recovered writes are readable at once");
        db.put("not synced", "value").unwrap();
        db.put_with("synced", "value", &WriteOptions::SYNC).unwrap();
        let image = disk.image(CrashModel::SyncedOnly);
        let survivor = Db::open_on(image.to_disk(1), &dir, options(1 << 20)).unwrap();
        assert_eq!(survivor.get("synced").unwrap().as_deref(), Some(&b"value"[..]));
        for (key, value) in &want {
            assert_eq!(survivor.get(key).unwrap().as_deref(), Some(&value[..]));
        }
        drop(survivor);
        // `Db::sync` and a close wait in the same way.
        db.sync().unwrap();
        db.close().unwrap();
        let image = disk.image(CrashModel::SyncedOnly);
        let survivor = Db::open_on(image.to_disk(2), &dir, with_threads(1 << 20, 3)).unwrap();
        assert_eq!(pairs(&survivor).len(), want.len() + 2);
    }
}

#[test]
fn power_cuts_while_recovered_memtables_are_flushed_lose_nothing() {
    let (disk, dir) = (CrashFs::seeded(6), PathBuf::from("/db"));
    let want = killed(&disk, &dir, 260);
    let killed = disk.image(CrashModel::Everything);
    for (memtable_bytes, frozen_memtables_max) in [(4 << 10, 1), (8 << 10, 3), (1 << 20, 3)] {
        let disk = killed.to_disk(7);
        let images = Arc::new(Mutex::new((0, Vec::new())));
        let seen = images.clone();
        disk.watch(move |disk| {
            let mut seen = seen.lock().unwrap();
            seen.0 += 1;
            if seen.0 % 5 == 0 {
                for model in [CrashModel::SyncedOnly, CrashModel::Everything] {
                    let image = disk.image(model);
                    seen.1.push(image);
                }
            }
        });
        let options = with_threads(memtable_bytes, frozen_memtables_max);
        let db = Db::open_on(disk.clone(), &dir, options.clone()).unwrap();
        db.flush().unwrap();
        disk.unwatch();
        assert!(pairs(&db) == want);
        db.close().unwrap();
        let images = std::mem::take(&mut images.lock().unwrap().1);
        assert!(images.len() > 10, "{} images", images.len());
        for (at, image) in images.iter().enumerate() {
            let what = format!("memtables of {memtable_bytes} bytes, cut {at}");
            let opened = Db::open_on(image.to_disk(9), &dir, options.clone());
            let db = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(pairs(&db) == want, "{what}");
            db.flush().unwrap();
            assert!(pairs(&db) == want, "{what}, flushed");
        }
    }
}
