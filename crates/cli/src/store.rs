//! Opening the store a command names.

use std::path::Path;

use esker::{Db, ErrorKind, Options};

use crate::args::Global;
use crate::failure::{Failure, IO};

/// The options: defaults, then every `--set`.
pub fn options(global: &Global) -> Result<Options, Failure> {
    let mut options = Options::default();
    for pair in &global.set {
        let (name, value) = split(pair)?;
        options.set(name, value)?;
    }
    options.validate()?;
    Ok(options)
}

/// The name and value of `name=value`.
pub fn split(pair: &str) -> Result<(&str, &str), Failure> {
    pair.split_once('=')
        .ok_or_else(|| Failure::usage(format!("--set takes NAME=VALUE, not {pair:?}")))
}

/// The store as it is at this moment; it may be open elsewhere, and nothing of it is changed.
pub fn open_reader(path: &Path, global: &Global) -> Result<Db, Failure> {
    let opened = Db::open_read_only(path, options(global)?);
    opened.map(noted).map_err(|error| explain(path, error))
}

/// The store for reading and writing; one that is not there is made if `create`.
pub fn open_writer(path: &Path, global: &Global, create: bool) -> Result<Db, Failure> {
    let mut options = options(global)?;
    let given = |pair: &String| pair.starts_with("create_if_missing=");
    if !create && !global.set.iter().any(given) {
        options.create_if_missing = false;
    }
    Db::open(path, options).map(noted).map_err(|error| explain(path, error))
}

/// Says what a crash before this opening took.
fn noted(db: Db) -> Db {
    for note in db.recovery_notes() {
        eprintln!("note: {note}");
    }
    db
}

/// A wrong argument is the caller's; a store that is not there is a matter of files.
pub fn explain(path: &Path, error: esker::Error) -> Failure {
    if error.kind() == ErrorKind::InvalidArgument && !path.join("CURRENT").exists() {
        return Failure::Other(
            IO,
            "missing",
            format!("{}: there is no store here", path.display()),
        );
    }
    Failure::Engine(error)
}
