//! Tests of `esker merge` and of `esker put --ttl`.

mod common;

use common::TestDir;

#[test]
fn operands_are_merged_by_the_operator_of_the_store() {
    let dir = TestDir::new();
    for operand in ["40", "-3", "5"] {
        assert_eq!(dir.ok(&["merge", "db", "visits", "add_i64", operand]), "");
    }
    assert_eq!(dir.ok(&["get", "db", "visits"]), "42\n");
    dir.fails(&["merge", "db", "visits", "max", "5"], 2, "add_i64");
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
    dir.fails(&["merge", "db", "k", "max", "c", "--keyspace", "tags"], 2, "append(,)");
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
