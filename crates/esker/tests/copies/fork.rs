//! Forks: whole, independent of their parent and compared by what changed, after a power cut or a
//! failure at every operation.
//!
//! These tests guard against: a fork that shares a log with its parent; an incomplete fork that
//! opens; two branches that give the same number to different tables, which a comparison takes for
//! the same.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{files, pairs, tiny_options};
use esker::diff::{DiffOptions, Difference, Relation, diff, diff_with};
use esker::fork::ForkOptions;
use esker::fs::{Fs, MemFs};
use esker::{Batch, Db, ErrorKind, KeyOrder, KeyspaceOptions, Options, built_in_merge_operator};
use esker_testkit::crash::{CrashFs, CrashModel};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

const DB: &str = "/data/db";
const FORK: &str = "/data/fork";

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn options() -> Options {
    Options {
        background_threads: Some(0),
        auto_compaction: false,
        merge_operator: built_in_merge_operator("append"),
        ..tiny_options()
    }
}

fn data() -> Arc<MemFs> {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/data")).unwrap();
    fs
}

fn open(fs: &Arc<MemFs>, dir: &str) -> Db {
    Db::open_on(fs.clone(), dir, options()).unwrap()
}

/// Puts 200 pairs, the round's number in each value.
fn fill(db: &Db, round: u32) {
    for i in 0..200u32 {
        db.put(format!("key{:03}", i * 7 % 200), format!("{round} of {i}").repeat(4)).unwrap();
    }
}

fn held(fs: Arc<dyn Fs>, dir: &str) -> Pairs {
    let options = Options { create_if_missing: false, ..options() };
    let db = Db::open_read_only_on(fs, dir, options).unwrap_or_else(|e| panic!("{dir}: {e}"));
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole(), "{dir}");
    pairs(db.iter().unwrap())
}

/// Returns the differences as text: `keyspace/key: old -> new`.
fn shown(found: esker::diff::Diff) -> Vec<String> {
    let text = |value: &Option<esker::diff::DiffValue>| match value {
        Some(value) => value.value.escape_ascii().to_string(),
        None => "-".into(),
    };
    let line = |found: esker::Result<Difference>| {
        let found = found.unwrap();
        let key = found.key.escape_ascii().to_string();
        format!("{}/{key}: {} -> {}", found.keyspace, text(&found.old), text(&found.new))
    };
    found.map(line).collect()
}

fn refused<T>(result: esker::Result<T>, kind: ErrorKind, says: &str) {
    let Err(error) = result else { panic!("nothing was refused; expected {says:?}") };
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}: {says:?} is not in it");
}

#[test]
fn forks_remember_their_ancestors_through_rewrites_copies_and_repairs() {
    let fs = data();
    let db = open(&fs, DB);
    fill(&db, 0);
    assert!(db.lineage().ancestors.is_empty());
    let made = db.fork_with(FORK, &ForkOptions::default().name("first")).unwrap();
    assert!(made.linked_files > 0 && made.copied_files == 0 && made.linked_bytes > 0);
    let fork = open(&fs, FORK);
    assert_eq!(fork.store_id(), made.store_id);
    let lineage = fork.lineage();
    assert_eq!(lineage.name.as_deref(), Some("first"));
    let parent = lineage.parent().unwrap();
    assert_eq!((parent.store_id, parent.name.as_deref()), (db.store_id(), None));
    assert_eq!((lineage.ancestors.len(), parent.seqno), (1, 200));
    assert!(parent.forked_unix_ms > 1_700_000_000_000);
    // A fork of a fork, without a name, of a fork whose manifest was written again.
    fork.put("more", "1").unwrap();
    fork.close().unwrap();
    let rewritten = Options { manifest_size_min_bytes: 256, ..options() };
    let fork = Db::open_on(fs.clone(), FORK, rewritten).unwrap();
    for round in 0..9 {
        fill(&fork, round);
        fork.flush().unwrap();
    }
    fork.fork("/data/second").unwrap();
    let second = open(&fs, "/data/second");
    let ids: Vec<u64> = second.lineage().ancestors.iter().map(|of| of.store_id).collect();
    assert_eq!(ids, [fork.store_id(), db.store_id()]);
    assert_eq!(second.lineage().parent().unwrap().name.as_deref(), Some("first"));
    assert_eq!(second.lineage().name, None);
    let relation = |a: &Db, b: &Db| diff(a, b).unwrap().relation;
    assert_eq!(relation(&db, &second), Relation::Descendant);
    assert_eq!(relation(&second, &db), Relation::Ancestor);
    assert_eq!(relation(&db, &db), Relation::SameStore);
    db.fork("/data/third").unwrap();
    assert_eq!(relation(&second, &open(&fs, "/data/third")), Relation::Siblings);
    // Copies of a fork have its lineage.
    fork.checkpoint("/data/checkpoint").unwrap();
    fork.backup("/data/backups").unwrap();
    Db::restore_on(fs.clone(), "/data/backups", None, "/data/restored", options()).unwrap();
    drop(second);
    Db::repair_on(fs.clone(), "/data/second", options()).unwrap();
    for copy in ["/data/checkpoint", "/data/restored"] {
        assert_eq!(open(&fs, copy).lineage(), fork.lineage(), "{copy}");
    }
    assert_eq!(open(&fs, "/data/second").lineage().ancestors.len(), 2);
}

#[test]
fn bad_places_and_names_are_refused_and_leave_nothing() {
    let fs = data();
    let db = open(&fs, DB);
    fill(&db, 0);
    let kind = ErrorKind::InvalidArgument;
    fs.create_dir(Path::new("/data/full")).unwrap();
    fs.create_new(Path::new("/data/full/file")).unwrap();
    refused(db.fork("/data/full"), kind, "the fork's directory exists and holds file");
    refused(db.fork(DB), kind, "exists and holds");
    refused(db.fork("/data/db/inside"), kind, "must not be inside a store");
    refused(db.fork("/none/fork"), ErrorKind::Io, "create the fork's directory");
    for (name, says) in
        [("", "is empty"), ("a\nb", "control characters"), (&"x".repeat(300), "300")]
    {
        refused(db.fork_with(FORK, &ForkOptions::default().name(name)), kind, says);
    }
    let other = db.clone();
    db.close().unwrap();
    refused(other.fork(FORK), ErrorKind::Closed, "was closed");
    refused(diff(&other, &other), ErrorKind::Closed, "was closed");
    assert!(!fs.exists(Path::new(FORK)).unwrap());
}

#[test]
fn branches_write_for_themselves_and_no_file_of_the_other_changes() {
    let fs = data();
    let db = open(&fs, DB);
    fill(&db, 0);
    db.flush().unwrap();
    db.put("in the log", "of the parent").unwrap();
    db.fork(FORK).unwrap();
    let (before, content) = (files(&*fs, Path::new(DB)), pairs(db.iter().unwrap()));
    let fork = open(&fs, FORK);
    assert_eq!(pairs(fork.iter().unwrap()), content);
    for round in 1..4 {
        fill(&fork, round);
        fork.delete_range("key050", "key060").unwrap();
        fork.flush().unwrap();
        fork.compact_all().unwrap();
        fork.put("unflushed", "x").unwrap();
    }
    assert!(files(&*fs, Path::new(DB)) == before, "a file of the parent changed");
    // And the other way round, while the fork keeps what it has.
    let (before, content) = (files(&*fs, Path::new(FORK)), pairs(fork.iter().unwrap()));
    for round in 5..8 {
        fill(&db, round);
        db.compact_all().unwrap();
    }
    let parent = pairs(db.iter().unwrap());
    assert!(files(&*fs, Path::new(FORK)) == before, "a file of the fork changed");
    fork.close().unwrap();
    db.close().unwrap();
    assert_eq!((held(fs.clone(), DB), held(fs.clone(), FORK)), (parent, content.clone()));
    Db::destroy_on(fs.clone(), DB).unwrap();
    assert_eq!(held(fs, FORK), content);
}

#[test]
fn fork_of_a_read_only_store_holds_what_it_reads_and_leaves_the_parent_as_it_is() {
    let fs = data();
    let turned = KeyspaceOptions::default().key_order(KeyOrder::Reverse);
    let names = ["", "turned"];
    let options = || Options { key_orders: vec![KeyOrder::Reverse], ..options() };
    let writer = Db::open_on(fs.clone(), DB, options()).unwrap();
    let turned = writer.keyspace("turned", &turned).unwrap();
    fill(&writer, 0);
    writer.flush().unwrap();
    for i in 0..300 {
        writer.put(format!("log{i}"), "only in the log").unwrap();
        turned.put(format!("{i}"), "v").unwrap();
    }
    writer.delete_range("key100", "key150").unwrap();
    turned.delete_range("20", "10").unwrap();
    writer.merge("key001", "merged").unwrap();
    writer.put_with_ttl("gone", "x", Duration::ZERO).unwrap();
    let content = |db: &Db| {
        names.map(|name| match name {
            "" => pairs(db.iter().unwrap()),
            name => pairs(db.existing_keyspace(name).unwrap().unwrap().iter().unwrap()),
        })
    };
    let reader = Db::open_read_only_on(fs.clone(), DB, options()).unwrap();
    writer.put("later", "than the reader").unwrap();
    let before = files(&*fs, Path::new(DB));
    let seen = content(&reader);
    reader.fork(FORK).unwrap();
    reader.fork("/data/again").unwrap();
    assert!(files(&*fs, Path::new(DB)) == before, "a file of the parent changed");
    for dir in [FORK, "/data/again"] {
        let fork = Db::open_on(fs.clone(), dir, options()).unwrap();
        assert!(fork.verify(&mut |_, _| {}).unwrap().is_whole());
        assert_eq!(content(&fork), seen);
        assert_eq!(fork.lineage().parent().unwrap().seqno, reader.snapshot().seqno());
        assert_eq!(diff(&reader, &fork).unwrap().count(), 0);
        assert_eq!(shown(diff(&fork, &writer).unwrap()), ["default/later: - -> than the reader"]);
        fork.put("and", "on").unwrap();
        fork.flush().unwrap();
    }
    // The writer has removed a table that the reader still reads.
    writer.compact_all().unwrap();
    assert!(reader.fork("/data/late").unwrap().copied_files > 0);
    assert_eq!(content(&Db::open_on(fs, "/data/late", options()).unwrap()), seen);
}

#[test]
fn tables_are_copied_where_they_cannot_be_linked() {
    let memory = data();
    let fs = FaultFs::new(memory.clone());
    let db = Db::open_on(fs.clone(), DB, options()).unwrap();
    fill(&db, 0);
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Link]), 1, FaultKind::Io));
    let made = db.fork(FORK).unwrap();
    fs.disarm();
    assert!(made.copied_files > 0 && made.linked_files == 0 && made.copied_bytes > 0, "{made:?}");
    fill(&db, 1);
    db.compact_all().unwrap();
    let fork = open(&memory, FORK);
    assert_eq!(fork.get("key000").unwrap().unwrap(), "0 of 0".repeat(4).as_str());
    assert!(fork.verify(&mut |_, _| {}).unwrap().is_whole());
}

#[test]
fn every_failure_leaves_the_parent_and_no_fork() {
    let memory = data();
    let fs = FaultFs::new(memory.clone());
    let db = Db::open_on(fs.clone(), DB, options()).unwrap();
    fill(&db, 0);
    db.flush().unwrap();
    let content = pairs(db.iter().unwrap());
    for kind in [FaultKind::NoSpace, FaultKind::Io] {
        let mut ended = false;
        for nth in 1..200 {
            // A cleanup needs no space, and only one operation fails.
            fs.arm(Fault::once(OpMask::CHANGES, nth, kind));
            let made = db.fork(FORK);
            fs.disarm();
            if made.is_err() {
                assert!(!memory.exists(Path::new(FORK)).unwrap(), "{kind:?} at {nth}");
            } else {
                assert_eq!(held(memory.clone(), FORK), content, "{kind:?} at {nth}");
                Db::destroy_on(memory.clone(), FORK).unwrap();
            }
            if fs.hits() == 0 {
                ended = true;
                break;
            }
        }
        assert!(ended, "{kind:?}: the fork has more operations than the test");
    }
    assert_eq!(pairs(db.iter().unwrap()), content);
    db.put("still", "writable").unwrap();
}

#[test]
fn power_cut_during_fork_leaves_whole_fork_or_none_and_the_parent() {
    let disk = CrashFs::new();
    disk.create_dir(Path::new("/data")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let db = Db::open_on(disk.clone(), DB, options()).unwrap();
    fill(&db, 0);
    db.flush().unwrap();
    db.delete("key001").unwrap();
    db.flush().unwrap();
    let content = pairs(db.iter().unwrap());
    let expected = content.clone();
    let images = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = images.clone();
    disk.watch(move |disk| {
        let mut models = vec![CrashModel::SyncedOnly, CrashModel::Everything];
        models.extend([CrashModel::NamesAhead, CrashModel::Prefix { seed: 1 }]);
        models.push(CrashModel::Scattered { seed: 2 });
        for model in models {
            let image = disk.crash_image(model);
            assert_eq!(held(image.clone(), DB), expected);
            if image.exists(&Path::new(FORK).join("CURRENT")).unwrap() {
                assert_eq!(held(image.clone(), FORK), expected);
            }
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    db.fork_with(FORK, &ForkOptions::default().name("cut")).unwrap();
    disk.unwatch();
    assert!(images.load(std::sync::atomic::Ordering::Relaxed) > 50);
    let durable = disk.crash_image(CrashModel::SyncedOnly);
    assert_eq!(held(durable.clone(), FORK), content);
    let fork = Db::open_on(durable, FORK, options()).unwrap();
    assert_eq!(fork.lineage().name.as_deref(), Some("cut"));
}

/// A store with many tables in one run, and a fork of it.
fn large(fs: &Arc<FaultFs>) -> (Db, Db) {
    let db = Db::open_on(fs.clone(), DB, options()).unwrap();
    for i in 0..8000 {
        db.put(format!("{i:05}"), format!("value {i}").repeat(5)).unwrap();
    }
    db.compact_all().unwrap();
    db.fork(FORK).unwrap();
    let fork = Db::open_on(fs.clone(), FORK, options()).unwrap();
    (db, fork)
}

#[test]
fn shared_tables_are_read_only_near_changed_keys() {
    let fs = FaultFs::new(data());
    let (db, fork) = large(&fs);
    for i in [17, 1800, 7999] {
        fork.put(format!("{i:05}"), "changed").unwrap();
    }
    db.delete("02500").unwrap();
    fork.delete_range("03000", "03003").unwrap();
    fork.flush().unwrap();
    let read = || fs.counts().read_bytes;
    assert_eq!(diff(&db, &db.snapshot()).unwrap().count(), 0);
    let full = {
        let from = read();
        assert_eq!(pairs(db.iter().unwrap()).len(), 7999);
        read() - from
    };
    let found = diff(&db, &fork).unwrap();
    assert!(found.shared_files > 10 && found.shared_bytes > full / 2, "{found:?}");
    let before = read();
    let keys: Vec<_> = found.map(|found| found.unwrap().key).collect();
    let few = read() - before;
    assert_eq!(keys.len(), 7, "{keys:?}");
    assert!(few * 6 < full, "{few} of {full} bytes were read");
}

#[test]
fn damage_in_a_shared_table_is_an_error_where_it_is_read() {
    let memory = data();
    let fs = FaultFs::new(memory.clone());
    let (db, fork) = large(&fs);
    fork.put("00003", "near the damage").unwrap();
    fork.put("03900", "far from it").unwrap();
    drop(db);
    // The first block of the table with the least keys; both names are one file.
    let db = Db::open_read_only_on(fs.clone(), DB, options()).unwrap();
    let first = db.tables().into_iter().min_by(|a, b| a.smallest.cmp(&b.smallest)).unwrap();
    let path = format!("{FORK}/{:06}.sst", first.number);
    memory.open_write(Path::new(&path)).unwrap().write_at(b"damage", 4).unwrap();
    let mut found = diff(&db, &fork).unwrap();
    let error = found.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(found.next().is_none(), "the comparison continued after an error");
    // Elsewhere it is not read.
    fork.compact_range(Some(b"99999"), None).unwrap();
    let fresh = Db::open_read_only_on(fs.clone(), DB, options()).unwrap();
    fresh.fork("/data/other").unwrap();
    let other = Db::open_on(fs, "/data/other", options()).unwrap();
    other.put("03900", "far from it").unwrap();
    assert_eq!(diff(&fresh, &other).unwrap().count(), 1);
}

#[test]
fn equal_numbers_of_different_tables_are_not_taken_for_the_same() {
    let fs = data();
    let db = open(&fs, DB);
    fill(&db, 0);
    db.fork(FORK).unwrap();
    let fork = open(&fs, FORK);
    // The same number of operations, so that sequence numbers, file numbers and counts are equal.
    for (store, value) in [(&db, "parent"), (&fork, "fork!!")] {
        store.put("key100", value).unwrap();
        store.flush().unwrap();
    }
    let numbers = |db: &Db| db.tables().iter().map(|table| table.number).collect::<Vec<_>>();
    assert_eq!(numbers(&db).len(), numbers(&fork).len());
    let expected = ["default/key100: parent -> fork!!"];
    assert_eq!(shown(diff(&db, &fork).unwrap()), expected);
    db.compact_all().unwrap();
    assert_eq!(shown(diff(&db, &fork).unwrap()), expected);
    fork.compact_all().unwrap();
    assert_eq!(shown(diff(&db, &fork).unwrap()), expected);
    assert!(!diff(&db, &fork).unwrap().is_empty().unwrap());
}

#[test]
fn keyspaces_are_compared_by_name() {
    let fs = data();
    let db = open(&fs, DB);
    let none = KeyspaceOptions::default();
    for name in ["dropped", "renamed", "same", "again"] {
        db.keyspace(name, &none).unwrap().put("k", name).unwrap();
    }
    db.fork(FORK).unwrap();
    let fork = open(&fs, FORK);
    assert!(diff(&db, &fork).unwrap().is_empty().unwrap());
    fork.drop_keyspace("dropped").unwrap();
    fork.rename_keyspace("renamed", "new name").unwrap();
    fork.drop_keyspace("again").unwrap();
    fork.keyspace("again", &none).unwrap().put("k", "again").unwrap();
    fork.keyspace("empty", &none).unwrap();
    // Both create a keyspace of the same name, with the same number.
    for (store, value) in [(&db, "1"), (&fork, "2")] {
        store.keyspace("both", &none).unwrap().put("k", value).unwrap();
    }
    let mut batch = Batch::new();
    let same = fork.existing_keyspace("same").unwrap().unwrap();
    batch.put_in(&same, "k", "changed").put("d", "default");
    fork.write(&batch).unwrap();
    let found = diff(&db, &fork).unwrap();
    assert_eq!(found.keyspaces_only_in_old, ["dropped", "renamed"]);
    assert_eq!(found.keyspaces_only_in_new, ["empty", "new name"]);
    assert_eq!(
        shown(found),
        [
            "default/d: - -> default",
            "both/k: 1 -> 2",
            "dropped/k: dropped -> -",
            "new name/k: - -> renamed",
            "renamed/k: renamed -> -",
            "same/k: same -> changed",
        ]
    );
    let only = |name: &str| diff_with(&db, &fork, &DiffOptions::default().keyspace(name));
    assert_eq!(shown(only("same").unwrap()), ["same/k: same -> changed"]);
    assert!(!only("empty").unwrap().is_empty().unwrap());
    refused(only("none"), ErrorKind::NotFound, "neither store has a keyspace \"none\"");
    fork.drop_keyspace("same").unwrap();
    let turned = KeyspaceOptions::default().key_order(KeyOrder::Reverse);
    fork.keyspace("same", &turned).unwrap();
    refused(diff(&db, &fork), ErrorKind::Incompatible, "\"same\" are ordered by");
    assert_eq!(only("both").unwrap().count(), 1);
}

#[test]
fn unrelated_stores_are_compared_pair_by_pair() {
    let fs = data();
    let (a, b) = (open(&fs, DB), open(&fs, "/data/b"));
    for i in 0..500 {
        a.put(format!("{i:04}"), "v").unwrap();
        b.put(format!("{:04}", 499 - i), if i == 40 { "w" } else { "v" }).unwrap();
    }
    b.delete("0007").unwrap();
    a.flush().unwrap();
    let found = diff(&a, &b).unwrap();
    assert_eq!((found.relation, found.shared_files), (Relation::Unrelated, 0));
    assert_eq!(shown(found), ["default/0007: v -> -", "default/0459: v -> w"]);
    // A copy of the directory is the same store, whose parts went apart.
    a.close().unwrap();
    let image = crate::common::image(Path::new("/db"), &files(&*fs, Path::new(DB)));
    let (a, copy) = (open(&fs, DB), Db::open_on(image, "/db", options()).unwrap());
    copy.put("0001", "x").unwrap();
    let found = diff(&a, &copy).unwrap();
    assert_eq!(found.relation, Relation::SameStore);
    assert!(found.shared_files > 0);
    assert_eq!(shown(found), ["default/0001: v -> x"]);
}

#[test]
fn snapshots_and_times_of_expiry_are_compared() {
    let fs = data();
    let db = open(&fs, DB);
    fill(&db, 0);
    let hour = Duration::from_secs(3600);
    db.put_with_ttl("expires", "v", hour).unwrap();
    db.flush().unwrap();
    let before = db.snapshot();
    db.fork(FORK).unwrap();
    let fork = open(&fs, FORK);
    fork.touch("expires", Duration::MAX).unwrap();
    let found: Vec<_> = diff(&db, &fork).unwrap().map(Result::unwrap).collect();
    assert_eq!(found.len(), 1);
    let (old, new) = (found[0].old.as_ref().unwrap(), found[0].new.as_ref().unwrap());
    assert!(old.value == new.value && old.expires_ms.is_some() && new.expires_ms.is_none());
    db.put("key000", "later").unwrap();
    db.delete_range("key010", "key012").unwrap();
    db.merge("key020", "+").unwrap();
    db.compact_all().unwrap();
    let found = diff(&before, &db).unwrap();
    assert_eq!(found.relation, Relation::SameStore);
    let keys: Vec<_> = found.map(|found| String::from_utf8(found.unwrap().key).unwrap()).collect();
    assert_eq!(keys, ["key000", "key010", "key011", "key020"]);
    assert_eq!(diff(&before, &before).unwrap().count(), 0);
    assert_eq!(diff(&before, &fork).unwrap().count(), 1);
}
