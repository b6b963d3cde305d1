//! Detection of damage before a reader meets it: `verify` and the scrub read every byte of every
//! file.
//!
//! These tests guard against past failures: damage found only after the last good copy is gone; a
//! check that reads only tables.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::tiny_options;
use esker::fs::Fs;
use esker::fs::MemFs;
use esker::{Db, Options, WriteOptions};
use esker_testkit::campaign::checksum_range::checksum_ranges;

const DIR: &str = "/db";

fn filled(options: Options) -> (Arc<MemFs>, Db) {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), DIR, options).unwrap();
    for i in 0..400u32 {
        db.put(i.to_be_bytes(), vec![i as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for i in 0..5u32 {
        db.put_with(format!("in the log {i}"), "x", &WriteOptions::SYNC).unwrap();
    }
    (fs, db)
}

fn flip(fs: &MemFs, path: &Path, at: u64) {
    let byte = fs.read(path, u64::MAX).unwrap()[at as usize];
    fs.open_write(path).unwrap().write_at(&[byte ^ 8], at).unwrap();
}

#[test]
fn verify_checks_tables_logs_and_manifest_of_open_store() {
    let (fs, db) = filled(Options { background_threads: Some(0), ..tiny_options() });
    let clean = db.verify(&mut |_, _| {}).unwrap();
    assert!(clean.is_whole() && clean.logs > 0 && clean.files > 0, "{:?}", clean.problems);
    for entry in fs.list(Path::new(DIR)).unwrap() {
        if ["LOCK", "CURRENT"].contains(&entry.name.as_str()) {
            continue;
        }
        let path = Path::new(DIR).join(&entry.name);
        let bytes = fs.read(&path, u64::MAX).unwrap();
        let len = if entry.name.ends_with(".wal") {
            // The zeros after a memory-mapped log do not belong to the log, nor does the marker of
            // a sync.
            let records = checksum_ranges(&entry.name, &bytes);
            records[records.len() - 2].end as u64 - 1
        } else {
            bytes.len() as u64 - 1
        };
        for at in [0, 40, len / 3, len / 2, len] {
            flip(&fs, &path, at);
            let report = db.verify(&mut |_, _| {}).unwrap();
            assert!(!report.is_whole(), "byte {at} of {}", entry.name);
            flip(&fs, &path, at);
        }
    }
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}

/// Waits for an expected state, with a limit that suits a slow machine.
fn wait_until(db: &Db, what: impl Fn(&esker::Metrics) -> bool) {
    let began = Instant::now();
    while !what(&db.metrics()) {
        assert!(began.elapsed() < Duration::from_secs(300), "{}", db.metrics());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn scrub_reports_location_of_unread_damage() {
    let (fs, db) = filled(Options { background_threads: Some(1), ..tiny_options() });
    assert_eq!(db.metrics().scrub_bytes, 0, "the scrub ran without a request");
    db.set_options(&[("scrub_bytes_per_second", "100000000")]).unwrap();
    wait_until(&db, |m| m.scrub_rounds > 0);
    let sound = db.metrics();
    assert_eq!((sound.scrub_problems, &sound.scrub_problem), (0, &None));
    assert!(sound.scrub_bytes >= sound.table_bytes / 2);
    let name = format!("{:06}.sst", db.tables()[0].number);
    flip(&fs, &Path::new(DIR).join(&name), 20);
    wait_until(&db, |m| m.scrub_problems > 0);
    let problem = db.metrics().scrub_problem.unwrap();
    assert!(problem.contains(&name), "{problem}");
    db.set_options(&[("scrub_bytes_per_second", "0")]).unwrap();
    db.close().unwrap();
}
