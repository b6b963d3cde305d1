//! `esker bench`: the lab's benchmark, with db_bench's flags.
//!
//! Clap does not parse the flags. `configure` splits each `--name=value` or `--name value` into
//! name and value, and [`BenchConfig`] interprets them.

use std::ffi::OsString;
use std::io::IsTerminal;

use clap::Args;
use esker_lab::BenchConfig;
use esker_lab::error::LabError;
use esker_lab::preset::{PRESETS, Preset};
use esker_lab::run::config::{BuiltFrom, FLAGS};
use esker_lab::workload::tasks::TASKS;
use esker_peers::bench::ENGINES;

use super::stdout;
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::store::split;

/// Arguments of `bench`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct BenchArgs {
    /// db_bench's flags, as --name=value; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

/// Runs the benchmark: rows to stdout, messages to stderr.
pub fn run(args: &BenchArgs, global: &Global) -> Outcome {
    let Some((config, preset)) = configure(args, global)? else {
        return help();
    };
    interrupt::exit_after(remove_temporary_stores);
    let mut out = stdout();
    let mut messages = std::io::stderr();
    let exit_code = match preset {
        Some(preset) => esker_peers::preset::run(preset, &config, &mut out, &mut messages)?,
        None => esker_peers::bench::run(&config, &mut out, &mut messages)?.exit_code,
    };
    std::io::Write::flush(&mut out)?;
    if exit_code == 0 {
        return Ok(0);
    }
    let causes = if preset.is_some() { "the messages above" } else { "the rows" };
    Err(LabError::engine(format!("some measurements failed; {causes} name the causes")).into())
}

/// Applies the values of the flag `--set`.
pub fn set_all(config: &mut BenchConfig, pairs: &[String]) -> Result<(), Failure> {
    for pair in pairs {
        let (name, value) = split(pair)?;
        config.set(name, value).map_err(Failure::usage)?;
    }
    Ok(())
}

/// Returns the settings and the preset; `None` if help is requested.
fn configure(
    args: &BenchArgs,
    global: &Global,
) -> Result<Option<(BenchConfig, Option<Preset>)>, Failure> {
    let mut preset = None;
    let mut config = esker_peers::bench::config();
    config.progress = std::io::stderr().is_terminal();
    config.json = global.json;
    config.child = std::env::current_exe().ok();
    config.built_from = built_from();
    set_all(&mut config, &global.set)?;
    let mut flags = args.flags.iter().map(|flag| flag.to_string_lossy());
    while let Some(flag) = flags.next() {
        if flag == "--help" || flag == "-h" {
            return Ok(None);
        }
        let Some(name) = flag.strip_prefix("--") else {
            return Err(Failure::usage(format!("bench expects --name=value, found {flag:?}")));
        };
        let mut set = |name: &str, value: &str| match name {
            "preset" => Preset::parse(value).map(|found| preset = Some(found)),
            _ => config.set(name, value),
        };
        match name.split_once('=') {
            Some((name, value)) => set(name, value),
            None if BenchConfig::is_switch(name) => set(name, ""),
            None => match flags.next() {
                Some(value) => set(name, &value),
                None => Err(format!("--{name} needs a value")),
            },
        }
        .map_err(Failure::usage)?;
    }
    Ok(Some((config, preset)))
}

fn help() -> Outcome {
    use std::io::Write;
    let mut out = stdout();
    writeln!(
        out,
        "Benchmark Esker against other stores\n\nUsage: esker bench [--NAME=VALUE]...\n"
    )?;
    for (name, value, what) in FLAGS {
        let flag = if value.is_empty() { format!("--{name}") } else { format!("--{name}={value}") };
        writeln!(out, "  {flag:<32} {what}")?;
    }
    writeln!(out, "\nTables of --preset=NAME, instead of the tasks and the usual tables:\n")?;
    for (name, _, what) in PRESETS {
        writeln!(out, "  {name:<32} {what}")?;
    }
    writeln!(
        out,
        "\nTasks of --benchmarks, in any order; they run on one store, one after another:\n"
    )?;
    for task in TASKS {
        writeln!(out, "  {:<32} {}", task.name, task.about)?;
    }
    writeln!(out, "\nEngines: {}; see `esker lab engines`.", ENGINES.join(", "))?;
    writeln!(out, "\nEach store option of Esker is also a flag: see `esker options`.")?;
    out.flush()?;
    Ok(0)
}

/// Returns the commit of this build, as determined by the build script.
pub fn built_from() -> BuiltFrom {
    let commit = Some(env!("ESKER_COMMIT").to_string()).filter(|commit| !commit.is_empty());
    let dirty = match env!("ESKER_COMMIT_DIRTY") {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    };
    BuiltFrom { commit, dirty }
}

/// Cleans up after an interrupted run: removes its temporary stores. The record file, if the run
/// has one, stays. It was saved after each measurement.
pub fn remove_temporary_stores() {
    remove_stores(std::process::id());
    let line = "esker: the record file, if there is one, holds the measurements so far";
    crate::failure::print_note(crate::failure::json_asked(), line);
}

/// Maximum number of removal attempts, since a run that still writes can disturb a removal.
const REMOVE_TRIES: usize = 50;

/// Removes the temporary stores of process `id`, which may still be writing to them.
pub fn remove_stores(id: u32) {
    esker_lab::run::engine_dir::refuse_new_dirs();
    let prefix = format!("esker-bench-{id}-");
    for _ in 0..REMOVE_TRIES {
        let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
        let own = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(&prefix);
        let left: Vec<_> = entries.flatten().filter(|entry| own(&entry.file_name())).collect();
        if left.is_empty() {
            return;
        }
        for entry in left {
            // A failed removal is retried. After the last try the directory is left behind.
            let _ = std::fs::remove_dir_all(entry.path());
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
