//! Ingests: tables that were made outside of the store become part of it, all of them at once.
//!
//! * [`sorted_writer`]: makes a table file outside of a store.
//! * [`files`]: checks such files and brings them into the directory of the store.
//! * [`bulk_load`]: writes sorted pairs as tables of the store.
//! * [`put_reader`]: writes one value from a reader, as an ingest of one table and one value file.
//! * [`install`]: makes tables in the directory part of the store.
//!
//! The tables have no sequence numbers of their own. An ingest gives all their entries one number
//! (`docs/decisions/0042-ingest.md`).

mod bulk_load;
mod files;
mod install;
mod put_reader;
mod sorted_writer;

use std::path::Path;
use std::sync::Arc;

use super::Db;
use super::keyspace::{Keyspace, Own};
use super::state::DbInner;
use super::tree::Tree;
use crate::base::keyspace_rules::KeyspaceRules;
use crate::error::{Error, Result};
use crate::metrics::LEVELS;
use crate::table::External;
use crate::tree::output::OutputConfig;

pub(in crate::db) use bulk_load::SortedLoad;

pub use sorted_writer::{SortedFile, SortedWriter};

/// Options of one ingest.
///
/// ```
/// let options = esker::ingest::IngestOptions::default().copy(true);
/// assert!(options.verify);
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct IngestOptions {
    /// Whether the files stay where they are, and the store gets copies. Otherwise the store takes
    /// them: it links them into its directory and removes their old names. On another file system it
    /// copies them and removes the originals. Default: `false`.
    pub copy: bool,
    /// Whether each file is read and checked as a whole first, at about the speed of a scan. Without
    /// it, damage is found when a read meets it, or by [`Db::verify`]. Default: `true`.
    pub verify: bool,
}

impl Default for IngestOptions {
    fn default() -> IngestOptions {
        IngestOptions { copy: false, verify: true }
    }
}

impl IngestOptions {
    /// Sets whether the files stay where they are.
    pub fn copy(mut self, copy: bool) -> IngestOptions {
        self.copy = copy;
        self
    }

    /// Sets whether each file is checked as a whole first.
    pub fn verify(mut self, verify: bool) -> IngestOptions {
        self.verify = verify;
        self
    }
}

/// What an ingest or a bulk load did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestReport {
    /// The sequence number of all entries; 0 if there was none.
    pub seqno: u64,
    /// Number of tables that were installed.
    pub files: u64,
    /// Number of entries in them.
    pub entries: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Number of tables in each level.
    pub levels: [u64; LEVELS],
    /// Whether the call made the active memtable immutable and waited for its flush, because it was not
    /// empty. What was written before an ingest is in tables when the ingest is.
    pub flushed: bool,
}

/// The keyspace of an ingest.
struct Destination<'a> {
    inner: &'a Arc<DbInner>,
    /// `None`: the default keyspace.
    own: Option<&'a Own>,
}

impl<'a> Destination<'a> {
    /// Returns the destination of a call of the default keyspace.
    fn main(db: &'a Db) -> Result<Destination<'a>> {
        Destination { inner: &db.inner, own: None }.checked()
    }

    /// Returns the destination of a call of a keyspace.
    fn of(keyspace: &'a Keyspace) -> Result<Destination<'a>> {
        Destination { inner: &keyspace.db.inner, own: keyspace.own()? }.checked()
    }

    /// Refuses early what the installation would refuse.
    fn checked(self) -> Result<Destination<'a>> {
        self.inner.check_writable()?;
        Ok(self)
    }

    fn tree(&self) -> Arc<Tree> {
        self.own.map_or_else(|| self.inner.trees()[0].clone(), |own| own.tree.clone())
    }

    fn rules(&self) -> &KeyspaceRules {
        self.own.map_or(&self.inner.rules, |own| &own.state.rules)
    }

    /// Returns the name of the keyspace, for messages.
    fn name(&self) -> Arc<str> {
        let name = crate::tree::catalog::DEFAULT_KEYSPACE;
        self.own.map_or_else(|| Arc::from(name), |own| own.state.name())
    }

    /// Returns the configuration for writing tables of this destination that get their sequence
    /// number later.
    fn output_config(&self, external: External) -> OutputConfig {
        let tree = self.tree();
        let mut config = self.inner.output_config(&tree, LEVELS - 1);
        config.table.external = Some(external);
        // The blocks that a check could leave in the cache would have no sequence number yet.
        config.opened = None;
        // The file must not depend on others.
        config.values.separated_min_bytes = None;
        let limits = tree.limits(self.inner.sizes.load().memtable_bytes);
        if let Some(guard_bytes) = limits.split_guard_bytes() {
            config.file_size_max_bytes = config.file_size_max_bytes.min(guard_bytes);
        }
        config
    }
}

impl Db {
    /// Makes files that [`SortedWriter`] wrote part of the store, all of them at once.
    ///
    /// Their entries become the newest versions of their keys, under one sequence number. Readers
    /// see all of them or none; a [`Snapshot`](crate::Snapshot) that was taken before sees none. A
    /// transaction that is open and has read or written one of the keys gets a conflict, as after
    /// any other write. Nothing goes through the log, and the files are neither read again nor
    /// rewritten: each takes the deepest level in which nothing newer is above it.
    ///
    /// In a store with [slots](Db::subscribe) the ingest is in the change feed, where it happened: see
    /// [`ChangeBatch::continues`](crate::feed::ChangeBatch::continues). Until every slot has confirmed it,
    /// its tables are kept as they were, under second names, and count for the limit of a slot's lag.
    ///
    /// The call waits for no compaction. If something was written since the last flush, the
    /// call flushes it and waits for that one flush, and for flushes that were already due. Writers
    /// wait meanwhile; [`Db::stall`] says why.
    ///
    /// When the call returns, the files and every write before them are durable. A crash during the
    /// call leaves either all of them in the store or none. If it leaves none, the files are still in
    /// their old place.
    ///
    /// A file belongs to the store from then on. The same file can be ingested again, or into another
    /// store, with [`IngestOptions::copy`].
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::ingest::{IngestOptions, SortedWriter};
    /// use esker::{Db, Options};
    /// let options = Options::default();
    /// let file = dir.path().join("fruit.sst");
    /// let mut writer = SortedWriter::create(&file, &options)?;
    /// writer.put("apple", "red")?;
    /// writer.put("banana", "yellow")?;
    /// writer.finish()?;
    /// let db = Db::open(dir.path().join("db"), options)?;
    /// let report = db.ingest(&[&file], &IngestOptions::default())?;
    /// assert_eq!(report.entries, 2);
    /// assert_eq!(&*db.get("banana")?.unwrap(), b"yellow");
    /// assert!(!file.exists());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Nothing is changed after any of these, except `Io` while the manifest is written, and `Io` or
    /// `NoSpace` while a store with slots logs the ingest: then the store refuses writes, and the
    /// ingest may be in the store when it is opened again.
    /// * `InvalidArgument`: two files share keys, a file was given twice, is inside of a store, was
    ///   not made by a [`SortedWriter`], or has operands of another merge operator.
    /// * `Incompatible`: a file has another key order, or is of a newer version.
    /// * `Corruption`: a file is damaged, or was not finished.
    /// * `Io`, `NoSpace`; `ReadOnly`, `Closed`.
    pub fn ingest<P: AsRef<Path>>(
        &self,
        files: &[P],
        options: &IngestOptions,
    ) -> Result<IngestReport> {
        Destination::main(self)?.ingest(files, options)
    }

    /// Writes sorted pairs as tables of the store, without the log and the memtable, and makes them
    /// visible at once when `pairs` ends.
    ///
    /// The keys must be strictly ascending in the key order of the store. The pairs become visible
    /// and durable together, as by [`Db::ingest`], and under the same rules. Until then they take
    /// space in the directory of the store; a crash or an error removes them. The memory that the
    /// call needs does not depend on the number of pairs.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// let squares = (0..1000u64).map(|n| (n.to_be_bytes(), (n * n).to_string()));
    /// let report = db.bulk_load(squares)?;
    /// assert_eq!(report.entries, 1000);
    /// assert_eq!(&*db.get(25u64.to_be_bytes())?.unwrap(), b"625");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a key that is not after the one before it, or too long; otherwise as
    /// [`Db::ingest`]. Nothing is changed then.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        self.try_bulk_load(pairs.into_iter().map(Ok::<_, Error>))
    }

    /// Does the same as [`Db::bulk_load`] for pairs whose source can fail. After the first error
    /// nothing is changed, and the error is returned.
    pub fn try_bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>, E: From<Error>>(
        &self,
        pairs: impl IntoIterator<Item = std::result::Result<(K, V), E>>,
    ) -> std::result::Result<IngestReport, E> {
        Destination::main(self)?.bulk_load(pairs)
    }
}

impl Keyspace {
    /// Does the same as [`Db::ingest`], into this keyspace. Unless it is the default one, the files
    /// are read and written once: the keys of other keyspaces have a prefix in the store. Pairs do
    /// not get the keyspace's time to live, but that of the file.
    ///
    /// # Errors
    /// As [`Db::ingest`]; `NotFound` when the keyspace was dropped.
    pub fn ingest<P: AsRef<Path>>(
        &self,
        files: &[P],
        options: &IngestOptions,
    ) -> Result<IngestReport> {
        Destination::of(self)?.ingest(files, options)
    }

    /// Does the same as [`Db::bulk_load`], into this keyspace. Pairs get the keyspace's time to live.
    ///
    /// # Errors
    /// As [`Db::bulk_load`]; `NotFound` when the keyspace was dropped.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        self.try_bulk_load(pairs.into_iter().map(Ok::<_, Error>))
    }

    /// Does the same as [`Keyspace::bulk_load`] for pairs whose source can fail. After the first
    /// error nothing is changed, and the error is returned.
    pub fn try_bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>, E: From<Error>>(
        &self,
        pairs: impl IntoIterator<Item = std::result::Result<(K, V), E>>,
    ) -> std::result::Result<IngestReport, E> {
        Destination::of(self)?.bulk_load(pairs)
    }
}

/// Returns a key for a message: at most 64 bytes of it, escaped.
fn shown(key: &[u8]) -> String {
    const SHOWN_BYTES: usize = 64;
    match key.get(..SHOWN_BYTES) {
        Some(begin) if key.len() > SHOWN_BYTES => {
            format!("\"{}…\" ({} bytes)", begin.escape_ascii(), key.len())
        }
        _ => format!("\"{}\"", key.escape_ascii()),
    }
}

/// Returns the error for a key that does not come after the key before it.
fn not_ascending(order: &str, before: &[u8], key: &[u8]) -> Error {
    Error::invalid(format!(
        "expected strictly ascending keys in the key order {order}, found {} after {}",
        shown(key),
        shown(before)
    ))
}
