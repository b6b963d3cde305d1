//! `esker stats`: prints a store's metrics as tables, as one object, or as OpenMetrics text.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use esker::internals::human_bytes;
use esker::report::{LevelMetrics, LiveStatus};
use esker::schema::METRICS;
use esker::{Db, Metrics};
use serde_json::{Map, Value, json};

use super::{print, stdout};
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::keyspaces::{Order, options_to_json, options_to_text};
use crate::store::{file_system, open_reader};

/// Arguments of `stats`.
#[derive(Args)]
pub struct StatsArgs {
    /// Store directory
    db: PathBuf,
    /// Print the metrics of the process that has the store open for writing. It publishes them once
    /// a second
    #[arg(long)]
    live: bool,
    /// Print the metrics in the OpenMetrics text format
    #[arg(long, conflicts_with = "json")]
    openmetrics: bool,
}

/// Prints the metrics. Without `--live`, counters since opening are zero; the `stats` command of
/// `shell` has those of its own store.
pub fn run(args: &StatsArgs, global: &Global) -> Outcome {
    if args.live && !global.set.is_empty() {
        return Err(Failure::usage("--set has no effect with --live, which opens no store"));
    }
    let live = if args.live { Some(Db::live_status_on(file_system(), &args.db)?) } else { None };
    let stats = match &live {
        Some(live) => Stats { metrics: live.metrics.clone(), trees: BTreeMap::new() },
        None => Stats::of(&open_reader(&args.db, global)?)?,
    };
    if args.openmetrics {
        let mut out = stdout();
        out.write_all(stats.metrics.to_openmetrics().as_bytes())?;
        out.flush()?;
        return Ok(0);
    }
    let as_json = || {
        let mut object = stats.to_json();
        if let Some(live) = &live {
            object["live"] = live_json(live);
        }
        object
    };
    let as_text = || match &live {
        Some(live) => format!("{}\n\n{}", live_text(live), stats.to_text()),
        None => stats.to_text(),
    };
    print(global.form(), as_json, as_text)?;
    Ok(0)
}

/// A tree: the keyspaces with the same key order and the same options of their own.
#[derive(Default)]
struct TreeStats {
    keyspaces: u64,
    /// `None` if no keyspace is left.
    order: Option<Order>,
    options: Vec<(String, String)>,
    table_files: u64,
    table_bytes: u64,
}

/// The metrics of a store and its trees by number. A running store publishes no trees.
pub struct Stats {
    metrics: Metrics,
    trees: BTreeMap<u32, TreeStats>,
}

impl Stats {
    /// Returns the statistics of a store.
    pub fn of(db: &Db) -> Result<Stats, Failure> {
        let mut trees: BTreeMap<u32, TreeStats> = BTreeMap::new();
        for name in db.keyspaces() {
            let Some(keyspace) = db.existing_keyspace(&name)? else { continue };
            let tree = trees.entry(keyspace.tree()).or_default();
            tree.keyspaces += 1;
            tree.order = Some(Order::of(&keyspace));
            tree.options = keyspace.options();
        }
        // A file with slices in several levels is listed once for each.
        let mut counted = HashSet::new();
        for table in db.tables() {
            if counted.insert(table.number) {
                let tree = trees.entry(table.tree).or_default();
                tree.table_files += 1;
                tree.table_bytes += table.size_bytes;
            }
        }
        Ok(Stats { metrics: db.metrics(), trees })
    }

    /// Formats the statistics as text: the levels, totals, cache, memory by owner, and the trees if
    /// there are several.
    pub fn to_text(&self) -> String {
        let text = metrics_to_text(&self.metrics);
        if self.trees.len() <= 1 { text } else { format!("{text}\n\n{}", self.trees_to_text()) }
    }

    fn trees_to_text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["tree", "keyspaces", "order", "files", "bytes", "options"]);
        for (number, tree) in &self.trees {
            table.add_row([
                number.to_string(),
                tree.keyspaces.to_string(),
                tree.order.map_or("-", Order::name).to_string(),
                tree.table_files.to_string(),
                human_bytes(tree.table_bytes),
                options_to_text(&tree.options),
            ]);
        }
        for column in [0, 1, 3, 4] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }

    /// Returns the statistics as one object, with units in the field names.
    pub fn to_json(&self) -> Value {
        let tree = |(number, tree): (&u32, &TreeStats)| {
            json!({
                "tree": number, "keyspaces": tree.keyspaces, "order": tree.order.map(Order::name),
                "table_files": tree.table_files, "table_bytes": tree.table_bytes,
                "options": options_to_json(&tree.options),
            })
        };
        let mut object = to_json(&self.metrics);
        if !self.trees.is_empty() {
            object["trees"] = self.trees.iter().map(tree).collect();
        }
        object
    }
}

/// Returns the time since `at`; zero if it lies in the future.
pub fn age(at: SystemTime) -> Duration {
    SystemTime::now().duration_since(at).unwrap_or_default()
}

/// Formats who published, when, and since when the store is open.
fn live_text(live: &LiveStatus) -> String {
    format!(
        "published {:.1} s ago by process {}, which opened the store {} s ago",
        age(live.updated).as_secs_f64(),
        live.process,
        age(live.opened).as_secs()
    )
}

/// Returns the same as an object.
pub fn live_json(live: &LiveStatus) -> Value {
    let unix_ms =
        |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    json!({
        "process": live.process, "version": live.version,
        "opened_unix_ms": unix_ms(live.opened), "updated_unix_ms": unix_ms(live.updated),
        "age_ms": age(live.updated).as_millis() as u64,
    })
}

fn ratio(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.2}"))
}

/// Returns the bytes written per byte written by the user; `None` before the first write.
fn amplification(written: u64, user: u64) -> Option<f64> {
    (user > 0).then(|| written as f64 / user as f64)
}

/// Formats the metrics as text: the levels, then totals, cache, and memory by owner.
fn metrics_to_text(metrics: &Metrics) -> String {
    let mut levels = Table::new();
    levels.load_style(presets::NOTHING);
    levels.set_header([
        "level",
        "guards",
        "runs max",
        "fragments",
        "files",
        "bytes",
        "read",
        "written",
        "W-amp",
        "merges",
        "moves",
        "gets",
    ]);
    for level in &metrics.levels {
        levels.add_row([
            level.level.to_string(),
            level.guards.to_string(),
            level.runs_max.to_string(),
            level.fragments.to_string(),
            level.files.to_string(),
            human_bytes(level.bytes),
            human_bytes(level.read_bytes),
            human_bytes(level.written_bytes),
            ratio(amplification(level.written_bytes, metrics.user_bytes)),
            level.compactions.to_string(),
            level.moves.to_string(),
            level.table_gets.to_string(),
        ]);
    }
    levels.column_iter_mut().for_each(|c| {
        c.set_cell_alignment(CellAlignment::Right);
    });
    let mut rest = Table::new();
    rest.load_style(presets::NOTHING);
    for (name, value) in totals(metrics) {
        rest.add_row([name, &value]);
    }
    rest.add_row(["observers", &observers(metrics)]);
    format!("{}\n\n{}", levels.trim_fmt(), rest.trim_fmt())
}

fn scrub(metrics: &Metrics) -> String {
    let found = match &metrics.scrub_problem {
        Some(problem) => format!("{} problems, the last one: {problem}", metrics.scrub_problems),
        None => "no problem".into(),
    };
    let read = human_bytes(metrics.scrub_bytes);
    format!("{read} read in {} rounds, {found}", metrics.scrub_rounds)
}

fn observers(metrics: &Metrics) -> String {
    format!(
        "{} listeners panicked, {} events and {} lines of LOG lost, {} failed updates of STATUS",
        metrics.listener_panics,
        metrics.events_lost,
        metrics.log_file_lines_lost,
        metrics.status_file_failures
    )
}

/// Formats how much of the value files their tables need.
fn value_files(metrics: &Metrics) -> String {
    let live = human_bytes(metrics.value_live_bytes);
    let all = human_bytes(metrics.value_bytes);
    format!("{all} in {} files, {live} referenced", metrics.value_files)
}

fn totals(metrics: &Metrics) -> Vec<(&'static str, String)> {
    let bytes = human_bytes;
    let mut rows = vec![
        ("format version", metrics.format_version.to_string()),
        ("tables", format!("{} in {} files", bytes(metrics.table_bytes), metrics.table_files)),
        ("value files", value_files(metrics)),
        ("compaction debt", bytes(metrics.debt_bytes)),
        ("last sequence number", metrics.last_seqno.to_string()),
        ("snapshots", metrics.snapshots.to_string()),
        (
            "written by the user",
            format!("{} in {} operations", bytes(metrics.user_bytes), metrics.user_ops),
        ),
        (
            "written to the log",
            format!("{}, synced {} times", bytes(metrics.log_bytes), metrics.log_syncs),
        ),
        (
            "written by flushes",
            format!("{} in {} flushes", bytes(metrics.flush_bytes), metrics.flushes),
        ),
        (
            "written by compactions",
            format!(
                "{} in {} compactions, {} read",
                bytes(metrics.compaction_bytes),
                metrics.compactions,
                bytes(metrics.compaction_read_bytes)
            ),
        ),
        ("write amplification", ratio(metrics.write_amplification())),
        (
            "write delays",
            format!(
                "slowed {} ms, stalled {} ms",
                metrics.slowed_us / 1000,
                metrics.stalled_us / 1000
            ),
        ),
        ("compaction yield", format!("{} ms for reads", metrics.yielded_us / 1000)),
        ("scrub", scrub(metrics)),
        (
            "cache",
            format!(
                "{} hits, {} misses, {} evictions, hit rate {}",
                metrics.cache_hits,
                metrics.cache_misses,
                metrics.cache_evictions,
                ratio(metrics.cache_hit_rate())
            ),
        ),
    ];
    rows.extend(memory(metrics));
    rows
}

fn memory(metrics: &Metrics) -> Vec<(&'static str, String)> {
    let (memory, bytes) = (&metrics.memory, human_bytes);
    vec![
        ("memory: active memtable", bytes(memory.active_memtable_bytes)),
        (
            "memory: frozen memtables",
            format!(
                "{} in {} memtables",
                bytes(memory.frozen_memtables_bytes),
                metrics.frozen_memtables
            ),
        ),
        ("memory: pooled for the next memtable", bytes(memory.pooled_bytes)),
        ("memory: unused parts of the cache's memory", bytes(memory.cache_spare_bytes)),
        ("memory: block sketches, part of the cache", bytes(memory.cache_reserved_bytes)),
        (
            "memory: cache",
            format!("{} of {}", bytes(memory.cache_bytes), bytes(memory.cache_capacity_bytes)),
        ),
        ("memory: indexes and filters", bytes(memory.tables_bytes)),
        ("memory: budget", bytes(memory.budget_bytes)),
    ]
}

/// Returns the metrics as one object. Each number has the name of its field.
pub fn to_json(metrics: &Metrics) -> Value {
    let of_level = |level: &LevelMetrics| {
        let mut object = Map::new();
        object.insert("level".into(), json!(level.level));
        for spec in METRICS {
            if let Some(value) = spec.level_value(level) {
                object.insert(spec.field.into(), json!(value));
            }
        }
        let ratio = amplification(level.written_bytes, metrics.user_bytes);
        object.insert("write_amplification".into(), json!(ratio));
        Value::Object(object)
    };
    let (mut all, mut memory) = (Map::new(), Map::new());
    let levels: Vec<Value> = metrics.levels.iter().map(of_level).collect();
    all.insert("levels".into(), Value::Array(levels));
    for spec in METRICS {
        if let Some(value) = spec.value(metrics) {
            let part = if spec.part == "memory" { &mut memory } else { &mut all };
            part.insert(spec.field.into(), json!(value));
        }
    }
    all.insert("scrub_problem".into(), json!(metrics.scrub_problem));
    all.insert("write_amplification".into(), json!(metrics.write_amplification()));
    all.insert("cache_hit_rate".into(), json!(metrics.cache_hit_rate()));
    all.insert("memory".into(), Value::Object(memory));
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_in_the_object() {
        let metrics = Metrics::default();
        let object = to_json(&metrics);
        for spec in METRICS.iter().filter(|spec| spec.part != "levels") {
            let part = if spec.part == "memory" { &object["memory"] } else { &object };
            assert_eq!(part[spec.field], json!(0), "{}", spec.field);
        }
        assert_eq!(object["scrub_problem"], Value::Null);
        assert_eq!(object["levels"], json!([]));
    }
}
