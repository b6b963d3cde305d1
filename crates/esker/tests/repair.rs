//! Repair compared with an oracle: intact stores, damaged stores, and stores larger than the memory
//! limit.
//!
//! These tests guard against past failures: a repair that needs the store's size in memory; an
//! older version of a key restored although a newer one was readable; a loss that is not listed; an
//! original file that is gone.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use common::{Oracle, Pair, Reversible, files, image, in_order, pairs, tiny_options};
use esker::fs::Fs;
use esker::fs::MemFs;
use esker::{Compression, Db, ErrorKind, KeyOrder, Options, Policy, WriteOptions};
use esker_testkit::campaign::checksum_range::checksum_ranges;
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

const DIR: &str = "/db";

/// Returns options under which flushed tables stay in level 0 unchanged. An entry above a certain
/// length has its own block.
fn level_zero_options() -> Options {
    Options {
        auto_compaction: false,
        compression: Compression::None,
        block_size_bytes: 64,
        memtable_size_bytes: Some(1 << 20),
        file_size_max_bytes: 1 << 20,
        ..tiny_options()
    }
}

/// Returns a unique value longer than a block.
fn value(source: usize, key: usize) -> Vec<u8> {
    format!("<value of key {key:05} in source {source:05}{:->64}>", "").into_bytes()
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

/// Flips a bit of `what` in the file that contains it.
fn damage(all: &mut [(String, Vec<u8>)], what: &[u8]) {
    let place = all.iter_mut().find_map(|(name, bytes)| {
        let data = name.ends_with(".sst") || name.ends_with(".wal");
        let at = bytes.windows(what.len()).position(|w| data && w == what)?;
        Some(&mut bytes[at])
    });
    *place.expect("a file contains the entry unchanged") ^= 1;
}

/// Returns the content of a repaired store. Checks that the store is intact and accepts writes.
fn held(fs: &Arc<MemFs>, options: &Options) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = Db::open_on(fs.clone(), DIR, options.clone()).unwrap();
    let report = db.verify(&mut |_, _| ()).unwrap();
    assert!(report.is_whole(), "{report:?}");
    let found = pairs(db.iter().unwrap());
    db.put("after the repair", "1").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get("after the repair").unwrap().as_deref(), Some(b"1".as_slice()));
    assert_eq!(pairs(db.iter().unwrap()).len(), found.len() + 1);
    found
}

/// Asserts that `originals_dir` holds every original file, byte for byte.
fn assert_originals_kept(fs: &MemFs, originals_dir: &Path, before: &[(String, Vec<u8>)]) {
    let kept: BTreeMap<String, Vec<u8>> = files(fs, originals_dir).into_iter().collect();
    for (name, bytes) in before.iter().filter(|(name, _)| name != "LOCK") {
        assert_eq!(kept.get(name), Some(bytes), "{name}");
    }
}

/// Returns the files of a killed store. All `sources` but the last are tables of level 0, and the
/// last is the log. Source `s` has the keys `n` for which `has(s, n)` is true.
fn layered(
    options: &Options,
    sources: usize,
    keys: usize,
    has: impl Fn(usize, usize) -> bool,
) -> Vec<(String, Vec<u8>)> {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), DIR, options.clone()).unwrap();
    for source in 0..sources {
        for n in (0..keys).filter(|n| has(source, *n)) {
            db.put_with(key(n), value(source, n), &WriteOptions::SYNC).unwrap();
        }
        // The last source stays in the log.
        if source + 1 < sources {
            db.flush().unwrap();
        }
    }
    // A flush returns before its thread has removed the log of the flushed memtable.
    let is_log = |(name, _): &&(String, Vec<u8>)| name.ends_with(".wal");
    let all = loop {
        let all = files(&*fs, Path::new(DIR));
        let filled = |(_, bytes): &&(String, Vec<u8>)| bytes.windows(7).any(|w| w == b"<value ");
        if all.iter().filter(is_log).filter(filled).count() == 1 {
            break all;
        }
        std::thread::yield_now();
    };
    std::mem::forget(db);
    all
}

#[test]
fn repair_keeps_newest_provable_version_of_damaged_sources() {
    let (sources, keys) = (5, 40);
    let options = level_zero_options();
    let whole = layered(&options, sources, keys, |source, n| n % (source + 1) == 0);
    // With and without the manifest, which records the order of the tables.
    for headless in [false, true] {
        let mut all = whole.clone();
        all.retain(|(name, _)| !headless || name != "CURRENT");
        let mut want = Oracle::new();
        let mut losses = 0;
        for n in 0..keys {
            let versions: Vec<usize> = (0..sources).filter(|s| n % (s + 1) == 0).rev().collect();
            // The newest n % 4 versions in tables are damaged.
            let in_tables = versions.iter().filter(|s| **s + 1 < sources);
            let gone: Vec<usize> = in_tables.copied().take(n % 4).collect();
            for source in &gone {
                damage(&mut all, &value(*source, n));
                losses += 1;
            }
            if let Some(newest) = versions.iter().find(|s| !gone.contains(s)) {
                want.insert(key(n), value(*newest, n));
            }
        }
        let fs = image(Path::new(DIR), &all);
        let report = Db::repair_on(fs.clone(), DIR, options.clone()).unwrap();
        assert_eq!(report.manifest_readable, !headless);
        assert_eq!(report.lost.len(), losses + usize::from(headless), "{:#?}", report.lost);
        assert!(report.lost.iter().all(|what| what.contains(DIR)), "{:#?}", report.lost);
        assert_eq!((report.tables, report.pairs), (4, want.len() as u64));
        assert_originals_kept(&fs, &report.originals, &all);
        assert_eq!(held(&fs, &options), in_order(&want, &KeyOrder::Bytewise));
    }
}

#[test]
fn repair_handles_store_larger_than_its_memory() {
    // More overlapping tables than one merge takes, and a log of several memtables.
    let (tables, keys) = (150, 64);
    let has = |source: usize, n: usize| source == tables || (n + source).is_multiple_of(2);
    let small = Options { memtable_size_bytes: Some(4 << 10), ..level_zero_options() };
    let mut all = layered(&level_zero_options(), tables + 1, keys, has);
    let mut want = Oracle::new();
    for n in 0..keys {
        want.insert(key(n), value(tables, n));
    }
    // The log's last record is damaged, and so are that key's versions in the newest ten tables.
    damage(&mut all, &value(tables, keys - 1));
    let newest: Vec<usize> = (0..tables).filter(|s| has(*s, keys - 1)).rev().collect();
    for source in &newest[..10] {
        damage(&mut all, &value(*source, keys - 1));
    }
    want.insert(key(keys - 1), value(newest[10], keys - 1));
    let fs = image(Path::new(DIR), &all);
    let report = Db::repair_on(fs.clone(), DIR, small.clone()).unwrap();
    // Ten blocks and the log record.
    assert_eq!(report.lost.len(), 11, "{:#?}", report.lost);
    assert_eq!((report.tables, report.logs), (tables as u64, 1));
    let entries = (tables * keys / 2 + keys) as u64;
    // A memtable of 4 KiB holds about thirty of these entries; a block holds one.
    let bound = 64 + 40;
    assert!(report.entries_held_max <= bound, "{} of {entries}", report.entries_held_max);
    assert!(entries > 40 * bound);
    assert_originals_kept(&fs, &report.originals, &all);
    assert_eq!(held(&fs, &small), in_order(&want, &KeyOrder::Bytewise));
    // Only the new tables remain after the repair.
    assert!(fs.list(&Path::new(DIR).join("rebuilt")).is_err());
}

#[test]
fn repair_of_intact_store_changes_nothing_visible() {
    for (seed, policy) in (0..).zip([
        Policy::Fluid,
        Policy::Leveled,
        Policy::Tiered,
        Policy::Fragmented,
        Policy::Lazy,
    ]) {
        let mut pair = Pair::new(Options { policy, ..tiny_options() }, seed, 400);
        for round in 0..3 {
            for _ in 0..700 {
                pair.step();
            }
            pair.snapshots.clear();
            drop(pair.db.take());
            let (fs, path) = (pair.fs.clone(), pair.path.clone());
            let report = Db::repair_on(fs, &path, pair.options.clone()).unwrap();
            assert_eq!(report.lost, Vec::<String>::new(), "{policy:?}, round {round}");
            assert_eq!(report.pairs, pair.oracle.len() as u64, "{policy:?}, round {round}");
            pair.db = Some(Db::open_on(pair.fs.clone(), &path, pair.options.clone()).unwrap());
            pair.check_all();
        }
    }
}

#[test]
fn repair_sorts_unordered_table() {
    let ordered = |reversed| Options {
        block_size_bytes: 64 << 10,
        key_order: KeyOrder::Custom(Arc::new(Reversible(reversed))),
        ..level_zero_options()
    };
    let all = layered(&ordered(false), 3, 50, |source, n| n % (source + 1) == 0);
    let fs = image(Path::new(DIR), &all);
    let reversed = Options { memtable_size_bytes: Some(4 << 10), ..ordered(true) };
    let report = Db::repair_on(fs.clone(), DIR, reversed.clone()).unwrap();
    assert_eq!(report.lost, Vec::<String>::new());
    let mut want = Oracle::new();
    for (source, n) in (0..3).flat_map(|s| (0..50).map(move |n| (s, n))) {
        if n % (source + 1) == 0 {
            want.insert(key(n), value(source, n));
        }
    }
    assert_eq!(held(&fs, &reversed), in_order(&want, &reversed.key_order));
}

#[test]
fn repair_keeps_range_deletes_of_tables_and_log() {
    let options = level_zero_options();
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), DIR, options.clone()).unwrap();
    for n in 0..30 {
        db.put(key(n), value(0, n)).unwrap();
    }
    db.flush().unwrap();
    db.delete_range(key(0), key(10)).unwrap();
    db.put(key(5), value(1, 5)).unwrap();
    db.flush().unwrap();
    db.delete_range(key(20), key(25)).unwrap();
    db.delete(key(29)).unwrap();
    let want = pairs(db.iter().unwrap());
    assert_eq!(want.len(), 30 - 10 + 1 - 5 - 1);
    let all = files(&*fs, Path::new(DIR));
    std::mem::forget(db);
    let fs = image(Path::new(DIR), &all);
    let report = Db::repair_on(fs.clone(), DIR, options.clone()).unwrap();
    assert_eq!((report.lost.len(), report.pairs), (0, want.len() as u64));
    assert_eq!(held(&fs, &options), want);
}

#[test]
fn repair_of_empty_store_is_empty() {
    let (fs, options) = (MemFs::new(), tiny_options());
    Db::open_on(fs.clone(), DIR, options.clone()).unwrap().close().unwrap();
    assert_eq!(Db::repair_on(fs.clone(), DIR, options.clone()).unwrap().pairs, 0);
    assert_eq!(held(&fs, &options), Vec::new());
}

#[test]
fn failed_repair_leaves_store_unchanged() {
    let options = level_zero_options();
    let all = layered(&options, 4, 20, |_, _| true);
    let mut before = all.clone();
    before.retain(|(name, _)| name != "LOCK");
    let ops = OpMask::of(&[Op::Create, Op::Write, Op::Sync]);
    let mut failures = 0;
    for part in ["manifest-", "CURRENT", ".sst"] {
        for nth in 1.. {
            let fs = FaultFs::new(image(Path::new(DIR), &all));
            fs.arm(Fault::once(ops, nth, FaultKind::NoSpace).on(part));
            let Err(error) = Db::repair_on(fs.clone(), DIR, options.clone()) else { break };
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            let mut now = files(&*fs, Path::new(DIR));
            now.retain(|(name, _)| name != "LOCK");
            assert_eq!(now, before, "{part}, operation {nth}");
            assert!(fs.list(&Path::new(DIR).join("rebuilt")).is_err(), "{part}, operation {nth}");
            failures += 1;
        }
    }
    assert!(failures > 10, "{failures}");
}

#[test]
fn interrupted_repair_is_completed_by_next_repair() {
    let options = level_zero_options();
    let all = layered(&options, 3, 20, |_, _| true);
    let want = held(&image(Path::new(DIR), &all), &options);
    let mut between = 0;
    for nth in 1.. {
        let disk = image(Path::new(DIR), &all);
        let fs = FaultFs::new(disk.clone());
        fs.arm(Fault::for_ever(OpMask::ALL, nth, FaultKind::Io));
        let ended = Db::repair_on(fs.clone(), DIR, options.clone());
        if ended.is_ok() {
            assert_eq!(fs.hits(), 0, "operation {nth}");
            break;
        }
        match Db::open_on(disk.clone(), DIR, options.clone()) {
            Ok(db) => assert_eq!(pairs(db.iter().unwrap()), want, "operation {nth}"),
            Err(error) => {
                assert!(error.kind() == ErrorKind::Corruption, "operation {nth}: {error}");
                between += 1;
            }
        }
        let report = Db::repair_on(disk.clone(), DIR, options.clone()).unwrap();
        assert_eq!(report.lost, Vec::<String>::new(), "operation {nth}");
        assert_eq!(held(&disk, &options), want, "operation {nth}");
    }
    assert!(between > 5, "{between}");
}

#[test]
fn half_swapped_store_is_refused_after_any_cut() {
    let options = level_zero_options();
    let all = layered(&options, 3, 20, |_, _| true);
    let want = held(&image(Path::new(DIR), &all), &options);
    let (dir, originals_dir) = (Path::new(DIR), Path::new("/db/before-repair-1"));
    // First the originals were moved and CURRENT was not, then each original has both names.
    for gone in [".wal", ".sst", ""] {
        let fs = image(dir, &all);
        fs.create_dir(originals_dir).unwrap();
        fs.create_dir(&dir.join("rebuilt-moving-aside")).unwrap();
        for (name, _) in all.iter().filter(|(name, _)| *name != "LOCK") {
            if !gone.is_empty() && name.ends_with(gone) {
                fs.rename(&dir.join(name), &originals_dir.join(name)).unwrap();
            } else if gone.is_empty() {
                fs.hard_link(&dir.join(name), &originals_dir.join(name)).unwrap();
            }
        }
        let refused = |opened: esker::Result<Db>| {
            let error = opened.err().unwrap();
            assert!(error.kind() == ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains("repair of this store was interrupted"), "{error}");
        };
        refused(Db::open_on(fs.clone(), dir, options.clone()));
        refused(Db::open_read_only_on(fs.clone(), dir, options.clone()));
        let report = Db::repair_on(fs.clone(), dir, options.clone()).unwrap();
        assert_eq!(report.lost, Vec::<String>::new(), "without {gone:?}");
        assert_originals_kept(&fs, &report.originals, &all);
        assert_eq!(held(&fs, &options), want, "without {gone:?}");
    }
}

#[test]
fn repair_lists_table_replaced_by_another() {
    let options = level_zero_options();
    let mut all = layered(&options, 3, 20, |source, n| n % 3 == source);
    let tables: Vec<usize> = (0..all.len()).filter(|at| all[*at].0.ends_with(".sst")).collect();
    let [first, second] = tables[..] else { panic!("two tables") };
    all[second].1 = all[first].1.clone();
    let fs = image(Path::new(DIR), &all);
    let report = Db::repair_on(fs.clone(), DIR, options.clone()).unwrap();
    assert!(report.manifest_readable);
    assert_eq!(report.lost.len(), 1, "{:?}", report.lost);
    let names = report.lost[0].contains(&all[second].0);
    assert!(names && report.lost[0].contains("the manifest describes"), "{}", report.lost[0]);
    assert_eq!(report.pairs, 20 - (0..20).filter(|n| n % 3 == 1).count() as u64);
    assert_originals_kept(&fs, &report.originals, &all);
}

#[test]
fn repair_lists_missing_records_between_and_after_logs() {
    // A closed store, whose manifest records the length of its log.
    let fs = MemFs::new();
    let options = level_zero_options();
    let db = Db::open_on(fs.clone(), DIR, options.clone()).unwrap();
    (0..20).for_each(|n| db.put(key(n), value(0, n)).unwrap());
    db.close().unwrap();
    let all = files(&*fs, Path::new(DIR));
    let log = all.iter().position(|(name, _)| name.ends_with(".wal")).unwrap();
    let mut cut = all.clone();
    let middle = checksum_ranges(&all[log].0, &all[log].1)[10];
    cut[log].1[middle.at..].fill(0);
    let mut gone = all.clone();
    gone.remove(log);
    let mut headless = all.clone();
    headless[log].1.fill(0);
    for (left, says) in
        [(cut, "when this log was closed"), (gone, "does not exist"), (headless, "whole record")]
    {
        let fs = image(Path::new(DIR), &left);
        assert!(
            Db::open_on(fs.clone(), DIR, options.clone()).err().unwrap().kind()
                == ErrorKind::Corruption
        );
        let report = Db::repair_on(fs.clone(), DIR, options.clone()).unwrap();
        assert_eq!(report.lost.len(), 1, "{says}: {:?}", report.lost);
        assert!(
            report.lost[0].contains(says) && report.lost[0].contains(&all[log].0),
            "{says}: {:?}",
            report.lost
        );
        assert!(held(&fs, &options).len() < 20);
    }
}
