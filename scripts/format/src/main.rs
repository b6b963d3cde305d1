//! Uses stores of format version 1 with one build of Esker, for `scripts/format.sh`, which builds it
//! with this tree's engine and with that of the release before.
//!
//! Beside the directory of each store is a file with what the store must hold. `write` replaces it,
//! and `check` compares the store with it. So each build reads what the other one has written.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use esker::encryption::{EncryptedFs, MasterKey};
use esker::fs::{Fs, OsFs};
use esker::ingest::{IngestOptions, SortedWriter};
use esker::{
    Batch, Db, KeyspaceOptions, Options, TransactionOptions, ValueSeparation, WriteOptions,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Content of a store: pairs by keyspace.
type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

const YEAR: Duration = Duration::from_secs(31_536_000);

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["unpack", from, stores] => unpack(Path::new(from), Path::new(stores)),
        ["create", store] => create(Path::new(store)),
        ["write", stores, round] => write(Path::new(stores), round.parse()?),
        ["check", stores] => check(Path::new(stores)),
        ["upgrade", stores] => upgrade(Path::new(stores)),
        ["refused", stores] => refused(Path::new(stores)),
        _ => Err("usage: unpack FROM STORES | create STORE | write STORES ROUND | \
                  check STORES | upgrade STORES | refused STORES"
            .into()),
    }
}

/// Writes the files of each golden store of version 1.
fn unpack(from: &Path, stores: &Path) -> Outcome {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with("v1-") {
            continue;
        }
        fs::create_dir_all(stores.join(&name))?;
        let packed = zstd::decode_all(&fs::read(&path)?[..])?;
        let mut rest = &packed[..];
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').ok_or("a line without an end")?;
            let line = std::str::from_utf8(&rest[..end])?;
            let [file, len, zeros] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(format!("{name}: {line}").into());
            };
            let (len, zeros): (usize, usize) = (len.parse()?, zeros.parse()?);
            let mut bytes = rest[end + 1..end + 1 + len].to_vec();
            bytes.resize(len + zeros, 0);
            fs::write(stores.join(&name).join(file), bytes)?;
            rest = &rest[end + 1 + len..];
        }
    }
    Ok(())
}

/// Returns the directories of the stores, sorted.
fn stores_in(stores: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(stores)?.collect::<Result<Vec<_>, _>>()?;
    let mut found: Vec<PathBuf> = entries.iter().map(|entry| entry.path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    Ok(found)
}

/// Returns the file with what the store must hold.
fn record(store: &Path) -> PathBuf {
    store.with_extension("content")
}

fn file_system(store: &Path) -> Arc<dyn Fs> {
    match store.join("KEYS").exists() {
        true => EncryptedFs::new(OsFs::shared(), MasterKey::from_bytes([0x5a; 32])),
        false => OsFs::shared(),
    }
}

fn open(store: &Path) -> esker::Result<Db> {
    let options = Options {
        create_if_missing: false,
        value_separation_min_bytes: ValueSeparation::From(300),
        memtable_size_bytes: Some(64 << 10),
        ..Options::default()
    };
    Db::open_on(file_system(store), store, options)
}

/// Creates a store of version 1. The release before has no option for that, and no other version.
fn create(store: &Path) -> Outcome {
    let mut options = Options::default();
    let _ = options.set("format_version", "1");
    Ok(Db::open(store, options)?.close()?)
}

fn content(db: &Db) -> Outcome<Content> {
    let mut content = Content::new();
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name)?.ok_or("a keyspace is gone")?;
        let pairs = keyspace.iter()?.collect::<Result<BTreeMap<_, _>, _>>()?;
        let back = keyspace.iter()?.rev().collect::<Result<BTreeMap<_, _>, _>>()?;
        if pairs != back {
            return Err(format!("{name}: the backward scan differs").into());
        }
        for (key, value) in &pairs {
            if keyspace.get(key)?.as_deref() != Some(&value[..]) {
                return Err(format!("{name}: the get of {} differs", key.escape_ascii()).into());
            }
        }
        content.insert(name, pairs);
    }
    Ok(content)
}

fn text(content: &Content) -> String {
    let mut lines = String::new();
    for (name, pairs) in content {
        lines += &format!("{name}\n");
        for (key, value) in pairs {
            lines += &format!("\t{}\t{}\n", key.escape_ascii(), value.escape_ascii());
        }
    }
    lines
}

/// A small generator of numbers below a bound.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }

    fn key(&mut self) -> String {
        format!("peer/{:03}", self.below(400))
    }

    fn value(&mut self) -> Vec<u8> {
        let (len, byte) = (self.below(600) as usize, b'a' + self.below(26) as u8);
        vec![byte; len]
    }
}

/// Writes into each store all that version 1 may hold. Half of the stores stay as a killed process
/// leaves them.
fn write(stores: &Path, round: u64) -> Outcome {
    let mut killed = Vec::new();
    for (at, store) in stores_in(stores)?.iter().enumerate() {
        let db = open(store)?;
        write_one(&db, &mut Numbers(round * 1000 + at as u64), round)
            .and_then(|()| Ok(fs::write(record(store), text(&content(&db)?))?))
            .map_err(|error| format!("{}: {error}", store.display()))?;
        if (at as u64 + round) % 2 == 0 {
            db.close()?;
        } else {
            killed.push(db);
        }
    }
    // Ends the process with the stores open.
    std::process::exit(0);
}

fn write_one(db: &Db, numbers: &mut Numbers, round: u64) -> Outcome {
    let plain = KeyspaceOptions::default;
    let counters = db.keyspace("peer counters", &plain().merge_operator("add_i64"))?;
    let zstd = plain().set("compression", "zstd")?;
    let lines =
        db.keyspace("peer lines", &zstd.set("compression_dictionary_max_bytes", "2048")?)?;
    let reverse = db.keyspace("peer reverse", &plain().key_order(esker::KeyOrder::Reverse))?;
    let _ = db.subscribe("peer", &Default::default())?;
    db.keyspace(&format!("of round {round}"), &plain())?.put("a", "1")?;
    for step in 0..500 {
        let (key, value) = (numbers.key(), numbers.value());
        match numbers.below(20) {
            0 => db.delete_range(&key, format!("{key}5"))?,
            1..=3 => db.delete(&key)?,
            4 => db.put_with_ttl(&key, &value, 10 * YEAR)?,
            5 => counters.merge(&key[..7], format!("{}", numbers.below(9)))?,
            6 => reverse.put(&key, &value)?,
            7 => {
                let mut batch = Batch::new();
                batch.put(&key, &value).delete(numbers.key()).put_in(&reverse, numbers.key(), "b");
                db.write_with(&batch, &WriteOptions::SYNC)?;
            }
            8 => {
                let transaction = db.transaction(TransactionOptions::default());
                let _ = transaction.get(&key)?;
                transaction.put(&key, &value)?;
                transaction.commit()?;
            }
            9 if step % 100 < 10 => db.flush()?,
            _ => db.put(&key, &value)?,
        }
        lines.put(
            format!("{:06}", round * 500 + step),
            format!("{{\"line\":{step},\"paid\":true}}"),
        )?;
    }
    ingest(db, round)?;
    for name in db.prepared_transactions() {
        db.rollback_prepared(&name)?;
    }
    let transaction = db.transaction(TransactionOptions::default());
    transaction.put("prepared", "is not shown")?;
    transaction.prepare(&format!("round {round}"))?;
    if round % 2 == 0 {
        db.compact_all()?;
    }
    counters.merge("last", "1")?;
    Ok(db.put_with("last", format!("round {round}"), &WriteOptions::SYNC)?)
}

fn ingest(db: &Db, round: u64) -> Outcome {
    let file = db.path().with_extension("sst");
    let mut writer = SortedWriter::create(&file, &Options::default())?;
    for i in 0..50 {
        writer.put(format!("ingested/{i:02}"), format!("in round {round}"))?;
    }
    writer.finish()?;
    db.ingest(&[&file], &IngestOptions::default().copy(true))?;
    Ok(fs::remove_file(&file)?)
}

/// Compares each store with its record, and verifies it.
fn check(stores: &Path) -> Outcome {
    let found = stores_in(stores)?;
    for store in &found {
        let name = store.display();
        let db = open(store).map_err(|error| format!("{name}: {error}"))?;
        let present = content(&db).map_err(|error| format!("{name}: {error}"))?;
        if text(&present) != fs::read_to_string(record(store))? {
            return Err(format!("{name}: the content is not what was written").into());
        }
        let report = db.verify(&mut |_, _| {})?;
        if !report.is_whole() {
            return Err(format!("{name}: {:?}", report.problems).into());
        }
        for slot in db.slots()? {
            let batches = db.slot(&slot.name)?.changes()?.collect::<Result<Vec<_>, _>>()?;
            if batches.is_empty() {
                return Err(format!("{name}: the slot {} has no batches", slot.name).into());
            }
        }
        db.close()?;
    }
    println!("{} stores hold what was written", found.len());
    Ok(())
}

/// Raises the version of each store.
#[cfg(feature = "upgrade")]
fn upgrade(stores: &Path) -> Outcome {
    for store in stores_in(stores)? {
        let db = open(&store)?;
        if db.metrics().format_version != 1 {
            return Err(format!("{}: somebody has upgraded it", store.display()).into());
        }
        db.upgrade_format(2)?;
        db.close()?;
    }
    Ok(())
}

#[cfg(not(feature = "upgrade"))]
fn upgrade(_: &Path) -> Outcome {
    Err("this release has no other format version".into())
}

/// Checks that each store is refused as newer.
fn refused(stores: &Path) -> Outcome {
    let found = stores_in(stores)?;
    for store in &found {
        match open(store) {
            Err(error) if error.kind() == esker::ErrorKind::Incompatible => {}
            Err(error) => return Err(format!("{}: {error}", store.display()).into()),
            Ok(_) => return Err(format!("{}: opened", store.display()).into()),
        }
    }
    println!("{} stores are refused as newer", found.len());
    Ok(())
}
