//! `esker delete`: deletes one key or a range.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use esker::{Batch, Durability, WriteOptions};
use serde_json::json;

use super::{bytes_of, print};
use crate::args::{Global, KeyspaceFlag};
use crate::failure::{Failure, Outcome};
use crate::store::open_writer;

/// Arguments of `delete`.
#[derive(Args)]
pub struct DeleteArgs {
    /// Store directory
    db: PathBuf,
    /// Key, or first key of the range
    key: OsString,
    /// Delete all keys from KEY up to END, exclusive
    #[arg(long, value_name = "END")]
    to: Option<OsString>,
    /// Exit with code 1 if the key does not exist
    #[arg(long, conflicts_with = "to")]
    must_exist: bool,
    /// Sync the write before the close; the deletion is durable in any case, because the command
    /// closes the store
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// Deletes. A missing key is an error only with `must_exist`.
pub fn run(args: &DeleteArgs, global: &Global) -> Outcome {
    let form = global.form();
    let key = bytes_of(form, "key", &args.key)?;
    let end = args.to.as_ref().map(|end| bytes_of(form, "end", end)).transpose()?;
    let db = open_writer(&args.db, global, false)?;
    let keyspace = args.keyspace.open(&db)?;
    if args.must_exist && keyspace.get(&key)?.is_none() {
        db.close()?;
        return Err(Failure::key_not_found());
    }
    let mut batch = Batch::new();
    match &end {
        Some(end) => batch.delete_range_in(&keyspace, &key, end),
        None => batch.delete_in(&keyspace, &key),
    };
    let durability = args.sync.then_some(Durability::Sync);
    db.write_with(&batch, &WriteOptions::default().durability(durability))?;
    db.close()?;
    print(form, || json!({ "ok": true }), String::new)?;
    Ok(0)
}
