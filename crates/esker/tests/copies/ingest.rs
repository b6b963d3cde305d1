//! Ingests and bulk loads: what is refused, what readers see, and that tables without sequence
//! numbers of their own behave as any other in every place that reads tables.
//!
//! These tests guard against: an ingest that is visible in part; an older write of the memtable that
//! hides an ingested pair; a snapshot that changes; a file that is used up although nothing was
//! installed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::sorted_files::{dir, disk, file_of, get, ingest, keys, open, options};
use crate::common::{files, image, pairs};
use esker::fs::{Fs, MemFs};
use esker::ingest::{IngestOptions, IngestReport, SortedWriter};
use esker::{
    BlockLayout, Compression, Db, ErrorKind, KeyOrder, KeyspaceOptions, Options, Policy,
    built_in_merge_operator,
};

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
            let report = ingest(&db, std::slice::from_ref(&path));
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
fn ingest_flushes_what_was_written_before() {
    let fs = disk();
    let db = open(&fs, &options());
    db.put("a", "1").unwrap();
    db.put("z", "1").unwrap();
    let apart = file_of(&fs, "apart", &options(), [("m", "1"), ("n", "2")]);
    let report = ingest(&db, &[apart]);
    assert!(report.flushed);
    assert_eq!(db.metrics().flushes, 1);
    let both = [
        file_of(&fs, "left", &options(), [("b", "3"), ("c", "4")]),
        file_of(&fs, "right", &options(), [("y", "5"), ("zz", "6")]),
    ];
    let report = ingest(&db, &both);
    assert!(!report.flushed, "nothing was written since the last ingest");
    assert_eq!((db.metrics().flushes, db.metrics().ingests), (1, 2));
    // A range tombstone counts, too.
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
    assert_eq!(ingest(&db, std::slice::from_ref(&empty)).files, 0);
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
    let failed = db.try_bulk_load(failing);
    assert!(matches!(failed, Err(Failed::Source(e)) if e.to_string().contains("ended early")));
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
    assert!(matches!(failed, Failed::Store(e) if e.kind() == ErrorKind::InvalidArgument));
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
