//! `esker repair`: a new store from what the old one's files prove.

use std::path::PathBuf;

use clap::Args;
use esker::{Db, ErrorKind};
use serde_json::json;

use super::{counted, print};
use crate::args::Global;
use crate::failure::{Failure, Outcome, say};
use crate::store::{in_use, options};

/// Arguments of `repair`.
#[derive(Args)]
pub struct RepairArgs {
    /// The store's directory
    db: PathBuf,
}

/// Prints what was kept and what was lost; exit code 3 when something was.
pub fn run(args: &RepairArgs, global: &Global) -> Outcome {
    let report = Db::repair(&args.db, options(global)?).map_err(in_use)?;
    if !report.manifest_readable && !global.json {
        say("esker: the manifest could not be read, so every table found was used: keys deleted \
             long ago may be back");
    }
    print(
        global.form(),
        || {
            json!({
                "pairs": report.pairs, "tables": report.tables, "logs": report.logs,
                "manifest_readable": report.manifest_readable, "lost": report.lost,
                "originals": report.originals.display().to_string(),
            })
        },
        || {
            let mut text = String::new();
            for lost in &report.lost {
                text += &format!("lost: {lost}\n");
            }
            text + &format!(
                "kept {} from {} and {}; the original files are in {}",
                counted(report.pairs, "pair"),
                counted(report.tables, "table"),
                counted(report.logs, "log"),
                report.originals.display()
            )
        },
    )?;
    if report.lost.is_empty() {
        return Ok(0);
    }
    let what = format!("{}: not everything could be saved", args.db.display());
    Err(Failure::of(ErrorKind::Corruption, what))
}
