//! Compaction filters: what they are asked about, what their answers do, and their panics.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{pairs, tiny_options};
use esker::fs::MemFs;
use esker::{
    CompactionFilter, Db, FilterDecision, KeyspaceOptions, Options, built_in_merge_operator,
};

/// Removes pairs with the value "remove", marks those with "mark", and panics at "panic".
#[derive(Default)]
struct ByValue {
    asked: Mutex<Vec<(usize, Vec<u8>)>>,
    is_off: AtomicBool,
    calls: AtomicU64,
}

impl CompactionFilter for ByValue {
    fn name(&self) -> &str {
        "test.ByValue"
    }
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        self.calls.fetch_add(1, Relaxed);
        self.asked.lock().unwrap().push((level, key.to_vec()));
        match value {
            _ if self.is_off.load(Relaxed) => FilterDecision::Keep,
            b"remove" => FilterDecision::Remove,
            b"mark" => FilterDecision::Replace(b"marked".to_vec()),
            b"panic" => panic!("as told"),
            _ => FilterDecision::Keep,
        }
    }
}

fn by_hand(filter: &Arc<ByValue>) -> Options {
    Options {
        background_threads: Some(0),
        compaction_filter: Some(filter.clone()),
        compaction_filters: vec![filter.clone()],
        merge_operator: built_in_merge_operator("append"),
        ..tiny_options()
    }
}

fn open(options: Options) -> Db {
    Db::open_on(MemFs::new(), Path::new("/db"), options).unwrap()
}

fn text(pairs: Vec<(Vec<u8>, Vec<u8>)>) -> String {
    let pairs = pairs.into_iter().map(|(key, value)| [key, value].join(&b'='));
    String::from_utf8(pairs.collect::<Vec<_>>().join(&b' ')).unwrap()
}

#[test]
fn pairs_are_kept_removed_and_replaced_in_every_keyspace() {
    let filter = Arc::new(ByValue::default());
    let db = open(by_hand(&filter));
    let own = KeyspaceOptions::default().compaction_filter("test.ByValue");
    let own = db.keyspace("own", &own).unwrap();
    let plain = db.keyspace("plain", &KeyspaceOptions::default()).unwrap();
    let spaces = [db.keyspace("default", &KeyspaceOptions::default()).unwrap(), own, plain];
    for space in &spaces {
        for (key, value) in [("a", "keep"), ("b", "remove"), ("c", "mark")] {
            space.put(key, value).unwrap();
        }
        space.put_with_ttl("d", "mark", Duration::from_secs(3600)).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(filter.calls.load(Relaxed), 0, "a flush asks no filter");
    db.compact_all().unwrap();
    let [main, own, plain] = &spaces;
    assert_eq!(text(pairs(main.iter().unwrap())), "a=keep c=marked d=marked");
    assert_eq!(text(pairs(own.iter().unwrap())), "a=keep c=marked d=marked");
    assert_eq!(text(pairs(plain.iter().unwrap())), "a=keep b=remove c=mark d=mark");
    // The time at which the pair expires stays.
    assert!(main.get_with_expiry("d").unwrap().unwrap().1.is_some());
    assert_eq!(db.metrics().filtered, 6);
    assert!(filter.asked.lock().unwrap().iter().all(|(level, key)| *level > 0 && key.len() == 1));
}

#[test]
fn a_pair_that_a_snapshot_sees_is_not_shown_to_the_filter() {
    let filter = Arc::new(ByValue::default());
    let db = open(by_hand(&filter));
    db.put("old", "remove").unwrap();
    let snapshot = db.snapshot();
    db.put("new", "remove").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(text(pairs(db.iter().unwrap())), "old=remove");
    assert_eq!(&*snapshot.get("old").unwrap().unwrap(), b"remove");
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    assert_eq!(text(pairs(db.iter().unwrap())), "");
}

#[test]
fn a_removal_hides_older_versions_below() {
    let filter = Arc::new(ByValue::default());
    filter.is_off.store(true, Relaxed);
    let options = Options { auto_compaction: false, ..by_hand(&filter) };
    let db = open(options);
    db.put("k", "old").unwrap();
    db.put("l", "old").unwrap();
    db.compact_range(None, None).unwrap();
    let snapshot = db.snapshot();
    db.put("k", "remove").unwrap();
    filter.is_off.store(false, Relaxed);
    db.compact_range(None, None).unwrap();
    assert!(db.get("k").unwrap().is_none());
    assert_eq!(&*snapshot.get("k").unwrap().unwrap(), b"old");
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    assert_eq!(text(pairs(db.iter().unwrap())), "l=old");
}

#[test]
fn only_merged_values_are_shown() {
    let filter = Arc::new(ByValue::default());
    let db = open(by_hand(&filter));
    db.put("k", "rem").unwrap();
    db.merge("k", "ove").unwrap();
    db.compact_range(None, None).unwrap();
    assert!(db.get("k").unwrap().is_none());
}

#[test]
fn a_panic_keeps_the_pair_and_ends_no_thread() {
    let filter = Arc::new(ByValue::default());
    let db = open(Options { background_threads: Some(1), ..by_hand(&filter) });
    for (key, value) in [("a", "remove"), ("b", "panic"), ("c", "remove")] {
        db.put(key, value).unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert!(db.get("b").unwrap().is_some());
    let metrics = db.metrics();
    assert!(metrics.callback_problems > 0);
    let problem = metrics.callback_problem.unwrap();
    assert!(problem.contains("test.ByValue") && problem.contains("as told"), "{problem}");
    // The filter is asked again by the next compaction.
    db.put("b", "keep").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(text(pairs(db.iter().unwrap())), "b=keep");
}

#[test]
fn a_keyspace_without_its_filter_keeps_every_pair() {
    let (fs, filter) = (MemFs::new(), Arc::new(ByValue::default()));
    let db = Db::open_on(fs.clone(), Path::new("/db"), by_hand(&filter)).unwrap();
    let with = KeyspaceOptions::default().compaction_filter("test.ByValue");
    db.keyspace("own", &with).unwrap().put("k", "remove").unwrap();
    drop(db);
    let without = Options { background_threads: Some(0), ..tiny_options() };
    let db = Db::open_on(fs, Path::new("/db"), without).unwrap();
    db.compact_all().unwrap();
    let own = db.existing_keyspace("own").unwrap().unwrap();
    assert_eq!(text(pairs(own.iter().unwrap())), "k=remove");
}

/// Makes a filter of each compaction, which removes all pairs but the first one.
#[derive(Default)]
struct PerCompaction {
    made: AtomicU64,
}

/// The filter of a compaction.
struct KeepsFirst {
    asked: AtomicU64,
}

impl CompactionFilter for PerCompaction {
    fn name(&self) -> &str {
        "test.PerCompaction"
    }
    fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
        panic!("the filter of the compaction is asked instead")
    }
    fn for_compaction(&self) -> Option<Arc<dyn CompactionFilter>> {
        self.made.fetch_add(1, Relaxed);
        Some(Arc::new(KeepsFirst { asked: AtomicU64::new(0) }))
    }
}

impl CompactionFilter for KeepsFirst {
    fn name(&self) -> &str {
        "test.KeepsFirst"
    }
    fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
        match self.asked.fetch_add(1, Relaxed) {
            0 => FilterDecision::Keep,
            _ => FilterDecision::Remove,
        }
    }
}

#[test]
fn a_filter_may_be_made_for_each_compaction() {
    let filter = Arc::new(PerCompaction::default());
    let options = Options { compaction_filter: Some(filter.clone()), ..tiny_options() };
    let db = open(Options { background_threads: Some(0), auto_compaction: false, ..options });
    for key in ["a", "b", "c"] {
        db.put(key, "1").unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert_eq!(text(pairs(db.iter().unwrap())), "a=1");
    db.put("b", "2").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(text(pairs(db.iter().unwrap())), "a=1");
    assert_eq!(filter.made.load(Relaxed), 2);
    assert!(db.metrics().callback_problem.is_none());
}
