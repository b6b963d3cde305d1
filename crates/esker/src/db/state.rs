//! The store internals, shared by handles, snapshots, iterators and threads.
//!
//! Lock order, outermost first: a transaction's own state → `options_change` →
//! `feed.catalog_change` → `Committer.next` → `Committer.state` → `feed.files` → `versions`, where
//! these two are taken; otherwise
//! `Committer.next` →
//! `Committer.state` → `manual_job` → `versions` → `queue` → `read_state_change`, or the times of
//! `write_throttle`. `Committer.queue` and then a request's signal are taken alone, or under
//! `Committer.next` and `Committer.state`. The snapshot list's lock is taken alone. The locks of
//! the chunk pool, of the list of files to remove, of the runtime and of the observers,
//! `threads.ended`, `keyspaces`, `dropped`, and those of the lock table of transactions are taken
//! last. No thread waits for a key of that table while it holds a lock of the store. No lock is
//! held while a listener is called ([`super::events`]). No lock is held while a table is read or
//! written, with these exceptions. `versions` is held while its own manifest record is written and
//! synced. [`Db::remove`](crate::Db::remove) and the last attempt of a transaction's commit
//! (`Committer::commit_if`) hold `Committer.state` while they read a table. A transaction that
//! checks a key that it has locked holds its own state. In manual background mode, flushes and
//! compactions run in calls that block other calls.

use crate::base::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use crate::base::sync::{Condvar, Mutex};
use arc_swap::ArcSwap;

use super::feed::Feed;
use super::keyspace_list::KeyspaceList;
use super::observers::Observers;
use super::pending_wal::PendingWal;
use super::published_hints::PublishedHints;
use super::rest_state::Rest;
use super::runtime::RuntimeShare;
use super::snapshot_list::SnapshotList;
use super::space_state::SpaceBound;
use super::stall_list::RunningStalls;
use super::thread_roles::Threads;
use super::tree::Tree;
use super::write_throttle::WriteThrottle;
use crate::base::epoch_cell::EpochCell;
use crate::base::key::SeqNo;
use crate::base::keyspace::{KeyspaceId, TreeId};
use crate::base::keyspace_rules::KeyspaceRules;
use crate::base::order::KeyOrder;
use crate::cache::BlockCache;
use crate::compaction::{BusySet, picker};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileLock, Fs, fork};
use crate::memtable::{ChunkPool, Memtable, Memtables};
use crate::metrics::Counters;
use crate::options::Options;
use crate::options::kinds::Durability;
use crate::options::validate::Sizes;
use crate::read::ReadState;
use crate::table::Layout;
use crate::tree::purge::Purger;
use crate::tree::set::VersionSet;
use crate::tree::tables::Tables;
use crate::txn::Transactions;
use crate::write::commit::Committer;

/// Immutable memtables, one for each tree, that wait for their flush.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub memtables: Memtables,
    /// The log that comes after those of these memtables. Logs with a smaller number hold only flushed
    /// data once these memtables are flushed. `None` if older logs also hold newer data.
    pub next_log: Option<NextLog>,
}

/// The log behind those of immutable memtables.
#[derive(Clone, Copy)]
pub(crate) struct NextLog {
    pub number: u64,
    /// Ordinal of its first record.
    pub first_ordinal: u64,
}

/// State shared by the background threads.
#[derive(Default)]
pub(crate) struct Queue {
    /// Immutable memtables to flush, oldest first.
    pub frozen: VecDeque<Frozen>,
    /// Number of them, at the front, that the opening recovered from logs.
    pub recovered: usize,
    /// Table fragments that running compactions read.
    pub busy: BusySet,
    /// Number of running compactions.
    pub running: usize,
    /// Number of rest compactions among them. A caller that waits for compactions does not wait for
    /// these.
    pub resting: usize,
    /// When the store is at rest, and what it may do then.
    pub rest: Rest,
    /// Whether a caller compacts manually, or waits to; no other compaction starts.
    pub exclusive: bool,
    /// Number of space waiters. While there is one, compactions give up their space and wait.
    pub space_waiters: usize,
    /// Number of idle waiters: callers that wait for compactions to end.
    pub idle_waiters: usize,
    /// The pending WAL.
    pub pending_wal: PendingWal,
    /// Deleted keys around which the search may find empty-range hints.
    pub hint_samples: VecDeque<Vec<u8>>,
    /// Number of flushes started.
    pub flush_tries: u64,
    /// Whether a flush runs now.
    pub is_flushing: bool,
    /// The write stalls that run now.
    pub stalls: RunningStalls,
    /// Error of the last flush, until the next attempt.
    pub flush_failed: Option<Error>,
    /// Error of the last compaction, until one succeeds.
    pub compaction_failed: Option<Error>,
    /// Why writes are refused, once a store thread has panicked.
    pub broken: Option<Error>,
    /// Whether the store is closing.
    pub stop: bool,
}

impl Queue {
    /// Returns whether this memtable of tree 0, and those frozen with it, wait for their flush or
    /// are being flushed.
    pub fn is_queued(&self, memtable: &Arc<Memtable>) -> bool {
        self.frozen.iter().any(|frozen| Arc::ptr_eq(&frozen.memtables.main, memtable))
    }

    /// Returns the place of the last error of flushes or of compactions.
    pub fn failure_mut(&mut self, is_flush: bool) -> &mut Option<Error> {
        if is_flush { &mut self.flush_failed } else { &mut self.compaction_failed }
    }

    /// Returns whether flushes and compactions have ended.
    pub fn is_stopped(&self) -> bool {
        self.stop || self.broken.is_some()
    }
}

/// Copies of the options and sizes that every write needs. Loading `options` and `sizes` would cost
/// each write more than using them does.
pub(crate) struct WriteParams {
    pub memtable_bytes: AtomicU64,
    pub debt_limit_bytes: AtomicU64,
    durability: AtomicU8,
}

impl WriteParams {
    pub fn new(options: &Options, sizes: &Sizes) -> WriteParams {
        let params = WriteParams {
            memtable_bytes: AtomicU64::new(0),
            debt_limit_bytes: AtomicU64::new(0),
            durability: AtomicU8::new(0),
        };
        params.update(options, sizes);
        params
    }

    /// Applies changed options.
    pub fn update(&self, options: &Options, sizes: &Sizes) {
        self.memtable_bytes.store(sizes.memtable_bytes, Ordering::Relaxed);
        self.debt_limit_bytes.store(sizes.debt_limit_bytes, Ordering::Relaxed);
        self.durability.store(options.durability as u8, Ordering::Relaxed);
    }

    /// Returns the durability of a write that does not name one.
    #[inline]
    pub fn durability(&self) -> Durability {
        match self.durability.load(Ordering::Relaxed) {
            d if d == Durability::None as u8 => Durability::None,
            d if d == Durability::Buffered as u8 => Durability::Buffered,
            _ => Durability::Sync,
        }
    }
}

/// The store internals.
pub(crate) struct DbInner {
    /// Reference to itself, for threads that are started later.
    pub me: Weak<DbInner>,
    pub dir: PathBuf,
    pub fs: Arc<dyn Fs>,
    pub read_only: bool,
    pub order: KeyOrder,
    pub options: ArcSwap<Options>,
    pub sizes: ArcSwap<Sizes>,
    pub write_params: WriteParams,
    pub write_throttle: WriteThrottle,
    pub read_state: EpochCell<ReadState>,
    pub read_state_change: Mutex<()>,
    /// Held while options are changed.
    pub options_change: Mutex<()>,
    /// The empty-range hints of tree 0.
    pub hints: PublishedHints,
    pub committer: Committer,
    /// The rules of the default keyspace, with the clock of the store.
    pub rules: Arc<KeyspaceRules>,
    /// What the transactions share.
    pub transactions: Transactions,
    /// The open tables of tree 0.
    pub tables: Arc<Tables>,
    /// The trees, by number.
    pub trees: ArcSwap<Vec<Arc<Tree>>>,
    /// The keyspaces except the default one. Changed under the lock of `versions`.
    pub keyspaces: Arc<Mutex<KeyspaceList>>,
    /// Until this time of the store, in milliseconds since 1970, no more table files expire.
    pub expired_files_from_ms: AtomicU64,
    /// Number of this opening, which no other opening in this process has.
    pub opening: u64,
    /// Dropped keyspaces whose entries are still in tables, with their trees.
    pub dropped: Mutex<VecDeque<(KeyspaceId, TreeId)>>,
    pub cache: Arc<BlockCache<Layout>>,
    pub counters: Counters,
    pub observers: Observers,
    /// The last problem that the scrub found.
    pub scrub_problem: Mutex<Option<Error>>,
    pub versions: Mutex<VersionSet>,
    pub purger: Option<Arc<Purger>>,
    /// Number of the format version. Raised under the lock of `versions`, after the manifest states
    /// it.
    pub(super) format: AtomicU32,
    /// What a crash before this opening lost, in sentences.
    pub notes: Vec<String>,
    /// Pool of memtable memory for reuse. Keeps at most one memtable's worth and a chunk.
    pub pool: Arc<ChunkPool>,
    pub numbers: Arc<AtomicU64>,
    pub ids: AtomicU64,
    pub queue: Mutex<Queue>,
    /// Held by the caller that flushes or compacts in manual background mode.
    pub manual_job: Mutex<()>,
    /// Signalled when there may be background work.
    pub work: Condvar,
    /// Signalled when background work has ended.
    pub idle: Condvar,
    pub snapshots: SnapshotList,
    pub debt_bytes: AtomicU64,
    pub space_bound: SpaceBound,
    /// Logs with a smaller number hold only flushed data.
    pub flushed_below: AtomicU64,
    /// The slots of the change feed.
    pub feed: Feed,
    pub closed: AtomicBool,
    /// Whether a store thread has panicked; `queue` has the error.
    pub broken: AtomicBool,
    /// The store's share in its runtime, which then does the work of `threads`.
    pub share: Option<RuntimeShare>,
    pub threads: Threads,
    /// The process that opened the store ([`fork`]).
    pub process: u64,
    pub lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl DbInner {
    /// Returns the newest sequence number visible to readers.
    pub fn visible_seqno(&self) -> SeqNo {
        self.committer.visible_seqno()
    }

    /// Returns an error for a closed handle.
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the store was closed").with_path(&self.dir));
        }
        if self.is_forked() {
            let message = "the store was opened before this process was forked; open it in this \
                           process after the parent has closed it";
            return Err(Error::new(ErrorKind::Closed, message).with_path(&self.dir));
        }
        Ok(())
    }

    /// Returns whether this is a child of the process that opened the store. The files belong to
    /// the parent, and the parent's threads do not exist here.
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.process != fork::now()
    }

    /// Returns an error for a store opened read-only.
    pub fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.read_only {
            let message = "the store was opened read-only";
            return Err(Error::new(ErrorKind::ReadOnly, message).with_path(&self.dir));
        }
        self.check_unbroken()
    }

    /// Returns an error once a store thread has panicked.
    #[inline]
    pub fn check_unbroken(&self) -> Result<()> {
        if self.broken.load(Ordering::Relaxed) { self.check_broken() } else { Ok(()) }
    }

    /// Replaces the read state by the result of `change`.
    pub fn replace_read_state(&self, change: impl FnOnce(&ReadState) -> ReadState) {
        let _serial = self.read_state_change.lock();
        let next = change(&self.read_state.load());
        self.read_state.replace(Arc::new(next));
        // Some new files may expire: see `super::expired`.
        self.expired_files_from_ms.store(0, Ordering::Relaxed);
    }

    /// Returns an identity that no other file of this store has.
    pub fn next_id(&self) -> u64 {
        let step = self.ids.fetch_add(1, Ordering::Relaxed);
        crate::base::checksum::checksum(&step.to_le_bytes(), 0x45_73_6b_65_72) | 1
    }

    /// Recomputes the debt: the bytes that wait to be flushed, pushed or merged.
    pub fn refresh_debt(&self) {
        let view = self.read_state.load();
        let mut debt = view.frozen_bytes();
        // Work that is never done must not slow writers down.
        if self.options.load().auto_compaction {
            let memtable_bytes = self.sizes.load().memtable_bytes;
            for tree in self.trees.load().iter() {
                if let Some(version) = view.version_of(tree.id) {
                    debt += picker::debt_bytes(version, &tree.limits(memtable_bytes));
                }
            }
        }
        let debt = debt.max(self.space_bound.debt_bytes());
        self.debt_bytes.store(debt, Ordering::Relaxed);
        let limit = self.write_params.debt_limit_bytes.load(Ordering::Relaxed);
        self.write_throttle.note_debt(debt > limit / 2);
        self.end_slowdown_if_over();
    }
}
