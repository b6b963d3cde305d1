//! Ingests and bulk loads: what is refused, what readers see, and that tables without sequence
//! numbers of their own behave as any other in every place that reads tables.
//!
//! These tests guard against: an ingest that is visible in part; an older write of the memtable that
//! hides an ingested pair; a snapshot that changes; a file that is used up although nothing was
//! installed.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{Oracle, files, image, in_order, pairs, tiny_options};
use esker::fs::{Fs, MemFs};
use esker::{
    BackupOptions, BlockLayout, Compression, Db, ErrorKind, IngestOptions, IngestReport, KeyOrder,
    KeyspaceOptions, Options, Policy, SortedWriter, TransactionOptions, built_in_merge_operator,
};

fn dir() -> &'static Path {
    Path::new("/db")
}

/// Returns a file system with the directory `/out`.
fn disk() -> Arc<MemFs> {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/out")).unwrap();
    fs
}

/// Returns options of a store without threads, in which nothing is flushed without a request.
fn options() -> Options {
    Options {
        memtable_size_bytes: Some(1 << 20),
        background_threads: Some(0),
        ..tiny_options()
    }
}

fn open(fs: &Arc<MemFs>, options: &Options) -> Db {
    Db::open_on(fs.clone(), dir(), options.clone()).unwrap()
}

/// Writes a file with these pairs, and returns its path.
fn file_of(
    fs: &Arc<MemFs>,
    name: &str,
    options: &Options,
    pairs: impl IntoIterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>,
) -> PathBuf {
    let path = Path::new("/out").join(name);
    let mut writer = SortedWriter::create_on(fs.clone(), &path, options).unwrap();
    for (key, value) in pairs {
        writer.put(key, value).unwrap();
    }
    assert_eq!(writer.finish().unwrap().path, path);
    path
}

fn keys(range: std::ops::Range<u32>, value: &str) -> Vec<(String, String)> {
    range.map(|n| (format!("key{n:05}"), format!("{value} {n}"))).collect()
}

fn ingest(db: &Db, paths: &[PathBuf]) -> IngestReport {
    db.ingest(paths, &IngestOptions::default()).unwrap()
}

fn get(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Returns the error of an ingest, and checks that neither the store nor a file has changed.
fn refusal(fs: &Arc<MemFs>, db: &Db, paths: &[PathBuf]) -> esker::Error {
    let content = || (pairs(db.iter().unwrap()), files(&**fs, Path::new("/out")));
    let names = || fs.list(dir()).unwrap().into_iter().map(|e| e.name).collect::<Vec<_>>();
    let before = (content(), names(), db.metrics().ingests);
    let error = db.ingest(paths, &IngestOptions::default()).unwrap_err();
    assert_eq!((content(), names(), db.metrics().ingests), before, "{error}");
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    error
}

#[test]
fn ingested_pairs_replace_older_ones_and_are_replaced_by_newer_ones() {
    for policy in Policy::ALL {
        for layout in [BlockLayout::Columnar, BlockLayout::Delta] {
            let options = Options { policy: *policy, block_layout: layout, ..options() };
            let fs = disk();
            let db = open(&fs, &options);
            for (key, value) in keys(0..300, "old") {
                db.put(key, value).unwrap();
            }
            let before = db.snapshot();
            let path = file_of(&fs, "a", &options, keys(100..200, "new"));
            let report = ingest(&db, &[path.clone()]);
            assert!(report.flushed && !fs.exists(&path).unwrap());
            assert_eq!((report.entries, report.files), (100, 1));
            let after = db.snapshot();
            db.put("key00150", "newest").unwrap();
            db.delete("key00160").unwrap();
            let check = |db: &Db| {
                assert_eq!(get(db, "key00099").unwrap(), "old 99", "{policy}");
                assert_eq!(get(db, "key00100").unwrap(), "new 100", "{policy}");
                assert_eq!(get(db, "key00150").unwrap(), "newest", "{policy}");
                assert_eq!(get(db, "key00160"), None, "{policy}");
                let all = pairs(db.iter().unwrap());
                assert_eq!(all.len(), 299, "{policy}");
                let new = all.iter().filter(|(_, v)| v.starts_with(b"new ")).count();
                assert_eq!(new, 98, "{policy}");
                let backwards: Vec<_> = db.iter().unwrap().rev().map(Result::unwrap).collect();
                assert!(backwards.iter().rev().eq(&all), "{policy}");
                assert!(db.verify(&mut |_, _| {}).unwrap().is_whole(), "{policy}");
            };
            check(&db);
            let at = |snapshot| {
                let read = esker::ReadOptions::default().snapshot(snapshot);
                let value = db.get_with("key00150", &read).unwrap().unwrap();
                String::from_utf8(value.to_vec()).unwrap()
            };
            assert_eq!((at(&before), at(&after)), ("old 150".into(), "new 150".into()));
            db.compact_range(None, None).unwrap();
            check(&db);
            assert_eq!((at(&before), at(&after)), ("old 150".into(), "new 150".into()));
            drop((before, after));
            db.close().unwrap();
            let db = open(&fs, &options);
            check(&db);
            assert!(db.metrics().last_seqno >= report.seqno);
        }
    }
}

#[test]
fn ingest_flushes_only_a_memtable_with_keys_in_its_range() {
    let fs = disk();
    let db = open(&fs, &options());
    db.put("a", "1").unwrap();
    db.put("z", "1").unwrap();
    let apart = file_of(&fs, "apart", &options(), [("m", "1"), ("n", "2")]);
    let report = ingest(&db, &[apart]);
    assert!(!report.flushed);
    assert_eq!(db.metrics().flushes, 0);
    let both = [
        file_of(&fs, "left", &options(), [("b", "3"), ("c", "4")]),
        file_of(&fs, "right", &options(), [("y", "5"), ("zz", "6")]),
    ];
    let report = ingest(&db, &both);
    assert!(report.flushed);
    assert_eq!((db.metrics().flushes, db.metrics().ingests), (1, 2));
    // A range tombstone counts as its keys.
    db.delete_range("f", "h").unwrap();
    let under = file_of(&fs, "under", &options(), [("g", "7")]);
    assert!(ingest(&db, &[under]).flushed);
    let beside = file_of(&fs, "beside", &options(), [("h", "8")]);
    assert!(!ingest(&db, &[beside]).flushed);
    let all: Vec<u8> = pairs(db.iter().unwrap()).iter().map(|(_, v)| v[0]).collect();
    assert_eq!(String::from_utf8(all).unwrap(), "1347812516");
    // Writes that no table has survive a kill, also those below the number of an ingest.
    db.put("a", "9").unwrap();
    let last = file_of(&fs, "last", &options(), [("p", "0")]);
    let seqno = ingest(&db, &[last]).seqno;
    let killed = image(dir(), &files(&*fs, dir()));
    let db = open(&killed, &options());
    assert_eq!((get(&db, "a").unwrap(), get(&db, "p").unwrap()), ("9".into(), "0".into()));
    db.put("p", "later").unwrap();
    assert_eq!(get(&db, "p").unwrap(), "later");
    assert!(db.metrics().last_seqno > seqno);
}

#[test]
fn writer_refuses_wrong_order_and_names_both_keys() {
    let fs = disk();
    let mut writer = SortedWriter::create_on(fs.clone(), "/out/a", &options()).unwrap();
    writer.put("b", "1").unwrap();
    for key in ["b", "a", ""] {
        let error = writer.put(key, "2").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains(&format!("found \"{key}\" after \"b\"")), "{text}");
        assert!(text.contains("/out/a"), "{text}");
    }
    writer.delete("c").unwrap();
    assert!(writer.merge("d", "1").unwrap_err().to_string().contains("merge operator"));
    let file = writer.finish().unwrap();
    assert_eq!((file.entries, &*file.smallest, &*file.largest), (2, &b"b"[..], &b"c"[..]));
    assert!(SortedWriter::create_on(fs.clone(), "/out/a", &options()).is_err(), "it exists");
    // In reverse order, "ascending" means descending bytes.
    let reverse = Options { key_order: KeyOrder::Reverse, ..options() };
    let mut writer = SortedWriter::create_on(fs.clone(), "/out/b", &reverse).unwrap();
    writer.put("b", "1").unwrap();
    writer.put("a", "1").unwrap();
    assert!(writer.put("c", "1").is_err());
    drop(writer);
    assert!(!fs.exists(Path::new("/out/b")).unwrap(), "an unfinished file is removed");
}

#[test]
fn files_that_cannot_be_ingested_are_refused_and_nothing_changes() {
    let fs = disk();
    let db = open(&fs, &options());
    db.put("a", "1").unwrap();
    let good = file_of(&fs, "good", &options(), [("m", "1"), ("p", "2")]);
    let overlap = file_of(&fs, "overlap", &options(), [("p", "1"), ("q", "2")]);
    let error = refusal(&fs, &db, &[overlap, good.clone()]);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = error.to_string();
    assert!(text.contains("/out/good") && text.contains("/out/overlap"), "{text}");
    let twice = refusal(&fs, &db, &[good.clone(), good.clone()]);
    assert!(twice.to_string().contains("twice"), "{twice}");
    let missing = refusal(&fs, &db, &[good.clone(), "/out/missing".into()]);
    assert!(missing.to_string().contains("/out/missing"), "{missing}");
    let reverse = Options { key_order: KeyOrder::Reverse, ..options() };
    let other = file_of(&fs, "other", &reverse, [("z", "1")]);
    let error = refusal(&fs, &db, &[good.clone(), other]);
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    // A table of a store, inside it and copied out of it.
    db.flush().unwrap();
    let own = fs.list(dir()).unwrap().into_iter().find(|e| e.name.ends_with(".sst")).unwrap();
    let inside = refusal(&fs, &db, &[dir().join(&own.name)]);
    assert!(inside.to_string().contains("must not be inside a store"), "{inside}");
    let bytes = fs.read(&dir().join(&own.name), u64::MAX).unwrap();
    put_file(&fs, "/out/table", &bytes);
    let table = refusal(&fs, &db, &["/out/table".into()]);
    assert!(table.to_string().contains("SortedWriter"), "{table}");
    // Operands need their operator.
    let adding = Options { merge_operator: built_in_merge_operator("add_i64"), ..options() };
    let mut writer = SortedWriter::create_on(fs.clone(), "/out/operands", &adding).unwrap();
    writer.merge("n", "2").unwrap();
    writer.finish().unwrap();
    let operands = refusal(&fs, &db, &["/out/operands".into()]);
    assert!(operands.to_string().contains("add_i64"), "{operands}");
    assert!(ingest(&db, &[]).files == 0);
    assert_eq!(ingest(&db, &[good]).entries, 2);
}

fn put_file(fs: &Arc<MemFs>, path: &str, bytes: &[u8]) {
    let mut file = fs.create_new(Path::new(path)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

#[test]
fn unfinished_and_damaged_files_are_refused_at_every_byte() {
    let fs = disk();
    let db = open(&fs, &options());
    let path = file_of(&fs, "whole", &options(), keys(0..30, "value"));
    let whole = fs.read(&path, u64::MAX).unwrap();
    for len in (0..whole.len()).step_by(37).chain([whole.len() - 1]) {
        let name = format!("/out/cut{len}");
        put_file(&fs, &name, &whole[..len]);
        let error = db.ingest(&[&name], &IngestOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("not a finished table"), "{error}");
        fs.remove(Path::new(&name)).unwrap();
    }
    // The stamp is empty before an ingest, and what it has then does not count.
    let stamp = whole.len() - 96 - 16..whole.len() - 96;
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let name = format!("/out/flip{at}");
        put_file(&fs, &name, &bytes);
        let ingested = db.ingest(&[&name], &IngestOptions::default());
        assert_eq!(ingested.is_ok(), stamp.contains(&at), "{at}: {ingested:?}");
        let _ = fs.remove(Path::new(&name));
    }
    // Without the check, damage is found by the read that meets it.
    let mut bytes = whole.clone();
    bytes[5] ^= 1;
    put_file(&fs, "/out/unchecked", &bytes);
    db.ingest(&["/out/unchecked"], &IngestOptions::default().verify(false)).unwrap();
    assert_eq!(db.get("key00000").unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn files_are_moved_or_copied_and_one_can_be_ingested_twice() {
    let fs = disk();
    let db = open(&fs, &options());
    let path = file_of(&fs, "a", &options(), keys(0..50, "first"));
    let copy = IngestOptions::default().copy(true);
    let first = db.ingest(&[&path], &copy).unwrap();
    db.put("key00010", "between").unwrap();
    let second = db.ingest(&[&path], &copy).unwrap();
    assert!(second.seqno > first.seqno && fs.exists(&path).unwrap());
    assert_eq!(get(&db, "key00010").unwrap(), "first 10");
    // A crash after the installation leaves the old name, which has the bytes of the store's table.
    let linked = file_of(&fs, "b", &options(), [("key00020", "linked")]);
    fs.hard_link(&linked, Path::new("/out/c")).unwrap();
    ingest(&db, &[linked]);
    db.put("key00020", "put").unwrap();
    db.put("key00021", "put").unwrap();
    ingest(&db, &["/out/c".into()]);
    assert_eq!(get(&db, "key00020").unwrap(), "linked");
    assert!(!fs.exists(Path::new("/out/c")).unwrap());
    // Another store takes the same file.
    let other = Db::open_on(fs.clone(), "/other", options()).unwrap();
    other.put("key00001", "other").unwrap();
    other.ingest(&[&path], &copy).unwrap();
    for db in [&db, &other] {
        assert_eq!(get(db, "key00001").unwrap(), "first 1");
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    }
    let empty = file_of(&fs, "empty", &options(), Vec::<(&str, &str)>::new());
    assert_eq!(ingest(&db, &[empty.clone()]).files, 0);
    assert!(!fs.exists(&empty).unwrap());
}

#[test]
fn deletes_operands_and_expiring_pairs_are_ingested() {
    let options = Options {
        merge_operator: built_in_merge_operator("add_i64"),
        block_layout: BlockLayout::Columnar,
        ..options()
    };
    let fs = disk();
    let db = open(&fs, &options);
    for key in ["a", "b", "c", "d"] {
        db.put(key, "5").unwrap();
    }
    let mut writer = SortedWriter::create_on(fs.clone(), "/out/mixed", &options).unwrap();
    writer.delete("a").unwrap();
    writer.merge("b", "2").unwrap();
    writer.put_with_ttl("c", "gone", Duration::ZERO).unwrap();
    writer.put_with_ttl("d", "stays", Duration::from_secs(100_000)).unwrap();
    writer.put("e", "7").unwrap();
    writer.finish().unwrap();
    ingest(&db, &["/out/mixed".into()]);
    db.merge("e", "1").unwrap();
    let check = |db: &Db| {
        let all = pairs(db.iter().unwrap());
        let text: Vec<_> =
            all.iter().map(|(k, v)| format!("{}{}", k.escape_ascii(), v.escape_ascii())).collect();
        assert_eq!(text, ["b7", "dstays", "e8"]);
        assert!(db.get_with_expiry("d").unwrap().unwrap().1.is_some());
    };
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    db.close().unwrap();
    check(&open(&fs, &options));
}

#[test]
fn keyspaces_take_files_of_their_key_order() {
    let fs = disk();
    let db = open(&fs, &options());
    let plain = db.keyspace("plain", &KeyspaceOptions::default()).unwrap();
    let reverse = KeyspaceOptions::default().key_order(KeyOrder::Reverse);
    let reverse = db.keyspace("reverse", &reverse).unwrap();
    let ttl = KeyspaceOptions::default().ttl(Duration::from_secs(100_000));
    let short = db.keyspace("short", &ttl).unwrap();
    plain.put("key00003", "old").unwrap();
    db.put("key00003", "default").unwrap();
    let snapshot = db.snapshot();
    let path = file_of(&fs, "a", &options(), keys(0..40, "new"));
    let refused = reverse.ingest(&[&path], &IngestOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incompatible);
    let report = plain.ingest(&[&path], &IngestOptions::default()).unwrap();
    assert!(report.flushed && report.entries == 40 && !fs.exists(&path).unwrap());
    assert_eq!(&*plain.get("key00003").unwrap().unwrap(), b"new 3");
    assert_eq!(get(&db, "key00003").unwrap(), "default");
    let old = esker::ReadOptions::default().snapshot(&snapshot);
    assert_eq!(&*plain.get_with("key00003", &old).unwrap().unwrap(), b"old");
    let loaded = short.bulk_load(keys(0..20, "x")).unwrap();
    assert_eq!(loaded.entries, 20);
    let descending = keys(0..20, "y").into_iter().rev();
    reverse.bulk_load(descending).unwrap();
    assert!(reverse.bulk_load(keys(30..32, "z")).is_err());
    let check = |db: &Db| {
        for (name, count) in [("plain", 40), ("reverse", 20), ("short", 20)] {
            let keyspace = db.existing_keyspace(name).unwrap().unwrap();
            assert_eq!(keyspace.iter().unwrap().count(), count, "{name}");
        }
        assert_eq!(pairs(db.iter().unwrap()).len(), 1);
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    };
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    // The tables of a keyspace have its prefix: they are no files for an ingest elsewhere.
    let table = db.tables().into_iter().find(|t| t.tree != 0).unwrap();
    let bytes = fs.read(&dir().join(format!("{:06}.sst", table.number)), u64::MAX).unwrap();
    put_file(&fs, "/out/copy", &bytes);
    assert!(db.ingest(&["/out/copy"], &IngestOptions::default()).is_err());
    db.drop_keyspace("plain").unwrap();
    let path = file_of(&fs, "b", &options(), keys(0..4, "late"));
    let dropped = plain.ingest(&[&path], &IngestOptions::default()).unwrap_err();
    assert_eq!(dropped.kind(), ErrorKind::NotFound);
    assert!(fs.exists(&path).unwrap());
}

#[test]
fn bulk_load_is_atomic_and_checks_the_order() {
    let fs = disk();
    let options = Options { file_size_max_bytes: 16 << 10, ..options() };
    let db = open(&fs, &options);
    let names = || fs.list(dir()).unwrap().len();
    let before = names();
    let error = db.bulk_load([("a", "1"), ("c", "2"), ("b", "3")]).unwrap_err();
    assert!(error.to_string().contains("found \"b\" after \"c\""), "{error}");
    // The source fails after many files, or panics.
    let failing = (0..5000u32).map(|n| match n {
        4999 => Err(std::io::Error::other("the source ended early")),
        n => Ok((n.to_be_bytes(), [7; 100])),
    });
    let failing = failing.map(|pair| pair.map_err(Failed::Source));
    assert!(matches!(db.try_bulk_load(failing), Err(Failed::Source(_))));
    let panicking = (0..5000u32).map(|n| {
        assert!(n < 4000, "the source panics");
        (n.to_be_bytes(), [7; 100])
    });
    let panicked = std::panic::AssertUnwindSafe(|| db.bulk_load(panicking));
    assert!(std::panic::catch_unwind(panicked).is_err());
    assert_eq!((names(), db.iter().unwrap().count()), (before, 0));
    let report = db.bulk_load((0..5000u32).map(|n| (n.to_be_bytes(), [8; 100]))).unwrap();
    assert!(report.files > 10 && report.entries == 5000, "{report:?}");
    assert_eq!(report.levels[0], 0, "nothing is above an empty store's last level");
    assert_eq!(db.iter().unwrap().count(), 5000);
    // Nothing is due after it, and a second load beside it is apart from it.
    let report = db.bulk_load((5000..9000u32).map(|n| (n.to_be_bytes(), [9; 100]))).unwrap();
    assert_eq!(report.levels[0], 0);
    db.wait_idle().unwrap();
    assert_eq!(db.iter().unwrap().count(), 9000);
    assert_eq!(db.bulk_load(Vec::<(&str, &str)>::new()).unwrap(), IngestReport::default());
}

/// An error of a source of pairs, or of the store.
#[derive(Debug)]
enum Failed {
    Source(std::io::Error),
    Store(esker::Error),
}

impl From<esker::Error> for Failed {
    fn from(error: esker::Error) -> Failed {
        Failed::Store(error)
    }
}

#[test]
fn failures_of_a_source_and_of_the_store_are_told_apart() {
    let fs = disk();
    let db = open(&fs, &options());
    let unsorted = [Ok::<_, Failed>(("b", "")), Ok(("a", ""))];
    let failed = db.try_bulk_load(unsorted).unwrap_err();
    assert!(matches!(&failed, Failed::Store(e) if e.kind() == ErrorKind::InvalidArgument));
}

#[test]
fn open_transactions_conflict_with_ingested_keys() {
    let fs = disk();
    let db = open(&fs, &options());
    db.bulk_load(keys(0..10, "old")).unwrap();
    let touched = db.transaction(TransactionOptions::default());
    touched.put("key00005", "mine").unwrap();
    let apart = db.transaction(TransactionOptions::default());
    apart.put("key00011", "mine").unwrap();
    // A key inside of the range that is in no file is not written.
    let between = db.transaction(TransactionOptions::default());
    between.put("key00005x", "mine").unwrap();
    let path = file_of(&fs, "a", &options(), keys(4..7, "new"));
    ingest(&db, &[path]);
    assert_eq!(touched.commit().unwrap_err().kind(), ErrorKind::Conflict);
    apart.commit().unwrap();
    between.commit().unwrap();
    let later = db.transaction(TransactionOptions::default());
    later.put("key00005", "mine").unwrap();
    later.commit().unwrap();
    assert_eq!(get(&db, "key00005").unwrap(), "mine");
}

#[test]
fn tables_of_ingests_are_in_checkpoints_backups_and_repaired_stores() {
    let fs = disk();
    let db = open(&fs, &options());
    let mut oracle = Oracle::new();
    for round in 0..4u32 {
        // Each round hides a part of the one before, alternately by an ingest and by puts.
        let written = keys(round * 5..round * 5 + 20, &format!("round {round}"));
        for (key, value) in &written {
            oracle.insert(key.clone().into_bytes(), value.clone().into_bytes());
        }
        if round % 2 == 0 {
            let path = file_of(&fs, &format!("{round}"), &options(), written);
            ingest(&db, &[path]);
        } else {
            written.iter().for_each(|(key, value)| db.put(key, value).unwrap());
        }
    }
    let whole = in_order(&oracle, &KeyOrder::Bytewise);
    db.checkpoint("/checkpoint").unwrap();
    let checkpoint = Db::open_on(fs.clone(), "/checkpoint", options()).unwrap();
    assert_eq!(pairs(checkpoint.iter().unwrap()), whole);
    assert!(checkpoint.verify(&mut |_, _| {}).unwrap().is_whole());
    db.backup_with("/backups", &BackupOptions::default()).unwrap();
    Db::restore_on(fs.clone(), "/backups", None, "/restored", options()).unwrap();
    let restored = Db::open_on(fs.clone(), "/restored", options()).unwrap();
    assert_eq!(pairs(restored.iter().unwrap()), whole);
    db.flush().unwrap();
    let all = files(&*fs, dir());
    let repaired = |all: &[(String, Vec<u8>)]| {
        let fs = image(dir(), all);
        let report = Db::repair_on(fs.clone(), dir(), options()).unwrap();
        let db = Db::open_on(fs, dir(), options()).unwrap();
        (report, pairs(db.iter().unwrap()))
    };
    let (report, found) = repaired(&all);
    assert!(report.manifest_readable && report.lost.is_empty() && found == whole, "{report:?}");
    // Without a manifest the stamp of each table says which version is newer.
    let is_manifest = |name: &str| name.starts_with("manifest") || name == "CURRENT";
    let without: Vec<_> = all.iter().filter(|(name, _)| !is_manifest(name)).cloned().collect();
    let (report, found) = repaired(&without);
    assert!(!report.manifest_readable && found == whole, "{:?}", report.lost);
    // A stamp that a crash lost is no damage where the manifest has the number.
    let mut unstamped = all.clone();
    let mut stamps = 0;
    for (name, bytes) in &mut unstamped {
        let Some(at) = bytes.len().checked_sub(96 + 16).filter(|_| name.ends_with(".sst")) else {
            continue;
        };
        let stamp = &mut bytes[at..at + 16];
        if stamp[3..8] == [0; 5] && stamp[..3] != [0; 3] {
            stamp.fill(0);
            stamps += 1;
        }
    }
    assert_eq!(stamps, 2);
    let db = Db::open_on(image(dir(), &unstamped), dir(), options()).unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    assert_eq!(pairs(db.iter().unwrap()), whole);
    let (report, found) = repaired(&unstamped);
    assert!(report.lost.is_empty() && found == whole, "{report:?}");
    // Without both, the table is listed as lost and not served as the oldest data.
    unstamped.retain(|(name, _)| !is_manifest(name));
    let (report, _) = repaired(&unstamped);
    assert_eq!(report.lost.iter().filter(|l| l.contains("did not complete")).count(), 2);
}

#[test]
fn readers_see_all_of_an_ingest_or_nothing_while_writers_write() {
    let fs = disk();
    let options = Options { background_threads: Some(2), ..options() };
    let db = open(&fs, &options);
    let (stop, scans, rounds) = (AtomicBool::new(false), AtomicU64::new(0), 12);
    let of_round = |round: u32| keys(0..60, &format!("{round:03}"));
    ingest(&db, &[file_of(&fs, "first", &options, of_round(0))]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot();
                    let read = esker::ReadOptions::default().snapshot(&snapshot);
                    let range = (std::ops::Bound::Included(b"key".to_vec()), std::ops::Bound::Excluded(b"kez".to_vec()));
                    let seen = || {
                        let pairs = pairs(db.iter_with(&read, range.clone()).unwrap());
                        let rounds: Vec<Vec<u8>> =
                            pairs.iter().map(|(_, v)| v[..3].to_vec()).collect();
                        assert_eq!(rounds.len(), 60);
                        assert!(rounds.iter().all(|r| *r == rounds[0]), "{rounds:?}");
                        String::from_utf8(rounds[0].clone()).unwrap().parse::<u32>().unwrap()
                    };
                    let (first, again) = (seen(), seen());
                    assert_eq!(first, again, "a snapshot changed");
                    assert!(first >= last);
                    last = first;
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let mut n = 0u32;
            while !stop.load(Ordering::Relaxed) {
                // Beside the range, and inside of it where a file has no key.
                db.put(format!("other{:04}", n % 500), "x").unwrap();
                n += 1;
            }
        });
        for round in 1..=rounds {
            if round % 3 == 0 {
                db.bulk_load(of_round(round)).unwrap();
            } else {
                let name = format!("round{round}");
                ingest(&db, &[file_of(&fs, &name, &options, of_round(round))]);
            }
            // Readers see each round, or nearly each.
            let seen = scans.load(Ordering::Relaxed);
            while scans.load(Ordering::Relaxed) < seen + 2 {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(get(&db, "key00007").unwrap(), format!("{rounds:03} 7"));
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}

#[test]
fn concurrent_writers_of_the_same_keys_are_ordered_with_the_ingest() {
    let fs = disk();
    let options = Options { background_threads: Some(2), ..options() };
    let db = open(&fs, &options);
    let (stop, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let n = puts.fetch_add(1, Ordering::Relaxed);
                db.put("key00003", format!("put {n:09}")).unwrap();
                let found = get(&db, "key00003").unwrap();
                // Its own put, or an ingest that came after it; never an older put.
                let own = format!("put {n:09}");
                assert!(found == own || found.starts_with("ingest"), "{found} after {own}");
            }
        });
        let mut round = 0;
        while round < 15 || puts.load(Ordering::Relaxed) < 100 {
            let name = format!("round{round}");
            ingest(&db, &[file_of(&fs, &name, &options, keys(0..9, "ingest"))]);
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
    db.close().unwrap();
    let before = get(&open(&fs, &options), "key00003");
    assert!(before.is_some());
}

#[test]
fn files_take_the_deepest_level_that_is_right() {
    for policy in Policy::ALL {
        let options = Options { policy: *policy, ..options() };
        let fs = disk();
        let db = open(&fs, &options);
        let level = |report: &IngestReport| report.levels.iter().position(|n| *n > 0).unwrap();
        let first = db.bulk_load(keys(0..1000, "a")).unwrap();
        let deepest = level(&first);
        assert!(deepest >= 1, "{policy}");
        // Beside it: as deep. Over it: above it. Over both: above those.
        let beside = ingest(&db, &[file_of(&fs, "1", &options, keys(2000..2010, "b"))]);
        assert_eq!(level(&beside), deepest, "{policy}");
        let over = ingest(&db, &[file_of(&fs, "2", &options, keys(500..510, "c"))]);
        assert_eq!(level(&over), deepest - 1, "{policy}");
        let mut above = level(&over);
        while above > 0 {
            let path = file_of(&fs, &format!("over{above}"), &options, keys(500..510, "d"));
            let report = ingest(&db, &[path]);
            assert_eq!(level(&report), above - 1, "{policy}");
            above -= 1;
        }
        let top = ingest(&db, &[file_of(&fs, "top", &options, keys(490..520, "e"))]);
        assert_eq!(level(&top), 0, "{policy}");
        // Two files of one ingest, each in its own place.
        let two = [
            file_of(&fs, "low", &options, keys(505..506, "f")),
            file_of(&fs, "high", &options, keys(3000..3001, "f")),
        ];
        let two = ingest(&db, &two);
        assert_eq!((two.levels[0], two.levels[deepest]), (1, 1), "{policy}");
        let check = |db: &Db| {
            assert_eq!(get(db, "key00505").unwrap(), "f 505", "{policy}");
            assert_eq!(get(db, "key00500").unwrap(), "e 500", "{policy}");
            assert_eq!(get(db, "key00480").unwrap(), "a 480", "{policy}");
            assert_eq!(db.iter().unwrap().count(), 1011, "{policy}");
        };
        check(&db);
        db.wait_idle().unwrap();
        check(&db);
        db.compact_range(None, None).unwrap();
        check(&db);
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    }
}

#[test]
fn files_are_read_by_every_layout_compression_and_filter() {
    for layout in BlockLayout::ALL {
        for compression in Compression::ALL {
            for filter_bits_per_key in [0.0, 10.0] {
                let file = Options {
                    block_layout: *layout,
                    compression: *compression,
                    filter_bits_per_key,
                    ..options()
                };
                if !compression.is_built_in() {
                    continue;
                }
                let fs = disk();
                let db = open(&fs, &options());
                let large = "large".repeat(300_000);
                let mut written = keys(0..400, "value");
                written[7].1.clone_from(&large);
                let path = file_of(&fs, "a", &file, written.clone());
                ingest(&db, &[path]);
                for (key, value) in &written {
                    assert_eq!(get(&db, key).as_ref(), Some(value), "{layout:?} {compression:?}");
                }
                assert_eq!(get(&db, "key0"), None);
                let found = db.multi_get(&["key00000", "key00400", "key00399"]).unwrap();
                let found: Vec<bool> = found.iter().map(Option::is_some).collect();
                assert_eq!(found, [true, false, true]);
            }
        }
    }
}

#[test]
fn a_closed_and_a_read_only_store_take_no_files() {
    let fs = disk();
    let db = open(&fs, &options());
    db.put("a", "1").unwrap();
    let path = file_of(&fs, "a", &options(), [("b", "1")]);
    db.clone().close().unwrap();
    let closed = db.ingest(&[&path], &IngestOptions::default()).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
    let db = Db::open_read_only_on(fs.clone(), dir(), options()).unwrap();
    let refused = db.ingest(&[&path], &IngestOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    assert_eq!(db.bulk_load([("c", "1")]).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert!(fs.exists(&path).unwrap());
}

#[test]
fn hints_of_empty_ranges_hide_no_ingested_key() {
    let fs = disk();
    let options = Options { background_threads: Some(1), ..options() };
    let db = open(&fs, &options);
    db.bulk_load(keys(0..2000, "old")).unwrap();
    db.delete_range("key00100", "key01900").unwrap();
    for n in 100..1900 {
        db.delete(format!("key{n:05}")).unwrap();
    }
    // A search may or may not have ended; the reads below are right in both cases.
    for round in 0..20 {
        let n = 200 + round * 7;
        let path = file_of(&fs, &format!("{round}"), &options, keys(n..n + 1, "new"));
        ingest(&db, &[path]);
        let mut iter = db.iter().unwrap();
        iter.seek("key00150").unwrap();
        assert_eq!(iter.next().unwrap().unwrap().0, b"key00200");
        assert_eq!(db.iter().unwrap().count(), 200 + round as usize + 1);
    }
}
