//! Expansion of an experiment into its points: series × sizes × threads × varied options, scaled.
//!
//! A point keeps the document's own values as its parameters at every scale, so that reported
//! figures line up with the measured ones.

use super::check::Experiment;
use super::file::{Options, SeriesFile};
use crate::error::{LabError, Result};
use crate::run::config::{BenchConfig, bytes_of};

/// Fraction of the document's sizes to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// A multiple of the experiment's default scale.
    Times(f64),
    /// The document's own sizes.
    Full,
}

/// Returns whether an option that shrinks with the sizes is a count, not a size in bytes.
pub fn is_count(option: &str) -> bool {
    matches!(option, "reads" | "queue_depth")
}

/// Minimum number of pairs of a point at any scale.
const ENTRIES_MIN: u64 = 200;
/// Minimum memory limit in bytes, enough for any store to run.
const MEMORY_LIMIT_MIN: u64 = 32 << 20;
/// Default minimum of a scaled option, in bytes.
const SCALED_BYTES_MIN: u64 = 64 << 10;

impl Scale {
    /// Parses `full` or a number above 0.
    pub fn parse(text: &str) -> Result<Scale> {
        if text == "full" {
            return Ok(Scale::Full);
        }
        let factor = text.parse::<f64>().ok();
        match factor.filter(|factor| *factor > 0.0 && *factor <= 1e6) {
            Some(factor) => Ok(Scale::Times(factor)),
            None => Err(LabError::usage(format!(
                "--scale must be a number above 0 or `full`, found {text:?}"
            ))),
        }
    }

    /// Returns the fraction of the document's sizes; `default` is the experiment's own fraction.
    pub fn share(self, default: f64) -> f64 {
        match self {
            Scale::Full => 1.0,
            Scale::Times(factor) => default * factor,
        }
    }
}

/// One measured combination of parameters.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Point {
    /// Index of the series in the file.
    pub series: usize,
    /// Parameters with the document's values: `entries`, `threads` and the varied options.
    pub params: Vec<(String, String)>,
    /// Parameters run with a different value, with that value.
    pub params_run: Vec<(String, String)>,
    /// Number of pairs, scaled.
    pub entries: u64,
    /// Fraction of the document's size.
    pub share: f64,
    /// Number of threads.
    pub threads: usize,
    /// Options as flag and value, scaled; `ENGINE.name` applies to one engine.
    pub options: Vec<(String, String)>,
    /// Memory limit for engine and page cache, in bytes; `None` without a limit.
    pub memory_limit: Option<u64>,
    /// Names of the engines.
    pub engines: Vec<String>,
    /// Number of runs of each engine.
    pub repetitions: usize,
}

impl Point {
    /// Returns a text that identifies the point within the experiment.
    pub fn key(&self) -> String {
        let params: Vec<String> =
            self.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}: {}", self.series, params.join(" "))
    }

    /// Returns the value of a parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the settings of `engine` at this point, based on `base`.
    pub fn config(&self, base: &BenchConfig, engine: &str, seed: u64) -> Result<BenchConfig> {
        let mut config = base.clone();
        for (name, value) in &self.options {
            set_for(&mut config, engine, name, value).map_err(LabError::usage)?;
        }
        config.num = Some(self.entries);
        config.threads = self.threads;
        config.repetitions = self.repetitions;
        config.seed = seed;
        Ok(config)
    }
}

/// Returns whether the options of the engine `named` apply to `engine`: the same engine, or a
/// variant of it, as `wiredtiger-lsm` is of `wiredtiger`.
pub fn applies(named: &str, engine: &str) -> bool {
    engine.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Sets option `name` for `engine`. `OTHER.name` is ignored. `ENGINE.name` sets the shared option
/// of that name for this engine and its variants alone, if it exists, otherwise the engine's own
/// option.
pub fn set_for(
    config: &mut BenchConfig,
    engine: &str,
    name: &str,
    value: &str,
) -> std::result::Result<(), String> {
    match name.split_once('.') {
        None => config.set(name, value),
        Some((prefix, _)) if !applies(prefix, engine) => Ok(()),
        Some((_, own)) if BenchConfig::is_store_flag(own) => config.set(own, value),
        Some(_) => config.set(name, value),
    }
}

/// Returns all points, in the file's order.
pub fn points(experiment: &Experiment, scale: Scale) -> Vec<Point> {
    let file = &experiment.file;
    let mut all = Vec::new();
    for (index, series) in file.series.iter().enumerate() {
        let series = series.get_ref();
        let own = series.scale.as_ref().unwrap_or(&file.scale);
        let share = scale.share(*own.get_ref());
        for &entries in &series.entries.get_ref().all() {
            for &threads in &series.threads.get_ref().all() {
                for varied in crossed(series) {
                    let base = Base { index, share, entries, threads };
                    all.push(point(experiment, series, &base, varied));
                }
            }
        }
    }
    all
}

struct Base {
    index: usize,
    share: f64,
    entries: u64,
    threads: u64,
}

fn point(
    experiment: &Experiment,
    series: &SeriesFile,
    base: &Base,
    varied: Vec<(String, String)>,
) -> Point {
    let file = &experiment.file;
    let mut params = vec![
        ("entries".to_string(), base.entries.to_string()),
        ("threads".to_string(), base.threads.to_string()),
    ];
    params.extend(varied.iter().cloned());
    let mut options = pairs(&file.options);
    options.extend(pairs(&series.options));
    options.extend(varied);
    for (name, value) in &mut options {
        if let Some(scaled) = scaled_option(experiment, series, name, value, base.share) {
            *value = scaled;
        }
    }
    let engines = series.engines.as_ref().unwrap_or(&file.engines).get_ref();
    let repetitions = series.repetitions.as_ref().unwrap_or(&file.repetitions);
    Point {
        series: base.index,
        params_run: params_run(experiment, series, &params, base.share),
        params,
        entries: scaled_entries(base.entries, base.share),
        share: base.share,
        threads: base.threads as usize,
        options,
        memory_limit: series.memory_limit.as_ref().and_then(|limit| {
            let bytes = bytes_of(&text_of(limit.get_ref()))? as f64 * base.share;
            Some((bytes as u64).max(MEMORY_LIMIT_MIN))
        }),
        engines: engines.iter().map(|name| name.get_ref().clone()).collect(),
        repetitions: *repetitions.get_ref() as usize,
    }
}

/// Returns the parameters whose value differs at a fraction of the full size, with that value.
pub fn params_run(
    experiment: &Experiment,
    series: &SeriesFile,
    params: &[(String, String)],
    share: f64,
) -> Vec<(String, String)> {
    let run = |(name, value): &(String, String)| {
        let run = match (name.as_str(), value.parse::<u64>()) {
            ("entries", Ok(entries)) => scaled_entries(entries, share).to_string(),
            ("entries", Err(_)) => return None,
            _ => scaled_option(experiment, series, name, value, share)?,
        };
        (run != *value).then(|| (name.clone(), run))
    };
    params.iter().filter_map(run).collect()
}

fn scaled_entries(entries: u64, share: f64) -> u64 {
    ((entries as f64 * share).round() as u64).max(ENTRIES_MIN)
}

/// Returns the value of an option at a fraction of the full size; `None` if it does not scale.
fn scaled_option(
    experiment: &Experiment,
    series: &SeriesFile,
    name: &str,
    value: &str,
    share: f64,
) -> Option<String> {
    let file = &experiment.file;
    let mut scaled = file.scaled_options.iter().chain(&series.scaled_options);
    scaled.find(|scaled| scaled.get_ref() == name)?;
    let least = file.scaled_min.as_ref().and_then(|least| bytes_of(&text_of(least.get_ref())));
    let least = if is_count(name) { 1 } else { least.unwrap_or(SCALED_BYTES_MIN) };
    Some(scaled_bytes(value, share, least))
}

/// Returns every combination of the varied options.
fn crossed(series: &SeriesFile) -> Vec<Vec<(String, String)>> {
    let mut combinations = vec![Vec::new()];
    for (name, values) in &series.vary {
        let mut longer = Vec::new();
        for combination in &combinations {
            for value in values.get_ref() {
                let mut next: Vec<(String, String)> = combination.clone();
                next.push((name.get_ref().clone(), text_of(value)));
                longer.push(next);
            }
        }
        combinations = longer;
    }
    combinations
}

/// Returns the options of one table in the order of application: options for one engine come after
/// options for all engines, and options for a variant after those of its engine, so that they take
/// precedence.
fn pairs(options: &Options) -> Vec<(String, String)> {
    let text = options.iter().map(|(name, value)| (name.get_ref(), text_of(value.get_ref())));
    let mut all: Vec<(String, String)> = text.map(|(name, value)| (name.clone(), value)).collect();
    let dashes = |engine: &str| 1 + engine.matches('-').count();
    all.sort_by_key(|(name, _)| name.split_once('.').map_or(0, |(engine, _)| dashes(engine)));
    all
}

/// Formats a TOML value as a flag value.
pub fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn scaled_bytes(value: &str, share: f64, least: u64) -> String {
    match bytes_of(value) {
        Some(bytes) if share < 1.0 && bytes > least => {
            ((bytes as f64 * share) as u64).max(least).to_string()
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::check::tests::{known, sample};

    #[test]
    fn points_are_product_of_sizes_threads_and_crossed_options() {
        let text = sample().split("\n[[claim]]").next().expect("a sample").to_string();
        let text = text.replace("entries = 1000", "entries = [1000, 4000]").replace(
            "vary = { block_size = [1024, 4096] }",
            "vary = { block_size = [1024, 4096], write_buffer_size = [\"1M\", \"4M\", \"8M\"] }",
        );
        let experiment = Experiment::parse("sample", &text, &known()).expect("right");
        let points = points(&experiment, Scale::Times(1.0));
        assert_eq!(points.len(), 2 * 2 * 3);
        assert_eq!(points[0].entries, 500);
        assert_eq!(points[0].param("entries"), Some("1000"));
        assert_eq!(points[0].params_run, [("entries".to_string(), "500".to_string())]);
        let mut keys: Vec<String> = points.iter().map(Point::key).collect();
        keys.dedup();
        assert_eq!(keys.len(), points.len());
        let config = points[11].config(&BenchConfig::default(), "leveldb", 1).expect("settings");
        assert_eq!((config.store.block_bytes, config.store.memtable_bytes), (4096, 8 << 20));
    }

    #[test]
    fn option_of_one_engine_overrides_shared_option() {
        let text = sample().replace(
            "cache_size = \"8M\"",
            "\"leveldb.write_buffer_size\" = \"64M\"\nwrite_buffer_size = \"4M\"\nbloom_bits = 3\n\
             \"leveldb.bloom_bits\" = 10",
        );
        let experiment = Experiment::parse("sample", &text, &known()).expect("right");
        let point = &points(&experiment, Scale::Times(1.0))[0];
        let given = |engine: &str| {
            let config = point.config(&BenchConfig::default(), engine, 1).expect("settings");
            (config.store.memtable_bytes, config.store.filter_bits_per_key)
        };
        assert_eq!(given("leveldb"), (64 << 20, 10));
        assert_eq!(given("lmdb"), (4 << 20, 3));
    }

    #[test]
    fn options_of_an_engine_apply_to_its_variants() {
        assert!(applies("esker", "esker") && applies("esker", "esker-pessimistic"));
        assert!(!applies("esker", "eskers") && !applies("esker-pessimistic", "esker"));
        assert!(!applies("leveldb", "esker"));
        let text = sample().replace(
            "cache_size = \"8M\"",
            "\"esker-x.cache_size\" = \"2M\"\n\"esker.cache_size\" = \"4M\"\ncache_size = \"8M\"",
        );
        let mut known = known();
        known.engines = &["esker", "esker-x", "leveldb"];
        let experiment = Experiment::parse("sample", &text, &known).expect("right");
        let point = &points(&experiment, Scale::Times(1.0))[0];
        let cache = |engine: &str| {
            let config = point.config(&known.config, engine, 1).expect("settings");
            config.store.cache_bytes >> 20
        };
        assert_eq!(["esker-x", "esker", "leveldb"].map(cache), [2, 4, 8]);
    }

    #[test]
    fn option_of_one_engine_applies_only_to_it() {
        let mut config = BenchConfig::default();
        set_for(&mut config, "leveldb", "leveldb.block_size", "512").expect("known");
        assert_eq!(config.store.block_bytes, 512);
        set_for(&mut config, "rocksdb", "leveldb.block_size", "1024").expect("passed over");
        assert_eq!(config.store.block_bytes, 512);
        assert!(set_for(&mut config, "leveldb", "leveldb.nonsense", "1").is_err());
    }

    #[test]
    fn scales_are_parsed_and_applied() {
        assert_eq!(Scale::parse("full").expect("word").share(0.1), 1.0);
        assert_eq!(Scale::parse("2").expect("number").share(0.1), 0.2);
        for bad in ["0", "-1", "half", "NaN"] {
            assert!(Scale::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(scaled_bytes("4M", 0.25, SCALED_BYTES_MIN), (1 << 20).to_string());
        assert_eq!(scaled_bytes("100K", 0.01, SCALED_BYTES_MIN), (64 << 10).to_string());
        assert_eq!(scaled_bytes("10", 0.01, SCALED_BYTES_MIN), "10");
    }
}
