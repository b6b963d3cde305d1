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
        let fs = &inner.fs;
        inner.check_writable()?;
        let dir = &*absolute(&**fs, dir.as_ref())?;
        refuse_existing(&**fs, dir, "the checkpoint's directory")?;
        refuse_inside_a_store(&**fs, dir, "the checkpoint's directory")?;
        inner.flush()?;
        fs.create_dir(dir).map_err(|e| Error::io(dir, "create the checkpoint's directory", e))?;
        let fs = &pinned(fs, dir).inspect_err(|_| drop(fs.remove_dir(dir)))?;
        let made = self.fill_checkpoint(fs, dir);
        if made.is_err() {
            // So that the next attempt finds no incomplete checkpoint.
            for entry in fs.list(dir).unwrap_or_default() {
                let _ = fs.remove(&dir.join(entry.name));
            }
            let _ = fs.remove_dir(dir);
        }
        made
    }

    /// Links the tables into `dir`. `fs` is the store's file system, with `dir` pinned.
    fn fill_checkpoint(&self, fs: &Arc<dyn Fs>, dir: &Path) -> Result<()> {
        let inner = &self.inner;
        let (forest, catalog) = inner.content();
        for file in forest.files() {
            let (from, to) =
                (names::table_path(&inner.dir, file.number), names::table_path(dir, file.number));
            fs.hard_link(&from, &to).map_err(|e| Error::io(&to, "link a table", e))?;
        }
        inner.create_manifest(fs, &forest, catalog, dir)
    }
}

impl DbInner {
    /// Makes `dir`, which holds the tables of `forest`, a separate store.
    pub(super) fn create_manifest(
        &self,
        fs: &Arc<dyn Fs>,
        forest: &Forest,
        catalog: Vec<CatalogChange>,
        dir: &Path,
    ) -> Result<()> {
        let mut edit = forest.to_edit();
        edit.catalog = catalog;
        edit.last_seqno = Some(self.visible_seqno());
        edit.next_file = Some(self.numbers.load(Ordering::Relaxed));
        VersionSet::create(fs.clone(), dir, self.order.clone(), self.next_id(), edit)?;
        sync_dir(&**fs, &parent_of(dir))
    }
}
