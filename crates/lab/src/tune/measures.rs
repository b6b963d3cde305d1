//! What one run of a set measures, and the objective that compares two of them.

use serde::{Deserialize, Serialize};

use super::knob::Setting;
use crate::error::{LabError, Result};

/// Figures of one workload in one run. A figure that was not measured is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadMeasures {
    /// Name of the workload.
    pub workload: String,
    /// Operations per second of all threads.
    pub ops_per_sec: Option<f64>,
    /// 99th percentile of the latency, in microseconds.
    pub p99_micros: Option<f64>,
    /// Bytes written per byte written by the user.
    pub write_amplification: Option<f64>,
    /// Allocated disk blocks after the workload, in bytes.
    pub disk_bytes: Option<f64>,
    /// Peak memory of the engine, in bytes.
    pub memory_bytes: Option<f64>,
}

/// One run of one set: all workloads once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunMeasures {
    /// Figures of the workloads, in their order.
    pub workloads: Vec<WorkloadMeasures>,
    /// Wall time of the run with its preparation, in seconds.
    pub seconds: f64,
    /// Description of the failure, if the run failed.
    pub error: Option<String>,
}

/// Runs sets of options. The tuner measures through this trait only.
pub trait Runner {
    /// Runs all workloads once with `setting`, at `share` of their size. `round` selects the seed
    /// of the operations, so that all sets of a round get the same operations. A failure of the
    /// engine is part of the measures.
    fn run(&mut self, setting: &Setting, share: f64, round: usize) -> RunMeasures;
}

/// The measure that the tuner improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Operations per second.
    Throughput,
    /// 99th percentile of the latency.
    P99,
    /// Write amplification.
    WriteAmp,
    /// Bytes on disk.
    Space,
    /// Peak memory.
    Memory,
}

/// All objectives with their names.
pub const OBJECTIVES: &[(&str, Objective)] = &[
    ("throughput", Objective::Throughput),
    ("p99", Objective::P99),
    ("write-amp", Objective::WriteAmp),
    ("space", Objective::Space),
    ("memory", Objective::Memory),
];

impl Objective {
    /// Returns the objective of that name.
    ///
    /// # Errors
    /// There is no such objective; the error lists them.
    pub fn parse(text: &str) -> Result<Objective> {
        let found = OBJECTIVES.iter().find(|(name, _)| *name == text.trim());
        found.map(|(_, objective)| *objective).ok_or_else(|| {
            let known: Vec<&str> = OBJECTIVES.iter().map(|(name, _)| *name).collect();
            LabError::usage(format!(
                "expected an objective, one of {}, found {text:?}",
                known.join(", ")
            ))
        })
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        OBJECTIVES.iter().find(|(_, own)| *own == self).map_or("", |(name, _)| name)
    }

    /// Returns the unit of [`Objective::value`].
    pub fn unit(self) -> &'static str {
        match self {
            Objective::Throughput => "operations per second",
            Objective::P99 => "µs (99th percentile)",
            Objective::WriteAmp => "bytes written per user byte",
            Objective::Space => "bytes on disk",
            Objective::Memory => "bytes of memory at the peak",
        }
    }

    /// Returns whether more is better.
    pub fn more_is_better(self) -> bool {
        self == Objective::Throughput
    }

    /// Returns the measured value; `None` if the workload does not have it, or if it is not above
    /// zero and so has no ratio.
    pub fn value(self, measures: &WorkloadMeasures) -> Option<f64> {
        let value = match self {
            Objective::Throughput => measures.ops_per_sec,
            Objective::P99 => measures.p99_micros,
            Objective::WriteAmp => measures.write_amplification,
            Objective::Space => measures.disk_bytes,
            Objective::Memory => measures.memory_bytes,
        };
        value.filter(|value| value.is_finite() && *value > 0.0)
    }

    /// Returns the natural logarithm of the ratio of `of` to `to`, with the sign that makes a
    /// positive number better.
    pub fn log_gain(self, of: &WorkloadMeasures, to: &WorkloadMeasures) -> Option<f64> {
        let log = (self.value(of)? / self.value(to)?).ln();
        Some(if self.more_is_better() { log } else { -log })
    }
}

/// Combination of the workloads' gains to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// Geometric mean over the workloads.
    Mean,
    /// The workload with the smallest gain, for the robust mode.
    Worst,
}

impl Combine {
    /// Returns the combined logarithm of one round; `None` if a run failed or no workload has the
    /// objective.
    pub fn log_gain(self, objective: Objective, of: &RunMeasures, to: &RunMeasures) -> Option<f64> {
        if of.error.is_some() || to.error.is_some() {
            return None;
        }
        let pairs = of.workloads.iter().zip(&to.workloads);
        let logs: Vec<f64> = pairs.filter_map(|(of, to)| objective.log_gain(of, to)).collect();
        if logs.is_empty() {
            return None;
        }
        Some(match self {
            Combine::Mean => logs.iter().sum::<f64>() / logs.len() as f64,
            Combine::Worst => logs.iter().copied().fold(f64::INFINITY, f64::min),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ops: f64, p99: f64) -> WorkloadMeasures {
        WorkloadMeasures {
            ops_per_sec: Some(ops),
            p99_micros: Some(p99),
            ..WorkloadMeasures::default()
        }
    }

    #[test]
    fn gain_is_positive_when_better() {
        let (fast, slow) = (of(200.0, 5.0), of(100.0, 10.0));
        for objective in [Objective::Throughput, Objective::P99] {
            let log = objective.log_gain(&fast, &slow).expect("measured");
            assert!((log - 2f64.ln()).abs() < 1e-12, "{objective:?}");
        }
        assert_eq!(Objective::Space.log_gain(&fast, &slow), None);
        assert_eq!(Objective::Throughput.log_gain(&fast, &of(0.0, 1.0)), None);
        assert!(Objective::parse("speed").expect_err("unknown").to_string().contains("write-amp"));
    }

    #[test]
    fn workloads_are_combined_by_mean_or_worst() {
        let run = |first, second| RunMeasures {
            workloads: vec![of(first, 1.0), of(second, 1.0)],
            ..RunMeasures::default()
        };
        let (base, other) = (run(100.0, 100.0), run(400.0, 100.0));
        let mean = Combine::Mean.log_gain(Objective::Throughput, &other, &base).expect("runs");
        assert!((mean - 2f64.ln()).abs() < 1e-12);
        let worst = Combine::Worst.log_gain(Objective::Throughput, &other, &base).expect("runs");
        assert_eq!(worst, 0.0);
        let failed = RunMeasures { error: Some("full".into()), ..other };
        assert_eq!(Combine::Mean.log_gain(Objective::Throughput, &failed, &base), None);
    }
}
