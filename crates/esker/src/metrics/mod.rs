//! Layer 0: the store's counters, and the report made from them.
//!
//! Counters are monotonic and are read without a lock. Two numbers of a report may therefore be a
//! few operations apart. `table.rs` describes each number of the report, `openmetrics.rs` formats
//! them for a monitoring system.

mod counter;
mod openmetrics;
mod table;

pub use counter::{Counter, LazyStriped, Striped};
pub use table::{METRICS, MetricSpec};

use crate::base::sync::Mutex;

/// Counters of one level since the store was opened.
#[derive(Debug, Default)]
pub struct LevelCounters {
    /// Bytes read from this level by compactions.
    pub read_bytes: Counter,
    /// Bytes written to this level by flushes and compactions.
    pub written_bytes: Counter,
    /// Compactions that wrote to this level.
    pub compactions: Counter,
    /// Files moved to this level without a rewrite.
    pub moves: Counter,
    /// Gets that found their version in this level (a value or a tombstone).
    pub table_gets: LazyStriped,
}

/// Counters of what flushes and compactions do with merge operands, expired pairs and filtered
/// pairs, and the last problem of a callback.
#[derive(Debug, Default)]
pub struct RewriteCounters {
    /// Merge operands that became part of a value or of another operand.
    pub operands_merged: Counter,
    /// Keys with more than 64 operands whose operands were combined.
    pub long_chains: Counter,
    /// Pairs that were removed because they had expired.
    pub expired: Counter,
    /// Slices of table files that were removed whole because all their pairs had expired.
    pub expired_files: Counter,
    /// Pairs that a compaction filter removed or replaced.
    pub filtered: Counter,
    /// Failures and panics of merge operators and compaction filters.
    pub callback_problems: Counter,
    last_problem: Mutex<Option<String>>,
}

impl RewriteCounters {
    /// Records a failure or a panic of a merge operator or of a compaction filter.
    pub fn note_problem(&self, problem: String) {
        self.callback_problems.add(1);
        *self.last_problem.lock() = Some(problem);
    }

    /// Returns the last recorded problem.
    pub fn last_problem(&self) -> Option<String> {
        self.last_problem.lock().clone()
    }
}

/// The store's counters.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Bytes of keys and values in writes. Counted by the committing thread.
    pub user_bytes: Counter,
    /// Operations in those writes. Counted by the committing thread.
    pub user_ops: Counter,
    /// Bytes written to the WAL. Counted by the committing thread.
    pub log_bytes: Counter,
    /// Bytes written to the WAL without a write call. Counted by the committing thread.
    pub log_mapped_bytes: Counter,
    /// Syncs of the WAL.
    pub log_syncs: Counter,
    /// Flushes of a memtable.
    pub flushes: Counter,
    /// Bytes of tables written by flushes.
    pub flush_bytes: Counter,
    /// Ingests and bulk loads that installed tables.
    pub ingests: Counter,
    /// Bytes of those tables.
    pub ingested_bytes: Counter,
    /// Compactions that wrote files.
    pub compactions: Counter,
    /// Bytes of tables written by compactions.
    pub compaction_bytes: Counter,
    /// Bytes of tables read by compactions.
    pub compaction_read_bytes: Counter,
    /// Compactions of a store at rest.
    pub rest_compactions: Counter,
    /// Bytes of tables written by those compactions.
    pub rest_bytes: Counter,
    /// Microseconds for which writers were delayed by the write throttle or by the search for
    /// empty-range hints.
    pub slowed_us: Counter,
    /// Microseconds for which compactions yielded to readers.
    pub yielded_us: Counter,
    /// Microseconds for which writers were stalled because every memtable was full.
    pub stalled_us: Counter,
    /// Bytes read by the scrub.
    pub scrub_bytes: Counter,
    /// Complete passes of the scrub over the store.
    pub scrub_rounds: Counter,
    /// Damaged files found by the scrub, counted in each pass.
    pub scrub_problems: Counter,
    /// Merges, expiry and filters in flushes and compactions.
    pub rewrites: RewriteCounters,
    /// Counters per level.
    pub levels: [LevelCounters; LEVELS],
}

/// Number of levels, and the maximum number of levels in a store.
pub const LEVELS: usize = 8;

/// One level in a [`Metrics`] report.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LevelMetrics {
    /// Number of the level. Flushes write to level 0.
    pub level: usize,
    /// Number of guards (key ranges).
    pub guards: u64,
    /// Maximum number of runs in a guard.
    pub runs_max: u64,
    /// Number of fragments (slices of files).
    pub fragments: u64,
    /// Number of files with at least one slice in the level.
    pub files: u64,
    /// Estimated bytes of the slices.
    pub bytes: u64,
    /// Bytes read from the level by compactions since open.
    pub read_bytes: u64,
    /// Bytes written to the level by flushes and compactions since open.
    pub written_bytes: u64,
    /// Compactions that wrote to the level since open.
    pub compactions: u64,
    /// Files moved to the level without a rewrite since open.
    pub moves: u64,
    /// Gets that found their version in the level (a value or a tombstone) since open.
    pub table_gets: u64,
}

/// Memory in bytes, by owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryMetrics {
    /// Bytes of the active memtable.
    pub active_memtable_bytes: u64,
    /// Bytes of the immutable memtables, which wait for their flush.
    pub frozen_memtables_bytes: u64,
    /// Bytes kept for future memtables: memory of dropped memtables and preallocated memory.
    pub pooled_bytes: u64,
    /// Bytes of blocks in the cache.
    pub cache_bytes: u64,
    /// Free bytes between those blocks, and bytes of evicted blocks that readers still hold.
    pub cache_spare_bytes: u64,
    /// Reserved bytes of the cache's capacity, used by block sketches. With a sketch,
    /// seeks over several runs read fewer blocks.
    pub cache_reserved_bytes: u64,
    /// Current capacity of the cache in bytes, including the reserved bytes.
    pub cache_capacity_bytes: u64,
    /// Bytes of the indexes, filters and range tombstones of open tables, and of the free memory
    /// between them.
    pub tables_bytes: u64,
    /// Limit of the sum of all these, in bytes.
    pub budget_bytes: u64,
}

/// One table file in one level, as returned by [`crate::Db::tables`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableEntry {
    /// Tree of the file. Tree 0 holds the default keyspace. Keys of other trees begin with four
    /// bytes that stand for their keyspace.
    pub tree: u32,
    /// Level of the file. A file with slices in several levels is listed once for each.
    pub level: usize,
    /// File number, which is also the file's name.
    pub number: u64,
    /// Bytes of the whole file.
    pub size_bytes: u64,
    /// Number of entries of the whole file: puts and deletes.
    pub entries: u64,
    /// Number of deletes among the entries.
    pub deletes: u64,
    /// Number of range tombstones of the whole file.
    pub range_deletes: u64,
    /// Bytes of keys and values of the whole file, before layout and compression.
    pub raw_bytes: u64,
    /// First key of the file.
    pub smallest: Vec<u8>,
    /// Last key of the file.
    pub largest: Vec<u8>,
}

/// A report about the store at one point in time. Counters start when the store is opened.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// One element per level, from 0 to the deepest level in use.
    pub levels: Vec<LevelMetrics>,
    /// Memory by owner.
    pub memory: MemoryMetrics,
    /// Block cache hits.
    pub cache_hits: u64,
    /// Block cache misses.
    pub cache_misses: u64,
    /// Blocks evicted from the cache.
    pub cache_evictions: u64,
    /// Bytes of keys and values in writes.
    pub user_bytes: u64,
    /// Operations in those writes.
    pub user_ops: u64,
    /// Bytes written to the WAL.
    pub log_bytes: u64,
    /// Part of `log_bytes` that no write call of this process carried, so that the system's I/O
    /// counters miss it. Most pages of a memory-mapped WAL are created by writing zeros. A record
    /// stored later in such a page is counted with these zeros, because the page goes to the device
    /// once.
    pub log_mapped_bytes: u64,
    /// Syncs of the WAL.
    pub log_syncs: u64,
    /// Flushes of a memtable.
    pub flushes: u64,
    /// Bytes of tables and value files written by flushes.
    pub flush_bytes: u64,
    /// Ingests and bulk loads that installed tables.
    pub ingests: u64,
    /// Bytes of the tables that ingests and bulk loads installed.
    pub ingested_bytes: u64,
    /// Compactions that wrote files.
    pub compactions: u64,
    /// Bytes of tables and value files written by compactions.
    pub compaction_bytes: u64,
    /// Bytes of tables read by compactions.
    pub compaction_read_bytes: u64,
    /// Part of `compactions` that a store at rest did (option `rest_compaction`).
    pub rest_compactions: u64,
    /// Part of `compaction_bytes` that a store at rest wrote.
    pub rest_bytes: u64,
    /// Merge operands that flushes and compactions made part of a value or of another operand.
    pub operands_merged: u64,
    /// Keys with more than 64 merge operands whose operands flushes and compactions combined.
    pub long_chains: u64,
    /// Pairs that flushes and compactions removed because they had expired.
    pub expired: u64,
    /// Slices of table files that were removed whole because all their pairs had expired.
    pub expired_files: u64,
    /// Pairs that a compaction filter removed or replaced.
    pub filtered: u64,
    /// Failures and panics of merge operators and compaction filters in flushes and compactions.
    pub callback_problems: u64,
    /// Last failure or panic of a merge operator or a compaction filter in a flush or a compaction.
    pub callback_problem: Option<String>,
    /// Compaction debt: bytes that wait to be pushed down or merged.
    pub debt_bytes: u64,
    /// Estimated bytes of the tables that the newest state of the store needs. All bytes, while the
    /// sizes of the tables show that the bound on space is far. 0 without a bound.
    pub live_bytes: u64,
    /// Microseconds for which writers were delayed by the write throttle or by the search for
    /// empty-range hints.
    pub slowed_us: u64,
    /// Microseconds for which compactions yielded a processor that they shared with readers.
    pub yielded_us: u64,
    /// Microseconds for which writers were stalled until a memtable was free.
    pub stalled_us: u64,
    /// Live snapshots.
    pub snapshots: u64,
    /// Immutable memtables, which wait for their flush.
    pub frozen_memtables: u64,
    /// Format version of the store's files ([`Db::upgrade_format`](crate::Db::upgrade_format)).
    pub format_version: u64,
    /// Newest sequence number visible to readers.
    pub last_seqno: u64,
    /// Bytes of table files.
    pub table_bytes: u64,
    /// Table files.
    pub table_files: u64,
    /// Bytes of value files.
    pub value_bytes: u64,
    /// Bytes of the records in value files that tables point to.
    pub value_live_bytes: u64,
    /// Number of value files.
    pub value_files: u64,
    /// Empty-range hints: key ranges without visible keys, which scans skip.
    pub hints: u64,
    /// Jumps of scans over these ranges.
    pub hint_jumps: u64,
    /// Bytes read by the scrub since open.
    pub scrub_bytes: u64,
    /// Complete passes of the scrub over the store.
    pub scrub_rounds: u64,
    /// Damaged files found by the scrub, counted in each pass.
    pub scrub_problems: u64,
    /// Last problem found by the scrub.
    pub scrub_problem: Option<String>,
    /// Event listeners that panicked since open. They are not called again.
    pub listener_panics: u64,
    /// Events that were dropped since open, because too many waited for slow listeners.
    pub events_lost: u64,
    /// Lines of the file `LOG` that could not be written since open.
    pub log_file_lines_lost: u64,
    /// Failed updates of the file `STATUS` since open.
    pub status_file_failures: u64,
}

impl Metrics {
    /// Returns the bytes written to storage (WAL, flushes, compactions) per byte of user writes
    /// since open. Returns `None` before the first write.
    pub fn write_amplification(&self) -> Option<f64> {
        let written = self.log_bytes + self.flush_bytes + self.compaction_bytes;
        (self.user_bytes > 0).then(|| written as f64 / self.user_bytes as f64)
    }

    /// Returns the fraction of block reads served by the cache. Returns `None` before the first
    /// read.
    pub fn cache_hit_rate(&self) -> Option<f64> {
        let all = self.cache_hits + self.cache_misses;
        (all > 0).then(|| self.cache_hits as f64 / all as f64)
    }
}

impl std::fmt::Display for Metrics {
    /// Formats a table of the levels, and one line each for write amplification, the cache and
    /// memory.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::base::units::human_bytes as bytes;
        writeln!(f, "level guards runs files      bytes       read    written moves")?;
        for l in &self.levels {
            let (size, read, written) =
                (bytes(l.bytes), bytes(l.read_bytes), bytes(l.written_bytes));
            writeln!(
                f,
                "{:5} {:6} {:4} {:5} {size:>10} {read:>10} {written:>10} {:5}",
                l.level, l.guards, l.runs_max, l.files, l.moves
            )?;
        }
        let ratio = |value: Option<f64>| value.map_or("n/a".to_string(), |v| format!("{v:.2}"));
        writeln!(f, "write amplification {}", ratio(self.write_amplification()))?;
        writeln!(f, "cache hit rate {}", ratio(self.cache_hit_rate()))?;
        let m = &self.memory;
        let memtables = m.active_memtable_bytes + m.frozen_memtables_bytes + m.pooled_bytes;
        write!(
            f,
            "memory: memtables {}, cache {}, tables {}, budget {}",
            bytes(memtables),
            bytes(m.cache_bytes),
            bytes(m.tables_bytes),
            bytes(m.budget_bytes)
        )
    }
}
