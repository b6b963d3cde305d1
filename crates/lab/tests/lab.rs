//! Tests of whole experiments over the in-memory engine: run, interrupted and resumed, reported and
//! compared.

use std::path::Path;

use esker_lab::BenchConfig;
use esker_lab::error::{LabError, LabErrorKind};
use esker_lab::experiment::check::{Experiment, Known};
use esker_lab::experiment::plan::Scale;
use esker_lab::lab::{self, LabOptions, LabOutcome};
use esker_lab::record::store::{RecordFile, load_lab, named_lab};
use esker_lab::reference::Reference;
use esker_lab::report::{lab_compare, lab_html, lab_text};
use esker_lab::run::interleave::Candidate;

const TEXT: &str = r#"
title = "A <small> experiment"
engines = ["reference", "esker"]
repetitions = 2
scale = 0.1

[[series]]
name = "blocks"
tasks = "fillseq,readrandom,fillsync"
entries = 5000
vary = { block_size = [1024, 4096] }
rows = "phase"
columns = "block_size"

[[series.reported]]
by = "LevelDB"
rows = "phase"
across = "block_size"
columns = [1024, 4096]
data = [["fillseq", 3.25, 2.5]]

[series.expect]
fillseq.operations = "entries"
readrandom = { operations = "entries", found = "operations" }

[[series]]
name = "sizes"
tasks = "fillrandom"
entries = [3000, 6000, 9000]
unit = "kops/s"
"#;

fn experiment(text: &str) -> Experiment {
    let known = Known { engines: &["reference", "esker"], config: BenchConfig::default() };
    Experiment::parse("small", text, &known).expect("right")
}

fn options(dir: &Path) -> LabOptions {
    let mut base = BenchConfig::default();
    base.set("db", &dir.join("db").display().to_string()).expect("a flag");
    base.set("record", &dir.join("record").display().to_string()).expect("a flag");
    LabOptions {
        scale: Scale::Times(1.0),
        scale_text: "1".into(),
        repetitions: None,
        engines: None,
        series: Vec::new(),
        resume: None,
        base,
    }
}

fn run(experiment: &Experiment, options: &LabOptions) -> (LabOutcome, String) {
    let absent = LabError::new(LabErrorKind::NotInstalled, "not installed: apt install nothing");
    let candidates = [
        Candidate { name: "reference".into(), engine: Ok(Box::new(Reference)) },
        Candidate { name: "esker".into(), engine: Err(absent) },
    ];
    let mut messages = Vec::new();
    let outcome = lab::run(experiment, options, &candidates, &|| {}, &mut messages).expect("runs");
    (outcome, String::from_utf8(messages).expect("text"))
}

#[test]
fn every_point_is_measured_in_every_repetition() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let experiment = experiment(TEXT);
    let (outcome, messages) = run(&experiment, &options(dir.path()));
    assert!(!outcome.failed, "{messages}");
    assert_eq!(outcome.record.points.len(), 2 + 3);
    assert_eq!(outcome.record.sessions.len(), 5 * 2);
    assert_eq!(outcome.record.samples.len(), (2 * 3 + 3) * 2);
    assert_eq!(outcome.record.points[0].entries, 500);
    assert!(
        messages.contains("round 10 of 10") && messages.contains("apt install nothing"),
        "{messages}"
    );
    let saved = load_lab(&outcome.record_path.expect("saved")).expect("readable");
    assert_eq!(saved.samples.len(), outcome.record.samples.len());
}

#[test]
fn series_of_transactions_reports_conflicts_and_commits() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = r#"
title = "Transactions"
engines = ["reference", "esker"]
repetitions = 2

[[series]]
name = "transactions"
tasks = "fillaccounts,randomtransaction,zipfiantransaction,readtransaction,updaterandom"
entries = 300
threads = [1, 2]
options = { share_operations = true }
unit = "us/op"
also = ["conflicts per op", "ns/commit"]
rows = "phase"
columns = "engine"

[series.expect]
randomtransaction = { operations = "entries", found = "entries*2" }
updaterandom = { operations = "entries", found = "operations" }
"#;
    let experiment = experiment(text);
    let (outcome, messages) = run(&experiment, &options(dir.path()));
    assert!(!outcome.failed, "{messages}");
    assert_eq!(outcome.record.samples.len(), 2 * 2 * 5);
    let commits = outcome.record.samples.iter().filter_map(|s| s.sample.transactions?.commit_nanos);
    assert_eq!(commits.count(), 2 * 2, "of the task that only reads");
    let mut report = Vec::new();
    let form = lab_text::Form::Terminal;
    lab_text::write(&experiment, &outcome.record, form, &mut report).expect("written");
    let report = String::from_utf8(report).expect("text");
    assert!(report.contains("conflicts per op") && report.contains("ns/commit"), "{report}");
}

#[test]
fn stopped_run_resumes_where_it_was() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let experiment = experiment(TEXT);
    let mut options = options(dir.path());
    let (outcome, _) = run(&experiment, &options);
    let path = outcome.record_path.expect("saved");
    let mut cut = outcome.record.clone();
    cut.sessions.truncate(7);
    let kept =
        |s: &esker_lab::record::lab::LabSample| cut.has(s.point, "reference", s.sample.repetition);
    cut.samples = outcome.record.samples.iter().filter(|s| kept(s)).cloned().collect();
    RecordFile::existing(&path).save(&cut).expect("saved");
    options.resume = Some(path.clone());
    let (again, messages) = run(&experiment, &options);
    assert_eq!(again.record.sessions.len(), 10);
    assert_eq!(again.record.samples.len(), outcome.record.samples.len());
    assert!(
        !messages.contains("round 7 of 10") && messages.contains("round 8 of 10"),
        "{messages}"
    );
    options.scale_text = "2".into();
    let refused = lab::run(&experiment, &options, &[], &|| {}, &mut Vec::new());
    assert!(refused.expect_err("another scale").to_string().contains("scale"));
    assert_eq!(named_lab(&dir.path().join("record"), "small").expect("there"), path);
    assert!(named_lab(&dir.path().join("record"), "other").is_err());
}

#[test]
fn unmet_expectation_fails_run_with_message() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = TEXT.replace("found = \"operations\"", "found = 3");
    let (outcome, messages) = run(&experiment(&text), &options(dir.path()));
    assert!(outcome.failed);
    assert!(messages.contains("expected 3 keys found, got 500"), "{messages}");
}

#[test]
fn reports_need_only_the_record() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let experiment = experiment(TEXT);
    let (outcome, _) = run(&experiment, &options(dir.path()));
    let record = outcome.record;
    let text = |form| {
        let mut out = Vec::new();
        lab_text::write(&experiment, &record, form, &mut out).expect("written");
        String::from_utf8(out).expect("text")
    };
    let plain = text(lab_text::Form::Terminal);
    for part in
        ["blocks, us/op", "LevelDB (reported)", "3.25", "offers no sync", "900 (full size 9000)"]
    {
        assert!(plain.contains(part), "{part} is missing: {plain}");
    }
    assert!(text(lab_text::Form::Markdown).contains("| fillseq"));
    let page = lab_html::page(&experiment, &record);
    for part in ["A &lt;small&gt; experiment", "<svg", "LevelDB (reported)", "What each was given"]
    {
        assert!(page.contains(part), "{part} is missing");
    }
    for fetched in ["src=", "href=\"h", "href=\"/", "url(", "@import", "<link"] {
        assert!(!page.contains(fetched), "the page asks for more: {fetched}");
    }
    let mut csv = Vec::new();
    lab_text::write_csv(&experiment, &record, &mut csv).expect("written");
    let csv = String::from_utf8(csv).expect("text");
    assert_eq!(csv.lines().count(), 1 + (2 * 3 + 3) + 2);
    let missing = csv.lines().find(|line| line.contains("fillsync")).expect("there");
    assert!(missing.contains("us/op,,,,0,"), "not measured is empty, never 0: {missing}");
}

#[test]
fn one_run_is_reported_in_several_units() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let also = "rows = \"phase\"\nalso = [\"stalls\", \"device reads per op\", \"peak MiB\"]\n\
                scaled_options = [\"reads\"]\noptions = { reads = 2000 }";
    let text = TEXT.replacen("rows = \"phase\"", also, 1);
    let experiment = experiment(&text);
    let mut options = options(dir.path());
    options.series = vec!["blocks".into()];
    let (outcome, messages) = run(&experiment, &options);
    // The number of reads is scaled down with the sizes, and then differs from the expected number.
    assert!(outcome.failed && messages.contains("expected 500 operations, got 200"), "{messages}");
    let timed = |s: &esker_lab::record::lab::LabSample| {
        s.sample.latency.is_some() && s.sample.idle.is_some() && s.sample.timeline.is_some()
    };
    assert!(outcome.record.samples.iter().filter(|s| s.phase == "fillseq").all(timed));
    let mut out = Vec::new();
    lab_text::write(&experiment, &outcome.record, lab_text::Form::Terminal, &mut out)
        .expect("written");
    let plain = String::from_utf8(out).expect("text");
    for part in ["blocks, stalls", "slowest operation, ms", "blocks, device reads per op", "4 KiB"]
    {
        assert!(plain.contains(part), "{part} is missing: {plain}");
    }
    let page = lab_html::page(&experiment, &outcome.record);
    assert!(page.contains("blocks, in stalls") && page.contains("longest pause, ms"));
}

#[test]
fn series_are_selected_by_name_and_unknown_name_lists_series() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = TEXT.replace("name = \"sizes\"", "name = \"blocks of sizes\"");
    let experiment = experiment(&text);
    let of = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
        lab::chosen_series(&experiment, &names)
    };
    assert_eq!(of(&["blocks"]).expect("exactly so"), [0]);
    assert_eq!(of(&["of"]).expect("holds it"), [1]);
    assert_eq!(of(&["of", "blocks"]).expect("both"), [1, 0]);
    let error = of(&["blocks", "block size"]).expect_err("none").to_string();
    assert!(error.contains("\"block size\"; the series are blocks; blocks of sizes"), "{error}");
    let mut options = options(dir.path());
    options.series = vec!["of sizes".into()];
    assert_eq!(run(&experiment, &options).0.record.points.len(), 3);
}

#[test]
fn two_records_are_compared_point_by_point() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let experiment = experiment(TEXT);
    let (outcome, _) = run(&experiment, &options(dir.path()));
    let before = outcome.record;
    let mut after = before.clone();
    for (index, sample) in after.samples.iter_mut().enumerate() {
        sample.sample.ops_per_sec = sample.sample.ops_per_sec.map(|speed| speed / 1000.0);
        sample.sample.repetition = index;
    }
    let mut out = Vec::new();
    let slower = lab_compare::write_comparison(&before, &after, &mut out).expect("written");
    let text = String::from_utf8(out).expect("text");
    assert_eq!(slower, 2 * 2 + 3, "{text}");
    assert!(text.contains("0 faster"), "{text}");
    let same = lab_compare::write_comparison(&before, &before, &mut Vec::new()).expect("written");
    assert_eq!(same, 0);
}

const MIXED: &str = r#"
title = "Phases"
engines = ["reference"]
repetitions = 2

[phases.put]
update = 1
keys = "low"
grow = true
operations = "entries/4"

[phases.get]
read = 1
keys = "low"
operations = "records"

[phases.age]
start = "filled"
insert = 1
delete = 1
update = 2
keys = "zipfian"
hidden = true

[phases.both]
update = 1
read = 1
writers = 2
threads = 4

[phases.arriving]
read = 9
scan = 1
rate = 4000
operations = 400

[phases.beside]
read = 1
update = 1
writers = 1
threads = 2
writes_per_second = 2000
operations = 400

[[series]]
name = "steps"
phases = ["put", "get"]
keys = "binary"
steps = 4
step_size = 2.5
entries = 2000
unit = "ops/ms"

[[series]]
name = "aged"
phases = ["age", "both", "arriving", "beside"]
entries = 1000
rows = "phase"
columns = "engine"

[[series]]
name = "core"
phases = ["ycsb load a", "ycsb a", "ycsb d", "ycsb e"]
ycsb = { fieldcount = 3, fieldlength = 20 }
operations = "entries/2"
entries = 600
expect = { "ycsb a" = { operations = "entries/2" } }
"#;

#[test]
fn phases_run_in_steps_with_roles_and_rate() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let experiment = experiment(MIXED);
    let (outcome, messages) = run(&experiment, &options(dir.path()));
    assert!(!outcome.failed, "{messages}");
    let record = outcome.record;
    let of = |series: usize, phase: &str| -> Vec<u64> {
        let own = record.samples.iter().filter(|s| s.point == series && s.phase == phase);
        own.filter(|s| s.sample.repetition == 0).map(|s| s.sample.operations).collect()
    };
    assert_eq!(of(0, "put"), [500; 4]);
    assert_eq!(of(0, "get"), [500, 1000, 1500, 2000]);
    assert_eq!(of(2, "ycsb e"), [300]);
    let steps: Vec<&str> = record.steps(0).into_iter().flatten().collect();
    assert_eq!(steps, ["2.5", "5", "7.5", "10"]);
    let arriving = record.samples.iter().find(|s| s.phase == "arriving").expect("ran");
    // 400 operations at an arrival rate of 4000 per second take at least a tenth of a second.
    assert!(arriving.sample.elapsed_seconds > 0.09, "{:?}", arriving.sample.elapsed_seconds);
    assert_eq!(arriving.sample.kinds.len(), 2);
    // The writer does its 200 operations, and the reader goes on for as long.
    let beside = record.samples.iter().find(|s| s.phase == "beside").expect("ran");
    let ok = |kind: &str| beside.sample.kinds.iter().find(|k| k.kind == kind).map(|k| k.ok);
    assert_eq!(ok("UPDATE"), Some(200));
    assert!(beside.sample.operations >= 400, "{}", beside.sample.operations);
    assert!(ok("READ").is_some_and(|found| found > 0));
    let mut text = Vec::new();
    lab_text::write(&experiment, &record, lab_text::Form::Terminal, &mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("steps, ops/ms") && text.contains("p99.9"), "{text}");
    assert!(!text.contains(" age "), "what only prepares is in no table: {text}");
    let page = lab_html::page(&experiment, &record);
    assert!(page.contains("Latency") && page.contains("both: aged"));
}

#[test]
fn series_without_csv_is_skipped_with_message() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = MIXED.replacen("entries = 1000", "entries = [4, 900]", 1).replacen(
        "rows = \"phase\"",
        "csv = { key = \"id\", value = \"title\" }",
        1,
    );
    let text = text.replace("columns = \"engine\"", "");
    let experiment = experiment(&text);
    let mut options = options(dir.path());
    options.series = vec!["aged".into()];
    let (outcome, messages) = run(&experiment, &options);
    assert!(messages.contains("aged needs a CSV file: --csv FILE"), "{messages}");
    assert!(outcome.record.samples.is_empty());
    let csv = dir.path().join("rows.csv");
    let rows: String = (0..300).map(|row| format!("k{},title {row}\n", row % 250)).collect();
    std::fs::write(&csv, format!("id,title\n{rows}")).expect("written");
    options.base.csv = Some(csv);
    let (outcome, messages) = run(&experiment, &options);
    assert!(messages.contains("300 rows, not the 900"), "{messages}");
    assert!(!outcome.failed && outcome.record.sessions.len() == 2, "{messages}");
}
