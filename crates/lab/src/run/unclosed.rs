//! A store whose process was killed while it was open, for the task `recover`.
//!
//! The child is this program itself. It opens the store with the settings of the round, puts the
//! pairs of the task, says so on its standard output, and kills itself with SIGKILL: no destructor,
//! no flush and no close runs. The pairs follow from the seed, the repetition and the task's
//! position, so that the measuring process knows them without a word from the child.

use std::convert::Infallible;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use super::config::BenchConfig;
use super::session::plan_of;
use super::subprocess::{self, Reply, Request, Work};
use crate::error::{LabError, LabErrorKind, Result};
use crate::target::Engine;
use crate::workload::oracle::Oracle;
use crate::workload::prepare::prepare;
use crate::workload::tasks::parse_tasks;

/// What the child says when every pair is written.
const WRITTEN: &[u8] = b"written\n";
/// The signal that ends the child.
const SIGKILL: i32 = 9;

/// What the child is to write, beside the flags of the benchmark.
#[derive(Debug, Serialize, Deserialize)]
pub struct Unclosed {
    /// Directory of the store.
    pub dir: PathBuf,
    /// Number of generated pairs; `None` for the default, or for all pairs of the CSV file.
    pub num: Option<u64>,
    /// CSV file of the pairs, if they are not generated.
    pub csv: Option<PathBuf>,
    /// Number of lists of pairs; the child puts them one after the other.
    pub threads: usize,
    /// Seed of the benchmark.
    pub seed: u64,
    /// Repetition, from 0.
    pub repetition: usize,
    /// Position of the task in its round.
    pub position: usize,
    /// Number of the task's values.
    pub generation: u32,
}

/// Lets a child write into the store and kill itself.
///
/// # Errors
/// No program is known for the child, the child failed, or something else ended it.
pub(super) fn write_and_kill(
    config: &BenchConfig,
    engine: &dyn Engine,
    unclosed: Unclosed,
) -> Result<()> {
    let given = || config.engine_specs.get(engine.name()).cloned();
    let spec = engine.subprocess_spec().or_else(given).unwrap_or_else(|| engine.name().into());
    let work = Work::Unclosed(unclosed);
    let request = Request { engine: spec, flags: config.flags_given(), work };
    let mut messages = Vec::new();
    let (answer, status) = subprocess::exchange(config.child.as_deref(), &request, &mut messages)?;
    if answer == WRITTEN && status.signal() == Some(SIGKILL) {
        return Ok(());
    }
    let reply: Option<Reply> = serde_json::from_slice(&answer).ok();
    let why = reply.and_then(|reply| reply.error).unwrap_or_else(|| {
        let said = String::from_utf8_lossy(&messages);
        format!("the process that writes ended before it was killed ({status}) {said}")
    });
    Err(LabError::engine(why.trim_end().to_string()))
}

/// The child: writes, says so to `output`, and kills this process. Returns only an error.
pub fn write_until_killed(
    base: &BenchConfig,
    engine: &dyn Engine,
    work: &Unclosed,
    output: &mut dyn Write,
) -> Result<Infallible> {
    let mut config = base.clone();
    (config.num, config.threads, config.seed) = (work.num, work.threads, work.seed);
    config.csv.clone_from(&work.csv);
    let tasks = parse_tasks("recover")?;
    let (data, _) = config.dataset()?;
    config.fit_store(&tasks, data.raw_bytes());
    let oracle = Oracle::unknown(&data);
    let at = (work.repetition, work.position);
    let prepared = prepare(&tasks[0], &plan_of(&config, &data, &oracle, at, work.generation))
        .ok_or_else(|| LabError::engine("the data is too small for the task"))?;
    let store = engine.open(&work.dir, &config.store)?;
    for list in &prepared.lists {
        for index in 0..list.len() {
            store.put(list.keys.get(index), data.value(list.values[index]), false)?;
        }
    }
    let failed = |e: std::io::Error| LabError::new(LabErrorKind::Io, format!("cannot say so: {e}"));
    output.write_all(WRITTEN).and_then(|()| output.flush()).map_err(failed)?;
    // The signal is delivered before the call returns to this thread.
    kill_process(getpid(), Signal::KILL).map_err(|e| failed(e.into()))?;
    Err(LabError::engine("the process outlived its own SIGKILL"))
}
