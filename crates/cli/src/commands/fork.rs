//! `esker fork`: a writable branch of a store.

use std::path::PathBuf;

use clap::Args;
use esker::fork::ForkOptions;
use serde_json::json;

use super::{counted, print};
use crate::args::Global;
use crate::failure::Outcome;
use crate::store::open_reader;

/// Arguments of `fork`.
#[derive(Args)]
pub struct ForkArgs {
    /// Store directory. The store may be open elsewhere, and is not changed
    db: PathBuf,
    /// Directory of the fork; must not exist. On another file system, tables are copied
    dir: PathBuf,
    /// Name that the fork remembers
    #[arg(long)]
    name: Option<String>,
}

/// Creates the fork and prints what it shares.
pub fn run(args: &ForkArgs, global: &Global) -> Outcome {
    let options = match &args.name {
        Some(name) => ForkOptions::default().name(name),
        None => ForkOptions::default(),
    };
    let db = open_reader(&args.db, global)?;
    let made = db.fork_with(&args.dir, &options)?;
    let dir = args.dir.display().to_string();
    print(
        global.form(),
        || {
            json!({
                "ok": true, "fork": dir, "name": args.name,
                "linked_files": made.linked_files, "linked_bytes": made.linked_bytes,
                "copied_files": made.copied_files, "copied_bytes": made.copied_bytes,
            })
        },
        || {
            let linked = counted(made.linked_files, "table");
            match made.copied_files {
                0 => format!("fork: {dir} ({linked} shared)"),
                copied => format!("fork: {dir} ({linked} shared, {copied} copied)"),
            }
        },
    )?;
    Ok(0)
}
