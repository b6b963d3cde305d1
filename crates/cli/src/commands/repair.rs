//! `esker repair`: builds a new store from the intact data of the old store's files.

use std::path::PathBuf;

use clap::Args;
use esker::{Db, ErrorKind};
use serde_json::json;

use super::{counted, print};
use crate::args::Global;
use crate::failure::{Failure, Outcome, print_line};
use crate::store::{file_system, in_use, options};

/// Arguments of `repair`.
#[derive(Args)]
pub struct RepairArgs {
    /// Store directory
    db: PathBuf,
}

/// Prints the kept and the lost data; exit code 3 if any data was lost.
pub fn run(args: &RepairArgs, global: &Global) -> Outcome {
    let report = Db::repair_on(file_system(), &args.db, options(global)?).map_err(in_use)?;
    if !report.manifest_readable && !global.json {
        print_line(
            "esker: the manifest is unreadable, so the repair used every existing table; keys \
             deleted long ago may reappear",
        );
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
    let what = format!("{}: the repair could not recover all data", args.db.display());
    Err(Failure::of(ErrorKind::Corruption, what))
}
