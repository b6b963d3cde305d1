//! Tests of `esker changes`, `esker slot` and `esker apply`: replicas over a pipe, with either end
//! killed at any moment, while another process has the source open.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::TestDir;
use esker::feed::SlotOptions;
use esker::ingest::{IngestOptions, SortedWriter};
use esker::{Batch, Db, Keyspace, KeyspaceOptions, Options};
use serde_json::{Value, json};

fn esker(dir: &TestDir, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("esker"));
    command.current_dir(dir.path(".")).args(args);
    command
}

/// Returns the lines of a dump of all keyspaces.
fn dump(dir: &TestDir, db: &str) -> String {
    dir.ok(&["dump", db, "--all-keyspaces"])
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A stream of the feed of a store, as bytes.
fn stream(dir: &TestDir, args: &[&str]) -> Vec<u8> {
    let out = esker(dir, &[&["changes", "db"][..], args].concat()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

#[test]
fn slots_are_created_listed_confirmed_and_dropped() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "a", "1"]);
    let out = dir.ok(&["slot", "create", "db", "index"]);
    assert_eq!(out, "slot index at position 1\n");
    dir.ok(&["--json", "slot", "create", "db", "other", "--lag-limit", "none"]);
    dir.ok(&["put", "db", "b", "2"]);
    dir.ok(&["delete", "db", "a"]);
    let listed = lines(&dir.ok(&["slot", "list", "db", "--json"]));
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["name"], json!("index"));
    assert_eq!(listed[0]["lag_limit_bytes"], json!(16_u64 << 30));
    assert_eq!(listed[1]["lag_limit_bytes"], Value::Null);
    assert_eq!((&listed[0]["position"], &listed[0]["problem"]), (&json!(1), &Value::Null));
    assert!(dir.ok(&["slot", "list", "db"]).contains("GiB"));
    let found = lines(&dir.ok(&["changes", "db", "--slot", "index", "--json"]));
    let put = json!({"op": "put", "keyspace": "default", "key": "b", "value": "2"});
    let delete = json!({"op": "delete", "keyspace": "default", "key": "a"});
    assert_eq!(
        found,
        [
            json!({"sequence": 2, "previous": 1, "changes": [put]}),
            json!({"sequence": 3, "previous": 2, "changes": [delete]}),
        ]
    );
    // Also while the store is open elsewhere.
    let db = Db::open(dir.path("db"), Options::default()).unwrap();
    dir.ok(&["slot", "confirm", "db", "index", "2"]);
    assert_eq!(lines(&dir.ok(&["changes", "db", "--slot", "index", "--json"])).len(), 1);
    assert_eq!(lines(&dir.ok(&["--json", "changes", "db", "--from", "1"])).len(), 2);
    dir.fails(&["slot", "create", "db", "third"], 4, "is open in process");
    dir.ok(&["slot", "drop", "db", "index"]);
    db.close().unwrap();
    dir.fails(&["changes", "db", "--slot", "index", "--json"], 4, "there is no slot");
    dir.fails(&["slot", "drop", "db", "index"], 4, "there is no slot");
    dir.fails(&["slot", "confirm", "db", "other", "9"], 2, "in the future");
    dir.fails(&["changes", "db", "--from", "9", "--json"], 2, "in the future");
    dir.fails(&["slot", "create", "db", "a b"], 2, "the name of a slot");
    dir.fails(&["slot", "create", "db", "c", "--lag-limit", "much"], 2, "--lag-limit");
    dir.fails(&["slot", "list", "none"], 4, "there is no store");
    dir.fails(&["changes", "db", "--bootstrap", "--json"], 2, "--slot");
}

#[test]
fn changes_of_one_keyspace_are_read_through_a_rename() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "a", "1"]);
    dir.ok(&["slot", "create", "db", "s"]);
    dir.ok(&["keyspace", "create", "db", "users"]);
    dir.ok(&["put", "db", "7", "Ada", "--keyspace", "users"]);
    dir.ok(&["put", "db", "b", "2"]);
    dir.ok(&["keyspace", "rename", "db", "users", "people"]);
    dir.ok(&["delete", "db", "7", "--keyspace", "people"]);
    let read = |keyspace: &str| -> Vec<String> {
        let args = ["changes", "db", "--slot", "s", "--json", "--keyspace", keyspace];
        let all = lines(&dir.ok(&args));
        let changes = all.iter().flat_map(|line| line["changes"].as_array().unwrap());
        changes.map(|change| change["op"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(read("users"), ["create_keyspace", "put", "rename_keyspace", "delete"]);
    assert_eq!(read("people"), ["rename_keyspace", "delete"]);
    assert_eq!(read("default"), ["put"]);
    assert!(read("nobody").is_empty());
    let stream = ["changes", "db", "--slot", "s", "--keyspace", "users"];
    dir.fails(&stream, 2, "--json");
}

#[test]
fn a_stream_makes_an_equal_store_and_wrong_streams_are_refused() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "old", "1"]);
    dir.ok(&["keyspace", "create", "db", "users", "--order", "reverse"]);
    dir.ok(&["put", "db", "7", "Ada", "--keyspace", "users"]);
    dir.ok(&["slot", "create", "db", "copy"]);
    let first = stream(&dir, &["--slot", "copy", "--bootstrap"]);
    dir.ok(&["keyspace", "create", "db", "logs", "--set", "ttl_ms=86400000"]);
    dir.ok(&["put", "db", "x", "y", "--keyspace", "logs"]);
    dir.ok(&["keyspace", "rename", "db", "users", "people"]);
    dir.ok(&["delete", "db", "old"]);
    let rest = stream(&dir, &["--slot", "copy"]);

    let apply = |db: &str, bytes: &[u8], args: &[&str]| {
        dir.run_with_input(&[&["apply", db][..], args].concat(), bytes)
    };
    assert_eq!(dir.run(&["apply", "copy", "--position"]).code, 4, "there is no store yet");
    let cut = apply("copy", &first[..first.len() - 40], &[]);
    assert_eq!(cut.code, 4, "{}", cut.err);
    assert!(cut.err.contains("was cut at byte"), "{}", cut.err);
    assert_eq!(dir.run(&["apply", "copy", "--position"]).code, 1, "the copy is not whole");
    assert!(apply("copy", &rest, &[]).err.contains("out of order"));
    assert_eq!(apply("copy", &first, &[]).code, 0, "a cut bootstrap begins again");
    let position: u64 = dir.ok(&["apply", "copy", "--position"]).trim().parse().unwrap();
    let cut = apply("copy", &rest[..rest.len() - 60], &["--json"]);
    assert_eq!(cut.code, 4);
    let ran = apply("copy", &rest, &["--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(said["position"].as_u64().unwrap() > position, "{said}");
    assert_eq!(dump(&dir, "copy"), dump(&dir, "db"));
    let again = apply("copy", &rest, &[]);
    assert!(again.out.starts_with("0 new batches applied"), "{}", again.out);
    // Not a stream, a damaged one, one of another store, and none for a store that has content.
    let mut damaged = rest.clone();
    damaged[rest.len() / 2] ^= 1;
    assert_eq!(apply("copy", &damaged, &[]).code, 3);
    assert!(apply("copy", b"SELECT 1;", &[]).err.contains("found 9"));
    assert!(apply("copy", &[7; 100], &[]).err.contains("no stream of changes"));
    assert!(apply("copy", &first, &[]).err.contains("not empty"));
    assert!(apply("db", &rest, &[]).err.contains("this very store"));
    dir.ok(&["put", "more", "a", "1"]);
    dir.ok(&["slot", "create", "more", "s"]);
    let other = esker(&dir, &["changes", "more", "--slot", "s"]).output().unwrap().stdout;
    assert_eq!(apply("copy", &other, &[]).code, 4);
    let gap = apply("fresh", &rest, &[]);
    assert!(gap.err.contains("the stream begins after position"), "{}", gap.err);
}

/// Starts both ends of a pipe.
fn start(dir: &TestDir, sending: &[&str], applying: &[&str]) -> (Child, Child) {
    let mut sender =
        esker(dir, &[&["changes", "db", "--slot", "copy", "--follow"][..], sending].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    let receiver = esker(dir, &[&["apply", "copy"][..], applying].concat())
        .stdin(sender.stdout.take().unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (sender, receiver)
}

/// Ingests pairs that are two parts of the feed, and an operand.
fn ingest(dir: &TestDir, users: &Keyspace, number: u32) {
    let merge_operator = esker::built_in_merge_operator("add_i64");
    let merging = Options { merge_operator, ..Options::default() };
    let file = dir.path("file.sst");
    let mut writer = SortedWriter::create(&file, &merging).unwrap();
    for key in 0..3000 {
        writer.put(format!("i{key:04}"), format!("{number:0500}")).unwrap();
    }
    writer.merge("sum", "1").unwrap();
    writer.finish().unwrap();
    users.ingest(&[&file], &IngestOptions::default()).unwrap();
}

#[test]
fn killing_either_end_loses_nothing_and_applies_nothing_twice() {
    let dir = TestDir::new();
    let options = Options { memtable_size_bytes: Some(64 << 10), ..Options::default() };
    let db = Db::open(dir.path("db"), options).unwrap();
    db.put("before", "1").unwrap();
    let slot = db.subscribe("copy", &SlotOptions::default()).unwrap();
    // The stream brings the operator of a keyspace.
    let counters = KeyspaceOptions::default().set("merge_operator", "add_i64").unwrap();
    let users = db.keyspace("users", &counters).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let applied = || {
        let ran = dir.run(&["apply", "copy", "--position"]);
        ran.out.trim().parse::<u64>().ok()
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0_u32;
            while !stop.load(Ordering::SeqCst) {
                let mut batch = Batch::new();
                // A batch that is applied twice, or left out, changes the sum.
                batch.merge_in(&users, "sum", "1");
                batch.put_in(&users, format!("{:04}", number % 5000), 7_i64.to_string());
                db.write(&batch).unwrap();
                number += 1;
                if number % 100 == 50 {
                    ingest(&dir, &users, number);
                    number += 1;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            number
        });
        let mut last = None;
        for round in 0..6 {
            // The first pair brings the content; killed within it, it begins again.
            let bootstrap = applied().is_none();
            let first: &[&str] = if bootstrap { &["--bootstrap"] } else { &[] };
            let (mut sender, mut receiver) = start(&dir, first, &[]);
            let killed = if round % 2 == 0 { &mut sender } else { &mut receiver };
            std::thread::sleep(Duration::from_millis(40 + 60 * round));
            killed.kill().unwrap();
            killed.wait().unwrap();
            // The other end notices, and ends by itself.
            sender.wait().unwrap();
            receiver.wait().unwrap();
            let position = applied();
            assert!(position >= last, "the copy went back from {last:?} to {position:?}");
            last = position;
            if let Some(position) = position {
                let position = position.to_string();
                dir.ok(&["slot", "confirm", "db", "copy", &position]);
            }
        }
        stop.store(true, Ordering::SeqCst);
        let number = writer.join().unwrap();
        let bootstrap: &[&str] = if applied().is_none() { &["--bootstrap"] } else { &[] };
        let bytes = stream(&dir, &[&["--slot", "copy"][..], bootstrap].concat());
        let ran = dir.run_with_input(&["apply", "copy"], &bytes);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let sum = dir.ok(&["get", "copy", "sum", "--keyspace", "users"]);
        assert_eq!(sum.trim(), number.to_string());
    });
    drop((slot, users));
    db.close().unwrap();
    assert_eq!(dump(&dir, "copy"), dump(&dir, "db"));
}

#[test]
fn a_copy_confirms_by_itself_over_a_pipe_in_both_directions() {
    let dir = TestDir::new();
    let db = Db::open(dir.path("db"), Options::default()).unwrap();
    let slot = db.subscribe("copy", &SlotOptions::default()).unwrap();
    let mut sender = esker(&dir, &["changes", "db", "--slot", "copy", "--follow", "--confirm"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut receiver = esker(&dir, &["apply", "copy", "--confirm"])
        .stdin(sender.stdout.take().unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut from, mut to) = (receiver.stdout.take().unwrap(), sender.stdin.take().unwrap());
    let carrier = std::thread::spawn(move || {
        let mut bytes = [0; 1024];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
    });
    for number in 1..=20 {
        db.put(format!("{number}"), "x").unwrap();
    }
    while slot.position().unwrap() < 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    carrier.join().unwrap();
    // The end of its input ends the sender.
    sender.wait().unwrap();
    assert_eq!(slot.changes().unwrap().count(), 0);
    drop(slot);
    db.close().unwrap();
    assert_eq!(dump(&dir, "copy"), dump(&dir, "db"));
}

#[test]
fn a_follower_prints_positions_values_and_pairs_of_an_open_store() {
    let dir = TestDir::new();
    dir.fails(&["follow", "db", "--once"], 4, "there is no store");
    let db = Db::open(dir.path("db"), Options::default()).unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "1").unwrap();
    assert_eq!(dir.ok(&["follow", "db", "--once"]), "position 2\n");
    let line = &lines(&dir.ok(&["--json", "follow", "db", "--once"]))[0];
    assert_eq!((&line["position"], &line["added"]), (&json!(2), &Value::Null));
    assert_eq!(dir.ok(&["follow", "db", "--once", "--scan", ""]), "a\t1\nb\t1\n");
    assert_eq!(dir.ok(&["follow", "db", "--once", "--scan", "b"]), "b\t1\n");
    assert_eq!(dir.ok(&["follow", "db", "--once", "--get", "x"]), "(the key does not exist)\n");
    let line = &lines(&dir.ok(&["--json", "follow", "db", "--once", "--get", "a"]))[0];
    assert_eq!(*line, json!({"position": 2, "key": "a", "value": "1"}));
    dir.fails(&["follow", "db", "--get", "a", "--scan", "b"], 2, "--scan");
    dir.fails(&["follow", "db", "--every", "0"], 2, "--every");
    dir.fails(&["follow", "db", "--once", "--get", "a", "--keyspace", "users"], 4, "users");
    let mut child = esker(&dir, &["follow", "db", "--get", "a", "--every", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap()).lines();
    for number in 1..=5 {
        db.put("a", number.to_string()).unwrap();
        let mut last = String::new();
        // A change that comes between two looks is not shown.
        while last != number.to_string() {
            last = shown.next().unwrap().unwrap();
        }
        db.flush().unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    db.close().unwrap();
}
