//! The metrics table: each number of a [`Metrics`] report with its name, unit and text.
//!
//! The rows generate the OpenMetrics text, the objects of `esker stats`, the numbers in the file
//! `STATUS`, and `docs/metrics.md`. A number that is not here is in none of them: a test compares
//! the rows with the fields of the report.

use super::{LevelMetrics, MemoryMetrics, Metrics};

/// Description of one number of a [`Metrics`] report.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct MetricSpec {
    /// Name of the field.
    pub field: &'static str,
    /// The part of the report that has the field: empty for [`Metrics`] itself, `memory` for
    /// [`MemoryMetrics`], `levels` for [`LevelMetrics`].
    pub part: &'static str,
    /// Name of the OpenMetrics family. A counter's sample has the suffix `_total` too.
    pub name: &'static str,
    /// Whether the number only grows while the store is open. The others go up and down.
    pub is_counter: bool,
    /// Unit in OpenMetrics: `bytes`, `seconds`, or empty for a plain number. A field of
    /// microseconds is given in seconds there.
    pub unit: &'static str,
    /// Description of the number.
    pub doc: &'static str,
    access: Access,
}

/// How to read and set a number.
#[derive(Clone, Copy)]
enum Access {
    Store { get: fn(&Metrics) -> u64, set: fn(&mut Metrics, u64) },
    Memory { get: fn(&MemoryMetrics) -> u64, set: fn(&mut MemoryMetrics, u64) },
    Level { get: fn(&LevelMetrics) -> u64, set: fn(&mut LevelMetrics, u64) },
}

impl MetricSpec {
    /// Returns the number in `metrics`; `None` for a number of levels.
    pub fn value(&self, metrics: &Metrics) -> Option<u64> {
        match self.access {
            Access::Store { get, .. } => Some(get(metrics)),
            Access::Memory { get, .. } => Some(get(&metrics.memory)),
            Access::Level { .. } => None,
        }
    }

    /// Returns the number of one level; `None` for a number that is not one of levels.
    pub fn level_value(&self, level: &LevelMetrics) -> Option<u64> {
        match self.access {
            Access::Level { get, .. } => Some(get(level)),
            Access::Store { .. } | Access::Memory { .. } => None,
        }
    }

    /// Sets the number. Does nothing for a number of levels.
    pub(crate) fn set(&self, metrics: &mut Metrics, value: u64) {
        match self.access {
            Access::Store { set, .. } => set(metrics, value),
            Access::Memory { set, .. } => set(&mut metrics.memory, value),
            Access::Level { .. } => {}
        }
    }

    /// Sets the number of one level. Does nothing for a number that is not one of levels.
    pub(crate) fn set_level(&self, level: &mut LevelMetrics, value: u64) {
        if let Access::Level { set, .. } = self.access {
            set(level, value);
        }
    }

    /// Returns whether the field counts microseconds.
    pub(super) fn is_micros(&self) -> bool {
        self.field.ends_with("_us")
    }
}

/// Whether a kind of metric is a counter.
macro_rules! is_counter {
    (counter) => {
        true
    };
    (gauge) => {
        false
    };
}

/// Generates [`METRICS`].
macro_rules! rows {
    ($( $access:ident $part:literal {
        $( $field:ident, $name:literal, $kind:ident, $unit:literal, $doc:literal; )+
    } )+) => {
        /// All numbers of a [`Metrics`] report, in the order of `docs/metrics.md`.
        pub static METRICS: &[MetricSpec] = &[ $( $( MetricSpec {
            field: stringify!($field),
            part: $part,
            name: $name,
            is_counter: is_counter!($kind),
            unit: $unit,
            doc: $doc,
            access: Access::$access { get: |m| m.$field, set: |m, value| m.$field = value },
        }, )+ )+ ];
    };
}

rows! {
    Store "" {
        cache_hits, "esker_cache_hits", counter, "",
            "Block cache hits.";
        cache_misses, "esker_cache_misses", counter, "",
            "Block cache misses.";
        cache_evictions, "esker_cache_evictions", counter, "",
            "Blocks evicted from the cache.";
        user_bytes, "esker_user_bytes", counter, "bytes",
            "Bytes of keys and values in writes.";
        user_ops, "esker_user_ops", counter, "",
            "Operations in writes.";
        log_bytes, "esker_log_bytes", counter, "bytes",
            "Bytes written to the write-ahead log.";
        log_mapped_bytes, "esker_log_mapped_bytes", counter, "bytes",
            "Part of the bytes written to the write-ahead log that no write call carried, because the log is memory-mapped.";
        log_syncs, "esker_log_syncs", counter, "",
            "Syncs of the write-ahead log.";
        flushes, "esker_flushes", counter, "",
            "Flushes of memtables.";
        flush_bytes, "esker_flush_bytes", counter, "bytes",
            "Bytes of tables and value files written by flushes.";
        ingests, "esker_ingests", counter, "",
            "Ingests and bulk loads that installed tables.";
        ingested_bytes, "esker_ingested_bytes", counter, "bytes",
            "Bytes of tables that ingests and bulk loads installed.";
        compactions, "esker_compactions", counter, "",
            "Compactions that wrote files.";
        compaction_bytes, "esker_compaction_bytes", counter, "bytes",
            "Bytes of tables and value files written by compactions.";
        compaction_read_bytes, "esker_compaction_read_bytes", counter, "bytes",
            "Bytes of tables read by compactions.";
        rest_compactions, "esker_rest_compactions", counter, "",
            "Part of the compactions that a store at rest did.";
        rest_bytes, "esker_rest_bytes", counter, "bytes",
            "Part of the bytes of tables written by compactions that a store at rest wrote.";
        debt_bytes, "esker_debt_bytes", gauge, "bytes",
            "Compaction debt: bytes that wait to be flushed, pushed down or merged.";
        live_bytes, "esker_live_bytes", gauge, "bytes",
            "Estimated bytes of the tables that the newest state of the store needs. All bytes, while the sizes of the tables show that the bound on space is far. 0 without a bound.";
        slowed_us, "esker_slowed_seconds", counter, "seconds",
            "Time for which writers were delayed by the write throttle or by the search for empty-range hints.";
        yielded_us, "esker_yielded_seconds", counter, "seconds",
            "Time for which compactions yielded a processor that they shared with readers.";
        stalled_us, "esker_stalled_seconds", counter, "seconds",
            "Time for which writers were stalled until a memtable was free.";
        snapshots, "esker_snapshots", gauge, "",
            "Live snapshots.";
        frozen_memtables, "esker_frozen_memtables", gauge, "",
            "Immutable memtables, which wait for their flush.";
        format_version, "esker_format_version", gauge, "",
            "Format version of the store's files.";
        last_seqno, "esker_last_seqno", gauge, "",
            "Newest sequence number visible to readers.";
        table_bytes, "esker_table_bytes", gauge, "bytes",
            "Bytes of table files.";
        table_files, "esker_table_files", gauge, "",
            "Table files.";
        value_bytes, "esker_value_bytes", gauge, "bytes",
            "Bytes of value files.";
        value_live_bytes, "esker_value_live_bytes", gauge, "bytes",
            "Bytes of the records in value files that tables point to.";
        value_files, "esker_value_files", gauge, "",
            "Value files.";
        hints, "esker_hints", gauge, "",
            "Empty-range hints: key ranges without visible keys, which scans skip.";
        hint_jumps, "esker_hint_jumps", gauge, "",
            "Jumps of scans over the ranges of the present empty-range hints.";
        scrub_bytes, "esker_scrub_bytes", counter, "bytes",
            "Bytes read by the scrub.";
        scrub_rounds, "esker_scrub_rounds", counter, "",
            "Complete passes of the scrub over the store.";
        scrub_problems, "esker_scrub_problems", counter, "",
            "Damaged files found by the scrub, counted in each pass.";
        listener_panics, "esker_listener_panics", counter, "",
            "Event listeners that panicked. They are not called again.";
        events_lost, "esker_events_lost", counter, "",
            "Events that were dropped because too many waited for slow listeners.";
        log_file_lines_lost, "esker_log_file_lines_lost", counter, "",
            "Lines of the file LOG that could not be written.";
        status_file_failures, "esker_status_file_failures", counter, "",
            "Failed updates of the file STATUS.";
        operands_merged, "esker_operands_merged", counter, "",
            "Merge operands that flushes and compactions made part of a value or of another operand.";
        long_chains, "esker_long_chains", counter, "",
            "Keys with more than 64 merge operands whose operands flushes and compactions combined.";
        expired, "esker_expired_pairs", counter, "",
            "Pairs that flushes and compactions removed because they had expired.";
        expired_files, "esker_expired_files", counter, "",
            "Slices of table files that were removed whole because all their pairs had expired.";
        filtered, "esker_filtered_pairs", counter, "",
            "Pairs that a compaction filter removed or replaced.";
        callback_problems, "esker_callback_problems", counter, "",
            "Failures and panics of merge operators and compaction filters in flushes and compactions.";
    }
    Memory "memory" {
        active_memtable_bytes, "esker_memory_active_memtable_bytes", gauge, "bytes",
            "Bytes of the active memtables.";
        frozen_memtables_bytes, "esker_memory_frozen_memtables_bytes", gauge, "bytes",
            "Bytes of the immutable memtables.";
        pooled_bytes, "esker_memory_pooled_bytes", gauge, "bytes",
            "Bytes kept for future memtables.";
        cache_bytes, "esker_memory_cache_bytes", gauge, "bytes",
            "Bytes of blocks in the cache.";
        cache_spare_bytes, "esker_memory_cache_spare_bytes", gauge, "bytes",
            "Free bytes between the blocks of the cache, and bytes of evicted blocks that readers still hold.";
        cache_reserved_bytes, "esker_memory_cache_reserved_bytes", gauge, "bytes",
            "Reserved bytes of the cache's capacity, used by block sketches.";
        cache_capacity_bytes, "esker_memory_cache_capacity_bytes", gauge, "bytes",
            "Current capacity of the cache, including the reserved bytes.";
        tables_bytes, "esker_memory_tables_bytes", gauge, "bytes",
            "Bytes of the indexes, filters and range tombstones of open tables.";
        budget_bytes, "esker_memory_budget_bytes", gauge, "bytes",
            "Limit of the sum of the memory of memtables, cache and open tables.";
    }
    Level "levels" {
        guards, "esker_level_guards", gauge, "",
            "Guards (key ranges) of the level.";
        runs_max, "esker_level_runs_max", gauge, "",
            "Maximum number of runs in a guard of the level.";
        fragments, "esker_level_fragments", gauge, "",
            "Fragments (slices of files) of the level.";
        files, "esker_level_files", gauge, "",
            "Files with at least one slice in the level.";
        bytes, "esker_level_bytes", gauge, "bytes",
            "Estimated bytes of the slices of the level.";
        read_bytes, "esker_level_read_bytes", counter, "bytes",
            "Bytes read from the level by compactions.";
        written_bytes, "esker_level_written_bytes", counter, "bytes",
            "Bytes written to the level by flushes and compactions.";
        compactions, "esker_level_compactions", counter, "",
            "Compactions that wrote to the level.";
        moves, "esker_level_moves", counter, "",
            "Files moved to the level without a rewrite.";
        table_gets, "esker_level_table_gets", counter, "",
            "Gets that found their version in the level (a value or a tombstone).";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the names of the number fields in a report, from its `Debug` text.
    fn fields(text: &str) -> BTreeSet<String> {
        let number = |pair: &str| {
            let (name, value) = pair.rsplit_once(": ")?;
            let value = value.trim_end_matches([' ', '}']);
            let name = name.rsplit([' ', '{']).next()?;
            value.bytes().all(|b| b.is_ascii_digit()).then(|| name.to_string())
        };
        text.split(", ").filter_map(number).collect()
    }

    fn rows(part: &str) -> BTreeSet<String> {
        let of_part = METRICS.iter().filter(|spec| spec.part == part);
        of_part.map(|spec| spec.field.to_string()).collect()
    }

    #[test]
    fn every_number_of_the_report_has_one_row() {
        let memory = fields(&format!("{:?}", MemoryMetrics::default()));
        assert_eq!(rows("memory"), memory);
        let mut levels = fields(&format!("{:?}", LevelMetrics::default()));
        assert!(levels.remove("level"));
        assert_eq!(rows("levels"), levels);
        let store = fields(&format!("{:?}", Metrics::default()));
        let store: BTreeSet<String> = store.difference(&memory).cloned().collect();
        assert_eq!(rows(""), store);
        let all: usize = ["", "memory", "levels"].iter().map(|part| rows(part).len()).sum();
        assert_eq!(METRICS.len(), all, "a field has two rows");
    }

    #[test]
    fn numbers_are_read_where_they_are_set() {
        let mut metrics = Metrics::default();
        let mut level = LevelMetrics::default();
        for (value, spec) in (1..).zip(METRICS) {
            spec.set(&mut metrics, value);
            spec.set_level(&mut level, value);
        }
        metrics.levels.push(level);
        for (value, spec) in (1..).zip(METRICS) {
            let found = spec.value(&metrics).or(spec.level_value(&metrics.levels[0]));
            assert_eq!(found, Some(value), "{}", spec.name);
        }
        assert_eq!((metrics.cache_hits, metrics.cache_misses), (1, 2));
    }

    #[test]
    fn names_and_units_follow_openmetrics() {
        let mut names = BTreeSet::new();
        for spec in METRICS {
            let MetricSpec { name, unit, doc, .. } = spec;
            assert!(names.insert(*name), "{name}");
            let is_allowed = |b: u8| b.is_ascii_lowercase() || b == b'_';
            assert!(name.starts_with("esker_") && name.bytes().all(is_allowed), "{name}");
            let suffix = if unit.is_empty() { String::new() } else { format!("_{unit}") };
            assert!(name.ends_with(&suffix), "{name}");
            assert!(!name.ends_with("_total") && !name.ends_with("_info"), "{name}");
            assert_eq!(spec.is_micros(), *unit == "seconds", "{name}");
            assert_eq!(spec.field.ends_with("bytes"), *unit == "bytes", "{name}");
            assert!(doc.ends_with('.') && !doc.contains(['\n', '\\', '"', '|']), "{name}");
        }
    }
}
