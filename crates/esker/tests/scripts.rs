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

mod script_runner;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use script_runner::Session;

/// A script: its lines in order.
struct Script {
    path: PathBuf,
    text: String,
}

impl Script {
    fn read(path: PathBuf) -> Script {
        let text = std::fs::read_to_string(&path).unwrap();
        Script { path, text }
    }

    /// Runs the commands and returns the script with their actual outputs.
    fn run(&self) -> String {
        let mut session = Session::new();
        let mut actual = String::new();
        for (at, line) in self.text.lines().enumerate() {
            if let Some(command) = line.strip_prefix("> ") {
                actual += &format!("{line}\n");
                let output = session.run(command).unwrap_or_else(|problem| {
                    panic!("{}:{}: {line}: {problem}", self.path.display(), at + 1)
                });
                for line in output {
                    let plain = !line.is_empty() && !line.starts_with(['>', '#']);
                    assert!(plain, "{}: the output {line:?} is ambiguous", self.path.display());
                    actual += &format!("{line}\n");
                }
            } else if line.is_empty() || line.starts_with('#') {
                actual += &format!("{line}\n");
            }
        }
        actual
    }

    /// Returns what is wrong with the script's form, if anything.
    fn problem(&self) -> Option<&'static str> {
        let lines: Vec<&str> = self.text.lines().collect();
        let comment = |at: usize| lines.get(at).is_some_and(|line| line.starts_with("# "));
        if !(comment(0) && comment(1)) || comment(2) {
            return Some("a script begins with two comment lines");
        }
        let output = |line: &&str| !line.is_empty() && !line.starts_with(['>', '#']);
        if !lines.iter().any(output) {
            return Some("no command has an output, so the script cannot fail");
        }
        let mut comments = lines.iter().filter(|line| line.starts_with('#'));
        comments.any(|line| line.len() > 100).then_some("a comment is longer than 100 bytes")
    }
}

/// Divides a script at its commands: the line number of each command, and its lines.
fn steps(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut steps = vec![(0, Vec::new())];
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("> ") {
            steps.push((at + 1, Vec::new()));
        }
        steps.last_mut().unwrap().1.push(line);
    }
    steps
}

/// Returns a description of the first command whose output differs; `None` for equal scripts.
fn difference(path: &Path, expected: &str, actual: &str) -> Option<String> {
    let (expected, actual) = (steps(expected), steps(actual));
    let pairs = expected.iter().zip(&actual);
    let (wanted, found) = pairs.into_iter().find(|(wanted, found)| wanted.1 != found.1)?;
    let mut text = format!("{}:{}: the output differs\n", path.display(), wanted.0);
    for line in &wanted.1 {
        let mark = if found.1.contains(line) { ' ' } else { '-' };
        writeln!(text, "{mark} {line}").unwrap();
    }
    for line in found.1.iter().filter(|line| !wanted.1.contains(line)) {
        writeln!(text, "+ {line}").unwrap();
    }
    Some(text + "run with ESKER_REWRITE=yes to accept the new outputs")
}

/// Runs every script of a folder, each in a thread of its own, and compares or rewrites it.
fn run_folder(name: &str, least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(name);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= least, "{name}: {} scripts, expected {least}", paths.len());
    let rewrite = std::env::var("ESKER_REWRITE").is_ok_and(|value| value == "yes");
    let mut problems = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        // Seeks are sampled per thread, so scripts must not share one.
        let run = std::thread::spawn(move || {
            let script = Script::read(path);
            let actual = script.run();
            (script, actual)
        });
        let Ok((script, actual)) = run.join() else {
            problems.push(format!("{shown}: stopped; the cause is above"));
            continue;
        };
        if rewrite && actual != script.text {
            std::fs::write(&script.path, &actual).unwrap();
        }
        let script = if rewrite { Script { text: actual.clone(), ..script } } else { script };
        let problem = script.problem().map(|what| format!("{}: {what}", script.path.display()));
        problems.extend(problem.or_else(|| difference(&script.path, &script.text, &actual)));
    }
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n\n"));
}

#[test]
fn log_scripts() {
    run_folder("log", 30);
}

#[test]
fn manifest_scripts() {
    run_folder("manifest", 20);
}

#[test]
fn recovery_scripts() {
    run_folder("recovery", 35);
}

#[test]
fn compaction_scripts() {
    run_folder("compaction", 40);
}

#[test]
fn wrong_missing_and_extra_output_lines_are_reported() {
    let run = |text: &str| {
        let script = Script { path: PathBuf::from("test"), text: text.to_string() };
        let actual = script.run();
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
