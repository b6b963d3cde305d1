//! The experiments' entry: names become engines, and the lab runs them.

use std::io::Write;

use esker_lab::error::{LabErrorKind, Result};
use esker_lab::experiment::check::{Experiment, Known};
use esker_lab::experiment::plan::points;
use esker_lab::lab::{self, LabOptions, LabOutcome};
use esker_lab::run::interleave::Candidate;

use crate::bench::{ENGINES, config, engine_named};
use crate::library::trim_memory;

/// What names mean something in an experiment.
pub fn known() -> Known<'static> {
    Known { engines: ENGINES, config: config() }
}

/// Runs `experiment` over the engines it names, or those of them that `options` names.
pub fn run(
    experiment: &Experiment,
    options: &LabOptions,
    talk: &mut dyn Write,
) -> Result<LabOutcome> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let wanted = |name: &String| options.engines.as_ref().is_none_or(|only| only.contains(name));
    for name in points(experiment, options.scale).iter().flat_map(|point| &point.engines) {
        if candidates.iter().any(|other| other.name == *name) || !wanted(name) {
            continue;
        }
        let engine = match engine_named(name, None) {
            Err(error) if error.kind() == LabErrorKind::Usage => return Err(error),
            engine => engine,
        };
        candidates.push(Candidate { name: name.clone(), engine });
    }
    lab::run(experiment, options, &candidates, &trim_memory, talk)
}
