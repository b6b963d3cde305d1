//! Fields of the record. Field names contain the unit. A figure that was not measured is null.
//!
//! `schema_version` grows with every change that an older reader would misinterpret.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::counters::{Used, WriteSource};
use crate::measure::histogram::LatencySummary;
use crate::measure::idle::IdlePauses;
use crate::measure::quiet::Quiet;
use crate::measure::space::SpaceTimeline;
use crate::measure::timeline::Timeline;
use crate::target::{Capabilities, LsmCounts};

/// Schema version that this code writes and reads.
pub const SCHEMA_VERSION: u32 = 1;

/// One benchmark: engines × tasks × repetitions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Start time, in seconds since 1970 UTC.
    pub started_unix_seconds: u64,
    /// Wall time of the whole benchmark, in seconds.
    pub elapsed_seconds: f64,
    /// Machine of the measurements.
    pub machine: Machine,
    /// Commit of the measuring program, if known to its build.
    pub commit: Option<String>,
    /// Whether the sources of that build had uncommitted changes.
    pub commit_dirty: Option<bool>,
    /// Effective flags, by name.
    pub options: BTreeMap<String, String>,
    /// Seed of data and operations.
    pub seed: u64,
    /// Data written and read.
    pub workload: Workload,
    /// Requested engines, including those that could not run.
    pub engines: Vec<EngineRecord>,
    /// Base engine of the ratios: Esker, or the first engine that runs if Esker does not.
    pub base_engine: Option<String>,
    /// One entry per engine, repetition and task, in the order of execution.
    pub samples: Vec<TaskSample>,
    /// One entry per engine and repetition.
    pub sessions: Vec<SessionRecord>,
    /// Conditions that may have distorted the benchmark.
    pub warnings: Vec<String>,
}

/// The machine and its operating system.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model, as named by the operating system.
    pub cpu_model: Option<String>,
    /// Number of processors available to this process.
    pub cpu_count: usize,
    /// Last-level cache of a processor, as formatted by the operating system.
    pub cpu_cache: Option<String>,
    /// Installed memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Kernel name and release.
    pub kernel: Option<String>,
    /// Distribution.
    pub system: Option<String>,
    /// File system of the stores.
    pub file_system: Option<String>,
    /// Whether the lab was built with optimisation.
    pub optimised_build: bool,
}

/// The pairs of a benchmark.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// `generated`, or the path of the CSV file.
    pub source: String,
    /// Number of writes of a full fill.
    pub rows: u64,
    /// Number of distinct keys.
    pub keys: u64,
    /// Mean bytes of a key.
    pub key_bytes_mean: f64,
    /// Mean bytes of a value.
    pub value_bytes_mean: f64,
    /// Bytes of keys and values of a full fill.
    pub raw_bytes: u64,
    /// Number of unusable rows of the CSV file.
    pub bad_rows: u64,
    /// Fingerprint of the pairs, in hexadecimal.
    pub fingerprint: String,
    /// Requested number of repetitions.
    pub repetitions: usize,
    /// Number of threads of each task.
    pub threads: usize,
}

/// An engine of a benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EngineRecord {
    /// Name under which it was requested.
    pub name: String,
    /// Name, version and source.
    pub description: Option<String>,
    /// Capabilities of the engine.
    pub capabilities: Option<Capabilities>,
    /// Settings given to the engine, under its own option names.
    pub given: Vec<(String, String)>,
    /// Reason why it did not run, or stopped.
    pub error: Option<String>,
}

/// One task of one engine in one repetition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskSample {
    /// Name of the engine.
    pub engine: String,
    /// Name of the task.
    pub task: String,
    /// Index of the task in the list, from 0; a task may occur twice.
    pub position: usize,
    /// Repetition, from 0.
    pub repetition: usize,
    /// Number of operations of all threads.
    pub operations: u64,
    /// Mean time of an operation in its thread, in µs; null if it did not run.
    pub micros_per_op: Option<f64>,
    /// Operations per second of all threads together.
    pub ops_per_sec: Option<f64>,
    /// Wall time in seconds.
    pub elapsed_seconds: f64,
    /// Bytes of keys and values transferred, if counted by db_bench.
    pub user_bytes: Option<u64>,
    /// Bytes of keys and values written by the user.
    pub user_written_bytes: u64,
    /// Number of keys found by reads.
    pub found: Option<u64>,
    /// Number of keys that reads must find, if known.
    pub found_expected: Option<u64>,
    /// Number of reads with a result different from the written data.
    pub wrong: u64,
    /// CPU and I/O use during the task.
    pub used: Option<Used>,
    /// Bytes written per byte written by the user.
    pub write_amplification: Option<f64>,
    /// Counter used for the write amplification.
    pub write_source: Option<WriteSource>,
    /// Bytes of disk blocks allocated to the store after the task.
    pub disk_bytes: Option<u64>,
    /// Number of files of the store after the task.
    pub disk_files: Option<u64>,
    /// Peak resident memory during the task, without the lab's own memory.
    pub peak_memory_bytes: Option<u64>,
    /// Latencies of single operations, if requested.
    pub latency: Option<LatencySummary>,
    /// Completed operations per tenth of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Bytes on disk over time, if they were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<SpaceTimeline>,
    /// Wake-up delays of a sleeping thread during the task: the machine's own pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdlePauses>,
    /// Bytes of the pairs in the store after the task, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// Memory limit for engine and page cache in bytes, if one was in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// State of the store once quiet, after the last phase of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// Figures of each operation kind of a mixed phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindSample>,
    /// Bytes of keys and values read by the user.
    #[serde(default)]
    pub user_read_bytes: u64,
    /// User CPU seconds of the process during the task, in the system's ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_cpu_seconds: Option<f64>,
    /// System CPU seconds of the process during the task, in the system's ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_cpu_seconds: Option<f64>,
    /// What a log-structured engine counted during the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lsm: Option<LsmCounts>,
    /// Counts of the transactions, for a task of transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<TransactionSample>,
    /// Throughput and pushes of a queue. Its pops are in `latency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSample>,
    /// Arrival rate in operations per second, for a phase with a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// Whether the phase is only preparation, which is in no table.
    #[serde(default)]
    pub hidden: bool,
    /// Description of the failure, or the reason why the task does not apply.
    pub error: Option<String>,
    /// Whether the task does not apply to this engine or this data, which is not a failure; `error`
    /// has the reason.
    pub not_available: bool,
}

/// One kind of operation in a mixed phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KindSample {
    /// YCSB's name of the kind.
    pub kind: String,
    /// Number of operations that found their record or needed none.
    pub ok: u64,
    /// Latencies; with a rate, counted from the arrivals.
    pub latency: LatencySummary,
}

/// The transactions of a task.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TransactionSample {
    /// Number of runs that ended with a conflict. Each led to another run of the transaction.
    pub conflicts: u64,
    /// Maximum number of runs of one transaction.
    pub attempts_max: u64,
    /// Mean time of a commit in nanoseconds, for transactions that only read.
    pub commit_nanos: Option<f64>,
}

/// A queue at a constant depth. An operation is a pop with the push that follows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueSample {
    /// Number of keys in the queue, of all threads together.
    pub depth: u64,
    /// Operations per second of the first tenth of the operations.
    pub first_tenth_ops_per_sec: f64,
    /// Operations per second of the last tenth of the operations.
    pub last_tenth_ops_per_sec: f64,
    /// Latencies of the pushes.
    pub push: LatencySummary,
}

/// One round: one engine's run in one repetition, all tasks from an empty directory to the close.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Name of the engine.
    pub engine: String,
    /// Repetition, from 0.
    pub repetition: usize,
    /// Number of the round in the benchmark, from 0, which shows the order of the engines.
    #[serde(rename = "turn")]
    pub round: usize,
    /// Wall time in seconds, including preparation.
    pub elapsed_seconds: f64,
    /// CPU and I/O use of the tasks and of open and close.
    pub used: Option<Used>,
    /// Bytes of keys and values written by the user.
    pub user_written_bytes: u64,
    /// Bytes written per byte written by the user, including the close.
    pub write_amplification: Option<f64>,
    /// Bytes read by calls per byte read or written by the user; `None` if reads may have used a
    /// map instead.
    #[serde(default)]
    pub read_amplification: Option<f64>,
    /// Bytes of keys and values of the requested number of pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<u64>,
    /// Memory limit and its mechanism, if one was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<String>,
}

impl TaskSample {
    /// Creates a sample of a task that has not run.
    pub fn new(engine: &str, task: &str, position: usize, repetition: usize) -> TaskSample {
        TaskSample {
            engine: engine.into(),
            task: task.into(),
            position,
            repetition,
            operations: 0,
            micros_per_op: None,
            ops_per_sec: None,
            elapsed_seconds: 0.0,
            user_bytes: None,
            user_written_bytes: 0,
            found: None,
            found_expected: None,
            wrong: 0,
            used: None,
            write_amplification: None,
            write_source: None,
            disk_bytes: None,
            disk_files: None,
            peak_memory_bytes: None,
            latency: None,
            timeline: None,
            space: None,
            idle: None,
            live_bytes: None,
            memory_limit_bytes: None,
            quiet: None,
            kinds: Vec::new(),
            user_read_bytes: 0,
            user_cpu_seconds: None,
            system_cpu_seconds: None,
            lsm: None,
            transactions: None,
            queue: None,
            rate_per_second: None,
            hidden: false,
            error: None,
            not_available: false,
        }
    }

    /// Returns whether the task failed, as opposed to not applying.
    pub fn failed(&self) -> bool {
        self.error.is_some() && !self.not_available
    }
}
