//! `esker restore`: creates a store from a backup.

use std::path::PathBuf;

use clap::Args;
use esker::Db;
use serde_json::json;

use super::print;
use crate::args::Global;
use crate::failure::Outcome;
use crate::store::{file_system, options};

/// Arguments of `restore`.
#[derive(Args)]
pub struct RestoreArgs {
    /// Backup directory
    dir: PathBuf,
    /// New store directory; must not exist
    db: PathBuf,
    /// Backup number, as in `esker backup list` [default: the newest]
    #[arg(long, value_name = "N", alias = "number")]
    backup: Option<u64>,
}

/// Copies a backup into a new directory and reads the copy back in full.
pub fn run(args: &RestoreArgs, global: &Global) -> Outcome {
    let number = Db::restore_on(file_system(), &args.dir, args.backup, &args.db, options(global)?)?;
    let path = args.db.display().to_string();
    print(
        global.form(),
        || json!({ "ok": true, "backup": number, "path": path }),
        || format!("backup {number} restored: {path}"),
    )?;
    Ok(0)
}
