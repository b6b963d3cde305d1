//! Format versions: a store keeps its own until it is upgraded, through crashes and failures and in its
//! copies, and what only later versions have is refused by name.
//!
//! These tests guard against: a half upgrade; a store that an earlier release cannot open although
//! nobody upgraded it; a newer store that is reported as damaged, or changed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use esker::encryption::{EncryptedFs, MasterKey};
use esker::fs::{Fs, MemFs};
use esker::internals::{FormatVersion, checksum};
use esker::{Db, ErrorKind, Options, WriteOptions};
use esker_testkit::crash::{CrashFs, CrashModel};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, OpMask};

use crate::common::{files, image, pairs, tiny_options};

const DB: &str = "/db";

type Files = Vec<(String, Vec<u8>)>;

/// Values of more than 100 bytes from a reader are streamed ([`tiny_options`]).
fn options() -> Options {
    Options { background_threads: Some(0), ..tiny_options() }
}

fn of_version(format_version: u64) -> Options {
    Options { format_version, ..options() }
}

/// Returns the options of a release that knows version 1 only.
fn earlier_release() -> Options {
    let mut options = of_version(1);
    options.thresholds.newest_format = FormatVersion::OLDEST;
    options
}

fn open(fs: &Arc<dyn Fs>, options: Options) -> Db {
    Db::open_on(fs.clone(), DB, options).unwrap()
}

/// Creates a store of version 1 with tables, a log and a keyspace.
fn create(fs: &Arc<dyn Fs>) -> Db {
    let db = open(fs, of_version(1));
    let other = db.keyspace("other", &Default::default()).unwrap();
    for i in 0..60u32 {
        db.put(format!("key{i:03}"), vec![i as u8; 40]).unwrap();
        other.put(format!("{i}"), "x").unwrap();
    }
    db.flush().unwrap();
    db.delete_range("key010", "key020").unwrap();
    db.put_with("last", "of the log", &WriteOptions::SYNC).unwrap();
    db
}

fn version(db: &Db) -> u64 {
    db.metrics().format_version
}

type Content = Vec<(Vec<u8>, Vec<u8>)>;

fn content(db: &Db) -> (Content, Content) {
    let other = db.existing_keyspace("other").unwrap().unwrap();
    (pairs(db.iter().unwrap()), pairs(other.iter().unwrap()))
}

#[track_caller]
fn refused<T>(result: esker::Result<T>, kind: ErrorKind, says: &[&str]) {
    let error = result.err().expect("the operation is refused");
    assert_eq!(error.kind(), kind, "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
}

/// Gives both copies of `CURRENT` and the manifests another version, with valid checksums.
fn with_version(all: &Files, version: u32) -> Files {
    let mut all = all.clone();
    for (name, bytes) in &mut all {
        if name == "CURRENT" {
            for which in 0..2 {
                let slot = &mut bytes[which * 512..(which + 1) * 512];
                slot[8..12].copy_from_slice(&version.to_le_bytes());
                let sum = checksum(&slot[..504], which as u64);
                slot[504..].copy_from_slice(&sum.to_le_bytes());
            }
        } else if name.starts_with("manifest-") {
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            let sum = checksum(&bytes[..24], 0);
            bytes[24..32].copy_from_slice(&sum.to_le_bytes());
        }
    }
    all
}

#[test]
fn new_stores_have_the_newest_version_or_the_one_that_was_asked_for() {
    for (asked, expected) in [(options(), 2), (of_version(2), 2), (of_version(1), 1)] {
        let fs: Arc<dyn Fs> = MemFs::new();
        assert_eq!(version(&open(&fs, asked)), expected);
        // The option has no effect on an existing store.
        for other in 1..=2 {
            assert_eq!(version(&open(&fs, of_version(other))), expected);
        }
        let db = open(&fs, options());
        assert_eq!(u64::from(db.verify(&mut |_, _| {}).unwrap().format_version), expected);
    }
    for unknown in [0, 3] {
        let opened = Db::open_on(MemFs::new(), DB, of_version(unknown));
        refused(opened, ErrorKind::InvalidArgument, &["format_version", "1 to 2"]);
    }
}

#[test]
fn version_1_refuses_streamed_values_by_name_and_writes_nothing_of_them() {
    let memory = MemFs::new();
    let fs: Arc<dyn Fs> = memory.clone();
    let db = create(&fs);
    let other = db.existing_keyspace("other").unwrap().unwrap();
    let long = vec![7; 5_000];
    let before = (files(&*memory, Path::new(DB)), content(&db), db.metrics().last_seqno);
    let says =
        ["streamed values", "version 2", "version 1", "Db::upgrade_format(2)", "esker upgrade"];
    refused(db.put_reader("film", &long[..]), ErrorKind::Incompatible, &says);
    refused(other.put_reader("film", &long[..]), ErrorKind::Incompatible, &says);
    assert!(before == (files(&*memory, Path::new(DB)), content(&db), db.metrics().last_seqno));
    // What earlier releases can read is written.
    assert_eq!(db.put_reader("short", &long[..50]).unwrap(), 50);
    db.upgrade_format(2).unwrap();
    assert_eq!(db.put_reader("film", &long[..]).unwrap(), 5_000);
    assert_eq!(other.put_reader("film", &long[..]).unwrap(), 5_000);
    db.close().unwrap();
    let db = open(&fs, options());
    assert_eq!(db.get("film").unwrap().as_deref(), Some(&long[..]));
    assert_eq!(db.get("short").unwrap().as_deref(), Some(&long[..50]));
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}

#[test]
fn an_upgrade_changes_no_data_file_and_cannot_be_undone() {
    let memory = MemFs::new();
    let fs: Arc<dyn Fs> = memory.clone();
    let db = create(&fs);
    let data = || {
        let mut all = files(&*memory, Path::new(DB));
        all.retain(|(name, _)| name != "CURRENT" && !name.starts_with("manifest-"));
        all
    };
    let (before, want) = (data(), content(&db));
    refused(db.upgrade_format(3), ErrorKind::InvalidArgument, &["no format version 3", "1 to 2"]);
    refused(db.upgrade_format(0), ErrorKind::InvalidArgument, &["no format version 0"]);
    db.upgrade_format(1).unwrap();
    assert_eq!(version(&db), 1);
    let snapshot = db.snapshot();
    db.upgrade_format(2).unwrap();
    db.upgrade_format(2).unwrap();
    assert!(data() == before && content(&db) == want && version(&db) == 2);
    refused(db.upgrade_format(1), ErrorKind::InvalidArgument, &["cannot be lowered to 1", "dump"]);
    let reader = Db::open_read_only_on(fs.clone(), DB, options()).unwrap();
    assert_eq!(version(&reader), 2);
    refused(reader.upgrade_format(2), ErrorKind::ReadOnly, &["read-only"]);
    db.put("after", "it").unwrap();
    assert!(snapshot.get("after").unwrap().is_none());
    drop((snapshot, reader));
    let handle = db.clone();
    db.close().unwrap();
    refused(handle.upgrade_format(2), ErrorKind::Closed, &["closed"]);
}

#[test]
fn an_earlier_release_uses_what_was_not_upgraded_and_refuses_the_rest_unchanged() {
    let memory = MemFs::new();
    let fs: Arc<dyn Fs> = memory.clone();
    create(&fs).close().unwrap();
    let db = open(&fs, earlier_release());
    db.put("by the earlier release", "1").unwrap();
    db.compact_all().unwrap();
    db.close().unwrap();
    let db = open(&fs, options());
    let follower = Db::follow_on(fs.clone(), DB, options()).unwrap();
    assert_eq!(&*db.get("by the earlier release").unwrap().unwrap(), b"1");
    db.upgrade_format(2).unwrap();
    db.put("upgraded", "1").unwrap();
    follower.catch_up().unwrap();
    assert_eq!(version(&follower.db()), 2);
    assert!(follower.db().contains_key("upgraded").unwrap());
    drop(follower);
    db.close().unwrap();
    let upgraded = files(&*memory, Path::new(DB));
    // Also where `CURRENT` is damaged: the manifest says it, too.
    let mut damaged = upgraded.clone();
    let current = damaged.iter_mut().find(|(name, _)| name == "CURRENT").unwrap();
    current.1.iter_mut().for_each(|byte| *byte ^= 0x55);
    for all in [upgraded, damaged] {
        let memory = image(Path::new(DB), &all);
        let fs: Arc<dyn Fs> = memory.clone();
        let says = ["format version 2", "versions 1 to 1", "newer"];
        let kind = ErrorKind::Incompatible;
        refused(Db::open_on(fs.clone(), DB, earlier_release()), kind, &says);
        refused(Db::open_read_only_on(fs.clone(), DB, earlier_release()), kind, &says);
        refused(Db::follow_on(fs.clone(), DB, earlier_release()), kind, &says);
        refused(Db::repair_on(fs.clone(), DB, earlier_release()), kind, &says);
        assert!(files(&*memory, Path::new(DB)) == all, "a refused store was changed");
    }
}

#[test]
fn a_version_of_the_future_is_newer_and_not_damaged() {
    let memory = MemFs::new();
    let fs: Arc<dyn Fs> = memory.clone();
    create(&fs).close().unwrap();
    let follower = Db::follow_on(fs.clone(), DB, options()).unwrap();
    let all = files(&*memory, Path::new(DB));
    let newer = with_version(&all, 3);
    // A writer of a newer release upgrades the store that is followed.
    for (name, bytes) in newer.iter().filter(|(name, _)| name == "CURRENT") {
        fs.open_write(&Path::new(DB).join(name)).unwrap().write_at(bytes, 0).unwrap();
    }
    let says = ["format version 3", "versions 1 to 2", "newer"];
    refused(follower.catch_up(), ErrorKind::Incompatible, &says);
    assert!(follower.db().contains_key("last").unwrap());
    let mut without_pointer = newer.clone();
    without_pointer.iter_mut().find(|(name, _)| name == "CURRENT").unwrap().1[40] ^= 1;
    without_pointer.iter_mut().find(|(name, _)| name == "CURRENT").unwrap().1[552] ^= 1;
    for all in [newer, without_pointer] {
        let memory = image(Path::new(DB), &all);
        let fs: Arc<dyn Fs> = memory.clone();
        refused(Db::open_on(fs.clone(), DB, options()), ErrorKind::Incompatible, &says);
        refused(Db::repair_on(fs.clone(), DB, options()), ErrorKind::Incompatible, &says);
        refused(Db::destroy_on(fs.clone(), DB), ErrorKind::Incompatible, &says);
        assert!(files(&*memory, Path::new(DB)) == all, "a refused store was changed");
    }
}

#[test]
fn copies_and_repairs_keep_the_version() {
    for format in 1..=2 {
        let memory = MemFs::new();
        let fs: Arc<dyn Fs> = memory.clone();
        let db = create(&fs);
        db.upgrade_format(format).unwrap();
        let want = content(&db);
        db.checkpoint("/checkpoint").unwrap();
        db.fork("/fork").unwrap();
        db.backup("/backups").unwrap();
        db.close().unwrap();
        Db::restore_on(fs.clone(), "/backups", None, "/restored", options()).unwrap();
        Db::repair_on(fs.clone(), "/checkpoint", options()).unwrap();
        // Without `CURRENT` the manifest states the version.
        let all = files(&*memory, Path::new("/fork"));
        let mut lost = image(Path::new(DB), &all);
        lost.remove(&Path::new(DB).join("CURRENT")).unwrap();
        Db::repair_on(lost.clone(), DB, options()).unwrap();
        for path in [DB, "/checkpoint", "/fork", "/backups/backup-000001", "/restored"] {
            let db = Db::open_on(fs.clone(), path, options()).unwrap();
            assert_eq!(version(&db), u64::from(format), "{path}");
            assert!(content(&db) == want, "{path}");
        }
        assert_eq!(version(&Db::open_on(lost, DB, options()).unwrap()), u64::from(format));
        // Without a manifest the new store has room for all that the tables may have.
        lost = image(Path::new(DB), &all);
        for (name, _) in all.iter().filter(|(name, _)| name.starts_with("manifest-")) {
            lost.remove(&Path::new(DB).join(name)).unwrap();
        }
        lost.remove(&Path::new(DB).join("CURRENT")).unwrap();
        Db::repair_on(lost.clone(), DB, options()).unwrap();
        assert_eq!(version(&Db::open_on(lost, DB, options()).unwrap()), 2);
    }
}

/// Opens the remains of an upgrade, checks them, and returns their version.
fn check_remains(fs: Arc<dyn Fs>, want: &(Content, Content), what: &str) -> u64 {
    let db = Db::open_on(fs.clone(), DB, options()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let found = version(&db);
    assert!(content(&db) == *want, "{what}: the content differs");
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert!(report.is_whole(), "{what}: {:?}", report.problems);
    db.upgrade_format(2).unwrap_or_else(|e| panic!("{what}: {e}"));
    db.put("k", "v").unwrap();
    drop(db);
    let db = open(&fs, options());
    assert_eq!((version(&db), db.contains_key("k").unwrap()), (2, true), "{what}");
    found
}

#[test]
fn power_cut_during_an_upgrade_leaves_one_version_wholly() {
    for encrypted in [false, true] {
        let disk = CrashFs::seeded(3);
        let key = || MasterKey::from_bytes([9; 32]);
        let over = move |fs: Arc<dyn Fs>| match encrypted {
            true => EncryptedFs::new(fs, key()),
            false => fs,
        };
        let db = create(&over(disk.clone()));
        let want = Arc::new(content(&db));
        let seen = Arc::new([const { AtomicU64::new(0) }; 3]);
        let (count, expected) = (seen.clone(), want.clone());
        disk.watch(move |disk| {
            let cut = count[0].fetch_add(1, Relaxed);
            for model in CrashModel::all(cut) {
                let what = format!("cut {cut} ({})", model.name());
                let found = check_remains(over(disk.crash_image(model)), &expected, &what);
                count[found as usize].fetch_add(1, Relaxed);
            }
        });
        db.upgrade_format(2).unwrap();
        disk.unwatch();
        let [cuts, old, new] = [0, 1, 2].map(|at| seen[at].load(Relaxed));
        assert!(cuts >= 6 && old > 0 && new > 0, "{cuts} cuts: {old} old, {new} new");
        // What was acknowledged is durable.
        let found =
            check_remains(over(disk.crash_image(CrashModel::SyncedOnly)), &want, "after it");
        assert_eq!(found, 2);
    }
}

#[test]
fn every_failed_operation_of_an_upgrade_leaves_one_version_wholly() {
    for kind in [FaultKind::Io, FaultKind::NoSpace] {
        let mut outcomes = [0; 3];
        for nth in 1.. {
            let disk = MemFs::new();
            let fs = FaultFs::new(disk.clone());
            let shared: Arc<dyn Fs> = fs.clone();
            let db = create(&shared);
            let want = content(&db);
            fs.arm(Fault::once(OpMask::ALL, nth, kind));
            let upgraded = db.upgrade_format(2);
            fs.disarm();
            let what = format!("{kind:?} of operation {nth}");
            if fs.hits() == 0 {
                upgraded.unwrap();
                break;
            }
            assert!(content(&db) == want, "{what}: readers continue");
            if kind == FaultKind::NoSpace && upgraded.is_err() && db.put("k", "v").is_ok() {
                // The call can be repeated, or says that the store must be opened again.
                let again = db.upgrade_format(2);
                let kinds = again.as_ref().err().map(|error| error.kind());
                assert!(matches!(kinds, None | Some(ErrorKind::ReadOnly)), "{what}: {again:?}");
                db.delete("k").unwrap();
            }
            drop(db);
            let found = check_remains(disk, &want, &what);
            assert!(upgraded.is_err() || found == 2, "{what}: acknowledged and lost");
            outcomes[found as usize] += 1;
        }
        assert!(outcomes[1] > 2 && outcomes[2] > 0, "{kind:?}: {outcomes:?}");
    }
}
