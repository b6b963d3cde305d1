//! Repair: writes all data that checksums prove into a new store, lists the lost data, and keeps
//! the original files beside the new store.
//!
//! Every source is read in sorted order: a table as stored, a log through memtables of bounded
//! size. One merge writes them into one run of tables without tombstones, which one manifest edit
//! installs.
//!
//! Invariants:
//! * Nothing of the original store is changed before the new store is complete.
//! * Memory does not grow with the store, except for its range tombstones, which every reader holds
//!   too.

mod context;
mod log_chain;
mod log_scan;
mod parts;
mod salvage;
mod sources;
pub(super) mod swap;
mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Db;
use super::dir::list_dir;
use super::open::{refuse_newer, take_lock, version_of_manifests};
use crate::base::format_version::FormatVersion;
use crate::error::{Error, Result};
use crate::fs::OsFs;
use crate::fs::{Fs, absolute};
use crate::options::Options;
use crate::table::ReadConfig;
use crate::tree::current::Current;
use crate::tree::fragment::{FileMeta, Fragment};
use crate::tree::lineage::Lineage;
use crate::tree::manifest;
use crate::tree::names;
use crate::tree::set::VersionSet;
use parts::{SalvagePart, open_table};
use salvage::Salvage;
use sources::{Inputs, Source, add_trees, inputs, merge_trees};
use swap::clear_dir;

/// Result of [`Db::repair`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether the manifest was readable. Only the manifest says which tables are valid and in
    /// which order.
    pub manifest_readable: bool,
    /// Number of tables read.
    pub tables: u64,
    /// Number of logs read.
    pub logs: u64,
    /// Number of pairs in the repaired store.
    pub pairs: u64,
    /// Maximum number of entries in memory at once.
    pub entries_held_max: u64,
    /// The data that could not be read, one sentence each.
    pub lost: Vec<String>,
    /// The directory that now holds the original files.
    pub originals: PathBuf,
}

impl Db {
    /// Rebuilds the store in `path` from the data that its tables and logs still prove.
    ///
    /// Every table block and log record with a valid checksum is used. The rest is listed in the
    /// report. When the manifest cannot be read, every existing table is used. Then a delete may be
    /// undone: its tombstone may have been compacted away while obsolete tables with the deleted
    /// keys were not removed yet.
    ///
    /// The original files are moved to `before-repair-N` inside the directory and never deleted. A
    /// failed repair leaves them in place. A crash while the files are moved leaves no store, until
    /// the next repair undoes or finishes the move.
    ///
    /// Memory use does not depend on the size of the store. It is one memtable, a block and the
    /// index of each table that overlaps others (at most 64 tables), and the range tombstones.
    ///
    /// # Errors
    /// `NotFound` when there is no store to repair, `InvalidArgument`, `Locked` while the store is
    /// open, `Incompatible` for the directory of another kind of store, a newer version or another
    /// key order, `Io`, `NoSpace` (a repair needs space for a second copy of the store, and for a
    /// third copy where more than 64 tables overlap).
    pub fn repair(path: impl AsRef<Path>, options: Options) -> Result<RepairReport> {
        Db::repair_on(OsFs::shared(), path, options)
    }

    /// Does the same as [`Db::repair`], on the given file system.
    #[doc(hidden)]
    pub fn repair_on(
        fs: Arc<dyn Fs>,
        path: impl AsRef<Path>,
        options: Options,
    ) -> Result<RepairReport> {
        options.validate()?;
        let dir = &*absolute(&*fs, path.as_ref())?;
        let found = list_dir(&*fs, dir)?;
        found.refuse_foreign(dir)?;
        refuse_newer(&*fs, dir, options.thresholds.newest_format)?;
        let interrupted = found.has_interrupted_repair();
        let store_files = |name: &str| names::is_store_file(name) && !names::is_side_file(name);
        if !interrupted && !found.entries.iter().any(|e| store_files(&e.name)) {
            return Err(Error::not_found("there is no store here to repair").with_path(dir));
        }
        let (fs, lock) = take_lock(&fs, dir)?;
        swap::resume(&*fs, dir)?;
        list_dir(&*fs, dir)?.check_encryption(dir)?;
        fs.check_keys(dir)?;
        let mut report = RepairReport::default();
        let rebuilt = swap::rebuilt(dir);
        clear_dir(&*fs, &rebuilt)?;
        fs.create_dir(&rebuilt).map_err(|e| Error::io(&rebuilt, "create the directory", e))?;
        let shared = fs.share_keys(Some(dir), &rebuilt);
        let made = shared.and_then(|()| rebuild(&fs, dir, &rebuilt, &options, &mut report));
        if let Err(error) = made {
            // The cause may be a full device, and an incomplete copy is useless.
            let _ = clear_dir(&*fs, &rebuilt);
            return Err(error);
        }
        report.originals = swap::exchange(&*fs, dir)?;
        drop(lock);
        Ok(report)
    }
}

/// Creates a store in `rebuilt` from the proven data of the store in `dir`.
fn rebuild(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    rebuilt: &Path,
    options: &Options,
    report: &mut RepairReport,
) -> Result<()> {
    let config = read_config(options);
    let (first_number, id) = (free_number(&**fs, dir)?, fs.unique_number());
    let mut salvage = Salvage::new(fs, rebuilt, options, config, first_number, id);
    let Inputs { catalog, sources, mut chain } = inputs(fs, dir, options, report)?;
    report.lost.drain(..).for_each(|what| salvage.record_loss(what));
    let known = report.manifest_readable;
    add_trees(&mut salvage, &catalog, known, options);
    let mut numbers: Vec<u64> = sources.iter().map(|s| s.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    report.tables += numbers.len() as u64;
    let oldest_log_age = sources.len() as u64 + 1;
    for (age, source) in (1..).zip(sources.into_iter().rev()) {
        add_table(fs, dir, source, age, &mut salvage);
    }
    let mut logs: Vec<u64> =
        list_dir(&**fs, dir)?.entries.iter().filter_map(|e| names::parse_log(&e.name)).collect();
    logs.retain(|number| *number >= chain.min_wal());
    logs.sort_unstable();
    report.logs = logs.len() as u64;
    for missing in chain.missing(&logs) {
        let what = "the manifest names this log, but the log does not exist";
        let path = names::log_path(dir, missing);
        salvage.record_loss(Error::corruption(&path, 0, what).to_string());
        chain.note_reported_loss();
    }
    for (age, number) in (oldest_log_age..).zip(logs.iter().copied()) {
        let next = salvage.add_log(&names::log_path(dir, number), number, age, &mut chain)?;
        if let Some(missing) = next.filter(|next| logs.binary_search(next).is_err()) {
            let path = names::log_path(dir, missing);
            let what =
                "the previous log names this log as its continuation, but this log does not exist";
            salvage.record_loss(Error::corruption(&path, 0, what).to_string());
            chain.note_reported_loss();
        }
    }
    salvage.spill(oldest_log_age + report.logs)?;
    let mut edit = merge_trees(salvage, catalog, report)?;
    edit.lineage = lineage_of(&**fs, dir);
    VersionSet::create(fs.clone(), rebuilt, options.key_order.clone(), store_of(&**fs, dir)?, edit)
}

/// Returns the identity and the format version that the repaired store gets.
///
/// Both are kept if `CURRENT` can be read, so that backups of the store continue. Otherwise the store
/// is a new one, of the version that its manifests state. The newest one has room for all that tables
/// and logs may have.
fn store_of(fs: &dyn Fs, dir: &Path) -> Result<(u64, FormatVersion)> {
    if let Ok(at) = Current::read(fs, dir) {
        return Ok((at.store_id, at.format));
    }
    let stated = version_of_manifests(fs, dir)?.and_then(FormatVersion::from_number);
    Ok((fs.unique_number(), stated.unwrap_or(FormatVersion::NEWEST)))
}

/// Returns the lineage of the store in `dir`, as far as its manifest can be read.
fn lineage_of(fs: &dyn Fs, dir: &Path) -> Option<Lineage> {
    let at = Current::read(fs, dir).ok()?;
    let found = manifest::read(fs, dir, at.manifest, at.store_id, 0).ok()?;
    found.edits.into_iter().find_map(|edit| edit.lineage)
}

/// Returns the configuration for reading tables in the key order of `options`.
pub(super) fn read_config(options: &Options) -> ReadConfig {
    let filter_policy = options.filter_policy.clone();
    ReadConfig { filter_policy, ..ReadConfig::without_cache(options.key_order.clone()) }
}

/// Returns a number above that of every file that a store can have created in the directory, so
/// that no new file takes the name of an original.
fn free_number(fs: &dyn Fs, dir: &Path) -> Result<u64> {
    let number_of = |name: &str| {
        let (table, log) = (names::parse_table(name), names::parse_log(name));
        table.or(names::parse_value_file(name)).or(log).or(names::parse_manifest(name))
    };
    let entries = list_dir(fs, dir)?.entries;
    let numbers = entries.iter().filter_map(|e| number_of(&e.name));
    // The new store needs free numbers, too.
    let most = names::NUMBER_MAX - 2 * names::UNKNOWN_MAX;
    Ok(numbers.filter(|number| *number <= most).max().unwrap_or(0) + 1)
}

/// Adds a table to the salvage, or lists it as lost.
fn add_table(fs: &Arc<dyn Fs>, dir: &Path, source: Source, age: u64, salvage: &mut Salvage) {
    let Source { tree, number, table_id, ingested, lo, hi } = source;
    let path = names::table_path(dir, number);
    let Some(config) = salvage.of(tree).map(|salvage| salvage.config().clone()) else { return };
    let table = match open_table(fs, &path, number, ingested, &config) {
        Ok(table) => table,
        Err(error) => return salvage.record_loss(format!("all entries of a table: {error}")),
    };
    let info = table.info().clone();
    if table_id.is_some_and(|expected| expected != info.table_id) {
        let what = "expected the table that the manifest describes, found another table";
        let error = Error::corruption(&path, 0, what);
        return salvage.record_loss(format!("all entries of a table: {error}"));
    }
    let Some(salvage) = salvage.of(tree) else { return };
    salvage.add_deletes(table.range_deletes(), lo.as_deref(), hi.as_deref());
    let estimated_bytes = info.size_bytes;
    let file = Arc::new(FileMeta::new(number, info, None));
    let shown = Fragment { file, lo, hi, estimated_bytes };
    salvage.add_part(SalvagePart { path, shown, age, is_own: false });
}
