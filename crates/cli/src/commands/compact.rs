//! `esker compact`: a full compaction, or the compaction of a keyspace or of a range.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use esker::internals::human_bytes;
use serde_json::json;

use super::{bytes_of, print};
use crate::args::{Global, KeyspaceFlag};
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
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// Compacts every keyspace, or with a keyspace or a range only that. Prints the table bytes of the
/// store before and after.
pub fn run(args: &CompactArgs, global: &Global) -> Outcome {
    let form = global.form();
    let bound = |what: &str, arg: &Option<OsString>| {
        arg.as_ref().map(|arg| bytes_of(form, what, arg)).transpose()
    };
    let (from, to) = (bound("first key", &args.from)?, bound("last key", &args.to)?);
    let db = open_writer(&args.db, global, false)?;
    let keyspace = args.keyspace.open(&db)?;
    db.flush()?;
    let before = db.metrics().table_bytes;
    if args.keyspace.is_given() || from.is_some() || to.is_some() {
        keyspace.compact_range(from.as_deref(), to.as_deref())?;
    } else {
        db.compact_all()?;
    }
    let after = db.metrics().table_bytes;
    db.close()?;
    print(
        form,
        || json!({ "ok": true, "bytes_before": before, "bytes_after": after }),
        || format!("tables: {} before, {} after", human_bytes(before), human_bytes(after)),
    )?;
    Ok(0)
}
