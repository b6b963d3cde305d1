//! The memory that the indexes and filters of open tables may take as a whole.
//!
//! Invariant: `used_bytes` is the sum over the permits that exist. At the time of a grant it exceeds
//! the limit by no more than the permits that the inputs of the grantee's compaction give back when
//! it has ended. A limit that falls later takes nothing back.

use std::sync::Arc;

use super::ReadConfig;
use crate::base::sync::atomic::{AtomicU64, Ordering};

/// The memory for whole indexes and filters, which the tables of a store, or of all stores of a
/// runtime, share. A table that gets no permit reads its index and filter in partitions
/// (`table/partitions.rs`).
#[derive(Debug)]
pub struct IndexBudget {
    used_bytes: AtomicU64,
    limit_bytes: AtomicU64,
}

/// The part of an [`IndexBudget`] that one open table holds. Drop gives it back.
#[derive(Debug)]
pub struct IndexPermit {
    budget: Arc<IndexBudget>,
    bytes: u64,
}

impl IndexBudget {
    /// Creates a budget of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Arc<IndexBudget> {
        let (used_bytes, limit_bytes) = (AtomicU64::new(0), AtomicU64::new(limit_bytes));
        Arc::new(IndexBudget { used_bytes, limit_bytes })
    }

    /// Creates a budget that every table fits in.
    pub fn unlimited() -> Arc<IndexBudget> {
        IndexBudget::new(u64::MAX)
    }

    /// Sets the limit for later permits.
    pub fn set_limit(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the memory for which permits exist, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Returns a permit for `bytes` of a table that is opened with `config`, or `None` if the limit
    /// leaves too little.
    pub(super) fn permit(self: &Arc<Self>, bytes: u64, config: &ReadConfig) -> Option<IndexPermit> {
        let limit = self.limit_bytes.load(Ordering::Relaxed);
        let most = if config.is_flushed { limit } else { limit - limit / 4 };
        let most = most.saturating_add(config.index_credit_bytes);
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(IndexPermit { budget: self.clone(), bytes })
    }
}

impl IndexPermit {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for IndexPermit {
    fn drop(&mut self) {
        self.budget.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
