//! What an open store holds, shared by its handles, snapshots, iterators and threads.
//!
//! Lock order, outermost first: `options_change` → `committer.core` → `stepping` → `versions` →
//! `queue` → `view_change`, or the times of `pace`. The snapshot list's lock is taken alone; those of
//! the chunk pool and of what is to be removed are taken last. No
//! lock is held while a table is read or written, except that `versions` is held while its own
//! manifest record is written and synced, and that a store without threads does its work in calls
//! that hold others up.

use crate::base::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::base::sync::{Condvar, Mutex};
use arc_swap::ArcSwap;

use super::next_log::{NEXT_LOG_FROM, NextLog};
use super::pace::Pace;
use super::roles::Threads;
use super::snapshot::SnapshotList;
use crate::base::crew::{MAPPINGS_PER_THREAD, check_mappings};
use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::base::readers::Reading;
use crate::base::shown::Shown;
use crate::cache::BlockCache;
use crate::compaction::BusySet;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileLock, Fs, fork};
use crate::iter::hints::Hints;
use crate::memtable::{ChunkPool, Memtable};
use crate::metrics::Counters;
use crate::options::Options;
use crate::options::kinds::Durability;
use crate::options::validate::Sizes;
use crate::read::get::{Look, Lookup};
use crate::read::scan::{DbIterator, KeyBounds, prefix_bounds};
use crate::read::{Slice, View};
use crate::table::{Layout, Looked};
use crate::tree::purge::Purger;
use crate::tree::set::VersionSet;
use crate::tree::tables::Tables;
use crate::wal::LogWriter;
use crate::write::commit::{Committer, LARGE_BYTES};
use crate::write::core::{Core, Surroundings};
use crate::write::pressure;

/// What back-pressure asks of one write at most.
const SLOWED_NS_MAX: u64 = 50_000_000;
/// A memtable with this many range tombstones is full. The first reader after a `delete_range` may
/// build a set of all of them, a few milliseconds' work; and a flush drops what they cover.
const RANGE_DELETES_MAX: usize = 4096;

/// Longer values are not copied for those who only look at them.
const COPIED_BYTES_MAX: usize = 4 << 10;

crate::base::sync::thread_local! {
    /// Where values are copied to that are only looked at.
    static COPY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A memtable that waits for its flush.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub memtable: Arc<Memtable>,
    /// Logs with a smaller number hold nothing that is not in tables once this is flushed.
    pub logs_below: u64,
    /// The ordinal of the first record of the log with that number.
    pub first_ordinal: u64,
}

/// What the background threads share.
#[derive(Default)]
pub(crate) struct Queue {
    /// Memtables to flush, oldest first.
    pub frozen: VecDeque<Frozen>,
    /// Slices that running compactions read.
    pub busy: BusySet,
    /// Compactions running.
    pub running: usize,
    /// Set while one caller compacts by hand, or waits to; no other compaction starts.
    pub exclusive: bool,
    /// How many need the space that compactions hold: while any does, they give up and wait.
    pub make_way: usize,
    /// How many wait for merges to end.
    pub awaited: usize,
    /// The log after the present one.
    pub next_log: NextLog,
    /// Deleted keys around which skip hints may be found.
    pub hint_samples: VecDeque<Vec<u8>>,
    /// Until then no writer waits for them.
    pub hints_unawaited_until: Option<Instant>,
    /// Flushes begun.
    pub flush_tries: u64,
    /// The last failure of a flush, until the next is tried.
    pub flush_failed: Option<Error>,
    /// The last failure of a compaction, until one succeeds.
    pub compaction_failed: Option<Error>,
    /// Why no write is taken, once a thread of the store panicked.
    pub broken: Option<Error>,
    /// The store is closing.
    pub stop: bool,
}

impl Queue {
    /// Whether this memtable waits for its flush or is being flushed.
    pub fn waits(&self, memtable: &Arc<Memtable>) -> bool {
        self.frozen.iter().any(|frozen| Arc::ptr_eq(&frozen.memtable, memtable))
    }

    /// Whether flushes and merges have ended.
    pub fn is_over(&self) -> bool {
        self.stop || self.broken.is_some()
    }
}

/// Copies of what every write asks of `options` and `sizes`: to load those costs each write more than
/// to use them does.
pub(crate) struct WriteKnobs {
    pub memtable_bytes: AtomicU64,
    pub debt_limit_bytes: AtomicU64,
    durability: AtomicU8,
}

impl WriteKnobs {
    pub fn new(options: &Options, sizes: &Sizes) -> WriteKnobs {
        let knobs = WriteKnobs {
            memtable_bytes: AtomicU64::new(0),
            debt_limit_bytes: AtomicU64::new(0),
            durability: AtomicU8::new(0),
        };
        knobs.adopt(options, sizes);
        knobs
    }

    /// Takes over changed options.
    pub fn adopt(&self, options: &Options, sizes: &Sizes) {
        self.memtable_bytes.store(sizes.memtable_bytes, Ordering::Relaxed);
        self.debt_limit_bytes.store(sizes.debt_limit_bytes, Ordering::Relaxed);
        self.durability.store(options.durability as u8, Ordering::Relaxed);
    }

    /// What a write without a wish of its own is promised.
    #[inline]
    fn durability(&self) -> Durability {
        match self.durability.load(Ordering::Relaxed) {
            d if d == Durability::None as u8 => Durability::None,
            d if d == Durability::Buffered as u8 => Durability::Buffered,
            _ => Durability::Sync,
        }
    }
}

/// An open store.
pub(crate) struct Inner {
    /// Itself, for threads that are started later.
    pub me: Weak<Inner>,
    pub dir: PathBuf,
    pub fs: Arc<dyn Fs>,
    pub read_only: bool,
    pub order: KeyOrder,
    pub options: ArcSwap<Options>,
    pub sizes: ArcSwap<Sizes>,
    pub write_knobs: WriteKnobs,
    pub pace: Pace,
    pub view: Shown<View>,
    pub view_change: Mutex<()>,
    /// Held while options are changed.
    pub options_change: Mutex<()>,
    /// The skip hints, as the last commit left them.
    pub hints: ArcSwap<Hints>,
    /// Whether that list holds any, for whoever need not load it then.
    pub any_hints: AtomicBool,
    pub committer: Committer,
    pub tables: Arc<Tables>,
    pub cache: Arc<BlockCache<Layout>>,
    pub counters: Counters,
    /// What the scrub found last.
    pub scrub_problem: Mutex<Option<Error>>,
    pub versions: Mutex<VersionSet>,
    pub purger: Option<Arc<Purger>>,
    /// What a crash before this opening took, in sentences.
    pub notes: Vec<String>,
    /// Where memtables leave their memory for the next; keeps at most one memtable's worth and a
    /// chunk.
    pub pool: Arc<ChunkPool>,
    pub numbers: Arc<AtomicU64>,
    pub ids: AtomicU64,
    pub queue: Mutex<Queue>,
    /// Held by the caller that flushes or compacts in a store without threads.
    pub stepping: Mutex<()>,
    /// Told when there may be background work.
    pub work: Condvar,
    /// Told when background work ended.
    pub idle: Condvar,
    pub snapshots: SnapshotList,
    pub debt_bytes: AtomicU64,
    pub owed_ns: AtomicU64,
    /// Logs with a smaller number hold nothing that is not in tables.
    pub flushed_below: AtomicU64,
    pub closed: AtomicBool,
    /// Whether a thread of the store panicked; `queue` has the error.
    pub broken: AtomicBool,
    pub threads: Threads,
    /// The process that opened the store ([`fork`]).
    pub process: u64,
    pub lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl Inner {
    /// The newest sequence number readers see.
    pub fn visible_seqno(&self) -> SeqNo {
        self.committer.visible_seqno()
    }

    /// Refuses a closed handle.
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the store was closed").at(&self.dir));
        }
        if self.is_forked() {
            let message = "the store was opened before this process was forked; open it here, once \
                           the parent has closed it";
            return Err(Error::new(ErrorKind::Closed, message).at(&self.dir));
        }
        Ok(())
    }

    /// Whether this is a child of the process that opened the store: its files are the parent's, and
    /// the parent's threads are not here.
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.process != fork::now()
    }

    /// Refuses writes to a store opened read-only.
    pub fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.read_only {
            let message = "the store was opened read-only";
            return Err(Error::new(ErrorKind::ReadOnly, message).at(&self.dir));
        }
        self.check_unbroken()
    }

    /// Refuses writes once a thread of the store has panicked.
    #[inline]
    pub fn check_unbroken(&self) -> Result<()> {
        if self.broken.load(Ordering::Relaxed) { self.check_broken() } else { Ok(()) }
    }

    /// What `take` makes of the value of `key` at `seqno`, or now. It runs while memory is kept that
    /// nobody needs, and must be short.
    #[inline]
    pub fn take_at<R>(
        &self,
        key: &[u8],
        seqno: Option<SeqNo>,
        fill_cache: bool,
        mut take: impl FnMut(Look<'_>) -> R,
    ) -> Result<Option<R>> {
        self.check_open()?;
        if self.cache.has_shelves() {
            let reading = self.view.readers().enter();
            // The view first, then the number: see `read`.
            let view = self.view.see(&reading);
            match self.lookup(seqno, fill_cache, Some(&reading)).look(view, key, &mut take)? {
                Looked::Found(taken) => return Ok(Some(taken)),
                Looked::Absent => return Ok(None),
                Looked::Unread => {}
            }
        }
        // A file is not read while others wait for this reading.
        let view = self.view.load();
        Ok(self.lookup(seqno, fill_cache, None).look(&view, key, &mut take)?.found())
    }

    /// The value of `key` at `seqno`, or now.
    pub fn get_at(
        &self,
        key: &[u8],
        seqno: Option<SeqNo>,
        fill_cache: bool,
    ) -> Result<Option<Slice>> {
        self.take_at(key, seqno, fill_cache, |look| look.pin())
    }

    /// Puts the value of `key` at `seqno`, or now, behind `out`; one of more than [`COPIED_BYTES_MAX`]
    /// is left where it lies and returned.
    #[inline]
    pub fn copy_at(
        &self,
        key: &[u8],
        seqno: Option<SeqNo>,
        fill_cache: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Option<Slice>>> {
        self.take_at(key, seqno, fill_cache, |look| {
            let value = look.value();
            if value.len() > COPIED_BYTES_MAX {
                return Some(look.pin());
            }
            out.extend_from_slice(value);
            None
        })
    }

    /// What `see` makes of the value of `key` at `seqno`, or now. However long that takes, it keeps no
    /// more than the value it sees.
    #[inline]
    pub fn read_at<R>(
        &self,
        key: &[u8],
        seqno: Option<SeqNo>,
        fill_cache: bool,
        see: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        // Taken out, so that `see` may read, too.
        let mut copy = COPY.try_with(Cell::take).unwrap_or_default();
        copy.clear();
        let found = self.copy_at(key, seqno, fill_cache, &mut copy)?;
        let seen = found.map(|pinned| see(pinned.as_deref().unwrap_or(&copy)));
        let _ = COPY.try_with(|place| place.set(copy));
        Ok(seen)
    }

    /// The values of `keys` at `seqno`, or all as they are at one moment.
    pub fn multi_get_at<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        seqno: Option<SeqNo>,
    ) -> Result<Vec<Option<Slice>>> {
        self.check_open()?;
        let view = self.view.load();
        self.lookup(seqno, true, None).multi_get(&view, keys)
    }

    fn lookup<'a>(
        &'a self,
        seqno: Option<SeqNo>,
        fill_cache: bool,
        reading: Option<&'a Reading<'a>>,
    ) -> Lookup<'a> {
        Lookup {
            order: &self.order,
            tables: &self.tables,
            counters: &self.counters,
            seqno: seqno.unwrap_or_else(|| self.visible_seqno()),
            fill_cache,
            reading,
        }
    }

    /// The pairs within `bounds` at `seqno`, or now.
    pub fn iter_at(
        &self,
        bounds: KeyBounds,
        seqno: Option<SeqNo>,
        fill_cache: bool,
    ) -> Result<DbIterator> {
        self.check_open()?;
        // This number first, the hints last: see `iter::hints`.
        let in_view = seqno.unwrap_or_else(|| self.visible_seqno());
        let view = self.view.load();
        let seqno = seqno.unwrap_or_else(|| self.visible_seqno());
        let hints = self.hints();
        let mut iter = DbIterator::new(view, &self.tables, seqno, bounds, fill_cache)?;
        if let Some(hints) = hints {
            iter.take_hints(hints, in_view);
        }
        Ok(iter)
    }

    /// The bounds of the keys that start with `prefix`.
    pub fn prefix_bounds(&self, prefix: &[u8]) -> Result<KeyBounds> {
        if prefix.is_empty() {
            return Ok((Bound::Unbounded, Bound::Unbounded));
        }
        prefix_bounds(&self.order, prefix).ok_or_else(|| {
            Error::invalid(format!(
                "the order {} may not keep keys of one prefix together; use a range",
                self.order.name()
            ))
        })
    }

    /// Commits an encoded batch.
    pub fn write(
        &self,
        payload: &[u8],
        count: u32,
        user_bytes: u64,
        durability: Option<Durability>,
    ) -> Result<()> {
        self.check_writable()?;
        if count == 0 {
            return Ok(());
        }
        if self.pace.is_crowded() {
            self.keep_pace(payload.len() as u64);
        }
        self.slow_down(payload.len() as u64);
        let durability = durability.unwrap_or_else(|| self.write_knobs.durability());
        let outcome = self.committer.commit(payload, count, user_bytes, durability, self).map(drop);
        if self.pace.hints_behind.load(Ordering::Relaxed) {
            self.wait_for_hints();
        }
        outcome
    }

    /// Sleeps for what back-pressure asks, in portions a timer can keep.
    #[inline]
    fn slow_down(&self, bytes: u64) {
        let debt = self.debt_bytes.load(Ordering::Relaxed);
        let limit = self.write_knobs.debt_limit_bytes.load(Ordering::Relaxed);
        if debt <= limit / 2 || self.stepped() {
            return;
        }
        // However much one write brings, it does not wait for long at once.
        let delay = pressure::delay_ns(debt, limit, bytes).min(SLOWED_NS_MAX);
        let owed = self.owed_ns.fetch_add(delay, Ordering::Relaxed) + delay;
        if owed >= 500_000 {
            self.owed_ns.store(0, Ordering::Relaxed);
            crate::base::sync::thread::sleep(Duration::from_nanos(owed));
            self.counters.slowed_us.add(owed / 1000);
        }
    }

    /// Replaces the view by what `change` makes of it.
    pub fn change_view(&self, change: impl FnOnce(&View) -> View) {
        let _serial = self.view_change.lock();
        let next = change(&self.view.load());
        self.view.replace(Arc::new(next));
    }

    /// Makes the memtable of `core` frozen and starts an empty one with a log of its own.
    pub fn freeze(&self, core: &mut Core) -> Result<()> {
        if let Some(error) = &core.poisoned {
            return Err(error.clone());
        }
        self.check_unbroken()?;
        core.guarded(|core| self.freeze_sound(core))
    }

    fn freeze_sound(&self, core: &mut Core) -> Result<()> {
        check_mappings(MAPPINGS_PER_THREAD)
            .map_err(|error| Error::no_mappings(&self.dir, "begin another memtable", error))?;
        let log = self.continue_log(core)?;
        let kind = self.options.load().memtable_kind;
        let most_bytes = self.write_knobs.memtable_bytes.load(Ordering::Relaxed) as usize;
        let (order, pool) = (self.order.clone(), self.pool.clone());
        let fresh = Arc::new(Memtable::with_pool(kind, order, pool, most_bytes));
        let full = std::mem::replace(&mut core.memtable, fresh.clone());
        core.unlogged = false;
        core.next_log_asked = false;
        let logs_below = log.as_ref().map_or(0, LogWriter::number);
        let first_ordinal = log.as_ref().map_or(0, LogWriter::next_ordinal);
        if let Some(log) = log
            && let Some(old) = core.log.replace(log)
        {
            // Its mark is durable before anything in the next log is.
            core.unsynced_logs.push(old);
        }
        let flushed_below = self.flushed_below.load(Ordering::Acquire);
        let removed = core.unsynced_logs.extract_if(.., |log| log.number() < flushed_below);
        removed.for_each(|log| self.close_later(log));
        let mut queue = self.queue.lock();
        queue.frozen.push_back(Frozen { memtable: full.clone(), logs_below, first_ordinal });
        self.change_view(|view| {
            let mut frozen = Vec::with_capacity(view.frozen.len() + 1);
            frozen.push(full);
            frozen.extend(view.frozen.iter().cloned());
            View::new(fresh, frozen, view.version.clone())
        });
        self.note_crowd(queue.frozen.len());
        drop(queue);
        self.refresh_debt();
        self.work.notify_all();
        Ok(())
    }

    /// An identity no other file of this store has.
    pub fn next_id(&self) -> u64 {
        let step = self.ids.fetch_add(1, Ordering::Relaxed);
        crate::base::checksum::checksum(&step.to_le_bytes(), 0x45_73_6b_65_72) | 1
    }

    /// Works out again how many bytes wait to be flushed, pushed or merged.
    pub fn refresh_debt(&self) {
        let view = self.view.load();
        let frozen: u64 = view.frozen.iter().map(|m| m.memory_bytes() as u64).sum();
        // Work that nobody will do must not slow writers down.
        let picker_debt = if self.options.load().auto_compaction {
            self.picker().debt_bytes(&view.version, &self.limits())
        } else {
            0
        };
        self.debt_bytes.store(frozen + picker_debt, Ordering::Relaxed);
    }

    /// Waits until memtables that are being flushed leave room for `bytes` more in half of the budget, or
    /// there are none: a value may be larger than all of it. The active one is frozen where it would
    /// not fit beside them either.
    pub fn wait_for_room(&self, bytes: u64) -> Result<()> {
        self.check_writable()?;
        let most = self.sizes.load().memory_budget_bytes / 2;
        {
            let mut core = self.committer.lock();
            let held = core.memtable.held_bytes();
            if held >= LARGE_BYTES && held as u64 + bytes > most {
                self.wait_for_memtable()?;
                self.with_room(|| self.freeze(&mut core))?;
            }
        }
        let fits = |queue: &Queue| {
            let frozen = queue.frozen.iter().map(|frozen| frozen.memtable.held_bytes() as u64);
            queue.frozen.is_empty() || frozen.sum::<u64>() + bytes <= most
        };
        self.wait_until_flushed(fits)
    }

    fn wait_for_memtable(&self) -> Result<()> {
        let most = self.options.load().frozen_memtables_max as usize;
        self.wait_until_flushed(|queue| queue.frozen.len() < most)
    }

    /// Waits for flushes, or does them in a store without threads, until `enough` says so.
    fn wait_until_flushed(&self, enough: impl Fn(&Queue) -> bool) -> Result<()> {
        if self.stepped() {
            return self.flush_here(enough);
        }
        let mut queue = self.queue.lock();
        if enough(&queue) {
            return Ok(());
        }
        let began = Instant::now();
        while !enough(&queue) {
            if let Some(error) = queue.broken.as_ref().or(queue.flush_failed.as_ref()) {
                return Err(error.clone());
            }
            if queue.stop {
                return self.check_open();
            }
            self.idle.wait(&mut queue);
        }
        self.counters.stalled_us.add(began.elapsed().as_micros() as u64);
        Ok(())
    }
}

impl Surroundings for Inner {
    #[inline]
    fn make_room(&self, core: &mut Core) -> Result<()> {
        let full = core.log.as_ref().is_some_and(LogWriter::is_full);
        let full = full || core.memtable.range_delete_count() >= RANGE_DELETES_MAX;
        let most = self.write_knobs.memtable_bytes.load(Ordering::Relaxed);
        let used = core.memtable.memory_bytes() as u64;
        if !full && used < most {
            if used >= most / NEXT_LOG_FROM && !core.next_log_asked {
                core.next_log_asked = true;
                self.ask_for_next_log();
            }
            self.check_open()?;
            return self.check_unbroken();
        }
        self.check_open()?;
        self.check_unbroken()?;
        self.wait_for_memtable()?;
        self.with_room(|| self.freeze(core))
    }

    fn show_hints(&self, hints: Arc<Hints>) {
        Inner::show_hints(self, hints);
    }

    fn ask_for_hints(&self, sample: Vec<u8>) {
        Inner::ask_for_hints(self, sample);
    }

    fn close_log(&self, log: LogWriter) {
        self.close_later(log);
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
