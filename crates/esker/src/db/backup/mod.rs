//! Backups: a directory of complete stores that share their common tables.
//!
//! | module | content |
//! |---|---|
//! | `directory` | the directory of backups: listing, lock, removal |
//! | `meta` | the file `BACKUP`: the identity of the backed-up store and the creation time |
//! | `place` | checks of the place of new backups and restored stores |
//!
//! The directory holds the stores `backup-000001`, `backup-000002`, … A table that the previous
//! backup already has is hard-linked from there. Any other table is copied. Every table is read
//! back and compared before the backup counts.
//!
//! Invariants:
//! * The store is not changed.
//! * The directory belongs to the store of its newest backup.
//! * A backup gets its `CURRENT` last. An incomplete backup does not count, and the next backup
//!   removes it.
//! * Earlier backups are never changed.

mod directory;
pub mod meta;
pub(super) mod place;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Db;
use super::state::DbInner;
use super::tree::Tree;
use crate::error::{Error, Result};
use crate::fs::OsFs;
use crate::fs::{Fs, ReadableFile, absolute, parent_of, pinned, sync_dir};
use crate::options::Options;
use crate::table::{Table, TableSource};
use crate::tree::fragment::FileMeta;
use crate::tree::names;
use directory::Backups;
pub use directory::{BackupInfo, PruneReport};
use meta::{BackupMeta, tables_checksum};

/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Options of [`Db::backup_with`].
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct BackupOptions {
    /// Whether this store takes over a directory that belongs to another store. For a restored
    /// store that replaces its original. The existing backups stay. Default: `false`, which makes
    /// such a directory an error.
    pub take_over: bool,
}

impl BackupOptions {
    /// Sets whether this store takes over a directory that belongs to another store.
    pub fn take_over(mut self, take_over: bool) -> BackupOptions {
        self.take_over = take_over;
        self
    }
}

/// Result of [`Db::backup`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The backup's number.
    pub number: u64,
    /// The path of the backup, which is a store.
    pub path: PathBuf,
    /// Number of tables and value files copied.
    pub copied_files: u64,
    /// Size of the copied files, in bytes.
    pub copied_bytes: u64,
    /// Number of tables and value files shared with the previous backup.
    pub linked_files: u64,
    /// Size of the shared files, in bytes.
    pub linked_bytes: u64,
}

impl BackupReport {
    /// Counts a file of the copy.
    fn count(&mut self, is_linked: bool, file_bytes: u64) {
        let (files, bytes) = if is_linked {
            (&mut self.linked_files, &mut self.linked_bytes)
        } else {
            (&mut self.copied_files, &mut self.copied_bytes)
        };
        *files += 1;
        *bytes += file_bytes;
    }
}

impl Db {
    /// Adds a backup to the directory `dir`, which is created if it does not exist. The backup
    /// holds everything written before the call. Only tables that the previous backup does not
    /// have are copied.
    ///
    /// A directory of backups belongs to one store: the store of its newest backup. A crash keeps
    /// the earlier backups. It leaves at most an incomplete new one, which no call takes for a
    /// backup and the next backup removes.
    ///
    /// # Errors
    /// * `Incompatible` when the directory belongs to another store.
    /// * `InvalidArgument` when it holds anything else than backups, or lies inside a store.
    /// * `Locked` while another backup or [`Db::prune_backups`] works in it.
    /// * `Corruption` when a table of the store or of an earlier backup is damaged. No backup is
    ///   created then.
    /// * `NoSpace`, `Io`.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(dir, &BackupOptions::default())
    }

    /// Does the same as [`Db::backup`], with options.
    ///
    /// # Errors
    /// The same as [`Db::backup`].
    pub fn backup_with(
        &self,
        dir: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        let (inner, fs) = (&self.inner, &self.inner.fs);
        inner.check_writable()?;
        let dir = &*absolute(&**fs, dir.as_ref())?;
        place::refuse_inside_a_store(&**fs, dir, "the backup directory")?;
        inner.flush()?;
        if !fs.exists(dir).map_err(|e| Error::io(dir, "inspect the backup's directory", e))? {
            fs.create_dir(dir).map_err(|e| Error::io(dir, "create the backup's directory", e))?;
            sync_dir(&**fs, &parent_of(dir))?;
        }
        let owned_fs = pinned(fs, dir)?;
        let fs = &*owned_fs;
        // Checked before the lock creates a file in a directory of another program.
        Backups::read_dir(fs, dir)?;
        let _lock = directory::lock(fs, dir)?;
        let before = Backups::read_dir(fs, dir)?;
        if !options.take_over {
            before.refuse_others(fs, self.store_id())?;
        }
        before.remove_halves(fs)?;
        let number = before.whole.last().map_or(1, |last| last + 1);
        let path = directory::backup_path(dir, number);
        fs.create_dir(&path).map_err(|e| Error::io(&path, "create the backup", e))?;
        let previous = before.whole.last().map(|last| directory::backup_path(dir, *last));
        let meta = BackupMeta {
            store_id: self.store_id(),
            created_unix_ms: now_unix_ms(),
            // Of the version that the backup gets, below.
            tables: 0,
            store_path: place::resolved(fs, &inner.dir)?,
        };
        inner.fill_backup(&owned_fs, &path, previous.as_deref(), number, Some(meta))
    }

    /// Returns the backups in `dir`, oldest first. A backup with a damaged `BACKUP` file is listed
    /// with that problem.
    ///
    /// # Errors
    /// `NotFound` when the directory does not exist, `InvalidArgument` when it holds anything else
    /// than backups, `Io`.
    pub fn backups(dir: impl AsRef<Path>) -> Result<Vec<BackupInfo>> {
        Db::backups_on(OsFs::shared(), dir)
    }

    /// Does the same as [`Db::backups`], on the given file system.
    #[doc(hidden)]
    pub fn backups_on(fs: Arc<dyn Fs>, dir: impl AsRef<Path>) -> Result<Vec<BackupInfo>> {
        let (fs, dir) = (&*fs, dir.as_ref());
        directory::need(fs, dir)?;
        Backups::read_dir(fs, dir)?.describe(fs)
    }

    /// Removes the oldest backups in `dir` until `keep` are left, and incomplete backups. The
    /// remaining backups do not depend on the removed ones. A crash leaves more backups than
    /// `keep`, each of them complete. The next call removes a backup that was partly removed.
    ///
    /// # Errors
    /// `NotFound` when the directory does not exist; `InvalidArgument` when `keep` is 0 or the
    /// directory holds anything else than backups; `Locked` while another call works in it; `Io`.
    pub fn prune_backups(dir: impl AsRef<Path>, keep: usize) -> Result<PruneReport> {
        Db::prune_backups_on(OsFs::shared(), dir, keep)
    }

    /// Does the same as [`Db::prune_backups`], on the given file system.
    #[doc(hidden)]
    pub fn prune_backups_on(
        fs: Arc<dyn Fs>,
        dir: impl AsRef<Path>,
        keep: usize,
    ) -> Result<PruneReport> {
        let dir = &*absolute(&*fs, dir.as_ref())?;
        directory::need(&*fs, dir)?;
        let fs = &*pinned(&fs, dir)?;
        let found = Backups::read_dir(fs, dir)?;
        if keep == 0 {
            let message = format!(
                "keep at least 1 of {}: the newest backup names the store of the directory; to \
                 remove all backups, remove the directory",
                found.numbers_text()
            );
            return Err(Error::invalid(message).with_path(dir));
        }
        let _lock = directory::lock(fs, dir)?;
        // List again: a backup may have been added before the lock was taken.
        Backups::read_dir(fs, dir)?.prune(fs, keep)
    }

    /// Creates a store in `into`, which must not exist, from the backup `number` in `dir`, or the
    /// newest when `None`. Every table is read back and compared. Returns the backup's number.
    ///
    /// The new store is a separate one, with a new [`Db::store_id`]. Its backups go to another
    /// directory, unless it takes over this one ([`BackupOptions::take_over`]).
    ///
    /// # Errors
    /// `InvalidArgument` when `into` exists, lies inside a store or among the backups, or when the
    /// backup was opened and written to; `NotFound` when there is no such backup; `Corruption` when
    /// the backup is damaged; `NoSpace`; `Io`. No store is left in `into` then.
    pub fn restore(
        dir: impl AsRef<Path>,
        number: Option<u64>,
        into: impl AsRef<Path>,
        options: Options,
    ) -> Result<u64> {
        Db::restore_on(OsFs::shared(), dir, number, into, options)
    }

    /// Does the same as [`Db::restore`], on the given file system.
    #[doc(hidden)]
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
        let found = Backups::read_dir(&*fs, dir)?;
        let number = found.choose(number)?;
        place::refuse_existing(&*fs, into, "the directory to restore into")?;
        place::refuse_inside_a_store(&*fs, into, "the directory to restore into")?;
        place::refuse_among_backups(&*fs, into, dir)?;
        let path = directory::backup_path(dir, number);
        let db = Db::open_read_only_on(fs.clone(), &path, options)?;
        let (forest, _) = db.inner.content();
        let in_logs = db.inner.read_state.load().active_entries() > 0;
        let mark = BackupMeta::read(&*fs, &path)?;
        let other_tables = mark.is_some_and(|mark| mark.tables != tables_checksum(&forest));
        if other_tables || in_logs {
            let message = format!(
                "the backup was opened and written to, so it is now a separate store; restore \
                 another backup: {} holds {}",
                dir.display(),
                found.numbers_text()
            );
            return Err(Error::invalid(message).with_path(&path));
        }
        fs.create_dir(into).map_err(|e| Error::io(into, "create the new directory", e))?;
        let fs = pinned(&db.inner.fs, into)?;
        db.inner.fill_backup(&fs, into, None, number, None).map(|report| report.number)
    }

    /// Returns the store's identity: a random number that the store gets when it is created, and
    /// keeps.
    ///
    /// A checkpoint, a backup and a restored store are separate stores, with other identities. A
    /// copy of the directory made by other means has the identity of its original.
    pub fn store_id(&self) -> u64 {
        self.inner.versions.lock().store_id()
    }
}

fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl DbInner {
    /// Puts the current tables into the new directory `path`, with `meta` for a backup, and makes
    /// it a store. Removes the directory again after an error. `fs` is the store's file system,
    /// with `path` or its parent pinned.
    fn fill_backup(
        &self,
        fs: &Arc<dyn Fs>,
        path: &Path,
        previous: Option<&Path>,
        number: u64,
        meta: Option<BackupMeta>,
    ) -> Result<BackupReport> {
        let mut report =
            BackupReport { number, path: path.to_path_buf(), ..BackupReport::default() };
        let (forest, catalog) = self.content();
        let mut tables = || {
            for from in [Some(&*self.dir), previous].into_iter().flatten() {
                fs.share_keys(Some(from), path)?;
            }
            for (tree, file) in self.files_of(&forest) {
                self.take_table(fs, (&tree, &file), path, previous, &mut report)?;
            }
            for file in self.value_files_of(&forest) {
                let copied = self.back_up_values(&**fs, &file, path, previous)?;
                report.count(copied.is_linked, copied.bytes);
            }
            if let Some(mark) = &meta {
                let tables = tables_checksum(&forest);
                BackupMeta { tables, ..mark.clone() }.write(&**fs, path)?;
            }
            sync_dir(&**fs, path)
        };
        let made = tables()
            .and_then(|()| self.create_manifest(fs, self.edit_of_copy(&forest, catalog), path));
        if let Err(error) = made {
            let _ = directory::remove(&**fs, path);
            return Err(error);
        }
        Ok(report)
    }

    /// Links or copies one table into `path`, and reads it there.
    fn take_table(
        &self,
        owned_fs: &Arc<dyn Fs>,
        (tree, file): (&Tree, &FileMeta),
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
        let is_linked = earlier.is_some_and(|earlier| fs.hard_link(&earlier, &to).is_ok());
        if !is_linked {
            copy(fs, &names::table_path(&self.dir, file.number), &to, bytes)?;
        }
        report.count(is_linked, bytes);
        let source = TableSource {
            fs: owned_fs.clone(),
            path: to.clone(),
            file_number: file.number,
            table_id: file.info.table_id,
            size_bytes: bytes,
            ingested: file.info.ingested,
        };
        if Table::open(source, &tree.tables.config().of_other_file())?.check()? != file.info {
            let message =
                "expected the table that the store's manifest describes, found different content";
            return Err(Error::corruption(&to, 0, message));
        }
        Ok(())
    }
}

/// Copies the first `len` bytes of a file into a new file and syncs it.
pub(super) fn copy(fs: &dyn Fs, from: &Path, to: &Path, len: u64) -> Result<()> {
    let source = fs.open_read(from).map_err(|e| Error::io(from, "open a table", e))?;
    copy_open(fs, (&*source, from), to, len)
}

/// Does the same with an open file.
pub(super) fn copy_open(
    fs: &dyn Fs,
    (source, from): (&dyn ReadableFile, &Path),
    to: &Path,
    len: u64,
) -> Result<()> {
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
