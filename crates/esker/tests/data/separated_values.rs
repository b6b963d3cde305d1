//! Values in value files: their reads, copies, damage and garbage.
//!
//! These tests guard against: a value file that is removed under a reader or kept for ever; a value
//! that a merge, a filter or a copy takes for its pointer; damage that is returned as a value.

use std::path::Path;
use std::sync::Arc;

use esker::backup::BackupOptions;
use esker::diff::{DiffOptions, diff_with};
use esker::fs::{Fs, MemFs};
use esker::{
    CompactionFilter, Db, ErrorKind, FilterDecision, KeyspaceOptions, Options, TransactionOptions,
    ValueSeparation, built_in_merge_operator,
};

use crate::common::{files, image, pairs, tiny_options, with_damage};

const DB: &str = "/data/db";

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn options() -> Options {
    Options {
        value_separation_min_bytes: ValueSeparation::From(100),
        background_threads: Some(0),
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

/// Puts 120 pairs, half of them with values that are separated.
fn fill(db: &Db, round: u32) {
    for n in 0..120_u32 {
        let len = if n.is_multiple_of(2) { 40 } else { 100 + n as usize };
        db.put(format!("key{:03}", n * 7 % 120), vec![(round + n) as u8; len]).unwrap();
    }
}

fn work(db: &Db) {
    while db.run_one_job().unwrap() {}
}

/// Returns the lengths of the value files of a store.
fn value_files(fs: &MemFs, dir: &str) -> Vec<u64> {
    let entries = fs.list(Path::new(dir)).unwrap();
    entries.iter().filter(|e| e.name.ends_with(".val")).map(|e| e.len_bytes).collect()
}

fn held(fs: &Arc<MemFs>, dir: &str) -> Pairs {
    let options = Options { create_if_missing: false, ..options() };
    let db = Db::open_read_only_on(fs.clone(), dir, options).unwrap();
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert!(report.is_whole() && report.value_files > 0, "{dir}: {:?}", report.problems);
    pairs(db.iter().unwrap())
}

#[test]
fn only_long_values_leave_their_tables_and_all_reads_find_them() {
    let fs = data();
    let db = open(&fs, DB);
    fill(&db, 0);
    let want = pairs(db.iter().unwrap());
    let snapshot = db.snapshot();
    db.flush().unwrap();
    let metrics = db.metrics();
    assert!(metrics.value_files > 0 && metrics.value_bytes > metrics.value_live_bytes);
    let separated: usize = want.iter().filter(|(_, value)| value.len() >= 100).count();
    assert_eq!(separated, 60);
    assert_eq!(pairs(db.iter().unwrap()), want);
    let back: Pairs = db.iter().unwrap().rev().map(|pair| pair.unwrap()).collect();
    assert_eq!(back, want.iter().rev().cloned().collect::<Pairs>());
    let keys: Vec<_> = want.iter().map(|(key, _)| key).collect();
    for (found, (_, value)) in db.multi_get(&keys).unwrap().iter().zip(&want) {
        assert_eq!(found.as_deref(), Some(&**value));
    }
    let mut iter = db.iter().unwrap();
    for (key, value) in &want {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&**value));
        assert_eq!(db.read(key, |found| found.to_vec()).unwrap().as_ref(), Some(value));
        iter.seek(key).unwrap();
        assert_eq!((iter.key(), iter.value()), (&**key, &**value));
        iter.seek_for_prev(key).unwrap();
        assert_eq!((iter.key(), iter.value()), (&**key, &**value));
    }
    // A slice outlives its key, its file and its store.
    let kept = db.get("key007").unwrap().unwrap();
    fill(&db, 9);
    db.delete("key007").unwrap();
    assert_eq!(pairs(snapshot.iter().unwrap()), want);
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    assert_eq!(&*kept, [1; 101]);
}

#[test]
fn merges_filters_and_transactions_see_values_and_not_pointers() {
    struct Shorten;
    impl CompactionFilter for Shorten {
        fn name(&self) -> &str {
            "test.shorten"
        }
        fn filter(&self, _level: usize, _key: &[u8], value: &[u8]) -> FilterDecision {
            match value.first() {
                Some(b'd') => FilterDecision::Remove,
                Some(b's') if value.len() > 5 => FilterDecision::Replace(b"short".to_vec()),
                Some(b'l') if value.len() == 150 => FilterDecision::Replace(vec![b'l'; 160]),
                _ => FilterDecision::Keep,
            }
        }
    }
    let fs = data();
    let options = Options { compaction_filter: Some(Arc::new(Shorten)), ..options() };
    let db = Db::open_on(fs.clone(), DB, options).unwrap();
    for first in ["d", "s", "l", "m"] {
        db.put(first, first.repeat(150)).unwrap();
    }
    db.flush().unwrap();
    db.merge("m", "+1").unwrap();
    let merged = format!("{}+1", "m".repeat(150));
    assert_eq!(db.get("m").unwrap().unwrap(), *merged.as_bytes());
    let m = || db.range("m".."n").unwrap();
    assert_eq!(pairs(m()), [(b"m".to_vec(), merged.clone().into_bytes())]);
    assert_eq!(m().next_back().unwrap().unwrap().1, merged.as_bytes());
    let transaction = db.transaction(TransactionOptions::default());
    assert_eq!(transaction.get("l").unwrap().unwrap(), *"l".repeat(150).as_bytes());
    transaction.merge("s", "!").unwrap();
    assert_eq!(transaction.get("s").unwrap().unwrap(), *format!("{}!", "s".repeat(150)).as_bytes());
    transaction.rollback();
    db.compact_range(None, None).unwrap();
    let all: Pairs = [("l", "l".repeat(160)), ("m", merged), ("s", "short".to_string())]
        .map(|(key, value)| (key.as_bytes().to_vec(), value.into_bytes()))
        .to_vec();
    assert_eq!(pairs(db.iter().unwrap()), all);
    assert_eq!(db.metrics().value_files, 1, "the values of \"l\" and \"m\" are in one file");
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}

#[test]
fn a_keyspace_has_its_own_threshold_and_its_drop_frees_its_value_files() {
    let fs = data();
    let db = Db::open_on(
        fs.clone(),
        DB,
        Options { value_separation_min_bytes: ValueSeparation::Off, ..options() },
    )
    .unwrap();
    let own = KeyspaceOptions::default().set("value_separation_min_bytes", "0").unwrap();
    let blobs = db.keyspace("blobs", &own).unwrap();
    for n in 0..50_u32 {
        blobs.put(n.to_be_bytes(), vec![n as u8; n as usize]).unwrap();
        db.put(n.to_be_bytes(), vec![n as u8; 500]).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(db.metrics().value_live_bytes, (0..50).map(|n| 16 + 8 + n).sum::<u64>());
    for n in 0..50_u32 {
        assert_eq!(blobs.get(n.to_be_bytes()).unwrap().unwrap(), vec![n as u8; n as usize]);
    }
    db.drop_keyspace("blobs").unwrap();
    db.flush().unwrap();
    drop(blobs);
    work(&db);
    assert_eq!((db.metrics().value_files, value_files(&fs, DB)), (0, Vec::new()));
    db.close().unwrap();
}

#[test]
fn overwritten_values_leave_at_most_half_of_the_live_bytes_as_garbage() {
    for min_bytes in [0, 1000] {
        let fs = data();
        let mut options = options();
        options.value_separation_min_bytes = ValueSeparation::From(min_bytes);
        options.memtable_size_bytes = Some(64 << 10);
        options.file_size_max_bytes = 64 << 10;
        let db = Db::open_on(fs.clone(), DB, options).unwrap();
        let mut state = 7_u64;
        for n in 0..3_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = if n < 200 { n } else { (state >> 33) as u32 % 200 };
            db.put(key.to_be_bytes(), vec![n as u8; 2000]).unwrap();
            work(&db);
        }
        db.compact_range(None, None).unwrap();
        let live = 200 * (16 + 4 + 2000);
        let metrics = db.metrics();
        assert_eq!(metrics.value_live_bytes, live, "the values of all keys, once each");
        let on_disk: u64 = value_files(&fs, DB).iter().sum();
        assert_eq!(
            (on_disk, value_files(&fs, DB).len() as u64),
            (metrics.value_bytes, metrics.value_files)
        );
        assert!(on_disk * 2 <= live * 3, "{on_disk} bytes for {live}");
        assert_eq!(db.iter().unwrap().count(), 200);
        // Without a manual compaction, jobs that are due keep the bound on referenced bytes.
        for n in 0..150_u32 {
            db.put(n.to_be_bytes(), "small").unwrap();
        }
        db.compact_range(None, None).unwrap();
        let (live, on_disk) =
            (db.metrics().value_live_bytes, value_files(&fs, DB).iter().sum::<u64>());
        assert!(on_disk * 2 <= live * 3, "{on_disk} bytes for {live}");
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
        db.delete_range([0; 4], [255; 4]).unwrap();
        db.compact_range(None, None).unwrap();
        assert!(value_files(&fs, DB).is_empty(), "nothing is left");
        db.close().unwrap();
    }
}

#[test]
fn readers_keep_their_value_files_and_openings_remove_those_without_a_table() {
    let fs = data();
    let db = open(&fs, DB);
    fill(&db, 0);
    db.flush().unwrap();
    let want = pairs(db.iter().unwrap());
    let reader = Db::open_read_only_on(fs.clone(), DB, options()).unwrap();
    let mut iter = db.iter().unwrap();
    iter.seek("key050").unwrap();
    let before = value_files(&fs, DB).len();
    fill(&db, 3);
    db.compact_range(None, None).unwrap();
    assert!(value_files(&fs, DB).len() > before, "the iterator holds the old files");
    assert_eq!(iter.by_ref().count(), 70);
    drop(iter);
    assert!(value_files(&fs, DB).len() <= before + 1);
    // The reader of another opening has its files open, although they have no name any more.
    assert_eq!(pairs(reader.iter().unwrap()), want);
    drop(reader);
    let last = pairs(db.iter().unwrap());
    db.close().unwrap();
    fs.create_new(Path::new("/data/db/000900.val")).unwrap().append(b"left by a crash").unwrap();
    let before = value_files(&fs, DB).len();
    let db = open(&fs, DB);
    assert_eq!(value_files(&fs, DB).len(), before - 1);
    assert_eq!(pairs(db.iter().unwrap()), last);
}

#[test]
fn copies_of_a_store_have_its_values() {
    let fs = data();
    let db = open(&fs, DB);
    fill(&db, 0);
    db.flush().unwrap();
    let first = pairs(db.iter().unwrap());
    db.checkpoint("/data/checkpoint").unwrap();
    let forked = db.fork("/data/fork").unwrap();
    assert_eq!(forked.linked_files, db.metrics().table_files + db.metrics().value_files);
    let backup = |db: &Db| db.backup_with("/data/backups", &BackupOptions::default()).unwrap();
    let whole = backup(&db);
    assert_eq!(whole.copied_files, forked.linked_files);
    db.put("key001", vec![7; 300]).unwrap();
    let next = backup(&db);
    assert!(next.linked_files >= whole.copied_files && next.copied_files == 2, "{next:?}");
    let second = pairs(db.iter().unwrap());
    fill(&db, 5);
    db.compact_range(None, None).unwrap();
    for dir in ["/data/checkpoint", "/data/fork", "/data/backups/backup-000001"] {
        assert_eq!(held(&fs, dir), first, "{dir}");
    }
    Db::restore_on(fs.clone(), "/data/backups", Some(2), "/data/restored", options()).unwrap();
    assert_eq!(held(&fs, "/data/restored"), second);
    let fork = open(&fs, "/data/fork");
    fork.put("key003", vec![9; 500]).unwrap();
    fork.flush().unwrap();
    let parent = Db::open_read_only_on(fs.clone(), "/data/checkpoint", options()).unwrap();
    let found: Vec<_> = diff_with(&parent, &fork, &DiffOptions::default())
        .unwrap()
        .map(|found| found.unwrap())
        .collect();
    assert_eq!((found.len(), &found[0].key[..]), (1, &b"key003"[..]));
    assert_eq!(found[0].new.as_ref().unwrap().value, [9; 500]);
    // A fork of what another process writes has the values of its log in files of its own.
    fork.put("key005", vec![8; 400]).unwrap();
    let view = Db::open_read_only_on(fs.clone(), "/data/fork", options()).unwrap();
    let want = pairs(view.iter().unwrap());
    view.fork("/data/second").unwrap();
    assert_eq!(held(&fs, "/data/second"), want);
    db.close().unwrap();
}

/// Returns the files of a closed store with one value file, and its content.
fn one_value_file() -> (Vec<(String, Vec<u8>)>, Pairs) {
    let fs = data();
    let options = Options { memtable_size_bytes: Some(1 << 20), ..options() };
    let db = Db::open_on(fs.clone(), DB, options).unwrap();
    for n in 0..6_u8 {
        db.put([b'k', n], vec![n; 110]).unwrap();
    }
    db.flush().unwrap();
    let want = pairs(db.iter().unwrap());
    db.close().unwrap();
    (files(&*fs, Path::new(DB)), want)
}

#[test]
fn every_changed_byte_and_every_cut_of_a_value_file_is_found_and_never_read() {
    let (all, want) = one_value_file();
    let at = all.iter().position(|(name, _)| name.ends_with(".val")).unwrap();
    let check = |bad: &[(String, Vec<u8>)], what: &str| {
        let db = Db::open_on(image(Path::new("/db"), bad), "/db", options()).unwrap();
        let report = db.verify(&mut |_, _| {}).unwrap();
        assert_eq!(report.problems.len(), 1, "{what}");
        let problem = &report.problems[0];
        assert_eq!(problem.kind(), ErrorKind::Corruption, "{what}: {problem}");
        assert!(problem.path().unwrap().ends_with(&all[at].0), "{what}: {problem}");
        assert!(problem.offset_bytes().is_some(), "{what}: {problem}");
        for (key, value) in &want {
            match db.get(key) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&**value), "{what}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}"),
            }
        }
        if let Ok(found) = db.iter().unwrap().collect::<esker::Result<Pairs>>() {
            assert_eq!(found, want, "{what}");
        }
    };
    let len = all[at].1.len();
    with_damage(&all, at, &[0, 31, len / 2, len - 1], check);
}

#[test]
fn repair_keeps_the_values_whose_records_are_whole() {
    let (mut all, mut want) = one_value_file();
    let at = all.iter().position(|(name, _)| name.ends_with(".val")).unwrap();
    let record = all[at].1.windows(110).position(|bytes| bytes == [3; 110]).unwrap();
    all[at].1[record] ^= 1;
    // Also without the footer.
    let len = all[at].1.len();
    all[at].1.truncate(len - 7);
    for with_manifest in [true, false] {
        let kept = all.iter().filter(|(name, _)| with_manifest || name != "CURRENT");
        let fs = image(Path::new("/db"), &kept.cloned().collect::<Vec<_>>());
        let report = Db::repair_on(fs.clone(), "/db", options()).unwrap();
        assert_eq!(report.manifest_readable, with_manifest);
        let lost = report.lost.iter().filter(|lost| lost.contains(".val"));
        assert_eq!(lost.count(), 1, "{:?}", report.lost);
        want.retain(|(key, _)| key != b"k\x03");
        let db = Db::open_on(fs.clone(), "/db", options()).unwrap();
        assert_eq!(pairs(db.iter().unwrap()), want);
        assert_eq!(db.metrics().value_files, 0, "the values are in tables until a compaction");
        db.close().unwrap();
    }
}

#[test]
fn values_return_to_tables_when_the_option_is_off() {
    let fs = data();
    let db = open(&fs, DB);
    fill(&db, 0);
    db.compact_range(None, None).unwrap();
    db.set_options(&[("value_separation_min_bytes", "off")]).unwrap();
    let live = db.metrics().value_live_bytes;
    assert!(live > 0);
    // What is overwritten becomes garbage, and what moves for its sake goes to tables.
    for n in 0..60_u32 {
        db.put(format!("key{:03}", n * 7 % 120), vec![1; 300]).unwrap();
    }
    let want = pairs(db.iter().unwrap());
    db.compact_range(None, None).unwrap();
    assert!(db.metrics().value_live_bytes < live * 2 / 3);
    assert_eq!(pairs(db.iter().unwrap()), want);
    db.close().unwrap();
    // With the option off from the beginning, nothing on disk shows that it exists.
    let off = Options { value_separation_min_bytes: ValueSeparation::Off, ..options() };
    let db = Db::open_on(fs.clone(), "/data/off", off).unwrap();
    fill(&db, 0);
    db.compact_range(None, None).unwrap();
    assert!(value_files(&fs, "/data/off").is_empty());
    assert_eq!((db.metrics().value_files, db.metrics().value_bytes), (0, 0));
}
