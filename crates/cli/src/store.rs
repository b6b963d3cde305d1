//! Opens the store named by a command.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use esker::encryption::{EncryptedFs, KeyFile, KeyProvider, KeyVariable};
use esker::fs::{Fs, OsFs};
use esker::{Db, Error, ErrorKind, Options};

use crate::args::Global;
use crate::failure::{Failure, print_note};

/// Environment variable with the key of encrypted stores, in hexadecimal digits.
const KEY: &str = "ESKER_KEY";
/// Environment variable that names a file with the key.
const KEY_FILE: &str = "ESKER_KEY_FILE";

static KEY_OF_STORES: OnceLock<Option<Arc<dyn KeyProvider>>> = OnceLock::new();

/// Sets the file of the flag `--key-file`. Without it, the environment has the key, or there is none.
pub fn set_key_file(path: Option<PathBuf>) {
    let _ = KEY_OF_STORES.set(key_of(path));
}

fn key_of(path: Option<PathBuf>) -> Option<Arc<dyn KeyProvider>> {
    let is_set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = path.or_else(|| is_set(KEY_FILE).map(PathBuf::from)) {
        return Some(Arc::new(KeyFile::new(path)));
    }
    is_set(KEY).map(|_| Arc::new(KeyVariable::new(KEY)) as Arc<dyn KeyProvider>)
}

/// Returns the key of encrypted stores, if one was given.
pub fn key() -> Option<Arc<dyn KeyProvider>> {
    KEY_OF_STORES.get_or_init(|| key_of(None)).clone()
}

/// Returns the file system of all stores: an encrypting one if a key was given.
pub fn file_system() -> Arc<dyn Fs> {
    match key() {
        Some(key) => EncryptedFs::with_provider(OsFs::shared(), key),
        None => OsFs::shared(),
    }
}

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

/// Splits the `name=value` of the flag `--set` into name and value.
pub fn split(pair: &str) -> Result<(&str, &str), Failure> {
    split_of("--set", pair)
}

/// Does the same for the values of another flag.
pub fn split_of<'a>(flag: &str, pair: &'a str) -> Result<(&'a str, &'a str), Failure> {
    pair.split_once('=')
        .ok_or_else(|| Failure::usage(format!("{flag} expects NAME=VALUE, found {pair:?}")))
}

/// Splits all values of a flag.
///
/// # Errors
/// As [`split_of`].
pub fn split_all(flag: &str, pairs: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let split =
        |pair: &String| split_of(flag, pair).map(|(name, value)| (name.into(), value.into()));
    pairs.iter().map(split).collect()
}

/// Opens the store read-only, in its current state. It may be open elsewhere, and is not changed.
pub fn open_reader(path: &Path, global: &Global) -> Result<Db, Failure> {
    Ok(noted(Db::open_read_only_on(file_system(), path, options(global)?)?, global))
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
    match Db::open_on(file_system(), path, options) {
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
