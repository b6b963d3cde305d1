//! Programs of an experiment: engines whose rounds a program runs instead of the lab.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::file::{ExperimentFile, SeriesFile};

/// Longest time of a round in seconds: its default, and its maximum.
const TIMEOUT_S_DEFAULT: u64 = 7200;
const TIMEOUT_S_MAX: u64 = 7 * 86_400;

/// A program that runs the rounds of one engine, and reports each phase as a line of JSON.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramFile {
    /// The program and its arguments; a relative path is from the current directory.
    pub command: Spanned<Vec<String>>,
    /// Longest time of a round in seconds, after which the program is ended. Default 7200.
    #[serde(default = "timeout_default")]
    pub timeout_s: Spanned<u64>,
}

fn timeout_default() -> Spanned<u64> {
    Spanned::new(0..0, TIMEOUT_S_DEFAULT)
}

/// Returns the program of an engine; `None` for an engine of the lab.
pub fn program_of<'a>(file: &'a ExperimentFile, engine: &str) -> Option<&'a ProgramFile> {
    let named = file.programs.iter().find(|(name, _)| name.get_ref() == engine);
    named.map(|(_, program)| program)
}

/// Returns whether programs run all rounds of a series.
pub fn run_all(file: &ExperimentFile, series: &SeriesFile) -> bool {
    let engines = series.engines.as_ref().unwrap_or(&file.engines).get_ref();
    engines.iter().all(|engine| program_of(file, engine.get_ref()).is_some())
}

/// Returns the mistakes in the table of programs: their places, and sentences about them.
pub fn mistakes(file: &ExperimentFile, known: &[&str]) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    for (name, program) in &file.programs {
        let engine = name.get_ref();
        if known.contains(&engine.as_str()) {
            let why = format!("{engine:?} is an engine of the lab; give the program another name");
            found.push((name.span(), why));
        }
        if engine.is_empty() || engine.contains([':', '=', ',', '.', ' ']) {
            let why = format!("the name {engine:?} has a character that names of engines lack");
            found.push((name.span(), why));
        }
        if program.command.get_ref().first().is_none_or(String::is_empty) {
            found.push((program.command.span(), format!("the command of {engine:?} is empty")));
        }
        if !(1..=TIMEOUT_S_MAX).contains(program.timeout_s.get_ref()) {
            let why = format!("timeout_s must be 1 to {TIMEOUT_S_MAX}");
            found.push((program.timeout_s.span(), why));
        }
    }
    for series in &file.series {
        found.extend(mistake_of_series(file, series.get_ref()).map(|why| (series.span(), why)));
    }
    found
}

/// Returns why a series cannot be run by its programs.
fn mistake_of_series(file: &ExperimentFile, series: &SeriesFile) -> Option<String> {
    let engines = series.engines.as_ref().unwrap_or(&file.engines).get_ref();
    let name = engines.iter().find(|name| program_of(file, name.get_ref()).is_some())?.get_ref();
    not_for_program(file, series, name)
}

/// Returns why the program `name` cannot run a series: what the series asks for never reaches it.
pub fn not_for_program(file: &ExperimentFile, series: &SeriesFile, name: &str) -> Option<String> {
    let phases = series.phases.as_ref().map(|names| names.get_ref().as_slice()).unwrap_or_default();
    let own =
        |name: &&Spanned<String>| file.phases.keys().any(|known| known.get_ref() == name.get_ref());
    let not_for_programs = [
        ("tasks", series.tasks.is_some()),
        ("steps", series.steps.is_some()),
        ("csv", series.csv.is_some()),
        ("vary", !series.vary.is_empty()),
        ("memory_limit", series.memory_limit.is_some()),
        ("keys", series.keys.is_some()),
        ("options", !series.options.is_empty() || !file.options.is_empty()),
        ("a table of a phase", phases.iter().any(|name| own(&name))),
    ];
    let (what, _) = not_for_programs.iter().find(|(_, given)| *given)?;
    Some(format!(
        "{what} is not for {name:?}, whose rounds a program runs; it gets names of phases only"
    ))
}
