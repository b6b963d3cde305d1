//! `esker backup`: one more backup in a directory of them.

use std::path::PathBuf;

use clap::Args;
use esker::base::units::human_bytes;
use serde_json::json;

use super::{counted, print};
use crate::args::Global;
use crate::failure::Outcome;
use crate::store::open_writer;

/// Arguments of `backup`.
#[derive(Args)]
pub struct BackupArgs {
    /// The store's directory
    db: PathBuf,
    /// The directory of its backups; made if it is not there
    dir: PathBuf,
}

/// Copies what the last backup does not have, and reads all of it back.
pub fn run(args: &BackupArgs, global: &Global) -> Outcome {
    let db = open_writer(&args.db, global, false)?;
    let made = db.backup(&args.dir)?;
    db.close()?;
    let path = made.path.display().to_string();
    print(
        global.form(),
        || {
            json!({
                "ok": true, "backup": made.number, "path": path,
                "copied_files": made.copied_files, "copied_bytes": made.copied_bytes,
                "linked_files": made.linked_files, "linked_bytes": made.linked_bytes,
            })
        },
        || {
            format!(
                "backup {}: {} copied ({}), {} shared with the one before ({}): {path}",
                made.number,
                counted(made.copied_files, "table"),
                human_bytes(made.copied_bytes),
                made.linked_files,
                human_bytes(made.linked_bytes),
            )
        },
    )?;
    Ok(0)
}
