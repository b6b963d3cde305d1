//! An open store whose path changes its meaning: after a change of working directory, or after its
//! directory was renamed or removed and another directory took its name.
//!
//! The working directory belongs to the whole process, so its test runs this program again with the
//! directory in `ESKER_PATHS`. These tests guard against past failures: after a `chdir` or a
//! rename, writes returned `Ok`, wrote into another store's directory and removed its logs.
//! Afterwards neither store could be opened.

use std::path::{Path, PathBuf};
use std::process::Command;

use esker::{Db, ErrorKind, Options, WriteOptions};

/// Returns options under which a few thousand puts create new logs, tables and manifests, and
/// reopen tables.
fn busy() -> Options {
    Options {
        memtable_size_bytes: Some(64 << 10),
        file_size_max_bytes: 16 << 10,
        guard_piece_min_bytes: 8 << 10,
        guard_size_max_bytes: 64 << 10,
        manifest_size_min_bytes: 4 << 10,
        open_files_max: 10,
        background_threads: Some(1),
        ..Options::default()
    }
}

const PAIRS: u32 = 20_000;

fn fill(db: &Db, value: &str) {
    for i in 0..PAIRS {
        db.put(i.wrapping_mul(0x9E37_79B1).to_be_bytes(), format!("{value} {i}")).unwrap();
    }
}

/// Checks that the store in `dir` opens, is intact and holds the pairs of [`fill`].
fn check(dir: &Path, value: &str) {
    let db = Db::open(dir, busy()).unwrap();
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    for i in 0..PAIRS {
        let found = db.get(i.wrapping_mul(0x9E37_79B1).to_be_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(format!("{value} {i}").as_bytes()));
    }
    assert_eq!(db.iter().unwrap().count() as u32, PAIRS);
    db.close().unwrap();
}

/// Makes `db` create and remove every kind of file.
fn use_wholly(db: &Db, value: &str) {
    fill(db, value);
    db.flush().unwrap();
    fill(db, value);
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.iter().unwrap().count() as u32, PAIRS);
    db.put_with("tail", "x", &WriteOptions::SYNC).unwrap();
    db.delete("tail").unwrap();
}

/// Returns the sorted names in `dir`.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn inside() {
    let Ok(root) = std::env::var("ESKER_PATHS") else { return };
    let root = PathBuf::from(root);
    let (one, two) = (root.join("one"), root.join("two"));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&two).unwrap();
    std::env::set_current_dir(&two).unwrap();
    let other = Db::open("store", busy()).unwrap();
    fill(&other, "two");
    other.close().unwrap();
    let before = names(&two.join("store"));

    std::env::set_current_dir(&one).unwrap();
    let db = Db::open("store", busy()).unwrap();
    let reader = Db::open_read_only("store", busy()).unwrap();
    assert_eq!(db.path(), one.join("store"));
    std::env::set_current_dir(&two).unwrap();
    use_wholly(&db, "one");
    assert_eq!(names(&two.join("store")), before, "the other store was touched");
    assert_eq!(reader.iter().unwrap().count(), 0);
    // A path given now is relative to the current working directory.
    db.checkpoint("checkpoint").unwrap();
    assert_eq!(db.backup("backups").unwrap().path, two.join("backups/backup-000001"));
    // The lock belongs to the store, whatever path names it.
    assert_eq!(Db::open("../one/store", busy()).unwrap_err().kind(), ErrorKind::Locked);
    db.close().unwrap();
    Db::restore("backups", None, "restored", busy()).unwrap();
    for (dir, value) in [
        (one.join("store"), "one"),
        (two.join("store"), "two"),
        (two.join("checkpoint"), "one"),
        (two.join("restored"), "one"),
    ] {
        check(&dir, value);
    }

    // A removed working directory has no paths.
    let gone = root.join("gone");
    std::fs::create_dir(&gone).unwrap();
    std::env::set_current_dir(&gone).unwrap();
    std::fs::remove_dir(&gone).unwrap();
    let error = Db::open("store", busy()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    std::env::set_current_dir(&root).unwrap();
}

#[test]
fn store_survives_chdir_of_process() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "inside", "--nocapture"]).env("ESKER_PATHS", &root);
    let ran = child.output().unwrap();
    let output =
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && output.contains("1 passed"), "{output}");
}

// The portable half pins no directory, so a rename of the directory redirects its store.
#[cfg(all(target_os = "linux", not(esker_portable)))]
#[test]
fn store_follows_rename_of_its_directory() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    let first = Db::open(&old, busy()).unwrap();
    fill(&first, "before");
    std::fs::rename(&old, &new).unwrap();
    let second = Db::open(&old, busy()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| use_wholly(&first, "first"));
        scope.spawn(|| use_wholly(&second, "second"));
    });
    // Both stores are locked under their current names, and the moved store creates nothing at its
    // old path.
    for dir in [&old, &new] {
        assert_eq!(Db::open(dir, busy()).unwrap_err().kind(), ErrorKind::Locked);
    }
    for dir in [old.clone(), old.join("inside")] {
        let refused = [first.checkpoint(&dir).err(), first.backup(&dir).err()];
        for error in refused.map(Option::unwrap) {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.to_string().contains("was moved or removed"), "{error}");
        }
    }
    let copy = root.path().join("copy");
    first.checkpoint(&copy).unwrap();
    let backups = root.path().join("backups");
    first.backup(&backups).unwrap();
    let backup = Db::backups(&backups).unwrap().remove(0);
    assert_eq!(backup.store_path, Some(new.canonicalize().unwrap()));
    let lasting = first.iter().unwrap();
    first.close().unwrap();
    second.close().unwrap();
    for (dir, value) in [(&new, "first"), (&old, "second"), (&copy, "first")] {
        check(dir, value);
    }
    // An iterator keeps the directory open but not locked.
    assert_eq!(lasting.count() as u32, PAIRS);
}

// Without a pinned directory, a store writes to any new directory of the same name.
#[cfg(all(target_os = "linux", not(esker_portable)))]
#[test]
fn removed_store_directory_is_an_error_and_creates_nothing() {
    for another in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("store");
        let db = Db::open(&dir, busy()).unwrap();
        db.put("some", "thing").unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        if another {
            let db = Db::open(&dir, busy()).unwrap();
            fill(&db, "another");
            db.close().unwrap();
        }
        let before = another.then(|| names(&dir));
        let failed = (0..PAIRS).find_map(|i| db.put(i.to_be_bytes(), [0; 100]).err());
        for error in [failed, db.flush().err(), db.compact_range(None, None).err()] {
            let error = error.expect("a write to a removed directory succeeded");
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            let expected = format!("the directory {} was removed", dir.display());
            assert!(error.to_string().contains(&expected), "{error}");
        }
        // Data in memory stays readable.
        assert_eq!(db.get("some").unwrap().as_deref(), Some(&b"thing"[..]));
        assert!(db.checkpoint(root.path().join("copy")).is_err());
        assert!(!root.path().join("copy").exists());
        assert!(db.close().is_err());
        match before {
            Some(before) => {
                assert_eq!(names(&dir), before);
                check(&dir, "another");
            }
            None => assert!(!dir.exists()),
        }
    }
}

/// Checks that a wrapper around the system's file system, as in the campaigns, passes the directory
/// on.
// The portable half pins no directory.
#[cfg(all(target_os = "linux", not(esker_portable)))]
#[test]
fn wrapped_file_system_is_pinned_too() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    let fs = esker_testkit::fault::FaultFs::new(esker::fs::OsFs::shared());
    let db = Db::open_on(fs, &old, busy()).unwrap();
    std::fs::rename(&old, &new).unwrap();
    use_wholly(&db, "moved");
    db.close().unwrap();
    assert!(!old.exists());
    check(&new, "moved");
}
