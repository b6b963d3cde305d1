//! Follows the manifest of a store that another process writes.
//!
//! Invariants:
//! 1. Only what `CURRENT` says is durable is taken over: the writer may cut off what is behind it.
//! 2. Versions change as a whole: after an error they are as before.
//! 3. A file keeps its open table as long as a version names it, also when the writer has begun
//!    another manifest.

use std::path::Path;
use std::sync::Arc;

use super::current::{Current, Slot};
use super::fragment::FileMeta;
use super::manifest::{self, ManifestEnd};
use super::set::VersionSet;
use super::value_files::ValueFiles;
use crate::base::order::KeyOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::Fs;

impl VersionSet {
    /// Reads the versions of a store that another process may write. As [`VersionSet::recover`].
    ///
    /// # Errors
    /// As [`VersionSet::recover`]. Also a missing file or `Corruption` when the writer replaced the
    /// manifest meanwhile: try again.
    pub fn follow(fs: Arc<dyn Fs>, dir: &Path, orders: Vec<KeyOrder>) -> Result<VersionSet> {
        let slot = Current::read(&*fs, dir)?;
        let values = Arc::new(ValueFiles::new(fs.clone(), dir, None));
        read_whole(fs, dir, orders, slot, (values, &[]))
    }

    /// Takes over what the writer has added since the last call. Returns whether that was anything.
    ///
    /// # Errors
    /// `Incompatible` when the directory has another store now, or a keyspace with an unknown key
    /// order; otherwise as [`VersionSet::follow`].
    pub fn catch_up(&mut self) -> Result<bool> {
        let slot = Current::read(&*self.fs, &self.dir)?;
        if slot.store_id != self.store_id {
            let message = "another store has taken the place of the one that was followed";
            return Err(Error::new(ErrorKind::Incompatible, message).with_path(&self.dir));
        }
        let (sequence, end) = self.read_to;
        // While the writer replaces one of the two copies, only the older one can be read.
        if slot.sequence <= sequence {
            return Ok(false);
        }
        if slot.manifest == self.manifest_number {
            if slot.manifest_bytes > end.bytes {
                self.read_behind(slot, end)?;
            }
        } else {
            let known = self.forest.files();
            let orders = self.orders.clone();
            let mut next = read_whole(
                self.fs.clone(),
                &self.dir,
                orders,
                slot,
                (self.values().clone(), &known),
            )?;
            next.set_thresholds(&self.thresholds);
            *self = next;
        }
        self.read_to.0 = slot.sequence;
        Ok(true)
    }

    /// Takes over the edits between `from` and the end that `slot` states.
    fn read_behind(&mut self, slot: Slot, from: ManifestEnd) -> Result<()> {
        let of = (slot.manifest, slot.store_id);
        let (edits, end) =
            manifest::read_behind(&*self.fs, &self.dir, of, from, slot.manifest_bytes)?;
        let mut next = self.copy_for_reading();
        for edit in &edits {
            next.adopt(edit, &[])?;
        }
        next.read_to.1 = end;
        *self = next;
        Ok(())
    }
}

/// Reads the whole manifest that `slot` points to, as far as `slot` says.
fn read_whole(
    fs: Arc<dyn Fs>,
    dir: &Path,
    orders: Vec<KeyOrder>,
    slot: Slot,
    (values, known): (Arc<ValueFiles>, &[Arc<FileMeta>]),
) -> Result<VersionSet> {
    let mut found = manifest::read(&*fs, dir, slot.manifest, slot.store_id, slot.manifest_bytes)?;
    found.cut_to(slot.manifest_bytes);
    VersionSet::of_manifest(fs, dir, orders, slot, &found, (None, values, known))
}
