//! Stores in memory and files of sorted pairs, for the tests of ingests.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::fs::{Fs, MemFs};
use esker::ingest::{IngestOptions, IngestReport, SortedWriter};
use esker::{Db, Options};

use super::tiny_options;

pub fn dir() -> &'static Path {
    Path::new("/db")
}

/// Returns a file system with the directory `/out`.
pub fn disk() -> Arc<MemFs> {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/out")).unwrap();
    fs
}

/// Returns options of a store without threads, in which nothing is flushed without a request.
pub fn options() -> Options {
    Options { memtable_size_bytes: Some(1 << 20), background_threads: Some(0), ..tiny_options() }
}

pub fn open(fs: &Arc<MemFs>, options: &Options) -> Db {
    Db::open_on(fs.clone(), dir(), options.clone()).unwrap()
}

/// Writes a file with these pairs, and returns its path.
pub fn file_of(
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

pub fn keys(range: std::ops::Range<u32>, value: &str) -> Vec<(String, String)> {
    range.map(|n| (format!("key{n:05}"), format!("{value} {n}"))).collect()
}

pub fn ingest(db: &Db, paths: &[PathBuf]) -> IngestReport {
    db.ingest(paths, &IngestOptions::default()).unwrap()
}

pub fn get(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}
