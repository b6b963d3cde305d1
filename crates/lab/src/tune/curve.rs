//! Curves of the knobs: for each tried value of a knob, the median ratio of the trials with it to
//! the default set, with its bootstrap interval.
//!
//! Invariants:
//! 1. Every point is of trials that ran to their end. A value without one has no point.
//! 2. A knob with one point has no curve.
//! 3. A finding says that a value is better only if the two intervals do not overlap.

use serde::{Deserialize, Serialize};

use super::knob::{Knob, KnobTable, Role};
use super::outcome::Trial;
use crate::stats::compare::{median, median_interval};

/// The tried values of one knob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnobCurve {
    /// Name of the knob.
    pub knob: String,
    /// Unit of its values; `None` for names and plain numbers.
    pub unit: Option<String>,
    /// Whether neighbouring values have similar effects.
    pub ordered: bool,
    /// The values, in the order of the knob's levels.
    pub points: Vec<CurvePoint>,
    /// Sentence with what the points show.
    pub finding: String,
}

/// One tried value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The value.
    pub value: String,
    /// Whether the default set has it.
    pub is_default: bool,
    /// Median ratio to the default set over the trials with this value. Above 1 is better.
    pub score: f64,
    /// Ends of its bootstrap interval at 95 %; `None` with one trial.
    pub interval: Option<(f64, f64)>,
    /// Number of trials with this value.
    pub trials: usize,
}

impl CurvePoint {
    /// Returns whether the whole interval is above that of `other`.
    fn is_above(&self, other: &CurvePoint) -> bool {
        let ends = self.interval.zip(other.interval);
        ends.is_some_and(|((low, _), (_, high))| low > high)
    }
}

/// Returns the curves of all knobs of which several values were measured.
pub fn curves(table: &KnobTable, trials: &[Trial]) -> Vec<KnobCurve> {
    table.knobs.iter().filter_map(|knob| curve(knob, trials)).collect()
}

fn curve(knob: &Knob, trials: &[Trial]) -> Option<KnobCurve> {
    let value_of = |trial: &Trial| trial.setting.0.get(&knob.name).unwrap_or(&knob.default).clone();
    let mut values = knob.levels.clone();
    if !values.contains(&knob.default) {
        values.insert(0, knob.default.clone());
    }
    for value in trials.iter().map(value_of) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let point = |value: String| {
        let own = trials.iter().filter(|trial| value_of(trial) == value);
        let ratios: Vec<f64> = own.filter_map(|trial| trial.ratio).collect();
        Some(CurvePoint {
            is_default: value == knob.default,
            score: median(&ratios)?,
            interval: median_interval(&ratios),
            trials: ratios.len(),
            value,
        })
    };
    let points: Vec<CurvePoint> = values.into_iter().filter_map(point).collect();
    let finding = finding(&knob.name, &points)?;
    let (unit, ordered) = (unit(knob).map(String::from), knob.ordered);
    Some(KnobCurve { knob: knob.name.clone(), unit, ordered, points, finding })
}

fn unit(knob: &Knob) -> Option<&'static str> {
    match knob.role {
        Role::Memtable(_) | Role::Cache | Role::Block | Role::File => Some("bytes"),
        Role::Filter => Some("bits per key"),
        _ if knob.name.ends_with("_bytes") => Some("bytes"),
        _ => None,
    }
}

/// Returns what the points show; `None` with fewer than two.
fn finding(knob: &str, points: &[CurvePoint]) -> Option<String> {
    if points.len() < 2 {
        return None;
    }
    let best = points.iter().max_by(|a, b| a.score.total_cmp(&b.score))?;
    let default = points.iter().find(|point| point.is_default);
    let above = |point: &CurvePoint| {
        format!(
            "{knob}: {} is better than {} ({:.2} times the default set against {:.2})",
            best.value, point.value, best.score, point.score
        )
    };
    if let Some(default) = default.filter(|default| best.is_above(default)) {
        return Some(above(default));
    }
    let lowest = points.iter().min_by(|a, b| a.score.total_cmp(&b.score))?;
    Some(match default {
        _ if best.is_above(lowest) => above(lowest),
        Some(default) if default != best => {
            format!("{knob}: no value is shown to be better than the default {}", default.value)
        }
        _ => format!("{knob}: no value is shown to be better than another"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::knob::Setting;

    fn knob(name: &str, role: Role, levels: &[&str]) -> Knob {
        Knob {
            name: name.into(),
            flag: name.into(),
            default: levels[0].into(),
            default_bytes: None,
            levels: levels.iter().map(ToString::to_string).collect(),
            ordered: true,
            role,
        }
    }

    fn table() -> KnobTable {
        let block = knob("block_size_bytes", Role::Block, &["4096", "8192", "16384"]);
        let bits = knob("bits", Role::Filter, &["10", "16"]);
        KnobTable { engine: "x".into(), knobs: vec![block, bits], ..KnobTable::default() }
    }

    fn trial(block: Option<&str>, ratio: Option<f64>) -> Trial {
        let own = block.map(|value| ("block_size_bytes".to_string(), value.to_string()));
        Trial {
            setting: Setting(own.into_iter().collect()),
            ratio,
            workloads: Vec::new(),
            best_ratio: 1.0,
            error: None,
        }
    }

    #[test]
    fn curve_has_the_measured_values_alone_and_one_value_is_no_curve() {
        let trials = [
            trial(None, Some(0.9)),
            trial(None, Some(1.0)),
            trial(Some("16384"), Some(1.4)),
            trial(Some("16384"), Some(1.2)),
            trial(Some("16384"), None),
            trial(Some("8192"), None),
        ];
        let curves = curves(&table(), &trials);
        assert_eq!(curves.len(), 1, "{curves:?}");
        let own = &curves[0];
        assert_eq!((own.knob.as_str(), own.unit.as_deref()), ("block_size_bytes", Some("bytes")));
        let found: Vec<(&str, usize)> =
            own.points.iter().map(|point| (point.value.as_str(), point.trials)).collect();
        assert_eq!(found, [("4096", 2), ("16384", 2)]);
        assert!((own.points[1].score - 1.3).abs() < 1e-9, "{own:?}");
        let (low, high) = own.points[1].interval.expect("two trials");
        assert!(low >= 1.2 && high <= 1.4 && low < high, "{own:?}");
        assert!(own.points[0].is_default && own.finding.contains("16384 is better than 4096"));
    }

    #[test]
    fn overlapping_intervals_and_single_trials_show_nothing() {
        let overlap = [
            trial(None, Some(0.9)),
            trial(None, Some(1.3)),
            trial(Some("8192"), Some(1.2)),
            trial(Some("8192"), Some(1.4)),
        ];
        let single = [trial(None, Some(0.5)), trial(Some("8192"), Some(2.0))];
        for trials in [&overlap[..], &single[..]] {
            let curves = curves(&table(), trials);
            assert!(curves[0].finding.contains("no value is shown"), "{curves:?}");
        }
        assert_eq!(curves(&table(), &single)[0].points[1].interval, None);
        assert!(curves(&table(), &[]).is_empty());
    }
}
