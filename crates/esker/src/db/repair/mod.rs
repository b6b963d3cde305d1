//! Repair: what can be proven by checksums is written into a new store; what cannot is listed; the
//! originals are kept beside it.
//!
//! Every source is sorted: a table as it lies, a log through memtables of bounded size. All are
//! merged in one pass into one run of tables without tombstones, which one manifest edit installs.
//! What stays true: nothing of the original store is changed before the new one is whole; memory
//! does not grow with the store, but for its range tombstones, which every reader holds too.

mod parts;
mod salvage;
pub(super) mod swap;
mod trail;
mod walk;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Db;
use super::open::{look, refuse_newer, take_lock};
use super::stats::sizes_here;
use crate::cache::BlockCache;
use crate::compaction::TreeLimits;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::os::OsFs;
use crate::fs::{Fs, absolute};
use crate::metrics::LEVELS;
use crate::options::Options;
use crate::options::kinds::{CachePolicy, IndexSearch};
use crate::table::ReadConfig;
use crate::tree::current::Current;
use crate::tree::edit::{AddedFile, AddedSlice, VersionEdit};
use crate::tree::fragment::{FileMeta, Fragment};
use crate::tree::names;
use crate::tree::output::NewFile;
use crate::tree::set::VersionSet;
use parts::{Part, open_table};
use salvage::Salvage;
use swap::clear_dir;
use trail::Trail;

/// What [`Db::repair`] did.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Whether the manifest could be read, so that it is known which tables count and in which order.
    pub manifest_readable: bool,
    /// Tables read.
    pub tables: u64,
    /// Logs read.
    pub logs: u64,
    /// Pairs in the repaired store.
    pub pairs: u64,
    /// The most entries that were in memory at once.
    pub entries_held_max: u64,
    /// What could not be read, one sentence each.
    pub lost: Vec<String>,
    /// Where the original files are now.
    pub originals: PathBuf,
}

/// A table the store may need, and what of it.
struct Source {
    number: u64,
    /// The table's own number, where the manifest says it.
    table_id: Option<u64>,
    lo: Option<Vec<u8>>,
    hi: Option<Vec<u8>>,
}

impl Db {
    /// Rebuilds the store in `path` from what its tables and logs still prove.
    ///
    /// Every table block and log record whose checksum holds is used; the rest is listed. When the
    /// manifest cannot be read, every table found is used, and deletes whose tombstones were
    /// already compacted away may come undone where their obsolete tables were not yet removed.
    /// The original files are moved to `before-repair-N` inside the directory and never deleted. A
    /// repair that fails leaves them where they were; one that a crash interrupts while it moves
    /// them leaves no store, until the next repair has put it right.
    ///
    /// Memory is needed for a memtable, for a block and the index of each table that overlaps
    /// others (at most 64 of them), and for the range tombstones, whatever the size of the store.
    ///
    /// # Errors
    /// `Locked` while it is open, `Incompatible` for another store's directory, `Io`, `NoSpace`
    /// (it needs room for a second copy, and for a third where more than 64 tables overlap).
    pub fn repair(path: impl AsRef<Path>, options: Options) -> Result<RepairReport> {
        Db::repair_on(OsFs::shared(), path, options)
    }

    /// [`Db::repair`] on a file system of the caller's.
    pub fn repair_on(
        fs: Arc<dyn Fs>,
        path: impl AsRef<Path>,
        options: Options,
    ) -> Result<RepairReport> {
        options.validate()?;
        let dir = &*absolute(&*fs, path.as_ref())?;
        let found = look(&*fs, dir)?;
        found.refuse_foreign(dir)?;
        refuse_newer(&*fs, dir)?;
        let interrupted = found.is_between_stores();
        let ours = |name: &str| names::is_ours(name) && name != names::LOCK;
        if !interrupted && !found.entries.iter().any(|e| ours(&e.name)) {
            return Err(Error::not_found("there is no store here to repair").at(dir));
        }
        let (fs, lock) = take_lock(&fs, dir)?;
        swap::resume(&*fs, dir)?;
        let mut report = RepairReport::default();
        let rebuilt = swap::rebuilt(dir);
        clear_dir(&*fs, &rebuilt)?;
        fs.create_dir(&rebuilt).map_err(|e| Error::io(&rebuilt, "create the directory", e))?;
        if let Err(error) = rebuild(&fs, dir, &rebuilt, &options, &mut report) {
            // Room is what may be missing: half a copy is of no use to anyone.
            let _ = clear_dir(&*fs, &rebuilt);
            return Err(error);
        }
        report.originals = swap::exchange(&*fs, dir)?;
        drop(lock);
        Ok(report)
    }
}

/// Makes a store in `rebuilt` of what the one in `dir` proves.
fn rebuild(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    rebuilt: &Path,
    options: &Options,
    report: &mut RepairReport,
) -> Result<()> {
    let order = &options.key_order;
    let config = read_config(options);
    let (first_number, id) = (free_number(&**fs, dir)?, fs.unique_number());
    let mut salvage = Salvage::new(fs, rebuilt, options, config.clone(), first_number, id);
    let (sources, mut trail) = sources(fs, dir, options, report)?;
    report.lost.drain(..).for_each(|what| salvage.lose(what));
    let mut numbers: Vec<u64> = sources.iter().map(|s| s.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    report.tables = numbers.len() as u64;
    let oldest_log_age = sources.len() as u64 + 1;
    for (age, source) in (1..).zip(sources.into_iter().rev()) {
        add_table(fs, dir, &config, source, age, &mut salvage);
    }
    let mut logs: Vec<u64> =
        look(&**fs, dir)?.entries.iter().filter_map(|e| names::parse_log(&e.name)).collect();
    logs.retain(|number| *number >= trail.min_wal());
    logs.sort_unstable();
    report.logs = logs.len() as u64;
    for missing in trail.missing(&logs) {
        let what = "the manifest names this log, but it is not there";
        let path = names::log_path(dir, missing);
        salvage.lose(Error::corruption(&path, 0, what).to_string());
        trail.told();
    }
    for (age, number) in (oldest_log_age..).zip(logs.iter().copied()) {
        let next = salvage.add_log(&names::log_path(dir, number), number, age, &mut trail)?;
        if let Some(missing) = next.filter(|next| logs.binary_search(next).is_err()) {
            let path = names::log_path(dir, missing);
            let what =
                "the log before this one says that this one continues it, but it is not there";
            salvage.lose(Error::corruption(&path, 0, what).to_string());
            trail.told();
        }
    }
    salvage.spill(oldest_log_age + report.logs)?;
    let limits = TreeLimits::new(options, sizes_here(options).memtable_bytes, order.clone());
    let level = level_for(&limits, salvage.bytes());
    let made = salvage.merge_all(level)?;
    report.pairs = made.pairs;
    report.entries_held_max = made.entries_held_max;
    report.lost = made.lost;
    let edit = content(&limits, level, made.files, made.next_number);
    // The same store as before, as long as anything says which that was: its backups go on.
    let store_id = Current::read(&**fs, dir).map_or_else(|_| fs.unique_number(), |at| at.store_id);
    VersionSet::create(fs.clone(), rebuilt, order.clone(), store_id, edit)
}

fn read_config(options: &Options) -> ReadConfig {
    ReadConfig {
        order: options.key_order.clone(),
        index_search: IndexSearch::Binary,
        index_fanout: 16,
        cache: Arc::new(BlockCache::new(CachePolicy::None, 0)),
        pages: Arc::default(),
        filter_policy: options.filter_policy.clone(),
        keep_open: true,
    }
}

/// A number above that of every file that a store can have made in the directory: no new file takes an
/// original's name.
fn free_number(fs: &dyn Fs, dir: &Path) -> Result<u64> {
    let number_of = |name: &str| {
        let (table, log) = (names::parse_table(name), names::parse_log(name));
        table.or(log).or(names::parse_manifest(name))
    };
    let entries = look(fs, dir)?.entries;
    let numbers = entries.iter().filter_map(|e| number_of(&e.name));
    // The new store needs numbers to go on with.
    let most = names::NUMBER_MAX - 2 * names::UNKNOWN_MAX;
    Ok(numbers.filter(|number| *number <= most).max().unwrap_or(0) + 1)
}

/// The tables to read, newest first: what the manifest shows, or every table there is. And what is
/// to be expected of the logs.
fn sources(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    report: &mut RepairReport,
) -> Result<(Vec<Source>, Trail)> {
    let order = options.key_order.clone();
    match VersionSet::recover(fs.clone(), dir, order, true) {
        Ok(versions) => {
            report.manifest_readable = true;
            // Slices before guards cut them: each file once, wherever that is possible.
            let mut slices = versions.current().to_edit().added;
            slices.sort_by(|a, b| a.level.cmp(&b.level).then(b.order.cmp(&a.order)));
            let files = versions.current().files();
            let ids: HashMap<u64, u64> =
                files.iter().map(|file| (file.number, file.info.table_id)).collect();
            let source = |slice: AddedSlice| {
                let (AddedFile::New { number, .. } | AddedFile::Existing(number)) = slice.file;
                let table_id = ids.get(&number).copied();
                Source { number, table_id, lo: slice.lo, hi: slice.hi }
            };
            Ok((slices.into_iter().map(source).collect(), Trail::new(&versions)))
        }
        // Another order, or a manifest of a newer version: not damaged, and not ours to rebuild.
        Err(error) if error.kind() == ErrorKind::Incompatible => Err(error),
        Err(error) => {
            report.lost.push(format!("the manifest: {error}"));
            let entries = look(&**fs, dir)?.entries;
            let mut numbers: Vec<u64> =
                entries.iter().filter_map(|e| names::parse_table(&e.name)).collect();
            // What a merge wrote later has the larger number.
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            let whole = |number| Source { number, table_id: None, lo: None, hi: None };
            Ok((numbers.into_iter().map(whole).collect(), Trail::default()))
        }
    }
}

/// Takes in a table, or lists it.
fn add_table(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    config: &ReadConfig,
    source: Source,
    age: u64,
    salvage: &mut Salvage,
) {
    let Source { number, table_id, lo, hi } = source;
    let path = names::table_path(dir, number);
    let table = match open_table(fs, &path, number, config) {
        Ok(table) => table,
        Err(error) => return salvage.lose(format!("a whole table: {error}")),
    };
    let info = table.info().clone();
    if table_id.is_some_and(|expected| expected != info.table_id) {
        let what = "expected the table that the manifest describes, found another";
        let error = Error::corruption(&path, 0, what);
        return salvage.lose(format!("a whole table: {error}"));
    }
    salvage.add_deletes(table.range_deletes(), lo.as_deref(), hi.as_deref());
    let estimated_bytes = info.size_bytes;
    let file = Arc::new(FileMeta::new(number, info, None));
    let shown = Fragment { file, lo, hi, estimated_bytes };
    salvage.add_part(Part { path, shown, age, is_own: false });
}

/// The first level with room for `bytes`.
fn level_for(limits: &TreeLimits, bytes: u64) -> usize {
    (1..LEVELS - 1).find(|level| limits.capacity_bytes(*level) >= bytes).unwrap_or(LEVELS - 1)
}

/// The first edit of the new store: one run in `level`, with guards as a merge would make them.
fn content(limits: &TreeLimits, level: usize, files: Vec<NewFile>, next_file: u64) -> VersionEdit {
    let mut edit = VersionEdit { next_file: Some(next_file), ..VersionEdit::default() };
    let mut in_guard = 0;
    for file in files {
        let bytes = file.info.size_bytes;
        if limits.split_guard_bytes().is_some_and(|most| in_guard > 0 && in_guard + bytes > most) {
            edit.bounds_added.push((level, file.info.smallest.clone()));
            in_guard = 0;
        }
        in_guard += bytes;
        let new = AddedFile::New { number: file.number, info: file.info };
        edit.added.push(AddedSlice { level, order: 1, file: new, lo: None, hi: file.hi });
    }
    edit
}
