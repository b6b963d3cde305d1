//! Measures what encryption costs: the same gets and writes on a plain and on an encrypted store, in
//! turn, with all blocks in the cache and with almost none.
//!
//! `cargo run --release -p esker --example encryption_cost --features encryption -- PAIRS ROUNDS`

use std::path::Path;
use std::time::Instant;

use esker::encryption::{EncryptedFs, MasterKey};
use esker::fs::OsFs;
use esker::{Db, Options, Result};

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key 000000000000";
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Opens a store in a directory, encrypted or not.
fn open(dir: &Path, is_encrypted: bool, cache_bytes: u64) -> Result<Db> {
    let options = Options { cache_size_bytes: Some(cache_bytes), ..Options::default() };
    if is_encrypted {
        let fs = EncryptedFs::new(OsFs::shared(), MasterKey::from_bytes([7; 32]));
        Db::open_on(fs, dir, options)
    } else {
        Db::open(dir, options)
    }
}

/// Returns nanoseconds per pair of puts in random order, and writes the tables.
fn fill(db: &Db, pairs: u64) -> Result<f64> {
    let (began, mut state) = (Instant::now(), 5);
    for _ in 0..pairs {
        let number = random(&mut state) % pairs;
        db.put(key(number), [number as u8; 100])?;
    }
    let each = began.elapsed().as_nanos() as f64 / pairs as f64;
    db.compact_range(None, None)?;
    Ok(each)
}

/// Returns nanoseconds per get. Every value that is found is checked.
fn read(db: &Db, pairs: u64, reads: u64, seed: u64) -> Result<f64> {
    let (began, mut state) = (Instant::now(), seed);
    for _ in 0..reads {
        let number = random(&mut state) % pairs;
        if let Some(value) = db.get(key(number))? {
            assert_eq!(&value[..], [number as u8; 100]);
        }
    }
    Ok(began.elapsed().as_nanos() as f64 / reads as f64)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Runs the measurement, with few pairs if no number is given.
pub fn main() -> Result<()> {
    let argument = |at| std::env::args().nth(at).and_then(|n| n.parse::<u64>().ok());
    let (pairs, rounds) = (argument(1).unwrap_or(2000), argument(2).unwrap_or(1));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let stores = [("plain", false), ("encrypted", true)];
    let mut fills = [vec![], vec![]];
    for round in 0..rounds {
        for (at, (name, is_encrypted)) in stores.iter().enumerate() {
            let db = open(&dir.path().join(format!("{name}-{round}")), *is_encrypted, 64 << 20)?;
            fills[at].push(fill(&db, pairs)?);
            db.close()?;
        }
    }
    println!(
        "fill, ns a put: plain {:.0}, encrypted {:.0}",
        median(fills[0].clone()),
        median(fills[1].clone())
    );
    for (what, cache_bytes) in
        [("all blocks in the cache", 1 << 30), ("few blocks in the cache", 1 << 20)]
    {
        let mut figures = [vec![], vec![]];
        let opened = stores.map(|(name, is_encrypted)| {
            open(&dir.path().join(format!("{name}-0")), is_encrypted, cache_bytes)
        });
        for db in opened.iter().flatten() {
            read(db, pairs, 3 * pairs, 1)?;
        }
        for round in 0..rounds {
            for (at, db) in opened.iter().enumerate() {
                let db = db.as_ref().map_err(Clone::clone)?;
                figures[at].push(read(db, pairs, pairs, 2 + round)?);
            }
        }
        let [plain, encrypted] = figures.map(median);
        println!(
            "{what}, ns a get: plain {plain:.0}, encrypted {encrypted:.0} ({:+.0} %)",
            (encrypted / plain - 1.0) * 100.0
        );
    }
    Ok(())
}
