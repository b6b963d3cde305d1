//! Settings of a benchmark and their flags, with db_bench's names.
//!
//! This module uses no command-line library: the command passes every `--name=value` to
//! [`BenchConfig::set`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::error::{LabError, Result};
use crate::mix::mixgraph::Mixgraph;
use crate::target::{Compression, Durability, StoreOptions};
use crate::workload::csv::{CsvPairs, read_pairs};
use crate::workload::dataset::Dataset;
use crate::workload::tasks::{TASKS_DEFAULT, TaskKind, TaskSpec};

/// Terms of the comparison between engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// Every engine gets the same memory, blocks, filters and compression, as far as supported.
    Equal,
    /// Every engine keeps its own defaults.
    Shipped,
}

impl Terms {
    /// Returns the name used in flags and records.
    pub fn name(self) -> &'static str {
        match self {
            Terms::Equal => "equal",
            Terms::Shipped => "shipped",
        }
    }

    fn parse(text: &str) -> std::result::Result<Terms, String> {
        let known = [Terms::Equal, Terms::Shipped];
        let found = known.into_iter().find(|terms| terms.name() == text.trim());
        found.ok_or_else(|| {
            format!("--terms must be equal, shipped, or both with a comma, found {text:?}")
        })
    }
}

/// Sources that a program was built from.
#[derive(Clone, Debug, Default)]
pub struct BuiltFrom {
    /// Commit; `None` if unknown to the build.
    pub commit: Option<String>,
    /// Whether the sources differed from that commit.
    pub dirty: Option<bool>,
}

/// Settings of a benchmark. [`Default`] gives db_bench's defaults and three repetitions.
#[derive(Clone, Debug)]
pub struct BenchConfig {
    /// Tasks, comma-separated, run in order.
    pub benchmarks: String,
    /// Engines, comma-separated: a name, or `name:path` of a library with LevelDB's C interface.
    pub engines: String,
    /// Number of entries. Default 1,000,000, or all rows of the CSV file.
    pub num: Option<u64>,
    /// Number of reads of each read task. Default: the number of entries.
    pub reads: Option<u64>,
    /// Number of entries that each seek of `seekrandom` reads after the seek. Default 0.
    pub seek_nexts: u64,
    /// Number of keys per call of `multireadrandom`. Default 32.
    pub batch_size: usize,
    /// Number of keys in the queue of the task `queue`, of all threads together. Default: a tenth
    /// of the keys.
    pub queue_depth: Option<u64>,
    /// Model of the task `mixgraph`.
    pub mixgraph: Mixgraph,
    /// Interval in which a task's bytes on disk are sampled, in milliseconds. Default 0: never.
    pub space_every_ms: u64,
    /// Time of the task `rest`, in milliseconds. Default 30,000.
    pub rest_ms: u64,
    /// Terms of the benchmark; with several, one benchmark each, in this order. Default equal.
    pub terms: Vec<Terms>,
    /// Number of threads of each task. Default 1.
    pub threads: usize,
    /// Whether the threads of a task share its operations, so that the store has the same content
    /// as with one thread. Otherwise each thread does all operations, as in db_bench. Scans are
    /// complete either way. Default off.
    pub share_operations: bool,
    /// Size of a generated key in bytes. Default 16.
    pub key_size: usize,
    /// Size of a generated value in bytes. Default 100.
    pub value_size: usize,
    /// Fraction of its size to which a generated value can be compressed. Default 0.5.
    pub compression_ratio: f64,
    /// Seed of data and operations. Default 301.
    pub seed: u64,
    /// Whether single operations are timed and their distribution printed. Default off.
    pub histogram: bool,
    /// Whether the existing store in `db` is kept; tasks that need an empty store are skipped.
    /// Default off.
    pub use_existing_db: bool,
    /// Directory for the stores, kept afterwards, with one subdirectory per engine. Default: a
    /// temporary directory.
    pub db: Option<PathBuf>,
    /// File of the pairs; `None` generates them.
    pub csv: Option<PathBuf>,
    /// Key column of the CSV file, by name or number from 1. Default 1.
    pub key_column: String,
    /// Value column of the CSV file, by name or number from 1. Default 2.
    pub value_column: String,
    /// Number of runs of each engine. Default 3.
    pub repetitions: usize,
    /// Whether JSON lines are printed instead of rows and tables. Default off.
    pub json: bool,
    /// Directory of the record; `None` writes no record. Default `bench/record`.
    pub record_dir: Option<PathBuf>,
    /// File for the HTML page. Default: no page is written.
    pub html: Option<PathBuf>,
    /// Whether progress bars are shown; the command sets this if stderr is a terminal. Default off.
    pub progress: bool,
    /// Program for runs in a subprocess; `None` executes all runs in this process.
    pub child: Option<PathBuf>,
    /// Engines as the user named them, `name` or `name=path`, by name: for other processes.
    pub engine_specs: BTreeMap<String, String>,
    /// Sources of the measuring program, for the record.
    pub built_from: BuiltFrom,
    /// Settings given to every engine.
    pub store: StoreOptions,
    engine_option_names: BTreeMap<String, BTreeSet<String>>,
    given_flags: BTreeMap<String, String>,
}

impl Default for BenchConfig {
    fn default() -> BenchConfig {
        BenchConfig {
            benchmarks: TASKS_DEFAULT.into(),
            engines: "esker,leveldb".into(),
            num: None,
            reads: None,
            seek_nexts: 0,
            batch_size: 32,
            queue_depth: None,
            mixgraph: Mixgraph::default(),
            space_every_ms: 0,
            rest_ms: REST_MS_DEFAULT,
            terms: vec![Terms::Equal],
            threads: 1,
            share_operations: false,
            key_size: 16,
            value_size: 100,
            compression_ratio: 0.5,
            seed: 301,
            histogram: false,
            use_existing_db: false,
            db: None,
            csv: None,
            key_column: "1".into(),
            value_column: "2".into(),
            repetitions: 3,
            json: false,
            record_dir: Some("bench/record".into()),
            html: None,
            progress: false,
            child: None,
            engine_specs: BTreeMap::new(),
            built_from: BuiltFrom::default(),
            store: StoreOptions::default(),
            engine_option_names: BTreeMap::new(),
            given_flags: BTreeMap::new(),
        }
    }
}

/// Number of entries without `--num` and without a CSV file.
const NUM_DEFAULT: u64 = 1_000_000;
const THREADS_MAX: u64 = 1024;
const REST_MS_DEFAULT: u64 = 30_000;
const REST_MS_MAX: u64 = 24 * 3600 * 1000;
/// Space reserved for an engine beyond its data, in bytes.
pub const DATA_BYTES_SPARE: u64 = 256 << 20;

/// Every flag accepted by [`BenchConfig::set`] besides engine options: name, value, meaning.
pub const FLAGS: &[(&str, &str, &str)] = &[
    ("benchmarks", "LIST", "tasks, comma-separated"),
    ("engines", "LIST", "engines, comma-separated; NAME:PATH for a library with LevelDB's C API"),
    ("num", "N", "entries (1000000, or all rows of the CSV)"),
    ("reads", "N", "reads of each read task (-1: as many as entries)"),
    ("seek_nexts", "N", "entries that seekrandom reads after each seek (0)"),
    ("batch_size", "N", "keys per call of multireadrandom (32)"),
    ("queue_depth", "N", "keys in the queue of the task queue (a tenth of the keys)"),
    ("mix_get_ratio", "SHARE", "share of the gets of mixgraph (0.83)"),
    ("mix_put_ratio", "SHARE", "share of its puts (0.14)"),
    ("mix_seek_ratio", "SHARE", "share of its scans (0.03)"),
    ("keyrange_num", "N", "key ranges of mixgraph (30)"),
    ("keyrange_dist_a", "A", "share of range x of mixgraph: a e^(b x) + c e^(d x) (14.18)"),
    ("keyrange_dist_b", "B", "exponent of the first term (-2.917)"),
    ("keyrange_dist_c", "C", "factor of the second term (0.0164)"),
    ("keyrange_dist_d", "D", "exponent of the second term (-0.08082)"),
    ("key_dist_a", "A", "share of the first x keys of a range: a x^b (0.002312; 0: all alike)"),
    ("key_dist_b", "B", "exponent of that share (0.3467)"),
    ("value_k", "K", "bytes of a value of mixgraph: generalized Pareto (0.2615)"),
    ("value_sigma", "SIGMA", "scale of these bytes (25.45)"),
    ("value_theta", "THETA", "least of these bytes (0)"),
    ("iter_k", "K", "pairs of a scan of mixgraph: generalized Pareto (2.517)"),
    ("iter_sigma", "SIGMA", "scale of these pairs (14.236)"),
    ("iter_theta", "THETA", "least of these pairs (0)"),
    ("mix_max_value_size", "BYTES", "most bytes of a value of mixgraph (1024)"),
    ("mix_max_scan_len", "N", "most pairs of a scan of mixgraph (10000)"),
    ("space_every_ms", "MS", "milliseconds between samples of the bytes on disk (0: none)"),
    ("rest_ms", "MS", "milliseconds of the task rest (30000)"),
    (
        "terms",
        "LIST",
        "equal: the flags' settings for all engines; shipped: each engine's defaults (equal)",
    ),
    ("threads", "N", "threads of each task (1)"),
    (
        "share_operations",
        "",
        "divide a task's operations among its threads, instead of repeating all of them",
    ),
    ("key_size", "BYTES", "bytes of a generated key (16)"),
    ("value_size", "BYTES", "bytes of a generated value (100)"),
    ("compression_ratio", "SHARE", "size a generated value compresses to (0.5)"),
    ("write_buffer_size", "BYTES", "memtable of every engine (4 MiB)"),
    ("max_file_size", "BYTES", "table file of every engine (2 MiB)"),
    ("block_size", "BYTES", "block of every engine (4096)"),
    ("block_restart_interval", "N", "entries between restart points (16)"),
    ("cache_size", "BYTES", "block cache of every engine (8 MiB; -1 the same)"),
    ("bloom_bits", "N", "filter bits per key of every engine (-1: none)"),
    ("compression", "NAME", "none, snappy, lz4 or zstd (snappy)"),
    ("durability", "NAME", "none, buffered or sync (buffered)"),
    ("histogram", "", "time single operations and print the distribution of their times"),
    ("db", "DIR", "folder for the stores, kept afterwards"),
    ("use_existing_db", "", "keep the store in --db"),
    ("seed", "N", "seed of data and operations (301)"),
    ("csv", "FILE", "take pairs from this file: CSV, or JSON lines where its name ends in .jsonl"),
    ("key-column", "COLUMN", "key column, by name or number (1)"),
    ("value-column", "COLUMN", "value column, by name or number (2)"),
    ("repetitions", "N", "rounds of each engine (3)"),
    ("json", "", "print one JSON object per line"),
    ("record", "DIR", "folder of the record file (bench/record; none: no record)"),
    ("html", "FILE", "write a page with pictures"),
];

/// Flags that are options of every store.
const STORE_FLAGS: &[&str] = &[
    "write_buffer_size",
    "max_file_size",
    "block_size",
    "block_restart_interval",
    "cache_size",
    "bloom_bits",
    "filter_bits",
    "compression",
    "durability",
];

impl BenchConfig {
    /// Makes `set` accept options of one engine under these names, alone or as `engine.name`.
    pub fn accept_engine_options(
        &mut self,
        engine: &str,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) {
        let known = self.engine_option_names.entry(engine.into()).or_default();
        known.extend(names.into_iter().map(Into::into));
    }

    /// Returns whether `name` is a switch that needs no value.
    pub fn is_switch(name: &str) -> bool {
        let name = clean(name);
        FLAGS.iter().any(|(flag, value, _)| clean(flag) == name && value.is_empty())
    }

    /// Sets the flag `name` (leading dashes are ignored, `-` and `_` are the same) to `value`.
    /// Generic flags apply to every engine; any other name must be an option of an engine. Errors
    /// are sentences.
    pub fn set(&mut self, name: &str, value: &str) -> std::result::Result<(), String> {
        let name = clean(name);
        let known = self.set_run_flag(&name, value)? || self.set_store_flag(&name, value)? || {
            self.set_engine_option(&name, value)?
        };
        if !known {
            return Err(format!("bench has no flag --{name}"));
        }
        self.given_flags.insert(name, value.to_string());
        Ok(())
    }

    /// Returns whether `name` is an option for every engine.
    pub fn is_store_flag(name: &str) -> bool {
        STORE_FLAGS.contains(&clean(name).as_str())
    }

    fn set_run_flag(&mut self, name: &str, value: &str) -> std::result::Result<bool, String> {
        match name {
            "benchmarks" => self.benchmarks = value.into(),
            "engines" => self.engines = value.into(),
            "num" => self.num = Some(in_range(name, value, 1, u64::from(u32::MAX) - 1)?),
            "reads" if value.trim() == "-1" => self.reads = None,
            "reads" => self.reads = Some(in_range(name, value, 0, u64::from(u32::MAX))?),
            "seek_nexts" => self.seek_nexts = in_range(name, value, 0, u64::from(u32::MAX))?,
            "batch_size" => self.batch_size = in_range(name, value, 1, 1 << 20)? as usize,
            "queue_depth" => {
                self.queue_depth = Some(in_range(name, value, 1, u64::from(u32::MAX))?);
            }
            "space_every_ms" => self.space_every_ms = in_range(name, value, 0, 60_000)?,
            "rest_ms" => self.rest_ms = in_range(name, value, 0, REST_MS_MAX)?,
            "terms" => {
                self.terms =
                    value.split(',').map(Terms::parse).collect::<std::result::Result<_, _>>()?;
                self.store.as_shipped = self.terms == [Terms::Shipped];
            }
            "threads" => self.threads = in_range(name, value, 1, THREADS_MAX)? as usize,
            "share_operations" => self.share_operations = switch(name, value)?,
            "key_size" => self.key_size = in_range(name, value, 1, 64 << 10)? as usize,
            "value_size" => self.value_size = in_range(name, value, 0, 1 << 30)? as usize,
            "compression_ratio" => {
                let ratio: f64 = value.parse().unwrap_or(f64::NAN);
                if !(0.0..=1.0).contains(&ratio) {
                    return Err(format!("--{name} must be a share from 0 to 1, found {value:?}"));
                }
                self.compression_ratio = ratio;
            }
            "seed" => self.seed = in_range(name, value, 0, u64::MAX)?,
            "histogram" => self.histogram = switch(name, value)?,
            "use_existing_db" => self.use_existing_db = switch(name, value)?,
            "db" => self.db = Some(value.into()),
            "csv" => self.csv = Some(value.into()),
            "key_column" => self.key_column = value.into(),
            "value_column" => self.value_column = value.into(),
            "repetitions" => self.repetitions = in_range(name, value, 1, 10_000)? as usize,
            "json" => self.json = switch(name, value)?,
            "record" | "record_dir" => {
                self.record_dir = (value != "none").then(|| PathBuf::from(value));
            }
            "html" => self.html = Some(value.into()),
            _ => return self.mixgraph.set(name, value),
        }
        Ok(true)
    }

    fn set_store_flag(&mut self, name: &str, value: &str) -> std::result::Result<bool, String> {
        let default = StoreOptions::default();
        let bytes = |low: u64, high: u64| in_range(name, value, low, high);
        let is_default = value.trim() == "-1" || value.trim() == "0";
        match name {
            "write_buffer_size" if is_default => self.store.memtable_bytes = default.memtable_bytes,
            "write_buffer_size" => self.store.memtable_bytes = bytes(1 << 10, 1 << 40)?,
            "max_file_size" if is_default => self.store.file_max_bytes = default.file_max_bytes,
            "max_file_size" => self.store.file_max_bytes = bytes(1 << 10, 1 << 40)?,
            "block_size" if is_default => self.store.block_bytes = default.block_bytes,
            "block_size" => self.store.block_bytes = bytes(64, 1 << 30)?,
            "block_restart_interval" => self.store.restart_interval = bytes(1, 1 << 20)?,
            "cache_size" if value.trim() == "-1" => self.store.cache_bytes = default.cache_bytes,
            "cache_size" => self.store.cache_bytes = bytes(0, 1 << 44)?,
            "bloom_bits" | "filter_bits" => {
                let bits = if value.trim() == "-1" { 0 } else { bytes(0, 100)? };
                self.store.filter_bits_per_key = bits as u32;
            }
            "compression" => {
                self.store.compression = Compression::parse(value).ok_or_else(|| {
                    format!("--compression must be none, snappy, lz4 or zstd, found {value:?}")
                })?;
            }
            "durability" => {
                self.store.durability = Durability::parse(value).ok_or_else(|| {
                    format!("--durability must be none, buffered or sync, found {value:?}")
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_engine_option(&mut self, name: &str, value: &str) -> std::result::Result<bool, String> {
        let split = name.split_once('.');
        for (engine, names) in &self.engine_option_names {
            let option = match split {
                Some((prefix, option)) if prefix == engine => option,
                Some(_) => continue,
                None => name,
            };
            if names.contains(option) {
                self.store.engine_options.push((engine.clone(), option.into(), value.into()));
                return Ok(true);
            }
            if split.is_some() {
                return Err(format!("{engine} has no option {option:?}"));
            }
        }
        Ok(false)
    }

    /// Prepares the options of stores for these tasks over data of `raw_bytes`.
    pub fn fit_store(&mut self, tasks: &[TaskSpec], raw_bytes: u64) {
        let times = if self.share_operations { 1 } else { self.threads as u64 };
        self.store.data_bytes_expected = raw_bytes * times + DATA_BYTES_SPARE;
        self.store.counters = tasks.iter().any(|task| task.kind == TaskKind::Merge);
    }

    /// Creates the data: generated, or read from the CSV file, whose bad rows are also returned.
    pub fn dataset(&self) -> Result<(Dataset, CsvPairs)> {
        let Some(path) = &self.csv else {
            let data = Dataset::generated(
                self.num.unwrap_or(NUM_DEFAULT),
                self.key_size,
                self.value_size,
                self.compression_ratio,
                self.seed,
            )?;
            return Ok((data, CsvPairs::default()));
        };
        let mut found = read_pairs(path, &self.key_column, &self.value_column, self.num)?;
        let data = Dataset::from_rows(&found)?;
        found.pairs = Vec::new();
        Ok((data, found))
    }

    /// Returns the flags that describe this benchmark, by name, including defaults.
    pub fn options(&self) -> BTreeMap<String, String> {
        let store = &self.store;
        let mut options = self.given_flags.clone();
        let mut note = |name: &str, value: String| {
            options.entry(name.into()).or_insert(value);
        };
        note("benchmarks", self.benchmarks.clone());
        note("engines", self.engines.clone());
        let terms: Vec<&str> = self.terms.iter().map(|terms| terms.name()).collect();
        note("terms", terms.join(","));
        note("threads", self.threads.to_string());
        note("share_operations", self.share_operations.to_string());
        note("seek_nexts", self.seek_nexts.to_string());
        note("rest_ms", self.rest_ms.to_string());
        note("batch_size", self.batch_size.to_string());
        if self.benchmarks.split(',').any(|task| task.trim() == "mixgraph") {
            self.mixgraph.parameters().into_iter().for_each(|(name, value)| note(name, value));
        }
        if !store.as_shipped {
            note("write_buffer_size", store.memtable_bytes.to_string());
            note("max_file_size", store.file_max_bytes.to_string());
            note("block_size", store.block_bytes.to_string());
            note("block_restart_interval", store.restart_interval.to_string());
            note("cache_size", store.cache_bytes.to_string());
            note("bloom_bits", store.filter_bits_per_key.to_string());
            note("compression", store.compression.name().into());
        }
        note("durability", store.durability.name().into());
        note("repetitions", self.repetitions.to_string());
        note("seed", self.seed.to_string());
        if self.csv.is_none() {
            note("key_size", self.key_size.to_string());
            note("value_size", self.value_size.to_string());
            note("compression_ratio", self.compression_ratio.to_string());
        }
        options
    }

    /// Returns the flags that give a child process the same settings.
    pub fn flags_given(&self) -> BTreeMap<String, String> {
        let mut flags = self.given_flags.clone();
        for (name, path) in [("csv", &self.csv), ("db", &self.db)] {
            flags.extend(path.as_ref().map(|path| (name.into(), path.display().to_string())));
        }
        flags
    }

    /// Checks combinations of flags.
    pub fn validate(&self) -> Result<()> {
        if self.use_existing_db && self.db.is_none() {
            return Err(LabError::usage("--use_existing_db needs --db"));
        }
        Ok(())
    }
}

fn clean(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_")
}

fn switch(name: &str, value: &str) -> std::result::Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "" | "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(format!("--{name} must be on or off, found {value:?}")),
    }
}

/// Parses a whole number, optionally with K, M, G, or KB or KiB and so on, all powers of 1024; `None`
/// if invalid.
pub fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    digits.trim().replace('_', "").parse::<u64>().ok()?.checked_mul(unit)
}

fn in_range(name: &str, value: &str, low: u64, high: u64) -> std::result::Result<u64, String> {
    match bytes_of(value) {
        Some(number) if (low..=high).contains(&number) => Ok(number),
        Some(_) => Err(format!("--{name} must be {low} to {high}, found {value}")),
        None => Err(format!("--{name} must be a whole number, found {value:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_flag_is_accepted() {
        for (flag, value, _) in FLAGS {
            let sample = match (*flag, *value) {
                (_, "") => "1",
                (_, "BYTES") => "4096",
                ("compression", _) => "zstd",
                ("durability", _) => "sync",
                ("terms", _) => "shipped,equal",
                ("compression_ratio", _) => "0.25",
                _ => "64",
            };
            let result = BenchConfig::default().set(&format!("--{flag}"), sample);
            assert_eq!(result, Ok(()), "{flag}");
        }
        assert!(BenchConfig::is_switch("--histogram") && !BenchConfig::is_switch("num"));
    }

    #[test]
    fn invalid_values_return_error_message() {
        let mut config = BenchConfig::default();
        for (flag, value) in [
            ("num", "0"),
            ("num", "many"),
            ("threads", "-1"),
            ("histogram", "maybe"),
            ("compression", "brotli"),
            ("terms", "fair"),
            ("compression_ratio", "2"),
            ("cache_size", "99999999999G"),
            ("fill_factor", "3"),
        ] {
            let error = config.set(flag, value).expect_err(flag);
            assert!(error.contains(flag), "{error}");
        }
    }

    #[test]
    fn sizes_accept_units_and_minus_one_is_default() {
        let mut config = BenchConfig::default();
        config.set("cache_size", "64MiB").expect("a size");
        assert_eq!(config.store.cache_bytes, 64 << 20);
        config.set("cache-size", "-1").expect("the default");
        assert_eq!(config.store.cache_bytes, 8 << 20);
        config.set("bloom_bits", "10").expect("bits");
        assert_eq!(config.store.filter_bits_per_key, 10);
    }

    #[test]
    fn one_terms_setting_decides_engine_settings() {
        let mut config = BenchConfig::default();
        config.set("terms", "shipped,equal").expect("both");
        assert_eq!(config.terms, [Terms::Shipped, Terms::Equal]);
        config.set("terms", "shipped").expect("one");
        assert!(config.store.as_shipped && !config.options().contains_key("cache_size"));
        config.set("terms", "equal").expect("the other");
        assert!(!config.store.as_shipped && config.options().contains_key("cache_size"));
    }

    #[test]
    fn engine_options_apply_to_their_engine() {
        let mut config = BenchConfig::default();
        config.accept_engine_options("esker", ["policy", "block_size"]);
        config.set("policy", "leveled").expect("known");
        config.set("esker.block_size", "512").expect("known");
        assert!(config.set("esker.polices", "x").is_err());
        assert!(config.set("leveldb.policy", "x").is_err());
        let given: Vec<&str> =
            config.store.engine_options.iter().map(|(_, name, _)| name.as_str()).collect();
        assert_eq!(given, ["policy", "block_size"]);
        assert_eq!(config.store.block_bytes, 4096);
    }
}
