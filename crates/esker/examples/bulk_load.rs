//! Loads sorted pairs in four ways, and prints the time of each: one put after the other, batches, a
//! bulk load, and files of several threads that are ingested.
//!
//! Run `cargo run --release -p esker --example bulk_load -- 1000000`. The ways follow each other in
//! rounds, so that a machine that becomes slower is slower for all of them.

use std::path::Path;
use std::time::{Duration, Instant};

use esker::ingest::{IngestOptions, SortedWriter};
use esker::{Batch, Db, Options};

const ROUNDS: usize = 3;
const THREADS: u64 = 2;

/// Returns the pair of a number: a key of 16 bytes, and a value of 100 bytes half of which
/// compresses.
fn pair(n: u64) -> (String, [u8; 100]) {
    let mut value = [b'.'; 100];
    let mut word = n;
    for chunk in value[..50].chunks_mut(8) {
        word = (word ^ (word >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23) ^ n;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    (format!("{n:016}"), value)
}

fn puts(db: &Db, _: &Path, count: u64) -> esker::Result<()> {
    (0..count).map(pair).try_for_each(|(key, value)| db.put(key, value))
}

fn batches(db: &Db, _: &Path, count: u64) -> esker::Result<()> {
    let mut batch = Batch::new();
    for n in 0..count {
        let (key, value) = pair(n);
        batch.put(key, value);
        if batch.len() == 1000 || n + 1 == count {
            db.write(&batch)?;
            batch.clear();
        }
    }
    Ok(())
}

fn bulk_load(db: &Db, _: &Path, count: u64) -> esker::Result<()> {
    db.bulk_load((0..count).map(pair)).map(drop)
}

fn ingest(db: &Db, dir: &Path, count: u64) -> esker::Result<()> {
    let write = |part: u64| {
        let path = dir.join(format!("{part}.sst"));
        let mut writer = SortedWriter::create(&path, &Options::default())?;
        for n in part * count / THREADS..(part + 1) * count / THREADS {
            let (key, value) = pair(n);
            writer.put(key, value)?;
        }
        writer.finish().map(|file| file.path)
    };
    let files: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|part| scope.spawn(move || write(part))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| std::process::abort()))
            .collect()
    });
    let files = files.into_iter().collect::<esker::Result<Vec<_>>>()?;
    db.ingest(&files, &IngestOptions::default()).map(drop)
}

type Load = fn(&Db, &Path, u64) -> esker::Result<()>;

fn timed(load: Load, count: u64) -> Result<Duration, Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("db"), Options::default())?;
    let began = Instant::now();
    load(&db, dir.path(), count)?;
    let duration = began.elapsed();
    assert_eq!(db.iter()?.count() as u64, count);
    db.close()?;
    Ok(duration)
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(2_000);
    let ways: [(&str, Load); 4] = [
        ("puts (fillseq)", puts),
        ("batches of 1,000", batches),
        ("bulk_load", bulk_load),
        ("2 SortedWriters, then ingest", ingest),
    ];
    let mut durations = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, load), durations) in ways.iter().zip(&mut durations) {
            durations.push(timed(*load, count)?);
        }
    }
    let middle = |durations: &[Duration]| {
        let mut sorted = durations.to_vec();
        sorted.sort();
        sorted[sorted.len() / 2].as_secs_f64() * 1e3
    };
    let first = middle(&durations[0]);
    println!("{count} sorted pairs of 116 bytes, middle of {ROUNDS} rounds:");
    for ((name, _), durations) in ways.iter().zip(&durations) {
        let ms = middle(durations);
        println!("{name:<30} {ms:>9.1} ms {:>6.2} x", first / ms);
    }
    Ok(())
}
