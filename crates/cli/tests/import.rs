//! Tests of `esker import leveldb`, on stores created by LevelDB itself. Without an installed
//! LevelDB, the command must say so.

mod common;

use common::Place;
use esker_lab::LabErrorKind;
use esker_lab::target::StoreOptions;
use esker_peers::engine_named;

/// Creates a LevelDB store in `ldb`: 20,000 pairs, some overwritten, some deleted, some in its log.
/// Returns `false` if LevelDB is not installed.
fn leveldb_store(place: &Place) -> bool {
    let engine = match engine_named("leveldb", None) {
        Ok(engine) => engine,
        Err(error) => {
            assert_eq!(error.kind(), LabErrorKind::NotInstalled);
            return false;
        }
    };
    let options = StoreOptions { memtable_bytes: 64 << 10, ..StoreOptions::default() };
    let store = engine.open(&place.path("ldb"), &options).unwrap();
    for number in 0..20_000u32 {
        let key = format!("key{:08}", number * 7 % 20_000);
        store.put(key.as_bytes(), &number.to_le_bytes().repeat(10), false).unwrap();
    }
    for number in 0..500u32 {
        store.delete(format!("key{:08}", number * 3).as_bytes()).unwrap();
    }
    store.put(b"", b"the empty key", false).unwrap();
    store.put(b"\xff\x00", b"", true).unwrap();
    store.close().unwrap();
    true
}

#[test]
fn leveldb_store_is_copied_and_verified() {
    let place = Place::new();
    if !leveldb_store(&place) {
        place.file("CURRENT", "");
        place.file("MANIFEST-000001", "");
        place.fails(&["import", "leveldb", ".", "db"], 4, "not installed");
        eprintln!("left out: LevelDB is not installed");
        return;
    }
    let hint = format!("esker import leveldb {} NEW", place.full_path("ldb").display());
    place.fails(&["get", "ldb", "a"], 4, &hint);
    let out = place.ok(&["import", "leveldb", "ldb", "db"]);
    assert!(out.starts_with("imported 19502 pairs"), "{out}");
    assert_eq!(place.ok(&["get", "db", "key00000007"]), "\\x01\\x00\\x00\\x00".repeat(10) + "\n");
    assert_eq!(place.ok(&["get", "db", ""]), "the empty key\n");
    place.fails(&["get", "db", "key00000003"], 1, "not found");
    place.ok(&["verify", "db"]);
    place.fails(&["import", "leveldb", "ldb", "db"], 2, "`esker destroy db`");
    assert!(place.ok(&["import", "leveldb", "ldb", "again", "--json"]).contains("\"pairs\":19502"));
}

#[test]
fn directory_without_leveldb_store_is_refused_unchanged() {
    let place = Place::new();
    place.ok(&["put", "ours", "k", "v"]);
    place.fails(&["import", "leveldb", "ours", "db"], 2, "not a LevelDB directory");
    place.fails(&["import", "leveldb", "nowhere", "db"], 4, "cannot list");
    assert!(!place.path("db").exists());
    place.file("CURRENT", "");
    place.file("MANIFEST-000001", "");
    let ran = place.run(&["import", "leveldb", ".", "db", "--library", "./no.so"]);
    assert!(ran.code == 4 && ran.err.contains("cannot load"), "{}", ran.err);
    assert!(!place.path("db").exists());
}
