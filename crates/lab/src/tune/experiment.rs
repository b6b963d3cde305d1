//! Workloads from an experiment: the phases or tasks of its series, at the tuner's sizes.
//!
//! Taken are the phases, their shares and distributions, the sizes of keys and values, and the
//! threads. Not taken are the options of stores, which the tuner chooses. A durability that differs
//! from the tuner's is refused, because no knob chooses it.
//!
//! Invariants:
//! 1. `--records` replaces the number of pairs. Amounts that do not depend on it keep their
//!    proportion to it.
//! 2. What the tuner cannot run as the experiment does is an error, never a smaller workload.

use std::collections::BTreeSet;

use super::workload::{Sizes, Workload};
use crate::BenchConfig;
use crate::error::{LabError, Result};
use crate::experiment::check::{Experiment, Known};
use crate::experiment::file::SeriesFile;
use crate::experiment::find::find;
use crate::experiment::mixed;
use crate::experiment::plan::{is_count, text_of};
use crate::mix::mixgraph::Mixgraph;
use crate::mix::phase::Phase;
use crate::target::Durability;
use crate::workload::tasks::{TaskSpec, parse_tasks};

/// Form of the name of an experiment.
const FORM: &str = "experiment:";

/// Flags of data and operations besides those of `mixgraph`.
const DATA_FLAGS: &[&str] = &[
    "key_size",
    "value_size",
    "compression_ratio",
    "reads",
    "seek_nexts",
    "batch_size",
    "queue_depth",
    "rest_ms",
    "share_operations",
];

/// An experiment as the user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    /// Name or path of the experiment.
    pub name: &'a str,
    /// Name of the series; `None` for all.
    pub series: Option<&'a str>,
}

impl<'a> Named<'a> {
    /// Returns the experiment of `experiment:NAME#SERIES` or `FILE.toml#SERIES`; `None` for any
    /// other workload.
    pub fn of(text: &'a str) -> Option<Named<'a>> {
        let rest = text.strip_prefix(FORM);
        let (name, series) = match rest.unwrap_or(text).split_once('#') {
            Some((name, series)) => (name, Some(series)),
            None => (rest.unwrap_or(text), None),
        };
        (rest.is_some() || name.ends_with(".toml")).then_some(Named { name, series })
    }
}

/// Returns the workloads of an experiment: one for each series that differs from those before it in
/// more than options of stores.
///
/// # Errors
/// The experiment is unknown or has a mistake, it has no such series, or the tuner cannot run a
/// series; the error names the file, the series and the phase.
pub(super) fn workloads(
    named: Named<'_>,
    base: &BenchConfig,
    sizes: &Sizes,
    engines: &[&str],
) -> Result<Vec<Workload>> {
    let found = find(named.name)?;
    let place = match &found.path {
        Some(path) => path.display().to_string(),
        None => format!("the experiment {}", found.name),
    };
    if sizes.robust_points.is_some() {
        return Err(LabError::usage(format!(
            "the robust mode moves the share of reads of core workloads and property files, and \
             {place} has phases of its own"
        )));
    }
    let known = Known { engines, config: base.clone() };
    let experiment = Experiment::parse(&found.name, &found.text, &known).map_err(|mistakes| {
        let first = mistakes.first();
        let (line, why) = first.map_or((0, ""), |own| (own.line, own.message.as_str()));
        LabError::usage(format!("{place}: line {line}: {why}"))
    })?;
    let chosen = chosen(&experiment, named, &place)?;
    let (mut seen, mut workloads) = (BTreeSet::new(), Vec::new());
    for series in chosen {
        let refused = |why: String| {
            let mut sentence = format!("{place}: series {:?}: {why}", series.name);
            if experiment.file.series.len() > 1 {
                let name = named.name;
                sentence += &format!("; or name one series as {FORM}{name}#SERIES, of ");
                sentence += &names(&experiment);
            }
            LabError::usage(sentence)
        };
        // The shape has none of what is refused here, so a refused series would pass as a repeated
        // one.
        if let Some(why) = unlike(&experiment, series, base) {
            return Err(refused(why));
        }
        let flags = flags(&experiment, series, sizes.records);
        if !seen.insert(shape(series, &flags)) {
            continue;
        }
        workloads.push(one(&experiment, series, flags, base, sizes).map_err(refused)?);
    }
    Ok(workloads)
}

fn names(experiment: &Experiment) -> String {
    let names = experiment.file.series.iter().map(|own| format!("{:?}", own.get_ref().name));
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the series that the user chose.
fn chosen<'a>(
    experiment: &'a Experiment,
    named: Named<'_>,
    place: &str,
) -> Result<Vec<&'a SeriesFile>> {
    let all = experiment.file.series.iter().map(|own| own.get_ref());
    let Some(wanted) = named.series else { return Ok(all.collect()) };
    let found: Vec<&SeriesFile> = all.filter(|own| own.name == wanted).collect();
    if found.is_empty() {
        let known = names(experiment);
        return Err(LabError::usage(format!(
            "{place} has no series {wanted:?}; name one of {known}"
        )));
    }
    Ok(found)
}

/// Returns why the tuner would run another workload than the series; `None` if it would not.
fn unlike(experiment: &Experiment, series: &SeriesFile, base: &BenchConfig) -> Option<String> {
    let why = if series.steps.is_some() {
        "it repeats its phases in steps, and the tuner runs a phase once"
    } else if series.csv.is_some() {
        "it takes its records from a CSV file: use csv:FILE"
    } else if series.memory_limit.is_some() {
        "it limits the memory of the process, and the tuner does not: remove memory_limit from a \
         copy of the file"
    } else {
        let given = durability(experiment, series)?;
        let own = base.store.durability;
        return (Durability::parse(&given) != Some(own)).then(|| {
            format!(
                "its durability is {given}, and the tuner's is {}: give --set durability={given}, \
                 or remove it from a copy of the file",
                own.name()
            )
        });
    };
    Some(why.into())
}

/// Returns the durability that the series sets. Of several values the first is taken.
fn durability(experiment: &Experiment, series: &SeriesFile) -> Option<String> {
    let is_it = |name: &str| name == "durability";
    let mut varied = series.vary.iter().filter(|(name, _)| is_it(name.get_ref()));
    if let Some(first) = varied.find_map(|(_, all)| all.get_ref().first()) {
        return Some(text_of(first));
    }
    let mut options = series.options.iter().chain(&experiment.file.options);
    options.find(|(name, _)| is_it(name.get_ref())).map(|(_, value)| text_of(value.get_ref()))
}

/// Returns a text that is equal for series with equal workloads.
fn shape(series: &SeriesFile, flags: &[(String, String)]) -> String {
    let phases = series.phases.iter().flat_map(|names| names.get_ref());
    let phases: Vec<&String> = phases.map(|name| name.get_ref()).collect();
    let ycsb: Vec<(&String, String)> =
        series.ycsb.iter().map(|(name, value)| (name.get_ref(), text_of(value))).collect();
    let operations = series.operations.as_ref().map(|own| text_of(own.get_ref()));
    let tasks = series.tasks.as_ref().map(|tasks| tasks.get_ref());
    let keys = series.keys.as_ref().map(|keys| keys.get_ref());
    let entries = series.entries.get_ref().all();
    format!("{:?}", (tasks, phases, operations, keys, ycsb, flags, entries))
}

/// Returns the flags of data and operations, with counts in proportion to `records`. Of several
/// values the first is taken.
fn flags(experiment: &Experiment, series: &SeriesFile, records: u64) -> Vec<(String, String)> {
    let options = experiment.file.options.iter().chain(&series.options);
    let given = options.map(|(name, value)| (name.get_ref(), value.get_ref()));
    let varied = series.vary.iter();
    let varied = varied.filter_map(|(name, all)| Some((name.get_ref(), all.get_ref().first()?)));
    let threads = series.threads.get_ref().all().first().copied().unwrap_or(1);
    let mut flags = vec![("threads".to_string(), threads.to_string())];
    for (name, value) in given.chain(varied) {
        let text = text_of(value);
        let of_mixgraph = Mixgraph::default().set(name, &text) == Ok(true);
        if !of_mixgraph && !DATA_FLAGS.contains(&name.as_str()) {
            continue;
        }
        let count = text.replace('_', "").parse::<u64>().ok().filter(|_| is_count(name));
        let text = count.map_or(text, |count| in_proportion(count, series, records).to_string());
        flags.retain(|(own, _)| own != name);
        flags.push((name.clone(), text));
    }
    flags
}

/// Returns a count of the series in proportion to `records`. Of several sizes the series has, the
/// largest is meant.
fn in_proportion(count: u64, series: &SeriesFile, records: u64) -> u64 {
    let entries = series.entries.get_ref().all().into_iter().max().unwrap_or(1).max(1);
    let times = records as f64 / entries as f64;
    ((count as f64 * times).round() as u64).max(count.min(1))
}

/// Returns the workload of a series. The error is the reason against it.
fn one(
    experiment: &Experiment,
    series: &SeriesFile,
    flags: Vec<(String, String)>,
    base: &BenchConfig,
    sizes: &Sizes,
) -> std::result::Result<Workload, String> {
    let mut config = base.clone();
    for (flag, value) in &flags {
        config.set(flag, value)?;
    }
    if let Some(list) = &series.tasks {
        let tasks = parse_tasks(list.get_ref()).map_err(|e| e.to_string())?;
        if tasks.iter().all(TaskSpec::is_without_engine) {
            let list = list.get_ref();
            return Err(format!("the tuner cannot measure {list:?}, which runs no engine"));
        }
        return Ok(Workload::Tasks { tasks, csv: None, entries: sizes.records, flags });
    }
    let placed = mixed::phases(&experiment.file, series, &experiment.engine_names());
    let phases: Vec<Phase> = placed
        .map_err(|(_, why)| why)?
        .into_iter()
        .map(|placed| placed.phase.with_counts(|count| in_proportion(count, series, sizes.records)))
        .collect();
    if let Some(phase) = phases.iter().find(|phase| phase.rate.is_some()) {
        return Err(format!(
            "the tuner cannot measure phase {:?}, whose operations arrive at a fixed rate: remove \
             rate from a copy of the file",
            phase.name
        ));
    }
    if phases.iter().all(|phase| phase.hidden) {
        return Err("all its phases are hidden, so there is nothing to measure".into());
    }
    let space = mixed::space(experiment, series, &config, sizes.records);
    let space = Box::new(space.map_err(|e| e.to_string())?);
    Ok(Workload::Mix { space, records: sizes.records, threads: config.threads, phases })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::workload::names;
    use crate::tune::workload::tests::parsed;

    const FILE: &str = r#"
title = "Phases"
engines = ["leveldb"]
[options]
key_size = 24
value_size = 200
write_buffer_size = "1M"
[phases.load]
start = "filled"
update = 1
hidden = true
[phases.reads]
read = 1
operations = "entries/5"
[phases.writes]
update = 1
operations = 1_000
[phases.paced]
read = 1
rate = 100
[[series]]
name = "mixed, small"
phases = ["load", "reads", "writes"]
entries = [1_000, 10_000]
threads = [2, 4]
[[series]]
name = "the same with another memtable"
phases = ["load", "reads", "writes"]
entries = [1_000, 10_000]
threads = [2, 4]
options = { write_buffer_size = "8M" }
[[series]]
name = "tasks"
tasks = "fillrandom,readrandom"
entries = 10_000
options = { value_size = 10, reads = 2_000, "leveldb.block_size" = 512 }
"#;

    fn tried(text: &str, series: &str, robust: Option<f64>) -> Result<Vec<Workload>> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, text).expect("written");
        parsed(&[&format!("{}{series}", path.display())], robust)
    }

    #[test]
    fn series_become_workloads_with_their_sizes_in_proportion() {
        let workloads = tried(FILE, "", None).expect("right");
        assert_eq!(names(&workloads), ["reads", "writes", "fillrandom", "readrandom"]);
        let Workload::Mix { space, records, threads, phases } = &workloads[0] else {
            panic!("phases")
        };
        assert_eq!((*records, *threads, phases.len()), (500, 2, 3));
        assert_eq!(space.pair_bytes_mean(), 224.0);
        // A fifth of 500 records, and a tenth of the 10,000 that the file has.
        let operations: Vec<u64> = phases.iter().map(|own| own.operations.value(500, 0)).collect();
        assert_eq!(operations, [500, 100, 50]);
        let Workload::Tasks { entries, flags, .. } = &workloads[1] else { panic!("tasks") };
        let flags: Vec<String> =
            flags.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(*entries, 500);
        assert_eq!(flags, ["threads=1", "key_size=24", "reads=100", "value_size=10"]);
    }

    #[test]
    fn one_series_is_chosen_by_its_name() {
        let workloads = tried(FILE, "#tasks", None).expect("right");
        assert_eq!(names(&workloads), ["fillrandom", "readrandom"]);
        let workloads = tried(FILE, "#mixed, small", None).expect("right");
        assert_eq!(names(&workloads), ["reads", "writes"]);
    }

    #[test]
    fn what_cannot_be_measured_is_named_with_file_and_series() {
        let edited = |from: &str, to: &str| FILE.replacen(from, to, 1);
        let paced = edited("\"reads\", \"writes\"", "\"paced\"");
        let hidden = edited("[\"load\", \"reads\", \"writes\"]", "[\"load\"]");
        let steps = edited("threads = [2, 4]", "steps = 3");
        let limited = edited("threads = [2, 4]", "memory_limit = \"64M\"");
        // A series that is refused, even if its phases are those of the series before it.
        let repeated = |own: &str| edited("options = { write_buffer_size = \"8M\" }", own);
        let limited_again = repeated("memory_limit = \"64M\"");
        let steps_again = repeated("steps = 3");
        let synced = repeated("options = { durability = \"sync\" }");
        let idle = edited("fillrandom,readrandom", "crc32c,stats");
        for (text, series, words) in [
            (FILE, "#none", "no series \"none\"; name one of \"mixed, small\""),
            (&paced, "", "series \"mixed, small\": the tuner cannot measure phase \"paced\""),
            (&hidden, "#mixed, small", "nothing to measure"),
            (&steps, "", "in steps"),
            (&limited, "", "memory_limit"),
            (&limited_again, "", "series \"the same with another memtable\": it limits"),
            (&steps_again, "", "series \"the same with another memtable\": it repeats"),
            (&synced, "", "give --set durability=sync"),
            (&idle, "#tasks", "crc32c,stats"),
            ("title = 3", "", "mine.toml: line 1"),
        ] {
            let error = tried(text, series, None).expect_err(words).to_string();
            assert!(error.contains(words) && error.contains("mine.toml"), "{error}");
        }
        let error = tried(FILE, "", Some(10.0)).expect_err("robust").to_string();
        assert!(error.contains("robust mode") && error.contains("mine.toml"), "{error}");
        let error = parsed(&["experiment:mine"], None).expect_err("unknown").to_string();
        assert!(error.contains("\"mine\"") && error.contains("ycsb-tuning"), "{error}");
    }

    #[test]
    fn durability_that_the_tuner_has_is_taken() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("mine.toml");
        let synced = FILE.replacen("key_size = 24", "key_size = 24\ndurability = \"sync\"", 1);
        std::fs::write(&path, synced).expect("written");
        let text = path.display().to_string();
        let named = Named::of(&text).expect("a file");
        let mut base = BenchConfig::default();
        let sizes = crate::tune::workload::tests::sizes(None);
        let error = workloads(named, &base, &sizes, &["leveldb"]).expect_err("buffered");
        assert!(error.to_string().contains("its durability is sync, and the tuner's is buffered"));
        base.set("durability", "sync").expect("known");
        assert_eq!(workloads(named, &base, &sizes, &["leveldb"]).expect("right").len(), 2);
    }

    #[test]
    fn names_of_experiments_are_told_from_other_workloads() {
        let of = |text| Named::of(text).map(|named| (named.name, named.series));
        assert_eq!(of("experiment:guard"), Some(("guard", None)));
        assert_eq!(of("experiment:guard#a b"), Some(("guard", Some("a b"))));
        assert_eq!(of("x/y.toml#a"), Some(("x/y.toml", Some("a"))));
        assert_eq!((of("a"), of("my.properties"), of("csv:a.csv")), (None, None, None));
    }
}
