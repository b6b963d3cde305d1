//! `esker delete`: one key or a range.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use esker::{Batch, Durability, WriteOptions};
use serde_json::json;

use super::{bytes_of, print};
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::store::open_writer;

/// Arguments of `delete`.
#[derive(Args)]
pub struct DeleteArgs {
    /// The store's directory
    db: PathBuf,
    /// The key, or the first key of the range
    key: OsString,
    /// Delete every key from KEY up to, not including, this one
    #[arg(long, value_name = "END")]
    to: Option<OsString>,
    /// End with exit code 1 when the key was not there; otherwise that is no error
    #[arg(long, conflicts_with = "to")]
    must_exist: bool,
    /// Return only when the deletion would survive a power loss
    #[arg(long)]
    sync: bool,
}

/// Deletes; a key that is not there is an error only where asked.
pub fn run(args: &DeleteArgs, global: &Global) -> Outcome {
    let form = global.form();
    let key = bytes_of(form, "key", &args.key)?;
    let end = args.to.as_ref().map(|end| bytes_of(form, "end", end)).transpose()?;
    let db = open_writer(&args.db, global, false)?;
    if args.must_exist && db.get(&key)?.is_none() {
        db.close()?;
        return Err(Failure::key_not_found());
    }
    let mut batch = Batch::new();
    match &end {
        Some(end) => batch.delete_range(&key, end),
        None => batch.delete(&key),
    };
    let durability = args.sync.then_some(Durability::Sync);
    db.write_with(&batch, &WriteOptions { durability })?;
    db.close()?;
    print(form, || json!({ "ok": true }), String::new)?;
    Ok(0)
}
