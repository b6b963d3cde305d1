//! `esker trace`: records the operations of a workload, shows a trace, and replays one.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use esker::internals::human_bytes;
use esker_lab::trace::format::read;
use esker_lab::trace::replay::TraceSummary;
use esker_lab::tune::workload::Sizes;
use esker_peers::trace::RecordRun;
use serde_json::json;

use super::stdout;
use crate::args::{JsonFlag, SetFlag};
use crate::failure::{Failure, IO, Outcome, print_line, print_note};
use crate::interrupt;
use crate::store::split;

/// Arguments of `trace`.
#[derive(Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Run workloads and write their operations to a trace, with hashed keys
    Record(RecordArgs),
    /// Print what a trace consists of
    Show {
        /// Trace
        file: PathBuf,
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Run the operations of a trace on an engine and check every get
    Replay(ReplayArgs),
}

#[derive(Args)]
struct RecordArgs {
    /// File of the trace, which must not exist
    file: PathBuf,
    /// Workload, as for `esker tune`; repeatable
    #[arg(long = "workload", value_name = "WORKLOAD", required = true)]
    workloads: Vec<String>,
    /// Engine, or NAME:PATH of a library with LevelDB's C interface
    #[arg(long, default_value = "esker")]
    engine: String,
    /// Record all operations of one in this many keys
    #[arg(long, value_name = "N", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    one_in: u64,
    /// Record the keys themselves instead of their hashes
    #[arg(long)]
    plain_keys: bool,
    /// Records of core workloads and entries of db_bench's tasks
    #[arg(long, default_value = "100000", value_parser = clap::value_parser!(u32).range(1..))]
    records: u32,
    /// Operations of each run phase [default: as many as records]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    operations: Option<u32>,
    /// YCSB property for all workloads; repeatable
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    properties: Vec<String>,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    set: SetFlag,
}

#[derive(Args)]
struct ReplayArgs {
    /// Trace
    file: PathBuf,
    /// Engine, or NAME:PATH of a library with LevelDB's C interface
    #[arg(long, default_value = "esker")]
    engine: String,
    /// Directory for the store, kept afterwards, instead of a temporary one
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    set: SetFlag,
}

impl TraceArgs {
    /// Returns whether `--json` was given.
    pub fn json(&self) -> bool {
        match &self.what {
            What::Record(args) => args.json.json,
            What::Show { json, .. } => json.json,
            What::Replay(args) => args.json.json,
        }
    }
}

/// Runs the command: data to stdout, messages to stderr.
pub fn run(args: &TraceArgs) -> Outcome {
    match &args.what {
        What::Record(args) => record(args),
        What::Show { file, json } => show(file, json.json),
        What::Replay(args) => replay(args),
    }
}

fn base(set: &SetFlag) -> Result<esker_lab::BenchConfig, Failure> {
    let mut base = esker_peers::bench::config();
    for pair in &set.set {
        let (name, value) = split(pair)?;
        base.set(name, value).map_err(Failure::usage)?;
    }
    Ok(base)
}

fn record(args: &RecordArgs) -> Outcome {
    let properties: Result<Vec<(String, String)>, Failure> = args
        .properties
        .iter()
        .map(|pair| split(pair).map(|(name, value)| (name.into(), value.into())))
        .collect();
    let run = RecordRun {
        engine: args.engine.clone(),
        workloads: args.workloads.clone(),
        sizes: Sizes {
            records: u64::from(args.records),
            operations: args.operations.map(u64::from),
            properties: properties?,
            robust_points: None,
        },
        out: args.file.clone(),
        one_in: args.one_in,
        is_plain: args.plain_keys,
        base: base(&args.set)?,
    };
    interrupt::exit_after(super::bench::remove_temporary_stores);
    let operations = esker_peers::trace::record(&run)?;
    let file = args.file.display();
    print_note(args.json.json, &format!("{file}: {operations} operations"));
    Ok(0)
}

fn show(file: &Path, json: bool) -> Outcome {
    let trace = read(file)?;
    let own = TraceSummary::of(&trace);
    let mut out = stdout();
    if json {
        let object = json!({
            "operations": trace.lines.len(), "complete": trace.is_complete, "gets": own.gets,
            "misses": own.misses, "puts": own.puts, "deletes": own.deletes, "scans": own.scans,
            "scanned_pairs": own.scanned_pairs, "keys": own.keys, "loaded_keys": own.loaded_keys,
            "hot_operations": own.hot_operations, "written_bytes": own.written_bytes,
            "micros": own.micros,
        });
        writeln!(out, "{object}")?;
        out.flush()?;
        return Ok(0);
    }
    let operations = trace.lines.len();
    let percent = |part: u64| part as f64 / operations.max(1) as f64 * 100.0;
    let cut = if trace.is_complete { "" } else { "; the recording was cut off" };
    writeln!(out, "{operations} operations in {:.3} s{cut}", own.micros as f64 / 1e6)?;
    for (name, count) in [
        ("gets that found their key", own.gets),
        ("gets of missing keys", own.misses),
        ("puts", own.puts),
        ("deletes", own.deletes),
        ("scans", own.scans),
    ] {
        writeln!(out, "{count:>12} {name} ({:.1} %)", percent(count))?;
    }
    writeln!(
        out,
        "{} keys; a hundredth of them has {:.1} % of the operations",
        own.keys,
        percent(own.hot_operations)
    )?;
    writeln!(
        out,
        "{} written; a scan reads {:.1} pairs; a replay loads {} keys first",
        human_bytes(own.written_bytes),
        own.scanned_pairs as f64 / own.scans.max(1) as f64,
        own.loaded_keys
    )?;
    out.flush()?;
    Ok(0)
}

fn replay(args: &ReplayArgs) -> Outcome {
    let mut base = base(&args.set)?;
    base.db.clone_from(&args.db);
    interrupt::exit_after(super::bench::remove_temporary_stores);
    let messages = &mut std::io::stderr();
    let sample = esker_peers::trace::replay(&args.file, &args.engine, &base, messages)?;
    let mut out = stdout();
    if args.json.json {
        serde_json::to_writer(&mut out, &sample).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        let p99 = sample.latency.as_ref().map_or(f64::NAN, |latency| latency.p99_micros);
        writeln!(
            out,
            "{} operations, {:.0} operations per second, 99th percentile {p99:.1} µs",
            sample.operations,
            sample.ops_per_sec.unwrap_or(f64::NAN)
        )?;
    }
    out.flush()?;
    if let Some(error) = &sample.error {
        print_line(&format!("esker: {error}"));
        return Ok(IO);
    }
    Ok(0)
}
