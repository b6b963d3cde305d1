//! Backups: complete, incremental, verified and restorable, after a power cut at every operation.
//!
//! These tests guard against past failures: an incomplete backup that opens; a backup that shares a
//! damaged table; a restore over existing data; two stores in one backup directory, where a restore
//! took the backup of the last writer; a backup inside its store.

use std::path::Path;
use std::sync::Arc;

use crate::common::{pairs, tiny_options};
use esker::backup::BackupOptions;
use esker::fs::Fs;
use esker::fs::MemFs;
use esker::{Db, ErrorKind, Options};
use esker_testkit::crash::{CrashFs, CrashModel};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};
use parking_lot::Mutex;

const DB: &str = "/data/db";
const BACKUPS: &str = "/data/backups";
const COPY: &str = "/data/copy";

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn options() -> Options {
    Options { background_threads: Some(0), auto_compaction: false, ..tiny_options() }
}

fn fill(db: &Db, round: u32) {
    for i in 0..60u32 {
        db.put(format!("key{:03}", i * 7 % 60 + round * 10), vec![round as u8; 50]).unwrap();
    }
    db.delete(format!("key{:03}", round * 3)).unwrap();
}

fn held(fs: Arc<dyn Fs>, dir: &str) -> Pairs {
    let options = Options { create_if_missing: false, ..options() };
    let db = Db::open_read_only_on(fs, dir, options).unwrap_or_else(|e| panic!("{dir}: {e}"));
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole(), "{dir}");
    pairs(db.iter().unwrap())
}

fn disk() -> Arc<CrashFs> {
    let disk = CrashFs::new();
    disk.create_dir(Path::new("/data")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

#[test]
fn backups_share_equal_files_and_each_is_a_complete_store() {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/data")).unwrap();
    let db = Db::open_on(fs.clone(), DB, options()).unwrap();
    let mut states = Vec::new();
    let mut made = Vec::new();
    for round in 0..3 {
        fill(&db, round);
        made.push(db.backup(BACKUPS).unwrap());
        states.push(pairs(db.iter().unwrap()));
    }
    assert_eq!(made.iter().map(|m| m.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(made[0].linked_files, 0);
    for (before, after) in made.iter().zip(&made[1..]) {
        assert_eq!(after.linked_files, before.copied_files + before.linked_files);
        assert!(after.copied_files > 0 && after.copied_bytes < after.linked_bytes * 2);
    }
    // Without changes, no file is copied.
    assert_eq!(db.backup(BACKUPS).unwrap().copied_files, 0);
    // Later changes of the store do not affect its backups.
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    Db::destroy_on(fs.clone(), DB).unwrap();
    for (number, state) in (1..).zip(&states) {
        assert_eq!(held(fs.clone(), &format!("{BACKUPS}/backup-{number:06}")), *state);
        let copy = format!("{COPY}{number}");
        let restored = Db::restore_on(fs.clone(), BACKUPS, Some(number), &copy, options());
        assert_eq!(restored.unwrap(), number);
        let db = Db::open_on(fs.clone(), &copy, options()).unwrap();
        assert_eq!(pairs(db.iter().unwrap()), *state);
        db.put("and", "on").unwrap();
        db.close().unwrap();
    }
    let newest = Db::restore_on(fs.clone(), BACKUPS, None, COPY, options()).unwrap();
    assert_eq!(newest, 4);
    let over = Db::restore_on(fs.clone(), BACKUPS, None, COPY, options()).unwrap_err();
    assert_eq!(over.kind(), ErrorKind::InvalidArgument);
    let none = Db::restore_on(fs, BACKUPS, Some(9), "/data/x", options()).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
}

#[test]
fn damaged_table_is_neither_shared_nor_restored() {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/data")).unwrap();
    let db = Db::open_on(fs.clone(), DB, options()).unwrap();
    fill(&db, 0);
    let first = db.backup(BACKUPS).unwrap();
    let table = fs.list(&first.path).unwrap().into_iter().find(|e| e.name.ends_with(".sst"));
    let table = first.path.join(table.unwrap().name);
    fs.open_write(&table).unwrap().write_at(b"bad", 30).unwrap();
    assert!(db.backup(BACKUPS).unwrap_err().kind() == ErrorKind::Corruption);
    let failed = Db::restore_on(fs.clone(), BACKUPS, None, COPY, options()).unwrap_err();
    assert!(failed.kind() == ErrorKind::Corruption);
    assert!(!fs.exists(Path::new(COPY)).unwrap(), "an incomplete store remained");
    // A foreign directory stays unchanged.
    fs.create_dir(Path::new("/data/other")).unwrap();
    fs.create_new(Path::new("/data/other/file")).unwrap();
    let refused = db.backup("/data/other").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(fs.list(Path::new("/data/other")).unwrap().len(), 1);
}

fn refused<T>(result: esker::Result<T>, kind: ErrorKind, says: &[&str]) {
    let error = result.err().expect("the operation is refused");
    assert_eq!(error.kind(), kind, "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
}

fn numbers(fs: Arc<dyn Fs>, dir: &str) -> Vec<u64> {
    Db::backups_on(fs, dir).unwrap().iter().map(|info| info.number).collect()
}

#[test]
fn backup_directory_belongs_to_one_store() {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/data")).unwrap();
    let one = Db::open_on(fs.clone(), DB, options()).unwrap();
    let two = Db::open_on(fs.clone(), "/data/two", options()).unwrap();
    assert_ne!(one.store_id(), two.store_id());
    fill(&one, 0);
    fill(&two, 1);
    one.backup(BACKUPS).unwrap();
    one.backup(BACKUPS).unwrap();
    let says = ["belongs to another store", "backups 1 to 2", "at /data/db", "--take-over"];
    refused(two.backup(BACKUPS), ErrorKind::Incompatible, &says);
    assert_eq!(numbers(fs.clone(), BACKUPS), [1, 2], "the refusal changed something");
    let listed = Db::backups_on(fs.clone(), BACKUPS).unwrap();
    assert_eq!(listed[1].store_id, Some(one.store_id()));
    assert_eq!(listed[1].store_path.as_deref(), Some(Path::new(DB)));
    assert!(listed[1].created >= listed[0].created && listed[0].created.is_some());
    assert!(listed[1].tables > 0 && listed[1].table_bytes > 0 && listed[1].problem.is_none());
    // A reopened or repaired store keeps its identity.
    let (id, state) = (one.store_id(), pairs(one.iter().unwrap()));
    one.close().unwrap();
    Db::repair_on(fs.clone(), DB, options()).unwrap();
    let one = Db::open_on(fs.clone(), DB, options()).unwrap();
    assert_eq!(one.store_id(), id);
    one.backup(BACKUPS).unwrap();
    // A restored store has its own identity until it takes over its original's backups.
    Db::restore_on(fs.clone(), BACKUPS, None, COPY, options()).unwrap();
    let copy = Db::open_on(fs.clone(), COPY, options()).unwrap();
    assert_ne!(copy.store_id(), id);
    refused(copy.backup(BACKUPS), ErrorKind::Incompatible, &["backups 1 to 3"]);
    let over = BackupOptions::default().take_over(true);
    assert_eq!(copy.backup_with(BACKUPS, &over).unwrap().number, 4);
    assert_eq!(copy.backup(BACKUPS).unwrap().number, 5);
    refused(one.backup(BACKUPS), ErrorKind::Incompatible, &["at /data/copy"]);
    for number in 1..=5 {
        assert_eq!(held(fs.clone(), &format!("{BACKUPS}/backup-{number:06}")), state);
    }
    let checkpoint = "/data/checkpoint";
    one.checkpoint(checkpoint).unwrap();
    let checkpoint = Db::open_on(fs.clone(), checkpoint, options()).unwrap();
    assert!(![id, copy.store_id()].contains(&checkpoint.store_id()));
    // A backup without a store identity, and one with damaged metadata.
    let meta = Path::new(BACKUPS).join("backup-000005/BACKUP");
    fs.open_write(&meta).unwrap().write_at(b"bad", 30).unwrap();
    assert!(copy.backup(BACKUPS).unwrap_err().kind() == ErrorKind::Corruption);
    let listed = Db::backups_on(fs.clone(), BACKUPS).unwrap();
    assert!(
        listed[4].store_id.is_none()
            && listed[4].problem.as_ref().unwrap().kind() == ErrorKind::Corruption
    );
    fs.remove(&meta).unwrap();
    refused(copy.backup(BACKUPS), ErrorKind::Incompatible, &["does not name its store"]);
    assert_eq!(copy.backup_with(BACKUPS, &over).unwrap().number, 6);
}

#[test]
fn concurrent_calls_on_backup_directory_are_refused() {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/data")).unwrap();
    let db = Db::open_on(fs.clone(), DB, options()).unwrap();
    fill(&db, 0);
    db.backup(BACKUPS).unwrap();
    // Another call has written half a backup. This call must not remove it.
    let other = fs.lock(&Path::new(BACKUPS).join("LOCK"), "another").unwrap();
    let half = Path::new(BACKUPS).join("backup-000002");
    fs.create_dir(&half).unwrap();
    refused(db.backup(BACKUPS), ErrorKind::Locked, &[BACKUPS, "try again"]);
    refused(Db::prune_backups_on(fs.clone(), BACKUPS, 1), ErrorKind::Locked, &[BACKUPS]);
    assert!(fs.exists(&half).unwrap());
    drop(other);
    assert_eq!(db.backup(BACKUPS).unwrap().number, 2);
}

#[test]
fn targets_inside_stores_and_backup_directories_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let db = Db::open(at("db"), options()).unwrap();
    fill(&db, 0);
    std::os::unix::fs::symlink(at("db"), at("link")).unwrap();
    std::fs::create_dir(at("db/sub")).unwrap();
    std::os::unix::fs::symlink(at("db/sub"), at("below")).unwrap();
    let kind = ErrorKind::InvalidArgument;
    let inside = ["inside a store", "name a directory outside"];
    for dir in ["db", "db/backups", "db/sub/backups", "link/backups", "below/b", "db/sub/../b"] {
        refused(db.backup(at(dir)), kind, &inside);
    }
    refused(db.checkpoint(at("db/copy")), kind, &inside);
    std::fs::remove_dir(at("db/sub")).unwrap();
    assert!(!at("db/backups").exists() && !at("db/b").exists());
    assert_eq!(db.backup(at("db/../backups")).unwrap().number, 1);
    for (dir, says) in
        [("db/new", "inside a store"), ("backups/new", "inside the backup directory")]
    {
        refused(Db::restore(at("backups"), None, at(dir), options()), kind, &[says]);
        assert!(!at(dir).exists());
    }
    let says = ["exists and holds 00", "CURRENT", "name a directory that does not exist"];
    refused(Db::restore(at("backups"), None, at("db"), options()), kind, &says);
    let says = ["not a backup directory", "link", "name a new or an empty directory"];
    refused(db.backup(root.path()), kind, &says);
    let says = ["there is no backup 7", "it holds backup 1"];
    refused(Db::restore(at("backups"), Some(7), at("new"), options()), ErrorKind::NotFound, &says);
    let says = ["there is no backup directory here"];
    refused(Db::restore(at("backup"), None, at("new"), options()), ErrorKind::NotFound, &says);
    db.close().unwrap();
}

#[test]
fn prune_keeps_newest_backups_and_their_shared_files() {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/data")).unwrap();
    let db = Db::open_on(fs.clone(), DB, options()).unwrap();
    let mut states = Vec::new();
    for round in 0..4 {
        fill(&db, round);
        db.backup(BACKUPS).unwrap();
        states.push(pairs(db.iter().unwrap()));
    }
    let prune = |keep| Db::prune_backups_on(fs.clone(), BACKUPS, keep);
    refused(prune(0), ErrorKind::InvalidArgument, &["backups 1 to 4", "keep at least 1"]);
    assert_eq!((prune(4).unwrap().removed, prune(9).unwrap().kept), (vec![], vec![1, 2, 3, 4]));
    let pruned = prune(2).unwrap();
    assert_eq!((pruned.removed, pruned.kept), (vec![1, 2], vec![3, 4]));
    assert_eq!(numbers(fs.clone(), BACKUPS), [3, 4]);
    for number in [3, 4] {
        let path = format!("{BACKUPS}/backup-{number:06}");
        assert_eq!(held(fs.clone(), &path), states[number - 1]);
    }
    assert_eq!(db.backup(BACKUPS).unwrap().number, 5);
    // A file that belongs to no backup is not removed with a backup.
    fs.create_new(&Path::new(BACKUPS).join("backup-000003/notes")).unwrap();
    refused(
        prune(2),
        ErrorKind::InvalidArgument,
        &["backup-000003", "notes", "move these entries"],
    );
    assert_eq!(held(fs.clone(), &format!("{BACKUPS}/backup-000003")), states[2]);
    let missing = Db::prune_backups_on(fs.clone(), "/data/none", 1);
    refused(missing, ErrorKind::NotFound, &["/data/none"]);
    refused(Db::prune_backups_on(fs, DB, 1), ErrorKind::InvalidArgument, &[".sst", "more"]);
}

#[test]
fn power_cut_during_prune_leaves_complete_or_removed_backups() {
    let disk = disk();
    let db = Db::open_on(disk.clone(), DB, options()).unwrap();
    let mut states = Vec::new();
    for round in 0..3 {
        fill(&db, round);
        db.backup(BACKUPS).unwrap();
        states.push(pairs(db.iter().unwrap()));
    }
    let work = || drop(Db::prune_backups_on(disk.clone(), BACKUPS, 1).unwrap());
    at_every_cut(&disk, work, move |image| {
        let left = numbers(image.clone(), BACKUPS);
        assert_eq!(left.last(), Some(&3));
        for number in left {
            let path = format!("{BACKUPS}/backup-{number:06}");
            assert_eq!(held(image.clone(), &path), states[number as usize - 1]);
        }
        assert_eq!(Db::prune_backups_on(image.clone(), BACKUPS, 1).unwrap().kept, [3]);
        let names: Vec<String> =
            image.list(Path::new(BACKUPS)).unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, ["LOCK", "backup-000003"]);
        let db = Db::open_on(image.clone(), DB, options()).unwrap();
        assert_eq!(db.backup(BACKUPS).unwrap().number, 4);
    });
    assert_eq!(numbers(disk.crash_image(CrashModel::SyncedOnly), BACKUPS), [3]);
}

#[test]
fn unreadable_backup_is_not_treated_as_incomplete() {
    let disk = disk();
    let fs = FaultFs::new(disk.clone());
    let db = Db::open_on(fs.clone(), DB, options()).unwrap();
    fill(&db, 0);
    let first = db.backup(BACKUPS).unwrap().path;
    let state = pairs(db.iter().unwrap());
    let list_fault = |nth| Fault::once(OpMask::of(&[Op::List]), nth, FaultKind::Io);
    for nth in 1.. {
        fs.arm(list_fault(nth));
        let made = db.backup(BACKUPS);
        fs.disarm();
        assert_eq!(held(disk.clone(), &first.display().to_string()), state, "listing {nth}");
        if fs.hits() == 0 {
            assert!(nth > 3);
            break;
        }
        assert!(made.is_err_and(|error| error.kind() == ErrorKind::Io), "listing {nth}");
    }
    fs.arm(list_fault(1).on("CURRENT"));
    let restored = Db::restore_on(fs.clone(), BACKUPS, None, COPY, options()).unwrap_err();
    assert_eq!(restored.kind(), ErrorKind::Io, "{restored}");
}

/// Runs `work` and calls `check` with crash images after each of its operations.
fn at_every_cut(
    disk: &Arc<CrashFs>,
    work: impl FnOnce(),
    check: impl Fn(&Arc<MemFs>) + Send + Sync + 'static,
) {
    let images = Arc::new(Mutex::new(0));
    let count = images.clone();
    disk.watch(move |disk| {
        let mut models = vec![CrashModel::SyncedOnly, CrashModel::Everything];
        models.push(CrashModel::NamesAhead);
        models.extend((0..2).map(|seed| CrashModel::Prefix { seed }));
        models.extend((0..2).map(|seed| CrashModel::Scattered { seed }));
        for model in models {
            check(&disk.crash_image(model));
            *count.lock() += 1;
        }
    });
    work();
    disk.unwatch();
    assert!(*images.lock() > 50, "{} images", images.lock());
}

#[test]
fn power_cut_during_backup_keeps_store_and_complete_backups() {
    let disk = disk();
    let db = Db::open_on(disk.clone(), DB, options()).unwrap();
    fill(&db, 0);
    db.backup(BACKUPS).unwrap();
    let first = pairs(db.iter().unwrap());
    fill(&db, 1);
    let second = pairs(db.iter().unwrap());
    db.flush().unwrap();
    let states = (first, second.clone());
    let work = || drop(db.backup(BACKUPS).unwrap());
    at_every_cut(&disk, work, move |image| {
        assert_eq!(held(image.clone(), DB), states.1);
        assert_eq!(held(image.clone(), &format!("{BACKUPS}/backup-000001")), states.0);
        let whole = Path::new(BACKUPS).join("backup-000002/CURRENT");
        if image.exists(&whole).unwrap() {
            assert_eq!(held(image.clone(), &format!("{BACKUPS}/backup-000002")), states.1);
        }
        // The next backup succeeds in spite of an incomplete one.
        let db = Db::open_on(image.clone(), DB, options()).unwrap();
        let made = db.backup(BACKUPS).unwrap();
        assert_eq!(held(image.clone(), &made.path.display().to_string()), states.1);
    });
    let image = disk.crash_image(CrashModel::SyncedOnly);
    assert_eq!(held(image, &format!("{BACKUPS}/backup-000002")), second);
}

#[test]
fn power_cut_during_restore_or_checkpoint_leaves_complete_store_or_none() {
    let disk = disk();
    let db = Db::open_on(disk.clone(), DB, options()).unwrap();
    fill(&db, 0);
    db.backup(BACKUPS).unwrap();
    let state = pairs(db.iter().unwrap());
    let whole_or_none = |state: Pairs| {
        move |image: &Arc<MemFs>| {
            assert_eq!(held(image.clone(), DB), state);
            if image.exists(&Path::new(COPY).join("CURRENT")).unwrap() {
                assert_eq!(held(image.clone(), COPY), state);
            }
        }
    };
    let restore = || {
        Db::restore_on(disk.clone(), BACKUPS, None, COPY, options()).unwrap();
    };
    at_every_cut(&disk, restore, whole_or_none(state.clone()));
    assert_eq!(held(disk.crash_image(CrashModel::SyncedOnly), COPY), state);
    Db::destroy_on(disk.clone(), COPY).unwrap();
    assert!(
        !disk.exists(Path::new(COPY)).unwrap(),
        "a store that was never opened was not removed"
    );
    disk.sync_dir(Path::new("/data")).unwrap();
    at_every_cut(&disk, || db.checkpoint(COPY).unwrap(), whole_or_none(state.clone()));
    assert_eq!(held(disk.crash_image(CrashModel::SyncedOnly), COPY), state);
}

#[test]
fn power_cut_during_destroy_leaves_complete_store_or_none() {
    let disk = disk();
    let db = Db::open_on(disk.clone(), DB, options()).unwrap();
    fill(&db, 0);
    let state = pairs(db.iter().unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    at_every_cut(
        &disk,
        || Db::destroy_on(disk.clone(), DB).unwrap(),
        move |image| {
            if image.exists(&Path::new(DB).join("CURRENT")).unwrap() {
                assert_eq!(held(image.clone(), DB), state);
            }
        },
    );
}
