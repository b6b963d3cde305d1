//! `esker ingest`: files of a `SortedWriter` become part of a store.

use std::path::PathBuf;

use clap::Args;
use esker::ingest::IngestOptions;
use serde_json::json;

use super::{counted, print};
use crate::args::{Global, KeyspaceFlag};
use crate::failure::Outcome;
use crate::store::open_writer;

/// Arguments of `ingest`.
#[derive(Args)]
pub struct IngestArgs {
    /// Store directory; created if missing, unless --keyspace names a keyspace
    db: PathBuf,
    /// Files that a SortedWriter made; all of them become visible at once
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Leave the files where they are, and copy them; otherwise the store takes them
    #[arg(long)]
    copy: bool,
    /// Do not read and check the files first
    #[arg(long)]
    no_verify: bool,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// Ingests the files.
pub fn run(args: &IngestArgs, global: &Global) -> Outcome {
    let db = open_writer(&args.db, global, !args.keyspace.is_other())?;
    let keyspace = args.keyspace.open(&db)?;
    let options = IngestOptions::default().copy(args.copy).verify(!args.no_verify);
    let report = keyspace.ingest(&args.files, &options)?;
    db.close()?;
    print(
        global.form(),
        || {
            json!({
                "ok": true, "files": report.files, "entries": report.entries,
                "bytes": report.bytes, "flushed": report.flushed,
            })
        },
        || {
            let files = counted(report.files, "table");
            format!("ingested {files}: {} entries, {} bytes", report.entries, report.bytes)
        },
    )?;
    Ok(0)
}
