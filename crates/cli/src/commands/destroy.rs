//! `esker destroy`: removes a store's files, after confirmation.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use clap::Args;
use esker::Db;
use serde_json::json;

use super::print;
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::store::in_use;

/// Arguments of `destroy`.
#[derive(Args)]
pub struct DestroyArgs {
    /// Store directory
    db: PathBuf,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Removes the store after the answer `y` or `yes`.
pub fn run(args: &DestroyArgs, global: &Global) -> Outcome {
    let dir = &args.db;
    if !dir.exists() {
        return Err(esker::internals::error(
            esker::ErrorKind::NotFound,
            "there is no store here",
            Some(dir),
        )
        .into());
    }
    if !args.yes && !confirmed(&format!("Remove the store {} and all its data?", dir.display())) {
        return Err(Failure::usage("nothing was removed; answer y, or pass --yes"));
    }
    Db::destroy(dir).map_err(in_use)?;
    print(global.form(), || json!({ "ok": true }), String::new)?;
    Ok(0)
}

/// Asks a question on stderr. Returns whether the answer on standard input is `y` or `yes`.
pub(super) fn confirmed(question: &str) -> bool {
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "{question} [y/N] ");
    let _ = stderr.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}
