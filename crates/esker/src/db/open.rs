//! Opening: the lock, the manifest, the log, and what a crash left behind.
//!
//! What stays true: nothing of a directory is touched before it is known to be ours, of a version
//! and an order we read; `CURRENT` is the last file a new store gets; what recovery keeps is a
//! prefix of the logged writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};

use super::Db;
use super::state::{Inner, Queue};
use super::stats::sizes_here;
use super::{background, snapshot::SnapshotList};
use crate::base::key::SeqNo;
use crate::base::ops;
use crate::cache::BlockCache;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::os::OsFs;
use crate::fs::{DirEntry, FileLock, Fs, parent_of};
use crate::memtable::Memtable;
use crate::metrics::Counters;
use crate::options::Options;
use crate::read::View;
use crate::table::ReadConfig;
use crate::tree::edit::VersionEdit;
use crate::tree::set::VersionSet;
use crate::tree::tables::Tables;
use crate::tree::version::Version;
use crate::tree::{foreign, names};
use crate::wal::{LogEnd, LogReader};
use crate::write::commit::{Committer, Core, apply};

impl Db {
    /// Opens the store in the directory `path`, creating it if it is not there (unless
    /// `create_if_missing` is off).
    ///
    /// # Errors
    /// `Locked` when another process or handle has it (the message says which), `Incompatible`
    /// when the directory is another store's, a newer version's, or was made with another key
    /// order, `Corruption` when acknowledged data is damaged, `InvalidArgument`, `Io`, `NoSpace`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_on(OsFs::shared(), path, options)
    }

    /// [`Db::open`] on a file system of the caller's.
    pub fn open_on(fs: Arc<dyn Fs>, path: impl AsRef<Path>, options: Options) -> Result<Db> {
        options.validate()?;
        let dir = path.as_ref();
        let found = look(&*fs, dir)?;
        let exists = found.is_store(dir)?;
        if exists && options.error_if_exists {
            return Err(Error::invalid("the store exists, and error_if_exists is set").at(dir));
        }
        if !exists && !options.create_if_missing {
            let message = "there is no store here, and create_if_missing is off";
            return Err(Error::invalid(message).at(dir));
        }
        let lock = take_lock(&fs, dir)?;
        // Look again under the lock: another process may have created it meanwhile.
        let found = look(&*fs, dir)?;
        if !found.is_store(dir)? {
            begin_store(&fs, dir, &options, &found)?;
        }
        open_existing(fs, dir, options, Some(lock))
    }

    /// Opens the store as it is at this moment, for reading. It may be open elsewhere, also for
    /// writing; what is written after this call is not seen. Nothing on disk is changed.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_read_only_on(OsFs::shared(), path, options)
    }

    /// [`Db::open_read_only`] on a file system of the caller's.
    pub fn open_read_only_on(
        fs: Arc<dyn Fs>,
        path: impl AsRef<Path>,
        options: Options,
    ) -> Result<Db> {
        options.validate()?;
        let dir = path.as_ref();
        let mut last = None;
        // A writer may move the manifest or drop a log between two of our steps; look again then.
        for _ in 0..10 {
            if !look(&*fs, dir)?.is_store(dir)? {
                return Err(Error::invalid("there is no store here").at(dir));
            }
            match open_existing(fs.clone(), dir, options.clone(), None) {
                Err(error) if error.is_not_found() || error.is_corruption() => last = Some(error),
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| Error::invalid("there is no store here").at(dir)))
    }

    /// Removes a store: the files it made, by name, and then the directory if it is empty. A
    /// directory that holds no store is an error; foreign files are left alone.
    ///
    /// # Errors
    /// `Locked` while it is open, `Incompatible` for another store's directory, `Io`.
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        Db::destroy_on(OsFs::shared(), path)
    }

    /// [`Db::destroy`] on a file system of the caller's.
    pub fn destroy_on(fs: Arc<dyn Fs>, path: impl AsRef<Path>) -> Result<()> {
        let dir = path.as_ref();
        let found = look(&*fs, dir)?;
        found.refuse_foreign(dir)?;
        if !found.entries.iter().any(|e| names::is_ours(&e.name)) {
            return Err(Error::invalid("there is no store here").at(dir));
        }
        let lock = take_lock(&fs, dir)?;
        // CURRENT first: from then on it is no store, whatever else is left.
        let mut ours: Vec<&DirEntry> =
            found.entries.iter().filter(|e| e.is_file && names::is_ours(&e.name)).collect();
        ours.sort_by_key(|e| (e.name != names::CURRENT, e.name == names::LOCK));
        for entry in ours {
            let path = dir.join(&entry.name);
            fs.remove(&path).map_err(|e| Error::io(&path, "remove a file of the store", e))?;
        }
        drop(lock);
        let _ = fs.remove_dir(dir);
        Ok(())
    }
}

/// What is in a directory.
pub(super) struct Found {
    pub entries: Vec<DirEntry>,
}

/// Lists `dir`; a missing directory is an empty one.
pub(super) fn look(fs: &dyn Fs, dir: &Path) -> Result<Found> {
    let missing = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    match fs.list(dir) {
        Ok(entries) => Ok(Found { entries }),
        Err(error) if missing(&error) => Ok(Found { entries: Vec::new() }),
        Err(error) => Err(Error::io(dir, "list the directory", error)),
    }
}

impl Found {
    fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|e| e.name == name)
    }

    /// Refuses a directory another program made.
    pub fn refuse_foreign(&self, dir: &Path) -> Result<()> {
        let entries: Vec<&str> = self.entries.iter().map(|e| e.name.as_str()).collect();
        match foreign::identify(&entries) {
            Some(what) => Err(Error::new(
                ErrorKind::Incompatible,
                format!("this is {what}, not an Esker store; it was left untouched"),
            )
            .at(dir)),
            None => Ok(()),
        }
    }

    /// Whether a whole store is here. Its remains without `CURRENT` are an error if they may hold
    /// data; without data they are a creation that a crash interrupted.
    pub fn is_store(&self, dir: &Path) -> Result<bool> {
        self.refuse_foreign(dir)?;
        if self.has(names::CURRENT) {
            return Ok(true);
        }
        let data = |e: &&DirEntry| {
            names::parse_table(&e.name).is_some()
                || names::parse_log(&e.name).is_some() && e.len_bytes > 0
        };
        if let Some(entry) = self.entries.iter().find(data) {
            let message =
                "CURRENT is missing but the store's files are here; `repair` can rebuild it";
            return Err(Error::corruption(&dir.join(&entry.name), 0, message));
        }
        Ok(false)
    }
}

/// Takes the store's lock, making the directory if needed.
pub(super) fn take_lock(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Box<dyn FileLock>> {
    if !fs.exists(dir).map_err(|e| Error::io(dir, "look at the directory", e))? {
        fs.create_dir(dir).map_err(|e| Error::io(dir, "create the directory", e))?;
        let parent = parent_of(dir);
        fs.sync_dir(&parent).map_err(|e| Error::io(&parent, "sync the directory", e))?;
    }
    let path = dir.join(names::LOCK);
    let holder = format!("process {}", std::process::id());
    match fs.lock(&path, &holder) {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            let holder = fs.read(&path, 256).unwrap_or_default();
            let holder = String::from_utf8_lossy(&holder).trim().to_string();
            let who = if holder.is_empty() { "another process".to_string() } else { holder };
            let message =
                format!("the store is open in {who}; open it read-only, or close it there");
            Err(Error::new(ErrorKind::Locked, message).at(dir))
        }
        Err(error) => Err(Error::io(&path, "lock the store", error)),
    }
}

/// Makes an empty store; remains of an interrupted creation are removed first.
fn begin_store(fs: &Arc<dyn Fs>, dir: &Path, options: &Options, found: &Found) -> Result<()> {
    for entry in &found.entries {
        if entry.is_file && names::is_ours(&entry.name) && entry.name != names::LOCK {
            let path = dir.join(&entry.name);
            fs.remove(&path).map_err(|e| Error::io(&path, "remove an interrupted creation", e))?;
        }
    }
    let store_id = random_id(dir);
    VersionSet::create(
        fs.clone(),
        dir,
        options.key_order.clone(),
        store_id,
        VersionEdit::default(),
    )?;
    Ok(())
}

/// A number that no other store or opening has, from the clock, the process and the address of a
/// fresh allocation.
pub(super) fn random_id(dir: &Path) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write(dir.as_os_str().as_encoded_bytes());
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// What the logs gave back.
struct Replayed {
    memtable: Arc<Memtable>,
    last_seqno: SeqNo,
    next_ordinal: u64,
    log_number_max: u64,
    /// Whether every log ended cleanly, so that it can stay as it is.
    clean: bool,
}

fn open_existing(
    fs: Arc<dyn Fs>,
    dir: &Path,
    options: Options,
    lock: Option<Box<dyn FileLock>>,
) -> Result<Db> {
    let read_only = lock.is_none();
    let sizes = sizes_here(&options);
    let cache = Arc::new(BlockCache::new(options.cache_policy, sizes.cache_bytes));
    let versions =
        VersionSet::recover(fs.clone(), dir, options.key_order.clone(), cache.clone(), read_only)?;
    let config = ReadConfig {
        order: options.key_order.clone(),
        index_search: options.index_search,
        index_fanout: options.index_fanout as usize,
        cache: cache.clone(),
        filter_policy: options.filter_policy.clone(),
        // A file the writer of a live store removes must stay readable.
        keep_open: options.keep_files_open || read_only,
    };
    let open_files_max = if read_only { u64::MAX } else { options.open_files_max };
    let tables = Arc::new(Tables::new(fs.clone(), dir.to_path_buf(), config, open_files_max));
    let version = versions.current();
    if read_only {
        // Files that the writer drops from now on stay readable through these handles.
        for file in version.files() {
            tables.get(&file)?;
        }
    }
    let replayed = replay(&*fs, dir, &options, &versions, !read_only)?;
    let inner = assemble(fs, dir, options, lock, cache, tables, versions, version, &replayed);
    let threads = if read_only {
        Vec::new()
    } else {
        inner.begin_writing(&replayed)?;
        background::start(&inner)?
    };
    Ok(Db { inner, threads: Mutex::new(threads) })
}

#[allow(clippy::too_many_arguments)]
fn assemble(
    fs: Arc<dyn Fs>,
    dir: &Path,
    options: Options,
    lock: Option<Box<dyn FileLock>>,
    cache: Arc<BlockCache<crate::table::Block>>,
    tables: Arc<Tables>,
    versions: VersionSet,
    version: Arc<Version>,
    replayed: &Replayed,
) -> Arc<Inner> {
    let core = Core {
        log: None,
        unsynced_logs: Vec::new(),
        memtable: replayed.memtable.clone(),
        next_seqno: replayed.last_seqno + 1,
        unlogged: false,
        poisoned: None,
    };
    let view = View { active: replayed.memtable.clone(), frozen: Vec::new(), version };
    let next_number = versions.next_file_number().max(replayed.log_number_max + 1);
    Arc::new(Inner {
        dir: PathBuf::from(dir),
        read_only: lock.is_none(),
        order: options.key_order.clone(),
        sizes: ArcSwap::from_pointee(sizes_here(&options)),
        options: ArcSwap::from_pointee(options),
        view: ArcSwap::from_pointee(view),
        view_change: Mutex::new(()),
        visible: AtomicU64::new(replayed.last_seqno),
        committer: Committer::new(core),
        tables,
        cache,
        counters: Counters::default(),
        versions: Mutex::new(versions),
        numbers: Arc::new(AtomicU64::new(next_number)),
        ids: AtomicU64::new(random_id(dir)),
        queue: Mutex::new(Queue::default()),
        work: Condvar::new(),
        idle: Condvar::new(),
        snapshots: SnapshotList::default(),
        debt_bytes: AtomicU64::new(0),
        owed_ns: AtomicU64::new(0),
        flushed_below: AtomicU64::new(0),
        closed: AtomicBool::new(false),
        lock: Mutex::new(lock),
        fs,
    })
}

impl Inner {
    /// Starts the log of this opening and removes what no version refers to. Logs that ended in
    /// the middle of a record are turned into tables first, so that the cut is made only once.
    fn begin_writing(&self, replayed: &Replayed) -> Result<()> {
        self.remove_strays()?;
        let mut core = self.committer.lock();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        core.log = Some(self.start_log(number, replayed.next_ordinal)?);
        let full = replayed.memtable.memory_bytes() as u64 >= self.sizes.load().memtable_bytes / 2;
        if !replayed.memtable.is_empty() && (full || !replayed.clean) {
            self.freeze(&mut core)?;
            drop(core);
            let frozen = self.queue.lock().frozen.front().cloned();
            if let Some(frozen) = frozen {
                self.flush_one(&frozen)?;
            }
        } else if replayed.memtable.is_empty() {
            drop(core);
            let min_wal = Some(number);
            let edit = VersionEdit { min_wal, newest_wal: min_wal, ..VersionEdit::default() };
            self.versions.lock().apply(edit)?;
            self.remove_logs_below(number);
        } else {
            drop(core);
            let edit = VersionEdit { newest_wal: Some(number), ..VersionEdit::default() };
            self.versions.lock().apply(edit)?;
        }
        self.refresh_debt();
        Ok(())
    }

    /// Removes tables and manifests that nothing refers to: a crash left them half made.
    fn remove_strays(&self) -> Result<()> {
        let live: Vec<u64> = self.view.load().version.files().iter().map(|f| f.number).collect();
        let manifest = self.versions.lock().manifest_number();
        for entry in look(&*self.fs, &self.dir)?.entries {
            let stray = match (names::parse_table(&entry.name), names::parse_manifest(&entry.name))
            {
                (Some(number), _) => !live.contains(&number),
                (_, Some(number)) => number != manifest,
                _ => false,
            };
            if stray {
                let path = self.dir.join(&entry.name);
                self.fs.remove(&path).map_err(|e| Error::io(&path, "remove a stray file", e))?;
            }
        }
        Ok(())
    }
}

/// Reads every log from the manifest's on into one memtable, as far as they continue each other.
///
/// With `sync`, each log is made durable as it is read: a process that was killed may have left it
/// unsynced, and a sync write of this opening promises everything before it.
fn replay(
    fs: &dyn Fs,
    dir: &Path,
    options: &Options,
    versions: &VersionSet,
    sync: bool,
) -> Result<Replayed> {
    let memtable = Arc::new(Memtable::new(options.memtable_kind, options.key_order.clone()));
    let mut state = Replayed {
        memtable,
        last_seqno: versions.last_seqno(),
        next_ordinal: 0,
        log_number_max: 0,
        clean: true,
    };
    let mut logs: Vec<u64> =
        look(fs, dir)?.entries.iter().filter_map(|e| names::parse_log(&e.name)).collect();
    logs.sort_unstable();
    // Also of those behind a gap: their names are taken until they are removed.
    state.log_number_max = logs.last().copied().unwrap_or(0);
    for needed in [versions.min_wal(), versions.newest_wal()] {
        if needed != 0 && needed >= versions.min_wal() && !logs.contains(&needed) {
            let message =
                "the manifest names this log, but it is not there; `repair` keeps the rest";
            return Err(Error::corruption(&names::log_path(dir, needed), 0, message));
        }
    }
    let mut expected = None;
    for number in logs {
        if number < versions.min_wal() {
            continue;
        }
        let path = names::log_path(dir, number);
        if !replay_one(fs, &path, number, &mut expected, &mut state)? {
            break;
        }
        if sync {
            let synced = fs.open_write(&path).and_then(|mut log| log.sync());
            synced.map_err(|e| Error::io(&path, "sync the log", e))?;
        }
    }
    state.next_ordinal = expected.unwrap_or(0);
    Ok(state)
}

/// Replays one log; `false` when what follows would leave a hole.
fn replay_one(
    fs: &dyn Fs,
    path: &Path,
    number: u64,
    expected: &mut Option<u64>,
    state: &mut Replayed,
) -> Result<bool> {
    let mut reader = LogReader::open(fs, path, number)?;
    if let (Some(want), Some(first)) = (*expected, reader.first_ordinal())
        && first != want
    {
        // The log before this one ended early: what is here came after a gap.
        state.clean = false;
        return Ok(false);
    }
    if expected.is_none() {
        *expected = reader.first_ordinal();
    }
    if expected.is_none() {
        // The first log lost even its header: nobody knows how many records are missing here, so
        // what follows may come after a gap.
        state.clean = false;
        return Ok(false);
    }
    while let Some(record) = reader.next()? {
        let valid = ops::Ops::new(record.payload).all(|op| op.is_some());
        if !valid {
            let message = "a log record with a valid checksum holds no valid operations";
            return Err(Error::corruption(path, record.offset_bytes, message));
        }
        apply(&state.memtable, record.payload, record.first_seqno);
        let last = record.first_seqno + u64::from(record.count).saturating_sub(1);
        state.last_seqno = state.last_seqno.max(last);
        *expected = Some(record.ordinal + 1);
    }
    if let Some(LogEnd::Torn { .. }) = reader.end() {
        state.clean = false;
    }
    Ok(true)
}
