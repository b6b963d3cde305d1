//! Repair: what can be proven by checksums is written into a new store; what cannot is listed; the
//! originals are kept beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Db;
use super::open::{look, take_lock};
use crate::base::key::SEQNO_MAX;
use crate::base::ops;
use crate::base::range_delete::{RangeDelete, RangeDeletes, clamp};
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::fs::os::OsFs;
use crate::iter::merge::MergeCursor;
use crate::iter::visible::VisibleCursor;
use crate::memtable::Memtable;
use crate::options::Options;
use crate::options::kinds::{CachePolicy, Durability, IndexSearch};
use crate::table::{ReadConfig, Table, TableSource};
use crate::tree::cursor::BoxedCursor;
use crate::tree::names;
use crate::tree::set::VersionSet;
use crate::wal::LogReader;
use crate::write::commit::apply;

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
    /// What could not be read, one sentence each.
    pub lost: Vec<String>,
    /// Where the original files are now.
    pub originals: PathBuf,
}

/// A table or a part of one to read.
struct Source {
    path: PathBuf,
    number: u64,
    lo: Option<Vec<u8>>,
    hi: Option<Vec<u8>>,
}

impl Db {
    /// Rebuilds the store in `path` from what its tables and logs still prove.
    ///
    /// Every table block and log record whose checksum holds is used; the rest is listed. When the
    /// manifest cannot be read, every table found is used, and deletes whose tombstones were
    /// already compacted away may come undone where their obsolete tables were not yet removed.
    /// The original files are moved to `before-repair-N` inside the directory and never deleted.
    ///
    /// # Errors
    /// `Locked` while it is open, `Incompatible` for another store's directory, `Io`, `NoSpace`
    /// (it needs room for a second copy).
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
        let dir = path.as_ref();
        let found = look(&*fs, dir)?;
        found.refuse_foreign(dir)?;
        if !found.entries.iter().any(|e| names::is_ours(&e.name) && e.name != names::LOCK) {
            return Err(Error::invalid("there is no store here to repair").at(dir));
        }
        let lock = take_lock(&fs, dir)?;
        let mut report = RepairReport::default();
        let config = read_config(&options);
        let (sources, min_wal) = sources(&fs, dir, &options, &config, &mut report)?;
        let (cursors, deletes, _pins) =
            open_sources(&fs, dir, &options, &config, sources, min_wal, &mut report)?;
        let rebuilt = dir.join("rebuilt");
        clear_dir(&*fs, &rebuilt)?;
        copy_pairs(&fs, &rebuilt, &options, cursors, deletes, &mut report)?;
        swap(&*fs, dir, &rebuilt, &mut report)?;
        drop(lock);
        Ok(report)
    }
}

fn read_config(options: &Options) -> ReadConfig {
    ReadConfig {
        order: options.key_order.clone(),
        index_search: IndexSearch::Binary,
        index_fanout: 16,
        cache: Arc::new(BlockCache::new(CachePolicy::None, 0)),
        filter_policy: options.filter_policy.clone(),
        keep_open: true,
    }
}

/// The tables to read: the manifest's slices, or every table there is.
fn sources(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    config: &ReadConfig,
    report: &mut RepairReport,
) -> Result<(Vec<Source>, u64)> {
    let order = options.key_order.clone();
    match VersionSet::recover(fs.clone(), dir, order, config.cache.clone(), true) {
        Ok(versions) => {
            report.manifest_readable = true;
            let version = versions.current();
            let mut sources = Vec::new();
            for guard in version.levels.iter().flat_map(|l| l.guards.iter()) {
                for fragment in guard.runs.iter().flat_map(|r| &r.fragments) {
                    sources.push(Source {
                        path: names::table_path(dir, fragment.file.number),
                        number: fragment.file.number,
                        lo: fragment.lo.clone(),
                        hi: fragment.hi.clone(),
                    });
                }
            }
            Ok((sources, versions.min_wal()))
        }
        Err(error) => {
            report.lost.push(format!("the manifest: {error}"));
            let entries = look(&**fs, dir)?.entries;
            let numbers = entries.iter().filter_map(|e| names::parse_table(&e.name));
            let whole = |number| Source {
                path: names::table_path(dir, number),
                number,
                lo: None,
                hi: None,
            };
            Ok((numbers.map(whole).collect(), 0))
        }
    }
}

type Opened = (Vec<BoxedCursor>, Vec<RangeDelete>, Vec<Arc<Memtable>>);

/// Everything readable as cursors: tables through memtables of what they still prove, logs too.
fn open_sources(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    config: &ReadConfig,
    sources: Vec<Source>,
    min_wal: u64,
    report: &mut RepairReport,
) -> Result<Opened> {
    let order = &options.key_order;
    let mut cursors: Vec<BoxedCursor> = Vec::new();
    let mut deletes = Vec::new();
    let mut pins = Vec::new();
    let memtable = Arc::new(Memtable::new(options.memtable_kind, order.clone()));
    let mut logs: Vec<u64> =
        look(&**fs, dir)?.entries.iter().filter_map(|e| names::parse_log(&e.name)).collect();
    logs.sort_unstable();
    for number in logs.into_iter().filter(|n| *n >= min_wal) {
        report.logs += 1;
        let path = names::log_path(dir, number);
        if let Err(error) = salvage_log(&**fs, &path, number, &memtable) {
            report.lost.push(error.to_string());
        }
    }
    deletes.extend(memtable.range_deletes().to_tombstones());
    cursors.push(Box::new(memtable.cursor()));
    pins.push(memtable);
    for source in sources {
        report.tables += 1;
        match open_table(fs, &source, config) {
            Ok(table) => {
                let (lo, hi) = (source.lo.as_deref(), source.hi.as_deref());
                let set = table.range_deletes().to_tombstones();
                deletes.extend(set.iter().filter_map(|t| clamp(order, t, lo, hi)));
                let kept = salvage_table(&table, &source, options, report);
                cursors.push(Box::new(kept.cursor()));
                pins.push(kept);
            }
            Err(error) => report.lost.push(format!("a whole table: {error}")),
        }
    }
    Ok((cursors, deletes, pins))
}

fn salvage_log(fs: &dyn Fs, path: &Path, number: u64, memtable: &Memtable) -> Result<()> {
    let mut reader = LogReader::open(fs, path, number)?;
    while let Some(record) = reader.next()? {
        if ops::Ops::new(record.payload).all(|op| op.is_some()) {
            apply(memtable, record.payload, record.first_seqno);
        }
    }
    Ok(())
}

fn open_table(fs: &Arc<dyn Fs>, source: &Source, config: &ReadConfig) -> Result<Arc<Table>> {
    let identity = Table::identify(&**fs, &source.path)?;
    let source = TableSource {
        fs: fs.clone(),
        path: source.path.clone(),
        file_number: source.number,
        table_id: identity.table_id,
        size_bytes: identity.size_bytes,
    };
    Table::open(source, config).map(Arc::new)
}

/// The entries of a table's slice that can be read; blocks that cannot are skipped and listed.
fn salvage_table(
    table: &Arc<Table>,
    source: &Source,
    options: &Options,
    report: &mut RepairReport,
) -> Arc<Memtable> {
    let order = &options.key_order;
    let kept = Memtable::new(options.memtable_kind, order.clone());
    for block in 0..table.block_count() {
        let read = table.visit_block(block, &mut |key, seqno, kind, value| {
            let low = source.lo.as_ref().is_some_and(|lo| order.compare(key, lo).is_lt());
            let high = source.hi.as_ref().is_some_and(|hi| order.compare(key, hi).is_ge());
            if !low && !high {
                kept.add(seqno, kind, key, value);
            }
        });
        if let Err(error) = read {
            report.lost.push(format!("a block: {error}"));
        }
    }
    Arc::new(kept)
}

/// Writes the newest visible pair of every key into a new store.
fn copy_pairs(
    fs: &Arc<dyn Fs>,
    rebuilt: &Path,
    options: &Options,
    cursors: Vec<BoxedCursor>,
    deletes: Vec<RangeDelete>,
    report: &mut RepairReport,
) -> Result<()> {
    let order = options.key_order.clone();
    let mut fresh = options.clone();
    fresh.durability = Durability::None;
    fresh.create_if_missing = true;
    let db = Db::open_on(fs.clone(), rebuilt, fresh)?;
    let deletes = Arc::new(RangeDeletes::build(&order, &deletes));
    let merged = MergeCursor::new(order.clone(), cursors);
    let mut pairs = VisibleCursor::new(merged, order, SEQNO_MAX, deletes);
    pairs.seek_to_first()?;
    while pairs.valid() {
        db.put(pairs.key(), pairs.value())?;
        report.pairs += 1;
        pairs.next()?;
    }
    db.close()
}

/// Moves the originals aside and the rebuilt files in, `CURRENT` last.
fn swap(fs: &dyn Fs, dir: &Path, rebuilt: &Path, report: &mut RepairReport) -> Result<()> {
    let rename = |from: PathBuf, to: PathBuf| {
        fs.rename(&from, &to).map_err(|e| Error::io(&from, "move a file aside", e))
    };
    let aside = (1..u32::MAX)
        .map(|n| dir.join(format!("before-repair-{n}")))
        .find(|p| !fs.exists(p).unwrap_or(true))
        .unwrap_or_else(|| dir.join("before-repair"));
    fs.create_dir(&aside).map_err(|e| Error::io(&aside, "create the directory", e))?;
    let mut ours = look(fs, dir)?.entries;
    ours.retain(|e| e.is_file && names::is_ours(&e.name) && e.name != names::LOCK);
    for entry in ours {
        rename(dir.join(&entry.name), aside.join(&entry.name))?;
    }
    let mut made = look(fs, rebuilt)?.entries;
    made.retain(|e| e.is_file && e.name != names::LOCK);
    made.sort_by_key(|e| e.name == names::CURRENT);
    for entry in made {
        rename(rebuilt.join(&entry.name), dir.join(&entry.name))?;
    }
    clear_dir(fs, rebuilt)?;
    for path in [&aside, dir] {
        fs.sync_dir(path).map_err(|e| Error::io(path, "sync the directory", e))?;
    }
    report.originals = aside;
    Ok(())
}

/// Removes a directory of plain files, if it is there.
fn clear_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    for entry in look(fs, dir)?.entries {
        let path = dir.join(&entry.name);
        fs.remove(&path).map_err(|e| Error::io(&path, "remove a file", e))?;
    }
    let _ = fs.remove_dir(dir);
    Ok(())
}
