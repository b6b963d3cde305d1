//! What is known about a store: its tables, a sample of its keys, its counters and its `LOG`.
//!
//! Invariants:
//! 1. The store is opened for reading only, also while another process has it open for writing.
//! 2. Counters come from that process alone. Without it they are `None`, not zero.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use esker::schema::OPTIONS;
use esker::{Db, DbIterator, Metrics};

use crate::commands::stats::age;
use crate::failure::{CORRUPTION, Failure};
use crate::store::file_system;

/// Maximum number of keys of the sample.
const SAMPLE_KEYS_MAX: u64 = 200_000;
/// Maximum bytes of keys and values of the sample.
const SAMPLE_BYTES_MAX: u64 = 64 << 20;
/// Minimum bytes of tables whose space is judged. Fixed parts of files outweigh smaller content.
const SPACE_BYTES_MIN: u64 = 1 << 20;
/// Maximum length of a `LOG` that is read, in bytes.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// Counts over the table files.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Tables {
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of keys and values in them, before compression.
    pub raw_bytes: u64,
    /// Entries: puts and deletes.
    pub entries: u64,
    /// Deletes among the entries.
    pub deletes: u64,
    /// Range tombstones.
    pub range_deletes: u64,
}

/// Space of a range at the begin of the store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Space {
    /// Bytes of the table files in the range.
    pub stored_bytes: f64,
    /// Bytes that the visible keys and values of the range would take at the store's compression.
    pub live_bytes: f64,
}

/// Counters of the process that has the store open.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// The metrics.
    pub metrics: Metrics,
    /// Time since the store was opened.
    pub open_for: Duration,
}

/// Write stalls in the file `LOG` since the last opening for writing.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Stalls {
    /// Number of stalls of 1 ms or more.
    pub count: u64,
    /// One of the lines.
    pub example: String,
}

/// Everything that the rules know.
#[derive(Debug, Default, Clone)]
pub struct Evidence {
    /// Path of the store, for commands in the advice.
    pub path: String,
    /// Options of the last opening for writing, by name, with the defaults.
    pub options: BTreeMap<String, String>,
    /// Shape on disk.
    pub metrics: Metrics,
    /// The table files.
    pub tables: Tables,
    /// Space of a sample; `None` if the store is small.
    pub space: Option<Space>,
    /// Counters; `None` without `--live`.
    pub live: Option<Live>,
    /// Stalls in `LOG`.
    pub stalls: Stalls,
    /// Problems of files, as sentences.
    pub problems: Vec<String>,
}

impl Evidence {
    /// Returns the value of an option.
    pub fn option(&self, name: &str) -> &str {
        self.options.get(name).map_or("", String::as_str)
    }

    /// Returns the value of an option that is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.option(name).parse().ok()
    }

    /// Returns the live counters.
    pub fn counters(&self) -> Option<&Metrics> {
        self.live.as_ref().map(|live| &live.metrics)
    }
}

/// Collects the evidence about the open store `db`. With `live`, the counters of the process that
/// has it open for writing are read. With `verify`, every byte is checked, and `progress` gets the
/// bytes done and in all.
///
/// # Errors
/// The store cannot be read, or `live` is set and no process publishes counters.
pub fn collect(
    db: &Db,
    live: bool,
    verify: Option<&mut dyn FnMut(u64, u64)>,
) -> Result<Evidence, Failure> {
    let live = if live { Some(live_counters(db.path())?) } else { None };
    let log = file_system().read(&db.path().join("LOG"), LOG_BYTES_MAX).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let mut evidence = Evidence {
        path: db.path().display().to_string(),
        options: options_in(&log),
        metrics: db.metrics(),
        tables: tables(db),
        stalls: stalls_in(&log),
        problems: problems_in(&log),
        live,
        ..Evidence::default()
    };
    let mut damage_in_sample = None;
    evidence.space = match space(db, &evidence.tables) {
        Err(failure) if failure.code() == CORRUPTION => {
            damage_in_sample = Some(failure.message());
            None
        }
        found => found?,
    };
    if let Some(metrics) = evidence.counters()
        && let Some(problem) = metrics.scrub_problem.clone()
        && evidence.problems.is_empty()
    {
        evidence.problems.push(problem);
    }
    if let Some(progress) = verify {
        let report = db.verify(progress)?;
        evidence.problems.extend(report.problems.iter().map(ToString::to_string));
    }
    if evidence.problems.is_empty() {
        evidence.problems.extend(damage_in_sample);
    }
    Ok(evidence)
}

fn live_counters(path: &Path) -> Result<Live, Failure> {
    let status = Db::live_status_on(file_system(), path)?;
    Ok(Live { open_for: age(status.opened), metrics: status.metrics })
}

fn tables(db: &Db) -> Tables {
    let mut tables = Tables::default();
    // A file with slices in several levels is listed once for each.
    let mut counted = HashSet::new();
    for table in db.tables().iter().filter(|table| counted.insert(table.number)) {
        tables.bytes += table.size_bytes;
        tables.raw_bytes += table.raw_bytes;
        tables.entries += table.entries;
        tables.deletes += table.deletes;
        tables.range_deletes += table.range_deletes;
    }
    tables
}

/// Compares the space of a range with its visible content. The range begins at the first key of the
/// default keyspace and has at most [`SAMPLE_KEYS_MAX`] keys.
fn space(db: &Db, tables: &Tables) -> Result<Option<Space>, Failure> {
    if tables.bytes < SPACE_BYTES_MIN || tables.raw_bytes == 0 {
        return Ok(None);
    }
    let mut iter = db.iter()?;
    let (start, end, raw_bytes) = sample(&mut iter)?;
    let Some(start) = start else { return Ok(None) };
    let stored_bytes = db.approximate_size(&start, &end)? as f64;
    let live_bytes = raw_bytes as f64 * tables.bytes as f64 / tables.raw_bytes as f64;
    let is_enough = stored_bytes >= SPACE_BYTES_MIN as f64 && live_bytes > 0.0;
    Ok(is_enough.then_some(Space { stored_bytes, live_bytes }))
}

/// First key, last key, and bytes of keys and values.
type Sample = (Option<Vec<u8>>, Vec<u8>, u64);

/// Returns the first and last key of the sample, and the bytes of its keys and values.
fn sample(iter: &mut DbIterator) -> Result<Sample, Failure> {
    let (mut start, mut end, mut keys, mut bytes) = (None, Vec::new(), 0, 0u64);
    iter.for_each_forward(|key, value| {
        start.get_or_insert_with(|| key.to_vec());
        end.clear();
        end.extend_from_slice(key);
        bytes += (key.len() + value.len()) as u64;
        keys += 1;
        match keys < SAMPLE_KEYS_MAX && bytes < SAMPLE_BYTES_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    Ok((start, end, bytes))
}

/// Text of the line of an opening for writing.
const OPENED: &str = " opened for writing in ";

/// Returns the lines of the log since the last opening for writing.
fn since_opening(log: &str) -> &str {
    log.rfind(OPENED).map_or("", |place| &log[place..])
}

/// Returns the options of the last opening for writing. The line has only those that are not the
/// defaults.
fn options_in(log: &str) -> BTreeMap<String, String> {
    let mut options: BTreeMap<String, String> =
        OPTIONS.iter().map(|spec| (spec.name.to_string(), spec.default.clone())).collect();
    let line = since_opening(log).lines().next().unwrap_or("");
    let changed = line.split_once("; options: ").map_or("", |(_, changed)| changed);
    for (name, value) in changed.split(", ").filter_map(|pair| pair.split_once('=')) {
        options.insert(name.into(), value.into());
    }
    options
}

fn stalls_in(log: &str) -> Stalls {
    let lines = since_opening(log).lines().filter(|line| line.contains(" write stall of "));
    let mut stalls = Stalls::default();
    for line in lines {
        stalls.count += 1;
        stalls.example = line.to_string();
    }
    stalls
}

fn problems_in(log: &str) -> Vec<String> {
    let damaged = |line: &&str| line.contains(" the scrub found damage: ");
    since_opening(log).lines().filter(damaged).map(String::from).take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-11-25T04:00:00.000Z opened for writing in 5 ms: 0 tables (0 B), no log \
                       read; options: policy=leveled, filter_bits_per_key=0\n\
                       2026-11-25T04:00:01.000Z write stall of 9 ms: every memtable is full\n\
                       2026-11-25T04:00:02.000Z closed\n\
                       2026-11-25T04:01:00.000Z opened for writing in 5 ms: 1 table (1 B), no log \
                       read; options: memtable_size_bytes=65536\n\
                       2026-11-25T04:01:01.000Z write stall of 7 ms: every memtable is full\n\
                       2026-11-25T04:01:02.000Z the scrub found damage: 000001.sst\n";

    #[test]
    fn log_is_read_from_the_last_opening_on() {
        let options = options_in(LOG);
        assert_eq!(options["memtable_size_bytes"], "65536");
        assert_eq!(
            (options["policy"].as_str(), options["filter_bits_per_key"].as_str()),
            ("fluid", "10")
        );
        let stalls = stalls_in(LOG);
        assert_eq!(stalls.count, 1);
        assert!(stalls.example.contains("7 ms"), "{stalls:?}");
        assert_eq!(problems_in(LOG).len(), 1);
    }

    #[test]
    fn missing_log_means_default_options_and_no_stalls() {
        assert_eq!(options_in("")["policy"], "fluid");
        assert_eq!(stalls_in("nothing"), Stalls::default());
    }
}
