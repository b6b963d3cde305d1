//! Presets of a benchmark: the tables that users of redb, RocksDB and YCSB read.
//!
//! Invariants:
//! 1. A preset sets only flags that the user has not given.
//! 2. A flag that contradicts a preset is an error before anything runs.
//! 3. A number that an engine cannot give is left out, never replaced.

pub mod redb;
pub mod redb_table;
pub mod rocksdb;
pub mod ycsb;

use std::collections::BTreeMap;

use crate::error::{LabError, Result};
use crate::run::config::BenchConfig;

/// A table that a community reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The table in redb's README.
    Redb,
    /// The report of RocksDB's `tools/benchmark.sh`.
    RocksDb,
    /// YCSB's output lines.
    Ycsb,
}

/// Every preset with its name and its description.
pub const PRESETS: &[(&str, Preset, &str)] = &[
    ("redb", Preset::Redb, "the rows of redb's README as Markdown (num: pairs in bulk, 5000000)"),
    (
        "rocksdb-benchmark.sh",
        Preset::RocksDb,
        "the tab-separated report of RocksDB's tools/benchmark.sh",
    ),
    (
        "ycsb",
        Preset::Ycsb,
        "YCSB's output lines for Load A and A to F (num: records, 100000; reads: operations)",
    ),
];

/// Flags that contradict every preset, with the reason.
const AGAINST_ALL: &[(&str, &str)] = &[
    ("benchmarks", "which has its own tasks"),
    ("csv", "which generates its pairs"),
    ("key_column", "which generates its pairs"),
    ("value_column", "which generates its pairs"),
    ("use_existing_db", "which begins with an empty store"),
    ("queue_depth", "which has no queue"),
    ("rest_ms", "which has no rest"),
    ("space_every_ms", "which samples no space"),
];

/// Further flags that contradict the preset `redb`.
const AGAINST_REDB: &[(&str, &str)] = &[
    ("threads", "whose rows set the number of threads"),
    ("share_operations", "whose threads always share the reads"),
    ("seek_nexts", "whose ranges have 10 pairs"),
    ("batch_size", "whose batches have 1000 pairs"),
    ("histogram", "which times whole rows"),
    ("html", "which has no page"),
    ("record", "which writes no record"),
];

/// Further flags that contradict the preset `ycsb`.
const AGAINST_YCSB: &[(&str, &str)] = &[
    ("key_size", "whose keys are YCSB's"),
    ("share_operations", "whose threads always share the operations"),
    ("seek_nexts", "whose workload E sets the lengths of scans"),
    ("batch_size", "which has no batches"),
    ("histogram", "which times each operation"),
    ("html", "which has no page"),
    ("record", "which writes no record"),
];

/// Defaults of the preset `rocksdb-benchmark.sh`: those of the script, on a store that a small
/// machine can hold.
const OF_ROCKSDB: &[(&str, &str)] = &[
    ("benchmarks", rocksdb::TASKS),
    ("key_size", "20"),
    ("value_size", "400"),
    ("block_size", "8192"),
    ("write_buffer_size", "128MiB"),
    ("max_file_size", "128MiB"),
    ("bloom_bits", "10"),
    ("compression", "zstd"),
    ("batch_size", "10"),
    ("seek_nexts", "10"),
    ("share_operations", "1"),
    ("histogram", "1"),
    ("repetitions", "1"),
];

/// Defaults of the preset `redb`, besides the cache, which grows with the number of pairs.
const OF_REDB: &[(&str, &str)] = &[
    ("num", "5000000"),
    ("key_size", "24"),
    ("value_size", "150"),
    ("compression_ratio", "1"),
    ("bloom_bits", "10"),
    ("write_buffer_size", "64MiB"),
    ("max_file_size", "64MiB"),
    ("repetitions", "1"),
];

/// Defaults of the preset `ycsb`.
const OF_YCSB: &[(&str, &str)] = &[("num", "100000"), ("value_size", "1000"), ("repetitions", "1")];

/// Minimum cache of the preset `redb` in bytes.
const REDB_CACHE_BYTES_MIN: u64 = 8 << 20;

impl Preset {
    /// Returns the preset with this name.
    ///
    /// # Errors
    /// There is none; the message names all presets.
    pub fn parse(name: &str) -> std::result::Result<Preset, String> {
        let found = PRESETS.iter().find(|(own, ..)| *own == name);
        found.map(|(_, preset, _)| *preset).ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|(name, ..)| *name).collect();
            format!("there is no preset {name:?}; the presets are {}", names.join(", "))
        })
    }

    /// Returns the name used in the flag.
    pub fn name(self) -> &'static str {
        let own = PRESETS.iter().find(|(_, preset, _)| *preset == self);
        own.map_or("", |(name, ..)| *name)
    }

    /// Sets the flags of the preset that were not given.
    ///
    /// # Errors
    /// A given flag contradicts the preset.
    pub fn prepare(self, config: &mut BenchConfig) -> Result<()> {
        let given = config.flags_given();
        self.check(config, &given)?;
        let defaults = match self {
            Preset::Redb => OF_REDB,
            Preset::RocksDb => OF_ROCKSDB,
            Preset::Ycsb => OF_YCSB,
        };
        let missing = |name: &str| {
            !given.contains_key(name)
                && (name != "bloom_bits" || !given.contains_key("filter_bits"))
        };
        for (name, value) in defaults.iter().filter(|(name, _)| missing(name)) {
            config.set(name, value).map_err(LabError::usage)?;
        }
        if self == Preset::Redb && missing("cache_size") {
            let bytes = redb::Amounts::of(config).scaled(redb::CACHE_BYTES);
            let bytes = bytes.max(REDB_CACHE_BYTES_MIN).to_string();
            config.set("cache_size", &bytes).map_err(LabError::usage)?;
        }
        Ok(())
    }

    /// Fails if a given flag contradicts the preset.
    fn check(self, config: &BenchConfig, given: &BTreeMap<String, String>) -> Result<()> {
        let own = match self {
            Preset::Redb => AGAINST_REDB,
            Preset::RocksDb => &[],
            Preset::Ycsb => AGAINST_YCSB,
        };
        let name = self.name();
        for (flag, why) in AGAINST_ALL.iter().chain(own) {
            let agrees = *flag == "record" && config.record_dir.is_none();
            if given.contains_key(*flag) && !agrees {
                return Err(LabError::usage(format!(
                    "--{flag} contradicts --preset {name}, {why}"
                )));
            }
        }
        if self == Preset::RocksDb && given.contains_key("histogram") && !config.histogram {
            return Err(LabError::usage(format!(
                "--histogram=off contradicts --preset {name}, whose report has percentiles"
            )));
        }
        if config.terms.len() > 1 {
            return Err(LabError::usage(format!(
                "several --terms contradict --preset {name}, which prints one table; name one"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_presets_correspond() {
        for (name, preset, _) in PRESETS {
            assert_eq!((Preset::parse(name), preset.name()), (Ok(*preset), *name));
        }
        let error = Preset::parse("lmdb").expect_err("unknown");
        assert!(error.contains("\"lmdb\"") && error.contains("rocksdb-benchmark.sh"), "{error}");
    }

    #[test]
    fn given_flags_take_precedence_over_those_of_a_preset() {
        for (_, preset, _) in PRESETS {
            let mut config = BenchConfig::default();
            config.set("num", "5000").expect("a flag");
            config.set("value_size", "40").expect("a flag");
            config.set("filter_bits", "7").expect("a flag");
            preset.prepare(&mut config).expect("no contradiction");
            assert_eq!((config.num, config.value_size), (Some(5000), 40));
            assert_eq!((config.store.filter_bits_per_key, config.repetitions), (7, 1));
        }
        let mut config = BenchConfig::default();
        Preset::Redb.prepare(&mut config).expect("no contradiction");
        assert_eq!((config.num, config.key_size), (Some(5_000_000), 24));
        assert_eq!(config.store.cache_bytes, 4 << 30);
    }

    #[test]
    fn contradictions_are_sentences() {
        let against = |preset: Preset, flag: &str, value: &str| {
            let mut config = BenchConfig::default();
            config.set(flag, value).expect("a flag");
            preset.prepare(&mut config).map_err(|error| error.to_string())
        };
        for (preset, flag, value, words) in [
            (Preset::Redb, "threads", "4", "--threads contradicts --preset redb, whose rows"),
            (Preset::Redb, "benchmarks", "fillseq", "which has its own tasks"),
            (Preset::Redb, "record", "records", "which writes no record"),
            (Preset::RocksDb, "histogram", "off", "whose report has percentiles"),
            (Preset::RocksDb, "csv", "rows.csv", "which generates its pairs"),
            (Preset::Ycsb, "key-size", "20", "whose keys are YCSB's"),
            (Preset::Ycsb, "terms", "equal,shipped", "name one"),
        ] {
            let error = against(preset, flag, value).expect_err(flag);
            assert!(error.contains(words), "{error}");
        }
        for (_, preset, _) in PRESETS {
            against(*preset, "record", "none").expect("no contradiction");
        }
        against(Preset::RocksDb, "threads", "2").expect("no contradiction");
        against(Preset::Ycsb, "threads", "2").expect("no contradiction");
    }
}
