//! The mixed workload of a series: its phases in order, step by step, and its records.

use toml::Value;

use super::check::Experiment;
use super::expect::Amount;
use super::file::{ExperimentFile, SeriesFile};
use super::plan::text_of;
use crate::error::{LabError, LabErrorKind, Result};
use crate::mix::phase::{Phase, Start};
use crate::mix::space::{FieldLength, KeyForm, Space};
use crate::mix::ycsb::{Properties, Workload};
use crate::run::config::BenchConfig;
use crate::workload::csv::read_pairs;
use crate::workload::tasks::labels;

/// A phase and its position in tables.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Settings of the phase.
    pub phase: Phase,
    /// Its name, numbered if repeated within a step.
    pub label: String,
    /// Its step, in the document's counting.
    pub step: Option<String>,
}

/// Returns whether the series runs phases instead of tasks.
pub fn is_mixed(series: &SeriesFile) -> bool {
    series.phases.is_some()
}

/// Returns the phases of a series in order, over all steps. The error names the index of the faulty
/// phase.
pub fn phases(
    file: &ExperimentFile,
    series: &SeriesFile,
    engines: &[&str],
) -> std::result::Result<Vec<Placed>, (usize, String)> {
    let Some(named) = &series.phases else { return Ok(Vec::new()) };
    let names: Vec<&str> = named.get_ref().iter().map(|name| name.get_ref().as_str()).collect();
    let made: std::result::Result<Vec<Phase>, (usize, String)> = names
        .iter()
        .enumerate()
        .map(|(place, name)| one(file, series, name, engines).map_err(|why| (place, why)))
        .collect();
    let made = made?;
    let labels = labels(names.iter().copied());
    let Some(steps) = &series.steps else {
        let placed = made.into_iter().zip(labels);
        return Ok(placed.map(|(phase, label)| Placed { phase, label, step: None }).collect());
    };
    let size = series.step_size.unwrap_or(1.0);
    let mut all = Vec::new();
    for step in 1..=*steps.get_ref() {
        for (phase, label) in made.iter().zip(&labels) {
            let at = text_of(&Value::from((step as f64 * size * 1000.0).round() / 1000.0));
            let at = at.strip_suffix(".0").unwrap_or(&at).to_string();
            all.push(Placed { phase: phase.clone(), label: label.clone(), step: Some(at) });
        }
    }
    Ok(all)
}

/// Returns the phase with this name: the file's own, or `ycsb load` and `ycsb a` to `ycsb f`.
fn one(
    file: &ExperimentFile,
    series: &SeriesFile,
    name: &str,
    engines: &[&str],
) -> std::result::Result<Phase, String> {
    let own = file.phases.iter().find(|(known, _)| known.get_ref() == name);
    if let Some((_, phase)) = own {
        return phase.get_ref().phase(name);
    }
    let Some(rest) = name.strip_prefix("ycsb ") else {
        return Err(format!(
            "unknown phase {name:?}; add a table [phases.{name:?}], or use \"ycsb load a\" or \
             \"ycsb a\" to \"ycsb f\""
        ));
    };
    let (letter, load) = match rest.strip_prefix("load ") {
        Some(letter) => (letter, true),
        None => (rest, false),
    };
    let workload = workload(series, letter, engines)?;
    let mut phase = if load { workload.load } else { workload.run };
    phase.name = name.into();
    let amount = match (&series.operations, load) {
        (Some(operations), false) => Amount::parse(operations.get_ref())?,
        _ => Amount::parse(&Value::from("entries"))?,
    };
    phase.operations = amount;
    if load {
        phase.start = Start::Empty;
    }
    Ok(phase)
}

fn workload(
    series: &SeriesFile,
    letter: &str,
    engines: &[&str],
) -> std::result::Result<Workload, String> {
    let mut properties = Properties::core(letter)
        .ok_or_else(|| format!("expected a YCSB workload from a to f, found {letter:?}"))?;
    for (name, value) in &series.ycsb {
        properties.set(name.get_ref(), &text_of(value));
    }
    properties.workload(engines)
}

/// Returns the form of a series' records. Fails if their source file is missing.
pub fn space(
    experiment: &Experiment,
    series: &SeriesFile,
    config: &BenchConfig,
    entries: u64,
) -> Result<Space> {
    let names_ycsb = |names: &Vec<toml::Spanned<String>>| {
        names.iter().any(|name| name.get_ref().starts_with("ycsb "))
    };
    if let Some(columns) = &series.csv {
        let path = config.csv.as_ref().ok_or_else(|| {
            let message = format!("{} needs a CSV file: --csv FILE", series.name);
            LabError::new(LabErrorKind::Data, message)
        })?;
        let pairs = read_pairs(path, &columns.key, &columns.value, Some(entries))?;
        if (pairs.pairs.len() as u64) < entries {
            let (rows, name) = (pairs.pairs.len(), path.display());
            let mut message = format!("{name} has {rows} rows, not the {entries} of this size");
            if let Some(left_out) = pairs.left_out() {
                message += &format!("; {left_out}");
            }
            return Err(LabError::new(LabErrorKind::Data, message));
        }
        return Space::from_rows(&pairs);
    }
    let ratio = config.compression_ratio;
    if series.phases.as_ref().is_some_and(|names| names_ycsb(names.get_ref())) {
        let workload =
            workload(series, "a", &experiment.engine_names()).map_err(LabError::usage)?;
        return Ok(workload.space(ratio, config.seed));
    }
    let form = match series.keys.as_ref().map(|keys| keys.get_ref().as_str()) {
        Some("binary") => KeyForm::Binary,
        Some("plain") => KeyForm::Decimal { width: 0 },
        Some("hashed") => KeyForm::User { hashed: true, padding: 1 },
        _ => KeyForm::Decimal { width: config.key_size },
    };
    let length = FieldLength::Constant(config.value_size);
    Ok(Space::new(form, 1, length, ratio, config.seed))
}

/// Names of key forms accepted by [`space`].
pub const KEY_FORMS: &[&str] = &["decimal", "plain", "binary", "hashed"];
