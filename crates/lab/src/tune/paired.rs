//! Statistics of paired rounds: the mean ratio of two sets with its confidence interval.
//!
//! The logarithms of the ratios are averaged, and the interval is Student's (Student: "The probable
//! error of a mean", 1908). A drift of the machine changes both sets of a round alike, so it is not
//! in the ratios. The quantiles come from the crate `statrs`.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean ratio. Above 1 is better, whether more or less of the measure is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Geometric mean of the rounds' ratios.
    pub ratio: f64,
    /// Ends of the interval; `None` with a single round.
    pub interval: Option<(f64, f64)>,
    /// Number of rounds.
    pub rounds: usize,
}

impl Gain {
    /// Returns the gain of rounds whose ratios have these natural logarithms, with an interval that
    /// has the true ratio with probability `confidence`. `None` without rounds, or if a logarithm
    /// is not finite.
    pub fn of(logs: &[f64], confidence: f64) -> Option<Gain> {
        if logs.is_empty() || logs.iter().any(|log| !log.is_finite()) {
            return None;
        }
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let interval = half_width(logs, mean, confidence)
            .map(|half| ((mean - half).exp(), (mean + half).exp()));
        Some(Gain { ratio: mean.exp(), interval, rounds: logs.len() })
    }

    /// Returns whether the whole interval is above 1.
    pub fn is_shown(&self) -> bool {
        self.interval.is_some_and(|(low, _)| low > 1.0)
    }

    /// Returns whether the whole interval is below 1.
    pub fn is_loss(&self) -> bool {
        self.interval.is_some_and(|(_, high)| high < 1.0)
    }

    /// Returns whether both ends of the interval are within `share` of the ratio.
    pub fn is_within(&self, share: f64) -> bool {
        self.interval.is_some_and(|(low, high)| {
            low >= self.ratio * (1.0 - share) && high <= self.ratio * (1.0 + share)
        })
    }
}

/// Returns the gain as text: the change in percent and its interval.
impl std::fmt::Display for Gain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
        write!(f, "{}", percent(self.ratio))?;
        match self.interval {
            Some((low, high)) => write!(f, " ({} to {})", percent(low), percent(high)),
            None => write!(f, " (one round, no interval)"),
        }
    }
}

fn half_width(logs: &[f64], mean: f64, confidence: f64) -> Option<f64> {
    if logs.len() < 2 {
        return None;
    }
    let freedom = logs.len() as f64 - 1.0;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / freedom;
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let quantile = student.inverse_cdf(0.5 + confidence / 2.0);
    Some(quantile * (variance / logs.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::rng::Rng;

    #[test]
    fn interval_of_a_known_sample() {
        // Mean 0.1, standard deviation 0.1, three rounds: t(0.975, 2) = 4.302653.
        let gain = Gain::of(&[0.0, 0.1, 0.2], 0.95).expect("rounds");
        let half = 4.302_653 * 0.1 / 3f64.sqrt();
        let (low, high) = gain.interval.expect("three rounds");
        assert!((gain.ratio.ln() - 0.1).abs() < 1e-9);
        assert!((low.ln() - (0.1 - half)).abs() < 1e-5, "{gain:?}");
        assert!((high.ln() - (0.1 + half)).abs() < 1e-5, "{gain:?}");
        assert!(!gain.is_shown() && !gain.is_loss());
    }

    #[test]
    fn rounds_that_are_missing_or_not_finite_give_no_gain() {
        assert_eq!(Gain::of(&[], 0.95), None);
        assert_eq!(Gain::of(&[0.1, f64::NAN], 0.95), None);
        let one = Gain::of(&[0.1], 0.95).expect("a round");
        assert!(one.interval.is_none() && !one.is_shown() && !one.is_within(0.5));
        assert!(one.to_string().contains("no interval"));
    }

    #[test]
    fn intervals_hold_the_true_ratio_as_often_as_they_say() {
        let mut rng = Rng::new(5);
        let mut inside = 0;
        for _ in 0..2000 {
            let mut log = || {
                let sum: u64 = (0..12).map(|_| rng.below(1 << 20)).sum();
                0.2 + 0.05 * (sum as f64 / f64::from(1 << 20) - 6.0)
            };
            let logs: Vec<f64> = (0..5).map(|_| log()).collect();
            let (low, high) = Gain::of(&logs, 0.95).and_then(|g| g.interval).expect("rounds");
            inside += u32::from(low <= 0.2f64.exp() && 0.2f64.exp() <= high);
        }
        assert!((1860..1940).contains(&inside), "{inside} of 2000 intervals");
    }
}
