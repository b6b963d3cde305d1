//! Order of the rounds: in each repetition every engine has one round, with a rotating first
//! engine.
//!
//! A B C, B C A, C A B: slow drifts of the machine and the effects of earlier rounds affect all
//! engines alike. Only one engine is open at any time, and dirty pages are synced between rounds.

use std::path::Path;

use super::config::BenchConfig;
use super::engine_dir::EngineDir;
use super::session::{self, Listener, Round, Silent};
use super::subprocess::{self, Request, Work};
use crate::error::{LabError, Result};
use crate::record::schema::{RunRecord, SessionRecord, TaskSample};
use crate::target::Engine;
use crate::workload::dataset::Dataset;
use crate::workload::tasks::{TaskSpec, parse_tasks};

/// An engine of the benchmark: its name, and the engine or the reason why it cannot run.
pub struct Candidate {
    /// Name under which it was requested.
    pub name: String,
    /// Engine, or the reason why it is not available.
    pub engine: Result<Box<dyn Engine>>,
}

/// Fixed parts of the benchmark.
pub struct Run<'a> {
    /// Settings, with `data_bytes_expected` filled in.
    pub config: &'a BenchConfig,
    /// Tasks in order.
    pub tasks: &'a [TaskSpec],
    /// Pairs to write and read.
    pub data: &'a Dataset,
    /// Parent directory of the engines' directories.
    pub base_dir: &'a Path,
    /// Returns freed memory to the operating system, so that it is not attributed to the next
    /// engine.
    pub settle_memory: &'a dyn Fn(),
}

/// Receiver of progress during the benchmark.
pub trait Observer: Listener {
    /// A round ended and its samples are in the record.
    fn round_done(&mut self, record: &RunRecord);
}

/// Returns the order of the engine indices in `repetition`.
pub fn order(engines: usize, repetition: usize) -> Vec<usize> {
    (0..engines).map(|first| (first + repetition) % engines.max(1)).collect()
}

/// Executes every round and adds the samples to `record`, whose engines are in the order of
/// `candidates`. An engine that fails is excluded from then on; the others continue.
pub fn run(
    run: &Run<'_>,
    candidates: &[Candidate],
    record: &mut RunRecord,
    observer: &mut dyn Observer,
) {
    let mut round = 0;
    for repetition in 0..run.config.repetitions {
        for index in order(candidates.len(), repetition) {
            let Ok(engine) = &candidates[index].engine else { continue };
            if record.engines[index].error.is_some() {
                continue;
            }
            let outcome = match engine.subprocess_spec().filter(|_| run.config.child.is_some()) {
                Some(spec) => round_in_subprocess(run, spec, repetition, round, observer),
                None => one_round(run, engine.as_ref(), repetition, round, observer),
            };
            super::engine_dir::wait_when_ending();
            match outcome {
                Ok((samples, session)) => {
                    let stopped = samples.last().filter(|s| s.failed() && s.wrong == 0);
                    record.engines[index].error =
                        stopped.and_then(|s| Some(format!("{}: {}", s.task, s.error.as_ref()?)));
                    record.samples.extend(samples);
                    record.sessions.push(session);
                }
                Err(error) => record.engines[index].error = Some(error.to_string()),
            }
            round += 1;
            observer.round_done(record);
        }
    }
}

fn round_in_subprocess(
    run: &Run<'_>,
    engine: String,
    repetition: usize,
    round: usize,
    observer: &mut dyn Observer,
) -> Result<(Vec<TaskSample>, SessionRecord)> {
    let base_dir = run.base_dir.to_path_buf();
    let work = Work::Bench { base_dir, repetition, round };
    let request = Request { engine, flags: run.config.flags_given(), work };
    let mut child_messages = Vec::new();
    let reply = subprocess::run(run.config.child.as_deref(), &request, &mut child_messages)?;
    let samples: Vec<TaskSample> = reply.samples.into_iter().map(|(_, _, sample)| sample).collect();
    for sample in &samples {
        observer.sample(sample);
    }
    let session = reply.session.ok_or_else(|| LabError::engine("the round has no final result"))?;
    Ok((samples, session))
}

impl Observer for Silent {
    fn round_done(&mut self, _: &RunRecord) {}
}

/// Executes one round of a benchmark with these settings. `params` contains the directory, the
/// repetition and the number of the round.
pub fn single_round(
    config: &BenchConfig,
    engine: &dyn Engine,
    params: (&Path, usize, usize),
    settle_memory: &dyn Fn(),
) -> Result<(Vec<TaskSample>, SessionRecord)> {
    let tasks = parse_tasks(&config.benchmarks)?;
    let (data, _) = config.dataset()?;
    let mut config = config.clone();
    config.fit_store(&tasks, data.raw_bytes());
    let (base_dir, repetition, round) = params;
    let run = Run { config: &config, tasks: &tasks, data: &data, base_dir, settle_memory };
    one_round(&run, engine, repetition, round, &mut Silent)
}

fn one_round(
    run: &Run<'_>,
    engine: &dyn Engine,
    repetition: usize,
    number: usize,
    observer: &mut dyn Observer,
) -> Result<(Vec<TaskSample>, SessionRecord)> {
    let engine_dir = EngineDir::prepare(run.base_dir, engine.name())?;
    if !run.config.use_existing_db {
        engine_dir.empty()?;
    }
    (run.settle_memory)();
    let (config, data, settle_memory) = (run.config, run.data, run.settle_memory);
    let limit = None;
    let round = Round {
        engine,
        config,
        data,
        engine_dir: &engine_dir,
        repetition,
        number,
        settle_memory,
        limit,
    };
    let outcome = session::run(&round, run.tasks, observer);
    if run.config.db.is_none() {
        engine_dir.remove()?;
    }
    rustix::fs::sync();
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_engine_rotates_over_repetitions() {
        assert_eq!(order(3, 0), [0, 1, 2]);
        assert_eq!(order(3, 1), [1, 2, 0]);
        assert_eq!(order(3, 5), [2, 0, 1]);
        assert_eq!(order(0, 1), [] as [usize; 0]);
    }
}
