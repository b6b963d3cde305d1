//! The records of a trend: one series of one experiment, ordered by time.
//!
//! Invariants:
//! 1. Chosen records have the series, and nothing else.
//! 2. There are at least two, ordered by their start, then by commit and path.

use std::collections::BTreeMap;

use crate::error::{LabError, Result};
use crate::record::lab::LabRecord;
use crate::report::lab_compare::{self, Difference};

/// A record and its file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path of the file, for messages.
    pub path: String,
    /// The record.
    pub record: LabRecord,
}

/// The records of one series.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Name of the series.
    pub series: String,
    /// Records, the oldest first, with this series alone.
    pub sources: Vec<Source>,
    /// Paths of the records without the series.
    pub left_out: Vec<String>,
}

/// Chooses the records of one series: the only one, or the one that `series` names, or whose name
/// contains it.
///
/// # Errors
/// The records have several experiments or series, a record is named twice, or fewer than two
/// have the series. The message is a sentence.
pub fn choose(mut sources: Vec<Source>, series: Option<&str>) -> Result<Chosen> {
    check_files(&sources)?;
    sources.sort_by(|one, other| key(one).cmp(&key(other)));
    let name = name_of(&sources, series)?;
    let has = |source: &Source| source.record.points.iter().any(|point| point.series == name);
    let (own, others): (Vec<Source>, Vec<Source>) = sources.into_iter().partition(has);
    if let [only] = own.as_slice() {
        let path = &only.path;
        return Err(LabError::usage(format!(
            "a trend needs two records or more, and only {path} has the series {name:?}; measure \
             it again with `esker lab run {} --series {name:?}`",
            only.record.experiment
        )));
    }
    let only = |source: Source| Source { record: of_series(source.record, &name), ..source };
    let sources = own.into_iter().map(only).collect();
    let left_out = others.into_iter().map(|source| source.path).collect();
    Ok(Chosen { series: name, sources, left_out })
}

fn key(source: &Source) -> (u64, Option<&str>, &str) {
    let record = &source.record;
    (record.started_unix_seconds, record.commit.as_deref(), source.path.as_str())
}

/// Refuses no records, a record that is named twice, and records of several experiments.
fn check_files(sources: &[Source]) -> Result<()> {
    let Some(first) = sources.first() else {
        return Err(LabError::usage("no record is named; name two records or more"));
    };
    for (index, source) in sources.iter().enumerate() {
        if sources[..index].iter().any(|other| other.path == source.path) {
            return Err(LabError::usage(format!("the record {} is named twice", source.path)));
        }
    }
    if sources.iter().any(|other| other.record.experiment != first.record.experiment) {
        let counts = counted(sources.iter().map(|source| source.record.experiment.as_str()));
        return Err(LabError::usage(format!(
            "the records belong to several experiments, and a trend is of one: {counts}"
        )));
    }
    Ok(())
}

/// Returns the name of the only series, or of the one that is asked for.
fn name_of(sources: &[Source], asked: Option<&str>) -> Result<String> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for source in sources {
        let mut own: Vec<&str> = Vec::new();
        for point in &source.record.points {
            if !own.contains(&point.series.as_str()) {
                own.push(&point.series);
            }
        }
        all.extend(own.into_iter().map(|name| (name, source.path.as_str())));
    }
    let list = |names: &[&str]| counted(names.iter().copied());
    let every: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let named: Vec<&str> = match asked {
        None => every.clone(),
        Some(asked) if every.contains(&asked) => vec![asked],
        Some(asked) => every.iter().copied().filter(|name| name.contains(asked)).collect(),
    };
    match (named.first(), asked) {
        (Some(first), _) if named.iter().all(|name| name == first) => Ok(first.to_string()),
        (Some(_), _) => Err(LabError::usage(format!(
            "a trend is of one series, and the records have several; choose one with --series: {}",
            list(&named)
        ))),
        (None, Some(asked)) => Err(LabError::usage(format!(
            "no record has a series {asked:?}; the records have {}",
            list(&every)
        ))),
        (None, None) => Err(LabError::usage("the records have no point, so there is no series")),
    }
}

/// Lists names with the number of records that have them.
fn counted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let text = |(name, count): (&&str, &usize)| {
        format!("{name:?} ({count} record{})", if *count == 1 { "" } else { "s" })
    };
    counts.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Returns a record with one of its series.
fn of_series(mut record: LabRecord, series: &str) -> LabRecord {
    let mut places = vec![None; record.points.len()];
    let mut points = Vec::new();
    for (index, point) in std::mem::take(&mut record.points).into_iter().enumerate() {
        if point.series == series {
            places[index] = Some(points.len());
            points.push(point);
        }
    }
    record.points = points;
    let place = |point: usize| places.get(point).copied().flatten();
    record
        .samples
        .retain_mut(|sample| place(sample.point).map(|point| sample.point = point).is_some());
    record
        .sessions
        .retain_mut(|round| place(round.point).map(|point| round.point = point).is_some());
    record
}

/// Returns the differences between each record and the next, except their commits. Records are
/// counted from 1.
pub fn differences(sources: &[Source]) -> Vec<Difference> {
    let pairs = sources.windows(2).enumerate();
    let of = |(index, pair): (usize, &[Source])| {
        let found = lab_compare::differences(&pair[0].record, &pair[1].record);
        let found = found.into_iter().filter(|difference| !difference.what.starts_with("commit: "));
        let named = found.map(move |difference| Difference {
            what: format!("records {} and {}: {}", index + 1, index + 2, difference.what),
            ..difference
        });
        named.collect::<Vec<_>>()
    };
    pairs.flat_map(of).collect()
}
