//! Golden scripts: each file in `tests/scripts/*/` is a small document about one behaviour of the
//! engine. A line `> COMMAND` runs a command; the lines below it are the command's output. A script
//! begins with two comment lines (`# …`): what the script shows, and what it protects against.
//! The scripts run on a simulated disk in memory, in manual background mode, and print nothing that
//! differs between two runs. A failing test prints the expected and the actual output of the first
//! command that differs. `ESKER_REWRITE=yes` rewrites the outputs in place; review the diff then.
//!
//! ```text
//! ESKER_REWRITE=yes cargo test -p esker --test scripts
//! ```
//!
//! # Commands
//!
//! The store does not exist at first. Keys and values are words; `''` is the empty word. A value of
//! one repeated byte is printed as `v*100`, and typed in the same way. Commands without a result
//! print nothing. Errors are printed as `error KIND: MESSAGE`, with paths relative to the store.
//!
//! | Command | Effect |
//! |---|---|
//! | `open [read-only] [NAME=VALUE …]` | opens the store; options keep their value from then on |
//! | `close`, `reopen [NAME=VALUE …]` | closes cleanly; `reopen` opens again |
//! | `kill` | ends the process: keeps every written byte, synced or not |
//! | `power-cut [KIND]` | keeps synced bytes; `names-ahead`: and names; `zeros`: and lengths |
//! | `set NAME VALUE` | changes an option of the open store |
//! | `put K V`, `delete K`, `delete-range A B` | writes; `delete-range` takes `[A, B)` |
//! | `batch OP; OP; …` | writes these operations as one batch |
//! | `fill P A..B V` | puts P with each number of A..B in three digits; one write each |
//! | `sync`, `flush` | syncs the log; writes the memtables to tables |
//! | `job`, `jobs` | runs one background job, or all; prints the tables removed and added |
//! | `compact [A B]` | compacts a key range, or everything |
//! | `snapshot S`, `release S` | takes and releases a snapshot |
//! | `get K [@S]`, `scan [A B] [@S]` | reads, optionally at a snapshot |
//! | `count [A B] [@S]` | prints the number of pairs, and the first and last key |
//! | `levels` | prints the metrics of each level, and checks them against `tree` |
//! | `work` | prints the flushes, compactions, moves and log syncs since the opening |
//! | `tree` | prints each level's guards, runs (with their age) and slices of tables |
//! | `plan` | prints the compaction that is due, computed from the manifest |
//! | `plan-compact [A B]` | prints the plans of a manual compaction |
//! | `plan-seeks K N` | prints the compaction that is due after N seeks to K |
//! | `table FILE` | prints a table's entries and range tombstones |
//! | `log [FILE]` | prints a log, record by record |
//! | `manifest`, `current` | prints the edits of the manifest; prints the pointer to it |
//! | `files` | prints the names of the files, and the lengths of logs |
//! | `notes` | prints what the last opening reports as lost in a crash |
//! | `verify`, `repair` | prints the problems of the open store; repairs the closed store |
//! | `cut FILE LEN` | truncates a file; with `-N`, by N bytes |
//! | `zero FILE AT LEN`, `flip FILE AT` | overwrites bytes with zeros; inverts one bit of a byte |
//! | `grow FILE LEN [BYTE]` | appends LEN zeros, or other bytes |
//! | `remove FILE`, `copy FILE NAME`, `create NAME` | removes, copies or creates a file |
//!
//! FILE is a name, or `log`, `manifest` or `table` for the newest of its kind. AT is an offset in
//! bytes; `-N` counts from the end. Damage needs a closed or killed store.

mod golden_script;
mod script_runner;

use std::path::PathBuf;

use golden_script::{Interpreter, Script, difference, run_folder};
use script_runner::Session;

/// Returns an interpreter without a store.
fn interpreter() -> Interpreter {
    let mut session = Session::new();
    Box::new(move |command| session.run(command))
}

#[test]
fn log_scripts() {
    run_folder("log", 30, interpreter);
}

#[test]
fn manifest_scripts() {
    run_folder("manifest", 20, interpreter);
}

#[test]
fn recovery_scripts() {
    run_folder("recovery", 35, interpreter);
}

#[test]
fn compaction_scripts() {
    run_folder("compaction", 40, interpreter);
}

#[test]
fn wrong_missing_and_extra_output_lines_are_reported() {
    let run = |text: &str| {
        let script = Script { path: PathBuf::from("test"), text: text.to_string() };
        let actual = script.run(interpreter());
        (difference(&script.path, text, &actual), script.problem())
    };
    let good =
        "# Shows a get.\n# Protects the runner.\n> open\n> put a 1\n> get a\n1\n> get b\nnone\n";
    assert_eq!(run(good), (None, None));
    for (from, to) in [("1\n> get b", "2\n> get b"), ("none\n", ""), ("none\n", "none\nmore\n")] {
        let (found, _) = run(&good.replace(from, to));
        assert!(found.unwrap().contains("the output differs"), "{to}");
    }
    assert!(run("# One line only.\n> open\n> get b\nnone\n").1.is_some());
    assert!(run("# Nothing\n# is printed.\n> open\n").1.is_some());
}
