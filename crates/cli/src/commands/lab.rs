//! `esker lab`: lists, checks, runs, reports and compares experiments, and shows their trends.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use esker_lab::error::LabError;
use esker_lab::experiment::check::{Experiment, Mistake};
use esker_lab::experiment::claim;
use esker_lab::experiment::find::{Found, all, find};
use esker_lab::experiment::plan::Scale;
use esker_lab::lab::LabOptions;
use esker_lab::record::lab::LabRecord;
use esker_lab::record::store::{load_lab, named_lab};
use esker_lab::report::{lab_claims, lab_compare, lab_html, lab_text, site};
use serde_json::json;

use super::{stdout, write_file, write_json};
use crate::args::{JsonFlag, SetFlag};
use crate::failure::{Failure, NOT_FOUND, Outcome, print_line, print_note};
use crate::interrupt;

/// Default directory of the records.
pub(super) const RECORDS: &str = "bench/record";

/// Arguments of `lab`.
#[derive(Args)]
pub struct LabArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the available experiments
    List {
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Check experiment files and report mistakes by line
    Check {
        /// Files or names of experiments
        #[arg(required = true)]
        files: Vec<String>,
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Run an experiment, saving every round at once
    Run(RunArgs),
    /// Report a record as text, Markdown, CSV or an HTML page
    Report(ReportArgs),
    /// Write a folder of HTML pages for several records, with an index
    Site(SiteArgs),
    /// Load and run a YCSB workload on one engine, with YCSB's properties and result lines
    Ycsb(super::ycsb::YcsbArgs),
    /// List the engines that can be measured, or install one
    Engines(super::engines::EnginesArgs),
    /// Execute the round described on standard input; called only by the lab itself
    #[command(hide = true)]
    Round,
    /// Compare two records of one experiment; exit code 1 if a measure got slower
    Compare {
        /// Record before: a file, or an experiment's name for its newest record (NAME~1: the record
        /// before that)
        before: String,
        /// Record after: a file or a name, as for the first
        after: String,
        /// Compare also measurements with unequal conditions
        #[arg(long)]
        force: bool,
    },
    /// Show one series over several records, with a verdict on each row; exit code 1 if a row got
    /// worse
    Trend(super::lab_trend::TrendArgs),
}

#[derive(Args)]
struct RunArgs {
    /// Experiment's name, or a file
    name: String,
    /// Multiple of the default sizes, or `full` for the document's own sizes
    #[arg(long, default_value = "1")]
    scale: String,
    /// Runs of each engine at each point [default: the experiment's]
    #[arg(long)]
    repetitions: Option<usize>,
    /// Engines to measure instead, comma-separated: NAME, or NAME:PATH of a library
    #[arg(long)]
    engines: Option<String>,
    /// Only the series with this name, or else all series whose name contains it; repeatable
    #[arg(long, value_name = "NAME")]
    series: Vec<String>,
    /// Resume this record
    #[arg(long, value_name = "RECORD")]
    resume: Option<PathBuf>,
    /// Directory of the records
    #[arg(long, default_value = RECORDS, value_name = "DIR")]
    record: PathBuf,
    /// Directory for the stores instead of a temporary one
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Write an HTML page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Input file for series that need one: CSV, or JSON lines if its name ends in .jsonl
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print the record as one JSON object instead of tables; also for errors, on stderr
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    set: SetFlag,
}

#[derive(Args)]
struct ReportArgs {
    /// Record: a file, or an experiment's name for its newest record (NAME~1: the record before
    /// that)
    record: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    form: Form,
    /// Write an HTML page to this file instead of printing
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the record as one JSON object; also for errors, on stderr
    #[arg(long, conflicts_with_all = ["form", "html"])]
    json: bool,
}

#[derive(Args)]
struct SiteArgs {
    /// Records: files, or experiments' names for their newest records
    #[arg(required = true)]
    records: Vec<String>,
    /// Directory of the pages; it is created, and files of the same names are replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl LabArgs {
    /// Returns whether `--json` was given.
    pub fn json(&self) -> bool {
        match &self.what {
            What::List { json } | What::Check { json, .. } => json.json,
            What::Run(args) => args.json,
            What::Report(args) => args.json,
            What::Engines(args) => args.json(),
            What::Trend(args) => args.json(),
            What::Site(_) | What::Ycsb(_) | What::Round | What::Compare { .. } => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Markdown,
    /// Every figure as a row of CSV
    Csv,
    /// Every test of a document's claim as a row of CSV
    Claims,
}

/// Runs the command: data to stdout, messages to stderr.
pub fn run(args: &LabArgs) -> Outcome {
    match &args.what {
        What::List { json } => list(json.json),
        What::Check { files, json } => check(files, json.json),
        What::Run(args) => run_experiment(args),
        What::Report(args) => report(args),
        What::Site(args) => site(args),
        What::Ycsb(args) => super::ycsb::run(args),
        What::Engines(args) => super::engines::run(args),
        What::Round => round(),
        What::Compare { before, after, force } => compare(before, after, *force),
        What::Trend(args) => super::lab_trend::run(args),
    }
}

/// Executes one round in this subprocess, which ends together with its parent process.
fn round() -> Outcome {
    interrupt::exit_after(|| super::bench::remove_stores(std::process::id()));
    esker_lab::run::subprocess::end_with_parent();
    let (mut input, mut out) = (std::io::stdin(), std::io::stdout());
    esker_peers::subprocess::serve(&mut input, &mut out, &mut std::io::stderr())?;
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
            Err(mistakes) => format!("{} mistake(s); run `esker lab check`", mistakes.len()),
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
                    print_line(&format!("{}:{}: {}", place(&found), mistake.line, mistake.message));
                }
            }
        }
    }
    out.flush()?;
    if wrong == 0 {
        return Ok(0);
    }
    let files = super::counted(wrong, "file");
    Err(Failure::usage(format!("found mistakes in {files}, and nothing was run")))
}

fn place(found: &Found) -> String {
    found.path.as_ref().map_or(found.name.clone(), |path| path.display().to_string())
}

/// Parses an experiment; mistakes become one failure that names the first.
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
    super::bench::set_all(&mut base, &args.set.set)?;
    let options = LabOptions {
        scale: Scale::parse(&args.scale)?,
        scale_text: args.scale.clone(),
        repetitions: args.repetitions,
        engines: args.engines.as_ref().map(|list| list.split(',').map(String::from).collect()),
        series: args.series.clone(),
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
        print_note(args.json, &format!("record: {}", path.display()));
    }
    if outcome.failed {
        return Err(
            LabError::engine("some measurements failed; the record names the causes").into()
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
        Form::Claims => lab_claims::write_claims_csv(&experiment, &record, &mut out)?,
    }
    out.flush()?;
    Ok(0)
}

/// Writes the pages of several records.
fn site(args: &SiteArgs) -> Outcome {
    let entry = |name: &String| -> Result<site::Entry, Failure> {
        let (path, record) = record_named(name)?;
        Ok(site::Entry { experiment: of_record(&record, &path)?, record })
    };
    let entries: Vec<site::Entry> = args.records.iter().map(entry).collect::<Result<_, _>>()?;
    std::fs::create_dir_all(&args.out)
        .map_err(|e| LabError::io("create the directory of the pages", &args.out, &e))?;
    for (name, page) in site::files(&entries) {
        write_file(&args.out.join(name), "write the page", &page)?;
    }
    print_note(false, &format!("site: {}", args.out.join("index.html").display()));
    Ok(0)
}

/// Loads the record that a file's name or an experiment's name stands for.
pub(super) fn record_named(name: &str) -> Result<(PathBuf, LabRecord), Failure> {
    let path = named_lab(Path::new(RECORDS), name)?;
    let record = load_lab(&path)?;
    Ok((path, record))
}

fn of_record(record: &LabRecord, path: &Path) -> Result<Experiment, Failure> {
    let name = record.experiment.clone();
    let mut experiment =
        parsed(&Found { name, path: Some(path.to_path_buf()), text: record.text.clone() })?;
    claim::adopt(&mut experiment);
    Ok(experiment)
}

fn compare(before: &str, after: &str, force: bool) -> Outcome {
    let ((_, before), (_, after)) = (record_named(before)?, record_named(after)?);
    if before.experiment != after.experiment {
        let (one, other) = (&before.experiment, &after.experiment);
        return Err(Failure::usage(format!(
            "the records belong to different experiments: {one} and {other}"
        )));
    }
    if lab_compare::points_in_common(&before, &after).is_empty() {
        return Err(Failure::usage(format!(
            "the two records have no point in common (their scales are {} and {}); run both with \
             the same --scale and --series",
            before.scale, after.scale
        )));
    }
    let differences = lab_compare::differences(&before, &after);
    let incomparable = differences.iter().filter(|difference| difference.incomparable).count();
    for difference in &differences {
        let mark = if difference.incomparable { "not comparable: " } else { "" };
        print_line(&format!("{mark}{}", difference.what));
    }
    if incomparable > 0 && !force {
        return Err(Failure::usage(format!(
            "the two records were measured on different terms ({incomparable} difference(s), \
             listed above); measure one of them again, or compare them anyway with --force"
        )));
    }
    let mut out = stdout();
    let slower = lab_compare::write_comparison(&before, &after, &mut out)?;
    out.flush()?;
    Ok(if slower > 0 { NOT_FOUND } else { 0 })
}

/// Writes a page to a file, and says where it is.
pub(super) fn write_page(path: &Path, page: &str, json: bool) -> Result<(), Failure> {
    write_file(path, "write the page", page)?;
    print_note(json, &format!("page: {}", path.display()));
    Ok(())
}
