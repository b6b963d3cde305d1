//! A record in the layout of the document's tables: the figures, measured or reported, by row and
//! column. Pure functions: text and page are made from the same grids.

use std::collections::BTreeMap;

use super::sizes::{Sizes, key_text};
use crate::experiment::check::{Experiment, phase_labels};
use crate::experiment::file::SeriesFile;
use crate::experiment::reported::{figures, own_units};
use crate::record::lab::{LabRecord, LabSample, PointRecord};
use crate::record::schema::TaskSample;
use crate::stats::compare::{Ratio, median};
use crate::stats::summary::BASE_ENGINE;
use crate::stats::unit::Unit;
use crate::workload::tasks::is_without_engine;

/// One figure, measured or reported by a document.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of the engine, or of the store in the document.
    pub who: String,
    /// Whether the figure is from the document, measured on another machine.
    pub reported: bool,
    /// Name of the phase.
    pub phase: String,
    /// The parameters.
    pub params: BTreeMap<String, String>,
    /// Number of pairs in the run; `None` for reported figures.
    pub entries: Option<u64>,
    /// Bytes written up to the step if there are steps, otherwise bytes of those pairs.
    pub bytes: Option<u64>,
    /// Number of pairs in the document.
    pub document_entries: Option<u64>,
    /// All samples, in the series' unit.
    pub samples: Vec<f64>,
    /// Median of the samples; `None` without measurements.
    pub value: Option<f64>,
    /// Advantage over the base engine's figure in the displayed unit. Above 1 is better, also for
    /// units where less is better.
    pub ratio: Option<Ratio>,
    /// Reason for a missing value, or a problem with it.
    pub note: Option<String>,
}

/// The figures of one series.
#[derive(Clone, Debug)]
pub struct SeriesView<'a> {
    /// Series of the figures.
    pub series: &'a SeriesFile,
    /// Unit of all figures.
    pub unit: Unit,
    /// Row axis.
    pub rows: String,
    /// Column axis.
    pub columns: String,
    /// Sizes used in the runs for the axis values.
    pub sizes: Sizes,
    /// Measured figures first, then reported figures.
    pub figures: Vec<Figure>,
}

/// One table: rows × columns of one store, or of all stores if they are an axis.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Parameters common to the whole table.
    pub title: String,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// Rows: head, then a figure per column.
    pub rows: Vec<(String, Vec<Option<Figure>>)>,
    /// Whether all figures are reported.
    pub reported: bool,
}

/// Returns every series of the record, in the experiment's order, in its own units and in each unit
/// of reported figures. Series without samples are omitted.
pub fn views<'a>(experiment: &'a Experiment, record: &LabRecord) -> Vec<SeriesView<'a>> {
    let series = experiment.file.series.iter().map(|series| series.get_ref());
    series
        .filter(|series| record.points.iter().any(|point| point.series == series.name))
        .flat_map(|series| {
            let sizes = Sizes::of(experiment, series, record);
            let view = move |unit| view(series, record, unit, sizes.clone());
            units(series).into_iter().map(view)
        })
        .collect()
}

/// Returns one series of the record in the given unit.
pub fn view_in<'a>(
    experiment: &Experiment,
    series: &'a SeriesFile,
    record: &LabRecord,
    unit: Unit,
) -> SeriesView<'a> {
    view(series, record, unit, Sizes::of(experiment, series, record))
}

fn units(series: &SeriesFile) -> Vec<Unit> {
    let mut units = own_units(series);
    for figure in figures(series) {
        if !units.contains(&figure.unit) {
            units.push(figure.unit);
        }
    }
    units
}

/// Axis of a unit that consists of several units side by side.
pub const MEASURE: &str = "measure";

fn view<'a>(
    series: &'a SeriesFile,
    record: &LabRecord,
    unit: Unit,
    sizes: Sizes,
) -> SeriesView<'a> {
    let mut all = Vec::new();
    let base = base_of_series(record, &series.name);
    for (index, point) in record.points.iter().enumerate() {
        if point.series != series.name {
            continue;
        }
        for step in record.steps(index) {
            for phase in phase_labels(series) {
                let by_engines = !is_engineless(series, &phase);
                let place = Place { record, index, phase: &phase, step, by_engines };
                let parts = unit.parts();
                for &part in &parts {
                    let mut figures = measured(&place, point, part, base);
                    for figure in figures.iter_mut().filter(|_| parts.len() > 1) {
                        figure.params.insert(MEASURE.into(), part.name().into());
                    }
                    all.extend(figures);
                }
            }
        }
    }
    let reported = figures(series);
    all.extend(reported.into_iter().filter(|figure| figure.unit == unit).map(|figure| Figure {
        who: figure.by,
        reported: true,
        phase: figure.phase.unwrap_or_default(),
        params: figure.params,
        entries: None,
        bytes: None,
        document_entries: None,
        samples: vec![figure.value],
        value: Some(figure.value),
        ratio: None,
        note: None,
    }));
    let (rows, columns) = match unit.parts().len() {
        1 => axes(series),
        _ => ("engine".into(), MEASURE.into()),
    };
    SeriesView { series, unit, rows, columns, sizes, figures: all }
}

/// One phase, in one step, at one point of a record.
struct Place<'a> {
    record: &'a LabRecord,
    index: usize,
    phase: &'a str,
    step: Option<&'a str>,
    /// Whether the phase depends on the engine.
    by_engines: bool,
}

/// Returns whether no engine takes part in a phase of the series.
fn is_engineless(series: &SeriesFile, phase: &str) -> bool {
    series.tasks.is_some() && is_without_engine(phase)
}

impl<'a> Place<'a> {
    /// Returns an engine's values here in `unit`, for comparing engines. Samples with an arrival
    /// rate are omitted for units of speed, since their operation count does not depend on the
    /// engine.
    fn values(&self, engine: &'a str, unit: Unit) -> Vec<f64> {
        let is_comparable = |s: &&TaskSample| s.rate_per_second.is_none() || !unit.is_speed();
        let samples = self.samples(engine).into_iter().filter(is_comparable);
        samples.filter_map(|sample| unit.of(sample)).collect()
    }

    /// Returns the advantage of `engine` over `base` here in `unit`.
    fn advantage(&self, engine: &'a str, base: &'a str, unit: Unit) -> Option<Ratio> {
        let compared = self.by_engines && engine != base;
        let of = |engine| self.values(engine, unit);
        compared.then(|| unit.advantage(&of(engine), &of(base))).flatten()
    }

    /// Returns an engine's samples, without preparation phases.
    fn samples(&self, engine: &'a str) -> Vec<&'a TaskSample> {
        let own = self.record.of(self.index, (self.phase, self.step), engine);
        own.filter(|sample| !sample.hidden).collect()
    }
}

/// Returns every engine's figure at a place.
fn measured<'a>(
    place: &Place<'a>,
    point: &PointRecord,
    unit: Unit,
    base: Option<&'a str>,
) -> Vec<Figure> {
    let record = place.record;
    let mut params: BTreeMap<String, String> = point.params.iter().cloned().collect();
    params.extend(place.step.map(|step| ("step".to_string(), step.to_string())));
    let put = point.steps.iter().find(|put| Some(put.step.as_str()) == place.step);
    let figure = |engine: &'a str| {
        let samples = place.samples(engine);
        if samples.is_empty() {
            return None;
        }
        let values: Vec<f64> = samples.iter().filter_map(|sample| unit.of(sample)).collect();
        Some(Figure {
            who: engine.into(),
            reported: false,
            phase: place.phase.into(),
            params: params.clone(),
            entries: Some(put.and_then(|step| step.put_entries).unwrap_or(point.entries)),
            bytes: put.map(|step| step.put_bytes).or(point.bytes),
            document_entries: point.document_entries,
            value: median(&values),
            samples: values,
            ratio: base.and_then(|base| place.advantage(engine, base, unit)),
            note: samples.iter().find_map(|sample| sample.error.clone()),
        })
    };
    record.measured_engines().into_iter().filter_map(figure).collect()
}

/// Returns the speed ratios of `engine` to the base engine at every place of the series with
/// measurements of both, except phases without an engine.
pub fn speeds<'a>(series: &SeriesFile, record: &'a LabRecord, engine: &'a str) -> Vec<Ratio> {
    let Some(base) = base_engine(record) else { return Vec::new() };
    let mut speeds = Vec::new();
    for index in (0..record.points.len()).filter(|&at| record.points[at].series == series.name) {
        for step in record.steps(index) {
            for phase in phase_labels(series) {
                let by_engines = !is_engineless(series, &phase);
                let place = Place { record, index, phase: &phase, step, by_engines };
                speeds.extend(place.advantage(engine, base, Unit::OpsPerSec));
            }
        }
    }
    speeds
}

/// Returns the base engine of the ratios: Esker, or the first measured engine.
pub fn base_engine(record: &LabRecord) -> Option<&str> {
    let measured = record.measured_engines();
    measured.iter().find(|name| **name == BASE_ENGINE).or(measured.first()).copied()
}

/// Returns the base engine of a series' ratios: that of the record, or else, if it takes no part in
/// the series, the first engine measured there.
pub fn base_of_series<'a>(record: &'a LabRecord, series: &str) -> Option<&'a str> {
    let takes_part = |name: &&str| {
        let here = |sample: &&LabSample| record.points[sample.point].series == series;
        record.samples.iter().filter(here).any(|sample| sample.sample.engine == *name)
    };
    base_engine(record)
        .filter(takes_part)
        .or_else(|| record.measured_engines().into_iter().find(takes_part))
}

/// Returns the rows and columns set in the file. Default: the parameter with the most values, and
/// the phases.
fn axes(series: &SeriesFile) -> (String, String) {
    let widest = || {
        if series.steps.is_some() {
            return Some(("step".to_string(), 2));
        }
        let mut axes = vec![
            ("entries".to_string(), series.entries.get_ref().all().len()),
            ("threads".to_string(), series.threads.get_ref().all().len()),
        ];
        let varied = series.vary.iter();
        axes.extend(varied.map(|(name, values)| (name.get_ref().clone(), values.get_ref().len())));
        axes.into_iter().rev().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 1)
    };
    let rows = series.rows.as_ref().map(|axis| axis.get_ref().clone());
    let columns = series.columns.as_ref().map(|axis| axis.get_ref().clone());
    match (rows, columns) {
        (Some(rows), Some(columns)) => (rows, columns),
        (Some(rows), None) if rows == "phase" => ("phase".into(), "engine".into()),
        (Some(rows), None) => (rows, "phase".into()),
        (None, Some(columns)) => ("phase".into(), columns),
        (None, None) => match widest() {
            Some((name, _)) => (name, "phase".into()),
            None => ("phase".into(), "engine".into()),
        },
    }
}

impl Figure {
    /// Returns the figure's value on an axis; `None` for a reported figure valid for the whole
    /// axis.
    pub fn on(&self, axis: &str) -> Option<&str> {
        match axis {
            "phase" => Some(self.phase.as_str()).filter(|phase| !phase.is_empty()),
            "engine" => Some(&self.who),
            _ => self.params.get(axis).map(String::as_str),
        }
    }

    /// Returns the name of the store for display beside others.
    pub fn who_text(&self) -> String {
        if self.reported { format!("{} (reported)", self.who) } else { self.who.clone() }
    }
}

impl SeriesView<'_> {
    /// Returns the values on an axis, in order of occurrence.
    pub fn keys(&self, axis: &str) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for figure in &self.figures {
            let key = match axis {
                "engine" => Some(figure.who_text()),
                _ => figure.on(axis).map(String::from),
            };
            if let Some(key) = key.filter(|key| !keys.contains(key)) {
                keys.push(key);
            }
        }
        keys
    }

    /// Returns the parameters with several values (and the phase) that are neither rows nor
    /// columns.
    fn rest(&self) -> Vec<String> {
        let measured = self.figures.iter().filter(|figure| !figure.reported);
        let names = measured.flat_map(|figure| figure.params.keys().map(String::as_str));
        let mut rest: Vec<String> = Vec::new();
        for name in std::iter::once("phase").chain(names) {
            let free = name != self.rows && name != self.columns;
            if free && !rest.iter().any(|own| own == name) && self.keys(name).len() > 1 {
                rest.push(name.to_string());
            }
        }
        rest
    }

    /// Returns every combination of the values that are neither rows nor columns.
    pub fn slices(&self) -> Vec<Vec<(String, String)>> {
        let mut slices: Vec<Vec<(String, String)>> = vec![Vec::new()];
        for name in self.rest() {
            let keys = self.keys(&name);
            slices = slices
                .iter()
                .flat_map(|slice| {
                    keys.iter().map(|key| {
                        let mut next = slice.clone();
                        next.push((name.clone(), key.clone()));
                        next
                    })
                })
                .collect();
        }
        slices
    }

    /// Describes one value of an axis.
    pub fn place_text(&self, axis: &str, key: &str) -> String {
        match axis {
            "phase" | "engine" | MEASURE => key.to_string(),
            _ => format!("{} {}", self.sizes.axis(axis), self.sizes.label(axis, key)),
        }
    }

    /// Returns the figures of a slice.
    pub fn in_slice<'s>(
        &'s self,
        slice: &'s [(String, String)],
    ) -> impl Iterator<Item = &'s Figure> {
        self.figures.iter().filter(move |figure| {
            slice.iter().all(|(name, key)| figure.on(name).is_none_or(|own| own == key))
        })
    }

    /// Returns the tables in the document's layout.
    pub fn grids(&self) -> Vec<Grid> {
        let mut grids = Vec::new();
        let by_engine = self.rows == "engine" || self.columns == "engine";
        for slice in self.slices() {
            let slice_title: Vec<String> =
                slice.iter().map(|(name, key)| self.place_text(name, key)).collect();
            let whos = if by_engine { vec![String::new()] } else { self.keys("engine") };
            for who in whos {
                let figures: Vec<&Figure> = self
                    .in_slice(&slice)
                    .filter(|figure| by_engine || figure.who_text() == who)
                    .collect();
                if figures.is_empty() {
                    continue;
                }
                let mut title = slice_title.clone();
                if !by_engine {
                    title.push(who);
                }
                let reported = figures.iter().all(|figure| figure.reported);
                grids.push(self.grid(&figures, title.join(", "), reported));
            }
        }
        grids
    }

    fn grid(&self, figures: &[&Figure], title: String, reported: bool) -> Grid {
        let there = |axis: &str, key: &String| {
            let on = |figure: &&&Figure| self.is_on(figure, axis, key);
            figures.iter().any(|figure| on(&figure))
        };
        let keys = |axis: &str| -> Vec<String> {
            self.keys(axis).into_iter().filter(|key| there(axis, key)).collect()
        };
        let columns = keys(&self.columns);
        let head = |axis: &str, key: &str| match reported {
            true => key_text(key),
            false => self.sizes.label(axis, key),
        };
        let row = |row: String| {
            let cell = |column: &String| {
                let here = |figure: &&&Figure| {
                    self.is_on(figure, &self.rows, &row)
                        && self.is_on(figure, &self.columns, column)
                };
                figures.iter().find(here).map(|figure| (*figure).clone())
            };
            let cells = columns.iter().map(cell).collect();
            (head(&self.rows, &row), cells)
        };
        let rows = keys(&self.rows).into_iter().map(row).collect();
        let columns = columns.iter().map(|column| head(&self.columns, column)).collect();
        Grid { title, columns, rows, reported }
    }

    fn is_on(&self, figure: &Figure, axis: &str, key: &str) -> bool {
        match axis {
            "engine" => figure.who_text() == key,
            _ => figure.on(axis).is_none_or(|own| own == key),
        }
    }
}
