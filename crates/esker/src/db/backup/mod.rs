//! Backups: a directory of stores, each whole by itself, that share the tables they have in common.
//!
//! | in | is |
//! |---|---|
//! | `directory` | what a directory of backups holds: looking, the lock, removing |
//! | `mark` | the file `BACKUP`: of which store a backup is, and from when |
//! | `place` | where backups and restored stores may not be |
//!
//! `backup-000001`, `backup-000002`, … inside the directory are stores of their own. A table that
//! the one before has already is linked from there, any other is copied; every table is read back
//! and compared before the backup counts. What stays true: the store is not changed; the directory
//! belongs to the store that its newest backup is of; a backup gets its `CURRENT` last, so that half
//! of one is none, and the next backup removes it; earlier backups are never touched.

mod directory;
pub mod mark;
pub(super) mod place;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Db;
use super::state::Inner;
use crate::error::{Error, Result};
use crate::fs::os::OsFs;
use crate::fs::{Fs, absolute, parent_of, pinned, sync_dir};
use crate::options::Options;
use crate::table::{Table, TableSource};
use crate::tree::fragment::FileMeta;
use crate::tree::names;
use directory::Backups;
pub use directory::{BackupInfo, PruneReport};
use mark::Mark;

/// How much is copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// How [`Db::backup_with`] goes about it.
#[derive(Debug, Clone, Copy, Default)]
pub struct BackupOptions {
    /// Whether a directory that belongs to another store becomes this one's: for a store that was
    /// restored and takes the place of its original. Default: false, which is an error then. The
    /// backups that are there stay.
    pub take_over: bool,
}

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
    /// A directory of backups belongs to one store, the one that its newest backup is of. A crash
    /// leaves the backups that were there and, at most, half of the new one, which no call takes
    /// for a backup and the next one removes.
    ///
    /// # Errors
    /// `Incompatible` when the directory belongs to another store; `InvalidArgument` when something
    /// else than backups is in it, or it lies inside a store; `Locked` while another backup or
    /// [`Db::prune_backups`] works in it; `Corruption` when a table of the store or of an earlier
    /// backup is damaged (no backup is made then); `NoSpace`; `Io`.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(dir, &BackupOptions::default())
    }

    /// [`Db::backup`] with options.
    ///
    /// # Errors
    /// As [`Db::backup`].
    pub fn backup_with(
        &self,
        dir: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        let (inner, fs) = (&self.inner, &self.inner.fs);
        inner.check_writable()?;
        let dir = &*absolute(&**fs, dir.as_ref())?;
        place::refuse_inside_a_store(&**fs, dir, "the directory of backups")?;
        inner.flush()?;
        if !fs.exists(dir).map_err(|e| Error::io(dir, "look at the backup's directory", e))? {
            fs.create_dir(dir).map_err(|e| Error::io(dir, "create the backup's directory", e))?;
            sync_dir(&**fs, &parent_of(dir))?;
        }
        let owned_fs = pinned(fs, dir)?;
        let fs = &*owned_fs;
        // Before the lock makes a file in what may be somebody else's directory.
        Backups::look(fs, dir)?;
        let _lock = directory::lock(fs, dir)?;
        let before = Backups::look(fs, dir)?;
        if !options.take_over {
            before.refuse_others(fs, self.store_id())?;
        }
        before.remove_halves(fs)?;
        let number = before.whole.last().map_or(1, |last| last + 1);
        let path = directory::backup_path(dir, number);
        fs.create_dir(&path).map_err(|e| Error::io(&path, "create the backup", e))?;
        let previous = before.whole.last().map(|last| directory::backup_path(dir, *last));
        let mark = Mark {
            store_id: self.store_id(),
            created_unix_ms: now_unix_ms(),
            store_path: place::resolved(fs, &inner.dir)?,
        };
        inner.fill_backup(&owned_fs, &path, previous.as_deref(), number, Some(&mark))
    }

    /// The backups in `dir`, oldest first.
    ///
    /// # Errors
    /// `NotFound` when there is no such directory, `InvalidArgument` when something else than
    /// backups is in it, `Io`. A backup whose mark is damaged is listed with that.
    pub fn backups(dir: impl AsRef<Path>) -> Result<Vec<BackupInfo>> {
        Db::backups_on(OsFs::shared(), dir)
    }

    /// [`Db::backups`] on a file system of the caller's.
    pub fn backups_on(fs: Arc<dyn Fs>, dir: impl AsRef<Path>) -> Result<Vec<BackupInfo>> {
        let (fs, dir) = (&*fs, dir.as_ref());
        directory::need(fs, dir)?;
        Backups::look(fs, dir)?.describe(fs)
    }

    /// Removes the oldest backups in `dir` until `keep` are left, and halves of backups. Those that
    /// are left are whole without them. A crash in the middle leaves more backups than `keep`, each
    /// whole; half of a removed one is gone with the next call.
    ///
    /// # Errors
    /// `NotFound` when there is no such directory; `InvalidArgument` when `keep` is 0 or something
    /// else than backups is in it; `Locked` while another call works in it; `Io`.
    pub fn prune_backups(dir: impl AsRef<Path>, keep: usize) -> Result<PruneReport> {
        Db::prune_backups_on(OsFs::shared(), dir, keep)
    }

    /// [`Db::prune_backups`] on a file system of the caller's.
    pub fn prune_backups_on(
        fs: Arc<dyn Fs>,
        dir: impl AsRef<Path>,
        keep: usize,
    ) -> Result<PruneReport> {
        let dir = &*absolute(&*fs, dir.as_ref())?;
        directory::need(&*fs, dir)?;
        let fs = &*pinned(&fs, dir)?;
        let found = Backups::look(fs, dir)?;
        if keep == 0 {
            let message = format!(
                "keep at least 1 of {}: the newest says to which store the directory belongs; to \
                 drop all of them, remove the directory",
                found.told()
            );
            return Err(Error::invalid(message).at(dir));
        }
        let _lock = directory::lock(fs, dir)?;
        // Again: one may have been made before the lock was ours.
        Backups::look(fs, dir)?.prune(fs, keep)
    }

    /// Makes a store in `into`, which must not exist, of the backup `number` in `dir` (the newest
    /// when `None`). Every table is read back and compared. Returns the backup's number.
    ///
    /// The new store is one of its own: its [`Db::store_id`] is new, and its backups go to another
    /// directory, unless it takes this one over ([`BackupOptions::take_over`]).
    ///
    /// # Errors
    /// `InvalidArgument` when `into` exists, lies inside a store or among the backups; `NotFound`
    /// when there is no such backup; `Corruption` when the backup is damaged; `NoSpace`; `Io`. No
    /// store is left in `into` then.
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
        let dir = &*absolute(&*fs, dir.as_ref())?;
        let into = &*absolute(&*fs, into.as_ref())?;
        directory::need(&*fs, dir)?;
        let found = Backups::look(&*fs, dir)?;
        let number = found.choose(number)?;
        place::refuse_existing(&*fs, into, "the directory to restore into")?;
        place::refuse_inside_a_store(&*fs, into, "the directory to restore into")?;
        place::refuse_among_backups(&*fs, into, dir)?;
        let path = directory::backup_path(dir, number);
        let db = Db::open_read_only_on(fs.clone(), &path, options)?;
        if !db.inner.view.load().active.is_empty() {
            let message = format!(
                "the backup was opened and written to, so it is a store of its own now; restore \
                 another one: {} holds {}",
                dir.display(),
                found.told()
            );
            return Err(Error::invalid(message).at(&path));
        }
        fs.create_dir(into).map_err(|e| Error::io(into, "create the new directory", e))?;
        let fs = pinned(&db.inner.fs, into)?;
        db.inner.fill_backup(&fs, into, None, number, None).map(|report| report.number)
    }

    /// The store's identity, a random number that it got when it was created and keeps.
    ///
    /// A checkpoint, a backup and a restored store are stores of their own, with other identities.
    /// A copy of the directory made by other means has its original's.
    pub fn store_id(&self) -> u64 {
        self.inner.versions.lock().store_id()
    }
}

fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Inner {
    /// Puts the tables of this moment into the new directory `path`, with `mark` if it is to be a
    /// backup, and makes it a store; removes it again after an error. `fs` is that of the store, with
    /// `path` or the directory above it pinned.
    fn fill_backup(
        &self,
        fs: &Arc<dyn Fs>,
        path: &Path,
        previous: Option<&Path>,
        number: u64,
        mark: Option<&Mark>,
    ) -> Result<BackupReport> {
        let mut report =
            BackupReport { number, path: path.to_path_buf(), ..BackupReport::default() };
        let version = self.view.load().version.clone();
        let mut tables = || {
            for file in version.files() {
                self.take_table(fs, &file, path, previous, &mut report)?;
            }
            if let Some(mark) = mark {
                mark.write(&**fs, path)?;
            }
            sync_dir(&**fs, path)
        };
        if let Err(error) = tables().and_then(|()| self.name_tables(fs, &version, path)) {
            let _ = directory::remove(&**fs, path);
            return Err(error);
        }
        Ok(report)
    }

    /// Links or copies one table into `path`, and reads it there.
    fn take_table(
        &self,
        owned_fs: &Arc<dyn Fs>,
        file: &FileMeta,
        path: &Path,
        previous: Option<&Path>,
        report: &mut BackupReport,
    ) -> Result<()> {
        let (fs, bytes) = (&**owned_fs, file.info.size_bytes);
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
            fs: owned_fs.clone(),
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
