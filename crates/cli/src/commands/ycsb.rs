//! `esker lab ycsb`: YCSB's core workloads on one engine, with YCSB's properties and result lines.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use esker_lab::mix::ycsb::{Properties, result_lines};
use esker_peers::ycsb::YcsbRun;

use super::stdout;
use crate::args::SetFlag;
use crate::failure::{Failure, IO, Outcome, print_line};
use crate::interrupt;
use crate::store::split_of;

/// Arguments of `lab ycsb`.
#[derive(Args)]
pub struct YcsbArgs {
    /// Engine, or NAME:PATH of a library with LevelDB's C interface
    #[arg(long, alias = "engine", default_value = "esker")]
    db: String,
    /// Report the load phase
    #[arg(long)]
    load: bool,
    /// Run the workload after the load phase and report it
    #[arg(long)]
    run: bool,
    /// Property file, or workloada to workloadf; repeatable, later files take precedence
    #[arg(short = 'P', value_name = "FILE")]
    files: Vec<String>,
    /// Property; repeatable, takes precedence over the files
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    properties: Vec<String>,
    /// Number of threads
    #[arg(long)]
    threads: Option<usize>,
    /// Arrival rate in operations per second, independent of completions
    #[arg(long)]
    target: Option<f64>,
    /// Directory for the store, kept afterwards, instead of a temporary one
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    #[command(flatten)]
    set: SetFlag,
}

/// Loads and runs; result lines go to stdout.
pub fn run(args: &YcsbArgs) -> Outcome {
    let properties = properties(args)?;
    let mut base = esker_peers::bench::config();
    base.progress = std::io::stderr().is_terminal();
    base.db.clone_from(&args.path);
    base.child = std::env::current_exe().ok();
    super::bench::set_all(&mut base, &args.set.set)?;
    // Without `--load` and `--run`, both phases are reported.
    let both = !args.load && !args.run;
    let (load, run) = (args.load || both, args.run || both);
    let ycsb = YcsbRun { engine: args.db.clone(), properties, load, run, base };
    interrupt::exit_after(super::bench::remove_temporary_stores);
    let samples = esker_peers::ycsb::run(&ycsb, &mut std::io::stderr())?;
    let mut out = stdout();
    let mut code = 0;
    for sample in &samples {
        write!(out, "{}", result_lines(sample))?;
        if let Some(error) = &sample.error {
            print_line(&format!("{}: {error}", sample.task));
            code = IO;
        }
    }
    out.flush()?;
    Ok(code)
}

fn properties(args: &YcsbArgs) -> Result<Properties, Failure> {
    let mut properties = Properties::default();
    for file in &args.files {
        let text = match (std::fs::read_to_string(file), core(file)) {
            (Ok(text), _) => text,
            (Err(_), Some(text)) => text,
            (Err(e), None) => {
                return Err(Failure::file("read the properties", Path::new(file), &e));
            }
        };
        properties.read(&text).map_err(|why| Failure::usage(format!("{file}: {why}")))?;
    }
    for pair in &args.properties {
        let (name, value) = split_of("-p", pair)?;
        properties.set(name, value);
    }
    if let Some(threads) = args.threads {
        properties.set("threadcount", &threads.to_string());
    }
    if let Some(target) = args.target {
        properties.set("target", &target.to_string());
    }
    Ok(properties)
}

/// Returns YCSB's own workload file of that name, for use if no such file exists.
fn core(file: &str) -> Option<String> {
    let name = Path::new(file).file_name()?.to_str()?;
    Some(Properties::core(name.strip_prefix("workload")?)?.text())
}
