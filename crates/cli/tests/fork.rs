//! `esker fork` and `esker diff`: what they print, and their exit codes.

mod common;

use common::TestDir;

fn forked() -> TestDir {
    let dir = TestDir::new();
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        dir.ok(&["put", "db", key, value]);
    }
    assert!(dir.ok(&["fork", "db", "copy", "--name", "try"]).starts_with("fork: copy ("));
    dir
}

/// Runs `diff`, which must exit with `code` and say nothing else, and returns what it printed.
fn diff(dir: &TestDir, args: &[&str], code: i32) -> String {
    let ran = dir.run(&[&["diff"], args].concat());
    assert_eq!((ran.code, ran.err.as_str()), (code, ""), "{args:?}: {}", ran.out);
    ran.out
}

#[test]
fn diff_prints_what_changed_and_exits_as_diff_does() {
    let dir = forked();
    dir.ok(&["compact", "db"]);
    dir.ok(&["fork", "db", "fork"]);
    assert_eq!(diff(&dir, &["db", "fork"], 0), "");
    assert_eq!(
        diff(&dir, &["db", "fork", "--summary"], 0),
        "the second store is a fork of the first; they share 1 table\nno pair differs\n"
    );
    dir.ok(&["put", "fork", "b", "two"]);
    dir.ok(&["put", "fork", "d\\x00", "4"]);
    dir.ok(&["delete", "fork", "a"]);
    let lines = "-a\t1\n-b\t2\n+b\ttwo\n+d\\x00\t4\n";
    assert_eq!(diff(&dir, &["db", "fork"], 1), lines);
    assert_eq!(diff(&dir, &["fork", "db", "--limit", "1"], 1), "+a\t1\n");
    assert_eq!(diff(&dir, &["db", "fork", "--hex", "--limit", "1"], 1), "-61\t31\n");
    let json = diff(&dir, &["db", "fork", "--json"], 1);
    let first = json.lines().nth(1).unwrap();
    let value: serde_json::Value = serde_json::from_str(first).unwrap();
    assert_eq!(
        value,
        serde_json::json!({
            "keyspace": "default", "key": "b", "old": "2", "new": "two",
        })
    );
    let summary = diff(&dir, &["db", "fork", "--summary"], 1);
    assert!(summary.ends_with("default: 1 added, 1 removed, 1 changed\n"), "{summary}");
    dir.ok(&["put", "fork", "e", "5", "--ttl", "1h"]);
    assert!(diff(&dir, &["db", "fork"], 1).contains("+e\t5\texpires_ms="));
}

#[test]
fn keyspaces_and_unrelated_stores_are_compared() {
    let dir = forked();
    dir.ok(&["keyspace", "create", "copy", "users"]);
    dir.ok(&["put", "copy", "--keyspace", "users", "k", "v"]);
    dir.ok(&["put", "other", "a", "1"]);
    let ran = dir.run(&["diff", "db", "copy"]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.out,
        "# only the second store has the keyspace users\n@@ keyspace users\n+k\tv\n"
    );
    let ran = dir.run(&["diff", "db", "copy", "--keyspace", "default"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    dir.fails(&["diff", "db", "copy", "--keyspace", "user"], 4, "neither store has a keyspace");
    let ran = dir.run(&["diff", "db", "other", "--summary"]);
    assert!(ran.err.contains("note: the stores share no table"), "{}", ran.err);
    assert!(ran.out.contains("unrelated to the first"), "{}", ran.out);
    assert!(ran.out.contains("default: 0 added, 2 removed, 0 changed"), "{}", ran.out);
    let json = dir.run(&["diff", "db", "other", "--summary", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(value["differences"]["default"]["removed"], 2);
    dir.fails(&["diff", "db", "none"], 4, "there is no store here");
    dir.fails(&["diff", "db"], 2, "required");
    dir.fails(&["fork", "db", "copy"], 2, "the fork's directory exists");
    dir.fails(&["fork", "db", "new", "--name", ""], 2, "name of a fork is empty");
    let json = dir.ok(&["fork", "db", "new", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&value["fork"], &value["name"]), (&"new".into(), &serde_json::Value::Null));
}

#[test]
fn a_store_is_forked_while_another_process_has_it_open() {
    let dir = forked();
    let db = esker::Db::open(dir.path("db"), esker::Options::default()).unwrap();
    db.put("live", "yes").unwrap();
    dir.ok(&["fork", "db", "live"]);
    assert_eq!(dir.ok(&["get", "live", "live"]), "yes\n");
    db.put("live", "no").unwrap();
    assert_eq!(dir.run(&["diff", "live", "db"]).out, "-live\tyes\n+live\tno\n");
}
