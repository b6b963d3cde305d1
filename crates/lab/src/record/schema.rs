//! The record's fields. Units are in the names; a figure that was not measured is null.
//!
//! `schema_version` grows with every change that an older reader would misread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::counters::{Used, WriteSource};
use crate::measure::histogram::LatencySummary;
use crate::measure::idle::IdlePauses;
use crate::measure::quiet::Quiet;
use crate::measure::timeline::Timeline;
use crate::target::Capabilities;

/// The version this code writes and reads.
pub const SCHEMA_VERSION: u32 = 1;

/// One run: engines × tasks × repetitions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// When the run began, seconds since 1970 UTC.
    pub started_unix_seconds: u64,
    /// Wall time of the whole run.
    pub elapsed_seconds: f64,
    /// Where it ran.
    pub machine: Machine,
    /// The commit the measuring program was built from, if its build knew it.
    pub commit: Option<String>,
    /// Whether that build's sources had uncommitted changes.
    pub commit_dirty: Option<bool>,
    /// The flags in force, by name.
    pub options: BTreeMap<String, String>,
    /// Seed of data and operations.
    pub seed: u64,
    /// What was written and read.
    pub workload: Workload,
    /// The engines asked for, those that could not run included.
    pub engines: Vec<EngineRecord>,
    /// The engine ratios refer to: Esker, or the first that runs where Esker does not.
    pub base_engine: Option<String>,
    /// One entry for each engine, repetition and task, in the order they ran.
    pub samples: Vec<TaskSample>,
    /// One entry for each engine and repetition.
    pub sessions: Vec<SessionRecord>,
    /// What may have spoiled the run.
    pub warnings: Vec<String>,
}

/// The machine and its system.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// As the system names it.
    pub cpu_model: Option<String>,
    /// Processors this process may use.
    pub cpu_count: usize,
    /// A processor's last cache, as the system writes it.
    pub cpu_cache: Option<String>,
    /// Installed memory.
    pub memory_bytes: Option<u64>,
    /// Kernel name and release.
    pub kernel: Option<String>,
    /// Distribution.
    pub system: Option<String>,
    /// File system the stores were on.
    pub file_system: Option<String>,
    /// Whether the lab was built with optimisation.
    pub optimised_build: bool,
}

/// The pairs of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// `generated` or the CSV's path.
    pub source: String,
    /// Writes of a full fill.
    pub rows: u64,
    /// Different keys.
    pub keys: u64,
    /// Mean bytes of a key.
    pub key_bytes_mean: f64,
    /// Mean bytes of a value.
    pub value_bytes_mean: f64,
    /// Bytes of keys and values of a full fill.
    pub raw_bytes: u64,
    /// Rows of the CSV that could not be used.
    pub bad_rows: u64,
    /// Fingerprint of the pairs, in hexadecimal.
    pub fingerprint: String,
    /// Repetitions asked for.
    pub repetitions: usize,
    /// Threads of each task.
    pub threads: usize,
}

/// An engine of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EngineRecord {
    /// The name it was asked for by.
    pub name: String,
    /// Name, version and source.
    pub description: Option<String>,
    /// What it can do.
    pub capabilities: Option<Capabilities>,
    /// What it was given, in its own option names.
    pub given: Vec<(String, String)>,
    /// Why it did not run, or stopped.
    pub error: Option<String>,
}

/// One task of one engine in one repetition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskSample {
    /// The engine's name.
    pub engine: String,
    /// The task's name.
    pub task: String,
    /// Place of the task in the list, from 0; a task may come twice.
    pub position: usize,
    /// From 0.
    pub repetition: usize,
    /// Operations done by all threads.
    pub operations: u64,
    /// Mean time of an operation as its thread saw it; null when it did not run.
    pub micros_per_op: Option<f64>,
    /// Operations a second, all threads together.
    pub ops_per_sec: Option<f64>,
    /// Wall time.
    pub elapsed_seconds: f64,
    /// Bytes of keys and values passed, where db_bench counts them.
    pub user_bytes: Option<u64>,
    /// Bytes of keys and values written by the user.
    pub user_written_bytes: u64,
    /// Keys found, for reads.
    pub found: Option<u64>,
    /// Keys that had to be found, where it is known.
    pub found_expected: Option<u64>,
    /// Reads that gave something else than what was written.
    pub wrong: u64,
    /// CPU and I/O during the task.
    pub used: Option<Used>,
    /// Bytes written for each byte the user wrote.
    pub write_amplification: Option<f64>,
    /// Which counter that is from.
    pub write_source: Option<WriteSource>,
    /// Disk blocks taken by the store after the task.
    pub disk_bytes: Option<u64>,
    /// Files of the store after the task.
    pub disk_files: Option<u64>,
    /// Most memory resident during the task, less what the lab itself held.
    pub peak_memory_bytes: Option<u64>,
    /// Latencies of single operations, when asked for.
    pub latency: Option<LatencySummary>,
    /// Operations finished in each tenth of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// How late a thread woke that only slept meanwhile: the machine's own pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdlePauses>,
    /// Bytes of the pairs in the store after the task, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// Bytes of memory that engine and page cache were limited to, where a limit was in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// What was found when the store was quiet, after the last phase of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// Each kind of operation of a mixed phase by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindSample>,
    /// Bytes of keys and values read by the user.
    #[serde(default)]
    pub user_read_bytes: u64,
    /// Operations a second that arrived, for a phase with a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// It only prepares what follows, and is in no table.
    #[serde(default)]
    pub hidden: bool,
    /// What went wrong, or why the task does not apply.
    pub error: Option<String>,
    /// The task does not apply to this engine or this data: `error` says why, and it is no failure.
    pub not_available: bool,
}

/// One kind of operation in a mixed phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KindSample {
    /// YCSB's name of it.
    pub kind: String,
    /// Operations that found their record, or needed none.
    pub ok: u64,
    /// Their latencies; with a rate, from when each arrived.
    pub latency: LatencySummary,
}

/// One engine's turn in one repetition: all tasks from an empty directory to the close.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The engine's name.
    pub engine: String,
    /// From 0.
    pub repetition: usize,
    /// Place in the run, from 0: which engine went before which.
    pub turn: usize,
    /// Wall time, preparing included.
    pub elapsed_seconds: f64,
    /// CPU and I/O of the tasks and of opening and closing.
    pub used: Option<Used>,
    /// Bytes of keys and values written by the user.
    pub user_written_bytes: u64,
    /// Bytes written for each byte the user wrote, closing included.
    pub write_amplification: Option<f64>,
    /// Bytes read by calls for each byte the user read or wrote; none where a map may have been
    /// read instead.
    #[serde(default)]
    pub read_amplification: Option<f64>,
    /// Bytes of keys and values of as many pairs as the turn was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<u64>,
    /// What memory was limited to, and by what, where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<String>,
}

impl TaskSample {
    /// A sample of a task that has not run.
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
            idle: None,
            live_bytes: None,
            memory_limit_bytes: None,
            quiet: None,
            kinds: Vec::new(),
            user_read_bytes: 0,
            rate_per_second: None,
            hidden: false,
            error: None,
            not_available: false,
        }
    }

    /// Whether the task went wrong (not merely did not apply).
    pub fn failed(&self) -> bool {
        self.error.is_some() && !self.not_available
    }
}
