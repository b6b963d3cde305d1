//! `esker stats`: prints a store's metrics as tables or as one object.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use esker::internals::human_bytes;
use esker::{Db, Metrics};
use serde_json::{Value, json};

use super::print;
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::keyspaces::{Order, options_to_json, options_to_text};
use crate::store::open_reader;

/// Arguments of `stats`.
#[derive(Args)]
pub struct StatsArgs {
    /// Store directory
    db: PathBuf,
}

/// Prints the metrics. Counters since opening are zero here; the `stats` command of `shell` has
/// live counters.
pub fn run(args: &StatsArgs, global: &Global) -> Outcome {
    let stats = Stats::of(&open_reader(&args.db, global)?)?;
    print(global.form(), || stats.to_json(), || stats.to_text())?;
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

/// The metrics of a store and its trees by number.
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
        if self.trees.len() == 1 { text } else { format!("{text}\n\n{}", self.trees_to_text()) }
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
        let mut object = metrics_to_json(&self.metrics);
        object["trees"] = self.trees.iter().map(tree).collect();
        object
    }
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

fn totals(metrics: &Metrics) -> Vec<(&'static str, String)> {
    let memory = &metrics.memory;
    let bytes = human_bytes;
    vec![
        ("tables", format!("{} in {} files", bytes(metrics.table_bytes), metrics.table_files)),
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

/// Returns the metrics as one object, with units in the field names.
fn metrics_to_json(metrics: &Metrics) -> Value {
    let levels: Vec<Value> = metrics
        .levels
        .iter()
        .map(|level| {
            json!({
                "level": level.level, "guards": level.guards, "runs_max": level.runs_max,
                "fragments": level.fragments, "files": level.files, "bytes": level.bytes,
                "read_bytes": level.read_bytes, "written_bytes": level.written_bytes,
                "write_amplification": amplification(level.written_bytes, metrics.user_bytes),
                "compactions": level.compactions, "moves": level.moves,
                "table_gets": level.table_gets,
            })
        })
        .collect();
    let memory = &metrics.memory;
    json!({
        "levels": levels,
        "table_bytes": metrics.table_bytes, "table_files": metrics.table_files,
        "debt_bytes": metrics.debt_bytes, "last_seqno": metrics.last_seqno,
        "snapshots": metrics.snapshots,
        "user_bytes": metrics.user_bytes, "user_ops": metrics.user_ops,
        "log_bytes": metrics.log_bytes, "log_mapped_bytes": metrics.log_mapped_bytes,
        "log_syncs": metrics.log_syncs,
        "flushes": metrics.flushes, "flush_bytes": metrics.flush_bytes,
        "compactions": metrics.compactions, "compaction_bytes": metrics.compaction_bytes,
        "compaction_read_bytes": metrics.compaction_read_bytes,
        "write_amplification": metrics.write_amplification(),
        "slowed_us": metrics.slowed_us, "rested_us": metrics.yielded_us,
        "stalled_us": metrics.stalled_us,
        "hints": metrics.hints, "hint_jumps": metrics.hint_jumps,
        "scrub": {
            "bytes": metrics.scrub_bytes, "rounds": metrics.scrub_rounds,
            "problems": metrics.scrub_problems, "problem": metrics.scrub_problem,
        },
        "cache": {
            "hits": metrics.cache_hits, "misses": metrics.cache_misses,
            "evictions": metrics.cache_evictions, "hit_rate": metrics.cache_hit_rate(),
        },
        "memory": {
            "active_memtable_bytes": memory.active_memtable_bytes,
            "frozen_memtables": metrics.frozen_memtables,
            "frozen_memtables_bytes": memory.frozen_memtables_bytes,
            "pooled_bytes": memory.pooled_bytes,
            "cache_spare_bytes": memory.cache_spare_bytes,
            "cache_lent_bytes": memory.cache_reserved_bytes,
            "cache_bytes": memory.cache_bytes,
            "cache_capacity_bytes": memory.cache_capacity_bytes,
            "tables_bytes": memory.tables_bytes, "budget_bytes": memory.budget_bytes,
        },
    })
}
