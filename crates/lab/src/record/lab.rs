//! The record of an experiment: its text, its points, and every sample and turn at each point.
//!
//! The text is kept whole, so that a report can be made from the record alone, years later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::schema::{EngineRecord, Machine, SessionRecord, TaskSample};

/// The version this code writes and reads.
pub const LAB_SCHEMA_VERSION: u32 = 1;

/// One run of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabRecord {
    /// See [`LAB_SCHEMA_VERSION`].
    pub lab_schema_version: u32,
    /// The experiment's name.
    pub experiment: String,
    /// Its TOML.
    pub text: String,
    /// The scale asked for, as it was written.
    pub scale: String,
    /// When the run began, seconds since 1970 UTC.
    pub started_unix_seconds: u64,
    /// Wall time of the run; of all its parts where it was resumed.
    pub elapsed_seconds: f64,
    /// Where it ran.
    pub machine: Machine,
    /// The commit of the working directory, if it is a git checkout.
    pub commit: Option<String>,
    /// Whether that checkout had uncommitted changes.
    pub commit_dirty: Option<bool>,
    /// Seed of data and operations.
    pub seed: u64,
    /// Nanoseconds the clock and the choice of the next operation cost, for each operation.
    pub harness_nanos_per_op: Option<f64>,
    /// The engines asked for, those that could not run included.
    pub engines: Vec<EngineRecord>,
    /// What was measured.
    pub points: Vec<PointRecord>,
    /// One entry for each point, engine, repetition and phase, in the order they ran.
    pub samples: Vec<LabSample>,
    /// One entry for each point, engine and repetition.
    pub sessions: Vec<LabSession>,
    /// What may have spoiled the run.
    pub warnings: Vec<String>,
}

/// One combination that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PointRecord {
    /// The series' name.
    pub series: String,
    /// Its parameters as the document has them.
    pub params: Vec<(String, String)>,
    /// Pairs, scaled.
    pub entries: u64,
    /// Share of the document's size.
    pub share: f64,
    /// Turns of each engine asked for.
    pub repetitions: usize,
    /// What each engine was given, in its own option names.
    pub given: BTreeMap<String, Vec<(String, String)>>,
    /// Why it could not be measured.
    pub not_available: Option<String>,
}

/// A sample at a point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabSample {
    /// The point, by its place in the record.
    pub point: usize,
    /// The phase's name, numbered where it comes more than once.
    pub phase: String,
    /// The step, where the phases are gone through several times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What was measured.
    #[serde(flatten)]
    pub sample: TaskSample,
}

/// A turn at a point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabSession {
    /// The point, by its place in the record.
    pub point: usize,
    /// The turn.
    #[serde(flatten)]
    pub session: SessionRecord,
}

impl LabRecord {
    /// Whether this turn was measured already.
    pub fn has(&self, point: usize, engine: &str, repetition: usize) -> bool {
        self.sessions.iter().any(|done| {
            done.point == point
                && done.session.engine == engine
                && done.session.repetition == repetition
        })
    }

    /// The samples of one phase, in one step, of one engine at one point.
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

    /// The steps of a point, in order; none where it has none.
    pub fn steps(&self, point: usize) -> Vec<Option<&str>> {
        let mut steps: Vec<Option<&str>> = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.point == point) {
            if !steps.contains(&sample.step.as_deref()) {
                steps.push(sample.step.as_deref());
            }
        }
        steps
    }

    /// The engines that were measured anywhere, in their order.
    pub fn measured_engines(&self) -> Vec<&str> {
        let ran = |name: &str| self.samples.iter().any(|sample| sample.sample.engine == name);
        self.engines.iter().map(|engine| engine.name.as_str()).filter(|name| ran(name)).collect()
    }
}
