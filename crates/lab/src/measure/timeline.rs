//! Throughput over time, in tenths of a second, and its stalls.

use serde::{Deserialize, Serialize};

/// Length of a bucket in milliseconds.
pub const BUCKET_MS: u64 = 100;
/// A bucket with less than this fraction of the median is a stall.
const STALL_SHARE: f64 = 0.1;
/// Minimum number of buckets for detecting stalls.
const BUCKETS_MIN: usize = 10;

/// Operations completed in each tenth of a second since the phase began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Number of operations per bucket.
    pub operations: Vec<u32>,
}

impl Timeline {
    /// Counts one operation that completed `nanos` after the start.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.record_many(nanos, 1);
    }

    /// Counts `operations` that completed together.
    #[inline]
    pub fn record_many(&mut self, nanos: u64, operations: u32) {
        let bucket = (nanos / (BUCKET_MS * 1_000_000)) as usize;
        if bucket >= self.operations.len() {
            self.operations.resize(bucket + 1, 0);
        }
        self.operations[bucket] += operations;
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Timeline) {
        if other.operations.len() > self.operations.len() {
            self.operations.resize(other.operations.len(), 0);
        }
        for (mine, theirs) in self.operations.iter_mut().zip(&other.operations) {
            *mine += theirs;
        }
    }

    /// Returns the stalls as bucket ranges (end exclusive): consecutive buckets with less than a
    /// tenth of the median. The last bucket is incomplete and ignored.
    pub fn stalls(&self) -> Vec<(usize, usize)> {
        let whole = self.operations.len().saturating_sub(1);
        if whole < BUCKETS_MIN {
            return Vec::new();
        }
        let mut sorted = self.operations[..whole].to_vec();
        sorted.sort_unstable();
        let limit = f64::from(sorted[whole / 2]) * STALL_SHARE;
        let mut stalls: Vec<(usize, usize)> = Vec::new();
        for (bucket, &count) in self.operations[..whole].iter().enumerate() {
            if f64::from(count) >= limit {
                continue;
            }
            match stalls.last_mut() {
                Some((_, end)) if *end == bucket => *end = bucket + 1,
                _ => stalls.push((bucket, bucket + 1)),
            }
        }
        stalls
    }

    /// Returns the number of complete buckets without a completed operation; `None` without a
    /// complete bucket.
    pub fn empty_windows(&self) -> Option<usize> {
        let whole = self.operations.len().checked_sub(1).filter(|&whole| whole > 0)?;
        Some(self.operations[..whole].iter().filter(|&&count| count == 0).count())
    }

    /// Returns the total duration of all stalls in seconds.
    pub fn stalled_seconds(&self) -> f64 {
        let buckets: usize = self.stalls().iter().map(|(from, to)| to - from).sum();
        buckets as f64 * BUCKET_MS as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stall_is_a_period_with_few_operations() {
        let mut timeline = Timeline::default();
        for bucket in 0..20u64 {
            let count = if (5..8).contains(&bucket) || bucket == 12 { 1 } else { 100 };
            (0..count).for_each(|_| timeline.record(bucket * 100_000_000 + 5));
        }
        assert_eq!(timeline.stalls(), [(5, 8), (12, 13)]);
        assert!((timeline.stalled_seconds() - 0.4).abs() < 1e-9);
        assert_eq!(timeline.empty_windows(), Some(0), "an operation each is not nothing");
        assert_eq!(Timeline { operations: vec![3, 0, 0, 1, 0] }.empty_windows(), Some(2));
        assert_eq!(Timeline { operations: vec![3] }.empty_windows(), None);
        let mut both = Timeline { operations: vec![1; 3] };
        both.merge(&timeline);
        assert_eq!((both.operations.len(), both.operations[0]), (20, 101));
        assert!(
            Timeline { operations: vec![100, 0, 100] }.stalls().is_empty(),
            "too short to tell"
        );
    }
}
