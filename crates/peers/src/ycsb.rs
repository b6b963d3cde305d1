//! A single YCSB workload: one engine, one workload from property files, YCSB's result lines.

use std::io::Write;

use esker_lab::BenchConfig;
use esker_lab::bench::Base;
use esker_lab::error::{LabError, Result};
use esker_lab::experiment::plan::set_for;
use esker_lab::mix::phase::{Phase, written_bytes};
use esker_lab::mix::session::{self, MixRound};
use esker_lab::mix::ycsb::{Properties, Workload};
use esker_lab::record::schema::TaskSample;
use esker_lab::run::config::DATA_BYTES_SPARE;
use esker_lab::run::engine_dir::EngineDir;
use esker_lab::run::session::Listener;
use esker_lab::run::subprocess::{self, Request, Work};

use crate::bench::{engine_named, engines_and, split_spec};
use crate::library::trim_memory;

/// Input of a YCSB run.
#[derive(Clone, Debug)]
pub struct YcsbRun {
    /// Name of the engine, or `name=path` of a library.
    pub engine: String,
    /// Properties of the workload and the store.
    pub properties: Properties,
    /// Whether the load phase is reported.
    pub load: bool,
    /// Whether the run phase follows the load phase.
    pub run: bool,
    /// Base settings, overridden by the properties: directory, seed, compression ratio, progress.
    pub base: BenchConfig,
}

struct Quiet<'a>(&'a mut dyn Write);

impl Listener for Quiet<'_> {
    fn sample(&mut self, sample: &TaskSample) {
        // A failed write means that no reader is left, so the error is ignored.
        let speed = sample.ops_per_sec.unwrap_or(f64::NAN);
        let _ = writeln!(
            self.0,
            "{}: {} operations, {:.1} s, {speed:.0} ops/sec",
            sample.task, sample.operations, sample.elapsed_seconds
        );
    }

    fn stats(&mut self, _: &str, _: &str) {}
}

/// Executes the load phase and, if requested, the run phase. Returns the samples of the reported
/// phases, in order. An engine that requires a subprocess runs in one.
pub fn run(run: &YcsbRun, messages: &mut dyn Write) -> Result<Vec<TaskSample>> {
    let (name, path) = split_spec(&run.engine);
    let spec = engine_named(name, path)?.subprocess_spec();
    let Some(engine) = spec.filter(|_| run.base.child.is_some()) else {
        return run_here(run, messages);
    };
    let work = Work::Ycsb { properties: run.properties.text(), load: run.load, run: run.run };
    let request = Request { engine, flags: run.base.flags_given(), work };
    let reply = subprocess::run(run.base.child.as_deref(), &request, messages)?;
    Ok(reply.samples.into_iter().map(|(_, _, sample)| sample).collect())
}

/// Like [`run`], but always in this process.
pub fn run_here(run: &YcsbRun, messages: &mut dyn Write) -> Result<Vec<TaskSample>> {
    let (name, path) = split_spec(&run.engine);
    let engine = engine_named(name, path)?;
    let engines = engines_and(name);
    let workload = run.properties.workload(&engines).map_err(LabError::usage)?;
    let mut config = run.base.clone();
    let decided = run.properties.decided_here(&engines);
    if !decided.is_empty() {
        // A failed write means that no reader is left, so the error is ignored.
        let _ = writeln!(messages, "without effect, as the lab decides it: {}", decided.join(", "));
    }
    for (option, value) in run.properties.of_stores(&engines) {
        set_for(&mut config, name, &option, &value).map_err(LabError::usage)?;
    }
    let space = workload.space(config.compression_ratio, config.seed);
    let phases = phases(&workload, run);
    let written = written_bytes(&phases, 0, 0, &space);
    config.store.data_bytes_expected = written + DATA_BYTES_SPARE;
    let base = Base::make(&config)?;
    let engine_dir = EngineDir::prepare(&base.dir, name)?;
    engine_dir.empty()?;
    let round = MixRound {
        engine: engine.as_ref(),
        store: &config.store,
        space: &space,
        phases: &phases,
        entries: workload.records,
        threads: workload.threads,
        seed: config.seed,
        engine_dir: &engine_dir,
        repetition: 0,
        number: 0,
        progress: config.progress,
        space_every_ms: config.space_every_ms,
        settle_memory: &trim_memory,
        limit: None,
    };
    let (samples, _) = session::run(&round, &mut Quiet(messages));
    if config.db.is_none() {
        engine_dir.remove()?;
    }
    Ok(samples.into_iter().filter(|sample| !sample.hidden).collect())
}

/// Returns the load phase, hidden if not reported, and the run phase if requested.
fn phases(workload: &Workload, run: &YcsbRun) -> Vec<Phase> {
    let mut phases = vec![workload.load_phase(run.load)];
    phases.extend(run.run.then(|| workload.run.clone()));
    phases
}
