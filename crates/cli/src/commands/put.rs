//! `esker put`: writes one pair.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use esker::{Durability, WriteOptions};
use serde_json::json;

use super::{bytes_of, print};
use crate::args::{Global, KeyspaceFlag};
use crate::failure::{Failure, Outcome};
use crate::store::open_writer;

/// Arguments of `put`.
#[derive(Args)]
pub struct PutArgs {
    /// Store directory; created if missing, unless --keyspace names a keyspace
    db: PathBuf,
    /// Key
    key: OsString,
    /// Value; all of standard input, unchanged, if omitted
    value: Option<OsString>,
    /// Sync the write before the close; the pair is durable in any case, because the command
    /// closes the store
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
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
    let db = open_writer(&args.db, global, !args.keyspace.is_other())?;
    let keyspace = args.keyspace.open(&db)?;
    let durability = args.sync.then_some(Durability::Sync);
    keyspace.put_with(&key, &value, &WriteOptions::default().durability(durability))?;
    db.close()?;
    print(form, || json!({ "ok": true }), String::new)?;
    Ok(0)
}
