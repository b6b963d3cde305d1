//! Runs of whole benchmarks in a temporary folder.

use std::path::Path;

use esker_lab::BenchConfig;
use esker_lab::bench::{self, BenchOutcome};
use esker_lab::error::{LabError, LabErrorKind};
use esker_lab::run::interleave::Candidate;
use esker_lab::target::Engine;

/// What a benchmark returned and wrote.
pub struct Ran {
    pub outcome: BenchOutcome,
    pub out: String,
    pub messages: String,
}

/// Runs a benchmark of 200 pairs over `engines` and an engine that is not installed.
pub fn run(dir: &Path, flags: &[(&str, &str)], engines: Vec<Box<dyn Engine>>) -> Ran {
    let mut config = BenchConfig::default();
    config.set("num", "200").expect("a flag");
    config.set("db", &dir.join("db").display().to_string()).expect("a flag");
    config.set("record", &dir.join("record").display().to_string()).expect("a flag");
    for (flag, value) in flags {
        config.set(flag, value).expect("a flag");
    }
    let named =
        |engine: Box<dyn Engine>| Candidate { name: engine.name().into(), engine: Ok(engine) };
    let mut candidates: Vec<Candidate> = engines.into_iter().map(named).collect();
    let absent = LabError::new(LabErrorKind::NotInstalled, "not installed: apt install nothing");
    candidates.push(Candidate { name: "absent".into(), engine: Err(absent) });
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let outcome =
        bench::run_terms(&config, &candidates, &|| {}, &mut out, &mut messages).expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran { outcome, out: text(out), messages: text(messages) }
}
