//! Every operation of one call fails in turn, on stores outside the campaigns' scripts: damaged
//! stores, tables not opened yet, and remains of a crash.
//!
//! These tests guard against past failures: a failed read taken for the end of a log; partial files
//! that obstruct the next attempt.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Reversible, files, image, pairs, several_logs, tiny_options};
use esker::fs::Fs;
use esker::fs::MemFs;
use esker::fs::OsFs;
use esker::{Db, ErrorKind, KeyOrder, Options, WriteOptions};
use esker_testkit::campaign::checksum_range::checksum_ranges;
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

const DIR: &str = "/db";

type Files = Vec<(String, Vec<u8>)>;
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// Returns options under which nothing is flushed or compacted without a request.
fn lazy_options() -> Options {
    let cache_size_bytes = Some(0);
    let memtable_size_bytes = Some(1 << 20);
    Options { auto_compaction: false, cache_size_bytes, memtable_size_bytes, ..tiny_options() }
}

const READS: &[Op] = &[Op::Read, Op::Open, Op::Len];

/// Runs `work` on `all` with the first, second, ... of the operations failing, until no operation
/// is left to fail. Returns the number of failed operations.
fn each(
    all: &Files,
    ops: &[Op],
    part: &str,
    for_ever: bool,
    mut work: impl FnMut(&Arc<MemFs>, &Arc<FaultFs>, u64),
) -> u64 {
    for nth in 1.. {
        let disk = image(dir(), all);
        let fs = FaultFs::new(disk.clone());
        let fault = Fault { for_ever, ..Fault::once(OpMask::of(ops), nth, FaultKind::Io) };
        fs.arm(fault.on(part));
        work(&disk, &fs, nth);
        if fs.hits() == 0 {
            return nth - 1;
        }
    }
    0
}

/// Accepts the wanted result, or an error with a path that is an I/O error or reports corruption.
#[track_caller]
fn right_or_failed<T: PartialEq + std::fmt::Debug>(got: esker::Result<T>, want: &T) {
    match got {
        Ok(got) => assert_eq!(got, *want),
        Err(error) => {
            assert!([ErrorKind::Io, ErrorKind::Corruption].contains(&error.kind()), "{error}");
            assert!(error.path().is_some(), "{error}");
        }
    }
}

fn walk(db: &Db) -> esker::Result<Pairs> {
    db.iter()?.map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
}

#[test]
fn read_errors_in_unopened_tables_with_range_tombstones() {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
    for round in 0..3u32 {
        (0..60u32).for_each(|i| db.put((i * 3 + round).to_be_bytes(), [7; 40]).unwrap());
        let (start, end) = (round * 20, round * 20 + 9);
        db.delete_range(start.to_be_bytes(), end.to_be_bytes()).unwrap();
        db.flush().unwrap();
    }
    let want = pairs(db.iter().unwrap());
    let size = db.approximate_size([0], [255]).unwrap();
    db.close().unwrap();
    let all = files(&*fs, dir());
    let options = || Options { keep_files_open: false, ..lazy_options() };
    let reads: [fn(&Db) -> esker::Result<Pairs>; 3] = [
        walk,
        |db| {
            let found = db.get(61u32.to_be_bytes())?;
            assert_eq!(found.as_deref(), Some(&[7; 40][..]));
            walk(db)
        },
        |db| db.compact_range(None, None).and_then(|()| walk(db)),
    ];
    for read_all in reads {
        let met = each(&all, READS, ".sst", true, |_, fs, _| {
            let Ok(db) = Db::open_on(fs.clone(), dir(), options()) else { return };
            right_or_failed(read_all(&db), &want);
            fs.disarm();
            assert_eq!(pairs(db.iter().unwrap()), want);
        });
        assert!(met > 2, "{met}");
    }
    let met = each(&all, READS, ".sst", false, |_, fs, _| {
        let Ok(db) = Db::open_on(fs.clone(), dir(), options()) else { return };
        right_or_failed(db.approximate_size([0], [255]), &size);
    });
    assert!(met > 2, "{met}");
}

#[test]
fn read_errors_in_logs_with_a_gap_and_in_their_repair() {
    let mut all = several_logs(dir(), &WriteOptions::BUFFERED);
    let logs: Vec<usize> = (0..all.len()).filter(|at| all[*at].0.ends_with(".wal")).collect();
    assert!(logs.len() >= 3, "{}", logs.len());
    let ranges = checksum_ranges(&all[logs[0]].0, &all[logs[0]].1);
    all[logs[0]].1[ranges[ranges.len() / 2].at..].fill(0);
    let opened = |fs: Arc<dyn Fs>| {
        Db::open_on(fs, dir(), lazy_options()).map(|db| pairs(db.iter().unwrap()).len())
    };
    let want = opened(image(dir(), &all));
    let met = each(&all, READS, ".wal", false, |disk, fs, _| {
        match (opened(fs.clone()), &want) {
            (Ok(got), Ok(want)) => assert_eq!(got, *want),
            (Ok(_), Err(error)) => panic!("opened in spite of {error}"),
            (Err(error), _) => assert!(error.path().is_some(), "{error}"),
        }
        fs.disarm();
        assert_eq!(opened(disk.clone()).ok(), want.as_ref().ok().copied());
    });
    assert!(met > 10, "{met}");
    // A damaged record in the middle of a log: the repair searches for the next intact one.
    let mut all = several_logs(dir(), &WriteOptions::BUFFERED);
    all[logs[0]].1[ranges[ranges.len() / 2].start] ^= 1;
    let whole = image(dir(), &all);
    let want = Db::repair_on(whole, dir(), lazy_options()).unwrap();
    assert!(!want.lost.is_empty());
    let met = each(&all, READS, ".wal", false, |disk, fs, nth| {
        if let Ok(report) = Db::repair_on(fs.clone(), dir(), lazy_options()) {
            let same = (report.pairs, report.lost.len()) == (want.pairs, want.lost.len());
            let reported = report.lost.iter().any(|what| what.contains("a fault of the test"));
            assert!(same || reported, "{nth}: {report:?}");
            return;
        }
        fs.disarm();
        let again = Db::repair_on(disk.clone(), dir(), lazy_options()).unwrap();
        assert_eq!((again.pairs, again.lost.len()), (want.pairs, want.lost.len()), "{nth}");
    });
    assert!(met > 10, "{met}");
}

#[test]
fn errors_in_repair_that_sorts_and_merges_tables() {
    let ordered = |reversed| Options {
        block_size_bytes: 64 << 10,
        key_order: KeyOrder::Custom(Arc::new(Reversible(reversed))),
        ..lazy_options()
    };
    // Two tables in another order, larger than a memtable, or seventy overlapping tables.
    for (tables, keys, reversed) in [(2, 200u32, true), (70, 2, false)] {
        let fs = MemFs::new();
        let db = Db::open_on(fs.clone(), dir(), ordered(false)).unwrap();
        for round in 0..tables {
            (0..keys).for_each(|i| db.put(i.to_be_bytes(), [round; 40]).unwrap());
            db.flush().unwrap();
        }
        db.close().unwrap();
        let all = files(&*fs, dir());
        let options = Options { memtable_size_bytes: Some(4 << 10), ..ordered(reversed) };
        let (mut writes, mut nth, mut failed) = (true, 1, 0);
        loop {
            let disk = image(dir(), &all);
            let fs = FaultFs::new(disk.clone());
            let ops = if writes { &[Op::Create, Op::Write, Op::Sync] } else { READS };
            fs.arm(Fault::once(OpMask::of(ops), nth, FaultKind::Io).on(".sst"));
            let first = Db::repair_on(fs.clone(), dir(), options.clone());
            let met = fs.hits() > 0;
            fs.disarm();
            let complete = first.as_ref().is_ok_and(|report| report.lost.is_empty());
            if first.is_err() {
                failed += 1;
                let again = Db::repair_on(disk.clone(), dir(), options.clone()).unwrap();
                assert_eq!(again.lost, Vec::<String>::new(), "{nth}");
            }
            if complete || first.is_err() {
                let db = Db::open_on(disk, dir(), options.clone()).unwrap();
                let found = pairs(db.iter().unwrap());
                assert_eq!(found.len(), keys as usize, "{nth}");
                assert!(found.iter().all(|(_, value)| value[..] == [tables - 1; 40]), "{nth}");
            }
            nth += 1 + nth / 24;
            match (met, writes) {
                (true, _) => {}
                (false, true) => (writes, nth) = (false, 1),
                (false, false) => break,
            }
        }
        assert!(failed > 3, "{failed} of {tables} tables, {nth}");
    }
}

#[test]
fn errors_in_open_after_crash() {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
    (0..20u32).for_each(|i| db.put(i.to_be_bytes(), [7; 40]).unwrap());
    db.flush().unwrap();
    let killed = files(&*fs, dir());
    db.close().unwrap();
    let closed = files(&*fs, dir());
    let mut met = 0;
    for mut all in [killed, closed] {
        // Half an edit at the end of the manifest, and a next `CURRENT` that was not renamed.
        let manifest = all.iter_mut().find(|(name, _)| name.starts_with("manifest-")).unwrap();
        manifest.1.extend_from_slice(&[0xab; 100]);
        all.push(("CURRENT.new".into(), vec![1; 300]));
        all.push(("009999.sst".into(), vec![2; 300]));
        let ops = [Op::SetLen, Op::Sync, Op::Remove, Op::Write, Op::Create, Op::Rename];
        for op in ops {
            met += each(&all, &[op], "", false, |disk, fs, nth| {
                let opened = Db::open_on(fs.clone(), dir(), lazy_options());
                right_or_failed(opened.map(|db| pairs(db.iter().unwrap()).len()), &20);
                fs.disarm();
                let db = Db::open_on(disk.clone(), dir(), lazy_options()).unwrap();
                assert_eq!(pairs(db.iter().unwrap()).len(), 20, "{op:?} {nth}");
            });
        }
    }
    assert!(met > 30, "{met}");
}

#[test]
fn backup_directory_sync_error() {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
    db.put("a", "1").unwrap();
    db.close().unwrap();
    let all = files(&*fs, dir());
    let met = each(&all, &[Op::SyncDir], "backup", true, |disk, fs, nth| {
        let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
        let made = db.backup("/backups");
        assert_eq!(made.is_err(), fs.hits() > 0, "{nth}");
        fs.disarm();
        let made = db.backup("/backups").unwrap();
        let copy = Db::open_on(disk.clone(), made.path, lazy_options()).unwrap();
        assert!(copy.contains_key("a").unwrap(), "{nth}");
    });
    assert!(met > 3, "{met}");
}

#[test]
fn preallocated_log_that_cannot_be_started() {
    for nth in 1..5 {
        let disk = MemFs::new();
        let fs = FaultFs::new(disk.clone());
        let options = Options {
            background_threads: Some(1),
            memtable_size_bytes: Some(64 << 10),
            ..lazy_options()
        };
        let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
        let logs = || files(&*disk, dir()).iter().filter(|(n, _)| n.ends_with(".wal")).count();
        let mut puts = 0u32;
        while logs() < 2 {
            db.put(puts.to_be_bytes(), [7; 1000]).unwrap();
            puts += 1;
            assert!(puts < 10_000, "no log was preallocated");
            std::thread::yield_now();
        }
        fs.arm(Fault::once(OpMask::of(&[Op::Write]), nth, FaultKind::NoSpace).on(".wal"));
        let flushed = db.flush();
        let hits = fs.hits();
        fs.disarm();
        assert!(flushed.is_ok() || hits > 0, "{flushed:?}");
        db.put("after", "1").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let db = Db::open_on(disk, dir(), options).unwrap();
        assert_eq!(pairs(db.iter().unwrap()).len(), puts as usize + 1, "{nth}");
    }
}

#[test]
fn operating_system_errors() {
    let root = std::env::temp_dir().join(format!("esker-failing-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("sub")).unwrap();
    let (fs, file, missing) = (OsFs::shared(), root.join("file"), root.join("missing"));
    std::fs::write(&file, "x").unwrap();
    assert!(fs.create_new(&file).is_err() && fs.create_mapped(&file).is_err());
    for path in [&root.join("sub"), &missing] {
        assert!(fs.open_write(path).is_err() && fs.open_read(path).is_err());
        assert!(fs.read(path, 9).is_err());
    }
    assert!(fs.lock(&root.join("sub"), "me").is_err());
    assert!(fs.lock(&missing.join("LOCK"), "me").is_err());
    assert!(fs.list(&missing).is_err() && fs.sync_dir(&missing).is_err());
    assert!(fs.free_bytes(&missing).is_err());
    // Where directories cannot be locked, the file's own lock shows that another opener has the
    // store.
    let held = std::fs::File::open(&file).unwrap();
    held.lock().unwrap();
    assert_eq!(fs.lock(&file, "me").err().unwrap().kind(), std::io::ErrorKind::WouldBlock);
    held.unlock().unwrap();
    let mut open = fs.open_write(&file).unwrap();
    assert!(open.set_len(u64::MAX).is_err() && open.write_at(b"x", u64::MAX).is_err());
    let mut mapped = fs.create_mapped(&root.join("mapped")).unwrap();
    assert!(mapped.set_len(u64::MAX).is_err() && mapped.write_at(b"x", u64::MAX).is_err());
    mapped.append(b"still").unwrap();
    assert_eq!(fs.read(&file, 9).unwrap(), b"x");
    std::fs::remove_dir_all(&root).unwrap();
}
