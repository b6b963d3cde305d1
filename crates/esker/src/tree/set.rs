//! The versions of an open store: the current version, its manifest, and the counters for new
//! numbers.
//!
//! Invariants: an edit is durable before its version is published. After a failure of the manifest
//! no further edit is accepted until the store is opened again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalog::{Catalog, CatalogChange};
use super::current::{Current, Slot};
use super::edit::VersionEdit;
use super::forest::Forest;
use super::fragment::FileMeta;
use super::lineage::Lineage;
use super::manifest::{self, ManifestWriter};
use super::names;
use super::purge::Purger;
use super::value_files::ValueFiles;
use crate::base::format_version::FormatVersion;
use crate::base::key::{SEQNO_MAX, SeqNo};
use crate::base::keyspace::stored_order;
use crate::base::order::KeyOrder;
use crate::base::thresholds::Thresholds;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, fork};

/// Default minimum length in bytes at which a manifest is rewritten. It is rewritten only if it is
/// also more than twice its content.
const REWRITE_BYTES_MIN: u64 = 1 << 20;

/// The write state. Absent in a store opened read-only.
struct Writer {
    manifest: ManifestWriter,
    current: Current,
    content_bytes: u64,
    failed: Option<Error>,
}

impl Writer {
    fn check_sound(&self) -> Result<()> {
        let Some(error) = &self.failed else { return Ok(()) };
        let message = format!(
            "an earlier write to the manifest failed ({error}); close the store and open it again"
        );
        Err(Error::new(ErrorKind::ReadOnly, message))
    }
}

/// Adds the trees that `edit` adds to the catalog.
///
/// # Errors
/// `Incompatible` when `orders` lacks the key order of a tree.
fn add_trees(
    forest: &mut Forest,
    edit: &VersionEdit,
    orders: &[KeyOrder],
    thresholds: &Thresholds,
) -> Result<()> {
    for change in &edit.catalog {
        if let CatalogChange::AddTree(tree) = change {
            let order = KeyOrder::by_name(&tree.order, orders).ok_or_else(|| {
                let message = format!(
                    "the store has a keyspace with keys ordered by {}, and `Options::key_orders` \
                     has no order of this name",
                    tree.order
                );
                Error::new(ErrorKind::Incompatible, message)
            })?;
            forest.add_tree(stored_order(&order), thresholds);
        }
    }
    Ok(())
}

/// The versions of an open store.
pub struct VersionSet {
    pub(super) fs: Arc<dyn Fs>,
    pub(super) dir: PathBuf,
    pub(super) store_id: u64,
    format: FormatVersion,
    lineage: Lineage,
    purger: Option<Arc<Purger>>,
    values: Arc<ValueFiles>,
    pub(super) forest: Arc<Forest>,
    catalog: Catalog,
    /// The key order of tree 0, then the orders that other trees may have.
    pub(super) orders: Vec<KeyOrder>,
    pub(super) thresholds: Thresholds,
    writer: Option<Writer>,
    pub(super) manifest_number: u64,
    /// Number of the next manifest.
    next_manifest: u64,
    /// Whether the next edit writes a new manifest and a new `CURRENT`.
    renew: bool,
    rewrite_bytes_min: u64,
    numbers: Numbers,
    /// The switch of `CURRENT` that was read, and how far the manifest was read.
    pub(super) read_to: (u64, manifest::ManifestEnd),
}

#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    next_file: u64,
    next_order: u64,
    last_seqno: SeqNo,
    ingested_seqno: SeqNo,
    min_wal: u64,
    min_wal_ordinal: u64,
    newest_wal: u64,
    closed_wal: (u64, u64),
}

impl Numbers {
    fn take(&mut self, edit: &VersionEdit) {
        let raise = |slot: &mut u64, value: Option<u64>| *slot = (*slot).max(value.unwrap_or(0));
        raise(&mut self.next_file, edit.next_file);
        raise(&mut self.next_order, edit.next_order);
        raise(&mut self.last_seqno, edit.last_seqno);
        raise(&mut self.ingested_seqno, edit.ingested_seqno);
        raise(&mut self.min_wal, edit.min_wal);
        raise(&mut self.min_wal_ordinal, edit.min_wal_ordinal);
        raise(&mut self.newest_wal, edit.newest_wal);
        self.closed_wal = edit.closed_wal.unwrap_or(self.closed_wal);
        let others = edit.others.iter().flat_map(|(_, edit)| &edit.added);
        for added in edit.added.iter().chain(others) {
            self.next_order = self.next_order.max(added.order.saturating_add(1));
        }
    }

    fn put(&self, edit: &mut VersionEdit) {
        edit.next_file = Some(self.next_file);
        edit.next_order = Some(self.next_order);
        edit.last_seqno = Some(self.last_seqno);
        edit.ingested_seqno = Some(self.ingested_seqno).filter(|seqno| *seqno > 0);
        edit.min_wal = Some(self.min_wal);
        edit.min_wal_ordinal = Some(self.min_wal_ordinal);
        edit.newest_wal = Some(self.newest_wal);
        edit.closed_wal =
            Some(self.closed_wal).filter(|(number, _)| *number >= self.min_wal.max(1));
    }

    /// Returns an error if no file numbers are left. `manifest` has the numbers.
    fn check(&self, manifest: &Path) -> Result<()> {
        if self.next_file <= names::NUMBER_MAX - names::UNKNOWN_MAX {
            return Ok(());
        }
        let message = format!(
            "the manifest names file number {}, which exceeds the largest possible number; \
             `repair` creates a new manifest",
            self.next_file
        );
        Err(Error::corruption(manifest, 0, message))
    }
}

/// Returns the number of the next manifest, after that of the `current` one. An unused manifest may
/// exist under the number after it.
fn next_manifest_number(fs: &dyn Fs, dir: &Path, current: u64) -> Result<u64> {
    let entries = fs.list(dir).map_err(|e| Error::io(dir, "list the directory", e))?;
    let used = entries.iter().filter_map(|e| names::parse_manifest(&e.name));
    let used = used.filter(|number| names::is_reached(*number, current)).max();
    Ok(used.unwrap_or(0).max(current) + 1)
}

impl VersionSet {
    /// Creates the manifest of a store with this identity and format version and, as the last step,
    /// its `CURRENT`.
    pub fn create(
        fs: Arc<dyn Fs>,
        dir: &Path,
        order: KeyOrder,
        (store_id, format): (u64, FormatVersion),
        mut content: VersionEdit,
    ) -> Result<()> {
        let number = content.next_file.unwrap_or(1);
        content.next_file = Some(number + 1);
        content.comparator = Some(order.name().to_string());
        let manifest = ManifestWriter::create(&*fs, dir, number, (store_id, format), &content)?;
        let manifest_bytes = manifest.len_bytes();
        let slot = Slot { format, sequence: 0, store_id, manifest: number, manifest_bytes };
        Current::create(&*fs, dir, slot).map(drop)
    }

    /// Reads the store's manifest and rebuilds the current versions. `orders` has the key order of
    /// the store, then the orders that its keyspaces may have.
    ///
    /// # Errors
    /// `Incompatible` for another or an unknown key order or a newer format version, `Corruption`,
    /// `Io`.
    pub fn recover(
        fs: Arc<dyn Fs>,
        dir: &Path,
        orders: Vec<KeyOrder>,
        read_only: bool,
    ) -> Result<VersionSet> {
        let slot = Current::read(&*fs, dir)?;
        let found = manifest::read(&*fs, dir, slot.manifest, slot.store_id, slot.manifest_bytes)
            .map_err(|e| e.missing_as_corruption("CURRENT"))?;
        let purger = (!read_only).then(|| {
            let process = fork::process();
            Arc::new(Purger::new(fs.clone(), dir.to_path_buf(), process))
        });
        let values = Arc::new(ValueFiles::new(fs.clone(), dir, purger.clone()));
        let mut set =
            VersionSet::of_manifest(fs, dir, orders, slot, &found, (purger, values, &[]))?;
        if !read_only {
            let manifest = ManifestWriter::resume(&*set.fs, dir, &found)?;
            let current = Current::open(&*set.fs, dir, slot)?;
            let content_bytes = found.edits.first().map_or(0, |e| e.encode().len() as u64);
            set.writer = Some(Writer { manifest, current, content_bytes, failed: None });
        }
        Ok(set)
    }

    /// Rebuilds the versions from what `slot` points to. The files share the open tables of `known`,
    /// sorted by number.
    pub(super) fn of_manifest(
        fs: Arc<dyn Fs>,
        dir: &Path,
        orders: Vec<KeyOrder>,
        slot: Slot,
        found: &manifest::Manifest,
        (purger, values, known): (Option<Arc<Purger>>, Arc<ValueFiles>, &[Arc<FileMeta>]),
    ) -> Result<VersionSet> {
        if found.format != slot.format {
            let message = format!(
                "expected the manifest of a store with format version {}, found version {}",
                slot.format.number(),
                found.format.number()
            );
            return Err(Error::corruption(&names::manifest_path(dir, slot.manifest), 0, message));
        }
        let mut set = VersionSet {
            store_id: slot.store_id,
            format: slot.format,
            lineage: Lineage::default(),
            purger,
            values,
            forest: Arc::new(Forest::empty(orders[0].clone())),
            catalog: Catalog::default(),
            orders,
            thresholds: Thresholds::default(),
            writer: None,
            manifest_number: slot.manifest,
            next_manifest: next_manifest_number(&*fs, dir, slot.manifest)?,
            renew: false,
            rewrite_bytes_min: REWRITE_BYTES_MIN,
            numbers: Numbers { next_file: slot.manifest + 1, ..Numbers::default() },
            read_to: (slot.sequence, found.end()),
            dir: dir.to_path_buf(),
            fs,
        };
        for edit in &found.edits {
            set.adopt(edit, known)?;
        }
        set.numbers.check(&names::manifest_path(dir, slot.manifest))?;
        Ok(set)
    }

    /// Takes over an edit that is in the manifest. After an error only a part of it was.
    pub(super) fn adopt(&mut self, edit: &VersionEdit, known: &[Arc<FileMeta>]) -> Result<()> {
        let path = names::manifest_path(&self.dir, self.manifest_number);
        if let Some(lineage) = &edit.lineage {
            self.lineage = lineage.clone();
        }
        let order = self.orders[0].name();
        if let Some(name) = edit.comparator.as_deref().filter(|name| *name != order) {
            let message = format!("expected keys ordered by {name}, opened with {order}");
            return Err(Error::new(ErrorKind::Incompatible, message).with_path(&self.dir));
        }
        self.catalog.apply(&edit.catalog).map_err(|e| e.with_path(&path))?;
        let forest = Arc::make_mut(&mut self.forest);
        add_trees(forest, edit, &self.orders, &self.thresholds)
            .map_err(|e| e.with_path(&self.dir))?;
        let (purger, values) = (&self.purger, &self.values);
        let make = |number, info: &crate::table::TableInfo| {
            let file = FileMeta::new(number, info.clone(), purger.clone()).with_values(values);
            if let Ok(at) = known.binary_search_by_key(&number, |file| file.number) {
                file.share_table(&known[at]);
            }
            file
        };
        *forest = forest.after(edit, make).map_err(|e| e.with_path(&path))?;
        self.numbers.take(edit);
        Ok(())
    }

    /// Returns a copy for reading. It never writes, and removes no file.
    pub fn copy_for_reading(&self) -> VersionSet {
        VersionSet {
            fs: self.fs.clone(),
            dir: self.dir.clone(),
            store_id: self.store_id,
            format: self.format,
            lineage: self.lineage.clone(),
            purger: None,
            values: self.values.clone(),
            forest: self.forest.clone(),
            catalog: self.catalog.clone(),
            orders: self.orders.clone(),
            thresholds: self.thresholds,
            writer: None,
            manifest_number: self.manifest_number,
            next_manifest: self.next_manifest,
            renew: false,
            rewrite_bytes_min: self.rewrite_bytes_min,
            numbers: self.numbers,
            read_to: self.read_to,
        }
    }

    /// Makes the next edit write a new manifest and a new `CURRENT`, because the durability of the
    /// present ones is unknown.
    pub fn renew(&mut self) {
        self.renew = true;
    }

    /// Returns an error if the manifest has failed.
    pub fn check_sound(&self) -> Result<()> {
        self.writer.as_ref().map_or(Ok(()), Writer::check_sound)
    }

    /// Sets the length in bytes beyond which the manifest is rewritten, once it is twice its
    /// content.
    pub fn rewrite_beyond(&mut self, bytes: u64) {
        self.rewrite_bytes_min = bytes;
    }

    /// Sets the thresholds of the current version and of all later ones.
    pub fn set_thresholds(&mut self, thresholds: &Thresholds) {
        self.thresholds = *thresholds;
        Arc::make_mut(&mut self.forest).set_thresholds(thresholds);
    }

    /// Returns the store's identity.
    pub fn store_id(&self) -> u64 {
        self.store_id
    }

    /// Returns the store's format version.
    pub fn format(&self) -> FormatVersion {
        self.format
    }

    /// Returns the store's lineage.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Returns the current versions.
    pub fn current(&self) -> Arc<Forest> {
        self.forest.clone()
    }

    /// Returns the keyspaces and their trees.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the purger of the store's files. `None` in a store opened read-only.
    pub fn purger(&self) -> Option<Arc<Purger>> {
        self.purger.clone()
    }

    /// Returns the value files of the store.
    pub fn values(&self) -> &Arc<ValueFiles> {
        &self.values
    }

    /// Makes `edit` durable and its versions current.
    ///
    /// # Errors
    /// `Corruption` when the edit breaks an invariant; nothing was changed. `NoSpace`; nothing was
    /// changed, and the caller can retry. `Io`. After an `Io` error every later call returns
    /// `ReadOnly`.
    pub fn apply(&mut self, edit: VersionEdit) -> Result<Arc<Forest>> {
        let undo = self.catalog.apply(&edit.catalog)?;
        self.apply_in_catalog(&edit).inspect_err(|_| self.catalog.undo(undo))
    }

    /// Same, after the catalog was changed.
    fn apply_in_catalog(&mut self, edit: &VersionEdit) -> Result<Arc<Forest>> {
        let (purger, values) = (self.purger.clone(), self.values.clone());
        let make = |number, info: &crate::table::TableInfo| {
            FileMeta::new(number, info.clone(), purger.clone()).with_values(&values)
        };
        let mut grown = Forest::clone(&self.forest);
        add_trees(&mut grown, edit, &self.orders, &self.thresholds)?;
        let next = Arc::new(grown.after(edit, make)?);
        let mut numbers = self.numbers;
        numbers.take(edit);
        self.write(edit, &next, &numbers)?;
        self.numbers = numbers;
        if edit.changes_tree() || !edit.others.is_empty() {
            let live = next.files();
            for file in self.forest.files() {
                if live.binary_search_by_key(&file.number, |f| f.number).is_err() {
                    file.mark_obsolete();
                }
            }
        }
        self.forest = next.clone();
        Ok(next)
    }

    fn write(&mut self, edit: &VersionEdit, next: &Forest, numbers: &Numbers) -> Result<()> {
        let Some(writer) = self.writer.as_mut() else {
            let message = "the store was opened read-only";
            return Err(Error::new(ErrorKind::ReadOnly, message).with_path(&self.dir));
        };
        writer.check_sound()?;
        let len = writer.manifest.len_bytes();
        let grown = len > self.rewrite_bytes_min && len > 2 * writer.content_bytes;
        if grown || self.renew || writer.current.is_worn() {
            return self.rewrite(next, numbers);
        }
        if let Err(error) = writer.manifest.append(edit) {
            let again = error.kind() == ErrorKind::NoSpace && writer.manifest.cut_back().is_ok();
            if !again {
                writer.failed = Some(error.clone());
            }
            return Err(error);
        }
        let len = writer.manifest.len_bytes();
        if let Err(error) = writer.current.switch(self.manifest_number, len) {
            writer.failed = Some(error.clone());
            return Err(error);
        }
        Ok(())
    }

    /// Writes all of `next` to a new manifest and points `CURRENT` to it.
    fn rewrite(&mut self, next: &Forest, numbers: &Numbers) -> Result<()> {
        let (fs, dir) = (&*self.fs, &self.dir);
        let Some(writer) = self.writer.as_mut() else { return Ok(()) };
        let mut content = next.to_edit();
        content.comparator = Some(next.main().order().name().to_string());
        content.catalog = self.catalog.to_changes();
        content.lineage = Some(self.lineage.clone()).filter(|lineage| !lineage.is_empty());
        numbers.put(&mut content);
        let number = self.next_manifest;
        self.next_manifest += 1;
        let path = names::manifest_path(dir, number);
        let store = (self.store_id, self.format);
        let made = ManifestWriter::create(fs, dir, number, store, &content)
            .inspect_err(|_| drop(fs.remove(&path)))?;
        let switched = if self.renew || writer.current.is_worn() {
            let sequence = writer.current.sequence() + 1;
            let ((store_id, format), manifest_bytes) = (store, made.len_bytes());
            let slot = Slot { format, sequence, store_id, manifest: number, manifest_bytes };
            Current::create(fs, dir, slot).map(|current| writer.current = current)
        } else {
            writer.current.switch(number, made.len_bytes())
        };
        if let Err(error) = switched {
            writer.failed = Some(error.clone());
            return Err(error);
        }
        let old = std::mem::replace(&mut writer.manifest, made);
        writer.content_bytes = writer.manifest.len_bytes();
        (self.manifest_number, self.renew) = (number, false);
        let _ = fs.remove(&names::manifest_path(dir, old.number()));
        Ok(())
    }

    /// Raises the format version to `to`: writes a new manifest and a new `CURRENT`, which both state
    /// it. The rename of `CURRENT` decides.
    ///
    /// # Errors
    /// As [`VersionSet::apply`]. After an error of `CURRENT` the store may have either version, and
    /// every later call returns `ReadOnly`.
    pub fn upgrade(&mut self, to: FormatVersion) -> Result<()> {
        self.check_sound()?;
        let (next, numbers) = (self.forest.clone(), self.numbers);
        let before = (self.format, self.renew);
        (self.format, self.renew) = (to, true);
        let written = self.rewrite(&next, &numbers);
        written.inspect_err(|_| (self.format, self.renew) = before)
    }

    /// Allocates the age of the next run.
    pub fn allocate_order(&mut self) -> u64 {
        self.numbers.next_order = self.numbers.next_order.max(1) + 1;
        self.numbers.next_order - 1
    }

    /// Returns a file number that no file has.
    pub fn next_file_number(&self) -> u64 {
        self.numbers.next_file.max(self.manifest_number + 1)
    }

    /// Returns the largest sequence number in the tables and of all ingests, or 0. After an ingest it
    /// may be above [`VersionSet::last_seqno`]: the logs may hold older operations that no table has.
    pub fn newest_in_tables(&self) -> SeqNo {
        // A damaged manifest may contain any number.
        let sound = |seqno: &SeqNo| *seqno < SEQNO_MAX - (1 << 34);
        let files = self.forest.files();
        let in_tables = files.iter().map(|file| file.info.seqno_max);
        in_tables.chain([self.numbers.ingested_seqno]).filter(sound).max().unwrap_or(0)
    }

    /// Returns the largest sequence number of an ingest, or 0.
    pub fn ingested_seqno(&self) -> SeqNo {
        self.numbers.ingested_seqno
    }

    /// Returns a sequence number up to which every operation of a log is in tables.
    pub fn last_seqno(&self) -> SeqNo {
        self.numbers.last_seqno
    }

    /// Returns the smallest WAL number that is still needed. The WAL with this number must exist,
    /// unless the number is 0.
    pub fn min_wal(&self) -> u64 {
        self.numbers.min_wal
    }

    /// Returns the ordinal of the first record of the WAL `min_wal`, if there is such a WAL.
    pub fn min_wal_ordinal(&self) -> Option<u64> {
        (self.numbers.min_wal > 0).then_some(self.numbers.min_wal_ordinal)
    }

    /// Returns the number of the last closed WAL, and the bytes of records that it must hold.
    pub fn closed_wal(&self) -> (u64, u64) {
        self.numbers.closed_wal
    }

    /// Returns the number of a WAL that must exist, unless the number is 0.
    pub fn newest_wal(&self) -> u64 {
        self.numbers.newest_wal
    }

    /// Returns the number of the manifest in use.
    pub fn manifest_number(&self) -> u64 {
        self.manifest_number
    }
}
