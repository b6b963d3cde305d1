//! A directory of backups: its content, its owner, and the removal of backups.
//!
//! Invariants:
//! * One call at a time changes the directory, under its lock.
//! * The removal of a backup starts with its `CURRENT`. So a crash leaves an incomplete backup,
//!   which does not count as a backup.
//! * The newest backup is never removed.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::meta::BackupMeta;
use super::place::first_names;
use crate::db::dir::list_dir;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileLock, Fs, sync_dir};
use crate::tree::names;

/// Prefix of a backup's name, before the number.
const PREFIX: &str = "backup-";

/// A backup, as listed by [`crate::Db::backups`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BackupInfo {
    /// The backup's number.
    pub number: u64,
    /// The path of the backup, which is a store.
    pub path: PathBuf,
    /// Creation time, by the clock of the machine that made it. `None` when the backup's `BACKUP`
    /// file is missing or damaged.
    pub created: Option<SystemTime>,
    /// Identity of the store that was backed up ([`crate::Db::store_id`]); `None` as for `created`.
    pub store_id: Option<u64>,
    /// Path of the store that was backed up; `None` as for `created`.
    pub store_path: Option<PathBuf>,
    /// Number of tables in the backup, including the ones shared with other backups.
    pub tables: u64,
    /// Size of these tables, in bytes.
    pub table_bytes: u64,
    /// Why the `BACKUP` file could not be read. The backup's content may still be intact; a restore
    /// checks it.
    pub problem: Option<Error>,
}

/// Result of [`crate::Db::prune_backups`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneReport {
    /// Numbers of the removed backups, oldest first.
    pub removed: Vec<u64>,
    /// Numbers of the remaining backups, oldest first.
    pub kept: Vec<u64>,
}

/// Returns the path of the backup with this number.
pub(super) fn backup_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number:06}"))
}

/// Returns an error for a missing directory, so that a mistyped path is not taken for an empty one.
pub(super) fn need(fs: &dyn Fs, dir: &Path) -> Result<()> {
    if fs.exists(dir).map_err(|e| Error::io(dir, "inspect the backup directory", e))? {
        return Ok(());
    }
    Err(Error::not_found("there is no backup directory here").with_path(dir))
}

/// Takes the directory's lock. Without it, two concurrent calls would each take the other's backup
/// for an incomplete one.
pub(super) fn lock(fs: &dyn Fs, dir: &Path) -> Result<Box<dyn FileLock>> {
    let holder = format!("process {}", std::process::id());
    fs.lock(&dir.join(names::LOCK), &holder).map_err(|error| {
        if error.kind() == std::io::ErrorKind::WouldBlock {
            let message =
                "another backup or prune is running in this directory; try again when it has ended";
            return Error::new(ErrorKind::Locked, message).with_path(dir);
        }
        Error::io(dir, "lock the backup directory", error)
    })
}

/// The content of a directory of backups.
pub(super) struct Backups {
    dir: PathBuf,
    /// The numbers of complete backups, oldest first.
    pub whole: Vec<u64>,
    halves: Vec<u64>,
}

impl Backups {
    /// Lists the directory.
    ///
    /// # Errors
    /// `InvalidArgument` when the directory holds anything else than backups, `Io`.
    pub fn read_dir(fs: &dyn Fs, dir: &Path) -> Result<Backups> {
        let mut numbers = Vec::new();
        let entries = list_dir(fs, dir)?.entries;
        for entry in &entries {
            let digits = entry.name.strip_prefix(PREFIX).filter(|_| !entry.is_file);
            let number = digits.and_then(|digits| digits.parse().ok());
            match number.filter(|n| backup_path(dir, *n).ends_with(&entry.name)) {
                Some(number) => numbers.push(number),
                None if entry.name == names::LOCK && entry.is_file => {}
                None => {
                    let message = format!(
                        "this is not a backup directory and was left untouched: it holds {}; name \
                         a new or an empty directory, or a directory that holds only backups",
                        first_names(&entries)
                    );
                    return Err(Error::invalid(message).with_path(dir));
                }
            }
        }
        numbers.sort_unstable();
        let mut found = Backups { dir: dir.to_path_buf(), whole: Vec::new(), halves: Vec::new() };
        for number in numbers {
            let path = backup_path(dir, number).join(names::CURRENT);
            let whole = fs.exists(&path);
            let whole =
                whole.map_err(|e| Error::io(&path, "check whether the backup is complete", e))?;
            if whole { found.whole.push(number) } else { found.halves.push(number) }
        }
        Ok(found)
    }

    /// Returns the complete backups in words, such as `backups 1 to 3 and 7`.
    pub fn numbers_text(&self) -> String {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for number in &self.whole {
            match spans.last_mut() {
                Some((_, last)) if *last + 1 == *number => *last = *number,
                _ => spans.push((*number, *number)),
            }
        }
        let spans: Vec<String> = spans
            .iter()
            .map(|(first, last)| match last - first {
                0 => first.to_string(),
                _ => format!("{first} to {last}"),
            })
            .collect();
        match spans.split_last() {
            None => "no backup".into(),
            Some((only, [])) if self.whole.len() == 1 => format!("backup {only}"),
            Some((only, [])) => format!("backups {only}"),
            Some((last, before)) => format!("backups {} and {last}", before.join(", ")),
        }
    }

    /// Returns `number` if that backup exists, or the newest backup's number when `None`.
    pub fn choose(&self, number: Option<u64>) -> Result<u64> {
        let chosen = match number {
            Some(number) => self.whole.binary_search(&number).is_ok().then_some(number),
            None => self.whole.last().copied(),
        };
        chosen.ok_or_else(|| {
            let wanted =
                number.map_or("there is no backup".into(), |n| format!("there is no backup {n}"));
            let message = format!("{wanted} in this directory; it holds {}", self.numbers_text());
            Error::not_found(message).with_path(&self.dir)
        })
    }

    /// Refuses the directory unless its newest backup is of the store `store_id`.
    pub fn refuse_others(&self, fs: &dyn Fs, store_id: u64) -> Result<()> {
        let Some(newest) = self.whole.last() else { return Ok(()) };
        let held = self.numbers_text();
        let whose = match BackupMeta::read(fs, &backup_path(&self.dir, *newest))? {
            Some(meta) if meta.store_id == store_id => return Ok(()),
            Some(meta) => format!(
                "the directory belongs to another store: it holds {held}, the newest backup is of \
                 store {:016x} at {}, and this store is {store_id:016x}",
                meta.store_id,
                meta.store_path.display()
            ),
            None => format!(
                "the directory holds {held}, and the newest backup does not name its store (an \
                 older version of Esker made it)"
            ),
        };
        let message = format!(
            "{whose}; use a separate directory for each store, or take this directory over \
             (`take_over`, `esker backup --take-over`)"
        );
        Err(Error::new(ErrorKind::Incompatible, message).with_path(&self.dir))
    }

    /// Removes incomplete backups left by crashes. The caller holds the lock.
    pub fn remove_halves(&self, fs: &dyn Fs) -> Result<()> {
        for number in &self.halves {
            let path = backup_path(&self.dir, *number);
            remove(fs, &path).map_err(|e| Error::io(&path, "remove an incomplete backup", e))?;
        }
        Ok(())
    }

    /// Removes the oldest backups until `keep` are left. The caller holds the lock.
    pub fn prune(&self, fs: &dyn Fs, keep: usize) -> Result<PruneReport> {
        let (old, kept) = self.whole.split_at(self.whole.len().saturating_sub(keep.max(1)));
        for number in old {
            refuse_more_than_a_backup(fs, &backup_path(&self.dir, *number))?;
        }
        self.remove_halves(fs)?;
        for number in old {
            let path = backup_path(&self.dir, *number);
            remove(fs, &path).map_err(|e| Error::io(&path, "remove the backup", e))?;
        }
        sync_dir(fs, &self.dir)?;
        Ok(PruneReport { removed: old.to_vec(), kept: kept.to_vec() })
    }

    /// Returns the description of each backup.
    pub fn describe(&self, fs: &dyn Fs) -> Result<Vec<BackupInfo>> {
        let mut all = Vec::with_capacity(self.whole.len());
        for number in &self.whole {
            let path = backup_path(&self.dir, *number);
            let (meta, problem) = match BackupMeta::read(fs, &path) {
                Ok(meta) => (meta, None),
                Err(error) => (None, Some(error)),
            };
            let entries = list_dir(fs, &path)?.entries;
            let tables = entries.iter().filter(|e| names::parse_table(&e.name).is_some());
            let lengths: Vec<u64> = tables.map(|entry| entry.len_bytes).collect();
            let created =
                |meta: &BackupMeta| UNIX_EPOCH + Duration::from_millis(meta.created_unix_ms);
            all.push(BackupInfo {
                number: *number,
                path,
                created: meta.as_ref().map(created),
                store_id: meta.as_ref().map(|meta| meta.store_id),
                store_path: meta.map(|meta| meta.store_path),
                tables: lengths.len() as u64,
                table_bytes: lengths.iter().sum(),
                problem,
            });
        }
        Ok(all)
    }
}

/// Refuses to remove a backup that holds anything else than a backup's files, before any of them is
/// removed.
fn refuse_more_than_a_backup(fs: &dyn Fs, path: &Path) -> Result<()> {
    let mut entries = list_dir(fs, path)?.entries;
    entries.retain(|entry| !entry.is_file || !names::is_store_file(&entry.name));
    if entries.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the backup was not removed, because its directory also holds {}; move these entries \
         elsewhere first",
        first_names(&entries)
    );
    Err(Error::invalid(message).with_path(path))
}

/// Removes a store's files from a directory, and then the directory. `CURRENT` goes first, so that
/// no incomplete store counts as a store.
pub(super) fn remove(fs: &dyn Fs, path: &Path) -> std::io::Result<()> {
    let mut entries = fs.list(path)?;
    entries.retain(|entry| entry.is_file && names::is_store_file(&entry.name));
    entries.sort_by_key(|entry| entry.name != names::CURRENT);
    for entry in entries {
        fs.remove(&path.join(&entry.name))?;
        if entry.name == names::CURRENT {
            fs.sync_dir(path)?;
        }
    }
    fs.remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_numbers_are_printed_as_ranges() {
        let text = |whole: &[u64]| {
            Backups { dir: PathBuf::new(), whole: whole.to_vec(), halves: Vec::new() }
                .numbers_text()
        };
        assert_eq!(text(&[]), "no backup");
        assert_eq!(text(&[4]), "backup 4");
        assert_eq!(text(&[4, 5, 6]), "backups 4 to 6");
        assert_eq!(text(&[1, 3, 4, 9]), "backups 1, 3 to 4 and 9");
    }
}
