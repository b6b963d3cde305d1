//! Merge operators: what a store keeps of their names, what a missing, a failing and a panicking
//! one does, and what a repair keeps of operands.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::common::{pairs, tiny_options};
use esker::fs::{Fs, MemFs};
use esker::{
    Batch, BatchOp, Db, ErrorKind, KeyspaceOptions, MergeOperator, Options, ReadOptions,
    TransactionOptions, built_in_merge_operator,
};

/// Joins operands, unless it was told to fail or to panic.
#[derive(Default)]
struct Join {
    fails: AtomicBool,
    panics: AtomicBool,
}

impl MergeOperator for Join {
    fn name(&self) -> &str {
        "test.Join"
    }
    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        assert!(!self.panics.load(Relaxed), "as told");
        if self.fails.load(Relaxed) {
            return Err("it was told to fail".to_string());
        }
        out.extend_from_slice(existing.unwrap_or_default());
        out.extend_from_slice(&operands.concat());
        Ok(())
    }
    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        assert!(!self.panics.load(Relaxed), "as told");
        out.extend_from_slice(&operands.concat());
        !self.fails.load(Relaxed)
    }
    fn check_operand(&self, operand: &[u8]) -> Result<(), String> {
        if operand == b"bad" { Err("it is bad".to_string()) } else { Ok(()) }
    }
}

fn dir() -> &'static Path {
    Path::new("/db")
}

fn by_hand() -> Options {
    Options { background_threads: Some(0), auto_compaction: false, ..tiny_options() }
}

fn open(fs: &Arc<MemFs>, options: &Options) -> Db {
    Db::open_on(fs.clone(), dir(), options.clone()).unwrap()
}

fn text(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Returns the number of entries in tables.
fn entries(db: &Db) -> u64 {
    db.verify(&mut |_, _| {}).unwrap().entries
}

#[test]
fn a_store_without_an_operator_refuses_merges_and_changes_nothing() {
    let db = open(&MemFs::new(), &by_hand());
    let plain = db.keyspace("plain", &KeyspaceOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.put("a", "1").merge("b", "2");
    let mut in_keyspace = Batch::new();
    in_keyspace.put("a", "1").merge_in(&plain, "b", "2");
    let transaction = db.transaction(TransactionOptions::default());
    let errors = [
        db.merge("k", "1").unwrap_err(),
        plain.merge("k", "1").unwrap_err(),
        db.write(&batch).unwrap_err(),
        db.write(&in_keyspace).unwrap_err(),
        transaction.merge("k", "1").unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("has no merge operator"), "{error}");
    }
    drop(transaction);
    assert!(pairs(db.iter().unwrap()).is_empty() && pairs(plain.iter().unwrap()).is_empty());
    assert_eq!(db.metrics().last_seqno, 0);
}

#[test]
fn a_refused_operand_refuses_the_whole_batch() {
    let options = Options { merge_operator: Some(Arc::new(Join::default())), ..by_hand() };
    let db = open(&MemFs::new(), &options);
    let mut batch = Batch::new();
    batch.put("a", "1").merge("b", "good").merge("c", "bad");
    for error in [db.write(&batch).unwrap_err(), db.merge("c", "bad").unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("it is bad"), "{error}");
    }
    assert!(pairs(db.iter().unwrap()).is_empty());
}

#[test]
fn the_manifest_keeps_the_name_of_the_operator() {
    let fs = MemFs::new();
    let with =
        |operator: &str| Options { merge_operator: built_in_merge_operator(operator), ..by_hand() };
    let db = open(&fs, &with("add_i64"));
    db.merge("k", "40").unwrap();
    db.close().unwrap();
    // A built-in operator is found by its name.
    let db = open(&fs, &by_hand());
    db.merge("k", "2").unwrap();
    assert_eq!(text(&db, "k").unwrap(), "42");
    db.close().unwrap();
    for refused in [
        Db::open_on(fs.clone(), dir(), with("max")).map(drop),
        Db::open_read_only_on(fs.clone(), dir(), with("max")).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.message().contains("\"add_i64\"") && error.message().contains("\"max\""));
    }
    assert_eq!(text(&open(&fs, &with("add_i64")), "k").unwrap(), "42");
}

#[test]
fn a_store_that_had_no_operator_gets_one() {
    let fs = MemFs::new();
    let db = open(&fs, &by_hand());
    db.put("k", "5").unwrap();
    db.close().unwrap();
    let options = Options { merge_operator: built_in_merge_operator("add_u64"), ..by_hand() };
    let db = open(&fs, &options);
    db.merge("k", "6").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(text(&db, "k").unwrap(), "11");
    drop(db);
    assert_eq!(text(&open(&fs, &by_hand()), "k").unwrap(), "11");
}

#[test]
fn without_its_custom_operator_a_store_reads_what_needs_none_and_loses_nothing() {
    let fs = MemFs::new();
    let known = Options {
        merge_operator: Some(Arc::new(Join::default())),
        merge_operators: vec![Arc::new(Join::default())],
        ..by_hand()
    };
    let db = open(&fs, &known);
    let lists = KeyspaceOptions::default().merge_operator("test.Join");
    let own = db.keyspace("lists", &lists).unwrap();
    for (key, operand) in [("k", "b"), ("k", "c"), ("other", "d")] {
        db.merge(key, operand).unwrap();
        own.merge(key, operand).unwrap();
    }
    db.put("plain", "p").unwrap();
    db.close().unwrap();
    let db = open(&fs, &by_hand());
    let own = db.existing_keyspace("lists").unwrap().unwrap();
    assert_eq!(text(&db, "plain").unwrap(), "p");
    let mut iter = db.iter().unwrap();
    for error in [
        db.merge("k", "1").unwrap_err(),
        own.merge("k", "1").unwrap_err(),
        db.get("k").unwrap_err(),
        own.get("k").unwrap_err(),
        db.multi_get(&["plain", "k"]).unwrap_err(),
        iter.seek_to_first().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
        assert!(error.message().contains("test.Join"), "{error}");
    }
    assert!(!iter.valid());
    // Flushes and compactions keep the operands. A put hides them.
    db.compact_all().unwrap();
    db.put("other", "new").unwrap();
    db.compact_all().unwrap();
    assert_eq!(text(&db, "other").unwrap(), "new");
    db.close().unwrap();
    let db = open(&fs, &known);
    assert_eq!(text(&db, "k").unwrap(), "bc");
    let own = db.existing_keyspace("lists").unwrap().unwrap();
    assert_eq!(&*own.get("other").unwrap().unwrap(), b"d");
    db.compact_all().unwrap();
    assert_eq!(text(&db, "k").unwrap(), "bc");
}

#[test]
fn a_keyspace_keeps_its_settings_and_refuses_others() {
    let fs = MemFs::new();
    let db = open(&fs, &by_hand());
    let options = KeyspaceOptions::default().merge_operator("max").set("ttl_ms", "5000").unwrap();
    let own = db.keyspace("own", &options).unwrap();
    own.merge("k", "b").unwrap();
    own.merge("k", "a").unwrap();
    let want = [("merge_operator", "max"), ("ttl_ms", "5000")];
    let want = want.map(|(name, value)| (name.to_string(), value.to_string()));
    assert_eq!(own.options(), want);
    for other in [KeyspaceOptions::default(), KeyspaceOptions::default().merge_operator("max")] {
        let error = db.keyspace("own", &other).unwrap_err();
        assert!(error.message().contains("merge_operator=max, ttl_ms=5000"), "{error}");
    }
    let unknown = KeyspaceOptions::default().merge_operator("test.Gone");
    assert!(db.keyspace("new", &unknown).unwrap_err().message().contains("test.Gone"));
    let unknown = KeyspaceOptions::default().compaction_filter("test.Gone");
    assert!(db.keyspace("new", &unknown).unwrap_err().message().contains("test.Gone"));
    assert!(KeyspaceOptions::default().set("ttl_ms", "soon").is_err());
    assert!(db.keyspace("default", &options).is_err());
    assert_eq!(db.keyspaces(), ["default", "own"]);
    drop((own, db));
    let db = open(&fs, &by_hand());
    let own = db.keyspace("own", &options).unwrap();
    assert_eq!(own.options(), want);
    assert_eq!(&*own.get("k").unwrap().unwrap(), b"b");
}

#[test]
fn failures_and_panics_of_an_operator_are_errors_that_end_with_their_cause() {
    let join = Arc::new(Join::default());
    let options = Options { merge_operator: Some(join.clone()), ..by_hand() };
    let db = open(&MemFs::new(), &options);
    for (key, operand) in [("a", "1"), ("k", "1"), ("k", "2"), ("k", "3")] {
        db.merge(key, operand).unwrap();
    }
    db.put("z", "last").unwrap();
    let told: [(&AtomicBool, &str); 2] = [(&join.fails, "told to fail"), (&join.panics, "as told")];
    for (round, (flag, why)) in told.into_iter().enumerate() {
        flag.store(true, Relaxed);
        let transaction = db.transaction(TransactionOptions::default());
        transaction.merge("k", "own").unwrap();
        let mut iter = db.iter().unwrap();
        iter.seek("b").unwrap_err();
        for error in [
            db.get("k").unwrap_err(),
            db.read("k", |_| ()).unwrap_err(),
            db.remove("k").unwrap_err(),
            iter.seek_to_first().unwrap_err(),
            iter.seek_for_prev("kk").unwrap_err(),
            transaction.get("k").unwrap_err(),
            transaction.iter().unwrap().seek("k").unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.message().contains(why) && error.message().contains("test.Join"));
        }
        drop(transaction);
        iter.seek("l").unwrap();
        assert_eq!(iter.value(), b"last");
        // Flushes and compactions go on and keep the operands.
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        let metrics = db.metrics();
        assert!(metrics.callback_problems > round as u64, "{metrics:?}");
        assert!(metrics.callback_problem.unwrap().contains("test.Join"));
        db.put("after", "works").unwrap();
        flag.store(false, Relaxed);
        assert_eq!(text(&db, "k").unwrap(), "123");
    }
    db.compact_range(None, None).unwrap();
    assert_eq!(text(&db, "k").unwrap(), "123");
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}

#[test]
fn a_sum_that_does_not_fit_is_an_error_until_it_fits() {
    let options = Options { merge_operator: built_in_merge_operator("add_i64"), ..by_hand() };
    let db = open(&MemFs::new(), &options);
    db.put("k", i64::MAX.to_string()).unwrap();
    db.merge("k", "1").unwrap();
    for _ in 0..2 {
        assert!(db.get("k").unwrap_err().message().contains("does not fit"));
        db.compact_range(None, None).unwrap();
    }
    db.merge("k", "-1").unwrap();
    assert_eq!(text(&db, "k").unwrap(), i64::MAX.to_string());
    assert!(db.merge("k", "1.5").unwrap_err().message().contains("1.5"));
}

#[test]
fn a_merged_counter_is_a_plain_value_after_a_compaction() {
    let options = Options {
        merge_operator: built_in_merge_operator("add_i64"),
        memtable_size_bytes: Some(1 << 20),
        ..by_hand()
    };
    let db = open(&MemFs::new(), &options);
    for _ in 0..500 {
        db.merge("k", "2").unwrap();
    }
    db.flush().unwrap();
    assert_eq!(entries(&db), 1, "one combined operand");
    assert_eq!(db.metrics().long_chains, 1);
    let snapshot = db.snapshot();
    db.merge("k", "1").unwrap();
    db.compact_range(None, None).unwrap();
    // The snapshot's value and the newer one.
    assert_eq!(&*snapshot.get("k").unwrap().unwrap(), b"1000");
    assert_eq!(text(&db, "k").unwrap(), "1001");
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    assert_eq!(entries(&db), 1);
    assert_eq!(text(&db, "k").unwrap(), "1001");
}

#[test]
fn batches_tell_their_operations() {
    let ttl = std::time::Duration::from_millis(1_500);
    let mut batch = Batch::new();
    batch.merge("k", "1").put_with_ttl("e", "v", ttl).put("p", "v");
    let expected = [
        BatchOp::Merge { keyspace: 0, key: b"k", operand: b"1" },
        BatchOp::PutWithTtl { keyspace: 0, key: b"e", value: b"v", ttl },
        BatchOp::Put { keyspace: 0, key: b"p", value: b"v" },
    ];
    assert!(batch.operations().eq(expected));
    let mut twice = batch.clone();
    twice.append(&batch);
    assert!(twice.operations().eq(expected.iter().chain(&expected).copied()));
}

#[test]
fn a_repair_keeps_operands_and_expiring_pairs() {
    let fs = MemFs::new();
    let options = Options { merge_operator: Some(Arc::new(Join::default())), ..by_hand() };
    let db = open(&fs, &options);
    let hour = std::time::Duration::from_secs(3600);
    db.put("k", "a").unwrap();
    db.merge("k", "b").unwrap();
    db.flush().unwrap();
    db.merge("k", "c").unwrap();
    db.merge("new", "x").unwrap();
    db.put_with_ttl("hour", "v", hour).unwrap();
    db.flush().unwrap();
    db.merge("k", "d").unwrap();
    db.merge("new", "y").unwrap();
    let want = pairs(db.iter().unwrap());
    let time_ms = db.get_with_expiry("hour").unwrap().unwrap().1;
    db.close().unwrap();
    for round in 0..2 {
        // The repair has no operator.
        let report = Db::repair_on(fs.clone() as Arc<dyn Fs>, dir(), by_hand()).unwrap();
        assert!(report.lost.is_empty(), "{:?}", report.lost);
        assert_eq!(report.pairs, 3);
        let db = open(&fs, &options);
        assert_eq!(pairs(db.iter().unwrap()), want);
        assert_eq!(db.get_with_expiry("hour").unwrap().unwrap().1, time_ms);
        if round == 1 {
            db.merge("k", "e").unwrap();
            assert_eq!(text(&db, "k").unwrap(), "abcde");
            db.compact_range(None, None).unwrap();
            assert_eq!(text(&db, "k").unwrap(), "abcde");
        }
        db.close().unwrap();
    }
}

#[test]
fn a_long_chain_in_memory_is_read_again_from_its_kept_value() {
    let operator = built_in_merge_operator("append(,)");
    let options =
        Options { merge_operator: operator, memtable_size_bytes: Some(1 << 20), ..by_hand() };
    let db = open(&MemFs::new(), &options);
    let expected =
        |from: usize, to: usize| (from..to).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let mut snapshots = Vec::new();
    for n in 0..1_000 {
        db.merge("k", n.to_string()).unwrap();
        if n % 97 == 0 {
            snapshots.push((n + 1, db.snapshot()));
        }
        if n % 50 == 0 || n > 980 {
            assert_eq!(text(&db, "k").unwrap(), expected(0, n + 1));
        }
        if n == 600 {
            db.flush().unwrap();
        }
    }
    for (to, snapshot) in &snapshots {
        assert_eq!(&*snapshot.get("k").unwrap().unwrap(), expected(0, *to).as_bytes());
    }
    // A delete, a range delete and a put hide what was kept.
    let hides: [fn(&Db); 3] = [
        |db| db.delete("k").unwrap(),
        |db| db.delete_range("a", "z").unwrap(),
        |db| db.put("k", "base").unwrap(),
    ];
    for (round, hide) in hides.into_iter().enumerate() {
        hide(&db);
        for n in 0..200 {
            db.merge("k", n.to_string()).unwrap();
        }
        let base = if round == 2 { "base," } else { "" };
        for _ in 0..2 {
            assert_eq!(text(&db, "k").unwrap(), format!("{base}{}", expected(0, 200)));
        }
        db.delete_range("k", "l").unwrap();
        assert!(db.get("k").unwrap().is_none());
        db.merge("k", "x").unwrap();
        assert_eq!(text(&db, "k").unwrap(), "x");
    }
    // A value over one that expires is not kept.
    db.put_with_ttl("t", "base", std::time::Duration::from_millis(1)).unwrap();
    for n in 0..200 {
        db.merge("t", n.to_string()).unwrap();
    }
    while text(&db, "t").unwrap() != expected(0, 200) {
        std::thread::yield_now();
    }
}

#[test]
fn a_value_between_a_range_delete_and_a_snapshot_stays_below_its_operands() {
    let options = Options { merge_operator: built_in_merge_operator("append(,)"), ..by_hand() };
    let db = open(&MemFs::new(), &options);
    db.put("k", "older").unwrap();
    db.flush().unwrap();
    db.delete_range("a", "z").unwrap();
    db.put("k", "base").unwrap();
    let snapshot = db.snapshot();
    db.merge("k", "x").unwrap();
    for step in 0..3 {
        match step {
            0 => db.flush().unwrap(),
            _ => db.compact_range(None, None).unwrap(),
        }
        assert_eq!(text(&db, "k").unwrap(), "base,x", "step {step}");
        assert_eq!(&*snapshot.get("k").unwrap().unwrap(), b"base");
    }
    // Operands above a range delete, with a snapshot between the two.
    db.delete_range("a", "z").unwrap();
    let empty = db.snapshot();
    db.merge("k", "y").unwrap();
    db.merge("k", "z").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(text(&db, "k").unwrap(), "y,z");
    assert!(empty.get("k").unwrap().is_none());
    assert_eq!(&*snapshot.get("k").unwrap().unwrap(), b"base");
    drop((snapshot, empty));
    db.compact_range(None, None).unwrap();
    assert_eq!(text(&db, "k").unwrap(), "y,z");
    assert_eq!(entries(&db), 1);
}

/// The keyspaces share a tree, so an iterator's cursor moves from one to the next.
#[test]
fn operands_of_a_neighbour_do_not_matter_to_an_iterator() {
    let options = Options { merge_operator: Some(Arc::new(Join::default())), ..by_hand() };
    let db = Db::open_on(MemFs::new(), dir(), options).unwrap();
    let plain = KeyspaceOptions::default();
    let before = db.keyspace("before", &plain).unwrap();
    let counts = plain.clone().merge_operator("add_i64");
    let counts = db.keyspace("counts", &counts).unwrap();
    let after = db.keyspace("after", &plain).unwrap();
    for keyspace in [&before, &after] {
        keyspace.put("k", "text").unwrap();
    }
    for flushed in [false, true] {
        counts.merge("k", "1").unwrap();
        for (keyspace, value) in [(&before, "text"), (&after, "text"), (&counts, "1")] {
            let value = if flushed && value == "1" { "2" } else { value };
            let want = vec![(b"k".to_vec(), value.as_bytes().to_vec())];
            assert_eq!(pairs(keyspace.iter().unwrap()), want);
            let back: Result<Vec<_>, _> = keyspace.iter().unwrap().rev().collect();
            assert_eq!(back.unwrap(), want);
        }
        db.flush().unwrap();
    }
}

#[test]
fn a_failure_outside_of_the_bounds_of_an_iterator_is_not_its_error() {
    let join = Arc::new(Join::default());
    let options = Options {
        merge_operator: Some(join.clone()),
        merge_operators: vec![join.clone()],
        ..by_hand()
    };
    let db = open(&MemFs::new(), &options);
    let plain = KeyspaceOptions::default();
    let with = KeyspaceOptions::default().merge_operator("test.Join");
    // The keys of the three share a tree, in this order.
    let [before, own, after] = [("before", &with), ("own", &plain), ("after", &with)]
        .map(|(name, options)| db.keyspace(name, options).unwrap());
    before.merge("k", "x").unwrap();
    after.merge("k", "x").unwrap();
    for key in ["b", "c"] {
        db.put(key, "v").unwrap();
        own.put(key, "v").unwrap();
    }
    db.merge("a", "x").unwrap();
    db.merge("d", "x").unwrap();
    for in_tables in [false, true] {
        if in_tables {
            join.fails.store(false, Relaxed);
            db.flush().unwrap();
        }
        join.fails.store(true, Relaxed);
        let keys = [b"b".to_vec(), b"c".to_vec()];
        let of = |iter: esker::DbIterator| iter.map(|pair| pair.unwrap().0).collect::<Vec<_>>();
        assert_eq!(of(own.iter().unwrap()), keys);
        assert!(
            own.iter().unwrap().rev().map(|pair| pair.unwrap().0).eq(keys.iter().rev().cloned())
        );
        assert_eq!(of(db.range("b".."d").unwrap()), keys);
        assert_eq!(of(db.range("b"..="c").unwrap()), keys);
        assert!(
            db.range("b".."d")
                .unwrap()
                .rev()
                .map(|pair| pair.unwrap().0)
                .eq(keys.iter().rev().cloned())
        );
        let bounds = (Bound::Excluded(b"a".to_vec()), Bound::Excluded(b"d".to_vec()));
        let both = db.iter_with(&ReadOptions::default(), bounds).unwrap();
        assert_eq!(of(both), keys);
        let mut iter = db.iter().unwrap();
        iter.seek("c").unwrap();
        assert!(iter.move_next().unwrap_err().message().contains("told to fail"));
        assert!(!iter.valid() && iter.value().is_empty());
        iter.seek("b").unwrap();
        assert!(iter.move_prev().is_err());
        assert!(before.iter().unwrap().seek_to_first().is_err());
    }
}
