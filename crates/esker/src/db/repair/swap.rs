//! Putting a rebuilt store in the place of the one it was made of.
//!
//! What stays true: two empty directories say how far the exchange is. With the first alone it is
//! undone, with the second it is finished: at once after an error, by the next repair after a crash.
//! While one of them is there no store is opened, so that no mixture is taken for one and nothing
//! is written that an exchange would undo. `CURRENT` is the first file to leave and the last to come.

use std::path::{Path, PathBuf};

use super::super::open::look;
use crate::error::{Error, Result};
use crate::fs::{Fs, sync_dir};
use crate::tree::names;

/// Originals are on their way out.
const ASIDE: &str = "rebuilt-moving-aside";
/// Originals are out, and the rebuilt store is on its way in.
const IN: &str = "rebuilt-moving-in";
/// What those two begin with.
pub(in crate::db) const INTERRUPTED: &str = "rebuilt-moving-";
/// Before the number in the name of a directory of originals.
const KEPT: &str = "before-repair-";

/// The new store, beside the one it is to replace.
pub(super) fn rebuilt(dir: &Path) -> PathBuf {
    dir.join("rebuilt")
}

/// Moves the originals aside and the rebuilt files in; returns where the originals are.
pub(super) fn exchange(fs: &dyn Fs, dir: &Path) -> Result<PathBuf> {
    let aside = dir.join(format!("{KEPT}{}", last_kept(fs, dir)?.unwrap_or(0) + 1));
    make(fs, &aside)?;
    sync_dir(fs, dir)?;
    let moved = make(fs, &dir.join(ASIDE))
        .and_then(|()| sync_dir(fs, dir))
        .and_then(|()| move_files(fs, dir, &aside, true))
        .and_then(|()| make(fs, &dir.join(IN)))
        .and_then(|()| finish(fs, dir));
    if let Err(error) = moved {
        let _ = resume(fs, dir);
        return Err(error);
    }
    Ok(aside)
}

/// Undoes or finishes an exchange that was interrupted, if one was.
pub(super) fn resume(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let entries = look(fs, dir)?.entries;
    let has = |name: &str| entries.iter().any(|e| e.name == name);
    if has(IN) {
        return finish(fs, dir);
    }
    if !has(ASIDE) {
        return Ok(());
    }
    let kept = last_kept(fs, dir)?.map(|number| dir.join(format!("{KEPT}{number}")));
    if let Some(aside) = &kept {
        move_files(fs, aside, dir, false)?;
    }
    // The sign first: without it the originals of an earlier repair are left where they are.
    drop_sign(fs, dir, ASIDE)?;
    sync_dir(fs, dir)?;
    if let Some(aside) = kept {
        let _ = fs.remove_dir(&aside);
    }
    Ok(())
}

fn finish(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let rebuilt = rebuilt(dir);
    sync_dir(fs, dir)?;
    move_files(fs, &rebuilt, dir, false)?;
    if look(fs, dir)?.entries.iter().any(|e| e.name == ASIDE) {
        drop_sign(fs, dir, ASIDE)?;
    }
    clear_dir(fs, &rebuilt)?;
    sync_dir(fs, dir)?;
    drop_sign(fs, dir, IN)?;
    sync_dir(fs, dir)
}

/// Moves a store's files, but for the lock, from one directory to another: `CURRENT` as the first
/// or as the last.
fn move_files(fs: &dyn Fs, from: &Path, to: &Path, current_first: bool) -> Result<()> {
    let mut ours = look(fs, from)?.entries;
    ours.retain(|e| e.is_file && names::is_ours(&e.name) && e.name != names::LOCK);
    if ours.is_empty() {
        return Ok(());
    }
    ours.sort_by_key(|e| (e.name == names::CURRENT) != current_first);
    for entry in ours {
        let path = from.join(&entry.name);
        if entry.name == names::CURRENT && !current_first {
            sync_dir(fs, to)?;
        }
        let moved = fs.rename(&path, &to.join(&entry.name));
        moved.map_err(|e| Error::io(&path, "move a file of the store", e))?;
    }
    // Where they are now, before where they were: a name too many is better than none.
    sync_dir(fs, to)?;
    sync_dir(fs, from)
}

/// The largest number of a directory of originals.
fn last_kept(fs: &dyn Fs, dir: &Path) -> Result<Option<u64>> {
    let entries = look(fs, dir)?.entries;
    let number = |name: &str| name.strip_prefix(KEPT).and_then(|digits| digits.parse().ok());
    Ok(entries.iter().filter_map(|e| number(&e.name)).max())
}

fn make(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.create_dir(dir).map_err(|e| Error::io(dir, "create the directory", e))
}

fn drop_sign(fs: &dyn Fs, dir: &Path, sign: &str) -> Result<()> {
    let path = dir.join(sign);
    fs.remove_dir(&path).map_err(|e| Error::io(&path, "remove the directory", e))
}

/// Removes a directory of plain files, if it is there.
pub(super) fn clear_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    for entry in look(fs, dir)?.entries {
        let path = dir.join(&entry.name);
        fs.remove(&path).map_err(|e| Error::io(&path, "remove a file", e))?;
    }
    let _ = fs.remove_dir(dir);
    Ok(())
}
