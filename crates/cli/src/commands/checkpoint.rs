//! `esker checkpoint`: a second store with the same content.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::print;
use crate::args::Global;
use crate::failure::Outcome;
use crate::store::open_writer;

/// Arguments of `checkpoint`.
#[derive(Args)]
pub struct CheckpointArgs {
    /// Store directory
    db: PathBuf,
    /// New store directory, on the same file system; must not exist
    dir: PathBuf,
}

/// Links the store's files into the new directory.
pub fn run(args: &CheckpointArgs, global: &Global) -> Outcome {
    let db = open_writer(&args.db, global, false)?;
    db.checkpoint(&args.dir)?;
    db.close()?;
    let dir = args.dir.display().to_string();
    print(
        global.form(),
        || json!({ "ok": true, "checkpoint": dir }),
        || format!("checkpoint: {dir}"),
    )?;
    Ok(0)
}
