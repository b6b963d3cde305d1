//! Entry of the traces: records a workload's calls on an engine, and replays a trace on one.

use std::io::Write;
use std::path::{Path, PathBuf};

use esker_lab::BenchConfig;
use esker_lab::bench::Base;
use esker_lab::error::{LabError, Result};
use esker_lab::record::schema::TaskSample;
use esker_lab::run::engine_dir::EngineDir;
use esker_lab::trace::format::read;
use esker_lab::trace::record::{RecordedEngine, Recorder};
use esker_lab::trace::replay;
use esker_lab::tune::knob::{KnobTable, Setting};
use esker_lab::tune::measures::Runner;
use esker_lab::tune::runner::LabRunner;
use esker_lab::tune::workload::{Sizes, parse};

use crate::bench::{engines_and, in_process, split_spec};
use crate::library::trim_memory;

/// Why an engine in another process is refused.
const NOT_TRACED: &str = "where its calls are not recorded or replayed";

/// Input of a recording.
#[derive(Clone, Debug)]
pub struct RecordRun {
    /// Engine, or `name=path` of a library.
    pub engine: String,
    /// Workloads, as for the tuner.
    pub workloads: Vec<String>,
    /// Sizes of the workloads.
    pub sizes: Sizes,
    /// File of the trace, which must not exist.
    pub out: PathBuf,
    /// One in this many keys is recorded.
    pub one_in: u64,
    /// Whether keys are recorded themselves instead of their hashes.
    pub is_plain: bool,
    /// Base settings.
    pub base: BenchConfig,
}

/// Runs the workloads once and records the calls. Returns the number of recorded operations.
///
/// # Errors
/// The engine or a workload is unknown or fails, or the file exists or cannot be written.
pub fn record(run: &RecordRun) -> Result<u64> {
    let (name, path) = split_spec(&run.engine);
    let inner = in_process(name, path, NOT_TRACED)?;
    let workloads = parse(&run.workloads, &run.base, &run.sizes, &engines_and(name))?;
    let stores = Base::make(&run.base)?;
    let recorder = Recorder::create(&run.out, run.one_in, run.is_plain)?;
    let engine = RecordedEngine { inner: inner.as_ref(), recorder: recorder.clone() };
    let table = KnobTable { engine: name.into(), ..KnobTable::default() };
    let mut runner = LabRunner {
        engine: &engine,
        table: &table,
        base: &run.base,
        workloads: &workloads,
        base_dir: &stores.dir,
        settle_memory: &trim_memory,
        remote: None,
    };
    let measures = runner.run(&Setting::default(), 1.0, 0);
    if let Some(error) = measures.error {
        return Err(LabError::engine(error));
    }
    recorder.finish()
}

/// Replays the trace at `path` in a new store of `engine` and returns the measures. A trace that was
/// cut off is named on `messages`.
///
/// # Errors
/// The engine is unknown, or the trace cannot be read. An engine's failure is in the sample.
pub fn replay(
    path: &Path,
    engine: &str,
    base: &BenchConfig,
    messages: &mut dyn Write,
) -> Result<TaskSample> {
    let (name, library) = split_spec(engine);
    let engine = in_process(name, library, NOT_TRACED)?;
    let trace = read(path)?;
    if !trace.is_complete {
        let line = format!("{}: the recording was cut off", path.display());
        esker_lab::bench::print_message(messages, &line);
    }
    let stores = Base::make(base)?;
    let engine_dir = EngineDir::prepare(&stores.dir, name)?;
    engine_dir.empty()?;
    let how = (1.0, base.seed, base.compression_ratio);
    let sample = replay::run(engine.as_ref(), &engine_dir.store(), &base.store, &trace, how);
    if base.db.is_none() {
        engine_dir.remove()?;
    }
    Ok(sample)
}
