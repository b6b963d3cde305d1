//! `esker compact`: a full compaction, or the compaction of a range.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use esker::internals::human_bytes;
use serde_json::json;

use super::{bytes_of, print};
use crate::args::Global;
use crate::failure::Outcome;
use crate::store::open_writer;

/// Arguments of `compact`.
#[derive(Args)]
pub struct CompactArgs {
    /// Store directory
    db: PathBuf,
    /// First key [default: the start]
    from: Option<OsString>,
    /// Last key [default: the end]
    to: Option<OsString>,
}

/// Compacts, and prints the table bytes before and after.
pub fn run(args: &CompactArgs, global: &Global) -> Outcome {
    let form = global.form();
    let bound = |what: &str, arg: &Option<OsString>| {
        arg.as_ref().map(|arg| bytes_of(form, what, arg)).transpose()
    };
    let (from, to) = (bound("first key", &args.from)?, bound("last key", &args.to)?);
    let db = open_writer(&args.db, global, false)?;
    db.flush()?;
    let before = db.metrics().table_bytes;
    db.compact_range(from.as_deref(), to.as_deref())?;
    let after = db.metrics().table_bytes;
    db.close()?;
    print(
        form,
        || json!({ "ok": true, "bytes_before": before, "bytes_after": after }),
        || format!("tables: {} before, {} after", human_bytes(before), human_bytes(after)),
    )?;
    Ok(0)
}
