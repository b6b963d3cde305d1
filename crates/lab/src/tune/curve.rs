//! Curves of the knobs: for each tried value of a knob, the median ratio of the trials with it to
//! the default set, with its bootstrap interval.
//!
//! The ratios are not independent: each trial is measured beside the best set so far, whose own
//! ratio is a factor of the trial's. The intervals do not account for it.
//!
//! Invariants:
//! 1. Every point is of trials that ran to their end. A value without one has no point.
//! 2. A knob with one point has no curve.
//! 3. An interval is of at least six trials.
//! 4. A finding says that a value is better than the default only if its interval and that of the
//!    default value do not overlap. The intervals are at 95 %, however many values are compared.

use serde::{Deserialize, Serialize};

use super::knob::{Knob, KnobTable, Role};
use super::outcome::Trial;
use crate::stats::compare::{median, median_interval};

/// Minimum number of trials with an interval. All of fewer trials are on one side of the true
/// median with a probability of more than 5 % (6.25 % of five, 3.1 % of six), so that even the
/// interval from the lowest to the highest would not cover it at 95 %.
const INTERVAL_TRIALS_MIN: usize = 6;

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
    /// Ends of its bootstrap interval at 95 %; `None` with fewer than 6 trials.
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
        let is_enough = ratios.len() >= INTERVAL_TRIALS_MIN;
        Some(CurvePoint {
            is_default: value == knob.default,
            score: median(&ratios)?,
            interval: is_enough.then(|| median_interval(&ratios)).flatten(),
            trials: ratios.len(),
            value,
        })
    };
    let points: Vec<CurvePoint> = values.into_iter().filter_map(point).collect();
    let finding = finding(knob, &points)?;
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
fn finding(knob: &Knob, points: &[CurvePoint]) -> Option<String> {
    if points.len() < 2 {
        return None;
    }
    let (name, own_default) = (&knob.name, &knob.default);
    let best = points.iter().max_by(|a, b| a.score.total_cmp(&b.score))?;
    let (value, score) = (&best.value, best.score);
    let highest = format!("had the highest median ({score:.2} times the default set)");
    Some(match points.iter().find(|point| point.is_default) {
        None => format!(
            "{name}: the trials with {value} {highest}; the default {own_default} was not tried \
             alone"
        ),
        Some(_) if best.is_default => {
            format!("{name}: the sets with the default value {value} {highest}")
        }
        Some(default) if best.is_above(default) => format!(
            "{name}: {value} is better than the default ({score:.2} times the default set; sets \
             with the default value {own_default}: {:.2})",
            default.score
        ),
        Some(default) => format!(
            "{name}: the trials with {value} {highest}; sets with the default value \
             {own_default}: {:.2}",
            default.score
        ),
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

    /// Returns six trials with a value, around a ratio.
    fn six(block: Option<&str>, ratio: f64) -> Vec<Trial> {
        (0..6).map(|step| trial(block, Some(ratio + 0.01 * f64::from(step)))).collect()
    }

    #[test]
    fn curve_has_the_measured_values_alone_and_one_value_is_no_curve() {
        let mut trials = [six(None, 0.9), six(Some("16384"), 1.2)].concat();
        trials.extend([trial(Some("16384"), None), trial(Some("8192"), None)]);
        let curves = curves(&table(), &trials);
        assert_eq!(curves.len(), 1, "{curves:?}");
        let own = &curves[0];
        assert_eq!((own.knob.as_str(), own.unit.as_deref()), ("block_size_bytes", Some("bytes")));
        let found: Vec<(&str, usize)> =
            own.points.iter().map(|point| (point.value.as_str(), point.trials)).collect();
        assert_eq!(found, [("4096", 6), ("16384", 6)]);
        assert!((own.points[1].score - 1.225).abs() < 1e-9, "{own:?}");
        let (low, high) = own.points[1].interval.expect("six trials");
        assert!(low >= 1.2 && high <= 1.26 && low < high, "{own:?}");
        assert!(own.points[0].is_default, "{own:?}");
        assert!(own.finding.contains("16384 is better than the default"), "{own:?}");
    }

    #[test]
    fn overlapping_intervals_and_few_trials_show_no_better_value() {
        let overlap = [six(None, 1.0), six(Some("8192"), 1.02)].concat();
        let few = [six(None, 0.5), six(Some("8192"), 2.0)[1..].to_vec()].concat();
        for trials in [&overlap, &few] {
            let curves = curves(&table(), trials);
            let finding = &curves[0].finding;
            assert!(finding.contains("the trials with 8192 had the highest median"), "{finding}");
            assert!(finding.contains("sets with the default value 4096: "), "{finding}");
            assert!(!finding.contains("better"), "{finding}");
        }
        let points = &curves(&table(), &few)[0].points;
        assert_eq!((points[1].trials, points[1].interval), (5, None));
        assert!(points[0].interval.is_some() && curves(&table(), &[]).is_empty());
    }

    #[test]
    fn values_are_compared_with_the_default_alone() {
        let others = [six(Some("8192"), 0.5), six(Some("16384"), 2.0)].concat();
        let finding = &curves(&table(), &others)[0].finding;
        assert!(finding.contains("the trials with 16384 had the highest median"), "{finding}");
        assert!(finding.ends_with("the default 4096 was not tried alone"), "{finding}");
        let best = [six(None, 1.0), six(Some("8192"), 0.5)].concat();
        let finding = &curves(&table(), &best)[0].finding;
        assert!(finding.contains("the sets with the default value 4096 had the highest"));
    }
}
