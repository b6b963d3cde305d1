//! The test of a change between two samples, and the error of many such tests together.
//!
//! A test is Welch's on logarithms (Welch: "The generalization of 'Student's' problem when several
//! different population variances are involved", 1947). It needs few runs, unlike the test of a
//! rank: five runs against five can reach a p value of 0.008 there and no less. Many tests are
//! adjusted by Holm's method (Holm: "A simple sequentially rejective multiple test procedure",
//! 1979). The distribution comes from the crate `statrs`.
//!
//! Invariants:
//! 1. A test has two finite values on each side.
//! 2. An adjusted p value is not smaller than its plain one, and the order is kept.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A tested change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tested {
    /// Mean of the values after, minus the mean before.
    pub difference: f64,
    /// Probability of a difference of this size, or a larger one, if nothing changed.
    pub p: f64,
}

/// Tests whether the mean of `after` differs from the mean of `before`. Both are logarithms. `None`
/// with fewer than two values on a side, or with a value that is not finite.
pub fn welch(before: &[f64], after: &[f64]) -> Option<Tested> {
    let is_whole = |values: &[f64]| values.len() > 1 && values.iter().all(|v| v.is_finite());
    if !is_whole(before) || !is_whole(after) {
        return None;
    }
    let (old, old_error) = mean_and_error(before);
    let (new, new_error) = mean_and_error(after);
    let difference = new - old;
    let error = old_error + new_error;
    // Values without scatter, such as counts: any difference is a change.
    if error <= f64::EPSILON.powi(2) {
        let p = if difference.abs() <= f64::EPSILON { 1.0 } else { 0.0 };
        return Some(Tested { difference, p });
    }
    let part = |error: f64, count: usize| error * error / (count as f64 - 1.0);
    let freedom = error * error / (part(old_error, before.len()) + part(new_error, after.len()));
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let p = 2.0 * student.cdf(-(difference / error.sqrt()).abs());
    Some(Tested { difference, p: p.clamp(0.0, 1.0) })
}

/// Returns the mean of values and the variance of this mean.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (count - 1.0) / count)
}

/// Returns the p values adjusted for all of them: if those below a limit count as changes, the
/// probability of any wrong one is at most that limit.
pub fn holm(plain: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..plain.len()).collect();
    order.sort_by(|&one, &other| plain[one].total_cmp(&plain[other]));
    let mut adjusted = vec![1.0; plain.len()];
    let mut largest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max(plain[index] * (plain.len() - rank) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::rng::Rng;

    #[test]
    fn test_of_known_samples() {
        // Means 2 and 4, variances 1 and 4, three values each: t = 2 / sqrt(5 / 3) = 1.549193 with
        // 25 / 8.5 = 2.941176 degrees of freedom.
        let tested = welch(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]).expect("tested");
        assert_eq!(tested.difference, 2.0);
        assert!((tested.p - 0.220_881).abs() < 1e-6, "{tested:?}");
        let back = welch(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0]).expect("tested");
        assert_eq!((back.difference, back.p), (-2.0, tested.p));
    }

    #[test]
    fn missing_and_constant_values() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(welch(&[1.0, f64::NEG_INFINITY], &[1.0, 2.0]), None);
        assert_eq!(welch(&[1.0, 1.0], &[1.0, 1.0]).expect("tested").p, 1.0);
        assert_eq!(welch(&[1.0, 1.0], &[1.5, 1.5]).expect("tested").p, 0.0);
    }

    #[test]
    fn adjusted_values_of_a_known_family() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (own, wanted) in adjusted.iter().zip(expected) {
            assert!((own - wanted).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    #[test]
    fn families_without_a_change_rarely_show_one() {
        let mut rng = Rng::new(9);
        let mut wrong = 0;
        for _ in 0..1000 {
            let mut five = || -> Vec<f64> {
                let mut log = || (0..12).map(|_| rng.below(1 << 20)).sum::<u64>() as f64;
                (0..5).map(|_| log() / f64::from(1 << 20)).collect()
            };
            let mut p = || welch(&five(), &five()).expect("five runs").p;
            let adjusted = holm(&(0..8).map(|_| p()).collect::<Vec<f64>>());
            wrong += u32::from(adjusted.iter().any(|&p| p < 0.05));
        }
        assert!((20..70).contains(&wrong), "{wrong} of 1000 families");
    }
}
