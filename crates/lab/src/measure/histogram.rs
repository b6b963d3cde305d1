//! Latencies of single operations. They are measured only on request.
//!
//! HdrHistogram with three significant digits, in nanoseconds. Without a histogram the clock is
//! read twice per task, so there is no cost per operation.

use serde::{Deserialize, Serialize};

/// A histogram of latencies in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies(hdrhistogram::Histogram<u64>);

/// Maximum latency recorded exactly, in ns: one hour.
const NANOS_MAX: u64 = 3_600_000_000_000;

/// Percentiles of one task, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Number of operations counted.
    pub count: u64,
    /// Mean.
    pub mean_micros: f64,
    /// Standard deviation.
    pub deviation_micros: f64,
    /// Minimum.
    pub min_micros: f64,
    /// Median.
    pub p50_micros: f64,
    /// 90th percentile.
    pub p90_micros: f64,
    /// 99th percentile.
    pub p99_micros: f64,
    /// 99.9th percentile.
    pub p999_micros: f64,
    /// 99.99th percentile.
    pub p9999_micros: f64,
    /// Maximum.
    pub max_micros: f64,
    /// 95th percentile; 0 in records older than this field.
    #[serde(default)]
    pub p95_micros: f64,
    /// The whole curve: a fraction of the operations and its quantile, in microseconds.
    #[serde(default)]
    pub curve: Vec<(f64, f64)>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

impl Latencies {
    /// Creates an empty histogram.
    pub fn new() -> Latencies {
        let made = hdrhistogram::Histogram::new_with_bounds(1, NANOS_MAX, 3);
        Latencies(made.expect("the bounds are constants that fit"))
    }

    /// Counts one operation of `nanos`.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos.max(1));
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        // The bounds are equal, so adding cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// Returns the percentiles; `None` if nothing was counted.
    pub fn summary(&self) -> Option<LatencySummary> {
        if self.0.is_empty() {
            return None;
        }
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let at = |quantile: f64| micros(self.0.value_at_quantile(quantile));
        Some(LatencySummary {
            count: self.0.len(),
            mean_micros: self.0.mean() / 1000.0,
            deviation_micros: self.0.stdev() / 1000.0,
            min_micros: micros(self.0.min()),
            p50_micros: at(0.5),
            p90_micros: at(0.9),
            p99_micros: at(0.99),
            p999_micros: at(0.999),
            p9999_micros: at(0.9999),
            max_micros: micros(self.0.max()),
            p95_micros: at(0.95),
            curve: shares(self.0.len()).map(|share| (share, at(share))).collect(),
        })
    }
}

/// Returns fractions that approach 1, with three steps per decade of the remainder, as far as
/// `count` operations can resolve.
fn shares(count: u64) -> impl Iterator<Item = f64> {
    let decades = (count.max(1) as f64).log10();
    let steps = (0..).map(|step| f64::from(step) / 3.0).take_while(move |&left| left <= decades);
    steps.map(|left| 1.0 - 10f64.powf(-left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_set() {
        let mut low = Latencies::new();
        let mut high = Latencies::new();
        assert!(low.summary().is_none());
        (1..=500u64).for_each(|i| low.record(i * 1000));
        (501..=1000u64).for_each(|i| high.record(i * 1000));
        low.merge(&high);
        let summary = low.summary().expect("counted");
        assert_eq!(summary.count, 1000);
        assert_eq!(summary.curve.len(), 10, "three a decade: {:?}", summary.curve);
        assert!((summary.p95_micros - 950.0).abs() < 1.5, "{summary:?}");
        assert!((summary.p50_micros - 500.0).abs() < 1.0, "{summary:?}");
        assert!((summary.p99_micros - 990.0).abs() < 1.5, "{summary:?}");
        assert!((summary.max_micros - 1000.0).abs() < 1.5, "{summary:?}");
    }
}
