//! Layer 5: the database handle ([`Db`]). It checks and encodes each call and passes it down.

pub(crate) mod background;
pub mod backup;
pub mod checkpoint;
mod compaction_loop;
mod compaction_yield;
mod created_tables;
pub mod diff;
mod dir;
mod events;
mod expired;
pub mod feed;
pub mod follow;
pub mod fork;
mod hints;
mod info_log;
pub mod ingest;
mod jobs;
pub mod keyspace;
mod keyspace_catalog;
mod keyspace_list;
pub(crate) mod lifecycle;
mod live_status;
mod merge_and_ttl;
mod observers;
pub mod open;
mod pending_wal;
mod published_hints;
mod read_path;
#[cfg(feature = "encryption")]
mod rekey;
pub mod repair;
mod replay;
mod rest;
mod rest_state;
mod rules;
pub(crate) mod runtime;
mod runtime_memory;
mod scrub;
pub mod snapshot;
mod snapshot_list;
mod space_bound;
mod space_state;
mod stall;
mod stall_list;
pub(crate) mod state;
pub mod stats;
pub mod status_file;
mod table_output;
mod thread_roles;
mod threads;
mod tree;
mod trees;
pub mod txn;
mod upgrade_format;
mod value_copies;
mod value_garbage;
pub mod verify;
mod wait;
mod wal_preallocation;
mod write_path;
mod write_throttle;

use std::cell::RefCell;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::base::expiry::Moment;
use crate::base::ops;
use crate::error::{Error, Result};
use crate::metrics::{Metrics, TableEntry};
use crate::options::kinds::Durability;
use crate::options::{self, Mutability};
use crate::read::Slice;
use crate::read::scan::{DbIterator, KeyBounds};
use crate::write::batch::{Batch, check_key, check_value};
use crate::write::commit::LARGE_BYTES;
use lifecycle::OpenHandle;
pub(crate) use read_path::bounds_of_prefix;
use snapshot::Snapshot;
use state::DbInner;

/// Options of one read.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ReadOptions<'a> {
    /// Snapshot to read; the current state when `None`.
    pub snapshot: Option<&'a Snapshot>,
    /// Whether blocks that are read may enter the block cache. Turn it off for long scans.
    /// Default: `true`.
    pub fill_cache: bool,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions { snapshot: None, fill_cache: true }
    }
}

/// Options of one write.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Durability of the write; the store's `durability` option when `None`.
    pub durability: Option<Durability>,
    /// Time after which the write does not wait any more for memory, for the write throttle or for
    /// other writers. It then returns an error of the kind `Busy` that names what it waited for,
    /// and nothing of it is written. `None`, the default: it waits as long as is needed. A write
    /// that need not wait is done, even after this time. The write of its record and the sync are
    /// not cut short. In a store with `background_threads=0` the write that fills a memtable
    /// flushes it, whatever its deadline.
    pub deadline: Option<Instant>,
}

impl<'a> ReadOptions<'a> {
    /// Sets the snapshot to read, or `None` for the current state.
    pub fn snapshot(mut self, snapshot: impl Into<Option<&'a Snapshot>>) -> ReadOptions<'a> {
        self.snapshot = snapshot.into();
        self
    }

    /// Sets whether blocks that are read may enter the cache.
    pub fn fill_cache(mut self, fill_cache: bool) -> ReadOptions<'a> {
        self.fill_cache = fill_cache;
        self
    }
}

impl WriteOptions {
    /// Sets the durability, or `None` for the store's.
    pub fn durability(mut self, durability: impl Into<Option<Durability>>) -> WriteOptions {
        self.durability = durability.into();
        self
    }

    /// Sets the time after which the write does not wait any more, or `None` for no limit.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use std::time::{Duration, Instant};
    /// use esker::{Db, ErrorKind, Options, WriteOptions};
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let by = WriteOptions::default().deadline(Instant::now() + Duration::from_millis(50));
    /// match db.put_with("key", "value", &by) {
    ///     Err(error) if error.kind() == ErrorKind::Busy => eprintln!("not written: {error}"),
    ///     other => other?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline(mut self, deadline: impl Into<Option<Instant>>) -> WriteOptions {
        self.deadline = deadline.into();
        self
    }

    const fn of(durability: Durability) -> WriteOptions {
        WriteOptions { durability: Some(durability), deadline: None }
    }

    /// A write that survives power loss once the call has returned.
    pub const SYNC: WriteOptions = WriteOptions::of(Durability::Sync);
    /// A write that survives `kill -9` once the call has returned. A power loss may lose it, and
    /// then also loses everything written after it.
    pub const BUFFERED: WriteOptions = WriteOptions::of(Durability::Buffered);
    /// A write that is not logged. A crash loses it unless it was flushed before, even where the
    /// writes before and after it survive.
    pub const NONE: WriteOptions = WriteOptions::of(Durability::None);
}

/// An open store. Every call takes `&self` and may come from many threads at once.
///
/// A clone is a further handle of the same store, and costs two reference counts. Dropping the last
/// handle closes the store. [`Db::close`] closes it for all handles and returns the errors of the
/// close.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, Options};
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// db.put("key", "value")?;
/// assert_eq!(&*db.get("key")?.unwrap(), b"value");
/// db.delete("key")?;
/// assert!(db.get("key")?.is_none());
/// db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) inner: Arc<DbInner>,
    open: Arc<OpenHandle>,
}

crate::base::sync::thread_local! {
    /// Buffer in which a single operation is encoded, so that a put does not allocate.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Maximum capacity, in bytes, of a scratch buffer that is kept after use.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

impl Db {
    /// Sets `key` to `value`. An error leaves the store unchanged. `docs/durability.md` describes
    /// what a crash after `Ok` can lose.
    ///
    /// # Errors
    /// `InvalidArgument` for a key over 1 MiB or a value over 1 GiB; `NoSpace`; `Io`; `ReadOnly`
    /// when the store was opened read-only, its log failed, or a write or a store thread panicked.
    ///
    /// # Panics
    /// When a custom key order panics. The store accepts no writes after that. Whether the
    /// panicking write was applied is known only when the store is opened again.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, &WriteOptions::default())
    }

    /// Does the same as [`Db::put`], with explicit write options.
    ///
    /// # Errors
    /// The same as [`Db::put`]; `Busy` when the write would have to wait after its
    /// [deadline](WriteOptions::deadline). Nothing is written then.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(value)?;
        let user_bytes = (key.len() + value.len()) as u64;
        self.write_one(options, user_bytes, |out| ops::encode_put(out, key, value))
    }

    /// Returns the value of `key`, pinned in place without a copy, or `None` when the key does not
    /// exist.
    ///
    /// # Errors
    /// `Corruption` when the block that should hold the key fails its checksum; `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.inner.get_at(None, key.as_ref(), None, true)
    }

    /// Does the same as [`Db::get`], at a snapshot or without filling the cache.
    pub fn get_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<Option<Slice>> {
        self.inner.get_at(None, key.as_ref(), self.moment_of(options)?, options.fill_cache)
    }

    /// Calls `visit` with the value of `key` and returns its result. Returns `None` without calling
    /// `visit` when the key does not exist.
    ///
    /// This is the cheapest get. It does not count a reference on a block in the cache, and such
    /// a count is a point of contention between threads. A value of up to 4 KiB is copied into a
    /// buffer that the thread keeps, and `visit` gets the copy. A longer value is passed in place.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.read("key", |value| value.len())?, Some(5));
    /// assert_eq!(db.read("other", |value| value.len())?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same as [`Db::get`].
    pub fn read<R>(
        &self,
        key: impl AsRef<[u8]>,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.inner.read_at(None, key.as_ref(), None, true, visit)
    }

    /// Does the same as [`Db::read`], at a snapshot or without filling the cache.
    pub fn read_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let (at, fill_cache) = (self.moment_of(options)?, options.fill_cache);
        self.inner.read_at(None, key.as_ref(), at, fill_cache, visit)
    }

    /// Returns the values of many keys as of one moment, in the order of `keys`. A key may occur
    /// more than once.
    ///
    /// Where the store is larger than the CPU caches, this takes about half the time of single
    /// gets, because sixteen keys wait for memory at the same time. File reads are not faster.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// db.put("apple", "red")?;
    /// db.put("lime", "green")?;
    /// let found = db.multi_get(&["lime", "plum", "apple"])?;
    /// let colours: Vec<_> = found.iter().map(|value| value.as_deref()).collect();
    /// assert_eq!(colours, [Some(&b"green"[..]), None, Some(&b"red"[..])]);
    /// # Ok::<(), esker::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Db::get`], when any of the keys cannot be read. No value is returned then.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.inner.multi_get_at(None, keys, None, true)
    }

    /// Does the same as [`Db::multi_get`], at a snapshot or without filling the cache.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions<'_>,
    ) -> Result<Vec<Option<Slice>>> {
        self.inner.multi_get_at(None, keys, self.moment_of(options)?, options.fill_cache)
    }

    /// Returns whether `key` exists.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.inner.get_map(None, key.as_ref(), None, true, |_| ())?.is_some())
    }

    /// Deletes `key` without checking whether it exists.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, &WriteOptions::default())
    }

    /// Does the same as [`Db::delete`], with explicit write options.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        let key = key.as_ref();
        check_key(key)?;
        self.write_one(options, key.len() as u64, |out| ops::encode_delete(out, key))
    }

    /// Deletes `key` and returns whether it existed. No write of another thread comes between the
    /// check and the delete: other writers wait while this call looks the key up, which may read a
    /// file. [`Db::delete`] is cheaper.
    ///
    /// # Errors
    /// As [`Db::get`] and [`Db::put`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        check_key(key)?;
        let mut payload = Vec::with_capacity(key.len() + 8);
        ops::encode_delete(&mut payload, key);
        self.inner.write_if(&payload, 1, key.len() as u64, None, || self.contains_key(key))
    }

    /// Deletes every key in `[start, end)` with one range tombstone. An empty or inverted range is
    /// not an error.
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_range(start, end);
        self.write(&batch)
    }

    /// Applies a batch atomically: all of it becomes visible at once, and a crash keeps all of it
    /// or none.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, &WriteOptions::default())
    }

    /// Does the same as [`Db::write`], with explicit write options; the batch can be used again.
    pub fn write_with(&self, batch: &Batch, options: &WriteOptions) -> Result<()> {
        let (payload, count, user_bytes) = batch.parts()?;
        for keyspace in batch.keyspaces() {
            self.inner.check_keyspace(keyspace)?;
        }
        self.inner.check_operands(batch)?;
        if payload.len() >= LARGE_BYTES {
            self.inner.wait_for_room(payload.len() as u64, options.deadline)?;
        }
        let timed = self.inner.timed_payload(batch);
        let payload = timed.as_deref().unwrap_or(payload);
        let WriteOptions { durability, deadline } = *options;
        self.inner.write_by(payload, count, user_bytes, durability, deadline)
    }

    /// Returns an iterator over every pair, in key order, as of now.
    pub fn iter(&self) -> Result<DbIterator> {
        self.inner.iter_at(None, (Bound::Unbounded, Bound::Unbounded), None, true)
    }

    /// Returns an iterator over the pairs within `range`, such as `"a".."c"` or `"a"..="b"`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<DbIterator> {
        self.inner.iter_at(None, owned_bounds(&range), None, true)
    }

    /// Returns an iterator over the pairs whose key starts with `prefix`.
    ///
    /// # Errors
    /// `InvalidArgument` under a custom key order, which need not keep such keys together.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<DbIterator> {
        let bounds = bounds_of_prefix(&self.inner.order, prefix.as_ref())?;
        self.inner.iter_at(None, bounds, None, true)
    }

    /// Returns an iterator over the pairs within `bounds`, at a snapshot or without filling the
    /// cache.
    pub fn iter_with(&self, options: &ReadOptions<'_>, bounds: KeyBounds) -> Result<DbIterator> {
        self.inner.iter_at(None, bounds, self.moment_of(options)?, options.fill_cache)
    }

    /// Returns a snapshot of the current state. It stays readable until it is dropped.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.inner.clone())
    }

    /// Writes all memtables to tables and waits until that is done.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    /// Makes all earlier logged writes survive power loss, as a `Sync` write would. Writes with
    /// [`Durability::None`] are not logged and need [`Db::flush`].
    pub fn sync(&self) -> Result<()> {
        self.inner.check_writable()?;
        let mut writer = self.inner.committer.lock();
        writer.sync_logs(&*self.inner)
    }

    /// Compacts the keys of the default keyspace between `start` and `end` (all its keys when
    /// `None`) into the deepest level, drops deleted and overwritten entries, and waits until that
    /// is done. [`Keyspace::compact_range`](crate::Keyspace::compact_range) does so for another
    /// keyspace.
    pub fn compact_range(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.inner.compact_range(&self.inner.trees()[0], start, end)
    }

    /// Compacts all keys of every keyspace, as [`Db::compact_range`] does for those of `default`.
    ///
    /// # Errors
    /// As [`Db::compact_range`]. The keyspaces compacted before the error stay compacted.
    pub fn compact_all(&self) -> Result<()> {
        for tree in self.inner.trees().iter() {
            self.inner.compact_range(tree, None, None)?;
        }
        Ok(())
    }

    /// Waits until no flush or compaction is due. Does not wait for the compactions of a store at rest
    /// (option `rest_compaction`): they are never due, and may run when this returns.
    pub fn wait_idle(&self) -> Result<()> {
        self.inner.wait_idle()
    }

    /// Runs the most urgent background job in this call: one flush or one compaction. For a store
    /// in manual background mode (`background_threads=0`). Returns `false` when no job is due. One
    /// caller runs at a time.
    ///
    /// # Errors
    /// `InvalidArgument` in a store with background threads; any error of the job.
    pub fn run_one_job(&self) -> Result<bool> {
        let ran = self.inner.run_background_job();
        self.inner.deliver_events();
        ran
    }

    /// Returns the approximate number of table bytes that hold the keys in `[start, end)`. Data
    /// that is only in memory is not counted.
    pub fn approximate_size(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<u64> {
        self.inner.approximate_size(&self.inner.trees()[0], start.as_ref(), end.as_ref())
    }

    /// Returns the current metrics: the store's state and counters.
    pub fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }

    /// Returns the current table files, ordered by tree, level and number.
    pub fn tables(&self) -> Vec<TableEntry> {
        self.inner.table_entries()
    }

    /// Changes options of the open store, all or none of them. A change does not outlive the
    /// handle.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// db.set_options(&[("policy", "leveled"), ("fan_out", "10")])?;
    /// assert_eq!(db.option("policy").as_deref(), Some("leveled"));
    /// # Ok::<(), esker::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, a bad value, or an option that is fixed while the
    /// store is open; `Io` when a thread that an option needs cannot be started.
    pub fn set_options(&self, pairs: &[(&str, &str)]) -> Result<()> {
        self.inner.check_open()?;
        let _changing = self.inner.options_change.lock();
        let mut next = (**self.inner.options.load()).clone();
        for (name, value) in pairs {
            next.set(name, value)?;
            if let Some(spec) = options::find(name)
                && spec.mutability != Mutability::Live
            {
                let message = format!("{} can be set only when the store is opened", spec.name);
                return Err(Error::invalid(message));
            }
        }
        next.validate()?;
        self.inner.ensure_for(&next)?;
        self.inner.apply_options(next);
        Ok(())
    }

    /// Returns the current value of an option, by its name or an alias. `auto` stays `auto`.
    pub fn option(&self, name: &str) -> Option<String> {
        self.inner.options.load().get(name)
    }

    /// Returns what a crash before this opening lost: one sentence for each log whose end was cut
    /// off. Empty after a clean close.
    pub fn recovery_notes(&self) -> &[String] {
        &self.inner.notes
    }

    /// Returns the absolute path of the store's directory.
    pub fn path(&self) -> &Path {
        &self.inner.dir
    }

    /// Closes the store.
    ///
    /// Stops background work. Flushes operations that no log holds, and a memtable of 4 MiB or
    /// more, which the next opening would otherwise have to read from its log. Then ends the log
    /// with a clean-close marker, which says that the log is complete.
    ///
    /// Slices obtained before stay readable. Snapshots return `Closed`. An existing iterator
    /// continues over the files that it has open. Another opening of the store may have removed
    /// files that the iterator reaches later; that is an `Io` error then.
    pub fn close(self) -> Result<()> {
        self.open.close()
    }

    /// Returns the moment of the given snapshot, which must be of this store.
    fn moment_of(&self, options: &ReadOptions<'_>) -> Result<Option<Moment>> {
        match options.snapshot {
            Some(snapshot) if !Arc::ptr_eq(&snapshot.inner, &self.inner) => Err(Error::invalid(
                "the snapshot belongs to another store or to another handle; take a snapshot from \
                 this handle",
            )),
            snapshot => Ok(snapshot.map(|s| s.moment)),
        }
    }

    fn write_one(
        &self,
        options: &WriteOptions,
        user_bytes: u64,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        if user_bytes >= LARGE_BYTES as u64 {
            // Wait before the operation is copied.
            self.inner.wait_for_room(user_bytes, options.deadline)?;
        }
        SCRATCH.with(|scratch| {
            let Ok(mut scratch) = scratch.try_borrow_mut() else {
                return Err(Error::invalid(
                    "this thread is already in a write; a comparator must not write to a store",
                ));
            };
            let scratch = &mut *scratch;
            scratch.clear();
            encode(scratch);
            let WriteOptions { durability, deadline } = *options;
            let result = self.inner.write_by(scratch, 1, user_bytes, durability, deadline);
            if scratch.capacity() > SCRATCH_BYTES_MAX {
                *scratch = Vec::new();
            }
            result
        })
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Db({})", self.inner.dir.display())
    }
}

pub(crate) fn owned_bounds<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyBounds {
    let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (own(range.start_bound()), own(range.end_bound()))
}
