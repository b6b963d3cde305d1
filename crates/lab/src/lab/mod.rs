//! Execution of an experiment: every point, every engine, every repetition, one round after
//! another.
//!
//! A repetition goes through all points, and runs every engine at each point, with a rotating first
//! engine. Slow drifts of the machine therefore affect all points and engines alike. The record is
//! saved after every round. `resume` continues an interrupted experiment.

mod eta;
pub mod round;
pub mod warnings;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::bench::{Base, print_message, save};
use crate::error::{LabError, LabErrorKind, Result};
use crate::experiment::check::Experiment;
use crate::experiment::plan::{Point, Scale, points};
use crate::experiment::program::{program_of, run_all};
use crate::mix::phase::PhaseFile;
use crate::mix::session::harness_nanos;
use crate::mix::space::{FieldLength, KeyForm, Space};
use crate::record::env;
use crate::record::lab::{LAB_SCHEMA_VERSION, LabRecord, LabSample, LabSession, PointRecord};
use crate::record::schema::EngineRecord;
use crate::record::store::{RecordFile, load_lab};
use crate::run::config::BenchConfig;
use crate::run::interleave::{Candidate, order};
use crate::workload::csv::read_pairs;
use eta::Eta;
use round::LabRound;

/// Options of an experiment's execution.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Scale of the sizes.
    pub scale: Scale,
    /// Scale as written by the user, for the record.
    pub scale_text: String,
    /// Repetitions, overriding the experiment's.
    pub repetitions: Option<usize>,
    /// Only these engines, including engines not named in the experiment.
    pub engines: Option<Vec<String>>,
    /// Only these series; see [`chosen_series`]. Empty: all.
    pub series: Vec<String>,
    /// Record to resume.
    pub resume: Option<PathBuf>,
    /// Base settings, overridden by the experiment's own: directories, progress, the CSV file.
    pub base: BenchConfig,
}

impl LabOptions {
    fn spec_of(&self, engine: &str) -> String {
        self.base.engine_specs.get(engine).cloned().unwrap_or_else(|| engine.into())
    }
}

/// Outcome of an experiment.
#[derive(Debug)]
pub struct LabOutcome {
    /// All measurements.
    pub record: LabRecord,
    /// Path of the record, if it could be written.
    pub record_path: Option<PathBuf>,
    /// Whether a round failed or an expectation was not met.
    pub failed: bool,
}

/// Runs `experiment` over `candidates`, which contain every engine it names. Messages go to
/// `messages`. Fails only if nothing can be run at all.
pub fn run(
    experiment: &Experiment,
    options: &LabOptions,
    candidates: &[Candidate],
    settle_memory: &dyn Fn(),
    messages: &mut dyn Write,
) -> Result<LabOutcome> {
    let points = chosen(experiment, options)?;
    let started = Instant::now();
    let processors = warnings::Before::now();
    let base = Base::make(&options.base)?;
    let seed = experiment.file.seed.unwrap_or(options.base.seed);
    let (mut record, file) = match &options.resume {
        Some(path) => {
            let mut record = resumed(path, experiment, options)?;
            record.warnings.extend(other_build(&record, options));
            (record, Some(RecordFile::existing(path)))
        }
        None => {
            let record = blank(experiment, options, &points, candidates, &base.dir, seed);
            let file = create(options.base.record_dir.as_deref(), &record, messages);
            (record, file)
        }
    };
    for warning in bad_rows(experiment, options) {
        if !record.warnings.contains(&warning) {
            record.warnings.push(warning);
        }
    }
    print_problems(&record, messages);
    // A program has costs of its own.
    if !experiment.file.series.iter().all(|series| run_all(&experiment.file, series.get_ref())) {
        record.harness_nanos_per_op = Some(harness(messages));
    }
    let before = record.elapsed_seconds;
    let mut runner = Runner {
        experiment,
        options,
        points: &points,
        candidates,
        settle_memory,
        base: &base,
        seed,
        file: file.as_ref(),
        started,
        before,
        rounds: record.sessions.len(),
        left_out: Vec::new(),
        failed: false,
    };
    runner.all(&mut record, messages);
    let round_failed = runner.failed;
    let elapsed = started.elapsed().as_secs_f64();
    record.elapsed_seconds = before + elapsed;
    let others = processors.others(elapsed, record.machine.cpu_count);
    for warning in others.into_iter().chain(warnings::warnings(&record)) {
        if !record.warnings.contains(&warning) {
            print_message(messages, &format!("warning: {warning}"));
            record.warnings.push(warning);
        }
    }
    let record_path = file.and_then(|file| save(&file, &record, messages));
    let failed = round_failed
        || record.samples.is_empty()
        || record.samples.iter().any(|s| s.sample.failed());
    Ok(LabOutcome { record, record_path, failed })
}

/// Prints why engines cannot run, and the warnings so far.
fn print_problems(record: &LabRecord, messages: &mut dyn Write) {
    for engine in record.engines.iter().filter(|engine| engine.error.is_some()) {
        print_message(
            messages,
            &format!("{}: {}", engine.name, engine.error.as_deref().unwrap_or_default()),
        );
    }
    for warning in &record.warnings {
        print_message(messages, &format!("warning: {warning}"));
    }
}

/// Returns the problems with rows of the file that provides the series' records. An unreadable file
/// is reported by the series instead.
fn bad_rows(experiment: &Experiment, options: &LabOptions) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(path) = &options.base.csv else { return warnings };
    for series in &experiment.file.series {
        let Some(columns) = &series.get_ref().csv else { continue };
        let found = read_pairs(path, &columns.key, &columns.value, None).unwrap_or_default();
        let left_out = found.left_out();
        warnings.extend(left_out.map(|left_out| format!("{}: {left_out}", path.display())));
    }
    warnings
}

/// Measures the lab's own cost per operation of a phase, in nanoseconds.
fn harness(messages: &mut dyn Write) -> f64 {
    let form = KeyForm::Decimal { width: 16 };
    let space = Space::new(form, 1, FieldLength::Constant(100), 0.5, 1);
    let file = PhaseFile { update: 1.0, keys: Some("zipfian".into()), ..PhaseFile::default() };
    let nothing = (f64::NAN, f64::NAN);
    let (nanos, prepared) =
        file.phase("harness").map_or(nothing, |phase| harness_nanos(&space, &phase));
    print_message(
        messages,
        &format!(
            "the clock and the lab cost {nanos:.1} ns per operation; the lab prepares each key and \
             value ({prepared:.1} ns) while the clock is stopped"
        ),
    );
    nanos
}

/// Returns the indexes of the series named in `names`. A name without an exact match selects all
/// series whose name contains it. Fails if a name matches no series; the error lists the series.
pub fn chosen_series(experiment: &Experiment, names: &[String]) -> Result<Vec<usize>> {
    let all: Vec<&str> =
        experiment.file.series.iter().map(|series| series.get_ref().name.as_str()).collect();
    let mut chosen = Vec::new();
    for name in names {
        let fits = |fit: &dyn Fn(&str) -> bool| -> Vec<usize> {
            (0..all.len()).filter(|&place| fit(all[place])).collect()
        };
        let mut own = fits(&|series| series == name);
        if own.is_empty() {
            own = fits(&|series| series.contains(name.as_str()));
        }
        if own.is_empty() {
            return Err(LabError::usage(format!(
                "{} has no series {name:?}; the series are {}",
                experiment.name,
                all.join("; ")
            )));
        }
        chosen.extend(own);
    }
    Ok(chosen)
}

fn chosen(experiment: &Experiment, options: &LabOptions) -> Result<Vec<Point>> {
    let mut all = points(experiment, options.scale);
    if !options.series.is_empty() {
        let wanted = chosen_series(experiment, &options.series)?;
        all.retain(|point| wanted.contains(&point.series));
    }
    for point in &mut all {
        if let Some(engines) = &options.engines {
            // Engines that the experiment does not name are added to every point.
            let named = experiment.engine_names();
            point.engines.retain(|engine| engines.contains(engine));
            let more = engines.iter().filter(|engine| !named.contains(&engine.as_str()));
            point.engines.extend(more.cloned());
        }
        if let Some(repetitions) = options.repetitions {
            point.repetitions = repetitions;
        }
    }
    all.retain(|point| !point.engines.is_empty());
    if all.is_empty() {
        return Err(LabError::usage("the choice of engines and series leaves nothing to run"));
    }
    Ok(all)
}

struct Runner<'a> {
    experiment: &'a Experiment,
    options: &'a LabOptions,
    points: &'a [Point],
    candidates: &'a [Candidate],
    settle_memory: &'a dyn Fn(),
    base: &'a Base,
    seed: u64,
    file: Option<&'a RecordFile>,
    started: Instant,
    before: f64,
    /// Number of rounds that have begun.
    rounds: usize,
    /// Points whose data is not available.
    left_out: Vec<usize>,
    /// Whether an engine could not run a round.
    failed: bool,
}

impl Runner<'_> {
    fn all(&mut self, record: &mut LabRecord, messages: &mut dyn Write) {
        let repetitions = self.points.iter().map(|point| point.repetitions).max().unwrap_or(0);
        let mut eta = Eta::new(self.points, |name| self.engine_runs(name));
        for repetition in 0..repetitions {
            for (index, point) in self.points.iter().enumerate() {
                if repetition >= point.repetitions {
                    continue;
                }
                for place in order(point.engines.len(), repetition + index) {
                    let name = &point.engines[place];
                    if !self.engine_runs(name) {
                        continue;
                    }
                    if self.left_out.contains(&index) || record.has(index, name, repetition) {
                        eta.skip(point);
                        continue;
                    }
                    print_message(messages, &eta.line(self.experiment, point, name, repetition));
                    let begun = Instant::now();
                    self.one(record, index, name, repetition, messages);
                    eta.done(point, name, begun.elapsed().as_secs_f64());
                    record.elapsed_seconds = self.before + self.started.elapsed().as_secs_f64();
                    if let Some(file) = self.file {
                        save(file, record, messages);
                    }
                }
            }
        }
    }

    fn engine_runs(&self, name: &str) -> bool {
        self.candidates.iter().any(|candidate| candidate.name == name && candidate.engine.is_ok())
    }

    fn one(
        &mut self,
        record: &mut LabRecord,
        index: usize,
        name: &str,
        repetition: usize,
        messages: &mut dyn Write,
    ) {
        let point = &self.points[index];
        let found = self.candidates.iter().find(|candidate| candidate.name == name);
        let Some(Ok(engine)) = found.map(|candidate| candidate.engine.as_ref()) else { return };
        let round = LabRound {
            experiment: self.experiment,
            point,
            engine: engine.as_ref(),
            repetition,
            number: self.rounds,
            seed: self.seed,
            base: &self.options.base,
            base_dir: &self.base.dir,
            settle_memory: self.settle_memory,
        };
        self.rounds += 1;
        // A memory limit may make the kernel kill the process, so the round uses a subprocess.
        let limited = || point.memory_limit.map(|_| self.options.spec_of(name));
        let spec = engine.subprocess_spec().or_else(limited);
        let outcome = match spec.filter(|_| self.options.base.child.is_some()) {
            Some(spec) => round.run_in_subprocess(spec, messages),
            None => round.run(messages),
        };
        crate::run::engine_dir::wait_when_ending();
        match outcome {
            Ok(done) => {
                record.points[index].given.insert(name.into(), done.given);
                let labelled = done.samples.into_iter();
                record.samples.extend(labelled.map(|(phase, step, sample)| LabSample {
                    point: index,
                    phase,
                    step,
                    sample,
                }));
                record.sessions.push(LabSession { point: index, session: done.session });
                record.note_sizes();
                for warning in done.warnings {
                    if !record.warnings.contains(&warning) {
                        print_message(messages, &format!("warning: {warning}"));
                        record.warnings.push(warning);
                    }
                }
            }
            Err(error) => {
                print_message(messages, &format!("{name}: {error}"));
                let whole = matches!(error.kind(), LabErrorKind::Data | LabErrorKind::Usage);
                let why = if whole { error.to_string() } else { format!("{name}: {error}") };
                record.points[index].not_available = Some(why);
                if whole {
                    self.left_out.push(index);
                } else {
                    self.failed = true;
                }
            }
        }
    }
}

fn create(dir: Option<&Path>, record: &LabRecord, messages: &mut dyn Write) -> Option<RecordFile> {
    match RecordFile::create_lab(dir?, record) {
        Ok(file) => {
            print_message(
                messages,
                &format!("record: {} (continue with --resume)", file.path().display()),
            );
            Some(file)
        }
        Err(error) => {
            print_message(messages, &format!("{error}; the run continues without a record"));
            None
        }
    }
}

/// Returns a warning if a record is resumed by a build of another commit.
fn other_build(record: &LabRecord, options: &LabOptions) -> Option<String> {
    let now = options.base.built_from.commit.as_deref()?;
    let before = record.commit.as_deref().unwrap_or("an unknown commit");
    let warning = format!("started by a build of {before}, resumed by a build of {now}");
    (before != now && !record.warnings.contains(&warning)).then_some(warning)
}

/// Loads the record to resume, which must have the same experiment and scale.
fn resumed(path: &Path, experiment: &Experiment, options: &LabOptions) -> Result<LabRecord> {
    let record = load_lab(path)?;
    let differs = |what: &str| {
        let message = format!("{} cannot be resumed: its {what} differs", path.display());
        LabError::new(LabErrorKind::Data, message)
    };
    if record.text != experiment.text {
        return Err(differs("experiment"));
    }
    if record.scale != options.scale_text {
        return Err(differs("scale"));
    }
    let keys: Vec<String> = chosen(experiment, options)?
        .iter()
        .map(|point| experiment.series(point.series).name.clone() + &format!("{:?}", point.params))
        .collect();
    let had =
        record.points.iter().map(|point| point.series.clone() + &format!("{:?}", point.params));
    if !keys.into_iter().eq(had) {
        return Err(differs("choice of series"));
    }
    Ok(record)
}

fn blank(
    experiment: &Experiment,
    options: &LabOptions,
    points: &[Point],
    candidates: &[Candidate],
    base_dir: &Path,
    seed: u64,
) -> LabRecord {
    let machine = env::machine(base_dir);
    let engine = |candidate: &Candidate| EngineRecord {
        name: candidate.name.clone(),
        description: candidate.engine.as_ref().ok().map(|engine| engine.description()),
        // Nothing is known of what a program runs.
        capabilities: candidate
            .engine
            .as_ref()
            .ok()
            .filter(|_| program_of(&experiment.file, &candidate.name).is_none())
            .map(|engine| engine.capabilities()),
        given: Vec::new(),
        error: candidate.engine.as_ref().err().map(ToString::to_string),
    };
    let point = |point: &Point| PointRecord {
        series: experiment.series(point.series).name.clone(),
        params: point.params.clone(),
        params_run: point.params_run.clone(),
        entries: point.entries,
        bytes: None,
        document_entries: point.param("entries").and_then(|entries| entries.parse().ok()),
        steps: Vec::new(),
        share: point.share,
        repetitions: point.repetitions,
        given: Default::default(),
        not_available: None,
    };
    LabRecord {
        lab_schema_version: LAB_SCHEMA_VERSION,
        experiment: experiment.name.clone(),
        text: experiment.text.clone(),
        scale: options.scale_text.clone(),
        started_unix_seconds: env::unix_seconds(),
        elapsed_seconds: 0.0,
        warnings: env::warnings(&machine),
        machine,
        commit: options.base.built_from.commit.clone(),
        commit_dirty: options.base.built_from.dirty,
        seed,
        harness_nanos_per_op: None,
        engines: candidates.iter().map(engine).collect(),
        points: points.iter().map(point).collect(),
        samples: Vec::new(),
        sessions: Vec::new(),
    }
}
