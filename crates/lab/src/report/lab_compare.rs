//! Comparison of two records of one experiment: differences of the conditions, and figures with a
//! significant difference.
//!
//! Invariants:
//! 1. A figure is compared only with the same phase of the same engine at the same point.
//! 2. Conditions that make two records incomparable are found before any figure is shown.

use std::collections::BTreeSet;
use std::io::{self, Write};

use comfy_table::{Table, presets};

use super::table::{align_right, commit_text, count_text, ratio_text};
use crate::record::lab::{LabRecord, PointRecord};
use crate::stats::unit::Unit;
use crate::workload::tasks::is_without_engine;

/// A difference between two records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Sentence with the values before and after.
    pub what: String,
    /// Whether it makes speeds of the two records incomparable.
    pub incomparable: bool,
    /// Whether it is a difference of the machine. Ratios to another engine of the same record
    /// remain comparable.
    pub of_machine: bool,
}

const PROCESSORS: &str = "processors";
const FILE_SYSTEM: &str = "file system";
/// Differences of the machine.
const OF_MACHINE: [&str; 2] = [PROCESSORS, FILE_SYSTEM];

/// Keys of an experiment file without an effect on the work at a point: descriptions, expectations,
/// display, and the choice of points and runs.
const NOT_DONE: &[&str] = &[
    "about",
    "also",
    "columns",
    "document",
    "engines",
    "entries",
    "expect",
    "repetitions",
    "reported",
    "rows",
    "scale",
    "title",
    "unit",
    "vary",
];

/// Returns whether two points are the same.
pub(super) fn same_point(one: &PointRecord, other: &PointRecord) -> bool {
    (&one.series, &one.params, one.entries) == (&other.series, &other.params, other.entries)
}

/// Returns the index pairs of the points that two records have in common. Only these can be
/// compared.
pub fn points_in_common(before: &LabRecord, after: &LabRecord) -> Vec<(usize, usize)> {
    let matching = |one: &PointRecord| after.points.iter().position(|other| same_point(one, other));
    let points = before.points.iter().enumerate();
    points.filter_map(|(place, point)| Some((place, matching(point)?))).collect()
}

/// Returns the differences between two records of one experiment, except figures.
pub fn differences(before: &LabRecord, after: &LabRecord) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut note = |name: &str, old: String, new: String, incomparable: bool| {
        if old != new {
            found.push(Difference {
                what: format!("{name}: {old} before, {new} after"),
                incomparable,
                of_machine: incomparable && OF_MACHINE.contains(&name),
            });
        }
    };
    let commit = |record: &LabRecord| commit_text(record.commit.as_deref(), record.commit_dirty);
    note("commit", commit(before), commit(after), false);
    let (old, new) = (&before.machine, &after.machine);
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
    let cpu = |model: &Option<String>, count: usize| format!("{count} x {}", text(model));
    note(PROCESSORS, cpu(&old.cpu_model, old.cpu_count), cpu(&new.cpu_model, new.cpu_count), true);
    note(FILE_SYSTEM, text(&old.file_system), text(&new.file_system), true);
    note("kernel", text(&old.kernel), text(&new.kernel), false);
    let built =
        |optimised: bool| String::from(if optimised { "optimised" } else { "not optimised" });
    note("build", built(old.optimised_build), built(new.optimised_build), true);
    note("seed", before.seed.to_string(), after.seed.to_string(), true);
    for engine in &before.engines {
        let Some(matching) = after.engines.iter().find(|other| other.name == engine.name) else {
            continue;
        };
        let name = format!("version of {}", engine.name);
        note(&name, text(&engine.description), text(&matching.description), false);
    }
    let common = points_in_common(before, after);
    found.extend(other_series(before, after, &common));
    found.extend(other_settings(before, after, &common));
    found
}

/// Returns the common series with different descriptions in the two experiment files.
fn other_series(
    before: &LabRecord,
    after: &LabRecord,
    common: &[(usize, usize)],
) -> Vec<Difference> {
    let series: BTreeSet<&str> =
        common.iter().map(|&(place, _)| before.points[place].series.as_str()).collect();
    let (old, new) = (described(&before.text), described(&after.text));
    let differs = |name: &&str| of_series(&old, name) != of_series(&new, name);
    let sentence = |name: &str| Difference {
        what: format!("series {name:?}: the two experiment files describe it differently"),
        incomparable: true,
        of_machine: false,
    };
    series.into_iter().filter(differs).map(sentence).collect()
}

/// Parses an experiment file, without the keys in `NOT_DONE`.
fn described(text: &str) -> toml::Table {
    let mut table: toml::Table = text.parse().unwrap_or_default();
    table.retain(|key, _| !NOT_DONE.contains(&key));
    table
}

/// Returns a file's settings for a series: its own, and those for all series.
fn of_series(file: &toml::Table, name: &str) -> (toml::Table, toml::Table) {
    let mut shared = file.clone();
    let all = shared.remove("series");
    let all = all.as_ref().and_then(|all| all.as_array()).map_or(&[][..], Vec::as_slice);
    let is_own = |part: &&toml::Value| part.get("name").and_then(toml::Value::as_str) == Some(name);
    let own = all.iter().find(is_own).and_then(|part| part.as_table().cloned());
    let mut own = own.unwrap_or_default();
    own.retain(|key, _| !NOT_DONE.contains(&key));
    (shared, own)
}

/// Returns options with different values for an engine at a common point, each once.
fn other_settings(
    before: &LabRecord,
    after: &LabRecord,
    common: &[(usize, usize)],
) -> Vec<Difference> {
    let mut differing: Vec<String> = Vec::new();
    for &(old, new) in common {
        for (engine, old) in &before.points[old].given {
            let Some(new) = after.points[new].given.get(engine) else { continue };
            let names = old.iter().chain(new).map(|(name, _)| name).collect::<BTreeSet<_>>();
            for name in names {
                let value = |given: &[(String, String)]| {
                    let own = given.iter().find(|(own, _)| own == name);
                    own.map_or("not given".to_string(), |(_, value)| value.clone())
                };
                let (one, other) = (value(old), value(new));
                let what = format!("{engine}, {name}: {one} before, {other} after");
                if one != other && !differing.contains(&what) {
                    differing.push(what);
                }
            }
        }
    }
    let difference = |what| Difference { what, incomparable: true, of_machine: false };
    differing.into_iter().map(difference).collect()
}

/// Compares two records of one experiment; returns the number of significantly slower figures.
pub fn write_comparison(
    before: &LabRecord,
    after: &LabRecord,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
        .set_header(["series", "point", "phase", "engine", "before", "after", "speed", "interval"]);
    let (mut slower, mut faster, mut same) = (0, 0, 0);
    let mut seen: Vec<(usize, &str, Option<&str>, &str)> = Vec::new();
    for sample in &before.samples {
        let engine = sample.sample.engine.as_str();
        let step = sample.step.as_deref();
        let key = (sample.point, sample.phase.as_str(), step, engine);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let point = &before.points[sample.point];
        let matching = after.points.iter().position(|other| same_point(point, other));
        let Some(matching) = matching else { continue };
        let speeds = |record: &LabRecord, point: usize| -> Vec<f64> {
            let own = record.of(point, (&sample.phase, step), engine);
            own.filter_map(|s| Unit::OpsPerSec.of(s)).collect()
        };
        let (old, new) = (speeds(before, sample.point), speeds(after, matching));
        if is_without_engine(&sample.phase) {
            continue;
        }
        let Some(ratio) = crate::stats::compare::ratio(&new, &old) else { continue };
        match ratio.shows_difference() {
            true if ratio.ratio < 1.0 => slower += 1,
            true => faster += 1,
            false => same += 1,
        }
        if !ratio.shows_difference() && ratio.interval.is_some() {
            continue;
        }
        let middle =
            |speeds: &[f64]| crate::stats::compare::median(speeds).map_or("n/a".into(), count_text);
        let params: Vec<String> =
            point.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        table.add_row([
            point.series.clone(),
            params.join(" "),
            sample.phase.clone(),
            engine.to_string(),
            middle(&old),
            middle(&new),
            ratio_text(&ratio),
            super::table::interval_text(&ratio),
        ]);
    }
    align_right(&mut table, 4);
    writeln!(
        out,
        "Operations per second; speed: after divided by before, above 1 is faster\n{table}"
    )?;
    writeln!(out, "{faster} faster, {slower} slower, {same} without a significant difference")?;
    Ok(slower)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str, given: &[(&str, &str)]) -> LabRecord {
        let given: Vec<(String, String)> =
            given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let point = PointRecord {
            series: "fill".into(),
            params: vec![("entries".into(), "300".into())],
            params_run: Vec::new(),
            entries: 300,
            bytes: None,
            document_entries: None,
            steps: Vec::new(),
            share: 1.0,
            repetitions: 1,
            given: [("esker".to_string(), given)].into(),
            not_available: None,
        };
        LabRecord {
            lab_schema_version: crate::record::lab::LAB_SCHEMA_VERSION,
            experiment: "mine".into(),
            text: text.into(),
            scale: "1".into(),
            started_unix_seconds: 0,
            elapsed_seconds: 0.0,
            machine: Default::default(),
            commit: None,
            commit_dirty: None,
            seed: 1,
            harness_nanos_per_op: None,
            engines: Vec::new(),
            points: vec![point],
            samples: Vec::new(),
            sessions: Vec::new(),
            warnings: Vec::new(),
        }
    }

    const FILE: &str = "title = \"One\"\nkey_size = 16\n[[series]]\nname = \"fill\"\n\
                        tasks = \"fillseq\"\n[[series]]\nname = \"other\"\ntasks = \"readseq\"\n";

    #[test]
    fn records_with_equal_settings_are_comparable() {
        let renamed = FILE.replace("One", "Two").replace("readseq", "readrandom");
        let (one, two) = (record(FILE, &[("a", "1")]), record(&renamed, &[("a", "1")]));
        assert_eq!(differences(&one, &two), [], "titles and other series are not differences");
    }

    #[test]
    fn different_settings_series_seeds_or_machines_are_incomparable() {
        let one = record(FILE, &[("compression", "none"), ("a", "1")]);
        let mut two = record(&FILE.replace("fillseq", "fillrandom"), &[("compression", "snappy")]);
        two.seed = 2;
        two.machine.cpu_count = 8;
        two.commit = Some("abc".into());
        let found = differences(&one, &two);
        let is = |part: &str, incomparable: bool| {
            let fits = |d: &Difference| d.what.contains(part) && d.incomparable == incomparable;
            assert!(found.iter().any(fits), "{part}: {found:?}");
        };
        is("esker, compression: none before, snappy after", true);
        is("esker, a: 1 before, not given after", true);
        is("series \"fill\"", true);
        is("seed: 1 before, 2 after", true);
        is("processors", true);
        is("commit: unknown before, abc after", false);
    }
}
