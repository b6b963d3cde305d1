//! `esker lab`: experiments are listed, checked, run, reported and compared.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use esker_lab::error::LabError;
use esker_lab::experiment::check::{Experiment, Mistake};
use esker_lab::experiment::find::{Found, all, find};
use esker_lab::experiment::plan::Scale;
use esker_lab::lab::LabOptions;
use esker_lab::record::lab::LabRecord;
use esker_lab::record::store::{load_lab, named_lab};
use esker_lab::report::{lab_compare, lab_html, lab_text};
use serde_json::json;

use super::stdout;
use crate::args::{JsonFlag, SetFlag};
use crate::failure::{Failure, NOT_FOUND, Outcome, say, tell};
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
    List {
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Check experiment files and explain mistakes by line
    Check {
        /// Files, or names of experiments
        #[arg(required = true)]
        files: Vec<String>,
        #[command(flatten)]
        json: JsonFlag,
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
    /// Print the record as one JSON object instead of tables; errors too, on stderr
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    set: SetFlag,
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
    /// Print the record as one JSON object; errors too, on stderr
    #[arg(long, conflicts_with_all = ["form", "html"])]
    json: bool,
}

impl LabArgs {
    /// Whether JSON was asked for.
    pub fn json(&self) -> bool {
        match &self.what {
            What::List { json } | What::Check { json, .. } => json.json,
            What::Run(args) => args.json,
            What::Report(args) => args.json,
            What::Engines(args) => args.json(),
            What::Ycsb(_) | What::Turn | What::Compare { .. } => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Markdown,
    Csv,
}

/// Does what is asked: data to stdout, talk to stderr.
pub fn run(args: &LabArgs) -> Outcome {
    match &args.what {
        What::List { json } => list(json.json),
        What::Check { files, json } => check(files, json.json),
        What::Run(args) => run_experiment(args),
        What::Report(args) => report(args),
        What::Ycsb(args) => super::ycsb::run(args),
        What::Engines(args) => super::engines::run(args),
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

fn list(json: bool) -> Outcome {
    let mut out = stdout();
    for found in all() {
        let place =
            found.path.as_ref().map_or("built in".into(), |path| path.display().to_string());
        let parsed = Experiment::parse(&found.name, &found.text, &esker_peers::lab::known());
        if json {
            let mistakes = parsed.as_ref().err().map_or(0, Vec::len);
            let title = parsed.ok().map(|experiment| experiment.file.title);
            let path = found.path.as_ref().map(|path| path.display().to_string());
            let line = json!({
                "experiment": found.name, "title": title, "mistakes": mistakes, "path": path,
            });
            writeln!(out, "{line}")?;
            continue;
        }
        let title = match parsed {
            Ok(experiment) => experiment.file.title,
            Err(mistakes) => format!("{} mistake(s): see esker lab check", mistakes.len()),
        };
        writeln!(out, "{}\t{title}\t{place}", found.name)?;
    }
    out.flush()?;
    Ok(0)
}

fn check(files: &[String], json: bool) -> Outcome {
    let mut wrong = 0;
    let mut out = stdout();
    for file in files {
        let found = find(file)?;
        match Experiment::parse(&found.name, &found.text, &esker_peers::lab::known()) {
            Ok(_) if json => writeln!(out, "{}", json!({ "file": place(&found), "ok": true }))?,
            Ok(_) => writeln!(out, "{}: right", place(&found))?,
            Err(mistakes) => {
                wrong += 1;
                if json {
                    let of = |m: &Mistake| json!({ "line": m.line, "message": m.message });
                    let all: Vec<_> = mistakes.iter().map(of).collect();
                    let line = json!({ "file": place(&found), "ok": false, "mistakes": all });
                    writeln!(out, "{line}")?;
                    continue;
                }
                for mistake in mistakes {
                    say(&format!("{}:{}: {}", place(&found), mistake.line, mistake.message));
                }
            }
        }
    }
    out.flush()?;
    if wrong == 0 {
        return Ok(0);
    }
    let files = super::counted(wrong, "file");
    Err(Failure::usage(format!("there are mistakes in {files}, and nothing was run")))
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

fn run_experiment(args: &RunArgs) -> Outcome {
    let experiment = parsed(&find(&args.name)?)?;
    let mut base = esker_peers::bench::config();
    base.progress = std::io::stderr().is_terminal();
    base.db.clone_from(&args.db);
    base.csv.clone_from(&args.csv);
    base.record_dir = Some(args.record.clone());
    base.child = std::env::current_exe().ok();
    base.built_from = super::bench::built_from();
    for pair in &args.set.set {
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
    if args.json {
        write_json(&outcome.record, &mut out)?;
    } else {
        lab_text::write(&experiment, &outcome.record, lab_text::Form::Terminal, &mut out)?;
    }
    out.flush()?;
    if let Some(path) = &args.html {
        write_page(path, &lab_html::page(&experiment, &outcome.record), args.json)?;
    }
    if let Some(path) = &outcome.record_path {
        tell(args.json, &format!("record: {}", path.display()));
    }
    if outcome.failed {
        return Err(
            LabError::engine("something could not be measured; the record says what").into()
        );
    }
    Ok(0)
}

fn report(args: &ReportArgs) -> Outcome {
    let (path, record) = record_named(args.record.as_deref().unwrap_or(""))?;
    if args.json {
        let mut out = stdout();
        write_json(&record, &mut out)?;
        out.flush()?;
        return Ok(0);
    }
    let experiment = of_record(&record, &path)?;
    if let Some(html) = &args.html {
        write_page(html, &lab_html::page(&experiment, &record), false)?;
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

/// The record as a line.
fn write_json(record: &LabRecord, out: &mut dyn Write) -> Result<(), Failure> {
    serde_json::to_writer(&mut *out, record).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

fn write_page(path: &Path, page: &str, json: bool) -> Result<(), Failure> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, page))
        .map_err(|e| Failure::file("write the page", path, &e))?;
    tell(json, &format!("page: {}", path.display()));
    Ok(())
}
