//! One benchmark from settings to reports: data, runs, record, rows, table, JSON, page.
//!
//! `out` receives data (rows, tables, JSON lines), and `messages` progress messages. The record is
//! saved after every run, so an interrupted benchmark keeps its measurements.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use crate::error::{LabError, LabErrorKind, Result};
use crate::record::env;
use crate::record::schema::{EngineRecord, RunRecord, SCHEMA_VERSION, TaskSample, Workload};
use crate::record::store::RecordFile;
use crate::report::{front, html, json, table};
use crate::run::config::BenchConfig;
use crate::run::interleave::{self, Candidate, Observer, Run};
use crate::run::session::Listener;
use crate::stats::summary::BASE_ENGINE;
use crate::workload::csv::CsvPairs;
use crate::workload::dataset::Dataset;
use crate::workload::tasks::parse_tasks;

/// Outcome of a benchmark.
#[derive(Debug)]
pub struct BenchOutcome {
    /// 0; or 1 if an engine failed, returned wrong data, or no engine could run.
    pub exit_code: i32,
    /// Path of the record, if one was requested and could be written.
    pub record_path: Option<PathBuf>,
    /// Path of the page, if one was requested.
    pub html_path: Option<PathBuf>,
    /// All measurements.
    pub record: RunRecord,
}

/// Maximum number of bad rows reported one by one; further bad rows are counted.
const BAD_ROWS_NAMED: usize = 10;

/// Runs a benchmark over `candidates`. `settle_memory` returns freed memory to the operating
/// system. Unknown tasks and unusable data fail before anything runs. An engine's failure is part
/// of the outcome instead.
pub fn run(
    config: &BenchConfig,
    candidates: &[Candidate],
    settle_memory: &dyn Fn(),
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<BenchOutcome> {
    config.validate()?;
    let tasks = parse_tasks(&config.benchmarks)?;
    let started = Instant::now();
    let (data, csv) = config.dataset()?;
    let mut config = config.clone();
    config.fit_store(&tasks, data.raw_bytes());
    report_bad_rows(&config, &csv, messages);
    let base = Base::make(&config)?;
    let mut record = blank(&config, &data, &csv, candidates, &base.dir);
    for engine in &record.engines {
        if let Some(error) = &engine.error {
            print_message(messages, &format!("{}: {error}", engine.name));
        }
    }
    for warning in &record.warnings {
        print_message(messages, &format!("warning: {warning}"));
    }
    let file = create_record(&config, &record, messages);
    let run =
        Run { config: &config, tasks: &tasks, data: &data, base_dir: &base.dir, settle_memory };
    let mut printer = ProgressPrinter {
        out: &mut *out,
        messages: &mut *messages,
        file: file.as_ref(),
        json: config.json,
    };
    interleave::run(&run, candidates, &mut record, &mut printer);
    for (engine, candidate) in record.engines.iter().zip(candidates) {
        if let (Some(error), Ok(_)) = (&engine.error, &candidate.engine) {
            print_message(messages, &format!("{} stopped: {error}", engine.name));
        }
    }
    record.elapsed_seconds = started.elapsed().as_secs_f64();
    drop(base);
    let record_path = file.and_then(|file| save(&file, &record, messages));
    write_reports(&config, &record, out)
        .map_err(|e| LabError::new(LabErrorKind::Io, format!("cannot write the results: {e}")))?;
    let html_path = write_page(&config, || html::page(&record), messages);
    if let Some(path) = &record_path {
        print_message(messages, &format!("record: {}", path.display()));
    }
    Ok(BenchOutcome { exit_code: exit_code(&record), record_path, html_path, record })
}

/// Calls [`run`] for each of the terms in the settings, one after another. With several terms, the
/// text and the page begin with the tables of all terms, and the outcome is that of the last terms
/// with the worst exit code.
pub fn run_terms(
    config: &BenchConfig,
    candidates: &[Candidate],
    settle_memory: &dyn Fn(),
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<BenchOutcome> {
    if config.terms.len() < 2 {
        return run(config, candidates, settle_memory, out, messages);
    }
    let mut outcomes: Vec<BenchOutcome> = Vec::new();
    for terms in &config.terms {
        let mut own = config.clone();
        own.html = None;
        own.set("terms", terms.name()).map_err(LabError::usage)?;
        print_message(messages, &format!("terms: {}", terms.name()));
        let mut nowhere = std::io::sink();
        let rows: &mut dyn Write = if config.json { &mut *out } else { &mut nowhere };
        outcomes.push(run(&own, candidates, settle_memory, rows, messages)?);
    }
    let records: Vec<&RunRecord> = outcomes.iter().map(|outcome| &outcome.record).collect();
    if !config.json {
        front::write(&records, out).and_then(|()| out.flush()).map_err(|e| {
            LabError::new(LabErrorKind::Io, format!("cannot write the results: {e}"))
        })?;
    }
    let html_path = write_page(config, || front::page(&records), messages);
    let exit_code = outcomes.iter().map(|outcome| outcome.exit_code).max().unwrap_or(1);
    let last = outcomes.pop().ok_or_else(|| LabError::usage("no terms are given"))?;
    Ok(BenchOutcome { exit_code, html_path, ..last })
}

fn exit_code(record: &RunRecord) -> i32 {
    let failed = record.samples.iter().any(TaskSample::failed);
    let stopped = record.engines.iter().any(|engine| {
        engine.error.is_some() && record.samples.iter().any(|s| s.engine == engine.name)
    });
    i32::from(failed || stopped || record.samples.is_empty())
}

/// Writes a line to `messages`.
pub fn print_message(messages: &mut dyn Write, text: &str) {
    // A failed write means that no reader is left, so the error is ignored.
    let _ = writeln!(messages, "{text}");
}

/// Directory of the stores. A temporary directory is removed when the benchmark ends.
pub struct Base {
    /// The directory.
    pub dir: PathBuf,
    temporary: bool,
}

impl Base {
    /// Returns the directory named in the settings, or a temporary one; creates it if missing.
    pub fn make(config: &BenchConfig) -> Result<Base> {
        let (dir, temporary) = match &config.db {
            Some(dir) => (dir.clone(), false),
            None => {
                let name = format!("esker-bench-{}-{}", std::process::id(), env::unix_seconds());
                (std::env::temp_dir().join(name), true)
            }
        };
        std::fs::create_dir_all(&dir).map_err(|e| LabError::io("create the folder", &dir, &e))?;
        Ok(Base { dir, temporary })
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        if self.temporary {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

struct ProgressPrinter<'a> {
    out: &'a mut dyn Write,
    messages: &'a mut dyn Write,
    file: Option<&'a RecordFile>,
    json: bool,
}

impl Listener for ProgressPrinter<'_> {
    fn sample(&mut self, sample: &TaskSample) {
        if sample.task != "stats" {
            let row = table::sample_row(sample);
            print_message(
                self.messages,
                &format!("[{}] {:<10} {row}", sample.repetition + 1, sample.engine),
            );
        }
    }

    fn stats(&mut self, engine: &str, text: &str) {
        let place: &mut dyn Write = if self.json { self.messages } else { self.out };
        let _ = writeln!(place, "stats of {engine}:\n{}", text.trim_end());
    }
}

impl Observer for ProgressPrinter<'_> {
    fn round_done(&mut self, record: &RunRecord) {
        if let Some(file) = self.file {
            save(file, record, self.messages);
        }
    }
}

/// Saves `record` to `file`. A failure is reported on `messages`, and the benchmark continues.
pub(crate) fn save(
    file: &RecordFile,
    record: &impl Serialize,
    messages: &mut dyn Write,
) -> Option<PathBuf> {
    match file.save(record) {
        Ok(()) => Some(file.path().to_path_buf()),
        Err(error) => {
            print_message(messages, &error.to_string());
            None
        }
    }
}

fn create_record(
    config: &BenchConfig,
    record: &RunRecord,
    messages: &mut dyn Write,
) -> Option<RecordFile> {
    let dir = config.record_dir.as_ref()?;
    match RecordFile::create(dir, record) {
        Ok(file) => Some(file),
        Err(error) => {
            print_message(messages, &format!("{error}; the run continues without a record"));
            None
        }
    }
}

fn report_bad_rows(config: &BenchConfig, csv: &CsvPairs, messages: &mut dyn Write) {
    let Some(path) = config.csv.as_ref().filter(|_| !csv.bad_rows.is_empty()) else { return };
    print_message(
        messages,
        &format!("{}: {} bad row(s) skipped", path.display(), csv.bad_rows.len()),
    );
    for bad in csv.bad_rows.iter().take(BAD_ROWS_NAMED) {
        print_message(messages, &format!("  line {}: {}", bad.line, bad.why));
    }
    if csv.bad_rows.len() > BAD_ROWS_NAMED {
        print_message(messages, &format!("  and {} more", csv.bad_rows.len() - BAD_ROWS_NAMED));
    }
}

fn blank(
    config: &BenchConfig,
    data: &Dataset,
    csv: &CsvPairs,
    candidates: &[Candidate],
    base: &Path,
) -> RunRecord {
    let machine = env::machine(base);
    let source = config.csv.as_ref().map(|path| path.display().to_string());
    let engines: Vec<EngineRecord> =
        candidates.iter().map(|candidate| engine_record(candidate, config)).collect();
    let mut running = engines.iter().filter(|engine| engine.error.is_none());
    let first = running.clone().next();
    let base_engine = running.find(|engine| engine.name == BASE_ENGINE).or(first);
    RunRecord {
        schema_version: SCHEMA_VERSION,
        started_unix_seconds: env::unix_seconds(),
        elapsed_seconds: 0.0,
        warnings: env::warnings(&machine),
        machine,
        commit: config.built_from.commit.clone(),
        commit_dirty: config.built_from.dirty,
        options: config.options(),
        seed: config.seed,
        workload: Workload {
            source: source.unwrap_or_else(|| "generated".into()),
            rows: data.rows(),
            keys: data.key_count() as u64,
            key_bytes_mean: data.key_bytes_mean(),
            value_bytes_mean: data.value_bytes_mean(),
            raw_bytes: data.raw_bytes(),
            bad_rows: csv.bad_rows.len() as u64,
            fingerprint: format!("{:016x}", data.fingerprint()),
            repetitions: config.repetitions,
            threads: config.threads,
        },
        base_engine: base_engine.map(|engine| engine.name.clone()),
        engines,
        samples: Vec::new(),
        sessions: Vec::new(),
    }
}

fn engine_record(candidate: &Candidate, config: &BenchConfig) -> EngineRecord {
    let engine = candidate.engine.as_ref();
    EngineRecord {
        name: candidate.name.clone(),
        description: engine.ok().map(|engine| engine.description()),
        capabilities: engine.ok().map(|engine| engine.capabilities()),
        given: engine.map_or_else(|_| Vec::new(), |engine| engine.given(&config.store)),
        error: engine.err().map(ToString::to_string),
    }
}

fn write_reports(
    config: &BenchConfig,
    record: &RunRecord,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    if config.json {
        json::write_lines(record, out)?;
    } else {
        table::write_header(record, out)?;
        table::write_rows(record, out)?;
        table::write_comparison(record, out)?;
    }
    out.flush()
}

fn write_page(
    config: &BenchConfig,
    page: impl FnOnce() -> String,
    messages: &mut dyn Write,
) -> Option<PathBuf> {
    let path = config.html.as_ref()?;
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    match made.and_then(|()| std::fs::write(path, page())) {
        Ok(()) => {
            print_message(messages, &format!("page: {}", path.display()));
            Some(path.clone())
        }
        Err(e) => {
            print_message(messages, &LabError::io("write the page", path, &e).to_string());
            None
        }
    }
}
