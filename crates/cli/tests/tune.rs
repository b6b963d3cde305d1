//! Tests of the tuner from the command line, with short workloads.

mod common;

use std::collections::BTreeSet;

use common::TestDir;

const SHORT: &[&str] = &[
    "tune",
    "--workload",
    "load,a",
    "--records",
    "300",
    "-p",
    "fieldcount=1",
    "--budget",
    "5s",
    "--trials",
    "2",
    "--knobs",
    "block_size_bytes,compression",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn short_tuning_ends_with_a_verdict_a_page_options_and_a_trail() {
    let dir = TestDir::new();
    let files = ["--trail", "trail.jsonl", "--html", "page.html", "--out", "tuned.toml"];
    let text = dir.ok(&with(&files));
    assert!(text.contains("default set"), "{text}");
    // On a busy machine the second set may not have started within the budget.
    let tried = ["Sets tried: 1 in ", "Sets tried: 2 in "];
    assert!(tried.iter().any(|tried| text.contains(tried)), "{text}");
    let page = std::fs::read_to_string(dir.path("page.html")).unwrap();
    assert!(page.contains("esker, tuned") && page.contains("The search"), "{page}");
    let options = std::fs::read_to_string(dir.path("tuned.toml")).unwrap();
    assert!(options.contains("[esker]"), "{options}");
    let trail = std::fs::read_to_string(dir.path("trail.jsonl")).unwrap();
    let runs = trail.lines().count() - 1;
    assert!(runs >= 5, "{trail}");
    // The finished trail answers every run, so that the same result is printed again.
    let again = dir.run(&with(&["--resume", "trail.jsonl", "--json"]));
    assert_eq!(again.code, 0, "{}", again.err);
    let line = format!("\"runs\":{runs}");
    assert!(again.out.contains(&line), "{line}: {}", again.out);
    assert_eq!(std::fs::read_to_string(dir.path("trail.jsonl")).unwrap(), trail);
    dir.fails(&with(&["--resume", "trail.jsonl", "--seed", "2"]), 2, "its seed is 301");
    dir.fails(&with(&["--trail", "trail.jsonl"]), 2, "--resume");
}

#[test]
fn wrong_arguments_are_sentences_and_nothing_runs() {
    let dir = TestDir::new();
    for (arguments, words) in [
        (&["tune"][..], "--workload"),
        (&["tune", "--workload", "g"], "bench:TASKS"),
        (&["tune", "--workload", "experiment:g"], "unknown experiment \"g\""),
        (&["tune", "--workload", "experiment:guard#g"], "no series \"g\"; name one of"),
        (&["tune", "--workload", "experiment:states#beyond memory"], "memory_limit"),
        (&["tune", "--workload", "a", "--engine", "lmdb"], "lmdb has no knobs"),
        (&["tune", "--workload", "a", "--engine", "nobody"], "nobody has no knobs"),
        (&["tune", "--workload", "a", "--knobs", "block"], "esker has no knob \"block\""),
        (&["tune", "--workload", "a", "--objective", "speed"], "write-amp"),
        (&["tune", "--workload", "a", "--constraint", "p99<1"], "p99<1ms"),
        (&["tune", "--workload", "a", "--budget", "soon"], "10m"),
        (&["tune", "--workload", "a", "--memory", "1"], "64MiB"),
        (&["tune", "--workload", "bench:fillseq", "--robust", "25"], "robust mode"),
        (&["tune", "--workload", "a", "--set", "polices=x"], "polices"),
    ] {
        dir.fails(arguments, 2, words);
    }
    assert!(!dir.path("bench").exists());
}

#[test]
fn impossible_constraint_keeps_the_default_set() {
    let dir = TestDir::new();
    let text = dir.ok(&with(&["--constraint", "throughput>1000000000"]));
    assert!(text.contains("default set stands") && text.contains("breaks throughput>"), "{text}");
}

/// WiredTiger's licence keeps it out of this process, so each run is in another one.
#[test]
fn wiredtiger_is_tuned_in_other_processes() {
    let dir = TestDir::new();
    let arguments = ["tune", "--engine", "wiredtiger", "--workload", "load,a", "--records", "300"];
    let short = ["-p", "fieldcount=1", "--budget", "5s", "--trials", "2", "--trail", "t.jsonl"];
    let run = dir.run(&[&arguments[..], &short[..]].concat());
    if run.code != 0 && run.err.contains("libwiredtiger0") {
        eprintln!("skipped: {}", run.err);
        return;
    }
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("wiredtiger: throughput"), "{}", run.out);
    let trail = std::fs::read_to_string(dir.path("t.jsonl")).unwrap();
    let runs: Vec<&str> = trail.lines().skip(1).collect();
    // On a busy machine the budget is used up by the first two.
    assert!(runs.len() >= 2 && runs.iter().all(|run| run.contains("\"ops_per_sec\"")), "{trail}");
    assert!(!trail.contains("\"error\":\""), "{trail}");
}

#[test]
fn phases_of_an_experiment_are_tuned_for_and_recorded() {
    let dir = TestDir::new();
    dir.file(
        "mine.toml",
        "title = \"Mine\"\nengines = [\"esker\"]\n[phases.load]\nstart = \"filled\"\nupdate = 1\n\
         hidden = true\n[phases.\"all reads\"]\nread = 1\n[phases.mixed]\nread = 1\nupdate = 1\n\
         operations = \"entries/2\"\n[[series]]\nname = \"one\"\n\
         phases = [\"load\", \"all reads\", \"mixed\"]\nentries = 1_000_000\n[[series]]\n\
         name = \"two\"\ntasks = \"fillrandom\"\nentries = 10\n",
    );
    let short = ["--records", "300", "--budget", "5s", "--trials", "3", "--trail", "t.jsonl"];
    let own = ["tune", "--workload", "mine.toml#one", "--knobs", "compression", "--json"];
    let run = dir.run(&[&own[..], &short[..]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let outcome: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(outcome["workloads"], serde_json::json!(["all reads", "mixed"]));
    // The values of the trials that ran to their end are the points, and a curve needs two.
    let mut defaults = outcome["defaults"].as_array().unwrap().iter();
    let default = &defaults.find(|own| own[0] == "compression").unwrap()[1];
    let trials = outcome["trials"].as_array().unwrap().iter();
    let tried: BTreeSet<&str> = trials
        .filter(|trial| !trial["ratio"].is_null())
        .map(|trial| trial["setting"].get("compression").unwrap_or(default).as_str().unwrap())
        .collect();
    let curves = outcome["curves"].as_array().unwrap();
    assert_eq!(curves.len(), usize::from(tried.len() > 1), "{outcome}");
    if let Some(curve) = curves.first() {
        let points = curve["points"].as_array().unwrap().iter();
        let points: Vec<&str> = points.map(|point| point["value"].as_str().unwrap()).collect();
        assert_eq!((curve["knob"].as_str(), points.len()), (Some("compression"), tried.len()));
        assert_eq!(points.into_iter().collect::<BTreeSet<&str>>(), tried);
    }
    let record = ["trace", "record", "mine.trace", "--workload", "mine.toml#one"];
    dir.ok(&[&record[..], &["--records", "300"]].concat());
    let shown = dir.ok(&["trace", "show", "mine.trace", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    // The store is filled with 300 pairs, which the load updates; 300 reads and 150 of both follow.
    let count = |name: &str| shown[name].as_u64().unwrap();
    assert_eq!(count("puts") + count("gets"), 1050, "{shown}");
    assert!((300..450).contains(&count("gets")), "{shown}");
}
