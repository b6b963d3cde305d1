//! Runs of whole benchmarks in a temporary folder.

use std::path::Path;

use esker_lab::BenchConfig;
use esker_lab::bench::{self, BenchOutcome};
use esker_lab::error::{LabError, LabErrorKind, Result};
use esker_lab::reference::Reference;
use esker_lab::run::interleave::Candidate;
use esker_lab::target::{Capabilities, Engine, StoreOptions, Target};

/// The reference engine, whose stores misbehave.
struct Faulty<F>(F);

/// Returns the reference engine with `wrap` around each of its stores.
pub fn faulty<F>(wrap: F) -> Box<dyn Engine>
where
    F: Fn(Box<dyn Target>) -> Box<dyn Target> + Send + Sync + 'static,
{
    Box::new(Faulty(wrap))
}

impl<F> Engine for Faulty<F>
where
    F: Fn(Box<dyn Target>) -> Box<dyn Target> + Send + Sync,
{
    fn name(&self) -> &str {
        "faulty"
    }
    fn description(&self) -> String {
        "misbehaves".into()
    }
    fn capabilities(&self) -> Capabilities {
        Reference.capabilities()
    }
    fn given(&self, _: &StoreOptions) -> Vec<(String, String)> {
        Vec::new()
    }
    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        Ok((self.0)(Reference.open(dir, options)?))
    }
}

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
    // The task `rest` waits half a minute by default.
    config.set("rest_ms", "1").expect("a flag");
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
