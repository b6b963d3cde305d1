//! `esker completions`: a completion script for a shell.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::stdout;
use crate::args::Cli;
use crate::failure::Outcome;

/// Arguments of `completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script.
pub fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "esker", &mut script);
    let mut out = stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(0)
}
