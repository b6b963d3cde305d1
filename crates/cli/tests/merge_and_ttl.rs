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

/// Returns the times of a dump's pairs, by key.
fn times(dump: &str) -> Vec<(String, Option<u64>)> {
    let pairs = dump.lines().filter(|line| line.contains('\t'));
    let of = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        (columns[0].to_string(), columns.get(2).map(|time| time.parse().expect("a time")))
    };
    pairs.map(of).collect()
}

#[test]
fn dumps_keep_the_times_at_which_pairs_expire() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "hour", "v", "--ttl", "1h"]);
    dir.ok(&["put", "db", "stays", "v"]);
    dir.ok(&["keyspace", "create", "db", "day", "--set", "ttl_ms=86400000"]);
    dir.ok(&["put", "db", "a", "v", "--keyspace", "day"]);
    let default = dir.run(&["dump", "db"]);
    assert!(default.out.starts_with("esker dump 3 text\nhour\tv\t"), "{}", default.out);
    assert!(default.err.contains("another keyspace is not in the dump"), "{}", default.err);
    for flags in [&[][..], &["--json"], &["--base64"]] {
        let name = format!("all{}", flags.concat());
        dir.ok(&[&["dump", "db", &name, "--all-keyspaces"], flags].concat());
        let out = dir.ok(&["load", "other", &name]);
        assert!(out.starts_with("loaded 3 pairs, no bad row, 1 keyspace created, in"), "{out}");
        let dump = |db: &str| times(&dir.ok(&["dump", db, "--all-keyspaces"]));
        let (before, after) = (dump("db"), dump("other"));
        assert_eq!(before.len(), 3, "{before:?}");
        for ((key, time), (other, copied)) in before.iter().zip(&after) {
            assert_eq!((key, time.is_some()), (other, copied.is_some()), "{flags:?}");
            let apart = time.unwrap_or(0).abs_diff(copied.unwrap_or(0));
            assert!(apart < 2_000, "{flags:?}: {key}: {time:?}, {copied:?}");
        }
        dir.ok(&["destroy", "other", "--yes"]);
    }
    // A pair without a time stays so in a keyspace whose pairs expire.
    dir.ok(&["dump", "db", "default.dump"]);
    dir.ok(&["keyspace", "create", "db", "copy", "--set", "ttl_ms=86400000"]);
    dir.ok(&["load", "db", "default.dump", "--keyspace", "copy"]);
    let copy = times(&dir.ok(&["dump", "db", "--keyspace", "copy"]));
    assert!(copy[0].1.is_some() && copy[1] == ("stays".to_string(), None), "{copy:?}");
    let text = std::fs::read_to_string(dir.path("default.dump")).unwrap();
    let time = times(&text)[0].1.unwrap().to_string();
    dir.file("old.dump", text.replace(&time, "1000"));
    let ran = dir.run(&["load", "third", "old.dump"]);
    assert_eq!(ran.code, 3, "a changed time is damage: {}", ran.err);
    assert!(ran.out.contains("1 expired pair left out"), "{}", ran.out);
    dir.fails(&["load", "third", "default.dump", "--sorted"], 2, "without --sorted");
}
