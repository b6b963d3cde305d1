//! The runtime: what several open stores share. Worker threads, one memory budget, and one limit
//! on background input and output. [`crate::db`] adds the block cache, whose type is of a higher
//! layer.
//!
//! Invariants: the runtime lives as long as one of its handles or of its stores. Its workers end
//! with it. A forked child of its process uses nothing of it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::memory_ledger::MemoryLedger;
use super::rate_limit::RateLimit;
use super::workers::Workers;
use crate::options::kinds::CachePolicy;

/// Threads, memory and background input and output that stores share.
///
/// Stores that are opened with the same runtime ([`Options::runtime`](crate::Options::runtime))
/// share its worker threads, its memory budget, its block cache and its limit on background writes.
/// A store without a runtime has all of these for itself.
///
/// * **Threads.** At most one more than the machine has cores, but at least three, whatever the
///   number of stores. They start when there is work, and end with the last handle and the last
///   store of the runtime. One further thread of the process prepares pages of logs
///   ([`WalIo::Mmap`](crate::WalIo::Mmap)). An idle store has no thread.
/// * **Memory.** A third of the budget is for memtables. When the active memtables exceed half of
///   that, the store with the largest one flushes it. When all memtables use their third, writers
///   wait until flushes have freed memory ([`Db::stall`](crate::Db::stall)). An eighth of the
///   budget or more is for merges, another one for the allocator, and 64 KiB are for each store.
///   The cache gets what the open tables leave of the rest, but at least a sixteenth of the
///   budget.
/// * **Fairness.** Stores take turns: after one flush or one compaction, the store waits behind
///   the others. So do writers that wait for memory. Flushes go before compactions, and both before searches and scrubs.
/// * **Failures.** A store whose device fails does not stop the others: its retries take turns
///   too, and its memory does not count.
///
/// Cloning a handle is cheap. The code of a store that workers call (key orders, filter policies,
/// listeners) occupies a worker while it runs, so it must not wait for another store of the same
/// runtime.
///
/// ```
/// use esker::{Db, Options, Runtime, RuntimeOptions};
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let runtime = Runtime::new(RuntimeOptions {
///     memory_budget_bytes: Some(128 << 20),
///     ..RuntimeOptions::default()
/// })?;
/// let mut tenants = Vec::new();
/// for tenant in ["anna", "ben"] {
///     let options = Options { runtime: Some(runtime.clone()), ..Options::default() };
///     tenants.push(Db::open(dir.path().join(tenant), options)?);
/// }
/// tenants[0].put("key", "value")?;
/// assert_eq!(runtime.metrics().stores, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runtime(Arc<Shared>);

/// Options of a [`Runtime`]. Make them with `..RuntimeOptions::default()`: later versions can add
/// fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeOptions {
    /// Limit on memtables, block cache, filters and indexes of all stores together, in bytes: 1 MiB
    /// to 1 TiB. `None`, the default: a quarter of the memory available to the process, which is
    /// the machine's memory or the lowest limit of its control groups (version 1 and 2); at least
    /// 4 MiB and at most 1 GiB. A store's own `memory_budget_bytes` has no effect.
    pub memory_budget_bytes: Option<u64>,
    /// Maximum size of the block cache, in bytes, 0 to the budget. `None`, the default: half of the
    /// budget. It shrinks as open tables need the memory.
    pub cache_size_bytes: Option<u64>,
    /// Replacement policy of the block cache. Default `s3fifo`.
    pub cache_policy: CachePolicy,
    /// Maximum number of worker threads, 3 to 256. `None`, the default: the number of cores plus
    /// one, but at least three.
    pub threads_max: Option<u64>,
    /// Limit on the bytes that flushes and compactions of all stores together write in a second, at
    /// least 64 KiB. 0, the default, is no limit. Flushes have precedence: they wait only for what
    /// exceeds the limit by half a second. A limit below the rate of the writes stalls the writes.
    pub background_bytes_per_second: u64,
    /// Makes `..RuntimeOptions::default()` necessary, so that a new field breaks no program.
    #[doc(hidden)]
    pub more: (),
}

impl Default for RuntimeOptions {
    fn default() -> RuntimeOptions {
        RuntimeOptions {
            memory_budget_bytes: None,
            cache_size_bytes: None,
            cache_policy: CachePolicy::S3Fifo,
            threads_max: None,
            background_bytes_per_second: 0,
            more: (),
        }
    }
}

/// What the stores of a runtime use together.
struct Shared {
    workers: Arc<Workers>,
    ledger: Arc<MemoryLedger>,
    rate_limit: Arc<RateLimit>,
    budget_bytes: u64,
    process: u32,
    /// What a higher layer shares.
    attached: Option<Box<dyn Any + Send + Sync>>,
}

impl Runtime {
    /// Creates a runtime of these parts. `memtables_bytes` is the part of the budget for memtables,
    /// and `attached` is what a higher layer shares.
    pub(crate) fn of_parts(
        workers_max: usize,
        (budget_bytes, memtables_bytes): (u64, u64),
        background_bytes_per_second: u64,
        attached: Box<dyn Any + Send + Sync>,
    ) -> Runtime {
        Runtime(Arc::new(Shared {
            workers: Workers::new(workers_max),
            ledger: MemoryLedger::new(memtables_bytes),
            rate_limit: Arc::new(RateLimit::new(background_bytes_per_second)),
            budget_bytes,
            process: std::process::id(),
            attached: Some(attached),
        }))
    }

    pub(crate) fn workers(&self) -> &Arc<Workers> {
        &self.0.workers
    }

    pub(crate) fn ledger(&self) -> &Arc<MemoryLedger> {
        &self.0.ledger
    }

    pub(crate) fn rate_limit(&self) -> &Arc<RateLimit> {
        &self.0.rate_limit
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        self.0.budget_bytes
    }

    /// Returns whether this process is a child of the one that created the runtime.
    pub(crate) fn is_forked(&self) -> bool {
        self.0.process != std::process::id()
    }

    /// Returns the attached value, which has this type.
    pub(crate) fn attached<T: Any>(&self) -> &T {
        let attached = self.0.attached.as_ref().and_then(|attached| attached.downcast_ref());
        attached.expect("one type of value is attached to runtimes")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The workers do not exist in a child of a fork, and may have held a lock.
        if self.process == std::process::id() {
            self.workers.end();
        } else {
            std::mem::forget(self.attached.take());
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({} B)", self.0.budget_bytes)
    }
}
