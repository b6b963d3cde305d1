//! The commands, one file each: arguments and implementation.

pub mod apply;
pub mod backup;
pub mod bench;
pub mod changes;
pub mod checkpoint;
pub mod compact;
pub mod completions;
pub mod delete;
pub mod destroy;
pub mod diff;
pub mod doctor;
pub mod dump;
pub mod engines;
pub mod follow;
pub mod fork;
pub mod get;
pub mod import;
pub mod ingest;
pub mod keyspace;
pub mod lab;
mod lab_trend;
pub mod load;
mod load_sorted;
pub mod man;
pub mod merge;
pub mod options;
pub mod put;
pub mod rekey;
pub mod repair;
pub mod restore;
pub mod rocksdb_report;
pub mod scan;
pub mod shell;
pub mod slot;
pub mod stats;
pub mod top;
pub mod trace;
pub mod tune;
pub mod upgrade;
pub mod verify;
pub mod ycsb;

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::bytes::{Form, of_arg};
use crate::failure::Failure;

/// Returns buffered standard output. The caller must flush it before returning.
fn stdout() -> BufWriter<io::StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Writes a value as one line of JSON.
fn write_json(value: &impl Serialize, out: &mut dyn Write) -> Result<(), Failure> {
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Writes a file, in a folder that is made if it is missing. `doing` is for the message of a failure.
fn write_file(path: &Path, doing: &str, text: &str) -> Result<(), Failure> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, text)).map_err(|e| Failure::file(doing, path, &e))
}

/// Creates a file with access for its owner only. An existing file is not touched. `command` and `doing`
/// are for the message of a failure.
fn create_new(path: &Path, command: &str, doing: &str) -> Result<File, Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::usage(format!(
            "{}: the file exists, and {command} does not overwrite it; name a new file",
            path.display()
        )),
        _ => Failure::file(doing, path, &error),
    })
}

/// Prints one line: a JSON object with `--json`, otherwise `text`.
fn print(
    form: Form,
    json: impl FnOnce() -> Value,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let mut out = stdout();
    if form.json {
        writeln!(out, "{}", json())?;
    } else {
        let text = text();
        if !text.is_empty() {
            writeln!(out, "{text}")?;
        }
    }
    Ok(out.flush()?)
}

/// Returns the bytes of a key or value given as an argument.
fn bytes_of(form: Form, what: &str, arg: &OsStr) -> Result<Vec<u8>, Failure> {
    form.encoding.read(of_arg(arg)).map_err(|why| Failure::usage(format!("the {what}: {why}")))
}

/// Formats `count` with the noun `one`, in the plural if needed.
pub fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}
