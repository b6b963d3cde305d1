//! Checks of the place of a new directory: not over an existing file, inside a store, or among
//! backups.
//!
//! Invariants: links and `..` are resolved before paths are compared.

use std::path::{Path, PathBuf};

use crate::db::dir::list_dir;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{DirEntry, Fs, parent_of};
use crate::tree::current::Current;
use crate::tree::names;

/// Maximum number of entries that a message names.
const NAMED_ENTRIES_MAX: usize = 4;

/// Returns the content of a directory in words.
pub(super) fn first_names(entries: &[DirEntry]) -> String {
    let named: Vec<&str> =
        entries.iter().take(NAMED_ENTRIES_MAX).map(|e| e.name.as_str()).collect();
    match (entries.len(), entries.len() - named.len()) {
        (0, _) => "nothing".into(),
        (_, 0) => named.join(", "),
        (_, more) => format!("{} and {more} more", named.join(", ")),
    }
}

/// Returns `path` without links, `.` and `..`, as far as it exists.
pub(super) fn resolved(fs: &dyn Fs, path: &Path) -> Result<PathBuf> {
    let io = |e| Error::io(path, "resolve the path", e);
    let mut there = path.to_path_buf();
    let mut rest = Vec::new();
    while !fs.exists(&there).map_err(io)? {
        let Some(name) = there.file_name().map(ToOwned::to_owned) else { break };
        rest.push(name);
        there = parent_of(&there);
    }
    let mut out = fs.resolve(&there).map_err(io)?;
    out.extend(rest.iter().rev());
    Ok(out)
}

/// Refuses `path` if it, or a directory above it, is a store.
pub(in crate::db) fn refuse_inside_a_store(fs: &dyn Fs, path: &Path, what: &str) -> Result<()> {
    for dir in resolved(fs, path)?.ancestors() {
        let current = dir.join(names::CURRENT);
        let there = fs.exists(&current);
        if !there.map_err(|e| Error::io(&current, "check whether this is a store", e))? {
            continue;
        }
        let store = match Current::read(fs, dir) {
            Ok(_) => true,
            // A store of a newer version.
            Err(error) => error.kind() == ErrorKind::Incompatible,
        };
        if store {
            let message = format!(
                "{what} must not be inside a store, and {} is a store; name a directory outside of \
                 it",
                dir.display()
            );
            return Err(Error::invalid(message).with_path(path));
        }
    }
    Ok(())
}

/// Refuses `path` if it exists.
pub(in crate::db) fn refuse_existing(fs: &dyn Fs, path: &Path, what: &str) -> Result<()> {
    if !fs.exists(path).map_err(|e| Error::io(path, "inspect the new directory", e))? {
        return Ok(());
    }
    let held = list_dir(fs, path).map_or("a file".into(), |found| first_names(&found.entries));
    let message = format!("{what} exists and holds {held}; name a directory that does not exist");
    Err(Error::invalid(message).with_path(path))
}

/// Refuses `path` inside the directory of backups `dir`, which holds only backups.
pub(super) fn refuse_among_backups(fs: &dyn Fs, path: &Path, dir: &Path) -> Result<()> {
    let (full, dir) = (resolved(fs, path)?, resolved(fs, dir)?);
    if !full.starts_with(&dir) {
        return Ok(());
    }
    let message = format!(
        "the restored store must not be inside the backup directory {}; name a directory outside \
         of it",
        dir.display()
    );
    Err(Error::invalid(message).with_path(path))
}
