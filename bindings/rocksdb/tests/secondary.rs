//! Secondary instances: the same answers from Esker's library and from RocksDB's, where one is
//! installed.

mod calls;

use calls::{Api, Scan, Store, kind};
use esker_rocksdb as _;

const NAMES: &[&str] = &["default", "one"];

/// Runs the calls on a library and returns every answer.
fn answers(api: Api) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let (path, own) = (dir.path().join("db"), dir.path().join("secondary"));
    let primary = Store::open(api, &path, NAMES).unwrap();
    let mut seen = Vec::new();
    primary.set(0, b"a", Some(b"1")).unwrap();
    primary.set(1, b"b", Some(b"1")).unwrap();
    primary.merge(1, b"sum", &1u64.to_le_bytes()).unwrap();
    let secondary = Store::open_secondary(api, &path, &own, NAMES).unwrap();
    let mut look = |what: &str| {
        let gets = [secondary.get(0, b"a"), secondary.get(1, b"b"), secondary.get(1, b"sum")];
        let scan = secondary.all(1);
        seen.push(format!("{what}: {gets:?} {scan:?}"));
    };
    look("opened");
    primary.set(0, b"a", Some(b"2")).unwrap();
    primary.set(1, b"b", None).unwrap();
    primary.merge(1, b"sum", &2u64.to_le_bytes()).unwrap();
    look("before the catch-up");
    // An iterator stays as it is, also through a catch-up and a flush of the primary.
    let kept = secondary.scan(0, &Scan::default(), |iter| {
        iter.first();
        secondary.catch_up().unwrap();
        primary.flush().unwrap();
        secondary.catch_up().unwrap();
        iter.pair()
    });
    look("after it");
    seen.push(format!("kept: {kept:?}"));
    let refused = secondary.set(0, b"x", Some(b"1")).unwrap_err();
    seen.push(format!("write: {}", kind(&refused)));
    // SAFETY: an open store, whose snapshot is released.
    unsafe {
        let snapshot = (api.rocksdb_create_snapshot)(secondary.db);
        (api.rocksdb_readoptions_set_snapshot)(secondary.read, snapshot);
        seen.push(format!("snapshot: {} {:?}", snapshot.is_null(), secondary.get(0, b"a")));
        (api.rocksdb_readoptions_set_snapshot)(secondary.read, std::ptr::null_mut());
        (api.rocksdb_release_snapshot)(secondary.db, snapshot);
    }
    seen.push(format!("primary: {}", primary.catch_up().is_err()));
    drop(secondary);
    drop(primary);
    // Without a primary.
    let secondary = Store::open_secondary(api, &path, &own, NAMES).unwrap();
    secondary.catch_up().unwrap();
    seen.push(format!("alone: {:?}", secondary.get(0, b"a")));
    let missing = Store::open_secondary(api, &dir.path().join("none"), &own, NAMES);
    seen.push(format!("missing: {}", missing.is_err()));
    seen
}

#[test]
fn secondary_shows_newer_writes_after_a_catch_up() {
    let ours = answers(Api::esker());
    let expected = [
        "opened: [Ok(Some([49])), Ok(Some([49])), Ok(Some([1, 0, 0, 0, 0, 0, 0, 0]))]",
        "before the catch-up: [Ok(Some([49])), Ok(Some([49])), Ok(Some([1, 0, 0, 0, 0, 0, 0, 0]))]",
        "after it: [Ok(Some([50])), Ok(None), Ok(Some([3, 0, 0, 0, 0, 0, 0, 0]))]",
        "kept: Some(([97], [49]))",
    ];
    for (ours, expected) in ours.iter().zip(expected) {
        assert!(ours.starts_with(expected), "{ours}");
    }
    assert_eq!(
        ours[4..],
        [
            "write: Not implemented",
            "snapshot: false Ok(Some([50]))",
            "primary: true",
            "alone: Ok(Some([50]))",
            "missing: true"
        ]
    );
    let Some(library) = esker_peers::install::rocksdb_installed() else {
        eprintln!("skipped: the comparison with RocksDB, which is not installed");
        return;
    };
    let theirs = Api::load(&library.display().to_string()).unwrap();
    assert_eq!(ours, answers(theirs));
}
