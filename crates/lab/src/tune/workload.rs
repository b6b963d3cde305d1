//! The workloads of a tuning, and the runner that measures them with the lab's own rounds.
//!
//! `load` and `a` to `f` are YCSB's core workloads. Consecutive ones share a store, which is loaded
//! once and keeps its content from phase to phase. A property file is a load and a run in a store
//! of its own. `bench:LIST` is a list of db_bench's tasks, and `csv:FILE` writes and reads the rows
//! of a file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use toml::Value;

use super::knob::{KnobTable, Setting};
use super::measures::{RunMeasures, Runner, WorkloadMeasures};
use crate::BenchConfig;
use crate::error::{LabError, Result};
use crate::experiment::expect::Amount;
use crate::mix::phase::{OpKind, Phase, Start};
use crate::mix::session::{self as mixed, MixRound};
use crate::mix::space::Space;
use crate::mix::ycsb::{Properties, Workload as Core};
use crate::record::schema::TaskSample;
use crate::run::config::DATA_BYTES_SPARE;
use crate::run::engine_dir::EngineDir;
use crate::run::session::{self as tasks, Listener, Round};
use crate::target::Engine;
use crate::workload::tasks::{TaskKind, labels, parse_tasks};

/// Tasks of a CSV file: its rows written in their order, then read at random.
const CSV_TASKS: &str = "fillseq,readrandom";
/// Smallest number of records or operations of a shortened run.
const COUNT_MIN: u64 = 100;

/// Sizes and changes of the workloads.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Records of YCSB's core workloads, and entries of a db_bench list.
    pub records: u64,
    /// Operations of each run phase; `None` for as many as records.
    pub operations: Option<u64>,
    /// YCSB properties for the core workloads and property files: name and value.
    pub properties: Vec<(String, String)>,
    /// Points by which the share of reads may move, for the robust mode.
    pub robust_points: Option<f64>,
}

/// Workloads in one store.
#[derive(Debug)]
pub enum Workload {
    /// Phases over generated records.
    Mix {
        /// Form of the records.
        space: Box<Space>,
        /// Number of records.
        records: u64,
        /// Number of threads.
        threads: usize,
        /// Phases in order.
        phases: Vec<Phase>,
    },
    /// Tasks of db_bench over generated entries or the rows of a file.
    Tasks {
        /// Tasks, comma-separated.
        list: String,
        /// File of the pairs; `None` generates them.
        csv: Option<PathBuf>,
        /// Number of entries.
        entries: u64,
    },
}

/// Parses the workloads in `texts`; `engines` are the stores with known properties.
///
/// # Errors
/// A text is no workload, or has no mix and the robust mode is on; the error lists the forms.
pub fn parse(
    texts: &[String],
    base: &BenchConfig,
    sizes: &Sizes,
    engines: &[&str],
) -> Result<Vec<Workload>> {
    let mut workloads = Vec::new();
    let mut group: Vec<String> = Vec::new();
    for text in texts.iter().flat_map(|text| parts(text)) {
        let core = core_name(&text);
        if core.is_none() && !group.is_empty() {
            workloads.push(core_group(&std::mem::take(&mut group), base, sizes, engines)?);
        }
        match core {
            Some(name) => group.push(name),
            None => workloads.push(one(&text, base, sizes, engines)?),
        }
    }
    if !group.is_empty() {
        workloads.push(core_group(&group, base, sizes, engines)?);
    }
    if workloads.is_empty() {
        return Err(LabError::usage("no workload is named"));
    }
    Ok(workloads)
}

/// Splits a list of core workloads at its commas. Other workloads may have commas of their own.
fn parts(text: &str) -> Vec<String> {
    let listed: Vec<String> = text.split(',').map(|part| part.trim().to_string()).collect();
    if listed.iter().all(|part| core_name(part).is_some()) { listed } else { vec![text.into()] }
}

/// Returns `load` or the letter of a core workload: `a`, `ycsb-a`, `workloada`.
fn core_name(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let name = ["ycsb-", "workload"].iter().find_map(|head| text.strip_prefix(head));
    let name = name.unwrap_or(&text);
    (name == "load" || Properties::core(name).is_some()).then(|| name.to_string())
}

/// Builds the phases of core workloads in one store.
fn core_group(
    names: &[String],
    base: &BenchConfig,
    sizes: &Sizes,
    engines: &[&str],
) -> Result<Workload> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut form = None;
    for name in names.iter().filter(|name| *name != "load") {
        let core = core(Properties::core(name).unwrap_or_default(), sizes, engines)?;
        phases.extend(varied(&core.run, name, sizes)?);
        form = form.or(Some(core));
    }
    let core = match form {
        Some(core) => core,
        None => core(Properties::core("a").unwrap_or_default(), sizes, engines)?,
    };
    phases.insert(0, load_phase(&core, names.iter().any(|name| name == "load")));
    Ok(mix(core, phases, base))
}

fn mix(core: Core, phases: Vec<Phase>, base: &BenchConfig) -> Workload {
    let space = Box::new(core.space(base.compression_ratio, base.seed));
    Workload::Mix { space, records: core.records, threads: core.threads, phases }
}

fn load_phase(core: &Core, is_measured: bool) -> Phase {
    let mut load = core.load.clone();
    load.start = Start::Empty;
    load.hidden = !is_measured;
    load
}

/// Builds a core workload of the wanted sizes. A property file's own sizes take precedence.
fn core(own: Properties, sizes: &Sizes, engines: &[&str]) -> Result<Core> {
    let mut properties = Properties::default();
    properties.set("recordcount", &sizes.records.to_string());
    let operations = sizes.operations.unwrap_or(sizes.records);
    properties.set("operationcount", &operations.to_string());
    properties.read(&own.text()).map_err(LabError::usage)?;
    for (name, value) in &sizes.properties {
        properties.set(name, value);
    }
    properties.workload(engines).map_err(LabError::usage)
}

/// Builds a workload that is no core workload.
fn one(text: &str, base: &BenchConfig, sizes: &Sizes, engines: &[&str]) -> Result<Workload> {
    let tasks = |list: &str, csv: Option<PathBuf>| {
        parse_tasks(list)?;
        if sizes.robust_points.is_some() {
            return Err(LabError::usage(format!(
                "the robust mode moves the share of reads, and {text} has no such share"
            )));
        }
        Ok(Workload::Tasks { list: list.into(), csv, entries: sizes.records })
    };
    if let Some(list) = text.strip_prefix("bench:") {
        return tasks(list, None);
    }
    if let Some(path) = text.strip_prefix("csv:") {
        let config = BenchConfig { csv: Some(path.into()), ..base.clone() };
        // The file is read once here, so that a missing column is an error before the first run.
        let rows = config.dataset()?.0.rows();
        let workload = tasks(CSV_TASKS, Some(path.into()))?;
        return Ok(match workload {
            Workload::Tasks { list, csv, .. } => Workload::Tasks { list, csv, entries: rows },
            other => other,
        });
    }
    let path = Path::new(text);
    let read = std::fs::read_to_string(path).map_err(|e| {
        LabError::usage(format!(
            "expected a workload: load, a to f, bench:TASKS, csv:FILE or a property file; {text}: {e}"
        ))
    })?;
    let mut properties = Properties::default();
    properties.read(&read).map_err(|why| LabError::usage(format!("{text}: {why}")))?;
    let name = path.file_stem().map_or(text.into(), |stem| stem.to_string_lossy().into_owned());
    let core = core(properties, sizes, engines)?;
    let mut phases = vec![load_phase(&core, false)];
    phases.extend(varied(&core.run, &name, sizes)?);
    Ok(mix(core, phases, base))
}

/// Returns the run phase under its name, and in the robust mode the same phase with more reads and
/// with more writes.
fn varied(run: &Phase, name: &str, sizes: &Sizes) -> Result<Vec<Phase>> {
    let named = |shares: Vec<(OpKind, f64)>, name: String| Phase { name, shares, ..run.clone() };
    let mut phases = vec![named(run.shares.clone(), name.into())];
    let Some(points) = sizes.robust_points else { return Ok(phases) };
    if !(points > 0.0 && points < 100.0) {
        return Err(LabError::usage(format!(
            "the robust mode expects points above 0 and below 100, found {points}"
        )));
    }
    for (change, what) in [(points, "reads"), (-points, "writes")] {
        phases.push(named(moved(run, change / 100.0), format!("{name}, {points} more {what}")));
    }
    Ok(phases)
}

/// Returns the shares of a phase with the share of reads moved by `change`, within 0 to 1.
fn moved(run: &Phase, change: f64) -> Vec<(OpKind, f64)> {
    let total: f64 = run.shares.iter().map(|(_, share)| share).sum();
    let reads: f64 = run.shares.iter().filter(|(kind, _)| !kind.writes()).map(|(_, s)| s).sum();
    let before = reads / total;
    let after = (before + change).clamp(0.0, 1.0);
    let times = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let scaled = run.shares.iter().map(|&(kind, share)| {
        let times = match kind.writes() {
            true => times(1.0 - after, 1.0 - before),
            false => times(after, before),
        };
        (kind, share / total * times)
    });
    let mut shares: Vec<(OpKind, f64)> = scaled.collect();
    // A mix without reads or without writes gets the plainest kind.
    let mut add = |kind: OpKind, share: f64| shares.push((kind, share));
    if before == 0.0 {
        add(OpKind::Read, after);
    } else if before == 1.0 {
        add(OpKind::Update, 1.0 - after);
    }
    shares.retain(|(_, share)| *share > 0.0);
    shares
}

/// Returns the mean share of writes over all measured phases and tasks.
pub fn write_share(workloads: &[Workload]) -> f64 {
    let mut shares = Vec::new();
    for workload in workloads {
        match workload {
            Workload::Mix { phases, .. } => {
                shares.extend(phases.iter().filter(|phase| !phase.hidden).map(|phase| {
                    let writes = phase.shares.iter().filter(|(kind, _)| kind.writes());
                    writes.map(|(kind, _)| phase.share(*kind)).sum::<f64>()
                }))
            }
            Workload::Tasks { list, .. } => {
                let tasks = parse_tasks(list).unwrap_or_default();
                shares.extend(tasks.iter().map(|task| f64::from(u8::from(task.writes()))));
            }
        }
    }
    shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

/// Returns the names of all measured phases and tasks, as they are in the measures.
pub fn names(workloads: &[Workload]) -> Vec<String> {
    let mut names = Vec::new();
    for workload in workloads {
        match workload {
            Workload::Mix { phases, .. } => {
                names.extend(phases.iter().filter(|p| !p.hidden).map(|p| p.name.clone()));
            }
            Workload::Tasks { list, .. } => {
                let tasks = parse_tasks(list).unwrap_or_default();
                let measured =
                    tasks.iter().filter(|t| t.kind != TaskKind::Stats && !t.is_without_engine());
                names.extend(measured.map(|task| task.name.to_string()));
            }
        }
    }
    labels(names.iter().map(String::as_str))
}

/// Measures sets with the lab's rounds in this process.
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
}

struct Silent;

impl Listener for Silent {
    fn sample(&mut self, _: &TaskSample) {}
    fn stats(&mut self, _: &str, _: &str) {}
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
        config.histogram = true;
        Ok(config)
    }

    fn measured(&self, setting: &Setting, share: f64, round: usize) -> Result<Vec<TaskSample>> {
        let config = self.config(setting)?;
        let engine_dir = EngineDir::prepare(self.base_dir, self.engine.name())?;
        let mut samples = Vec::new();
        for workload in self.workloads {
            engine_dir.empty()?;
            (self.settle_memory)();
            let own = match workload {
                Workload::Mix { .. } => self.mixed(workload, &config, &engine_dir, (share, round)),
                Workload::Tasks { list, csv, entries } => {
                    let mut config = config.clone();
                    config.csv.clone_from(csv);
                    config.num = Some(scaled(*entries, share));
                    self.tasks(list, config, &engine_dir, round)?
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
        let phases: Vec<Phase> = phases.iter().map(|phase| shortened(phase, share)).collect();
        let written = phases.iter().filter(|phase| phase.writes());
        let written: u64 = written.map(|phase| phase.operations.value(entries, entries)).sum();
        let mut store = config.store.clone();
        let bytes = written as f64 * space.pair_bytes_mean();
        store.data_bytes_expected = bytes as u64 + DATA_BYTES_SPARE;
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
            settle_memory: self.settle_memory,
            limit: None,
        };
        mixed::run(&mixed_round, &mut Silent).0
    }

    fn tasks(
        &self,
        list: &str,
        mut config: BenchConfig,
        engine_dir: &EngineDir,
        round: usize,
    ) -> Result<Vec<TaskSample>> {
        let (data, _) = config.dataset()?;
        config.store.data_bytes_expected = config.data_bytes_expected(data.raw_bytes());
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
        let (samples, _) = tasks::run(&tasks_round, &parse_tasks(list)?, &mut Silent);
        let is_measured = |sample: &TaskSample| {
            sample.task != "stats" && !crate::workload::tasks::is_without_engine(&sample.task)
        };
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

fn shortened(phase: &Phase, share: f64) -> Phase {
    let mut short = phase.clone();
    let operations = scaled(phase.operations.value(0, 0), share) as i64;
    if let Ok(amount) = Amount::parse(&Value::from(operations)) {
        short.operations = amount;
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Reference;
    use crate::tune::knob::KnobTable;

    fn sizes(robust_points: Option<f64>) -> Sizes {
        let properties = vec![("fieldcount".to_string(), "1".to_string())];
        Sizes { records: 500, operations: None, properties, robust_points }
    }

    fn parsed(texts: &[&str], robust: Option<f64>) -> Result<Vec<Workload>> {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        parse(&texts, &BenchConfig::default(), &sizes(robust), &["leveldb"])
    }

    #[test]
    fn core_workloads_share_a_store_and_others_have_their_own() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("mine.properties");
        std::fs::write(&file, "readproportion=1\nupdateproportion=0\n").expect("written");
        let file = file.display().to_string();
        let texts = ["load,a", "ycsb-d", &file, "bench:fillrandom,readrandom,readrandom"];
        let workloads = parsed(&texts, None).expect("right");
        assert_eq!(workloads.len(), 3);
        let wanted = ["load", "a", "d", "mine", "fillrandom", "readrandom", "readrandom#2"]
            .map(String::from);
        assert_eq!(names(&workloads), wanted);
        let share = write_share(&workloads);
        assert!((share - (1.0 + 0.5 + 0.05 + 0.0 + 1.0) / 7.0).abs() < 1e-9, "{share}");
    }

    #[test]
    fn wrong_workloads_are_refused_with_the_known_forms() {
        for (texts, words) in [
            (vec!["g"], "bench:TASKS"),
            (vec!["bench:fillfast"], "fillfast"),
            (vec!["csv:/nonexistent"], "nonexistent"),
            (vec![], "no workload"),
        ] {
            let error = parsed(&texts, None).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(parsed(&["bench:fillseq"], Some(25.0)).is_err());
        assert!(parsed(&["a"], Some(100.0)).is_err());
    }

    #[test]
    fn robust_mode_moves_the_share_of_reads_both_ways() {
        let workloads = parsed(&["a", "c"], Some(25.0)).expect("right");
        let Workload::Mix { phases, .. } = &workloads[0] else { panic!("a mix") };
        let reads: Vec<f64> = phases[1..].iter().map(|phase| phase.share(OpKind::Read)).collect();
        for (read, wanted) in reads.iter().zip([0.5, 0.75, 0.25, 1.0, 1.0, 0.75]) {
            assert!((read - wanted).abs() < 1e-9, "{reads:?}");
        }
    }

    #[test]
    fn run_measures_every_workload_in_order() {
        let workloads = parsed(&["load,a", "bench:fillseq,readrandom"], None).expect("right");
        let base = BenchConfig { key_size: 16, ..BenchConfig::default() };
        let dir = tempfile::tempdir().expect("a folder");
        let table = KnobTable::default();
        let mut runner = LabRunner {
            engine: &Reference,
            table: &table,
            base: &base,
            workloads: &workloads,
            base_dir: dir.path(),
            settle_memory: &|| {},
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
