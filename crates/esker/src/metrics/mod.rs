//! Layer 0: what the store counts while it runs, and the report made of it.
//!
//! Counters only grow and are read without a lock, so a report is a picture of a moment that may
//! be a few operations apart between two numbers.

mod counter;

pub use counter::{Counter, Striped};

/// What one level went through since the store was opened.
#[derive(Debug, Default)]
pub struct LevelCounters {
    /// Bytes read from this level by compactions.
    pub read_bytes: Counter,
    /// Bytes written into this level by flushes and compactions.
    pub written_bytes: Counter,
    /// Compactions that wrote into this level.
    pub compactions: Counter,
    /// Files moved into this level without a rewrite.
    pub moves: Counter,
    /// Gets that found their version in this level (a value or a tombstone).
    pub table_gets: Striped,
}

/// The store's counters.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Bytes of keys and values given to writes; counted by whoever commits.
    pub user_bytes: Counter,
    /// Operations in those writes; the same.
    pub user_ops: Counter,
    /// Bytes written to the log; the same.
    pub log_bytes: Counter,
    /// Those that no write call carried; the same.
    pub log_mapped_bytes: Counter,
    /// Times the log was synced.
    pub log_syncs: Counter,
    /// Flushes of a memtable.
    pub flushes: Counter,
    /// Bytes of tables written by flushes.
    pub flush_bytes: Counter,
    /// Compactions that wrote files.
    pub compactions: Counter,
    /// Bytes of tables written by compactions.
    pub compaction_bytes: Counter,
    /// Bytes of tables read by compactions.
    pub compaction_read_bytes: Counter,
    /// Microseconds writers were slowed by back-pressure, or for the search for skip hints.
    pub slowed_us: Counter,
    /// Microseconds merges rested for readers.
    pub rested_us: Counter,
    /// Microseconds writers waited because every memtable was full.
    pub stalled_us: Counter,
    /// Bytes the scrub read.
    pub scrub_bytes: Counter,
    /// Times the scrub read all there was.
    pub scrub_rounds: Counter,
    /// Files it found damaged, each time it did.
    pub scrub_problems: Counter,
    /// Per level.
    pub levels: [LevelCounters; LEVELS],
}

/// How many levels are counted; also the most a store has.
pub const LEVELS: usize = 8;

/// One level in a [`Metrics`] report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LevelMetrics {
    /// Its number; 0 takes the flushes.
    pub level: usize,
    /// Guards (key ranges) it is cut into.
    pub guards: u64,
    /// The most runs any of its guards has.
    pub runs_max: u64,
    /// Fragments (slices of files) in it.
    pub fragments: u64,
    /// Files with at least one slice in it.
    pub files: u64,
    /// Estimated bytes of its slices.
    pub bytes: u64,
    /// Bytes compactions read from it since open.
    pub read_bytes: u64,
    /// Bytes flushes and compactions wrote into it since open.
    pub written_bytes: u64,
    /// Compactions that wrote into it since open.
    pub compactions: u64,
    /// Files moved into it without a rewrite since open.
    pub moves: u64,
    /// Gets that had to look into one of its tables since open.
    pub table_gets: u64,
}

/// Bytes of memory by owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryMetrics {
    /// The memtable that takes writes.
    pub active_memtable_bytes: u64,
    /// Memtables waiting for their flush.
    pub frozen_memtables_bytes: u64,
    /// Memory of dropped memtables, kept for the next, and what was made ahead.
    pub pooled_bytes: u64,
    /// Blocks in the cache.
    pub cache_bytes: u64,
    /// Memory between those blocks, and of blocks that readers hold and the cache does not.
    pub cache_spare_bytes: u64,
    /// Bytes of the cache's capacity that outlines of blocks take, which spare seeks into several
    /// runs most of the blocks.
    pub cache_lent_bytes: u64,
    /// What the cache may hold now, with what is lent of it.
    pub cache_capacity_bytes: u64,
    /// Indexes, filters and range tombstones of open tables, and the memory between them.
    pub tables_bytes: u64,
    /// The bound on all of these together.
    pub budget_bytes: u64,
}

/// One table file in one level, as [`crate::Db::tables`] lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// The level it lies in; a file shown as slices in several levels is listed in each.
    pub level: usize,
    /// Its number, which is its name.
    pub number: u64,
    /// Bytes of the whole file.
    pub size_bytes: u64,
    /// Its first key.
    pub smallest: Vec<u8>,
    /// Its last key.
    pub largest: Vec<u8>,
}

/// A picture of the store at one moment; counters run since it was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// One entry per level, from 0 to the deepest in use.
    pub levels: Vec<LevelMetrics>,
    /// Memory by owner.
    pub memory: MemoryMetrics,
    /// Block cache hits.
    pub cache_hits: u64,
    /// Block cache misses.
    pub cache_misses: u64,
    /// Blocks evicted from the cache.
    pub cache_evictions: u64,
    /// Bytes of keys and values given to writes.
    pub user_bytes: u64,
    /// Operations in those writes.
    pub user_ops: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Bytes of those that no write call of this process carried, so that the system's counters miss
    /// them. Most pages of a mapped log are made by writing zeros; a record put there later is
    /// counted with them, as the page is carried to the device once.
    pub log_mapped_bytes: u64,
    /// Times the log was synced.
    pub log_syncs: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes written by flushes.
    pub flush_bytes: u64,
    /// Compactions that wrote files.
    pub compactions: u64,
    /// Bytes written by compactions.
    pub compaction_bytes: u64,
    /// Bytes read by compactions.
    pub compaction_read_bytes: u64,
    /// Bytes waiting to be pushed or merged.
    pub debt_bytes: u64,
    /// Microseconds writers were slowed, by back-pressure or for the search for skip hints.
    pub slowed_us: u64,
    /// Microseconds merges rested, where they had to share a processor with readers.
    pub rested_us: u64,
    /// Microseconds writers waited for a free memtable.
    pub stalled_us: u64,
    /// Snapshots alive.
    pub snapshots: u64,
    /// Memtables waiting for their flush.
    pub frozen_memtables: u64,
    /// The newest sequence number readers see.
    pub last_seqno: u64,
    /// Bytes of table files.
    pub table_bytes: u64,
    /// Table files.
    pub table_files: u64,
    /// Ranges known to hold nothing visible, which scans jump over.
    pub hints: u64,
    /// Jumps over them.
    pub hint_jumps: u64,
    /// Bytes the scrub read since open.
    pub scrub_bytes: u64,
    /// Times the scrub read the whole store.
    pub scrub_rounds: u64,
    /// Files the scrub found damaged, counted each time.
    pub scrub_problems: u64,
    /// What the scrub found last.
    pub scrub_problem: Option<String>,
}

impl Metrics {
    /// Bytes written to storage (log, flushes, compactions) per byte the user wrote since open;
    /// `None` before the first write.
    pub fn write_amplification(&self) -> Option<f64> {
        let written = self.log_bytes + self.flush_bytes + self.compaction_bytes;
        (self.user_bytes > 0).then(|| written as f64 / self.user_bytes as f64)
    }

    /// The share of block reads the cache answered; `None` before the first.
    pub fn cache_hit_rate(&self) -> Option<f64> {
        let all = self.cache_hits + self.cache_misses;
        (all > 0).then(|| self.cache_hits as f64 / all as f64)
    }
}

impl std::fmt::Display for Metrics {
    /// A table of the levels, and a line each for amplification, cache and memory.
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
