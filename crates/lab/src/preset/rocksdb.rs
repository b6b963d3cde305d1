//! The tab-separated report of RocksDB's `tools/benchmark.sh`, from a record of db_bench's tasks.
//!
//! Invariants:
//! 1. The columns are those of the script, in its order.
//! 2. A column that an engine cannot give is empty.
//! 3. Counts are those of the test alone, since the script runs each test in a process of its own.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::record::env::utc_text;
use crate::record::schema::{RunRecord, TaskSample};
use crate::run::config::BenchConfig;
use crate::target::Durability;

/// Tasks of the report, in their order.
pub const TASKS: &str = "fillseq,readrandom,multireadrandom,seekrandom,overwrite,readwhilewriting";

/// The script's columns with their meanings.
pub const COLUMNS: [(&str, &str); 27] = [
    ("ops_sec", "operations per second"),
    ("mb_sec", "MiB of keys and values per second"),
    ("lsm_sz", "size of the tables"),
    ("blob_sz", "size of the files of separated values"),
    ("c_wgb", "GiB written by flushes and compactions"),
    ("w_amp", "c_wgb divided by the GiB written by flushes"),
    ("c_mbps", "MiB per second written by flushes and compactions"),
    ("c_wsecs", "wall seconds of compactions, summed over threads"),
    ("c_csecs", "CPU seconds of compactions"),
    ("b_rgb", "GiB of separated values read by compactions"),
    ("b_wgb", "GiB of separated values written by compactions"),
    ("usec_op", "microseconds per operation"),
    ("p50", "median latency in microseconds"),
    ("p99", "99th percentile of the latency in microseconds"),
    ("p99.9", "99.9th percentile of the latency in microseconds"),
    ("p99.99", "99.99th percentile of the latency in microseconds"),
    ("pmax", "maximum latency in microseconds"),
    ("uptime", "seconds since the store was opened"),
    ("stall%", "time for which writers waited, in percent of the test"),
    ("Nstall", "number of these waits"),
    ("u_cpu", "user CPU seconds / 1000"),
    ("s_cpu", "system CPU seconds / 1000"),
    ("rss", "peak resident memory in GiB, without the lab's own"),
    ("test", "name of the test: t is the number of threads, s whether writes are synced"),
    ("date", "start of the benchmark, UTC"),
    ("version", "description of the engine"),
    ("job_id", "name of the engine"),
];

const MIB: f64 = (1u64 << 20) as f64;
const GIB: f64 = (1u64 << 30) as f64;

/// Writes the report: the meanings as comments, the header and a row for each test, or a JSON
/// object for each test.
pub fn write(record: &RunRecord, config: &BenchConfig, out: &mut dyn Write) -> io::Result<()> {
    let rows = record.samples.iter().map(|sample| row(sample, record, config));
    if config.json {
        for row in rows {
            writeln!(out, "{}", object(&row))?;
        }
        return Ok(());
    }
    for (name, meaning) in COLUMNS {
        writeln!(out, "# {name} - {meaning}")?;
    }
    writeln!(out, "{}", COLUMNS.map(|(name, _)| name).join("\t"))?;
    for row in rows {
        writeln!(out, "{}", row.join("\t"))?;
    }
    Ok(())
}

/// Returns the cells of a test; empty for what is not known.
pub fn row(sample: &TaskSample, record: &RunRecord, config: &BenchConfig) -> [String; 27] {
    let lsm = sample.lsm.unwrap_or_default();
    let seconds = Some(sample.elapsed_seconds).filter(|&seconds| seconds > 0.0);
    let bytes = sample.user_bytes.or(Some(sample.user_read_bytes)).filter(|&bytes| bytes > 0);
    let written = lsm.written_bytes.map(|bytes| bytes as f64);
    let flushed = lsm.flush_bytes.filter(|&bytes| bytes > 0).map(|bytes| bytes as f64);
    let per = |amount: Option<f64>, divisor: Option<f64>| Some(amount? / divisor?);
    let gib = |bytes: Option<u64>| fixed(bytes.map(|bytes| bytes as f64 / GIB), 3);
    let latency = sample.latency.as_ref();
    let engine = record.engines.iter().find(|engine| engine.name == sample.engine);
    let version = engine.and_then(|engine| engine.description.clone()).unwrap_or_default();
    [
        fixed(sample.ops_per_sec, 0),
        fixed(per(bytes.map(|bytes| bytes as f64 / MIB), seconds), 1),
        size(lsm.table_bytes),
        size(lsm.blob_bytes),
        gib(lsm.written_bytes),
        fixed(per(written, flushed), 1),
        fixed(per(written.map(|bytes| bytes / MIB), seconds), 1),
        fixed(lsm.compaction_seconds, 0),
        fixed(lsm.compaction_cpu_seconds, 0),
        gib(lsm.blob_read_bytes),
        gib(lsm.blob_written_bytes),
        fixed(sample.micros_per_op, 1),
        fixed(latency.map(|latency| latency.p50_micros), 1),
        fixed(latency.map(|latency| latency.p99_micros), 0),
        fixed(latency.map(|latency| latency.p999_micros), 0),
        fixed(latency.map(|latency| latency.p9999_micros), 0),
        fixed(latency.map(|latency| latency.max_micros), 0),
        fixed(lsm.uptime_seconds, 0),
        fixed(per(lsm.stalled_seconds.map(|stalled| stalled * 100.0), seconds), 1),
        lsm.stalls.map_or_else(String::new, |stalls| stalls.to_string()),
        fixed(sample.user_cpu_seconds.map(|seconds| seconds / 1e3), 4),
        fixed(sample.system_cpu_seconds.map(|seconds| seconds / 1e3), 4),
        gib(sample.peak_memory_bytes),
        test_name(sample, config),
        utc_text(record.started_unix_seconds).replace(' ', "T"),
        version.replace(['\t', '\n'], " "),
        sample.engine.clone(),
    ]
}

/// Returns the script's name of a test.
fn test_name(sample: &TaskSample, config: &BenchConfig) -> String {
    let (task, threads) = (sample.task.as_str(), config.threads);
    let synced = u8::from(config.store.durability == Durability::Sync);
    match task {
        "fillseq" => {
            let off = config.store.durability == Durability::None;
            let log = if off { "wal_disabled" } else { "wal_enabled" };
            format!("fillseq.{log}.v{}", config.value_size)
        }
        "overwrite" => format!("overwrite.t{threads}.s{synced}"),
        "seekrandom" => format!("fwdrange.t{threads}"),
        _ => format!("{task}.t{threads}"),
    }
}

fn fixed(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(String::new, |number| format!("{number:.decimals$}"))
}

/// Formats a size without decimals, as the script does.
fn size(bytes: Option<u64>) -> String {
    let Some(bytes) = bytes else { return String::new() };
    match bytes as f64 {
        bytes if bytes >= GIB => format!("{:.0}GB", bytes / GIB),
        bytes if bytes >= MIB => format!("{:.0}MB", bytes / MIB),
        bytes => format!("{:.0}KB", bytes / 1024.0),
    }
}

/// Returns a row as an object, with numbers where the cell is one and null where it is empty.
fn object(row: &[String; 27]) -> Value {
    let mut object = Map::new();
    for ((name, _), cell) in COLUMNS.iter().zip(row) {
        let value = match cell.parse::<f64>() {
            _ if cell.is_empty() => Value::Null,
            Ok(number) if number.is_finite() => json!(number),
            _ => json!(cell),
        };
        object.insert((*name).into(), value);
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::LsmCounts;
    use crate::workload::tasks::parse_tasks;

    #[test]
    fn header_has_exactly_the_columns_of_the_script() {
        let known = "ops_sec mb_sec lsm_sz blob_sz c_wgb w_amp c_mbps c_wsecs c_csecs b_rgb b_wgb \
                     usec_op p50 p99 p99.9 p99.99 pmax uptime stall% Nstall u_cpu s_cpu rss test \
                     date version job_id";
        assert_eq!(COLUMNS.map(|(name, _)| name).join(" "), known);
        assert_eq!(parse_tasks(TASKS).expect("known tasks").len(), 6);
    }

    #[test]
    fn unknown_columns_are_empty() {
        assert_eq!(size(Some(5 << 20)), "5MB");
        assert_eq!((size(Some(2048)), size(None)), ("2KB".into(), String::new()));
        assert_eq!(fixed(Some(1.26), 1), "1.3");
        let counts = LsmCounts { flush_bytes: Some(1 << 30), ..LsmCounts::default() };
        let now = LsmCounts { flush_bytes: Some(3 << 30), stalls: Some(4), ..counts };
        let since = now.since(&counts);
        assert_eq!((since.flush_bytes, since.stalls), (Some(2 << 30), None));
    }
}
