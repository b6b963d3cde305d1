//! Measures the cost of range deletes for readers: many overlapping ranges in one batch, and a log
//! that is truncated from its head while snapshots are held.
//!
//! Run `cargo run --release -p esker --example range_deletes -- overlap 16000`, `batch 60000` or
//! `truncate 1000`. Each prints microseconds and the growth of the process's memory. For
//! comparison, `none 200000` measures gets and seeks among that many pairs without any range
//! delete.

use std::time::Instant;

use esker::{Batch, Db, Options};

/// Returns a memory field of `/proc/self/status` in bytes, such as the peak resident size; 0 where
/// the system does not provide it.
fn resident_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Runs `work` and prints its duration and the growth of the process's peak memory.
fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let before = resident_bytes("VmHWM");
    let began = Instant::now();
    let result = work();
    let us = began.elapsed().as_nanos() as f64 / 1e3;
    let grown = resident_bytes("VmHWM").saturating_sub(before);
    println!("{what:<44} {us:>14.1} us {:>10.1} MiB more", grown as f64 / 1048576.0);
    result
}

/// Returns `count` range deletes, each of which overlaps all others.
fn overlapping(count: usize) -> Batch {
    let mut batch = Batch::new();
    for i in 0..count {
        batch.delete_range(format!("{i:06}"), format!("{:06}", count + i));
    }
    batch
}

fn overlap(db: &Db, count: usize) -> esker::Result<()> {
    let old = db.snapshot();
    timed("write the batch", || db.write(&overlapping(count)))?;
    timed("the first get", || db.get(format!("{count:06}")))?;
    let at = |i: usize| format!("{:06}", i * 7 % (2 * count));
    timed("1,000 more gets", || (0..1_000).try_for_each(|i| db.get(at(i)).map(drop)))?;
    timed("the first iterator", || db.iter())?;
    let mut iter = timed("the second iterator", || db.iter())?;
    timed("its seek to the first key", || iter.seek_to_first())?;
    timed("the same at a snapshot", || {
        let options = esker::ReadOptions::default().snapshot(Some(&old));
        db.get_with(format!("{count:06}"), &options)
    })?;
    drop(iter);
    timed("a flush", || db.flush())?;
    timed("the first iterator after it", || db.iter())?;
    Ok(())
}

fn truncate(db: &Db, snapshots: usize) -> esker::Result<()> {
    let key = |i: usize| format!("log/{i:012}");
    let mut held = Vec::new();
    let mut spent = Vec::new();
    for second in 0..1_000 {
        for i in 0..20 {
            db.put(key(second * 20 + i), [b'v'; 100])?;
        }
        db.delete_range("log/", key(second * 20))?;
        if second < snapshots {
            held.push(db.snapshot());
        }
        let began = Instant::now();
        let iter = db.iter()?;
        spent.push(began.elapsed().as_nanos() as f64 / 1e3);
        drop(iter);
    }
    let last = &mut spent[900..];
    last.sort_by(f64::total_cmp);
    println!("iter() after each of the last 100 deletes    {:>14.2} us, the middle one", last[50]);
    let mut again: Vec<f64> = Vec::new();
    for _ in 0..1_000 {
        let began = Instant::now();
        let iter = db.iter()?;
        again.push(began.elapsed().as_nanos() as f64 / 1e3);
        drop(iter);
    }
    again.sort_by(f64::total_cmp);
    println!(
        "iter() with nothing written between          {:>14.2} us, the middle one",
        again[500]
    );
    Ok(())
}

fn none(db: &Db, pairs: usize) -> esker::Result<()> {
    let key = |i: usize| format!("{:016x}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut at = 1usize;
    let mut next = || {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        key((at >> 33) % pairs)
    };
    (0..pairs).try_for_each(|i| db.put(key(i), [b'v'; 100]))?;
    for place in ["memtable and tables", "one table"] {
        let keys: Vec<String> = (0..1_000_000).map(|_| next()).collect();
        timed(&format!("1,000,000 gets, {place}"), || {
            keys.iter().try_for_each(|key| db.get(key).map(drop))
        })?;
        timed(&format!("200,000 iter() and seek, {place}"), || {
            keys[..200_000].iter().try_for_each(|key| db.iter()?.seek(key))
        })?;
        db.flush()?;
        db.compact_range(None, None)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_else(|| "overlap".to_string());
    let count: usize = words.next().map_or(Ok(16_000), |word| word.parse())?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("db");
    let db = Db::open(&path, Options::default())?;
    match what.as_str() {
        "overlap" => overlap(&db, count)?,
        "truncate" => truncate(&db, count)?,
        "none" => none(&db, count)?,
        "batch" => {
            timed("write the batch", || db.write(&overlapping(count)))?;
            timed("close", || db.close())?;
            let db = timed("open", || Db::open(&path, Options::default()))?;
            timed("the first get", || db.get(format!("{count:06}")))?;
            timed("verify", || db.verify(&mut |_, _| ()))?;
            timed("close", || db.close())?;
            timed("repair", || Db::repair(&path, Options::default()))?;
        }
        other => {
            return Err(format!("expected overlap, batch, truncate or none, found {other}").into());
        }
    }
    Ok(())
}
