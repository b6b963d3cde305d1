//! Medians, and the ratio of two medians with its bootstrap interval.
//!
//! Percentile bootstrap (Efron: "Bootstrap methods: another look at the jackknife", 1979).

use serde::{Deserialize, Serialize};

use crate::workload::rng::Rng;

/// A ratio with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Median of one sample over the median of the other.
    pub ratio: f64,
    /// Ends of the interval; `None` with fewer than two samples on either side.
    pub interval: Option<(f64, f64)>,
}

const RESAMPLES: usize = 2000;
const SEED: u64 = 0x00B0_0757_4A9B;

/// Returns the median (mean of the middle two); `None` without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Returns median(`of`) / median(`to`) with a 95 % interval from resampling both, with a fixed
/// seed.
pub fn ratio(of: &[f64], to: &[f64]) -> Option<Ratio> {
    let point = median(of)? / median(to).filter(|&base| base > 0.0)?;
    if of.len() < 2 || to.len() < 2 {
        return Some(Ratio { ratio: point, interval: None });
    }
    let mut rng = Rng::new(SEED);
    let mut draw = || resample(of, &mut rng) / resample(to, &mut rng);
    let interval = ends((0..RESAMPLES).map(|_| draw()).collect());
    Some(Ratio { ratio: point, interval })
}

/// Returns a 95 % interval of the median from resampling, with a fixed seed; `None` with fewer than
/// two samples.
pub fn median_interval(samples: &[f64]) -> Option<(f64, f64)> {
    if samples.len() < 2 {
        return None;
    }
    let mut rng = Rng::new(SEED);
    ends((0..RESAMPLES).map(|_| resample(samples, &mut rng)).collect())
}

/// Returns the median of as many samples as there are, each drawn from all of them.
fn resample(samples: &[f64], rng: &mut Rng) -> f64 {
    let draw = |_| samples[rng.below(samples.len() as u64) as usize];
    median(&(0..samples.len()).map(draw).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}

/// Returns the ends of the middle 95 % of the finite values.
fn ends(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.retain(|value| value.is_finite());
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len() as f64 - 1.0) * share).round() as usize);
    at(0.025).copied().zip(at(0.975).copied())
}

impl Ratio {
    /// Ratio of the base engine to itself: exactly 1, independent of samples.
    pub const BASE: Ratio = Ratio { ratio: 1.0, interval: Some((1.0, 1.0)) };

    /// Returns whether this is the ratio of the base engine to itself.
    pub fn is_base(&self) -> bool {
        *self == Ratio::BASE
    }

    /// Returns whether the interval excludes 1; false without an interval.
    pub fn shows_difference(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN, 1.0]), Some(1.0));
    }

    #[test]
    fn interval_of_a_median_is_within_the_samples() {
        assert_eq!(median_interval(&[3.0]), None);
        let (low, high) = median_interval(&[1.0, 2.0, 3.0, 4.0, 50.0]).expect("samples");
        assert!((1.0..3.0).contains(&low) && high > 3.0 && high <= 50.0, "{low} {high}");
    }

    #[test]
    fn clear_and_unclear_differences() {
        let clear = ratio(&[20.0, 21.0, 22.0], &[10.0, 10.5, 11.0]).expect("samples");
        assert_eq!(clear.ratio, 2.0);
        assert!(clear.shows_difference());
        let unclear = ratio(&[9.0, 12.0, 10.0], &[11.0, 10.0, 9.5]).expect("samples");
        assert!(!unclear.shows_difference(), "{unclear:?}");
        let single = ratio(&[2.0], &[1.0]).expect("samples");
        assert_eq!((single.ratio, single.interval), (2.0, None));
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }
}
