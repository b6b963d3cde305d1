//! Encrypted stores: the same content as without encryption, also after a crash; nothing in plain;
//! keys; copies.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker::encryption::{EncryptedFs, KeyError, MasterKey};
use esker::feed::SlotOptions;
use esker::fs::{Fs, MemFs};
use esker::{Db, Error, ErrorKind, Options, ValueSeparation, WriteOptions};
use esker_testkit::crash::{CrashFs, CrashModel};

use super::common::{bounded_options, files, image, pairs};

const MARKER: &str = "a value that no file may show";

fn dir() -> &'static Path {
    Path::new("/db")
}

fn key(byte: u8) -> MasterKey {
    MasterKey::from_bytes([byte; 32])
}

fn over(inner: &Arc<MemFs>, byte: u8) -> Arc<dyn Fs> {
    EncryptedFs::new(inner.clone(), key(byte))
}

fn open(fs: &Arc<dyn Fs>, path: &Path) -> Db {
    Db::open_on(fs.clone(), path, bounded_options()).unwrap()
}

fn assert_hidden(inner: &MemFs, path: &Path) {
    let names: Vec<String> = inner.list(path).unwrap().into_iter().map(|e| e.name).collect();
    assert!(names.iter().any(|name| name == "KEYS"), "{names:?}");
    for (name, bytes) in files(inner, path) {
        let shown = bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes());
        assert!(!shown, "{name} shows the value");
        let plain = ["LOCK", "KEYS"].contains(&name.as_str());
        assert!(plain || bytes.starts_with(b"ESKCRYPT"), "{name} is not encrypted");
    }
}

#[test]
fn encrypted_store_keeps_random_writes_across_reopenings_and_shows_no_value() {
    let inner = MemFs::new();
    let fs = over(&inner, 1);
    let mut db = open(&fs, dir());
    let mut want = BTreeMap::new();
    let mut state = 7u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % bound
    };
    for step in 0..700u32 {
        let key = format!("key{:03}", below(300));
        match below(40) {
            0 => db.flush().unwrap(),
            1 if step % 5 == 0 => db.compact_all().unwrap(),
            2 | 3 => {
                db.close().unwrap();
                assert_hidden(&inner, dir());
                db = open(&fs, dir());
            }
            4..=9 => {
                db.delete(&key).unwrap();
                want.remove(key.as_bytes());
            }
            _ => {
                let value = format!("{MARKER} {step} {}", "x".repeat(below(900) as usize));
                db.put(&key, &value).unwrap();
                want.insert(key.into_bytes(), value.into_bytes());
            }
        }
        if step % 100 == 0 {
            let found = pairs(db.iter().unwrap());
            assert!(found.into_iter().eq(want.clone()), "step {step}");
        }
    }
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert_hidden(&inner, dir());
    let reader = Db::open_read_only_on(fs.clone(), dir(), bounded_options()).unwrap();
    assert!(pairs(reader.iter().unwrap()).into_iter().eq(want));
}

#[test]
fn crash_of_an_encrypted_store_keeps_all_synced_writes() {
    let disk = CrashFs::seeded(5);
    let images = Arc::new(std::sync::Mutex::new(Vec::new()));
    let synced = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let (count, kept) = (Arc::new(std::sync::atomic::AtomicU64::new(0)), images.clone());
    let acknowledged = synced.clone();
    let fs: Arc<dyn Fs> = EncryptedFs::new(disk.clone(), key(1));
    let db = Db::open_on(fs, dir(), bounded_options()).unwrap();
    disk.watch(move |disk| {
        let at = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let models = CrashModel::all(at);
        let model = models[at as usize % models.len()];
        let known = acknowledged.load(std::sync::atomic::Ordering::SeqCst);
        kept.lock().unwrap().push((known, model.name(), disk.crash_image(model)));
    });
    for i in 0..60u32 {
        db.put_with(format!("key{i:03}"), format!("{MARKER} {i}"), &WriteOptions::SYNC).unwrap();
        synced.store(i + 1, std::sync::atomic::Ordering::SeqCst);
        if i % 20 == 10 {
            db.flush().unwrap();
        }
        if i == 45 {
            db.compact_all().unwrap();
        }
    }
    disk.unwatch();
    db.close().unwrap();
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 100, "{}", images.len());
    for (at, (known, model, inner)) in images.into_iter().enumerate() {
        let fs = over(&inner, 1);
        let db = Db::open_on(fs, dir(), bounded_options())
            .unwrap_or_else(|error| panic!("crash {at} ({model}): {error}"));
        let found = pairs(db.iter().unwrap());
        assert!(found.len() as u32 >= known, "crash {at} ({model}): {} of {known}", found.len());
        for (i, (key, value)) in found.iter().enumerate() {
            assert_eq!(key, format!("key{i:03}").as_bytes(), "crash {at} ({model})");
            assert_eq!(value, format!("{MARKER} {i}").as_bytes(), "crash {at} ({model})");
        }
    }
}

#[test]
fn flipped_byte_in_an_encrypted_store_never_gives_wrong_data() {
    let inner = MemFs::new();
    let fs = over(&inner, 1);
    let db = open(&fs, dir());
    for i in 0..40 {
        db.put(format!("key{i:03}"), format!("{MARKER} {i}")).unwrap();
        if i == 30 {
            db.flush().unwrap();
        }
    }
    let want = pairs(db.iter().unwrap());
    db.close().unwrap();
    let all = files(&*inner, dir());
    let (mut tried, mut noticed) = (0, 0);
    for (index, (name, bytes)) in all.iter().enumerate() {
        let is_side = ["LOCK", "LOG", "STATUS"].contains(&name.as_str());
        // Each byte of a page is as good as the next; the file system's own test flips them all.
        for at in (0..bytes.len()).step_by(if is_side { 197 } else { 23 }) {
            let mut bad = all.clone();
            bad[index].1[at] ^= 1 << (at % 8);
            tried += 1;
            let fs = over(&image(dir(), &bad), 1);
            let read = Db::open_on(fs, dir(), bounded_options())
                .and_then(|db| db.iter()?.collect::<esker::Result<Vec<_>>>());
            match read {
                Ok(found) if found == want => {}
                Ok(found) => {
                    let is_prefix = name.ends_with(".wal") && want.starts_with(&found);
                    assert!(is_prefix, "{name} at {at}: wrong data");
                    noticed += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{name} at {at}: {error}");
                    noticed += 1;
                }
            }
        }
    }
    assert!(noticed * 3 > tried, "{noticed} of {tried}");
}

#[test]
fn wrong_key_no_key_and_needless_key_are_refused_by_name() {
    let inner = MemFs::new();
    open(&over(&inner, 1), dir()).close().unwrap();
    let before = files(&*inner, dir());
    let refused = |opened: esker::Result<Db>, expected: &str| {
        let error: Error = opened.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let wrong = format!("the key {:?} does not open this store", key(2).id());
    refused(Db::open_on(over(&inner, 2), dir(), Options::default()), &wrong);
    refused(Db::open_read_only_on(over(&inner, 2), dir(), Options::default()), &wrong);
    let repaired = Db::repair_on(over(&inner, 2), dir(), Options::default());
    assert!(repaired.unwrap_err().to_string().contains(&wrong));
    let missing = "the store is encrypted; open it with its key";
    refused(Db::open_on(inner.clone(), dir(), Options::default()), missing);
    refused(Db::open_read_only_on(inner.clone(), dir(), Options::default()), missing);
    assert!(Db::repair_on(inner.clone(), dir(), Options::default()).is_err());
    let needless = "the store is not encrypted, but a key was given";
    let plain = Path::new("/plain");
    Db::open_on(inner.clone(), plain, Options::default()).unwrap().close().unwrap();
    refused(Db::open_on(over(&inner, 1), plain, Options::default()), needless);
    let silent = |_: Option<&str>| -> Result<MasterKey, KeyError> { Err("no such key".into()) };
    let silent = EncryptedFs::new(inner.clone(), silent);
    refused(Db::open_on(silent, dir(), Options::default()), "no such key");
    let without_lock = |all: Vec<(String, Vec<u8>)>| {
        all.into_iter().filter(|(name, _)| name != "LOCK").collect::<Vec<_>>()
    };
    assert!(without_lock(before) == without_lock(files(&*inner, dir())), "refusals change nothing");
    // A store can be removed without its key.
    Db::destroy_on(inner.clone(), dir()).unwrap();
    assert!(!inner.exists(dir()).unwrap());
}

#[test]
fn copies_of_an_encrypted_store_are_encrypted_and_open_with_its_key() {
    let inner = MemFs::new();
    let fs = over(&inner, 1);
    let db = open(&fs, dir());
    for i in 0..300 {
        db.put(format!("key{i:03}"), format!("{MARKER} {i}")).unwrap();
    }
    let want = pairs(db.iter().unwrap());
    db.checkpoint("/checkpoint").unwrap();
    db.fork("/fork").unwrap();
    let first = db.backup("/backups").unwrap();
    db.put("key999", MARKER).unwrap();
    let second = db.backup("/backups").unwrap();
    assert!(second.linked_files > 0, "{second:?}");
    Db::restore_on(fs.clone(), "/backups", Some(first.number), "/restored", bounded_options())
        .unwrap();
    db.close().unwrap();
    for path in ["/checkpoint", "/fork", "/restored"] {
        let path = Path::new(path);
        assert_hidden(&inner, path);
        let copy = open(&fs, path);
        assert_eq!(pairs(copy.iter().unwrap()), want);
        copy.put("more", MARKER).unwrap();
        copy.close().unwrap();
        assert!(Db::open_on(inner.clone(), path, bounded_options()).is_err());
    }
    assert_hidden(&inner, &second.path);
    let report = Db::repair_on(fs.clone(), dir(), bounded_options()).unwrap();
    assert!(report.lost.is_empty(), "{report:?}");
    assert_hidden(&inner, dir());
    assert_eq!(pairs(open(&fs, dir()).iter().unwrap()).len(), want.len() + 1);
}

#[test]
fn value_files_ingests_and_their_feed_are_encrypted_too() {
    let inner = MemFs::new();
    let fs = over(&inner, 1);
    let values = ValueSeparation::From(100);
    let options = Options { value_separation_min_bytes: values, ..bounded_options() };
    let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
    let slot = db.subscribe("copy", &SlotOptions::default()).unwrap();
    let value = |n: u64| format!("{MARKER} {n} {}", "x".repeat(200));
    for n in 0..200 {
        db.put(format!("put{n:03}"), value(n)).unwrap();
    }
    db.flush().unwrap();
    assert!(db.metrics().value_files > 0);
    db.bulk_load((0..200).map(|n| (format!("load{n:03}"), value(n)))).unwrap();
    // In several pieces.
    let long = value(1).repeat(700);
    db.put_reader("streamed", long.as_bytes()).unwrap();
    db.compact_all().unwrap();
    drop(slot);
    db.close().unwrap();
    assert_hidden(&inner, dir());
    let names: Vec<String> = inner.list(dir()).unwrap().into_iter().map(|e| e.name).collect();
    assert!(names.iter().any(|name| name.starts_with("ingested-")), "{names:?}");

    let db = Db::open_on(fs, dir(), options).unwrap();
    assert_eq!(pairs(db.iter().unwrap()).len(), 401);
    let mut reader = db.get_reader("streamed").unwrap().unwrap();
    let mut read = String::new();
    std::io::Read::read_to_string(&mut reader, &mut read).unwrap();
    assert!(read == long);
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    let mut fed = 0;
    for batch in db.changes(0).unwrap() {
        fed += batch.unwrap().changes.len();
    }
    assert_eq!(fed, 401);
}

#[test]
fn rekey_moves_a_store_to_a_new_master_key_and_merges_drop_the_old_data_key() {
    let inner = MemFs::new();
    let db = open(&over(&inner, 1), dir());
    for i in 0..300 {
        db.put(format!("key{i:03}"), format!("{MARKER} {i}")).unwrap();
    }
    db.flush().unwrap();
    let want = pairs(db.iter().unwrap());
    let held = Db::rekey_on(inner.clone(), dir(), &key(1), &key(2));
    assert_eq!(held.unwrap_err().kind(), ErrorKind::Locked);
    db.close().unwrap();
    let refused = Db::rekey_on(inner.clone(), dir(), &key(3), &key(2)).unwrap_err();
    assert!(refused.to_string().contains("does not open this store"), "{refused}");
    let report = Db::rekey_on(inner.clone(), dir(), &key(1), &key(2)).unwrap();
    assert_eq!((report.from.as_str(), report.to.as_str()), (key(1).id(), key(2).id()));
    assert!(Db::open_on(over(&inner, 1), dir(), bounded_options()).is_err());
    let fs = over(&inner, 2);
    let db = open(&fs, dir());
    assert_eq!(pairs(db.iter().unwrap()), want);
    db.put("after", MARKER).unwrap();
    db.compact_all().unwrap();
    db.close().unwrap();
    assert_hidden(&inner, dir());
    let again = Db::rekey_on(inner.clone(), dir(), &key(2), &key(2)).unwrap();
    assert!(again.data_keys >= 1, "{again:?}");
    assert_eq!(pairs(open(&fs, dir()).iter().unwrap()).len(), want.len() + 1);
}
