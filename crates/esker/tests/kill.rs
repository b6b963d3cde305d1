//! Repeated `kill -9`: every acknowledged write is present, and the content is a prefix of the
//! writes.
//!
//! The test runs itself as the victim. The child writes numbered keys and prints each number after
//! its write returned. The parent kills the child at a random moment and opens the store.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use esker::{Batch, Db, Durability, Options, WriteOptions};
use esker_testkit::rng::SplitMix64;

const VICTIM: &str = "ESKER_KILL_VICTIM";
const SHAPE: &str = "ESKER_KILL_SHAPE";

/// Parameters of the victim's store and writes.
struct Shape {
    memtable_bytes: u64,
    value_bytes: usize,
    /// Number of writes per synced write.
    sync_every: u64,
    rounds: u64,
}

const SHAPES: [Shape; 2] = [
    // Dozens of logs, flushes and compactions.
    Shape { memtable_bytes: 32 << 10, value_bytes: 60, sync_every: 16, rounds: 25 },
    // Each log has many windows of the memory-mapped file, prepared in advance by a thread.
    Shape { memtable_bytes: 4 << 20, value_bytes: 600, sync_every: u64::MAX, rounds: 10 },
];

/// Size of the window of a memory-mapped log, in bytes. See `fs/mapped.rs`.
const WINDOW_BYTES: u64 = 256 << 10;

fn options(shape: &Shape) -> Options {
    Options {
        memory_budget_bytes: Some(32 << 20),
        memtable_size_bytes: Some(shape.memtable_bytes),
        file_size_max_bytes: 32 << 10,
        guard_piece_min_bytes: 8 << 10,
        guard_size_max_bytes: 64 << 10,
        ..Options::default()
    }
}

/// Writes batches until killed. Batch n sets `last` and eight keys of its own.
fn victim(path: &str, shape: &Shape) -> ! {
    let db = Db::open(path, options(shape)).unwrap();
    let from = next_number(&db);
    let mut out = std::io::stdout().lock();
    for n in from.. {
        let mut batch = Batch::new();
        batch.put("last", n.to_be_bytes());
        for part in 0..8u64 {
            let key = (n * 8 + part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            batch.put(key.to_be_bytes(), vec![n as u8; shape.value_bytes]);
        }
        let durability =
            if n % shape.sync_every == 0 { Durability::Sync } else { Durability::Buffered };
        db.write_with(&batch, &WriteOptions::default().durability(Some(durability))).unwrap();
        let counted = db.metrics();
        writeln!(out, "{n} {} {}", counted.log_bytes, counted.log_mapped_bytes).unwrap();
        out.flush().unwrap();
    }
    unreachable!("the loop never ends")
}

fn next_number(db: &Db) -> u64 {
    let last = db.get("last").unwrap();
    last.map_or(0, |v| u64::from_be_bytes(v.first_chunk::<8>().copied().unwrap()) + 1)
}

#[test]
fn acknowledged_writes_survive_kill_9() {
    if let Ok(path) = std::env::var(VICTIM) {
        let shape: usize = std::env::var(SHAPE).unwrap().parse().unwrap();
        victim(&path, &SHAPES[shape]);
    }
    let rounds = std::env::var("ESKER_KILL_ROUNDS").ok().map(|r| r.parse::<u64>().unwrap());
    for (number, shape) in SHAPES.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mut rng) = (dir.path().join("db"), SplitMix64::new(9));
        let (mut log_bytes_most, mut mapped_bytes_most) = (0, 0);
        for round in 0..rounds.unwrap_or(shape.rounds) {
            let stop_after = 20 + rng.next_u64() % 800;
            let [acknowledged, log_bytes, mapped_bytes] = killed(&path, number, stop_after);
            log_bytes_most = log_bytes.max(log_bytes_most);
            mapped_bytes_most = mapped_bytes.max(mapped_bytes_most);
            check(&path, shape, acknowledged, round);
        }
        let windows = log_bytes_most / WINDOW_BYTES;
        assert!(number == 0 || windows > 8, "no victim got beyond {windows} windows of its log");
        let place = dir.path().display();
        // The portable half maps no log.
        let may_map = cfg!(all(target_os = "linux", not(esker_portable)));
        assert!(
            !may_map || mapped_bytes_most > 0,
            "no log was mapped: can {place} map and allocate files?"
        );
    }
}

/// Kills a victim after `stop_after` writes. Returns the last printed numbers: the write's number,
/// the bytes of the logs, and the log bytes written through mappings without a system call.
fn killed(path: &std::path::Path, shape: usize, stop_after: u64) -> [u64; 3] {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "acknowledged_writes_survive_kill_9", "--nocapture"])
        .env(VICTIM, path)
        .env(SHAPE, shape.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut last, mut seen) = (None, 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let numbers: Vec<u64> = line.split(' ').map_while(|part| part.parse().ok()).collect();
        let Ok(numbers) = numbers.try_into() else { continue };
        last = Some(numbers);
        seen += 1;
        if seen == stop_after {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert_eq!(status.code(), None, "the victim ended by itself after {seen} writes: {status}");
    last.expect("the victim wrote something")
}

fn check(path: &std::path::Path, shape: &Shape, acknowledged: u64, round: u64) {
    let db = Db::open(path, options(shape)).unwrap_or_else(|e| panic!("round {round}: {e}"));
    let next = next_number(&db);
    assert!(next > acknowledged, "round {round}: {acknowledged} was acknowledged, next is {next}");
    for n in 0..next {
        for part in 0..8u64 {
            let key = (n * 8 + part).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            let found = db.get(key).unwrap();
            assert_eq!(
                found.as_deref(),
                Some(vec![n as u8; shape.value_bytes].as_slice()),
                "round {round}: batch {n}"
            );
        }
    }
    assert_eq!(
        db.iter().unwrap().count() as u64,
        next * 8 + 1,
        "round {round}: a batch is partial"
    );
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    db.close().unwrap();
}
