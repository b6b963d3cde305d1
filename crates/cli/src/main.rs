//! The `esker` command.
//!
//! What stays true: stdout carries data only and stderr talk only; every failure is one sentence
//! and an exit code (0 done, 1 key not found, 2 usage, 3 corruption, 4 input and output, 130
//! interrupted); a reader that closes the pipe early ends the command without a word.
#![forbid(unsafe_code)]

mod args;
mod bytes;
mod commands;
mod failure;
#[cfg(test)]
mod fuzz_tests;
mod interrupt;
mod progress;
mod rows;
mod shell;
mod store;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::{Failure, Outcome};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout and ends well; mistakes go to stderr and end with 2.
            if !error.use_stderr() {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            if std::env::args_os().any(|arg| arg == "--json") {
                let text = error.to_string();
                let text = text.trim().trim_start_matches("error: ");
                Failure::usage(text).report(true);
            } else {
                let _ = error.print();
            }
            return ExitCode::from(failure::USAGE);
        }
    };
    let json = cli.global.json;
    match run(&cli) {
        Ok(code) => ExitCode::from(code),
        Err(Failure::PipeClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(json);
            ExitCode::from(failure.code())
        }
    }
}

fn run(cli: &Cli) -> Outcome {
    let global = &cli.global;
    match &cli.command {
        Command::Get(args) => commands::get::run(args, global),
        Command::Put(args) => commands::put::run(args, global),
        Command::Delete(args) => commands::delete::run(args, global),
        Command::Scan(args) => commands::scan::run(args, global),
        Command::Load(args) => commands::load::run(args, global),
        Command::Import(args) => commands::import::run(args, global),
        Command::Dump(args) => commands::dump::run(args, global),
        Command::Shell(args) => commands::shell::run(args, global),
        Command::Stats(args) => commands::stats::run(args, global),
        Command::Verify(args) => commands::verify::run(args, global),
        Command::Repair(args) => commands::repair::run(args, global),
        Command::Compact(args) => commands::compact::run(args, global),
        Command::Backup(args) => commands::backup::run(args, global),
        Command::Restore(args) => commands::restore::run(args, global),
        Command::Checkpoint(args) => commands::checkpoint::run(args, global),
        Command::Destroy(args) => commands::destroy::run(args, global),
        Command::Bench(args) => commands::bench::run(args, global),
        Command::Lab(args) => commands::lab::run(args, global),
        Command::Options(args) => commands::options::run(args, global),
        Command::Completions(args) => commands::completions::run(args),
    }
}
