//! A second store that shares this one's files by hard links.

use std::path::Path;

use super::Db;
use super::backup::place::{refuse_existing, refuse_inside_a_store};
use super::state::Inner;
use crate::base::sync::atomic::Ordering;
use crate::error::{Error, Result};
use crate::fs::{parent_of, sync_dir};
use crate::tree::names;
use crate::tree::set::VersionSet;
use crate::tree::version::Version;

impl Db {
    /// Makes a store in `dir`, which must not exist, holding everything written before the call
    /// (and perhaps some of what is written during it). Tables are hard-linked: it takes no space
    /// until either store rewrites its own. `dir` must be on the same file system.
    ///
    /// It is a store of its own, with another [`Db::store_id`]. A crash halfway leaves a directory
    /// without `CURRENT`, which no open takes for a store.
    ///
    /// # Errors
    /// `InvalidArgument` when `dir` exists or lies inside a store; `Io` when it cannot be made or linked into.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        let dir = dir.as_ref();
        let inner = &self.inner;
        let fs = &inner.fs;
        refuse_existing(&**fs, dir, "the checkpoint's directory")?;
        refuse_inside_a_store(&**fs, dir, "the checkpoint's directory")?;
        inner.flush()?;
        fs.create_dir(dir).map_err(|e| Error::io(dir, "create the checkpoint's directory", e))?;
        let made = self.fill_checkpoint(dir);
        if made.is_err() {
            // So that the next try finds no half of one.
            for entry in fs.list(dir).unwrap_or_default() {
                let _ = fs.remove(&dir.join(entry.name));
            }
            let _ = fs.remove_dir(dir);
        }
        made
    }

    fn fill_checkpoint(&self, dir: &Path) -> Result<()> {
        let inner = &self.inner;
        let fs = &inner.fs;
        let version = inner.view.load().version.clone();
        for file in version.files() {
            let (from, to) =
                (names::table_path(&inner.dir, file.number), names::table_path(dir, file.number));
            fs.hard_link(&from, &to).map_err(|e| Error::io(&to, "link a table", e))?;
        }
        inner.name_tables(&version, dir)
    }
}

impl Inner {
    /// Makes `dir`, which holds the tables of `version`, a store of its own.
    pub(super) fn name_tables(&self, version: &Version, dir: &Path) -> Result<()> {
        let fs = &self.fs;
        let mut edit = version.to_edit();
        edit.last_seqno = Some(self.visible_seqno());
        edit.next_file = Some(self.numbers.load(Ordering::Relaxed));
        VersionSet::create(fs.clone(), dir, self.order.clone(), self.next_id(), edit)?;
        sync_dir(&**fs, &parent_of(dir))
    }
}
