//! Tests of `esker import`, on stores created by LevelDB and RocksDB themselves. Without these
//! engines, the command must say so.

mod common;
mod rocksdb_store;

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
    dir.ok(&["import", "leveldb", "ldb", "into", "--keyspace", "old"]);
    assert_eq!(dir.ok(&["get", "into", "", "--keyspace", "old"]), "the empty key\n");
    dir.fails(&["get", "into", ""], 1, "not found");
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

/// Column families with merge operands, deletions and a range tombstone, in tables and in the log.
#[test]
fn column_families_with_merge_operands_are_resolved() {
    let dir = TestDir::new();
    let Some(path) = rocksdb_store::installed() else {
        eprintln!("left out: RocksDB is not installed");
        return;
    };
    rocksdb_store::create(&path, &dir.path("rocks"));
    let out = dir.ok(&["import", "rocksdb", "rocks", "db"]);
    assert!(out.starts_with("imported 2301 pairs in 3 keyspaces"), "{out}");
    let get = |keyspace: &str, key: &str| dir.ok(&["get", "db", key, "--keyspace", keyspace]);
    // Each counter got 1 three times, the last time in the log alone.
    assert_eq!(get("counts", "key0007"), "\\x03\\x00\\x00\\x00\\x00\\x00\\x00\\x00\n");
    assert_eq!(get("default", "key0000"), "value 0\n");
    dir.fails(&["get", "db", "key0007"], 1, "not found");
    dir.fails(&["get", "db", "key0150"], 1, "not found");
    assert_eq!(get("plain", "k"), "v\n");
    dir.ok(&["verify", "db"]);
    dir.ok(&["import", "rocksdb", "rocks", "one", "--keyspace", "plain"]);
    assert_eq!(dir.ok(&["get", "one", "k", "--keyspace", "plain"]), "v\n");
    assert_eq!(dir.ok(&["keyspace", "list", "one"]).matches("counts").count(), 0);
    let missing = ["import", "rocksdb", "rocks", "two", "--keyspace", "none"];
    dir.fails(&missing, 2, "no column family \"none\"");
    assert!(!dir.path("two").exists());

    // Without its OPTIONS files the store has operands whose operator nobody knows.
    for entry in std::fs::read_dir(dir.path("rocks")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("OPTIONS") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    std::fs::write(dir.path("rocks").join("OPTIONS-000001"), "").unwrap();
    let import = ["import", "rocksdb", "rocks", "again"];
    dir.fails(&import, 4, "--merge-operator counts=NAME");
    assert!(!dir.path("again").exists());
    fn with<'a>(import: &[&'a str], operator: &'a str) -> Vec<&'a str> {
        [import, &["--merge-operator", operator]].concat()
    }
    dir.fails(&with(&import, "count=uint64add"), 2, "the store has default, counts, plain");
    // Some releases of RocksDB refuse an unknown operator, others open the store without one.
    let ran = dir.run(&with(&import, "counts=unheard"));
    assert!(ran.code != 0 && ran.err.contains("uint64add"), "{}", ran.err);
    dir.fails(&with(&import, "uint64add"), 2, "expected FAMILY=OPERATOR");
    let out = dir.ok(&with(&import, "counts=uint64add"));
    assert!(out.starts_with("imported 2301 pairs in 3 keyspaces"), "{out}");
}

/// The names of functions, a program, and a store.
#[test]
fn rocksdb_report_says_what_is_accepted_and_refused() {
    let dir = TestDir::new();
    let report = ["rocksdb-report", "--functions", "open", "rocksdb_options_set_use_fsync"];
    let out = dir.ok(&report);
    assert!(out.starts_with("1 done, 1 accepted without effect, 0 refused\n"), "{out}");
    assert!(out.contains("  rocksdb_options_set_use_fsync"), "{out}");
    let json = dir.run(&["rocksdb-report", "--json", "--functions", "sst_file_manager_x"]);
    assert_eq!(json.code, 1);
    assert!(json.out.contains("\"unknown\":[\"rocksdb_sst_file_manager_x\"]"), "{}", json.out);
    // The command itself calls no function of RocksDB's.
    let program = assert_cmd::cargo::cargo_bin!("esker").display().to_string();
    dir.fails(&["rocksdb-report", "--program", &program], 2, "calls no function of RocksDB");
    dir.file("text", "no program");
    dir.fails(&["rocksdb-report", "--program", "text"], 2, "expected an ELF program");
    dir.fails(&["rocksdb-report", "--program", "none"], 4, "cannot read");
    dir.fails(&["rocksdb-report", "text"], 2, "no store is here");
    dir.ok(&["put", "db", "k", "v"]);
    let out = dir.ok(&["rocksdb-report", "db"]);
    assert!(out.starts_with("0 done, 0 accepted"), "{out}");
    let log = dir.path("db").join("LOG");
    let text = std::fs::read_to_string(&log).unwrap();
    let line = "2026-01-01T00:00:00Z rocksdb: accepted without effect: rocksdb_options_set_use_fsync, \
                rocksdb_readoptions_set_readahead_size\n";
    std::fs::write(&log, text + line).unwrap();
    let out = dir.ok(&["rocksdb-report", "db"]);
    assert!(out.starts_with("0 done, 2 accepted without effect"), "{out}");
}
