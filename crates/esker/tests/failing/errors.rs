//! Error branches outside the scripts of the campaigns: refused calls, damage that only a repair or
//! a reader meets, and two failures at once.
//!
//! These tests guard against past failures: an error without its path; a refused call that changed
//! the store; damage hidden behind a failed read.

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::common::{files, image, pairs, several_logs, tiny_options};
use esker::fs::Fs;
use esker::fs::MemFs;
use esker::fs::OsFs;
use esker::internals::Thresholds;
use esker::{CachePolicy, Db, ErrorKind, FilterPolicy, KeyOrder, Options, WriteOptions};
use esker_testkit::campaign::checksum_range::checksum_ranges;
use esker_testkit::crash::{CrashFs, CrashModel};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

const DIR: &str = "/db";

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// Returns options under which nothing is flushed without a request.
fn lazy_options() -> Options {
    Options { memtable_size_bytes: Some(1 << 20), ..tiny_options() }
}

#[track_caller]
fn refused<T>(result: esker::Result<T>, kind: ErrorKind, says: &str) {
    let error = result.err().expect("the operation is refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn foreign_directory_is_refused_by_every_call_and_unchanged() {
    let leveldb = [("CURRENT", "x"), ("MANIFEST-000001", "y"), ("000003.log", "z")];
    let rocksdb = [("CURRENT", "x"), ("MANIFEST-000001", "y"), ("OPTIONS-000003", "z")];
    let other_files = [("notes.txt", "mine")];
    for (entries, says) in [
        (&leveldb[..], "esker import leveldb"),
        (&rocksdb[..], "esker import rocksdb"),
        (&other_files[..], "other files"),
    ] {
        let all: Vec<(String, Vec<u8>)> =
            entries.iter().map(|(name, text)| (name.to_string(), text.as_bytes().into())).collect();
        let fs = image(dir(), &all);
        let kind = ErrorKind::Incompatible;
        refused(Db::open_on(fs.clone(), dir(), tiny_options()), kind, says);
        refused(Db::open_read_only_on(fs.clone(), dir(), tiny_options()), kind, says);
        refused(Db::repair_on(fs.clone(), dir(), tiny_options()), kind, says);
        refused(Db::destroy_on(fs.clone(), dir()), kind, says);
        assert_eq!(files(&*fs, dir()).len(), all.len());
    }
}

#[test]
fn out_of_range_options_are_refused_by_every_call() {
    let fs = MemFs::new();
    let wrong = Options { fan_out: 0, ..tiny_options() };
    let kind = ErrorKind::InvalidArgument;
    refused(Db::open_on(fs.clone(), dir(), wrong.clone()), kind, "fan_out");
    refused(Db::open_read_only_on(fs.clone(), dir(), wrong.clone()), kind, "fan_out");
    refused(Db::repair_on(fs.clone(), dir(), wrong), kind, "fan_out");
    let db = Db::open_on(fs, dir(), tiny_options()).unwrap();
    refused(db.set_options(&[("fan_out", "0")]), kind, "fan_out");
    assert_ne!(db.option("fan_out").as_deref(), Some("0"));
}

#[test]
fn run_one_job_is_refused_with_background_threads() {
    let options = Options { background_threads: Some(1), ..tiny_options() };
    let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
    refused(db.run_one_job(), ErrorKind::InvalidArgument, "background_threads=0");
}

#[test]
fn background_errors_are_returned_to_waiting_callers() {
    let fs = FaultFs::new(MemFs::new());
    let options =
        Options { background_threads: Some(1), frozen_memtables_max: 1, ..tiny_options() };
    let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Create]), 1, FaultKind::NoSpace).on(".sst"));
    db.put("a", "1").unwrap();
    refused(db.flush(), ErrorKind::NoSpace, ".sst");
    refused(db.wait_idle(), ErrorKind::NoSpace, ".sst");
    // Writers wait for a memtable that cannot be flushed, and get the error.
    let failed = (0..10_000u32).find_map(|i| db.put(i.to_be_bytes(), [7; 100]).err());
    assert_eq!(failed.expect("the store is full").kind(), ErrorKind::NoSpace);
    fs.disarm();
    db.flush().unwrap();
    db.put("b", "2").unwrap();
    assert!(db.contains_key("a").unwrap() && db.contains_key("b").unwrap());
}

/// A filter policy that blocks while its gate is shut, which holds a compaction in progress.
#[derive(Default)]
struct BlockingFilter {
    shut: AtomicBool,
    waiting: AtomicBool,
}

impl FilterPolicy for BlockingFilter {
    fn name(&self) -> &str {
        "test.gate"
    }
    fn create(&self, _keys: &[&[u8]]) -> Vec<u8> {
        while self.shut.load(SeqCst) {
            self.waiting.store(true, SeqCst);
            std::thread::yield_now();
        }
        vec![1]
    }
    fn may_contain(&self, _key: &[u8], _filter: &[u8]) -> bool {
        true
    }
}

const HELD_KEYS: u32 = 20_000;

/// Returns a store with a compaction that is held while it writes its first table.
fn store_with_running_compaction() -> (Arc<MemFs>, Arc<FaultFs>, Arc<BlockingFilter>, Db, Options) {
    let (disk, blocker) = (MemFs::new(), Arc::new(BlockingFilter::default()));
    let fs = FaultFs::new(disk.clone());
    let options = Options {
        filter_policy: Some(blocker.clone()),
        background_threads: Some(2),
        auto_compaction: false,
        l0_runs_max: 2,
        file_size_max_bytes: 64 << 10,
        memtable_size_bytes: Some(8 << 20),
        memory_budget_bytes: Some(64 << 20),
        log_file: false,
        status_file: false,
        ..Options::default()
    };
    let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
    for round in 0..3 {
        (0..HELD_KEYS).for_each(|i| db.put(i.to_be_bytes(), [round; 20]).unwrap());
        db.flush().unwrap();
    }
    blocker.shut.store(true, SeqCst);
    db.set_options(&[("auto_compaction", "true")]).unwrap();
    while !blocker.waiting.load(SeqCst) {
        std::thread::yield_now();
    }
    (disk, fs, blocker, db, options)
}

#[test]
fn compaction_frees_space_for_flush_on_full_device() {
    let (_, fs, blocker, db, _) = store_with_running_compaction();
    db.put("a", "1").unwrap();
    fs.arm(Fault::once(OpMask::of(&[Op::Create]), 1, FaultKind::NoSpace).on(".sst"));
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| db.flush());
        while fs.hits() == 0 {
            std::thread::yield_now();
        }
        // Makes it likely that the flush waits for the compaction. The test is also correct without
        // the wait.
        std::thread::sleep(Duration::from_millis(50));
        blocker.shut.store(false, SeqCst);
        flush.join().unwrap().unwrap();
    });
    db.wait_idle().unwrap();
    assert!(db.metrics().compactions > 0, "the compaction was not started again");
    assert_eq!(pairs(db.iter().unwrap()).len(), HELD_KEYS as usize + 1);
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}

#[test]
fn close_aborts_compaction_and_loses_nothing() {
    let (disk, _, blocker, db, options) = store_with_running_compaction();
    std::thread::scope(|scope| {
        let close = scope.spawn(|| db.close());
        std::thread::sleep(Duration::from_millis(50));
        blocker.shut.store(false, SeqCst);
        close.join().unwrap().unwrap();
    });
    let db = Db::open_on(disk, dir(), options).unwrap();
    let found = pairs(db.iter().unwrap());
    assert_eq!(found.len(), HELD_KEYS as usize);
    assert!(found.iter().all(|(_, value)| value[..] == [2; 20]));
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}

#[test]
fn read_only_open_of_damaged_store_fails_after_retries() {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let reader = Db::open_read_only_on(fs.clone(), dir(), lazy_options()).unwrap();
    assert!(reader.verify(&mut |_, _| {}).unwrap().is_whole());
    let all = files(&*fs, dir());
    let manifest = all.iter().find(|(name, _)| name.starts_with("manifest-")).unwrap();
    fs.remove(&dir().join(&manifest.0)).unwrap();
    let report = reader.verify(&mut |_, _| {}).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.problems[0].to_string().contains(&manifest.0), "{:?}", report.problems);
    assert!(reader.contains_key("a").unwrap(), "the opened store must stay readable");
    let error = Db::open_read_only_on(fs, dir(), lazy_options()).err().unwrap();
    assert!(error.to_string().contains(&manifest.0), "{error}");
}

#[test]
fn remove_returns_read_and_write_errors() {
    let fs = FaultFs::new(MemFs::new());
    let options = Options { cache_size_bytes: Some(0), ..lazy_options() };
    let db = Db::open_on(fs.clone(), dir(), options).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Read, Op::Open]), 1, FaultKind::Io).on(".sst"));
    refused(db.remove("a"), ErrorKind::Io, ".sst");
    fs.arm(Fault::once(OpMask::of(&[Op::Write]), 1, FaultKind::NoSpace).on(".wal"));
    refused(db.remove("a"), ErrorKind::NoSpace, ".wal");
    fs.disarm();
    assert!(db.contains_key("a").unwrap());
    assert!(db.remove("a").unwrap() && !db.remove("a").unwrap());
}

#[test]
fn log_damage_is_detected_despite_read_errors() {
    let all = several_logs(dir(), &WriteOptions::SYNC);
    let logs: Vec<usize> = (0..all.len()).filter(|at| all[*at].0.ends_with(".wal")).collect();
    let mut failed = 0;
    // A damaged record in the middle of the first log, all bytes after its first records, or its
    // last record.
    for damage in 0..3 {
        let mut all = all.clone();
        let bytes = &mut all[logs[0]].1;
        let ranges = checksum_ranges("000001.wal", bytes);
        match damage {
            0 => bytes[ranges[ranges.len() / 2].start] ^= 1,
            1 => bytes[ranges[2].at..].fill(0),
            _ => bytes[ranges[ranges.len() - 2].start] ^= 1,
        }
        let disk = image(dir(), &all);
        refused(Db::open_on(disk, dir(), lazy_options()), ErrorKind::Corruption, ".wal");
        for op in [Op::Read, Op::Len] {
            for nth in 1.. {
                let disk = image(dir(), &all);
                let fs = FaultFs::new(disk.clone());
                fs.arm(Fault::once(OpMask::of(&[op]), nth, FaultKind::Io).on(".wal"));
                let error = Db::open_on(fs.clone(), dir(), lazy_options()).err().unwrap();
                if fs.hits() == 0 {
                    break;
                }
                failed += 1;
                assert!(error.path().is_some(), "{error}");
                let kinds = [ErrorKind::Io, ErrorKind::Corruption];
                assert!(kinds.contains(&error.kind()), "{op:?} {nth}: {error}");
                assert_eq!(files(&*disk, dir()).len(), all.len(), "nothing is removed");
                let report = Db::repair_on(disk.clone(), dir(), lazy_options()).unwrap();
                assert!(!report.lost.is_empty(), "{op:?} {nth}");
            }
        }
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn unused_log_is_ignored() {
    let mut left_behind = 0;
    for nth in 1..12 {
        let disk = CrashFs::new();
        let fs = FaultFs::new(disk.clone());
        let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
        db.put_with("a", "1", &WriteOptions::SYNC).unwrap();
        // The marker that the next log continues this one cannot be written, and that log cannot be
        // removed.
        let ops = OpMask::of(&[Op::Write, Op::Remove]);
        fs.arm(Fault::for_ever(ops, nth, FaultKind::NoSpace).on(".wal"));
        let flushed = db.flush().is_ok();
        fs.disarm();
        let kept = db.put_with("b", "2", &WriteOptions::SYNC).is_ok();
        let logs = files(&*disk, dir()).iter().filter(|(name, _)| name.ends_with(".wal")).count();
        left_behind += usize::from(!flushed && kept && logs > 1);
        let image = disk.crash_image(CrashModel::Everything);
        drop(db);
        let db = Db::open_on(image, dir(), lazy_options()).unwrap();
        assert!(db.contains_key("a").unwrap(), "{nth}");
        assert!(!kept || db.contains_key("b").unwrap(), "{nth}");
    }
    assert!(left_behind > 0);
}

#[test]
fn repair_lists_log_record_without_operations() {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
    for key in ["a", "b", "c"] {
        db.put_with(key, "1", &WriteOptions::SYNC).unwrap();
    }
    let mut all = files(&*fs, dir());
    std::mem::forget(db);
    let (name, bytes) = all.iter_mut().find(|(name, _)| name.ends_with(".wal")).unwrap();
    // The file's header, the log's start record, then one record per key.
    let ranges = checksum_ranges(name, bytes);
    let second = ranges[3];
    bytes[second.end - 8..second.end].fill(0xee);
    second.recompute(bytes);
    let name = name.clone();
    let fs = image(dir(), &all);
    refused(Db::open_on(fs.clone(), dir(), lazy_options()), ErrorKind::Corruption, &name);
    let report = Db::repair_on(fs.clone(), dir(), lazy_options()).unwrap();
    assert_eq!(report.lost.len(), 1, "{:?}", report.lost);
    assert!(report.lost[0].contains("expected operations in a log record"), "{:?}", report.lost);
    let db = Db::open_on(fs, dir(), lazy_options()).unwrap();
    let keys: Vec<Vec<u8>> = pairs(db.iter().unwrap()).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [b"a", b"c"]);
}

#[test]
fn manifest_that_cannot_be_truncated_refuses_edits_until_reopen() {
    let mut seen = 0;
    for nth in 1..40 {
        let disk = CrashFs::new();
        let fs = FaultFs::new(disk.clone());
        let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
        db.put_with("a", "1", &WriteOptions::SYNC).unwrap();
        let ops = OpMask::of(&[Op::Write, Op::SetLen]);
        fs.arm(Fault::for_ever(ops, nth, FaultKind::NoSpace).on("manifest-"));
        let flushed = db.flush();
        let hits = fs.hits();
        fs.disarm();
        let kept = db.put_with("b", "2", &WriteOptions::SYNC).is_ok();
        let again = db.flush();
        if flushed.is_err() && hits > 1 {
            seen += 1;
            assert!(again.is_err(), "a record was written after bytes that could not be truncated");
        }
        let image = disk.crash_image(CrashModel::SyncedOnly);
        drop(db);
        let db = Db::open_on(image, dir(), lazy_options()).unwrap();
        assert!(db.contains_key("a").unwrap(), "{nth}: {flushed:?} {again:?}");
        assert!(!kept || db.contains_key("b").unwrap(), "{nth}: {flushed:?} {again:?}");
        if hits == 0 {
            break;
        }
    }
    assert!(seen > 0);
}

#[test]
fn scrub_reports_unlistable_logs() {
    let fs = FaultFs::new(MemFs::new());
    let options = Options { scrub_bytes_per_second: 1 << 30, ..lazy_options() };
    let db = Db::open_on(fs.clone(), dir(), options).unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::List]), 1, FaultKind::Io));
    while db.metrics().scrub_problems == 0 {
        std::thread::yield_now();
    }
    fs.disarm();
    db.close().unwrap();
}

#[test]
fn inaccessible_paths_are_errors_on_real_files() {
    let root = std::env::temp_dir().join(format!("esker-errors-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let (fs, store, backups) = (OsFs::shared(), root.join("store"), root.join("backups"));
    std::fs::create_dir_all(&root).unwrap();
    let file = root.join("file");
    std::fs::write(&file, "x").unwrap();
    assert_eq!(
        fs.exists(&file.join("below")).unwrap_err().kind(),
        std::io::ErrorKind::NotADirectory
    );
    assert!(Db::open(file.join("below"), tiny_options()).is_err());
    assert!(Db::backups(file.join("below")).is_err());
    let db = Db::open(&store, tiny_options()).unwrap();
    db.put("a", "1").unwrap();
    assert_eq!(db.backup(&backups).unwrap().number, 1);
    assert_eq!(Db::backups(&backups).unwrap()[0].number, 1);
    refused(Db::destroy(&store), ErrorKind::Locked, "close it");
    db.close().unwrap();
    Db::destroy(&store).unwrap();
    assert!(!store.exists());
    refused(Db::destroy(&store), ErrorKind::NotFound, "no store");
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn prefix_ranges_end_correctly_in_every_order() {
    for key_order in [KeyOrder::Bytewise, KeyOrder::Reverse] {
        let options = Options { key_order: key_order.clone(), ..tiny_options() };
        let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
        let keys: [&[u8]; 6] = [b"a", b"a\xfe", b"a\xff", b"a\xff\xff", b"b", b"\xff\xff"];
        keys.iter().for_each(|key| db.put(key, "1").unwrap());
        for prefix in [&b"a"[..], b"a\xff", b"a\xff\xff", b"\xff", b"", b"c"] {
            let mut found: Vec<Vec<u8>> =
                pairs(db.prefix(prefix).unwrap()).into_iter().map(|(key, _)| key).collect();
            found.sort();
            let want: Vec<&[u8]> = keys.iter().copied().filter(|k| k.starts_with(prefix)).collect();
            let mut want: Vec<Vec<u8>> = want.into_iter().map(<[u8]>::to_vec).collect();
            want.sort();
            assert_eq!(found, want, "{prefix:?} {key_order:?}");
        }
    }
}

/// Returns the keys of scans and moves over `db`, by several methods that must agree.
fn walks(db: &Db, middle: &[u8]) -> esker::Result<Vec<Vec<u8>>> {
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for pair in db.iter()? {
        seen.push(pair?.0.to_vec());
    }
    seen.push(b"backward".to_vec());
    for pair in db.iter()?.rev() {
        seen.push(pair?.0.to_vec());
    }
    for forward in [true, false] {
        let mut iter = db.iter()?;
        let note = |key: &[u8], _: &[u8]| {
            seen.push(key.to_vec());
            ControlFlow::Continue(())
        };
        if forward {
            iter.for_each_forward(note)?;
        } else {
            iter.for_each_backward(note)?;
        }
        assert!(!iter.valid());
    }
    let mut iter = db.iter()?;
    let note = |iter: &esker::DbIterator, seen: &mut Vec<Vec<u8>>| {
        seen.push(if iter.valid() { iter.key().to_vec() } else { b"end".to_vec() });
    };
    iter.seek(middle)?;
    note(&iter, &mut seen);
    for forward in [false, true, true, false, false] {
        if !iter.valid() {
            break;
        }
        if forward {
            iter.move_next()?
        } else {
            iter.move_prev()?
        }
        note(&iter, &mut seen);
    }
    iter.seek_for_prev(middle)?;
    note(&iter, &mut seen);
    iter.seek_to_last()?;
    note(&iter, &mut seen);
    for bound in [Bound::Included(middle), Bound::Excluded(middle)] {
        let below = db.range::<&[u8]>((Bound::Unbounded, as_ref(&bound)))?;
        let above = db.range::<&[u8]>((as_ref(&bound), Bound::Unbounded))?;
        for pair in below.rev().take(2).chain(above.rev().take(2)) {
            seen.push(pair?.0.to_vec());
        }
        for pair in db.range::<&[u8]>((as_ref(&bound), Bound::Unbounded))?.take(2) {
            seen.push(pair?.0.to_vec());
        }
    }
    Ok(seen)
}

fn as_ref<'a>(bound: &'a Bound<&'a [u8]>) -> Bound<&'a &'a [u8]> {
    bound.as_ref()
}

#[test]
fn read_error_among_deleted_keys_and_old_versions_is_returned() {
    const KEYS: u32 = 3_000;
    let fs = FaultFs::new(MemFs::new());
    let options = Options {
        auto_compaction: false,
        background_threads: Some(1),
        block_size_bytes: 1024,
        cache_policy: CachePolicy::None,
        keep_files_open: false,
        memtable_size_bytes: Some(16 << 20),
        memory_budget_bytes: Some(64 << 20),
        log_file: false,
        status_file: false,
        thresholds: Thresholds::small(),
        ..Options::default()
    };
    let db = Db::open_on(fs.clone(), dir(), options).unwrap();
    let mut snapshots = Vec::new();
    for round in 0..3u8 {
        (0..KEYS).step_by(2).for_each(|i| db.put(i.to_be_bytes(), [round; 20]).unwrap());
        db.flush().unwrap();
        // Versions retained by a snapshot, and newer versions that the snapshot does not see.
        (0..40).for_each(|i| {
            db.put(2_000u32.to_be_bytes(), [i; 30]).unwrap();
            snapshots.push(db.snapshot());
        });
        (0..KEYS).skip(1).step_by(2).for_each(|i| db.put(i.to_be_bytes(), [round; 20]).unwrap());
        db.delete_range(100u32.to_be_bytes(), 200u32.to_be_bytes()).unwrap();
        db.flush().unwrap();
    }
    (10..1_900u32).for_each(|i| db.delete(i.to_be_bytes()).unwrap());
    db.flush().unwrap();
    while db.metrics().hints == 0 {
        std::thread::yield_now();
    }
    let reads = OpMask::of(&[Op::Read, Op::Open]);
    for middle in [1_000u32, 2_000, 2_500] {
        let middle = middle.to_be_bytes();
        let want = walks(&db, &middle).unwrap();
        let old = &snapshots[5];
        let want_old = old.get(2_000u32.to_be_bytes()).unwrap();
        let (mut nth, mut failed) = (1, 0);
        loop {
            fs.arm(Fault::once(reads, nth, FaultKind::Io).on(".sst"));
            let seen = walks(&db, &middle);
            let hits = fs.hits();
            fs.disarm();
            match seen {
                Ok(seen) => assert_eq!(seen, want, "read {nth}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
            }
            if hits == 0 {
                break;
            }
            failed += 1;
            // Every one of the first reads, then fewer and fewer.
            nth += 1 + nth / 16;
        }
        assert!(failed > 60, "{failed}");
        for nth in 1..6 {
            fs.arm(Fault::once(reads, nth, FaultKind::Io).on(".sst"));
            if let Ok(found) = old.get(2_000u32.to_be_bytes()) {
                assert_eq!(found, want_old);
            }
            fs.disarm();
        }
    }
}
