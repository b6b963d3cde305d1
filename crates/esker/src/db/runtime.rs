//! The runtime of several stores, as a store uses it: the shared block cache and memory, and the
//! share of one store. [`super::runtime_memory`] has what a store does with its share.
//!
//! Invariants:
//! * A store has a number in the shared cache that no other store of the runtime has.
//! * A closed store has no job, no memory of memtables that counts, and no block in the cache,
//!   except for what its iterators still read.
//! * The capacity of the cache is what memtables, open tables and merges leave of the budget.

use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::base::cache_block_pool::CacheBlockPool;
use crate::base::chunk::CHUNK_BYTES;
use crate::base::memory_ledger::Account;
use crate::base::runtime::{Runtime, RuntimeOptions};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::base::units::{GIB, KIB, MIB};
use crate::base::workers::{Jobs, Member, WORKERS_MIN};
use crate::cache::BlockCache;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::memory;
use crate::memtable::ChunkPool;
use crate::options::Options;
use crate::options::kinds::CachePolicy;
use crate::options::validate::{Sizes, transient_bytes};
use crate::table::{IndexBudget, Layout};
use crate::tree::fragment::FileMeta;

/// Maximum size of the pool of chunks for the next memtables, in bytes.
const POOL_BYTES_MAX: u64 = 64 * MIB;
/// Divisor of the budget: the part for memtables. Their memory is a few tenths more than what they
/// count, with the free memory of the allocator and of partly used chunks.
const MEMTABLES_PART: u64 = 3;
/// Divisor of the budget: the part for free memory of the allocator, which many stores make.
const ALLOCATOR_PART: u64 = 8;
/// Memory of an open store that is idle, in bytes.
const IDLE_STORE_BYTES: u64 = 64 * KIB;
/// Smallest limits on background writes, in bytes a second.
const BACKGROUND_BYTES_MIN: u64 = 64 * KIB;

/// What the stores of a runtime use at a moment. See [`Runtime::metrics`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeMetrics {
    /// Number of open stores with background work.
    pub stores: u64,
    /// Number of worker threads that have been started.
    pub threads: u64,
    /// The memory budget, in bytes.
    pub budget_bytes: u64,
    /// Bytes of memtables, active and immutable, without those of stores whose flushes fail.
    pub memtable_bytes: u64,
    /// Bytes of memtables at which writers wait.
    pub memtable_limit_bytes: u64,
    /// Bytes of the indexes, filters and range tombstones of open tables.
    pub tables_bytes: u64,
    /// Bytes of blocks in the cache.
    pub cache_bytes: u64,
    /// Current capacity of the cache, in bytes.
    pub cache_capacity_bytes: u64,
    /// Bytes that flushes and compactions have written.
    pub background_bytes: u64,
}

impl Runtime {
    /// Creates a runtime. Its workers start when the first store is opened with it.
    ///
    /// # Errors
    /// `InvalidArgument` for a value out of its range.
    pub fn new(options: RuntimeOptions) -> Result<Runtime> {
        let check =
            |name: &str, value: Option<u64>, range: std::ops::RangeInclusive<u64>| match value
                .filter(|value| !range.contains(value))
            {
                None => Ok(()),
                Some(value) => Err(Error::invalid(format!(
                    "{name} of a runtime cannot be {value}: it takes {} to {}",
                    range.start(),
                    range.end()
                ))),
            };
        check("memory_budget_bytes", options.memory_budget_bytes, MIB..=1024 * GIB)?;
        let budget = options
            .memory_budget_bytes
            .unwrap_or_else(|| (memory::available_bytes() / 4).clamp(4 * MIB, GIB));
        check("cache_size_bytes", options.cache_size_bytes, 0..=budget)?;
        check("threads_max", options.threads_max, WORKERS_MIN as u64..=256)?;
        let rate = options.background_bytes_per_second;
        let limited = Some(rate).filter(|rate| *rate > 0);
        check("background_bytes_per_second", limited, BACKGROUND_BYTES_MIN..=1024 * GIB)?;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = options.threads_max.map_or(cores + 1, |most| most as usize);
        let cache_max = options.cache_size_bytes.unwrap_or(budget / 2);
        let caches = SharedCaches::new(options.cache_policy, cache_max, budget);
        let memory = (budget, budget / MEMTABLES_PART);
        let runtime = Runtime::of_parts(threads, memory, rate, Box::new(caches));
        runtime.caches().resize(&runtime);
        Ok(runtime)
    }

    /// Returns what the stores use now.
    pub fn metrics(&self) -> RuntimeMetrics {
        let caches = self.caches();
        RuntimeMetrics {
            stores: self.workers().members() as u64,
            threads: self.workers().threads() as u64,
            budget_bytes: self.budget_bytes(),
            memtable_bytes: self.ledger().total_bytes(),
            memtable_limit_bytes: self.ledger().limit_bytes(),
            tables_bytes: caches.tables_bytes.load(Ordering::Relaxed),
            cache_bytes: caches.cache.used_bytes(),
            cache_capacity_bytes: caches.cache.capacity_bytes(),
            background_bytes: self.rate_limit().written_bytes(),
        }
    }

    pub(super) fn caches(&self) -> &SharedCaches {
        self.attached::<SharedCaches>()
    }

    /// Returns the sizes of a store with `options`. The budget is that of all stores.
    pub(super) fn sizes_of(&self, options: &Options) -> Sizes {
        let long_jobs = self.workers().long_jobs_max();
        let own = Options {
            memory_budget_bytes: Some(self.budget_bytes()),
            cache_size_bytes: Some(self.caches().cache_max),
            background_threads: options.background_threads.filter(|count| *count == 0),
            ..options.clone()
        };
        let sizes = own.sizes(self.budget_bytes(), long_jobs + 1);
        if options.memtable_size_bytes.is_some() {
            return sizes;
        }
        // One active memtable, and three that wait for their flush.
        let chunk = CHUNK_BYTES as u64;
        let most = sizes.memtable_bytes.min(self.ledger().limit_bytes() / 4);
        let memtable_bytes = if most < chunk { most } else { most / chunk * chunk };
        let debt_limit_bytes = options.debt_limit_bytes.unwrap_or(24 * memtable_bytes);
        Sizes { memtable_bytes, debt_limit_bytes, ..sizes }
    }
}

/// The memory that the stores of a runtime share.
pub(super) struct SharedCaches {
    cache: Arc<BlockCache<Layout>>,
    pages: Arc<CacheBlockPool>,
    pool: Arc<ChunkPool>,
    pool_bytes: u64,
    cache_max: u64,
    tables_bytes: AtomicU64,
    index_budget: Arc<IndexBudget>,
    last_store: AtomicU32,
    resizing: Mutex<()>,
}

impl SharedCaches {
    fn new(policy: CachePolicy, cache_max: u64, budget: u64) -> SharedCaches {
        let pool_bytes = (budget / 16).min(POOL_BYTES_MAX);
        SharedCaches {
            cache: Arc::new(BlockCache::new(policy, cache_max)),
            pages: Arc::new(CacheBlockPool::starting_small()),
            pool: Arc::new(ChunkPool::new(pool_bytes as usize)),
            pool_bytes,
            cache_max,
            tables_bytes: AtomicU64::new(0),
            index_budget: IndexBudget::new(index_limit_bytes(budget, budget / MEMTABLES_PART)),
            last_store: AtomicU32::new(0),
            resizing: Mutex::new(()),
        }
    }

    /// Sets the capacity of the cache to what the rest of the budget leaves.
    fn resize(&self, runtime: &Runtime) {
        let _serial = self.resizing.lock();
        let budget = runtime.budget_bytes();
        let tables = self.tables_bytes.load(Ordering::Relaxed) + self.pages.free_bytes() as u64;
        let stores = runtime.workers().members() as u64 * IDLE_STORE_BYTES;
        let memtables = runtime.ledger().limit_bytes() + self.pool_bytes;
        let allocator = budget / ALLOCATOR_PART;
        let held = memtables + tables + stores + transient_bytes(budget) + allocator;
        let room = budget.saturating_sub(held).max(self.cache_max / 8);
        let capacity = self.cache_max.min(room);
        // Each change visits all shards.
        let step = self.cache_max / 64;
        let before = self.cache.capacity_bytes();
        if capacity + step < before || capacity > before + step {
            self.cache.set_capacity(capacity);
        }
    }
}

/// The memory of a store: its own, or that of its runtime.
#[derive(Clone)]
pub(super) struct StoreMemory {
    pub cache: Arc<BlockCache<Layout>>,
    /// The number of the store in the cache.
    pub cache_store: u32,
    pub pages: Arc<CacheBlockPool>,
    pub pool: Arc<ChunkPool>,
    pub index_budget: Arc<IndexBudget>,
}

impl StoreMemory {
    /// Returns the memory of a store with `options`.
    pub fn of(options: &Options, sizes: &Sizes) -> StoreMemory {
        let Some(runtime) = &options.runtime else {
            return StoreMemory {
                cache: Arc::new(BlockCache::new(options.cache_policy, sizes.cache_bytes)),
                cache_store: 0,
                pages: Arc::default(),
                pool: Arc::new(ChunkPool::new(sizes.memtable_bytes as usize)),
                index_budget: IndexBudget::new(store_index_limit_bytes(options, sizes)),
            };
        };
        let caches = runtime.caches();
        StoreMemory {
            cache: caches.cache.clone(),
            cache_store: caches.last_store.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            pages: caches.pages.clone(),
            pool: caches.pool.clone(),
            index_budget: caches.index_budget.clone(),
        }
    }
}

/// Returns the limit of the memory for whole indexes and filters, in bytes: half of what memtables
/// and short-lived memory leave of the budget, at least an eighth of the budget. The cache has the
/// other half.
fn index_limit_bytes(budget_bytes: u64, memtables_bytes: u64) -> u64 {
    let held = memtables_bytes.saturating_add(transient_bytes(budget_bytes));
    (budget_bytes.saturating_sub(held) / 2).max(budget_bytes / 8)
}

/// Returns the same for a store that has a budget of its own.
pub(super) fn store_index_limit_bytes(options: &Options, sizes: &Sizes) -> u64 {
    let memtables = ChunkPool::most_bytes(1 + options.frozen_memtables_max, sizes.memtable_bytes);
    let limit = index_limit_bytes(sizes.memory_budget_bytes, memtables);
    limit.min(options.thresholds.index_bytes_max)
}

/// Returns an error if the runtime of `options` belongs to the parent of this process.
pub(super) fn check_runtime(options: &Options) -> Result<()> {
    match &options.runtime {
        Some(runtime) if runtime.is_forked() => Err(Error::new(
            ErrorKind::InvalidArgument,
            "the runtime was created before this process was forked; create one in this process",
        )),
        _ => Ok(()),
    }
}

/// Where the scrub of a store is.
#[derive(Default)]
pub(crate) struct ScrubState {
    /// Number of the last table that was read.
    pub last: u64,
    pub due: Option<Instant>,
}

/// The share of a store in its runtime.
pub(crate) struct RuntimeShare {
    runtime: Runtime,
    cache_store: u32,
    /// `None` for a store without background work.
    background: Option<(Member, Arc<Account>)>,
    tables_bytes: Mutex<u64>,
    /// When the log is synced next, with `sync_every_ms`.
    pub sync_due: Mutex<Option<Instant>>,
    pub scrub: Mutex<ScrubState>,
}

impl RuntimeShare {
    /// Returns the share of a store with `options`, which has jobs if `is_working`.
    pub fn of(
        options: &Options,
        cache_store: u32,
        is_working: bool,
        jobs: Weak<dyn Jobs>,
    ) -> Option<RuntimeShare> {
        let runtime = options.runtime.clone()?;
        let background =
            is_working.then(|| (runtime.workers().join(jobs), runtime.ledger().open_account()));
        Some(RuntimeShare {
            runtime,
            cache_store,
            background,
            tables_bytes: Mutex::new(0),
            sync_due: Mutex::new(None),
            scrub: Mutex::default(),
        })
    }

    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    #[inline]
    pub fn member(&self) -> Option<&Member> {
        self.background.as_ref().map(|background| &background.0)
    }

    #[inline]
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.background.as_ref().map(|background| &background.1)
    }

    /// Records the memory of the open tables of the store, and adapts the cache.
    pub fn note_tables(&self, files: &[Arc<FileMeta>]) {
        self.set_tables(files.iter().map(|file| file.memory_bytes() as u64).sum());
    }

    fn set_tables(&self, bytes: u64) {
        let caches = self.runtime.caches();
        let mut before = self.tables_bytes.lock();
        // Modulo 2^64: the difference may be negative.
        caches.tables_bytes.fetch_add(bytes.wrapping_sub(*before), Ordering::Relaxed);
        *before = bytes;
        drop(before);
        caches.resize(&self.runtime);
    }

    /// Ends the jobs of the store, and gives its memory back. A job that calls this goes on.
    pub fn leave(&self) {
        if let Some((member, account)) = &self.background {
            member.leave();
            account.close();
        }
        self.set_tables(0);
        self.runtime.caches().cache.remove_store(self.cache_store);
    }
}

impl Drop for RuntimeShare {
    fn drop(&mut self) {
        if !self.runtime.is_forked() {
            self.leave();
        }
    }
}
