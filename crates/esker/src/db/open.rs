//! Opening a store: the lock, the manifest, the log, and recovery after a crash.
//!
//! Invariants:
//! * Nothing in a directory is changed before it is known to be an Esker store, of a readable
//!   version and with the given key order.
//! * `CURRENT` is the last file that a new store gets.
//! * Recovery keeps a prefix of the logged writes.

use crate::base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::base::sync::{Condvar, Mutex};
use arc_swap::ArcSwap;

use super::Db;
use super::dir::{DirListing, list_dir};
use super::feed::Feed;
use super::keyspace_list::KeyspaceList;
use super::lifecycle::OpenHandle;
use super::lifecycle::sizes_here;
use super::observers::Observers;
use super::published_hints::PublishedHints;
use super::replay::{Replayed, Spill, replay};
use super::rules::default_rules;
use super::runtime::{RuntimeShare, StoreMemory, check_runtime};
use super::snapshot_list::SnapshotList;
use super::state::{DbInner, Frozen, NextLog, Queue, WriteParams};
use super::thread_roles::Threads;
use super::tree::{Tree, known_orders, trees_of};
use super::value_garbage::held_by;
use super::write_throttle::WriteThrottle;
use crate::base::epoch_cell::EpochCell;
use crate::base::expiry::StoreClock;
use crate::base::format_version::FormatVersion;
use crate::base::keyspace_rules::KeyspaceRules;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::OsFs;
use crate::fs::{DirEntry, FileLock, Fs, absolute, fork, parent_of, pinned, sync_dir};
use crate::metrics::Counters;
use crate::options::Options;
use crate::options::validate::Sizes;
use crate::read::ReadState;
use crate::table::ReadConfig;
use crate::tree::current::Current;
use crate::tree::edit::VersionEdit;
use crate::tree::forest::Forest;
use crate::tree::manifest;
use crate::tree::names;
use crate::tree::set::VersionSet;
use crate::tree::tables::Tables;
use crate::tree::value_files::ValueFiles;
use crate::txn::Transactions;
use crate::txn::oracle::CommitOracle;
use crate::wal::format::LogStart;
use crate::write::commit::Committer;
use crate::write::hints::HintKeeper;
use crate::write::writer_state::{Visible, WriterState};

/// Maximum number of replayed logs that stay logs. More are flushed to tables at open, because
/// each log costs a sync at every opening.
const REPLAYED_LOGS_MAX: usize = 3;

impl Db {
    /// Opens the store in the directory `path`. Creates it if it does not exist, unless
    /// `create_if_missing` is off.
    ///
    /// The store keeps the directory open. It continues in that directory when the directory is
    /// renamed, or when the process changes its working directory. [`Db::path`] and messages show
    /// the absolute path at the time of this call. When the directory is removed, calls that need
    /// a new file fail with a message that says so, at the latest [`Db::close`]. Nothing is
    /// created in a directory that has the same name later. Outside Linux, the store continues
    /// under the absolute path instead: do not rename or remove the directory of an open store.
    ///
    /// # Threads and fork
    /// The store has two threads when this returns, and starts others when they have work.
    /// `background_threads` limits the number of compaction threads. A store with a
    /// [`Runtime`](crate::Runtime) has no thread: the workers of the runtime do its work.
    ///
    /// A process may `fork` at any moment. No store thread is partly started or partly ended in
    /// the child. The inherited stores refuse the child, which may open other stores. This holds
    /// for forks through the C library (`fork`, Python's `os.fork`). It does not hold for:
    /// * a `clone` system call that bypasses the C library;
    /// * threads that the program starts itself: a child that is forked while such a thread starts
    ///   or ends may hang when it starts a thread, and so when it opens a store;
    /// * the one-time initialization that a process does when it opens its first store;
    /// * systems other than Linux: a child that is forked while a store's thread starts or ends may
    ///   hang when it opens a store.
    ///
    /// # Errors
    /// * `NotFound` when there is no store and `create_if_missing` is off.
    /// * `Locked` when another process or handle has the store open; the message names it.
    /// * `Incompatible` when the directory belongs to another kind of store or to a newer version,
    ///   or the store was created with another key order or has another merge operator.
    /// * `Corruption` when acknowledged data is damaged.
    /// * `InvalidArgument`, `NoSpace`, `Io`. `Io` also when the process has reached its limit of
    ///   file descriptors, threads or memory mappings.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_on(OsFs::shared(), path, options)
    }

    /// Does the same as [`Db::open`], on the given file system.
    pub fn open_on(fs: Arc<dyn Fs>, path: impl AsRef<Path>, options: Options) -> Result<Db> {
        options.validate()?;
        check_runtime(&options)?;
        let dir = &*absolute(&*fs, path.as_ref())?;
        let found = list_dir(&*fs, dir)?;
        let exists = found.is_store(dir)?;
        if exists {
            refuse_newer(&*fs, dir, options.thresholds.newest_format)?;
        }
        if exists && options.error_if_exists {
            return Err(
                Error::invalid("the store exists, and error_if_exists is set").with_path(dir)
            );
        }
        if !exists && !options.create_if_missing {
            let message = "the store does not exist, and create_if_missing is off";
            return Err(Error::not_found(message).with_path(dir));
        }
        let (fs, lock) = take_lock(&fs, dir)?;
        // List the directory again under the lock: another process may have created the store.
        let found = list_dir(&*fs, dir)?;
        if !found.is_store(dir)? {
            create_store(&fs, dir, &options, &found)?;
        }
        open_existing(fs, dir, options, Some(lock))
    }

    /// Opens the store in its current state, for reading. The store may be open elsewhere, also
    /// for writing. Later writes are not visible through this handle. Nothing on disk is changed.
    ///
    /// # Errors
    /// `NotFound` when there is no store; otherwise the errors of [`Db::open`] except `Locked`.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_read_only_on(OsFs::shared(), path, options)
    }

    /// Does the same as [`Db::open_read_only`], on the given file system.
    pub fn open_read_only_on(
        fs: Arc<dyn Fs>,
        path: impl AsRef<Path>,
        options: Options,
    ) -> Result<Db> {
        options.validate()?;
        check_runtime(&options)?;
        let dir = &*absolute(&*fs, path.as_ref())?;
        if !list_dir(&*fs, dir)?.is_store(dir)? {
            return Err(Error::not_found("there is no store here").with_path(dir));
        }
        refuse_newer(&*fs, dir, options.thresholds.newest_format)?;
        let fs = pinned(&fs, dir)?;
        let mut last = None;
        // A writer may replace the manifest or remove a log between two of our steps, so retry.
        for _ in 0..10 {
            if !list_dir(&*fs, dir)?.is_store(dir)? {
                return Err(Error::not_found("there is no store here").with_path(dir));
            }
            match open_existing(fs.clone(), dir, options.clone(), None) {
                Err(error) if error.is_missing_file() || error.is_corruption() => {
                    last = Some(error)
                }
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| Error::not_found("there is no store here").with_path(dir)))
    }

    /// Removes a store: the files that the store created, by name, and then the directory if it is
    /// empty. Foreign files are left alone.
    ///
    /// # Errors
    /// `NotFound` when the directory holds no store, `Locked` while the store is open,
    /// `Incompatible` for the directory of another kind of store, `Io`.
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        Db::destroy_on(OsFs::shared(), path)
    }

    /// Does the same as [`Db::destroy`], on the given file system.
    #[doc(hidden)]
    pub fn destroy_on(fs: Arc<dyn Fs>, path: impl AsRef<Path>) -> Result<()> {
        let dir = &*absolute(&*fs, path.as_ref())?;
        let found = list_dir(&*fs, dir)?;
        found.refuse_foreign(dir)?;
        refuse_newer(&*fs, dir, FormatVersion::NEWEST)?;
        let is_of_a_store = |name: &str| {
            names::is_store_file(name) && (!names::is_side_file(name) || name == names::LOCK)
        };
        if !found.entries.iter().any(|e| is_of_a_store(&e.name)) {
            return Err(Error::not_found("there is no store here").with_path(dir));
        }
        let (fs, lock) = take_lock(&fs, dir)?;
        // List again: the lock's own file exists now.
        let found = list_dir(&*fs, dir)?;
        // CURRENT first: without it the remaining files are not a store. Then the files without
        // content, which alone would not be recognised as the remains of a store.
        let mut store_files: Vec<&DirEntry> =
            found.entries.iter().filter(|e| e.is_file && names::is_store_file(&e.name)).collect();
        let turn = |name: &str| match name {
            names::CURRENT => 0,
            names::LOCK => 3,
            _ if names::is_side_file(name) => 1,
            _ => 2,
        };
        store_files.sort_by_key(|e| turn(&e.name));
        for entry in store_files {
            let path = dir.join(&entry.name);
            fs.remove(&path).map_err(|e| Error::io(&path, "remove a file of the store", e))?;
            if entry.name == names::CURRENT {
                sync_dir(&*fs, dir)?;
            }
        }
        drop(lock);
        let _ = fs.remove_dir(dir);
        Ok(())
    }
}

/// Refuses a store whose format version is newer than `newest`, before anything in it is changed.
/// Where `CURRENT` cannot be read, the headers of the manifests state the version.
pub(super) fn refuse_newer(fs: &dyn Fs, dir: &Path, newest: FormatVersion) -> Result<()> {
    match Current::read_up_to(fs, dir, newest) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Incompatible => Err(error),
        Err(_) => match version_of_manifests(fs, dir)? {
            Some(found) if found > newest.number() => Err(newest.newer(found).with_path(dir)),
            _ => Ok(()),
        },
    }
}

/// Returns the newest format version that the manifests in `dir` state. One of them may be the remains
/// of an interrupted upgrade.
pub(super) fn version_of_manifests(fs: &dyn Fs, dir: &Path) -> Result<Option<u32>> {
    let entries = list_dir(fs, dir)?.entries;
    let numbers = entries.iter().filter_map(|entry| names::parse_manifest(&entry.name));
    Ok(numbers.filter_map(|number| manifest::version_of(fs, dir, number)).max())
}

/// Takes the store's lock and creates the directory if needed. Pins the directory: later
/// operations work in this directory, whatever its name becomes.
pub(super) fn take_lock(fs: &Arc<dyn Fs>, dir: &Path) -> Result<(Arc<dyn Fs>, Box<dyn FileLock>)> {
    if !fs.exists(dir).map_err(|e| Error::io(dir, "inspect the directory", e))? {
        fs.create_dir(dir).map_err(|e| Error::io(dir, "create the directory", e))?;
    }
    let fs = pinned(fs, dir)?;
    let path = dir.join(names::LOCK);
    let holder = format!("process {}", std::process::id());
    match fs.lock(&path, &holder) {
        Ok(lock) => Ok((fs, lock)),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            let holder = fs.read(&path, 256).unwrap_or_default();
            let holder = String::from_utf8_lossy(&holder).trim().to_string();
            let holder_text =
                if holder.is_empty() { "another process".to_string() } else { holder };
            let message =
                format!("the store is open in {holder_text}; open it read-only, or close it there");
            Err(Error::new(ErrorKind::Locked, message).with_path(dir))
        }
        Err(error) => Err(Error::io(&path, "lock the store", error)),
    }
}

/// Creates an empty store, after removing the remains of an interrupted creation.
fn create_store(fs: &Arc<dyn Fs>, dir: &Path, options: &Options, found: &DirListing) -> Result<()> {
    for entry in &found.entries {
        if entry.is_file && names::is_store_file(&entry.name) && !names::is_side_file(&entry.name) {
            let path = dir.join(&entry.name);
            fs.remove(&path)
                .map_err(|e| Error::io(&path, "remove the files of an interrupted creation", e))?;
        }
    }
    fs.share_keys(None, dir)?;
    // Needed even if the directory existed: its creator may have failed before this sync.
    sync_dir(&**fs, &parent_of(dir))?;
    let format = u32::try_from(options.format_version).ok().and_then(FormatVersion::from_number);
    let store = (fs.unique_number(), format.unwrap_or(FormatVersion::NEWEST));
    VersionSet::create(fs.clone(), dir, options.key_order.clone(), store, VersionEdit::default())
}

/// Returns the tables of the store, none of which is open.
pub(super) fn tables_of(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    memory: &StoreMemory,
    (read_only, values): (bool, &Arc<ValueFiles>),
) -> Arc<Tables> {
    let config = ReadConfig {
        order: options.key_order.clone(),
        index_search: options.index_search,
        index_fanout: options.index_fanout as usize,
        cache: memory.cache.clone(),
        cache_store: memory.cache_store,
        pages: memory.pages.clone(),
        filter_policy: options.filter_policy.clone(),
        // A file that the writer of a live store removes must stay readable.
        keep_open: options.keep_files_open || read_only,
        direct: options.direct_io,
        index_budget: memory.index_budget.clone(),
        is_flushed: false,
        index_credit_bytes: 0,
    };
    let open_files_max = if read_only { u64::MAX } else { options.open_files_max };
    let tables = Tables::new(fs.clone(), dir.to_path_buf(), config, open_files_max);
    values.limit_open(open_files_max);
    let tables = tables.with_values(values.clone());
    Arc::new(tables.with_thresholds(options.thresholds))
}

/// Opens the tables and value files of a forest that are not open. Files that the writer removes from
/// now on stay readable through these handles.
pub(super) fn open_tables(trees: &[Arc<Tree>], forest: &Forest) -> Result<()> {
    for (tree, version) in trees.iter().zip(forest.trees()) {
        for file in version.files() {
            tree.tables.get(&file)?;
            file.values().iter().try_for_each(|values| values.reader().map(drop))?;
        }
    }
    Ok(())
}

fn open_existing(
    fs: Arc<dyn Fs>,
    dir: &Path,
    options: Options,
    lock: Option<Box<dyn FileLock>>,
) -> Result<Db> {
    let began = Instant::now();
    let read_only = lock.is_none();
    let sizes = sizes_here(&options);
    let memory = StoreMemory::of(&options, &sizes);
    let mut versions = VersionSet::recover(fs.clone(), dir, known_orders(&options), read_only)?;
    versions.rewrite_beyond(options.manifest_size_min_bytes);
    versions.set_thresholds(&options.thresholds);
    let tables = tables_of(&fs, dir, &options, &memory, (read_only, versions.values()));
    let trees = trees_of(versions.catalog(), &options, &tables);
    if read_only {
        open_tables(&trees, &versions.current())?;
    }
    let clock = Arc::new(StoreClock::new(options.clock.clone()));
    let rules =
        default_rules(versions.catalog(), &options, &clock).map_err(|e| e.with_path(dir))?;
    let mut spill = Spill::new(fs.clone(), dir, &options, &trees, &rules);
    let to_tables = (!read_only).then_some(&mut spill);
    let resources = (&options, &sizes, memory.pool.clone());
    let with = (&trees[..], &*rules);
    let replayed = replay(&*fs, dir, resources, with, &mut versions, to_tables)?;
    let options = (options, sizes);
    let inner = assemble(fs, dir, options, lock, memory, (trees, rules), versions, &replayed);
    inner.note_expiring_tables();
    if !read_only {
        inner.watch_removals();
        inner.begin_writing(&replayed).inspect_err(|error| inner.announce_failed_open(error))?;
    }
    inner.load_prepared().inspect_err(|error| inner.announce_failed_open(error))?;
    if !read_only {
        inner.start_threads().inspect_err(|error| inner.announce_failed_open(error))?;
        inner.open_feed().inspect_err(|error| inner.announce_failed_open(error))?;
    }
    inner.announce_open(&replayed, began.elapsed());
    let open = Arc::new(OpenHandle::new(inner.clone()));
    Ok(Db { inner, open })
}

/// Number of openings of stores in this process.
static OPENINGS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Returns the writer state after the recovery. It has no log yet.
fn first_writer(
    options: &Options,
    transactions: &Transactions,
    replayed: &Replayed,
) -> WriterState {
    WriterState {
        log: None,
        unsynced_logs: Vec::new(),
        memtables: replayed.memtables.clone(),
        others_bytes: replayed.memtables.others_bytes() as u64,
        next_seqno: replayed.last_seqno + 1,
        recovered: false,
        logs_all: false,
        unlogged: false,
        next_log_requested: false,
        hints: HintKeeper::new(options.key_order.clone(), &options.thresholds),
        tree_hints: Default::default(),
        oracle: CommitOracle::new(transactions.watch.clone(), replayed.last_seqno),
        poisoned: None,
        visible: Arc::new(Visible::new(replayed.last_seqno)),
    }
}

/// Puts the state of an open store together. Without a lock it is read-only.
#[allow(clippy::too_many_arguments)]
pub(super) fn assemble(
    fs: Arc<dyn Fs>,
    dir: &Path,
    (options, sizes): (Options, Sizes),
    lock: Option<Box<dyn FileLock>>,
    StoreMemory { cache, cache_store, .. }: StoreMemory,
    (trees, rules): (Vec<Arc<Tree>>, Arc<KeyspaceRules>),
    versions: VersionSet,
    replayed: &Replayed,
) -> Arc<DbInner> {
    let (transactions, shared) = (Transactions::default(), options.clone());
    let writer = first_writer(&options, &transactions, replayed);
    let mut memtables = replayed.full.iter().chain([&replayed.memtables]);
    let oldest = memtables.next().unwrap_or(&replayed.memtables);
    let read_state = ReadState::of_trees(oldest, &versions.current());
    let read_state = memtables.fold(read_state, |state, next| state.after_freeze(next));
    let is_working = lock.is_some() && sizes.compaction_threads > 0;
    let opening = OPENINGS.fetch_add(1, Ordering::Relaxed);
    let keyspaces = KeyspaceList::new(versions.catalog(), opening, &options, &rules.clock);
    Arc::new_cyclic(|me| DbInner {
        keyspaces: Arc::new(Mutex::new(keyspaces)),
        rules,
        expired_files_from_ms: AtomicU64::new(0),
        dropped: Mutex::new(versions.catalog().dropped().collect()),
        opening,
        me: me.clone(),
        dir: PathBuf::from(dir),
        read_only: lock.is_none(),
        observers: Observers::new(&fs, dir, &options, lock.is_none()),
        order: options.key_order.clone(),
        write_throttle: WriteThrottle::default(),
        write_params: WriteParams::new(&options, &sizes),
        sizes: ArcSwap::from_pointee(sizes),
        options: ArcSwap::from_pointee(options),
        read_state: EpochCell::new(Arc::new(read_state), cache.collector().clone()),
        read_state_change: Mutex::new(()),
        options_change: Mutex::new(()),
        hints: PublishedHints::default(),
        committer: Committer::new(writer),
        transactions,
        tables: trees[0].tables.clone(),
        trees: ArcSwap::from_pointee(trees),
        cache,
        counters: Counters::default(),
        scrub_problem: Mutex::new(None),
        purger: versions.purger(),
        format: AtomicU32::new(versions.format().number()),
        versions: Mutex::new(versions),
        pool: replayed.pool.clone(),
        notes: replayed.notes.clone(),
        numbers: replayed.numbers.clone(),
        ids: AtomicU64::new(fs.unique_number()),
        queue: Mutex::new(Queue::default()),
        manual_job: Mutex::new(()),
        work: Condvar::new(),
        idle: Condvar::new(),
        snapshots: SnapshotList::default(),
        debt_bytes: AtomicU64::new(0),
        space_bound: Default::default(),
        flushed_below: AtomicU64::new(0),
        feed: Feed::default(),
        closed: AtomicBool::new(false),
        broken: AtomicBool::new(false),
        share: RuntimeShare::of(&shared, cache_store, is_working, me.clone()),
        threads: Threads::default(),
        process: fork::process(),
        lock: Mutex::new(lock),
        fs,
    })
}

impl DbInner {
    /// Starts the log of this opening and removes files that no version refers to.
    ///
    /// A store that was not closed may have failed in a sync, or before one. Then the content that
    /// was read from its files may be in the page cache only, and a second sync would not report
    /// that (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
    /// So the logs become tables, the manifest and `CURRENT` are rewritten, and only then is a log
    /// removed. The flush thread writes the tables after the opening, and a sync waits for them
    /// ([`WriterState::recovered`]). Without threads the opening writes them. The clean-close marker
    /// says that everything was synced. Many logs of short openings become a table, too.
    fn begin_writing(&self, replayed: &Replayed) -> Result<()> {
        self.resize_cache();
        self.open_slots()?;
        if replayed.closed {
            self.remove_strays()?;
        } else {
            self.sync_kept_logs(self.numbers.load(Ordering::Relaxed))?;
            self.versions.lock().renew();
        }
        self.store_merge_operator()?;
        for number in &replayed.unused {
            // Remove it durably before the manifest names a newer log: starting that log syncs the
            // directory.
            let path = names::log_path(&self.dir, *number);
            self.fs.remove(&path).map_err(|e| Error::io(&path, "remove an unused log", e))?;
        }
        let mut writer = self.committer.lock();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let start = LogStart {
            first_ordinal: replayed.next_ordinal,
            first_seqno: writer.next_seqno,
            durable_ordinal: if replayed.closed { replayed.next_ordinal } else { 0 },
        };
        writer.log = Some(self.start_log(number, start)?);
        let is_large =
            replayed.memtables.memory_bytes() as u64 >= self.sizes.load().memtable_bytes / 2;
        let is_due = is_large || replayed.logs > REPLAYED_LOGS_MAX || !replayed.closed;
        // Without threads the replay has flushed the full memtables itself.
        let to_tables = !replayed.full.is_empty() || (is_due && !replayed.memtables.is_empty());
        if to_tables && !self.is_manual_background() {
            writer.recovered = !replayed.closed;
            let edit = VersionEdit { newest_wal: Some(number), ..VersionEdit::default() };
            self.versions.lock().apply(edit)?;
            let next_log = NextLog { number, first_ordinal: start.first_ordinal };
            self.queue_recovered(&mut writer, replayed, next_log);
            drop(writer);
        } else if to_tables {
            self.freeze(&mut writer)?;
            drop(writer);
            let frozen = self.queue.lock().frozen.front().cloned();
            if let Some(frozen) = frozen {
                self.flush_one(&frozen)?;
            }
        } else if replayed.memtables.is_empty() {
            drop(writer);
            let min_wal = Some(number);
            let edit = VersionEdit {
                min_wal,
                min_wal_ordinal: Some(start.first_ordinal),
                newest_wal: min_wal,
                ..VersionEdit::default()
            };
            self.versions.lock().apply(edit)?;
            self.remove_logs_below(number);
        } else {
            drop(writer);
            let edit = VersionEdit { newest_wal: Some(number), ..VersionEdit::default() };
            self.versions.lock().apply(edit)?;
        }
        if !replayed.closed {
            self.remove_strays()?;
        }
        self.refresh_debt();
        self.measure_values();
        Ok(())
    }

    /// Leaves the recovered memtables to the flush thread, or to the workers of the runtime, which do
    /// nothing for this store yet.
    fn queue_recovered(&self, writer: &mut WriterState, replayed: &Replayed, next_log: NextLog) {
        let fresh = self.fresh_memtables(replayed.memtables.memory_bytes() as u64);
        writer.memtables = fresh.clone();
        writer.others_bytes = 0;
        let mut queue = self.queue.lock();
        for memtables in &replayed.full {
            queue.frozen.push_back(Frozen { memtables: memtables.clone(), next_log: None });
        }
        let memtables = replayed.memtables.clone();
        queue.frozen.push_back(Frozen { memtables, next_log: Some(next_log) });
        queue.recovered = queue.frozen.len();
        self.replace_read_state(|view| view.after_freeze(&fresh));
        self.update_near_stall(queue.frozen.len());
        if let Some(account) = self.account() {
            account.note_freeze(queue.frozen_bytes());
        }
    }

    /// Removes unreferenced tables and manifests, which a crash left incomplete.
    fn remove_strays(&self) -> Result<()> {
        let files = self.read_state.load().files();
        let live: Vec<u64> = files.iter().map(|f| f.number).collect();
        let live_values = held_by(&files);
        let manifest = self.versions.lock().manifest_number();
        let counted = self.numbers.load(Ordering::Relaxed);
        for entry in list_dir(&*self.fs, &self.dir)?.entries {
            let stray = match (names::parse_table(&entry.name), names::parse_manifest(&entry.name))
            {
                (Some(number), _) => names::is_reached(number, counted) && !live.contains(&number),
                (_, Some(number)) => names::is_reached(number, manifest) && number != manifest,
                _ => names::parse_value_file(&entry.name).is_some_and(|number| {
                    names::is_reached(number, counted) && !live_values.contains_key(&number)
                }),
            };
            if stray {
                let path = self.dir.join(&entry.name);
                self.fs.remove(&path).map_err(|e| Error::io(&path, "remove a stray file", e))?;
            }
        }
        Ok(())
    }
}
