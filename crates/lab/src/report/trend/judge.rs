//! The rows of a trend: an engine's own figures, and their ratios to each other engine of the same
//! record. Each row is judged from its first to its last record.
//!
//! Invariants:
//! 1. Every change is an advantage: above 1 is better, whether more or less of the unit is better.
//! 2. A ratio is of runs of one record, paired by repetition, so it compares across machines.
//! 3. Figures of different machines are shown, and no change of them is.
//! 4. All verdicts of a trend together have the error [`ERROR`].

use serde::Serialize;

use super::sources::{Chosen, Source};
use crate::error::{LabError, Result};
use crate::experiment::check::Experiment;
use crate::experiment::reported::unit_of;
use crate::record::env::utc_text;
use crate::record::lab::PointRecord;
use crate::record::schema::Machine;
use crate::report::grid::base_engine;
use crate::report::lab_compare::{differences, same_point};
use crate::stats::change::{Tested, holm, welch};
use crate::stats::compare::{median, median_interval};
use crate::stats::unit::{UNITS, Unit};
use crate::workload::tasks::is_without_engine;

/// Probability that a trend of unchanged figures has any verdict of a change.
pub const ERROR: f64 = 0.05;

/// The trend of one series.
#[derive(Clone, Debug, Serialize)]
pub struct Trend {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the series.
    pub series: String,
    /// Engine of the figures.
    pub engine: String,
    /// Whether all records are from one machine. If not, only ratios are judged.
    pub same_machine: bool,
    /// Records, the oldest first.
    pub records: Vec<Column>,
    /// One table per phase, step and point.
    pub tables: Vec<Table>,
    /// Number of judged rows.
    pub judged_rows: usize,
    /// See [`ERROR`].
    pub family_wise_error: f64,
}

/// A record of a trend.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Path of the file.
    pub path: String,
    /// Start time, in seconds since 1970 UTC.
    pub started_unix_seconds: u64,
    /// The same as text, in UTC.
    pub started: String,
    /// Commit of the measuring program, if known to its build.
    pub commit: Option<String>,
    /// Whether the sources of that build had uncommitted changes.
    pub commit_dirty: Option<bool>,
    /// Machine of the measurements.
    pub machine: Machine,
    /// Number of changes of the machine before this record.
    pub machine_number: usize,
}

/// The rows of one place in one unit.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Name of the phase, numbered if repeated.
    pub phase: String,
    /// Step, if the phases are repeated.
    pub step: Option<String>,
    /// Parameters of the point, with the document's values.
    pub params: Vec<(String, String)>,
    /// Number of pairs in the runs.
    pub entries: u64,
    /// The place as text: the phase, and the parameters that vary.
    pub place: String,
    /// Name of the unit.
    pub unit: String,
    /// Whether more of the unit is better.
    pub more_is_better: bool,
    /// Whether the unit measures speed.
    pub is_speed: bool,
    /// The engine's own row, then a row for each other engine.
    pub rows: Vec<Row>,
}

/// A row: one figure by record.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The other engine of a ratio; `None` for the engine's own figures.
    pub peer: Option<String>,
    /// A figure per record; `None` if it was not measured.
    pub cells: Vec<Option<Cell>>,
    /// Change from the last record but one to the last, of those with a figure.
    pub since_previous: Option<Change>,
    /// Change from the first record to the last, of those with a figure.
    pub since_first: Option<Change>,
    /// The p value of that change, adjusted for all judged rows.
    pub p_adjusted: Option<f64>,
    /// Verdict on that change.
    pub verdict: Verdict,
    /// Reason for no verdict.
    pub not_judged_because: Option<&'static str>,
}

/// A figure of one record.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Median, or advantage of the engine's median over the other's.
    pub value: f64,
    /// Ends of its 95 % interval; `None` with a single run.
    pub interval: Option<(f64, f64)>,
    /// Number of runs.
    pub runs: usize,
    /// Logarithms of the runs' figures, larger for better ones.
    #[serde(skip)]
    logs: Vec<f64>,
}

/// A change between two records.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Change {
    /// Advantage of the later figure over the earlier one.
    pub factor: f64,
    /// The p value of this change alone; `None` with a single run in a record.
    pub p: Option<f64>,
    #[serde(skip)]
    tested: Option<Tested>,
}

impl Change {
    /// Returns whether the change is shown if no other row is looked at.
    pub fn is_shown_alone(&self) -> bool {
        self.p.is_some_and(|p| p < ERROR)
    }
}

/// Verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The last figure is better than the first one.
    Better,
    /// The last figure is worse than the first one.
    Worse,
    /// No change is shown.
    NoChangeShown,
    /// The row cannot be judged.
    NotJudged,
}

/// What is shown of the records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Engine of the figures, instead of the base engine of the last record.
    pub engine: Option<&'a str>,
    /// Name of the unit, instead of the series' own.
    pub unit: Option<&'a str>,
}

/// A phase, in one step, at one point.
struct Place<'a> {
    point: &'a PointRecord,
    phase: &'a str,
    step: Option<&'a str>,
}

/// Makes the trend of the chosen records.
///
/// # Errors
/// The engine or the unit is unknown, or no figure was measured in two records.
pub fn trend(chosen: &Chosen, wanted: Wanted<'_>) -> Result<Trend> {
    let sources = &chosen.sources;
    let unit = unit(chosen, wanted.unit)?;
    let engines = engines(sources);
    let base = sources.iter().rev().find_map(|source| base_engine(&source.record));
    let engine = match (wanted.engine, base) {
        (Some(name), _) if engines.contains(&name) => name,
        (Some(name), _) => {
            let known = engines.join(", ");
            return Err(LabError::usage(format!(
                "no record measured the engine {name:?}; the records measured {known}"
            )));
        }
        (None, Some(base)) => base,
        (None, None) => return Err(LabError::usage("the records have no measurement")),
    };
    let records = columns(sources);
    let same_machine = records.iter().all(|column| column.machine_number == 0);
    let peers: Vec<&str> = engines.into_iter().filter(|name| *name != engine).collect();
    let places = places(sources);
    let mut tables = Vec::new();
    for place in &places {
        for part in unit.parts().into_iter().filter(|part| !part.is_of_machine()) {
            let rows = rows(sources, (place, part), (engine, &peers), same_machine);
            if !rows.is_empty() {
                tables.push(table(place, &places, part, rows));
            }
        }
    }
    if !tables.iter().flat_map(|table| &table.rows).any(Row::is_of_two) {
        let scales: Vec<&str> = sources.iter().map(|source| source.record.scale.as_str()).collect();
        return Err(LabError::usage(format!(
            "no figure of {engine} in {:?} was measured in two of the records (their scales are \
             {}); run them with the same --scale and --series",
            unit.name(),
            scales.join(", ")
        )));
    }
    let judged_rows = judge(&mut tables);
    Ok(Trend {
        experiment: sources[0].record.experiment.clone(),
        series: chosen.series.clone(),
        engine: engine.into(),
        same_machine,
        records,
        tables,
        judged_rows,
        family_wise_error: ERROR,
    })
}

fn unit(chosen: &Chosen, name: Option<&str>) -> Result<Unit> {
    if let Some(name) = name {
        return Unit::parse(name).ok_or_else(|| {
            let known: Vec<String> = UNITS.iter().map(|(name, _)| format!("{name:?}")).collect();
            LabError::usage(format!("unknown unit {name:?}; the units are {}", known.join(", ")))
        });
    }
    let Some(last) = chosen.sources.last() else { return Ok(Unit::MicrosPerOp) };
    let read = Experiment::of_record(&last.record.experiment, &last.record.text);
    let Ok(experiment) = read else { return Ok(Unit::MicrosPerOp) };
    let mut all = experiment.file.series.iter().map(|series| series.get_ref());
    Ok(all.find(|series| series.name == chosen.series).map_or(Unit::MicrosPerOp, unit_of))
}

/// Returns the measured engines: those of the last record first.
fn engines(sources: &[Source]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for name in sources.iter().rev().flat_map(|source| source.record.measured_engines()) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn columns(sources: &[Source]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for (index, Source { path, record }) in sources.iter().enumerate() {
        let moved = index.checked_sub(1).is_some_and(|before| {
            differences(&sources[before].record, record).iter().any(|found| found.of_machine)
        });
        let before = columns.last().map_or(0, |column| column.machine_number);
        columns.push(Column {
            path: path.clone(),
            started_unix_seconds: record.started_unix_seconds,
            started: utc_text(record.started_unix_seconds),
            commit: record.commit.clone(),
            commit_dirty: record.commit_dirty,
            machine: record.machine.clone(),
            machine_number: before + usize::from(moved),
        });
    }
    columns
}

/// Returns every place with a sample: those of the last record first.
fn places(sources: &[Source]) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    for record in sources.iter().rev().map(|source| &source.record) {
        for sample in &record.samples {
            let point = &record.points[sample.point];
            let (phase, step) = (sample.phase.as_str(), sample.step.as_deref());
            let is_known = |place: &Place<'_>| {
                (place.phase, place.step) == (phase, step) && same_point(place.point, point)
            };
            if sample.sample.hidden || is_without_engine(phase) || places.iter().any(is_known) {
                continue;
            }
            places.push(Place { point, phase, step });
        }
    }
    places
}

/// Returns an engine's values at a place of a record, by repetition. The speed of operations that
/// arrive at a rate is not the engine's, so it is omitted.
fn values(source: &Source, place: &Place<'_>, engine: &str, unit: Unit) -> Vec<(usize, f64)> {
    let record = &source.record;
    let own = record.points.iter().position(|point| same_point(point, place.point));
    let Some(index) = own else { return Vec::new() };
    let samples = record.of(index, (place.phase, place.step), engine);
    let samples =
        samples.filter(|s| !s.hidden && (s.rate_per_second.is_none() || !unit.is_speed()));
    samples.filter_map(|sample| Some((sample.repetition, unit.of(sample)?))).collect()
}

/// Returns the advantage of a value over 1, as a logarithm.
fn log(unit: Unit, value: f64) -> f64 {
    if unit.more_is_better() { value.ln() } else { -value.ln() }
}

fn own_cell(own: &[(usize, f64)], unit: Unit) -> Option<Cell> {
    let plain: Vec<f64> = own.iter().map(|(_, value)| *value).collect();
    let logs = plain.iter().map(|value| log(unit, *value)).collect();
    let interval = median_interval(&plain);
    Some(Cell { value: median(&plain)?, interval, runs: plain.len(), logs })
}

fn ratio_cell(own: &[(usize, f64)], peer: &[(usize, f64)], unit: Unit) -> Option<Cell> {
    let plain = |values: &[(usize, f64)]| values.iter().map(|v| v.1).collect::<Vec<f64>>();
    let ratio = unit.advantage(&plain(own), &plain(peer))?;
    let pair = |(repetition, value): &(usize, f64)| {
        let other = peer.iter().find(|(other, _)| other == repetition)?;
        Some(log(unit, *value) - log(unit, other.1))
    };
    let logs: Vec<f64> = own.iter().filter_map(pair).collect();
    Some(Cell { value: ratio.ratio, interval: ratio.interval, runs: logs.len(), logs })
}

/// Returns the rows of a place in one unit; none if the engine has no figure there.
fn rows(
    sources: &[Source],
    (place, unit): (&Place<'_>, Unit),
    (engine, peers): (&str, &[&str]),
    same_machine: bool,
) -> Vec<Row> {
    let own: Vec<Vec<(usize, f64)>> =
        sources.iter().map(|source| values(source, place, engine, unit)).collect();
    let cells: Vec<Option<Cell>> = own.iter().map(|own| own_cell(own, unit)).collect();
    if cells.iter().all(Option::is_none) {
        return Vec::new();
    }
    let is_up = unit.more_is_better();
    let barred = (!same_machine).then_some("other machines");
    let mut rows = vec![Row::of(None, cells, is_up, barred)];
    for &peer in peers {
        let cell = |(source, own): (&Source, &Vec<(usize, f64)>)| {
            ratio_cell(own, &values(source, place, peer, unit), unit)
        };
        let cells: Vec<Option<Cell>> = sources.iter().zip(&own).map(cell).collect();
        if cells.iter().any(Option::is_some) {
            rows.push(Row::of(Some(peer.into()), cells, true, None));
        }
    }
    rows
}

impl Row {
    /// Creates a row without its verdict. `barred` is the reason for which it has no changes.
    fn of(
        peer: Option<String>,
        cells: Vec<Option<Cell>>,
        is_up: bool,
        barred: Option<&'static str>,
    ) -> Row {
        let measured: Vec<&Cell> = cells.iter().flatten().collect();
        let change = |from: Option<usize>| -> Option<Change> {
            let (before, after) = (measured.get(from?)?, measured.last()?);
            let quotient = after.value / before.value;
            let factor = if is_up { quotient } else { quotient.recip() };
            let tested = welch(&before.logs, &after.logs);
            let is_whole = barred.is_none() && factor.is_finite() && factor > 0.0;
            is_whole.then_some(Change { factor, p: tested.map(|tested| tested.p), tested })
        };
        let of_two = measured.len() > 1;
        let since_previous = change(measured.len().checked_sub(2));
        let since_first = change(of_two.then_some(0));
        let why = match since_first {
            _ if barred.is_some() => barred,
            _ if !of_two => Some("one record"),
            None => Some("a figure is 0"),
            Some(Change { p: None, .. }) => {
                let ends = [measured.first(), measured.last()];
                let single = ends.into_iter().flatten().any(|cell| cell.runs < 2);
                Some(if single { "single runs" } else { "a figure is 0" })
            }
            Some(_) => None,
        };
        Row {
            peer,
            since_previous,
            since_first,
            p_adjusted: None,
            verdict: Verdict::NotJudged,
            not_judged_because: why,
            cells,
        }
    }

    /// Returns whether two records have a figure.
    fn is_of_two(&self) -> bool {
        self.cells.iter().flatten().count() > 1
    }

    /// Sets the verdict for an adjusted p value.
    fn conclude(&mut self, p: f64) {
        self.p_adjusted = Some(p);
        let Some(Change { factor, tested: Some(tested), .. }) = self.since_first else { return };
        self.verdict = match (p < ERROR, tested.difference > 0.0) {
            (true, true) if factor > 1.0 => Verdict::Better,
            (true, false) if factor < 1.0 => Verdict::Worse,
            _ => Verdict::NoChangeShown,
        };
    }
}

/// Judges all rows together; returns their number.
fn judge(tables: &mut [Table]) -> usize {
    let rows = tables.iter_mut().flat_map(|table| &mut table.rows);
    let judged: Vec<(&mut Row, f64)> = rows
        .filter(|row| row.not_judged_because.is_none())
        .filter_map(|row| row.since_first.and_then(|change| change.p).map(|p| (row, p)))
        .collect();
    let adjusted = holm(&judged.iter().map(|(_, p)| *p).collect::<Vec<f64>>());
    let count = judged.len();
    for ((row, _), p) in judged.into_iter().zip(adjusted) {
        row.conclude(p);
    }
    count
}

fn table(place: &Place<'_>, places: &[Place<'_>], unit: Unit, rows: Vec<Row>) -> Table {
    let point = place.point;
    let mut text = place.phase.to_string();
    let varies =
        |param: &&(String, String)| places.iter().any(|other| !other.point.params.contains(param));
    for (name, value) in point.params.iter().filter(varies) {
        text += &format!(", {name} {value}");
    }
    let twin = |other: &Place<'_>| {
        other.point.params == point.params && other.point.entries != point.entries
    };
    if places.iter().any(twin) {
        text += &format!(", {} pairs", point.entries);
    }
    text += &place.step.map_or(String::new(), |step| format!(", step {step}"));
    Table {
        phase: place.phase.into(),
        step: place.step.map(String::from),
        params: point.params.clone(),
        entries: point.entries,
        place: text,
        unit: unit.name().into(),
        more_is_better: unit.more_is_better(),
        is_speed: unit.is_speed(),
        rows,
    }
}

impl Trend {
    /// Returns the number of rows with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let rows = self.tables.iter().flat_map(|table| &table.rows);
        rows.filter(|row| row.verdict == verdict).count()
    }
}
