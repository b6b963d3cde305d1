//! `esker restore`: a store made of a backup.

use std::path::PathBuf;

use clap::Args;
use esker::Db;
use serde_json::json;

use super::print;
use crate::args::Global;
use crate::failure::Outcome;
use crate::store::options;

/// Arguments of `restore`.
#[derive(Args)]
pub struct RestoreArgs {
    /// The directory of backups
    dir: PathBuf,
    /// The new store's directory; it must not exist
    db: PathBuf,
    /// Which backup, by its number in `esker backup list`; the newest if not given
    #[arg(long, value_name = "N", alias = "number")]
    backup: Option<u64>,
}

/// Copies a backup into a new directory and reads all of it back.
pub fn run(args: &RestoreArgs, global: &Global) -> Outcome {
    let number = Db::restore(&args.dir, args.backup, &args.db, options(global)?)?;
    let path = args.db.display().to_string();
    print(
        global.form(),
        || json!({ "ok": true, "backup": number, "path": path }),
        || format!("backup {number} restored: {path}"),
    )?;
    Ok(0)
}
