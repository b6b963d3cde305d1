//! The golden stores with everything that a store can have: keyspaces, merge operands, pairs that
//! expire, range deletes, value files, dictionaries, ingested tables, a slot, a prepared transaction,
//! the lineage of a fork, encryption, and from version 2 on a streamed value.
//!
//! The content is computed without a store ([`expected`]), by the same script that writes one.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use esker::encryption::{EncryptedFs, MasterKey};
use esker::feed::{Change, SlotOptions};
use esker::fork::ForkOptions;
use esker::fs::{Fs, MemFs};
use esker::ingest::{IngestOptions, SortedWriter};
use esker::{
    Clock, Compression, Db, Keyspace, KeyspaceOptions, MemtableKind, Options, TransactionOptions,
    ValueSeparation, WriteOptions, built_in_merge_operator,
};

use super::{DIR, Files, common};

/// The time at which the stores were written, in milliseconds since 1970: in 2001.
const WRITTEN_MS: u64 = 1_000_000_000_000;
/// Time to live of the pairs that stay: until 2318.
const LONG: Duration = Duration::from_secs(10_000_000_000);
const STREAMED_BYTES: usize = 150_000;

struct Then;

impl Clock for Then {
    fn now_ms(&self) -> u64 {
        WRITTEN_MS
    }
}

/// A golden store with everything.
pub struct Golden {
    pub name: String,
    pub format: u32,
    pub is_closed: bool,
    pub is_encrypted: bool,
}

/// Returns the stores of each version, closed and killed, and encrypted ones.
pub fn all() -> Vec<Golden> {
    let of = |(format, end): (u32, &str)| Golden {
        name: format!("v{format}-all-{end}"),
        format,
        is_closed: end == "closed",
        is_encrypted: end == "encrypted",
    };
    let ends = ["closed", "killed", "encrypted"];
    (1..=2).flat_map(|format| ends.map(|end| (format, end))).map(of).collect()
}

impl Golden {
    /// Returns the file system of the store over that of its files.
    pub fn over(&self, inner: &Arc<MemFs>) -> Arc<dyn Fs> {
        match self.is_encrypted {
            true => EncryptedFs::new(inner.clone(), MasterKey::from_bytes([0x5a; 32])),
            false => inner.clone(),
        }
    }

    /// An encrypted store is small, because its fixture cannot be compressed.
    fn has_long_parts(&self) -> bool {
        !self.is_encrypted
    }

    fn has_streamed_value(&self) -> bool {
        self.format >= 2 && self.has_long_parts()
    }
}

/// Returns the options with which the stores were written, with the clock of this machine.
pub fn options(format: u32) -> Options {
    Options {
        format_version: u64::from(format),
        merge_operator: built_in_merge_operator("append(,)"),
        value_separation_min_bytes: ValueSeparation::From(200),
        block_size_bytes: 512,
        memtable_size_bytes: Some(1 << 20),
        memtable_kind: MemtableKind::Btree,
        compression: Compression::None,
        background_threads: Some(0),
        log_file: false,
        status_file: false,
        ..Options::default()
    }
}

/// The content of a store: for each keyspace its pairs.
type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Applies each operation to the content, and to the store if there is one.
struct Script<'a> {
    db: Option<&'a Db>,
    content: Content,
}

impl Script<'_> {
    fn on(&mut self, name: &str, write: impl Fn(&Keyspace)) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
        if let Some(db) = self.db {
            write(&db.existing_keyspace(name).unwrap().unwrap());
        }
        self.content.get_mut(name).unwrap()
    }

    fn create(&mut self, name: &str, options: KeyspaceOptions) {
        if let Some(db) = self.db {
            db.keyspace(name, &options).unwrap();
        }
        self.content.insert(name.to_string(), BTreeMap::new());
    }

    fn put(&mut self, name: &str, key: &str, value: &[u8]) {
        let content = self.on(name, |keyspace| keyspace.put(key, value).unwrap());
        content.insert(key.into(), value.into());
    }

    fn put_with_ttl(&mut self, key: &str, value: &str, ttl: Duration) {
        let content =
            self.on("default", |keyspace| keyspace.put_with_ttl(key, value, ttl).unwrap());
        // The store is read in another time.
        if ttl == LONG {
            content.insert(key.into(), value.into());
        }
    }

    fn delete(&mut self, name: &str, key: &str) {
        self.on(name, |keyspace| keyspace.delete(key).unwrap()).remove(key.as_bytes());
    }

    fn delete_range(&mut self, name: &str, start: &str, end: &str) {
        let content = self.on(name, |keyspace| keyspace.delete_range(start, end).unwrap());
        content
            .retain(|key, _| key.as_slice() < start.as_bytes() || key.as_slice() >= end.as_bytes());
    }

    fn merge(&mut self, name: &str, key: &str, operand: &str, result: &str) {
        let content = self.on(name, |keyspace| keyspace.merge(key, operand).unwrap());
        content.insert(key.into(), result.into());
    }

    fn with_store(&self, what: impl FnOnce(&Db)) {
        if let Some(db) = self.db {
            what(db);
        }
    }
}

fn value(i: u32, round: u32) -> Vec<u8> {
    let mut value = format!("{i} in round {round} ").into_bytes();
    let len = if i.is_multiple_of(7) { 260 } else { 25 };
    value.resize(len + i as usize % 30, b'a' + (i % 26) as u8);
    value
}

fn line(n: u32) -> Vec<u8> {
    let (id, cents) = (n.wrapping_mul(2_654_435_761) >> 8, n * n % 9_973);
    format!("{{\"identifier\":{id},\"country\":\"Switzerland\",\"paid\":true,\"cents\":{cents}}}")
        .into()
}

fn streamed(i: usize) -> u8 {
    (i % 251) as u8
}

fn keyspaces(script: &mut Script<'_>) {
    let plain = KeyspaceOptions::default;
    script.create("plain", plain());
    script.create("reverse", plain().key_order(esker::KeyOrder::Reverse));
    script.create("counters", plain().merge_operator("add_i64"));
    script.create("sessions", plain().ttl(LONG));
    let zstd = plain().set("compression", "zstd").unwrap();
    script.create("lines", zstd.set("compression_dictionary_max_bytes", "1024").unwrap());
    script.create("gone", plain());
    script.create("old name", plain());
    script.put("gone", "a", b"1");
    script.put("old name", "a", b"1");
    script.with_store(|db| {
        db.drop_keyspace("gone").unwrap();
        db.rename_keyspace("old name", "new name").unwrap();
    });
    script.content.remove("gone");
    let renamed = script.content.remove("old name").unwrap();
    script.content.insert("new name".to_string(), renamed);
}

fn first_round(script: &mut Script<'_>, golden: &Golden) {
    for i in 0..40 {
        script.put("default", &format!("user/{i:03}"), &value(i, 0));
        if i < 20 {
            script.put("plain", &format!("{i:03}"), &value(i, 0));
            script.put("reverse", &format!("{i:03}"), &value(i, 0));
        }
    }
    for n in 0..if golden.has_long_parts() { 150 } else { 0 } {
        script.put("lines", &format!("{n:05}"), &line(n));
    }
    script.put("sessions", "ada", b"signed in");
    script.merge("default", "visitors", "ada", "ada");
    script.merge("counters", "visits", "5", "5");
    script.put_with_ttl("late", "is shown until 2318", LONG);
    script.put_with_ttl("soon", "is not shown", Duration::from_secs(60));
    script.with_store(|db| db.flush().unwrap());
}

fn second_round(script: &mut Script<'_>) {
    script.with_store(|db| drop(db.subscribe("replica", &SlotOptions::default()).unwrap()));
    for i in 0..40 {
        match i % 5 {
            0 => script.delete("default", &format!("user/{i:03}")),
            1 | 2 => script.put("default", &format!("user/{i:03}"), &value(i, 1)),
            _ => {}
        }
    }
    script.delete_range("default", "user/030", "user/035");
    script.delete_range("plain", "005", "008");
    script.merge("default", "visitors", "bob", "ada,bob");
    script.merge("counters", "visits", "-7", "-2");
    script.with_store(|db| {
        db.flush().unwrap();
        // The other tables stay in level 0, with their operands and range tombstones.
        db.compact_range(Some(b"user/".as_slice()), Some(b"user/9".as_slice())).unwrap();
        db.existing_keyspace("lines").unwrap().unwrap().compact_range(None, None).unwrap();
    });
}

/// What is written as tables, and the end of the log.
fn last_round(script: &mut Script<'_>, golden: &Golden, fs: &Arc<dyn Fs>) {
    let key = |i: u32| format!("ingested/{i:02}");
    script.with_store(|db| {
        let file = Path::new("/out.sst");
        let mut writer =
            SortedWriter::create_on(fs.clone(), file, &options(golden.format)).unwrap();
        (0..12).for_each(|i| writer.put(key(i), value(i, 2)).unwrap());
        writer.finish().unwrap();
        db.ingest(&[file], &IngestOptions::default()).unwrap();
    });
    let pairs = (0..12).map(|i| (key(i).into(), value(i, 2)));
    script.content.get_mut("default").unwrap().extend(pairs);
    if golden.has_streamed_value() {
        let bytes: Vec<u8> = (0..STREAMED_BYTES).map(streamed).collect();
        script.with_store(|db| {
            assert_eq!(db.put_reader("film", &bytes[..]).unwrap(), STREAMED_BYTES as u64);
        });
        script.content.get_mut("default").unwrap().insert("film".into(), bytes);
    }
    script.merge("default", "visitors", "cy", "ada,bob,cy");
    script.with_store(|db| {
        let transaction = db.transaction(TransactionOptions::default());
        transaction.put("prepared", "is shown after the commit").unwrap();
        transaction.prepare("pending").unwrap();
        db.put_with("last", "of the log", &WriteOptions::SYNC).unwrap();
    });
    script.content.get_mut("default").unwrap().insert("last".into(), "of the log".into());
}

fn run(golden: &Golden, store: Option<(&Db, &Arc<dyn Fs>)>) -> Content {
    let mut script = Script { db: store.map(|(db, _)| db), content: Content::new() };
    let of_parent = BTreeMap::from([("parent".into(), "of the fork".into())]);
    script.content.insert("default".to_string(), of_parent);
    keyspaces(&mut script);
    first_round(&mut script, golden);
    second_round(&mut script);
    let none: Arc<dyn Fs> = MemFs::new();
    last_round(&mut script, golden, store.map_or(&none, |(_, fs)| fs));
    script.content
}

/// Returns the content of the store.
pub fn expected(golden: &Golden) -> Content {
    run(golden, None)
}

/// Writes the store.
pub fn make(golden: &Golden) -> Files {
    let inner = MemFs::new();
    let fs = golden.over(&inner);
    let mut options = Options { clock: Some(Arc::new(Then)), ..options(golden.format) };
    options.thresholds.streamed_put_bytes_max = 1_000;
    let parent = Db::open_on(fs.clone(), "/parent", options.clone()).unwrap();
    parent.put("parent", "of the fork").unwrap();
    parent.fork_with(DIR, &ForkOptions::default().name("golden")).unwrap();
    let db = Db::open_on(fs.clone(), DIR, options).unwrap();
    // The table to ingest lies outside the store, in plain.
    let plain: Arc<dyn Fs> = inner.clone();
    run(golden, Some((&db, &plain)));
    if golden.is_closed {
        db.close().unwrap();
        return common::files(&*inner, Path::new(DIR));
    }
    common::files(&*inner, Path::new(DIR))
}

fn content_of(db: &Db) -> Content {
    let of = |name: String| {
        let keyspace = db.existing_keyspace(&name).unwrap().unwrap();
        let pairs = common::pairs(keyspace.iter().unwrap());
        let mut back: Vec<_> = keyspace.iter().unwrap().rev().map(Result::unwrap).collect();
        back.reverse();
        assert_eq!(pairs, back, "{name}");
        for (key, value) in &pairs {
            assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&value[..]), "{name}");
        }
        (name, pairs.into_iter().collect())
    };
    db.keyspaces().into_iter().map(of).collect()
}

/// Checks that the store is whole and has the expected content.
fn check_content(db: &Db, want: &Content, what: &str) {
    let found = content_of(db);
    assert!(found.keys().eq(want.keys()), "{what}: {:?}", found.keys());
    for (name, pairs) in want {
        assert!(found[name] == *pairs, "{what}: the keyspace \"{name}\" differs");
    }
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert!(report.is_whole() && report.files > 0, "{what}: {:?}", report.problems);
    assert_eq!(u64::from(report.format_version), db.metrics().format_version, "{what}");
}

/// Checks what is not in the pairs: lineage, expiry, slot, prepared transaction.
fn check_rest(db: &Db, golden: &Golden) {
    let what = &golden.name;
    assert_eq!(db.lineage().name.as_deref(), Some("golden"), "{what}");
    let (_, expires) = db.get_with_expiry("late").unwrap().unwrap();
    assert_eq!(expires, Some(WRITTEN_MS + LONG.as_millis() as u64), "{what}");
    assert_eq!(db.prepared_transactions(), ["pending"], "{what}");
    let mut puts = Vec::new();
    for batch in db.slot("replica").unwrap().changes().unwrap() {
        for change in batch.unwrap().changes {
            if let Change::Put { key, .. } = change {
                puts.push(String::from_utf8(key).unwrap());
            }
        }
    }
    for key in ["user/001", "ingested/00", "ingested/11", "last"] {
        assert_eq!(puts.iter().filter(|put| *put == key).count(), 1, "{what}: {key}");
    }
    assert!(!puts.contains(&"user/003".to_string()), "{what}: before the slot");
    if golden.has_streamed_value() {
        let mut film = Vec::new();
        db.get_reader("film").unwrap().unwrap().read_to_end(&mut film).unwrap();
        assert!(film.iter().copied().eq((0..STREAMED_BYTES).map(streamed)), "{what}");
    }
}

/// Opens the store, checks it, uses it, upgrades it, and uses it again.
pub fn check(golden: &Golden, inner: &Arc<MemFs>, options: &Options) {
    let (what, fs) = (&golden.name, golden.over(inner));
    let options = Options { create_if_missing: false, ..options.clone() };
    let open =
        || Db::open_on(fs.clone(), DIR, options.clone()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let mut want = expected(golden);
    let reader = Db::open_read_only_on(fs.clone(), DIR, options.clone()).unwrap();
    check_content(&reader, &want, what);
    drop(reader);
    let db = open();
    assert_eq!(db.metrics().format_version, u64::from(golden.format), "{what}");
    check_content(&db, &want, what);
    check_rest(&db, golden);
    db.put("written", "now").unwrap();
    db.commit_prepared("pending").unwrap();
    let default = want.get_mut("default").unwrap();
    default.insert("written".into(), "now".into());
    default.insert("prepared".into(), "is shown after the commit".into());
    db.compact_all().unwrap();
    check_content(&db, &want, what);
    db.close().unwrap();
    let db = open();
    assert_eq!(db.metrics().format_version, u64::from(golden.format), "{what}: nobody upgraded it");
    db.upgrade_format(2).unwrap();
    check_content(&db, &want, what);
    let long = vec![7; 600 << 10];
    db.put_reader("streamed", &long[..]).unwrap();
    want.get_mut("default").unwrap().insert("streamed".into(), long);
    db.close().unwrap();
    let db = open();
    assert_eq!(db.metrics().format_version, 2, "{what}");
    check_content(&db, &want, what);
    db.close().unwrap();
}
