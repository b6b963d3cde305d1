//! Thresholds of the engine that are no options: the sizes from which on a mechanism pays.
//!
//! A small store never reaches the values that ship. A test of such a store opens it with
//! [`Thresholds::small`], through a hidden field of [`crate::Options`]. No value depends on the
//! build.

use super::format_version::FormatVersion;

/// The thresholds of a store. [`Default`] has the values that ship.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Minimum number of entries in all tables at which a get prefetches filters and indexes. Ships
    /// as 1,250,000. Measured: gets became slower at 1 million entries and faster at 1.3 million.
    pub many_entries_min: u64,
    /// Minimum memtable size, in bytes, for a flush because of seeks. Ships as 1 MiB. A smaller
    /// memtable fits in the processor's caches.
    pub seek_flush_bytes_min: usize,
    /// Number of deletes between two searches for an empty-range hint around a deleted key. Ships
    /// as 4,096. Searches that find nothing raise the number to at most four times this one.
    pub hint_search_deletes: u32,
    /// Minimum number of entries in a tombstone run for a hint. Ships as 256.
    pub hint_entries_min: u64,
    /// Maximum number of hints. Ships as 64. The hints that save the fewest steps are dropped
    /// first.
    pub hints_max: usize,
    /// Step budget of the search: maximum number of hint lookups in one search step. Ships as 256,
    /// which is about 8,000 keys.
    pub hint_search_lookups_max: u64,
    /// Number of consecutive invisible keys before an iterator's first lookup in the hints. Ships
    /// as 8.
    pub tombstones_min: u64,
    /// Number of further invisible keys before each next lookup. Ships as 32.
    pub tombstones_step: u64,
    /// Minimum number of invisible keys that a seek steps over one by one and reports as an empty
    /// range. Ships as 16. A report costs about as much.
    pub walk_reported_min: u64,
    /// Number of moves of an iterator's source before it is asked for a row batch again. Ships
    /// as 8.
    pub moves_without_batch: u32,
    /// Time without a write after which a store is at rest, in ms. Ships as 2,000.
    pub rest_wait_ms: u64,
    /// Maximum share of the time for which tasks of the machine waited for a processor or a device
    /// lately, in percent, at which a rest begins; and for a processor, at which it goes on. Ships
    /// as 50.
    pub rest_pressure_max_percent: u32,
    /// Directory in which the system tells for how much time tasks waited. Ships as `/proc/pressure`.
    pub pressure_dir: &'static str,
    /// Bytes of tables from which on the space of a tree is bounded. Ships as 1 MiB, because smaller
    /// trees cost nothing.
    pub space_bytes_min: u64,
    /// Maximum memory for whole indexes and filters of open tables, in bytes, in addition to the
    /// limit that the budget gives. Ships without one. Stores of a runtime have the runtime's limit
    /// alone.
    pub index_bytes_max: u64,
    /// Maximum length, in bytes, of a value from a reader that is written as an ordinary put. Ships
    /// as 512 KiB: two copies of it are in memory at once.
    pub streamed_put_bytes_max: usize,
    /// Newest format version of a store that is opened or repaired. Ships as the newest one. With an
    /// older one the code is like an older release.
    pub newest_format: FormatVersion,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            many_entries_min: 1_250_000,
            seek_flush_bytes_min: 1 << 20,
            hint_search_deletes: 4096,
            hint_entries_min: 256,
            hints_max: 64,
            hint_search_lookups_max: 256,
            tombstones_min: 8,
            tombstones_step: 32,
            walk_reported_min: 16,
            moves_without_batch: 8,
            rest_wait_ms: 2_000,
            rest_pressure_max_percent: 50,
            pressure_dir: "/proc/pressure",
            space_bytes_min: 1 << 20,
            index_bytes_max: u64::MAX,
            streamed_put_bytes_max: 512 << 10,
            newest_format: FormatVersion::NEWEST,
        }
    }
}

impl Thresholds {
    /// Returns values that a store of a few hundred keys reaches, for tests.
    pub fn small() -> Thresholds {
        Thresholds {
            many_entries_min: 200,
            seek_flush_bytes_min: 64 << 10,
            hint_search_deletes: 16,
            hint_entries_min: 4,
            hints_max: 8,
            hint_search_lookups_max: 8,
            tombstones_min: 2,
            tombstones_step: 3,
            walk_reported_min: 5,
            moves_without_batch: 1,
            rest_wait_ms: 5,
            rest_pressure_max_percent: 100,
            pressure_dir: "/proc/pressure",
            space_bytes_min: 0,
            index_bytes_max: 6 << 10,
            streamed_put_bytes_max: 100,
            newest_format: FormatVersion::NEWEST,
        }
    }
}
