//! Entry of the tuner: finds the engine, its knobs and the workloads by name, runs the tuner, and
//! adds machine, commit and settings to the outcome.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use esker_lab::BenchConfig;
use esker_lab::bench::Base;
use esker_lab::error::{LabError, Result};
use esker_lab::record::env;
use esker_lab::tune::constraint::Constraint;
use esker_lab::tune::decide::Terms;
use esker_lab::tune::knob::{KnobTable, Setting};
use esker_lab::tune::measures::{Combine, Objective};
use esker_lab::tune::outcome::Outcome;
use esker_lab::tune::runner::{LabRunner, Remote};
use esker_lab::tune::trail::Trail;
use esker_lab::tune::tuner::{Plan, Tuner};
use esker_lab::tune::workload::{Sizes, Workload, names, parse, write_share};

use crate::bench::{engine_named, engines_and, split_spec};
use crate::knobs::{knobs, set_budget};
use crate::library::trim_memory;
use crate::rocksdb_options;

/// Input of a tuning.
#[derive(Clone, Debug)]
pub struct TuneRun {
    /// Engine, or `name=path` of a library.
    pub engine: String,
    /// Workloads, as described in [`esker_lab::tune::workload`].
    pub workloads: Vec<String>,
    /// Sizes of the workloads.
    pub sizes: Sizes,
    /// The measure to improve.
    pub objective: Objective,
    /// Limits that every workload keeps.
    pub constraints: Vec<Constraint>,
    /// Only these knobs; empty: all of the engine.
    pub knobs: Vec<String>,
    /// Options of the default set: name and value. A knob keeps its name; any other option is given
    /// to every set.
    pub defaults: Vec<(String, String)>,
    /// Limit of memtables and cache together, in bytes.
    pub memory_bytes: Option<u64>,
    /// Largest number of sets that the search tries.
    pub trials: usize,
    /// Whether the sets are a Latin hypercube instead of a search's.
    pub sweep: bool,
    /// Named sets to measure in the same rounds: name, and options under the names of knobs.
    pub beside: Vec<(String, Vec<(String, String)>)>,
    /// Largest sum of the runs' times, in seconds.
    pub budget_seconds: f64,
    /// File of the trail; `None` keeps none.
    pub trail: Option<PathBuf>,
    /// Whether the trail exists and is continued.
    pub resume: bool,
    /// Base settings: directory, seed, progress.
    pub base: BenchConfig,
}

/// Runs the tuning. `stop` ends it after the current run.
///
/// # Errors
/// The engine, a knob or a workload is unknown or cannot be used, the default set fails, or the
/// trail belongs to another tuning.
pub fn run(run: &TuneRun, stop: &dyn Fn() -> bool, messages: &mut dyn Write) -> Result<Outcome> {
    let (name, path) = split_spec(&run.engine);
    let (mut base, table) = settings(run, name, path.is_some())?;
    let engine = engine_named(name, path)?;
    let workloads = parse(&run.workloads, &base, &run.sizes, &engines_and(name))?;
    let names = names(&workloads);
    base.progress = false;
    let stores = Base::make(&base)?;
    let machine = env::machine(&stores.dir);
    let plan = plan(run, &workloads, beside(run, &base, &table)?);
    let tuning = tuning(run, &table, &names);
    let mut trail = match (&run.trail, run.resume) {
        (None, _) => Trail::unkept(),
        (Some(path), true) => Trail::resume(path, &tuning)?,
        (Some(path), false) => Trail::create(path, &tuning)?,
    };
    let mut runner = LabRunner {
        engine: engine.as_ref(),
        table: &table,
        base: &base,
        workloads: &workloads,
        base_dir: &stores.dir,
        settle_memory: &trim_memory,
        remote: engine.subprocess_spec().map(|engine| Remote {
            engine,
            workloads: &run.workloads,
            sizes: &run.sizes,
        }),
    };
    let mut tuner = Tuner {
        table: &table,
        plan: &plan,
        runner: &mut runner,
        trail: &mut trail,
        stop,
        messages,
        seconds: 0.0,
        runs: 0,
        interrupted: false,
    };
    let mut outcome = tuner.run()?;
    outcome.description = engine.description();
    outcome.warnings.extend(env::warnings(&machine));
    outcome.machine = machine;
    outcome.workloads = names;
    Ok(outcome)
}

/// Returns the base settings and the knobs, with the options of the default set.
fn settings(run: &TuneRun, name: &str, has_path: bool) -> Result<(BenchConfig, KnobTable)> {
    let mut base = run.base.clone();
    let mut table = knobs(name, has_path, run.memory_bytes)?;
    for (option, value) in &run.defaults {
        let own = option.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        match table.find_mut(own.unwrap_or(option)) {
            Some(knob) => {
                // A wrong value is an error before the first run.
                base.clone().set(&knob.flag, value).map_err(LabError::usage)?;
                rocksdb_options::check(&knob.flag, value)?;
                knob.set_default(value);
            }
            None => {
                base.set(option, value).map_err(LabError::usage)?;
                rocksdb_options::check(option, value)?;
            }
        }
    }
    set_budget(&mut table, run.memory_bytes);
    if !run.knobs.is_empty() {
        table.only(&run.knobs)?;
    }
    Ok((base, table))
}

/// Returns the named sets. A wrong name or value is an error before the first run.
fn beside(run: &TuneRun, base: &BenchConfig, table: &KnobTable) -> Result<Vec<(String, Setting)>> {
    let of = |(name, options): &(String, Vec<(String, String)>)| {
        let wrong = |e: &dyn std::fmt::Display| LabError::usage(format!("--beside {name}: {e}"));
        let setting = table.named(options).map_err(|e| wrong(&e))?;
        for (knob, value) in &setting.0 {
            let flag = table.find(knob).map_or(knob, |knob| &knob.flag);
            base.clone().set(flag, value).map_err(|e| wrong(&e))?;
            rocksdb_options::check(flag, value).map_err(|e| wrong(&e))?;
        }
        Ok((name.clone(), setting))
    };
    run.beside.iter().map(of).collect()
}

fn plan(run: &TuneRun, workloads: &[Workload], beside: Vec<(String, Setting)>) -> Plan {
    let combine = match run.sizes.robust_points {
        Some(_) => Combine::Worst,
        None => Combine::Mean,
    };
    let constraints = run.constraints.clone();
    Plan {
        terms: Terms { objective: run.objective, combine, constraints },
        trials: run.trials,
        budget_seconds: run.budget_seconds,
        seed: run.base.seed,
        write_share: write_share(workloads),
        beside,
        sweep: run.sweep,
    }
}

/// Returns the description that a resumed tuning must share.
fn tuning(run: &TuneRun, table: &KnobTable, workloads: &[String]) -> BTreeMap<String, String> {
    let knobs = table.knobs.iter().map(|knob| format!("{}={}", knob.name, knob.default));
    let constraints = run.constraints.iter().map(ToString::to_string);
    let pair = |(name, value): &(String, String)| format!("{name}={value}");
    let properties = run.sizes.properties.iter().map(pair);
    let named = |(name, options): &(String, Vec<(String, String)>)| {
        format!("{name}: {}", options.iter().map(pair).collect::<Vec<_>>().join(" "))
    };
    let operations = run.sizes.operations.unwrap_or(run.sizes.records);
    let list = |items: Vec<String>| if items.is_empty() { "none".into() } else { items.join(" ") };
    let mut shared = vec![
        ("engine", run.engine.clone()),
        ("workloads", workloads.join(", ")),
        ("records", run.sizes.records.to_string()),
        ("operations", operations.to_string()),
        ("properties", list(properties.collect())),
        ("objective", run.objective.name().into()),
        ("constraints", list(constraints.collect())),
        ("robust points", run.sizes.robust_points.map_or("none".into(), |p| p.to_string())),
        ("knobs", list(knobs.collect())),
        ("memory budget", format!("{:?}", table.memory_budget_bytes)),
        ("trials", run.trials.to_string()),
        ("budget seconds", run.budget_seconds.to_string()),
        ("seed", run.base.seed.to_string()),
    ];
    // Trails of builds without these have no such lines, and stay resumable.
    if run.sweep {
        shared.push(("sweep", run.sweep.to_string()));
    }
    if !run.beside.is_empty() {
        shared.push(("beside", list(run.beside.iter().map(named).collect())));
    }
    shared.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
