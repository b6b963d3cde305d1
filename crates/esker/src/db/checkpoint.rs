//! Checkpoints: a second store that shares this store's files by hard links.

use std::path::Path;
use std::sync::Arc;

use super::Db;
use super::backup::place::{refuse_existing, refuse_inside_a_store};
use super::state::DbInner;
use crate::base::sync::atomic::Ordering;
use crate::error::{Error, Result};
use crate::fs::{Fs, absolute, parent_of, pinned, sync_dir};
use crate::tree::catalog::CatalogChange;
use crate::tree::edit::VersionEdit;
use crate::tree::forest::Forest;
use crate::tree::names;
use crate::tree::set::VersionSet;

impl Db {
    /// Creates a store in `dir`, which must not exist. It holds everything written before the call,
    /// and possibly some of the writes made during the call. Tables are hard-linked, so the
    /// checkpoint takes no space for them until either store rewrites its own. `dir` must be on the
    /// same file system.
    ///
    /// The checkpoint is a separate store, with another [`Db::store_id`]. A crash during the call
    /// leaves a directory without `CURRENT`, which no open accepts as a store.
    ///
    /// # Errors
    /// `InvalidArgument` when `dir` exists or lies inside a store; `Io` when `dir` cannot be
    /// created or a table cannot be linked into it; the errors of [`Db::flush`].
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        let inner = &self.inner;
        inner.check_writable()?;
        inner.make_store(dir.as_ref(), "the checkpoint's directory", |fs, dir| {
            let (forest, catalog) = inner.content();
            for file in forest.files() {
                let (from, to) = (
                    names::table_path(&inner.dir, file.number),
                    names::table_path(dir, file.number),
                );
                fs.hard_link(&from, &to).map_err(|e| Error::io(&to, "link a table", e))?;
            }
            for file in inner.value_files_of(&forest) {
                inner.link_values(&**fs, &file, dir)?;
            }
            let edit = inner.edit_of_copy(&forest, catalog);
            inner.create_manifest(fs, edit, dir).map(drop)
        })
    }
}

impl DbInner {
    /// Creates the directory `dir`, named `what` in messages, flushes a store that is writable, and
    /// calls `fill`, which makes `dir` a store. Removes the directory again after an error. `fill`
    /// gets the store's file system, with `dir` pinned.
    pub(super) fn make_store<R>(
        &self,
        dir: &Path,
        what: &str,
        fill: impl FnOnce(&Arc<dyn Fs>, &Path) -> Result<R>,
    ) -> Result<R> {
        let fs = &self.fs;
        let dir = &*absolute(&**fs, dir)?;
        refuse_existing(&**fs, dir, what)?;
        refuse_inside_a_store(&**fs, dir, what)?;
        if !self.read_only {
            self.flush()?;
        }
        fs.create_dir(dir).map_err(|e| Error::io(dir, &format!("create {what}"), e))?;
        let fs = &pinned(fs, dir).inspect_err(|_| drop(fs.remove_dir(dir)))?;
        let made = fs.share_keys(Some(&self.dir), dir).and_then(|()| fill(fs, dir));
        if made.is_err() {
            // So that the next attempt finds nothing incomplete.
            for entry in fs.list(dir).unwrap_or_default() {
                let _ = fs.remove(&dir.join(entry.name));
            }
            let _ = fs.remove_dir(dir);
        }
        made
    }

    /// Returns the first edit of a store with the tables of `forest`, of this store's lineage.
    pub(super) fn edit_of_copy(&self, forest: &Forest, catalog: Vec<CatalogChange>) -> VersionEdit {
        let lineage = self.versions.lock().lineage().clone();
        let mut edit = forest.to_edit();
        edit.catalog = catalog;
        edit.last_seqno = Some(self.visible_seqno());
        // A store that applies a feed looks here for whether the last ingest was installed.
        edit.ingested_seqno = forest.files().iter().filter_map(|file| file.info.ingested).max();
        edit.lineage = Some(lineage).filter(|lineage| !lineage.is_empty());
        edit
    }

    /// Makes `dir`, which holds the tables of `edit`, a separate store of the same format version.
    /// Returns its identity.
    pub(super) fn create_manifest(
        &self,
        fs: &Arc<dyn Fs>,
        mut edit: VersionEdit,
        dir: &Path,
    ) -> Result<u64> {
        edit.next_file = Some(self.numbers.load(Ordering::Relaxed));
        let store_id = self.next_id();
        // The version never falls, so it allows all that `edit` has.
        let store = (store_id, self.format());
        VersionSet::create(fs.clone(), dir, self.order.clone(), store, edit)?;
        sync_dir(&**fs, &parent_of(dir))?;
        Ok(store_id)
    }
}
