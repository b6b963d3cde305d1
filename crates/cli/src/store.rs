//! Opens the store named by a command.

use std::path::Path;

use esker::{Db, Error, ErrorKind, Options};

use crate::args::Global;
use crate::failure::{Failure, print_note};

/// Returns the options: the defaults, overridden by each `--set`.
pub fn options(global: &Global) -> Result<Options, Failure> {
    let mut options = Options::default();
    for pair in &global.set {
        let (name, value) = split(pair)?;
        options.set(name, value)?;
    }
    options.validate()?;
    Ok(options)
}

/// Splits `name=value` into name and value.
pub fn split(pair: &str) -> Result<(&str, &str), Failure> {
    pair.split_once('=')
        .ok_or_else(|| Failure::usage(format!("--set expects NAME=VALUE, found {pair:?}")))
}

/// Opens the store read-only, in its current state. It may be open elsewhere, and is not changed.
pub fn open_reader(path: &Path, global: &Global) -> Result<Db, Failure> {
    Ok(noted(Db::open_read_only(path, options(global)?)?, global))
}

/// Opens the store for reading and writing. A missing store is created if `create` is set.
pub fn open_writer(path: &Path, global: &Global, create: bool) -> Result<Db, Failure> {
    open(path, options(global)?, global, create)
}

/// Does the same as [`open_writer`], with the given options.
pub fn open(
    path: &Path,
    mut options: Options,
    global: &Global,
    create: bool,
) -> Result<Db, Failure> {
    let given = |pair: &String| pair.starts_with("create_if_missing=");
    if !create && !global.set.iter().any(given) {
        options.create_if_missing = false;
    }
    match Db::open(path, options) {
        // The original message names an option that no caller of a command has set.
        Err(failed) if failed.kind() == ErrorKind::NotFound && !create => {
            Err(esker::internals::error(ErrorKind::NotFound, "there is no store here", Some(path))
                .into())
        }
        opened => Ok(noted(opened.map_err(in_use)?, global)),
    }
}

/// Replaces the engine's advice for a locked store, which is written for programs, by advice for a
/// command-line user.
pub fn in_use(error: Error) -> Error {
    let (ErrorKind::Locked, Some(path)) = (error.kind(), error.path()) else { return error };
    let problem = error.message().split(';').next().unwrap_or_default();
    let message = format!(
        "{problem}; end that process first, or wait for its end. Meanwhile `esker get`, `scan`, \
         `dump`, `stats` and `shell --read-only` can read the store"
    );
    esker::internals::error(ErrorKind::Locked, message, Some(path))
}

/// Prints the recovery notes: the losses of a crash before this open.
fn noted(db: Db, global: &Global) -> Db {
    for note in db.recovery_notes() {
        print_note(global.json, &if global.json { note.clone() } else { format!("note: {note}") });
    }
    db
}
