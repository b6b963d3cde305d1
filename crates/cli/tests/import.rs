//! Tests of `esker import`, on stores created by LevelDB and RocksDB themselves. Without these
//! engines, the command must say so.

mod common;

use common::TestDir;
use esker_lab::LabErrorKind;
use esker_lab::target::StoreOptions;
use esker_peers::engine_named;

/// Creates a LevelDB store in `ldb`: 20,000 pairs, some overwritten, some deleted, some in its log.
/// Returns `false` if LevelDB is not installed.
fn leveldb_store(dir: &TestDir) -> bool {
    let engine = match engine_named("leveldb", None) {
        Ok(engine) => engine,
        Err(error) => {
            assert_eq!(error.kind(), LabErrorKind::NotInstalled);
            return false;
        }
    };
    let options = StoreOptions { memtable_bytes: 64 << 10, ..StoreOptions::default() };
    let store = engine.open(&dir.path("ldb"), &options).unwrap();
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
    let dir = TestDir::new();
    if !leveldb_store(&dir) {
        dir.file("CURRENT", "");
        dir.file("MANIFEST-000001", "");
        dir.fails(&["import", "leveldb", ".", "db"], 4, "not installed");
        eprintln!("left out: LevelDB is not installed");
        return;
    }
    let hint = format!("esker import leveldb {} NEW", dir.full_path("ldb").display());
    dir.fails(&["get", "ldb", "a"], 4, &hint);
    let out = dir.ok(&["import", "leveldb", "ldb", "db"]);
    assert!(out.starts_with("imported 19502 pairs"), "{out}");
    assert_eq!(dir.ok(&["get", "db", "key00000007"]), "\\x01\\x00\\x00\\x00".repeat(10) + "\n");
    assert_eq!(dir.ok(&["get", "db", ""]), "the empty key\n");
    dir.fails(&["get", "db", "key00000003"], 1, "not found");
    dir.ok(&["verify", "db"]);
    dir.fails(&["import", "leveldb", "ldb", "db"], 2, "`esker destroy db`");
    assert!(dir.ok(&["import", "leveldb", "ldb", "again", "--json"]).contains("\"pairs\":19502"));
}

#[test]
fn directory_without_leveldb_store_is_refused_unchanged() {
    let dir = TestDir::new();
    dir.ok(&["put", "ours", "k", "v"]);
    dir.fails(
        &["import", "leveldb", "ours", "db"],
        2,
        "this is an Esker store, not a LevelDB directory",
    );
    dir.fails(&["import", "leveldb", "nowhere", "db"], 4, "cannot list");
    assert!(!dir.path("db").exists());
    dir.file("CURRENT", "");
    dir.file("MANIFEST-000001", "");
    let ran = dir.run(&["import", "leveldb", ".", "db", "--library", "./no.so"]);
    assert!(ran.code == 4 && ran.err.contains("cannot load"), "{}", ran.err);
    assert!(!dir.path("db").exists());
}

#[test]
fn rocksdb_store_is_copied_and_verified() {
    let dir = TestDir::new();
    let engine = match engine_named("rocksdb", None) {
        Ok(engine) => engine,
        Err(error) => {
            assert_eq!(error.kind(), LabErrorKind::NotInstalled);
            dir.file("CURRENT", "");
            dir.file("OPTIONS-000001", "");
            dir.fails(&["import", "rocksdb", ".", "db"], 4, "not installed");
            assert!(!dir.path("db").exists());
            eprintln!("left out: RocksDB is not installed");
            return;
        }
    };
    let options = StoreOptions { memtable_bytes: 64 << 10, ..StoreOptions::default() };
    let store = engine.open(&dir.path("rocks"), &options).unwrap();
    for number in 0..5_000u32 {
        let key = format!("key{number:08}");
        store.put(key.as_bytes(), &number.to_le_bytes().repeat(10), false).unwrap();
    }
    store.delete(b"key00000003").unwrap();
    store.put(b"", b"the empty key", true).unwrap();
    store.close().unwrap();
    let hint = format!("esker import rocksdb {} NEW", dir.full_path("rocks").display());
    dir.fails(&["get", "rocks", "a"], 4, &hint);
    let out = dir.ok(&["import", "rocksdb", "rocks", "db"]);
    assert!(out.starts_with("imported 5000 pairs"), "{out}");
    assert_eq!(dir.ok(&["get", "db", "key00000007"]), "\\x07\\x00\\x00\\x00".repeat(10) + "\n");
    assert_eq!(dir.ok(&["get", "db", ""]), "the empty key\n");
    dir.fails(&["get", "db", "key00000003"], 1, "not found");
    let json = dir.ok(&["import", "rocksdb", "rocks", "again", "--json"]);
    assert!(json.contains("\"name\":\"default\""), "{json}");
    dir.fails(&["import", "leveldb", "rocks", "third"], 2, "not a LevelDB directory");
}
