//! Summary of a record: one [`Cell`] per engine and task, one [`EngineTotal`] per engine.

use super::compare::{Ratio, median, ratio};
use crate::measure::histogram::LatencySummary;
use crate::measure::idle::IdlePauses;
use crate::measure::timeline::Timeline;
use crate::record::schema::{QueueSample, RunRecord, TaskSample, TransactionSample};
use crate::workload::tasks::is_without_engine;

/// Preferred base engine of the ratios.
pub const BASE_ENGINE: &str = "esker";

/// One engine's samples of one task: medians over the repetitions; `None` without measurements.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Name of the engine.
    pub engine: String,
    /// Name of the task.
    pub task: String,
    /// Index of the task in the list.
    pub position: usize,
    /// Name of the task, numbered if repeated.
    pub label: String,
    /// Microseconds per operation.
    pub micros_per_op: Option<f64>,
    /// Operations per second of all threads together.
    pub ops_per_sec: Option<f64>,
    /// Megabytes per second, if db_bench counts bytes for the task.
    pub mb_per_sec: Option<f64>,
    /// Ratio of operations per second to the base engine's.
    pub ratio: Option<Ratio>,
    /// Bytes written per byte written by the user.
    pub write_amplification: Option<f64>,
    /// Bytes of disk blocks allocated after the task.
    pub disk_bytes: Option<f64>,
    /// CPU seconds of all threads.
    pub cpu_seconds: Option<f64>,
    /// Peak memory of the engine in bytes, the maximum of all repetitions.
    pub peak_memory_bytes: Option<f64>,
    /// Number of keys found in the first repetition.
    pub found: Option<u64>,
    /// Number of operations of one repetition.
    pub operations: u64,
    /// Microseconds per operation, one value per repetition.
    pub samples: Vec<f64>,
    /// Latencies of the first repetition.
    pub latency: Option<LatencySummary>,
    /// Number of 100 ms windows without a completed operation in the first repetition.
    pub empty_windows: Option<usize>,
    /// Wake-up delays of an idle thread in the first repetition.
    pub idle: Option<IdlePauses>,
    /// Counts of the transactions in the first repetition.
    pub transactions: Option<TransactionSample>,
    /// Throughput and pushes of a queue in the first repetition.
    pub queue: Option<QueueSample>,
    /// First failure, or first reason why the task does not apply.
    pub error: Option<String>,
    /// Whether the task does not apply.
    pub not_available: bool,
}

/// One engine over its whole runs.
#[derive(Clone, Debug, Default)]
pub struct EngineTotal {
    /// Name of the engine.
    pub engine: String,
    /// Bytes written per byte written by the user, over a whole run including the close.
    pub write_amplification: Option<f64>,
    /// CPU seconds of a run.
    pub cpu_seconds: Option<f64>,
    /// Peak memory of any task in bytes.
    pub peak_memory_bytes: Option<f64>,
    /// Maximum disk usage after any task in bytes.
    pub disk_bytes_max: Option<f64>,
}

/// Returns all cells, ordered by task and then by engine.
pub fn cells(record: &RunRecord) -> Vec<Cell> {
    let mut tasks: Vec<(usize, &str)> =
        record.samples.iter().map(|sample| (sample.position, sample.task.as_str())).collect();
    tasks.sort_unstable();
    tasks.dedup();
    let mut cells = Vec::new();
    for (index, &(position, task)) in tasks.iter().enumerate() {
        let before = tasks[..index].iter().filter(|(_, name)| *name == task).count();
        let label = if before == 0 { task.to_string() } else { format!("{task}#{}", before + 1) };
        let of = |engine: &str| -> Vec<&TaskSample> {
            let wanted = |s: &&TaskSample| s.position == position && s.engine == engine;
            record.samples.iter().filter(wanted).collect()
        };
        let base = record.base_engine.as_deref().map(|name| speeds(&of(name)));
        for engine in &record.engines {
            let samples = of(&engine.name);
            if samples.is_empty() {
                continue;
            }
            let mut cell = cell(&samples);
            let is_base = record.base_engine.as_ref() == Some(&engine.name);
            cell.ratio = match &base {
                _ if is_without_engine(task) => None,
                // The ratio of the base engine to itself is 1, independent of the scatter of its
                // samples.
                Some(_) if is_base => cell.ops_per_sec.map(|_| Ratio::BASE),
                base => base.as_ref().and_then(|base| ratio(&speeds(&samples), base)),
            };
            cells.push(Cell { position, label: label.clone(), ..cell });
        }
    }
    cells
}

fn speeds(samples: &[&TaskSample]) -> Vec<f64> {
    samples.iter().filter(|s| !s.failed()).filter_map(|sample| sample.ops_per_sec).collect()
}

fn cell(samples: &[&TaskSample]) -> Cell {
    let middle = |of: &dyn Fn(&TaskSample) -> Option<f64>| {
        median(&samples.iter().filter_map(|sample| of(sample)).collect::<Vec<f64>>())
    };
    let first = samples[0];
    let failed = samples.iter().find(|sample| sample.error.is_some());
    Cell {
        engine: first.engine.clone(),
        task: first.task.clone(),
        micros_per_op: middle(&|s| s.micros_per_op),
        ops_per_sec: middle(&|s| s.ops_per_sec),
        mb_per_sec: middle(&|s| {
            let seconds = Some(s.elapsed_seconds).filter(|&seconds| seconds > 0.0)?;
            Some(s.user_bytes.filter(|&bytes| bytes > 0)? as f64 / 1_048_576.0 / seconds)
        }),
        write_amplification: middle(&|s| s.write_amplification),
        disk_bytes: middle(&|s| s.disk_bytes.map(|bytes| bytes as f64)),
        cpu_seconds: middle(&|s| s.used.map(|used| used.cpu_seconds)),
        peak_memory_bytes: most(samples.iter().filter_map(|s| s.peak_memory_bytes)),
        found: first.found,
        operations: first.operations,
        samples: samples.iter().filter_map(|sample| sample.micros_per_op).collect(),
        latency: first.latency.clone(),
        empty_windows: first.timeline.as_ref().and_then(Timeline::empty_windows),
        idle: first.idle,
        transactions: first.transactions,
        queue: first.queue.clone(),
        error: failed.and_then(|sample| sample.error.clone()),
        not_available: failed.is_some_and(|sample| sample.not_available),
        ..Cell::default()
    }
}

fn most(values: impl Iterator<Item = u64>) -> Option<f64> {
    values.max().map(|value| value as f64)
}

/// Returns the totals of the engines that ran.
pub fn totals(record: &RunRecord) -> Vec<EngineTotal> {
    let total = |name: &str| {
        let sessions: Vec<_> = record.sessions.iter().filter(|s| s.engine == name).collect();
        let samples = || record.samples.iter().filter(|sample| sample.engine == name);
        if sessions.is_empty() {
            return None;
        }
        let middle = |values: Vec<f64>| median(&values);
        Some(EngineTotal {
            engine: name.to_string(),
            write_amplification: middle(
                sessions.iter().filter_map(|s| s.write_amplification).collect(),
            ),
            cpu_seconds: middle(
                sessions.iter().filter_map(|s| s.used.map(|used| used.cpu_seconds)).collect(),
            ),
            peak_memory_bytes: most(samples().filter_map(|sample| sample.peak_memory_bytes)),
            disk_bytes_max: most(samples().filter_map(|sample| sample.disk_bytes)),
        })
    };
    record.engines.iter().filter_map(|engine| total(&engine.name)).collect()
}
