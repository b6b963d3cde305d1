//! Tests of `esker merge`, of `esker put --ttl`, and of values from and to files.

mod common;

use common::TestDir;

#[test]
fn operands_are_merged_by_the_operator_of_the_store() {
    let dir = TestDir::new();
    for operand in ["40", "-3", "5"] {
        assert_eq!(dir.ok(&["merge", "db", "visits", "add_i64", operand]), "");
    }
    assert_eq!(dir.ok(&["get", "db", "visits"]), "42\n");
    dir.fails(&["merge", "db", "visits", "max", "5"], 4, "add_i64");
    dir.fails(&["merge", "db", "visits", "add_i64", "five"], 2, "five");
    dir.fails(&["merge", "db", "visits", "multiply", "5"], 2, "multiply");
    assert_eq!(dir.ok(&["get", "db", "visits"]), "42\n");
    dir.fails(&["merge", "none", "visits", "add_i64", "five"], 2, "five");
    assert!(!dir.path("none").exists());
    let with = ["--set", "merge_operator=append(,)", "--set", "ttl_ms=3600000"];
    dir.ok(&[&["keyspace", "create", "db", "tags"][..], &with].concat());
    for tag in ["a", "b"] {
        dir.ok(&["merge", "db", "k", "append(,)", tag, "--keyspace", "tags", "--json"]);
    }
    assert_eq!(dir.ok(&["get", "db", "k", "--keyspace", "tags"]), "a,b\n");
    dir.fails(&["merge", "db", "k", "max", "c", "--keyspace", "tags"], 4, "append(,)");
    let out = dir.ok(&["keyspace", "list", "db", "--json"]);
    assert!(out.contains("append(,)") && out.contains("3600000"), "{out}");
    dir.ok(&["merge", "json", "k", "json_patch", "{\"b\":1,\"a\":2}"]);
    dir.ok(&["merge", "json", "k", "json_patch", "{\"b\":null}"]);
    assert_eq!(dir.ok(&["get", "json", "k"]), "{\"a\":2}\n");
}

#[test]
fn pairs_with_a_time_to_live_expire() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "long", "v", "--ttl", "1h"]);
    dir.ok(&["put", "db", "none", "v", "--ttl", "0s", "--sync"]);
    assert_eq!(dir.ok(&["scan", "db"]), "long\tv\n");
    dir.fails(&["get", "db", "none"], 1, "not found");
    dir.fails(&["put", "db", "k", "v", "--ttl", "soon"], 2, "such as 90s or 1h");
}

#[test]
fn long_values_go_from_a_file_to_a_file() {
    let dir = TestDir::new();
    let value: Vec<u8> = (0..3_000_000_u32).map(|n| (n ^ (n >> 9)) as u8).collect();
    std::fs::write(dir.path("film"), &value).unwrap();
    dir.ok(&["put", "db", "film", "--from", "film", "--sync"]);
    dir.ok(&["get", "db", "film", "--to", "copy"]);
    assert!(std::fs::read(dir.path("copy")).unwrap() == value);
    dir.fails(&["get", "db", "film", "--to", "copy"], 2, "does not overwrite");
    dir.fails(&["get", "db", "other", "--to", "new"], 1, "not found");
    assert_eq!(dir.run_with_input(&["put", "db", "short", "--from", "-"], b"a\xff").code, 0);
    dir.ok(&["get", "db", "short", "--to", "bytes"]);
    assert_eq!(std::fs::read(dir.path("bytes")).unwrap(), b"a\xff");
    dir.ok(&["put", "db", "text", "whole"]);
    assert_eq!(dir.ok(&["get", "db", "text", "--to", "-"]), "whole");
    dir.fails(&["put", "db", "k", "--from", "missing"], 4, "missing");
    dir.fails(&["put", "db", "k", "v", "--from", "film"], 2, "cannot be used with");
    assert!(!dir.path("new").exists());
    // Damage of a piece is named, and no part of the value stays in a file.
    let files = std::fs::read_dir(dir.path("db")).unwrap().map(|entry| entry.unwrap().path());
    let values = files.filter(|path| path.extension().is_some_and(|end| end == "val"));
    let path = values.last().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[2_000_000] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    dir.fails(&["get", "db", "film", "--to", "damaged"], 3, "piece");
    assert!(!dir.path("damaged").exists());
}
