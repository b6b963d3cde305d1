//! Where a new directory of the engine's may not be: over something, inside a store, among backups.
//!
//! What stays true: links and `..` are followed before paths are compared.

use std::path::{Path, PathBuf};

use crate::db::open::look;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{DirEntry, Fs, parent_of};
use crate::tree::current::Current;
use crate::tree::names;

/// Entries that a message names one by one.
const ENTRIES_TOLD: usize = 4;

/// What a directory holds, in words.
pub(super) fn told_entries(entries: &[DirEntry]) -> String {
    let named: Vec<&str> = entries.iter().take(ENTRIES_TOLD).map(|e| e.name.as_str()).collect();
    match (entries.len(), entries.len() - named.len()) {
        (0, _) => "nothing".into(),
        (_, 0) => named.join(", "),
        (_, more) => format!("{} and {more} more", named.join(", ")),
    }
}

/// `path` without links, `.` and `..`, as far as it exists.
pub(super) fn resolved(fs: &dyn Fs, path: &Path) -> Result<PathBuf> {
    let io = |e| Error::io(path, "look where the path leads", e);
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

/// Refuses `path` if a directory above it, or it itself, is a store.
pub(in crate::db) fn refuse_inside_a_store(fs: &dyn Fs, path: &Path, what: &str) -> Result<()> {
    for dir in resolved(fs, path)?.ancestors() {
        let current = dir.join(names::CURRENT);
        let there = fs.exists(&current);
        if !there.map_err(|e| Error::io(&current, "look whether this is a store", e))? {
            continue;
        }
        let store = match Current::read(fs, dir) {
            Ok(_) => true,
            // Of a newer version.
            Err(error) => error.kind() == ErrorKind::Incompatible,
        };
        if store {
            let message = format!(
                "{what} may not be inside a store, and {} is one; name a directory outside of it",
                dir.display()
            );
            return Err(Error::invalid(message).at(path));
        }
    }
    Ok(())
}

/// Refuses `path` if anything has that name.
pub(in crate::db) fn refuse_existing(fs: &dyn Fs, path: &Path, what: &str) -> Result<()> {
    if !fs.exists(path).map_err(|e| Error::io(path, "look at the new directory", e))? {
        return Ok(());
    }
    let held = look(fs, path).map_or("a file".into(), |found| told_entries(&found.entries));
    let message = format!("{what} exists and holds {held}; name one that does not exist");
    Err(Error::invalid(message).at(path))
}

/// Refuses `path` inside the directory of backups `dir`, which holds backups alone.
pub(super) fn refuse_among_backups(fs: &dyn Fs, path: &Path, dir: &Path) -> Result<()> {
    let (full, dir) = (resolved(fs, path)?, resolved(fs, dir)?);
    if !full.starts_with(&dir) {
        return Ok(());
    }
    let message = format!(
        "a restored store may not be among the backups in {}; name a directory outside of it",
        dir.display()
    );
    Err(Error::invalid(message).at(path))
}
