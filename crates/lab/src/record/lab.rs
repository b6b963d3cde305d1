//! The record of an experiment: its text, its points, and every sample and round at each point.
//!
//! The complete text is kept, so that a report can be made from the record alone, years later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::schema::{EngineRecord, Machine, SessionRecord, TaskSample};

/// Schema version that this code writes and reads.
pub const LAB_SCHEMA_VERSION: u32 = 1;

/// One execution of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabRecord {
    /// See [`LAB_SCHEMA_VERSION`].
    pub lab_schema_version: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// TOML text of the experiment.
    pub text: String,
    /// Requested scale, as written by the user.
    pub scale: String,
    /// Start time, in seconds since 1970 UTC.
    pub started_unix_seconds: u64,
    /// Wall time in seconds; for a resumed experiment, the sum of all its parts.
    pub elapsed_seconds: f64,
    /// Machine of the measurements.
    pub machine: Machine,
    /// Commit of the measuring program, if known to its build.
    pub commit: Option<String>,
    /// Whether the sources of that build had uncommitted changes.
    pub commit_dirty: Option<bool>,
    /// Seed of data and operations.
    pub seed: u64,
    /// Cost of the clock and the harness per operation, in nanoseconds.
    pub harness_nanos_per_op: Option<f64>,
    /// Requested engines, including those that could not run.
    pub engines: Vec<EngineRecord>,
    /// Measured points.
    pub points: Vec<PointRecord>,
    /// One entry per point, engine, repetition and phase, in the order of execution.
    pub samples: Vec<LabSample>,
    /// One entry per point, engine and repetition.
    pub sessions: Vec<LabSession>,
    /// Conditions that may have distorted the measurements.
    pub warnings: Vec<String>,
}

/// One measured combination of parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PointRecord {
    /// Name of the series.
    pub series: String,
    /// Parameters with the document's values.
    pub params: Vec<(String, String)>,
    /// Parameters run with a different value, with that value.
    #[serde(default)]
    pub params_run: Vec<(String, String)>,
    /// Number of pairs in the runs.
    pub entries: u64,
    /// Bytes of keys and values of that many pairs; known after the first round.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Number of pairs in the document.
    #[serde(default)]
    pub document_entries: Option<u64>,
    /// Data written up to each step; filled after the first round of a point with steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// Fraction of the document's size.
    pub share: f64,
    /// Requested number of runs of each engine.
    pub repetitions: usize,
    /// Settings given to each engine, under its own option names.
    pub given: BTreeMap<String, Vec<(String, String)>>,
    /// Reason why the point could not be measured.
    pub not_available: Option<String>,
}

/// Data written in a round up to the end of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Step, in the document's counting.
    pub step: String,
    /// Number of pairs written so far, derived from their mean size; `None` if the size is unknown.
    pub put_entries: Option<u64>,
    /// Bytes of keys and values written so far.
    pub put_bytes: u64,
}

/// A sample at a point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabSample {
    /// Index of the point in the record.
    pub point: usize,
    /// Name of the phase, numbered if repeated.
    pub phase: String,
    /// Step, if the phases are repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Measurements.
    #[serde(flatten)]
    pub sample: TaskSample,
}

/// A round at a point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabSession {
    /// Index of the point in the record.
    pub point: usize,
    /// Record of the round.
    #[serde(flatten)]
    pub session: SessionRecord,
}

impl LabRecord {
    /// Returns whether this round was already measured.
    pub fn has(&self, point: usize, engine: &str, repetition: usize) -> bool {
        self.sessions.iter().any(|done| {
            done.point == point
                && done.session.engine == engine
                && done.session.repetition == repetition
        })
    }

    /// Adds to each point the sizes of its first complete round. This fills the gaps of records
    /// from before these fields, and adds the sizes of new rounds.
    pub fn note_sizes(&mut self) {
        for index in 0..self.points.len() {
            let missing = self.points[index].steps.is_empty();
            let steps = if missing { self.steps_put(index) } else { Vec::new() };
            let of_point = |round: &&LabSession| round.point == index;
            let bytes = self.sessions.iter().filter(of_point).find_map(|t| t.session.data_bytes);
            let point = &mut self.points[index];
            let named = point.params.iter().find(|(name, _)| name == "entries");
            let document_entries = named.and_then(|(_, entries)| entries.parse().ok());
            point.document_entries = point.document_entries.or(document_entries);
            point.bytes = point.bytes.or(bytes);
            if missing {
                let pair = point.bytes.map(|bytes| bytes as f64 / point.entries.max(1) as f64);
                let pairs =
                    |put: u64| Some((put as f64 / pair.filter(|b| *b > 0.0)?).round() as u64);
                let step = |(step, put_bytes): (String, u64)| {
                    let put_entries = pairs(put_bytes);
                    StepRecord { step, put_entries, put_bytes }
                };
                point.steps = steps.into_iter().map(step).collect();
            }
        }
    }

    /// Returns each step of a point and the bytes written until its end, from the first round
    /// without a failure.
    fn steps_put(&self, index: usize) -> Vec<(String, u64)> {
        let own = || self.samples.iter().filter(|sample| sample.point == index);
        let whole = |round: &&LabSession| {
            let session = &round.session;
            let mut of_round = own().filter(|s| {
                s.sample.engine == session.engine && s.sample.repetition == session.repetition
            });
            round.point == index && of_round.all(|sample| !sample.sample.failed())
        };
        if own().all(|sample| sample.step.is_none()) {
            return Vec::new();
        }
        let Some(round) = self.sessions.iter().find(whole) else { return Vec::new() };
        let session = &round.session;
        let mut steps: Vec<(String, u64)> = Vec::new();
        let mut put = 0;
        for sample in own() {
            let done = &sample.sample;
            if done.engine != session.engine || done.repetition != session.repetition {
                continue;
            }
            put += done.user_written_bytes;
            let Some(step) = &sample.step else { continue };
            match steps.last_mut().filter(|(last, _)| last == step) {
                Some((_, bytes)) => *bytes = put,
                None => steps.push((step.clone(), put)),
            }
        }
        steps
    }

    /// Returns the samples of one phase, in one step, of one engine at one point.
    pub fn of<'a>(
        &'a self,
        point: usize,
        (phase, step): (&'a str, Option<&'a str>),
        engine: &'a str,
    ) -> impl Iterator<Item = &'a TaskSample> {
        let wanted = move |s: &&LabSample| {
            s.point == point
                && s.phase == phase
                && s.step.as_deref() == step
                && s.sample.engine == engine
        };
        self.samples.iter().filter(wanted).map(|s| &s.sample)
    }

    /// Returns the steps of a point in order; empty without samples.
    pub fn steps(&self, point: usize) -> Vec<Option<&str>> {
        let mut steps: Vec<Option<&str>> = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.point == point) {
            if !steps.contains(&sample.step.as_deref()) {
                steps.push(sample.step.as_deref());
            }
        }
        steps
    }

    /// Returns the engines with any measurement, in order.
    pub fn measured_engines(&self) -> Vec<&str> {
        let ran = |name: &str| self.samples.iter().any(|sample| sample.sample.engine == name);
        self.engines.iter().map(|engine| engine.name.as_str()).filter(|name| ran(name)).collect()
    }
}
