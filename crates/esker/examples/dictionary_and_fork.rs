//! Measures a fork, a comparison with its parent, and compression dictionaries.
//!
//! `cargo run --release -p esker --example dictionary_and_fork --features zstd -- PAIRS`

use std::time::Instant;

use esker::diff::diff;
use esker::{Compression, Db, Options, Result};

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Returns a line of JSON of 200 to 500 bytes.
fn line(state: &mut u64) -> String {
    let mut word = |letters: u64| -> String {
        (0..3 + random(state) % letters)
            .map(|_| (b'a' + (random(state) % 26) as u8) as char)
            .collect()
    };
    let (name, city, street) = (word(9), word(9), word(12));
    let notes: Vec<String> = (0..1 + name.len() % 6).map(|_| format!("\"{}\"", word(14))).collect();
    format!(
        "{{\"id\":{},\"name\":\"{name}\",\"address\":{{\"street\":\"{street} {}\",\"city\":\"{city}\",\
         \"country\":\"Switzerland\"}},\"payment_method\":\"invoice\",\"order_total_cents\":{},\
         \"is_active\":{},\"notes\":[{}],\"created_at\":\"2026-{:02}-{:02}T{:02}:{:02}:00Z\"}}",
        random(state) % 10_000_000,
        random(state) % 200,
        random(state) % 1_000_000,
        random(state) > 1 << 30,
        notes.join(","),
        1 + random(state) % 12,
        1 + random(state) % 28,
        random(state) % 24,
        random(state) % 60,
    )
}

/// Runs the measurement with few pairs.
pub fn main() -> Result<()> {
    let pairs = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2000);
    let dir = tempfile::tempdir().expect("a temporary directory");
    fork_and_compare(dir.path(), pairs)?;
    for (name, compression, dictionary_bytes) in [
        ("lz4", Compression::Lz4, 0),
        ("zstd", Compression::Zstd, 0),
        ("zstd with dictionaries", Compression::Zstd, 16 << 10),
    ] {
        let options = Options {
            compression,
            compression_dictionary_max_bytes: dictionary_bytes,
            ..Options::default()
        };
        if options.validate().is_ok() {
            size_and_reads(&dir.path().join(name), name, options, pairs)?;
        }
    }
    Ok(())
}

/// Forks a store, changes 1,000 pairs of the fork and compares the two.
fn fork_and_compare(dir: &std::path::Path, pairs: u64) -> Result<()> {
    let db = Db::open(dir.join("db"), Options::default())?;
    for i in 0..pairs {
        db.put(format!("{i:016}"), format!("value {i:010}").repeat(6))?;
    }
    db.compact_all()?;
    let began = Instant::now();
    let made = db.fork(dir.join("fork"))?;
    println!("fork of {pairs} pairs: {:?}, {} tables linked", began.elapsed(), made.linked_files);
    let fork = Db::open(dir.join("fork"), Options::default())?;
    let (mut state, changes) = (7, pairs.min(1000));
    for i in 0..changes {
        let key = i * (pairs / changes) + random(&mut state) % (pairs / changes);
        fork.put(format!("{key:016}"), "changed")?;
    }
    for step in ["in the memtable", "in a table"] {
        let began = Instant::now();
        let found = diff(&db, &fork)?.count() as u64;
        assert_eq!(found, changes);
        println!("diff of {changes} changes {step}: {:?}", began.elapsed());
        fork.flush()?;
    }
    let began = Instant::now();
    let (a, b) = (db.iter()?, fork.iter()?);
    let found = a.zip(b).filter(|(a, b)| a.as_ref().ok() != b.as_ref().ok()).count() as u64;
    println!("two full scans: {:?}, {found} changes", began.elapsed());
    Ok(())
}

/// Writes lines of JSON and reads them at random.
fn size_and_reads(dir: &std::path::Path, name: &str, options: Options, pairs: u64) -> Result<()> {
    let (mut state, mut raw_bytes) = (3, 0);
    let began = Instant::now();
    let db = Db::open(dir, options)?;
    for i in 0..pairs {
        let value = line(&mut state);
        raw_bytes += value.len() as u64;
        db.put(format!("{i:016}"), value)?;
    }
    db.compact_all()?;
    let wrote = began.elapsed();
    let bytes: u64 = db.tables().iter().map(|table| table.size_bytes).sum();
    let mut rates = Vec::new();
    // A small cache that misses, and one that holds everything.
    for cache in ["4MiB", "1GiB"] {
        let mut options = Options::default();
        options.set("cache_size_bytes", cache)?;
        let reader = Db::open_read_only(dir, options)?;
        for round in 0..2 {
            let began = Instant::now();
            for _ in 0..pairs {
                let key = format!("{:016}", random(&mut state) % pairs);
                assert!(reader.read(key, <[u8]>::len)?.is_some());
            }
            if round == 1 {
                rates.push((cache, began.elapsed().as_nanos() as u64 / pairs));
            }
        }
    }
    println!(
        "{name}: {bytes} of {raw_bytes} bytes in tables, written in {wrote:?}, reads {rates:?} ns"
    );
    Ok(())
}
