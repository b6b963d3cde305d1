//! Descriptions of the actual sizes beside the document's: sizes of points, values of axes,
//! fractions.
//!
//! Tables and charts are laid out by the document's values, so that reported figures line up. The
//! displayed values are those of the runs.

use std::collections::BTreeMap;

use super::table::{bytes_text, count_text};
use crate::experiment::check::Experiment;
use crate::experiment::file::SeriesFile;
use crate::experiment::plan::{is_count, params_run};
use crate::record::lab::{LabRecord, PointRecord};
use crate::run::config::bytes_of;

/// One value of an axis as used in the runs.
#[derive(Clone, Debug, PartialEq)]
struct Ran {
    /// Value as text.
    text: String,
    /// Value as a number, in the axis' unit.
    number: f64,
}

/// Values used in the runs for the axes of a series.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// Values by axis and document value; contains only values that differ from the document's.
    ran: BTreeMap<(String, String), Ran>,
    /// Origin of the other values, for display.
    whose: &'static str,
}

impl Sizes {
    /// Returns the sizes of one series.
    pub fn of(experiment: &Experiment, series: &SeriesFile, record: &LabRecord) -> Sizes {
        let mut ran = BTreeMap::new();
        for point in record.points.iter().filter(|point| point.series == series.name) {
            for (name, value) in run_at(experiment, series, point) {
                let document = point.params.iter().find(|(own, _)| *own == name);
                let Some((_, document)) = document else { continue };
                let Some(number) = number_of(&value) else { continue };
                let bytes = name != "entries" && !is_count(&name);
                let text = if bytes { bytes_text(number) } else { count_text(number) };
                ran.insert((name, document.clone()), Ran { text, number });
            }
            for step in &point.steps {
                let number = step.put_bytes as f64;
                // A series with varied sizes writes different amounts in the same step.
                let key = ("step".to_string(), step.step.clone());
                if step.put_bytes > 0 {
                    ran.entry(key).or_insert(Ran { text: bytes_text(number), number });
                }
            }
        }
        Sizes { ran, whose: whose(experiment) }
    }

    fn ran(&self, axis: &str, key: &str) -> Option<&Ran> {
        self.ran.get(&(axis.to_string(), key.to_string()))
    }

    /// Describes a value of an axis: the value in the run, and the document's if different.
    pub fn label(&self, axis: &str, key: &str) -> String {
        match self.ran(axis, key) {
            Some(ran) => format!("{} ({} {})", ran.text, self.whose, key_text(key)),
            None => key_text(key),
        }
    }

    /// Describes the value in the run with few characters, and the document's value if different.
    pub fn mark(&self, axis: &str, key: &str) -> (String, Option<String>) {
        match self.ran(axis, key) {
            Some(ran) => (ran.text.clone(), Some(key_text(key))),
            None => (key_text(key), None),
        }
    }

    /// Returns the value in the run as a number; `None` if it is not a number.
    pub fn number(&self, axis: &str, key: &str) -> Option<f64> {
        self.ran(axis, key).map(|ran| ran.number).or_else(|| number_of(key))
    }

    /// Returns whether any value of an axis in the runs differs from the document's.
    pub fn differ(&self, axis: &str) -> bool {
        self.ran.keys().any(|(own, _)| own == axis)
    }

    /// Describes the quantity of an axis.
    pub fn axis(&self, axis: &str) -> String {
        match axis {
            "step" if self.differ(axis) => "data put so far".into(),
            _ => axis.into(),
        }
    }

    /// Describes a point and a step within the series, by the parameters that vary; each part
    /// begins with a comma.
    pub fn place(
        &self,
        series: &SeriesFile,
        record: &LabRecord,
        (index, step): (usize, Option<&str>),
    ) -> String {
        let points = || record.points.iter().filter(|point| point.series == series.name);
        let varied =
            |param: &&(String, String)| points().any(|point| !point.params.contains(param));
        let params = record.points[index].params.iter().filter(varied);
        let params = params.map(|(name, value)| (name.as_str(), value.as_str()));
        let all = params.chain(step.map(|step| ("step", step)));
        all.map(|(axis, key)| format!(", {} {}", self.axis(axis), self.label(axis, key))).collect()
    }

    /// Returns the origin of the sizes that differ from those in the runs.
    pub fn whose(&self) -> &'static str {
        self.whose
    }
}

/// Parses a key as a number: `4096`, `4M`.
pub fn number_of(key: &str) -> Option<f64> {
    let plain = key.parse::<f64>().ok();
    plain.or_else(|| bytes_of(key).map(|bytes| bytes as f64))
}

/// Formats a document's value; long counts have thousands separators.
pub fn key_text(key: &str) -> String {
    match key.parse::<u64>() {
        Ok(count) if count >= 10_000 => count_text(count as f64),
        _ => key.to_string(),
    }
}

/// Returns the parameters of a point run with a different value. For a record without this field,
/// they are derived from its experiment.
fn run_at(
    experiment: &Experiment,
    series: &SeriesFile,
    point: &PointRecord,
) -> Vec<(String, String)> {
    if !point.params_run.is_empty() {
        return point.params_run.clone();
    }
    params_run(experiment, series, &point.params, point.share)
}

/// Returns the origin of the sizes in an experiment.
fn whose(experiment: &Experiment) -> &'static str {
    if experiment.file.document.is_some() { "document" } else { "full size" }
}

/// Formats the minimum and maximum as one text if equal, otherwise with `to` between them.
fn range(mut values: Vec<u64>, text: impl Fn(f64) -> String) -> Option<String> {
    values.sort_unstable();
    let (low, high) = (text(*values.first()? as f64), text(*values.last()? as f64));
    Some(if low == high { low } else { format!("{low} to {high}") })
}

/// Formats a fraction in per cent with two significant digits.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = (1.0 - percent.max(1e-6).log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{percent:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string() + " %",
        false => text + " %",
    }
}

/// Describes the fraction of the document's sizes in the runs, and the `--scale`.
pub fn share_text(experiment: &Experiment, record: &LabRecord) -> String {
    let mut shares: Vec<f64> = record.points.iter().map(|point| point.share).collect();
    shares.sort_unstable_by(f64::total_cmp);
    let whole =
        if experiment.file.document.is_some() { "the document's sizes" } else { "full size" };
    let share = match (shares.first(), shares.last()) {
        (Some(&low), Some(&high)) if low == high && low == 1.0 => whole.to_string(),
        (Some(&low), Some(&high)) if low == high => format!("{} of {whole}", percent(low)),
        (Some(&low), Some(&high)) => format!("{} to {} of {whole}", percent(low), percent(high)),
        _ => "nothing".into(),
    };
    format!("{share} (--scale {})", record.scale)
}

/// Describes the sizes of a series' runs: pairs and bytes, and the document's pairs if different.
pub fn ran_text(experiment: &Experiment, record: &LabRecord, series: &str) -> Option<String> {
    let points: Vec<&PointRecord> =
        record.points.iter().filter(|point| point.series == series).collect();
    let entries = range(points.iter().map(|point| point.entries).collect(), count_text)?;
    let bytes = range(points.iter().filter_map(|point| point.bytes).collect(), bytes_text);
    let document = points.iter().filter_map(|point| point.document_entries);
    let document = range(document.collect(), count_text).filter(|document| *document != entries);
    let mut text = format!("Ran: {entries} entries");
    text += &bytes.map_or(String::new(), |bytes| format!(", {bytes} of keys and values"));
    if let Some(document) = document {
        let share = range_of_shares(&points);
        text += &format!(" ({} {document}: {share} of it)", whose(experiment));
    }
    Some(text + ".")
}

fn range_of_shares(points: &[&PointRecord]) -> String {
    let share = |point: &&PointRecord| {
        let document = point.document_entries.unwrap_or(point.entries).max(1);
        point.entries as f64 / document as f64
    };
    let low = points.iter().map(share).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(share).fold(0.0, f64::max);
    let (low, high) = (percent(low), percent(high));
    if low == high { low } else { format!("{low} to {high}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_two_digits() {
        let texts = [1.0, 0.3, 0.0024, 0.012, 0.0000999, 0.34].map(percent);
        assert_eq!(texts, ["100 %", "30 %", "0.24 %", "1.2 %", "0.01 %", "34 %"]);
    }

    #[test]
    fn range_of_one_value_shows_it_once() {
        assert_eq!(range(vec![9600, 800], count_text).as_deref(), Some("800 to 9,600"));
        assert_eq!(range(vec![800, 800], count_text).as_deref(), Some("800"));
        assert_eq!(range(Vec::new(), count_text), None);
    }
}
