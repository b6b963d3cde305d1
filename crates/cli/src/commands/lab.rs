//! `esker lab`: experiments are listed, checked, run, reported and compared.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use esker_lab::experiment::check::Experiment;
use esker_lab::experiment::find::{Found, all, find};
use esker_lab::experiment::plan::Scale;
use esker_lab::lab::LabOptions;
use esker_lab::record::lab::LabRecord;
use esker_lab::record::store::{load_lab, named_lab};
use esker_lab::report::{lab_compare, lab_html, lab_text};

use super::stdout;
use crate::args::Global;
use crate::failure::{Failure, IO, NOT_FOUND, Outcome, USAGE, say};
use crate::interrupt;

/// Where records are kept.
const RECORDS: &str = "bench/record";

/// Arguments of `lab`.
#[derive(Args)]
pub struct LabArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the experiments there are
    List,
    /// Check experiment files and explain mistakes by line
    Check {
        /// Files, or names of experiments
        #[arg(required = true)]
        files: Vec<String>,
    },
    /// Run an experiment; every turn is saved at once
    Run(RunArgs),
    /// Report a record as text, Markdown, CSV or a page
    Report(ReportArgs),
    /// Load and run a YCSB workload on one engine, with YCSB's properties and result lines
    Ycsb(super::ycsb::YcsbArgs),
    /// List the engines that can be measured, or install one
    Engines(super::engines::EnginesArgs),
    /// Run the turn that standard input describes; the lab calls this itself
    #[command(hide = true)]
    Turn,
    /// Compare two records of one experiment; ends with 1 where something got slower
    Compare {
        /// The record before: a file, or an experiment's name for its newest record (NAME~1: the
        /// one before that)
        before: String,
        /// The record after, named the same way
        after: String,
        /// Compare also what was not measured on equal terms
        #[arg(long)]
        force: bool,
    },
}

#[derive(Args)]
struct RunArgs {
    /// An experiment's name, or a file
    name: String,
    /// A multiple of the default sizes, or `full` for the document's own
    #[arg(long, default_value = "1")]
    scale: String,
    /// Turns of each engine at each point, instead of the experiment's
    #[arg(long)]
    repetitions: Option<usize>,
    /// These engines instead, comma-separated: NAME, or NAME:PATH of a library
    #[arg(long)]
    engines: Option<String>,
    /// Only the series of this name, or else those whose names hold it; may be given again
    #[arg(long, value_name = "NAME")]
    series: Vec<String>,
    /// Go on with this record
    #[arg(long, value_name = "RECORD")]
    resume: Option<PathBuf>,
    /// Folder of the records
    #[arg(long, default_value = RECORDS, value_name = "DIR")]
    record: PathBuf,
    /// Folder for the stores, instead of a temporary one
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Write the page there
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The file of series that need one: CSV, or JSON lines where its name ends in .jsonl
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

#[derive(Args)]
struct ReportArgs {
    /// A record's file, or an experiment's name for its newest record (NAME~1: the one before that)
    record: Option<String>,
    /// How it is printed
    #[arg(long, value_enum, default_value = "text")]
    form: Form,
    /// Write the page there instead of printing
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Markdown,
    Csv,
}

/// Does what is asked: data to stdout, talk to stderr.
pub fn run(args: &LabArgs, global: &Global) -> Outcome {
    match &args.what {
        What::List => list(),
        What::Check { files } => check(files),
        What::Run(args) => run_experiment(args, global),
        What::Report(args) => report(args),
        What::Ycsb(args) => super::ycsb::run(args, global),
        What::Engines(args) => super::engines::run(args, global),
        What::Turn => turn(),
        What::Compare { before, after, force } => compare(before, after, *force),
    }
}

/// A turn in a process of its own, which ends with the one that asked for it.
fn turn() -> Outcome {
    interrupt::exit_after(|| super::bench::remove_stores(std::process::id()));
    esker_lab::run::apart::end_with_parent();
    let (mut input, mut out) = (std::io::stdin(), std::io::stdout());
    esker_peers::apart::serve(&mut input, &mut out, &mut std::io::stderr())?;
    Ok(0)
}

fn list() -> Outcome {
    let mut out = stdout();
    for found in all() {
        let place =
            found.path.as_ref().map_or("built in".into(), |path| path.display().to_string());
        let title = match Experiment::parse(&found.name, &found.text, &esker_peers::lab::known()) {
            Ok(experiment) => experiment.file.title,
            Err(mistakes) => format!("{} mistake(s): see esker lab check", mistakes.len()),
        };
        writeln!(out, "{}\t{title}\t{place}", found.name)?;
    }
    out.flush()?;
    Ok(0)
}

fn check(files: &[String]) -> Outcome {
    let mut wrong = false;
    let mut out = stdout();
    for file in files {
        let found = find(file)?;
        match Experiment::parse(&found.name, &found.text, &esker_peers::lab::known()) {
            Ok(_) => writeln!(out, "{}: right", place(&found))?,
            Err(mistakes) => {
                wrong = true;
                for mistake in mistakes {
                    say(&format!("{}:{}: {}", place(&found), mistake.line, mistake.message));
                }
            }
        }
    }
    out.flush()?;
    Ok(if wrong { USAGE } else { 0 })
}

fn place(found: &Found) -> String {
    found.path.as_ref().map_or(found.name.clone(), |path| path.display().to_string())
}

/// Parses what was found; mistakes become one failure that names the first.
fn parsed(found: &Found) -> Result<Experiment, Failure> {
    Experiment::parse(&found.name, &found.text, &esker_peers::lab::known()).map_err(|mistakes| {
        let first =
            mistakes.first().map_or(String::new(), |m| format!("{}: {}", m.line, m.message));
        Failure::usage(format!("{}:{first} ({} in all)", place(found), mistakes.len()))
    })
}

fn run_experiment(args: &RunArgs, global: &Global) -> Outcome {
    let experiment = parsed(&find(&args.name)?)?;
    let mut base = esker_peers::bench::config();
    base.progress = std::io::stderr().is_terminal();
    base.db.clone_from(&args.db);
    base.csv.clone_from(&args.csv);
    base.record_dir = Some(args.record.clone());
    base.child = std::env::current_exe().ok();
    base.built_from = super::bench::built_from();
    for pair in &global.set {
        let (name, value) = crate::store::split(pair)?;
        base.set(name, value).map_err(Failure::usage)?;
    }
    let options = LabOptions {
        scale: Scale::parse(&args.scale)?,
        scale_text: args.scale.clone(),
        repetitions: args.repetitions,
        engines: args.engines.as_ref().map(|list| list.split(',').map(String::from).collect()),
        series: args.series.clone(),
        specs: Default::default(),
        resume: args.resume.clone(),
        base,
    };
    interrupt::exit_after(super::bench::remove_temporary_stores);
    let outcome = esker_peers::lab::run(&experiment, &options, &mut std::io::stderr());
    let outcome = outcome?;
    let mut out = stdout();
    lab_text::write(&experiment, &outcome.record, lab_text::Form::Terminal, &mut out)?;
    out.flush()?;
    if let Some(path) = &args.html {
        write_page(path, &lab_html::page(&experiment, &outcome.record))?;
    }
    if let Some(path) = &outcome.record_path {
        say(&format!("record: {}", path.display()));
    }
    Ok(if outcome.failed { IO } else { 0 })
}

fn report(args: &ReportArgs) -> Outcome {
    let (path, record) = record_named(args.record.as_deref().unwrap_or(""))?;
    let experiment = of_record(&record, &path)?;
    if let Some(html) = &args.html {
        write_page(html, &lab_html::page(&experiment, &record))?;
        return Ok(0);
    }
    let mut out = stdout();
    match args.form {
        Form::Text => lab_text::write(&experiment, &record, lab_text::Form::Terminal, &mut out)?,
        Form::Markdown => {
            lab_text::write(&experiment, &record, lab_text::Form::Markdown, &mut out)?;
        }
        Form::Csv => lab_text::write_csv(&experiment, &record, &mut out)?,
    }
    out.flush()?;
    Ok(0)
}

fn record_named(name: &str) -> Result<(PathBuf, LabRecord), Failure> {
    let path = named_lab(Path::new(RECORDS), name)?;
    let record = load_lab(&path)?;
    Ok((path, record))
}

fn of_record(record: &LabRecord, path: &Path) -> Result<Experiment, Failure> {
    let name = record.experiment.clone();
    parsed(&Found { name, path: Some(path.to_path_buf()), text: record.text.clone() })
}

fn compare(before: &str, after: &str, force: bool) -> Outcome {
    let ((_, before), (_, after)) = (record_named(before)?, record_named(after)?);
    if before.experiment != after.experiment {
        let (one, other) = (&before.experiment, &after.experiment);
        return Err(Failure::usage(format!("one record is of {one}, the other of {other}")));
    }
    if lab_compare::points_in_common(&before, &after).is_empty() {
        return Err(Failure::usage(format!(
            "the two records have no point in common (one is at scale {}, the other at {}): run both \
             with the same --scale and --series",
            before.scale, after.scale
        )));
    }
    let differences = lab_compare::differences(&before, &after);
    let incomparable = differences.iter().filter(|difference| difference.incomparable).count();
    for difference in &differences {
        let mark = if difference.incomparable { "not comparable: " } else { "" };
        say(&format!("{mark}{}", difference.what));
    }
    if incomparable > 0 && !force {
        return Err(Failure::usage(format!(
            "the two records were not measured on equal terms ({incomparable} difference(s), above): \
             measure one of them again, or compare them all the same with --force"
        )));
    }
    let mut out = stdout();
    let slower = lab_compare::write_comparison(&before, &after, &mut out)?;
    out.flush()?;
    Ok(if slower > 0 { NOT_FOUND } else { 0 })
}

fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, page))
        .map_err(|e| Failure::file("write the page", path, &e))?;
    say(&format!("page: {}", path.display()));
    Ok(())
}
