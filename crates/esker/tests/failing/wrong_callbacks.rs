//! Misbehaving components supplied by the caller: a filter that denies its keys, and an order that
//! reverses. A table is read back before the store accepts it, so neither loses data.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::common::{pairs, tiny_options};
use esker::fs::Fs;
use esker::fs::MemFs;
use esker::{Comparator, Db, ErrorKind, FilterPolicy, KeyOrder, Options};

/// A filter policy that passes every key or none.
struct Filter {
    denies: AtomicBool,
}

impl FilterPolicy for Filter {
    fn name(&self) -> &str {
        "test.filter"
    }
    fn create(&self, keys: &[&[u8]]) -> Vec<u8> {
        vec![keys.len() as u8]
    }
    fn may_contain(&self, _key: &[u8], filter: &[u8]) -> bool {
        assert_eq!(filter.len(), 1, "the filter is not the one that was built");
        !self.denies.load(Relaxed)
    }
}

fn by_hand() -> Options {
    Options { background_threads: Some(0), auto_compaction: false, ..tiny_options() }
}

#[test]
fn table_whose_filter_excludes_its_key_is_rejected() {
    let filter = Arc::new(Filter { denies: AtomicBool::new(true) });
    let options = Options { filter_policy: Some(filter.clone()), ..by_hand() };
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), "/db", options.clone()).unwrap();
    for i in 0..20 {
        db.put(format!("{i:02}"), "value").unwrap();
    }
    let error = db.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.message().contains("the filter excludes a key of the table"), "{error}");
    assert!(db.tables().is_empty());
    let left = fs.list("/db".as_ref()).unwrap();
    assert!(!left.iter().any(|entry| entry.name.ends_with(".sst")), "{left:?}");
    assert_eq!(&db.get("07").unwrap().unwrap(), "value", "the pair is missing from the memtable");
    drop(db);
    filter.denies.store(false, Relaxed);
    let db = Db::open_on(fs, "/db", options).unwrap();
    db.flush().unwrap();
    assert_eq!(pairs(db.iter().unwrap()).len(), 20);
    assert_eq!(&db.get("07").unwrap().unwrap(), "value");
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    filter.denies.store(true, Relaxed);
    let problems = db.verify(&mut |_, _| {}).unwrap().problems;
    assert!(problems[0].message().contains("the filter excludes"), "{problems:?}");
}

/// A bytewise order that can be reversed.
struct Reversible {
    reversed: AtomicBool,
}

impl Comparator for Reversible {
    fn name(&self) -> &str {
        "test.turning"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.reversed.load(Relaxed) { b.cmp(a) } else { a.cmp(b) }
    }
}

#[test]
fn verify_detects_table_out_of_order() {
    let order = Arc::new(Reversible { reversed: AtomicBool::new(false) });
    let key_order = KeyOrder::Custom(order.clone());
    let options = Options { key_order, block_size_bytes: 64 << 10, ..by_hand() };
    let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
    for i in 0..20 {
        db.put(format!("{i:02}"), "value").unwrap();
    }
    db.flush().unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    order.reversed.store(true, Relaxed);
    let problems = db.verify(&mut |_, _| {}).unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].kind(), ErrorKind::Corruption);
    assert_eq!(problems[0].message(), "entries are out of order");
    order.reversed.store(false, Relaxed);
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}
