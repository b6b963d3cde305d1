//! Key orders in which different bytes are one key, many range deletes, and misuse of options.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::{Arc, Mutex, Weak};

use crate::common::{NoCase, pairs, tiny_options};
use esker::fs::MemFs;
use esker::{Comparator, Db, ErrorKind, KeyOrder, Options, ReadOptions};

#[test]
fn excluded_bounds_exclude_keys_that_compare_equal() {
    let options = Options { key_order: KeyOrder::Custom(Arc::new(NoCase)), ..tiny_options() };
    let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
    ["A", "b", "C"].iter().for_each(|key| db.put(key, "value").unwrap());
    let keys = |bounds: (Bound<&str>, Bound<&str>)| -> Vec<Vec<u8>> {
        db.range::<&str>(bounds).unwrap().map(|pair| pair.unwrap().0).collect()
    };
    assert_eq!(keys((Bound::Excluded("a"), Bound::Unbounded)), [b"b", b"C"]);
    let backward = db.range::<&str>((Bound::Unbounded, Bound::Excluded("c"))).unwrap().rev();
    let backward: Vec<Vec<u8>> = backward.map(|pair| pair.unwrap().0).collect();
    assert_eq!(backward, [b"b", b"A"]);
}

#[test]
fn keys_that_compare_equal_are_one_key_in_memtables_and_tables() {
    for bits in [0.0, 10.0] {
        let options = Options {
            key_order: KeyOrder::Custom(Arc::new(NoCase)),
            filter_bits_per_key: bits,
            ..tiny_options()
        };
        let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
        let value = |key: &str| db.get(key).unwrap().map(|v| v.to_vec());
        db.put("ABC", "1").unwrap();
        assert_eq!(value("abc"), Some(b"1".to_vec()));
        db.flush().unwrap();
        assert_eq!(value("abc"), Some(b"1".to_vec()));
        db.delete("abc").unwrap();
        db.flush().unwrap();
        assert_eq!(value("ABC"), None);
        db.put("aBc", "2").unwrap();
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        assert_eq!(value("Abc"), Some(b"2".to_vec()));
        assert_eq!(pairs(db.iter().unwrap()), [(b"aBc".to_vec(), b"2".to_vec())]);
    }
}

/// An order that writes to its own store, once.
struct Writes(Mutex<Option<Weak<Db>>>, Mutex<Option<esker::Error>>);

impl Comparator for Writes {
    fn name(&self) -> &str {
        "test.writes"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let db = self.0.lock().unwrap().take();
        if let Some(db) = db.and_then(|db| db.upgrade()) {
            *self.1.lock().unwrap() = db.put("inner", "").err();
        }
        a.cmp(b)
    }
}

#[test]
fn write_from_comparator_within_write_is_refused() {
    let order = Arc::new(Writes(Mutex::new(None), Mutex::new(None)));
    let options = Options { key_order: KeyOrder::Custom(order.clone()), ..tiny_options() };
    let db = Arc::new(Db::open_on(MemFs::new(), "/db", options).unwrap());
    db.put("a", "1").unwrap();
    *order.0.lock().unwrap() = Some(Arc::downgrade(&db));
    db.put("b", "2").unwrap();
    let refused = order.1.lock().unwrap().take().expect("the inner write went through");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    db.put("c", "3").unwrap();
    assert_eq!(pairs(db.iter().unwrap()).len(), 3);
}

#[test]
fn queue_trimmed_by_range_deletes_stays_small() {
    let db = Db::open_on(MemFs::new(), "/db", tiny_options()).unwrap();
    for i in 0..3_000u32 {
        db.put(format!("{i:06}"), "job").unwrap();
        db.delete_range("", format!("{i:06}")).unwrap();
        if i % 10 == 0 {
            assert!(db.get(format!("{i:06}")).unwrap().is_some());
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(pairs(db.iter().unwrap()).len(), 1);
    let bytes = db.metrics().table_bytes;
    assert!(bytes < 100_000, "{bytes} bytes of tables for one pair");
}

#[test]
fn concurrent_option_changes_are_all_kept() {
    let db = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
    let live = ["restart_interval", "runs_max", "l0_runs_max", "sync_every_ms"];
    for round in 2..80u32 {
        std::thread::scope(|scope| {
            for name in live {
                let db = &db;
                scope.spawn(move || db.set_options(&[(name, &round.to_string())]).unwrap());
            }
        });
        for name in live {
            assert_eq!(db.option(name).unwrap(), round.to_string(), "{name}");
        }
    }
}

#[test]
fn snapshot_of_other_store_is_refused() {
    let one = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
    let two = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
    let snapshot = one.snapshot();
    let options = ReadOptions::default().snapshot(Some(&snapshot)).fill_cache(true);
    let error = two.get_with("k", &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    one.get_with("k", &options).unwrap();
}

#[test]
fn ycsb_property_names_are_accepted() {
    let mut options = Options::default();
    for (name, value) in [
        ("leveldb.write_buffer_size", "2097152"),
        ("leveldb.max_file_size", "4194304"),
        ("leveldb.compression", "snappy"),
        ("leveldb.cache_size", "4194304"),
        ("leveldb.filter_bits", "10"),
        ("leveldb.block_size", "4096"),
        ("leveldb.block_restart_interval", "16"),
        ("esker.block_size_bytes", "8192"),
        ("debt_limit_bytes", "1TiB"),
    ] {
        options.set(name, value).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    assert_eq!(options.block_size_bytes, 8192);
}
