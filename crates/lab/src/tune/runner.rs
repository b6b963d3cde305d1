//! Measures sets of options with the lab's own rounds.

use std::path::Path;
use std::time::Instant;

use super::knob::{KnobTable, Setting};
use super::measures::{RunMeasures, Runner, WorkloadMeasures};
use super::workload::{Sizes, Workload};
use crate::BenchConfig;
use crate::error::{LabError, Result};
use crate::experiment::plan::is_count;
use crate::mix::phase::{Phase, Start, written_bytes};
use crate::mix::session::{self as mixed, MixRound};
use crate::record::schema::TaskSample;
use crate::run::config::DATA_BYTES_SPARE;
use crate::run::engine_dir::EngineDir;
use crate::run::session::{self as tasks, Round, Silent};
use crate::run::subprocess::{self, Request, Work};
use crate::target::Engine;
use crate::trace::replay;
use crate::workload::tasks::{TaskSpec, is_without_engine, labels};

/// Smallest number of records or operations of a shortened run.
const COUNT_MIN: u64 = 100;

/// An engine that runs in a separate process, and the workloads by their names.
pub struct Remote<'a> {
    /// The engine, as `name` or `name=path`.
    pub engine: String,
    /// The workloads, as the user names them.
    pub workloads: &'a [String],
    /// Their sizes.
    pub sizes: &'a Sizes,
}

/// Measures sets with the lab's rounds.
pub struct LabRunner<'a> {
    /// The engine.
    pub engine: &'a dyn Engine,
    /// The engine's knobs.
    pub table: &'a KnobTable,
    /// Settings that no knob changes.
    pub base: &'a BenchConfig,
    /// The workloads.
    pub workloads: &'a [Workload],
    /// Parent directory of the stores.
    pub base_dir: &'a Path,
    /// Returns freed memory to the operating system.
    pub settle_memory: &'a dyn Fn(),
    /// Where the engine runs if not in this process.
    pub remote: Option<Remote<'a>>,
}

impl Runner for LabRunner<'_> {
    fn run(&mut self, setting: &Setting, share: f64, round: usize) -> RunMeasures {
        let start = Instant::now();
        let measured = self.measured(setting, share, round);
        crate::run::engine_dir::wait_when_ending();
        let (workloads, error) = match measured {
            Ok(samples) => {
                let failed = samples.iter().find(|sample| sample.failed());
                let failure = |s: &TaskSample| {
                    format!("{}: {}", s.task, s.error.as_deref().unwrap_or("failed"))
                };
                (self.measures(&samples), failed.map(failure))
            }
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        RunMeasures { workloads, seconds: start.elapsed().as_secs_f64(), error }
    }
}

impl LabRunner<'_> {
    /// Returns the settings of a set.
    ///
    /// # Errors
    /// A flag or its value is refused.
    pub fn config(&self, setting: &Setting) -> Result<BenchConfig> {
        let mut config = self.base.clone();
        for (flag, value) in &self.table.fixed {
            config.set(flag, value).map_err(LabError::usage)?;
        }
        for knob in &self.table.knobs {
            let value = self.table.value(knob, setting);
            config.set(&knob.flag, value).map_err(LabError::usage)?;
        }
        let is_knob = |name: &str| self.table.find(name).is_some();
        for (option, value) in setting.0.iter().filter(|(name, _)| !is_knob(name)) {
            config.set(option, value).map_err(LabError::usage)?;
        }
        config.histogram = true;
        Ok(config)
    }

    /// Runs all workloads once, and returns their samples. After a failed sample no workload follows.
    ///
    /// # Errors
    /// A set is refused, or the stores cannot be made or removed.
    pub fn measured(&self, setting: &Setting, share: f64, round: usize) -> Result<Vec<TaskSample>> {
        let config = self.config(setting)?;
        if let Some(remote) = &self.remote {
            return self.in_child(remote, &config, share, round);
        }
        let engine_dir = EngineDir::prepare(self.base_dir, self.engine.name())?;
        let mut samples = Vec::new();
        for workload in self.workloads {
            engine_dir.empty()?;
            (self.settle_memory)();
            let own = match workload {
                Workload::Mix { .. } => self.mixed(workload, &config, &engine_dir, (share, round)),
                Workload::Trace { trace } => {
                    let ratio = config.compression_ratio;
                    let how = (share, config.seed, ratio);
                    let dir = engine_dir.store();
                    vec![replay::run(self.engine, &dir, &config.store, trace, how)]
                }
                Workload::Tasks { tasks, csv, entries, flags } => {
                    let mut config = config.clone();
                    for (flag, value) in flags {
                        let value = shortened_flag(flag, value, share);
                        config.set(flag, &value).map_err(LabError::usage)?;
                    }
                    config.csv.clone_from(csv);
                    config.num = Some(scaled(*entries, share));
                    self.tasks(tasks, config, &engine_dir, round)?
                }
            };
            let failed = own.iter().any(TaskSample::failed);
            samples.extend(own.into_iter().filter(|sample| !sample.hidden || sample.failed()));
            if failed {
                break;
            }
        }
        engine_dir.remove()?;
        rustix::fs::sync();
        Ok(samples)
    }

    fn in_child(
        &self,
        remote: &Remote<'_>,
        config: &BenchConfig,
        share: f64,
        round: usize,
    ) -> Result<Vec<TaskSample>> {
        let mut flags = config.flags_given();
        flags.insert("seed".into(), config.seed.to_string());
        let sizes = remote.sizes;
        let work = Work::Tune {
            workloads: remote.workloads.to_vec(),
            records: sizes.records,
            operations: sizes.operations,
            properties: sizes.properties.clone(),
            robust_points: sizes.robust_points,
            share,
            round,
            base_dir: self.base_dir.to_path_buf(),
        };
        let request = Request { engine: remote.engine.clone(), flags, work };
        let reply = subprocess::run(self.base.child.as_deref(), &request, &mut Vec::new())?;
        Ok(reply.samples.into_iter().map(|(_, _, sample)| sample).collect())
    }

    fn mixed(
        &self,
        workload: &Workload,
        config: &BenchConfig,
        engine_dir: &EngineDir,
        (share, round): (f64, usize),
    ) -> Vec<TaskSample> {
        let Workload::Mix { space, records, threads, phases } = workload else {
            return Vec::new();
        };
        let entries = scaled(*records, share);
        // Amounts in entries shrink with the entries.
        let shortened = |phase: &Phase| phase.clone().with_counts(|count| scaled(count, share));
        let phases: Vec<Phase> = phases.iter().map(shortened).collect();
        let mut store = config.store.clone();
        let is_filled = phases.iter().any(|phase| phase.start == Start::Filled);
        let filled = if is_filled { entries } else { 0 };
        let most = written_bytes(&phases, entries, filled, space);
        store.data_bytes_expected = most + DATA_BYTES_SPARE;
        let mixed_round = MixRound {
            engine: self.engine,
            store: &store,
            space,
            phases: &phases,
            entries,
            threads: *threads,
            seed: config.seed,
            engine_dir,
            repetition: round,
            number: round,
            progress: config.progress,
            space_every_ms: 0,
            settle_memory: self.settle_memory,
            limit: None,
        };
        mixed::run(&mixed_round, &mut Silent).0
    }

    fn tasks(
        &self,
        list: &[TaskSpec],
        mut config: BenchConfig,
        engine_dir: &EngineDir,
        round: usize,
    ) -> Result<Vec<TaskSample>> {
        let (data, _) = config.dataset()?;
        config.fit_store(list, data.raw_bytes());
        let tasks_round = Round {
            engine: self.engine,
            config: &config,
            data: &data,
            engine_dir,
            repetition: round,
            number: round,
            settle_memory: self.settle_memory,
            limit: None,
        };
        let (samples, _) = tasks::run(&tasks_round, list, &mut Silent);
        let is_measured = |sample: &TaskSample| !is_without_engine(&sample.task);
        Ok(samples.into_iter().filter(is_measured).collect())
    }

    /// Converts samples, which are in the order of the workloads' names.
    fn measures(&self, samples: &[TaskSample]) -> Vec<WorkloadMeasures> {
        let names = labels(samples.iter().map(|sample| sample.task.as_str()));
        let of = |(workload, sample): (String, &TaskSample)| WorkloadMeasures {
            workload,
            ops_per_sec: sample.ops_per_sec,
            p99_micros: sample.latency.as_ref().map(|latency| latency.p99_micros),
            write_amplification: sample.write_amplification,
            disk_bytes: sample.disk_bytes.map(|bytes| bytes as f64),
            memory_bytes: sample.peak_memory_bytes.map(|bytes| bytes as f64),
        };
        names.into_iter().zip(samples).map(of).collect()
    }
}

fn scaled(count: u64, share: f64) -> u64 {
    ((count as f64 * share) as u64).max(COUNT_MIN.min(count)).max(1)
}

/// Returns the value of a flag at a share of the workload's size.
fn shortened_flag(flag: &str, value: &str, share: f64) -> String {
    let count = value.parse().ok().filter(|_| is_count(flag));
    count.map_or(value.into(), |count| scaled(count, share).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Reference;
    use crate::tune::workload::names;
    use crate::tune::workload::tests::parsed;

    #[test]
    fn run_measures_every_workload_in_order() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file.trace");
        std::fs::write(&file, "esker trace 1\n1 put 6162 5\n2 get 6162 5\nend 2\n")
            .expect("written");
        let trace = format!("trace:{}", file.display());
        let texts = ["load,a", "bench:fillseq,readrandom", &trace];
        let workloads = parsed(&texts, None).expect("right");
        let base = BenchConfig::default();
        let table = KnobTable::default();
        let mut runner = LabRunner {
            engine: &Reference,
            table: &table,
            base: &base,
            workloads: &workloads,
            base_dir: dir.path(),
            settle_memory: &|| {},
            remote: None,
        };
        let run = runner.run(&Setting::default(), 0.5, 1);
        assert_eq!(run.error, None);
        let found: Vec<&str> = run.workloads.iter().map(|own| own.workload.as_str()).collect();
        assert_eq!(found, names(&workloads));
        for own in &run.workloads {
            assert!(own.ops_per_sec.is_some_and(|speed| speed > 0.0), "{own:?}");
            assert!(own.p99_micros.is_some(), "{own:?}");
        }
        let error = LabRunner { base_dir: Path::new("/dev/null"), ..runner }
            .run(&Setting::default(), 0.5, 1)
            .error;
        assert!(error.is_some_and(|error| error.contains("/dev/null")));
    }
}
