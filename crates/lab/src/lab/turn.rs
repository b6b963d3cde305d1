//! One engine's turn at one point of an experiment.

use std::io::Write;
use std::path::Path;

use crate::bench::say;
use crate::error::Result;
use crate::experiment::check::{Experiment, phase_labels};
use crate::experiment::expect::missed;
use crate::experiment::plan::Point;
use crate::record::schema::{SessionRecord, TaskSample};
use crate::report::table::sample_row;
use crate::run::config::BenchConfig;
use crate::run::place::Place;
use crate::run::session::{self, Listener, Turn};
use crate::target::Engine;
use crate::workload::tasks::parse_tasks;

/// What a turn is given.
pub struct LabTurn<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Where in it.
    pub point: &'a Point,
    /// Whose turn it is.
    pub engine: &'a dyn Engine,
    /// From 0.
    pub repetition: usize,
    /// Place of the turn in the run, from 0.
    pub turn: usize,
    /// Seed of data and operations.
    pub seed: u64,
    /// Settings that hold before the experiment's own.
    pub base: &'a BenchConfig,
    /// Folder the engines' folders lie in.
    pub base_dir: &'a Path,
    /// Gives freed memory back to the system.
    pub settle_memory: &'a dyn Fn(),
}

/// What a turn gave.
pub struct LabTurnDone {
    /// The samples, each with its phase's label.
    pub samples: Vec<(String, TaskSample)>,
    /// The turn as a whole.
    pub session: SessionRecord,
    /// What the engine was given.
    pub given: Vec<(String, String)>,
    /// What may have spoiled it.
    pub warnings: Vec<String>,
}

struct Told<'a>(&'a mut dyn Write);

impl Listener for Told<'_> {
    fn sample(&mut self, sample: &TaskSample) {
        say(self.0, &format!("    {}", sample_row(sample)));
    }

    fn stats(&mut self, engine: &str, text: &str) {
        say(self.0, &format!("stats of {engine}:\n{}", text.trim_end()));
    }
}

impl LabTurn<'_> {
    /// Runs it in a folder of its own, which is removed afterwards. Fails when the turn could not
    /// begin; what fails later is in the samples.
    pub fn run(&self, talk: &mut dyn Write) -> Result<LabTurnDone> {
        let mut config = self.point.config(self.base, self.engine.name(), self.seed)?;
        let place = Place::prepare(self.base_dir, self.engine.name())?;
        place.empty()?;
        (self.settle_memory)();
        let outcome = self.tasks(&mut config, &place, talk);
        place.remove()?;
        rustix::fs::sync();
        let (samples, session) = outcome?;
        let series = self.experiment.series(self.point.series);
        let labels = phase_labels(series);
        let mut labelled: Vec<(String, TaskSample)> = samples
            .into_iter()
            .map(|sample| (labels.get(sample.position).cloned().unwrap_or_default(), sample))
            .collect();
        for (label, sample) in &mut labelled {
            let expect = series.expect.iter().find(|(name, _)| name.get_ref() == label);
            let missed = expect.and_then(|(_, expect)| missed(expect, sample, self.point.entries));
            if let Some(missed) = missed {
                say(talk, &format!("    {label}: {missed}"));
                sample.error = Some(missed);
            }
        }
        let given = self.engine.given(&config.store);
        Ok(LabTurnDone { samples: labelled, session, given, warnings: Vec::new() })
    }

    fn tasks(
        &self,
        config: &mut BenchConfig,
        place: &Place,
        talk: &mut dyn Write,
    ) -> Result<(Vec<TaskSample>, SessionRecord)> {
        let series = self.experiment.series(self.point.series);
        let tasks = parse_tasks(series.tasks.as_ref().map_or("", |tasks| tasks.get_ref()))?;
        let (data, _) = config.dataset()?;
        config.store.data_bytes_expected = data.raw_bytes() * config.threads as u64 + (256 << 20);
        let turn = Turn {
            engine: self.engine,
            config,
            data: &data,
            place,
            repetition: self.repetition,
            turn: self.turn,
            settle_memory: self.settle_memory,
        };
        Ok(session::run(&turn, &tasks, &mut Told(talk)))
    }
}
