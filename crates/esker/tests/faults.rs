//! A store on a file system that crashes, fills up or fails at a chosen operation.
//!
//! These tests guard against past failures: a synced write lost because an older log was not
//! synced; a hole in the middle of the writes after a power failure; a store that does not reopen;
//! an acknowledged write undone by a failed one; a write accepted after a failed sync.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{pairs, tiny_options};
use esker::fs::Fs;
use esker::{Db, ErrorKind, Options, ValueSeparation, WriteOptions};
use esker_testkit::crash::{CrashFs, CrashModel};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

const DIR: &str = "/db";

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// Returns options under which nothing is flushed without a request.
fn lazy_options() -> Options {
    Options { memtable_size_bytes: Some(1 << 20), ..tiny_options() }
}

/// The acknowledged writes of a store that died: its state after each write, and the number of
/// writes that must survive a power failure.
#[derive(Default)]
struct Acknowledged {
    states: Vec<Pairs>,
    durable: usize,
    /// The state after a failed write, which may be present or not.
    maybe: Option<Pairs>,
}

impl Acknowledged {
    fn note(&mut self, key: String, value: Vec<u8>, outcome: esker::Result<()>, synced: bool) {
        let mut next = self.states.last().cloned().unwrap_or_default();
        match next.binary_search_by(|(k, _)| k.as_slice().cmp(key.as_bytes())) {
            Ok(at) => next[at].1 = value,
            Err(at) => next.insert(at, (key.into_bytes(), value)),
        }
        if outcome.is_err() {
            self.maybe.get_or_insert(next);
            return;
        }
        self.states.push(next);
        if synced {
            self.durable = self.states.len();
        }
    }

    /// Checks that `found` is the state after some write, with none of the first `least` writes
    /// lost.
    fn check(&self, found: &Pairs, least: usize, what: &str) {
        let index = if found.is_empty() {
            Some(0)
        } else {
            self.states.iter().rposition(|s| s == found).map(|i| i + 1)
        };
        let maybe = self.maybe.as_ref() == Some(found);
        let index = index.or(maybe.then_some(self.states.len()));
        let index = index.unwrap_or_else(|| {
            panic!(
                "{what}: the content is not an earlier state of the store: {} pairs",
                found.len()
            )
        });
        assert!(index >= least, "{what}: found {index} writes, expected at least {least}");
    }
}

/// Writes until the end of the script or the first failure. Every fifth write is synced, and some
/// writes are followed by a flush.
fn script(fs: Arc<dyn Fs>, options: Options, writes: u32) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    let Ok(db) = Db::open_on(fs, dir(), options) else { return acknowledged };
    for i in 0..writes {
        let (key, value) = (format!("key{:02}", i * 7 % 23), vec![i as u8; 1 + i as usize * 5]);
        let synced = i % 5 == 4;
        let how = if synced { WriteOptions::SYNC } else { WriteOptions::BUFFERED };
        let outcome = db.put_with(&key, &value, &how);
        let failed = outcome.is_err();
        acknowledged.note(key, value, outcome, synced);
        if failed {
            break;
        }
        if i % 13 == 12 && db.flush().is_ok() {
            acknowledged.durable = acknowledged.states.len();
        }
    }
    // A death, not a close: the file system no longer answers, or its image was taken.
    drop(db);
    acknowledged
}

fn check_images(fs: &CrashFs, acknowledged: &Acknowledged, options: &Options, what: &str) {
    let all = acknowledged.states.len();
    let mut models = vec![(CrashModel::SyncedOnly, acknowledged.durable)];
    models.push((CrashModel::Everything, all));
    for seed in 0..3 {
        models.push((CrashModel::Prefix { seed }, acknowledged.durable));
        models.push((CrashModel::Scattered { seed }, acknowledged.durable));
    }
    for (model, least) in models {
        let what = format!("{what}, {model:?}");
        let image = fs.crash_image(model);
        if !image.exists(dir()).unwrap() {
            assert_eq!(least, 0, "{what}: the directory is missing");
            continue;
        }
        let db = Db::open_on(image.clone(), dir(), options.clone())
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let found = pairs(db.iter().unwrap());
        acknowledged.check(&found, least, &what);
        // The store accepts writes, and the first recovery changes nothing for the second.
        db.put_with("after", "crash", &WriteOptions::SYNC).unwrap();
        drop(db);
        let db = Db::open_on(image, dir(), options.clone())
            .unwrap_or_else(|e| panic!("{what}, again: {e}"));
        assert_eq!(db.get("after").unwrap().as_deref(), Some(b"crash".as_slice()), "{what}");
        assert_eq!(pairs(db.iter().unwrap()).len(), found.len() + 1, "{what}");
    }
}

/// Cuts the power at each `step`th operation of the script.
fn cut_power(options: &Options, step: usize) {
    let counting = FaultFs::new(CrashFs::new());
    script(counting.clone(), options.clone(), 40);
    let changes = counting.counts().total();
    assert!(changes > 100);
    for at in (1..=changes).step_by(step) {
        let disk = CrashFs::new();
        let fs = FaultFs::new(disk.clone());
        fs.arm(Fault::for_ever(OpMask::ALL, at, FaultKind::Io));
        let acknowledged = script(fs, options.clone(), 40);
        check_images(&disk, &acknowledged, options, &format!("death at operation {at}"));
    }
}

#[test]
fn power_failure_at_any_operation_keeps_durable_writes() {
    cut_power(&lazy_options(), 1);
}

#[test]
fn power_failure_keeps_durable_writes_while_tables_are_written() {
    cut_power(&tiny_options(), 7);
}

#[test]
fn power_failure_keeps_durable_writes_while_value_files_are_written() {
    let value_separation_min_bytes = ValueSeparation::From(60);
    cut_power(&Options { value_separation_min_bytes, ..tiny_options() }, 17);
}

/// Opens, writes and dies without closing. The machine continues.
fn killed_after(disk: &Arc<CrashFs>, write: impl FnOnce(&Db)) {
    let fs = FaultFs::new(disk.clone());
    let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
    write(&db);
    fs.arm(Fault::for_ever(OpMask::ALL, 1, FaultKind::Io));
    drop(db);
}

#[test]
fn synced_write_makes_recovered_writes_durable() {
    let disk = CrashFs::new();
    killed_after(&disk, |db| {
        for i in 0..20 {
            db.put_with(format!("old{i:02}"), "buffered", &WriteOptions::BUFFERED).unwrap();
        }
    });
    killed_after(&disk, |db| db.put_with("new", "synced", &WriteOptions::SYNC).unwrap());
    for seed in 0..20 {
        for model in
            [CrashModel::SyncedOnly, CrashModel::Prefix { seed }, CrashModel::Scattered { seed }]
        {
            let db = Db::open_on(disk.crash_image(model), dir(), lazy_options())
                .unwrap_or_else(|e| panic!("{model:?}: {e}"));
            let found = pairs(db.iter().unwrap());
            assert_eq!(found.len(), 21, "{model:?}: the synced write and all before it");
        }
    }
}

#[test]
fn power_failure_leaves_no_gap_in_buffered_writes_of_two_processes() {
    let disk = CrashFs::new();
    for life in 0..3 {
        killed_after(&disk, |db| {
            for i in 0..10 {
                let key = format!("{:02}", life * 10 + i);
                db.put_with(key, [7; 90], &WriteOptions::BUFFERED).unwrap();
            }
        });
    }
    for seed in 0..300 {
        for model in [CrashModel::Prefix { seed }, CrashModel::Scattered { seed }] {
            let db = Db::open_on(disk.crash_image(model), dir(), lazy_options())
                .unwrap_or_else(|e| panic!("{model:?}: {e}"));
            let found = pairs(db.iter().unwrap());
            for (at, (key, _)) in found.iter().enumerate() {
                assert_eq!(key, format!("{at:02}").as_bytes(), "{model:?}: a hole");
            }
        }
    }
}

#[test]
fn writes_resume_when_full_device_has_space() {
    for kind in [FaultKind::NoSpace, FaultKind::Quota, FaultKind::ShortWrite] {
        for at in 1..12 {
            let disk = CrashFs::new();
            let fs = FaultFs::new(disk.clone());
            let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
            db.put_with("first", "1", &WriteOptions::SYNC).unwrap();
            fs.arm(Fault::once(OpMask::GROWTH, at, kind).on(".wal"));
            let mut kept = vec!["first".to_string()];
            for i in 0..12 {
                let key = format!("k{i:02}");
                match db.put_with(&key, [i as u8; 50], &WriteOptions::BUFFERED) {
                    Ok(()) => kept.push(key),
                    Err(error) if kind != FaultKind::ShortWrite => {
                        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                        assert!(db.get(&key).unwrap().is_none());
                    }
                    Err(error) => {
                        let allowed = [ErrorKind::Io, ErrorKind::NoSpace, ErrorKind::ReadOnly];
                        assert!(allowed.contains(&error.kind()), "{error}");
                    }
                }
            }
            assert_eq!(fs.hits(), 1, "operation {at}");
            if kind != FaultKind::ShortWrite {
                assert_eq!(kept.len(), 12, "operation {at}: all but the one refused");
            }
            fs.arm(Fault::for_ever(OpMask::ALL, 1, FaultKind::Io));
            drop(db);
            let image = disk.crash_image(CrashModel::Everything);
            let db = Db::open_on(image, dir(), lazy_options()).unwrap();
            for key in &kept {
                assert!(db.contains_key(key).unwrap(), "{kind:?} at {at}: {key} vanished");
            }
        }
    }
}

#[test]
fn failed_log_sync_refuses_writes_until_reopen() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(disk.clone());
    let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
    db.put_with("a", "synced", &WriteOptions::SYNC).unwrap();
    fs.arm(Fault::once(OpMask::of(&[Op::Sync]), 1, FaultKind::NoSpace).on(".wal"));
    let error = db.put_with("b", "not synced", &WriteOptions::SYNC).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let syncs = fs.counts().of(Op::Sync);
    for how in [WriteOptions::SYNC, WriteOptions::BUFFERED, WriteOptions::NONE] {
        let error = db.put_with("c", "refused", &how).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    }
    assert_eq!(fs.counts().of(Op::Sync), syncs, "a failed sync was tried again");
    assert_eq!(db.get("a").unwrap().as_deref(), Some(b"synced".as_slice()));
    drop(db);
    let db = Db::open_on(disk.crash_image(CrashModel::SyncedOnly), dir(), lazy_options()).unwrap();
    assert!(db.contains_key("a").unwrap() && !db.contains_key("c").unwrap());
}

#[test]
fn failed_read_is_an_error_not_a_missing_key() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(disk);
    let options = Options { cache_size_bytes: Some(0), ..tiny_options() };
    let db = Db::open_on(fs.clone(), dir(), options).unwrap();
    for i in 0..200 {
        db.put(format!("key{i:03}"), [b'v'; 30]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let want = pairs(db.iter().unwrap());
    for kind in [FaultKind::Io, FaultKind::UnexpectedEof] {
        fs.arm(Fault::for_ever(OpMask::of(&[Op::Read, Op::Open]), 1, kind).on(".sst"));
        for (key, value) in &want {
            if let Ok(found) = db.get(key) {
                assert_eq!(found.as_deref(), Some(value.as_slice()), "{kind:?}");
            }
        }
        if let Ok(found) = db.iter().and_then(|i| i.collect::<esker::Result<Pairs>>()) {
            assert_eq!(found, want, "{kind:?}");
        }
        assert!(fs.hits() > 0);
        fs.disarm();
        assert_eq!(pairs(db.iter().unwrap()), want, "a read failed");
    }
}

#[test]
fn power_failure_leaves_no_gap_in_buffered_writes_over_several_logs() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(disk.clone());
    let options = Options { frozen_memtables_max: 8, ..tiny_options() };
    let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
    // No table can be created, so memtables freeze, and each has its own log.
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Create]), 1, FaultKind::NoSpace).on(".sst"));
    for i in 0..200 {
        if db.put_with(format!("{i:03}"), [7; 90], &WriteOptions::BUFFERED).is_err() {
            break;
        }
    }
    let logs = disk.list(dir()).unwrap().iter().filter(|e| e.name.ends_with(".wal")).count();
    assert!(logs >= 2, "{logs} logs");
    fs.arm(Fault::for_ever(OpMask::ALL, 1, FaultKind::Io));
    drop(db);
    for seed in 0..300 {
        for model in [CrashModel::Prefix { seed }, CrashModel::Scattered { seed }] {
            let db = Db::open_on(disk.crash_image(model), dir(), options.clone())
                .unwrap_or_else(|e| panic!("{model:?}: {e}"));
            for (at, (key, _)) in pairs(db.iter().unwrap()).iter().enumerate() {
                assert_eq!(key, format!("{at:03}").as_bytes(), "{model:?}: a hole");
            }
        }
    }
}

/// Returns the names of the logs, oldest first.
fn log_names(fs: &CrashFs) -> Vec<String> {
    let names = fs.list(dir()).unwrap().into_iter().map(|e| e.name);
    names.filter(|name| name.ends_with(".wal")).collect()
}

#[test]
fn damage_in_log_that_later_logs_prove_durable_is_corruption() {
    let disk = CrashFs::new();
    let write = |db: &Db, life: &str| {
        db.put_with(format!("{life}-a"), "synced", &WriteOptions::SYNC).unwrap();
        db.put_with(format!("{life}-b"), "synced", &WriteOptions::SYNC).unwrap();
    };
    // The log of a store that was not closed becomes a table.
    let db = Db::open_on(disk.clone(), dir(), lazy_options()).unwrap();
    write(&db, "one");
    db.close().unwrap();
    killed_after(&disk, |db| write(db, "two"));
    let logs = log_names(&disk);
    assert_eq!(logs.len(), 2, "{logs:?}");
    let older = dir().join(&logs[0]);
    let whole = disk.read(&older, u64::MAX).unwrap();
    for (at, byte) in whole.iter().enumerate() {
        for cut in [false, true] {
            let image = disk.crash_image(CrashModel::Everything);
            let mut file = image.open_write(&older).unwrap();
            if cut {
                file.set_len(at as u64).unwrap();
            } else {
                file.write_at(&[byte ^ 4], at as u64).unwrap();
            }
            drop(file);
            let opened = Db::open_on(image, dir(), lazy_options());
            match opened {
                Err(error) => {
                    assert!(error.kind() == ErrorKind::Corruption, "byte {at}, cut {cut}: {error}")
                }
                // The byte is padding between records.
                Ok(db) => assert_eq!(pairs(db.iter().unwrap()).len(), 4, "byte {at}, cut {cut}"),
            }
        }
    }
}

#[test]
fn log_left_by_failed_start_does_not_hide_later_writes() {
    for at in 1..4 {
        for op in [Op::SyncDir, Op::Create, Op::Write, Op::Sync, Op::Remove] {
            let disk = CrashFs::new();
            let fs = FaultFs::new(disk.clone());
            let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
            db.put_with("a", "1", &WriteOptions::SYNC).unwrap();
            fs.arm(Fault::once(OpMask::of(&[op]), at, FaultKind::Io));
            let _ = db.flush();
            fs.disarm();
            let kept = ["b", "c", "d"].map(|k| db.put_with(k, "2", &WriteOptions::SYNC).is_ok());
            fs.arm(Fault::for_ever(OpMask::ALL, 1, FaultKind::Io));
            drop(db);
            for model in [CrashModel::Everything, CrashModel::SyncedOnly] {
                let db = Db::open_on(disk.crash_image(model), dir(), lazy_options())
                    .unwrap_or_else(|e| panic!("{op:?} {at} {model:?}: {e}"));
                assert!(db.contains_key("a").unwrap(), "{op:?} {at} {model:?}");
                for (key, kept) in ["b", "c", "d"].iter().zip(kept) {
                    assert!(!kept || db.contains_key(key).unwrap(), "{op:?} {at} {model:?} {key}");
                }
            }
        }
    }
}

#[test]
fn repeated_opens_leave_few_logs() {
    let disk = CrashFs::new();
    for life in 0..40 {
        let db = Db::open_on(disk.clone(), dir(), lazy_options()).unwrap();
        db.put(format!("{life:02}"), "v").unwrap();
        db.close().unwrap();
        assert!(log_names(&disk).len() <= 5, "{:?}", log_names(&disk));
    }
    let db = Db::open_on(disk, dir(), lazy_options()).unwrap();
    assert_eq!(pairs(db.iter().unwrap()).len(), 40);
    assert!(db.recovery_notes().is_empty());
}

/// Returns the store reopened by a second process on the same machine. Some of its data may be only
/// in the page cache.
fn reopened_after(disk: &Arc<CrashFs>, first_life: impl FnOnce(&Db)) -> Db {
    let process = disk.next_process();
    let db = Db::open_on(process.clone(), dir(), lazy_options()).unwrap();
    first_life(&db);
    let next = process.next_process();
    drop(db);
    Db::open_on(next, dir(), lazy_options()).unwrap()
}

#[test]
fn pages_dropped_by_failed_sync_are_rewritten_before_new_writes() {
    let disk = CrashFs::new();
    let db = reopened_after(&disk, |db| {
        db.put_with("a", "buffered", &WriteOptions::BUFFERED).unwrap();
        disk.fail_sync(1, false);
        db.put_with("b", "not synced", &WriteOptions::SYNC).unwrap_err();
    });
    db.put_with("c", "synced", &WriteOptions::SYNC).unwrap();
    assert!(db.contains_key("a").unwrap(), "the write was in the page cache");
    let image = disk.crash_image(CrashModel::SyncedOnly);
    let db = Db::open_on(image, dir(), lazy_options()).unwrap();
    assert!(db.contains_key("c").unwrap(), "a synced write is missing");
    assert!(db.contains_key("a").unwrap(), "a hole before a synced write");
}

#[test]
fn close_after_manifest_failure_is_not_clean() {
    for nth in 1..6 {
        let crash = CrashFs::new();
        let db = Db::open_on(crash.clone(), dir(), lazy_options()).unwrap();
        db.put("a", "1").unwrap();
        crash.fail_sync(nth, false);
        let _ = db.flush();
        let _ = db.close();
        crash.heal_syncs();
        let db = Db::open_on(crash.clone(), dir(), lazy_options()).unwrap();
        db.put_with("b", "2", &WriteOptions::SYNC).unwrap();
        let image = crash.crash_image(CrashModel::SyncedOnly);
        let db = Db::open_on(image, dir(), lazy_options())
            .unwrap_or_else(|e| panic!("sync {nth} of the flush dropped its pages: {e}"));
        assert!(db.contains_key("a").unwrap() && db.contains_key("b").unwrap(), "sync {nth}");
    }
}

#[test]
fn unsynced_directory_name_is_synced_by_next_open() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(disk.clone());
    fs.arm(Fault::once(OpMask::of(&[Op::SyncDir]), 1, FaultKind::Io));
    Db::open_on(fs.clone(), dir(), lazy_options()).unwrap_err();
    let db = Db::open_on(fs, dir(), lazy_options()).unwrap();
    db.put_with("a", "synced", &WriteOptions::SYNC).unwrap();
    let image = disk.crash_image(CrashModel::SyncedOnly);
    let db = Db::open_on(image, dir(), lazy_options()).unwrap();
    assert!(db.contains_key("a").unwrap(), "the store is empty");
}

#[test]
fn missing_log_is_detected_between_freeze_and_flush_end() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(disk.clone());
    let db = Db::open_on(fs.clone(), dir(), lazy_options()).unwrap();
    db.put_with("a", "in the older log", &WriteOptions::SYNC).unwrap();
    let tables = Fault::for_ever(OpMask::of(&[Op::Create]), 1, FaultKind::Io);
    fs.arm(Fault { name_contains: ".sst".into(), ..tables });
    db.flush().unwrap_err();
    db.put_with("b", "in the newer log", &WriteOptions::SYNC).unwrap();
    let logs = log_names(&disk);
    assert_eq!(logs.len(), 2, "{logs:?}");
    for model in [CrashModel::Everything, CrashModel::SyncedOnly] {
        for cut in [None, Some(0), Some(39)] {
            let image = disk.crash_image(model);
            let newest = dir().join(&logs[1]);
            match cut {
                None => image.remove(&newest).unwrap(),
                Some(len) => image.open_write(&newest).unwrap().set_len(len).unwrap(),
            }
            let error = Db::open_on(image.clone(), dir(), lazy_options()).unwrap_err();
            assert!(error.kind() == ErrorKind::Corruption, "{model:?} {cut:?}: {error}");
            let report = Db::repair_on(image.clone(), dir(), lazy_options()).unwrap();
            assert!(report.lost.iter().any(|l| l.contains(&logs[1])), "{:?}", report.lost);
            let db = Db::open_on(image, dir(), lazy_options()).unwrap();
            assert!(db.contains_key("a").unwrap());
        }
    }
    drop(db);
}
