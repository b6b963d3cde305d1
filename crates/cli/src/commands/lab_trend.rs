//! `esker lab trend`: one series over several records.
//!
//! Invariants:
//! 1. Records that were measured on different terms are refused without `--force`, except for
//!    different machines, of which only the ratios are judged.
//! 2. Notes are on stderr, so standard output has the trend alone.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use esker_lab::report::trend::judge::{Verdict, Wanted, trend};
use esker_lab::report::trend::sources::{Chosen, Source, choose, differences};
use esker_lab::report::trend::{html, text};

use super::lab::{record_named, write_page};
use super::{counted, stdout, write_json};
use crate::failure::{Failure, NOT_FOUND, Outcome, print_note};

/// Arguments of `lab trend`.
#[derive(Args)]
pub struct TrendArgs {
    /// Records, in any order: files, or an experiment's name for its newest record (NAME~1: the
    /// record before that)
    #[arg(required = true)]
    records: Vec<String>,
    /// Series with this name, or else the one whose name contains it [default: the only one]
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    /// Engine of the figures [default: esker, or the first measured engine]
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Unit of the figures, such as `ops/s` or `write amplification` [default: the series' own]
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    /// Write an HTML page with charts to this file instead of printing
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Show also records with unequal conditions
    #[arg(long)]
    force: bool,
    /// Print the trend as one JSON object; also for errors, on stderr
    #[arg(long, conflicts_with = "html")]
    json: bool,
}

impl TrendArgs {
    /// Returns whether `--json` was given.
    pub fn json(&self) -> bool {
        self.json
    }
}

/// Runs the command. The exit code is 1 if a row got worse.
pub fn run(args: &TrendArgs) -> Outcome {
    let source = |name: &String| -> Result<Source, Failure> {
        let (path, record) = record_named(name)?;
        Ok(Source { path: path.display().to_string(), record })
    };
    let sources: Vec<Source> = args.records.iter().map(source).collect::<Result<_, _>>()?;
    let chosen = choose(sources, args.series.as_deref())?;
    for path in &chosen.left_out {
        let series = &chosen.series;
        print_note(args.json, &format!("{path} has no series {series:?} and is left out"));
    }
    same_terms(args, &chosen)?;
    let wanted = Wanted { engine: args.engine.as_deref(), unit: args.unit.as_deref() };
    let trend = trend(&chosen, wanted)?;
    if let Some(path) = &args.html {
        write_page(path, &html::page(&trend), args.json)?;
    } else {
        let mut out = stdout();
        if args.json {
            write_json(&trend, &mut out)?;
        } else {
            text::write(&trend, &mut out)?;
        }
        out.flush()?;
    }
    Ok(if trend.count(Verdict::Worse) > 0 { NOT_FOUND } else { 0 })
}

/// Names the differences of the records, and refuses those that make them incomparable.
fn same_terms(args: &TrendArgs, chosen: &Chosen) -> Result<(), Failure> {
    let differences = differences(&chosen.sources);
    let mut unequal = 0;
    for difference in &differences {
        let mark = match (difference.incomparable, difference.of_machine) {
            (false, _) => "",
            (true, true) => "other machine: ",
            (true, false) => "not comparable: ",
        };
        unequal += u64::from(difference.incomparable && !difference.of_machine);
        print_note(args.json, &format!("{mark}{}", difference.what));
    }
    if unequal == 0 || args.force {
        return Ok(());
    }
    let count = counted(unequal, "difference");
    Err(Failure::usage(format!(
        "the records were measured on different terms ({count}, listed above); leave records out, \
         or show them anyway with --force"
    )))
}
