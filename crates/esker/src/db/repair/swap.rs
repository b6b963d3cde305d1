//! Replaces a store by the store rebuilt from it.
//!
//! Invariants:
//! * Two empty directories record the progress of the exchange. With only the first, the exchange
//!   is undone. With the second, it is finished. This happens at once after an error, and in the
//!   next repair after a crash.
//! * While one of the two exists no store is opened. So no mixture of files is taken for a store,
//!   and an exchange undoes no later write.
//! * `CURRENT` is the first file to leave and the last to arrive.

use std::path::{Path, PathBuf};

use super::super::dir::list_dir;
use crate::error::{Error, Result};
use crate::fs::{Fs, sync_dir};
use crate::tree::names;

/// Marker directory: original files are being moved out.
const MOVING_ASIDE: &str = "rebuilt-moving-aside";
/// Marker directory: the originals are out, and the rebuilt files are being moved in.
const IN: &str = "rebuilt-moving-in";
/// Prefix, before the number, of the name of a directory of originals.
const KEPT: &str = "before-repair-";

/// Returns the directory of the new store, inside the store that it will replace.
pub(super) fn rebuilt(dir: &Path) -> PathBuf {
    dir.join("rebuilt")
}

/// Moves the originals aside and the rebuilt files in. Returns the directory of the originals.
pub(super) fn exchange(fs: &dyn Fs, dir: &Path) -> Result<PathBuf> {
    let originals_dir = dir.join(format!("{KEPT}{}", last_kept(fs, dir)?.unwrap_or(0) + 1));
    make(fs, &originals_dir)?;
    sync_dir(fs, dir)?;
    let moved = make(fs, &dir.join(MOVING_ASIDE))
        .and_then(|()| sync_dir(fs, dir))
        .and_then(|()| move_files(fs, dir, &originals_dir, true))
        .and_then(|()| make(fs, &dir.join(IN)))
        .and_then(|()| finish(fs, dir));
    if let Err(error) = moved {
        let _ = resume(fs, dir);
        return Err(error);
    }
    Ok(originals_dir)
}

/// Undoes or finishes an interrupted exchange, if there is one.
pub(super) fn resume(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let entries = list_dir(fs, dir)?.entries;
    let has = |name: &str| entries.iter().any(|e| e.name == name);
    if has(IN) {
        return finish(fs, dir);
    }
    if !has(MOVING_ASIDE) {
        return Ok(());
    }
    let kept = last_kept(fs, dir)?.map(|number| dir.join(format!("{KEPT}{number}")));
    if let Some(originals_dir) = &kept {
        move_files(fs, originals_dir, dir, false)?;
    }
    // The marker first: without it, the originals of an earlier repair stay in place.
    remove_marker(fs, dir, MOVING_ASIDE)?;
    sync_dir(fs, dir)?;
    if let Some(originals_dir) = kept {
        let _ = fs.remove_dir(&originals_dir);
    }
    Ok(())
}

fn finish(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let rebuilt = rebuilt(dir);
    sync_dir(fs, dir)?;
    move_files(fs, &rebuilt, dir, false)?;
    if list_dir(fs, dir)?.entries.iter().any(|e| e.name == MOVING_ASIDE) {
        remove_marker(fs, dir, MOVING_ASIDE)?;
    }
    clear_dir(fs, &rebuilt)?;
    sync_dir(fs, dir)?;
    remove_marker(fs, dir, IN)?;
    sync_dir(fs, dir)
}

/// Moves a store's files from one directory to another, with `CURRENT` as the first or the last
/// file. The lock, the info log and the published metrics stay.
fn move_files(fs: &dyn Fs, from: &Path, to: &Path, current_first: bool) -> Result<()> {
    let mut store_files = list_dir(fs, from)?.entries;
    let is_content = |name: &str| names::is_store_file(name) && !names::is_side_file(name);
    store_files.retain(|e| e.is_file && is_content(&e.name));
    if store_files.is_empty() {
        return Ok(());
    }
    store_files.sort_by_key(|e| (e.name == names::CURRENT) != current_first);
    for entry in store_files {
        let path = from.join(&entry.name);
        if entry.name == names::CURRENT && !current_first {
            sync_dir(fs, to)?;
        }
        let moved = fs.rename(&path, &to.join(&entry.name));
        moved.map_err(|e| Error::io(&path, "move a file of the store", e))?;
    }
    // Target before source: a duplicate name is better than none.
    sync_dir(fs, to)?;
    sync_dir(fs, from)
}

/// Returns the largest number of a directory of originals.
fn last_kept(fs: &dyn Fs, dir: &Path) -> Result<Option<u64>> {
    let entries = list_dir(fs, dir)?.entries;
    let number = |name: &str| name.strip_prefix(KEPT).and_then(|digits| digits.parse().ok());
    Ok(entries.iter().filter_map(|e| number(&e.name)).max())
}

fn make(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.create_dir(dir).map_err(|e| Error::io(dir, "create the directory", e))
}

fn remove_marker(fs: &dyn Fs, dir: &Path, marker: &str) -> Result<()> {
    let path = dir.join(marker);
    fs.remove_dir(&path).map_err(|e| Error::io(&path, "remove the directory", e))
}

/// Removes a directory of plain files, if it exists.
pub(super) fn clear_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    for entry in list_dir(fs, dir)?.entries {
        let path = dir.join(&entry.name);
        fs.remove(&path).map_err(|e| Error::io(&path, "remove a file", e))?;
    }
    let _ = fs.remove_dir(dir);
    Ok(())
}
