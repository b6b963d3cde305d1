//! Tests of `esker keyspace`, of `--keyspace`, and of dumps that describe keyspaces.

mod common;

use common::TestDir;
use serde_json::{Value, json};

/// Creates a store with pairs in the keyspaces `default`, `users` and `logs`.
fn with_keyspaces() -> TestDir {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "a", "0"]);
    dir.ok(&["keyspace", "create", "db", "users"]);
    let options = ["--order", "reverse", "--set", "compression=none", "--set", "bloom_bits=4"];
    dir.ok(&[&["keyspace", "create", "db", "logs"][..], &options].concat());
    for (keyspace, key, value) in
        [("users", "a", "1"), ("users", "b", "2"), ("logs", "a", "3"), ("logs", "b\\x09", "\\xff")]
    {
        dir.ok(&["put", "db", key, value, "--keyspace", keyspace]);
    }
    dir
}

/// Returns the keyspaces of a store without the fields that differ between equal stores.
fn listed(dir: &TestDir, db: &str) -> Vec<Value> {
    let out = dir.ok(&["keyspace", "list", db, "--json"]);
    let entry = |line: &str| {
        let mut entry: Value = serde_json::from_str(line).unwrap();
        for field in ["number", "tree", "table_bytes"] {
            assert!(entry[field].is_u64(), "{line}");
            entry.as_object_mut().unwrap().remove(field);
        }
        entry
    };
    out.lines().map(entry).collect()
}

fn names(dir: &TestDir, db: &str) -> Vec<String> {
    listed(dir, db).iter().map(|entry| entry["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn keyspaces_are_created_and_listed() {
    let dir = TestDir::new();
    let out = dir.ok(&["keyspace", "create", "db", "users"]);
    assert_eq!(out, "keyspace 1 created: users\n");
    let args = ["create", "db", "logs", "--order=reverse", "--set", "bloom_bits=4", "--json"];
    let out = dir.ok(&[&["keyspace"][..], &args].concat());
    assert_eq!(out, "{\"ok\":true,\"name\":\"logs\",\"number\":2,\"tree\":2}\n");
    dir.ok(&["keyspace", "create", "db", "more users"]);
    let out = dir.ok(&["keyspace", "list", "db"]);
    let rows: Vec<String> =
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let wanted = [
        "name number tree order bytes options",
        "default 0 0 bytewise 0 B",
        "logs 2 2 reverse 0 B filter_bits_per_key=4",
        "more users 3 1 bytewise 0 B",
        "users 1 1 bytewise 0 B",
    ];
    assert_eq!(rows, wanted);
    let out = dir.ok(&["--json", "keyspace", "list", "db"]);
    let logs: Value = serde_json::from_str(out.lines().nth(1).unwrap()).unwrap();
    let wanted = json!({
        "name": "logs", "number": 2, "tree": 2, "order": "reverse", "table_bytes": 0,
        "options": { "filter_bits_per_key": "4" },
    });
    assert_eq!(logs, wanted);
    // Tables count once they exist.
    dir.ok(&["put", "db", "key", "value", "--keyspace", "logs"]);
    dir.ok(&["compact", "db"]);
    let out = dir.ok(&["keyspace", "list", "db", "--json"]);
    let logs: Value = serde_json::from_str(out.lines().nth(1).unwrap()).unwrap();
    assert!(logs["table_bytes"].as_u64().unwrap() > 0, "{out}");
}

#[test]
fn bad_names_and_options_create_nothing() {
    let dir = TestDir::new();
    let create = ["keyspace", "create", "db"];
    let long = "n".repeat(256);
    for (name, message) in [
        ("", "is empty"),
        (&long[..], "256 bytes"),
        ("a\\x0ab", "control characters"),
        ("\\xff", "UTF-8"),
        ("\\xg", "hexadecimal"),
    ] {
        dir.fails(&[&create[..], &[name]].concat(), 2, message);
    }
    for (set, message) in [
        ("wal_io=write", "option of the whole store"),
        ("compression=gzip", "cannot be \"gzip\""),
        ("nothing=1", "unknown option"),
        ("compression", "NAME=VALUE"),
    ] {
        dir.fails(&[&create[..], &["users", "--set", set]].concat(), 2, message);
    }
    dir.fails(&[&create[..], &["users", "--order", "random"]].concat(), 2, "random");
    assert!(!dir.path("db").exists());
    dir.ok(&[&create[..], &["users"]].concat());
    dir.fails(&[&create[..], &["users"]].concat(), 2, "\"users\" exists already");
    dir.fails(&[&create[..], &["default"]].concat(), 2, "\"default\" exists already");
    dir.fails(&["keyspace", "list", "none"], 4, "there is no store here");
    dir.fails(&["keyspace", "drop", "none", "users", "--yes"], 4, "there is no store here");
}

#[test]
fn keyspaces_are_renamed_and_dropped() {
    let dir = with_keyspaces();
    dir.ok(&["keyspace", "rename", "db", "users", "people"]);
    assert_eq!(names(&dir, "db"), ["default", "logs", "people"]);
    assert_eq!(dir.ok(&["get", "db", "b", "--keyspace", "people"]), "2\n");
    dir.fails(&["keyspace", "rename", "db", "people", "logs"], 2, "exists already");
    dir.fails(&["keyspace", "rename", "db", "default", "x"], 2, "neither dropped nor renamed");
    dir.fails(&["keyspace", "rename", "db", "users", "x"], 4, "there is no keyspace \"users\"");
    dir.fails(&["keyspace", "drop", "db", "people"], 2, "nothing was dropped");
    dir.fails(&["keyspace", "drop", "db", "peopel", "--yes"], 4, "the nearest name is \"people\"");
    dir.fails(&["keyspace", "drop", "db", "default", "--yes"], 2, "neither dropped nor renamed");
    assert_eq!(names(&dir, "db"), ["default", "logs", "people"]);
    let ran = dir.run_with_input(&["keyspace", "drop", "db", "people"], b"y\n");
    assert!(ran.code == 0 && ran.err.contains("\"people\""), "{}", ran.err);
    assert_eq!(dir.ok(&["keyspace", "drop", "db", "logs", "--yes", "--json"]), "{\"ok\":true}\n");
    assert_eq!(names(&dir, "db"), ["default"]);
    assert_eq!(dir.ok(&["scan", "db"]), "a\t0\n");
    // The same name is another keyspace.
    dir.ok(&["keyspace", "create", "db", "people"]);
    assert_eq!(dir.ok(&["scan", "db", "--keyspace", "people"]), "");
}

#[test]
fn every_data_command_works_on_the_named_keyspace() {
    let dir = with_keyspaces();
    let users = |args: &[&str]| dir.ok(&[args, &["--keyspace", "users"]].concat());
    assert_eq!(users(&["get", "db", "a"]), "1\n");
    assert_eq!(users(&["scan", "db"]), "a\t1\nb\t2\n");
    assert_eq!(users(&["scan", "db", "--count"]), "2\n");
    assert_eq!(users(&["scan", "db", "--prefix", "b", "--keys"]), "b\n");
    assert_eq!(users(&["scan", "db", "a", "b", "--json"]), "{\"key\":\"a\",\"value\":\"1\"}\n");
    users(&["delete", "db", "a", "--must-exist"]);
    dir.fails(&["delete", "db", "a", "--must-exist", "--keyspace", "users"], 1, "not found");
    users(&["put", "db", "c", "4", "--sync"]);
    users(&["delete", "db", "b", "--to", "c"]);
    assert_eq!(users(&["scan", "db"]), "c\t4\n");
    dir.file("in.csv", "k,v\nd,5\ne,6\n");
    assert!(users(&["load", "db", "in.csv"]).starts_with("loaded 2 pairs, no bad row, in"));
    assert!(users(&["compact", "db"]).starts_with("tables: "));
    users(&["compact", "db", "a", "d"]);
    assert_eq!(users(&["scan", "db", "--reverse", "--keys"]), "e\nd\nc\n");
    let ran = dir.run_with_input(&["shell", "db", "--keyspace", "users"], b"get d\ncount\n");
    assert_eq!(ran.out, "5\n3\n");
    // The others are as they were. `logs` is in reverse order.
    assert_eq!(dir.ok(&["scan", "db"]), "a\t0\n");
    assert_eq!(dir.ok(&["scan", "db", "--keyspace", "default"]), "a\t0\n");
    assert_eq!(dir.ok(&["scan", "db", "--keyspace", "logs"]), "b\\x09\t\\xff\na\t3\n");
    assert_eq!(dir.ok(&["scan", "db", "z", "a", "--keyspace=logs", "--keys"]), "b\\x09\n");
}

#[test]
fn missing_keyspace_is_an_error_with_the_nearest_names() {
    let dir = with_keyspaces();
    dir.file("in.csv", "k,v\nd,5\n");
    for args in [
        &["get", "db", "a"][..],
        &["put", "db", "a", "1"],
        &["delete", "db", "a"],
        &["scan", "db"],
        &["load", "db", "in.csv"],
        &["dump", "db"],
        &["dump", "db", "new.dump"],
        &["shell", "db"],
        &["compact", "db"],
    ] {
        let args = [args, &["--keyspace", "user"]].concat();
        dir.fails(&args, 4, "there is no keyspace \"user\"; the nearest name is \"users\"");
    }
    assert!(!dir.path("new.dump").exists());
    let ran = dir.run(&["get", "db", "a", "--keyspace", "nothing-like-it", "--json"]);
    let error: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(error["error"]["kind"], "not found", "{}", ran.err);
    assert!(ran.err.contains("none of the 3 keyspaces has a similar name"), "{}", ran.err);
    dir.fails(&["get", "db", "a", "--keyspace", ""], 2, "is empty");
    dir.fails(&["get", "db", "a", "--keyspace", "\\xff"], 2, "UTF-8");
    // A misspelt name creates neither a store nor a keyspace.
    for args in [&["put", "none", "a", "1"][..], &["load", "none", "in.csv"], &["shell", "none"]] {
        dir.fails(&[args, &["--keyspace", "users"]].concat(), 4, "there is no store here");
    }
    assert!(!dir.path("none").exists());
    assert_eq!(names(&dir, "db"), ["default", "logs", "users"]);
}

#[test]
fn dumps_of_all_keyspaces_come_back_with_their_options() {
    let dir = with_keyspaces();
    dir.ok(&["keyspace", "create", "db", "empty \u{202e}\"name\""]);
    let all = dir.ok(&["dump", "db", "--all-keyspaces"]);
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines[0], "esker dump 2 text");
    let wanted = "keyspace {\"name\":\"default\",\"order\":\"bytewise\",\"options\":{}}";
    assert_eq!(lines[1..3], [wanted, "a\t0"]);
    assert!(all.contains("\nkeyspace {\"name\":\"logs\",\"order\":\"reverse\",\"options\":{"));
    let last = lines.last().unwrap();
    assert!(last.starts_with("end of dump: 5 pairs in 4 keyspaces, checksum "), "{all}");
    for flags in [&[][..], &["--hex"], &["--base64"], &["--json"], &["--json", "--hex"]] {
        let name = format!("dump{}", flags.concat());
        let out = dir.ok(&[&["dump", "db", &name, "--all-keyspaces"], flags].concat());
        let totals = ["5 pairs in 4 keyspaces", "\"keyspaces\":4"];
        assert!(totals.iter().any(|part| out.contains(part)), "{out}");
        let out = dir.ok(&["load", "other", &name]);
        assert!(out.starts_with("loaded 5 pairs, no bad row, 3 keyspaces created, in"), "{out}");
        assert_eq!(listed(&dir, "other"), listed(&dir, "db"), "{flags:?}");
        assert_eq!(dir.ok(&["dump", "other", "--all-keyspaces"]), all, "{flags:?}");
        // A second load creates nothing.
        let out = dir.ok(&["load", "other", &name, "--json"]);
        assert!(out.contains("\"loaded\":5") && out.contains("\"keyspaces_created\":0"), "{out}");
        dir.ok(&["destroy", "other", "--yes"]);
    }
    let json = dir.ok(&["dump", "db", "--all-keyspaces", "--json"]);
    assert!(json.contains("\n{\"keyspace\":\"users\",\"key\":\"a\",\"value\":\"1\"}\n"), "{json}");
    dir.fails(&["dump", "db", "--all-keyspaces", "--keyspace", "users"], 2, "cannot be used with");
    dir.fails(&["dump", "db", "--all-keyspaces", "--from", "a"], 2, "cannot be used with");
}

#[test]
fn dumps_of_one_keyspace_go_back_to_it_or_to_the_named_one() {
    let dir = with_keyspaces();
    // The default keyspace alone is a dump that describes no keyspace.
    let plain = dir.ok(&["dump", "db"]);
    assert!(plain.starts_with("esker dump 1 text\na\t0\n"), "{plain}");
    assert_eq!(dir.ok(&["dump", "db", "--keyspace", "default"]), plain);
    dir.file("plain", plain);
    dir.ok(&["dump", "db", "logs.dump", "--keyspace", "logs"]);
    let out = dir.ok(&["dump", "db", "--keyspace", "users", "--from", "b"]);
    assert!(out.contains("\nb\t2\nend of dump: 1 pairs in 1 keyspaces"), "{out}");
    assert!(dir.ok(&["load", "other", "logs.dump"]).contains(", 1 keyspace created, "));
    assert_eq!(dir.ok(&["scan", "other"]), "");
    assert_eq!(dir.ok(&["scan", "other", "--keyspace", "logs"]), "b\\x09\t\\xff\na\t3\n");
    assert_eq!(listed(&dir, "other")[1], listed(&dir, "db")[1]);
    // Into a keyspace of another name, which must exist.
    dir.fails(&["load", "other", "logs.dump", "--keyspace", "copy"], 4, "no keyspace \"copy\"");
    dir.ok(&["keyspace", "create", "other", "copy"]);
    for dump in ["logs.dump", "plain"] {
        dir.ok(&["load", "other", dump, "--keyspace", "copy"]);
    }
    assert_eq!(dir.ok(&["scan", "other", "--keyspace=copy"]), "a\t0\nb\\x09\t\\xff\n");
    dir.ok(&["load", "other", "logs.dump", "--keyspace", "default"]);
    assert_eq!(dir.ok(&["scan", "other", "--keys"]), "a\nb\\x09\n");
    dir.ok(&["dump", "db", "all.dump", "--all-keyspaces"]);
    dir.fails(&["load", "other", "all.dump", "--keyspace", "copy"], 2, "several keyspaces");
    assert_eq!(dir.ok(&["scan", "other", "--keyspace=copy", "--count"]), "2\n");
}

#[test]
fn load_keeps_the_options_of_existing_keyspaces_and_refuses_bad_descriptions() {
    let dir = with_keyspaces();
    let all = dir.ok(&["dump", "db", "--all-keyspaces"]);
    dir.file("all.dump", &all);
    dir.ok(&["keyspace", "create", "other", "logs", "--set", "compression=none"]);
    let ran = dir.run(&["load", "other", "all.dump"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("\"logs\" exists with another order"), "{}", ran.err);
    assert_eq!(dir.ok(&["scan", "other", "--keyspace", "logs"]), "a\t3\nb\\x09\t\\xff\n");
    let cases = [
        ("option", all.replace("filter_bits_per_key", "nothing"), 2, "unknown option"),
        ("place", all.replace("{\"name\":\"logs\"", "{\"name\":7"), 3, "is no string"),
        ("order", all.replace("\"reverse\"", "\"random\""), 3, "\"random\""),
        ("name", all.replace("\"logs\"", "\"logs2\""), 3, "damaged"),
        ("missing", all.replace("\nb\t2\n", "\n"), 3, "damaged"),
        ("cut", all[..all.len() - 5].to_string(), 3, "damaged"),
    ];
    for (name, text, code, message) in cases {
        let db = format!("db-{name}");
        dir.file(name, text);
        dir.fails(&["load", &db, name], code, message);
        // The pairs of a keyspace that was not begun are nowhere.
        assert_eq!(dir.ok(&["scan", &db]), "a\t0\n", "{name}");
    }
    let ran = dir.run(&["load", "new", "option"]);
    assert!(ran.err.contains("option: line 4: keyspace \"logs\": "), "{}", ran.err);
}

#[test]
fn whole_stores_are_checked_copied_and_described_with_their_keyspaces() {
    let dir = with_keyspaces();
    dir.ok(&["compact", "db"]);
    let all = dir.ok(&["dump", "db", "--all-keyspaces"]);
    assert!(dir.ok(&["verify", "db"]).starts_with("OK"));
    dir.ok(&["checkpoint", "db", "copy"]);
    dir.ok(&["backup", "db", "backups"]);
    dir.ok(&["restore", "backups", "restored"]);
    for db in ["copy", "restored"] {
        assert_eq!(dir.ok(&["dump", db, "--all-keyspaces"]), all, "{db}");
        assert_eq!(listed(&dir, db), listed(&dir, "db"), "{db}");
    }
    assert_eq!(dir.run(&["repair", "db"]).code, 0);
    assert_eq!(dir.ok(&["dump", "db", "--all-keyspaces"]), all);
    let text = dir.ok(&["stats", "copy"]);
    let trees = text.split("\n\n").last().unwrap();
    let rows: Vec<Vec<&str>> =
        trees.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["tree", "keyspaces", "order", "files", "bytes", "options"]);
    assert_eq!(rows.len(), 4, "{text}");
    assert_eq!(rows[3][..4], ["2", "1", "reverse", "1"], "{text}");
    assert!(rows[3].ends_with(&["compression=none", "filter_bits_per_key=4"]), "{text}");
    let stats: Value = serde_json::from_str(&dir.ok(&["stats", "copy", "--json"])).unwrap();
    let trees = stats["trees"].as_array().unwrap();
    let files: u64 = trees.iter().map(|tree| tree["table_files"].as_u64().unwrap()).sum();
    assert_eq!((trees.len(), files), (3, stats["table_files"].as_u64().unwrap()), "{stats}");
    assert_eq!(trees[1]["order"], "bytewise", "{stats}");
    // A store with one tree has no table of trees.
    dir.ok(&["put", "plain", "a", "1"]);
    assert!(!dir.ok(&["stats", "plain"]).contains("keyspaces"));
}

#[test]
fn shell_lists_the_keyspaces() {
    let dir = with_keyspaces();
    let ran = dir.run_with_input(&["shell", "db", "--json"], b"keyspaces\n");
    let lines: Vec<&str> = ran.out.lines().collect();
    let found: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!(found["keyspaces"][1]["name"], "logs", "{}", ran.out);
    assert_eq!(lines[1], "{\"ok\":true}");
    let ran = dir.run_with_input(&["shell", "db"], b"keyspaces\n");
    assert_eq!(ran.out.lines().count(), 5, "{}", ran.out);
    let ran = dir.run_with_input(&["shell", "db", "--read-only"], b"keyspace create x\n");
    assert!(ran.code == 4 && ran.out.starts_with("ERROR read-only: "), "{}", ran.out);
}
