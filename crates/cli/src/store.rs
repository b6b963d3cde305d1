//! Opening the store a command names.

use std::path::Path;

use esker::{Db, Error, ErrorKind, Options};

use crate::args::Global;
use crate::failure::{Failure, tell};

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
    Ok(noted(Db::open_read_only(path, options(global)?)?, global))
}

/// The store for reading and writing; one that is not there is made if `create`.
pub fn open_writer(path: &Path, global: &Global, create: bool) -> Result<Db, Failure> {
    let mut options = options(global)?;
    let given = |pair: &String| pair.starts_with("create_if_missing=");
    if !create && !global.set.iter().any(given) {
        options.create_if_missing = false;
    }
    match Db::open(path, options) {
        // The message names an option that no command's caller set.
        Err(error) if error.is_not_found() && !create => {
            Err(esker::Error::not_found("there is no store here").at(path).into())
        }
        opened => Ok(noted(opened.map_err(in_use)?, global)),
    }
}

/// What the engine advises a program that finds a store locked is not what somebody at a command line
/// can do.
pub fn in_use(error: Error) -> Error {
    let (ErrorKind::Locked, Some(path)) = (error.kind(), error.path()) else { return error };
    let who = error.message().split(';').next().unwrap_or_default();
    let message = format!(
        "{who}; end that first, or wait for it. Meanwhile `esker get`, `scan`, `dump`, `stats` and \
         `shell --read-only` read the store"
    );
    Error::new(ErrorKind::Locked, message).at(path)
}

/// Says what a crash before this opening took.
fn noted(db: Db, global: &Global) -> Db {
    for note in db.recovery_notes() {
        tell(global.json, &if global.json { note.clone() } else { format!("note: {note}") });
    }
    db
}
