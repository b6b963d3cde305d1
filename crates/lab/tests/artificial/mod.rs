//! Artificial records: each sample is what a test says, so that nothing depends on the machine.

#![allow(dead_code, reason = "each test binary uses a part")]

use esker_lab::BenchConfig;
use esker_lab::experiment::check::{Experiment, Known, phase_labels};
use esker_lab::experiment::plan::{Point, Scale, points};
use esker_lab::record::lab::{LAB_SCHEMA_VERSION, LabRecord, LabSample, LabSession, PointRecord};
use esker_lab::record::schema::{EngineRecord, Machine, SessionRecord, TaskSample};
use esker_lab::report::lab_text;

/// One place of an artificial record.
pub struct At<'a> {
    /// Name of the engine.
    pub engine: &'a str,
    /// Label of the phase.
    pub phase: &'a str,
    /// Parameters of the point, with the document's values.
    pub params: &'a [(String, String)],
    /// Step, from 1; 0 without steps.
    pub step: u64,
    /// Repetition, from 0.
    pub round: usize,
}

impl At<'_> {
    /// Returns the value of a parameter, or an empty text.
    pub fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }
}

/// Reads an experiment without mistakes.
pub fn experiment(text: &str) -> Experiment {
    let mut config = BenchConfig::default();
    config.accept_engine_options("esker", ["cache_policy"]);
    let known = Known { engines: &["esker", "rocksdb", "leveldb"], config };
    Experiment::parse("made-up", text, &known).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

/// Creates an empty record.
pub fn blank(experiment: &Experiment, scale: &str) -> LabRecord {
    let engine = |name: &str| EngineRecord {
        name: name.into(),
        description: None,
        capabilities: None,
        given: Vec::new(),
        error: None,
    };
    let names = experiment.file.engines.get_ref().iter().map(|name| name.get_ref().as_str());
    LabRecord {
        lab_schema_version: LAB_SCHEMA_VERSION,
        experiment: experiment.name.clone(),
        text: experiment.text.clone(),
        scale: scale.into(),
        started_unix_seconds: 0,
        elapsed_seconds: 1.0,
        machine: Machine::default(),
        commit: None,
        commit_dirty: None,
        seed: 1,
        harness_nanos_per_op: None,
        engines: names.map(engine).collect(),
        points: Vec::new(),
        samples: Vec::new(),
        sessions: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Creates a record of every point at `scale`, with three runs of each engine, filled by `fill`.
pub fn record(
    experiment: &Experiment,
    scale: &str,
    fill: impl Fn(&At<'_>, &mut TaskSample),
) -> LabRecord {
    let mut record = blank(experiment, scale);
    for (index, point) in
        points(experiment, Scale::parse(scale).expect("a scale")).iter().enumerate()
    {
        record.points.push(PointRecord {
            series: experiment.series(point.series).name.clone(),
            params: point.params.clone(),
            params_run: point.params_run.clone(),
            entries: point.entries,
            bytes: None,
            document_entries: None,
            steps: Vec::new(),
            share: point.share,
            repetitions: 3,
            given: Default::default(),
            not_available: None,
        });
        for (engine, round) in
            point.engines.iter().flat_map(|e| (0..3).map(move |round| (e, round)))
        {
            one_round(&mut record, (experiment, index, point), (engine, round), &fill);
        }
    }
    record.note_sizes();
    record
}

/// Adds a round of `engine` at a point.
fn one_round(
    record: &mut LabRecord,
    (experiment, index, point): (&Experiment, usize, &Point),
    (engine, round): (&String, usize),
    fill: &impl Fn(&At<'_>, &mut TaskSample),
) {
    let series = experiment.series(point.series);
    let steps = series.steps.as_ref().map_or(0, |steps| *steps.get_ref());
    for step in steps.min(1)..=steps {
        for (position, phase) in phase_labels(series).iter().enumerate() {
            let mut sample = TaskSample::new(engine, phase, position, round);
            sample.operations = point.entries;
            fill(&At { engine, phase, params: &point.params, step, round }, &mut sample);
            let named = (step as f64 * series.step_size.unwrap_or(1.0)).to_string();
            let (step, phase) = ((step > 0).then_some(named), phase.clone());
            record.samples.push(LabSample { point: index, phase, step, sample });
        }
    }
    let session = SessionRecord {
        engine: engine.clone(),
        repetition: round,
        round,
        elapsed_seconds: 1.0,
        used: None,
        user_written_bytes: 0,
        write_amplification: None,
        read_amplification: None,
        data_bytes: Some(point.entries * 8),
        memory_limit: None,
    };
    record.sessions.push(LabSession { point: index, session });
}

/// Sets the operations per second, slightly increasing with every round.
pub fn speed(at: &At<'_>, sample: &mut TaskSample, ops_per_sec: f64) {
    let speed = ops_per_sec * (1.0 + at.round as f64 / 100.0);
    sample.ops_per_sec = Some(speed);
    sample.micros_per_op = Some(1e6 / speed);
    sample.elapsed_seconds = sample.operations as f64 / speed;
}

/// Returns the report as Markdown.
pub fn text(experiment: &Experiment, record: &LabRecord) -> String {
    let mut out = Vec::new();
    lab_text::write(experiment, record, lab_text::Form::Markdown, &mut out).expect("written");
    String::from_utf8(out).expect("text")
}
