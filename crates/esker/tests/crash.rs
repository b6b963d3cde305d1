//! The state after a crash: the log cut at every byte, every byte of every file flipped, and kill
//! -9.
//!
//! These tests guard against past failures: a torn tail taken for data; a hole in the middle of the
//! log; a store that does not open after a crash during its creation; damage returned as a value.

mod common;
mod encrypted_store;

use std::path::Path;
use std::sync::Arc;

use common::{bounded_options, files, image, in_order, pairs};
use esker::fs::Fs;
use esker::fs::MemFs;
use esker::{Batch, Db, Durability, ErrorKind, KeyOrder, Options, ValueSeparation, WriteOptions};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns options under which nothing is flushed without a request.
fn lazy_options() -> Options {
    Options { memtable_size_bytes: Some(1 << 20), ..bounded_options() }
}

/// Returns a store's files after its last write, and its content after each write. The files are
/// copied before the close, as a killed process would leave them.
fn history() -> (Vec<(String, Vec<u8>)>, Vec<Pairs>) {
    let fs: Arc<MemFs> = MemFs::new();
    let dir = Path::new("/db");
    let db = Db::open_on(fs.clone(), dir, lazy_options()).unwrap();
    let mut states = vec![Vec::new()];
    for i in 0..12u32 {
        let mut batch = Batch::new();
        batch.put(format!("key{}", i % 5), vec![i as u8; 1 + i as usize * 3]);
        batch.put(format!("other{i}"), "x");
        if i % 4 == 3 {
            batch.delete_range("key1", "key3");
        }
        db.write(&batch).unwrap();
        states.push(pairs(db.iter().unwrap()));
    }
    let found = files(&*fs, dir);
    db.close().unwrap();
    (found, states)
}

#[test]
fn newer_store_version_is_refused_and_unchanged() {
    let fs: Arc<MemFs> = MemFs::new();
    let dir = Path::new("/db");
    let db = Db::open_on(fs.clone(), dir, lazy_options()).unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    let path = dir.join("CURRENT");
    let mut current = fs.read(&path, 4096).unwrap();
    for which in 0..2 {
        let slot = &mut current[which * 512..(which + 1) * 512];
        slot[8] += 1;
        let sum = esker::internals::checksum(&slot[..504], which as u64);
        slot[504..].copy_from_slice(&sum.to_le_bytes());
    }
    fs.open_write(&path).unwrap().write_at(&current, 0).unwrap();
    let before = common::files(&*fs, dir);
    let refused = |result: esker::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), esker::ErrorKind::Incompatible);
        assert_eq!(common::files(&*fs, dir), before);
    };
    refused(Db::open_on(fs.clone(), dir, lazy_options()).map(|_| ()));
    refused(Db::open_read_only_on(fs.clone(), dir, lazy_options()).map(|_| ()));
    refused(Db::destroy_on(fs.clone(), dir));
    refused(Db::repair_on(fs.clone(), dir, lazy_options()).map(|_| ()));
}

#[test]
fn repair_keeps_intact_log_records_and_lists_damaged_ones() {
    let fs: Arc<MemFs> = MemFs::new();
    let dir = Path::new("/db");
    let db = Db::open_on(fs.clone(), dir, lazy_options()).unwrap();
    for i in 0..8 {
        db.put_with(format!("k{i}"), format!("value {i}"), &WriteOptions::SYNC).unwrap();
    }
    std::mem::forget(db);
    let mut all = common::files(&*fs, dir);
    let log = all.iter().position(|(name, _)| name.ends_with(".wal")).unwrap();
    let at = all[log].1.windows(7).position(|w| w == b"value 2").unwrap();
    all[log].1[at] ^= 1;
    let fs = image(dir, &all);
    assert!(
        Db::open_on(fs.clone(), dir, lazy_options()).err().unwrap().kind() == ErrorKind::Corruption
    );
    let report = Db::repair_on(fs.clone(), dir, lazy_options()).unwrap();
    assert_eq!((report.pairs, report.lost.len()), (7, 1), "{:?}", report.lost);
    let db = Db::open_on(fs, dir, lazy_options()).unwrap();
    for i in 0..8 {
        assert_eq!(db.contains_key(format!("k{i}")).unwrap(), i != 2, "k{i}");
    }
}

/// Size of a log's header, in bytes. See `docs/format.md`.
const LOG_HEADER_BYTES: usize = 40;

#[test]
fn reopen_after_truncated_log_keeps_prefix_of_writes() {
    let (all, states) = history();
    let dir = Path::new("/db");
    let log = all.iter().position(|(name, _)| name.ends_with(".wal")).unwrap();
    let mut reached = vec![false; states.len()];
    for len in 0..=all[log].1.len() {
        let mut cut = all.clone();
        cut[log].1.truncate(len);
        let fs = image(dir, &cut);
        if len < LOG_HEADER_BYTES {
            // The header was durable before the log took its first record, so no crash cuts it.
            let error = Db::open_on(fs, dir, lazy_options()).err().unwrap();
            assert!(error.kind() == ErrorKind::Corruption, "cut at {len}: {error}");
            continue;
        }
        let db = Db::open_on(fs.clone(), dir, lazy_options())
            .unwrap_or_else(|e| panic!("cut at {len}: {e}"));
        let found = pairs(db.iter().unwrap());
        let index = states.iter().rposition(|s| *s == found);
        let index = index.unwrap_or_else(|| {
            panic!("cut at {len}: the content is not an earlier state of the store")
        });
        reached[index] = true;
        // The store continues from there, and opens again.
        db.put("after", "crash").unwrap();
        drop(db);
        let db = Db::open_on(fs, dir, lazy_options()).unwrap();
        assert_eq!(db.get("after").unwrap().as_deref(), Some(b"crash".as_slice()));
        assert_eq!(pairs(db.iter().unwrap()).len(), found.len() + 1);
    }
    assert!(reached.iter().all(|r| *r), "every write is reached by some cut: {reached:?}");
}

#[test]
fn damage_in_synced_log_record_is_reported() {
    let fs: Arc<MemFs> = MemFs::new();
    let dir = Path::new("/db");
    let db = Db::open_on(fs.clone(), dir, lazy_options()).unwrap();
    for i in 0..6 {
        db.put_with(format!("k{i}"), "v", &WriteOptions::SYNC).unwrap();
    }
    let mut all = files(&*fs, dir);
    drop(db);
    let log = all.iter_mut().find(|(name, _)| name.ends_with(".wal")).unwrap();
    // A record in the middle is damaged. Later records show that it was durable.
    let middle = log.1.len() / 2;
    log.1[middle] ^= 0x10;
    let error =
        Db::open_on(image(dir, &all), dir, lazy_options()).expect_err("damage was not reported");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.path().is_some() && error.offset_bytes().is_some(), "{error}");
}

/// Returns the files of a small closed store with every kind of file of a store with default options,
/// and its content.
fn whole_store() -> (Vec<(String, Vec<u8>)>, Pairs) {
    whole_store_with(bounded_options())
}

fn whole_store_with(options: Options) -> (Vec<(String, Vec<u8>)>, Pairs) {
    let fs: Arc<MemFs> = MemFs::new();
    let dir = Path::new("/db");
    let options = Options { memtable_size_bytes: Some(4 << 10), ..options };
    let db = Db::open_on(fs.clone(), dir, options).unwrap();
    for i in 0..60u32 {
        db.put(format!("key{:03}", i * 7 % 60), vec![b'a' + (i % 26) as u8; 40]).unwrap();
    }
    db.delete_range("key010", "key020").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.put("tail", "in the log").unwrap();
    db.delete("key005").unwrap();
    let want = pairs(db.iter().unwrap());
    db.close().unwrap();
    (files(&*fs, dir), want)
}

#[test]
fn flipped_byte_in_any_file_never_gives_wrong_data() {
    let (all, want) = whole_store();
    let dir = Path::new("/db");
    let mut detected = std::collections::BTreeMap::<String, (u32, u32)>::new();
    for (index, (name, bytes)) in all.iter().enumerate() {
        let kind = name.rsplit('.').next().unwrap_or(name).split('-').next().unwrap().to_string();
        for at in 0..bytes.len() {
            let mut bad = all.clone();
            bad[index].1[at] ^= 1 << (at % 8);
            let count = detected.entry(kind.clone()).or_default();
            count.0 += 1;
            let Ok(db) = Db::open_on(image(dir, &bad), dir, bounded_options()) else {
                count.1 += 1;
                continue;
            };
            if check_never_wrong(&db, &want, name, at) {
                count.1 += 1;
            }
        }
    }
    for kind in ["sst", "manifest", "wal", "CURRENT"] {
        let (tried, found) = detected[kind];
        println!("{kind}: {tried} flips, {found} detected");
        assert!(tried > 0);
    }
    assert!(detected["sst"].1 == detected["sst"].0, "every byte of a table is covered");
}

/// Returns whether the damage was detected. Fails if wrong data was returned.
fn check_never_wrong(db: &Db, want: &Pairs, name: &str, at: usize) -> bool {
    let mut noticed = false;
    match db.iter().and_then(|iter| iter.collect::<esker::Result<Pairs>>()) {
        Ok(found) => assert_same_or_tail(&found, want, name, at),
        Err(_) => noticed = true,
    }
    for (key, value) in want {
        match db.get(key) {
            Ok(Some(found)) => assert_eq!(&*found, value.as_slice(), "{name} at {at}"),
            Ok(None) => assert!(name.ends_with(".wal"), "{name} at {at}: {key:?} vanished"),
            Err(_) => noticed = true,
        }
    }
    noticed |= db.verify(&mut |_, _| {}).map_or(true, |report| !report.is_whole());
    noticed
}

/// Asserts that nothing differs except the log's unsynced tail, which may be cut.
fn assert_same_or_tail(found: &Pairs, want: &Pairs, name: &str, at: usize) {
    if found == want {
        return;
    }
    assert!(name.ends_with(".wal"), "{name} at {at}: wrong data was returned");
    let without = |k: &[u8]| k == b"tail" || k == b"key005";
    let strip = |p: &Pairs| p.iter().filter(|(k, _)| !without(k)).cloned().collect::<Pairs>();
    assert_eq!(strip(found), strip(want), "{name} at {at}: more than the tail changed");
}

#[test]
fn truncated_or_missing_file_is_detected() {
    let separated =
        Options { value_separation_min_bytes: ValueSeparation::From(0), ..bounded_options() };
    for options in [bounded_options(), separated] {
        check_cuts(whole_store_with(options));
    }
}

fn check_cuts((all, want): (Vec<(String, Vec<u8>)>, Pairs)) {
    let dir = Path::new("/db");
    for index in 0..all.len() {
        let name = all[index].0.clone();
        if name == "LOCK" {
            continue;
        }
        let mut missing = all.clone();
        missing.remove(index);
        let opened = Db::open_on(image(dir, &missing), dir, bounded_options());
        if let Ok(db) = opened {
            let opens = name.ends_with(".sst") || name.ends_with(".val");
            assert!(opens, "the missing file {name} was not reported");
            assert!(!db.verify(&mut |_, _| {}).unwrap().is_whole(), "{name}");
            assert!(db.iter().and_then(|i| i.collect::<esker::Result<Pairs>>()).is_err(), "{name}");
        }
        for len in [0, all[index].1.len() / 2, all[index].1.len().saturating_sub(1)] {
            let mut short = all.clone();
            short[index].1.truncate(len);
            if let Ok(db) = Db::open_on(image(dir, &short), dir, bounded_options()) {
                check_never_wrong(&db, &want, &name, len);
            }
        }
    }
}

#[test]
fn interrupted_creation_is_restarted() {
    let fs: Arc<MemFs> = MemFs::new();
    let dir = Path::new("/db");
    Db::open_on(fs.clone(), dir, bounded_options()).unwrap().close().unwrap();
    let all = files(&*fs, dir);
    // Without CURRENT and without a log, no store existed.
    let young: Vec<_> =
        all.into_iter().filter(|(n, _)| n != "CURRENT" && !n.ends_with(".wal")).collect();
    let db = Db::open_on(image(dir, &young), dir, bounded_options()).unwrap();
    db.put("k", "v").unwrap();
}

#[test]
fn missing_current_file_is_an_error_not_a_new_store() {
    let (all, _) = whole_store();
    let dir = Path::new("/db");
    let headless: Vec<_> = all.into_iter().filter(|(n, _)| n != "CURRENT").collect();
    let fs = image(dir, &headless);
    let error = Db::open_on(fs.clone(), dir, bounded_options()).expect_err("data without CURRENT");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    // Repair restores the content of the tables and logs.
    Db::repair_on(fs.clone(), dir, bounded_options()).unwrap();
    let db = Db::open_on(fs, dir, bounded_options()).unwrap();
    assert_eq!(db.get("tail").unwrap().as_deref(), Some(b"in the log".as_slice()));
}

#[test]
fn unlogged_writes_survive_close_and_logged_writes_survive_kill() {
    let fs: Arc<MemFs> = MemFs::new();
    let dir = Path::new("/db");
    let db = Db::open_on(fs.clone(), dir, lazy_options()).unwrap();
    db.put_with("unlogged", "1", &WriteOptions::NONE).unwrap();
    db.put_with("logged", "2", &WriteOptions::BUFFERED).unwrap();
    let killed = files(&*fs, dir);
    db.close().unwrap();
    let closed = Db::open_on(fs, dir, lazy_options()).unwrap();
    assert!(closed.contains_key("unlogged").unwrap() && closed.contains_key("logged").unwrap());
    let after_kill = Db::open_on(image(dir, &killed), dir, lazy_options()).unwrap();
    assert!(after_kill.contains_key("logged").unwrap());
    assert!(!after_kill.contains_key("unlogged").unwrap());
}

#[test]
fn store_durability_is_default_of_writes() {
    let fs: Arc<MemFs> = MemFs::new();
    let dir = Path::new("/db");
    let options = Options { durability: Durability::None, ..lazy_options() };
    let db = Db::open_on(fs.clone(), dir, options).unwrap();
    db.put("k", "v").unwrap();
    assert_eq!(db.metrics().log_bytes, 0);
    db.set_options(&[("durability", "sync")]).unwrap();
    db.put("k", "w").unwrap();
    assert!(db.metrics().log_bytes > 0 && db.metrics().log_syncs > 0);
}

#[test]
fn second_open_is_refused_and_names_holder() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Db::open(&path, Options::default()).unwrap();
    let error = Db::open(&path, Options::default()).expect_err("locked");
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    db.put("k", "v").unwrap();
    let view = Db::open_read_only(&path, Options::default()).unwrap();
    db.put("k", "w").unwrap();
    assert_eq!(view.get("k").unwrap().as_deref(), Some(b"v".as_slice()));
    assert_eq!(view.put("k", "x").unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(db);
    Db::open(&path, Options::default()).unwrap();
    assert_eq!(in_order(&Default::default(), &KeyOrder::Bytewise).len(), 0);
}

#[test]
fn truncated_log_after_clean_close_is_reported() {
    let fs: Arc<MemFs> = MemFs::new();
    let dir = Path::new("/db");
    let db = Db::open_on(fs.clone(), dir, lazy_options()).unwrap();
    for i in 0..6 {
        db.put(format!("k{i}"), "v").unwrap();
    }
    let want = pairs(db.iter().unwrap());
    db.close().unwrap();
    let all = files(&*fs, dir);
    let log = all.iter().position(|(name, _)| name.ends_with(".wal")).unwrap();
    for len in 0..all[log].1.len() {
        let mut cut = all.clone();
        cut[log].1.truncate(len);
        match Db::open_on(image(dir, &cut), dir, lazy_options()) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
            // Only the clean-close marker is missing.
            Ok(db) => assert_eq!(pairs(db.iter().unwrap()), want, "cut at {len}"),
        }
    }
}
