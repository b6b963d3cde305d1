//! Tests of failures: a failure is reported as a sentence, the other engines continue, and
//! measurements are kept.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_lab::BenchConfig;
use esker_lab::error::{LabError, Result};
use esker_lab::experiment::check::{Experiment, Known};
use esker_lab::experiment::plan::Scale;
use esker_lab::lab::{self, LabOptions, LabOutcome};
use esker_lab::record::store::load_lab;
use esker_lab::reference::Reference;
use esker_lab::report::{lab_html, lab_text};
use esker_lab::run::interleave::Candidate;
use esker_lab::target::{Capabilities, Direction, Engine, StoreOptions, Target, VisitPair};

/// The reference engine, whose puts fail from the `after`-th put of a run on.
struct Failing {
    after: u64,
}

struct FailingStore {
    inner: Box<dyn Target>,
    left: AtomicU64,
}

impl Engine for Failing {
    fn name(&self) -> &str {
        "failing"
    }
    fn description(&self) -> String {
        "fails".into()
    }
    fn capabilities(&self) -> Capabilities {
        Reference.capabilities()
    }
    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        Reference.given(options)
    }
    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let inner = Reference.open(dir, options)?;
        Ok(Box::new(FailingStore { inner, left: AtomicU64::new(self.after) }))
    }
}

impl Target for FailingStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(LabError::engine("failing: no space left on device"));
        }
        self.inner.put(key, value, sync)
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.inner.delete(key)
    }
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.inner.get(key, visit)
    }
    fn seek(&self, key: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        self.inner.seek(key, visit)
    }
    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        self.inner.scan(direction, visit)
    }
    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        self.inner.scan_from(start, visit)
    }
    fn compact(&self) -> Result<()> {
        self.inner.compact()
    }
    fn stats(&self) -> Option<String> {
        None
    }
    fn close(self: Box<Self>) -> Result<()> {
        self.inner.close()
    }
}

const TEXT: &str = r#"
title = "Failing"
engines = ["failing", "reference"]
repetitions = 2

[phases.load]
start = "empty"
update = 1
keys = "sequential"

[phases.again]
update = 1

[[series]]
name = "phases"
phases = ["load", "again"]
entries = 1000

[[series]]
name = "tasks"
tasks = "fillseq,readrandom,overwrite"
entries = 1000
"#;

fn run(dir: &Path, after: u64, record: &Path) -> (Experiment, LabOutcome, String) {
    let known = Known { engines: &["reference", "failing"], config: BenchConfig::default() };
    let experiment = Experiment::parse("failing", TEXT, &known).expect("right");
    let mut base = BenchConfig::default();
    base.set("db", &dir.join("db").display().to_string()).expect("a flag");
    base.set("record", &record.display().to_string()).expect("a flag");
    let options = LabOptions {
        scale: Scale::Times(1.0),
        scale_text: "1".into(),
        repetitions: None,
        engines: None,
        series: Vec::new(),
        resume: None,
        base,
    };
    let candidates = [
        Candidate { name: "failing".into(), engine: Ok(Box::new(Failing { after })) },
        Candidate { name: "reference".into(), engine: Ok(Box::new(Reference)) },
    ];
    let mut messages = Vec::new();
    let outcome =
        lab::run(&experiment, &options, &candidates, &|| {}, &mut messages).expect("runs");
    (experiment, outcome, String::from_utf8(messages).expect("text"))
}

#[test]
fn failing_engine_keeps_its_samples_and_others_continue() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (experiment, outcome, messages) = run(dir.path(), 1500, &dir.path().join("record"));
    assert!(outcome.failed && messages.contains("no space left on device"), "{messages}");
    let record = load_lab(&outcome.record_path.expect("saved")).expect("readable");
    let of = |engine: &str, phase: &str| -> Vec<bool> {
        let own = record.samples.iter().filter(|s| s.phase == phase && s.sample.engine == engine);
        own.map(|s| s.sample.error.is_none()).collect()
    };
    assert_eq!(of("failing", "load"), [true, true], "what it did is kept");
    assert_eq!(of("failing", "again"), [false, false]);
    assert_eq!(of("failing", "fillseq"), [true, true]);
    assert_eq!(of("failing", "overwrite"), [false, false]);
    assert_eq!(of("reference", "again"), [true, true]);
    assert_eq!(of("reference", "overwrite"), [true, true]);
    let mut text = Vec::new();
    lab_text::write(&experiment, &record, lab_text::Form::Terminal, &mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("failing, again: failing: no space") && text.contains("n/a"), "{text}");
    let page = lab_html::page(&experiment, &record);
    assert!(page.contains("no space left on device"));
}

#[test]
fn unwritable_record_directory_is_reported_and_run_continues() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("file");
    std::fs::write(&file, b"in the way").expect("written");
    let (_, outcome, messages) = run(dir.path(), u64::MAX, &file.join("record"));
    assert!(!outcome.failed, "{messages}");
    assert!(messages.contains("the run continues without a record"), "{messages}");
    assert_eq!((outcome.record.sessions.len(), outcome.record_path), (8, None));
}
