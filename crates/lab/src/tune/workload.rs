//! The workloads of a tuning: their forms as text, their phases, their names.
//!
//! `load` and `a` to `f` are YCSB's core workloads. Consecutive ones share a store, which is loaded
//! once and keeps its content from phase to phase. A property file is a load and a run in a store
//! of its own. `bench:LIST` is a list of db_bench's tasks, `csv:FILE` writes and reads the rows of a
//! file, and `trace:FILE` replays a trace. `experiment:NAME#SERIES` has the phases of an experiment.

use std::path::{Path, PathBuf};

use super::experiment::{self, Named};
use crate::BenchConfig;
use crate::error::{LabError, Result};
use crate::mix::phase::{OpKind, Phase};
use crate::mix::space::Space;
use crate::mix::ycsb::{Properties, Workload as Core};
use crate::trace::format::{Trace, read as read_trace};
use crate::trace::replay::{TASK, TraceSummary};
use crate::workload::tasks::{TaskSpec, labels, parse_tasks};

/// Tasks of a CSV file: its rows written in their order, then read at random.
const CSV_TASKS: &str = "fillseq,readrandom";

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
        /// The tasks.
        tasks: Vec<TaskSpec>,
        /// File of the pairs; `None` generates them.
        csv: Option<PathBuf>,
        /// Number of entries.
        entries: u64,
        /// Flags of the data and of the operations: name and value.
        flags: Vec<(String, String)>,
    },
    /// A trace of a program's operations.
    Trace {
        /// The operations.
        trace: Trace,
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
        match (core, Named::of(&text)) {
            (Some(name), _) => group.push(name),
            (None, Some(named)) => {
                workloads.extend(experiment::workloads(named, base, sizes, engines)?);
            }
            (None, None) => workloads.push(one(&text, base, sizes, engines)?),
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
    phases.insert(0, core.load_phase(names.iter().any(|name| name == "load")));
    Ok(mix(core, phases, base))
}

fn mix(core: Core, phases: Vec<Phase>, base: &BenchConfig) -> Workload {
    let space = Box::new(core.space(base.compression_ratio, base.seed));
    Workload::Mix { space, records: core.records, threads: core.threads, phases }
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
    let tasks = |list: &str, csv: Option<PathBuf>, entries: u64| {
        let tasks = parse_tasks(list)?;
        if sizes.robust_points.is_some() {
            return Err(LabError::usage(format!(
                "the robust mode moves the share of reads, and {text} has no such share"
            )));
        }
        Ok(Workload::Tasks { tasks, csv, entries, flags: Vec::new() })
    };
    if let Some(list) = text.strip_prefix("bench:") {
        return tasks(list, None, sizes.records);
    }
    if let Some(path) = text.strip_prefix("csv:") {
        let mut config = base.clone();
        config.csv = Some(path.into());
        // The file is read once here, so that a missing column is an error before the first run.
        let rows = config.dataset()?.0.rows();
        return tasks(CSV_TASKS, Some(path.into()), rows);
    }
    if let Some(path) = text.strip_prefix("trace:") {
        return trace_of(Path::new(path), sizes);
    }
    let path = Path::new(text);
    let read = std::fs::read_to_string(path).map_err(|e| {
        LabError::usage(format!(
            "expected a workload: load, a to f, bench:TASKS, csv:FILE, trace:FILE, \
             experiment:NAME or a property file; {text}: {e}"
        ))
    })?;
    let mut properties = Properties::default();
    properties.read(&read).map_err(|why| LabError::usage(format!("{text}: {why}")))?;
    let name = path.file_stem().map_or(text.into(), |stem| stem.to_string_lossy().into_owned());
    let core = core(properties, sizes, engines)?;
    let mut phases = vec![core.load_phase(false)];
    phases.extend(varied(&core.run, &name, sizes)?);
    Ok(mix(core, phases, base))
}

fn trace_of(path: &Path, sizes: &Sizes) -> Result<Workload> {
    if sizes.robust_points.is_some() {
        return Err(LabError::usage(
            "the robust mode moves the share of reads, and a trace is fixed",
        ));
    }
    let trace = read_trace(path)?;
    if trace.lines.is_empty() {
        return Err(LabError::usage(format!("{} has no operations", path.display())));
    }
    Ok(Workload::Trace { trace })
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
            Workload::Tasks { tasks, .. } => {
                shares.extend(tasks.iter().map(TaskSpec::write_share));
            }
            Workload::Trace { trace } => shares.push(TraceSummary::of(trace).write_share()),
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
            Workload::Tasks { tasks, .. } => {
                let measured = tasks.iter().filter(|task| !task.is_without_engine());
                names.extend(measured.map(|task| task.name.to_string()));
            }
            Workload::Trace { .. } => names.push(TASK.into()),
        }
    }
    labels(names.iter().map(String::as_str))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sizes(robust_points: Option<f64>) -> Sizes {
        let properties = vec![("fieldcount".to_string(), "1".to_string())];
        Sizes { records: 500, operations: None, properties, robust_points }
    }

    pub(crate) fn parsed(texts: &[&str], robust: Option<f64>) -> Result<Vec<Workload>> {
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
}
