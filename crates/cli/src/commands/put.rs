//! `esker put`: one pair.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use esker::{Durability, WriteOptions};
use serde_json::json;

use super::{bytes_of, print};
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::store::open_writer;

/// Arguments of `put`.
#[derive(Args)]
pub struct PutArgs {
    /// The store's directory; made if it is not there
    db: PathBuf,
    /// The key
    key: OsString,
    /// The value; left out, all of standard input as it is
    value: Option<OsString>,
    /// Return only when the pair would survive a power loss
    #[arg(long)]
    sync: bool,
}

/// Writes the pair.
pub fn run(args: &PutArgs, global: &Global) -> Outcome {
    let form = global.form();
    let key = bytes_of(form, "key", &args.key)?;
    let value = match &args.value {
        Some(value) => bytes_of(form, "value", value)?,
        None => {
            let mut value = Vec::new();
            let limit = (1 << 30) + 1;
            std::io::stdin().lock().take(limit).read_to_end(&mut value).map_err(|error| {
                Failure::file("read the value", "standard input".as_ref(), &error)
            })?;
            value
        }
    };
    let db = open_writer(&args.db, global, true)?;
    let durability = args.sync.then_some(Durability::Sync);
    db.put_with(&key, &value, &WriteOptions { durability })?;
    db.close()?;
    print(form, || json!({ "ok": true }), String::new)?;
    Ok(0)
}
