//! `esker verify`: checks every byte against its checksum.

use std::path::PathBuf;

use clap::Args;
use esker::internals::human_bytes;
use serde_json::json;

use super::{counted, print};
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::progress::{Count, Progress};
use crate::store::open_reader;

/// Arguments of `verify`.
#[derive(Args)]
pub struct VerifyArgs {
    /// Store directory
    db: PathBuf,
}

/// Prints the amount read and the problems; exit code 3 if there are problems.
pub fn run(args: &VerifyArgs, global: &Global) -> Outcome {
    let db = open_reader(&args.db, global)?;
    let mut progress = Progress::new("verify", Some(0), Count::Bytes);
    let report = db.verify(&mut |done, total| progress.set_of(done, total))?;
    drop(progress);
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    print(
        global.form(),
        || {
            json!({
                "ok": report.is_whole(), "files": report.files, "logs": report.logs, "bytes": report.bytes,
                "value_files": report.value_files, "entries": report.entries, "range_deletes": report.range_deletes,
                "format_version": report.format_version, "problems": problems,
            })
        },
        || {
            let read = format!(
                "read {} ({}), {}",
                counted(report.files, "file"),
                human_bytes(report.bytes),
                if report.entries == 1 {
                    "1 entry".into()
                } else {
                    format!("{} entries", report.entries)
                },
            );
            if problems.is_empty() {
                return format!("OK: {read}, format version {}", report.format_version);
            }
            format!(
                "{}\n{read}: {} found",
                problems.join("\n"),
                counted(problems.len() as u64, "problem")
            )
        },
    )?;
    let Some(first) = report.problems.first() else { return Ok(0) };
    let count = counted(report.problems.len() as u64, "problem");
    Err(Failure::of(first.kind(), format!("{}: {count}", args.db.display())))
}
