//! One round of an experiment: one engine runs at one point.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use crate::bench::print_message;
use crate::error::{LabError, Result};
use crate::experiment::check::{Experiment, phase_labels};
use crate::experiment::expect::{Amount, missed};
use crate::experiment::file::SeriesFile;
use crate::experiment::mixed::{Placed, is_mixed, phases, space};
use crate::experiment::plan::{Point, text_of};
use crate::experiment::program::{not_for_program, program_of};
use crate::experiment::reported::own_units;
use crate::measure::limit::MemoryLimit;
use crate::mix;
use crate::mix::phase::{Phase, written_bytes};
use crate::mix::session::MixRound;
use crate::mix::space::Space;
use crate::record::schema::{SessionRecord, TaskSample};
use crate::report::table::{bytes_text, sample_row};
use crate::run::config::{BenchConfig, DATA_BYTES_SPARE};
use crate::run::engine_dir::EngineDir;
use crate::run::program::{Program, ProgramRequest};
use crate::run::session::{self, Listener, Round};
use crate::run::subprocess;
use crate::target::Engine;
use crate::workload::dataset::Dataset;
use crate::workload::tasks::{TaskSpec, parse_tasks};

/// Interval in which bytes on disk are sampled for a unit that needs it, in milliseconds.
const SPACE_EVERY_MS: u64 = 1000;

/// Input of a round.
pub struct LabRound<'a> {
    /// Experiment of the round.
    pub experiment: &'a Experiment,
    /// Point of the experiment.
    pub point: &'a Point,
    /// Engine to run.
    pub engine: &'a dyn Engine,
    /// Repetition, from 0.
    pub repetition: usize,
    /// Number of the round in the experiment, from 0.
    pub number: usize,
    /// Seed of data and operations.
    pub seed: u64,
    /// Base settings, overridden by the experiment's own.
    pub base: &'a BenchConfig,
    /// Parent directory of the engines' directories.
    pub base_dir: &'a Path,
    /// Returns freed memory to the operating system.
    pub settle_memory: &'a dyn Fn(),
}

/// A sample with its phase's label and its step.
pub type Labelled = (String, Option<String>, TaskSample);

/// Result of a round.
pub struct LabRoundDone {
    /// Samples, each with its phase's label and its step.
    pub samples: Vec<Labelled>,
    /// Record of the round as a whole.
    pub session: SessionRecord,
    /// Settings given to the engine.
    pub given: Vec<(String, String)>,
    /// Conditions that may have distorted the round.
    pub warnings: Vec<String>,
}

struct ProgressPrinter<'a>(&'a mut dyn Write);

impl Listener for ProgressPrinter<'_> {
    fn sample(&mut self, sample: &TaskSample) {
        print_message(self.0, &format!("    {}", sample_row(sample)));
    }

    fn stats(&mut self, engine: &str, text: &str) {
        print_message(self.0, &format!("stats of {engine}:\n{}", text.trim_end()));
    }
}

impl LabRound<'_> {
    /// Executes the round in its own directory, which is removed afterwards. Fails if the round
    /// could not start; later failures are in the samples.
    pub fn run(&self, messages: &mut dyn Write) -> Result<LabRoundDone> {
        if let Some(file) = program_of(&self.experiment.file, self.engine.name()) {
            return self.by_program(&Program::new(self.engine.name(), file), messages);
        }
        let mut config = self.point.config(self.base, self.engine.name(), self.seed)?;
        let series = self.experiment.series(self.point.series);
        let work = self.work(&mut config, series).map_err(|error| self.of_engine(error))?;
        let engine_dir = EngineDir::prepare(self.base_dir, self.engine.name())?;
        engine_dir.empty()?;
        (self.settle_memory)();
        let mut warnings = Vec::new();
        let limit = self.point.memory_limit.map(MemoryLimit::set);
        if let Some(Err(why)) = &limit {
            let name = &series.name;
            warnings.push(format!(
                "{name}: memory was not limited, because the system does not allow it ({why})"
            ));
        }
        let limit = limit.and_then(std::result::Result::ok);
        let around = (&engine_dir, limit.as_ref());
        let (samples, mut session) = match &work {
            Work::Tasks(tasks, data) => self.tasks(&config, tasks, data, around, messages),
            Work::Phases(placed, space) => self.phases(&config, placed, space, around, messages),
        };
        session.memory_limit = limit.as_ref().map(|limit| limited(limit, &samples));
        drop(limit);
        engine_dir.remove()?;
        rustix::fs::sync();
        let labels = phase_labels(series);
        let label = |sample: TaskSample| match &work {
            Work::Tasks(..) => {
                (labels.get(sample.position).cloned().unwrap_or_default(), None, sample)
            }
            Work::Phases(placed, _) => {
                let own = &placed[sample.position];
                (own.label.clone(), own.step.clone(), sample)
            }
        };
        let mut labelled: Vec<_> = samples.into_iter().map(label).collect();
        self.expected(&mut labelled, messages);
        let given = self.engine.given(&config.store);
        Ok(LabRoundDone { samples: labelled, session, given, warnings })
    }

    /// Compares the samples with what the series expects of them. A difference becomes an error.
    fn expected(&self, samples: &mut [Labelled], messages: &mut dyn Write) {
        let series = self.experiment.series(self.point.series);
        for (label, _, sample) in samples {
            let expect = series.expect.iter().find(|(name, _)| name.get_ref() == label);
            let missed = expect.and_then(|(_, expect)| missed(expect, sample, self.point.entries));
            if let Some(missed) = missed {
                print_message(messages, &format!("    {label}: {missed}"));
                sample.error = Some(missed);
            }
        }
    }

    /// Returns an error of the work as one of this engine alone, if the experiment's programs can run
    /// what it cannot.
    fn of_engine(&self, error: LabError) -> LabError {
        match self.experiment.file.programs.is_empty() {
            true => error,
            false => LabError::engine(error.to_string()),
        }
    }

    /// Lets a program run the round in a directory of its own, which is removed afterwards.
    fn by_program(&self, program: &Program, messages: &mut dyn Write) -> Result<LabRoundDone> {
        let series = self.experiment.series(self.point.series);
        if let Some(why) = not_for_program(&self.experiment.file, series, self.engine.name()) {
            return Err(LabError::engine(why));
        }
        let begun = Instant::now();
        let directory = EngineDir::prepare(self.base_dir, self.engine.name())?;
        directory.empty()?;
        let phases = series.phases.as_ref().map(|names| names.get_ref().as_slice());
        let names = phases.unwrap_or_default().iter().map(|name| name.get_ref().clone());
        let entries = self.point.entries;
        let operations = match &series.operations {
            Some(amount) => Amount::parse(amount.get_ref()).map_err(LabError::usage)?,
            None => Amount::number(entries),
        };
        let property = |(name, value): (&toml::Spanned<String>, &toml::Value)| {
            (name.get_ref().clone(), text_of(value))
        };
        if operations.value(entries, entries) == 0 {
            return Err(LabError::engine("a program must run at least one operation"));
        }
        let request = ProgramRequest {
            engine: self.engine.name().into(),
            phases: names.collect(),
            entries,
            operations: operations.value(entries, entries),
            threads: self.point.threads,
            seed: self.seed,
            repetition: self.repetition,
            directory: directory.store(),
            properties: series.ycsb.iter().map(property).collect(),
        };
        let (about, samples) = program.round(&request, messages)?;
        // What was measured is kept, also if a file is left.
        let warnings =
            directory.remove().err().map(|error| error.to_string()).into_iter().collect();
        for sample in &samples {
            print_message(messages, &format!("    {}", sample_row(sample)));
        }
        let labels = phase_labels(series);
        let mut labelled: Vec<Labelled> =
            labels.into_iter().zip(samples).map(|(label, sample)| (label, None, sample)).collect();
        self.expected(&mut labelled, messages);
        let session = SessionRecord {
            engine: self.engine.name().into(),
            repetition: self.repetition,
            round: self.number,
            elapsed_seconds: begun.elapsed().as_secs_f64(),
            used: None,
            user_written_bytes: 0,
            write_amplification: None,
            read_amplification: None,
            data_bytes: None,
            memory_limit: None,
        };
        let given = about.into_iter().map(|about| ("system".into(), about)).collect();
        Ok(LabRoundDone { samples: labelled, session, given, warnings })
    }

    /// Executes the round in a subprocess, where the engine is named `engine`.
    pub fn run_in_subprocess(
        &self,
        engine: String,
        messages: &mut dyn Write,
    ) -> Result<LabRoundDone> {
        let work = subprocess::Work::Lab {
            name: self.experiment.name.clone(),
            text: self.experiment.text.clone(),
            point: Box::new(self.point.clone()),
            seed: self.seed,
            base_dir: self.base_dir.to_path_buf(),
            repetition: self.repetition,
            round: self.number,
        };
        let request = subprocess::Request { engine, flags: self.base.flags_given(), work };
        let reply = subprocess::run(self.base.child.as_deref(), &request, messages)?;
        let session =
            reply.session.ok_or_else(|| LabError::engine("the round has no final result"))?;
        let (samples, given, warnings) = (reply.samples, reply.given, reply.warnings);
        Ok(LabRoundDone { samples, session, given, warnings })
    }

    /// Returns the work of the round with its data.
    fn work(&self, config: &mut BenchConfig, series: &SeriesFile) -> Result<Work> {
        let units = own_units(series);
        if config.space_every_ms == 0 && units.iter().any(|unit| unit.needs_space()) {
            config.space_every_ms = SPACE_EVERY_MS;
        }
        if !is_mixed(series) {
            config.csv = None;
            let tasks = parse_tasks(series.tasks.as_ref().map_or("", |tasks| tasks.get_ref()))?;
            let (data, _) = config.dataset()?;
            config.histogram |= units.iter().any(|unit| unit.needs_latencies());
            config.fit_store(&tasks, data.raw_bytes());
            return Ok(Work::Tasks(tasks, Box::new(data)));
        }
        let engines = self.experiment.engine_names();
        let placed = phases(&self.experiment.file, series, &engines)
            .map_err(|(_, why)| LabError::usage(why))?;
        let space = space(self.experiment, series, config, self.point.entries)?;
        let phases = placed.iter().map(|placed| &placed.phase);
        let entries = self.point.entries;
        let most = written_bytes(phases, entries, entries, &space);
        config.store.data_bytes_expected = most + DATA_BYTES_SPARE;
        Ok(Work::Phases(placed, Box::new(space)))
    }

    fn tasks(
        &self,
        config: &BenchConfig,
        tasks: &[TaskSpec],
        data: &Dataset,
        (engine_dir, limit): (&EngineDir, Option<&MemoryLimit>),
        messages: &mut dyn Write,
    ) -> (Vec<TaskSample>, SessionRecord) {
        let round = Round {
            engine: self.engine,
            config,
            data,
            engine_dir,
            repetition: self.repetition,
            number: self.number,
            settle_memory: self.settle_memory,
            limit,
        };
        session::run(&round, tasks, &mut ProgressPrinter(messages))
    }

    fn phases(
        &self,
        config: &BenchConfig,
        placed: &[Placed],
        space: &Space,
        (engine_dir, limit): (&EngineDir, Option<&MemoryLimit>),
        messages: &mut dyn Write,
    ) -> (Vec<TaskSample>, SessionRecord) {
        let phases: Vec<Phase> = placed.iter().map(|placed| placed.phase.clone()).collect();
        let round = MixRound {
            engine: self.engine,
            store: &config.store,
            space,
            phases: &phases,
            entries: self.point.entries,
            threads: config.threads,
            seed: self.seed,
            engine_dir,
            repetition: self.repetition,
            number: self.number,
            progress: config.progress,
            space_every_ms: config.space_every_ms,
            settle_memory: self.settle_memory,
            limit,
        };
        mix::session::run(&round, &mut ProgressPrinter(messages))
    }
}

/// Describes the memory limit, and the tasks in which it was not enforced.
fn limited(limit: &MemoryLimit, samples: &[TaskSample]) -> String {
    let bytes = bytes_text(limit.bytes() as f64);
    let held = format!("engine and page cache together to {bytes}, by {}", limit.by());
    let ran = |sample: &&TaskSample| sample.operations > 0;
    let loose = |sample: &&TaskSample| sample.memory_limit_bytes.is_none();
    let above: Vec<&str> =
        samples.iter().filter(ran).filter(loose).map(|sample| sample.task.as_str()).collect();
    if above.is_empty() {
        return held;
    }
    format!("{held}; not in {}, because the system freed too little memory there", above.join(", "))
}

/// Work of a round.
enum Work {
    /// db_bench's tasks on generated pairs.
    Tasks(Vec<TaskSpec>, Box<Dataset>),
    /// Phases over records.
    Phases(Vec<Placed>, Box<Space>),
}
