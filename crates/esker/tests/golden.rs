//! Stores written by older code, in `tests/golden`. Each must open forever and hold exactly the
//! content given by its name and `content`.
//!
//! A golden store is one file, compressed with zstd: for each of its files a name, a length and the
//! bytes. `golden_files_are_written` creates them under `ESKER_GOLDEN=<directory>`, once for each
//! format version. They never change afterwards (`docs/format.md`). Those with `all` in their name are
//! described in `golden_content`. The code of the commit in `scripts/format/before` has written those
//! of version 1.
//!
//! These tests guard against past failures: a format that changes under its own version number; a
//! version test without assertions.

mod common;
mod golden_content;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{files, image, pairs};
use esker::fs::MemFs;
use esker::{Batch, BlockLayout, Compression, Db, MemtableKind, Options, Policy, WriteOptions};

type Files = Vec<(String, Vec<u8>)>;

const DIR: &str = "/db";
/// The highest level of zstd.
const COMPRESSION_LEVEL: i32 = 22;

/// How a golden store was made.
struct Golden {
    name: String,
    options: Options,
    closed: bool,
}

impl Golden {
    fn file_name(&self) -> String {
        format!("{}.zst", self.name)
    }
}

/// Returns every layout with every compression, closed and killed.
fn all() -> Vec<Golden> {
    let mut all = Vec::new();
    for layout in BlockLayout::ALL {
        for compression in Compression::ALL {
            for closed in [true, false] {
                let options = Options {
                    format_version: 1,
                    block_layout: *layout,
                    compression: *compression,
                    compression_upper: Some(*compression),
                    block_size_bytes: 512,
                    memtable_size_bytes: Some(16 << 10),
                    memtable_kind: MemtableKind::Btree,
                    file_size_max_bytes: 8 << 10,
                    guard_size_max_bytes: 16 << 10,
                    policy: if closed { Policy::Leveled } else { Policy::Fluid },
                    background_threads: Some(0),
                    log_file: false,
                    status_file: false,
                    ..Options::default()
                };
                let end = if closed { "closed" } else { "killed" };
                let name = format!("v1-{}-{}-{end}", layout.name(), compression.name());
                all.push(Golden { name, options, closed });
            }
        }
    }
    // Killed with a sync marker at the end of its log. The other stores predate that marker.
    let killed = all.iter().find(|golden| golden.name == "v1-delta-none-killed");
    let options = killed.map(|golden| golden.options.clone()).unwrap_or_default();
    all.push(Golden { name: "v1-delta-none-synced".to_string(), options, closed: false });
    all
}

/// Returns the content of each golden store, computed without a store.
fn content() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut map = std::collections::BTreeMap::new();
    for round in 0..3u32 {
        for i in 0..120u32 {
            if (i + round) % 11 == 0 {
                map.remove(&key(i));
            } else {
                map.insert(key(i), value(i, round));
            }
        }
        if round == 1 {
            map.retain(|k, _| !(key(30)..key(40)).contains(k));
        }
    }
    map.insert(b"last".to_vec(), b"of the log".to_vec());
    map.into_iter().collect()
}

fn key(i: u32) -> Vec<u8> {
    format!("user/{:04}", i * 7919 % 1000).into_bytes()
}

fn value(i: u32, round: u32) -> Vec<u8> {
    let mut value = format!("{i} in round {round} ").into_bytes();
    value.resize(20 + (i as usize * 13) % 90, b'a' + (i % 26) as u8);
    value
}

/// Creates the store. The last round stays in a log, and the earlier rounds are in tables.
fn make(golden: &Golden) -> Files {
    let fs: Arc<MemFs> = MemFs::new();
    let db = Db::open_on(fs.clone(), DIR, golden.options.clone()).unwrap();
    for round in 0..3u32 {
        for i in 0..120u32 {
            if (i + round) % 11 == 0 {
                db.delete(key(i)).unwrap();
            } else {
                db.put(key(i), value(i, round)).unwrap();
            }
        }
        if round == 1 {
            let mut batch = Batch::new();
            batch.delete_range(key(30), key(40));
            db.write_with(&batch, &WriteOptions::SYNC).unwrap();
        }
        if round < 2 {
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
    }
    db.put_with("last", "of the log", &WriteOptions::SYNC).unwrap();
    if golden.closed {
        db.close().unwrap();
        return files(&*fs, Path::new(DIR));
    }
    let found = files(&*fs, Path::new(DIR));
    drop(db);
    found
}

fn pack(all: &Files) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, bytes) in all {
        // Zeros at the end, of a memory-mapped log, are stored as a count.
        let zeros = bytes.iter().rev().take_while(|b| **b == 0).count();
        let kept = &bytes[..bytes.len() - zeros];
        out.extend_from_slice(format!("{name} {} {zeros}\n", kept.len()).as_bytes());
        out.extend_from_slice(kept);
    }
    out
}

fn unpack(mut packed: &[u8]) -> Files {
    let mut all = Vec::new();
    while !packed.is_empty() {
        let end = packed.iter().position(|b| *b == b'\n').unwrap();
        let line = std::str::from_utf8(&packed[..end]).unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let (len, zeros): (usize, usize) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        let mut bytes = packed[end + 1..end + 1 + len].to_vec();
        bytes.resize(len + zeros, 0);
        all.push((words[0].to_string(), bytes));
        packed = &packed[end + 1 + len..];
    }
    all
}

fn check(what: &str, fs: Arc<MemFs>, options: &Options) {
    let options = Options { create_if_missing: false, ..options.clone() };
    let db = Db::open_on(fs, DIR, options).unwrap_or_else(|e| panic!("{what}: {e}"));
    let want = content();
    assert_eq!(pairs(db.iter().unwrap()), want, "{what}");
    for (key, value) in &want {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{what}");
    }
    let mut back: Vec<_> = db.iter().unwrap().rev().map(Result::unwrap).collect();
    back.reverse();
    assert_eq!(back, want, "{what}");
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert!(report.is_whole() && report.files > 0, "{what}: {:?}", report.problems);
    db.put("written", "now").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.iter().unwrap().count(), want.len() + 1, "{what}");
    assert_eq!(db.metrics().format_version, 1, "{what}: nobody upgraded it");
    db.close().unwrap();
}

#[test]
fn golden_stores_open_with_expected_content() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    assert_eq!(
        std::fs::read_dir(&root).unwrap().count(),
        all().len() + golden_content::all().len(),
        "a golden store for every layout, compression and end, one with a sync marker, and those \
         with everything"
    );
    for golden in all() {
        let files = stored(&golden.name);
        assert!(files.iter().any(|(name, _)| name.ends_with(".wal")), "{}", golden.name);
        assert!(files.iter().any(|(name, _)| name.ends_with(".sst")), "{}", golden.name);
        check(&golden.name, image(Path::new(DIR), &files), &golden.options);
        // A reader need not use the options of the writer.
        check(&golden.name, image(Path::new(DIR), &files), &Options::default());
    }
}

#[test]
fn golden_files_are_written() {
    for golden in all() {
        let packed = pack(&make(&golden));
        check(&golden.name, image(Path::new(DIR), &unpack(&packed)), &golden.options);
        if let Some(dir) = std::env::var_os("ESKER_GOLDEN") {
            let packed = zstd::encode_all(&packed[..], COMPRESSION_LEVEL).unwrap();
            std::fs::write(PathBuf::from(dir).join(golden.file_name()), packed).unwrap();
        }
    }
}

fn stored(name: &str) -> Files {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let packed = std::fs::read(root.join(format!("{name}.zst"))).unwrap();
    unpack(&zstd::decode_all(&packed[..]).unwrap())
}

#[test]
fn golden_stores_with_everything_open_and_can_be_upgraded() {
    for golden in golden_content::all() {
        let files = stored(&golden.name);
        let has = |part: &str| files.iter().any(|(name, _)| name.contains(part));
        for part in [".wal", ".sst", ".val", "slot-replica", "ingested-"] {
            assert!(has(part), "{} has no {part}", golden.name);
        }
        assert_eq!(has("KEYS"), golden.is_encrypted, "{}", golden.name);
        for options in [golden_content::options(2), Options::default()] {
            golden_content::check(&golden, &image(Path::new(DIR), &files), &options);
        }
    }
}

#[test]
fn golden_files_with_everything_are_written() {
    for golden in golden_content::all() {
        let packed = pack(&golden_content::make(&golden));
        let fs = image(Path::new(DIR), &unpack(&packed));
        golden_content::check(&golden, &fs, &golden_content::options(golden.format));
        if let Some(dir) = std::env::var_os("ESKER_GOLDEN") {
            let packed = zstd::encode_all(&packed[..], COMPRESSION_LEVEL).unwrap();
            std::fs::write(PathBuf::from(dir).join(format!("{}.zst", golden.name)), packed)
                .unwrap();
        }
    }
}
