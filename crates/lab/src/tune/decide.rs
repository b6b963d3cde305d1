//! The decisions, as functions of measurements: which sets go on, which set is recommended, which
//! knobs stay.
//!
//! No function here runs anything, so each is tested with made-up measurements.

use super::constraint::Constraint;
use super::knob::Setting;
use super::measures::{Combine, Objective, RunMeasures};
use super::outcome::{Judged, WorkloadGain};
use super::paired::Gain;

/// Smallest ratio to the default set that a recommended set may have on a workload.
pub const GUARD: f64 = 0.97;
/// Smallest ratio to the default set that is worth a recommendation.
pub const GAIN_MIN: f64 = 1.02;
/// Rounds end when every interval is within this share of its ratio.
pub const PRECISION: f64 = 0.05;
/// Probability that an interval has the true ratio.
pub const CONFIDENCE: f64 = 0.95;
/// Smallest number of rounds that a recommendation needs.
pub const ROUNDS_MIN: usize = 4;
/// Loss of score for each unit of the logarithm by which a workload is below the guard.
const GUARD_WEIGHT: f64 = 3.0;

/// What the tuner improves, and the limits that it keeps.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The measure to improve.
    pub objective: Objective,
    /// Combination of the workloads' gains.
    pub combine: Combine,
    /// Limits that every workload keeps.
    pub constraints: Vec<Constraint>,
}

/// Several sets that ran in the same rounds. The first set is the base.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// The sets.
    pub sets: Vec<Setting>,
    /// The runs of each set, one per round.
    pub runs: Vec<Vec<RunMeasures>>,
}

impl Rounds {
    /// Creates rounds of these sets, without runs.
    pub fn new(sets: Vec<Setting>) -> Rounds {
        let runs = vec![Vec::new(); sets.len()];
        Rounds { sets, runs }
    }

    /// Adds a round: one run of each set.
    pub fn push(&mut self, round: Vec<RunMeasures>) {
        for (runs, run) in self.runs.iter_mut().zip(round) {
            runs.push(run);
        }
    }

    /// Returns the number of complete rounds.
    pub fn len(&self) -> usize {
        self.runs.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// Returns whether there is no complete round.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the gain of set `of` over set `to`; `None` without rounds or if a run failed.
    pub fn gain(&self, terms: &Terms, of: usize, to: usize, confidence: f64) -> Option<Gain> {
        let pairs = self.runs[of].iter().zip(&self.runs[to]);
        let logs: Option<Vec<f64>> =
            pairs.map(|(of, to)| terms.combine.log_gain(terms.objective, of, to)).collect();
        Gain::of(&logs?, confidence)
    }

    /// Returns the gains of set `of` over set `to` on each workload that has the objective.
    pub fn workload_gains(&self, terms: &Terms, of: usize, to: usize) -> Vec<WorkloadGain> {
        let Some(first) = self.runs[of].first() else { return Vec::new() };
        let gain = |index: usize| {
            let pairs = self.runs[of].iter().zip(&self.runs[to]);
            let log = |(of, to): (&RunMeasures, &RunMeasures)| {
                terms.objective.log_gain(of.workloads.get(index)?, to.workloads.get(index)?)
            };
            Gain::of(&pairs.map(log).collect::<Option<Vec<f64>>>()?, CONFIDENCE)
        };
        let named = first.workloads.iter().enumerate();
        named
            .filter_map(|(index, own)| {
                Some(WorkloadGain { workload: own.workload.clone(), gain: gain(index)? })
            })
            .collect()
    }

    /// Returns whether the interval of every set's ratio to the base is narrow enough. A set with
    /// failed runs needs no more rounds.
    pub fn is_precise(&self, terms: &Terms) -> bool {
        self.len() >= ROUNDS_MIN
            && (1..self.sets.len()).all(|set| {
                self.gain(terms, set, 0, CONFIDENCE).is_none_or(|gain| gain.is_within(PRECISION))
            })
    }

    /// Returns the first failure of a set.
    pub fn failure(&self, set: usize) -> Option<&str> {
        self.runs[set].iter().find_map(|run| run.error.as_deref())
    }
}

/// Judges set `set` against the base, which is set 0. `compared` is the number of sets among which
/// the best is chosen: the confidence of each interval grows with it (Bonferroni), so that the
/// probability of recommending a set without a gain stays that of one comparison.
pub fn judge(rounds: &Rounds, set: usize, terms: &Terms, compared: usize) -> Judged {
    let confidence = 1.0 - (1.0 - CONFIDENCE) / compared.max(1) as f64;
    let gain = rounds.gain(terms, set, 0, confidence);
    let workloads = rounds.workload_gains(terms, set, 0);
    let rejected = rejection(rounds, set, terms, gain.as_ref(), &workloads);
    Judged { setting: rounds.sets[set].clone(), gain, workloads, rejected }
}

/// Returns the reason against a set; `None` if it can be recommended.
fn rejection(
    rounds: &Rounds,
    set: usize,
    terms: &Terms,
    gain: Option<&Gain>,
    workloads: &[WorkloadGain],
) -> Option<String> {
    if let Some(failure) = rounds.failure(set) {
        return Some(format!("a run failed: {failure}"));
    }
    let Some(gain) = gain else {
        return Some(format!("{} was not measured", terms.objective.name()));
    };
    let runs: Vec<&RunMeasures> = rounds.runs[set].iter().collect();
    if let Some(broken) = terms.constraints.iter().find_map(|own| own.broken_by(&runs)) {
        return Some(broken);
    }
    if let Some(low) = workloads.iter().find(|own| own.gain.ratio < GUARD) {
        return Some(format!(
            "{} has {:.2} times the default set's {}, below the guard of {GUARD}",
            low.workload,
            low.gain.ratio,
            terms.objective.name()
        ));
    }
    if rounds.len() < ROUNDS_MIN {
        return Some(format!("{} of {ROUNDS_MIN} rounds ran", rounds.len()));
    }
    if !gain.is_shown() {
        return Some(format!("the gain is not shown: {gain}"));
    }
    (gain.ratio < GAIN_MIN)
        .then(|| format!("the gain is below {:.0} %: {gain}", (GAIN_MIN - 1.0) * 100.0))
}

/// Returns the index of the accepted set with the largest ratio.
pub fn best(judged: &[Judged]) -> Option<usize> {
    let ratio = |judged: &Judged| judged.gain.as_ref().map_or(0.0, |gain| gain.ratio);
    (0..judged.len())
        .filter(|&index| judged[index].rejected.is_none())
        .max_by(|&a, &b| ratio(&judged[a]).total_cmp(&ratio(&judged[b])))
}

/// Returns the score of a set in the search: the logarithm of its gain over the default set,
/// lowered for each workload below the guard.
pub fn score(combined: f64, workloads: &[f64]) -> f64 {
    let below = workloads.iter().map(|log| (log - GUARD.ln()).min(0.0));
    combined + GUARD_WEIGHT * below.sum::<f64>()
}

/// Returns the indexes of the `keep` largest finite scores, best first. Equal scores keep their
/// order.
pub fn survivors(scores: &[f64], keep: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).filter(|&i| scores[i].is_finite()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order.truncate(keep);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::measures::WorkloadMeasures;

    fn terms() -> Terms {
        Terms { objective: Objective::Throughput, combine: Combine::Mean, constraints: Vec::new() }
    }

    fn run(speeds: &[f64]) -> RunMeasures {
        let of = |(index, speed): (usize, &f64)| WorkloadMeasures {
            workload: format!("w{index}"),
            ops_per_sec: Some(*speed),
            p99_micros: Some(1e6 / speed),
            ..WorkloadMeasures::default()
        };
        RunMeasures { workloads: speeds.iter().enumerate().map(of).collect(), ..Default::default() }
    }

    /// Rounds of the default set and one other, whose speeds are these multiples.
    fn rounds(other: &[[f64; 2]]) -> Rounds {
        let set = Setting([("block".to_string(), "1".to_string())].into());
        let mut rounds = Rounds::new(vec![Setting::default(), set]);
        for (index, [first, second]) in other.iter().enumerate() {
            // The machine gets slower from round to round.
            let base = 1000.0 / (1.0 + index as f64);
            rounds.push(vec![run(&[base, base]), run(&[base * first, base * second])]);
        }
        rounds
    }

    #[test]
    fn clear_gain_is_accepted_under_drift() {
        let rounds = rounds(&[[1.3, 1.2], [1.31, 1.22], [1.28, 1.19], [1.3, 1.2]]);
        let judged = judge(&rounds, 1, &terms(), 3);
        assert_eq!(judged.rejected, None);
        assert_eq!(judged.workloads.len(), 2);
        assert!((judged.gain.expect("measured").ratio - 1.25).abs() < 0.02);
        assert!(rounds.is_precise(&terms()));
    }

    #[test]
    fn loss_on_one_workload_is_rejected_by_the_guard() {
        let rounds = rounds(&[[2.0, 0.9], [2.0, 0.9], [2.0, 0.91], [2.01, 0.9]]);
        let why = judge(&rounds, 1, &terms(), 1).rejected.expect("below the guard");
        assert!(why.contains("w1 has 0.90 times"), "{why}");
    }

    #[test]
    fn small_unclear_and_short_gains_are_rejected() {
        let small = rounds(&[[1.01, 1.01]; 5]);
        assert!(judge(&small, 1, &terms(), 1).rejected.expect("small").contains("below 2 %"));
        let unclear = rounds(&[[1.4, 1.2], [1.0, 1.0], [1.5, 1.4], [0.8, 0.9]]);
        assert!(judge(&unclear, 1, &terms(), 1).rejected.expect("unclear").contains("not shown"));
        assert!(!unclear.is_precise(&terms()));
        let short = rounds(&[[1.4, 1.4], [1.4, 1.4]]);
        assert!(judge(&short, 1, &terms(), 1).rejected.expect("short").contains("2 of 4"));
    }

    #[test]
    fn broken_constraint_and_failed_run_are_rejected() {
        let mut own = terms();
        own.constraints.push(Constraint::parse("p99<1us").expect("right"));
        let fast = rounds(&[[2.0, 2.0]; 4]);
        let why = judge(&fast, 1, &own, 1).rejected.expect("broken");
        assert!(why.contains("breaks p99<1us"), "{why}");
        let mut failed = fast;
        failed.runs[1][2].error = Some("no space left".into());
        let judged = judge(&failed, 1, &terms(), 1);
        assert!(judged.rejected.expect("failed").contains("no space left"));
        assert_eq!(judged.gain, None);
    }

    #[test]
    fn best_is_the_accepted_set_with_the_largest_ratio() {
        let judged = |ratio: f64, rejected: bool| Judged {
            gain: Gain::of(&[ratio.ln()], 0.95),
            rejected: rejected.then(|| "no".to_string()),
            ..Judged::default()
        };
        assert_eq!(best(&[judged(1.1, false), judged(3.0, true), judged(1.2, false)]), Some(2));
        assert_eq!(best(&[judged(3.0, true)]), None);
    }

    #[test]
    fn survivors_are_the_best_and_a_guarded_loss_costs_score() {
        assert_eq!(survivors(&[0.1, f64::NAN, 0.3, f64::NEG_INFINITY, 0.3], 2), [2, 4]);
        assert_eq!(score(0.2, &[0.2, 0.2]), 0.2);
        assert!(score(0.2, &[0.8, -0.4]) < 0.0);
    }
}
