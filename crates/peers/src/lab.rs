//! Entry of the experiments: resolves names to engines, which the lab runs.

use std::io::Write;

use esker_lab::error::Result;
use esker_lab::experiment::check::{Experiment, Known};
use esker_lab::experiment::plan::points;
use esker_lab::experiment::program::program_of;
use esker_lab::lab::{self, LabOptions, LabOutcome};
use esker_lab::run::interleave::Candidate;
use esker_lab::run::program::Program;
use esker_lab::target::Engine;

use crate::bench::{ENGINES, asked_for, config, split_spec};
use crate::library::trim_memory;

/// Returns the names known in an experiment.
pub fn known() -> Known<'static> {
    Known { engines: ENGINES, config: config() }
}

/// Runs `experiment` over its engines, or over the engines in `options`.
pub fn run(
    experiment: &Experiment,
    options: &LabOptions,
    messages: &mut dyn Write,
) -> Result<LabOutcome> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut options = options.clone();
    let named = points(experiment, options.scale);
    let named: Vec<&str> =
        named.iter().flat_map(|point| &point.engines).map(String::as_str).collect();
    // Requested engines take part even if the experiment does not name them.
    let asked: Vec<String> = match &options.engines {
        Some(asked) => asked.clone(),
        None => named.into_iter().map(String::from).collect(),
    };
    for spec in &asked {
        let (name, path) = split_spec(spec);
        if candidates.iter().any(|other| other.name == name) {
            continue;
        }
        let program = program_of(&experiment.file, name);
        let engine = match program.filter(|_| path.is_none()) {
            Some(file) => Ok(Box::new(Program::new(name, file)) as Box<dyn Engine>),
            None => asked_for(name, path)?,
        };
        options.base.engine_specs.insert(name.into(), spec.clone());
        candidates.push(Candidate { name: name.into(), engine });
    }
    if options.engines.is_some() {
        let names = candidates.iter().map(|candidate| candidate.name.clone());
        options.engines = Some(names.collect());
    }
    lab::run(experiment, &options, &candidates, &trim_memory, messages)
}
