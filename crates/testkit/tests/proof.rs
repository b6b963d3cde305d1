//! The short form of `make proof`: outside judges check histories of concurrent operations, over
//! processes that are killed, syncs that fail and stores that are opened again; and they find each
//! planted bug.
//!
//! Without Go a test prints `porcupine: skipped, no Go` and checks the rest.

use std::io::Write as _;
use std::process::Command;

/// Runs `proof` and returns its rows.
fn proof(command: &str, arguments: &[&str]) -> String {
    let dir = std::env::temp_dir().join(format!("esker-{command}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut proof = Command::new(env!("CARGO_BIN_EXE_proof"));
    let ran = proof.arg(command).args(arguments).arg("--dir").arg(&dir).output().unwrap();
    let rows = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{rows}\n{}", String::from_utf8_lossy(&ran.stderr));
    for skipped in rows.lines().filter(|row| row.starts_with("porcupine: skipped")) {
        // Not through `eprintln`, whose output a passing test does not show.
        let _ = std::io::stderr().write_all(format!("{skipped}\n").as_bytes());
    }
    std::fs::remove_dir_all(&dir).unwrap();
    rows
}

/// Returns the number before ` kills` in a row.
fn kills(row: &str) -> u64 {
    let before = row.split(" kills").next().unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn transactions_keep_their_isolation() {
    let rows = proof("transactions", &["--seed", "11"]);
    assert_eq!(rows.lines().count(), 2, "{rows}");
    for row in rows.lines() {
        assert!(row.starts_with("| adya: ") && row.contains("| nothing |"), "{row}");
        assert!(kills(row) > 0, "{row}");
    }
}

#[test]
fn plain_operations_are_linearizable() {
    let rows = proof("plain", &["--seed", "12"]);
    let is_skipped = rows.starts_with("porcupine: skipped, ");
    assert!(is_skipped || rows.contains("| nothing |") && kills(&rows) > 0, "{rows}");
}

#[test]
fn planted_bugs_are_found() {
    let rows = proof("plants", &["--seed", "13"]);
    assert_eq!(rows.lines().count(), 8, "{rows}");
    assert!(!rows.contains("NOT FOUND"), "{rows}");
}
