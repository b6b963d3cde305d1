//! `esker get`: prints the value of one key.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::{bytes_of, stdout};
use crate::args::{Global, KeyspaceFlag};
use crate::failure::{Failure, Outcome};
use crate::store::open_reader;

/// Arguments of `get`.
#[derive(Args)]
pub struct GetArgs {
    /// Store directory
    db: PathBuf,
    /// Key
    key: OsString,
    /// Write the raw bytes of the value, without a newline
    #[arg(long, conflicts_with_all = ["json", "hex", "base64"])]
    raw: bool,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// Prints the value; exit code 1 if the key does not exist.
pub fn run(args: &GetArgs, global: &Global) -> Outcome {
    let form = global.form();
    let key = bytes_of(form, "key", &args.key)?;
    let db = open_reader(&args.db, global)?;
    let found = args.keyspace.open(&db)?.get(&key)?;
    let mut out = stdout();
    if form.json {
        let value = found.as_ref().map_or(Value::Null, |value| form.to_json(value));
        writeln!(out, "{}", json!({ "key": form.to_json(&key), "value": value }))?;
    }
    match &found {
        None => {
            out.flush()?;
            return Err(Failure::key_not_found());
        }
        Some(_) if form.json => {}
        Some(value) if args.raw => out.write_all(value)?,
        Some(value) => {
            let mut line = Vec::new();
            form.encoding.write(value, &mut line);
            line.push(b'\n');
            out.write_all(&line)?;
        }
    }
    out.flush()?;
    Ok(0)
}
