//! kill -9, again and again: what was acknowledged is there, and what is there is a prefix.
//!
//! The test runs itself as the victim: the child writes numbered keys and prints each number once
//! its write returned; the parent kills it at a random moment and opens the store.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use esker::{Batch, Db, Durability, Options, WriteOptions};
use esker_testkit::rng::SplitMix64;

const VICTIM: &str = "ESKER_KILL_VICTIM";

fn options() -> Options {
    Options {
        memory_budget_bytes: Some(32 << 20),
        memtable_size_bytes: Some(32 << 10),
        file_size_max_bytes: 32 << 10,
        guard_piece_min_bytes: 8 << 10,
        guard_size_max_bytes: 64 << 10,
        ..Options::default()
    }
}

/// Writes batch after batch for ever: batch n sets `last` and eight keys of its own.
fn victim(path: &str) -> ! {
    let db = Db::open(path, options()).unwrap();
    let from = next_number(&db);
    let mut out = std::io::stdout().lock();
    for n in from.. {
        let mut batch = Batch::new();
        batch.put("last", n.to_be_bytes());
        for part in 0..8u64 {
            let key = (n * 8 + part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            batch.put(key.to_be_bytes(), [n as u8; 60]);
        }
        let durability = if n % 16 == 0 { Durability::Sync } else { Durability::Buffered };
        db.write_with(&batch, &WriteOptions { durability: Some(durability) }).unwrap();
        writeln!(out, "{n}").unwrap();
        out.flush().unwrap();
    }
    unreachable!("the loop has no end")
}

fn next_number(db: &Db) -> u64 {
    let last = db.get("last").unwrap();
    last.map_or(0, |v| u64::from_be_bytes(v.first_chunk::<8>().copied().unwrap()) + 1)
}

#[test]
fn acknowledged_writes_survive_kill_9() {
    if let Ok(path) = std::env::var(VICTIM) {
        victim(&path);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let rounds: u64 = std::env::var("ESKER_KILL_ROUNDS").map_or(25, |r| r.parse().unwrap());
    let mut rng = SplitMix64::new(9);
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "acknowledged_writes_survive_kill_9", "--nocapture"])
            .env(VICTIM, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stop_after = 20 + rng.next_u64() % 800;
        let mut acknowledged = None;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        for line in lines {
            let Ok(n) = line.unwrap().parse::<u64>() else { continue };
            acknowledged = Some(n);
            seen += 1;
            if seen == stop_after {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let acknowledged = acknowledged.expect("the victim wrote something");
        check(&path, acknowledged, round);
    }
}

fn check(path: &std::path::Path, acknowledged: u64, round: u64) {
    let db = Db::open(path, options()).unwrap_or_else(|e| panic!("round {round}: {e}"));
    let next = next_number(&db);
    assert!(next > acknowledged, "round {round}: {acknowledged} was acknowledged, next is {next}");
    for n in 0..next {
        for part in 0..8u64 {
            let key = (n * 8 + part).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            let found = db.get(key).unwrap();
            assert_eq!(
                found.as_deref(),
                Some([n as u8; 60].as_slice()),
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
