//! `esker get`: prints the value of one key.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use esker::{ErrorKind, ValueReader};
use serde_json::{Value, json};

use super::{bytes_of, create_new, stdout};
use crate::args::{Global, KeyspaceFlag};
use crate::failure::{Failure, Outcome};
use crate::progress::{Count, Progress};
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
    /// Write the raw bytes of the value to this file, which must not exist, or - for standard output;
    /// a long value is not read into memory
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "raw"])]
    to: Option<PathBuf>,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// Prints the value; exit code 1 if the key does not exist.
pub fn run(args: &GetArgs, global: &Global) -> Outcome {
    let form = global.form();
    let key = bytes_of(form, "key", &args.key)?;
    let db = open_reader(&args.db, global)?;
    if let Some(to) = &args.to {
        let found = args.keyspace.open(&db)?.get_reader(&key)?;
        return write_to(to, found.ok_or_else(Failure::key_not_found)?);
    }
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

/// Writes a value to a new file, which is removed after an error, or to standard output.
fn write_to(to: &Path, value: ValueReader) -> Outcome {
    if to == Path::new("-") {
        let mut out = stdout();
        copy(value, |bytes| Ok(out.write_all(bytes)?))?;
        out.flush()?;
        return Ok(0);
    }
    let mut file = create_new(to, "get", "create the file")?;
    let failed = |error| Failure::file("write the value", to, &error);
    let copied = copy(value, |bytes| file.write_all(bytes).map_err(failed))
        .and_then(|()| file.sync_all().map_err(failed));
    copied.inspect_err(|_| drop(std::fs::remove_file(to)))?;
    Ok(0)
}

/// Passes a value to `write`, piece by piece.
fn copy(
    mut value: ValueReader,
    mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut progress = Progress::new("get", Some(value.len_bytes()), Count::Bytes);
    let (mut bytes, mut done) = (vec![0; 64 << 10], 0);
    loop {
        let read =
            value.read(&mut bytes).map_err(|error| match error.downcast::<esker::Error>() {
                Ok(error) => Failure::Engine(error),
                Err(error) => Failure::of(ErrorKind::Io, format!("cannot read the value: {error}")),
            })?;
        if read == 0 {
            return Ok(());
        }
        write(&bytes[..read])?;
        done += read as u64;
        progress.set(done);
    }
}
