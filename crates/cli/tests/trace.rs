//! Tests of traces from the command line: a workload is recorded, shown, replayed and tuned for.

mod common;

use common::TestDir;

const WORKLOAD: &[&str] = &["--workload", "load,a", "--records", "300", "-p", "fieldcount=1"];

#[test]
fn recorded_workload_is_shown_replayed_and_tuned_for() {
    let dir = TestDir::new();
    let record = |file: &str, more: &[&str]| {
        let args = [&["trace", "record", file], WORKLOAD, more].concat();
        let ran = dir.run(&args);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.err
    };
    let told = record("all.trace", &[]);
    let shown = dir.ok(&["trace", "show", "all.trace", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let operations = shown["operations"].as_u64().unwrap();
    assert!(told.contains(&format!("{operations} operations")), "{told}");
    assert!(operations >= 600 && shown["complete"] == true, "{shown}");
    assert!(shown["puts"].as_u64().unwrap() >= 300 && shown["keys"].as_u64().unwrap() >= 300);
    let text = std::fs::read_to_string(dir.path("all.trace")).unwrap();
    assert!(text.starts_with("esker trace 1\n") && !text.contains("user"), "keys are hashed");
    assert!(dir.ok(&["trace", "show", "all.trace"]).contains("gets that found their key"));
    for engine in ["esker", "reference"] {
        let replayed = dir.ok(&["trace", "replay", "all.trace", "--engine", engine]);
        assert!(replayed.contains(&format!("{operations} operations, ")), "{replayed}");
    }
    record("some.trace", &["--one-in", "4", "--plain-keys"]);
    let some = std::fs::read_to_string(dir.path("some.trace")).unwrap();
    assert!(some.lines().count() < text.lines().count() / 2);
    let tuned = dir.ok(&[
        "tune",
        "--workload",
        "trace:all.trace",
        "--budget",
        "3s",
        "--trials",
        "1",
        "--knobs",
        "compression",
        "--trail",
        "trail.jsonl",
    ]);
    assert!(tuned.contains("mean over trace"), "{tuned}");
}

#[test]
fn wrong_traces_and_wrong_results_are_sentences() {
    let dir = TestDir::new();
    dir.file("none.trace", "hello\n");
    dir.file("other.trace", "esker trace 1\n1 get 61 5\n2 jump 61\n");
    dir.file("wrong.trace", "esker trace 1\n1 put 61 5\n2 get 61 6\nend 2\n");
    dir.file("cut.trace", "esker trace 1\n1 put 61 5\n2 ge");
    dir.fails(&["trace", "show", "none.trace"], 2, "expected esker trace 1");
    dir.fails(&["trace", "replay", "other.trace"], 2, "line 3");
    dir.fails(&["trace", "replay", "wrong.trace"], 4, "operation 2");
    dir.fails(&["trace", "show", "absent.trace"], 4, "absent.trace");
    dir.fails(&["trace", "replay", "wrong.trace", "--engine", "nobody"], 2, "unknown engine");
    dir.fails(&["tune", "--workload", "trace:none.trace"], 2, "expected esker trace 1");
    assert!(dir.ok(&["trace", "show", "cut.trace"]).contains("cut off"));
    assert!(dir.run(&["trace", "replay", "cut.trace"]).err.contains("cut off"));
    let existing = [&["trace", "record", "cut.trace"], WORKLOAD].concat();
    dir.fails(&existing, 4, "exists");
}
