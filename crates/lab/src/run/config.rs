//! The settings of a benchmark run and the flags that set them, named as db_bench names them.
//!
//! No command-line library is known here: the command hands every `--name=value` to
//! [`BenchConfig::set`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::error::{LabError, Result};
use crate::target::{Compression, Durability, StoreOptions};
use crate::workload::csv::{CsvPairs, read_pairs};
use crate::workload::dataset::Dataset;
use crate::workload::tasks::TASKS_DEFAULT;

/// On what terms engines stand beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// Every engine is given the same memory, blocks, filters and compression, where it has them.
    Equal,
    /// Every engine keeps its own defaults.
    Shipped,
}

impl Terms {
    /// The name that flags and records have for it.
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
            format!("--terms are equal or shipped, or both with a comma, not {text:?}")
        })
    }
}

/// The sources a program was built from.
#[derive(Clone, Debug, Default)]
pub struct BuiltFrom {
    /// The commit; none where the build did not know it.
    pub commit: Option<String>,
    /// Whether the sources differed from that commit.
    pub dirty: Option<bool>,
}

/// Settings of one run. [`Default`] gives db_bench's defaults and three repetitions.
#[derive(Clone, Debug)]
pub struct BenchConfig {
    /// Tasks, comma-separated, run in order.
    pub benchmarks: String,
    /// Engines, comma-separated: a name, or `name:path` of a library with LevelDB's C interface.
    pub engines: String,
    /// Entries. Default 1,000,000, or all rows of the CSV.
    pub num: Option<u64>,
    /// Reads of each read task. Default: as many as entries.
    pub reads: Option<u64>,
    /// Entries that each seek of `seekrandom` walks on. Default 0.
    pub seek_nexts: u64,
    /// Keys of each call of `multireadrandom`. Default 32.
    pub batch_size: usize,
    /// The terms of the run; with several, one run each, in this order. Default equal.
    pub terms: Vec<Terms>,
    /// Threads of each task. Default 1.
    pub threads: usize,
    /// Whether the threads of a task share its operations, so that the store comes out as one thread
    /// leaves it, or each does all of them, as db_bench's do. Scans are whole either way. Default off.
    pub share_operations: bool,
    /// Bytes of a generated key. Default 16.
    pub key_size: usize,
    /// Bytes of a generated value. Default 100.
    pub value_size: usize,
    /// Size a generated value can be compressed to, as a share. Default 0.5.
    pub compression_ratio: f64,
    /// Seed of data and operations. Default 301.
    pub seed: u64,
    /// Time single operations and print their distribution. Default off.
    pub histogram: bool,
    /// Keep the store found in `db`; tasks that need an empty one are left out. Default off.
    pub use_existing_db: bool,
    /// Folder for the stores, one folder an engine in it, kept afterwards. Default: a temporary one.
    pub db: Option<PathBuf>,
    /// Pairs come from this file instead of being generated.
    pub csv: Option<PathBuf>,
    /// The CSV's key column, by name or number from 1. Default 1.
    pub key_column: String,
    /// The CSV's value column, by name or number from 1. Default 2.
    pub value_column: String,
    /// How often each engine takes its turn. Default 3.
    pub repetitions: usize,
    /// Print JSON lines instead of rows and tables. Default off.
    pub json: bool,
    /// Folder of the record; none writes no record. Default `bench/record`.
    pub record_dir: Option<PathBuf>,
    /// File for the HTML page. Default: none is written.
    pub html: Option<PathBuf>,
    /// Show progress bars; the command sets it when stderr is a terminal. Default off.
    pub progress: bool,
    /// The program that runs turns of engines in a process of their own; none runs them here.
    pub child: Option<PathBuf>,
    /// What the measuring program was built from, for the record.
    pub built_from: BuiltFrom,
    /// What every engine is given.
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
            built_from: BuiltFrom::default(),
            store: StoreOptions::default(),
            engine_option_names: BTreeMap::new(),
            given_flags: BTreeMap::new(),
        }
    }
}

/// Entries when neither `--num` nor a CSV says otherwise.
const NUM_DEFAULT: u64 = 1_000_000;
const THREADS_MAX: u64 = 1024;
/// Room that is promised to an engine beyond its data.
pub const DATA_BYTES_SPARE: u64 = 256 << 20;

/// Every flag [`BenchConfig::set`] takes besides engine options: name, value, meaning.
pub const FLAGS: &[(&str, &str, &str)] = &[
    ("benchmarks", "LIST", "tasks, comma-separated"),
    ("engines", "LIST", "engines, comma-separated; NAME:PATH for a library with LevelDB's C API"),
    ("num", "N", "entries (1000000, or all rows of the CSV)"),
    ("reads", "N", "reads of each read task (-1: as many as entries)"),
    ("seek_nexts", "N", "entries that each seek of seekrandom walks on (0)"),
    ("batch_size", "N", "keys of each call of multireadrandom (32)"),
    (
        "terms",
        "LIST",
        "equal: the flags' settings for every engine; shipped: each one's defaults (equal)",
    ),
    ("threads", "N", "threads of each task (1)"),
    ("share_operations", "", "each thread does its part of a task's operations, not all of them"),
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
    ("histogram", "", "time single operations and print their distribution"),
    ("db", "DIR", "folder for the stores, kept afterwards"),
    ("use_existing_db", "", "keep the store in --db"),
    ("seed", "N", "seed of data and operations (301)"),
    ("csv", "FILE", "take pairs from this file: CSV, or JSON lines where its name ends in .jsonl"),
    ("key-column", "COLUMN", "key column, by name or number (1)"),
    ("value-column", "COLUMN", "value column, by name or number (2)"),
    ("repetitions", "N", "turns of each engine (3)"),
    ("json", "", "print one JSON object a line"),
    ("record", "DIR", "folder of the record file (bench/record; none: no record)"),
    ("html", "FILE", "write a page with pictures"),
];

/// The flags that are options of every store.
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
    /// Lets `set` take options of one engine by these names, alone or as `engine.name`.
    pub fn accept_engine_options(
        &mut self,
        engine: &str,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) {
        let known = self.engine_option_names.entry(engine.into()).or_default();
        known.extend(names.into_iter().map(Into::into));
    }

    /// Whether `name` is a switch that may stand without a value.
    pub fn is_switch(name: &str) -> bool {
        let name = clean(name);
        FLAGS.iter().any(|(flag, value, _)| clean(flag) == name && value.is_empty())
    }

    /// Sets the flag `name` (leading dashes are ignored, `-` and `_` are the same) to `value`.
    /// Generic flags go to every engine; any other name must be an option of an engine. Errors
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

    /// Whether `name` is an option every engine is given.
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
                    return Err(format!("--{name} is a share from 0 to 1, not {value:?}"));
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
            _ => return Ok(false),
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
                    format!("--compression is none, snappy, lz4 or zstd, not {value:?}")
                })?;
            }
            "durability" => {
                self.store.durability = Durability::parse(value).ok_or_else(|| {
                    format!("--durability is none, buffered or sync, not {value:?}")
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

    /// Bytes of pairs that a store has to have room for, of which the data has `raw_bytes`.
    pub fn data_bytes_expected(&self, raw_bytes: u64) -> u64 {
        let times = if self.share_operations { 1 } else { self.threads as u64 };
        raw_bytes * times + DATA_BYTES_SPARE
    }

    /// Makes the data: generated, or read from the CSV, whose bad rows are returned beside it.
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

    /// The flags that describe this run, by name, defaults included.
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
        note("batch_size", self.batch_size.to_string());
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

    /// The flags a child process needs to come to the same settings.
    pub fn flags_given(&self) -> BTreeMap<String, String> {
        let mut flags = self.given_flags.clone();
        for (name, path) in [("csv", &self.csv), ("db", &self.db)] {
            flags.extend(path.as_ref().map(|path| (name.into(), path.display().to_string())));
        }
        flags
    }

    /// Checks what single flags cannot: combinations.
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
        _ => Err(format!("--{name} is on or off, not {value:?}")),
    }
}

/// A whole number, with K, M, G (of 1024) or KiB, MiB, GiB after it; none where it is none.
pub fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return None,
    };
    digits.trim().replace('_', "").parse::<u64>().ok()?.checked_mul(unit)
}

fn in_range(name: &str, value: &str, low: u64, high: u64) -> std::result::Result<u64, String> {
    match bytes_of(value) {
        Some(number) if (low..=high).contains(&number) => Ok(number),
        Some(_) => Err(format!("--{name} must be {low} to {high}, not {value}")),
        None => Err(format!("--{name} is a whole number, not {value:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_flag_is_taken() {
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
    fn bad_values_are_sentences() {
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
    fn sizes_take_units_and_minus_one_is_the_default() {
        let mut config = BenchConfig::default();
        config.set("cache_size", "64MiB").expect("a size");
        assert_eq!(config.store.cache_bytes, 64 << 20);
        config.set("cache-size", "-1").expect("the default");
        assert_eq!(config.store.cache_bytes, 8 << 20);
        config.set("bloom_bits", "10").expect("bits");
        assert_eq!(config.store.filter_bits_per_key, 10);
    }

    #[test]
    fn one_set_of_terms_decides_what_engines_are_given() {
        let mut config = BenchConfig::default();
        config.set("terms", "shipped,equal").expect("both");
        assert_eq!(config.terms, [Terms::Shipped, Terms::Equal]);
        config.set("terms", "shipped").expect("one");
        assert!(config.store.as_shipped && !config.options().contains_key("cache_size"));
        config.set("terms", "equal").expect("the other");
        assert!(!config.store.as_shipped && config.options().contains_key("cache_size"));
    }

    #[test]
    fn engine_options_go_to_their_engine() {
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
