//! Backups: a directory of stores, each whole by itself, that share the tables they have in common.
//!
//! `backup-000001`, `backup-000002`, … inside the backup's directory are stores of their own. A
//! table that the one before has already is linked from there, any other is copied; every table is
//! read back and compared before the backup counts. What stays true: the store is not changed; a
//! backup gets its `CURRENT` last, so that half of one is none, and the next backup removes it;
//! earlier backups are never touched.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Db;
use super::open::look;
use super::state::Inner;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::os::OsFs;
use crate::fs::{Fs, parent_of, sync_dir};
use crate::options::Options;
use crate::table::{Table, TableSource};
use crate::tree::fragment::FileMeta;
use crate::tree::names;

/// How much is copied at once.
const COPY_BYTES: u64 = 1 << 20;
/// Before the number in a backup's name.
const PREFIX: &str = "backup-";

/// What [`Db::backup`] made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The backup's number.
    pub number: u64,
    /// The store it is.
    pub path: PathBuf,
    /// Tables copied.
    pub copied_files: u64,
    /// Bytes of them.
    pub copied_bytes: u64,
    /// Tables shared with the backup before.
    pub linked_files: u64,
    /// Bytes of them.
    pub linked_bytes: u64,
}

impl Db {
    /// Adds a backup to the directory `dir`, which is made if it is not there: everything written
    /// before the call. Only tables that the backup before does not have are copied.
    ///
    /// # Errors
    /// `InvalidArgument` when something else is in `dir`, `Corruption` when a table of the store or
    /// of an earlier backup is damaged (no backup is made then), `NoSpace`, `Io`.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupReport> {
        let (dir, inner) = (dir.as_ref(), &self.inner);
        inner.flush()?;
        let fs = &*inner.fs;
        if !fs.exists(dir).map_err(|e| Error::io(dir, "look at the backup's directory", e))? {
            fs.create_dir(dir).map_err(|e| Error::io(dir, "create the backup's directory", e))?;
            sync_dir(fs, &parent_of(dir))?;
        }
        let before = whole_backups(fs, dir)?;
        let number = before.last().map_or(1, |last| last + 1);
        let path = backup_path(dir, number);
        fs.create_dir(&path).map_err(|e| Error::io(&path, "create the backup", e))?;
        let previous = before.last().map(|last| backup_path(dir, *last));
        inner.fill_backup(&path, previous.as_deref(), number)
    }

    /// The numbers of the backups in `dir`, oldest first.
    pub fn backups(dir: impl AsRef<Path>) -> Result<Vec<u64>> {
        let (fs, dir) = (OsFs::shared(), dir.as_ref());
        Ok(look_for_backups(&*fs, dir)?.0)
    }

    /// Makes a store in `into`, which must not exist, of the backup `number` in `dir` (the newest
    /// when `None`). Every table is read back and compared. Returns the backup's number.
    ///
    /// # Errors
    /// `InvalidArgument` when `into` exists, `NotFound` when there is no such backup, `Corruption`
    /// when the backup is damaged, `NoSpace`, `Io`; no store is left in `into` then.
    pub fn restore(
        dir: impl AsRef<Path>,
        number: Option<u64>,
        into: impl AsRef<Path>,
        options: Options,
    ) -> Result<u64> {
        Db::restore_on(OsFs::shared(), dir, number, into, options)
    }

    /// [`Db::restore`] on a file system of the caller's.
    pub fn restore_on(
        fs: Arc<dyn Fs>,
        dir: impl AsRef<Path>,
        number: Option<u64>,
        into: impl AsRef<Path>,
        options: Options,
    ) -> Result<u64> {
        let (dir, into) = (dir.as_ref(), into.as_ref());
        let found = match number {
            Some(number) => is_whole(&*fs, dir, number)?.then_some(number),
            None => look_for_backups(&*fs, dir)?.0.pop(),
        };
        let Some(found) = found else {
            return Err(Error::not_found("there is no such backup here").at(dir));
        };
        if fs.exists(into).map_err(|e| Error::io(into, "look at the new directory", e))? {
            let message = "the directory to restore into exists; name one that does not";
            return Err(Error::invalid(message).at(into));
        }
        let path = backup_path(dir, found);
        let db = Db::open_read_only_on(fs.clone(), &path, options)?;
        if !db.inner.view.load().active.is_empty() {
            let message = "the backup was opened and written to; it is a store of its own now";
            return Err(Error::invalid(message).at(&path));
        }
        fs.create_dir(into).map_err(|e| Error::io(into, "create the new directory", e))?;
        db.inner.fill_backup(into, None, found).map(|report| report.number)
    }
}

impl Inner {
    /// Puts the tables of this moment into the new directory `path` and makes it a store; removes
    /// it again after an error.
    fn fill_backup(
        &self,
        path: &Path,
        previous: Option<&Path>,
        number: u64,
    ) -> Result<BackupReport> {
        let mut report =
            BackupReport { number, path: path.to_path_buf(), ..BackupReport::default() };
        let version = self.view.load().version.clone();
        let mut tables = || {
            for file in version.files() {
                self.take_table(&file, path, previous, &mut report)?;
            }
            sync_dir(&*self.fs, path)
        };
        if let Err(error) = tables().and_then(|()| self.name_tables(&version, path)) {
            let _ = remove_half(&*self.fs, path);
            return Err(error);
        }
        Ok(report)
    }

    /// Links or copies one table into `path`, and reads it there.
    fn take_table(
        &self,
        file: &FileMeta,
        path: &Path,
        previous: Option<&Path>,
        report: &mut BackupReport,
    ) -> Result<()> {
        let (fs, bytes) = (&*self.fs, file.info.size_bytes);
        let to = names::table_path(path, file.number);
        let earlier = previous.map(|dir| names::table_path(dir, file.number)).filter(|earlier| {
            Table::identify(fs, earlier).is_ok_and(|found| {
                (found.table_id, found.size_bytes) == (file.info.table_id, bytes)
            })
        });
        if earlier.is_some_and(|earlier| fs.hard_link(&earlier, &to).is_ok()) {
            (report.linked_files, report.linked_bytes) =
                (report.linked_files + 1, report.linked_bytes + bytes);
        } else {
            copy(fs, &names::table_path(&self.dir, file.number), &to, bytes)?;
            (report.copied_files, report.copied_bytes) =
                (report.copied_files + 1, report.copied_bytes + bytes);
        }
        let source = TableSource {
            fs: self.fs.clone(),
            path: to.clone(),
            file_number: file.number,
            table_id: file.info.table_id,
            size_bytes: bytes,
        };
        if Table::open(source, self.tables.config())?.check()? != file.info {
            let message = "the table is not the one the store's manifest describes";
            return Err(Error::corruption(&to, 0, message));
        }
        Ok(())
    }
}

fn backup_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number:06}"))
}

fn is_whole(fs: &dyn Fs, dir: &Path, number: u64) -> Result<bool> {
    let path = backup_path(dir, number).join(names::CURRENT);
    fs.exists(&path).map_err(|e| Error::io(&path, "look whether the backup is whole", e))
}

/// The numbers of backups and halves of them in `dir`, in order; an error if anything else is there.
fn numbers(fs: &dyn Fs, dir: &Path) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in look(fs, dir)?.entries {
        let digits = entry.name.strip_prefix(PREFIX).filter(|_| !entry.is_file);
        let number = digits.and_then(|digits| digits.parse().ok());
        match number.filter(|n| backup_path(dir, *n).ends_with(&entry.name)) {
            Some(number) => found.push(number),
            None => {
                let message = "this is no directory of backups; it was left untouched";
                return Err(
                    Error::new(ErrorKind::InvalidArgument, message).at(&dir.join(&entry.name))
                );
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The numbers of whole backups in `dir`, and of halves.
fn look_for_backups(fs: &dyn Fs, dir: &Path) -> Result<(Vec<u64>, Vec<u64>)> {
    let (mut whole, mut halves) = (Vec::new(), Vec::new());
    for number in numbers(fs, dir)? {
        if is_whole(fs, dir, number)? { whole.push(number) } else { halves.push(number) }
    }
    Ok((whole, halves))
}

/// The numbers of the backups in `dir`, once halves of backups are removed.
fn whole_backups(fs: &dyn Fs, dir: &Path) -> Result<Vec<u64>> {
    let (whole, halves) = look_for_backups(fs, dir)?;
    for number in halves {
        let path = backup_path(dir, number);
        remove_half(fs, &path).map_err(|e| Error::io(&path, "remove half a backup", e))?;
    }
    Ok(whole)
}

/// Removes the files a store makes from a directory that is none, and the directory; `CURRENT`
/// first, so that no half of it is ever a store.
fn remove_half(fs: &dyn Fs, path: &Path) -> std::io::Result<()> {
    let mut entries = fs.list(path)?;
    entries.retain(|entry| entry.is_file && names::is_ours(&entry.name));
    entries.sort_by_key(|entry| entry.name != names::CURRENT);
    for entry in entries {
        fs.remove(&path.join(&entry.name))?;
        if entry.name == names::CURRENT {
            fs.sync_dir(path)?;
        }
    }
    fs.remove_dir(path)
}

/// Copies the first `len` bytes of a file into a new one and syncs it.
fn copy(fs: &dyn Fs, from: &Path, to: &Path, len: u64) -> Result<()> {
    let source = fs.open_read(from).map_err(|e| Error::io(from, "open a table", e))?;
    let mut target = fs.create_new(to).map_err(|e| Error::io(to, "create a table's copy", e))?;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < len {
        buffer.resize(COPY_BYTES.min(len - at) as usize, 0);
        let read = source.read_exact_at(&mut buffer, at);
        read.map_err(|e| Error::io(from, "read a table", e))?;
        target.append(&buffer).map_err(|e| Error::io(to, "write a table's copy", e))?;
        at += buffer.len() as u64;
    }
    target.sync().map_err(|e| Error::io(to, "sync a table's copy", e))
}
