//! Forks: a writable branch of a store that shares its tables by hard links.
//!
//! A fork is a checkpoint that remembers its parent ([`Lineage`]). [`super::diff`] compares the two
//! and skips the tables that they share.
//!
//! Invariants:
//! 1. The parent is not changed, except that a parent that is open for writing is flushed. No log is
//!    linked, and tables never change, so that no write into one store reaches the other.
//! 2. The fork gets its `CURRENT` last. An incomplete fork is no store.
//! 3. What a read-only parent read from logs becomes tables of the fork alone.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::Db;
use super::backup::copy_open;
use super::state::DbInner;
use super::table_output::level_zero_slice;
use crate::base::keyspace::TreeId;
use crate::error::{Error, Result};
use crate::flush;
use crate::fs::Fs;
use crate::iter::rewrite::RewriteRules;
use crate::metrics::RewriteCounters;
use crate::tree::edit::VersionEdit;
use crate::tree::fragment::FileMeta;
use crate::tree::lineage::{Lineage, check_fork_name};
use crate::tree::names;
use crate::tree::output::OutputConfig;

/// Options of [`Db::fork_with`].
///
/// ```
/// let options = esker::fork::ForkOptions::default().name("before the migration");
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ForkOptions {
    /// Name of the fork, 1 to 255 bytes without control characters. Default: none.
    pub name: Option<String>,
}

impl ForkOptions {
    /// Sets the name of the fork.
    pub fn name(mut self, name: impl Into<String>) -> ForkOptions {
        self.name = Some(name.into());
        self
    }
}

/// Result of [`Db::fork`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForkReport {
    /// Identity of the fork.
    pub store_id: u64,
    /// Number of tables and value files that the fork shares with the parent by hard links.
    pub linked_files: u64,
    /// Size of these files, in bytes.
    pub linked_bytes: u64,
    /// Number of tables and value files copied: the file system of the fork cannot link them, or the
    /// writer of a store that is open read-only has removed them.
    pub copied_files: u64,
    /// Size of these files, in bytes.
    pub copied_bytes: u64,
}

impl ForkReport {
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
    /// Creates a fork of the store in `dir`, which must not exist: a store of its own that begins
    /// with the content of this one. Each of the two can then be written, and no write into one
    /// is visible in the other. [`diff`](crate::diff::diff) compares them.
    ///
    /// The fork holds everything written before the call, and possibly some of the writes made
    /// during it. It has all keyspaces. Tables are hard-linked, so a fork takes time for each file
    /// and not for each byte, and no space until either store rewrites its tables. Where the file
    /// system of `dir` is another one, or has no hard links, tables are copied. Logs are never
    /// shared.
    ///
    /// A store that was opened [read-only](Db::open_read_only) can be forked, also while another
    /// process writes to it. The fork then holds what this handle reads.
    ///
    /// A crash during the call leaves the parent unharmed, and a directory that is a whole fork or
    /// no store. The fork is durable when this returns.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, Options};
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// db.put("price", "10")?;
    /// db.fork(dir.path().join("staging"))?;
    ///
    /// let staging = Db::open(dir.path().join("staging"), Options::default())?;
    /// staging.put("price", "12")?;
    /// assert_eq!(&*db.get("price")?.unwrap(), b"10");
    /// assert_eq!(staging.lineage().parent().unwrap().store_id, db.store_id());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` when `dir` exists or lies inside a store; `Closed`; `NoSpace`;
    /// `Io`; the errors of [`Db::flush`]. Nothing is left in `dir` then.
    pub fn fork(&self, dir: impl AsRef<Path>) -> Result<ForkReport> {
        self.fork_with(dir, &ForkOptions::default())
    }

    /// Does the same as [`Db::fork`], with options.
    ///
    /// # Errors
    /// The same as [`Db::fork`]; `InvalidArgument` for a name that is empty, longer than 255 bytes
    /// or has control characters.
    pub fn fork_with(&self, dir: impl AsRef<Path>, options: &ForkOptions) -> Result<ForkReport> {
        let inner = &self.inner;
        if let Some(name) = &options.name {
            check_fork_name(name)?;
        }
        inner.check_open()?;
        if !inner.read_only {
            inner.check_writable()?;
        }
        inner.make_store(dir.as_ref(), "the fork's directory", |fs, dir| {
            inner.fill_fork(fs, dir, options)
        })
    }

    /// Returns the name of this store and the stores that it descends from, if it is a fork. A
    /// checkpoint, a backup and a restored store have the lineage of their original.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::fork::ForkOptions;
    /// use esker::{Db, Options};
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// assert!(db.lineage().parent().is_none());
    /// db.fork_with(dir.path().join("fork"), &ForkOptions::default().name("try 1"))?;
    /// let fork = Db::open_read_only(dir.path().join("fork"), Options::default())?;
    /// assert_eq!(fork.lineage().name.as_deref(), Some("try 1"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lineage(&self) -> Lineage {
        self.inner.versions.lock().lineage().clone()
    }
}

impl DbInner {
    /// Fills the new directory `dir` with the tables of a fork, and makes it a store.
    fn fill_fork(&self, fs: &Arc<dyn Fs>, dir: &Path, options: &ForkOptions) -> Result<ForkReport> {
        let mut report = ForkReport::default();
        let (forest, catalog, mut seqno, parent) = {
            let versions = self.versions.lock();
            let catalog = versions.catalog().to_changes();
            (versions.current(), catalog, versions.last_seqno(), versions.store_id())
        };
        for file in forest.files() {
            report.count(self.link_or_copy(&**fs, &file, dir)?, file.info.size_bytes);
        }
        for file in self.value_files_of(&forest) {
            let copied = self.link_or_copy_values(&**fs, &file, dir)?;
            report.count(copied.is_linked, copied.bytes);
        }
        let mut edit = self.edit_of_copy(&forest, catalog);
        if self.read_only {
            self.write_memtables(fs, dir, &mut edit)?;
            seqno = self.visible_seqno();
        }
        let lineage = edit.lineage.unwrap_or_default();
        let now_ms = self.rules.clock.now_ms();
        edit.lineage = Some(lineage.of_fork(options.name.clone(), parent, seqno, now_ms));
        report.store_id = self.create_manifest(fs, edit, dir)?;
        Ok(report)
    }

    /// Links a table into the new directory, or copies it where that cannot be. Returns whether it
    /// was linked.
    ///
    /// The writer of a store that is open read-only may have removed the table. Its file is open.
    fn link_or_copy(&self, fs: &dyn Fs, file: &FileMeta, dir: &Path) -> Result<bool> {
        let from = names::table_path(&self.dir, file.number);
        let to = names::table_path(dir, file.number);
        let Err(error) = fs.hard_link(&from, &to) else { return Ok(true) };
        if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            return Err(Error::io(&to, "link a table", error));
        }
        let source = match file.opened().and_then(|table| table.file.clone()) {
            Some(source) => source,
            None => fs.open_read(&from).map_err(|e| Error::io(&from, "open a table", e))?,
        };
        copy_open(fs, (&*source, &from), &to, file.info.size_bytes).map(|()| false)
    }

    /// Writes the memtables as tables in `dir` and adds these to `edit`, as the newest runs of level
    /// 0. The store is open read-only. Its memtables do not change, unless it is a view of a follower
    /// that catches up.
    fn write_memtables(&self, fs: &Arc<dyn Fs>, dir: &Path, edit: &mut VersionEdit) -> Result<()> {
        let state = self.read_state.load();
        for tree in self.trees().iter() {
            let of_tree =
                if tree.id == 0 { Some(&*state) } else { state.other(tree.id).map(|s| &**s) };
            let memtables: Vec<_> = of_tree.iter().flat_map(|state| state.memtables()).collect();
            for memtable in memtables.into_iter().rev().filter(|memtable| !memtable.is_empty()) {
                let mut config = self.output_config(tree, 0);
                let read = config.read.of_other_file();
                let (fs, dir) = (fs.clone(), dir.to_path_buf());
                config = OutputConfig { fs, dir, read, opened: None, ..config };
                let rules = RewriteRules {
                    snapshots: Vec::new(),
                    now_ms: self.rules.clock.now_ms(),
                    live: self.live_keys(tree.id),
                    filter_level: None,
                    values: None,
                    counters: &RewriteCounters::default(),
                };
                let files = flush::write_tables(memtable, &tree.order, rules, config)?;
                let order = next_order(edit, tree.id);
                let slices = files.into_iter().map(|file| level_zero_slice(file, order));
                edit.tree_mut(tree.id).added.extend(slices);
                if memtable.seqno_range().is_some_and(|(_, last)| last > self.visible_seqno()) {
                    let message = "the follower caught up and its memtables have grown beyond this \
                                   view; fork its newest view while it does not catch up";
                    return Err(
                        Error::new(crate::error::ErrorKind::Busy, message).with_path(&self.dir)
                    );
                }
            }
        }
        Ok(())
    }
}

/// Returns the age of a run that is newer than all of `tree`.
fn next_order(edit: &mut VersionEdit, tree: TreeId) -> u64 {
    let ages = edit.tree_mut(tree).added.iter().map(|slice| slice.order);
    ages.max().map_or(1, |newest| newest.saturating_add(1))
}
