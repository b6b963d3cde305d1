//! `esker tune`: finds the options of an engine that are fastest for workloads, and explains them.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use esker_lab::mix::ycsb::Properties;
use esker_lab::record::env::{file_time, unix_seconds};
use esker_lab::report::{tune_html, tune_text};
use esker_lab::run::config::bytes_of;
use esker_lab::tune::constraint::Constraint;
use esker_lab::tune::measures::Objective;
use esker_lab::tune::named::{Options, options_of};
use esker_lab::tune::outcome::Outcome as Tuned;
use esker_peers::bench::split_spec;
use esker_peers::tune::TuneRun;

use super::lab::RECORDS;
use super::{stdout, write_file, write_json};
use crate::args::{Global, SizeFlags};
use crate::failure::{Failure, Outcome, print_note};
use crate::interrupt;
use crate::store::split_all;

const AFTER_HELP: &str = "\
Workloads: load, a to f (YCSB's core workloads; consecutive ones share a store), a YCSB property \
file, bench:TASKS (db_bench's tasks), csv:FILE, trace:FILE, experiment:NAME or FILE.toml (the \
phases of an experiment of esker lab; with #SERIES those of one series). --set gives the default \
set options of its own: a knob's value is where the search starts and what a gain is measured \
against, any other option is given to every set.

The tuner tries sets in pairs of short runs, measures the best three against the default set in \
longer runs, and puts back each knob of the best set alone. It recommends a set only if its gain \
is shown and no workload is below 0.97 of the default set. docs/tuning.md describes the method.

  esker tune --workload load,a,b,d --budget 10m --html page.html --out tuned.toml
  esker tune --engine leveldb --workload a --constraint 'p99<1ms' --memory 64MiB
  esker tune --workload trace:program.trace --objective p99
  esker tune --workload 'experiment:states#reads while writing'
  esker tune --workload bench:fillrandom,readrandom --knobs block_size_bytes,compression
  esker tune --workload a --trials 0 --beside mine=mine.toml --beside theirs=theirs.toml
  esker tune --workload a --sweep 100 --budget 1h";

/// Arguments of `tune`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct TuneArgs {
    /// Engine: esker, leveldb, rocksdb, fjall, or NAME:PATH of a library with LevelDB's C interface
    #[arg(long, default_value = "esker")]
    engine: String,
    /// Workload; repeatable, and core workloads also as a list with commas
    #[arg(long = "workload", value_name = "WORKLOAD", required = true)]
    workloads: Vec<String>,
    /// Measure to improve: throughput, p99, write-amp, space or memory
    #[arg(long, default_value = "throughput")]
    objective: String,
    /// Limit that every workload keeps, such as 'p99<1ms' or 'space<2GiB'; repeatable
    #[arg(long = "constraint", value_name = "LIMIT")]
    constraints: Vec<String>,
    /// Maximum time of all runs together: 90s, 10m, 2h
    #[arg(long, default_value = "10m", value_parser = seconds)]
    budget: f64,
    /// Maximum number of sets that the search tries; 0 measures only the sets of --beside
    #[arg(long, default_value = "15", value_parser = clap::value_parser!(u32).range(0..=1000))]
    trials: u32,
    /// Instead of a search, try this many sets that cover all knobs evenly (a Latin hypercube)
    #[arg(long, value_name = "SETS", conflicts_with = "trials",
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    sweep: Option<u32>,
    /// Measure this set in the same rounds as the finalists: a TOML file of --out, or lines
    /// knob=value; repeatable
    #[arg(long, value_name = "NAME=FILE")]
    beside: Vec<String>,
    /// Let the share of reads move by this many points, and improve the worst case
    #[arg(long, value_name = "POINTS")]
    robust: Option<f64>,
    /// Only these knobs, comma-separated [default: all of the engine]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    knobs: Vec<String>,
    /// Limit of memtables and cache together [default: 128MiB, or what the default set has]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    #[command(flatten)]
    size: SizeFlags,
    /// Seed of the search and of the operations
    #[arg(long, default_value = "301")]
    seed: u64,
    /// File of all runs, one JSON object per line [default: bench/record/tune-ENGINE-TIME.jsonl]
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    trail: Option<PathBuf>,
    /// Continue the tuning of this file; the other arguments must be the same
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Directory for the stores instead of a temporary one
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Write an HTML page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the recommended options to this TOML file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let times = match text[end..].trim() {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => 0.0,
    };
    let seconds = text[..end].parse::<f64>().ok().map(|number| number * times);
    seconds.filter(|seconds| (1.0..=1e7).contains(seconds)).ok_or_else(|| {
        format!("expected a time of 1 s or more, such as 90s or 10m, found {text:?}")
    })
}

fn bytes(text: &str) -> Result<u64, String> {
    let found = bytes_of(text).filter(|&bytes| bytes >= 1 << 20);
    found.ok_or_else(|| format!("expected 1MiB or more, such as 64MiB, found {text:?}"))
}

/// Runs the tuning: the result to stdout, messages to stderr.
pub fn run(args: &TuneArgs, global: &Global) -> Outcome {
    let run = tuning(args, global)?;
    interrupt::watch_or_exit(super::bench::remove_temporary_stores);
    let outcome = esker_peers::tune::run(&run, &interrupt::asked, &mut std::io::stderr())?;
    let mut out = stdout();
    if global.json {
        write_json(&outcome, &mut out)?;
    } else {
        tune_text::write(&outcome, &mut out)?;
    }
    out.flush()?;
    let note = |line: String| print_note(global.json, &line);
    if let Some(path) = &args.html {
        write_file(path, "write the page", &tune_html::page(&outcome))?;
        note(format!("page: {}", path.display()));
    }
    if let Some(path) = &args.out {
        write_file(path, "write the options", &tune_text::toml_text(&outcome))?;
        note(format!("options: {}", path.display()));
    }
    if let Some(line) = command(args, &outcome) {
        note(line);
    }
    let trail = run.trail.as_deref().map(Path::display);
    let trail = trail.map(|path| path.to_string()).unwrap_or_default();
    if outcome.interrupted {
        return Err(Failure::interrupted(format!(
            "the tuning was interrupted; continue it with --resume {trail}"
        )));
    }
    note(format!("trail: {trail}"));
    Ok(0)
}

/// Returns the command that measures the recommended set on a single core workload.
fn command(args: &TuneArgs, outcome: &Tuned) -> Option<String> {
    outcome.recommended.as_ref()?;
    let name = outcome.workloads.iter().find(|name| Properties::core(name).is_some())?;
    let given = |flag: &str, pairs: &[(String, String)]| -> Vec<String> {
        pairs.iter().map(|(name, value)| format!("{flag} {name}={value}")).collect()
    };
    let mut options = given("--set", &outcome.fixed);
    options.extend(given("-p", &outcome.properties));
    Some(format!(
        "measure it with: esker lab ycsb --db {} -P workload{name} -p recordcount={} \
         -p operationcount={} {}",
        args.engine,
        args.size.records,
        args.size.operations(),
        options.join(" ")
    ))
}

fn tuning(args: &TuneArgs, global: &Global) -> Result<TuneRun, Failure> {
    let mut base = esker_peers::bench::config();
    base.seed = args.seed;
    base.db.clone_from(&args.db);
    base.built_from = super::bench::built_from();
    base.child = std::env::current_exe().ok();
    let constraints: Result<Vec<Constraint>, _> =
        args.constraints.iter().map(|text| Constraint::parse(text)).collect();
    let new_trail = || {
        let (name, time) = (split_spec(&args.engine).0, file_time(unix_seconds()));
        Path::new(RECORDS).join(format!("tune-{name}-{time}.jsonl"))
    };
    let trail = args.resume.clone().or(args.trail.clone()).unwrap_or_else(new_trail);
    Ok(TuneRun {
        engine: args.engine.clone(),
        workloads: args.workloads.clone(),
        sizes: args.size.sizes(args.robust)?,
        objective: Objective::parse(&args.objective)?,
        constraints: constraints?,
        knobs: args.knobs.clone(),
        defaults: split_all("--set", &global.set)?,
        memory_bytes: args.memory,
        trials: args.sweep.unwrap_or(args.trials) as usize,
        sweep: args.sweep.is_some(),
        beside: beside(args)?,
        budget_seconds: args.budget,
        trail: Some(trail),
        resume: args.resume.is_some(),
        base,
    })
}

/// Returns the named sets of the files of `--beside`.
fn beside(args: &TuneArgs) -> Result<Vec<(String, Options)>, Failure> {
    if args.trials == 0 && args.sweep.is_none() && args.beside.is_empty() {
        return Err(Failure::usage("--trials 0 measures only named sets: add --beside NAME=FILE"));
    }
    let engine = split_spec(&args.engine).0;
    let of = |given: &String| {
        let Some((name, path)) = given.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            let why = format!("--beside: expected NAME=FILE, found {given:?}");
            return Err(Failure::usage(why));
        };
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::file("read the set", Path::new(path), &e))?;
        let options = options_of(&text, engine)
            .map_err(|why| Failure::usage(format!("--beside {name}: {path}: {why}")))?;
        Ok((name.to_string(), options))
    };
    args.beside.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_parsed() {
        for (text, wanted) in [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("7", 7.0)] {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for bad in ["", "0", "10 parsecs", "-5m", "inf", "99999999h"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        assert!(bytes("10").is_err() && bytes("much").is_err());
    }
}
