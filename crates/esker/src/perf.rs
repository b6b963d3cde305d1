//! Layer 0: what one thread's calls cost: a [`PerfContext`] per thread, off by default.
//!
//! ```
//! # fn main() -> esker::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! use esker::perf::{self, PerfContext};
//! let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
//! db.put("key", "value")?;
//! perf::enable(true);
//! db.get("key")?;
//! let cost = PerfContext::take();
//! assert_eq!((cost.gets, cost.memtable_hits, cost.blocks_read), (1, 1, 0));
//! perf::enable(false);
//! # Ok(())
//! # }
//! ```
//!
//! Cost: while no thread of the process counts, a get, a put and each block that an iterator visits
//! test one shared flag. While a thread counts, that test also costs the other threads a look at
//! their own flag, and the gets of the counting thread take a slower path with the same result.
//!
//! Invariants: a thread changes only its own counts. A count is made on the thread that did the
//! work: the writer that commits a group counts the group's WAL bytes and sync, and the other writers
//! of the group count nothing.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Counts of the calls of one thread, over all stores, since the last [`PerfContext::take`].
///
/// Gets are [`Db::get`](crate::Db::get) and its relatives, one for each key of a
/// [`multi_get`](crate::Db::multi_get). The counts of memtables, tables and filters are those of
/// gets alone. The counts of blocks, and the cache hits and misses, include iterators, except the hits
/// and misses of an iterator that does not fill the cache. The steps of an iterator over memtables,
/// and the bytes that it reads, are not counted: a count would slow down each step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PerfContext {
    /// Gets.
    pub gets: u64,
    /// Gets that found their version (a value or a tombstone) in a memtable.
    pub memtable_hits: u64,
    /// Tables that gets looked into: one for each run that may hold the key.
    pub tables_searched: u64,
    /// Filters of tables that gets asked for their key. A table without a filter counts.
    pub filter_checks: u64,
    /// Filters that ruled the key out.
    pub filter_negatives: u64,
    /// Bytes of the values that gets found.
    pub value_bytes_read: u64,
    /// Blocks that were found in the block cache.
    pub cache_hits: u64,
    /// Blocks that were not found in the block cache.
    pub cache_misses: u64,
    /// Blocks, and partitions of indexes and filters, that were read from a file.
    pub blocks_read: u64,
    /// Bytes of these blocks in the file, that is compressed and with their checksums.
    pub block_bytes_read: u64,
    /// Bytes appended to the write-ahead log.
    pub wal_bytes: u64,
    /// Syncs of the write-ahead log.
    pub wal_syncs: u64,
    /// Nanoseconds for which writes waited because every memtable was full.
    pub stall_ns: u64,
    /// Nanoseconds for which writes were delayed by the write throttle or by the search for
    /// empty-range hints.
    pub throttle_ns: u64,
}

/// The number of threads that count, alone on its cache lines.
#[repr(align(128))]
struct Counting(AtomicUsize);

static COUNTING: Counting = Counting(AtomicUsize::new(0));

/// The state of a thread.
#[derive(Default)]
struct Mine {
    is_on: bool,
    counts: PerfContext,
}

impl Drop for Mine {
    fn drop(&mut self) {
        if self.is_on {
            COUNTING.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

thread_local! {
    static MINE: RefCell<Mine> = RefCell::default();
}

/// Switches the counting of this thread on or off. Switching it on sets its counts to zero. Other
/// threads are not affected. It is off in a new thread.
pub fn enable(on: bool) {
    let _ = MINE.try_with(|mine| {
        let Ok(mut mine) = mine.try_borrow_mut() else { return };
        if mine.is_on != on {
            mine.is_on = on;
            if on {
                COUNTING.0.fetch_add(1, Ordering::Relaxed);
            } else {
                COUNTING.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        if on {
            mine.counts = PerfContext::default();
        }
    });
}

impl PerfContext {
    /// Returns the counts of this thread since the last call, or since [`enable`], and sets them to
    /// zero. All counts are 0 while the counting is off.
    pub fn take() -> PerfContext {
        let taken = MINE.try_with(|mine| {
            let mut mine = mine.try_borrow_mut().ok()?;
            Some(std::mem::take(&mut mine.counts))
        });
        taken.ok().flatten().unwrap_or_default()
    }

    /// Adds other counts to these.
    pub(crate) fn add(&mut self, other: &PerfContext) {
        let PerfContext {
            gets,
            memtable_hits,
            tables_searched,
            filter_checks,
            filter_negatives,
            value_bytes_read,
            cache_hits,
            cache_misses,
            blocks_read,
            block_bytes_read,
            wal_bytes,
            wal_syncs,
            stall_ns,
            throttle_ns,
        } = other;
        self.gets += gets;
        self.memtable_hits += memtable_hits;
        self.tables_searched += tables_searched;
        self.filter_checks += filter_checks;
        self.filter_negatives += filter_negatives;
        self.value_bytes_read += value_bytes_read;
        self.cache_hits += cache_hits;
        self.cache_misses += cache_misses;
        self.blocks_read += blocks_read;
        self.block_bytes_read += block_bytes_read;
        self.wal_bytes += wal_bytes;
        self.wal_syncs += wal_syncs;
        self.stall_ns += stall_ns;
        self.throttle_ns += throttle_ns;
    }
}

/// Returns whether some thread counts.
#[inline(always)]
pub(crate) fn is_watched() -> bool {
    COUNTING.0.load(Ordering::Relaxed) != 0
}

/// Returns whether this thread counts.
#[cold]
pub(crate) fn is_mine() -> bool {
    MINE.try_with(|mine| mine.try_borrow().is_ok_and(|mine| mine.is_on)).unwrap_or(false)
}

/// Changes the counts of this thread by `change`, if the thread counts.
#[inline(always)]
pub(crate) fn count(change: impl FnOnce(&mut PerfContext)) {
    if is_watched() {
        count_mine(change);
    }
}

#[cold]
#[inline(never)]
fn count_mine(change: impl FnOnce(&mut PerfContext)) {
    let _ = MINE.try_with(|mine| {
        if let Ok(mut mine) = mine.try_borrow_mut()
            && mine.is_on
        {
            change(&mut mine.counts);
        }
    });
}

/// Returns a duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_belong_to_their_thread() {
        let one = || count(|counts| counts.blocks_read += 1);
        one();
        assert_eq!(PerfContext::take(), PerfContext::default());
        enable(true);
        assert!(is_watched() && is_mine());
        one();
        one();
        std::thread::spawn(move || {
            assert!(!is_mine());
            one();
            enable(true);
            one();
            assert_eq!(PerfContext::take().blocks_read, 1);
        })
        .join()
        .unwrap();
        assert_eq!(PerfContext::take().blocks_read, 2);
        assert_eq!(PerfContext::take().blocks_read, 0);
        one();
        enable(true);
        assert_eq!(PerfContext::take().blocks_read, 0);
        enable(false);
        one();
        assert_eq!(PerfContext::take().blocks_read, 0);
        assert!(!is_mine());
    }

    #[test]
    fn counts_are_added_field_by_field() {
        let all = PerfContext {
            gets: 1,
            memtable_hits: 2,
            tables_searched: 3,
            filter_checks: 4,
            filter_negatives: 5,
            value_bytes_read: 6,
            cache_hits: 7,
            cache_misses: 8,
            blocks_read: 9,
            block_bytes_read: 10,
            wal_bytes: 11,
            wal_syncs: 12,
            stall_ns: 13,
            throttle_ns: 14,
        };
        let mut sum = PerfContext::default();
        sum.add(&all);
        assert_eq!(sum, all);
        sum.add(&all);
        assert_eq!((sum.gets, sum.value_bytes_read, sum.throttle_ns), (2, 12, 28));
    }
}
