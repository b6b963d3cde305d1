//! How much space does a store take whose pairs expire, and what does a scan over expired pairs cost?
//! Pairs of 16 and 100 bytes that do not compress are put at a constant rate, and live TTL_SECONDS (20).
//! The rate is such that SIZE (1000000) live at any time. The space is that of the tables, twenty times
//! in each lifetime from the second to the third, as a multiple of the bytes of the pairs that live. The
//! logs, of at most four memtables, are not counted: their size does not depend on the pairs that have
//! expired. At the end all pairs but a few have expired, and seeks to the first key are timed: beside
//! those of a store that never had other pairs. `make expiry` runs it, ROUNDS (1) times, with keys in the
//! order of time and at random, and with two sizes of the memtable.
//!
//! Invariants: no expired pair is ever read, and every live one is.

mod common;

use std::fs::DirEntry;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use common::{ended, middle, number};
use esker::{Db, Options};
use esker_lab::workload::rng::Rng;

const LIFETIMES: u64 = 3;
/// Number of looks at the space in each lifetime.
const LOOKS: u64 = 20;
/// Number of pairs that do not expire.
const KEPT: u64 = 100;
const SEEKS: u64 = 200;
const PAIR_BYTES: u64 = 16 + 100;
/// Number of puts between two looks at the clock.
const PUTS_PER_PACE: u64 = 100;

/// The order of the keys.
#[derive(Clone, Copy)]
enum Keys {
    /// In the order of their time, as events have them.
    Time,
    /// At random, as sessions have them.
    Random,
}

impl Keys {
    fn key(self, at: u64) -> [u8; 16] {
        let number = match self {
            Keys::Time => at,
            // An odd factor: no two numbers have the same key.
            Keys::Random => at.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let mut key = *b"pair    00000000";
        key[8..].copy_from_slice(&number.to_be_bytes());
        key
    }
}

/// What one run has measured.
struct Measured {
    /// Multiples of the live bytes: the middle and the greatest of all looks.
    space: [f64; 2],
    /// Seconds by which a put was late at most.
    late: f64,
    /// Microseconds of a seek over the expired pairs: at once, and after a rest.
    seeks: [f64; 2],
    /// Microseconds of a seek in a store that has had no other pairs.
    plain: f64,
}

fn table_bytes(dir: &Path) -> u64 {
    let is_table = |entry: &DirEntry| entry.path().extension().is_some_and(|own| own == "sst");
    let entries =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    // A table may be removed meanwhile.
    entries.filter(is_table).map(|entry| entry.metadata().map_or(0, |found| found.len())).sum()
}

fn open(dir: &Path, memtable_bytes: u64) -> Db {
    let mut options = Options::default();
    options.set("memory_budget_bytes", "268435456").expect("an option");
    options.set("memtable_size_bytes", &memtable_bytes.to_string()).expect("an option");
    let db = Db::open(dir, options).expect("opens");
    for at in 0..KEPT {
        db.put(format!("zz{at:014}"), [b'v'; 100]).expect("puts");
    }
    db
}

/// Returns the microseconds of a seek to the first key. Only the pairs that stay are found.
fn seek_micros(db: &Db) -> f64 {
    let began = Instant::now();
    for _ in 0..SEEKS {
        let mut iter = db.iter().expect("an iterator");
        iter.seek(b"pair").expect("seeks");
        assert!(iter.valid() && iter.key() == b"zz00000000000000", "an expired pair was found");
    }
    began.elapsed().as_secs_f64() * 1e6 / SEEKS as f64
}

fn run(keys: Keys, live: u64, ttl: Duration, memtable_bytes: u64) -> Measured {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let db = open(&path, memtable_bytes);
    let mut rng = Rng::new(11);
    let (mut value, mut spaces, mut late) = ([0u8; 100], Vec::new(), 0f64);
    let live_bytes = ((live + KEPT) * PAIR_BYTES) as f64;
    let look_every = (live / LOOKS).max(1);
    let began = Instant::now();
    for at in 0..LIFETIMES * live {
        if at.is_multiple_of(PUTS_PER_PACE) {
            let due = ttl.mul_f64(at as f64 / live as f64);
            let now = began.elapsed();
            late = late.max(now.saturating_sub(due).as_secs_f64());
            std::thread::sleep(due.saturating_sub(now));
        }
        for part in value.chunks_mut(8) {
            part.copy_from_slice(&rng.next_u64().to_le_bytes()[..part.len()]);
        }
        db.put_with_ttl(keys.key(at), value, ttl).expect("puts");
        if at > live && at.is_multiple_of(look_every) {
            spaces.push(table_bytes(&path) as f64 / live_bytes);
            let new = keys.key(at - live / 4);
            assert!(db.get(new).expect("gets").is_some(), "a live pair was not read");
            // A pair that was put late lives longer.
            let is_punctual = late < ttl.as_secs_f64() / LOOKS as f64;
            if let Some(old) = (at - live).checked_sub(look_every).filter(|_| is_punctual) {
                let found = db.get(keys.key(old)).expect("gets");
                assert!(found.is_none(), "an expired pair was read");
            }
        }
    }
    std::thread::sleep(ttl);
    let at_once = seek_micros(&db);
    std::thread::sleep(Duration::from_secs(2));
    db.wait_idle().expect("idle");
    let after = seek_micros(&db);
    let (median, _, most) = middle(spaces);
    let plain = seek_micros(&open(&dir.path().join("other"), memtable_bytes));
    Measured { space: [median, most], late, seeks: [at_once, after], plain }
}

fn run_all() -> Result<(), String> {
    let (rounds, live) = (number("ROUNDS", 1, 1)?, number("SIZE", 1_000_000, 1_000)?);
    let ttl = Duration::from_secs(number("TTL_SECONDS", 20, 1)?);
    println!(
        "| keys, memtable | space: median, greatest | latest put, s | seek over expired pairs, µs: at \
         once | after a rest | without them |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, keys) in [("by time", Keys::Time), ("at random", Keys::Random)] {
        for memtable_mib in [64, 4] {
            eprintln!("expiry: {name}, {memtable_mib} MiB");
            let runs: Vec<Measured> =
                (0..rounds).map(|_| run(keys, live, ttl, memtable_mib << 20)).collect();
            let of =
                |figure: &dyn Fn(&Measured) -> f64| middle(runs.iter().map(figure).collect()).0;
            let most = |figure: fn(&Measured) -> f64| runs.iter().map(figure).fold(0.0, f64::max);
            println!(
                "| {name}, {memtable_mib} MiB | {:.2}, {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
                of(&|run| run.space[0]),
                most(|run| run.space[1]),
                most(|run| run.late),
                of(&|run| run.seeks[0]),
                of(&|run| run.seeks[1]),
                of(&|run| run.plain)
            );
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    ended("expiry", run_all())
}
