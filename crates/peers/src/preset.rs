//! Entry of `esker bench --preset`: runs the engines and writes the table of the preset.
//!
//! Invariants:
//! 1. `out` receives the table or JSON lines alone; everything else goes to `messages`.
//! 2. An engine that is not installed is named and left out; the others run.

use std::io::Write;
use std::path::Path;

use esker_lab::BenchConfig;
use esker_lab::bench::{Base, print_message};
use esker_lab::error::{LabError, LabErrorKind, Result};
use esker_lab::preset::redb::{self, Amounts, Pairs, RedbRound};
use esker_lab::preset::{Preset, redb_table, rocksdb, ycsb};
use esker_lab::record::env;
use esker_lab::record::schema::TaskSample;
use esker_lab::run::interleave::{Candidate, order};
use esker_lab::run::session::Listener;
use esker_lab::run::subprocess::{self, Request, Work};
use esker_lab::target::Engine;

use crate::bench::{candidates, split_spec};
use crate::library::trim_memory;
use crate::ycsb::YcsbRun;

/// Runs a preset. Returns 0; or 1 if an engine failed, returned wrong data, or no engine could run.
///
/// # Errors
/// A flag contradicts the preset, or nothing can run. Nothing was run then.
pub fn run(
    preset: Preset,
    config: &BenchConfig,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<i32> {
    let mut config = config.clone();
    preset.prepare(&mut config)?;
    config.validate()?;
    match preset {
        Preset::Redb => run_redb(&config, out, messages),
        Preset::RocksDb => run_rocksdb(&config, out, messages),
        Preset::Ycsb => run_ycsb(&config, out, messages),
    }
}

fn unwritten(error: std::io::Error) -> LabError {
    LabError::new(LabErrorKind::Io, format!("cannot write the results: {error}"))
}

fn run_rocksdb(config: &BenchConfig, out: &mut dyn Write, messages: &mut dyn Write) -> Result<i32> {
    let mut measured = config.clone();
    measured.json = false;
    let outcome = crate::bench::run(&measured, &mut std::io::sink(), messages)?;
    rocksdb::write(&outcome.record, config, out).map_err(unwritten)?;
    Ok(outcome.exit_code)
}

struct Rows<'a>(&'a mut dyn Write);

impl Listener for Rows<'_> {
    fn sample(&mut self, sample: &TaskSample) {
        let text = redb_table::sample_text(sample);
        let (run, engine, row) = (sample.repetition + 1, &sample.engine, &sample.task);
        print_message(self.0, &format!("[{run}] {engine:<10} {row:<26}: {text}"));
    }

    fn stats(&mut self, _: &str, _: &str) {}
}

/// Returns the indices of the engines that can run, after naming the others.
fn runnable(candidates: &[Candidate], messages: &mut dyn Write) -> Vec<usize> {
    let mut indices = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        match &candidate.engine {
            Ok(_) => indices.push(index),
            Err(error) => print_message(messages, &format!("{}: {error}", candidate.name)),
        }
    }
    indices
}

fn run_redb(config: &BenchConfig, out: &mut dyn Write, messages: &mut dyn Write) -> Result<i32> {
    let candidates = candidates(&config.engines)?;
    let pairs = Pairs::make(config)?;
    let base = Base::make(config)?;
    for warning in env::warnings(&env::machine(&base.dir)) {
        print_message(messages, &format!("warning: {warning}"));
    }
    let mut running = runnable(&candidates, messages);
    let mut samples: Vec<TaskSample> = Vec::new();
    let mut stopped = running.is_empty();
    for repetition in 0..config.repetitions {
        for place in order(candidates.len(), repetition) {
            let (true, Ok(engine)) = (running.contains(&place), &candidates[place].engine) else {
                continue;
            };
            let round = RedbRound {
                engine: engine.as_ref(),
                config,
                pairs: &pairs,
                base_dir: &base.dir,
                repetition,
                settle_memory: &trim_memory,
            };
            let done = one_redb_round(&round, messages);
            let failed = match &done {
                Ok(own) => own.last().is_none_or(|last| last.failed() && last.wrong == 0),
                Err(error) => {
                    print_message(messages, &format!("{}: {error}", candidates[place].name));
                    true
                }
            };
            if failed {
                running.retain(|&other| other != place);
                stopped = true;
            }
            samples.extend(done.unwrap_or_default());
        }
    }
    let engines: Vec<String> = candidates.iter().map(|candidate| candidate.name.clone()).collect();
    write_redb(config, (&samples, &engines), out).map_err(unwritten)?;
    Ok(i32::from(stopped || samples.iter().any(TaskSample::failed)))
}

fn write_redb(
    config: &BenchConfig,
    (samples, engines): (&[TaskSample], &[String]),
    out: &mut dyn Write,
) -> std::io::Result<()> {
    if config.json {
        for line in redb_table::json_lines(samples, engines) {
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    writeln!(out, "{}\n", Amounts::of(config).text(config))?;
    write!(out, "{}", redb_table::markdown(samples, engines))
}

fn one_redb_round(round: &RedbRound<'_>, messages: &mut dyn Write) -> Result<Vec<TaskSample>> {
    let config = round.config;
    let Some(engine) = round.engine.subprocess_spec().filter(|_| config.child.is_some()) else {
        return redb::run(round, &mut Rows(messages));
    };
    let work = Work::Redb { base_dir: round.base_dir.to_path_buf(), repetition: round.repetition };
    let request = Request { engine, flags: config.flags_given(), work };
    let reply = subprocess::run(config.child.as_deref(), &request, messages)?;
    let samples: Vec<TaskSample> = reply.samples.into_iter().map(|(_, _, sample)| sample).collect();
    samples.iter().for_each(|sample| Rows(&mut *messages).sample(sample));
    Ok(samples)
}

struct Silent;

impl Listener for Silent {
    fn sample(&mut self, _: &TaskSample) {}
    fn stats(&mut self, _: &str, _: &str) {}
}

/// Does the rows of the preset `redb` in a subprocess, which makes the pairs again.
pub(crate) fn redb_round(
    engine: &dyn Engine,
    config: &BenchConfig,
    base_dir: &Path,
    repetition: usize,
) -> Result<Vec<TaskSample>> {
    let pairs = Pairs::make(config)?;
    let settle_memory = &trim_memory;
    let round = RedbRound { engine, config, pairs: &pairs, base_dir, repetition, settle_memory };
    redb::run(&round, &mut Silent)
}

fn run_ycsb(config: &BenchConfig, out: &mut dyn Write, messages: &mut dyn Write) -> Result<i32> {
    let candidates = candidates(&config.engines)?;
    let specs: Vec<&str> =
        config.engines.split(',').map(str::trim).filter(|spec| !spec.is_empty()).collect();
    let properties = ycsb::WORKLOADS
        .iter()
        .map(|letter| Ok((*letter, ycsb::properties(letter, config)?)))
        .collect::<Result<Vec<_>>>()?;
    let running = runnable(&candidates, messages);
    let mut failed = running.is_empty();
    for repetition in 0..config.repetitions {
        for place in order(specs.len(), repetition) {
            if !running.contains(&place) {
                continue;
            }
            for (letter, properties) in &properties {
                let engine = specs[place];
                let run = YcsbRun {
                    engine: engine.into(),
                    properties: properties.clone(),
                    load: ycsb::reports_load(letter),
                    run: true,
                    base: config.clone(),
                };
                let name = split_spec(engine).0;
                print_message(messages, &format!("{name}, workload {}", letter.to_uppercase()));
                let samples = crate::ycsb::run(&run, messages).unwrap_or_else(|error| {
                    print_message(messages, &format!("{name}: {error}"));
                    failed = true;
                    Vec::new()
                });
                for mut sample in samples {
                    sample.repetition = repetition;
                    failed |= sample.failed();
                    write_ycsb(config, (name, letter), &sample, out).map_err(unwritten)?;
                    if let Some(error) = &sample.error {
                        print_message(messages, &format!("{name}, {}: {error}", sample.task));
                    }
                }
            }
        }
    }
    Ok(i32::from(failed))
}

fn write_ycsb(
    config: &BenchConfig,
    (engine, letter): (&str, &str),
    sample: &TaskSample,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    match config.json {
        true => writeln!(out, "{}", ycsb::object(engine, letter, sample))?,
        false => write!(out, "{}", ycsb::text(engine, letter, sample))?,
    }
    out.flush()
}
