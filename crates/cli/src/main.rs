//! The `esker` command.
//!
//! Invariants:
//! 1. stdout carries only data, and stderr only messages.
//! 2. Every failure is one sentence and an exit code: 0 done, 1 key not found or
//!    stores differ, 2 usage, 3 corruption, 4 input and output, 130 interrupted.
//! 3. A reader that closes the pipe early ends the command without a message.
#![forbid(unsafe_code)]

mod args;
mod bytes;
mod commands;
mod doctor;
mod failure;
#[cfg(test)]
mod fuzz_tests;
mod interrupt;
mod keyspaces;
mod progress;
mod rows;
mod shell;
mod store;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, Global};
use failure::{Failure, Outcome};

fn main() -> ExitCode {
    let args = args::in_order(std::env::args_os());
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout with exit code 0; usage errors go to stderr with exit code 2.
            if !error.use_stderr() {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            if failure::json_asked() {
                let text = error.to_string();
                let text = text.trim().trim_start_matches("error: ");
                Failure::usage(text).report(true);
            } else {
                let _ = error.print();
            }
            return ExitCode::from(failure::USAGE);
        }
    };
    let has_no_use = cli.key_file.is_some() && !opens_stores(&cli.command);
    store::set_key_file(cli.key_file);
    let ran = if has_no_use {
        let message = "--key-file has no effect on this command, which opens no encrypted store";
        Err((Failure::usage(message), failure::json_asked()))
    } else {
        run(&cli.command)
    };
    match ran {
        Ok(code) => ExitCode::from(code),
        Err((Failure::PipeClosed, _)) => ExitCode::SUCCESS,
        Err((failure, json)) => {
            failure.report(json);
            ExitCode::from(failure.code())
        }
    }
}

/// Returns whether the command opens a store that can be encrypted.
fn opens_stores(command: &Command) -> bool {
    !matches!(
        command,
        Command::Destroy(_)
            | Command::Bench(_)
            | Command::Tune(_)
            | Command::Options(_)
            | Command::RocksdbReport(_)
            | Command::Lab(_)
            | Command::Trace(_)
            | Command::Completions(_)
            | Command::Man(_)
    )
}

/// Runs the command. A failure comes with the flag for its output format.
fn run(command: &Command) -> Result<u8, (Failure, bool)> {
    match command {
        Command::Get(of) => run_command(commands::get::run, &of.args, of.global()),
        Command::Put(of) => run_command(commands::put::run, &of.args, of.global()),
        Command::Merge(of) => run_command(commands::merge::run, &of.args, of.global()),
        Command::Delete(of) => run_command(commands::delete::run, &of.args, of.global()),
        Command::Scan(of) => run_command(commands::scan::run, &of.args, of.global()),
        Command::Load(of) => run_command(commands::load::run, &of.args, of.global()),
        Command::Ingest(of) => run_command(commands::ingest::run, &of.args, of.global()),
        Command::Import(of) => run_command(commands::import::run, &of.args, of.global()),
        Command::Dump(of) => run_command(commands::dump::run, &of.args, of.global()),
        Command::Shell(of) => run_command(commands::shell::run, &of.args, of.global()),
        Command::Changes(of) => run_command(commands::changes::run, &of.args, of.global()),
        Command::Apply(of) => run_command(commands::apply::run, &of.args, of.global()),
        Command::Stats(of) => run_command(commands::stats::run, &of.args, of.global()),
        Command::Top(of) => run_command(commands::top::run, &of.args, of.global()),
        Command::Doctor(of) => run_command(commands::doctor::run, &of.args, of.global()),
        Command::Verify(of) => run_command(commands::verify::run, &of.args, of.global()),
        Command::Repair(of) => run_command(commands::repair::run, &of.args, of.global()),
        Command::Upgrade(of) => run_command(commands::upgrade::run, &of.args, of.global()),
        Command::Rekey(of) => run_command(commands::rekey::run, &of.args, of.global()),
        Command::Compact(of) => run_command(commands::compact::run, &of.args, of.global()),
        Command::Backup(of) => run_command(commands::backup::run, &of.args, of.global()),
        Command::Restore(of) => run_command(commands::restore::run, &of.args, of.global()),
        Command::Checkpoint(of) => run_command(commands::checkpoint::run, &of.args, of.global()),
        Command::Follow(of) => run_command(commands::follow::run, &of.args, of.global()),
        Command::Fork(of) => run_command(commands::fork::run, &of.args, of.global()),
        Command::Diff(of) => run_command(commands::diff::run, &of.args, of.global()),
        Command::Destroy(of) => run_command(commands::destroy::run, &of.args, of.global()),
        Command::Bench(of) => run_command(commands::bench::run, &of.args, of.global()),
        Command::Tune(of) => run_command(commands::tune::run, &of.args, of.global()),
        Command::Options(of) => run_command(commands::options::run, &of.args, of.global()),
        Command::RocksdbReport(of) => {
            run_command(commands::rocksdb_report::run, &of.args, of.global())
        }
        Command::Lab(args) => {
            let json = args.json();
            commands::lab::run(args).map_err(|failure| (failure, json))
        }
        Command::Trace(args) => {
            let json = args.json();
            commands::trace::run(args).map_err(|failure| (failure, json))
        }
        Command::Keyspace(args) => {
            let json = args.json();
            commands::keyspace::run(args).map_err(|failure| (failure, json))
        }
        Command::Slot(args) => {
            let json = args.json();
            commands::slot::run(args).map_err(|failure| (failure, json))
        }
        Command::Completions(args) => {
            commands::completions::run(args).map_err(|failure| (failure, false))
        }
        Command::Man(args) => commands::man::run(args).map_err(|failure| (failure, false)),
    }
}

fn run_command<A>(
    run: fn(&A, &Global) -> Outcome,
    args: &A,
    global: Global,
) -> Result<u8, (Failure, bool)> {
    run(args, &global).map_err(|failure| (failure, global.json))
}
