//! Layer 5: the handle. Thin: every call is checked, encoded and passed down.

pub(crate) mod background;
pub mod backup;
pub mod checkpoint;
mod hints;
mod next_log;
pub mod open;
mod pace;
pub mod repair;
mod replay;
mod rest;
mod roles;
mod scrub;
pub mod snapshot;
pub(crate) mod state;
pub mod stats;
pub mod verify;
mod wait;

use std::cell::RefCell;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use crate::base::sync::Mutex;

use crate::base::key::SeqNo;
use crate::base::ops;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{Metrics, TableEntry};
use crate::options::kinds::Durability;
use crate::options::{self, When};
use crate::read::Slice;
use crate::read::scan::{DbIterator, KeyBounds};
use crate::write::batch::{Batch, check_key, check_value};
use crate::write::commit::LARGE_BYTES;
use roles::contained;
use snapshot::Snapshot;
use state::Inner;

/// How one read is made.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// Read the store as it was then; now when `None`.
    pub snapshot: Option<&'a Snapshot>,
    /// Whether blocks read may enter the cache. Turn off for long scans. Default `true`.
    pub fill_cache: bool,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions { snapshot: None, fill_cache: true }
    }
}

/// How one write is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    /// How it survives; the store's `durability` option when `None`.
    pub durability: Option<Durability>,
}

impl WriteOptions {
    /// A write that survives power loss once the call returned.
    pub const SYNC: WriteOptions = WriteOptions { durability: Some(Durability::Sync) };
    /// A write that survives `kill -9` once the call returned; a power loss may take it, and then
    /// everything written after it too.
    pub const BUFFERED: WriteOptions = WriteOptions { durability: Some(Durability::Buffered) };
    /// A write that is not logged: lost, alone among its neighbours, unless flushed first.
    pub const NONE: WriteOptions = WriteOptions { durability: Some(Durability::None) };
}

/// An open store. Every call takes `&self` and may come from many threads at once.
///
/// Dropping the handle closes the store; [`Db::close`] also says whether that went well.
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
pub struct Db {
    pub(crate) inner: Arc<Inner>,
    /// Held while it is shut.
    shutting: Mutex<()>,
}

crate::base::sync::thread_local! {
    /// Where a single operation is encoded, so that a put allocates nothing.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A scratch buffer larger than this is given back after use.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

impl Db {
    /// Sets `key` to `value`. An error leaves the store as it was; see `docs/durability.md` for
    /// what a crash after `Ok` can take.
    ///
    /// # Errors
    /// `InvalidArgument` for a key over 1 MiB or a value over 1 GiB, `NoSpace`, `Io`, `ReadOnly`:
    /// the store was opened read-only, its log failed, or a write or a thread of it panicked.
    ///
    /// # Panics
    /// When a key order of the caller's own does. The store takes no writes after that; whether the
    /// one that panicked is there is known when the store is opened again.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, &WriteOptions::default())
    }

    /// [`Db::put`] with a durability of its own.
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

    /// The value of `key`, pinned where it lies, or `None`.
    ///
    /// # Errors
    /// `Corruption` when the block that should hold it fails its checksum; `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.inner.get_at(key.as_ref(), None, true)
    }

    /// [`Db::get`] at a snapshot or past the cache.
    pub fn get_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<Option<Slice>> {
        self.inner.get_at(key.as_ref(), self.seqno_of(options)?, options.fill_cache)
    }

    /// Copies the value of `key` into `value` (replacing what was there); `false` when the key is
    /// not there, and `value` is then empty.
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.inner.copy_at(key.as_ref(), None, true, value)?;
        if let Some(Some(pinned)) = &found {
            value.extend_from_slice(pinned);
        }
        Ok(found.is_some())
    }

    /// Hands the value of `key` to `see` and returns what that makes of it; `None`, and `see` is not
    /// called, when the key is not there. The cheapest get: of a block in the cache it counts no users,
    /// for which threads would wait for each other. A value of up to 4 KiB is seen in a copy, in memory
    /// that the thread keeps for it, a longer one where it lies.
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
    /// As [`Db::get`].
    pub fn read<R>(
        &self,
        key: impl AsRef<[u8]>,
        see: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.inner.read_at(key.as_ref(), None, true, see)
    }

    /// [`Db::read`] at a snapshot or past the cache.
    pub fn read_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
        see: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let (seqno, fill_cache) = (self.seqno_of(options)?, options.fill_cache);
        self.inner.read_at(key.as_ref(), seqno, fill_cache, see)
    }

    /// The values of many keys as of one moment, in their order; a key may come twice. Where the store
    /// is larger than the processor's caches this takes about half of what gets one by one do: sixteen
    /// keys wait for memory at the same time. It is no faster at reading files.
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
    /// As [`Db::get`], for whichever key cannot be read; then none is returned.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.inner.multi_get_at(keys, None)
    }

    /// Whether `key` is there.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.inner.take_at(key.as_ref(), None, true, |_| ())?.is_some())
    }

    /// Deletes `key`, whether it is there or not, without looking.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, &WriteOptions::default())
    }

    /// [`Db::delete`] with a durability of its own.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        let key = key.as_ref();
        check_key(key)?;
        self.write_one(options, key.len() as u64, |out| ops::encode_delete(out, key))
    }

    /// Deletes `key` and says whether it was there. Looks first: a concurrent write of the same
    /// key may come between.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        if !self.contains_key(key)? {
            return Ok(false);
        }
        self.delete(key)?;
        Ok(true)
    }

    /// Deletes every key in `[start, end)` with one record. An empty or inverted range is no error.
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_range(start, end);
        self.write(batch)
    }

    /// Applies a batch: all of it becomes visible at once and survives a crash whole or not at all.
    pub fn write(&self, batch: Batch) -> Result<()> {
        self.write_with(&batch, &WriteOptions::default())
    }

    /// [`Db::write`] with a durability of its own; the batch can be used again.
    pub fn write_with(&self, batch: &Batch, options: &WriteOptions) -> Result<()> {
        let (payload, count, user_bytes) = batch.parts()?;
        if payload.len() >= LARGE_BYTES {
            self.inner.wait_for_room(payload.len() as u64)?;
        }
        self.inner.write(payload, count, user_bytes, options.durability)
    }

    /// Every pair, in key order, as of now.
    pub fn iter(&self) -> Result<DbIterator> {
        self.inner.iter_at((Bound::Unbounded, Bound::Unbounded), None, true)
    }

    /// The pairs within `range`, such as `"a".."c"` or `"a"..="b"`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<DbIterator> {
        self.inner.iter_at(owned_bounds(&range), None, true)
    }

    /// The pairs whose key starts with `prefix`.
    ///
    /// # Errors
    /// `InvalidArgument` under a custom order, which need not keep such keys together.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<DbIterator> {
        let bounds = self.inner.prefix_bounds(prefix.as_ref())?;
        self.inner.iter_at(bounds, None, true)
    }

    /// The pairs within `bounds`, at a snapshot or past the cache.
    pub fn iter_with(&self, options: &ReadOptions<'_>, bounds: KeyBounds) -> Result<DbIterator> {
        self.inner.iter_at(bounds, self.seqno_of(options)?, options.fill_cache)
    }

    /// The store as it is now, readable until dropped.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.inner.clone())
    }

    /// Writes everything in memory to tables and waits for it.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    /// Makes everything written so far survive power loss, as a `Sync` write would.
    pub fn sync(&self) -> Result<()> {
        self.inner.check_writable()?;
        let mut core = self.inner.committer.lock();
        core.sync_logs(&*self.inner)
    }

    /// Merges the keys between `start` and `end` (everything when `None`) into the deepest level,
    /// dropping what is deleted or overwritten, and waits for it.
    pub fn compact_range(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.inner.compact_range(start, end)
    }

    /// Waits until no flush or compaction is due.
    pub fn wait_idle(&self) -> Result<()> {
        self.inner.wait_idle()
    }

    /// In a store opened with `background_threads=0`, does the most urgent piece of work here and
    /// now: one flush or one compaction. `false` when there is none. One caller at a time.
    ///
    /// # Errors
    /// `InvalidArgument` in a store with threads; whatever the work fails with.
    pub fn run_one_job(&self) -> Result<bool> {
        self.inner.run_one_job()
    }

    /// Roughly how many bytes of tables hold the keys in `[start, end)`. What is only in memory
    /// is not counted.
    pub fn approximate_size(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<u64> {
        self.inner.approximate_size(start.as_ref(), end.as_ref())
    }

    /// A picture of the store's state and counters.
    pub fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }

    /// The table files of the store at this moment, by level and number.
    pub fn tables(&self) -> Vec<TableEntry> {
        self.inner.table_entries()
    }

    /// Changes an option that can change while the store is open.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, a bad value, or an option fixed at open; `Io` when the
    /// thread that an option needs cannot be started.
    pub fn set_option(&self, name: &str, value: &str) -> Result<()> {
        self.set_options(&[(name, value)])
    }

    /// Changes several options at once: all of them or, on an error, none.
    pub fn set_options(&self, pairs: &[(&str, &str)]) -> Result<()> {
        self.inner.check_open()?;
        let _changing = self.inner.options_change.lock();
        let mut next = (**self.inner.options.load()).clone();
        for (name, value) in pairs {
            next.set(name, value)?;
            if let Some(knob) = options::find(name)
                && knob.when != When::Live
            {
                let message = format!("{} is set when the store is opened", knob.name);
                return Err(Error::invalid(message));
            }
        }
        next.validate()?;
        self.inner.ensure_for(&next)?;
        self.inner.adopt(next);
        Ok(())
    }

    /// The value of an option now, by its name or an alias; `auto` stays `auto`.
    pub fn option(&self, name: &str) -> Option<String> {
        self.inner.options.load().get(name)
    }

    /// What a crash before this opening took, one sentence for each log whose end was cut; empty
    /// after a clean close.
    pub fn recovery_notes(&self) -> &[String] {
        &self.inner.notes
    }

    /// Where the store is.
    pub fn path(&self) -> &Path {
        &self.inner.dir
    }

    /// Stops background work, flushes what no log holds, and a memtable of 4 MiB and more, which
    /// would have to be read from its log when the store is opened, and closes the log with a mark
    /// that says it is whole. Slices made before stay readable; snapshots return `Closed`. An
    /// iterator made before goes on over what it has open, but another opening of the store may have
    /// removed files it comes to, which is an `Io` error then.
    pub fn close(self) -> Result<()> {
        self.shut()
    }

    /// The sequence number of the snapshot asked for, which must be one of this store.
    fn seqno_of(&self, options: &ReadOptions<'_>) -> Result<Option<SeqNo>> {
        match options.snapshot {
            Some(snapshot) if !Arc::ptr_eq(&snapshot.inner, &self.inner) => {
                Err(Error::invalid("the snapshot is of another store or another opening of it"))
            }
            snapshot => Ok(snapshot.map(|s| s.seqno)),
        }
    }

    fn write_one(
        &self,
        options: &WriteOptions,
        user_bytes: u64,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        if user_bytes >= LARGE_BYTES as u64 {
            // Before it is copied.
            self.inner.wait_for_room(user_bytes)?;
        }
        SCRATCH.with(|scratch| {
            let Ok(mut scratch) = scratch.try_borrow_mut() else {
                return Err(Error::invalid(
                    "this thread is in the middle of a write, whose comparator must not write",
                ));
            };
            let scratch = &mut *scratch;
            scratch.clear();
            encode(scratch);
            let result = self.inner.write(scratch, 1, user_bytes, options.durability);
            if scratch.capacity() > SCRATCH_BYTES_MAX {
                *scratch = Vec::new();
            }
            result
        })
    }

    fn shut(&self) -> Result<()> {
        if self.inner.is_forked() {
            // Nothing of it is this process's to close; a lock may be held by a thread that is not
            // here.
            std::mem::forget(self.inner.clone());
            return self.inner.check_open();
        }
        let _turn = self.shutting.lock();
        if self.inner.lock.lock().is_none() {
            return Ok(());
        }
        let inner = &self.inner;
        // Whatever panics, the threads end and the lock is let go of.
        let told = |cause: String| {
            let message = format!("a panic while the store was closed ({cause})");
            Err(Error::new(ErrorKind::Io, message).at(&inner.dir))
        };
        let saved = contained(|| inner.save_memtable()).unwrap_or_else(told);
        inner.stop();
        inner.threads.end();
        let closed = contained(|| inner.finish()).unwrap_or_else(told);
        inner.lock.lock().take();
        saved.and(closed)
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        let _ = self.shut();
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
