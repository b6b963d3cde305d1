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
    /// The commit the measuring program was built from, if its build knew it.
    pub commit: Option<String>,
    /// Whether that build's sources had uncommitted changes.
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
    /// Those of them that were run with another value, and which.
    #[serde(default)]
    pub params_run: Vec<(String, String)>,
    /// Pairs that were run.
    pub entries: u64,
    /// Bytes of keys and values of so many pairs, once a turn was run.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Pairs as the document has them.
    #[serde(default)]
    pub document_entries: Option<u64>,
    /// What was put up to each step, where there are steps and a turn was run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// Share of the document's size.
    pub share: f64,
    /// Turns of each engine asked for.
    pub repetitions: usize,
    /// What each engine was given, in its own option names.
    pub given: BTreeMap<String, Vec<(String, String)>>,
    /// Why it could not be measured.
    pub not_available: Option<String>,
}

/// What was put in a turn when a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The step as the document counts it.
    pub step: String,
    /// Pairs put so far, by their mean size; none where that is not known.
    pub put_entries: Option<u64>,
    /// Bytes of keys and values put so far.
    pub put_bytes: u64,
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

    /// Notes at each point what was run there, from its first whole turn: what a record written before
    /// these were noted lacks, and what a new turn adds.
    pub fn note_sizes(&mut self) {
        for index in 0..self.points.len() {
            let missing = self.points[index].steps.is_empty();
            let steps = if missing { self.steps_put(index) } else { Vec::new() };
            let of_point = |turn: &&LabSession| turn.point == index;
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

    /// Each step of a point, and the bytes put until it ended, of the first turn that went through.
    fn steps_put(&self, index: usize) -> Vec<(String, u64)> {
        let own = || self.samples.iter().filter(|sample| sample.point == index);
        let whole = |turn: &&LabSession| {
            let session = &turn.session;
            let mut of_turn = own().filter(|s| {
                s.sample.engine == session.engine && s.sample.repetition == session.repetition
            });
            turn.point == index && of_turn.all(|sample| !sample.sample.failed())
        };
        if own().all(|sample| sample.step.is_none()) {
            return Vec::new();
        }
        let Some(turn) = self.sessions.iter().find(whole) else { return Vec::new() };
        let session = &turn.session;
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
