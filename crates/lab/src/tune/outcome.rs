//! What a tuning found: every trial, the judged sets, the recommended set and what each of its
//! knobs brings.

use serde::{Deserialize, Serialize};

use super::curve::KnobCurve;
use super::knob::Setting;
use super::measures::{Combine, Objective};
use super::paired::Gain;
use crate::record::schema::Machine;

/// Gain on one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadGain {
    /// Name of the workload.
    pub workload: String,
    /// Gain on it.
    pub gain: Gain,
}

/// A set judged against the default set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The set.
    pub setting: Setting,
    /// Gain over the default set; `None` if a run failed.
    pub gain: Option<Gain>,
    /// Gain on each workload.
    pub workloads: Vec<WorkloadGain>,
    /// Reason against the set.
    pub rejected: Option<String>,
}

/// A set that the user named, measured in the same rounds as the finalists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The user's name.
    pub name: String,
    /// The set, judged against the default set.
    pub judged: Judged,
    /// Gain of the best finalist over it; `None` if there is none, or a run failed.
    pub best_over_it: Option<Gain>,
    /// The same on each workload.
    pub best_workloads: Vec<WorkloadGain>,
}

/// A set that the search tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The set.
    pub setting: Setting,
    /// Ratio to the default set, from short runs; `None` if a run failed.
    pub ratio: Option<f64>,
    /// Ratio to the default set on each workload, from short runs.
    pub workloads: Vec<f64>,
    /// Best ratio up to this trial.
    pub best_ratio: f64,
    /// Description of the failure, or of the broken constraint.
    pub error: Option<String>,
}

/// What a knob of the best set brings: the best set against the same set with this knob at its
/// default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnobEffect {
    /// Name of the knob.
    pub knob: String,
    /// Default value.
    pub from: String,
    /// Value in the best set.
    pub to: String,
    /// Gain by the knob alone; `None` if a run failed or none ran.
    pub gain: Option<Gain>,
    /// Gain on each workload.
    pub workloads: Vec<WorkloadGain>,
    /// Whether the recommended set has the knob.
    pub kept: bool,
}

/// Joint effect of the two strongest knobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    /// Names of the knobs.
    pub knobs: [String; 2],
    /// Gain by both together: the best set against the same set without both.
    pub together: Gain,
    /// Product of the two gains alone. If the gain together is larger, the knobs need each other;
    /// if it is smaller, they replace each other.
    pub product: f64,
}

/// Everything that a tuning found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the engine.
    pub engine: String,
    /// Description of the engine.
    pub description: String,
    /// The machine.
    pub machine: Machine,
    /// The measure that was improved.
    pub objective: Objective,
    /// Combination of the workloads.
    pub combine: Combine,
    /// Constraints as text.
    pub constraints: Vec<String>,
    /// Names of the workloads.
    pub workloads: Vec<String>,
    /// All knobs with their default values.
    pub defaults: Vec<(String, String)>,
    /// All knobs with the values that the search may give them.
    pub levels: Vec<(String, Vec<String>)>,
    /// Limit of memtables and cache together, in bytes.
    pub memory_budget_bytes: Option<u64>,
    /// Seed of the search and of the operations.
    pub seed: u64,
    /// Share of the workloads' size in the search and in the final rounds.
    pub shares: (f64, f64),
    /// Sets that the search tried, in order.
    pub trials: Vec<Trial>,
    /// Finalists, measured against the default set in the same rounds.
    pub finalists: Vec<Judged>,
    /// Sets that the user named.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// The recommended set, judged; `None` if the default set stands.
    pub recommended: Option<Judged>,
    /// The recommended set, or the default set, as YCSB properties: every knob.
    pub properties: Vec<(String, String)>,
    /// Flags that every set got besides: name and value.
    pub fixed: Vec<(String, String)>,
    /// Sentence with the result.
    pub verdict: String,
    /// Effect of each knob of the best set, strongest first.
    pub effects: Vec<KnobEffect>,
    /// Tried values of each knob of which there are several.
    #[serde(default)]
    pub curves: Vec<KnobCurve>,
    /// Joint effect of the two strongest knobs.
    pub interaction: Option<Interaction>,
    /// Seconds of the runs of the search alone.
    #[serde(default)]
    pub search_seconds: f64,
    /// Number of runs.
    pub runs: usize,
    /// Sum of the runs' times in seconds.
    pub seconds: f64,
    /// Whether the tuning was interrupted before its end.
    pub interrupted: bool,
    /// Conditions that may have distorted the measurements.
    pub warnings: Vec<String>,
}
