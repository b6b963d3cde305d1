//! Golden scripts: lines with `> command` are sent to `esker shell`, and the lines between are the
//! expected answers, with `{dir}` for the directory of the store. `! reopen FLAGS` ends the session
//! and starts another session on the same store.

mod common;

use std::path::Path;

use common::TestDir;

/// Runs one script and compares the answers.
fn check(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let dir = TestDir::new();
    for (at, session) in text.split("! reopen").enumerate() {
        let (flags, session) =
            if at == 0 { ("", session) } else { session.split_once('\n').unwrap() };
        let mut input = Vec::new();
        let mut expected = String::new();
        for line in session.lines() {
            match line.strip_prefix("> ") {
                Some(command) => input.extend_from_slice(format!("{command}\n").as_bytes()),
                None if line.starts_with("# ") || line.is_empty() => {}
                None => expected += &format!("{}\n", line.strip_prefix("| ").unwrap_or(line)),
            }
        }
        // Messages contain the directory of the store.
        let expected =
            expected.replace("{dir}", dir.full_path("").to_str().unwrap().trim_end_matches('/'));
        let mut args = vec!["shell", "db"];
        args.extend(flags.split_whitespace());
        let ran = dir.run_with_input(&args, &input);
        assert_eq!(ran.out, expected, "{} session {at}: {}", path.display(), ran.err);
        let first =
            expected.lines().any(|line| line.starts_with("ERROR ") || line.starts_with("{\"error"));
        assert_eq!(ran.code != 0, first, "{} session {at}: exit code {}", path.display(), ran.code);
    }
}

#[test]
fn golden_scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 6);
    paths.iter().for_each(|path| check(path));
}

#[test]
fn scripts_accept_any_bytes() {
    let dir = TestDir::new();
    let ran =
        dir.run_with_input(&["shell", "db"], b"put \xff\xfe raw \x01\x02\r\nget \xff\xfe\nscan");
    assert_eq!(ran.out, "OK\nraw \\x01\\x02\n\\xff\\xfe raw \\x01\\x02\nOK\n");
}

#[test]
fn unfinished_batch_is_discarded_and_reported() {
    let dir = TestDir::new();
    let ran = dir.run_with_input(&["shell", "db"], b"batch\nput a 1\nput b 2\n");
    assert!(ran.err.contains("batch of 2 operations was not committed"), "{}", ran.err);
    let ran = dir.run_with_input(&["shell", "db"], b"batch\nput a 1\n");
    assert!(ran.err.contains("batch of 1 operation was not committed"), "{}", ran.err);
    assert_eq!(dir.ok(&["scan", "db"]), "");
}

#[test]
fn unfinished_transactions_are_rolled_back_and_reported() {
    let dir = TestDir::new();
    let input =
        b"begin\nput a 1\nsession second\nbegin pessimistic\nput b 2\nsession third\nbatch\n";
    let ran = dir.run_with_input(&["shell", "db"], input);
    for part in ["the transaction", "of the session \"second\"", "the batch of 0 operations"] {
        assert!(ran.err.contains(part), "{:?} lacks {part:?}", ran.err);
    }
    assert_eq!(ran.err.lines().count(), 3, "{}", ran.err);
    assert_eq!(dir.ok(&["scan", "db"]), "");
}

#[test]
fn bail_stops_at_the_first_error() {
    let dir = TestDir::new();
    let ran = dir.run_with_input(&["shell", "db", "--bail"], b"put a 1\nnonsense\nput b 2\n");
    assert_eq!((ran.code, ran.out.lines().count()), (2, 2), "{}", ran.out);
    assert_eq!(dir.ok(&["scan", "db"]), "a\t1\n");
}

#[test]
fn stats_and_help_end_with_ok() {
    let dir = TestDir::new();
    let ran = dir.run_with_input(&["shell", "db"], b"stats\nhelp\n");
    assert_eq!(ran.out.lines().filter(|line| *line == "OK").count(), 2, "{}", ran.out);
    assert!(ran.out.contains("write amplification") && ran.out.contains("deleterange FROM TO"));
}
